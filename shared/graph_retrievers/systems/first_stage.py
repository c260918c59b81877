"""The search whose nodes a reranker orders: a system, or an operator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from graph_retrievers.core.compositions import FirstStage
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.system import System, read_system
from graph_retrievers.systems.untrained import Untrained

# The checkpoints whose systems are being composed, each as the first search of the one before.
_UNDER_WAY: ContextVar[tuple[str, ...]] = ContextVar("checkpoints of first searches", default=())


def as_first(first: System | str | Operator) -> System | Operator:
    """Return the system of a text; a system and an operator as they are."""
    return first if isinstance(first, Operator) else read_system(first)


def system_text(search: System | str | Operator) -> str | None:
    """Return the text that :func:`read_system` reads as an equal system; None for an operator, and for a system without one.

    >>> system_text("ppr(damping=0.5, seeds=7)"), system_text(read_system("ppr"))
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


def read_first(text: str | None, checkpoint: str | Path | None) -> System:
    """Return the first search of a checkpoint by its text (see :func:`system_text`); InvalidArgumentError if it has none.

    >>> read_first("ppr(seeds=7)", "a folder")
    PPR(seeds=7)
    """
    if text is None:
        raise InvalidArgumentError(f"{checkpoint} was trained with a first search that it cannot name; pass it as first=.")
    return read_system(text)


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
    with _composing(getattr(system, "checkpoint", None)):
        return system.compose(index)


class CompositeSystem(System):
    """A system around others, such as a first search whose nodes it reranks."""

    @property
    @abstractmethod
    def inner(self) -> tuple[System | Operator, ...]:
        """The systems, or operators, inside."""

    @property
    def reads_edge_signals(self) -> bool:  # type: ignore[override]
        """Whether one of the systems inside reads signals over edges."""
        return any(isinstance(part, System) and part.reads_edge_signals for part in self.inner)

    def skips_names(self, index: Corpus) -> bool:
        """Return whether names in texts are left out of the graph: if each of those inside that walk leaves them out alone."""
        walks = [part for part in self.inner if composed(index, part).walks]
        return bool(walks) and all(isinstance(part, System) and part.skips_names(index) for part in walks)

    def untrained(self, index: Corpus) -> tuple[Untrained, ...]:
        """Return the parts of the systems inside that are not trained; those of operators are not known."""
        parts: list[Untrained] = []
        for system in self.inner:
            if isinstance(system, System):
                with _composing(getattr(system, "checkpoint", None)):
                    parts += system.untrained(index)
        return tuple(parts)


@contextmanager
def _composing(checkpoint: str | Path | None) -> Iterator[None]:
    """Keep in mind that the first search of a checkpoint is being composed, or asked what is not trained."""
    names, under_way = () if checkpoint is None else (str(checkpoint),), _UNDER_WAY.get()
    if set(names) & set(under_way):
        raise InvalidArgumentError(
            f"The checkpoint {str(checkpoint)!r} names itself as its first search; pass another search as first=, or fit it again "
            "with another one."
        )
    token = _UNDER_WAY.set((*under_way, *names))
    try:
        yield
    finally:
        _UNDER_WAY.reset(token)
