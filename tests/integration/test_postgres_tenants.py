"""Row-level security: a role sees the rows of its tenant alone, also in what the package asks."""

import re
from pathlib import Path

import numpy as np
import pytest

from graph_retrievers import Edge, LinearRAG, Node, WalkFusion
from graph_retrievers.errors import DatabaseAuthError, EmptyGraphError
from graph_retrievers.operators import FactSearch
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.stores.postgres import open_index, read_index, update_index
from tests.helpers import HashEmbedding

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
NAMES = ("films", "music")


def nodes(name):
    words = ("loom", "card", "mill", "wheel")
    return [
        Node(f"{name}-{row}", f"A {word} of {name}, of Ada Holm.", f"{word} {name}", "", {"tenant": name, f"of {name}": row})
        for row, word in enumerate(words)
    ]


def links(name):
    return [Edge(f"{name}-{row}", f"{name}-{(row + 1) % 4}", "near", text=f"known to {name}") for row in range(4)]


@pytest.fixture
def secured(postgres_server, postgres):
    """An index of two tenants with links between them, and the policies of the page for a role that is not an owner."""
    between = [Edge("films-0", "music-0", "between", text="known to both")]
    edges = [*links("films"), *links("music"), *between]
    update_index(
        postgres,
        "works",
        upsert=[*nodes("films"), *nodes("music")],
        add_edges=edges,
        embedding=HashEmbedding(16),
        edge_signals=True,
        sentences=True,
    )
    (sql,) = re.findall(r"```sql\n(CREATE ROLE.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    sql = sql.replace("graph_retrievers.", f"{postgres.schema}.").replace("SCHEMA graph_retrievers", f"SCHEMA {postgres.schema}")
    with postgres.writing() as writing:
        for statement in filter(str.strip, sql.split(";\n")):
            writing.connection.execute(statement)
    url = postgres_server.url.replace("postgres:@", "searcher:@")
    yield {name: postgres_server.open(postgres.schema, url=f"{url}&options=-c%20app.tenant%3D{name}") for name in NAMES}
    with postgres.writing() as writing:
        writing.run("DROP SCHEMA {schema} CASCADE")
        writing.run("DROP ROLE searcher")
        writing.run("CREATE SCHEMA {schema}")


def test_a_role_sees_the_rows_of_its_tenant_alone(secured):
    for name, other in (NAMES, NAMES[::-1]):
        database = secured[name]
        tables = ("nodes", "vectors", "edges", "edge_vectors", "names", "mentions", "sentences", "words")
        counts = [len(rows) for rows in database.read(*((f"SELECT 1 FROM {{{table}}}", {}) for table in tables))]
        assert counts == [4, 4, 4, 4, 5, 8, 4, 16]
        remote = open_index(database, "works", embedding=HashEmbedding(16))
        # The number of nodes of all is not a secret.
        assert len(remote) == 8
        # In a scope, degrees and the rarity of words are counted among the rows that the role sees.
        retriever = Retriever(remote, WalkFusion(form="links"), k=20)
        for question in (f"Which loom of {other}?", f"wheel {other} loom card", ""):
            hits = retriever.retrieve(question, scope={"tenant": {"$exists": True}}, filter={"$type": ""})
            shown = f"{hits.to_context()} {hits.notes} {hits.subgraph().nodes} {hits.subgraph().edges}"
            assert len(hits) == 4 and all(hit.id.startswith(name) for hit in hits)
            assert other not in shown.replace(question, "") and "known to both" not in shown
        database.close()


def test_the_scores_are_those_of_an_index_of_the_tenant_alone(postgres_server, postgres, secured):
    for name in NAMES:
        update_index(postgres, f"only {name}", upsert=nodes(name), add_edges=links(name), embedding=HashEmbedding(16))
        whole = Retriever(open_index(secured[name], "works", embedding=HashEmbedding(16)), WalkFusion(form="links"))
        alone = Retriever(open_index(postgres, f"only {name}", embedding=HashEmbedding(16)), WalkFusion(form="links"))
        found = whole.retrieve("Which loom and card?", scope={"tenant": name})
        expected = alone.retrieve("Which loom and card?")
        assert [hit.id for hit in found] == [hit.id for hit in expected] and len(found) == 4
        np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in expected], rtol=1e-5)


def test_the_facts_found_are_of_the_tenant_alone(postgres, secured):
    """Those between tenants too, which are the nearest to what is asked."""
    for name in NAMES:
        options = {"embedding": HashEmbedding(16), "edge_signals": True}
        update_index(postgres, f"only {name}", upsert=nodes(name), add_edges=links(name), **options)
        retrievers = [
            Retriever(open_index(database, index, embedding=HashEmbedding(16)), FactSearch(2), k=9, backfill=False)
            for database, index in ((secured[name], "works"), (postgres, f"only {name}"))
        ]
        found, expected = (each.retrieve("known to both") for each in retrievers)
        assert [hit.id for hit in found] == [hit.id for hit in expected] and [hit.kind for hit in found].count("fact") == 2
        found = retrievers[0].retrieve("known to both", scope={"tenant": {"$exists": True}})
        assert [hit.id for hit in found] == [hit.id for hit in expected]


def test_the_passages_found_by_names_are_of_the_tenant_alone(postgres, secured):
    for name, other in (NAMES, NAMES[::-1]):
        options = {"embedding": HashEmbedding(16), "sentences": True}
        update_index(postgres, f"only {name}", upsert=nodes(name), add_edges=links(name), **options)
        found, expected = (
            Retriever(open_index(database, index, embedding=HashEmbedding(16)), LinearRAG(threshold=0), k=9, backfill=False)
            for database, index in ((secured[name], "works"), (postgres, f"only {name}"))
        )
        for question in ("Who is Ada Holm?", f"What is loom {other}?", "mill"):
            told = [[(hit.id, round(hit.score, 6)) for hit in each.retrieve(question)] for each in (found, expected)]
            assert told[0] == told[1] and len(told[0]) == 4


def test_what_is_read_into_memory_is_of_the_tenant_alone(postgres, secured, capsys):
    for name in NAMES:
        options = {"embedding": HashEmbedding(16), "edge_signals": True}
        update_index(postgres, f"only {name}", upsert=nodes(name), add_edges=links(name), **options)
        read, alone = read_index(secured[name], "works", show_progress=True), read_index(postgres, f"only {name}")
        assert "reading nodes: 100%" in (shown := capsys.readouterr().err) and "4/4" in shown
        assert [read.graph.contents(), read.graph.edges()] == [alone.graph.contents(), alone.graph.edges()] and len(read) == 4
        assert read.dense.vectors.equal(alone.dense.vectors)
        assert read.signal("edge_dense").vectors.equal(alone.signal("edge_dense").vectors)
    # Nor does a link between tenants come along where a policy is on the nodes alone.
    with postgres.writing() as writing:
        writing.run("ALTER TABLE {edges} DISABLE ROW LEVEL SECURITY")
    assert [read_index(secured[name], "works").graph.edges() for name in NAMES] == [links(name) for name in NAMES]


def test_what_is_told_of_fields_and_counted_is_of_the_tenant_alone(secured, caplog, monkeypatch):
    # Of several nodes of the index, the tokens of one would be counted, which one tenant may not read.
    monkeypatch.setattr("graph_retrievers.stores.postgres.description._TEXTS", 1)
    for name, other in (NAMES, NAMES[::-1]):
        remote = open_index(secured[name], "works", embedding=HashEmbedding(16))
        for filters in ({}, {"scope": {"tenant": name}}):
            caplog.clear()
            assert not Retriever(remote, "bm25").retrieve("loom", filter={f"of {other}": 1, "of": 1}, **filters)
            told = [record.getMessage() for record in caplog.records if record.name.startswith("graph_retrievers")]
            assert [message.partition("any node.")[0].split("'")[1] for message in told] == [f"of {other}", "of"]
            assert all(message.endswith(f"The fields are: of {name}, tenant.") for message in told)
        found = remote.describe()
        assert (found.nodes, found.edges, found.untitled) == (4, {"near": 4}, 0) and found.tokens[0] > 0
        assert all(name in node for node, _, _ in found.hubs) and other not in str(found)
        secured[name].close()


def test_a_role_that_sees_no_row_has_nothing_described_and_read(secured, postgres_server):
    films = secured["films"]
    with postgres_server.open(films.schema, url=films.url.replace("tenant%3Dfilms", "tenant%3Dnobody")) as database:
        with pytest.raises(EmptyGraphError, match="The user may read no node of PostgresCorpus"):
            open_index(database, "works", embedding=HashEmbedding(16)).describe()
        with pytest.raises(EmptyGraphError, match="The user may read no node of PostgresCorpus"):
            read_index(database, "works")


def test_a_role_without_a_right_is_told_which(postgres_server, postgres):
    update_index(postgres, "works", upsert=nodes("films"), embedding=HashEmbedding(16))
    with postgres.writing() as writing:
        writing.run("CREATE ROLE stranger LOGIN")
    rights = ["permission denied for schema", "table corpora", "table nodes", "table edges", "table words"]
    grants = ["USAGE ON SCHEMA {schema}", *(f"SELECT ON {{{table}}}" for table in ("corpora", "nodes", "edges", "words"))]
    try:
        with postgres_server.open(postgres.schema, url=postgres_server.url.replace("postgres:@", "stranger:@")) as database:
            for missing, grant in zip(rights, grants, strict=True):
                with pytest.raises(
                    DatabaseAuthError, match=f"refused the user .*{missing}.* Check the user .*and the user's rights"
                ):
                    index = open_index(database, "works", embedding=HashEmbedding(16))
                    index.describe()
                    Retriever(index, "bm25").retrieve("loom", filter={"tenant": "films"})
                with postgres.writing() as writing:
                    writing.run(f"GRANT {grant} TO stranger")
            with postgres.writing() as writing:
                writing.run("GRANT SELECT ON {terms} TO stranger")
            assert len(Retriever(open_index(database, "works"), "bm25").retrieve("loom", filter={"tenant": "films"})) == 1
    finally:
        with postgres.writing() as writing:
            writing.run("DROP OWNED BY stranger")
            writing.run("DROP ROLE stranger")
