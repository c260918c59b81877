"""A keyword that does not exist: the error lists those that do and asks whether a similar one was meant, the same everywhere."""

import re

import pytest
from langchain_core.documents import Document
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.schema import TextNode
from pydantic import ValidationError

import langchain_graph_retrievers as lc
import llama_graph_retrievers as li
from graph_retrievers import PPR, GraphIndex
from graph_retrievers.arguments import keywords_of, suggestion
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.index import IndexStore
from graph_retrievers.operators import VectorSearch
from graph_retrievers.retrievers.memory import MemoryRetriever
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.retrievers.store_retriever import StoreRetriever
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.systems.system import every_system
from tests.helpers import HashEmbedding
from tests.integration.llama_corpus import HashEmbed

DOCUMENTS = [Document("A loom.", id="a", metadata={"publication_year": 1805}), Document("A card.", id="b")]
NODES = [TextNode(text="A loom.", id_="a"), TextNode(text="A card.", id_="b")]


@pytest.fixture
def index():
    return GraphIndex.from_documents(DOCUMENTS, embedding=HashEmbedding())


def refused(make, wrong, right, kind=UnexpectedArgumentError):
    """Call something that must not embed anything, and check what its error says."""
    with pytest.raises(kind) as caught:
        make()
    told = str(caught.value)
    assert re.search(rf"does not (take|read) '{wrong}'; (it takes|besides) ", told), told
    assert (f"Did you mean {right!r}?" in told) if right else "Did you mean" not in told, told
    assert isinstance(caught.value, ValueError)


def test_the_engine(index, tmp_path):
    refused(lambda: Retriever(index, PPR(dampin=0.9)), "dampin", "damping")
    refused(lambda: Retriever(index, PPR(), similarity_top_k=3), "similarity_top_k", "k")
    refused(lambda: Retriever(index, PPR(zzz=3)), "zzz", "")
    refused(lambda: Retriever(index, PPR()).retrieve("loom", filtr={}), "filtr", "filter")
    refused(lambda: Retriever(index, "mor").retrieve_batch(["loom"], plans=[None]), "plans", "plan")
    model = HashEmbedding()
    refused(lambda: GraphIndex.from_documents(DOCUMENTS, embeddings=model), "embeddings", "embedding")
    refused(lambda: GraphIndex.from_texts(["A loom."], embedding=model, title=["Loom"]), "title", "titles")
    refused(lambda: GraphIndex.from_nodes([], embedding=model, devise="cpu"), "devise", "device")
    # A store used to take any, and to refuse it with the first documents.
    refused(lambda: IndexStore(tmp_path / "index", embedding=model, title="name"), "title", "title_key")
    assert model.document_calls == 0 and not (tmp_path / "index").exists()


def test_langchain(index):
    model = HashEmbedding()
    for make in (lc.MoRRetriever.from_documents, lc.GraphRetriever.from_documents):
        refused(lambda make=make: make(DOCUMENTS, model, top_k=3), "top_k", "k")
    refused(lambda: lc.GraphRetriever.from_texts(["A loom."], model, system="ppr(dampin=0.9)"), "dampin", "damping")
    refused(lambda: lc.GraphRetriever(index=index, system={"system": "ppr", "dampin": 0.9}), "dampin", "damping")
    refused(lambda: lc.GraphRetriever.from_texts(["A loom."], model, system="ppr", dampin=0.9), "dampin", "")
    for make, told in (
        (lambda: lc.GraphRetriever.from_texts(["A loom."], model, system="ppr", damping=0.9), r"system=PPR\(damping=...\)"),
        (lambda: lc.GraphRetriever(index=index, system=PPR(), damping=0.9), r"system=PPR\(damping=...\)"),
        (lambda: lc.FastInsightRetriever.from_documents(DOCUMENTS, model, budget=9), r"system=FastInsight\(budget=...\)"),
        (lambda: lc.FastInsightRetriever(index=index, budget=9), r"FastInsightRetriever\(..., system=FastInsight\(budget=...\)\)"),
    ):
        with pytest.raises(UnexpectedArgumentError, match=told):
            make()
    assert model.document_calls == 0
    refused(lambda: lc.GraphRetriever(index=index, system="ppr", dampin=0.9), "dampin", "", ValidationError)
    refused(lambda: lc.GraphRetriever(index=index, system="ppr", seed_filters={}), "seed_filters", "seed_filter", ValidationError)
    refused(lambda: lc.GraphRetriever(index=index, system="ppr", engine=1), "engine", "", ValidationError)
    refused(lambda: lc.GraphRetriever(index=index, systm="ppr"), "systm", "system", ValidationError)
    refused(lambda: lc.GRankerCompressor(index=index, topn=3), "topn", "top_n", ValidationError)
    refused(lambda: lc.GRAGCompressor(index=index, topn=3), "topn", "top_n", ValidationError)
    refused(lambda: lc.GraphRetriever(index=index, system="ppr").invoke("loom", filters={}), "filters", "filter")


def test_search_kwargs_of_langchain(index, tmp_path):
    """A vector store's `as_retriever` takes them; a retriever of this package has fields."""
    told = r"does not take 'search_kwargs'; pass its entries by themselves: k=2, filter=\{'year': 1805\}\."
    habit = {"search_kwargs": {"k": 2, "filter": {"year": 1805}}}
    with pytest.raises(UnexpectedArgumentError, match=told):
        lc.GraphRetriever.from_documents(DOCUMENTS, HashEmbedding(), system="ppr", **habit)
    with pytest.raises(ValidationError, match=told):
        lc.GraphRetriever(index=index, system="ppr", **habit)
    store = lc.GraphVectorStore(IndexStore(tmp_path / "index"))
    with pytest.raises(ValidationError, match=told):
        lc.GraphRetriever(retriever=StoreRetriever(store.store, "bm25"), **habit)
    store.add_documents(DOCUMENTS)
    assert len(store.as_retriever(search_kwargs={"k": 1}).invoke("loom")) == 1


def test_llamaindex(index):
    model = HashEmbed()
    for make in (li.FastInsightRetriever.from_defaults, li.GraphRetriever.from_defaults):
        for wrong, right in (
            ("k", "similarity_top_k"),
            ("embedding", "embed_model"),
            ("filter", "filters"),
        ):
            refused(lambda make=make, wrong=wrong: make(nodes=NODES, embed_model=model, **{wrong: 3}), wrong, right)
        refused(lambda make=make: make(nodes=NODES, embed_model=model, top_k=3), "top_k", "similarity_top_k")
        refused(lambda make=make: make(nodes=NODES, embed_model=model, systm="ppr"), "systm", "system")
    refused(lambda: li.GraphRetriever.from_defaults(nodes=NODES, system="ppr(dampin=1)"), "dampin", "damping")
    refused(lambda: li.GraphRetriever.from_defaults(nodes=NODES, system=VectorSearch(), dampin=1), "dampin", "")
    refused(lambda: li.GraphRetriever(index, {"system": "ppr", "dampin": 0.9}), "dampin", "damping")
    refused(lambda: li.GraphRetriever(Retriever(index, PPR()), filter={}), "filter", "filters")
    refused(lambda: li.GraphRetriever(index, PPR()).retrieve_batch(["loom"], filters=[{}]), "filters", "filter")
    store = SimplePropertyGraphStore()
    refused(lambda: li.SpreadingActivationPGRetriever(store, embed_models=model), "embed_models", "embed_model")
    assert model.texts == []
    with pytest.raises(UnexpectedArgumentError, match="reads no input 'entitys'.*Did you mean 'entities'"):
        li.SpreadingActivationRetriever(index, inputs={"entitys": len})


def test_filters_ask_in_the_same_words(index, caplog):
    Retriever(index, PPR()).retrieve("loom", filter={"year": 1805})
    assert "Did you mean 'publication_year'?" in caplog.text


def test_a_name_that_was_meant():
    assert suggestion("x" * 101, ["x" * 100]) == "" and suggestion("x" * 100, ["x" * 99]) != ""
    assert suggestion("k", ["top_k", "similarity_top_k"]) == " Did you mean 'top_k'?", "the one with the fewest other words"
    assert suggestion("nodes", ["node", "nodes_per_round"]) == " Did you mean 'node'?", "spelling goes first"
    assert suggestion("plan", []) == "" == suggestion("", ["a"])


def test_unknown_systems_are_refused_before_anything_is_made():
    model = HashEmbed()
    with pytest.raises(InvalidArgumentError, match="Unknown system 'pprr'"):
        li.GraphRetriever.from_defaults(nodes=NODES, embed_model=model, system="pprr")
    assert model.texts == []


# One value of each keyword of every retriever, other than its default.
SHARED = {
    "backfill": False,
    "per_source": 3,
    "source_field": "publication_year",
    "types": ["passage"],
    "batch_size": 5,
    "share_batches": True,
    "time_limit": 7.5,
}


@pytest.fixture
def searched(monkeypatch):
    """What retrievers of the engine are set to when they search."""
    found = []
    search = MemoryRetriever.search

    def told(self, call):
        own = {name: getattr(self, name) for name in SHARED if name != "share_batches"}
        found.append(own | {"share_batches": self._shared_calls is not None, "types": list(self.types or ())})
        return search(self, call)

    monkeypatch.setattr(MemoryRetriever, "search", told)
    return found


def test_the_table_has_every_keyword_of_every_retriever():
    assert SHARED.keys() == keywords_of(Retriever.__init__) - {"k", "name"}


@pytest.mark.parametrize("name", [name for name in lc.__all__ if name.endswith("Retriever")])
def test_every_retriever_of_langchain_takes_them_when_made_and_for_a_call(index, searched, name):
    kind = getattr(lc, name)
    usual = kind(index=index)
    made = [kind(index=index, **SHARED), kind.from_documents(DOCUMENTS, HashEmbedding(), **SHARED)]
    made += [kind(retriever=usual.engine, **SHARED)]
    if name == "GraphRetriever":
        made += [kind(retriever=Retriever(index, PPR()), **SHARED), kind(index=index, system=VectorSearch(), **SHARED)]
    for retriever in made:
        retriever.invoke("Which loom?")
    usual.invoke("Which loom?", **SHARED)
    usual.batch(["Which loom?"], **SHARED)
    assert searched == [SHARED] * (len(made) + 2)
    # Of a call, for this call.
    usual.invoke("Which loom?")
    assert searched[-1]["time_limit"] is None and searched[-1]["backfill"]


async def test_calls_of_langchain_that_are_awaited_take_them(index, searched):
    retriever = lc.GraphRetriever(retriever=Retriever(index, PPR()))
    await retriever.ainvoke("Which loom?", **SHARED)
    await retriever.abatch(["Which loom?"], **SHARED)
    assert searched == [SHARED] * 2


PRESETS = (
    li.FastInsightRetriever,
    li.SpreadingActivationRetriever,
    li.MoRRetriever,
    li.LeSeGRRetriever,
    li.GRAGRetriever,
    li.WalkFusionRetriever,
)


@pytest.mark.parametrize("system", [None, *PRESETS, *every_system()])
def test_every_retriever_of_llamaindex_takes_them(index, searched, system):
    kind, given = (system, {}) if system in PRESETS else (li.GraphRetriever, {"system": system})
    made = [kind(index, **given, **SHARED), kind.from_defaults(nodes=NODES, embed_model=HashEmbed(), **given, **SHARED)]
    if system is None:
        made.append(kind(Retriever(index, PPR()), **SHARED))
    for retriever in made:
        retriever.retrieve("Which loom?")
    assert searched == [SHARED] * len(made)


def test_a_store_takes_them_and_a_retriever_of_your_own_says_that_it_does_not(index, tmp_path, searched):
    store = IndexStore(tmp_path / "index", embedding=HashEmbedding())
    store.update(upsert=DOCUMENTS)
    lc.GraphRetriever(retriever=StoreRetriever(store, "ppr", k=1, name="mine"), **SHARED).invoke("Which loom?")
    assert searched == [SHARED]

    class Own:
        name, k, inputs = "own", 3, ()

        def retrieve(self, query, k=None, **options):
            return Retriever(index, PPR()).retrieve(query, k)

        def retrieve_batch(self, queries, k=None, **options):
            return Retriever(index, PPR()).retrieve_batch(queries, k)

    told = r"time_limit= cannot be set on this Own, which has no with_options\(\)"
    for make in (lambda: lc.GraphRetriever(retriever=Own(), time_limit=3), lambda: li.GraphRetriever(Own(), time_limit=3)):
        with pytest.raises(ValueError, match=told):
            make()
    with pytest.raises(InvalidArgumentError, match=told):
        lc.GraphRetriever(retriever=Own()).invoke("Which loom?", time_limit=3)


def test_a_retriever_with_other_options_keeps_the_first_and_checks_them(index):
    first = Retriever(index, PPR(), k=2, time_limit=9, backfill=False)
    other = first.with_options(k=1, types=["passage"])
    assert (other.k, other.time_limit, other.backfill, other.types) == (1, 9, False, ("passage",))
    assert (first.k, first.types) == (2, None) and other.operator is first.operator
    refused(lambda: first.with_options(time_limits=3), "time_limits", "time_limit")
    with pytest.raises(InvalidArgumentError, match="time_limit"):
        first.with_options(time_limit=-1)


@pytest.mark.parametrize("wrong", [{"backfill": "no"}, {"share_batches": "x"}, {"name": 3}, {"source_field": 3, "per_source": 1}])
def test_values_of_other_types_are_refused_wherever_they_are_given(index, wrong):
    engine, (name, value) = Retriever(index, PPR()), next(iter(wrong.items()))
    calls = [
        lambda: Retriever(index, PPR(), **wrong),
        lambda: engine.with_options(**wrong),
        lambda: li.GraphRetriever(engine, **wrong),
    ]
    if name != "name":
        # LangChain has a name of its own.
        calls += [
            lambda: lc.GraphRetriever(retriever=engine, **wrong),
            lambda: lc.GraphRetriever(index=index, system="ppr", **wrong),
            lambda: lc.GraphRetriever(retriever=engine).invoke("Which loom?", **wrong),
            lambda: lc.GraphRetriever(index=index, system="ppr").invoke("Which loom?", **wrong),
        ]
    for call in calls:
        with pytest.raises(ValueError, match=f"{name} is {value!r}; expected"):
            call()


def test_bm25_is_a_language_or_an_object_in_both_frameworks():
    texts = ["Die Kündigungen sind schriftlich.", "Der Webstuhl ist eine Maschine."]
    nodes = [TextNode(text=text) for text in texts]
    made = (
        lambda bm25: lc.GraphRetriever.from_documents([Document(text) for text in texts], system="bm25", edges=[], bm25=bm25).index,
        lambda bm25: lc.GraphRetriever.from_texts(texts, system="bm25", edges=[], bm25=bm25).index,
        lambda bm25: li.GraphRetriever.from_defaults(nodes=nodes, system="bm25", edges=[], bm25=bm25).engine.index,
        lambda bm25: GraphIndex.from_nodes([Node(text, text) for text in texts], bm25=bm25),
    )
    given = BM25(texts, stopwords=None)
    for make in made:
        assert make("german").bm25.language == "de" and make(given).bm25.stopwords is None
        with pytest.raises(InvalidArgumentError, match="bm25 is 7"):
            make(7)
    with pytest.raises(InvalidArgumentError, match="those of a store change"):
        IndexStore("no folder", bm25=given)
