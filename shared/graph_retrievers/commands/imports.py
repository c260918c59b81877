"""What commands import by name: objects, and systems of your own."""

from __future__ import annotations

import importlib
import sys
from dataclasses import fields, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from graph_retrievers.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graph_retrievers.systems.system import System

_NO_MODULE = "no module {!r} is in the working directory or installed; to name the file my_module.py, write my_module"


def imported(option: str, path: str) -> Any:
    """Return the object that ``module:name``, the value of an option, names; the working directory is searched too."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise InvalidArgumentError(f"{option} {path!r}: expected MODULE:NAME, such as my_models:chat.")
    try:
        return getattr(_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError(f"{option} {path!r} cannot be imported: {error}.") from error


def asking(part: Any, language_model: Any) -> Any:
    """Return a system with a language model where it takes one, and where the systems inside do; anything else as it is."""
    from graph_retrievers.systems.system import System

    if isinstance(part, tuple):
        return tuple(asking(each, language_model) for each in part)
    if language_model is None or not isinstance(part, System):
        return part
    inside = {each.name: asking(getattr(part, each.name), language_model) for each in fields(part)}
    return replace(part, **inside | ({"language_model": language_model} if "language_model" in inside else {}))


def system_from_text(text: str) -> System:
    """Return the system of a text, such as ``ppr(damping=0.7)``.

    ``my_module:my-system(...)`` imports the module that defines a system of your own before the text is read.
    """
    from graph_retrievers.systems.system import read_system

    module, colon, _ = text.partition("(")[0].partition(":")
    if not colon:
        return read_system(text)
    try:
        _module(module)
    except ImportError as error:
        raise InvalidArgumentError(f"{text!r} cannot be read as a system: {error}.") from error
    return read_system(text[len(module) + 1 :])


def _module(name: str) -> ModuleType:
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] and not name.endswith(".py"):
            raise
        raise ImportError(_NO_MODULE.format(name)) from error
    except (TypeError, ValueError) as error:
        raise ImportError(_NO_MODULE.format(name)) from error
    finally:
        sys.path.remove("")
