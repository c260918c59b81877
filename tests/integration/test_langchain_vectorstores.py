"""Retrievers over vector stores that exist: nothing is embedded again, and what a store lacks is named."""

import logging
from types import SimpleNamespace

import faiss
import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from graph_retrievers.errors import DimensionMismatchError, EmptyGraphError, InvalidArgumentError, InvalidVectorError
from graph_retrievers.index import GraphIndex
from langchain_graph_retrievers import GraphRetriever
from langchain_graph_retrievers.vectorstores import read_store
from tests.integration.langchain_models import LangChainHashEmbeddings

TEXTS = {"ada": "Ada wrote a program.", "engine": "An engine of brass.", "card": "A punched card."}
DOCUMENTS = [Document(text, id=name, metadata={"year": 1843}) for name, text in TEXTS.items()]
EDGES = [("ada", "engine", "ran on")]


class Docstore:
    """LangChain's InMemoryDocstore, as far as it is public."""

    def __init__(self, documents):
        self.documents = documents

    def search(self, name):
        return self.documents.get(name, f"ID {name} not found.")


class Faiss:
    """LangChain's FAISS store, as far as its public attributes go: `index`, `docstore` and `index_to_docstore_id`."""

    def __init__(self, documents, embeddings, index=None, strategy="EUCLIDEAN_DISTANCE"):
        self.embeddings, self.distance_strategy = embeddings, f"DistanceStrategy.{strategy}"
        vectors = np.asarray(embeddings.embed_documents([d.page_content for d in documents]), dtype=np.float32)
        self.index = index or faiss.IndexFlatL2(vectors.shape[1])
        self.index.add(vectors)
        names = [d.id or f"made-{place}" for place, d in enumerate(documents)]
        self.docstore = Docstore(dict(zip(names, documents, strict=True)))
        self.index_to_docstore_id = dict(enumerate(names))


class Chroma:
    """LangChain's Chroma store, as far as `get` goes."""

    def __init__(self, documents, embeddings):
        self.embeddings = embeddings
        self.held = {
            "ids": [d.id for d in documents],
            "embeddings": np.asarray(embeddings.embed_documents([d.page_content for d in documents])),
            "documents": [d.page_content for d in documents],
            "metadatas": [dict(d.metadata) or None for d in documents],
        }

    def get(self, ids=None, where=None, limit=None, include=None):
        return {name: value if name in {"ids", *(include or ())} else None for name, value in self.held.items()}


class Shelf:
    """A store of one's own that lists its documents and vectors."""

    def __init__(self, documents, embeddings):
        self.documents, self.embeddings = documents, embeddings
        self.vectors = embeddings.embed_documents([d.page_content for d in documents])

    def documents_and_vectors(self):
        return self.documents, self.vectors


def in_memory(documents, embeddings):
    return InMemoryVectorStore.from_documents(documents, embeddings)


@pytest.mark.parametrize("make", [in_memory, Faiss, Chroma, Shelf])
def test_vectors_of_a_store_are_taken_as_they_are(make, caplog):
    embeddings = LangChainHashEmbeddings()
    store = make(DOCUMENTS, embeddings)
    asked = embeddings._hash.document_calls
    with caplog.at_level(logging.INFO, "graph_retrievers"):
        retriever = GraphRetriever.from_vectorstore(store, system="ppr", edges=EDGES, k=3)
    found = retriever.invoke("Ada wrote a program.")
    assert [d.id for d in found][:2] == ["ada", "engine"] and found[0].metadata["year"] == 1843
    assert embeddings._hash.document_calls == asked and embeddings._hash.query_calls == 1
    assert "Embedding" not in caplog.text
    built = GraphIndex.from_documents(DOCUMENTS, edges=EDGES, embedding=embeddings)
    np.testing.assert_allclose(retriever.index.dense.vectors, built.dense.vectors, atol=1e-6)
    assert retriever.index.graph.edges() == built.graph.edges()


def test_what_is_embedded_is_told_in_one_line(caplog):
    with caplog.at_level(logging.INFO, "graph_retrievers"):
        GraphRetriever.from_documents(DOCUMENTS, LangChainHashEmbeddings(), system="vector")
    assert [record.message for record in caplog.records if "mbedding" in record.message] == ["Embedding 3 texts with hash-64."]


def test_options_and_the_generic_class():
    embeddings = LangChainHashEmbeddings()
    store = in_memory(DOCUMENTS, embeddings)
    retriever = GraphRetriever.from_vectorstore(store, edges=EDGES, system="vector", k=1, bm25=False)
    assert [d.id for d in retriever.invoke("A punched card.")] == ["card"]
    assert not retriever.index.has_bm25
    other = LangChainHashEmbeddings()
    GraphRetriever.from_vectorstore(store, other, system="vector").invoke("card")
    assert (other._hash.query_calls, embeddings._hash.query_calls) == (1, 1)
    with pytest.raises(InvalidArgumentError, match="from_documents takes vectors="):
        GraphRetriever.from_vectorstore(store, system="vector", vectors=[[1.0]])


def test_the_retriever_compares_as_the_store_does():
    class Lengths(LangChainHashEmbeddings):
        """A long vector beside the query, and a short one that points the same way."""

        def embed_documents(self, texts):
            return [[9.0, 9.0] if "Ada" in text else [1.0, 0.0] for text in texts]

        def embed_query(self, text):
            return [1.0, 0.0]

    texts = DOCUMENTS[:2]
    cosine = in_memory(texts, Lengths())
    found = GraphRetriever.from_vectorstore(cosine, system="vector", provenance=True).invoke("?")
    assert [d.id for d in found] == [d.id for d in cosine.similarity_search("?")] == ["engine", "ada"]
    assert found[0].metadata["score"] == pytest.approx(1.0)
    dot = Faiss(texts, Lengths(), faiss.IndexFlatIP(2), "MAX_INNER_PRODUCT")
    assert [d.id for d in GraphRetriever.from_vectorstore(dot, system="vector").invoke("?")] == ["ada", "engine"]
    assert [d.id for d in GraphRetriever.from_vectorstore(dot, system="vector", metric="cosine").invoke("?")] == ["engine", "ada"]


def test_documents_without_ids_get_those_of_the_store():
    bare = [Document(text) for text in TEXTS.values()]
    store = in_memory(bare, LangChainHashEmbeddings())
    assert {d.id for d in GraphRetriever.from_vectorstore(store, system="vector").invoke("card")} == set(store.store)
    made = GraphRetriever.from_vectorstore(Faiss(bare, LangChainHashEmbeddings()), system="vector")
    assert [d.id for d in made.invoke("A punched card.", k=1)] == ["made-2"]
    shelf = GraphRetriever.from_vectorstore(Shelf(bare, LangChainHashEmbeddings()), system="vector")
    assert [d.id for d in shelf.invoke("A punched card.", k=1)] == ["2"]


def broken(make, change):
    store = make(DOCUMENTS, LangChainHashEmbeddings())
    change(store)
    return store


@pytest.mark.parametrize(
    ("make", "change", "error", "words"),
    [
        (in_memory, lambda s: s.store.clear(), EmptyGraphError, "InMemoryVectorStore is empty"),
        (
            in_memory,
            lambda s: s.store["card"].update(vector=None),
            InvalidVectorError,
            "Document 'card' of the store has no vector",
        ),
        (in_memory, lambda s: s.store["card"].pop("vector"), InvalidVectorError, "Document 'card' of the store has no vector"),
        (in_memory, lambda s: s.store["card"].update(vector=[1.0]), DimensionMismatchError, "'card' .* 1 dimensions.* has 64"),
        (in_memory, lambda s: s.store["card"].update(vector=[float("nan")] * 64), InvalidVectorError, "NaN"),
        (Faiss, lambda s: s.docstore.documents.pop("card"), InvalidArgumentError, "'card', which its docstore does not hold"),
        (Faiss, lambda s: s.index_to_docstore_id.pop(2), InvalidArgumentError, "holds 3 vectors.* names 2 documents"),
        (Faiss, lambda s: s.index_to_docstore_id.update({2: "ada"}), InvalidArgumentError, "the document 'ada'"),
        (Chroma, lambda s: s.held.update(embeddings=None), InvalidVectorError, "Document 'ada' of the store has no vector"),
        (Chroma, lambda s: s.held["documents"].__setitem__(1, None), InvalidArgumentError, "Document 'engine' of the store has no"),
        (Shelf, lambda s: s.vectors.pop(), DimensionMismatchError, "2 vectors for 3 documents"),
    ],
)
def test_what_a_store_lacks_is_named(make, change, error, words):
    with pytest.raises(error, match=words):
        GraphRetriever.from_vectorstore(broken(make, change), system="vector")


def test_a_faiss_index_that_keeps_no_vectors_is_named():
    store = Faiss(DOCUMENTS, LangChainHashEmbeddings())
    vectors, flat = store.index.reconstruct_n(0, 3), faiss.IndexFlatL2(64)
    store.index = faiss.IndexIDMap(flat)
    store.index.add_with_ids(vectors, np.arange(3))
    with pytest.raises(InvalidArgumentError, match="IndexIDMap does not give its vectors back.* a flat one"):
        GraphRetriever.from_vectorstore(store, system="vector")


def test_an_inverted_faiss_index_gives_its_vectors():
    inverted = faiss.IndexIVFFlat(coarse := faiss.IndexFlatL2(64), 64, 1)
    inverted.train(np.eye(64, dtype=np.float32))
    store = Faiss(DOCUMENTS, LangChainHashEmbeddings(), inverted)
    assert GraphRetriever.from_vectorstore(store, system="vector", k=1).invoke("A punched card.")[0].id == "card"
    assert coarse.ntotal == 1


def test_a_store_that_lists_nothing_is_told_what_to_do():
    with pytest.raises(InvalidArgumentError, match=r"SimpleNamespace .*documents_and_vectors\(\)"):
        GraphRetriever.from_vectorstore(SimpleNamespace(get=lambda key: None), system="vector")


def test_a_store_without_embeddings_serves_searches_by_word():
    store = Shelf(DOCUMENTS, LangChainHashEmbeddings())
    store.embeddings = None
    assert GraphRetriever.from_vectorstore(store, system="bm25", k=1).invoke("brass")[0].id == "engine"
    with pytest.raises(ValueError, match="no embedding model for queries"):
        GraphRetriever.from_vectorstore(store, system="vector").invoke("brass")


def store_of(make, documents=DOCUMENTS, change=lambda store: None, **options):
    store = make(documents, LangChainHashEmbeddings(), **options)
    change(store)
    return store


def test_places_of_faiss_may_be_listed_in_any_order():
    def shuffle(store):
        store.index_to_docstore_id = {place: store.index_to_docstore_id[place] for place in (2, 0, 1)}

    found, expected = read_store(store_of(Faiss, change=shuffle)), read_store(store_of(Faiss))
    assert [d.id for d in found.documents] == [d.id for d in expected.documents] == ["ada", "engine", "card"]
    assert np.array_equal(found.vectors, expected.vectors)
    retriever = GraphRetriever.from_vectorstore(store_of(Faiss, change=shuffle), system="vector", k=1)
    assert [retriever.invoke(d.page_content)[0].id for d in DOCUMENTS] == ["ada", "engine", "card"]


@pytest.mark.parametrize("places", [{0: "ada", 1: "engine", 3: "card"}, {1: "ada", 2: "engine", 3: "card"}, {0: "ada"}, {}])
def test_places_of_faiss_that_do_not_fit_its_vectors(places):
    store = store_of(Faiss, change=lambda store: setattr(store, "index_to_docstore_id", places))
    with pytest.raises(InvalidArgumentError, match=f"holds 3 vectors.* names {len(places)} documents"):
        read_store(store)


@pytest.mark.parametrize(
    ("held", "name", "identity"), [("own", "place", "own"), (None, "place", "place"), (None, 7, "7"), (None, None, None)]
)
def test_ids_of_documents_in_faiss(held, name, identity):
    def rename(store):
        store.docstore.documents = {name: Document("text", id=held)}
        store.index_to_docstore_id = {0: name}

    (document,) = read_store(store_of(Faiss, DOCUMENTS[:1], rename)).documents
    assert document.id == identity


class Turned(LangChainHashEmbeddings):
    """Vectors of different lengths, of which the order by L2, by dot product and by cosine are three."""

    vectors = {"Ada": [9.0, 9.0], "An": [0.9, 0.7], "A": [0.2, 0.0]}

    def embed_documents(self, texts):
        return [self.vectors[text.split()[0]] for text in texts]

    def embed_query(self, text):
        return [1.0, 0.0]


class Equal(Turned):
    """Vectors of length 3."""

    vectors = {"Ada": [0.0, 3.0], "An": [1.8, 2.4], "A": [3.0, 0.0]}


def by_faiss(store, question="A card of brass"):
    """The ids in the order of the store's own index, as LangChain asks it."""
    _, places = store.index.search(np.array([store.embeddings.embed_query(question)], np.float32), 3)
    return [store.index_to_docstore_id[place] for place in places[0]]


@pytest.mark.parametrize(
    ("embeddings", "index", "metric"),
    [
        (LangChainHashEmbeddings(), faiss.IndexFlatL2(64), "cosine"),
        (LangChainHashEmbeddings(), faiss.IndexFlatIP(64), "dot"),
        (Equal(), faiss.IndexFlatL2(2), "cosine"),
        (Equal(), faiss.IndexFlatIP(2), "dot"),
        (Turned(), faiss.IndexFlatIP(2), "dot"),
    ],
)
# LangChain makes an index of L2 for the strategy of cosines too.
@pytest.mark.parametrize("strategy", ["MAX_INNER_PRODUCT", "EUCLIDEAN_DISTANCE", "COSINE"])
def test_the_order_of_faiss_is_kept(embeddings, index, metric, strategy, caplog):
    store = Faiss(DOCUMENTS, embeddings, faiss.clone_index(index), strategy)
    retriever = GraphRetriever.from_vectorstore(store, system="vector")
    assert [d.id for d in retriever.invoke("A card of brass")] == by_faiss(store)
    assert retriever.index.dense.metric == metric and caplog.text == ""


@pytest.mark.parametrize("strategy", ["EUCLIDEAN_DISTANCE", "COSINE"])
def test_l2_distances_between_vectors_of_different_lengths_are_refused(strategy):
    store = Faiss(DOCUMENTS, Turned(), faiss.IndexFlatL2(2), strategy)
    with pytest.raises(
        InvalidArgumentError, match=r"different lengths \(0.2 to 12.72792\) by Euclidean distance; .*normalize_L2=True"
    ):
        GraphRetriever.from_vectorstore(store, system="vector")
    orders = [
        [d.id for d in GraphRetriever.from_vectorstore(store, system="vector", metric=m).invoke("?")] for m in ("cosine", "dot")
    ]
    assert orders == [["card", "engine", "ada"], ["ada", "engine", "card"]] and by_faiss(store) == ["engine", "card", "ada"]
    with pytest.raises(InvalidArgumentError, match="compares vectors by faiss' metric 2"):
        GraphRetriever.from_vectorstore(Faiss(DOCUMENTS, Turned(), faiss.IndexFlat(2, faiss.METRIC_L1)), system="vector")
    with pytest.raises(InvalidArgumentError, match="compares vectors by Hamming distance"):
        GraphRetriever.from_vectorstore(Faiss(DOCUMENTS, Turned(), faiss.IndexLSH(2, 8)), system="vector")
    # Words are searched all the same.
    words = GraphRetriever.from_texts([d.page_content for d in DOCUMENTS], system="bm25", ids=[d.id for d in DOCUMENTS], edges=[])
    for made in (GraphRetriever.from_vectorstore(store, system="bm25"), GraphRetriever.from_vectorstore(store, system="bm25")):
        assert [d.id for d in made.invoke("brass")] == [d.id for d in words.invoke("brass")]


@pytest.mark.parametrize("length", [1 + 1e-6, 1 + 1e-4])
def test_lengths_that_change_the_order_are_refused(length):
    """By L2 distance, a vector of a larger length is further away than another at the same angle."""
    store = Faiss(DOCUMENTS[:2], LangChainHashEmbeddings(), faiss.IndexFlatL2(64))
    vectors = store.index.reconstruct_n(0, 2) * np.array([[1], [length]], np.float32)
    store.index.reset()
    store.index.add(vectors)
    if length - 1 < 1e-5:
        assert GraphRetriever.from_vectorstore(store, system="vector").index.dense.metric == "cosine"
    else:
        with pytest.raises(InvalidArgumentError, match=r"different lengths \(1 to 1.0001\)"):
            GraphRetriever.from_vectorstore(store, system="vector")


def test_a_vector_of_zeros_does_not_make_lengths_different():
    store = Faiss(DOCUMENTS[:2], LangChainHashEmbeddings(), faiss.IndexFlatL2(64))
    vectors = store.index.reconstruct_n(0, 2) * np.array([[1], [0]], np.float32)
    store.index.reset()
    store.index.add(vectors)
    assert GraphRetriever.from_vectorstore(store, system="vector").index.dense.metric == "cosine"


@pytest.mark.parametrize(
    ("collection", "metric"),
    [
        (SimpleNamespace(metadata=None, configuration_json={"hnsw": {"space": "l2"}, "spann": None}), None),
        (SimpleNamespace(metadata={"hnsw:space": "l2"}), None),
        (SimpleNamespace(metadata={"hnsw:space": "ip"}), "dot"),
        (SimpleNamespace(metadata={}, configuration={"hnsw": None, "spann": {"space": "cosine"}}), "cosine"),
    ],
)
def test_how_chroma_compares(collection, metric):
    store = Chroma(DOCUMENTS, Turned())
    store._collection = collection
    if metric is None:
        with pytest.raises(InvalidArgumentError, match="The Chroma compares vectors of different lengths"):
            GraphRetriever.from_vectorstore(store, system="vector")
    else:
        assert GraphRetriever.from_vectorstore(store, system="vector").index.dense.metric == metric


def test_how_other_stores_compare():
    assert [read_store(store_of(make)).metric for make in (in_memory, Chroma, Shelf)] == ["cosine", None, None]


@pytest.mark.parametrize("make", [in_memory, Faiss, Chroma, Shelf])
def test_one_document_and_none(make):
    found = read_store(store_of(make, DOCUMENTS[:1]))
    assert [(d.id, d.page_content, d.metadata) for d in found.documents] == [("ada", "Ada wrote a program.", {"year": 1843})]
    assert found.vectors.shape == (1, 64) and found.vectors.dtype == np.float32
    empty = store_of(make, DOCUMENTS[:1])
    if make is Faiss:
        empty.index, empty.index_to_docstore_id = faiss.IndexFlatL2(64), {}
    elif make is Chroma:
        empty.held = {"ids": [], "embeddings": None, "documents": None, "metadatas": None}
    elif make is Shelf:
        empty.documents, empty.vectors = iter(()), []
    else:
        empty.store.clear()
    with pytest.raises(EmptyGraphError, match=f"The {type(empty).__name__} is empty"):
        read_store(empty)


def test_chroma_without_metadata_or_texts():
    assert [d.metadata for d in read_store(store_of(Chroma, change=lambda s: s.held.update(metadatas=None))).documents] == [{}] * 3
    mixed = store_of(Chroma, change=lambda s: s.held.update(metadatas=[None, {}, {"a": 1}]))
    assert [d.metadata for d in read_store(mixed).documents] == [{}, {}, {"a": 1}]
    with pytest.raises(InvalidArgumentError, match="Document 'ada' of the store has no text"):
        read_store(store_of(Chroma, change=lambda s: s.held.update(documents=None)))


@pytest.mark.parametrize(
    ("vectors", "error"),
    [
        ([[1, 2], [3, 4], None], "Document 2 of the store has no vector"),
        ([[1, 2], [], [3, 4]], "Document 1 of the store has no vector"),
    ],
)
def test_a_document_without_an_id_is_named_by_its_place(vectors, error):
    bare = [Document(d.page_content) for d in DOCUMENTS]
    with pytest.raises(InvalidVectorError, match=error):
        read_store(store_of(Shelf, bare, lambda store: setattr(store, "vectors", vectors)))


def test_vectors_of_other_shapes_and_numbers():
    store = store_of(Shelf, change=lambda store: setattr(store, "vectors", [[1, 2], np.array([[3.5], [4]]), [[5, 6]]]))
    found = read_store(store).vectors
    assert (found.dtype, found.tolist()) == (np.float32, [[1, 2], [3.5, 4], [5, 6]])


def test_a_store_that_lists_vectors_itself_is_asked_first():
    class Both(Chroma, Shelf):
        def __init__(self, documents, embeddings):
            Chroma.__init__(self, documents, embeddings)
            Shelf.__init__(self, documents[:1], embeddings)

    assert len(read_store(store_of(Both)).documents) == 1


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"get": 3},
        {"get": lambda ids: None},
        {"docstore": 1, "index": 2},
        {"docstore": 1, "index_to_docstore_id": {}},
        {"index": 2, "index_to_docstore_id": {}},
    ],
)
def test_what_is_no_store(attributes):
    with pytest.raises(InvalidArgumentError, match="SimpleNamespace is not a store whose vectors can be listed"):
        read_store(SimpleNamespace(**attributes))
