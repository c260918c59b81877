"""Details of G-RAG that no larger test would notice: defaults, caches, what counts as a score, what a training does."""

import sys

import pytest
import torch
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode

from graph_retrievers import GRAG, GraphIndex, Node, Pipeline, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.learning import loop
from graph_retrievers.learning.loss import pairwise_hinge
from graph_retrievers.operators import DocumentGraphNetwork, DocumentGraphRerank, EvidenceNetwork, VectorSearch
from graph_retrievers.operators.grag import training
from graph_retrievers.operators.grag.document_graph import maximal_paths
from graph_retrievers.operators.grag.evidence import DocumentSet
from graph_retrievers.operators.grag.model import CHANNELS
from graph_retrievers.operators.grag.training import fit_document_graph
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.retrievers.excerpt import rerank
from graph_retrievers.retrievers.grag import fit_grag
from graph_retrievers.signals import meaning_cache
from graph_retrievers.signals.concept_parser import ConceptParser
from graph_retrievers.signals.embedding import CachedEmbedding
from graph_retrievers.signals.meaning import MeaningGraph
from graph_retrievers.signals.meaning_cache import MeaningCache
from langchain_graph_retrievers import GRAGCompressor
from llama_graph_retrievers import GRAGPostprocessor
from tests.helpers import HashEmbedding
from tests.unit.test_grag_training import NAMED, dataset, fitted, index_of, words

RANKS = EvidenceNetwork(evidence=("rank",), graph=False)


def nodes(*texts):
    return [Node(str(place), text) for place, text in enumerate(texts)]


# -- evidence of paths ------------------------------------------------------------------------------------------------


def test_concepts_on_paths_count_half_for_each_new_one_before_them():
    question = MeaningGraph.of(["question", "loom"], [(0, "mod", 1)])
    chain = MeaningGraph.of(["loom", "a", "b", "c"], [(0, "r", 1), (1, "r", 2), (2, "r", 3)])
    others = [MeaningGraph.of([concept], []) for concept in ("loom", "a", "b", "c", "d")]
    found = DocumentSet(question, [chain, *others])
    # How far the chain, column 0, leads to the subject of each other document.
    assert found.reached[1:, 0].tolist() == [1.0, 1.0, 0.5, 0.25, 0.0]
    assert found.reached.diagonal().tolist() == [0.0] * 6
    channels = found.pair_evidence(("paths-in", "paths-out"))
    # The question names the loom, so that each of the five others reaches it.
    assert channels[1:, 0, 0].tolist() == pytest.approx([0.2, 1.0, 1.0, 1.0, 0.0])
    reached = found.reached.T**2
    assert torch.allclose(channels[..., 1], reached / reached.sum(1, keepdim=True).clamp(min=1e-9))
    assert channels[0, 1:, 1].tolist() == pytest.approx([16 / 37, 16 / 37, 4 / 37, 1 / 37, 0])


def test_of_equally_short_paths_the_lower_node_counts_at_every_step():
    edges = [(0, 1), (0, 2), (1, 5), (2, 3), (5, 6), (3, 6)]
    graph = MeaningGraph.of(["question", *"abcdef"], [(a, "r", b) for a, b in edges])
    assert maximal_paths(graph) == [[0, 1, 5], [0, 2, 3, 6]]


# -- networks ---------------------------------------------------------------------------------------------------------


def test_defaults_of_the_networks():
    assert EvidenceNetwork().channels == CHANNELS[:4] == ("concepts", "relations", "leads-in", "leads-out")
    published = DocumentGraphNetwork(4).config()
    assert (published["hidden"], published["layers"], published["heads"], published["dropout"]) == (8, 2, 8, 0.1)
    operator = DocumentGraphRerank()
    assert operator.depth == 100 and not operator.together


@pytest.mark.parametrize("kind", ["published", "evidence"])
def test_dropout_is_for_training(kind):
    torch.manual_seed(0)
    sizes = {0.0: True, 0.9: False}
    for dropout, same in sizes.items():
        if kind == "published":
            network, inputs = DocumentGraphNetwork(4, dropout=dropout), (torch.randn(5, 4), torch.rand(5, 5, 2), torch.randn(4))
        else:
            network, inputs = EvidenceNetwork(dropout=dropout), (torch.randn(5, 4), torch.rand(5, 5, 4))
            torch.nn.init.normal_(network.last.own.weight)
        plain = network.eval()(*inputs)
        assert torch.equal(network(*inputs), plain)
        assert torch.equal(network.train()(*inputs), plain) == same


def test_a_batch_of_a_published_network_reads_each_questions_own_vector():
    texts = ["loom card", "loom mill", "card brass loom"]
    index = GraphIndex.from_texts(texts, vectors=torch.eye(3))
    torch.manual_seed(0)
    operator = DocumentGraphRerank(DocumentGraphNetwork(3, paths=False), parser=words)
    retriever = Retriever(index, Pipeline(VectorSearch(3), operator))
    vectors = torch.tensor([[1.0, 0.2, 0.1], [0.1, 0.2, 1.0]])
    together = retriever.retrieve_batch(["loom", "card"], vectors=vectors)
    for text, vector, hits in zip(["loom", "card"], vectors, together, strict=True):
        assert [(h.id, h.score) for h in retriever.retrieve(text, vector=vector)] == [(h.id, h.score) for h in hits]
    assert [h.score for h in together[0]] != [h.score for h in together[1]]


def test_ranks_are_those_among_the_reranked():
    index = GraphIndex.from_texts(["loom a", "loom b", "loom c", "loom d"], vectors=torch.eye(4))
    given = Ranking.of(torch.arange(4).unsqueeze(0), torch.full((1, 4), 0.5), "x")
    found = DocumentGraphRerank(RANKS, parser=words, depth=2)(Queries.of(index, ["loom"], vectors=torch.ones(1, 4)), given)
    assert found.scores[0, :2].tolist() == pytest.approx([-torch.tensor(1.5).log().item()] * 2)


# -- training ---------------------------------------------------------------------------------------------------------


def test_a_training_has_the_documented_settings(monkeypatch):
    told = {}

    def spy(module, batches, loss, evaluate, **options):
        told.update(options, batches=batches, loss=loss)
        return loop.History()

    monkeypatch.setattr(training, "fit", spy)
    data = dataset()
    index = index_of(data)
    row = index.graph.row
    examples = [training.LabelledQuery(q.text, tuple(map(row, q.gold))) for q in data.queries]
    network = EvidenceNetwork(dropout=0.0)
    reranker = DocumentGraphRerank(network, parser=words)
    fit_document_graph(index, examples, examples[:2], reranker, VectorSearch(36))
    assert [told[name] for name in ("learning_rate", "weight_decay", "patience", "epochs")] == [1.5e-3, 0.01, 20, 150]
    about = told["about"]
    assert (about["loss"], about["together"], about["batch_size"], about["depth"]) == ("hinge", False, 16, 100)
    orders = [[tuple(r.tolist()) for batch in told["batches"](torch.Generator().manual_seed(s)) for _, r in batch] for s in (0, 1)]
    assert len(orders[0]) == 12 and sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]
    (batch,) = [b for b in told["batches"](torch.Generator()) if len(b) == 12]
    one_by_one = [pairwise_hinge(network(*inputs.arguments), relevant) for inputs, relevant in batch]
    assert told["loss"](batch).item() == pytest.approx(torch.stack(one_by_one).mean().item(), rel=1e-5)


def test_ties_on_dev_go_to_the_first():
    scores = torch.zeros(100)
    for place, expected in ((0, 1.0), (50, 1 / 51 / 2)):
        assert training._quality(scores, torch.arange(100) == place, 10) == pytest.approx(expected)


def test_dev_questions_for_which_nothing_relevant_is_found_count_as_none():
    data = dataset()
    index = index_of(data)
    row = index.graph.row
    train, dev = (
        [training.LabelledQuery(q.text, tuple(map(row, q.gold))) for q in data.queries if q.split == s] for s in ("train", "dev")
    )
    lost = [training.LabelledQuery(example.text, (10**6,)) for example in dev]
    options = {"epochs": 1, "learning_rate": 1e-9}
    whole, half = (
        fit_document_graph(index, train, some, DocumentGraphRerank(parser=words), VectorSearch(36), **options).best_score
        for some in (dev, dev + lost)
    )
    assert half == pytest.approx(whole / 2)


def test_the_seed_makes_the_network_too(tmp_path):
    data = dataset()
    index = index_of(data)
    made = []
    for number, seed in enumerate((0, 0, 1)):
        torch.manual_seed(100 + number)
        folder = tmp_path / str(number)
        fit_grag(data, index, folder, first="vector", parser=NAMED, seed=seed, training={"epochs": 1})
        made.append(GRAG(index, checkpoint=folder, parser=NAMED).operator.operators[-1].network.state_dict())
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])
    assert any(not torch.equal(made[0][name], made[2][name]) for name in made[0])


def test_a_trained_evidence_network_serves_vectors_of_any_model(tmp_path):
    class Model(HashEmbedding):
        def __init__(self, name):
            super().__init__(4)
            self.name = name

    data = dataset()
    indexes = [GraphIndex.from_graph(data.graph(), embedding=Model(name)) for name in ("a", "b")]
    fit_grag(data, indexes[0], tmp_path / "e", first="vector", parser=NAMED, training={"epochs": 1})
    assert len(GRAG(indexes[1], checkpoint=tmp_path / "e", parser=NAMED, k=3).retrieve("river near ada?")) == 3
    network = DocumentGraphNetwork(4)
    fit_grag(data, indexes[0], tmp_path / "p", first="vector", depth=7, parser=NAMED, network=network, training={"epochs": 1})
    assert GRAGCompressor(checkpoint=tmp_path / "p", embedding=Model("a"), parser=NAMED)._reranker.depth == 7
    given = {"checkpoint": tmp_path / "p", "parser": NAMED}
    with pytest.raises(InvalidArgumentError, match="trained with vectors of 'a', these are of 'b'"):
        GRAGCompressor(embedding=Model("b"), **given)
    with pytest.raises(InvalidArgumentError, match="trained with vectors of 'a', these are of 'b'"):
        GRAGPostprocessor(embed_model=Model("b"), **given)
    assert GRAG(indexes[0], **given).operator.operators[-1].depth == 7


def test_losses_have_gradients_without_a_pair():
    scores = torch.zeros(2, requires_grad=True)
    pairwise_hinge(scores, torch.zeros(2, dtype=torch.bool)).backward()
    assert scores.grad.tolist() == [0.0, 0.0]


def test_fitting_stops_where_nothing_gets_better():
    _, history = fitted(epochs=50, patience=2, learning_rate=1e-9)
    assert len(history.losses) == 3


# -- caches -----------------------------------------------------------------------------------------------------------


def test_the_cache_of_vectors_forgets_the_oldest():
    asked = []
    model = CachedEmbedding(lambda texts: asked.extend(texts) or [[1.0]] * len(texts), limit=2)
    for text in "abcbca":
        model.embed_documents([text])
    assert asked == ["a", "b", "c", "a"]
    assert CachedEmbedding(HashEmbedding()).name == "HashEmbedding"
    named = HashEmbedding()
    named.name = "special"
    assert CachedEmbedding(named).name == "special"
    assert model.embed_documents([]).shape[0] == 0


def test_the_cache_of_graphs_forgets_the_oldest(monkeypatch):
    monkeypatch.setattr(meaning_cache, "_IN_MEMORY", 4)
    asked = []
    cache = MeaningCache(lambda text: asked.append(text) or MeaningGraph((text,)))
    for text in "abcabcd":
        cache.parse([text])
    assert asked == list("abcd"), "four are kept"
    cache.parse(["e"])
    cache.parse(["b", "a"])
    assert asked == list("abcdea")


def test_a_cache_that_is_given_is_used():
    cache = MeaningCache(words)
    assert DocumentGraphRerank(parser=cache).parser is cache


def test_many_texts_are_parsed_in_parts(monkeypatch):
    monkeypatch.setattr(meaning_cache, "_AT_A_TIME", 3)
    parts = []

    class Parser:
        name = "parts"

        def parse(self, texts):
            parts.append(len(texts))
            return [MeaningGraph((text,)) for text in texts]

    found = MeaningCache(Parser()).parse(list("abcdefgh"))
    assert parts == [3, 3, 2] and [graph.concepts[0] for graph in found] == list("abcdefgh")


# -- scores of documents ----------------------------------------------------------------------------------------------


def test_scores_belong_to_the_first_of_each_id_and_count_only_if_all_have_one():
    listed = [Node("a", "loom card"), Node("a", "loom mill"), Node("b", "loom brass")]
    options = {"embedding": HashEmbedding()}
    operator = DocumentGraphRerank(RANKS, parser=words)
    found = rerank(operator, "loom", listed, scores=[0.4, 0.1, 0.5], **options)
    assert [place for place, _ in found] == [2, 0]
    partial = rerank(operator, "loom", nodes("loom a", "loom b", "loom c"), scores=[0.5, None, 0.9], **options)
    none = rerank(operator, "loom", nodes("loom a", "loom b", "loom c"), **options)
    assert partial == none and [place for place, _ in none] == [0, 1, 2]


def test_true_is_no_score():
    documents = [Document("loom a", id="a", metadata={"score": False}), Document("loom b", id="b", metadata={"score": True})]
    found = GRAGCompressor(embedding=HashEmbedding(), network=RANKS, parser=words).compress_documents(documents, "loom")
    assert [document.id for document in found] == ["a", "b"]


# -- the postprocessor ------------------------------------------------------------------------------------------------


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


# -- the concept parser -----------------------------------------------------------------------------------------------


def test_details_of_concepts():
    def relations(text):
        return ConceptParser(1).parse([text])[0].labelled_relations()

    assert relations("The loom in the loom.") == ()
    assert relations("The engine has power.") == (("engine", "next", "power"),)
    assert ConceptParser(1).parse(["He runs/walks and 3/4 of it."])[0].concepts == ("runs/walks", "3/4")
    assert ("loom", "and", "buy") not in relations("A loom. Buy it.")
    roles = {role for _, role, _ in relations("The mill burned but the weaver left, and 3 or 4 looms stayed.")}
    assert "but" not in roles and "or" not in roles


def test_a_graph_that_is_nested_too_deep_is_not_read():
    from graph_retrievers.signals.meaning_parsers import penman_graph

    with pytest.raises(InvalidArgumentError, match="PENMAN"):
        penman_graph("(a / a " + ":op1 (a / a " * sys.getrecursionlimit() * 2)
