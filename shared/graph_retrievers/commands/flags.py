"""Messages of the package for the command line: flags instead of Python's keywords."""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

# Characters that a terminal obeys or that reverse what follows; titles and texts may hold them.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

# Keyword -> the option that a command must have, and what to write for it; others are written as options are.
_FLAGS = {
    "relevance": ("reranker", "--reranker"),
    "plan": ("use", "--use plan"),
    "system": ("retriever", "--retriever"),
    "checkpoint": ("checkpoint", "--checkpoint NAME=DIR"),
}
# Arguments of connections in Python, and where the command that opens them takes these from.
_CONNECTIONS = {
    "auth=(user, password)": "NEO4J_USERNAME and NEO4J_PASSWORD",
    "QdrantClient(api_key=...)": "QDRANT_API_KEY",
    "GraphSchema(label=...)": "--name",
}
# Positional arguments, which have no flag.
_PLACES = {"index", "question", "source", "out", "dataset", "name"}
_KEYWORD = r"[a-z_]+=(?:True|'[^']*')?"
_ADVICE = re.compile(
    rf"\b(?P<verb>[Pp]ass|build it with|build the index with) (?P<words>{_KEYWORD}(?:(?:, | or ){_KEYWORD})*)"
    r"(?: to the index| or the query's vector)?(?=[\s.,;:)]|$)"
)


def in_flags(message: str, args: argparse.Namespace) -> str:
    """Return a message with the flags of a command instead of keywords, if the command has them.

    >>> args = argparse.Namespace(embedding=None, reranker=None, k=10)
    >>> in_flags("This index has no vectors; build it with embedding= or vectors=.", args)
    'This index has no vectors; build it with --embedding.'
    """
    values = vars(args)

    def flag(keyword: str, value: str) -> str:
        option, text = _FLAGS.get(keyword, (keyword, _option(keyword)))
        value = value.strip("'")
        return "" if option not in values else f"{text} {value}" if value and value != "True" else text

    def advice(match: re.Match[str]) -> str:
        words = re.findall(r"([a-z_]+)=(True|'[^']*')?", match["words"])
        if values.get("no_embedding") and "embedding" in dict(words):
            return "leave out --no-embedding"
        flags = [text for text in (flag(*word) for word in words) if text]
        return f"{match['verb']} {' or '.join(flags)}" if flags else f"{match[0]} from Python"

    message = _ADVICE.sub(advice, message)
    if values.get("to"):
        for keyword, place in _CONNECTIONS.items():
            message = message.replace(keyword, place)
    first = re.match(r"([a-z_]+)(?= (?:must|is) )", message)
    is_flag = first is not None and first[1] in values and first[1] not in _PLACES
    return _option(first[1]) + message[first.end() :] if first is not None and is_flag else message


def printable(text: str) -> str:
    """Return a text for a terminal: control characters except tabs and line feeds are written as escapes."""
    return _OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _option(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


@contextmanager
def log_in_flags(args: argparse.Namespace) -> Iterator[None]:
    """Convert the messages that the package logs by :func:`in_flags`, for every handler."""
    make = logging.getLogRecordFactory()

    def make_record(*values: object, **options: object) -> logging.LogRecord:
        record = make(*values, **options)
        if record.name.split(".")[0] == "graph_retrievers":
            record.msg, record.args = printable(in_flags(record.getMessage(), args)), ()
        return record

    logging.setLogRecordFactory(make_record)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)
