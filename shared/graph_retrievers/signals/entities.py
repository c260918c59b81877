"""Entity extractors: find the named entities of texts by capitals, with spaCy or with GLiNER."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from graph_retrievers.arguments import as_list, call_function, strings
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.names import capitalized_names, name_words

__all__ = ["EntityExtractor"]

_ARTICLES = frozenset(("the", "a", "an"))
# Words that begin a sentence or a question without being part of the name that follows.
_OPENING = frozenset(
    "a an the in on at by for from with to of as after before during since until while when where which who whom whose what how "
    "why did does do is are was were has have had both between among under over and but or if it he she they his her its their "
    "this that these those there".split()
)


# Texts that a spaCy pipeline reads at a time, and its entities that join texts only by chance.
_TEXTS = 64
_NUMERIC_LABELS = frozenset(("DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"))
# What a GLiNER model looks for, and the least score of an entity.
_LABELS = ("person", "organization", "location", "event", "work of art", "product")
_THRESHOLD = 0.5


@runtime_checkable
class EntityExtractor(Protocol):
    """The interface that the package needs of an extractor.

    Examples
    --------
    >>> isinstance(CapitalizedNames(), EntityExtractor)
    True
    """

    def names(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the names of entities in each text, each once, as the text spells them."""


@dataclass(frozen=True)
class CapitalizedNames:
    """Names recognised by their capitals: runs of capitalised words.

    They are those of :func:`~graph_retrievers.graph.names.capitalized_names`, without words such as "In", "The" or "Did" that
    begin a sentence. Made for English and languages that write names in the same way; all German nouns count as names, and
    scripts without capitals have none.

    >>> CapitalizedNames().names(["In Lund, Ada Holm met Otto Veld and The Looms."])
    [['Lund', 'Ada Holm', 'Otto Veld', 'Looms']]
    """

    def names(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the names in each text."""
        return [_distinct(map(without_opening, capitalized_names(text))) for text in texts]


class _Spacy:
    """The entities of a spaCy pipeline, a component of which sets ``doc.ents``."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline

    def names(self, texts: Sequence[str]) -> list[list[str]]:
        documents = self.pipeline.pipe(list(texts), batch_size=_TEXTS)
        return [_distinct(span.text for span in document.ents if span.label_ not in _NUMERIC_LABELS) for document in documents]


class _GLiNER:
    """The entities that a GLiNER model finds."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def names(self, texts: Sequence[str]) -> list[list[str]]:
        lists = (self.model.predict_entities(text, list(_LABELS), threshold=_THRESHOLD) for text in texts)
        return [_distinct(entity["text"] for entity in entities) for entities in lists]


class _FunctionExtractor:
    """A function of the user, from a text to its names."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self.function = function

    def names(self, texts: Sequence[str]) -> list[list[str]]:
        return [_distinct(strings("the names of an extractor", call_function("extractor", self.function, text))) for text in texts]


def as_entity_extractor(extractor: Any = None, name: str = "extractor") -> EntityExtractor:
    """Return an extractor of a given extractor, spaCy pipeline, GLiNER model, or function from a text to names.

    None is :class:`CapitalizedNames`. Raises InvalidArgumentError for anything else. Of a pipeline such as
    ``spacy.load("en_core_web_sm")``, dates, times and numbers are left out, which join texts only by chance. A model such as
    ``GLiNER.from_pretrained("urchade/gliner_small-v2.1")`` finds persons, organizations, locations, events, works and products
    with a score of at least 0.5. A function chooses others. `name` is that of the argument, for the error.

    >>> as_entity_extractor(lambda text: [word for word in text.split() if word.istitle()]).names(["what Ada wrote"])
    [['Ada']]
    """
    if extractor is None:
        return CapitalizedNames()
    if isinstance(extractor, type):
        raise InvalidArgumentError(f"{name} is the class {extractor.__name__}; call it: {extractor.__name__}(...).")
    if isinstance(extractor, EntityExtractor):
        return extractor
    if callable(getattr(extractor, "pipe", None)):
        return _Spacy(extractor)
    if callable(getattr(extractor, "predict_entities", None)):
        return _GLiNER(extractor)
    if callable(extractor):
        return _FunctionExtractor(extractor)
    raise InvalidArgumentError(
        f"{name} is {shown(extractor)}; expected an object with a method names(texts), a spaCy pipeline, a GLiNER model, or a "
        "function from a text to its names."
    )


def found_names(extractor: EntityExtractor, texts: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the names that an extractor finds in each text; InvalidArgumentError unless they are a list of texts for each."""
    names = [strings("the names of an extractor", own) for own in as_list("the result of extractor.names", extractor.names(texts))]
    if len(names) != len(texts):
        raise InvalidArgumentError(f"extractor.names gives {len(names)} lists for {len(texts)} texts; expected one for each.")
    return names


def entity_key(name: str) -> str:
    """Return what two spellings of one entity have in common: words and marks in lower case, without a leading article."""
    words = name_words(name, fold=True)
    return " ".join(words[1:] if len(words) > 1 and words[0] in _ARTICLES else words)


def without_opening(name: str) -> str:
    """Return a run of capitalised words without leading words that do not belong to a name."""
    words = name.split()
    while len(words) > 1 and words[0].lower() in _OPENING:
        del words[0]
    return " ".join(words)


def _distinct(names: Iterable[str]) -> list[str]:
    """Return names without the white space around and between their words, each once, none that is empty."""
    spaced = (" ".join(name.split()) for name in names)
    return list(dict.fromkeys(name for name in spaced if entity_key(name)))
