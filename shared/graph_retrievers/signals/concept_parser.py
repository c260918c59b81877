"""A parser of concepts and their relations inside sentences, for English; it needs no model and no download."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from graph_retrievers.errors import InvalidArgumentError, MissingDependencyError, shown
from graph_retrievers.seeding import undrawn
from graph_retrievers.signals.meaning import MeaningGraph

# Texts from which several processes pay off.
_MANY = 2000
_CONTENT = ("NN", "VB", "JJ", "CD", "FW")
_AUXILIARIES = frozenset("be have do will would can could may might shall should must".split())


# TextBlob takes quadratic time for a line. A longer one is read in parts, which end with a sentence or else a word if they can.
_PART = re.compile(r".{1,4000}\Z|.{1,4000}[.!?](?=\s)|.{1,4000}(?=\s)|.{1,4000}", re.DOTALL)


class _Token(NamedTuple):
    word: str
    tag: str


class ConceptParser:
    """Lemmatised concepts of a text, related inside each sentence: a light substitute for an AMR parser.

    Sentences, parts of speech and phrases are those of TextBlob, lemmas those of simplemma; both include their data
    (``pip install 'graph-retrievers[meaning]'``). Nouns, verbs, adjectives and numbers are concepts; a concept that occurs twice
    is one node. Relations follow the order of the text:

    - the head of a phrase to its other words (``mod``);
    - a subject to its verb (``ARG0-of``), a verb to its object (``ARG1``), a subject to what it is (``be``);
    - a phrase to the one joined to it by a preposition or conjunction (``in``, ``of``, ``and``, ...);
    - other neighbouring phrases (``next``).

    Parameters
    ----------
    workers : int, default -1
        Processes for 2,000 texts or more; -1 for one per core, 1 for none.

    Notes
    -----
    It parses about 1,400 paragraphs of 100 words per second on one core. Words of other languages become concepts unchanged.
    Lines of more than 4,000 characters are read in parts.

    Examples
    --------
    >>> graph = ConceptParser().parse(["Ada wrote a program for the engine."])[0]
    >>> graph.labelled_relations()
    (('ada', 'ARG0-of', 'write'), ('write', 'ARG1', 'program'), ('program', 'for', 'engine'))
    """

    # A change of the rules is a change of the name, as graphs are kept by it.
    name = "concepts-1"

    def __init__(self, workers: int = -1) -> None:
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < -1 or workers == 0:
            raise InvalidArgumentError(f"workers must be a number of processes or -1, got {shown(workers)}.")
        self.workers = workers

    def parse(self, texts: Sequence[str]) -> list[MeaningGraph]:
        """Return the graph of each text."""
        _tools()
        if len(texts) < _MANY or self.workers == 1:
            return [_parsed(text) for text in texts]
        from joblib import Parallel, delayed

        parts = [texts[start : start + 500] for start in range(0, len(texts), 500)]
        return [graph for part in Parallel(n_jobs=self.workers)(delayed(_parsed_all)(part) for part in parts) for graph in part]


def _parsed_all(texts: Sequence[str]) -> list[MeaningGraph]:
    return [_parsed(text) for text in texts]


@cache
def _tools() -> tuple[Any, Any]:
    """Return TextBlob's parser and simplemma's function from a word to its lemma."""
    try:
        # The modules that TextBlob imports draw random numbers.
        with undrawn():
            from simplemma import lemmatize
            from textblob.parsers import PatternParser
    except ImportError as error:
        raise MissingDependencyError(
            "The concept parser needs TextBlob and simplemma; run pip install 'graph-retrievers[meaning]'."
        ) from error
    return PatternParser(), lemmatize


def _parsed(text: str) -> MeaningGraph:
    nodes: dict[str, int] = {}
    relations: dict[tuple[int, str, int], None] = {}
    for phrases in _sentences(text):
        subject: int | None = None
        head: int | None = None
        role: str | None = None
        verb_before = False
        for phrase in phrases:
            concepts, link = _concepts(phrase)
            role = link or role
            if not concepts:
                continue
            rows = [nodes.setdefault(concept, len(nodes)) for concept, _ in concepts]
            before, head = head, rows[-1]
            verb = concepts[-1][1].startswith("VB")
            triples = [(head, "mod", row) for row in rows[:-1]]
            if before is not None:
                triples.append(_relation(before, subject, head, role, verb, verb_before))
            relations.update(dict.fromkeys(relation for relation in triples if relation[0] != relation[2]))
            if not verb and (subject is None or (verb_before and role is None)):
                subject = head
            verb_before, role = verb, None
    return MeaningGraph(tuple(nodes), tuple(relations))


def _relation(before: int, subject: int | None, head: int, role: str | None, verb: bool, verb_before: bool) -> tuple[int, str, int]:
    """Return the relation of a phrase to what stands before it in the sentence."""
    if verb:
        return (before if subject is None else subject, "ARG0-of", head)
    return (before, role or ("ARG1" if verb_before else "next"), head)


def _concepts(phrase: Sequence[_Token]) -> tuple[list[tuple[str, str]], str | None]:
    """Return the concepts of a phrase with their tags, and the preposition or form of "be" that joins it to the one before."""
    concepts, role = [], None
    for word, tag in phrase:
        if tag in ("IN", "TO"):
            role = word.lower()
        elif tag == "CC":
            role = "and"
        elif tag.startswith(_CONTENT) and re.search(r"\w", word):
            concept = _lemma(word, tag)
            if not (tag.startswith("VB") and concept in _AUXILIARIES):
                concepts.append((concept, tag))
            elif concept == "be":
                role = "be"
    return concepts, role


def _lemma(word: str, tag: str) -> str:
    word = word.lower().strip("'\"()[].,;:-")
    # Names and numbers are not inflected.
    return word if tag.startswith(("NNP", "CD")) else _tools()[1](word, lang="en").lower()


def _sentences(text: str) -> Iterator[list[list[_Token]]]:
    """Yield each sentence as a list of phrases."""
    for line in (part for whole in text.splitlines() for part in _PART.findall(whole)):
        if not line.strip():
            continue
        for sentence in str(_tools()[0].parse(line)).split("\n"):
            phrases: list[tuple[str, list[_Token]]] = []
            for token in sentence.split(" "):
                # word/tag/chunk/prepositional phrase; a slash inside a word is escaped.
                fields = token.split("/")
                if len(fields) < 4:
                    continue
                word, tag, chunk = fields[0].replace("&slash;", "/"), fields[1], fields[2]
                kind = tag if chunk == "O" else chunk[2:]
                if not phrases or chunk == "O" or chunk.startswith("B-") or phrases[-1][0] != kind:
                    phrases.append((kind, []))
                phrases[-1][1].append(_Token(word, tag))
            yield [tokens for _, tokens in phrases]
