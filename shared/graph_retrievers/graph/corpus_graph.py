"""The corpus graph: nodes with texts, relationship rows, and a simple undirected view of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.device import resolve_device
from graph_retrievers.errors import DuplicateNodeError, InvalidArgumentError, UnknownNodeError

__all__ = ["CorpusGraph", "Edge", "Incidence", "Node"]

Edge = tuple[str, str] | tuple[str, str, str]
"""An edge as users write it: (source id, target id) or (source id, target id, relation)."""


@dataclass(frozen=True)
class Node:
    """One node as users hand it over.

    Parameters
    ----------
    id : str
        Identifier, unique in the graph.
    text : str
        What the node says.
    title : str, default ""
        Its name; signals read ``title + ". " + text``.
    type : str, default ""
        Node type, for typed graphs.
    metadata : mapping, default {}
        Anything else; filters read it.
    """

    id: str
    text: str
    title: str = ""
    type: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Incidence:
    """Relationship rows as seen from each node: a CSR over both ends of every row.

    Attributes
    ----------
    indptr : Tensor, shape [N + 1], int64
        Row pointers.
    neighbors : Tensor, shape [2R], int32
        Node at the other end; ascending within a node.
    relations : Tensor, shape [2R], int32
        Relation of the row, an index into ``CorpusGraph.relation_names``.
    forward : Tensor, shape [2R], bool
        True where the row points from the node to the neighbour.
    rows : Tensor, shape [2R], int64
        The relationship row itself.
    """

    indptr: Tensor
    neighbors: Tensor
    relations: Tensor
    forward: Tensor
    rows: Tensor


class CorpusGraph:
    """Nodes with texts, and the relations between them, on one device.

    Two views of the edges stand beside each other. *Relationship rows* keep what was given: direction, relation
    and parallel edges. The *simple* view collapses them to an undirected graph without self loops, as CSR with
    int32 columns; ``degree`` counts distinct neighbours. FastInsight, GAR and PageRank read the simple view,
    spreading activation and typed traversal the rows.

    Parameters
    ----------
    ids, texts : sequence of str, length N
        Identifier and text of each node. Ids must be distinct.
    titles, types : sequence of str, length N, optional
        Name and type of each node; empty strings by default.
    metadata : sequence of mapping, length N, optional
        What filters read; empty by default.
    edges : iterable of (source, target) or (source, target, relation)
        Relationship rows by node id. Every id must be a node.
    include_titles : bool, default True
        Whether signals read ``title + ". " + text`` (the text alone where a title is empty or False is given).
    device : str or torch.device, optional
        Where the tensors live; the CPU by default.

    Attributes
    ----------
    indptr : Tensor, shape [N + 1], int64
    indices : Tensor, shape [nnz], int32
        The simple view; columns ascend within a row and each undirected edge stands twice.
    degree : Tensor, shape [N], int32
        Distinct neighbours of each node.
    sources, targets : Tensor, shape [R], int64
    relations : Tensor, shape [R], int32
        Relationship rows in the order given; `relations` points into ``relation_names``.
    node_types : Tensor, shape [N], int32
        Index into ``type_names``.

    Raises
    ------
    DuplicateNodeError
        If two nodes share an id.
    UnknownNodeError
        If an edge names an id that is not a node.
    InvalidArgumentError
        If the sequences differ in length or an id is not a non-empty string.
    """

    def __init__(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        *,
        titles: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        metadata: Sequence[Mapping[str, Any]] | None = None,
        edges: Iterable[Edge] = (),
        include_titles: bool = True,
        device: str | torch.device | None = None,
    ) -> None:
        size = len(ids)
        self.ids = list(ids)
        self.texts = _column("texts", texts, size)
        self.titles = _column("titles", titles, size) if titles is not None else [""] * size
        self.types = _column("types", types, size) if types is not None else [""] * size
        if metadata is not None and len(metadata) != size:
            raise InvalidArgumentError(f"metadata has {len(metadata)} entries for {size} nodes; give one mapping a node.")
        for row, entry in enumerate(metadata or ()):
            if not isinstance(entry, Mapping):
                raise InvalidArgumentError(f"metadata[{row}] is {entry!r}; expected a mapping, {{}} for none.")
        self.metadata: list[dict[str, Any]] = [dict(m) for m in metadata] if metadata is not None else [{} for _ in ids]
        self.include_titles = include_titles
        self._row_of: dict[str, int] = {}
        for row, node in enumerate(self.ids):
            if not isinstance(node, str) or not node:
                raise InvalidArgumentError(f"Node {row} has the id {node!r}; ids are non-empty strings.")
            if self._row_of.setdefault(node, row) != row:
                raise DuplicateNodeError(
                    f"Id {node!r} is given to nodes {self._row_of[node]} and {row}; make ids unique (drop one or rename it)."
                )
        self.type_names = sorted(set(self.types))
        type_row = {name: i for i, name in enumerate(self.type_names)}
        self.device = resolve_device(device)
        self.node_types = torch.tensor([type_row[t] for t in self.types], dtype=torch.int32, device=self.device)
        self._set_edges(edges)

    @classmethod
    def from_nodes(
        cls,
        nodes: Iterable[Node],
        edges: Iterable[Edge] = (),
        *,
        include_titles: bool = True,
        device: str | torch.device | None = None,
    ) -> CorpusGraph:
        """Return a corpus graph of :class:`Node` objects; the other arguments are those of the class."""
        listed = list(nodes)
        return cls(
            [n.id for n in listed],
            [n.text for n in listed],
            titles=[n.title for n in listed],
            types=[n.type for n in listed],
            metadata=[n.metadata for n in listed],
            edges=edges,
            include_titles=include_titles,
            device=device,
        )

    def _set_edges(self, edges: Iterable[Edge]) -> None:
        names: dict[str, int] = {}
        sources, targets, relations = [], [], []
        for number, edge in enumerate(edges):
            if isinstance(edge, str) or not 2 <= len(edge) <= 3:
                raise InvalidArgumentError(
                    f"Edge {number} is {edge!r}; an edge is (source id, target id) or (source id, target id, relation)."
                )
            for end in edge[:2]:
                if end not in self._row_of:
                    raise UnknownNodeError(
                        f"Edge {number} {tuple(edge)!r} names {end!r}, which is no node of this graph of {len(self.ids)} nodes; "
                        "add the node or drop the edge."
                    )
            sources.append(self._row_of[edge[0]])
            targets.append(self._row_of[edge[1]])
            relation = edge[2] if len(edge) == 3 else ""
            if not isinstance(relation, str):
                raise InvalidArgumentError(f"Edge {number} {tuple(edge)!r} has the relation {relation!r}; expected a string.")
            relations.append(names.setdefault(relation, len(names)))
        self._set_rows(
            torch.tensor(sources, dtype=torch.int64),
            torch.tensor(targets, dtype=torch.int64),
            torch.tensor(relations, dtype=torch.int32),
            list(names),
        )

    def _set_rows(self, sources: Tensor, targets: Tensor, relations: Tensor, names: list[str]) -> None:
        self.relation_names = names
        self.sources = sources.to(self.device)
        self.targets = targets.to(self.device)
        self.relations = relations.to(self.device)
        size = len(self.ids)
        source, target = sources.cpu().numpy(), targets.cpu().numpy()
        other = source != target
        low, high = np.minimum(source, target)[other], np.maximum(source, target)[other]
        pairs = np.unique(low * size + high) if size else np.zeros(0, np.int64)
        low, high = (pairs // size, pairs % size) if size else (pairs, pairs)
        head, tail = np.concatenate([low, high]), np.concatenate([high, low])
        order = np.lexsort((tail, head))
        degree = np.bincount(head, minlength=size)
        indptr = np.zeros(size + 1, np.int64)
        np.cumsum(degree, out=indptr[1:])
        self.indptr = torch.from_numpy(indptr).to(self.device)
        self.indices = torch.from_numpy(tail[order].astype(np.int32)).to(self.device)
        self.degree = torch.from_numpy(degree.astype(np.int32)).to(self.device)

    # -- sizes and look-ups -------------------------------------------------------------------------------------

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

    def row(self, node: str) -> int:
        """Return the row of the node with id `node`; UnknownNodeError if there is none."""
        try:
            return self._row_of[node]
        except KeyError:
            raise UnknownNodeError(f"{node!r} is no node of this graph of {len(self)} nodes.") from None

    def node(self, row: int) -> Node:
        """Return the node at `row`."""
        return Node(self.ids[row], self.texts[row], self.titles[row], self.types[row], self.metadata[row])

    def content(self, row: int) -> str:
        """Return what signals read of the node at `row`: title and text."""
        title = self.titles[row] if self.include_titles else ""
        return f"{title}. {self.texts[row]}" if title else self.texts[row]

    def contents(self) -> list[str]:
        """Return :meth:`content` of every node, in row order."""
        return [self.content(row) for row in range(len(self))]

    # -- edges --------------------------------------------------------------------------------------------------

    @cached_property
    def edge_keys(self) -> Tensor:
        """Tensor, shape [nnz], int64: ``row * N + column`` of every entry of the simple view, ascending."""
        rows = torch.repeat_interleave(torch.arange(len(self), device=self.device), self.degree.long())
        return rows * len(self) + self.indices.long()

    def adjacent(self, left: Tensor, right: Tensor) -> Tensor:
        """Return whether pairs of nodes are linked in the simple view.

        Parameters
        ----------
        left, right : Tensor, any one shape, int64
            Node rows; a pair with -1 on either side is not adjacent.

        Returns
        -------
        Tensor, same shape, bool
            One binary search a pair, so hubs cost no more than leaves.
        """
        if self.edge_keys.numel() == 0:
            return torch.zeros(left.shape, dtype=torch.bool, device=left.device)
        key = left * len(self) + right
        place = torch.searchsorted(self.edge_keys, key).clamp(max=self.edge_keys.numel() - 1)
        return (self.edge_keys[place] == key) & (left >= 0) & (right >= 0)

    @cached_property
    def incidence(self) -> Incidence:
        """Relationship rows seen from both of their ends; a self loop is seen once."""
        count = self.num_edges
        rows = torch.arange(count, device=self.device)
        back = (self.sources != self.targets).nonzero().flatten()
        near = torch.cat([self.sources, self.targets[back]])
        far = torch.cat([self.targets, self.sources[back]])
        row = torch.cat([rows, back])
        forward = torch.cat([torch.ones(count, dtype=torch.bool), torch.zeros(back.numel(), dtype=torch.bool)]).to(self.device)
        order = torch.argsort(row, stable=True)
        order = order[torch.argsort(far[order], stable=True)]
        order = order[torch.argsort(near[order], stable=True)]
        indptr = torch.zeros(len(self) + 1, dtype=torch.int64, device=self.device)
        indptr[1:] = torch.cumsum(torch.bincount(near, minlength=len(self)), 0)
        return Incidence(indptr, far[order].to(torch.int32), self.relations[row[order]], forward[order], row[order])

    @cached_property
    def incidence_keys(self) -> Tensor:
        """Tensor, shape [2R], int64: ``node * N + neighbour`` of every entry of :attr:`incidence`, ascending."""
        rows = torch.repeat_interleave(torch.arange(len(self), device=self.device), self.incidence.indptr.diff())
        return rows * len(self) + self.incidence.neighbors.long()

    def relations_between(self, near: Tensor, far: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first relationship row that joins each of many pairs of nodes.

        Parameters
        ----------
        near, far : Tensor, shape [P], int64
            Node rows.

        Returns
        -------
        relations : Tensor, shape [P], int64
            Index into ``relation_names``; -1 where no row joins the two.
        forward : Tensor, shape [P], bool
            True where the row points from `near` to `far`, and where there is none.
        """
        if self.incidence_keys.numel() == 0:
            return torch.full_like(near, -1), torch.ones_like(near, dtype=torch.bool)
        keys = near * len(self) + far
        place = torch.searchsorted(self.incidence_keys, keys).clamp(max=self.incidence_keys.numel() - 1)
        found = self.incidence_keys[place] == keys
        view = self.incidence
        return torch.where(found, view.relations[place].long(), -1), view.forward[place] | ~found

    def edges(self) -> list[tuple[str, str, str]]:
        """Return every relationship row as (source id, target id, relation), in the order given."""
        rows = zip(self.sources.tolist(), self.targets.tolist(), self.relations.tolist(), strict=True)
        return [(self.ids[s], self.ids[t], self.relation_names[r]) for s, t, r in rows]

    def to(self, device: str | torch.device) -> CorpusGraph:
        """Return this graph on another device; texts and metadata are shared."""
        target = resolve_device(device)
        if target == self.device:
            return self
        moved = object.__new__(CorpusGraph)
        moved.__dict__ = {k: v for k, v in self.__dict__.items() if k not in ("edge_keys", "incidence", "incidence_keys")}
        moved.device = target
        for name in ("indptr", "indices", "degree", "sources", "targets", "relations", "node_types"):
            setattr(moved, name, getattr(self, name).to(target))
        return moved


def _column(name: str, values: Sequence[str], size: int) -> list[str]:
    if isinstance(values, str) or len(values) != size:
        raise InvalidArgumentError(f"{name} has {len(values)} entries for {size} nodes; give one string a node.")
    for row, value in enumerate(values):
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{name}[{row}] is {value!r}; expected a string.")
    return list(values)
