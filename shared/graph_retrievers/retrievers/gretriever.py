"""G-Retriever: a prize-collecting Steiner tree as the result (He et al., 2024)."""

from __future__ import annotations

from typing import Any

from graph_retrievers.arguments import positive
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.operator import Operator, Pipeline
from graph_retrievers.operators.steiner_tree_search import SteinerTreeSearch
from graph_retrievers.operators.vector_search import VectorSearch
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["GRetriever"]


class GRetriever(Retriever):
    r"""The nodes and edges that match the question, joined to one subgraph.

    .. math:: O_{vs} \to O_{gs}

    The nodes and the edges most similar to the question have prizes, and the subgraph is a tree that collects prizes and pays for
    its edges. Its nodes are the hits, by prize and similarity, each with its path in the tree. Where they are fewer than k,
    vector search fills up behind them (``backfill=False`` returns the subgraph alone); of more, the first k are returned.

    Parameters
    ----------
    index : GraphIndex
        With vectors, and with ``edge_signals=True`` for prizes on edges.
    seeds : int, default 3
        Nodes that have prizes.
    seed_edges : int, default 3
    cost : float, default 0.5
    signal : str, default "edge_dense"
    candidates : int, default 1000
    facts : bool, default False
        Edges that have prizes, the cost of an edge, the signal of edges, the nodes that are looked at, and whether edges of the
        subgraph are hits of their own: see :class:`~graph_retrievers.operators.steiner_tree_search.SteinerTreeSearch`, which says
        too where it departs from the published code.
    first : Operator, optional
        Finds the nodes that have prizes; vector search by default.
    **options
        Keywords of :class:`Retriever`.

    Notes
    -----
    ``hits.subgraph()`` is the subgraph: with ``facts=True`` and a k that holds all of it, exactly, else without the edges that no
    path follows. ``hits.subgraph().to_csv()`` writes it as published, ``hits.to_context()`` as paths, facts and texts.

    References
    ----------
    He et al., "G-Retriever: Retrieval-Augmented Generation for Textual Graph Understanding and Question Answering", NeurIPS 2024.

    Examples
    --------
    >>> from graph_retrievers import Edge, Node
    >>> nodes = [Node("ada", "", "Ada"), Node("engine", "", "Engine"), Node("loom", "", "Loom")]
    >>> edges = [Edge("ada", "engine", "wrote for"), Edge("engine", "loom", "recalls")]
    >>> def embed(texts):
    ...     return [[float("wrote" in text or text == "Ada"), 0.6] for text in texts]
    >>> index = GraphIndex.from_nodes(nodes, edges, embedding=embed, edge_signals=True, metric="cosine")
    >>> hits = GRetriever(index, seeds=1, seed_edges=1, facts=True, backfill=False).retrieve("Who wrote for the engine?")
    >>> print(hits.subgraph().to_csv())
    node_id,node_attr
    0,Ada
    1,Engine
    <BLANKLINE>
    src,edge_attr,dst
    0,wrote for,1
    """

    reads_edge_signals = True

    PUBLISHED = {
        "seeds": 3,
        "seed_edges": 3,
        "cost": 0.5,
        "facts": True,
        "k": 1000,
        "backfill": False,
    }

    def __init__(
        self,
        index: GraphIndex,
        *,
        seeds: int = 3,
        seed_edges: int = 3,
        cost: float = 0.5,
        signal: str = "edge_dense",
        candidates: int = 1000,
        facts: bool = False,
        first: Operator | None = None,
        **options: Any,
    ) -> None:
        search = SteinerTreeSearch(seed_edges=seed_edges, cost=cost, signal=signal, candidates=candidates, facts=facts)
        super().__init__(index, Pipeline(first or VectorSearch(positive("seeds", seeds), returned=False), search), **options)
