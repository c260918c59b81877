"""Concurrent requests to one relevance model, gathered into batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import fraction, positive
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.signals.relevance import RelevanceModel, check_pairs

__all__ = ["GatheredRelevance"]


class _Request:
    """The pairs of one call, and what has become of them."""

    def __init__(self, queries: Sequence[str], texts: Sequence[str]) -> None:
        self.queries, self.texts = list(queries), list(texts)
        self.asked = 0
        self.latents: list[Tensor] = []
        self.error: Exception | None = None

    @property
    def left(self) -> int:
        return len(self.texts) - self.asked


class GatheredRelevance(RelevanceModel):
    """A relevance model that joins the pairs of callers who ask at the same time.

    Any number of threads may call it, such as those in which the asynchronous methods of the frameworks' classes run. One batch is
    encoded at a time, by one of the threads that wait; the pairs that come meanwhile make the next one.

    Parameters
    ----------
    model : object
        See :func:`graph_retrievers.signals.models.as_relevance_model`.
    limit : int, default 256
        Pairs of a batch. Where more are waiting, each caller has the same share of it, the first callers first.
    wait : float, default 0
        Seconds, at most 1, for which a batch waits for more pairs where fewer than `limit` are there.
    queue : int, default 16384
        Pairs beyond which further callers wait before theirs are taken in.

    Notes
    -----
    Latents are those of the model on their own, up to the rounding of its batches. If a batch fails, the requests in it are tried
    one by one, and the error is raised to the callers whose pairs fail. A caller that is cancelled or interrupted takes nothing
    from the others.

    Examples
    --------
    >>> model = GatheredRelevance(lambda pairs: [float(len(text)) for _, text in pairs])
    >>> model.score(model.encode(["q", "q"], ["loom", "cards"]))
    tensor([4., 5.])
    """

    def __init__(self, model: Any, *, limit: int = 256, wait: float = 0.0, queue: int = 1 << 14) -> None:
        self.model = as_relevance_model(model)
        self.limit, self.wait, self.queue = positive("limit", limit), fraction("wait", wait), positive("queue", queue)
        self.name = self.model.name
        # In the order in which they came; a caller that has its answer is gone.
        self._requests: list[_Request] = []
        self._busy = False
        self._change = threading.Condition()

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the settings for a copy or a pickle."""
        return _restored, (self.model, self.limit, self.wait, self.queue)

    def encode(self, queries: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Return the latent of each pair: Tensor, shape [n, d], as the model does."""
        check_pairs(queries, texts)
        if not texts:
            return self.model.encode(queries, texts)
        request = _Request(queries, texts)
        with self._change:
            self._change.wait_for(lambda: self._waiting() < self.queue)
            self._requests.append(request)
            self._change.notify_all()
            try:
                while request.left:
                    if self._busy:
                        self._change.wait()
                    else:
                        self._encode_batch()
            finally:
                self._requests.remove(request)
                self._change.notify_all()
        if request.error is not None:
            raise request.error
        return torch.cat(request.latents)

    def score(self, latent: Tensor) -> Tensor:
        """Return the score of each latent, as the model does."""
        return self.model.score(latent)

    def _waiting(self) -> int:
        return sum(request.left for request in self._requests)

    def _encode_batch(self) -> None:
        """Encode the next batch; the caller holds the lock, which is free meanwhile."""
        self._busy = True
        try:
            end = time.monotonic() + self.wait
            while self._waiting() < self.limit and (left := end - time.monotonic()) > 0:
                self._change.wait(left)
            parts = self._shares()
            self._change.release()
            try:
                found = self._encoded(parts)
            finally:
                self._change.acquire()
            # Not reached if this thread is interrupted; another one encodes these pairs then.
            for (request, part), (latents, error) in zip(parts, found, strict=True):
                # Of a request that fails nothing more is asked.
                request.asked, request.error = part.stop if error is None else len(request.texts), error
                request.latents.append(latents)
        finally:
            self._busy = False
            self._change.notify_all()

    def _shares(self) -> list[tuple[_Request, slice]]:
        """Return the parts of requests that make the next batch."""
        # Small ones first, since what they leave of their share is for the others.
        open_requests = [request for request in self._requests if request.left]
        chosen = sorted(open_requests[: self.limit], key=lambda request: request.left)
        parts, room = [], self.limit
        for place, request in enumerate(chosen):
            count = min(request.left, max(1, room // (len(chosen) - place)))
            parts.append((request, slice(request.asked, request.asked + count)))
            room -= count
        return parts

    def _encoded(self, parts: Sequence[tuple[_Request, slice]]) -> list[tuple[Tensor, Exception | None]]:
        """Return the latents of each part; none, and its error, of one that fails."""
        queries = [query for request, part in parts for query in request.queries[part]]
        texts = [text for request, part in parts for text in request.texts[part]]
        try:
            latents = self.model.encode(queries, texts)
            return [(each, None) for each in latents.split([part.stop - part.start for _, part in parts])]
        except Exception as error:
            return [(torch.empty(0), error)] if len(parts) == 1 else [self._encoded([part])[0] for part in parts]


def _restored(model: RelevanceModel, limit: int, wait: float, queue: int) -> GatheredRelevance:
    return GatheredRelevance(model, limit=limit, wait=wait, queue=queue)
