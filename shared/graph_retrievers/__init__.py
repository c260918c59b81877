"""Graph retrievers for RAG and agents: operators, and published systems as compositions of them.

The names below are the usual way in; everything else is in the rooms they come from.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
    from graph_retrievers.index import GraphIndex
    from graph_retrievers.operators.operator import Loop, Operator, OperatorKind, Pipeline, Ranking
    from graph_retrievers.retrievers.fastinsight import FastInsight
    from graph_retrievers.retrievers.retriever import Hit, HitList, Path, Retriever

# Loaded when first asked for, so that the version can be read without torch.
_HOMES = {
    "CorpusGraph": "graph.corpus_graph",
    "FastInsight": "retrievers.fastinsight",
    "GraphIndex": "index",
    "Hit": "retrievers.retriever",
    "HitList": "retrievers.retriever",
    "Loop": "operators.operator",
    "Node": "graph.corpus_graph",
    "Operator": "operators.operator",
    "OperatorKind": "operators.operator",
    "Path": "retrievers.retriever",
    "Pipeline": "operators.operator",
    "Ranking": "operators.operator",
    "Retriever": "retrievers.retriever",
}

__all__ = [
    "CorpusGraph",
    "FastInsight",
    "GraphIndex",
    "Hit",
    "HitList",
    "Loop",
    "Node",
    "Operator",
    "OperatorKind",
    "Path",
    "Pipeline",
    "Ranking",
    "Retriever",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'graph_retrievers' has no attribute {name!r}")
    return getattr(import_module(f"graph_retrievers.{_HOMES[name]}"), name)
