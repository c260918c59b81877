"""Answer concurrent calls together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.core.limits import LIMITS, Limit, limit_over, limited
from graph_retrievers.hits.hits import Hits
from graph_retrievers.retrievers.limits import seconds_left
from graph_retrievers.retrievers.protocol import Call, same_filter

Answer = Callable[[Call], list[Hits]]


@dataclass(eq=False)
class _WaitingCall:
    call: Call
    answer: Answer
    key: Hashable
    limits: tuple[Limit, ...] = ()
    hits: list[Hits] | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.hits is not None or self.error is not None


class AllOver:
    """The limits of several calls that are answered together, each a sequence: over when one limit of each call is over."""

    def __init__(self, calls: Sequence[Sequence[Limit]]) -> None:
        self.calls = calls

    def over(self) -> bool:
        """Return whether every call is over."""
        return all(any(limit.over() for limit in limits) for limits in self.calls)

    def error(self, trace: Sequence[Any]) -> BaseException:
        """Return what ends the first call."""
        return next(limit for limit in self.calls[0] if limit.over()).error(trace)


class SharedCalls:
    """Combine the calls of many threads into batches of up to `limit` questions, which share embedding, search and reranking.

    One batch runs at a time, in one of the waiting threads. Calls that arrive meanwhile form the next one: the oldest call, and
    later calls with the same k, filters and inputs. A call with more questions than the limit is a batch by itself. A batch
    returns what its questions return one by one, so a call's answer does not depend on other calls. If a batch fails, its calls
    are answered one by one, and each gets its own error. A batch ends early when the time of all its calls is over, or no caller
    waits for it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = positive("limit", limit)
        self._waiting_calls: list[_WaitingCall] = []
        self._busy = False
        self._change = threading.Condition()

    def __reduce__(self) -> tuple[type[SharedCalls], tuple[int]]:
        """Return the settings for a copy or a pickle, without callers."""
        return SharedCalls, (self.limit,)

    def __call__(self, call: Call, answer: Answer, key: Hashable = None) -> list[Hits]:
        """Return what `answer` returns for a call; calls with equal keys share batches."""
        own_call = _WaitingCall(call, answer, key, LIMITS.get())
        with self._change:
            self._waiting_calls.append(own_call)
            try:
                while not own_call.done:
                    if (limit := limit_over()) is not None:
                        raise limit.error(())
                    if self._busy:
                        self._change.wait(seconds_left())
                    else:
                        self._lead()
            finally:
                # An interrupted caller takes nothing from the others.
                if own_call in self._waiting_calls:
                    self._waiting_calls.remove(own_call)
                self._change.notify_all()
        if own_call.error is not None:
            raise own_call.error
        assert own_call.hits is not None
        return own_call.hits

    def _lead(self) -> None:
        """Answer the next batch; the caller holds the lock, which is free meanwhile."""
        batch, self._busy = self._next(), True
        self._change.release()
        try:
            _answer(batch)
        finally:
            self._change.acquire()
            self._busy = False
            self._waiting_calls = [waiting for waiting in self._waiting_calls if not waiting.done]

    def _next(self) -> list[_WaitingCall]:
        # Calls that are over end when their threads wake up, and are not part of a batch.
        first, *rest = [waiting for waiting in self._waiting_calls if not AllOver([waiting.limits]).over()] or self._waiting_calls
        batch, count = [first], len(first.call.queries)
        for other in rest:
            if first.key == other.key and _may_join(first.call, other.call) and count + len(other.call.queries) <= self.limit:
                batch.append(other)
                count += len(other.call.queries)
        return batch


def _answer(batch: list[_WaitingCall]) -> None:
    try:
        with limited(AllOver([waiting.limits for waiting in batch]), alone=True):
            hits = batch[0].answer(_joint_call([waiting.call for waiting in batch]))
    except (Exception, asyncio.CancelledError) as error:
        if len(batch) == 1:
            batch[0].error = error
        else:
            for waiting in batch:
                _answer([waiting])
        return
    for waiting in batch:
        count = len(waiting.call.queries)
        waiting.hits, hits = hits[:count], hits[count:]


def _may_join(left: Call, right: Call) -> bool:
    """Return whether two calls may be one: they differ only in queries, vectors and values of inputs."""
    if left.k != right.k or left.inputs.keys() != right.inputs.keys() or left.filters.keys() != right.filters.keys():
        return False
    if not all(same_filter(left.filters[name], right.filters[name]) for name in left.filters):
        return False
    if isinstance(left.vectors, Tensor) and isinstance(right.vectors, Tensor):
        return left.vectors.shape[1:] == right.vectors.shape[1:] and left.vectors.device == right.vectors.device
    return left.vectors is right.vectors


def _joint_call(calls: list[Call]) -> Call:
    first = calls[0]
    if len(calls) == 1:
        return first
    vectors = torch.cat([call.vectors for call in calls]) if isinstance(first.vectors, Tensor) else first.vectors
    inputs: dict[str, Sequence[Any]] = {name: [value for call in calls for value in call.inputs[name]] for name in first.inputs}
    return replace(first, queries=[query for call in calls for query in call.queries], vectors=vectors, inputs=inputs)
