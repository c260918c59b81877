"""Retrievers on a graph that is fetched piece by piece give the answers in memory, on random graphs."""

import json
import zlib
from uuid import NAMESPACE_OID, uuid5

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from graph_retrievers import (
    GAR,
    GRAG,
    KAR,
    KG2RAG,
    MMR,
    QAFD,
    Decomposition,
    Eager,
    EgoGRAG,
    FastInsight,
    Fused,
    GraphRAGLocal,
    GRetriever,
    HybGRAG,
    HyDE,
    HyKGE,
    IRCoT,
    LeSeGR,
    LightRAG,
    MoR,
    PathRAG,
    Pipeline,
    Scored,
    SpreadingActivation,
    ThinkOnGraph,
    ThinkOnGraph2,
    Vector,
    WalkFusion,
)
from graph_retrievers.operators import (
    AnswerSearch,
    BM25Search,
    ChainSearch,
    ChunkGathering,
    FeedbackSearch,
    GatedPropagation,
    HybridSearch,
    PathSearch,
    ReciprocalRankFusion,
    RelationGathering,
    Rerank,
    TripleSearch,
    VectorSearch,
)
from graph_retrievers.stores.remote import RemoteIndex
from graph_retrievers.systems.mor import MixedTraversal
from tests.helpers import listening
from tests.remote import (
    QUESTIONS,
    CountingRelevance,
    MemoryGraph,
    MemoryVectors,
    MemoryWords,
    assert_same,
    index_of,
    question_vectors,
    random_corpus,
)
from tests.retrievers import on

TYPES = st.sampled_from(["film", "person", "place"])
STEP = st.fixed_dictionaries(
    {"type": TYPES},
    optional={
        "relation": st.sampled_from(["r0", "r1", "r2"]),
        "restriction": st.sampled_from(["word1", "Title 21", "title 3", "word2 word3"]),
    },
)
PLAN = st.none() | st.lists(st.lists(STEP, min_size=1, max_size=4), min_size=1, max_size=3)
CONDITION = st.none() | st.sampled_from(
    [
        {},
        {"$type": "film"},
        {"year": {"$gte": 1996}},
        {"tags": {"$contains": "a"}},
        {"$not": {"$type": "place"}},
        {"year": 1993, "$type": "person"},
    ]
)
# Nodes that pass are not in one place of the graph; the last has none.
SCOPES = [{"$type": "film"}, {"$not": {"$type": "place"}}, {"year": {"$gte": 1995}}, {"tags": {"$contains": "a"}}, {"year": 3}]


def scorer(node, similarity, depth):
    return similarity + len(node.text) / 100 - depth


def writer(prompt):
    """Passages, questions, a sentence and entities: words of the question; a route along a relation, and that it is wrong."""
    number = len(prompt) % 9
    return json.dumps(
        {
            "passages": [f"word{number}", "word3 word8"],
            "passage": f"word{number} word3",
            "questions": [f"word{number}"],
            "sentence": f"word{number} word1",
            "search": "graph",
            "correct": False,
            "error": "incorrect entity or relation",
        }
        # Entities of a route have relations, others are names.
        | {"entities": [{"name": f"Title {number}", "relations": ["r1"]}] if "relation" in prompt else [f"Title {number}"]}
    )


def embed(texts):
    return [np.random.default_rng(zlib.crc32(text.encode())).normal(size=6).tolist() for text in texts]


SYSTEMS = {
    "paths": (FastInsight, {"nodes_per_round": 4, "paths": True, "alpha": 0.5}),
    "eager": (Eager, {"start_k": 3, "adjacent_k": 4}),
    "eager, shallow": (Eager, {"max_depth": 1, "backfill": False, "types": ("film", "place")}),
    "mmr": (MMR, {"adjacent_k": 5, "lambda_mult": 0.4}),
    "scored": (Scored, {"scorer": scorer, "per_iteration_limit": 3}),
    "scored by vectors": (Scored, {"max_depth": 2, "types": ["person"]}),
    "rerank": (Pipeline(HybridSearch(20), Rerank()), {}),
    "spreading": (Pipeline(VectorSearch(4, returned=False), GatedPropagation()), {}),
    "spreading rows": (
        Pipeline(BM25Search(3, returned=False), GatedPropagation(semantics="rows", hub_exponent=0.5, exclude_types=["place"])),
        {},
    ),
    "chains": (Pipeline(VectorSearch(4), GatedPropagation(semantics="rows"), ChainSearch(8, semantics="rows")), {}),
    "mor, cut": (MoR, {"traversal": MixedTraversal(max_edges=9)}),
    "spreading, uniform": (Pipeline(VectorSearch(2), GatedPropagation(gate="uniform", steps=4)), {}),
    "bridges": (Pipeline(HybridSearch(20, returned=False), PathSearch(bridges=2), FeedbackSearch(15)), {}),
    "fused": (ReciprocalRankFusion(VectorSearch(20), BM25Search(), weights=(2, 1)), {}),
    "fastinsight": (FastInsight, {"nodes_per_round": 4}),
    "subgraph": (FastInsight, {"nodes_per_round": 3, "degree": "subgraph", "beta": float("inf"), "backfill": False}),
    "fused with search": (FastInsight, {"alpha": 0.0}),
    "gar": (GAR, {"nodes_per_round": 4}),
    "links": (WalkFusion, {"form": "links", "bridges": 0}),
    "names": (WalkFusion, {"form": "names", "weights": (2, 1, 0), "depth": 20}),
    "default": (WalkFusion, {}),
    "default of spreading": (SpreadingActivation, {"chains": None}),
    "names and passages": (WalkFusion, {"form": "names", "depth": 20}),
    "mor": (MoR, {"candidates": 12, "seeds": 3, "matches": 4}),
    "mor filled": (MoR, {"candidates": 25, "fill": True, "backfill": False}),
    "relations and chunks": (
        Pipeline(
            VectorSearch(4, returned=False),
            RelationGathering(60, exclude_types=["place"]),
            ChunkGathering("relations", chunk_types=["place"], relation_tokens=40),
        ),
        {},
    ),
    "lightrag": (LightRAG, {"top_k": 5, "facts": True}),
    "lightrag by weight": (LightRAG, {"top_k": 4, "chunk_pick": "weight", "passage_type": "place", "facts": True}),
    "g-retriever": (GRetriever, {"seeds": 3, "facts": True}),
    "pathrag": (PathRAG, {}),
    "think-on-graph": (Pipeline(VectorSearch(3, returned=False), ThinkOnGraph(width=2, candidates=4).operator()), {}),
    "think-on-graph-2": (
        Pipeline(VectorSearch(3, returned=False), ThinkOnGraph2(width=2, candidates=4, texts=5, passage_type="place").operator()),
        {},
    ),
    "kg2rag": (KG2RAG, {"seeds": 4, "passage_type": "place"}),
    "kg2rag of pages": (KG2RAG, {"seeds": 2, "passage_type": "none"}),
    "graphrag-local": (GraphRAGLocal, {"entities": 4, "passage_type": "place", "report_type": "film", "facts": True}),
    "qafd-rag": (QAFD, {"seeds": 3, "mass": 12.0, "query_weight": 2.0}),
    "ego-grag": (EgoGRAG, {"centres": 8, "graphs": 3, "entities": 4}),
    "subgraph-rag": (Pipeline(VectorSearch(3, returned=False), TripleSearch(triples=6)), {}),
    "gnn-rag": (Pipeline(VectorSearch(3, returned=False), AnswerSearch(candidates=12)), {}),
    "hykge": (HyKGE, {"entities": 5, "facts": True}),
    "kar": (KAR, {"search": "hybrid", "language_model": writer, "neighbors": 2}),
    "kar alone": (KAR, {"hops": 1, "neighbors": 3}),
    "hybgrag": (HybGRAG, {"language_model": writer, "iterations": 2}),
    "lesegr": (LeSeGR, {"model": listening(6), "candidates": 8}),
    "lesegr, incoming": (LeSeGR, {"model": listening(6, "mean", layers=2), "direction": "in", "hops": 2, "candidates": 3}),
    "lesegr of vectors": (
        LeSeGR,
        {"model": listening(6, "transformer", layers=2, hidden=8, heads=2), "hops": 2, "candidates": 5, "context": None},
    ),
    "g-rag": (GRAG, {"first": "hybrid", "depth": 9}),
    "hyde": (HyDE, {"search": "hybrid", "language_model": writer, "documents": 2}),
    "hyde before a walk": (HyDE, {"search": Eager(max_depth=1), "language_model": writer}),
    "decomposition": (Decomposition, {"search": "hybrid", "language_model": writer}),
    "ircot": (IRCoT, {"search": "hybrid", "language_model": writer, "steps": 2}),
    "ircot with reranking": (IRCoT, {"search": FastInsight(budget=9), "language_model": writer, "steps": 2}),
}


# What they do follows from the whole graph, of which a store of words tells.
BY_TRAITS = {"pathrag", "lightrag", "lightrag by weight", "default", "default of spreading", "names and passages"}
BY_TRAITS |= {"kg2rag", "kg2rag of pages", "graphrag-local", "hybgrag"}
# What embeds texts.
EMBEDDING = {"hyde", "hyde before a walk", "decomposition", "ircot", "ircot with reranking"}
EMBEDDING |= {"kar", "kar alone", "hykge", "hybgrag", "think-on-graph", "think-on-graph-2"}
# Names of two nodes each, in any case, and of one by its id.
NAMING = ["Who saw Title 3 and word1 word2?", "title 1 word4", "word6 word7 Title 2", f"{uuid5(NAMESPACE_OID, 'node 5')} word9"]


def are_told_apart(questions, vectors):
    """Whether no difference of two products is so near to the limit of ties that rounding decides whether it is one."""
    products = np.sort(questions.astype(np.float64) @ vectors.T.astype(np.float64), axis=1)
    gaps, limit = np.diff(products, axis=1), 1e-6 * np.linalg.norm(questions, axis=1, keepdims=True)
    return not ((gaps > limit / 2) & (gaps < 2 * limit)).any()


@pytest.mark.parametrize("name", SYSTEMS)
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_answers_are_those_in_memory(name, data):
    system, options = SYSTEMS[name]
    seed, count = data.draw(st.integers(0, 10_000)), data.draw(st.sampled_from([5, 30, 60, 90]))
    corpus = random_corpus(seed, count, 2 * count, ties=data.draw(st.booleans()))
    if system in (FastInsight, GAR):
        options = {**options, "budget": data.draw(st.sampled_from([1, 7, 20]))}
    if name == "fused with search":
        system, options = Fused(FastInsight(**options), Vector()), {}
    has_model = data.draw(st.booleans())
    index = index_of(corpus, CountingRelevance() if has_model else None)
    graph, vectors = MemoryGraph(index.graph), MemoryVectors(index.graph.ids, corpus[2])
    model = CountingRelevance() if has_model else None
    searched = name in BY_TRAITS or (name != "fused with search" and data.draw(st.booleans()))
    words = {"words": MemoryWords(index)} if searched else {"signals": {"bm25": index.bm25}}
    written = (
        {"embedding": embed} if system in (HyDE, Decomposition, IRCoT, KAR, HyKGE, HybGRAG) or name == "think-on-graph" else {}
    )
    remote = RemoteIndex(graph, vectors=vectors, relevance=model, **words, **written)
    index = index.with_models(**written) if written else index
    questions = NAMING if name in BY_TRAITS else QUESTIONS
    filters = {key: data.draw(CONDITION) for key in ("filter", "seed_filter", "traversal_filter")}
    scope = data.draw(st.none() | st.sampled_from(SCOPES)) if name not in BY_TRAITS else None
    filters |= {} if scope is None else {"scope": scope}
    k, own = data.draw(st.sampled_from([1, 10, 70])), question_vectors(corpus, seed)
    assume(are_told_apart(own, corpus[2]))
    inputs = {"plan": [data.draw(PLAN) for _ in questions]} if system is MoR else {}
    retriever = on(remote, system, **options)
    found = retriever.retrieve_batch(questions, k, vectors=own, **filters, **inputs)
    if name == "fused with search":
        # Whether names identify nodes is not known there, as in an index without words.
        index = index_of(corpus, CountingRelevance() if has_model else None, bm25=False)
    assert_same(found, on(index, system, **options).retrieve_batch(questions, k, vectors=own, **filters, **inputs))
    place = data.draw(st.integers(0, len(questions) - 1))
    one = {key: values[place] for key, values in inputs.items()}
    alone = retriever.retrieve(questions[place], k, vector=own[place], **filters, **one)
    assert_same([alone], [on(index, system, **options).retrieve(questions[place], k, vector=own[place], **filters, **one)])
