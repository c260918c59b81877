"""HyDE, decomposition and IRCoT: retrievers that a language model rewrites the question for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.operator import Operator
from graph_retrievers.operators.rewriting import HypotheticalDocuments, InterleavedReasoning, QueryDecomposition
from graph_retrievers.retrievers.registry import build_retriever
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["Decomposition", "HyDE", "IRCoT"]


class _Around(Retriever):
    """A retriever around the operator of another, whose node types it returns unless it is given others."""

    def __init__(self, index: GraphIndex, kind: Callable[..., Operator], search: str | Operator, options: dict[str, Any]) -> None:
        self._kind, self._search, self._chosen = kind, search, options.get("types")
        inner = self._inside(index)
        super().__init__(index, kind(inner.operator), **options)
        self._follow(inner)

    def over(self, index: GraphIndex) -> Self:
        """Return this retriever on another index with the same signals, around what the other retriever is there."""
        made, inner = super().over(index), self._inside(index)
        made.operator = made._kind(inner.operator)
        made._follow(inner)
        return made

    def _inside(self, index: GraphIndex) -> Retriever:
        return Retriever(index, self._search) if isinstance(self._search, Operator) else build_retriever(self._search, index)

    def _follow(self, inner: Retriever) -> None:
        self._untrained = inner._untrained
        if self._chosen is None:
            self.types = inner.types


class HyDE(_Around):
    """A search by the vector of a passage that a language model writes to answer the question.

    Parameters
    ----------
    index : GraphIndex
        With vectors and an embedding model.
    search : str or Operator, default "vector"
        What searches: the short name of any retriever, or an operator.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one the result is that of the search, with a note.
    documents : int, default 1
        See :class:`~graph_retrievers.operators.rewriting.HypotheticalDocuments`, which also states the departures.
    **options
        Keywords of :class:`Retriever`.

    References
    ----------
    Gao, Ma, Lin and Callan, "Precise Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023.

    Examples
    --------
    >>> index = GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])
    >>> print(HyDE(index, search="fastinsight").operator.formula())
    HypotheticalDocuments(O_vs -> O_gm -> (O_vgs -> O_gm)*)
    """

    PUBLISHED = {"search": "vector", "documents": 8}

    def __init__(
        self,
        index: GraphIndex,
        *,
        search: str | Operator = "vector",
        language_model: Any = None,
        documents: int = 1,
        **options: Any,
    ) -> None:
        given = {"language_model": language_model, "documents": documents}
        super().__init__(index, partial(HypotheticalDocuments, **given), search, options)


class Decomposition(_Around):
    """A search by the question and by the simpler questions that a language model breaks it into, fused by rank.

    Parameters
    ----------
    index : GraphIndex
    search : str or Operator, default "hybrid"
    language_model : object, optional
        As for :class:`HyDE`.
    questions, constant : int, default 4 and 60
        See :class:`~graph_retrievers.operators.rewriting.QueryDecomposition`.
    **options
        Keywords of :class:`Retriever`.

    References
    ----------
    Khot et al., "Decomposed Prompting", ICLR 2023.

    Examples
    --------
    >>> print(Decomposition(GraphIndex.from_texts(["a loom"]), search="bm25").operator.formula())
    QueryDecomposition(O_vs)
    """

    def __init__(
        self,
        index: GraphIndex,
        *,
        search: str | Operator = "hybrid",
        language_model: Any = None,
        questions: int = 4,
        constant: int = 60,
        **options: Any,
    ) -> None:
        given = {"language_model": language_model, "questions": questions, "constant": constant}
        super().__init__(index, partial(QueryDecomposition, **given), search, options)


class IRCoT(_Around):
    """A search by the question, then by each sentence of the reasoning that a language model writes from what was found.

    Parameters
    ----------
    index : GraphIndex
    search : str or Operator, default "bm25"
    language_model : object, optional
        As for :class:`HyDE`.
    passages, budget, steps : int, default 4, 15 and 8
        See :class:`~graph_retrievers.operators.rewriting.InterleavedReasoning`, which also states the departures.
    **options
        Keywords of :class:`Retriever`.

    References
    ----------
    Trivedi et al., "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step Questions", ACL 2023.

    Examples
    --------
    >>> print(IRCoT(GraphIndex.from_texts(["a loom"])).operator.formula())
    InterleavedReasoning((O_vs)*)
    """

    PUBLISHED = {"search": "bm25", "passages": 4, "budget": 15, "steps": 8, "backfill": False}

    def __init__(
        self,
        index: GraphIndex,
        *,
        search: str | Operator = "bm25",
        language_model: Any = None,
        passages: int = 4,
        budget: int = 15,
        steps: int = 8,
        **options: Any,
    ) -> None:
        given = {"language_model": language_model, "passages": passages, "budget": budget, "steps": steps}
        super().__init__(index, partial(InterleavedReasoning, **given), search, options)
