"""GraphVectorStore of LangChain: its standard tests, the indexing API, and graph retrievers that follow."""

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from graph_retrievers.construction import Links
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.index_store import IndexStore
from langchain_graph_retrievers import GraphVectorStore
from tests.helpers import HashEmbedding


class TestStandard(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        return GraphVectorStore(IndexStore(tmp_path / "index", embedding=self.get_embeddings()))


class Counting(DeterministicFakeEmbedding):
    """LangChain's fake embeddings; notes what it embeds."""

    seen: list = []

    def embed_documents(self, texts):
        self.seen.extend(texts)
        return super().embed_documents(texts)


def pages(**texts):
    return [Document(text, metadata={"source": f"{name}.md"}) for name, text in texts.items()]


def contents(documents):
    return sorted((document.page_content, document.metadata["source"]) for document in documents)


@pytest.mark.parametrize("cleanup", ["incremental", "full", "scoped_full"])
def test_the_indexing_api_reports_and_leaves_what_it_does_on_a_store_of_langchain(tmp_path, cleanup):
    stores = [
        GraphVectorStore(IndexStore(tmp_path / "index", embedding=DeterministicFakeEmbedding(size=8), edges=Links())),
        InMemoryVectorStore(DeterministicFakeEmbedding(size=8)),
    ]
    records = [InMemoryRecordManager(str(place)) for place in range(2)]
    for manager in records:
        manager.create_schema()
    versions = [
        pages(a="A loom [card](b.md)", b="A card", c="A cipher"),
        pages(a="A loom [card](b.md)", b="A punched card", c="A cipher"),
        pages(a="A loom [card](b.md)", b="A punched card", c="A cipher"),
        pages(a="A loom", c="A cipher"),
        [],
    ]
    for documents in versions:
        done = []
        for store, manager in zip(stores, records, strict=True):
            options = {"cleanup": cleanup, "source_id_key": "source", "key_encoder": "sha256", "batch_size": 2}
            done.append(index(documents, manager, store, **options))
        assert done[0] == done[1]
        mine, theirs = (store.similarity_search("a loom", k=20) for store in stores)
        assert contents(mine) == contents(theirs)
        held = stores[0].store
        if len(held):
            fresh = GraphIndex.from_documents(
                [held.index.graph.node(row) for row in range(len(held))], edges=[Links()], embedding=HashEmbedding(8)
            )
            assert [e for e in held.index.graph.edges() if e.relation == "links"] == fresh.graph.edges()


def test_only_new_texts_are_embedded_and_a_retriever_follows(tmp_path):
    embedding = Counting(size=8)
    embedding.seen.clear()
    store = GraphVectorStore(IndexStore(tmp_path / "index", embedding=embedding, edges=Links()))
    retriever = store.graph_retriever("ppr", k=3)
    assert retriever.invoke("Which loom?") == []
    both = pages(a="A loom [card](b.md)", b="A card")
    first = [Document(page.page_content, id=page.metadata["source"], metadata=page.metadata) for page in both]
    assert store.add_documents(first) == ["a.md", "b.md"]
    assert sorted(embedding.seen) == ["A card", "A loom [card](b.md)"]
    assert {document.id for document in retriever.invoke("Which loom?")} == {"a.md", "b.md"}
    store.add_documents([*first, Document("A card", id="copy", metadata={"source": "copy.md"})])
    assert len(embedding.seen) == 2, "the text of the copy is there already"
    store.add_documents([Document("A new card", id="b.md", metadata={"source": "b.md"})])
    assert embedding.seen[2:] == ["A new card"]
    assert [edge.target for edge in store.store.index.graph.edges()] == ["b.md"]
    assert store.delete(["b.md", "unknown"]) and store.store.index.graph.edges() == []
    # Another process sees the same.
    other = GraphVectorStore(IndexStore(tmp_path / "index", embedding=embedding))
    assert [document.id for document in other.get_by_ids(["a.md", "b.md"])] == ["a.md"]


def test_scores_vectors_and_filters_of_searches(tmp_path):
    embedding = DeterministicFakeEmbedding(size=8)
    metadatas = [{"year": 1801}, {"year": 1843}]
    store = GraphVectorStore.from_texts(["a loom", "a card"], embedding, metadatas, ids=["x", "y"], folder=tmp_path / "index")
    assert store.embeddings is embedding
    (best, score), (_, worse) = store.similarity_search_with_score("a card", k=2)
    assert best.id == "y" and score > worse
    assert [d.id for d in store.similarity_search_by_vector(embedding.embed_query("a loom"), k=1)] == ["x"]
    assert [d.id for d in store.similarity_search("a loom", k=2, filter={"year": {"$gt": 1810}})] == ["y"]
    assert [d.id for d in store.as_retriever(search_kwargs={"k": 1}).invoke("a loom")] == ["x"]
    words = GraphVectorStore(IndexStore(tmp_path / "words"))
    words.add_texts(["a loom", "a card"], ids=["x", "y"])
    assert [d.id for d in words.similarity_search("Which card?")] == ["y"]
    with pytest.raises(InvalidArgumentError, match="expected a list of the ids"):
        store.delete()
    with pytest.raises(InvalidArgumentError, match="one id per document"):
        store.add_documents([Document("x")], ids=["a", "b"])
    with pytest.raises(InvalidArgumentError, match="folder="):
        GraphVectorStore.from_texts(["x"], embedding)
