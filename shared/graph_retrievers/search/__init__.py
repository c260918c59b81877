"""How algorithms are run: what one question asks (requests), who answers (a backend), and the driver between them."""
