"""What trainable operators share: a loop with early stopping, losses, checkpoints, and the ``fit`` command."""

from graph_retrievers.learning.checkpoint import load_checkpoint, save_checkpoint
from graph_retrievers.learning.loop import History, fit
from graph_retrievers.learning.loss import sampled_cross_entropy

__all__ = ["History", "fit", "load_checkpoint", "sampled_cross_entropy", "save_checkpoint"]
