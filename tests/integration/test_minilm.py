"""MiniLM as an embedding model of both frameworks, in their own classes."""

import asyncio
import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from langchain_classic.embeddings import CacheBackedEmbeddings
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.stores import InMemoryByteStore
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.embeddings import resolve_embed_model
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SemanticSplitterNodeParser
from llama_index.core.schema import TextNode
from pydantic import BaseModel, ConfigDict

import graph_retrievers
import langchain_graph_retrievers
import llama_graph_retrievers
from graph_retrievers.errors import InvalidArgumentError

TEXTS = ["A loom weaves cloth.", "A punched card.", "An engine of brass."]


@pytest.fixture(scope="module")
def encoder():
    return langchain_graph_retrievers.minilm()


@pytest.fixture(scope="module")
def model():
    return llama_graph_retrievers.minilm()


class TestStandard(EmbeddingsIntegrationTests):
    """LangChain's own standard tests of embedding models."""

    @property
    def embeddings_class(self):
        return graph_retrievers.SentenceEncoder

    @property
    def embedding_model_params(self):
        return {"model": graph_retrievers.minilm()._source}


# -- LangChain ----------------------------------------------------------------------------------------------------


async def test_it_is_a_langchain_embedding_model(encoder):
    assert langchain_graph_retrievers.minilm is graph_retrievers.minilm and isinstance(graph_retrievers.minilm(), Embeddings)
    vectors = encoder.embed_documents(TEXTS)
    assert [type(number) for number in vectors[0][:2]] == [float, float] and len(vectors[0]) == 384
    np.testing.assert_allclose(encoder.embed_query(TEXTS[1]), vectors[1], atol=1e-6)
    assert await encoder.aembed_documents(TEXTS) == vectors
    assert await encoder.aembed_query(TEXTS[1]) == encoder.embed_query(TEXTS[1])


async def test_in_a_vector_store_of_langchain(encoder):
    store = InMemoryVectorStore.from_texts(TEXTS, encoder)
    assert store.similarity_search("weaving", k=1)[0].page_content == TEXTS[0]
    await store.aadd_texts(["A card game."])
    assert (await store.asimilarity_search("a game of cards", k=1))[0].page_content == "A card game."


def test_in_a_cache_of_langchain(encoder):
    asked = []
    counted = SimpleNamespace(embed_documents=lambda texts: asked.extend(texts) or encoder.embed_documents(texts))
    cached = CacheBackedEmbeddings.from_bytes_store(counted, InMemoryByteStore(), namespace="minilm", key_encoder="sha256")
    first = cached.embed_documents(TEXTS)
    assert cached.embed_documents(TEXTS) == first == encoder.embed_documents(TEXTS) and asked == TEXTS


def test_as_a_field_of_the_type_embeddings(encoder):
    """As in LangChain's own classes, FAISS and compressors among them."""

    class Holder(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        embeddings: Embeddings

    assert Holder(embeddings=encoder).embeddings is encoder


def test_in_faiss_of_langchain(encoder):
    vectorstores = pytest.importorskip("langchain_community.vectorstores", reason="langchain-community is not installed")
    store = vectorstores.FAISS.from_texts(TEXTS, encoder)
    assert store.embeddings is encoder and store.similarity_search("weaving", k=1)[0].page_content == TEXTS[0]
    retriever = langchain_graph_retrievers.GraphRetriever.from_vectorstore(store, system="vector", k=1)
    assert retriever.invoke("weaving")[0].page_content == TEXTS[0]


# -- LlamaIndex ---------------------------------------------------------------------------------------------------


def test_it_is_an_embedding_model_of_llama_index(model, encoder):
    assert isinstance(model, BaseEmbedding) and resolve_embed_model(model) is model
    assert model.model_name == "all-MiniLM-L6-v2" and model.to_dict()["class_name"] == "SentenceEmbedding"
    vectors = model.get_text_embedding_batch(TEXTS)
    np.testing.assert_allclose(vectors, encoder.embed_documents(TEXTS), atol=1e-6)
    np.testing.assert_allclose(model.get_text_embedding(TEXTS[0]), vectors[0], atol=1e-6)
    assert model.get_query_embedding("loom") == encoder.embed_query("loom")


async def test_in_a_vector_store_index(model, monkeypatch):
    nodes = [TextNode(text=text, id_=str(place)) for place, text in enumerate(TEXTS)]
    index = VectorStoreIndex(nodes, embed_model=model)
    retriever = index.as_retriever(similarity_top_k=1)
    assert retriever.retrieve("weaving")[0].node.node_id == "0"
    assert (await retriever.aretrieve("weaving"))[0].node.node_id == "0"
    monkeypatch.setattr(Settings, "_embed_model", None)
    Settings.embed_model = model
    assert VectorStoreIndex(nodes).as_retriever(similarity_top_k=1).retrieve("brass")[0].node.node_id == "2"


async def test_in_a_pipeline_and_a_splitter(model):
    nodes = IngestionPipeline(transformations=[model]).run(nodes=[TextNode(text=text) for text in TEXTS])
    assert [len(node.embedding) for node in nodes] == [384] * 3
    later = await IngestionPipeline(transformations=[model]).arun(nodes=[TextNode(text=TEXTS[0])])
    np.testing.assert_allclose(later[0].embedding, nodes[0].embedding, atol=1e-6)
    assert SemanticSplitterNodeParser(embed_model=model).embed_model is model


def test_in_a_retriever_of_this_package(model):
    nodes = [TextNode(text=text, id_=str(place)) for place, text in enumerate(TEXTS)]
    retriever = llama_graph_retrievers.GraphRetriever.from_defaults(
        nodes=nodes, embed_model=model, system="vector", similarity_top_k=1
    )
    assert retriever.retrieve("weaving")[0].node.node_id == "0"
    assert langchain_graph_retrievers.GraphRetriever.from_texts(TEXTS, model, system="vector", k=1).invoke("weaving")[0].id == "0"


def test_the_model_of_the_engine_says_what_llama_index_takes(encoder, monkeypatch):
    """LlamaIndex itself refuses objects of other classes by an assertion without a text."""
    monkeypatch.setattr(Settings, "_embed_model", None)
    told = r"take a BaseEmbedding, got the SentenceEncoder 'all-MiniLM-L6-v2'; pass llama_graph_retrievers\.minilm\(\), or any"
    with pytest.raises(InvalidArgumentError, match=told):
        VectorStoreIndex([TextNode(text="A loom.")], embed_model=encoder)
    with pytest.raises(InvalidArgumentError, match=told):
        Settings.embed_model = encoder
    assert resolve_embed_model(llama_graph_retrievers.SentenceEmbedding(encoder)).get_query_embedding("loom")
    # Encoders are compared as any other objects are.
    other = graph_retrievers.minilm()
    assert encoder == encoder and encoder != other and encoder != "minilm" and {encoder: 1}[encoder] == 1


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_a_copy_gives_the_same_vectors(model, twin):
    assert twin(model).get_text_embedding("loom") == model.get_text_embedding("loom")


def test_the_function_in_place_of_the_model_is_named():
    for function in (graph_retrievers.minilm, llama_graph_retrievers.minilm):
        with pytest.raises(InvalidArgumentError, match=r"function minilm; call it: embedding=minilm\(\)"):
            langchain_graph_retrievers.GraphRetriever.from_documents([Document("a loom")], function, system="vector")


def test_a_single_text_of_llamaindex_is_embedded_as_a_document_and_not_as_a_query():
    class Encoder:
        name = "prompted"

        def embed_documents(self, texts):
            return [[1.0, 0.0] for _ in texts]

        def embed_query(self, text):
            return [0.0, 1.0]

        async def aembed_documents(self, texts):
            return self.embed_documents(texts)

        async def aembed_query(self, text):
            return self.embed_query(text)

    model = llama_graph_retrievers.SentenceEmbedding(Encoder())
    assert model.get_text_embedding("a loom") == asyncio.run(model.aget_text_embedding("a loom")) == [1.0, 0.0]
    assert model.get_query_embedding("a loom") == asyncio.run(model.aget_query_embedding("a loom")) == [0.0, 1.0]
