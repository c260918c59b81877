"""Path reranking against a literal reference: what the model reads, and how its scores are mixed with the ranks."""

import math
import statistics
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import GraphIndex, PathReranking, Pipeline, Retriever
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.requests import Relevance
from graph_retrievers.errors import InvalidArgumentError, InvalidVectorError
from graph_retrievers.graph import CorpusGraph, Edge
from graph_retrievers.operators import GRanker, Operator, OperatorKind, PathRerank, Rerank, STeX, VectorSearch
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.path_texts import path_texts
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.signals.models import PairScorer
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.systems import FastInsight
from graph_retrievers.systems.path_reranking.path_rerank import mixed_with_ranks
from tests.rankings import Ranking, lists_of, ranked

TEXTS = ["Ada knew Babbage.", "He built engines.", "A mill of steam.", "Cards drive looms."]


PARTS = ("nodes", "scores", "trails", "origins", "relations")


class Given(Operator):
    """A first search that returns the ranking it was made with."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, ranking):
        self.ranking, self.k = ranking, None

    def search(self, question, candidates):
        yield from ()
        return lists_of(self.ranking)[question.place]


def hashed(pairs):
    """Score pairs by their letters; equal texts score alike."""
    return [zlib.crc32(f"{query}|{text}".encode()) % 97 / 10 for query, text in pairs]


def index_of(edges, relevance=None, texts=TEXTS, titles=None):
    count = len(texts)
    graph = CorpusGraph([f"n{row}" for row in range(count)], texts, titles=titles, edges=edges)
    vectors = torch.nn.functional.normalize(torch.randn(count, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    return GraphIndex.from_graph(graph, vectors=vectors, relevance=relevance)


def standardized(values):
    mean, spread = (statistics.fmean(values), statistics.pstdev(values)) if values else (0.0, 0.0)
    return [(value - mean) / spread if spread > 1e-9 else 0.0 for value in values]


def expected_text(index, node, parent, relation):
    """Return what is read of a node by the words of the documentation."""
    graph = index.graph
    if parent < 0:
        return graph.content(node)
    rows = [
        row
        for row, ends in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
        if set(ends) == {parent, node}
    ]
    named = [row for row in rows if int(graph.relations[row]) == relation]
    row = (named or rows)[0]
    name = lambda n: graph.titles[n] or graph.ids[n]  # noqa: E731
    label, ahead = graph.relation_names[graph.relations[row]], int(graph.sources[row]) == parent
    told = graph.edge_texts[row] if graph.edge_texts else ""
    line = f"-[{label}]-" if label else "-"
    step = f"{name(parent)} {line}> {name(node)}" if ahead else f"{name(parent)} <{line} {name(node)}"
    return "\n".join(part for part in (graph.content(node), step, told, graph.content(parent)) if part)


@st.composite
def cases(draw):
    count = draw(st.integers(2, 9))
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda ends: ends[0] != ends[1])
    kinds, told = st.sampled_from(["", "cites", "extends"]), st.sampled_from(["", "as shown"])
    edges = draw(st.lists(st.tuples(pair, kinds, told), max_size=14, unique_by=lambda edge: (frozenset(edge[0]), edge[1])))
    near = [sorted({n for ends, *_ in edges for n in ends if node in ends} - {node}) for node in range(count)]
    lists = []
    for _ in range(draw(st.integers(1, 3))):
        nodes = draw(st.permutations(range(count)))[: draw(st.integers(1, count))]
        parents = [draw(st.sampled_from([-1, *near[node]])) for node in nodes]
        before = [draw(st.sampled_from([-1, *near[parent]])) if parent >= 0 else -1 for parent in parents]
        lists.append((nodes, parents, before, [draw(st.integers(-1, 2)) for _ in nodes]))
    allowed = draw(st.none() | st.sets(st.integers(0, count - 1)))
    return count, edges, lists, allowed, draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])), draw(st.integers(1, 10))


@pytest.mark.slow
@settings(max_examples=200)
@given(cases())
def test_it_equals_a_literal_reference(case):
    count, edges, lists, allowed, weight, depth = case
    texts = [f"text {row}" for row in range(count)]
    edges = [Edge(f"n{a}", f"n{b}", relation, text=told) for (a, b), relation, told in edges]
    index = index_of(edges, PairScorer(hashed), texts, ["" if row % 3 else f"Title {row}" for row in range(count)])
    width = max(len(nodes) for nodes, *_ in lists)
    pad = lambda row: [*row, *[-1] * (width - len(row))]  # noqa: E731
    nodes, parents, before, last = (torch.tensor([pad(parts[n]) for parts in lists]) for n in range(4))
    trails, last = torch.stack([before, parents, nodes], 2), last.clamp(max=len(index.graph.relation_names) - 1)
    # The relation of the step before the last is another one.
    relations = torch.stack([(last + 1).clamp(max=len(index.graph.relation_names) - 1), last], 2)
    ranking = Ranking.of(nodes, -torch.arange(width).float().expand(nodes.shape), "Given", trails, relations=relations)
    questions = [f"question {b}" for b in range(len(lists))]
    mask = None if allowed is None else torch.tensor([row in allowed for row in range(count)])
    found = ranked(Pipeline(Given(ranking), PathRerank(weight, depth=depth)), Queries.of(index, questions, filter=mask))
    for b, (rows, above, _, _) in enumerate(lists):
        alone = replace(ranking, **{name: getattr(ranking, name)[b : b + 1] for name in PARTS})
        again = ranked(Pipeline(Given(alone), PathRerank(weight, depth=depth)), Queries.of(index, [questions[b]], filter=mask))
        assert pad(again.nodes[0].tolist()) == found.nodes[b].tolist()
        assert torch.equal(again.scores[0], found.scores[b, : again.width])
        if weight == 0:
            assert found.nodes[b].tolist() == pad(rows) and torch.equal(found.scores[b], ranking.scores[b])
            continue
        moved = [place for place, row in enumerate(rows) if allowed is None or row in allowed][:depth]
        kinds = last[b].tolist()
        read = [expected_text(index, rows[place], above[place], kinds[place]) for place in moved]
        model = standardized(hashed([(questions[b], text) for text in read]))
        ranks = standardized([-math.log(place + 1) for place in range(len(moved))])
        mixed = [weight * m + (1 - weight) * r for m, r in zip(model, ranks, strict=True)]
        order = sorted(range(len(mixed)), key=lambda n: (-round(mixed[n], 6), n))
        expected = pad(rows)
        for place, best in zip(moved, order, strict=True):
            expected[place] = rows[moved[best]]
        assert found.nodes[b].tolist() == expected
        scores = found.scores[b].tolist()
        torch.testing.assert_close([scores[place] for place in moved], [mixed[n] for n in order], rtol=1e-4, atol=1e-5)
        assert scores[: len(rows)] == sorted(scores[: len(rows)], reverse=True)
        assert scores[len(rows) :] == [-math.inf] * (width - len(rows))
        assert moved == [] or scores[moved[-1] + 1 : len(rows)] == [scores[moved[-1]]] * (len(rows) - moved[-1] - 1)


def test_a_second_passage_is_judged_together_with_the_first():
    both = PairScorer(lambda pairs: [float("Ada" in text and "engines" in text) for _, text in pairs])
    index = index_of([("n0", "n1"), ("n2", "n1")], both)
    scores, trails = torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[[-1, 2], [-1, 0], [0, 1]]])
    first = Ranking.of(torch.tensor([[2, 0, 1]]), scores, "Given", trails)
    queries = Queries.of(index, ["Which engines did Ada's friend build?"])
    assert ranked(Pipeline(Given(first), PathRerank(1.0)), queries).nodes.tolist() == [[1, 2, 0]]
    assert ranked(Pipeline(Given(first), Rerank()), queries).nodes.tolist() == [[2, 0, 1]]
    # Reached from another passage, the same node is another text, though the queries keep what was computed.
    other = Ranking.of(torch.tensor([[2, 0, 1]]), first.scores, "Given", torch.tensor([[[-1, 2], [-1, 0], [2, 1]]]))
    assert ranked(Pipeline(Given(other), PathRerank(1.0)), queries).nodes.tolist() == [[2, 0, 1]]


def test_the_worked_mixture():
    index = index_of([], PairScorer(lambda pairs: [float("mill" in text) for _, text in pairs]))
    first = Ranking.of(torch.tensor([[0, 1, 2]]), torch.tensor([[0.9, 0.5, 0.1]]), "Given")
    found = ranked(Pipeline(Given(first), PathRerank(0.5)), Queries.of(index, ["mill"]))
    # z(0, 0, 1) = (-.7071, -.7071, 1.4142); z(0, -ln 2, -ln 3) = (1.3167, -.2114, -1.1053), from mean -.5973 and deviation .4536.
    assert found.nodes.tolist() == [[0, 2, 1]]
    torch.testing.assert_close(found.scores, torch.tensor([[0.3048, 0.1545, -0.4593]]), atol=1e-3, rtol=0)


def test_nodes_behind_the_depth_keep_their_places_and_no_model_is_asked_about_them():
    asked = []
    index = index_of([], PairScorer(lambda pairs: [asked.append(text) or float(len(text)) for _, text in pairs]))
    first = Ranking.of(torch.tensor([[0, 1, 3, 2]]), torch.tensor([[4.0, 3.0, 2.0, 1.0]]), "Given")
    found = ranked(Pipeline(Given(first), PathRerank(1.0, depth=2)), Queries.of(index, ["q"]))
    assert found.nodes.tolist() == [[0, 1, 3, 2]] and len(asked) == 2
    assert found.scores[0].diff().max() <= 0


def test_equal_scores_keep_the_order_and_one_candidate_is_fine():
    index = index_of([], PairScorer(lambda pairs: [0.1 for _ in pairs]))
    for rows in ([3, 1, 0], [2]):
        first = Ranking.of(torch.tensor([rows]), -torch.arange(len(rows)).float().unsqueeze(0), "Given")
        found = ranked(Pipeline(Given(first), PathRerank(1.0)), Queries.of(index, ["q"]))
        assert found.nodes.tolist() == [rows] and found.scores.tolist() == [[0.0] * len(rows)]
    nothing = Ranking.empty(1, torch.device("cpu"))
    assert ranked(Pipeline(Given(nothing), PathRerank()), Queries.of(index, ["q"])).nodes.shape == (1, 0)


def test_a_model_of_its_own_is_asked_in_place_of_that_of_the_index():
    index = index_of([], PairScorer(lambda pairs: [float("mill" in text) for _, text in pairs]))
    first = Given(Ranking.of(torch.tensor([[0, 1, 2, 3]]), torch.tensor([[4.0, 3.0, 2.0, 1.0]]), "Given"))
    looms = PairScorer(lambda pairs: [float("looms" in text) for _, text in pairs])
    queries = Queries.of(index, ["q"])
    both = Pipeline(first, PathRerank(1.0), PathRerank(1.0, model=looms))
    assert ranked(both, queries).nodes.tolist() == [[3, 2, 0, 1]]
    assert ranked(both.operators[1], queries, ranked(both, queries)).nodes.tolist() == [[2, 3, 0, 1]]


def test_without_a_relevance_model_the_vectors_judge_and_that_is_said():
    index = index_of([("n0", "n1")])
    retriever = Retriever(index, PathReranking(weight=1.0, first=VectorSearch(4)))
    hits = retriever.retrieve("q", vector=index.dense.vectors[2].tolist())
    assert [hit.id for hit in hits][0] == "n2" and any("no relevance model" in note for note in hits.notes)
    assert retriever.lacks() == ("a relevance model (pass relevance=)",)
    owned = Retriever(index, Pipeline(VectorSearch(4), PathRerank(1.0, model=PairScorer(hashed))))
    assert owned.lacks() == () and not owned.retrieve("q", vector=[1.0] + [0.0] * 7).notes


def test_numbers_that_are_not_finite_are_refused_by_name():
    index = index_of([("n0", "n1")], lambda pairs: [0.0 for _ in pairs])
    bad = index.with_models(relevance=_Bad())
    first = Given(Ranking.of(torch.tensor([[0, 1]]), torch.tensor([[1.0, 0.0]]), "Given", torch.tensor([[[-1, 0], [0, 1]]])))
    with pytest.raises(InvalidVectorError, match="'bad' gave nan for node 'n1'"):
        ranked(Pipeline(first, PathRerank()), Queries.of(bad, ["q"]))
    with pytest.raises(InvalidVectorError, match="'bad' gave nan for node 'n1'"):
        ranked(Pipeline(first, GRanker(paths=True)), Queries.of(bad, ["q"]))
    # The node is named beside others that were read before.
    memory = MemoryBackend(Queries.of(bad, ["q"]))
    memory.relevance([(0, Relevance(np.array([0]), texts=TEXTS[:1]))])
    with pytest.raises(InvalidVectorError, match="'bad' gave nan for node 'n1'"):
        memory.relevance([(0, Relevance(np.array([0, 1]), texts=TEXTS[:2]))])
    for wrong in (-0.1, 1.1, "half"):
        with pytest.raises(InvalidArgumentError, match="weight"):
            PathRerank(wrong)
    with pytest.raises(InvalidArgumentError, match="depth"):
        PathRerank(depth=0)


def test_what_rounding_leaves_of_equal_scores_is_not_a_difference():
    equal = torch.tensor([0.3, 0.3 + 2e-8, 0.3], dtype=torch.float64)
    for scale in (1.0, 1e9, 1e-9):
        assert mixed_with_ranks(scale * equal, 1.0).tolist() == [0.0, 0.0, 0.0]
        assert mixed_with_ranks(scale * torch.tensor([0.0, 2.0]), 1.0).tolist() == pytest.approx([-1.0, 1.0])


def test_nodes_that_may_not_be_returned_take_no_place_of_the_depth():
    kinds = ["entity"] * 8 + ["passage"] * 4
    edges = [("n0", f"n{row}") for row in range(1, 12)]
    graph = CorpusGraph([f"n{row}" for row in range(12)], [f"loom {row}" for row in range(12)], edges=edges, types=kinds)
    vectors = torch.nn.functional.normalize(torch.tensor([[1.0, 0.01 * row] for row in range(12)]), dim=1)
    read = []

    def by_number(pairs):
        read.extend(text.split("\n")[0] for _, text in pairs)
        return [float(text.split("\n")[0].split()[-1]) for _, text in pairs]

    index = GraphIndex.from_graph(graph, vectors=vectors, bm25=True, relevance=by_number)
    for options in ({"types": ["passage"]}, {}):
        read.clear()
        retriever = Retriever(index, PathReranking(weight=1.0, depth=8), **options)
        hits = retriever.retrieve("loom", k=4, vector=[1.0, 0.0], filter=None if options else {"$type": "passage"})
        assert [hit.id for hit in hits] == ["n11", "n10", "n9", "n8"] and len(read) == 4


def test_a_text_is_read_once_and_counted():
    asked = []
    lengths = PairScorer(lambda pairs: [asked.append(text) or float(len(text)) for _, text in pairs])
    index = index_of([("n0", "n1")], lengths)
    first = Given(Ranking.of(torch.tensor([[0, 1, 1], [0, 1, -1]])[:, :2], torch.tensor([[2.0, 1.0]] * 2), "Given"))
    queries = Queries.of(index, ["q", "r"])
    ranked(Pipeline(first, PathRerank(), PathRerank(0.3), GRanker(paths=True)), queries)
    assert len(asked) == 4 == queries.latents.encoded
    ranked(PathRerank(model=PairScorer(lambda pairs: [1.0 for _ in pairs])), queries, first.ranking)
    assert len(asked) == 4 and queries.latents.encoded == 8
    asked.clear()
    ranked(PathRerank(0.0), queries, first.ranking)
    assert not asked


def test_a_model_is_never_asked_about_nothing():
    class Strict(RelevanceModel):
        name = "strict"

        def encode(self, queries, texts):
            return torch.stack([torch.tensor([float(len(text))]) for text in texts])

        def score(self, latent):
            return latent[..., 0]

    index = index_of([("n0", "n1"), ("n1", "n2")], Strict())
    retriever = Retriever(index, FastInsight(paths=True, nodes_per_round=1))
    assert len(retriever.retrieve("q", vector=index.dense.vectors[0].tolist())) == 4
    twice = Pipeline(VectorSearch(3), PathRerank(), PathRerank())
    assert ranked(twice, Queries.of(index, ["q"], vectors=index.dense.vectors[:1])).nodes.shape == (1, 3)
    none = Ranking.of(torch.zeros((0, 3), dtype=torch.int64), torch.zeros(0, 3), "x")
    assert len(ranked(PathRerank(), Queries.of(index, []), none)) == 0


def test_similarity_as_the_model_of_its_own_is_not_what_another_model_computed():
    index = index_of([], PairScorer(lambda pairs: [float("Cards" in text) for _, text in pairs]))
    queries = Queries.of(index, ["q"], vectors=index.dense.vectors[2:3])
    ranking = ranked(Pipeline(VectorSearch(4), Rerank()), queries)
    assert ranking.nodes[0, 0] == 3 and ranked(PathRerank(1.0, model=BiEncoder()), queries, ranking).nodes[0, 0] == 2


def test_a_step_that_a_name_joins_is_told_by_it():
    texts = ["It stars Ada Holm.", "In Lund, Ada Holm went to school."]
    index = GraphIndex.from_texts(texts, titles=["Kismet", ""], relevance=PairScorer(hashed))
    unnamed = replace(Candidates.seeds(np.array([1]), np.zeros(1), "x"), trails=np.array([[0, 1]]))
    named = replace(unnamed, relations=np.array([[-2]]))
    assert path_texts(index.graph, named) == [f'{texts[1]}\nKismet -["Ada Holm"]- 1\nKismet. {texts[0]}']
    assert path_texts(index.graph, unnamed) == [texts[1]]
    edges = [Edge("0", "0", "of", text="told elsewhere")]
    other = GraphIndex.from_graph(CorpusGraph(["0", "1"], texts, edges=edges), relevance=PairScorer(hashed))
    assert path_texts(other.graph, named) == [f'{texts[1]}\n0 -["Ada Holm"]- 1\n{texts[0]}'], "no edge, no text of an edge"


def test_a_step_that_neither_an_edge_nor_a_name_joins_is_not_told():
    index = index_of([("n0", "n1", "knew")], PairScorer(hashed))
    walked = replace(Candidates.seeds(np.array([3, 1]), np.zeros(2), "x"), trails=np.array([[0, 3], [0, 1]]))
    for found in (index, index_of([], PairScorer(hashed))):
        texts = path_texts(found.graph, walked)
        assert texts[0] == TEXTS[3] and ("knew" in texts[1]) == (found is index)


def test_it_says_what_it_does_and_what_its_first_search_lacks():
    assert repr(PathRerank()) == "PathRerank(weight=0.5, depth=30)"
    index = index_of([("n0", "n1")], PairScorer(hashed))
    assert Retriever(index, PathReranking(first="lesegr")).lacks() == ("a trained model (pass checkpoint=)",)
    # As many nodes as are reranked are found, whatever is asked for.
    best = index.with_models(relevance=PairScorer(lambda pairs: [float("Cards" in text) for _, text in pairs]))
    hits = Retriever(best, PathReranking(first="vector", weight=1.0, depth=4)).retrieve(
        "q", k=1, vector=index.dense.vectors[0].tolist()
    )
    assert [hit.id for hit in hits] == ["n3"]
    for wrong in ({"k": 0}, {"depth": -1}):
        with pytest.raises(InvalidArgumentError):
            PathRerank(**wrong)


class _Bad(PairScorer):
    name = "bad"

    def __init__(self):
        pass

    def encode(self, queries, texts):
        return torch.tensor([[math.nan if "engines" in text.split("\n")[0] else 1.0] for text in texts])


def test_granker_and_fastinsight_can_read_paths():
    read = []

    def scores(pairs):
        read.extend(text for _, text in pairs)
        return [float("Ada" in text and "engines" in text) for _, text in pairs]

    index = index_of([("n0", "n1", "knew")], PairScorer(scores))
    queries = Queries.of(index, ["q"], vectors=index.dense.vectors[:1])
    found = ranked(Pipeline(VectorSearch(1), STeX(), GRanker(0.0, paths=True)), queries)
    assert found.nodes[0, 0] == 1 and "He built engines.\nn0 -[knew]-> n1\nAda knew Babbage." in read
    read.clear()
    smoothed = ranked(Pipeline(VectorSearch(1), STeX(), GRanker(0.2, paths=True)), queries)
    assert smoothed.nodes[0, 0] == 1 and 0 < smoothed.scores[0, 1] < smoothed.scores[0, 0] < 1
    for paths in (False, True):
        read.clear()
        Retriever(index, FastInsight(paths=paths, nodes_per_round=1)).retrieve("q", vector=index.dense.vectors[0].tolist())
        assert any("n0 -[knew]-> n1" in text for text in read) == paths
