"""The tables of the README: what each retriever needs, as the code shows it, and figures of the pages of results."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from graph_retrievers import GraphIndex, Node, Retriever
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.systems import read_system
from tests.retrievers import EVERY, FUSED_FASTINSIGHT, FUSED_SPREADING
from tests.unit.test_figures import walks

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COLUMNS = ("vectors", "words", "edges", "types", "cross-encoder", "language model", "training")
PLAN = [{"type": "person"}, {"type": "place"}]
# Entities of an encyclopedia with a passage, and passages of a manual, whose headings are ordinary words.
NAMES = [
    Node("a", "Ada Holm wrote of Kismet Hall.", "Ada Holm", "person"),
    Node("b", "Kismet Hall was built by Ada Holm.", "Kismet Hall", "place"),
    Node("c", "Of both.", type="passage"),
]
PASSAGES = ("LightRAG", "PathRAG", "HippoRAG", "HippoRAG1", "KG2RAG", "GraphRAGLocal", "ThinkOnGraph2")
LONG = "It holds what is needed for the work of a day, and more of it than anybody could use in a week or two, as people say of it."
TASKS = ["install it", "run it", "stop it", "notes on it", "tables of it"] * 3
MANUAL = [Node(str(row), f"{task} {LONG}", task.capitalize()) for row, task in enumerate(TASKS)]


def rows(title):
    """Yield the cells of each row of the table below a heading of the README."""
    table = README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    for line in re.findall(r"^\| `.+$", table, re.MULTILINE):
        yield [cell.strip() for cell in line.strip("| ").split("|")]


NEEDS = {}
for names, *cells in rows("What each retriever needs"):
    NEEDS |= {name: (dict(zip(COLUMNS, cells, strict=False)), cells[-1]) for name in re.findall(r"`([^`]+)`", names)}


def index(nodes=NAMES, edges=None, vectors=True, **settings):
    embedding = (lambda texts: [[1.0, 0.0]] * len(texts)) if vectors else None
    if edges is None:
        edges = [("a", "b", "mentions"), ("c", "a", "of"), ("c", "b", "of")] if nodes is NAMES else [("0", "1", "next")]
    return GraphIndex.from_nodes(nodes, edges, embedding=embedding, edge_signals=vectors and bool(edges), **settings)


def asked(name, on):
    retriever = Retriever(on, name)
    return retriever.retrieve("What did Ada Holm write of?", **({"plan": PLAN} if "plan" in retriever.inputs else {}))


def lacks_edges(name, nodes):
    return any(note.startswith("there are no edges, so that walks") for note in asked(name, index(nodes, edges=[])).notes)


def refused(name, on):
    try:
        asked(name, on)
    except MissingSignalError:
        return True
    return False


def test_every_retriever_has_a_row_and_no_other_has():
    assert sorted(NEEDS) == sorted(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_a_retriever_needs_what_the_table_says(name):
    told, _ = NEEDS[name]
    lacks = " ".join(Retriever(index(), name).lacks())
    assert ("●" == told["vectors"]) == refused(name, index(vectors=False))
    assert ("●" == told["words"]) == refused(name, index(bm25=False))
    assert ("●" == told["edges"]) == (lacks_edges(name, NAMES))
    assert ("●" == told["types"]) == ("plan" in lacks)
    assert ("●" == told["cross-encoder"]) == ("relevance model" in lacks)
    assert ("●" == told["language model"]) == ("language model" in lacks)
    assert ("●" == told["training"]) == ("trained" in lacks)


@pytest.mark.parametrize("name", EVERY)
def test_a_retriever_uses_what_the_table_says(name):
    told, _ = NEEDS[name]
    keywords = {field.name for field in fields(read_system(name))}
    manual = Retriever(index(MANUAL), name)
    words = any(part.name == "HybridSearch" for part in manual.operator.parts()) or name.startswith("mor")
    paths = any(part.name == "MetapathSearch" for part in Retriever(index(), name).operator.parts())
    joined = told["edges"] != "●" and lacks_edges(name, MANUAL)
    assert ("○" == told["words"]) == (words and told["words"] != "●")
    assert ("○" == told["edges"]) == joined
    passages = "passage_type" in keywords and type(read_system(name)).__name__ in PASSAGES
    assert ("○" == told["types"]) == (paths or passages)
    assert ("○" == told["language model"]) == bool({"language_model", "planner"} & keywords and told["language model"] != "●")
    assert ("○" == told["training"]) == ("checkpoint" in keywords and told["training"] != "●")


def measured(dataset):
    """Return the columns of a dataset's table of all retrievers."""
    page = (ROOT / "benchmarks/results/peers/README.md").read_text(encoding="utf-8")
    table = page.partition(f"\n## {dataset}\n")[2].partition("\n## ")[0]
    return {name: cells.split(" | ") for name, cells in re.findall(r"^\| ([a-z][\w-]+) \| (\d.+?) \|$", table, re.MULTILINE)}


DAMPED = "SpreadingActivation(threshold=0.001, hub_exponent=1)"
# Rows of the page of walks: on Wikipedia, and on the manual, where some are fused with hybrid search.
WALKED = {
    "vector": ("Vector()", "Vector()"),
    "hybrid": ("Hybrid()", "Hybrid()"),
    "eager": ("Eager()", "Eager()"),
    "ppr": ("PPR()", "Fused(PPR(), Hybrid())"),
    "spreading": (DAMPED, f"Fused({DAMPED}, Hybrid())"),
    "walk-fusion": ("WalkFusion()", "WalkFusion()"),
}


def test_the_figures_are_those_of_the_pages_of_results():
    peers, walked = {name: measured(name) for name in ("wiki-multihop", "postgres-docs", "metaqa")}, walks()
    page = (ROOT / "benchmarks/results/metaqa/README.md").read_text(encoding="utf-8")
    films = dict(re.findall(r"^\| [a-z] \| ([a-z-]+) \| \**([\d.]+)", page, re.MULTILINE))
    for label, *cells in rows("Results"):
        name = re.match(r"`([\w-]+)`", label)[1]
        figures = [cell.strip("*") for cell in cells[:3]]
        assert figures[2] == (films[name] if name in films else peers["metaqa"][name][0]), name
        if name != "mor":
            found = [peers[dataset][name][0] for dataset in ("wiki-multihop", "postgres-docs")]
            if name in WALKED:
                found = [
                    walked[row, dataset] for row, dataset in zip(WALKED[name], ("wiki-multihop", "postgres-docs"), strict=True)
                ]
            assert figures[:2] == found, name
            assert cells[3] == f"{float(peers['wiki-multihop'][name][3]):.0f}", name


# Systems by the names that they had when they were measured.
MEASURED = {"spreading(gate='uniform')": "spreading-uniform"}


def test_the_costs_are_those_of_the_pages_of_results():
    wiki = measured("wiki-multihop")
    timed = {name: re.match(r"(\d+) ms", cost) for name, (_, cost) in NEEDS.items()}
    assert len(list(filter(None, timed.values()))) > 15
    for name, found in timed.items():
        if found and name not in (FUSED_FASTINSIGHT, FUSED_SPREADING, "scored"):
            assert found[1] == f"{float(wiki[MEASURED.get(name, name)][3]):.0f}", name
