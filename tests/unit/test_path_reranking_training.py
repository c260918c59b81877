"""Training the path reranker: it learns to read paths, the same way for one seed, and its folder fits what it was trained for."""

import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from graph_retrievers import CrossEncoder, GraphIndex, PathReranking, Retriever
from graph_retrievers.commands.cli import main
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph import Edge, Node
from graph_retrievers.learning.labelled import LabelledQuery
from graph_retrievers.learning.loop import History
from graph_retrievers.operators import GatedPropagation, Pipeline, VectorSearch
from graph_retrievers.systems.path_reranking import training as path_rerank_training
from graph_retrievers.systems.path_reranking.path_rerank import mixed_with_ranks
from graph_retrievers.systems.path_reranking.training import WEIGHTS, fit_path_rerank, fit_path_reranking
from tests.unit.test_cross_encoder import WORDS, build, save, tokenizer

QUESTIONS = 12


def ask(number):
    return f"what is the {WORDS[number]} city"


def dataset():
    """Of the pages that a question's page links to, the one is right whose link says so; the texts are all alike."""
    nodes, edges, queries = [], [], []
    for number in range(QUESTIONS):
        nodes += [Node(f"p{number}", f"the {WORDS[number]} river"), *(Node(f"{number}-{place}", "a city") for place in range(4))]
        right = number % 4
        edges += [Edge(f"p{number}", f"{number}-{place}", text="flows through" if place == right else "of") for place in range(4)]
        queries.append(Query(f"q{number}", ask(number), (f"{number}-{right}",), split="dev" if number > 8 else "train"))
    return Dataset("rivers", nodes, edges, queries, False)


def index_of(data, relevance=None):
    # Vectors lead from a question to the page with the same word.
    vectors = torch.zeros(len(data.nodes), QUESTIONS)
    for row, node in enumerate(data.nodes):
        if node.id.startswith("p"):
            vectors[row, int(node.id[1:])] = 1.0
    embed = lambda texts: torch.eye(QUESTIONS)[[WORDS.index(text.split()[3]) for text in texts]]  # noqa: E731
    return GraphIndex.from_graph(data.graph(), embedding=embed, vectors=vectors, relevance=relevance)


def start():
    return CrossEncoder((build("bert", initializer_range=0.2), tokenizer()), max_length=40)


def first():
    return Pipeline(VectorSearch(1), GatedPropagation(gate="uniform", steps=1))


def fitted(seed=0, model=None, **options):
    data = dataset()
    index = index_of(data, model or start())
    row = index.graph.row
    train, dev = ([LabelledQuery(q.text, tuple(map(row, q.gold))) for q in data.queries if q.split == s] for s in ("train", "dev"))
    options = {"depth": 5, "negatives": 3, "epochs": 12, "learning_rate": 0.003, "k": 1, **options}
    return fit_path_rerank(index, train, dev, first(), seed=seed, **options)


@pytest.mark.slow
def test_it_learns_what_only_the_path_says():
    model = start()
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    trained, weight, history = fitted(model=model)
    assert history.best_score == 1.0 > history.scores[0] or history.scores[0] == 1.0 and weight > 0
    assert weight > 0 and weight in WEIGHTS and trained is not model
    # The caller's model is as it was.
    assert all(torch.equal(value, before[name]) for name, value in model.module.state_dict().items())
    right, wrong = (f"a city\np0 -> 0-1\n{told}\nthe a river" for told in ("flows through", "of"))
    scores = trained.score(trained.encode([ask(0)] * 2, [right, wrong]))
    assert scores[0] > scores[1]


@pytest.mark.slow
def test_the_returned_model_and_what_is_measured_are_those_of_the_trained_weights(monkeypatch):
    measured, chosen = [], path_rerank_training._best_weight

    def literal(model, held, k, show_progress):
        # Pair by pair, by the module itself.
        found = chosen(model, held, k, show_progress)
        for example in held:
            fast = model.score(model.encode([example.question] * len(example.texts), example.texts))
            slow = torch.cat([model.logits([example.question], [text]).detach() for text in example.texts])
            torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4)
        measured.append(found)
        return found

    monkeypatch.setattr(path_rerank_training, "_best_weight", literal)
    _, weight, history = fitted(epochs=3, patience=9)
    assert [quality for _, quality in measured[:-1]] == history.scores and measured[-1] == (weight, history.best_score)


def test_the_measure_and_its_weight_are_the_best_of_all_weights():
    gold = path_rerank_training._Example("q", ["a", "b", "c", "d"], [False, True, False, True], 3)
    scores = torch.tensor([0.0, 1.0, 0.2, 3.0])

    class Fixed:
        def encode(self, questions, texts):
            return scores.unsqueeze(1)

        def score(self, latents):
            return latents[:, 0]

    def quality(order, k):
        places = [place for place, row in enumerate(order[:k]) if gold.relevant[row]]
        ideal = sum(1 / math.log2(place + 2) for place in range(min(3, k)))
        return (len(places) / 3 + sum(1 / math.log2(place + 2) for place in places) / ideal) / 2

    for k in (1, 2, 3, 4):
        totals = []
        for weight in WEIGHTS:
            mixed = mixed_with_ranks(scores, weight).tolist()
            totals.append(quality(sorted(range(4), key=lambda row: (-mixed[row], row)), k))
        best = totals.index(max(totals))
        weight, found = path_rerank_training._best_weight(Fixed(), [gold], k, False)
        assert weight == WEIGHTS[best] and found == pytest.approx(totals[best]) and 0 < found < 1


def test_negatives_are_drawn_without_repetition_where_there_are_enough():
    example = path_rerank_training._Example("q", ["yes", "a", "b", "c"], [True, False, False, False], 1)
    for seed in range(20):
        random = torch.Generator().manual_seed(seed)
        question, texts = path_rerank_training._group(example, 0, 3, random)
        assert question == "q" and texts[0] == "yes" and sorted(texts[1:]) == ["a", "b", "c"]
        assert len(path_rerank_training._group(example, 0, 5, random)[1]) == 6


def test_candidates_end_at_the_depth_and_a_gold_node_counts_once():
    index = index_of(dataset(), start())
    row = index.graph.row("p0")
    [example] = path_rerank_training._examples(index, [LabelledQuery(ask(0), (row, row))], VectorSearch(9), 4, False)
    assert (len(example.texts), example.relevant, example.gold) == (4, [True, False, False, False], 1)


def test_questions_whose_candidates_are_all_relevant_are_left_out():
    index = index_of(dataset(), start())
    rows = tuple(range(len(index)))
    some = [LabelledQuery(ask(0), rows), LabelledQuery(ask(1), (index.graph.row("p1"),))]
    _, _, history = fit_path_rerank(index, some, some, VectorSearch(3), depth=3, epochs=1)
    assert len(history.losses) == 1


def test_the_defaults_of_training(monkeypatch):
    given = {}
    monkeypatch.setattr(path_rerank_training, "fit", lambda *parts, **options: given.update(options) or History())
    index = index_of(dataset(), start())
    fit_path_rerank(index, [LabelledQuery(ask(0), (0,))], [LabelledQuery(ask(0), (0,))], VectorSearch(3), seed=7)
    assert (given["learning_rate"], given["weight_decay"], given["epochs"], given["seed"]) == (2e-5, 0.01, 2, 7)
    assert given["about"]["negatives"] == 4 and given["about"]["max_length"] == 40


@pytest.mark.slow
def test_a_state_of_another_training_is_refused(tmp_path):
    def go_on(epochs, model=None, told="flows through", relation=""):
        data = dataset()
        edges = [replace(edge, text=told if edge.text != "of" else "of", relation=relation) for edge in data.edges]
        index = index_of(replace(data, edges=edges), model or start())
        row = index.graph.row
        some = [LabelledQuery(q.text, tuple(map(row, q.gold))) for q in data.queries]
        return fit_path_rerank(index, some, some[:3], first(), depth=5, k=1, epochs=epochs, patience=9, resume=tmp_path)

    go_on(1)
    shorter = CrossEncoder((build("bert", initializer_range=0.2), tokenizer()), max_length=20)
    other = start()
    with torch.no_grad():
        next(other.module.parameters()).add_(0.01)
    for changes in ({"model": shorter}, {"model": other}, {"told": "the river"}, {"relation": "path"}):
        with pytest.raises(InvalidArgumentError, match="another training"):
            go_on(2, **changes)
    assert len(go_on(2)[2].losses) == 2


def test_a_training_that_runs_away_says_so():
    with pytest.raises(InvalidArgumentError, match="use a smaller learning_rate"):
        fitted(learning_rate=1e30, epochs=3)


@pytest.mark.slow
def test_one_seed_gives_one_result_and_a_stopped_training_goes_on(tmp_path):
    model, weight, history = fitted(seed=3, epochs=4, patience=9)
    again, same, _ = fitted(seed=3, epochs=4, patience=9)
    assert weight == same and all(map(torch.equal, model.module.state_dict().values(), again.module.state_dict().values()))
    fitted(seed=3, epochs=2, patience=9, resume=tmp_path)
    resumed, weight_then, history_then = fitted(seed=3, epochs=4, patience=9, resume=tmp_path)
    assert (weight_then, history_then.losses) == (weight, history.losses)
    assert all(map(torch.equal, model.module.state_dict().values(), resumed.module.state_dict().values()))
    with pytest.raises(InvalidArgumentError, match="another training"):
        fitted(seed=3, epochs=4, patience=9, negatives=2, resume=tmp_path)


@pytest.mark.slow
def test_the_seed_decides_whatever_was_drawn_before():
    model, losses = start(), []
    for before in (1, 2):
        torch.manual_seed(before)
        losses.append(fitted(seed=3, model=model, epochs=2)[2].losses)
    assert losses[0] == losses[1] != fitted(seed=4, model=model, epochs=2)[2].losses


def test_where_the_model_does_not_help_its_weight_is_the_lowest():
    # Not trained at all, on questions whose first candidate is right already.
    data = dataset()
    index = index_of(data, start())
    row = index.graph.row
    good = [LabelledQuery(ask(number), (row(f"p{number}"),)) for number in range(QUESTIONS)]
    _, weight, history = fit_path_rerank(index, good, good, VectorSearch(3), depth=3, epochs=1, learning_rate=0.0, k=1)
    assert weight == 0.0 and history.best_score == 1.0


def test_what_cannot_be_learnt_from_is_refused():
    data = dataset()
    row = index_of(data).graph.row
    some = [LabelledQuery(ask(0), (row("0-0"),))]
    with pytest.raises(MissingSignalError, match="no cross-encoder"):
        fit_path_rerank(index_of(data), some, some, first())
    index = index_of(data, start())
    with pytest.raises(InvalidArgumentError, match="no dev question"):
        fit_path_rerank(index, some, [], first())
    with pytest.raises(InvalidArgumentError, match="No training question has both a relevant node and another one"):
        fit_path_rerank(index, [LabelledQuery(ask(0), (row("5-0"),))], some, VectorSearch(1))
    for name in ("depth", "negatives", "batch_size", "k"):
        for wrong in (0, 10**12):
            with pytest.raises(InvalidArgumentError, match=name):
                fit_path_rerank(index, some, some, first(), **{name: wrong})


def checkpoint(folder, **options):
    index = index_of(dataset(), start())
    training = {"negatives": 3, "epochs": 2, "learning_rate": 0.01, "k": 1}
    # What a page leads to has no vector for a gate.
    first = "spreading(gate='uniform')"
    return index, fit_path_reranking(dataset(), index, folder, first=first, depth=5, training=training, **options)


def test_the_folder_is_a_retriever_and_a_cross_encoder(tmp_path):
    index, told = checkpoint(tmp_path)
    assert set(told) == {"quality_on_dev", "epoch", "epochs", "weight"} and not (tmp_path / "under-way").exists()
    written = json.loads((tmp_path / "path-reranking.json").read_text())
    assert (written["first"], written["depth"], written["weight"]) == ("spreading(gate='uniform')", 5, told["weight"])
    retriever = Retriever(index_of(dataset()), PathReranking(checkpoint=tmp_path))
    assert "gate='uniform'" in repr(retriever) and "depth=5" in repr(retriever) and retriever.lacks() == ()
    assert len(retriever.retrieve(ask(0), k=3)) == 3
    named = Retriever(index_of(dataset()), PathReranking(checkpoint=tmp_path, first="spreading(gate='uniform')"))
    assert repr(named) == repr(retriever).replace("path-reranking(", "PathReranking(")
    assert "weight=0.0" in repr(Retriever(index, PathReranking(checkpoint=tmp_path, weight=0.0)))
    assert "gate" not in repr(Retriever(index, PathReranking(checkpoint=tmp_path, first="vector")))
    other = Retriever(index, PathReranking(checkpoint=tmp_path, first=VectorSearch(4), weight=0.25, depth=2))
    assert "weight=0.25" in repr(other) and "depth=2" in repr(other) and "VectorSearch" in repr(other)
    model = CrossEncoder(tmp_path / "cross-encoder")
    assert model.score(model.encode(["a"], ["b"])).shape == (1,)


def test_a_folder_that_was_changed_is_refused(tmp_path):
    checkpoint(tmp_path / "one")
    index = index_of(dataset())
    with pytest.raises(InvalidArgumentError, match="expected a folder that `graph-retrievers fit path-reranking` wrote"):
        Retriever(index, PathReranking(checkpoint=tmp_path))
    for number, change in enumerate(
        [
            lambda folder: (folder / "path-reranking.json").write_text("[]"),
            lambda folder: (folder / "path-reranking.json").write_text("{"),
            lambda folder: (folder / "path-reranking.json").write_text("[" * 100_000),
            lambda folder: _with(folder / "cross-encoder" / "config.json", num_hidden_layers=1),
            lambda folder: _with(folder / "cross-encoder" / "tokenizer_config.json", model_max_length=3),
            lambda folder: (folder / "cross-encoder" / "more.txt").write_text("more"),
            lambda folder: os.mkfifo(folder / "cross-encoder" / "pipe"),
            lambda folder: _with(folder / "path-reranking.json", weight=math.nan),
            lambda folder: _with(folder / "path-reranking.json", weight="0.5"),
            lambda folder: _with(folder / "path-reranking.json", depth=True),
            lambda folder: _with(folder / "path-reranking.json", first="path-reranking"),
            lambda folder: (folder / "cross-encoder" / "model.safetensors").write_bytes(b"no"),
            lambda folder: (folder / "cross-encoder" / "model.safetensors").unlink(),
            lambda folder: _without(folder / "path-reranking.json", "depth"),
            lambda folder: _with(folder / "path-reranking.json", weight=2.0),
            lambda folder: _with(folder / "path-reranking.json", max_length="long"),
            lambda folder: _with(folder / "path-reranking.json", first=3),
        ]
    ):
        folder = tmp_path / f"changed-{number}"
        shutil.copytree(tmp_path / "one", folder)
        change(folder)
        with pytest.raises(InvalidArgumentError):
            Retriever(index, PathReranking(checkpoint=folder))


def test_a_checkpoint_that_names_no_search_says_so(tmp_path):
    checkpoint(tmp_path)
    for first in (3, "path-reranking"):
        _with(tmp_path / "path-reranking.json", first=first)
        with pytest.raises(InvalidArgumentError, match="does not say which search comes first"):
            Retriever(index_of(dataset()), PathReranking(checkpoint=tmp_path))


def test_a_search_without_a_name_is_given_again(tmp_path):
    index = index_of(dataset(), start())
    fit_path_reranking(dataset(), index, tmp_path, first=first(), depth=5, training={"epochs": 1, "negatives": 3})
    with pytest.raises(InvalidArgumentError, match="pass it as first="):
        Retriever(index, PathReranking(checkpoint=tmp_path))
    assert len(Retriever(index, PathReranking(checkpoint=tmp_path, first=first())).retrieve(ask(0), k=2)) == 2


@pytest.mark.slow
def test_a_second_training_replaces_the_first_and_leaves_nothing_of_a_stopped_one(tmp_path, monkeypatch):
    (tmp_path / "cross-encoder.partial").mkdir()
    (tmp_path / "cross-encoder.partial" / "stale.txt").write_text("stale")
    checkpoint(tmp_path)
    before = json.loads((tmp_path / "path-reranking.json").read_text())["files"]
    assert "stale.txt" not in before
    checkpoint(tmp_path, seed=5)
    assert json.loads((tmp_path / "path-reranking.json").read_text())["files"]["model.safetensors"] != before["model.safetensors"]
    # One that stops before its result is written goes on from its last epoch.
    monkeypatch.setattr(path_rerank_training, "_write", lambda *parts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checkpoint(tmp_path, seed=6)
    monkeypatch.undo()
    assert (tmp_path / "under-way").is_dir()
    monkeypatch.setattr(path_rerank_training, "sampled_cross_entropy", lambda *parts: 1 / 0)
    assert checkpoint(tmp_path, seed=6)[1]["epochs"] == 2 and not (tmp_path / "under-way").exists()


def test_what_a_training_is_given_reaches_it(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(path_rerank_training, "fit_path_rerank", lambda *parts, **options: seen.update(options) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checkpoint(tmp_path, seed=9)
    assert (seen["seed"], seen["depth"], seen["k"], seen["resume"]) == (9, 5, 1, tmp_path / "under-way")


def test_a_folder_of_someone_else_is_not_replaced(tmp_path):
    (tmp_path / "cross-encoder").mkdir()
    (tmp_path / "cross-encoder" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="is not of a checkpoint and would be replaced"):
        checkpoint(tmp_path)
    assert (tmp_path / "cross-encoder" / "notes.txt").read_text() == "mine"
    # What a training that was stopped while it wrote has left is.
    (tmp_path / "under-way").mkdir()
    checkpoint(tmp_path)
    with pytest.raises(InvalidArgumentError, match="cannot be its own first search"):
        fit_path_reranking(dataset(), index_of(dataset(), start()), tmp_path, first="path-reranking")


@pytest.mark.parametrize("name", ["cross-encoder", "cross-encoder.partial", "path-reranking.json", "path-reranking.json.partial"])
def test_what_is_in_the_way_is_told_before_the_training(tmp_path, name, monkeypatch):
    monkeypatch.setattr(path_rerank_training, "fit_path_rerank", lambda *parts, **options: 1 / 0)
    (tmp_path / "real").mkdir()
    other_kind = Path.mkdir if "json" in name else Path.touch
    for number, put in enumerate((other_kind, lambda path: path.symlink_to(tmp_path / "real"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        put(folder / name)
        with pytest.raises(InvalidArgumentError, match="in the way of the checkpoint"):
            checkpoint(folder)


def _without(file, name):
    file.write_text(json.dumps({key: value for key, value in json.loads(file.read_text()).items() if key != name}))


def _with(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.slow
def test_the_command_trains_from_a_folder_and_evaluate_reads_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    data, folder = dataset(), tmp_path / "data"
    folder.mkdir()
    rows = {
        "nodes": [{"id": node.id, "text": node.text} for node in data.nodes],
        "edges": [{"source": edge.source, "target": edge.target, "text": edge.text} for edge in data.edges],
        "queries": [{"id": q.id, "query": q.text, "gold": list(q.gold), "split": q.split} for q in data.queries],
    }
    rows["queries"].append({**rows["queries"][0], "id": "last", "split": "test"})
    for name, lines in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = save(build("bert"), tmp_path / "model")
    command = ["fit", "path-reranking", str(folder), "--out", str(tmp_path / "out")]
    assert main(["fit", "g-rag", *command[2:], "--reranker", str(model)]) == 2
    assert "g-rag does not train a cross-encoder" in capsys.readouterr().err
    assert main([*command, "--reranker", str(tmp_path / "nowhere")]) == 2 and not (tmp_path / "cache").exists()
    capsys.readouterr()
    assert main(command) == 2 and "no cross-encoder to train; pass --reranker" in capsys.readouterr().err
    assert main([*command, "--reranker", str(model)]) == 0
    assert json.loads((tmp_path / "out" / "path-reranking.json").read_text())["max_length"] == 160
    assert '"weight": ' in capsys.readouterr().out
    names = ["--retrievers", "vector,path-reranking", "--checkpoint", f"path-reranking={tmp_path / 'out'}"]
    assert main(["evaluate", str(folder), *names, "--timed-queries", "0"]) == 0
    assert "path-reranking" in capsys.readouterr().out
