"""The server of the page: searches, texts, neighbours and subgraphs of one index, as JSON."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from graph_retrievers.arguments import check_query, choice, positive
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, MissingDependencyError, TimeLimitError, shown
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.retrievers.agents import GraphTools
from graph_retrievers.retrievers.limits import in_thread
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.serve.page import FILES, page_file
from graph_retrievers.serve.picture import MOST_NODES, node_entry, picture, subgraph
from graph_retrievers.systems.registry import default_system
from graph_retrievers.systems.spreading.retriever import SpreadingActivation
from graph_retrievers.systems.system import every_system

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["search_app"]

T = TypeVar("T")

MOST_HITS = 100
"""Maximum number of hits of one search."""

_MOST_CHARACTERS, _MOST_QUESTION, _MOST_NEIGHBORS = 20_000, 10_000, 500
# Characters of all texts of an export.
_MOST_TEXT = 50_000_000
# Bytes of a request: that of an export has a number for each node that is drawn.
_MOST_BYTES = 1 << 18
# Searches at a time, the others wait; and how many may wait.
_AT_A_TIME, _WAITING = max(1, min(4, os.cpu_count() or 1)), 32

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


def available_retrievers(index: GraphIndex, *, time_limit: float = 30.0) -> tuple[dict[str, Retriever], dict[str, str]]:
    """Return the retrievers that can run on an index, by name, and what each of the others needs.

    The others include retrievers that lack something and would fall back to another search. Each is tried on a few nodes.

    Examples
    --------
    >>> runs, needs = available_retrievers(GraphIndex.from_texts(["A loom.", "A card."]))
    >>> list(runs)
    ['bm25', 'hipporag-1', 'think-on-graph', "spreading(gate='uniform')"]
    >>> needs["vector"]
    'This index has no vectors; build it with embedding= or vectors=. Signals it has: bm25.'
    """
    runs, needs = dict[str, Retriever](), dict[str, str]()
    # Two nodes that an edge joins, and a question that names one, so that walks come to what they ask for.
    graph = index.graph
    ends = [int(graph.sources[0]), int(graph.targets[0])] if graph.has_edges else [0]
    few = {"$id": {"$in": [graph.ids[row] for row in ends]}}
    question = f"What is {node_entry(graph, ends[0])['name']}?"
    logger = logging.getLogger("graph_retrievers")
    level = logger.level
    # Warnings of a retriever that falls back are not logged, as the page shows what it lacks.
    logger.setLevel(logging.ERROR)
    try:
        systems = every_system()
        # The only walk that an index without vectors has.
        walks = [] if index.has_dense else [SpreadingActivation(gate="uniform")]
        # The default may be one with parameters.
        systems |= {str(system): system for system in (*walks, default_system(index))}
        for name, system in systems.items():
            try:
                retriever = Retriever(index, system, time_limit=time_limit, name=name)
                retriever.retrieve(question, 1, scope=few)
                lacks = retriever.lacks()
            except GraphRetrieverError as error:
                needs[name] = str(error)
                continue
            if lacks:
                needs[name] = f"It needs {' and '.join(lacks)}."
            else:
                runs[name] = retriever
    finally:
        logger.setLevel(level)
    return runs, needs


def search_app(
    retrievers: Mapping[str, Retriever],
    *,
    title: str = "",
    needs: Mapping[str, str] | None = None,
    hosts: Sequence[str] = (),
) -> Starlette:
    """Return the application of the page, for any ASGI server.

    Parameters
    ----------
    retrievers : mapping of str to Retriever
        The retrievers to choose from, by name, all on one index. Set their ``time_limit``: the page has none itself.
    title : str, default ""
        Name of the index.
    needs : mapping of str to str, optional
        The retrievers that cannot be chosen, by name, and what they need.
    hosts : sequence of str, default ()
        Host names of the server, in addition to ``localhost`` and any IP address. Requests for other names are refused, because a
        page of another site could point its name here (DNS rebinding).

    Raises
    ------
    InvalidArgumentError
        If there is no retriever, or they are on several indexes.
    MissingDependencyError
        Without the extra ``serve``.
    """
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError as error:
        raise MissingDependencyError("The page needs the extra 'serve': pip install 'graph-retrievers[serve]'.") from error
    if not retrievers or len({id(each.index) for each in retrievers.values()}) != 1:
        raise InvalidArgumentError("Expected one retriever or more, all on one index.")
    page = _Page(retrievers, title, needs or {})
    routes = [Route("/" if name == "page.html" else f"/{name}", _file(name), methods=["GET"]) for name in FILES]
    routes.append(Route("/api/index", _json_handler(page.index), methods=["GET"]))
    for name, answer in (("search", page.search), ("read", page.read), ("neighbors", page.neighbors), ("export", page.export)):
        routes.append(Route(f"/api/{name}", _json_handler(answer), methods=["POST"]))
    app = Starlette(routes=routes)
    app.add_middleware(_Guard, hosts=tuple(hosts))  # type: ignore[arg-type]
    return app


class _Page:
    """The answers to the requests of the page, as values for JSON."""

    def __init__(self, retrievers: Mapping[str, Retriever], title: str, needs: Mapping[str, str]) -> None:
        self.retrievers, self.title, self.needs = dict(retrievers), title, dict(needs)
        first = next(iter(self.retrievers.values()))
        self.tools = GraphTools(first, max_characters=_MOST_CHARACTERS, max_items=_MOST_NEIGHBORS)
        self.graph = first.index.graph
        best = str(default_system(first.index))
        self.best = best if best in self.retrievers else next(iter(self.retrievers))
        self._room, self._waiting_count = asyncio.Semaphore(_AT_A_TIME), 0

    async def index(self, request: Request) -> Any:
        return {
            "title": self.title,
            "nodes": len(self.graph),
            "edges": self.graph.num_edges,
            "retrievers": list(self.retrievers),
            "needs": self.needs,
            "best": self.best,
            "most_hits": MOST_HITS,
        }

    async def search(self, request: Request) -> Any:
        body = await _body(request, "question", "retriever", "k")
        question = body["question"]
        check_query(question, 0)
        if len(question) > _MOST_QUESTION:
            raise InvalidArgumentError(f"The question has {len(question):,} characters; expected at most {_MOST_QUESTION:,}.")
        retriever = self.retrievers[choice("retriever", body.get("retriever", self.best), self.retrievers)]
        k = positive("k", body.get("k", 10), MOST_HITS)
        if self._waiting_count >= _WAITING:
            raise _RefusedError(503, f"{self._waiting_count} searches are waiting; ask again in a moment.")
        self._waiting_count += 1
        try:
            await self._room.acquire()
        finally:
            self._waiting_count -= 1
        try:
            return await _while_connected(request, in_thread(picture, retriever, question, k))
        finally:
            self._room.release()

    async def read(self, request: Request) -> Any:
        body = await _body(request, "row", "start")
        row = self._row(body["row"])
        start = positive("start", body.get("start", 0), least=0)
        (node,) = (await in_thread(self.tools.read, [self.graph.ids[row]], start)).data["nodes"]
        return node_entry(self.graph, row) | {"text": node["text"], "next": node["next"], "length": len(self.graph.texts[row])}

    async def neighbors(self, request: Request) -> Any:
        body = await _body(request, "row", "relation", "direction", "limit")
        row = self._row(body["row"])
        limit = positive("limit", body.get("limit", 20), _MOST_NEIGHBORS)
        relation, direction = body.get("relation"), body.get("direction", "both")
        if relation is not None and not isinstance(relation, str):
            raise InvalidArgumentError(f"relation is {shown(relation)}; expected text, or null for any relation.")
        data = (await in_thread(self.tools.neighbors, self.graph.ids[row], relation, direction, limit)).data
        edges = [
            node_entry(self.graph, self.graph.row(edge["id"])) | {name: edge[name] for name in ("relation", "direction", "weight")}
            for edge in data["edges"]
        ]
        return {"row": row, "edges": edges, "count": data["count"], "relations": data["relations"]}

    async def export(self, request: Request) -> Any:
        body = await _body(request, "rows", "format")
        kind, rows = choice("format", body.get("format", "json"), ("json", "graphml")), body["rows"]
        if not isinstance(rows, list) or not 0 < len(rows) <= MOST_NODES:
            description = f"{len(rows):,} rows" if isinstance(rows, list) else shown(rows)
            raise InvalidArgumentError(f"rows are {description}; expected a list of 1 to {MOST_NODES:,} rows of nodes.")
        row_list = list(dict.fromkeys(map(self._row, rows)))
        if (size := sum(len(self.graph.texts[row]) for row in row_list)) > _MOST_TEXT:
            raise InvalidArgumentError(
                f"The nodes have {size:,} characters of text; expected at most {_MOST_TEXT:,}. Export fewer."
            )
        part = await in_thread(subgraph, self.graph, row_list)
        return await in_thread(part.to_graphml if kind == "graphml" else part.to_node_link)

    def _row(self, row: Any) -> int:
        if isinstance(row, bool) or not isinstance(row, int) or not 0 <= row < len(self.graph):
            raise InvalidArgumentError(f"The row of a node is {shown(row)}; expected a number from 0 to {len(self.graph) - 1:,}.")
        return row


class _RefusedError(GraphRetrieverError):
    """A request that is not answered; `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def _body(request: Request, needed: str, *optional: str) -> dict[str, Any]:
    """Return the JSON object of a request, which has one name that is needed, and others that may be there."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Forms of other sites cannot send this type without being asked for it.
        raise _RefusedError(415, f"The content type is {shown(kind)}; expected 'application/json'.")
    from starlette.requests import ClientDisconnect

    content = bytearray()
    try:
        async for part in request.stream():
            content += part
            if len(content) > _MOST_BYTES:
                raise _RefusedError(413, f"The request has more than {_MOST_BYTES:,} bytes; send less.")
    except ClientDisconnect as error:
        raise _RefusedError(499, "The request ended before its content.") from error
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"The request is not JSON: {error}") from error
    names = (needed, *optional)
    if not isinstance(body, dict) or needed not in body or not body.keys() <= set(names):
        raise InvalidArgumentError(
            f"Expected an object with {needed!r} and perhaps {', '.join(map(repr, optional))}; got {shown(body)}."
        )
    return body


async def _while_connected(request: Request, work: Awaitable[T]) -> T:
    """Return what a search returns; it is cancelled if nobody waits for it any more."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=0.5)
            if not task.done() and await request.is_disconnected():
                raise _RefusedError(499, "Nobody waits for this search any more.")
        return task.result()
    finally:
        task.cancel()


def _json_handler(answer: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that answers with JSON, and says what is wrong where a request is."""
    from starlette.responses import Response

    async def handle(request: Request) -> Response:
        status = 200
        try:
            content = await answer(request)
        except GraphRetrieverError as error:
            status = getattr(error, "status", 504 if isinstance(error, TimeLimitError) else 400)
            content = {"error": str(error)}
        except Exception as error:
            # A broken model must not end the page; the log has the rest.
            logging.getLogger(__name__).exception("%s failed", request.url.path)
            status, content = 500, {"error": f"The search failed: {type(error).__name__}: {error}"[:2000]}
        if isinstance(content, str):
            return Response(content.encode("utf-8", "replace"), status, media_type="application/xml")
        # Texts may hold half of a surrogate pair, for which JSON in ASCII has an escape.
        return Response(await in_thread(_json, content), status, media_type="application/json")

    return handle


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    from starlette.responses import Response

    content = page_file(name).encode()

    async def handle(request: Request) -> Response:
        return Response(content, headers={"content-type": FILES[name]})

    return handle


def is_local_host(host: str, names: Iterable[str] = ()) -> bool:
    """Return whether a host, with or without a port, is an IP address, this machine, or one of some names.

    Examples
    --------
    >>> is_local_host("127.0.0.1:8800"), is_local_host("[::1]:8800"), is_local_host("localhost"), is_local_host("evil.example:8800")
    (True, True, True, False)
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name in {each.lower() for each in names}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class _Guard:
    """Refuses requests for other hosts and of other origins, and adds headers to every answer."""

    def __init__(self, app: Any, hosts: Sequence[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def secured(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((n.encode(), v.encode()) for n, v in _HEADERS.items())]
            await send(message)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        fault = ""
        if not is_local_host(host, self.hosts):
            fault = f"The host is {shown(host)}; ask by 'localhost' or an IP address, or start the server with --host NAME."
        elif origin is not None and origin.partition("://")[2] != host:
            fault = f"The origin is {shown(origin)}; only the page of this server may ask."
        if fault:
            from starlette.responses import Response

            response = Response(_json({"error": fault}), 403, media_type="application/json")
            await response(scope, receive, secured)
        else:
            await self.app(scope, receive, secured)
