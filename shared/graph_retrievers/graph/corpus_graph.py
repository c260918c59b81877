"""The corpus graph: nodes with texts, relationship rows, and a simple undirected view of these."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import repeat
from numbers import Real
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import as_list
from graph_retrievers.cache import Cache
from graph_retrievers.device import resolve_device
from graph_retrievers.errors import DuplicateNodeError, InvalidArgumentError, UnknownNodeError, shown
from graph_retrievers.graph.plain import check_text, copied, plain
from graph_retrievers.graph.ragged import slices

__all__ = ["CorpusGraph", "Edge", "Node"]

T = TypeVar("T")
# In single precision, sums of larger weights overflow and shares of smaller ones vanish. The
# largest weight is 1e30 as float32 keeps it, so that a weight that is read back from single precision is valid, too.
LIGHTEST, HEAVIEST = 1e-30, 1.0000000150474662e30


@dataclass(frozen=True)
class Node:
    """One node: a document, an entity or a passage.

    Parameters
    ----------
    id : str
        Identifier, unique in the graph.
    text : str
    title : str, default ""
        Name; signals read ``title + ". " + text``.
    type : str, default ""
        Node type, for typed graphs.
    metadata : mapping, default {}
        Other values that JSON can represent; filters read them. A graph keeps tuples and sets as lists, dates as ISO strings, and
        so on: see :func:`graph_retrievers.graph.plain.plain`.
    origin : mapping, default {}
        What a framework stores for a document besides text and metadata, such as the keys that a LlamaIndex node hides from
        language models. It is kept and saved, but signals and filters do not read it. ``markdown`` is the text that hits show
        instead of `text`: see :meth:`shown`.
    embedding : array-like, shape [d], optional
        Vector of the node, if already computed; an index uses it instead of embedding the node. A graph does not keep it.

    Examples
    --------
    >>> Node("p1", "The engine weaves patterns.", title="Engine", metadata={"year": 1843}).metadata["year"]
    1843
    """

    id: str
    text: str
    title: str = ""
    type: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    origin: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    embedding: Any = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The title, or the id if that is empty."""
        return self.title or self.id

    def shown(self) -> Node:
        """Return the node as hits show it: with the Markdown from which its text was read, if ``origin`` contains it.

        Examples
        --------
        >>> Node("a", "See cards.", origin={"markdown": "See [cards](cards.md)."}).shown().text
        'See [cards](cards.md).'
        """
        if "markdown" not in self.origin:
            return self
        origin = {name: value for name, value in self.origin.items() if name != "markdown"}
        return replace(self, text=self.origin["markdown"], origin=origin)


@dataclass(frozen=True)
class Edge:
    """One edge: a relationship row of the graph.

    Parameters
    ----------
    source, target : str
        Ids of the nodes that it connects.
    relation : str, default ""
        Name of the relation, such as "cites".
    weight : float, default 1.0
        From 1e-30 to 1e30; PageRank and GRanker read it.
    text : str, default ""
        Text of the edge, such as the sentence that states a fact; signals over edges read it.
    metadata : mapping, default {}

    Raises
    ------
    InvalidArgumentError
        If a field has the wrong type, or the weight is out of range.

    Examples
    --------
    >>> Edge("ada", "babbage", "knows", weight=2.0)
    Edge(source='ada', target='babbage', relation='knows', weight=2.0, text='', metadata={})
    """

    source: str
    target: str
    relation: str = ""
    weight: float = 1.0
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check the fields."""
        for name in ("source", "target", "relation", "text"):
            if not isinstance(getattr(self, name), str):
                raise InvalidArgumentError(
                    f"The edge {shown(self, 200)} has the {name} {shown(getattr(self, name))}; expected a string."
                )
        weight = self.weight
        # Checks of abstract classes take most of the time that an edge takes.
        number = type(weight) is float or (isinstance(weight, Real) and not isinstance(weight, bool))
        if not number or not LIGHTEST <= weight <= HEAVIEST:
            raise InvalidArgumentError(
                f"The edge {shown(self, 200)} has the weight {shown(weight, 50)}; expected a number from 1e-30 to 1e+30."
            )
        if type(self.metadata) is not dict and not isinstance(self.metadata, Mapping):
            raise InvalidArgumentError(f"The edge {shown(self, 200)} has the metadata {shown(self.metadata)}; expected a mapping.")
        for name, text in (("relation", self.relation), ("text", self.text)):
            if text:
                check_text(text, f"{name} of the edge from {self.source!r} to {self.target!r}")
        if self.metadata:
            # Where the edge is made, so that it is refused before anything is embedded.
            metadata = copied(plain(self.metadata, f"metadata of the edge from {self.source!r} to {self.target!r}"))
            object.__setattr__(self, "metadata", metadata)

    @classmethod
    def of(cls, edge: EdgeLike) -> Edge:
        """Return an edge from an :class:`Edge`, (source, target) or (source, target, relation)."""
        if isinstance(edge, Edge):
            return edge
        if isinstance(edge, str) or not isinstance(edge, Sequence) or not 2 <= len(edge) <= 3:
            raise InvalidArgumentError(
                f"An edge is {shown(edge, 200)}; expected Edge(source, target, ...), (source id, target id) or "
                "(source id, target id, relation)."
            )
        return cls(*edge)


COLUMNS = ("ids", "texts", "titles", "types", "metadata", "origins")
"""The lists of a graph with one entry per node."""

EdgeLike = Edge | tuple[str, str] | tuple[str, str, str]
"""Accepted forms of an edge."""


class Rows(NamedTuple):
    """Relationship rows as arrays, see :class:`CorpusGraph`; texts and metadata are empty if no row has any."""

    sources: np.ndarray
    targets: np.ndarray
    relations: np.ndarray
    weights: np.ndarray
    texts: list[str]
    metadata: list[dict[str, Any]]


@dataclass(frozen=True)
class Incidence:
    """Relationship rows as seen from each node: a CSR matrix over both ends of every row.

    `indptr`, shape [N + 1], int64, contains its row pointers; the others have an entry for each of the 2R ends. `neighbors`,
    int32, are the nodes at the other end, ascending within a node, and `relations`, int32, indices into
    ``CorpusGraph.relation_names``. `forward` is True where the row points from the node to the neighbour. `rows` are the
    relationship rows and `keys` ``node * N + neighbour``, ascending, both int64.
    """

    indptr: Tensor
    neighbors: Tensor
    relations: Tensor
    forward: Tensor
    rows: Tensor
    keys: Tensor


class CorpusGraph:
    """Nodes with texts, and the relations between them, on one device.

    There are two views of the edges. *Relationship rows* keep the edges as given: direction, relation and parallel edges. The
    *simple* view is the undirected graph without parallel edges and self loops, as CSR. FastInsight and GAR read the simple view;
    PageRank, spreading activation and typed traversal read the rows.

    Parameters
    ----------
    ids, texts : sequence of str, length N
        Identifier and text of each node. Ids must be distinct.
    titles, types : sequence of str, length N, optional
        Name and type of each node; empty strings by default.
    metadata, origins : sequence of mapping, length N, optional
        Those of each :class:`Node`; empty by default. They are copied, and values are kept as values for JSON: see
        :func:`graph_retrievers.graph.plain.plain`.
    edges : iterable of Edge, (source, target) or (source, target, relation)
        Relationship rows by node id. Every id must be a node.
    include_titles : bool, default True
        Whether signals read ``title + ". " + text``; only the text if a title is empty.
    device : str or torch.device, optional
        Device of the tensors; the CPU by default.

    Attributes
    ----------
    indptr : Tensor, shape [N + 1], int64
    indices : Tensor, shape [nnz], int32
        The simple view; columns ascend within a row and each undirected edge has two entries.
    degree : Tensor, shape [N], int32
        Number of distinct neighbours of each node.
    sources, targets : Tensor, shape [R], int64
    relations : Tensor, shape [R], int32
        Relationship rows in the order given; `relations` is an index into ``relation_names``.
    weights : Tensor, shape [R], float32
    edge_texts, edge_metadata : list, length R
        Texts and metadata of the rows; an empty list if no row has any.
    node_types : Tensor, shape [N], int32
        Index into ``type_names``.
    cache : Cache
        Results that depend only on the graph.

    Raises
    ------
    DuplicateNodeError
        If two nodes share an id.
    UnknownNodeError
        If an edge names an id that is not a node.
    InvalidArgumentError
        If the sequences differ in length, an id is not a non-empty string, an edge is malformed, or metadata or a text cannot be
        saved.

    Examples
    --------
    >>> graph = CorpusGraph(["a", "b"], ["An engine.", "A program."], edges=[("b", "a", "runs on")])
    >>> graph.edges()
    [Edge(source='b', target='a', relation='runs on', weight=1.0, text='', metadata={})]
    """

    def __init__(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        *,
        titles: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
        origins: Sequence[Mapping[str, Any]] | None = None,
        edges: Iterable[EdgeLike] = (),
        include_titles: bool = True,
        device: str | torch.device | None = None,
    ) -> None:
        size = len(ids)
        self.ids = list(ids)
        self.texts = _column("texts", texts, size)
        self.titles = _column("titles", titles, size) if titles is not None else [""] * size
        self.types = _column("types", types, size) if types is not None else [""] * size
        self.include_titles = include_titles
        self._row_of: dict[str, int] = {}
        for row, node in enumerate(self.ids):
            if not isinstance(node, str) or not node:
                raise InvalidArgumentError(f"Node {row} has the id {shown(node)}; ids are non-empty strings.")
            if self._row_of.setdefault(node, row) != row:
                raise DuplicateNodeError(
                    f"Id {shown(node)} is given to nodes {self._row_of[node]} and {row}; make ids unique (drop one or rename it)."
                )
        self.metadata, self.origins = self._mappings("metadata", metadata), self._mappings("origins", origins)
        for name, column in (("id", self.ids), ("text", self.texts), ("title", self.titles), ("type", self.types)):
            for node, value in zip(self.ids, column, strict=True):
                # Here too, as the words for an error take longer than the check.
                if not value.isascii():
                    check_text(value, f"{name} of node {shown(node)}")
        self.device = resolve_device(device)
        self._set_types()
        self._set_edges(edges)

    def _set_types(self) -> None:
        self.type_names = sorted(set(self.types))
        place = {name: i for i, name in enumerate(self.type_names)}
        numbers = np.fromiter(map(place.__getitem__, self.types), np.int32, len(self.types))
        self.node_types = torch.from_numpy(numbers).to(self.device)

    @classmethod
    def from_nodes(cls, nodes: Iterable[Node], edges: Iterable[EdgeLike] = (), **options: Any) -> CorpusGraph:
        """Return a corpus graph of :class:`Node` objects; `options` are ``include_titles`` and ``device`` of the class."""
        nodes, names = as_list("nodes", nodes, "Node(id, text, ...)"), ("id", "text", "title", "type", "metadata", "origin")
        for node in nodes:
            if not isinstance(node, Node):
                raise InvalidArgumentError(f"Expected a Node, got {shown(node)}; pass Node(id, text, ...).")
        ids, texts, titles, types, metadata, origins = ([getattr(node, name) for node in nodes] for name in names)
        return cls(ids, texts, titles=titles, types=types, metadata=metadata, origins=origins, edges=edges, **options)

    def _mappings(self, name: str, mappings: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
        values = [{} for _ in self.ids] if mappings is None else mappings
        if len(values) != len(self.ids):
            raise InvalidArgumentError(f"{name} has {len(values)} entries for {len(self.ids)} nodes; give one mapping a node.")
        for row, entry in enumerate(values):
            if not isinstance(entry, Mapping):
                raise InvalidArgumentError(f"{name}[{row}] is {shown(entry)}; expected a mapping, {{}} for none.")
        pairs = zip(self.ids, values, strict=True)
        return [copied(plain(entry, f"{name} of node {shown(node)}")) if entry else {} for node, entry in pairs]

    def with_columns(self, columns: Mapping[str, list[Any]]) -> CorpusGraph:
        """Return a graph of other nodes, given by ids, texts, titles, types, metadata and origins that need no checks.

        Its edges must be set afterwards, if they are read.
        """
        graph = object.__new__(CorpusGraph)
        graph.__dict__ |= {**columns, "include_titles": self.include_titles, "device": self.device, "cache": Cache()}
        graph._row_of = dict(zip(graph.ids, range(len(graph.ids)), strict=True))
        graph._set_types()
        return graph

    def with_edges(self, edges: Iterable[EdgeLike]) -> CorpusGraph:
        """Return the graph of these nodes with other edges."""
        graph = copy(self)
        graph._set_edges(edges)
        return graph

    def _set_edges(self, edges: Iterable[EdgeLike]) -> None:
        names: dict[str, int] = {}
        self._set_rows(self._rows_of(edges, names), list(names))

    def _rows_of(self, edges: Iterable[EdgeLike], names: dict[str, int]) -> Rows:
        """Return edges as rows; `names` numbers the relations, and those that are new are added."""
        sources, targets, relations, weights = array("q"), array("q"), array("i"), array("f")
        texts: dict[int, str] = {}
        metadata: dict[int, dict[str, Any]] = {}
        row_of = self._row_of
        for number, item in enumerate(as_list("edges", edges, "edges")):
            simple, weight = False, 1.0
            if isinstance(item, tuple) and 2 <= len(item) <= 3 and type(item[0]) is type(item[1]) is type(item[-1]) is str:
                # To make an edge of it takes several times as long as to look it up.
                source, target, relation = item[0], item[1], item[2] if len(item) == 3 else ""
                simple = relation in names
            if not simple:
                edge = Edge.of(item)
                source, target, relation, weight = edge.source, edge.target, edge.relation, float(edge.weight)
                if edge.text:
                    texts[number] = edge.text
                if edge.metadata:
                    metadata[number] = copied(edge.metadata)
            near, far = row_of.get(source), row_of.get(target)
            if near is None or far is None:
                unknown = source if near is None else target
                raise UnknownNodeError(
                    f"Edge {number} {(source, target, relation)!r} names {unknown!r}, which is not a node of this graph of "
                    f"{len(self.ids)} nodes; add the node or drop the edge."
                )
            sources.append(near)
            targets.append(far)
            relations.append(names.setdefault(relation, len(names)))
            weights.append(weight)
        return Rows(
            np.array(sources, np.int64),
            np.array(targets, np.int64),
            np.array(relations, np.int32),
            np.array(weights, np.float32),
            [texts.get(row, "") for row in range(len(sources))] if texts else [],
            [metadata.get(row, {}) for row in range(len(sources))] if metadata else [],
        )

    def _set_rows(self, rows: Rows, names: list[str], keys: np.ndarray | None = None) -> None:
        """Set the relationship rows and the simple view; `keys` are :func:`simple_keys` of the rows, if they are known."""
        self.cache = Cache()
        self.relation_names, self.edge_texts, self.edge_metadata = names, rows.texts, rows.metadata
        self.sources, self.targets, self.relations, self.weights = (torch.from_numpy(part).to(self.device) for part in rows[:4])
        size = len(self.ids)
        keys = simple_keys(rows.sources, rows.targets, size) if keys is None else keys
        head = keys // max(size, 1)
        tail = keys - head * size
        degree = np.bincount(head, minlength=size)
        indptr = np.zeros(size + 1, np.int64)
        np.cumsum(degree, out=indptr[1:])
        self.indptr = torch.from_numpy(indptr).to(self.device)
        self.indices = torch.from_numpy(tail.astype(np.int32)).to(self.device)
        self.degree = torch.from_numpy(degree.astype(np.int32)).to(self.device)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.ids)

    def __contains__(self, node: object) -> bool:
        """Return whether `node` is the id of a node."""
        return node in self._row_of

    def __repr__(self) -> str:
        """Return the sizes of the graph."""
        return f"CorpusGraph(nodes={len(self)}, edges={self.num_edges}, relations={len(self.relation_names)}, device={self.device})"

    @property
    def num_edges(self) -> int:
        """Number of relationship rows R (parallel edges and self loops counted)."""
        return self.sources.numel()

    @property
    def has_edges(self) -> bool:
        """Whether the graph has a relationship row."""
        return self.num_edges > 0

    def fact(self, name: str, function: Callable[[CorpusGraph], T]) -> T:
        """Return a fact of the whole graph, which `function` reads from the nodes and edges: once, and kept with the graph.

        See :class:`~graph_retrievers.graph.facts.GraphFacts`.
        """
        return self.cache.get(name, lambda: function(self))

    def row(self, node: str) -> int:
        """Return the row of the node with id `node`; UnknownNodeError if there is none."""
        try:
            return self._row_of[node]
        except KeyError:
            raise UnknownNodeError(f"{shown(node)} is not a node of this graph of {len(self)} nodes.") from None

    def node(self, row: int) -> Node:
        """Return the node at `row`, with copies of its metadata and origin."""
        metadata, origin = copied(self.metadata[row]), copied(self.origins[row])
        return Node(self.ids[row], self.texts[row], self.titles[row], self.types[row], metadata, origin)

    def content(self, row: int) -> str:
        """Return the text that signals read for the node at `row`: title and text."""
        title = self.titles[row] if self.include_titles else ""
        return f"{title}. {self.texts[row]}" if title else self.texts[row]

    def contents(self) -> list[str]:
        """Return :meth:`content` of every node, in row order."""
        return [self.content(row) for row in range(len(self))]

    @property
    def edge_keys(self) -> Tensor:
        """Tensor, shape [nnz], int64: ``row * N + column`` of every entry of the simple view, ascending."""

        def make() -> Tensor:
            rows = torch.repeat_interleave(torch.arange(len(self), device=self.device), self.indptr.diff())
            return rows * len(self) + self.indices.long()

        return self.cache.get("edge keys", make)

    @property
    def edge_weights(self) -> Tensor:
        """Tensor, shape [nnz], float32: weight of every entry of the simple view, the largest of parallel rows."""

        def make() -> Tensor:
            proper = self.sources != self.targets
            near, far, weights = self.sources[proper], self.targets[proper], self.weights[proper]
            keys = torch.cat([near * len(self) + far, far * len(self) + near])
            place = torch.searchsorted(self.edge_keys, keys)
            return torch.zeros(self.edge_keys.numel(), device=self.device).scatter_reduce_(0, place, weights.repeat(2), "amax")

        return self.cache.get("edge weights", make)

    @property
    def strength(self) -> Tensor:
        """Tensor, shape [N], float32: sum of the weights of each node in the simple view; the degree if all weights are 1."""

        def make() -> Tensor:
            return torch.segment_reduce(self.edge_weights, "sum", offsets=self.indptr, initial=0.0)

        return self.cache.get("strength", make)

    def adjacency(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the weight of the edge between pairs of nodes in the simple view, 0 for pairs that are not linked.

        Parameters
        ----------
        left, right : Tensor, of one shape, int64
            Node rows; a pair with -1 on either side is not linked.

        Returns
        -------
        Tensor, same shape, float32
        """
        if self.edge_keys.numel() == 0:
            return torch.zeros(left.shape, device=left.device)
        key = left * len(self) + right
        place = torch.searchsorted(self.edge_keys, key).clamp(max=self.edge_keys.numel() - 1)
        mask = (self.edge_keys[place] == key) & (left >= 0) & (right >= 0)
        return torch.where(mask, self.edge_weights[place], 0.0)

    @property
    def incidence(self) -> Incidence:
        """Relationship rows as seen from both ends; a self loop appears once."""
        return self.cache.get("incidence", self._incidence)

    def _incidence(self) -> Incidence:
        size = len(self)
        ends = torch.stack([self.sources, self.targets], 1)
        twice = torch.stack([torch.ones_like(self.sources, dtype=torch.bool), self.sources != self.targets], 1)
        place = twice.flatten().nonzero().flatten()
        # Entries with equal ends are in the order of their rows, forward before back.
        keys, order = torch.sort((ends * size + ends.flip(1)).flatten()[place], stable=True)
        indptr = torch.zeros(size + 1, dtype=torch.int64, device=self.device)
        indptr[1:] = torch.cumsum(torch.bincount(keys // max(size, 1), minlength=size), 0)
        place = place[order]
        rows = place >> 1
        return Incidence(indptr, (keys % max(size, 1)).to(torch.int32), self.relations[rows], place & 1 == 0, rows, keys)

    def steps_between(self, near: Tensor, far: Tensor, relation: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the first relationship row that connects each of many pairs of nodes.

        Parameters
        ----------
        near, far : Tensor, shape [P], int64
            Node rows.
        relation : Tensor, shape [P], int64, optional
            Index of the preferred relation in ``relation_names``; -1, the default, for any. If no row of that relation connects
            the two nodes, the first row of any relation is returned.

        Returns
        -------
        rows : Tensor, shape [P], int64
            Relationship rows; -1 if no row connects the two nodes.
        forward : Tensor, shape [P], bool
            True where the row points from `near` to `far`, and for pairs without a row.
        """
        if not near.numel() or not self.num_edges:
            return torch.full_like(near, -1), torch.ones_like(near, dtype=torch.bool)
        view, size = self.incidence, self.incidence.keys.numel()
        pair_keys = near * len(self) + far
        place = torch.searchsorted(view.keys, pair_keys).clamp(max=size - 1)
        mask = view.keys[place] == pair_keys
        if relation is not None:
            count = len(self.relation_names)
            order, ordered_keys = self.cache.get("incidence by relation", self._by_relation)
            key = pair_keys * count + relation
            entry = torch.searchsorted(ordered_keys, key).clamp(max=size - 1)
            place = torch.where((ordered_keys[entry] == key) & (relation >= 0), order[entry], place)
        return torch.where(mask, view.rows[place], -1), view.forward[place] | ~mask

    def _by_relation(self) -> tuple[Tensor, Tensor]:
        """Return the entries of :attr:`incidence` by pair and relation, and their keys, ascending."""
        keys = self.incidence.keys * len(self.relation_names) + self.incidence.relations.long()
        order = torch.argsort(keys, stable=True)
        return order, keys[order]

    def edges(self, rows: Sequence[int] | None = None) -> list[Edge]:
        """Return relationship rows as edges: the given rows in their order, or all rows in the order in which they were added."""
        selection = range(self.num_edges) if rows is None else rows
        place = np.asarray(selection, np.int64)
        numbers = (self.on_host(name)[place].tolist() for name in ("sources", "targets", "relations"))
        texts = [self.edge_texts[row] for row in selection] if self.edge_texts else repeat("")
        metadata = [self.edge_metadata[row] for row in selection] if self.edge_metadata else ({} for _ in selection)
        columns = zip((self.ids, self.ids, self.relation_names), numbers, strict=True)
        parts = ([names[number] for number in column] for names, column in columns)
        return list(map(Edge, *parts, self.on_host("weights")[place].tolist(), texts, metadata))

    def parallel_place(self, row: int) -> int:
        """Return the position of a relationship row, from 1, among the rows of its relation from its source to its target."""
        source, target, relation = (int(self.on_host(name)[row]) for name in ("sources", "targets", "relations"))
        if source == target:
            return 1
        names = ("indptr", "neighbors", "forward", "relations", "rows")
        indptr, neighbors, forward, relations, rows = (self.on_host(f"incidence.{name}") for name in names)
        entry = slice(indptr[source], indptr[source + 1])
        same = (neighbors[entry] == target) & forward[entry] & (relations[entry] == relation)
        return int((rows[entry][same] < row).sum()) + 1

    def edges_within(self, nodes: Sequence[int]) -> list[int]:
        """Return the relationship rows, ascending, of which both ends are among the given node rows."""
        node_rows = np.unique(np.asarray(nodes, np.int64))
        _, entry = slices(self.on_host("incidence.indptr"), node_rows)
        inside = np.isin(self.on_host("incidence.neighbors")[entry], node_rows)
        return np.unique(self.on_host("incidence.rows")[entry[inside]]).tolist()  # type: ignore[no-any-return]

    def on_host(self, name: str) -> np.ndarray:
        """Return an attribute, such as "degree" or "incidence.rows", as an array; that of another device is read once and kept."""
        values: Tensor = attrgetter(name)(self)
        if values.device.type == "cpu":
            return values.numpy()
        return self.cache.get((name, "on the host"), lambda: values.cpu().numpy())

    def edge_contents(self, rows: Sequence[int] | None = None) -> list[str]:
        """Return what signals read for relationship rows (all by default): the text, or "source relation target" if it is empty.

        The ends are named by their titles, or by their ids if a title is empty.
        """
        selection = range(self.num_edges) if rows is None else rows
        place = np.asarray(selection, np.int64)
        columns = [self.on_host(name)[place].tolist() for name in ("sources", "relations", "targets")]
        texts = [self.edge_texts[row] for row in selection] if self.edge_texts else repeat("")
        names = (lambda node: self.titles[node] or self.ids[node]), self.relation_names.__getitem__
        parts = zip(*(map(names[number % 2], column) for number, column in enumerate(columns)), strict=True)
        return [text or " ".join(filter(None, words)) for text, words in zip(texts, parts, strict=False)]

    def to(self, device: str | torch.device) -> CorpusGraph:
        """Return this graph on another device; texts and metadata are shared."""
        target = resolve_device(device)
        if target == self.device:
            return self
        graph = copy(self)
        graph.device, graph.cache = target, Cache()
        for name in ("indptr", "indices", "degree", "sources", "targets", "relations", "weights", "node_types"):
            setattr(graph, name, getattr(self, name).to(target))
        return graph


def simple_keys(sources: np.ndarray, targets: np.ndarray, size: int) -> np.ndarray:
    """Return ``row * size + column`` of every entry of the simple view of relationship rows, ascending."""
    mask = sources != targets
    low, high = np.minimum(sources, targets)[mask], np.maximum(sources, targets)[mask]
    # Sorted here: np.unique is many times slower.
    keys = np.sort(np.concatenate([low * size + high, high * size + low]))
    return keys[np.diff(keys, prepend=-1) > 0]


def _column(name: str, values: Sequence[str], size: int) -> list[str]:
    if isinstance(values, str) or len(values) != size:
        raise InvalidArgumentError(f"{name} has {len(values)} entries for {size} nodes; give one string a node.")
    for row, value in enumerate(values):
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{name}[{row}] is {shown(value)}; expected a string.")
    return list(values)
