"""Questions about linked pairs of nodes, to evaluate on a corpus without labelled queries."""

from __future__ import annotations

import json
import logging
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.datasets import Query
from graph_retrievers.errors import InvalidArgumentError, LanguageModelError
from graph_retrievers.evaluation.run_files import write_text
from graph_retrievers.evaluation.tables import join_names
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.signals.language import complete_many

_logger = logging.getLogger(__name__)

_WORD = re.compile(r"[^\W\d_]{3,}")
_TEXT_LIMIT = 4096
_SCHEMA = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "description": "The question, or an empty string if there is none."},
        "needs_both": {"type": "boolean", "description": "Whether no one could answer it from one of the texts alone."},
    },
    "required": ["question", "needs_both"],
    "additionalProperties": False,
}
_PROMPT = """Here are two texts of one collection; the first refers to the second.

First text:
{first}

Second text:
{second}

Write one question that somebody could ask who has read neither. Its answer is in the second text, and the first text is \
needed to know that the second is meant: name or describe what the first text is about, and do not name the title of the second. \
The question must be understood by itself, without words such as "the text" or "the passage". If the two have nothing to do with \
each other, give an empty question."""


def make_queries(
    graph: CorpusGraph,
    count: int = 100,
    *,
    language_model: Any = None,
    seed: int = 0,
    split: str = "test",
    workers: int = 4,
    show_progress: bool = False,
) -> list[Query]:
    """Return questions that need both nodes of a linked pair, with the pair as their relevant nodes (FastInsight, section 4.2.1).

    They have the type ``"linked-pair"``; there are fewer than `count` if too few pairs give one.

    Parameters
    ----------
    graph : CorpusGraph
    count : int, default 100
        Maximum number of questions.
    language_model : object, optional
        Writes the questions (see :func:`~graph_retrievers.signals.language.as_language_model`), and may reject a pair. Without a
        model, a question is ``What links A to x, y and z?``, where A is the title of the first node (or
        three words of it) and x, y, z are words of the second that the first lacks: frequent in it, rare in the corpus, and in at
        least two texts if there are enough of these. Such questions favour search by words, so prefer a language model.
    seed : int, default 0
        Seed for drawing the pairs.
    split : str, default "test"
        The ``split`` of the questions.
    workers : int, default 4
        Number of concurrent prompts.
    show_progress : bool, default False

    Raises
    ------
    InvalidArgumentError
        If no two nodes with words are linked.
    LanguageModelError
        If the language model rejects every pair, or fails before it wrote a question; later, a warning says how often it failed.

    Examples
    --------
    >>> texts = ["She wrote a program.", "A machine with gears and cards."]
    >>> graph = CorpusGraph(["ada", "engine"], texts, titles=["Ada Lovelace", "Engine"], edges=[("ada", "engine")])
    >>> make_queries(graph, 1)[0].text
    'What links Ada Lovelace to and, cards and gears?'
    """
    positive("count", count)
    pairs = linked_pairs(graph, seed=seed)
    if not pairs:
        raise InvalidArgumentError("No two nodes with words are linked; make-queries needs a graph with edges between texts.")
    if language_model is None:
        questions = _extracted(graph, pairs[:count])
    else:
        questions = _questions_of(graph, pairs, count, language_model, workers, show_progress)
    return [
        Query(f"made{number:05d}", question, (graph.ids[first], graph.ids[second]), split, "linked-pair")
        for number, (question, (first, second)) in enumerate(questions)
    ]


def linked_pairs(graph: CorpusGraph, *, seed: int = 0) -> list[tuple[int, int]]:
    """Return linked pairs (source row, target row) of nodes with words, in random order.

    Each node is the source of at most one pair, so that a node with many edges is not drawn too often.
    """
    has_words = np.array([bool(_WORD.search(text)) for text in graph.texts], dtype=bool)
    rows = np.stack([graph.sources.cpu().numpy(), graph.targets.cpu().numpy()], 1)
    rows = np.unique(rows[(rows[:, 0] != rows[:, 1]) & has_words[rows].all(1)], axis=0)
    draw = random.Random(seed)
    targets: dict[int, list[int]] = {}
    for first, second in rows.tolist():
        targets.setdefault(first, []).append(second)
    order = sorted(targets)
    draw.shuffle(order)
    pairs, visited = [], set[frozenset[int]]()
    for first in order:
        second = draw.choice(targets[first])
        if frozenset((first, second)) not in visited:
            visited.add(frozenset((first, second)))
            pairs.append((first, second))
    return pairs


def write_queries(path: str | Path, queries: Sequence[Query]) -> None:
    """Write queries as JSON lines for :func:`~graph_retrievers.datasets.read_queries`, compressed if `path` ends with ``.gz``."""
    lines = []
    for query in queries:
        row: dict[str, Any] = {"id": query.id, "query": query.text, "gold": list(query.gold)}
        row |= {name: value for name in ("type", "split", "answer") if (value := getattr(query, name))}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


def _questions_of(
    graph: CorpusGraph, pairs: list[tuple[int, int]], count: int, model: Any, workers: int, show_progress: bool
) -> list[tuple[str, tuple[int, int]]]:
    """Return questions of the language model with their pairs; pairs are tried until `count` of them have one."""
    questions: list[tuple[str, tuple[int, int]]] = []
    failures: list[LanguageModelError] = []
    errors: list[LanguageModelError] = []
    start = 0
    while len(questions) < count and start < len(pairs):
        part = pairs[start : start + count - len(questions)]
        start += len(part)
        texts = [[graph.content(row)[:_TEXT_LIMIT] for row in pair] for pair in part]
        prompts = [_PROMPT.format(first=first, second=second) for first, second in texts]
        options: dict[str, Any] = {"workers": workers, "show_progress": show_progress, "description": "writing questions"}
        answers = complete_many(model, prompts, _SCHEMA, **options)
        errors = [answer for answer in answers if isinstance(answer, LanguageModelError)]
        failures += errors
        if len(errors) == len(part):
            break
        for answer, pair in zip(answers, part, strict=True):
            if not isinstance(answer, LanguageModelError) and answer["needs_both"] and answer["question"].strip():
                questions.append((" ".join(answer["question"].split()), pair))
    if not questions:
        none = LanguageModelError(f"The language model wrote a question for none of {start} linked pairs.")
        raise failures[0] if len(errors) == len(part) else none
    if failures:
        message = "The language model failed for %d of %d linked pairs, and %d of %d questions were made. The first error: %s"
        _logger.warning(message, len(failures), start, len(questions), count, failures[0])
    return questions


def _extracted(graph: CorpusGraph, pairs: list[tuple[int, int]]) -> list[tuple[str, tuple[int, int]]]:
    """Return questions made of words of the texts with their pairs."""
    words = [Counter(word.lower() for word in _WORD.findall(graph.content(row))) for row in range(len(graph))]
    texts_with: Counter[str] = Counter(word for counts in words for word in counts)

    def characteristic(row: int, without: set[str]) -> str:
        """Return the three words of the highest TF-IDF, if possible without some words and with words of several texts."""
        pool = [word for word in words[row] if word not in without] or list(words[row])
        common = [word for word in pool if texts_with[word] > 1]
        best = common if len(common) >= 3 else pool
        best.sort(key=lambda word: (-words[row][word] * np.log(len(graph) / texts_with[word]), word))
        return join_names(best[:3])

    questions = []
    for first, second in pairs:
        subject = graph.titles[first] if graph.include_titles and graph.titles[first] else characteristic(first, set())
        title = {word.lower() for word in _WORD.findall(graph.titles[second])}
        questions.append((f"What links {subject} to {characteristic(second, set(words[first]) | title)}?", (first, second)))
    return questions
