"""GraphRetriever with the system of a paper, under the name by which people look for it.

>>> from graph_retrievers import GraphIndex
>>> index = GraphIndex.from_texts(["A loom.", "A card."], vectors=[[1, 0], [0, 1]])
>>> FastInsightRetriever(index=index, system=FastInsight(budget=1), k=1).invoke("Which?", vector=[0, 1])[0].page_content
'A card.'
"""

from __future__ import annotations

from graph_retrievers.systems import GRAG, FastInsight, LeSeGR, MoR, SpreadingActivation, WalkFusion
from langchain_graph_retrievers.graph_retriever import GraphRetriever, SystemLike

__all__ = [
    "FastInsightRetriever",
    "GRAGRetriever",
    "LeSeGRRetriever",
    "MoRRetriever",
    "SpreadingActivationRetriever",
    "WalkFusionRetriever",
]


class FastInsightRetriever(GraphRetriever):
    """:class:`GraphRetriever` with FastInsight; ``system=FastInsight(budget=50)`` changes its parameters."""

    system: SystemLike | None = FastInsight()


class GRAGRetriever(GraphRetriever):
    """:class:`GraphRetriever` with G-RAG; :class:`~langchain_graph_retrievers.GRAGCompressor` reranks other documents."""

    system: SystemLike | None = GRAG()


class LeSeGRRetriever(GraphRetriever):
    """:class:`GraphRetriever` with LeSeGR; with ``provenance=True``, the metadata ``context`` are the neighbours of a document."""

    system: SystemLike | None = LeSeGR()


class MoRRetriever(GraphRetriever):
    """:class:`GraphRetriever` with MoR; ``invoke(question, plan=[...])`` passes the question's plan, if it is known.

    With ``provenance=True``, the metadata ``path`` is the trajectory, and ``notes`` say why a plan could not be followed.
    """

    system: SystemLike | None = MoR()


class SpreadingActivationRetriever(GraphRetriever):
    """:class:`GraphRetriever` with spreading activation; ``invoke(question, entities=["Ada"])`` passes names, if they are known."""

    system: SystemLike | None = SpreadingActivation()


class WalkFusionRetriever(GraphRetriever):
    """:class:`GraphRetriever` with WalkFusion; ``invoke(question, entities=["Ada"])`` passes the names in it, if they are known."""

    system: SystemLike | None = WalkFusion()
