"""The LangChain retrievers in real chains and agents: calls, batches, configuration, tracing, documents."""

import asyncio
import json
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_classic.retrievers.self_query.base import SelfQueryRetriever
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import ConfigurableField, ConfigurableFieldSingleOption, RunnableLambda, RunnablePassthrough
from langchain_core.structured_query import Comparator, Comparison, StructuredQuery, Visitor
from langchain_core.tools import create_retriever_tool
from pydantic import ValidationError

import langchain_graph_retrievers as package
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import Edge, Node
from graph_retrievers.hits import Hit, Hits, NodePath
from graph_retrievers.index import GraphIndex, IndexStore
from graph_retrievers.operators import (
    ChainSearch,
    FactSearch,
    GatedPropagation,
    Operator,
    OperatorKind,
    Pipeline,
    VectorSearch,
)
from graph_retrievers.retrievers import Retriever
from graph_retrievers.retrievers.memory import MemoryRetriever
from graph_retrievers.systems import BM25, GAR, PPR, FastInsight, Hybrid, HyDE, Re2, Vector
from graph_retrievers.systems.fastinsight import GRanker
from langchain_graph_retrievers import (
    FastInsightRetriever,
    GraphRetriever,
    GraphVectorStore,
    document_prompt,
    graph_retriever,
    to_context,
)
from tests.helpers import HashEmbedding, WordOverlap, linked_edges, linked_index, linked_nodes
from tests.hostile import nested
from tests.integration.langchain_models import (
    LangChainHashEmbeddings,
    LangChainWordOverlap,
    RetrieverEvents,
    ScriptedChatModel,
)

SYSTEMS = ["vector", "bm25", "hybrid", "re2", "fastinsight"]
PRESETS = [
    package.FastInsightRetriever,
    package.GRAGRetriever,
    package.LeSeGRRetriever,
    package.MoRRetriever,
    package.SpreadingActivationRetriever,
    package.WalkFusionRetriever,
]
QUESTIONS = ["Who wrote a program for the Analytical Engine?", "What counted the census?", "Who broke ciphers at Bletchley Park?"]


class CountingRetriever(MemoryRetriever):
    """Vector search that counts its batches and reads one further per-query input."""

    inputs = ("entities",)

    def __init__(self, index, **options):
        super().__init__(index, VectorSearch(), **options)
        self.batches, self.threads, self.read = [], set(), []

    def retrieve_batch(self, queries, k=None, **options):
        self.batches.append(len(queries))
        self.threads.add(threading.get_ident())
        self.read.append(options.get("entities"))
        return super().retrieve_batch(queries, k, **options)


@pytest.fixture(scope="module")
def index():
    return linked_index()


@pytest.fixture
def counting(index):
    return GraphRetriever(retriever=CountingRetriever(index), k=3)


def ids(documents):
    return [d.id for d in documents]


# -- one query ----------------------------------------------------------------------------------------------------


def test_documents_are_those_of_the_engine_with_score_operator_and_path(index):
    retriever = FastInsightRetriever(index=index, k=5, system=FastInsight(budget=8, nodes_per_round=2), provenance=True)
    hits = retriever.engine.retrieve(QUESTIONS[0], 5)
    documents = retriever.invoke(QUESTIONS[0])
    assert ids(documents) == [h.id for h in hits]
    for document, hit in zip(documents, hits, strict=True):
        row = index.graph.row(hit.id)
        assert document.page_content == index.graph.texts[row]
        assert document.metadata == {
            **index.graph.metadata[row],
            "title": index.graph.titles[row],
            "score": hit.score,
            "similarity": hit.similarity,
            "operator": hit.operator,
            "path": hit.path.to_dict(),
            "notes": ["no relevance model: reranked by the similarity of the vectors"],
        }
        assert type(document.metadata["score"]) is float
        assert json.loads(json.dumps(document.metadata)) == document.metadata
    walked = [d for d in documents if d.metadata["operator"] == "STeX"]
    assert walked and all(d.metadata["path"]["relations"][-1] == "links" for d in walked)


def test_changing_a_document_leaves_the_index_as_it_was(index):
    before = {k: list(v) if isinstance(v, list) else v for k, v in index.graph.metadata[0].items()}
    found = GraphRetriever(index=index, system="vector", k=12).invoke("Ada Lovelace wrote a program")
    ada = next(d for d in found if d.id == "ada")
    ada.metadata["links"].append("nonsense")
    ada.metadata["year"] = 0
    assert index.graph.metadata[0] == before


def test_metadata_of_the_user_that_gives_way_is_kept_under_another_name():
    texts = ["a score of seven", "another text"]
    retriever = GraphRetriever.from_texts(
        texts, HashEmbedding(), [{"score": "seven", "path": "/home"}, {}], system="vector", provenance=True
    )
    first = retriever.invoke("a score of seven", k=1)[0]
    assert first.metadata["original_score"] == "seven" and first.metadata["original_path"] == "/home"
    assert first.metadata["score"] == pytest.approx(1.0) and first.metadata["path"]["nodes"] == ["0"]


def test_notes_of_the_search_reach_the_documents(index):
    class Noting(Operator):
        kind = OperatorKind.VECTOR_SEARCH

        def search(self, question, candidates):
            yield from ()
            question.notes += ["cut short"] if "census" in question.text else []
            return candidates

    retriever = GraphRetriever(index=index, system=Pipeline(VectorSearch(2), Noting()), k=2, provenance=True)
    plain, noted = retriever.batch(QUESTIONS[:2])
    assert all(d.metadata["notes"] == ["cut short"] for d in noted)
    assert not any("notes" in d.metadata for d in plain)


def test_facts_are_documents_of_their_own_kind():
    edges = [Edge("ada", "engine", "programmed", text="Ada programmed it in 1843.", metadata={"year": 1843, "kind": "note"})]
    nodes = [Node("ada", "A mathematician.", "Ada"), Node("engine", "Of brass.", "Engine")]
    index = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(), edge_signals=True)
    engine = Retriever(index, Pipeline(VectorSearch(1), FactSearch(1)), k=1, backfill=False)
    node, fact = GraphRetriever(retriever=engine, provenance=True).invoke("Who programmed what in 1843?")
    assert "kind" not in node.metadata
    assert fact.page_content == "Ada programmed it in 1843." and fact.id == "ada | programmed | engine"
    assert fact.metadata["kind"] == "fact" and fact.metadata["operator"] == "FactSearch" and fact.metadata["year"] == 1843
    assert fact.metadata["original_kind"] == "note"
    assert fact.metadata["path"] == NodePath(("ada", "engine"), ("programmed",), (True,), ("Ada", "Engine")).to_dict()
    assert json.loads(json.dumps(fact.metadata)) == fact.metadata


@pytest.mark.parametrize(
    "operator",
    [
        Pipeline(VectorSearch(3), FactSearch(2)),
        Pipeline(VectorSearch(2, returned=False), GatedPropagation(gate="uniform"), ChainSearch()),
        Pipeline(VectorSearch(2, returned=False), GatedPropagation(gate="uniform"), ChainSearch(), FactSearch(2)),
        Pipeline(VectorSearch(1), GatedPropagation(gate="uniform")),
    ],
)
def test_documents_give_the_context_of_their_hits(operator):
    """Also where the metadata hold other titles, types, kinds and paths."""
    metadata = [
        {"title": "Another title", "type": "pdf"},
        {"kind": "chain", "path": "/home/a.pdf"},
        {"title": 7, "type": None, "node_title": "of the user"},
        {"kind": "film", "type": ["a", "list"]},
        {"title": "Title 4", "type": "person", "score": 3},
        {},
    ]
    titles, types = ["Title 0", "", "7", "", "Title 4", "Title 5"], ["person", "film", "", "", "person", ""]
    nodes = [
        Node(f"n{i}", "" if i == 5 else f"Text of {i}", title, kind, given)
        for i, (title, kind, given) in enumerate(zip(titles, types, metadata, strict=True))
    ]
    edges = [Edge(f"n{i}", f"n{(i + 1) % 6}", "next", text="" if i % 2 else f"Edge {i}") for i in range(6)]
    index = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(), edge_signals=True)
    engine = Retriever(index, operator, k=6)
    for question in ("Text of 2", "Title", "Edge 4"):
        hits = engine.retrieve(question)
        documents = GraphRetriever(retriever=engine, provenance=True).invoke(question)
        assert to_context(documents) == hits.to_context() and len(documents) == len(hits)
        restored = [Document.model_validate(json.loads(document.model_dump_json())) for document in documents]
        assert to_context(restored) == hits.to_context()
    assert to_context([]) == ""


def test_metadata_of_the_user_for_title_and_type_stay():
    nodes = [Node("a", "a loom", "Loom", "machine", {"title": "Weaving", "type": "pdf"})]
    (found,) = GraphRetriever(index=GraphIndex.from_nodes(nodes), system="bm25", provenance=True).invoke("loom")
    assert {"title": "Weaving", "type": "pdf", "node_title": "Loom", "node_type": "machine"}.items() <= found.metadata.items()


def test_a_class_of_the_users_own_is_asked(index):
    class Constant:
        name, k, inputs = "Constant", 2, ("mood",)

        def retrieve(self, query, k=None, **arguments):
            return self.retrieve_batch([query], k, **arguments)[0]

        def retrieve_batch(self, queries, k=None, **arguments):
            self.arguments = arguments
            return [Hits([Hit("x", query, 1.0, "Constant", NodePath(("x",)))][: k or self.k]) for query in queries]

    engine = Constant()
    retriever = GraphRetriever(retriever=engine, seed_filter={"a": 1})
    assert [d.page_content for d in retriever.invoke("hello", mood="good")] == ["hello"]
    assert engine.arguments["mood"] == ["good"] and engine.arguments["seed_filter"] == {"a": 1}
    assert [ids(found) for found in retriever.batch(["a", "b"])] == [["x"], ["x"]]
    events = RetrieverEvents()
    retriever.invoke("hello", {"callbacks": [events]})
    (run,) = events.started.values()
    assert run["metadata"]["ls_retriever_name"] == "constant" and run["metadata"]["ls_vector_store_provider"] == "Constant"


async def test_k_is_taken_from_the_call_then_the_field_then_the_engine(index, counting):
    assert len(counting.invoke(QUESTIONS[0])) == 3
    assert len(counting.invoke(QUESTIONS[0], k=5)) == 5
    assert len(await counting.ainvoke(QUESTIONS[0], k=5)) == 5
    assert len(GraphRetriever(retriever=Retriever(index, VectorSearch(), k=4)).invoke(QUESTIONS[0])) == 4
    assert len(FastInsightRetriever(index=index).invoke(QUESTIONS[0])) == 10
    assert len(FastInsightRetriever(index=index, k=50).invoke(QUESTIONS[0])) == len(index)


@pytest.mark.parametrize("k", [0, -1])
async def test_k_below_one_is_refused_everywhere(index, k):
    for given in ({"index": index, "system": "vector"}, {"retriever": CountingRetriever(index)}):
        with pytest.raises(InvalidArgumentError, match="k must be an integer of at least 1"):
            GraphRetriever(**given, k=k)
    retriever = GraphRetriever(index=index, system="vector")
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        retriever.invoke(QUESTIONS[0], k=k)
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        await retriever.ainvoke(QUESTIONS[0], k=k)
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        retriever.batch(QUESTIONS, k=k)


async def test_misspelt_keywords_are_refused(index):
    for system in SYSTEMS:
        with pytest.raises(ValidationError, match="kk"):
            GraphRetriever(index=index, system=system, kk=3)
        retriever = GraphRetriever(index=index, system=system)
        with pytest.raises(TypeError, match="kk"):
            retriever.invoke(QUESTIONS[0], kk=3)
        with pytest.raises(TypeError, match="kk"):
            await retriever.ainvoke(QUESTIONS[0], kk=3)
        with pytest.raises(TypeError, match="kk"):
            retriever.batch(QUESTIONS, kk=3)
    embedding = HashEmbedding()
    for wrong in ("bugdet", "index", "retriever", "engines", "signals"):
        with pytest.raises(TypeError, match=f"does not take '{wrong}'; it takes backfill, .*bm25, cache"):
            FastInsightRetriever.from_texts(["a"], embedding, **{wrong: 3})
    for wrong in ("fastinsight(bugdet=3)", {"system": "fastinsight", "bugdet": 3}):
        with pytest.raises(TypeError, match="does not take 'bugdet'; it takes alpha, .*Did you mean 'budget'"):
            FastInsightRetriever.from_texts(["a"], embedding, system=wrong)
    assert embedding.document_calls == 0, "refused before anything is computed"


@pytest.mark.parametrize(
    ("make", "wrong", "error"),
    [
        (FastInsightRetriever, {"system": "fastinsight(alpha=1.5)"}, InvalidArgumentError),
        (FastInsightRetriever, {"system": "fastinsight(beta=-1)"}, InvalidArgumentError),
        (FastInsightRetriever, {"system": "fastinsight(budget=0)"}, InvalidArgumentError),
        (FastInsightRetriever, {"system": "fastinsight(budget='many')"}, InvalidArgumentError),
        (FastInsightRetriever, {"system": "fastinsight(nodes_per_round=0)"}, InvalidArgumentError),
        (FastInsightRetriever, {"system": {"system": "fastinsight", "degree": "both"}}, InvalidArgumentError),
        (FastInsightRetriever, {"system": FastInsight}, InvalidArgumentError),
        (GraphRetriever, {"system": "hybrid(fusion='max')"}, InvalidArgumentError),
        (GraphRetriever, {"system": "hybrid(weights=(1.0,))"}, InvalidArgumentError),
        (GraphRetriever, {"system": "re2(depth=0)"}, InvalidArgumentError),
        (GraphRetriever, {"system": 3}, InvalidArgumentError),
        (GraphRetriever, {"batch_size": 0}, InvalidArgumentError),
        (GraphRetriever, {"batch_size": "many"}, InvalidArgumentError),
        (GraphRetriever, {"k": "many"}, ValidationError),
        (GraphRetriever, {"filter": 3}, ValidationError),
        (GraphRetriever, {"index": "folder"}, ValidationError),
    ],
)
def test_wrong_values_are_refused_at_construction(index, make, wrong, error):
    """Pydantic checks types, the engine values; both errors are ValueErrors."""
    with pytest.raises(error) as raised:
        make(**{"index": index, **wrong})
    assert isinstance(raised.value, ValueError)


def test_a_parameter_of_the_system_among_the_fields_is_told_where_it_goes(index):
    for make, name, system in (
        (lambda: GraphRetriever(index=index, system="ppr", damping=0.5), "damping", "PPR"),
        (lambda: FastInsightRetriever(index=index, budget=3), "budget", "FastInsight"),
        (lambda: FastInsightRetriever.from_texts(["a loom"], budget=3), "budget", "FastInsight"),
    ):
        told = rf"'{name}' is a parameter of the system: \w+\(\.\.\., system={system}\({name}=\.\.\.\)\)"
        with pytest.raises(InvalidArgumentError, match=told):
            make()


def test_either_an_index_or_a_retriever_is_given(index):
    engine = Retriever(index, BM25())
    for given, words in (
        ({}, "either index=, .* or retriever=; got neither"),
        ({"system": "bm25"}, "got neither"),
        ({"index": index, "retriever": engine}, "got both"),
        ({"retriever": engine, "system": "bm25"}, "takes system= with index=, not with retriever="),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            GraphRetriever(**given)
    with pytest.raises(InvalidArgumentError, match="FastInsightRetriever takes system= with index="):
        FastInsightRetriever(retriever=Retriever(index, FastInsight()), system=FastInsight(budget=3))
    retriever = GraphRetriever(index=index)
    retriever.retriever = engine
    with pytest.raises(InvalidArgumentError, match="got both"):
        retriever.invoke(QUESTIONS[0])
    retriever.index = None
    assert retriever.engine is engine and retriever.invoke(QUESTIONS[0])


def test_what_is_not_a_retriever_is_refused(index):
    for wrong in (index, VectorSearch(), "fastinsight"):
        with pytest.raises(ValidationError, match="RetrieverProtocol"):
            GraphRetriever(retriever=wrong)


def test_a_field_with_lists_inside_lists_is_refused_by_the_engine(index):
    with pytest.raises(InvalidArgumentError, match="types must be a list of strings"):
        GraphRetriever(index=index, types=nested(3000))


def test_fields_reach_the_engine(index):
    relevance = WordOverlap()
    reranked = linked_index(relevance=relevance)
    FastInsightRetriever(index=reranked, system=FastInsight(budget=6, nodes_per_round=2)).invoke(QUESTIONS[0])
    assert relevance.pairs == 6
    GraphRetriever(index=reranked, system=Re2(depth=4)).invoke(QUESTIONS[0])
    assert relevance.pairs == 10
    dense, lexical = (GraphRetriever(index=index, system=Hybrid(fusion="weighted", weights=w), k=1) for w in ((1, 0), (0, 1)))
    for question in QUESTIONS:
        assert ids(dense.invoke(question)) == ids(GraphRetriever(index=index, system="vector", k=1).invoke(question))
        assert ids(lexical.invoke(question)) == ids(GraphRetriever(index=index, system="bm25", k=1).invoke(question))


def test_filters_of_the_class_and_of_the_call(index):
    war = {"topic": "war"}
    retriever = FastInsightRetriever(index=index, k=12, filter=war)
    assert set(ids(retriever.invoke(QUESTIONS[0]))) == {"turing", "bletchley", "colossus"}
    assert len(retriever.invoke(QUESTIONS[0], filter={})) == 12
    late = retriever.invoke(QUESTIONS[0], filter={"year": {"$gt": 1930}})
    assert set(ids(late)) == {"turing", "bletchley", "colossus"}
    assert ids(GraphRetriever(index=index, system="vector", filter=lambda node: node.id == "loom").invoke(QUESTIONS[0])) == ["loom"]
    seeded = FastInsightRetriever(
        index=index, k=3, system=FastInsight(budget=3, nodes_per_round=1), seed_filter={"$id": "turing"}, provenance=True
    ).invoke(QUESTIONS[0])
    assert {d.metadata["path"]["nodes"][0] for d in seeded} == {"turing"}
    stayed = FastInsightRetriever(index=index, k=3, system=FastInsight(budget=3, nodes_per_round=1), backfill=False)
    assert len(stayed.invoke(QUESTIONS[2])) == 3
    assert len(stayed.invoke(QUESTIONS[2], traversal_filter={"topic": "none"})) == 1


async def test_further_inputs_and_vectors_go_to_the_engine(index, counting):
    engine = counting.retriever
    counting.invoke(QUESTIONS[0], entities=["Ada"])
    await counting.ainvoke(QUESTIONS[0], entities=["Ada"])
    counting.batch(QUESTIONS, entities=["Ada"])
    assert engine.read == [[["Ada"]], [["Ada"]], [["Ada"]] * 3]
    vector = HashEmbedding().embed_query("Threads crossed at right angles make a cloth")
    assert ids(counting.invoke("something else", vector=vector, k=1)) == ["loom"]
    assert ids(await counting.ainvoke("something else", vector=vector, k=1)) == ["loom"]


async def test_async_runs_beside_the_event_loop(counting):
    results = await asyncio.gather(*(counting.ainvoke(q) for q in QUESTIONS))
    assert [ids(r) for r in results] == [ids(counting.invoke(q)) for q in QUESTIONS]
    await counting.abatch(QUESTIONS)
    sync_thread = {threading.get_ident()}
    assert counting.retriever.threads - sync_thread, "no call left the thread of the event loop"
    counting.retriever.threads.clear()
    await counting.ainvoke(QUESTIONS[0])
    assert counting.retriever.threads.isdisjoint(sync_thread)


# -- many queries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", SYSTEMS)
async def test_a_batch_gives_each_query_what_it_gets_alone(index, system):
    retriever = GraphRetriever(index=index, system=system, k=6, provenance=True)
    alone = [retriever.invoke(q) for q in QUESTIONS]
    for together in (retriever.batch(QUESTIONS), await retriever.abatch(QUESTIONS)):
        assert [ids(d) for d in together] == [ids(d) for d in alone]
        for one, other in zip(sum(together, []), sum(alone, []), strict=True):
            assert one.metadata.pop("score") == pytest.approx(other.metadata["score"], abs=1e-5)
            assert one.metadata == {k: v for k, v in other.metadata.items() if k != "score"}


async def test_a_batch_is_one_call_of_the_engine(counting):
    assert counting.batch([]) == await counting.abatch([]) == []
    counting.retriever.batches.clear()
    counting.batch(QUESTIONS)
    await counting.abatch(QUESTIONS, k=2)
    counting.batch(QUESTIONS, [{"tags": [str(i)]} for i in range(3)])
    (counting | (lambda documents: len(documents))).batch(QUESTIONS)
    counting.bind(k=1).batch(QUESTIONS)
    counting.with_config(tags=["t"]).batch(QUESTIONS)
    counting.configurable_fields(k=ConfigurableField(id="k")).batch(QUESTIONS)
    assert counting.retriever.batches == [3] * 7


async def test_one_bad_query_in_a_batch(counting):
    """It fails alone and is named; the others run in one call of the engine."""
    bad = [QUESTIONS[0], QUESTIONS[1], 7, QUESTIONS[2]]
    alone = [ids(counting.invoke(question)) for question in QUESTIONS]
    for asynchronous in (False, True):
        events = RetrieverEvents()
        with pytest.raises(InvalidArgumentError, match="Query 2 is 7; a query is a string"):
            await counting.abatch(bad, {"callbacks": [events]}) if asynchronous else counting.batch(bad, {"callbacks": [events]})
        assert len(events.ended) == 3 and len(events.failed) == 1, "the others do not fail with it"
    counting.retriever.batches.clear()
    for results in (counting.batch(bad, return_exceptions=True), await counting.abatch(bad, return_exceptions=True)):
        assert isinstance(results[2], InvalidArgumentError) and "Query 2" in str(results[2])
        assert [ids(results[0]), ids(results[1]), ids(results[3])] == alone
    assert counting.retriever.batches == [3, 3]
    for results in (
        counting.batch([b"", None], return_exceptions=True),
        await counting.abatch([b"", None], return_exceptions=True),
    ):
        assert [str(result)[:7] for result in results] == ["Query 0", "Query 1"]


async def test_an_empty_query_in_a_batch_lists_what_passes_the_filter(index):
    """It does not end the batch, and the others get what they get alone."""
    retriever = GraphRetriever(index=index, system="hybrid", k=2, filter={"year": {"$gt": 1900}})
    texts = [QUESTIONS[0], " ", QUESTIONS[1], ""]
    listed = [name for name, held in zip(index.graph.ids, index.graph.metadata, strict=True) if held["year"] > 1900][:2]
    for together in (retriever.batch(texts), await retriever.abatch(texts), [await retriever.ainvoke(text) for text in texts]):
        assert [ids(documents) for documents in together] == [ids(retriever.invoke(text)) for text in texts]
        assert ids(together[1]) == ids(together[3]) == listed
    assert (
        GraphRetriever(index=index, system="hybrid").invoke("")
        == GraphRetriever(index=index, system="hybrid", filter={}).invoke(" ")
        == []
    )
    assert ids(GraphRetriever(index=index, system="hybrid").invoke("", scope={"year": {"$gt": 1900}}, k=2)) == listed


def test_a_rewriter_that_gives_no_question_does_not_end_a_chain(index):
    seen = []
    retriever = GraphRetriever(index=index, system="vector", k=2, filter={"$id": {"$in": ["ada", "loom"]}})
    chain = RunnableLambda(lambda question: "") | retriever | (lambda documents: seen.extend(documents) or "answered")
    assert chain.invoke("?") == "answered" and len(seen) == 2
    tool = create_retriever_tool(GraphRetriever(index=index, system="vector"), "search", "Search.")
    assert tool.invoke({"query": ""}) == ""


def test_a_self_query_that_is_only_a_filter_gets_the_documents_that_pass(tmp_path):
    store = GraphVectorStore(IndexStore(tmp_path / "index", embedding=HashEmbedding()))
    years = {"loom": 1804, "engine": 1837, "colossus": 1943, "enigma": 1923}
    store.add_documents([Document(f"The {name}.", id=name, metadata={"year": year}) for name, year in years.items()])

    class Translator(Visitor):
        allowed_operators, allowed_comparators = [], [Comparator.GT]

        def visit_operation(self, operation):
            raise AssertionError

        def visit_comparison(self, comparison):
            return {comparison.attribute: {f"${comparison.comparator.value}": comparison.value}}

        def visit_structured_query(self, structured_query):
            found = structured_query.filter
            return structured_query.query, {} if found is None else {"filter": found.accept(self)}

    for text in ("", " "):
        for search in ("similarity", "mmr"):
            query = StructuredQuery(
                query=text, filter=Comparison(comparator=Comparator.GT, attribute="year", value=1900), limit=None
            )
            retriever = SelfQueryRetriever(
                vectorstore=store,
                query_constructor=RunnableLambda(lambda _, query=query: query),
                structured_query_translator=Translator(),
                search_type=search,
            )
            assert ids(retriever.invoke("after 1900")) == ["colossus", "enigma"]
    assert store.similarity_search("") == [] == store.similarity_search(" ", filter={})


async def test_a_question_that_the_engine_cannot_answer_fails_alone(index):
    class Picky(MemoryRetriever):
        def retrieve_batch(self, queries, k=None, **options):
            if QUESTIONS[1] in queries:
                raise RuntimeError("no such machine")
            return super().retrieve_batch(queries, k, **options)

    picky = GraphRetriever(retriever=Picky(index, VectorSearch()), k=2)
    alone = [ids(picky.invoke(question)) for question in (QUESTIONS[0], QUESTIONS[2])]
    for results in (picky.batch(QUESTIONS, return_exceptions=True), await picky.abatch(QUESTIONS, return_exceptions=True)):
        assert [ids(results[0]), ids(results[2])] == alone and str(results[1]) == "no such machine"
    for asynchronous in (False, True):
        with pytest.raises(RuntimeError, match="no such machine"):
            await picky.abatch(QUESTIONS) if asynchronous else picky.batch(QUESTIONS)


def test_a_subclass_that_changes_one_query_changes_its_batches_too(index):
    class Shouting(GraphRetriever):
        def _get_relevant_documents(self, query, *, run_manager, **kwargs):
            found = super()._get_relevant_documents(query, run_manager=run_manager, **kwargs)
            return [d.model_copy(update={"page_content": d.page_content.upper()}) for d in found]

    retriever = Shouting(index=index, system="vector", k=2)
    assert retriever.batch(QUESTIONS) == [retriever.invoke(q) for q in QUESTIONS]
    assert all(d.page_content.isupper() for d in retriever.batch(QUESTIONS)[0])


# -- configuration ------------------------------------------------------------------------------------------------


def test_the_schema_of_configured_fields_shows_a_system_by_its_text(index):
    @dataclass
    class Model:
        key: str

        def __call__(self, prompt):
            return "{}"

    for system, text in (
        (PPR(damping=0.7), "ppr(damping=0.7)"),
        (HyDE(language_model=Model("secret")), "hyde(language_model=...)"),
    ):
        retriever = GraphRetriever(index=index, system=system)
        configured = retriever.configurable_fields(k=ConfigurableField(id="k"), system=ConfigurableField(id="how"))
        schema = configured.config_schema().model_json_schema()
        assert schema["$defs"]["Configurable"]["properties"]["how"]["default"] == text and "secret" not in str(schema)
        assert "secret" not in repr(configured) + retriever.model_dump_json()
        assert len(configured.invoke(QUESTIONS[0], config={"configurable": {"how": "bm25", "k": 2}})) == 2


def test_configured_k_and_other_fields(index):
    retriever = FastInsightRetriever(index=index, k=2).configurable_fields(
        k=ConfigurableField(id="k"), system=ConfigurableField(id="system")
    )
    assert len(retriever.invoke(QUESTIONS[0])) == 2
    assert len(retriever.invoke(QUESTIONS[0], config={"configurable": {"k": 4}})) == 4
    assert len(retriever.with_config(configurable={"k": 5}).invoke(QUESTIONS[0])) == 5
    assert [len(d) for d in retriever.batch(QUESTIONS, {"configurable": {"k": 3}})] == [3, 3, 3]
    with pytest.raises(InvalidArgumentError, match="at least 1"):
        retriever.invoke(QUESTIONS[0], config={"configurable": {"k": 0}})
    plain = FastInsightRetriever(index=index, k=6, system=FastInsight(alpha=0.9)).invoke(QUESTIONS[1])
    for system in ("fastinsight(alpha=0.9)", {"system": "fastinsight", "alpha": 0.9}, FastInsight(alpha=0.9)):
        assert retriever.invoke(QUESTIONS[1], config={"configurable": {"system": system, "k": 6}}) == plain


def test_the_system_can_be_configured_by_its_text(index):
    retriever = GraphRetriever(index=index, k=4, tags=["own"]).configurable_fields(
        system=ConfigurableField(id="system", name="System")
    )
    (spec,) = retriever.config_specs
    assert spec.name == "System" and spec.description.startswith("The system, such as 'ppr(") and spec.default is None
    for text, system in (("fastinsight(nodes_per_round=1, budget=4)", FastInsight(nodes_per_round=1, budget=4)), ("bm25", BM25())):
        events = RetrieverEvents()
        configured = retriever.invoke(QUESTIONS[0], config={"configurable": {"system": text}, "callbacks": [events]})
        assert configured == GraphRetriever(index=index, k=4, system=system).invoke(QUESTIONS[0])
        (run,) = events.started.values()
        assert run["metadata"]["ls_retriever_name"] == type(system).__name__.lower() and run["tags"] == ["own"]
    for text, words in (("fastinsight(nodes_per_round=0)", "nodes_per_round"), ("fast", "Unknown system 'fast'")):
        with pytest.raises(InvalidArgumentError, match=words):
            retriever.invoke(QUESTIONS[0], config={"configurable": {"system": text}})


def test_keywords_of_the_engine_retriever_can_be_configured(index):
    retriever = GraphRetriever(index=index, system="bm25", k=4)
    configured = retriever.configurable_fields(
        k=ConfigurableField(id="k"),
        backfill=ConfigurableField(id="fill", name="Fill"),
        types=ConfigurableFieldSingleOption(id="kind", options={"people": ["person"], "any": None}, default="any"),
    )
    assert configured.invoke(QUESTIONS[0]) == retriever.invoke(QUESTIONS[0])
    for given, options in (
        ({"fill": False, "k": 3}, {"backfill": False, "k": 3}),
        ({"kind": "people"}, {"types": ["person"]}),
    ):
        found = configured.invoke(QUESTIONS[0], {"configurable": given})
        assert found == retriever.invoke(QUESTIONS[0], **options) != retriever.invoke(QUESTIONS[0])
    told = {spec.id: spec for spec in configured.config_specs}
    assert told.keys() == {"k", "fill", "kind"} and told["fill"].description.startswith("Whether vector search")
    assert told["fill"].default is None
    with pytest.raises(ValueError, match="backfill is 'no'"):
        configured.invoke(QUESTIONS[0], {"configurable": {"fill": "no"}})
    with pytest.raises(ValueError, match="key type not found in .*available keys are .*'types'"):
        retriever.configurable_fields(type=ConfigurableField(id="kind"))


def test_lists_do_not_make_configured_copies_build_anew(index, monkeypatch):
    built = []
    monkeypatch.setattr(graph_retriever, "Retriever", lambda *given, **options: built.append(given) or Retriever(*given, **options))
    retriever = GraphRetriever(index=index, system=Hybrid(fusion="weighted", weights=[0.7, 0.3]), types=["", "person"])
    configured = retriever.configurable_fields(k=ConfigurableField(id="k"))
    for k in (1, 2, 3):
        assert len(configured.invoke(QUESTIONS[0], {"configurable": {"k": k}})) == k
    assert len(built) == 1


def test_equal_systems_around_a_model_without_a_hash_are_built_once(index, monkeypatch):
    class Model:
        __hash__ = None

        def __call__(self, prompt):
            return "{}"

    built, model = [], Model()
    monkeypatch.setattr(graph_retriever, "Retriever", lambda *given, **options: built.append(given) or Retriever(*given, **options))
    configured = GraphRetriever(index=index).configurable_fields(system=ConfigurableField(id="system"))
    for documents in (8, 8, 3, 8):
        configured.invoke(QUESTIONS[0], {"configurable": {"system": HyDE(language_model=model, documents=documents)}})
    # The default, and one for each number.
    assert len(built) == 3


def test_configuring_builds_nothing_anew():
    embedding = HashEmbedding()
    retriever = FastInsightRetriever(index=linked_index(embedding)).configurable_fields(k=ConfigurableField(id="k"))
    before = embedding.document_calls
    for k in (1, 2, 3):
        retriever.invoke(QUESTIONS[0], config={"configurable": {"k": k}})
    assert embedding.document_calls == before
    assert embedding.query_calls == 3


def test_changed_fields_hold_from_the_next_call(index):
    retriever = FastInsightRetriever(index=index, k=6)
    retriever.invoke(QUESTIONS[1])
    retriever.system = "fastinsight(alpha=0.9)"
    assert retriever.invoke(QUESTIONS[1]) == FastInsightRetriever(index=index, k=6, system=FastInsight(alpha=0.9)).invoke(
        QUESTIONS[1]
    )
    retriever.k, retriever.filter = 2, {"topic": "war"}
    assert ids(retriever.invoke(QUESTIONS[1])) == ids(retriever.invoke(QUESTIONS[1], k=3))[:2]
    assert retriever.engine.system == FastInsight(alpha=0.9)
    retriever.system = "fastinsight(alpha=2.0)"
    with pytest.raises(InvalidArgumentError, match="alpha"):
        retriever.invoke(QUESTIONS[1])


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_what_runnables_offer(index):
    retriever = GraphRetriever(index=index, system="vector", k=3)
    assert len(retriever.bind(k=1).invoke(QUESTIONS[0])) == 1
    assert list(retriever.stream(QUESTIONS[0])) == [retriever.invoke(QUESTIONS[0])]
    failing = GraphRetriever(retriever=CountingRetriever(index)).bind(k=0)
    assert ids(failing.with_fallbacks([retriever]).invoke(QUESTIONS[0])) == ids(retriever.invoke(QUESTIONS[0]))
    assert retriever.with_retry(stop_after_attempt=1).invoke(QUESTIONS[0]) == retriever.invoke(QUESTIONS[0])
    tool = retriever.as_tool(name="search", description="Search.", arg_types=None)
    assert tool.invoke(QUESTIONS[0]) == retriever.invoke(QUESTIONS[0])


def test_repr_says_which_retriever_on_how_many_nodes_and_holds_no_text(index):
    sizes = f"nodes={len(index)}, edges={index.graph.num_edges}"
    made = FastInsightRetriever(index=index, k=7, system=FastInsight(budget=50))
    assert repr(made) == f"FastInsightRetriever({sizes}, system=FastInsight(budget=50), k=7)"
    assert repr(FastInsightRetriever(index=index)) == f"FastInsightRetriever({sizes})"
    dumped = made.model_dump()
    assert "index" not in dumped and (dumped["system"], dumped["k"]) == ("fastinsight(budget=50)", 7)
    assert json.loads(made.model_dump_json())["system"] == "fastinsight(budget=50)"
    assert repr(FastInsightRetriever(index=index, **dumped)) == repr(made)
    engine = CountingRetriever(index)
    assert repr(GraphRetriever(retriever=engine)) == f"GraphRetriever(retriever='{engine.name}', {sizes})"


# -- tracing ------------------------------------------------------------------------------------------------------


async def test_callbacks_fire_once_a_query_with_the_same_run_data_in_every_way_of_calling():
    index = linked_index(LangChainHashEmbeddings())
    retriever = GraphRetriever(index=index, system="vector", k=2, tags=["own"], metadata={"team": "a"})
    config = {"tags": ["call"], "metadata": {"user": "u"}, "run_name": "lookup"}
    seen = []
    for call in ("invoke", "ainvoke", "batch", "abatch"):
        events = RetrieverEvents()
        given = {**config, "callbacks": [events]}
        if call == "invoke":
            results = [retriever.invoke(q, given) for q in QUESTIONS]
        elif call == "ainvoke":
            results = [await retriever.ainvoke(q, given) for q in QUESTIONS]
        elif call == "batch":
            results = retriever.batch(QUESTIONS, given)
        else:
            results = await retriever.abatch(QUESTIONS, given)
        # Handlers of concurrent runs may be called in any order.
        runs = sorted(events.started, key=lambda run: QUESTIONS.index(events.started[run]["query"]))
        assert [events.started[run]["query"] for run in runs] == QUESTIONS
        assert [events.ended[run] for run in runs] == results
        assert not events.failed
        seen.append([events.started[run] for run in runs])
    assert all(started == seen[0] for started in seen)
    run = seen[0][0]
    assert run["name"] == "lookup" and set(run["tags"]) == {"own", "call"}
    expected = {
        "ls_retriever_name": "vector",
        "ls_vector_store_provider": "GraphIndex",
        "ls_embedding_provider": "LangChainHashEmbeddings",
        "ls_embedding_model": "hash-64",
        "team": "a",
        "user": "u",
    }
    assert expected.items() <= run["metadata"].items()


async def test_failed_queries_are_reported_to_callbacks(counting):
    bad = [QUESTIONS[0], 7]
    for asynchronous in (False, True):
        events = RetrieverEvents()
        call = counting.abatch if asynchronous else counting.batch
        result = call(bad, {"callbacks": [events]}, return_exceptions=True)
        if asynchronous:
            result = await result
        first, second = sorted(events.started, key=lambda run: bad.index(events.started[run]["query"]))
        assert list(events.ended) == [first] and list(events.failed) == [second]
        assert events.failed[second] is result[1]


# -- chains and agents --------------------------------------------------------------------------------------------


def _joined(documents):
    return "\n".join(d.page_content for d in documents)


async def test_a_chain_answers_from_what_was_retrieved(index):
    model = ScriptedChatModel(script=[AIMessage("Ada."), AIMessage("Ada, again."), AIMessage("One."), AIMessage("Two.")], seen=[])
    prompt = ChatPromptTemplate.from_template("Answer from:\n{context}\n\nQuestion: {question}")
    retriever = FastInsightRetriever(index=index, k=3)
    chain = {"context": retriever | _joined, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()
    assert chain.invoke(QUESTIONS[0]) == "Ada."
    sent = model.seen[0][0].content
    assert _joined(retriever.invoke(QUESTIONS[0])) in sent and QUESTIONS[0] in sent
    assert await chain.ainvoke(QUESTIONS[0]) == "Ada, again."
    assert set(chain.batch(QUESTIONS[:2], {"max_concurrency": 1})) == {"One.", "Two."}


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_agent_calls_the_retriever_as_a_tool(index, asynchronous):
    retriever = FastInsightRetriever(index=index, k=4, system=FastInsight(budget=6, nodes_per_round=2), provenance=True)
    tool = create_retriever_tool(
        retriever,
        "search_history",
        "Search the history of computing.",
        document_prompt=document_prompt(),
        response_format="content_and_artifact",
    )
    call = {"name": "search_history", "args": {"query": QUESTIONS[0]}, "id": "call-1", "type": "tool_call"}
    model = ScriptedChatModel(script=[AIMessage("", tool_calls=[call]), AIMessage("Ada Lovelace.")], seen=[], tools=[])
    agent = create_agent(model, tools=[tool])
    events = RetrieverEvents()
    state = {"messages": [("user", QUESTIONS[0])]}
    config = {"callbacks": [events]}
    result = await agent.ainvoke(state, config) if asynchronous else agent.invoke(state, config)
    assert result["messages"][-1].content == "Ada Lovelace."
    assert [t.name for t in model.tools][:1] == ["search_history"]
    answer = next(m for m in result["messages"] if isinstance(m, ToolMessage))
    expected = retriever.invoke(QUESTIONS[0])
    assert answer.artifact == expected and model.seen[1][-1].content == answer.content
    for document in expected:
        assert document.page_content in answer.content
        assert f"score {document.metadata['score']:.4g}" in answer.content
    assert " -[links]-> " in answer.content or " <-[links]- " in answer.content
    (run,) = events.started.values()
    assert run["query"] == QUESTIONS[0] and run["parent"] is not None


# -- making retrievers --------------------------------------------------------------------------------------------


def test_a_further_retriever_is_a_few_lines(index):
    class SmoothedRetriever(FastInsightRetriever):
        system: Any = FastInsight(alpha=0.5)

    class BareVectorRetriever(GraphRetriever):
        system: Any = Vector()
        k: int | None = 3

    assert SmoothedRetriever(index=index).engine.operator.operators[1].alpha == 0.5
    assert BareVectorRetriever(index=index).invoke(QUESTIONS[0]) == GraphRetriever(index=index, system="vector", k=3).invoke(
        QUESTIONS[0]
    )
    with pytest.raises(InvalidArgumentError, match=r"BareVectorRetriever runs Vector, got BM25\(\); use GraphRetriever"):
        BareVectorRetriever(index=index, system="bm25")


@pytest.mark.parametrize("make", PRESETS, ids=lambda make: make.__name__)
def test_a_preset_is_a_graph_retriever_with_a_system_of_its_kind(make, index):
    own = make.model_fields["system"].default
    retriever = make(index=index, k=4, provenance=True)
    assert retriever.system is own is retriever.engine.system and make.__name__ == f"{type(own).__name__}Retriever"
    assert retriever.invoke(QUESTIONS[0]) == GraphRetriever(index=index, system=own, k=4, provenance=True).invoke(QUESTIONS[0])
    assert make(index=index, system=None).system is own and make(index=index, system=own.name).system == own
    assert set(make.model_fields) == set(GraphRetriever.model_fields) and make.__name__ in package.__all__
    assert make(retriever=Retriever(index, own), k=4, provenance=True).invoke(QUESTIONS[0]) == retriever.invoke(QUESTIONS[0])
    words = rf"{make.__name__} runs {type(own).__name__}, got .*; use GraphRetriever for another system"
    for wrong in (GAR(), "gar(budget=3)", {"system": "gar"}, Pipeline(VectorSearch(2))):
        with pytest.raises(InvalidArgumentError, match=words):
            make(index=index, system=wrong)
    for engine in (Retriever(index, GAR()), Retriever(index, VectorSearch())):
        with pytest.raises(InvalidArgumentError, match=words):
            make(retriever=engine)
    retriever.system = "gar"
    with pytest.raises(InvalidArgumentError, match=words):
        retriever.invoke(QUESTIONS[0])


def test_generic_retriever_over_names_and_operators(index):
    named = GraphRetriever(index=index, system="bm25", k=2)
    assert named.invoke(QUESTIONS[0]) == GraphRetriever(index=index, system="bm25", k=2).invoke(QUESTIONS[0])
    composed = GraphRetriever(index=index, system=Pipeline(VectorSearch(6), GRanker()), k=2, provenance=True)
    assert {d.metadata["operator"] for d in composed.invoke(QUESTIONS[0])} == {"VectorSearch"}
    with pytest.raises(InvalidArgumentError, match="Unknown system 'nonsense'"):
        GraphRetriever(index=index, system="nonsense")


@pytest.mark.parametrize(("make", "system"), [(FastInsightRetriever, {}), (GraphRetriever, {"system": "fastinsight"})])
def test_from_documents_links_documents_by_their_metadata(make, system):
    documents = [Document(id=n.id, page_content=n.text, metadata={"title": n.title, **n.metadata}) for n in linked_nodes()]
    overlap = LangChainWordOverlap()
    retriever = make.from_documents(
        documents,
        LangChainHashEmbeddings(),
        edges=[("links", "$id")],
        relevance=overlap,
        k=6,
        tags=["t"],
        bm25=False,
        provenance=True,
        **system,
    )
    index = retriever.index
    assert {tuple(sorted((e.source, e.target))) for e in index.graph.edges()} == {tuple(sorted(e[:2])) for e in linked_edges()}
    assert not index.has_bm25 and retriever.tags == ["t"]
    found = retriever.invoke(QUESTIONS[0])
    by_id = {d.id: d for d in documents}
    assert overlap.overlap.pairs == len(documents), "the budget covers the corpus, and each pair is scored once"
    for document in found:
        given = by_id[document.id]
        assert document.page_content == given.page_content
        assert given.metadata.items() <= document.metadata.items()
    scores = [d.metadata["score"] for d in found]
    assert scores == sorted(scores, reverse=True)


def test_from_texts_with_ids_and_metadata():
    retriever = GraphRetriever.from_texts(
        ["red apple", "blue sky"],
        HashEmbedding(),
        [{"n": 1}, {"n": 2}],
        system="vector",
        ids=["a", "b"],
        edges=[("a", "b", "beside")],
        k=1,
    )
    (found,) = retriever.invoke("blue sky")
    assert found.id == "b" and found.metadata["n"] == 2
    assert retriever.index.graph.edges() == [Edge("a", "b", "beside")]


def test_the_similarity_is_metadata_with_provenance_alone():
    index = linked_index()
    retriever = GraphRetriever(index=index, k=3)
    questions = ["Which machine reads punched cards?", "Who broke a cipher?"]
    expected = [[hit.similarity for hit in hits] for hits in retriever.engine.retrieve_batch(questions, 3)]
    found = retriever.batch(questions, provenance=True)
    assert [[document.metadata["similarity"] for document in documents] for documents in found] == expected
    assert all(0 < value <= 1 for row in expected for value in row[:1])
    # Documents of several questions are merged by what they hold.
    assert not any("similarity" in document.metadata for documents in retriever.batch(questions) for document in documents)
    found = GraphRetriever(index=index, system="bm25").invoke(questions[0], provenance=True)
    assert found and not any("similarity" in document.metadata for document in found)


def test_documents_that_nothing_links_are_told_of_once_where_the_retriever_walks(caplog):
    texts = ["A loom.", "A card."]
    for system in ("bm25", "vector", "hybrid"):
        found = GraphRetriever.from_texts(texts, embedding=HashEmbedding(), system=system, provenance=True).invoke("Which loom?")
        assert not any("notes" in document.metadata for document in found)
    assert "no edges" not in caplog.text
    found = GraphRetriever.from_texts(texts, embedding=HashEmbedding(), provenance=True).invoke("Which loom?")
    assert caplog.text.count("There are no edges, so that walks along edges find little more than search does") == 1
    assert all(document.metadata["notes"][0].startswith("there are no edges, so that") for document in found) and found
