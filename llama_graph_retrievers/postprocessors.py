"""Node postprocessors: GRanker and G-RAG rerank the nodes of any retriever, and a cutoff keeps those similar to the question."""

from __future__ import annotations

import logging
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from llama_index.core import instrumentation
from llama_index.core.bridge.pydantic import ConfigDict, Field, PrivateAttr, field_serializer
from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle

from graph_retrievers.arguments import check_keywords
from graph_retrievers.construction.documents import origin_of
from graph_retrievers.construction.edges import Relationships
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.excerpt import check_same_model, excerpt_vectors, rerank
from graph_retrievers.signals.embedding_models import CachedEmbedding
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.signals.vectors import unit_vectors
from graph_retrievers.systems.fastinsight import GRanker
from graph_retrievers.systems.grag.rerank import DocumentGraphRerank
from graph_retrievers.systems.grag.retriever import grag_reranker
from llama_graph_retrievers.nodes import annotated, provenance
from llama_graph_retrievers.vectors import QueryVectors, default_embed_model, node_vectors

_logger = logging.getLogger(__name__)
dispatcher = instrumentation.get_dispatcher(__name__)

_PLAIN = (str, int, float, Path)


class _GraphPostprocessor(BaseNodePostprocessor):
    """What both postprocessors share.

    A repeated node id counts once, at its first place. The input nodes are not changed. Emits ``CBEventType.RERANKING`` and the
    re-rank events of instrumentation. Copies and pickles have all arguments. ``to_dict`` has values for JSON; a warning names the
    arguments that it leaves out, such as an index. Pass these again to ``from_dict(data, index=...)``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    top_n: int = Field(default=10, ge=1, description="Nodes to return.")
    keep_retrieval_score: bool = Field(default=False, description="Whether to keep the earlier score in metadata.")

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            """Check the names of the arguments, then their values."""
            check_keywords(type(self).__name__, fields, sorted(type(self).model_fields))
            super().__init__(**{name: value for name, value in fields.items() if value is not None or name != "callback_manager"})

    @classmethod
    def class_name(cls) -> str:
        """Return the class name for ``to_dict``."""
        return cls.__name__

    @abstractmethod
    def _model_name(self) -> str:
        """Return the name of the model for events."""

    @abstractmethod
    def _ranked(self, nodes: list[NodeWithScore], bundle: QueryBundle) -> list[tuple[int, float]]:
        """Return the places of nodes with distinct ids, best first, and their scores."""

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InvalidArgumentError(f"{self.class_name()} ranks by a query; pass query_bundle= or query_str=.")
        if not nodes:
            return []
        name = self._model_name()
        payload: dict[str, Any] = {EventPayload.NODES: nodes, EventPayload.MODEL_NAME: name, EventPayload.TOP_K: self.top_n}
        payload[EventPayload.QUERY_STR] = query_bundle.query_str
        dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=self.top_n, model_name=name))
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            first: dict[str, NodeWithScore] = {}
            for scored in nodes:
                first.setdefault(scored.node.node_id, scored)
            distinct = list(first.values())
            results = [self._scored(distinct[place], score) for place, score in self._ranked(distinct, query_bundle)[: self.top_n]]
            event.on_end(payload={EventPayload.NODES: results})
        dispatcher.event(ReRankEndEvent(nodes=results))
        return results

    def _scored(self, hit: NodeWithScore, score: float) -> NodeWithScore:
        node = annotated(hit.node, {"retrieval_score": hit.score}) if self.keep_retrieval_score else hit.node
        return NodeWithScore(node=node, score=score)

    @property
    def _objects(self) -> dict[str, Any]:
        """The arguments that are not values for JSON."""
        values = ((name, value) for name, value in self.__dict__.items() if name != "callback_manager")
        return {name: value for name, value in values if not isinstance(value, (*_PLAIN, type(None)))}

    @field_serializer("model", "checkpoint", check_fields=False)
    def _name_or_folder(self, value: Any) -> str | None:
        """Return the name or folder of a model; None for an object."""
        return str(value) if isinstance(value, (str, Path)) else None

    def to_dict(self, **options: Any) -> dict[str, Any]:
        """Return the arguments that are values for JSON, and the name of the class; a warning names those that are left out."""
        if objects := self._objects:
            names = " and ".join(objects)
            _logger.warning("%s.to_dict() leaves out its %s; pass them to from_dict again.", self.class_name(), names)
        return super().to_dict(**options)

    def __repr__(self) -> str:
        """Return the values, and the classes of the other arguments."""
        kinds = {name: type(value).__name__ for name, value in self._objects.items()}
        names = [name for name, field in type(self).model_fields.items() if not field.exclude and name not in kinds]
        values = {name: repr(getattr(self, name)) for name in names} | kinds
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in values.items())})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments that create the same postprocessor, also those that cannot be pickled, which then say so."""
        return {"__dict__": self.__dict__}


class GRankerPostprocessor(_GraphPostprocessor):
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
    degree : {"graph", "subgraph"}, default "graph"
    weighted : bool, default False
        See :class:`graph_retrievers.systems.fastinsight.GRanker`, which has the algorithm and its source.
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

    model: Any = Field(default=None, description="The relevance model, or its name or folder.")
    alpha: float = Field(default=0.2, ge=0, le=1, description="Smoothing factor; 0 is plain reranking.")
    degree: Literal["graph", "subgraph"] = Field(default="graph", description="Degree by which a neighbour's weight is divided.")
    weighted: bool = Field(default=False, description="Whether the weights of edges count; in the paper, an edge counts as 1.")
    index: GraphIndex | None = Field(default=None, exclude=True)
    edges: Any = Field(default=None, exclude=True)
    embed_model: Any = Field(default=None, exclude=True)
    _relevance: RelevanceModel | None = PrivateAttr(default=None)

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            """Check the arguments, and load the relevance model once."""
            super().__init__(**fields)
            self._relevance = None if self.model is None else as_relevance_model(self.model)

    def _model_name(self) -> str:
        if self._relevance is not None:
            return self._relevance.name
        return self.index.relevance.name if self.index is not None else "bi-encoder"

    def _ranked(self, nodes: list[NodeWithScore], bundle: QueryBundle) -> list[tuple[int, float]]:
        documents, model = [scored.node for scored in nodes], self.embed_model
        if model is None and self.index is not None:
            model = self.index.embedding
        return rerank(
            GRanker(self.alpha, degree=self.degree, weighted=self.weighted, k=self.top_n),
            bundle.query_str.strip(),
            [
                Node(node.node_id, node.get_content(MetadataMode.EMBED), metadata=dict(node.metadata), origin=origin_of(node))
                for node in documents
            ],
            query_vectors=QueryVectors([bundle], model),
            index=self.index,
            edges=[Relationships()] if self.edges is None else self.edges,
            relevance=self._relevance,
            embedding=self.embed_model,
            vectors=lambda _: node_vectors(documents, model),
        )


class GRAGPostprocessor(_GraphPostprocessor):
    """Rerank nodes by a graph neural network over the graph of the concepts that they share.

    It works with any retriever and needs no index: nodes are parsed and embedded when first seen. It parses the ``title`` in a
    node's metadata and the node's text, without the other metadata, and embeds what LlamaIndex embeds of a node
    (``MetadataMode.EMBED``). Nodes with an ``embedding`` keep their vectors, and nodes that `index` contains, with the same id,
    title and text, get theirs from it.

    Parameters
    ----------
    top_n, keep_retrieval_score, embed_model, callback_manager : optional
        As for :class:`GRankerPostprocessor`.
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit g-rag``. Without a checkpoint or a network, no edge is used: nodes are scored by
        rank, similarity and the concepts they share with the question.
    depth : int, optional
        Nodes to rerank; by default the number that the checkpoint was trained with, or 100 without one. Later nodes keep their
        places, and so do nodes that cannot be parsed.
    network, parser : optional
        See :class:`graph_retrievers.systems.grag.rerank.DocumentGraphRerank`, which has the algorithm and its source. If all nodes
        have a score, their ranks by it are used too.
    index : GraphIndex, optional

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> texts = ["The mill bought engines.", "Ada wrote programs.", "Ada knew Babbage."]
    >>> nodes = [NodeWithScore(node=TextNode(text=text), score=1.0) for text in texts]
    >>> processor = GRAGPostprocessor(embed_model=lambda texts: [[1.0, 0.0]] * len(texts))
    >>> [(hit.node.text, round(hit.score, 2)) for hit in processor.postprocess_nodes(nodes, query_str="Who wrote programs?")]
    [('Ada wrote programs.', 4.11), ('The mill bought engines.', 2.31), ('Ada knew Babbage.', 2.31)]
    """

    checkpoint: str | Path | None = Field(default=None, description="Folder of a trained network.")
    depth: int | None = Field(default=None, ge=1, description="Nodes to rerank.")
    network: Any = Field(default=None, exclude=True)
    parser: Any = Field(default=None, exclude=True)
    embed_model: Any = Field(default=None, exclude=True)
    index: GraphIndex | None = Field(default=None, exclude=True)
    _reranker: DocumentGraphRerank = PrivateAttr()
    _embedding: Any = PrivateAttr(default=None)

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            """Check the arguments, and load the checkpoint once."""
            super().__init__(**fields)
            self._embedding = None if self.embed_model is None else CachedEmbedding(self.embed_model)
            check_same_model(self.index, self._embedding)
            name = getattr(self._embedding_model(), "name", None)
            self._reranker = grag_reranker(self.checkpoint, self.network, parser=self.parser, depth=self.depth, embedding=name)

    def _embedding_model(self) -> Any:
        return self._embedding if self._embedding is not None or self.index is None else self.index.embedding

    def _model_name(self) -> str:
        return str(self.checkpoint or "g-rag")

    def _ranked(self, nodes: list[NodeWithScore], bundle: QueryBundle) -> list[tuple[int, float]]:
        if self._embedding_model() is None:
            # Read when first needed, because Settings may be set later.
            self._embedding = CachedEmbedding(default_embed_model())
        model = self._embedding_model()
        return rerank(
            self._reranker,
            bundle.query_str.strip(),
            [_as_parsed(scored.node) for scored in nodes],
            scores=[scored.score for scored in nodes],
            query_vectors=QueryVectors([bundle], model),
            embedding=model,
            vectors=lambda parsed: unit_vectors(
                excerpt_vectors(parsed, self.index, lambda bare: node_vectors([nodes[place].node for place in bare], model))
            ),
        )


def _as_parsed(node: BaseNode) -> Node:
    """Return an engine node with the text and title of a node; its metadata would be mistaken for its subject."""
    title = node.metadata.get("title", "")
    return Node(node.node_id, node.get_content(metadata_mode=MetadataMode.NONE), title if isinstance(title, str) else "")


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
        pairs = [(node, provenance(node).get("similarity")) for node in nodes]
        if nodes and all(value is None for _, value in pairs):
            raise InvalidArgumentError(
                f"None of the {len(nodes)} nodes tells its similarity; expected nodes of a retriever that compares vectors, with "
                "provenance=True. BM25 does not."
            )
        return [node for node, value in pairs if value is not None and value >= self.similarity_cutoff]
