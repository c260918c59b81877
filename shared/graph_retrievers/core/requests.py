"""Requests: what an algorithm asks for one question. Their inputs and answers are arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from graph_retrievers.errors import InvalidArgumentError

__all__ = [
    "ByTitle",
    "Completion",
    "Contents",
    "Degree",
    "EdgeRows",
    "EdgeScores",
    "EdgeTexts",
    "EdgeVectors",
    "Edges",
    "EdgesAmong",
    "LowestEdgeScore",
    "Mentions",
    "Mix",
    "Near",
    "Nearest",
    "NearestByCosine",
    "NearestEdges",
    "Neighbors",
    "Pairs",
    "Relevance",
    "Request",
    "Scores",
    "Similarity",
    "Steps",
    "TermScores",
    "Texts",
    "Titled",
    "Vectors",
    "WeightedNeighbors",
    "Weights",
    "WithQuery",
]


AMONG = ("start", "name", "walk", "return")
"""The nodes that :class:`Nearest` can search."""


class Request:
    """A request of an algorithm for its question: the base class of all requests.

    All waiting requests with the same :meth:`key`, of all questions, are answered by one call. By default this is the backend's
    method `verb`; a new kind of request that needs only the index overrides :meth:`together`.

    Attributes
    ----------
    verb : str
        Name of the backend's method that answers it.
    shared : tuple of str
        Attributes that are equal in all requests answered together.
    reads : str
        Source of the answer, "signals", "graph" or "model", from which the kind of the operator follows
        (:func:`graph_retrievers.testing.kind_of`); "" for others, such as texts.
    costly : bool
        Whether a call costs as much as a call of a model. It then waits until all questions of a batch request something costly.
    tells : str
        What the answer says about nodes, for recording a search (:mod:`graph_retrievers.serve.recording`): "ranked",
        ``(nodes, scores)``; "scores" of the request's `nodes`; "neighbors" of these, a :class:`Near`; "edges" at these, ``(owner,
        edges, neighbors)``; "names", rows by name; "" for nothing.
    """

    verb: ClassVar[str] = ""
    shared: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[str] = ""
    costly: ClassVar[bool] = False
    tells: ClassVar[str] = ""

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError; if an attribute of the answer is read, ``yield`` is missing."""
        raise AttributeError(f"{type(self).__name__} has no {name!r}: it is a request; `yield` it, which gives the answer.")

    def __iter__(self) -> Iterator[Any]:
        """Raise TypeError; if an answer is unpacked, ``yield`` is missing."""
        raise TypeError(f"{type(self).__name__} has no parts: it is a request; `yield` it, which gives the answer.")

    def key(self) -> Hashable:
        """Return what requests that are answered together have in common, including whether they have their own texts."""
        return type(self), self.__dict__.get("text") is None, *(getattr(self, name) for name in self.shared)

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Any]]) -> Sequence[Any]:
        """Return the answers to requests of one key, each with the place of its question in the batch."""
        if not cls.verb:
            raise InvalidArgumentError(f"{cls.__name__} says nowhere how it is answered; give it a classmethod `together`.")
        return getattr(backend, cls.verb)(requests)  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """Number of nodes in the request, or of requested nodes."""
        return len(getattr(self, "nodes", ()))


class Near(NamedTuple):
    """Neighbours of n nodes, T in all.

    Attributes
    ----------
    owner : ndarray, shape [T], int64
        For each neighbour, the place of the node to which it belongs; ascending.
    node : ndarray, shape [T], int64
        The row of each neighbour.
    """

    owner: np.ndarray
    node: np.ndarray

    def masked(self, keep: np.ndarray) -> Near:
        """Return some of the neighbours: `keep`, shape [T], is a mask."""
        places = np.flatnonzero(keep)
        return Near(self.owner.take(places), self.node.take(places))


@dataclass(frozen=True)
class Nearest(Request):
    """The `k` best nodes of a signal: ``(nodes [n], scores [n])``, best first.

    Attributes
    ----------
    k : int
    signal : str, default "dense"
    returned : bool, default False
        Whether nodes that may start a traversal are found only if they may also be returned.
    text : str, optional
        Searched instead of the question: its words, or its vector, which the embedding model computes.
    types : tuple of str, default ()
        The node types to search; all by default.
    among : one of AMONG, default "start"
        The nodes that may be found: those that may start a traversal; those that pass `seed_filter`, even if they may not be
        returned, because the question names them; those that may be visited; those that may be returned.
    """

    verb = "nearest"
    reads = "signals"
    tells = "ranked"
    shared = ("signal", "returned", "types", "among")
    k: int
    signal: str = "dense"
    returned: bool = False
    text: str | None = None
    types: tuple[str, ...] = ()
    among: str = "start"

    @property
    def size(self) -> int:
        """How many nodes it asks for."""
        return self.k


@dataclass(frozen=True)
class NearestByCosine(Request):
    """The `k` nodes with the largest cosine with the question: ``(nodes [n], cosines [n])``, best first.

    They may start a traversal, have a vector, and none of the types `exclude_types`. With a `text`, its vector replaces that of
    the question.
    """

    verb = "closest"
    reads = "signals"
    tells = "ranked"
    shared = ("exclude_types",)
    k: int
    text: str | None = None
    exclude_types: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many nodes it asks for."""
        return self.k


@dataclass(frozen=True)
class NearestEdges(Request):
    """The `k` best edges of a signal: ``(rows [n], scores [n])``, best first.

    Both ends of an edge may be seeds by their names, and have none of the types `exclude_types`; with `returned`, they may also be
    returned.
    """

    verb = "nearest_edges"
    reads = "signals"
    shared = ("signal", "returned", "exclude_types")
    k: int
    signal: str
    returned: bool = False
    exclude_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class LowestEdgeScore(Request):
    """The lowest score of all edges in a signal whose ends may be seeds by their names; 0 if there are none.

    Their ends have none of the types `exclude_types`.
    """

    verb = "lowest_edge_score"
    reads = "signals"
    shared = ("signal", "exclude_types")
    signal: str
    exclude_types: tuple[str, ...] = ()


@dataclass(frozen=True)
class Titled(Request):
    """The rows of the nodes with each of n names, ascending: n lists. The name of a node is its title, or its id if that is empty.

    `fold` ignores case (:class:`graph_retrievers.graph.names.NameTable`).
    """

    verb = "titled"
    names: tuple[str, ...]
    fold: bool = True


@dataclass(frozen=True)
class Mentions(Request):
    """The names of nodes in the question: list of (name as spelled there, rows), in order.

    See :meth:`graph_retrievers.graph.names.NameTable.find`; `fold` ignores case.
    """

    verb = "mentions"
    reads = "signals"
    tells = "names"
    shared = ("fold",)
    fold: bool = True


@dataclass(frozen=True, eq=False)
class Similarity(Request):
    """Cosines of the question with nodes, shape [n]: float64, shape [n]; 0 where either has no vector."""

    verb = "similarity"
    reads = "signals"
    tells = "scores"
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class Scores(Request):
    """A signal's scores of nodes, shape [n], such as dot products with the question: float32, shape [n].

    With `text`, the scores for this text instead of the question.
    """

    verb = "scores"
    reads = "signals"
    tells = "scores"
    shared = ("signal",)
    nodes: np.ndarray
    signal: str = "dense"
    text: str | None = None


class EdgeScores(Scores):
    """A signal's scores of edges, by their rows."""

    tells = ""


@dataclass(frozen=True, eq=False)
class EdgeVectors(Request):
    """The vectors of edges by their rows, shape [n], at unit length, and their cosines with the question: ``([n, d], [n])``."""

    verb = "edge_vectors"
    reads = "signals"
    shared = ("signal",)
    rows: np.ndarray
    signal: str


@dataclass(frozen=True, eq=False)
class TermScores(Request):
    """A signal's scores of nodes, shape [n], by the T terms of the question: float32, shape [n, T]; their sums are the scores.

    A signal that does not distinguish terms has one. Nodes that are read together, as one text, have the largest score of each
    term.
    """

    verb = "term_scores"
    reads = "signals"
    shared = ("signal",)
    nodes: np.ndarray
    signal: str = "bm25"


@dataclass(frozen=True, eq=False)
class Texts(Request):
    """The texts of nodes, shape [n]: list of str; with `titles`, as models read them, after the title where the index says so."""

    verb = "texts"
    shared = ("titles",)
    nodes: np.ndarray
    titles: bool = False


@dataclass(frozen=True, eq=False)
class Vectors(Request):
    """Vectors of nodes, shape [n], scaled to unit length: float64, shape [n, d]; zeros for a node without a vector."""

    verb = "vectors"
    reads = "signals"
    nodes: np.ndarray


class Mix(NamedTuple):
    """The entries of a matrix [n, n] that are not 0, T in all; each array is of shape [T].

    Attributes
    ----------
    owner, node : ndarray, int64
        The row of each entry, ascending, and its column.
    share : ndarray, float32
    """

    owner: np.ndarray
    node: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray) -> Mix:
        """Return the entries of a matrix, shape [n, n]."""
        owner, node = np.nonzero(matrix)
        return cls(owner, node, matrix[owner, node])


@dataclass(frozen=True, eq=False)
class Relevance(Request):
    """The relevance model's scores of nodes, shape [n]: float32, shape [n]. Each pair of question and node is encoded once.

    Attributes
    ----------
    nodes : ndarray, shape [n]
    mix : ndarray, shape [n, n], float32, or Mix, optional
        Rows that sum to 1, or zero: the scored latents H become (1 - alpha) H + alpha mix H where a row is not zero.
    alpha : float, default 0.0
    texts : list of str, length n, optional
        What the model reads of each node; by default its title and text.
    model : RelevanceModel, optional
        Replaces that of the index.
    notes : list of str, optional
        The model adds notes on its scores, such as that it failed; pass the notes of the question, or of several as one.
    """

    verb = "relevance"
    reads = "model"
    tells = "scores"
    costly = True
    nodes: np.ndarray
    mix: np.ndarray | Mix | None = None
    alpha: float = 0.0
    texts: list[str] | None = None
    model: Any = None
    notes: list[str] | None = None

    def key(self) -> Hashable:
        """Return the model, whether the nodes have their own texts, and how much is mixed."""
        return Relevance, self.texts is None, id(self.model), self.alpha


@dataclass(frozen=True, eq=False)
class Contents(Request):
    """The nodes at rows, shape [n], with their texts: list of :class:`~graph_retrievers.graph.corpus_graph.Node`."""

    verb = "contents"
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class Neighbors(Request):
    """The neighbours of nodes, shape [n], that may be visited: :class:`Near`, ascending for each node.

    A neighbour of two of the nodes occurs twice, once for each owner; the given nodes may be among them. For each owner a
    neighbour counts once, and a node is never its own neighbour. With `parallel`, a neighbour counts once for each edge between
    the two, and a node is its own neighbour for each edge from it to itself. With `incoming`, and not `parallel`, they are only
    the neighbours from which an edge leads to the node.
    """

    verb = "neighbors"
    reads = "graph"
    tells = "neighbors"
    shared = ("parallel", "incoming")
    nodes: np.ndarray
    parallel: bool = False
    incoming: bool = False


@dataclass(frozen=True, eq=False)
class WeightedNeighbors(Request):
    """The neighbours of nodes, shape [n], that may be visited, and weights: ``(Near, weights [T, 2], read [n])``.

    They are those of :class:`Neighbors`. `weights`, float64, are the sums of the weights of all edges from a node to its neighbour,
    and of those to it; one of them is above 0. `read`, bool, says of which nodes they are: a backend with limits on what it reads
    leaves out the nodes that exceed them, of several first those that stand later in `nodes`. Each node is given once.
    """

    verb = "weighted_neighbors"
    reads = "graph"
    tells = "neighbors"
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class Steps(Request):
    """The neighbours of nodes, shape [n], of one type and by one relation, that may be visited: ``(Near, whole)``.

    Relations are followed in either direction; a neighbour counts once for each edge, and a node is its own neighbour for an edge
    from it to itself.

    Attributes
    ----------
    nodes : ndarray, shape [n]
    type, relation : str or None
        None for any; not for both.
    most : int
        Maximum number of edges to read. Nodes whose edges would exceed it, in the given order, are left out, and `whole` is False.
    """

    verb = "steps"
    reads = "graph"
    tells = "neighbors"
    nodes: np.ndarray
    type: str | None
    relation: str | None
    most: int


class EdgeRows(NamedTuple):
    """Edges at n nodes, T in all; each array is of shape [T].

    Attributes
    ----------
    owner : ndarray, int64
        The place of the node to which each edge belongs; ascending.
    row : ndarray, int64
        Number of the edge: its relationship row.
    far : ndarray, int64
        The node at its other end.
    relation : ndarray, int64
        Number of its relation (:meth:`graph_retrievers.core.question.Question.relation_names`).
    weight : ndarray, float32
    """

    owner: np.ndarray
    row: np.ndarray
    far: np.ndarray
    relation: np.ndarray
    weight: np.ndarray

    def masked(self, keep: np.ndarray) -> EdgeRows:
        """Return some of the edges: `keep`, shape [T], is a mask."""
        return self.taken(np.flatnonzero(keep))

    def taken(self, places: np.ndarray) -> EdgeRows:
        """Return the edges at some places, shape [n], in their order."""
        return EdgeRows(*(column.take(places) for column in self))


@dataclass(frozen=True, eq=False)
class Edges(Request):
    """The edges at nodes, shape [n], in either direction, whose other ends may be visited: :class:`EdgeRows`.

    An edge between two of the nodes occurs twice, once for each owner; one from a node to itself once.
    """

    verb = "edges_at"
    reads = "graph"
    tells = "edges"
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class EdgeTexts(Request):
    """What signals read for edges by their numbers, shape [M]: list of str.

    It is the text of an edge, or the names of its ends and its relation if that is empty.
    """

    verb = "edge_texts"
    rows: np.ndarray

    @property
    def size(self) -> int:
        """Number of edges."""
        return len(self.rows)


@dataclass(frozen=True)
class ByTitle(Request):
    """The nodes of a type with one of the given titles, ignoring case, that may start where they are named.

    The answer is their rows, ascending: int64, shape [n].
    """

    verb = "by_title"
    titles: tuple[str, ...]
    type: str


@dataclass(frozen=True, eq=False)
class Degree(Request):
    """The number of neighbours of nodes, shape [n], in the whole graph: int64, shape [n]; of edges with `parallel`.

    They are those of :class:`Neighbors`, even if they may not be visited; edges from a node to itself count with `parallel`.
    Neighbours of `exclude_types` do not count; not with `parallel` or `incoming`.
    """

    verb = "degree"
    reads = "graph"
    shared = ("parallel", "exclude_types", "incoming")
    nodes: np.ndarray
    parallel: bool = False
    exclude_types: tuple[str, ...] = ()
    incoming: bool = False


@dataclass(frozen=True, eq=False)
class Weights(Request):
    """Weights of the edges among distinct nodes, shape [n], that the algorithm has: ``(W [n, n], D [n])``, float32.

    W is symmetric and 0 where two nodes are not linked; of parallel edges the largest weight counts. D are the sums of weights in
    the whole graph. As for :class:`EdgesAmong`, it does not matter whether a node may be visited.
    """

    verb = "weights"
    reads = "graph"
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class EdgesAmong(Request):
    """The edges among distinct nodes, shape [n], that the algorithm has, even if they may not be visited.

    The answer is :class:`Near` with places in `nodes` at both ends, each edge from both ends; with `parallel`, once for each edge
    between the two. Edges from a node to itself are always left out.
    """

    verb = "links"
    reads = "graph"
    nodes: np.ndarray
    parallel: bool = False


@dataclass(frozen=True, eq=False)
class Pairs(Request):
    """The values of a function of ``(queries, query of each entry [n], node row of each entry [n])`` for nodes: float64, shape [n].

    The rows may also be those of edges, if the function reads these.
    """

    verb = "pairs"
    reads = "signals"
    shared = ("function",)
    function: Callable[..., Any]
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class WithQuery(Request):
    """The answer to `request` as if the question were another text.

    Nodes of `exclude_types`, and edges at them, then do not start a traversal. Without `returned`, the filter of the result does
    not apply; without a filter for the start, it applies to the start as usual.
    """

    verb = "instead"
    request: Any
    text: str
    exclude_types: tuple[str, ...] = ()
    returned: bool = False

    @property
    def size(self) -> int:
        """Number of nodes in the request, or of requested nodes."""
        return int(self.request.size)

    def key(self) -> Hashable:
        """Return the key of the request, and what else requests answered together have in common."""
        return WithQuery, self.request.key(), self.exclude_types, self.returned


def inner_request(request: Any) -> Request:
    """Return the request itself, for any text that replaces the question."""
    while isinstance(request, WithQuery):
        request = request.request
    return request  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Completion(Request):
    """The JSON value with which a language model answers a prompt, or the LanguageModelError if there is none.

    Attributes
    ----------
    model : LanguageModel
    prompt : str
    schema : mapping
        JSON schema of the answer.
    """

    verb = "complete"
    costly = True
    model: Any
    prompt: str
    schema: dict[str, Any]

    def key(self) -> Hashable:
        """Return the model, which need not be hashable."""
        return Completion, id(self.model)
