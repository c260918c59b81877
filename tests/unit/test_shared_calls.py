"""Calls of many threads that share batches."""

import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from graph_retrievers import GraphIndex, Hits, Pipeline, Retriever, WalkFusion
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.operators import BM25Search
from graph_retrievers.retrievers.protocol import Call
from graph_retrievers.retrievers.shared_calls import SharedCalls


class Answers:
    """Answers that wait until all callers are there, and tell the batches."""

    def __init__(self, fails=()):
        self.batches, self.fails, self.begin = [], fails, threading.Event()

    def __call__(self, call):
        self.begin.wait(10)
        self.batches.append(list(call.queries))
        if set(call.queries) & set(self.fails):
            raise ValueError(f"cannot answer {call.queries}")
        return [
            Hits((), (f"{query} {call.k} {[None if v is None else v[n] for v in call.inputs.values()]}",))
            for n, query in enumerate(call.queries)
        ]


def asked(shared, answers, calls, index=None):
    """Return what each call gets; the first is under way when the others come."""
    with ThreadPoolExecutor(len(calls)) as pool:
        found = [pool.submit(shared, calls[0], answers, index)]
        while not shared._busy:
            time.sleep(0.001)
        for call in calls[1:]:
            found.append(pool.submit(shared, call, answers, index))
            while len(shared._waiting_calls) < len(found):
                time.sleep(0.001)
        answers.begin.set()
        return [each.exception() or [hits.notes[0] for hits in each.result()] for each in found]


def call(*queries, k=1, filters=None, inputs=None, vectors=None):
    return Call(list(queries), k, vectors, filters or {}, inputs or {})


def test_calls_that_come_while_one_runs_are_one_batch():
    answers = Answers()
    assert asked(SharedCalls(8), answers, [call("a"), call("b"), call("c", "d"), call("e")]) == [
        ["a 1 []"],
        ["b 1 []"],
        ["c 1 []", "d 1 []"],
        ["e 1 []"],
    ]
    assert answers.batches == [["a"], ["b", "c", "d", "e"]]


def test_only_calls_that_are_alike_share_a_batch():
    answers, year = Answers(), {"year": 2005}
    calls = [
        call("a"),
        call("b"),
        call("c", k=2),
        call("d", filters={"filter": {"year": 2005}}),
        call("e", filters={"filter": year}),
        call("f", filters={"seed_filter": year}),
        call("g", inputs={"entities": [["x"]]}),
        call("h", inputs={"entities": [["y"]]}),
        call("i", vectors=torch.ones(1, 2)),
        call("j", vectors=torch.zeros(1, 2)),
        call("k", vectors=torch.zeros(1, 3)),
        call("l"),
    ]
    found = asked(SharedCalls(8), answers, calls)
    assert answers.batches == [["a"], ["b", "l"], ["c"], ["d", "e"], ["f"], ["g", "h"], ["i", "j"], ["k"]]
    assert found[6:8] == [["g 1 [['x']]"], ["h 1 [['y']]"]]


def test_calls_whose_filters_do_not_compare_are_answered_apart():
    answers = Answers()
    calls = [call("a"), *(call(text, filters={"filter": {"year": {"$in": np.array([1, 2])}}}) for text in "bc")]
    assert asked(SharedCalls(8), answers, calls) == [["a 1 []"], ["b 1 []"], ["c 1 []"]]
    assert answers.batches == [["a"], ["b"], ["c"]]


def test_a_batch_keeps_to_the_limit_and_a_larger_call_is_whole():
    answers = Answers()
    asked(SharedCalls(2), answers, [call("a"), call("b"), call("c"), call("d"), call("e", "f", "g")])
    assert answers.batches == [["a"], ["b", "c"], ["d"], ["e", "f", "g"]]


def test_an_error_is_that_of_its_own_call():
    answers = Answers(fails=["c"])
    found = asked(SharedCalls(8), answers, [call("a"), call("b"), call("c"), call("d")])
    assert [found[0], found[1], found[3]] == [["a 1 []"], ["b 1 []"], ["d 1 []"]]
    assert str(found[2]) == "cannot answer ['c']"


def test_indexes_do_not_share_a_batch_and_a_copy_has_no_callers():
    shared, answers = SharedCalls(8), Answers()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(shared, call("a"), answers, "one")
        while not shared._busy:
            time.sleep(0.001)
        others = [pool.submit(shared, call(name), answers, index) for name, index in (("b", "one"), ("c", "two"))]
        while len(shared._waiting_calls) < 3:
            time.sleep(0.001)
        copies = copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))  # noqa: S301
        answers.begin.set()
        assert all(each.result() for each in [first, *others])
    assert sorted(answers.batches) == [["a"], ["b"], ["c"]]
    assert all((each.limit, each._waiting_calls) == (8, []) for each in copies)


def test_calls_with_options_of_their_own_share_batches_where_answers_are_alike():
    batches, begin = [], threading.Event()

    class Waits(Operator):
        kind = OperatorKind.VECTOR_SEARCH

        def search(self, question, candidates):
            yield from ()
            begin.wait(10)
            if question.place == 0:
                batches.append(list(question.queries.texts))
            return candidates

    index = GraphIndex.from_texts(["a loom", "a card"])
    retriever = Retriever(index, Pipeline(BM25Search(), Waits()), share_batches=True)
    options = [{}, {}, {"time_limit": 60, "name": "mine"}, {"backfill": False}, {"types": [""]}, {"batch_size": 8}]
    shared = retriever._shared_calls
    with ThreadPoolExecutor(len(options)) as pool:
        found = []
        for place, given in enumerate(options[:-1]):
            found.append(pool.submit(retriever.with_options(**given).retrieve, f"loom {place}"))
            until = time.monotonic() + 10
            while not shared._busy or len(shared._waiting_calls) < len(found):
                assert time.monotonic() < until
                time.sleep(0.001)
        # It waits for no other.
        found.append(pool.submit(retriever.with_options(**options[-1]).retrieve, "loom 5"))
        begin.set()
        assert all(len(each.result()) for each in found)
    assert sorted(batches) == [["loom 0"], ["loom 1", "loom 2"], ["loom 3"], ["loom 4"], ["loom 5"]]


@pytest.mark.slow
@pytest.mark.parametrize("share", [True, None])
def test_many_threads_get_the_answers_given_alone(share):
    texts = [f"a {a} {b}" for a in ("loom", "card", "mill", "wheel") for b in ("of brass", "of oak", "of iron")]
    edges = [(str(n), str((n * 5 + 1) % 12)) for n in range(12)]
    index = GraphIndex.from_texts(texts, edges=edges, vectors=np.eye(12))
    retriever, alone = Retriever(index, WalkFusion(), share_batches=share, batch_size=5), Retriever(index, WalkFusion())
    asked = [(texts[n % 12], np.eye(12)[n % 12], {"filter": {"$id": {"$ne": "3"}}} if n % 3 else {}) for n in range(60)]

    def ask(made, item):
        text, vector, filters = item
        return made.retrieve(text, vector=vector, **filters)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda item: ask(retriever, item), asked)) == [ask(alone, item) for item in asked]


def test_calls_share_batches_on_a_gpu_by_default(monkeypatch):
    seen = []

    class Batches(Operator):
        kind = OperatorKind.VECTOR_SEARCH

        def search(self, question, candidates):
            yield from ()
            seen.append(question.place)
            return candidates

    index = GraphIndex.from_texts(["a loom", "a card"])
    assert Retriever(index, Pipeline(BM25Search(), Batches()))._shared_calls is None
    shared = Retriever(index, Pipeline(BM25Search(), Batches()), share_batches=True, batch_size=4)
    assert shared._shared_calls.limit == 4
    shared.retrieve_batch(["loom"] * 6)
    assert seen == [0, 1, 2, 3, 0, 1]
    monkeypatch.setattr(index, "device", torch.device("cuda"))
    assert Retriever(index, BM25Search())._shared_calls is not None
