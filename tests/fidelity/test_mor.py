"""MoR against its published plans, rules, weights and worked numbers."""

import gzip
import json
import math
from collections import Counter

import pytest
import torch
from safetensors.torch import load_file

from graph_retrievers import MoR, Retriever
from graph_retrievers.core.operator import OperatorKind
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.mor.parse import parse_metapath, read_plan
from graph_retrievers.systems.mor.plan import TypeSchema, check_plan
from graph_retrievers.systems.mor.reranker import TrajectoryReranker, TrajectoryScorer
from graph_retrievers.systems.mor.traversal import MixedTraversal
from tests.helpers import Written, trajectories
from tests.rankings import ranked

GENE = "gene/protein"
SCHEMAS = {
    "mag": TypeSchema(
        [
            ("author", "affiliated_with", "institution"),
            ("paper", "cites", "paper"),
            ("paper", "has_topic", "field_of_study"),
            ("author", "writes", "paper"),
        ],
        targets=["paper"],
    ),
    "amazon": TypeSchema(
        [
            ("product", "also_buy", "product"),
            ("product", "also_view", "product"),
            ("product", "has_brand", "brand"),
            ("product", "has_category", "category"),
            ("product", "has_color", "color"),
        ],
        targets=["product"],
    ),
    "prime": TypeSchema(
        [(GENE, "ppi", GENE), ("drug", "synergistic interaction", "drug"), ("drug", "side effect", "effect/phenotype")]
        + [("drug", relation, GENE) for relation in ("carrier", "enzyme", "target", "transporter")]
        + [("drug", relation, "disease") for relation in ("contraindication", "indication", "off-label use")]
        + [("disease", relation, "effect/phenotype") for relation in ("phenotype absent", "phenotype present")]
        + [("anatomy", relation, GENE) for relation in ("expression absent", "expression present")]
        + [(kind, "associated with", GENE) for kind in ("effect/phenotype", "disease")]
        + [("exposure", "linked to", "disease")]
        + [
            (kind, "interacts with", GENE)
            for kind in ("biological_process", "molecular_function", "cellular_component", "pathway", "exposure")
        ]
        + [("exposure", "interacts with", kind) for kind in ("biological_process", "molecular_function", "cellular_component")]
        + [
            (kind, "parent-child", kind)
            for kind in ("anatomy", "biological_process", "cellular_component", "disease", "effect/phenotype", "exposure")
            + ("molecular_function", "pathway")
        ]
    ),
}
LAST_STEPS = {"mag": 3, "amazon": 3, "prime": None}

# (walked, empty, single node, invalid, no start restriction), (dropped, skipped)
COUNTS = {
    ("mag", "test"): ((2557, 62, 14, 31, 1), (6, 12)),
    ("mag", "val"): ((2546, 55, 20, 41, 3), (5, 11)),
    ("amazon", "test"): ((1123, 84, 434, 1, 0), (0, 0)),
    ("amazon", "val"): ((1078, 50, 419, 0, 1), (0, 1)),
    ("prime", "test"): ((2530, 54, 0, 131, 86), (353, 368)),
    ("prime", "val"): ((2036, 24, 0, 120, 61), (243, 284)),
}


def test_prime_has_56_triples():
    assert len(SCHEMAS["prime"].triples) == 56
    assert len(SCHEMAS["prime"].types) == 10


@pytest.mark.slow
@pytest.mark.parametrize(("name", "split"), list(COUNTS))
def test_cached_plans_through_the_rules(shared_folder, name, split):
    with gzip.open(shared_folder / "data" / "mor" / f"plans-{name}-{split}.jsonl.gz", "rt") as file:
        plans = [json.loads(line)["plan"] for line in file]
    checks = [check_plan(read_plan(plan), SCHEMAS[name], LAST_STEPS[name]) for plan in plans]
    reasons = Counter(check.reason for check in checks)
    (walked, empty, single, invalid, unstarted), (dropped, skipped) = COUNTS[name, split]
    assert dict(reasons) == {
        reason: n
        for reason, n in (
            ("", walked),
            ("empty", empty),
            ("single node", single),
            ("invalid", invalid),
            ("no start restriction", unstarted),
        )
        if n
    }
    assert sum(check.dropped for check in checks if check.reason != "invalid") == dropped
    assert sum(check.skipped for check in checks) == skipped
    assert all(bool(check.note) == bool(check.reason or check.dropped or check.skipped) for check in checks)
    if (name, split) == ("mag", "test"):
        assert Counter(len(check.plan.paths) for check in checks if not check.reason) == {1: 2006, 2: 547, 3: 3, 4: 1}
        assert Counter(len(path) - 1 for check in checks for path in check.plan.paths) == {1: 1654, 2: 1459}


def test_every_published_plan_text_is_read(shared_folder):
    rows = [json.loads(line) for line in open(shared_folder / "data" / "mor" / "plan-texts.jsonl", encoding="utf-8")]
    plans = {(row["dataset"], row["source_line"]): read_plan(row["plan"]) for row in rows}
    assert len(plans) == 90
    assert str(plans["mag", 10]) == (
        "institution<Sharif University of Technology> - author - paper<2018 simulated acoustic cell separation>"
        " & field_of_study<Flow psychology> - paper<2018 simulated acoustic cell separation>"
    )
    assert str(plans["prime", 3]) == "gene/protein<A2M PDGFR-beta> -[target]- drug"
    reasons = Counter(check_plan(plan, SCHEMAS[name], LAST_STEPS[name]).reason for (name, _), plan in plans.items())
    assert reasons == {"": 77, "single node": 7, "invalid": 5, "empty": 1}


@pytest.mark.parametrize(
    ("text", "routes"),
    [
        ("institution -> author -> paper <- field_of_study", [["institution", "author", "paper"], ["field_of_study", "paper"]]),
        (
            "paper -> author -> paper <- field_of_study <- paper",
            [["paper", "author", "paper"], ["paper", "field_of_study", "paper"]],
        ),
        (
            "author -> paper <- field_of_study -> paper",
            [["author", "paper"], ["field_of_study", "paper"], ["field_of_study", "paper"]],
        ),
        ("paper <- author", [["author", "paper"]]),
        ("paper", [["paper"]]),
        ("", [[""]]),
        ("paper->author", [["paper->author"]]),
        ("product -> product, product -> product", None),
    ],
)
def test_routes_of_a_metapath(text, routes):
    assert parse_metapath(text) == routes


# -- the toy traversal ------------------------------------------------------------------------------------------------

PAPERS = [str(n) for n in range(9)]
TOY_TYPES = (
    dict.fromkeys(PAPERS, "paper")
    | dict.fromkeys(["10", "11", "12"], "author")
    | dict.fromkeys(["20", "21"], "institution")
    | dict.fromkeys(["30", "31"], "field_of_study")
)
TOY_EDGES = [("20", "10"), ("20", "11"), ("21", "12")]
TOY_EDGES += [("10", "0"), ("10", "1"), ("11", "1"), ("11", "2"), ("12", "3")]
TOY_EDGES += [("30", "1"), ("30", "2"), ("30", "4"), ("31", "5")]


class Given:
    """Text similarities written down: by the restriction in the text, and those of the query alone."""

    restricted = {"inst": {"21": 7.0, "20": 6.0}, "topic": {"30": 5.0, "31": 4.0}, "words": {"0": 3.0, "8": 2.0, "7": 1.0}}
    plain = {"0": 0.1, "1": 0.2, "2": 0.3, "3": 0.9, "6": 0.8, "7": 0.7, "8": 0.6, "10": 0.4, "11": 0.5, "20": 0.05}

    @classmethod
    def value(cls, text, row):
        return cls.restricted.get(text.removeprefix("question "), cls.plain).get(list(TOY_TYPES)[row], 0.0)


def toy(device, plan, **options):
    ids = list(TOY_TYPES)
    graph = CorpusGraph(ids, ids, types=list(TOY_TYPES.values()), edges=TOY_EDGES, device=device)
    index = GraphIndex(graph, {"given": Written(len(ids), Given.value)})
    queries = Queries.of(index, ["question"], inputs={"plan": [plan]})
    operator = MixedTraversal(2, 2, 6, targets=["paper"], matching="given", **options)
    ranking = ranked(operator, queries)
    nodes = [graph.ids[n] for n in ranking.nodes[0].tolist() if n >= 0]
    trails = [[graph.ids[n] for n in trail if n >= 0] for trail in ranking.trails[0].tolist()[: len(nodes)]]
    return queries, ranking, dict(zip(nodes, trails, strict=True))


TWO_PATHS = "institution -> author -> paper <- field_of_study"


def test_toy_without_a_restriction_on_the_target(device):
    plan = {"Metapath": TWO_PATHS, "Restriction": {"institution": ["inst"], "field_of_study": ["topic"]}}
    queries, ranking, trails = toy(device, plan)
    by_plan = {node: trail for node, trail in trails.items() if len(trail) > 1}
    assert by_plan == {"1": ["20", "10", "1"], "2": ["20", "11", "2"]}
    filled = {node: trail for node, trail in trails.items() if len(trail) == 1}
    assert filled == {node: [node] for node in ("3", "6", "7", "8")}
    # The seed keeps its similarity to query and restriction; nodes reached by a step have that to the query.
    reranker = TrajectoryReranker(TrajectoryScorer(3, 8), matching="given")
    (seen,) = trajectories(reranker, queries, ranking)
    columns = {queries.index.graph.ids[n]: i for i, n in enumerate(ranking.nodes[0].tolist())}
    assert seen.text[columns["1"]].tolist() == pytest.approx([6.0, 0.4, 0.2, 0.2])
    assert seen.text[columns["3"]].tolist() == pytest.approx([0.0, 0.0, 0.9, 0.9])
    assert seen.identifier[columns["1"]].tolist() == [0, 1, 1]
    assert seen.identifier[columns["3"]].tolist() == [2, 2, 0]
    assert seen.patterns[columns["1"]] == ("institution", "author", "paper")
    assert seen.patterns[columns["3"]] == ("padding", "padding", "paper")


def test_toy_with_a_restriction_on_the_target(device):
    restriction = {"institution": ["inst"], "field_of_study": ["topic"], "paper": ["words"]}
    _, _, trails = toy(device, {"Metapath": TWO_PATHS, "Restriction": restriction}, fill=False)
    assert trails == {"0": ["20", "10", "0"], "1": ["20", "10", "1"], "2": ["20", "11", "2"], "8": ["8"]}


def test_toy_plans_that_end_in_text(device):
    for plan, reason in (
        ({"Metapath": "institution -> paper", "Restriction": {"institution": ["inst"]}}, "no relation"),
        ({"Metapath": "author -> paper", "Restriction": {"paper": ["words"]}}, "no path has a restriction"),
    ):
        _, ranking, trails = toy(device, plan)
        assert reason in ranking.notes[0][0]
        assert sorted(trails) == ["1", "2", "3", "6", "7", "8"]
        assert all(len(trail) == 1 for trail in trails.values())


def test_toy_plan_cut_to_its_last_three_steps():
    schema = TypeSchema.of(CorpusGraph(list(TOY_TYPES), [""] * 16, types=list(TOY_TYPES.values()), edges=TOY_EDGES), ["paper"])
    plan = read_plan({"Metapath": "institution -> author -> paper -> author -> paper", "Restriction": {"paper": ["words"]}})
    assert str(check_plan(plan, schema, 3).plan) == "paper<words> - author - paper<words>"
    assert check_plan(plan, schema).reason == "no start restriction"


# -- the published reranker -------------------------------------------------------------------------------------------

STRUCTURE = torch.tensor([[math.sin(0.01 * (j + 1) * (c + 1)) for j in range(768)] for c in range(3)])
TEXT = torch.tensor([[12.5, 8.25, 20, 0.85], [0, 15, 18, 0.8], [0, 0, 25, 0.78]])
IDENTIFIER = torch.tensor([[0, 1, 1], [2, 0, 1], [2, 2, 0]])


@pytest.mark.parametrize(
    ("name", "scores"),
    [
        ("mag", (29.52099, 30.29696, 24.38841)),
        ("amazon", (56.29645, 51.62596, 48.09109)),
        ("prime", (2.62498, 2.09848, -0.18836)),
    ],
)
def test_scores_of_the_published_weights(shared_folder, name, scores):
    weights = load_file(shared_folder / "data" / "mor" / f"reranker-{name}.safetensors")
    scorer = TrajectoryScorer.of_weights(weights)
    assert sum(p.numel() for p in scorer.parameters()) == 200_195
    with torch.no_grad():
        assert scorer(STRUCTURE, TEXT, IDENTIFIER).tolist() == pytest.approx(list(scores), abs=1e-4)


def test_published_weights_rerank_in_the_pipeline(shared_folder):
    plan = {"Metapath": TWO_PATHS, "Restriction": {"institution": ["inst"], "field_of_study": ["topic"]}}
    queries, ranking, _ = toy("cpu", plan)

    def encoder(texts):
        return [[math.sin(0.01 * (j + 1) * len(t)) for j in range(768)] for t in texts]

    file = shared_folder / "data" / "mor" / "reranker-mag.safetensors"
    reranker = TrajectoryReranker(file, embedding=encoder, matching="given")
    again = ranked(reranker, queries, ranking)
    (seen,) = trajectories(reranker, queries, ranking)
    structure = torch.tensor(encoder([" ".join(p) for p in seen.patterns]))
    with torch.no_grad():
        expected = reranker.scorer(structure, torch.from_numpy(seen.text), torch.from_numpy(seen.identifier))
    order = sorted(range(6), key=lambda i: -float(expected[i]))
    assert again.nodes[0].tolist() == [ranking.nodes[0].tolist()[i] for i in order]
    assert again.scores[0].tolist() == pytest.approx([float(expected[i]) for i in order], abs=1e-4)
    assert [t[-1] for t in again.trails[0].tolist()] == again.nodes[0].tolist()


def test_the_composition_is_the_papers():
    index = GraphIndex.from_texts(["a film", "a person"])
    reranker = TrajectoryReranker(TrajectoryScorer())
    assert Retriever(index, MoR(reranker=reranker)).operator.formula() == "O_vgs -> O_gm"
    assert [part.kind for part in Retriever(index, "mor").operator.parts()] == [OperatorKind.VECTOR_GRAPH_SEARCH]
