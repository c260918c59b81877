"""Score passages together with a linked passage that was found before, O_vgs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from graph_retrievers.arguments import fraction, positive
from graph_retrievers.core.candidates import Candidates, best, concatenated, falling, places_of, places_within, reached
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question, Questions
from graph_retrievers.core.requests import Degree, Neighbors, Scores, TermScores
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.per_source import sources_of
from graph_retrievers.search.scaling import bounds, level, scaled
from graph_retrievers.systems.walk_fusion.bridges import bridges, bridges_of_each

__all__ = ["PathSearch"]

# Scores that differ by less than this share are equal: the rest is rounding, of similarities in single precision.
_EQUAL = 1e-6
# The place of the similarity that counts as none.
_DEPTH = 100


class PathSearch(Operator):
    r"""Score each candidate alone and as the end of a path from one of the best nodes found so far.

    The candidates are the ranked nodes and the neighbours of the best `seeds` of them. The relevance of a node v, or of two
    linked nodes u and v together, to the question is

    .. math::
        z(v) = \frac{q \cdot v - m}{\max_x q \cdot x - m} + \frac{\sum_t b_t(v)}{\max_x \sum_t b_t(x)}, \qquad
        z(u, v) = \frac{\max(q \cdot u, q \cdot v) - m}{\max_x q \cdot x - m}
        + \frac{\sum_t \max(b_t(u), b_t(v))}{\max_x \sum_t b_t(x)},

    where t runs over the words of the question, :math:`b_t` is the BM25 score of one word, x runs over the candidates, and m is the
    hundredth largest similarity of a candidate; of n candidates, if they are fewer, n / 100 of the smallest if that is above 0. A
    smaller similarity counts as m. A node alone thus has about its score in :class:`~graph_retrievers.operators.HybridSearch`. With
    S the seeds, the score of a candidate is

    .. math:: S_v = (1 - \lambda)\, z(v) + \lambda \max\Bigl(z(v), \max_{u \in S,\, (u, v) \in E} z(u, v)\Bigr).

    A passage that answers the second half of a question contains few of its words; together with the passage that leads to it, it
    contains most. A word in both counts once, so a neighbour that repeats the seed gains little.

    Parameters
    ----------
    seeds : int, default 5
        Nodes of the previous ranking whose neighbours are read.
    share : float in [0, 1], optional
        The lambda of the equation, 0.5 by default; 0 scores each candidate alone. With None it is :math:`1 / \sqrt{1 + d}` for each
        question, where d is the mean number of neighbours of those ranked nodes that have any: an edge of a node that has few tells
        more than one of many.
    bridges : int, default 0
        If above 0, names join passages that no edge joins: for each name in the text of a seed that is not in the question, this
        many passages count as neighbours of the seed, out of the ten best by BM25 of the name, first those whose text begins with
        it. Needs BM25; names are recognised by their capitals (:func:`~graph_retrievers.graph.names.capitalized_names`).
    across : bool, default False
        Whether to follow only edges to another document (:func:`~graph_retrievers.graph.addresses.node_source`), because
        neighbouring pieces of a page are similar, and would lead to each other.
    k : int, optional
        Nodes to keep; by default all candidates.

    Notes
    -----
    The path of a hit leads from the seed u with which it scores best; a ranked node keeps its own path if that seed does not
    improve its score or is ranked below it. If a name leads from u to the hit, it replaces the relation, in quotation marks:
    ``0 -["Ada Holm"]- 1``. Edges are followed both ways. A signal that the index does not have is left out; a lexical signal in an
    external store, which returns scores instead of weights of words, counts for u and v together as for the better of the two
    (:meth:`graph_retrievers.signals.signal.Signal.term_scores`).

    References
    ----------
    Our own. Asai et al., "Learning to Retrieve Reasoning Paths over Wikipedia Graph for Question Answering", ICLR 2020, score
    paths with a trained model. Passages that share a name, the bridge entity: Yang et al., "HotpotQA", EMNLP 2018.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> texts = ["Kismet starred Ada Holm.", "Ada Holm grew up in Lund.", "Glass starred Cleo Marsh."]
    >>> index = GraphIndex.from_texts(texts, edges=[("0", "1", "mentions")])
    >>> retriever = Retriever(index, Pipeline(BM25Search(), PathSearch(seeds=1)), backfill=False)
    >>> for hit in retriever.retrieve("Where was the lead of Kismet born?"):
    ...     print(round(hit.score, 2), hit.path)
    1.0 0
    0.5 0 -[mentions]-> 1
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(
        self,
        seeds: int = 5,
        *,
        share: float | None = 0.5,
        bridges: int = 0,
        across: bool = False,
        k: int | None = None,
    ) -> None:
        self.seeds, self.share = positive("seeds", seeds), None if share is None else fraction("share", share)
        self.across, self.bridges = across, positive("bridges", bridges, least=0)
        self.k = None if k is None else positive("k", k)

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """Whether it takes several questions as one: not with `across`, as the documents of nodes are read question by question."""
        return not self.across

    def compares_vectors(self, index: Corpus) -> bool:
        """Return True."""
        return True

    @property
    def follows_names(self) -> bool:  # type: ignore[override]
        """Whether names join nodes too, with `bridges`."""
        return self.bridges > 0

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the candidates by S."""
        if not len(candidates):
            return candidates
        leads = np.flatnonzero(places_within(candidates.nodes // question.nodes) < self.seeds)
        seeds = candidates.nodes[leads]
        # Pairs of a seed u and a neighbour v: the place of u, the row of v and, where a name joins them, its number.
        degree = None
        if self.share is None:
            (place, far), degree = yield Neighbors(seeds), Degree(candidates.nodes)
        else:
            place, far = yield Neighbors(seeds)
        if self.across:
            ends, at = np.unique(np.append(seeds, far), return_inverse=True)
            sources = yield from sources_of(ends)
            _, document = np.unique(sources, return_inverse=True)
            other = document[at[place]] != document[at[len(seeds) :]]
            place, far = place[other], far[other]
        relation = np.full(len(place), -1)
        if self.bridges and "bm25" in question.signals:
            if isinstance(question, Questions):
                bridged = yield from bridges_of_each(question, seeds, self.bridges)
            else:
                bridged = yield from bridges(question, seeds, self.bridges)
            place, far, relation = (np.append(*pair) for pair in zip((place, far, relation), bridged, strict=True))
        place = leads[place]
        nodes, at = np.unique(np.append(candidates.nodes, far), return_inverse=True)
        ranked, end = at[: len(candidates)], at[len(candidates) :]
        alone, together = yield from _relevance(question, nodes, ranked[place], end)
        along = np.zeros(len(nodes))
        np.maximum.at(along, end, together)
        # The seed that leads to a node: the best, of equal ones the first; to a ranked node, only if it helps and is ranked above.
        helps, no_seed = together >= (1 - _EQUAL) * along[end], len(candidates)
        first = np.full(len(nodes), no_seed)
        np.minimum.at(first, end[helps], place[helps])
        first[ranked[(along[ranked] <= (1 + _EQUAL) * alone[ranked]) | (first[ranked] > np.arange(no_seed))]] = no_seed
        share: Any = self.share
        if degree is not None:
            share = _link_share(degree, question.owners(candidates.nodes), question.owners(nodes))
        scores = (1 - share) * alone + share * np.maximum(alone, along)

        # Among equals those of the lowest rows, as rows ascend.
        by = best(scores, self.k or len(nodes), groups=question.owners(nodes))
        walked, stays = by[first[by] < no_seed], by[first[by] == no_seed]
        new = reached(candidates, first[walked], nodes[walked], np.zeros(len(walked)), self.name)
        if (relation < -1).any() and len(walked):
            # An edge from that seed comes before names, and of these the first.
            led_by, numbers = place == first[end], np.full(len(nodes), np.iinfo(np.int64).min)
            np.maximum.at(numbers, end[led_by], relation[led_by])
            steps = np.full_like(new.trails[:, 1:], -1) if new.relations is None else new.relations
            new = replace(new, relations=np.concatenate([steps[:, :-1], numbers[walked, None]], 1))
        both = concatenated([candidates.taken(places_of(candidates.nodes, nodes[stays])), new])
        return replace(both.taken(places_of(both.nodes, nodes[by])), scores=falling(scores[by], question.owners(nodes[by])))


def _link_share(degree: np.ndarray, ranked: np.ndarray | None, owners: np.ndarray | None) -> Any:
    """Return the share of paths, for each of the `owners` of nodes if there are any, from the degrees of the `ranked` nodes."""
    groups = np.zeros(len(degree), np.int64) if ranked is None else ranked
    neighbors, linked = (np.bincount(groups, values) for values in (degree, degree > 0))
    share = 1 / np.sqrt(1 + neighbors / np.maximum(linked, 1))
    return share[0 if owners is None else owners]


def _relevance(question: Question, nodes: np.ndarray, seed: np.ndarray, end: np.ndarray) -> Algorithm[tuple[np.ndarray, ...]]:
    """Return z of each node alone, and of the pairs of nodes at the places `seed` and `end` together."""
    alone, together, groups = np.zeros(len(nodes)), np.zeros(len(end)), question.owners(nodes)
    requests = {"dense": Scores(nodes), "bm25": TermScores(nodes)}
    names = [name for name in requests if name in question.signals]
    answers = yield tuple(requests[name] for name in names)
    for name, terms in zip(names, answers, strict=True):
        terms = terms.reshape(len(nodes), -1).astype(np.float64)
        if name == "dense":
            terms[:, 0] = level(terms[:, 0], groups)
        scores = terms.sum(1)
        least, most = bounds(scores, _DEPTH, groups)
        if name != "dense":
            least = np.zeros_like(least)
        alone += scaled(scores, least, most)
        pairs = (least, most) if groups is None else (least[end], most[end])
        together += scaled(np.maximum(terms[seed], terms[end]).sum(1), *pairs)
    return alone, together
