"""G-RAG as a LlamaIndex node postprocessor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from torch import Tensor

from graph_retrievers.construction.documents import unit_vectors
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.excerpt import check_same_model, known_vectors, rerank
from graph_retrievers.signals.embedding import CachedEmbedding
from graph_retrievers.systems.grag import DocumentGraphRerank
from graph_retrievers.systems.grag.retriever import grag_reranker
from llama_graph_retrievers.reranking import RerankingPostprocessor
from llama_graph_retrievers.vectors import QueryVectors, default_embed_model, node_vectors

__all__ = ["GRAGPostprocessor"]


class GRAGPostprocessor(RerankingPostprocessor):
    """Rerank nodes by a graph neural network over the graph of the concepts that they share.

    It works with any retriever and needs no index: nodes are parsed and embedded when first seen. It parses the ``title`` in a
    node's metadata and the node's text, without the other metadata, and embeds what LlamaIndex embeds of a node
    (``MetadataMode.EMBED``). Nodes with an ``embedding`` keep their vectors, and nodes that `index` contains, with the same id,
    title and text, get theirs from it.

    Parameters
    ----------
    top_n : int, default 10
        Nodes to return.
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit g-rag``. Without a checkpoint or a network, no edge is used: nodes are scored by
        rank, similarity and the concepts they share with the question.
    depth : int, optional
        Nodes to rerank; by default the number that the checkpoint was trained with, or 100 without one. Later nodes keep their
        places.
    keep_retrieval_score : bool, default False
        Whether to keep a node's earlier score in its metadata, as ``retrieval_score``.
    network : EvidenceNetwork or DocumentGraphNetwork, optional
        Used instead of a checkpoint.
    parser : MeaningParser, MeaningCache, callable or None
        See :class:`graph_retrievers.systems.grag.rerank.DocumentGraphRerank`.
    embed_model : BaseEmbedding, optional
        Embeds query and nodes; by default the index's model, else ``Settings.embed_model``.
    index : GraphIndex, optional
    callback_manager : CallbackManager, optional

    Notes
    -----
    If all nodes have a score, their ranks by it are used too. Nodes that cannot be parsed keep their places. A repeated node id
    counts once, at its first place. The input nodes are not changed. Emits ``CBEventType.RERANKING`` and the re-rank events of
    instrumentation.

    References
    ----------
    Dong et al., "Don't Forget to Connect!", 2024; see :class:`graph_retrievers.systems.grag.rerank.DocumentGraphRerank`.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> texts = ["The mill bought engines.", "Ada wrote programs.", "Ada knew Babbage."]
    >>> nodes = [NodeWithScore(node=TextNode(text=text), score=1.0) for text in texts]
    >>> processor = GRAGPostprocessor(embed_model=lambda texts: [[1.0, 0.0]] * len(texts))
    >>> [(hit.node.text, round(hit.score, 2)) for hit in processor.postprocess_nodes(nodes, query_str="Who wrote programs?")]
    [('Ada wrote programs.', 4.11), ('The mill bought engines.', 2.31), ('Ada knew Babbage.', 2.31)]
    """

    checkpoint: str | None = Field(default=None, description="Folder of a trained network.")
    depth: int | None = Field(default=None, ge=1, description="Nodes to rerank.")
    _reranker: DocumentGraphRerank = PrivateAttr()
    _index: GraphIndex | None = PrivateAttr(default=None)
    _embed_model: Any = PrivateAttr(default=None)

    def __init__(
        self,
        top_n: int = 10,
        checkpoint: str | Path | None = None,
        depth: int | None = None,
        keep_retrieval_score: bool = False,
        *,
        network: Any = None,
        parser: Any = None,
        embed_model: Any = None,
        index: GraphIndex | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        fields: dict[str, Any] = {
            "top_n": top_n,
            "checkpoint": None if checkpoint is None else str(checkpoint),
            "depth": depth,
            "keep_retrieval_score": keep_retrieval_score,
            "callback_manager": callback_manager or CallbackManager(),
        }
        super().__init__(**fields)
        objects = {"network": network, "parser": parser, "embed_model": embed_model, "index": index}
        self._objects = {name: value for name, value in objects.items() if value is not None}
        self._index = index
        self._embed_model = None if embed_model is None else CachedEmbedding(embed_model)
        check_same_model(index, self._embed_model)
        known = self._embed_model if self._embed_model is not None else index and index.embedding
        self._reranker = grag_reranker(checkpoint, network, parser=parser, depth=depth, embedding=getattr(known, "name", None))

    def _model_name(self) -> str:
        return self.checkpoint or "g-rag"

    def _ranked(self, nodes: list[NodeWithScore], bundle: QueryBundle) -> list[tuple[int, float]]:
        if self._embed_model is None and (self._index is None or self._index.embedding is None):
            # Read when first needed, because Settings may be set later.
            self._embed_model = CachedEmbedding(default_embed_model())
        model = self._embed_model if self._embed_model is not None else self._index and self._index.embedding
        return rerank(
            self._reranker,
            bundle.query_str.strip(),
            [_as_parsed(scored.node) for scored in nodes],
            scores=[scored.score for scored in nodes],
            query_vectors=QueryVectors([bundle], model),
            embedding=model,
            vectors=lambda parsed: self._vectors(parsed, [scored.node for scored in nodes], model),
        )

    def _vectors(self, parsed: Sequence[Node], nodes: list[BaseNode], model: Any) -> Tensor:
        known = known_vectors(parsed, self._index)
        bare = [node for node, vector in zip(nodes, known, strict=True) if vector is None]
        made = iter(node_vectors(bare, model)) if bare else iter(())
        return unit_vectors(torch.stack([next(made) if vector is None else vector for vector in known]))


def _as_parsed(node: BaseNode) -> Node:
    """Return an engine node with the text and title of a node; its metadata would be mistaken for its subject."""
    title = node.metadata.get("title", "")
    return Node(node.node_id, node.get_content(metadata_mode=MetadataMode.NONE), title if isinstance(title, str) else "")
