"""What a node is called where people and language models read it."""

from __future__ import annotations

import re

__all__ = ["is_random", "label"]

# Of letters and digits that say nothing, as LlamaIndex and vector stores of LangChain make ids; something may follow.
_RANDOM = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}(?![0-9a-z])", re.IGNORECASE)
_MARKS = re.compile(r"^[#>*+\-\s]+")
_LENGTH = 48


def is_random(node: str) -> bool:
    """Return whether the id of a node is a UUID, or begins with one."""
    return _RANDOM.match(node) is not None


def label(node: str, title: str, text: str) -> str:
    """Return the title of a node; without one its id, or the first words of its text where the id is a UUID.

    Examples
    --------
    >>> label("a", "Looms", "They weave."), label("a", "", "They weave.")
    ('Looms', 'a')
    >>> label("0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57", "", "## They weave cloth of all kinds, from linen to silk and brocade.")
    'They weave cloth of all kinds, from linen to ...'
    """
    if title.strip() or not is_random(node):
        return title if title.strip() else node
    line = _MARKS.sub("", next((line for line in text.splitlines() if _MARKS.sub("", line)), ""))
    words = " ".join(line.split())
    if len(words) <= _LENGTH:
        return words or node
    return f"{words[: _LENGTH - 3].rpartition(' ')[0] or words[: _LENGTH - 3]} ..."
