"""Interfaces of graph databases, vector stores and word stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

__all__ = [
    "CheckingGraphStore",
    "ComparingVectorStore",
    "EdgeColumns",
    "EdgeVectorStore",
    "GraphStore",
    "FetchedRows",
    "NumberedGraphStore",
    "ScopedGraphStore",
    "ScopedVectorStore",
    "ScopedWordStore",
    "SentenceStore",
    "StoredEdge",
    "StoredNode",
    "StoredSentence",
    "TitleMatch",
    "VectorStore",
    "WordStore",
]


class StoredNode(NamedTuple):
    """A node from a :class:`GraphStore`; `text` and `origin` are None if they were not requested."""

    id: str
    position: int
    degree: int
    title: str = ""
    type: str = ""
    metadata: Mapping[str, Any] = {}
    text: str | None = None
    origin: Mapping[str, Any] | None = None


class StoredEdge(NamedTuple):
    """A relationship row from a :class:`GraphStore`."""

    position: int
    source: str
    target: str
    relation: str = ""
    weight: float = 1.0
    text: str = ""


class StoredSentence(NamedTuple):
    """A sentence from a :class:`SentenceStore`: its number, the place of its passage, the names in it, and its cosine."""

    number: int
    home: int
    names: Sequence[int]
    cosine: float


@dataclass(frozen=True)
class EdgeColumns:
    """M relationship rows as columns, each of length M, where a :class:`StoredEdge` for each takes longer than the query.

    >>> edges = [StoredEdge(0, "loom", "card", "reads"), StoredEdge(7, "card", "engine")]
    >>> EdgeColumns.of(edges).target
    ('card', 'engine')
    """

    position: Sequence[int] = ()
    source: Sequence[str] = ()
    target: Sequence[str] = ()
    relation: Sequence[str] = ()
    weight: Sequence[float] = ()
    text: Sequence[str] = ()

    @classmethod
    def of(cls, edges: Sequence[StoredEdge] | EdgeColumns) -> EdgeColumns:
        """Return edges as columns."""
        return edges if isinstance(edges, EdgeColumns) else cls(*zip(*edges, strict=True))

    def __len__(self) -> int:
        """Return M."""
        return len(self.position)

    def __iter__(self) -> Iterator[StoredEdge]:
        """Yield each edge."""
        return map(StoredEdge, self.position, self.source, self.target, self.relation, self.weight, self.text)


class TitleMatch(NamedTuple):
    """A node found by its title: the requested title, and the id."""

    title: str
    id: str


@dataclass(frozen=True)
class FetchedRows:
    """The result of one round trip: nodes, relationship rows, and which nodes have the requested titles."""

    nodes: Sequence[StoredNode] = ()
    edges: Sequence[StoredEdge] | EdgeColumns = ()
    titled: Sequence[TitleMatch] = ()


@runtime_checkable
class GraphStore(Protocol):
    """A graph in a database. Each method is one round trip.

    One that can be described also has ``describe(signals, embedding)``, which returns a
    :class:`~graph_retrievers.graph.description.GraphDescription`: `signals` are names to show, and `embedding` is the model of the
    index, or None.
    """

    def sample(self, count: int) -> tuple[int, FetchedRows]:
        """Return the number of nodes N, and min(`count`, N) of them."""

    def read(
        self,
        *,
        ids: Collection[str] = (),
        positions: Collection[int] = (),
        texts: Collection[str] = (),
        expand: Collection[str] = (),
        titles: Collection[str] = (),
        names: Collection[str] = (),
        limit: int,
    ) -> FetchedRows:
        """Return nodes by id, position or title, with their texts (`texts`), and with texts, edges and neighbours (`expand`).

        `names` are the words, in folded case and separated by one space, of titles, or of ids if a title is empty; these nodes
        are returned with their texts.

        Ids that are not nodes are left out. With more than `limit` rows of one kind, only the first ``limit + 1`` are returned.
        """

    def schema(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """Return all node types, and all (type, relation, type) of edges."""


@runtime_checkable
class ScopedGraphStore(GraphStore, Protocol):
    """A graph store that can also be restricted to some of its nodes, for ``scope=``."""

    def within(self, scope: Mapping[str, Any]) -> GraphStore:
        """Return the store of the nodes that pass a filter, and of the edges between them, without a round trip.

        It answers as if there were no other nodes, also for degrees, except for positions, which do not change. It has
        `positions` too.
        """

    def positions(self, limit: int) -> Mapping[str, int]:
        """Return the position of each node by its id; with more than `limit` nodes, those of the first ``limit + 1``."""


@runtime_checkable
class NumberedGraphStore(GraphStore, Protocol):
    """A graph store that also lists its nodes, so that what questions cite by number, such as "Article 17 GDPR", is found in it.

    `has_numbers` says whether the graph was written with references by number
    (:class:`~graph_retrievers.construction.NumberedReferences`); without them, no numbers are looked up.
    """

    has_numbers: bool

    def list_nodes(self) -> Iterable[StoredNode]:
        """Return all nodes with their texts, in the order of their positions; several round trips."""


@runtime_checkable
class CheckingGraphStore(GraphStore, Protocol):
    """A graph store that also knows the fields of its nodes: a filter on what they do not have is refused, or a warning logged."""

    def check_filter(self, condition: Mapping[str, Any]) -> None:
        """Raise InvalidArgumentError if a filter compares a field with dates, and no node has a date in this field.

        A store may log a warning, once, of a field that no node has, and of a value that cannot match any value of a field.
        """


@runtime_checkable
class VectorStore(Protocol):
    """A vector store that compares by cosine, and whose ids are those of the nodes.

    `langchain_graph_retrievers.LangChainVectors` and `llama_graph_retrievers.LlamaIndexVectors` wrap a store of these frameworks.
    The answers equal those in memory only if ``search`` is exact. A store may have an attribute ``dimension``, the width of its
    vectors; without it, one vector is read when an index is opened. A store of vectors or of words whose attribute
    ``keeps_time_limits`` is True ends its calls itself: after a time of its own, at a ``time_limit``, and when the task that waits
    is cancelled. Other stores are called in a thread, which is left behind in these cases.
    """

    def search(self, vectors: np.ndarray, k: int) -> list[list[str]]:
        """Return the ids of the k nearest of each vector, best first, or of all if there are fewer than k."""

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """Return the vectors of ids, each of shape [d]; ids without a vector are left out."""


@runtime_checkable
class ScopedVectorStore(VectorStore, Protocol):
    """A vector store that can also be searched among some of its vectors, for ``scope=``."""

    def within(self, ids: Collection[str]) -> VectorStore:
        """Return the store of the vectors of these ids, without a round trip: its search finds the nearest among them."""


@runtime_checkable
class ComparingVectorStore(VectorStore, Protocol):
    """A vector store that also gives cosines, so that retrievers read vectors only where they need the vectors themselves."""

    def nearest(self, vectors: np.ndarray, k: int) -> list[list[tuple[str, float]]]:
        """Return what ``search`` does, each id with its cosine, which is 0 for a vector of zeros."""

    def cosines(self, pairs: Sequence[tuple[np.ndarray, Sequence[str]]]) -> list[Mapping[str, float]]:
        """Return for each of some vectors, with ids, the cosines by id, as `nearest`; ids without a vector are left out."""


@runtime_checkable
class EdgeVectorStore(Protocol):
    """The vectors of edges, compared by cosine, in the engine that has the graph. Each method is one round trip."""

    dimension: int

    def nearest(self, vectors: np.ndarray, k: int, *, exclude_types: Collection[str] = ()) -> list[list[tuple[StoredEdge, float]]]:
        """Return the k nearest edges of each vector, best first, each with its cosine, or all if there are fewer than k.

        No end of an edge has one of the types. Of edges whose cosines are that of the last up to 1e-6, those at the lowest
        positions are returned.
        """

    def vectors(self, edges: Sequence[StoredEdge]) -> Mapping[int, np.ndarray]:
        """Return the vectors of edges by their positions, each of shape [d]."""

    def within(self, ids: Collection[str]) -> EdgeVectorStore:
        """Return the store of the edges between nodes of these ids, without a round trip."""


@runtime_checkable
class SentenceStore(Protocol):
    """The sentences of passages, and the names in them, in the engine that has the graph. Each method is one round trip.

    Passages are given by their positions in the graph, in a scope by their places among its ids, and names by numbers. With
    `types`, only nodes of these types are passages, and otherwise all nodes with a text; a name is in at least one.
    """

    def numbers(self, keys: Sequence[str], types: Collection[str]) -> tuple[Mapping[str, int], bool]:
        """Return the names of some keys, of those that there are, and whether there are any names.

        Keys are those of :func:`~graph_retrievers.signals.entities.entity_key`.
        """

    def nearest(self, vectors: np.ndarray, types: Collection[str]) -> list[tuple[int, float]]:
        """Return for each vector the nearest name, of equally near ones that of the first passage, and its cosine.

        -1 and 0 if there is none.
        """

    def sentences(self, requests: Sequence[tuple[np.ndarray, Sequence[int]]], types: Collection[str]) -> list[list[StoredSentence]]:
        """Return for each vector and some names the sentences that mention one of these, in the order of their passages."""

    def mentions(
        self, passages: Sequence[int], names: Sequence[int], types: Collection[str]
    ) -> tuple[Mapping[int, np.ndarray], Mapping[int, np.ndarray]]:
        """Return the names in passages, and the passages of names: by each, an array of shape [n, 2], int64, if there are any.

        For a passage, these are names, each with the number of its passages; at most 1,000 are counted, perhaps with others than
        those of the types, or of a scope. For a name, these are passages, ascending, each with how often it has the name.
        """

    def spellings(self, names: Sequence[int]) -> Mapping[int, str]:
        """Return the names by their numbers, as the passage spells them that was written first."""

    def within(self, ids: Sequence[str]) -> SentenceStore:
        """Return the store of the passages of these ids, without a round trip."""


@runtime_checkable
class WordStore(Protocol):
    """The words of nodes in an engine that searches them, such as :class:`~graph_retrievers.stores.qdrant.QdrantWords`.

    Ids are those of the nodes. The engine splits a text into terms, each once; a score is the sum over the terms. Each method is
    one request.
    """

    def traits(self) -> Mapping[str, Any]:
        """Return the result of :func:`graph_retrievers.systems.traits.traits_of` for the index from which the store was filled."""

    def search(self, texts: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """Return the ids and scores, above 0, of the k best matches of each text, best first, or of all if fewer match."""

    def term_scores(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[list[Mapping[str, float]]]:
        """Return for each of some texts, with ids, the scores by id for each of its terms; ids without a term are left out."""


@runtime_checkable
class ScopedWordStore(WordStore, Protocol):
    """A word store that can also be searched among some of its nodes, for ``scope=``."""

    def within(self, ids: Collection[str]) -> WordStore:
        """Return the store of the words of these ids, without a round trip: its search finds the best among them."""
