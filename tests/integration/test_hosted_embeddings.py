"""Embedding models that answer elsewhere: awaited where the caller is asynchronous, otherwise called in threads."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.embeddings import Embeddings
from llama_index.core import Settings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import EntityNode, Relation
from llama_index.core.schema import TextNode

from graph_retrievers import GraphIndex, IndexStore, Node, Retriever
from graph_retrievers.errors import TimeLimitError
from graph_retrievers.retrievers.store_retriever import StoreRetriever
from graph_retrievers.signals import retries
from langchain_graph_retrievers import GraphRetriever, GraphVectorStore
from llama_graph_retrievers import GraphRetriever as LlamaRetriever
from llama_graph_retrievers import SpreadingActivationPGRetriever
from tests.helpers import HashEmbedding
from tests.integration.langchain_models import RetrieverEvents
from tests.retrievers import on

TEXTS = [f"text {n} of loom {n % 5} and card {n % 7}" for n in range(20)]
EDGES = [(str(n), str((3 * n + 1) % 20)) for n in range(20)]
QUESTIONS = [f"loom {n} of card {n}" for n in range(60)]
BAD = "the endpoint refuses this"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(retries, "_FIRST", 0.0)


class Endpoint:
    """Answers when `together` questions wait for it; keeps the questions, and the most that waited at the same time."""

    def __init__(self, together=1):
        self.together, self.sync, self.awaited, self.most, self.cancelled = together, [], [], 0, 0
        self._inside, self._lock, self._full = 0, threading.Condition(), asyncio.Event()

    def _enter(self, asked, text):
        asked.append(text)
        self._inside += 1
        self.most = max(self.most, self._inside)
        return len(asked) % self.together == 0

    def ask(self, text):
        with self._lock:
            if text == BAD:
                raise ConnectionError("429")
            turn = len(self.sync) // self.together
            self._enter(self.sync, text)
            self._lock.notify_all()
            come = self._lock.wait_for(lambda: len(self.sync) >= (turn + 1) * self.together, 5)
            self._inside -= 1
        assert come, f"{self.together} questions were to be asked at the same time"
        return HashEmbedding().embed_query(text)

    async def aask(self, text):
        if text == BAD:
            raise ConnectionError("429")
        if self._enter(self.awaited, text):
            self._full.set()
            self._full = asyncio.Event()
        else:
            try:
                await asyncio.wait_for(self._full.wait(), 5)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        # The others come in before this one leaves.
        await asyncio.sleep(0)
        self._inside -= 1
        return HashEmbedding().embed_query(text)


class Hosted(Embeddings):
    """A model of LangChain whose questions must not be embedded as documents."""

    def __init__(self, together=1):
        self.endpoint = Endpoint(together)

    def embed_documents(self, texts):
        assert not set(texts) & set(QUESTIONS), "questions are not documents"
        return HashEmbedding().embed_documents(texts)

    def embed_query(self, text):
        return self.endpoint.ask(text)

    async def aembed_query(self, text):
        return await self.endpoint.aask(text)


class AsyncOnly(Hosted):
    def embed_query(self, text):
        raise NotImplementedError


class LlamaHosted(BaseEmbedding):
    endpoint: object = None

    def _get_text_embedding(self, text):
        assert text not in QUESTIONS, "questions are not documents"
        return HashEmbedding().embed_query(text)

    def _get_query_embedding(self, query):
        return self.endpoint.ask(query)

    async def _aget_query_embedding(self, query):
        return await self.endpoint.aask(query)


def index_of(embedding):
    return GraphIndex.from_texts(TEXTS, embedding=embedding, edges=EDGES)


def asked(system, embedding, **options):
    return GraphRetriever(retriever=on(index_of(embedding), system, **options))


def llama(together, **options):
    model = LlamaHosted(endpoint=Endpoint(together))
    nodes = [TextNode(text=text, id_=str(n)) for n, text in enumerate(TEXTS)]
    return LlamaRetriever.from_defaults(nodes=nodes, embed_model=model, edges=EDGES, **options), model.endpoint


def ids(documents):
    return [document.id for document in documents]


def node_ids(hits):
    return [hit.node.node_id for hit in hits]


async def all_of(ask, questions):
    return await asyncio.gather(*map(ask, questions))


ALONE = {system: Retriever(index_of(HashEmbedding()), system) for system in ("vector", "walk-fusion", "fastinsight")}


def alone(system, questions):
    return [[hit.id for hit in ALONE[system].retrieve(question)] for question in questions]


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("system", ALONE)
async def test_concurrent_calls_of_langchain_await_the_model_together(system, share):
    model = Hosted(60)
    found = await all_of(asked(system, model, share_batches=share).ainvoke, QUESTIONS)
    assert (len(model.endpoint.awaited), model.endpoint.sync) == (60, [])
    assert [ids(documents) for documents in found] == alone(system, QUESTIONS)


@pytest.mark.parametrize("share", [False, True])
async def test_concurrent_calls_of_llama_index_await_the_model_together(share):
    retriever, endpoint = llama(60, system="vector", share_batches=share)
    found = await all_of(retriever.aretrieve, QUESTIONS)
    assert (len(endpoint.awaited), endpoint.sync) == (60, [])
    assert [node_ids(hits) for hits in found] == alone("vector", QUESTIONS)


@pytest.mark.parametrize("share", [False, True])
async def test_a_batch_of_langchain_embeds_its_questions_together(share):
    model = Hosted(30)
    retriever = asked("walk-fusion", model, share_batches=share)
    assert [ids(documents) for documents in retriever.batch(QUESTIONS[:30])] == alone("walk-fusion", QUESTIONS[:30])
    assert [ids(documents) for documents in await retriever.abatch(QUESTIONS[:30])] == alone("walk-fusion", QUESTIONS[:30])
    assert len(model.endpoint.sync) == len(model.endpoint.awaited) == 30


@pytest.mark.parametrize("share", [False, True])
async def test_a_batch_of_llama_index_embeds_32_questions_at_a_time(share):
    retriever, endpoint = llama(32, system="vector", share_batches=share)
    questions = [f"loom {n}" for n in range(64)]
    expected = alone("vector", questions)
    assert [node_ids(hits) for hits in retriever.retrieve_batch(questions)] == expected
    assert len(endpoint.sync) == 64 and endpoint.most == 32
    assert [node_ids(hits) for hits in await retriever.aretrieve_batch(questions)] == expected
    assert len(endpoint.awaited) == 64 and endpoint.most == 32


async def test_a_batch_asks_no_more_at_a_time_than_its_configuration_allows():
    model = Hosted(3)
    retriever = asked("vector", model)
    for config in ({"max_concurrency": 3}, [{"max_concurrency": 3}, *[{"max_concurrency": 9}] * 29]):
        retriever.batch(QUESTIONS[:30], config)
        await retriever.abatch(QUESTIONS[:30], config)
    assert len(model.endpoint.sync) == len(model.endpoint.awaited) == 60 and model.endpoint.most == 3
    one = Hosted()
    asked("vector", one).batch(QUESTIONS[:30], {"max_concurrency": 1})
    assert one.endpoint.sync == QUESTIONS[:30] and one.endpoint.most == 1


async def test_equal_questions_of_a_batch_are_embedded_once():
    model = Hosted()
    retriever, questions = asked("vector", model), [QUESTIONS[n] for n in (0, 1, 0, 0)]
    assert [ids(documents) for documents in retriever.batch(questions)] == alone("vector", questions)
    assert [ids(documents) for documents in await retriever.abatch(questions)] == alone("vector", questions)
    assert sorted(model.endpoint.sync) == sorted(model.endpoint.awaited) == QUESTIONS[:2]


def test_threads_that_share_batches_do_not_wait_for_each_others_questions():
    model = Hosted(20)
    retriever = Retriever(index_of(model), "vector", share_batches=True)
    with ThreadPoolExecutor(20) as pool:
        found = [[hit.id for hit in hits] for hits in pool.map(retriever.retrieve, QUESTIONS[:20])]
    assert len(model.endpoint.sync) == 20 and found == alone("vector", QUESTIONS[:20])


def test_a_batch_with_a_scope_for_each_question_embeds_them_together():
    model = Hosted(5)
    scopes = [{"$id": {"$nin": [str(n)]}} for n in range(5)]
    found = Retriever(index_of(model), "vector").retrieve_batch(QUESTIONS[:5], scope=scopes)
    assert len(found) == len(model.endpoint.sync) == 5


async def test_a_model_that_can_only_be_awaited():
    model = AsyncOnly()
    retriever = asked("walk-fusion", model)
    expected = alone("walk-fusion", QUESTIONS[:4])
    assert [ids(documents) for documents in await all_of(retriever.ainvoke, QUESTIONS[:4])] == expected
    assert [ids(documents) for documents in await retriever.abatch(QUESTIONS[:4])] == expected
    assert [ids(documents) for documents in await all_of(LlamaIds(retriever.retriever), QUESTIONS[:4])] == expected
    assert [ids(documents) for documents in retriever.batch(QUESTIONS[:4])] == expected, "also from code that cannot await"


class LlamaIds:
    """What LlamaIndex finds with a retriever of the engine, with ids as LangChain names them."""

    def __init__(self, engine):
        self.retriever = LlamaRetriever(engine)

    async def __call__(self, question):
        return [hit.node.model_copy(update={"id": hit.node.node_id}) for hit in await self.retriever.aretrieve(question)]


async def test_a_question_that_the_model_refuses_fails_alone():
    questions = [QUESTIONS[0], BAD, QUESTIONS[1]]
    for asynchronous in (False, True):
        retriever, events = asked("vector", model := Hosted()), RetrieverEvents()
        config = {"callbacks": [events]}
        found = (
            await retriever.abatch(questions, config, return_exceptions=True)
            if asynchronous
            else retriever.batch(questions, config, return_exceptions=True)
        )
        assert [ids(found[0]), ids(found[2])] == alone("vector", QUESTIONS[:2])
        assert isinstance(found[1], ConnectionError) and str(found[1]) == "429"
        assert [str(error) for error in events.failed.values()] == ["429"] and len(events.ended) == 2
        assert sorted(model.endpoint.awaited + model.endpoint.sync) == QUESTIONS[:2], "a question that was answered was sent again"
        with pytest.raises(ConnectionError, match="429"):
            await retriever.abatch(questions) if asynchronous else retriever.batch(questions)
        with pytest.raises(ConnectionError, match="429"):
            await retriever.ainvoke(BAD) if asynchronous else retriever.invoke(BAD)


async def test_cancellation_reaches_the_model():
    model = Hosted(together=100)
    retriever = asked("vector", model)
    for call in (retriever.ainvoke(QUESTIONS[0]), retriever.abatch(QUESTIONS[:3])):
        task = asyncio.ensure_future(call)
        while not model.endpoint._inside:
            await asyncio.sleep(0.001)
        waiting = model.endpoint._inside
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.endpoint.cancelled == waiting
        model.endpoint._inside = model.endpoint.cancelled = 0


async def test_a_time_limit_ends_the_wait_for_the_model(tmp_path):
    model = Hosted(together=100)
    told = "no answer after .* time_limit is 0.01: no step of this batch was made"
    with pytest.raises(TimeLimitError, match=told):
        await GraphRetriever(index=index_of(model), system="vector", time_limit=0.01).ainvoke(QUESTIONS[0])
    with pytest.raises(TimeLimitError, match=told):
        await llama(100, system="vector", time_limit=0.01)[0].aretrieve(QUESTIONS[0])
    store = IndexStore(tmp_path, embedding=model)
    store.update(upsert=[Node("loom", "A loom.")])
    with pytest.raises(TimeLimitError, match=told):
        await StoreRetriever(store, "vector", time_limit=0.01).aretrieve(QUESTIONS[0])


async def test_a_time_out_of_the_model_is_its_own_error():
    class Late(Hosted):
        async def aembed_query(self, text):
            raise TimeoutError("the endpoint is slow")

    with pytest.raises(TimeoutError, match="the endpoint is slow"):
        await GraphRetriever(index=index_of(Late()), system="vector", time_limit=60).ainvoke(QUESTIONS[0])


async def test_a_search_of_words_asks_no_model():
    model = Hosted()
    retriever = GraphRetriever(index=index_of(model), system="bm25", backfill=False)
    await retriever.ainvoke("loom")
    await retriever.abatch(["loom", "card"])
    Retriever(index_of(model), "bm25", backfill=False, share_batches=True).retrieve("loom")
    assert model.endpoint.awaited == model.endpoint.sync == []


async def test_the_retrievers_of_a_vector_store_await_the_model(tmp_path):
    model = Hosted(20)
    store = GraphVectorStore.from_texts(TEXTS, model, ids=[str(n) for n in range(20)], folder=tmp_path)
    for retriever in (
        GraphRetriever(retriever=StoreRetriever(store.store, "vector"), k=4),
        store.as_retriever(),
        store.as_retriever(search_type="mmr"),
        store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.1}),
    ):
        model.endpoint.awaited.clear()
        found = await all_of(retriever.ainvoke, QUESTIONS[:20])
        assert len(model.endpoint.awaited) == 20 and model.endpoint.sync == []
        model.endpoint.together = 1
        assert list(map(ids, found)) == [ids(retriever.invoke(question)) for question in QUESTIONS[:20]]
        model.endpoint.together = 20
        model.endpoint.sync.clear()


async def test_a_retriever_of_a_property_graph_awaits_the_model(monkeypatch):
    model = LlamaHosted(endpoint=Endpoint(20))
    monkeypatch.setattr(Settings, "_embed_model", model)
    store = SimplePropertyGraphStore()
    store.upsert_nodes([EntityNode(name="loom", label="thing"), EntityNode(name="card", label="thing")])
    store.upsert_relations([Relation(label="reads", source_id="loom", target_id="card")])
    found = await all_of(SpreadingActivationPGRetriever(store).aretrieve, QUESTIONS[:20])
    assert len(model.endpoint.awaited) == 20 and model.endpoint.sync == []
    assert {hit.text for hits in found for hit in hits} == {"loom -> reads -> card"}


def test_a_language_model_before_the_search_is_asked_as_often_at_a_time_as_the_configuration_allows():
    prompts, model = Endpoint(6), Hosted(6)

    def write(prompt):
        prompts.ask(prompt)
        return '{"passages": ["A loom."]}'

    retriever = asked("hyde", model, language_model=write)
    assert len(retriever.batch(QUESTIONS[:12], {"max_concurrency": 6})) == 12
    assert len(prompts.sync) == len(model.endpoint.sync) == 12 and prompts.most == model.endpoint.most == 6


async def test_a_model_that_takes_lists_embeds_a_batch_in_one_call():
    lists = []

    def embed(texts):
        lists.append(list(texts))
        return HashEmbedding().embed_documents(texts)

    index = index_of(embed)
    lists.clear()
    retriever = GraphRetriever(retriever=Retriever(index, "vector"))
    retriever.batch(QUESTIONS[:3])
    await retriever.abatch([*QUESTIONS[:3], QUESTIONS[0]])
    assert lists == [QUESTIONS[:3]] * 2
