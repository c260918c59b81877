"""GRanker as a LlamaIndex node postprocessor."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle

from graph_retrievers.arguments import typed
from graph_retrievers.construction.edges import Relationships
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.excerpt import rerank
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.systems.fastinsight import GRanker
from llama_graph_retrievers.reranking import RerankingPostprocessor, as_embedded
from llama_graph_retrievers.vectors import QueryVectors, node_vectors

__all__ = ["GRankerPostprocessor"]


class GRankerPostprocessor(RerankingPostprocessor):
    """Rerank nodes by a relevance model whose latents are smoothed along the edges among them.

    Nodes are matched to those of `index` by id. If all are known, they are reranked on the index. Otherwise, or without an index,
    a small graph of only these nodes is built, with the edges between them in the index and their own relationships (or `edges`).
    Degrees are then those of the small graph, and texts are what LlamaIndex embeds of a node (``MetadataMode.EMBED``).

    Parameters
    ----------
    top_n : int, default 10
        Nodes to return.
    model : str, Path or RelevanceModel, optional
        The relevance model (`relevance` elsewhere in this package): name or folder of a cross-encoder, or anything else that
        :func:`graph_retrievers.signals.models.as_relevance_model` accepts. By default that of `index`; without one, the score is
        the dot product of the vectors.
    alpha : float, default 0.2
        Smoothing factor in [0, 1]; 0 is plain reranking by the model.
    degree : {"graph", "subgraph"}, default "graph"
        Degree by which a neighbour's weight is divided: in the whole graph, or among the nodes only.
    keep_retrieval_score : bool, default False
        Whether to keep a node's earlier score in its metadata, as ``retrieval_score``.
    index : GraphIndex, optional
        Provides the edges with their weights, and the models that are not given here.
    edges : edges, edge specifications or callables, optional
        How nodes that the index does not contain are linked; by default by their relationships. See
        :func:`graph_retrievers.construction.edges.build_edges`. Edges of absent nodes are ignored.
    embed_model : BaseEmbedding, optional
        The embedding (`embedding` in the engine): embeds query and nodes if vectors are needed and missing. By default the
        index's model, else ``Settings.embed_model``.
    callback_manager : CallbackManager, optional

    Notes
    -----
    Equal scores keep the input order. A repeated node id counts once, at its first place. The input nodes are not changed. Emits
    ``CBEventType.RERANKING`` and the re-rank events of instrumentation.

    References
    ----------
    FastInsight, section 3.3, Algorithm 2; see :class:`graph_retrievers.systems.fastinsight.GRanker`.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> nodes = [NodeWithScore(node=TextNode(id_=name, text=name), score=1.0) for name in ("loom", "card", "brass")]
    >>> def about_cards(pairs):
    ...     return [float(text == "card") for query, text in pairs]
    >>> processor = GRankerPostprocessor(model=about_cards, edges=[("loom", "card")])
    >>> [(hit.node.node_id, round(hit.score, 2)) for hit in processor.postprocess_nodes(nodes, query_str="cards")]
    [('card', 0.8), ('loom', 0.2), ('brass', 0.0)]
    """

    model: str | None = Field(default=None, description="Name or folder of the relevance model.")
    alpha: float = Field(default=0.2, ge=0, le=1, description="Smoothing factor; 0 is plain reranking.")
    degree: Literal["graph", "subgraph"] = Field(default="graph", description="Degree by which a neighbour's weight is divided.")
    _relevance: RelevanceModel | None = PrivateAttr(default=None)
    _index: GraphIndex | None = PrivateAttr(default=None)
    _edges: Any = PrivateAttr(default=None)
    _embed_model: Any = PrivateAttr(default=None)

    @typed
    def __init__(
        self,
        top_n: int = 10,
        model: Any = None,
        alpha: float = 0.2,
        degree: Literal["graph", "subgraph"] = "graph",
        keep_retrieval_score: bool = False,
        *,
        index: GraphIndex | None = None,
        edges: Any = None,
        embed_model: Any = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        relevance = as_relevance_model(model) if model is not None else None
        fields: dict[str, Any] = {
            "top_n": top_n,
            "model": str(model) if isinstance(model, (str, Path)) else None,
            "alpha": alpha,
            "degree": degree,
            "keep_retrieval_score": keep_retrieval_score,
            "callback_manager": callback_manager or CallbackManager(),
        }
        super().__init__(**fields)
        objects = {"model": None if self.model else model, "index": index, "edges": edges, "embed_model": embed_model}
        self._objects = {name: value for name, value in objects.items() if value is not None}
        self._relevance, self._index, self._embed_model = relevance, index, embed_model
        self._edges = [Relationships()] if edges is None else edges

    def _model_name(self) -> str:
        if self._relevance is not None:
            return self._relevance.name
        return self._index.relevance.name if self._index is not None else "bi-encoder"

    def _ranked(self, nodes: list[NodeWithScore], bundle: QueryBundle) -> list[tuple[int, float]]:
        model = self._embed_model
        if model is None and self._index is not None:
            model = self._index.embedding
        return rerank(
            GRanker(self.alpha, degree=self.degree, k=self.top_n),
            bundle.query_str.strip(),
            [as_embedded(scored.node) for scored in nodes],
            query_vectors=QueryVectors([bundle], model),
            index=self._index,
            edges=self._edges,
            documents=[scored.node for scored in nodes],
            relevance=self._relevance,
            embedding=self._embed_model,
            vectors=lambda _: node_vectors([scored.node for scored in nodes], model),
        )
