"""Datasets: folders with nodes, edges and queries as JSON lines.

A folder contains ``nodes.jsonl``, ``edges.jsonl`` and, for evaluation, ``queries.jsonl``, each plain or as ``.gz``.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from graph_retrievers.arguments import as_path
from graph_retrievers.errors import DatasetError, InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node

__all__ = ["Dataset", "Query", "is_dataset", "read_dataset", "read_queries", "text_lines"]

# Most characters of a line; by which factor a compressed file may expand, and characters up to which it always may; most levels of
# JSON, which is copied and written again by functions that call themselves for each level.
_LONGEST_LINE, _EXPANSION, _SMALL, _DEEPEST = 50_000_000, 200, 100_000_000, 100
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Query:
    """A question with the ids of the nodes that answer it.

    `split` is ``"train"``, ``"dev"``, ``"test"``, or "", and `type` the kind of question, or "". `entities` are the entities of
    the question, `plan` is a typed path from a start node to the answers, if these are known, and `answer` is the answer as text,
    or "". `extra` has all other fields of the row.
    """

    id: str
    text: str
    gold: tuple[str, ...]
    split: str = ""
    type: str = ""
    entities: tuple[str, ...] = ()
    plan: tuple[Mapping[str, Any], ...] = ()
    answer: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Dataset:
    """Nodes, edges and queries of one folder, and its name; see :func:`read_dataset`.

    `include_titles` says whether signals read titles: False if the titles only repeat the ids.

    >>> nodes = [Node("ada", "A mathematician."), Node("engine", "A machine.")]
    >>> Dataset("tiny", nodes, [Edge("ada", "engine")], [Query("q1", "Who?", ("ada",))], include_titles=True).graph()
    CorpusGraph(nodes=2, edges=1, relations=1, device=cpu)
    """

    name: str
    nodes: list[Node]
    edges: list[Edge]
    queries: list[Query]
    include_titles: bool

    def graph(self, device: str | torch.device | None = None) -> CorpusGraph:
        """Return the corpus graph of the nodes and edges on a device (the CPU by default)."""
        return CorpusGraph.from_nodes(self.nodes, self.edges, include_titles=self.include_titles, device=device)


def is_dataset(folder: str | Path) -> bool:
    """Return whether a folder contains the nodes of a dataset."""
    return any((as_path("folder", folder) / f"nodes.jsonl{end}").is_file() for end in ("", ".gz"))


def read_dataset(folder: str | Path, *, include_titles: bool | None = None) -> Dataset:
    """Read a dataset from a folder.

    Parameters
    ----------
    folder : str or Path
        Nodes have ``id`` and ``text``, and may have ``title`` and ``type``. Edges have ``source`` and ``target``, and may
        have ``relation``, ``weight`` and ``text``. Other fields of both are metadata. Queries: see :func:`read_queries`.
    include_titles : bool, optional
        Whether signals read ``title + ". " + text``. By default they do, unless most titles contain the digits (four or
        more) of their own node's id.

    Raises
    ------
    DatasetError
        If a file is missing or a row cannot be read; the message names the file and the line.
    """
    root = as_path("folder", folder)
    nodes, lines = _read_nodes(_need(root, "nodes"))
    edges = _read_edges(_need(root, "edges"), lines)
    queries_file = _find(root, "queries")
    queries = read_queries(queries_file, nodes=lines) if queries_file is not None else []
    if include_titles is None:
        include_titles = not _titles_are_ids(nodes)
    return Dataset(root.resolve().name, nodes, edges, queries, include_titles)


def read_queries(file: str | Path, *, nodes: Container[str] | None = None) -> list[Query]:
    """Read queries from a file of JSON lines, plain or ``.gz``.

    Rows have ``id``, ``query`` and ``gold`` (a list of node ids, at least one), and may have ``split``, ``type``, ``entities``,
    ``plan`` and ``answer``; other fields are kept as ``extra``. Gold nodes must be among `nodes`, if these are given. DatasetError
    if the file is missing or a row cannot be read; the message names the file and the line.
    """
    queries, lines = [], dict[str, int]()
    for number, where, row in _rows(Path(file)):
        query = Query(
            id=_new_id(row, "query", where, number, lines),
            text=_text(row, "query", where),
            gold=tuple(_items(row, "gold", where, str, needed=True)),
            split=_text(row, "split", where, needed=False),
            type=_text(row, "type", where, needed=False),
            entities=tuple(_items(row, "entities", where, str)),
            plan=tuple(_items(row, "plan", where, dict)),
            answer=_text(row, "answer", where, needed=False),
            extra=row,
        )
        for node in query.gold:
            if nodes is not None and node not in nodes:
                raise DatasetError(f"{where}: gold {node!r} of query {query.id!r} is not a node of this dataset.")
        queries.append(query)
    return queries


def _read_nodes(path: Path) -> tuple[list[Node], dict[str, int]]:
    """Return the nodes, and the line number of each id."""
    nodes, lines = [], dict[str, int]()
    for number, where, row in _rows(path):
        name, text = _new_id(row, "node", where, number, lines), _text(row, "text", where, empty=True)
        title, kind = (_text(row, key, where, needed=False) for key in ("title", "type"))
        nodes.append(Node(name, text, title, kind, row))
    if not nodes:
        raise DatasetError(f"{path} holds no nodes; a dataset needs at least one.")
    return nodes, lines


def _read_edges(path: Path, nodes: Container[str]) -> list[Edge]:
    edges = []
    for _, where, row in _rows(path):
        ends = _text(row, "source", where), _text(row, "target", where)
        for end in ends:
            if end not in nodes:
                raise DatasetError(f"{where}: {end!r} is not a node of this dataset; add the node or drop the edge.")
        relation, text = (_text(row, key, where, needed=False) for key in ("relation", "text"))
        try:
            edges.append(Edge(*ends, relation, row.pop("weight", 1.0), text, row))
        except InvalidArgumentError as error:
            raise DatasetError(f"{where}: {error}") from error
    return edges


def _find(root: Path, name: str) -> Path | None:
    if not root.is_dir():
        raise DatasetError(f"{root} is not a folder; a dataset is a folder of nodes.jsonl, edges.jsonl and queries.jsonl.")
    files = [path for end in ("", ".gz") if (path := root / f"{name}.jsonl{end}").is_file()]
    if len(files) > 1:
        raise DatasetError(f"Both {files[0]} and {files[1]} exist; remove one of them.")
    return files[0] if files else None


def _need(root: Path, name: str) -> Path:
    path = _find(root, name)
    if path is None:
        hint = "; an empty file means that there are none" if name == "edges" else ""
        raise DatasetError(f"{root / name}.jsonl[.gz] is missing{hint}.")
    return path


def _rows(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield (line number, "file:line", object) for each line that is not blank."""
    for number, row in json_lines(path):
        if not isinstance(row, dict):
            raise DatasetError(f"{path}:{number} holds a {type(row).__name__}; expected an object, {{...}}.")
        yield number, f"{path}:{number}", row


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) for each line of a JSON Lines file that is not blank; DatasetError names a line that is wrong."""
    for number, line in text_lines(path, packed=path.suffix == ".gz"):
        if line.strip():
            yield number, json_value(path, number, line)


def json_value(path: Path, number: int, line: str) -> Any:
    """Return the value of a line of a JSON Lines file; DatasetError names a line that is wrong."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}:{number} is not JSON: {error}.") from error
    if line.count("[") + line.count("{") > _DEEPEST and _is_deep(row):
        raise DatasetError(f"{path}:{number} is JSON of more than {_DEEPEST} levels; flatten it.")
    if "\\ud" in line.lower() and _SURROGATE.search(json.dumps(row, ensure_ascii=False)):
        raise DatasetError(f"{path}:{number} holds half of a surrogate pair, which is not a character; repair the text.")
    return row


def text_lines(path: Path, packed: bool | None = None) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of a file in UTF-8, one line in memory at a time; `packed`: by gzip, by default detected from the file.

    Raises DatasetError if it cannot be read, has a line of more than 50 million characters, or expands to more than 200 times its
    size (and 100 million characters), which only happens for files made to exhaust memory.
    """
    number = size = 0
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b" if packed is None else packed
        most = max(_SMALL, _EXPANSION * path.stat().st_size) if packed else math.inf
        open_file: Any = gzip.open if packed else open
        with open_file(path, "rt", encoding="utf-8-sig") as file:
            while line := file.readline(_LONGEST_LINE + 1):
                number, size = number + 1, size + len(line)
                if len(line) > _LONGEST_LINE or size > most:
                    what = (
                        f"has more than {_LONGEST_LINE} characters" if len(line) > _LONGEST_LINE else "is unpacked from too little"
                    )
                    raise DatasetError(f"{path}:{number} {what}; a file like this would fill the memory. Split or repack it.")
                yield number, line
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DatasetError(f"{path} cannot be read{f' beyond line {number}' if number else ''}: {error}.") from error


def _is_deep(value: Any) -> bool:
    """Return whether a JSON value has too many levels."""
    level = [value]
    for _ in range(_DEEPEST):
        lists = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list)))
        level = [item for items in lists for item in items]
    return bool(level)


def _new_id(row: dict[str, Any], kind: str, where: str, number: int, lines: dict[str, int]) -> str:
    """Take the id out of a row and enter its line number in `lines`; DatasetError if it is there already."""
    name = _text(row, "id", where)
    if name in lines:
        raise DatasetError(f"{where}: {kind} id {name!r} is already used in line {lines[name]}; ids must be unique.")
    lines[name] = number
    return name


def _text(row: dict[str, Any], key: str, where: str, *, needed: bool = True, empty: bool = False) -> str:
    """Take a field out of a row as a string."""
    value = row.pop(key, None)
    if value is None and not needed:
        return ""
    if not isinstance(value, str):
        raise DatasetError(f"{where}: {key!r} is {'missing' if value is None else repr(value)}; expected a string.")
    if needed and not empty and not value.strip():
        raise DatasetError(f"{where}: {key!r} is empty.")
    return value


def _items(row: dict[str, Any], key: str, where: str, kind: type, *, needed: bool = False) -> list[Any]:
    """Take a field out of a row as a list of strings or objects."""
    value = row.pop(key, None)
    if value is None and not needed:
        return []
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value) or (needed and not value):
        expected = f"a list of {'strings' if kind is str else 'objects'}{', at least one' if needed else ''}"
        raise DatasetError(f"{where}: {key!r} is {value!r}; expected {expected}.")
    return value


def _titles_are_ids(nodes: Sequence[Node]) -> bool:
    titled = [node for node in nodes if node.title]
    count = sum(any(run in node.title for run in re.findall(r"\d{4,}", node.id)) for node in titled)
    return count * 2 > len(titled)
