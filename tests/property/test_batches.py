"""A batch of questions gives each what it gets alone: random graphs with ties, filters, and searches of each kind."""

import zlib

import numpy as np
import pytest
import torch

from graph_retrievers import Eager, Retriever
from graph_retrievers.graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import (
    BM25Search,
    EntityLinking,
    FirstStage,
    GatedPropagation,
    GRanker,
    HybridSearch,
    Loop,
    PersonalizedPageRank,
    Pipeline,
    ReciprocalRankFusion,
    Rerank,
    STeX,
    VectorSearch,
)
from graph_retrievers.retrievers import memory
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.systems import pagerank
from graph_retrievers.systems.gar import AdaptiveReranking
from graph_retrievers.systems.gnn_rag.model import AnswerNetwork
from graph_retrievers.systems.gnn_rag.search import AnswerSearch
from graph_retrievers.systems.grag.rerank import DocumentGraphRerank
from graph_retrievers.systems.subgraph_rag.model import TripleScorer
from graph_retrievers.systems.subgraph_rag.search import TripleSearch
from graph_retrievers.systems.walk_fusion.path_search import PathSearch

WORDS = ["Loom", "card", "Mill", "engine", "cloth", "Ada Holm", "river"]
GRANKER = GRanker(0.5)
SEARCHES = {
    "fastinsight": lambda: Pipeline(
        VectorSearch(3, returned=False), GRANKER, Loop(STeX(nodes_per_round=2, budget=9), GRANKER, budget=9)
    ),
    "unsmoothed": lambda: Pipeline(
        VectorSearch(3, returned=False), GRanker(0), Loop(STeX(nodes_per_round=2, budget=9), GRanker(0), budget=9)
    ),
    "stex by structure": lambda: Pipeline(BM25Search(4), STeX(float("inf"), nodes_per_round=3)),
    "subgraph": lambda: Pipeline(HybridSearch(6), GRanker(0.3, degree="subgraph", k=4)),
    "gar": lambda: Pipeline(VectorSearch(5, returned=False), AdaptiveReranking(7, 2)),
    "gar by words": lambda: Pipeline(BM25Search(5), AdaptiveReranking(50, 3)),
    "gar of a few": lambda: Pipeline(VectorSearch(4, returned=False), AdaptiveReranking(6, 1)),
    "eager": lambda: Pipeline(VectorSearch(2, returned=False), Eager(adjacent_k=3).operator()),
    "eager by words": lambda: Pipeline(BM25Search(3, returned=False), Eager(adjacent_k=2, max_depth=2).operator()),
    "spreading": lambda: Pipeline(EntityLinking(), GatedPropagation(steps=2)),
    "uniform": lambda: Pipeline(VectorSearch(3), GatedPropagation(gate="uniform", semantics="rows", hub_exponent=0.5, k=8)),
    "typed": lambda: Pipeline(BM25Search(3), GatedPropagation(exclude_types=["note"], steps=4)),
    "pagerank": lambda: Pipeline(BM25Search(2), PersonalizedPageRank(passage_weight=0)),
    "pagerank by vectors": lambda: Pipeline(VectorSearch(2), PersonalizedPageRank(6)),
    "paths": lambda: Pipeline(HybridSearch(8), PathSearch(2)),
    "bridges": lambda: Pipeline(BM25Search(6), PathSearch(3, bridges=2, k=9)),
    "paths of dense": lambda: Pipeline(VectorSearch(3), PathSearch(2), PathSearch(1)),
    "rrf": lambda: HybridSearch(7, fusion="rrf", depth=4),
    "depths": lambda: ReciprocalRankFusion(HybridSearch(2, fusion="rrf", depth=3), VectorSearch(9), BM25Search(9)),
    "fused": lambda: ReciprocalRankFusion(
        Pipeline(BM25Search(3), STeX(nodes_per_round=2)),
        Pipeline(EntityLinking(), GatedPropagation(steps=1)),
        FirstStage(VectorSearch(), 6),
        depth=5,
    ),
    "touched": lambda: ReciprocalRankFusion(
        Pipeline(VectorSearch(1), GatedPropagation(steps=4, gate="uniform")),
        Pipeline(VectorSearch(3), GatedPropagation(steps=1, gate="uniform")),
    ),
    "triples": lambda: Pipeline(VectorSearch(3, returned=False), TripleSearch(TripleScorer(3), triples=5)),
    "answers": lambda: Pipeline(VectorSearch(2, returned=False), AnswerSearch(AnswerNetwork(3), mass=0.6)),
    "documents": lambda: Pipeline(BM25Search(6), DocumentGraphRerank()),
    "fused twice": lambda: Pipeline(ReciprocalRankFusion(BM25Search(2), VectorSearch(3)), STeX(nodes_per_round=1), Rerank(6)),
}
TIMES = 12


def embed(texts):
    """Return vectors of small integers, some of them zero, so that dot products are exact and often equal."""
    draws = [np.random.default_rng(zlib.crc32(text.encode())) for text in texts]
    return np.stack([draw.integers(-1, 2, 3) * (draw.random() < 0.9) for draw in draws]).astype(np.float32)


class Overlap(RelevanceModel):
    """Scores a text by letters; many scores are equal. It fails for some questions, and may ask for paths."""

    name = "overlap"

    def __init__(self, paths):
        self.paths = paths

    def encode_lists(self, lists):
        told = [f"no answer for {query!r}" if "engine" in query else "" for query, _ in lists]
        return [(part * (not note), note) for note, (part, _) in zip(told, super().encode_lists(lists), strict=True)]

    def encode(self, queries, texts):
        rows = [[len(set(q) & set(t)) // 3, len(t) % 3] for q, t in zip(queries, texts, strict=True)]
        return torch.tensor(rows, dtype=torch.float32).reshape(-1, 2)

    def score(self, latent):
        return latent.sum(1)


def drawn(draw):
    """Return an index, options of a retriever, a number of hits, filters of a batch, and questions with their entities."""
    size = int(draw.integers(2, 40))
    texts = [" ".join(draw.choice(WORDS, draw.integers(1, 4))) for _ in range(size)]
    nodes = [
        Node(f"n{row}", text, WORDS[row] if row < 5 else "", ("note", "film")[row % 2], {"file": row % 4, "row": row})
        for row, text in enumerate(texts)
    ]
    ends = draw.integers(0, size, (int(draw.integers(0, 3 * size)), 2)).tolist()
    edges = [(f"n{a}", f"n{b}", f"r{(a + b) % 2}") for a, b in ends]
    relevance = Overlap(bool(draw.random() < 0.4)) if draw.random() < 0.7 else None
    index = GraphIndex.from_nodes(nodes, edges, embedding=embed, relevance=relevance)
    keys = [key for key in ("filter", "seed_filter", "traversal_filter", "scope") if draw.random() < 0.3]
    filters = {key: {"row": {"$in": draw.choice(size, size, replace=True).tolist()}} for key in keys}
    options = {"backfill": bool(draw.random() < 0.5)}
    if draw.random() < 0.2:
        options["per_source"], options["source_field"] = int(draw.integers(1, 3)), "file"
    if draw.random() < 0.2:
        options["types"] = ["film"]
    asked = ["of the", "sunset", *(" ".join(draw.choice(WORDS, draw.integers(1, 4))) for _ in range(draw.integers(1, 6)))]
    asked = draw.permutation([*asked, asked[-1]]).tolist()
    entities = [[["Loom"], ["Ada", "card"], ["unknown"], None][draw.integers(4)] for _ in asked]
    return index, options, int(draw.choice([1, 3, 10, 50])), filters, asked, entities


def told(hits):
    return hits.notes, [(hit.to_dict(), hit.explain(), hit.ranks) for hit in hits]


@pytest.mark.parametrize("name", SEARCHES)
def test_a_batch_gives_each_question_what_it_gets_alone(name, monkeypatch):
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(TIMES):
        index, options, k, filters, asked, entities = drawn(draw)
        retriever = Retriever(index, SEARCHES[name](), **options)
        given = entities if retriever.operator.reads else [None] * len(asked)
        inputs = {"entities": given} if retriever.operator.reads else {}
        alone = [
            told(retriever.retrieve(text, k, **filters, **{key: values[b] for key, values in inputs.items()}))
            for b, text in enumerate(asked)
        ]
        # All as one; in parts; and one by one.
        for copies in (len(index.graph) * 100, len(index.graph) * 3, 1):
            monkeypatch.setattr(memory, "_COPIES", copies)
            # So that walks have tables of two questions at a time.
            monkeypatch.setattr(pagerank, "_CACHED", len(index.graph) * 2)
            together = retriever.retrieve_batch(asked, k, **filters, **inputs)
            assert list(map(told, together)) == alone


@pytest.mark.parametrize("name", SEARCHES)
def test_all_that_is_found_and_touched_is_what_each_question_finds_alone(name):
    draw = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    for _ in range(TIMES):
        index, _, k, filters, asked, entities = drawn(draw)
        filters.pop("scope", None)
        retriever = Retriever(index, SEARCHES[name]())

        def found(part, retriever=retriever, k=k, filters=filters):
            texts, given = zip(*part, strict=True)
            inputs = {"entities": given} if retriever.operator.reads else {}
            questions = retriever.questions(Queries.of(retriever.index, texts, k=k, inputs=inputs, **filters))
            lists = retriever.rank(questions)
            return [
                (question.touched, question.notes, each.nodes.tolist(), each.scores.astype(np.float32).tolist())
                for question, each in zip(questions, lists, strict=True)
            ]

        pairs = list(zip(asked, entities, strict=True))
        assert found(pairs) == [each for pair in pairs for each in found([pair])]


def test_hubs_of_each_question_are_joined_by_their_own_edges():
    """The neighbours of hubs are so many that the pairs of one question's nodes are looked up instead."""
    texts = ["a hub", "the hub", *("a leaf" for _ in range(60))]
    edges = [("0", "1"), *((str(hub), str(leaf)) for hub in (0, 1) for leaf in range(2, 62))]
    index = GraphIndex.from_texts(texts, edges=edges, vectors=[[1, 0], [0.5, 1], *([-1, -1] for _ in range(60))])
    retriever = Retriever(index, Pipeline(VectorSearch(2), GRanker(0.5)), backfill=False)
    vectors = [[1, 0], [1, 0.25], [1, 0.5]]
    together = retriever.retrieve_batch(["hub"] * 3, vectors=vectors)
    alone = [retriever.retrieve("hub", vector=vector) for vector in vectors]
    assert [[hit.score for hit in hits] for hits in together] == [[hit.score for hit in hits] for hits in alone]
    # The scores 1 and 1/2 of the first question, each mixed in equal parts with that of the other.
    assert [hit.score for hit in together[0]] == [0.75, 0.75]


def test_a_walk_that_a_filter_ends_for_one_question_goes_on_for_another():
    leaves = [str(leaf) for leaf in range(5, 17)]
    edges = [("0", "1"), ("1", "2"), ("2", "3"), *(("4", leaf) for leaf in leaves), (leaves[-1], "17")]
    vectors = [[0.9, 0.0], *([0.1, 0.1] for _ in range(3)), [0.0, 0.9], *([0.1, 0.1] for _ in range(13))]
    index = GraphIndex.from_texts(["a loom"] * 18, edges=edges, vectors=vectors)
    retriever = Retriever(index, Eager(start_k=1, adjacent_k=20), backfill=False)
    filters = {"filter": {"$id": {"$in": ["3", "17"]}}, "seed_filter": {"$id": {"$in": ["0", "4"]}}, "traversal_filter": {}}
    chain, hub = retriever.retrieve_batch(["chain", "hub"], 1, vectors=[[1, 0], [0, 1]], **filters)
    assert [hit.id for hit in chain] == ["3"] and chain.notes == ()
    assert hub == [] and hub.notes[0].startswith("the traversal ended after 10 nodes")


class Backwards(VectorSearch):
    """A search of the user's own, for one question: the last node first."""

    def search(self, question, candidates):
        return candidates.seeds(np.arange(question.size)[::-1].copy(), np.ones(question.size), self.name)


class OneOfEach(GRanker):
    """A reranker of the user's own, for one question."""

    def search(self, question, candidates):
        return candidates.taken(slice(1))


class Walked(PathSearch):
    """A search of the user's own, for one question."""

    def search(self, question, candidates):
        return candidates.taken(slice(2))


class Last:
    """A search that a class has beside that of an operator."""

    def search(self, question, candidates):
        return candidates.taken(slice(len(candidates) - 1, None))


class LastOfPaths(Last, PathSearch):
    """The last node found."""


class TwoInOrder(Pipeline):
    """A composition of the user's own, for one question."""

    def search(self, question, candidates):
        candidates = yield from super().search(question, candidates)
        return candidates.taken(slice(2))


@pytest.mark.parametrize(
    ("operator", "count"),
    [
        (Backwards(), 4),
        (Pipeline(VectorSearch(), Rerank(), OneOfEach()), 1),
        (Pipeline(VectorSearch(), OneOfEach(weighted=True)), 1),
        (Pipeline(VectorSearch(), Walked(), STeX(nodes_per_round=1, budget=2)), 2),
        (Pipeline(VectorSearch(), LastOfPaths()), 1),
        (ReciprocalRankFusion(Pipeline(VectorSearch(), LastOfPaths()), LastOfPaths()), 1),
        (TwoInOrder(VectorSearch(), Rerank()), 2),
    ],
)
def test_a_search_of_the_users_own_gets_one_question(operator, count):
    index = GraphIndex.from_texts(["a loom", "a card", "a mill", "an engine"], vectors=[[1, 0], [0, 1], [1, 1], [0.5, 0]])
    retriever = Retriever(index, operator, backfill=False)
    vectors = [[1, 0.1], [0.1, 1]]
    together = retriever.retrieve_batch(["loom", "card"], vectors=vectors)
    assert list(map(len, together)) == [count] * 2
    alone = [retriever.retrieve(text, vector=vector) for text, vector in zip(["loom", "card"], vectors, strict=True)]
    assert list(map(told, together)) == list(map(told, alone))
