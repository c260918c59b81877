"""LangChain's own standard tests, for every retriever class of the package."""

import functools

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests

import langchain_graph_retrievers as package
from graph_retrievers.operators import HybridSearch, Pipeline, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.stores.cypher import CypherSpreadingActivation, write_graph
from graph_retrievers.systems import FastInsight, Fused, SpreadingActivation, Vector
from graph_retrievers.systems.fastinsight import GRanker
from graph_retrievers.systems.system import SYSTEMS as ALL
from graph_retrievers.systems.system import read_system
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
    params = {"system": FastInsight(budget=1, nodes_per_round=1)}


class TestFastInsightRetrieverHybridFirst(_Standard):
    retriever_constructor = package.FastInsightRetriever
    params = {"system": FastInsight(first=HybridSearch(2, returned=False))}


class TestWalkFusionRetriever(_Standard):
    retriever_constructor = package.WalkFusionRetriever


class TestSpreadingActivationRetriever(_Standard):
    """Without chains, which would follow the k documents."""

    retriever_constructor = package.SpreadingActivationRetriever
    params = {"system": SpreadingActivation()}


class TestFused(_Standard):
    retriever_constructor = package.GraphRetriever
    params = {"system": Fused(SpreadingActivation(gate="uniform", chains="path"), Vector())}


class TestGRAGRetriever(_Standard):
    """Without a checkpoint."""

    retriever_constructor = package.GRAGRetriever


class TestLeSeGRRetriever(_Standard):
    """Without a checkpoint."""

    retriever_constructor = package.LeSeGRRetriever


class TestMoRRetriever(_Standard):
    """Without a plan and without a planner, MoR searches texts."""

    retriever_constructor = package.MoRRetriever


class TestDefault(_Standard):
    retriever_constructor = package.GraphRetriever


# Systems without weights, a relevance model or a planner; and without facts and chains, which would follow the k documents.
SYSTEMS = {
    "LightRAG": "lightrag",
    "LinearRAG": "linear-rag",
    "PathRAG": "pathrag(chains='path')",
    "Vector": "vector",
    "BM25": "bm25",
    "Hybrid": "hybrid(fusion='weighted', weights=(0.7, 0.3))",
    "Re2": "re2(depth=4)",
    "GAR": "gar(budget=6, nodes_per_round=2)",
    "PPR": "ppr(seeds=2)",
    "PPRFromSeedsAlone": "ppr(passage_weight=0, seeds=1)",
    "Eager": "eager",
    "MMR": "mmr",
    "Scored": "scored",
    "HyDE": "hyde",
    "Decomposition": "decomposition",
    "IRCoT": "ircot",
    "PathReranking": "path-reranking",
    "GRetriever": "g-retriever(seed_edges=0)",
    "HippoRAG": "hipporag",
    "HippoRAG1": "hipporag-1",
    "ThinkOnGraph": "think-on-graph(depth=2)",
    "ThinkOnGraph2": "think-on-graph-2(depth=2)",
    "KG2RAG": "kg2rag",
    "GraphRAGLocal": "graphrag-local",
    "QAFD": "qafd-rag",
    "HyKGE": "hykge",
    "EgoGRAG": "ego-grag",
    "HybGRAG": "hybgrag",
    "SubgraphRAG": "subgraph-rag(triples=20)",
    "GNNRAG": "gnn-rag",
    "KAR": "kar",
}
for _name, _system in SYSTEMS.items():
    _body = {"retriever_constructor": package.GraphRetriever, "params": {"system": _system}, "__module__": __name__}
    globals()[f"Test{_name}"] = type(f"Test{_name}", (_Standard,), _body)


class TestGraphRetrieverThatIsAwaited(_Standard):
    retriever_constructor = package.GraphRetriever

    @property
    def retriever_constructor_params(self):
        return {"retriever": RemoteRetriever(Retriever(shared_index(), SpreadingActivation()))}


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


@pytest.mark.parametrize("name", [name for name in package.__all__ if name.endswith("Retriever")])
def test_every_retriever_stands_in_the_standard_tests(name):
    assert getattr(package, name) in {cls.__dict__.get("retriever_constructor") for cls in _Standard.__subclasses__()}


def test_every_system_stands_in_the_standard_tests():
    tested = {type(cls.retriever_constructor.model_fields["system"].default) for cls in _Standard.__subclasses__()}
    tested |= {type(read_system(cls.params["system"])) for cls in _Standard.__subclasses__() if cls.params}
    assert tested >= {kind for kind in ALL.values() if kind.__module__.startswith("graph_retrievers.")}
