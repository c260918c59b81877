"""Query-aware spreading activation over knowledge graphs (Glybovets and Makarov), and its fusion with vector search."""

from __future__ import annotations

from typing import Any

from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.entity_linking import EntityLinking
from graph_retrievers.operators.fusion import ReciprocalRankFusion
from graph_retrievers.operators.operator import Operator, Pipeline
from graph_retrievers.operators.spreading_activation import GatedPropagation
from graph_retrievers.operators.vector_search import VectorSearch
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["SpreadingActivation"]


class SpreadingActivation(Retriever):
    """Entities by the activation that reaches them from the entities of the question, gated by the question.
    """

    inputs = ("entities",)

    def __init__(self, index: GraphIndex, *, steps: int = 3, decay: float = 0.7, threshold: float = 0.01, gate: Any = "cosine",
        semantics: str = "set", fuse: bool = False, linking: EntityLinking | None = None, k: int = 30, **options: Any) -> None:
        operator: Operator = Pipeline(
            linking or EntityLinking(),
            GatedPropagation(steps=steps, decay=decay, threshold=threshold, gate=gate, semantics=semantics),
        )
        if fuse:
            operator = ReciprocalRankFusion(operator, VectorSearch(100))
        super().__init__(index, operator, k=k, **options)
