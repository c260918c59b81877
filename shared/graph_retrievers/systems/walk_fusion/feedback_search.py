"""BM25 with pseudo-relevance feedback: the question together with the text found first, O_vs."""

from __future__ import annotations

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Nearest, Texts

__all__ = ["FeedbackSearch"]


class FeedbackSearch(Operator):
    """BM25 with the question and the text of the best node found so far as the query.

    The words of a passage that answers the first half of a question often name what the second half needs, even if no edge joins
    the two passages.

    Parameters
    ----------
    k, returned
        As for :class:`~graph_retrievers.search.vector_search.VectorSearch`.

    Notes
    -----
    Without an earlier ranking, it is plain BM25. It is Rocchio's expansion with one document and equal weights for both texts. No
    edge joins the results to the node whose text was used, so they are seeds: their paths begin with them.

    References
    ----------
    Rocchio, "Relevance Feedback in Information Retrieval", in The SMART Retrieval System, 1971.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> index = GraphIndex.from_texts(["Ada wrote for Babbage", "Babbage built engines", "A loom"])
    >>> search = Pipeline(BM25Search(1), FeedbackSearch())
    >>> [hit.text for hit in Retriever(index, search, backfill=False).retrieve("Ada")]
    ['Ada wrote for Babbage', 'Babbage built engines']
    """

    kind = OperatorKind.VECTOR_SEARCH

    def __init__(self, k: int | None = None, *, returned: bool = True) -> None:
        self.k = None if k is None else positive("k", k)
        self.returned = returned

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the best matches of question and text; of the previous ranking only the first node is read."""
        texts = (yield Texts(candidates.nodes[:1])) if len(candidates) else []
        nodes, scores = yield Nearest(self.k or question.k, "bm25", self.returned, " ".join([question.text, *texts]))
        return Candidates.seeds(nodes, scores, self.name)
