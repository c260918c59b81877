"""The models, indexes and retrievers that commands load, and the options that name them."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph_retrievers.commands.engines import check_postgres, is_postgres
from graph_retrievers.commands.imports import asking, imported, system_from_text
from graph_retrievers.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graph_retrievers.datasets import Query
    from graph_retrievers.graph.corpus_graph import CorpusGraph
    from graph_retrievers.index import Corpus, GraphIndex
    from graph_retrievers.retrievers.retriever import Retriever
    from graph_retrievers.stores.postgres import PostgresDatabase
    from graph_retrievers.stores.remote import RemoteIndex

__all__ = ["reranker"]

_logger = logging.getLogger(__name__)

_OPTIONS: dict[str, dict[str, Any]] = {
    "--device": {"help": "torch device of the index and the models, such as cuda (default: cpu)"},
    "--embedding": {
        "metavar": "NAME_OR_DIR",
        "help": "embedding model (default: that of the index; for a dataset minilm, from the extra 'offline')",
    },
    "--reranker": {"metavar": "DIR_OR_NAME", "help": "cross-encoder for re2, gar, fastinsight and path-reranking"},
    "--max-length": {
        "metavar": "TOKENS",
        "type": int,
        "default": 160,
        "help": "most tokens of question and passage that the cross-encoder reads (default: 160; 512 for models of long passages)",
    },
    "--retriever": {
        "metavar": "SYSTEM",
        "help": "a system, such as ppr or 'ppr(damping=0.7)', see taxonomy; MODULE:NAME for one of your own (default: the best for "
        "such an index)",
    },
}


def add_options(add: Callable[..., Any], *names: str, **texts: str) -> None:
    """Add options that several commands have, by ``add_argument`` of a parser; `texts` are other help texts for this command."""
    for name in names:
        options = {"help": texts[key]} if (key := name.removeprefix("--")) in texts else {}
        add(name, **_OPTIONS[name] | options)


def split_names(text: str) -> list[str]:
    """Return the names between commas, each once.

    >>> split_names("links, structure,links")
    ['links', 'structure']
    """
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def absolute(name: str) -> str:
    """Return the absolute path of a model folder, valid in any working directory; a name unchanged."""
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def reranker(args: argparse.Namespace) -> Any:
    """Return the cross-encoder that ``--reranker`` names, or None."""
    if not getattr(args, "reranker", None):
        return None
    from graph_retrievers.signals.cross_encoder import CrossEncoder

    precision = getattr(args, "precision", None)
    return CrossEncoder(args.reranker, max_length=args.max_length, device=args.device, dtype=precision)


def is_index(where: str) -> bool:
    """Return whether a folder is an index, and not a dataset; what is in PostgreSQL is one."""
    from graph_retrievers.datasets import is_dataset

    return is_postgres(where) or (Path(where).is_dir() and not is_dataset(where))


def index_name(args: argparse.Namespace, where: str) -> str:
    """Return the name of an index in PostgreSQL, or of a folder."""
    return str(args.name) if is_postgres(where) else Path(where).resolve().name


def load_index(args: argparse.Namespace, where: str, *, ready: bool = False, edge_signals: bool = False) -> GraphIndex:
    """Return the index in a folder or in PostgreSQL, read into memory, with its models.

    These are those that options name, else the embedding that built it. Vectors of edges are read if PostgreSQL has them; with
    `edge_signals` and an embedding, the other signals of edges are built.
    """
    from graph_retrievers.index.graph_index import GraphIndex

    if is_postgres(where):
        from graph_retrievers.stores.postgres import read_index

        with _opened_postgres(args, where) as (database, models):
            built = edge_signals and models["embedding"] is not None
            index = read_index(database, args.name, device=args.device, edge_signals=built, show_progress=True, **models)
        return index.prepare() if ready else index
    model = reranker(args)
    embedding = None if getattr(args, "no_embedding", False) else _query_embedding(args, where)
    return GraphIndex.load(where, embedding=embedding, relevance=model, device=args.device, ready=ready)


@contextmanager
def opened_index(args: argparse.Namespace, *, in_memory: bool = False) -> Iterator[GraphIndex | RemoteIndex]:
    """Open the index that ``INDEX`` names with its models: a folder in memory, and PostgreSQL there unless `in_memory`."""
    if in_memory or not is_postgres(args.index):
        yield load_index(args, args.index)
        return
    with _opened_postgres(args, args.index) as (database, models):
        from graph_retrievers.stores.postgres import open_index

        yield open_index(database, args.name, **models)


@contextmanager
def _opened_postgres(args: argparse.Namespace, url: str) -> Iterator[tuple[PostgresDatabase, dict[str, Any]]]:
    """Open the database that an address names; the models of the index in it come with their keywords."""
    check_postgres("INDEX", url, args.insecure)
    from graph_retrievers.stores.postgres import PostgresCorpus, PostgresDatabase

    with PostgresDatabase(url) as database:
        corpus, embedding = PostgresCorpus(database, args.name), None
        if not getattr(args, "no_embedding", False):
            # This model can be loaded by its name everywhere.
            by_name = corpus.embedding == "all-MiniLM-L6-v2"
            embedding = _loaded_embedding(args, corpus.embedding, by_name, corpus.dimension > 0)
        yield database, {"embedding": embedding, "relevance": reranker(args)}


def _query_embedding(args: argparse.Namespace, folder: str) -> Any:
    """Return the embedding model that ``--embedding`` names, else the one that built the index in a folder, else None."""
    from graph_retrievers.index.settings import saved_embedding
    from graph_retrievers.index.storage import read_settings

    settings = read_settings(folder)
    signals = settings.get("signals")
    # Settings that are not right are refused where the index is loaded.
    has_vectors = isinstance(signals, list) and any(isinstance(each, dict) and each.get("name") == "dense" for each in signals)
    return _loaded_embedding(args, *saved_embedding(settings, folder), has_vectors)


def _loaded_embedding(args: argparse.Namespace, name: str, by_name: bool, has_vectors: bool) -> Any:
    """Return the embedding model that ``--embedding`` names, else that of an index, if it can be loaded by its name, else None."""
    from graph_retrievers.signals.sentence_encoder import load_embedding

    if args.embedding:
        return load_embedding(absolute(args.embedding), args.device)
    if by_name:
        return load_embedding(name, args.device)
    if has_vectors:
        # This is a note and no error, as some retrievers do not read vectors.
        built_with = name or "precomputed vectors"
        sys.stderr.write(f"note: the index was built with {built_with}, which cannot be loaded by name; pass --embedding.\n")
    return None


def embedded_index(args: argparse.Namespace, graph: CorpusGraph, *, edges: bool = False) -> GraphIndex:
    """Return the index of a dataset's graph, with signals of its edges if requested; vectors are kept for later runs."""
    from graph_retrievers.index.graph_index import GraphIndex
    from graph_retrievers.signals.sentence_encoder import load_embedding

    # Loaded first, so that its errors are raised before the corpus is embedded.
    if (model := reranker(args)) is not None:
        model.load()
    no_embedding, cache = getattr(args, "no_embedding", False), not getattr(args, "no_cache", False)
    embedding = None if no_embedding else load_embedding(args.embedding or "minilm", args.device)
    signals = edges and embedding is not None
    options: dict[str, Any] = {"embedding": embedding, "relevance": model, "show_progress": True}
    return GraphIndex.from_graph(graph, edge_signals=signals, cache=cache, **options)


def index_and_queries(args: argparse.Namespace, where: str, *, edges: bool = False) -> tuple[GraphIndex, list[Query]]:
    """Return the index and the questions of a dataset, or an index and the questions of ``--queries``.

    With `edges`, there are signals of edges, unless an index in a folder has none.
    """
    from graph_retrievers.datasets import read_dataset, read_queries

    if is_index(where):
        if not args.queries:
            place = "An index in PostgreSQL" if is_postgres(where) else where
            raise InvalidArgumentError(f"{place} is not a dataset; for an index, pass questions with --queries FILE.")
        index = load_index(args, where, edge_signals=edges)
        return index, read_queries(args.queries, nodes=index.graph)
    dataset = read_dataset(where)
    graph = dataset.graph(args.device)
    queries = read_queries(args.queries, nodes=graph) if args.queries else dataset.queries
    return embedded_index(args, graph, edges=edges), queries


def make_retriever(args: argparse.Namespace, index: Corpus, **settings: Any) -> Retriever:
    """Return the retriever that ``--retriever`` names, by default the best for such an index."""
    from graph_retrievers.retrievers.retriever import Retriever
    from graph_retrievers.systems.registry import default_system

    system = None if args.retriever is None else system_from_text(args.retriever)
    if getattr(args, "language_model", None):
        before = system or default_system(index)
        system = asking(before, imported("--language-model", args.language_model))
        if system == before:
            _logger.warning("%s asks no language model; --language-model is not used.", before)
    return Retriever(index, system, name=args.retriever or str(default_system(index)), **settings)
