"""Typed walks of planned traversal against Python sets, as ratios within one run.

The peer keeps adjacency lists and node types as Python lists and steps with a set comprehension. Every round asks
questions that were not asked before, so that neither side finds its rows in a cache, and answers are compared.
Usage: python benchmarks/mor.py [--nodes N --edges E] [--rounds R]
"""

import argparse
import random
import statistics
import time

import numpy as np
import torch
from graphs import power_law_pairs

from graph_retrievers import GraphIndex
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.graph.typed_adjacency import typed_adjacency
from graph_retrievers.queries import Queries
from graph_retrievers.search.driver import Search, run
from graph_retrievers.search.memory import Memory
from graph_retrievers.search.requests import Steps

TYPES = [f"type {i}" for i in range(7)]


def walked(starts: list[int], path: list[int]) -> Search[np.ndarray]:
    """Step to nodes of the types of a path, one after the other."""
    nodes = np.array(starts)
    for kind in path:
        near, _ = yield Steps(nodes, TYPES[kind], None, 1 << 40)
        nodes = np.unique(near.node)
    return nodes


def main() -> None:
    """Print the median ratio of the time of Python sets to ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--edges", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(0)
    size = options.nodes
    kinds = [rng.randrange(7) for _ in range(size)]
    ids = [str(i) for i in range(size)]
    pairs = power_law_pairs(size, options.edges).tolist()
    graph = CorpusGraph(ids, [""] * size, types=[TYPES[k] for k in kinds], edges=[(ids[a], ids[b]) for a, b in pairs])
    begin = time.thread_time()
    typed_adjacency(graph)
    built = time.thread_time() - begin
    index = GraphIndex(graph)
    lists: list[list[int]] = [[] for _ in range(size)]
    for a, b in pairs:
        lists[a].append(b)
        lists[b].append(a)
    by_kind = [[[u for u in row if kinds[u] == k] for k in range(7)] for row in lists]

    def sets(starts: list[int], path: list[int]) -> set[int]:
        frontier = set(starts)
        for kind in path:
            frontier = {u for v in frontier for u in lists[v] if kinds[u] == kind}
        return frontier

    def typed_sets(starts: list[int], path: list[int]) -> set[int]:
        frontier = set(starts)
        for kind in path:
            frontier = set().union(*(by_kind[v][kind] for v in frontier))
        return frontier

    def question(hops: int) -> tuple[list[int], list[int]]:
        return sorted(rng.sample(range(size), 5)), [rng.randrange(7) for _ in range(hops)]

    print(f"{size} nodes, {len(pairs)} edges, 7 types, 5 seeds a question; 1 thread, CPU time; built in {built:.2f} s")
    print("ratio = time of Python sets / ours (in brackets: of sets over lists kept by type)")
    for batch in (1, 64):
        for hops in (1, 2, 3):
            plain, typed, ours, sizes = [], [], [], []
            for round_number in range(options.rounds + 2):
                asked = [question(hops) for _ in range(64)]
                groups = [asked[i : i + batch] for i in range(0, 64, batch)]
                batches = [(Memory(Queries.of(index, ["?"] * len(group))), group) for group in groups]
                runs = {
                    "plain": lambda asked=asked: [sets(*q) for q in asked],
                    "typed": lambda asked=asked: [typed_sets(*q) for q in asked],
                    "ours": lambda batches=batches: [
                        set(nodes.tolist())
                        for backend, group in batches
                        for nodes in run(backend, [walked(*q) for q in group])
                    ],
                }
                spent, found = {}, {}
                for name in rng.sample(sorted(runs), 3):
                    torch.ones(4_000_000).sum()
                    begin = time.thread_time()
                    found[name] = runs[name]()
                    spent[name] = time.thread_time() - begin
                assert found["ours"] == found["plain"] == found["typed"]
                if round_number >= 2:
                    plain.append(spent["plain"] / spent["ours"])
                    typed.append(spent["typed"] / spent["ours"])
                    ours.append(spent["ours"] / 64)
                    sizes.append(sum(map(len, found["plain"])) / 64)
            print(
                f"{batch:3d} question{'s' if batch > 1 else ' '} x {hops} hops: x{statistics.median(plain):.2f} "
                f"(x{statistics.median(typed):.2f}); {statistics.median(sizes):.0f} nodes reached, "
                f"{1e6 * statistics.median(ours):.0f} us a question"
            )


if __name__ == "__main__":
    main()
