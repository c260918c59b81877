"""A batch waits for the device, and is sent to it, as often as it takes steps, however many questions it has."""

import numpy as np
import pytest
import torch

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.operators import BM25Search, Pipeline, VectorSearch
from graph_retrievers.signals import sparse
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.systems.gnn_rag.model import AnswerNetwork
from graph_retrievers.systems.gnn_rag.search import AnswerSearch
from graph_retrievers.systems.grag.model import EvidenceNetwork
from graph_retrievers.systems.grag.rerank import DocumentGraphRerank
from graph_retrievers.systems.subgraph_rag import search
from graph_retrievers.systems.subgraph_rag.model import TripleScorer
from graph_retrievers.systems.subgraph_rag.search import TripleSearch
from tests.accelerator import DEVICE
from tests.property.test_every_retriever import OVERLAP, embed

NODES, WORDS = 300, [f"word{number}" for number in range(150)]
SYSTEMS = ("vector", "spreading", "eager", "ppr", "gar", "hipporag", "lesegr", "bm25", "hybrid", "mmr", "scored", "fastinsight")
SYSTEMS += ("re2", "path-reranking", "pathrag", "qafd-rag", "lightrag", "kg2rag", "ego-grag", "subgraph-rag", "gnn-rag", "g-rag")


def texts(count, seed):
    return [" ".join(words) for words in np.random.default_rng(seed).choice(WORDS, (count, 6)).tolist()]


def index_on(device):
    pairs = np.random.default_rng(0).integers(0, NODES, (1200, 2)).tolist()
    edges = [(str(a), str(b), f"r{(a + b) % 5}") for a, b in pairs if a != b]
    built = GraphIndex.from_texts(
        texts(NODES, 1), edges=edges, embedding=embed, edge_signals=True, device=device, relevance=OVERLAP
    )
    return built.prepare() or built


@pytest.fixture
def index(accelerator):
    return index_on(DEVICE)


def asked(accelerator, retriever, questions):
    """Return what a batch of so many questions asks of the device, and the number of its steps."""
    before = accelerator.now()
    hits = retriever.retrieve_batch(texts(questions, questions), 10)
    assert len(hits) == questions and all(len(found) == 10 for found in hits)
    return accelerator.since(before), len({each.step for each in hits[0].trace})


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_batch_costs_steps_not_questions(accelerator, index, name):
    retriever = Retriever(index, name, batch_size=256)
    # Tables of the graph are made by the first question.
    retriever.retrieve_batch(texts(2, 2))
    (few, _), (many, steps) = asked(accelerator, retriever, 32), asked(accelerator, retriever, 256)
    assert many.reads <= 3 * steps + 10 and many.uploads <= 3 * steps + 10
    assert many.operations <= 1.5 * few.operations


NETWORKS = {
    "triples": lambda: Pipeline(VectorSearch(3, returned=False), TripleSearch(TripleScorer(32), triples=20)),
    "answers": lambda: Pipeline(VectorSearch(3, returned=False), AnswerSearch(AnswerNetwork(32))),
    "documents": lambda: Pipeline(BM25Search(99), DocumentGraphRerank(evidence_network())),
}


def evidence_network():
    """Return a network that reads the evidence on pairs of documents too."""
    network = EvidenceNetwork()
    torch.nn.init.constant_(network.last.own.weight, 0.1)
    return network


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_cost_steps_and_find_what_they_find_on_a_processor(accelerator, index, name, monkeypatch):
    retriever, here = (Retriever(each, NETWORKS[name](), batch_size=64) for each in (index, index_on("cpu")))
    retriever.retrieve_batch(texts(2, 2))
    many, steps = asked(accelerator, retriever, 64)
    assert many.reads <= 3 * steps + 10 and many.uploads <= 3 * steps + 10
    # Some questions at a time.
    monkeypatch.setattr(search, "_TRIPLES", 800)
    questions = ["word1 unknown", "unknown", *texts(20, 5)]
    for found, wanted in zip(*(each.retrieve_batch(questions) for each in (retriever, here)), strict=True):
        assert [hit.id for hit in found] == [hit.id for hit in wanted]
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted], rel=1e-5)


def test_words_of_many_questions_are_added_in_parts(accelerator, monkeypatch):
    contents, questions = texts(40, 3), [*texts(20, 4), "word1 word1 word2", "unknown"]
    expected = BM25(contents).table(questions)
    for entries in (7, 1 << 24):
        monkeypatch.setattr(sparse, "_ENTRIES_AT_A_TIME", entries)
        torch.testing.assert_close(BM25(contents, device=DEVICE).table(questions).cpu(), expected)
