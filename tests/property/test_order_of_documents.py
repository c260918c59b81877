"""Documents and edges in another order: every retriever finds the same, with the same scores, up to ties."""

import zlib

import numpy as np
import pytest
import torch

from graph_retrievers.graph import Edge, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.relevance import RelevanceModel
from tests.helpers import listening
from tests.retrievers import EVERY, on

QUESTIONS = [
    "Which loom of Ada Holm weaves the card of winter?",
    "Who knew Bela Kiss, and the valve?",
    "cipher harbour ferry",
    "Did Cleo Marsh film the river?",
]
PLAN = [{"type": "person", "restriction": "Cleo Marsh"}, {"type": "work", "relation": "made"}]
WORDS = "loom card film drama valve cipher census cloth paper river ferry harbour winter engine".split()
PEOPLE = ["Ada Holm", "Bela Kiss", "Cleo Marsh", "Dora Lund", "Emil Voss"]
SIZE = 90


def numbers(text, count):
    return np.random.default_rng(zlib.crc32(text.encode())).normal(size=count)


def embed(texts):
    rows = np.stack([numbers(text, 32) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Drawn(RelevanceModel):
    """A score of its own for every pair, so that none tie."""

    name = "drawn"

    def encode(self, queries, texts):
        pairs = zip(queries, texts, strict=True)
        return torch.tensor(np.array([numbers(q + t, 3) for q, t in pairs]), dtype=torch.float32).reshape(-1, 3)

    def score(self, latent):
        return latent @ torch.ones(3)


def corpus(order, tree):
    """Texts of different lengths and edges of different weights, so that no signal ties; in another order for each seed but 0.

    With `tree`, edges make no circle: where all cost the same, as in G-Retriever, no two ways between nodes do then.
    """
    draw = np.random.default_rng(11)
    fillers = [f"w{n}" for n in range(60)]
    nodes = []
    for n in range(SIZE):
        telling = draw.choice(WORDS, int(draw.integers(1, 8)))
        text = " ".join([*telling, *draw.choice(fillers, 10 + n - len(telling))])
        person = n % 3 == 0 and n // 3 < len(PEOPLE)
        nodes.append(Node(f"n{n}", text, PEOPLE[n // 3] if person else f"Title{n}", ("person", "work", "note")[n % 3]))
    ends = [(n, int(draw.integers(n))) for n in range(1, SIZE)] if tree else draw.choice(SIZE, (200, 2)).tolist()
    edges = [
        Edge(f"n{a}", f"n{b}", ("made", "knew", "saw")[(a + b) % 3], float(draw.uniform(0.5, 3)), " ".join(draw.choice(fillers, 5)))
        for a, b in ends
        if a != b
    ]
    if order:
        draw = np.random.default_rng(order)
        nodes, edges = ([given[place] for place in draw.permutation(len(given))] for given in (nodes, edges))
    return GraphIndex.from_nodes(nodes, edges, embedding=embed, relevance=Drawn(), edge_signals=True)


@pytest.fixture(scope="module")
def corpora():
    return {tree: [corpus(order, tree) for order in (0, 1, 2)] for tree in (False, True)}


def found(hits):
    """What is found by its score: ids of nodes, or paths by their nodes."""
    return {hit.id if hit.kind == "node" else frozenset(hit.path.nodes): hit.score for hit in hits}


# Ranks of equal scores differ, so ranks are left out: paths of PathRAG are compared in place of their nodes, and the scores of the
# model in path reranking.
SETTINGS = {
    "pathrag": {"chains": "hits"},
    "path-reranking": {"weight": 1.0},
}


# All facts of a chunk in KG2RAG have its similarity: the lower edge decides where a walk begins, and so every rank after it.
COMPARED = [name for name in EVERY if name != "kg2rag"]
# Of several edges between two nodes, a chain of HyKGE has the relation of the lower one.
WITHOUT_CIRCLES = ("g-retriever", "hykge")


@pytest.mark.parametrize("name", [*COMPARED, "lesegr, listening"])
def test_the_order_of_documents_and_edges_chooses_among_ties_alone(name, corpora):
    system, options = (name, SETTINGS.get(name, {})) if name != "lesegr, listening" else ("lesegr", {"model": listening(32)})
    rankings = []
    for index in corpora[name in WITHOUT_CIRCLES]:
        retriever = on(index, system, k=SIZE, **options)
        inputs = {"plan": [PLAN] * len(QUESTIONS)} if "plan" in retriever.inputs else {}
        results = retriever.retrieve_batch(QUESTIONS, **inputs)
        rankings.append([found(hits.chains if name == "pathrag" else hits) for hits in results])
    assert all(rankings[0])
    for other in rankings[1:]:
        for ours, theirs in zip(rankings[0], other, strict=True):
            assert theirs == pytest.approx(ours, rel=1e-4, abs=1e-5)
            # Where they stand apart, their scores are equal.
            apart = [(one, two) for one, two in zip(ours, theirs, strict=True) if one != two]
            assert all(ours[one] == pytest.approx(ours[two], rel=1e-4, abs=1e-5) for one, two in apart)
