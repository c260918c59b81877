"""Functions on rows of different lengths, such as those of CSR matrices, and on the order of scores, as tensors or as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["top_k"]


# Scores nearer to each other than this share of the larger differ only by the rounding of single precision.
_ROUNDING = 1e-6


def _slack(values: Tensor, tolerance: Tensor | float | None) -> Tensor:
    """Return the difference up to which another score equals each of `values`."""
    if tolerance is None:
        return _ROUNDING * values.abs()
    return torch.as_tensor(tolerance, device=values.device).expand_as(values)


def descending(scores: Tensor, tolerance: Tensor | float | None = None) -> Tensor:
    """Return the order of each row by descending score; scores that differ only by rounding keep their order.

    Sums of the same numbers in another order (a batch of another size, another device) differ in their last bits. Starting with
    the largest score, a score and all that are smaller by at most the tolerance count as equal; the next smaller score begins a
    new run. So scores that differ by more keep their order, for any number of scores between them. `scores`, of shape [..., K]
    like the result, int64, must not contain NaN. `tolerance` is a number or has one for each row; by default it is a millionth of
    the larger score, the rounding of single precision.

    >>> descending(torch.tensor([0.5, 0.9, 0.90000004, 0.7]))
    tensor([1, 2, 3, 0])
    """
    values, order = torch.sort(scores, dim=-1, descending=True, stable=True)
    run = _ties(values, _slack(values, tolerance))
    if run is None:
        return order
    return order.gather(-1, torch.argsort(run * scores.shape[-1] + order, dim=-1))


def _ties(values: Tensor, slack: Tensor) -> Tensor | None:
    """Return the run of each score, counted over all rows: the scores no further below the first of the run than its slack.

    `values` and `slack` have shape [..., K], the values of a row fall. A processor gives None where all scores of every run are
    equal.
    """
    gap = values[..., :-1] - values[..., 1:]
    near = (gap <= slack[..., :-1]) & (gap < torch.inf)
    # To wait for the answer of another device would take longer than what follows.
    if values.device.type == "cpu" and not bool((near & (gap > 0)).any()):
        return None
    # Infinite scores equal only each other, with a gap of NaN.
    near |= torch.isnan(gap)
    shape, slack = values.shape, torch.where(torch.isinf(values), 0.0, slack).flatten().double()
    values, first = values.flatten().double(), torch.nn.functional.pad(~near, (1, 0), value=True).flatten()
    # A score that is not near the one before it begins a run; often there are no others.
    chain = torch.cumsum(first, 0) - 1
    head = torch.cummax(torch.where(first, torch.arange(first.numel(), device=first.device), 0), 0).values
    if not bool((values[head] - values > slack[head]).any()):
        return chain.view(shape)
    # Where the next run would begin, if one began at a score. Scores are compared by their number in the sorted list of
    # distinct scores, which is exact.
    levels, level = torch.unique(-values, return_inverse=True)
    line = chain * (levels.numel() + 1)
    after = torch.searchsorted(line + level, line + torch.searchsorted(levels, slack - values, right=True))
    after, first = torch.cat([after, torch.full_like(after[:1], values.numel())]), torch.cat([first, torch.ones_like(first[:1])])
    # Runs begin where a run ends; the steps double, so that there are few of them.
    while True:
        starts = first.clone()
        starts[after[first]] = True
        if torch.equal(starts, first):
            return (torch.cumsum(first[:-1], 0) - 1).view(shape)
        first, after = starts, after[after]


def falling(scores: Tensor) -> Tensor:
    """Return ordered scores, shape [..., K], without the rises by rounding that result from ties in row order."""
    return torch.cummin(scores, -1).values if scores.numel() else scores


def gather_rows(indptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the CSR entries of many rows as one flat list: for each its place in `rows`, ascending, and in the CSR arrays.

    `indptr`, shape [N + 1], and `rows`, shape [M], are int64, as are the results, shape [T]; a row of -1 reads nothing. The total T
    is read by the host once: on a GPU this is the only synchronisation.

    >>> gather_rows(torch.tensor([0, 2, 2, 5]), torch.tensor([2, 0]))
    (tensor([0, 0, 0, 1, 1]), tensor([2, 3, 4, 0, 1]))
    """
    safe = rows.clamp(min=0)
    start = indptr[safe]
    length = torch.where(rows >= 0, indptr[safe + 1] - start, torch.zeros_like(start))
    total = int(length.sum())
    owner = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), length, output_size=total)
    # The gap between a row's place in the CSR arrays and in the flat list; index_select is several times as fast as indexing.
    shift = start - torch.cumsum(length, 0) + length
    entry = torch.arange(total, device=rows.device) + shift.index_select(0, owner)
    return owner, entry


def slices(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries of rows, shape [n], of a CSR matrix: for each entry, the place of its row (ascending) and its position.

    >>> [part.tolist() for part in slices(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[0, 0, 0, 1, 1], [2, 3, 4, 0, 1]]
    """
    start = indptr.take(rows)
    return runs(start, indptr.take(rows + 1) - start)


def runs(start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places in runs, `start` and `length` of shape [n], one after another: for each, its run and itself.

    >>> [part.tolist() for part in runs(np.array([7, 2]), np.array([2, 1]))]
    [[0, 0, 1], [7, 8, 2]]
    """
    owner = np.repeat(np.arange(len(start)), length)
    return owner, np.arange(len(owner)) + (start - np.cumsum(length) + length).take(owner)


def top_k(scores: Tensor, k: int, tolerance: Tensor | float | None = None) -> tuple[Tensor, Tensor]:
    """Return the k (at most N) largest entries of each row [B, N], best first, and their columns; ties go to the lower column.

    Scores must not contain NaN; `tolerance` is that of :func:`descending`.

    >>> top_k(torch.tensor([[0.2, 0.9, 0.9]]), 2)
    (tensor([[0.9000, 0.9000]]), tensor([[1, 2]]))
    """
    size = scores.shape[1]
    k = min(k, size)
    if k <= 0 or scores.shape[0] == 0:
        empty = scores[:, :0]
        return empty, empty.to(torch.int64)
    # One entry more than asked shows whether a tie straddles the cut; torch.topk breaks ties as it likes.
    values, columns = torch.topk(scores, min(k + 1, size), dim=1)
    if size > k:
        cut = values[:, k - 1 : k]
        slack = torch.where(torch.isinf(cut), 0.0, _slack(cut, tolerance))
        # The few rows with such a tie are read whole.
        ties = (values[:, k : k + 1] >= cut - slack).flatten().nonzero().flatten()
        if ties.numel():
            slack = _slack(values, tolerance).index_select(0, ties)
            columns[ties, :k] = _lowest_of_level(scores.index_select(0, ties), values.index_select(0, ties), k, slack)
    columns = torch.sort(columns[:, :k], dim=1).values
    values = scores.gather(1, columns)
    order = descending(values, tolerance)
    return falling(values.gather(1, order)), columns.gather(1, order)


def _lowest_of_level(scores: Tensor, values: Tensor, k: int, slack: Tensor) -> Tensor:
    """Return the columns of the k largest entries of each row [B, N], ascending; of those that tie at the cut, the lowest.

    `values`, shape [B, k + 1], are the largest, and `slack`, of the same shape, the tolerance of each.
    """
    run, cut = _ties(values, slack), values[:, k - 1 : k]
    if run is not None:
        cut = values.gather(1, (run == run[:, k - 1 : k]).int().argmax(1, keepdim=True))
    slack = torch.where(torch.isinf(cut), 0.0, slack.gather(1, (values == cut).int().argmax(1, keepdim=True)))
    # The difference of two near scores is exact; infinite ones have none.
    above, level = scores > cut, (scores <= cut) & ((cut - scores <= slack) | (scores == cut))
    room = k - above.sum(1, keepdim=True)
    keep = above | (level & (torch.cumsum(level, 1) <= room))
    return keep.nonzero()[:, 1].view(scores.shape[0], k)


def min_max(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Scale values, [B, K], to [0, 1] between the bounds of each row, [B, 1]; 1 where the bounds differ only by rounding.

    >>> min_max(torch.tensor([[3.0, 4.0, 5.0]]), torch.tensor([[3.0]]), torch.tensor([[5.0]]))
    tensor([[0.0000, 0.5000, 1.0000]])
    """
    level = high - low <= _ROUNDING * torch.maximum(high.abs(), low.abs())
    return (values - low).div_((high - low).masked_fill(level, 1.0)).clamp_(0, 1).masked_fill_(level, 1.0)


def send_together(rows: Iterable[Sequence[Any]], device: torch.device) -> list[tuple[Tensor, ...]]:
    """Return rows of tensors or arrays as tensors on a device; those of a column, which differ only in their first size, go as one.

    >>> rows = send_together([(np.array([1, 2]), torch.ones(1)), (np.array([3]), torch.zeros(1))], torch.device("cpu"))
    >>> [[part.tolist() for part in row] for row in rows]
    [[[1, 2], [1.0]], [[3], [0.0]]]
    """
    columns = [[torch.as_tensor(part) for part in column] for column in zip(*rows, strict=True)]
    if device.type != "cpu":
        columns = [[*torch.cat(column).to(device).split([len(part) for part in column])] for column in columns]
    return list(zip(*columns, strict=True))


def ranked_on_host(scores: Tensor, rows: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and rows, both of one shape, as arrays, for which a device is asked once; double precision has both exactly."""
    if scores.device.type == "cpu":
        return scores.numpy(), rows.numpy()
    values, numbers = torch.stack([scores.double(), rows.double()]).cpu().numpy()
    return values.astype(torch.empty(0, dtype=scores.dtype).numpy().dtype), numbers.astype(np.int64)
