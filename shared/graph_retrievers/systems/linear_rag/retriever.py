"""LinearRAG: passages by entities, without relations and without a language model."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.options import RetrieverOptions
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.systems.fused_search import fused_with_search
from graph_retrievers.systems.linear_rag.search import TriGraphSearch

__all__ = ["LinearRAG"]


class LinearRAG(Retriever):
    r"""Passages by entities reached from the question sentence by sentence, and a walk among entities and passages.

    .. math:: O_{vgs}

    It reads the titles and texts of passages, their sentences and the names in them; it needs neither edges nor a language model.

    Parameters
    ----------
    index : GraphIndex
        Needs vectors, and an embedding model for names and sentences.
    extractor : object, optional
    threshold : float, default 0.4
    iterations : int, default 4
    damping : float, default 0.5
    similarity_weight : float, default 1
    passage_weight : float, default 0.05
    passage_type : str, default "passage"
        See :class:`~graph_retrievers.operators.TriGraphSearch`, which also describes the departures from the paper.
    fuse : bool, optional
        Whether to fuse the ranking with a search, as for :class:`~graph_retrievers.MMR`. By default over passages, because many
        questions contain no name that distinguishes them.
    **options
        Keywords of :class:`Retriever`.

    Notes
    -----
    ``retrieve`` takes ``entities=[...]``, names that the question mentions.

    References
    ----------
    Zhuang et al., "LinearRAG: Linear Graph Retrieval Augmented Generation on Large-scale Corpora", ICLR 2026.

    Examples
    --------
    >>> texts = ["The film stars Ada Holm.", "In Lund, Ada Holm met Otto Veld.", "A mill of Otto Veld.", "A loom."]
    >>> index = GraphIndex.from_texts(texts, vectors=[[1, 0.1], [1, 0.5], [0.5, 1], [0, 1]], edges=[])
    >>> LinearRAG(index).retrieve("What did Ada Holm do?", vector=[1, 0.2])[2].path.text
    '1 -["Otto Veld"]- 2'
    """

    PUBLISHED = {
        "threshold": 0.4,
        "iterations": 4,
        "damping": 0.85,
        "similarity_weight": 1.0,
        "passage_weight": 0.05,
        "fuse": False,
        "backfill": False,
    }

    def __init__(
        self,
        index: GraphIndex,
        *,
        extractor: Any = None,
        threshold: float = 0.4,
        iterations: int = 4,
        damping: float = 0.5,
        similarity_weight: float = 1.0,
        passage_weight: float = 0.05,
        passage_type: str = "passage",
        fuse: bool | None = None,
        **options: Unpack[RetrieverOptions],
    ) -> None:
        search = TriGraphSearch(
            extractor=extractor,
            threshold=threshold,
            iterations=iterations,
            damping=damping,
            similarity_weight=similarity_weight,
            passage_weight=passage_weight,
            passage_type=passage_type,
        )
        super().__init__(index, partial(fused_with_search, search, fuse, led=False), **options)
