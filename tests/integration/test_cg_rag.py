"""CG-RAG in both frameworks: contexts on documents, summaries, the chain and the query engine, with fake language models."""

import asyncio

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListLLM
from langchain_core.prompts import PromptTemplate
from llama_index.core import PromptTemplate as LlamaPrompt
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback

from graph_retrievers import Retriever
from graph_retrievers.errors import InvalidArgumentError, LanguageModelError
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import Edge
from graph_retrievers.index import GraphIndex
from graph_retrievers.systems import LeSeGR
from langchain_graph_retrievers import GraphRetriever, LeSeGRRetriever, create_cg_rag_chain, to_context
from llama_graph_retrievers import CGRAGQueryEngine, provenance
from llama_graph_retrievers import LeSeGRRetriever as LlamaLeSeGRRetriever
from llama_graph_retrievers import to_context as llama_to_context
from tests.helpers import HashEmbedding, linked_index

QUESTION = "Which engine did Babbage design?"


class Recorder:
    """A language model that keeps what it was asked, and answers with a number."""

    def __init__(self):
        self.asked = []

    def complete(self, prompt, schema=None):
        self.asked.append(prompt)
        return f"summary\n{len(self.asked)}"


class LlamaRecorder(CustomLLM):
    asked: list[str] = []

    @property
    def metadata(self):
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **kwargs):
        self.asked.append(prompt)
        return CompletionResponse(text=f"answer {len(self.asked)}")

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **kwargs):
        yield self.complete(prompt, formatted)


@pytest.fixture(scope="module")
def index():
    return linked_index()


def heard(metadata):
    return [near["id"] for near in metadata["context"]["nodes"]] if "context" in metadata else []


def contexts(index):
    return {hit.id: [node.id for node in hit.context.nodes] for hit in Retriever(index, LeSeGR(), k=4).retrieve(QUESTION)}


def test_documents_and_nodes_carry_the_contexts_of_the_hits(index):
    expected = contexts(index)
    assert any(expected.values())
    documents = LeSeGRRetriever(index=index, k=4, provenance=True).invoke(QUESTION)
    assert {d.id: heard(d.metadata) for d in documents} == expected
    nodes = LlamaLeSeGRRetriever(index, similarity_top_k=4).retrieve(QUESTION)
    assert {n.node.node_id: heard(provenance(n)) for n in nodes} == expected
    context = Retriever(index, LeSeGR(), k=4).retrieve(QUESTION).to_context()
    assert context == to_context(documents) == llama_to_context(nodes)
    assert "  Context:\n  - " in context


def test_a_context_of_the_users_own_is_not_taken_for_one():
    retriever = GraphRetriever.from_texts(["a loom"], system="bm25", metadatas=[{"context": "a museum"}], k=1)
    (document,) = retriever.invoke("Which loom?")
    assert document.metadata["context"] == "a museum" and "Context" not in to_context([document])
    for value in ([{"id": "x", "title": "T", "text": "t"}], {"nodes": 5}, 3, {"nodes": [{}], "edges": []}):
        assert "Context" not in to_context([Document("a loom", metadata={"context": value})])


def test_both_doors_show_types_and_give_summaries_the_links():
    nodes = [Node("p", "A loom.", "Loom", "machine"), Node("q", "A loom of brass.", "Brass loom", "machine")]
    nodes.append(Node("r", "A loom of wood.", "Wooden loom"))
    index = GraphIndex.from_nodes(nodes, [Edge("p", "q", "inspired"), Edge("p", "r")], embedding=HashEmbedding())
    models = [Recorder(), Recorder(), Recorder()]
    hits = Retriever(index, LeSeGR(), k=1).retrieve("Which loom?")
    texts = [
        hits.to_context("Which loom?", models[0]),
        to_context(LeSeGRRetriever(index=index, k=1, provenance=True).invoke("Which loom?"), "Which loom?", models[1]),
        llama_to_context(LlamaLeSeGRRetriever(index, similarity_top_k=1).retrieve("Which loom?"), "Which loom?", models[2]),
    ]
    assert texts[0] == texts[1] == texts[2] and models[0].asked == models[1].asked == models[2].asked
    assert "- Brass loom (machine): A loom of brass." in models[0].asked[0] and "- p -[inspired]-> q" in models[0].asked[0]
    assert "Wooden loom" in models[0].asked[0] and "-[]->" not in models[0].asked[0]


def test_summaries_stand_in_place_of_the_texts(index):
    hits, model = Retriever(index, LeSeGR(), k=3).retrieve(QUESTION), Recorder()
    text = hits.to_context(QUESTION, model)
    heard = [hit for hit in hits if hit.context.nodes]
    assert len(model.asked) == len(heard) and all(QUESTION in prompt for prompt in model.asked)
    for number, (hit, prompt) in enumerate(zip(heard, model.asked, strict=True), 1):
        assert hit.text in prompt and all(node.text in prompt for node in hit.context.nodes)
        assert f"  Context: summary {number}" in text

    def broken(prompt):
        raise TimeoutError("no answer")

    with pytest.raises(LanguageModelError, match="TimeoutError: no answer"):
        hits.to_context(QUESTION, broken)


def test_the_chain_answers_from_summaries(index):
    retriever = LeSeGRRetriever(index=index, k=2)
    documents = retriever.invoke(QUESTION, provenance=True)
    count = sum("context" in document.metadata for document in documents)
    llm = FakeListLLM(responses=[f"says {number}" for number in range(1, 9)])
    result = create_cg_rag_chain(retriever, llm).invoke({"input": QUESTION})
    assert result["input"] == QUESTION and result["documents"] == documents
    assert result["answer"] == f"says {count + 1}"
    assert [f"Context: says {n}" in result["context"] for n in range(1, count + 2)] == [True] * count + [False]
    plain = create_cg_rag_chain(retriever, llm, PromptTemplate.from_template("{context} / {input}"), summarize=False)
    assert plain.invoke({"input": QUESTION})["context"] == to_context(documents)
    again = asyncio.run(plain.ainvoke({"input": QUESTION}))
    assert again["documents"] == documents
    with pytest.raises(InvalidArgumentError, match="expected"):
        create_cg_rag_chain(retriever, llm, PromptTemplate.from_template("{question}"))


def test_the_query_engine_answers_from_summaries(index):
    retriever, llm = LlamaLeSeGRRetriever(index, similarity_top_k=2), LlamaRecorder(asked=[])
    nodes = retriever.retrieve(QUESTION)
    count = sum("context" in provenance(scored) for scored in nodes)
    engine = CGRAGQueryEngine(retriever, llm)
    response = engine.query(QUESTION)
    assert [n.node.node_id for n in response.source_nodes] == [n.node.node_id for n in nodes]
    assert response.response == f"answer {count + 1}" and len(llm.asked) == count + 1
    assert response.metadata["context"] in llm.asked[-1] and "Context: answer 1" in response.metadata["context"]
    again = asyncio.run(engine.aquery(QUESTION))
    assert [n.node.node_id for n in again.source_nodes] == [n.node.node_id for n in nodes]
    plain = CGRAGQueryEngine(retriever, LlamaRecorder(asked=[]), LlamaPrompt("{context_str} / {query_str}"), summarize=False)
    assert plain.query(QUESTION).metadata["context"] == llama_to_context(nodes)
    engine.update_prompts({"prompt": LlamaPrompt("Other: {context_str} {query_str}")})
    engine.query(QUESTION)
    assert llm.asked[-1].startswith("Other: ") and list(engine.get_prompts()) == ["prompt"]
