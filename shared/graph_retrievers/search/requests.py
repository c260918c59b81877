"""Requests: what an algorithm asks for one question. Arrays go in, arrays come out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.language import LanguageModel, complete_many
from graph_retrievers.signals.relevance import RelevanceModel

__all__ = [
    "AMONG",
    "ByTitle",
    "Closest",
    "Completion",
    "Contents",
    "Degree",
    "Instead",
    "Links",
    "Mentions",
    "Near",
    "Nearest",
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
    "Weights",
]


AMONG = ("start", "name", "walk", "return")
"""What :class:`Nearest` searches."""


class Request:
    """Something that an algorithm asks for its question: the base of all requests.

    Requests of the same :meth:`key`, of all questions that wait, are one call. By default the call is the backend's method
    `verb`; a request of a new kind that needs no more than the index overrides :meth:`together`.

    Attributes
    ----------
    verb : str
        Name of the method of the backend that answers.
    shared : tuple of str
        Attributes that requests answered together have in common.
    reads : str
        What the answer comes from, "signals", "graph" or "model", which says what kind of operator asks
        (:func:`graph_retrievers.search.operator.kind_of`); "" for neither, such as texts.
    costly : bool
        Whether a call costs as much as one of a model: it waits until all questions of a batch ask for something costly.
    tells : str
        What the answer says of nodes, for those who watch a search (:mod:`graph_retrievers.search.recording`): "ranked",
        ``(nodes, scores)``; "scores" of the request's `nodes`; "neighbors" of these, a :class:`Near`; "edges" at these, ``(owner,
        edges, neighbors)``; "names", rows by name; "" for nothing.
    """

    verb: ClassVar[str] = ""
    shared: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[str] = ""
    costly: ClassVar[bool] = False
    tells: ClassVar[str] = ""

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError; where an attribute of the answer is read, ``yield`` was forgotten."""
        raise AttributeError(f"{type(self).__name__} has no {name!r}: it is a request; `yield` it, which gives the answer.")

    def __iter__(self) -> Iterator[Any]:
        """Raise TypeError, as ``yield`` was forgotten where an answer is taken apart."""
        raise TypeError(f"{type(self).__name__} has no parts: it is a request; `yield` it, which gives the answer.")

    def key(self) -> Hashable:
        """Return what requests that are answered together have in common: also whether they are for texts of their own."""
        return type(self), self.__dict__.get("text") is None, *(getattr(self, name) for name in self.shared)

    @classmethod
    def together(cls, backend: Any, asked: Sequence[tuple[int, Any]]) -> Sequence[Any]:
        """Return the answers to requests of one key, each with the place of its question in the batch."""
        if not cls.verb:
            raise InvalidArgumentError(f"{cls.__name__} says nowhere how it is answered; give it a classmethod `together`.")
        return getattr(backend, cls.verb)(asked)  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """How many nodes it asks about, or for."""
        return len(getattr(self, "nodes", ()))

    @property
    def asked(self) -> type[Request]:
        """What the trace has of it."""
        return type(self)


class Near(NamedTuple):
    """Neighbours of n nodes, T in all.

    Attributes
    ----------
    owner : ndarray, shape [T], int64
        For each neighbour, the place of the node that it is a neighbour of; ascending.
    node : ndarray, shape [T], int64
        Its row.
    """

    owner: np.ndarray
    node: np.ndarray

    def kept(self, keep: np.ndarray) -> Near:
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
        Whether nodes that may start a traversal are found only if they may be returned, too.
    text : str, optional
        Is searched for in place of the question: its words, or its vector, which the embedding model makes.
    types : tuple of str, default ()
        The node types that are searched; all by default.
    among : one of AMONG, default "start"
        The nodes that may be found: those that may start a traversal; that `seed_filter` lets start, whatever may be returned, as
        the question names them; that may be walked to; that may be returned.
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
class Closest(Request):
    """The `k` nodes of the largest cosine with the question: ``(nodes [n], cosines [n])``, best first.

    They may start a traversal, have a vector, and none of the types `exclude_types`. With a `text`, its vector takes the place of
    that of the question.
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
class Titled(Request):
    """The rows of the nodes of each of n names, ascending: n lists. The name of a node is its title, or its id if that is empty.

    With `fold`, upper and lower case are alike (:class:`graph_retrievers.graph.names.NameTable`).
    """

    verb = "titled"
    names: tuple[str, ...]
    fold: bool = True


@dataclass(frozen=True)
class Mentions(Request):
    """The names of nodes in the question: list of (name as it is spelled there, rows), in order.

    See :meth:`graph_retrievers.graph.names.NameTable.find`; with `fold`, upper and lower case are alike.
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

    With `text`, those of another text in place of the question.
    """

    verb = "scores"
    reads = "signals"
    tells = "scores"
    shared = ("signal",)
    nodes: np.ndarray
    signal: str = "dense"
    text: str | None = None


@dataclass(frozen=True, eq=False)
class TermScores(Request):
    """A signal's scores of nodes, shape [n], by the T terms of the question: float32, shape [n, T]; their sums are the scores.

    A signal that tells no terms apart has one. Nodes that are read together, as one text, have the largest score of each term.
    """

    verb = "term_scores"
    reads = "signals"
    shared = ("signal",)
    nodes: np.ndarray
    signal: str = "bm25"


@dataclass(frozen=True, eq=False)
class Texts(Request):
    """The texts of nodes, shape [n]: list of str."""

    verb = "texts"
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class Vectors(Request):
    """Vectors of nodes, shape [n], at unit length: float64, shape [n, d]; zeros where a node has none."""

    verb = "vectors"
    reads = "signals"
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class Relevance(Request):
    """The relevance model's scores of nodes, shape [n]: float32, shape [n]. Each pair of question and node is encoded once.

    Attributes
    ----------
    nodes : ndarray, shape [n]
    mix : ndarray, shape [n, n], float32, optional
        Rows that sum to 1, or zero: the latents H that are scored become (1 - alpha) H + alpha mix H where a row is not zero.
    alpha : float, default 0.0
    texts : list of str, length n, optional
        What the model reads of each node; by default its title and text.
    model : RelevanceModel, optional
        In place of that of the index.
    notes : list of str, optional
        What the model has to tell of its scores is added to it, such as that it failed; give the notes of the question.
    """

    verb = "relevance"
    reads = "model"
    tells = "scores"
    costly = True
    nodes: np.ndarray
    mix: np.ndarray | None = None
    alpha: float = 0.0
    texts: list[str] | None = None
    model: RelevanceModel | None = None
    notes: list[str] | None = None

    def key(self) -> Hashable:
        """Return the model, and whether the nodes have texts of their own."""
        return Relevance, self.texts is None, id(self.model)


@dataclass(frozen=True, eq=False)
class Contents(Request):
    """The nodes of rows, shape [n], with their texts: list of :class:`~graph_retrievers.graph.corpus_graph.Node`."""

    verb = "contents"
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class Neighbors(Request):
    """The neighbours of nodes, shape [n], that may be walked to: :class:`Near`, ascending for each node.

    A neighbour of two of the nodes is there twice, once for each owner; a node asked for may be among them. For each owner a
    neighbour counts once, and a node is never its own neighbour. With `parallel`, a neighbour counts once for each edge that joins
    the two, and a node is its own for each edge from it to itself.
    """

    verb = "neighbors"
    reads = "graph"
    tells = "neighbors"
    shared = ("parallel",)
    nodes: np.ndarray
    parallel: bool = False


@dataclass(frozen=True, eq=False)
class Steps(Request):
    """The neighbours of nodes, shape [n], of one type and by one relation, that may be walked to: ``(Near, whole)``.

    Relations are walked in either direction; a neighbour counts once for each edge, and a node is its own for an edge from it to
    itself.

    Attributes
    ----------
    nodes : ndarray, shape [n]
    type, relation : str or None
        None for any; not for both.
    most : int
        Edges to read. Nodes whose edges would go beyond it, in the order given, are left out, and `whole` is False.
    """

    verb = "steps"
    reads = "graph"
    tells = "neighbors"
    nodes: np.ndarray
    type: str | None
    relation: str | None
    most: int


@dataclass(frozen=True)
class ByTitle(Request):
    """The nodes of a type with one of some titles, upper and lower case alike, that may start where they are named.

    The answer is their rows, ascending: int64, shape [n].
    """

    verb = "by_title"
    titles: tuple[str, ...]
    type: str


@dataclass(frozen=True, eq=False)
class Degree(Request):
    """The number of neighbours of nodes, shape [n], in the whole graph: int64, shape [n]; of edges with `parallel`.

    They are those of :class:`Neighbors`, whether they may be walked to or not: edges from a node to itself count with `parallel`.
    """

    verb = "degree"
    reads = "graph"
    shared = ("parallel",)
    nodes: np.ndarray
    parallel: bool = False


@dataclass(frozen=True, eq=False)
class Weights(Request):
    """Weights of the edges among distinct nodes, shape [n], that the algorithm holds: ``(W [n, n], D [n])``, float32.

    W is symmetric and 0 where two nodes are not linked; of parallel edges the largest weight counts. D are the sums of weights
    in the whole graph. As for :class:`Links`, it does not matter whether a node may be walked to.
    """

    verb = "weights"
    reads = "graph"
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class Links(Request):
    """The edges among distinct nodes, shape [n], that the algorithm holds, whether they may be walked to or not.

    The answer is :class:`Near` with places in `nodes` at both ends, each edge from either end; once for each edge that joins the
    two with `parallel`. Edges from a node to itself are left out, with `parallel` too.
    """

    verb = "links"
    reads = "graph"
    nodes: np.ndarray
    parallel: bool = False


@dataclass(frozen=True, eq=False)
class Pairs(Request):
    """What a function of ``(queries, query of each entry [n], node row of each entry [n])`` gives for nodes: float64, shape [n].

    Rows of edges do as well, if the function reads such.
    """

    verb = "pairs"
    reads = "signals"
    shared = ("function",)
    function: Callable[..., Any]
    nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class Instead(Request):
    """A request as if the question were another text: what `request` is answered with.

    Nodes of `exclude_types` do not start a traversal then, nor do edges at them. Without `returned`, the filter of the result does
    not hold; without a filter for the start, it holds for that as ever.
    """

    verb = "instead"
    request: Any
    text: str
    exclude_types: tuple[str, ...] = ()
    returned: bool = False

    @property
    def size(self) -> int:
        """How many nodes the request asks about, or for."""
        return int(self.request.size)

    @property
    def asked(self) -> type[Request]:
        """The type of the request."""
        return self.request.asked  # type: ignore[no-any-return]

    def key(self) -> Hashable:
        """Return that of the request, and what else is asked together."""
        return Instead, self.request.key(), self.exclude_types, self.returned


@dataclass(frozen=True, eq=False)
class Completion(Request):
    """The JSON value that a language model answers a prompt with, or the LanguageModelError why it gave none.

    Attributes
    ----------
    model : LanguageModel
    prompt : str
    schema : mapping
        JSON schema of the answer.
    """

    costly = True
    model: LanguageModel
    prompt: str
    schema: dict[str, Any]

    def key(self) -> Hashable:
        """Return the model, which need not be hashable."""
        return Completion, id(self.model)

    @classmethod
    def together(cls, backend: Any, asked: Sequence[tuple[int, Completion]]) -> list[Any]:
        """Return the answers to all prompts, several of which are asked at the same time."""
        prompts, schemas = [request.prompt for _, request in asked], [request.schema for _, request in asked]
        found = dict(complete_many(asked[0][1].model, prompts, schemas))
        return [found[place] for place in range(len(asked))]
