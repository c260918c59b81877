"""Names in texts that lead from one passage to another, alone and in PathSearch."""

import numpy as np
import pytest
import torch

from graph_retrievers import (
    BM25Search,
    CorpusGraph,
    GraphIndex,
    HybridSearch,
    PathSearch,
    Pipeline,
    Queries,
    Retriever,
    VectorSearch,
)
from graph_retrievers.graph.names import capitalized_names, name_words, shared_name
from graph_retrievers.operators.bridges import bridges
from graph_retrievers.operators.traits import names_mentioned
from tests.helpers import HashEmbedding

FILM = "Kismet is a film with Ada Holm of Lund."
TEXTS = [FILM, "In Lund, Ada Holm went to school.", "Kismet was shown in Rome.", "A loom of Lund.", "Looms and cards."]
QUESTION = "Where did the star of Kismet go to school?"


@pytest.mark.parametrize(
    ("text", "known", "names"),
    [
        ("He met Ada Holm, and Cleo.", "", ["Ada Holm", "Cleo"]),
        ("Loom is a word. Card too: Lund is not; Rome! Oslo? Bern\nParis.", "", []),
        ("In Area Code 404 he saw Apollo 13 land.", "", ["In Area Code 404", "Apollo 13"]),
        ("by J. R. R. Tolkien and the U.S. Army", "", ["J. R. R. Tolkien", "U.S. Army"]),
        ("the Tower of London and Otto von Guericke", "", ["Tower of London", "Otto von Guericke"]),
        ("a Tower of stone, a Bank of the West", "", ["Tower", "Bank", "West"]),
        ("the O'Brien-Smith house, Iain's Nottingham Forest F.C. shirt", "", ["O'Brien-Smith", "Iain's Nottingham Forest F.C."]),
        ("with Ada Holm and ADA HOLM and Ada Byron", "did ada holm", ["Ada Byron"]),
        ("with Ada, Ada and Ada", "", ["Ada"]),
        ("see " + " ".join(["Word"] * 8), "", [" ".join(["Word"] * 8)]),
        ("see " + " ".join(["Word"] * 9) + " and Lund", "", ["Lund"]),
        ("the Éire of Ørsted", "", ["Éire of Ørsted"]),
        ("the E\u0301ire", "", ["\u00c9ire"]),
        ("東京は日本の首都", "", []),
        ("", "", []),
    ],
)
def test_names_are_told_by_their_capitals(text, known, names):
    assert capitalized_names(text, known) == names


def test_only_so_many_names_of_a_text_are_read():
    text = "see " + ", ".join(f"Name{i}" for i in range(20))
    assert capitalized_names(text) == [f"Name{i}" for i in range(12)]
    assert capitalized_names(text, most=2) == ["Name0", "Name1"]
    assert capitalized_names(text, "name0 name1", most=2) == ["Name2", "Name3"]


def test_the_name_that_two_texts_share():
    assert shared_name(FILM, TEXTS[1]) == '"Ada Holm of Lund"'
    assert shared_name("of Ada Holm and Ada Byron", "ada byron") == '"Ada Byron"'
    assert shared_name("of Ada Holm and Ada Byron", "Ada") == '"Ada Holm"', "the first of several"
    assert shared_name("of Ada Holm", "a loom") == ""


def test_names_lead_to_the_best_passages_by_bm25():
    index = GraphIndex.from_texts(TEXTS)
    queries = Queries.of(index, [QUESTION, "Did Ada Holm live in Lund?"])
    place, nodes = bridges(queries, torch.tensor([[4, 0], [0, -1]]), 2)
    # "Ada Holm of Lund" leads to 1 and 3; Kismet is in the first question, and the second holds all other names.
    assert (place.tolist(), nodes.tolist()) == ([1, 1], [1, 3])
    assert bridges(queries, torch.tensor([[4, 0], [0, -1]]), 1)[1].tolist() == [1]
    assert [part.tolist() for part in bridges(queries, torch.tensor([[4], [-1]]), 2)] == [[], []]
    assert [part.tolist() for part in bridges(queries, torch.empty((2, 0), dtype=torch.int64), 2)] == [[], []]


def random_passages(seed):
    rng = np.random.default_rng(seed)
    words = ["Ada", "Holm", "Lund", "Rome", "loom", "card", "of", "the", "Kismet", "and"]
    texts = [" ".join(rng.choice(words, int(rng.integers(0, 9)))) for _ in range(int(rng.integers(2, 30)))]
    pairs = rng.integers(0, len(texts), (int(rng.integers(0, len(texts))), 2)).tolist()
    index = GraphIndex.from_texts(texts, edges=[(str(a), str(b)) for a, b in pairs if a != b], embedding=HashEmbedding(8))
    return index, [" ".join(rng.choice(words, 3)) for _ in range(3)], rng


def expected_bridges(index, question, row, count, allowed):
    """For each name of a text, the `count` best rows by a full table of BM25, without the row itself."""
    found = []
    for name in capitalized_names(index.graph.texts[row], question):
        table = index.bm25.table([name])[0].tolist()
        ranked = sorted((-score, other) for other, score in enumerate(table) if score > 0 and (allowed is None or allowed[other]))
        found += [other for _, other in ranked[: count + 1] if other != row][:count]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_bridges_equal_a_literal_reading(seed, monkeypatch):
    index, questions, rng = random_passages(seed)
    count, size = int(rng.integers(1, 4)), len(index)
    given = {"traversal_filter": lambda node: int(node.id) % 3 > 0} if seed % 2 else {}
    queries = Queries.of(index, questions, **given)
    seeds = torch.tensor(rng.integers(-1, size, (3, 4)))
    if seed % 3 == 0:
        monkeypatch.setattr("graph_retrievers.operators.bridges._TABLE_LIMIT", 2 * size)
    allowed = queries.walk_allowed
    place, nodes = bridges(queries, seeds, count)
    expected = [
        (n, other)
        for n, row in enumerate(seeds.flatten().tolist())
        if row >= 0
        for other in expected_bridges(index, questions[n // 4], row, count, None if allowed is None else allowed.tolist())
    ]
    assert list(zip(place.tolist(), nodes.tolist(), strict=True)) == expected


@pytest.mark.parametrize("seed", range(40))
def test_bridges_of_path_search_are_edges_to_what_names_lead_to(seed):
    index, questions, rng = random_passages(seed)
    seeds, count = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    first = HybridSearch(10, returned=False)
    for question in questions:
        begun = [row for row in first(Queries.of(index, [question])).nodes[0, :seeds].tolist() if row >= 0]
        led = [(str(row), str(other)) for row in begun for other in expected_bridges(index, question, row, count, None)]
        joined = CorpusGraph(index.graph.ids, index.graph.texts, edges=[*index.graph.edges(), *led])
        drawn = GraphIndex(joined, index.signals, embedding=index.embedding)
        expected = Pipeline(first, PathSearch(seeds))(Queries.of(drawn, [question]))
        found = Pipeline(first, PathSearch(seeds, bridges=count))(Queries.of(index, [question]))
        # An edge is followed both ways, a name only from a seed; where both ends are seeds, the two differ.
        if not any(int(far) in begun for _, far in led):
            assert found.nodes.tolist() == expected.nodes.tolist()
            assert found.scores[0].tolist() == pytest.approx(expected.scores[0].tolist())
            assert found.trails.tolist() == expected.trails.tolist()


def test_a_name_brings_what_no_edge_does_and_stands_on_the_path():
    index = GraphIndex.from_texts(TEXTS)
    first = BM25Search(1, returned=False)
    hits = {bridged: Retriever(index, Pipeline(first, PathSearch(bridges=bridged)), backfill=False) for bridged in (0, 2)}
    assert [hit.id for hit in hits[0].retrieve("the film Kismet")] == ["0"]
    found = hits[2].retrieve("the film Kismet")
    assert [hit.id for hit in found] == ["0", "1", "3"]
    assert str(found[1].path) == '0 -["Ada Holm of Lund"]- 1'
    assert found.subgraph().edges == (), "a name is not an edge"
    assert [hit.id for hit in hits[2].retrieve("the film Kismet", traversal_filter={"$id": "3"})] == ["0", "3"]


def test_what_a_filter_hides_is_not_named_on_a_path():
    index = GraphIndex.from_texts(["Kismet stars Ada Holm.", "Ada Holm, of Rugby College.", "The old Rugby College."])
    twice = Pipeline(BM25Search(1), PathSearch(bridges=1), PathSearch(bridges=1))
    retriever = Retriever(index, twice, backfill=False)
    question = "Who is in Kismet?"
    assert {str(hit.path) for hit in retriever.retrieve(question)} >= {'0 -["Ada Holm"]- 1 -["Rugby College"]- 2'}
    hidden = retriever.retrieve(question, filter={"$id": {"$ne": "1"}})
    assert [str(hit.path) for hit in hidden] == ["0", "0 - 1 - 2"]


def test_bridges_of_a_batch_are_those_of_its_queries():
    index = GraphIndex.from_texts(TEXTS, embedding=HashEmbedding(8))
    retriever = Retriever(index, Pipeline(HybridSearch(2, returned=False), PathSearch(2, bridges=2)))
    questions = [QUESTION, "Which looms?", "Who is Ada Holm?"]
    alone = [[(hit.id, str(hit.path)) for hit in retriever.retrieve(question)] for question in questions]
    assert [[(hit.id, str(hit.path)) for hit in hits] for hits in retriever.retrieve_batch(questions)] == alone


def test_without_bm25_there_are_no_bridges():
    index = GraphIndex.from_texts(TEXTS, embedding=HashEmbedding(8), bm25=False)
    queries = Queries.of(index, [QUESTION])
    ranked = [Pipeline(VectorSearch(3), PathSearch(bridges=n))(queries).nodes.tolist() for n in (0, 2)]
    assert ranked[0] == ranked[1]


def test_how_many_edges_a_text_names():
    texts = ["It stars Ada Holm.", "She was born in LUND", "", "See the Ring-Film."]
    titles = ["Kismet", "Ada Holm (actress)", "Lund", ""]

    def share(*edges):
        return names_mentioned(CorpusGraph([*"abcd"], texts, titles=titles, edges=edges))

    assert share(("a", "b"), ("b", "c")) == 1.0
    assert share(("b", "a")) == 1.0, "either end may name the other"
    assert share(("a", "c"), ("a", "b")) == 0.5
    assert share(("a", "d"), ("c", "d")) == 0.0, "an empty title is not named"
    assert share() == 0.0
    assert names_mentioned(CorpusGraph(["a", "b"], ["Lundy", ""], titles=["x", "Lund"], edges=[("a", "b")])) == 0.0, "whole words"
    assert name_words("Ring-Film") == ["Ring", "-", "Film"]
