"""Names of nodes for people and language models."""

from __future__ import annotations

import re

__all__ = ["label"]

# An id of random letters and digits, as LlamaIndex and vector stores of LangChain make them, or a hash; more may follow.
_RANDOM = re.compile(r"(?:\A|/)(?:[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|[0-9a-f]{33,})(?![0-9a-z])", re.IGNORECASE)
_MARKS = re.compile(r"^[#>*+\-\s]+")
_LENGTH = 48


def is_random(node: str) -> bool:
    """Return whether the id of a node is a UUID or a hash or begins with one, as may parts of the path of a page."""
    return _RANDOM.search(node) is not None


def label(node: str, title: str, text: str) -> str:
    """Return the title of a node; without one its id, or the first words of its text if the id is random.

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
    return one_line(line, _LENGTH) or node


def one_line(text: str, most: int) -> str:
    """Return a text in one line of at most `most` characters, which ends after a word if it is cut.

    Examples
    --------
    >>> one_line("A loom  reads cards.", 20), one_line("A loom reads cards.", 18), one_line("x" * 50, 10)
    ('A loom reads cards.', 'A loom reads ...', 'xxxxxx ...')
    """
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    words, _, part = line[: most - 3].rpartition(" ")
    # Half of the room is not left to a word that is too long.
    return f"{words if len(words) >= len(part) else line[: most - 4]} ..."


def path_title(node: str, title: str, text: str) -> str:
    """Return the title of a node; without one the first words of its text if its id is random, else ""."""
    return title if title or not is_random(node) else label(node, "", text)
