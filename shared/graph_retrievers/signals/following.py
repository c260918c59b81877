"""Signals of a changed corpus, with vectors that documents bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.signals.signal import Signal

__all__ = ["followed_signals"]


def followed_signals(
    signals: Mapping[str, Signal],
    contents: Sequence[str],
    kept: np.ndarray,
    embed: Callable[[list[str]], Tensor],
    brought: Mapping[int, Tensor] | None = None,
) -> dict[str, Signal]:
    """Return signals as :meth:`Signal.updated` makes them; the signals themselves where all rows are as they were.

    Parameters
    ----------
    signals : mapping of str to Signal
        All over nodes, or all over edges.
    contents, kept, embed
        See :meth:`Signal.updated`; `kept` is an array.
    brought : mapping of int to Tensor, shape [d], optional
        Vectors of rows that the signal "dense" takes instead of embedding their contents.
    """
    found: dict[str, Signal] = {}
    for name, signal in signals.items():
        own = (brought or {}) if name == "dense" else {}
        rows = kept.copy()
        rows[list(own)] = -1
        if np.array_equal(rows, np.arange(len(signal))):
            found[name] = signal
            continue
        new = np.flatnonzero(rows < 0).tolist()

        def vectors(texts: list[str], own: Mapping[int, Tensor] = own, new: list[int] = new) -> Tensor:
            bare = [text for row, text in zip(new, texts, strict=True) if row not in own]
            made = iter(embed(bare) if bare else ())
            return torch.stack([own[row] if row in own else next(made).cpu() for row in new])

        found[name] = signal.updated(contents, torch.from_numpy(rows), vectors)
    return found
