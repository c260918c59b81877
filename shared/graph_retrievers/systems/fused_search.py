"""Fuse a walk with a search, where a walk alone finds less than the search."""

from graph_retrievers.core.compositions import ReciprocalRankFusion
from graph_retrievers.core.operator import Operator
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.vector_search import HybridSearch, VectorSearch
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.systems.traits import LINKED, documents_linked, holds_passages, names_join, names_lead, without_names

__all__ = ["fused_with_search"]


def fused_with_search(operator: Operator, fuse: bool | None, index: GraphIndex, *, led: bool = True) -> Operator:
    """Return an operator fused with vector search, or with hybrid search over passages where names do not lead along edges.

    With None for `fuse`, it is fused only in the second case. False for `led` is for operators that find less than a search even
    where names lead: they are fused with hybrid search over any passages, which counts twice unless names lead or join them.
    """
    if fuse is False:
        return operator
    # A lexical signal of another kind does not come with the graph, which is read here.
    known = index.has_dense and index.has_bm25 and index.signals["bm25"].kind == BM25.kind
    passages, texts = known and holds_passages(index.graph), without_names(index)
    lead = passages and names_lead(texts)
    # Edges within documents, such as those of their structure, do not lead to nodes that names refer to.
    less = passages and not (led and lead and documents_linked(index.graph) >= LINKED)
    if fuse is None and not less:
        return operator
    twice = not (led or lead or (passages and names_join(texts)))
    search = HybridSearch(100) if less else VectorSearch(100)
    return ReciprocalRankFusion(operator, search, weights=(1.0, 2.0 if twice else 1.0), constant=5)
