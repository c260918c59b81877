"""Stores that a remote index is given: those of the frameworks, and what is wrong with others."""

import threading

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQueryResult

from graph_retrievers import (
    FastInsight,
    MoR,
    Retriever,
)
from graph_retrievers.errors import (
    DatabaseError,
    DatabaseUnreachableError,
    DimensionMismatchError,
    EmptyGraphError,
    InvalidArgumentError,
    InvalidVectorError,
    UnknownNodeError,
)
from graph_retrievers.operators import VectorSearch
from graph_retrievers.stores.cypher import CypherDatabase, CypherGraphStore, GraphSchema
from graph_retrievers.stores.cypher.writer import name_key
from graph_retrievers.stores.remote import FetchedRows, RemoteIndex, TitleMatch
from graph_retrievers.stores.remote.pages import within
from langchain_graph_retrievers import LangChainVectors
from llama_graph_retrievers import LlamaIndexVectors
from tests.remote import (
    ONE,
    QUESTIONS,
    Letters,
    MemoryGraph,
    assert_same,
    engines,
    index_of,
    random_corpus,
)


@pytest.fixture(scope="module")
def corpus():
    return random_corpus(2, 300, 700, ties=False)


def test_a_missing_vector_is_named(corpus):
    _, _, vectors, remote = engines(corpus)
    retriever = Retriever(remote, FastInsight(budget=300))
    gone = next(node.id for node in corpus[0] if node.id == corpus[0][5].id)
    del vectors.held[gone]
    with pytest.raises(InvalidVectorError, match=f"no vector of node '{gone}'"):
        retriever.retrieve("?", 300, vector=ONE)


def test_results_that_are_no_nodes_are_left_out_with_a_note(corpus):
    index, _, vectors, remote = engines(corpus)
    vectors.held = {"elsewhere": ONE / 6**0.5, **vectors.held}
    found = Retriever(remote, FastInsight(budget=20)).retrieve("?", vector=ONE)
    assert found.notes[-1].endswith("; 1 results of the vector store are not in the graph")
    assert [hit.id for hit in found] == [hit.id for hit in Retriever(index, FastInsight(budget=20)).retrieve("?", vector=ONE)]


def test_a_node_that_goes_during_a_call_is_named(corpus, monkeypatch):
    _, graph, _, remote = engines(corpus)
    read = graph.read
    monkeypatch.setattr(graph, "read", lambda **asked: FetchedRows() if asked["expand"] else read(**asked))
    with pytest.raises(UnknownNodeError, match="any more"):
        Retriever(remote, FastInsight()).retrieve("?", vector=ONE)


@pytest.mark.parametrize("off", [-1, 1])
def test_degrees_that_are_no_longer_right_are_noticed(corpus, monkeypatch, off):
    _, graph, _, remote = engines(corpus)
    node = graph.node

    def changed(row, text=False):
        found = node(row, text)
        return found._replace(degree=found.degree + off)

    monkeypatch.setattr(graph, "node", changed)
    with pytest.raises(DatabaseError, match=r"neighbours, and its property says -?\d+: the graph was changed"):
        Retriever(remote, FastInsight()).retrieve("?", vector=ONE)


def test_two_graphs_under_one_label_are_noticed(corpus, monkeypatch):
    _, graph, _, remote = engines(corpus)
    node = graph.node
    monkeypatch.setattr(graph, "node", lambda row, text=False: node(row, text)._replace(position=row % 200))
    with pytest.raises(DatabaseError, match="both have the position .* or, if the graph was written anew, make a new RemoteIndex"):
        Retriever(remote, FastInsight(budget=300)).retrieve("?", 300, vector=ONE)


def test_a_store_that_orders_otherwise_is_noticed(corpus, monkeypatch):
    _, _, vectors, remote = engines(corpus)
    search = vectors.search
    monkeypatch.setattr(vectors, "search", lambda asked, k: [found[::-1] for found in search(asked, k)])
    with pytest.raises(InvalidArgumentError, match="something else than the cosine"):
        Retriever(remote, FastInsight()).retrieve("?", vector=ONE)


def test_a_store_that_answers_too_few_searches_is_noticed(corpus, monkeypatch):
    _, _, vectors, remote = engines(corpus)
    monkeypatch.setattr(vectors, "search", lambda asked, k: [])
    with pytest.raises(DatabaseError, match="0 results for 1 searches"):
        Retriever(remote, FastInsight()).retrieve("?", vector=ONE)


def test_what_does_not_fit_the_graph_is_refused(corpus, monkeypatch):
    index, graph, vectors, _ = engines(corpus)
    with pytest.raises(EmptyGraphError, match="no node of the graph"):
        RemoteIndex(MemoryGraph(type(index.graph)([], [])))
    with pytest.raises(DimensionMismatchError, match="covers 60 nodes, the database has 300"):
        RemoteIndex(graph, signals={"bm25": index_of(random_corpus(0)).bm25})
    with pytest.raises(InvalidArgumentError, match="expected one over the words of nodes"):
        RemoteIndex(graph, signals={"dense": index.dense})
    with pytest.raises(InvalidArgumentError, match="Expected a GraphStore and a VectorStore, got GraphIndex"):
        RemoteIndex(index)
    with pytest.raises(InvalidArgumentError, match="got MemoryGraph and InMemoryVectorStore"):
        RemoteIndex(graph, vectors=InMemoryVectorStore(Letters()))
    give, gone = vectors.vectors, index.graph.ids[200]
    monkeypatch.setattr(vectors, "vectors", lambda ids: {**give(ids), **({gone: np.ones(3)} if gone in ids else {})})
    with pytest.raises(DimensionMismatchError, match="differ in width; expected 6"):
        Retriever(RemoteIndex(graph, vectors=vectors), FastInsight(budget=300)).retrieve("?", 300, vector=ONE)


def test_a_call_to_a_store_ends_in_time():
    halt = threading.Event()
    with pytest.raises(DatabaseUnreachableError, match="within 0.1 seconds"):
        within(0.1, halt.wait, 60)
    halt.set()
    with pytest.raises(InvalidArgumentError, match="ours"):
        within(5, _raise, InvalidArgumentError("ours"))


def _raise(error):
    raise error


class Chroma:
    """The two methods of LangChain's Chroma that are called."""

    def __init__(self, held):
        self.held = held

    def similarity_search_by_vector(self, embedding, k=4, ids=None):
        order = sorted(self.held if ids is None else ids, key=lambda name: -float(np.dot(self.held[name], embedding)))
        return [Document("", id=name) for name in order[:k]]

    def get(self, ids=None, include=()):
        found = [name for name in ids if name in self.held]
        return {"ids": found, "embeddings": np.array([self.held[name] for name in found])}


class Shelf(Chroma):
    get = None

    def vectors_by_ids(self, ids):
        return {name: self.held[name] for name in ids if name in self.held}


@pytest.mark.parametrize("kind", ["memory", "chroma", "own", "llama", "llama nodes"])
def test_stores_of_the_frameworks_give_the_same_answers(corpus, kind):
    held = dict(zip([node.id for node in corpus[0]], corpus[2].tolist(), strict=True))
    if kind == "memory":
        store = InMemoryVectorStore(Letters())
        store.store = {name: {"id": name, "text": "", "metadata": {}, "vector": row} for name, row in held.items()}
        vectors = LangChainVectors(store)
    elif kind == "llama":
        store = SimpleVectorStore()
        store.add([TextNode(id_=name, embedding=row) for name, row in held.items()])
        vectors = LlamaIndexVectors(store)
    elif kind == "llama nodes":
        vectors = LlamaIndexVectors(Listing(held=held))
    else:
        vectors = LangChainVectors({"chroma": Chroma, "own": Shelf}[kind](held))
    index, _, _, remote = engines(corpus, vectors=vectors)
    found = Retriever(remote, FastInsight(budget=30)).retrieve(QUESTIONS[0], vector=ONE)
    assert_same([found], [Retriever(index, FastInsight(budget=30)).retrieve(QUESTIONS[0], vector=ONE)])
    retriever, given = Retriever(remote, FastInsight(budget=30)), {"vector": ONE, "scope": {"$type": "film"}}
    refused = {"own": "cannot be searched in a scope: LangChain has no search", "llama nodes": "found a node outside the scope"}
    if kind in refused:
        with pytest.raises(InvalidArgumentError, match=refused[kind]):
            retriever.retrieve(QUESTIONS[0], **given)
    else:
        assert_same(
            [retriever.retrieve(QUESTIONS[0], **given)], [Retriever(index, FastInsight(budget=30)).retrieve(QUESTIONS[0], **given)]
        )


class Listing(BasePydanticVectorStore):
    """A store of LlamaIndex that gives nodes by id."""

    stores_text: bool = True
    held: dict
    bare: bool = False

    @property
    def client(self):
        return None

    def add(self, nodes, **_):
        raise NotImplementedError

    def delete(self, ref_doc_id, **_):
        raise NotImplementedError

    def query(self, query, **_):
        found = Chroma(self.held).similarity_search_by_vector(query.query_embedding, query.similarity_top_k)
        return VectorStoreQueryResult(nodes=[TextNode(id_=document.id) for document in found])

    def get_nodes(self, node_ids=None, filters=None):
        return [TextNode(id_=name, embedding=None if self.bare else self.held[name]) for name in node_ids if name in self.held]


def test_stores_that_give_no_vectors_by_id_are_refused():
    class Bare(Chroma):
        get = None

    class Silent(Listing):
        get_nodes = BasePydanticVectorStore.get_nodes

    with pytest.raises(InvalidArgumentError, match=r"Bare is not a store that gives vectors by id.*vectors_by_ids"):
        LangChainVectors(Bare({}))
    with pytest.raises(InvalidArgumentError, match="Silent has no get_nodes"):
        LlamaIndexVectors(Silent(held={}))
    with pytest.raises(InvalidArgumentError, match="Expected a vector store of LlamaIndex"):
        LlamaIndexVectors(Bare({}))
    with pytest.raises(InvalidArgumentError, match="gave node 'a' without its vector"):
        LlamaIndexVectors(Listing(held={"a": [1.0]}, bare=True)).vectors(["a"])
    nameless = Shelf({"a": [1.0]})
    nameless.similarity_search_by_vector = lambda embedding, k: [Document("")]
    with pytest.raises(InvalidArgumentError, match="a document without an id"):
        LangChainVectors(nameless).search(np.ones((1, 1)), 1)


@pytest.mark.parametrize("timeout", [float("inf"), 1e12, float("nan"), "5", -1, 0, True])
def test_a_timeout_is_a_number_of_seconds(corpus, timeout):
    with pytest.raises(InvalidArgumentError, match="timeout must be a number of seconds above 0, got"):
        engines(corpus, timeout=timeout)


@pytest.mark.parametrize(
    "given", [{"position": None}, {"weight": "heavy"}, {"weight": None}, {"weight": float("nan")}, {"weight": 0}, {"weight": True}]
)
def test_edges_without_a_position_or_a_weight_are_refused(corpus, given):
    _, graph, _, remote = engines(corpus)
    graph.edges = [edge._replace(**given) for edge in graph.edges]
    with pytest.raises(DatabaseError, match=r"The edge from .* expected an integer, and a number above 0\. Write the graph"):
        Retriever(remote, FastInsight()).retrieve("?", vector=ONE)


@pytest.mark.parametrize("kind", ["edge", "title"])
def test_pages_without_the_nodes_of_their_edges_and_titles_are_refused(corpus, monkeypatch, kind):
    _, graph, _, remote = engines(corpus)
    read = graph.read

    def short(**asked):
        page = read(**asked)
        if kind == "title":
            return FetchedRows(page.nodes, page.edges, [TitleMatch(title, "gone") for title in asked["titles"]])
        return FetchedRows([node for node in page.nodes if node.text is not None or not page.edges], page.edges)

    monkeypatch.setattr(graph, "read", short)
    plan = [{"type": "film", "restriction": "Title 3"}, {"type": "person"}]
    system, given = (MoR(), {"plan": plan}) if kind == "title" else (FastInsight(), {})
    with pytest.raises(DatabaseError, match="gave an edge or a title of node .*, and not the node"):
        Retriever(remote, system).retrieve("?", vector=ONE, **given)


@pytest.mark.parametrize("method", ["sample", "read", "schema"])
def test_a_graph_store_that_fails_is_a_database_error(corpus, monkeypatch, method):
    _, graph, vectors, remote = engines(corpus)
    monkeypatch.setattr(graph, method, lambda *given, **named: _raise(ConnectionError("no route")))
    with pytest.raises(DatabaseError, match=r"The graph store failed \(ConnectionError: no route\)"):
        if method == "sample":
            RemoteIndex(graph, vectors=vectors)
        Retriever(remote, MoR() if method == "schema" else FastInsight()).retrieve("?", 30, vector=ONE)


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (lambda: None, "search is None; expected a list of lists of ids"),
        (lambda: [None], "search is None; expected a list of ids"),
        (lambda: ["abc"], "search is 'abc'; expected a list of ids"),
    ],
)
def test_results_that_are_no_lists_are_refused(corpus, monkeypatch, results, words):
    _, _, vectors, remote = engines(corpus)
    monkeypatch.setattr(vectors, "search", lambda asked, k: results())
    with pytest.raises(InvalidArgumentError, match=words):
        Retriever(remote, FastInsight()).retrieve("?", vector=ONE)


def test_results_may_be_a_generator(corpus, monkeypatch):
    index, _, vectors, remote = engines(corpus)
    search = vectors.search
    monkeypatch.setattr(vectors, "search", lambda asked, k: (iter(found) for found in search(asked, k)))
    found = Retriever(remote, FastInsight(budget=20)).retrieve("?", vector=ONE)
    assert_same([found], [Retriever(index, FastInsight(budget=20)).retrieve("?", vector=ONE)])
    monkeypatch.setattr(vectors, "search", lambda asked, k: (_raise(ConnectionError("no route")) for _ in asked))
    with pytest.raises(DatabaseError, match=r"The vector store failed \(ConnectionError: no route\)"):
        Retriever(remote, FastInsight()).retrieve("?", vector=ONE)


@pytest.mark.parametrize(
    ("give", "error", "words"),
    [
        (lambda ids: None, DatabaseError, "gave None as vectors; expected a mapping"),
        (lambda ids: [ONE for _ in ids], DatabaseError, r"gave \[.* as vectors; expected a mapping"),
        (lambda ids: dict.fromkeys(ids, 0.5), DimensionMismatchError, r"got the shape \[\] for node"),
        (lambda ids: dict.fromkeys(ids, [[1.0], [1.0, 2.0]]), DatabaseError, "cannot be read as a row of numbers"),
        (lambda ids: dict.fromkeys(ids, "words"), DatabaseError, "cannot be read as a row of numbers"),
        (lambda ids: dict.fromkeys(ids, np.zeros(6)), InvalidVectorError, "no vector of node"),
    ],
)
def test_what_are_no_vectors_is_refused(corpus, monkeypatch, give, error, words):
    _, graph, vectors, remote = engines(corpus)
    monkeypatch.setattr(vectors, "vectors", give)
    for ask in (
        lambda: RemoteIndex(graph, vectors=vectors),
        lambda: Retriever(remote, FastInsight()).retrieve("?", vector=ONE),
    ):
        with pytest.raises(error, match=words):
            ask()


def test_a_store_that_repeats_ids_is_searched_deeper(corpus, monkeypatch):
    index, _, vectors, remote = engines(corpus)
    search = vectors.search
    monkeypatch.setattr(vectors, "search", lambda asked, k: [[i for i in ids for _ in range(3)][:k] for ids in search(asked, k)])
    found = Retriever(remote, VectorSearch()).retrieve("?", 40, vector=ONE)
    assert_same([found], [Retriever(index, VectorSearch()).retrieve("?", 40, vector=ONE)])
    remote = engines(corpus, vectors=vectors, max_nodes=5000)[3]
    monkeypatch.setattr(vectors, "search", lambda asked, k: [[corpus[0][0].id] * k for _ in asked])
    with pytest.raises(DatabaseError, match="max_nodes=5000"):
        Retriever(remote, VectorSearch()).retrieve("?", vector=ONE)


class Rows(CypherDatabase):
    """Rows of nodes as a database returns them, found by the keys of their titles if titles are asked for."""

    def __init__(self, *rows):
        plain = ("id", "name", "type", "metadata", "text", "near", "forward", "row", "relation", "weight", "words")
        self.schema = GraphSchema()
        self.rows = [{**dict.fromkeys(plain), "position": at, "degree": 1, **row} for at, row in enumerate(rows)]

    def read(self, text, **parameters):
        keys = parameters.get("titles")
        return [row for row in self.rows if not keys or name_key(row["name"]) in keys][: parameters["limit"]]


def test_one_row_more_than_the_limit_is_read():
    store = CypherGraphStore(Rows(*[{"part": "ids", "id": name} for name in "abcde"]))
    assert [node.id for node in store.read(ids="abcde", limit=2).nodes] == ["a", "b", "c"]


def test_a_title_is_found_where_its_folded_case_has_other_words():
    titles = ["\u0130stanbul", "i\u0307stanbul", "I\u0307STANBUL", "Istanbul"]
    store = CypherGraphStore(Rows(*[{"part": "titles", "id": name, "name": name} for name in titles]))
    asked = "\u0130stanbul".casefold()
    assert store.read(titles=[asked], limit=9).titled == [TitleMatch(asked, name) for name in titles[:3]]


@pytest.mark.parametrize("given", [{"row": None}, {"weight": "heavy"}, {"weight": 0}])
def test_edges_of_a_database_are_checked(corpus, given):
    edge = {"part": "expand", "id": "b", "near": "a", "forward": True, "row": 0, **given}
    store = CypherGraphStore(Rows({"part": "texts", "id": "a", "text": ""}, edge))
    pages = engines(corpus)[3].pages()
    with pytest.raises(DatabaseError, match="The edge from 'a' to 'b' has the position"):
        pages.take(store.read(expand=["a"], limit=9))
