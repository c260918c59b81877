"""Corpus graphs from networkx and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.graph.subgraph import Subgraph

if TYPE_CHECKING:
    import networkx

__all__ = ["from_networkx", "is_networkx", "networkx_edges", "to_networkx"]


def from_networkx(
    graph: networkx.Graph, *, text: str = "text", title: str = "title", type: str = "type", relation: str = "relation"
) -> tuple[list[Node], list[Edge]]:
    """Return nodes and edges of a networkx graph, for ``GraphIndex.from_nodes(*from_networkx(graph))``.

    Parameters
    ----------
    graph : networkx graph
        Of any class. The id of a node is its label as a string.
    text, title, type : str
        Node attributes that hold these; a node without a text says its own id. All other attributes are metadata,
        and so are the entries of an attribute ``metadata`` that is a mapping.
    relation : str, default "relation"
        Edge attribute that holds the relation; "" where an edge has none.

    Returns
    -------
    nodes : list of Node
    edges : list of Edge
        Weight, text and metadata are those of the attributes of these names. An edge of an undirected graph stands once.
    """
    if not is_networkx(graph):
        raise InvalidArgumentError(f"Expected a networkx graph, got {_class_name(graph)}.")
    nodes = []
    for label, attributes in graph.nodes(data=True):
        rest = dict(attributes)
        fields = {name: rest.pop(key, None) for name, key in (("text", text), ("title", title), ("type", type))}
        metadata = rest.pop("metadata", {})
        rest |= metadata if isinstance(metadata, Mapping) else {"metadata": metadata}
        nodes.append(
            Node(
                id=str(label),
                text=str(label) if fields["text"] is None else str(fields["text"]),
                title=str(fields["title"] or ""),
                type=str(fields["type"] or ""),
                metadata=rest,
            )
        )
    return nodes, networkx_edges(graph, relation)


def networkx_edges(graph: networkx.Graph, relation: str = "relation") -> list[Edge]:
    """Return the edges of a networkx graph; weight, text and metadata are those of the attributes of these names."""
    return [
        Edge(
            str(source),
            str(target),
            str(data.get(relation) or ""),
            data.get("weight", 1.0),
            str(data.get("text") or ""),
            data.get("metadata") or {},
        )
        for source, target, data in graph.edges(data=True)
    ]


def to_networkx(graph: CorpusGraph) -> networkx.MultiDiGraph:
    """Return a corpus graph as networkx, one edge a relationship row, so that :func:`from_networkx` gives back what was there."""
    return Subgraph(tuple(graph.node(row) for row in range(len(graph))), tuple(graph.edges())).to_networkx()


def is_networkx(value: Any) -> bool:
    """Return whether a value is a networkx graph, without importing networkx."""
    return hasattr(value, "is_directed") and hasattr(value, "is_multigraph") and hasattr(value, "edges")


def _class_name(value: object) -> str:
    return value.__class__.__name__
