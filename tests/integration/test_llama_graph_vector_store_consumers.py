"""GraphVectorStore under each class of LlamaIndex core that calls a vector store; a SimpleVectorStore says what is expected."""

import asyncio

import pytest
from llama_index.core import (
    Document,
    DocumentSummaryIndex,
    PropertyGraphIndex,
    StorageContext,
    VectorStoreIndex,
    load_index_from_storage,
)
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.indices.property_graph import VectorContextRetriever
from llama_index.core.indices.vector_store import VectorIndexAutoRetriever
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.ingestion.pipeline import DocstoreStrategy
from llama_index.core.llms import MockLLM
from llama_index.core.memory import VectorMemory, VectorMemoryBlock
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import IndexNode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    MetadataFilter,
    MetadataFilters,
    MetadataInfo,
    VectorStoreInfo,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from graph_retrievers import Vector
from graph_retrievers.construction import read_folder
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.index import IndexStore
from llama_graph_retrievers import GraphRetriever, GraphVectorStore, LlamaIndexVectors
from tests.integration.llama_corpus import HashEmbed, Known, llama_nodes

QUESTION = "Which loom gave the engine of Charles Babbage its punched cards?"
ALL = len(llama_nodes())
LATE = MetadataFilters(filters=[MetadataFilter(key="year", value=1830, operator=">=")])


def ids(nodes):
    return [scored.node.node_id for scored in nodes]


def scores(nodes):
    return [(scored.node.node_id, scored.text, pytest.approx(scored.score, abs=1e-5)) for scored in nodes]


def simple(nodes, **options):
    return VectorStoreIndex(nodes, embed_model=HashEmbed(), **options)


@pytest.fixture
def store(tmp_path):
    return GraphVectorStore(IndexStore(tmp_path / "index"))


def context(store):
    return StorageContext.from_defaults(vector_store=store)


def indexes(store):
    """Indexes on a store of the same nodes, as users come by them."""
    built = VectorStoreIndex(llama_nodes(), storage_context=context(store), embed_model=HashEmbed())
    opened = VectorStoreIndex.from_vector_store(store, embed_model=HashEmbed())
    return built, opened


def test_retrievers_and_query_engines_answer_as_on_a_simple_store(store):
    theirs = simple(llama_nodes())
    wanted = theirs.as_retriever(similarity_top_k=4).retrieve(QUESTION)
    assert len(wanted) == 4
    for mine in indexes(store):
        assert mine.index_struct.nodes_dict == {}, "LlamaIndex asks this store with node_ids=[]"
        retriever = mine.as_retriever(similarity_top_k=4)
        assert scores(retriever.retrieve(QUESTION)) == scores(wanted)
        assert scores(asyncio.run(retriever.aretrieve(QUESTION))) == scores(wanted)
        sources = mine.as_query_engine(llm=MockLLM(), similarity_top_k=4).query(QUESTION).source_nodes
        assert scores(sources) == scores(wanted)
        engine = RetrieverQueryEngine.from_args(mine.as_retriever(similarity_top_k=4), llm=MockLLM())
        assert scores(asyncio.run(engine.aquery(QUESTION)).source_nodes) == scores(wanted)
        both = [retriever, theirs.as_retriever(similarity_top_k=4)]
        fused = QueryFusionRetriever(both, MockLLM(), num_queries=1, similarity_top_k=4, use_async=False)
        assert ids(fused.retrieve(QUESTION)) == ids(wanted)
        assert len(ids(mine.as_retriever(similarity_top_k=99, doc_ids=[]).retrieve(QUESTION))) == ALL


def test_a_store_that_llamaindex_keeps_nodes_of_too(store):
    """With store_nodes_override=True, node_ids are those of all nodes."""
    mine = VectorStoreIndex(llama_nodes(), storage_context=context(store), embed_model=HashEmbed(), store_nodes_override=True)
    theirs = simple(llama_nodes())
    assert len(mine.index_struct.nodes_dict) == len(mine.docstore.docs) == ALL
    ask = {"similarity_top_k": 5}
    assert scores(mine.as_retriever(**ask).retrieve(QUESTION)) == scores(theirs.as_retriever(**ask).retrieve(QUESTION))
    mine.delete_nodes(["loom"], delete_from_docstore=True)
    assert "loom" not in ids(mine.as_retriever(similarity_top_k=99).retrieve(QUESTION)) and "loom" not in mine.docstore.docs


def test_index_nodes_come_with_their_objects(store):
    """LlamaIndex asks for the nodes that it keeps itself; those of the class IndexNode are followed to what they stand for."""
    nodes = [
        TextNode(text="A card.", id_="card"),
        IndexNode(text="Looms.", id_="looms", index_id="all", obj=TextNode(text="A loom.")),
    ]
    options = {"embed_model": HashEmbed(), "store_nodes_override": True}
    mine = VectorStoreIndex(nodes, storage_context=context(store), **options)
    theirs = VectorStoreIndex(nodes, **options)
    found = mine.as_retriever(similarity_top_k=2).retrieve("looms")
    assert [hit.text for hit in found] == [hit.text for hit in theirs.as_retriever(similarity_top_k=2).retrieve("looms")]
    assert {hit.text for hit in found} == {"A card.", "A loom."}


def test_filters_and_ids_choose_among_the_nodes(store):
    theirs = simple(llama_nodes())
    wanted = theirs.as_retriever(filters=LATE, similarity_top_k=99).retrieve(QUESTION)
    assert 1 < len(wanted) < ALL
    some = ids(wanted)[:2]
    for mine in indexes(store):
        for doc_ids in (None, []):
            retriever = mine.as_retriever(filters=LATE, doc_ids=doc_ids, similarity_top_k=99)
            assert scores(retriever.retrieve(QUESTION)) == scores(wanted)
        nothing = MetadataFilters(filters=[], condition=FilterCondition.OR)
        assert len(mine.as_retriever(filters=nothing, similarity_top_k=99).retrieve(QUESTION)) == ALL
        # A filter that no node passes, unlike an empty list of ids, finds nothing.
        never = MetadataFilters(filters=[MetadataFilter(key="year", value=3000)])
        assert mine.as_retriever(filters=never).retrieve(QUESTION) == []
        query = {"query_str": QUESTION, "query_embedding": HashEmbed().get_query_embedding(QUESTION), "similarity_top_k": 99}
        assert sorted(mine.vector_store.query(VectorStoreQuery(**query, node_ids=[*some, "unknown"])).ids) == sorted(some)
        assert mine.vector_store.query(VectorStoreQuery(**query, node_ids=["unknown"])).ids == []
        assert mine.vector_store.query(VectorStoreQuery(**query, node_ids=some, filters=never)).ids == []


def test_ids_of_documents_and_filters_choose_together(store):
    nodes = [
        TextNode(text="A loom.", id_=f"{source}{year}", metadata={"year": year}, embedding=[1.0, 0.0])
        for source in "ab"
        for year in (1, 2)
    ]
    for node in nodes:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=node.node_id[0])
    store.add(nodes)
    late = MetadataFilters(filters=[MetadataFilter(key="year", value=2)])
    asked = {"query_embedding": [1.0, 0.0], "similarity_top_k": 9, "doc_ids": ["a"]}
    assert sorted(store.query(VectorStoreQuery(**asked)).ids) == ["a1", "a2"]
    assert store.query(VectorStoreQuery(**asked, filters=late)).ids == ["a2"]
    assert store.query(VectorStoreQuery(**asked, node_ids=["a1", "b1"])).ids == ["a1"]


class Planner(MockLLM):
    """Answers every prompt with the plan of an auto-retriever."""

    def complete(self, prompt, **options):
        answer = super().complete(prompt, **options)
        late = '{"key": "year", "value": 1830, "operator": ">="}'
        answer.text = f'{{"query": "{QUESTION}", "filters": [{late}], "top_k": 3}}'
        return answer


def test_an_auto_retriever_filters(store):
    info = VectorStoreInfo(content_info="Machines.", metadata_info=[MetadataInfo(name="year", type="int", description="Of it.")])
    made = {"vector_store_info": info, "llm": Planner(), "similarity_top_k": 3}
    wanted = VectorIndexAutoRetriever(simple(llama_nodes()), **made).retrieve(QUESTION)
    assert len(wanted) == 3
    for mine in indexes(store):
        assert scores(VectorIndexAutoRetriever(mine, **made).retrieve(QUESTION)) == scores(wanted)
        # Without a question, the auto-retriever gives no vector but this one.
        empty = VectorIndexAutoRetriever(mine, **made, default_empty_query_vector=[0.1] * len(HashEmbed().get_query_embedding("a")))
        bundle = empty._get_query_bundle("")
        assert len(mine.as_retriever(similarity_top_k=3).retrieve(bundle)) == 3


@pytest.mark.parametrize("question", ["", " "])
def test_an_auto_retriever_whose_question_is_only_a_filter_gets_the_nodes_that_pass(store, question):
    class Empty(Planner):
        def complete(self, prompt, **options):
            answer = super().complete(prompt, **options)
            answer.text = answer.text.replace(QUESTION, question)
            return answer

    info = VectorStoreInfo(content_info="Machines.", metadata_info=[MetadataInfo(name="year", type="int", description="Of it.")])
    late = [node.node_id for node in llama_nodes() if node.metadata["year"] >= 1830][:3]
    for mine in indexes(store):
        made = VectorIndexAutoRetriever(mine, vector_store_info=info, llm=Empty(), similarity_top_k=3)
        assert ids(made.retrieve("What is of 1830 or later?")) == late
        assert mine.as_retriever(vector_store_query_mode="hybrid").retrieve(question) == []


def test_inserting_updating_and_deleting_show_in_retrievers_that_are_there(store):
    theirs = simple([])
    mine = VectorStoreIndex.from_vector_store(store, embed_model=HashEmbed())
    asked = [index.as_retriever(similarity_top_k=99) for index in (mine, theirs)]

    def same():
        # A retriever of LlamaIndex keeps the ids of the nodes that its index had.
        asked[1] = theirs.as_retriever(similarity_top_k=99)
        found, wanted = (retriever.retrieve("A loom and a card") for retriever in asked)
        assert sorted(hit.text for hit in found) == sorted(hit.text for hit in wanted)
        return len(wanted)

    for index in (mine, theirs):
        index.insert(Document(text="A loom of iron.", id_="a"))
        asyncio.run(index.ainsert_nodes([TextNode(text="A card of paper.", id_="b1")]))
        index.insert_nodes([TextNode(text="A cipher.", id_="c1"), TextNode(text="A wheel.", id_="d1")])
    assert same() == 4
    for index in (mine, theirs):
        assert index.refresh_ref_docs([Document(text="A loom of brass.", id_="a"), Document(text="A pump.", id_="e")]) == [
            True,
            True,
        ]
    assert same() == 5
    for index in (mine, theirs):
        index.update_ref_doc(Document(text="A loom of wood.", id_="a"))
        index.delete_nodes(["c1"], delete_from_docstore=True)
        asyncio.run(index.adelete_nodes(["d1"], delete_from_docstore=True))
        asyncio.run(index.adelete_ref_doc("e", delete_from_docstore=True))
    assert same() == 2
    # Deleting no node deletes none, although a query for no node asks all.
    store.delete_nodes([])
    assert same() == 2 and store.get_nodes([]) == []


def test_calls_without_waiting_do_what_the_others_do(store):
    async def run():
        named = await store.async_add(
            [node.model_copy(update={"embedding": [1.0, float(i)]}) for i, node in enumerate(llama_nodes())]
        )
        assert len(named) == len(await store.aget_nodes()) == ALL
        assert ids_of(await store.aget_nodes(["loom"])) == ["loom"]
        assert (await store.aquery(VectorStoreQuery(query_embedding=[1.0, 0.0]))).ids == [llama_nodes()[0].node_id]
        await store.adelete_nodes(["loom"])
        await store.adelete_nodes(filters=LATE)
        assert 0 < len(await store.aget_nodes()) < ALL - 1
        await store.adelete(named[0])
        assert named[0] not in ids_of(await store.aget_nodes())
        await store.aclear()
        assert await store.aget_nodes() == []

    def ids_of(nodes):
        return [node.node_id for node in nodes]

    asyncio.run(run())


def test_an_index_that_is_persisted_is_loaded_with_its_store(store, tmp_path):
    built, _ = indexes(store)
    wanted = scores(built.as_retriever(similarity_top_k=4).retrieve(QUESTION))
    built.storage_context.persist(tmp_path / "persisted")
    again = GraphVectorStore(IndexStore(tmp_path / "index"))
    kept = StorageContext.from_defaults(vector_store=again, persist_dir=str(tmp_path / "persisted"))
    loaded = load_index_from_storage(kept, embed_model=HashEmbed())
    assert scores(loaded.as_retriever(similarity_top_k=4).retrieve(QUESTION)) == wanted
    loaded.insert(Document(text=QUESTION, id_="new"))
    assert loaded.as_retriever(similarity_top_k=1).retrieve(QUESTION)[0].node.ref_doc_id == "new"


def test_modes(store):
    built, _ = indexes(store)

    def found(mode, **options):
        return ids(built.as_retriever(vector_store_query_mode=mode, similarity_top_k=4, **options).retrieve("punched cards"))

    by_words, by_vectors, both = found("text_search"), found("default"), found("hybrid")
    assert by_words and len(by_vectors) == len(both) == 4
    # alpha is 0 for words and 1 for vectors, as VectorStoreQuery says.
    assert found("hybrid", alpha=1.0) == by_vectors and found("hybrid", alpha=0.0)[: len(by_words)] == by_words
    assert found("hybrid", alpha=0.5) == both and by_vectors != by_words
    assert found("hybrid", hybrid_top_k=2) == both[:2]
    with pytest.raises(InvalidArgumentError, match="alpha must lie in"):
        found("hybrid", alpha=2.0)
    for mode in (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.HYBRID):
        with pytest.raises(InvalidArgumentError, match="query_str"):
            store.query(VectorStoreQuery(query_embedding=[1.0] * 8, mode=mode))
        assert store.query(VectorStoreQuery(query_str="  ", query_embedding=[1.0] * 64, mode=mode)).ids == []


def test_nodes_are_listed_with_their_vectors(store):
    """What reads the vectors of a store, this package's retrievers too, need not embed again."""
    _, mine = indexes(store)
    vectors = {node.node_id: node.embedding for node in store.get_nodes()}
    assert LlamaIndexVectors(store).vectors(["loom"]) == {"loom": vectors["loom"]}
    model = HashEmbed()
    theirs = simple(llama_nodes()).vector_store.data.embedding_dict
    assert all(vectors[name] == pytest.approx(theirs[name], abs=1e-6) for name in vectors) and len(vectors) == ALL
    over = GraphRetriever.from_defaults(
        VectorStoreIndex.from_vector_store(store, embed_model=model), system=Vector(), similarity_top_k=3
    )
    assert model.texts == [] and ids(over.retrieve(QUESTION)) == ids(mine.as_retriever(similarity_top_k=3).retrieve(QUESTION))


def test_similarities_are_cosines_whatever_the_length_of_the_vector(store):
    # Nodes of this package, of which a store takes dot products.
    store.client.update(upsert=[Node("n0", "", embedding=[1.0, 0.0]), Node("n1", "", embedding=[0.8, 0.6])])
    assert store.client.index.dense.metric == "dot"
    one, three = (store.query(VectorStoreQuery(query_embedding=[length, 0.0], similarity_top_k=3)) for length in (1.0, 3.0))
    assert one.ids == three.ids == ["n0", "n1"]
    assert one.similarities == pytest.approx([1, 0.8]) and three.similarities == pytest.approx(one.similarities)


def test_pages_that_were_read_from_a_folder_are_listed_as_they_were_written(store, tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "a.md").write_text("# Looms\n\nThey read **punched** [cards](cards.md).")
    store.client.update(upsert=read_folder(tmp_path / "pages"))
    (node,) = store.get_nodes()
    assert node.text == "They read **punched** [cards](cards.md)." and node.embedding is None


class Counted(list):
    """A list that counts how often it is gone through."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def test_ids_are_gone_through_once_whatever_the_store_holds(store, monkeypatch):
    store.add([TextNode(text=f"Card {i}.", id_=f"n{i}", embedding=[1.0, float(i)], metadata={"n": i}) for i in range(300)])
    made = []
    monkeypatch.setattr("llama_graph_retrievers.graph_vector_store.node_of", lambda hit: made.append(hit) or TextNode(id_=hit.id))
    for filters, wanted in ((None, ["n7", "n299"]), (MetadataFilters(filters=[MetadataFilter(key="n", value=7)]), ["n7"])):
        asked = Counted(["n299", "unknown", "n7", "n7"])
        made.clear()
        assert [node.node_id for node in store.get_nodes(asked, filters)] == wanted
        assert asked.times <= 3 and len(made) == len(wanted)
    asked = Counted(["n299", "unknown", "n7"])
    made.clear()
    store.delete_nodes(asked)
    assert asked.times <= 6 and made == [] and len(store.client) == 298


def pipeline_nodes(index):
    return sorted(hit.text for hit in index.as_retriever(similarity_top_k=99).retrieve("a loom"))


def test_ingestion_pipelines_upsert_and_delete(store):
    versions = [
        [Document(text="A loom.", id_="a"), Document(text="A card.", id_="b")],
        [Document(text="A loom of iron.", id_="a"), Document(text="A card.", id_="b"), Document(text="A wheel.", id_="c")],
        [Document(text="A card.", id_="b")],
    ]
    pipelines = [
        IngestionPipeline(
            transformations=[SentenceSplitter(), HashEmbed()],
            docstore=SimpleDocumentStore(),
            vector_store=each,
            docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
        )
        for each in (store, SimpleVectorStore())
    ]
    index = VectorStoreIndex.from_vector_store(store, embed_model=HashEmbed())
    for number, version in enumerate(versions):
        for pipeline in pipelines:
            asyncio.run(pipeline.arun(documents=version)) if number == 1 else pipeline.run(documents=version)
        assert pipeline_nodes(index) == sorted(document.text for document in version)
        assert len(pipelines[1].vector_store.data.embedding_dict) == len(version)


def test_summaries_of_documents(store):
    documents = [Document(text=node.text, id_=node.node_id) for node in llama_nodes()]
    options = {"llm": MockLLM(), "embed_model": HashEmbed(), "show_progress": False}
    mine = DocumentSummaryIndex.from_documents(documents, storage_context=context(store), **options)
    theirs = DocumentSummaryIndex.from_documents(documents, **options)
    found, wanted = (
        [hit.text for hit in index.as_retriever(retriever_mode="embedding", similarity_top_k=3).retrieve(QUESTION)]
        for index in (mine, theirs)
    )
    assert found == wanted and len(found) == 3
    mine.delete_ref_doc("loom")
    assert len(store.get_nodes()) == ALL - 1


def test_property_graphs_keep_their_vectors_in_it(store):
    passages = ["Ada programmed Engine.", "Engine read Cards.", "Jacquard invented Cards."]
    options = {"embed_model": HashEmbed(), "kg_extractors": [Known()], "use_async": False, "llm": MockLLM()}
    indexes = [
        PropertyGraphIndex([TextNode(text=text, id_=f"p{i}") for i, text in enumerate(passages)], vector_store=each, **options)
        for each in (store, SimpleVectorStore())
    ]
    for index in indexes:
        retriever = VectorContextRetriever(
            index.property_graph_store, False, vector_store=index.vector_store, embed_model=HashEmbed(), similarity_top_k=1
        )
        for found in (retriever.retrieve("Jacquard"), asyncio.run(retriever.aretrieve("Jacquard"))):
            assert [hit.text for hit in found] == ["Jacquard -> invented -> Cards"] and found[0].score > 0.3


def test_memories(store, tmp_path):
    block = VectorMemoryBlock(vector_store=store, embed_model=HashEmbed(), similarity_top_k=1, retrieval_context_window=1)

    async def talk():
        for text, session in (("A loom reads cards.", "one"), ("A pump lifts water.", "two")):
            await block.aput([ChatMessage(role="user", content=text, additional_kwargs={"session_id": session})])
        return await block.aget([ChatMessage(role="user", content="A loom reads water")], session_id="two")

    assert "A pump lifts water." in asyncio.run(talk()) and len(store.get_nodes()) == 2
    other = GraphVectorStore(IndexStore(tmp_path / "memory"))
    memory = VectorMemory.from_defaults(vector_store=other, embed_model=HashEmbed(), retriever_kwargs={"similarity_top_k": 1})
    memory.put(ChatMessage(role="user", content="A loom reads cards."))
    memory.put(ChatMessage(role="user", content="A pump lifts water."))
    assert [message.content for message in memory.get("A pump")] == ["A pump lifts water."]
    memory.reset()
    assert other.get_nodes() == []
