"""Ragged tensor work against the obvious Python."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers.core.candidates import Candidates, replaced
from graph_retrievers.graph.ragged import gather_rows, top_k
from graph_retrievers.signals.dense import DenseIndex

scores_table = st.integers(1, 4).flatmap(
    lambda b: st.integers(0, 60).flatmap(
        lambda n: st.lists(st.lists(st.integers(-3, 3), min_size=n, max_size=n), min_size=b, max_size=b)
    )
)


@pytest.mark.slow
@settings(max_examples=200)
@given(scores_table, st.integers(0, 70))
def test_top_k_takes_the_largest_and_on_ties_the_lower_column(table, k):
    size = len(table[0])
    values, columns = top_k(torch.tensor(table, dtype=torch.float32).reshape(len(table), size), k)
    for row, value, column in zip(table, values.tolist(), columns.tolist(), strict=True):
        expected = sorted(range(size), key=lambda i: (-row[i], i))[:k]
        assert column == expected
        assert value == [row[i] for i in expected]


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.integers(1, 900), st.integers(1, 12), st.booleans())
def test_exact_search_equals_a_full_sort_however_wide_the_table(seed, size, k, filtered):
    generator = torch.Generator().manual_seed(seed)
    # Coarse values make ties within and across groups of columns common.
    vectors = torch.randint(-2, 3, (size, 3), generator=generator).float()
    queries = torch.randint(-2, 3, (2, 3), generator=generator).float()
    allowed = torch.rand(size, generator=generator) < 0.5 if filtered else None
    scores, rows = DenseIndex(vectors).search(queries, k, allowed)
    for b in range(2):
        dots = (vectors @ queries[b]).tolist()
        pool = [i for i in range(size) if allowed is None or allowed[i]]
        expected = sorted(pool, key=lambda i: (-dots[i], i))[:k]
        found = [r for r in rows[b].tolist() if r >= 0]
        assert found == expected
        assert scores[b, : len(found)].tolist() == [dots[i] for i in expected]


def test_gather_rows_reads_rows_in_the_order_asked_and_nothing_for_pads():
    indptr = torch.tensor([0, 2, 2, 5])
    owner, entry = gather_rows(indptr, torch.tensor([2, -1, 0, 1]))
    assert owner.tolist() == [0, 0, 0, 2, 2]
    assert entry.tolist() == [2, 3, 4, 0, 1]


def test_what_moves_is_placed_among_what_stays_and_scores_do_not_rise():
    found = Candidates.seeds(np.arange(4), np.array([9.0, 8.0, 7.0, 6.0], np.float32), "Mine")
    moved = replaced(found, np.array([1, 3]), np.array([1.0, 2.0]))
    # The first place has the score of the best that moved, the third that of the place above it.
    assert moved.nodes.tolist() == [0, 3, 2, 1] and moved.scores.tolist() == [2.0, 2.0, 2.0, 1.0]
    # Equal but for rounding: the order stays, and so the second would score more.
    close = np.array([1.0, 1.0 + 1e-7], np.float32)
    moved = replaced(found.top(2), np.array([0, 1]), close)
    assert moved.nodes.tolist() == [0, 1] and moved.scores.tolist() == [1.0, 1.0] and close[1] > close[0]


@pytest.mark.parametrize("count", [0, 4])
def test_candidates_of_which_none_is_ordered_anew_stay_as_they_are(count):
    found = Candidates.seeds(np.arange(count), -np.arange(count, dtype=np.float64), "Mine")
    same = replaced(found, np.empty(0, np.int64), np.empty(0))
    assert same.nodes.tolist() == found.nodes.tolist() and same.scores.tolist() == found.scores.tolist()
