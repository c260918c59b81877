"""Training: a loop with early stopping, a loss, and checkpoints."""
