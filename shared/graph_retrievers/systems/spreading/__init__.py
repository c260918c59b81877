"""Query-aware spreading activation (Glybovets and Makarov, 2026): seeds, gated propagation, chains, passages."""
