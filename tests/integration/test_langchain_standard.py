"""LangChain's own standard tests, for every retriever class of the package."""

import functools
from itertools import chain

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

import langchain_graph_retrievers as package
from graph_retrievers.operators import HybridSearch, Pipeline, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.stores.cypher import CypherSpreadingActivation, write_graph
from graph_retrievers.systems import SpreadingActivation
from graph_retrievers.systems.fastinsight import GRanker
from langchain_graph_retrievers import EngineRetriever, IndexRetriever
from tests.helpers import HashEmbedding, linked_index
from tests.integration.langchain_models import RemoteRetriever


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
    params = {"budget": 1, "nodes_per_round": 1}


class TestFastInsightRetrieverHybridFirst(_Standard):
    retriever_constructor = package.FastInsightRetriever
    params = {"first": HybridSearch(2, returned=False)}


class TestWalkFusionRetriever(_Standard):
    retriever_constructor = package.WalkFusionRetriever


class TestLightRAGRetriever(_Standard):
    retriever_constructor = package.LightRAGRetriever


class TestLinearRAGRetriever(_Standard):
    retriever_constructor = package.LinearRAGRetriever


class TestPathRAGRetriever(_Standard):
    retriever_constructor = package.PathRAGRetriever


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


class TestGARRetriever(_Standard):
    retriever_constructor = package.GARRetriever
    params = {"budget": 6, "nodes_per_round": 2}


class TestPPRRetriever(_Standard):
    retriever_constructor = package.PPRRetriever
    params = {"seeds": 2}


class TestPPRRetrieverFromSeedsAlone(_Standard):
    retriever_constructor = package.PPRRetriever
    params = {"passage_weight": 0, "seeds": 1}


class TestSpreadingActivationRetriever(_Standard):
    retriever_constructor = package.SpreadingActivationRetriever


class TestSpreadingActivationRetrieverFused(_Standard):
    retriever_constructor = package.SpreadingActivationRetriever
    params = {"gate": "uniform", "fuse": True, "chains": "path"}


class TestEagerRetriever(_Standard):
    retriever_constructor = package.EagerRetriever


class TestMMRRetriever(_Standard):
    retriever_constructor = package.MMRRetriever


class TestScoredRetriever(_Standard):
    retriever_constructor = package.ScoredRetriever


class TestHyDERetriever(_Standard):
    retriever_constructor = package.HyDERetriever


class TestDecompositionRetriever(_Standard):
    retriever_constructor = package.DecompositionRetriever


class TestIRCoTRetriever(_Standard):
    retriever_constructor = package.IRCoTRetriever


class TestGRAGRetriever(_Standard):
    """Without a checkpoint."""

    retriever_constructor = package.GRAGRetriever


class TestPathRerankingRetriever(_Standard):
    """Without a relevance model."""

    retriever_constructor = package.PathRerankingRetriever


class TestLeSeGRRetriever(_Standard):
    """Without a checkpoint."""

    retriever_constructor = package.LeSeGRRetriever


class TestGRetrieverRetriever(_Standard):
    retriever_constructor = package.GRetrieverRetriever
    params = {"seed_edges": 0}


class TestHippoRAGRetriever(_Standard):
    """An index without a signal over edges: dense ranking."""

    retriever_constructor = package.HippoRAGRetriever


class TestMoRRetriever(_Standard):
    """No plan is given and there is no planner: text retrieval."""

    retriever_constructor = package.MoRRetriever


class TestGraphRetrieverThatIsAwaited(_Standard):
    retriever_constructor = package.GraphRetriever

    @property
    def retriever_constructor_params(self):
        return {"retriever": RemoteRetriever(SpreadingActivation(shared_index()))}


class TestGraphRetrieverInADatabase(_Standard):
    """Against a server."""

    retriever_constructor = package.GraphRetriever

    @pytest.fixture(autouse=True)
    def written(self, database):
        write_graph(database, shared_index())
        self.engine = CypherSpreadingActivation(database, embedding=HashEmbedding(), gate="uniform")

    @property
    def retriever_constructor_params(self):
        return {"retriever": self.engine}


def _subclasses(cls):
    own = [child for child in cls.__subclasses__() if child.__module__.startswith(package.__name__)]
    return own + list(chain.from_iterable(map(_subclasses, own)))


@pytest.mark.parametrize(
    "retriever",
    sorted(set(_subclasses(BaseRetriever)) - {EngineRetriever, IndexRetriever}, key=lambda c: c.__name__),
)
def test_every_retriever_is_exported_and_stands_in_the_standard_tests(retriever):
    tested = {cls.__dict__.get("retriever_constructor") for cls in _Standard.__subclasses__()}
    assert retriever in tested
    assert retriever.__name__ in package.__all__
