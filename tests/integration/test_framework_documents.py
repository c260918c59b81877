"""Documents and nodes as both framework packages take them: ids that are missing, equal or numbers, odd texts and sizes."""

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import QueryBundle, TextNode

from graph_retrievers.errors import DimensionMismatchError, DuplicateNodeError, InvalidArgumentError, InvalidVectorError
from langchain_graph_retrievers import GraphRetriever as LangChainRetriever
from llama_graph_retrievers import GraphRetriever as LlamaRetriever

ODD = ["", "a loom", "\u0000 \u202e\ufffd", "織機 🧶", "the of and"]


def langchain(*documents, system="vector", **fields):
    return LangChainRetriever.from_documents(documents, DeterministicFakeEmbedding(size=8), system=system, **fields)


def llama(*nodes, system="vector", **options):
    return LlamaRetriever.from_defaults(nodes=list(nodes), embed_model=MockEmbedding(embed_dim=8), system=system, **options)


def test_langchain_documents_without_ids_are_named_by_position():
    made = langchain(Document("a"), Document("b", id="x"), Document("c", id=7))
    assert sorted(document.id for document in made.invoke("a")) == ["0", "7", "x"]


@pytest.mark.parametrize("ids", [("x", "x"), ("1", 1)])
def test_equal_ids_are_refused_by_name(ids):
    with pytest.raises(DuplicateNodeError, match=f"Id '{ids[0]}' is given to nodes 0 and 1"):
        langchain(*(Document("a", id=name) for name in ids))


@pytest.mark.parametrize("ids", [("1", None), (1, None), (None, 0), (None, "0")])
def test_a_document_without_an_id_does_not_take_that_of_another(ids):
    made = langchain(*(Document(text, id=name) for text, name in zip("ab", ids, strict=True)))
    found = {document.id: document.page_content for document in made.invoke("a")}
    given = {str(name): text for text, name in zip("ab", ids, strict=True) if name is not None}
    assert len(found) == 2 and given.items() <= found.items()


def test_equal_llama_index_ids_are_refused_by_name():
    with pytest.raises(DuplicateNodeError, match="Id 'x' is given to nodes 0 and 1"):
        llama(TextNode(text="a", id_="x"), TextNode(text="b", id_="x"))


@pytest.mark.parametrize("query", ["🧶", "\u0000", "the of and", "loom " * 3000])
@pytest.mark.parametrize("k", [1, 10**15])
def test_odd_texts_and_sizes(query, k):
    """All but the empty text, which is not a hit."""
    documents = [Document(text, id=f"n{i}") for i, text in enumerate(ODD)]
    nodes = [TextNode(text=text, id_=f"n{i}") for i, text in enumerate(ODD)]
    for system in ("vector", "fastinsight"):
        assert len(langchain(*documents, system=system, k=k).invoke(query)) == min(k, 4)
        assert len(llama(*nodes, system=system, similarity_top_k=k).retrieve(query)) == min(k, 4)


def test_what_is_no_document_or_node_is_refused():
    with pytest.raises(InvalidArgumentError, match="Document 1 is a str"):
        langchain(Document("a"), "b")
    with pytest.raises(InvalidArgumentError, match="Node 1 is a str"):
        llama(TextNode(text="a"), "b")


@pytest.mark.parametrize(("vector", "error"), [([1.0], DimensionMismatchError), ([float("nan")] * 8, InvalidVectorError)])
def test_query_vectors_that_do_not_fit(vector, error):
    with pytest.raises(error, match="query vectors"):
        llama(TextNode(text="a")).retrieve(QueryBundle("a", embedding=vector))
    with pytest.raises(error, match="query vectors"):
        langchain(Document("a")).invoke("a", vector=vector)
