"""What holds for every retriever by name: batch = single, twice = once, exactly k hits, odd input."""

import zlib
from functools import cache

import numpy as np
import pytest
import torch

from graph_retrievers import Retriever
from graph_retrievers.graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.protocol import EMPTY_QUESTION, LISTING, LISTING_NOTE
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.testing import check_retriever
from tests.helpers import HashEmbedding, linked_edges, linked_nodes
from tests.movies import movie_edges, movie_nodes
from tests.retrievers import EVERY, FUSED_FASTINSIGHT, on

PLAN = {"paths": [[{"type": "person", "restriction": "Cleo Marsh"}, {"type": "movie"}, {"type": "genre"}]]}
QUERIES = [
    "Which machines did Charles Babbage design?",
    "Who directed Glass Winter with Cleo Marsh?",
    "the of and",
    "Who broke ciphers at Bletchley Park with Alan Turing?",
    "Which machines did Charles Babbage design?",
    "punched cards in a loom 織機 🧶",
]
NAMES = EVERY
RERANKING = ("fastinsight", FUSED_FASTINSIGHT, "re2", "gar", "path-reranking")
# Without a language model here: the question itself is searched, by "vector", "hybrid" and "bm25".
REWRITING = {"hyde": "HypotheticalDocuments", "decomposition": "QueryDecomposition", "ircot": "InterleavedReasoning"}


def embed(texts):
    """Unit vectors whose dot products hold no ties, since equal up to rounding is not equal."""
    rows = np.stack([np.random.default_rng(zlib.crc32(text.encode())).normal(size=32) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Overlap(RelevanceModel):
    """Latents of width 3 and a head that takes no other, as a cross-encoder's does."""

    name = "overlap"

    def encode(self, queries, texts):
        rows = [[len(set(q) & set(t)), len(t), 1] for q, t in zip(queries, texts, strict=True)]
        return torch.tensor(rows, dtype=torch.float32).reshape(-1, 3)

    def score(self, latent):
        return torch.tanh(latent) @ torch.tensor([1.0, -0.3, 0.1], device=latent.device)


OVERLAP = Overlap()


def new_corpus(device="cpu", relevance=None):
    """Films, computing history and random nodes between them; one without text, some without edges."""
    rng = np.random.default_rng(5)
    words = "loom card film drama valve cipher census cloth paper river ferry harbour winter engine".split()
    extra = [Node(f"x{i}", " ".join(rng.choice(words, 6)), type="note") for i in range(60)]
    extra += [Node("silent", "", type="note"), Node("bytes", "\u0000 \ufffd \u00ad \u202e", "織機 🧶", "note")]
    nodes = [*linked_nodes(), *movie_nodes(), *extra]
    ids = [node.id for node in nodes]
    pairs = rng.choice(len(ids) - 10, (150, 2))
    edges = [*linked_edges(), *movie_edges(), *((ids[a], ids[b], f"r{(a + b) % 3}") for a, b in pairs)]
    return GraphIndex.from_nodes(nodes, edges, embedding=embed, relevance=relevance, device=device, edge_signals=True)


# Retrievers only read an index, so all of them search the same one.
corpus = cache(new_corpus)


def inputs(name, count):
    return {"plan": [PLAN if b % 2 else None for b in range(count)]} if name.startswith("mor") else {}


@pytest.mark.parametrize("name", NAMES)
def test_a_retriever_keeps_its_contract(name, device):
    retriever, given = Retriever(corpus(device), name), inputs(name, len(QUERIES))
    check_retriever(retriever, QUERIES, k=20, inputs=given)
    together = retriever.retrieve_batch(QUERIES, 20, **given)
    alone = [retriever.retrieve(query, 20, **{key: values[b] for key, values in given.items()}) for b, query in enumerate(QUERIES)]
    assert [[hit.explain() for hit in hits] for hits in together] == [[hit.explain() for hit in hits] for hits in alone]
    assert [len(hits) for hits in together] == [20] * len(QUERIES)


@pytest.mark.parametrize("name", NAMES)
def test_the_rank_without_the_graph_is_that_in_hybrid_search(name, device):
    index = corpus(device)
    results = Retriever(index, name).retrieve_batch(QUERIES, 20, **inputs(name, len(QUERIES)))
    for hits, searched in zip(results, Retriever(index, "hybrid").retrieve_batch(QUERIES, 100), strict=True):
        ranks = {hit.id: rank for rank, hit in enumerate(searched, 1)}
        reads = name not in ("vector", "bm25", "hybrid", "re2", "kar", *REWRITING)
        assert [hit.plain_rank for hit in hits] == [ranks.get(hit.id) if reads else None for hit in hits]
        assert all(("without the graph" in hit.explain()) == reads for hit in hits)
        assert all(hit.ranks.keys() == hits[0].ranks.keys() for hit in hits)


@pytest.mark.parametrize("name", NAMES)
def test_two_runs_give_the_same_bytes(name, device):
    runs = [Retriever(new_corpus(device), name).retrieve_batch(QUERIES, 20, **inputs(name, len(QUERIES))) for _ in range(2)]
    first, second = ([[hit.to_dict() for hit in hits] for hits in run] for run in runs)
    assert first == second


@pytest.mark.parametrize("name", NAMES)
def test_k_larger_than_the_corpus_brings_the_corpus(name):
    index = corpus()
    hits = Retriever(index, name).retrieve(QUERIES[0], 10**12, **{k: v[0] for k, v in inputs(name, 1).items()})
    assert sorted(hit.id for hit in hits) == sorted(set(index.graph.ids) - {"silent"}), "all that have something to read"


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_question_lists_what_passes_and_searches_for_nothing(name):
    index = corpus()
    retriever, given = Retriever(index, name), inputs(name, len(QUERIES) + 2)
    wanted = {"$id": {"$in": ["x7", "ada", "x3", "engine"]}}
    listed = [node for node in index.graph.ids if node in wanted["$id"]["$in"]]
    hits = retriever.retrieve("", filter=wanted)
    assert [(hit.id, hit.score, hit.operator) for hit in hits] == [(node, 0.0, LISTING) for node in listed]
    assert hits.notes == (LISTING_NOTE,) and hits.to_context() and hits[0].explain() == f"found by {LISTING}"
    assert [hit.id for hit in retriever.retrieve("\t", 2, scope=wanted)] == listed[:2]
    together = retriever.retrieve_batch(["", *QUERIES, " "], 5, filter=wanted, **given)
    assert together[0] == together[-1] == hits[:5]
    assert together[1:-1] == retriever.retrieve_batch(QUERIES, 5, filter=wanted, **{k: v[1:-1] for k, v in given.items()})
    assert retriever.retrieve("").notes == (EMPTY_QUESTION,) and retriever.retrieve("", filter={"$id": "nobody"}) == []


@pytest.mark.parametrize("relevance", [None, OVERLAP], ids=["bi-encoder", "own"])
@pytest.mark.parametrize("name", NAMES)
def test_a_filter_that_keeps_nothing_gives_nothing(name, relevance):
    retriever = Retriever(corpus(relevance=relevance), name)
    given = inputs(name, len(QUERIES))
    assert retriever.retrieve_batch(QUERIES, filter={"$id": "nobody"}, **given) == [[]] * len(QUERIES)
    for key in ("seed_filter", "traversal_filter"):
        results = retriever.retrieve_batch(QUERIES, 7, **{key: {"$id": "nobody"}}, **given)
        assert [len(hits) for hits in results] == [7] * len(QUERIES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 5])
def test_nodes_without_edges_are_found(name, size):
    index = GraphIndex.from_texts(["a loom"] * size, embedding=HashEmbedding())
    results = Retriever(index, name).retrieve_batch(["a loom", "the"], 10)
    assert [sorted(hit.id for hit in hits) for hits in results] == [index.graph.ids] * 2


@pytest.mark.parametrize("name", NAMES)
def test_blank_pages_are_neither_returned_nor_start_a_search(name):
    """All pages of two files have the title of their file; every second one has no text, and leads to the next."""
    words = "abcdefghijklmnop" * 2
    texts = [f"Page {place} reads: {word} of the loom." if place % 2 else "  \n" for place, word in enumerate(words)]
    pages = [
        Node(f"p{place}", text, f"report {place // 16}", metadata={"source": f"{place // 16}.pdf", "page": place})
        for place, text in enumerate(texts)
    ]
    nodes = [*pages, Node("entity", "", "Loom", type="entity")]
    index = GraphIndex.from_nodes(nodes, [(f"p{n}", f"p{n + 1}", "next") for n in range(31)], embedding=embed, edge_signals=True)
    retriever, given = Retriever(index, name), inputs(name, 2)
    questions = ["Which page tells of the loom?", "report 1"]
    together = retriever.retrieve_batch(questions, 10, **given)
    told = {f"p{place}" for place in range(1, 32, 2)} | {"entity"}
    for place, (hits, question) in enumerate(zip(together, questions, strict=True)):
        found = [hit.id for hit in hits if hit.kind == "node"]
        assert len(found) == 10 and set(found) <= told
        assert all(hit.path.nodes[0] in told for hit in hits.nodes), "no path starts at one"
        alone = retriever.retrieve(question, 10, **{key: values[place] for key, values in given.items()})
        assert [(hit.id, hit.path.nodes) for hit in hits] == [(hit.id, hit.path.nodes) for hit in alone]
    few, none = {"page": {"$lt": 6}}, {"page": 2}
    for options in ({"filter": few}, {"scope": few}, {"filter": none}, {"scope": none}):
        wanted = {"p1", "p3", "p5"} if few in options.values() else set()
        assert {hit.id for hit in retriever.retrieve(questions[0], 10, **options).nodes} == wanted
        assert {hit.id for hit in retriever.retrieve("", 10, **options)} == wanted


@pytest.mark.parametrize("name", NAMES)
def test_nodes_without_a_vector_give_finite_scores(name):
    nodes, vectors = linked_nodes(), np.eye(12, 8)
    index = GraphIndex.from_nodes(nodes, linked_edges(), vectors=vectors, embedding=lambda texts: [[0.0] * 8 for _ in texts])
    hits = Retriever(index, name).retrieve("punched cards", 10)
    assert len(hits) == 10 and np.isfinite([hit.score for hit in hits]).all()


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int32])
def test_vectors_of_any_number_type_and_layout_are_read(kind):
    table = (np.arange(24).reshape(8, 3) % 5 - 2).astype(kind)
    options = {"edges": [("0", "1")], "bm25": False}
    expected = Retriever(GraphIndex.from_texts(list("abcdefgh"), vectors=table.tolist(), **options), "vector")
    reversed_twice = table[:, ::-1].copy()[:, ::-1]
    for vectors in (table, np.asfortranarray(table), reversed_twice, torch.tensor(table.T.copy()).T):
        retriever = Retriever(GraphIndex.from_texts(list("abcdefgh"), vectors=vectors, **options), "vector")
        query = np.array([1, 2, 0], dtype=kind)
        assert retriever.retrieve("?", vector=query) == expected.retrieve("?", vector=[1.0, 2.0, 0.0])


@pytest.mark.parametrize("name", NAMES)
def test_paths_keep_to_the_filters_of_seeds_and_of_the_walk(name):
    index = corpus()
    retriever = Retriever(index, name, backfill=False)
    begins = {node for node in index.graph.ids if node[0] not in "xb"}
    walked = {node for node in index.graph.ids if node[0] not in "ep"}
    results = retriever.retrieve_batch(
        QUERIES,
        seed_filter=lambda node: node.id in begins,
        traversal_filter=lambda node: node.id in walked,
        **inputs(name, len(QUERIES)),
    )
    paths = [hit.path.nodes for hits in results for hit in hits]
    assert paths
    assert all(set(path[1:]) <= walked for path in paths)
    # PageRank scores nodes by all ways to them at once: a hit's path is the hit alone.
    assert {path[0] for path in paths} <= (begins | walked if name in ("ppr", "walk-fusion", "hipporag", "linear-rag") else begins)
    whole = retriever.retrieve_batch(QUERIES, **inputs(name, len(QUERIES)))
    assert whole != results


@pytest.mark.parametrize("name", NAMES)
def test_every_hit_is_one_of_k_nodes_unless_chains_are_asked_for(name):
    index, given = corpus(), {"plan": PLAN} if name.startswith("mor") else {}
    assert all(hit.kind == "node" for hit in Retriever(index, name).retrieve(QUERIES[1], 3, **given))
    if name.startswith("spreading"):
        hits = on(index, name, chains="hits").retrieve(QUERIES[1], 3)
        assert len(hits.nodes) == 3 and hits.chains and list(hits) == [*hits.nodes, *hits.chains]


@pytest.mark.parametrize("name", NAMES)
def test_ordinary_questions_have_no_notes(name):
    nodes, edges = [*linked_nodes(), *movie_nodes()], [*linked_edges(), *movie_edges()]
    retriever = Retriever(GraphIndex.from_nodes(nodes, edges, embedding=embed, edge_signals=True), name)
    hits = retriever.retrieve_batch([QUERIES[0], QUERIES[1], QUERIES[3], "a machine that breaks a cipher"])
    fallback = dict.fromkeys(RERANKING, ("no relevance model: reranked by the similarity of the vectors",))
    for rewriting, operator in REWRITING.items():
        fallback[rewriting] = (f"{operator}: there is no language model; the question itself was searched",)
    fallback["kar"] = ("KnowledgeAwareExpansion: there is no language model; the texts of neighbours expanded the question",)
    fallback["hybgrag"] = ("hybgrag: there is no language model; texts were searched",)
    fallback["hykge"] = ("hykge: there is no language model; chains join the nodes nearest to the question",)
    untrained = {
        "g-rag": "the network is not trained (pass checkpoint=): "
        "documents are scored by rank, similarity and concepts of the question, without edges",
        "lesegr": "the model is not trained (pass checkpoint=): the score is the product of the sparse and the dense one",
        "subgraph-rag": "the network is not trained (pass checkpoint=): "
        "triples are scored by the similarity of the question to their ends and relations",
        "gnn-rag": "the network is not trained (pass checkpoint=): nodes are ordered by their similarity to the question",
        "mor": "the reranker is not trained (pass checkpoint=): candidates are ordered by similarity",
    }
    fallback |= {each: (note,) for each, note in untrained.items()}
    told = [fallback.get(name, ())] * 4
    if name == "linear-rag":
        told[3] = ("the question has no name that is in the texts: vector search alone (pass entities= or another extractor=)",)
    assert [found.notes for found in hits] == told


@pytest.mark.parametrize("name", NAMES)
def test_a_reranker_without_a_relevance_model_says_once_that_it_falls_back(name, caplog):
    index = new_corpus()
    for _ in range(2):
        Retriever(index, name).retrieve_batch(QUERIES)
    said = [record for record in caplog.records if "falls back to the similarity of the vectors" in record.getMessage()]
    assert len(said) == (name in RERANKING)
    caplog.clear()
    Retriever(corpus(relevance=OVERLAP), name).retrieve_batch(QUERIES)
    assert not any("similarity of the vectors" in record.getMessage() for record in caplog.records)
