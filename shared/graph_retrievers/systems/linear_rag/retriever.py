"""LinearRAG: passages by entities, without relations and without a language model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graph_retrievers.core.operator import Operator
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.linear_rag.search import TriGraphSearch, check_sentences
from graph_retrievers.systems.system import System

__all__ = ["LinearRAG"]


@dataclass(frozen=True, kw_only=True, repr=False)
class LinearRAG(System):
    r"""Passages by entities reached from the question sentence by sentence, and a walk among entities and passages.

    .. math:: O_{vgs}

    It reads the titles and texts of passages, their sentences and the names in them; it needs neither edges nor a language model.
    The index needs vectors, and an embedding model for names and sentences.

    Parameters
    ----------
    extractor : object, optional
    threshold : float, default 0.4
    iterations : int, default 4
    damping : float, default 0.85
    similarity_weight : float, default 1
    passage_weight : float, default 0.05
    passage_type : str, default "passage"
        See :class:`~graph_retrievers.operators.TriGraphSearch`, which also describes the departures from the paper.

    Notes
    -----
    ``retrieve`` takes ``entities=[...]``, names that the question mentions.

    References
    ----------
    Zhuang et al., "LinearRAG: Linear Graph Retrieval Augmented Generation on Large-scale Corpora", ICLR 2026.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> texts = ["The film stars Ada Holm.", "In Lund, Ada Holm met Otto Veld.", "A mill of Otto Veld.", "A loom."]
    >>> index = GraphIndex.from_texts(texts, vectors=[[1, 0.1], [1, 0.5], [0.5, 1], [0, 1]], edges=[])
    >>> Retriever(index, LinearRAG()).retrieve("What did Ada Holm do?", vector=[1, 0.2])[2].path.text
    '1 -["Otto Veld"]- 2'
    """

    name = "linear-rag"
    finds_less_over = "passages"

    extractor: Any = None
    threshold: float = 0.4
    iterations: int = 4
    damping: float = 0.85
    similarity_weight: float = 1.0
    passage_weight: float = 0.05
    passage_type: str = "passage"

    # Names that an extractor found are kept for this extractor: a second one around the same model would read all texts again.
    @cached_property
    def _search(self) -> TriGraphSearch:
        return self.part(TriGraphSearch)

    def compose(self, index: Corpus) -> Operator:
        """Return the search; WholeGraphError if the texts are in a database that has no sentences of them."""
        check_sentences(index)
        return self._search
