"""What trainable operators share: a loop with early stopping, losses, checkpoints, and the ``fit`` command."""
