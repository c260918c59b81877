"""Questions to learn from."""

from __future__ import annotations

from dataclasses import dataclass

from graph_retrievers.errors import InvalidArgumentError, shown

__all__ = ["LabelledQuery"]


@dataclass(frozen=True)
class LabelledQuery:
    """A question and the rows of its relevant nodes, at least one.

    >>> LabelledQuery("Who wrote a program?", (3,)).gold
    (3,)
    """

    text: str
    gold: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse a question without a relevant node."""
        if not self.gold:
            raise InvalidArgumentError(f"The question {shown(self.text)} has no relevant node; leave it out.")
