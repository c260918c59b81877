"""Random numbers of torch for networks, drawn from a seed; the generators of the process are neither read nor changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch

from graph_retrievers.errors import InvalidArgumentError, shown

_ONE_AT_A_TIME = RLock()


def seed_number(seed: Any) -> int:
    """Return the seed of a random generator, or raise InvalidArgumentError unless it is an integer from 0 to 2**63 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InvalidArgumentError(f"seed is {shown(seed)}; expected an integer from 0 to 2**63 - 1.")
    return seed


@contextmanager
def seeded(seed: int = 0, device: torch.device | None = None) -> Iterator[None]:
    """Let torch draw from generators with a seed inside; afterwards those of the process continue where they were.

    Parameters
    ----------
    seed : int, default 0
    device : torch.device, optional
        A CUDA device whose generator is meant too, as dropout draws there.

    Examples
    --------
    >>> before = torch.get_rng_state()
    >>> with seeded(1):
    ...     first = torch.rand(2)
    >>> with seeded(1):
    ...     torch.equal(torch.rand(2), first), torch.equal(torch.get_rng_state(), before)
    (True, False)
    >>> torch.equal(torch.get_rng_state(), before)
    True
    """
    cuda: list[int] = []
    if device is not None and device.type == "cuda":
        cuda.append(torch.cuda.current_device() if device.index is None else device.index)
    with torch.random.fork_rng(devices=cuda):
        # torch.manual_seed would also seed the other devices, which are not restored.
        torch.default_generator.manual_seed(seed_number(seed))
        for number in cuda:
            torch.cuda.default_generators[number].manual_seed(seed)
        yield


@contextmanager
def seeded_weights(seed: int = 0) -> Iterator[None]:
    """Do what :func:`seeded` does while weights are made on the CPU; threads take turns, as they share torch's generator."""
    with _ONE_AT_A_TIME, seeded(seed):
        yield


@contextmanager
def undrawn() -> Iterator[None]:
    """Let Python's `random` continue afterwards where it was before, for imports that draw from it."""
    before = random.getstate()
    try:
        yield
    finally:
        random.setstate(before)
