"""Load models of transformers: only from safetensors, without running their code or a progress bar, and only whole ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from graph_retrievers.device import resolve_device
from graph_retrievers.errors import InvalidArgumentError, ModelHeadError
from graph_retrievers.seeding import seeded_weights


class PretrainedModel:
    """A model of transformers with its tokenizer, from a name on a hub, a folder or the two objects; loaded at first use.

    `kind` and `label` are those of :func:`load_pretrained`. :attr:`name` is the name or folder, or the class of the model.
    """

    def __init__(self, model: str | Path | tuple[Any, Any], kind: str, label: str, device: str | torch.device | None) -> None:
        self._source, self._kind, self._label = model, kind, label
        self.name = type(model[0]).__name__ if isinstance(model, tuple) else str(model)
        self.device = resolve_device(device)
        self._loaded: tuple[Any, Any] | None = None

    def parts(self) -> tuple[Any, Any]:
        """Return the model, on the device and without dropout, and the tokenizer."""
        if self._loaded is None:
            source = self._source
            tokenizer, model = source[::-1] if isinstance(source, tuple) else load_pretrained(str(source), self._kind, self._label)
            self._loaded = model.eval().to(self.device), tokenizer
        return self._loaded


def load_pretrained(source: str, kind: str, label: str, of: str = "", advice: str = "", **options: Any) -> tuple[Any, Any]:
    """Return the tokenizer and the model from a name on a hub or a folder; InvalidArgumentError if they cannot be loaded.

    `kind` is the model's class in transformers, and `options` are those of its ``from_pretrained``. For the message, `label`
    says what was to be loaded, `of` its files, and `advice` what to pass instead of a model that lacks weights, which gets a
    ModelHeadError.
    """
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        options |= {"trust_remote_code": False, "use_safetensors": True, "output_loading_info": True}
        with no_loading_bar(), seeded_weights():
            model, report = getattr(transformers, kind).from_pretrained(source, **options)
    except Exception as error:  # files of strangers make transformers raise nearly anything
        raise InvalidArgumentError(
            f"No {label} could be loaded from {source!r}: {error} Expected a name on a hub or a folder with config.json, "
            f"model.safetensors and tokenizer files{of}."
        ) from error
    # transformers only warns that it fills missing weights with random numbers. Nothing here reads the pooler of an AutoModel.
    missing = sorted(key for key in report["missing_keys"] if kind != "AutoModel" or not key.startswith("pooler."))
    if missing:
        raise ModelHeadError(
            f"{source!r} has no weights for {', '.join(missing[:6])} of {type(model).__name__}: it is not a trained {label}. "
            f"{advice or 'Pass one whose files have all weights.'}"
        )
    return tokenizer, model


@contextmanager
def no_loading_bar() -> Iterator[None]:
    """Hide the bar "Loading weights" of transformers; bars of downloads are shown as before."""
    from huggingface_hub import utils as hub
    from transformers.utils import logging as messages

    visible, downloads = messages.is_progress_bar_enabled(), not hub.are_progress_bars_disabled()
    # This function hides the bars of downloads too, and its counterpart shows them.
    messages.disable_progress_bar()
    if downloads:
        hub.enable_progress_bars()
    try:
        yield
    finally:
        if visible:
            messages.enable_progress_bar()
            if not downloads:
                hub.disable_progress_bars()
