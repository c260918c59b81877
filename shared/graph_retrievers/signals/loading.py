"""Loading models of transformers without its progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_loading_bar"]


@contextmanager
def no_loading_bar() -> Iterator[None]:
    """Hide the bar "Loading weights" of transformers; bars of downloads are shown as before."""
    from huggingface_hub import utils as hub
    from transformers.utils import logging as messages

    shown, downloads = messages.is_progress_bar_enabled(), not hub.are_progress_bars_disabled()
    # This function hides the bars of downloads too, and its counterpart shows them.
    messages.disable_progress_bar()
    if downloads:
        hub.enable_progress_bars()
    try:
        yield
    finally:
        if shown:
            messages.enable_progress_bar()
            if not downloads:
                hub.disable_progress_bars()
