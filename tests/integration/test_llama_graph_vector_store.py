"""GraphVectorStore of LlamaIndex: a VectorStoreIndex keeps it up to date as it keeps a store of its own."""

import pytest
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters, VectorStoreQuery, VectorStoreQueryMode

from graph_retrievers import BM25
from graph_retrievers.construction import Links
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.index import GraphIndex, IndexStore
from graph_retrievers.retrievers import StoreRetriever
from llama_graph_retrievers import GraphRetriever, GraphVectorStore

LONG = " ".join(f"The loom number {number} reads a punched card." for number in range(12))


def documents(**texts):
    return [Document(text=text, id_=name, metadata={"year": 1800 + len(text)}) for name, text in texts.items()]


def indexes(folder):
    """One index on a store of this package, and one on LlamaIndex' own."""
    store = IndexStore(folder)
    options = {"embed_model": MockEmbedding(4), "transformations": [SentenceSplitter(chunk_size=40, chunk_overlap=0)]}
    mine = VectorStoreIndex.from_vector_store(GraphVectorStore(store), **options)
    theirs = VectorStoreIndex([], storage_context=StorageContext.from_defaults(vector_store=SimpleVectorStore()), **options)
    return store, mine, theirs


def test_refresh_and_delete_do_what_they_do_on_a_store_of_llamaindex(tmp_path):
    store, mine, theirs = indexes(tmp_path / "index")
    versions = [
        documents(a=LONG, b="A card."),
        documents(a=LONG, b="A punched card.", c="A cipher."),
        documents(a="A short loom.", b="A punched card."),
    ]
    for version in versions:
        assert mine.refresh_ref_docs(version) == theirs.refresh_ref_docs(version)
        assert texts_of(store) == sorted(node.text for node in theirs.docstore.docs.values() if node.node_id in held(theirs))
    for name in ("b", "unknown"):
        mine.delete_ref_doc(name, delete_from_docstore=True)
        theirs.delete_ref_doc(name, delete_from_docstore=True)
    assert texts_of(store) == sorted(node.text for node in theirs.docstore.docs.values() if node.node_id in held(theirs))
    for name in ("a", "c"):
        mine.delete_ref_doc(name)
    assert len(store) == 0 and mine.as_retriever().retrieve("a loom") == []


def held(index):
    return index.vector_store.data.embedding_dict


def texts_of(store):
    return sorted(store.index.graph.texts)


def test_relationships_are_edges_that_follow(tmp_path):
    store, mine, _ = indexes(tmp_path / "index")
    mine.refresh_ref_docs(documents(a=LONG, b="A card."))
    graph = store.index.graph
    chunks = [node for node, source in zip(graph.ids, graph.origins, strict=True) if source["relationships"]["1"]["node_id"] == "a"]
    assert len(chunks) > 2 and [(e.source, e.target) for e in graph.edges()] == list(zip(chunks, chunks[1:], strict=False))
    retriever = GraphRetriever(StoreRetriever(store, "ppr"), similarity_top_k=3, embed_model=MockEmbedding(4))
    assert len(retriever.retrieve("Which loom reads a card?")) == 3
    mine.update_ref_doc(Document(text="A short loom.", id_="a"))
    assert store.index.graph.edges() == [] and sorted(store.index.graph.texts) == ["A card.", "A short loom."]
    assert {hit.text for hit in retriever.retrieve("loom card")} == {"A card.", "A short loom."}
    # What another process opens is the same, with the nodes as they were.
    again = IndexStore(tmp_path / "index")
    nodes = GraphVectorStore(again).get_nodes()
    assert sorted(node.ref_doc_id for node in nodes) == ["a", "b"]
    fresh = GraphIndex.from_documents(nodes)
    assert again.index.graph.edges() == fresh.graph.edges()


def test_queries_by_mode_filters_and_ids(tmp_path):
    store, mine, _ = indexes(tmp_path / "index")
    mine.refresh_ref_docs(documents(a="A loom of iron.", b="A card of paper.", c="A cipher."))
    own = GraphVectorStore(store)
    asked = {"query_str": "paper", "query_embedding": [1.0, 0.0, 0.0, 0.0], "similarity_top_k": 1}
    modes = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.HYBRID)
    one, two = (own.query(VectorStoreQuery(**asked, mode=mode)) for mode in modes)
    assert [node.text for node in one.nodes] == ["A card of paper."] and one.similarities[0] > 0
    assert [node.text for node in two.nodes] == ["A card of paper."]
    found = own.query(VectorStoreQuery(query_embedding=[2.0, 0.0, 0.0, 0.0], similarity_top_k=9, doc_ids=["c", "a"]))
    assert sorted(node.ref_doc_id for node in found.nodes) == ["a", "c"]
    assert all(score <= 1 for score in found.similarities), "cosines, as LlamaIndex compares"
    late = MetadataFilters(filters=[MetadataFilter(key="year", value=1809, operator="==")])
    found = own.query(VectorStoreQuery(query_embedding=[1.0, 0.0, 0.0, 0.0], similarity_top_k=9, filters=late))
    assert [node.text for node in found.nodes] == ["A cipher."]
    with pytest.raises(InvalidArgumentError, match="Mode"):
        own.query(VectorStoreQuery(query_str="x", mode=VectorStoreQueryMode.MMR))
    own.delete_nodes(filters=late)
    assert len(store) == 2
    own.delete_nodes([own.get_nodes()[0].node_id])
    assert [node.text for node in own.get_nodes()] == ["A card of paper."]
    own.clear()
    assert own.get_nodes() == [] and own.query(VectorStoreQuery(query_str="x")).ids == []


def warned(caplog):
    """What was logged since the last call."""
    texts = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return texts


async def test_what_finds_nothing_is_told_with_the_reason(tmp_path, caplog):
    store, mine, _ = indexes(tmp_path / "index")
    nobody = "Nothing was found: the operators found no node."
    for mode in ("default", "text_search", "hybrid"):
        assert mine.as_retriever(vector_store_query_mode=mode).retrieve("loom") == []
        assert warned(caplog) == ["Nothing was found: the store holds no documents."]
    mine.refresh_ref_docs(documents(a="A loom of iron.", b="A card of paper."))
    caplog.clear()
    assert len(mine.as_retriever().retrieve("loom")) == 2 and warned(caplog) == []
    late = MetadataFilters(filters=[MetadataFilter(key="year", value=1999, operator="==")])
    for mode in ("default", "text_search", "hybrid"):
        assert mine.as_retriever(vector_store_query_mode=mode, filters=late).retrieve("loom") == []
        assert warned(caplog) == [nobody.replace("node.", "node; no node passes the filter.")]
    words = mine.as_retriever(vector_store_query_mode="text_search")
    assert words.retrieve("qwertz") == [] and warned(caplog) == [nobody]
    assert await words.aretrieve("qwertz") == [] and warned(caplog) == [nobody]
    engine = mine.as_query_engine(vector_store_query_mode="text_search", llm=MockLLM())
    assert str(engine.query("qwertz")) == "Empty Response" and warned(caplog) == [nobody]


def test_edges_of_the_store_that_an_index_of_its_nodes_lacks_are_told(tmp_path, caplog):
    model = MockEmbedding(4)
    store = IndexStore(tmp_path / "index", edges=Links(), embedding=model)
    mine = VectorStoreIndex.from_vector_store(GraphVectorStore(store), embed_model=model)
    texts = {"a.md": "A loom reads a [card](b.md).", "b.md": "A card."}
    mine.refresh_ref_docs([Document(text=text, id_=name, metadata={"source": name}) for name, text in texts.items()])
    assert store.index.graph.num_edges == 1
    caplog.clear()
    told = (
        "1 of the edges of the IndexStore are not in this index, which is made of its nodes alone; "
        "GraphRetriever(StoreRetriever(store)) searches the store with its edges."
    )
    GraphRetriever.from_defaults(mine)
    assert told in warned(caplog)
    searched = GraphRetriever(StoreRetriever(store, "ppr", k=2))
    assert len(searched.retrieve("Which loom?")) == 2 and warned(caplog) == []
    for made in ({"edges": Links()}, {"edges": []}):
        GraphRetriever.from_defaults(mine, **made)
    GraphRetriever.from_defaults(mine, system=BM25())
    assert told not in warned(caplog)
    # Relationships, which the index reads too, are not lost.
    same, other, _ = indexes(tmp_path / "same")
    other.refresh_ref_docs(documents(a=LONG))
    caplog.clear()
    GraphRetriever.from_defaults(other)
    assert same.index.graph.num_edges and warned(caplog) == []


def test_a_store_without_a_model_for_queries_says_where_one_goes(tmp_path):
    store, mine, _ = indexes(tmp_path / "index")
    mine.refresh_ref_docs(documents(a="A loom of iron."))
    retriever = GraphRetriever(StoreRetriever(store, "vector"))
    with pytest.raises(MissingSignalError, match=r"no embedding model .* IndexStore take it again"):
        retriever.retrieve("Which loom?")
    again = IndexStore(tmp_path / "index", embedding=MockEmbedding(4))
    assert GraphRetriever(StoreRetriever(again, "vector")).retrieve("Which loom?")[0].text == "A loom of iron."
