"""Edges from metadata fields: nodes that name each other or share a value; and triples over any field."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from graph_retrievers.arguments import positive, typed
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, SpecEdges
from graph_retrievers.errors import InvalidArgumentError, NothingToReadError, UnknownNodeError, shown
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.nested import MISSING, look_up

__all__ = ["Metadata", "Triples"]

logger = logging.getLogger(__name__)

_NODE_FIELDS = {"$id": "id", "$title": "title", "$type": "type"}


class Metadata(EdgeSpec):
    """Edges from each node to the nodes whose target field contains a value of its source field.

    ``Metadata("cites", "$id")`` links a paper to the papers whose ids its field ``cites`` lists;
    ``Metadata("author", "author")`` links nodes that share an author. In a list of edges the pair of strings
    ``("cites", "$id")`` is a short form. If source and target are the same field, each pair is linked once, from the earlier node
    to the later. The value 1 is that of 1.0, and neither of True nor of "1"; beside the node's own fields, which are text,
    every value is taken as text. Values that no node has (papers outside the corpus) are skipped and counted in the log.

    Raises InvalidArgumentError if no node has one of the fields, or a value is neither a string nor a number.

    Parameters
    ----------
    source, target : str
        Metadata fields with one value or a list of values; `target` is ``"$id"`` by default. ``"$id"``, ``"$title"`` and
        ``"$type"`` are the node's own; ``"a.b"`` is the entry ``b`` of the mapping (or list of mappings) in ``a``.
    relation : str, optional
        The source field by default.
    limit : int, default 1000
        A value in the target field of more nodes than this is skipped, and a warning counts such values: they carry little
        information, and the number of their edges grows with the square of the number of nodes.

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> papers = [Node("a", "", metadata={"author": "Ada"}), Node("b", "", metadata={"author": ["Ada", "Mary"]})]
    >>> build_edges(papers, Metadata("author", "author"))
    [('a', 'b', 'author')]
    """

    @typed
    def __init__(self, source: str, target: str = "$id", *, relation: str | None = None, limit: int = 1000) -> None:
        for name in (source, target):
            if not isinstance(name, str) or not name or (name.startswith("$") and name not in _NODE_FIELDS):
                raise InvalidArgumentError(f"{name!r} is not a field; name a metadata field, or $id, $title or $type.")
        self.source, self.target = source, target
        self.relation = source if relation is None else relation
        self.limit = positive("limit", limit)

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges, in the order of the nodes."""
        for name in (self.source, self.target):
            if not has_field(corpus, name):
                names = ", ".join(sorted(corpus.fields)) or "none"
                raise NothingToReadError(f"No node has the metadata field {name!r} of {self!r}; the metadata fields are: {names}.")
        # Ids are strings; a metadata field may hold the same id as a number.
        as_text = self.source in _NODE_FIELDS or self.target in _NODE_FIELDS
        holders = _holders(corpus.nodes, self.target, as_text)
        edges: list[tuple[str, str, str]] = []
        frequent_values, absent = set(), 0
        for row, node in enumerate(corpus.nodes):
            for value in _values(node, self.source, as_text):
                rows = holders.get(value, ())
                absent += not rows
                if len(rows) > self.limit:
                    frequent_values.add(value)
                    continue
                edges.extend(
                    (node.id, corpus.nodes[target].id, self.relation)
                    for target in rows
                    if self.source != self.target or target > row
                )
        if frequent_values:
            logger.warning("%r: skipped %d values that more than %d nodes have.", self, len(frequent_values), self.limit)
        return SpecEdges(edges, absent)


class Triples(EdgeSpec):
    """Triples (head, relation, tail) as edges from head to tail; UnknownNodeError if a head or tail names no node.

    Parameters
    ----------
    triples : iterable of (str, str, str)
    key : str, default "$id"
        Field by which heads and tails name nodes: ``"$id"``, ``"$title"``, or a metadata field. A name of several nodes refers to
        each of them.

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> build_edges([Node("1", "", "Ada"), Node("2", "", "Babbage")], Triples([("Ada", "knows", "Babbage")], key="$title"))
    [('1', '2', 'knows')]
    """

    def __init__(self, triples: Iterable[tuple[str, str, str]], key: str = "$id") -> None:
        self._triples = [tuple(triple) for triple in triples]
        for number, triple in enumerate(self._triples):
            if len(triple) != 3 or not all(isinstance(part, str) for part in triple):
                raise InvalidArgumentError(f"Triple {number} is {shown(triple)}; expected three strings, (head, relation, tail).")
        self.key = key

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges in the order of the triples."""
        holders = _holders(corpus.nodes, self.key, as_text=True)
        edges: list[tuple[str, str, str]] = []
        for number, (head, relation, tail) in enumerate(self._triples):
            for name in (head, tail):
                if name not in holders:
                    raise UnknownNodeError(
                        f"Triple {number} {(head, relation, tail)!r} names {name!r}, which no node has as {self.key}; "
                        "add the node or drop the triple."
                    )
            edges.extend((corpus.nodes[h].id, corpus.nodes[t].id, relation) for h in holders[head] for t in holders[tail])
        return SpecEdges(edges)


def has_field(corpus: CorpusNodes, name: str) -> bool:
    """Return whether a field is one of a node's own, or in the metadata of any node."""
    if name in _NODE_FIELDS or name in corpus.fields:
        return True
    return name.partition(".")[0] in corpus.fields and any(look_up(node.metadata, name) is not MISSING for node in corpus.nodes)


def _holders(nodes: Iterable[Node], name: str, as_text: bool) -> dict[Any, list[int]]:
    """Return the rows of the nodes that have each value of a field."""
    holders: dict[Any, list[int]] = {}
    for row, node in enumerate(nodes):
        for value in dict.fromkeys(_values(node, name, as_text)):
            holders.setdefault(value, []).append(row)
    return holders


def _values(node: Node, name: str, as_text: bool) -> list[Any]:
    """Return the values of a field, one or many, without None and empty strings; equal only if they mean the same."""
    content = getattr(node, _NODE_FIELDS[name]) if name in _NODE_FIELDS else look_up(node.metadata, name)
    values = []
    for value in content if isinstance(content, (list, tuple, set, frozenset)) else [content]:
        if value is None or value is MISSING or value == "":
            continue
        if not isinstance(value, (str, int, float)):
            raise InvalidArgumentError(
                f"Field {name!r} of {node.id!r} holds a {type(value).__name__}; expected strings or numbers, or lists of them."
            )
        # In Python, True equals 1; values of both are kept apart.
        values.append(str(value) if as_text else ("a bool", value) if isinstance(value, bool) else value)
    return sorted(values, key=str) if isinstance(content, (set, frozenset)) else values
