"""The LlamaIndex retrievers for knowledge graphs: their inputs, chains and plans; in a database and a property graph."""

import asyncio
import copy
import pickle
import threading
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from llama_index.core import PropertyGraphIndex, QueryBundle, Settings
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import ChunkNode, EntityNode, Relation
from llama_index.core.indices.property_graph import BasePGRetriever, SimpleLLMPathExtractor
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import Document, IndexNode, MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import BasePydanticVectorStore

import llama_graph_retrievers as package
from graph_retrievers import GAR, PPR, MoR, SpreadingActivation
from graph_retrievers.construction.knowledge_readers import from_property_graph_store
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError, MissingSignalError
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import FactSearch, Pipeline, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.stores.cypher import CypherSpreadingActivation, write_graph
from llama_graph_retrievers import (
    GraphRetriever,
    MoRRetriever,
    SpreadingActivationPGRetriever,
    SpreadingActivationRetriever,
    provenance,
    to_context,
)
from tests.helpers import HashEmbedding, linked_edges, linked_index, linked_nodes
from tests.integration.llama_corpus import HashEmbed, instrumentation_events
from tests.movies import movie_edges, movie_nodes

QUESTION = "What did Charles Babbage design, and what came of it?"
PLAN = [{"type": "person", "restriction": ["Ada Stone"]}, {"type": "movie", "relation": "directed_by"}]
# Without chains after the nodes.
NODES = SpreadingActivation()
CHAIN = "Charles Babbage -[links]-> Analytical Engine <-[links]- Ada Lovelace"


@pytest.fixture(scope="module")
def index():
    return linked_index()


def movies_index():
    return GraphIndex.from_nodes(movie_nodes(), movie_edges(), embedding=HashEmbedding())


@pytest.fixture(scope="module")
def movies():
    return movies_index()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """All of this runs without a model in Settings."""

    def touched(self):
        raise ImportError("Settings was touched")

    for name in ("embed_model", "llm"):
        monkeypatch.setattr(type(Settings), name, property(touched))


def ids(nodes):
    return [n.node.node_id for n in nodes]


def test_every_class_is_exported_and_has_its_author():
    project = Path(__file__).resolve().parents[2] / "packages/llama-index-retrievers-graph/pyproject.toml"
    authors = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["llamahub"]["class_authors"]
    classes = {name: value for name, value in vars(package).items() if isinstance(value, type)}
    ours = {
        name for name, cls in classes.items() if issubclass(cls, (BaseRetriever, BaseNodePostprocessor, BasePydanticVectorStore))
    }
    assert ours == set(package.__all__) - {
        *("CGRAGQueryEngine", "GraphSearchEvent", "GraphToolSpec", "LlamaIndexVectors", "SentenceEmbedding"),
        *("minilm", "provenance", "to_context"),
    }
    assert ours == set(authors)


# -- the engine's answers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "system", "wrong"),
    [
        (GraphRetriever, GAR(budget=6, nodes_per_round=2), "gar(budget=0)"),
        (GraphRetriever, PPR(seeds=2, damping=0.8, passage_weight=0), "ppr(damping=1.0)"),
        (
            SpreadingActivationRetriever,
            SpreadingActivation(gate="uniform", steps=2, hub_exponent=0.5, chains="path"),
            "spreading(gate='soft')",
        ),
        (MoRRetriever, MoR(seeds=2, matches=0, structure=False), "mor(seeds=0)"),
    ],
)
def test_parameters_reach_the_engine(index, make, system, wrong):
    hits = Retriever(index, system).retrieve(QUESTION, 7)
    expected = [(h.id, h.score, h.path.to_dict()) for h in hits]
    for given in (system, str(system)):
        nodes = make(index, given, similarity_top_k=7).retrieve(QUESTION)
        assert [(n.node.node_id, n.score, provenance(n)["path"]) for n in nodes] == expected
    with pytest.raises(TypeError, match="bugdet"):
        make(index, system, bugdet=3)
    with pytest.raises(InvalidArgumentError):
        make(index, wrong)


def test_thirty_entities_by_default_as_published(index):
    assert SpreadingActivationRetriever(index).similarity_top_k == 30


# -- what a retriever reads besides the query ---------------------------------------------------------------------


async def test_entities_of_a_batch_and_by_a_function(index):
    asked = []

    def read(question):
        asked.append(question)
        return ["Colossus"] if "code" in question else None

    retriever = SpreadingActivationRetriever(index, inputs={"entities": read}, similarity_top_k=3)
    assert ids(retriever.retrieve(" Which code?\n"))[0] == "colossus"
    assert ids(await retriever.aretrieve(QUESTION))[0] == "babbage"
    assert asked == ["Which code?", QUESTION]
    given = [["Weaving"], None]
    for found in (
        retriever.retrieve_batch(["Which code?", QUESTION], entities=given),
        await retriever.aretrieve_batch(["Which code?", QUESTION], entities=given),
    ):
        assert [ids(nodes)[0] for nodes in found] == ["loom", "babbage"]
    assert len(asked) == 2
    with pytest.raises(InvalidArgumentError, match="1 entries for 2"):
        retriever.retrieve_batch(["a", "b"], entities=[["Ada"]])
    with pytest.raises(TypeError, match="plan"):
        retriever.retrieve_batch(["a"], plan=[PLAN])
    with pytest.raises(TypeError, match="reads no input 'plan'"):
        SpreadingActivationRetriever(index, inputs={"plan": read})
    for wrong in (3, 0, read, "entities", ["entities"]):
        with pytest.raises(InvalidArgumentError, match="inputs is .*; expected a mapping from the name of an input to a function"):
            SpreadingActivationRetriever(index, inputs=wrong)
    with pytest.raises(TypeError, match="reads no input 'entities'"):
        GraphRetriever(Retriever(index, VectorSearch()), inputs={"entities": read})


def test_entities_by_a_language_model_of_llama_index(index):
    class Reader(MockLLM):
        def complete(self, prompt, formatted=False, **kwargs):
            response = super().complete(prompt, formatted, **kwargs)
            response.text = '{"entities": ["Weaving"]}'
            return response

    assert ids(SpreadingActivationRetriever(index, SpreadingActivation(language_model=Reader())).retrieve("Who?"))[0] == "loom"


def test_chains_are_nodes_whose_text_is_the_chain(index):
    retriever = SpreadingActivationRetriever(index, SpreadingActivation(gate="uniform", chains="hits"), similarity_top_k=3)
    found = retriever.retrieve(QUESTION)
    chains = [n.node for n in found[3:]]
    assert chains and len(set(ids(found))) == len(found)
    assert all(provenance(n)["kind"] == "chain" for n in chains) and CHAIN in [n.text for n in chains]
    assert all(n.get_content(MetadataMode.LLM) == n.text for n in chains)
    assert CHAIN in str(RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query(QUESTION))


def test_facts_are_nodes_whose_text_is_the_fact():
    index = linked_index(edge_signals=True)
    retriever = GraphRetriever(Retriever(index, Pipeline(VectorSearch(), FactSearch(2))), similarity_top_k=3)
    found = retriever.retrieve(QUESTION)
    facts = [n.node for n in found[3:]]
    assert len(facts) == 2 and all((provenance(n)["kind"], provenance(n)["operator"]) == ("fact", "FactSearch") for n in facts)
    assert [n.text for n in facts] == [hit.text for hit in retriever.engine.retrieve(QUESTION, 3).facts]
    assert all(n.get_content(MetadataMode.LLM) == n.text for n in facts)


@pytest.mark.parametrize("originals", [False, True], ids=["made of hits", "copies of nodes"])
def test_nodes_as_the_context_of_a_language_model(index, originals):
    nodes = [TextNode(id_=n.id, text=n.text) for n in map(index.graph.node, range(len(index)))] if originals else None
    for engine in (
        Retriever(index, SpreadingActivation(gate="uniform")),
        Retriever(index, SpreadingActivation(gate="uniform", chains="hits")),
        Retriever(linked_index(edge_signals=True), Pipeline(VectorSearch(), FactSearch(2))),
    ):
        retriever = GraphRetriever(engine, nodes=nodes, similarity_top_k=4)
        assert to_context(retriever.retrieve(QUESTION)) == engine.retrieve(QUESTION, 4).to_context()
    typed = MoRRetriever(movies_index(), MoR(planner=lambda question: PLAN), similarity_top_k=3)
    assert to_context(typed.retrieve("Which films?")) == typed.engine.retrieve("Which films?", 3).to_context()


def test_nodes_without_provenance_give_their_texts_alone(index):
    retriever = SpreadingActivationRetriever(index, NODES, provenance=False, similarity_top_k=2)
    title = {n.node.node_id: n.node.metadata["title"] for n in retriever.retrieve(QUESTION)}
    expected = [f"- {title[n.node.node_id]}: {n.text}" for n in retriever.retrieve(QUESTION)]
    assert to_context(retriever.retrieve(QUESTION)).splitlines() == ["Texts:", *expected]
    foreign = TextNode(id_="x", text="A text.", metadata={"path": "/docs/a.md", "kind": "report"})
    assert to_context([NodeWithScore(node=foreign)]) == "Texts:\n- x: A text."
    assert to_context([]) == ""


def test_notes_reach_the_user(index, caplog):
    noted = SpreadingActivationRetriever(index, similarity_top_k=3, inputs={"entities": lambda question: ["Qwertz"]}).retrieve("q")
    assert all("no node is named 'Qwertz'" in provenance(n)["notes"][0] for n in noted)
    nowhere = SpreadingActivationRetriever(index, filters={"$id": "nowhere"}, backfill=False)
    assert nowhere.retrieve("qwertz") == [] and "the operators found no node" in caplog.text


def test_plans_of_a_batch_by_a_function_and_by_a_planner(movies):
    other = [{"type": "person", "restriction": ["Fay North"]}, PLAN[1]]
    retriever = MoRRetriever(movies, MoR(planner=lambda question: PLAN), similarity_top_k=1)
    assert ids(retriever.retrieve("Which films?")) == ["m0"]
    first, second = retriever.retrieve_batch(["Which films?"] * 2, plan=[other, None])
    assert ids(first) == ["m5"] and ids(second) == ["m0"]
    assert provenance(first[0])["path"] == {
        "nodes": ["p5", "m5"],
        "relations": ["directed_by"],
        "forward": [False],
        "titles": ["Fay North", "Paper Moon Rising"],
    }
    assert ids(MoRRetriever(movies, inputs={"plan": lambda question: other}, similarity_top_k=1).retrieve("Which films?")) == ["m5"]
    fallen = MoRRetriever(movies, similarity_top_k=1).retrieve_batch(["Who made Glass Winter?"], plan=[[{"type": "robot"}]])[0]
    assert "robot" in provenance(fallen[0])["notes"][0]


# -- a retriever of one's own ---------------------------------------------------------------------------------------


class Plain:
    """A retriever with neither an index nor a model at hand; what it finds comes from an engine that nobody sees."""

    name, k, inputs = "Plain", 4, ("entities",)

    def __init__(self, index):
        self._engine = Retriever(index, NODES, backfill=False)
        self.calls = []

    def retrieve(self, query, k=None, **arguments):
        raise AssertionError("asked one by one")

    def retrieve_batch(self, queries, k=None, *, vectors=None, **arguments):
        self.calls.append({"k": k, "vectors": vectors, **arguments})
        return self._engine.retrieve_batch(queries, k, vectors=None if vectors is None else np.asarray(vectors), **arguments)


class Remote(Plain):
    """The same, asked over the event loop, as a database is; answers once as many calls as expected are there."""

    expected = 1

    async def aretrieve_batch(self, queries, k=None, **arguments):
        found = super().retrieve_batch(queries, k, **arguments)
        async with asyncio.timeout(20):
            while len(self.calls) < self.expected:
                await asyncio.sleep(0)
        return found

    def retrieve_batch(self, queries, k=None, **arguments):
        raise AssertionError("asked from a thread")


def test_a_retriever_of_ones_own_is_given_all_that_the_engine_takes(index):
    engine = Plain(index)
    early = MetadataFilter(key="year", value=1840, operator=FilterOperator.LT)
    original = TextNode(id_="engine", text="The original.")
    retriever = GraphRetriever(
        engine,
        filters=MetadataFilters(filters=[early]),
        seed_filters={"topic": "machines"},
        traversal_filters=MetadataFilters(filters=[early]),
        inputs={"entities": lambda question: ["Charles Babbage"]},
        nodes=[original],
    )
    assert retriever.index is None and retriever.similarity_top_k == 4
    found = retriever.retrieve(f" {QUESTION}\n")
    mapping = {"$and": [{"year": {"$lt": 1840}}]}
    expected = {"filter": mapping, "seed_filter": {"topic": "machines"}, "traversal_filter": mapping}
    assert engine.calls == [{"k": 4, "vectors": None, "entities": [["Charles Babbage"]], **expected}]
    hits = engine._engine.retrieve(QUESTION, 4, entities=["Charles Babbage"], **expected)
    assert ids(found) == [hit.id for hit in hits] and "engine" in ids(found)
    assert [provenance(n)["path"] for n in found] == [hit.path.to_dict() for hit in hits]
    assert next(n.node.text for n in found if n.node.node_id == "engine") == "The original."
    retriever.retrieve_batch([QUESTION], entities=[["Colossus"]])
    assert engine.calls[-1]["entities"] == [["Colossus"]]
    assert GraphRetriever(engine, similarity_top_k=0).retrieve(QUESTION) == [] and len(engine.calls) == 2


def test_filters_that_no_mapping_expresses_are_refused_without_an_index(index):
    loud = MetadataFilter(key="topic", value="WAR", operator=FilterOperator.TEXT_MATCH_INSENSITIVE)
    with pytest.raises(InvalidArgumentError, match="text_match_insensitive.*'topic'.*'text_match'"):
        GraphRetriever(Plain(index), filters=MetadataFilters(filters=[loud]))
    engine = Plain(index)
    nodes = GraphRetriever(engine, filters=lambda node: node.metadata["topic"] == "war").retrieve("Alan Turing")
    assert ids(nodes)[0] == "turing" and callable(engine.calls[0]["filter"])


def test_vectors_for_a_retriever_of_ones_own(index):
    engine, embed_model = Plain(index), HashEmbed()
    vector = HashEmbedding().embed_query(QUESTION)
    expected = ids(GraphRetriever(engine).retrieve(QUESTION))
    assert engine.calls[-1]["vectors"] is None  # it makes its own
    assert ids(GraphRetriever(engine).retrieve(QueryBundle(QUESTION, embedding=vector))) == expected
    assert engine.calls[-1]["vectors"] == [vector]
    bundle = QueryBundle(QUESTION)
    assert ids(GraphRetriever(engine, embed_model=embed_model).retrieve(bundle)) == expected
    assert bundle.embedding == pytest.approx(vector) and embed_model.queries == [QUESTION]
    lazy = engine.calls[-1]["vectors"]
    assert callable(lazy) and len(lazy) == 1 and lazy[0] == bundle.embedding and np.asarray(lazy[:1]).shape == (1, 64)
    with pytest.raises(MissingSignalError, match="embed_model="):
        GraphRetriever(engine).retrieve_batch([bundle, "Which code?"])
    engine.embedding = HashEmbedding()
    two = [QueryBundle(QUESTION), QueryBundle("Which code?", embedding=vector)]
    GraphRetriever(engine).retrieve_batch(two)
    assert engine.embedding.query_calls == 1 and two[0].embedding == pytest.approx(vector) and two[1].embedding == vector


async def test_a_retriever_with_asynchronous_methods_is_awaited(index):
    engine = Remote(index)
    engine.expected = 3
    handler = LlamaDebugHandler(print_trace_on_end=False)
    retriever = GraphRetriever(engine, embed_model=HashEmbed(), callback_manager=CallbackManager([handler]))
    with instrumentation_events() as events:
        results = await asyncio.gather(*(retriever.aretrieve(QUESTION) for _ in range(3)))
    assert ids(results[0])[0] == "babbage" and all(ids(nodes) == ids(results[0]) for nodes in results)
    assert [e.class_name() for e in events].count("RetrievalEndEvent") == 3
    assert handler.get_event_pairs(CBEventType.RETRIEVE)[0][1].payload["nodes"] in results
    with instrumentation_events() as events:
        batch = await retriever.aretrieve_batch([QUESTION, "Which code?"], entities=[None, ["Colossus"]])
    assert [ids(nodes)[0] for nodes in batch] == ["babbage", "colossus"]
    assert [e.nodes for e in events if e.class_name() == "RetrievalEndEvent"] == batch
    assert await GraphRetriever(engine, similarity_top_k=0).aretrieve(QUESTION) == []
    with pytest.raises(AssertionError, match="asked from a thread"):
        retriever.retrieve(QUESTION)


async def test_objects_are_followed_behind_an_awaited_retriever(index):
    whole = TextNode(id_="whole", text="The whole article.")
    objects = [IndexNode(id_="babbage", text="Babbage", index_id="b", obj=whole)]
    retriever = GraphRetriever(Remote(index), objects=objects, similarity_top_k=2)
    for found in (await retriever.aretrieve(QUESTION), (await retriever.aretrieve_batch([QUESTION]))[0]):
        assert ids(found)[0] == "whole" and len(found) == 2


async def test_a_retriever_without_asynchronous_methods_is_asked_in_a_thread(index):
    seen = []

    class Threaded(Plain):
        def retrieve_batch(self, queries, k=None, **arguments):
            seen.append(threading.current_thread())
            return super().retrieve_batch(queries, k, **arguments)

    retriever = GraphRetriever(Threaded(index))
    assert ids(await retriever.aretrieve(QUESTION)) == ids((await retriever.aretrieve_batch([QUESTION]))[0])
    assert len(seen) == 2 and threading.main_thread() not in seen


# -- in a database ------------------------------------------------------------------------------------------------


@pytest.fixture
def in_database(database, index):
    write_graph(database, index)
    return GraphRetriever(CypherSpreadingActivation(database, embedding=HashEmbed()), similarity_top_k=5)


async def close_async(database):
    """Close what this event loop opened; the connection itself is for the fixture to clean up with."""
    await database._async_drivers.pop(asyncio.get_running_loop()).close()


async def test_the_database_gives_what_the_engine_gives(in_database, index):
    expected = SpreadingActivationRetriever(index, NODES, similarity_top_k=5, backfill=False).retrieve(QUESTION)
    for found in (in_database.retrieve(QUESTION), await in_database.aretrieve(f"\n{QUESTION} \n")):
        assert ids(found) == ids(expected)
        assert [n.score for n in found] == pytest.approx([n.score for n in expected], abs=1e-6)
        for one, other in zip(found, expected, strict=True):
            assert one.node.text == other.node.text and one.node.metadata == other.node.metadata
    assert to_context(found) == to_context(expected)
    await close_async(in_database.engine.database)


async def test_batches_and_filters_of_the_database_retriever(in_database, index):
    early = MetadataFilter(key="year", value=1840, operator=FilterOperator.LT)
    named = MetadataFilter(key="topic", value=["machines", "war"], operator=FilterOperator.ANY)
    filters = MetadataFilters(filters=[early, named])
    inputs = {"entities": lambda question: ["Charles Babbage"] if "Charles" in question else ["Weaving"]}
    options = {"filters": filters, "traversal_filters": filters, "inputs": inputs, "similarity_top_k": 4}
    expected = SpreadingActivationRetriever(index, NODES, backfill=False, **options).retrieve_batch([QUESTION, "Which cloth?"])
    retriever = GraphRetriever(in_database.engine, **options)
    questions = [QUESTION, "Which cloth?"]
    for found in (retriever.retrieve_batch(questions), await retriever.aretrieve_batch(questions)):
        assert [ids(nodes) for nodes in found] == [ids(nodes) for nodes in expected]
        assert all(n.node.metadata["year"] < 1840 for nodes in found for n in nodes) and ids(found[1])[0] == "loom"
    await close_async(in_database.engine.database)


def test_every_filter_operator_means_the_same_in_the_database(database):
    nodes = linked_nodes()
    nodes[1::2] = [replace(node, metadata={**node.metadata, "empty": ""}) for node in nodes[1::2]]
    index = GraphIndex.from_nodes(nodes, linked_edges(), embedding=HashEmbedding())
    write_graph(database, index)
    knobs = {"gate": "uniform", "steps": 1}
    here = Retriever(index, replace(NODES, **knobs), backfill=False, k=12)
    engines = (CypherSpreadingActivation(database, k=12, **knobs), here)
    lists = (FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL)
    texts = (FilterOperator.CONTAINS, FilterOperator.TEXT_MATCH)
    everyone = {"entities": lambda question: ["Ada Lovelace", "Punched card", "Alan Turing", "Colossus"]}
    for operator in set(FilterOperator) - {FilterOperator.TEXT_MATCH_INSENSITIVE}:
        value = ["war", "engine"] if operator in lists else "war" if operator in texts else 1837
        keys = ("topic", "links", "absent") if operator in (*lists, *texts) else ("year", "empty", "absent")
        first, second, absent = (MetadataFilter(key=key, value=value, operator=operator) for key in keys)
        either = MetadataFilters(filters=[second, absent], condition=FilterCondition.OR)
        for filters in (MetadataFilters(filters=[first]), MetadataFilters(filters=[either], condition=FilterCondition.NOT)):
            both = [GraphRetriever(engine, filters=filters, inputs=everyone).retrieve("Who?") for engine in engines]
            assert ids(both[0]) == ids(both[1]), filters


async def test_the_database_is_asked_over_the_event_loop(in_database, monkeypatch):
    monkeypatch.setattr(in_database.engine.database, "read", lambda *args, **parameters: pytest.fail("asked from a thread"))
    with instrumentation_events() as events:
        found = await asyncio.gather(*(in_database.aretrieve(QUESTION) for _ in range(3)))
    assert ids(found[0])[0] == "babbage" and all(ids(nodes) == ids(found[0]) for nodes in found)
    assert [e.class_name() for e in events].count("RetrievalEndEvent") == 3
    await close_async(in_database.engine.database)


def test_vectors_entities_and_nodes_of_the_database_retriever(in_database, database):
    bundle = QueryBundle(QUESTION)
    in_database.retrieve(bundle)
    assert bundle.embedding == pytest.approx(HashEmbedding().embed_query(QUESTION))
    bare = CypherSpreadingActivation(database)
    original = TextNode(id_="colossus", text="The original.")
    given = GraphRetriever(bare, inputs={"entities": lambda question: ["Colossus"]}, nodes=[original])
    assert given.similarity_top_k == 30
    assert given.retrieve(bundle)[0].node.text == "The original."
    with pytest.raises(MissingSignalError, match="embedding="):
        given.retrieve(QUESTION)
    embed_model = HashEmbed()
    assert ids(GraphRetriever(bare, embed_model=embed_model).retrieve(QUESTION))[0] == "babbage"
    assert embed_model.queries == [QUESTION]
    chains = GraphRetriever(CypherSpreadingActivation(database, gate="uniform", chains="hits"), similarity_top_k=3)
    found = chains.retrieve(QUESTION)
    assert CHAIN in [n.node.text for n in found if provenance(n).get("kind") == "chain"]


async def test_bad_calls_of_the_database_retriever(in_database, index):
    with pytest.raises(InvalidArgumentError, match="similarity_top_k"):
        GraphRetriever(in_database.engine, similarity_top_k=-1)
    with pytest.raises(TypeError, match="reads no input 'plan'"):
        GraphRetriever(in_database.engine, inputs={"plan": lambda question: PLAN})
    assert in_database.retrieve(" ") == []
    with pytest.raises(InvalidArgumentError, match="callable"):
        GraphRetriever(in_database.engine, filters=lambda node: True).retrieve(QUESTION)
    none = GraphRetriever(in_database.engine, similarity_top_k=0)
    assert none.retrieve(QUESTION) == await none.aretrieve(QUESTION) == []


# -- in a property graph index ------------------------------------------------------------------------------------


TEXTS = {
    "c1": "Ada Lovelace wrote notes on the Analytical Engine.",
    "c2": "Charles Babbage designed the Analytical Engine and the Difference Engine.",
    "c3": "The Jacquard machine inspired the Analytical Engine.",
}
FACTS = {
    TEXTS["c1"]: [("Ada Lovelace", "wrote on", "Analytical Engine")],
    TEXTS["c2"]: [("Charles Babbage", "designed", "Analytical Engine"), ("Charles Babbage", "designed", "Difference Engine")],
    TEXTS["c3"]: [("Jacquard machine", "inspired", "Analytical Engine")],
}


class FactReader(MockLLM):
    """Answers an extraction prompt with the facts of the text in it, in the form LlamaIndex asks for."""

    def complete(self, prompt, formatted=False, **kwargs):
        response = super().complete(prompt, formatted, **kwargs)
        text = next((text for text in FACTS if text in prompt), None)
        response.text = "\n".join(f"({', '.join(fact)})" for fact in FACTS.get(text, []))
        return response

    async def apredict(self, prompt, **kwargs):
        return self.complete(prompt.format(**kwargs)).text


@pytest.fixture
def property_graph():
    llm = FactReader()
    return PropertyGraphIndex(
        nodes=[TextNode(id_=name, text=text) for name, text in TEXTS.items()],
        property_graph_store=SimplePropertyGraphStore(),
        kg_extractors=[SimpleLLMPathExtractor(llm=llm, num_workers=1)],
        llm=llm,
        embed_model=HashEmbed(),
        use_async=False,
    )


def spreading(property_graph, **options):
    parameters = {name: options.pop(name) for name in options.keys() & {field.name for field in fields(SpreadingActivation)}}
    system = replace(SpreadingActivationPGRetriever.system, **{"gate": "uniform", **parameters})
    store = property_graph.property_graph_store
    return SpreadingActivationPGRetriever(store, system=system, **{"embed_model": HashEmbed(), **options})


# LlamaIndex' own parser spells "Ada Lovelace" as "Ada lovelace".


def test_an_entity_without_a_name_does_not_stop_the_retriever(property_graph, caplog):
    wanted = [n.node.text for n in spreading(property_graph).retrieve("What did Ada Lovelace write?")]
    store = property_graph.property_graph_store
    store.upsert_nodes([EntityNode(name="")])
    store.upsert_relations([Relation(label="Wrote on", source_id="Ada lovelace", target_id="")])
    caplog.clear()
    assert [n.node.text for n in spreading(property_graph).retrieve("What did Ada Lovelace write?")] == wanted
    assert sum("Left out 2 items of the property graph" in message for message in caplog.messages) == 1
    assert spreading(property_graph).retrieve(" ") == []


def test_facts_around_the_entities_of_a_question_best_first(property_graph):
    retriever = spreading(property_graph, include_text=False)
    assert isinstance(retriever, BasePGRetriever)
    nodes = retriever.retrieve("What did Ada Lovelace write?")
    texts = [n.node.text for n in nodes]
    assert set(texts) == {
        "Ada lovelace -> Wrote on -> Analytical engine",
        "Charles babbage -> Designed -> Analytical engine",
        "Charles babbage -> Designed -> Difference engine",
        "Jacquard machine -> Inspired -> Analytical engine",
    }
    assert texts[0] == "Ada lovelace -> Wrote on -> Analytical engine"
    scores = [n.score for n in nodes]
    assert scores == sorted(scores, reverse=True) and len(set(ids(nodes))) == 4
    few = spreading(property_graph, include_text=False, similarity_top_k=2, chains=None)
    assert [n.node.text for n in few.retrieve("What did Ada Lovelace write?")] == [
        "Ada lovelace -> Wrote on -> Analytical engine",
        "Charles babbage -> Designed -> Analytical engine",
    ]


def test_copies_and_the_repr_of_the_sub_retriever(property_graph):
    retriever = SpreadingActivationPGRetriever(property_graph.property_graph_store, embed_model=HashEmbed(), similarity_top_k=4)
    expected = [(n.node.text, n.score) for n in retriever.retrieve(QUESTION)]
    for copied in (copy.deepcopy(retriever), pickle.loads(pickle.dumps(retriever))):  # noqa: S301
        assert [(n.node.text, n.score) for n in copied.retrieve(QUESTION)] == expected
        assert repr(copied) == "SpreadingActivationPGRetriever(5 nodes, 4 edges, similarity_top_k=4)"


def test_entities_by_a_function_and_notes(property_graph):
    named = spreading(property_graph, include_text=False, entities=lambda question: ["Difference Engine"], steps=1, chains=None)
    assert [n.node.text for n in named.retrieve("Which one?")] == ["Charles babbage -> Designed -> Difference engine"]
    for include_text in (False, True):
        noted = spreading(property_graph, include_text=include_text, entities=lambda question: [question]).retrieve(
            "machine of cards"
        )
        assert noted and all("no node is named 'machine of cards'" in provenance(n)["notes"][0] for n in noted)
        assert not any("no node" in n.node.get_content(MetadataMode.LLM) for n in noted)


@pytest.mark.parametrize("use_async", [False, True])
def test_as_a_sub_retriever_with_the_text_of_its_source(property_graph, use_async):
    retriever = property_graph.as_retriever(sub_retrievers=[spreading(property_graph)], use_async=use_async)
    nodes = retriever.retrieve("What did Ada Lovelace write?")
    assert ids(nodes)[0] == "c1" and set(ids(nodes)) == set(TEXTS)
    for n in nodes:
        assert n.node.text.endswith(TEXTS[n.node.node_id]) and " -> " in n.node.text


async def test_in_a_query_engine_of_the_property_graph(property_graph):
    sub = spreading(property_graph)
    engine = property_graph.as_query_engine(sub_retrievers=[sub], llm=MockLLM())
    response = await engine.aquery("What did Charles Babbage design?")
    assert "Charles babbage -> Designed -> Difference engine" in str(response) and TEXTS["c2"] in str(response)
    assert [n.node.text for n in await sub.aretrieve("Ada Lovelace")] == [n.node.text for n in sub.retrieve("Ada Lovelace")]


def test_the_system_of_the_sub_retriever_can_be_changed(property_graph):
    store, embed = property_graph.property_graph_store, {"embed_model": HashEmbed()}
    wanted = SpreadingActivation(hub_exponent=0.5, chains="path")
    as_mapping = {"system": "spreading", "hub_exponent": 0.5, "chains": "path"}
    for system in (wanted, "spreading(hub_exponent=0.5, chains='path')", as_mapping):
        made = SpreadingActivationPGRetriever(store, system=system, **embed)
        assert made.system == made.engine.system == wanted and "hub_exponent=0.5" in repr(made.engine) and not made.engine.backfill
    made = SpreadingActivationPGRetriever(store, **embed, backfill=True, time_limit=9.0)
    assert made.engine.backfill and made.engine.time_limit == 9 and made.system == SpreadingActivationPGRetriever.system
    with pytest.raises(InvalidArgumentError, match=r"runs SpreadingActivation, got PPR\(\)"):
        SpreadingActivationPGRetriever(store, system="ppr", **embed)
    with pytest.raises(TypeError, match=r"'steps' is a parameter of the system: .*system=SpreadingActivation\(steps=...\)"):
        SpreadingActivationPGRetriever(store, steps=1, **embed)


@pytest.mark.parametrize("question", ["Whose design did Ada Lovelace write on?", "Ada Lovelace: by whom?"])
def test_a_question_of_two_hops_is_answered_by_default(property_graph, question):
    """No word of the question is in the name of the answer."""
    retriever = SpreadingActivationPGRetriever(property_graph.property_graph_store, embed_model=HashEmbed())
    texts = [n.node.text for n in retriever.retrieve(question)]
    assert any("Charles babbage -> Designed -> Analytical engine" in text and TEXTS["c2"] in text for text in texts)


def test_passages_of_a_property_graph_come_back_as_their_nodes(tmp_path):
    told = {"file_path": "/data/a.md", "topic": "engines"}
    nodes = [TextNode(id_=name, text=text, metadata=dict(told)) for name, text in TEXTS.items()]
    for node in nodes:
        node.excluded_llm_metadata_keys = node.excluded_embed_metadata_keys = ["file_path"]
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="document")
    llm, store = FactReader(), SimplePropertyGraphStore()
    extractors = [SimpleLLMPathExtractor(llm=llm, num_workers=1)]
    originals = {node.node_id: node.model_copy(deep=True) for node in nodes}
    PropertyGraphIndex(
        nodes=nodes, property_graph_store=store, kg_extractors=extractors, llm=llm, embed_model=HashEmbed(), use_async=False
    )
    GraphIndex.from_nodes(*from_property_graph_store(store), embedding=HashEmbedding()).save(tmp_path / "index")
    retriever = GraphRetriever(GraphIndex.load(tmp_path / "index"), "vector", embed_model=HashEmbed())
    found = {n.node.node_id: n.node for n in retriever.retrieve(QUESTION)}
    passages = {name: node for name, node in found.items() if name in originals}
    assert len(passages) == len(TEXTS)
    for name, node in passages.items():
        assert node == originals[name] and node.get_content(MetadataMode.LLM) == f"topic: engines\n\n{TEXTS[name]}"
    entity = found["Charles babbage"]
    assert entity.ref_doc_id in TEXTS and set(entity.metadata) == {"file_path", "topic", "title", "type"}
    assert "file_path" not in entity.get_content(MetadataMode.LLM)


@pytest.mark.parametrize("made", ["before", "after"])
def test_facts_of_a_deleted_document_are_told_once(caplog, made):
    llm, store = FactReader(), SimplePropertyGraphStore()
    extractors = [SimpleLLMPathExtractor(llm=llm, num_workers=1)]
    documents = [Document(text=text, id_=name) for name, text in TEXTS.items()]
    theirs = PropertyGraphIndex.from_documents(
        documents, property_graph_store=store, kg_extractors=extractors, llm=llm, embed_model=HashEmbed(), use_async=False
    )
    chunk = theirs.docstore.get_ref_doc_info("c2").node_ids[0]
    retriever = spreading(theirs) if made == "before" else None
    assert caplog.text == ""
    theirs.delete_ref_doc("c2")
    retriever = retriever or spreading(theirs)
    for _ in range(2):
        found = [n.node.text for n in retriever.retrieve("What did Charles Babbage design?")]
        assert "Charles babbage -> Designed -> Difference engine" in found
        assert len(asyncio.run(retriever.aretrieve("What did Charles Babbage design?"))) == len(found)
    (record,) = caplog.records
    assert f"facts from chunks that it no longer has (1: {chunk!r})" in record.getMessage()
    assert "delete_ref_doc of a PropertyGraphIndex deletes chunks, not what was extracted" in record.getMessage()


def test_an_index_that_stands_is_not_made_again(property_graph):
    store = property_graph.property_graph_store
    embed_model = HashEmbed()
    index = GraphIndex.from_nodes(*from_property_graph_store(store), embedding=embed_model)
    count = len(embed_model.texts)
    given = spreading(property_graph, index=index, embed_model=None, gate="cosine", include_text=False)
    made = spreading(property_graph, gate="cosine", include_text=False)
    question = "What did Ada Lovelace write?"
    assert [n.node.text for n in given.retrieve(question)] == [n.node.text for n in made.retrieve(question)]
    assert len(embed_model.texts) == count and embed_model.queries == [question]


def test_properties_and_bad_stores():
    store = SimplePropertyGraphStore()
    with pytest.raises(EmptyGraphError):
        SpreadingActivationPGRetriever(store, embed_model=HashEmbed())
    with pytest.raises(InvalidArgumentError, match="property graph store"):
        SpreadingActivationPGRetriever({}, embed_model=HashEmbed())
    store.upsert_nodes([EntityNode(name="Ada", properties={"born": 1815}), EntityNode(name="Engine")])
    store.upsert_relations([Relation(label="SAW", source_id="Ada", target_id="Engine", properties={"in": 1833})])
    with pytest.raises(MissingSignalError, match="embed_model="):
        SpreadingActivationPGRetriever(store)
    with pytest.raises(TypeError, match="stepps"):
        SpreadingActivationPGRetriever(store, embed_model=HashEmbed(), stepps=1)
    uniform = SpreadingActivation(gate="uniform")
    retriever = SpreadingActivationPGRetriever(store, include_properties=True, embed_model=HashEmbed(), system=uniform)
    assert [n.node.text for n in retriever.retrieve("Ada")] == ["Ada ({'born': 1815}) -> SAW ({'in': 1833}) -> Engine"]


def stored(*vectors):
    store = SimplePropertyGraphStore()
    store.upsert_nodes([EntityNode(name=name, embedding=vector) for name, vector in zip("abc", vectors, strict=False)])
    store.upsert_relations([Relation(label="knows", source_id="a", target_id="b")])
    return store


def test_vectors_of_a_property_graph_are_taken():
    asked = []

    def embed(texts):
        asked.extend(texts)
        return [[3.0, 4.0]] * len(texts)

    store = stored([0.0, 2.0], [5.0, 0.0], None)
    retriever = SpreadingActivationPGRetriever(store, embed_model=embed)
    assert asked == ["c"]
    assert np.allclose(retriever.engine.index.dense.vectors, [[0, 1], [1, 0], [0.6, 0.8]])
    assert np.allclose(
        GraphIndex.from_nodes(*from_property_graph_store(store), embedding=embed).dense.vectors[:2], [[0, 1], [1, 0]]
    )
    assert asked == ["c", "c"]


def test_entities_without_vectors_are_compared_by_cosine(caplog):
    retriever = SpreadingActivationPGRetriever(stored(None, None), embed_model=lambda texts: [[3.0, 4.0]] * len(texts))
    assert np.allclose(retriever.engine.index.dense.vectors, [[0.6, 0.8]] * 2)
    assert retriever.retrieve("What does a know?")[0].text == "a -> knows -> b" and caplog.text == ""


def test_a_property_graph_without_triplets_is_told(caplog):
    store = SimplePropertyGraphStore()
    store.upsert_nodes([ChunkNode(text="Ada wrote a program.", id_="c1")])
    with pytest.raises(EmptyGraphError, match="has no entities.*search its passages with VectorContextRetriever"):
        SpreadingActivationPGRetriever(store, embed_model=HashEmbed())
    store.upsert_nodes([EntityNode(name="Ada")])
    assert SpreadingActivationPGRetriever(store, embed_model=HashEmbed()).retrieve("Who is Ada?") == []
    assert "has no triplets, so that this retriever finds nothing" in caplog.text


def warned(caplog):
    """What was logged on questions that nothing was found for."""
    return [text for record in caplog.records if (text := record.getMessage()).startswith("Nothing was found: ")]


async def test_what_finds_no_triplet_is_told_with_the_reason(caplog):
    store = stored([0.0, 1.0], [0.0, 1.0], [1.0, 0.0])
    embed = {"embed_model": lambda texts: [[0.0, 1.0]] * len(texts), "entities": str.split}
    retriever = SpreadingActivationPGRetriever(store, **embed)
    assert retriever.retrieve("a") and warned(caplog) == []
    alone = "Nothing was found: no triplet leads from 'c' to another entity."
    assert retriever.retrieve("c") == [] and warned(caplog) == [alone]
    assert await retriever.aretrieve("c") == [] and warned(caplog) == [alone, alone]
    caplog.clear()
    for options in ({"threshold": 0.99}, {"steps": 1, "decay": 1e-6}):
        system = replace(SpreadingActivationPGRetriever.system, **options)
        assert SpreadingActivationPGRetriever(store, **embed, system=system).retrieve("a c") == []
    closed = "Nothing was found: no activation passes from 'a', 'c' to another entity; lower threshold= or pass another gate=."
    assert warned(caplog) == [closed, closed]
    other = SimplePropertyGraphStore()
    other.upsert_nodes([EntityNode(name=name) for name in "ab"])
    other.upsert_relations([Relation(label="hates", source_id="b", target_id="a")])
    caplog.clear()
    assert SpreadingActivationPGRetriever(other, index=retriever.engine.index, **embed).retrieve("a") == []
    assert warned(caplog)[0].startswith("Nothing was found: the graph store has none of the triplets on the paths; make")


@pytest.mark.parametrize("standing", [False, True])
def test_what_chunks_mention_is_not_a_triplet(caplog, standing):
    store = SimplePropertyGraphStore()
    store.upsert_nodes([ChunkNode(text="Ada wrote a program.", id_="c1"), *(EntityNode(name=name) for name in ("Ada", "Program"))])
    store.upsert_relations([Relation(label="MENTIONS", source_id="c1", target_id=name) for name in ("Ada", "Program")])
    index = GraphIndex.from_nodes(*from_property_graph_store(store), embedding=HashEmbed()) if standing else None
    retriever = SpreadingActivationPGRetriever(store, embed_model=HashEmbed(), index=index)
    assert "Among its entities, the property graph has no triplets, so that this retriever finds nothing" in caplog.text
    assert retriever.retrieve("Who is Ada?") == []
    (text,) = warned(caplog)
    assert text.endswith("among its entities, the property graph has no triplets.")


def test_many_entities_without_triplets_are_counted(caplog):
    store = stored([1.0, 0.0], [1.0, 0.0])
    store.upsert_nodes([EntityNode(name=name) for name in "cdefg"])
    retriever = SpreadingActivationPGRetriever(store, embed_model=lambda texts: [[1.0, 0.0]] * len(texts), entities=str.split)
    assert retriever.retrieve("c d e f g") == []
    assert warned(caplog) == ["Nothing was found: no triplet leads from 'c', 'd', 'e' and 2 more to another entity."]
