"""GRanker as a LangChain document compressor: on an index, over documents it does not know, behind other retrievers."""

import math
import threading

import networkx as nx
import pytest
import torch
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_classic.retrievers.document_compressors import DocumentCompressorPipeline
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import ValidationError

from graph_retrievers.construction.edges import Metadata, NearestNeighbors
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph.corpus_graph import Edge, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import Pipeline, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.fastinsight import GRanker
from langchain_graph_retrievers import GRankerCompressor, GraphRetriever
from tests.helpers import HashEmbedding, WordOverlap, linked_index, linked_nodes
from tests.hostile import nested
from tests.integration.langchain_models import LangChainHashEmbeddings, LangChainWordOverlap
from tests.rankings import Ranking, ranked
from tests.toy import TableModel, toy_index

QUESTION = "Who wrote a program for the Analytical Engine of Babbage?"
EDGES = [(1, 2), (1, 3), (2, 5), (3, 5), (3, 6), (6, 7), (2, 3), (1, 6)]
LATENTS = {"1": [1, 0], "2": [0, 1], "3": [1, 1], "4": [2, 0], "5": [0, 0], "6": [0, 0], "7": [0, 0]}


def documents(*names):
    """Documents of the corpus, all of them or those named."""
    found = [Document(id=n.id, page_content=n.text, metadata={"title": n.title, **n.metadata}) for n in linked_nodes()]
    return [d for d in found if not names or d.id in names]


def scores(found):
    return {d.id: d.metadata["relevance_score"] for d in found}


def head(x, y):
    return math.tanh(x) + 0.5 * math.tanh(y)


@pytest.mark.parametrize(
    ("degree", "latents"),
    [
        ("graph", {"1": (0.885714, 0.2), "2": (0.2, 0.885714), "3": (0.9, 0.9), "4": (2, 0)}),
        ("subgraph", {"1": (0.9, 0.2), "2": (0.2, 0.9), "3": (0.9, 0.9), "4": (2, 0)}),
    ],
)
def test_the_worked_example_of_the_algorithm(degree, latents):
    index = toy_index({str(n): 0.0 for n in range(1, 8)}, LATENTS, EDGES)
    given = [Document(id=i, page_content="text of the caller") for i in "1234"]
    found = GRankerCompressor(index=index, degree=degree).compress_documents(given, "any question")
    assert scores(found) == pytest.approx({i: head(*latent) for i, latent in latents.items()}, abs=1e-6)
    assert [d.id for d in found] == sorted("1234", key=lambda i: -head(*latents[i]))
    assert {d.page_content for d in found} == {"text of the caller"}


def test_smoothing_of_zero_is_the_model_itself():
    index = toy_index({str(n): 0.0 for n in range(1, 8)}, LATENTS, EDGES)
    given = [Document(id=i, page_content="") for i in "1234"]
    found = GRankerCompressor(index=index, alpha=0).compress_documents(given, "any question")
    assert scores(found) == pytest.approx({i: head(*LATENTS[i]) for i in "1234"}, abs=1e-6)


def test_known_documents_are_ranked_as_the_engine_ranks_them():
    index = linked_index(relevance=WordOverlap())
    engine = Retriever(index, Pipeline(VectorSearch(6), GRanker()), k=6).retrieve(QUESTION)
    base = GraphRetriever(index=index, system="vector", k=6)
    found = GRankerCompressor(index=index).compress_documents(base.invoke(QUESTION), QUESTION)
    assert [(d.id, d.metadata["relevance_score"]) for d in found] == [(h.id, pytest.approx(h.score)) for h in engine]


def test_unknown_documents_are_linked_by_their_metadata():
    whole = GRankerCompressor(index=linked_index(relevance=WordOverlap())).compress_documents(documents(), QUESTION)
    alone = GRankerCompressor(relevance=LangChainWordOverlap(), edges=[("links", "$id")])
    found = alone.compress_documents(documents(), QUESTION)
    assert [d.id for d in found] == [d.id for d in whole]
    assert scores(found) == pytest.approx(scores(whole))
    unlinked = GRankerCompressor(relevance=LangChainWordOverlap()).compress_documents(documents(), QUESTION)
    assert scores(unlinked) != pytest.approx(scores(whole)), "the edges made no difference"


def test_documents_beside_an_index_keep_its_edges_and_its_model():
    index = linked_index(relevance=WordOverlap())
    stranger = Document(page_content="A program for the Analytical Engine.", metadata={"title": ["no", "title"]})
    near = documents("ada", "babbage", "engine", "loom")
    compressor = GRankerCompressor(index=index, degree="subgraph")
    found = compressor.compress_documents([stranger, *near], QUESTION)
    expected = compressor.compress_documents(near, QUESTION)
    assert {i: s for i, s in scores(found).items() if i} == pytest.approx(scores(expected))
    assert found[[d.id for d in found].index(None)].metadata["relevance_score"] == 6.0
    related = GRankerCompressor(index=index, edges=[("program", "ada")]).compress_documents(
        [Document(id="program", page_content="Nothing in common"), *near], QUESTION
    )
    assert scores(related)["program"] > 0, "an edge to a known document did not count"


def test_the_embedding_model_stands_in_for_a_relevance_model():
    embedding = HashEmbedding()
    found = GRankerCompressor(embedding=LangChainHashEmbeddings(), alpha=0).compress_documents(documents(), QUESTION)
    texts = {n.id: f"{n.title}. {n.text}" for n in linked_nodes()}
    query = embedding.embed_query(QUESTION)
    dots = {i: sum(a * b for a, b in zip(query, embedding.embed_query(t), strict=True)) for i, t in texts.items()}
    assert scores(found) == pytest.approx(dots, abs=1e-6)
    beside = GRankerCompressor(index=linked_index(), alpha=0)
    both = beside.compress_documents([*documents(), Document(id="new", page_content="unseen")], QUESTION)
    assert {i: s for i, s in scores(both).items() if i != "new"} == pytest.approx(dots, abs=1e-6)
    without_query_model = GraphIndex.from_nodes(linked_nodes(), vectors=[embedding.embed_query(t) for t in texts.values()])
    lent = GRankerCompressor(index=without_query_model, embedding=embedding, alpha=0)
    assert scores(lent.compress_documents(documents(), QUESTION)) == pytest.approx(dots, abs=1e-6)


def test_a_model_of_the_caller_takes_precedence_over_the_index():
    table = TableModel({t: [float(len(t))] for t in (f"{n.title}. {n.text}" for n in linked_nodes())}, [1.0])
    found = GRankerCompressor(index=linked_index(), relevance=table, alpha=0).compress_documents(documents(), QUESTION)
    assert len(table.calls) == 12 and list(scores(found).values()) == pytest.approx([1.0] * 12)


def test_an_embedding_model_of_the_caller_takes_precedence_over_the_index():
    class Reversed(HashEmbedding):
        def _vector(self, text):
            return super()._vector(text)[::-1]

    stranger = Document(id="new", page_content="unseen")
    for given in (documents(), [*documents(), stranger]):
        own, lent = HashEmbedding(), Reversed()
        compressor = GRankerCompressor(index=linked_index(own), embedding=lent, alpha=0)
        before = (own.document_calls, own.query_calls)
        compressor.compress_documents(given, QUESTION)
        assert (own.document_calls, own.query_calls) == before
        assert lent.query_calls == 1 and lent.document_calls == (stranger in given)


def test_weights_of_the_edges_that_the_index_has_are_kept():
    texts = {"low": "nothing", "middle": "engine", "high": "program engine", "far": "program"}
    index = GraphIndex.from_nodes(
        [Node(name, text) for name, text in texts.items()],
        [Edge("low", "middle", "links", 9.0), Edge("high", "middle", "links", 1.0), Edge("high", "far", "links", 9.0)],
        relevance=WordOverlap(),
    )
    given = [Document(id=name, page_content=text) for name, text in texts.items()]
    for stranger in ([], [Document(id="new", page_content="unseen")]):
        compressor = GRankerCompressor(index=index, weighted=True)
        found = scores(compressor.compress_documents([*given, *stranger], "program engine"))
        # Low counts by its weight over its strength, 9 / 9, and high by 1 / 10.
        assert found["middle"] == pytest.approx(0.8 * 1 + 0.2 * (0 * 1.0 + 2 * 0.1) / 1.1)


def test_top_n_copies_and_order():
    given = documents()
    given[0].metadata["relevance_score"] = "of another reranker"
    compressor = GRankerCompressor(relevance=LangChainWordOverlap(), top_n=3)
    found = compressor.compress_documents(given, QUESTION)
    assert [d.id for d in found][:1] == ["ada"] and len(found) == 3
    assert found[0].metadata["original_relevance_score"] == "of another reranker"
    assert given[0].metadata["relevance_score"] == "of another reranker" and "relevance_score" not in given[1].metadata
    assert all(type(d.metadata["relevance_score"]) is float for d in found)
    equal = GRankerCompressor(relevance=lambda pairs: [1.0] * len(pairs)).compress_documents(given[::-1], QUESTION)
    assert [d.id for d in equal] == [d.id for d in given[::-1]], "equal scores keep their order"


def test_no_documents_repeated_documents_and_documents_without_ids():
    compressor = GRankerCompressor(relevance=LangChainWordOverlap())
    assert compressor.compress_documents([], QUESTION) == []
    repeated = compressor.compress_documents([*documents("ada"), *documents("ada", "loom")], QUESTION)
    assert [d.id for d in repeated] == ["ada", "loom"]
    bare = [Document(page_content="program"), Document(page_content="program"), Document(page_content="wrote a program")]
    assert [d.page_content for d in compressor.compress_documents(bare, QUESTION)] == ["wrote a program", "program", "program"]


def test_edges_for_a_whole_corpus_are_passed_over_where_the_documents_lack_them():
    several = ["links", "$id"], ("ada", "loom"), ("ada", "nobody", "knows"), ("author", "author"), nx.Graph([("loom", "absent")])
    compressor = GRankerCompressor(relevance=LangChainWordOverlap(), edges=[*several, Metadata("author"), Metadata("links")])
    few = compressor.compress_documents(documents("ada", "loom"), QUESTION)
    linked = GRankerCompressor(relevance=LangChainWordOverlap(), edges=[("ada", "loom")])
    assert scores(few) == scores(linked.compress_documents(documents("ada", "loom"), QUESTION))
    bare = [Document(id="x", page_content="program"), Document(id="y", page_content="engine")]
    assert scores(compressor.compress_documents(bare, QUESTION)) == {"x": 1.0, "y": 1.0}


def test_nearest_neighbours_link_documents_when_there_is_an_embedding_model():
    given = [Document(id="a", page_content="program"), Document(id="b", page_content="program please")]
    plain = GRankerCompressor(relevance=LangChainWordOverlap(), edges=NearestNeighbors(1))
    with pytest.raises(MissingSignalError, match="embedding="):
        plain.compress_documents(given, "please")
    near = GRankerCompressor(relevance=LangChainWordOverlap(), edges=NearestNeighbors(1), embedding=HashEmbedding())
    assert scores(near.compress_documents(given, "please")) == pytest.approx({"b": 0.8, "a": 0.2})


def test_bad_input_is_refused():
    with pytest.raises(MissingSignalError, match="nothing to score with"):
        GRankerCompressor()
    index = linked_index()
    for wrong in ({"top_n": 0}, {"alpha": 2}, {"degree": "both"}, {"relevance": 3}):
        with pytest.raises(InvalidArgumentError):
            GRankerCompressor(**{"index": index, **wrong})
    for wrong in ({"top_nn": 3}, {"top_n": "few"}, {"index": "folder"}):
        with pytest.raises(ValidationError):
            GRankerCompressor(**{"index": index, **wrong})
    kept = GRankerCompressor(index=index, top_n=3).compress_documents(documents(), " ")
    assert [d.id for d in kept] == [d.id for d in documents()[:3]], "an empty question changes no order"
    blind = GRankerCompressor(index=GraphIndex.from_nodes(linked_nodes()))
    with pytest.raises(MissingSignalError, match="pass relevance= or embedding="):
        blind.compress_documents([Document(page_content="unknown")], QUESTION)


async def test_behind_a_vector_store_in_a_contextual_compression_retriever():
    store = InMemoryVectorStore(LangChainHashEmbeddings())
    store.add_documents(documents())
    index = linked_index(relevance=LangChainWordOverlap())
    compressor = GRankerCompressor(index=index, top_n=2)
    retriever = ContextualCompressionRetriever(
        base_compressor=compressor, base_retriever=store.as_retriever(search_kwargs={"k": 6})
    )
    found = retriever.invoke(QUESTION)
    assert [d.id for d in found] == ["ada", "babbage"]
    assert found == await retriever.ainvoke(QUESTION) == retriever.batch([QUESTION])[0]
    rows = torch.tensor([[index.graph.row(d.id) for d in store.similarity_search(QUESTION, k=6)]])
    expected = ranked(GRanker(), Queries.of(index, [QUESTION]), Ranking.of(rows, torch.zeros(rows.shape), "store"))
    assert [index.graph.row(d.id) for d in found] == expected.nodes[0, :2].tolist()
    assert [d.metadata["relevance_score"] for d in found] == pytest.approx(expected.scores[0, :2].tolist())
    piped = DocumentCompressorPipeline(transformers=[GRankerCompressor(index=index, top_n=4), compressor])
    chained = ContextualCompressionRetriever(
        base_compressor=piped, base_retriever=GraphRetriever(index=index, system="vector", k=6, provenance=True)
    )
    first, second = chained.invoke(QUESTION, k=5)
    assert first.id == "ada" and second.metadata["relevance_score"] < first.metadata["relevance_score"]
    assert {"score", "path", "relevance_score", "original_relevance_score"} <= first.metadata.keys()


def test_a_repeated_document_is_the_one_of_the_first_place():
    given = [
        Document("a loom", id="a", metadata={"place": 0}),
        Document("a loom card", id="b", metadata={"place": 1}),
        Document("a loom card machine", id="a", metadata={"place": 2}),
    ]
    found = GRankerCompressor(relevance=WordOverlap(), alpha=0).compress_documents(given, "loom card machine")
    assert [(d.page_content, d.metadata["place"], d.metadata["relevance_score"]) for d in found] == [
        ("a loom card", 1, 2.0),
        ("a loom", 0, 1.0),
    ]


@pytest.mark.parametrize("value", [threading.Lock(), nested(3000)])
def test_a_document_with_metadata_that_cannot_be_copied_is_refused(value):
    # The texts are those of the index, which does not read the metadata.
    compressor = GRankerCompressor(index=linked_index(), relevance=WordOverlap())
    with pytest.raises(InvalidArgumentError, match="cannot be copied .*; leave it out of the metadata"):
        compressor.compress_documents([Document("", id="ada", metadata={"m": value})], "loom")
