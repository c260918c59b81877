"""Spreading activation inside a graph database, over Bolt, against a real server."""

import asyncio
import logging
import re
import subprocess
import sys
import threading
import zlib
from dataclasses import replace

import neo4j
import numpy as np
import pytest

from graph_retrievers import Retriever
from graph_retrievers.errors import (
    DatabaseAuthError,
    DatabaseError,
    DatabaseUnreachableError,
    DimensionMismatchError,
    EmptyGraphError,
    InvalidArgumentError,
    InvalidVectorError,
    MissingDatabaseFeatureError,
    MissingSignalError,
)
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.hits.of_candidates import NOTHING_FOUND
from graph_retrievers.index import GraphIndex
from graph_retrievers.stores.changes import Changes
from graph_retrievers.stores.cypher import (
    CypherDatabase,
    CypherSpreadingActivation,
    GraphSchema,
    create_vector_index,
    index_names,
    write_graph,
)
from graph_retrievers.stores.cypher import database as database_module
from graph_retrievers.stores.cypher.schema import quoted
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.retriever import SpreadingActivation
from tests.retrievers import on

DIMENSION = 16


class RandomEmbedding:
    """A unit vector for every text, drawn by its hash."""

    def embed_query(self, text):
        vector = np.random.default_rng(zlib.crc32(text.encode())).normal(size=DIMENSION)
        return (vector / np.linalg.norm(vector)).astype(np.float32)

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def random_index(count, edges, seed=0):
    """A random graph: names that two nodes share, parallel edges, self loops, nodes without a vector."""
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[::17] = 0
    names = [f"Name {i // 2 if i < 20 else i}" for i in range(count)]
    nodes = [Node(f"id{i}", f"Text {i}.", name, ("EVEN", "ODD")[i % 2], {"row": i}) for i, name in enumerate(names)]
    ends = draw.integers(0, count, size=(edges, 2)).tolist() + [[1, 2], [1, 2], [2, 1], [3, 3]]
    rows = [(f"id{a}", f"id{b}", f"r{i % 3}") for i, (a, b) in enumerate(ends)] + [("id1", "id2", "r0"), ("id1", "id2", "r0")]
    return GraphIndex.from_nodes(nodes, rows, vectors=vectors, embedding=RandomEmbedding(), bm25=False)


QUESTIONS = [
    ("Who?", ["Name 45"]),
    ("Who else?", ["name 3", "Nobody", "Name 77", "Nowhere"]),
    ("Did Name 5 meet Name 66 and name 8?", None),
    ("Nothing that is there", None),
    ("And nothing at all", []),
    ("Too many", ["a", "b", "c", "d", "e", "f"]),
]


def outside(index, question, entities, gate="cosine", fallback_score="cosine"):
    """What the engine gives in this process."""
    linking = EntityLinking(fallback_score=fallback_score)
    return Retriever(index, SpreadingActivation(gate=gate, linking=linking), backfill=False).retrieve(question, entities=entities)


def entities_of(hits):
    return [hit for hit in hits if hit.kind == "node"]


def assert_same(found, expected):
    """The same nodes and chains, scores to 1e-6 and paths; the order wherever scores differ by more."""
    for kind in ("node", "chain"):
        ours, others = ([hit for hit in hits if hit.kind == kind] for hits in (found, expected))
        by_id = {hit.id: hit for hit in others}
        assert {hit.id for hit in ours} == set(by_id)
        for hit in ours:
            other = by_id[hit.id]
            assert hit.score == pytest.approx(other.score, rel=1e-6, abs=1e-6)
            assert replace(hit, score=0.0) == replace(other, score=0.0)
            assert other.similarity is None or hit.similarity == pytest.approx(other.similarity, abs=1e-6)
        assert all(one.score >= other.score for one, other in zip(ours, ours[1:], strict=False))
        for one, other in zip(ours, others, strict=True):
            assert one.id == other.id or abs(one.score - other.score) < 2e-6 * max(1, one.score)
    assert [hit.kind for hit in found] == [hit.kind for hit in expected]


def in_both(cypher_server, count, edges):
    index = random_index(count, edges)
    opened = cypher_server.open()
    write_graph(opened, index)
    yield index, opened
    cypher_server.clean(opened)


@pytest.fixture(scope="module")
def written(cypher_server):
    """A random graph of 300 nodes, in this process and in the database."""
    yield from in_both(cypher_server, 300, 600)


@pytest.fixture(scope="module")
def large(cypher_server):
    """One of 3,000 nodes."""
    yield from in_both(cypher_server, 3000, 9000)


@pytest.mark.parametrize("dedupe", ["after_limit", "before_limit"])
@pytest.mark.parametrize("semantics", ["set", "rows"])
@pytest.mark.parametrize("gate", ["cosine", "uniform"])
@pytest.mark.parametrize("graph", ["written", "large"])
def test_the_database_gives_what_the_engine_gives(request, cypher_server, graph, gate, semantics, dedupe):
    index, database = request.getfixturevalue(graph)
    search = ChainSearch(semantics=semantics, dedupe=dedupe)
    options = {"gate": gate, "semantics": semantics, "k": len(index), "backfill": False}
    engine = on(index, SpreadingActivation, chains="hits", chain_search=search, **options)
    options.pop("backfill")
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), chains="hits", chain_search=search, **options)
    for question, entities in QUESTIONS if graph == "written" else QUESTIONS[1:3]:
        found = inside.retrieve(question, entities=entities)
        expected = engine.retrieve(question, entities=entities)
        assert_same(found, expected)
        assert found.notes == expected.notes


@pytest.mark.parametrize("passages", [True, False])
@pytest.mark.parametrize("gate", ["cosine", "uniform"])
def test_passages_and_paths_by_chains_are_those_of_the_engine(written, gate, passages):
    index, database = written
    options = {"gate": gate, "passages": passages, "passage_type": "ODD", "chains": "path", "k": 50}
    engine = on(index, SpreadingActivation, backfill=False, **options)
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), **options)
    for question, entities in QUESTIONS[:3]:
        found, expected = inside.retrieve(question, entities=entities), engine.retrieve(question, entities=entities)
        assert_same(found, expected)
        # In memory the uniform gate does not embed the question.
        assert all((hit.similarity is None) is (gate == "uniform") for hit in expected)
        assert any(hit.similarity is not None for hit in found)
        assert {hit.type for hit in found} <= {"ODD" if passages else "EVEN"}


# -- worked numbers ------------------------------------------------------------------------------------------------

GATES = {"s1": 0.9, "s2": 0.2, "a": 0.8, "b": -0.1, "c": 0.5, "d": 0.6}
EDGES = [("s1", "a"), ("a", "s1"), ("s1", "b"), ("b", "c"), ("a", "c"), ("s2", "c"), ("c", "d")]
WORKED = {
    ("rows", 1): {"s1": 1, "s2": 0.8, "a": 1.12, "c": 0.28},
    ("rows", 2): {"s1": 2.4112, "s2": 0.8, "a": 1.12, "c": 0.952, "d": 0.1176},
    ("rows", 3): {"s1": 2.4112, "s2": 0.93328, "a": 3.820544, "c": 1.344, "d": 0.51744},
    ("set", 1): {"s1": 1, "s2": 0.8, "a": 0.56, "c": 0.28},
    ("set", 2): {"s1": 1, "s2": 0.8, "a": 1.12, "c": 0.756, "d": 0.1176},
    ("set", 3): {"s1": 1.7056, "s2": 0.8, "a": 1.12, "c": 1.428, "d": 0.43512},
}


class Axes:
    """The question is the first axis; "like s2" makes the cosine .6 with s2, so that its index score is .8."""

    def __init__(self):
        self.nodes = np.zeros((len(GATES), len(GATES) + 2), np.float32)
        for row, gate in enumerate(GATES.values()):
            self.nodes[row, [0, row + 1]] = gate, (1 - gate * gate) ** 0.5

    def embed_query(self, text):
        axes = np.eye(len(GATES) + 2, dtype=np.float32)
        return 0.6 * self.nodes[1] + 0.8 * axes[-1] if text == "like s2" else axes[0]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def worked(database, without=(), **options):
    """The hits on the graph of the worked example, with s1 = 1 and s2 = .8 at the start."""
    axes = Axes()
    axes.nodes[[list(GATES).index(name) for name in without]] = 0
    graph = CorpusGraph(list(GATES), [""] * 6, titles=list(GATES), edges=[(s, t, f"{s} to {t}") for s, t in EDGES])
    write_graph(database, graph, axes.nodes)
    linking = EntityLinking(budget=2, fallback_score="index")
    retriever = CypherSpreadingActivation(database, embedding=axes, linking=linking, **options)
    return retriever.retrieve("question", entities=["s1", "like s2"])


def activations(hits):
    return {hit.id: hit.score for hit in entities_of(hits)}


@pytest.mark.parametrize(("semantics", "steps"), WORKED)
def test_worked_activations(database, semantics, steps):
    assert activations(worked(database, semantics=semantics, steps=steps)) == pytest.approx(WORKED[semantics, steps], abs=1e-6)


def test_a_node_without_a_vector_never_receives_but_for_the_uniform_gate(database):
    found = activations(worked(database, without=["a"], semantics="rows"))
    assert found == pytest.approx({"s1": 1, "s2": 0.8, "c": 0.84, "d": 0.3528}, abs=1e-6)
    uniform = activations(worked(database, without=["a"], semantics="rows", gate="uniform", steps=1))
    assert uniform == pytest.approx({"s1": 1, "s2": 0.8, "a": 1.4, "b": 0.7, "c": 0.56}, abs=1e-6)


def worked_chains(database, **options):
    search = ChainSearch(**{"semantics": "rows", **options})
    return [hit for hit in worked(database, semantics="rows", chains="hits", chain_search=search) if hit.kind == "chain"]


def test_worked_chains(database):
    chains = worked_chains(database)
    assert [(hit.path.nodes, round(hit.score, 6)) for hit in chains] == [
        (("s1", "a", "c", "s2"), 2.127256),
        (("s1", "a", "c", "d"), 2.023296),
        (("s2", "c", "d"), 0.931573),
    ]
    assert chains[0].text == "s1 -[s1 to a]-> a -[a to c]-> c <-[s2 to c]- s2"
    assert [hit.path.nodes for hit in worked_chains(database, limit=4)] == [("s1", "a", "c")]
    assert [hit.path.nodes for hit in worked_chains(database, length=1)] == [("s1", "a"), ("s2", "c")]
    assert [hit for hit in worked(database) if hit.kind == "chain"] == []


def test_a_search_cut_short_says_so(database):
    search = ChainSearch(semantics="rows", width=1)
    hits = worked(database, semantics="rows", chains="hits", chain_search=search)
    assert "the chains may not be the best: more than 1 prefixes were under way" in hits.notes
    assert not any("prefixes" in note for note in worked(database, semantics="rows", chains="hits").notes)


# -- dialects ------------------------------------------------------------------------------------------------------


def test_every_form_of_cosine_gives_the_same(written, monkeypatch):
    index, database = written
    native = CypherSpreadingActivation(database, embedding=RandomEmbedding()).retrieve("Who?", entities=["Name 45"])
    found = [database.cosine]
    # A database without any such function.
    monkeypatch.setattr(database_module, "_COSINES", ("absent.similarity.cosine({a}, {b})",))
    found.append(database._find_cosine())
    # A database whose cosine is (1 + cos) / 2.
    halved = f"((1 + {database.cosine}) / 2)"
    monkeypatch.setattr(database_module, "_COSINES", (halved,))
    found.append(database._find_cosine())
    assert found[2] == f"(2 * {halved} - 1)" and "reduce" in found[1]
    for cosine in found[1:]:
        monkeypatch.setattr(database, "cosine", cosine)
        assert_same(CypherSpreadingActivation(database, embedding=RandomEmbedding()).retrieve("Who?", entities=["Name 45"]), native)


def test_subqueries_of_older_servers_give_the_same(written, monkeypatch):
    _, database = written
    retriever = CypherSpreadingActivation(database, embedding=RandomEmbedding(), chains="hits")
    expected = [retriever.retrieve(question, entities=entities) for question, entities in QUESTIONS]
    monkeypatch.setattr(database, "scoped", not database.scoped)
    for (question, entities), hits in zip(QUESTIONS, expected, strict=True):
        again = retriever.retrieve(question, entities=entities)
        assert_same(again, hits)
        assert again.notes == hits.notes


def vector_index(cypher_server, database):
    schema = database.schema
    if cypher_server.process is None:
        create_vector_index(database, f"{schema.label}_vectors", DIMENSION)
        database.read("CALL db.awaitIndexes(60)")
        return f"{schema.label}_vectors"
    with pytest.raises(MissingDatabaseFeatureError) as caught:
        create_vector_index(database, f"{schema.label}_vectors", DIMENSION)
    # The message holds the statements, which are run as they stand.
    for statement in re.search(r"CREATE PROPERTY .*\}", str(caught.value)).group().split("; "):
        cypher_server.sql(statement)
    return re.search(r"vector_index='([^']*)'", str(caught.value)).group(1)


def test_fallback_seeds_from_a_vector_index(cypher_server, database):
    index = random_index(300, 600)
    write_graph(database, index)
    name = vector_index(cypher_server, database)
    for score in ("cosine", "index"):
        linking = EntityLinking(fallback_score=score)
        retriever = CypherSpreadingActivation(database, embedding=RandomEmbedding(), vector_index=name, linking=linking)
        for question, entities in QUESTIONS[1:4]:
            assert_same(retriever.retrieve(question, entities=entities), outside(index, question, entities, fallback_score=score))
    # Without the odd ones, and after another write.
    write_graph(database, index)
    narrow = {"passages": False, "passage_type": "ODD"}
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), vector_index=name, **narrow)
    engine = Retriever(index, SpreadingActivation(**narrow), backfill=False)
    assert_same(inside.retrieve(QUESTIONS[3][0]), engine.retrieve(QUESTIONS[3][0]))
    assert_same(retriever.retrieve(QUESTIONS[3][0]), outside(index, *QUESTIONS[3], fallback_score=score))
    if cypher_server.process is None:
        database.write(f"DROP INDEX `{name}` IF EXISTS")


# -- one round trip ------------------------------------------------------------------------------------------------


def test_a_question_is_one_round_trip(written, caplog):
    _, database = written
    retriever = CypherSpreadingActivation(database, embedding=RandomEmbedding(), chains="hits")
    retriever.retrieve(QUESTIONS[2][0])
    for question, entities in QUESTIONS:
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger="neo4j.io"):
            retriever.retrieve(question, entities=entities)
        sent = [record.getMessage() for record in caplog.records]
        assert sum("C: RUN" in line for line in sent) == 1
        assert not any("C: BEGIN" in line or "C: COMMIT" in line for line in sent)


# -- writing -------------------------------------------------------------------------------------------------------


def state(database):
    label = database.schema.label
    nodes = database.read(f"MATCH (n:`{label}`) RETURN properties(n) AS p")
    edges = database.read(f"MATCH (a:`{label}`)-[e]->(b) RETURN a.id AS a, b.id AS b, properties(e) AS p")
    return sorted(map(repr, (sorted(row["p"].items()) for row in nodes))), sorted(map(repr, edges))


def test_a_graph_written_twice_stands_there_once(database):
    index = random_index(60, 120)
    write_graph(database, index, batch_size=7)
    once = state(database)
    assert (len(once[0]), len(once[1])) == (60, index.graph.num_edges)
    write_graph(database, index)
    assert state(database) == once


def test_a_changed_graph_changes_what_stands_there(database):
    before = CorpusGraph(["a", "b"], ["old", "b"], metadata=[{"x": 1}, {}], edges=[("a", "b", "r")])
    write_graph(database, before, [[1.0, 0.0], [0.0, 1.0]])
    after = CorpusGraph(["a", "b", "c"], ["new", "b", "c"], edges=[("a", "b", "r"), ("c", "a", "r")])
    write_graph(database, after, [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    rows = {row["p"]["id"]: row["p"] for row in database.read(f"MATCH (n:`{database.schema.label}`) RETURN properties(n) AS p")}
    assert rows["a"]["description"] == "new" and "metadata" not in rows["a"] and "embedding" not in rows["a"]
    assert set(rows) == {"a", "b", "c"} and len(state(database)[1]) == 2


def test_properties_of_other_names_are_written(cypher_server, database):
    graph = CorpusGraph(["a", "b"], ["A loom.", "A card."])
    assert write_graph(database, graph)[0] == Changes(2)
    with cypher_server.open(schema=GraphSchema(label=database.schema.label, text="body")) as other:
        assert [write_graph(other, graph)[0] for _ in range(2)] == [Changes(2), Changes()]
        rows = other.read(f"MATCH (n:`{other.schema.label}`) RETURN n.body AS body ORDER BY body")
    assert [row["body"] for row in rows] == ["A card.", "A loom."]


def test_a_graph_that_is_pruned_takes_the_place_of_what_stood_there(database):
    before = CorpusGraph(["a", "b", "c"], ["old"] * 3, edges=[("a", "b", "r"), ("a", "b", "r"), ("c", "a", "r"), ("b", "c", "q")])
    write_graph(database, before)
    label, after = database.schema.label, CorpusGraph(["c", "a"], ["old", "new"], edges=[("a", "c", "r"), ("c", "a", "r")])
    # A relationship of others, and one fewer of equal ones.
    database.write(f"MATCH (a:`{label}` {{id: 'a'}}), (c:`{label}` {{id: 'c'}}) CREATE (c)-[:RELATES_TO]->(a)")
    assert write_graph(database, after) == (Changes(1, 1), Changes(1, 1))
    assert (len(state(database)[0]), len(state(database)[1])) == (3, 6)
    fewer = CorpusGraph(["c", "a"], ["old", "new"], edges=[("a", "c", "r"), ("c", "a", "r")])
    assert write_graph(database, fewer, prune=True) == (Changes(0, 0, 1), Changes(0, 0, 1))
    pruned = state(database)
    database.write(f"MATCH (n:`{label}`) DETACH DELETE n")
    write_graph(database, fewer)
    assert state(database) == pruned
    database.write(f"CREATE (:`{label}` {{id: 'theirs'}})")
    with pytest.raises(InvalidArgumentError, match="1 of the 3 nodes with the label .* choose another label"):
        write_graph(database, fewer, prune=True)


def test_bad_vectors_are_refused_before_anything_is_written(database):
    graph = CorpusGraph(["a", "b"], ["", ""])
    with pytest.raises(DimensionMismatchError):
        write_graph(database, graph, [[1.0]])
    with pytest.raises(InvalidVectorError):
        write_graph(database, graph, [[1.0], [float("nan")]])
    assert state(database) == ([], [])


def test_a_graph_that_others_made_is_read_under_its_own_names(cypher_server):
    schema = GraphSchema(
        label="__Entity__ of theirs", relationship=None, id="key", name="key", text="summary", type="kind", embedding="vec"
    )
    with cypher_server.open(schema=schema) as database:
        database.write(
            "CREATE (a:`__Entity__ of theirs` {key: 'Ada Lovelace', summary: 'A mathematician.', kind: 'Person', vec: [1.0, 0.0]})"
            "-[:WROTE_ON]->(e:`__Entity__ of theirs` {key: 'Engine', vec: [0.8, 0.6]}), (a)-[:KNEW]->(e)"
        )
        try:
            assert index_names(database, batch_size=1) == 2
            hits = CypherSpreadingActivation(database, embedding=Axis()).retrieve("What did Ada Lovelace do?")
            ada, machine = entities_of(hits)
            assert (ada.id, ada.text, ada.type, ada.metadata) == ("Ada Lovelace", "A mathematician.", "Person", {})
            assert machine.score == pytest.approx(1.12) and str(machine.path) in (
                "Ada Lovelace -[WROTE_ON]-> Engine",
                "Ada Lovelace -[KNEW]-> Engine",
            )
            with pytest.raises(InvalidArgumentError, match="names no relationship type"):
                write_graph(database, CorpusGraph(["a"], [""]))
        finally:
            database.write("MATCH (n:`__Entity__ of theirs`) DETACH DELETE n")


# -- injection and bad input ---------------------------------------------------------------------------------------

HOSTILE = [
    "'}) DETACH DELETE n //",
    '"}) MATCH (n) DETACH DELETE n RETURN 1 AS x //',
    "Ada` SET n.owned = true //",
    "\\u0027}) DETACH DELETE n //",
    "$entities",
    "{name_key: 'x'}",
    "Robert'); DROP TABLE students;--",
    "a\nb\t😀",
]


def test_hostile_names_are_names(database):
    nodes = [Node(name, name, name, name, {name: name}) for name in HOSTILE]
    write_graph(database, CorpusGraph.from_nodes(nodes, [(HOSTILE[0], name, name) for name in HOSTILE[1:]]), np.ones((8, 2)))
    retriever = CypherSpreadingActivation(database, embedding=Axis())
    for name in HOSTILE:
        hits = entities_of(retriever.retrieve("q", entities=[name]))
        (seed,) = [hit for hit in hits if len(hit.path.nodes) == 1]
        assert seed.id == seed.title == seed.type == name and seed.metadata == {name: name}
        assert len(hits) == len(HOSTILE)
        assert {hit.path.relations[-1] for hit in hits if hit is not seed} <= set(HOSTILE)
        assert any(hit.id == name for hit in entities_of(retriever.retrieve(f"what of {name}?")))
    assert len(state(database)[0]) == len(HOSTILE)


@pytest.mark.parametrize("name", ["", "a`b", "a\\u0060b", "a\nb", "`", "a)", "a'b", "a b ", "x" * 129, None, 3, "a{b}", "a;b"])
def test_identifiers_that_could_leave_their_quotes_are_refused(name):
    with pytest.raises(InvalidArgumentError, match="cannot be a label"):
        quoted(name)
    with pytest.raises(InvalidArgumentError, match="cannot be a label"):
        GraphSchema(label=name)


def test_identifiers_in_use_are_taken():
    for name in ("Entity", "__Entity__", "db.name", "two words", "naïve", "Nœud-1", "7up"):
        assert quoted(name) == f"`{name}`"
    assert GraphSchema(relationship=None).names()["edge"] == ""


def test_bad_input_is_refused(written):
    _, database = written
    retriever = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    with pytest.raises(InvalidArgumentError, match="a query is a string"):
        retriever.retrieve(None)
    with pytest.raises(InvalidArgumentError, match="k must be"):
        retriever.retrieve("q", k=0)
    for entities in ("Ada", [""], [3]):
        with pytest.raises(InvalidArgumentError, match="entities of query 0 are"):
            retriever.retrieve("q", entities=entities)
    with pytest.raises(InvalidVectorError, match="zero"):
        retriever.retrieve("q", vector=[0.0] * DIMENSION)
    exact = EntityLinking(case="exact")
    wrong = {"gate": "soft", "semantics": "bag", "steps": 0, "decay": 0, "chains": 3, "k": 0, "linking": exact}
    for options in ({name: value} for name, value in wrong.items()):
        with pytest.raises(InvalidArgumentError):
            CypherSpreadingActivation(database, **options)
    with pytest.raises(InvalidArgumentError, match="Expected a CypherDatabase"):
        CypherSpreadingActivation("bolt://localhost")
    with pytest.raises(MissingSignalError, match="cosine gate"):
        CypherSpreadingActivation(database).retrieve("q")


def test_vectors_of_another_width_are_an_error(written):
    _, database = written
    with pytest.raises(DatabaseError, match="dimension"):
        CypherSpreadingActivation(database, embedding=Axis()).retrieve("q", entities=["Name 45"])


def test_an_empty_database_is_an_error(database):
    retriever = CypherSpreadingActivation(database, embedding=Axis())
    for entities in (None, ["Ada"]):
        with pytest.raises(EmptyGraphError, match=f"no node with the label {database.schema.label!r}"):
            retriever.retrieve("Who is Ada?", entities=entities)


def test_nothing_near_enough_is_said(database):
    write_graph(database, CorpusGraph(["a"], ["a"]), [[-1.0, 0.0]])
    hits = CypherSpreadingActivation(database, embedding=Axis()).retrieve("q", entities=["b"])
    assert list(hits) == [] and hits.notes[-1] == NOTHING_FOUND


def test_without_a_model_names_and_a_given_vector_suffice(written):
    index, database = written
    bare = CypherSpreadingActivation(database)
    vector = RandomEmbedding().embed_query("Who?")
    assert_same(bare.retrieve("Who?", entities=["Name 45"], vector=vector), outside(index, "Who?", ["Name 45"]))
    missing = bare.retrieve("Who?", entities=["Name 45", "Nobody"], vector=vector)
    assert missing.notes == ("no node is named 'Nobody'; there is no embedding model to search by",)
    uniform = CypherSpreadingActivation(database, gate="uniform")
    assert_same(uniform.retrieve("Who?", entities=["Name 45"]), outside(index, "Who?", ["Name 45"], gate="uniform"))


def test_entities_from_a_language_model(written):
    index, database = written
    asked = []

    def model(prompt):
        asked.append(prompt)
        return '{"entities": ["Name 45"]}'

    retriever = CypherSpreadingActivation(database, embedding=RandomEmbedding(), language_model=model)
    assert_same(retriever.retrieve("Who?"), outside(index, "Who?", ["Name 45"]))
    assert len(asked) == 1 and "Who?" in asked[0]
    retriever.retrieve("Who?", entities=["Name 46"])
    assert len(asked) == 1


# -- many at a time ------------------------------------------------------------------------------------------------


async def test_concurrent_questions_over_one_connection(written):
    _, database = written
    retriever = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    expected = {question: retriever.retrieve(question, entities=entities) for question, entities in QUESTIONS}
    found = await asyncio.gather(*(retriever.aretrieve(question, entities=entities) for question, entities in QUESTIONS * 3))
    for (question, _), hits in zip(QUESTIONS * 3, found, strict=True):
        assert_same(hits, expected[question])
        assert hits.notes == expected[question].notes
    await retriever.database._async_drivers.pop(asyncio.get_running_loop()).close()


def test_an_event_loop_after_another_and_threads(cypher_server, written):
    _, database = written
    own = CypherDatabase(database.uri, cypher_server.auth, name=database.name, schema=database.schema)
    retriever = CypherSpreadingActivation(own, embedding=RandomEmbedding())
    expected = [hit.id for hit in retriever.retrieve("Who?", entities=["Name 45"])]

    async def ask(last):
        hits = await retriever.aretrieve("Who?", entities=["Name 45"])
        await (retriever.database.aclose() if last else own._async_drivers[asyncio.get_running_loop()].close())
        return [hit.id for hit in hits]

    results = []
    threads = [
        threading.Thread(target=lambda: results.append([hit.id for hit in retriever.retrieve("Who?", entities=["Name 45"])]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4
    assert asyncio.run(ask(False)) == expected and asyncio.run(ask(True)) == expected


# -- what can go wrong ---------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there(cypher_server):
    with pytest.raises(DatabaseUnreachableError, match="cannot be reached"):
        CypherDatabase("bolt://127.0.0.1:9", cypher_server.auth)


async def test_a_server_that_goes_away(cypher_server, proxy):
    database = cypher_server.open(uri=proxy.uri)
    write_graph(database, CorpusGraph(["a"], ["a"]), [[1.0, 0.0]])
    retriever = CypherSpreadingActivation(database, embedding=Axis())
    assert len(retriever.retrieve("q", entities=["a"])) == 1
    database.write(f"MATCH (n:`{database.schema.label}`) DETACH DELETE n")
    proxy.cut()
    with pytest.raises(DatabaseUnreachableError, match="cannot be reached"):
        retriever.retrieve("q", entities=["a"])
    with pytest.raises(ConnectionError):
        await retriever.aretrieve("q", entities=["a"])
    with pytest.raises(DatabaseUnreachableError):
        write_graph(database, CorpusGraph(["a"], ["a"]))
    await database.aclose()


def test_a_connection_that_breaks_is_opened_again(cypher_server, proxy):
    database = cypher_server.open(uri=proxy.uri)
    for each in list(proxy._open):
        each.close()
    assert database.read("RETURN 1 AS one") == [{"one": 1}]
    database.close()


def test_a_wrong_password_is_said_and_never_shown(cypher_server, caplog):
    secret = "correct-horse-battery-staple"
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(DatabaseAuthError, match="refused the user") as caught:
            CypherDatabase(cypher_server.uri, (cypher_server.auth[0], secret))
        with cypher_server.open() as database:
            shown = f"{database!r} {CypherSpreadingActivation(database)!r}"
    assert secret not in f"{caught.value!r} {caught.value.__cause__!r}" and secret not in caplog.text
    assert cypher_server.auth[1] not in shown and cypher_server.auth[1] not in caplog.text
    with pytest.raises(InvalidArgumentError) as caught:
        CypherDatabase(f"bolt://neo4j:{secret}@127.0.0.1:7687")
    assert secret not in str(caught.value)


@pytest.mark.parametrize("uri", ["http://localhost:7474", "localhost", "", None, "bolt://[", 7])
def test_an_address_that_is_none_is_refused(uri):
    with pytest.raises(InvalidArgumentError):
        CypherDatabase(uri)
    with pytest.raises(InvalidArgumentError, match="timeout"):
        CypherDatabase("bolt://localhost", timeout=0)


def test_a_missing_index_and_a_missing_function_are_said(database):
    write_graph(database, CorpusGraph(["a"], ["a"]), [[1.0, 0.0]])
    with pytest.raises(MissingDatabaseFeatureError, match="vector_index=None"):
        CypherSpreadingActivation(database, embedding=Axis(), vector_index="nowhere")
    for text in ("RETURN nothing.like.it(1)", "CALL nothing.like.it(1) YIELD x RETURN x"):
        with pytest.raises(MissingDatabaseFeatureError, match="lacks something"):
            database.read(text)


class Axis:
    """Every question is the first of two axes."""

    def embed_query(self, text):
        return [1.0, 0.0]

    def embed_documents(self, texts):
        return [[1.0, 0.0] for _ in texts]


class Flaky:
    """Fails as a server may, so many times, before it lets the query through."""

    def __init__(self, database, error, times):
        self.make, self.error, self.left, self.calls = database._query, error, times, 0

    def __call__(self, text):
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.error
        return self.make(text)


def server_error(code):
    return neo4j.exceptions.Neo4jError._hydrate_neo4j(code=code, message="of the test")


async def test_only_what_the_driver_calls_safe_is_tried_again(database, monkeypatch):
    monkeypatch.setattr(database_module, "_ATTEMPTS", 3)
    transient, wrong = server_error("Neo.TransientError.General.Test"), server_error("Neo.ClientError.Statement.Test")
    assert transient.is_retryable() and not wrong.is_retryable()
    for error, times, calls in ((transient, 2, 3), (transient, 5, 3), (wrong, 1, 1)):
        for ask in (lambda: asyncio.to_thread(database.read, "RETURN 1 AS one"), lambda: database.aread("RETURN 1 AS one")):
            flaky = Flaky(database, error, times)
            with monkeypatch.context() as patch:
                patch.setattr(database, "_query", flaky)
                if times < calls:
                    assert await ask() == [{"one": 1}]
                else:
                    with pytest.raises(DatabaseError, match="of the test"):
                        await ask()
            assert flaky.calls == calls
    await database._async_drivers.pop(asyncio.get_running_loop()).close()


@pytest.mark.process
def test_the_engine_and_the_package_import_without_the_driver():
    code = (
        "import sys; sys.modules['neo4j'] = None\n"
        "import graph_retrievers.stores.cypher as c\n"
        "from graph_retrievers.errors import MissingDependencyError\n"
        "try:\n    c.CypherDatabase('bolt://localhost')\n"
        "except MissingDependencyError as error:\n    assert 'graph-retrievers[neo4j]' in str(error)\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
