"""Path reranking against a literal reference: what the model reads, and how its scores are mixed with the ranks."""

import math
import statistics
import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import GRanker, GraphIndex, PathRerank, PathReranking, Pipeline, Queries, Ranking, Rerank, Retriever, STeX
from graph_retrievers.errors import InvalidArgumentError, InvalidVectorError
from graph_retrievers.graph import CorpusGraph, Edge
from graph_retrievers.operators import Operator, OperatorKind, VectorSearch
from graph_retrievers.operators.path_texts import path_texts
from graph_retrievers.retrievers import FastInsight
from graph_retrievers.signals.relevance import PairScorer

TEXTS = ["Ada knew Babbage.", "He built engines.", "A mill of steam.", "Cards drive looms."]


class Given(Operator):
    """A first search that returns the ranking it was made with."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, ranking):
        self.ranking, self.k = ranking, None

    def rank(self, queries, ranking):
        return self.ranking


def hashed(pairs):
    """Score pairs by their letters; equal texts score alike."""
    return [zlib.crc32(f"{query}|{text}".encode()) % 97 / 10 for query, text in pairs]


def index_of(edges, relevance=None, texts=TEXTS, titles=None):
    count = len(texts)
    graph = CorpusGraph([f"n{row}" for row in range(count)], texts, titles=titles, edges=edges)
    vectors = torch.nn.functional.normalize(torch.randn(count, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    return GraphIndex.from_graph(graph, vectors=vectors, relevance=relevance)


def standardized(values):
    mean, spread = statistics.fmean(values), statistics.pstdev(values)
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
    lists = []
    for _ in range(draw(st.integers(1, 3))):
        nodes = draw(st.permutations(range(count)))[: draw(st.integers(1, count))]
        near = {node: {n for ends, *_ in edges for n in ends if node in ends} - {node} for node in nodes}
        parents = [draw(st.sampled_from([-1, *sorted(near[node])])) for node in nodes]
        relations = [draw(st.integers(-1, 2)) for _ in nodes]
        lists.append((nodes, parents, relations))
    return count, edges, lists, draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])), draw(st.integers(1, 10))


@settings(max_examples=150, deadline=None)
@given(cases())
def test_it_equals_a_literal_reference(case):
    count, edges, lists, weight, depth = case
    texts = [f"text {row}" for row in range(count)]
    edges = [Edge(f"n{a}", f"n{b}", relation, text=told) for (a, b), relation, told in edges]
    index = index_of(edges, PairScorer(hashed), texts, ["" if row % 3 else f"Title {row}" for row in range(count)])
    width = max(len(nodes) for nodes, _, _ in lists)
    pad = lambda row: [*row, *[-1] * (width - len(row))]  # noqa: E731
    nodes = torch.tensor([pad(row) for row, _, _ in lists])
    trails = torch.stack([torch.tensor([pad(row) for _, row, _ in lists]), nodes], 2)
    relations = torch.tensor([pad(row) for _, _, row in lists]).clamp(max=len(index.graph.relation_names) - 1).unsqueeze(2)
    ranking = Ranking.of(nodes, -torch.arange(width).float().expand(nodes.shape), "Given", trails, relations=relations)
    questions = [f"question {b}" for b in range(len(lists))]
    found = Pipeline(Given(ranking), PathRerank(weight, depth=depth))(Queries.of(index, questions))
    for b, (rows, parents, _) in enumerate(lists):
        kinds = relations[b, :, 0].tolist()
        read = [expected_text(index, *each) for each in zip(rows, parents, kinds, strict=False)]
        model = standardized(hashed([(questions[b], text) for text in read[:depth]]))
        ranks = standardized([-math.log(place + 1) for place in range(len(model))])
        mixed = [weight * m + (1 - weight) * r for m, r in zip(model, ranks, strict=True)]
        order = sorted(range(len(mixed)), key=lambda place: (-round(mixed[place], 6), place))
        assert found.nodes[b].tolist() == pad([*(rows[place] for place in order), *rows[depth:]])
        torch.testing.assert_close(found.scores[b, : len(order)].tolist(), [mixed[p] for p in order], rtol=1e-4, atol=1e-5)
        behind = found.scores[b, len(order) : len(rows)].tolist()
        assert behind == [float(found.scores[b, len(order) - 1])] * (len(rows) - len(order))
        alone = Ranking.of(nodes[b : b + 1], ranking.scores[b : b + 1], "Given", trails[b : b + 1], relations=relations[b : b + 1])
        again = Pipeline(Given(alone), PathRerank(weight, depth=depth))(Queries.of(index, [questions[b]]))
        assert again.nodes.tolist() == [found.nodes[b].tolist()] and torch.equal(again.scores[0], found.scores[b])


def test_a_second_passage_is_judged_together_with_the_first():
    both = PairScorer(lambda pairs: [float("Ada" in text and "engines" in text) for _, text in pairs])
    index = index_of([("n0", "n1"), ("n2", "n1")], both)
    scores, trails = torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[[-1, 2], [-1, 0], [0, 1]]])
    first = Ranking.of(torch.tensor([[2, 0, 1]]), scores, "Given", trails)
    queries = Queries.of(index, ["Which engines did Ada's friend build?"])
    assert Pipeline(Given(first), PathRerank(1.0))(queries).nodes.tolist() == [[1, 2, 0]]
    assert Pipeline(Given(first), Rerank())(queries).nodes.tolist() == [[2, 0, 1]]
    # Reached from another passage, the same node is another text, though the queries keep what was computed.
    other = Ranking.of(torch.tensor([[2, 0, 1]]), first.scores, "Given", torch.tensor([[[-1, 2], [-1, 0], [2, 1]]]))
    assert Pipeline(Given(other), PathRerank(1.0))(queries).nodes.tolist() == [[2, 0, 1]]


def test_the_worked_mixture():
    index = index_of([], PairScorer(lambda pairs: [float("mill" in text) for _, text in pairs]))
    first = Ranking.of(torch.tensor([[0, 1, 2]]), torch.tensor([[0.9, 0.5, 0.1]]), "Given")
    found = Pipeline(Given(first), PathRerank(0.5))(Queries.of(index, ["mill"]))
    # z(0, 0, 1) = (-.7071, -.7071, 1.4142); z(0, -ln 2, -ln 3) = (1.3167, -.2114, -1.1053), from mean -.5973 and deviation .4536.
    assert found.nodes.tolist() == [[0, 2, 1]]
    torch.testing.assert_close(found.scores, torch.tensor([[0.3048, 0.1545, -0.4593]]), atol=1e-3, rtol=0)


def test_nodes_behind_the_depth_keep_their_places_and_no_model_is_asked_about_them():
    asked = []
    index = index_of([], PairScorer(lambda pairs: [asked.append(text) or float(len(text)) for _, text in pairs]))
    first = Ranking.of(torch.tensor([[0, 1, 3, 2]]), torch.tensor([[4.0, 3.0, 2.0, 1.0]]), "Given")
    found = Pipeline(Given(first), PathRerank(1.0, depth=2))(Queries.of(index, ["q"]))
    assert found.nodes.tolist() == [[0, 1, 3, 2]] and len(asked) == 2
    assert found.scores[0].diff().max() <= 0


def test_equal_scores_keep_the_order_and_one_candidate_is_fine():
    index = index_of([], PairScorer(lambda pairs: [0.1 for _ in pairs]))
    for rows in ([3, 1, 0], [2]):
        first = Ranking.of(torch.tensor([rows]), -torch.arange(len(rows)).float().unsqueeze(0), "Given")
        found = Pipeline(Given(first), PathRerank(1.0))(Queries.of(index, ["q"]))
        assert found.nodes.tolist() == [rows] and found.scores.tolist() == [[0.0] * len(rows)]
    nothing = Ranking.empty(1, torch.device("cpu"))
    assert Pipeline(Given(nothing), PathRerank())(Queries.of(index, ["q"])).nodes.shape == (1, 0)


def test_a_model_of_its_own_is_asked_in_place_of_that_of_the_index():
    index = index_of([], PairScorer(lambda pairs: [float("mill" in text) for _, text in pairs]))
    first = Given(Ranking.of(torch.tensor([[0, 1, 2, 3]]), torch.tensor([[4.0, 3.0, 2.0, 1.0]]), "Given"))
    looms = PairScorer(lambda pairs: [float("looms" in text) for _, text in pairs])
    queries = Queries.of(index, ["q"])
    both = Pipeline(first, PathRerank(1.0), PathRerank(1.0, model=looms))
    assert both(queries).nodes.tolist() == [[3, 2, 0, 1]]
    assert both.operators[1](queries, both(queries)).nodes.tolist() == [[2, 3, 0, 1]]


def test_without_a_relevance_model_the_vectors_judge_and_that_is_said():
    index = index_of([("n0", "n1")])
    retriever = PathReranking(index, weight=1.0, first=VectorSearch(4))
    hits = retriever.retrieve("q", vector=index.dense.vectors[2].tolist())
    assert [hit.id for hit in hits][0] == "n2" and any("no relevance model" in note for note in hits.notes)
    assert retriever.lacks() == ("a relevance model (pass relevance=)",)
    assert path_texts(index, Ranking.empty(1, torch.device("cpu"))) is None
    owned = Retriever(index, Pipeline(VectorSearch(4), PathRerank(1.0, model=PairScorer(hashed))))
    assert owned.lacks() == () and not owned.retrieve("q", vector=[1.0] + [0.0] * 7).notes


def test_numbers_that_are_not_finite_are_refused_by_name():
    index = index_of([("n0", "n1")], lambda pairs: [0.0 for _ in pairs])
    bad = index.with_models(relevance=_Bad())
    first = Given(Ranking.of(torch.tensor([[0, 1]]), torch.tensor([[1.0, 0.0]]), "Given", torch.tensor([[[-1, 0], [0, 1]]])))
    with pytest.raises(InvalidVectorError, match="'bad' gave nan for node 'n1'"):
        Pipeline(first, PathRerank())(Queries.of(bad, ["q"]))
    for wrong in (-0.1, 1.1, "half"):
        with pytest.raises(InvalidArgumentError, match="weight"):
            PathRerank(wrong)
    with pytest.raises(InvalidArgumentError, match="depth"):
        PathRerank(depth=0)


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
    found = Pipeline(VectorSearch(1), STeX(), GRanker(0.0, paths=True))(queries)
    assert found.nodes[0, 0] == 1 and "He built engines.\nn0 -[knew]-> n1\nAda knew Babbage." in read
    read.clear()
    smoothed = Pipeline(VectorSearch(1), STeX(), GRanker(0.2, paths=True))(queries)
    assert smoothed.nodes[0, 0] == 1 and 0 < smoothed.scores[0, 1] < smoothed.scores[0, 0] < 1
    for paths in (False, True):
        read.clear()
        FastInsight(index, paths=paths, fuse=False, nodes_per_round=1).retrieve("q", vector=index.dense.vectors[0].tolist())
        assert any("n0 -[knew]-> n1" in text for text in read) == paths
