"""TREC run files and relevance judgements (qrels), the exchange formats of evaluation tools."""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path

import numpy as np

from graph_retrievers.datasets import text_lines
from graph_retrievers.errors import DatasetError, InvalidArgumentError, shown

__all__ = ["write_text"]

_SURROGATE = re.compile("[\ud800-\udfff]")
Run = dict[str, list[tuple[str, float]]]
"""(Node id, score), best first, by query id."""

Qrels = dict[str, dict[str, float]]
"""Grade by node id, by query id."""


def write_run(path: str | Path, run: Mapping[str, Sequence[tuple[str, float]]], *, tag: str = "graph-retrievers") -> None:
    """Write a run, (node id, score) best first by query id: a line ``query Q0 node rank score tag`` for each node.

    Other tools sort by the scores, in single precision, and break ties differently. A score that is not below the previous one is
    therefore lowered to the next smaller number, so that every tool gets this order.
    """
    lines: list[str] = []
    for query, pairs in run.items():
        last = np.float32(np.inf)
        for rank, (node, score) in enumerate(pairs, 1):
            if not isinstance(score, Real) or not (abs(score) < 3e38 or abs(score) == np.inf):
                raise InvalidArgumentError(f"Query {shown(query)} has the score {shown(score)}; expected a number.")
            last = min(np.float32(float(score)), np.nextafter(last, np.float32(-np.inf)))
            lines.append(f"{_word(query)} Q0 {_word(node)} {rank} {last!s} {_word(tag)}\n")
    write_text(path, "".join(lines))


def read_run(path: str | Path) -> Run:
    """Read a run file, sorted by descending score, and by rank for equal scores.

    DatasetError names the line that is not ``query Q0 node rank score tag``, or that lists a node of a query again.
    """
    rankings: dict[str, dict[str, tuple[float, float]]] = {}
    for where, fields in _lines(path, 6):
        query, _, node, rank, score, _ = fields
        nodes = rankings.setdefault(query, {})
        if node in nodes:
            raise DatasetError(f"{where}: query {shown(query)} lists node {shown(node)} twice; a run lists each node once.")
        nodes[node] = (_number(score, "score", where), _number(rank, "rank", where))
    return {
        query: [(node, score) for node, (score, _) in sorted(nodes.items(), key=lambda item: (-item[1][0], item[1][1]))]
        for query, nodes in rankings.items()
    }


def write_qrels(path: str | Path, qrels: Mapping[str, Mapping[str, float] | Collection[str]]) -> None:
    """Write judgements: a line ``query 0 node grade`` for each node.

    `qrels` has, by query id, relevant nodes (written with grade 1), or an integer grade for each judged node.
    """
    lines = []
    for query, judgements in qrels.items():
        grades = judgements if isinstance(judgements, Mapping) else dict.fromkeys(judgements, 1.0)
        for node, grade in grades.items():
            if grade != int(grade):
                raise InvalidArgumentError(
                    f"Query {shown(query)} grades {shown(node)} with {shown(grade)}; grades in qrels are whole numbers."
                )
            lines.append(f"{_word(query)} 0 {_word(node)} {int(grade)}\n")
    write_text(path, "".join(lines))


def read_qrels(path: str | Path) -> Qrels:
    """Read judgements of the form ``query 0 node grade``; DatasetError names a line of another form."""
    qrels: Qrels = {}
    for where, (query, _, node, grade) in _lines(path, 4):
        qrels.setdefault(query, {})[node] = _number(grade, "grade", where)
    return qrels


def _lines(path: str | Path, width: int) -> Iterator[tuple[str, list[str]]]:
    for number, line in text_lines(Path(path)):
        fields = line.split()
        if fields and len(fields) != width:
            raise DatasetError(f"{path}:{number} has {len(fields)} columns; expected {width}.")
        if fields:
            yield f"{path}:{number}", fields


def _number(text: str, name: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value != value:
        raise DatasetError(f"{where}: the {name} is {shown(text)}; expected a number.")
    return value


def _word(text: str) -> str:
    if not isinstance(text, str) or not text or _SURROGATE.search(text) or any(character.isspace() for character in text):
        raise InvalidArgumentError(f"{shown(text)} cannot be written to a TREC file: its ids and tags are words without spaces.")
    return text


def write_text(path: str | Path, text: str) -> None:
    """Write a file, compressed if it ends with ``.gz``, first under another name, so that readers never see a part of it."""
    target, data = Path(path), text.encode("utf-8")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    partial.write_bytes(gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)
    partial.replace(target)
