"""What both framework packages do with calls, vectors, originals, types and metadata of the user's own."""

import uuid

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from llama_index.core import Settings
from llama_index.core.schema import IndexNode, QueryBundle, TextNode

from graph_retrievers import GraphIndex, Node, Retriever, SpreadingActivation
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.operators import BM25Search, VectorSearch
from graph_retrievers.signals.language import complete_json
from langchain_graph_retrievers import GraphRetriever as LangChainRetriever
from llama_graph_retrievers import GraphRetriever as LlamaRetriever
from llama_graph_retrievers import provenance, to_context
from tests.helpers import HashEmbedding, linked_index
from tests.integration.langchain_models import RemoteRetriever, RetrieverEvents
from tests.integration.llama_corpus import HashEmbed


def looms():
    return Retriever(GraphIndex.from_texts(["a loom", "a card"]), BM25Search(), backfill=False)


def test_a_batch_with_one_run_id_for_all():
    found = LangChainRetriever(retriever=looms()).batch(["loom"], run_id=uuid.uuid4())
    assert [[document.id for document in documents] for documents in found] == [["0"]]


def test_runs_of_a_batch_have_the_ids_of_their_configurations():
    events, given = RetrieverEvents(), [uuid.uuid4(), uuid.uuid4()]
    configurations = [{"run_id": run, "callbacks": [events]} for run in given]
    LangChainRetriever(retriever=looms()).batch(["loom", "card"], configurations)
    assert [events.started[run]["query"] for run in given] == ["loom", "card"]


def test_k_of_a_call_is_at_least_one():
    with pytest.raises(InvalidArgumentError, match="k must be an integer of at least 1, got 0"):
        LangChainRetriever(retriever=looms()).invoke("loom", k=0)


def test_an_input_of_a_retriever_comes_before_the_option_of_its_name():
    class Typed(RemoteRetriever):
        def __init__(self):
            super().__init__(looms())
            self.inputs = ("types",)

        def retrieve_batch(self, queries, k=None, *, types, **options):
            self.calls.append(types)
            return self.engine.retrieve_batch(queries, k, **options)

    engine = Typed()
    assert LangChainRetriever(retriever=engine).invoke("loom", types="wood")[0].id == "0" and engine.calls == [["wood"]]


def test_objects_come_before_nodes():
    target = TextNode(text="the object", id_="obj")
    retriever = LlamaRetriever(
        looms(),
        nodes=[TextNode(text="the node", id_="0")],
        objects=[IndexNode(text="an object", id_="0", index_id="obj", obj=target)],
    )
    assert [hit.node.get_content() for hit in retriever.retrieve("loom")] == ["the object"]


def test_inputs_of_a_call_come_before_those_of_the_class():
    asked = []
    engine = Retriever(linked_index(), SpreadingActivation())
    retriever = LlamaRetriever(engine, inputs={"entities": lambda query: asked.append(query) or ["IBM"]})
    retriever.retrieve_batch(["q"], entities=[["Colossus"]])
    assert asked == []


def test_a_kind_of_the_users_own_is_not_taken_for_that_of_a_hit():
    nodes = [TextNode(text="a loom", metadata={"kind": "chain"}), TextNode(text="a card")]
    retriever = LlamaRetriever.from_defaults(nodes=nodes, system="bm25")
    hits = retriever.retrieve("loom")
    assert hits[0].node.metadata == {"kind": "chain"} and "kind" not in provenance(hits[0])
    assert to_context(hits[:1]).startswith("Texts:")


async def test_metadata_of_a_traced_run_are_the_same_for_one_query_and_for_a_batch():
    retriever = LangChainRetriever(index=linked_index(), system="bm25", k=1)

    def config():
        return {"callbacks": [RetrieverEvents()], "metadata": {"ls_retriever_name": "of the caller", "user": "Ada"}}

    single, asingle, batch, abatch = configs = [config() for _ in range(4)]
    retriever.invoke("loom", single)
    await retriever.ainvoke("loom", asingle)
    retriever.batch(["loom", "engine"], batch)
    await retriever.abatch(["loom", "engine"], abatch)
    told = [run["metadata"] for each in configs for run in each["callbacks"][0].started.values()]
    assert len(told) == 6
    for metadata in told:
        assert metadata == told[0]
        assert metadata["ls_retriever_name"] == "bm25" and metadata["user"] == "Ada"


class ToolCaller(BaseChatModel):
    """A chat model that calls the tool it is given without arguments, and keeps the tools."""

    tools: list = []

    @property
    def _llm_type(self):
        return "tool-caller"

    def bind_tools(self, tools, **kwargs):
        self.tools.extend(tools)
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        call = {"name": self.tools[-1]["title"], "args": {}, "id": "1"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("not JSON", tool_calls=[call]))])


def test_a_tool_call_without_arguments_is_an_answer_under_the_title_of_the_schema():
    model = ToolCaller()
    assert complete_json(model, "Who?", {"title": "People", "type": "object"}, attempts=1) == {}
    assert [tool["title"] for tool in model.tools] == ["People"]


async def test_an_engine_retriever_that_is_awaited_is_not_asked_for_nothing():
    engine = RemoteRetriever(Retriever(linked_index(), VectorSearch()))
    retriever = LlamaRetriever(engine, similarity_top_k=0)
    assert await retriever.aretrieve("loom") == []
    assert await retriever.aretrieve_batch(["loom", "engine"]) == [[], []]
    assert engine.calls == []
    retriever.similarity_top_k = 1
    assert len(await retriever.aretrieve("loom")) == 1 and engine.calls == [("async", 1)]


async def test_a_vector_that_comes_with_one_query_of_a_batch_counts_without_an_index(monkeypatch):
    model = HashEmbed()
    monkeypatch.setattr(Settings, "_embed_model", model)
    retriever = LlamaRetriever(RemoteRetriever(Retriever(linked_index(), VectorSearch())), similarity_top_k=1)
    queries = ["Threads crossed at right angles", "An electronic computer with valves"]
    census = HashEmbedding().embed_query("His tabulating machine counted the census by punched cards")

    def bundles():
        return [QueryBundle(queries[0], embedding=census), QueryBundle(queries[1])]

    assert [[hit.node.node_id for hit in hits] for hits in retriever.retrieve_batch(queries)] == [["loom"], ["colossus"]]
    assert model.queries == [], "the engine retriever embeds what comes without a vector"
    expected = [["hollerith"], ["colossus"]]
    assert [[hit.node.node_id for hit in hits] for hits in retriever.retrieve_batch(bundles())] == expected
    assert [[hit.node.node_id for hit in hits] for hits in await retriever.aretrieve_batch(bundles())] == expected
    assert model.queries == [queries[1]] * 2


@pytest.mark.parametrize("metadata", [{}, {"type": "of the user"}, {"type": "film"}])
def test_a_context_names_the_type_of_a_node_whatever_its_metadata_say(metadata):
    index = GraphIndex.from_nodes([Node("a", "A loom.", "Weaving", "film", metadata)])
    (hit,) = LlamaRetriever(Retriever(index, BM25Search())).retrieve("loom")
    assert to_context([hit]) == "Texts:\n- Weaving (film): A loom."
    assert hit.node.metadata["type"] == metadata.get("type", "film")


def test_a_chain_stays_a_chain_where_a_node_has_its_id():
    index = GraphIndex.from_nodes([Node("a", "", "Boiler"), Node("b", "", "Hallam")], [("a", "b", "made by")])
    engine = Retriever(index, SpreadingActivation(gate="uniform", chains="hits"), backfill=False)
    named = [TextNode(id_="a | b", text="A node of the user."), TextNode(id_="b", text="Hallam's own text.")]
    retriever = LlamaRetriever(engine, nodes=named, inputs={"entities": lambda query: ["Boiler"]})
    hits = {hit.node.node_id: hit.node for hit in retriever.retrieve("Who made the boiler?")}
    assert hits["b"].get_content() == "Hallam's own text."
    chain = hits["a | b"]
    assert chain.get_content() == "Boiler -[made by]-> Hallam"
    assert provenance(chain)["kind"] == "chain" and provenance(chain)["path"]["nodes"] == ["a", "b"]
