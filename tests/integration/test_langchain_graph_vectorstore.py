"""GraphVectorStore of LangChain: its standard tests, the indexing API, and graph retrievers that follow."""

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from graph_retrievers.construction import Links
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.index import GraphIndex, IndexStore
from graph_retrievers.retrievers.store_retriever import StoreRetriever
from langchain_graph_retrievers import GraphRetriever, GraphVectorStore
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


@pytest.mark.slow
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
    retriever = GraphRetriever(retriever=StoreRetriever(store.store, "ppr"), k=3)
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


class Compass(Embeddings):
    """Vectors of the directions that texts name, of any length; a query is between east and north-east."""

    known = {"east": [1.0, 0.0], "almost east": [3.0, 0.3], "north-east": [2.0, 2.0], "north": [0.0, 1.0], "west": [-5.0, 0.0]}

    def embed_documents(self, texts):
        return [self.known[text] for text in texts]

    def embed_query(self, text):
        return [4.0, 3.0]


@pytest.fixture
def compass(tmp_path):
    metadatas = [{"place": place} for place in range(5)]
    return GraphVectorStore.from_texts(list(Compass.known), Compass(), metadatas, folder=tmp_path / "compass", metric="dot")


async def test_relevance_scores_are_cosines_and_may_have_a_threshold(compass, tmp_path, caplog):
    scores = {"east": 0.8, "almost east": 0.86 / 1.01**0.5, "north-east": 1.4 * 0.5**0.5, "north": 0.6, "west": 0.0}
    found = compass.similarity_search_with_relevance_scores("Where?", k=5)
    assert {document.page_content: score for document, score in found} == pytest.approx(scores)
    assert await compass.asimilarity_search_with_relevance_scores("Where?", k=5) == found
    assert len(compass.similarity_search_with_relevance_scores("Where?")) == 4
    options = {"k": 5, "score_threshold": 0.7}
    retriever = compass.as_retriever(search_type="similarity_score_threshold", search_kwargs=options)
    assert sorted(document.page_content for document in retriever.invoke("Where?")) == ["almost east", "east", "north-east"]
    assert await retriever.ainvoke("Where?") == retriever.invoke("Where?")
    few = compass.as_retriever(search_type="similarity_score_threshold", search_kwargs=options | {"filter": {"place": 2}})
    assert [document.page_content for document in few.invoke("Where?")] == ["north-east"]
    empty = GraphVectorStore(IndexStore(tmp_path / "empty", embedding=Compass()))
    assert empty.similarity_search_with_relevance_scores("Where?") == []
    assert "Nothing was found: the store holds no documents." in caplog.text


async def test_maximal_marginal_relevance_chooses_as_a_store_of_langchain_does(compass, tmp_path, caplog):
    theirs = InMemoryVectorStore(Compass())
    theirs.add_texts(list(Compass.known))
    for options in (
        {"k": 2},
        {"k": 3, "lambda_mult": 0.1},
        {"k": 5, "lambda_mult": 0.9},
        {"k": 9, "fetch_k": 4, "lambda_mult": 0.5},
        {"k": 3, "fetch_k": 3, "lambda_mult": 0.0},
        {"k": 2, "lambda_mult": 1.0},
    ):
        mine, other = (store.as_retriever(search_type="mmr", search_kwargs=options) for store in (compass, theirs))
        chosen = [document.page_content for document in mine.invoke("Where?")]
        assert chosen == [document.page_content for document in other.invoke("Where?")]
        assert len(chosen) == min(options["k"], options.get("fetch_k", 5))
        assert await mine.ainvoke("Where?") == mine.invoke("Where?")
    only = {"filter": {"place": {"$in": [2, 3]}}}
    assert [d.page_content for d in compass.max_marginal_relevance_search("Where?", **only)] == ["north-east", "north"]
    assert compass.max_marginal_relevance_search("Where?", filter={"place": 9}) == []
    empty = GraphVectorStore(IndexStore(tmp_path / "empty", embedding=Compass()))
    assert empty.max_marginal_relevance_search("Where?") == []
    logged = [record.getMessage() for record in caplog.records if "Nothing" in record.getMessage()]
    assert logged == [
        "Nothing was found: the operators found no node; no node passes the filter, which reads 'place'.",
        "Nothing was found: the store holds no documents.",
    ]


@pytest.mark.parametrize("search_type", ["mmr", "similarity_score_threshold"])
def test_what_needs_vectors_says_so_in_a_store_of_words(tmp_path, search_type):
    store = GraphVectorStore(IndexStore(tmp_path / "words"))
    for _ in range(2):
        retriever = store.as_retriever(search_type=search_type, search_kwargs={"score_threshold": 0.5})
        with pytest.raises(MissingSignalError, match=rf"'{search_type}' needs: make it with IndexStore\(\.\.\., embedding=\)"):
            retriever.invoke("Which card?")
        store.add_texts(["a loom", "a card"])
