"""The changes of a write to an engine, and how much it may delete."""

from __future__ import annotations

from typing import NamedTuple

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["Changes", "check_loss"]


class Changes(NamedTuple):
    """How many nodes, edges or points of an engine were written, only got another place or degree, and were deleted."""

    written: int = 0
    moved: int = 0
    deleted: int = 0


def check_loss(where: str, held: int, gone: int, replace: bool) -> None:
    """Raise InvalidArgumentError if more than half of an engine's contents would be deleted, unless that is intended."""
    if 2 * gone > held and not replace:
        raise InvalidArgumentError(
            f"{where} holds {held:,} nodes, and {gone:,} of them are not in this index: it may be of other documents. Give another "
            "name to write this one beside it, or pass replace=True to write it in its place."
        )
