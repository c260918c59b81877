"""The named retrievers with their arguments; written by tools/stubs.py, not by hand."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

from langchain_core.documents import Document
from torch import Tensor

from graph_retrievers.core.operator import Operator
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.queries import Queries
from graph_retrievers.systems.grag.model import DocumentGraphNetwork, EvidenceNetwork
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.mor.reranker import TrajectoryReranker
from graph_retrievers.systems.mor.traversal import MixedTraversal
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking
from langchain_graph_retrievers.options import DocumentOptions, OptionFields, TextOptions
from langchain_graph_retrievers.retrievers import IndexRetriever

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

class _Retriever(IndexRetriever):
    backfill: bool = ...
    per_source: int | None = ...
    source_field: str | None = ...
    types: Collection[str] | None = ...
    batch_size: int = ...
    share_batches: bool | None = ...
    time_limit: float | None = ...

class _BM25Fields(OptionFields, total=False):
    pass

class _BM25Texts(_BM25Fields, TextOptions, total=False):
    pass

class _BM25Documents(_BM25Fields, DocumentOptions, total=False):
    pass

class BM25Retriever(_Retriever):
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_BM25Fields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_BM25Documents]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_BM25Documents]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_BM25Texts],
    ) -> Self: ...

class _DecompositionFields(OptionFields, total=False):
    search: str | Operator
    language_model: Any
    questions: int
    constant: int

class _DecompositionTexts(_DecompositionFields, TextOptions, total=False):
    pass

class _DecompositionDocuments(_DecompositionFields, DocumentOptions, total=False):
    pass

class DecompositionRetriever(_Retriever):
    search: str | Operator = ...
    language_model: Any = ...
    questions: int = ...
    constant: int = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_DecompositionFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_DecompositionDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_DecompositionDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_DecompositionTexts],
    ) -> Self: ...

class _EagerFields(OptionFields, total=False):
    start_k: int
    adjacent_k: int
    max_depth: int | None
    fuse: bool | None

class _EagerTexts(_EagerFields, TextOptions, total=False):
    pass

class _EagerDocuments(_EagerFields, DocumentOptions, total=False):
    pass

class EagerRetriever(_Retriever):
    start_k: int = ...
    adjacent_k: int = ...
    max_depth: int | None = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_EagerFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_EagerDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_EagerDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_EagerTexts],
    ) -> Self: ...

class _FastInsightFields(OptionFields, total=False):
    budget: int
    nodes_per_round: int
    alpha: float
    beta: float
    first: Operator | None
    degree: str
    paths: bool
    fuse: bool | None

class _FastInsightTexts(_FastInsightFields, TextOptions, total=False):
    pass

class _FastInsightDocuments(_FastInsightFields, DocumentOptions, total=False):
    pass

class FastInsightRetriever(_Retriever):
    budget: int = ...
    nodes_per_round: int = ...
    alpha: float = ...
    beta: float = ...
    first: Operator | None = ...
    degree: str = ...
    paths: bool = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_FastInsightFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_FastInsightDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_FastInsightDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_FastInsightTexts],
    ) -> Self: ...

class _GARFields(OptionFields, total=False):
    budget: int
    nodes_per_round: int
    first: Operator | None

class _GARTexts(_GARFields, TextOptions, total=False):
    pass

class _GARDocuments(_GARFields, DocumentOptions, total=False):
    pass

class GARRetriever(_Retriever):
    budget: int = ...
    nodes_per_round: int = ...
    first: Operator | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_GARFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_GARDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_GARDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_GARTexts],
    ) -> Self: ...

class _GRAGFields(OptionFields, total=False):
    checkpoint: str | Path | None
    network: EvidenceNetwork | DocumentGraphNetwork | Mapping[str, Any] | None
    first: str | Operator | None
    depth: int | None
    parser: Any

class _GRAGTexts(_GRAGFields, TextOptions, total=False):
    pass

class _GRAGDocuments(_GRAGFields, DocumentOptions, total=False):
    pass

class GRAGRetriever(_Retriever):
    checkpoint: str | Path | None = ...
    network: EvidenceNetwork | DocumentGraphNetwork | Mapping[str, Any] | None = ...
    first: str | Operator | None = ...
    depth: int | None = ...
    parser: Any = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_GRAGFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_GRAGDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_GRAGDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_GRAGTexts],
    ) -> Self: ...

class _GRetrieverFields(OptionFields, total=False):
    seeds: int
    seed_edges: int
    cost: float
    signal: str
    candidates: int
    facts: bool
    first: Operator | None
    fuse: bool | None

class _GRetrieverTexts(_GRetrieverFields, TextOptions, total=False):
    pass

class _GRetrieverDocuments(_GRetrieverFields, DocumentOptions, total=False):
    pass

class GRetrieverRetriever(_Retriever):
    seeds: int = ...
    seed_edges: int = ...
    cost: float = ...
    signal: str = ...
    candidates: int = ...
    facts: bool = ...
    first: Operator | None = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_GRetrieverFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_GRetrieverDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_GRetrieverDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_GRetrieverTexts],
    ) -> Self: ...

class _HippoRAGFields(OptionFields, total=False):
    facts: int
    language_model: Any
    signal: str
    damping: float
    passage_weight: float
    synonyms: float | None
    passage_type: str
    fuse: bool | None

class _HippoRAGTexts(_HippoRAGFields, TextOptions, total=False):
    pass

class _HippoRAGDocuments(_HippoRAGFields, DocumentOptions, total=False):
    pass

class HippoRAGRetriever(_Retriever):
    facts: int = ...
    language_model: Any = ...
    signal: str = ...
    damping: float = ...
    passage_weight: float = ...
    synonyms: float | None = ...
    passage_type: str = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_HippoRAGFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_HippoRAGDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_HippoRAGDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_HippoRAGTexts],
    ) -> Self: ...

class _HyDEFields(OptionFields, total=False):
    search: str | Operator
    language_model: Any
    documents: int

class _HyDETexts(_HyDEFields, TextOptions, total=False):
    pass

class _HyDEDocuments(OptionFields, DocumentOptions, total=False):
    search: str | Operator
    language_model: Any

class HyDERetriever(_Retriever):
    search: str | Operator = ...
    language_model: Any = ...
    documents: int = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_HyDEFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_HyDEDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_HyDEDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_HyDETexts],
    ) -> Self: ...

class _HybridFields(OptionFields, total=False):
    fusion: str
    weights: Sequence[float]

class _HybridTexts(_HybridFields, TextOptions, total=False):
    pass

class _HybridDocuments(_HybridFields, DocumentOptions, total=False):
    pass

class HybridRetriever(_Retriever):
    fusion: str = ...
    weights: Sequence[float] = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_HybridFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_HybridDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_HybridDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_HybridTexts],
    ) -> Self: ...

class _IRCoTFields(OptionFields, total=False):
    search: str | Operator
    language_model: Any
    passages: int
    budget: int
    steps: int

class _IRCoTTexts(_IRCoTFields, TextOptions, total=False):
    pass

class _IRCoTDocuments(_IRCoTFields, DocumentOptions, total=False):
    pass

class IRCoTRetriever(_Retriever):
    search: str | Operator = ...
    language_model: Any = ...
    passages: int = ...
    budget: int = ...
    steps: int = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_IRCoTFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_IRCoTDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_IRCoTDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_IRCoTTexts],
    ) -> Self: ...

class _LeSeGRFields(OptionFields, total=False):
    checkpoint: str | Path | None
    model: LeSeGRModel | Mapping[str, Any] | None
    candidates: int
    hops: int | None
    sparse: str
    direction: str
    context: int | None
    fuse: bool | None
    first: Operator | None

class _LeSeGRTexts(_LeSeGRFields, TextOptions, total=False):
    pass

class _LeSeGRDocuments(_LeSeGRFields, DocumentOptions, total=False):
    pass

class LeSeGRRetriever(_Retriever):
    checkpoint: str | Path | None = ...
    model: LeSeGRModel | Mapping[str, Any] | None = ...
    candidates: int = ...
    hops: int | None = ...
    sparse: str = ...
    direction: str = ...
    context: int | None = ...
    fuse: bool | None = ...
    first: Operator | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_LeSeGRFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_LeSeGRDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_LeSeGRDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_LeSeGRTexts],
    ) -> Self: ...

class _LightRAGFields(OptionFields, total=False):
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

class _LightRAGTexts(_LightRAGFields, TextOptions, total=False):
    pass

class _LightRAGDocuments(_LightRAGFields, DocumentOptions, total=False):
    pass

class LightRAGRetriever(_Retriever):
    mode: str | None = ...
    language_model: Any = ...
    top_k: int = ...
    chunk_top_k: int = ...
    related_chunks: int = ...
    chunk_pick: str | None = ...
    threshold: float = ...
    entity_tokens: int = ...
    relation_tokens: int = ...
    facts: bool = ...
    passage_type: str = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_LightRAGFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_LightRAGDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_LightRAGDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_LightRAGTexts],
    ) -> Self: ...

class _LinearRAGFields(OptionFields, total=False):
    extractor: Any
    threshold: float
    iterations: int
    damping: float
    similarity_weight: float
    passage_weight: float
    passage_type: str
    fuse: bool | None

class _LinearRAGTexts(_LinearRAGFields, TextOptions, total=False):
    pass

class _LinearRAGDocuments(_LinearRAGFields, DocumentOptions, total=False):
    pass

class LinearRAGRetriever(_Retriever):
    extractor: Any = ...
    threshold: float = ...
    iterations: int = ...
    damping: float = ...
    similarity_weight: float = ...
    passage_weight: float = ...
    passage_type: str = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_LinearRAGFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_LinearRAGDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_LinearRAGDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_LinearRAGTexts],
    ) -> Self: ...

class _MMRFields(OptionFields, total=False):
    start_k: int
    adjacent_k: int
    max_depth: int | None
    lambda_mult: float
    min_mmr_score: float
    fuse: bool | None

class _MMRTexts(_MMRFields, TextOptions, total=False):
    pass

class _MMRDocuments(_MMRFields, DocumentOptions, total=False):
    pass

class MMRRetriever(_Retriever):
    start_k: int = ...
    adjacent_k: int = ...
    max_depth: int | None = ...
    lambda_mult: float = ...
    min_mmr_score: float = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_MMRFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_MMRDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_MMRDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_MMRTexts],
    ) -> Self: ...

class _MoRFields(OptionFields, total=False):
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

class _MoRTexts(_MoRFields, TextOptions, total=False):
    pass

class _MoRDocuments(_MoRFields, DocumentOptions, total=False):
    pass

class MoRRetriever(_Retriever):
    planner: Any = ...
    reranker: TrajectoryReranker | None = ...
    checkpoint: str | Path | None = ...
    rerank: bool = ...
    seeds: int = ...
    matches: int = ...
    candidates: int = ...
    structure: bool = ...
    fill: bool | None = ...
    traversal: MixedTraversal | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_MoRFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_MoRDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_MoRDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_MoRTexts],
    ) -> Self: ...

class _PPRFields(OptionFields, total=False):
    seeds: int
    damping: float
    passage_weight: float
    first: Operator | None
    fuse: bool | None

class _PPRTexts(_PPRFields, TextOptions, total=False):
    pass

class _PPRDocuments(_PPRFields, DocumentOptions, total=False):
    pass

class PPRRetriever(_Retriever):
    seeds: int = ...
    damping: float = ...
    passage_weight: float = ...
    first: Operator | None = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_PPRFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_PPRDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_PPRDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_PPRTexts],
    ) -> Self: ...

class _PathRAGFields(OptionFields, total=False):
    top_k: int
    paths: int
    alpha: float
    theta: float
    chains: str
    language_model: Any
    threshold: float
    passage_type: str
    fuse: bool | None

class _PathRAGTexts(_PathRAGFields, TextOptions, total=False):
    pass

class _PathRAGDocuments(_PathRAGFields, DocumentOptions, total=False):
    pass

class PathRAGRetriever(_Retriever):
    top_k: int = ...
    paths: int = ...
    alpha: float = ...
    theta: float = ...
    chains: str = ...
    language_model: Any = ...
    threshold: float = ...
    passage_type: str = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_PathRAGFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_PathRAGDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_PathRAGDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_PathRAGTexts],
    ) -> Self: ...

class _PathRerankingFields(OptionFields, total=False):
    checkpoint: str | Path | None
    first: str | Operator | None
    weight: float | None
    depth: int | None

class _PathRerankingTexts(_PathRerankingFields, TextOptions, total=False):
    pass

class _PathRerankingDocuments(_PathRerankingFields, DocumentOptions, total=False):
    pass

class PathRerankingRetriever(_Retriever):
    checkpoint: str | Path | None = ...
    first: str | Operator | None = ...
    weight: float | None = ...
    depth: int | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_PathRerankingFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_PathRerankingDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_PathRerankingDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_PathRerankingTexts],
    ) -> Self: ...

class _Re2Fields(OptionFields, total=False):
    depth: int
    first: Operator | None

class _Re2Texts(_Re2Fields, TextOptions, total=False):
    pass

class _Re2Documents(_Re2Fields, DocumentOptions, total=False):
    pass

class Re2Retriever(_Retriever):
    depth: int = ...
    first: Operator | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_Re2Fields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_Re2Documents]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_Re2Documents]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_Re2Texts],
    ) -> Self: ...

class _ScoredFields(OptionFields, total=False):
    start_k: int
    adjacent_k: int
    max_depth: int | None
    scorer: Callable[[Node, float, int], float] | None
    per_iteration_limit: int | None
    fuse: bool | None

class _ScoredTexts(_ScoredFields, TextOptions, total=False):
    pass

class _ScoredDocuments(_ScoredFields, DocumentOptions, total=False):
    pass

class ScoredRetriever(_Retriever):
    start_k: int = ...
    adjacent_k: int = ...
    max_depth: int | None = ...
    scorer: Callable[[Node, float, int], float] | None = ...
    per_iteration_limit: int | None = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_ScoredFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_ScoredDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_ScoredDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_ScoredTexts],
    ) -> Self: ...

class _SpreadingActivationFields(OptionFields, total=False):
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

class _SpreadingActivationTexts(_SpreadingActivationFields, TextOptions, total=False):
    pass

class _SpreadingActivationDocuments(_SpreadingActivationFields, DocumentOptions, total=False):
    pass

class SpreadingActivationRetriever(_Retriever):
    steps: int = ...
    decay: float = ...
    threshold: float | None = ...
    gate: str | Callable[[Queries, Tensor, Tensor], Tensor] = ...
    semantics: str = ...
    hub_exponent: float | None = ...
    language_model: Any = ...
    linking: EntityLinking | None = ...
    chains: str | None = ...
    chain_search: ChainSearch | None = ...
    passages: bool | None = ...
    passage_type: str = ...
    fuse: bool | None = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_SpreadingActivationFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls,
        documents: Iterable[Document],
        embedding: Any = ...,
        *,
        edges: Any = ...,
        **options: Unpack[_SpreadingActivationDocuments],
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_SpreadingActivationDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_SpreadingActivationTexts],
    ) -> Self: ...

class _VectorFields(OptionFields, total=False):
    pass

class _VectorTexts(_VectorFields, TextOptions, total=False):
    pass

class _VectorDocuments(_VectorFields, DocumentOptions, total=False):
    pass

class VectorRetriever(_Retriever):
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_VectorFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_VectorDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_VectorDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_VectorTexts],
    ) -> Self: ...

class _WalkFusionFields(OptionFields, total=False):
    seeds: int | None
    bridges: int | None
    form: str | None
    weights: Sequence[float] | None
    constant: int
    depth: int

class _WalkFusionTexts(_WalkFusionFields, TextOptions, total=False):
    pass

class _WalkFusionDocuments(_WalkFusionFields, DocumentOptions, total=False):
    pass

class WalkFusionRetriever(_Retriever):
    seeds: int | None = ...
    bridges: int | None = ...
    form: str | None = ...
    weights: Sequence[float] | None = ...
    constant: int = ...
    depth: int = ...
    @classmethod
    def from_index(  # type: ignore[override]
        cls, index: GraphIndex, *, published: bool = ..., **fields: Unpack[_WalkFusionFields]
    ) -> Self: ...
    @classmethod
    def from_documents(  # type: ignore[override]
        cls, documents: Iterable[Document], embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_WalkFusionDocuments]
    ) -> Self: ...
    @classmethod
    def from_vectorstore(  # type: ignore[override]
        cls, store: Any, embedding: Any = ..., *, edges: Any = ..., **options: Unpack[_WalkFusionDocuments]
    ) -> Self: ...
    @classmethod
    def from_texts(  # type: ignore[override]
        cls,
        texts: Sequence[str],
        embedding: Any = ...,
        metadatas: Sequence[Mapping[str, Any]] | None = ...,
        *,
        ids: Sequence[str] | None = ...,
        edges: Any = ...,
        **options: Unpack[_WalkFusionTexts],
    ) -> Self: ...
