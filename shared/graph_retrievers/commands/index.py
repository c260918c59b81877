"""The command ``index``: build an index of documents, or update one."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graph_retrievers.commands.engines import add_engines, check_folder, folder, opened_engines, to_postgres
from graph_retrievers.commands.flags import printable
from graph_retrievers.commands.models import absolute, add_options, split_names
from graph_retrievers.errors import InvalidArgumentError

if TYPE_CHECKING:
    from torch import Tensor

    from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
    from graph_retrievers.index.graph_index import GraphIndex
    from graph_retrievers.signals.embedding import Embedding
    from graph_retrievers.signals.vector_cache import VectorCache


_EDGES = ("links", "structure", "mentions", "numbers", "neighbors")
# The default for a folder; numbers give no edges where few units have one.
_OF_FILES = "links,structure,mentions,numbers"
# Texts that are embedded at a time, if not all at once.
_TEXTS = 1000


def add_commands(subparsers: Any) -> None:
    """Add the command to what `add_subparsers` of :mod:`argparse` returned; it sets ``run``, see :func:`run_index`."""
    what = "Build an index of documents and save it, or update the one in OUT or in the engines; only new texts are embedded."
    parser = subparsers.add_parser("index", help="build or update an index of documents", description=what)
    add = parser.add_argument
    add("source", metavar="DIR_OR_DATASET", type=folder, help="folder of text, Markdown, HTML and other files, or a dataset")
    add("out", metavar="OUT", nargs="?", help="folder to write; optional with --to")
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--embedding", metavar="NAME_OR_DIR", default="minilm", help="embedding model (default: minilm, offline)")
    model.add_argument("--no-embedding", action="store_true", help="no vectors: BM25 only")
    edges = f"comma-separated kinds of edges to add: {', '.join(_EDGES)}, or none; a dataset also keeps its own "
    edges += f"(default: {_OF_FILES} for files, none for a dataset)"
    add("--edges", metavar="KINDS", help=edges)
    tokens = "most tokens of a node: longer sections of files are split (default: 220; minilm reads 256 with the title)"
    add("--tokens", type=int, default=220, metavar="N", help=tokens)
    help_text = "address at which the folder or its repository is published: links to it become links to the files"
    add("--site", metavar="URL", default="", help=help_text)
    add("--strict", action="store_true", help="refuse a folder with a file that cannot be read; by default it is left out")
    add_options(add, "--device")
    add_engines(parser)
    parser.set_defaults(run=run_index)


def run_index(args: argparse.Namespace) -> None:
    """Run the ``index`` command."""
    if args.out is not None:
        check_folder("OUT", args.out, instead="Give an address as --to.")
    # Opened first, because reading and embedding take long.
    with opened_engines(args) as write:
        index, vectors = _built(args)
        if write is not None:
            print(printable(write(index) if vectors is None else write(index, vectors)))


def _built(args: argparse.Namespace) -> tuple[GraphIndex, Callable[[list[str]], Tensor] | None]:
    """Build the index of a folder or dataset, save it if OUT is given, and describe it.

    For PostgreSQL alone, the index has no signals, and the vectors of its texts, if any, are what the function returns.
    """
    from graph_retrievers.construction.edges import needs_vectors
    from graph_retrievers.construction.folder import read_folder
    from graph_retrievers.datasets import is_dataset, read_dataset
    from graph_retrievers.graph.corpus_graph import CorpusGraph
    from graph_retrievers.graph.description import warn_of_no_edges
    from graph_retrievers.index.graph_index import GraphIndex
    from graph_retrievers.index.storage import check_target
    from graph_retrievers.signals.embedding import embed_texts
    from graph_retrievers.signals.sentence_encoder import load_embedding

    start = time.perf_counter()
    # Checked first, because the embedding takes long.
    if args.out is not None:
        check_target(args.out)
    embedding = None if args.no_embedding else load_embedding(absolute(args.embedding), args.device)
    options: dict[str, Any] = {"device": args.device, "embedding": embedding, "show_progress": True}
    files: list[Node] = []
    # A wrong name is refused before the folder is read.
    edge_specs(args.edges or "none")
    if is_dataset(args.source):
        dataset = read_dataset(args.source)
        nodes, options["include_titles"] = dataset.nodes, dataset.include_titles
        options["edges"] = [*dataset.edges, *edge_specs(args.edges or "none", site=args.site)]
    else:
        with _show_log():
            nodes = files = read_folder(args.source, max_tokens=args.tokens, site=args.site, strict=args.strict, show_progress=True)
        options["edges"] = edge_specs(args.edges or _OF_FILES, files, args.site)
    pages = _pages(files) if files else ""
    cache = None if embedding is None else _cache(embedding, len(nodes))
    in_blocks = to_postgres(args) and args.out is None and not needs_vectors(options["edges"])
    in_blocks &= embedding is None or cache is not None
    cache_hits, width, vectors = 0, 0, None
    if in_blocks:
        options |= {"vectors": False, "bm25": False}
    elif embedding is not None:
        contents = CorpusGraph.from_nodes(nodes, include_titles=options.get("include_titles", True)).contents()
        vectors = embed_texts(embedding, contents, True) if cache is None else cache.vectors(contents, True)
        cache_hits, width = 0 if cache is None else cache.hits, vectors.shape[1]
        options["vectors"] = vectors
    with _show_log():
        index = GraphIndex.from_documents(nodes, **options)
        if args.edges is None and not index.graph.has_edges:
            warn_of_no_edges(index.graph)
    # For a large corpus, these take much memory, and are not needed any more.
    del nodes, files, options
    if in_blocks and cache is not None:
        cache_hits, width = _embedded(index.graph, cache)
    if args.out is not None:
        index.save(args.out)
    if pages:
        print(printable(pages))
    vectors_text = f"vectors of {index.embedding_name} ({width}) and " if width else ""
    seconds = time.perf_counter() - start
    counts = zip(index.graph.relations.bincount().tolist(), index.graph.relation_names, strict=True)
    edges = ", ".join(f"{count:,} {relation or 'unnamed'}" for count, relation in counts)
    edges = f" ({edges})" if edges else ""
    again = f"{cache_hits:,} of them embedded before, " if cache_hits else ""
    where = args.out or args.source
    line = f"{where}: {len(index):,} nodes, {again}{index.graph.num_edges:,} edges{edges}, {vectors_text}BM25, in {seconds:.1f} s"
    print(printable(line))
    return index, None if cache is None or not in_blocks else cache.vectors


def _cache(embedding: Embedding, size: int) -> VectorCache | None:
    """Return the cache of the vectors of a number of texts, or None and a note if there can be none."""
    from graph_retrievers.signals.vector_cache import VectorCache

    try:
        return VectorCache(embedding, size=size)
    except InvalidArgumentError as error:
        print(f"note: {error}", file=sys.stderr)
        return None


def _embedded(graph: CorpusGraph, cache: VectorCache) -> tuple[int, int]:
    """Embed the texts of a graph, in blocks; return how many of their vectors were kept before, and the width of these."""
    from graph_retrievers.progress import progress_bar

    cache_hits, width = 0, 0
    with progress_bar(total=len(graph), desc="embedding", unit="text") as bar:
        for start in range(0, len(graph), _TEXTS):
            contents = [graph.content(row) for row in range(start, min(start + _TEXTS, len(graph)))]
            width = cache.vectors(contents).shape[1]
            cache_hits += cache.hits
            bar.update(len(contents))
    return cache_hits, width


def _pages(nodes: Sequence[Node]) -> str:
    """Return a line about what was read from a folder."""
    from graph_retrievers.graph.words import word_count

    pages = len({node.metadata["path"] for node in nodes})
    longest = max(nodes, key=lambda node: word_count(node.text))
    text = f"{pages:,} page{'s' * (pages > 1)} in {len(nodes):,} node{'s' * (len(nodes) > 1)}"
    return f"{text}; the longest has {word_count(longest.text):,} words ({longest.id})"


def edge_specs(names: str, files: Sequence[Node] = (), site: str = "") -> list[Any]:
    """Return the sources of edges with these names; `files` are the nodes of a folder, and `site` is where it is published."""
    from graph_retrievers.construction.edges import DocumentStructure, Links, NearestNeighbors, NumberedReferences, TitleMentions

    kinds = split_names(names)
    for name in kinds:
        if name not in (*_EDGES, "none"):
            raise InvalidArgumentError(f"--edges {name!r}: choose from {', '.join(_EDGES)}, or none.")
    # The texts of HTML files have no tags any more; their links were read before.
    links: list[Any] = [Links(field="links", site=site)] if files else [Links(site=site)]
    structure: list[Any] = [DocumentStructure(parts=not files)]
    if any("contents" in node.metadata for node in files):
        structure.append(Links(field="contents", relation="contains"))
    specs_of = {"links": links, "structure": structure, "mentions": [TitleMentions()], "numbers": [NumberedReferences()]}
    specs_of["neighbors"] = [NearestNeighbors()]
    return [spec for name in kinds if name != "none" for spec in specs_of[name]]


@contextmanager
def _show_log() -> Iterator[None]:
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
