"""The fields of the LangChain retriever and its keywords for type checkers, against the engine's; none is left out."""

import pytest

from graph_retrievers import BM25
from graph_retrievers.arguments import keywords_of
from graph_retrievers.index import GraphIndex, IndexStore
from graph_retrievers.index.options import DocumentOptions, SignalOptions, StoreOptions, TextOptions
from graph_retrievers.retrievers import Retriever
from graph_retrievers.retrievers.options import RetrieverOptions
from graph_retrievers.systems.system import SYSTEMS, read_system
from langchain_graph_retrievers import GraphRetriever, graph_retriever
from langchain_graph_retrievers.graph_retriever import Fields, GraphDocumentOptions, GraphTextOptions
from tests.helpers import linked_index

ENGINE = keywords_of(Retriever.__init__)
FIELDS = set(GraphRetriever.model_fields) - GraphRetriever.unlisted


def keys(kind):
    return set(kind.__annotations__)


def test_every_keyword_of_the_engine_is_a_field():
    assert FIELDS >= ENGINE and set(graph_retriever._OPTIONS) == ENGINE - {"k", "name"}


def test_every_field_is_documented():
    for name in FIELDS - {"name", "tags", "metadata"}:
        assert len(GraphRetriever.model_fields[name].description) > 10, f"{name} has no description"
        assert f"\n{name} : " in GraphRetriever.__doc__.replace("    ", "").replace(", ", " : \n"), (
            f"the docstring does not name {name}"
        )


def test_type_checkers_know_every_keyword():
    assert keys(Fields) == FIELDS - {"index", "retriever"} and keys(RetrieverOptions) == ENGINE
    signals = keywords_of(GraphIndex.from_graph)
    assert keys(SignalOptions) == signals
    texts = keywords_of(GraphIndex.from_texts) - {"ids", "metadatas", "edges"}
    assert keys(TextOptions) == (texts | signals) - {"embedding"}
    documents = (keywords_of(GraphIndex.from_documents) | signals) - {"embedding", "edges"}
    assert keys(DocumentOptions) == documents
    assert keys(StoreOptions) == documents - {"vectors", "relevance", "device", "lenient", "strict"}
    assert keys(GraphTextOptions) == keys(TextOptions) | keys(Fields)
    assert keys(GraphDocumentOptions) == keys(DocumentOptions) | keys(Fields)
    assert keywords_of(IndexStore.__init__) >= {"embedding"}


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_every_system_runs_by_its_text(name):
    text = "fused(systems=['ppr', 'hybrid'])" if name == "fused" else name
    retriever = GraphRetriever(index=linked_index(), system=text, k=3)
    assert retriever.engine.system == read_system(text) == retriever.system
    # Chains and facts follow the documents.
    assert len([document for document in retriever.invoke("Which loom?") if "kind" not in document.metadata]) == 3


def test_every_field_reaches_the_engine(monkeypatch):
    given = []

    def recorded(index, system, **options):
        given.append((system, options))
        return Retriever(index, system, **options)

    monkeypatch.setattr(graph_retriever, "Retriever", recorded)
    options = {"backfill": False, "types": ["person"], "batch_size": 2, "per_source": 1, "source_field": "year"}
    options |= {"share_batches": False, "time_limit": 9.5}
    assert options.keys() == set(graph_retriever._OPTIONS)
    retriever = GraphRetriever(index=linked_index(), system="bm25", k=3, **options)
    # k comes with each call.
    assert given == [(BM25(), options)] and retriever.k == 3
    assert (retriever.engine.types, retriever.engine.batch_size) == (("person",), 2) and len(given) == 1
