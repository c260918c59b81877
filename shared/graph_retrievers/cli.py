"""The command line: ``graph-retrievers index | inspect | search | evaluate | make-queries | fit | tune | mcp | serve ...``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph_retrievers import __version__
from graph_retrievers.commands.flags import in_flags, log_in_flags, printable
from graph_retrievers.commands.models import absolute, query_embedding
from graph_retrievers.errors import (
    GraphRetrieverError,
    InvalidArgumentError,
)

if TYPE_CHECKING:
    from torch import Tensor

    from graph_retrievers.graph.corpus_graph import Node
    from graph_retrievers.hits import Hits
    from graph_retrievers.index import GraphIndex
    from graph_retrievers.signals.embedding import Embedding

__all__ = ["main"]

_EDGES = ("links", "structure", "mentions", "neighbors")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, or 2 for an error, which is one line on stderr.

    Examples
    --------
    >>> main(["taxonomy"])
    retriever    composition                              operators
    vector       O_vs                                     VectorSearch O_vs
    ...
    0
    """
    # Progress bars and messages of the model library would hide the results.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    args = _parser().parse_args(arguments)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with log_in_flags(args):
            return int(args.run(args) or 0)
    except BrokenPipeError:
        # The reader of the output has closed it; without this, Python fails again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (GraphRetrieverError, OSError) as error:
        print(f"graph-retrievers: error: {printable(in_flags(' '.join(str(error).split()), args))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    from graph_retrievers.commands import evaluate, fit, mcp, serve, tune
    from graph_retrievers.commands.engines import add_engines

    parser = argparse.ArgumentParser(prog="graph-retrievers", description="Graph retrievers for RAG and agents.")
    parser.add_argument("--version", action="version", version=f"graph-retrievers {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    what = "Build an index of documents and save it, or update the one in OUT or in engines: only texts that are new are embedded."
    index = commands.add_parser("index", help="build or update an index of documents", description=what)
    index.add_argument("source", metavar="DIR_OR_DATASET", help="folder of .txt, .md and .html files, or a dataset")
    index.add_argument("out", metavar="OUT", nargs="?", help="folder to write; may be left out with --to")
    model = index.add_mutually_exclusive_group()
    model.add_argument("--embedding", metavar="NAME_OR_DIR", default="minilm", help="embedding model (default: minilm, offline)")
    model.add_argument("--no-embedding", action="store_true", help="no vectors: BM25 only")
    edges = f"edges to find: {', '.join(_EDGES)} (with commas between them) or none; a dataset also keeps its own "
    edges += "(default: links,structure,mentions for files, none for a dataset)"
    index.add_argument("--edges", metavar="KINDS", help=edges)
    tokens = "tokens of a node: longer sections of files are cut (default: 220; minilm reads 256 with the title)"
    index.add_argument("--tokens", type=int, default=220, metavar="N", help=tokens)
    published = "address that the folder, or its repository, is published at: links to it lead to its files"
    index.add_argument("--site", metavar="URL", default="", help=published)
    index.add_argument("--device", help="torch device, such as cuda (default: cpu)")
    add_engines(index)
    index.set_defaults(run=_index)

    search = commands.add_parser("search", help="ask an index", description="Ask a saved index and print what it finds.")
    search.add_argument("index", metavar="OUT", help="folder of the index")
    search.add_argument("question", metavar="QUESTION")
    search.add_argument("-k", type=int, default=10, help="hits to print (default: 10)")
    chosen = search.add_mutually_exclusive_group()
    chosen.add_argument("--retriever", metavar="NAME", help="see taxonomy (default: what measured best on such indexes)")
    chosen.add_argument("--tuned", metavar="DIR", help="folder of what the tune command chose")
    published = "configure --retriever as its paper or its published code does"
    search.add_argument("--published", action="store_true", help=published)
    scored = "cross-encoder for re2, gar, fastinsight or path-reranking as --retriever"
    search.add_argument("--reranker", metavar="DIR_OR_NAME", help=scored)
    tokens = "tokens of question and passage that the cross-encoder reads (default: 160)"
    search.add_argument("--max-length", type=int, default=160, metavar="TOKENS", help=tokens)
    search.add_argument("--embedding", metavar="NAME_OR_DIR", help="embedding model (default: the one that built the index)")
    search.add_argument("--device", help="torch device, such as cuda (default: cpu)")
    limit = "at most N hits of one document, such as chunks of a page (default: no limit)"
    search.add_argument("--per-source", type=int, metavar="N", help=limit)
    search.add_argument("--source-field", metavar="FIELD", help="metadata field that says from which document a node is")
    search.add_argument("--explain", action="store_true", help="say below each hit why it is there, and what the search asked")
    form = search.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    page = "write the search as a page to look at, which needs no server: hits, and the search as a graph, step by step"
    form.add_argument("--html", metavar="FILE", help=page)
    search.set_defaults(run=_search)

    what = "say what an index holds"
    inspect = commands.add_parser("inspect", help=what, description="Say what an index holds, and what may disappoint.")
    inspect.add_argument("index", metavar="OUT", help="folder of the index")
    inspect.add_argument("--embedding", metavar="NAME_OR_DIR", help="embedding model (default: the one that built the index)")
    inspect.add_argument("--json", action="store_true", help="print JSON")
    inspect.set_defaults(run=_inspect, device=None)

    operators = "print the operators of each retriever"
    taxonomy = commands.add_parser("taxonomy", help=operators, description="Print the operators of each retriever, by kind.")
    taxonomy.set_defaults(run=_taxonomy)

    evaluate.add_commands(commands)
    fit.add_commands(commands)
    tune.add_commands(commands)
    mcp.add_commands(commands)
    serve.add_commands(commands)
    return parser


def _index(args: argparse.Namespace) -> None:
    from graph_retrievers.commands.engines import opened_engines, write_to_engines

    # Opened first, because reading and embedding take long.
    with opened_engines(args) as engines:
        index = _built(args)
        if engines is not None:
            print(printable(write_to_engines(args, index, engines)))


def _built(args: argparse.Namespace) -> GraphIndex:
    """Build the index of a folder or dataset, save it if OUT is given, and say what it holds."""
    from graph_retrievers.construction.folder import read_folder
    from graph_retrievers.datasets import is_dataset, read_dataset
    from graph_retrievers.graph.corpus_graph import CorpusGraph
    from graph_retrievers.graph.description import tell_no_edges
    from graph_retrievers.index import GraphIndex
    from graph_retrievers.index.storage import check_target
    from graph_retrievers.signals.embedding import load_embedding

    started = time.perf_counter()
    # Checked first, because the embedding takes long.
    if args.out is not None:
        check_target(args.out)
    embedding = None if args.no_embedding else load_embedding(absolute(args.embedding), args.device)
    options: dict[str, Any] = {"device": args.device, "embedding": embedding, "show_progress": True}
    files: list[Node] = []
    # A wrong name is refused before the folder is read.
    _edge_specs(args.edges or "none")
    if is_dataset(args.source):
        dataset = read_dataset(args.source)
        nodes, options["include_titles"] = dataset.nodes, dataset.include_titles
        options["edges"] = [*dataset.edges, *_edge_specs(args.edges or "none", site=args.site)]
    else:
        with _shown_log():
            nodes = files = read_folder(args.source, max_tokens=args.tokens, site=args.site, show_progress=True)
        options["edges"] = _edge_specs(args.edges or "links,structure,mentions", files, args.site)
    known, vectors = 0, None
    if embedding is not None:
        contents = CorpusGraph.from_nodes(nodes, include_titles=options.get("include_titles", True)).contents()
        vectors, known = _vectors(contents, embedding)
    with _shown_log():
        index = GraphIndex.from_documents(nodes, vectors=vectors, **options)
        if args.edges is None and not index.graph.has_edges:
            tell_no_edges(index.graph)
    if args.out is not None:
        index.save(args.out)
    if files:
        print(printable(_pages(files)))
    named = f"vectors of {index.embedding_name} ({index.dense.dimension}) and " if index.has_dense else ""
    seconds = time.perf_counter() - started
    counts = Counter(edge.relation or "unnamed" for edge in index.graph.edges())
    edges = f" ({', '.join(f'{count:,} {relation}' for relation, count in counts.items())})" if counts else ""
    again = f"{known:,} of them embedded before, " if known else ""
    where = args.out or args.source
    said = f"{where}: {len(index):,} nodes, {again}{index.graph.num_edges:,} edges{edges}, {named}BM25, in {seconds:.1f} s"
    print(printable(said))
    return index


def _vectors(contents: list[str], embedding: Embedding) -> tuple[Tensor, int]:
    """Return the vectors of texts, and how many of them were kept by an earlier run, finished or not."""
    from graph_retrievers.signals.embedding import embed_texts
    from graph_retrievers.signals.vector_cache import VectorCache

    try:
        cache = VectorCache(embedding)
    except InvalidArgumentError as error:
        print(f"note: {error}", file=sys.stderr)
        return embed_texts(embedding, contents, show_progress=True), 0
    return cache.vectors(contents, show_progress=True), cache.found


def _pages(nodes: Sequence[Node]) -> str:
    """Return a line about what was read from a folder."""
    pages = len({node.metadata["path"] for node in nodes})
    longest = max(nodes, key=lambda node: len(node.text.split()))
    return f"{pages:,} pages in {len(nodes):,} nodes; the longest has {len(longest.text.split()):,} words ({longest.id})"


def _edge_specs(names: str, files: Sequence[Node] = (), site: str = "") -> list[Any]:
    """Return the sources of edges of these names; `files` are the nodes of a folder, and `site` is where it is published."""
    from graph_retrievers.construction.edges import DocumentStructure, Links, NearestNeighbors, TitleMentions

    chosen = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for name in chosen:
        if name not in (*_EDGES, "none"):
            raise InvalidArgumentError(f"--edges {name!r}: choose from {', '.join(_EDGES)}, or none.")
    # The texts of HTML files have no tags any more; their links were read before.
    links: list[Any] = [Links(field="links", site=site)] if files else [Links(site=site)]
    structure: list[Any] = [DocumentStructure(parts=not files)]
    if any("contents" in node.metadata for node in files):
        structure.append(Links(field="contents", relation="contains"))
    made = {"links": links, "structure": structure, "mentions": [TitleMentions()], "neighbors": [NearestNeighbors()]}
    return [spec for name in chosen if name != "none" for spec in made[name]]


@contextmanager
def _shown_log() -> Iterator[None]:
    """Show the log of the package, such as how many edges were found, on stderr."""
    logger = logging.getLogger("graph_retrievers")
    handler, level = logging.StreamHandler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _search(args: argparse.Namespace) -> None:
    from graph_retrievers.index import GraphIndex
    from graph_retrievers.retrievers.retriever import tell_unused_relevance
    from graph_retrievers.systems.registry import build_retriever
    from graph_retrievers.systems.tuned import load_retriever

    if args.published and not args.retriever:
        raise InvalidArgumentError("--published says how a retriever is configured; name one with --retriever NAME.")
    reranker = None
    if args.reranker is not None:
        from graph_retrievers.signals.cross_encoder import CrossEncoder

        reranker = CrossEncoder(args.reranker, max_length=args.max_length, device=args.device)
    index = GraphIndex.load(args.index, embedding=query_embedding(args, args.index), relevance=reranker, device=args.device)
    given = {"per_source": args.per_source, "source_field": args.source_field}
    limits: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if args.tuned:
        retriever = load_retriever(index, args.tuned, **limits)
    else:
        retriever = build_retriever(args.retriever, index, published=args.published, **limits)
    tell_unused_relevance(retriever)
    if args.html:
        from graph_retrievers.serve import search_page

        Path(args.html).write_text(search_page(retriever, args.question, args.k), encoding="utf-8")
        print(printable(f"{args.html}: the search by {retriever.name}, a page for any browser"))
        return
    hits = retriever.retrieve(args.question, args.k)
    if args.json:
        listed = [hit.to_dict() for hit in hits]
        found = {"query": args.question, "retriever": retriever.name, "k": args.k, "hits": listed, "notes": list(hits.notes)}
        print(json.dumps(found, indent=1))
    else:
        print(printable(_table(hits, args.explain)))


def _table(hits: Hits, explain: bool) -> str:
    """Return hits as a table: one line each, below it the path to the hit, or why it is there, and the beginning of its text."""
    width = max(shutil.get_terminal_size((110, 24)).columns, 60)
    found_by = max(len(name) for name in ["found by", *(hit.operator for hit in hits)])
    indent = " " * (17 + found_by)
    lines = [f"{'#':>3}  {'score':>8}  {'found by':<{found_by}}  node"]
    for rank, hit in enumerate(hits, 1):
        name = " ".join((f"{hit.title} [{hit.id}]" if hit.title and hit.title != hit.id else hit.id).split())
        lines.append(f"{rank:>3}  {hit.score:>8.4f}  {hit.operator:<{found_by}}  {name}")
        path = [f"path: {hit.path.text}"] if len(hit.path.nodes) > 1 else []
        for line in replace(hit, reason="").explain().splitlines()[1:] if explain else path:
            lines.extend(textwrap.wrap(line, width, initial_indent=indent, subsequent_indent=indent + "  "))
        if snippet := textwrap.shorten(hit.text, max(width - len(indent), 40), placeholder=" ..."):
            lines.append(indent + snippet)
    if not hits:
        lines.append("nothing found")
    if explain:
        lines += ["", str(hits.trace), ""] if hits.trace else []
        lines += dict.fromkeys(hit.reason for hit in hits if hit.reason)
    return "\n".join([*lines, *(f"note: {note}" for note in hits.notes)])


def _inspect(args: argparse.Namespace) -> None:
    from graph_retrievers.index import GraphIndex

    description = GraphIndex.load(args.index, embedding=query_embedding(args, args.index)).describe()
    print(json.dumps(description.to_dict(), indent=1) if args.json else printable(str(description)))


def _taxonomy(args: argparse.Namespace) -> None:
    from graph_retrievers.commands.taxonomy import print_taxonomy

    print_taxonomy(args)


if __name__ == "__main__":
    sys.exit(main())
