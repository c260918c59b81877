"""Vectors of LlamaIndex' queries and nodes: given, embedded, and of unit length."""

import numpy as np
import pytest
from llama_index.core import Settings
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import QueryBundle, TextNode

from llama_graph_retrievers.vectors import QueryVectors, node_vectors


class Numbers(MockEmbedding):
    """The length of a text and its number of words."""

    def __init__(self):
        super().__init__(embed_dim=2)

    def _get_text_embedding(self, text):
        return [float(len(text)), float(len(text.split()))]

    _get_query_embedding = _get_text_embedding


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
    made = QueryVectors([bundle], embed, unit=True)
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
