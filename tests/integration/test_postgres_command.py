"""The command that writes an index to PostgreSQL."""

import json
import re
import sys
from argparse import Namespace
from contextlib import suppress
from dataclasses import replace

import numpy as np
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from graph_retrievers import GraphIndex, Node, Retriever, WalkFusion, minilm
from graph_retrievers.commands import index as index_command
from graph_retrievers.commands import models
from graph_retrievers.commands.cli import main
from graph_retrievers.commands.engines import check_postgres
from graph_retrievers.errors import InvalidArgumentError, MissingDependencyError
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.signals.sentence_encoder import SentenceEncoder
from graph_retrievers.signals.vector_cache import PROBES
from graph_retrievers.stores import postgres as postgres_stores
from graph_retrievers.stores.postgres import PostgresDatabase, open_index, read_index, update_index, write_index, writer
from tests.engines import QUESTIONS, change_pages
from tests.helpers import HashEmbedding, WordOverlap
from tests.postgres import contents, drop


@pytest.fixture
def command(pages, tmp_path, monkeypatch, capsys):
    """Run ``index`` on the pages; return status, output and messages."""
    monkeypatch.setenv("GRAPH_RETRIEVERS_CACHE", str(tmp_path / "cache"))
    for name in ("PGPASSWORD", "PGSSLMODE"):
        monkeypatch.delenv(name, raising=False)

    def run(*options):
        status = main(["index", str(pages), *map(str, options)])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_the_command_fills_the_tables_and_follows_the_folder(postgres_server, pages, tmp_path, command, capsys):
    options = ("--to", postgres_server.url, "--name", "works", "--tokens", 20)
    status, out, err = command(*options)
    database = PostgresDatabase(postgres_server.url)
    assert status == 0, err
    assert out.endswith(f"{database.where}, works: 20 nodes (20 written), 60 edges (60 written)\n") and "writing nodes: 100%" in err
    assert command(*options)[1].endswith("works: 20 nodes (unchanged), 60 edges (unchanged)\n")
    change_pages(pages)
    status, out, err = command(tmp_path / "out", *options)
    assert "works: 18 nodes (6 written, 11 moved, 4 deleted), " in out, err
    index = GraphIndex.load(tmp_path / "out", embedding=minilm())
    remote = Retriever(open_index(database, "works", embedding=minilm()))
    for question in QUESTIONS:
        assert [hit.id for hit in remote.retrieve(question)] == [
            hit.id for hit in Retriever(index, WalkFusion()).retrieve(question)
        ]
    for more in (("--retriever", "bm25"), ()):
        asked = [QUESTIONS[0], "-k", "3", "--json", *more]
        assert main(["search", postgres_server.url, *asked, "--name", "works"]) == 0
        there = json.loads(capsys.readouterr().out)
        assert main(["search", str(tmp_path / "out"), *asked]) == 0
        here = json.loads(capsys.readouterr().out)
        assert there["retriever"] == here["retriever"]
        assert [(hit["id"], hit["path"]) for hit in there["hits"]] == [(hit["id"], hit["path"]) for hit in here["hits"]]
    drop(database)


def test_a_search_says_what_is_wrong_with_the_place(postgres_server, capsys):
    for options, said in [
        ((postgres_server.url, "loom", "--name", "nothing"), "has no index"),
        ((f"postgresql://me:{SECRET}@127.0.0.1:1/x", "loom"), "INDEX holds a password; set PGPASSWORD in the environment."),
        (("postgresql://db.example.org/x", "loom"), "would send texts to db.example.org without TLS"),
        (("postgresql://localhost:1,db.example.org:2/x", "loom"), "would send texts to db.example.org without TLS"),
        (("postgresql://localhost%2Cdb.example.org/x", "loom"), "would send texts to db.example.org without TLS"),
        (("postgresql:///x?host=/tmp,db.example.org", "loom"), "would send texts to db.example.org without TLS"),
        (("postgresql://localhost/x?hostaddr=127.0.0.1,192.0.2.1", "loom"), "would send texts to 192.0.2.1 without TLS"),
        (("postgresql://localhost/x?host=::ffff:192.0.2.1", "loom"), "would send texts to ::ffff:192.0.2.1 without TLS"),
        (("postgresql://localhost#@db.example.org/x", "loom"), "would send texts to db.example.org without TLS"),
        (("postgresql:///x?service=far", "loom"), "would send texts to the host of the service 'far' without TLS"),
        (
            (f"postgresql://{SECRET}@[::1/x", "loom"),
            "INDEX is not an address that PostgreSQL reads; expected postgresql://USER@",
        ),
    ]:
        assert main(["search", *options]) == 2
        err = capsys.readouterr().err
        assert said in err and SECRET not in err


def test_a_password_is_found_where_libpq_finds_one_and_without_the_driver(monkeypatch):
    draw, refused = np.random.default_rng(0), []
    parts = "me secret password sslpassword %70assword %3A %40 %2F %26 : @ / ? & = ,".split() + [" "]
    for length in draw.integers(1, 10, 20_000):
        url = "postgresql://" + "".join(parts[part] for part in draw.integers(len(parts), size=length))
        with suppress(psycopg.ProgrammingError):
            options = conninfo_to_dict(url)
            if options.get("password") or options.get("sslpassword"):
                refused.append(url)
    assert len(refused) > 100
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for url in refused:
        with pytest.raises(InvalidArgumentError, match="^INDEX holds a password; set PGPASSWORD in the environment.$"):
            check_postgres("INDEX", url, insecure=True)
    for url in ("postgresql://me%3Ayou@localhost/x", "postgresql://me:@localhost/password=x?passfile=y"):
        with pytest.raises(MissingDependencyError, match=r"pip install 'graph-retrievers\[postgres\]'"):
            check_postgres("INDEX", url, insecure=True)


def test_hosts_of_the_environment_are_checked_like_those_of_the_address(monkeypatch, capsys):
    for variable in ("PGHOST", "PGHOSTADDR"):
        with monkeypatch.context() as given:
            given.setenv(variable, "192.0.2.1")
            assert main(["inspect", "postgresql:///x"]) == 2
            assert "would send texts to 192.0.2.1 without TLS" in capsys.readouterr().err
    with monkeypatch.context() as given:
        given.setenv("PGSERVICE", "far")
        assert main(["inspect", "postgresql://localhost:1/x"]) == 2
        assert "would send texts to the host of the service 'far' without TLS" in capsys.readouterr().err
    with monkeypatch.context() as given:
        given.setenv("PGHOST", "192.0.2.1")
        assert main(["inspect", "postgresql://localhost:1/x"]) == 2
        assert "cannot be reached" in capsys.readouterr().err
    for address in (
        *("postgresql://[::1]:1/x", "postgresql://me@127.0.0.1:1,localhost:1/x", "postgresql:///x?host=/nowhere"),
        *("postgresql://%2Fnowhere/x", "postgresql://me,you@localhost:1/x"),
    ):
        assert main(["inspect", address]) == 2
        assert "cannot be reached" in capsys.readouterr().err


def test_another_machine_is_asked_with_tls_or_if_the_user_says_so(monkeypatch):
    where = "postgresql://db.example.org/x"
    check_postgres("INDEX", f"{where}?sslmode=verify-full", insecure=False)
    check_postgres("INDEX", where, insecure=True)
    with pytest.raises(InvalidArgumentError, match="would send texts to db.example.org without TLS"):
        check_postgres("INDEX", where, insecure=False)
    monkeypatch.setenv("PGSSLMODE", "require")
    check_postgres("INDEX", where, insecure=False)


def test_another_model_than_that_of_the_vectors_is_told_once(postgres_server, caplog):
    database = PostgresDatabase(postgres_server.url)
    write_index(GraphIndex.from_texts(["A loom.", "A card."], embedding=HashEmbedding(8)), database, "named")
    open_index(database, "named", embedding=HashEmbedding(8))
    assert not caplog.records
    other = type("OtherEmbedding", (HashEmbedding,), {"name": "other"})(8)
    retriever = Retriever(open_index(database, "named", embedding=other))
    retriever.retrieve("loom")
    (record,) = caplog.records
    assert "The vectors of the index 'named' were made by" in record.message and "are embedded by other" in record.message
    drop(database)


SECRET = "hush-hush-9"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", "{url}", "--vectors", "qdrant"), "--vectors is not for PostgreSQL, which holds vectors and words too"),
        (("--to", "{url}", "--database", "x"), "--database is not for PostgreSQL"),
        (("--to", f"postgresql://me:{SECRET}@127.0.0.1:1/x"), "--to holds a password; set PGPASSWORD in the environment."),
        (("--to", f"postgresql://127.0.0.1:1/x?password={SECRET}"), "--to holds a password; set PGPASSWORD in the environment."),
        (
            ("--to", "postgresql://db.example.org/x"),
            "would send texts to db.example.org without TLS if the server allows it. Add ?ssl",
        ),
        (("--to", "postgresql:///x?host=db.example.org"), "would send texts to db.example.org without TLS"),
        (("--to", "postgresql://127.0.0.1:1/x"), "127.0.0.1:1/x cannot be reached"),
        (("--to", "postgresql://0.0.0.0:1/x?sslmode=require"), "0.0.0.0:1/x cannot be reached"),
        (("--to", "postgresql://0.0.0.0:1/x", "--insecure"), "0.0.0.0:1/x cannot be reached"),
        (("--to", "{url}&user=nobody_here"), "refused the user"),
        (("--to", "{url}", "--name", ""), "The name of the index is ''; expected a text"),
    ],
)
def test_the_command_says_what_is_wrong_before_it_reads(postgres_server, command, options, said):
    status, out, err = command(*(option.format(url=postgres_server.url) for option in options))
    assert status == 2 and said in err and err.count("\n") == 1 and not out and SECRET not in err


def held(database, name):
    """All that the tables hold of an index, without the numbers of nodes."""
    sql = "SELECT nodes, length, dimension, embedding, settings, traits FROM {corpora} WHERE name = %(name)s"
    return contents(database, name), database.read((sql, {"name": name}))


@pytest.mark.parametrize("embedded", [(), ("--no-embedding",)], ids=["vectors", "words"])
def test_what_is_written_in_blocks_is_the_index_in_memory(embedded, postgres_server, pages, tmp_path, command, monkeypatch):
    monkeypatch.setattr(writer, "BLOCK", 7)
    monkeypatch.setattr(index_command, "_TEXTS", 3)
    options = ("--to", postgres_server.url, "--tokens", 20, *embedded)
    status, in_blocks, err = command(*options, "--name", "blocks")
    assert status == 0, err
    # With OUT, the whole index is made in memory.
    _, whole, _ = command(tmp_path / "out", *options, "--name", "whole")
    assert in_blocks.splitlines()[1].split(" nodes, ")[1].split(", in ")[0] in whole
    with PostgresDatabase(postgres_server.url) as database:
        assert held(database, "blocks") == held(database, "whole")
        # Each finds what the other has written.
        assert command(*options, "--name", "whole")[1].endswith("nodes (unchanged), 60 edges (unchanged)\n")
        drop(database)


def test_the_command_keeps_vectors_of_edges_up_to_date(postgres_server, pages, command):
    options = ("--to", postgres_server.url, "--tokens", 20, "--name", "works")
    assert command(*options)[0] == 0
    with PostgresDatabase(postgres_server.url) as database:
        update_index(database, "works", edge_signals=True, embedding=minilm())
        change_pages(pages)
        status, out, err = command(*options)
        assert status == 0 and re.search(r", \d+ vectors of edges written\n$", out), err
        found = read_index(database, "works")
        expected = GraphIndex.from_graph(found.graph, embedding=minilm(), edge_signals=True, metric="cosine")
        np.testing.assert_allclose(found.signal("edge_dense").vectors, expected.signal("edge_dense").vectors, atol=1e-5)
        assert command(*options)[1].endswith("nodes (unchanged), 45 edges (unchanged)\n")
        drop(database)


class Stopped(BaseException):
    """The process is stopped."""


def test_a_run_that_is_stopped_goes_on_without_embedding_again(postgres_server, pages, command, monkeypatch):
    monkeypatch.setattr(index_command, "_TEXTS", 3)
    batches, asked = SentenceEncoder.batches, []

    def asking(self, texts):
        asked.extend(texts)
        return batches(self, texts)

    def stopping(self, texts):
        if len(asked) > 12:
            raise Stopped
        return asking(self, texts)

    options = ("--to", postgres_server.url, "--tokens", 20)
    with monkeypatch.context() as stop, pytest.raises(Stopped):
        stop.setattr(SentenceEncoder, "batches", stopping)
        command(*options)
    before = {*asked}
    asked.clear()
    monkeypatch.setattr(SentenceEncoder, "batches", asking)
    status, out, err = command(*options)
    assert status == 0 and "20 nodes (20 written)" in out, err
    # Two fixed texts tell the model from others each time.
    assert before.intersection(asked) == {*PROBES} and len(before) > 9 and len(asked) < 13
    with PostgresDatabase(postgres_server.url) as database:
        drop(database)


def test_inspect_prints_what_it_prints_of_the_folder(postgres_server, pages, tmp_path, command, capsys):
    status, _, err = command(tmp_path / "out", "--to", postgres_server.url, "--name", "it's; --", "--tokens", 20)
    assert status == 0, err
    told = []
    for place in ((str(tmp_path / "out"),), (postgres_server.url, "--name", "it's; --")):
        assert main(["inspect", *place]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert main(["inspect", *place, "--json"]) == 0
        told.append((lines, json.loads(capsys.readouterr().out)))
    (lines, here), (stored, there) = told
    # The walk over the whole graph that counts components is not one for the database.
    assert stored == [line for line in lines if not line.startswith(("components", "references"))] and len(stored) >= 6
    assert there == {**here, "components": None, "largest_component": None, "references": ""}
    with PostgresDatabase(postgres_server.url) as database:
        drop(database)


def test_an_index_of_odd_texts_is_described_as_in_memory(postgres):
    nodes = [
        Node("a\x00", "A \x01loom.", "Loom\x00", "machine\x02"),
        Node("b", "A card.", "", "it's; --"),
        Node("c", "A card.", "Card", "it's; --"),
        Node("d", " ", "", "it's; --"),
    ]
    index = GraphIndex.from_nodes(nodes, [("a\x00", "b", "reads\x03"), ("c", "b", ""), ("c", "b", ""), ("b", "b", "self")])
    write_index(index, postgres, "odd")
    found = open_index(postgres, "odd").describe()
    assert found.types == {"machine\x02": 1, "it's; --": 3} and (found.repeated, found.blank, found.untitled) == (2, 1, 2)
    assert replace(found, components=3, largest_component=2) == replace(index.describe(), components=3, largest_component=2)
    write_index(GraphIndex.from_texts(["A loom.", "A drum."]), postgres, "bare")
    assert str(open_index(postgres, "bare").describe()).split("advice: ")[1].startswith("There are no edges")


def test_types_and_relations_are_described_in_the_order_of_the_index(postgres):
    nodes = [Node(name, f"A {name}.", "", kind) for name, kind in (("loom", "tool"), ("Ada", "person"), ("card", "tool"))]
    edges = [("Ada", "loom", "writes for"), ("loom", "card", "reads"), ("Ada", "card", "writes for")]
    write_index(GraphIndex.from_nodes(nodes, edges), postgres, "works")
    found = open_index(postgres, "works").describe()
    assert list(found.types.items()) == [("tool", 2), ("person", 1)]
    assert list(found.edges.items()) == [("writes for", 2), ("reads", 1)]


def test_the_tokens_are_those_that_the_model_reads_as_in_memory(postgres):
    model = HashEmbedding(16)
    texts = ["The loom of the mill weaves a cloth.", "The cards of the loom are read.", "The wheel of the mill."]
    nodes = [Node(str(row), text, "A title of five words") for row, text in enumerate(texts)]
    # The shortest text has as many as the model reads.
    shortest = GraphIndex.from_nodes(nodes, include_titles=False).describe().tokens[0]
    model.name, model.max_length, model.languages = "reader", shortest, ("de",)
    for titles, longer in ((False, 2), (True, 3)):
        index = GraphIndex.from_nodes(nodes, [("0", "1")], embedding=model, include_titles=titles)
        write_index(index, postgres, "works", replace=True)
        found = open_index(postgres, "works", embedding=model).describe()
        assert (found.truncated, found.embedding) == (longer, "reader") and "reads German" in str(found.advice)
        assert replace(found, components=2, largest_component=2) == replace(index.describe(), components=2, largest_component=2)
    assert open_index(postgres, "works").describe().embedding == "reader"


def test_commands_that_read_a_whole_index_read_that_of_the_database(postgres_server, pages, tmp_path, command, capsys):
    assert command(tmp_path / "out", "--to", postgres_server.url, "--name", "works", "--tokens", 20)[0] == 0
    printed = []
    for place in ((str(tmp_path / "out"),), (postgres_server.url, "--name", "works")):
        queries, page = tmp_path / "queries.jsonl", tmp_path / "page.html"
        assert main(["make-queries", place[0], str(queries), "--count", "5", *place[1:]]) == 0
        options = ("--queries", str(queries), "--retrievers", "hybrid,linear-rag", "--timed-queries", "0")
        assert main(["evaluate", *place, *options]) == 0
        table = capsys.readouterr().out.replace("\nout, ", "\nworks, ")
        assert main(["search", *place, QUESTIONS[0], "--html", str(page)]) == 0
        assert QUESTIONS[0] in page.read_text(encoding="utf-8")
        printed.append((queries.read_text(encoding="utf-8"), table))
        capsys.readouterr()
    assert printed[0] == printed[1] and "linear-rag" in printed[0][1] and "works, " in printed[0][1]
    assert main(["evaluate", postgres_server.url, "--name", "works"]) == 2
    assert "An index in PostgreSQL is not a dataset; for an index, pass questions with --queries FILE." in capsys.readouterr().err
    drop(PostgresDatabase(postgres_server.url))


def test_the_index_that_is_read_has_the_models_that_the_command_needs(postgres_server, pages, tmp_path, command, monkeypatch):
    assert command("--to", postgres_server.url, "--name", "works", "--tokens", 20)[0] == 0
    read, relevance = [], as_relevance_model(WordOverlap())
    monkeypatch.setattr(postgres_stores, "read_index", lambda *given, **kept: read.append(read_index(*given, **kept)) or read[-1])
    monkeypatch.setattr(models, "reranker", lambda args: relevance)
    place, queries = (postgres_server.url, "--name", "works"), str(tmp_path / "queries.jsonl")
    assert main(["make-queries", place[0], queries, "--count", "2", *place[1:]]) == 0
    for retriever in ("hybrid", "hipporag"):
        assert main(["evaluate", *place, "--queries", queries, "--retrievers", retriever, "--timed-queries", "0"]) == 0
    assert [index.embedding is None for index in read] == [True, False, False]
    assert ["edge_dense" in index.signals for index in read] == [False, False, True]
    assert all(index.relevance is relevance for index in read)
    args = Namespace(name="works", insecure=False, device=None, no_embedding=True)
    assert [models.load_index(args, place[0], ready=ready).prepared for ready in (False, True)] == [False, True]
    drop(PostgresDatabase(postgres_server.url))


READING = (("serve",), ("mcp",), ("evaluate", "--queries", "queries.jsonl"), ("make-queries", "out"))


def test_a_command_that_reads_a_folder_says_so_of_an_address(capsys):
    where = f"postgresql://me:{SECRET}@127.0.0.1:1/x"
    for arguments in (
        *(("fit", "mor", where, "--out", "out"), ("index", where, "out")),
        *(
            (name, f"bolt://me:{SECRET}@host", *more)
            for name, *more in (("serve",), ("mcp",), ("evaluate",), ("make-queries", "out"))
        ),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        err = capsys.readouterr().err
        assert ended.value.code == 2 and SECRET not in err
        assert "://..., and not a folder. " in err
        assert ("Documents are read from files." if where in arguments else "Give a folder, or postgresql://USER@HOST/") in err
    for arguments, said in (
        (("inspect", where), "INDEX holds a password; set PGPASSWORD in the environment."),
        (("inspect", "postgresql://db.example.org/x"), "would send texts to db.example.org without TLS"),
        *(((name, where, *more), "INDEX holds a password;") for name, *more in READING),
    ):
        assert main([*arguments]) == 2
        err = capsys.readouterr().err
        assert said in err and SECRET not in err
