"""Training the path reranker: it learns to read paths, the same way for one seed, and its folder fits what it was trained for."""

import json
import shutil

import pytest
import torch

from graph_retrievers import CrossEncoder, GraphIndex, PathReranking, VectorSearch, build_retriever
from graph_retrievers.cli import main
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph import Edge, Node
from graph_retrievers.learning.examples import LabelledQuery
from graph_retrievers.operators import GatedPropagation, Pipeline
from graph_retrievers.operators.path_rerank_training import WEIGHTS, fit_path_rerank
from graph_retrievers.retrievers.path_reranking import fit_path_reranking
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
    with pytest.raises(InvalidArgumentError, match="No training question has a relevant node"):
        fit_path_rerank(index, [LabelledQuery(ask(0), (row("5-0"),))], some, VectorSearch(1))
    for name in ("depth", "negatives", "batch_size", "k"):
        with pytest.raises(InvalidArgumentError, match=name):
            fit_path_rerank(index, some, some, first(), **{name: 0})


def checkpoint(folder, **options):
    index = index_of(dataset(), start())
    training = {"negatives": 3, "epochs": 2, "learning_rate": 0.01, "k": 1}
    return index, fit_path_reranking(dataset(), index, folder, first="spreading", depth=5, training=training, **options)


def test_the_folder_is_a_retriever_and_a_cross_encoder(tmp_path):
    index, told = checkpoint(tmp_path, first_settings={"gate": "uniform"})
    assert set(told) == {"quality_on_dev", "epoch", "epochs", "weight"} and not (tmp_path / "under-way").exists()
    written = json.loads((tmp_path / "path-reranking.json").read_text())
    assert (written["first"], written["depth"], written["weight"]) == ("spreading", 5, told["weight"])
    retriever = build_retriever("path-reranking", index_of(dataset()), checkpoint=tmp_path)
    assert "gate='uniform'" in repr(retriever) and "depth=5" in repr(retriever) and retriever.lacks() == ()
    assert len(retriever.retrieve(ask(0), k=3)) == 3
    other = PathReranking(index, checkpoint=tmp_path, first=VectorSearch(4), weight=0.25, depth=2)
    assert "weight=0.25" in repr(other) and "depth=2" in repr(other) and "VectorSearch" in repr(other)
    model = CrossEncoder(tmp_path / "cross-encoder")
    assert model.score(model.encode(["a"], ["b"])).shape == (1,)


def test_a_folder_that_was_changed_is_refused(tmp_path):
    checkpoint(tmp_path / "one")
    index = index_of(dataset())
    with pytest.raises(InvalidArgumentError, match="expected a folder that `graph-retrievers fit path-reranking` wrote"):
        PathReranking(index, checkpoint=tmp_path)
    for number, change in enumerate(
        [
            lambda folder: (folder / "path-reranking.json").write_text("[]"),
            lambda folder: (folder / "path-reranking.json").write_text("{"),
            lambda folder: (folder / "cross-encoder" / "model.safetensors").write_bytes(b"no"),
            lambda folder: (folder / "cross-encoder" / "model.safetensors").unlink(),
            lambda folder: _without(folder / "path-reranking.json", "depth"),
            lambda folder: _with(folder / "path-reranking.json", weight=2.0),
            lambda folder: _with(folder / "path-reranking.json", max_length="long"),
            lambda folder: _with(folder / "path-reranking.json", first=3),
            lambda folder: _with(folder / "path-reranking.json", first_settings=[1]),
        ]
    ):
        folder = tmp_path / f"changed-{number}"
        shutil.copytree(tmp_path / "one", folder)
        change(folder)
        with pytest.raises(InvalidArgumentError):
            PathReranking(index, checkpoint=folder)


def test_a_search_without_a_name_is_given_again(tmp_path):
    index = index_of(dataset(), start())
    fit_path_reranking(dataset(), index, tmp_path, first=first(), depth=5, training={"epochs": 1, "negatives": 3})
    with pytest.raises(InvalidArgumentError, match="pass it as first="):
        PathReranking(index, checkpoint=tmp_path)
    assert len(PathReranking(index, checkpoint=tmp_path, first=first()).retrieve(ask(0), k=2)) == 2


def _without(file, name):
    file.write_text(json.dumps({key: value for key, value in json.loads(file.read_text()).items() if key != name}))


def _with(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


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
    command = ["fit", "path-reranking", str(folder), "--out", str(tmp_path / "out"), "--max-length", "40"]
    assert main(command) == 2 and "no cross-encoder to train; pass --reranker" in capsys.readouterr().err
    assert main([*command, "--reranker", str(model)]) == 0
    assert json.loads((tmp_path / "out" / "path-reranking.json").read_text())["max_length"] == 40
    assert '"weight": ' in capsys.readouterr().out
    names = ["--retrievers", "vector,path-reranking", "--checkpoint", f"path-reranking={tmp_path / 'out'}"]
    assert main(["evaluate", str(folder), *names, "--timed-queries", "0"]) == 0
    assert "path-reranking" in capsys.readouterr().out
