"""The fit command on a dataset folder, and evaluate with what it wrote."""

import gzip
import json

import pytest

from graph_retrievers.commands.cli import main
from tests.movies import FILMS, PEOPLE, movie_edges, movie_nodes

pytestmark = pytest.mark.slow


def write(file, rows):
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)


def test_fit_then_evaluate(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    data, folder = tmp_path / "films", tmp_path / "checkpoint"
    data.mkdir()
    write(data / "nodes.jsonl.gz", [{"id": n.id, "title": n.title, "text": n.text, "type": n.type} for n in movie_nodes()])
    write(data / "edges.jsonl.gz", [{"source": a, "target": b, "relation": r} for a, b, r in movie_edges()])
    queries = []
    for i, split in enumerate(["train"] * 4 + ["dev", "test"]):
        plan = [{"type": "person", "restriction": PEOPLE[i]}, {"type": "movie", "relation": "directed_by"}]
        queries.append({"id": f"d{i}", "query": f"films directed by {PEOPLE[i]}", "gold": [f"m{i}"], "split": split, "plan": plan})
        plan = [{"type": "movie", "restriction": FILMS[i]}, {"type": "genre", "relation": "has_genre"}]
        queries.append({"id": f"g{i}", "query": f"the genre of {FILMS[i]}", "gold": [f"g{i % 3}"], "split": split, "plan": plan})
    write(data / "queries.jsonl.gz", queries)
    assert main(["fit", "mor", str(data), "--out", str(folder)]) == 0
    assert "mor trained on films" in capsys.readouterr().out
    out = tmp_path / "results.json"
    names = "vector,mor,mor(rerank=False),mor(structure=False, rerank=False),mor(matches=0, rerank=False)"
    command = ["evaluate", str(data), "--retrievers", names, "--timed-queries", "0", "-k", "1", "--json", str(out)]
    checkpoints = [part for name in ("mor", "mor(rerank=False)") for part in ("--checkpoint", f"{name}={folder}")]
    assert main([*command, *checkpoints, "--use", "plan"]) == 0
    results = json.loads(out.read_text())["results"]
    assert results["mor"]["hit@1"] == results["mor(matches=0, rerank=False)"]["hit@1"] == 1.0
    # By the question alone: the trained planner makes the plan.
    assert main([*command, *checkpoints]) == 0
    results = json.loads(out.read_text())["results"]
    assert results["mor"]["hit@1"] == results["mor(rerank=False)"]["hit@1"] == 1.0
    assert results["mor(matches=0, rerank=False)"]["hit@1"] < 1.0
