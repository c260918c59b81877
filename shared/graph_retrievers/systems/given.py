"""Keywords and systems that classes of the framework packages are given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from graph_retrievers.arguments import check_keywords, not_a_class
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError, shown
from graph_retrievers.systems.system import System, read_system


def system_or_preset(owner: str, value: Any, preset: System | None) -> Any:
    """Return the system that a class runs: the given one, read from a text or a mapping, or its preset if it is None.

    Raises InvalidArgumentError for a system of another kind than that of the preset, and for a class in place of a system.

    >>> from graph_retrievers import PPR
    >>> system_or_preset("PPRRetriever", "ppr(seeds=2)", PPR()), system_or_preset("PPRRetriever", None, PPR())
    (PPR(seeds=2), PPR())
    """
    not_a_class("system", value)
    system = read_system(value) if isinstance(value, (str, Mapping)) else value
    if system is None or preset is None or isinstance(system, type(preset)):
        return preset if system is None else system
    # A composition may hold a model, whose text may hold a key.
    text = shown(system) if isinstance(system, System) else f"{type(system).__name__}(...)"
    raise InvalidArgumentError(f"{owner} runs {type(preset).__name__}, got {text}; use GraphRetriever for another system.")


def check_options(owner: str, keywords: Iterable[str], parameters: Collection[str], system: Any) -> None:
    """Raise UnexpectedArgumentError for a keyword that `owner` does not take; for a parameter of its system, say where it goes."""
    for name in keywords:
        if name not in parameters and name in getattr(system, "__dataclass_fields__", ()):
            call = f"{owner}(..., system={type(system).__name__}({name}=...))"
            raise UnexpectedArgumentError(f"{shown(name)} is a parameter of the system: {call}.")
    check_keywords(owner, keywords, sorted(parameters))
