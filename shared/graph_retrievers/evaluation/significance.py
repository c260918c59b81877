"""Which differences between retrievers are significant: paired bootstrap and randomisation tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from graph_retrievers.arguments import choice, positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.evaluation.outcome import Evaluation

__all__ = ["compare", "holm"]

_CHUNK, _SAMPLES = 1000, 10_000


@dataclass(frozen=True)
class Comparison:
    """Two retrievers on the same queries.

    `difference` is the mean of `better` minus the mean of `worse`, at least 0; `low` and `high` are the bounds of its 95 %
    bootstrap interval; `p_value` and `adjusted` are those of the two-sided randomisation test, before and after Holm's correction
    for all compared pairs.
    """

    metric: str
    better: str
    worse: str
    difference: float
    low: float
    high: float
    p_value: float
    adjusted: float

    @property
    def real(self) -> bool:
        """Whether the difference is significant at the level of 5 % after correction."""
        return self.adjusted < 0.05


def compare(evaluation: Evaluation, metric: str, *, seed: int = 0) -> list[Comparison]:
    """Compare every pair of retrievers, in their order, by one of ``evaluation.metric_names``."""
    choice("metric", metric, evaluation.metric_names)
    columns = {name: torch.tensor(evaluation.column(name, metric), dtype=torch.float64) for name in evaluation.retrievers}
    means = {name: float(column.mean()) for name, column in columns.items()}
    # Sorting is stable: equal means keep the order of the evaluation.
    pairs = [sorted(pair, key=lambda name: -means[name]) for pair in combinations(evaluation.retrievers, 2)]
    if not pairs:
        return []
    differences = torch.stack([columns[better] - columns[worse] for better, worse in pairs], 1)
    low, high = _bootstrap(differences, _SAMPLES, seed)
    p_values = _randomization(differences, _SAMPLES, seed).tolist()
    table = zip(differences.mean(0).tolist(), low.tolist(), high.tolist(), p_values, holm(p_values), strict=True)
    return [Comparison(metric, better, worse, *numbers) for (better, worse), numbers in zip(pairs, table, strict=True)]


def paired_bootstrap(
    left: Sequence[float], right: Sequence[float], *, samples: int = _SAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % interval (low, high) of the mean of ``left - right``: percentiles over resampled queries.

    Both sides have one value for each of the same queries. See Efron and Tibshirani, "An Introduction to
    the Bootstrap", 1993, chapter 13.

    >>> paired_bootstrap([1.0, 0.5, 0.75], [0.5, 0.25, 0.75])
    (0.0, 0.5)
    """
    low, high = _bootstrap(_paired(left, right), samples, seed)
    return float(low), float(high)


def randomization_test(left: Sequence[float], right: Sequence[float], *, samples: int = _SAMPLES, seed: int = 0) -> float:
    """Return the two-sided p-value of the mean of ``left - right`` when the sides of each query are swapped at random.

    If :math:`2^n` is at most `samples`, every swap is tried and the value is exact; otherwise `samples` swaps are drawn, and the
    observed values count as one more, so that the result is never 0. See Smucker, Allan and Carterette, "A Comparison of
    Statistical Significance Tests for Information Retrieval Evaluation", CIKM 2007.

    >>> randomization_test([1.0, 1.0, 1.0], [0.0, 0.0, 0.0])  # 2 of 8 swaps
    0.25
    """
    return float(_randomization(_paired(left, right), samples, seed))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for testing them all (Holm, 1979)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    values, highest = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[i]))
        values[i] = highest
    return values


def _paired(left: Sequence[float], right: Sequence[float]) -> Tensor:
    if len(left) != len(right) or not len(left):
        raise InvalidArgumentError(f"Paired tests need one value a query on both sides, got {len(left)} and {len(right)}.")
    return (torch.tensor(left, dtype=torch.float64) - torch.tensor(right, dtype=torch.float64)).unsqueeze(1)


def _bootstrap(differences: Tensor, samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return interval bounds, shape [P], of the means of differences, shape [n, P]."""
    count = differences.shape[0]
    generator = torch.Generator().manual_seed(seed)
    means = []
    for size in _chunks(samples):
        rows = torch.randint(count, (size, count), generator=generator)
        weights = torch.zeros((size, count), dtype=torch.float64).scatter_add_(1, rows, torch.ones(1).double().expand_as(rows))
        means.append(weights @ differences / count)
    tails = torch.tensor([0.025, 0.975], dtype=torch.float64)
    low, high = torch.quantile(torch.cat(means), tails, dim=0)
    return low, high


def _randomization(differences: Tensor, samples: int, seed: int) -> Tensor:
    """Return two-sided p-values, shape [P], of differences, shape [n, P]: the share of swaps that give at least as much."""
    count, observed = differences.shape[0], differences.sum(0).abs()
    exact = 2**count <= samples
    extreme = torch.full_like(observed, 0.0 if exact else 1.0)
    for signs in _swaps(count, samples, seed):
        # Equal sums may differ by rounding.
        extreme += ((signs @ differences).abs() >= observed - 1e-9).sum(0)
    return extreme / (2**count if exact else samples + 1)


def _swaps(count: int, samples: int, seed: int) -> Iterator[Tensor]:
    """Yield signs of the differences of `count` queries, shape [m, count]: all if there are at most `samples`, else some drawn."""
    if 2**count <= samples:
        bits = torch.arange(2**count).unsqueeze(1) >> torch.arange(count)
        yield 1.0 - 2.0 * (bits & 1).double()
        return
    generator = torch.Generator().manual_seed(seed)
    for size in _chunks(samples):
        yield 1.0 - 2.0 * torch.randint(2, (size, count), generator=generator).double()


def _chunks(samples: int) -> list[int]:
    return [min(_CHUNK, samples - start) for start in range(0, positive("samples", samples), _CHUNK)]
