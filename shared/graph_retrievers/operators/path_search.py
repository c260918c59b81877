"""Passages scored together with a linked passage that was found before, O_vgs."""

from __future__ import annotations

from dataclasses import replace

import torch

from graph_retrievers.arguments import fraction, is_number, positive
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.operators.bridges import bridges
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking

__all__ = ["PathSearch"]


class PathSearch(Operator):
    r"""Score each candidate alone and as the end of a path from one of the best nodes found so far.

    The candidates are the ranked nodes and the neighbours of the best `seeds` of them. What a node v, or two linked nodes u and
    v together, have in common with the question is

    .. math::
        z(v) = w \frac{q \cdot v}{\max_x q \cdot x} + \frac{\sum_t b_t(v)}{\max_x \sum_t b_t(x)}, \qquad
        z(u, v) = w \frac{\max(q \cdot u, q \cdot v)}{\max_x q \cdot x}
        + \frac{\sum_t \max(b_t(u), b_t(v))}{\max_x \sum_t b_t(x)},

    where t runs over the words of the question, :math:`b_t` is the BM25 score of one word, and x runs over the candidates. With S
    the seeds, a candidate scores

    .. math:: S_v = (1 - \lambda)\, z(v) + \lambda \max\Bigl(z(v), \max_{u \in S,\, (u, v) \in E} z(u, v)\Bigr).

    A passage that answers the second half of a question has few of its words; together with the passage that leads to it, it
    has most. A word that both contain counts once, so a neighbour that repeats what the seed says gains little.

    Parameters
    ----------
    seeds : int, default 5
        Nodes of the ranking before it whose neighbours are read.
    share : float in [0, 1], default 0.5
        The lambda of the equation; 0 scores each candidate alone.
    dense_weight : float, default 1
        The w of the equation, at least 0. Where texts are long and questions are put in other words, as on manuals, similarities of
        candidates differ by less than their BM25 scores do, and a larger weight keeps what vector search puts first.
    bridges : int, default 0
        If above 0, names join passages where no edge does: for each name in the text of a seed that the question does not hold,
        this many passages, the best by BM25 of the name, count as neighbours of the seed. Needs BM25; names are told by their
        capitals (:func:`~graph_retrievers.graph.names.capitalized_names`).
    k : int, optional
        Nodes to keep; by default all candidates.

    Notes
    -----
    The path of a hit leads from the seed u with which it scores best; a ranked node keeps its own path where that seed does not
    help it or is ranked below it. Where a name leads from u to the hit, it stands in the place of the relation, in quotation marks:
    ``0 -["Ada Holm"]- 1``.
    Negative similarities count as 0. Edges are followed both ways. A signal that the index does not have is left out; a lexical
    signal in an external store, which gives scores and not weights of words, counts for u and v together as for the better of
    them (:meth:`graph_retrievers.signals.signal.Signal.joint_scores`).

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
    >>> for hit in retriever.retrieve("Where was the star of Kismet born?"):
    ...     print(round(hit.score, 2), hit.path)
    1.0 0
    0.5 0 -[mentions]-> 1
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(
        self, seeds: int = 5, *, share: float = 0.5, dense_weight: float = 1.0, bridges: int = 0, k: int | None = None
    ) -> None:
        self.seeds, self.share = positive("seeds", seeds), fraction("share", share)
        if not is_number(dense_weight) or not 0 <= dense_weight <= 1e30:
            raise InvalidArgumentError(f"dense_weight must be a number from 0 to 1e30, got {shown(dense_weight)}.")
        self.dense_weight, self.bridges = float(dense_weight), positive("bridges", bridges, least=0)
        self.k = None if k is None else positive("k", k)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the candidates of each query by S."""
        graph, size, count = queries.index.graph, len(queries.index), len(ranking)
        seeds = ranking.nodes[:, : self.seeds]
        width = max(seeds.shape[1], 1)
        # Pairs of a seed u and a neighbour v.
        place, neighbor = graph.neighbors(seeds.flatten())
        if queries.walk_allowed is not None:
            kept = queries.walk_allowed[neighbor]
            place, neighbor = place[kept], neighbor[kept]
        relation = torch.full_like(place, -1)
        if self.bridges and "bm25" in queries.index.signals:
            joined, far, number = bridges(queries, seeds, self.bridges)
            place, neighbor, relation = torch.cat([place, joined]), torch.cat([neighbor, far]), torch.cat([relation, -2 - number])
        batch, seed = place // width, seeds.flatten()[place]

        rows, columns = (ranking.nodes >= 0).nonzero(as_tuple=True)
        keys = torch.cat([rows * size + ranking.nodes[rows, columns], batch * size + neighbor])
        keys, candidate = torch.unique(keys, return_inverse=True)
        ranked, candidate = candidate[: rows.numel()], candidate[rows.numel() :]
        owner, node = keys // size, keys % size
        alone, together = torch.zeros(keys.numel(), device=keys.device), torch.zeros(batch.numel(), device=keys.device)
        for name, weight in (("dense", self.dense_weight), ("bm25", 1.0)):
            if name in queries.index.signals:
                signal, asked = queries.index.signal(name), queries.view(name)
                scores = signal.joint_scores(asked, owner, node.unsqueeze(1)).clamp(min=0)
                largest = torch.zeros(count, device=keys.device).scatter_reduce_(0, owner, scores, "amax")
                largest = torch.where(largest > 0, largest, 1.0)
                alone += weight * scores / largest[owner]
                pairs = signal.joint_scores(asked, batch, torch.stack([seed, neighbor], 1)).clamp(min=0)
                together += weight * pairs / largest[batch]

        best = torch.zeros_like(alone).scatter_reduce_(0, candidate, together, "amax")
        # The seed that leads to a node: the best, of equal ones the first; to a ranked node, only if it helps and is ranked above.
        helps = together == best[candidate]
        first = torch.full_like(keys, width).scatter_reduce_(0, candidate[helps], place[helps] % width, "amin")
        first[ranked[(best[ranked] <= alone[ranked]) | (first[ranked] > columns)]] = width
        scores = (1 - self.share) * alone + self.share * torch.maximum(alone, best)

        walked = first < width
        most = int(torch.bincount(owner[walked], minlength=1).max())
        reached = self.reached(ranking, owner[walked], node[walked], scores[walked], first[walked], most)
        if bool((relation < -1).any()) and reached.width:
            # An edge from that seed comes before names, and of these the first.
            leads = place % width == first[candidate]
            told = torch.full_like(keys, torch.iinfo(keys.dtype).min)
            told.scatter_reduce_(0, candidate[leads], relation[leads], "amax")
            wanted = torch.arange(count, device=keys.device).unsqueeze(1) * size + reached.nodes
            last = told[torch.searchsorted(keys, wanted).clamp(max=keys.numel() - 1)].masked_fill(reached.nodes < 0, -1)
            reached = replace(reached, relations=torch.cat([reached.steps()[:, :, :-1], last.unsqueeze(2)], 2))
        table, kept = torch.full_like(ranking.scores, float("-inf")), torch.zeros_like(ranking.nodes, dtype=torch.bool)
        table[rows, columns], kept[rows, columns] = scores[ranked], ~walked[ranked]
        found = replace(ranking, scores=table).kept(kept).append(reached, ranking.width + reached.width)
        order = torch.argsort(found.nodes, dim=1, stable=True)
        return found.reordered(order).rescored(found.scores.gather(1, order))
