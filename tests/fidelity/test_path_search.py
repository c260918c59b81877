"""PathSearch and MetapathSearch against literal references in plain Python, on random graphs and by hand."""

import math

import numpy as np
import pytest
import torch

from graph_retrievers import GraphIndex, Node, Pipeline, Retriever
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.operators import BM25Search, EntityLinking, HybridSearch, MetapathSearch, PathSearch, VectorSearch
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.signal import Signal
from graph_retrievers.systems.walk_fusion.metapath_search import metapaths
from tests.rankings import Ranking, ranked

WORDS = "loom card film drama valve cipher census cloth paper river ferry harbour winter".split()


def random_index(seed, bm25=True, dense=True):
    """A random graph with isolated nodes, a hub, a chain and parallel edges; a few nodes without text or vector."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 40))
    texts = [" ".join(rng.choice(WORDS, int(rng.integers(0, 8)))) for _ in range(size)]
    pairs = [tuple(map(int, pair)) for pair in rng.integers(0, size, (int(rng.integers(0, 2 * size)), 2))]
    pairs += [(0, i) for i in range(1, size, 2)] + [(i, i + 1) for i in range(size // 2)]
    vectors = rng.normal(size=(size, 5)) * rng.uniform(0.5, 2, (size, 1)) * (rng.random((size, 1)) < 0.9)
    nodes = [Node(f"n{i}", text) for i, text in enumerate(texts)]
    edges = [(f"n{a}", f"n{b}") for a, b in pairs]
    vectors = {"vectors": vectors} if dense else {}
    index = GraphIndex.from_nodes(nodes, edges, bm25=bm25, **vectors)
    neighbors = [set() for _ in range(size)]
    for a, b in pairs:
        if a != b:
            neighbors[a].add(b)
            neighbors[b].add(a)
    return index, neighbors, rng


def expected_scores(index, neighbors, question, vector, ranked, seeds, share):
    """The equations of PathSearch, a node and a pair at a time: S, and z of each node alone and with each linked seed."""
    bm25, terms = index.signals.get("bm25"), []
    if bm25 is not None:
        tables = {}
        for word in bm25.tokenize([question])[0]:
            if word in bm25.vocabulary:
                term = bm25.vocabulary[word]
                low, high = int(bm25.indptr[term]), int(bm25.indptr[term + 1])
                tables[word] = dict(zip(bm25.rows[low:high].tolist(), bm25.data[low:high].tolist(), strict=True))
                terms.append(tables[word])

    def lexical(nodes):
        return sum(max(term.get(node, 0.0) for node in nodes) for term in terms)

    def dense(nodes):
        return max(float(vector @ index.dense.vectors[node].double().numpy()) for node in nodes)

    begun = ranked[:seeds]
    candidates = sorted({*ranked, *(v for u in begun for v in neighbors[u])})
    scales = []
    if "dense" in index.signals and candidates:
        similarities = sorted((dense([v]) for v in candidates), reverse=True)
        # Of fewer than a hundred candidates.
        scales.append((dense, min(similarities[-1], similarities[-1] * len(candidates) / 100), similarities[0]))
    if "bm25" in index.signals and candidates:
        scales.append((lexical, 0, max(lexical([v]) for v in candidates)))

    def z(*nodes):
        total = 0
        for part, low, high in scales:
            if high > low:
                total += max(0, (part(nodes) - low) / (high - low))
            elif high != 0 and part(nodes) >= low:
                total += 1
        return total

    if share is None:
        degrees = [len(neighbors[v]) for v in ranked if neighbors[v]] or [0]
        share = 1 / math.sqrt(1 + sum(degrees) / len(degrees))
    pairs = {v: [(z(u, v), -place, u) for place, u in enumerate(begun) if v in neighbors[u]] for v in candidates}
    scores = {v: (1 - share) * z(v) + share * max([z(v), *(pair[0] for pair in pairs[v])]) for v in candidates}
    return scores, {v: (z(v), {u: together for together, _, u in pairs[v]}) for v in candidates}


@pytest.mark.parametrize("seed", range(60))
def test_paths_equal_the_equations_on_random_graphs(seed):
    index, neighbors, rng = random_index(seed, bm25=seed % 5 != 1, dense=seed % 5 != 2)
    seeds, share = int(rng.integers(1, 5)), float(rng.choice([0.0, 0.3, 0.5, 1.0]))
    share = None if seed % 4 == 3 else share
    questions = [" ".join(rng.choice(WORDS, 4)) for _ in range(3)]
    given = {"vectors": rng.normal(size=(3, 5))} if index.has_dense else {}
    queries = Queries.of(index, questions, **given)
    first = rng.permutation(len(index))[: int(rng.integers(0, len(index)))].tolist()
    before = Ranking.of(torch.tensor([first] * 3).reshape(3, -1), torch.arange(len(first), 0.0, -1).expand(3, -1), "First")
    found = ranked(PathSearch(seeds, share=share), queries, before)
    for b, question in enumerate(questions):
        vector = given["vectors"][b] if given else None
        scores, pairs = expected_scores(index, neighbors, question, vector, first, seeds, share)
        nodes = [node for node in found.nodes[b].tolist() if node >= 0]
        assert sorted(nodes) == sorted(scores)
        assert found.scores[b][: len(nodes)].tolist() == pytest.approx([scores[n] for n in nodes], abs=2e-5)
        assert all(x >= y for x, y in zip(found.scores[b].tolist(), found.scores[b].tolist()[1:], strict=False))
        for node, trail in zip(nodes, found.trails[b].tolist(), strict=False):
            alone, led = pairs[node]
            walked, best = [row for row in trail if row >= 0], max(led.values(), default=0.0)
            if walked != [node]:
                assert walked[1:] == [node] and led[walked[0]] == pytest.approx(best, abs=1e-5)
                assert node not in first or (best > alone and first.index(walked[0]) < first.index(node))
            else:
                near = [u for u, z in led.items() if z > best - 1e-5 and z > alone + 1e-5]
                assert node in first and not all(first.index(u) < first.index(node) for u in near or [node])


def test_a_neighbour_completes_what_its_seed_answers():
    # BM25 of one word each: together the two texts hold both words of the question, the repeated one only once.
    index = GraphIndex.from_texts(
        ["kismet loom", "lund loom", "kismet paper", "river ferry"], edges=[("0", "1"), ("0", "2"), ("0", "3")]
    )
    queries = Queries.of(index, ["kismet lund"])
    terms = index.bm25.term_scores(["kismet lund"], torch.tensor([0, 0, 0]), torch.tensor([0, 1, 2]))
    rows = torch.stack([torch.maximum(terms[0], terms[other]).sum() for other in (1, 2, 0)])
    kismet, lund = (
        index.bm25.scores([word], torch.tensor([0]), torch.tensor([row])).item() for word, row in (("kismet", 0), ("lund", 1))
    )
    assert rows.tolist() == pytest.approx([kismet + lund, kismet, kismet])
    seeds = Ranking.of(torch.tensor([[0]]), torch.tensor([[1.0]]), "Seeds")
    found = ranked(PathSearch(), queries, seeds)
    z = {0: kismet / lund, 1: (lund + (kismet + lund)) / 2 / lund, 2: kismet / lund, 3: kismet / lund / 2}
    assert dict(zip(found.nodes[0].tolist(), found.scores[0].tolist(), strict=True)) == pytest.approx(z)
    assert found.nodes[0].tolist() == [1, 0, 2, 3], "ties to the lower row"


class Store(Signal):
    """A lexical signal that gives scores only."""

    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def search(self, queries, k, allowed=None):
        return self.inner.search(queries, k, allowed)

    def scores(self, queries, batch, rows):
        return self.inner.scores(queries, batch, rows)

    def state(self):
        return {}, {}

    @classmethod
    def restore(cls, tensors, settings, device=None):
        raise NotImplementedError

    def to(self, device):
        return self


def test_a_seed_that_helps_by_rounding_alone_leads_nowhere():
    # The similarities of 0 and 1 differ in their last bit.
    for vectors in ([[1.0000001], [1.0], [0.5]], [[1.0], [1.0000001], [0.5]]):
        index = GraphIndex.from_texts(["a", "b", "c"], vectors=vectors, edges=[("0", "1"), ("0", "2"), ("1", "2")], bm25=False)
        hits = Retriever(index, Pipeline(VectorSearch(2), PathSearch(seeds=2)), backfill=False).retrieve("?", vector=[1.0])
        assert [hit.path.text for hit in hits] == ["0", "1", "0 -> 2"]


def test_a_signal_that_gives_scores_only_counts_as_the_better_of_two():
    graph = CorpusGraph(["0", "1"], ["kismet loom", "lund loom"], edges=[("0", "1")])
    store = Store(BM25(graph.contents()))
    both = store.term_scores(["kismet lund loom"], torch.tensor([0, 0]), torch.tensor([0, 1])).amax(0)
    one = store.scores(["kismet lund loom"], torch.tensor([0, 0]), torch.tensor([0, 1]))
    assert both.tolist() == [one.max().item()]
    found = Retriever(GraphIndex(graph, {"bm25": store}), Pipeline(BM25Search(), PathSearch())).retrieve("kismet")
    assert [hit.id for hit in found] == ["0", "1"]


def test_filters_bound_seeds_and_steps():
    index = GraphIndex.from_texts(["kismet loom", "lund", "ferry"], edges=[("0", "1"), ("1", "2")])
    retriever = Retriever(index, Pipeline(BM25Search(1, returned=False), PathSearch()), backfill=False)
    assert [hit.id for hit in retriever.retrieve("kismet", traversal_filter={"$id": {"$ne": "1"}})] == ["0"]
    assert [hit.id for hit in retriever.retrieve("kismet", filter={"$id": "1"}, seed_filter={})] == ["1"]
    assert list(retriever.retrieve("nothing")) == []


@pytest.mark.parametrize("first", [VectorSearch(3), HybridSearch(3), BM25Search(3)])
def test_a_batch_is_its_queries_one_by_one(first):
    index, _, rng = random_index(11)
    retriever = Retriever(index, Pipeline(first, PathSearch(2)), backfill=False)
    questions, vectors = [" ".join(rng.choice(WORDS, 3)) for _ in range(5)], rng.normal(size=(5, 5))
    together = retriever.retrieve_batch(questions, vectors=vectors)
    for question, vector, hits in zip(questions, vectors, together, strict=True):
        assert [(h.id, h.path) for h in hits] == [(h.id, h.path) for h in retriever.retrieve(question, vector=vector)]


@pytest.mark.parametrize("options", [{"seeds": 0}, {"share": 1.5}, {"share": -0.1}, {"k": 0}])
def test_bad_options_of_paths(options):
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        PathSearch(**options)


# Metapaths

TYPES, RELATIONS = ["movie", "person", "genre"], ["starred_actors", "directed_by", "has_genre", ""]
TEXTS = {}


def embed(texts):
    """Random unit vectors, the same for the same text."""
    rows = []
    for text in texts:
        seed = TEXTS.setdefault(text, len(TEXTS))
        row = np.random.default_rng(1000 + seed).normal(size=6)
        rows.append(row / np.linalg.norm(row))
    return np.array(rows)


def typed_index(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 25))
    nodes = [Node(f"n{i}", "", f"Name{i}", str(rng.choice(TYPES))) for i in range(size)]
    rows = [(int(a), int(b), str(rng.choice(RELATIONS))) for a, b in rng.integers(0, size, (int(rng.integers(1, 2 * size)), 2))]
    rows += [(0, i, "directed_by") for i in range(1, size, 2)]
    return GraphIndex.from_nodes(nodes, [(f"n{a}", f"n{b}", r) for a, b, r in rows], embedding=embed), nodes, rows, rng


def expected_metapaths(nodes, rows, question, seeds, length, temperature):
    """The equation of MetapathSearch, a metapath at a time."""
    steps = {(nodes[a].type, r, nodes[b].type) for a, b, r in rows} | {(nodes[b].type, r, nodes[a].type) for a, b, r in rows}
    query, scores = embed([question])[0], {}
    for start, strength in seeds:
        paths, ends = [], [(nodes[start].type,)]
        for _ in range(length):
            ends = [(*path, r, far) for path in ends for near, r, far in sorted(steps) if near == path[-1]]
            paths += ends
        if not paths:
            continue
        likeness = [float(query @ embed([" ".join(" ".join(path).replace("_", " ").split())])[0]) for path in paths]
        for path, like in zip(paths, likeness, strict=True):
            weight = math.exp((like - max(likeness)) / temperature)
            reached = {start}
            for relation, kind in zip(path[1::2], path[2::2], strict=True):
                near = reached
                reached = {b for a, b, r in rows if a in near and r == relation and nodes[b].type == kind}
                reached |= {a for a, b, r in rows if b in near and r == relation and nodes[a].type == kind}
                reached -= {start}
            for node in reached if weight >= 0.01 else ():
                scores[node] = scores.get(node, 0.0) + strength * weight / len(reached)
    return scores


@pytest.mark.parametrize("seed", range(40))
def test_metapaths_equal_the_equation_on_random_graphs(seed):
    index, nodes, rows, rng = typed_index(seed)
    length, temperature = int(rng.integers(1, 4)), float(rng.choice([0.03, 0.3, 2.0]))
    seeds = list(zip(rng.permutation(len(nodes))[:2].tolist(), [1.0, 0.5], strict=False))
    question = "who made it"
    before = Ranking.of(torch.tensor([[s for s, _ in seeds]]), torch.tensor([[x for _, x in seeds]]), "Seeds")
    search = MetapathSearch(length=length, temperature=temperature, limit=10_000)
    found = ranked(search, Queries.of(index, [question]), before)
    expected = expected_metapaths(nodes, rows, question, seeds, length, temperature)
    held = [node for node in found.nodes[0].tolist() if node >= 0]
    assert sorted(held) == sorted(expected)
    assert found.scores[0][: len(held)].tolist() == pytest.approx([expected[n] for n in held], rel=1e-3)
    for trail, steps in zip(found.trails[0].tolist(), found.relations[0].tolist(), strict=True):
        walked, taken = [n for n in trail if n >= 0], [r for r in steps if r >= 0]
        if walked:
            assert walked[0] in [s for s, _ in seeds] and len(taken) == len(walked) - 1
            for a, b, r in zip(walked, walked[1:], taken, strict=False):
                name = index.graph.relation_names[r]
                assert (a, b, name) in rows or (b, a, name) in rows


def films():
    nodes = [Node("m", "", "Kismet", "movie"), Node("a", "", "Ada Holm", "person"), Node("d", "", "Cleo Marsh", "person")]
    nodes += [Node("o", "", "Orlok", "movie"), Node("b", "", "Bo Lind", "person")]
    edges = [("m", "a", "starred_actors"), ("m", "d", "directed_by"), ("o", "a", "starred_actors"), ("o", "b", "directed_by")]
    return nodes, edges


def counting(texts):
    """Vectors of the words "director" or "directed", "star..." and "movie"; and of how many words there are."""
    return [[text.count("direct") + 0.01, text.count("star"), text.count("movie"), 0.1 * len(text.split())] for text in texts]


def test_metapaths_by_hand():
    nodes, edges = films()
    index = GraphIndex.from_nodes(nodes, edges, embedding=counting)
    assert [str(path) for path in metapaths(index.graph, "movie", 1)] == [
        "movie -[directed_by]- person",
        "movie -[starred_actors]- person",
    ]
    assert [len(metapaths(index.graph, "movie", n)) for n in (1, 2, 3)] == [2, 6, 14]
    assert len(metapaths(index.graph, "movie", 3, limit=13)) == 6, "whole lengths are left out"
    assert metapaths(index.graph, "person", 3, limit=1) == [] == metapaths(index.graph, "unknown")
    retriever = Retriever(index, Pipeline(EntityLinking(), MetapathSearch()), backfill=False)
    best = retriever.retrieve("Who directed the movie Kismet?")[0]
    assert (best.id, best.path.relations, best.operator) == ("d", ("directed_by",), "MetapathSearch")
    other = retriever.retrieve("Who directed the movie with a star of the movie Kismet?")[0]
    assert (other.id, other.path.text) == (
        "b",
        "Kismet -[starred_actors]-> Ada Holm <-[starred_actors]- Orlok -[directed_by]-> Bo Lind",
    )


def test_names_are_left_out_of_the_question():
    asked = []

    def recorded(texts):
        asked.extend(texts)
        return counting(texts)

    nodes, edges = films()
    index = GraphIndex.from_nodes([*nodes, Node("ada", "", "Ada", "person")], edges, embedding=recorded)
    retriever = Retriever(index, Pipeline(EntityLinking(), MetapathSearch()), backfill=False)
    for question in ("Who  directed KISMET, or Orlok?", "Orlok", "Kismets?"):
        retriever.retrieve(question)
    retriever.retrieve("Who directed Ada Holm?", entities=["Ada", "Ada Holm"])
    assert "Who directed , or ?" in asked and "Orlok" in asked and "" not in asked
    assert "Who directed ?" in asked and "Who directed Holm?" not in asked, "the longest name first"
    assert "movie directed by person starred actors movie" in asked
    before = len(asked)
    retriever.retrieve("Who directed Orlok?")
    assert "movie directed by person" not in asked[before:], "metapaths are embedded once"


def test_metapaths_need_an_embedding_model_and_named_nodes():
    nodes, edges = films()
    vectors = np.eye(5, 4) + 0.1
    bare = GraphIndex.from_nodes(nodes, edges, vectors=vectors)
    with pytest.raises(MissingSignalError, match="embedding"):
        Retriever(bare, Pipeline(EntityLinking(), MetapathSearch())).retrieve("Who directed Kismet?", vector=vectors[0])
    index = GraphIndex.from_nodes(nodes, edges, embedding=counting)
    assert (
        len(Retriever(index, Pipeline(EntityLinking(budget=0), MetapathSearch()), backfill=False).retrieve("Who directed it?")) == 0
    )
    shut = Retriever(index, Pipeline(EntityLinking(), MetapathSearch()), backfill=False)
    assert [h.id for h in shut.retrieve("Who directed Kismet?", traversal_filter={"type": "movie"})] == []
    with pytest.raises(InvalidArgumentError, match="temperature"):
        MetapathSearch(temperature=0)


def test_a_walk_that_reads_too_many_edges_is_cut_short_with_a_note(monkeypatch):
    monkeypatch.setattr("graph_retrievers.systems.walk_fusion.metapath_search._MOST_EDGES", 1)
    nodes = [Node("m", "", "Kismet", "movie"), *(Node(f"p{i}", "", f"Person{i}", "person") for i in range(700))]
    edges = [("m", f"p{i}", "starred_actors") for i in range(700)]
    index = GraphIndex.from_nodes(nodes, edges, embedding=counting)
    hits = Retriever(index, Pipeline(EntityLinking(), MetapathSearch()), backfill=False).retrieve("Who starred in Kismet?")
    assert any("cut short after 1 edges" in note for note in hits.notes)


def test_the_hundredth_similarity_counts_as_none():
    for count, least in ((150, 51.0), (100, 1.0), (99, 0.99), (50, 0.5)):
        vectors = [[float(count - row)] for row in range(count)]
        index = GraphIndex.from_texts(["loom"] * count, vectors=vectors)
        paths = Pipeline(HybridSearch(count), PathSearch(share=0))
        hits = Retriever(index, paths, backfill=False).retrieve("card", vector=[1.0], k=count)
        expected = [max(0.0, (count - row - least) / (count - least)) for row in range(count)]
        assert [hit.score for hit in hits] == pytest.approx(expected, abs=1e-6)
