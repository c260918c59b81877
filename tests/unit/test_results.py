"""Rankings: what their operations do to nodes, trails and results beyond nodes, against plain Python."""

import random

import numpy as np
import pytest
import torch

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.results import LONGEST_TRAIL, Chains, Facts, Ranking
from graph_retrievers.search.candidates import followed


def ranking(rows, operator="first", trails=None, relations=None, seed_scores=None, **results):
    """A ranking of lists of (node, score), padded; trails and relations as lists, padded at the left."""
    width = max(map(len, rows), default=0)
    nodes = torch.tensor([[node for node, _ in row] + [-1] * (width - len(row)) for row in rows], dtype=torch.int64)
    scores = torch.tensor([[score for _, score in row] + [0.0] * (width - len(row)) for row in rows])
    if trails is not None:
        results["trails"] = padded(trails, width)
    if relations is not None:
        results["relations"] = padded(relations, width, results["trails"].shape[2] - 1)
    if seed_scores is not None:
        results["seed_scores"] = torch.tensor([row + [float("nan")] * (width - len(row)) for row in seed_scores])
    return Ranking.of(nodes.reshape(len(rows), width), scores.reshape(len(rows), width), operator, **results)


def padded(table, width, length=None):
    length = max((len(trail) for row in table for trail in row), default=1) if length is None else length
    rows = [row + [[]] * (width - len(row)) for row in table]
    return torch.tensor([[[-1] * (length - len(trail)) + trail for trail in row] for row in rows], dtype=torch.int64)


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


def nan_as_none(table):
    return [[None if value != value else value for value in row] for row in table.tolist()]


def test_seeds_are_their_own_trails_and_pads_score_nothing():
    made = Ranking.of(torch.tensor([[4, 2, -1]], dtype=torch.int32), torch.tensor([[2, 1, 9]]), "mine")
    assert listed(made) == [[(4, 2.0, "mine", (4,)), (2, 1.0, "mine", (2,))]]
    assert made.nodes.dtype == torch.int64 and made.scores.dtype == torch.float32
    assert made.trails.shape == (1, 3, 1) and made.lengths().tolist() == [2]


def test_an_empty_ranking_has_lists_and_can_be_worked_on():
    empty = Ranking.empty(2, torch.device("cpu"))
    assert len(empty) == 2 and empty.width == 0 and listed(empty) == [[], []]
    other = ranking([[(1, 0.5)], []], trails=[[[3, 1]], []])
    for joined in (empty.append(other, 5), other.append(empty, 5)):
        assert listed(joined) == [[(1, 0.5, "first", (3, 1))], []]
    assert listed(empty.append(empty, 3)) == [[], []]
    assert listed(empty.top(3).trimmed().only(torch.ones(4, dtype=torch.bool))) == [[], []]


class TestAppend:
    def test_new_nodes_come_behind_with_their_trails_and_names(self):
        left = ranking([[(1, 3.0), (2, 2.0)], [(5, 1.0)]])
        right = ranking([[(2, 9.0), (7, 8.0)], [(6, 7.0), (5, 6.0)]], "second", trails=[[[1, 2], [1, 2, 7]], [[5, 6], [5]]])
        assert listed(left.append(right, 9)) == [
            [(1, 3.0, "first", (1,)), (2, 2.0, "first", (2,)), (7, 8.0, "second", (1, 2, 7))],
            [(5, 1.0, "first", (5,)), (6, 7.0, "second", (5, 6))],
        ]

    def test_the_longer_trails_may_be_on_either_side(self):
        long = ranking([[(7, 1.0)]], "long", trails=[[[1, 2, 7]]])
        short = ranking([[(3, 1.0)]], "short")
        assert listed(long.append(short, 2)) == [[(7, 1.0, "long", (1, 2, 7)), (3, 1.0, "short", (3,))]]
        assert listed(short.append(long, 2)) == [[(3, 1.0, "short", (3,)), (7, 1.0, "long", (1, 2, 7))]]

    def test_lists_are_capped_all_alike_or_each_by_its_own(self):
        left = ranking([[(1, 3.0)], [(1, 3.0)]])
        right = ranking([[(2, 2.0), (3, 1.0)], [(2, 2.0), (3, 1.0)]], "second")
        assert [[n for n, *_ in row] for row in listed(left.append(right, 2))] == [[1, 2], [1, 2]]
        assert left.append(right, 2).width == 2
        assert [[n for n, *_ in row] for row in listed(left.append(right, torch.tensor([1, 3])))] == [[1], [1, 2, 3]]

    def test_names_of_operators_are_joined_and_each_stands_once(self):
        left = ranking([[(1, 3.0)]]).append(ranking([[(2, 2.0)]], "second"), 9)
        right = ranking([[(3, 3.0)]], "third").append(ranking([[(4, 2.0)]], "first"), 9)
        both = left.append(right, 9)
        assert both.operators == ("first", "second", "third")
        assert [name for _, _, name, _ in listed(both)[0]] == ["first", "second", "third", "first"]

    def test_relations_of_one_side_only_and_of_unequal_length(self):
        told = ranking([[(7, 1.0)]], "told", trails=[[[1, 2, 7]]], relations=[[[4, 5]]])
        untold = ranking([[(9, 1.0)]], "untold", trails=[[[6, 9]]])
        longer = ranking([[(8, 1.0)]], "longer", trails=[[[3, 1, 2, 8]]], relations=[[[1, 2, 3]]])
        assert told.append(untold, 9).relations.tolist() == [[[4, 5], [-1, -1]]]
        assert untold.append(told, 9).relations.tolist() == [[[-1, -1], [4, 5]]]
        assert told.append(longer, 9).relations.tolist() == [[[-1, 4, 5], [1, 2, 3]]]
        assert longer.append(told, 9).relations.tolist() == [[[1, 2, 3], [-1, 4, 5]]]
        assert untold.append(ranking([[(3, 1.0)]]), 9).relations is None
        # Seeds walked over no edge.
        assert told.append(ranking([[(3, 1.0)]]), 9).relations.tolist() == [[[4, 5], [-1, -1]]]

    def test_seed_scores_of_one_side_only(self):
        told = ranking([[(7, 1.0)]], seed_scores=[[0.25]])
        untold = ranking([[(8, 1.0)]], "second")
        assert nan_as_none(told.append(untold, 9).seed_scores) == [[0.25, None]]
        assert nan_as_none(untold.append(told, 9).seed_scores) == [[None, 0.25]]
        assert untold.append(ranking([[(9, 1.0)]]), 9).seed_scores is None

    def test_chains_facts_notes_and_counts_are_joined(self):
        left = ranking(
            [[(1, 1.0)], []],
            chains=Chains(
                torch.tensor([[[1, 2], [-1, -1]], [[-1, -1], [-1, -1]]]), torch.tensor([[0.5, -torch.inf], [-torch.inf] * 2]), "one"
            ),
            facts=Facts(torch.tensor([[3, -1], [-1, -1]]), torch.tensor([[0.9, -torch.inf], [-torch.inf] * 2]), "one"),
            notes=(("a", "b"), ()),
            touched=torch.tensor([3, 4]),
        )
        right = ranking(
            [[(2, 1.0)], []],
            "second",
            chains=Chains(torch.tensor([[[5, 6, 7]], [[8, 9, -1]]]), torch.tensor([[0.2], [0.1]]), "two"),
            facts=Facts(torch.tensor([[4, 3], [3, -1]]), torch.tensor([[0.8, 0.7], [0.6, -torch.inf]]), "two"),
            notes=(("b", "c"), ("d",)),
            touched=torch.tensor([10, 20]),
        )
        both = left.append(right, 9)
        assert both.chains.nodes.tolist() == [
            [[1, 2, -1], [5, 6, 7], [-1, -1, -1]],
            [[8, 9, -1], [-1, -1, -1], [-1, -1, -1]],
        ]
        assert both.chains.scores[:, :2].tolist() == [[0.5, pytest.approx(0.2)], [pytest.approx(0.1), float("-inf")]]
        assert both.facts.rows.tolist() == [[3, 4, -1, -1], [3, -1, -1, -1]], "a fact stands once"
        assert both.facts.scores[0].tolist() == [pytest.approx(0.9), pytest.approx(0.8), float("-inf"), float("-inf")]
        assert both.notes == (("a", "b", "c"), ("d",)) and both.touched.tolist() == [13, 24]
        for plain in (left.append(ranking([[], []]), 9), ranking([[], []]).append(left, 9)):
            assert (plain.chains, plain.facts, plain.notes, plain.touched) == (left.chains, left.facts, left.notes, left.touched)

    def test_rankings_of_another_number_of_queries_are_refused(self):
        with pytest.raises(InvalidArgumentError, match="2 and 1 queries"):
            ranking([[], []]).append(ranking([[]]), 3)

    def test_random_rankings_against_plain_python(self):
        generator = random.Random(5)
        for _ in range(60):

            def drawn(name):
                rows = [generator.sample(range(12), generator.randint(0, 5)) for _ in range(3)]
                trails = [[generator.sample(range(12), generator.randint(0, 3)) + [node] for node in row] for row in rows]
                scored = [[(node, float(generator.randint(0, 9))) for node in row] for row in rows]
                return ranking(scored, name, trails=trails)

            left, right, capacity = drawn("a"), drawn(generator.choice("ab")), [generator.randint(0, 8) for _ in range(3)]
            expected = []
            for ours, theirs, most in zip(listed(left), listed(right), capacity, strict=True):
                here = {node for node, *_ in ours}
                expected.append((ours + [place for place in theirs if place[0] not in here])[:most])
            assert listed(left.append(right, torch.tensor(capacity))) == expected


def some_ranking():
    return ranking(
        [[(3, 4.0), (1, 3.0), (2, 1.0)], [(5, 2.0)]],
        trails=[[[3], [3, 1], [3, 1, 2]], [[4, 5]]],
        relations=[[[], [7], [7, 8]], [[9]]],
        seed_scores=[[0.5, 0.25, 0.125], [1.0]],
        chains=Chains(torch.tensor([[[3, 1]], [[4, 5]]]), torch.ones(2, 1)),
        facts=Facts(torch.tensor([[0], [1]]), torch.ones(2, 1)),
        notes=(("x",), ()),
    )


def test_places_are_kept_with_all_that_belongs_to_them():
    found = some_ranking()
    kept = found.kept(torch.tensor([[True, False, True], [False, True, True]]))
    assert listed(kept) == [[(3, 4.0, "first", (3,)), (2, 1.0, "first", (3, 1, 2))], []]
    assert kept.relations.tolist() == [[[-1, -1], [7, 8], [-1, -1]], [[-1, -1]] * 3]
    assert nan_as_none(kept.seed_scores) == [[0.5, 0.125, None], [None] * 3]
    assert (kept.chains, kept.facts, kept.notes) == (found.chains, found.facts, found.notes)


def test_only_allowed_nodes_stay_and_trails_lead_through_others():
    allowed = torch.ones(6, dtype=torch.bool)
    allowed[[1, 5]] = False
    assert listed(some_ranking().only(allowed)) == [[(3, 4.0, "first", (3,)), (2, 1.0, "first", (3, 1, 2))], []]


def test_new_scores_order_anew_and_equal_ones_keep_their_order():
    found = some_ranking().rescored(torch.tensor([[1.0, 2.0, 1.0], [0.5, 9.0, 9.0]]))
    assert listed(found) == [
        [(1, 2.0, "first", (3, 1)), (3, 1.0, "first", (3,)), (2, 1.0, "first", (3, 1, 2))],
        [(5, 0.5, "first", (4, 5))],
    ]
    assert found.relations[0].tolist() == [[-1, 7], [-1, -1], [7, 8]]
    assert nan_as_none(found.seed_scores)[0] == [0.25, 0.5, 0.125]
    # A node may score -inf; pads come behind it all the same.
    assert [n for n, *_ in listed(some_ranking().rescored(torch.full((2, 3), -torch.inf)))[0]] == [3, 1, 2]


def test_top_and_reordered_take_columns():
    assert listed(some_ranking().top(1)) == [[(3, 4.0, "first", (3,))], [(5, 2.0, "first", (4, 5))]]
    turned = some_ranking().reordered(torch.tensor([[2, 0], [0, 1]]))
    assert listed(turned)[0] == [(2, 1.0, "first", (3, 1, 2)), (3, 4.0, "first", (3,))]


def test_trimming_drops_what_no_trail_reaches_and_keeps_the_last_nodes():
    wide = ranking([[(2, 1.0), (3, 1.0)]], trails=[[[-1, -1, 1, 2], [-1, -1, -1, 3]]], relations=[[[-1, -1, 6], [-1, -1, -1]]])
    trimmed = wide.trimmed()
    assert trimmed.trails.tolist() == [[[1, 2], [-1, 3]]] and trimmed.relations.tolist() == [[[6], [-1]]]
    long = list(range(LONGEST_TRAIL + 5))
    cut = ranking([[(long[-1], 1.0)]], trails=[[long]], relations=[[long[1:]]]).trimmed()
    assert cut.trails[0, 0].tolist() == long[-LONGEST_TRAIL:]
    assert cut.relations[0, 0].tolist() == long[-LONGEST_TRAIL + 1 :]


def test_beside_puts_behind_and_after_puts_before():
    chains = [Chains(torch.tensor([[[n, n + 1]]]), torch.tensor([[1.0]]), f"c{n}") for n in (1, 5)]
    facts = [Facts(torch.tensor([[n]]), torch.tensor([[1.0]]), f"f{n}") for n in (1, 5)]
    first, second = (
        ranking([[(n, 1.0)]], chains=chains[i], facts=facts[i], notes=((f"n{n}",),), touched=torch.tensor([n]))
        for i, n in enumerate((1, 5))
    )
    beside = first.beside(second)
    assert beside.chains.nodes.tolist() == [[[1, 2], [5, 6]]] and beside.facts.rows.tolist() == [[1, 5]]
    assert beside.notes == (("n1", "n5"),) and beside.touched.tolist() == [6] and listed(beside) == listed(first)
    # The same object is not counted twice: both sides may come from one ranking before.
    again = first.beside(first)
    assert (again.chains, again.facts, again.touched.tolist()) == (chains[0], facts[0], [1])
    after = second.after(first)
    assert (after.chains, after.facts, after.touched.tolist()) == (chains[1], facts[1], [5])
    assert after.notes == (("n1", "n5"),), "what was noted first stands first"
    bare = ranking([[(9, 1.0)]]).after(first)
    assert (bare.chains, bare.facts, bare.notes, bare.touched.tolist()) == (chains[0], facts[0], (("n1",),), [1])


def test_a_note_is_for_the_queries_it_is_about():
    found = ranking([[(1, 1.0)], [(2, 1.0)]])
    assert found.noted([False, False], "x").notes == ()
    noted = found.noted([False, True], "x").noted([True, True], "y").noted([True, False], "y")
    assert noted.notes == (("y",), ("x", "y"))


def test_a_ranking_cannot_be_assigned_to():
    found = some_ranking()
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


def test_the_same_path_from_two_operators_is_one_chain():
    nodes = torch.tensor([[[0, 1, 2], [3, 4, -1]], [[5, 6, -1], [-1, -1, -1]]])
    first = Chains(nodes, torch.tensor([[0.9, 0.5], [0.4, -torch.inf]]))
    second = Chains(
        torch.tensor([[[3, 4, -1, -1], [0, 1, 2, 7], [0, 1, 2, -1]], [[6, 5, -1, -1], [-1] * 4, [-1] * 4]]),
        torch.tensor([[0.8, 0.7, 0.6], [0.3, -torch.inf, -torch.inf]]),
    )
    both = first.append(second)
    found = [[[row for row in chain if row >= 0] for chain in chains if chain[0] >= 0] for chains in both.nodes.tolist()]
    assert found == [[[0, 1, 2], [3, 4], [0, 1, 2, 7]], [[5, 6], [6, 5]]]
    assert both.scores[0, :3].tolist() == pytest.approx([0.9, 0.5, 0.7]) and bool((both.scores[:, 3:] == -torch.inf).all())


def test_pads_stay_last_when_scores_are_minus_infinity():
    ranking = Ranking.of(torch.tensor([[3, -1]]), torch.zeros(1, 2), "A").reordered(torch.tensor([[1, 0]]))
    assert ranking.rescored(torch.full((1, 2), float("-inf"))).nodes.tolist() == [[3, -1]]
