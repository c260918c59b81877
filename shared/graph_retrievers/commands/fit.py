"""The command ``fit``: train a retriever's models on a dataset."""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Any

from graph_retrievers.commands.engines import folder
from graph_retrievers.commands.models import add_options, embedded_index
from graph_retrievers.errors import InvalidArgumentError

FITTERS: dict[str, tuple[str, str]] = {
    "g-rag": ("graph_retrievers.systems.grag.training", "fit_grag"),
    "gnn-rag": ("graph_retrievers.systems.gnn_rag.training", "fit_gnn_rag"),
    "lesegr": ("graph_retrievers.systems.lesegr.training", "fit_lesegr"),
    "path-reranking": ("graph_retrievers.systems.path_reranking.training", "fit_path_reranking"),
    "subgraph-rag": ("graph_retrievers.systems.subgraph_rag.training", "fit_subgraph_rag"),
    "mor": ("graph_retrievers.systems.mor.training", "fit_mor"),
}
"""Name of a retriever -> module and function ``(dataset, index, folder, *, seed, show_progress) -> summary``."""


# Retrievers whose default network is not that of the paper.
_OTHER_DEFAULTS = ("g-rag", "lesegr")


def add_commands(subparsers: Any) -> None:
    """Add the command to what `add_subparsers` of :mod:`argparse` returned; it sets ``run``, see :func:`run_fit`."""
    parser = subparsers.add_parser(
        "fit",
        help="train a retriever's models on a dataset",
        description="Train a retriever's models on the train split of a dataset, with early stopping on its dev split. Use the "
        "folder it writes with evaluate --checkpoint NAME=DIR.",
    )
    add = parser.add_argument
    add("name", metavar="NAME", choices=sorted(FITTERS), help=f"one of: {', '.join(sorted(FITTERS))}")
    add("dataset", metavar="DATASET", type=folder, help="folder of nodes.jsonl[.gz], edges.jsonl[.gz] and queries.jsonl[.gz]")
    add("--out", required=True, metavar="DIR", help="folder for the checkpoint")
    add("--paper", action="store_true", help="train the network of the paper (lesegr, g-rag)")
    reranker = "cross-encoder to start from (path-reranking)"
    add_options(add, "--reranker", "--max-length", "--embedding", "--device", reranker=reranker)
    add("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.set_defaults(run=run_fit)


def run_fit(args: argparse.Namespace) -> None:
    """Run the ``fit`` command."""
    from graph_retrievers.datasets import read_dataset

    module, function = FITTERS[args.name]
    if args.reranker and args.name != "path-reranking":
        raise InvalidArgumentError(f"{args.name} does not train a cross-encoder; leave out --reranker.")
    if args.paper and args.name not in _OTHER_DEFAULTS:
        raise InvalidArgumentError(f"{args.name} has one kind of network; leave out --paper.")
    dataset = read_dataset(args.dataset)
    index = embedded_index(args, dataset.graph(args.device))
    options = {"seed": args.seed, "show_progress": True, **({"paper": True} if args.paper else {})}
    summary = getattr(import_module(module), function)(dataset, index, Path(args.out), **options)
    print(f"{args.name} trained on {dataset.name}, written to {args.out}\n{json.dumps(summary, indent=1)}")
