"""GraphRetriever with the system of a paper, under the name by which people look for it.

>>> from graph_retrievers import GraphIndex, Node
>>> index = GraphIndex.from_nodes([Node("a", "", "Ada"), Node("b", "", "Loom")], [("a", "b", "wrote")])
>>> retriever = SpreadingActivationRetriever(index, SpreadingActivation(gate="uniform"))
>>> [hit.node.node_id for hit in retriever.retrieve("What did Ada write?")]
['a', 'b']
"""

from __future__ import annotations

from graph_retrievers.systems import GRAG, FastInsight, LeSeGR, MoR, SpreadingActivation, WalkFusion
from llama_graph_retrievers.graph_retriever import GraphRetriever

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

    system = FastInsight()


class GRAGRetriever(GraphRetriever):
    """:class:`GraphRetriever` with G-RAG; :class:`~llama_graph_retrievers.GRAGPostprocessor` reranks other nodes."""

    system = GRAG()


class LeSeGRRetriever(GraphRetriever):
    """:class:`GraphRetriever` with LeSeGR; the ``context`` in a node's provenance are the neighbours that gave it context."""

    system = LeSeGR()


class MoRRetriever(GraphRetriever):
    """:class:`GraphRetriever` with MoR; ``inputs={"plan": function}`` or ``retrieve_batch(questions, plan=[...])`` pass plans."""

    system = MoR()


class SpreadingActivationRetriever(GraphRetriever):
    """:class:`GraphRetriever` with spreading activation; ``inputs={"entities": function}`` passes the names in a question."""

    system = SpreadingActivation()


class WalkFusionRetriever(GraphRetriever):
    """:class:`GraphRetriever` with WalkFusion; ``inputs={"entities": function}`` passes the names in a question."""

    system = WalkFusion()
