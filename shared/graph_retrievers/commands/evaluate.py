"""The commands ``evaluate`` and ``make-queries``."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from graph_retrievers.arguments import positive
from graph_retrievers.commands.engines import add_postgres, index_place
from graph_retrievers.commands.flags import in_flags, printable
from graph_retrievers.commands.imports import asking, imported, system_from_text
from graph_retrievers.commands.models import add_options, index_and_queries, index_name, is_index, load_index, split_names
from graph_retrievers.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graph_retrievers.evaluation.outcome import Evaluation
    from graph_retrievers.systems.system import System


_RETRIEVERS = "vector,bm25,hybrid,fastinsight,walk-fusion"
_QUERIES = (
    'A line of queries.jsonl is {"id": "q1", "query": "Who wrote the program?", "gold": ["ada"]}: gold are the ids of the relevant '
    'nodes. It may also have "split", "type", "answer", and "entities" (a list of names) and "plan" (a list of steps) for --use.'
)
# Strings, brackets and commas in a list of systems.
_TOKENS = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[(\[{)\]},]""")
# Characters that the name of a run file may have besides letters and digits; others are written as in a URL.
_SAFE_CHARACTERS = "()[]=',"


def add_commands(subparsers: Any) -> None:
    """Add the commands to what `add_subparsers` of :mod:`argparse` returned.

    Each command sets ``run``, a function of the parsed arguments.
    """
    parser = subparsers.add_parser(
        "evaluate",
        help="compare retrievers on a dataset",
        description="Compare retrievers on a dataset: a folder of nodes.jsonl[.gz], edges.jsonl[.gz] and queries.jsonl[.gz]. "
        "Prints Recall@k (capped: the share of what fits into k places), nDCG@k, MRR, Hit@k and the mean time of a single query.",
        epilog=_QUERIES,
    )
    help_text = "folder of the dataset, or of an index, or PostgreSQL: postgresql://USER@HOST/DATABASE (then pass --queries)"
    parser.add_argument("dataset", metavar="DATASET_OR_INDEX", type=index_place, help=help_text)
    _add_data_options(parser.add_argument_group("queries").add_argument)
    _add_retriever_options(parser.add_argument_group("retrievers"))
    _add_measurement_options(parser.add_argument_group("measurement").add_argument)
    _add_output_options(parser.add_argument_group("output").add_argument)
    add_postgres(parser)
    parser.set_defaults(run=run_evaluate)

    questions_parser = subparsers.add_parser(
        "make-queries",
        help="write test questions for documents that have none",
        description="Write questions about pairs of linked nodes, both of which are relevant, as queries.jsonl. A language model "
        "writes them. Without one, they read 'What links A to x, y and z?', where A is the title of the first node and x, y, z are "
        "characteristic words of the second; this form favours search by words.",
    )
    add = questions_parser.add_argument
    help_text = "folder of nodes.jsonl[.gz] and edges.jsonl[.gz], or of an index, or PostgreSQL: postgresql://USER@HOST/DATABASE"
    add("dataset", metavar="DATASET_OR_INDEX", type=index_place, help=help_text)
    add("out", metavar="OUT", help="file to write, such as queries.jsonl; pass it to evaluate --queries")
    add("--count", type=int, default=100, metavar="N", help="number of questions (default: 100)")
    writer = "Python object that writes the questions: a LangChain or LlamaIndex model, or a function that answers a prompt"
    add("--language-model", metavar="MODULE:NAME", help=writer)
    add("--split", default="test", help="split of the queries (default: test)")
    add("--seed", type=int, default=0, help="seed that chooses the pairs (default: 0)")
    add_postgres(questions_parser)
    questions_parser.set_defaults(run=run_make_queries, device=None, no_embedding=True)


def _add_data_options(add: Callable[..., Any]) -> None:
    split = "split of the queries to use, or 'all' (default: test; a --queries file without splits is used whole)"
    add("--queries", metavar="FILE", help="other queries, in the format of queries.jsonl")
    add("--split", default="test", help=split)
    add("--limit", type=int, metavar="N", help="only the first N queries of the split")
    add("--qrels", metavar="FILE", help="TREC judgements that replace the relevant nodes of the queries")
    use = "annotations of the queries that retrievers may use: entities, plan, or entities,plan (default: none)"
    add("--use", default="", metavar="NAMES", help=use)


def _add_retriever_options(group: Any) -> None:
    add, model = group.add_argument, group.add_mutually_exclusive_group()
    names = "comma-separated systems, such as vector,'ppr(damping=0.7)', or all; all leaves out those that lack something (a "
    names += "checkpoint, a plan) and says what "
    names += f"(default: {_RETRIEVERS})"
    add("--retrievers", default=_RETRIEVERS, metavar="SYSTEMS", help=names)
    run = "TREC run file to compare with the retrievers; may be repeated"
    add("--run", action="append", default=[], metavar="NAME=FILE", dest="runs", help=run)
    add_options(model.add_argument, "--embedding")
    model.add_argument("--no-embedding", action="store_true", help="no vectors, for retrievers that need none")
    reranker = "cross-encoder (default: the similarity of the vectors)"
    add_options(add, "--reranker", "--max-length", reranker=reranker)
    precision = "number format of the cross-encoder (default: float32 on a CPU, the model's own on a GPU); bfloat16 is more than "
    precision += "twice as fast on a recent CPU and changes scores by about 3 %% of their spread"
    add("--precision", choices=("float32", "bfloat16"), help=precision)
    writer = "Python object for hyde, decomposition, ircot and others that use a language model: see make-queries"
    add("--language-model", metavar="MODULE:NAME", help=writer)
    checkpoint = "trained weights of a retriever, from the fit command; may be repeated"
    add("--checkpoint", action="append", default=[], metavar="NAME=DIR", help=checkpoint)
    add_options(add, "--device")


def _add_measurement_options(add: Callable[..., Any]) -> None:
    add("-k", type=int, default=10, help="number of hits to retrieve and measure (default: 10)")
    help_text = "number of queries that each retriever answers again, one by one, for timing; 0 for no timing (default: 20)"
    add("--timed-queries", type=int, default=20, metavar="N", help=help_text)
    add("--seed", type=int, default=0, help="seed of the timed queries and of resampling (default: 0)")
    cache = "do not store vectors for later runs; by default they are stored in GRAPH_RETRIEVERS_CACHE or "
    cache += "~/.cache/graph-retrievers"
    add("--no-cache", action="store_true", help=cache)


def _add_output_options(add: Callable[..., Any]) -> None:
    add("--json", metavar="OUT", help="write results and the ids of every query's hits to this file")
    trec = "write a TREC run file of each retriever, DIR/NAME.run, and DIR/qrels; spaces and slashes of a NAME as in a URL"
    add("--trec", metavar="DIR", help=trec)


def run_evaluate(args: argparse.Namespace) -> None:
    """Run the ``evaluate`` command."""
    from graph_retrievers.evaluation.harness import check_measurement, evaluate
    from graph_retrievers.evaluation.run_files import read_qrels, read_run

    # Arguments are checked before anything is read or embedded.
    use = split_names(args.use)
    check_measurement(args.k, args.timed_queries, args.seed, use)
    if args.limit is not None:
        positive("limit", args.limit)
    systems, everything = _systems(args)
    checkpoints = _pairs("--checkpoint", args.checkpoint, list(systems))
    systems = _completed(systems, checkpoints, imported("--language-model", args.language_model) if args.language_model else None)
    runs = {name: read_run(file) for name, file in _pairs("--run", args.runs).items()}
    qrels = read_qrels(args.qrels) if args.qrels else None
    reads_edges = any(system.reads_edge_signals for system in systems.values())
    index, queries = index_and_queries(args, args.dataset, edges=reads_edges)
    queries = _of_split(queries, args.split, from_file=bool(args.queries))[: args.limit]
    early: list[Evaluation] = []

    def write_quality(evaluation: Evaluation) -> None:
        # Timing may take long; nobody should wait for it to see what was found, or lose it.
        early.append(evaluation)
        _write_results(args, evaluation)
        sys.stdout.flush()

    evaluation = evaluate(
        index,
        queries,
        systems | runs,
        k=args.k,
        qrels=qrels,
        use=use,
        timed_queries=args.timed_queries,
        seed=args.seed,
        about={name: f"from {checkpoint} {_folder_digest(checkpoint)}" for name, checkpoint in checkpoints.items()},
        skip=everything,
        dataset=index_name(args, args.dataset),
        split=args.split,
        before_timing=write_quality,
        show_progress=True,
    )
    if early:
        _write_times(args, evaluation)
    else:
        _write_results(args, evaluation)


def _write_results(args: argparse.Namespace, evaluation: Evaluation) -> None:
    """Print the table, and write the requested files."""
    from graph_retrievers.evaluation.run_files import write_qrels, write_run
    from graph_retrievers.evaluation.significance import compare
    from graph_retrievers.evaluation.tables import aligned, results_table, source_rows

    comparisons = compare(evaluation, f"recall@{args.k}", seed=args.seed)
    print(f"{printable(evaluation.dataset)}, split {args.split}: {len(evaluation.queries)} queries")
    print(printable(results_table(evaluation, comparisons)))
    if rows := source_rows(evaluation):
        print(printable(aligned(rows)))
    if comparisons:
        test = f"paired randomisation test, p < 0.05 with Holm's correction over {len(comparisons)} pairs"
        print(f"really above: by Recall@{args.k}, {test}")
    for note in evaluation.notes:
        print(f"note: {printable(in_flags(note, args))}")
    _write_json(args, evaluation)
    if args.trec:
        for name, results in evaluation.returned.items():
            run = {query: list(zip(result.ids, result.scores, strict=True)) for query, result in results.items()}
            # Other tools expect a word as the name of a run, and a slash would lead into another folder.
            word = quote(name, safe=_SAFE_CHARACTERS)
            write_run(Path(args.trec) / f"{word}.run", run, tag=word)
        write_qrels(Path(args.trec) / "qrels", evaluation.gold)


def _write_times(args: argparse.Namespace, evaluation: Evaluation) -> None:
    """Print the mean times of a single query, and write the file with the costs."""
    from graph_retrievers.evaluation.tables import aligned, format_seconds

    rows = [[name, format_seconds(costs["seconds_per_query"])] for name, costs in evaluation.costs.items()]
    print(aligned([["retriever", "time/query"], *rows]))
    _write_json(args, evaluation)


def _write_json(args: argparse.Namespace, evaluation: Evaluation) -> None:
    from graph_retrievers.evaluation.run_files import write_text

    if args.json:
        write_text(args.json, json.dumps(evaluation.to_dict(), indent=1) + "\n")


def run_make_queries(args: argparse.Namespace) -> None:
    """Run the ``make-queries`` command."""
    from graph_retrievers.datasets import read_dataset
    from graph_retrievers.evaluation.make_queries import make_queries, write_queries

    model = imported("--language-model", args.language_model) if args.language_model else None
    graph = load_index(args, args.dataset).graph if is_index(args.dataset) else read_dataset(args.dataset).graph()
    queries = make_queries(graph, args.count, language_model=model, seed=args.seed, split=args.split, show_progress=True)
    write_queries(args.out, queries)
    print(f"{args.out}: {len(queries)} queries")


def _systems(args: argparse.Namespace) -> tuple[dict[str, System], bool]:
    """Return the systems by the texts that were given, and whether all are requested."""
    from graph_retrievers.systems.system import every_system

    texts = _system_texts(args.retrievers)
    if not texts and not args.runs:
        raise InvalidArgumentError("--retrievers names none; give at least one, such as --retrievers vector,fastinsight.")
    systems = {text: system_from_text(text) for text in texts if text != "all"}
    return (every_system() | systems, True) if "all" in texts else (systems, False)


def _system_texts(text: str) -> list[str]:
    """Return the texts of systems between commas, but for commas within brackets and quotes, which are of one system."""
    cuts, depth = [-1], 0
    for token in _TOKENS.finditer(text):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if token[0] == "," and depth == 0:
            cuts.append(token.start())
    parts = [text[before + 1 : cut].strip() for before, cut in pairwise([*cuts, len(text)])]
    return [part for part in parts if part]


def _completed(systems: dict[str, System], checkpoints: dict[str, str], language_model: Any) -> dict[str, System]:
    """Return systems with their checkpoints, and with the language model where they take one."""
    complete = dict(systems)
    for name, system in systems.items():
        options = {"checkpoint": checkpoints[name]} if name in checkpoints else {}
        complete[name] = asking(replace(system, **options), language_model)
    return complete


def _pairs(option: str, texts: list[str], names: list[str] | None = None) -> dict[str, str]:
    """Return the values of NAME=VALUE by name."""
    values: dict[str, str] = {}
    for text in texts:
        # The text of a system may have "=" too.
        matches = [name for name in names or () if text.startswith(f"{name}=")]
        name, _, value = (matches[0], "=", text.removeprefix(f"{matches[0]}=")) if matches else text.partition("=")
        if not name or not value or name in values or (names is not None and name not in names):
            expected = f" with NAME one of {', '.join(names)}" if names is not None else ""
            raise InvalidArgumentError(f"{option} {text!r}: expected NAME=VALUE, each NAME once{expected}.")
        values[name] = value
    return values


def _folder_digest(folder: str) -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(folder).rglob("*")):
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _of_split(queries: list[Any], split: str, from_file: bool) -> list[Any]:
    if split == "all" or (from_file and not any(query.split for query in queries)):
        return queries
    part = [query for query in queries if query.split == split]
    if not part:
        splits = sorted({query.split for query in queries if query.split})
        raise InvalidArgumentError(
            f"None of the {len(queries)} queries is of split {split!r}; there are: {', '.join(splits) or 'no splits'}. "
            "Pass one of them, or --split all."
        )
    return part
