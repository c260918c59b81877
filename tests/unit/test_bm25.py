"""Search by words with BM25."""

import pytest
import torch

from graph_retrievers.errors import IndexVersionError, InvalidArgumentError
from graph_retrievers.graph import Node
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
    hits = Retriever(index(), BM25Retriever(), backfill=False).retrieve("apple", k=6)
    assert ids(hits) == ["5", "0", "1"]
    assert ids(Retriever(index(), BM25Retriever(), backfill=False).retrieve("zebra")) == []


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
    assert ids(Retriever(index, BM25Retriever(), backfill=False).retrieve(question)) == ["1"]


def test_words_with_marks_are_not_cut_into_letters():
    assert BM25(["a"]).tokenize(["\u0915\u093f\u0924\u093e\u092c \u2764\ufe0f \u674e\u5a1cabc"]) == [
        ["\u0915\u093f\u0924\u093e\u092c", "\u674e\u5a1c", "abc"]
    ]


def first(texts, question, **options):
    """The rows of the texts that search by words finds, best first."""
    rows = BM25(texts, **options).search([question], len(texts))[1][0].tolist()
    return [row for row in rows if row >= 0]


@pytest.mark.parametrize(
    ("texts", "question", "row"),
    [
        *(([f"Vitamin {each}." for each in "ABCD"], f"vitamin {letter}", row) for row, letter in enumerate("aBcD")),
        *(([f"Step {n}" for n in range(1, 10)], f"step {n}", n - 1) for n in (1, 3, 9)),
        (["Version 1.2.4", "Version 1.2.3", "Version 3.2.1"], "what is new in 1.2.3", 1),
        (["Since v2.0.1rc1.", "Since 2.0.1.", "Since 2.1"], "2.0.1", 1),
        (["Eight is even", "Nine is odd", "Python 3.11 is fast"], "python 11", 2),
        (["Vitamin A deficiency is common in a city.", "A vitamin is a deficiency"], "deficiency of Vitamin A in summer", 0),
        (["point (a) of Article 6", "a point of an Article 6", "point (b)"], "Article 6 point (a)", 0),
    ],
)
def test_numbers_versions_and_single_letters_are_words(texts, question, row):
    assert first(texts, question)[0] == row


def test_single_characters_and_numbers_that_are_there_by_their_parts_do_not_make_a_text_longer():
    scores, _ = BM25(["loom cloth", "loom cloth 1.5 2.7 x y"]).search(["loom"], 2)
    assert scores[0, 0] == scores[0, 1]
    scores, _ = BM25(["loom cloth", "loom cloth 15"]).search(["loom"], 2)
    assert scores[0, 0] > scores[0, 1]


def test_words_with_digits_are_not_stemmed():
    assert BM25([], language="en", stem=True).tokenize(["contracts for mi24s"]) == [["contract", "mi24s"]]


def test_a_letter_that_is_a_stop_word_is_one_where_a_word_follows():
    read = BM25([], language="en").tokenize
    assert read(["A loom", "he built a loom", "It is a, b or c", "the grade he got: a", "Vitamin A and a loom", "plan a."]) == [
        *(["loom"], ["he", "built", "loom"], ["b", "c", "a"], ["grade", "he", "got", "a"]),
        *(["vitamin", "loom", "a"], ["plan", "a"]),
    ]
    assert read(["how do I use I/O", "under Elizabeth I."]) == [["how", "do", "use", "o"], ["under", "elizabeth", "i"]]
    assert read(["Holm's loom isn't l'eau"]) == [["holm", "loom", "isn", "eau"]], "the rest of a word is not a letter"


@pytest.mark.parametrize(
    ("language", "text", "question"),
    [
        ("en", "The contracts were signed.", "contract"),
        ("de", "Die Kündigungen sind schriftlich und mit Gründen zu versehen.", "Kündigung"),
        ("ru", "В городе есть старые библиотеки и музей.", "библиотека"),
        ("fi", "Tehtaassa on monta konetta, ja se on vanha.", "tehtaan koneet"),
        ("fr", "Les chevaux sont dans les écuries de la ville.", "écurie"),
        ("tr", "Bu kitaplar bir evde ve çok eskidir.", "kitap"),
        ("hu", "A könyvek és a házak nem voltak itt, hogy el.", "könyv"),
        ("es", "Las bibliotecas de la ciudad no son para el niño.", "biblioteca"),
    ],
)
def test_words_are_found_in_other_forms_in_the_language_that_is_found(language, text, question):
    assert BM25([text]).language == language
    assert first(["", text], question, stem=True) == [1]
    assert first(["", text], question, language="") == [], "without stems it is not found"


def test_english_is_stemmed_without_vectors_or_where_it_is_named():
    texts, vectors = ["The contracts were signed.", "It is a loom."], [[1.0, 0.0], [0.0, 1.0]]
    for stem, options in (
        *(("en", {}), ("", {"vectors": vectors}), ("en", {"vectors": vectors, "bm25": "en"})),
        ("en", {"vectors": vectors, "bm25": BM25(texts, stem=True)}),
    ):
        index = GraphIndex.from_texts(texts, **options)
        assert (index.bm25.language, index.bm25.stem) == ("en", stem)
        assert (index.bm25.search(["contract"], 1)[1].tolist() == [[0]]) == (stem == "en")
        told = str(index.describe())
        assert ("language: en" in told) and ("without stems of en" in told) == (not stem)


def test_each_script_of_a_corpus_has_its_language():
    russian, german = "Станки и машины стоят на фабрике.", "Die Maschinen sind in den Fabriken und nicht bei mir."
    mixed = BM25([russian, german, german])
    assert mixed.language == "de+ru" and mixed.stem == "de+ru"
    assert mixed.search(["станок на фабриках", "Maschine"], 1)[1].tolist() == [[0], [1]]
    half = BM25([german, "The machines of the factory are not in it."] * 3)
    assert half.language == "" and half.search(["Maschine"], 1)[1].tolist() == [[-1]], "no language has most texts"


KOREAN = {
    "서울은 대한민국의 수도이다.": "대한민국 수도는 어디인가?",
    "한글은 세종대왕이 만들었다.": "누가 한글을 만들었나?",
    "물은 백 도에서 끓는다.": "물이 끓는 온도",
    "부산에는 큰 항구가 있다.": "항구 도시 부산",
    "김치는 배추로 담근다.": "배추김치",
    "제주도에서 귤을 재배한다.": "귤 재배",
    "사과나무는 봄에 꽃이 핀다.": "사과 꽃",
    "기차가 대전역에 도착했다.": "대전역 기차는",
    "도서관에서는 책을 빌려 준다.": "책 빌리는 곳",
    "의사가 병원에서 환자를 본다.": "병원의 환자",
}


def test_ten_korean_questions_find_their_texts():
    assert [first(list(KOREAN), question)[0] for question in KOREAN.values()] == list(range(10))


def test_korean_particles_behind_a_word_of_another_script_are_no_words():
    read = BM25([], language="ko", stopwords=None).tokenize
    assert read(["Linux는", "Linux 물은"]) == [["linux"], ["linux", "물은", "물"]]


@pytest.mark.parametrize(
    ("written", "question"),
    [
        ("the retrie-\nval of words", "retrieval"),
        ("the re\u00adtrie\u00ad\nval", "retrieval"),
        ("zero\u200bwidth", "zerowidth"),
        ("an o\ufb03ce", "office"),
        ("\uff30\uff39\uff34\uff28\uff2f\uff2e \uff13", "python 3"),
        ("Stra\u00dfe", "STRASSE"),
        ("a caf\u0065\u0301", "caf\u00e9"),
        ("\u0baa\u0bc6\u0bbe\u0ba4\u0bc1", "\u0baa\u0bca\u0ba4\u0bc1"),
        ("10\u00b2\u2075 operations", "25"),
        ("Jean-\nPaul Holm", "paul"),
    ],
)
def test_forms_of_writing_are_undone(written, question):
    assert first(["nothing", written], question) == [1]


def test_documents_and_questions_are_cut_alike_after_saving_and_changes(tmp_path):
    texts = ["Die Kündigungen sind schriftlich.", "Der Webstuhl ist eine Maschine."]
    index = GraphIndex.from_texts(texts, bm25=BM25(texts, stopwords=["schriftlich"], k1=1.2))
    index.save(tmp_path / "index")
    loaded = GraphIndex.load(tmp_path / "index")
    changed = loaded.with_changes(add=[Node("new", "All the contracts of the city.")])
    for words in (loaded.bm25, changed.bm25):
        assert (words.language, words.stem, words.stopwords, words.k1) == ("de", "de", ["schriftlich"], 1.2)
        assert words.tokenize(["Die Kündigung schriftlich"]) == [["die", "kundig"]]
        assert words.search(["Kündigung"], 1)[1].tolist() == [[0]]


@pytest.mark.parametrize("given", ["klingon", 5, None, {"k1": 1}, "en+de"])
def test_what_is_no_setting_of_bm25_is_refused(given):
    with pytest.raises(InvalidArgumentError, match="bm25 is"):
        GraphIndex.from_texts(["a loom"], bm25=given)


@pytest.mark.parametrize("weight", [-0.5, float("nan"), float("inf")])
def test_weights_that_no_word_has_are_refused(weight):
    tensors, settings = GraphIndex.from_texts(["Vitamin A", "Vitamin D"]).bm25.state()
    tensors["data"][0] = weight
    with pytest.raises(ValueError, match="not a matrix of weights by terms"):
        BM25.restore(tensors, settings)


def test_bm25_of_another_version_is_refused():
    index = GraphIndex.from_texts(["Vitamin A", "Vitamin D"])
    tensors, settings = index.bm25.state()
    del settings["splitting"]
    with pytest.raises(IndexVersionError, match="build it again"):
        BM25.restore(tensors, settings)
    tensors, state = index.state()
    state["signals"][0]["settings"] = settings
    with pytest.raises(IndexVersionError, match="build it again"):
        GraphIndex.from_state("folder", index.graph, tensors, state)
