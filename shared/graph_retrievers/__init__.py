"""Graph retrievers for RAG and agents: operators, and published systems as compositions of them.

>>> import graph_retrievers as gr
>>> index = gr.GraphIndex.from_texts(
...     ["Ada wrote a program.", "An engine of brass."], titles=["Ada", "Engine"], edges=[("0", "1", "ran on")]
... )
>>> gr.Retriever(index, gr.Pipeline(gr.BM25Search(1), gr.GatedPropagation(gate="uniform"))).retrieve("a program").nodes[1].path.text
'Ada -[ran on]-> Engine'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
    from graph_retrievers.graph.subgraph import Subgraph
    from graph_retrievers.hits import Hit, Hits, NodePath
    from graph_retrievers.index import GraphIndex
    from graph_retrievers.operators import (
        AdaptiveReranking,
        Backfill,
        BM25Search,
        ChainSearch,
        EntityLinking,
        FactSearch,
        FeedbackSearch,
        GatedPropagation,
        GRanker,
        HybridSearch,
        Loop,
        MixedTraversal,
        Operator,
        OperatorKind,
        PassageGathering,
        PersonalizedPageRank,
        Pipeline,
        ReciprocalRankFusion,
        Rerank,
        STeX,
        TrajectoryReranker,
        VectorSearch,
    )
    from graph_retrievers.queries import Queries
    from graph_retrievers.results import Chains, Facts, Ranking
    from graph_retrievers.retrievers import (
        BM25,
        GAR,
        PPR,
        FastInsight,
        Hybrid,
        MoR,
        Re2,
        Retriever,
        RetrieverProtocol,
        SpreadingActivation,
        Vector,
        WalkFusion,
        build_retriever,
        retriever_names,
    )
    from graph_retrievers.signals.cross_encoder import CrossEncoder
    from graph_retrievers.signals.embedding import SentenceEncoder, minilm
    from graph_retrievers.signals.signal import Signal

# Loaded when first asked for, so that the version can be read without torch.
_ROOMS = {
    "graph.corpus_graph": ("CorpusGraph", "Edge", "Node"),
    "graph.subgraph": ("Subgraph",),
    "hits": ("Hit", "Hits", "NodePath"),
    "index": ("GraphIndex",),
    "operators": (
        "AdaptiveReranking", "BM25Search", "Backfill", "ChainSearch", "EntityLinking", "FactSearch", "FeedbackSearch", "GRanker",
        "GatedPropagation", "HybridSearch", "Loop", "MixedTraversal", "Operator", "OperatorKind", "PassageGathering",
        "PersonalizedPageRank", "Pipeline", "ReciprocalRankFusion", "Rerank", "STeX", "TrajectoryReranker", "VectorSearch",
    ),
    "queries": ("Queries",),
    "results": ("Chains", "Facts", "Ranking"),
    "retrievers": (
        "BM25", "FastInsight", "GAR", "Hybrid", "MoR", "PPR", "Re2", "Retriever", "RetrieverProtocol", "SpreadingActivation",
        "Vector", "WalkFusion", "build_retriever", "retriever_names",
    ),
    "signals.cross_encoder": ("CrossEncoder",),
    "signals.embedding": ("SentenceEncoder", "minilm"),
    "signals.signal": ("Signal",),
}  # fmt: skip
_HOMES = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "AdaptiveReranking",
    "BM25",
    "BM25Search",
    "Backfill",
    "ChainSearch",
    "Chains",
    "CorpusGraph",
    "CrossEncoder",
    "Edge",
    "EntityLinking",
    "FactSearch",
    "Facts",
    "FastInsight",
    "FeedbackSearch",
    "GAR",
    "GRanker",
    "GatedPropagation",
    "GraphIndex",
    "Hit",
    "Hits",
    "Hybrid",
    "HybridSearch",
    "Loop",
    "MixedTraversal",
    "MoR",
    "Node",
    "NodePath",
    "Operator",
    "OperatorKind",
    "PPR",
    "PassageGathering",
    "PersonalizedPageRank",
    "Pipeline",
    "Queries",
    "Ranking",
    "Re2",
    "ReciprocalRankFusion",
    "Rerank",
    "Retriever",
    "RetrieverProtocol",
    "STeX",
    "SentenceEncoder",
    "Signal",
    "SpreadingActivation",
    "Subgraph",
    "TrajectoryReranker",
    "Vector",
    "VectorSearch",
    "WalkFusion",
    "build_retriever",
    "minilm",
    "retriever_names",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'graph_retrievers' has no attribute {name!r}")
    return getattr(import_module(f"graph_retrievers.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
