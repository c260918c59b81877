"""Hosted embedding models: how they are told from local ones, their requests, and what is kept when a build fails."""

import asyncio
import copy
import functools
import logging
import stat
import threading
import time

import pytest
import torch
from langchain_core.embeddings import DeterministicFakeEmbedding

from graph_retrievers import GraphIndex, HostedEmbedding, IndexStore, Node
from graph_retrievers.errors import DimensionMismatchError, EmbeddingError, InvalidArgumentError
from graph_retrievers.signals import embedding_requests, retries
from graph_retrievers.signals.embedding import embed_texts, hosted, requests_for
from graph_retrievers.signals.embedding_models import CachedEmbedding
from graph_retrievers.signals.vector_cache import PROBES, embed_corpus
from tests.helpers import HashEmbedding

TEXTS = [f"text {number}" for number in range(100)]


class RateLimitError(Exception):
    status_code = 429


class Service:
    """A model behind a network; it fails for good once it has embedded `stop` texts, and counts texts and requests."""

    def __init__(self, stop=10**9, name="service", factor=1.0):
        self.base_url, self.name, self.stop, self.factor = "http://127.0.0.1", name, stop, factor
        self.asked, self.sizes, self._lock = [], [], threading.Lock()

    def embed_documents(self, texts):
        own = [text for text in texts if text not in PROBES]
        with self._lock:
            if len(self.asked) + len(own) > self.stop:
                raise RateLimitError("too many requests")
            self.asked += own
            self.sizes += [len(texts)] if own else []
        return [[self.factor * len(text), float(sum(text.encode()) % 97), 1.0] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The user's cache folder; and no pauses."""
    monkeypatch.setattr(retries, "_FIRST", 0.0)
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def plain(texts):
    return torch.tensor(Service().embed_documents(texts))


def with_attributes(**attributes):
    model = HashEmbedding()
    vars(model).update(attributes)
    return model


class Asynchronous(HashEmbedding):
    async def aembed_documents(self, texts):
        return self.embed_documents(texts)


HOSTED = [
    Service(),
    Asynchronous(),
    with_attributes(openai_api_key="key"),
    with_attributes(mistral_api_base="api.example.org"),
    with_attributes(endpoint="https://api.example.org"),
    with_attributes(where="http://127.0.0.1:8000/embed"),
    with_attributes(underlying_embeddings=Asynchronous()),
    HostedEmbedding(HashEmbedding()),
]
LOCAL = [
    HashEmbedding(),
    lambda texts: texts,
    with_attributes(openai_api_key=None, model="text"),
    with_attributes(base_url="http://127.0.0.1", client=torch.nn.Linear(1, 1)),
    with_attributes(underlying_embeddings=HashEmbedding(), base_url="http://127.0.0.1"),
]


@pytest.mark.parametrize(("models", "wanted"), [(HOSTED, True), (LOCAL, False)])
def test_a_hosted_model_is_told_from_a_local_one(models, wanted):
    assert [hosted(model) for model in models] == [wanted] * len(models)
    assert [requests_for(model).max_concurrency > 1 for model in models] == [wanted] * len(models)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, (32, 8)),
        ({"chunk_size": 50}, (50, 8)),
        ({"batch_size": 7, "max_concurrent_requests": 3}, (7, 3)),
        ({"embed_batch_size": 10, "num_workers": 2}, (10, 2)),
        ({"batch_size": None, "chunk_size": 0, "num_workers": True}, (32, 8)),
    ],
)
def test_a_request_has_what_the_model_says_it_takes(given, wanted):
    model = Service()
    vars(model).update(given)
    assert requests_for(model)[:2] == wanted
    vectors = GraphIndex.from_texts(TEXTS, embedding=model, metric="dot").dense.vectors
    assert torch.equal(vectors, plain(TEXTS)) and max(model.sizes) == wanted[0] and sorted(model.asked) == sorted(TEXTS)


def test_settings_come_before_what_the_model_says(tmp_path):
    model = Service()
    model.chunk_size = 50
    slow = HostedEmbedding(model, batch_size=4, max_concurrency=2, max_retries=0, cache=tmp_path / "mine")
    assert requests_for(slow)[:3] == (4, 2, 0) and slow.name == "service"
    again = HostedEmbedding(slow, max_retries=3)
    assert requests_for(again)[:3] == (4, 2, 3) and again.cache == tmp_path / "mine" and again.model is model
    assert repr(again) == "HostedEmbedding('service', batch_size=4, max_concurrency=2, max_retries=3)"
    # A model of LangChain is copied by a method of its own.
    for inner in (HashEmbedding(), DeterministicFakeEmbedding(size=4)):
        assert requests_for(copy.deepcopy(HostedEmbedding(inner, batch_size=3))).batch_size == 3
    assert torch.equal(again.embed_documents(TEXTS), plain(TEXTS)) and max(model.sizes) == 4
    # Questions that a model takes as a list are sent like texts.
    model.embed_queries = model.embed_documents
    assert torch.equal(slow.embed_queries(TEXTS), plain(TEXTS)) and max(model.sizes) == 4
    # Its other methods are those of the model.
    assert slow.embed_query("a loom") == Service().embed_query("a loom")
    assert len(asyncio.run(HostedEmbedding(Asynchronous()).aembed_documents(["a"]))) == 1
    assert not hasattr(slow, "aembed_documents")
    for wrong in ({"batch_size": 0}, {"max_concurrency": 1.5}, {"max_retries": -1}, {"cache": 3}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            HostedEmbedding(model, **wrong)


def test_requests_run_together_and_vectors_keep_the_order_of_the_texts():
    together, ended = threading.Barrier(4, timeout=20), [threading.Event() for _ in range(4)]

    def embed(texts):
        together.wait()
        # The last of four requests ends first.
        place = int(texts[0]) // 5 % 4
        if place < 3:
            assert ended[place + 1].wait(20)
        ended[place].set()
        return [[float(text), 1.0] for text in texts]

    model = HostedEmbedding(embed, batch_size=5, max_concurrency=4)
    assert embed_texts(model, [str(number) for number in range(20)])[:, 0].tolist() == list(range(20))


def test_a_function_and_a_local_model_are_called_in_the_callers_thread():
    threads = set()

    def embed(texts):
        threads.add(threading.current_thread())
        return [[float(len(text))] for text in texts]

    embed_texts(embed_model := CachedEmbedding(embed), TEXTS)
    assert embed_model.embed_documents(["a", "bb", "a"]).tolist() == [[1.0], [2.0], [1.0]]
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize("update", [False, True])
def test_what_was_embedded_is_kept_when_a_build_fails(folder, update, caplog):
    caplog.set_level(logging.INFO, "graph_retrievers")

    def build(model):
        if not update:
            return GraphIndex.from_texts(TEXTS, embedding=model, metric="dot")
        index = GraphIndex.from_texts(["first"], embedding=model, metric="dot")
        return index.with_changes(add=[Node(f"n{number}", text) for number, text in enumerate(TEXTS)])

    first = Service(stop=70)
    with pytest.raises(EmbeddingError) as raised:
        build(first)
    (file,) = folder.iterdir()
    kept = len(set(first.asked) & set(TEXTS))
    assert 0 < kept < len(TEXTS)
    assert "The embedding model 'service' failed: RateLimitError: too many requests." in str(raised.value)
    assert f"{kept} of 100 texts are embedded and kept in {file}; the same call goes on there." in str(raised.value)
    assert isinstance(raised.value.__cause__, RateLimitError)
    assert f"Vectors are kept in {file} as they come; cache=False turns this off." in caplog.messages
    again = Service()
    index = build(again)
    assert torch.equal(index.dense.vectors[-len(TEXTS) :], plain(TEXTS))
    embedded = [text for text in [*first.asked, *again.asked] if text != "first"]
    assert sorted(embedded) == sorted(TEXTS), "a text was embedded twice"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(folder.stat().st_mode) == 0o700
    # Under the same name, another model finds nothing.
    other = Service(factor=2.0)
    build(other)
    assert set(TEXTS) <= set(other.asked)


def test_requests_that_run_when_another_fails_are_kept(folder):
    failed = threading.Event()

    class Paid(Service):
        def embed_documents(self, texts):
            if "text 0" in texts:
                failed.set()
                raise PermissionError("no such key")
            if texts[0] in TEXTS:
                assert failed.wait(20)
            return super().embed_documents(texts)

    with pytest.raises(EmbeddingError, match="PermissionError: no such key") as raised:
        GraphIndex.from_texts(TEXTS, embedding=HostedEmbedding(first := Paid(), batch_size=10, max_concurrency=5))
    assert len(first.asked) >= 30 and f"{len(first.asked)} of 100 texts are embedded" in str(raised.value)
    GraphIndex.from_texts(TEXTS, embedding=(again := Service()), metric="dot")
    assert sorted(first.asked + again.asked) == sorted(TEXTS)


@pytest.mark.parametrize("switch", ["index", "model"])
def test_the_cache_is_switched_off_for_later_changes_too(folder, tmp_path, switch):
    model = HostedEmbedding(Service(), cache=False) if switch == "model" else Service()
    options = {"cache": False} if switch == "index" else {}
    index = GraphIndex.from_texts(TEXTS, embedding=model, metric="dot", **options)
    index.with_changes(add=[Node(f"n{number}", f"new {number}") for number in range(40)])
    store = IndexStore(tmp_path / "store", embedding=model, metric="dot", **options)
    store.update(add=[Node(f"n{number}", text) for number, text in enumerate(TEXTS)])
    store.update(add=[Node(f"m{number}", f"new {number}") for number in range(40)])
    assert len(store) == 140 and not folder.exists()


def test_a_request_is_not_sent_again_when_another_failed_for_good():
    asked, most = [], 300

    def embed(texts):
        if texts == ["refused"]:
            while not asked:
                time.sleep(0.001)
            raise PermissionError("no such key")
        asked.append(texts)
        time.sleep(0.01)
        raise TimeoutError

    model = HostedEmbedding(embed, batch_size=1, max_concurrency=2, max_retries=most)
    with pytest.raises(PermissionError):
        model.embed_documents(["late", "refused"])
    assert len(asked) < most


def test_a_store_embeds_each_text_once(folder, tmp_path):
    store = IndexStore(tmp_path / "store", embedding=(model := Service()), metric="dot")
    nodes = [Node(f"n{number}", text) for number, text in enumerate([*TEXTS, *TEXTS[:50]])]
    store.update(add=nodes)
    assert sorted(model.asked) == sorted(TEXTS) and folder.exists()
    assert torch.equal(store.index.dense.vectors, plain([*TEXTS, *TEXTS[:50]]))


def test_how_many_texts_a_model_embeds_is_told_once(caplog):
    caplog.set_level(logging.INFO, "graph_retrievers")
    hosted_one = HostedEmbedding(Service(), cache=False)
    for model in (Service(), hosted_one, CachedEmbedding(hosted_one)):
        caplog.clear()
        embed_texts(model, ["loom", "card", "mill"])
        assert caplog.messages == ["Embedding 3 texts with service."]


@pytest.mark.parametrize("cache", [None, False, True])
def test_a_store_sends_requests_as_the_model_says(folder, tmp_path, cache):
    model = HostedEmbedding(service := Service(), batch_size=5)
    store = IndexStore(tmp_path / "store", embedding=model, metric="dot", cache=cache)
    store.update(add=[Node(f"n{number}", text) for number, text in enumerate(TEXTS)])
    store.update(add=[Node("new", "a new text")])
    assert max(service.sizes) == 5 and sorted(service.asked) == sorted([*TEXTS, "a new text"])


def test_one_request_is_not_kept_and_costs_no_other(folder):
    GraphIndex.from_texts(TEXTS[:32], embedding=(model := Service()), metric="dot")
    assert model.sizes == [32] and not folder.exists()


@pytest.mark.parametrize(
    ("embed", "reason"),
    [
        (lambda texts: [[float(len(text)), 1.0] for text in texts], "a function has no name"),
        (functools.partial(lambda texts: [[float(len(text)), 1.0] for text in texts]), "a partial has no name"),
    ],
)
def test_a_function_without_a_name_is_not_kept(folder, caplog, embed, reason):
    caplog.set_level(logging.INFO, "graph_retrievers")
    GraphIndex.from_texts(TEXTS, embedding=HostedEmbedding(embed), metric="dot")
    assert reason in caplog.text and not folder.exists()
    GraphIndex.from_texts(TEXTS, embedding=HostedEmbedding(embed, name="lengths"), metric="dot")
    assert len(list(folder.iterdir())) == 1


def test_a_model_that_cannot_be_told_from_others_is_not_kept(caplog):
    class Identity(Service):
        def embed_documents(self, texts):
            self.asked += texts
            return [[1.0, 0.0]] * len(texts)

    caplog.set_level(logging.INFO, "graph_retrievers")
    for _ in range(2):
        GraphIndex.from_texts(TEXTS, embedding=(model := Identity()), metric="dot")
        assert set(TEXTS) <= set(model.asked)
    assert "Vectors are not kept on disk, because service gives different texts the same vector." in caplog.messages


def test_a_folder_that_cannot_be_written_does_not_stop_a_build(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "file"))
    index = GraphIndex.from_texts(TEXTS, embedding=Service(), metric="dot")
    assert torch.equal(index.dense.vectors, plain(TEXTS))
    assert "What is embedded is lost if the build fails." in caplog.text
    with pytest.raises(InvalidArgumentError, match="cannot be kept"):
        GraphIndex.from_texts(TEXTS, embedding=Service(), metric="dot", cache=True)


def test_a_model_that_is_not_known_as_hosted_is_tried_again_and_the_error_says_what_helps(folder):
    asked = []

    def embed(texts):
        asked.append(texts)
        if len(asked) == 2:
            raise ConnectionResetError
        if len(asked) > 4:
            raise RateLimitError("too many requests")
        return [[float(len(text)), 1.0] for text in texts]

    told = r"RateLimitError: too many requests. No vector is kept. With embedding=HostedEmbedding\(model\)"
    with pytest.raises(EmbeddingError, match=told):
        GraphIndex.from_texts(TEXTS, embedding=embed, metric="dot")
    assert [len(texts) for texts in asked] == [32, 32, 32, 32, *[4] * 7] and not folder.exists()


def test_a_first_build_waits_for_one_round_of_requests(folder):
    together = threading.Barrier(3, timeout=20)

    class Parallel(Service):
        def embed_documents(self, texts):
            together.wait()
            return super().embed_documents(texts)

    # Two requests with texts, and the one by which the cache knows the model; each waits for the others.
    GraphIndex.from_texts(TEXTS[:64], embedding=HostedEmbedding(model := Parallel(), max_concurrency=3), metric="dot")
    assert sorted(model.asked) == sorted(TEXTS[:64])
    # What is kept is not embedded again beside the fixed texts.
    GraphIndex.from_texts(TEXTS[:64], embedding=(again := Service()), metric="dot")
    assert again.asked == []


class Refusing(Service):
    """Refuses every request with one error."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def embed_documents(self, texts):
        raise self.error


def refusal(status, **headers):
    error = Exception("no")
    error.status_code, error.headers = status, headers
    return error


@pytest.mark.parametrize("cache", [None, False])
def test_an_error_at_the_first_request_names_the_model(cache):
    with pytest.raises(EmbeddingError, match="The embedding model 'service' failed: Exception: no. No vector is kept.$"):
        GraphIndex.from_texts(TEXTS, embedding=Refusing(refusal(401)), metric="dot", cache=cache)


def test_an_error_at_the_first_request_tells_of_what_was_kept_before(folder):
    with pytest.raises(EmbeddingError):
        GraphIndex.from_texts(TEXTS, embedding=Service(stop=70), metric="dot")
    with pytest.raises(EmbeddingError, match=f"Nothing was embedded; what was kept in {folder} before is still there"):
        GraphIndex.from_texts(TEXTS, embedding=Refusing(refusal(401)), metric="dot")


def test_an_error_tells_of_a_pause_that_is_too_long():
    model = Refusing(error := refusal(429, **{"Retry-After": "3600"}))
    told = r"The service asks to wait 3,600 seconds before the next request \(Retry-After\)."
    with pytest.raises(EmbeddingError, match=f"Exception: no. {told} No vector is kept."):
        GraphIndex.from_texts(TEXTS, embedding=model, metric="dot")
    assert len(error.__notes__) == 1 and error.__notes__[0].startswith("The service asks to wait 3,600 seconds")


def test_vectors_that_are_too_few_name_the_model_and_what_helps():
    class Short(Service):
        def embed_documents(self, texts):
            return super().embed_documents(texts)[:20]

    told = r"'service' did not give one vector for each of 32 texts: vectors have shape \[20, 3\].*batch_size="
    with pytest.raises(DimensionMismatchError, match=told):
        GraphIndex.from_texts(TEXTS, embedding=Short(), metric="dot")


def test_two_models_of_a_class_share_nothing(folder):
    for name in ("small", "large"):
        model = Service()
        model.model = name
        GraphIndex.from_texts(TEXTS, embedding=model, metric="dot")
        assert sorted(model.asked) == sorted(TEXTS)
    assert len(list(folder.iterdir())) == 2


class AsynchronousOnly:
    """A model that cannot be called but with await, as some clients are."""

    def embed_documents(self, texts):
        raise NotImplementedError

    embed_query = embed_documents

    async def aembed_documents(self, texts):
        await asyncio.sleep(0)
        return plain(texts)


async def test_a_model_that_is_only_asynchronous_is_awaited_also_while_a_loop_runs():
    assert torch.equal(embed_corpus(AsynchronousOnly(), TEXTS), plain(TEXTS))
    assert torch.equal(embed_texts(AsynchronousOnly(), TEXTS[:3]), plain(TEXTS[:3]))


def test_an_interrupted_build_keeps_the_requests_that_ran(folder, monkeypatch):
    calls = []

    def interrupted(running, **options):
        calls.append(len(running))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(running, **options)

    real = embedding_requests.wait
    monkeypatch.setattr(embedding_requests, "wait", interrupted)
    first = Service()
    with pytest.raises(KeyboardInterrupt) as raised:
        GraphIndex.from_texts(TEXTS, embedding=HostedEmbedding(first, batch_size=10, max_concurrency=2), metric="dot")
    assert raised.value.__notes__[0].startswith(f"{len(first.asked)} of 100 texts are embedded and kept in {folder}")
    monkeypatch.undo()
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(folder))
    GraphIndex.from_texts(TEXTS, embedding=(again := Service()), metric="dot")
    assert first.asked and sorted(first.asked + again.asked) == sorted(TEXTS)
