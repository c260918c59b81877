"""The LangChain retrievers for knowledge graphs: their inputs, chains and plans, and what is built only once."""

import asyncio
import copy

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, RunnablePassthrough
from pydantic import ValidationError

from graph_retrievers import GAR, GRAG, PPR, MoR, Retriever, SpreadingActivation
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.hits import NodePath
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import EntityLinking, Pipeline, VectorSearch
from graph_retrievers.stores.cypher import CypherSpreadingActivation, write_graph
from graph_retrievers.systems import pagerank
from graph_retrievers.systems.mor import retriever as mor
from graph_retrievers.systems.mor.training import fit_mor
from langchain_graph_retrievers import GraphRetriever, MoRRetriever, SpreadingActivationRetriever, graph_retriever, to_context
from tests.helpers import HashEmbedding, linked_index
from tests.integration.langchain_models import LangChainHashEmbeddings, RemoteRetriever, RetrieverEvents, ScriptedChatModel
from tests.movies import FILMS, PEOPLE, movie_edges, movie_nodes

# Its chains would follow the k documents.
WALK = SpreadingActivation()
QUESTION = "What did Charles Babbage design, and what came of it?"


def step(person):
    return {"type": "person", "restriction": [person]}


PLAN = [step("Ada Stone"), {"type": "movie", "relation": "directed_by"}]


@pytest.fixture(scope="module")
def index():
    return linked_index()


@pytest.fixture(scope="module")
def movies():
    return GraphIndex.from_nodes(movie_nodes(), movie_edges(), embedding=HashEmbedding())


@pytest.fixture
def built(monkeypatch):
    """Names of the systems that were put together meanwhile."""
    names = []

    def counting(index, system, **options):
        names.append(str(system))
        return Retriever(index, system, **options)

    monkeypatch.setattr(graph_retriever, "Retriever", counting)
    return names


def ids(documents):
    return [d.id for d in documents]


# -- the engine's answers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "system",
    [
        GAR(budget=6, nodes_per_round=2),
        PPR(seeds=2, damping=0.8, passage_weight=0),
        SpreadingActivation(gate="uniform", steps=2),
        MoR(seeds=2, matches=0),
    ],
)
async def test_documents_are_those_of_the_engine(index, system):
    retriever = GraphRetriever(index=index, system=system, k=7, provenance=True)
    hits = Retriever(index, system).retrieve(QUESTION, 7)
    for documents in (retriever.invoke(QUESTION), await retriever.ainvoke(QUESTION), retriever.batch([QUESTION, "loom"])[0]):
        assert [(d.id, d.page_content, d.metadata["path"]) for d in documents] == [(h.id, h.text, h.path.to_dict()) for h in hits]
        assert [d.metadata["score"] for d in documents] == pytest.approx([h.score for h in hits], abs=1e-5)
        assert all(d.metadata.get("notes", []) == list(hits.notes) for d in documents)


@pytest.mark.parametrize(
    "system",
    [
        "gar(budget=0)",
        "ppr(damping=1.0)",
        "ppr(passage_weight=-1)",
        "spreading(gate='soft')",
        "spreading(chains='both')",
        "spreading(decay=0)",
        "spreading(hub_exponent=-1)",
        "spreading(linking='names')",
        "mor(seeds=0)",
        "mor(reranker='folder')",
        "mor(checkpoint='nowhere')",
    ],
)
def test_wrong_values_are_refused_at_construction(index, system):
    with pytest.raises(InvalidArgumentError):
        GraphRetriever(index=index, system=system)


def test_thirty_entities_by_default_as_published():
    texts = [f"Text {i}" for i in range(40)]
    retriever = SpreadingActivationRetriever.from_texts(texts, HashEmbedding(), edges=[("0", str(i)) for i in range(1, 40)])
    assert len([document for document in retriever.invoke("Text 0") if "kind" not in document.metadata]) == 30


# -- entities and chains ------------------------------------------------------------------------------------------


async def test_entities_of_a_call(index):
    retriever = SpreadingActivationRetriever(index=index, k=4, backfill=False, provenance=True)
    for found in (retriever.invoke("Who?", entities=["colossus"]), await retriever.ainvoke("Who?", entities=["colossus"])):
        assert found[0].metadata["path"]["nodes"] == ["colossus"]
    together = retriever.batch(["Who?", "What?"], entities=["Colossus"])
    assert [documents[0].id for documents in together] == ["colossus", "colossus"]
    noted = retriever.invoke("Who were the British codebreakers at Bletchley?", entities=["Bletchley codebreakers"])
    assert noted[0].metadata["notes"] == ["no node is named 'Bletchley codebreakers': seeds from vector search"]
    with pytest.raises(InvalidArgumentError, match="entities"):
        retriever.invoke("Who?", entities="Colossus")


def test_entities_by_a_chat_model_of_langchain(index):
    model = ScriptedChatModel(script=[AIMessage('{"entities": ["Weaving"]}')], seen=[])
    retriever = SpreadingActivationRetriever(index=index, system=SpreadingActivation(language_model=model))
    assert retriever.invoke("Who?")[0].id == "loom" and "Who?" in str(model.seen[0])
    assert "ScriptedChatModel" not in repr(retriever) + str(retriever.model_dump())
    assert "system=SpreadingActivation(language_model=...)" in repr(retriever)
    assert retriever.model_dump()["system"] == "spreading(language_model=...)" and retriever.system.language_model is model
    linked = SpreadingActivationRetriever(
        index=index, system=SpreadingActivation(linking=EntityLinking(language_model=model), steps=2)
    )
    assert "ScriptedChatModel" not in repr(linked) + str(linked.model_dump()) and "steps=2, linking=..." in repr(linked)
    composed = GraphRetriever(index=index, system=Pipeline(EntityLinking(language_model=model), VectorSearch(2)))
    assert "ScriptedChatModel" not in repr(composed) + str(composed.model_dump()) and "system=Pipeline(...)" in repr(composed)
    within = GraphRetriever(index=index, system=GRAG(first=SpreadingActivation(language_model=model)))
    assert "ScriptedChatModel" not in repr(within) + str(within.model_dump())


def test_chains_are_documents_whose_text_is_the_chain(index):
    retriever = SpreadingActivationRetriever(
        index=index, k=3, system=SpreadingActivation(gate="uniform", chains="hits"), provenance=True
    )
    documents = retriever.invoke(QUESTION)
    nodes, chains = documents[:3], documents[3:]
    assert chains and not any("kind" in d.metadata for d in nodes)
    for chain in chains:
        assert chain.metadata["kind"] == "chain" and chain.metadata["operator"] == "ChainSearch"
        assert chain.id == " | ".join(chain.metadata["path"]["nodes"])
    assert len(set(ids(documents))) == len(documents)
    assert any(d.page_content == "Charles Babbage -[links]-> Analytical Engine <-[links]- Ada Lovelace" for d in chains)
    leads = SpreadingActivationRetriever(index=index, k=3, system=SpreadingActivation(gate="uniform", chains="path")).invoke(
        QUESTION
    )
    assert ids(leads) == ids(nodes)


def test_the_text_of_the_paper_goes_into_a_prompt(index):
    retriever = SpreadingActivationRetriever(
        index=index, k=3, system=SpreadingActivation(gate="uniform", chains="hits"), provenance=True
    )
    model = ScriptedChatModel(script=[AIMessage("Engines.")], seen=[])
    prompt = ChatPromptTemplate.from_template("{context}\n\n{question}")
    chain = {"context": retriever | to_context, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    assert chain.invoke(QUESTION) == "Engines."
    assert model.seen[0][0].content == retriever.engine.retrieve(QUESTION, 3).to_context() + f"\n\n{QUESTION}"
    assert "- a: b" in to_context([Document(id="a", page_content="b")])


def test_a_note_on_an_empty_result_is_logged(index, caplog):
    retriever = SpreadingActivationRetriever(index=index, filter={"$id": "nowhere"}, backfill=False)
    assert retriever.invoke("qwertz") == []
    assert "the operators found no node" in caplog.text


# -- plans --------------------------------------------------------------------------------------------------------


async def test_the_plan_of_a_call_is_walked(movies):
    retriever = MoRRetriever(index=movies, k=2, provenance=True)
    for found in (retriever.invoke("Which films?", plan=PLAN), await retriever.ainvoke("Which films?", plan=PLAN)):
        assert found[0].id == "m0"
        path = NodePath(("p0", "m0"), ("directed_by",), (False,), ("Ada Stone", FILMS[0]))
        assert found[0].metadata["path"] == path.to_dict()
        (note,) = found[0].metadata["notes"]
        assert "reranker is not trained" in note
    assert [d[0].id for d in retriever.batch(["Which films?", "What did she direct?"], plan=PLAN)] == ["m0", "m0"]


def test_a_planner_is_asked_where_the_call_brings_no_plan(movies):
    asked = []
    retriever = MoRRetriever(index=movies, system=MoR(planner=lambda question: asked.append(question) or PLAN))
    assert retriever.invoke("Which films?")[0].id == "m0" and asked == ["Which films?"]
    assert retriever.invoke("Which films?", plan=[step("Fay North"), PLAN[1]])[0].id == "m5"
    assert len(asked) == 1


def test_a_plan_that_cannot_be_walked_gives_text_and_says_why(movies):
    documents = MoRRetriever(index=movies, k=3, provenance=True).invoke("Who made Glass Winter?", plan=[{"type": "robot"}])
    assert len(documents) == 3
    assert all("robot" in d.metadata["notes"][0] for d in documents)


# -- what is built once -------------------------------------------------------------------------------------------


def test_a_call_does_not_build_what_stands(index, built):
    retriever = SpreadingActivationRetriever(index=index)
    for _ in range(3):
        retriever.invoke(QUESTION)
    retriever.batch([QUESTION, "loom"])
    assert built == ["spreading"]
    retriever.system = SpreadingActivation(gate="uniform")
    retriever.invoke(QUESTION)
    retriever.system = "spreading"
    retriever.invoke(QUESTION)
    retriever.system = {"system": "spreading", "gate": "uniform"}
    retriever.invoke(QUESTION)
    assert built == ["spreading", "spreading(gate='uniform')"]


def test_the_walk_of_pagerank_is_prepared_once(monkeypatch):
    made = []

    class Counted(pagerank.TransitionGraph):
        def __init__(self, graph, *walk):
            made.append(graph)
            super().__init__(graph, *walk)

    monkeypatch.setattr(pagerank, "TransitionGraph", Counted)
    retriever = GraphRetriever(index=linked_index(), system="ppr").configurable_fields(k=ConfigurableField(id="k"))
    for k in (1, 2, 3):
        assert len(retriever.invoke(QUESTION, {"configurable": {"k": k}})) == k
    assert len(made) == 1


def test_a_checkpoint_is_read_once_however_the_retriever_is_configured(movies, tmp_path, monkeypatch):
    text = "Which films did {} direct?"
    queries = []
    for i, name in enumerate(PEOPLE):
        split = "dev" if i > 3 else "train"
        queries.append(Query(f"d{i}", text.format(name), (f"m{i}",), split, plan=(step(name), PLAN[1])))
        played = ({"type": "movie", "restriction": [FILMS[i]]}, {"type": "person"})
        queries.append(Query(f"p{i}", f"Who played in {FILMS[i]}?", (f"p{(i + 1) % 6}",), split, plan=played))
    fit_mor(Dataset("films", movie_nodes(), movie_edges(), queries, True), movies, tmp_path)
    read = []
    real = mor._loaded
    monkeypatch.setattr(mor, "_loaded", lambda *given: read.append(given) or real(*given))
    retriever = MoRRetriever(index=movies, system=MoR(checkpoint=tmp_path))
    configured = retriever.configurable_fields(k=ConfigurableField(id="k"), system=ConfigurableField(id="system"))
    question = text.format("Cleo Marsh")
    first = configured.invoke(question, {"configurable": {"k": 2}})
    for k in (1, 2, 3):
        assert len(configured.invoke(question, {"configurable": {"k": k}})) == k
    assert first[0].id == "m2" and len(read) == 1
    assert retriever.invoke(question, k=2) == first and len(read) == 1
    for _ in range(2):
        configured.invoke(question, {"configurable": {"system": {"system": "mor", "checkpoint": tmp_path, "rerank": False}}})
    assert len(read) == 2


def test_only_the_last_engines_are_kept_and_copies_make_their_own(index, built):
    retriever = SpreadingActivationRetriever(index=index)
    for steps in range(1, 11):
        retriever.system = SpreadingActivation(steps=steps)
        retriever.invoke(QUESTION)
    retriever.system = SpreadingActivation(steps=1)
    retriever.invoke(QUESTION)
    assert len(built) == 11 and len(retriever.engines._values) == 8
    assert copy.deepcopy(retriever.engines)._values == {}


# -- in a database ------------------------------------------------------------------------------------------------


async def test_the_database_gives_what_the_engine_gives(database, index, monkeypatch):
    write_graph(database, index)
    in_database = GraphRetriever(
        retriever=CypherSpreadingActivation(database, embedding=LangChainHashEmbeddings(), k=5), provenance=True
    )
    inside = GraphRetriever(index=index, system=WALK, k=5, backfill=False, provenance=True)
    asked = [(QUESTION, {}), ("Who?", {"entities": ["Colossus"]}), (QUESTION, {"k": 2}), (QUESTION, {"filter": {"topic": "war"}})]
    from_a_thread = [in_database.batch([question], **given)[0] for question, given in asked]
    monkeypatch.setattr(database, "read", lambda *args, **parameters: pytest.fail("asked from a thread"))
    for (question, given), first in zip(asked, from_a_thread, strict=True):
        events = RetrieverEvents()
        second = await in_database.ainvoke(question, {"callbacks": [events]}, **given)
        (third,) = await in_database.abatch([question], **given)
        expected = inside.invoke(question, **given)
        for found in (first, second, third):
            assert ids(found) == ids(expected)
            for one, other in zip(found, expected, strict=True):
                assert one.page_content == other.page_content
                assert one.metadata["score"] == pytest.approx(other.metadata["score"], abs=1e-6)
                assert one.metadata["similarity"] == pytest.approx(other.metadata["similarity"], abs=1e-6)
                same = {"score": 0, "similarity": 0}
                assert one.metadata | same == other.metadata | same
        (run,) = events.started.values()
        assert run["metadata"]["ls_retriever_name"] == "cypherspreadingactivation"
        assert run["metadata"]["ls_vector_store_provider"] == "CypherDatabase"
    # Close what this event loop opened; the connection itself is for the fixture to clean up with.
    await database._async_drivers.pop(asyncio.get_running_loop()).close()


@pytest.fixture
def remote(index):
    """A retriever of a store that is asked over the network."""
    return GraphRetriever(retriever=RemoteRetriever(Retriever(index, WALK, k=5, backfill=False)))


async def test_a_retriever_of_a_store_gives_what_the_engine_gives(remote, index):
    inside = GraphRetriever(index=index, system=WALK, k=5, backfill=False)
    given = [{}, {"k": 2}, {"filter": {"year": {"$lt": 1900}}}, {"vector": HashEmbedding().embed_query("cloth")}]
    for question, keywords in [("Who?", {"entities": ["Colossus"]}), *((QUESTION, keywords) for keywords in given)]:
        expected = inside.invoke(question, **keywords)
        assert expected
        assert remote.invoke(question, **keywords) == expected == await remote.ainvoke(question, **keywords)
        assert remote.batch([question], **keywords) == [expected] == await remote.abatch([question], **keywords)


async def test_a_retriever_that_can_be_awaited_is_asked_over_the_event_loop(remote, monkeypatch):
    monkeypatch.setattr(remote.retriever, "retrieve_batch", lambda *args, **options: pytest.fail("asked from a thread"))
    events = RetrieverEvents()
    documents = await remote.ainvoke(QUESTION, {"callbacks": [events]})
    assert ids(documents)[:1] == ["babbage"] and list(events.ended.values()) == [documents]
    (run,) = events.started.values()
    assert run["metadata"]["ls_retriever_name"] == "remoteretriever"
    assert run["metadata"]["ls_vector_store_provider"] == "RemoteStore"
    assert [ids(found) for found in await remote.abatch([QUESTION, "Colossus"], k=1)] == [["babbage"], ["colossus"]]
    assert remote.retriever.calls == [("async", 1), ("async", 2)]


async def test_one_bad_query_of_an_awaited_batch(remote):
    bad = [QUESTION, 7, "Colossus"]
    with pytest.raises(InvalidArgumentError, match="Query 1 is 7"):
        await remote.abatch(bad)
    events = RetrieverEvents()
    found = await remote.abatch(bad, {"callbacks": [events]}, return_exceptions=True)
    assert isinstance(found[1], InvalidArgumentError) and list(events.failed.values()) == [found[1]]
    assert [found[0], found[2]] == [remote.invoke(bad[0]), remote.invoke(bad[2])]
    assert [call for call in remote.retriever.calls if call[0] == "async"] == [("async", 2)] * 2


async def test_chains_and_bad_calls_of_a_store(remote, index):
    with_chains = GraphRetriever(
        retriever=RemoteRetriever(Retriever(index, SpreadingActivation(gate="uniform", chains="hits"))), k=3
    )
    documents = with_chains.invoke(QUESTION)
    assert [d.metadata.get("kind") for d in documents[:4]] == [None, None, None, "chain"]
    assert "Charles Babbage -[links]-> Analytical Engine <-[links]- Ada Lovelace" in [d.page_content for d in documents]
    configured = with_chains.configurable_fields(k=ConfigurableField(id="k"))
    kinds = [d.metadata.get("kind") for d in configured.invoke(QUESTION, {"configurable": {"k": 1}})]
    assert kinds[:2] == [None, "chain"]
    with pytest.raises(TypeError, match="kk"):
        remote.invoke(QUESTION, kk=1)
    with pytest.raises(TypeError, match="vectors"):
        remote.invoke(QUESTION, vectors=[[1.0]])
    with pytest.raises(InvalidArgumentError, match="k must be"):
        await remote.ainvoke(QUESTION, k=0)
    with pytest.raises(ValidationError, match="stepps"):
        GraphRetriever(retriever=remote.retriever, stepps=2)
    assert "password" not in repr(remote) and "retriever" not in remote.model_dump()
