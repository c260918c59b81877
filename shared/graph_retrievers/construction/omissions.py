"""What is left out of an input because it is wrong: counted, and named in one warning, or refused."""

from __future__ import annotations

import logging

from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError

_MOST_ITEMS = 10


class Omissions:
    """The items of one input that cannot be used, each with the reason.

    Parameters
    ----------
    source : str
        What the input is called in messages, such as "the property graph".
    strict : bool, default False
        Whether :meth:`report` refuses the input if an item is left out.

    Examples
    --------
    >>> omissions = Omissions("the list", strict=True)
    >>> omissions.add("entity 3", "its name is empty")
    >>> omissions.report(logging.getLogger("graph_retrievers"))
    Traceback (most recent call last):
    graph_retrievers.errors.InvalidArgumentError: 1 item of the list cannot be used: entity 3 (its name is empty).
    """

    def __init__(self, source: str, strict: bool = False) -> None:
        self.source, self.strict = source, strict
        self.items: list[str] = []

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.items)

    def add(self, name: str, reason: str) -> None:
        """Add an item that is left out, and the reason."""
        self.items.append(f"{name} ({reason})")

    def report(self, logger: logging.Logger, advice: str = "", error: type[GraphRetrieverError] = InvalidArgumentError) -> None:
        """Warn once of all items, of which the first ten are named; with `strict` raise an error that names them all."""
        if not self.items:
            return
        count = f"{len(self.items):,} item{'s' * (len(self.items) > 1)} of {self.source}"
        advice = f" {advice}" if advice else ""
        if self.strict:
            raise error(f"{count} cannot be used: {'; '.join(self.items)}.{advice}")
        more = f"; and {len(self.items) - _MOST_ITEMS:,} more" if len(self.items) > _MOST_ITEMS else ""
        logger.warning("Left out %s: %s%s.%s", count, "; ".join(self.items[:_MOST_ITEMS]), more, advice)
