"""Calls that run at the same time, alone and in shared batches: python benchmarks/shared_calls.py [--calls 64].

Threads ask retrievers with a cross-encoder, each thread one question after the other. Printed are answers a second, the time that
95 % of the answers need at most, and how many answers differ from those given alone. Rounds with and without shared batches
alternate.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from graph_retrievers import CrossEncoder, GraphIndex, minilm
from graph_retrievers.datasets import read_dataset
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.retrievers import Retriever


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="wiki-multihop")
    parser.add_argument("--calls", type=int, default=64, help="threads (default: 64)")
    parser.add_argument("--questions", type=int, default=2, help="questions a thread (default: 2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--system", action="append", help="retriever (default: re2 and fastinsight, 30 nodes each)")
    arguments = parser.parse_args()
    shared = Path(os.environ.get("GRAPH_RETRIEVERS_SHARED", "../shared"))
    dataset = read_dataset(shared / "data" / arguments.dataset)
    graph = CorpusGraph.from_nodes(dataset.nodes, dataset.edges, include_titles=dataset.include_titles)
    model = minilm()
    reranker = CrossEncoder(str(shared / "models" / "minilm-reranker"))
    index = GraphIndex.from_graph(graph, embedding=model, cache=True, relevance=reranker)
    texts = [query.text for query in dataset.queries][: arguments.calls * arguments.questions]
    systems = {"re2": "re2(depth=30)", "fastinsight": "fastinsight(budget=30)"}
    for name in arguments.system or systems:
        made = {share: Retriever(index, systems.get(name, name), share_batches=share) for share in (False, True)}
        expected = [[hit.id for hit in hits] for hits in made[False].retrieve_batch(texts)]
        rates: dict[bool, list[float]] = {False: [], True: []}
        late: dict[bool, list[float]] = {False: [], True: []}
        wrong = 0
        for _ in range(arguments.rounds):
            for share, retriever in made.items():
                asked = [texts[place :: arguments.calls] for place in range(arguments.calls)]

                def ask(questions: list[str], retriever=retriever) -> list[tuple[str, list[str], float]]:
                    answers = []
                    for question in questions:
                        start = time.perf_counter()
                        ids = [hit.id for hit in retriever.retrieve(question)]
                        answers.append((question, ids, time.perf_counter() - start))
                    return answers

                start = time.perf_counter()
                with ThreadPoolExecutor(arguments.calls) as pool:
                    answers = [answer for part in pool.map(ask, asked) for answer in part]
                rates[share].append(len(answers) / (time.perf_counter() - start))
                late[share].append(sorted(seconds for _, _, seconds in answers)[int(0.95 * len(answers))])
                known = dict(zip(texts, expected, strict=True))
                wrong += sum(known[question] != ids for question, ids, _ in answers)
        for share in made:
            rate, slowest = statistics.median(rates[share]), statistics.median(late[share])
            print(
                f"{name:12} {'shared' if share else 'alone':6}  {rate:6.1f} answers/s  95 % within {slowest:6.2f} s  {wrong} differ"
            )


if __name__ == "__main__":
    main()
