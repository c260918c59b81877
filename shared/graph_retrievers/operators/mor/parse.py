"""Reading plans: what published planners emit, and a JSON form of our own."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from graph_retrievers.errors import InvalidPlanError
from graph_retrievers.operators.mor.plan import MAX_PATHS, MAX_STEPS, PathStep, PlanningGraph, ReasoningPath

__all__ = ["PLAN_SCHEMA", "parse_metapath", "read_plan"]

_MAX_CHARACTERS, _MAX_ITEMS = 20_000, 10_000
_MAX_PHRASES, _MAX_PHRASE = 16, 1_000

PLAN_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "paths": {
            "type": "array",
            "maxItems": MAX_PATHS,
            "items": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_STEPS,
                "items": {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string"},
                        "relation": {"type": ["string", "null"]},
                        "restriction": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": ["string", "null"]}]},
                    },
                    "required": ["type"],
                    "additionalProperties": False,
                },
            },
        }
    },
    "required": ["paths"],
    "additionalProperties": False,
}
"""JSON Schema of a plan: paths of steps, each a node type, the relation that leads to it, and its restriction."""


def read_plan(plan: Any) -> PlanningGraph:
    """Return a plan in any of the forms planners and callers use.

    Parameters
    ----------
    plan : PlanningGraph, str, mapping or list
        A planning graph; a mapping of the form :data:`PLAN_SCHEMA`; a list of steps (one path) or of such lists,
        a step being a mapping with ``type`` and optionally ``relation`` and ``restriction`` (text or list of
        texts); a mapping with ``Metapath`` and ``Restriction`` as MoR's planners emit it, the metapath either
        types joined by ``->`` and ``<-`` or a list of ``[type, relation, type, ...]``; or any of these as text,
        JSON or Python literal, possibly with words around it.

    Returns
    -------
    PlanningGraph
        As written: whether it fits a graph is for :func:`~graph_retrievers.operators.mor.plan.check_plan` to say.

    Raises
    ------
    InvalidPlanError
        If it is none of these or too large.

    Notes
    -----
    Text is only ever read as a literal, never evaluated. Departures from MoR's published parser: apostrophes
    inside quoted phrases are mended where the literal breaks, instead of spelling contractions out first, which
    alters phrases ("U-shaped" became "YOU-shaped"); a text that cannot be read is an error here, which MoR turns
    into text retrieval, and an empty plan there, which has the same effect.
    """
    if isinstance(plan, PlanningGraph):
        return plan
    if isinstance(plan, str):
        plan = _literal(plan)
    if isinstance(plan, Mapping):
        if "Metapath" in plan:
            return _published(plan["Metapath"], plan.get("Restriction") or {})
        if "paths" in plan:
            return _steps_plan(plan["paths"])
        raise InvalidPlanError(f"A plan is a mapping with 'paths' or 'Metapath', this one has {_keys(plan)}.")
    if isinstance(plan, Sequence) and not isinstance(plan, (str, bytes)):
        return _steps_plan([plan] if plan and all(isinstance(step, Mapping) for step in plan) else plan)
    raise InvalidPlanError(f"A plan is a PlanningGraph, a mapping, a list of steps or text, got {type(plan).__name__}.")


def parse_metapath(metapath: str) -> list[list[str]] | None:
    """Return the routes of a metapath text: runs of one direction, each turned to end where they meet.

    Parameters
    ----------
    metapath : str
        Node types and ``->`` or ``<-`` separated by single spaces, such as
        ``"institution -> author -> paper <- field_of_study"``.

    Returns
    -------
    list of list of str, or None
        ``[["institution", "author", "paper"], ["field_of_study", "paper"]]`` for the example; None if a word
        stands where an arrow should. As published: where directions turn, both runs share the node between them.
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
    elif isinstance(metapath, Sequence):
        for route in _bounded(metapath):
            if not isinstance(route, Sequence) or isinstance(route, str):
                raise InvalidPlanError("A metapath of lists holds lists [type, relation, type, ...].")
            words = [str(word) for word in route[: 2 * MAX_STEPS + 2]]
            types, relations = words[::2], [None, *words[1::2]]
            if words and len(words) % 2 == 0:
                # A last type without a relation before it: any relation may lead there.
                types, relations = [*types, words[-1]], [*relations[:-1], None]
            routes.append((types, relations))
    else:
        raise InvalidPlanError(f"A metapath is text or a list of lists, got {type(metapath).__name__}.")
    return PlanningGraph(
        tuple(
            ReasoningPath(tuple(PathStep(t, r, phrases.get(t, ())) for t, r in zip(types, relations, strict=True)))
            for types, relations in routes
        )
    )


def _steps_plan(paths: Any) -> PlanningGraph:
    if not isinstance(paths, Sequence) or isinstance(paths, (str, bytes)):
        raise InvalidPlanError(f"'paths' is a list of paths, got {type(paths).__name__}.")
    result = []
    for path in _bounded(paths):
        if not isinstance(path, Sequence) or isinstance(path, (str, bytes)):
            raise InvalidPlanError(f"A path is a list of steps, got {type(path).__name__}.")
        result.append(ReasoningPath(tuple(_step(step) for step in path[: MAX_STEPS + 1])))
    return PlanningGraph(tuple(result))


def _bounded(paths: Sequence[Any]) -> Sequence[Any]:
    if len(paths) > _MAX_ITEMS:
        raise InvalidPlanError(f"The plan has {len(paths)} paths; at most {MAX_PATHS} are walked.")
    return paths


def _step(step: Any) -> PathStep:
    if not isinstance(step, Mapping) or not isinstance(step.get("type"), str):
        raise InvalidPlanError("A step is a mapping with a text 'type', and optionally 'relation' and 'restriction'.")
    relation = step.get("relation") or None
    if relation is not None and not isinstance(relation, str):
        raise InvalidPlanError(f"A step's 'relation' is text, got {type(relation).__name__}.")
    return PathStep(step["type"], relation, _phrases(step.get("restriction")))


def _phrases(value: Any) -> tuple[str, ...]:
    """Return phrases without the empty ones, bounded in number and length; what is no text is not a phrase."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Sequence):
        return ()
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
    for read, form in ((json.loads, body), (ast.literal_eval, body), (ast.literal_eval, _mended(body))):
        try:
            value = read(form)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        if isinstance(value, (Mapping, list, tuple)):
            return value
    raise InvalidPlanError(f"The plan is neither JSON nor a Python literal: {text[:60]!r}.")


def _mended(body: str) -> str:
    """Return the literal with apostrophes inside single-quoted phrases dropped, as in 'Kramers' formulas'."""
    # A quote that opens or closes a phrase stands beside a bracket, a comma or a colon.
    return re.sub(r"(?<![\[{,:\s])'(?!\s*[\]},:])", "", body)


def _keys(plan: Mapping[Any, Any]) -> str:
    return ", ".join(repr(str(k)[:30]) for k in list(plan)[:5]) or "no keys"
