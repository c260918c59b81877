"""Tuning: what is surely better than the default is chosen, kept in a folder, and opened by every door."""

import json
import os
from dataclasses import replace

import pytest
import torch

from graph_retrievers import GraphIndex, WalkFusion, build_retriever
from graph_retrievers.cli import main
from graph_retrievers.datasets import Query
from graph_retrievers.errors import DatasetError, InvalidArgumentError, MissingSignalError
from graph_retrievers.evaluation import tuning
from graph_retrievers.evaluation.tuning import Trial, candidates, choices, choose, tune
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
    step = report["steps"][-1]
    assert [each["choice"] for each in report["steps"]] == ["form", "bridges", "rest"]
    assert (step["candidate"], step["level"], step["kept"]) == ("vector", 0.05, True) and step["p"] < 0.01
    assert 0 < gain["low"] <= gain["difference"] <= gain["high"]
    assert rows["vector"]["score"] == 1.0 > rows["walk-fusion"]["score"]
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
    assert report["steps"][-1]["difference"] > 0 and not any(step["kept"] for step in report["steps"])
    assert report["gain"] is None


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
    assert choices(index) == {
        "form": ({"form": "names"},) if WalkFusion(index).form == "links" else ({"form": "links"},),
        "bridges": ({"bridges": 0}, {"bridges": 1}, {"bridges": 3}),
    }
    labels = [trial.label for trial in candidates(index, Trial("walk-fusion", {"form": "links"}))]
    assert labels[:3] == ["walk-fusion form=links", "walk-fusion form=links seeds=3", "walk-fusion form=links seeds=10"]
    # What a form does not read is not tried with it.
    assert not any("weights" in label or "constant" in label for label in labels) and len(labels) == len(set(labels))
    assert {"hybrid", "spreading steps=2", "ppr damping=0.7"} <= set(labels) and "fastinsight" not in labels
    labels = [trial.label for trial in candidates(index, Trial("walk-fusion", {"form": "names"}))]
    assert "walk-fusion form=names constant=30" in labels
    weights = [label.split("weights=")[1] for label in labels if "weights" in label]
    assert weights[:3] == ["[0.0, 1.0, 2.0]", "[8.0, 1.0, 2.0]", "[4.0, 0.0, 2.0]"]
    assert weights[3:] == ["[4.0, 2.0, 2.0]", "[4.0, 1.0, 0.0]", "[4.0, 1.0, 4.0]"]
    names = {trial.label for trial in candidates(index, scored=True)}
    assert {"fastinsight", "fastinsight-hybrid", "gar", "path-reranking", "re2"} <= names
    assert {"fastinsight alpha=0.5", "fastinsight beta=2.0", "fastinsight paths=True", "gar budget=50"} <= names
    # LinearRAG needs names in the texts.
    assert not any("linear-rag" in trial.label for trial in candidates(index))
    texts = ["Ada Holm sang.", "He met Ada Holm.", "A loom."]
    named = candidates(GraphIndex.from_texts(texts, embedding=HashEmbedding(), edges=[]))
    assert {"linear-rag", "linear-rag fuse=False"} <= {trial.label for trial in named}
    assert not any("linear-rag" in trial.label for trial in candidates(GraphIndex.from_texts(texts, edges=[])))
    # Where documents were cut, another choice is how many chunks of one may be hits.
    chunks = GraphIndex.from_texts(["a loom", "a card"], metadatas=[{"source": "mill.md"}] * 2)
    assert choices(chunks) == {"per_source": ({"per_source": 2}, {"per_source": 3})}
    # A search by words alone chooses nothing by a rule.
    assert choices(GraphIndex.from_texts(["a loom", "a card"])) == {}


def test_what_the_index_lacks_is_not_tried_and_a_default_that_fails_is_told(tmp_path):
    asked = [Query("q1", "Which card?", ("1",)), Query("q2", "Which loom?", ("0",))]
    report = tune(GraphIndex.from_texts(["a loom", "a card"]), asked, tmp_path)
    labels = {row["candidate"] for row in report["candidates"]}
    assert "bm25" in labels and not any(label.split()[0] in {"vector", "hybrid", "walk-fusion", "ppr"} for label in labels)
    wrong = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0], [2.0]])
    with pytest.raises(MissingSignalError, match="embedding"):
        tune(wrong, asked, tmp_path)


class TestChoose:
    """The decision, on scores that are given."""

    DEFAULT, FORMS = Trial("walk-fusion"), {"form": [{"form": "links"}]}

    @staticmethod
    def chosen(gains, rest=(), count=40, alternatives=None, seed=0):
        """Choose where each candidate gains so much on the first so many questions, and nothing on the others."""
        asked = []

        def measure(trials, number):
            asked.append(([trial.label for trial in trials], number))
            each = {trial.label: gains.get(trial.label, (0.0, 0)) for trial in trials}
            return {label: ([gain] * better + [0.0] * count)[:number] for label, (gain, better) in each.items()}

        alternatives = TestChoose.FORMS if alternatives is None else alternatives
        found = choose(TestChoose.DEFAULT, alternatives, lambda best: [best, *rest], measure, count, seed=seed)
        return (*found, asked)

    @pytest.mark.parametrize(("better", "kept"), [(2, False), (3, True)])
    def test_another_form_is_taken_on_weak_evidence(self, better, kept):
        # All of so many questions that differ: one draw of 2 ** n by chance.
        best, [step], _, _ = self.chosen({"walk-fusion form=links": (0.5, better)})
        assert (best.label == "walk-fusion form=links") is step["kept"] is kept
        assert step["p"] == pytest.approx(0.5**better, abs=0.02) and step["level"] == 0.2

    @pytest.mark.parametrize(("better", "kept"), [(4, False), (5, True)])
    def test_all_else_only_on_strong_evidence(self, better, kept):
        best, [step], _, _ = self.chosen({"hybrid": (0.5, better)}, [Trial("hybrid"), Trial("bm25")], alternatives={})
        assert (best.label == "hybrid") is step["kept"] is kept and step["level"] == 0.05

    def test_of_few_questions_nothing_is_chosen(self):
        best, steps, _, _ = self.chosen({"walk-fusion form=links": (1.0, 9), "hybrid": (1.0, 9)}, [Trial("hybrid")], count=9)
        assert best is self.DEFAULT and [step["p"] < 0.01 for step in steps] == [True, True]

    def test_choices_follow_each_other(self):
        best, steps, _, asked = self.chosen(
            {"walk-fusion form=links": (0.2, 10), "walk-fusion form=links bridges=1": (0.4, 10)},
            [Trial("hybrid")],
            alternatives={"form": [{"form": "links"}], "bridges": [{"bridges": 1}]},
        )
        assert best.settings == {"form": "links", "bridges": 1}
        assert [step["against"] for step in steps] == ["walk-fusion", "walk-fusion form=links", best.label]
        assert asked[-1][0] == [best.label, "hybrid"]

    def test_a_loss_is_no_gain(self):
        best, [step], _, _ = self.chosen({"walk-fusion form=links": (-0.5, 20)})
        assert best is self.DEFAULT and step["difference"] == -0.25 and step["p"] > 0.99

    def test_many_candidates_that_do_alike_hide_nothing(self):
        # A hundred settings that gain on the same six questions; by the rule of Bonferroni, 100 / 2 ** 6 is not evidence.
        alike = [Trial("ppr", {"seeds": number}) for number in range(100)]
        best, [step], _, _ = self.chosen({trial.label: (0.5, 6) for trial in alike}, alike, alternatives={})
        assert step["kept"] and best.retriever == "ppr" and step["p"] < 0.05

    def test_a_choice_without_alternatives_is_none(self):
        best, steps, _, _ = self.chosen({}, alternatives={"form": []})
        assert best is self.DEFAULT and steps == []

    def test_a_default_without_candidates_is_measured(self):
        best, steps, [trial], asked = self.chosen({"walk-fusion": (0.5, 40)}, alternatives={})
        assert best is trial is self.DEFAULT and steps == [] and (trial.score, trial.questions) == (0.5, 40)

    def test_candidates_are_halved(self):
        many = [Trial("ppr", {"seeds": number}) for number in range(15)]
        gains = {trial.label: (trial.settings["seeds"] / 20, 160) for trial in many}
        best, [step], trials, asked = self.chosen(gains, many, count=160, alternatives={})
        assert [(len(labels), number) for labels, number in asked] == [(16, 40), (8, 80), (4, 160)]
        assert best.label == "ppr seeds=14" and sorted(t.questions for t in trials) == [40] * 8 + [80] * 4 + [160] * 4
        # One that was dropped is not chosen, though it gained more on the first questions than the others on all.
        gains = {label: (gain, 40) for label, (gain, _) in gains.items()}
        best, [step], _, _ = self.chosen(gains, many, count=160, alternatives={})
        assert best.label == "ppr seeds=14" and step["difference"] == pytest.approx(14 / 20 / 4, abs=1e-4)


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
    kept = (tmp_path / "under-way" / f"first-{COUNT}" / "results.jsonl").read_bytes()
    held = tmp_path / "under-way" / f"first-{COUNT}" / "results.jsonl"
    other = GraphIndex.from_texts([f"a{number} other" for number in range(COUNT)], embedding=embed, include_titles=False)
    with pytest.raises(InvalidArgumentError, match="holds another evaluation"):
        tune(other, questions(), tmp_path, rerank=False)
    seen = []
    monkeypatch.setattr(tuning, "evaluate", lambda *a, **o: (evaluate(*a, **o), seen.append(held.read_bytes()))[0])
    assert tune(misled, questions(), tmp_path, rerank=False)["steps"][-1]["kept"]
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

    def scores(evaluation, trial):
        return [float(better == (trial.label == "reranked"))] * len(evaluation.queries)

    monkeypatch.setattr(tuning, "fit_grag", fit)
    monkeypatch.setattr(tuning, "_scores", scores)
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
    file = tmp_path / "under-way" / "first-4" / "results.jsonl"
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
