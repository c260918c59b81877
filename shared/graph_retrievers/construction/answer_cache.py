"""Answers of a language model stored on disk, so that a repeated run needs no new calls."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graph_retrievers.errors import CorruptIndexError
from graph_retrievers.signals.language import LanguageModel, complete_many

__all__ = ["AnswerCache"]


class AnswerCache:
    """Answers by the hash of model name, prompt and schema, in an SQLite file, or in memory if `file` is None.

    The file is created if it does not exist; CorruptIndexError is raised if it is not such a file.
    """

    def __init__(self, file: str | Path | None = None) -> None:
        self.file = Path(file) if file is not None else None
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(self.file or ":memory:", isolation_level=None)
        try:
            self._database.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)")
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise CorruptIndexError(f"{self.file} is not a cache of answers ({error}); delete it or pass another file.") from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def ask(self, model: LanguageModel, prompts: Sequence[str], schemas: Sequence[Mapping[str, Any]], **options: Any) -> list[Any]:
        """Return the answer to each prompt (one schema each), or its LanguageModelError.

        Every answer is written as soon as it arrives; errors are not stored. `options` are keywords of
        :func:`~graph_retrievers.signals.language.complete_many`.
        """
        name = str(getattr(model, "name", type(model).__name__))
        keys = [_key(name, prompt, schema) for prompt, schema in zip(prompts, schemas, strict=True)]
        answers: dict[str, Any] = {}
        missing: dict[str, int] = {}
        for place, key in enumerate(keys):
            row = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            if row is None:
                missing.setdefault(key, place)
            else:
                answers[key] = json.loads(row[0])
        places = list(missing.values())
        asked = complete_many(model, [prompts[place] for place in places], [schemas[place] for place in places], **options)
        for position, answer in asked:
            key = keys[places[position]]
            answers[key] = answer
            if not isinstance(answer, Exception):
                self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, json.dumps(answer)))
        return [answers[key] for key in keys]


def _key(name: str, prompt: str, schema: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([name, prompt, schema], sort_keys=True).encode()).hexdigest()
