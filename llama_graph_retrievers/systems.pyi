"""The named retrievers with their arguments; written by tools/stubs.py, not by hand."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from llama_index.core.indices.vector_store.base import VectorStoreIndex
from torch import Tensor, device

from graph_retrievers.core.operator import Operator
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.queries import Queries
from graph_retrievers.signals.signal import Signal
from graph_retrievers.systems.grag.model import DocumentGraphNetwork, EvidenceNetwork
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.mor.reranker import TrajectoryReranker
from graph_retrievers.systems.mor.traversal import MixedTraversal
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking
from llama_graph_retrievers.options import Options
from llama_graph_retrievers.retrievers import IndexRetriever

__all__ = [
    "BM25Retriever",
    "DecompositionRetriever",
    "EagerRetriever",
    "FastInsightRetriever",
    "GARRetriever",
    "GRAGRetriever",
    "GRetrieverRetriever",
    "HippoRAGRetriever",
    "HyDERetriever",
    "HybridRetriever",
    "IRCoTRetriever",
    "LeSeGRRetriever",
    "LightRAGRetriever",
    "LinearRAGRetriever",
    "MMRRetriever",
    "MoRRetriever",
    "PPRRetriever",
    "PathRAGRetriever",
    "PathRerankingRetriever",
    "Re2Retriever",
    "ScoredRetriever",
    "SpreadingActivationRetriever",
    "VectorRetriever",
    "WalkFusionRetriever",
]

class _Building(TypedDict, total=False):
    published: bool
    edges: Any
    relevance: Any
    title_key: str | None
    bm25: bool | str | Signal
    device: str | device | None
    show_progress: bool

class _BM25Options(Options, total=False):
    pass

class _BM25Defaults(_BM25Options, _Building, total=False):
    pass

class BM25Retriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_BM25Options]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_BM25Options]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_BM25Defaults]
    ) -> Self: ...

class _DecompositionOptions(Options, total=False):
    search: str | Operator
    language_model: Any
    questions: int
    constant: int

class _DecompositionDefaults(_DecompositionOptions, _Building, total=False):
    pass

class DecompositionRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_DecompositionOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_DecompositionOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_DecompositionDefaults]
    ) -> Self: ...

class _EagerOptions(Options, total=False):
    start_k: int
    adjacent_k: int
    max_depth: int | None
    fuse: bool | None

class _EagerDefaults(_EagerOptions, _Building, total=False):
    pass

class EagerRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_EagerOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_EagerOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_EagerDefaults]
    ) -> Self: ...

class _FastInsightOptions(Options, total=False):
    budget: int
    nodes_per_round: int
    alpha: float
    beta: float
    first: Operator | None
    degree: str
    paths: bool
    fuse: bool | None

class _FastInsightDefaults(_FastInsightOptions, _Building, total=False):
    pass

class FastInsightRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_FastInsightOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_FastInsightOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_FastInsightDefaults]
    ) -> Self: ...

class _GAROptions(Options, total=False):
    budget: int
    nodes_per_round: int
    first: Operator | None

class _GARDefaults(_GAROptions, _Building, total=False):
    pass

class GARRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_GAROptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_GAROptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_GARDefaults]
    ) -> Self: ...

class _GRAGOptions(Options, total=False):
    checkpoint: str | Path | None
    network: EvidenceNetwork | DocumentGraphNetwork | Mapping[str, Any] | None
    first: str | Operator | None
    depth: int | None
    parser: Any

class _GRAGDefaults(_GRAGOptions, _Building, total=False):
    pass

class GRAGRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_GRAGOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_GRAGOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_GRAGDefaults]
    ) -> Self: ...

class _GRetrieverOptions(Options, total=False):
    seeds: int
    seed_edges: int
    cost: float
    signal: str
    candidates: int
    facts: bool
    first: Operator | None
    fuse: bool | None

class _GRetrieverDefaults(_GRetrieverOptions, _Building, total=False):
    pass

class GRetrieverRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_GRetrieverOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_GRetrieverOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_GRetrieverDefaults]
    ) -> Self: ...

class _HippoRAGOptions(Options, total=False):
    facts: int
    language_model: Any
    signal: str
    damping: float
    passage_weight: float
    synonyms: float | None
    passage_type: str
    fuse: bool | None

class _HippoRAGDefaults(_HippoRAGOptions, _Building, total=False):
    pass

class HippoRAGRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_HippoRAGOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_HippoRAGOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_HippoRAGDefaults]
    ) -> Self: ...

class _HyDEOptions(Options, total=False):
    search: str | Operator
    language_model: Any
    documents: int

class _HyDEDefaults(_HyDEOptions, _Building, total=False):
    pass

class HyDERetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_HyDEOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_HyDEOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_HyDEDefaults]
    ) -> Self: ...

class _HybridOptions(Options, total=False):
    fusion: str
    weights: Sequence[float]

class _HybridDefaults(_HybridOptions, _Building, total=False):
    pass

class HybridRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_HybridOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_HybridOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_HybridDefaults]
    ) -> Self: ...

class _IRCoTOptions(Options, total=False):
    search: str | Operator
    language_model: Any
    passages: int
    budget: int
    steps: int

class _IRCoTDefaults(_IRCoTOptions, _Building, total=False):
    pass

class IRCoTRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_IRCoTOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_IRCoTOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_IRCoTDefaults]
    ) -> Self: ...

class _LeSeGROptions(Options, total=False):
    checkpoint: str | Path | None
    model: LeSeGRModel | Mapping[str, Any] | None
    candidates: int
    hops: int | None
    sparse: str
    direction: str
    context: int | None
    fuse: bool | None
    first: Operator | None

class _LeSeGRDefaults(_LeSeGROptions, _Building, total=False):
    pass

class LeSeGRRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_LeSeGROptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_LeSeGROptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_LeSeGRDefaults]
    ) -> Self: ...

class _LightRAGOptions(Options, total=False):
    mode: str | None
    language_model: Any
    top_k: int
    chunk_top_k: int
    related_chunks: int
    chunk_pick: str | None
    threshold: float
    entity_tokens: int
    relation_tokens: int
    facts: bool
    passage_type: str
    fuse: bool | None

class _LightRAGDefaults(_LightRAGOptions, _Building, total=False):
    pass

class LightRAGRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_LightRAGOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_LightRAGOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_LightRAGDefaults]
    ) -> Self: ...

class _LinearRAGOptions(Options, total=False):
    extractor: Any
    threshold: float
    iterations: int
    damping: float
    similarity_weight: float
    passage_weight: float
    passage_type: str
    fuse: bool | None

class _LinearRAGDefaults(_LinearRAGOptions, _Building, total=False):
    pass

class LinearRAGRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_LinearRAGOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_LinearRAGOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_LinearRAGDefaults]
    ) -> Self: ...

class _MMROptions(Options, total=False):
    start_k: int
    adjacent_k: int
    max_depth: int | None
    lambda_mult: float
    min_mmr_score: float
    fuse: bool | None

class _MMRDefaults(_MMROptions, _Building, total=False):
    pass

class MMRRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_MMROptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_MMROptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_MMRDefaults]
    ) -> Self: ...

class _MoROptions(Options, total=False):
    planner: Any
    reranker: TrajectoryReranker | None
    checkpoint: str | Path | None
    rerank: bool
    seeds: int
    matches: int
    candidates: int
    structure: bool
    fill: bool | None
    traversal: MixedTraversal | None

class _MoRDefaults(_MoROptions, _Building, total=False):
    pass

class MoRRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_MoROptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_MoROptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_MoRDefaults]
    ) -> Self: ...

class _PPROptions(Options, total=False):
    seeds: int
    damping: float
    passage_weight: float
    first: Operator | None
    fuse: bool | None

class _PPRDefaults(_PPROptions, _Building, total=False):
    pass

class PPRRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_PPROptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_PPROptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_PPRDefaults]
    ) -> Self: ...

class _PathRAGOptions(Options, total=False):
    top_k: int
    paths: int
    alpha: float
    theta: float
    chains: str
    language_model: Any
    threshold: float
    passage_type: str
    fuse: bool | None

class _PathRAGDefaults(_PathRAGOptions, _Building, total=False):
    pass

class PathRAGRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_PathRAGOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_PathRAGOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_PathRAGDefaults]
    ) -> Self: ...

class _PathRerankingOptions(Options, total=False):
    checkpoint: str | Path | None
    first: str | Operator | None
    weight: float | None
    depth: int | None

class _PathRerankingDefaults(_PathRerankingOptions, _Building, total=False):
    pass

class PathRerankingRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_PathRerankingOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_PathRerankingOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_PathRerankingDefaults]
    ) -> Self: ...

class _Re2Options(Options, total=False):
    depth: int
    first: Operator | None

class _Re2Defaults(_Re2Options, _Building, total=False):
    pass

class Re2Retriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_Re2Options]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_Re2Options]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_Re2Defaults]
    ) -> Self: ...

class _ScoredOptions(Options, total=False):
    start_k: int
    adjacent_k: int
    max_depth: int | None
    scorer: Callable[[Node, float, int], float] | None
    per_iteration_limit: int | None
    fuse: bool | None

class _ScoredDefaults(_ScoredOptions, _Building, total=False):
    pass

class ScoredRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_ScoredOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_ScoredOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_ScoredDefaults]
    ) -> Self: ...

class _SpreadingActivationOptions(Options, total=False):
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
    passages: bool | None
    passage_type: str
    fuse: bool | None

class _SpreadingActivationDefaults(_SpreadingActivationOptions, _Building, total=False):
    pass

class SpreadingActivationRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_SpreadingActivationOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_SpreadingActivationOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_SpreadingActivationDefaults]
    ) -> Self: ...

class _VectorOptions(Options, total=False):
    pass

class _VectorDefaults(_VectorOptions, _Building, total=False):
    pass

class VectorRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_VectorOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_VectorOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_VectorDefaults]
    ) -> Self: ...

class _WalkFusionOptions(Options, total=False):
    seeds: int | None
    bridges: int | None
    form: str | None
    weights: Sequence[float] | None
    constant: int
    depth: int

class _WalkFusionDefaults(_WalkFusionOptions, _Building, total=False):
    pass

class WalkFusionRetriever(IndexRetriever):
    def __init__(self, index: GraphIndex, **options: Unpack[_WalkFusionOptions]) -> None: ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **options: Unpack[_WalkFusionOptions]
    ) -> Self: ...
    @classmethod
    def from_defaults(  # type: ignore[override]
        cls, index: GraphIndex | VectorStoreIndex | None = ..., **options: Unpack[_WalkFusionDefaults]
    ) -> Self: ...
