"""What both framework packages do with calls, originals and metadata of the user's own."""

import uuid

import pytest
from llama_index.core.schema import IndexNode, TextNode

from graph_retrievers import GraphIndex, Retriever, SpreadingActivation
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.operators import BM25Search
from langchain_graph_retrievers import GraphRetriever as LangChainRetriever
from llama_graph_retrievers import BM25Retriever, provenance, to_context
from llama_graph_retrievers import GraphRetriever as LlamaRetriever
from tests.helpers import linked_index


def looms():
    return Retriever(GraphIndex.from_texts(["a loom", "a card"]), BM25Search(), backfill=False)


def test_a_batch_with_one_run_id_for_all():
    found = LangChainRetriever(retriever=looms()).batch(["loom"], run_id=uuid.uuid4())
    assert [[document.id for document in documents] for documents in found] == [["0"]]


def test_k_of_a_call_is_at_least_one():
    with pytest.raises(InvalidArgumentError, match="k must be an integer of at least 1, got 0"):
        LangChainRetriever(retriever=looms()).invoke("loom", k=0)


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
    engine = SpreadingActivation(linked_index())
    retriever = LlamaRetriever(engine, inputs={"entities": lambda query: asked.append(query) or ["IBM"]})
    retriever.retrieve_batch(["q"], entities=[["Colossus"]])
    assert asked == []


def test_a_kind_of_the_users_own_is_not_taken_for_that_of_a_hit():
    retriever = BM25Retriever.from_defaults(nodes=[TextNode(text="a loom", metadata={"kind": "chain"}), TextNode(text="a card")])
    hits = retriever.retrieve("loom")
    assert hits[0].node.metadata == {"kind": "chain"} and "kind" not in provenance(hits[0])
    assert to_context(hits[:1]).startswith("Texts:")
