"""Values that are made once for a key: what other threads do meanwhile, and after an error."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from graph_retrievers import Retriever
from graph_retrievers.cache import Cache, SizedCache
from graph_retrievers.systems.mor.reranker import TrajectoryReranker, TrajectoryScorer
from tests.helpers import HashEmbedding, linked_index

THREADS = 10


class Slow(HashEmbedding):
    """Counts the texts that it embeds, slowly enough that threads meet."""

    def __init__(self):
        super().__init__()
        self.asked = Counter()

    def embed_documents(self, texts):
        time.sleep(0.05)
        self.asked.update(texts)
        return super().embed_documents(texts)


@pytest.mark.parametrize("system", ["hipporag", "linear-rag"])
def test_first_questions_of_many_threads_embed_names_and_sentences_once(system):
    index = linked_index(embedding=(model := Slow()), edge_signals=True)
    model.asked.clear()
    retriever, together = Retriever(index, system), threading.Barrier(THREADS)

    def ask(_):
        together.wait()
        return [hit.id for hit in retriever.retrieve("Who wrote a program for the Analytical Engine?")]

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask, range(THREADS)))
    assert model.asked and set(model.asked.values()) == {1}
    assert found == [found[0]] * THREADS


@pytest.mark.parametrize("cache", [Cache(), SizedCache(limit=10, size=10)])
def test_a_value_that_could_not_be_made_is_made_by_the_next_thread_that_waits(cache):
    begun, fail = threading.Event(), threading.Event()

    def failing():
        begun.set()
        assert fail.wait(20)
        raise ConnectionError

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get, "key", failing)
        assert begun.wait(20)
        second = pool.submit(cache.get, "key", lambda: "value")
        fail.set()
        assert second.result(20) == "value"
        with pytest.raises(ConnectionError):
            first.result(20)
    assert cache.get("key", failing) == "value"


def test_a_cache_holds_as_much_as_its_size():
    cache = SizedCache(limit=10, size=6)
    for key in "ab":
        cache.get(key, lambda: "abc")
    assert len(cache) == 2
    cache.get("c", lambda: "a")
    assert len(cache) == 2, "the first one made room"


def test_threads_that_rerank_embed_the_types_of_nodes_once():
    model, together = Slow(), threading.Barrier(THREADS)
    index = linked_index(embedding=HashEmbedding())
    reranker = TrajectoryReranker(TrajectoryScorer(), embedding=model)
    model.embed_documents = lambda texts, embed=model.embed_documents: [
        [0.5] * reranker.scorer.structure_width for _ in embed(texts)
    ]

    def read(_):
        together.wait()
        return reranker.structure_vectors(index, [("paper", "author"), ("paper",)]).shape

    with ThreadPoolExecutor(THREADS) as pool:
        assert len(set(pool.map(read, range(THREADS)))) == 1
    assert model.asked == Counter(["paper author", "paper"])
