"""The example service under load: clients ask while documents change, and every answer is held against what was written.

    python benchmarks/service.py [--clients 64] [--seconds 60] [--workers 4] [--updates 20]

Starts examples/service/app.py on a free port of 127.0.0.1 with two tenants. Each update writes five documents of a tenant in one
change, so that an answer with documents of two updates would be of an index that never was. Prints a JSON object: answers, those
that failed, that mixed updates, that had documents of the other tenant or of an update that was not begun, seconds of an answer,
and the memory of all workers (proportional set size) after each update. Needs fastapi, uvicorn, prometheus-client
and httpx.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

import httpx

SERVICE = Path(__file__).resolve().parent.parent / "examples" / "service"
TENANTS = {"token-a": "a", "token-b": "b"}
QUESTION = "What does the notice board say today?"
PARTS = 5


def notices(tenant: str, version: int) -> list[dict[str, Any]]:
    """Return the documents of an update."""
    text = f"The notice board of {tenant} says today: news number {version}"
    return [{"id": f"notice {part}", "text": f"{text}, part {part}.", "metadata": {"version": version}} for part in range(PARTS)]


def others(tenant: str, count: int) -> list[dict[str, Any]]:
    """Return documents that do not change."""
    return [{"id": f"page {n}", "title": f"Room {n}", "text": f"Room {n} of {tenant} has {n} chairs."} for n in range(count)]


def memory(process: int) -> int:
    """Return the bytes of a process and its children, what they share counted once (proportional set size)."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return own * 1024 + sum(memory(int(child)) for child in children)


class Load:
    """Clients and updates of one run, and what they saw."""

    def __init__(self, address: str, documents: int) -> None:
        self.address, self.documents = address, documents
        self.begun = dict.fromkeys(TENANTS.values(), 0)
        self.seconds: list[float] = []
        self.failed: list[str] = []
        self.wrong: dict[str, int] = {"mixed": 0, "foreign": 0, "unknown": 0}

    async def write(self, client: httpx.AsyncClient, token: str, documents: list[dict[str, Any]]) -> None:
        """Send documents of a tenant."""
        answer = await client.post(f"{self.address}/documents", json={"documents": documents}, headers=bearer(token))
        answer.raise_for_status()

    async def begin(self, client: httpx.AsyncClient) -> None:
        """Wait for the service, and write the first documents of both tenants."""
        for _ in range(600):
            try:
                await client.get(f"{self.address}/health")
                break
            except httpx.TransportError:
                await asyncio.sleep(0.2)
        for token, tenant in TENANTS.items():
            await self.write(client, token, others(tenant, self.documents) + notices(tenant, 0))

    async def ask(self, client: httpx.AsyncClient, token: str) -> None:
        """Ask once, and look at the answer."""
        start, tenant = time.perf_counter(), TENANTS[token]
        try:
            params: dict[str, Any] = {"q": QUESTION, "k": PARTS}
            answer = await client.get(f"{self.address}/search", params=params, headers=bearer(token))
        except httpx.HTTPError as error:
            self.failed.append(repr(error))
            return
        self.seconds.append(time.perf_counter() - start)
        found = answer.json().get("found", []) if answer.status_code == 200 else []
        versions = {each["metadata"].get("version") for each in found}
        if len(found) != PARTS:
            self.failed.append(f"{answer.status_code}: {answer.text[:200]}")
        self.wrong["mixed"] += len(versions) > 1
        self.wrong["unknown"] += any(version is None or version > self.begun[tenant] for version in versions)
        self.wrong["foreign"] += any(f"of {tenant} " not in each["text"] for each in found)

    async def client(self, http: httpx.AsyncClient, number: int, until: float) -> None:
        """Ask one question after the other."""
        token = list(TENANTS)[number % len(TENANTS)]
        while time.perf_counter() < until:
            await self.ask(http, token)

    async def update(self, http: httpx.AsyncClient, count: int, until: float, process: int) -> list[int]:
        """Write an update of one tenant after the other; return the memory after each."""
        held, pause = [], (until - time.perf_counter()) / (count + 1)
        for version in range(1, count + 1):
            await asyncio.sleep(pause)
            for token, tenant in TENANTS.items():
                self.begun[tenant] = version
                await self.write(http, token, notices(tenant, version))
            held.append(memory(process))
        return held


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def run(clients: int, seconds: float, updates: int, address: str, process: int, documents: int) -> dict[str, Any]:
    """Load a service that runs; return what was seen."""
    load, limits = Load(address, documents), httpx.Limits(max_connections=clients + 1, max_keepalive_connections=clients + 1)
    async with httpx.AsyncClient(timeout=120, limits=limits) as http:
        await load.begin(http)
        # Workers look for changes each second.
        await asyncio.sleep(3)
        until = time.perf_counter() + seconds
        asking = [load.client(http, number, until) for number in range(clients)]
        held, *_ = await asyncio.gather(load.update(http, updates, until, process), *asking)
        metrics = (await http.get(f"{address}/metrics")).text
    counted = sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith('answers_total{path="/search"'))
    return {
        "answers": len(load.seconds),
        "counted": int(counted),
        "failed": len(load.failed),
        "first failures": load.failed[:3],
        **load.wrong,
        "median seconds": round(median(load.seconds), 3),
        "seconds of 95 %": round(quantiles(load.seconds, n=20)[-1], 3),
        "memory in MB": [round(each / 2**20) for each in held],
    }


def served(clients: int, seconds: float, workers: int, updates: int, documents: int) -> dict[str, Any]:
    """Start the service, load it, and stop it."""
    with socket.socket() as free, TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        tokens, metrics = Path(folder, "tokens.json"), Path(folder, "metrics")
        tokens.write_text(json.dumps(TENANTS))
        metrics.mkdir()
        environment = {"INDEX": f"{folder}/index", "TOKENS": str(tokens), "PROMETHEUS_MULTIPROC_DIR": str(metrics)}
        free.close()
        command = [sys.executable, "-m", "uvicorn", "app:app", "--app-dir", SERVICE, "--port", port, "--workers", workers]
        command += ["--timeout-keep-alive", 75, "--log-level", "warning"]
        process = subprocess.Popen([*map(str, command)], env=os.environ | environment | {"HF_HUB_OFFLINE": "1"})
        try:
            return asyncio.run(run(clients, seconds, updates, f"http://127.0.0.1:{port}", process.pid, documents))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def main() -> None:
    """Run once and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--documents", type=int, default=400, help="of each tenant, besides those that change")
    print(json.dumps(served(**vars(parser.parse_args())), indent=1))


if __name__ == "__main__":
    main()
