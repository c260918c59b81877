"""Keywords of GraphRetriever, and of any system that it is made for; written by tools/stubs.py, not by hand."""

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.schema import BaseNode, IndexNode
from llama_index.core.storage.docstore.types import BaseDocumentStore
from llama_index.core.vector_stores.types import MetadataFilters
from torch import Tensor

from graph_retrievers.core.operator import Operator
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.filters import Filter
from graph_retrievers.queries import Queries
from graph_retrievers.systems.grag.model import DocumentGraphNetwork, EvidenceNetwork
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.mor.reranker import TrajectoryReranker
from graph_retrievers.systems.mor.traversal import MixedTraversal
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking

__all__ = [
    "Options",
    "SystemOptions",
    "IndexOptions",
    "DefaultsOptions",
]

class Options(TypedDict, total=False):
    similarity_top_k: int | None
    embed_model: Any
    filters: Filter | MetadataFilters | None
    seed_filters: Filter | MetadataFilters | None
    traversal_filters: Filter | MetadataFilters | None
    scope: Filter | MetadataFilters | None
    nodes: Iterable[BaseNode] | BaseDocumentStore | VectorStoreIndex | None
    inputs: Mapping[str, Callable[[str], Any]] | None
    provenance: bool
    callback_manager: CallbackManager | None
    object_map: MutableMapping[str, Any] | None
    objects: list[IndexNode] | None
    verbose: bool
    backfill: bool
    per_source: int | None
    source_field: str | None
    types: Collection[str] | None
    batch_size: int
    share_batches: bool | None
    time_limit: float | None
    name: str | None

class SystemOptions(TypedDict, total=False):
    fusion: str
    weights: Sequence[float] | None
    depth: int | None
    first: Operator | None | str
    budget: int
    nodes_per_round: int
    alpha: float
    beta: float
    degree: str
    paths: bool | int
    fuse: bool | None
    seeds: int | None
    damping: float
    passage_weight: float
    steps: int
    decay: float
    threshold: float | None
    gate: str | Callable[[Queries, Tensor, Tensor], Tensor]
    semantics: str
    hub_exponent: float | None
    language_model: Any
    linking: EntityLinking | None
    chains: str | None
    chain_search: ChainSearch | None
    passages: bool | None | int
    passage_type: str
    bridges: int | None
    form: str | None
    constant: int
    checkpoint: str | Path | None
    weight: float | None
    start_k: int
    adjacent_k: int
    max_depth: int | None
    lambda_mult: float
    min_mmr_score: float
    scorer: Callable[[Node, float, int], float] | None
    per_iteration_limit: int | None
    search: str | Operator
    documents: int
    questions: int
    model: LeSeGRModel | Mapping[str, Any] | None
    candidates: int
    hops: int | None
    sparse: str
    direction: str
    context: int | None
    mode: str | None
    top_k: int
    chunk_top_k: int
    related_chunks: int
    chunk_pick: str | None
    entity_tokens: int
    relation_tokens: int
    facts: bool | int
    theta: float
    network: EvidenceNetwork | DocumentGraphNetwork | Mapping[str, Any] | None
    parser: Any
    seed_edges: int
    cost: float
    signal: str
    synonyms: float | None
    extractor: Any
    iterations: int
    similarity_weight: float
    planner: Any
    reranker: TrajectoryReranker | None
    rerank: bool
    matches: int
    structure: bool
    fill: bool | None
    traversal: MixedTraversal | None

class IndexOptions(Options, SystemOptions, total=False):
    pass

class DefaultsOptions(SystemOptions, total=False):
    similarity_top_k: int | None
    filters: Filter | MetadataFilters | None
    seed_filters: Filter | MetadataFilters | None
    traversal_filters: Filter | MetadataFilters | None
    scope: Filter | MetadataFilters | None
    inputs: Mapping[str, Callable[[str], Any]] | None
    provenance: bool
    callback_manager: CallbackManager | None
    object_map: MutableMapping[str, Any] | None
    objects: list[IndexNode] | None
    verbose: bool
    backfill: bool
    per_source: int | None
    source_field: str | None
    types: Collection[str] | None
    batch_size: int
    share_batches: bool | None
    time_limit: float | None
    name: str | None
    system: str | Operator | None
    published: bool
