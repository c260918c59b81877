"""Sentences of a running text."""

from __future__ import annotations

import re

from graph_retrievers.graph.names import NAME_TITLES

# What may end a sentence, with what closes a quotation after it; lines end sentences too.
_END = re.compile(r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u2019\u201d)\]]*+(?=\s)|[\u3002\uff01\uff1f]+|\n")
_LAST_WORD, _NEXT = re.compile(r"\w+\Z"), re.compile(r"\s*(\S)")
# Characters before a full stop that tell whether it ends an initial or a title.
_LOOK = 6


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, in order, without the white space around them.

    A sentence ends at ``.``, ``!``, ``?`` or an ellipsis before white space, at the full stops of Chinese and Japanese, and at
    the end of a line. A full stop after a single capital, such as an initial, after a title such as "Dr", or before a lower-case
    letter does not end a sentence. Other abbreviations are not recognised.

    >>> sentences("Dr. Ada M. Holm sang. Did she? In Lund, e.g. at school.")
    ['Dr. Ada M. Holm sang.', 'Did she?', 'In Lund, e.g. at school.']
    """
    parts, start = list[str](), 0
    for end in _END.finditer(text):
        if end[0] == ".":
            word, after = _LAST_WORD.search(text[max(start, end.start() - _LOOK) : end.start()]), _NEXT.match(text, end.end())
            short = word is not None and (word[0] in NAME_TITLES or (len(word[0]) == 1 and word[0].isupper()))
            if short or (after is not None and after[1].islower()):
                continue
        parts.append(text[start : end.end()].strip())
        start = end.end()
    return [sentence for sentence in (*parts, text[start:].strip()) if sentence]
