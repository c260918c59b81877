"""Questions to learn from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graph_retrievers.errors import InvalidArgumentError, shown


@dataclass(frozen=True)
class LabelledQuery:
    """A question and the rows of its relevant nodes, at least one."""

    text: str
    gold: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse a question without a relevant node."""
        if not self.gold:
            raise InvalidArgumentError(f"The question {shown(self.text)} has no relevant node; leave it out.")


def questions_digest(*splits: Sequence[LabelledQuery]) -> str:
    """Return 16 characters that change with the questions of the splits, their order and their relevant nodes."""
    text = ascii([[(query.text, query.gold) for query in split] for split in splits])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def learnt_from(index: Any, *splits: Sequence[LabelledQuery]) -> dict[str, str]:
    """Return what changes with the questions of a training and with their index, for JSON."""
    return {"questions": questions_digest(*splits), "index": index.digest(), "embedding": index.embedding_name}


def parts_of(queries: Sequence[LabelledQuery], size: int = 32) -> list[Sequence[LabelledQuery]]:
    """Return questions in parts of `size`, which are searched together."""
    return [queries[start : start + size] for start in range(0, len(queries), size)]
