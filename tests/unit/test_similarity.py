"""The cosine of each hit with the question: what it is, when there is none, and what it costs."""

import json

import numpy as np
import pytest
import torch

from graph_retrievers import Hit, Operator, Pipeline, ReciprocalRankFusion, Retriever
from graph_retrievers.graph import Node
from graph_retrievers.hits import NodePath
from graph_retrievers.index import GraphIndex, IndexStore
from graph_retrievers.operators import (
    BM25Search,
    ChainSearch,
    EntityLinking,
    FactSearch,
    GatedPropagation,
    HybridSearch,
    OperatorKind,
    PathSearch,
    STeX,
    VectorSearch,
)
from graph_retrievers.retrievers import StoreRetriever
from graph_retrievers.signals.dense import DenseIndex
from tests.helpers import HashEmbedding, linked_edges, linked_index, linked_nodes

QUESTIONS = ["Which machine reads punched cards?", "Who broke a cipher?", "Who wrote a program for Charles Babbage?"]
COMPARING = ["vector", "hybrid", "re2", "fastinsight", "gar", "ppr", "spreading", "walk-fusion", "path-reranking", "eager", "mmr"]
COMPARING += ["scored", "lesegr", "mor(rerank=False)", "g-rag", "hyde", "decomposition", "hipporag", "g-retriever"]


class Recording(HashEmbedding):
    """Keeps the questions that it embeds."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def embed_query(self, text):
        self.asked.append(text)
        return super().embed_query(text)


def cosine(index, question, node):
    own = index.dense.vectors[index.graph.row(node)].double().numpy()
    other = np.array(HashEmbedding()._vector(question), np.float64)
    return own @ other / (np.linalg.norm(own) * np.linalg.norm(other))


@pytest.mark.parametrize("name", COMPARING)
def test_it_is_the_cosine_whatever_the_score_and_a_batch_has_that_of_its_questions(name):
    # Of vectors of any length, whose dot products are not cosines.
    lengths, model = torch.linspace(0.5, 3.0, len(linked_nodes())).unsqueeze(1), Recording()
    index = linked_index(model, vectors=lengths * linked_index().dense.vectors)
    retriever = Retriever(index, name, k=8)
    together = retriever.retrieve_batch(QUESTIONS)
    assert sorted(model.asked) == sorted(QUESTIONS), "each is embedded once"
    for question, hits in zip(QUESTIONS, together, strict=True):
        assert len(hits) == 8
        for hit in hits:
            assert hit.similarity == pytest.approx(cosine(index, question, hit.id), abs=1e-6)
        assert [hit.similarity for hit in retriever.retrieve(question)] == [hit.similarity for hit in hits]


@pytest.mark.parametrize(
    "name", ["vector", "ppr", "spreading", "lightrag", "pathrag", "g-retriever", "hipporag", "mor(rerank=False)"]
)
@pytest.mark.parametrize("edges", [[], linked_edges()])
def test_what_falls_back_to_vectors_without_edges_or_their_signals_has_it(name, edges):
    texts = {node.id: node.text for node in linked_nodes()}
    places = {node: str(place) for place, node in enumerate(texts)}
    edges = [(places[source], places[target], *rest) for source, target, *rest in edges]
    index = GraphIndex.from_texts(list(texts.values()), edges=edges, embedding=HashEmbedding())
    retriever = Retriever(index, name, k=4)
    together = retriever.retrieve_batch(QUESTIONS)
    for question, hits in zip(QUESTIONS, together, strict=True):
        assert [hit.similarity for hit in hits] == pytest.approx([cosine(index, question, hit.id) for hit in hits], abs=1e-6)
        assert len(hits) == 4 and [hit.similarity for hit in retriever.retrieve(question)] == [hit.similarity for hit in hits]


@pytest.mark.parametrize("name", ["bm25", "spreading(gate='uniform')", "ircot"])
def test_what_reads_words_and_edges_alone_embeds_no_question_for_it(name):
    # The names of the first question are found; for the second, nodes are searched by vector.
    model, questions = HashEmbedding(), ["Who wrote a program for Charles Babbage?", "zyx"]
    index = linked_index(model)
    retriever = Retriever(index, name, k=3, backfill=False)
    hits = retriever.retrieve(questions[0])
    assert model.query_calls == 0 and {hit.similarity for hit in hits} == {None}
    assert {hit.similarity for hits in retriever.retrieve_batch(questions) for hit in hits} <= {None}
    # A vector that is given costs nothing.
    hits = retriever.retrieve(questions[0], vector=model._vector(questions[0]))
    assert [hit.similarity for hit in hits] == pytest.approx([cosine(index, questions[0], hit.id) for hit in hits], abs=1e-6)


def test_what_leaves_vectors_out_by_its_weights_does_not_count():
    index = linked_index()
    for weighted, compares in ((HybridSearch(weights=(0, 1)), False), (HybridSearch(), True)):
        assert weighted.compares_vectors(index) is compares
    for walk in (PathSearch(), STeX()):
        assert Pipeline(BM25Search(), walk).compares_vectors(index)
    assert not BM25Search().compares_vectors(index)


def test_hits_that_fill_up_after_words_have_none_in_any_batch():
    model = HashEmbedding()
    retriever = Retriever(linked_index(model), "bm25", k=12)
    hits = retriever.retrieve_batch(["punched cards", "a"])
    assert {hit.operator for hit in hits[0]} == {"BM25Search", "Backfill"} and model.query_calls > 0
    assert {hit.similarity for each in hits for hit in each} == {None}


def test_no_question_is_embedded_twice_and_only_hits_are_compared(monkeypatch):
    model, compared, scores = HashEmbedding(), [], DenseIndex.scores
    monkeypatch.setattr(DenseIndex, "scores", lambda self, q, batch, rows: compared.append(rows) or scores(self, q, batch, rows))
    retriever = Retriever(linked_index(model), "vector", k=3)
    found = retriever.retrieve_batch(QUESTIONS)
    assert not compared, "what nobody reads is not compared"
    assert all(hit.similarity is not None for hits in found for hit in hits)
    assert model.query_calls == len(QUESTIONS)
    assert [rows.numel() for rows in compared] == [3 * len(QUESTIONS)], "in one call"


def test_without_vectors_there_is_none():
    assert Retriever(GraphIndex.from_texts(["a loom"], edges=[]), "bm25").retrieve("a loom")[0].similarity is None
    # Nobody can embed the question.
    index = GraphIndex.from_texts(["a loom"], vectors=[[1.0]], edges=[])
    words = HybridSearch(weights=(0, 1))
    assert Retriever(index, words).retrieve("a loom")[0].similarity is None
    assert Retriever(index, ReciprocalRankFusion(words, VectorSearch())).retrieve("a loom", vector=[2.0])[0].similarity == 1.0


def test_a_node_or_a_question_without_a_vector_has_none():
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[3.0, 4.0], [0.0, 0.0]], edges=[])
    retriever = Retriever(index, "vector")
    assert [hit.similarity for hit in retriever.retrieve("?", vector=[6.0, 8.0])] == [1.0, None]
    assert [hit.similarity for hit in retriever.retrieve("?", vector=[0.0, 0.0])] == [None, None]
    assert [round(hit.similarity, 4) for hit in retriever.retrieve("?", vector=[-4.0, 3.0])[:1]] == [0.0]
    assert retriever.retrieve("?", vector=[-0.3, -0.4])[1].similarity == pytest.approx(-1.0)


@pytest.mark.slow
def test_it_is_a_cosine_whatever_numbers_are_rounded_to():
    vectors = torch.randn(400, 7, generator=torch.Generator().manual_seed(0))
    index = GraphIndex.from_texts(["x"] * 400, vectors=vectors, edges=[])
    asked = torch.cat([vectors, -vectors])
    found = Retriever(index, "vector", k=400).retrieve_batch(["?"] * 800, vectors=asked)
    similarities = [hit.similarity for hits in found for hit in hits]
    assert len(similarities) == 800 * 400 and max(similarities) == 1.0 and min(similarities) == -1.0


def test_filters_and_scopes_leave_it_as_it_is():
    index = linked_index()
    retriever = Retriever(index, "walk-fusion", k=12)
    whole = {hit.id: hit.similarity for hit in retriever.retrieve(QUESTIONS[1])}
    for options in ({"filter": {"topic": "war"}}, {"scope": {"topic": "war"}}, {"traversal_filter": {"topic": "machines"}}):
        found = retriever.retrieve(QUESTIONS[1], **options)
        assert len(found) >= 3 and all(hit.similarity == pytest.approx(whole[hit.id], abs=1e-6) for hit in found)


def test_a_chain_and_a_fact_have_the_largest_of_their_nodes():
    index = linked_index(edge_signals=True)
    operator = Pipeline(EntityLinking(), GatedPropagation(), ChainSearch(), FactSearch(3))
    hits = Retriever(index, operator, k=2).retrieve("Who wrote a program for Charles Babbage?")
    assert hits.chains and hits.facts
    for hit in hits:
        nodes = hit.path.nodes if hit.kind != "node" else [hit.id]
        largest = max(cosine(index, "Who wrote a program for Charles Babbage?", node) for node in nodes)
        assert hit.similarity == pytest.approx(largest, abs=1e-6)


@pytest.mark.parametrize("options", [{"dense_precision": "int8"}, {"dense_precision": "bfloat16"}, {"dense_backend": "hnsw"}])
def test_compressed_vectors_and_approximate_search_have_nearly_the_same(options):
    if "dense_backend" in options:
        pytest.importorskip("faiss")
    exact, other = linked_index(), linked_index(**options)
    for hit in Retriever(other, "hybrid", k=12).retrieve(QUESTIONS[0]):
        assert hit.similarity == pytest.approx(cosine(exact, QUESTIONS[0], hit.id), abs=5e-3)


def test_a_store_and_a_saved_index_have_it(tmp_path):
    with_store = IndexStore(tmp_path / "store", embedding=HashEmbedding())
    with_store.update(upsert=linked_nodes(), add_edges=linked_edges())
    index = with_store.index
    index.save(tmp_path / "index")
    loaded = GraphIndex.load(tmp_path / "index", embedding=HashEmbedding())
    for retriever in (StoreRetriever(with_store, "ppr", k=4), Retriever(loaded, "ppr", k=4)):
        hits = retriever.retrieve(QUESTIONS[0])
        assert [hit.similarity for hit in hits] == pytest.approx([cosine(index, QUESTIONS[0], hit.id) for hit in hits], abs=1e-6)


def test_an_operator_of_your_own_behind_a_vector_search_has_it():
    class Reversed(Operator):
        kind = OperatorKind.MODEL_SEARCH

        # What it calls a signal is none of the index.
        signal = torch.ones(3)

        def search(self, question, candidates):
            yield from ()
            return candidates.rescored(-candidates.scores)

    index = linked_index()
    hits = Retriever(index, Pipeline(VectorSearch(5), Reversed()), k=5).retrieve(QUESTIONS[0])
    assert [hit.similarity for hit in hits] == sorted(hit.similarity for hit in hits)


def test_it_is_told_in_json_and_is_no_part_of_equality():
    hits = Retriever(linked_index(), "vector", k=2).retrieve(QUESTIONS[0])
    assert json.loads(json.dumps(hits[0].to_dict()))["similarity"] == hits[0].similarity
    assert Hit("a", "", 1.0, "x", NodePath(("a",)), similarity=0.5) == Hit("a", "", 1.0, "x", NodePath(("a",)))


def test_a_threshold_tells_questions_that_nothing_answers():
    nodes = [Node("loom", "A loom weaves cloth."), Node("card", "A card has holes.")]
    index = GraphIndex.from_nodes(nodes, embedding=HashEmbedding(512))
    retriever = Retriever(index, "walk-fusion")
    hits = {question: retriever.retrieve(question) for question in ("cloth loom", "a cat")}
    kept = {question: [hit.id for hit in found if hit.similarity >= 0.5] for question, found in hits.items()}
    assert kept == {"cloth loom": ["loom"], "a cat": []}
    assert hits["a cat"][0].score >= 1 > hits["cloth loom"][1].score, "scores do not tell"
