"""Spans of a question, and the features of a question with one of them left out."""

from __future__ import annotations

import re
import zlib
from functools import cached_property

import torch

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.names import nodes_titled
from graph_retrievers.graph.words import MARKS

Span = tuple[int, int]
"""Words of a question, from the first to before the second."""

_WORDS = re.compile(rf"\w[\w{MARKS}]*(?:['’]\w[\w{MARKS}]*)*|[^\w\s]")
_LONGEST_SPAN, _LONGEST_QUESTION, _PREFIX = 14, 64, 4


class QuestionWords:
    """A question as words, in which titles of a graph's nodes are looked up."""

    def __init__(self, text: str, graph: CorpusGraph) -> None:
        self.text, self.graph = text, graph
        self.words = [match.span() for match in _WORDS.finditer(text)][:_LONGEST_QUESTION]
        self._lower = [text[a:b].casefold() for a, b in self.words]

    @cached_property
    def spans(self) -> list[Span]:
        """All spans of up to 14 words, by their first word and then their length."""
        count = len(self.words)
        return [(a, b) for a in range(count) for b in range(a + 1, min(a + _LONGEST_SPAN, count) + 1)]

    def phrase(self, span: Span) -> str:
        """Return the text of a span."""
        return self.text[self.words[span[0]][0] : self.words[span[1] - 1][1]]

    def find(self, phrase: str) -> Span | None:
        """Return the first span that equals a phrase, ignoring case, or None."""
        text = phrase.strip().casefold()
        return next((span for span in self.spans if self.phrase(span).casefold() == text), None)

    def types(self, span: Span) -> set[str]:
        """Return the types of the nodes that have the span as their title."""
        return {self.graph.types[row] for row in nodes_titled(self.graph, self.phrase(span))}

    def features(self, span: Span, buckets: int) -> list[int]:
        """Return the hashed features of the question with a span left out.

        These are runs of one to three words, the same with words cut to their first four letters, the types of nodes that have
        the span as their title, and its length.
        """
        begin, end = span
        features = []
        for mark, cut in (("w", None), ("p", _PREFIX)):
            words = ["<", *(w[:cut] for w in self._lower[:begin]), "_", *(w[:cut] for w in self._lower[end:]), ">"]
            features += [f"{mark}:{' '.join(words[i : i + n])}" for n in (1, 2, 3) for i in range(len(words) - n + 1)]
        features += [f"title={kind}" for kind in sorted(self.types(span))] or ["no title"]
        features.append(f"length={min(end - begin, 6)}")
        return [zlib.crc32(feature.encode()) % buckets for feature in features]

    def wrong_spans(self, gold: Span, count: int, generator: torch.Generator) -> list[Span]:
        """Return spans other than `gold`: all that are titles of nodes, and up to `count` drawn at random."""
        spans = [span for span in self.spans if span != gold]
        title_spans = [span for span in spans if self.types(span)]
        drawn = [spans[i] for i in torch.randperm(len(spans), generator=generator)[:count].tolist()]
        return list(dict.fromkeys(title_spans + drawn))
