"""The engines to which the command ``index`` writes: PostgreSQL, or a graph database and Qdrant."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from graph_retrievers.errors import InvalidArgumentError, MissingDependencyError

if TYPE_CHECKING:
    from torch import Tensor

    from graph_retrievers.index.graph_index import GraphIndex


_SECONDS = 60
# Files that Qdrant's local mode makes in its folder.
_LOCAL = {".lock", "meta.json", "collection"}
# The places of a password in an address for libpq: after the user, or in an option, whose name may be percent-encoded.
_AFTER_USER, _IN_OPTION = re.compile(r"//[^/@:]*:[^/@]+@"), re.compile(r"[?&]\s*(ssl)?password\s*=")
INDEX = "folder of the index, or PostgreSQL: postgresql://USER@HOST/DATABASE, with --name"
"""Help of the argument that names an index to read."""
# Options that say where PostgreSQL is, and how it is reached.
_PLACE_OPTIONS = ("host", "hostaddr", "service", "sslmode")


def add_engines(parser: argparse.ArgumentParser) -> None:
    """Add the options of :func:`opened_engines`."""
    group = parser.add_argument_group(
        "engines",
        "Write the index to PostgreSQL, or to a graph database and Qdrant, or update it there; an interrupted write continues "
        "where it stopped. Secrets are read from the environment: PGPASSWORD, NEO4J_USERNAME, NEO4J_PASSWORD and QDRANT_API_KEY.",
    )
    add = group.add_argument
    bolt = "or a graph database: bolt://HOST:7687, bolt+s:// with TLS (needs the extra 'neo4j')"
    add("--to", metavar="URI", help=f"PostgreSQL: postgresql://USER@HOST/DATABASE (needs the extra 'postgres'); {bolt}")
    add(
        "--vectors",
        metavar="URL",
        help="Qdrant, for vectors and words of a graph database: its URL, or a folder for its local mode",
    )
    add(
        "--name",
        default="Documents",
        metavar="NAME",
        help="name of the index: label of the nodes, and collection (default: Documents)",
    )
    add("--database", metavar="NAME", help="graph database on the server (default: NEO4J_DATABASE, else the user's default)")
    add("--replace", action="store_true", help="replace an index of other documents or of another model")
    add("--insecure", action="store_true", help="send secrets without TLS to another machine, in a trusted network")


def to_postgres(args: argparse.Namespace) -> bool:
    """Return whether options name PostgreSQL."""
    return args.to is not None and is_postgres(args.to)


@contextmanager
def opened_engines(args: argparse.Namespace) -> Iterator[Callable[..., str] | None]:
    """Open the engines that options name; one that cannot be reached raises at once.

    What is yielded writes an index there and returns a line that describes the changes; None if the options name no engine. For an
    index without signals in PostgreSQL, it also takes a function that returns the vectors of texts, see
    :func:`~graph_retrievers.stores.postgres.writer.write_graph`.
    """
    if to_postgres(args):
        yield from _opened_postgres(args)
        return
    if (args.to is None) != (args.vectors is None):
        raise InvalidArgumentError("--to and --vectors belong together: the graph database, and Qdrant for vectors and words.")
    if args.to is None:
        if args.out is None:
            raise InvalidArgumentError("Where is the index to go? Give OUT, a folder, or --to.")
        yield None
        return
    from graph_retrievers.stores.cypher import CypherDatabase, GraphSchema

    password, user = os.environ.get("NEO4J_PASSWORD"), os.environ.get("NEO4J_USERNAME", "neo4j")
    key, name = os.environ.get("QDRANT_API_KEY"), args.database or os.environ.get("NEO4J_DATABASE")
    _check_address("--to", args.to, "NEO4J_PASSWORD", password, args.insecure)
    if "://" in args.vectors:
        _check_address("--vectors", args.vectors, "QDRANT_API_KEY", key, args.insecure)
    else:
        _check_folder(args.vectors)
    schema = GraphSchema(label=args.name)
    # Neo4j warns of each label and property that a first write has not created yet.
    logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)
    with CypherDatabase(args.to, (user, password) if password else None, name=name, schema=schema) as database:
        with closing(_qdrant(args.vectors, args.name, key)) as client:
            yield lambda index: _write_to_both(args, index, database, client)


def _opened_postgres(args: argparse.Namespace) -> Iterator[Callable[..., str]]:
    for flag, value in (("--vectors", args.vectors), ("--database", args.database)):
        if value is not None:
            raise InvalidArgumentError(
                f"{flag} is not for PostgreSQL, which holds vectors and words too; its url names the database."
            )
    check_postgres("--to", args.to, args.insecure)
    from graph_retrievers.stores.postgres import PostgresDatabase, write_index
    from graph_retrievers.stores.postgres.corpus import corpus_name
    from graph_retrievers.stores.postgres.writer import write_graph

    corpus_name(args.name)
    with PostgresDatabase(args.to) as database:

        def write(index: GraphIndex, vectors: Callable[[list[str]], Tensor] | None = None) -> str:
            options = {"replace": args.replace, "show_progress": True}
            if index.signals:
                report = write_index(index, database, args.name, **options)
            else:
                model = index.embedding_name if vectors is not None else ""
                options |= {"vectors": vectors, "embedding_name": model, "numbers": index.looks_up}
                report = write_graph(index.graph, database, args.name, **options)
            nodes = f"{len(index):,} nodes ({_counts_text(report.nodes)})"
            edges = f"{index.graph.num_edges:,} edges ({_counts_text(report.edges)})"
            vectors_text = f", {report.edge_vectors:,} vectors of edges written" if report.edge_vectors else ""
            return f"{database.where}, {args.name}: {nodes}, {edges}{vectors_text}"

        yield write


def is_postgres(where: str) -> bool:
    """Return whether the place of an index is an address of PostgreSQL."""
    return where.startswith(("postgresql://", "postgres://"))


def check_folder(what: str, where: str, *, instead: str) -> None:
    """Raise InvalidArgumentError if the place of an index is an address, and not a folder; `instead` says what to do."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", where):
        # The rest is not shown, because it may contain a secret.
        raise InvalidArgumentError(f"{what} is an address, {where.partition('://')[0]}://..., and not a folder. {instead}")


def folder(where: str) -> str:
    """Return an argument that names a folder, for :mod:`argparse`; an address is refused before options that go with it are."""
    return _place(where, "Documents are read from files.")


def index_place(where: str) -> str:
    """Return an argument that names a folder or PostgreSQL, for :mod:`argparse`."""
    return where if is_postgres(where) else _place(where, "Give a folder, or postgresql://USER@HOST/DATABASE.")


def _place(where: str, instead: str) -> str:
    try:
        check_folder("This", where, instead=instead)
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return where


def add_postgres(parser: argparse.ArgumentParser) -> None:
    """Add the options of an index in PostgreSQL that is read."""
    group = parser.add_argument_group("PostgreSQL", "The password is read from the environment: PGPASSWORD.")
    group.add_argument("--name", default="Documents", metavar="NAME", help="name of the index (default: Documents)")
    group.add_argument("--insecure", action="store_true", help="ask another machine without TLS, in a trusted network")


def check_postgres(what: str, url: str, insecure: bool) -> None:
    """Raise InvalidArgumentError if an address holds a password, or texts would go to another machine without TLS."""
    # This is checked before the driver is imported, which need not be installed.
    if _AFTER_USER.search(url) or _IN_OPTION.search(unquote(url)):
        raise InvalidArgumentError(f"{what} holds a password; set PGPASSWORD in the environment.")
    from graph_retrievers.stores.postgres.database import import_driver

    driver = import_driver()
    try:
        options = driver.conninfo.conninfo_to_dict(url)
    except driver.Error:
        # Nothing of it is shown, because it may contain a secret.
        raise InvalidArgumentError(
            f"{what} is not an address that PostgreSQL reads; expected postgresql://USER@HOST/DATABASE."
        ) from None
    # libpq takes options that are not given from the environment, and tries several hosts, or sockets.
    host, address, service, mode = (options.get(name) or os.environ.get(f"PG{name.upper()}", "") for name in _PLACE_OPTIONS)
    places = [each for each in f"{host},{address}".split(",") if each and not each.startswith(("/", "@")) and not _is_local(each)]
    if service:
        places.append(f"the host of the service {service!r}")
    if places and not mode and not insecure:
        raise InvalidArgumentError(
            f"{what} would send texts to {places[0]} without TLS if the server allows it. Add ?sslmode=verify-full (or require) to "
            "the url, or --insecure in a network that you trust."
        )


def _qdrant(where: str, collection: str, key: str | None) -> Any:
    try:
        from qdrant_client import QdrantClient
    except ImportError as error:
        raise MissingDependencyError("Qdrant needs the extra 'qdrant': pip install 'graph-retrievers[qdrant]'.") from error

    from graph_retrievers.stores.qdrant_points import reaching

    with reaching(), warnings.catch_warnings():
        # The client warns of a key that is sent without TLS, which `_check_address` refuses.
        warnings.simplefilter("ignore")
        if "://" not in where:
            return QdrantClient(path=where)
        client = QdrantClient(url=where, api_key=key, timeout=_SECONDS, check_compatibility=False)
        client.collection_exists(collection)
        return client


def _check_address(flag: str, url: str, variable: str, secret: str | None, insecure: bool) -> None:
    """Raise InvalidArgumentError if an address contains a secret, or one would be sent to another machine unencrypted."""
    try:
        parts = urlsplit(url)
        host, scheme = parts.hostname or "", parts.scheme
    except ValueError as error:
        raise InvalidArgumentError(f"{flag} is not an address: {error}.") from error
    # The address is not shown, because it may contain a secret.
    if parts.username or parts.password or parts.query:
        raise InvalidArgumentError(f"{flag} holds a user, a password or a key; set {variable} in the environment.")
    if flag == "--vectors" and scheme not in ("http", "https"):
        raise InvalidArgumentError(f"{flag} {url!r}: expected http://HOST:6333, https://..., or a folder.")
    if secret and not insecure and scheme in ("http", "bolt", "neo4j") and not _is_local(host):
        safe = {"http": "https", "bolt": "bolt+s", "neo4j": "neo4j+s"}[scheme]
        raise InvalidArgumentError(
            f"{flag} {url!r} would send {variable} to another machine as it is. Use {safe}://, or --insecure in a network that you "
            "trust."
        )


def _check_folder(where: str) -> None:
    """Raise InvalidArgumentError if a folder for the local mode looks like an address, or contains other files."""
    path = Path(where)
    if re.fullmatch(r"[^/\\]+:\d+/?", where) and not path.exists():
        raise InvalidArgumentError(f"--vectors {where!r} would be a folder; write an address as http://{where}, or https://.")
    if path.exists() and not path.is_dir():
        raise InvalidArgumentError(f"--vectors {where!r} is a file; expected http://HOST:6333, https://..., or a folder.")
    if path.exists() and (names := sorted({entry.name for entry in path.iterdir()} - _LOCAL)):
        raise InvalidArgumentError(
            f"--vectors {where!r} holds {names[0]!r}, which Qdrant did not make; give a folder that is new, empty or Qdrant's own."
        )


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _write_to_both(args: argparse.Namespace, index: GraphIndex, database: Any, client: Any) -> str:
    from graph_retrievers.stores.engines import write_index

    report = write_index(index, database, client, args.name, replace=args.replace, show_progress=True)
    sizes = {"nodes": len(index), "edges": index.graph.num_edges, "points": len(index)}
    parts = [f"{sizes[name]:,} {name} ({_counts_text(changes)})" for name, changes in report._asdict().items()]
    return f"{args.to}, {args.name}: {', '.join(parts[:2])}; {args.vectors}: {parts[2]}"


def _counts_text(changes: Any) -> str:
    counts = [f"{count:,} {name}" for name, count in changes._asdict().items() if count]
    return ", ".join(counts) or "unchanged"
