"""What a retriever class can be told, read from its signature and docstring: the framework packages make their fields of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import Parameter, getdoc, signature
from typing import Any, get_type_hints

__all__ = ["Knob", "class_knobs"]


@dataclass(frozen=True)
class Knob:
    """One keyword of a retriever class.

    Attributes
    ----------
    name : str
    annotation : type
    default : object
    doc : str
        Its lines of the class's docstring, as one line.
    """

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
    hints, docs = get_type_hints(constructor), _parameter_docs(getdoc(kind) or "")
    return [
        Knob(name, hints.get(name, Any), parameter.default, docs.get(name, ""))
        for name, parameter in signature(constructor).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    ]


def _parameter_docs(text: str) -> dict[str, str]:
    """Return what the section "Parameters" of a numpy docstring says of each name."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    docs: dict[str, str] = {}
    waiting: list[str] = []
    for line in (section[1] if section else "").splitlines():
        if line and not line[0].isspace():
            if waiting and all(docs[name] for name in waiting):
                waiting = []
            # Names without a text of their own share that of the next one.
            names = [name.strip(" *") for name in line.partition(" : ")[0].split(",")]
            docs |= dict.fromkeys(names, "")
            waiting += names
        elif line.strip():
            docs |= {name: f"{docs[name]} {line.strip()}".strip() for name in waiting}
    return docs
