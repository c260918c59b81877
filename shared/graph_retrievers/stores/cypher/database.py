"""A connection to a graph database over Bolt: queries, dialect and errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, finalize

from graph_retrievers.arguments import seconds
from graph_retrievers.errors import (
    DatabaseAuthError,
    DatabaseError,
    DatabaseUnreachableError,
    InvalidArgumentError,
    MissingDatabaseFeatureError,
    MissingDependencyError,
)
from graph_retrievers.stores.cypher.schema import GraphSchema

__all__ = ["CypherDatabase"]

_Result = TypeVar("_Result")
_ATTEMPTS = 3
_SCHEMES = tuple(f"{kind}{end}" for kind in ("bolt", "neo4j") for end in ("", "+s", "+ssc"))
_COSINES = ("gds.similarity.cosine({a}, {b})", "vector.similarity.cosine({a}, {b})")
# For a database without such a function: the dot product over both lengths, computed from the lists.
PLAIN_COSINE = (
    "(reduce(dot = 0.0, i IN range(0, size({a}) - 1) | dot + {a}[i] * {b}[i])"
    " / sqrt(reduce(one = 1e-300, x IN {a} | one + x * x) * reduce(other = 1e-300, x IN {b} | other + x * x)))"
)


class CypherDatabase:
    """A connection to a database with Bolt and openCypher: Neo4j 5, or ArcadeDB.

    Parameters
    ----------
    uri : str
        ``bolt://host:port`` or ``neo4j://host:port`` (``+s`` for TLS).
    auth : (user, password) or neo4j.Auth, optional
    name : str, optional
        Database on the server; the user's home database by default.
    schema : GraphSchema, optional
        Labels and property names.
    timeout : float, default 30.0
        Seconds after which a query ends in an error, including the connection and repeated attempts, even if the server does not
        answer. The server is then told to stop the query.
    driver_options : mapping, optional
        Other keywords of ``neo4j.GraphDatabase.driver``.

    Attributes
    ----------
    cosine : str
        Template of the raw cosine of two lists, with the fields ``a`` and ``b``.
    scoped : bool
        Whether subqueries name the variables that they read in brackets (Neo4j from 5.23 on, ArcadeDB).

    Raises
    ------
    DatabaseUnreachableError, DatabaseAuthError, DatabaseError
        If the server cannot be reached or does not answer in time, refuses the user, or fails.
    MissingDependencyError
        If the driver is not installed.

    Notes
    -----
    The cosine functions of some databases return (1 + cos) / 2. The available function and its scale are tested once, when
    connecting; without one, the cosine is computed from the lists, which is many times slower.

    Such functions compute in single precision, and ArcadeDB's function changes its order of addition when it is compiled at run
    time. So the scores of the same question may differ by about 1e-7 between calls.

    A query that the driver considers retryable is tried three times. One object may be used by many threads and tasks.

    Examples
    --------
    >>> with CypherDatabase("bolt://localhost:7687", auth=("neo4j", "password")) as database:  # doctest: +SKIP
    ...     database.read("MATCH (n) RETURN count(n) AS nodes")
    [{'nodes': 1200}]
    """

    def __init__(
        self,
        uri: str,
        auth: Any = None,
        *,
        name: str | None = None,
        schema: GraphSchema | None = None,
        timeout: float = 30.0,
        driver_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._neo4j = _import_driver()
        try:
            parts = urlsplit(uri)
            has_scheme = parts.scheme in _SCHEMES
        except (ValueError, AttributeError, TypeError):
            has_scheme = False
        if not has_scheme:
            raise InvalidArgumentError(f"The database's uri must begin with one of {', '.join(_SCHEMES)}, as in bolt://host:7687.")
        if parts.username or parts.password:
            raise InvalidArgumentError("The uri of the database contains a user or password; pass them as auth=(user, password).")
        self.uri, self.name, self.schema, self.timeout = uri, name, schema or GraphSchema(), seconds("timeout", timeout)
        self._auth, self._options = auth, {"connection_timeout": timeout, **(driver_options or {})}
        self._async_drivers: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        # Calls from threads run in an event loop too, where one that the server does not answer can be given up.
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=_run_loop, args=(self._loop,), name="graph-retrievers-bolt", daemon=True).start()
        self._stop = finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)
        try:
            self.read("RETURN 1 AS one")
            self.cosine = self._find_cosine()
            self.scoped = self._answers("WITH 1 AS x CALL (x) { RETURN x AS y } RETURN y")
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        """Return address and database, without the password."""
        return f"CypherDatabase({self.uri!r}, name={self.name!r})"

    def __deepcopy__(self, memo: Any) -> CypherDatabase:
        """Return the connection itself, which copies of a retriever share."""
        return self

    def __enter__(self) -> CypherDatabase:
        """Return the connection."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the connection."""
        self.close()

    async def __aenter__(self) -> CypherDatabase:
        """Return the connection."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the connection."""
        await self.aclose()

    def close(self) -> None:
        """Close the connection; :meth:`aclose` also closes the connections of asynchronous calls."""
        if self._stop.alive:
            try:
                asyncio.run_coroutine_threadsafe(self._closed(), self._loop).result(self.timeout)
            except TimeoutError:
                # A server that does not answer hears no goodbye.
                pass
            self._stop()

    async def aclose(self) -> None:
        """Close the connection, and those that asynchronous calls of this event loop opened."""
        await self._closed()
        await asyncio.to_thread(self.close)

    async def _closed(self) -> None:
        driver = self._async_drivers.pop(asyncio.get_running_loop(), None)
        if driver is not None:
            await driver.close()

    def read(self, text: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the rows of a reading query, in one round trip."""
        return self._run(self.aread(text, **parameters))

    def write(self, text: str, **parameters: Any) -> None:
        """Run a writing query in its own transaction. It may be repeated, so it must be idempotent."""

        async def write(driver: Any) -> None:
            async with driver.session(database=self.name) as session:
                async with await session.begin_transaction(timeout=self.timeout) as work:
                    await (await work.run(text, parameters)).consume()
                    await work.commit()

        self._run(self._repeated(write))

    def create_index(self, statement: str, kind: str, instead: str) -> None:
        """Run Neo4j's statement for an index of a kind; MissingDatabaseFeatureError with what to run `instead` if it is unknown."""
        try:
            self.write(statement)
        except DatabaseError as error:
            if "SyntaxError" not in str(error):
                raise
            raise MissingDatabaseFeatureError(
                f"{self.uri} makes no {kind} index by Cypher ({error}). On ArcadeDB run this SQL: {instead}."
            ) from error

    async def aread(self, text: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return what :meth:`read` returns, without blocking the event loop."""

        async def read(driver: Any) -> list[dict[str, Any]]:
            # All rows are kept, so that none are asked for in later round trips.
            options = {"default_access_mode": self._neo4j.READ_ACCESS, "fetch_size": -1}
            async with driver.session(database=self.name, **options) as session:
                result = await session.run(self._query(text), parameters)
                return [dict(row) async for row in result]

        return await self._repeated(read)

    def _run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Return what a coroutine returns in the event loop of calls from threads."""
        if not self._stop.alive:
            coroutine.close()
            raise DatabaseError(f"The connection to {self.uri} is closed; open another.")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _repeated(self, ask: Callable[[Any], Awaitable[_Result]]) -> _Result:
        """Return what `ask` makes of the driver; faults that may pass are tried again, until the time is over."""
        try:
            async with asyncio.timeout(self.timeout):
                for attempt in range(_ATTEMPTS):
                    try:
                        return await ask(self._driver())
                    except TimeoutError:
                        raise
                    except self._faults() as error:
                        await asyncio.sleep(self._pause(error, attempt))
        except TimeoutError as error:
            raise DatabaseUnreachableError(
                f"{self.uri} did not answer within {self.timeout:g} seconds. Check that it runs, ask for less, or raise timeout=."
            ) from error
        raise AssertionError("the last attempt returns or raises")

    def call(self, variables: str) -> str:
        """Return the head of a subquery that reads `variables`, comma separated, from the surrounding query."""
        return f"CALL ({variables}) {{" if self.scoped else f"CALL {{\n  WITH {variables}"

    def _query(self, text: str) -> Any:
        return self._neo4j.Query(text, timeout=self.timeout)

    def _driver(self) -> Any:
        # A driver's connections belong to the event loop in which they were opened.
        loop = asyncio.get_running_loop()
        if loop not in self._async_drivers:
            try:
                self._async_drivers[loop] = self._neo4j.AsyncGraphDatabase.driver(self.uri, auth=self._auth, **self._options)
            except (self._neo4j.exceptions.ConfigurationError, ValueError) as error:
                raise InvalidArgumentError(f"Cannot make a driver for {self.uri!r}: {error}. Expected bolt://host:port.") from error
        return self._async_drivers[loop]

    def _find_cosine(self) -> str:
        for template in _COSINES:
            try:
                value = self.read(f"RETURN {template.format(a='[1.0, 0.0]', b='[-1.0, 0.0]')} AS cosine")[0]["cosine"]
            except MissingDatabaseFeatureError:
                continue
            if abs(value + 1) < 1e-6:
                return template
            if abs(value) < 1e-6:
                return f"(2 * {template} - 1)"
        return PLAIN_COSINE

    def _answers(self, text: str) -> bool:
        try:
            self.read(text)
        except (DatabaseUnreachableError, DatabaseAuthError):
            raise
        except DatabaseError:
            return False
        return True

    def _faults(self) -> tuple[type[Exception], ...]:
        return (self._neo4j.exceptions.Neo4jError, self._neo4j.exceptions.DriverError, OSError)

    def _pause(self, error: Exception, attempt: int) -> float:
        """Return the seconds to wait before the next attempt; raise the translated error if there is none."""
        retryable = getattr(error, "is_retryable", None)
        if attempt + 1 < _ATTEMPTS and retryable is not None and retryable():
            return 0.2 * 2.0**attempt
        raise self._translated(error) from error

    def _translated(self, error: Exception) -> DatabaseError:
        exceptions = self._neo4j.exceptions
        message = str(getattr(error, "message", None) or error)
        code = str(getattr(error, "code", None) or "")
        if isinstance(error, exceptions.AuthError) or code.startswith("Neo.ClientError.Security."):
            return DatabaseAuthError(f"{self.uri} refused the user ({message}). Check auth=(user, password) and the user's rights.")
        if isinstance(error, (exceptions.ServiceUnavailable, exceptions.SessionExpired, OSError)):
            return DatabaseUnreachableError(f"{self.uri} cannot be reached ({message}). Check its address, and that it runs.")
        lowered = message.lower()
        signs = ("unknown function", "unknown procedure", "there is no procedure", "no such function")
        if any(sign in lowered for sign in ("vector.querynodes", "no vector index")) and not any(s in lowered for s in signs):
            return MissingDatabaseFeatureError(
                f"The vector index could not be searched ({message}). Check its name, that it is online, and that it holds vectors "
                "of the width of the embedding model's; or pass vector_index=None, which compares all vectors and needs no index."
            )
        if any(sign in lowered for sign in signs):
            return MissingDatabaseFeatureError(
                f"{self.uri} lacks something that the query uses ({message}). Neo4j has it from 5.18 on, ArcadeDB from 26.10."
            )
        return DatabaseError(f"{self.uri} refused a query ({f'{code}: ' if code else ''}{message}).")


def check_database(database: Any) -> None:
    """Raise InvalidArgumentError unless a database is a CypherDatabase."""
    if not isinstance(database, CypherDatabase):
        raise InvalidArgumentError(f"Expected a CypherDatabase, got {type(database).__name__}; open one first.")


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _import_driver() -> Any:
    try:
        import neo4j
        import neo4j.exceptions
    except ImportError as error:
        raise MissingDependencyError("The Bolt driver is not installed; run pip install 'graph-retrievers[neo4j]'.") from error
    return neo4j
