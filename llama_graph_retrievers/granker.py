"""GRanker as a LlamaIndex node postprocessor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from llama_index.core import instrumentation
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode

from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.edges import Relationships, edge_items, needs_vectors
from graph_retrievers.construction.excerpt import edges_among
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.granker import GRanker
from graph_retrievers.operators.operator import Ranking
from graph_retrievers.signals.relevance import BiEncoder, RelevanceModel, as_relevance_model
from llama_graph_retrievers.building import node_vectors
from llama_graph_retrievers.nodes import annotated
from llama_graph_retrievers.query_vectors import QueryVectors

__all__ = ["GRankerPostprocessor"]

dispatcher = instrumentation.get_dispatcher(__name__)


class GRankerPostprocessor(BaseNodePostprocessor):
    """Rerank nodes by a relevance model whose latents are smoothed along the edges among them.

    Nodes are matched to those of `index` by id. Where all are known, they are reranked on the index. Where some are
    not, or there is no index, a small graph of just these nodes is made: the edges that the index has among them, and
    their own relationships (or `edges`); degrees are then those of the small graph, and texts are what LlamaIndex
    embeds of a node (``MetadataMode.EMBED``).

    Parameters
    ----------
    top_n : int, default 10
        Nodes to return.
    model : str, Path or RelevanceModel, optional
        Name or folder of a cross-encoder, or what else
        :func:`graph_retrievers.signals.relevance.as_relevance_model` takes. By default the relevance model of
        `index`; without one, the dot product of the vectors scores.
    alpha : float, default 0.2
        Smoothing factor in [0, 1]; 0 is plain reranking by the model.
    degree : {"graph", "subgraph"}, default "graph"
        Degree that a neighbour counts inversely to: of the whole graph, or among the nodes alone.
    keep_retrieval_score : bool, default False
        Whether the score a node came with is kept in its metadata, as ``retrieval_score``.
    index : GraphIndex, optional
        Its edges, and its models where none are given here.
    edges : edges, edge specifications or callables, optional
        What links nodes that the index does not know; their relationships by default. See
        :func:`graph_retrievers.construction.edges.build_edges`. What it says of absent nodes is passed over.
    embed_model : BaseEmbedding, optional
        Embeds query and nodes where vectors score and are not there yet. By default the index's model, else
        ``Settings.embed_model``.
    callback_manager : CallbackManager, optional

    Notes
    -----
    Equal scores keep the order the nodes came in. A node id that comes twice counts once, at its first place. The
    nodes that came in are not changed. Emits ``CBEventType.RERANKING`` and the re-rank events of instrumentation.

    References
    ----------
    FastInsight, section 3.3, Algorithm 2; see :class:`graph_retrievers.operators.granker.GRanker`.
    """

    top_n: int = Field(default=10, ge=1, description="Nodes to return.")
    model: str | None = Field(default=None, description="Name or folder of the relevance model.")
    alpha: float = Field(default=0.2, ge=0, le=1, description="Smoothing factor; 0 is plain reranking.")
    degree: Literal["graph", "subgraph"] = Field(default="graph", description="Degree that a neighbour counts inversely to.")
    keep_retrieval_score: bool = Field(default=False, description="Whether to keep the earlier score in metadata.")
    _relevance: RelevanceModel | None = PrivateAttr(default=None)
    _index: GraphIndex | None = PrivateAttr(default=None)
    _edges: Any = PrivateAttr(default=None)
    _embed_model: Any = PrivateAttr(default=None)

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
            "model": relevance.name if relevance is not None else None,
            "alpha": alpha,
            "degree": degree,
            "keep_retrieval_score": keep_retrieval_score,
            "callback_manager": callback_manager or CallbackManager(),
        }
        super().__init__(**fields)
        self._relevance, self._edges, self._embed_model = relevance, edges, embed_model
        self._index = index.with_models(relevance=relevance) if index is not None and relevance is not None else index

    @classmethod
    def class_name(cls) -> str:
        """Return the name that goes into ``to_dict``."""
        return "GRankerPostprocessor"

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InvalidArgumentError("GRankerPostprocessor ranks by a query; pass query_bundle= or query_str=.")
        if not nodes:
            return []
        name = self._model_name()
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: name,
            EventPayload.QUERY_STR: query_bundle.query_str,
            EventPayload.TOP_K: self.top_n,
        }
        dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=self.top_n, model_name=name))
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            ranked = self._reranked(nodes, query_bundle)
            event.on_end(payload={EventPayload.NODES: ranked})
        dispatcher.event(ReRankEndEvent(nodes=ranked))
        return ranked

    def _model_name(self) -> str:
        if self._index is not None:
            return self._index.relevance.name
        return self.model or "bi-encoder"

    def _reranked(self, nodes: list[NodeWithScore], bundle: QueryBundle) -> list[NodeWithScore]:
        first: dict[str, NodeWithScore] = {}
        for scored in nodes:
            first.setdefault(scored.node.node_id, scored)
        index = self._index_of([scored.node for scored in first.values()])
        rows = torch.tensor([[index.graph.row(node) for node in first]], device=index.device)
        given = Ranking.seeds(rows, torch.zeros(rows.shape, device=index.device), "given")
        own = self._index.embedding if self._index is not None else None
        queries = index.queries([bundle.query_str.strip()], vectors=QueryVectors([bundle], self._embed_model, own))
        ranking = GRanker(self.alpha, degree=self.degree, k=self.top_n)(queries, given)
        best = zip(ranking.nodes[0].tolist(), ranking.scores[0].tolist(), strict=True)
        return [self._scored(first[index.graph.ids[row]], score) for row, score in best]

    def _scored(self, given: NodeWithScore, score: float) -> NodeWithScore:
        node = annotated(given.node, {"retrieval_score": given.score}) if self.keep_retrieval_score else given.node
        return NodeWithScore(node=node, score=score)

    def _index_of(self, nodes: Sequence[BaseNode]) -> GraphIndex:
        """Return the index if it knows all nodes, else an index of these nodes alone."""
        whole = self._index
        if whole is not None and all(node.node_id in whole.graph for node in nodes):
            return whole
        relevance, embed_model = self._relevance, self._embed_model
        specs = list(edge_items(self._edges)) if self._edges is not None else [Relationships()]
        known: list[Edge] = []
        if whole is not None:
            known = edges_within(whole.graph, [node.node_id for node in nodes if node.node_id in whole.graph])
            relevance = relevance if isinstance(whole.relevance, BiEncoder) else whole.relevance
            embed_model = embed_model if embed_model is not None else whole.embedding
        vectors = node_vectors(nodes, embed_model) if relevance is None or needs_vectors(specs) else None
        documents = [_as_embedded(node) for node in nodes]
        corpus = to_nodes(documents, title_key="", type_key="")
        return GraphIndex.from_nodes(
            corpus,
            dict.fromkeys([*known, *edges_among(corpus, specs, vectors, documents)]),
            vectors=vectors,
            lexical=False,
            relevance=relevance,
            device=whole.device if whole is not None else None,
        )


def _as_embedded(node: BaseNode) -> TextNode:
    """Return a node whose plain text is what LlamaIndex embeds of `node`."""
    content = node.get_content(metadata_mode=MetadataMode.EMBED)
    return TextNode(id_=node.node_id, text=content, metadata=node.metadata, relationships=node.relationships)


def edges_within(graph: CorpusGraph, nodes: Sequence[str]) -> list[Edge]:
    """Return the relationship rows of a graph whose ends are both among some nodes."""
    rows = torch.tensor([graph.row(node) for node in nodes], dtype=torch.int64, device=graph.device)
    inside = (torch.isin(graph.sources, rows) & torch.isin(graph.targets, rows)).nonzero().flatten()
    columns = (graph.sources[inside].tolist(), graph.targets[inside].tolist(), graph.relations[inside].tolist())
    return [(graph.ids[s], graph.ids[t], graph.relation_names[r]) for s, t, r in zip(*columns, strict=True)]
