"""GNN-RAG: the nodes around a question's entities that a graph neural network takes for answers (2024)."""

from __future__ import annotations

from dataclasses import dataclass

from graph_retrievers.systems.gnn_rag.search import AnswerSearch
from graph_retrievers.systems.subgraphs.system import SubgraphSystem

__all__ = ["GNNRAG"]


@dataclass(frozen=True, kw_only=True, repr=False)
class GNNRAG(SubgraphSystem):
    """Entities of the question, then the nodes around them that a trained graph neural network takes for answers, with paths.

    Parameters
    ----------
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit gnn-rag``. Without one, nodes are ordered by their cosine with the question.
    language_model : object, optional
        Names the entities of the question (see :func:`~graph_retrievers.signals.language.as_language_model`). Without one, names of
        nodes are looked for in it.
    mass : float, default 0.95
    hops, candidates : int, default 3 and 2000
        See :class:`~graph_retrievers.systems.gnn_rag.search.AnswerSearch`, which also states the departures.

    Raises
    ------
    InvalidArgumentError
        If the checkpoint cannot be read, or was trained with another embedding model.

    Notes
    -----
    The retriever is that of the paper alone; its combination with the paths of RoG is left out, which writes them with a language
    model that was trained for it.

    References
    ----------
    Mavromatis and Karypis, "GNN-RAG: Graph Neural Retrieval for Large Language Model Reasoning", 2024.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> edges, vectors = [("0", "1", "made by"), ("1", "2", "born in")], [[1, 0], [0, 1], [0.6, 0.8]]
    >>> index = GraphIndex.from_texts(["", "", ""], titles=["Loom", "Jacquard", "Lyon"], edges=edges, vectors=vectors)
    >>> [hit.title for hit in Retriever(index, GNNRAG()).retrieve("Where was the maker of the Loom born?", vector=[1, 0])]
    ['Lyon', 'Jacquard', 'Loom']
    """

    name = "gnn-rag"
    search = AnswerSearch
    instead = "nodes are ordered by their similarity to the question"

    mass: float = 0.95
    hops: int = 3
    candidates: int = 2000
