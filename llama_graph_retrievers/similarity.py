"""SimilarityCutoffPostprocessor: keep nodes that are similar to the question, independent of their scores."""

from __future__ import annotations

from llama_index.core.bridge.pydantic import Field
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from graph_retrievers.errors import InvalidArgumentError
from llama_graph_retrievers.nodes import provenance

__all__ = ["SimilarityCutoffPostprocessor"]


class SimilarityCutoffPostprocessor(BaseNodePostprocessor):
    """Keep the nodes whose cosine with the question is large enough.

    ``SimilarityPostprocessor`` of LlamaIndex compares scores, which are not cosines for most graph retrievers. This one compares
    the ``similarity`` of :func:`~llama_graph_retrievers.provenance`, and embeds nothing.

    Parameters
    ----------
    similarity_cutoff : float, from -1 to 1
        Nodes with a smaller similarity are dropped, and so are nodes without one (no vector) if other nodes have one;
        InvalidArgumentError if none has one, for example those of BM25, or with ``provenance=False``.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from llama_graph_retrievers import GraphRetriever
    >>> index = GraphIndex.from_texts(["A loom.", "A card."], vectors=[[1, 0], [0, 1]], edges=[])
    >>> retriever = GraphRetriever(index, "vector", embed_model=lambda texts: [[0.8, 0.6]] * len(texts))
    >>> found = retriever.retrieve("Which loom?")
    >>> [hit.text for hit in SimilarityCutoffPostprocessor(similarity_cutoff=0.7).postprocess_nodes(found)]
    ['A loom.']
    """

    similarity_cutoff: float = Field(ge=-1.0, le=1.0, description="Smallest cosine with the question.")

    @classmethod
    def class_name(cls) -> str:
        """Return the class name for ``to_dict``."""
        return cls.__name__

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None) -> list[NodeWithScore]:
        told = [(node, provenance(node).get("similarity")) for node in nodes]
        if nodes and all(value is None for _, value in told):
            raise InvalidArgumentError(
                f"None of the {len(nodes)} nodes tells its similarity; expected nodes of a retriever that compares vectors, with "
                "provenance=True. BM25 does not."
            )
        return [node for node, value in told if value is not None and value >= self.similarity_cutoff]
