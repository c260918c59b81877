"""Filters and batches of spreading activation inside a graph database: the same as the engine's, on random graphs."""

import asyncio
import logging
import math
import random

import numpy as np
import pytest
import torch

from graph_retrievers.cypher import CypherSpreadingActivation, GraphSchema, write_graph
from graph_retrievers.cypher.filters import filter_predicate
from graph_retrievers.errors import (
    DimensionMismatchError,
    EmptyGraphError,
    InvalidArgumentError,
    InvalidVectorError,
    MissingSignalError,
)
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.chains import ChainSearch
from graph_retrievers.operators.entity_linking import EntityLinking
from graph_retrievers.retrievers.spreading_activation import SpreadingActivation
from tests.integration.test_cypher import DIMENSION, HOSTILE, Axis, RandomEmbedding, assert_same, vector_index

WORDS = ["red", "green", "dark green", "Blue", "b", "", "naïve", "10"]
# Fields that hold one kind of value, or any.
FIELDS = ["color", "year", "weight", "good", "tags", "marks", "any", "absent"]
OPERATORS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$exists"]


def random_value(draw, field):
    """A value of a field; None for none."""
    if field == "any":
        field = draw.choice(FIELDS[:6])
    if field == "marks":
        kind = draw.choice((bool, int, float))
        return [kind(draw.randrange(2 if kind is bool else 3)) for _ in range(draw.randrange(3))]
    return {
        "color": lambda: draw.choice(WORDS),
        "year": lambda: draw.randrange(-2, 4),
        "weight": lambda: draw.randrange(-4, 8) / 2,
        "good": lambda: draw.random() < 0.5,
        "tags": lambda: draw.choices(WORDS, k=draw.randrange(4)),
        "absent": lambda: None,
    }[field]()


def random_metadata(draw):
    return {field: random_value(draw, field) for field in FIELDS[:-1] if draw.random() < 0.7}


def random_filter(draw, count, depth=2):
    """A filter of any operators and fields."""
    parts = {}
    for _ in range(draw.randrange(1, 3)):
        kind = draw.random()
        if depth and kind < 0.2:
            parts[draw.choice(("$and", "$or"))] = [random_filter(draw, count, depth - 1) for _ in range(draw.randrange(1, 4))]
        elif depth and kind < 0.3:
            parts["$not"] = random_filter(draw, count, depth - 1)
        else:
            field = draw.choice((*FIELDS, "$id", "$type", "$title"))
            parts[field] = random_test(draw, field, count)
    return parts


def random_test(draw, field, count):
    """What is asked of a field: a value, or operators with theirs."""
    other = field if draw.random() < 0.8 else draw.choice(FIELDS)
    own = {"$id": f"id{draw.randrange(count)}", "$type": draw.choice(("EVEN", "ODD")), "$title": f"Name {draw.randrange(30)}"}

    def value():
        return own.get(other) or random_value(draw, other)

    def scalar():
        found = value()
        return (found or ["red"])[0] if isinstance(found, list) else found

    if draw.random() < 0.2:
        return value()
    tests = {}
    for name in draw.sample(OPERATORS, k=draw.randrange(1, 3)):
        if name in ("$in", "$nin"):
            tests[name] = [value() for _ in range(draw.randrange(5))]
        elif name == "$exists":
            tests[name] = draw.random() < 0.5
        else:
            tests[name] = value() if name in ("$eq", "$ne") else scalar()
    return tests


def filtered_index(count, seed):
    """A random graph with metadata of all kinds; some names hold others, two nodes share some."""
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[::17] = 0
    names = [f"Name {i // 2 if i < 20 else i}" for i in range(count)]
    names[21:24] = ["Name 22 of Kyiv", "Kyiv", ""]
    types = [("EVEN", "ODD")[i % 2] for i in range(count)]
    fields = random.Random(seed)
    nodes = [Node(f"id{i}", f"Text {i}.", names[i], types[i], random_metadata(fields)) for i in range(count)]
    ends = draw.integers(0, count, size=(2 * count, 2)).tolist() + [[1, 2], [1, 2], [2, 1], [3, 3]]
    edges = [(f"id{a}", f"id{b}", f"r{i % 3}") for i, (a, b) in enumerate(ends)]
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, embedding=RandomEmbedding(), lexical=False)


@pytest.fixture(scope="module", params=[30, 100, 300])
def filtered(request, cypher_server):
    """A random graph with metadata, in this process and in the database."""
    index = filtered_index(request.param, request.param)
    opened = cypher_server.open()
    write_graph(opened, index)
    yield index, opened
    cypher_server.clean(opened)


QUESTIONS = [
    ("Who?", ["Name 5"]),
    ("Who else?", ["name 3", "Nobody", "Name 7", "Nowhere"]),
    ("Did Name 5 meet Name 22 of Kyiv and name 8?", None),
    ("Did name 3 see kyiv?", None),
    ("Nothing that is there", None),
    ("And nothing at all", []),
]


def matched(database, condition):
    """The ids of the nodes that a filter lets through, as the database says wherever a query may ask."""
    predicate = filter_predicate(database.schema, condition, "filter")
    label, holds = database.schema.names()["label"], predicate.on("n")
    ways = [
        f"MATCH (n:{label}) WHERE {holds} RETURN n.id AS id",
        f"MATCH (n:{label}) RETURN CASE WHEN {holds} THEN n.id END AS id",
        f"MATCH (m:{label}) WITH collect({{n: m}}) AS all UNWIND [s IN all WHERE {predicate.on('s.n')}] AS s RETURN s.n.id AS id",
    ]
    found = [{row["id"] for row in database.read(text, **predicate.parameters)} - {None} for text in ways]
    assert found[0] == found[1] == found[2], condition
    return found[0]


def expected(graph, condition):
    return {graph.ids[row] for row in filter_mask(graph, condition).nonzero().flatten().tolist()}


# -- predicates ----------------------------------------------------------------------------------------------------

# Every value against every operator, and combinations.
CONDITIONS = [
    {field: {operator: value}}
    for field in ("any", "marks", "absent", "color")
    for operator in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
    for value in ("red", "", True, False, 0, 1, 1.0, 0.5, -1, None, math.inf, -math.inf, math.nan)
] + [
    *({field: {o: v}} for field in ("any", "marks", "tags") for o in ("$eq", "$ne") for v in ([], [1, 0], [1.0], [True], ["red"])),
    *({"any": {o: v}} for o in ("$in", "$nin") for v in ([], [None], ["red", None, 1], [True, 2.0], [[1, 0], "b"], ("red",))),
    {"year": {"$in": {1, 2}}},
    *({"year": {o: v}} for o in ("$eq", "$gt") for v in (np.int64(1), np.float64(0.5), np.bool_(True))),
    *({field: {"$contains": value}} for field in ("tags", "color", "any") for value in ("red", "e", "", "green")),
    *({field: {"$contains": value}} for field in ("marks", "tags") for value in (1, True, 0.0, 2, None, math.nan)),
    *({field: {"$exists": value}} for field in FIELDS for value in (True, False, 1, None)),
    *({field: value} for field in FIELDS for value in (None, 1, True, "red", [], ["red"])),
    {},
    {"$and": []},
    {"$or": []},
    {"$not": {}},
    {"$not": {"absent": 1}},
    {"$not": {"year": {"$gt": 1}}},
    {"year": {"$gte": 0, "$lt": 2}, "good": True},
    {"year": {"$exists": True}, "$or": [{"color": "red"}, {"$and": [{"good": False}, {"$not": {"tags": {"$contains": "red"}}}]}]},
    *({"$id": value} for value in ("id3", {"$in": ["id1", "id2", "none"]}, {"$contains": "id1"}, 3, None, {"$gt": "id2"})),
    *({"$type": value} for value in ("ODD", {"$ne": "ODD"}, {"$exists": True}, {"$exists": False}, {"$nin": ["EVEN"]})),
    *({"$title": value} for value in ("", "Kyiv", {"$contains": "Name 2"}, {"$lte": "Name 22"}, {"$eq": None})),
]


def test_conditions_hold_for_the_nodes_of_the_engine(filtered):
    index, database = filtered
    for condition in CONDITIONS if len(index) == 100 else CONDITIONS[-40:]:
        assert matched(database, condition) == expected(index.graph, condition), condition


def test_random_conditions_hold_for_the_nodes_of_the_engine(filtered):
    index, database = filtered
    draw = random.Random(1)
    sizes = set()
    for _ in range(60):
        condition = random_filter(draw, len(index))
        try:
            wanted = expected(index.graph, condition)
        except TypeError:
            # The engine looks for a value in a string that is not one, or in a set for a list.
            continue
        assert matched(database, condition) == wanted, condition
        sizes.add(len(wanted))
    assert len(sizes) > 10


# -- retrieval -----------------------------------------------------------------------------------------------------


def random_filters(draw, index, names):
    """Filters under the names, each of which lets a good share of the nodes through."""
    filters = {}
    for name in names:
        while name not in filters:
            condition = random_filter(draw, len(index))
            try:
                share = len(expected(index.graph, condition)) / len(index)
            except TypeError:
                continue
            if 0.2 < share < 0.95:
                filters[name] = condition
    return filters


NAMES = ["filter", "seed_filter", "traversal_filter"]
WAYS = [
    {},
    {"gate": "uniform"},
    {"chains": "hits"},
    {"chains": "path", "gate": "uniform"},
    {"chains": "hits", "chain_search": ChainSearch(dedupe="before_limit")},
    {"chains": "hits", "semantics": "rows"},
    {"passages": True, "passage_type": "ODD"},
    {"passages": False, "passage_type": "ODD", "chains": "hits"},
    {"passages": True, "passage_type": "ODD", "chains": "path", "gate": "uniform"},
]


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_filters_give_what_the_engine_gives(filtered, way):
    index, database = filtered
    k = 5 if (way + len(index) // 100) % 2 else 300
    options = {**WAYS[way], "k": k}
    engine = SpreadingActivation(index, backfill=False, **options)
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), **options)
    draw = random.Random(way)
    for names in [[name] for name in NAMES] + [NAMES[:2], NAMES[1:], NAMES]:
        filters = random_filters(draw, index, names)
        texts, entities = map(list, zip(*draw.sample(QUESTIONS, 2), strict=True))
        found = inside.retrieve_batch(texts, entities=entities, **filters)
        for hits, wanted in zip(found, engine.retrieve_batch(texts, entities=entities, **filters), strict=True):
            try:
                assert_same_or_tied(hits, wanted, k)
            except AssertionError as error:
                raise AssertionError(f"{filters} {texts} {entities}") from error
            notes = tuple(note for note in hits.notes if note != "no node is near enough to start from")
            assert notes == wanted.notes


def assert_same_or_tied(found, wanted, k):
    """The same hits; where the last scores tie, either of the tied."""
    try:
        assert_same(found, wanted)
    except AssertionError:
        ours, others = ([hit for hit in hits if hit.kind == "node"] for hits in (found, wanted))
        assert len(ours) == len(others) == k and {hit.id for hit in ours} != {hit.id for hit in others}
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in others], rel=1e-6)
        differ = {hit.score for hit in ours if hit.id not in {other.id for other in others}}
        assert all(abs(score - others[-1].score) < 2e-6 for score in differ)


def test_names_whose_nodes_may_not_be_seeds_count_as_not_found(database):
    """The longest name of the question stands for its words, whether or not its nodes may be seeds."""
    titles = ["Kyiv", "University of Kyiv", "Lviv", "lviv"]
    metadata = [{"kind": "city"}, {"kind": "school"}, {"kind": "city"}, {"kind": "city"}]
    graph = CorpusGraph(["a", "b", "c", "d"], [""] * 4, titles=titles, metadata=metadata, edges=[("a", "b", "r"), ("b", "c", "r")])
    index = GraphIndex(graph, vectors=np.eye(4, DIMENSION, dtype=np.float32) + 0.1, embedding=RandomEmbedding())
    write_graph(database, index)
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), gate="uniform")
    engine = SpreadingActivation(index, gate="uniform", backfill=False)
    for text, entities in (("The University of Kyiv?", None), ("q", ["University of Kyiv", "Kyiv"]), ("q", ["Kyiv"])):
        for condition in ({"kind": "city"}, {"kind": "school"}, {"kind": "river"}, {"$not": {"$id": "a"}}):
            found = inside.retrieve(text, entities=entities, seed_filter=condition)
            wanted = engine.retrieve(text, entities=entities, seed_filter=condition)
            assert_same(found, wanted)
            assert found.notes[: len(wanted.notes)] == wanted.notes and found.notes
            if condition == {"kind": "river"}:
                assert list(found) == [] and found.notes[-1] == "no node is near enough to start from"


def test_a_vector_index_is_asked_for_more_where_seeds_are_filtered(cypher_server, database):
    index = filtered_index(100, 7)
    write_graph(database, index)
    name = vector_index(cypher_server, database)
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), vector_index=name)
    engine = SpreadingActivation(index, backfill=False)
    for condition in ({"good": True}, {"$type": "ODD"}):
        for text, entities in (QUESTIONS[1], QUESTIONS[4]):
            assert_same(
                inside.retrieve(text, entities=entities, seed_filter=condition),
                engine.retrieve(text, entities=entities, seed_filter=condition),
            )
    if cypher_server.process is None:
        database.write(f"DROP INDEX `{name}` IF EXISTS")


def test_conditions_that_cannot_be_asked_of_a_database_are_refused(filtered):
    index, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    mask = torch.ones(len(index), dtype=torch.bool)
    for name in NAMES:
        for condition, kind in ((lambda node: True, "callable"), (mask, "mask")):
            with pytest.raises(InvalidArgumentError, match=f"{name} is a {kind}, which cannot .* write it as a mapping"):
                inside.retrieve("Who?", entities=["Name 5"], **{name: condition})
    for value in ({"a": 1}, {}, [1, "a"], [[1]], 2**63, object(), "\ud800"):
        with pytest.raises(InvalidArgumentError, match="in a database, fields are compared to"):
            inside.retrieve("Who?", entities=["Name 5"], filter={"year": value})
    for operator in ("$gt", "$lte", "$contains"):
        with pytest.raises(InvalidArgumentError, match="a list is compared by"):
            inside.retrieve("Who?", entities=["Name 5"], filter={"year": {operator: [1]}})


@pytest.mark.parametrize(
    "condition",
    [
        {"year": {"$near": 1}},
        {"year": {"$gt": 1, "lt": 2}},
        {"$name": "x"},
        {"$and": {"a": 1}},
        {"$or": "ab"},
        {"$and": [1]},
        {"$not": [{"a": 1}]},
        {3: 4},
        {"year": {"$in": "ab"}},
        {"year": {"$nin": 3}},
        {"$or": [{"a": {"$bad": 1}}]},
        ["year"],
        "year",
        3,
    ],
)
def test_wrong_conditions_are_the_errors_of_the_engine(filtered, condition):
    index, database = filtered
    with pytest.raises(InvalidArgumentError) as wanted:
        filter_mask(index.graph, condition)
    with pytest.raises(InvalidArgumentError) as found:
        CypherSpreadingActivation(database, embedding=RandomEmbedding()).retrieve("Who?", filter=condition)
    assert str(found.value) == str(wanted.value)


# -- injection -----------------------------------------------------------------------------------------------------

KEYS = ["a`b", "a\\u0060b", "a`}) DETACH DELETE n //", "a' OR true //", "a/*", "a\n", "a b ", "{node}", "$x", "`", "x" * 128]


def test_keys_that_could_leave_their_quotes_are_refused(filtered):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    for key in KEYS:
        for name in NAMES:
            with pytest.raises(InvalidArgumentError, match="Unknown filter key" if key == "$x" else "cannot be a label"):
                inside.retrieve("Who?", entities=["Name 5"], **{name: {key: 1}})


def test_values_are_values(database):
    values = [*HOSTILE, "`", "'", '"', "\\", "/* x */", "// x", "{node}", "$filter_0", "\u0000", "\u202e", "e\u0301", "\U0001f600"]
    nodes = [Node(f"id{i}", "", f"N{i}", value, {"own": value, "many": [value, "x"]}) for i, value in enumerate(values)]
    graph = CorpusGraph.from_nodes(nodes, [("id0", node.id, "r") for node in nodes[1:]])
    write_graph(database, graph, np.ones((len(nodes), 2)))
    inside = CypherSpreadingActivation(database, embedding=Axis())
    for number, value in enumerate(values):
        for condition in (
            {"own": value},
            {"own": {"$in": [value]}},
            {"many": {"$contains": value}},
            {"$type": value},
            {"many": [value, "x"]},
        ):
            hits = inside.retrieve("q", entities=["N0"], filter=condition)
            assert [hit.id for hit in hits] == [f"id{number}"], (value, condition)
    assert len(database.read(f"MATCH (n:`{database.schema.label}`) RETURN n.id AS id")) == len(values)


def test_values_are_sent_as_parameters(filtered, monkeypatch):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), chains="hits")
    sent = []
    read = type(database).read
    monkeypatch.setattr(type(database), "read", lambda self, text, **p: sent.append((text, p)) or read(self, text, **p))
    for number in (0, 1):
        condition = {
            "color": {"$in": [f"secret{number}1", f"secret{number}2"]},
            "tags": {"$contains": f"secret{number}3"},
            "year": {"$gt": 98765 + number},
            "$id": {"$ne": f"secret{number}4"},
        }
        inside.retrieve("Who?", entities=["Name 5"], filter=condition, seed_filter={"$not": condition}, traversal_filter=condition)
    (first, parameters), (second, _) = sent
    # The same text, so that the database plans it once.
    assert first == second and "secret" not in first and "9876" not in first
    assert all(f"'secret0{i}'" in repr(parameters) for i in range(1, 5)) and "98765" in repr(parameters)


def test_a_filtered_question_is_one_round_trip(filtered, caplog):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), chains="hits")
    inside.retrieve("Did Name 5 see it?")
    for condition in ({"year": {"$gte": 0}}, {"absent": 1}):
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger="neo4j.io"):
            inside.retrieve_batch(
                [text for text, _ in QUESTIONS], filter=condition, seed_filter=condition, traversal_filter={"good": True}
            )
        assert sum("C: RUN" in record.getMessage() for record in caplog.records) == len(QUESTIONS)


# -- what is written -----------------------------------------------------------------------------------------------


def properties(database):
    rows = database.read(f"MATCH (n:`{database.schema.label}`) RETURN n.id AS id, properties(n) AS p")
    return {row["id"]: {key: value for key, value in row["p"].items() if key.startswith("metadata_")} for row in rows}


def test_fields_become_properties(database):
    metadata = {
        "text": "x", "yes": True, "no": False, "whole": 3, "real": 0.5, "empty": "", "strings": ["a", "b"], "mixed": [1, 2.5],
        "flags": [True, False], "none": [], "pair": (1, 2), "set": {"b", "a"}, "numpy": np.int64(7), "two words": 1, "a.b": 2,
        "null": None, "map": {"a": 1}, "odd": ["a", 1], "deep": [[1]], "nan": math.nan, "infinite": [math.inf], "big": 2**63,
    }  # fmt: skip
    write_graph(database, CorpusGraph(["a"], [""], metadata=[metadata]))
    assert properties(database)["a"] == {
        "metadata_text": "x", "metadata_yes": True, "metadata_no": False, "metadata_whole": 3, "metadata_real": 0.5,
        "metadata_empty": "", "metadata_strings": ["a", "b"], "metadata_mixed": [1.0, 2.5], "metadata_flags": [True, False],
        "metadata_none": [], "metadata_pair": [1, 2], "metadata_set": ["a", "b"], "metadata_numpy": 7, "metadata_two words": 1,
        "metadata_a.b": 2,
    }  # fmt: skip


def test_fields_that_a_node_no_longer_has_go(database):
    def write(*metadata):
        write_graph(database, CorpusGraph(["a", "b"], ["", ""], metadata=metadata), batch_size=1)
        return properties(database)

    assert write({"x": 1, "y": "s"}, {"x": 2}) == {"a": {"metadata_x": 1, "metadata_y": "s"}, "b": {"metadata_x": 2}}
    database.write(f"MATCH (n:`{database.schema.label}` {{id: 'a'}}) SET n.theirs = 1")
    assert write({"y": {"no": "property"}, "z": 3}, {"x": 2}) == {"a": {"metadata_z": 3}, "b": {"metadata_x": 2}}
    assert write({}, {}) == {"a": {}, "b": {}}
    assert database.read(f"MATCH (n:`{database.schema.label}` {{id: 'a'}}) RETURN n.theirs AS t") == [{"t": 1}]


def test_fields_that_cannot_be_properties_are_named_once(database, caplog):
    metadata = [{"good": i, "bad`name": i, "": i, 7: i, "x" * 200: i} for i in range(3)]
    with caplog.at_level(logging.WARNING, logger="graph_retrievers"):
        write_graph(database, CorpusGraph(["a", "b", "c"], [""] * 3, metadata=metadata), batch_size=1)
    (record,) = [record for record in caplog.records if record.name.startswith("graph_retrievers")]
    assert "'bad`name'" in record.getMessage() and ", 7" in record.getMessage() and "good" not in record.getMessage()
    assert {key for fields in properties(database).values() for key in fields} == {"metadata_good", "metadata_"}
    caplog.clear()
    write_graph(database, CorpusGraph(["a"], [""], metadata=[{f"`{i}": 1 for i in range(50)}]))
    assert "and 30 more" in caplog.text


def test_plain_names_for_a_graph_that_is_there(cypher_server):
    plain = GraphSchema(label="PlainNames", field_prefix="")
    with cypher_server.open(schema=plain) as database:
        try:
            database.write("CREATE (:PlainNames {id: 'b', name: 'B', year: 1990, name_key: 'b', position: 1})")
            graph = CorpusGraph(["a"], ["text"], titles=["A"], metadata=[{"year": 2000, "name": "not the name"}])
            write_graph(database, graph)
            inside = CypherSpreadingActivation(database, gate="uniform")
            for condition, ids in (
                ({"year": {"$lt": 1995}}, ["b"]),
                ({"year": 2000}, ["a"]),
                ({"name": "A"}, ["a"]),
                ({}, ["a", "b"]),
            ):
                assert sorted(hit.id for hit in inside.retrieve("q", entities=["A", "B"], filter=condition)) == ids
            write_graph(database, CorpusGraph(["a"], ["text"], titles=["A"]))
            assert list(inside.retrieve("q", entities=["A"], filter={"year": 2000})) == []
            assert [hit.title for hit in inside.retrieve("q", entities=["A"])] == ["A"]
        finally:
            cypher_server.clean(database)


def test_prefixes_that_meet_other_properties_are_refused():
    with pytest.raises(InvalidArgumentError, match="begins with the prefix"):
        GraphSchema(text="metadata_text")
    with pytest.raises(InvalidArgumentError, match="begins with the prefix"):
        GraphSchema(field_prefix="n")
    for prefix in ("a`", " ", None, 3, "x" * 128):
        with pytest.raises(InvalidArgumentError):
            GraphSchema(field_prefix=prefix)
    assert GraphSchema().field("year") == "`metadata_year`" and GraphSchema(field_prefix="").field("year") == "`year`"


# -- the contract of retrievers ------------------------------------------------------------------------------------


def test_attributes(filtered):
    _, database = filtered
    retriever = CypherSpreadingActivation(database)
    assert (retriever.name, retriever.inputs, retriever.k) == ("CypherSpreadingActivation", ("entities",), 30)
    assert CypherSpreadingActivation(database, name="other", k=7).name == "other"
    assert repr(CypherSpreadingActivation(database, name="other")).startswith("other(")


def same_hits(found, wanted):
    """The same hits and notes, to the last bit."""
    assert list(map(list, found)) == list(map(list, wanted))
    assert [hits.notes for hits in found] == [hits.notes for hits in wanted]


async def test_a_batch_gives_what_its_queries_give_one_by_one(filtered):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), chains="hits", k=20)
    questions = QUESTIONS * 3
    texts, entities = map(list, zip(*questions, strict=True))
    filters = {"filter": {"good": {"$ne": True}}, "traversal_filter": {"year": {"$exists": True}}}
    wanted = [inside.retrieve(text, entities=names, **filters) for text, names in questions]
    same_hits(inside.retrieve_batch(texts, entities=entities, **filters), wanted)
    same_hits(inside.retrieve_batch(tuple(texts), entities=tuple(entities), **filters), wanted)
    same_hits(await inside.aretrieve_batch(texts, entities=entities, **filters), wanted)
    same_hits([await inside.aretrieve(texts[2], 20, entities=None, **filters)], wanted[2:3])
    same_hits(inside.retrieve_batch(texts[2:4]), [inside.retrieve(text) for text in texts[2:4]])
    assert [sum(hit.kind == "node" for hit in hits) for hits in inside.retrieve_batch(texts[:2], 1, entities=entities[:2])] == [
        1,
        1,
    ]
    assert inside.retrieve_batch([]) == [] == await inside.aretrieve_batch([], entities=[])
    await database._async_drivers.pop(asyncio.get_running_loop()).close()


class Sliced:
    """Vectors that are computed when they are asked for, as the wrappers pass them."""

    def __init__(self):
        self.asked = []

    def __getitem__(self, part):
        return self

    def __call__(self, texts):
        self.asked.append(list(texts))
        return RandomEmbedding().embed_documents(texts)


def test_vectors_come_in_every_form(filtered):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    bare = CypherSpreadingActivation(database)
    texts, entities = map(list, zip(*QUESTIONS, strict=True))
    wanted = inside.retrieve_batch(texts, entities=entities)
    table = np.stack(RandomEmbedding().embed_documents(texts))
    for vectors in (table, torch.from_numpy(table), table.tolist(), Sliced()):
        same_hits(inside.retrieve_batch(texts, entities=entities, vectors=vectors), wanted)
    same_hits(bare.retrieve_batch(texts[:1], entities=entities[:1], vectors=table[:1]), wanted[:1])
    same_hits([bare.retrieve(texts[0], entities=entities[0], vector=torch.from_numpy(table[0]))], wanted[:1])
    # Without a model, the function embeds the names too.
    function = Sliced()
    same_hits(bare.retrieve_batch(texts, entities=entities, vectors=function), wanted)
    assert function.asked == [texts, ["Name 5", "name 3", "Nobody", "Name 7", "Nowhere"]]
    assert bare.retrieve_batch([], vectors=function) == [] and len(function.asked) == 2


def test_models_are_asked_once_a_batch(filtered):
    _, database = filtered
    asked = []

    class Batched(RandomEmbedding):
        def embed_queries(self, texts):
            asked.append(list(texts))
            return self.embed_documents(texts)

    texts, entities = map(list, zip(*QUESTIONS[:2], strict=True))
    CypherSpreadingActivation(database, embedding=Batched()).retrieve_batch(texts, entities=entities)
    assert asked == [texts, ["Name 5", "name 3", "Nobody", "Name 7", "Nowhere"]]


async def test_bad_batches_are_refused(filtered):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    vector = RandomEmbedding().embed_query("x")
    cases = [
        (("Who?",), {}, InvalidArgumentError, "retrieve_batch takes a list of queries, got 'Who\\?'; call retrieve for one"),
        ((None,), {}, InvalidArgumentError, "takes a list of queries"),
        ((["Who?"], 0), {}, InvalidArgumentError, "k must be an integer of at least 1, got 0"),
        ((["Who?", " "],), {}, InvalidArgumentError, "Query 1 is ' '; a query is a non-empty string"),
        ((["Who?", None],), {}, InvalidArgumentError, "Query 1 is None"),
        ((["a", "b"],), {"entities": [["x"]]}, InvalidArgumentError, "entities has 1 entries for 2 queries"),
        ((["a", "b"],), {"entities": [None, "x"]}, InvalidArgumentError, "entities of query 1 are 'x'; expected a list"),
        ((["a", "b"],), {"entities": [["x"], [""]]}, InvalidArgumentError, "entities of query 1"),
        ((["a", "b"],), {"vectors": [vector]}, DimensionMismatchError, r"query vectors have shape \[1, 16\]; expected \[2, d\]"),
        ((["a", "b"],), {"vectors": lambda texts: [vector]}, DimensionMismatchError, "query vectors have shape"),
        ((["a"],), {"vectors": [vector * math.nan]}, InvalidVectorError, "NaN"),
        ((["a", "b"],), {"vectors": [vector, vector * 0]}, InvalidVectorError, "The vector of 'b' is zero"),
        (([],), {"vectors": [vector]}, DimensionMismatchError, "query vectors have shape"),
        ((["a"],), {"colour": "red"}, TypeError, "colour"),
    ]
    for arguments, options, error, message in cases:
        with pytest.raises(error, match=message):
            inside.retrieve_batch(*arguments, **options)
        with pytest.raises(error, match=message):
            await inside.aretrieve_batch(*arguments, **options)
    with pytest.raises(MissingSignalError, match="cosine gate"):
        CypherSpreadingActivation(database).retrieve_batch(["a"])


async def test_few_queries_of_a_batch_run_at_a_time_and_none_after_an_error(filtered, monkeypatch):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    running, most, started, ended = 0, 0, [], []
    row = {"filled": True, "touched": 1, "missing": [], "links": [], "found": []}

    async def aread(text, **parameters):
        nonlocal running, most
        started.append(parameters["entities"][0]["key"])
        running, most = running + 1, max(most, running + 1)
        try:
            await asyncio.sleep(0.01 * (len(started) % 3))
            if started[-1] == "bad":
                raise RuntimeError("of the test")
            return [row]
        finally:
            running -= 1
            ended.append(1)

    monkeypatch.setattr(database, "aread", aread)
    assert len(await inside.aretrieve_batch(["q"] * 40, entities=[[f"n{i}"] for i in range(40)])) == 40
    assert most == 8 and len(ended) == 40
    started.clear()
    with pytest.raises(RuntimeError, match="of the test"):
        await inside.aretrieve_batch(["q"] * 40, entities=[["bad"]] + [["good"]] * 39)
    before = len(started)
    await asyncio.sleep(0.05)
    assert len(started) == before < 40 and running == 0


def test_an_empty_database_is_an_error_for_every_filter(database):
    inside = CypherSpreadingActivation(database, embedding=Axis())
    with pytest.raises(EmptyGraphError):
        inside.retrieve_batch(["q", "r"], entities=[["a"], ["b"]], seed_filter={"x": 1}, filter={"x": 1})


def test_a_linking_of_its_own(filtered):
    index, database = filtered
    options = {"gate": "uniform", "k": 300}
    linking = EntityLinking(budget=3, fallback_score="index", exclude_types=("EVEN",))
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), linking=linking, **options)
    engine = SpreadingActivation(index, linking=linking, backfill=False, **options)
    for condition in ({"year": {"$gt": 0}}, {"tags": {"$contains": "red"}}):
        for text, entities in QUESTIONS[:3]:
            assert_same(
                inside.retrieve(text, entities=entities, seed_filter=condition),
                engine.retrieve(text, entities=entities, seed_filter=condition),
            )
