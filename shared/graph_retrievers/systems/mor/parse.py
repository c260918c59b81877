"""Reading plans (MoR, section 3.1.2): the output of the published planners, and our own JSON form."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from graph_retrievers.errors import InvalidPlanError
from graph_retrievers.systems.mor.plan import MAX_PATHS, MAX_STEPS, PathStep, PlanningGraph, ReasoningPath

_MAX_CHARACTERS, _MAX_ITEMS = 20_000, 10_000
_MAX_PHRASES, _MAX_PHRASE = 16, 1_000

_TEXT: dict[str, Any] = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_STEP = {
    "type": "object",
    "properties": {
        "type": _TEXT,
        "relation": _TEXT_OR_NULL,
        "restriction": {"anyOf": [{"type": "array", "items": _TEXT}, _TEXT_OR_NULL]},
    },
    "required": ["type"],
    "additionalProperties": False,
}
_PATH = {"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": _STEP}
PLAN_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"paths": {"type": "array", "maxItems": MAX_PATHS, "items": _PATH}},
    "required": ["paths"],
    "additionalProperties": False,
}
"""JSON Schema of a plan: paths of steps, each a node type, the relation that leads to it, and its restriction."""


def read_plan(plan: Any) -> PlanningGraph:
    """Read a plan in any of the forms that planners and callers use; InvalidPlanError if it is not a plan or too large.

    `plan` is a planning graph; a mapping of the form :data:`PLAN_SCHEMA`; a list of steps (one path) or of such lists, where a
    step is a mapping with ``type`` and optionally ``relation`` and ``restriction`` (text or list of texts); a mapping with
    ``Metapath`` and ``Restriction`` as written by MoR's planners, where the metapath is either types joined by ``->`` and ``<-``
    or a list of ``[type, relation, type, ...]``; or any of these as text, JSON or a Python literal, possibly with words around
    it.

    Text is read as a literal and never evaluated. Departures from MoR's published parser: apostrophes inside quoted phrases are
    repaired where the literal breaks, instead of first expanding contractions, which alters phrases ("U-shaped" became
    "YOU-shaped"); a text that cannot be read is an error here, which MoR turns into text retrieval, and an empty plan there, with
    the same effect.

    >>> print(read_plan({"Metapath": "person -> movie <- genre", "Restriction": {"person": ["Ada"], "genre": ["drama"]}}))
    person<Ada> - movie & genre<drama> - movie
    """
    if isinstance(plan, PlanningGraph):
        return plan
    try:
        return _parse(_literal(plan) if isinstance(plan, str) else plan)
    except (RecursionError, ValueError, RuntimeError) as error:
        if isinstance(error, InvalidPlanError):
            raise
        # Nested lists, or a number of thousands of digits, instead of a name.
        raise InvalidPlanError(f"The plan holds something that cannot be the name of a type or relation: {error}.") from error


def _parse(plan: Any) -> PlanningGraph:
    if isinstance(plan, Mapping):
        if "Metapath" in plan:
            return _published(plan["Metapath"], plan.get("Restriction") or {})
        if "paths" in plan:
            return _steps_plan(plan["paths"])
        keys = ", ".join(repr(str(k)[:30]) for k in list(plan)[:5]) or "no keys"
        raise InvalidPlanError(f"A plan is a mapping with 'paths' or 'Metapath', this one has {keys}.")
    if isinstance(plan, Sequence) and not isinstance(plan, (str, bytes)):
        return _steps_plan([plan] if plan and all(isinstance(step, Mapping) for step in plan) else plan)
    raise InvalidPlanError(f"A plan is a PlanningGraph, a mapping, a list of steps or text, got {type(plan).__name__}.")


def parse_metapath(metapath: str) -> list[list[str]] | None:
    """Return the routes of a metapath text: runs of one direction, each oriented to end where they meet.

    Where the direction changes, both runs share the node between them, as in the published code. None is returned for a text with
    a word instead of an arrow.

    Examples
    --------
    >>> parse_metapath("institution -> author -> paper <- field_of_study")
    [['institution', 'author', 'paper'], ['field_of_study', 'paper']]
    """
    tokens = metapath.split(" ")
    if len(tokens) == 1:
        return [tokens]
    if any(token not in ("->", "<-") for token in tokens[1::2]):
        return None
    routes: list[list[str]] = []
    direction, route = tokens[1], [tokens[0]]
    for arrow, node in zip(tokens[1::2], tokens[2::2], strict=False):
        if arrow != direction:
            routes.append(route if direction == "->" else route[::-1])
            direction, route = arrow, [route[-1]]
        route.append(node)
    routes.append(route if direction == "->" else route[::-1])
    return routes


def _published(metapath: Any, restriction: Any) -> PlanningGraph:
    """Return a plan of MoR's form; types that repeat share their phrases."""
    phrases = {str(k): _phrases(v) for k, v in restriction.items()} if isinstance(restriction, Mapping) else {}
    routes: list[tuple[list[str], list[str | None]]] = []
    if isinstance(metapath, str):
        parsed = parse_metapath(metapath[:_MAX_CHARACTERS]) if metapath else None
        routes = [(route, [None] * len(route)) for route in parsed or []]
    else:
        for route in _lists(metapath, "A metapath is text or"):
            words = [str(word) for word in route[: 2 * MAX_STEPS + 2]]
            types, relations = words[::2], [None, *words[1::2]]
            if not words:
                continue
            if len(words) % 2 == 0:
                # A last type without a relation before it: any relation may lead there.
                types, relations = [*types, words[-1]], [*relations[:-1], None]
            routes.append((types, relations))
    paths = [[PathStep(t, r, phrases.get(t, ())) for t, r in zip(types, relations, strict=True)] for types, relations in routes]
    return PlanningGraph(tuple(ReasoningPath(tuple(path)) for path in paths))


def _steps_plan(paths: Any) -> PlanningGraph:
    routes = [[_step(step) for step in path[: MAX_STEPS + 1]] for path in _lists(paths, "'paths' is")]
    return PlanningGraph(tuple(ReasoningPath(tuple(path)) for path in routes))


def _lists(paths: Any, what: str) -> Sequence[Any]:
    """Return `paths` if it is a list of lists and not too long; raise InvalidPlanError otherwise."""
    whole = isinstance(paths, Sequence) and not isinstance(paths, (str, bytes))
    if whole and len(paths) > _MAX_ITEMS:
        raise InvalidPlanError(f"The plan has {len(paths)} paths; at most {MAX_PATHS} are walked.")
    for part in paths if whole else [paths]:
        if not whole or not isinstance(part, Sequence) or isinstance(part, (str, bytes)):
            raise InvalidPlanError(f"{what} a list of lists, one for each path; got {type(part).__name__}.")
    return paths  # type: ignore[no-any-return]


def _step(step: Any) -> PathStep:
    if not isinstance(step, Mapping) or not isinstance(step.get("type"), str):
        raise InvalidPlanError("A step is a mapping with a text 'type', and optionally 'relation' and 'restriction'.")
    relation = step.get("relation") or None
    if relation is not None and not isinstance(relation, str):
        raise InvalidPlanError(f"A step's 'relation' is text, got {type(relation).__name__}.")
    return PathStep(step["type"], relation, _phrases(step.get("restriction")))


def _phrases(value: Any) -> tuple[str, ...]:
    """Return the phrases that are texts and not empty, bounded in number and length."""
    value = [value] if isinstance(value, str) else value if isinstance(value, Sequence) else []
    return tuple(phrase[:_MAX_PHRASE] for phrase in value[:_MAX_PHRASES] if isinstance(phrase, str) and phrase.strip())


def _literal(text: str) -> Any:
    """Return the JSON or Python literal in a text."""
    if len(text) > _MAX_CHARACTERS:
        raise InvalidPlanError(f"The plan is a text of {len(text)} characters; at most {_MAX_CHARACTERS} are read.")
    body = text.strip()
    brackets = [place for place in (body.find("{"), body.find("[")) if place >= 0]
    if not brackets:
        raise InvalidPlanError(f"The plan holds no literal: {body[:60]!r}.")
    begin = min(brackets)
    body = body[begin : body.rfind("}" if body[begin] == "{" else "]") + 1]
    for parse, form in ((json.loads, body), (ast.literal_eval, body), (ast.literal_eval, _mended(body))):
        try:
            value = parse(form)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        if isinstance(value, (Mapping, list, tuple)):
            return value
    raise InvalidPlanError(f"The plan is neither JSON nor a Python literal: {text[:60]!r}.")


def _mended(body: str) -> str:
    """Return the literal with apostrophes inside single-quoted phrases dropped, as in 'Kramers' formulas'."""
    # A quote that opens or closes a phrase is next to a bracket, a comma or a colon.
    return re.sub(r"(?<![\[{,:\s])'(?!\s*[\]},:])", "", body)
