"""Inside LlamaIndex: query engines, tools, agents and fusion, with the framework's own mock models."""

import pytest
from llama_index.core import QueryBundle
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms import MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import Document
from llama_index.core.tools import RetrieverTool

from graph_retrievers import BM25, FastInsight, Re2, Vector
from llama_graph_retrievers import (
    FastInsightRetriever,
    GRankerPostprocessor,
    GraphRetriever,
)
from tests.helpers import CORPUS, linked_index
from tests.integration.llama_corpus import HashEmbed, llama_nodes

pytestmark = pytest.mark.usefixtures("no_settings")

QUESTION = "Which loom gave the engine of Charles Babbage its punched cards?"


@pytest.fixture
def retriever():
    return FastInsightRetriever.from_defaults(nodes=llama_nodes(), embed_model=HashEmbed(), similarity_top_k=6)


def test_a_query_engine_with_the_postprocessor(retriever):
    processor = GRankerPostprocessor(top_n=3, index=retriever.index, embed_model=HashEmbed())
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), node_postprocessors=[processor])
    response = engine.query(QUESTION)
    assert len(response.source_nodes) == 3
    # The mock model answers with its prompt: the context is in it, and what is only provenance is not.
    for source in response.source_nodes:
        assert source.node.text in str(response)
    assert "'relations'" not in str(response) and "operator" not in str(response)
    assert QUESTION in str(response)


async def test_a_query_engine_asked_asynchronously(retriever):
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    response = await engine.aquery(QUESTION)
    assert [n.node.node_id for n in response.source_nodes] == [n.node.node_id for n in retriever.retrieve(QUESTION)]


@pytest.mark.parametrize("form", ["positional", "keyword"])
def test_a_retriever_tool(retriever, form):
    tool = RetrieverTool.from_defaults(retriever, name="history", description="History of computing.")
    output = tool.call(QUESTION) if form == "positional" else tool.call(input=QUESTION)
    assert len(output.raw_output) == 6
    assert all(n.node.text in output.content for n in output.raw_output)
    assert "'relations'" not in output.content


async def test_the_line_breaks_of_a_retriever_tool_do_not_reach_the_model():
    embed_model, read = HashEmbed(), []
    index = linked_index(relevance=lambda pairs: [read.append(query) or 0.0 for query, _ in pairs])
    tool = RetrieverTool.from_defaults(GraphRetriever(index, Re2(), embed_model=embed_model))
    tool.call("engine")
    await tool.acall(input="engine")
    assert embed_model.queries == ["engine", "input is engine"]
    assert set(read) == {"engine", "input is engine"}


async def test_a_retriever_tool_with_the_postprocessor(retriever):
    processor = GRankerPostprocessor(top_n=2, embed_model=HashEmbed())
    tool = RetrieverTool.from_defaults(retriever, node_postprocessors=[processor])
    assert len(tool.call(QUESTION).raw_output) == len((await tool.acall(QUESTION)).raw_output) == 2


async def test_an_agent_calls_the_retriever_as_a_tool(retriever):
    prompts = []

    def answers(messages, **kwargs):
        prompts.append(messages)
        if any(m.role == "tool" for m in messages):
            return ChatMessage(role="assistant", content="Jacquard's, it seems.")
        call = ToolCallBlock(tool_call_id="1", tool_name="history", tool_kwargs={"input": QUESTION})
        return ChatMessage(role="assistant", blocks=[call])

    tool = RetrieverTool.from_defaults(retriever, name="history", description="History of computing.")
    llm = MockFunctionCallingLLM(response_generator=answers, is_chat_model=True)
    handler = FunctionAgent(tools=[tool], llm=llm, streaming=False).run(QUESTION)
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    response = await handler
    assert str(response) == "Jacquard's, it seems."
    assert len(results) == 1 and not results[0].tool_output.is_error
    retrieved = results[0].tool_output.raw_output
    assert len(retrieved) == 6
    shown = next(m.content for m in prompts[-1] if m.role == "tool")
    assert all(n.node.text in shown for n in retrieved)


def test_fusion_adds_up_what_two_retrievers_find(retriever):
    """Reciprocal ranks by hand: a node that both find has both summands, as fusion knows it by its hash."""
    nodes, knobs = llama_nodes(), {"similarity_top_k": 6}
    dense = GraphRetriever(retriever.index, Vector(), embed_model=HashEmbed(), **knobs)
    parts = [dense, GraphRetriever(retriever.index, BM25(), nodes=nodes, **knobs)]
    fusion = QueryFusionRetriever(
        parts, llm=MockLLM(), num_queries=1, similarity_top_k=6, mode="reciprocal_rerank", use_async=False
    )
    expected: dict[str, float] = {}
    for part in parts:
        # Fusion orders each list by its scores anew.
        for rank, node in enumerate(sorted(part.retrieve(QUESTION), key=lambda node: -node.score)):
            expected[node.node.node_id] = expected.get(node.node.node_id, 0.0) + 1 / (60 + rank)
    found = {n.node.node_id: n.score for n in fusion.retrieve(QUESTION)}
    assert found == pytest.approx(dict(sorted(expected.items(), key=lambda item: -item[1])[:6]))
    assert len(expected) < 12


def test_one_bundle_serves_several_retrievers_and_is_embedded_once(retriever):
    embed_model, bundle = HashEmbed(), QueryBundle(QUESTION)
    FastInsightRetriever(retriever.index, embed_model=embed_model).retrieve(bundle)
    GraphRetriever(retriever.index, Vector(), embed_model=embed_model).retrieve(bundle)
    GraphRetriever(retriever.index, "hybrid", embed_model=embed_model).retrieve(bundle)
    GRankerPostprocessor(index=retriever.index, embed_model=embed_model).postprocess_nodes(retriever.retrieve(bundle), bundle)
    assert embed_model.queries == [QUESTION]


def test_from_documents_through_a_node_parser_to_an_answer():
    text = " ".join(f"{title}. {body}" for _, title, body, _, _ in CORPUS)
    nodes = SentenceSplitter(chunk_size=32, chunk_overlap=0).get_nodes_from_documents([Document(id_="history", text=text)])
    assert len(nodes) > 5
    retriever = FastInsightRetriever.from_defaults(
        system=FastInsight(nodes_per_round=1), nodes=nodes, embed_model=HashEmbed(), similarity_top_k=3
    )
    # Neighbouring chunks are linked, and the document they came from is not a node.
    assert retriever.index.graph.num_edges == len(nodes) - 1
    response = RetrieverQueryEngine.from_args(retriever, llm=MockLLM()).query("census counted by punched cards")
    assert "census" in str(response) and all(n.node.ref_doc_id == "history" for n in response.source_nodes)
