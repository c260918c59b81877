"""Meaning graphs kept by the hash of their texts, so that each text is parsed once."""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graph_retrievers.arguments import not_a_class
from graph_retrievers.errors import CorruptIndexError, InvalidArgumentError, shown
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.concept_parser import ConceptParser
from graph_retrievers.signals.meaning import MeaningGraph, MeaningParser

__all__ = ["MeaningCache"]

_logger = logging.getLogger(__name__)

_AT_A_TIME = 4096
_IN_MEMORY = 200_000


@dataclass(frozen=True)
class _Adapted:
    """A parser made of a function from one text to its graph."""

    function: Callable[[str], MeaningGraph]
    name: str

    def parse(self, texts: Sequence[str]) -> list[MeaningGraph]:
        return [self.function(text) for text in texts]


def as_meaning_parser(parser: Any) -> MeaningParser:
    """Return `parser` as a :class:`MeaningParser`; InvalidArgumentError if it is none of the kinds below.

    It is a :class:`MeaningParser`, a callable from one text to its :class:`MeaningGraph`, or None for a new
    :class:`~graph_retrievers.signals.concept_parser.ConceptParser`.
    """
    if parser is None:
        return ConceptParser()
    not_a_class("parser", parser)
    if callable(getattr(parser, "parse", None)) and isinstance(getattr(parser, "name", None), str):
        return parser  # type: ignore[no-any-return]
    if callable(parser):
        return _Adapted(parser, getattr(parser, "__qualname__", type(parser).__name__))
    raise InvalidArgumentError(
        f"{type(parser).__name__} is not a parser; pass an object with name and parse(texts), or a callable from a text to a "
        "MeaningGraph."
    )


class MeaningCache:
    """A parser that parses each text once: graphs are kept by the hash of the parser's name and the text.

    Parameters
    ----------
    parser : MeaningParser, callable or None
        See :func:`as_meaning_parser`.
    file : str or Path, optional
        SQLite file that keeps all graphs. Without one, the last 200,000 are kept in memory.

    Raises
    ------
    CorruptIndexError
        If the file has other contents.
    InvalidArgumentError
        If `parser` is not a parser, the file cannot be used, or a file is given for the graphs of a function, because another
        function with the same name would get them.

    Notes
    -----
    A text on which the parser raises an error has an empty graph, with a warning in the log; it is tried again next time. A
    missing package raises its ImportError. Empty graphs are kept only in memory.

    Examples
    --------
    >>> asked = []
    >>> cache = MeaningCache(lambda text: asked.append(text) or MeaningGraph.of([text], []))
    >>> cache.parse(["loom", "loom", "card"])[1].concepts, asked
    (('loom',), ['loom', 'card'])
    """

    def __init__(self, parser: Any = None, file: str | Path | None = None) -> None:
        self.parser: MeaningParser = parser.parser if isinstance(parser, MeaningCache) else as_meaning_parser(parser)
        self.name = self.parser.name
        self._memory: dict[str, MeaningGraph] = {}
        self._file: Path | None = None
        if file is not None:
            if not isinstance(file, str | Path) or str(file) in ("", ".", ":memory:"):
                raise InvalidArgumentError(f"file is {shown(file)}; expected the path of a file, or None to keep graphs in memory.")
            if isinstance(self.parser, _Adapted):
                raise InvalidArgumentError(
                    f"{self.name} is a function, without a name of its own to keep graphs by; pass an object with name and "
                    "parse(texts), or leave out file=."
                )
            self._file = Path(file)
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InvalidArgumentError(f"{file} cannot be a cache of meaning graphs: {error}") from error
            with self._database() as database:
                database.execute("CREATE TABLE IF NOT EXISTS graphs (key TEXT PRIMARY KEY, graph TEXT NOT NULL)")

    def parse(self, texts: Sequence[str], show_progress: bool = False) -> list[MeaningGraph]:
        """Return the graph of each text."""
        keys = [hashlib.sha256(f"{self.name}\0{text}".encode("utf-8", "surrogatepass")).hexdigest() for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        results = self._cached_graphs(by_key)
        missing = [key for key in by_key if key not in results]
        with progress_bar(total=len(missing), desc="parsing", unit="text", disable=not show_progress) as bar:
            for start in range(0, len(missing), _AT_A_TIME):
                part = missing[start : start + _AT_A_TIME]
                graphs = self._parsed([by_key[key] for key in part])
                fresh = {key: graph for key, graph in zip(part, graphs, strict=True) if graph is not None}
                self._keep(fresh)
                results |= fresh
                bar.update(len(part))
        return [results.get(key, MeaningGraph()) for key in keys]

    def _parsed(self, texts: list[str]) -> list[MeaningGraph | None]:
        try:
            graphs = self.parser.parse(texts)
            graphs = list(graphs) if isinstance(graphs, Iterable) else graphs
        except ImportError:
            raise
        except Exception as error:
            if len(texts) > 1:
                return [graph for text in texts for graph in self._parsed([text])]
            _logger.warning("%s failed on %.80r: %s", self.name, texts[0], error)
            return [None]
        entries: list[MeaningGraph | None] = [*graphs] if isinstance(graphs, list) else []
        results = [graph for graph in entries if isinstance(graph, MeaningGraph)]
        if not len(results) == len(entries) == len(texts):
            raise InvalidArgumentError(f"{self.name}.parse gave {shown(graphs)}; expected {len(texts)} MeaningGraph objects.")
        for graph in results:
            graph.check()
        return entries

    def _cached_graphs(self, texts: Mapping[str, str]) -> dict[str, MeaningGraph]:
        results = {key: self._memory[key] for key in texts if key in self._memory}
        if self._file is None:
            return results
        with self._database() as database:
            rows = ((key, database.execute("SELECT graph FROM graphs WHERE key = ?", (key,)).fetchone()) for key in texts)
            return results | {key: MeaningGraph.of(*json.loads(row[0])) for key, row in rows if row is not None}

    def _keep(self, graphs: Mapping[str, MeaningGraph]) -> None:
        entries = {key: graph for key, graph in graphs.items() if self._file is None or not graph.concepts}
        self._memory.update(entries)
        for oldest in list(self._memory)[: max(0, len(self._memory) - _IN_MEMORY)]:
            self._memory.pop(oldest, None)
        rows = [(key, json.dumps([graph.concepts, graph.relations])) for key, graph in graphs.items() if key not in entries]
        if not rows:
            return
        with self._database() as database:
            database.executemany("INSERT OR REPLACE INTO graphs VALUES (?, ?)", rows)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection for one block, for threads share none; it is committed and closed at its end."""
        try:
            with closing(sqlite3.connect(str(self._file))) as database, database:
                yield database
        except (sqlite3.DatabaseError, ValueError, TypeError, RecursionError) as error:
            # The table of another program lacks our columns; other errors of operation are those of a file in use, or a full disk.
            if isinstance(error, sqlite3.OperationalError) and "no such" not in str(error):
                raise InvalidArgumentError(f"{self._file} cannot be used as a cache of meaning graphs: {error}") from error
            raise CorruptIndexError(
                f"{self._file} is not a cache of meaning graphs ({error}); delete it or pass another file."
            ) from error
