"""The command line: ``graph-retrievers index | inspect | search | evaluate | make-queries | fit | mcp | serve ...``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from graph_retrievers.commands.flags import in_flags, log_in_flags, printable
from graph_retrievers.errors import GraphRetrieverError
from graph_retrievers.version import __version__

__all__ = ["main"]


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
            args.run(args)
        return 0
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
    from graph_retrievers.commands import evaluate, fit, index, mcp, search, serve

    parser = argparse.ArgumentParser(prog="graph-retrievers", description="Graph retrievers for RAG and agents.")
    parser.add_argument("--version", action="version", version=f"graph-retrievers {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    index.add_commands(commands)
    search.add_commands(commands)
    what = "print the operators of each retriever"
    taxonomy = commands.add_parser("taxonomy", help=what, description="Print the operators of each retriever, by kind.")
    taxonomy.set_defaults(run=_taxonomy)
    for module in (evaluate, fit, mcp, serve):
        module.add_commands(commands)
    return parser


def _taxonomy(args: argparse.Namespace) -> None:
    from graph_retrievers.commands.taxonomy import print_taxonomy

    print_taxonomy()


if __name__ == "__main__":
    sys.exit(main())
