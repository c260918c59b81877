"""Corpus graphs from networkx and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node

if TYPE_CHECKING:
    import networkx

__all__ = ["from_networkx", "is_networkx", "networkx_edges", "to_networkx"]


def from_networkx(
    graph: networkx.Graph, *, text: str = "text", title: str = "title", type: str = "type", relation: str = "relation"
) -> tuple[list[Node], list[tuple[str, str, str]]]:
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
    edges : list of (source id, target id, relation)
        An edge of an undirected graph stands once.
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


def networkx_edges(graph: networkx.Graph, relation: str = "relation") -> list[tuple[str, str, str]]:
    """Return the edges of a networkx graph as (source id, target id, relation)."""
    return [(str(a), str(b), str(data.get(relation) or "")) for a, b, data in graph.edges(data=True)]


def to_networkx(graph: CorpusGraph) -> networkx.MultiDiGraph:
    """Return a corpus graph as networkx: labels are ids, one edge a relationship row.

    Nodes have the attributes ``text``, ``title``, ``type`` and ``metadata``, edges ``relation``, so that
    :func:`from_networkx` gives back what was there.
    """
    import networkx

    made = networkx.MultiDiGraph()
    for row, node in enumerate(graph.ids):
        made.add_node(
            node, text=graph.texts[row], title=graph.titles[row], type=graph.types[row], metadata=dict(graph.metadata[row])
        )
    made.add_edges_from((source, target, {"relation": relation}) for source, target, relation in graph.edges())
    return made


def is_networkx(value: Any) -> bool:
    """Return whether a value is a networkx graph, without importing networkx."""
    return hasattr(value, "is_directed") and hasattr(value, "is_multigraph") and hasattr(value, "edges")


def _class_name(value: object) -> str:
    return value.__class__.__name__
