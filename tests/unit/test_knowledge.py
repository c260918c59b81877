"""Knowledge graphs: read from what others made, and names of one entity merged."""

import json
import random
import re
from datetime import date, timedelta
from decimal import Decimal

import neo4j.time
import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.load.serializable import Serializable
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import ChunkNode, EntityNode, Relation
from llama_index.core.schema import TextNode
from pydantic import Field

from graph_retrievers.construction.entity_resolution import candidate_clusters, majority_type, merged_names
from graph_retrievers.construction.knowledge import canonical_description, resolve_entities
from graph_retrievers.construction.knowledge_readers import from_graph_documents, from_property_graph_store, from_triples_file
from graph_retrievers.construction.networkx_graphs import from_networkx
from graph_retrievers.errors import (
    DatasetError,
    InvalidArgumentError,
    LanguageModelError,
)
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, FactSearch, PersonalizedPageRank, Pipeline
from graph_retrievers.retrievers import Retriever
from tests.helpers import as_edges

KINGS = [
    Node("Louis XIII", "King of France.", "Louis XIII", "PERSON", {"born": 1601, "seen": ["d1"]}),
    Node("Louis XIII of France", "Son of Henry IV.", "Louis XIII of France", "PERSON", {"born": 1601, "seen": ["d2", "d1"]}),
    Node("Anne of Austria", "A queen.", "Anne of Austria", "PERSON"),
    Node("Anne", "Anne", "", "PERSON"),
    Node("France", "A country.", "France", "LOCATION"),
]
PAGE = Node("p1", "Louis XIII reigned in France.", "Louis XIII", "passage")
MERGED = {
    "Louis XIII": {"canonical": "Louis XIII of France", "members": ["Louis XIII", "Louis XIII of France"]},
    "Anne of Austria": {"canonical": "Anne of Austria", "members": ["Anne", "Anne of Austria"]},
}


class Judge:
    """A model that merges the known names; it keeps what it is asked, and fails for the names that `fails` has."""

    def __init__(self, fails=()):
        self.fails, self.prompts = fails, []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        if any(name in prompt for name in self.fails):
            raise ConnectionError("gone")
        return json.dumps({"groups": [group for name, group in MERGED.items() if f"- {name}:" in prompt]})


def node(graph, name):
    return graph.node(graph.row(name))


# -- entity resolution ---------------------------------------------------------------------------------------------


def test_names_of_one_entity_become_one_node_with_all_edges():
    edges = [
        Edge("Louis XIII", "France", "reigned in", weight=2.0, text="From 1610."),
        Edge("Louis XIII of France", "France", "reigned in", text="Until 1643.", metadata={"page": 1}),
        Edge("Louis XIII", "Louis XIII of France", "also called"),
        Edge("Anne", "Louis XIII", "married"),
        Edge("France", "France", "borders"),
        ("p1", "Louis XIII", "mentions"),
        ("p1", "Louis XIII of France", "mentions"),
    ]
    judge = Judge()
    nodes, merged = resolve_entities([PAGE, *KINGS], edges, judge)
    assert [node.id for node in nodes] == ["p1", "Louis XIII of France", "Anne of Austria", "France"]
    assert nodes[0] is PAGE and nodes[3] is KINGS[4]
    assert nodes[1] == Node(
        "Louis XIII of France",
        "King of France. Son of Henry IV.",
        "Louis XIII of France",
        "PERSON",
        {"born": 1601, "seen": ["d1", "d2"]},
    )
    # A name alone is not a description.
    assert nodes[2] == KINGS[2]
    assert merged == [
        Edge("Louis XIII of France", "France", "reigned in", 2.0, "From 1610. Until 1643.", {"page": 1}),
        Edge("Anne of Austria", "Louis XIII of France", "married"),
        Edge("France", "France", "borders"),
        Edge("p1", "Louis XIII of France", "mentions"),
    ]
    assert len(judge.prompts) == 2 and all("type PERSON" in prompt for prompt in judge.prompts)
    assert len(GraphIndex.from_nodes(nodes, merged)) == 4


def test_a_name_without_a_description_gets_that_of_the_other():
    bare = [Node("Anne of Austria", "Anne of Austria", "", "PERSON"), Node("Anne", "A queen.", "Anne", "PERSON")]
    nodes, _ = resolve_entities(bare, [], Judge())
    assert nodes == [Node("Anne of Austria", "A queen.", "Anne of Austria", "PERSON")]
    bare[1] = KINGS[3]
    assert resolve_entities(bare, [], Judge())[0] == bare[:1]


def test_where_no_names_are_alike_no_model_is_asked():
    judge = Judge()
    nodes, edges = resolve_entities(KINGS[1:3], [("Louis XIII of France", "Anne of Austria", "married")], judge)
    assert nodes == KINGS[1:3] and edges == [Edge("Louis XIII of France", "Anne of Austria", "married")] and judge.prompts == []


def test_names_for_which_the_model_fails_stay_apart_and_are_told(caplog):
    nodes, _ = resolve_entities(KINGS, [], Judge(fails=["Anne"]))
    assert [node.id for node in nodes] == ["Louis XIII of France", "Anne of Austria", "Anne", "France"]
    (told,) = caplog.messages
    assert told.startswith("Entity resolution failed for 1 of 2 groups of names, which stay apart: Anne, Anne of Austria.")
    assert "ConnectionError" in told
    with pytest.raises(LanguageModelError, match="Entity resolution failed for every group of names; .*ConnectionError"):
        resolve_entities(KINGS, [], Judge(fails=["Anne", "Louis"]))


def test_the_graph_does_not_depend_on_the_order_in_which_answers_come():
    delays = random.Random(3)

    def slow(prompt):
        import time

        time.sleep(delays.random() / 50)
        return Judge()(prompt)

    made = [resolve_entities(KINGS, [], slow, workers=4) for _ in range(3)] + [resolve_entities(KINGS, [], Judge(), workers=1)]
    assert all(each == made[0] for each in made)


def test_what_a_framework_extracted_is_resolved():
    louis, king, anne = (
        LangChainNode(id=name, type="Person") for name in ("Louis XIII", "Louis XIII of France", "Anne of Austria")
    )
    documents = [
        LangChainGraphDocument(
            nodes=[name, anne],
            relationships=[LangChainRelationship(source=name, target=anne, type="MARRIED")],
            source=Document("A text.", id=page),
        )
        for name, page in ((louis, "d1"), (king, "d2"))
    ]
    nodes, edges = resolve_entities(*from_graph_documents(documents), Judge())
    assert [node.id for node in nodes] == ["d1", "d2", "Anne of Austria", "Louis XIII of France"]
    assert edges == as_edges(
        ("Louis XIII of France", "Anne of Austria", "MARRIED"),
        ("d1", "Louis XIII of France", "mentions"),
        ("d1", "Anne of Austria", "mentions"),
        ("d2", "Louis XIII of France", "mentions"),
        ("d2", "Anne of Austria", "mentions"),
    )


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
