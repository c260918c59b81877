"""Filters in PostgreSQL: the nodes that pass are those that pass in memory."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from graph_retrievers import GraphIndex, Node, Retriever
from graph_retrievers.errors import InvalidArgumentError, TimeLimitError
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.stores.postgres import PostgresCorpus, PostgresGraph, open_index, update_index, write_index
from graph_retrievers.stores.postgres.predicates import filter_predicate
from tests.integration.test_cypher_filters import CONDITIONS, DATED, DAY, TIME, expected, filtered_index, random_filter
from tests.postgres import drop


@pytest.fixture(scope="module", params=[100])
def filtered(request, postgres_server):
    """A random graph with metadata of all kinds, in this process and in the database."""
    graph = filtered_index(request.param, request.param).graph
    with postgres_server.open() as database:
        write_index(GraphIndex.from_graph(graph), database, "works")
        yield graph, PostgresGraph(PostgresCorpus(database, "works"))
        drop(database)


def matched(store, condition):
    """The ids of the nodes that a filter lets through, by all ways in which a query asks; and that it is never null."""
    predicate = filter_predicate(condition)
    text = f"SELECT n.id, {predicate.on('n')} FROM {{nodes}} n WHERE n.corpus = %(corpus)s"
    (rows,) = store.corpus.read((text, predicate.parameters))
    assert {passes for _, passes in rows} <= {True, False}, condition
    found = {name for name, passes in rows if passes}
    assert store.within(condition).positions(10**6).keys() == found, condition
    return found


def test_conditions_hold_for_the_nodes_in_memory(filtered):
    graph, store = filtered
    sizes = set()
    for condition in [*CONDITIONS, *DATED]:
        wanted = expected(graph, condition)
        assert matched(store, condition) == wanted, condition
        sizes.add(len(wanted))
    assert len(sizes) > 20


def test_random_conditions_hold_for_the_nodes_in_memory(filtered):
    graph, store = filtered
    draw, sizes = random.Random(2), set()
    for _ in range(300):
        condition = random_filter(draw, len(graph))
        try:
            wanted = expected(graph, condition)
        except (TypeError, InvalidArgumentError):
            continue
        assert matched(store, condition) == wanted, condition
        sizes.add(len(wanted))
    assert len(sizes) > 20


# Values that JSON, SQL or the order of texts may read in another way.
VALUES = [
    *(None, True, False, 0, 1, -1, 1.0, 0.5, -0.0, 2**53, 2.0**53, 2**53 + 1, 1e16, 1e22, 1e23, 10**23, 5e-324, 2**70, 1.5e300),
    *(
        "",
        "a",
        "A",
        "a\x00",
        "a\x00b",
        "a\x01",
        "\x00",
        "\x02",
        "ä",
        "a\u0308",
        "\ue000",
        "\uffff",
        "\U00010000",
        "10",
        "9",
        "null",
    ),
    *("true", "[]", "{}", '"', "\\", "%", "_", "'", "2024-05-01", "2024-05-01T10:00Z", "20240501T10Z", "2024-05-01T12:00+02:00"),
    *([], [None], [[]], [1, True], [True, 1.0], [0.0], ["a", "a\x00"], ["a"], [["a"]], [{"a": 1}], ["2024-05-01", "soon"]),
    *({}, {"a": None}, {"a": True}, {"a": 1, "b": [2]}, {"b": [2], "a": 1.0}, {"a\x00": "\x00"}, {"a.b": 1}, {"a": {"b": 2}}),
    *([{"a": 1}, {"a": [2, 3]}], [[{"a": 5}]], {"a": [{"b": 1}, {"b": 2}]}, {"a.b": 1, "a": {"b": 2}}),
]
PATHS = ["v", "v.a", "v.a.b", "v.b", "v.a\x00", "w", "v.a.c"]
OPERATORS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$exists"]


def test_every_value_against_every_value(postgres):
    """As in Python: true is 1, kinds are not ordered, texts are by their characters, dates are instants."""
    nodes = [Node(f"n{row}", "", metadata={"v": value}) for row, value in enumerate(VALUES)]
    nodes += [Node("none", "", metadata={}), Node("other", "", metadata={"v.a": 7, "w": 1, "v": {"a": 8}})]
    index = GraphIndex.from_nodes(nodes)
    write_index(index, postgres, "works")
    store = PostgresGraph(PostgresCorpus(postgres, "works"))
    draw, refused = random.Random(0), 0
    conditions = [{path: {operator: value}} for path in PATHS[:2] for operator in OPERATORS[:6] for value in VALUES]
    conditions += [{path: {"$contains": value}} for path in PATHS[:3] for value in VALUES]
    conditions += [{path: {operator: draw.sample(VALUES, 3)}} for path in PATHS for operator in ("$in", "$nin") for _ in range(20)]
    conditions += [{path: {"$exists": value}} for path in PATHS for value in (True, False)]
    conditions += [{path: value} for path in PATHS for value in VALUES]
    asked = []
    for condition in conditions:
        try:
            asked.append((condition, expected(index.graph, condition), filter_predicate(condition, f"p{len(asked)}x")))
        except InvalidArgumentError as error:
            assert "a list is compared by" in str(error) or "Did you mean" in str(error), condition
            refused += 1
    # Many in one statement, which takes one round trip.
    for start in range(0, len(asked), 50):
        part = asked[start : start + 50]
        columns = ", ".join(predicate.on("n") for _, _, predicate in part)
        values = {name: value for _, _, predicate in part for name, value in predicate.parameters.items()}
        (rows,) = store.corpus.read((f"SELECT n.id, {columns} FROM {{nodes}} n WHERE n.corpus = %(corpus)s", values))
        for place, (condition, wanted, _) in enumerate(part, start=1):
            assert {row[place] for row in rows} <= {True, False}, condition
            assert {row[0] for row in rows if row[place]} == wanted, condition
    assert len(asked) > 1000 and refused < 200


def test_what_a_database_cannot_compare_is_refused(filtered):
    graph, store = filtered
    for condition, said in [
        ({"tags": {"$gt": ["a"]}}, "asks for [$]gt of .*a list is compared by"),
        ({"year": object()}, "fields are compared to strings, booleans"),
        ({"year": {"$in": [b"x"]}}, "fields are compared to strings, booleans"),
        (lambda node: True, "is a callable, which cannot be part of a query"),
        (filter_mask(graph, {}), "is a mask, which cannot be part of a query"),
        ({"year": {"$near": 1}}, "Unknown filter operator"),
        ({"$title": {"$gt": DAY}}, "which is text"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            store.within(condition)
    assert matched(store, {"year": {"$in": [np.int64(1), np.float32(2.0)]}}) == expected(graph, {"year": {"$in": [1, 2]}})


def test_a_date_beside_what_has_no_date_is_refused_as_in_memory(filtered):
    graph, store = filtered
    for field in ("year", "color", "tags", "in.year", "$title"):
        for condition in ({field: {"$lt": DAY}}, {"$not": {field: TIME}}):
            with pytest.raises(InvalidArgumentError, match=r"^The filter compares") as caught:
                filter_mask(graph, condition)
            with pytest.raises(InvalidArgumentError) as told:
                store.check_filter(condition)
            assert str(told.value).partition("one has")[0] == str(caught.value).partition("one has")[0]
    for condition in ({"absent": {"$lt": DAY}}, {"when": DAY}, {"in.when": {"$in": [TIME]}}, {"days": {"$contains": DAY}}):
        store.check_filter(condition)


def test_dates_are_compared_with_what_an_index_holds_now(postgres):
    for name, held in (("dated", {"when": "1950-01-01"}), ("worded", {"when": "soon"}), ("bare", {"when": []})):
        write_index(GraphIndex.from_nodes([Node("t", "A loom.", metadata=held)]), postgres, name)
    condition, refused = {"when": {"$gt": DAY}}, r"no node has a date there; one has 'soon'"
    for name in ("dated", "bare", "dated"):
        PostgresGraph(PostgresCorpus(postgres, name)).check_filter(condition)
    with pytest.raises(InvalidArgumentError, match=refused):
        PostgresGraph(PostgresCorpus(postgres, "worded")).check_filter(condition)
    update_index(postgres, "dated", upsert=[Node("t", "A loom.", metadata={"when": "soon"})])
    with pytest.raises(InvalidArgumentError, match=refused):
        PostgresGraph(PostgresCorpus(postgres, "dated")).check_filter(condition)


def test_a_filter_that_few_pass_is_answered_from_an_index(postgres):
    nodes = [Node(f"n{row}", "", metadata={"tenant": f"t{row % 1000}", "tags": [row % 997, "all"]}) for row in range(5000)]
    write_index(GraphIndex.from_nodes(nodes), postgres, "works")
    for condition in ({"tenant": "t7"}, {"tenant": {"$in": ["t7", "t8"]}}, {"tags": {"$contains": 5}}):
        predicate = filter_predicate(condition)
        given = {"corpus": PostgresCorpus(postgres, "works").number, **predicate.parameters}
        (rows,) = postgres.read((f"EXPLAIN SELECT id FROM {{nodes}} n WHERE n.corpus = %(corpus)s AND {predicate.on('n')}", given))
        assert any("nodes_fields" in line for (line,) in rows), rows


def test_an_integer_of_hundreds_of_digits_is_compared(postgres):
    values = [10**400 - 1, 10**400, 10**400 + 1, 5, 1e300, "10"]
    index = GraphIndex.from_nodes([Node(str(row), "A loom.", metadata={"a": value}) for row, value in enumerate(values)])
    write_index(index, postgres, "works")
    stored = Retriever(open_index(postgres, "works"), "bm25")
    for sign in ("$gte", "$gt", "$lt", "$eq"):
        condition = {"a": {sign: 10**400}}
        expected = [name for name, passes in zip(index.graph.ids, filter_mask(index.graph, condition), strict=True) if passes]
        assert [hit.id for hit in stored.retrieve("loom", filter=condition)] == expected


def owned():
    """Nodes of three owners, of whom one has dates in a field, one words, and one nothing."""
    held = {"a": {"note": "of a"}, "b": {"note": "2024-05-01"}, "c": {}}
    return [Node(f"{owner}{n}", "A loom.", metadata={"owner": owner, **fields}) for owner, fields in held.items() for n in range(2)]


@pytest.mark.parametrize("question", ["loom", ""])
def test_a_filter_in_a_scope_reads_the_scope_alone(question, postgres):
    index = GraphIndex.from_nodes(owned())
    write_index(index, postgres, "works")
    stored, local = Retriever(open_index(postgres, "works"), "bm25"), Retriever(index, "bm25")
    for owner, found in (("a", None), ("b", ["b0", "b1"]), ("c", [])):
        given = {"scope": {"owner": owner}, "filter": {"note": {"$gt": DAY}}}
        if found is not None:
            for retriever in (local, stored):
                assert [hit.id for hit in retriever.retrieve(question, **given)] == found
            continue
        for retriever in (local, stored):
            # Another owner has dates there, and nobody sees what they are.
            with pytest.raises(InvalidArgumentError, match="no node has a date there; one has 'of a'"):
                retriever.retrieve(question, **given)


HELD = [
    {"year": 1950, "open": True, "press": {"city": "Lund"}, "mixed": 1, "a.b": "x"},
    {"year": 1955, "tags": ["x"], "size": {"width": 2}, "mixed": "1950", "when": "1950-01-01"},
    {"year": None, 'it\'s "odd"; --$$': 1, "\x00": 2, "ü\U0001f9f6": [1]},
    {},
]
NEVER = [
    *({"yaer": 1950}, {"yaer": {"$gt": 1950}}, {"$and": [{"$or": [{"color": "red"}]}]}, {"none": {"$contains": 1}}),
    *({"year": [1950, 1955]}, {"$id": ["a", "b"]}, {"tags": "x"}, {"tags": {"$in": ["x", "y"]}}, {"year": {"$in": ["1950"]}}),
    *({"year": "1950"}, {"year": {"$contains": 1950}}, {"year": {"$gt": "5"}}, {"year": {"$lte": "9"}}, {"year": {"$lt": None}}),
    *(
        {"tags": {"$gt": "a"}},
        {"$title": {"$gt": 5}},
        {"$and": [{"year": {"$gt": 1900, "$lt": "2000"}}]},
        {"yaer": {"$in": []}},
        {"_blan": 1},
    ),
    *({"size": {"$gt": {"width": 1}}}, {"size": {"width": {"$gt": "1"}}}, {"press.cty": "Lund"}, {"press.city": 5}, {"a.b": 5}),
    *({"a.c": 5}, {"'; DROP TABLE nodes; --": 1}, {"\x00\x00": 1}, {"\x00": "2"}, {'it\'s "odd"; --$$': "1"}, {"%(key)s {a}": 1}),
    *({"n" * 5000: 1}, {"ü\U0001f9f6": 1}, {"": 1}, {".": 1}, {"$or": [{"yaer": 1}, {"year": "x"}, {"no": 1}, {"year": 1950}]}),
    *({"$or": [{"year": 1950}, {"year": "1950"}]}, {"year": 1950, "$and": [{"year": [1950]}]}),
    {"$or": [{f"no{number}": 1} for number in range(30)] + [{"year": "1"}]},
]
MAY = [
    *({"archived": {"$ne": True}}, {"archived": {"$nin": [True]}}, {"$not": {"archived": True}}, {"archived": None}),
    *({"$or": [{"archived": {"$exists": False}}, {"archived": {"$in": [""]}}]}, {"mixed": "1950"}, {"mixed": {"$in": ["no", 1]}}),
    *({"year": {"$in": []}}, {"year": {"$in": [None, "1950"]}}, {"year": 1.5}, {"when": DAY}, {"tags": {"$contains": "y"}}, {}),
    *({"press": {"city": {"$gt": "A"}}}, {"open": 1}, {"a.b": "y"}, {"$title": {"$contains": "A"}}, {"\x00": 3}),
]


@pytest.fixture(scope="module")
def told(postgres_server):
    """An index in this process and in the database."""
    nodes = [Node(str(row), "A loom.", metadata=held) for row, held in enumerate(HELD)]
    # Of a node without anything to read, the database knows by a field of its own.
    index = GraphIndex.from_nodes([*nodes, Node("blank", "")])
    with postgres_server.open() as database:
        write_index(index, database, "works")
        yield index, database
        drop(database)


def warnings_of(caplog, retriever, question, **filters):
    """What a call warns of."""
    caplog.clear()
    retriever.retrieve(question, **filters)
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("name", ["filter", "seed_filter", "traversal_filter", "scope"])
@pytest.mark.parametrize("question", ["loom", ""])
def test_what_can_never_match_is_told_as_in_memory(name, question, told, caplog):
    index, database = told
    # Listing reads the filter and the scope alone.
    if question or name in ("filter", "scope"):
        for condition in NEVER:
            # Both have told nothing yet.
            local = Retriever(GraphIndex.from_nodes([index.graph.node(row) for row in range(len(index))]), "bm25")
            database.checked = type(database.checked)(database.checked.limit)
            stored = Retriever(open_index(database, "works"), "bm25")
            expected = warnings_of(caplog, local, question, **{name: condition})
            assert expected and warnings_of(caplog, stored, question, **{name: condition}) == expected, condition
            assert warnings_of(caplog, stored, question, **{name: condition}) == [], condition


@pytest.mark.parametrize("name", ["filter", "seed_filter", "traversal_filter", "scope"])
def test_what_may_match_is_not_told(name, told, caplog):
    stored = Retriever(open_index(told[1], "works"), "bm25")
    for condition in MAY:
        assert warnings_of(caplog, stored, "loom", **{name: condition}) == [], condition


def test_a_value_of_another_type_than_one_before_is_told_as_in_memory(told, caplog):
    index, database = told
    database.checked = type(database.checked)(database.checked.limit)
    for place in (GraphIndex.from_nodes([index.graph.node(row) for row in range(len(index))]), open_index(database, "works")):
        conditions = ({"year": 1950}, {"year": "1950"}, {"year": "1951"}, {"year": 1951}, {"year": {"$in": [None, 1]}})
        found = [warnings_of(caplog, Retriever(place, "bm25"), "loom", filter=condition) for condition in conditions]
        assert [len(messages) for messages in found] == [0, 1, 0, 0, 0]


def test_a_field_of_a_filter_with_many_conditions_is_told_later_as_in_memory(told, caplog):
    index, database = told
    database.checked = type(database.checked)(database.checked.limit)
    many = {"$or": [*({f"no{number}": 1} for number in range(30)), {"year": 1950}]}
    for place in (GraphIndex.from_nodes([index.graph.node(row) for row in range(len(index))]), open_index(database, "works")):
        retriever = Retriever(place, "bm25")
        found = [warnings_of(caplog, retriever, "loom", filter=condition) for condition in (many, {"year": "1950"}, {"no29": "1"})]
        assert [len(messages) for messages in found] == [30, 1, 0]


def test_in_a_scope_the_fields_of_the_scope_are_told(postgres, caplog):
    nodes = [Node(f"t{row}", "A loom.", metadata={**held, "owner": "t"}) for row, held in enumerate(HELD)]
    index = GraphIndex.from_nodes([*nodes, Node("v", "A loom.", metadata={"owner": "v", "color": "red", "year": "MCM"})])
    write_index(index, postgres, "works")
    stored, local = Retriever(open_index(postgres, "works"), "bm25"), Retriever(index, "bm25")
    for owner in "tv":
        for condition in ({"color": "blue"}, {"tags": {"$contains": "x"}}, {"year": {"$gt": 1900}}):
            given = {"scope": {"owner": owner}, "filter": condition}
            expected = warnings_of(caplog, local, "loom", **given)
            assert warnings_of(caplog, stored, "loom", **given) == expected
            assert len(expected) == (condition in ({"color": "blue"},) if owner == "t" else "color" not in condition)
            assert warnings_of(caplog, stored, "loom", **given) == []


def test_a_filter_that_was_checked_takes_no_further_round_trip(postgres, caplog, monkeypatch):
    write_index(GraphIndex.from_nodes([Node("t", "A loom.", metadata={**HELD[1], "owner": "t"})]), postgres, "works")
    retriever, read, asked = Retriever(open_index(postgres, "works"), "bm25"), postgres.read, []
    monkeypatch.setattr(postgres, "read", lambda *statements: asked.append(str(statements)) or read(*statements))

    def round_trips(**filters):
        asked.clear()
        retriever.retrieve("loom", **filters)
        return sum(
            "jsonb_typeof(n.fields -> " in texts or "jsonb_typeof(f.value)" in texts or "n.dates ?" in texts for texts in asked
        )

    several = {"$id": {"$in": [None, "t"]}, "year": {"$in": [None, 1955]}}
    for condition, more in (
        *(({"year": {"$lt": 1}, "tags": ["x"]}, 1), ({"nowhere": 1, "year": {"$lt": 1}}, 2)),
        *(({"when": DAY}, 2), (several, 1)),
    ):
        assert round_trips(filter=condition, seed_filter=condition) == more
        assert round_trips(filter=condition, traversal_filter=condition) == 0
    # Also after a change, and in a scope after its first question.
    update_index(postgres, "works", upsert=[Node("w", "A loom.", metadata={"owner": "w"})])
    retriever.retrieve("loom")
    assert round_trips(filter={"nowhere": 1}) == 0
    scoped = {"scope": {"owner": "t"}, "filter": {"when": {"$gt": DAY}}}
    assert [round_trips(**scoped), round_trips(**scoped)] == [3, 0]
    assert ["nowhere" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("condition", [{"\ud800": 1}, {"\ud800": {"$gt": DAY}}])
def test_a_field_whose_name_cannot_be_sent_is_told_of_as_in_memory(condition, postgres, caplog):
    index = GraphIndex.from_nodes([Node("t", "A loom.", metadata=HELD[0])])
    write_index(index, postgres, "works")
    places = (index, open_index(postgres, "works"))
    local, stored = (warnings_of(caplog, Retriever(place, "bm25"), "loom", filter=condition) for place in places)
    assert stored == local != []


def test_each_index_of_a_database_is_told_of(postgres, caplog):
    for name in ("works", "others"):
        write_index(GraphIndex.from_nodes([Node("t", "A loom.", metadata=HELD[0])]), postgres, name)
        retriever = Retriever(open_index(postgres, name), "bm25")
        assert len(warnings_of(caplog, retriever, "loom", filter={"yaer": 1})) == 1


def test_what_is_read_for_a_warning_is_bounded(postgres, caplog, monkeypatch):
    write_index(GraphIndex.from_nodes([Node("t", "A loom.", metadata={"a": 1, "b": 2, "c": 3})]), postgres, "works")
    graph, read, asked = PostgresGraph(PostgresCorpus(postgres, "works")), postgres.read, []
    monkeypatch.setattr(postgres, "read", lambda *statements: asked.append(str(statements)) or read(*statements))

    def looked_up(condition):
        asked.clear()
        graph.check_filter(condition)
        return sum(texts.count("jsonb_typeof(n.fields -> ") for texts in asked), len(asked)

    # Conditions of a field and a type are one; of many others, all fields are read at once.
    assert looked_up({"$or": [{"a": number} for number in range(100)]}) == (1, 1) and not caplog.records
    assert looked_up({f"no{number}": 1 for number in range(20)}) == (20, 2) and len(caplog.records) == 20
    assert looked_up({f"other{number}": 1 for number in range(21)}) == (0, 1) and len(caplog.records) == 41
    for most, told in ((2, 0), (3, 1)):
        monkeypatch.setattr("graph_retrievers.stores.postgres.graph._FIELDS", most)
        caplog.clear()
        graph.check_filter({f"more than {most}": 1})
        assert len(caplog.records) == told


def test_what_many_threads_ask_at_once_is_told_once(postgres, caplog):
    write_index(GraphIndex.from_nodes([Node("t", "A loom.", metadata=HELD[0])]), postgres, "works")
    retriever = Retriever(open_index(postgres, "works"), "bm25")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: retriever.retrieve("loom", filter={"yaer": 1, "year": "1"}), range(16)))
    assert sorted(record.getMessage()[:25] for record in caplog.records) == [
        "The filter names 'yaer', ",
        "The filter {'year': {'$eq",
    ]


def test_a_warning_that_takes_too_long_ends_one_question_alone(postgres, monkeypatch):
    write_index(GraphIndex.from_nodes([Node("t", "A loom.", metadata=HELD[0])]), postgres, "works")
    retriever, read = Retriever(open_index(postgres, "works"), "bm25"), PostgresCorpus.read

    def late(self, *statements):
        slow = any("jsonb_typeof(f.value)" in text for text, _ in statements)
        return read(self, *statements, *([("SELECT pg_sleep(20)", {})] if slow else []))

    monkeypatch.setattr(PostgresCorpus, "read", late)
    with pytest.raises(TimeLimitError, match="has no answer after .* and its time_limit is 0.5: no step of this batch was made"):
        Retriever(retriever.index, "bm25", time_limit=0.5).retrieve("loom", filter={"color": 1})
    assert not retriever.retrieve("loom", filter={"color": 1})
