"""What a write to an engine changed, and how much of it may go."""

from __future__ import annotations

from typing import NamedTuple

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["Changes", "check_loss"]


class Changes(NamedTuple):
    """How many nodes, edges or points of an engine were written, got another place or degree alone, and were deleted."""

    written: int = 0
    moved: int = 0
    deleted: int = 0


def check_loss(where: str, held: int, gone: int, replace: bool) -> None:
    """Raise InvalidArgumentError if more than half of what an engine holds would be deleted, unless that is meant."""
    if 2 * gone > held and not replace:
        raise InvalidArgumentError(
            f"{where} holds {held:,} nodes, and {gone:,} of them are not in this index: it may be of other documents. Give another "
            "name to write this one beside it, or pass replace=True to write it in its place."
        )
