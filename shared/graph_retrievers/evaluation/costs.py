"""What one query costs a retriever: time, encodes, nodes touched, memory; each measured without sharing."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

__all__ = ["Costs", "Work", "measure"]


@dataclass(frozen=True)
class Costs:
    """Means over the queries that were timed one by one.

    Attributes
    ----------
    seconds_per_query, seconds_median : float
        Wall-clock time of one query, its embedding included.
    timed_queries : int
        How many were timed.
    encodes_per_query : float or None
        (Query, node) pairs that the relevance model read.
    touched_per_query : float or None
        Nodes looked at, where a retriever reports them.
    peak_memory_mb : float or None
        Highest memory of the process (of the GPU, where the index lives on one) meanwhile, index and models
        included, in MiB.
    """

    seconds_per_query: float
    seconds_median: float
    timed_queries: int
    encodes_per_query: float | None = None
    touched_per_query: float | None = None
    peak_memory_mb: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the costs that are known, JSON-plain."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Work:
    """What one query took: pairs that the relevance model read, and nodes looked at (None where they are not counted)."""

    encoded: int
    touched: int | None = None


def measure(
    run: Callable[[int], Work | None], num_queries: int, *, sample: int, seed: int, device: torch.device | None = None
) -> Costs:
    """Return the costs of running single queries, each by itself.

    Parameters
    ----------
    run : callable
        Takes a query's position, retrieves for it, and returns the :class:`Work` it took (None for retrievers from
        elsewhere).
    num_queries : int
    sample : int
        Queries to time, drawn with `seed`; one more runs first, untimed, to warm up.
    seed : int
    device : torch.device, optional
        Where the index lives.
    """
    chosen = sorted(random.Random(seed).sample(range(num_queries), min(sample, num_queries)))
    run(next((position for position in range(num_queries) if position not in chosen), chosen[0]))
    cuda = device is not None and device.type == "cuda"
    _reset_peak(device if cuda else None)
    seconds, encodes, touched = [], [], []
    for position in chosen:
        _synchronize(cuda)
        begin = time.perf_counter()
        work = run(position)
        _synchronize(cuda)
        seconds.append(time.perf_counter() - begin)
        if work is not None:
            encodes.append(work.encoded)
            touched.append(work.touched)
    return Costs(
        seconds_per_query=statistics.fmean(seconds),
        seconds_median=statistics.median(seconds),
        timed_queries=len(seconds),
        encodes_per_query=_mean(encodes),
        touched_per_query=_mean(touched),
        peak_memory_mb=_peak(device if cuda else None),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _synchronize(cuda: bool) -> None:
    if cuda:
        torch.cuda.synchronize()


def _reset_peak(device: torch.device | None) -> None:
    if device is not None:
        torch.cuda.reset_peak_memory_stats(device)
        return
    try:
        # Linux: 5 sets the peak of this process's resident memory back to its present size.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def _peak(device: torch.device | None) -> float | None:
    if device is not None:
        return torch.cuda.max_memory_allocated(device) / 2**20
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return None
