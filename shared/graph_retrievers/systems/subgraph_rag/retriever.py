"""SubgraphRAG: the ends of the triples around a question's entities that a small network scores highest (ICLR 2025)."""

from __future__ import annotations

from dataclasses import dataclass

from graph_retrievers.systems.subgraph_rag.search import TripleSearch
from graph_retrievers.systems.subgraphs.system import SubgraphSystem

__all__ = ["SubgraphRAG"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SubgraphRAG(SubgraphSystem):
    """Entities of the question, then the ends of the triples around them that a small trained network scores highest.

    Parameters
    ----------
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit subgraph-rag``. Without one, a triple scores the sum of the cosines of the question
        with its ends and its relation.
    language_model : object, optional
        Names the entities of the question (see :func:`~graph_retrievers.signals.language.as_language_model`). Without one, names of
        nodes are looked for in it.
    triples, hops : int, default 100 and 2
        See :class:`~graph_retrievers.systems.subgraph_rag.search.TripleSearch`, which also states the departures.

    Raises
    ------
    InvalidArgumentError
        If the checkpoint cannot be read, or was trained with another embedding model.

    References
    ----------
    Li, Miao and Li, "Simple Is Effective: The Roles of Graphs and Large Language Models in Knowledge-Graph-Based
    Retrieval-Augmented Generation", ICLR 2025.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> edges, vectors = [("0", "1", "made by"), ("1", "2", "born in")], [[1, 0], [0.6, 0.8], [0, 1]]
    >>> index = GraphIndex.from_texts(["", "", ""], titles=["Loom", "Jacquard", "Lyon"], edges=edges, vectors=vectors)
    >>> [hit.title for hit in Retriever(index, SubgraphRAG()).retrieve("Who made the Loom?", vector=[1, 0])]
    ['Loom', 'Jacquard', 'Lyon']
    """

    name = "subgraph-rag"
    search = TripleSearch
    instead = "triples are scored by the similarity of the question to their ends and relations"

    triples: int = 100
    hops: int = 2
