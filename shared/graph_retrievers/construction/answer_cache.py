"""Answers of a language model kept on disk, so that a repeated run asks nothing twice."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from graph_retrievers.errors import CorruptIndexError
from graph_retrievers.signals.language import LanguageModel, complete_many

__all__ = ["AnswerCache"]


class AnswerCache:
    """Answers by the hash of the model's name, the prompt and the schema, in one SQLite file.

    Parameters
    ----------
    file : str or Path, optional
        Created if absent; by default answers last as long as the object.

    Raises
    ------
    CorruptIndexError
        If the file is there and is no such cache.
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
            raise CorruptIndexError(f"{self.file} is no cache of answers ({error}); delete it or name another file.") from error

    def __enter__(self) -> AnswerCache:
        """Return the cache."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the file."""
        self._database.close()

    def ask(
        self,
        model: LanguageModel,
        prompts: Sequence[str],
        schemas: Sequence[Mapping[str, Any]],
        *,
        attempts: int,
        workers: int,
        show_progress: bool,
        description: str,
    ) -> list[Any]:
        """Return the answer to each prompt, or the LanguageModelError it ended in.

        Every answer is written as it comes, so that a run that is broken off loses at most those under way; errors
        are not kept. The arguments are those of :func:`~graph_retrievers.signals.language.complete_many`, with one
        schema a prompt.
        """
        name = str(getattr(model, "name", type(model).__name__))
        keys = [_key(name, prompt, schema) for prompt, schema in zip(prompts, schemas, strict=True)]
        answers: dict[str, Any] = {}
        for key in dict.fromkeys(keys):
            row = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            if row is not None:
                answers[key] = json.loads(row[0])
        missing = {key: place for place, key in reversed(list(enumerate(keys))) if key not in answers}
        places = sorted(missing.values())
        for position, answer in complete_many(
            model,
            [prompts[p] for p in places],
            [schemas[p] for p in places],
            attempts=attempts,
            workers=workers,
            show_progress=show_progress,
            description=description,
        ):
            key = keys[places[position]]
            answers[key] = answer
            if not isinstance(answer, Exception):
                self._database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, json.dumps(answer)))
        return [answers[key] for key in keys]


def _key(name: str, prompt: str, schema: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([name, prompt, schema], sort_keys=True).encode()).hexdigest()
