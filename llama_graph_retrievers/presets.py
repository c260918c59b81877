"""GraphRetriever with the system of a paper, under the name by which people look for it."""

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
    """:class:`GraphRetriever` with FastInsight; ``system=FastInsight(budget=50)`` changes its parameters.

    >>> from llama_graph_retrievers import provenance
    >>> from llama_index.core.schema import TextNode
    >>> nodes = [TextNode(id_="loom", text="A loom."), TextNode(id_="card", text="A card.")]
    >>> def embed(texts):
    ...     return [[float("loom" in text.lower()), 1.0] for text in texts]
    >>> retriever = FastInsightRetriever.from_defaults(
    ...     nodes=nodes, embed_model=embed, edges=[("loom", "card", "reads")], system=FastInsight(nodes_per_round=1)
    ... )
    >>> for hit in retriever.retrieve("Which loom?"):
    ...     print(provenance(hit)["operator"], provenance(hit)["path"]["nodes"], hit.text)
    VectorSearch ['loom'] A loom.
    STeX ['loom', 'card'] A card.
    """

    system = FastInsight()


class GRAGRetriever(GraphRetriever):
    """:class:`GraphRetriever` with G-RAG; :class:`~llama_graph_retrievers.GRAGPostprocessor` reranks results of another retriever.

    >>> from graph_retrievers import GraphIndex
    >>> index = GraphIndex.from_texts(["A loom.", "A card."], embedding=lambda texts: [[1.0, 0.0]] * len(texts))
    >>> GRAGRetriever(index, similarity_top_k=1).retrieve("A card?")[0].text
    'A card.'
    """

    system = GRAG()


class LeSeGRRetriever(GraphRetriever):
    """:class:`GraphRetriever` with LeSeGR; the ``context`` in a node's provenance are the neighbours that gave it context.

    >>> from graph_retrievers import GraphIndex
    >>> index = GraphIndex.from_texts(["A loom.", "A card."], embedding=lambda texts: [[1.0, 0.0]] * len(texts))
    >>> LeSeGRRetriever(index, similarity_top_k=1).retrieve("A card?")[0].text
    'A card.'
    """

    system = LeSeGR()


class MoRRetriever(GraphRetriever):
    """:class:`GraphRetriever` with MoR; ``inputs={"plan": function}`` or ``retrieve_batch(questions, plan=[...])`` pass plans.

    >>> from graph_retrievers import GraphIndex
    >>> index = GraphIndex.from_texts(["A loom.", "A card."], embedding=lambda texts: [[1.0, 0.0]] * len(texts))
    >>> MoRRetriever(index, similarity_top_k=1).retrieve("A card?")[0].text
    'A card.'
    """

    system = MoR()


class SpreadingActivationRetriever(GraphRetriever):
    """:class:`GraphRetriever` with spreading activation; ``inputs={"entities": function}`` passes the names in a question.

    >>> from graph_retrievers import GraphIndex, Node
    >>> index = GraphIndex.from_nodes([Node("a", "", "Ada"), Node("b", "", "Loom")], [("a", "b", "wrote")])
    >>> retriever = SpreadingActivationRetriever(index, SpreadingActivation(gate="uniform"))
    >>> [hit.node.node_id for hit in retriever.retrieve("What did Ada write?")]
    ['a', 'b']
    """

    system = SpreadingActivation()


class WalkFusionRetriever(GraphRetriever):
    """:class:`GraphRetriever` with WalkFusion; ``inputs={"entities": function}`` passes the names in a question.

    >>> from graph_retrievers import GraphIndex
    >>> index = GraphIndex.from_texts(["A loom.", "A card."], embedding=lambda texts: [[1.0, 0.0]] * len(texts))
    >>> WalkFusionRetriever(index, similarity_top_k=1).retrieve("A card?")[0].text
    'A card.'
    """

    system = WalkFusion()
