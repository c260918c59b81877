"""A search service for several tenants, over one index that changes while it serves.

    INDEX=folder TOKENS=tokens.json uvicorn app:app --workers 4 --timeout-keep-alive 75 --limit-concurrency 1000

Every worker maps the index of the folder into its memory, so that they share it. A worker that gets documents writes them to the
folder; the others take them over within a second. An answer comes from one state of the index, and a tenant sees its own documents.
Needs fastapi, uvicorn and prometheus-client beside graph-retrievers[offline].
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import torch
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import ClientDisconnect

from graph_retrievers import GraphRetrieverError, IndexStore, Node, StoreRetriever, minilm
from graph_retrievers.construction.edges import TitleMentions
from graph_retrievers.errors import UnknownNodeError

SECONDS = Histogram("search_seconds", "Seconds of a search")
ANSWERS = Counter("answers_total", "Answers by path and status", ["path", "status"])
# A question waits rather than that all of them get slow.
AT_ONCE = 8
SECONDS_AT_MOST = 10.0
SECONDS_BETWEEN_LOOKS = 1.0
BYTES_AT_MOST = 1 << 25

log = logging.getLogger("service")


class Document(BaseModel):
    """A document of a tenant; its id is the tenant's own."""

    id: str = Field(min_length=1, max_length=200)
    text: str = Field(max_length=20_000)
    title: str = Field("", max_length=200)
    metadata: dict[str, Any] = {}


class Change(BaseModel):
    """Documents that come or are replaced, and ids of those that go."""

    documents: list[Document] = Field([], max_length=1000)
    delete: list[str] = Field([], max_length=1000)


class Found(BaseModel):
    """A document that was found, and the titles on the path to it."""

    id: str
    title: str
    text: str
    score: float
    path: str
    metadata: dict[str, Any]


class Answer(BaseModel):
    """Documents, best first, and what a reader should know."""

    found: list[Found]
    notes: list[str]


async def watch(store: IndexStore) -> None:
    """Take over what other workers have written."""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        try:
            await asyncio.to_thread(store.reload)
        except Exception:
            # This task must not end: the worker would stay at what it has.
            log.exception("the index in %s cannot be read; what was read before serves on", store.folder)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the index, and look for changes until the service ends."""
    # Workers share the cores.
    torch.set_num_threads(1)
    app.state.tenants = json.loads(Path(os.environ["TOKENS"]).read_text(encoding="utf-8"))
    model = minilm()
    # Loaded now, and not within the time limit of the first question.
    await asyncio.to_thread(model.embed_query, "Is the model there?")
    store = await asyncio.to_thread(IndexStore, os.environ["INDEX"], embedding=model, edges=[TitleMentions()])
    if len(store):
        await asyncio.to_thread(store.index.prepare)
    app.state.store, app.state.places = store, asyncio.Semaphore(AT_ONCE)
    app.state.retriever = StoreRetriever(store, time_limit=SECONDS_AT_MOST)
    watching = asyncio.create_task(watch(store))
    yield
    watching.cancel()


app = FastAPI(title="Search", lifespan=lifespan)


@app.middleware("http")
async def count(request: Request, call: Any) -> Response:
    """Count answers by what they were."""
    path = request.url.path if request.url.path in ("/search", "/documents") else "other"
    status = 500
    try:
        response = await call(request)
        status = response.status_code
    finally:
        ANSWERS.labels(path, status).inc()
    return response


@app.exception_handler(GraphRetrieverError)
async def refused(request: Request, error: GraphRetrieverError) -> JSONResponse:
    """Tell what was wrong; a search that takes too long is the service's fault."""
    return JSONResponse({"detail": str(error)}, 503 if isinstance(error, TimeoutError) else 400)


def tenant(request: Request, token: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> str:
    """Return the tenant of a bearer token."""
    name = request.app.state.tenants.get(token.credentials)
    if name is None:
        raise HTTPException(401, "unknown token")
    return str(name)


Tenant = Annotated[str, Depends(tenant)]


def inside(owner: str) -> str:
    """Return what ids of a tenant begin with, so that nobody replaces what others have, whatever tenants are called."""
    return f"{quote(owner, safe='')}/"


async def change(request: Request, owner: Tenant) -> Change:
    """Return the change in the body of a request, which is read after the token, and no further than it may be long."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > BYTES_AT_MOST:
                raise HTTPException(413, f"send at most {BYTES_AT_MOST:,} bytes at a time")
        return await asyncio.to_thread(Change.model_validate_json, body)
    except ClientDisconnect:
        raise HTTPException(400, "the body ended early") from None
    except ValidationError as error:
        # Without what was sent, which may be long.
        raise HTTPException(422, error.errors(include_url=False, include_context=False, include_input=False)) from None


@app.get("/search")
async def search(
    request: Request,
    owner: Tenant,
    q: Annotated[str, Query(min_length=1, max_length=1000)],
    k: Annotated[int, Query(ge=1, le=50)] = 10,
) -> Answer:
    """Return what the tenant's documents have on a question."""
    async with request.app.state.places:
        start = time.perf_counter()
        hits = await request.app.state.retriever.aretrieve(q, k, scope={"tenant": owner})
        SECONDS.observe(time.perf_counter() - start)
    own = inside(owner)
    found = [
        Found(
            id=hit.id.removeprefix(own),
            title=hit.title,
            text=hit.text,
            score=hit.score,
            path=replace(hit.path, nodes=tuple(node.removeprefix(own) for node in hit.path.nodes)).text,
            metadata={name: value for name, value in hit.metadata.items() if name != "tenant"},
        )
        for hit in hits
    ]
    return Answer(found=found, notes=list(hits.notes))


@app.post("/documents")
async def documents(request: Request, owner: Tenant, change: Annotated[Change, Depends(change)]) -> dict[str, int]:
    """Add, replace and delete documents of the tenant; they are on the disk when the answer comes."""
    own = inside(owner)
    nodes = [Node(own + each.id, each.text, each.title, metadata={**each.metadata, "tenant": owner}) for each in change.documents]
    delete = [own + name for name in change.delete]
    try:
        await asyncio.to_thread(request.app.state.store.update, upsert=nodes, delete=delete)
    except UnknownNodeError:
        raise HTTPException(400, "delete names a document that you do not have; nothing was changed") from None
    return {"written": len(nodes), "deleted": len(delete)}


@app.get("/health")
async def health() -> dict[str, str]:
    """Return that this worker answers."""
    return {"status": "alive"}


@app.get("/ready")
async def ready(request: Request) -> dict[str, int]:
    """Return how many documents there are; 503 while there are none."""
    if not len(request.app.state.store):
        raise HTTPException(503, "the index holds no documents")
    return {"documents": len(request.app.state.store)}


@app.get("/metrics")
async def metrics() -> Response:
    """Return the figures of all workers, as Prometheus reads them."""
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
