"""GatheredRelevance: what callers share, what they do not, and how the batches are made."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from graph_retrievers import GatheredRelevance
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.relevance import PairScorer


class Held:
    """Scores pairs by the length of their text, once it is let go; keeps the batches."""

    def __init__(self):
        self.batches, self.asked, self.go = [], threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, pairs):
        self.batches.append([text for _, text in pairs])
        self.asked.release()
        assert self.go.acquire(timeout=30)
        if any(text == "bad" for _, text in pairs):
            raise ValueError("bad pair")
        return [float(len(text)) for _, text in pairs]


def asked_together(model, held, *texts):
    """Ask with lists of texts while a first batch is held, in their order; return the outcomes, that of the first batch first."""
    with ThreadPoolExecutor(len(texts) + 1) as pool:
        calls = [pool.submit(model.encode, ["q"], ["first"])]
        assert held.asked.acquire(timeout=30)
        for count, some in enumerate(texts, 2):
            calls.append(pool.submit(model.encode, ["q"] * len(some), some))
            while len(model._requests) < count:
                pass
        for _ in range(100):
            held.go.release()
        return [call.exception(timeout=30) or call.result().flatten().tolist() for call in calls]


def test_callers_that_ask_meanwhile_share_the_next_batch():
    held = Held()
    found = asked_together(GatheredRelevance(held), held, ["a", "bb"], ["ccc"])
    assert found == [[5.0], [1.0, 2.0], [3.0]]
    assert held.batches == [["first"], ["ccc", "a", "bb"]]


def test_a_batch_is_shared_equally_and_small_requests_do_not_wait_for_large_ones():
    held = Held()
    found = asked_together(GatheredRelevance(held, limit=4), held, list("aaaaaa"), list("bb"), list("cccc"))
    assert [len(each) for each in found] == [1, 6, 2, 4]
    assert ["".join(batch) for batch in held.batches[1:]] == ["bcaa", "bcaa", "aacc"]


def test_an_error_reaches_only_the_caller_whose_pairs_fail():
    held = Held()
    found = asked_together(GatheredRelevance(held), held, ["a"], ["x", "bad"], ["ccc"])
    assert found[1] == [1.0] and found[3] == [3.0]
    assert isinstance(found[2], ValueError) and str(found[2]) == "bad pair"


def test_callers_wait_where_too_many_pairs_are_waiting():
    held = Held()
    model = GatheredRelevance(held, queue=2)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(model.encode, ["q"] * 2, ["a", "b"])
        assert held.asked.acquire(timeout=30)
        second = pool.submit(model.encode, ["q"] * 3, ["c"] * 3)
        assert not held.asked.acquire(timeout=0.2) and len(model._requests) == 1
        held.go.release(9)
        assert [first.result(30).shape, second.result(30).shape] == [(2, 1), (3, 1)]
    assert model._requests == []


def test_an_interrupted_caller_takes_nothing_from_the_others():
    class Interrupted(Held):
        def __call__(self, pairs):
            scores = super().__call__(pairs)
            if len(self.batches) == 1:
                raise KeyboardInterrupt
            return scores

    held = Interrupted()
    found = asked_together(GatheredRelevance(held), held, ["a"], ["bb"])
    assert isinstance(found[0], KeyboardInterrupt) and found[1:] == [[1.0], [2.0]]


def test_many_threads_get_what_the_model_gives_alone():
    plain = PairScorer(lambda pairs: [float(len(query) * 100 + len(text)) for query, text in pairs])
    model = GatheredRelevance(plain, limit=7, wait=0.001)

    def ask(number):
        texts = ["x" * (number % 9 + place) for place in range(number % 13)]
        queries = ["q" * (number % 5 + 1)] * len(texts)
        return torch.equal(model.encode(queries, texts), plain.encode(queries, texts))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(400)))
    assert model._requests == [] and not model._busy


def test_settings_are_checked_and_stay_in_a_copy():
    for wrong in ({"limit": 0}, {"wait": -1}, {"queue": 0}):
        with pytest.raises(InvalidArgumentError):
            GatheredRelevance(len, **wrong)
    model = copy.deepcopy(GatheredRelevance(PairScorer(len, "mine"), limit=3, wait=0.5, queue=9))
    assert (model.name, model.limit, model.wait, model.queue) == ("mine", 3, 0.5, 9)
