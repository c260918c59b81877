"""What is read out of a LangChain vector store, rule by rule."""

from types import SimpleNamespace

import faiss
import numpy as np
import pytest
from langchain_core.documents import Document

from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError, InvalidVectorError
from langchain_graph_retrievers import ListsVectors, VectorRetriever
from langchain_graph_retrievers.vectorstores import read_store
from tests.integration.langchain_models import LangChainHashEmbeddings
from tests.integration.test_langchain_vectorstores import DOCUMENTS, Chroma, Faiss, Shelf, in_memory


def stored(make, documents=DOCUMENTS, change=lambda store: None, **options):
    store = make(documents, LangChainHashEmbeddings(), **options)
    change(store)
    return store


def test_places_of_faiss_may_be_listed_in_any_order():
    def shuffle(store):
        store.index_to_docstore_id = {place: store.index_to_docstore_id[place] for place in (2, 0, 1)}

    found, expected = read_store(stored(Faiss, change=shuffle)), read_store(stored(Faiss))
    assert [d.id for d in found.documents] == [d.id for d in expected.documents] == ["ada", "engine", "card"]
    assert np.array_equal(found.vectors, expected.vectors)
    retriever = VectorRetriever.from_vectorstore(stored(Faiss, change=shuffle), k=1)
    assert [retriever.invoke(d.page_content)[0].id for d in DOCUMENTS] == ["ada", "engine", "card"]


@pytest.mark.parametrize("places", [{0: "ada", 1: "engine", 3: "card"}, {1: "ada", 2: "engine", 3: "card"}, {0: "ada"}, {}])
def test_places_of_faiss_that_do_not_fit_its_vectors(places):
    store = stored(Faiss, change=lambda store: setattr(store, "index_to_docstore_id", places))
    with pytest.raises(InvalidArgumentError, match=f"holds 3 vectors.* names {len(places)} documents"):
        read_store(store)


@pytest.mark.parametrize(
    ("held", "name", "identity"), [("own", "place", "own"), (None, "place", "place"), (None, 7, "7"), (None, None, None)]
)
def test_ids_of_documents_in_faiss(held, name, identity):
    def rename(store):
        store.docstore.documents = {name: Document("text", id=held)}
        store.index_to_docstore_id = {0: name}

    (document,) = read_store(stored(Faiss, DOCUMENTS[:1], rename)).documents
    assert document.id == identity


@pytest.mark.parametrize(
    ("strategy", "metric"),
    [("MAX_INNER_PRODUCT", "dot"), ("EUCLIDEAN_DISTANCE", None), ("COSINE", None), (None, None)],
)
def test_how_faiss_compares(strategy, metric):
    store = stored(Faiss, strategy=strategy)
    if strategy is None:
        del store.distance_strategy
    assert read_store(store).metric == metric


def test_how_other_stores_compare():
    assert [read_store(stored(make)).metric for make in (in_memory, Chroma, Shelf)] == ["cosine", None, None]


@pytest.mark.parametrize("make", [in_memory, Faiss, Chroma, Shelf])
def test_one_document_and_none(make):
    found = read_store(stored(make, DOCUMENTS[:1]))
    assert [(d.id, d.page_content, d.metadata) for d in found.documents] == [("ada", "Ada wrote a program.", {"year": 1843})]
    assert found.vectors.shape == (1, 64) and found.vectors.dtype == np.float32
    empty = stored(make, DOCUMENTS[:1])
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
    assert [d.metadata for d in read_store(stored(Chroma, change=lambda s: s.held.update(metadatas=None))).documents] == [{}] * 3
    mixed = stored(Chroma, change=lambda s: s.held.update(metadatas=[None, {}, {"a": 1}]))
    assert [d.metadata for d in read_store(mixed).documents] == [{}, {}, {"a": 1}]
    with pytest.raises(InvalidArgumentError, match="Document 'ada' of the store has no text"):
        read_store(stored(Chroma, change=lambda s: s.held.update(documents=None)))


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
        read_store(stored(Shelf, bare, lambda store: setattr(store, "vectors", vectors)))


def test_vectors_of_other_shapes_and_numbers():
    store = stored(Shelf, change=lambda store: setattr(store, "vectors", [[1, 2], np.array([[3.5], [4]]), [[5, 6]]]))
    found = read_store(store).vectors
    assert (found.dtype, found.tolist()) == (np.float32, [[1, 2], [3.5, 4], [5, 6]])


def test_a_store_that_lists_vectors_itself_is_asked_first():
    class Both(Chroma, Shelf):
        def __init__(self, documents, embeddings):
            Chroma.__init__(self, documents, embeddings)
            Shelf.__init__(self, documents[:1], embeddings)

    assert isinstance(stored(Both), ListsVectors) and len(read_store(stored(Both)).documents) == 1


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
