"""Edges of a corpus graph from links, metadata, titles, vectors or explicit pairs.

An ``edges`` argument is one of these, or a list that mixes them:

=======================================  =======================================================================
``("a", "b")``, ``("a", "b", "cites")``  an edge between two nodes, with a relation or without
:class:`Edge`                            an edge with weight, text and metadata
``("cites", "$id")``                     a pair of fields, short for :class:`Metadata`
:class:`Metadata`                        nodes whose metadata name each other or share a value
:class:`Links`                           HTML and Markdown links
:class:`DocumentStructure`               containment of sections, and order of chunks
:class:`TitleMentions`                   texts that contain the title of another node
:class:`NumberedReferences`              texts that cite an article, a section, a table or a standard by its number
:class:`EntityMentions`                  texts that name an entity which is a node
:class:`NearestNeighbors`                the k nearest neighbours of each vector
:class:`Relationships`                   relationships of LlamaIndex nodes
:class:`Triples`                         (head, relation, tail)
:class:`ContextualCitations`             chunks of documents that cite each other
a networkx graph                         its edges; node labels are ids
a callable                               maps a :class:`Node` to ids of other nodes, or to edges
=======================================  =======================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from graph_retrievers.arguments import as_list, call_function
from graph_retrievers.construction.contextual import ContextualCitations
from graph_retrievers.construction.entities import EntityMentions
from graph_retrievers.construction.fields import Metadata, Triples, has_field
from graph_retrievers.construction.links import Links
from graph_retrievers.construction.mentions import TitleMentions
from graph_retrievers.construction.neighbors import NearestNeighbors
from graph_retrievers.construction.networkx_graphs import is_networkx, networkx_edges
from graph_retrievers.construction.numbered_references import NumberedReferences
from graph_retrievers.construction.relationships import Relationships
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, SpecEdges
from graph_retrievers.construction.structure import DocumentStructure
from graph_retrievers.errors import InvalidArgumentError, NothingToReadError, UnknownNodeError, shown
from graph_retrievers.graph.corpus_graph import Edge, EdgeLike, Node

__all__ = [
    "ContextualCitations",
    "DocumentStructure",
    "EdgeSpec",
    "EntityMentions",
    "Links",
    "Metadata",
    "NearestNeighbors",
    "NumberedReferences",
    "Relationships",
    "TitleMentions",
    "Triples",
    "build_edges",
]

logger = logging.getLogger(__name__)

_KINDS = (
    "an Edge, (source id, target id) or (source id, target id, relation), a pair of fields such as ('cites', '$id'), "
    "Metadata(...), Links(), DocumentStructure(), TitleMentions(), NumberedReferences(), EntityMentions(), NearestNeighbors(), "
    "Relationships(), Triples(...), a networkx graph, or a callable"
)


def build_edges(nodes: Sequence[Node], edges: Any, vectors: Any = None) -> list[EdgeLike]:
    """Return the edges between nodes that an ``edges`` argument describes (see this module), in its order.

    Repeated edges and self loops of a specification or callable are dropped; explicit edges are kept as given. References in the
    documents to something outside the corpus (a citation, a link to another site) are skipped, and counted in one log line. A
    tuple of two strings is an edge if both are node ids, and a pair of fields if nodes have both fields; if both or neither is
    the case, an error is raised. An edge with an id that is not a node raises an UnknownNodeError.

    `vectors`, shape [N, d], are the vectors of the nodes, for :class:`NearestNeighbors`.

    >>> nodes = [Node("a", "Looms.", metadata={"cites": ["b", "x"]}), Node("b", "Punched cards.")]
    >>> build_edges(nodes, [("b", "a", "inspired"), ("cites", "$id")])
    [('b', 'a', 'inspired'), ('a', 'b', 'cites')]
    """
    return [edge for _, part in edge_parts(edge_items(edges), CorpusNodes(nodes, vectors)) for edge in part]


def edge_parts(
    items: Sequence[Any], corpus: CorpusNodes, *, lenient: bool = False
) -> list[tuple[EdgeSpec | None, Sequence[EdgeLike]]]:
    """Return the edges of :func:`build_edges` by their source: a specification, or None for edges given one by one.

    `items` are those of :func:`edge_items`. With `lenient`, a specification with nothing to read in the corpus finds no edges, and
    a warning says so.
    """
    parts: list[tuple[EdgeSpec | None, list[EdgeLike]]] = []
    visited: set[tuple[str, str, str]] = set()

    def new_edges_of(spec: EdgeSpec) -> list[EdgeLike]:
        # An edge that two specifications find is one edge.
        try:
            new_edges = [edge for edge in _spec_edges(spec, corpus) if edge not in visited]
        except NothingToReadError as error:
            if not lenient:
                raise
            logger.warning("%r finds no edges any more: %s", spec, error)
            new_edges = []
        visited.update(new_edges)
        return list(new_edges)

    for number, item in enumerate(items):
        item_edges: list[EdgeLike] = []
        spec: EdgeSpec | None = None
        if isinstance(item, Triples):
            item_edges = new_edges_of(item)
        elif isinstance(item, EdgeSpec):
            spec = item
        elif is_networkx(item):
            item_edges = [_explicit(edge, f"An edge of {item}", corpus) for edge in networkx_edges(item)]
        elif is_words(item) and len(item) == 2 and _is_field_pair(item, number, corpus):
            spec = Metadata(*item)
        elif isinstance(item, Edge) or is_words(item):
            item_edges = [_explicit(item, f"Edge {number}", corpus)]
        elif isinstance(item, type) and issubclass(item, EdgeSpec):
            raise InvalidArgumentError(f"Item {number} of edges is the class {item.__name__}; call it: {item.__name__}(...).")
        elif callable(item):
            spec = FunctionEdges(item)
        else:
            is_nested = isinstance(item, (list, tuple)) and any(isinstance(part, (list, tuple)) for part in item)
            hint = " Unpack a list inside the list with a star: [*pairs, Links()]." if is_nested else ""
            raise InvalidArgumentError(f"Item {number} of edges is {shown(item)}; expected {_KINDS}.{hint}")
        if spec is not None:
            parts.append((spec, new_edges_of(spec)))
        elif parts and parts[-1][0] is None:
            parts[-1][1].extend(item_edges)
        else:
            parts.append((None, item_edges))
    return parts  # type: ignore[return-value]


def edges_among(nodes: Sequence[Node], edges: Any, vectors: Any = None) -> list[EdgeLike]:
    """Return the edges between `nodes` that an ``edges`` argument for their whole corpus describes.

    The arguments and the result are those of :func:`build_edges`. Explicit edges to absent nodes, and fields that none of these
    nodes has, are errors there; here they are skipped.
    """
    corpus = CorpusNodes(nodes, vectors)
    items = [part for item in edge_items(edges) for part in _present(item, corpus)]
    return build_edges(nodes, items, vectors)


def needs_vectors(items: Sequence[Any]) -> bool:
    """Return whether any specification among the items of an ``edges`` argument reads the nodes' vectors."""
    return any(isinstance(item, EdgeSpec) and item.needs_vectors for item in items)


def edge_items(edges: Any) -> list[Any]:
    """Return the items of an ``edges`` argument as a list; a single item becomes a list of one, None an empty list."""
    if edges is None:
        return []
    if isinstance(edges, list):
        return edges
    is_single = isinstance(edges, (Edge, EdgeSpec)) or (isinstance(edges, tuple) and is_words(edges))
    if is_single or is_networkx(edges) or callable(edges):
        return [edges]
    return as_list("edges", edges, _KINDS)


def specifications(edges: Any) -> list[EdgeSpec]:
    """Return the items of an ``edges`` argument as specifications: pairs of strings are fields, and edges are an error."""
    specs: list[EdgeSpec] = []
    for item in edge_items(edges):
        if isinstance(item, EdgeSpec):
            specs.append(item)
        elif is_words(item) and len(item) == 2:
            specs.append(Metadata(*item))
        elif callable(item) and not isinstance(item, type):
            specs.append(FunctionEdges(item))
        else:
            raise InvalidArgumentError(f"{shown(item)} is not a specification of edges; give edges one by one in add_edges=.")
    return specs


def _present(item: Any, corpus: CorpusNodes) -> list[Any]:
    """Return the part of an item of an ``edges`` argument that these nodes have."""
    if is_networkx(item):
        return [edge for edge in networkx_edges(item) if {edge.source, edge.target} <= corpus.rows.keys()]
    if isinstance(item, Edge):
        return [item] if {item.source, item.target} <= corpus.rows.keys() else []
    if isinstance(item, Metadata):
        return [item] if has_field(corpus, item.source) and has_field(corpus, item.target) else []
    if is_words(item):
        fields = len(item) == 2 and all(has_field(corpus, name) for name in item)
        return [item] if fields or set(item[:2]) <= corpus.rows.keys() else []
    return [item]


class FunctionEdges(EdgeSpec):
    """A function of the user, from a node to its neighbours."""

    def __init__(self, function: Callable[[Node], Any]) -> None:
        self.function = function

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        edges: list[tuple[str, str, str]] = []
        for node in corpus.nodes:
            result = call_function(f"{self!r}", self.function, node)
            if isinstance(result, (str, Mapping)) or not isinstance(result, (Iterable, type(None))):
                raise InvalidArgumentError(
                    f"{self!r} returned {shown(result)} for {node.id!r}; expected a list of node ids or of edges."
                )
            for item in result or ():
                if isinstance(item, str):
                    edges.append((node.id, item, ""))
                elif is_words(item):
                    edges.append((item[0], item[1], item[2] if len(item) == 3 else ""))
                else:
                    raise InvalidArgumentError(f"{self!r} returned {shown(item)} for {node.id!r}; expected a node id or an edge.")
        return corpus.inner_edges(edges)


def _spec_edges(spec: EdgeSpec, corpus: CorpusNodes) -> list[tuple[str, str, str]]:
    triples, absent, note, advice = spec.find(corpus)
    edges = [edge for edge in dict.fromkeys(triples) if edge[0] != edge[1]]
    level = logging.WARNING if advice or (absent and not edges) else logging.INFO
    message = "%r: %d edges; skipped references to nodes outside the corpus: %d%s.%s"
    logger.log(level, message, spec, len(edges), absent, note, f" {advice}" if advice else "")
    return edges


def default_edges(nodes: Sequence[Node]) -> list[EdgeSpec]:
    """Return the edges of documents if none are given: the relationships of LlamaIndex nodes, if any has one."""
    return [Relationships()] if any(node.origin.get("relationships") for node in nodes) else []


def is_words(item: Any) -> bool:
    """Return whether an item is a list or tuple of two or three strings."""
    return isinstance(item, (tuple, list)) and 2 <= len(item) <= 3 and all(isinstance(part, str) for part in item)


def _is_field_pair(pair: Sequence[str], number: int, corpus: CorpusNodes) -> bool:
    """Return whether a pair of strings names two fields, not two nodes; raise an error if it is ambiguous or names neither."""
    fields = [has_field(corpus, part) for part in pair]
    if all(part in corpus.rows for part in pair):
        if all(fields):
            raise InvalidArgumentError(
                f"Item {number} of edges, {tuple(pair)!r}, names two nodes and two fields. Write {(*pair, '')!r} for the edge, "
                f"Metadata{tuple(pair)!r} for the fields."
            )
        return False
    if any(fields) and not all(fields) and not any(part in corpus.rows for part in pair):
        field, missing = pair if fields[0] else reversed(pair)
        raise InvalidArgumentError(
            f"Item {number} of edges is {tuple(pair)!r}: {field!r} is a field, but no node has a metadata field {missing!r}."
        )
    return all(fields)


def _explicit(item: Edge | Sequence[str], label: str, corpus: CorpusNodes) -> EdgeLike:
    """Return an explicit edge; raise UnknownNodeError if one of its ends is not a node."""
    edge = (item.source, item.target, item.relation) if isinstance(item, Edge) else tuple(item)
    for end in edge[:2]:
        if end not in corpus.rows:
            hint = "add the node or drop the edge"
            if len(edge) == 3 and end == edge[1] and edge[0] in corpus.rows and edge[2] in corpus.rows:
                hint = "if this is (head, relation, tail), wrap the list in Triples(...)"
            elif len(edge) == 2:
                hint += "; no node has both as metadata fields either"
            count = len(corpus.nodes)
            raise UnknownNodeError(f"{label}, {shown(edge)}, names {end!r}, which is not one of the {count} nodes; {hint}.")
    return item if isinstance(item, Edge) else (edge[0], edge[1], edge[2] if len(edge) == 3 else "")
