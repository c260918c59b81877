"""Tensor work on rows of different lengths: what every graph operator is built from."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["columns_of", "descending", "falling", "gather_rows", "pad_ranked", "pads_last", "row_pieces", "top_k"]

# Scores nearer to each other than this share of the larger differ by the rounding of single precision alone.
_ROUNDING = 1e-6


def descending(scores: Tensor, tolerance: Tensor | float | None = None) -> Tensor:
    """Return the order of each row by falling score; scores that differ only by rounding keep their present order.

    Parameters
    ----------
    scores : Tensor, shape [..., K]
        Free of NaN. Ties are broken by the present order, so put first what is to go first among equals.
    tolerance : float or Tensor, shape [..., 1], optional
        Difference up to which two scores are equal; by default a millionth of the larger, the rounding of single precision.

    Returns
    -------
    Tensor, shape [..., K], int64

    Notes
    -----
    Sums of the same numbers in another order (a batch of another size, another device) differ in their last bits. From the
    largest on, a score and all that are smaller by no more than the tolerance count as one; the next smaller begins anew. So
    scores that differ by more keep their order, however many lie between them.
    """
    values, order = torch.sort(scores, dim=-1, descending=True, stable=True)
    run = _runs_of_rows(values, tolerance)
    if run is None:
        return order
    return order.gather(-1, torch.argsort(run * scores.shape[-1] + order, dim=-1))


def _runs_of_rows(values: Tensor, tolerance: Tensor | float | None) -> Tensor | None:
    """Return the run of each score of falling rows, shape [..., K], numbered over all rows; None where all in a run are equal."""
    slack = _ROUNDING * values.abs() if tolerance is None else torch.as_tensor(tolerance, device=values.device).expand_as(values)
    gap = values[..., :-1] - values[..., 1:]
    near = (gap <= slack[..., :-1]) & (gap < torch.inf)
    if not bool((near & (gap > 0)).any()):
        return None
    # Infinite scores have gaps of NaN: those are equal.
    joined = torch.nn.functional.pad(near | torch.isnan(gap), (1, 0))
    return _runs(values.flatten(), joined.flatten(), slack.flatten()).view(values.shape)


def _runs(values: Tensor, joined: Tensor, slack: Tensor) -> Tensor:
    """Return the number of the run of each score: a run holds the scores that are no further than its slack below its first.

    Parameters
    ----------
    values, slack : Tensor, shape [T]
        Scores, and differences up to which a score equals another.
    joined : Tensor, shape [T], bool
        Whether a score lies within the slack of the one before it; the scores of a chain of such fall.

    Returns
    -------
    Tensor, shape [T], int64
        Ascending.
    """
    chain = torch.cumsum(~joined, 0) - 1
    slack = torch.where(torch.isinf(values), 0.0, slack).double()
    # Between equal infinities there is no depth.
    depth = (values[~joined][chain].double() - values.double()).nan_to_num(nan=0.0)
    if bool((depth <= slack[~joined][chain]).all()):
        return chain
    # Where the next run would begin, if one began here; chains stand one behind the other on one line.
    line = chain * (2 * (depth.max() + slack.max())) + depth
    after = torch.searchsorted(line, line + slack, right=True)
    end = torch.full_like(after[:1], values.numel())
    after, first = torch.cat([after, end]), torch.cat([~joined, torch.ones_like(joined[:1])])
    # Runs begin where chains do and where a run ends; the steps double, so that there are few of them.
    while True:
        found = first.clone()
        found[after[first]] = True
        if torch.equal(found, first):
            return torch.cumsum(first[:-1], 0) - 1
        first, after = found, after[after]


def falling(scores: Tensor) -> Tensor:
    """Return ordered scores, shape [..., K], without the rises by rounding that ties in row order leave."""
    return torch.cummin(scores, -1).values if scores.numel() else scores


def pads_last(real: Tensor) -> Tensor:
    """Return the order that puts the columns of each row that are not `real`, shape [..., K], behind the others."""
    return torch.sort((~real).to(torch.int8), dim=-1, stable=True).indices


def columns_of(table: Tensor, nodes: Tensor) -> Tensor:
    """Return where nodes stand in the same row of a table.

    Parameters
    ----------
    table : Tensor, shape [B, K], int64
        Distinct node rows, in any order; -1 pads.
    nodes : Tensor, shape [B, M], int64
        Node rows to look for; -1 is not found.

    Returns
    -------
    Tensor, shape [B, M], int64
        Column in `table`, -1 where it is not there. The work grows with (K + M) log K, so wide rows cost no table of K * M.
    """
    if table.shape[1] == 0:
        return torch.full_like(nodes, -1)
    ascending, order = torch.sort(table, dim=1)
    place = torch.searchsorted(ascending, nodes.contiguous()).clamp(max=table.shape[1] - 1)
    found = (ascending.gather(1, place) == nodes) & (nodes >= 0)
    return torch.where(found, order.gather(1, place), -1)


def gather_rows(indptr: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the CSR entries of many rows as one flat list.

    Parameters
    ----------
    indptr : Tensor, shape [N + 1], int64
        Row pointers of a CSR matrix.
    rows : Tensor, shape [M], int64
        Rows to read; an entry of -1 reads nothing.

    Returns
    -------
    owner : Tensor, shape [T], int64
        For each entry, the position in `rows` it belongs to (ascending).
    entry : Tensor, shape [T], int64
        Its position in the CSR arrays.

    Notes
    -----
    The total T is read by the host once: on a GPU this is the only synchronisation.
    """
    safe = rows.clamp(min=0)
    start = indptr[safe]
    length = torch.where(rows >= 0, indptr[safe + 1] - start, torch.zeros_like(start))
    total = int(length.sum())
    owner = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), length, output_size=total)
    # The gap between a row's place in the CSR arrays and in the flat list; index_select is several times an index's speed.
    shift = start - torch.cumsum(length, 0) + length
    entry = torch.arange(total, device=rows.device) + shift.index_select(0, owner)
    return owner, entry


def row_pieces(indptr: Tensor, rows: Tensor, limit: int) -> Iterator[slice]:
    """Yield slices that cover `rows` and together read at most `limit` CSR entries each, or hold a single row.

    Parameters
    ----------
    indptr : Tensor, shape [N + 1], int64
        Row pointers of a CSR matrix.
    rows : Tensor, shape [M], int64
        Rows to read.
    limit : int
        Entries a slice may read: what bounds the memory of :func:`gather_rows`.
    """
    if rows.numel() == 0:
        return
    ends = torch.cumsum(indptr[rows + 1] - indptr[rows], 0)
    start, done, last = 0, 0, int(ends[-1])
    while last - done > limit and start < rows.numel():
        stop = max(int(torch.searchsorted(ends, done + limit, right=True)), start + 1)
        yield slice(start, stop)
        start, done = stop, int(ends[stop - 1])
    if start < rows.numel():
        yield slice(start, rows.numel())


def pad_ranked(
    batch: Tensor, nodes: Tensor, scores: Tensor, extra: Tensor, num_queries: int, k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sort flat candidates of many queries and pad them to one table.

    The order is score descending, then node row ascending; scores that differ only by rounding are equal, as for
    :func:`descending`. Entries with a node of -1 are dropped.

    Parameters
    ----------
    batch, nodes, extra : Tensor, shape [T], int64
        Query of each candidate, its node row, and one value that travels along (its parent, say).
    scores : Tensor, shape [T], float32
        Score of each candidate.
    num_queries : int
        Number of queries B.
    k : int
        Width of the table; candidates beyond it are cut.

    Returns
    -------
    nodes, scores, extra : Tensor, shape [B, k]
        Best first; pads are -1 (scores: -inf).
    """
    device = nodes.device
    key = torch.where(nodes >= 0, batch, torch.full_like(batch, num_queries))
    order = torch.argsort(nodes, stable=True)
    order = order[torch.argsort(scores[order], descending=True, stable=True)]
    order = order[torch.argsort(key[order], stable=True)]
    order = _by_row_in_runs(order, key, nodes, scores)
    key = key[order]
    starts = torch.searchsorted(key, torch.arange(num_queries + 1, device=device))
    place = torch.arange(key.numel(), device=device) - starts[key]
    # What does not fit goes to one spare column, so that no shape depends on the data.
    column = torch.where((key < num_queries) & (place < k), place, torch.full_like(place, k))
    row = key.clamp(max=max(num_queries - 1, 0))
    table_nodes = torch.full((num_queries, k + 1), -1, dtype=torch.int64, device=device)
    table_scores = torch.full((num_queries, k + 1), float("-inf"), dtype=torch.float32, device=device)
    table_extra = torch.full((num_queries, k + 1), -1, dtype=torch.int64, device=device)
    if num_queries:
        table_nodes[row, column] = nodes[order]
        table_scores[row, column] = scores[order].float()
        table_extra[row, column] = extra[order]
    return table_nodes[:, :k], falling(table_scores[:, :k]), table_extra[:, :k]


def _by_row_in_runs(order: Tensor, key: Tensor, nodes: Tensor, scores: Tensor) -> Tensor:
    """Return an order by (key, falling score) with runs of scores that differ only by rounding put in node order."""
    ahead, behind = order[:-1], order[1:]
    gap = scores[ahead] - scores[behind]
    same = (key[ahead] == key[behind]) & ((gap <= _ROUNDING * scores[ahead].abs()) & (gap < torch.inf) | torch.isnan(gap))
    if not bool((same & (gap > 0)).any()):
        return order
    run = _runs(scores[order], torch.nn.functional.pad(same, (1, 0)), _ROUNDING * scores[order].abs())
    by_node = torch.argsort(nodes[order], stable=True)
    return order[by_node[torch.argsort(run[by_node], stable=True)]]


def top_k(scores: Tensor, k: int, tolerance: Tensor | float | None = None) -> tuple[Tensor, Tensor]:
    """Return the k largest entries of each row; ties go to the lower column.

    Parameters
    ----------
    scores : Tensor, shape [B, N]
        Scores, free of NaN.
    k : int
        Number of entries to keep; clamped to N.
    tolerance : float or Tensor, shape [B, 1], optional
        Difference up to which two scores are a tie, see :func:`descending`.

    Returns
    -------
    values, columns : Tensor, shape [B, min(k, N)]
        Best first.
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
        slack = _ROUNDING * cut.abs() if tolerance is None else torch.as_tensor(tolerance, device=scores.device)
        slack = torch.where(torch.isinf(cut), 0.0, slack)
        if bool((values[:, k : k + 1] >= cut - slack).any()):
            run = _runs_of_rows(values, tolerance)
            if run is not None:
                cut = values.gather(1, (run == run[:, k - 1 : k]).int().argmax(1, keepdim=True))
                slack = torch.where(torch.isinf(cut), 0.0, _ROUNDING * cut.abs() if tolerance is None else slack)
            # The difference of two near scores is exact; infinite ones have none.
            above, level = scores > cut, (scores <= cut) & ((cut - scores <= slack) | (scores == cut))
            room = k - above.sum(1, keepdim=True)
            keep = above | (level & (torch.cumsum(level, 1) <= room))
            columns = keep.nonzero()[:, 1].view(scores.shape[0], k)
    columns = torch.sort(columns[:, :k], dim=1).values
    values = scores.gather(1, columns)
    order = descending(values, tolerance)
    return falling(values.gather(1, order)), columns.gather(1, order)
