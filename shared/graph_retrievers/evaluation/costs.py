"""Costs of a single query: time, encoded pairs, touched nodes, memory."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median

import torch


def measure(
    run: Callable[[int], tuple[int, int | None] | None], num_queries: int, *, sample: int, seed: int, device: torch.device
) -> dict[str, float]:
    """Return the mean costs of `sample` queries, drawn with `seed`, that run one at a time after a query for warming up.

    `run` takes a query's position, retrieves for it, and returns how many pairs the relevance model encoded and how many nodes
    were touched (None if unknown). The costs are ``seconds_per_query`` and ``seconds_median`` (wall-clock time),
    ``timed_queries``, and, if known, ``encodes_per_query``, ``touched_per_query`` and ``peak_memory_mb``: the peak memory of the
    process (on CUDA, of the GPU) during this time, including index and models, in MiB.
    """
    positions = sorted(random.Random(seed).sample(range(num_queries), min(sample, num_queries)))
    run(next((position for position in range(num_queries) if position not in positions), positions[0]))
    cuda = device.type == "cuda"
    _reset_peak(device)
    seconds, work = [], []
    for position in positions:
        if cuda:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        work.append(run(position) or (None, None))
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    costs = {"seconds_per_query": fmean(seconds), "seconds_median": median(seconds), "timed_queries": len(seconds)}
    for name, column in zip(("encodes_per_query", "touched_per_query"), zip(*work, strict=True), strict=True):
        values = [value for value in column if value is not None]
        if values:
            costs[name] = fmean(values)
    peak = _peak(device)
    return costs if peak is None else costs | {"peak_memory_mb": peak}


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:
        # Linux: 5 sets the peak of this process's resident memory back to its present size.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def _peak(device: torch.device) -> float | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)
