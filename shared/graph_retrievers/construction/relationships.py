"""Edges from the relationships of LlamaIndex nodes."""

from __future__ import annotations

from graph_retrievers.construction.documents import is_of_llama_index
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, SpecEdges
from graph_retrievers.errors import NothingToReadError

__all__ = ["Relationships"]

# Values of NodeRelationship, as in the origin of a node.
_KINDS = {"1": "source", "2": "previous", "3": "next", "4": "parent", "5": "child"}
# Relationships written from their other end, so that a pair of them is one edge.
_INVERSE = {"previous": "next", "parent": "child"}


class Relationships(EdgeSpec):
    """Relationships of LlamaIndex nodes: next, previous, parent, child and source.

    A relationship that both ends state becomes one edge: ``previous`` is written as the other node's ``next``, and ``parent`` as
    the parent's ``child``. ``source`` points from a chunk to its document, if that is a node too. References to other nodes outside
    the corpus are skipped and counted in the log. Raises InvalidArgumentError if no document has relationships, as with LangChain
    documents and plain texts.

    Examples
    --------
    >>> from graph_retrievers.index.graph_index import GraphIndex
    >>> from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
    >>> chunks = [TextNode(id_="a", text="Looms."), TextNode(id_="b", text="Cards.")]
    >>> chunks[0].relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="b")
    >>> GraphIndex.from_documents(chunks, edges=Relationships()).graph.relation_names
    ['next']
    """

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges, in the order of the nodes."""
        if not any(map(is_of_llama_index, corpus.nodes)):
            raise NothingToReadError(
                "Relationships() reads LlamaIndex nodes, but none of the documents has relationships; "
                "pass the nodes to GraphIndex.from_documents, or use another source of edges."
            )
        edges = []
        for node in corpus.nodes:
            for key, value in node.origin.get("relationships", {}).items():
                kind = _KINDS.get(key, key.lower())
                for target in (item["node_id"] for item in (value if isinstance(value, list) else [value])):
                    if kind == "source" and target not in corpus.rows:
                        # Usual, and not worth a warning: only the chunks of a document are nodes.
                        continue
                    inverse = _INVERSE.get(kind)
                    edges.append((target, node.id, inverse) if inverse else (node.id, target, kind))
        return corpus.inner_edges(edges)
