"""The commands ``search`` and ``inspect``: search a saved index, and describe it."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph_retrievers.commands.engines import INDEX, add_postgres, index_place
from graph_retrievers.commands.flags import printable
from graph_retrievers.commands.models import add_options, make_retriever, opened_index

if TYPE_CHECKING:
    from graph_retrievers.hits import Hits


def add_commands(subparsers: Any) -> None:
    """Add the commands to what `add_subparsers` of :mod:`argparse` returned; each sets ``run``, a function of the arguments."""
    parser = subparsers.add_parser("search", help="search an index", description="Search a saved index and print the hits.")
    add = parser.add_argument
    add("index", metavar="INDEX", type=index_place, help=INDEX)
    add("question", metavar="QUESTION")
    add("-k", type=int, default=10, help="hits to print (default: 10)")
    add_options(add, "--retriever")
    help_text = "cross-encoder for --retriever re2, gar, fastinsight or path-reranking"
    add_options(add, "--reranker", "--max-length", "--embedding", "--device", reranker=help_text)
    writer = "Python object for hyde, decomposition, ircot and others that use a language model: see make-queries"
    add("--language-model", metavar="MODULE:NAME", help=writer)
    limit = "at most N hits of one document, such as chunks of a page (default: no limit)"
    add("--per-source", type=int, metavar="N", help=limit)
    add("--source-field", metavar="FIELD", help="metadata field that names the document of a node")
    add("--explain", action="store_true", help="print below each hit why it was found, and the steps of the search")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    page = "write the search as one HTML page: the hits, and the search as a graph, step by step"
    form.add_argument("--html", metavar="FILE", help=page)
    add_postgres(parser)
    parser.set_defaults(run=run_search)

    what = "show what an index contains"
    contents = "Show what an index contains, and warn of what may give poor results."
    inspect = subparsers.add_parser("inspect", help=what, description=contents)
    inspect.add_argument("index", metavar="INDEX", type=index_place, help=INDEX)
    add_options(inspect.add_argument, "--embedding")
    inspect.add_argument("--json", action="store_true", help="print JSON")
    add_postgres(inspect)
    inspect.set_defaults(run=run_inspect, device=None)


def run_search(args: argparse.Namespace) -> None:
    """Run the ``search`` command."""
    from graph_retrievers.retrievers.retriever import warn_of_unused_relevance

    options = {"per_source": args.per_source, "source_field": args.source_field}
    limits: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    with opened_index(args, in_memory=bool(args.html)) as index:
        retriever = make_retriever(args, index, **limits)
        warn_of_unused_relevance(retriever)
        if args.html:
            from graph_retrievers.serve import search_page

            Path(args.html).write_text(search_page(retriever, args.question, args.k), encoding="utf-8")
            print(printable(f"{args.html}: the search by {retriever.name}, a page for any browser"))
            return
        hits = retriever.retrieve(args.question, args.k)
    if args.json:
        entries = [hit.to_dict() for hit in hits]
        result = {"query": args.question, "retriever": retriever.name, "k": args.k, "hits": entries, "notes": list(hits.notes)}
        print(json.dumps(result, indent=1))
    else:
        print(printable(hits_table(hits, args.explain)))


def hits_table(hits: Hits, explain: bool) -> str:
    """Return hits as a table: one line each, then the path to the hit, or why it was found, and the beginning of its text."""
    from graph_retrievers.graph.labels import one_line

    width = max(shutil.get_terminal_size((110, 24)).columns, 60)
    found_by = max(len(name) for name in ["found by", *(hit.operator for hit in hits)])
    indent = " " * (17 + found_by)
    lines = [f"{'#':>3}  {'score':>8}  {'found by':<{found_by}}  node"]
    for rank, hit in enumerate(hits, 1):
        # Ids are whole: they are what other commands and programs take.
        has_title, node = hit.title and hit.title != hit.id, " ".join(hit.id.split())
        name = f"{one_line(hit.title, max(width - len(indent) - len(node) - 3, 40))} [{node}]" if has_title else node
        lines.append(f"{rank:>3}  {hit.score:>8.4f}  {hit.operator:<{found_by}}  {name}")
        titles, relations = ([one_line(part, 80) for part in parts] for parts in (hit.path.titles, hit.path.relations))
        hit = replace(hit, path=replace(hit.path, titles=tuple(titles), relations=tuple(relations)), reason="")
        path = [f"path: {hit.path.text}"] if len(hit.path.nodes) > 1 else []
        for line in hit.explain().splitlines()[1:] if explain else path:
            lines.extend(textwrap.wrap(line, width, initial_indent=indent, subsequent_indent=indent + "  "))
        if snippet := one_line(hit.text, max(width - len(indent), 40)):
            lines.append(indent + snippet)
    if not hits:
        lines.append("nothing found")
    if explain:
        lines += ["", str(hits.trace), ""] if hits.trace else []
        lines += dict.fromkeys(hit.reason for hit in hits if hit.reason)
    return "\n".join([*lines, *(f"note: {note}" for note in hits.notes)])


def run_inspect(args: argparse.Namespace) -> None:
    """Run the ``inspect`` command."""
    with opened_index(args) as index:
        description = index.describe()
    print(json.dumps(description.to_dict(), indent=1) if args.json else printable(str(description)))
