"""The models, indexes and retrievers that commands load, and the options that name them."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph_retrievers.commands.engines import check_folder, check_postgres, is_postgres
from graph_retrievers.commands.imports import asking, imported, named_system
from graph_retrievers.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graph_retrievers.datasets import Query
    from graph_retrievers.graph.corpus_graph import CorpusGraph
    from graph_retrievers.index import Corpus, GraphIndex
    from graph_retrievers.retrievers.retriever import Retriever
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


def add_options(add: Callable[..., Any], *names: str, **help: str) -> None:
    """Add options that several commands have, by ``add_argument`` of a parser; `help` has other texts for this command."""
    for name in names:
        said = {"help": help[key]} if (key := name.removeprefix("--")) in help else {}
        add(name, **_OPTIONS[name] | said)


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


def is_index(folder: str) -> bool:
    """Return whether a folder is an index, and not a dataset."""
    from graph_retrievers.datasets import is_dataset

    return Path(folder).is_dir() and not is_dataset(folder)


def load_index(args: argparse.Namespace, folder: str, *, ready: bool = False) -> GraphIndex:
    """Return the index in a folder with its models: those that options name, else the embedding that built it."""
    from graph_retrievers.index.graph_index import GraphIndex

    model = reranker(args)
    embedding = None if getattr(args, "no_embedding", False) else _query_embedding(args, folder)
    return GraphIndex.load(folder, embedding=embedding, relevance=model, device=args.device, ready=ready)


@contextmanager
def opened_index(args: argparse.Namespace) -> Iterator[GraphIndex | RemoteIndex]:
    """Open the index that ``INDEX`` names, a folder or an address of PostgreSQL, with its models."""
    if not is_postgres(args.index):
        check_folder("INDEX", args.index, instead="Give the folder of a saved index, or postgresql://USER@HOST/DATABASE.")
        yield load_index(args, args.index)
        return
    check_postgres("INDEX", args.index, args.insecure)
    from graph_retrievers.stores.postgres import PostgresDatabase, open_index
    from graph_retrievers.stores.postgres.corpus import PostgresCorpus

    with PostgresDatabase(args.index) as database:
        corpus = PostgresCorpus(database, args.name)
        # The one that anybody can load by its name.
        embedding = _loaded_embedding(args, corpus.embedding, corpus.embedding == "all-MiniLM-L6-v2", corpus.dimension > 0)
        yield open_index(database, args.name, embedding=embedding, relevance=reranker(args))


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
        # Not an error: some retrievers do not read vectors.
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


def index_and_queries(
    args: argparse.Namespace, folder: str, embed: Callable[[argparse.Namespace, CorpusGraph], GraphIndex] = embedded_index
) -> tuple[GraphIndex, list[Query]]:
    """Return the index and the questions of a dataset, or an index and the questions of ``--queries``."""
    from graph_retrievers.datasets import read_dataset, read_queries

    if is_index(folder):
        if not args.queries:
            raise InvalidArgumentError(f"{folder} is not a dataset; for an index, pass questions with --queries FILE.")
        index = load_index(args, folder)
        return index, read_queries(args.queries, nodes=index.graph)
    dataset = read_dataset(folder)
    graph = dataset.graph(args.device)
    queries = read_queries(args.queries, nodes=graph) if args.queries else dataset.queries
    return embed(args, graph), queries


def chosen_retriever(args: argparse.Namespace, index: Corpus, **settings: Any) -> Retriever:
    """Return the retriever that ``--retriever`` names, by default the best for such an index."""
    from graph_retrievers.retrievers.retriever import Retriever
    from graph_retrievers.systems.registry import default_system

    system = None if args.retriever is None else named_system(args.retriever)
    if getattr(args, "language_model", None):
        before = system or default_system(index)
        system = asking(before, imported("--language-model", args.language_model))
        if system == before:
            _logger.warning("%s asks no language model; --language-model is not used.", before)
    return Retriever(index, system, name=args.retriever or str(default_system(index)), **settings)
