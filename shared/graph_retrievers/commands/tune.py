"""The command ``tune``: choose a retriever, its settings and a trained reranker on questions with known answers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from graph_retrievers.commands.flags import printable
from graph_retrievers.commands.models import add_options, index_and_queries

__all__ = ["add_commands", "run_tune"]


def add_commands(subparsers: Any) -> None:
    """Add the command to what `add_subparsers` of :mod:`argparse` returned; it sets ``run``, see :func:`run_tune`."""
    parser = subparsers.add_parser(
        "tune",
        help="choose a retriever and its settings on your questions",
        description="Choose a retriever and its settings on questions with known answers, and train a reranker for it. It keeps "
        "the default unless something else is significantly better. Use the folder it writes with search --tuned DIR, evaluate "
        "--tuned DIR or GraphRetriever.load(index, DIR). An interrupted run continues where it stopped.",
    )
    add = parser.add_argument
    add("source", metavar="DATASET_OR_INDEX", help="folder of a dataset, or of an index (then pass --queries)")
    add("--out", required=True, metavar="DIR", help="folder to write")
    add("--queries", metavar="FILE", help="questions in the format of queries.jsonl; those of the split 'test' are not read")
    reranker = "cross-encoder; with it, retrievers that use one are tried too"
    add_options(add, "--embedding", "--reranker", "--max-length", "--device", reranker=reranker)
    add("--no-training", action="store_true", help="do not train a reranker")
    add("-k", type=int, default=10, help="number of hits that are measured (default: 10)")
    add("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.set_defaults(run=run_tune)


def run_tune(args: argparse.Namespace) -> None:
    """Run the ``tune`` command."""
    from graph_retrievers.evaluation.tuning import tune

    index, queries = index_and_queries(args, args.source)
    options = {"k": args.k, "seed": args.seed, "scored": args.reranker is not None, "rerank": not args.no_training}
    report = tune(index, queries, args.out, show_progress=True, **options)
    print(printable(_told(report, args)))


def _told(report: dict[str, Any], args: argparse.Namespace) -> str:
    """Return the report as lines: what was tried, what was chosen, and why."""
    from graph_retrievers.evaluation.tables import aligned

    rows = [[row["candidate"], str(row["questions"]), f"{row['score']:.3f}"] for row in report["candidates"]]
    settings = "".join(f" {name}={value}" for name, value in report["settings"].items())
    lines = [aligned([["candidate", "questions", f"(recall@{args.k} + ndcg@{args.k}) / 2"], *rows])]
    for step in report["steps"]:
        figures = _figures(step, f", kept below {step['level']}")
        lines.append(f"{step['candidate']} against {step['against']}: {figures}")
    lines.append(f"default: {report['default']}; chosen: {report['retriever']}{settings}")
    reranker = report["reranker"]
    if reranker:
        lines.append("reranker: " + (reranker.get("error") or f"{_figures(reranker)}, on {reranker['questions']} dev questions"))
    return "\n".join([*lines, f"written to {Path(args.out)}"])


def _figures(gain: dict[str, Any], rule: str = "") -> str:
    kept = "kept" if gain["kept"] else "not kept"
    interval = f"95 % interval {gain['low']:+.3f} to {gain['high']:+.3f}"
    return f"{gain['difference']:+.3f} ({interval}; p {gain['p']:.4f}{rule}): {kept}"
