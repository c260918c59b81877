"""Connections to PostgreSQL: statements in one snapshot, transactions, errors."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from math import ceil
from time import monotonic
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from graph_retrievers.arguments import positive, seconds
from graph_retrievers.cache import Cache
from graph_retrievers.core.limits import limit_over
from graph_retrievers.errors import (
    DatabaseAuthError,
    DatabaseError,
    DatabaseUnreachableError,
    GraphRetrieverError,
    InvalidArgumentError,
    MissingDatabaseFeatureError,
    MissingDependencyError,
    shown,
)
from graph_retrievers.retrievers.limits import ended_by_caller, seconds_left
from graph_retrievers.stores.postgres.values import array

__all__ = ["PostgresDatabase"]

_Result = TypeVar("_Result")

Statement = tuple[str, Mapping[str, Any]]
"""SQL with ``%(name)s`` for parameters and ``{nodes}`` for the tables of the schema, and the values of the parameters."""

_SCHEMES = ("postgresql://", "postgres://")
# The beginning of an address for SQLAlchemy, such as those that vector stores take.
_DRIVER = re.compile(r"postgres(?:ql)?(\+\w+)://")
_TABLES = ("corpora", "nodes", "edges", "edge_vectors", "words", "terms", "vectors", "names", "mentions", "sentences")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_PORTS = re.compile(r"[0-9,]*")
_UNREADABLE = (
    "The url of the database cannot be read{}. It is not shown, because it may contain a password. Expected "
    "postgresql://user:password@host:5432/name, where characters of user and password such as @ / : ? % are written as "
    "urllib.parse.quote(password, safe='') does."
)
_BEGIN, _END = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "COMMIT"
# Rows from which on a table is read once rather than looked up for each.
_MANY = 5000
# Rows that a cursor of the server sends at a time.
_ROWS = 10_000
_CHECKED = 10_000
# The code with which a replica ends a statement that may still read rows which the primary has removed, and part of its message,
# since the driver gives no code when a connection is refused.
_OVERTAKEN, _CONFLICT = "40001", "conflict with recovery"
# How often, in seconds, a call that waits for a connection checks whether its caller still waits.
_PAUSE = 0.1
# Most seconds without an answer before the network is probed, and between two probes.
_PROBED = 300
# Most seconds of a statement's limit, which is 31 bits of milliseconds.
_LONGEST = (2**31 - 1) // 1000
# Queries are planned for the values of their parameters, among them the corpus, and not compiled, which takes longer than they run.
_SETTINGS = (
    "SELECT set_config('statement_timeout', %s, false), set_config('plan_cache_mode', 'force_custom_plan', false), "
    "set_config('jit', 'off', false), current_setting('server_encoding')"
)
_LIMITED = "SELECT set_config('statement_timeout', %s, true)"
# For a transaction that writes, which may embed texts between its statements and waits for other writers, or reads a whole index.
_UNLIMITED = (
    "SELECT set_config(name, CASE name WHEN 'work_mem' THEN '64MB' ELSE '0' END, true) FROM pg_settings WHERE name IN "
    "('work_mem', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')"
)
# Parts of the messages with which a server refuses a user without giving a code.
_REFUSALS = ("password authentication failed", "no password supplied", "no pg_hba.conf entry", 'role "', "permission denied")


class PostgresDatabase:
    """PostgreSQL with the extension ``vector`` (pgvector), reached by a pool of connections.

    Parameters
    ----------
    url : str
        ``postgresql://user@host:port/database``, with all that libpq reads from it or from the environment (``PGPASSWORD``,
        ``?sslmode=verify-full``, ``?host=/folder/of/a/socket``).
    schema : str, default "graph_retrievers"
        The schema of the tables, which the first write creates: letters, digits and underscores.
    timeout : float, default 30.0
        Seconds after which a connection attempt or a reading statement ends in an error; the server ends the statement too. When
        the network is lost, TCP ends it, in up to three times as long, unless the url has other values of ``tcp_user_timeout``,
        ``keepalives_idle`` and ``keepalives_interval``.
    connections : int, default 8
        Most connections that are open at a time. A call that needs one more waits for it.

    Raises
    ------
    DatabaseUnreachableError, DatabaseAuthError, DatabaseError
        If the server cannot be reached or does not answer in time, refuses the user, or fails. After the loss of a connection, the
        next call opens another.
    MissingDatabaseFeatureError
        If the database is not in UTF-8.
    MissingDependencyError
        If the driver is not installed.
    InvalidArgumentError
        For an address or a schema of another form.

    Notes
    -----
    One object may be used by many threads, and in a process forked from this one.

    Examples
    --------
    >>> with PostgresDatabase("postgresql://localhost/works") as database:  # doctest: +SKIP
    ...     database.read(("SELECT 1 + %(more)s", {"more": 1}))
    [[(2,)]]
    """

    def __init__(self, url: str, *, schema: str = "graph_retrievers", timeout: float = 30.0, connections: int = 8) -> None:
        self._psycopg = import_driver()
        if not isinstance(url, str) or not url.startswith(_SCHEMES):
            # The url is not shown, because it may contain a password.
            driver = _DRIVER.match(url) if isinstance(url, str) else None
            advice = f", without the driver that SQLAlchemy needs, {driver[1]!r}" if driver else ""
            raise InvalidArgumentError(
                f"The url of the database must begin with postgresql://, as in postgresql://host:5432/name{advice}."
            )
        if not isinstance(schema, str) or not _IDENTIFIER.fullmatch(schema):
            raise InvalidArgumentError(f"schema is {shown(schema)}; expected letters, digits and underscores, at most 63.")
        try:
            parts = self._psycopg.conninfo.conninfo_to_dict(url)
        except (self._psycopg.ProgrammingError, UnicodeError) as error:
            # Messages quote a part of the url, so they are not passed on whole.
            reason = "" if isinstance(error, UnicodeError) else re.sub('".*"', "...", str(error).strip())
            raise InvalidArgumentError(_UNREADABLE.format(f" ({reason})" if reason else "")) from None
        host, port = parts.get("host", "localhost"), parts.get("port")
        if "\x00" in url or not _PORTS.fullmatch(str(port or "")) or "@" in f"{host}{parts.get('dbname')}":
            # A part of a password behind a character that ends it is read as one of these.
            raise InvalidArgumentError(_UNREADABLE.format(""))
        place, socket = ("", f"?host={host}") if str(host).startswith("/") else (host, "")
        self.where = f"postgresql://{place}{f':{port}' if port else ''}/{parts.get('dbname', '')}{socket}"
        self.url, self.schema, self.timeout = url, schema, min(seconds("timeout", timeout), _LONGEST)
        self.tables = {name: f'"{schema}"."{name}"' for name in _TABLES} | {"schema": f'"{schema}"'}
        self._free = threading.Semaphore(positive("connections", connections))
        self._idle: list[Any] = []
        self._process, self._closed = os.getpid(), False
        self._cancelled: set[Any] = set()
        # Which parts of filters were checked: a bounded number, unlike the filters of questions; see PostgresGraph.check_filter.
        self.checked = Cache(_CHECKED)
        self.read(("SELECT 1", {}))

    def __repr__(self) -> str:
        """Return the address, without user and password, and the schema."""
        return f"PostgresDatabase({self.where!r}, schema={self.schema!r})"

    def __copy__(self) -> PostgresDatabase:
        """Return the database itself, which copies of a retriever share."""
        return self

    def __deepcopy__(self, memo: Any) -> PostgresDatabase:
        """Return the database itself, which copies of a retriever share."""
        return self

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: connections cannot be, and the url may hold a password."""
        raise TypeError(f"{self!r} cannot be pickled, because it has connections. Open it, and its index, in each process.")

    def __enter__(self) -> PostgresDatabase:
        """Return the database."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections; a later call is refused."""
        self._closed = True
        self._drop_idle()

    def read(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        """Return the rows of statements, all of which see the same state of the database, in one round trip.

        They are tried once more if an idle connection turns out to be lost, or if a replica cancels one of them. Within a call with
        a ``time_limit``, none of them takes longer than what is left of it; if the task that waits for the call is cancelled, they
        are too.
        """
        texts = [(text.format_map(self.tables), parameters) for text, parameters in statements]
        remaining = seconds_left()

        def ask(connection: Any) -> list[list[tuple[Any, ...]]]:
            if len(texts) == 1 and remaining is None:
                return [_rows(connection.execute(*texts[0], binary=True))]
            with self._pipeline(connection):
                connection.execute(_BEGIN)
                if remaining is not None:
                    connection.execute(_LIMITED, [_milliseconds(self._seconds)])
                cursors = [connection.execute(text, parameters, binary=True) for text, parameters in texts]
                connection.execute(_END)
            return [_rows(cursor) for cursor in cursors]

        return self._with_connection(ask)

    @contextmanager
    def writing(self) -> Iterator[Writing]:
        """Open a transaction without a limit of time: all that is written in it counts at its end, or nothing of it."""

        def begin(connection: Any) -> Any:
            connection.execute("BEGIN")
            connection.execute(_UNLIMITED)
            return connection

        with self._free:
            connection = self._run_idle(begin)
            try:
                yield Writing(connection, self.tables)
                connection.execute("COMMIT")
            except BaseException as error:
                with suppress(self._psycopg.Error):
                    connection.execute("ROLLBACK")
                if isinstance(error, self._psycopg.Error):
                    raise self._translated(error, connection) from error
                raise
            finally:
                self._put_back(connection)

    @contextmanager
    def pinned(self) -> Iterator[PinnedDatabase]:
        """Open the database in the state in which it is now: what is read of it is of that state, through one connection."""

        def begin(connection: Any) -> Any:
            connection.execute(_BEGIN)
            connection.execute("SELECT 1")
            return connection

        with self._allowed():
            connection = self._run_idle(begin)
            pinned = PinnedDatabase(self, connection)
            try:
                yield pinned
            finally:
                pinned.end()
                with suppress(self._psycopg.Error):
                    connection.execute("ROLLBACK")
                self._put_back(connection)

    @contextmanager
    def _allowed(self) -> Iterator[None]:
        """Wait until one more connection may be used, as long as the caller waits."""
        limit_seconds = self._seconds
        end = monotonic() + limit_seconds
        while not self._free.acquire(timeout=min(_PAUSE, max(end - monotonic(), 0.0))):
            if monotonic() >= end:
                raise DatabaseUnreachableError(
                    f"All connections to {self.where} were in use for {limit_seconds:.3g} seconds; raise connections=, or ask less."
                )
            if (limit := limit_over()) is not None:
                raise limit.error(())
        try:
            yield
        finally:
            self._free.release()

    @contextmanager
    def _pipeline(self, connection: Any) -> Iterator[None]:
        """Send the statements inside in one round trip; of several errors, such as of a lost connection, the first is raised."""
        errors: list[Exception] = []
        try:
            with connection.pipeline():
                try:
                    yield
                except self._psycopg.Error as error:
                    # If it left the pipeline, the driver would log the errors after it.
                    errors.append(error)
        except self._psycopg.Error as error:
            errors.append(error)
        if errors:
            raise errors[0]

    def _with_connection(self, ask: Callable[[Any], _Result]) -> _Result:
        with self._allowed():
            connections: list[Any] = []

            def ask_connection(connection: Any) -> _Result:
                connections.append(connection)
                with ended_by_caller(partial(self._cancel, connection)):
                    return ask(connection)

            try:
                try:
                    return self._run_idle(ask_connection)
                except DatabaseUnreachableError as error:
                    if not _is_overtaken(error.__cause__):
                        raise
                    return self._run_idle(ask_connection)
            finally:
                for connection in connections:
                    self._put_back(connection)

    def _run_idle(self, ask: Callable[[Any], _Result]) -> _Result:
        """Return what `ask` returns on an idle connection, or on a new one if there is none or it was lost while it was idle."""
        if self._closed:
            raise DatabaseError(f"The connection to {self.where} is closed; open another.")
        if self._process != os.getpid():
            # The process from which this one was forked still uses its connections: they are kept, as deleting them would end them.
            self._process, self._idle, self._inherited = os.getpid(), [], self._idle
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = None
        if connection is not None:
            try:
                return ask(connection)
            except self._psycopg.Error as error:
                if not self._is_lost(connection):
                    raise self._translated(error, connection) from error
                self._drop_idle()
        connection = self._connected()
        try:
            return ask(connection)
        except self._psycopg.Error as error:
            raise self._translated(error, connection) from error

    @property
    def _seconds(self) -> float:
        """Seconds that a reading statement may take now."""
        remaining = seconds_left()
        return self.timeout if remaining is None else min(remaining, self.timeout)

    def _cancel(self, connection: Any) -> None:
        """Let the server end the statement of a connection, which is not used again, as the signal may come late."""
        with suppress(self._psycopg.Error):
            connection.cancel_safe(timeout=self.timeout)
        self._cancelled.add(connection)

    def _connected(self) -> Any:
        """Return a new connection; one that a replica refuses because it has to remove what was read is tried once more."""
        try:
            return self._connect()
        except DatabaseUnreachableError as error:
            if not _is_overtaken(error.__cause__):
                raise
            return self._connect()

    def _connect(self) -> Any:
        connection, wait = None, max(1, int(self.timeout))
        # When the network is lost, the server cannot end a call that waits for it.
        probes = {"tcp_user_timeout": 1000 * wait, "keepalives_idle": min(wait, _PROBED), "keepalives_interval": min(wait, _PROBED)}
        options = self._psycopg.conninfo.conninfo_to_dict(self.url)
        try:
            connection = self._psycopg.connect(
                self.url,
                autocommit=True,
                connect_timeout=wait,
                client_encoding="UTF8",
                **{name: value for name, value in probes.items() if name not in options},
            )
            connection.adapters.register_dumper(list, _list_dumper())
            (settings,) = connection.execute(_SETTINGS, [_milliseconds(self.timeout)]).fetchall()
        except (self._psycopg.Error, OSError, UnicodeError) as error:
            if connection is not None:
                connection.close()
            raise self._translated(error, connection) from error
        if settings[-1] != "UTF8":
            connection.close()
            raise MissingDatabaseFeatureError(
                f"{self.where} keeps texts in {settings[-1]}; create a database with the encoding UTF8."
            )
        return connection

    def _put_back(self, connection: Any) -> None:
        is_idle = connection.info.transaction_status == self._psycopg.pq.TransactionStatus.IDLE
        if self._closed or not is_idle or connection in self._cancelled:
            self._cancelled.discard(connection)
            with suppress(self._psycopg.Error):
                connection.close()
        else:
            self._idle.append(connection)

    def _is_lost(self, connection: Any) -> bool:
        """Return whether a connection was lost; the driver calls one that is lost at the end of a pipeline busy."""
        return connection.broken or connection.info.pipeline_status != self._psycopg.pq.PipelineStatus.OFF

    def _drop_idle(self) -> None:
        while self._idle:
            with suppress(self._psycopg.Error, IndexError):
                self._idle.pop().close()

    def _translated(self, error: Exception, connection: Any) -> GraphRetrieverError:
        code, message = getattr(error, "sqlstate", None) or "", " ".join(str(error).split())
        if connection is None and (code.startswith("28") or any(sign in message for sign in _REFUSALS)) or code == "42501":
            return DatabaseAuthError(
                f"{self.where} refused the user ({message}). Check the user in the url, PGPASSWORD, and the user's rights."
            )
        if code == "25006":
            return DatabaseError(
                f"{self.where} can only be read ({message}). Write to the primary server, of which it is a replica."
            )
        if code == "57014":
            return DatabaseUnreachableError(
                f"{self.where} did not answer within {self._seconds:.3g} seconds ({message}). Ask for less, or raise timeout=."
            )
        if _is_overtaken(error):
            return DatabaseUnreachableError(
                f"{self.where} ended a statement that changes had overtaken ({message}). Ask again; on a replica, the setting "
                "hot_standby_feedback = on makes that rare."
            )
        if connection is None or self._is_lost(connection):
            return DatabaseUnreachableError(
                f"{self.where} cannot be reached, or the connection was lost ({message}). Check its address, and that it runs; the "
                "next call connects again."
            )
        # A missing table of the user has another schema.
        if code == "3F000" or (code == "42P01" and f"{self.schema}." in message):
            return DatabaseError(
                f"{self.where} has no index in the schema {self.schema!r} ({message}). Write one with write_index, or give schema=."
            )
        if code in ("42704", "42883", "0A000", "58P01"):
            return MissingDatabaseFeatureError(
                f"{self.where} lacks something that is needed ({message}). Install the extension vector (pgvector 0.5 or later) in "
                "PostgreSQL 14 or later, and have its schema in the search_path of the user."
            )
        return DatabaseError(f"{self.where} refused a statement ({f'{code}: ' if code else ''}{message}).")


class PinnedDatabase(PostgresDatabase):
    """A database in one of its states, until the transaction of a connection ends."""

    def __init__(self, database: PostgresDatabase, connection: Any) -> None:
        self.__dict__ |= database.__dict__
        self._connection = connection
        self._reading, self._is_over = threading.Lock(), False

    @contextmanager
    def pinned(self) -> Iterator[PinnedDatabase]:
        """Return the database itself."""
        yield self

    def end(self) -> None:
        """Refuse to read from now on; a thread that was left behind may still want to, and the connection is given to others."""
        with self._reading:
            self._is_over = True

    def read(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        """Return the rows of statements, in one round trip; limits are those of :meth:`PostgresDatabase.read`."""
        with self._reading:
            if self._is_over:
                raise DatabaseError(f"The transaction in which {self.where} was read has ended.")
            return self._read(statements)

    def _read(self, statements: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
        connection, remaining = self._connection, seconds_left()
        try:
            with ended_by_caller(partial(self._cancel, connection)), self._pipeline(connection):
                if remaining is not None:
                    connection.execute(_LIMITED, [_milliseconds(self._seconds)])
                cursors = [
                    connection.execute(text.format_map(self.tables), parameters, binary=True) for text, parameters in statements
                ]
            return [_rows(cursor) for cursor in cursors]
        except self._psycopg.Error as error:
            raise self._translated(error, self._connection) from error

    def rows(self, statement: Statement) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement without a limit of time, a part of them in memory at a time."""
        text, parameters = statement
        try:
            self._connection.execute(_UNLIMITED)
            with self._connection.cursor("rows") as cursor:
                cursor.itersize = _ROWS
                yield from cursor.execute(text.format_map(self.tables), parameters, binary=True)
        except self._psycopg.Error as error:
            raise self._translated(error, self._connection) from error


class Writing:
    """A transaction that writes."""

    def __init__(self, connection: Any, tables: Mapping[str, str]) -> None:
        self.connection, self.tables = connection, tables

    def run(self, text: str, **parameters: Any) -> Any:
        """Run a statement (see :data:`Statement`); return the cursor, with its rows and their number."""
        return self.connection.execute(text.format_map(self.tables), parameters or None)

    @contextmanager
    def joining(self, rows: int) -> Iterator[None]:
        """Plan the statements inside for a join of a number of rows with tables whose contents the planner may not know yet.

        The planner would take a new index for one of a few nodes, and compare each of its nodes with all of the rows.
        """
        if rows <= _MANY:
            yield
            return
        self.connection.execute("SET LOCAL enable_nestloop = off")
        yield
        self.connection.execute("SET LOCAL enable_nestloop = on")

    def copy(self, target: str, rows: Iterator[Sequence[Any]]) -> None:
        """Copy rows into a table, which is given with its columns."""
        with self.connection.cursor().copy(f"COPY {target.format_map(self.tables)} FROM STDIN") as sink:
            for row in rows:
                sink.write_row(row)

    def copy_blocks(self, target: str, blocks: Iterator[bytes], form: str = "text") -> None:
        """Copy rows that are already in a form of COPY ("text", "binary")."""
        with self.connection.cursor().copy(f"COPY {target.format_map(self.tables)} FROM STDIN (FORMAT {form})") as sink:
            for block in blocks:
                sink.write(block)


@cache
def _list_dumper() -> type:
    """Return how lists are sent: the driver would look for the type of each item, for a fifth of the time of a question."""
    from psycopg.adapt import Dumper

    class ListDumper(Dumper):
        def dump(self, obj: list[Any]) -> bytes:
            return array(obj).encode()

    return ListDumper


def check_database(database: Any) -> None:
    """Raise InvalidArgumentError unless it is an open database."""
    if not isinstance(database, PostgresDatabase):
        raise InvalidArgumentError(f"database is {shown(database)}; expected a PostgresDatabase.")


def _is_overtaken(error: BaseException | None) -> bool:
    """Return whether a replica ended a statement, or refused a connection, because it had to remove what was read."""
    code = getattr(error, "sqlstate", None)
    return code == _OVERTAKEN or (code is None and _CONFLICT in str(error))


def _milliseconds(duration: float) -> str:
    """Return a duration in seconds as the value of a setting."""
    return str(max(1, ceil(1000 * duration)))


def _rows(cursor: Any) -> list[tuple[Any, ...]]:
    # The number of columns is read from the result, as the cursor would first make a description of each.
    return cursor.fetchall() if cursor.pgresult.nfields else []


def import_driver() -> Any:
    """Return psycopg; MissingDependencyError without it."""
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError as error:
        raise MissingDependencyError("The driver is not installed; run pip install 'graph-retrievers[postgres]'.") from error
    return psycopg
