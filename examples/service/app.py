"""A search service for several tenants, over one index that changes while it serves.

    INDEX=folder TOKENS=tokens.json uvicorn app:app --workers 4 --timeout-keep-alive 75

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
from pathlib import Path
from typing import Annotated, Any

import torch
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic import BaseModel, Field

from graph_retrievers import GraphRetrieverError, IndexStore, Node, StoreRetriever, minilm
from graph_retrievers.construction.edges import TitleMentions

SECONDS = Histogram("search_seconds", "Seconds of a search")
ANSWERS = Counter("answers_total", "Answers by path and status", ["path", "status"])
# A question waits rather than that all of them get slow.
AT_ONCE = 8
SECONDS_AT_MOST = 10.0
SECONDS_BETWEEN_LOOKS = 1.0

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
        except GraphRetrieverError:
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
    response = await call(request)
    path = request.url.path if request.url.path in ("/search", "/documents") else "other"
    ANSWERS.labels(path, response.status_code).inc()
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
    found = [
        Found(
            id=hit.id.removeprefix(f"{owner}/"),
            title=hit.title,
            text=hit.text,
            score=hit.score,
            path=hit.path.text,
            metadata={name: value for name, value in hit.metadata.items() if name != "tenant"},
        )
        for hit in hits
    ]
    return Answer(found=found, notes=list(hits.notes))


@app.post("/documents")
async def documents(request: Request, owner: Tenant, change: Change) -> dict[str, int]:
    """Add, replace and delete documents of the tenant; they are on the disk when the answer comes."""
    # The tenant is a part of an id, so that nobody replaces what others have.
    nodes = [
        Node(f"{owner}/{each.id}", each.text, each.title, metadata={**each.metadata, "tenant": owner}) for each in change.documents
    ]
    delete = [f"{owner}/{name}" for name in change.delete]
    await asyncio.to_thread(request.app.state.store.update, upsert=nodes, delete=delete)
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
