"""G-RAG against the paper's worked numbers, a literal reading on random document graphs, and its degenerate cases."""

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import GRAG, GraphIndex, Pipeline, Retriever
from graph_retrievers.core.driver import run
from graph_retrievers.core.question import Question
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError, MissingSignalError
from graph_retrievers.evaluation.ties import tied_hits, tied_reciprocal_rank
from graph_retrievers.operators import DocumentGraphNetwork, DocumentGraphRerank, EvidenceNetwork, VectorSearch
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.meaning import MeaningGraph
from graph_retrievers.signals.meaning_cache import MeaningCache
from graph_retrievers.systems.grag.document_graph import edge_features, joint_graph, maximal_paths, normalized, path_concepts
from graph_retrievers.systems.grag.evidence import DocumentSet, mean_ranks
from graph_retrievers.systems.grag.model import CHANNELS, EVIDENCE
from graph_retrievers.systems.grag.rerank import Meanings
from tests.rankings import Ranking, lists_of, ranked
from tests.references import grag as reference

WORDS = "question loom card engine brass mill weaver cloth".split()


def words(text):
    """A parser for tests: each word is a concept, each two words in a row are related."""
    concepts = list(dict.fromkeys(word.strip("?:.,") for word in text.lower().split()))
    places = {concept: row for row, concept in enumerate(concepts)}
    listed = [places[word.strip("?:.,")] for word in text.lower().split()]
    return MeaningGraph.of(concepts, [(a, "next", b) for a, b in zip(listed, listed[1:], strict=False)])


# -- worked numbers ---------------------------------------------------------------------------------------------------

TREE = "question cross world-region crucifix number be-located-at country Spain religion Catholicism belief worship".split()
STEPS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (1, 8), (8, 9), (9, 10), (10, 11)]


def test_the_paths_of_the_papers_example():
    graph = MeaningGraph.of(TREE, [(a, "r", b) for a, b in STEPS])
    assert maximal_paths(graph) == [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 8, 9, 10, 11]]
    assert " ".join(path_concepts(graph)) == (
        "question cross world-region crucifix number be-located-at country Spain religion Catholicism belief worship"
    )


def test_paths_start_at_the_first_question_and_follow_directions():
    graph = MeaningGraph.of(["loom", "question", "card", "question"], [(0, "r", 1), (1, "r", 2), (3, "r", 0)])
    assert maximal_paths(graph) == [[1, 2]]
    assert maximal_paths(MeaningGraph.of(["loom"], [])) == []
    assert path_concepts(MeaningGraph.of(["loom", "card"], [(0, "r", 1)])) == []
    alone = MeaningGraph.of(["question", "loom"], [(1, "r", 0)])
    assert maximal_paths(alone) == [[0]]


def test_of_equally_short_paths_the_one_over_the_lower_node_counts():
    graph = MeaningGraph.of(["question", "b", "a", "end"], [(0, "r", 2), (0, "r", 1), (2, "r", 3), (1, "r", 3)])
    assert maximal_paths(graph) == [[0, 2], [0, 1, 3]]


def test_self_loops_and_circles_end():
    graph = MeaningGraph.of(["question", "a", "b"], [(0, "r", 0), (0, "r", 1), (1, "r", 2), (2, "r", 0)])
    assert maximal_paths(graph) == [[0, 1, 2]]


EDGES = torch.tensor([[0.0, 3, 1], [3, 0, 2], [1, 2, 0]]).unsqueeze(-1)


def test_the_normalisations():
    found = normalized(EDGES)[..., 0]
    assert found[0].tolist() == pytest.approx([0, 0.5294, 0.3846], abs=1e-4)
    assert found.sum(1).tolist() == pytest.approx([0.914, 1.258, 0.828], abs=1e-3)
    assert found.sum(0).tolist() == pytest.approx([1, 1, 1])
    found = normalized(EDGES, "doubly-stochastic")[..., 0]
    assert found[0].tolist() == pytest.approx([0.4932, 0.1538, 0.3529], abs=1e-4)
    assert found.sum(0).tolist() == pytest.approx([1, 1, 1]) == found.sum(1).tolist()
    for name in ("row-column", "doubly-stochastic"):
        assert normalized(torch.zeros(3, 3, 2), name).abs().sum() == 0
    with pytest.raises(InvalidArgumentError, match="normalization"):
        normalized(EDGES, "symmetric")


def test_each_label_counts_once_and_relations_by_labels_and_role():
    a = MeaningGraph.of(["person", "name", "person"], [(0, "name", 1), (2, "name", 1), (0, "mod", 2)])
    b = MeaningGraph.of(["name", "person"], [(1, "name", 0), (1, "mod", 1)])
    c = MeaningGraph.of(["name", "person"], [(1, "op1", 0), (0, "name", 1)])
    found = edge_features([a, b, c])
    assert found[0, 1].tolist() == [2, 2]
    assert found[0, 2].tolist() == [2, 0]
    assert found.diagonal().abs().sum() == 0


def test_tied_metrics():
    ids = list("abcdefg")
    first = tied_reciprocal_rank(ids, [90, 80, 80, 80, 50, 50, 20], ["b", "e"])
    assert first == pytest.approx(17 / 66)
    assert (first + tied_reciprocal_rank(["x", "y", "z"], [3, 2, 1], ["z"])) / 2 == pytest.approx(13 / 44)
    for above, ties, expected in [
        (8, 5, 2 / 5),
        (8, 2, 1),
        (1, 2, 1),
        (10, 3, 0),
        (10, 1, 0),
        (11, 1, 0),
        (0, 20, 1 / 2),
        (0, 10, 1),
    ]:
        scores = [2.0] * above + [1.0] * ties + [0.0]
        assert tied_hits([str(i) for i in range(len(scores))], scores, [str(above)]) == pytest.approx(expected)


def test_the_pairs_that_share_concepts_are_those_of_question_and_document_together():
    question = MeaningGraph.of(["question", "loom"], [(0, "mod", 1)])
    documents = [MeaningGraph.of(["card"], []), MeaningGraph.of(["loom", "card"], [(0, "next", 1)]), MeaningGraph()]
    found = DocumentSet(question, documents)
    # question, loom and card; question -> loom
    assert found.shared[0, 1].tolist() == [3, 1]
    assert found.connected.tolist() == [True, True, False]
    assert found.paths == ["question loom", "question loom card", ""]
    assert joint_graph(question, documents[1]).concepts == ("question", "loom", "card")


# -- the literal reading ----------------------------------------------------------------------------------------------


@st.composite
def graphs(draw):
    """Meaning graphs with repeated labels, self loops, circles, long chains and hubs."""
    size = draw(st.integers(0, 9))
    concepts = draw(st.lists(st.sampled_from(WORDS), min_size=size, max_size=size))
    shape = draw(st.sampled_from(["random", "chain", "hub"]))
    pairs = {"chain": [(i, i + 1) for i in range(size - 1)], "hub": [(0, i) for i in range(1, size)]}.get(shape, [])
    if shape == "random" and size:
        node = st.integers(0, size - 1)
        pairs = draw(st.lists(st.tuples(node, node), max_size=14))
    roles = draw(st.lists(st.sampled_from(["mod", "next"]), min_size=len(pairs), max_size=len(pairs)))
    return MeaningGraph.of(concepts, [(a, role, b) for (a, b), role in zip(pairs, roles, strict=True)])


@settings(max_examples=150)
@given(graphs())
def test_paths_equal_the_literal_ones(graph):
    expected, _ = reference.paths(list(graph.concepts), graph.relations)
    assert maximal_paths(graph) == expected


@pytest.mark.slow
@settings(max_examples=80)
@given(graphs(), st.lists(graphs(), min_size=1, max_size=6))
def test_evidence_equals_the_literal_one(question, documents):
    found = DocumentSet(question, documents)
    pairs = reference.edge_features([(g.concepts, g.relations) for g in found.graphs])
    assert found.shared.tolist() == pairs
    coverage, lead, mentions = reference.evidence(question.concepts, [list(g.concepts) for g in documents])
    assert found.coverage.tolist() == pytest.approx(coverage, abs=1e-5)
    assert found.lead.tolist() == pytest.approx(lead, abs=1e-5)
    channels = found.pair_evidence(CHANNELS[:4])
    n = range(len(documents))
    for channel, expected in (
        (0, reference.row_column([[pairs[i][j][0] for j in n] for i in n])),
        (1, reference.row_column([[pairs[i][j][1] for j in n] for i in n])),
        (2, reference.by_row(mentions)),
        (3, reference.by_row([[mentions[u][v] for u in n] for v in n])),
    ):
        for row, wanted in zip(channels[..., channel].tolist(), expected, strict=True):
            assert row == pytest.approx(wanted, abs=1e-5)


def plain(linear):
    return linear.weight.tolist(), (linear.bias if linear.bias is not None else torch.zeros(linear.out_features)).tolist()


@settings(max_examples=30)
@given(st.integers(1, 7), st.integers(1, 3), st.integers(0, 1000))
def test_the_network_equals_the_literal_one(n, layers, seed):
    torch.manual_seed(seed)
    counts = torch.randint(0, 3, (n, n, 2)).float()
    edges = normalized((counts + counts.transpose(0, 1)) * (1 - torch.eye(n)).unsqueeze(-1))
    network = DocumentGraphNetwork(4, hidden=3, layers=layers).eval()
    x, query = torch.randn(n, 4), torch.randn(4)
    expected = reference.gcn(
        x.tolist(),
        edges.tolist(),
        query.tolist(),
        [(*plain(conv.own), plain(conv.heard[0])[0]) for conv in network.convs],
        [(*plain(conv.own), plain(conv.heard[0])[0]) for conv in network.edge_convs],
    )
    assert network(x, edges, query).tolist() == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_the_evidence_network_worked_by_hand():
    network = EvidenceNetwork(hidden=1, channels=("leads-in",), evidence=("coverage",)).eval()
    with torch.no_grad():
        for parameter, value in zip(network.parameters(), (2.0, 1.0, 3.0, 5.0, 0.5, 7.0, 1.0), strict=True):
            parameter.fill_(value)
    # h = relu(2 x + 1 + 3 E x) with E[0, 1] = 0.5; s = 5 h + 0.5 + 7 E h + x
    x, edges = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0, 0.5], [0.0, 0.0]]).unsqueeze(-1)
    h0, h1 = 2 + 1 + 3 * 0.5 * 2, 4 + 1
    assert network(x, edges).tolist() == pytest.approx([5 * h0 + 0.5 + 7 * 0.5 * h1 + 1, 5 * h1 + 0.5 + 2])


# -- order does not matter --------------------------------------------------------------------------------------------

TEXTS = [" ".join(random.Random(seed).sample(WORDS[1:], 4)) for seed in range(9)]


def index_of(texts, **options):
    generator = torch.Generator().manual_seed(len(texts))
    vectors = torch.randn(len(texts), 3, generator=generator)
    return GraphIndex.from_texts(list(texts), vectors=vectors, embedding=embed, **options)


def embed(texts):
    return [[len(text), sum(map(ord, text)) % 7, 1.0] for text in texts]


def networks():
    torch.manual_seed(1)
    yield from (DocumentGraphNetwork(3, layer, hidden=8) for layer in ("gcn", "gat", "sage", "gin", "none"))
    for channels in (CHANNELS, CHANNELS[:4]):
        network = EvidenceNetwork(channels=channels)
        torch.nn.init.normal_(network.last.own.weight)
        for linear in network.last.heard:
            torch.nn.init.normal_(linear.weight)
        yield network


@pytest.mark.parametrize("network", list(networks()), ids=lambda n: getattr(n, "layer", n.kind))
def test_a_permuted_list_gets_equal_scores(network):
    # Edges, for the channel "links"; more than one text has none.
    edges = [("0", "1"), ("2", "1"), ("1", "5"), ("7", "3")]
    index, operator = index_of(TEXTS, edges=edges), DocumentGraphRerank(network, parser=words)
    queries = Queries.of(index, ["which loom has a card"], vectors=[[1.0, 0.5, 0.0]])
    given = torch.linspace(1, 0, 9)
    first = ranked(operator, queries, Ranking.of(torch.arange(9).unsqueeze(0), given.unsqueeze(0), "x"))
    order = torch.tensor(random.Random(3).sample(range(9), 9))
    second = ranked(operator, queries, Ranking.of(order.unsqueeze(0), given[order].unsqueeze(0), "x"))
    scores = [dict(zip(r.nodes[0].tolist(), r.scores[0].tolist(), strict=True)) for r in (first, second)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-4, abs=1e-5)
    assert len({round(score, 4) for score in scores[0].values()}) > 3


def test_links_are_the_edges_of_the_index_in_both_directions_by_row():
    network = EvidenceNetwork(channels=("leads-in", "links"))
    operator, ranking = DocumentGraphRerank(network, parser=words), Ranking.of(torch.tensor([[2, 0, 1, 3]]), torch.zeros(1, 4), "x")
    some = [("0", "1"), ("2", "1", "cites"), ("1", "2"), ("3", "3"), ("5", "0")]
    for edges, expected in ((some, [[0, 0, 1, 0], [0, 0, 1, 0], [0.5, 0.5, 0, 0], [0] * 4]), ([], [[0] * 4] * 4)):
        queries = Queries.of(index_of(TEXTS, edges=edges), ["which loom"], vectors=[[1.0, 0.0, 0.0]])
        (head,) = lists_of(ranking)
        (documents,) = Meanings.together(MemoryBackend(queries), [(0, Meanings(operator, head.nodes))])
        (inputs,) = run(MemoryBackend(queries), [operator.inputs(Question(MemoryBackend(queries), 0), head, documents)])
        found = inputs.arguments[1]
        assert found.shape == (4, 4, 2) and found[..., 1].tolist() == expected
    # A document set by itself knows of none.
    assert not documents.pair_evidence(("links",)).any()


def test_a_batch_gives_what_its_queries_give_one_by_one():
    index = index_of(TEXTS)
    retriever = Retriever(index, Pipeline(VectorSearch(9), DocumentGraphRerank(parser=words)))
    questions, vectors = ["which loom", "a brass engine", "cloth of a weaver"], torch.eye(3)
    together = retriever.retrieve_batch(questions, vectors=vectors)
    for question, vector, hits in zip(questions, vectors, together, strict=True):
        assert [(h.id, h.score) for h in retriever.retrieve(question, vector=vector)] == [(h.id, h.score) for h in hits]


def test_mean_ranks_of_ties():
    assert mean_ranks(torch.tensor([0.3, 0.9, 0.3, 0.1])).tolist() == [2.5, 1.0, 2.5, 4.0]
    assert mean_ranks(torch.zeros(0)).tolist() == []
    rounded = torch.tensor([0.3, 0.9, 0.3 + 3e-8, 0.1, 0.9 - 6e-8, float("inf"), 0.8999])
    assert mean_ranks(rounded).tolist() == [5.5, 2.5, 5.5, 7.0, 2.5, 1.0, 4.0]


# -- documents without evidence ---------------------------------------------------------------------------------------


WORDS_ONLY = EvidenceNetwork(evidence=("coverage",), graph=False)


def reranked(texts, parser=words, scores=None, network=None, **options):
    index = index_of(texts)
    queries = Queries.of(index, ["which loom has a card"], vectors=[[0.0, 0.0, 1.0]])
    scores = torch.linspace(1, 0, len(texts)) if scores is None else torch.tensor(scores)
    given = Ranking.of(torch.arange(len(texts)).unsqueeze(0), scores.unsqueeze(0), "x")
    return ranked(DocumentGraphRerank(network, parser=parser, **options), queries, given)


def test_documents_that_cannot_be_parsed_keep_their_places():
    def parser(text):
        if text in ("torn", "broken"):
            return MeaningGraph()
        if text == "wild":
            raise RuntimeError("no parse")
        return words(text)

    found = reranked(["torn", "mill brass", "loom card", "wild", "loom"], parser, network=WORDS_ONLY)
    assert found.nodes[0].tolist() == [0, 2, 4, 3, 1]
    scores = found.scores[0].tolist()
    assert scores[0] == scores[1] and scores[2] == scores[3], "the score of the document above, or of the first that moved"
    assert scores == sorted(scores, reverse=True)
    assert found.notes[0] == ("2 of the documents could not be parsed and keep their places",)


def test_a_list_of_one_or_none_and_documents_that_share_nothing():
    assert reranked(["loom card"]).scores[0].tolist() == [1.0]
    nothing = reranked(["torn", "broken"], lambda text: MeaningGraph())
    assert nothing.nodes[0].tolist() == [0, 1] and nothing.scores[0].tolist() == [1.0, 0.0]
    apart = reranked(["loom card", "mill"], lambda text: MeaningGraph() if text.startswith("question") else words(text))
    assert apart.nodes[0].tolist() == [0, 1] and apart.scores[0].tolist() == [1.0, 0.0]
    index = index_of(TEXTS)
    queries = Queries.of(index, ["which loom"], vectors=[[1.0, 0, 0]])
    empty = ranked(DocumentGraphRerank(parser=words), queries, Ranking.empty(1, index.device))
    assert empty.nodes.shape[1] == 0


def test_pads_and_lists_of_other_lengths():
    index = index_of(TEXTS)
    queries = Queries.of(index, ["which loom has a card", "brass mill"], vectors=[[1.0, 0, 0], [0, 1.0, 0]])
    nodes = torch.tensor([[0, 1, 2, 3], [4, 5, -1, -1]])
    ranking = ranked(DocumentGraphRerank(parser=words), queries, Ranking.of(nodes, torch.zeros(2, 4), "x"))
    assert sorted(ranking.nodes[0].tolist()) == [0, 1, 2, 3]
    assert sorted(ranking.nodes[1, :2].tolist()) == [4, 5] and ranking.nodes[1, 2:].tolist() == [-1, -1]
    assert torch.isinf(ranking.scores[1, 2:]).all()


def test_nodes_behind_the_depth_keep_their_places():
    found = reranked(["mill brass", "loom card", "loom card which", "card loom has"], depth=2, network=WORDS_ONLY)
    assert found.nodes[0].tolist() == [1, 0, 2, 3]
    assert found.scores[0].tolist()[1:] == [found.scores[0, 1].item()] * 3


def test_ranks_count_by_scores_not_by_order():
    network = EvidenceNetwork(evidence=("rank",), graph=False)
    assert reranked(["loom a", "card b", "mill c"], scores=[0.1, 0.2, 0.3], network=network).nodes[0].tolist() == [2, 1, 0]
    tied = reranked(["loom a", "card b", "mill c"], scores=[0.5, 0.5, 0.5], network=network)
    assert tied.nodes[0].tolist() == [0, 1, 2] and tied.scores[0].tolist() == pytest.approx([-math.log(2)] * 3)


# -- what is given together -------------------------------------------------------------------------------------------


def test_question_and_document_parsed_as_one_text():
    seen = []

    def parser(text):
        seen.append(text)
        return words(text)

    network = DocumentGraphNetwork(3, paths=False)
    found = reranked(["loom card", "mill"], parser, network=network, together=True)
    assert "question:which loom has a cardloom card" in seen
    assert sorted(found.nodes[0].tolist()) == [0, 1]
    with pytest.raises(InvalidArgumentError, match="parsed apart"):
        DocumentGraphRerank(EvidenceNetwork(), together=True)


def test_the_paths_are_embedded_behind_the_text():
    asked = []

    def remember(texts):
        asked.extend(texts)
        return embed(texts)

    index = GraphIndex.from_texts(["loom card", "mill"], vectors=torch.eye(2, 3), embedding=remember)
    queries = Queries.of(index, ["loom?"], vectors=[[1.0, 0, 0]])
    given = Ranking.of(torch.tensor([[0, 1]]), torch.zeros(1, 2), "x")
    ranked(DocumentGraphRerank(DocumentGraphNetwork(3), parser=words), queries, given)
    assert asked == ["loom card question loom card", "mill question loom"]
    asked.clear()
    ranked(DocumentGraphRerank(DocumentGraphNetwork(3, paths=False), parser=words), queries, given)
    assert not asked, "the index has the vectors"


@pytest.mark.slow
def test_scores_never_rise():
    generator = torch.Generator().manual_seed(0)
    texts = [" ".join(random.Random(n).choices(WORDS[1:], k=5)) for n in range(300)]
    for network in networks():
        scores = reranked(texts, scores=torch.rand(300, generator=generator).tolist(), network=network, depth=300).scores[0]
        assert bool((scores.diff() <= 0).all())
    with pytest.raises(InvalidArgumentError, match="score NaN"):
        reranked(["loom card", "mill"], scores=[torch.nan, 1.0])
    infinite = reranked(["loom card", "mill", "loom"], scores=[1.0, -torch.inf, 0.5], network=WORDS_ONLY)
    assert bool(torch.isfinite(infinite.scores).all()), "a score of -inf is not a pad"


def test_a_network_that_gives_nan_is_an_error():
    network = EvidenceNetwork()
    torch.nn.init.constant_(network.skip.weight, torch.nan)
    with pytest.raises(InvalidVectorError, match="gave NaN or infinity for 'which loom has a card'"):
        reranked(["loom card", "loom"], network=network)


def test_a_network_in_training_mode_drops_nothing():
    network = EvidenceNetwork(dropout=0.9)
    torch.nn.init.normal_(network.last.own.weight)
    operator = DocumentGraphRerank(network, parser=words)
    index = index_of(TEXTS)
    queries = Queries.of(index, ["which loom"], vectors=[[1.0, 0, 0]])
    given = Ranking.of(torch.arange(9).unsqueeze(0), torch.zeros(1, 9), "x")
    first = ranked(operator, queries, given).scores
    network.train()
    assert torch.equal(ranked(operator, queries, given).scores, first)


def test_a_question_that_cannot_be_parsed_is_noted():
    found = reranked(["loom card", "loom mill"], lambda text: MeaningGraph() if text.startswith("question") else words(text))
    assert found.notes[0] == ("the question could not be parsed: its concepts count for nothing",)


@pytest.mark.parametrize("first", ["vector", "bm25", "hybrid"])
def test_the_first_search_finds_as_many_as_are_reranked_whatever_k_is(first):
    index = index_of(TEXTS)
    few, many = (
        [
            hit.id
            for hit in Retriever(index, GRAG(first=first, parser=words, depth=6)).retrieve("loom card mill", k, vector=[1.0, 0, 0])
        ]
        for k in (2, 6)
    )
    assert few == many[:2]
    assert len(Retriever(index, GRAG(first=first, parser=words, depth=2)).retrieve("loom card mill", 5, vector=[1.0, 0, 0])) == 5


def test_errors_say_what_is_missing():
    with pytest.raises(InvalidArgumentError, match="expected an EvidenceNetwork or a DocumentGraphNetwork"):
        DocumentGraphRerank("net")
    with pytest.raises(DimensionMismatchError, match="for vectors of 5 dimensions, got 3"):
        reranked(["loom card", "loom"], network=DocumentGraphNetwork(5))
    bare = GraphIndex.from_texts(["loom card", "loom"], vectors=torch.eye(2))
    queries = Queries.of(bare, ["loom"], vectors=[[1.0, 0]])
    with pytest.raises(MissingSignalError, match="no embedding model"):
        ranked(
            DocumentGraphRerank(DocumentGraphNetwork(2), parser=words),
            queries,
            Ranking.of(torch.tensor([[0, 1]]), torch.zeros(1, 2), "x"),
        )
    for wrong in (
        {"hidden": 0},
        {"dropout": 1.0},
        {"dropout": "x"},
        {"evidence": ()},
        {"evidence": ("age",)},
        {"channels": ("x",)},
        {"evidence": None},
        {"channels": "leads-in"},
    ):
        with pytest.raises(InvalidArgumentError):
            EvidenceNetwork(**wrong)
    for wrong in (
        {"layer": "lstm"},
        {"layers": 0},
        {"layers": 10**9},
        {"layer": "gat", "hidden": 6, "heads": 4},
        {"normalization": "no"},
    ):
        with pytest.raises(InvalidArgumentError):
            DocumentGraphNetwork(4, **wrong)
    assert EVIDENCE == ("similarity", "rank", "coverage", "lead")


def test_each_text_is_parsed_once():
    seen = []

    def parser(text):
        seen.append(text)
        return words(text)

    cache = MeaningCache(parser)
    retriever = Retriever(index_of(TEXTS), Pipeline(VectorSearch(9), DocumentGraphRerank(parser=cache)))
    for question in ("which loom", "which card"):
        retriever.retrieve(question, vector=[1.0, 0, 0])
    assert len(seen) == len(set(seen)) == len(set(TEXTS)) + 2
