"""Retrievers on PostgreSQL: the answers in memory, for every system, filter, tenant and scope."""

import json
import os
import random

import numpy as np
import pytest
import torch

from graph_retrievers import (
    GAR,
    KAR,
    Edge,
    FastInsight,
    GraphIndex,
    HybGRAG,
    MoR,
    Node,
    Retriever,
    SpreadingActivation,
    WalkFusion,
)
from graph_retrievers.stores.postgres import PostgresCorpus, PostgresVectors, PostgresWords, open_index, words, write_index
from graph_retrievers.stores.remote import RemoteIndex
from tests.integration.test_scale_out import FILTERS, INPUTS, Hashed
from tests.integration.test_scale_out import SYSTEMS as ON_EVERY_STORE
from tests.integration.test_tenants_on_stores import alone, corpus, strange, tenant
from tests.postgres import drop
from tests.remote import (
    QUESTIONS,
    CountingRelevance,
    MemoryGraph,
    MemoryVectors,
    MemoryWords,
    assert_same,
    index_of,
    question_vectors,
    random_corpus,
    told,
)
from tests.retrievers import on
from tests.walks import WALKS, check_near

pytestmark = pytest.mark.slow
__all__ = ["corpus"]


def model(prompt):
    """A language model that names nodes, writes passages of their words, and at first finds fault with what was found."""
    number = len(prompt) % 9
    if '"passages"' in prompt:
        return json.dumps({"passages": [f"word{number}", "word3 word8"]})
    if '"search"' not in prompt:
        return json.dumps({"entities": [f"Title {number}"], "correct": False, "error": "missing entity"})
    return json.dumps({"search": "graph", "entities": [{"name": f"Title {number}", "relations": [f"r{number % 4}"]}]})


# Those with a language model, which embed what it writes.
WRITING = {
    "kar": (KAR, {"search": "hybrid", "language_model": model, "neighbors": 3}),
    "hybgrag": (HybGRAG, {"language_model": model, "iterations": 3}),
}
SYSTEMS = ON_EVERY_STORE | WRITING


def models_of(name):
    return {"embedding": Hashed()} if "entities" in name or name in WRITING else {}


@pytest.fixture(scope="module")
def engine(postgres_server):
    """A random corpus, its index in memory, and the same in PostgreSQL."""
    made = random_corpus(5, 300, 700)
    index = index_of(made, CountingRelevance())
    with postgres_server.open() as database:
        write_index(index, database, "works")
        yield made, index, database
        drop(database)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("filters", FILTERS, ids=["all", "filter", "filters"])
def test_the_answers_are_those_in_memory(engine, name, filters):
    system, options, *_ = SYSTEMS[name]
    made, index, database = engine
    vectors, inputs = question_vectors(made), INPUTS.get(name, {})
    models = models_of(name)
    remote = open_index(database, "works", relevance=CountingRelevance(), **models)
    retriever, local = on(remote, system, **options), on(index.with_models(**models), system, **options)
    batch = retriever.retrieve_batch(QUESTIONS, vectors=vectors, **filters, **inputs)
    assert_same(batch, local.retrieve_batch(QUESTIONS, vectors=vectors, **filters, **inputs))
    assert any(len(hits.nodes) > 3 for hits in batch)
    one = {key: values[1] for key, values in inputs.items()}
    assert_same(
        [retriever.retrieve(QUESTIONS[1], vector=vectors[1], **filters, **one)],
        [local.retrieve(QUESTIONS[1], vector=vectors[1], **filters, **one)],
    )
    assert retriever.retrieve_batch([], **filters) == []


@pytest.mark.parametrize("name", WALKS)
@pytest.mark.parametrize("filters", [*FILTERS, {"scope": {"$type": "film"}}], ids=["all", "filter", "filters", "scope"])
def test_walks_have_the_shares_in_memory(engine, name, filters):
    system, expected = WALKS[name]
    made, index, database = engine
    remote, vectors = Retriever(open_index(database, "works"), system, backfill=False), question_vectors(made)
    local = Retriever(index, expected, backfill=False)
    check_near(*(each.retrieve_batch(QUESTIONS, 30, vectors=vectors, **filters) for each in (remote, local)))


# -- a hundred tenants on one index -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(corpus, postgres_server):
    """The index of all tenants in PostgreSQL."""
    nodes, edges, vectors = corpus
    with postgres_server.open() as database:
        write_index(GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine"), database, "shared")
        yield database
        drop(database)


@pytest.mark.parametrize("place", range(len(SYSTEMS)), ids=list(SYSTEMS))
def test_a_tenant_gets_the_answers_of_an_index_of_its_own(corpus, shared, place):
    """Words too are those of the scope: how rare they are, and how long its texts."""
    name = list(SYSTEMS)[place]
    system, options, *_ = SYSTEMS[name]
    models = models_of(name)
    vectors, inputs, found = question_vectors(corpus), INPUTS.get(name, {}), 0
    retriever = on(open_index(shared, "shared", relevance=CountingRelevance(), **models), system, **options)
    for number in range(place, 100, len(SYSTEMS)):
        own = alone(corpus, number, relevance=CountingRelevance(), **models)
        batch = retriever.retrieve_batch(QUESTIONS, vectors=vectors, scope=tenant(number), **inputs)
        assert_same(batch, on(own, system, **options).retrieve_batch(QUESTIONS, vectors=vectors, **inputs))
        assert [strange(hits, number, own) for hits in batch] == [[]] * len(QUESTIONS)
        found += sum(map(len, batch))
    assert found > 20


def test_other_filters_narrow_a_scope_and_a_batch_may_have_a_scope_each(corpus, shared):
    vectors = question_vectors(corpus)
    filters = {"filter": {"$type": {"$ne": "place"}}, "traversal_filter": {"year": {"$gte": 1993}}}
    system = FastInsight(budget=12, nodes_per_round=4)
    retriever = Retriever(open_index(shared, "shared", relevance=CountingRelevance()), system)
    numbers = [1, 2, 1, 3]
    batch = retriever.retrieve_batch(QUESTIONS, vectors=vectors, scope=list(map(tenant, numbers)), **filters)
    for hits, question, vector, number in zip(batch, QUESTIONS, vectors, numbers, strict=True):
        own = Retriever(alone(corpus, number, relevance=CountingRelevance()), system)
        assert_same([hits], [own.retrieve(question, vector=vector, **filters)])
    hostile = ["T4x' OR true --", "T4x'); SELECT 1; --", "%(scope_0)s", "{nodes}", "\x00"]
    assert [list(retriever.retrieve("?", vector=vectors[0], scope={"tenant": name})) for name in hostile] == [[]] * 5


# -- words ------------------------------------------------------------------------------------------------------------


def test_words_are_those_of_bm25(postgres):
    texts = ["a loom of oak", "A loom of oak", "the loom, the loom", "", "oak and ash", "a loom of oak"] * 3
    ids = [f"{99 - row}" for row in range(len(texts))]
    index = GraphIndex.from_texts(texts, ids=ids)
    write_index(index, postgres, "works")
    stored = PostgresWords(PostgresCorpus(postgres, "works"))
    asked = ["oak", "which oak loom? a LOOM!", "nothing", "...", "oak"]
    scores, rows = index.bm25.search(asked, 18)
    found = stored.search(asked, 99)
    for pairs, row, score in zip(found, rows.tolist(), scores.tolist(), strict=True):
        assert dict(pairs) == pytest.approx({ids[r]: s for r, s in zip(row, score, strict=True) if r >= 0}, rel=1e-6)
        # Ties by their places.
        assert [name for name, _ in pairs] == [ids[r] for r in row if r >= 0]
    assert [len(each) for each in stored.search(asked, 2)] == [2, 2, 0, 0, 2] and stored.search([], 3) == []
    terms = stored.term_scores([("oak loom loom", ids), ("...", ids[:2]), ("ash", []), ("oak", ["nobody"])])
    assert [len(each) for each in terms] == [2, 0, 1, 1] and terms[2:] == [[{}], [{}]]
    sums = [sum(scores.get(name, 0.0) for scores in terms[0]) for name in ids]
    whole = index.bm25.scores(["oak loom loom"], torch.zeros(18, dtype=torch.int64), torch.arange(18))
    np.testing.assert_allclose(sums, whole, rtol=1e-6)
    scoped = stored.within(ids[:5])
    own = index.within({"$id": {"$in": ids[:5]}}).bm25
    scores, rows = own.search(asked, 5)
    for pairs, row, score in zip(scoped.search(asked, 9), rows.tolist(), scores.tolist(), strict=True):
        assert dict(pairs) == pytest.approx({ids[r]: s for r, s in zip(row, score, strict=True) if r >= 0}, rel=1e-6)
    assert scoped.within([]).search(asked, 9) == [[]] * 5


@pytest.mark.parametrize(("few", "rows"), [(0, 0), (60, 1), (0, 50), (60, 1000)])
def test_common_words_change_no_result_where_their_rows_are_not_read(few, rows, postgres, monkeypatch):
    """Words with Zipf's frequencies, of which the first are in nearly every text."""
    monkeypatch.setattr(words, "_FEW", few)
    monkeypatch.setattr(words, "_ROWS", rows)
    draw = np.random.default_rng(few + rows)
    share = 1 / np.arange(1, 61)
    texts = [" ".join(f"w{word}" for word in draw.choice(60, draw.integers(1, 15), p=share / share.sum())) for _ in range(400)]
    ids, metadatas = [f"n{draw.integers(1 << 40)}" for _ in texts], [{"third": row % 3 == 0} for row in range(400)]
    index = GraphIndex.from_texts(texts, ids=ids, metadatas=metadatas)
    write_index(index, postgres, "works")
    stored = PostgresWords(PostgresCorpus(postgres, "works"))
    asked = [" ".join(f"w{word}" for word in draw.choice(60, 5, p=share / share.sum())) for _ in range(60)]
    part = index.within({"third": True})
    for store, own in ((stored, index), (stored.within(part.graph.ids), part)):
        for k in (1, 10, 100):
            scores, rows = own.bm25.search(asked, k)
            for pairs, row, score in zip(store.search(asked, k), rows.tolist(), scores.tolist(), strict=True):
                expected = {own.graph.ids[r]: each for each, r in zip(score, row, strict=True) if r >= 0}
                # Texts of other words may have the same score up to rounding.
                assert [found for _, found in pairs] == pytest.approx(list(expected.values()), rel=1e-5)
                sure = {name: found for name, found in pairs if found > (1 + 1e-5) * pairs[-1][1]}
                assert sure == pytest.approx({name: expected[name] for name in sure}, rel=1e-5)


def test_words_that_are_equally_rare_tie_in_the_order_of_the_texts(postgres):
    """Whichever is read first, and although the texts have none in common."""
    write_index(GraphIndex.from_texts(["oak", "ash", "elm"], ids=["z", "y", "x"]), postgres, "works")
    stored = PostgresWords(PostgresCorpus(postgres, "works"))
    for asked in ("oak ash elm", "elm ash oak", "ash elm oak"):
        for k in (1, 2, 3):
            assert [name for name, _ in stored.search([asked], k)[0]] == ["z", "y", "x"][:k]


def test_a_text_with_two_common_words_comes_before_one_with_a_rare_word(postgres, monkeypatch):
    """Where each of the two counts less than the rare word, and both more."""
    monkeypatch.setattr(words, "_FEW", 0)
    texts = [
        "zither " + "wood " * 119,
        "loom loom loom card card card",
        *["loom card iron " + "wood " * 20] * 118,
        *["wood " * 20] * 80,
    ]
    index = GraphIndex.from_texts(texts)
    write_index(index, postgres, "works")
    alone = [index.bm25.search([word], 1)[0].item() for word in ("zither", "loom", "card")]
    assert max(alone[1:]) < alone[0] < sum(alone[1:])
    ((best,),) = PostgresWords(PostgresCorpus(postgres, "works")).search(["zither loom card"], 1)
    assert best == ("1", pytest.approx(sum(alone[1:]), rel=1e-6))


def test_the_order_of_the_rows_of_words_changes_no_result(postgres):
    """As after changes, where rows take the place of others."""
    write_index(GraphIndex.from_texts(["loom oak", "card loom", "loom mill", "card mill loom"]), postgres, "works")
    stored, asked = PostgresWords(PostgresCorpus(postgres, "works")), ["loom card", "mill loom", "loom"]
    expected = [stored.search(asked, k) for k in (1, 2, 4)]
    with postgres.writing() as writing:
        writing.run("CREATE TEMPORARY TABLE kept ON COMMIT DROP AS SELECT * FROM {words}")
        writing.run("DELETE FROM {words}")
        writing.run("INSERT INTO {words} SELECT * FROM kept ORDER BY node DESC, term")
    assert [stored.search(asked, k) for k in (1, 2, 4)] == expected


def test_equal_vectors_are_found_in_the_order_of_the_nodes(postgres):
    """Also where the first of them was written last, and an id that sorts before it comes after it."""
    ids = ["z", *(f"n{row}" for row in range(30))]
    for some in (ids[1:], ids):
        index = GraphIndex.from_texts(["loom"] * len(some), ids=some, vectors=np.ones((len(some), 2)), metric="cosine")
        write_index(index, postgres, "works")
    stored = PostgresVectors(PostgresCorpus(postgres, "works"))
    for vector in ([1.0, 1.0], [-2.0, 1.0], [0.0, 0.0]):
        for k in (1, 3, 40):
            assert stored.search(np.array([vector], np.float32), k) == [ids[:k]]


def test_each_vector_has_the_cosines_of_its_own_ids(postgres):
    index = GraphIndex.from_texts(["loom", "card", "mill"], ids=["a", "b", "c"], vectors=[[1, 0], [0, 3], [-1, 0]], metric="cosine")
    write_index(index, postgres, "works")
    stored, asked = PostgresVectors(PostgresCorpus(postgres, "works")), np.array([[2, 0], [0, 1], [0, 0], [3, 4]], np.float32)
    pairs = list(zip(asked, [["a", "c"], ["c", "b", "nobody"], ["b"], []], strict=True))
    assert stored.cosines(pairs) == [{"a": 1.0, "c": -1.0}, {"b": 1.0, "c": 0.0}, {"b": 0.0}, {}]
    assert stored.nearest(asked[:3], 2) == [[("a", 1.0), ("b", 0.0)], [("b", 1.0), ("a", 0.0)], [("a", 0.0), ("b", 0.0)]]
    assert stored.cosines([]) == stored.nearest(np.zeros((0, 2), np.float32), 2) == []


# -- random graphs ----------------------------------------------------------------------------------------------------

# GRAPH_RETRIEVERS_CASES=2000 compares so many.
CASES = int(os.environ.get("GRAPH_RETRIEVERS_CASES", 40))
IDS = ["a", "A", "ä", "a\x00", "\x00", "\x01\x02", "😀", "𝔘", "\uffff", "\ue000", "%s", "{nodes}", "'", "--", "$$", "\\", " ", "\t"]
IDS += ['"', "\r\n", ";", "/*", "%(corpus)s", "$1", "E'\\x'", "'; DROP SCHEMA x; --", "NULL", "\u202e", "a\u0308"]
# A character of every plane of Unicode behind the first.
IDS += [chr((plane << 16) + 0x21 * plane) for plane in range(1, 17)]
WORDS = ["loom", "card", "Ada", "Holm", "mill", "漢字", "ﬁ", "word", "Kismet", "İstanbul", "ı", "x1"]


def words_of(draw, count):
    """Some words, of which one in five is a text that a database may misread."""
    return " ".join(draw.choice(IDS if draw.random() < 0.2 else WORDS) for _ in range(count))


def odd_corpus(seed):
    """A small graph with odd ids, shared titles, ties of vectors and texts, parallel edges, loops, and metadata of any shape."""
    draw = random.Random(seed)
    size = draw.randint(1, 25)
    ids = draw.sample([a + b for a in IDS for b in ["", *IDS]], size)
    types, relations = ["", "film", draw.choice(IDS)], ["", "r", draw.choice(IDS)]
    nodes = []
    for name in ids:
        text = words_of(draw, draw.choice([0, 1, 3, 8]))
        title = words_of(draw, draw.choice([0, 1, 2])) if draw.random() < 0.7 else draw.choice(IDS)
        metadata = {draw.choice(["year", "tags", "in", "a.b", *IDS]): shape(draw) for _ in range(draw.randint(0, 3))}
        nodes.append(Node(name, text, title, draw.choice(types), metadata))
    ends = [draw.choices(ids, k=2) for _ in range(draw.choice([0, size, 4 * size]))]
    edges = [
        Edge(a, b, draw.choice(relations), draw.choice([1.0, 0.5]), draw.choice(["", *IDS]))
        for a, b in ends
        for _ in range(draw.choice([1, 1, 2]))
    ]
    vectors = np.random.default_rng(seed).integers(-1, 2, (size, 3)) + [0.5, 0.25, 0.0]
    return nodes, edges, vectors.astype(np.float32)


def shape(draw, depth=0):
    kind = draw.randrange(8 if depth < 3 else 6)
    if kind < 6:
        return [None, draw.random() < 0.5, draw.randint(-2, 3), draw.choice([0.5, 1e300, 1e23]), draw.choice(IDS), "2024-05-01"][
            kind
        ]
    if kind == 6:
        return [shape(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    return {draw.choice(["a", "b", "c.d", *IDS]): shape(draw, depth + 1) for _ in range(draw.randint(0, 3))}


def odd_filter(draw, nodes):
    node = draw.choice(nodes)
    parts = [
        {"$id": {"$in": [draw.choice(nodes).id for _ in range(9)]}},
        {"$type": {"$ne": node.type}},
        {"$type": draw.choice(IDS)},
        {draw.choice(IDS[:14]): draw.choice([draw.choice(IDS), {"$exists": False}, {"$ne": draw.choice(IDS)}])},
        {"$title": {"$gte": node.title}},
        {"$not": {"year": {"$gt": 1}}},
        {"$id": {"$lt": draw.choice(IDS[3:])}},
        {"in.a": {"$exists": False}},
        *({key: {"$eq": value}} for key, value in node.metadata.items() if not key.startswith("$")),
    ]
    return draw.choice(parts)


def embedded(texts):
    """A vector for every text, drawn by its characters."""
    return [np.random.default_rng(sum(map(ord, text))).normal(size=3).tolist() for text in texts]


def odd_inputs(draw, nodes, edges):
    """For each of two questions titles to start from, and a path of types and relations."""
    types, relations = [node.type for node in nodes], [*(edge.relation for edge in edges), draw.choice(IDS)]
    names = [*(node.title for node in nodes), draw.choice(IDS)]
    return {
        "entities": [draw.choices([name for name in names if name.strip()] or ["x"], k=2) for _ in range(2)],
        "plan": [
            [
                {"type": draw.choice(types), "restriction": words_of(draw, 2)},
                {"type": draw.choice(types), "relation": draw.choice(relations)},
            ]
            for _ in range(2)
        ],
    }


SYSTEM = {
    "links": WalkFusion(form="links", bridges=1),
    "names": WalkFusion(form="names", depth=9),
    "gar": GAR(budget=5),
    "fastinsight": FastInsight(budget=5),
    "entities": SpreadingActivation(chains=None, hub_exponent=0.25),
    "plan": MoR(candidates=6),
}


@pytest.mark.parametrize("seed", range(CASES))
def test_random_graphs_give_the_answers_in_memory(postgres_server, seed, request):
    nodes, edges, vectors = odd_corpus(seed)
    draw, index = random.Random(seed), GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine")
    index = index.with_models(embedding=embedded)
    # One schema for all: each takes the place of the one before, or lies beside it.
    database = postgres_server.open("random_graphs")
    if seed == CASES - 1:
        request.addfinalizer(lambda: drop(postgres_server.open("random_graphs")))
    with database:
        write_index(index, database, IDS[seed % 7], replace=True)
        remote = open_index(database, IDS[seed % 7], embedding=embedded)
        stores = {"vectors": MemoryVectors(index.graph.ids, vectors), "words": MemoryWords(index)}
        plain = RemoteIndex(MemoryGraph(index.graph), embedding=embedded, **stores)
        for name, system in SYSTEM.items():
            retriever, local = Retriever(remote, system, k=4), Retriever(index, system, k=4)
            inputs = {key: value for key, value in odd_inputs(draw, nodes, edges).items() if key == name}
            for filters in ({}, {"filter": odd_filter(draw, nodes)}, {"scope": odd_filter(draw, nodes)}):
                if "scope" in filters:
                    # What is told of names is told of the whole graph, as with any other store.
                    local = Retriever(plain, system, k=4)
                texts = [words_of(draw, 3) for _ in range(2)]
                own = np.random.default_rng(seed).normal(size=(2, 3)).astype(np.float32)
                expected = local.retrieve_batch(texts, vectors=own, **filters, **inputs)
                found = retriever.retrieve_batch(texts, vectors=own, **filters, **inputs)
                # Notes on edges are those of the whole graph there.
                assert list(map(told, found)) == list(map(told, expected)), (name, filters)
                scores = [[hit.score for hits in each for hit in hits] for each in (found, expected)]
                np.testing.assert_allclose(*scores, rtol=1e-6, atol=1e-6)
