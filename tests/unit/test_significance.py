"""Significance tests against exact values and against simulation."""

from itertools import product

import numpy as np
import pytest

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.evaluation.significance import holm, paired_bootstrap, randomization_test


def exact_p(differences):
    """Every way to swap the two sides, tried one by one."""
    observed = abs(sum(differences))
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in product((1, -1), repeat=len(differences))]
    return sum(total >= observed - 1e-12 for total in sums) / len(sums)


def test_few_queries_are_tested_exactly():
    left, right = [1, 0.5, 1, 0, 1, 0.75], [0, 0.5, 0.5, 0, 0.25, 0.5]
    assert randomization_test(left, right) == exact_p([a - b for a, b in zip(left, right, strict=True)]) == 2 / 16
    assert randomization_test([1.0], [0.0]) == 1.0
    assert randomization_test([0.2, 0.4], [0.2, 0.4]) == 1.0


def test_many_queries_are_sampled_close_to_the_exact_value():
    draw = np.random.default_rng(3)
    differences = draw.normal(0.25, 1, size=15).round(2)
    assert randomization_test(differences, [0.0] * 15, samples=10_000) == pytest.approx(exact_p(differences.tolist()), abs=0.015)


def test_p_values_are_uniform_where_nothing_differs_and_small_where_much_does():
    draw = np.random.default_rng(0)
    values = [randomization_test(draw.normal(size=40), draw.normal(size=40), samples=400, seed=i) for i in range(200)]
    assert np.mean(np.array(values) < 0.05) == pytest.approx(0.05, abs=0.04)
    assert np.mean(values) == pytest.approx(0.5, abs=0.08)
    assert randomization_test(draw.normal(1, 1, 60), [0.0] * 60) == pytest.approx(1 / 10_001)


def test_bootstrap_interval_is_that_of_the_mean():
    draw = np.random.default_rng(1)
    left = draw.normal(0.3, 1, size=400)
    low, high = paired_bootstrap(left, np.zeros(400))
    half = 1.96 * left.std() / 20
    assert low == pytest.approx(left.mean() - half, abs=0.015)
    assert high == pytest.approx(left.mean() + half, abs=0.015)


def test_the_same_seed_gives_the_same_numbers():
    draw = np.random.default_rng(2)
    left, right = draw.random(50), draw.random(50)
    assert paired_bootstrap(left, right, seed=5) == paired_bootstrap(left, right, seed=5) != paired_bootstrap(left, right, seed=6)
    assert randomization_test(left, right, seed=5) == randomization_test(left, right, seed=5)
    assert randomization_test(left, right, seed=5) == randomization_test(right, left, seed=5)


def test_holm():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_unpaired_values_are_refused():
    for left, right in (([1.0], [1.0, 2.0]), ([], [])):
        with pytest.raises(InvalidArgumentError, match="one value a query"):
            randomization_test(left, right)
    with pytest.raises(InvalidArgumentError, match="samples"):
        randomization_test([1.0] * 20, [0.0] * 20, samples=0)
