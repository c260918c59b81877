"""LangChain's own standard tests, for every retriever class of the package."""

import functools

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests

import langchain_graph_retrievers as package
from graph_retrievers.operators import HybridSearch, Pipeline, VectorSearch
from graph_retrievers.operators.granker import GRanker
from graph_retrievers.retrievers import Retriever
from langchain_graph_retrievers import EngineRetriever, IndexRetriever
from tests.helpers import linked_index


@functools.cache
def shared_index():
    return linked_index()


class _Standard(RetrieversIntegrationTests):
    params: dict = {}

    @property
    def retriever_constructor_params(self):
        return {"index": shared_index(), **self.params}

    @property
    def retriever_query_example(self):
        return "Who wrote a program for the Analytical Engine?"


class TestGraphRetriever(_Standard):
    retriever_constructor = package.GraphRetriever

    @property
    def retriever_constructor_params(self):
        return {"retriever": Retriever(shared_index(), Pipeline(VectorSearch(5), GRanker()))}


class TestFastInsightRetriever(_Standard):
    retriever_constructor = package.FastInsightRetriever


class TestFastInsightRetrieverThatFindsLittle(_Standard):
    """One seed and a budget of one: all but the first document come from backfilling."""

    retriever_constructor = package.FastInsightRetriever
    params = {"budget": 1, "batch_size": 1}


class TestFastInsightRetrieverHybridFirst(_Standard):
    retriever_constructor = package.FastInsightRetriever
    params = {"first": HybridSearch(2, returned=False)}


class TestVectorRetriever(_Standard):
    retriever_constructor = package.VectorRetriever


class TestBM25Retriever(_Standard):
    retriever_constructor = package.BM25Retriever


class TestHybridRetriever(_Standard):
    retriever_constructor = package.HybridRetriever
    params = {"fusion": "weighted", "weights": (0.7, 0.3)}


class TestRe2Retriever(_Standard):
    retriever_constructor = package.Re2Retriever
    params = {"depth": 4}


def _concrete(cls):
    for child in cls.__subclasses__():
        if child.__module__.startswith(package.__name__):
            yield from ([] if child is IndexRetriever else [child])
            yield from _concrete(child)


@pytest.mark.parametrize("retriever", sorted(_concrete(EngineRetriever), key=lambda c: c.__name__))
def test_every_retriever_is_exported_and_stands_in_the_standard_tests(retriever):
    tested = {cls.__dict__.get("retriever_constructor") for cls in _Standard.__subclasses__()}
    assert retriever in tested
    assert retriever.__name__ in package.__all__
