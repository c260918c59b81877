"""Rankings, and the trails of nodes whose parents are known."""

import random

import numpy as np
import pytest
import torch

from graph_retrievers.core.candidates import LONGEST_TRAIL, followed
from tests.rankings import Ranking


def listed(found):
    """A ranking as lists of (node, score, operator, trail) without pads; pads are checked."""
    lists = []
    for nodes, scores, origins, trails in zip(
        found.nodes.tolist(), found.scores.tolist(), found.origins.tolist(), found.trails.tolist(), strict=True
    ):
        real = [place for place, node in enumerate(nodes) if node >= 0]
        assert real == list(range(len(real))), "a pad stands before a node"
        for place in range(len(real), len(nodes)):
            assert scores[place] == float("-inf") and origins[place] == -1 and set(trails[place]) <= {-1}
        lists.append([(nodes[i], scores[i], found.operators[origins[i]], tuple(v for v in trails[i] if v >= 0)) for i in real])
        for i in real:
            assert trails[i] == [-1] * trails[i].count(-1) + list(lists[-1][i][3]), "a trail is padded at the left"
    return lists


def test_seeds_are_their_own_trails_and_pads_score_nothing():
    made = Ranking.of(torch.tensor([[4, 2, -1]], dtype=torch.int32), torch.tensor([[2, 1, 9]]), "mine")
    assert listed(made) == [[(4, 2.0, "mine", (4,)), (2, 1.0, "mine", (2,))]]
    assert made.nodes.dtype == torch.int64 and made.scores.dtype == torch.float32
    assert made.trails.shape == (1, 3, 1) and made.lengths().tolist() == [2]


def test_an_empty_ranking_has_lists():
    empty = Ranking.empty(2, torch.device("cpu"))
    assert len(empty) == 2 and empty.width == 0 and listed(empty) == [[], []]


def test_a_ranking_cannot_be_assigned_to():
    found = Ranking.of(torch.tensor([[4]]), torch.tensor([[2.0]]), "mine")
    for name in ("nodes", "notes", "operators"):
        with pytest.raises(AttributeError):
            setattr(found, name, getattr(found, name))


# -- trails -----------------------------------------------------------------------------------------------------------


def follow(nodes, parents, node):
    trail, above = [node], dict(zip(nodes, parents, strict=True))
    while len(trail) < LONGEST_TRAIL and above.get(trail[0], -1) >= 0:
        trail.insert(0, above[trail[0]])
    return trail


def test_followed_trails_against_plain_python():
    generator = random.Random(4)
    for _ in range(160):
        width = generator.randint(0, 9)
        nodes = generator.sample(range(12), width)
        # Parents come earlier, are outside the list, or there are none.
        parents = [generator.choice([-1, *nodes[:place], 20]) for place in range(width)]
        found = followed(np.array(nodes, np.int64), np.array(parents, np.int64))
        for node, trail in zip(nodes, found.tolist(), strict=True):
            assert [v for v in trail if v >= 0] == follow(nodes, parents, node)


def test_followed_trails_end_even_in_a_circle():
    found = followed(np.array([1, 2]), np.array([2, 1]))
    assert found.shape == (2, LONGEST_TRAIL)
    assert found[0].tolist() == [2, 1] * (LONGEST_TRAIL // 2) and found[1, -1] == 2
    line = list(range(LONGEST_TRAIL + 9))
    assert followed(np.array(line), np.array([-1, *line[:-1]]))[-1].tolist() == line[-LONGEST_TRAIL:]
