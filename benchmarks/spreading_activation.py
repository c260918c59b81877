"""Spreading activation and its chains against dictionaries and naive depth-first search, as ratios within one run.

Graph, vectors and queries are synthetic: power-law degrees, communities of 100 that hold 70 % of the edges, vectors
around one centre a community. Times are CPU time of the calling thread, with one thread, so that other work on the
machine counts little; variants take turns within each round, and the median ratio over all queries and rounds is printed.

    python benchmarks/spreading_activation.py [--nodes 50000 --edges 500000 --rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graphs import corpus_graph, power_law_pairs, unit_vectors

from graph_retrievers.index import GraphIndex
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.spreading.chains import ChainSearch
from graph_retrievers.systems.spreading.propagation import GatedPropagation

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.references.spreading import adjacency, spread

SEEDS = 5


class Gates(dict):
    """sigma of the reference: one dot product a node, worked out when it is first asked for."""

    def __init__(self, query: np.ndarray, vectors: np.ndarray) -> None:
        super().__init__()
        self.query, self.vectors = query, vectors

    def __contains__(self, node: object) -> bool:
        return True

    def __missing__(self, node: int) -> float:
        self[node] = value = float(self.vectors[node] @ self.query)
        return value


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return CPU seconds of this thread, and the result."""
    start = time.thread_time()
    result = run()
    return time.thread_time() - start, result


def naive(neighbours: dict[int, list[int]], seeds: list[int], activation: dict[int, float], cap: int) -> tuple[int, float]:
    """Return how many walks of 1 to 4 edges there are from the seeds, and what the best means are, by plain recursion."""
    count, best = 0, 0.0

    def walk(path: tuple[int, ...], total: float) -> None:
        nonlocal count, best
        for v in neighbours.get(path[-1], ()):
            if v in activation and v not in path:
                count += 1
                best = max(best, (total + activation[v]) / (len(path) + 1))
                if len(path) < 4 and count < cap:
                    walk((*path, v), total + activation[v])

    for seed in seeds:
        walk((seed,), activation[seed])
    return count, best


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--edges", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=32)
    parser.add_argument("--walks", type=int, default=1_000_000, help="walks after which naive search stops")
    options = parser.parse_args()
    torch.set_num_threads(1)

    pairs = power_law_pairs(options.nodes, options.edges)
    common = torch.nn.functional.normalize(torch.randn(1, 384, generator=torch.Generator().manual_seed(1)), dim=1)
    vectors = torch.nn.functional.normalize(unit_vectors(options.nodes, 384) + 0.31 * common, dim=1)
    index = GraphIndex.from_graph(corpus_graph(options.nodes, pairs), vectors=vectors, bm25=False)
    neighbours = adjacency(pairs.tolist())
    generator = torch.Generator().manual_seed(2)
    near = torch.randint(options.nodes, (options.queries,), generator=generator)
    noise = torch.nn.functional.normalize(torch.randn(options.queries, 384, generator=generator), dim=1)
    questions = torch.nn.functional.normalize(vectors[near] + noise, dim=1)

    def batch(rows: slice) -> Queries:
        return Queries.of(index, ["query"] * len(questions[rows]), vectors=questions[rows])

    gated, uniform = GatedPropagation(), GatedPropagation(gate="uniform")
    singles = [batch(slice(b, b + 1)) for b in range(options.queries)]
    seeds = [VectorSearch(SEEDS)(single) for single in singles]
    every = batch(slice(None))
    every_seeds = VectorSearch(SEEDS)(every)
    for single in singles:
        single.scores(torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))

    def reference(b: int, gates: dict[int, float]) -> dict[int, float]:
        scores = dict(zip(seeds[b].nodes[0].tolist(), seeds[b].scores[0].tolist(), strict=True))
        return spread(neighbours, scores, gates)[0]

    print(f"{options.nodes} nodes, {options.edges} edges, {options.queries} queries of {SEEDS} seeds")
    ratios: dict[str, list[float]] = {}
    touched: dict[str, list[int]] = {"gated": [], "uniform": []}
    table = vectors.numpy()
    for _ in range(options.rounds):
        total = 0.0
        for b in range(options.queries):
            slow, expected = timed(lambda b=b: reference(b, Gates(questions[b].numpy(), table)))
            known = (table @ questions[b].numpy()).tolist()
            given, _ = timed(lambda b=b, known=known: reference(b, dict(enumerate(known))))
            fast, ranking = timed(lambda b=b: gated(singles[b], seeds[b]))
            open_time, wide = timed(lambda b=b: uniform(singles[b], seeds[b]))
            found = dict(zip(ranking.nodes[0].tolist(), ranking.scores[0].tolist(), strict=True))
            assert set(found) == set(expected)
            assert all(abs(found[v] - expected[v]) <= 1e-5 * max(1.0, expected[v]) for v in expected)
            total += slow
            ratios.setdefault("one query, similarities reused", []).append(slow / fast)
            ratios.setdefault("one query, similarities given to both", []).append(given / fast)
            ratios.setdefault("uniform gate / cosine gate, time", []).append(open_time / fast)
            touched["gated"].append(int(ranking.lengths()[0]))
            touched["uniform"].append(int(wide.lengths()[0]))
        whole, _ = timed(lambda: gated(batch(slice(None)), every_seeds))
        ratios.setdefault(f"batch of {options.queries}, similarities included", []).append(total / whole)
        whole, _ = timed(lambda: gated(every, every_seeds))
        ratios.setdefault(f"batch of {options.queries}, similarities reused", []).append(total / whole)
    for name, values in ratios.items():
        print(f"{name:45} x{statistics.median(values):.1f}")
    for name, counts in touched.items():
        print(f"nodes touched, {name:30} median {statistics.median(counts):.0f}, most {max(counts)}")
    chains(options, neighbours, singles, seeds, gated)


def chains(
    options: argparse.Namespace,
    neighbours: dict[int, list[int]],
    singles: list[Queries],
    seeds: list[Ranking],
    gated: GatedPropagation,
) -> None:
    """Print how chain search compares with depth-first search, query by query."""
    rows = []
    for b, single in enumerate(singles[:16]):
        ranking = gated(single, seeds[b])
        activation = dict(zip(ranking.nodes[0].tolist(), ranking.scores[0].tolist(), strict=True))
        slow, (count, best) = timed(
            lambda b=b, activation=activation: naive(neighbours, seeds[b].nodes[0].tolist(), activation, options.walks)
        )
        if count < options.walks:
            found = ChainSearch(1)(single, ranking).chains
            assert found is not None and abs(float(found.scores[0, 0]) - best) < 1e-4 * best
        for dedupe in ("after_limit", "before_limit"):
            search = ChainSearch(dedupe=dedupe)
            fast = min(timed(lambda search=search, single=single, ranking=ranking: search(single, ranking))[0] for _ in range(3))
            exact = not any(search(single, ranking).notes)
            rows.append((dedupe, count, slow / fast, fast, exact, slow))
    for dedupe in ("after_limit", "before_limit"):
        mine = [row for row in rows if row[0] == dedupe]
        full = [row for row in mine if row[1] >= options.walks] or mine
        ratio, milliseconds = statistics.median(row[2] for row in full), [1e3 * row[3] for row in mine]
        print(
            f"chains, {dedupe:13} x{ratio:.0f} depth-first search of {min(row[1] for row in full):,} walks or more "
            f"({len(full)} queries; median {statistics.median(milliseconds):.1f} ms, slowest {max(milliseconds):.1f} ms, "
            f"exact for {sum(row[4] for row in mine)} of {len(mine)})"
        )


if __name__ == "__main__":
    main()
