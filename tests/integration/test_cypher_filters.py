"""Filters of spreading activation inside a graph database: the same as the engine's, on random graphs."""

import logging
import math
import random
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
import torch

from graph_retrievers import Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.hits.of_candidates import NOTHING_FOUND
from graph_retrievers.index import GraphIndex
from graph_retrievers.stores.cypher import CypherSpreadingActivation, write_graph
from graph_retrievers.stores.cypher.predicates import filter_predicate
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.retriever import SpreadingActivation
from tests.integration.test_cypher import DIMENSION, HOSTILE, Axis, RandomEmbedding, assert_same, vector_index
from tests.retrievers import on

WORDS = ["red", "green", "dark green", "Blue", "b", "", "naïve", "10"]
# Fields that hold one kind of value, or any.
FIELDS = ["color", "year", "weight", "good", "tags", "marks", "any", "when", "days", "in.year", "in.when", "absent"]
ZONES = [None, UTC, timezone(timedelta(hours=1)), timezone(timedelta(hours=-5))]
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
        "when": lambda: random_date(draw),
        "days": lambda: [random_date(draw) for _ in range(draw.randrange(3))],
        "absent": lambda: None,
    }[field.removeprefix("in.")]()


def random_date(draw):
    """A day around the first of 1970, or a time in it, in any zone or none."""
    if draw.random() < 0.4:
        return date(1969, 12, 31) + timedelta(days=draw.randrange(3))
    return datetime(1969, 12, 31, tzinfo=draw.choice(ZONES)) + timedelta(hours=6 * draw.randrange(12))


def random_metadata(draw):
    found = {field: random_value(draw, field) for field in FIELDS[:-1] if draw.random() < 0.7}
    if isinstance(found.get("when"), datetime):
        # Another form of ISO 8601 than the one in which a graph keeps dates.
        found["when"] = found["when"].strftime("%Y%m%dT%H") + found["when"].isoformat()[19:]
    inside = {field.removeprefix("in."): found.pop(field) for field in list(found) if field.startswith("in.")}
    return found | ({"in": inside} if draw.random() < 0.7 else {})


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
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, embedding=RandomEmbedding(), bm25=False)


def in_both(cypher_server, count):
    index = filtered_index(count, count)
    opened = cypher_server.open()
    write_graph(opened, index)
    yield index, opened
    cypher_server.clean(opened)


@pytest.fixture(scope="module", params=[30, 300])
def filtered(request, cypher_server):
    """A random graph with metadata, in this process and in the database."""
    yield from in_both(cypher_server, request.param)


@pytest.fixture(scope="module")
def small(cypher_server):
    """One graph of 50 nodes."""
    yield from in_both(cypher_server, 50)


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

DAY, TIME = date(1970, 1, 1), datetime(1970, 1, 1, 1, tzinfo=ZONES[2])
ISO = ["1970-01-01", "1969-12-31T19:00:00-05:00", "1970-W01-4", "19691231T18", "19700101", "1970", "red"]
DATED = [
    *(
        {field: {operator: value}}
        for field in ("when", "days", "in.when")
        for operator in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$contains")
        for value in (DAY, TIME, datetime(1969, 12, 31, 18), np.datetime64("1969-12-31T12", "h"), *ISO, 0)
    ),
    *({field: {o: [DAY, TIME, "1969-12-31", None]}} for field in ("when", "days") for o in ("$in", "$nin")),
    *({"color": {operator: "1970-01-01"}} for operator in ("$lt", "$gte", "$eq", "$contains")),
    *({"in.year": value} for value in (1, {"$gt": 0}, {"$in": [1, 2]}, {"$exists": True}, None)),
    {"in": {"year": {"$gt": 0}, "when": {"$lt": DAY}}},
    {"in": {"year": {"$gt": 0}}, "in.year": {"$lt": 3}},
    {"$not": {"when": {"$lte": DAY}}},
]


def test_conditions_hold_for_the_nodes_of_the_engine(filtered):
    index, database = filtered
    for condition in CONDITIONS if len(index) == 300 else CONDITIONS[-40:]:
        assert matched(database, condition) == expected(index.graph, condition), condition


def test_dates_and_fields_inside_mappings_hold_for_the_nodes_of_the_engine(small):
    index, database = small
    sizes = set()
    for condition in DATED:
        wanted = expected(index.graph, condition)
        assert matched(database, condition) == wanted, condition
        sizes.add(len(wanted))
    assert len(sizes) > 15


def test_what_was_written_of_dates_and_mappings_follows_the_metadata(database):
    def write(metadata):
        graph = CorpusGraph.from_nodes([Node("a", "", "A", metadata=metadata), Node("b", "", "B")], [("a", "b", "r")])
        return write_graph(database, graph)[0].written

    first = {"when": date(2024, 1, 2), "in": {"year": 5, "when": "2024-01-02"}, "both": {"x": 1}, "both.x": 2}
    assert write(first) == 2 and write(first) == 0
    assert matched(database, {"when": date(2024, 1, 2), "in.when": date(2024, 1, 2), "in.year": 5, "both.x": 2}) == {"a"}
    assert write({"when": "soon", "in": 5}) == 1
    assert matched(database, {"when": "soon", "in": 5}) == {"a"}
    assert matched(database, {"when": date(2024, 1, 2)}) | matched(database, {"in.year": {"$exists": True}}) == set()
    assert matched(database, {"in.when": {"$gt": date(1970, 1, 1)}}) | matched(database, {"both.x": {"$exists": True}}) == set()
    (keys,) = database.read(f"MATCH (n:`{database.schema.label}`) WHERE n.id = 'a' RETURN keys(n) AS keys")
    assert {key for key in keys["keys"] if key.startswith("metadata_")} == {"metadata_when", "metadata_in"}


def test_mappings_with_very_many_entries_are_not_properties(database, caplog):
    metadata = {"counts": {str(number): number for number in range(300)}, "year": 5}
    write_graph(database, CorpusGraph.from_nodes([Node("a", "", "A", metadata=metadata)], [("a", "a", "r")]))
    assert "1 nodes have more than 256 fields inside mappings of their metadata" in caplog.text
    assert matched(database, {"counts.7": 7}) == set() and matched(database, {"year": 5}) == {"a"}


def test_a_date_beside_what_has_no_date_is_refused_as_by_the_engine(small, caplog):
    index, database = small
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    for field in ("year", "color", "tags", "in.year", "$title"):
        for name in (*NAMES, "scope"):
            for condition in ({field: {"$lt": DAY}}, {"$not": {field: TIME}}):
                with pytest.raises(InvalidArgumentError, match=r"^The filter compares"):
                    inside.retrieve("Who?", entities=["Name 5"], **{name: condition})
                with pytest.raises(InvalidArgumentError, match=r"^The filter compares"):
                    filter_mask(index.graph, condition)
    # That a field has dates is looked up once, and of one that no node has there is nothing to refuse.
    assert not inside.retrieve("Who?", entities=["Name 5"], filter={"absent": {"$lt": DAY}}).nodes
    rounds = []
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger="neo4j.io"):
            inside.retrieve("Who?", entities=["Name 5"], filter={"when": {"$lt": DAY}})
        rounds.append(sum("C: RUN" in record.getMessage() for record in caplog.records))
    assert rounds == [2, 1]


def test_dates_of_a_graph_that_write_graph_did_not_write_are_refused(database):
    label = database.schema.label
    database.write(f"CREATE (n:`{label}` {{id: 'a', name: 'A', metadata_when: '2024-01-02'}})")
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    with pytest.raises(InvalidArgumentError, match="one has '2024-01-02'.*A database has the dates that write_graph wrote: write"):
        inside.retrieve("A?", entities=["A"], filter={"when": {"$lt": DAY}})
    assert matched(database, {"when": {"$lt": "2024-01-03"}}) == {"a"}


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
        except InvalidArgumentError as error:
            assert str(error).startswith("The filter compares")
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
            except (TypeError, InvalidArgumentError):
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
    {"passages": True, "passage_type": ("none", "ODD")},
    {"passages": False, "passage_type": ["ODD", "none"], "gate": "uniform"},
]


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_filters_give_what_the_engine_gives(filtered, way):
    index, database = filtered
    k = 5 if (way + len(index) // 100) % 2 else 300
    options = {**WAYS[way], "k": k}
    engine = on(index, SpreadingActivation, backfill=False, **options)
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), **options)
    draw = random.Random(way)
    for names in [[name] for name in NAMES] + [NAMES[:2], NAMES[1:], NAMES]:
        filters = random_filters(draw, index, names)
        texts, entities = map(list, zip(*draw.sample(QUESTIONS, 2), strict=True))
        found = inside.retrieve_batch(texts, entities=entities, **filters)
        for hits, wanted in zip(found, engine.retrieve_batch(texts, entities=entities, **filters), strict=True):
            try:
                assert_same(hits, wanted)
            except AssertionError as error:
                raise AssertionError(f"{filters} {texts} {entities}") from error
            assert hits.notes == wanted.notes


def test_names_whose_nodes_may_not_be_seeds_count_as_not_found(database):
    """The longest name of the question stands for its words, whether or not its nodes may be seeds."""
    titles = {"a": "Kyiv", "b": "University of Kyiv", "c": "Lviv", "d": "lviv"}
    nodes = [Node(key, "", title, "", {"kind": "school" if key == "b" else "city"}) for key, title in titles.items()]
    vectors = np.eye(4, DIMENSION, dtype=np.float32) + 0.1
    index = GraphIndex.from_nodes(
        nodes, [("a", "b", "r"), ("b", "c", "r")], vectors=vectors, embedding=RandomEmbedding(), bm25=False
    )
    write_graph(database, index)
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), gate="uniform")
    engine = Retriever(index, SpreadingActivation(gate="uniform"), backfill=False)
    seeds = inside.retrieve("The University of Kyiv?", seed_filter={"kind": "city"})
    assert "VectorSearch" in {hit.operator for hit in seeds} and "EntityLinking" not in {hit.operator for hit in seeds}
    for text, entities in (("The University of Kyiv?", None), ("q", ["University of Kyiv", "Kyiv"]), ("q", ["Kyiv"])):
        for condition in ({"kind": "city"}, {"kind": "school"}, {"kind": "river"}, {"$not": {"$id": "a"}}):
            found = inside.retrieve(text, entities=entities, seed_filter=condition)
            wanted = engine.retrieve(text, entities=entities, seed_filter=condition)
            assert_same(found, wanted)
            assert found.notes[: len(wanted.notes)] == wanted.notes
            if condition == {"kind": "river"}:
                assert list(found) == [] and found.notes[-1] == NOTHING_FOUND


def test_a_vector_index_is_asked_for_more_where_seeds_are_filtered(cypher_server, database):
    index = filtered_index(100, 7)
    write_graph(database, index)
    name = vector_index(cypher_server, database)
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), vector_index=name)
    engine = Retriever(index, SpreadingActivation(), backfill=False)
    for condition in ({"good": True}, {"$type": "ODD"}):
        for text, entities in (QUESTIONS[1], QUESTIONS[4]):
            assert_same(
                inside.retrieve(text, entities=entities, seed_filter=condition),
                engine.retrieve(text, entities=entities, seed_filter=condition),
            )
    if cypher_server.process is None:
        database.write(f"DROP INDEX `{name}` IF EXISTS")


def test_conditions_that_cannot_be_asked_of_a_database_are_refused(small):
    index, database = small
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
def test_wrong_conditions_are_the_errors_of_the_engine(small, condition):
    index, database = small
    with pytest.raises(InvalidArgumentError) as wanted:
        filter_mask(index.graph, condition)
    with pytest.raises(InvalidArgumentError) as found:
        CypherSpreadingActivation(database, embedding=RandomEmbedding()).retrieve("Who?", filter=condition)
    assert str(found.value) == str(wanted.value)


def test_a_linking_of_its_own(small):
    index, database = small
    options = {"gate": "uniform", "k": 300}
    linking = EntityLinking(budget=3, fallback_score="index", exclude_types=("EVEN",))
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), linking=linking, **options)
    engine = on(index, SpreadingActivation, linking=linking, backfill=False, **options)
    for condition in ({"year": {"$gt": 0}}, {"tags": {"$contains": "red"}}):
        for text, entities in QUESTIONS[:3]:
            assert_same(
                inside.retrieve(text, entities=entities, seed_filter=condition),
                engine.retrieve(text, entities=entities, seed_filter=condition),
            )


# -- injection -----------------------------------------------------------------------------------------------------

KEYS = ["a`b", "a\\u0060b", "a`}) DETACH DELETE n //", "a' OR true //", "a/*", "a\n", "a b ", "{node}", "$x", "`", "x" * 128]


def test_keys_that_could_leave_their_quotes_are_refused(small):
    _, database = small
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


def test_values_are_sent_as_parameters(small, monkeypatch):
    _, database = small
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


def test_a_filtered_question_is_one_round_trip(small, caplog):
    _, database = small
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), chains="hits")
    inside.retrieve("Did Name 5 see it?")
    for condition in ({"year": {"$gte": 0}}, {"absent": 1}):
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger="neo4j.io"):
            inside.retrieve_batch(
                [text for text, _ in QUESTIONS], filter=condition, seed_filter=condition, traversal_filter={"good": True}
            )
        assert sum("C: RUN" in record.getMessage() for record in caplog.records) == len(QUESTIONS)
