"""Checks of arguments."""

from __future__ import annotations

import os
import pickle
import threading
from abc import ABCMeta
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, UnexpectedArgumentError, shown

_T = TypeVar("_T")

# The longest name, in characters, for which a similar one is looked for.
_LONGEST = 100


def as_path(name: str, value: str | os.PathLike[str]) -> Path:
    """Return a path, ``~`` expanded; raise InvalidArgumentError unless the system can have such a path."""
    try:
        path = Path(value).expanduser()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            path.stat()
        return path
    except (TypeError, ValueError, RuntimeError, OSError) as error:
        raise InvalidArgumentError(f"{name} is {shown(value)}, which cannot be a path ({shown(error)}).") from error


def call_function(what: str, function: Callable[..., _T], *arguments: Any) -> _T:
    """Return the result of a user's function; raise InvalidArgumentError with its exception if it fails."""
    try:
        return function(*arguments)
    except GraphRetrieverError:
        raise
    except Exception as error:
        values = ", ".join(shown(argument, 60) for argument in arguments)
        message = f"{type(error).__name__}: {shown(error) if isinstance(error, RecursionError) else error}"
        raise InvalidArgumentError(f"{what} fails for {values}: {message}. Correct the function.") from error


def choice(name: str, value: _T, choices: Collection[_T]) -> _T:
    """Return `value` if it is one of `choices`; raise InvalidArgumentError otherwise."""
    # Other types than those of the choices may not even compare.
    if not any(type(value) is type(option) and value == option for option in choices):
        raise InvalidArgumentError(f"Unknown {name} {shown(value)}; choose from {', '.join(map(repr, choices))}.")
    return value


def check_keywords(owner: str, keywords: Iterable[str], names: Collection[str]) -> None:
    """Raise UnexpectedArgumentError for the first of the given keywords that `owner` does not take."""
    for name in keywords:
        if name not in names:
            raise UnexpectedArgumentError(
                f"{owner} does not take {shown(name)}; it takes {', '.join(names) or 'nothing'}.{suggestion(name, names)}"
            )


def keywords_of(*functions: Callable[..., Any]) -> set[str]:
    """Return the names of the keyword-only arguments of some functions."""
    parameters = (parameter for function in functions for parameter in signature(function).parameters.values())
    return {parameter.name for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY}


def suggestion(name: str, names: Collection[str]) -> str:
    """Return a sentence that suggests another name; "" if there is none.

    It has some of the words of `name` and no others, is spelled similarly, or has all its words; in this order.

    >>> suggestion("dampin", ["damping", "seeds"]), suggestion("top_k", ["similarity_top_k"]), suggestion("plan", ["seeds"])
    (" Did you mean 'damping'?", " Did you mean 'similarity_top_k'?", '')
    """
    if len(name) > _LONGEST:
        return ""
    words = set(name.split("_"))
    # Those that differ by the fewest words first.
    pairs = sorted(((other, set(other.split("_"))) for other in names), key=lambda pair: len(pair[1] ^ words))
    within, around = ([other for other, other_words in pairs if test(other_words)] for test in (words.__gt__, words.__lt__))
    near = [*within, *get_close_matches(name, names, 1), *around]
    return f" Did you mean {near[0]!r}?" if near else ""


def check_pickle(owner: str, parts: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError if one of the parts of an object, by name, cannot be pickled."""
    for name, part in parts.items():
        try:
            pickle.dumps(part)
        except Exception as error:
            raise InvalidArgumentError(
                f"{owner} cannot be pickled, because its {name}, {shown(part)}, cannot ({type(error).__name__}: {error}). Use a "
                "function or a class that a module defines by name, or set it again after loading."
            ) from error


def check_query(text: Any, position: int) -> None:
    """Raise InvalidArgumentError unless `text`, the query at a position of a batch, is a string; it may be empty."""
    if not isinstance(text, str):
        hint = " Many queries go to retrieve_batch." if isinstance(text, (list, tuple)) else ""
        raise InvalidArgumentError(f"Query {position} is {shown(text)}; a query is a string.{hint}")


def fraction(name: str, value: float) -> float:
    """Return `value` as float if it lies in [0, 1]; raise InvalidArgumentError otherwise."""
    if not is_number(value) or not 0 <= value <= 1:
        raise InvalidArgumentError(f"{name} must lie in [0, 1], got {shown(value)}.")
    return float(value)


def is_number(value: Any) -> bool:
    """Return whether `value` is a real number that a float can be, numpy's included."""
    if not isinstance(value, Real):
        return False
    try:
        float(value)
    except OverflowError:
        # An integer of hundreds of digits.
        return False
    return True


def number(name: str, value: float, *, least: float = 0.0, most: float, above: bool = False) -> float:
    """Return `value` as float if it is a number from `least` to `most`; raise InvalidArgumentError otherwise.

    With `above`, `least` itself is refused.

    >>> number("decay", 0.5, most=1)
    0.5
    """
    # A number of numpy with few bits would compare `most` as infinite.
    if not is_number(value) or not least <= float(value) <= most or (above and float(value) == least):
        lowest = "above" if above else "of at least"
        raise InvalidArgumentError(f"{name} must be a number {lowest} {least:g} and at most {most:g}, got {shown(value)}.")
    return float(value)


def as_list(name: str, values: Iterable[_T], what: str = "values") -> list[_T]:
    """Return `values` as a list; raise InvalidArgumentError for a string, a mapping, and values that are not iterable."""
    try:
        if not isinstance(values, (str, bytes, Mapping)):
            return list(values)
    except TypeError:
        # Arrays without dimensions say that they can be iterated over.
        pass
    raise InvalidArgumentError(f"{name} is {shown(values)}; expected a list of {what}.")


def not_a_class(name: str, value: Any) -> None:
    """Raise InvalidArgumentError if `value` is a class where an object of it is expected."""
    if isinstance(value, type):
        raise InvalidArgumentError(f"{name} is the class {value.__name__}; pass an object of it, such as {value.__name__}(...).")


def positive(name: str, value: int, most: int | None = None, least: int = 1) -> int:
    """Return `value` as int if it is an integer from `least` to `most` (numpy's too); raise InvalidArgumentError otherwise.

    Without `most`, numbers above 2^62 become 2^62.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidArgumentError(f"{name} must be an integer of at least {least}, got {shown(value)}.")
    if most is not None and value > most:
        raise InvalidArgumentError(f"{name} must be at most {most:,}, got {shown(value)}.")
    # Sums of sizes fit into the 64 bits of a tensor, and no corpus is larger.
    return min(int(value), 1 << 62)


def seconds(name: str, value: float) -> float:
    """Return `value` if it is a number of seconds above 0 that the system can wait; raise InvalidArgumentError otherwise.

    Examples
    --------
    >>> seconds("timeout", 0.5)
    0.5
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < threading.TIMEOUT_MAX:
        raise InvalidArgumentError(f"{name} must be a number of seconds above 0, got {shown(value, 100)}.")
    return value


def strings(name: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return `values` as a tuple of strings; raise InvalidArgumentError for a single string and for other values."""
    with suppress(InvalidArgumentError):
        items = tuple(as_list(name, values))
        if all(isinstance(value, str) for value in items):
            return items
    raise InvalidArgumentError(f"{name} must be a list of strings, got {shown(values)}.")


def typed(function: Callable[..., _T]) -> Callable[..., _T]:
    """Return a function that raises InvalidArgumentError for arguments whose types differ from its annotations.

    Only classes and unions of them are checked, not the contents of lists, nor annotations that cannot be resolved: the function
    itself checks these. None is accepted if it is the default.
    """

    @cache
    def signature_and_types() -> tuple[Signature, dict[str, tuple[Any, ...]]]:
        declared = signature(function)
        try:
            hints = get_type_hints(function)
        except (NameError, TypeError):
            # A class that is imported only for type checkers.
            hints = {}
        several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        single = [name for name, parameter in declared.parameters.items() if parameter.kind not in several]
        unions = {name: _parts(hints[name]) for name in single if name in hints}
        return declared, {name: kinds for name, kinds in unions.items() if all(type(kind) in (type, ABCMeta) for kind in kinds)}

    @wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> _T:
        declared, kinds = signature_and_types()
        try:
            values = declared.bind(*arguments, **keywords).arguments
        except TypeError:
            # The call itself says what is missing or unknown.
            values = {}
        for name, value in values.items():
            if value is None and declared.parameters[name].default is None:
                continue
            if name in kinds and not isinstance(value, tuple(_NUMBERS.get(kind, kind) for kind in kinds[name])):
                names = ("None" if kind is type(None) else kind.__name__ for kind in kinds[name])
                problem = InvalidArgumentError(f"{name} is {shown(value)}; expected {' or '.join(names)}.")
                try:
                    function(*arguments, **keywords)
                except GraphRetrieverError:
                    # Its own message may say more.
                    raise
                except Exception as error:
                    raise problem from error
                raise problem
        return function(*arguments, **keywords)

    return checked


def _parts(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or a single type."""
    parts = get_args(hint) if isinstance(hint, UnionType) or get_origin(hint) is Union else (hint,)
    return tuple(Callable if get_origin(part) is Callable else part for part in parts)


# With the numbers of numpy, which are not of these types.
_NUMBERS: dict[Any, type] = {int: Integral, float: Real}
