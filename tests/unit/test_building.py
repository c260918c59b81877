"""What an index is built of: columns, ids, metadata and vectors that are refused, and what it keeps of its own."""

import numpy as np
import pytest
import torch

from graph_retrievers import Retriever
from graph_retrievers.errors import DimensionMismatchError, EmptyGraphError, InvalidArgumentError, InvalidVectorError
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.systems.baselines import Vector
from tests.apples import VECTORS, embed, index


@pytest.mark.parametrize("columns", [{"texts": "ab"}, {"ids": "ab"}, {"titles": "ab"}, {"texts": {"a": "x", "b": "y"}}])
def test_columns_that_are_not_lists(columns):
    with pytest.raises(InvalidArgumentError, match="is a (str|dict); pass a list with one entry per text"):
        GraphIndex.from_texts(**{"texts": ["a", "b"], **columns})


def test_metadata_and_ids_of_another_type():
    with pytest.raises(InvalidArgumentError, match=r"metadata\[1\] is None"):
        GraphIndex.from_texts(["a", "b"], metadatas=[{}, None])
    with pytest.raises(InvalidArgumentError, match="id 1; ids are non-empty strings"):
        GraphIndex.from_texts(["a", "b"], ids=[1, 2])


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e30, -1e16])
def test_vectors_whose_products_are_no_numbers(number):
    with pytest.raises(InvalidVectorError, match=r"vectors\[1\] holds NaN or infinity"):
        GraphIndex.from_texts(["a", "b"], vectors=[[1.0, 2.0], [0.0, number]])


def test_vectors_without_dimensions():
    with pytest.raises(DimensionMismatchError, match="no dimensions"):
        GraphIndex.from_texts(["a", "b"], vectors=np.zeros((2, 0)))


def test_an_index_keeps_its_vectors_and_metadata():
    vectors = torch.eye(2)
    index = GraphIndex.from_nodes([Node("a", "x", metadata={"tags": ["t"]}), Node("b", "y")], vectors=vectors)
    vectors.copy_(vectors.flip(0))
    hit = Retriever(index, "vector").retrieve("q", vector=[1.0, 0.0])[0]
    hit.metadata["tags"].append("u")
    assert hit.id == "a" and index.graph.metadata[0] == {"tags": ["t"]}


def test_nodes_that_are_not_nodes():
    with pytest.raises(InvalidArgumentError, match=r"Expected a Node, got \('a', 'b'\)"):
        GraphIndex.from_nodes([("a", "b")])


def test_what_no_system_can_name_is_not_a_folder():
    for folder in ("x" * 5000, "\0", "\ud800", 5, None):
        with pytest.raises(InvalidArgumentError, match="cannot be a path"):
            GraphIndex.load(folder)


def test_an_integer_of_thousands_of_digits_is_refused_before_it_is_saved():
    with pytest.raises(InvalidArgumentError, match="16610 bits; expected at most 8192"):
        GraphIndex.from_nodes([Node("a", "x", metadata={"n": 10**5000})])
    assert GraphIndex.from_nodes([Node("a", "x", metadata={"n": 2**64})]).graph.metadata == [{"n": 2**64}]


@pytest.mark.parametrize("given", [["a"], None, "a graph"])
def test_what_is_not_a_graph_is_refused(given):
    with pytest.raises(InvalidArgumentError, match="expected a CorpusGraph"):
        GraphIndex.from_graph(given)


def test_an_empty_corpus_is_refused():
    with pytest.raises(EmptyGraphError, match="at least one node"):
        GraphIndex.from_texts([], embedding=embed)
    with pytest.raises(EmptyGraphError):
        GraphIndex(CorpusGraph([], []))


def test_vectors_of_another_number_or_width_are_refused():
    with pytest.raises(DimensionMismatchError, match=r"\[5, 6\]"):
        index(vectors=VECTORS[:5])
    with pytest.raises(DimensionMismatchError, match="3 dimensions, the index has 6"):
        Retriever(index(), Vector()).retrieve("apple", vector=[1.0, 2.0, 3.0])
    with pytest.raises(DimensionMismatchError, match="cannot be read"):
        index(vectors=[[1.0], [1.0, 2.0]] * 3)
