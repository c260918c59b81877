"""Results of each retriever for each query, stored on disk, so that a stopped evaluation can continue."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graph_retrievers.errors import DatasetError, InvalidArgumentError

__all__ = ["Records", "Returned"]


@dataclass(frozen=True)
class Returned:
    """The result of a retriever for one query: at most k nodes and their scores, best first.

    `found` are all nodes that its operators found, without the cut to k and without backfill (the first 1000). `notes` are the
    notes of its operators.
    """

    ids: tuple[str, ...]
    scores: tuple[float, ...]
    found: tuple[str, ...]
    found_scores: tuple[float, ...]
    notes: tuple[str, ...] = ()


class Records:
    """Results by retriever and query, in a file of JSON lines (`path`), or only in memory (None).

    `header` says on what the results depend (dataset, k, models); a file with another header raises InvalidArgumentError. A line
    that cannot be read raises DatasetError; an incomplete last line is dropped, and its chunk runs again.
    """

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        self.path = path
        self.returned: dict[str, dict[str, Returned]] = {}
        self.costs: dict[str, dict[str, Any]] = {}
        self._described: dict[str, str] = {}
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            self._read(path, header)
        if not path.exists() or not path.stat().st_size:
            self._append({"header": header})

    def _read(self, path: Path, header: dict[str, Any]) -> None:
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            with path.open("rb+") as file:
                file.truncate(whole)
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DatasetError(f"{path}, line {number}, is not JSON ({error}); delete the file to start again.") from error
            try:
                other = record.get("header", header)
                if "header" not in record:
                    self._take(record)
            except (KeyError, TypeError, AttributeError) as error:
                raise DatasetError(f"{path}, line {number}, is not a result; delete the file to start again.") from error
            if other != header:
                there = f"{path} holds another evaluation: {other} instead of {header}"
                raise InvalidArgumentError(f"{there}. Delete it or give another folder.")

    def _take(self, record: dict[str, Any]) -> None:
        if "retriever" in record:
            self._described[record["retriever"]] = record["is"]
        elif "costs" in record:
            self.costs[record["of"]] = record["costs"]
        else:
            # Files of earlier versions have no notes.
            record.setdefault("notes", ())
            kept = Returned(*(tuple(record[name]) for name in ("ids", "scores", "found", "found_scores", "notes")))
            self.returned.setdefault(record["of"], {})[record["query"]] = kept

    def _append(self, *records: dict[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write("".join(json.dumps(record) + "\n" for record in records))

    def describe(self, retriever: str, description: str) -> None:
        """Describe the retriever with a name; InvalidArgumentError if the file has a different description."""
        known = self._described.setdefault(retriever, description)
        if known != description:
            raise InvalidArgumentError(
                f"{self.path} holds results of {retriever!r}, which was {known} and is now {description}. "
                "Delete the file, give another folder, or rename the retriever."
            )
        if retriever not in self.returned:
            self._append({"retriever": retriever, "is": description})
        self.returned.setdefault(retriever, {})

    def add(self, retriever: str, results: dict[str, Returned]) -> None:
        """Store the results of a retriever for some queries."""
        self.returned[retriever].update(results)
        self._append(*({"of": retriever, "query": query, **asdict(result)} for query, result in results.items()))

    def add_costs(self, retriever: str, costs: dict[str, Any]) -> None:
        """Store the costs of a retriever."""
        self.costs[retriever] = costs
        self._append({"of": retriever, "costs": costs})
