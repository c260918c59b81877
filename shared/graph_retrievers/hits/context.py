"""Hits as text for a language model, whole or as much as fits into a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.graph.labels import is_random
from graph_retrievers.graph.node_path import NodePath
from graph_retrievers.graph.tokens import estimate_tokens
from graph_retrievers.hits.hit import Hit
from graph_retrievers.signals.language import LanguageModel, complete_text, optional_language_model

_SUMMARY = (
    "Summarise in a few sentences what the context below adds to its first text for answering the question. Use nothing but the "
    "texts."
)


def context_text(
    chains: Iterable[Hit],
    facts: Iterable[Hit],
    nodes: Sequence[Hit],
    question: str = "",
    language_model: Any = None,
    *,
    max_tokens: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> str:
    """Return hits of three kinds as text; see :meth:`graph_retrievers.hits.Hits.to_context`."""
    model = optional_language_model(language_model)
    unscored, rising = _rising([(hit.path, hit.text) for hit in chains] or _path_texts(hit.path for hit in nodes))
    paths = [_Entry(" ".join(path.split())) for path in (*unscored, *rising)]
    best_first = [*range(len(unscored)), *reversed(range(len(unscored), len(paths)))]
    entries = [_Entry(_entry("", hit.text)) for hit in facts]
    texts = [_Entry(_line(hit), partial(_context_lines, hit, question, model)) for hit in nodes]
    parts = [
        _Part("Paths:", "path", paths, best_first),
        _Part("Facts:", "fact", entries, range(len(entries))),
        _Part("Texts:", "passage", texts, range(len(texts))),
    ]
    if max_tokens is None:
        if count_tokens is not None:
            raise InvalidArgumentError("count_tokens counts what max_tokens limits; give both.")
        return _joint_text(parts)
    return _text_within(parts, positive("max_tokens", max_tokens), _counter(count_tokens or estimate_tokens))


def _context_lines(hit: Hit, question: str, model: LanguageModel | None) -> list[str]:
    neighbors = [_line(near) for near in hit.context.nodes]
    if not neighbors:
        return []
    if model is None:
        return ["  Context:", *("\n".join(f"  {line}" for line in near.split("\n")) for near in neighbors)]
    steps = (NodePath((edge.source, edge.target), (edge.relation,), (True,)) for edge in hit.context.edges if edge.relation)
    links = [f"- {step}" for step in steps]
    text = "\n".join([_line(hit), *neighbors, *links])
    summary = complete_text(model, f"{_SUMMARY}\n\nQuestion: {question}\n\nText and its context:\n{text}")
    return [f"  Context: {' '.join(summary.split())}"]


def _line(hit: Hit | Node) -> str:
    # The text that follows says more than a UUID.
    node = "" if hit.text and is_random(hit.id) else hit.id
    title, kind, node = (" ".join(text.split()) for text in (hit.title, hit.type, node))
    return _entry(" ".join(filter(None, (title or node, kind and f"({kind})"))), hit.text)


def _entry(name: str, text: str) -> str:
    """Return an entry of a list; what begins a line in the text must not look like another entry."""
    body = "\n    ".join(text.splitlines())
    return f"- {name}: {body}" if name and body else f"- {name or body}"


def _path_texts(paths: Iterable[NodePath]) -> list[tuple[NodePath, str]]:
    """Return the paths of more than one node, with their texts, without those that begin a longer one."""
    distinct = {path.nodes: path for path in paths if len(path.nodes) > 1}
    beginnings = {nodes[:n] for nodes in distinct for n in range(2, len(nodes))}
    return [(path, path.text) for nodes, path in distinct.items() if nodes not in beginnings]


def _rising(paths: list[tuple[NodePath, str]]) -> tuple[list[str], list[str]]:
    """Return the texts of paths: of those without a score in order, and of the others by score, of equal ones the first last."""
    pairs = sorted((pair for pair in paths[::-1] if pair[0].score is not None), key=lambda pair: pair[0].score or 0.0)
    return [text for path, text in paths if path.score is None], [text for _, text in pairs]


class _Entry:
    """A path, a fact or a passage of a context: its first lines, and what follows them, which a language model may write."""

    def __init__(self, line: str, more: Callable[[], list[str]] = list) -> None:
        self.line, self._more = line, more

    @cached_property
    def text(self) -> str:
        return "\n".join([self.line, *self._more()])


class _Part(NamedTuple):
    """Entries of a context under one heading, what one of them is called, and the order of their importance."""

    heading: str
    noun: str
    entries: list[_Entry]
    order: Sequence[int]


def _joint_text(parts: Sequence[_Part], places: Collection[tuple[int, int]] | None = None) -> str:
    """Return parts as one text, with the entries at all places, or at the places (part, entry) in `places`."""
    sections = [
        (part.heading, [entry.text for row, entry in enumerate(part.entries) if places is None or (place, row) in places])
        for place, part in enumerate(parts)
    ]
    return "\n\n".join("\n".join([heading, *lines]) for heading, lines in sections if lines)


def _text_within(parts: Sequence[_Part], most: int, count: Callable[[str], int]) -> str:
    """Return parts as one text of at most `most` tokens, with the entries that fit and a line that says what is left out."""
    total = sum(len(part.entries) for part in parts)
    # Nothing follows the last entry.
    places = _fitting(parts, most + count("\n\n"), count)
    if len(places) == total and count(_joint_text(parts)) <= most:
        return _joint_text(parts)
    # The line of a part of them is not longer than that of all.
    places = _fitting(parts, most - count(f"\n\n{_omission_line(parts, [])}"), count)
    while True:
        text = "\n\n".join(filter(None, [_joint_text(parts, places), _omission_line(parts, places)]))
        # The tokens of a text are not always those of its lines.
        if not places or count(text) <= most:
            return text
        places.pop()


def _fitting(parts: Sequence[_Part], room: int, count: Callable[[str], int]) -> list[tuple[int, int]]:
    """Return the places (part, entry) of the entries that fit into `room` tokens, those of the first part first."""
    places = []
    for place, part in enumerate(parts):
        heading_tokens = count(f"{part.heading}\n\n")
        for row in part.order:
            entry = part.entries[row]
            # A language model need not write about what does not fit anyway.
            if heading_tokens + count(f"{entry.line}\n") > room or (cost := heading_tokens + count(f"{entry.text}\n")) > room:
                continue
            places.append((place, row))
            heading_tokens, room = 0, room - cost
    return places


def _omission_line(parts: Sequence[_Part], places: Collection[tuple[int, int]]) -> str:
    """Return the line that says how many entries of each part are left out; "" for none."""
    counts = [(len(part.entries) - sum(at == place for at, _ in places), part.noun) for place, part in enumerate(parts)]
    phrases = [f"{number:,} further {noun}{'s' * (number > 1)}" for number, noun in counts if number]
    return f"{' and '.join(filter(None, [', '.join(phrases[:-1]), phrases[-1]]))} left out." if phrases else ""


def _counter(count_tokens: Callable[[str], int]) -> Callable[[str], int]:
    """Return the function that counts tokens, with a check of what it returns."""
    if not callable(count_tokens):
        raise InvalidArgumentError(f"count_tokens is {shown(count_tokens)}; expected a function from a text to a number of tokens.")

    def count(text: str) -> int:
        number = count_tokens(text)
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidArgumentError(f"count_tokens returned {shown(number)} for a text; expected its number of tokens, an int.")
        return number

    return count
