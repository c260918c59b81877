"""Lists of several questions as one: each question has what it has alone."""

import pickle
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest

from graph_retrievers.cache import Lazy
from graph_retrievers.core.candidates import Candidates, best, falling, largest, order, places_within
from graph_retrievers.core.question import Questions
from graph_retrievers.graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.scaling import level, scaled_parts

SIZE = 50


def lists(seed):
    """Return candidates of up to six questions, some without any, with ties and ties but for rounding."""
    draw = np.random.default_rng(seed)
    parts = []
    for _ in range(draw.integers(1, 7)):
        count = int(draw.integers(0, 30))
        nodes = draw.permutation(SIZE)[:count]
        scores = draw.integers(0, 8, count) / 8 * (1 + draw.integers(-1, 2, count) * 1e-9)
        trails = np.stack([draw.integers(-1, SIZE, count), nodes], 1)
        context = draw.integers(-1, SIZE, (count, 2))
        parts.append(Candidates(nodes, scores, trails, np.zeros(count, np.int64), ("Drawn",), columns={"context": context}))
    return parts


@pytest.mark.parametrize("seed", range(60))
def test_arithmetic_on_groups_is_that_on_each_group(seed):
    parts = lists(seed)
    found = Candidates.of_each(parts, SIZE)
    groups, scores = found.nodes // SIZE, np.asarray(found.scores, np.float64)
    starts = np.cumsum([0, *map(len, parts)])

    spans = [slice(start, stop) for start, stop in pairwise(starts.tolist())]

    def joined(pieces):
        return np.concatenate(list(pieces)).tolist()

    for nodes in (None, found.nodes):
        own = [(scores[span], None if nodes is None else nodes[span]) for span in spans]
        assert order(scores, nodes, groups).tolist() == joined(n + order(*told) for n, told in zip(starts, own, strict=False))
        for k in (1, 3, 100):
            wanted = joined(n + best(values, k, rows) for n, (values, rows) in zip(starts, own, strict=False))
            assert best(scores, k, nodes, groups).tolist() == wanted
    assert level(scores, groups).tolist() == joined(level(scores[span]) for span in spans)
    assert falling(scores, groups).tolist() == joined(falling(scores[span]) for span in spans)
    assert places_within(groups).tolist() == joined(np.arange(len(part)) for part in parts)
    wanted = joined(np.full(len(scores[span]), largest(scores[span], None)) for span in spans)
    assert np.broadcast_to(largest(scores, groups), scores.shape).tolist() == wanted
    for from_zero in (False, True):
        wanted = joined(scaled_parts(part, depth=10, from_zero=from_zero) for part in parts)
        assert scaled_parts(found, depth=10, from_zero=from_zero, groups=groups).tolist() == wanted


def test_infinite_scores_are_among_the_best_of_their_group():
    scores = np.array([0.5, *[np.inf] * 6, 0.1, *[-np.inf] * 6, 2.0])
    groups = np.repeat([0, 1], [8, 7])
    assert best(scores, 1, groups=groups).tolist() == [1, 14]
    assert best(scores, 3, groups=groups).tolist() == [1, 2, 3, 14, 8, 9]


def test_equal_scores_at_the_border_of_two_groups_count_for_each():
    assert best(np.full(6, 0.5), 2, groups=np.array([0, 0, 0, 1, 1, 1])).tolist() == [0, 1, 3, 4]
    assert best(np.array([0.5, 0.5, 0.5, 0.9]), 3, np.array([9, 8, 7, 6]), np.zeros(4, np.int64)).tolist() == [3, 2, 1]


@pytest.mark.parametrize("seed", range(20))
def test_candidates_of_several_questions_are_taken_apart_as_they_were(seed):
    parts = lists(seed)
    found = Candidates.of_each(parts, SIZE)
    groups, near = found.nodes // SIZE, found.columns["context"]
    assert np.array_equal(near // SIZE, np.where(near < 0, -1, groups[:, None])), "neighbours are numbered as nodes"
    for made, change in [
        (found, lambda part: part),
        (found.top(4, groups), lambda part: part.top(4)),
        (found.rescored(-found.scores, groups), lambda part: part.rescored(-part.scores)),
    ]:
        told = made.apart(len(parts), SIZE)
        for part, own in zip(map(change, parts), told, strict=True):
            assert own.nodes.tolist() == part.nodes.tolist() and own.scores.tolist() == part.scores.tolist()
            assert own.trails.tolist() == part.trails.tolist()
            assert own.columns["context"].tolist() == part.columns["context"].tolist()


def several(count=3):
    """Return questions on five nodes, one by one and as one, with a filter for each purpose."""
    index = GraphIndex.from_nodes([Node(f"n{row}", "a loom", type="ab"[row % 2]) for row in range(5)])
    masks = {"filter": ["n1", "n2"], "seed_filter": ["n0", "n4"], "traversal_filter": ["n3"]}
    filters = {name: {"$id": {"$in": ids}} for name, ids in masks.items()}
    each = MemoryBackend(Queries.of(index, ["loom"] * count, **filters)).questions()
    return each, Questions(each)


def test_several_questions_know_of_their_nodes_what_each_knows():
    each, questions = several()
    rows, nodes = np.arange(5), np.arange(15)
    for known in ("returned", "started", "walked", "types"):
        alone = list(getattr(each[0], known)(rows))
        assert alone != alone[:1] * 5
        assert list(getattr(questions, known)(nodes)) == alone * 3
    assert questions.typed(nodes, ["b"]).tolist() == each[0].typed(rows, ["b"]).tolist() * 3
    assert questions.owners(nodes).tolist() == np.repeat([0, 1, 2], 5).tolist()


def test_notes_and_counts_of_questions_side_by_side_are_those_of_each():
    each, questions = several()
    first, second = questions.apart(), questions.apart()
    # The second is done before the first.
    second.note("second", 1)
    second.visited(np.array([0, 1, 7]))
    first.note("first", 1)
    first.visited(np.array([0, 5, 6, 10]))
    assert [question.notes for question in each] == [[], [], []]
    questions.take(first)
    questions.take(second)
    questions.note("last", 2)
    assert [question.notes for question in each] == list(questions.notes) == [[], ["first", "second"], ["last"]]
    assert [question.touched for question in each] == [2, 1, 0]
    with pytest.raises(AttributeError):
        _ = questions.text


def test_a_later_value_is_made_once_and_its_copies_have_it():
    made = []
    later = Lazy(lambda: made.append(0) or [6 * 7])
    assert not made
    assert later.value == [42] and later.value is later.value and made == [0]
    for copied in (deepcopy(later), pickle.loads(pickle.dumps(later))):  # noqa: S301
        assert copied.value == [42] and made == [0]
    assert pickle.loads(pickle.dumps(Lazy(list))).value == []  # noqa: S301
