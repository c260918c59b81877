"""G-RAG on small cases: evidence of paths, its networks, and which scores of documents count."""

import pytest
import torch

from graph_retrievers import GraphIndex, Node, Pipeline, Retriever
from graph_retrievers.operators import DocumentGraphNetwork, DocumentGraphRerank, EvidenceNetwork, VectorSearch
from graph_retrievers.retrievers.excerpt import rerank
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.meaning import MeaningGraph
from graph_retrievers.signals.meaning_cache import MeaningCache
from graph_retrievers.systems.grag.document_graph import maximal_paths
from graph_retrievers.systems.grag.evidence import DocumentSet
from graph_retrievers.systems.grag.model import CHANNELS
from tests.helpers import HashEmbedding
from tests.rankings import Ranking, ranked
from tests.unit.test_grag_training import words

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
    assert found.path_mentions[1:, 0].tolist() == [1.0, 1.0, 0.5, 0.25, 0.0]
    assert found.path_mentions.diagonal().tolist() == [0.0] * 6
    channels = found.pair_evidence(("paths-in", "paths-out"))
    # The question names the loom, so that each of the five others reaches it.
    assert channels[1:, 0, 0].tolist() == pytest.approx([0.2, 1.0, 1.0, 1.0, 0.0])
    reached = found.path_mentions.T**2
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
    found = ranked(DocumentGraphRerank(RANKS, parser=words, depth=2), Queries.of(index, ["loom"], vectors=torch.ones(1, 4)), given)
    assert found.scores[0, :2].tolist() == pytest.approx([-torch.tensor(1.5).log().item()] * 2)


# -- training ---------------------------------------------------------------------------------------------------------


# -- caches -----------------------------------------------------------------------------------------------------------


def test_a_cache_that_is_given_is_used():
    cache = MeaningCache(words)
    assert DocumentGraphRerank(parser=cache).parser is cache


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


# -- the postprocessor ------------------------------------------------------------------------------------------------


# -- the concept parser -----------------------------------------------------------------------------------------------
