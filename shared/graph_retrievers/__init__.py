"""Graph retrievers for RAG and agents: operators, and published systems as compositions of them.

>>> import graph_retrievers as gr
>>> index = gr.GraphIndex.from_texts(
...     ["Ada wrote a program.", "An engine of brass."], titles=["Ada", "Engine"], edges=[("0", "1", "ran on")]
... )
>>> retriever = gr.Retriever(index, gr.Pipeline(gr.BM25Search(1), gr.GatedPropagation(gate="uniform")))
>>> retriever.retrieve("Who wrote a program?").nodes[1].path.text
'Ada -[ran on]-> Engine'
"""

# fmt: off
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
    from graph_retrievers.graph.subgraph import Subgraph
    from graph_retrievers.hits import Hit, Hits, NodePath
    from graph_retrievers.index import GraphIndex, IndexStore
    from graph_retrievers.operators import (
        AdaptiveReranking,
        Algorithm,
        Backfill,
        BM25Search,
        ChainSearch,
        ChunkGathering,
        DocumentGraphNetwork,
        DocumentGraphRerank,
        EagerTraversal,
        EntityLinking,
        EvidenceNetwork,
        FactLinking,
        FactSearch,
        FeedbackSearch,
        FlowPruning,
        GatedPropagation,
        GRanker,
        HybridSearch,
        HypotheticalDocuments,
        InterleavedReasoning,
        KeywordSearch,
        LeSeGRModel,
        LexicalSemanticSearch,
        Loop,
        MetapathSearch,
        MixedTraversal,
        MMRTraversal,
        Operator,
        OperatorKind,
        PassageGathering,
        PassageWalk,
        PathRerank,
        PathSearch,
        PersonalizedPageRank,
        Pipeline,
        QueryDecomposition,
        ReciprocalRankFusion,
        RelationGathering,
        Rerank,
        RoundRobin,
        ScoredTraversal,
        SteinerTreeSearch,
        STeX,
        TrajectoryReranker,
        VectorSearch,
    )
    from graph_retrievers.queries import Queries
    from graph_retrievers.results import Chains, Facts, Ranking
    from graph_retrievers.retrievers import (
        BM25,
        GAR,
        GRAG,
        MMR,
        PPR,
        BaseRetriever,
        Decomposition,
        Eager,
        FastInsight,
        GRetriever,
        HippoRAG,
        Hybrid,
        HyDE,
        IRCoT,
        LeSeGR,
        LightRAG,
        MoR,
        PathRAG,
        PathReranking,
        Re2,
        Retriever,
        RetrieverProtocol,
        Scored,
        SpreadingActivation,
        StoreRetriever,
        Vector,
        WalkFusion,
        build_retriever,
        retriever_names,
    )
    from graph_retrievers.signals.cross_encoder import CrossEncoder
    from graph_retrievers.signals.embedding import SentenceEncoder, minilm
    from graph_retrievers.signals.gathered import GatheredRelevance
    from graph_retrievers.signals.meaning import MeaningGraph, MeaningParser
    from graph_retrievers.signals.meaning_cache import MeaningCache
    from graph_retrievers.signals.signal import Signal

__all__ = [
    "AdaptiveReranking", "Algorithm", "BM25", "BM25Search", "Backfill", "BaseRetriever", "ChainSearch", "Chains",
    "ChunkGathering", "CorpusGraph", "CrossEncoder", "Decomposition", "DocumentGraphNetwork", "DocumentGraphRerank", "Eager",
    "EagerTraversal", "Edge", "EntityLinking", "EvidenceNetwork", "FactLinking", "FactSearch", "Facts", "FastInsight",
    "FeedbackSearch", "FlowPruning", "GAR", "GRAG", "GRanker", "GRetriever", "GatedPropagation", "GatheredRelevance",
    "GraphIndex", "HippoRAG", "Hit", "Hits", "HyDE", "Hybrid", "HybridSearch", "HypotheticalDocuments", "IRCoT", "IndexStore",
    "InterleavedReasoning", "KeywordSearch", "LeSeGR", "LeSeGRModel", "LexicalSemanticSearch", "LightRAG", "Loop", "MMR",
    "MMRTraversal", "MeaningCache", "MeaningGraph", "MeaningParser", "MetapathSearch", "MixedTraversal", "MoR", "Node",
    "NodePath", "Operator", "OperatorKind", "PPR", "PassageGathering", "PassageWalk", "PathRAG", "PathRerank",
    "PathReranking", "PathSearch", "PersonalizedPageRank", "Pipeline", "Queries", "QueryDecomposition", "Ranking", "Re2",
    "ReciprocalRankFusion", "RelationGathering", "Rerank", "Retriever", "RetrieverProtocol", "RoundRobin", "STeX", "Scored",
    "ScoredTraversal", "SentenceEncoder", "Signal", "SpreadingActivation", "SteinerTreeSearch", "StoreRetriever", "Subgraph",
    "TrajectoryReranker", "Vector", "VectorSearch", "WalkFusion", "build_retriever", "minilm", "retriever_names",
]

# Where names that do not come from `operators` and `retrievers` are; loaded when first asked for, so that the version can be
# read without torch.
_HOMES = {
    "graph.corpus_graph": "CorpusGraph Edge Node", "graph.subgraph": "Subgraph", "hits": "Hit Hits NodePath",
    "index": "GraphIndex IndexStore", "queries": "Queries", "results": "Chains Facts Ranking",
    "signals.signal": "Signal",
    "signals.cross_encoder": "CrossEncoder", "signals.gathered": "GatheredRelevance", "signals.embedding": "SentenceEncoder minilm",
    "signals.meaning": "MeaningGraph MeaningParser", "signals.meaning_cache": "MeaningCache",
    "retrievers": "BaseRetriever BM25 build_retriever Decomposition Eager FastInsight GAR GRAG GRetriever HippoRAG Hybrid "
    "HyDE IRCoT LeSeGR LightRAG MMR MoR PathRAG PathReranking PPR Re2 Retriever retriever_names RetrieverProtocol Scored "
    "SpreadingActivation StoreRetriever Vector WalkFusion",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'graph_retrievers' has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names.split()), "operators")
    try:
        return getattr(import_module(f"graph_retrievers.{home}"), name)
    except AttributeError as error:
        # As an AttributeError, Python would say that there is no such name.
        raise ImportError(f"graph_retrievers.{home} cannot be imported: {error}") from error


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
