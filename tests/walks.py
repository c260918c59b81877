"""Walks on a database beside walks in memory: with the same restart weights, and compared by their shares."""

import pytest
import torch

from graph_retrievers import PPR, Pipeline
from graph_retrievers.graph.ragged import min_max
from graph_retrievers.operators import BM25Search, PersonalizedPageRank, VectorSearch
from graph_retrievers.systems.pagerank import similarities


class FromTheNearest(PersonalizedPageRank):
    """The walk in memory, with the restart weights of a walk on a database: by similarity among the 100 nearest that may start."""

    name = "PersonalizedPageRank"

    def _similar(self, queries, places):
        similarity, allowed = similarities(queries, places), queries.seeds_allowed
        allowed = torch.ones_like(similarity[0], dtype=torch.bool) if allowed is None else allowed
        among = torch.zeros_like(similarity, dtype=torch.bool)
        for row, own in enumerate(similarity):
            nearest = sorted(allowed.nonzero().flatten().tolist(), key=lambda node: (-float(own[node]), node))[:100]
            among[row, nearest] = True
        low = similarity.masked_fill(~among, torch.inf).amin(1, keepdim=True)
        high = similarity.masked_fill(~among, -torch.inf).amax(1, keepdim=True)
        passages = min_max(similarity, low, high).masked_fill(~among, 0.0)
        return passages / passages.sum(1, keepdim=True).clamp(min=1e-30)


def check_near(remote, local, tolerance=1e-4, paths_too=True):
    """Hits with the shares in memory, within a tolerance, and in their order wherever shares differ by more; and their paths."""
    for ours, theirs in zip(remote, local, strict=True):
        shares, own = ({hit.id: hit.score for hit in hits} for hits in (theirs, ours))
        for name in own.keys() & shares.keys():
            assert own[name] == pytest.approx(shares[name], abs=tolerance)
        # What only one of them has is at its end.
        for one, other in ((own, shares), (shares, own)):
            last = min(other.values(), default=0.0) if len(other) == len(theirs) == len(ours) else 0.0
            assert all(one[name] <= last + tolerance for name in one.keys() - other.keys())
        both = [shares[hit.id] for hit in ours if hit.id in shares]
        assert all(later - before <= 2 * tolerance for before, later in zip(both, both[1:], strict=False))
        paths = {hit.id: (hit.path.nodes, hit.operator) for hit in theirs}
        first = [hit for hit in ours[:3] if hit.score > 0.01 and hit.id in paths] if paths_too else []
        assert [(hit.path.nodes, hit.operator) for hit in first] == [paths[hit.id] for hit in first]
        # Whether a scope is empty is known there too, but not whether it has edges.
        notes, expected = (
            [note for note in hits.notes if not note.startswith(("the scope has no edges", "round trips"))]
            for hits in (ours, theirs)
        )
        assert notes == expected, (notes, expected)


# Walks, and those in memory with the same restart weights.
WALKS = {
    "seeds alone": (PPR(seeds=3, passage_weight=0), PPR(seeds=3, passage_weight=0)),
    "default": (PPR(), Pipeline(VectorSearch(5, returned=False), FromTheNearest())),
    "words": (PPR(first=BM25Search(4), damping=0.85), Pipeline(BM25Search(4), FromTheNearest(damping=0.85))),
    "much by similarity": (
        PPR(passage_weight=3.0, damping=0.3),
        Pipeline(VectorSearch(5, returned=False), FromTheNearest(passage_weight=3.0, damping=0.3)),
    ),
}
