"""Spreading activation as a sub-retriever of a LlamaIndex property graph index."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from llama_index.core import PropertyGraphIndex
from llama_index.core.callbacks import CallbackManager
from llama_index.core.graph_stores.types import TRIPLET_SOURCE_KEY, PropertyGraphStore, Triplet
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.property_graph import BasePGRetriever
from llama_index.core.indices.property_graph.sub_retrievers.base import DEFAULT_PREAMBLE
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from torch import Tensor

from graph_retrievers.arguments import keywords_of
from graph_retrievers.construction.knowledge import PASSAGE
from graph_retrievers.construction.knowledge_readers import from_property_graph_store, store_triplets, warn_of_lost_chunks
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError
from graph_retrievers.hits import Hit, Hits
from graph_retrievers.hits.hit import plain_provenance
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.options import CommonOptions
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.given import check_options, system_or_preset
from graph_retrievers.systems.spreading.retriever import SpreadingActivation
from llama_graph_retrievers.nodes import provenance, warn_of_nothing_found, with_provenance
from llama_graph_retrievers.stores import entity_vectors
from llama_graph_retrievers.vectors import QueryVectors, default_embed_model

_logger = logging.getLogger(__name__)

_LEAST = 0.1
"""Minimum share of activation that every entity receives."""


def half_open_gate(queries: Queries, batch: Tensor, nodes: Tensor) -> Tensor:
    """Return max(cos(query, node), 0.1) for queries and node rows of shape [n]: shape [n], float64."""
    return queries.cosines(batch, nodes).clamp(min=_LEAST)


_Key = tuple[str, str, str]
# How many entities a note names.
_MOST_NAMES = 3
_NO_TRIPLETS = "among its entities, the property graph has no triplets"
_INSTEAD = "extract some, or search its passages with VectorContextRetriever"


class SpreadingActivationPGRetriever(BasePGRetriever):
    """Retrieve facts of a property graph by spreading activation from the entities of the question.

    A sub-retriever: ``index.as_retriever(sub_retrievers=[SpreadingActivationPGRetriever(index)])``. It returns the triplets on
    the paths to the most activated entities and on the best chains, best first. With `include_text`, they include the text from
    which they were extracted, as with LlamaIndex' own sub-retrievers.

    Parameters
    ----------
    graph_store : PropertyGraphStore or PropertyGraphIndex
        Read once, when the retriever is created; create a new one after the graph has changed. Facts from deleted chunks, which
        ``delete_ref_doc`` leaves in the store, are found with a warning. The vector store and the embedding
        model of a ``PropertyGraphIndex`` are used too, unless others are given.
    include_text, include_properties, include_text_preamble, callback_manager : optional
        As for every ``BasePGRetriever``.
    index : GraphIndex, optional
        An existing index of the graph, such as a saved one from
        ``GraphIndex.from_nodes(*from_property_graph_store(graph_store), ...)``; by default it is built here.
    vector_store : BasePydanticVectorStore, optional
        The store with the vectors of the entities, if they are not in the graph store. A ``PropertyGraphIndex`` keeps them in a
        separate vector store with a ``SimplePropertyGraphStore``, or if it was given one. They are the vectors of the names and
        properties of the entities.
    embed_model : BaseEmbedding, optional
        Embeds the questions, and the descriptions or facts of entities without a vector in either store; ``Settings.embed_model``
        if None. Not used if the given index has vectors and a model. Vectors are compared by cosine.
    similarity_top_k : int, optional
        Number of entities whose paths are returned; by default the engine's own k, 30. An entity without an edge to another has
        no triplet.
    entities : callable, optional
        Maps a question to the names that it mentions; if None, names of nodes are looked up in the question.
    system : SpreadingActivation, str or mapping, optional
        How the activation spreads. By default the class variable `system`, of which ``dataclasses.replace`` changes one parameter:
        ``replace(SpreadingActivationPGRetriever.system, steps=2)``. Its gate is the cosine of an entity with the question, but at
        least a tenth, because an entity on the way to the answer need not be similar to the question, and few entities of a
        property graph have a description; ``gate="cosine"`` is the published gate, which passes nothing where the cosine is 0. Its
        threshold is 0.001, chains are searched, and passages are not entered.
    **options
        Keywords of every retriever of the engine, such as ``time_limit`` (see
        :class:`graph_retrievers.retrievers.retriever.Retriever`); `backfill` is False here, because nodes that vector search adds
        have no path, hence no triplet.

    Notes
    -----
    A triplet's score is the activation of the entity, or the mean activation of the chain, to which it leads; the best, if there
    are several. :func:`~llama_graph_retrievers.provenance` has the path from an entity of the question to that triplet, the
    operator that found the entity or chain, and notes on the question (for example, no entity found). The ``kind`` of triplets
    without text is "fact".

    References
    ----------
    Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", 2026.

    Examples
    --------
    >>> from llama_index.core.graph_stores import SimplePropertyGraphStore
    >>> from llama_index.core.graph_stores.types import EntityNode, Relation
    >>> store = SimplePropertyGraphStore()
    >>> store.upsert_nodes([EntityNode(name="Ada"), EntityNode(name="Engine")])
    >>> store.upsert_relations([Relation(label="programmed", source_id="Ada", target_id="Engine")])
    >>> def embed(texts):
    ...     return [[float("Ada" in text), 1.0] for text in texts]
    >>> SpreadingActivationPGRetriever(store, embed_model=embed).retrieve("What did Ada program?")[0].text
    'Ada -> programmed -> Engine'
    """

    system = SpreadingActivation(chains="hits", passages=False, gate=half_open_gate, threshold=0.001)

    def __init__(
        self,
        graph_store: PropertyGraphStore | PropertyGraphIndex,
        include_text: bool = True,
        include_properties: bool = False,
        *,
        index: GraphIndex | None = None,
        vector_store: BasePydanticVectorStore | None = None,
        embed_model: Any = None,
        similarity_top_k: int | None = None,
        entities: Callable[[str], Sequence[str] | None] | None = None,
        system: SpreadingActivation | str | Mapping[str, Any] | None = None,
        include_text_preamble: str | None = DEFAULT_PREAMBLE,
        callback_manager: CallbackManager | None = None,
        **options: Unpack[CommonOptions],
    ) -> None:
        activation: SpreadingActivation = system_or_preset(type(self).__name__, system, self.system)
        self.system = activation
        keywords = keywords_of(SpreadingActivationPGRetriever.__init__)
        check_options(type(self).__name__, options, keywords | CommonOptions.__optional_keys__, activation)
        if index is not None and not isinstance(index, GraphIndex):
            raise InvalidArgumentError(f"index= takes a GraphIndex, got {type(index).__name__}; a PropertyGraphIndex goes first.")
        if index is not None and vector_store is not None:
            raise InvalidArgumentError("index= has its vectors; leave out vector_store=.")
        if isinstance(graph_store, PropertyGraphIndex):
            vector_store = vector_store if vector_store is not None else graph_store.vector_store
            if embed_model is None and (index is None or index.embedding is None):
                embed_model = graph_store._embed_model
            graph_store = graph_store.property_graph_store
        elif isinstance(graph_store, BaseIndex):
            raise InvalidArgumentError(f"A {type(graph_store).__name__} has no property graph; pass a PropertyGraphIndex.")
        super().__init__(graph_store, include_text, include_text_preamble, include_properties, callback_manager=callback_manager)
        passages: set[str] | None = None
        if index is None:
            nodes, edges = from_property_graph_store(graph_store)
            passages = {node.id for node in nodes if node.type == PASSAGE}
            names = {node.id for node in nodes} - passages
            if not names:
                raise EmptyGraphError(f"The property graph has no entities, of which this retriever finds the facts; {_INSTEAD}.")
            vectors = {} if vector_store is None else entity_vectors(vector_store)
            index = GraphIndex.from_nodes(
                [
                    node if node.embedding is not None else replace(node, embedding=vectors.get(node.id))
                    for node in nodes
                    if node.id in names
                ],
                [edge for edge in edges if edge.source in names and edge.target in names],
                embedding=embed_model if embed_model is not None else default_embed_model(),
                bm25=False,
                metric="cosine",
            )
        options.setdefault("backfill", False)
        self.engine = Retriever(index, activation, k=similarity_top_k, **options)
        self._model, self._entities = index.embedding if embed_model is None else embed_model, entities
        # Edges that a path can follow: a chunk's mention is not one, unless the walk passes through chunks of the index.
        chunks = activation.types_of_passages if activation.passages is False else ()
        ends = {name for name, kind in zip(index.graph.ids, index.graph.types, strict=True) if kind not in chunks}
        self._triplets: dict[_Key, Triplet] = {
            (head.id, relation.label, tail.id): (head, relation, tail)
            for head, relation, tail in store_triplets(graph_store, index.graph.ids)
            if head.id != tail.id and head.id in ends and tail.id in ends
        }
        # Reading the graph has warned of chunks that it no longer has.
        sources = {relation.properties.get(TRIPLET_SOURCE_KEY) for _, relation, _ in self._triplets.values()} - {None}
        self._has_warned = passages is not None and not sources <= passages
        if not self._triplets:
            _logger.warning("%s, so that this retriever finds nothing; %s.", _NO_TRIPLETS.capitalize(), _INSTEAD)

    def __repr__(self) -> str:
        """Return the class, the sizes of the graph and k."""
        graph = self.engine.index.graph
        return f"{type(self).__name__}({len(graph)} nodes, {graph.num_edges} edges, similarity_top_k={self.engine.k})"

    def retrieve_from_graph(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return the triplets for a question as nodes, best first."""
        question, options = self._arguments(query_bundle)
        return self._result_nodes(self.engine.retrieve_batch([question], **options)[0])

    async def aretrieve_from_graph(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return what :meth:`retrieve_from_graph` returns; the embedding model is awaited, and the rest runs in threads."""
        question, options = await asyncio.to_thread(self._arguments, query_bundle)
        hits = (await self.engine.aretrieve_batch([question], **options))[0]
        return await asyncio.to_thread(self._result_nodes, hits)

    def _arguments(self, query_bundle: QueryBundle) -> tuple[str, dict[str, Any]]:
        question = query_bundle.query_str.strip()
        inputs: dict[str, Any] = {"entities": [self._entities(question)]} if self._entities is not None else {}
        return question, {"vectors": QueryVectors([query_bundle], self._model), **inputs}

    def _result_nodes(self, hits: Hits) -> list[NodeWithScore]:
        triplets = self._path_triplets(hits)
        if not triplets:
            warn_of_nothing_found([*hits.notes, *self._reasons(hits)])
        nodes = self._get_nodes_with_score([self._triplets[key] for key in triplets], [hit.score for hit in triplets.values()])
        return [
            NodeWithScore(node=with_provenance(node.node, plain_provenance(hit, hits.notes)), score=node.score)
            for node, hit in zip(nodes, triplets.values(), strict=True)
        ]

    def _path_triplets(self, hits: Hits) -> dict[_Key, Hit]:
        """Return the triplets on the paths of hits, best first, each as the best hit that it leads to, with the path so far."""
        triplets: dict[_Key, Hit] = {}
        for hit in sorted(hits, key=lambda hit: -hit.score):
            for place, step in enumerate(hit.path.steps(), 2):
                for key in ((edge.source, edge.relation, edge.target) for edge in step.edges()):
                    if key in self._triplets and key not in triplets:
                        triplets[key] = replace(hit, path=hit.path.beginning(place), kind="fact")
        return triplets

    def _reasons(self, hits: Hits) -> Iterator[str]:
        """Yield why the paths of hits contain no triplets: the reasons, or the notes if there are no hits."""
        if not self._triplets:
            yield _NO_TRIPLETS
        elif any(len(hit.path.nodes) > 1 for hit in hits):
            yield "the graph store has none of the triplets on the paths; make the retriever, and its index, of the same graph"
        elif hits:
            names = [repr(hit.title or hit.id) for hit in hits]
            text = ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else "")
            ends = {end for head, _, tail in self._triplets for end in (head, tail)}
            if any(hit.id in ends for hit in hits):
                yield f"no activation passes from {text} to another entity; lower threshold= or pass another gate="
            else:
                yield f"no triplet leads from {text} to another entity"

    def _add_source_text(self, retrieved_nodes: list[NodeWithScore], og_node_map: dict[str, BaseNode]) -> list[NodeWithScore]:
        # The base class replaces each triplet by its source.
        results = super()._add_source_text(retrieved_nodes, og_node_map)
        lost = {source for node in retrieved_nodes if (source := node.node.ref_doc_id) and source not in og_node_map}
        if lost and not self._has_warned:
            self._has_warned = True
            warn_of_lost_chunks(sorted(lost))
        for new, old in zip(results, retrieved_nodes, strict=True):
            if new is not old:
                new.node = with_provenance(new.node, {name: value for name, value in provenance(old).items() if name != "kind"})
        return results
