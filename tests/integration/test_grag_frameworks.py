"""G-RAG behind retrievers of LangChain and LlamaIndex, and by the command line."""

import copy
import gzip
import json
import pickle

import numpy as np
import pytest
import torch
from langchain_classic.retrievers import ContextualCompressionRetriever
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode

from graph_retrievers import GRAG, GraphIndex, Retriever
from graph_retrievers.commands.cli import main
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.operators import EvidenceNetwork
from graph_retrievers.signals.meaning import MeaningGraph
from graph_retrievers.systems.grag.model import CHANNELS
from langchain_graph_retrievers import GRAGCompressor, GRAGRetriever, GraphRetriever
from llama_graph_retrievers import GRAGPostprocessor, GRankerPostprocessor
from llama_graph_retrievers import GRAGRetriever as LlamaGRAGRetriever
from tests.helpers import CORPUS, HashEmbedding, linked_index
from tests.integration.llama_corpus import HashEmbed
from tests.unit.test_grag_training import dataset, words

QUESTION = "Who designed the engine that Ada Lovelace wrote a program for?"


def trained():
    """A network whose every weight is other than zero."""
    torch.manual_seed(0)
    # Documents of a framework have no links.
    network = EvidenceNetwork(hidden=4, channels=[channel for channel in CHANNELS if channel != "links"])
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    return network


@pytest.fixture
def index():
    return linked_index(HashEmbedding())


def engine_scores(index, network):
    hits = Retriever(index, GRAG(network=network, first="vector"), k=12).retrieve(QUESTION)
    return {hit.id: pytest.approx(hit.score, abs=1e-4) for hit in hits}


def test_the_doors_score_as_the_engine_does(index):
    network = trained()
    expected = engine_scores(index, network)
    assert len(expected) == 12
    found = GraphRetriever(index=index, system="vector", k=12, provenance=True).invoke(QUESTION)
    compressor = GRAGCompressor(network=network, embedding=HashEmbedding())
    assert {d.id: d.metadata["relevance_score"] for d in compressor.compress_documents(found, QUESTION)} == expected
    on_index = GRAGCompressor(network=network, index=index)
    assert {d.id: d.metadata["relevance_score"] for d in on_index.compress_documents(found, QUESTION)} == expected
    assert {
        d.id: d.metadata["score"]
        for d in GRAGRetriever(index=index, system=GRAG(network=network, first="vector"), k=12, provenance=True).invoke(QUESTION)
    } == expected
    nodes = LlamaGRAGRetriever(index, GRAG(network=network, first="vector"), similarity_top_k=12).retrieve(QUESTION)
    assert {node.node_id: node.score for node in nodes} == expected
    given = [
        NodeWithScore(node=TextNode(id_=d.id, text=f"{d.metadata['title']}. {d.page_content}"), score=d.metadata["score"])
        for d in found
    ]
    processor = GRAGPostprocessor(top_n=12, network=network, embed_model=HashEmbedding())
    assert {n.node.node_id: n.score for n in processor.postprocess_nodes(given, query_str=QUESTION)} == expected


def test_vectors_of_the_index_are_used_for_the_documents_that_it_holds(index):
    embedding = HashEmbedding()
    found = GraphRetriever(index=index, system="vector", k=12, provenance=True).invoke(QUESTION)
    compressor = GRAGCompressor(network=trained(), embedding=embedding, index=index)
    compressor.compress_documents(found, QUESTION)
    assert embedding.document_calls == 0
    # One that has an id of the index and another text is read as it is.
    other = [*found[:-1], Document("Zebra stripes.", id=found[-1].id)]
    ranked = compressor.compress_documents(other, QUESTION)
    assert embedding.document_calls == 1 and "Zebra stripes." in [d.page_content for d in ranked]
    whole = GRAGCompressor(network=trained(), embedding=HashEmbedding()).compress_documents(other, QUESTION)
    scores = [{d.id: d.metadata["relevance_score"] for d in listed} for listed in (ranked, whole)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    texts = [TextNode(id_=d.id, text=d.page_content, metadata={"title": d.metadata["title"]}) for d in found]
    counted = HashEmbedding()
    given = [NodeWithScore(node=node, score=1.0) for node in texts]
    GRAGPostprocessor(embed_model=counted, index=index).postprocess_nodes(given, query_str=QUESTION)
    assert counted.document_calls == 0


def test_vectors_of_two_models_are_not_mixed(index):
    class Other(HashEmbedding):
        name = "other"

    for door in (
        lambda: GRAGCompressor(embedding=Other(), index=index),
        lambda: GRAGPostprocessor(embed_model=Other(), index=index),
    ):
        with pytest.raises(InvalidArgumentError, match="of 'HashEmbedding', the embedding model is 'other'"):
            door()


def test_metadata_are_no_subject_of_a_llamaindex_node():
    texts = ["Ada wrote a program.", "Babbage designed engines.", "A loom weaves."]
    plain, labelled = (
        [NodeWithScore(node=TextNode(id_=str(n), text=text, metadata=metadata), score=1.0) for n, text in enumerate(texts)]
        for metadata in ({}, {"file_path": "/data/corpus/file.txt", "page_label": "3"})
    )
    embed = lambda texts: [[1.0, 0.0]] * len(texts)  # noqa: E731
    found = [
        [(n.node.node_id, n.score) for n in GRAGPostprocessor(embed_model=embed).postprocess_nodes(nodes, query_str="Who is Ada?")]
        for nodes in (plain, labelled)
    ]
    assert found[0] == found[1] and found[0][0][0] == "0"


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 10**400, 1e39, float("-inf")])
def test_scores_that_are_no_numbers_are_refused(score):
    documents = [Document("a loom", id="a", metadata={"score": score}), Document("a card", id="b", metadata={"score": 1.0})]
    with pytest.raises(InvalidArgumentError, match="expected a finite number"):
        GRAGCompressor(embedding=HashEmbedding()).compress_documents(documents, "loom")


def longer(pairs):
    return [float(len(text)) for _, text in pairs]


def test_scores_of_numpy_count():
    network = EvidenceNetwork(evidence=("rank",), graph=False)
    documents = [Document("a loom", id=name, metadata={"score": np.float32(score)}) for name, score in (("a", 1), ("b", 2))]
    assert GRAGCompressor(embedding=HashEmbedding(), network=network).compress_documents(documents, "loom")[0].id == "b"


def test_copies_and_pickles_of_a_postprocessor_are_whole():
    nodes = [NodeWithScore(node=TextNode(id_=name, text=text), score=1.0) for name, _, text, _, _ in CORPUS]
    index = linked_index()
    for whole in (
        GRAGPostprocessor(top_n=3, depth=7, network=trained(), embed_model=HashEmbedding()),
        GRAGPostprocessor(index=index),
        GRankerPostprocessor(alpha=0.5, index=index),
        GRankerPostprocessor(model=longer, edges=[("ada", "babbage")], embed_model=HashEmbed(), degree="subgraph"),
    ):
        expected = [(n.node.node_id, n.score) for n in whole.postprocess_nodes(nodes, query_str=QUESTION)]
        pickled = pickle.loads(pickle.dumps(whole))  # noqa: S301
        for copied in (copy.deepcopy(whole), pickled, whole.model_copy(), pickle.loads(pickle.dumps(pickled))):  # noqa: S301
            assert [(n.node.node_id, n.score) for n in copied.postprocess_nodes(nodes, query_str=QUESTION)] == expected
            assert repr(copied) == repr(whole)
    with pytest.raises((AttributeError, pickle.PicklingError), match="pickle"):
        pickle.dumps(GRankerPostprocessor(model=lambda pairs: [1.0] * len(pairs)))


def test_what_to_dict_leaves_out_is_said_and_can_be_given_again(caplog):
    index = linked_index()
    processor = GRankerPostprocessor(top_n=3, alpha=0.5, model=longer, index=index)
    data = processor.to_dict()
    assert "leaves out its model and index" in caplog.text and data["model"] is None and "callback_manager" not in data
    again = GRankerPostprocessor.from_dict(data, model=longer, index=index)
    assert repr(again) == repr(processor) and "longer" not in str(data)
    caplog.clear()
    assert GRAGPostprocessor.from_dict(GRAGPostprocessor(top_n=4).to_dict()).top_n == 4
    assert "leaves out" not in caplog.text


def test_the_repr_of_a_postprocessor_is_short():
    assert repr(GRAGPostprocessor(top_n=4, embed_model=HashEmbed())) == (
        "GRAGPostprocessor(top_n=4, keep_retrieval_score=False, checkpoint=None, depth=None, embed_model=HashEmbed)"
    )


def test_behind_a_langchain_vector_store():
    embedding = HashEmbedding()
    store = InMemoryVectorStore(embedding)
    store.add_documents([Document(text, id=name, metadata={"title": title}) for name, title, text, _, _ in CORPUS])
    retriever = ContextualCompressionRetriever(
        base_compressor=GRAGCompressor(embedding=embedding, top_n=3), base_retriever=store.as_retriever(search_kwargs={"k": 12})
    )
    found = retriever.invoke(QUESTION)
    assert len(found) == 3
    scores = [document.metadata["relevance_score"] for document in found]
    assert scores == sorted(scores, reverse=True)
    assert {"ada", "babbage"} & {document.id for document in found}


def test_documents_are_embedded_once():
    embedding = HashEmbedding()
    compressor = GRAGCompressor(embedding=embedding)
    documents = [Document(text, id=name) for name, _, text, _, _ in CORPUS]
    for _ in range(3):
        compressor.compress_documents(documents, QUESTION)
    assert embedding.document_calls == 1


def test_documents_without_scores_get_the_same_scores_in_any_order():
    documents = [Document(text, id=name) for name, _, text, _, _ in CORPUS]
    compressor = GRAGCompressor(network=trained(), embedding=HashEmbedding())
    first, second = (
        {d.id: d.metadata["relevance_score"] for d in compressor.compress_documents(listed, QUESTION)}
        for listed in (documents, documents[::-1])
    )
    assert first == pytest.approx(second, abs=1e-4)


def test_odd_documents_stay():
    compressor = GRAGCompressor(embedding=HashEmbedding())
    assert compressor.compress_documents([], QUESTION) == []
    (one,) = compressor.compress_documents([Document("...")], QUESTION)
    assert one.page_content == "..."
    texts = ["", "?!", "Ada wrote a program.", "Ada wrote a program."]
    found = compressor.compress_documents([Document(text) for text in texts], "Who is Ada?")
    assert [document.page_content for document in found] == texts
    same = compressor.compress_documents([Document("a loom", id="x"), Document("a card", id="x")], QUESTION)
    assert [document.page_content for document in same] == ["a loom"]
    kept = Document("Ada wrote a program.", id="x", metadata={"relevance_score": 7})
    (found,) = compressor.compress_documents([kept], QUESTION)
    assert found.metadata["original_relevance_score"] == 7 and kept.metadata == {"relevance_score": 7}


def test_behind_a_llamaindex_retriever_in_a_query_engine(monkeypatch):
    from llama_index.core.llms import MockLLM

    nodes = [TextNode(id_=name, text=text) for name, _, text, _, _ in CORPUS]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(8))
    engine = RetrieverQueryEngine(
        index.as_retriever(similarity_top_k=12),
        get_response_synthesizer(llm=MockLLM()),
        [GRAGPostprocessor(top_n=2, embed_model=MockEmbedding(8))],
    )
    found = engine.query("Who wrote a program?").source_nodes
    assert len(found) == 2 and found[0].node.node_id == "ada"
    monkeypatch.setattr(Settings, "_embed_model", MockEmbedding(8))
    given = [NodeWithScore(node=node, score=1.0) for node in nodes]
    by_settings = GRAGPostprocessor(top_n=1, keep_retrieval_score=True).postprocess_nodes(given, query_str="Who wrote a program?")
    assert by_settings[0].node.node_id == "ada" and by_settings[0].node.metadata["retrieval_score"] == 1.0
    assert GRAGPostprocessor(top_n=3).to_dict()["class_name"] == "GRAGPostprocessor"
    with pytest.raises(InvalidArgumentError, match="GRAGPostprocessor ranks by a query"):
        GRAGPostprocessor().postprocess_nodes(given)
    assert GRAGPostprocessor().postprocess_nodes([], query_str="x") == []


def test_what_the_doors_refuse(tmp_path):
    with pytest.raises(MissingSignalError, match="pass embedding= or index="):
        GRAGCompressor()
    for wrong in ({"top_n": 0}, {"depth": 0}, {"checkpoint": tmp_path}, {"network": "x"}, {"parser": 3}):
        with pytest.raises(InvalidArgumentError):
            GRAGCompressor(embedding=HashEmbedding(), **wrong)
    with pytest.raises(ValueError, match="GRAGCompressor does not take 'alpha'"):
        GRAGCompressor(embedding=HashEmbedding(), alpha=1)


def test_a_parser_of_ones_own():
    seen = []

    def parser(text):
        seen.append(text)
        return MeaningGraph.of(text.lower().strip("?.").split(), [])

    documents = [Document("a loom", id="loom"), Document("the engine", id="engine"), Document("a card", id="card")]
    found = GRAGCompressor(embedding=HashEmbedding(), parser=parser).compress_documents(documents, "which engine")
    assert found[0].id == "engine" and "question: which engine" in seen


@pytest.mark.slow
def test_fit_and_evaluate_by_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    data = dataset()
    folder = tmp_path / "towns"
    folder.mkdir()
    rows = {
        "nodes": [{"id": n.id, "text": n.text} for n in data.nodes],
        "edges": [{"source": "p0", "target": "t0", "relation": "in"}],
        "queries": [{"id": q.id, "query": q.text, "gold": list(q.gold), "split": q.split} for q in data.queries],
    }
    for name, listed in rows.items():
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in listed)
    out = tmp_path / "checkpoint"
    assert main(["fit", "g-rag", str(folder), "--out", str(out)]) == 0
    assert "g-rag trained on towns" in capsys.readouterr().out
    results = tmp_path / "results.json"
    command = ["evaluate", str(folder), "--split", "dev", "--retrievers", "vector,g-rag", "--timed-queries", "0", "-k", "2"]
    assert main([*command, "--checkpoint", f"g-rag={out}", "--json", str(results)]) == 0
    found = json.loads(results.read_text())["results"]
    assert found["g-rag"]["recall@2"] >= found["vector"]["recall@2"]
    assert {"mtrr", "tmhits@2"} <= found["g-rag"].keys()


def test_an_index_without_vectors_is_refused_with_the_reason():
    bare = GraphIndex.from_texts(["a loom", "a card"])
    with pytest.raises(MissingSignalError):
        Retriever(bare, GRAG(first="bm25")).retrieve("a loom")


RANKS = EvidenceNetwork(evidence=("rank",), graph=False)


def test_true_is_no_score():
    documents = [Document("loom a", id="a", metadata={"score": False}), Document("loom b", id="b", metadata={"score": True})]
    found = GRAGCompressor(embedding=HashEmbedding(), network=RANKS, parser=words).compress_documents(documents, "loom")
    assert [document.id for document in found] == ["a", "b"]


def test_what_the_postprocessor_hands_on():
    seen = []

    def parser(text):
        seen.append(text)
        return words(text)

    embedding = HashEmbedding(2)
    similar = EvidenceNetwork(evidence=("similarity",), graph=False)
    given = [
        NodeWithScore(node=TextNode(id_=name, text=f"loom {name}", embedding=vector), score=score)
        for name, vector, score in (("a", [0.0, 1.0], 1.0), ("b", [1.0, 0.0], 0.5), ("c", [1.0, 0.0], 0.1))
    ]
    query = "  which loom \n"
    processor = GRAGPostprocessor(network=similar, embed_model=embedding, parser=parser, depth=2)
    found = processor.postprocess_nodes(given, query_str=query)
    assert "question: which loom" in seen
    assert embedding.document_calls == 0, "nodes bring their vectors"
    assert found[2].node.node_id == "c", "behind the depth"
    vector = torch.tensor(embedding.embed_query("which loom"))
    expected = "a" if vector[1] > vector[0] else "b"
    assert found[0].node.node_id == expected
