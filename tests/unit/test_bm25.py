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
from tests.apples import ids, index


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
def test_bm25_moves_between_devices(texts):
    words = Words(texts)
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


def test_words_written_with_combining_marks():
    index = GraphIndex.from_texts(["Brass from Ko\u0308ln.", "Fish."])
    assert [hit.id for hit in Retriever(index, BM25Search(), backfill=False).retrieve("K\u00f6ln")] == ["0"]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("\u0915\u093f\u0924\u093e\u092c \u092e\u0947\u091c\u093c \u092a\u0930 \u0939\u0948", "\u0915\u093f\u0924\u093e\u092c"),
        ("\u0936\u094d\u0930\u0940 \u0930\u093e\u092e", "\u0930\u093e\u092e"),
        ("\u0c36\u0c4d\u0c30\u0c40 \u0c30\u0c3e\u0c2e\u0c41", "\u0c30\u0c3e\u0c2e\u0c41"),
        ("\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22\u0e40\u0e1b\u0e47\u0e19\u0e20\u0e32\u0e29\u0e32", "\u0e44\u0e17\u0e22"),
        ("\u0b95\u0bc1\u0bb1\u0bc1\u0bae\u0bcd \u0baa\u0bc7", "\u0baa\u0bc7"),
        ("\u0643\u0650\u062a\u064e\u0627\u0628\u064c", "\u0643\u062a\u0627\u0628"),
        ("\u05e1\u05b5\u05e4\u05b6\u05e8 \u05d7\u05d3\u05e9", "\u05e1\u05e4\u05e8"),
        ("Un cafe\u0301 noir", "caf\u00e9"),
        ("x\u0302abc", "x\u0302abc"),
        ("\u7535\u5f71\u7531\u674e\u5a1c\u6267\u5bfc\u3002", "\u8c01\u662f\u674e\u5a1c\uff1f"),
        ("\u65e5\u672c\u306e\u30c9\u30e9\u30de", "\u30c9\u30e9\u30de"),
    ],
)
def test_words_of_any_script_are_found_whole(text, question):
    index = GraphIndex.from_texts(
        ["\u0939\u093e\u0925\u0940 \u0918\u0930 \u0917\u092f\u093e", text, "A cafe, abc.", "\u7535\u89c6"], edges=[]
    )
    assert ids(BM25Retriever(index, backfill=False).retrieve(question)) == ["1"]


def test_words_with_marks_are_not_cut_into_letters():
    assert BM25(["a"]).tokenize(["\u0915\u093f\u0924\u093e\u092c \u2764\ufe0f \u674e\u5a1cabc"]) == [
        ["\u0915\u093f\u0924\u093e\u092c", "\u674e\u5a1c", "abc"]
    ]


def test_a_signal_of_an_earlier_version_splits_questions_as_it_split_texts(caplog):
    sentence = "\u7535\u5f71\u7531\u674e\u5a1c"
    tensors, settings = BM25(["aaa bbb"]).state()
    del settings["splitting"]
    BM25.restore(tensors, settings)
    assert not caplog.records
    old = BM25.restore(tensors, settings | {"vocabulary": {sentence: 0, "bbb": 1}})
    assert [(record.levelname, "Build the index again" in record.getMessage()) for record in caplog.records] == [("WARNING", True)]
    for signal in (old, BM25.restore(*old.state()), old.updated(["x", "y"], torch.tensor([0, -1]), None)):
        assert signal.tokenize([sentence]) == [[sentence]]
        assert signal.search([sentence], 1)[1].tolist() == [[0]]
    again = BM25(["aaa bbb", sentence])
    assert BM25.restore(*again.state()).tokenize([sentence]) == [["\u7535\u5f71", "\u5f71\u7531", "\u7531\u674e", "\u674e\u5a1c"]]
