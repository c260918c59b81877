"""Entity extractors: find the named entities of texts by capitals, with spaCy or with GLiNER."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from graph_retrievers.arguments import called, positive, strings, typed
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.names import capitalized_names, name_words

__all__ = ["EntityExtractor"]

_ARTICLES = frozenset(("the", "a", "an"))
# Words that begin a sentence or a question without being part of the name behind them.
_OPENING = frozenset(
    "a an the in on at by for from with to of as after before during since until while when where which who whom whose what how "
    "why did does do is are was were has have had both between among under over and but or if it he she they his her its their "
    "this that these those there".split()
)


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


class SpacyEntities:
    """The entities of a spaCy pipeline (``pip install 'graph-retrievers[spacy]'``, and a model such as ``en_core_web_sm``).

    Parameters
    ----------
    pipeline : spacy.language.Language
        With a component that sets ``doc.ents``.
    leave_out : sequence of str
        Labels of entities to ignore because they join texts by chance: by default dates, times and numbers of OntoNotes.
    batch_size : int, default 64
        Texts that the pipeline reads at a time.

    Examples
    --------
    >>> class Doc:
    ...     def __init__(self, text):
    ...         self.ents = [type("Span", (), {"text": word, "label_": "PERSON"}) for word in text.split() if word.istitle()]
    >>> class Pipeline:
    ...     def pipe(self, texts, batch_size):
    ...         return map(Doc, texts)
    >>> SpacyEntities(Pipeline()).names(["what Ada wrote"])
    [['Ada']]
    """

    LEFT_OUT = ("DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL")

    @typed
    def __init__(self, pipeline: Any, *, leave_out: Sequence[str] = LEFT_OUT, batch_size: int = 64) -> None:
        if not callable(getattr(pipeline, "pipe", None)):
            raise InvalidArgumentError(f"pipeline is {shown(pipeline)}; expected one of spaCy, as spacy.load('en_core_web_sm').")
        self.pipeline, self.leave_out = pipeline, strings("leave_out", leave_out)
        self.batch_size = positive("batch_size", batch_size)

    def names(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the entities of each text."""
        read = self.pipeline.pipe(list(texts), batch_size=self.batch_size)
        return [_distinct(span.text for span in document.ents if span.label_ not in self.leave_out) for document in read]


class GLiNEREntities:
    """The entities that a GLiNER model finds for your own labels (``pip install 'graph-retrievers[gliner]'``).

    Parameters
    ----------
    model : gliner.GLiNER
        Such as ``GLiNER.from_pretrained("urchade/gliner_small-v2.1")``.
    labels : sequence of str
        Kinds of entities, in plain words.
    threshold : float, default 0.5
        Minimum score of an entity.

    Examples
    --------
    >>> class Model:
    ...     def predict_entities(self, text, labels, threshold):
    ...         return [{"text": word, "label": labels[0], "score": 0.9} for word in text.split() if word.istitle()]
    >>> GLiNEREntities(Model()).names(["what Ada wrote"])
    [['Ada']]
    """

    LABELS = ("person", "organization", "location", "event", "work of art", "product")

    @typed
    def __init__(self, model: Any, *, labels: Sequence[str] = LABELS, threshold: float = 0.5) -> None:
        if not callable(getattr(model, "predict_entities", None)):
            raise InvalidArgumentError(f"model is {shown(model)}; expected one of GLiNER, with the method predict_entities.")
        if not 0 <= threshold <= 1:
            raise InvalidArgumentError(f"threshold must lie in [0, 1], got {shown(threshold)}.")
        self.model, self.labels, self.threshold = model, strings("labels", labels), threshold

    def names(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the entities of each text."""
        labels = list(self.labels)
        return [
            _distinct(found["text"] for found in self.model.predict_entities(text, labels, threshold=self.threshold))
            for text in texts
        ]


class _Called:
    """A function of the user, from a text to its names."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self.function = function

    def names(self, texts: Sequence[str]) -> list[list[str]]:
        return [_distinct(strings("the names of an extractor", called("extractor", self.function, text))) for text in texts]


def as_entity_extractor(extractor: Any = None) -> EntityExtractor:
    """Return an extractor of a given extractor, spaCy pipeline, GLiNER model, or function from a text to names.

    None is :class:`CapitalizedNames`. Raises InvalidArgumentError for anything else.
    """
    if extractor is None:
        return CapitalizedNames()
    if isinstance(extractor, type):
        raise InvalidArgumentError(f"extractor is the class {extractor.__name__}; call it: {extractor.__name__}(...).")
    if isinstance(extractor, EntityExtractor):
        return extractor
    if callable(getattr(extractor, "pipe", None)):
        return SpacyEntities(extractor)
    if callable(getattr(extractor, "predict_entities", None)):
        return GLiNEREntities(extractor)
    if callable(extractor):
        return _Called(extractor)
    raise InvalidArgumentError(
        f"extractor is {shown(extractor)}; expected an object with a method names(texts), a spaCy pipeline, a GLiNER model, or a "
        "function from a text to its names."
    )


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
