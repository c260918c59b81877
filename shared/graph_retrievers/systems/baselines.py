"""Baselines for comparison: vector search, BM25, both fused, and retrieve-then-rerank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graph_retrievers.arguments import choice, positive
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.fusion import list_weights
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Relevance
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.path_texts import relevance_texts
from graph_retrievers.search.vector_search import BM25Search, HybridSearch, VectorSearch
from graph_retrievers.systems.system import Count, System

__all__ = ["BM25", "Hybrid", "Re2", "Rerank", "Vector"]


class Rerank(Operator):
    """Rerank nodes by the relevance model of the index.

    Parameters
    ----------
    k : int, optional
        Nodes to keep; all by default.

    Notes
    -----
    The scores are the model's own outputs (raw logits of a cross-encoder). Equal scores keep their order. A (query, node) pair is
    encoded once, also across operators. A model that asks for them also gets the paths to the nodes
    (:func:`~graph_retrievers.search.path_texts.relevance_texts`).

    Examples
    --------
    >>> from graph_retrievers.operators import BM25Search, Pipeline
    >>> print(Pipeline(BM25Search(100), Rerank(10)).formula())
    O_vs -> O_m
    """

    kind = OperatorKind.MODEL_SEARCH
    asks_relevance = True
    batched = True

    def __init__(self, k: int | None = None) -> None:
        self.k = None if k is None else positive("k", k)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the same nodes ordered by the model's score."""
        texts = yield from relevance_texts(question, candidates)
        scores = yield Relevance(candidates.nodes, texts=texts, notes=question.notes)
        return candidates.rescored(scores, question.owners(candidates.nodes))


@dataclass(frozen=True, kw_only=True, repr=False)
class Vector(System):
    """Vector search: rank nodes by dot product with the query.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]])
    >>> Retriever(index, Vector()).retrieve("cards", k=1, vector=[0.1, 0.9])[0].text
    'a card'
    """

    name = "vector"

    def compose(self, index: Corpus) -> Operator:
        """Return vector search."""
        return VectorSearch()


@dataclass(frozen=True, kw_only=True, repr=False)
class BM25(System):
    """BM25: rank nodes by the words that they share with the query.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card"])
    >>> Retriever(index, BM25()).retrieve("Which card?", k=1)[0].text
    'a card'
    """

    name = "bm25"

    def compose(self, index: Corpus) -> Operator:
        """Return BM25 search."""
        return BM25Search()


@dataclass(frozen=True, kw_only=True, repr=False)
class Hybrid(System):
    """Vector search and BM25 fused.

    Parameters
    ----------
    fusion : {"weighted", "rrf"}, default "weighted"
        A weighted sum of scores scaled to [0, 1], or reciprocal ranks (:class:`~graph_retrievers.operators.HybridSearch`).
    weights : sequence of two floats, default (1.0, 1.0)
        Weights of vector search and BM25.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]])
    >>> [hit.text for hit in Retriever(index, Hybrid()).retrieve("card", vector=[0.5, 1])]
    ['a card', 'a loom']
    """

    name = "hybrid"

    fusion: str = "weighted"
    weights: Sequence[float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        """Check the fusion and the weights; a list equals a tuple, as it comes from a file of JSON."""
        choice("fusion", self.fusion, ("weighted", "rrf"))
        object.__setattr__(self, "weights", list_weights(self.weights, 2))

    def compose(self, index: Corpus) -> Operator:
        """Return both searches fused."""
        return HybridSearch(fusion=self.fusion, weights=self.weights)


@dataclass(frozen=True, kw_only=True, repr=False)
class Re2(System):
    """Retrieve-then-rerank: the relevance model reorders the best results of a first search.

    Parameters
    ----------
    depth : int, default 100
        Nodes to rerank.
    first : Operator, optional
        First search; vector search by default.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> print(Retriever(GraphIndex.from_texts(["a loom"], vectors=[[1]]), Re2()).operator.formula())
    O_vs -> O_m
    """

    name = "re2"

    depth: Count = 100
    first: Operator | None = None

    def compose(self, index: Corpus) -> Operator:
        """Return the first search followed by the reranker."""
        return Pipeline(self.first or VectorSearch(self.depth), Rerank())
