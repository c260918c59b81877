"""Spreading activation and its chains against worked numbers: section III-B of the paper, and what its public code gives."""

import math
import random

import numpy as np
import pytest
import torch

from graph_retrievers import Retriever, SpreadingActivation
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.propagation import GatedPropagation
from tests.rankings import Ranking, ranked
from tests.references.spreading import adjacency, all_chains, deduped, relations_between_entities, spread

NAMES = ["s1", "s2", "a", "b", "c", "d"]
EDGES = [("s1", "a"), ("a", "s1"), ("s1", "b"), ("b", "c"), ("a", "c"), ("s2", "c"), ("c", "d")]
GATES = {"s1": 0.9, "s2": 0.2, "a": 0.8, "b": -0.1, "c": 0.5, "d": 0.6}
SEEDS = {"s1": 1.0, "s2": 0.8}

ROWS = {
    1: {"s1": 1, "s2": 0.8, "a": 1.12, "c": 0.28},
    2: {"s1": 2.4112, "s2": 0.8, "a": 1.12, "c": 0.952, "d": 0.1176},
    3: {"s1": 2.4112, "s2": 0.93328, "a": 3.820544, "c": 1.344, "d": 0.51744},
}
SET = {
    1: {"s1": 1, "s2": 0.8, "a": 0.56, "c": 0.28},
    2: {"s1": 1, "s2": 0.8, "a": 1.12, "c": 0.756, "d": 0.1176},
    3: {"s1": 1.7056, "s2": 0.8, "a": 1.12, "c": 1.428, "d": 0.43512},
}


def worked_index(missing=(), device="cpu"):
    """The worked graph; a node's vector has the cosine with (1, 0) that the gate asks for, at a length of its own."""
    vectors = [[3 * GATES[n], 3 * math.sqrt(1 - GATES[n] ** 2)] if n not in missing else [0.0, 0.0] for n in NAMES]
    graph = CorpusGraph(NAMES, [f"This is {n}." for n in NAMES], titles=NAMES, edges=[(*e, "r") for e in EDGES], device=device)
    return GraphIndex.from_graph(graph, vectors=vectors, bm25=False)


def seeds_of(index):
    rows = [NAMES.index(n) for n in SEEDS]
    return Ranking.of(torch.tensor([rows], device=index.device), torch.tensor([[*SEEDS.values()]], device=index.device), "Seeds")


def activate(index, **options):
    queries = Queries.of(index, ["question"], vectors=[[2.0, 0.0]])
    ranking = ranked(GatedPropagation(**options), queries, seeds_of(index))
    return queries, ranking, {NAMES[v]: s for v, s in zip(ranking.nodes[0].tolist(), ranking.scores[0].tolist(), strict=True)}


@pytest.mark.parametrize(("semantics", "table"), [("rows", ROWS), ("set", SET)])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_worked_propagation(semantics, table, steps, device):
    _, ranking, activation = activate(worked_index(device=device), steps=steps, semantics=semantics)
    assert activation == pytest.approx(table[steps], abs=1e-6)
    assert ranking.scores[0].tolist() == sorted(activation.values(), reverse=True)


@pytest.mark.parametrize(("semantics", "table"), [("rows", ROWS), ("set", SET)])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_literal_reference_gives_the_worked_numbers_too(semantics, table, steps):
    activation, _ = spread(adjacency(EDGES, semantics), SEEDS, GATES, steps=steps)
    assert activation == pytest.approx(table[steps], abs=1e-12)


def test_a_node_without_a_vector_cannot_receive():
    _, _, activation = activate(worked_index(missing=["a"]), semantics="rows")
    assert activation == pytest.approx({"s1": 1, "s2": 0.8, "c": 0.84, "d": 0.3528}, abs=1e-6)


def test_uniform_gate_reaches_what_the_cosine_gate_shuts_out():
    index = worked_index(missing=["a"])
    _, _, activation = activate(index, steps=1, semantics="rows", gate="uniform")
    assert activation == pytest.approx({"s1": 1, "s2": 0.8, "a": 1.4, "b": 0.7, "c": 0.56}, abs=1e-6)


def test_scores_are_divided_by_the_best_seed():
    index = worked_index()
    queries = Queries.of(index, ["question"], vectors=[[1.0, 0.0]])
    halved = Ranking.of(torch.tensor([[0, 1]]), torch.tensor([[0.5, 0.4]]), "Seeds")
    ranking = ranked(GatedPropagation(), queries, halved)
    assert dict(zip(ranking.nodes[0].tolist(), ranking.scores[0].tolist(), strict=True)) == pytest.approx(
        {NAMES.index(n): s for n, s in SET[3].items()}, abs=1e-6
    )


def test_paths_lead_back_to_the_neighbour_that_gave_most_at_first_arrival():
    _, ranking, _ = activate(worked_index())
    paths = {trail[-1]: [NAMES[v] for v in trail if v >= 0] for trail in ranking.trails[0].tolist()}
    # c is entered in the first step, from s2 only; a comes from s1.
    assert {NAMES[v]: path for v, path in paths.items()} == {
        "s1": ["s1"],
        "s2": ["s2"],
        "a": ["s1", "a"],
        "c": ["s2", "c"],
        "d": ["s2", "c", "d"],
    }


def test_a_damped_hub_that_gives_less_is_not_the_parent():
    # Over each of its edges, the hub gives 1 / 4 and the other seed 0.8 / 2.
    edges = [("hub", "v"), ("hub", "x"), ("hub", "y"), ("hub", "z"), ("other", "v"), ("other", "w")]
    graph = CorpusGraph(["hub", "other", "v", "w", "x", "y", "z"], [""] * 7, edges=edges)
    seeds = Ranking.of(torch.tensor([[0, 1]]), torch.tensor([[1.0, 0.8]]), "Seeds")
    queries = Queries.of(GraphIndex.from_graph(graph), ["?"])
    for exponent, parent in ((0, 0), (1, 1)):
        ranking = ranked(GatedPropagation(steps=1, gate="uniform", hub_exponent=exponent), queries, seeds)
        assert [parent, 2] in ranking.trails[0].tolist()


def test_seeds_without_a_positive_score_are_dropped():
    graph = CorpusGraph(["a", "b", "c"], [""] * 3, edges=[("b", "c")])
    seeds = Ranking.of(torch.tensor([[0, 1, 2]]), torch.tensor([[0.5, 0.0, -0.5]]), "Seeds")
    ranking = ranked(GatedPropagation(gate="uniform"), Queries.of(GraphIndex.from_graph(graph), ["?"]), seeds)
    assert ranking.nodes.tolist() == [[0]] and ranking.touched.tolist() == [1]


def test_only_what_exceeds_the_threshold_gives_and_is_added():
    graph = CorpusGraph(["a", "b", "c", "d", "e"], [""] * 5, edges=[("a", "d"), ("b", "d"), ("c", "e")])
    queries, seeds = Queries.of(GraphIndex.from_graph(graph), ["?"]), torch.tensor([[1.0, 0.25, 0.25]])
    seeds = Ranking.of(torch.tensor([[2, 0, 1]]), seeds, "Seeds")
    # Equation 1: a and b are at the threshold and give nothing, although d would get 0.5; e gets 1.
    ranking = ranked(GatedPropagation(steps=1, decay=1, threshold=0.25, gate="uniform"), queries, seeds)
    assert ranking.nodes.tolist() == [[2, 4, 0, 1]] and ranking.scores.tolist() == [[1, 1, 0.25, 0.25]]

    # Equation 2: what e gets is at the threshold, and is not added.
    def quarter(queries, query, nodes):
        return torch.full(nodes.shape, 0.25)

    ranking = ranked(GatedPropagation(steps=1, decay=1, threshold=0.25, gate=quarter), queries, seeds)
    assert ranking.nodes.tolist() == [[2, 0, 1]]


def test_options_of_the_system_reach_its_operators():
    nodes = [Node("p", "Ada wrote.", type="passage"), Node("a", "", "Ada"), Node("e", "", "Engine")]
    index = GraphIndex.from_nodes(nodes, [("p", "a"), ("a", "e")])

    def parts(**options):
        return Retriever(index, SpreadingActivation(gate="uniform", **options)).operator.operators

    for chains, as_trails in (("hits", False), ("path", True)):
        *_, search = parts(chains=chains, semantics="rows")
        assert (search.name, search.semantics, search.as_trails) == ("ChainSearch", "rows", as_trails)
    named = ["EntityLinking", "GatedPropagation"]
    assert [part.name for part in parts(passages=True)] == [*named, "PassageGathering"]
    assert [part.name for part in parts(passages=True, chains="hits")] == [*named, "ChainSearch", "PassageGathering"]
    # Chains lead through entities, so none is the path of a passage.
    assert [part.name for part in parts(passages=True, chains="path")] == [*named, "PassageGathering"]
    linking, propagation, gathering = parts(passages=True)
    assert linking.exclude_types == propagation.exclude_types == gathering.types == ("passage",) and gathering.gate == "uniform"
    assert [part.name for part in parts(passages=False)] == named and parts(passages=False)[0].exclude_types == ("passage",)


def chains_of(queries, ranking, **options):
    chains = ranked(ChainSearch(**options), queries, ranking).chains
    pairs = zip(chains.nodes[0].tolist(), chains.scores[0].tolist(), strict=True)
    return {tuple(NAMES[v] for v in nodes if v >= 0): score for nodes, score in pairs if nodes[0] >= 0}


def test_worked_chains_of_the_row_semantics():
    activation = ROWS[3]
    rows = all_chains(adjacency(EDGES, "rows"), SEEDS, activation)
    found = {}
    for mean, nodes in rows:
        found.setdefault(nodes, []).append(mean)
    assert {nodes: (len(means), means[0]) for nodes, means in found.items()} == {
        ("s1", "a"): (2, pytest.approx(3.115872)),
        ("s1", "a", "c"): (2, pytest.approx(2.525248)),
        ("s1", "a", "c", "s2"): (2, pytest.approx(2.127256)),
        ("s2", "c", "a", "s1"): (2, pytest.approx(2.127256)),
        ("s2", "c", "a"): (1, pytest.approx(2.032608)),
        ("s1", "a", "c", "d"): (2, pytest.approx(2.023296)),
        ("s2", "c"): (1, pytest.approx(1.13864)),
        ("s2", "c", "d"): (1, pytest.approx(0.9315733333)),
    }
    assert len(rows) == 13


@pytest.mark.parametrize("dedupe", ["after_limit", "before_limit"])
def test_worked_chains_that_remain(dedupe, device):
    queries, ranking, _ = activate(worked_index(device=device), semantics="rows")
    kept = chains_of(queries, ranking, semantics="rows", dedupe=dedupe)
    assert kept == {
        ("s1", "a", "c", "s2"): pytest.approx(2.127256, abs=1e-5),
        ("s1", "a", "c", "d"): pytest.approx(2.023296, abs=1e-5),
        ("s2", "c", "d"): pytest.approx(0.931573, abs=1e-5),
    }


def test_parallel_rows_take_places_within_the_limit():
    queries, ranking, _ = activate(worked_index(), semantics="rows")
    # Of 13 rows by mean, the first 4 are (s1, a) and (s1, a, c), twice each: one chain absorbs the other.
    assert list(chains_of(queries, ranking, semantics="rows", limit=4)) == [("s1", "a", "c")]
    # As a set, the fourth is the reverse of the third, so two remain of (s1, a), (s1, a, c) and (s1, a, c, s2).
    assert list(chains_of(queries, ranking, semantics="set", limit=4)) == [("s1", "a", "c", "s2")]
    assert len(chains_of(queries, ranking, semantics="set", limit=3, dedupe="before_limit")) == 3


def test_published_dedupe_rules():
    listed = ["sab", "bas", "sa", "as", "ab", "ba", "sb", "xsab"]
    kept = deduped([(1.0 - 0.1 * i, tuple(nodes)) for i, nodes in enumerate(listed)])
    assert ["".join(nodes) for _, nodes in kept] == ["sab", "ab", "sb", "xsab"]


def test_number_of_walks_of_the_published_enumeration():
    edges = [tuple(int(digit) for digit in pair) for pair in "07 15 21 31 41 43 60 63 70 76".split()]
    assert len(all_chains(adjacency(edges, "rows"), [0, 1], dict.fromkeys(range(8), 1.0))) == 35


def test_the_retriever_returns_what_the_paper_describes():
    retriever = Retriever(worked_index(), SpreadingActivation(chains="hits"), backfill=False)
    hits = retriever.retrieve("How do s1 and s2 meet?", vector=[1.0, 0.0])
    nodes, chains = [h for h in hits if h.kind == "node"], [h for h in hits if h.kind == "chain"]
    # Both seeds are exact matches here and start at 1.
    expected, _ = spread(adjacency(EDGES), {"s1": 1.0, "s2": 1.0}, GATES)
    assert {h.id: h.score for h in nodes} == pytest.approx(expected, abs=1e-6)
    assert [str(h.path) for h in nodes if h.id == "d"] == ["s2 -[r]-> c -[r]-> d"]
    assert "s2 -[r]-> c -[r]-> d" in [h.text for h in chains]
    assert {h.operator for h in nodes} == {"EntityLinking", "GatedPropagation"}


def test_edges_conduct_both_ways_and_keep_their_direction_in_the_text():
    graph = CorpusGraph(["kobzar", "shevchenko"], ["A book.", "A poet."], edges=[("shevchenko", "kobzar", "wrote")])
    index = GraphIndex.from_graph(graph, vectors=[[1.0, 0.0], [0.8, 0.6]], bm25=False)
    hits = Retriever(index, "spreading").retrieve("Who wrote kobzar?", vector=[1.0, 0.0])
    assert [str(h.path) for h in hits] == ["kobzar", "kobzar <-[wrote]- shevchenko"]
    # Two steps give .56 each; in the third the poet, now above 1, gives back.
    assert [h.score for h in hits] == pytest.approx([1 + 0.7 * 1.12, 1.12])


TEXTS = ("document", "paragraph")


def two_levels(rng):
    """A graph of the paper's schema: entities with relations, paragraphs and documents that mention them, and gates."""
    entities = [f"e{i}" for i in range(rng.randint(2, 9))]
    types = dict.fromkeys(entities, "person")
    relations = [(rng.choice(entities), rng.choice(entities)) for _ in range(rng.randint(0, 2 * len(entities)))]
    edges = [(a, b, "relates to") for a, b in relations]
    for number in range(rng.randint(1, 4)):
        paragraph, document = f"p{number}", f"d{number // 2}"
        # Their titles are those of entities, so that names lead to them, too.
        types |= {paragraph: "paragraph", document: "document"}
        edges.append((document, paragraph, "has"))
        edges += [(text, rng.choice(entities), "mentions") for text in (paragraph, document) for _ in range(rng.randint(1, 3))]
    gates = {node: rng.choice([-0.25, 0.0, 0.25, 0.5, 0.75, 1.0]) for node in types}
    return types, edges, gates, rng.sample(entities, rng.randint(1, 2))


def level_of(types, edges, gates, seeds, **options):
    """Activation by node that the system finds; every text has the title of an entity."""
    names = list(types)
    titles = [name if name.startswith("e") else f"e{number % 2}" for number, name in enumerate(names)]
    vectors = [[gates[name], math.sqrt(1 - gates[name] ** 2)] for name in names]
    graph = CorpusGraph(names, [f"This is {name}." for name in names], titles=titles, types=list(types.values()), edges=edges)
    index = GraphIndex.from_graph(graph, vectors=vectors, bm25=False)
    retriever = Retriever(index, SpreadingActivation(**options), k=50, backfill=False)
    hits = retriever.retrieve(f"How do {' and '.join(seeds)} meet?", vector=[1.0, 0.0])
    return {hit.id: hit.score for hit in hits.nodes}, hits


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_published_form_walks_relations_between_entities_alone(count):
    rng, differ = random.Random(5), 0
    for _ in range(count):
        types, edges, gates, seeds = two_levels(rng)
        relations = relations_between_entities([(a, b) for a, b, _ in edges], types, TEXTS)
        expected, _ = spread(adjacency(relations), dict.fromkeys(seeds, 1.0), gates)
        found, hits = level_of(types, edges, gates, seeds, passages=False, passage_type=TEXTS)
        assert found == pytest.approx(expected, abs=1e-6)
        assert all(before > after - 1e-6 for before, after in zip(found.values(), list(found.values())[1:], strict=False))
        assert all(types[node] == "person" for hit in hits for node in hit.path.nodes)
        everything, _ = level_of(types, edges, gates, seeds)
        differ += everything != pytest.approx(expected, abs=1e-6)
    assert differ > count / 2, "mentions matter in the cases"


def test_texts_of_two_levels_by_hand():
    # Ada is related to the engine; the paragraph and the document also join her to the loom, which the paper does not walk.
    types = {"ada": "person", "engine": "thing", "loom": "thing", "p": "paragraph", "d": "document"}
    edges = [
        ("ada", "engine", "wrote for"),
        ("d", "p", "has"),
        *((text, to, "mentions") for text in "pd" for to in ("ada", "loom")),
    ]
    graph = CorpusGraph(
        list(types), [""] * 5, titles=["Ada", "Engine", "Loom", "Weaving", "Weaving"], types=[*types.values()], edges=edges
    )
    index = GraphIndex.from_graph(graph, vectors=np.tile([1.0, 0.0], (5, 1)), bm25=False)

    def found(**options):
        hits = Retriever(index, SpreadingActivation(**options), backfill=False).retrieve("Ada?", vector=[1.0, 0.0])
        return {hit.id: round(hit.score, 3) for hit in hits}

    assert found(passages=False, passage_type=TEXTS, steps=1) == {"ada": 1.0, "engine": 0.7}
    # With one level, the other is walked as if it were an entity.
    assert found(passages=False, passage_type="paragraph", steps=2)["loom"] == 0.49
    assert found(passages=True, passage_type=["document", "paragraph"], steps=1) == {"p": 1.0, "d": 1.0}
    assert found(steps=1) == {"ada": 1.0, "engine": 0.7, "p": 0.7, "d": 0.7}
    assert SpreadingActivation(passage_type=["document"]) == SpreadingActivation(passage_type=("document",))
    with pytest.raises(InvalidArgumentError, match="passage_type must be a list of strings, got 3"):
        SpreadingActivation(passage_type=3)
