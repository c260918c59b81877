"""Names in texts that lead from one passage to another, alone and in PathSearch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from graph_retrievers import MMR, Eager, GraphIndex, Pipeline, ReciprocalRankFusion, Retriever, Scored, WalkFusion
from graph_retrievers.core.candidates import Candidates, reached
from graph_retrievers.core.driver import run
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph, SharedName
from graph_retrievers.graph.names import capitalized_names, name_keys, name_table, step_name
from graph_retrievers.operators import (
    BM25Search,
    ChainSearch,
    ChunkGathering,
    HybridSearch,
    PathSearch,
    VectorSearch,
)
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.traits import names_mentioned
from graph_retrievers.systems.walk_fusion.bridges import bridges
from tests.helpers import HashEmbedding
from tests.rankings import Ranking, ranked, ranking_of

FILM = "Kismet is a film with Ada Holm of Lund."
TEXTS = [FILM, "In Lund, Ada Holm went to school.", "Kismet was shown in Rome.", "A loom of Lund.", "Looms and cards."]
QUESTION = "Where did the star of Kismet go to school?"


def bridged(queries, seeds, count):
    """What names lead to, for all questions: places in ``seeds.flatten()`` ([B, S], -1 pads), node rows and numbers of names."""
    real = [torch.nonzero(row >= 0).flatten() for row in seeds]
    searches = [bridges(Question(MemoryBackend(queries), b), seeds[b, real[b]].numpy(), count) for b in range(len(queries))]
    led = enumerate(run(MemoryBackend(queries), searches))
    found = [(b * seeds.shape[1] + real[b].numpy()[place], far, -2 - name) for b, (place, far, name) in led]
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("He met Ada Holm, and Cleo.", ["Ada Holm", "Cleo"]),
        ("Loom is a word. Card too: Lund is not; Rome! Oslo? Bern\nParis.", []),
        ("Ada Holm met Cleo. Otto Veld left", ["Ada Holm", "Cleo", "Otto Veld"]),
        ("Loom", []),
        ('It said: "Looms." (Cards do.)\n- Install it\n* Then\n# Heading\n| Cell\n> Quoted', []),
        ('He (Oslo, born) and "Kismet" - Lund', ["Oslo", "Kismet", "Lund"]),
        ("In Area Code 404 he saw Apollo 13 land, and Room \u2167 too", ["In Area Code 404", "Apollo 13", "Room VIII"]),
        ("by J. R. R. Tolkien and the U.S. Army", ["J. R. R. Tolkien", "U.S. Army"]),
        ("the Tower of London and Otto von Guericke", ["Tower of London", "Otto von Guericke"]),
        ("of Juan y Pedro, of Ali bin Said", ["Juan y Pedro", "Ali bin Said"]),
        ("a Tower of stone, a Bank of the West", ["Tower", "Bank", "West"]),
        ("a Tower of", ["Tower"]),
        ("in Room \u00bd", ["Room"]),
        ("the O'Brien-Smith house, Iain\u2019s Forest F.C. shirt", ["O'Brien-Smith", "Iain\u2019s Forest F.C."]),
        ("with Ada, Ada and Ada", ["Ada"]),
        ("see Dr. Ada Holm and St. Albans. Then Mr.", ["Dr. Ada Holm", "St. Albans", "Then Mr"]),
        *((f"to {title}. Holm", [f"{title}. Holm"]) for title in "Mr Mrs Ms Prof Mt Gen Col Capt Lt Rev".split()),
        ("by Ada Holm Jr. She sang", ["Ada Holm Jr"]),
        ("\u00bfAda? \u00abLund\u00bb, \u00abOslo", ["Oslo"]),
        ("of \u01c5ungla", ["D\u017eungla"]),
        ("of \u1f8d\u03b4\u03b7\u03c2", ["\u1f8d\u03b4\u03b7\u03c2"]),
        ("the X of it", []),
        ("the El Al of X", []),
        ("see " + " ".join(["Word"] * 8), [" ".join(["Word"] * 8)]),
        ("see " + " ".join(["Word"] * 9) + " and Lund", ["Lund"]),
        ("see " + "A" * 100 + " and " + "B" * 101, ["A" * 100]),
        ("see Lund " + "x" * 9982 + " Rome and Bern", ["Lund", "Rome"]),
        ("the Éire of Ørsted", ["Éire of Ørsted"]),
        ("the E\u0301ire", ["\u00c9ire"]),
        ("of M\u0304ary", ["M\u0304ary"]),
        ("東京は日本の首都", []),
        ("", []),
    ],
)
def test_names_are_told_by_their_capitals(text, names):
    assert capitalized_names(text) == tuple(names)


def test_words_that_tell_a_name():
    assert name_keys("The Tower of J. Holm's, in 1990") == {"tower", "holm", "in", "1990"}
    assert step_name(FILM, -2) == '"Ada Holm of Lund"' and step_name("of Ada and Cleo", -3) == '"Cleo"'
    assert [step_name(FILM, relation) for relation in (-1, 0, 3, -3, -99)] == [""] * 5


def test_names_lead_to_the_best_passages_by_bm25():
    index = GraphIndex.from_texts(TEXTS)
    queries = Queries.of(index, [QUESTION, "Did Ada Holm live in Lund?"])
    place, nodes, names = bridged(queries, torch.tensor([[4, 0], [0, -1]]), 2)
    # "Ada Holm of Lund" leads to 1 and 3; Kismet is in the first question, and the second holds all other names.
    assert (place.tolist(), nodes.tolist(), names.tolist()) == ([1, 1], [1, 3], [0, 0])
    assert bridged(queries, torch.tensor([[4, 0], [0, -1]]), 1)[1].tolist() == [1]
    assert [part.tolist() for part in bridged(queries, torch.tensor([[4], [-1]]), 2)] == [[], [], []]
    assert [part.tolist() for part in bridged(queries, torch.empty((2, 0), dtype=torch.int64), 2)] == [[], [], []]


@pytest.mark.parametrize(
    ("opening", "first"),
    [
        ("Ada Holm", True),
        ("# Ada Holm", True),
        ("The Ada Holm", True),
        ("By the Ada Holm", False),
        ("Ada Holmes", False),
        ("McAda Holm", False),
        ("In an age without looms, Ada Holm", False),
    ],
)
def test_of_passages_that_hold_a_name_those_that_open_with_it_come_first(opening, first):
    held = ["It is said that Ada Holm met Ada Holm."] * 9
    about = f"{opening} was born in Lund, and went to a school of many more words than others hold."
    for others, found in ((held, [10] if first else [1]), ([*held, held[0]], [1])):
        # Ten are looked at, besides the passage itself, or as many as are asked for.
        queries = Queries.of(GraphIndex.from_texts(["Kismet starred Ada Holm.", *others, about]), ["star of Kismet"])
        assert bridged(queries, torch.tensor([[0]]), 1)[1].tolist() == found
    assert len(bridged(queries, torch.tensor([[0]]), 20)[1]) == 11


def test_twelve_names_that_the_question_lacks_are_read():
    texts = ["see " + ", ".join(f"Name{i}" for i in range(20)), *(f"name{i}" for i in range(20))]
    index = GraphIndex.from_texts(texts)
    queries = Queries.of(index, ["loom", "name0's and NAME1"])
    found = bridged(queries, torch.tensor([[0], [0]]), 1)
    assert [part.tolist() for part in found[1:]] == [[*range(1, 13), *range(3, 15)], [*range(12), *range(2, 14)]]


@pytest.mark.parametrize("question", ["star of Kismet", "in Lund", "What did J R R Tolkien write?", "Smith Jones"])
def test_names_in_a_question_are_left_out_however_they_are_written(question):
    index = GraphIndex.from_texts(["the Kismet\u2019s, Lund's, J. R. R. Tolkien, Smith-Jones", "Kismet Lund Tolkien Smith Jones"])
    names = bridged(Queries.of(index, [question]), torch.tensor([[0]]), 1)[2].tolist()
    assert names == [n for n, word in enumerate(("Kismet", "Lund", "Tolkien", "Jones")) if word not in question]


def test_a_passage_opens_with_a_name_only_where_it_begins_a_word():
    for before, found in (("xKismet", 2), ("Kismet", 1), ("x-Kismet", 1)):
        texts = ["see Kismet", f"{before} Kismet", "the Kismet of a loom in a mill"]
        queries = Queries.of(GraphIndex.from_texts(texts), ["loom"])
        assert bridged(queries, torch.tensor([[0]]), 1)[1].tolist() == [found]


def random_passages(seed):
    rng = np.random.default_rng(seed)
    words = ["Ada", "Holm", "Lund", "Rome", "loom", "card", "of", "the", "Kismet", "and"]
    texts = [" ".join(rng.choice(words, int(rng.integers(0, 9)))) for _ in range(int(rng.integers(2, 30)))]
    pairs = rng.integers(0, len(texts), (int(rng.integers(0, len(texts))), 2)).tolist()
    index = GraphIndex.from_texts(texts, edges=[(str(a), str(b)) for a, b in pairs if a != b], embedding=HashEmbedding(8))
    return index, [" ".join(rng.choice(words, 3)) for _ in range(3)], rng


def expected_bridges(index, question, row, count, allowed):
    """For each name of a text, its number and `count` of the best rows by a full table of BM25, without the row itself.

    Of the eleven best, texts that open with the name come first.
    """
    found = []
    for number, name in enumerate(capitalized_names(index.graph.texts[row])):
        if set(name.lower().split()) - {"of", "the"} <= set(question.lower().split()):
            continue
        table = index.bm25.table([name])[0].tolist()
        ranked = sorted((-score, other) for other, score in enumerate(table) if score > 0 and (allowed is None or allowed[other]))
        best = [other for _, other in ranked[:11] if other != row]
        words = [index.graph.texts[other].split() for other in best]
        opens = [name.split() in (text[: len(name.split())], text[1 : 1 + len(name.split())]) for text in words]
        first = [other for other, opened in zip(best, opens, strict=True) if opened]
        found += [(other, number) for other in [*first, *(other for other in best if other not in first)][:count]]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_bridges_equal_a_literal_reading(seed):
    index, questions, rng = random_passages(seed)
    count, size = int(rng.integers(1, 4)), len(index)
    given = {"traversal_filter": lambda node: int(node.id) % 3 > 0} if seed % 2 else {}
    queries = Queries.of(index, questions, **given)
    seeds = torch.tensor(rng.integers(-1, size, (3, 4)))
    allowed = queries.walk_allowed
    expected = [
        (n, *other)
        for n, row in enumerate(seeds.flatten().tolist())
        if row >= 0
        for other in expected_bridges(index, questions[n // 4], row, count, None if allowed is None else allowed.tolist())
    ]
    assert list(zip(*(part.tolist() for part in bridged(queries, seeds, count)), strict=True)) == expected


@pytest.mark.parametrize("seed", range(40))
def test_bridges_of_path_search_are_edges_to_what_names_lead_to(seed):
    index, questions, rng = random_passages(seed)
    seeds, count = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    first = HybridSearch(10, returned=False)
    for question in questions:
        begun = [row for row in ranked(first, Queries.of(index, [question])).nodes[0, :seeds].tolist() if row >= 0]
        names = {(row, *far) for row in begun for far in expected_bridges(index, question, row, count, None)}
        led = [(str(row), str(far)) for row, far, _ in sorted(names)]
        joined = CorpusGraph(index.graph.ids, index.graph.texts, edges=[*index.graph.edges(), *led])
        drawn = GraphIndex(joined, index.signals, embedding=index.embedding)
        expected = ranked(Pipeline(first, PathSearch(seeds)), Queries.of(drawn, [question]))
        found = ranked(Pipeline(first, PathSearch(seeds, bridges=count)), Queries.of(index, [question]))
        # An edge is followed both ways, a name only from a seed; where both ends are seeds, the two differ.
        if not any(int(far) in begun for _, far in led):
            assert found.nodes.tolist() == expected.nodes.tolist()
            assert found.scores[0].tolist() == pytest.approx(expected.scores[0].tolist())
            assert found.trails.tolist() == expected.trails.tolist()
            there = {(edge.source, edge.target) for edge in index.graph.edges()}
            for place, trail in enumerate(found.trails[0].tolist()):
                if len(trail) > 1 and trail[0] >= 0:
                    near, far = trail
                    edge = {(str(near), str(far)), (str(far), str(near))} & there
                    lowest = min((number for row, other, number in names if (row, other) == (near, far)), default=0)
                    assert found.relations is None or found.relations[0, place].tolist() == [-1 if edge else -2 - lowest]


def test_a_name_brings_what_no_edge_does_and_stands_on_the_path():
    index = GraphIndex.from_texts(TEXTS)
    first = BM25Search(1, returned=False)
    hits = {bridged: Retriever(index, Pipeline(first, PathSearch(bridges=bridged)), backfill=False) for bridged in (0, 2)}
    assert [hit.id for hit in hits[0].retrieve("the film Kismet")] == ["0"]
    found = hits[2].retrieve("the film Kismet")
    assert [hit.id for hit in found] == ["0", "1", "3"]
    assert str(found[1].path) == '0 -["Ada Holm of Lund"]- 1'
    assert found.subgraph().edges == (), "a name is not an edge"
    assert found.subgraph().names == (SharedName("0", "1", '"Ada Holm of Lund"'), SharedName("0", "3", '"Ada Holm of Lund"'))
    assert '    n0 -.-|"#34;Ada Holm of Lund#34;"| n1' in found.subgraph().to_mermaid().splitlines()
    assert [hit.id for hit in hits[2].retrieve("the film Kismet", traversal_filter={"$id": "3"})] == ["0", "3"]


def test_what_a_filter_hides_is_not_named_on_a_path():
    index = GraphIndex.from_texts(["Kismet stars Ada Holm.", "Ada Holm, of Rugby College.", "The old Rugby College."])
    twice = Pipeline(BM25Search(1), PathSearch(bridges=1), PathSearch(bridges=1))
    retriever = Retriever(index, twice, backfill=False)
    question = "Who is in Kismet?"
    assert {str(hit.path) for hit in retriever.retrieve(question)} >= {'0 -["Ada Holm"]- 1 -["Rugby College"]- 2'}
    hidden = retriever.retrieve(question, filter={"$id": {"$ne": "1"}})
    assert [str(hit.path) for hit in hidden] == ["0", "0 - 1 - 2"]
    assert hidden.subgraph().names == (SharedName("0", "1"), SharedName("1", "2"))
    assert hidden.subgraph().to_mermaid().splitlines()[4:] == ["    n0 -.- n2", "    n2 -.- n1"]
    assert hidden.subgraph().to_csv().endswith("src,edge_attr,dst")


def test_bridges_of_a_batch_are_those_of_its_queries():
    index = GraphIndex.from_texts(TEXTS, embedding=HashEmbedding(8))
    retriever = Retriever(index, Pipeline(HybridSearch(2, returned=False), PathSearch(2, bridges=2)))
    questions = [QUESTION, "Which looms?", "Who is Ada Holm?"]
    alone = [[(hit.id, str(hit.path)) for hit in retriever.retrieve(question)] for question in questions]
    assert [[(hit.id, str(hit.path)) for hit in hits] for hits in retriever.retrieve_batch(questions)] == alone


def test_names_are_read_in_the_text_and_not_in_the_title():
    index = GraphIndex.from_texts(["the loom", "Ada Holm", "Lund"], titles=["a Kismet of Ada Holm", "", ""])
    assert bridged(Queries.of(index, ["loom"]), torch.tensor([[0]]), 1)[1].tolist() == []
    named = GraphIndex.from_texts(["the loom of Lund", "Ada Holm", "Lund"], titles=["a Kismet of Ada Holm", "", ""])
    assert bridged(Queries.of(named, ["loom"]), torch.tensor([[0]]), 1)[1].tolist() == [2]


@pytest.mark.parametrize("wrong", [-1, 1.5, "3", True])
def test_a_number_of_bridges_is_a_whole_number_from_0(wrong):
    with pytest.raises(InvalidArgumentError, match="bridges"):
        PathSearch(bridges=wrong)
    index = GraphIndex.from_texts(TEXTS, embedding=HashEmbedding(8))
    for form in ("names", "links", "relations"):
        with pytest.raises(InvalidArgumentError, match="bridges"):
            Retriever(index, WalkFusion(form=form, bridges=wrong))


def test_without_bm25_there_are_no_bridges():
    index = GraphIndex.from_texts(TEXTS, embedding=HashEmbedding(8), bm25=False)
    queries = Queries.of(index, [QUESTION])
    lists = [ranked(Pipeline(VectorSearch(3), PathSearch(bridges=n)), queries).nodes.tolist() for n in (0, 2)]
    assert lists[0] == lists[1]


def test_the_name_on_a_path_is_the_one_that_led_there():
    texts = ["In Norway, Harbour Lights stars Ingrid Moss.", "She went to a school of Norway in Harbour Street."]
    index = GraphIndex.from_texts([*texts, "Moss."], titles=["Harbour Lights", "Ingrid Moss", ""])
    retriever = Retriever(index, Pipeline(BM25Search(1), PathSearch(bridges=1)), backfill=False)
    path = retriever.retrieve("the star of Harbour Lights in Norway")[1].path
    assert path.text == 'Harbour Lights -["Ingrid Moss"]- Ingrid Moss'
    # What follows leaves it where it is, and adds steps of its own.
    first = Retriever(index, Pipeline(BM25Search(1), PathSearch(bridges=1), PathSearch(3)), backfill=False)
    assert first.retrieve("the star of Harbour Lights in Norway")[1].path.relations == ('"Ingrid Moss"',)
    edges = [("1", "2", "x")]
    linked = GraphIndex.from_graph(CorpusGraph(index.graph.ids, index.graph.texts, titles=index.graph.titles, edges=edges))
    walked = Retriever(linked, Pipeline(BM25Search(1), PathSearch(bridges=1), PathSearch(3)), backfill=False)
    paths = {str(hit.path) for hit in walked.retrieve("the star of Harbour Lights in Norway")}
    assert '0 -["Ingrid Moss"]- 1 -[x]-> 2' in paths
    fused = Retriever(index, ReciprocalRankFusion(BM25Search(1), Pipeline(BM25Search(1), PathSearch(bridges=1))), backfill=False)
    assert '0 -["Ingrid Moss"]- 1' in {str(hit.path) for hit in fused.retrieve("the star of Harbour Lights in Norway")}


def test_a_short_trail_beside_longer_ones_keeps_its_name():
    texts = ["the star Ada Holm, kismet", "Ada Holm, a card", "to Lund, a loom", "of Lund, the ferry"]
    index = GraphIndex.from_texts(texts, edges=[("1", "2", "knows"), ("0", "2", "next")])
    twice = Pipeline(BM25Search(1), PathSearch(bridges=1), PathSearch(5, bridges=1))
    found = ranked(twice, Queries.of(index, ["star of kismet"]))
    paths = {str(hit.path) for hit in Retriever(index, twice, backfill=False).retrieve("star of kismet")}
    assert found.trails.shape[2] == 3 and {'0 -["Ada Holm"]- 1', '0 -[next]-> 2 -["Lund"]- 3'} <= paths


def test_an_operator_of_your_own_follows_names():
    class Identity(Operator):
        kind = OperatorKind.MODEL_SEARCH

        def search(self, question, candidates):
            yield from ()
            return replace(candidates, relations=self.relations(candidates.relations))

    index = GraphIndex.from_texts(["Kismet starred Ada Holm.", "Ada Holm grew up in Lund."])
    same = Identity()
    retriever = Retriever(index, Pipeline(BM25Search(1), PathSearch(bridges=1), same), backfill=False)
    same.relations = lambda relations: relations
    assert str(retriever.retrieve("star of Kismet")[1].path) == '0 -["Ada Holm"]- 1'
    for wrong in (lambda relations: None, lambda relations: relations - 1, lambda relations: relations + 1):
        same.relations = wrong
        with pytest.raises(InvalidArgumentError, match="from '0' to '1', which no edge joins and no name in relations"):
            retriever.retrieve("star of Kismet")


def test_an_error_names_the_operator_of_the_path_that_is_wrong_in_a_batch():
    class Breaks(Operator):
        kind = OperatorKind.MODEL_SEARCH

        def search(self, question, candidates):
            yield from ()
            return candidates if "Kismet" in question.text else replace(candidates, relations=None)

    index = GraphIndex.from_texts(["Kismet starred Ada Holm.", "Ada Holm grew up in Lund."])
    retriever = Retriever(index, Pipeline(BM25Search(1), PathSearch(bridges=1), Breaks()), backfill=False)
    with pytest.raises(InvalidArgumentError, match="PathSearch returned a trail with a step from '1' to '0'"):
        retriever.retrieve_batch(["star of Kismet", "grew up in Lund"])


@pytest.mark.parametrize(
    "after",
    [
        Eager().operator(),
        MMR().operator(),
        Scored().operator(),
        ChunkGathering("entities", chunk_types=["passage"]),
        ChunkGathering("entities"),
        ChainSearch(as_trails=True),
    ],
    ids=lambda after: f"{after.name}-{getattr(after, 'chunk_types', '')}",
)
def test_a_name_stays_on_the_path_behind_other_searches(after):
    texts = ["Kismet starred Ada Holm.", "Ada Holm grew up in Lund.", "A loom."]
    graph = CorpusGraph([*"012"], texts, types=["film", "film", "passage"], edges=[("1", "2", "saw")])
    index = GraphIndex.from_graph(graph, embedding=HashEmbedding(8))
    retriever = Retriever(index, Pipeline(BM25Search(1), PathSearch(bridges=1), after), backfill=False)
    paths = {hit.id: str(hit.path) for hit in retriever.retrieve("star of Kismet")}
    expected = {"1": '0 -["Ada Holm"]- 1', "2": '0 -["Ada Holm"]- 1 -[saw]-> 2'}
    assert paths and paths.items() <= {"0": "0", **expected}.items() and paths.keys() & expected.keys()


def test_a_chain_replaces_the_path_and_the_name_on_it():
    index = GraphIndex.from_texts(["Kismet starred Ada Holm.", "Ada Holm.", "A loom."], edges=[("2", "1", "saw"), ("2", "0", "by")])
    bridged = Ranking.of(
        torch.tensor([[0, 1, 2]]),
        torch.tensor([[0.5, 0.4, 0.3]]),
        "Mine",
        torch.tensor([[[-1, 0], [0, 1], [-1, 2]]]),
        relations=torch.tensor([[[-1], [-2], [-1]]]),
    )
    found = ranked(ChainSearch(as_trails=True), Queries.of(index, ["?"]), bridged)
    assert found.trails.tolist() == [[[-1, -1, 0], [0, 2, 1], [-1, 0, 2]]]
    assert found.relations.tolist() == [[[-1, -1]] * 3]
    alone = ranked(ChainSearch(as_trails=True), Queries.of(GraphIndex.from_texts(index.graph.texts), ["?"]), bridged)
    assert (alone.trails.tolist(), alone.relations.tolist()) == (bridged.trails.tolist(), bridged.relations.tolist())


def test_the_relations_of_long_trails_are_cut_with_them():
    long = Candidates(np.array([39]), np.ones(1), np.arange(40)[None], np.zeros(1, np.int64), ("A",), np.full((1, 39), -2))
    longer = ranking_of([reached(long, np.array([0]), np.array([40]), np.ones(1), "B")], torch.device("cpu"))
    assert longer.trails[0, 0].tolist() == [*range(9, 41)] and longer.relations[0, 0].tolist() == [-2] * 30 + [-1]


def test_an_edge_comes_before_a_name():
    index = GraphIndex.from_texts(["a Kismet with Ada Holm", "Ada Holm"], edges=[("1", "0", "in")])
    retriever = Retriever(index, Pipeline(BM25Search(1), PathSearch(bridges=1)), backfill=False)
    assert [str(hit.path) for hit in retriever.retrieve("kismet")] == ["0", "0 <-[in]- 1"]


def share(texts, titles):
    return names_mentioned(CorpusGraph([*map(str, range(len(texts)))], texts, titles=titles))


def test_how_many_texts_name_another_node():
    texts = [
        "It stars Ada Holm.",
        "And she, Ada Holm, was born in LUND",
        "",
        "See the Area 51.",
        "ada holm",
        "In the Tower of London",
    ]
    titles = ["Kismet", "Ada Holm", "Lund", "", "Area 51", "Tower of London"]
    assert share(texts, titles) == 2 / 6, "of two words or more, with capitals, and of another node"
    assert share([""] * 3 + ["ADA HOLM"], ["", "Ada Holm", "", ""]) == 0.0, "a command, or a line in capitals"
    assert share(["of Kismet Ball", "of Kismet Ball"], ["Kismet Ball", "Kismet Ball"]) == 0.0, "its own name"
    assert share(["of Port Lundy", ""], ["x", "Port Lund"]) == 0.0, "whole words"
    manual = ["Print the technical data.", "To print, see Technical data.", "Data of the Print menu.", "Print."]
    assert share(manual, ["Technical data", "Print", "Menu", "Data"]) == 0.0, "headings are words"
    assert share([], []) == 0.0


def test_a_name_in_many_texts_leads_nowhere():
    # Ten texts, or 0.3 % of them.
    for others, expected in ((10, 10 / 12), (11, 0.0)):
        assert share(["See Rust Book."] * others + ["", "A book."], ["x"] * others + ["y", "Rust Book"]) == pytest.approx(
            expected * 12 / (others + 2)
        )


def test_how_many_texts_open_with_their_title():
    encyclopedia = [
        ("Kismet (film)", "Kismet is a film.", True),
        ("Kismet (film)", "Kismet (film)\nKismet is a film.", True),
        ("Ada Holm", "The Ada Holm, born in Lund, is a weaver.", True),
        ("Ada Holm", "Ada Holm\nAda Holm was a weaver.", True),
        ("Ada Holm", "Ada Holm: Ada Holm was a weaver.", True),
        ("东京", "东京是日本的首都。", True),
    ]
    manual = [
        ("Tables", "Tables\nA table has rows.", False),
        ("Tables", "# Tables\n\nA table has rows.", False),
        ("Tables (advanced)", "Tables (advanced)\nA table has rows.", False),
        ("Data Types", "Data Types: each value has one.", False),
        ("Data Types", "Data Types. Each value has one.", False),
        ("Data Types", "Data Types Each value has one.", False),
        ("Data types", "Data types are many.", False),
        ("print", "print shows a text.", False),
        ("PyObject", "PyObject is a structure.", False),
        ("SELECT", "SELECT reads rows.", False),
        ("Loom", "In the old mill, Loom was a word.", False),
        ("", "Nothing has no title.", False),
        ("", "", False),
    ]
    for title, text, expected in (*encyclopedia, *manual):
        assert share([text, "A loom."], [title, ""]) == expected / 2, (title, text)


@pytest.mark.parametrize("folded", [str.lower, str.upper])
def test_in_texts_of_one_case_titles_of_several_words_are_names(folded):
    texts, titles = (
        ["ada holm was a weaver.", "made by ada holm, a loom", "loom shows cards", "os.path"] * 10,
        [*("Ada Holm", "Loom", "Loom", "os.path")] * 10,
    )
    texts = list(map(folded, texts))
    assert share(texts, titles) == 0.25, "those that open with their title"
    assert share([*texts, "A loom", "A mill", "A card"], [*titles, "", "", ""]) == 0.0, "one text in twenty has both cases"


def test_where_most_titles_are_in_capitals_names_are_so_written():
    texts = ["ADA HOLM was born.", "A loom of OTTO VELD, by hand.", "OTTO VELD, a smith.", "SELECT reads rows.", "Of Looms."]
    titles = ["ADA HOLM", "LOOM", "OTTO VELD", "SELECT", "Of Looms"]
    assert share(texts, titles) == 3 / 5
    assert share([*texts, "", ""], [*titles, "Cards", "Mills"]) == 3 / 7
    assert share([*texts, "", "", ""], [*titles, "Cards", "Mills", "Rows"]) == 0.0, "half of the titles are not"


def test_a_sample_of_texts_is_read_once():
    graph = CorpusGraph([*map(str, range(2500))], ["of Lund"] * 2500, titles=["Lund", *["x"] * 2499])
    finds = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(name_table(graph, fold=True)), "find", lambda self, text: finds.append(text) or [])
        names_mentioned(graph), names_mentioned(graph)
    assert len(finds) == 2000, "a sample, read once"
