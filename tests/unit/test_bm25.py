"""Search by words with BM25."""

import pytest
import torch

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.bm25 import BM25 as Words
from graph_retrievers.systems.baselines import BM25 as BM25Retriever
from tests.apples import TEXTS, ids, index


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"k1": "x"}, "k1 must be a number"),
        ({"k1": -1}, "k1 must be a number"),
        ({"b": 2}, "b must lie in"),
        ({"stopwords": "klingon"}, "stopwords is 'klingon'"),
        ({"stopwords": 5}, "stopwords must be a list of strings"),
    ],
)
def test_options_of_bm25_are_checked(options, told):
    with pytest.raises(InvalidArgumentError, match=told):
        Words(["a loom", "a card"], **options)


@pytest.mark.parametrize("texts", [["the", "a"], ["a loom", "a card"]])
def test_bm25_of_either_backend_moves_between_devices(texts):
    for backend in ("bm25s", "rank-bm25"):
        words = Words(texts, backend=backend)
        assert words.to(torch.device("cpu")).search(["loom"], 2)[1].tolist() == words.search(["loom"], 2)[1].tolist()


def test_bm25_scores_are_those_of_bm25s(device):
    import bm25s

    words = ["a quick brown fox", "the lazy dog and the fox", "dogs bark", "quick quick fox"]
    mine = BM25(words, device=torch.device(device)).table(["quick fox fox", "nothing here"])
    peer = bm25s.BM25(method="lucene")
    peer.index(bm25s.tokenize(words, show_progress=False), show_progress=False)
    assert mine[0].tolist() == pytest.approx(peer.get_scores(["quick", "fox", "fox"]).tolist(), abs=1e-6)
    assert mine[1].tolist() == [0.0] * 4


def test_bm25_finds_only_what_shares_a_word():
    hits = BM25Retriever(index(), backfill=False).retrieve("apple", k=6)
    assert ids(hits) == ["5", "0", "1"]
    assert ids(BM25Retriever(index(), backfill=False).retrieve("zebra")) == []


def test_bm25_of_a_corpus_without_words_matches_nothing():
    bm25 = BM25(["", "the", "!"])
    assert bm25.search(["the question"], 3)[1].tolist() == [[-1, -1, -1]]


def test_rank_bm25_as_backend_gives_its_scores():
    from rank_bm25 import BM25Okapi

    mine = BM25(TEXTS, backend="rank-bm25")
    peer = BM25Okapi(mine.tokenize(TEXTS), k1=1.5, b=0.75)
    assert mine.table(["apple cat"])[0].tolist() == pytest.approx(peer.get_scores(["apple", "cat"]).tolist(), abs=1e-6)


def test_words_written_with_combining_marks():
    index = GraphIndex.from_texts(["Brass from Ko\u0308ln.", "Fish."])
    assert [hit.id for hit in Retriever(index, BM25Search(), backfill=False).retrieve("K\u00f6ln")] == ["0"]
