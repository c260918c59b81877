"""Tuning: what is surely better than the default is chosen, kept in a folder, and opened by every door."""

import json
import os
from dataclasses import replace

import pytest
import torch

from graph_retrievers import GraphIndex, build_retriever
from graph_retrievers.cli import main
from graph_retrievers.datasets import Query
from graph_retrievers.errors import DatasetError, InvalidArgumentError, MissingSignalError
from graph_retrievers.evaluation import tuning
from graph_retrievers.evaluation.tuning import candidates, tune
from graph_retrievers.systems.grag.retriever import fit_grag
from graph_retrievers.systems.tuned import load_retriever, write_choice
from langchain_graph_retrievers import GraphRetriever
from llama_graph_retrievers import GraphRetriever as LlamaGraphRetriever
from tests.helpers import HashEmbedding, linked_edges, linked_index, linked_nodes
from tests.unit.test_grag_training import dataset as towns
from tests.unit.test_grag_training import index_of

pytestmark = pytest.mark.slow

COUNT = 60


def embed(texts):
    """A text is at the place of the number that it begins with; all texts resemble each other."""
    places = torch.eye(COUNT)[[int(text.split()[0][1:]) for text in texts]]
    return torch.cat([places, torch.full((len(texts), 1), 2.0)], 1) / 5**0.5


@pytest.fixture(scope="module")
def misled():
    """An index whose vectors find every answer, and whose words and titles find another node."""
    words = [f"word{(number + 7) % COUNT}" for number in range(COUNT)]
    texts = [f"a{number} {word}" for number, word in enumerate(words)]
    return GraphIndex.from_texts(texts, titles=words, embedding=embed, include_titles=False)


def questions(count=COUNT, split=""):
    return [Query(f"q{number}", f"q{number} word{number}", (str(number),), split=split) for number in range(count)]


def test_what_is_surely_better_replaces_the_default(misled, tmp_path):
    report = tune(misled, questions(), tmp_path, rerank=False)
    # It alone finds every answer.
    assert (report["default"], report["retriever"], report["settings"]) == ("walk-fusion", "vector", {})
    gain, rows = report["gain"], {row["candidate"]: row for row in report["candidates"]}
    assert gain["kept"] and gain["p"] < 0.01 and 0 < gain["low"] <= gain["difference"] <= gain["high"]
    assert rows[gain["candidate"]]["score"] == 1.0 > rows["walk-fusion"]["score"]
    assert gain["difference"] == pytest.approx(1.0 - rows["walk-fusion"]["score"], abs=1e-3)
    assert rows["vector"] == {"candidate": "vector", "questions": COUNT, "score": 1.0}
    assert rows["bm25"]["questions"] == 40 and rows["bm25"]["score"] < 0.9
    found = load_retriever(misled, tmp_path)
    assert found.name == "tuned" and "VectorSearch" in repr(found) and "HybridSearch" not in repr(found)
    assert found.retrieve("q5 word5", 1)[0].id == "5" != build_retriever("hybrid", misled).retrieve("q59 word59", 1)[0].id
    # Settings are kept with the choice.
    write_choice(tmp_path, "walk-fusion", {"form": "names", "weights": [2.0, 1.0, 2.0]})
    assert "weights=(2.0, 1.0, 2.0)" in repr(load_retriever(misled, tmp_path))


def test_a_gain_on_too_few_questions_is_not_kept(misled, tmp_path):
    report = tune(misled, questions()[-4:], tmp_path, rerank=False)
    assert report["retriever"] == "walk-fusion" and report["settings"] == {}
    assert report["gain"]["difference"] > 0 and not report["gain"]["kept"]


def test_questions_of_the_split_test_are_not_read(misled, tmp_path):
    report = tune(misled, [*questions(2, "train"), *[Query("t", "q0", ("0",), split="test")]], tmp_path, rerank=False)
    assert report["questions"] == 2
    left_out = [Query("t", "q0", ("0",), split="test"), Query("u", "q1", ())]
    with pytest.raises(InvalidArgumentError, match="There are 1 questions with relevant nodes of the splits train and dev"):
        tune(misled, [*questions(1), *left_out], tmp_path)
    with pytest.raises(InvalidArgumentError, match="The split 'Test' is not known"):
        tune(misled, [*questions(3), Query("t", "q0", ("0",), split="Test")], tmp_path)
    with pytest.raises(InvalidArgumentError, match="seed is '5'; expected an integer from 0"):
        tune(misled, questions(3), tmp_path, seed="5")


def test_candidates_fit_the_index():
    index = linked_index(HashEmbedding())
    labels = [trial.label for trial in candidates(index, "Which loom?")]
    assert labels[0] == "walk-fusion" and len(labels) == len(set(labels))
    assert {"walk-fusion form=links", "walk-fusion form=names seeds=3", "hybrid", "spreading steps=2"} <= set(labels)
    assert {"walk-fusion form=links bridges=3", "walk-fusion form=names bridges=0", "ppr damping=0.7"} <= set(labels)
    assert "walk-fusion form=names constant=30" in labels and "walk-fusion form=links constant=30" not in labels
    weights = [label.split("weights=")[1] for label in labels if "weights" in label]
    assert weights[:3] == ["[0.0, 1.0, 2.0]", "[8.0, 1.0, 2.0]", "[4.0, 0.0, 2.0]"]
    assert weights[3:] == ["[4.0, 2.0, 2.0]", "[4.0, 1.0, 0.0]", "[4.0, 1.0, 4.0]"]
    assert not any("relations" in label for label in labels) and "fastinsight" not in labels
    names = {trial.label for trial in candidates(index, "Which loom?", scored=True)}
    assert {"fastinsight", "fastinsight-hybrid", "gar", "path-reranking", "re2"} <= names
    assert {"fastinsight alpha=0.5", "fastinsight beta=2.0", "fastinsight paths=True", "gar budget=50"} <= names
    no_vectors = GraphIndex.from_texts(["a loom", "a card"])
    labels = [trial.label for trial in candidates(no_vectors, "Which loom?")]
    assert labels[0] == "bm25" and not {"vector", "hybrid", "walk-fusion form=links", "ppr"} & set(labels)
    wrong = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0], [2.0]])
    with pytest.raises(MissingSignalError, match="embedding"):
        candidates(wrong, "Which loom?")


def test_splits_that_are_missing_are_drawn(misled):
    drawn = tuning._shuffled(questions(8, "dev"), 0)
    assert sorted(query.split for query in drawn) == ["dev"] * 2 + ["train"] * 6
    assert tuning._shuffled(questions(8), 1) != tuning._shuffled(questions(8), 0)
    given = [*questions(3, "train"), *questions(1, "dev")]
    assert sorted(query.split for query in tuning._shuffled(given, 0)) == ["dev", "train", "train", "train"]


def test_tuning_that_was_stopped_goes_on(misled, tmp_path, monkeypatch):
    asked = []
    evaluate = tuning.evaluate

    def stopping(index, queries, *arguments, **options):
        asked.append(len(queries))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return evaluate(index, queries, *arguments, **options)

    monkeypatch.setattr(tuning, "evaluate", stopping)
    with pytest.raises(KeyboardInterrupt):
        tune(misled, questions(), tmp_path, rerank=False)
    assert not (tmp_path / "tuned.json").exists()
    kept = (tmp_path / "under-way" / "round-0" / "results.jsonl").read_bytes()
    held = tmp_path / "under-way" / "round-0" / "results.jsonl"
    other = GraphIndex.from_texts([f"a{number} other" for number in range(COUNT)], embedding=embed, include_titles=False)
    with pytest.raises(InvalidArgumentError, match="holds another evaluation"):
        tune(other, questions(), tmp_path, rerank=False)
    seen = []
    monkeypatch.setattr(tuning, "evaluate", lambda *a, **o: (evaluate(*a, **o), seen.append(held.read_bytes()))[0])
    assert tune(misled, questions(), tmp_path, rerank=False)["gain"]["kept"]
    assert seen[0] == kept and not held.parent.parent.exists()


def test_a_trained_reranker_comes_behind_what_was_chosen(tmp_path):
    data = towns()
    index = index_of(data)
    fit_grag(data, index, tmp_path, first="walk-fusion", first_settings={"form": "links"}, training={"epochs": 1})
    write_choice(tmp_path, "walk-fusion", {"form": "links"}, reranked=True)
    found = load_retriever(index, tmp_path, k=3)
    assert found.operator.formula() == "O_vs -> O_vgs -> O_gm"
    assert len(found.retrieve("river near ada?")) == found.k == 3


@pytest.mark.parametrize("better", [True, False])
def test_a_reranker_is_kept_if_it_is_surely_better_on_dev(tmp_path, monkeypatch, better):
    data = towns()
    more = [replace(query, id=f"again-{query.id}") for query in data.queries if query.split == "dev"]
    data = replace(data, queries=[*data.queries, *more])
    index = index_of(data)
    seen = {}

    def fit(dataset, index, folder, **options):
        seen.update(queries={query.id: query.split for query in dataset.queries}, **options)
        return fit_grag(dataset, index, folder, **options | {"training": options["training"] | {"epochs": 1}})

    def gain(values, base, tests, seed):
        return {"difference": 0.1, "low": 0.0, "high": 0.2, "p": 0.01, "kept": better}

    monkeypatch.setattr(tuning, "fit_grag", fit)
    monkeypatch.setattr(tuning, "_gain", gain)
    report = tune(index, data.queries, tmp_path)
    dev = {query.id for query in data.queries if query.split == "dev"}
    # The questions that decide are not among those that training reads.
    assert not dev & seen["queries"].keys() and sorted(seen["queries"].values()) == ["dev", *["train"] * 8]
    assert report["reranker"]["questions"] == len(dev) and report["reranked"] is better
    assert (tmp_path / "g-rag.safetensors").exists() is better
    assert load_retriever(index, tmp_path).operator.formula().endswith("O_gm") is better


def test_too_few_dev_questions_cannot_decide(misled, tmp_path):
    report = tune(misled, questions(20), tmp_path)
    assert report["reranker"]["error"] == "5 dev questions cannot tell whether one is better; it takes 6 or more"
    assert not report["reranked"] and not list(tmp_path.glob("g-rag*"))


def test_a_reranker_that_was_not_compared_is_not_left(tmp_path, monkeypatch):
    data = towns()
    more = [replace(query, id=f"again-{query.id}") for query in data.queries if query.split == "dev"]
    evaluate = tuning.evaluate

    def stopping(index, queries, built, **options):
        if "reranked" in built:
            assert (tmp_path / "g-rag.json").exists()
            raise KeyboardInterrupt
        return evaluate(index, queries, built, **options)

    def fit(dataset, index, folder, **options):
        return fit_grag(dataset, index, folder, **options | {"training": {"epochs": 1}})

    monkeypatch.setattr(tuning, "evaluate", stopping)
    monkeypatch.setattr(tuning, "fit_grag", fit)
    with pytest.raises(KeyboardInterrupt):
        tune(index_of(data), [*data.queries, *more], tmp_path)
    assert json.loads((tmp_path / "tuned.json").read_text())["reranked"] is False and not (tmp_path / "g-rag.json").exists()


@pytest.mark.parametrize("line", [b"\xff\n", b"[1]\n", b"null\n", b'{"of":"bm25","query":"q1"}\n'])
def test_results_that_cannot_be_read_are_refused(misled, tmp_path, line):
    file = tmp_path / "under-way" / "round-0" / "results.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(line)
    with pytest.raises(DatasetError, match="line 1, is not .*; delete the file to start again"):
        tune(misled, questions(4), tmp_path, rerank=False)


def test_the_frameworks_open_what_was_chosen(tmp_path):
    index = linked_index(HashEmbedding())
    write_choice(tmp_path, "bm25", {})
    expected = [hit.id for hit in build_retriever("bm25", index, k=3).retrieve("Which loom?")]
    assert [document.id for document in GraphRetriever.load(index, tmp_path, k=3).invoke("Which loom?")] == expected
    llama = LlamaGraphRetriever.load(index, tmp_path, similarity_top_k=3)
    assert [found.node.node_id for found in llama.retrieve("Which loom?")] == expected


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (None, "does not exist; pass a folder"),
        ("{", "cannot be read"),
        ("[]", "does not say which retriever"),
        ('{"retriever": 3, "settings": {}, "reranked": false}', "does not say which retriever"),
        ('{"retriever": "bm25", "settings": [], "reranked": false}', "does not say which retriever"),
        ('{"retriever": "bm25", "settings": {}}', "does not say which retriever"),
        ('{"retriever": "none", "settings": {}, "reranked": false}', "'none'"),
        ('{"retriever": "bm25", "settings": {"seeds": 3}, "reranked": false}', "does not take 'seeds'"),
        ('{"retriever": "bm25", "settings": {}, "reranked": true}', "g-rag"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(tmp_path, written, message):
    if written is not None:
        (tmp_path / "tuned.json").write_text(written)
    with pytest.raises(InvalidArgumentError, match=message):
        load_retriever(GraphIndex.from_texts(["a loom"]), tmp_path)


def test_a_pipe_in_the_place_of_the_choice_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "tuned.json")
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        load_retriever(GraphIndex.from_texts(["a loom"]), tmp_path)
    for part in ("g-rag.json", "g-rag.safetensors"):
        os.mkfifo(tmp_path / part)
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        build_retriever("g-rag", GraphIndex.from_texts(["a loom"]), checkpoint=tmp_path)


def test_what_is_not_a_folder_is_refused():
    with pytest.raises(InvalidArgumentError, match="Expected a folder"):
        load_retriever(GraphIndex.from_texts(["a loom"]), 3)


def test_the_command_tunes_datasets_and_indexes(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "small"
    data.mkdir()
    rows = {
        "nodes": [{"id": n.id, "title": n.title, "text": n.text} for n in linked_nodes()],
        "edges": [{"source": s, "target": t, "relation": r} for s, t, r in linked_edges()],
        "queries": [{"id": f"q{i}", "query": f"Which loom, {i}?", "gold": ["jacquard"], "split": "train"} for i in range(4)],
    }
    for name, listed in rows.items():
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    out, saved = tmp_path / "tuned", tmp_path / "index"
    assert main(["tune", str(data), "--out", str(out), "--no-training"]) == 0
    printed = capsys.readouterr().out
    assert "walk-fusion form=links" in printed and f"written to {out}" in printed and "default: walk-fusion; chosen:" in printed
    linked_index(HashEmbedding()).save(saved)
    assert main(["tune", str(saved), "--out", str(out), "--no-training"]) == 2
    assert "pass questions with --queries FILE" in capsys.readouterr().err
    queries = ["--queries", str(data / "queries.jsonl")]
    # Questions cannot be embedded: HashEmbedding cannot be loaded by its name.
    assert main(["tune", str(saved), *queries, "--out", str(out), "--no-training"]) == 2
    assert "pass --embedding" in capsys.readouterr().err
    write_choice(out, "bm25", {})
    assert main(["evaluate", str(data), "--split", "all", "--retrievers", "bm25", "--tuned", str(out), "--timed-queries", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    by_name = {line.split()[0]: line.split()[1:4] for line in lines if line.split()}
    assert by_name["tuned"] == by_name["bm25"]
    assert main(["search", str(saved), "Which loom?", "--tuned", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["retriever"] == "tuned"
    # The other commands on questions take the index too.
    evaluated = ["evaluate", str(saved), "--retrievers", "bm25", "--split", "all", "--timed-queries", "0"]
    assert main([*evaluated, "--queries", str(data / "queries.jsonl")]) == 0
    again = {line.split()[0]: line.split()[1:4] for line in capsys.readouterr().out.splitlines() if line.split()}
    assert again["bm25"] == by_name["bm25"]
    assert main(evaluated) == 2
    assert "for an index, pass questions with --queries FILE" in capsys.readouterr().err
    made = tmp_path / "made.jsonl"
    assert main(["make-queries", str(saved), str(made), "--count", "2"]) == 0 and len(made.read_text().splitlines()) == 2
