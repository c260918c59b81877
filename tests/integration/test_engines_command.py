"""The command that writes an index to a database and Qdrant."""

import pytest
from qdrant_client import QdrantClient

from graph_retrievers import GraphIndex, Retriever, WalkFusion, minilm
from graph_retrievers.commands.cli import main
from tests.engines import QUESTIONS, change_pages, contents, remote_of


@pytest.fixture
def command(cypher_server, database, pages, tmp_path, monkeypatch, capsys):
    """Run ``index`` on the pages with the secrets of the server in the environment; return status, output and messages."""
    environment = {"NEO4J_USERNAME": cypher_server.auth[0], "NEO4J_PASSWORD": cypher_server.auth[1]}
    for name, value in {**environment, "GRAPH_RETRIEVERS_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)

    def run(*options):
        status = main(["index", str(pages), *map(str, options)])
        printed = capsys.readouterr()
        assert cypher_server.auth[1] not in printed.out + printed.err
        return status, printed.out, printed.err

    return run


def test_the_command_fills_the_engines_and_follows_the_folder(cypher_server, database, pages, tmp_path, command):
    label, place = database.schema.label, tmp_path / "qdrant"
    options = ("--to", cypher_server.uri, "--vectors", place, "--name", label, "--database", cypher_server.name, "--tokens", 20)
    status, out, err = command(*options)
    assert status == 0, err
    whole = f"{cypher_server.uri}, {label}: 20 nodes (20 written), 60 edges (60 written); {place}: 20 points (20 written)\n"
    assert out.endswith(whole) and f"{pages}: 20 nodes, 60 edges (" in out and "writing points: 100%" in err
    assert command(*options)[1].endswith(f"20 nodes (unchanged), 60 edges (unchanged); {place}: 20 points (unchanged)\n")
    change_pages(pages)
    status, out, err = command(tmp_path / "out", *options)
    assert "18 nodes (6 written, 11 moved, 4 deleted), " in out and "points (" in out and ", 4 deleted)" in out, err
    index = GraphIndex.load(tmp_path / "out", embedding=minilm())
    client = QdrantClient(path=str(place))
    held = contents(database, client, label)
    assert held[0].keys() == held[2].keys() == set(index.graph.ids) and len(held[1]) == index.graph.num_edges
    remote = Retriever(remote_of(database, client, label, embedding=minilm()))
    for question in QUESTIONS:
        assert [hit.id for hit in remote.retrieve(question)] == [
            hit.id for hit in Retriever(index, WalkFusion()).retrieve(question)
        ]
    client.close()


SECRET = "hush-hush-9"


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        ((), {}, "Where is the index to go? Give OUT, a folder, or --to."),
        (("--to", "{uri}"), {}, "--to and --vectors belong together"),
        (("--to", "{uri}", "--vectors", "{folder}"), {"NEO4J_PASSWORD": SECRET}, "Check NEO4J_USERNAME and NEO4J_PASSWORD"),
        (("--to", "{uri}", "--vectors", "localhost:6333"), {}, "would be a folder; write an address as http://localhost:6333"),
        (("--to", "{uri}", "--vectors", "{pages}"), {}, "holds 'card.md', which Qdrant did not make; give a folder"),
        (("--to", "{uri}", "--vectors", "{pages}/card.md"), {}, "is a file; expected http://HOST:6333"),
        (("--to", "bolt://127.0.0.1:1", "--vectors", "{folder}"), {}, "bolt://127.0.0.1:1 cannot be reached"),
        (("--to", "bolt://0.0.0.0:1", "--vectors", "{folder}", "--insecure"), {}, "bolt://0.0.0.0:1 cannot be reached"),
        (("--to", "{uri}", "--vectors", "{folder}"), {"NEO4J_DATABASE": "elsewhere"}, "elsewhere"),
        (("--to", "{uri}", "--vectors", "http://127.0.0.1:1"), {}, "Qdrant cannot be reached"),
        (("--to", f"bolt://me:{SECRET}@127.0.0.1:1", "--vectors", "{folder}"), {}, "set NEO4J_PASSWORD in the environment"),
        (("--to", "{uri}", "--vectors", f"http://h:6333?api_key={SECRET}"), {}, "set QDRANT_API_KEY in the environment"),
        (("--to", "bolt://db.example.org", "--vectors", "{folder}"), {}, "as it is. Use bolt+s://, or --insecure in a network"),
        (
            ("--to", "{uri}", "--vectors", "http://q.example.org"),
            {"QDRANT_API_KEY": SECRET},
            "as it is. Use https://, or --insecure",
        ),
        (("--to", "{uri}", "--vectors", "ftp://q.example.org"), {}, "expected http://HOST:6333, https://..., or a folder"),
        (("--to", "{uri}", "--vectors", "{folder}", "--name", "a`b"), {}, "cannot be a label"),
    ],
)
def test_the_command_says_what_is_wrong_before_it_reads(cypher_server, command, tmp_path, monkeypatch, options, environment, said):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    given = {"uri": cypher_server.uri, "folder": tmp_path / "qdrant", "pages": tmp_path / "pages"}
    status, out, err = command(*(option.format(**given) for option in options))
    assert status == 2 and said in err and err.count("\n") == 1 and not out and SECRET not in err


def test_the_command_asks_for_its_own_flags(cypher_server, database, command, tmp_path):
    options = ("--to", cypher_server.uri, "--vectors", tmp_path / "qdrant", "--name", database.schema.label)
    options += ("--database", cypher_server.name, "--no-embedding")
    assert command(*options)[0] == 0
    (tmp_path / "pages" / "loom.md").rename(tmp_path / "loom.txt")
    for page in (tmp_path / "pages").iterdir():
        page.unlink()
    (tmp_path / "pages" / "other.txt").write_text("Another folder.")
    status, _, err = command(*options)
    assert status == 2 and "Give another name to write this one beside it, or pass --replace to write it in its place." in err
    assert command(*options, "--replace")[0] == 0 and contents(database, QdrantClient(":memory:"))[0].keys() == {"other.txt"}
