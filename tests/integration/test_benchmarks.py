"""The benchmarks that anyone runs by a command: what they check, and what they say where something is absent."""

import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = ["--nodes", "600", "--edges", "3000", "--queries", "3", "--hidden", "16", "--layers", "1", "--rounds", "1"]


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu")


@pytest.fixture
def results(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("results")


def test_gpu_benchmark_reads_every_word_of_its_texts(gpu, tmp_path):
    from transformers import AutoTokenizer

    gpu.save_cross_encoder(tmp_path, 16, 1)
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path))
    ids = tokenizer(gpu.words(5, 8, 0), gpu.words(5, 24, 1))["input_ids"]
    assert all(len(row) == 35 and tokenizer.unk_token_id not in row for row in ids)


def test_gpu_benchmark_finds_the_devices_equal(gpu, capsys):
    assert gpu.main(SMALL) == 0
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if "nodes/query" in line]
    assert [line.split("  ")[0].strip() for line in lines] == [
        "vector search",
        "PageRank",
        "spreading activation, cosine gate",
        "spreading activation, uniform gate",
        "mixed traversal",
        "GRanker",
        "STeX",
        "FastInsight",
    ]
    assert all(line.endswith("equal") and " 0 nodes/query" not in line for line in lines)
    assert ("There is no CUDA device here" in printed) != gpu.torch.cuda.is_available()


def test_gpu_benchmark_fails_where_an_operator_scores_otherwise(gpu, capsys, monkeypatch):
    cases, calls = gpu.cases, []

    def drifting(setting):
        made = cases(setting)
        search = made["vector search"]

        def drifted(rows):
            calls.append(rows)
            return [replace(found, scores=found.scores * (1 + 0.001 * len(calls))) for found in search(rows)]

        return {"vector search": drifted, "STeX": made["STeX"]}

    monkeypatch.setattr(gpu, "cases", drifting)
    assert gpu.main(SMALL) == 1
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert first.startswith("vector search") and "DIFFERENT for 3 queries; query 0: place 1: score" in first
    assert second.startswith("STeX") and second.endswith("equal")


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([(1, 0.9), (2, 0.5), (3, 0.2)], ""),
        ([(1, 0.90005), (2, 0.5), (3, 0.2)], ""),
        ([(1, 0.9002), (2, 0.5), (3, 0.2)], "place 1: score 0.9 against 0.9002"),
        ([(1, 0.9), (2, 0.5)], "3 nodes against 2"),
        ([(2, 0.9), (1, 0.5), (3, 0.2)], "place 1: node 1 against 2"),
        # A tie at the cut may let in another node; elsewhere none may be lost.
        ([(1, 0.9), (2, 0.5), (7, 0.2)], ""),
        ([(1, 0.9), (7, 0.5), (3, 0.2)], "place 2: node 2 against 7"),
        ([(1, float("nan")), (2, 0.5), (3, 0.2)], "place 1: score 0.9 against nan"),
    ],
)
def test_rankings_may_differ_by_rounding_only(gpu, found, says):
    assert gpu.disagreement([(1, 0.9), (2, 0.5), (3, 0.2)], found) == says


def test_nodes_of_nearly_equal_scores_may_trade_places(gpu):
    assert gpu.disagreement([(1, 0.50001), (2, 0.5)], [(2, 0.50001), (1, 0.5)]) == ""


@pytest.mark.process
def test_gpu_benchmark_needs_no_extra():
    code = (
        f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import gpu; "
        "print(*{'bm25s', 'faiss', 'langchain_core', 'llama_index', 'matplotlib'} & set(sys.modules))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == ""


def test_results_say_that_the_shared_folder_is_absent(results, tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPH_RETRIEVERS_SHARED", str(tmp_path))
    with pytest.raises(SystemExit, match=f"No datasets at {tmp_path}; set GRAPH_RETRIEVERS_SHARED"):
        results.main(["--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_results_write_tables_numbers_and_pictures_that_quote_no_dataset(results, tmp_path, monkeypatch):
    import json

    from tests.helpers import HashEmbedding, linked_edges, linked_nodes

    folder = tmp_path / "shared" / "data" / "metaqa"
    folder.mkdir(parents=True)
    rows = {
        "nodes": [{"id": n.id, "title": n.title, "text": n.text} for n in linked_nodes()],
        "edges": [{"source": s, "target": t, "relation": r} for s, t, r in linked_edges()],
        "queries": [
            {"id": "q1", "query": "Which estate held codebreakers?", "gold": ["bletchley"], "hops": 1, "split": "test"},
            {"id": "q2", "query": "What data do punched cards hold?", "gold": ["cards"], "hops": 2, "split": "test"},
        ],
    }
    for name, listed in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    table = results.replace(results.TABLES["metaqa"], retrievers=("vector", "hybrid", "ppr"), trained=(), subject="ppr")
    monkeypatch.setattr(results, "TABLES", {"metaqa": table})
    monkeypatch.setattr(results, "minilm", HashEmbedding)
    monkeypatch.setenv("GRAPH_RETRIEVERS_SHARED", str(tmp_path / "shared"))
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    results.main(["--only", "metaqa", "--out", str(tmp_path / "out"), "--kept", str(tmp_path / "kept"), "--timed-queries", "1"])
    made = tmp_path / "out" / "metaqa"
    numbers = json.loads((made / "metrics.json").read_text())
    assert numbers["queries"] == 2 and list(numbers["results"]) == ["vector", "hybrid", "ppr"]
    assert set(numbers["types"]) == {"hops: 1", "hops: 2"} and len(numbers["comparisons"]) == 3
    assert {"graph_retrievers", "torch", "python", "transformers", "seed", "precision", "date"} <= set(numbers["settings"])
    page = (made / "README.md").read_text()
    assert f"| a | vector | {'**' if numbers['results']['vector']['recall@10'] == 1 else ''}" in page
    assert {"overview.svg", "costs.svg", "types.svg", "quartiles.svg", "fates.svg"} == {file.name for file in made.glob("*.svg")}
    assert "metaqa/README.md" in (tmp_path / "out" / "README.md").read_text()
    for file in tmp_path.glob("out/**/*.*"):
        content = file.read_text()
        assert not any(said in content for said in ("codebreakers", "punched", "Bletchley", "bletchley"))


@pytest.mark.slow
def test_the_page_of_all_retrievers_says_what_its_figures_say(tmp_path, monkeypatch, capsys):
    import json
    import re

    from tests.helpers import linked_edges, linked_nodes

    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    peers = importlib.import_module("peers")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        rows = {
            "nodes": [{"id": n.id, "title": n.title, "text": n.text} for n in linked_nodes()],
            "edges": [{"source": s, "target": t} for s, t, _ in linked_edges()],
            "queries": [{"id": s + t, "query": s, "gold": [t], "split": "test"} for s, t, _ in linked_edges()],
        }
        for part, listed in rows.items():
            (tmp_path / name / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    (tmp_path / "their.py").write_text("def model(prompt):\n    return '{}'\n")
    monkeypatch.chdir(tmp_path)
    options = ["--only", "first,second", "--limit", "9", "--timed", "1", "--page", str(tmp_path / "page.md")]
    # The share of a table that is significant is decided by the numbers alone.
    monkeypatch.setattr(peers, "randomization_test", lambda left, right: 0.0 if sum(left) != sum(right) else 1.0)
    peers.main([str(tmp_path), *options, "--language-model", "their:model"])
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert f"## first\n\n9 questions; 12 nodes, {len(linked_edges())} edges." in page and "## second" in page
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if re.match(r"\| \S+ \| [01]\.", line)]
    table = {name: cells for name, *cells in rows}
    sentences = dict(re.findall(r"^- \*\*(.+?)\*\*: (.*)$", page, re.MULTILINE))
    left = set(re.findall(r"^- (\S+) was left out: ", page, re.MULTILINE))
    assert set(sentences) == set(peers.every_system()) == set(table) | left and not left & set(table)
    assert {"bm25", "hyde", "walk-fusion"} <= set(table) and {"re2", "lesegr", "mor"} <= left
    for name, cells in table.items():
        recall, base = float(cells[0]), float(table["hybrid"][0])
        if name == "hybrid":
            continue
        kind = "above it" if recall > base else "below it" if recall < base else "not different"
        assert f"Against hybrid: {kind} on first" in sentences[name]
        assert cells[4].startswith("**") == (recall != base)
    assert sentences["re2"] == "Left out on first, second."


@pytest.fixture
def two_datasets(tmp_path, monkeypatch):
    """Two equal shared datasets, "first" and "second", with hashes as vectors."""
    import json

    from tests.helpers import HashEmbedding, linked_edges, linked_nodes

    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("GRAPH_RETRIEVERS_SHARED", str(tmp_path))
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    rows = {
        "nodes": [{"id": n.id, "title": n.title, "text": n.text} for n in linked_nodes()],
        "edges": [{"source": s, "target": t} for s, t, _ in linked_edges()],
        "queries": [{"id": s + t, "query": s, "gold": [t], "split": "dev"} for s, t, _ in linked_edges()],
    }
    for name in ("second", "first"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for part, listed in rows.items():
            (tmp_path / "data" / name / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    (tmp_path / "data" / "no dataset").mkdir()
    monkeypatch.setattr(importlib.import_module("recall"), "minilm", HashEmbedding)


def test_recall_of_every_dataset_is_one_table(two_datasets, capsys):
    from tests.helpers import linked_edges, linked_nodes

    recall = importlib.import_module("recall")

    def table(*arguments):
        recall.main(arguments)
        heading, _, *lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
        assert heading[3:] == ["vector", "bm25", "hybrid", "ppr", "default", "which is"]
        return lines

    first, second = table("--split", "dev")
    assert [first[0], second[0]] == ["first", "second"] and first[1:] == second[1:]
    assert first[1:3] == [str(len(linked_edges())), str(len(linked_nodes()))] and first[-1] == "walk-fusion"
    assert all(0 < float(cell) <= 1 for cell in first[3:8])
    assert table("--only", "second") == [["second", "0", first[2], *["-"] * 5, "walk-fusion"]]
    with pytest.raises(SystemExit):
        recall.main(["--only", "third"])
    assert "no dataset third" in capsys.readouterr().err


def test_the_form_is_measured_with_and_without_sources(two_datasets, capsys):
    sources = importlib.import_module("sources")
    sources.main(["--split", "dev", "--only", "first"])
    heading, _, line = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    cells = dict(zip(heading, line, strict=True))
    assert cells["form without"] == cells["form with"] == "names" and cells["questions with other hits"] == "0"
    assert 0 < float(cells["without"]) == float(cells["with"]) <= 1 and 0 < float(cells["links"]) <= 1


def test_recall_counts_references_by_number(two_datasets):
    from graph_retrievers.datasets import read_dataset

    folder = Path(importlib.import_module("results").shared_folder()) / "data" / "first"
    with (folder / "nodes.jsonl").open("a") as file:
        file.writelines(f'{{"id": "{n}", "text": "Article {n}\\nSee Article {n % 3 + 1}."}}\n' for n in (1, 2, 3))
    graph = importlib.import_module("recall").index_of(read_dataset(folder)).graph
    assert [edge.target for edge in graph.edges() if edge.relation == "refers"] == ["2", "3", "1"]


def test_the_compositions_of_the_page_are_measured(tmp_path, monkeypatch, capsys):
    import json

    from tests.helpers import linked_edges, linked_nodes

    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "small").mkdir()
    rows = {
        "nodes": [{"id": n.id, "title": n.title, "text": n.text} for n in linked_nodes()],
        "edges": [{"source": s, "target": t} for s, t, _ in linked_edges()],
        "queries": [{"id": s + t, "query": s, "gold": [t], "split": "dev"} for s, t, _ in linked_edges()],
    }
    for part, listed in rows.items():
        (tmp_path / "small" / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    compositions = importlib.import_module("compositions")
    compositions.main([str(tmp_path), "--only", "small", "--split", "dev"])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["small,", "retriever", "hybrid", "walk-fusion", *compositions.NAMES]


@pytest.mark.slow
def test_many_threads_and_tasks_get_the_answers_given_alone(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    sharing = importlib.import_module("sharing")
    assert sharing.measure(2.0, threads=8, tasks=50, nodes=200) == 0
    threads, tasks = (line.split(": ")[1].split()[0] for line in capsys.readouterr().out.splitlines()[1:3])
    assert int(threads.replace(",", "")) > 0 and int(tasks.replace(",", "")) > 0


def test_sharing_measures_a_hosted_embedding(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    took = importlib.import_module("sharing").hosted(0.0, calls=3, nodes=40)
    assert len(took) == 3 + 2 * 2 * 5 == capsys.readouterr().out.count(" s\n")


def test_sharing_counts_answers_that_differ(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    sharing = importlib.import_module("sharing")
    index, questions = sharing.made_index(50, None)
    retriever = sharing.Retriever(index, "hybrid")
    alone = {(retriever.name, question): [("0", 0.0)] for question in questions}
    answers, wrong = sharing.with_threads([retriever], questions, alone, 2, 0.2)
    assert answers == wrong > 0
