"""The commands ``evaluate`` and ``make-queries``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["add_commands", "run_evaluate"]

_RETRIEVERS = "vector,bm25,hybrid,re2,fastinsight"


def add_commands(subparsers: Any) -> None:
    """Add the commands to a parser; each sets ``run``, a function from the parsed arguments to an exit status.

    Parameters
    ----------
    subparsers : object
        What :meth:`argparse.ArgumentParser.add_subparsers` returned.
    """
    parser = subparsers.add_parser(
        "evaluate",
        help="measure retrievers side by side on a dataset",
        description="Measure retrievers side by side on a dataset: a folder of nodes.jsonl[.gz], edges.jsonl[.gz] and "
        "queries.jsonl[.gz]. Prints Recall@k (capped at what k places can hold), nDCG@k, MRR, Hit@k and the mean time of one "
        "query by itself.",
    )
    parser.add_argument("dataset", metavar="DATASET", help="folder of the dataset")
    parser.add_argument("--queries", metavar="FILE", help="queries from elsewhere, in the form of queries.jsonl")
    parser.add_argument(
        "--split",
        default="test",
        help="which split of the queries; 'all' takes every query (default: test; a --queries file without splits is taken whole)",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N queries of the split")
    parser.add_argument(
        "--retrievers", default=_RETRIEVERS, metavar="NAMES", help=f"names with commas between them (default: {_RETRIEVERS})"
    )
    parser.add_argument("--embedding", metavar="DIR_OR_NAME", help="embedding model (default: all-MiniLM-L6-v2, extra 'offline')")
    parser.add_argument(
        "--reranker", metavar="DIR_OR_NAME", help="cross-encoder that scores (default: the similarity of the vectors)"
    )
    parser.add_argument(
        "--checkpoint",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="trained weights of a retriever, from the fit command; may be given several times",
    )
    parser.add_argument("-k", type=int, default=10, help="hits to retrieve and to measure at (default: 10)")
    parser.add_argument(
        "--use",
        default="",
        metavar="NAMES",
        help="annotations of the queries that retrievers which read them are given: entities, plan, or both with a comma. "
        "By default none is: all retrievers see the text of the question alone",
    )
    parser.add_argument("--device", help="where the index and the models live, such as cuda (default: cpu)")
    parser.add_argument("--json", metavar="OUT", help="write results and the ids of every query's hits to this file")
    parser.add_argument("--report", metavar="DIR", help="write tables and pictures as one page, DIR/report.html")
    parser.add_argument(
        "--resume", metavar="DIR", help="keep results and latents in this folder as they come, and go on from what lies there"
    )
    parser.add_argument(
        "--timed-queries",
        type=int,
        default=20,
        metavar="N",
        help="queries that each retriever runs once more, one by one, to be timed; 0 for no times (default: 20)",
    )
    parser.add_argument("--seed", type=int, default=0, help="draws the timed queries and the resamples (default: 0)")
    parser.set_defaults(run=run_evaluate)


def run_evaluate(args: argparse.Namespace) -> int:
    """Run the ``evaluate`` command; return 0."""
    from graph_retrievers.construction.dataset import read_dataset, read_queries
    from graph_retrievers.evaluation.cache import cached_vectors
    from graph_retrievers.evaluation.harness import evaluate
    from graph_retrievers.evaluation.tables import results_table
    from graph_retrievers.index import GraphIndex
    from graph_retrievers.retrievers.registry import build_retriever, retriever_names

    names = _listed(args.retrievers)
    if not names:
        raise InvalidArgumentError("--retrievers names none; give at least one, such as --retrievers vector,fastinsight.")
    unknown = [name for name in names if name not in retriever_names()]
    if unknown:
        raise InvalidArgumentError(f"Unknown retriever {unknown[0]!r}; choose from {', '.join(retriever_names())}.")
    checkpoints = _checkpoints(args.checkpoint, names)
    dataset = read_dataset(args.dataset)
    graph = dataset.graph(args.device)
    queries, split = dataset.queries, args.split
    if args.queries:
        queries = read_queries(args.queries, nodes=graph)
    queries = _of_split(queries, split, from_file=bool(args.queries))[: args.limit]
    embedding = _embedding(args.embedding, args.device)
    index = GraphIndex.from_graph(
        graph,
        embedding=embedding,
        vectors=cached_vectors(embedding, graph.contents(), show_progress=True),
        relevance=_reranker(args.reranker, args.device),
    )
    retrievers = {
        name: build_retriever(name, index, k=args.k, **({"checkpoint": checkpoints[name]} if name in checkpoints else {}))
        for name in names
    }
    evaluation = evaluate(
        index,
        queries,
        retrievers,
        k=args.k,
        use=_listed(args.use),
        timed_queries=args.timed_queries,
        seed=args.seed,
        resume=args.resume,
        dataset=dataset.name,
        split=split,
        show_progress=True,
    )
    lines = [f"{dataset.name}, split {split}: {len(evaluation.queries)} queries", results_table(evaluation), *evaluation.notes]
    sys.stdout.write("\n".join(lines) + "\n")
    if args.json:
        _write_json(Path(args.json), evaluation.to_dict())
    return 0


def _listed(names: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def _checkpoints(given: list[str], names: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not equals or not folder or name not in names:
            raise InvalidArgumentError(f"--checkpoint {text!r}: expected NAME=DIR with NAME one of {', '.join(names)}.")
        found[name] = folder
    return found


def _of_split(queries: list[Any], split: str, from_file: bool) -> list[Any]:
    if split == "all" or (from_file and not any(query.split for query in queries)):
        return queries
    chosen = [query for query in queries if query.split == split]
    if not chosen:
        there = sorted({query.split for query in queries if query.split})
        raise InvalidArgumentError(
            f"None of the {len(queries)} queries is of split {split!r}; there are: {', '.join(there) or 'no splits'}. "
            "Pass one of them, or --split all."
        )
    return chosen


def _embedding(name: str | None, device: str | None) -> Any:
    from graph_retrievers.signals.embedding import SentenceEncoder, minilm

    return SentenceEncoder(name, device=device) if name else minilm(device=device)


def _reranker(name: str | None, device: str | None) -> Any:
    if not name:
        return None
    from graph_retrievers.signals.cross_encoder import CrossEncoder

    return CrossEncoder(name, device=device)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
