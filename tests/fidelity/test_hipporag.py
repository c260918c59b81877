"""HippoRAG 2 against its public code's rules: worked cases, and random graphs against a literal reference."""

import json

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graph_retrievers import GraphIndex, Node, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.graph.description import NO_EDGES_NOTE
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.systems.hipporag import passage_walk
from graph_retrievers.systems.hipporag.fact_linking import FactLinking
from graph_retrievers.systems.hipporag.passage_walk import PassageWalk, synonyms
from graph_retrievers.systems.hipporag.retriever import HippoRAG
from graph_retrievers.systems.pagerank import TransitionGraph, personalized_pagerank
from tests.accelerator import Accelerator
from tests.helpers import HashEmbedding
from tests.rankings import Ranking, ranked
from tests.references import hipporag as reference

QUERY = [1.0, 0.0]


def index_of(types, edges, node_scores, edge_scores=None, titles=None, embedding=None):
    """An index whose nodes and edges have given dot products with QUERY; node n of type "" is a phrase, "p" a passage."""
    ids, kinds = [f"n{row}" for row in range(len(types))], ["passage" if kind == "p" else "phrase" for kind in types]
    graph = CorpusGraph.from_nodes(
        [Node(node, "", titles[row] if titles else "", kinds[row]) for row, node in enumerate(ids)],
        [(ids[a], ids[b], "r") for a, b, *_ in edges],
    )
    if edges:
        graph.weights = torch.tensor([float(weight[0]) if weight else 1.0 for _, _, *weight in edges])
    signals = {"dense": DenseIndex([[score, 1.0] for score in node_scores])}
    if edge_scores is not None and edges:
        signals["edge_dense"] = DenseIndex([[score, 1.0] for score in edge_scores], covers="edges")
    return GraphIndex(graph, signals, embedding=embedding)


def asked(index, count=1, **filters):
    return Queries.of(index, ["?"] * count, vectors=[QUERY] * count, **filters)


def weights(ranking, row=0):
    pairs = zip(ranking.nodes[row].tolist(), ranking.scores[row].tolist(), strict=True)
    return {node: pytest.approx(score, abs=1e-6) for node, score in pairs if node >= 0}


# Nodes 0 to 3 are phrases, 4 to 6 passages, 7 is alone; a fact counts twice, a link once, a synonym its cosine twice.
EDGES = [(0, 1), (1, 2), (4, 0), (4, 1), (5, 1), (5, 2), (6, 3)]
RESET = [0.5, 0.25, 0, 0, 0.05, 0.02, 0, 0]


@pytest.mark.parametrize(
    ("damping", "expected"),
    [
        (0.5, [0.377103, 0.347668, 0.101777, 0.014230, 0.115068, 0.041520, 0.002635, 0]),
        (0.85, [0.207774, 0.339229, 0.204246, 0.060144, 0.104059, 0.065613, 0.018934, 0]),
    ],
)
def test_the_walk_of_the_worked_case_has_the_published_values(damping, expected):
    ordered = [(0, 1, 1), (1, 0, 1), (1, 2, 2), (2, 1, 2), *((a, b, 1) for a, b in EDGES[2:]), (2, 3, 0.85), (3, 2, 0.85)]
    assert reference.pagerank(8, ordered, RESET, damping) == pytest.approx(expected, abs=1e-6)
    edges = (torch.tensor(column) for column in zip(*ordered, strict=True))
    walked = personalized_pagerank(TransitionGraph.of_edges(8, *edges), torch.tensor([RESET]), damping=damping)
    assert walked[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_fact_weighs_twice_a_link_once_and_a_synonym_takes_the_place_of_facts():
    # Names n0 and n2 are alike, and so are n1 and "n", which is too short to look for others; 0-2 is a fact as well.
    axes = {"alike a": [1.0, 0.0, 0.0], "alike b": [0.9, 0.43588989, 0.0], "long": [0.0, 0.0, 1.0], "n": [0.0, 0.0, 1.0]}
    names = ["alike a", "long", "alike b", "n", "passage"]
    edges = [(0, 1, 2), (1, 0, 1), (0, 2, 3), (4, 0, 1), (1, 3, 5), (1, 1, 7)]
    index = index_of(["", "", "", "", "p"], edges, [0] * 5, [0] * 6, names, lambda texts: [axes[text] for text in texts])
    (question,) = MemoryBackend(asked(index)).questions()
    near, far, weight = PassageWalk()._edges(question)
    got = {}
    for a, b, w in zip(near.tolist(), far.tolist(), weight.tolist(), strict=True):
        if a != b:
            got[min(a, b), max(a, b)] = got.get((min(a, b), max(a, b)), 0.0) + w
    # 1 to 3: the synonym in one direction, the fact in the other.
    assert got == {(0, 1): 6, (0, 2): pytest.approx(1.8), (0, 4): 1, (1, 3): pytest.approx(6)} and not question.notes
    plain = PassageWalk(synonyms=None)._edges(question)
    assert sum(plain[2].tolist()) == 2 * (2 + 1 + 3 + 5 + 7) + 1


@pytest.mark.parametrize("doubled", [False, True])
@pytest.mark.parametrize("options", [{}, {"language_model": lambda prompt: '{"facts": [1]}'}])
def test_an_accelerator_answers_what_a_processor_answers(options, doubled):
    nodes = [Node(f"p{n}", f"Passage {n} on name {n}.", "", "passage") for n in range(6) if not doubled]
    nodes += [Node(f"n{n}", "", f"Name {n}") for n in range(6)]
    edges = [(f"p{n}", f"n{n}") for n in range(6) if not doubled] + [(f"n{n}", f"n{(n * n + 1) % 6}", "r") for n in range(6)]

    def found(device):
        built = {"embedding": HashEmbedding(), "edge_signals": True, "metric": "cosine", "device": device}
        index = GraphIndex.from_nodes(nodes, edges, **built)
        assert index.device == torch.device(device, 0 if device == "cuda" else None)
        hits = Retriever(index, HippoRAG(synonyms=0.3, **options)).retrieve(
            "Which passage is on name 1?", seed_filter={"$id": {"$ne": "n2"}}
        )
        return [(hit.id, hit.score, hit.path and hit.path.text) for hit in hits]

    expected = found("cpu")
    with Accelerator():
        assert found("cuda") == expected and len(expected) == 6


def test_names_have_at_most_101_synonyms_and_the_lower_row_first():
    vectors = torch.ones(150, 2)
    near, far, cosines = synonyms(["name"] * 150, vectors)
    assert torch.bincount(near).tolist() == [101] * 150 and cosines.tolist() == pytest.approx([1.0] * len(cosines))
    assert far[near == 0].tolist() == list(range(1, 102)) and far[near == 149].tolist() == list(range(101))
    near, far, _ = synonyms(["ab", "a b c", "織機機", "--", "a_b"], torch.ones(5, 2))
    assert sorted(set(near.tolist())) == [1, 2] and far[near == 1].tolist() == [0, 2, 3, 4]
    vectors = torch.tensor([[1.0, 0.0], [0.79, 0.613], [0.8, 0.6]])
    assert [part.tolist() for part in synonyms(["abc"] * 3, vectors)[:2]] == [[0, 1, 2, 2], [2, 2, 1, 0]]


def test_phrases_are_weighted_by_their_facts_and_passages():
    # Fact scores after min-max: 1, .5, .25, 0. Phrase 1 is in two kept facts and in two passages.
    edges = [(0, 1), (1, 2), (2, 3), (0, 3), (4, 1), (5, 1), (5, 0)]
    index = index_of(["", "", "", "", "p", "p"], edges, [0] * 6, [0.9, 0.5, 0.3, 0.1, 9, -5, 9])
    assert weights(ranked(FactLinking(2), asked(index))) == {0: 1.0, 2: 0.5}
    assert weights(ranked(FactLinking(3), asked(index))) == {0: 1.0, 1: (1 + 0.5) / 2 / 2, 2: (0.5 + 0.25) / 2}
    # The node of the worst fact alone has weight 0 and stays, where the published code stops.
    assert weights(ranked(FactLinking(4, language_model=lambda _: '{"facts": [4]}'), asked(index))) == {0: 0.0, 3: 0.0}
    level = index_of(["", "", "p"], [(0, 1), (1, 1), (2, 0)], [0] * 3, [0.3, 0.3, 0.9])
    assert weights(ranked(FactLinking(), asked(level))) == {0: 1.0, 1: 1.0}, "all facts alike"


def test_a_language_model_keeps_facts_and_its_failure_keeps_all():
    index = index_of(["", "", "", "p"], [(0, 1), (1, 2), (3, 0)], [0] * 4, [0.9, 0.5, 0.7], ["Ada", "Engine", "Loom", "P"])
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        return json.dumps({"facts": [2, 2]})

    ranking = ranked(FactLinking(language_model=model, facts=True), asked(index))
    assert weights(ranking) == {1: 0.0, 2: 0.0} and ranking.facts.rows.tolist() == [[1]] and not ranking.notes
    assert "1. Ada r Engine\n2. Engine r Loom" in prompts[0] and "Question: ?" in prompts[0]
    with_three = ranked(FactLinking(language_model=lambda _: '{"facts": [3]}'), asked(index))
    assert weights(with_three) == {0: 1.0, 1: 0.5, 2: 0.0}
    ((note,),) = with_three.notes
    assert note.startswith("No answer of the language model satisfied the schema") and note.endswith("; all facts are kept")
    # No fact helps: dense ranking.
    nothing = Retriever(index, HippoRAG(language_model=lambda _: '{"facts": []}'), backfill=False).retrieve("?", vector=QUERY)
    assert [(hit.id, hit.operator) for hit in nothing] == [("n3", "VectorSearch")] and nothing.notes == ()


@st.composite
def cases(draw):
    """Phrases and passages with hubs, chains, parallel facts, self loops and isolated nodes; similarities with ties."""
    mixed = draw(st.booleans())
    phrases, passages = draw(st.integers(1, 6)), draw(st.integers(1, 4)) if mixed else 0
    facts = draw(st.lists(st.tuples(*[st.integers(0, phrases - 1)] * 2, st.sampled_from([1, 2])), max_size=8))
    kind = draw(st.sampled_from(["random", "chain", "hub"]))
    if kind != "random":
        facts = [(n if kind == "chain" else 0, n + 1, 1) for n in range(phrases - 1)] + facts[:2]
    pair = st.tuples(st.integers(phrases, phrases + max(passages, 1) - 1), st.integers(0, phrases - 1))
    links = sorted(draw(st.sets(pair, max_size=6))) if mixed else []
    similarity = st.integers(-3, 9).map(lambda n: n / 10)
    nodes = draw(st.lists(similarity, min_size=phrases + passages, max_size=phrases + passages))
    edges = draw(st.lists(similarity, min_size=len(facts), max_size=len(facts)))
    axis = draw(st.lists(st.sampled_from([0.0, 0.5, 0.55, 1.5]), min_size=phrases, max_size=phrases))
    names = [draw(st.sampled_from(["name", "ab"])) + " " * (n + 1) for n in range(phrases)]
    return phrases, passages, facts, links, nodes, edges, axis, names, draw(st.integers(1, 5)), draw(st.sampled_from([0.5, 0.85]))


# 1/2 (1 + 1/5) and 3/5 differ by rounding.
EVEN = (
    *(5, 1, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1), (0, 0, 1), (0, 0, 1)], [(5, 1)]),
    *([0.0] * 6, [0.0, 0.8, -0.2, 0.4, 0.0, 0.0], [0.0] * 5, ["ab"] * 5, 3, 0.5),
)


@pytest.mark.slow
@settings(max_examples=150)
@given(cases())
@example(EVEN)
def test_random_graphs_give_what_the_reference_gives(case):
    phrases, passages, facts, links, similar, fact_similar, axis, names, limit, damping = case
    size, types = phrases + passages, [""] * phrases + ["p"] * passages
    edges = [*facts, *((a, b, 1) for a, b in links)]
    angles = {name: [float(np.cos(x)), float(np.sin(x))] for name, x in zip(names, axis, strict=True)}
    titles = [*names, *("passage" for _ in range(passages))]

    def embed(texts):
        return [angles[text] for text in texts]

    index = index_of(types, edges, similar, [*fact_similar, *(9.0 for _ in links)], titles, embed)
    hits = Retriever(index, HippoRAG(facts=limit, damping=damping), backfill=False).retrieve_batch(
        ["?"] * 2, size, vectors=[QUERY] * 2
    )
    # Without passages, every node is both: its passage is a node of its own and mentions what the node's facts lead to.
    held = list(range(phrases, size)) if passages else list(range(size))
    place = {node: node if passages else node + size for node in held}
    if not passages:
        links = sorted({(a + size, b) for a, b, _ in facts if a != b} | {(a + size, a) for a in range(size)})
        joined = [(a + size, b, weight) for a, b, weight in facts if a != b] + [(a + size, a, 1) for a in range(size)]
    else:
        joined = [(a, b, 1) for a, b in links]
    dense = reference.min_max([similar[node] for node in held])
    order = sorted(range(len(facts)), key=lambda fact: (-fact_similar[fact], fact))
    chunks = {phrase: {a for a, b in links if b == phrase} for phrase in range(phrases)}
    found = reference.phrase_weights(facts, fact_similar, order[:limit], chunks, limit) if facts else {}
    assert hits[0] == hits[1]
    got = [(int(hit.id[1:]), hit.score) for hit in hits[0]]
    if not found:
        assert [node for node, _ in got] == sorted(held, key=lambda node: (-similar[node], node))
        assert {hit.operator for hit in hits[0]} == {"VectorSearch"}
        return
    reset = [found.get(node, 0.0) for node in range(size if passages else 2 * size)]
    for node, share in zip(held, dense, strict=True):
        reset[place[node]] += 0.05 * share
    cosines = [[float(np.dot(angles[a], angles[b])) for b in names] for a in names]
    made = reference.walk_edges(facts, joined, reference.synonym_edges(names, cosines))
    expected = reference.pagerank(len(reset), made, reset, damping)
    assert [score for _, score in got] == pytest.approx([expected[place[node]] for node, _ in got], abs=1e-6)
    assert {node for node, _ in got} >= {node for node in held if expected[place[node]] > 1e-6}
    assert all(a[1] >= b[1] for a, b in zip(got, got[1:], strict=False))
    linked = {frozenset(edge[:2]) for edge in edges}
    steps = [pair for hit in hits[0] for pair in zip(hit.path.nodes, hit.path.nodes[1:], strict=False)]
    assert all(frozenset((int(a[1:]), int(b[1:]))) in linked for a, b in steps), "paths follow edges"


def test_ties_go_to_the_lower_row_and_paths_lead_from_phrases():
    edges = [(0, 1), (2, 1), (3, 1), (4, 0)]
    index = index_of(["", "", "p", "p", "p"], edges, [0, 0, 0.5, 0.5, 0.4], [1.0, 9, 9, 9])
    hits = Retriever(index, HippoRAG()).retrieve("?", 3, vector=QUERY)
    assert [(hit.id, str(hit.path)) for hit in hits] == [
        ("n4", "n0 <-[r]- n4"),
        ("n2", "n1 <-[r]- n2"),
        ("n3", "n1 <-[r]- n3"),
    ]


def test_equal_passages_share_equally_however_their_similarities_are_rounded():
    def unit(vector):
        return (vector / np.linalg.norm(vector)).tolist()

    drawn = np.random.default_rng(16).normal(size=(4, 16))
    same, asked_for = unit(drawn[0]), unit(drawn[3])
    for count in range(2, 12):
        nodes = [Node(f"p{n}", "same text", type="passage") for n in range(count)] + [Node("a", "", "Alpha"), Node("b", "", "Beta")]
        edges = [*((f"p{n}", "a", "m") for n in range(count)), ("a", "b", "knows")]
        embed = lambda texts: [same if "same" in text else asked_for for text in texts]  # noqa: E731
        retriever = Retriever(GraphIndex.from_nodes(nodes, edges, embedding=embed, edge_signals=True), HippoRAG())
        alone, together = retriever.retrieve("q", 3), retriever.retrieve_batch(["q", "x"], 3)[0]
        for hits in (alone, together):
            assert [hit.id for hit in hits] == ["p0", "p1", "p2"][:count]
            assert [hit.score for hit in hits] == pytest.approx([alone[0].score] * len(hits), rel=1e-6)


def test_only_passages_are_hits_and_a_scope_without_them_returns_its_phrases():
    index = index_of(["", "", "p", "p"], [(0, 1), (2, 0)], [0.9, 0.8, 0.1, 0.2], [0.5, 0.5])
    assert {hit.id for hit in Retriever(index, HippoRAG()).retrieve("?", vector=QUERY)} == {"n2", "n3"}
    scoped = Retriever(index, HippoRAG()).retrieve("?", vector=QUERY, scope={"$type": "phrase"})
    assert {hit.id for hit in scoped} == {"n0", "n1"}
    assert {hit.id for hit in Retriever(index, HippoRAG(), types=["phrase"]).retrieve("?", vector=QUERY)} == {"n0", "n1"}
    other = Retriever(index, HippoRAG(passage_type="phrase")).retrieve("?", vector=QUERY)
    assert {hit.id for hit in other} == {"n0", "n1"}


def test_a_graph_of_pages_takes_its_links_as_facts_that_stand_in_the_source():
    pages = [Node(name, f"About {name}.", name) for name in ("Ada", "Engine", "Loom", "Rain")]

    def embed(texts):
        return [[float(page.title in text) for page in pages] for text in texts]

    links = [("Ada", "Engine", "wrote for"), ("Engine", "Loom")]
    index = GraphIndex.from_nodes(pages, links, embedding=embed, edge_signals=True)
    assert index.graph.edge_contents([1, 0]) == ["Engine Loom", "Ada wrote for Engine"]
    # Ada is mentioned by its own page, the engine by two.
    assert weights(ranked(FactLinking(1), Queries.of(index, ["Ada"]))) == {0: 1.0}
    assert weights(ranked(FactLinking(2), Queries.of(index, ["Ada"]))) == {0: 1.0, 1: 0.25}
    hits = Retriever(index, HippoRAG(facts=1, passage_weight=0), backfill=False).retrieve("Ada")
    assert [(hit.id, hit.path.text, hit.operator) for hit in hits] == [
        ("Ada", "Ada", "PassageWalk"),
        ("Engine", "Ada -[wrote for]-> Engine", "PassageWalk"),
        ("Loom", "Ada -[wrote for]-> Engine -> Loom", "PassageWalk"),
    ]


def test_synonyms_of_two_indexes_of_one_graph_are_those_of_their_own_models():
    ids = ["Aaa", "Bbb", "Ccc"]
    nodes = [Node("p", "zz", type="passage"), Node("q", "yy", type="passage"), *(Node(name, "", name) for name in ids)]
    edges = [("Aaa", "Bbb", "r"), ("p", "Aaa", "m"), ("q", "Ccc", "m")]

    def scores(graph, *names):
        embed = lambda texts: [[1.0, 0.0] if any(name in text for name in names) else [0.0, 1.0] for text in texts]  # noqa: E731
        index = GraphIndex.from_graph(graph, embedding=embed, edge_signals=True)
        return {hit.id: hit.score for hit in Retriever(index, HippoRAG()).retrieve("Aaa", 2)}

    shared, other = (CorpusGraph.from_nodes(nodes, edges) for _ in range(2))
    assert scores(shared, "Aaa", "Ccc") != scores(shared, "Aaa") == scores(other, "Aaa")


def test_paths_begin_behind_synonym_edges():
    names = ["Engine", "Engines", "Loom", "About"]
    index = index_of(["", "", "", "p"], [(0, 2), (3, 1)], [0] * 4, [0.5, 0], names, lambda texts: [[1.0, 0.0]] * len(texts))
    (hit,) = Retriever(index, HippoRAG(), backfill=False).retrieve("?", vector=QUERY)
    assert (hit.id, hit.path.nodes) == ("n3", ("n1", "n3"))


def test_filters_hold_for_facts_the_restart_and_the_walk():
    edges = [(0, 1), (1, 2), (3, 0), (4, 1), (5, 2)]
    index = index_of(["", "", "", "p", "p", "p"], edges, [0, 0, 0, 0.1, 0.2, 0.9], [0.9, 0.5, 9, 9, 9])
    # Node 0 may not start: its fact is none, and the only one left has a score of 1.
    queries = asked(index, seed_filter=lambda node: node.id != "n0")
    assert weights(ranked(FactLinking(), queries)) == {1: 1.0, 2: 1.0}
    assert weights(ranked(FactLinking(), asked(index, seed_filter={"$id": "n0"}))) == {}
    hits = Retriever(index, HippoRAG(), backfill=False).retrieve("?", vector=QUERY, traversal_filter=lambda node: node.id != "n1")
    assert all("n1" not in hit.path.nodes[1:] for hit in hits)
    # A passage that is not walked to has its restart alone, in a graph of pages too.
    for kinds in (["", "", "", "p", "p", "p"], [""] * 6):
        made = index_of(kinds, edges, [0, 0, 0, 0.1, 0.2, 0.9], [0.9, 0.5, 9, 9, 9])
        options = {"vector": QUERY, "traversal_filter": lambda node: node.id != "n4"}
        near, alone = (
            Retriever(made, HippoRAG(facts=5)).retrieve("?", 6, **(options | more)) for more in ({"traversal_filter": None}, {})
        )
        scores = [next(hit.score for hit in hits if hit.id == "n4") for hits in (near, alone)]
        assert scores[1] < scores[0] / 2
    hits = Retriever(index, HippoRAG(), backfill=False).retrieve("?", vector=QUERY, filter={"$id": "n4"}, seed_filter={})
    assert [hit.id for hit in hits] == ["n4"]
    # The restart at passages: of those that may start, by min-max among them.
    seeds = Ranking.of(torch.tensor([[0]]), torch.tensor([[1.0]]), "Seeds")
    queries = asked(index, seed_filter=lambda node: node.id != "n5")
    stays = ranked(PassageWalk(damping=0), queries, seeds)
    assert stays.nodes.tolist() == [[4]] and stays.scores[0].tolist() == pytest.approx([0.05 / 1.05])


def test_an_index_without_a_signal_over_edges_is_ranked_by_vectors_and_told():
    index = index_of(["", "p", "p"], [(0, 1)], [0, 0.1, 0.2])
    hits = Retriever(index, HippoRAG()).retrieve("?", vector=QUERY)
    assert [hit.id for hit in hits] == ["n2", "n1"]
    assert hits.notes == ("no fact is looked for, as the index has no signal 'edge_dense'; build it with edge_signals=True",)
    nothing = Ranking.empty(1, index.device)
    assert [row for row in ranked(PassageWalk(), asked(index), nothing).nodes[0].tolist() if row >= 0] == [2, 1], "passages alone"
    assert Retriever(index_of(["", "p"], [], [0, 1]), HippoRAG()).retrieve("?", vector=QUERY).notes == (NO_EDGES_NOTE,)
    with pytest.raises(InvalidArgumentError, match="FactLinking searches edges; the signal 'dense' covers nodes"):
        Retriever(index, HippoRAG(signal="dense")).retrieve("?", vector=QUERY)


def test_a_hub_of_many_neighbours_and_many_names_are_answered(monkeypatch):
    size = 10_001
    edges = [(0, n) for n in range(1, size)]
    scores = np.random.default_rng(0).uniform(0, 1, size)
    index = index_of([""] * size, edges, scores.tolist(), scores[1:].tolist())
    hits = Retriever(index, HippoRAG()).retrieve("?", 10, vector=QUERY)
    assert hits[0].id == "n0" and len(hits) == 10 and hits.notes == ()
    monkeypatch.setattr(passage_walk, "_MOST_NAMES", 2)
    small = index_of(["", "", ""], [(0, 1)], [0, 0, 0], [1], None, lambda texts: [[1.0, 0.0]] * len(texts))
    assert Retriever(small, HippoRAG()).retrieve("?", vector=QUERY).notes == (
        "no synonyms are looked for among more than 2 phrases",
    )
    assert Retriever(small, HippoRAG(synonyms=None)).retrieve("?", vector=QUERY).notes == ()


@pytest.mark.parametrize("option", [{"damping": 1}, {"passage_weight": -1}, {"synonyms": 0}, {"synonyms": 1.5}, {"k": 0}])
def test_values_outside_their_range_are_refused(option):
    with pytest.raises(InvalidArgumentError, match=next(iter(option))):
        PassageWalk(**option)
    with pytest.raises(InvalidArgumentError, match="limit"):
        FactLinking(0)


@pytest.mark.parametrize("passages", [False, True])
def test_no_prompt_holds_a_fact_with_a_filtered_end(passages):
    def nodes_of(*pairs):
        return [Node(name, "", name, metadata={"t": kind}) for name, kind in pairs]

    nodes = nodes_of(("hub", "pub"), ("open", "pub"), ("secret", "priv"))
    edges = [("hub", "open", "to"), ("hub", "secret", "to")]
    if passages:
        # Phrases have no metadata that the filter reads: those of passages that pass it may be told.
        nodes = [Node(name, "", name, "phrase") for name in ("hub", "open", "secret")]
        nodes += [Node(f"p-{kind}", "text", "", "passage", metadata={"t": kind}) for kind in ("pub", "priv")]
        edges += [
            ("p-pub", "hub", "mentions"),
            ("open", "p-pub", "in"),
            ("p-priv", "hub", "mentions"),
            ("p-priv", "secret", "mentions"),
        ]
    index = GraphIndex.from_nodes(
        nodes, edges, embedding=lambda texts: [[1.0, float("secret" in t)] for t in texts], edge_signals=True
    )
    prompts = []
    retriever = Retriever(index, HippoRAG(language_model=lambda prompt: prompts.append(prompt) or '{"facts": [1]}'))
    retriever.retrieve("Where?")
    assert "secret" in prompts[0] and "open" in prompts[0]
    retriever.retrieve("Where?", filter={"t": "pub"})
    assert "secret" not in prompts[1] and "open" in prompts[1]
    retriever.retrieve("Where?", traversal_filter=lambda node: node.title != "secret")
    assert "secret" not in prompts[2] and "open" in prompts[2]
    assert len(prompts) == 3


def test_types_to_return_hide_no_fact_from_the_model():
    nodes = [Node("film", "", "film", "film"), Node("star", "", "star", "person")]
    index = GraphIndex.from_nodes(
        nodes, [("film", "star", "with")], embedding=lambda texts: [[1.0]] * len(texts), edge_signals=True
    )
    prompts = []
    model = lambda prompt: prompts.append(prompt) or '{"facts": [1]}'  # noqa: E731
    assert [hit.id for hit in Retriever(index, HippoRAG(language_model=model), types=["film"]).retrieve("Which?")] == ["film"]
    assert "star" in prompts[0]


def test_a_limit_beyond_the_graph_and_what_is_not_a_language_model():
    nodes, edges = [Node("a", "loom"), Node("b", "card")], [("a", "b", "r")]
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[1, 0], [0, 1]], edge_signals=True)
    huge, enough = (Retriever(index, HippoRAG(facts=most, signal="edge_bm25")).retrieve("r", vector=[1, 0]) for most in (10**12, 2))
    assert huge == enough != []
    with pytest.raises(InvalidArgumentError, match="3 is not a language model"):
        Retriever(index, HippoRAG(language_model=3))
