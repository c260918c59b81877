"""The commands evaluate and make-queries."""

import json
import re
import shutil
from urllib.parse import unquote

import pytest
from langchain_core.language_models import FakeListChatModel

from graph_retrievers.commands.cli import main
from graph_retrievers.datasets import read_dataset, read_queries
from graph_retrievers.errors import InvalidArgumentError, LanguageModelError
from graph_retrievers.evaluation.make_queries import linked_pairs, make_queries, write_queries
from graph_retrievers.evaluation.metrics import capped_recall
from graph_retrievers.evaluation.run_files import read_qrels, read_run
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.systems import every_system
from tests.helpers import HashEmbedding, linked_edges, linked_nodes

ROWS = [
    {"id": "q1", "query": "Which machine did Ada Lovelace write a program for?", "gold": ["ada", "engine"], "type": "bridge"},
    {"id": "q2", "query": "What data do punched cards hold in a loom?", "gold": ["cards", "jacquard"], "type": "bridge"},
    {"id": "q3", "query": "Who broke <ciphers> at Bletchley Park?", "gold": ["turing", "bletchley"], "type": "a & b"},
]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets") / "small"
    folder.mkdir()
    queries = [row | {"split": "test"} for row in ROWS] + [{"id": "d1", "query": "Who?", "gold": ["ibm"], "split": "dev"}]
    rows = {
        "nodes": [{"id": n.id, "title": n.title, "text": n.text} for n in linked_nodes()],
        "edges": [{"source": s, "target": t, "relation": r} for s, t, r in linked_edges()],
        "queries": queries,
    }
    for name, listed in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Vectors are kept in a folder of the tests' own."""
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path_factory.getbasetemp() / "evaluate-cache"))


def run(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_evaluate_prints_a_line_a_retriever_and_writes_json(dataset, tmp_path, capsys):
    names = ["vector", "bm25", "hybrid", "fastinsight", "walk-fusion"]
    out = tmp_path / "deep" / "out.json"
    status, printed, _ = run(capsys, "evaluate", dataset, "-k", "3", "--timed-queries", "1", "--json", out)
    assert status == 0
    lines = printed.splitlines()
    assert lines[0] == "small, split test: 3 queries"
    assert lines[1].split()[:6] == ["retriever", "Recall@3", "nDCG@3", "MRR", "Hit@1", "Hit@3"]
    assert [line.split()[0] for line in lines[2:7]] == names
    content = json.loads(out.read_text())
    assert {name: content[name] for name in ("dataset", "split", "k", "queries")} == {
        "dataset": "small",
        "split": "test",
        "k": 3,
        "queries": 3,
    }
    assert list(content["results"]) == list(content["per_query"]) == names
    for line, name in zip(lines[2:7], names, strict=True):
        found = content["results"][name]
        assert {"recall@3", "ndcg@3", "mrr", "hit@1", "seconds_per_query"} <= set(found)
        shown = [float(number) for number in line.split()[1:6]]
        assert shown == pytest.approx([found[m] for m in ("recall@3", "ndcg@3", "mrr", "hit@1", "hit@3")], abs=5e-5)
        rankings = content["per_query"][name]
        assert all(len(ids) == 3 for ids in rankings.values())
        assert found["recall@3"] == pytest.approx(sum(capped_recall(rankings[r["id"]], r["gold"], 3) for r in ROWS) / 3)


class Stopping:
    """An embedding model that is interrupted after some batches of the corpus, and counts the texts it embeds."""

    name = "stopping"

    def __init__(self, after=None):
        self.after, self.texts, self.batches = after, [], 0

    def embed_documents(self, texts):
        if not texts[0].startswith("probe"):
            if self.batches == self.after:
                raise KeyboardInterrupt
            self.batches += 1
            self.texts += texts
        return HashEmbedding().embed_documents(texts)

    def embed_query(self, text):
        return HashEmbedding().embed_query(text)


@pytest.fixture
def hundred(tmp_path):
    """A dataset of 100 nodes."""
    folder = tmp_path / "hundred"
    folder.mkdir()
    nodes = [{"id": f"n{i}", "text": f"text number {i} of a loom"} for i in range(100)]
    rows = {"nodes": nodes, "edges": [], "queries": [{"id": "q", "query": "Which loom?", "gold": ["n3"], "split": "test"}]}
    for name, listed in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    return folder


def embeds(monkeypatch, model):
    monkeypatch.setattr("graph_retrievers.signals.sentence_encoder.load_embedding", lambda name, device=None: model)
    return model


def test_an_interrupted_evaluation_embeds_only_what_is_missing(hundred, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    command = ["evaluate", hundred, "--retrievers", "vector", "--timed-queries", "0"]
    stopped = embeds(monkeypatch, Stopping(after=2))
    assert run(capsys, *command)[0] == 130 and len(stopped.texts) == 64
    goes_on = embeds(monkeypatch, Stopping())
    status, printed, err = run(capsys, *command)
    assert status == 0 and "vector" in printed and "64/100" in err
    assert len(goes_on.texts) == 36 and not set(goes_on.texts) & set(stopped.texts)
    again = embeds(monkeypatch, Stopping())
    assert run(capsys, *command)[:2] == (0, printed) and again.texts == []
    assert (tmp_path / "cache").exists()


def test_without_a_cache_nothing_is_kept(hundred, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        model = embeds(monkeypatch, Stopping())
        run(capsys, "evaluate", hundred, "--retrievers", "vector", "--timed-queries", "0", "--no-cache")
        assert len(model.texts) == 100
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_quality_is_printed_and_written_before_queries_are_timed(dataset, tmp_path, monkeypatch, capsys):
    out, seen = tmp_path / "out.json", []

    def stopped(*args, **kwargs):
        seen.append((capsys.readouterr().out, json.loads(out.read_text())["results"], sorted(tmp_path.glob("trec/*"))))
        raise KeyboardInterrupt

    options = ["--retrievers", "bm25,ppr", "--timed-queries", "2", "--json", out, "--trec", tmp_path / "trec"]
    with monkeypatch.context() as patch:
        patch.setattr("graph_retrievers.evaluation.harness.measure", stopped)
        assert run(capsys, "evaluate", dataset, *options)[0] == 130
    ((printed, results, trec),) = seen
    assert printed.splitlines()[0] == "small, split test: 3 queries" and "Recall@10" in printed
    assert list(results) == ["bm25", "ppr"] and "seconds_per_query" not in results["bm25"] and len(trec) == 3
    status, printed, _ = run(capsys, "evaluate", dataset, *options)
    assert status == 0 and printed.count("Recall@10 ") == 1
    *_, title, first, second = [line.split() for line in printed.splitlines()]
    assert title == ["retriever", "time/query"] and (first[0], second[0]) == ("bm25", "ppr") and first[2] in ("ms", "s")
    assert "seconds_per_query" in json.loads(out.read_text())["results"]["ppr"]


@pytest.mark.slow
def test_queries_runs_and_judgements_from_elsewhere(dataset, tmp_path, capsys):
    queries = tmp_path / "mine.jsonl"
    queries.write_text('{"id": "m1", "query": "Who wrote a program?", "gold": ["ada"]}\n')
    (tmp_path / "other.run").write_text("m1 Q0 ada 1 0.9 other\nm1 Q0 ibm 2 0.8 other\n")
    (tmp_path / "qrels").write_text("m1 0 ibm 1\n")
    options = ["--retrievers", "bm25", "--timed-queries", "0", "--run", f"other={tmp_path / 'other.run'}"]
    status, printed, _ = run(capsys, "evaluate", dataset, "--queries", queries, *options, "--trec", tmp_path / "trec")
    assert status == 0 and "1 queries" in printed
    assert read_run(tmp_path / "trec" / "other.run") == {"m1": [("ada", pytest.approx(0.9)), ("ibm", pytest.approx(0.8))]}
    assert read_run(tmp_path / "trec" / "bm25.run")["m1"][0][0] == "ada"
    assert read_qrels(tmp_path / "trec" / "qrels") == {"m1": {"ada": 1.0}}
    out = tmp_path / "out.json"
    run(capsys, "evaluate", dataset, "--queries", queries, *options, "--qrels", tmp_path / "qrels", "--json", out)
    assert json.loads(out.read_text())["results"]["other"]["mrr"] == 0.5


def test_a_dataset_without_splits_is_evaluated_as_a_whole_only_where_that_is_said(dataset, tmp_path, capsys):
    folder = tmp_path / "whole"
    shutil.copytree(dataset, folder)
    (folder / "queries.jsonl").write_text('{"id": "m1", "query": "Who wrote a program?", "gold": ["ada"]}\n')
    options = ["--retrievers", "bm25", "--no-embedding", "--timed-queries", "0"]
    status, _, error = run(capsys, "evaluate", folder, *options)
    assert status == 2 and "is of split 'test'; there are: no splits. Pass one of them, or --split all" in error
    status, printed, _ = run(capsys, "evaluate", folder, *options, "--split", "all")
    assert status == 0 and "whole, split all: 1 queries" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split", "train"], "there are: dev, test"),
        (["--retrievers", "all,vektor"], "Unknown system 'vektor'"),
        (["--retrievers", "vektor"], "Unknown system 'vektor'; choose from 'vector'"),
        (["--retrievers", ","], "names none"),
        (["--checkpoint", "mor"], "expected NAME=VALUE"),
        (["--checkpoint", "mor=x", "--retrievers", "vector"], "one of vector"),
        (
            ["--checkpoint", "mor=x", "--checkpoint", "mor=y", "--retrievers", "mor"],
            "'mor=y': expected NAME=VALUE, each NAME",
        ),
        (["--qrels", "missing"], "missing cannot be read"),
    ],
)
def test_wrong_arguments_are_one_line(dataset, capsys, options, message):
    status, printed, error = run(capsys, "evaluate", dataset, *options)
    assert status == 2 and printed == ""
    assert error.strip().splitlines()[-1].startswith("graph-retrievers: error: ") and message in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--use", "entities,answer"], "Unknown annotation 'answer'; choose from 'entities', 'plan'"),
        (["-k", "0"], "-k must be an integer of at least 1, got 0"),
        (["--limit", "-1"], "--limit must be an integer of at least 1, got -1"),
        (["--timed-queries", "-1"], "--timed-queries must be an integer of at least 0, got -1"),
        (["--seed", "-1"], "--seed is -1"),
    ],
)
def test_numbers_and_names_are_checked_before_anything_is_read(tmp_path, capsys, options, message):
    status, printed, error = run(capsys, "evaluate", tmp_path / "missing", *options)
    assert status == 2 and printed == "" and message in error


@pytest.mark.slow
def test_all_retrievers_stand_in_one_table_and_those_that_lack_something_are_told(dataset, tmp_path, capsys):
    out = tmp_path / "out.json"
    options = ["--timed-queries", "0", "--json", out]
    status, printed, _ = run(capsys, "evaluate", dataset, "--retrievers", "all", *options)
    assert status == 0
    left = re.findall(r"^note: (\S+) was left out: it lacks a .*\.$", printed, re.MULTILINE)
    results = json.loads(out.read_text())["results"]
    assert left and sorted([*left, *results]) == sorted(every_system())
    assert {"mor", "lesegr", "re2"} <= set(left) and {"bm25", "ppr", "walk-fusion"} <= set(results)
    assert "note: mor was left out: it lacks a trained reranker (pass --checkpoint NAME=DIR) and a plan" in printed
    assert "note: re2 was left out: it lacks a relevance model (pass --reranker).\n" in printed
    # Vector search needs a model for the questions: an error of its own, and not the end of the run.
    status, printed, _ = run(capsys, "evaluate", dataset, "--retrievers", "all", "--no-embedding", *options)
    assert status == 0 and list(json.loads(out.read_text())["results"])[0] == "bm25"
    assert re.search(r"^note: vector was left out: This index has no vectors; leave out --no-embedding\.", printed, re.MULTILINE)
    status, printed, error = run(capsys, "evaluate", dataset, "--retrievers", "vector", "--no-embedding", *options)
    assert status == 2 and printed == "" and "This index has no vectors" in error


@pytest.mark.slow
def test_a_language_model_is_given_to_those_that_ask_one(dataset, tmp_path, capsys, monkeypatch):
    (tmp_path / "their_model.py").write_text(
        "def chat(prompt):\n"
        '    return \'{"passages": ["punched cards"], "questions": ["punched cards"], "sentence": "punched cards"}\'\n'
    )
    monkeypatch.chdir(tmp_path)
    options = ["--timed-queries", "0", "--json", "out.json", "--retrievers", "vector,hybrid,hyde,decomposition,ircot,ppr"]
    status, printed, _ = run(capsys, "evaluate", dataset, *options)
    assert status == 0
    for name in ("hyde", "decomposition", "ircot"):
        assert f"note: {name} ran without a language model (pass --language-model).\n" in printed
    before = json.loads((tmp_path / "out.json").read_text())["per_query"]
    assert before["hyde"] == before["vector"]
    status, printed, _ = run(capsys, "evaluate", dataset, *options, "--language-model", "their_model:chat")
    after = json.loads((tmp_path / "out.json").read_text())["per_query"]
    assert status == 0 and "ran without" not in printed and all(after[name] == before[name] for name in ("vector", "ppr"))
    assert all(after[name] != before[name] for name in ("hyde", "decomposition", "ircot"))


def test_a_language_model_is_given_to_systems_inside_others(dataset, tmp_path, capsys, monkeypatch):
    (tmp_path / "model_of_theirs.py").write_text('def chat(prompt):\n    return \'{"questions": ["punched cards"]}\'\n')
    monkeypatch.chdir(tmp_path)
    inside = "fused(systems=['bm25', 'decomposition(search=\"bm25\")'])"
    options = ["--retrievers", inside, "--no-embedding", "--timed-queries", "0"]
    assert f"{inside} ran without a language model" in run(capsys, "evaluate", dataset, *options)[1]
    status, printed, _ = run(capsys, "evaluate", dataset, *options, "--language-model", "model_of_theirs:chat")
    assert status == 0 and "ran without" not in printed


def test_the_text_of_a_system_may_have_commas_brackets_and_quotes(dataset, tmp_path, capsys):
    names = ["bm25", "fused(systems=['bm25', 'spreading(steps=2, gate=\"uniform\")'], weights=(2, 1))", "spreading(gate='uniform')"]
    options = ["--retrievers", " , ".join(names), "--no-embedding", "--timed-queries", "0", "--json", tmp_path / "out.json"]
    status, *_ = run(capsys, "evaluate", dataset, *options, "--trec", tmp_path / "trec")
    assert status == 0 and list(json.loads((tmp_path / "out.json").read_text())["results"]) == names
    written = {unquote(path.stem): path for path in (tmp_path / "trec").glob("*.run")}
    assert written.keys() == set(names) and all(len(read_run(path)) == 3 for path in written.values())
    assert (tmp_path / "trec" / "bm25.run").is_file()


def test_the_help_shows_a_line_of_the_queries(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    line = re.search(r'\{"id".*?\}', " ".join(capsys.readouterr().out.split()))[0]
    (tmp_path / "queries.jsonl").write_text(line)
    (query,) = read_queries(tmp_path / "queries.jsonl")
    assert (query.text, query.gold) == ("Who wrote the program?", ("ada",))


def test_what_is_named_and_lacks_something_runs_and_says_so(dataset, capsys):
    status, printed, _ = run(capsys, "evaluate", dataset, "--retrievers", "bm25,mor(rerank=False)", "--timed-queries", "0")
    assert status == 0 and printed.count("mor(rerank=False) ") == 2
    assert "note: mor(rerank=False) ran without a plan (pass --use plan or --checkpoint NAME=DIR).\n" in printed


# -- make-queries -----------------------------------------------------------------------------------------------


def test_made_queries_name_linked_pairs(dataset, tmp_path, capsys):
    out = tmp_path / "made.jsonl.gz"
    status, printed, _ = run(capsys, "make-queries", dataset, out, "--count", "5", "--split", "dev")
    assert status == 0 and "5 queries" in printed
    nodes = {node.id: node for node in read_dataset(dataset).nodes}
    links = {(source, target) for source, target, _ in linked_edges()}
    queries = read_queries(out, nodes=nodes)
    assert len(queries) == 5 and {q.split for q in queries} == {"dev"} and len({q.gold[0] for q in queries}) == 5
    for query in queries:
        first, second = (nodes[name] for name in query.gold)
        assert query.gold in links and query.text.startswith(f"What links {first.title} to ")
        said = query.text.removeprefix(f"What links {first.title} to ").removesuffix("?").replace(" and ", ", ").split(", ")
        words = f"{first.title} {first.text}".lower()
        assert len(said) == 3
        assert all(word in second.text.lower() and word not in words and word not in second.title.lower() for word in said)
    status, printed, _ = run(capsys, "evaluate", dataset, "--queries", out, "--split", "dev", "--retrievers", "bm25")
    assert status == 0 and "5 queries" in printed


def test_pairs_depend_on_the_seed_alone():
    nodes, edges = linked_nodes(), linked_edges()
    graph = CorpusGraph.from_nodes(nodes, edges)
    pairs = linked_pairs(graph, seed=1)
    assert pairs == linked_pairs(CorpusGraph.from_nodes(nodes, edges[::-1] + edges), seed=1)
    assert pairs != linked_pairs(graph, seed=2)
    assert len(pairs) == len({first for first, _ in pairs}) == len({edge[0] for edge in edges})
    both_ways = CorpusGraph(["a", "b", "c"], ["one two", "three", ""], edges=[("a", "b"), ("b", "a"), ("a", "a"), ("a", "c")])
    assert len(linked_pairs(both_ways)) == 1
    with pytest.raises(InvalidArgumentError, match="linked"):
        make_queries(CorpusGraph(["a", "b"], ["one two", "three"], edges=[("a", "a")]))
    with pytest.raises(InvalidArgumentError, match="count"):
        make_queries(both_ways, 0)


def test_a_language_model_writes_them_and_may_turn_pairs_down(tmp_path):
    graph = CorpusGraph.from_nodes(linked_nodes(), linked_edges())
    answers = [
        '{"question": "What machine did the author of the first program write for?", "needs_both": true}',
        '{"question": "What is it?", "needs_both": false}',
        '{"question": "", "needs_both": true}',
    ]
    chat = FakeListChatModel(responses=answers)
    queries = make_queries(graph, 3, language_model=chat, workers=1)
    # Eight pairs are asked, in rounds of what is still missing; every third answer is of use.
    assert 2 <= len(queries) <= 3 and {q.text for q in queries} == {"What machine did the author of the first program write for?"}
    links = {(source, target) for source, target, _ in linked_edges()}
    assert all(query.gold in links for query in queries)
    prompts = []
    make_queries(graph, 1, language_model=lambda prompt: prompts.append(prompt) or answers[0])
    first, second = (graph.content(row) for row in linked_pairs(graph)[0])
    assert prompts[0].index(first) < prompts[0].index(second)
    with pytest.raises(LanguageModelError, match="for none of"):
        make_queries(graph, 2, language_model=lambda prompt: answers[1])
    with pytest.raises(LanguageModelError):
        make_queries(graph, 2, language_model=lambda prompt: "no JSON")
    write_queries(tmp_path / "q.jsonl", queries)
    assert read_queries(tmp_path / "q.jsonl") == queries


def test_a_language_model_that_fails_on_the_way_leaves_fewer_questions_and_a_warning(caplog):
    answers = iter(['{"question": "Why so?", "needs_both": true}'])
    queries = make_queries(
        CorpusGraph.from_nodes(linked_nodes(), linked_edges()),
        3,
        language_model=lambda prompt: next(answers, "no JSON"),
        workers=1,
    )
    assert [query.text for query in queries] == ["Why so?"]
    # Three pairs, and once more two in place of those that failed.
    assert "failed for 4 of 5 linked pairs, and 1 of 3 questions were made" in caplog.text


def test_a_language_model_is_named_by_module(dataset, tmp_path, capsys, monkeypatch):
    (tmp_path / "my_model.py").write_text(
        'def chat(prompt):\n    return \'{"question": "Why so?", "needs_both": true}\'\n', encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    status, *_ = run(capsys, "make-queries", dataset, "q.jsonl", "--count", "2", "--language-model", "my_model:chat")
    assert status == 0 and {q.text for q in read_queries("q.jsonl")} == {"Why so?"}
    for wrong in ("my_model", "my_model:nothing", "no_such_module_here:chat"):
        status, _, error = run(capsys, "make-queries", dataset, "q.jsonl", "--language-model", wrong)
        assert status == 2 and "--language-model" in error


@pytest.mark.parametrize("options", [[], ["--no-cache"]], ids=["cached", "anew"])
def test_edges_are_embedded_for_retrievers_that_read_them(dataset, monkeypatch, capsys, options):
    asked = []

    class Model(HashEmbedding):
        def embed_documents(self, texts):
            asked.extend(texts)
            return super().embed_documents(texts)

    embeds(monkeypatch, Model())
    run(capsys, "evaluate", dataset, "--retrievers", "ppr", "--timed-queries", "0", *options)
    assert "Ada Lovelace links Charles Babbage" not in asked
    inside = "fused(systems=['bm25', 'hyde(search=\"g-retriever\")'])"
    for names in ("bm25,g-retriever,hipporag", "ego-grag", inside, "path-reranking(first='hipporag')"):
        asked.clear()
        status, printed, _ = run(capsys, "evaluate", dataset, "--retrievers", names, "--timed-queries", "0", *options, "--no-cache")
        assert status == 0 and "Ada Lovelace links Charles Babbage" in asked
        assert "no signal" not in printed and names.split(",")[-1] in printed
