"""KG2RAG against its expansion and trees written out, and a worked example."""

import random
import zlib

import pytest

from graph_retrievers import KG2RAG, GraphIndex, Node, Retriever
from tests.references import kg2rag as reference

COSINES = [(1.0, 0.0), (0.8, 0.6), (0.6, 0.8), (0.0, 1.0)]


def value(text):
    return zlib.crc32(text.encode()) % 5


def index_of(types, rows, vectors, relevance=lambda pairs: [value(text) for _, text in pairs]):
    nodes = [Node(f"n{row}", f"Text {row}", f"N{row}", kind) for row, kind in enumerate(types)]
    edges = [(f"n{a}", f"n{b}", "r") for a, b in rows]
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine", bm25=False, relevance=relevance)


def found(index, **settings):
    return Retriever(index, KG2RAG(**settings), k=99, backfill=False).retrieve("?", vector=[1.0, 0.0])


def check(kinds, seed, cases):
    rng = random.Random(seed)
    for _ in range(cases):
        size = rng.randrange(2, 12)
        types = [rng.choice(kinds) for _ in range(size)]
        if len(kinds) > 1:
            types[:2] = ["passage", "thing"]
        rows = [(rng.randrange(size), rng.randrange(size)) for _ in range(rng.randrange(3 * size))]
        vectors = [rng.choice(COSINES) for _ in range(size)]
        similarity, most, hops = [vector[0] for vector in vectors], rng.randrange(1, 4), rng.randrange(3)
        candidates, judged = rng.choice([1, 3, 5, 100]), rng.random() < 0.7
        chunks = [row for row, kind in enumerate(types) if kind == "passage" or len(kinds) == 1]
        seeds = sorted(chunks, key=lambda row: (-similarity[row], row))[:most]

        def relevance(numbers, rows=rows):
            return value(". ".join(f"N{rows[n][0]} r N{rows[n][1]}" for n in numbers))

        expected = reference.retrieve(seeds, rows, types, similarity, relevance if judged else None, hops, candidates)
        model = {} if judged else {"relevance": None}
        hits = found(index_of(types, rows, vectors, **model), seeds=most, hops=hops, candidates=candidates)
        assert [int(hit.id[1:]) for hit in hits] == expected
        edges = {frozenset(pair) for pair in rows}
        for hit in hits:
            path = [int(node[1:]) for node in hit.path.nodes]
            assert path[0] in seeds and all(frozenset(step) in edges for step in zip(path, path[1:], strict=False))


@pytest.mark.parametrize("kinds", [["thing", "passage", "passage"], ["page"]])
def test_chunks_as_written_out(kinds):
    check(kinds, 0, 60)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [["thing", "passage", "passage"], ["page"]])
def test_chunks_as_written_out_in_a_thousand_graphs(kinds):
    check(kinds, 1, 1000)


def test_worked_example():
    # Chunks 0 to 3; entities 4 to 7. Facts 4-5 (chunks 0 and 1), 5-6 (chunk 2). Chunk 0 is more similar than chunk 1, so the tree
    # has the fact 4-5 of chunk 0 alone; chunk 1 comes behind. Chunk 3 is reached by no fact of the seed.
    types = ["passage"] * 4 + ["thing"] * 4
    rows = [(0, 4), (0, 5), (1, 4), (1, 5), (2, 5), (2, 6), (3, 7), (4, 5), (5, 6)]
    vectors = [(1.0, 0.0), (0.6, 0.8), (0.0, 1.0), (0.8, 0.6), *[(0.0, 1.0)] * 4]
    hits = found(index_of(types, rows, vectors), seeds=1)
    assert [(hit.id, round(hit.score, 3), hit.path.nodes) for hit in hits] == [
        ("n0", 1.0, ("n0",)),
        ("n2", 0.5, ("n0", "n5", "n2")),
        ("n1", 0.333, ("n0", "n4", "n1")),
    ]


def test_trees_are_in_the_order_of_the_relevance_of_their_facts():
    types = ["passage", "passage", *["thing"] * 4]
    rows = [(0, 2), (0, 3), (1, 4), (1, 5), (2, 3), (4, 5)]
    vectors = [(1.0, 0.0), (0.8, 0.6), *[(0.0, 1.0)] * 4]
    for wanted, first in (("N2 r N3", "n0"), ("N4 r N5", "n1")):
        index = index_of(types, rows, vectors, lambda pairs, wanted=wanted: [float(text == wanted) for _, text in pairs])
        assert found(index, seeds=2)[0].id == first
    # Without a model that reads texts, by the most similar chunk.
    assert [hit.id for hit in found(index_of(types, rows, vectors, None), seeds=2)] == ["n0", "n1"]
    # The first tree has a fact of chunk 0, the least similar, too; the most similar chunk 2 counts.
    types, rows = ["passage"] * 3 + ["thing"] * 5, [(0, 3), (0, 4), (1, 6), (1, 7), (2, 4), (2, 5), (3, 4), (4, 5), (6, 7)]
    vectors = [(0.6, 0.8), (0.8, 0.6), (1.0, 0.0), *[(0.0, 1.0)] * 5]
    assert [hit.id for hit in found(index_of(types, rows, vectors, None), seeds=3)] == ["n2", "n0", "n1"]


def test_candidates_are_the_chunks_found_before_and_then_the_most_similar_ones():
    types = ["passage"] * 4 + ["thing"]
    rows = [(0, 4), (1, 4), (2, 4), (3, 4)]
    vectors = [(1.0, 0.0), (0.0, 1.0), (0.6, 0.8), (0.8, 0.6), (0.0, 1.0)]
    for candidates, expected in ((1, ["n0"]), (2, ["n0", "n3"]), (3, ["n0", "n3", "n2"]), (4, ["n0", "n3", "n2", "n1"])):
        hits = found(index_of(types, rows, vectors), seeds=1, candidates=candidates)
        assert [hit.id for hit in hits] == expected
        told = f"kg2rag: of 4 chunks, the {candidates} most similar to the question were read"
        assert hits.notes == ((told,) if candidates < 4 else ())
    # A chunk that may be no seed is more similar, and has no place before those found.
    retriever = Retriever(index_of(types, rows, vectors), KG2RAG(seeds=1, candidates=1), backfill=False)
    hits = retriever.retrieve("?", vector=[1.0, 0.0], filter={}, seed_filter={"$id": "n2"})
    assert [hit.id for hit in hits] == ["n2"]
    # Fewer than vector search finds leave these.
    assert [hit.id for hit in found(index_of(types, rows, vectors), seeds=2, candidates=1)] == ["n0", "n3"]


def test_facts_of_a_tree_are_judged_in_the_order_of_the_graph_and_read_by_one_request():
    # Two trees: the facts 3-4 of chunk 0 and 4-5 of chunk 1, of which the second is heavier; and 6-7 of chunk 2.
    types = ["passage"] * 3 + ["thing"] * 5
    rows = [(0, 3), (0, 4), (1, 4), (1, 5), (2, 6), (2, 7), (3, 4), (4, 5), (6, 7)]
    vectors = [(0.8, 0.6), (1.0, 0.0), (0.6, 0.8), *[(0.0, 1.0)] * 5]
    judged = []

    def relevance(pairs):
        judged.extend(text for _, text in pairs)
        return [float(len(text)) for _, text in pairs]

    hits = found(index_of(types, rows, vectors, relevance), seeds=3)
    assert judged == ["N3 r N4. N4 r N5", "N6 r N7"] and [hit.id for hit in hits] == ["n1", "n0", "n2"]
    assert [asked.request.__name__ for asked in hits.trace].count("EdgeTexts") == 1


def test_seeds_need_not_pass_the_filter_of_the_result():
    index = index_of(["thing"] * 2, [(0, 1)], [(1.0, 0.0), (0.0, 1.0)])
    retriever = Retriever(index, KG2RAG(seeds=1), backfill=False)
    hits = retriever.retrieve("?", vector=[1.0, 0.0], filter={"$id": "n1"}, seed_filter={"$id": "n0"})
    assert [hit.path.nodes for hit in hits] == [("n0", "n1")]


def test_a_batch_is_its_questions_one_by_one():
    rng = random.Random(4)
    rows = [(rng.randrange(9), rng.randrange(9)) for _ in range(14)]
    retriever = Retriever(
        index_of(["thing", "passage", "passage"] * 3, rows, [rng.choice(COSINES) for _ in range(9)]), KG2RAG(seeds=2)
    )
    vectors = [[1.0, 0.0], [0.0, 1.0]]
    batch = [[(hit.id, hit.score) for hit in hits] for hits in retriever.retrieve_batch(["a", "b"], vectors=vectors)]
    assert batch == [
        [(hit.id, hit.score) for hit in retriever.retrieve(question, vector=vector)]
        for question, vector in zip("ab", vectors, strict=True)
    ]
