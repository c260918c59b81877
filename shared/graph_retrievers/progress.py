"""Progress bars: a moving bar on a terminal and in a notebook, else lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

_SECONDS = 10


def progress_bar(items: Iterable[Any] | None = None, **options: Any) -> Any:
    """Return a bar of tqdm for `items`, or for calls of ``update``; in a log file it is a line at most every ten seconds.

    `options` are those of ``tqdm.tqdm``.
    """
    from tqdm.asyncio import tqdm_asyncio
    from tqdm.auto import tqdm

    # Where tqdm finds a notebook, it makes another class.
    if sys.stderr.isatty() or tqdm is not tqdm_asyncio:
        return tqdm(items, **options)
    return tqdm(items, file=_Lines(sys.stderr), mininterval=_SECONDS, miniters=1, **options)


class _Lines:
    """A stream that ends each state of a bar with the end of a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        state = text.strip("\r\n ")
        if state:
            self._stream.write(f"{state}\n")

    def flush(self) -> None:
        self._stream.flush()
