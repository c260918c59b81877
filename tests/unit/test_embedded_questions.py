"""Requests with questions: repeated, counted and limited as those with documents."""

import asyncio
import logging
import threading
from collections import Counter

import pytest
import torch

from graph_retrievers import GraphIndex, HostedEmbedding, Retriever
from graph_retrievers.concurrency import at_most, finished
from graph_retrievers.errors import EmbeddingError
from graph_retrievers.signals import retries
from graph_retrievers.signals.embedding import aembed_queries, each_query_once, embed_queries, embed_texts
from graph_retrievers.signals.embedding_models import as_embedding

QUESTIONS = [f"question {number}" for number in range(12)]


class RateLimitError(Exception):
    status_code = 429


class Service:
    """Refuses the first `refused` requests; counts how often each question came, and the most requests at the same time."""

    name = "service"

    def __init__(self, refused=0, error=RateLimitError):
        self.refused, self.error, self.asked, self.most = refused, error, Counter(), 0
        self._inside, self._lock = 0, threading.Lock()

    def answer(self, texts):
        with self._lock:
            self.asked.update(texts)
            self._inside += 1
            self.most = max(self.most, self._inside)
            refuse, self.refused = self.refused > 0, self.refused - 1
        threading.Event().wait(0.005)
        with self._lock:
            self._inside -= 1
        if refuse:
            raise self.error("refused")
        return [[float(len(text)), 1.0] for text in texts]


class Single(Service):
    def embed_documents(self, texts):
        return [[1.0, 0.0]] * len(texts)

    def embed_query(self, text):
        return self.answer([text])[0]


class Awaited(Single):
    async def aembed_query(self, text):
        return self.embed_query(text)


class Lists(Single):
    def embed_queries(self, texts):
        return self.answer(texts)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(retries, "_FIRST", 0.0)


@pytest.mark.parametrize("ask", [embed_queries, lambda model, texts: asyncio.run(aembed_queries(model, texts))])
@pytest.mark.parametrize("wrap", [as_embedding, HostedEmbedding])
@pytest.mark.parametrize("kind", [Single, Awaited, Lists])
def test_a_question_is_sent_again_as_often_as_documents_are_and_the_log_tells_it(kind, wrap, ask, caplog):
    service = kind(refused=2)
    assert ask(wrap(service), ["a question"]).tolist() == [[10.0, 1.0]]
    assert service.asked == {"a question": 3}
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 1 and told[0].startswith(
        "The embedding model 'service' failed (RateLimitError: refused); the request is sent"
    )
    with pytest.raises(RateLimitError):
        ask(HostedEmbedding(service := kind(refused=99), max_retries=1), ["a question"])
    assert service.asked == {"a question": 2}


@pytest.mark.parametrize(("kind", "options"), [(Single, {}), (Awaited, {}), (Lists, {"batch_size": 1})])
def test_no_more_requests_run_than_model_and_caller_allow(kind, options):
    for most, caller, expected in ((3, None, 3), (4, 2, 2), (2, 4, 2)):
        model = HostedEmbedding(kind(), max_concurrency=most, **options)
        with at_most(caller):
            embed_queries(model, QUESTIONS)
        assert model.model.most == expected


async def test_no_more_requests_are_awaited_than_model_and_caller_allow():
    class Counting(Awaited):
        async def aembed_query(self, text):
            self._inside += 1
            self.most = max(self.most, self._inside)
            await asyncio.sleep(0)
            self._inside -= 1
            return [1.0]

    for most, caller, expected in ((3, None, 3), (4, 2, 2), (2, 4, 2)):
        model = HostedEmbedding(Counting(), max_concurrency=most)
        with at_most(caller):
            await aembed_queries(model, QUESTIONS)
        assert model.model.most == expected


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_question_that_was_answered_or_refused_for_good_is_not_sent_again(asynchronous):
    class Strict(Awaited):
        def embed_query(self, text):
            self.asked[text] += 1
            if text == QUESTIONS[3]:
                raise PermissionError("not this one")
            return [1.0, float(len(text))]

        async def aembed_query(self, text):
            await asyncio.sleep(0 if text == QUESTIONS[3] else 0.01)
            return self.embed_query(text)

    def ask(texts):
        return asyncio.run(aembed_queries(model, texts)) if asynchronous else embed_queries(model, texts)

    model = Strict()
    with each_query_once():
        for texts in (QUESTIONS, [QUESTIONS[3]]):
            with pytest.raises(PermissionError, match="not this one"):
                ask(texts)
        assert [len(ask([text])) for text in QUESTIONS if text != QUESTIONS[3]] == [1] * 11
    assert model.asked == dict.fromkeys(QUESTIONS, 1)


def test_a_question_whose_request_may_succeed_later_is_sent_again():
    model = HostedEmbedding(service := Single(refused=1), max_retries=0)
    with each_query_once():
        with pytest.raises(RateLimitError):
            embed_queries(model, ["loom"])
        assert embed_queries(model, ["loom"]).tolist() == [[4.0, 1.0]]
    assert service.asked == {"loom": 2}


def test_nobody_waits_for_a_pause_that_ends_after_the_time_limit(monkeypatch):
    monkeypatch.setattr(retries, "_FIRST", 60.0)
    service = Single(refused=99)
    index = GraphIndex.from_texts(["a loom", "a card"], embedding=service)
    with pytest.raises(RateLimitError):
        Retriever(index, "vector", time_limit=30).retrieve("loom")
    assert service.asked == {"loom": 1}


class Client:
    """A client that keeps a connection, which belongs to the loop that opened it."""

    name = "client"

    def __init__(self):
        self.loop = None

    async def post(self, texts):
        loop = asyncio.get_running_loop()
        self.loop = self.loop or loop
        if self.loop is not loop or self.loop.is_closed():
            raise RuntimeError("Event loop is closed")
        await asyncio.sleep(0)
        return [[float(len(text)), 1.0] for text in texts]

    def embed_documents(self, texts):
        raise NotImplementedError

    embed_query = embed_documents

    async def aembed_documents(self, texts):
        return await self.post(texts)

    async def aembed_query(self, text):
        return (await self.post([text]))[0]


async def test_all_requests_of_code_that_cannot_await_share_the_loop_of_a_client():
    model = Client()
    # A loop runs in this thread as well.
    assert embed_texts(model, QUESTIONS).shape == embed_queries(model, QUESTIONS).shape == (12, 2)
    assert torch.equal(embed_queries(model, ["loom"]), torch.tensor([[4.0, 1.0]]))


def test_a_coroutine_of_the_shared_loop_may_call_code_that_waits_for_another():
    async def inner():
        return 42

    async def outer():
        return finished(inner())

    assert finished(outer()) == 42


@pytest.mark.parametrize("kind", [Single, Client])
def test_a_model_that_cancels_its_own_request_fails_like_others(kind):
    class Cancelling(kind):
        def embed_query(self, text):
            if kind is Client:
                raise NotImplementedError
            raise asyncio.CancelledError

        async def aembed_query(self, text):
            raise asyncio.CancelledError

    told = "The embedding model '(service|client)' cancelled its own request"
    with pytest.raises(EmbeddingError, match=told):
        embed_queries(Cancelling(), ["loom"])
    with pytest.raises(EmbeddingError, match=told):
        asyncio.run(aembed_queries(Cancelling(), ["loom"]))
