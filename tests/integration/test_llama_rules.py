"""Nodes of LlamaIndex stores, vectors of queries, and filters by text, rule by rule."""

from types import SimpleNamespace

import numpy as np
import pytest
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.graph.filters import filter_mask
from llama_graph_retrievers.metadata_filters import engine_filter
from llama_graph_retrievers.stores import index_nodes
from llama_graph_retrievers.vectors import QueryVectors, node_vectors
from tests.integration.test_llama_stores import FaissStore, ListingStore, stored

# -- nodes of a store ------------------------------------------------------------------------------------------------------


class Numbers(MockEmbedding):
    """The length of a text and its number of words."""

    def __init__(self):
        super().__init__(embed_dim=2)

    def _get_text_embedding(self, text):
        return [float(len(text)), float(len(text.split()))]

    _get_query_embedding = _get_text_embedding


def listed(index):
    return [(node.node_id, node.embedding) for node in index_nodes(index)]


def test_nodes_come_in_the_order_of_the_store_with_its_vectors():
    nodes = [TextNode(id_=name, text=name * 2) for name in ("b", "a", "c")]
    index = VectorStoreIndex(nodes, embed_model=Numbers())
    assert listed(index) == [("b", [2.0, 1.0]), ("a", [2.0, 1.0]), ("c", [2.0, 1.0])]
    assert index.docstore.get_node("b").embedding is None, "the nodes of the index stay as they are"
    index.docstore.delete_document("a")
    assert [name for name, _ in listed(index)] == ["b", "c"]


def test_vectors_of_faiss_are_those_of_its_numbers():
    index = stored(FaissStore(), Numbers())
    texts = {node.node_id: node.get_content("embed") for node in index.docstore.docs.values()}
    assert listed(index) == [(name, [len(texts[name]), len(texts[name].split())]) for name, _ in listed(index)]
    assert {type(value) for _, vector in listed(index) for value in vector} == {float}
    assert len(listed(index)) == len(texts) > 5


def test_a_store_of_vectors_that_gives_none_back():
    for client, keys in (
        (SimpleNamespace(), ["0", "1"]),
        (SimpleNamespace(reconstruct=None), ["0", "x"]),
    ):
        index = VectorStoreIndex([TextNode(id_=name, text=name) for name in "ab"], embed_model=Numbers(), store_nodes_override=True)
        index._vector_store = FaissStore()
        index._vector_store._index = client
        index.index_struct.nodes_dict = dict(zip(keys, "ab", strict=True))
        assert listed(index) == [("a", None), ("b", None)]


@pytest.mark.parametrize("options", [{}, {"chroma": True, "vectors": False}])
def test_all_nodes_of_a_store_are_listed_whatever_its_limit(options):
    index = stored(ListingStore(**options), Numbers())
    held = {name: node.embedding for name, node in index.vector_store._nodes.items()}
    assert dict(listed(index)) == held and len(held) > 5
    assert all(type(value) is float for _, vector in listed(index) for value in vector)


def test_a_store_without_a_limit_of_its_own():
    class Plain(ListingStore):
        def get_nodes(self, node_ids, filters=None):
            assert node_ids is None
            return iter(list(self._nodes.values()))

    assert len(listed(stored(Plain(), Numbers()))) > 5


@pytest.mark.parametrize("module", ["chromadb.api", "chromadb_like.api", "other"])
def test_vectors_are_asked_of_chroma_only_where_nodes_lack_them(module):
    class Client:
        def get(self, include):
            raise AssertionError("asked")

    Client.__module__ = module

    class Listing(ListingStore):
        @property
        def client(self):
            return Client()

    assert all(vector is not None for _, vector in listed(stored(Listing(), Numbers())))
    without = stored(Listing(vectors=False), Numbers())
    if module == "chromadb.api":
        with pytest.raises(AssertionError, match="asked"):
            listed(without)
    else:
        assert {vector for _, vector in listed(without)} == {None}


def test_a_store_that_does_not_list_says_why():
    with pytest.raises(
        InvalidArgumentError, match=r"ListingStore does not list its nodes \(NotImplementedError: .*pass them as nodes="
    ):
        listed(stored(ListingStore(lists=False), Numbers()))


# -- vectors of queries ----------------------------------------------------------------------------------------------------


def embed(texts):
    return [[float(len(text)), 1.0] for text in texts]


def refuse(texts):
    raise AssertionError(f"asked for {texts}")


@pytest.mark.parametrize(
    ("bundle", "vector", "unit"),
    [
        (QueryBundle("four"), [4, 1], [4 / 17**0.5, 1 / 17**0.5]),
        (QueryBundle("four", embedding=[3, 4]), [3, 4], [0.6, 0.8]),
        (QueryBundle("four", embedding=[1.0, 0.0]), [1, 0], [1, 0]),
        (QueryBundle("four", custom_embedding_strs=["a", " abc "]), [2, 1], [2 / 5**0.5, 1 / 5**0.5]),
        (QueryBundle(" four \n"), [4, 1], [4 / 17**0.5, 1 / 17**0.5]),
    ],
)
def test_the_vector_of_a_query(bundle, vector, unit):
    given = bundle.embedding
    made = QueryVectors([bundle], None, embed, unit=True)
    np.testing.assert_allclose(np.asarray(made), [unit], rtol=1e-6)
    assert bundle.embedding == (given or vector), "as the model gave it, for whatever reads it next"
    np.testing.assert_allclose(np.asarray(QueryVectors([bundle], refuse)), [vector], rtol=1e-6)


def test_queries_of_a_batch_are_embedded_once_and_each_by_its_own_strings():
    asked = []

    def model(texts):
        asked.append(list(texts))
        return embed(texts)

    strings = ["a", "abc"]
    bundles = [QueryBundle("x", custom_embedding_strs=strings), QueryBundle("y", embedding=[9.0, 9.0]), QueryBundle("four")]
    vectors = QueryVectors(bundles, model)
    assert (
        np.asarray(vectors, dtype=np.float64).tolist() == [[2, 1], [9, 9], [4, 1]]
        and np.asarray(vectors, np.float16).dtype == np.float16
    )
    assert [text for texts in asked for text in texts] == ["a", "abc", "four"] and len(vectors) == 3
    assert vectors([" x", "y ", "four"]) == [[2, 1], [9, 9], [4, 1]]
    assert np.asarray(vectors(["x", "y"])).tolist() == [[1, 1], [1, 1]], "other texts than the queries"
    assert [text for texts in asked for text in texts][3:] == ["x", "y"]


def test_parts_of_the_vectors_are_scaled_like_the_whole():
    vectors = QueryVectors([QueryBundle(name, embedding=[3.0, 4.0]) for name in "abc"], refuse, unit=True)
    np.testing.assert_allclose(vectors[1], [0.6, 0.8], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(vectors[1:]), [[0.6, 0.8]] * 2, rtol=1e-6)
    assert len(vectors[1:]) == 2 and list(QueryVectors([QueryBundle("a", embedding=[3.0, 4.0])])[0]) == [3, 4]
    waiting = QueryVectors([QueryBundle("a"), QueryBundle("four", embedding=[1.0, 2.0])], refuse)
    assert list(waiting[1]) == [1, 2], "only what is read is embedded"


def test_the_model_of_the_settings_is_the_last_resort(monkeypatch):
    monkeypatch.setattr(Settings, "_embed_model", Numbers())
    assert np.asarray(QueryVectors([QueryBundle("two words")], None)).tolist() == [[9, 2]]
    nodes = [TextNode(text="two words"), TextNode(text="x", embedding=[3.0, 4.0])]
    np.testing.assert_allclose(node_vectors(nodes, None), [[9 / 85**0.5, 2 / 85**0.5], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(node_vectors(nodes, embed), [[9 / 82**0.5, 1 / 82**0.5], [0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(node_vectors(nodes[1:], refuse), [[0.6, 0.8]], rtol=1e-6)


# -- filters by text -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "wanted", "found"),
    [
        ("text_match_insensitive", "ada", "ab"),
        ("text_match_insensitive", "ADA L", "ab"),
        ("text_match_insensitive", "", "abeg"),
        ("text_match_insensitive", "18", ""),
        ("text_match_insensitive", "straße", "e"),
        ("text_match", "Ada", "ad"),
        ("text_match", "ada", "b"),
        ("text_match", "18", ""),
        ("is_empty", None, "fgx"),
        ("any", ["Ada", "B"], "ad"),
        ("all", ["Ada", "B"], "d"),
        ("all", [], "abcdefg"),
    ],
)
def test_text_filters(operator, wanted, found):
    names = {"a": "Ada Lovelace", "b": "ada lovelace", "c": 1843, "d": ["Ada", "B"], "e": "Auf der STRAßE", "f": [], "g": ""}
    nodes = [Node(name, "text", metadata={"name": value}) for name, value in names.items()]
    graph = CorpusGraph.from_nodes([*nodes, Node("x", "text", metadata={"other": "Ada Lovelace"})])
    part = MetadataFilter(key="name", value=wanted, operator=FilterOperator(operator))
    mask = filter_mask(graph, engine_filter(MetadataFilters(filters=[part]), graph))
    assert "".join(graph.ids[row] for row in mask.nonzero().flatten().tolist()) == found
