"""Personalized PageRank against igraph's prpack, as ratios within one run.

Needs igraph (GPL, not a dependency): pip install igraph. Usage: python benchmarks/pagerank.py [--nodes N --edges E]
"""

import argparse
import statistics
import time

import numpy as np
import torch
from graphs import corpus_graph, power_law_pairs

from graph_retrievers.systems.pagerank import TransitionGraph, personalized_pagerank


def main() -> None:
    """Print the median ratio of prpack's time to ours, and whether the answers agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--edges", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    import igraph

    cores = torch.get_num_threads()
    pairs = power_law_pairs(options.nodes, options.edges)
    peer = igraph.Graph(n=options.nodes, edges=pairs.tolist())
    graph = TransitionGraph(corpus_graph(options.nodes, pairs))
    rng = np.random.default_rng(1)
    warm = torch.zeros(1, options.nodes)
    warm[0, 0] = 1.0
    for _ in range(3):
        personalized_pagerank(graph, warm, tolerance=1e-2)
    print(f"{options.nodes} nodes, {len(pairs)} edges, 8 seeds; ratio = prpack's time / ours, median of {options.rounds}")
    for threads, clock, unit in ((1, time.thread_time, "CPU time"), (cores, time.perf_counter, "wall time")):
        torch.set_num_threads(threads)
        for damping in (0.5, 0.85):
            ratios, overlap, l1 = [], [], []
            for _ in range(options.rounds):
                seeds = rng.choice(options.nodes, 8, replace=False)
                restart = torch.zeros(1, options.nodes)
                restart[0, seeds] = 1.0
                reset = restart[0].numpy()
                begin = clock()
                exact = np.array(peer.personalized_pagerank(damping=damping, reset=reset, implementation="prpack", directed=False))
                prpack = clock() - begin
                begin = clock()
                whole = personalized_pagerank(graph, restart, damping=damping, tolerance=1e-7)
                ratios.append(prpack / (clock() - begin))
                best = np.argsort(-exact, kind="stable")[:20]
                overlap.append(len(set(best) & set(torch.topk(whole[0], 20).indices.tolist())) / 20)
                l1.append(float(np.abs(whole[0].numpy() - exact).sum()))
            print(
                f"{threads} threads, {unit}, damping {damping}: to 1e-7 x{statistics.median(ratios):.1f} "
                f"(overlap of the best 20: {np.mean(overlap):.3f}; L1 error {max(l1):.1e})"
            )


if __name__ == "__main__":
    main()
