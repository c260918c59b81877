"""Keywords of a retriever class, read from its signature and docstring; the framework packages turn them into fields."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, cleandoc, getdoc, signature
from typing import Any, get_type_hints

from graph_retrievers.arguments import typed
from graph_retrievers.errors import InvalidArgumentError

__all__ = ["Knob", "class_documentation", "class_knobs", "published_settings"]


@dataclass(frozen=True)
class Knob:
    """One keyword of a retriever class; `doc` is its description in the class's docstring, as one line."""

    name: str
    annotation: Any
    default: Any
    doc: str


def class_knobs(kind: type) -> list[Knob]:
    """Return the keywords that a retriever class adds to those of every retriever, in order.

    Parameters
    ----------
    kind : type
        With a constructor ``(index, *, keyword=default, ..., **options)`` and a numpy docstring.

    Examples
    --------
    >>> from graph_retrievers import GAR
    >>> [(knob.name, knob.default) for knob in class_knobs(GAR)]
    [('budget', 100), ('nodes_per_round', 10), ('first', None)]
    """
    constructor = kind.__init__  # type: ignore[misc]
    hints, docs = get_type_hints(constructor), _parameter_docs(kind)
    return [
        Knob(name, hints.get(name, Any), parameter.default, docs.get(name, ""))
        for name, parameter in signature(constructor).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    ]


@typed
def published_settings(kind: type, published: bool = True) -> dict[str, Any]:
    """Return the keywords with which a retriever class is configured as published; none if `published` is False.

    Raises InvalidArgumentError if it has not been published.
    """
    if not published:
        return {}
    settings: Mapping[str, Any] | None = getattr(kind, "PUBLISHED", None)
    if settings is None:
        raise InvalidArgumentError(f"{kind.__name__} has no published settings, as nobody has published it; use it as it is.")
    return dict(settings)


def class_documentation(own: str, kinds: Sequence[type], names: Collection[str]) -> str:
    """Return the docstring of a class that has the keywords of several classes.

    The text of the first of `kinds` stands between the first paragraph and the rest of `own`; the parameters are those of all
    kinds that are in `names`, each with the description of the first kind that has it.
    """
    summary, _, rest = cleandoc(own).partition("\n")
    before, _, after = _sections(kinds[0])
    entries: dict[str, str] = {}
    for kind in kinds:
        for listed, entry in _sections(kind)[1]:
            if set(listed) <= set(names) - entries.keys():
                entries |= dict.fromkeys(listed, entry)
    parameters = "".join(["Parameters\n----------\n", *dict.fromkeys(entries.values())]).strip()
    return "\n\n".join(part for part in (summary, before, parameters, after, rest.strip()) if part) + "\n"


def _sections(kind: type) -> tuple[str, list[tuple[list[str], str]], str]:
    """Return the parts of a numpy docstring: before its parameters, the parameters with names, after them without examples."""
    text = (getdoc(kind) or "").partition("Examples\n--------")[0]
    parts = re.split(r"^Parameters\n-+\n((?:.*\n)*?)(?=\w.*\n-+\n|\Z)", f"{text}\n", maxsplit=1, flags=re.MULTILINE)
    before, section, after = parts if len(parts) == 3 else (*parts, "", "")
    entries = re.findall(r"^\S.*\n(?:(?!\S).*\n)*", section.strip() + "\n", flags=re.MULTILINE)
    named = [([name.strip(" *") for name in entry.splitlines()[0].partition(" : ")[0].split(",")], entry) for entry in entries]
    return before.strip(), named, after.strip()


def _parameter_docs(kind: type) -> dict[str, str]:
    """Return the description of each parameter in a class's docstring; names without a text share the text of the next name."""
    docs: dict[str, str] = {}
    waiting: list[str] = []
    for names, entry in _sections(kind)[1]:
        waiting += names
        text = " ".join(line.strip() for line in entry.splitlines()[1:] if line.strip())
        if text:
            docs |= dict.fromkeys(waiting, text)
            waiting = []
    return docs
