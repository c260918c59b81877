"""Tables of Recall@10 on the pages about systems have the figures of the benchmarks' pages of results."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
WALKS = ("g-retriever", "hipporag", "lightrag", "pathrag", "ppr", "spreading-activation", "traversals")


def tables(file):
    """Return the tables of a page: each a list of rows, which are lists of cells."""
    blocks = re.findall(r"(?:^\|.*\|\n)+", file.read_text(encoding="utf-8"), re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in block.splitlines()] for block in blocks]


def cells(file, heading):
    """Return the cells of the tables whose first column has this heading, by system and dataset."""
    found = {}
    for (first, *datasets), _, *rows in tables(file):
        if first == heading:
            for label, *row in rows:
                for dataset, cell in zip(datasets, row, strict=True):
                    found[label.strip("`"), dataset.partition(",")[0]] = cell
    return found


def walks():
    """Return the figure of each system, alone and fused, on each dataset of the page of walks."""
    found = {}
    for (label, dataset), cell in cells(RESULTS / "walks" / "README.md", "system").items():
        names = (label, f"Fused({label}, Hybrid())")
        found |= {(name, dataset): figure.rstrip("*") for name, figure in zip(names, cell.split(" / "), strict=False)}
    return found


def encoded():
    """Return the figures with a cross-encoder, which are on two other pages."""
    peers = [table for table in tables(RESULTS / "peers" / "README.md") if table[0][0] == "retriever"]
    wiki, _, _, manual = ({name: cell for name, cell, *_ in table} for table in peers)
    alone = {name: cell for name, cell, *_ in tables(RESULTS / "postgres-docs" / "README.md")[0]}["fastinsight"]
    found = {("FastInsight()", "wiki-multihop"): wiki["fastinsight"], ("FastInsight()", "postgres-docs"): alone}
    for dataset, figures in (("wiki-multihop", wiki), ("postgres-docs", manual)):
        found |= {
            ("Fused(FastInsight(), Hybrid(fusion='rrf'))", dataset): figures["fastinsight-hybrid"],
            ("GAR()", dataset): figures["gar"],
            ("Re2()", dataset): figures["re2"],
            ("Vector()", dataset): figures["vector"],
            ("Hybrid(fusion='rrf')", dataset): figures["hybrid"],
        }
    return found


def test_the_page_of_walks_is_what_the_benchmark_writes(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("walks")
    figures = json.loads((RESULTS / "walks" / "figures.json").read_text(encoding="utf-8"))
    columns = {name: figures[name] for name in benchmark.DATASETS if name in figures}
    (split,) = {column["split"] for column in columns.values()}
    assert set(columns) == set(figures)
    assert (RESULTS / "walks" / "README.md").read_text(encoding="utf-8") == benchmark.page(columns, split)


def test_the_page_of_postgresql_is_what_the_benchmark_writes(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("postgres")
    figures = json.loads((RESULTS / "postgres" / "figures.json").read_text(encoding="utf-8"))
    assert (RESULTS / "postgres" / "README.md").read_text(encoding="utf-8") == benchmark.page(figures)


def test_the_table_of_systems_alone_and_fused_is_that_of_the_benchmark():
    told, wanted = (cells(file, "system") for file in (ROOT / "docs/alone-and-fused.md", RESULTS / "walks" / "README.md"))
    assert {label for label, _ in told} == {label for label, _ in wanted}
    assert told == {key: wanted.get(key, "").replace("*", "") for key in told}


@pytest.mark.parametrize("page", WALKS)
def test_a_page_on_walks_has_the_figures_of_the_benchmark(page):
    told, wanted = cells(ROOT / "docs" / "retrievers" / f"{page}.md", "Recall@10"), walks()
    assert len(told) >= 3 and told == {key: wanted.get(key) for key in told}


@pytest.mark.parametrize("page", ["re2", "gar", "fastinsight"])
def test_a_page_on_cross_encoders_has_the_figures_of_the_benchmarks(page):
    told, wanted = cells(ROOT / "docs" / "retrievers" / f"{page}.md", "Recall@10 with a cross-encoder"), encoded()
    assert len(told) >= 4 and told == {key: wanted.get(key) for key in told}


def test_vector_search_has_the_same_figures_on_the_pages_of_results():
    found, other = walks(), encoded()
    both = [key for key in found.keys() & other.keys() if key[0] == "Vector()"]
    assert both and {key: found[key] for key in both} == {key: other[key] for key in both}
