"""Knowledge graphs: read out of documents by a language model, and read from what others made."""

import json
import logging
import random
import re
from datetime import date, timedelta
from decimal import Decimal

import neo4j.time
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.load.serializable import Serializable
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import ChunkNode, EntityNode, Relation
from llama_index.core.schema import TextNode
from pydantic import Field

from graph_retrievers.construction.entity_extraction import canonical_description
from graph_retrievers.construction.entity_resolution import candidate_clusters, majority_type, merged_names
from graph_retrievers.construction.knowledge import KnowledgeGraphBuilder
from graph_retrievers.construction.knowledge_readers import from_graph_documents, from_property_graph_store, from_triples_file
from graph_retrievers.construction.networkx_graphs import from_networkx
from graph_retrievers.errors import (
    CorruptIndexError,
    DatasetError,
    DuplicateNodeError,
    EmptyGraphError,
    InvalidArgumentError,
    LanguageModelError,
)
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, FactSearch, PersonalizedPageRank, Pipeline
from graph_retrievers.retrievers import Retriever
from tests.helpers import as_edges

KING = Node("p1", "Louis XIII reigned in France. Louis XIII of France married Anne of Austria.", title="Louis XIII")
QUEEN = Node("p2", "Anne of Austria was queen. She was the mother of Louis XIV.", title="Anne of Austria")

EXTRACTED = {
    "Louis XIII": {
        "entities": [
            {"name": "Louis XIII", "type": "PERSON", "description": "King of France."},
            {"name": "Louis  XIII of France", "type": "PERSON", "description": "King of France. | Son of Henry IV."},
            {"name": "Anne of Austria", "type": "PERSON", "description": "A queen."},
            {"name": "France", "type": "LOCATION", "description": "A country."},
        ],
        "relations": [
            {"source": "Louis XIII", "relation": "reigned in", "target": "France"},
            {"source": "louis xiii", "relation": "also called", "target": "Louis XIII of France"},
            {"source": "Louis XIII of France", "relation": "married", "target": "Anne of Austria"},
        ],
    },
    "Anne of Austria": {
        "entities": [{"name": "ANNE of Austria", "type": "PERSON", "description": "Queen of France."}],
        "relations": [{"source": "Anne of Austria", "relation": "mother of", "target": "Louis XIV"}],
    },
}
MERGED = {"groups": [{"canonical": "Louis XIII of France", "members": ["Louis XIII", "Louis XIII of France"]}]}


class Reader:
    """A model that reads the known documents and merges the known names; it counts and keeps what it is asked."""

    def __init__(self, extracted=EXTRACTED, resolved=MERGED, fails=(), error=ConnectionError):
        self.extracted, self.resolved, self.fails, self.error = extracted, resolved, set(fails), error
        self.prompts = []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        title = re.search(r"Title: (.*)", prompt)
        if title is None:
            if "names" in self.fails:
                raise self.error("gone")
            return json.dumps(self.resolved)
        if title.group(1) in self.fails:
            raise self.error("gone")
        return json.dumps(self.extracted[title.group(1)])


def build(model, documents=(KING, QUEEN), **options):
    return KnowledgeGraphBuilder(model, **options).build(documents)


def node(graph, name):
    return graph.node(graph.row(name))


def test_entities_triples_and_mentions_of_two_documents():
    built = build(Reader())
    graph = built.graph
    assert graph.ids == [
        "p1",
        "p2",
        "entity:anne of austria",
        "entity:france",
        "entity:louis xiii of france",
        "entity:louis xiv",
    ]
    assert graph.types == ["passage", "passage", "PERSON", "LOCATION", "PERSON", ""]
    assert {(edge.source, edge.target, edge.relation) for edge in graph.edges()} == {
        ("entity:louis xiii of france", "entity:france", "reigned in"),
        ("entity:louis xiii of france", "entity:anne of austria", "married"),
        ("entity:anne of austria", "entity:louis xiv", "mother of"),
        ("p1", "entity:anne of austria", "mentions"),
        ("p1", "entity:france", "mentions"),
        ("p1", "entity:louis xiii of france", "mentions"),
        ("p2", "entity:anne of austria", "mentions"),
        ("p2", "entity:louis xiv", "mentions"),
    }
    king = node(graph, "entity:louis xiii of france")
    assert (king.title, king.text) == ("Louis XIII of France", "King of France. Son of Henry IV.")
    assert node(graph, "entity:anne of austria").text == "A queen. Queen of France."
    assert node(graph, "entity:louis xiv").text == ""
    assert built.aliases == {"Louis XIII": "Louis XIII of France"} and built.failures == ()


def test_without_resolution_names_stay_apart():
    graph = build(Reader(), resolve=False).graph
    assert "entity:louis xiii" in graph and "entity:louis xiii of france" in graph
    assert Edge("entity:louis xiii", "entity:louis xiii of france", "also called") in graph.edges()


def test_an_entity_without_a_description_has_no_vector():
    def model(texts):
        return np.ones((len(texts), 3), np.float32)

    built = build(Reader())
    index = GraphIndex.from_graph(built.graph, embedding=model, vectors=built.vectors(model))
    bare = index.graph.row("entity:louis xiv")
    assert index.dense.vectors[bare].tolist() == [0, 0, 0]
    assert (index.dense.vectors.sum(1) == 0).nonzero().flatten().tolist() == [bare]


def test_failure_of_one_document_keeps_the_others_and_says_which(caplog):
    with caplog.at_level(logging.WARNING, logger="graph_retrievers"):
        built = build(Reader(fails=["Anne of Austria"]))
    assert "p2" in built.graph and "entity:france" in built.graph
    (failure,) = built.failures
    assert (failure.stage, failure.ids) == ("extraction", ("p2",)) and "ConnectionError" in failure.reason
    assert "extraction failed for p2" in caplog.text


def test_failure_of_resolution_leaves_names_unmerged_and_says_which():
    built = build(Reader(fails=["names"]))
    assert built.aliases == {} and "entity:louis xiii" in built.graph
    assert built.failures[0].stage == "resolution" and built.failures[0].ids == ("Louis XIII", "Louis XIII of France")


def test_failure_of_every_document_is_an_error():
    with pytest.raises(LanguageModelError, match="The extraction failed for every document.*ConnectionError"):
        build(Reader(fails=["Louis XIII", "Anne of Austria"]))


def test_answers_are_kept_by_content(tmp_path):
    cache = tmp_path / "answers" / "cache.sqlite"
    first = Reader(fails=["Anne of Austria"])
    build(first, cache=cache)
    # The document that failed is asked again, the other is not; nor are the names.
    second = Reader()
    again = build(second, cache=cache)
    assert len(second.prompts) == 1 and "Title: Anne of Austria" in second.prompts[0]
    third = Reader()
    assert build(third, cache=cache).graph.edges() == again.graph.edges() and third.prompts == []
    # Another text is another document.
    fourth = Reader()
    build(fourth, [Node("p1", KING.text + " More.", title=KING.title), QUEEN], cache=cache)
    assert len(fourth.prompts) == 1


def test_answers_that_came_before_a_break_are_kept(tmp_path):
    cache = tmp_path / "cache.sqlite"
    with pytest.raises(KeyboardInterrupt):
        build(Reader(fails=["Anne of Austria"], error=KeyboardInterrupt), cache=cache, workers=1)
    again = Reader()
    build(again, cache=cache, resolve=False)
    assert len(again.prompts) == 1 and "Title: Anne of Austria" in again.prompts[0]


def test_a_file_that_is_no_cache_is_refused(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("this is not a database" * 100)
    with pytest.raises(CorruptIndexError, match="notes.txt is not a cache"):
        build(Reader(), cache=other)


def test_passages_of_one_title_are_read_in_one_prompt_and_linked_by_the_names_they_hold():
    title = "Anne of Austria"
    parts = [Node("a", "Anne of Austria was queen.", title=title), Node("b", "Mother of Louis XIV.", title=title)]
    together = Reader()
    edges = build(together, parts).graph.edges()
    # Every passage holds the name Anne of Austria as its title; Louis XIV stands in the second alone.
    assert [e for e in edges if e.relation == "mentions"] == as_edges(
        ("a", "entity:anne of austria", "mentions"),
        ("b", "entity:anne of austria", "mentions"),
        ("b", "entity:louis xiv", "mentions"),
    )
    assert len(together.prompts) == 1
    apart = Reader()
    build(apart, parts, merge_titles=False)
    assert len(apart.prompts) == 2


def test_a_type_outside_the_schema_is_asked_again_and_open_types_are_free():
    wrong = {"entities": [{"name": "1845", "type": "DATE", "description": "A year."}], "relations": []}
    text = Node("p", "It was 1845.")
    with pytest.raises(LanguageModelError, match="one of"):
        build(lambda prompt: json.dumps(wrong), [text], attempts=2)
    graph = build(lambda prompt: json.dumps(wrong), [text], entity_types=None).graph
    assert node(graph, "entity:1845").type == "DATE"


def test_documents_of_both_frameworks_are_read():
    answer = {"entities": [{"name": "Ada", "type": "PERSON", "description": "A mathematician."}], "relations": []}
    documents = [Document("Ada wrote.", id="lc"), TextNode(text="Ada slept.", id_="li")]
    graph = build(lambda prompt: json.dumps(answer), documents).graph
    assert graph.edges() == as_edges(("lc", "entity:ada", "mentions"), ("li", "entity:ada", "mentions"))


def test_bad_input_is_refused_before_the_model_is_asked():
    model = Reader()
    with pytest.raises(EmptyGraphError):
        build(model, [])
    with pytest.raises(DuplicateNodeError, match="'p1'"):
        build(model, [KING, KING])
    for types in ([], "PERSON", ["passage"]):
        with pytest.raises(InvalidArgumentError, match="entity_types"):
            KnowledgeGraphBuilder(model, entity_types=types)
    assert model.prompts == []


def test_the_graph_does_not_depend_on_the_order_in_which_answers_come():
    delays = random.Random(3)

    def slow(prompt):
        import time

        time.sleep(delays.random() / 50)
        return Reader()(prompt)

    graphs = [build(slow, workers=4).graph for _ in range(3)] + [build(Reader(), workers=1).graph]
    assert all((g.ids, g.texts, g.edges()) == (graphs[0].ids, graphs[0].texts, graphs[0].edges()) for g in graphs)


# -- entity resolution ---------------------------------------------------------------------------------------------


def test_descriptions_are_split_stripped_and_sorted():
    assert canonical_description(["b | a", " a ", "", "c\n d"]) == "a b c d"
    assert canonical_description([]) == ""


def test_the_majority_type_of_a_name_counts_and_ties_are_settled():
    assert majority_type(["WORK", "PERSON", "PERSON"]) == "PERSON"
    assert majority_type(["WORK", "EVENT"]) == "EVENT"
    assert majority_type([]) == ""


def test_clusters_join_names_of_one_type_whose_words_are_subsets():
    people = ["Louis XIII", "Louis XIII of France", "King Louis XIII", "Anne", "!!!", "???"]
    expected = [["King Louis XIII", "Louis XIII", "Louis XIII of France"]]
    assert candidate_clusters(dict.fromkeys(people, "P") | {"France": "L"}) == expected


@settings(max_examples=50)
@given(st.dictionaries(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3).map(" ".join), st.sampled_from("XY"), max_size=12))
def test_clusters_equal_connected_components_of_the_pairwise_criterion(types):
    graph = nx.Graph()
    graph.add_nodes_from(types)
    for one in types:
        for other in types:
            if one != other and types[one] == types[other] and set(one.split()) <= set(other.split()):
                graph.add_edge(one, other)
    expected = sorted(sorted(c) for c in nx.connected_components(graph) if len(c) > 1)
    assert candidate_clusters(types) == expected


def test_a_cluster_too_large_for_a_prompt_is_cut():
    clusters = candidate_clusters({f"Louis {i:03d}": "P" for i in range(249)} | {"Louis": "P"})
    assert [len(c) for c in clusters] == [84, 84, 82] and sum(clusters, []) == sorted(sum(clusters, []))


def test_unsound_groups_do_not_count():
    cluster = ["a", "b", "c", "d"]
    groups = [
        {"canonical": "a", "members": ["a"]},
        {"canonical": "a", "members": ["b", "c"]},
        {"canonical": "a", "members": ["a", "b", "b"]},
        {"canonical": "b", "members": ["b", "c"]},
        {"canonical": "z", "members": ["z", "c"]},
        {"canonical": "d", "members": ["c", "d"]},
    ]
    assert merged_names([cluster], [{"groups": groups}]) == {"b": "a", "c": "d"}
    assert merged_names([cluster], [None]) == {}


# -- readers -------------------------------------------------------------------------------------------------------


class LangChainNode(Serializable):
    """The class of langchain-community, field by field."""

    id: str | int
    type: str = "Node"
    properties: dict = Field(default_factory=dict)


class LangChainRelationship(Serializable):
    source: LangChainNode
    target: LangChainNode
    type: str
    properties: dict = Field(default_factory=dict)


class LangChainGraphDocument(Serializable):
    nodes: list[LangChainNode]
    relationships: list[LangChainRelationship]
    source: Document


def test_graph_documents_are_read():
    ada = LangChainNode(id="Ada", type="Person", properties={"description": "A mathematician.", "born": 1815})
    engine = LangChainNode(id=7, type="Work", properties={"name": "Analytical Engine"})
    bo = LangChainNode(id="Bo")
    documents = [
        LangChainGraphDocument(
            nodes=[ada, engine],
            relationships=[LangChainRelationship(source=ada, target=engine, type="WROTE_ON")],
            source=Document("Ada wrote.", id="d1", metadata={"title": "Notes"}),
        ),
        LangChainGraphDocument(
            nodes=[LangChainNode(id="Ada", type="Person", properties={"description": "Poet's daughter."})],
            relationships=[LangChainRelationship(source=bo, target=ada, type="KNOWS")],
            source=Document("Bo knew her."),
        ),
    ]
    index = GraphIndex.from_nodes(*from_graph_documents(documents))
    graph = index.graph
    assert graph.ids == ["d1", "passage:1", "Ada", "7", "Bo"]
    assert node(graph, "Ada") == Node("Ada", "A mathematician. Poet's daughter.", "Ada", "Person", {"born": 1815})
    assert (
        node(graph, "7") == Node("7", "Ada WROTE ON Analytical Engine.", "Analytical Engine", "Work")
        and node(graph, "d1").title == "Notes"
    )
    assert graph.edges() == as_edges(
        ("Ada", "7", "WROTE_ON"),
        ("Bo", "Ada", "KNOWS"),
        ("d1", "Ada", "mentions"),
        ("d1", "7", "mentions"),
        ("passage:1", "Ada", "mentions"),
        ("passage:1", "Bo", "mentions"),
    )
    with pytest.raises(InvalidArgumentError, match="Item 0 is a str"):
        from_graph_documents(["Ada"])


def test_properties_of_relations_are_kept():
    ada, bo, engine = (LangChainNode(id=name) for name in ("Ada", "Bo", "Engine"))

    def said(source, target, kind, **properties):
        return LangChainRelationship(source=source, target=target, type=kind, properties=properties)

    documents = [
        LangChainGraphDocument(nodes=[ada, bo, engine], relationships=relationships, source=Document("A text.", id=name))
        for name, relationships in {
            "d1": [said(ada, bo, "KNEW", weight=0.5, description="They met in 1833.", since=date(1833, 6, 5), page=1)],
            # As LLMGraphTransformer writes numbers.
            "d2": [said(ada, bo, "KNEW", weight="4", description="They wrote letters.", page=True), said(bo, engine, "DESIGNED")],
            "d3": [said(ada, bo, "KNEW", weight=2, description="They met in 1833.", page=1)],
        }.items()
    ]
    nodes, edges = from_graph_documents(documents)
    assert edges[:2] == [
        Edge(
            "Ada",
            "Bo",
            "KNEW",
            weight=4.0,
            text="They met in 1833. They wrote letters.",
            metadata={"since": "1833-06-05", "page": [1, True]},
        ),
        Edge("Bo", "Engine", "DESIGNED"),
    ]
    assert all(edge == Edge(edge.source, edge.target, "mentions") for edge in edges[2:]) and len(edges) == 2 + 3 * 3


@pytest.mark.parametrize("weight", ["high", -1, 0.0, float("nan"), 1e31, True, [2]])
def test_what_is_not_a_weight_stays_in_the_metadata(weight, caplog):
    ends = {"source": LangChainNode(id="Ada"), "target": LangChainNode(id="Bo")}
    relations = [
        LangChainRelationship(**ends, type=f"R{number}", properties={"weight": value})
        for number, value in enumerate([weight] * 11 + [2.0, None])
    ]
    _, edges = from_graph_documents([LangChainGraphDocument(nodes=[], relationships=relations, source=Document("A text."))])
    assert [edge.weight for edge in edges[:13]] == [1.0] * 11 + [2.0, 1.0]
    assert all(list(edge.metadata) == ["weight"] for edge in edges[:11]) and edges[11].metadata == {}
    (record,) = caplog.records
    assert "The property 'weight' of 11 relations is not a number from 1e-30 to 1e+30" in record.getMessage()
    assert "('Ada', 'Bo', 'R9'), ..." in record.getMessage() and "R10" not in record.getMessage()


def test_properties_of_an_entity_in_several_documents_are_kept():
    documents = [
        LangChainGraphDocument(
            nodes=[LangChainNode(id="Ada", properties={"born": 1815, "role": role})],
            relationships=[
                LangChainRelationship(
                    source=LangChainNode(id="Ada"), target=LangChainNode(id="Bo", properties={"city": "Bonn"}), type="KNEW"
                )
            ],
            source=Document("A text."),
        )
        for role in ("poet", "analyst", "poet")
    ]
    nodes, _ = from_graph_documents(documents)
    found = {node.id: node.metadata for node in nodes}
    assert found["Ada"] == {"born": 1815, "role": ["poet", "analyst"]} and found["Bo"] == {"city": "Bonn"}


class FilteringStore:
    """A store over another that, like a database, gives triplets by id only."""

    def __init__(self, store):
        self.get, self._triplets = store.get, store.get_triplets

    def get_triplets(self, ids):
        return self._triplets(ids=ids)


@pytest.mark.parametrize("wrap", [lambda store: store, FilteringStore])
def test_a_property_graph_store_is_read(wrap):
    store = SimplePropertyGraphStore()
    chunk = ChunkNode(text="Ada wrote.", id_="c1", properties={"title": "Notes"})
    ada = EntityNode(name="Ada", label="PERSON", properties={"description": "A mathematician.", "triplet_source_id": "c1"})
    engine = EntityNode(name="Engine", label="WORK")
    store.upsert_nodes([chunk, ada, engine])
    store.upsert_relations([Relation(label="WROTE_ON", source_id="Ada", target_id="Engine")])
    graph = CorpusGraph.from_nodes(*from_property_graph_store(wrap(store)))
    assert graph.ids == ["c1", "Ada", "Engine"] and graph.types == ["passage", "PERSON", "WORK"]
    assert graph.texts == ["Ada wrote.", "A mathematician.", "Ada WROTE ON Engine."]
    assert graph.edges() == as_edges(("Ada", "Engine", "WROTE_ON"), ("c1", "Ada", "mentions"))
    with pytest.raises(InvalidArgumentError, match="dict is not a property graph store"):
        from_property_graph_store({})


@pytest.mark.parametrize("wrap", [lambda store: store, FilteringStore])
def test_properties_of_relations_of_a_property_graph_are_kept(wrap, tmp_path):
    store = SimplePropertyGraphStore()
    page = TextNode(id_="c1", text="Ada knew Bo.", metadata={"description": "A page on Ada.", "weight": 9, "topic": "letters"})
    store.upsert_nodes([EntityNode(name=name) for name in ("Ada", "Bo", "Cy")])
    store.upsert_llama_nodes([page])
    # The extractors of LlamaIndex copy the metadata of the chunk.
    copied = {**page.metadata, "triplet_source_id": "c1"}
    since = neo4j.time.Date(1833, 6, 5)
    store.upsert_relations(
        [
            Relation(label="KNEW", source_id="Ada", target_id="Bo", properties=copied),
            Relation(label="WROTE_TO", source_id="Ada", target_id="Cy", properties={"weight": 8, "text": "Letters.", "at": since}),
        ]
    )
    nodes, edges = from_property_graph_store(wrap(store))
    assert sorted(edges[:2], key=lambda edge: edge.target) == [
        Edge("Ada", "Bo", "KNEW", metadata={"topic": "letters", "triplet_source_id": "c1"}),
        Edge("Ada", "Cy", "WROTE_TO", weight=8.0, text="Letters.", metadata={"at": "1833-06-05"}),
    ]
    index = GraphIndex.from_nodes(nodes, edges, edge_signals=True)
    # Eight times as much rank goes along the heavier relation.
    walk = Pipeline(BM25Search(1), PersonalizedPageRank(passage_weight=0))
    ranks = {hit.id: hit.score for hit in Retriever(index, walk).retrieve("What Ada KNEW and WROTE TO")}
    assert ranks["Cy"] == pytest.approx(8 * ranks["Bo"])
    index.save(tmp_path / "index")
    loaded = GraphIndex.load(tmp_path / "index")
    changed = loaded.with_changes(upsert=[Node("Bo", "A friend."), Node("Di", "Another.")], add_edges=[("Di", "Bo", "KNEW")])
    assert loaded.graph.edges() == edges and changed.graph.edges() == [*edges, Edge("Di", "Bo", "KNEW")]
    for each in (index, loaded, changed):
        hits = Retriever(each, FactSearch(1, signal="edge_bm25"), backfill=False).retrieve("Who sent letters?")
        assert [(hit.path.nodes, hit.text) for hit in hits if hit.kind == "fact"] == [(("Ada", "Cy"), "Letters.")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'Ada,knows,Bo\n\n"Bo, the elder",likes,Ada\n'),
        ("a.csv", 'note,target,relation,source\nx,Bo,knows,Ada\ny,Ada,likes,"Bo, the elder"\n'),
        ("a.tsv", "Head\tRelation\tTail\nAda\tknows\tBo\nBo, the elder\tlikes\tAda\n"),
        ("a.jsonl", '{"subject": "Ada", "predicate": "knows", "object": "Bo"}\n["Bo, the elder", "likes", "Ada"]\n'),
    ],
)
def test_triples_are_read_from_files(tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    nodes, edges = from_triples_file(file)
    assert edges == [("Ada", "Bo", "knows"), ("Bo, the elder", "Ada", "likes")]
    assert [n.id for n in nodes] == [n.title for n in nodes] == ["Ada", "Bo", "Bo, the elder"]
    assert [n.text for n in nodes] == ["Ada knows Bo. Bo, the elder likes Ada.", "Ada knows Bo.", "Bo, the elder likes Ada."]
    # The same triples by way of networkx.
    graph = nx.MultiDiGraph()
    graph.add_edges_from((s, t, {"relation": r}) for s, t, r in edges)
    assert CorpusGraph.from_nodes(*from_networkx(graph)).edges() == as_edges(*edges)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "Ada\tknows\t\n", "a.tsv has no triple: line 1"),
        ("a.jsonl", "oops\n", "a.jsonl has no triple: line 1"),
        ("a.jsonl", "3\n", "a.jsonl has no triple: line 1"),
        ("a.txt", "Ada knows Bo", "expected .csv, .tsv or .jsonl"),
    ],
)
def test_a_file_without_a_triple_is_refused(tmp_path, name, text, message):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(DatasetError, match=re.escape(message)):
        from_triples_file(file)
    with pytest.raises(DatasetError, match="cannot be read"):
        from_triples_file(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "Ada,knows,Bo\nBo\nBo,likes,\n,likes,Bo\n"),
        ("a.jsonl", '["Ada", "knows", "Bo"]\noops\n{"source": "Ada"}\n[1]\n'),
    ],
)
def test_lines_that_are_no_triples_are_left_out_and_named(tmp_path, caplog, name, text):
    file = tmp_path / name
    file.write_text(text)
    nodes, edges = from_triples_file(file)
    assert edges == [("Ada", "Bo", "knows")] and [node.id for node in nodes] == ["Ada", "Bo"]
    (told,) = caplog.messages
    assert told.startswith(f"Left out 3 items of {file}: line 2 (") and "line 3 (" in told and "line 4 (" in told
    with pytest.raises(DatasetError, match="3 items of .* cannot be used: line 2 .*line 3 .*line 4"):
        from_triples_file(file, strict=True)


def faulty(count):
    """An answer with one good entity and relation, and entities and relations of which each is wrong in another way."""
    ada, bo = ({"name": name, "type": "PERSON", "description": f"{name}."} for name in ("Ada", "Bo"))
    knows = {"source": "Ada", "relation": "knows", "target": "Bo"}
    wrong = [{**ada, "type": "DRAGON"}, {**ada, "name": ""}, {"name": "Ada"}, "Ada", None, {**ada, "more": 1}] * count
    return {"entities": [ada, *wrong, bo], "relations": [{**knows, "target": ""}, knows, {**knows, "relation": 5}]}


def test_a_wrong_entity_in_an_answer_is_left_out_and_the_rest_is_kept(caplog, tmp_path):
    asked = []

    def model(prompt):
        asked.append(prompt)
        return json.dumps(faulty(2))

    builder = {"resolve": False, "workers": 1, "cache": tmp_path / "answers"}
    passages = [Node("p1", "Ada knows Bo."), Node("p2", "Bo is old.")]
    built = KnowledgeGraphBuilder(model, **builder).build(passages)
    assert len(asked) == 6, "the model may correct its answer first"
    assert [name for name in built.graph.ids if name.startswith("entity:")] == ["entity:ada", "entity:bo"]
    assert ("entity:ada", "entity:bo", "knows") in [(e.source, e.target, e.relation) for e in built.graph.edges()]
    assert built.failures == ()
    (told,) = caplog.messages
    assert told.startswith("Left out 28 items of the answers of the language model: entity {'name': 'Ada', 'type': 'DRAGON'")
    assert told.count("in the answer for p1 (it does not satisfy the schema)") == 10 and "; and 18 more" in told
    caplog.clear()
    with pytest.raises(LanguageModelError, match="28 items of the answers .* cannot be used") as refused:
        KnowledgeGraphBuilder(model, **builder, strict=True).build(passages)
    assert str(refused.value).count("DRAGON") == 4 and not caplog.messages and len(asked) == 6, "from the kept answers"


def test_a_corrected_answer_is_whole_and_an_earlier_good_part_counts(caplog):
    good = {"entities": [{"name": "Ada", "type": "PERSON", "description": "A person."}], "relations": []}
    answers = [json.dumps(faulty(1)), json.dumps(good)]
    built = KnowledgeGraphBuilder(lambda prompt: answers.pop(0), resolve=False).build([Node("p", "Ada.")])
    assert built.graph.ids == ["p", "entity:ada"] and not caplog.messages
    answers = [json.dumps(faulty(1)), "no JSON", '{"entities": [{}], "relations": []}']
    built = KnowledgeGraphBuilder(lambda prompt: answers.pop(0), resolve=False).build([Node("p", "Ada.")])
    assert built.graph.ids == ["p", "entity:ada", "entity:bo"]


def test_entities_without_a_name_are_left_out_of_a_property_graph(caplog):
    store = SimplePropertyGraphStore()
    store.upsert_nodes([EntityNode(name="Ada"), EntityNode(name="", label="PERSON"), EntityNode(name="Bo"), EntityNode(name=" ")])
    pairs = [("Ada", "Bo"), ("", "Bo"), ("Ada", " ")]
    store.upsert_relations([Relation(label="knows", source_id=source, target_id=target) for source, target in pairs])
    nodes, edges = from_property_graph_store(store)
    assert [node.id for node in nodes] == ["Ada", "Bo"] and edges == [Edge("Ada", "Bo", "knows")]
    assert len(GraphIndex.from_nodes(nodes, edges)) == 2
    (told,) = caplog.messages
    assert told.startswith("Left out 4 items of the property graph: node 1, a PERSON (its name is empty); node 3,")
    assert "relation 'knows' from '' to 'Bo' (an end has no name)" in told
    with pytest.raises(InvalidArgumentError, match="4 items of the property graph cannot be used: node 1.*node 3"):
        from_property_graph_store(store, strict=True)


@pytest.mark.parametrize("odd", [["A", "list"], {"a": "mapping"}], ids=repr)
def test_titles_and_descriptions_that_are_no_texts_are_left_out_and_named(odd, caplog):
    store = SimplePropertyGraphStore()
    page = ChunkNode(text="A page.", id_="page", properties={"title": odd})
    store.upsert_nodes([page, EntityNode(name="Ada", properties={"description": odd}), EntityNode(name="Bo")])
    store.upsert_relations([Relation(label="knows", source_id="Ada", target_id="Bo", properties={"summary": odd, "since": 1833})])
    nodes, edges = from_property_graph_store(store)
    assert {node.id: (node.title, node.text) for node in nodes} == {
        "page": ("", "A page."),
        "Ada": ("Ada", "Ada knows Bo."),
        "Bo": ("Bo", "Ada knows Bo."),
    }
    assert edges == [Edge("Ada", "Bo", "knows", metadata={"since": 1833})]
    (told,) = caplog.messages
    kind = type(odd).__name__
    for name, owner in (
        ("title", "passage 'page'"),
        ("description", "node 'Ada'"),
        ("summary", "relation 'knows' from 'Ada' to 'Bo'"),
    ):
        assert f"property {name!r} of {owner} (a {kind}, not a text)" in told
    with pytest.raises(InvalidArgumentError, match="3 items of the property graph cannot be used"):
        from_property_graph_store(store, strict=True)


def test_metadata_of_a_chunk_are_no_weight_of_a_relation_after_the_chunk_is_deleted():
    store, held = SimplePropertyGraphStore(), {"weight": 9, "summary": "A page on Ada.", "topic": "letters"}
    store.upsert_nodes([EntityNode(name=name) for name in ("Ada", "Bo")])
    store.upsert_llama_nodes([TextNode(id_="page", text="Ada knew Bo.", metadata=held)])
    properties = {**held, "triplet_source_id": "page"}
    store.upsert_relations([Relation(label="KNEW", source_id="Ada", target_id="Bo", properties=properties)])
    edge = Edge("Ada", "Bo", "KNEW", metadata={"topic": "letters", "triplet_source_id": "page"})
    assert from_property_graph_store(store)[1] == [edge]
    store.delete(ids=["page"])
    assert from_property_graph_store(store)[1] == [edge]


def test_a_relation_keeps_a_weight_and_a_description_that_are_not_those_of_its_chunk():
    store = SimplePropertyGraphStore()
    store.upsert_nodes([EntityNode(name=name) for name in ("Ada", "Bo")])
    store.upsert_llama_nodes([TextNode(id_="page", text="Ada taught Bo.", metadata={"weight": 9, "summary": "A page on Ada."})])
    properties = {"weight": 2, "summary": "In letters.", "triplet_source_id": "page"}
    store.upsert_relations([Relation(label="TAUGHT", source_id="Ada", target_id="Bo", properties=properties)])
    edge = Edge("Ada", "Bo", "TAUGHT", weight=2.0, text="In letters.", metadata={"triplet_source_id": "page"})
    assert from_property_graph_store(store)[1] == [edge]


@pytest.mark.parametrize("odd", [Decimal("1.5"), b"bytes", float("inf"), timedelta(1), {1: 2}], ids=repr)
def test_a_property_without_a_json_form_is_left_out_alone(odd, caplog):
    store = SimplePropertyGraphStore()
    store.upsert_nodes([EntityNode(name="Ada", properties={"odd": odd, "year": 1815}), EntityNode(name="Bo")])
    store.upsert_relations([Relation(label="knows", source_id="Ada", target_id="Bo", properties={"odd": odd, "since": 1833})])
    nodes, edges = from_property_graph_store(store)
    assert nodes[0].metadata == {"year": 1815} and edges == [Edge("Ada", "Bo", "knows", metadata={"since": 1833})]
    (told,) = caplog.messages
    assert told.startswith("Left out 2 items of the property graph: property 'odd' of relation 'knows' from 'Ada' to 'Bo'")
    with pytest.raises(InvalidArgumentError, match="2 items of the property graph cannot be used"):
        from_property_graph_store(store, strict=True)


def test_entities_without_an_id_are_left_out_of_graph_documents(caplog):
    ada, bo, nobody = (LangChainNode(id=name, type="Person") for name in ("Ada", "Bo", ""))
    relations = [LangChainRelationship(source=ada, target=end, type="KNOWS") for end in (bo, nobody)]
    source = Document("Ada knows Bo.", id="page", metadata={"title": ["A", "list"]})
    documents = [LangChainGraphDocument(nodes=[ada, bo, *[nobody] * 12], relationships=relations, source=source)]
    nodes, edges = from_graph_documents(documents)
    assert [(node.id, node.title) for node in nodes][:1] == [("page", "")] and {node.id for node in nodes} == {"page", "Ada", "Bo"}
    assert Edge("Ada", "Bo", "KNOWS") in edges and all(edge.source and edge.target for edge in edges)
    (told,) = caplog.messages
    assert told.startswith("Left out 14 items of the graph documents: entity 2 of document 0 (its id is empty); entity 3")
    assert "entity 11 of" in told and "entity 12" not in told and "; and 4 more." in told
    wrong = "14 items of the graph documents .*entity 13 of document 0.*an end has no id.*property 'title' of passage 'page'"
    with pytest.raises(InvalidArgumentError, match=wrong):
        from_graph_documents(documents, strict=True)
