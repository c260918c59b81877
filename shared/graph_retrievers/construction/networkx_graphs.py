"""Conversion of corpus graphs from networkx and to networkx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.graph.subgraph import Subgraph

if TYPE_CHECKING:
    import networkx

__all__ = ["from_networkx", "to_networkx"]


def from_networkx(
    graph: networkx.Graph, *, text: str = "text", title: str = "title", type: str = "type", relation: str = "relation"
) -> tuple[list[Node], list[Edge]]:
    """Return nodes and edges of a networkx graph of any class, for ``GraphIndex.from_nodes(*from_networkx(graph))``.

    The id of a node is its label as a string. `text`, `title`, `type` and `relation` are the names of these attributes; the text
    of a node without one is its id, and the relation of an edge without one "". All other attributes of nodes become metadata,
    and so do the entries of an attribute ``metadata`` that is a mapping; ``weight``, ``text`` and ``metadata`` of an edge are
    kept. An edge of an undirected graph is returned once. Steps by a shared name, which ``Subgraph.to_networkx`` marks with
    ``shared_name=True``, are not edges, and are left out.

    >>> import networkx
    >>> nodes, edges = from_networkx(networkx.path_graph(["ada", "babbage"]))
    >>> [node.id for node in nodes], edges[0].source, edges[0].target
    (['ada', 'babbage'], 'ada', 'babbage')
    """
    if not is_networkx(graph):
        raise InvalidArgumentError(f"Expected a networkx graph, got {graph.__class__.__name__}.")
    nodes = []
    for label, attributes in graph.nodes(data=True):
        rest = dict(attributes)
        content, name, kind, metadata = (rest.pop(key, None) for key in (text, title, type, "metadata"))
        if metadata is not None:
            rest |= metadata if isinstance(metadata, Mapping) else {"metadata": metadata}
        nodes.append(Node(str(label), str(label) if content is None else str(content), _text(name), _text(kind), rest))
    return nodes, networkx_edges(graph, relation)


def networkx_edges(graph: networkx.Graph, relation: str = "relation") -> list[Edge]:
    """Return the edges of a networkx graph, see :func:`from_networkx`."""
    return [
        Edge(
            source=str(source),
            target=str(target),
            relation=_text(data.get(relation)),
            weight=data.get("weight", 1.0),
            text=_text(data.get("text")),
            metadata={} if data.get("metadata") is None else data["metadata"],
        )
        for source, target, data in graph.edges(data=True)
        if data.get("shared_name") is not True
    ]


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def to_networkx(graph: CorpusGraph) -> networkx.MultiDiGraph:
    """Return a corpus graph as networkx with one edge per relationship row; :func:`from_networkx` reverses it."""
    return Subgraph(tuple(graph.node(row) for row in range(len(graph))), tuple(graph.edges())).to_networkx()


def is_networkx(value: Any) -> bool:
    """Return whether a value is a networkx graph, without importing networkx."""
    return hasattr(value, "is_directed") and hasattr(value, "is_multigraph") and hasattr(value, "edges")
