"""The commands ``evaluate`` and ``make-queries``."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph_retrievers.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graph_retrievers.evaluation.results import Evaluation
    from graph_retrievers.index import GraphIndex

__all__ = ["add_commands", "run_evaluate", "run_make_queries"]

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
    parser.add_argument(
        "--run",
        action="append",
        default=[],
        metavar="NAME=FILE",
        dest="runs",
        help="a TREC run file to measure beside the retrievers; may be given several times",
    )
    parser.add_argument("--qrels", metavar="FILE", help="TREC judgements that replace the relevant nodes of the queries")
    model = parser.add_mutually_exclusive_group()
    model.add_argument(
        "--embedding", metavar="NAME_OR_DIR", default="minilm", help="embedding model (default: minilm, from the extra 'offline')"
    )
    model.add_argument("--no-embedding", action="store_true", help="no vectors, for retrievers that read none")
    parser.add_argument(
        "--reranker", metavar="DIR_OR_NAME", help="cross-encoder that scores (default: the similarity of the vectors)"
    )
    parser.add_argument(
        "--max-length",
        type=int,
        default=160,
        metavar="TOKENS",
        help="tokens the cross-encoder reads of a question and a passage together (default: 160, which suits paragraphs; "
        "give 512 for a model trained on long passages)",
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        help="numbers the cross-encoder computes with (default: float32 on a CPU, the model's own on a GPU); bfloat16 is more "
        "than twice as fast on a recent CPU and moves scores by about 3 %% of their spread",
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
    parser.add_argument("--trec", metavar="DIR", help="write a TREC run file of each retriever, DIR/NAME.run, and DIR/qrels")
    parser.add_argument(
        "--report",
        metavar="DIR",
        help="write tables and pictures as one page, DIR/report.html (extra 'eval'); budgets, alpha and beta are varied for it",
    )
    parser.add_argument(
        "--sweep-queries",
        type=int,
        default=40,
        metavar="N",
        help="queries on which the report varies budgets, alpha and beta; 0 leaves these pictures out (default: 40)",
    )
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

    made = subparsers.add_parser(
        "make-queries",
        help="make questions over a corpus without labels, to evaluate on",
        description="Make questions over linked pairs of nodes, with the pair as relevant nodes, and write them as queries.jsonl. "
        "A language model writes them; without one they read 'What links A to x, y and z?', A being the title of the first node "
        "and x, y, z telling words of the second, a form that favours search by words.",
    )
    made.add_argument("dataset", metavar="DATASET", help="folder of nodes.jsonl[.gz] and edges.jsonl[.gz]")
    made.add_argument("out", metavar="OUT", help="file to write, such as queries.jsonl; pass it to evaluate --queries")
    made.add_argument("--count", type=int, default=100, metavar="N", help="questions to make (default: 100)")
    made.add_argument(
        "--language-model",
        metavar="MODULE:NAME",
        help="Python object that writes the questions: a LangChain or LlamaIndex model, or a function from a prompt to a text",
    )
    made.add_argument("--split", default="test", help="split that the queries are marked with (default: test)")
    made.add_argument("--seed", type=int, default=0, help="draws the pairs (default: 0)")
    made.set_defaults(run=run_make_queries)


def run_evaluate(args: argparse.Namespace) -> int:
    """Run the ``evaluate`` command; return 0."""
    from graph_retrievers.datasets import read_dataset, read_queries
    from graph_retrievers.evaluation.cache import cached_vectors
    from graph_retrievers.evaluation.harness import evaluate
    from graph_retrievers.evaluation.run_files import read_qrels, read_run
    from graph_retrievers.evaluation.significance import compare
    from graph_retrievers.evaluation.tables import results_table
    from graph_retrievers.index import GraphIndex
    from graph_retrievers.retrievers.registry import build_retriever
    from graph_retrievers.signals.embedding import load_embedding

    # All that can be wrong with the arguments shows before anything is embedded.
    if args.report:
        from graph_retrievers.evaluation.plots import check_matplotlib

        check_matplotlib()
    names = _names(args)
    checkpoints = _pairs("--checkpoint", args.checkpoint, names)
    runs = {name: read_run(file) for name, file in _pairs("--run", args.runs).items()}
    qrels = read_qrels(args.qrels) if args.qrels else None
    dataset = read_dataset(args.dataset)
    graph = dataset.graph(args.device)
    queries = read_queries(args.queries, nodes=graph) if args.queries else dataset.queries
    queries = _of_split(queries, args.split, from_file=bool(args.queries))[: args.limit]
    embedding = None if args.no_embedding else load_embedding(args.embedding, args.device)
    index = GraphIndex.from_graph(
        graph,
        embedding=embedding,
        vectors=None if embedding is None else cached_vectors(embedding, graph.contents(), show_progress=True),
        relevance=_reranker(args),
    )
    retrievers: dict[str, Any] = {
        name: build_retriever(name, index, k=args.k, **({"checkpoint": checkpoints[name]} if name in checkpoints else {}))
        for name in names
    }
    with _working_folder(args) as folder:
        evaluation = evaluate(
            index,
            queries,
            retrievers | runs,
            k=args.k,
            qrels=qrels,
            use=_listed(args.use),
            timed_queries=args.timed_queries,
            seed=args.seed,
            resume=folder,
            about={name: f"from {checkpoint} {_folder_digest(checkpoint)}" for name, checkpoint in checkpoints.items()},
            dataset=dataset.name,
            split=args.split,
            show_progress=True,
        )
        comparisons = compare(evaluation, f"recall@{args.k}", seed=args.seed)
        sys.stdout.write(f"{dataset.name}, split {args.split}: {len(evaluation.queries)} queries\n")
        sys.stdout.write(results_table(evaluation, comparisons) + "\n")
        if comparisons:
            sys.stdout.write(
                f"really above: by Recall@{args.k}, paired randomisation test, p < 0.05 with Holm's correction over "
                f"{len(comparisons)} pairs\n"
            )
        sys.stdout.writelines(f"note: {note}\n" for note in evaluation.notes)
        if args.json:
            _write_json(Path(args.json), evaluation.to_dict())
        if args.trec:
            _write_trec(Path(args.trec), evaluation)
        if args.report:
            sys.stdout.write(f"{_write_report(args, index, evaluation, names, folder)}\n")
    return 0


def run_make_queries(args: argparse.Namespace) -> int:
    """Run the ``make-queries`` command; return 0."""
    from graph_retrievers.datasets import read_dataset
    from graph_retrievers.evaluation.make_queries import make_queries, write_queries

    model = _imported(args.language_model) if args.language_model else None
    graph = read_dataset(args.dataset).graph()
    queries = make_queries(graph, args.count, language_model=model, seed=args.seed, split=args.split, show_progress=True)
    write_queries(args.out, queries)
    sys.stdout.write(f"{args.out}: {len(queries)} queries\n")
    return 0


def _imported(path: str) -> Any:
    """Return the object that ``module:name`` names; the working directory is searched too."""
    module, colon, name = path.partition(":")
    if not colon or not module or not name:
        raise InvalidArgumentError(f"--language-model {path!r}: expected MODULE:NAME, such as my_models:chat.")
    sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError(f"--language-model {path!r} cannot be imported: {error}.") from error
    finally:
        sys.path.remove("")


@contextmanager
def _working_folder(args: argparse.Namespace) -> Iterator[Path | None]:
    """Yield the folder that keeps results and latents: the one given, one for the time being for a report, or none."""
    if args.resume or not args.report:
        yield Path(args.resume) if args.resume else None
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _write_report(args: argparse.Namespace, index: GraphIndex, evaluation: Evaluation, names: list[str], folder: Any) -> Path:
    from graph_retrievers.evaluation.report import write_report
    from graph_retrievers.evaluation.sweeps import sweep_all

    sweeps = {}
    if args.sweep_queries:
        sweeps = sweep_all(
            index,
            evaluation.queries,
            names,
            k=args.k,
            sample=args.sweep_queries,
            timed_queries=min(args.timed_queries, 5),
            seed=args.seed,
            resume=folder,
            show_progress=True,
        )
    return write_report(evaluation, args.report, sweeps=sweeps, seed=args.seed)


def _write_trec(folder: Path, evaluation: Evaluation) -> None:
    from graph_retrievers.evaluation.run_files import write_qrels, write_run

    for name, results in evaluation.returned.items():
        run = {query: list(zip(result.ids, result.scores, strict=True)) for query, result in results.items()}
        write_run(folder / f"{name}.run", run, tag=name)
    write_qrels(folder / "qrels", evaluation.gold)


def _listed(names: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def _names(args: argparse.Namespace) -> list[str]:
    from graph_retrievers.retrievers.registry import retriever_names

    names, known = _listed(args.retrievers), retriever_names()
    if not names and not args.runs:
        raise InvalidArgumentError("--retrievers names none; give at least one, such as --retrievers vector,fastinsight.")
    for name in names:
        if name not in known:
            raise InvalidArgumentError(f"Unknown retriever {name!r}; choose from {', '.join(known)}.")
    return names


def _pairs(option: str, given: list[str], names: list[str] | None = None) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name or not value or name in found or (names is not None and name not in names):
            wanted = f" with NAME one of {', '.join(names)}" if names is not None else ""
            raise InvalidArgumentError(f"{option} {text!r}: expected NAME=VALUE, a NAME once{wanted}.")
        found[name] = value
    return found


def _folder_digest(folder: str) -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(folder).rglob("*")):
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


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


def _reranker(args: argparse.Namespace) -> Any:
    if not args.reranker:
        return None
    from graph_retrievers.signals.cross_encoder import CrossEncoder

    return CrossEncoder(args.reranker, max_length=args.max_length, device=args.device, dtype=args.precision)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)
