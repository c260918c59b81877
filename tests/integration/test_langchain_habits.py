"""What users of LangChain do with retrievers: merge the results of several queries, copy, pickle, mix with other retrievers."""

import copy
import json
import pickle

import pytest
from langchain_classic.retrievers import EnsembleRetriever, MultiQueryRetriever
from langchain_classic.retrievers.document_compressors import CrossEncoderReranker
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import FakeListLLM
from langchain_core.load import dumps
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import MarkdownHeaderTextSplitter
from pydantic import Field

from graph_retrievers import GraphIndex, Pipeline, Retriever, minilm
from graph_retrievers.construction import DocumentStructure
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.operators import BM25Search, EntityLinking, GatedPropagation, VectorSearch
from graph_retrievers.systems import SpreadingActivation
from graph_retrievers.systems.system import SYSTEMS
from langchain_graph_retrievers import (
    FastInsightRetriever,
    GRAGCompressor,
    GRankerCompressor,
    GraphRetriever,
    SpreadingActivationRetriever,
    to_context,
)
from langchain_graph_retrievers.documents import as_node
from tests.helpers import HashEmbedding, WordOverlap, linked_index
from tests.integration.langchain_models import LangChainHashEmbeddings, LangChainWordOverlap

QUESTIONS = ["Who wrote a program for the Analytical Engine?", "What counted the census?", "Who broke ciphers at Bletchley Park?"]
THREE = [
    Document("Ada wrote a program for the engine.", id="ada", metadata={"title": "Ada", "score": 7}),
    Document("An engine of brass.", id="engine", metadata={"title": "Engine"}),
    Document("A punched card.", id="card", metadata={"links": ["engine"]}),
]


@pytest.fixture(scope="module")
def index():
    return linked_index()


# -- documents of several queries ---------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["vector", "bm25", "ppr", "spreading", None])
def test_documents_of_several_queries_are_merged(system):
    """LangChain keeps one of equal documents; those that tell of their query are never equal."""
    edges = [("ada", "engine", "ran on"), ("links", "$id")]
    retriever = GraphRetriever.from_documents(THREE, HashEmbedding(), edges=edges, system=system, k=3)
    several = MultiQueryRetriever.from_llm(retriever, FakeListLLM(responses=["brass engine\npunched card\nprogram"]))
    found = several.invoke("Which engine?")
    assert sorted(d.id for d in found) == ["ada", "card", "engine"]
    assert {d.id: d for d in found} == {d.id: d for d in THREE}, "text and metadata are the document's own"
    retriever.provenance = True
    assert len(several.invoke("Which engine?")) > 3


def test_serialised_documents_are_merged_too(index):
    """Documents are merged by their JSON in many a recipe."""
    retriever = SpreadingActivationRetriever(index=index, system=SpreadingActivation(), k=12)
    assert len({dumps(document) for found in retriever.batch(QUESTIONS) for document in found}) == 12


def test_an_ensemble_with_another_retriever(index):
    store = InMemoryVectorStore(LangChainHashEmbeddings())
    store.add_documents(THREE)
    ours = GraphRetriever.from_documents(THREE, HashEmbedding(), system="ppr", edges=[("ada", "engine")], k=3)
    for retriever in (ours, ours.model_copy(update={"provenance": True})):
        found = EnsembleRetriever(retrievers=[store.as_retriever(), retriever]).invoke("brass engine")
        assert sorted(d.id for d in found) == ["ada", "card", "engine"]


async def test_provenance_is_a_field_and_a_keyword_of_a_call(index):
    told = {"score", "operator", "path"}
    plain, telling = (
        GraphRetriever(index=index, system="vector", k=1),
        GraphRetriever(index=index, system="vector", k=1, provenance=True),
    )
    assert not told & plain.invoke("loom")[0].metadata.keys() and told <= telling.invoke("loom")[0].metadata.keys()
    assert plain.invoke("loom", provenance=True) == telling.invoke("loom") == await plain.ainvoke("loom", provenance=True)
    assert telling.batch(["loom"], provenance=False) == [plain.invoke("loom")] == (await telling.abatch(["loom"], provenance=False))


def test_headings_that_a_splitter_wrote_are_the_title():
    page = f"Before all.\n\n# Looms {{#looms}}\n\nA guide.\n\n## Cards {{#cards .wide}}\n\nCards steer the loom. {'x ' * 9}"
    chunks = MarkdownHeaderTextSplitter([("#", "Header 1"), ("##", "Header 2")]).split_text(page)
    for chunk in chunks:
        chunk.metadata["source"] = "a.md"
    index = GraphIndex.from_documents(chunks, edges=[DocumentStructure()])
    assert index.graph.titles == ["", "Looms", "Looms/Cards"]
    walk = Pipeline(BM25Search(1), GatedPropagation(gate="uniform", threshold=0))
    retriever = GraphRetriever(retriever=Retriever(index, walk))
    for found in (retriever.invoke("cards steer"), retriever.invoke("cards steer", provenance=True), chunks):
        assert "\n- Looms/Cards: Cards steer" in to_context(found) and "{#" not in to_context(found)
    assert "Looms/Cards <-[contains]- Looms" in to_context(retriever.invoke("cards steer", provenance=True))
    assert '"Looms/Cards"' in retriever.engine.retrieve("cards steer").subgraph().to_mermaid()
    # The metadata are as the splitter made them.
    assert retriever.invoke("cards steer")[0].metadata == chunks[2].metadata
    own = [
        Document("A loom.", metadata={"title": "Own", "Header 1": "A"}),
        Document("A card.", metadata={"title": "", "header_2": 7}),
    ]
    assert GraphIndex.from_documents(own).graph.titles == ["Own", "7"] == [as_node(document).title for document in own]
    assert GraphIndex.from_documents(chunks, title_key="").graph.titles == ["", "", ""]


def test_title_and_type_of_a_node_are_in_the_metadata_whatever_the_query():
    retriever = GraphRetriever.from_texts(
        ["a loom", "a card"], system="bm25", titles=["Loom", ""], metadatas=[{}, {"title": "Card"}]
    )
    assert {d.id: d.metadata for d in retriever.invoke("loom card")} == {"0": {"title": "Loom"}, "1": {"title": "Card"}}


def test_chains_can_be_told_from_documents_and_are_the_same_for_every_query(index):
    retriever = SpreadingActivationRetriever(index=index, k=2, system=SpreadingActivation(gate="uniform", chains="hits"))
    chains = [d for d in retriever.invoke("Which machines did Charles Babbage design?") if "kind" in d.metadata]
    assert chains and all(d.metadata.keys() == {"kind", "path"} for d in chains)
    assert to_context(chains) == "Paths:\n" + "\n".join(d.page_content for d in chains)


# -- documents of other retrievers --------------------------------------------------------------------------------


def test_documents_of_another_retriever_are_printed():
    store = InMemoryVectorStore(LangChainHashEmbeddings())
    store.add_documents(THREE)
    text = (store.as_retriever(search_kwargs={"k": 3}) | to_context).invoke("brass engine")
    assert sorted(text.splitlines()) == sorted(
        ["Texts:", "- Ada: Ada wrote a program for the engine.", "- Engine: An engine of brass.", "- card: A punched card."]
    )


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"kind": "fact"},
        {"kind": "chain", "path": "/home/a.pdf"},
        {"path": {"disk": "c"}},
        {"path": {"nodes": "a.pdf"}},
        {"path": {"nodes": []}},
        {"path": {"nodes": ["a"], "relations": ["x"], "forward": []}},
        {"title": None, "type": None},
        {"context": {"nodes": 5}},
    ],
)
def test_ordinary_documents_are_printed_whatever_their_metadata(metadata):
    assert to_context([Document("A loom.", metadata=metadata), Document("A card.")]) == "Texts:\n- A loom.\n- A card."
    assert to_context([Document("A loom.", id="x", metadata=metadata)]) == "Texts:\n- x: A loom."


def test_documents_of_both_kinds_are_printed_together(index):
    ours = SpreadingActivationRetriever(
        index=index, k=2, system=SpreadingActivation(gate="uniform"), backfill=False, provenance=True
    ).invoke(QUESTIONS[0])
    text = to_context([*ours, Document("A loom.")])
    assert text == to_context(ours) + "\n- A loom."
    assert json.loads(json.dumps(ours[0].metadata)) == ours[0].metadata


# -- filters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"yaer": 1843}, "names 'yaer', which is not a metadata field of any node. Did you mean 'year'?"),
        ({"year": [1843, 1837]}, 'For one of several values, use {"$in": [1843, 1837]}'),
    ],
)
def test_a_filter_that_can_never_match_is_named(condition, words, caplog):
    retriever = GraphRetriever(index=linked_index(), system="vector", k=2)
    assert retriever.invoke("engine", filter=condition) == [] == retriever.invoke("program", filter=condition)
    assert len([record for record in caplog.records if words in record.message]) == 1


def test_a_filter_restricts_the_start_of_a_search(index):
    """A question of another topic would fill the start with documents that may not be returned."""
    retriever = SpreadingActivationRetriever(
        index=index, k=3, system=SpreadingActivation(gate="uniform"), filter={"topic": "war"}, provenance=True
    )
    found = retriever.invoke("Who wrote a program for the Analytical Engine?")
    assert {d.metadata["path"]["nodes"][0] for d in found} <= {"turing", "bletchley", "colossus"}
    assert "Backfill" not in {d.metadata["operator"] for d in found}
    lifted = retriever.invoke("Who wrote a program for the Analytical Engine?", seed_filter={})
    assert {d.metadata["operator"] for d in lifted} == {"Backfill"}


# -- copies and pickles -------------------------------------------------------------------------------------------


def pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301


def names_nothing(prompt):
    return '{"entities": []}'


@pytest.mark.slow
@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("system", [*(name for name in SYSTEMS if name != "fused"), "fused(systems=['ppr', 'hybrid'])"])
def test_a_copy_of_a_retriever_answers_the_same(system, twin, index):
    retriever = GraphRetriever(index=index, system=system, k=4, provenance=True)
    made, alone, together = twin(retriever), [retriever.invoke(question) for question in QUESTIONS], retriever.batch(QUESTIONS)
    assert [made.invoke(question) for question in QUESTIONS] == alone and made.batch(QUESTIONS) == together
    # A product of larger matrices may differ in its last digits.
    for ours, others in zip(sum(together, []), sum(alone, []), strict=True):
        assert ours.metadata.pop("score") == pytest.approx(others.metadata.pop("score"), rel=1e-5, abs=1e-6)
        assert ours == others


@pytest.mark.slow
@pytest.mark.parametrize("twin", [copy.deepcopy, pickled])
def test_a_copy_of_a_retriever_with_models_answers_the_same(twin):
    """The weights of an encoder are loaded again by its copy."""
    retriever = GraphRetriever.from_documents(
        THREE, minilm(), system="vector", relevance=LangChainWordOverlap(), dense_backend="hnsw"
    )
    expected = retriever.invoke("Which engine?", provenance=True)
    assert twin(retriever).invoke("Which engine?", provenance=True) == expected
    for compressor in (
        GRankerCompressor(embedding=minilm()),
        GRankerCompressor(relevance=LangChainWordOverlap()),
        GRAGCompressor(embedding=minilm()),
    ):
        again = twin(compressor).compress_documents(THREE, "brass engine")
        assert again == compressor.compress_documents(THREE, "brass engine")


@pytest.mark.parametrize("twin", [copy.deepcopy, pickled])
def test_a_copy_of_a_composition_answers_the_same(twin, index):
    walk = Pipeline(EntityLinking(language_model=names_nothing), GatedPropagation())
    retriever = GraphRetriever(index=index, system=walk, k=3, provenance=True)
    assert twin(retriever).invoke(QUESTIONS[0]) == retriever.invoke(QUESTIONS[0])


def test_copies_share_the_index(index):
    retriever = GraphRetriever(index=index, system="vector")
    assert copy.deepcopy(retriever).index is index


def test_what_cannot_be_pickled_is_named_and_can_be_copied(index):
    functions = {
        "embedding": GraphRetriever.from_documents(THREE, lambda texts: [[1.0, 0.0]] * len(texts), system="vector"),
        "relevance": GraphRetriever.from_documents(
            THREE, HashEmbedding(), system="vector", relevance=lambda pairs: [1.0] * len(pairs)
        ),
        "filter": GraphRetriever(index=index, system="vector", filter=lambda node: True),
        "system": GraphRetriever(
            index=index, system=Pipeline(EntityLinking(language_model=lambda prompt: names_nothing(prompt)), VectorSearch(2))
        ),
    }
    for name, retriever in functions.items():
        with pytest.raises(InvalidArgumentError, match=f"cannot be pickled, because its {name}, "):
            pickle.dumps(retriever)
        assert copy.deepcopy(retriever).invoke("loom", vector=[1.0, 0.0] if name == "embedding" else None)


# -- rerankers people own -----------------------------------------------------------------------------------------


class Scoring(BaseDocumentCompressor):
    """A reranker of a service, such as Cohere's: the best few as new documents, with scores in their metadata."""

    top_n: int | None = 3
    asked: list = Field(default_factory=list)

    def compress_documents(self, documents, query, callbacks=None):
        assert all(isinstance(document, Document) for document in documents)
        self.asked.append((query, len(documents)))
        scored = zip(WordOverlap()([(query, d.page_content) for d in documents]), documents, strict=True)
        best = sorted(scored, key=lambda pair: -pair[0])[: self.top_n]
        return [Document(d.page_content, metadata={**d.metadata, "relevance_score": score}) for score, d in best]


class Ordering(BaseDocumentCompressor):
    """A reranker that returns an order without scores."""

    def compress_documents(self, documents, query, callbacks=None):
        return documents[::-1]


def overlap_reranker():
    return CrossEncoderReranker(model=LangChainWordOverlap(), top_n=1)


@pytest.mark.parametrize("make", [LangChainWordOverlap, overlap_reranker, Scoring])
def test_rerankers_of_langchain_are_relevance_models(make):
    expected = GraphRetriever(index=linked_index(relevance=WordOverlap()), system="re2", k=12, provenance=True).invoke(QUESTIONS[0])
    reranker = make()
    retriever = GraphRetriever(index=linked_index(relevance=reranker), system="re2", k=12, provenance=True)
    assert retriever.invoke(QUESTIONS[0]) == expected
    assert copy.deepcopy(retriever).invoke(QUESTIONS[0]) == expected
    if isinstance(reranker, Scoring):
        assert reranker.asked[0] == (QUESTIONS[0], 12) and reranker.top_n == 3
    fast = FastInsightRetriever.from_documents(THREE, HashEmbedding(), edges=[("ada", "engine")], relevance=make(), k=1)
    assert [d.id for d in fast.invoke("Ada wrote a program")] == ["ada"]
    compressor = GRankerCompressor(relevance=make(), top_n=1)
    assert [d.id for d in compressor.compress_documents(THREE, "a punched card")] == ["card"]


def test_a_reranker_without_scores_is_refused():
    retriever = GraphRetriever(index=linked_index(relevance=Ordering()), system="re2")
    with pytest.raises(InvalidArgumentError, match="Ordering gives documents without a relevance_score"):
        retriever.invoke(QUESTIONS[0])


def test_a_reranker_that_drops_documents_is_refused():
    class Dropping(Scoring):
        def compress_documents(self, documents, query, callbacks=None):
            return super().compress_documents(documents[:2], query)

    with pytest.raises(InvalidArgumentError, match="Dropping gave 2 scores for 12 texts"):
        GraphRetriever(index=linked_index(relevance=Dropping()), system="re2", k=12).invoke(QUESTIONS[0])


UNUSED = "does not use the relevance model"


@pytest.mark.parametrize("options", [{}, {"system": "ppr"}, {"system": "walk-fusion"}])
def test_a_relevance_model_that_is_not_used_is_told_once(options, caplog):
    GraphRetriever.from_documents(THREE, HashEmbedding(), relevance=WordOverlap(), edges=[("ada", "engine")], **options)
    (message,) = [record.getMessage() for record in caplog.records if UNUSED in record.getMessage()]
    assert message.startswith("PPR" if options.get("system") == "ppr" else "WalkFusion")
    assert message.endswith("do; pass system='fastinsight'.")


def test_a_relevance_model_of_a_named_class(caplog):
    GraphRetriever.from_documents(THREE, HashEmbedding(), system="ppr", relevance=WordOverlap())
    assert caplog.text.count(UNUSED) == 1
    caplog.clear()
    GraphRetriever.from_documents(THREE, HashEmbedding(), system="re2", relevance=WordOverlap())
    GraphRetriever.from_documents(THREE, HashEmbedding(), relevance=WordOverlap(), system="fastinsight")
    GraphRetriever.from_documents(THREE, HashEmbedding())
    assert UNUSED not in caplog.text


def test_the_index_of_a_graph_retriever_is_at_hand(tmp_path):
    retriever = GraphRetriever.from_documents(THREE, HashEmbedding())
    assert retriever.index is retriever.engine.index
    retriever.index.save(tmp_path / "index")
    assert len(GraphRetriever(index=type(retriever.index).load(tmp_path / "index", embedding=HashEmbedding())).index) == 3

    class Own:
        name, k, inputs = "own", 1, ()

        def retrieve(self, query, k=None, **options):
            return []

        def retrieve_batch(self, queries, k=None, **options):
            return [[] for _ in queries]

    assert GraphRetriever(retriever=Own()).index is None
