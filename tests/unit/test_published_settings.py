"""Published settings: the defaults of each system are its paper's, but for the table of docs/alone-and-fused.md."""

import ast
import json
import math
import re
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

from graph_retrievers import GraphIndex, Node
from graph_retrievers.commands.cli import main
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Edge
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals.meaning import MeaningGraph
from graph_retrievers.systems.baselines import BM25, Vector
from graph_retrievers.systems.grag.model import DocumentGraphNetwork
from graph_retrievers.systems.grag.retriever import GRAG
from graph_retrievers.systems.grag.training import fit_grag
from graph_retrievers.systems.lesegr.retriever import LeSeGR
from graph_retrievers.systems.lesegr.training import fit_lesegr
from graph_retrievers.systems.system import SYSTEMS
from tests.helpers import HashEmbedding
from tests.retrievers import on

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "alone-and-fused.md").read_text(encoding="utf-8")
CLASSES = {kind.__name__: kind for kind in SYSTEMS.values()}

# What the papers and the published code say: section 4.1 of FastInsight, of MoR and 5.1 of CG-RAG, appendix of G-RAG's section 4,
# Algorithm 1 and the settings of QASA, config_utils.py of HippoRAG 2, constants.py of LightRAG 1.5, operate.py of PathRAG,
# retrieval.py of G-Retriever, gar.py of pyterrier_adaptive, graph-retriever 0.8.0, wiki_func.py of ToG-2, sections 3 of HyDE and
# IRCoT.
_TRAVERSAL = {"start_k": 4, "adjacent_k": 10, "max_depth": None, "k": 5, "backfill": False}
PUBLISHED = {
    "Vector": {},
    "BM25": {},
    "Hybrid": {"fusion": "weighted", "weights": (1.0, 1.0)},
    "Re2": {"depth": 100, "backfill": False},
    "FastInsight": {
        **{"budget": 100, "nodes_per_round": 10, "alpha": 0.2, "beta": 1.0},
        **{"degree": "graph", "weighted": False, "paths": False, "backfill": False},
    },
    "GAR": {"budget": 1000, "nodes_per_round": 16, "backfill": False},
    "PPR": {"seeds": 5, "damping": 0.5, "passage_weight": 0.05, "backfill": False},
    "HippoRAG": {"facts": 5, "damping": 0.5, "passage_weight": 0.05, "synonyms": 0.8},
    "SpreadingActivation": {
        **{"steps": 3, "decay": 0.7, "threshold": 0.01, "gate": "cosine", "semantics": "set", "hub_exponent": 0.0},
        **{"chains": "hits", "passages": False, "k": 30, "backfill": False},
    },
    "Eager": _TRAVERSAL,
    "MMR": {**_TRAVERSAL, "lambda_mult": 0.5, "min_mmr_score": -math.inf},
    "Scored": {**_TRAVERSAL, "per_iteration_limit": None},
    "HyDE": {"search": Vector(), "documents": 8},
    "ThinkOnGraph": {"width": 3, "depth": 3, "candidates": 20, "backfill": False},
    "ThinkOnGraph2": {"width": 3, "depth": 3, "candidates": 50, "texts": 10, "decay": 0.8, "backfill": False},
    "KG2RAG": {"seeds": 10, "hops": 1, "backfill": False},
    "GraphRAGLocal": {"entities": 10, "relationships": 10, "facts": True, "backfill": False},
    "QAFD": {"mass": 10.0, "query_weight": 0.25, "backfill": False},
    "HyKGE": {"threshold": 0.7, "hops": 2, "window": 35, "overlap": 15, "facts": True, "backfill": False},
    "EgoGRAG": {"graphs": 20, "hops": 2, "entities": 10, "backfill": False},
    "HippoRAG1": {"damping": 0.5, "synonyms": 0.8, "backfill": False},
    "SubgraphRAG": {"triples": 100, "hops": 2, "backfill": False},
    "GNNRAG": {"mass": 0.95, "candidates": 2000, "backfill": False},
    "KAR": {"search": Vector(), "hops": 2, "neighbors": 10, "expansions": 3},
    "HybGRAG": {"iterations": 4, "backfill": False},
    "IRCoT": {"search": BM25(), "passages": 4, "budget": 15, "steps": 8, "backfill": False},
    "LightRAG": {
        **{"mode": "mix", "top_k": 40, "chunk_top_k": 20, "related_chunks": 5, "chunk_pick": "vector", "threshold": 0.2},
        **{"entity_tokens": 6000, "relation_tokens": 8000, "facts": True, "backfill": False},
    },
    "LinearRAG": {
        **{"threshold": 0.4, "iterations": 4, "damping": 0.85, "similarity_weight": 1.0, "passage_weight": 0.05},
        "backfill": False,
    },
    "PathRAG": {
        **{"top_k": 40, "paths": 15, "alpha": 0.8, "theta": 0.3, "chains": "hits", "threshold": 0.2},
        "backfill": False,
    },
    "GRetriever": {"seeds": 3, "seed_edges": 3, "cost": 0.5, "facts": True, "k": 1000, "backfill": False},
    "MoR": {
        **{"rerank": True, "seeds": 5, "matches": 10, "candidates": 100, "exact_titles": False, "structure": True, "fill": True},
        "backfill": False,
    },
    "LeSeGR": {
        "model": {"encoder": "transformer", "layers": 2, "hidden": 1024, "heads": 4, "hub_exponent": 0.0},
        **{"hops": None, "direction": "in", "context": None, "backfill": False},
    },
    "GRAG": {
        "network": {"layer": "gcn", "hidden": 8, "layers": 2, "dropout": 0.1, "paths": True},
        **{"first": "vector", "depth": 100, "backfill": False},
    },
}
# Parameters that no publication settles: what the caller brings, or what has no place in the original.
BROUGHT = {"first", "language_model", "linking", "chain_search", "passage_type", "checkpoint", "parser", "planner", "reranker"}
BROUGHT |= {"extractor", "traversal", "scorer", "signal", "sparse"}
# Nodes that are looked at: all, in the original.
BOUNDS = {("LeSeGR", "candidates"), ("GRetriever", "candidates"), ("KG2RAG", "candidates"), ("EgoGRAG", "centres")}
# Numbers that a paper does not give, or gives for its own collections.
BOUNDS |= {("GraphRAGLocal", "report_type"), ("QAFD", "rounds"), ("QAFD", "seeds")}
BOUNDS |= {("HyKGE", "chains"), ("HyKGE", "entities"), ("HyKGE", "candidates"), ("HybGRAG", "judged")}
BOUNDS |= {("GNNRAG", "hops")}
BOUNDS |= {("KAR", "entities")}

# How the operators of each show that.
SHOWN = {
    "re2": ["VectorSearch(k=100, returned=True", "backfill=False"],
    "fastinsight": ["VectorSearch(k=10, ", "alpha=0.2", "STeX(beta=1.0, nodes_per_round=10, budget=100)", "budget=100,"],
    "gar": ["VectorSearch(k=1000, ", "AdaptiveReranking(budget=1000, nodes_per_round=16)"],
    "ppr": ["VectorSearch(k=5, ", "damping=0.5", "passage_weight=0.05"],
    "hipporag": ["FactLinking(limit=5", "damping=0.5, passage_weight=0.05, synonyms=0.8"],
    "spreading": ["steps=3", "decay=0.7", "threshold=0.01", "gate='cosine'", "hub_exponent=0.0", "limit=30, length=4", "k=30"],
    "eager": ["VectorSearch(k=4, ", "Eager()", "k=5, backfill=False"],
    "mmr": ["VectorSearch(k=4, ", "MMR()", "k=5, backfill=False"],
    "scored": ["VectorSearch(k=4, ", "Scored()", "k=5, backfill=False"],
    "hyde": ["VectorSearch(", "documents=8"],
    "ircot": ["BM25Search(", "passages=4, budget=15, steps=8", "backfill=False"],
    "lightrag": [
        "VectorSearch(k=40, ",
        "VectorSearch(k=20, ",
        "FactSearch(limit=40",
        "threshold=0.2",
        "pick='vector'",
        "related=5",
    ],
    "linear-rag": ["threshold=0.4, iterations=4, damping=0.85"],
    "pathrag": ["VectorSearch(k=40, ", "PathRAG(chains='hits')", "threshold=0.2"],
    "g-retriever": ["VectorSearch(k=3, ", "GRetriever(facts=True)", "k=1000, backfill=False"],
    "mor": ["seeds=5, matches=10, candidates=100", "fill=True, structure=True, exact_titles=False"],
    "lesegr": ["direction='in'"],
    "g-rag": ["VectorSearch(", "depth=100"],
}


@pytest.fixture(scope="module")
def index():
    nodes = [
        Node("p", "Ada wrote a program. An engine.", type="passage"),
        Node("ada", "A mathematician.", "Ada", "person"),
        Node("engine", "A machine.", "Engine", "thing"),
    ]
    edges = [Edge("p", "ada", "mentions"), Edge("ada", "engine", "wrote for")]
    return GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(8), edge_signals=True)


def defaults(kind):
    shared = {name: one.default for name, one in signature(Retriever.__init__).parameters.items() if one.kind is one.KEYWORD_ONLY}
    return {**shared, "k": kind.default_k, **{field.name: field.default for field in fields(kind)}}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values_are_of_parameters_and_leave_none_out(name):
    own = {field.name for field in fields(CLASSES[name])}
    assert PUBLISHED[name].keys() <= defaults(CLASSES[name]).keys()
    left_out = {each for each in own - PUBLISHED[name].keys() - BROUGHT if (name, each) not in BOUNDS}
    assert not left_out, "a parameter is published, or named above as one that no publication settles"


def test_the_defaults_are_the_published_values_but_for_the_table_of_the_page():
    table = PAGE.partition("| class | parameter | default | published | why |\n")[2].partition("\n\n")[0]
    told = {}
    for line in table.splitlines()[1:]:
        names, parameter, default, published, why = (cell.strip() for cell in line.strip("|").split(" | "))
        assert why
        for name in re.findall(r"`(\w+)`", names):
            assert (name, parameter.strip("`")) not in told
            told[name, parameter.strip("`")] = tuple(ast.literal_eval(cell.strip("`")) for cell in (default, published))
    differ = {
        (name, parameter): (defaults(CLASSES[name])[parameter], value)
        for name, values in PUBLISHED.items()
        for parameter, value in values.items()
        if defaults(CLASSES[name])[parameter] != value
    }
    assert told == differ


def test_the_page_names_those_without_a_difference_and_those_without_a_publication():
    named = {word: re.findall(r"`(\w+)`", PAGE.partition(word)[2].partition("\n\n" if "has" in word else "\n")[0]) for word in (
        "These differ in nothing:", "These are of no paper, so nobody has published settings:",
    )}  # fmt: skip
    same = [name for name, values in PUBLISHED.items() if all(defaults(CLASSES[name])[word] == v for word, v in values.items())]
    none = [name for name in CLASSES if name not in PUBLISHED]
    assert [sorted(names) for names in named.values()] == [sorted(same), sorted(none)]


@pytest.mark.parametrize(("name", "said"), SHOWN.items())
def test_each_system_is_what_its_paper_says(index, name, said):
    options = dict(PUBLISHED[SYSTEMS[name].__name__])
    # As if it were trained; without, it is refused.
    options |= {"network": DocumentGraphNetwork(8, **options["network"])} if name == "g-rag" else {}
    made = on(index, name, **options)
    shown = repr(made)
    assert [part for part in said if part not in shown] == [], shown
    assert made.backfill == (name in ("hipporag", "hyde"))


def test_the_networks_are_those_of_the_papers(index, data, tmp_path):
    options = PUBLISHED["LeSeGR"]
    search = on(index, "lesegr", **options).operator.operators[-1]
    assert (search.hops, search.context) == (None, None)
    assert search.model.config() == {**options["model"], "dimension": 8, "sparse_gate": True, "dense_gate": True}
    assert on(index, "lesegr", **options).lacks()
    indexed = GraphIndex.from_graph(data.graph(), embedding=HashEmbedding(8))
    parser = lambda text: MeaningGraph(tuple(text.strip(".").split()), ())  # noqa: E731
    fit_grag(data, indexed, tmp_path, paper=True, parser=parser, training={"steps": 2, "evaluate_every": 1})
    written = json.loads((tmp_path / "g-rag.json").read_text())
    network = written["network"]
    assert written["together"] is True
    assert (network["kind"], network["layer"], network["hidden"], network["layers"]) == ("published", "gcn", 8, 2)
    assert (network["dropout"], network["paths"]) == (0.1, True)


def test_nothing_depends_on_whether_titles_are_words():
    # Titles are ordinary words of long texts.
    nodes = [Node(str(n), "the page on the index of the table " * 5, ("Index", "Table", "Page")[n % 3]) for n in range(36)]
    manual = GraphIndex.from_nodes(nodes, [("0", str(n)) for n in range(1, 36)], embedding=HashEmbedding())
    for name in ("fastinsight", "ppr", "spreading"):
        assert "ReciprocalRankFusion" not in repr(Retriever(manual, name))
    shown = repr(Retriever(manual, "spreading"))
    assert "threshold=0.01," in shown and "hub_exponent=0.0" in shown


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    nodes = [Node(f"{kind}{n}", f"A page on {word} {n}.") for n in range(4) for kind, word in (("a", "looms"), ("b", "cards"))]
    edges = [Edge(f"a{n}", f"b{n}") for n in range(4)]
    queries = [Query(f"q{n}", f"looms {n}", (f"a{n}", f"b{n}"), split="dev" if n == 3 else "train") for n in range(4)]
    return Dataset("pages", nodes, edges, queries, True)


def test_a_checkpoint_of_the_papers_lesegr_is_asked_for(data, tmp_path):
    index = GraphIndex.from_graph(data.graph(), embedding=HashEmbedding(8))
    training, options = {"epochs": 1}, PUBLISHED["LeSeGR"]
    fit_lesegr(data, index, tmp_path / "own", training=training)
    fit_lesegr(data, index, tmp_path / "paper", training=training, paper=True)
    made = on(index, "lesegr", checkpoint=tmp_path / "paper", **options)
    search = made.operator.operators[-1]
    assert (search.model.encoder, search.model.layers, search.hops, search.direction) == ("transformer", 2, None, "in")
    assert made.lacks() == () and len(made.retrieve("looms 1", k=3)) == 3
    with pytest.raises(InvalidArgumentError, match="was trained with encoder 'sum', not 'transformer'"):
        on(index, "lesegr", checkpoint=tmp_path / "own", **options)
    with pytest.raises(InvalidArgumentError, match="was trained with hops None, not 1"):
        Retriever(index, LeSeGR(checkpoint=tmp_path / "paper", model={"encoder": "transformer"}))
    assert Retriever(index, LeSeGR(checkpoint=tmp_path / "own")).operator.operators[-1].model.encoder == "sum"
    with pytest.raises(InvalidArgumentError, match="Pass either checkpoint= or model="):
        Retriever(index, LeSeGR(checkpoint=tmp_path / "own", model=search.model))


def test_a_checkpoint_of_the_papers_grag_is_asked_for(data, tmp_path):
    def parser(text):
        return MeaningGraph(tuple(text.strip(".").split()), ())

    parser.name = "words"
    index = GraphIndex.from_graph(data.graph(), embedding=HashEmbedding(8))
    options = {"parser": parser, "training": {"steps": 2, "evaluate_every": 1}}
    fit_grag(data, index, tmp_path / "own", first="bm25", **options)
    fit_grag(data, index, tmp_path / "paper", paper=True, **options)
    made = on(index, "g-rag", checkpoint=tmp_path / "paper", parser=parser, **PUBLISHED["GRAG"])
    assert made.operator.operators[-1].network.kind == "published" and made.lacks() == ()
    assert len(made.retrieve("looms 1", k=3)) == 3
    with pytest.raises(InvalidArgumentError, match="was trained with a network of kind 'evidence', not 'published'"):
        on(index, "g-rag", checkpoint=tmp_path / "own", parser=parser, **PUBLISHED["GRAG"])
    with pytest.raises(InvalidArgumentError, match="was trained with a network of hidden 8, not 16"):
        Retriever(index, GRAG(checkpoint=tmp_path / "paper", network={"hidden": 16}, parser=parser))


def test_fit_takes_paper_where_the_default_network_is_another(tmp_path, capsys):
    assert main(["fit", "mor", str(tmp_path), "--out", str(tmp_path / "out"), "--paper"]) == 2
    assert "mor has one kind of network; leave out --paper" in capsys.readouterr().err
