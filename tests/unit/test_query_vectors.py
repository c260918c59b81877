"""Queries of a call and their vectors: what is taken, and what is refused."""

import numpy as np
import pytest
import torch

from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import VectorSearch
from tests.helpers import linked_index


@pytest.mark.parametrize(
    ("vector", "error"),
    [
        (np.ones((2, 32)), DimensionMismatchError),
        (np.ones((1, 64)), DimensionMismatchError),
        (torch.ones(2, 32), DimensionMismatchError),
        ("abc", DimensionMismatchError),
        ([None] * 64, (DimensionMismatchError, InvalidVectorError)),
        ([float("nan")] * 64, InvalidVectorError),
        ([float("inf")] * 64, InvalidVectorError),
    ],
)
def test_query_vectors_that_are_none(vector, error):
    with pytest.raises(error, match="query vectors"):
        Retriever(linked_index(), "vector").retrieve("loom", vector=vector)


def test_one_vector_a_query_whatever_the_batch_size():
    retriever = Retriever(linked_index(), "vector", batch_size=4)
    for count in (3, 4, 8):
        with pytest.raises(DimensionMismatchError, match=r"expected \[5, d\]"):
            retriever.retrieve_batch(["loom"] * 5, vectors=np.ones((count, 64)))
    with pytest.raises(DimensionMismatchError, match=r"expected \[4, d\]"):
        retriever.retrieve_batch(["loom"] * 4, vectors=np.ones((6, 64)))


@pytest.mark.parametrize("queries", ["loom", None, (text for text in ["loom"])])
def test_a_batch_is_a_list(queries):
    with pytest.raises(InvalidArgumentError, match="list of queries"):
        Retriever(linked_index(), "vector").retrieve_batch(queries)


def test_a_function_gives_the_vectors_of_a_batch():
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0, 0.0], [0.0, 1.0]])
    retriever, asked = Retriever(index, "vector", k=1, batch_size=2), []

    def vectors(texts):
        asked.append(texts)
        return [[1.0, 0.0] if text == "loom" else [0.0, 1.0] for text in texts]

    found = retriever.retrieve_batch(["loom", "card", "loom"], vectors=vectors)
    assert [hits[0].id for hits in found] == ["0", "1", "0"] and asked == [["loom", "card"], ["loom"]]
    with pytest.raises(DimensionMismatchError):
        retriever.retrieve_batch(["loom"], vectors=len)
    with pytest.raises(InvalidArgumentError, match="vectors is the class list"):
        retriever.retrieve_batch(["loom"], vectors=list)


def test_a_query_with_half_of_a_surrogate_pair_is_refused_before_it_is_embedded():
    asked = []
    index = GraphIndex.from_texts(["a loom"], embedding=lambda texts: asked.append(texts) or [[1.0]] * len(texts))
    with pytest.raises(InvalidArgumentError, match="a query is not valid Unicode"):
        Retriever(index, "vector").retrieve("loom \ud800")
    assert asked == [["a loom"]]


def test_vectors_as_tensors_that_hold_no_numbers_or_gradients():
    index = linked_index()
    row = torch.full((64,), 0.125)
    for given in ([row.clone().requires_grad_(), row], torch.stack([row, row]).requires_grad_()):
        found = Retriever(index, "vector").retrieve_batch(["loom", "card"], vectors=given)
        assert [hit.id for hit in found[0]] == [hit.id for hit in Retriever(index, "vector").retrieve("loom", vector=row)]
    for vector in (row.to_sparse(), row.to("meta")):
        with pytest.raises(DimensionMismatchError, match="query vectors"):
            Retriever(index, "vector").retrieve("loom", vector=vector)


@pytest.mark.parametrize("kind", [list, torch.tensor])
def test_each_query_of_many_batches_has_its_own_vector(kind):
    index = GraphIndex.from_texts(["text"] * 5, vectors=torch.eye(5), bm25=False)
    vectors = torch.eye(5).flip(0).tolist()
    found = Retriever(index, VectorSearch(), batch_size=2).retrieve_batch(["q"] * 5, 1, vectors=kind(vectors))
    assert [hits[0].id for hits in found] == ["4", "3", "2", "1", "0"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_further_input_has_one_value_for_each_query(count):
    retriever = Retriever(linked_index(), "spreading(gate='uniform')")
    with pytest.raises(InvalidArgumentError, match=f"entities has {count} entries for 2 queries"):
        retriever.retrieve_batch(["loom", "engine"], entities=[["IBM"]] * count)


def test_vectors_given_as_a_function_embed_other_texts():
    index = GraphIndex.from_texts(["a", "b"], vectors=[[1.0, 0.0], [0.0, 1.0]])
    queries = Queries.of(index, ["q"], vectors=lambda texts: [[float(len(text)), 0.0] for text in texts])
    assert queries.embed(["loom"]).tolist() == [[4.0, 0.0]]


def test_an_input_is_not_one_string():
    from graph_retrievers import MoR

    with pytest.raises(InvalidArgumentError, match="one value for each query"):
        Retriever(linked_index(), MoR()).retrieve_batch(["a", "b"], plan="ab")
