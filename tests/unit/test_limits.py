"""Time limits and cancelled callers: a search ends at its next step, and says how far it came."""

import asyncio
import copy
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from graph_retrievers import GAR, FastInsight, GraphIndex, Hits, Pipeline, Retriever, StoreRetriever
from graph_retrievers.core.driver import run
from graph_retrievers.core.limits import LIMITS, limit_over, limited
from graph_retrievers.core.requests import Degree, Nearest, Neighbors, Request
from graph_retrievers.core.trace import Asked
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, TimeLimitError
from graph_retrievers.index import IndexStore
from graph_retrievers.operators import BM25Search, Rerank
from graph_retrievers.retrievers import limits
from graph_retrievers.retrievers.limits import TimeLimit, ended_by_caller, in_thread, seconds_left, within_limits
from graph_retrievers.retrievers.protocol import Call
from graph_retrievers.retrievers.shared_calls import AllOver, SharedCalls, _WaitingCall
from graph_retrievers.stores.remote import RemoteIndex
from langchain_graph_retrievers import GraphRetriever
from llama_graph_retrievers import GraphRetriever as LlamaGraphRetriever
from tests.helpers import HashEmbedding
from tests.remote import CountingRelevance, MemoryGraph, MemoryVectors, index_of, random_corpus

QUESTION = "word1 word2 word3"
ONE = np.ones(6, np.float32)


def check_limits():
    if (limit := limit_over()) is not None:
        raise limit.error(())


class Clock:
    """Seconds that pass when a model is asked."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(limits, "perf_counter", made)
    return made


class Slow(CountingRelevance):
    """A relevance model that takes its time: `second` on a clock, and waits for `go` where there is one."""

    def __init__(self, clock=None, second=1.0, go=None):
        super().__init__()
        self.clock, self.second, self.go, self.calls, self.asked = clock, second, go, 0, threading.Event()

    def __call__(self, pairs):
        self.calls += 1
        self.asked.set()
        if self.clock is not None:
            self.clock.now += self.second
        if self.go is not None:
            self.go.wait(30)
        return super().__call__(pairs)


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(3, 120, 300)


def on_stores(corpus, model, system, **options):
    """A retriever on stores whose graph database is asked by the methods of a GraphStore."""
    index = index_of(corpus)
    stores = {"vectors": MemoryVectors(index.graph.ids, corpus[2]), "signals": {"bm25": index.bm25}}
    return Retriever(RemoteIndex(MemoryGraph(index.graph), relevance=model, **stores), system, **options)


def in_memory(corpus, model, system, **options):
    return Retriever(index_of(corpus, model), system, **options)


BACKENDS = [in_memory, on_stores]
# Ten rounds, each of which asks the model.
ROUNDS = GAR(budget=40, nodes_per_round=4)


# -- time limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", BACKENDS)
def test_a_time_limit_ends_a_call_and_tells_how_far_it_came(corpus, clock, make):
    model = Slow(clock)
    retriever = make(corpus, model, ROUNDS, time_limit=3.5)
    for ask in (
        lambda: retriever.retrieve(QUESTION, vector=ONE),
        lambda: retriever.retrieve_batch([QUESTION] * 3, vectors=[ONE] * 3),
        lambda: asyncio.run(retriever.aretrieve(QUESTION, vector=ONE)),
    ):
        model.calls = 0
        with pytest.raises(
            TimeLimitError, match=r"GAR has no answer after 4 seconds, and its time_limit is 3.5: step 5 was reached"
        ) as caught:
            ask()
        assert model.calls == 4
        assert [asked.request.__name__ for asked in caught.value.trace].count("Relevance") == 4
        assert "Relevance for AdaptiveReranking" in str(caught.value) and "in 4 calls" in str(caught.value)
        assert str(caught.value.trace).startswith("step  operator")
        assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, GraphRetrieverError)


@pytest.mark.parametrize("make", BACKENDS)
def test_an_answer_in_time_is_the_answer_without_a_limit(corpus, clock, make):
    limited_, free = (make(corpus, Slow(clock), ROUNDS, **more) for more in ({"time_limit": 60}, {}))
    assert limited_.retrieve(QUESTION, vector=ONE) == free.retrieve(QUESTION, vector=ONE)
    # A step that has begun is not cut short: one that brings the answer gives it.
    last = make(corpus, Slow(clock, 10.0), Pipeline(BM25Search(5), Rerank()), time_limit=3.5, backfill=False)
    assert len(last.retrieve(QUESTION, vector=ONE)) == 5
    assert LIMITS.get() == ()


def test_a_limit_is_for_the_whole_call_and_begins_anew_with_the_next(corpus, clock):
    retriever = in_memory(corpus, Slow(clock), ROUNDS, time_limit=12.5, batch_size=1)
    assert len(retriever.retrieve(QUESTION, vector=ONE)) == len(retriever.retrieve(QUESTION, vector=ONE)) == 10
    with pytest.raises(TimeLimitError, match=r"GAR has no answer after 13 seconds"):
        retriever.retrieve_batch([QUESTION] * 2, vectors=[ONE] * 2)
    # A batch that begins too late makes no step.
    late = in_memory(corpus, Slow(clock, 30.0), Pipeline(BM25Search(5), Rerank()), time_limit=9, batch_size=1)
    with pytest.raises(TimeLimitError, match="no step of this batch was made"):
        late.retrieve_batch([QUESTION, "word4"], 5)


def test_a_limit_holds_for_searches_within_a_search_and_says_whose_it_is(clock):
    class Inner(Request):
        @classmethod
        def together(cls, backend, asked):
            with limited(TimeLimit(50, "inner")):
                return [run(None, [steps(7)])[0] for _ in asked]

    class Second(Request):
        @classmethod
        def together(cls, backend, asked):
            clock.now += 1
            return [None] * len(asked)

    def steps(count):
        for _ in range(count):
            yield Second()
        return count

    def outer():
        return (yield Inner())

    with limited(TimeLimit(20, "outer")):
        assert run(None, [outer()]) == [7]
        clock.now += 10
        with pytest.raises(TimeLimitError, match="outer has no answer after 20 seconds"):
            run(None, [outer()])
    assert run(None, [outer()]) == [7]


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "2"])
def test_a_time_limit_is_a_number_of_seconds(corpus, value):
    with pytest.raises(InvalidArgumentError, match="time_limit"):
        Retriever(index_of(corpus), GAR(), time_limit=value)


def test_retrievers_that_hold_others_and_both_frameworks_take_a_limit(corpus, clock, tmp_path):
    index = index_of(corpus, Slow(clock))
    store = IndexStore(tmp_path / "index", embedding=HashEmbedding(6))
    store.replace(GraphIndex.from_nodes(corpus[0], corpus[1], embedding=HashEmbedding(6), relevance=Slow(clock)))
    embedded = index.with_models(embedding=HashEmbedding(6))
    scoped = [lambda: Retriever(index, ROUNDS, time_limit=3.5).retrieve(QUESTION, vector=ONE, scope={"$type": "film"})]
    scoped.append(
        lambda: on_stores(corpus, Slow(clock), ROUNDS, time_limit=3.5).retrieve(QUESTION, vector=ONE, scope={"$type": "film"})
    )
    for ask in (
        *scoped,
        lambda: GraphRetriever(index=embedded, system=ROUNDS, time_limit=3.5).invoke(QUESTION),
        lambda: GraphRetriever(index=embedded, system=ROUNDS).bind().bound.model_copy(update={"time_limit": 3.5}).invoke(QUESTION),
        lambda: asyncio.run(GraphRetriever(retriever=Retriever(embedded, ROUNDS, time_limit=3.5)).ainvoke(QUESTION)),
        lambda: LlamaGraphRetriever(embedded, ROUNDS, time_limit=3.5).retrieve(QUESTION),
        lambda: asyncio.run(LlamaGraphRetriever(Retriever(embedded, ROUNDS, time_limit=3.5)).aretrieve(QUESTION)),
    ):
        with pytest.raises(TimeLimitError, match="no answer after 4 seconds"):
            ask()
    assert StoreRetriever(store, "gar", time_limit=3.5)._current().time_limit == 3.5
    assert copy.deepcopy(Retriever(index, ROUNDS, time_limit=3.5)).time_limit == 3.5


# -- callers who have gone --------------------------------------------------------------------------------------------


def asks(make, corpus, model):
    """Every way to await an answer."""
    retriever = make(corpus, model, ROUNDS)
    if make is in_memory:
        embedded = retriever.over(retriever.index.with_models(embedding=HashEmbedding(6)))
    else:
        retriever.index.embedding = HashEmbedding(6)
        embedded = retriever
    return {
        "engine": lambda: retriever.aretrieve(QUESTION, vector=ONE),
        "engine, batch": lambda: retriever.aretrieve_batch([QUESTION] * 2, vectors=[ONE] * 2),
        "LangChain": lambda: GraphRetriever(retriever=embedded).ainvoke(QUESTION),
        "LangChain, batch": lambda: GraphRetriever(retriever=embedded).abatch([QUESTION] * 2),
        "LlamaIndex": lambda: LlamaGraphRetriever(embedded).aretrieve(QUESTION),
        "LlamaIndex, batch": lambda: LlamaGraphRetriever(embedded).aretrieve_batch([QUESTION] * 2),
    }


@pytest.mark.parametrize("way", ["engine", "engine, batch", "LangChain", "LangChain, batch", "LlamaIndex", "LlamaIndex, batch"])
@pytest.mark.parametrize("make", BACKENDS)
@pytest.mark.parametrize("end", ["cancelled", "out of time"])
async def test_a_search_that_nobody_waits_for_ends_at_its_next_step(corpus, make, way, end):
    model = Slow(go=threading.Event())
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    task = asyncio.create_task(asks(make, corpus, model)[way]())
    await until(model.asked.is_set)
    if end == "cancelled":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 0.01)
    model.go.set()
    # Once the only thread is free, the search has ended: of its ten rounds, that which had begun was made.
    await asyncio.to_thread(int)
    assert model.calls == 1 and LIMITS.get() == ()


async def test_a_search_that_somebody_waits_for_goes_on(corpus):
    model = Slow()
    found = await asyncio.gather(*(ask() for ask in asks(in_memory, corpus, model).values()))
    assert model.calls == 6 * 10 and all(found)


async def until(met):
    """Wait, at most 30 seconds, until a function returns true."""
    async with asyncio.timeout(30):
        while not met():
            await asyncio.sleep(0.005)


async def test_a_task_that_is_cancelled_ends_every_search_in_its_thread_and_no_other():
    begun, go, seen = threading.Event(), threading.Event(), []

    def work(number):
        begun.set()
        go.wait(30)
        try:
            check_limits()
        except asyncio.CancelledError:
            seen.append((number, "ended"))
            raise
        seen.append((number, "went on"))
        return number

    first, second = (asyncio.create_task(in_thread(work, number)) for number in (1, 2))
    await until(begun.is_set)
    first.cancel()
    await asyncio.wait([first])
    go.set()
    assert await second == 2
    await until(lambda: len(seen) == 2)
    assert sorted(seen) == [(1, "ended"), (2, "went on")]


# -- shared batches ---------------------------------------------------------------------------------------------------


class Waits:
    """Answers that look at the limits when they are let go."""

    def __init__(self):
        self.batches, self.go = [], threading.Event()

    def __call__(self, call):
        self.batches.append(list(call.queries))
        self.go.wait(30)
        check_limits()
        return [Hits((), (query,)) for query in call.queries]


def call(*queries):
    return Call(list(queries), 1, None, {}, {})


class Over:
    """A limit that is over when it is told."""

    def __init__(self, name="x", over=False):
        self.name, self.now = name, over

    def over(self):
        return self.now

    def error(self, trace):
        return TimeLimitError(self.name)


def asked(shared, answers, callers):
    """Ask for each name under its limit, in order, while the first is answered; return results and the pool's futures."""
    pool, futures = ThreadPoolExecutor(len(callers)), []

    def ask(name, limit):
        with limited(limit):
            return shared(call(name), answers)[0].notes[0]

    for count, (name, limit) in enumerate(callers, 1):
        futures.append(pool.submit(ask, name, limit))
        end = time.monotonic() + 30
        while len(shared._waiting_calls) < count or not answers.batches:
            assert time.monotonic() < end
            time.sleep(0.001)
    return futures


def test_a_batch_goes_on_while_anybody_waits_for_it():
    shared, answers, gone = SharedCalls(8), Waits(), Over("gone")
    first, *others = asked(shared, answers, [("a", Over()), ("b", gone), ("c", Over()), ("d", Over())])
    gone.now = True
    answers.go.set()
    assert first.result(30) == "a"
    with pytest.raises(TimeLimitError, match="gone"):
        others[0].result(30)
    assert [each.result(30) for each in others[1:]] == ["c", "d"]
    # A call that is over when a batch begins has no part in it.
    assert answers.batches in ([["a"], ["c", "d"]], [["a"], ["c"], ["d"]], [["a"], ["d"], ["c"]])


def waiting(shared, name, answers, *held):
    """Let a call wait that no thread leads."""
    shared._waiting_calls.append(_WaitingCall(call(name), answers, "other" if held else None, held))
    return shared._waiting_calls[-1]


def test_a_call_that_is_over_when_a_batch_begins_has_no_part_in_it():
    shared, answers = SharedCalls(8), Waits()
    answers.go.set()
    waiting(shared, "b", answers).limits = (Over(over=True),)
    assert shared(call("c"), answers)[0].notes == ("c",) and answers.batches == [["c"]]


def test_a_caller_who_goes_while_another_leads_its_batch_ends_it_alone():
    shared, answers, limit = SharedCalls(8), Waits(), Over()
    answers.go.set()

    def gone(asked_call):
        raise asyncio.CancelledError

    left = waiting(shared, "b", gone, limit)
    assert shared(call("c"), answers)[0].notes == ("c",), "the other call is not cancelled"
    assert isinstance(left.error, asyncio.CancelledError)


def test_the_seconds_that_are_left_are_not_below_zero():
    assert seconds_left() is None
    with limited(TimeLimit(0.0, "a"), TimeLimit(60.0, "b"), Over()):
        assert seconds_left() == 0


def test_the_message_adds_up_what_was_asked_and_tells_what_took_longest():
    took = [("A", Nearest, 0.5), ("B", Neighbors, 2.0), ("A", Nearest, 0.75), ("C", Degree, 0.25), ("D", Nearest, 0.125)]
    trace = [Asked(step, kind, (name,), 1, 1, seconds) for step, (name, kind, seconds) in enumerate(took, 1)]
    told = r"step 5 was reached \(Neighbors for B 2 s; Nearest for A 1.25 s in 2 calls; Degree for C 0.25 s\)"
    with pytest.raises(TimeLimitError, match=told):
        raise TimeLimit(1.0, "GAR").error(trace)


def test_calls_of_a_batch_are_over_together():
    yes, no = Over("yes", over=True), Over("no")
    told = [AllOver(calls).over() for calls in ([[no], [yes]], [[yes], [no]], [[yes], []], [[no, yes], [yes]], [[yes]], [[]])]
    assert told == [False, False, False, True, True, False]
    assert str(AllOver([[no, yes], [Over("late", over=True)]]).error(())) == "yes"


def test_the_limit_of_the_call_that_leads_a_batch_is_not_that_of_the_others():
    shared, mine = SharedCalls(8), Over("mine")

    def answers(asked_call):
        mine.now = True
        if (limit := limit_over()) is not None:
            raise limit.error(())
        return [Hits((), (query,)) for query in asked_call.queries]

    other = waiting(shared, "b", answers)
    with limited(mine):
        assert shared(call("a"), answers)[0].notes == ("a",), "a batch that another call waits for has its answer"
    assert other.error is None and other.hits[0].notes == ("b",)


def test_a_batch_that_nobody_waits_for_any_more_ends_and_the_next_is_answered():
    shared, answers, limits_ = SharedCalls(8), Waits(), [Over("a"), Over("b")]
    answers.go.set()
    assert shared(call("z"), answers)[0].notes == ("z",)
    answers.go.clear()
    (first,) = asked(shared, answers, [("a", limits_[0])])
    limits_[0].now = True
    answers.go.set()
    with pytest.raises(TimeLimitError, match="a"):
        first.result(30)
    assert shared(call("y"), answers)[0].notes == ("y",) and not shared._busy and shared._waiting_calls == []


def test_a_caller_whose_batch_is_led_by_another_gives_up_in_time():
    shared, answers = SharedCalls(8), Waits()
    first, second = asked(shared, answers, [("a", Over()), ("b", TimeLimit(0.2, "b"))])
    with pytest.raises(TimeLimitError, match="b has no answer after"):
        second.result(30)
    assert [each.call.queries for each in shared._waiting_calls] == [["a"]]
    answers.go.set()
    assert first.result(30) == "a" and answers.batches == [["a"]]


def test_a_call_of_a_batch_that_fails_and_is_over_ends_alone():
    shared, answers, gone = SharedCalls(8), Waits(), Over("b")

    def failing(asked_call):
        answers.batches.append(list(asked_call.queries))
        answers.go.wait(30)
        check_limits()
        if len(asked_call.queries) > 1:
            gone.now = True
            raise ValueError("together")
        return [Hits((), (query,)) for query in asked_call.queries]

    failing.batches = answers.batches
    first, *others = asked(shared, failing, [("a", Over()), ("b", gone), ("c", Over())])
    answers.go.set()
    assert first.result(30) == "a" and others[1].result(30) == "c"
    with pytest.raises(TimeLimitError, match="b"):
        others[0].result(30)


async def test_a_retriever_that_shares_batches_stops_too(corpus):
    model = Slow(go=threading.Event())
    retriever = in_memory(corpus, model, FastInsight(budget=40, nodes_per_round=4), share_batches=True)
    task = asyncio.create_task(retriever.aretrieve(QUESTION, vector=ONE))
    await until(model.asked.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # Not before: until the task has run, its search does not know that it ended.
    model.go.set()
    await until(lambda: not retriever._shared_calls._busy)
    assert model.calls == 1
    assert len(await retriever.aretrieve(QUESTION, vector=ONE)) == 10


def test_a_call_is_ended_when_its_caller_goes_and_not_after_it():
    ended, waits, told = [], threading.Event(), threading.Event()

    def call():
        with ended_by_caller(lambda: ended.append("before")):
            pass
        with ended_by_caller(lambda: (ended.append("while"), told.set())):
            waits.set()
            assert told.wait(10)
        try:
            with ended_by_caller(lambda: ended.append("after")):
                ended.append("began")
        except asyncio.CancelledError:
            ended.append("refused")

    async def leave():
        task = asyncio.create_task(in_thread(call))
        await asyncio.to_thread(waits.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    assert ended == ["while", "refused"]


@pytest.mark.parametrize("of_call", [(), (TimeLimit(60, "GAR"),)], ids=["no limit", "a limit that is not over"])
def test_an_answer_with_a_time_out_of_its_own_is_not_over_its_limit(of_call):
    async def answer():
        raise TimeoutError("of the model")

    with limited(*of_call), pytest.raises(TimeoutError, match="of the model"):
        asyncio.run(within_limits(answer()))
