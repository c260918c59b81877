"""The project's own results: tables and pictures of the shared datasets, in benchmarks/results.

Reads the folder that GRAPH_RETRIEVERS_SHARED names (../shared beside the repository by default) with data/ and models/ in it.
Vectors, and the trained weights of MoR, are kept for later runs. Needs the extra test.

    python benchmarks/results.py [--only NAME] [--out DIR] [--kept DIR] [--precision bfloat16] [--full]
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from plots import write_pictures
from result_pages import write_contents, write_page
from sweeps import sweep_all

import graph_retrievers
from graph_retrievers.datasets import Dataset, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.tables import results_table
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.signals.vector_cache import cache_folder
from graph_retrievers.systems import read_system
from graph_retrievers.systems.mor.training import fit_mor

RERANKER = "minilm-reranker"
SPLIT = "test"


@dataclass(frozen=True)
class Table:
    """One comparison.

    Attributes
    ----------
    title, dataset, says : str
    retrievers : tuple of str
    with_reranker : tuple of str, default ()
        Retrievers that join when the reranker is at hand.
    reranker : {"always", "full", "never"}
        When the cross-encoder scores; else the similarity of the vectors does.
    trained : tuple of str
        Retrievers that are given the checkpoint of MoR, trained on the split "train".
    use : tuple of str
        Annotations that retrievers are given.
    type_field : str
        Field of the questions that is their type, where not "type".
    subject : str, optional
        Whose misses the pictures explain.
    """

    title: str
    dataset: str
    says: str
    retrievers: tuple[str, ...]
    with_reranker: tuple[str, ...] = ()
    reranker: str = "never"
    trained: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    type_field: str = ""
    subject: str | None = None


_FUSED = "fused(systems=['spreading', 'vector'])"
_SEARCHES = ("vector", "bm25", "hybrid")
_WIKI = (*_SEARCHES, "re2", "gar", "ppr", "spreading(gate='uniform')", "spreading", _FUSED, "fastinsight", "walk-fusion")
_LINKED = (*_SEARCHES, "ppr", "spreading", _FUSED, "fastinsight", "walk-fusion")
_ALONE = "Retrievers see only the text of the question."

TABLES: dict[str, Table] = {
    "wiki-multihop": Table(
        "Questions over linked passages of an encyclopedia",
        "wiki-multihop",
        f"{_ALONE} The relevance model is the cross-encoder {RERANKER}.",
        _WIKI,
        reranker="always",
    ),
    "metaqa": Table(
        "Questions of one to three hops over a graph of films",
        "metaqa",
        f"{_ALONE} A planner trained on the split 'train' makes the plans of mor and mor(rerank=False).",
        (
            *("vector", "hybrid", "ppr", "spreading(gate='uniform')", "spreading", _FUSED, "walk-fusion"),
            *("mor(rerank=False)", "mor"),
        ),
        trained=("mor(rerank=False)", "mor"),
        type_field="hops",
        subject="mor",
    ),
    "metaqa-plans": Table(
        "The same questions with their plans given",
        "metaqa",
        "Every retriever gets the plan of the question; the reranker of mor was trained on the split 'train'.",
        ("mor(structure=False, rerank=False)", "mor(matches=0, rerank=False)", "mor(rerank=False)", "mor"),
        trained=("mor",),
        use=("plan",),
        type_field="hops",
        subject="mor",
    ),
    "citations": Table(
        "Questions over papers that cite each other", "citations", _ALONE, _LINKED, with_reranker=("re2",), reranker="full"
    ),
    "pubmedqa": Table(
        "Questions over medical abstracts", "pubmedqa", _ALONE, _LINKED, with_reranker=("re2",), reranker="full"
    ),
}  # fmt: skip


def shared_folder() -> Path:
    """Return the folder of the shared datasets; SystemExit with a message where it is absent."""
    default = Path(__file__).resolve().parents[1] / ".." / "shared"
    folder = Path(os.environ.get("GRAPH_RETRIEVERS_SHARED", default)).resolve()
    if not (folder / "data").is_dir():
        raise SystemExit(f"No datasets at {folder}; set GRAPH_RETRIEVERS_SHARED to the folder that holds data/ and models/.")
    return folder


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the tables that are asked for."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", choices=list(TABLES), help=f"one table of {', '.join(TABLES)} (default: all)")
    parser.add_argument("--out", metavar="DIR", type=Path, default=here / "results", help="default: benchmarks/results")
    parser.add_argument(
        "--kept",
        metavar="DIR",
        type=Path,
        help="where the weights of MoR are kept (default: in the user's cache, by the digest of this code)",
    )
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16", help="of the cross-encoder")
    parser.add_argument("--full", action="store_true", help="the cross-encoder on citations and pubmedqa too")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N questions only, for a try")
    parser.add_argument("--timed-queries", type=int, default=10, metavar="N", help="default: 10; 0 for no times")
    parser.add_argument(
        "--sweep-queries", type=int, default=10, metavar="N", help="of pictures over budgets, alpha and beta (default: 10; 0: none)"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    shared = shared_folder()
    kept = options.kept or cache_folder() / f"results-{_code_digest()}"
    for name, table in TABLES.items():
        if options.only in (None, name):
            _make(name, table, shared, kept, options)
    write_contents(options.out)


def _make(name: str, table: Table, shared: Path, kept: Path, options: argparse.Namespace) -> None:
    dataset = read_dataset(shared / "data" / table.dataset)
    read = table.reranker == "always" or (table.reranker == "full" and options.full)
    relevance = CrossEncoder(str(shared / "models" / RERANKER), max_length=160, dtype=options.precision) if read else None
    graph, embedding = dataset.graph(), minilm()
    index = GraphIndex.from_graph(graph, embedding=embedding, relevance=relevance, cache=True, show_progress=True)
    queries = [q for q in dataset.queries if q.split == SPLIT][: options.limit]
    if table.type_field:
        queries = [replace(q, type=f"{table.type_field}: {q.extra[table.type_field]}") for q in queries]
    about, checkpoint = {}, None
    if table.trained:
        checkpoint = _trained(dataset, index, kept / f"mor-{table.dataset}", options.seed)
        about = dict.fromkeys(table.trained, f"trained with seed {options.seed}: {_digest(checkpoint.rglob('*'))}")
    names = [*table.retrievers, *(table.with_reranker if read else ())]
    retrievers = {
        each: Retriever(index, replace(read_system(each), checkpoint=checkpoint) if each in table.trained else each, k=10)
        for each in names
    }
    evaluation = evaluate(
        index,
        queries,
        retrievers,
        k=10,
        use=table.use,
        timed_queries=options.timed_queries,
        seed=options.seed,
        about=about,
        dataset=dataset.name,
        split=SPLIT,
        show_progress=True,
    )
    print(f"{name}\n{results_table(evaluation)}", flush=True)
    sweeps: dict[str, Any] = {}
    if read and options.sweep_queries:
        sweeps = sweep_all(
            index,
            evaluation.queries,
            names,
            sample=options.sweep_queries,
            timed_queries=min(options.timed_queries, 3),
            seed=options.seed,
            show_progress=True,
        )
    out = options.out / name
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.svg"):
        old.unlink()
    write_pictures(evaluation, out, sweeps=sweeps, subject=table.subject)
    settings = {
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "precision": options.precision if read else "float32",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    write_page(evaluation, out, table.title, table.says, settings)
    print(out, flush=True)


def _trained(dataset: Dataset, index: GraphIndex, folder: Path, seed: int) -> Path:
    """Return the folder of MoR's checkpoint, trained now unless it lies there."""
    target = folder.with_name(f"{folder.name}-seed{seed}")
    if not target.is_dir():
        partial = target.with_name(target.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        print(fit_mor(dataset, index, partial, seed=seed, show_progress=True), flush=True)
        partial.replace(target)
    return target


def _code_digest() -> str:
    """Return a digest of the package: what another state of the code computed is not taken up."""
    return _digest(Path(graph_retrievers.__file__).parent.rglob("*.py"))


def _digest(files: Any) -> str:
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    main()
