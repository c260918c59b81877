"""Load models of transformers: only from safetensors, without running their code, and without a progress bar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["load_pretrained", "no_loading_bar"]


def load_pretrained(source: str, kind: str, called: str, of: str = "", **options: Any) -> tuple[Any, Any]:
    """Return the tokenizer and the model from a name on a hub or a folder; InvalidArgumentError if they cannot be loaded.

    `kind` is the model's class in transformers, and `options` are those of its ``from_pretrained``. For the message, `called`
    says what was to be loaded, and `of` its files.
    """
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        with no_loading_bar():
            loads = getattr(transformers, kind).from_pretrained
            return tokenizer, loads(source, trust_remote_code=False, use_safetensors=True, **options)
    except Exception as error:  # files of strangers make transformers raise nearly anything
        raise InvalidArgumentError(
            f"No {called} could be loaded from {source!r}: {error} Expected a name on a hub or a folder with config.json, "
            f"model.safetensors and tokenizer files{of}."
        ) from error


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
