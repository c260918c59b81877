"""A walk beside a search, where walks alone find less than search does."""

from graph_retrievers.index import GraphIndex
from graph_retrievers.search.fusion import ReciprocalRankFusion
from graph_retrievers.search.operator import Operator
from graph_retrievers.search.vector_search import HybridSearch, VectorSearch
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.systems.traits import holds_passages, names_lead, without_names

__all__ = ["fused_with_search"]


def fused_with_search(operator: Operator, fuse: bool | None, index: GraphIndex, *, led: bool = True) -> Operator:
    """Return an operator fused with vector search, or with hybrid search over passages where names do not lead.

    With None for `fuse`, it is fused only there. With False for `led`, names do not lead it: it is fused with hybrid search over
    any passages, which counts twice.
    """
    # A lexical signal of another kind does not come with the graph, which is read here.
    known = index.has_dense and index.has_bm25 and index.signals["bm25"].kind == BM25.kind
    words = known and holds_passages(index.graph) and not (led and names_lead(without_names(index)))
    if not (words if fuse is None else fuse):
        return operator
    weights = (1.0, 1.0 if led else 2.0)
    return ReciprocalRankFusion(operator, HybridSearch(100) if words else VectorSearch(100), weights=weights, constant=5)
