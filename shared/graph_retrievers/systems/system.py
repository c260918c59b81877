"""System: a retrieval system as a value, such as ``PPR(damping=0.7)``."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache, cached_property, wraps
from inspect import signature
from math import isinf
from numbers import Integral, Real
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from graph_retrievers.arguments import check_keywords, fraction, positive, suggestion, typed
from graph_retrievers.cache import Cache
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.search.batch import DEFAULT_K
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.language import optional_language_model
from graph_retrievers.systems.traits import search_finds_more
from graph_retrievers.systems.untrained import Untrained

__all__ = ["Count", "Fraction", "System", "every_system", "read_system"]

Count = Annotated[int, positive]
"""Type of a field that is an integer of at least 1."""
Fraction = Annotated[float, fraction]
"""Type of a field that is a number in [0, 1]."""

_Part = TypeVar("_Part", bound=Operator)
# More than any number has that Python shows.
_DIGITS = 10_000

SYSTEMS: dict[str, type[System]] = {}
"""Every system by its short name, in the order in which they were defined."""


@dataclass(frozen=True, kw_only=True, repr=False)
class System:
    """A retrieval system: its parameters, and the composition of operators that they give on an index.

    A system is a frozen dataclass with keyword-only fields, whose class variable `name` is its short name. It needs no index to
    exist; :class:`~graph_retrievers.retrievers.retriever.Retriever` runs it on one. Equal parameters are equal systems, and
    ``dataclasses.replace`` changes one of them. For a field of the type ``Annotated[int, check]``, ``check(name, value)`` raises an
    error if the value is wrong; an algorithm reads what it returns, unless that is None.

    An algorithm that belongs to one system is its method :meth:`algorithm`, written as the search of an
    :class:`~graph_retrievers.core.operator.Operator`, with the `kind` of the operator that :meth:`operator` returns.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> @dataclass(frozen=True, kw_only=True, repr=False)
    ... class FirstWords(System):
    ...     "BM25 under another name."
    ...     name = "first-words"
    ...     depth: int = 5
    ...     def compose(self, index):
    ...         return BM25Search(self.depth)
    >>> FirstWords(depth=3)
    FirstWords(depth=3)
    >>> Retriever(GraphIndex.from_texts(["a loom", "a card"]), FirstWords(), k=1).retrieve("Which loom?")[0].text
    'a loom'
    >>> del SYSTEMS["first-words"]
    """

    name: ClassVar[str]
    """Short name, as on the command line."""
    kind: ClassVar[OperatorKind | None] = None
    """Place of its own algorithm in the taxonomy; None without one."""
    asks_relevance: ClassVar[bool] = False
    """Whether its own algorithm needs the relevance model of the index."""
    batched: ClassVar[bool] = False
    """Whether the algorithm of this class also takes several questions of a batch as one (``Operator.batched``)."""
    needs_language_model: ClassVar[bool] = False
    """Whether its own algorithm is another one without a `language_model`."""
    default_k: ClassVar[int] = DEFAULT_K
    """Number of nodes that a retriever returns unless `k` is given."""
    reads_edge_signals: ClassVar[bool] = False
    """Whether the system reads signals over edges (``edge_signals=True`` of an index), which ``evaluate`` then builds."""
    finds_less_over: ClassVar[Literal["", "passages", "passages without names"]] = ""
    """Where hybrid search is known to find more than the system alone: over all passages, or those whose names do not lead on."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the system under its short name."""
        super().__init_subclass__(**options)
        if "name" not in cls.__dict__:
            return
        if not isinstance(cls.name, str) or re.fullmatch(r"[\w-]+", cls.name) is None:
            raise InvalidArgumentError(
                f"{cls.__name__} has the name {shown(cls.name)}; expected letters, digits and hyphens, such as 'my-system'."
            )
        other = SYSTEMS.get(cls.name)
        # In a notebook, a class may be defined again.
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise InvalidArgumentError(f"The name {cls.name!r} is that of the system {other.__qualname__}; choose another name.")
        SYSTEMS[cls.name] = cls

    # Not for type checkers, which know the fields from the dataclass.
    if not TYPE_CHECKING:

        def __new__(cls, /, *values: Any, **settings: Any) -> Self:
            """Refuse what is not a field or of another type, and say what was meant."""
            if "__dataclass_fields__" not in cls.__dict__:
                raise InvalidArgumentError(
                    f"{cls.__name__} is not a dataclass; write @dataclass(frozen=True, kw_only=True, repr=False) above the class."
                )
            # Not that of a system from which it is derived, whose text would be read as that system.
            if "name" not in cls.__dict__:
                raise InvalidArgumentError(f'{cls.__name__} has no short name; write name = "my-system" in its class.')
            if values:
                raise InvalidArgumentError(
                    f"{cls.__name__} takes its parameters by name, such as {cls.__name__}({_first_field(cls)}=...), and no index; "
                    f"got {shown(values[0])}. Run it on an index with Retriever(index, {cls.__name__}())."
                )
            _check_fields(cls)
            check_keywords(cls.__name__, settings, sorted(each.name for each in fields(cls)))
            _type_check(cls)(None, **settings)
            _checked(cls, settings)
            return super().__new__(cls)

    @cached_property
    def _parts_cache(self) -> Cache:
        """What was made of the system, by what it depends on, such as the device to which a network is moved."""
        return Cache()

    def compose(self, index: Corpus) -> Operator:
        """Return the composition of operators on an index, or on a scope of one; by default that of the system's own algorithm."""
        return self.operator()

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates] | Candidates:
        """Return the candidates of one question, best first, by the system's own algorithm; `candidates` are those found before."""
        raise NotImplementedError

    def operator(self) -> Operator:
        """Return the operator that runs the system's own algorithm, for a composition."""
        if type(self).algorithm is System.algorithm:
            raise InvalidArgumentError(f"{type(self).__name__} has neither compose() nor algorithm(); write one of them.")
        if not isinstance(self.kind, OperatorKind):
            raise InvalidArgumentError(
                f"{type(self).__name__} has the kind {shown(self.kind)}; set kind = OperatorKind.GRAPH_SEARCH or another one."
            )
        return _OwnAlgorithm(self, self.kind)

    def part(self, kind: Callable[..., _Part], *values: Any, **settings: Any) -> _Part:
        """Return an operator with the parameters of the system that it takes by the same names, and with others."""
        parameters = {name: getattr(self, name) for name in signature(kind).parameters if name in self.__dataclass_fields__}
        return kind(*values, **{**parameters, **settings})

    def returned_types(self, index: Corpus) -> tuple[str, ...] | None:
        """Return the node types that are hits unless the retriever is given others; None for all."""
        return None

    def untrained(self, index: Corpus) -> tuple[Untrained, ...]:
        """Return the parts that are not trained, so that something else ranks instead."""
        return ()

    def finds_less(self, index: Corpus) -> bool:
        """Return whether hybrid search is known to find more than the system alone on indexes like this one."""
        kind = self.finds_less_over
        return kind != "" and search_finds_more(index, unless_names_lead=kind == "passages without names")

    def skips_names(self, index: Corpus) -> bool:
        """Return whether nodes that only represent names in texts are left out of the searched graph, unless they may be hits."""
        return False

    def _changed(self) -> Iterator[tuple[str, Any]]:
        """Yield the parameters that differ from the defaults, with their values."""
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            default = parameter.default if parameter.default_factory is MISSING else parameter.default_factory()
            if default is MISSING or _differs(value, default):
                yield parameter.name, value

    def __repr__(self) -> str:
        """Return the parameters that differ from the defaults; an object is not shown, as a model may hold a key."""
        return f"{type(self).__name__}({', '.join(f'{name}={_repr(value)}' for name, value in self._changed())})"

    def __str__(self) -> str:
        """Return the text that :func:`read_system` reads, such as ``ppr(damping=0.7)``."""
        parameters = [f"{name}={_literal(value)}" for name, value in self._changed()]
        return self.name + (f"({', '.join(parameters)})" if parameters else "")


class _OwnAlgorithm(Operator):
    """The own algorithm of a system, as an operator with the system's short name."""

    def __init__(self, system: System, kind: OperatorKind) -> None:
        self.name, self.asks_relevance, self._kind = system.name, system.asks_relevance, kind
        self.language_model = optional_language_model(getattr(system, "language_model", None))
        # As for operators: a class with another algorithm takes one question, unless it says otherwise.
        owner = next(base for base in type(system).__mro__ if {"algorithm", "batched"} & base.__dict__.keys())
        self.batched = owner.__dict__.get("batched", False)
        if hasattr(system, "signal"):
            # Whether an operator compares vectors follows from it.
            self.signal = system.signal
        # One object for all questions, so that a batch asks it at once.
        model = {} if self.language_model is None else {"language_model": self.language_model}
        settings = {each.name: getattr(system, each.name) for each in fields(system) if each.init}
        # Numbers as the checks return them: those of numpy have few bits.
        self.system = replace(system, **_checked(type(system), settings), **model)

    @property
    def kind(self) -> OperatorKind:  # type: ignore[override]
        """That of the algorithm."""
        return self._kind

    def lacks(self, given: Collection[str] = ()) -> tuple[str, ...]:
        """Return a language model, if the algorithm is another one without, and there is none."""
        lacking = self.system.needs_language_model and self.language_model is None
        return ("a language model (pass language_model=)",) if lacking else ()

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates] | Candidates:
        """Return what the algorithm finds."""
        return self.system.algorithm(question, candidates)

    def __repr__(self) -> str:
        """Return the system, which says all of it."""
        return repr(self.system)


@cache
def _check_fields(kind: type[System]) -> None:
    """Raise InvalidArgumentError for a field that hides a method of every system, and for a default that dataclasses ignore."""
    for each in fields(kind):
        if callable(getattr(System, each.name, None)):
            raise InvalidArgumentError(
                f"{kind.__name__} has the field {each.name!r}, which is a method of every system; choose another name."
            )
        value = vars(kind).get(each.name, each.default)
        # With slots, a class has descriptors in place of defaults.
        if value is not each.default and not hasattr(value, "__set__"):
            raise InvalidArgumentError(
                f"{kind.__name__} sets {each.name} without a type, so that it changes no default; write {each.name}: ... = "
                f"{shown(value)}, with the type of the field."
            )


def _field_types(kind: type[System]) -> dict[str, Any]:
    """Return the types of fields by the names of the fields, but for types that cannot be resolved: these are not checked."""
    types = dict[str, Any]()
    for each in fields(kind):
        # The class that has the field from no other: its module knows the names in the type.
        owner = [base for base in kind.__mro__ if getattr(base, "__dataclass_fields__", {}).get(each.name) is each][-1]
        annotated = SimpleNamespace(__annotations__={each.name: each.type})
        try:
            types |= get_type_hints(annotated, vars(sys.modules[owner.__module__]), include_extras=True)
        except Exception as error:
            # Otherwise it may be a class that is imported only for type checkers.
            if "Annotated[" in str(each.type):
                raise InvalidArgumentError(
                    f"{kind.__name__} has a check in the type of {each.name}, {each.type}, which cannot be read ({error}); "
                    "define the check in the module, not in a function."
                ) from error
    return types


@cache
def _field_checks(kind: type[System]) -> dict[str, list[Callable[[str, Any], Any]]]:
    """Return the checks in the types of fields, by the names of the fields."""
    checks = dict[str, list[Callable[[str, Any], Any]]]()
    for name, hint in _field_types(kind).items():
        # Also of a type that is optional.
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        metadata = [each for part in parts if get_origin(part) is Annotated for each in part.__metadata__]
        checks[name] = [each for each in metadata if callable(each)]
    return checks


def _checked(kind: type[System], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of fields as their checks return them; a value stays if its check returns None."""
    values = dict[str, Any]()
    # mypy takes the class for one of its objects, which have another hash.
    for name, checks in _field_checks(kind).items():  # type: ignore[arg-type]
        for check in checks if settings.get(name) is not None else ():
            value = values.get(name, settings[name])
            result = check(name, value)
            values[name] = value if result is None else result
    return values


@cache
def _type_check(kind: type[System]) -> Callable[..., None]:
    """Return a function that raises InvalidArgumentError for fields whose types differ from their annotations."""

    @wraps(kind.__init__)
    def check(self: None, **settings: Any) -> None: ...

    check.__annotations__ = _field_types(kind)
    return typed(check)


def _first_field(kind: type[System]) -> str:
    return next((each.name for each in fields(kind)), "parameter")


def _literal(value: Any) -> str:
    """Return a plain value as :func:`read_system` reads it, a system by its text."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and isinf(value):
        # Python has no literal for infinity, but reads a number that is too large for a float as infinity.
        return "1e999" if value > 0 else "-1e999"
    return repr(str(value)) if isinstance(value, System | Path) else _repr(value)


def _repr(value: Any) -> str:
    """Return a plain value or a system as it is written in Python; three dots for another object."""
    if isinstance(value, list | tuple):
        shown_parts = ", ".join(map(_repr, value))
        return f"[{shown_parts}]" if isinstance(value, list) else f"({shown_parts}{',' * (len(value) == 1)})"
    if isinstance(value, System | str | bool | Path | None):
        return repr(value)
    if isinstance(value, Real):
        # Numbers of numpy are shown as those of Python; one of thousands of digits has no repr.
        return shown(int(value) if isinstance(value, Integral) else float(value), _DIGITS)
    return "..."


def _differs(value: Any, default: Any) -> bool:
    try:
        return value is not default and bool(value != default)
    except Exception:
        # An array, or a model that does not compare.
        return True


def every_system() -> dict[str, System]:
    """Return each system with its default parameters, by its short name; one that needs a parameter is left out.

    >>> list(every_system())[:3]
    ['vector', 'bm25', 'hybrid']
    """
    return {name: kind() for name, kind in SYSTEMS.items() if not any(_is_needed(each) for each in fields(kind))}


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def read_system(given: str | Mapping[str, Any] | System) -> System:
    """Return the system that a text or a mapping describes; a system is returned as it is.

    Parameters
    ----------
    given : str, mapping or System
        A short name; a short name with parameters, as in a Python call with plain values; or a mapping with the key ``"system"``
        for the short name and the parameters beside it, as in a file of JSON or YAML.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown, the text is not such a call, a parameter is given twice, or one that the system needs is missing.
    UnexpectedArgumentError
        If the system does not take a parameter.

    Examples
    --------
    >>> read_system("ppr(damping=0.7)")
    PPR(damping=0.7)
    >>> read_system({"system": "ppr", "damping": 0.7}) == read_system("ppr(damping=0.7)")
    True
    """
    if isinstance(given, System):
        return given
    if isinstance(given, Mapping):
        settings = dict(given)
        name = settings.pop("system", None)
    elif isinstance(given, str):
        name, settings = _call(given)
    else:
        raise InvalidArgumentError(f"Expected a system, such as PPR() or 'ppr(damping=0.7)', got {shown(given)}.")
    if not isinstance(name, str) or name not in SYSTEMS:
        hint = suggestion(name.lower(), SYSTEMS) if isinstance(name, str) else ""
        raise InvalidArgumentError(
            f"Unknown system {shown(name)}; choose from {', '.join(map(repr, SYSTEMS))}.{hint} One of your own is known once its "
            "module is imported; commands import it for MODULE:NAME."
        )
    kind = SYSTEMS[name]
    other_keys = [key for key in settings if not isinstance(key, str)]
    if other_keys:
        raise InvalidArgumentError(f"The mapping of a system has the key {shown(other_keys[0])}; expected names of parameters.")
    check_keywords(kind.__name__, settings, sorted(each.name for each in fields(kind)))
    missing = [each.name for each in fields(kind) if _is_needed(each) and each.name not in settings]
    if missing:
        raise InvalidArgumentError(f"{kind.name!r} needs {missing[0]}; pass it, such as '{kind.name}({missing[0]}=...)'.")
    return kind(**settings)


def _call(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of ``name(parameter=value, ...)``."""
    name, bracket, rest = text.strip().partition("(")
    if not bracket:
        return name, {}
    try:
        # Short names have hyphens, which no name in Python has.
        call = ast.parse(f"system({rest}", mode="eval").body
        # The function is a name: system(...)(...) calls what a call returns.
        simple = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and not call.args
        if not isinstance(call, ast.Call) or not simple or not all(word.arg for word in call.keywords):
            raise ValueError("it is not a call with named parameters")
        settings = dict[str, Any]()
        for word in call.keywords:
            if word.arg in settings:
                raise ValueError(f"{word.arg} is given twice")
            settings[str(word.arg)] = _plain(word)
        return name, settings
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        deep = isinstance(error, RecursionError | MemoryError)
        why = "it is nested too deeply" if deep else error.msg if isinstance(error, SyntaxError) else str(error)
        raise InvalidArgumentError(
            f"{shown(text)} cannot be read as a system ({why}); expected a name with plain values, such as 'ppr(damping=0.7)'."
        ) from error


def _plain(word: ast.keyword) -> Any:
    """Return the value of a parameter; nothing in it is evaluated but literals."""
    try:
        return ast.literal_eval(word.value)
    except (ValueError, TypeError) as error:
        # The message of `error` has the address of an object.
        raise ValueError(f"the value of {word.arg} is not plain") from error
