"""The search whose nodes a reranker orders: a system, or an operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from graph_retrievers.core.compositions import FirstStage
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError
from graph_retrievers.index.corpus import Corpus
from graph_retrievers.systems.system import System, read_system
from graph_retrievers.systems.untrained import Untrained

__all__ = ["written"]

# The checkpoints whose systems are being composed, each as the first search of the one before.
_UNDER_WAY: ContextVar[tuple[str, ...]] = ContextVar("checkpoints of first searches", default=())


def as_first(first: System | str | Operator) -> System | Operator:
    """Return the system of a text; a system and an operator as they are."""
    return first if isinstance(first, Operator) else read_system(first)


def written(search: System | str | Operator) -> str | None:
    """Return the text that :func:`read_system` reads as an equal system; None for an operator, and for a system without one.

    >>> written("ppr(damping=0.5, seeds=7)"), written(read_system("ppr"))
    ('ppr(seeds=7)', 'ppr')
    """
    if isinstance(search, Operator):
        return None
    system = read_system(search)
    text = str(system)
    try:
        return text if bool(read_system(text) == system) else None
    except (GraphRetrieverError, TypeError, ValueError):
        # Parts such as operators and models, and arrays, have no text.
        return None


def read_first(settings: Mapping[str, Any]) -> System | None:
    """Return the first search that the settings of a checkpoint name; None if they name none.

    ``first`` is its text (see :func:`written`). Earlier versions wrote its short name, and its parameters as ``first_settings``.

    >>> read_first({"first": "ppr", "first_settings": {"seeds": 7}})
    PPR(seeds=7)
    """
    text, beside = settings["first"], settings["first_settings"]
    if text is None:
        return None
    return read_system({"system": text, **beside} if beside else text)


def first_stage(index: Corpus, first: System | str | Operator, depth: int) -> Operator:
    """Return a system, on an index, or an operator as a search for `depth` nodes.

    Raises InvalidArgumentError if the system's checkpoint names itself as its first search, directly or indirectly.
    """
    return FirstStage(composed(index, first), depth)


def composed(index: Corpus, search: System | str | Operator) -> Operator:
    """Return the operator of a system, by its value or its text, on an index; an operator is returned as it is."""
    if isinstance(search, Operator):
        return search
    system = read_system(search)
    with _named(getattr(system, "checkpoint", None)):
        return system.compose(index)


def edges_read(*searches: System | str | Operator) -> bool:
    """Return whether one of some systems reads signals over edges; an operator tells nothing of them."""
    return any(not isinstance(search, Operator) and read_system(search).reads_edge_signals for search in searches)


def names_skipped(index: Corpus, *searches: System | str | Operator) -> bool:
    """Return whether mere names are left out of the graph for searches side by side: if each that walks leaves them out alone."""
    walks = [search for search in searches if composed(index, search).walks]
    skips = (not isinstance(search, Operator) and read_system(search).skips_names(index) for search in walks)
    return bool(walks) and all(skips)


def untrained_first(index: Corpus, first: System | str | Operator) -> tuple[Untrained, ...]:
    """Return the parts of a first search that are not trained; an operator tells nothing of them."""
    if isinstance(first, Operator):
        return ()
    system = read_system(first)
    with _named(getattr(system, "checkpoint", None)):
        return system.untrained(index)


@contextmanager
def _named(checkpoint: str | Path | None) -> Iterator[None]:
    """Keep in mind that the first search of a checkpoint is being composed, or asked what is not trained."""
    named, under_way = () if checkpoint is None else (str(checkpoint),), _UNDER_WAY.get()
    if set(named) & set(under_way):
        raise InvalidArgumentError(
            f"The checkpoint {str(checkpoint)!r} names itself as its first search; pass another search as first=, or fit it again "
            "behind another."
        )
    token = _UNDER_WAY.set((*under_way, *named))
    try:
        yield
    finally:
        _UNDER_WAY.reset(token)
