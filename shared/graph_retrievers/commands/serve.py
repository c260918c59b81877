"""The command ``serve``: a page that shows searches of an index."""

from __future__ import annotations

import argparse
import webbrowser

from graph_retrievers.commands.engines import INDEX, add_postgres, index_place
from graph_retrievers.commands.flags import in_flags, printable
from graph_retrievers.commands.listening import listen
from graph_retrievers.commands.models import add_options, index_name, load_index
from graph_retrievers.errors import MissingDependencyError


def add_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to what `add_subparsers` of :mod:`argparse` returned; it sets ``run``, see :func:`run_serve`."""
    parser = subparsers.add_parser(
        "serve",
        help="show searches of an index on a local web page",
        description="Serve a web page that shows searches of a saved index: the hits of several retrievers side by side, the "
        "search as a graph, step by step, texts and neighbours. Only on this machine. Needs the extra 'serve'.",
    )
    add = parser.add_argument
    add("index", metavar="INDEX", type=index_place, help=INDEX)
    add("--port", type=int, default=8800, metavar="PORT", help="port (default: 8800; 0 chooses a free one)")
    add("--host", default="127.0.0.1", metavar="NAME", help="address to listen on (default: 127.0.0.1, only this machine)")
    add("--expose", action="store_true", help="allow a --host that other machines can reach; there is no password")
    add("--open", action="store_true", help="open the page in the browser")
    add("--time-limit", type=float, default=30.0, metavar="SECONDS", help="limit of one search (default: 30)")
    add_options(add, "--reranker", "--max-length", "--embedding", "--device")
    add_postgres(parser)
    parser.set_defaults(run=run_serve)


def run_serve(args: argparse.Namespace) -> None:
    """Serve until the process is stopped."""
    try:
        from uvicorn import Config, Server
    except ImportError as error:
        raise MissingDependencyError("The page needs the extra 'serve': pip install 'graph-retrievers[serve]'.") from error

    from graph_retrievers.serve.app import available_retrievers, search_app

    with listen(args.host, args.port, args.expose) as listening:
        index = load_index(args, args.index, ready=True)
        runs, needs = available_retrievers(index, time_limit=args.time_limit)
        messages = {name: in_flags(text, args) for name, text in needs.items()}
        app = search_app(runs, title=index_name(args, args.index), needs=messages, hosts=[args.host])
        host = f"[{args.host}]" if ":" in args.host else args.host
        url = f"http://{host}:{listening.getsockname()[1]}/"
        print(printable(f"{len(index):,} nodes, {len(runs)} retrievers: {url} (Ctrl-C ends)"), flush=True)
        if args.open:
            webbrowser.open(url)
        config = Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=3)
        Server(config).run(sockets=[listening])
