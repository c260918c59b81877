"""LinearRAG against the paper's equations: random texts and a literal reference, and what it does with filters and odd input."""

import re
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import GraphIndex, LinearRAG, Node, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.named_sentences import passage_names
from graph_retrievers.systems.linear_rag.tri_graph import tri_graph
from tests.helpers import HashEmbedding
from tests.references import linear_rag as reference

NAMES = ["Na", "Nb", "Nc", "Nd", "Ne", "Nf"]
TEXTS = ["The film stars Ada Holm.", "In Lund, Ada Holm met Otto Veld. He sang.", "A mill of Otto Veld.", "A loom."]
QUESTION = "Which mill belongs to somebody whom Ada Holm met?"


def names(text):
    """Names for tests: N and a small letter."""
    return re.findall(r"\bN[a-z]\b", text)


class Table:
    """Vectors at random, the same for the same text in small letters; sentences resemble each other."""

    def __init__(self):
        self.asked = []

    def __call__(self, texts):
        self.asked += texts
        seeds = [zlib.crc32(text.lower().encode()) for text in texts]
        return np.array([np.random.default_rng(seed).normal(0.35, 0.6, 5) for seed in seeds])


def counts(texts):
    """Word counts hashed to dimensions, with a little of everything, so that all cosines are above 0."""
    return np.abs([HashEmbedding(64).embed_query(text) for text in texts]) + 0.02


def unit(texts):
    rows = Table()(texts)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@st.composite
def corpora(draw):
    """Passages of sentences that name up to four entities each, some of them twice, and some none; questions of names, or none."""
    sentence = st.lists(st.sampled_from(NAMES[: draw(st.integers(1, 6))]), max_size=4)
    passages = draw(st.lists(st.lists(sentence, min_size=1, max_size=3), min_size=1, max_size=6))
    questions = draw(st.lists(st.lists(st.sampled_from([*NAMES, "Nx", "Ny"]), max_size=3), min_size=1, max_size=3))
    threshold, rounds = draw(st.sampled_from([0.0, 0.2, 0.4, 0.7])), draw(st.integers(0, 4))
    return passages, questions, threshold, rounds, draw(st.sampled_from([0.5, 0.85])), draw(st.sampled_from([0.0, 0.05, 1.0]))


@pytest.mark.slow
@settings(max_examples=40)
@given(corpora())
def test_random_texts_give_what_the_reference_gives(case):
    told, questions, threshold, rounds, damping, weight = case
    sentences = [[f"About {' and '.join(s)} in {row} {n} it is." for n, s in enumerate(p)] for row, p in enumerate(told)]
    texts = [" ".join(own) for own in sentences]
    number = {name: place for place, name in enumerate(dict.fromkeys(name for text in texts for name in names(text)))}
    passages = [[[number[name] for name in sentence] for sentence in own] for own in told]
    asked = [f"what of {' or '.join(own)}?" for own in questions]
    index = GraphIndex.from_texts(texts, embedding=Table(), metric="cosine", edges=[])
    options = {"threshold": threshold, "iterations": rounds, "damping": damping, "passage_weight": weight}
    retriever = Retriever(index, LinearRAG(extractor=names, similarity_weight=0.7, **options), backfill=False)
    hits = retriever.retrieve_batch(asked, len(texts))
    alone = [retriever.retrieve(text, len(texts)) for text in asked]
    assert [[(hit.id, hit.path, found.notes) for hit in found] for found in hits] == [
        [(hit.id, hit.path, found.notes) for hit in found] for found in alone
    ]
    for own, question, found in zip(questions, asked, hits, strict=True):
        query, seeds = unit([question])[0], dict[int, float]()
        for name in own:
            cosines = unit(list(number)) @ unit([name])[0] if number else []
            entity, cosine = (
                (number[name], 1.0) if name in number else (int(np.argmax(cosines)), max(cosines)) if number else (0, 0)
            )
            if cosine > 0:
                seeds[entity] = max(seeds.get(entity, 0.0), cosine)
        dense = unit(texts) @ query
        got = {int(hit.id): hit.score for hit in found}
        if not seeds:
            assert list(got) == sorted(got, key=lambda row: -dense[row]) and {hit.operator for hit in found} == {"VectorSearch"}
            continue
        similar = {(row, n): unit([s])[0] @ query for row, own in enumerate(sentences) for n, s in enumerate(own)}
        active, level = reference.activation(seeds, passages, similar, threshold, rounds)
        reset = reference.restart(active, level, passages, dense, len(number), 0.7, weight)
        expected = reference.shares(passages, len(number), reset, damping)
        assert got == {row: pytest.approx(share, abs=1e-6) for row, share in enumerate(expected) if row in got or share > 1e-6}
        assert list(got.values()) == sorted(got.values(), reverse=True)


def test_the_path_of_a_hit_leads_through_the_sentences_that_name_its_entity():
    index = GraphIndex.from_texts(TEXTS, embedding=counts, metric="cosine", edges=[])
    retriever = Retriever(index, LinearRAG(threshold=0.0), backfill=False)
    hits = retriever.retrieve(QUESTION)
    paths = {hit.id: hit.path.text for hit in hits}
    assert paths["2"] == '1 -["Otto Veld"]- 2' and (paths["0"], paths["1"]) == ("0", "1")
    assert hits.notes == () and "no edges" not in retriever.reason
    far = Retriever(index, LinearRAG(threshold=0.99), backfill=False).retrieve(QUESTION)
    assert {hit.path.text for hit in far} == {"0", "1", "2", "3"}, (
        "no further entity passes the threshold, so all paths are one node"
    )
    # A name that capitals do not tell begins the path behind it.
    small = [text.replace("Otto Veld", "otto veld") for text in TEXTS]
    lower = GraphIndex.from_texts(small, embedding=counts, metric="cosine", edges=[])
    own = Retriever(lower, LinearRAG(extractor=lambda text: re.findall("ada holm|otto veld", text, re.I), threshold=0.0))
    assert {hit.path.text for hit in own.retrieve(QUESTION)} == {"0", "1", "2", "3"}


def test_texts_are_read_and_embedded_once():
    embed, read = Table(), []

    def extract(text):
        read.append(text)
        return names(text)

    index = GraphIndex.from_texts(["Na met Nb. Na sang.", "Nb, not Nc"], embedding=embed, edges=[])
    retriever = Retriever(index, LinearRAG(extractor=extract))
    embed.asked.clear()
    retriever.retrieve("Who met Nb?")
    assert read == ["Na met Nb. Na sang.", "Nb, not Nc", "Who met Nb?"]
    # A sentence that mentions one entity leads nowhere, and an equal name needs no vector.
    assert sorted(embed.asked) == ["Na met Nb.", "Nb, not Nc", "Who met Nb?"]
    read.clear(), embed.asked.clear()
    retriever.retrieve_batch(["Who met Nx?", "And Nb?"])
    assert read == ["Who met Nx?", "And Nb?"] and set(embed.asked) == {"Who met Nx?", "And Nb?", "Nx", "Na", "Nb", "Nc"}


def test_entities_of_the_question_may_be_given():
    index = GraphIndex.from_texts(TEXTS, embedding=counts, metric="cosine", edges=[])
    retriever = Retriever(index, LinearRAG(), backfill=False)
    given, named = retriever.retrieve("who?", entities=["otto veld"]), retriever.retrieve("who?")
    assert retriever.inputs == ("entities",) and {hit.id for hit in given[:2]} == {"1", "2"} and given.notes == ()
    assert {hit.operator for hit in named} == {"VectorSearch"}
    none = retriever.retrieve(QUESTION, entities=[])
    assert {hit.operator for hit in none} == {"VectorSearch"}, "none, although the question names one"
    with pytest.raises(InvalidArgumentError, match="entities of query 0"):
        retriever.retrieve("who?", entities="Ada")


def test_without_a_model_equal_names_match_and_sentences_count_as_their_passages():
    index = GraphIndex.from_texts(TEXTS, vectors=[[1, 0.1], [1, 0.5], [0.5, 1], [0, 1]], metric="cosine", edges=[])
    hits = Retriever(index, LinearRAG(), backfill=False).retrieve(QUESTION, vector=[1, 0.2])
    assert {hit.id: hit.path.text for hit in hits}["2"] == '1 -["Otto Veld"]- 2'
    other = Retriever(index, LinearRAG(), backfill=False).retrieve("What of Ada Holmes?", vector=[1, 0.2])
    assert {hit.operator for hit in other} == {"VectorSearch"}


def test_filters_hold_for_sentences_passages_and_paths():
    index = GraphIndex.from_texts(TEXTS, embedding=counts, metric="cosine", edges=[])
    retriever = Retriever(index, LinearRAG(threshold=0.0), backfill=False)
    whole = {hit.id: hit.path.text for hit in retriever.retrieve(QUESTION)}
    walk = {hit.id: hit.path.text for hit in retriever.retrieve(QUESTION, traversal_filter=lambda node: node.id != "1")}
    # The sentence of the passage that may not be walked to leads nowhere.
    assert whole["2"] == '1 -["Otto Veld"]- 2' and walk["2"] == "2"
    assert {hit.id for hit in retriever.retrieve(QUESTION, filter={"$id": {"$in": ["1", "2"]}}, seed_filter={})} == {"1", "2"}
    scoped = retriever.retrieve(QUESTION, scope={"$id": {"$in": ["0", "2", "3"]}})
    assert {hit.path.text for hit in scoped} == {"0", "2", "3"}
    with_seeds = retriever.retrieve(QUESTION, seed_filter=lambda node: node.id != "1")
    assert all(hit.path.nodes[0] != "1" or hit.id == "1" for hit in with_seeds)


def test_entities_that_are_nodes_are_no_passages():
    nodes = [Node(str(n), text, type="passage") for n, text in enumerate(TEXTS)] + [Node("x", "Ada Holm of Lund.", type="entity")]
    index = GraphIndex.from_nodes(nodes, [("0", "x", "mentions")], embedding=counts, metric="cosine")
    assert {hit.id for hit in Retriever(index, LinearRAG(), backfill=False).retrieve(QUESTION)} == {"0", "1", "2", "3"}
    others = Retriever(index, LinearRAG(passage_type="entity"), backfill=False).retrieve(QUESTION)
    assert {hit.id for hit in others} == {"x"}
    tri = tri_graph(index.graph, Retriever(index, LinearRAG()).operator.extractor, "passage")
    assert tri.names == ["Ada Holm", "Lund", "Otto Veld"] and tri.sentences == ["In Lund, Ada Holm met Otto Veld."]


def test_texts_without_names_are_searched_by_vector():
    index = GraphIndex.from_texts(["a loom", "a mill", "a card"], embedding=counts, metric="cosine", edges=[])
    hits = Retriever(index, LinearRAG()).retrieve("What of Ada Holm?")
    assert hits[0].operator == "VectorSearch" and len(hits) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": -0.1},
        {"iterations": -1},
        {"damping": 1.0},
        {"similarity_weight": float("nan")},
        {"similarity_weight": 1.5e30},
        {"passage_weight": "much"},
        {"extractor": 3},
    ],
)
def test_values_outside_their_range_are_refused(wrong):
    index = GraphIndex.from_texts(TEXTS, vectors=np.eye(4), edges=[])
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        Retriever(index, LinearRAG(**wrong))


def test_a_name_that_no_sentence_contains_as_a_whole_is_in_the_passage_once():
    names = passage_names("In Lund, Ada\nHolm sang.", "", ["Lund", "Ada Holm"])
    assert (names.names, names.counts, names.sentences) == (["Lund", "Ada Holm"], [1, 1], [])


def test_a_sentence_that_mentions_one_name_twice_connects_none():
    names = passage_names("Ada saw Ada. Ada saw Lund and Ada.", "", ["Ada", "Lund"])
    assert (names.counts, names.sentences) == ([4, 1], [("Ada saw Lund and Ada.", [0, 1])])


def test_the_title_of_a_passage_is_an_entity_of_each_of_its_sentences():
    texts = ["It was shot in Lund. Ada Holm directed.", "Otto Veld runs Kismet.", "She keeps books."]
    titles = ["Kismet (film)", "", "Ada Holm"]
    graph = GraphIndex.from_texts(texts, titles=titles, edges=[]).graph
    tri = tri_graph(
        graph, Retriever(GraphIndex.from_texts(["a"], vectors=[[1]], edges=[]), LinearRAG()).operator.extractor, "passage"
    )
    assert tri.names == ["Kismet", "Lund", "Ada Holm", "Otto Veld"]
    assert tri.sentences == ["Kismet. It was shot in Lund.", "Kismet. Ada Holm directed.", "Otto Veld runs Kismet."]
    assert [part.tolist() for part in np.split(tri.entities[1], tri.entities[0][1:-1])] == [[0, 1], [0, 2], [3, 0]]
    contained = sorted(zip(tri.containers.tolist(), tri.contents.tolist(), tri.counts.tolist(), strict=True))
    assert contained == [(0, 0, 2), (0, 1, 1), (0, 2, 1), (1, 0, 1), (1, 3, 1), (2, 2, 1)]


def test_passages_that_do_not_repeat_their_titles_are_found_by_them():
    texts = ["Nurse, moved to Lund. Brings cake.", "Pilot in Graz. Brings stew.", "Rain.", "Run by Ada Holm.", "Nobody came."]
    titles = ["Ada Holm", "Otto Veld", "Lund", "Blue Kettle", "Monday"]
    index = GraphIndex.from_texts(texts, titles=titles, embedding=counts, metric="cosine", edges=[])
    hits = Retriever(index, LinearRAG(threshold=0.0), backfill=False).retrieve(
        "Where does the person who runs Blue Kettle live?", k=2
    )
    assert [hit.title for hit in hits] == ["Blue Kettle", "Ada Holm"] and hits.notes == ()
    assert hits[1].path.text == 'Blue Kettle -["Ada Holm"]- Ada Holm'


def test_a_question_or_texts_without_names_are_told_in_the_notes():
    index = GraphIndex.from_texts(TEXTS, vectors=np.eye(4), edges=[])
    (note,) = Retriever(index, LinearRAG()).retrieve("what of looms?", vector=[1, 0, 0, 0]).notes
    assert "the question has no name that is in the texts" in note
    small = GraphIndex.from_texts([text.lower() for text in TEXTS], vectors=np.eye(4), edges=[])
    (note,) = Retriever(small, LinearRAG()).retrieve("What of Ada Holm?", vector=[1, 0, 0, 0]).notes
    assert "no names were found in the texts" in note
