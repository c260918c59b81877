"""LlamaIndex metadata filters: every operator and condition, against LlamaIndex' own filter function, and in retrieval."""

from datetime import datetime, timedelta, timezone

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.schema import QueryBundle
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from graph_retrievers import BM25, FastInsight, Hybrid, Vector
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.graph.filters import filter_mask
from llama_graph_retrievers import FastInsightRetriever, GraphRetriever, provenance
from llama_graph_retrievers.metadata_filters import engine_filter
from tests.helpers import CORPUS, linked_index

YEARS = {name: year for name, _, _, year, _ in CORPUS}
WAR = {"turing", "bletchley", "colossus"}
Op = FilterOperator


def one(key, value, operator=Op.EQ):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


def matched(filters, metadata):
    graph = CorpusGraph.from_nodes([Node("n", "text", metadata=metadata)])
    return bool(filter_mask(graph, engine_filter(filters, graph)))


# -- meaning ------------------------------------------------------------------------------------------------------------


METADATA = {
    **{"year": 1843, "name": "Ada Lovelace", "tags": ["poet", "countess"], "empty": "", "none": []},
    **{"read": datetime(2024, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=1))), "shelf": {"row": 5, "label": "Loom"}},
}


@pytest.mark.parametrize(
    ("key", "operator", "value", "expected"),
    [
        ("year", Op.EQ, 1843, True),
        ("year", Op.EQ, 1844, False),
        ("year", Op.NE, 1843, False),
        ("year", Op.GT, 1842, True),
        ("year", Op.GT, 1843, False),
        ("year", Op.GTE, 1843, True),
        ("year", Op.LT, 1843, False),
        ("year", Op.LTE, 1843, True),
        ("year", Op.IN, [1, 1843], True),
        ("year", Op.NIN, [1, 1843], False),
        ("tags", Op.CONTAINS, "poet", True),
        ("tags", Op.CONTAINS, "king", False),
        ("tags", Op.ANY, ["king", "poet"], True),
        ("tags", Op.ANY, ["king"], False),
        ("tags", Op.ALL, ["countess", "poet"], True),
        ("tags", Op.ALL, ["countess", "king"], False),
        ("tags", Op.ALL, [], True),
        ("tags", Op.ANY, [], False),
        ("absent", Op.ALL, [], False),
        ("absent", Op.CONTAINS, "poet", False),
        ("name", Op.CONTAINS, "Ada", True),
        ("name", Op.CONTAINS, 5, False),
        ("year", Op.CONTAINS, 1, False),
        ("year", Op.EQ, None, False),
        ("absent", Op.EQ, None, False),
        ("year", Op.NE, None, True),
        ("absent", Op.NE, None, True),
        ("name", Op.TEXT_MATCH, "Lovelace", True),
        ("name", Op.TEXT_MATCH, "lovelace", False),
        ("name", Op.TEXT_MATCH_INSENSITIVE, "lovelace", True),
        ("empty", Op.IS_EMPTY, None, True),
        ("none", Op.IS_EMPTY, None, True),
        ("absent", Op.IS_EMPTY, None, True),
        ("name", Op.IS_EMPTY, None, False),
        ("absent", Op.EQ, 1, False),
        ("absent", Op.NE, 1, True),
        ("absent", Op.NIN, [1], True),
        ("absent", Op.GT, 1, False),
        ("name", Op.GT, 5, False),  # a string is not in order with a number
        ("year", Op.TEXT_MATCH, "18", False),
        # Half past eleven of the day before, in UTC.
        ("read", Op.LT, "2023-12-31T23:40:00Z", True),
        ("read", Op.GTE, "2024-01-01", False),
        ("read", Op.LTE, "2023-12-31", True),
        ("read", Op.EQ, "2023-12-31T23:30:00", True),
        ("read", Op.IN, ["2023-12-31"], True),
        ("shelf.row", Op.GT, 4, True),
        ("shelf.label", Op.TEXT_MATCH_INSENSITIVE, "loom", True),
        ("shelf.absent", Op.IS_EMPTY, None, True),
    ],
)
def test_each_operator(key, operator, value, expected):
    assert matched(one(key, value, operator), METADATA) is expected
    opposite = MetadataFilters(filters=one(key, value, operator).filters, condition=FilterCondition.NOT)
    assert matched(opposite, METADATA) is not expected


def test_filters_are_mappings_so_that_a_database_reads_them():
    """Every operator but one has a mapping, and means the same wherever it is evaluated."""
    for operator in set(Op) - {Op.TEXT_MATCH_INSENSITIVE}:
        filters = one("name", ["x"] if operator in (Op.IN, Op.NIN, Op.ANY, Op.ALL) else "x", operator)
        assert isinstance(engine_filter(filters), dict) and matched(filters, METADATA) == (
            operator in (Op.NE, Op.NIN, Op.LT, Op.LTE)
        )
    with pytest.raises(InvalidArgumentError, match="text_match_insensitive.*in memory only.*'text_match'"):
        engine_filter(one("name", "x", Op.TEXT_MATCH_INSENSITIVE))


def test_case_is_ignored_within_nested_filters_too():
    loud = MetadataFilter(key="topic", value="WAR", operator=Op.TEXT_MATCH_INSENSITIVE)
    early = MetadataFilter(key="year", value=1940, operator=Op.LT)
    filters = MetadataFilters(filters=[MetadataFilters(filters=[loud], condition=FilterCondition.NOT), early])
    nodes = GraphRetriever(linked_index(), Vector(), filters=filters, similarity_top_k=12).retrieve("machine")
    assert {n.node.node_id for n in nodes} == set(YEARS) - WAR


def test_every_operator_of_llama_index_is_known():
    for operator in Op:
        value = ["x"] if operator in (Op.IN, Op.NIN, Op.ANY, Op.ALL) else "x"
        assert matched(one("name", value, operator), METADATA) in (True, False)


@pytest.mark.parametrize("operator", [Op.IN, Op.NIN, Op.ANY, Op.ALL])
def test_an_operator_on_lists_refuses_a_single_value(operator):
    with pytest.raises(InvalidArgumentError, match="takes a list"):
        GraphRetriever(linked_index(), BM25(), filters=one("topic", "war", operator))


def test_text_match_refuses_a_number():
    with pytest.raises(InvalidArgumentError, match="takes a string"):
        engine_filter(one("topic", 3, Op.TEXT_MATCH))


_PARTS = st.one_of(
    st.builds(
        MetadataFilter,
        key=st.sampled_from("ab"),
        value=st.integers(0, 3),
        operator=st.sampled_from([Op.EQ, Op.NE, Op.GT, Op.GTE, Op.LT, Op.LTE, Op.IS_EMPTY]),
    ),
    st.builds(
        MetadataFilter,
        key=st.sampled_from("ab"),
        value=st.lists(st.integers(0, 3), min_size=1, max_size=3),
        operator=st.sampled_from([Op.IN, Op.NIN]),
    ),
)


@settings(max_examples=150)
@given(
    parts=st.lists(_PARTS, max_size=3),
    condition=st.sampled_from([*FilterCondition, None]),
    metadata=st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)),
)
def test_flat_filters_agree_with_llama_index_itself(parts, condition, metadata):
    filters = MetadataFilters(filters=parts, condition=condition)
    assert matched(filters, metadata) == build_metadata_filter_fn(lambda _: metadata, filters)("n")


def test_filters_nest():
    late = MetadataFilter(key="year", value=1900, operator=Op.GT)
    war = MetadataFilter(key="topic", value="war")
    neither = MetadataFilters(filters=[late, war], condition=FilterCondition.NOT)
    early = MetadataFilter(key="year", value=1800, operator=Op.LT)
    both = MetadataFilters(filters=[neither, early], condition=FilterCondition.AND)
    nested = MetadataFilters(filters=[both, MetadataFilter(key="year", value=1911)], condition=FilterCondition.OR)
    nodes = GraphRetriever(linked_index(), Vector(), filters=nested, similarity_top_k=12).retrieve("machine")
    assert {n.node.node_id for n in nodes} == {"cards", "loom", "ibm"}


# -- in retrieval -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", [BM25(), FastInsight(), None, Hybrid(), Vector()])
def test_only_matching_nodes_are_returned_and_as_many_as_there_are(system):
    retriever = GraphRetriever(linked_index(), system, filters=one("topic", "war"), similarity_top_k=5)
    assert {n.node.node_id for n in retriever.retrieve("Who built the engine?")} == WAR


def test_the_engines_own_filters_are_taken_too():
    index = linked_index()
    mapping = GraphRetriever(index, Vector(), filters={"year": {"$gt": 1900}})
    function = GraphRetriever(index, Vector(), filters=lambda node: node.metadata["year"] > 1900)
    llama = GraphRetriever(index, Vector(), filters=one("year", 1900, Op.GT))
    assert mapping.retrieve("machine") == function.retrieve("machine") == llama.retrieve("machine")


def test_a_filter_that_nothing_passes_gives_nothing():
    assert GraphRetriever(linked_index(), Vector(), filters=one("topic", "cooking")).retrieve("engine") == []


def test_a_filter_is_worked_out_once_and_not_for_every_query():
    asked = []
    retriever = GraphRetriever(linked_index(), Vector(), filters=lambda node: asked.append(node.id) is None)
    retriever.retrieve("engine")
    retriever.retrieve(QueryBundle("loom"))
    assert len(asked) == 12


@pytest.mark.parametrize("mask", [torch.ones(3, dtype=torch.bool), torch.ones(12)], ids=["another graph", "no bools"])
def test_a_mask_must_fit_the_graph(mask):
    with pytest.raises(InvalidArgumentError, match="one bool for each node"):
        GraphRetriever(linked_index(), Vector(), filters=mask)


def test_seeds_and_traversal_have_filters_of_their_own():
    index = linked_index()
    knobs = {"system": FastInsight(nodes_per_round=2, budget=12), "backfill": False, "similarity_top_k": 12}
    seeded = FastInsightRetriever(index, seed_filters=one("topic", "war"), **knobs).retrieve("engine")
    assert {n.node.node_id for n in seeded} <= WAR and seeded
    held = FastInsightRetriever(index, traversal_filters=one("year", 1830, Op.LT), **knobs).retrieve("Analytical Engine")
    walked = {n.node.node_id for n in held if len(provenance(n)["path"]["nodes"]) > 1}
    assert walked and all(YEARS[name] < 1830 for name in walked)


def test_traversal_may_pass_through_what_is_not_returned():
    hidden = one("topic", "machines", Op.NE)
    knobs = {"system": FastInsight(nodes_per_round=1, budget=12), "backfill": False, "similarity_top_k": 12}
    index = linked_index(include_titles=False)
    seed_only = one("year", 1938)  # Bletchley Park, between Turing and Colossus
    found = FastInsightRetriever(index, filters=one("year", 1943), seed_filters=one("year", 1936), **knobs).retrieve("machine")
    assert [provenance(n)["path"]["nodes"] for n in found] == [["turing", "bletchley", "colossus"]]
    spread = FastInsightRetriever(index, filters=hidden, seed_filters=seed_only, **knobs).retrieve("machine")
    assert {n.node.node_id for n in spread} == WAR


@pytest.mark.parametrize(
    ("operator", "wanted", "found"),
    [
        ("text_match_insensitive", "ada", "ab"),
        ("text_match_insensitive", "ADA L", "ab"),
        ("text_match_insensitive", "", "abeg"),
        ("text_match_insensitive", "18", ""),
        ("text_match_insensitive", "straße", "e"),
        ("text_match", "Ada", "ad"),
        ("text_match", "ada", "b"),
        ("text_match", "18", ""),
        ("is_empty", None, "fgx"),
        ("any", ["Ada", "B"], "ad"),
        ("all", ["Ada", "B"], "d"),
        ("all", [], "abcdefg"),
    ],
)
def test_text_filters(operator, wanted, found):
    names = {"a": "Ada Lovelace", "b": "ada lovelace", "c": 1843, "d": ["Ada", "B"], "e": "Auf der STRAßE", "f": [], "g": ""}
    nodes = [Node(name, "text", metadata={"name": value}) for name, value in names.items()]
    graph = CorpusGraph.from_nodes([*nodes, Node("x", "text", metadata={"other": "Ada Lovelace"})])
    part = MetadataFilter(key="name", value=wanted, operator=FilterOperator(operator))
    mask = filter_mask(graph, engine_filter(MetadataFilters(filters=[part]), graph))
    assert "".join(graph.ids[row] for row in mask.nonzero().flatten().tolist()) == found
