"""LlamaIndex' stores: their vectors, what their nodes keep beside text and metadata, and documents that are deleted."""

import copy
import logging
import pickle
from functools import partial
from types import SimpleNamespace
from typing import Any

import faiss
import numpy as np
import pytest
import torch
from llama_index.core import MockEmbedding, Settings, SummaryIndex, VectorStoreIndex
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import Document, IndexNode, MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQueryResult
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, VectorParams

from graph_retrievers import BM25, GAR, GraphIndex, IndexStore, Node, Retriever, SpreadingActivation, Vector
from graph_retrievers.construction import Relationships, chunk_documents
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import Edge
from graph_retrievers.stores.cypher import CypherSpreadingActivation, write_graph
from llama_graph_retrievers import (
    GraphRetriever,
    GraphVectorStore,
    SpreadingActivationRetriever,
    provenance,
)
from llama_graph_retrievers.search import NodeSearch
from llama_graph_retrievers.stores import index_nodes
from tests.helpers import HashEmbedding, WordOverlap
from tests.integration.langchain_models import RemoteRetriever
from tests.integration.llama_corpus import HashEmbed, llama_nodes

QUESTION = "Which loom gave the engine of Charles Babbage its punched cards?"


def ids(nodes):
    return [n.node.node_id for n in nodes]


def scores(nodes):
    return [(n.node.node_id, n.score) for n in nodes]


class Unequal(HashEmbed):
    """The same directions, of different lengths."""

    def _get_text_embedding(self, text):
        return [value * (1 + len(text) % 7) for value in super()._get_text_embedding(text)]

    def _get_query_embedding(self, query):
        return [value * 3 for value in super()._get_query_embedding(query)]


class Collection:
    """What Chroma's client answers."""

    __module__ = "chromadb.api.models.Collection"

    def __init__(self, nodes):
        self._nodes = nodes

    def get(self, include):
        assert include == ["embeddings"]
        listed = list(self._nodes.values())[::-1]
        return {"ids": [node.node_id for node in listed], "embeddings": np.array([node.embedding for node in listed])}


class ListingStore(BasePydanticVectorStore):
    """A store that keeps texts and, if asked to, gives vectors with its nodes; by default, as Qdrant's, some of them only."""

    stores_text: bool = True
    vectors: bool = True
    lists: bool = True
    chroma: bool = False
    _nodes: dict = PrivateAttr(default_factory=dict)

    @property
    def client(self):
        return Collection(self._nodes) if self.chroma else None

    def add(self, nodes, **options):
        self._nodes |= {node.node_id: node.model_copy() for node in nodes}
        return list(self._nodes)

    def get_nodes(self, node_ids, filters=None, limit=None):
        if not self.lists:
            return super().get_nodes(node_ids, filters)
        listed = list(self._nodes.values())[: limit or 5]
        return [n if self.vectors else n.model_copy(update={"embedding": None}) for n in listed]

    def delete(self, ref_doc_id, **options): ...

    def query(self, query, **options):
        return VectorStoreQueryResult()


class FaissStore(BasePydanticVectorStore):
    """LlamaIndex' store on faiss: vectors alone, under their numbers."""

    stores_text: bool = False
    kind: Any = faiss.IndexFlatL2
    _index: object = PrivateAttr(default=None)

    @property
    def client(self):
        return self._index

    def add(self, nodes, **options):
        if self._index is None:
            self._index = self.kind(len(nodes[0].embedding))
        start = self._index.ntotal
        self._index.add(np.array([node.embedding for node in nodes], np.float32))
        return [str(number) for number in range(start, self._index.ntotal)]

    def delete(self, ref_doc_id, **options): ...

    def query(self, query, **options):
        return VectorStoreQueryResult()


def stored(store, embed_model):
    from llama_index.core import StorageContext

    storage = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex(llama_nodes(), embed_model=embed_model, storage_context=storage)


# -- vectors that exist --------------------------------------------------------------------------------------------


def test_a_vector_store_index_is_taken_with_its_vectors_model_and_relationships(caplog):
    caplog.set_level(logging.INFO)
    embed_model = HashEmbed()
    existing = VectorStoreIndex(llama_nodes(), embed_model=embed_model)
    embed_model.texts.clear()
    retriever = GraphRetriever.from_defaults(existing, system=Vector(), similarity_top_k=5)
    assert embed_model.texts == [] and "Embedding" not in caplog.text
    assert Edge("engine", "jacquard", "child") in retriever.index.graph.edges()
    expected = existing.as_retriever(similarity_top_k=5).retrieve(QUESTION)
    found = retriever.retrieve(QUESTION)
    assert [n.node for n in found] == [n.node for n in expected]
    assert [n.score for n in found] == pytest.approx([n.score for n in expected])
    given = GraphRetriever.from_defaults(system=Vector(), index=existing, edges=[("ada", "loom", "sees")])
    assert given.index.graph.edges() == [Edge("ada", "loom", "sees")]


@pytest.mark.parametrize(
    "store",
    [ListingStore(), ListingStore(vectors=False, chroma=True), FaissStore()],
    ids=["texts and vectors", "chroma", "faiss"],
)
def test_a_store_that_lists_its_vectors_is_not_embedded_again(store):
    embed_model = HashEmbed()
    existing = stored(store, embed_model)
    embed_model.texts.clear()
    retriever = GraphRetriever.from_defaults(existing, system=Vector(), similarity_top_k=4)
    plain = GraphRetriever.from_defaults(system=Vector(), nodes=llama_nodes(), embed_model=HashEmbed(), similarity_top_k=4)
    assert embed_model.texts == [] and ids(retriever.retrieve(QUESTION)) == ids(plain.retrieve(QUESTION))


def test_a_store_that_lists_no_vectors_is_embedded_and_says_so(caplog):
    caplog.set_level(logging.INFO, "graph_retrievers")
    embed_model = HashEmbed()
    existing = stored(ListingStore(vectors=False), embed_model)
    GraphRetriever.from_defaults(existing, system=Vector())
    assert "Embedding 12 of 12 documents" in caplog.text


def test_a_store_that_lists_nothing_is_refused_with_the_way_out():
    existing = stored(ListingStore(lists=False), HashEmbed())
    with pytest.raises(InvalidArgumentError, match="ListingStore does not list its nodes.*nodes="):
        GraphRetriever.from_defaults(existing, system=Vector())
    with pytest.raises(InvalidArgumentError, match=r"SummaryIndex.*docstore="):
        GraphRetriever.from_defaults(SummaryIndex(llama_nodes()), system=Vector())


def test_how_many_nodes_are_embedded_is_logged_once(caplog):
    caplog.set_level(logging.INFO, "graph_retrievers")
    nodes = llama_nodes()
    for node in nodes[:8]:
        node.embedding = HashEmbedding().embed_query(node.text)
    GraphRetriever.from_defaults(system=Vector(), nodes=nodes, embed_model=HashEmbed())
    assert [r.getMessage() for r in caplog.records if "mbedding" in r.getMessage() and "of 12" in r.getMessage()] == [
        "Embedding 4 of 12 documents; the others bring their vectors."
    ]


def test_an_index_of_nodes_takes_their_vectors_and_relationships():
    nodes = llama_nodes()
    embed_model = HashEmbed()
    for node in nodes[1:]:
        node.embedding = [2 * value for value in HashEmbedding().embed_query(node.text)]
    index = GraphIndex.from_documents(nodes, embedding=embed_model)
    assert embed_model.texts == [index.graph.content(0)]
    assert index.dense.vectors[1].tolist() == pytest.approx([value / 2 for value in nodes[1].embedding])
    assert Edge("engine", "jacquard", "child") in index.graph.edges()
    # Without a model, vectors that all nodes have are taken, and those that only some have are not.
    assert not GraphIndex.from_documents(nodes).has_dense
    assert GraphIndex.from_documents(nodes[1:], edges=[]).has_dense


def test_nodes_of_a_docstore_keep_their_vectors(monkeypatch):
    monkeypatch.setattr(Settings, "_embed_model", None)
    nodes = llama_nodes()
    for node in nodes:
        node.embedding = HashEmbedding().embed_query(node.text)
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    embed_model = HashEmbed()
    for system in ("vector", "bm25", None):
        index = GraphRetriever.from_defaults(docstore=docstore, embed_model=embed_model, system=system).index
        assert embed_model.texts == [] and index.dense.vectors[3].tolist() == pytest.approx(nodes[3].embedding)


def test_edges_that_are_given_replace_the_relationships():
    nodes = llama_nodes()
    assert GraphIndex.from_documents(nodes, edges=[]).graph.num_edges == 0
    assert GraphIndex.from_documents(nodes, edges=[("ada", "loom", "sees")]).graph.relation_names == ["sees"]
    both = GraphIndex.from_documents(nodes, edges=[Relationships(), ("ada", "loom", "sees")]).graph
    assert both.relation_names == ["child", "sees"]
    assert GraphIndex.from_documents([TextNode(text="a loom")]).graph.num_edges == 0


def test_vectors_of_any_length_rank_as_in_llama_index():
    embed_model = Unequal()
    existing = VectorStoreIndex(llama_nodes(), embed_model=embed_model)
    expected = existing.as_retriever(similarity_top_k=12).retrieve(QUESTION)
    for options in ({"index": existing}, {"nodes": llama_nodes(), "embed_model": embed_model}):
        found = GraphRetriever.from_defaults(system=Vector(), similarity_top_k=12, **options).retrieve(QUESTION)
        # Equal cosines stand in another order there.
        assert [n.score for n in found] == pytest.approx([n.score for n in expected], abs=1e-6)
        assert dict(scores(found)) == pytest.approx(dict(scores(expected)), abs=1e-6)
    assert ids(found)[0] == ids(expected)[0]
    # The index of somebody who wants dot products keeps them.
    index = GraphIndex.from_texts(["a", "b"], vectors=[[1.0, 0.0], [3.0, 3.0]])
    assert GraphRetriever(index, Vector(), embed_model=lambda texts: [[2.0, 0.0]]).retrieve("a")[0].score == 6


# -- what nodes keep -----------------------------------------------------------------------------------------------


def told_nodes():
    chunk = TextNode(
        id_="chunk",
        text="A loom of brass.",
        metadata={"file_path": "/data/a.md", "topic": "looms"},
        excluded_embed_metadata_keys=["file_path"],
        excluded_llm_metadata_keys=["file_path"],
        text_template="<{metadata_str}> {content}",
        metadata_template="{key}={value}",
        metadata_separator="; ",
        start_char_idx=4,
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(node_id="document", metadata={"file_path": "/data/a.md"}),
            NodeRelationship.CHILD: [RelatedNodeInfo(node_id="pointer")],
        },
    )
    whole = Document(id_="document", text="All about looms.", excluded_llm_metadata_keys=["size"], metadata={"size": 3})
    return [chunk, whole, IndexNode(id_="pointer", text="More looms.", index_id="looms"), TextNode(id_="bare", text="A card.")]


def hits_of_a_saved_index(tmp_path):
    GraphIndex.from_documents(told_nodes(), embedding=HashEmbedding()).save(tmp_path / "index")
    return GraphRetriever(GraphIndex.load(tmp_path / "index"), Vector(), embed_model=HashEmbed())


def test_exclusions_templates_and_relationships_survive_index_save_and_load(tmp_path):
    originals = {node.node_id: node for node in told_nodes()}
    saved = hits_of_a_saved_index(tmp_path)
    live = GraphRetriever(GraphIndex.from_documents(told_nodes()), BM25())
    for retriever in (live, saved):
        found = {n.node.node_id: n.node for n in retriever.retrieve("brass loom, card, looms")}
        assert found == originals and {name: type(node) for name, node in found.items()} == {
            name: type(node) for name, node in originals.items()
        }
        assert {name: node.hash for name, node in found.items()} == {name: node.hash for name, node in originals.items()}
        assert found["chunk"].get_content(MetadataMode.LLM) == "<topic=looms> A loom of brass."
        assert found["chunk"].ref_doc_id == "document"


def test_what_nodes_keep_is_neither_metadata_nor_embedded():
    embed_model = HashEmbed()
    index = GraphIndex.from_documents(told_nodes(), embedding=embed_model)
    assert embed_model.texts == ["A loom of brass.", "All about looms.", "More looms.", "A card."]
    assert index.graph.metadata[0] == {"file_path": "/data/a.md", "topic": "looms"} and index.graph.metadata[3] == {}
    hit = Retriever(index, Vector(), k=1).retrieve("A loom of brass.")[0]
    assert set(hit.metadata) == {"file_path", "topic"} and "origin" not in hit.to_dict()
    assert hit.origin["excluded_llm_metadata_keys"] == ["file_path"]


def test_chunks_hide_what_their_document_hides():
    whole = Document(text="A loom. A card.", metadata={"file_path": "/a"}, excluded_llm_metadata_keys=["file_path"])
    index = GraphIndex.from_documents(chunk_documents([whole], lambda text: text.split(". ")))
    found = GraphRetriever(index, BM25()).retrieve("loom")[0].node
    assert found.metadata["file_path"] == "/a" and "file_path" not in found.get_content(MetadataMode.LLM)


def test_the_object_of_an_index_node_is_followed_on_a_saved_index(tmp_path):
    GraphIndex.from_documents(told_nodes()).save(tmp_path / "index")
    inner = GraphRetriever(GraphIndex.from_texts(["Looms, looms, looms."], ids=["inner"]), BM25())
    retriever = GraphRetriever(GraphIndex.load(tmp_path / "index"), BM25(), object_map={"looms": inner}, similarity_top_k=1)
    assert ids(retriever.retrieve("more looms")) == ["inner"]


def test_relationships_are_kept_without_metadata_that_has_no_json_form(tmp_path):
    odd = {"x": object()}
    related = {
        NodeRelationship.SOURCE: RelatedNodeInfo(node_id="d", metadata=odd),
        NodeRelationship.CHILD: [RelatedNodeInfo(node_id="e", metadata=odd)],
    }
    node = TextNode(text="a loom", relationships=related, excluded_llm_metadata_keys=["x"])
    GraphIndex.from_documents([node]).save(tmp_path / "index")
    found = GraphRetriever(GraphIndex.load(tmp_path / "index"), BM25()).retrieve("loom")[0].node
    assert found.ref_doc_id == "d" and [child.node_id for child in found.child_nodes] == ["e"]
    assert found.excluded_llm_metadata_keys == ["x"] and found.source_node.metadata == {}


# -- documents that are deleted ------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", [Vector(), BM25(), SpreadingActivation(), None])
async def test_deleted_documents_of_a_docstore_are_not_returned_and_others_take_their_places(system):
    docstore = SimpleDocumentStore()
    docstore.add_documents(llama_nodes())
    retriever = GraphRetriever.from_defaults(docstore=docstore, embed_model=HashEmbed(), similarity_top_k=4, system=system)
    before = retriever.retrieve(QUESTION)
    for n in before[:2]:
        docstore.delete_document(n.node.node_id)
    gone = set(ids(before[:2]))
    found = retriever.retrieve(QUESTION)
    assert len(found) == 4 and not gone & set(ids(found))
    assert found == await retriever.aretrieve(QUESTION) == retriever.retrieve_batch([QUESTION, "engine"])[0]
    docstore.add_documents([n.node for n in before[:2]])
    assert retriever.retrieve(QUESTION) == before


async def test_few_searches_find_what_is_left_of_a_docstore():
    docstore = SimpleDocumentStore()
    nodes = [TextNode(id_=f"n{number:03}", text=f"A loom of year {number}.") for number in range(200)]
    docstore.add_documents(nodes)
    retriever = GraphRetriever.from_defaults(system=Vector(), docstore=docstore, embed_model=HashEmbed(), similarity_top_k=3)
    searches = []
    search = retriever.engine.search
    retriever.engine.search = lambda call: searches.append(call) or search(call)
    for number in range(199):
        docstore.delete_document(f"n{number:03}")
    assert ids(retriever.retrieve("a loom")) == ids(await retriever.aretrieve("a loom")) == ["n199"]
    assert len(searches) < 12
    docstore.delete_document("n199")
    assert retriever.retrieve("a loom") == []


def test_deletions_before_an_index_is_loaded_count_and_entities_stay(tmp_path):
    from graph_retrievers import Node
    from graph_retrievers.construction.documents import to_nodes

    docstore = SimpleDocumentStore()
    docstore.add_documents(llama_nodes())
    entity = Node("entity:loom", "A loom, a machine that weaves cloth.")
    GraphIndex.from_nodes([*to_nodes(llama_nodes()), entity]).save(tmp_path / "index")
    docstore.delete_document("loom")
    found = GraphRetriever(GraphIndex.load(tmp_path / "index"), BM25(), nodes=docstore, similarity_top_k=2).retrieve(
        "loom weaving cloth"
    )
    assert ids(found) == ["entity:loom", "jacquard"]


def test_filters_hold_while_deleted_documents_are_replaced():
    docstore = SimpleDocumentStore()
    docstore.add_documents(llama_nodes())
    retriever = GraphRetriever.from_defaults(system=BM25(), docstore=docstore, similarity_top_k=3, filters={"year": {"$lt": 1860}})
    best = ids(retriever.retrieve("engine"))[0]
    docstore.delete_document(best)
    found = retriever.retrieve("engine")
    assert best not in ids(found) and all(n.node.metadata["year"] < 1860 for n in found)


def test_documents_deleted_from_a_vector_store_index_are_not_returned():
    nodes = llama_nodes()
    for node in nodes:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"document of {node.node_id}")
    existing = VectorStoreIndex(nodes, embed_model=HashEmbed())
    retriever = GraphRetriever.from_defaults(existing, system=Vector(), similarity_top_k=3)
    best = ids(retriever.retrieve(QUESTION))[0]
    existing.delete_ref_doc(f"document of {best}")
    assert best in existing.docstore.docs
    assert ids(retriever.retrieve(QUESTION)) == ids(existing.as_retriever(similarity_top_k=3).retrieve(QUESTION))


def test_exclusions_templates_and_relationships_survive_a_graph_database(database):
    write_graph(database, GraphIndex.from_documents(told_nodes(), embedding=HashEmbedding()))
    engine = CypherSpreadingActivation(database, gate="uniform")
    handler = LlamaDebugHandler(print_trace_on_end=False)
    knobs = {"inputs": {"entities": lambda question: ["chunk"]}, "callback_manager": CallbackManager([handler])}
    original = told_nodes()[0]
    found = GraphRetriever(engine, **knobs).retrieve("Which loom?")[0]
    assert found.node == original and found.node.hash == original.hash
    assert found.node.get_content(MetadataMode.LLM) == "<topic=looms> A loom of brass."
    assert provenance(found)["path"]["nodes"] == ["chunk"] and handler.get_event_pairs(CBEventType.RETRIEVE)
    docstore = SimpleDocumentStore()
    docstore.add_documents(told_nodes())
    live = GraphRetriever(engine, nodes=docstore, provenance=False, **knobs)
    found = live.retrieve("Which loom?")
    assert ids(found)[0] == "chunk" and provenance(found[0]) == {}
    docstore.delete_document(ids(found)[1])
    assert ids(live.retrieve("Which loom?")) == [ids(found)[0], *ids(found)[2:]]


@pytest.mark.parametrize("mode", ["reciprocal_rerank", "relative_score", "dist_based_score", "simple"])
def test_fusion_knows_a_node_again_whichever_query_and_retriever_found_it(mode):
    nodes = llama_nodes()
    plain = VectorStoreIndex(nodes, embed_model=HashEmbed())
    ours = SpreadingActivationRetriever.from_defaults(plain, similarity_top_k=6)
    fusion = QueryFusionRetriever(
        [ours, plain.as_retriever(similarity_top_k=6)],
        llm=MockLLM(),
        num_queries=2,
        similarity_top_k=24,
        mode=mode,
        use_async=False,
    )
    found = fusion.retrieve(QUESTION)
    assert len(ids(found)) == len(set(ids(found))) and set(ids(ours.retrieve(QUESTION))) <= set(ids(found))


def test_what_takes_the_place_of_deleted_documents_passes_the_filter_too():
    nodes = [TextNode(id_=f"n{n}", text="loom " * (5 - n), metadata={"year": n % 2}) for n in range(4)]
    store = SimpleDocumentStore()
    store.add_documents(nodes)
    retriever = GraphRetriever.from_defaults(system=BM25(), docstore=store, similarity_top_k=3, filters={"year": 0})
    store.delete_document("n0")
    assert [found.node.node_id for found in retriever.retrieve("loom")] == ["n2"]


def test_a_filter_goes_to_an_engine_elsewhere_with_the_deleted_documents():
    nodes = [TextNode(id_=f"n{n}", text="loom " * (5 - n), metadata={"year": n % 2}) for n in range(4)]
    store = SimpleDocumentStore()
    store.add_documents(nodes)
    engine = RemoteRetriever(Retriever(GraphIndex.from_documents(nodes, edges=[]), BM25(), backfill=False))
    retriever = GraphRetriever(engine, nodes=store, similarity_top_k=3, filters={"year": 0})
    store.delete_document("n0")
    assert [found.node.node_id for found in retriever.retrieve("loom")] == ["n2"]


UNUSED = "does not use the relevance model"


def test_a_relevance_model_that_is_not_used_is_told_once(caplog):
    for options in ({}, {"system": "ppr"}):
        made = GraphRetriever.from_defaults(nodes=llama_nodes(), embed_model=HashEmbed(), relevance=WordOverlap(), **options)
        assert caplog.text.count(UNUSED) == 1 and made.engine.name in caplog.text
        caplog.clear()
    GraphRetriever(made.index.with_models(relevance=WordOverlap()), "re2")
    GraphRetriever.from_defaults(nodes=llama_nodes(), embed_model=HashEmbed())
    assert UNUSED not in caplog.text


def test_nodes_and_models_of_llama_index_are_compared_by_cosine(caplog, tmp_path):
    nodes, model = llama_nodes(), Unequal()
    expected = GraphIndex.from_documents(nodes, embedding=HashEmbed()).dense.vectors
    texts = [node.get_content() for node in nodes]
    for embedding in (model, model.get_text_embedding_batch):
        assert np.allclose(GraphIndex.from_documents(nodes, embedding=embedding).dense.vectors, expected, atol=1e-5)
    assert GraphIndex.from_texts(texts, embedding=model).dense.metric == "cosine"
    store = IndexStore(tmp_path / "store", embedding=model)
    store.update(add=[Node(str(row), text) for row, text in enumerate(texts)])
    assert store.index.dense.metric == "cosine"
    assert "not of unit length" not in caplog.text
    assert GraphIndex.from_documents(nodes, embedding=model, metric="dot").dense.metric == "dot"
    assert GraphIndex.from_texts(texts, embedding=HashEmbedding()).dense.metric == "dot"


def test_what_is_embedded_is_told_without_others_and_with_a_name(caplog):
    with caplog.at_level(logging.INFO):
        GraphRetriever.from_defaults(nodes=llama_nodes(), embed_model=HashEmbed())
    assert [message for message in caplog.messages if "mbedding" in message] == [
        "Embedding 12 of 12 documents.",
        "Embedding 12 texts with HashEmbed.",
    ]


def test_a_model_without_a_name_is_called_by_its_class(caplog):
    with caplog.at_level(logging.INFO):
        GraphIndex.from_documents(llama_nodes(), embedding=MockEmbedding(8))
    assert "Embedding 12 texts with MockEmbedding." in caplog.messages


class Counted(MockEmbedding):
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
    index = VectorStoreIndex(nodes, embed_model=Counted())
    assert listed(index) == [("b", [2.0, 1.0]), ("a", [2.0, 1.0]), ("c", [2.0, 1.0])]
    assert index.docstore.get_node("b").embedding is None, "the nodes of the index stay as they are"
    index.docstore.delete_document("a")
    assert [name for name, _ in listed(index)] == ["b", "c"]


def test_vectors_of_faiss_are_those_of_its_numbers():
    index = stored(FaissStore(), Counted())
    texts = {node.node_id: node.get_content("embed") for node in index.docstore.docs.values()}
    assert listed(index) == [(name, [len(texts[name]), len(texts[name].split())]) for name, _ in listed(index)]
    assert {type(value) for _, vector in listed(index) for value in vector} == {float}
    assert len(listed(index)) == len(texts) > 5


def test_a_store_of_vectors_that_gives_none_back():
    for client, keys in (
        (SimpleNamespace(), ["0", "1"]),
        (SimpleNamespace(reconstruct=None), ["0", "x"]),
    ):
        index = VectorStoreIndex([TextNode(id_=name, text=name) for name in "ab"], embed_model=Counted(), store_nodes_override=True)
        index._vector_store = FaissStore()
        index._vector_store._index = client
        index.index_struct.nodes_dict = dict(zip(keys, "ab", strict=True))
        assert listed(index) == [("a", None), ("b", None)]


@pytest.mark.parametrize("options", [{}, {"chroma": True, "vectors": False}])
def test_all_nodes_of_a_store_are_listed_whatever_its_limit(options):
    index = stored(ListingStore(**options), Counted())
    held = {name: node.embedding for name, node in index.vector_store._nodes.items()}
    assert dict(listed(index)) == held and len(held) > 5
    assert all(type(value) is float for _, vector in listed(index) for value in vector)


def test_a_store_without_a_limit_of_its_own():
    class Plain(ListingStore):
        def get_nodes(self, node_ids, filters=None):
            assert node_ids is None
            return iter(list(self._nodes.values()))

    assert len(listed(stored(Plain(), Counted()))) > 5


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

    assert all(vector is not None for _, vector in listed(stored(Listing(), Counted())))
    without = stored(Listing(vectors=False), Counted())
    if module == "chromadb.api":
        with pytest.raises(AssertionError, match="asked"):
            listed(without)
    else:
        assert {vector for _, vector in listed(without)} == {None}


def test_a_store_that_does_not_list_says_why():
    with pytest.raises(
        InvalidArgumentError, match=r"ListingStore does not list its nodes \(NotImplementedError: .*pass them as nodes="
    ):
        listed(stored(ListingStore(lists=False), Counted()))


# -- how stores compare ------------------------------------------------------------------------------------------------


def check_order(retriever, index, embed_model, question):
    """Compare with what the store's own faiss index answers; it lists equal scores in another order."""
    client, names = index.vector_store.client, index.index_struct.nodes_dict
    values, keys = client.search(np.array([embed_model.get_query_embedding(question)], np.float32), client.ntotal)
    theirs = {names[str(key)]: value for key, value in zip(keys[0], values[0], strict=True)}
    found = ids(retriever.retrieve(question))
    assert len(found) == len(theirs) and [theirs[name] for name in found] == pytest.approx(list(theirs.values()), abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "embed_model"),
    [(faiss.IndexFlatIP, Unequal()), (faiss.IndexFlatIP, HashEmbed()), (faiss.IndexFlatL2, HashEmbed())],
)
def test_the_order_of_faiss_is_kept(kind, embed_model):
    index = stored(FaissStore(kind=kind), embed_model)
    retriever = GraphRetriever.from_defaults(index, system=Vector(), similarity_top_k=50)
    check_order(retriever, index, embed_model, "A loom of brass and its cards")
    index.insert_nodes([TextNode(id_="new", text="A loom of brass and its cards, and another one.")])
    check_order(retriever, index, embed_model, "A loom of brass and its cards")


def test_l2_distances_between_vectors_of_different_lengths_are_refused():
    index = stored(FaissStore(), Unequal())
    with pytest.raises(InvalidArgumentError, match=r"The FaissStore compares vectors of different lengths .* by Euclid"):
        GraphRetriever.from_defaults(index, system=Vector())
    # Words are searched all the same.
    found = scores(GraphRetriever.from_defaults(index, system=BM25()).retrieve(QUESTION))
    assert scores(GraphRetriever.from_defaults(index, system="bm25").retrieve(QUESTION)) == found != []


class Qdrant(ListingStore):
    """Vectors in memory, with a collection of Qdrant that says how they are compared."""

    collection_name: str = "a"
    distance: Any = None
    named: bool = False

    @property
    def client(self):
        made = QdrantClient(":memory:")
        vectors = VectorParams(size=2, distance=self.distance)
        made.create_collection("a", {"text-dense": vectors} if self.named else vectors)
        return made


@pytest.mark.parametrize("named", [False, True])
def test_how_qdrant_compares(named):
    made = {
        distance: GraphRetriever.from_defaults(stored(Qdrant(distance=distance, named=named), Unequal()), system=Vector())
        for distance in (Distance.DOT, Distance.COSINE)
    }
    assert [retriever.index.dense.metric for retriever in made.values()] == ["dot", "cosine"]
    assert made[Distance.DOT].index.dense.norms.max() > 3
    for distance, name in ((Distance.EUCLID, "Euclidean distance"), (Distance.MANHATTAN, "manhattan")):
        with pytest.raises(InvalidArgumentError, match=name):
            GraphRetriever.from_defaults(stored(Qdrant(distance=distance, named=named), Unequal()), system=Vector())


@pytest.mark.parametrize(("space", "metric"), [("cosine", "cosine"), ("ip", "dot")])
def test_how_chroma_of_llama_index_compares(space, metric, monkeypatch):
    monkeypatch.setattr(Collection, "configuration_json", {"hnsw": {"space": space}}, raising=False)
    made = GraphRetriever.from_defaults(stored(ListingStore(chroma=True, vectors=False), Unequal()), system=Vector())
    assert made.index.dense.metric == metric


# -- indexes that change -----------------------------------------------------------------------------------------------


def documents(**texts):
    return [Document(text=text, id_=name) for name, text in texts.items()]


def texts_of(nodes):
    return [n.node.get_content() for n in nodes]


@pytest.mark.parametrize("system", [Vector(), BM25(), SpreadingActivation()])
async def test_an_updated_document_is_found(system):
    embed_model = HashEmbed()
    theirs = VectorStoreIndex.from_documents(documents(a="A loom of brass.", b="A card."), embed_model=embed_model)
    retriever = GraphRetriever.from_defaults(theirs, similarity_top_k=1, system=system)
    assert texts_of(retriever.retrieve("brass loom")) == ["A loom of brass."]
    for text in ("A loom of brass and wood.", "A brass loom again."):
        theirs.update_ref_doc(Document(text=text, id_="a"))
        embed_model.texts.clear()
        for found in (
            retriever.retrieve("brass loom"),
            await retriever.aretrieve("brass loom"),
            retriever.retrieve_batch(["brass loom"])[0],
            (await retriever.aretrieve_batch(["brass loom"]))[0],
        ):
            assert texts_of(found) == [text]
        assert embed_model.texts == [] and set(retriever.index.graph.texts) == {text, "A card."}
    expected = GraphRetriever.from_defaults(theirs, similarity_top_k=1, system=system).retrieve("brass loom")
    assert scores(retriever.retrieve("brass loom")) == scores(expected)


def test_each_change_of_a_vector_store_index_is_seen_once(monkeypatch):
    embed_model = HashEmbed()
    theirs = VectorStoreIndex(llama_nodes(), embed_model=embed_model)
    retriever = GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=50, filters={"year": {"$gt": 1800}})
    made, over = [], NodeSearch.over
    monkeypatch.setattr(NodeSearch, "over", lambda search, index: made.append(1) or over(search, index))
    before = ids(retriever.retrieve(QUESTION))
    new = [TextNode(id_=f"new {year}", text="A loom of brass.", metadata={"year": year}) for year in (1700, 1900)]
    theirs.insert_nodes(new)
    retriever.similarity_top_k = 1
    assert ids(retriever.retrieve("A loom of brass.")) == ["new 1900"] and made == [1]
    retriever.similarity_top_k = 50
    assert set(ids(retriever.retrieve(QUESTION))) == {*before, "new 1900"}
    theirs.delete_nodes(["new 1900", before[0]])
    assert set(ids(retriever.retrieve(QUESTION))) == {*before[1:]} and made == [1, 1]
    # The same id with another text.
    theirs.insert_nodes([TextNode(id_="new 1700", text="Valves.", metadata={"year": 1950})])
    assert set(ids(retriever.retrieve(QUESTION))) == {*before[1:], "new 1700"}
    assert made == [1, 1, 1]


def test_copies_follow_an_index_too():
    theirs = VectorStoreIndex(llama_nodes(), embed_model=HashEmbed())
    retriever = GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=5)
    theirs.insert_nodes([TextNode(id_="new", text="A loom of brass.")])
    expected = scores(retriever.retrieve("A loom of brass."))
    assert expected[0][0] == "new"
    for copied in (copy.copy(retriever), copy.deepcopy(retriever), pickle.loads(pickle.dumps(retriever))):  # noqa: S301
        assert scores(copied.retrieve("A loom of brass.")) == expected


def test_an_index_on_faiss_is_followed():
    theirs = stored(FaissStore(), HashEmbed())
    retriever = GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=1)
    theirs.insert_nodes([TextNode(id_="new", text="A loom of brass.")])
    assert ids(retriever.retrieve("A loom of brass.")) == ["new"]


def test_a_retriever_of_which_all_nodes_are_deleted_says_so(caplog):
    theirs, store = VectorStoreIndex(llama_nodes(), embed_model=HashEmbed()), SimpleDocumentStore()
    store.add_documents(llama_nodes())
    retrievers = [
        GraphRetriever.from_defaults(theirs, system=Vector()),
        GraphRetriever.from_defaults(system=BM25(), docstore=store),
    ]
    names = [node.node_id for node in llama_nodes()]
    theirs.delete_nodes(names)
    for name in names:
        store.delete_document(name)
    for retriever, told in zip(retrievers, ("the VectorStoreIndex; ask again", "the document store after this"), strict=True):
        caplog.clear()
        assert retriever.retrieve(QUESTION) == []
        (record,) = caplog.records
        assert f"nodes were deleted from {told}" in record.getMessage()
    theirs.insert_nodes([TextNode(id_="new", text="A loom of brass.")])
    assert ids(retrievers[0].retrieve(QUESTION)) == ["new"]


def warned(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


NEW = "A loom of brass and its punched cards."


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"embedding": [float("nan")] * 64}, "holds NaN"),
        ({"embedding": [1.0, 0.0]}, "have 2 dimensions, the index has 64"),
        ({"text": "a \ud800"}, "surrogate"),
    ],
)
async def test_a_node_that_cannot_be_indexed_is_left_out_and_named_once_until_it_is_right(wrong, why, caplog):
    theirs = VectorStoreIndex(llama_nodes(), embed_model=HashEmbed())
    retriever = GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=50)
    before = scores(retriever.retrieve(QUESTION))
    name = before[0][0]
    # One of two new nodes, and one that replaces another, are wrong.
    theirs.insert_nodes([TextNode(**{"id_": "bad", "text": NEW, **wrong}), TextNode(id_="new", text=NEW)])
    for found in (retriever.retrieve(QUESTION), await retriever.aretrieve(QUESTION)):
        assert {n.node.node_id for n in found} == {name for name, _ in before} | {"new"}
    (message,) = warned(caplog)
    assert "node 'bad'" in message and why in message and "insert them again, or delete them" in message
    caplog.clear()
    theirs.insert_nodes([TextNode(**{"id_": name, "text": NEW, **wrong})])
    assert name not in ids(retriever.retrieve(QUESTION))
    theirs.delete_nodes(["bad"])
    theirs.insert_nodes([TextNode(id_=name, text=NEW)])
    assert len(warned(caplog)) == 1
    again = GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=50)
    # Of equal nodes, the order may be another.
    assert dict(scores(retriever.retrieve(QUESTION))) == dict(scores(again.retrieve(QUESTION)))


def test_lengths_that_change_an_order_by_l2_are_checked_in_what_is_inserted(caplog):
    theirs = stored(FaissStore(), HashEmbed())
    retriever = GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=50)
    before = ids(retriever.retrieve(QUESTION))
    longer = [2 * value for value in HashEmbed().get_text_embedding(NEW)]
    theirs.insert_nodes([TextNode(id_="long", text=NEW, embedding=longer), TextNode(id_="new", text=NEW)])
    assert set(ids(retriever.retrieve(QUESTION))) == {*before, "new"}
    (message,) = warned(caplog)
    assert "node 'long'" in message and "to 2) by Euclidean distance" in message


def test_lengths_of_what_replaces_all_nodes_are_compared_with_each_other():
    theirs = stored(FaissStore(), HashEmbed())
    retriever = GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=50)
    # Its vector store cannot delete.
    theirs.index_struct.nodes_dict.clear()
    longer = [2 * value for value in HashEmbed().get_text_embedding(NEW)]
    theirs.insert_nodes([TextNode(id_="new", text=NEW), TextNode(id_="long", text=NEW, embedding=longer)])
    assert ids(retriever.retrieve(QUESTION)) == ["new"]


def test_a_node_that_the_document_store_gets_later_is_found():
    theirs = VectorStoreIndex(llama_nodes(), embed_model=HashEmbed())
    retriever = GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=1)
    theirs.insert_nodes([TextNode(id_="new", text=NEW)])
    late = theirs.docstore.get_document("new")
    theirs.docstore.delete_document("new")
    assert ids(retriever.retrieve(NEW)) != ["new"]
    theirs.docstore.add_documents([late])
    assert ids(retriever.retrieve(NEW)) == ["new"]


def test_a_mask_selects_the_same_nodes_after_a_change():
    theirs = VectorStoreIndex(llama_nodes(), embed_model=HashEmbed())
    everything = ids(GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=50).retrieve(QUESTION))
    names = [node.node_id for node in index_nodes(theirs)]
    chosen, gone, other = everything[:3], everything[0], everything[3]
    mask = torch.tensor([name in chosen for name in names])
    retriever = GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=50, filters=mask, scope=mask)
    assert ids(retriever.retrieve(QUESTION)) == chosen
    theirs.insert_nodes([TextNode(id_="new", text=QUESTION)])
    theirs.delete_nodes([gone, other])
    assert ids(retriever.retrieve(QUESTION)) == chosen[1:]


class Interrupted(HashEmbed):
    """Does something while a question runs."""

    meanwhile: Any = None

    def _get_query_embedding(self, query):
        done, self.meanwhile = self.meanwhile, None
        if done:
            done()
        return super()._get_query_embedding(query)


async def test_a_document_that_is_updated_while_a_question_runs_is_found(caplog):
    model = Interrupted()
    theirs = VectorStoreIndex.from_documents(documents(a="A loom."), embed_model=model)
    retriever = GraphRetriever.from_defaults(theirs, system=Vector(), similarity_top_k=1)
    for text, ask in (("A brass loom.", retriever.retrieve), ("A loom of wood.", retriever.aretrieve)):
        model.meanwhile = partial(theirs.update_ref_doc, Document(text=text, id_="a"))
        found = ask("Which loom?")
        assert texts_of(found if isinstance(found, list) else await found) == [text]
    assert warned(caplog) == []


def test_a_graph_without_edges_is_told_once_whatever_is_inserted(caplog):
    theirs = VectorStoreIndex.from_documents(documents(a="A loom.", b="A card."), embed_model=HashEmbed())
    searching = GraphRetriever.from_defaults(theirs, system=Vector())
    assert warned(caplog) == [], "a search needs none"
    # No relevance model is told once too.
    walking = GraphRetriever.from_defaults(theirs, system=GAR())
    before = warned(caplog)
    assert [message.startswith("There are no edges") for message in before] == [True, False]
    for name in "cd":
        theirs.insert(Document(text="A mill.", id_=name))
        assert len(walking.retrieve("mill")) == len(searching.retrieve("mill")) == len(walking.index)
    assert warned(caplog) == before


def test_a_chunk_without_others_is_added_without_a_warning(tmp_path, caplog):
    first, second = documents(a="A loom of brass.", b="A card.")
    theirs = VectorStoreIndex.from_documents([first], embed_model=HashEmbed())
    retriever = GraphRetriever.from_defaults(theirs, system=Vector())
    store = IndexStore(tmp_path / "store", edges=[Relationships()])
    kept = VectorStoreIndex.from_vector_store(GraphVectorStore(store), embed_model=HashEmbed())
    kept.insert(first)
    for index in (theirs, kept):
        index.insert(second)
    assert len(retriever.retrieve(QUESTION)) == len(store) == 2
    assert warned(caplog) == []
