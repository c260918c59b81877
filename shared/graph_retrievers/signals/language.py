"""Language models: the interface, adapters for models of other libraries, and answers that satisfy a JSON schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from graph_retrievers.errors import InvalidArgumentError, LanguageModelError

__all__ = ["LanguageModel", "as_language_model", "check_schema", "complete_json", "complete_many"]

Schema = Mapping[str, Any]


@runtime_checkable
class LanguageModel(Protocol):
    """The interface that the package needs of a language model."""

    def complete(self, prompt: str, schema: Schema | None = None) -> str:
        """Return the model's answer to `prompt`.

        The prompt states the JSON `schema` of the answer, if there is one. A model that supports structured output can use
        the argument; others ignore it.
        """


@dataclass(frozen=True)
class _Adapted:
    """A language model of another library."""

    complete: Callable[..., str]
    name: str


def as_language_model(model: Any) -> LanguageModel:
    """Return `model` as a :class:`LanguageModel`; InvalidArgumentError if it is none of the kinds below.

    It is a LangChain chat model or LLM (``invoke``; ``with_structured_output`` is used if there is a schema), a LlamaIndex ``LLM``
    (``complete`` and ``stream_complete``), a :class:`LanguageModel`, or a callable from a prompt to a text.

    Examples
    --------
    >>> as_language_model(str.upper).complete("loom")
    'LOOM'
    """
    labels = [getattr(model, key, None) for key in ("model_name", "model", "name")]
    name = next((label for label in labels if isinstance(label, str) and label), type(model).__name__)
    if not isinstance(model, type):
        if hasattr(model, "invoke"):
            return _Adapted(lambda prompt, schema=None: _ask_langchain(model, prompt, schema), name)
        if hasattr(model, "complete") and hasattr(model, "stream_complete"):
            return _Adapted(lambda prompt, schema=None: str(model.complete(prompt).text), name)
        if hasattr(model, "complete"):
            return model  # type: ignore[no-any-return]
        if callable(model):
            return _Adapted(lambda prompt, schema=None: model(prompt), getattr(model, "__qualname__", name))
    raise InvalidArgumentError(
        f"{model!r} is not a language model; pass a LangChain chat model, a LlamaIndex LLM, an object with "
        "complete(prompt, schema), or a callable from a prompt to a text."
    )


def _ask_langchain(model: Any, prompt: str, schema: Schema | None) -> str:
    if schema is None or not hasattr(model, "with_structured_output"):
        return _text(model.invoke(prompt))
    titled = {"title": "Answer", "description": "The answer.", **schema}
    try:
        bound = model.with_structured_output(titled, include_raw=True)
    except (NotImplementedError, AttributeError):
        # Some chat models do not support structured output; the prompt states the schema too.
        return _text(model.invoke(prompt))
    answer = bound.invoke(prompt)
    parsed = answer.get("parsed")
    return _text(answer.get("raw")) if parsed is None else json.dumps(parsed)


def _text(message: Any) -> str:
    content = getattr(message, "content", message)
    if isinstance(content, list):
        return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)
    return str(content)


def complete_json(model: Any, prompt: str, schema: Schema, *, attempts: int = 3) -> Any:
    """Return a language model's answer as a JSON value that satisfies a schema; LanguageModelError if there is none.

    Parameters
    ----------
    model : object
        See :func:`as_language_model`.
    prompt : str
        The task; the schema is appended to it.
    schema : mapping
        JSON schema, see :func:`check_schema` for the keywords.
    attempts : int, default 3
        How often to ask. Further prompts contain the rejected answer and the reason.

    Examples
    --------
    >>> complete_json(lambda prompt: '{"year": 1801}', "When was the loom built?", {"type": "object", "required": ["year"]})
    {'year': 1801}
    """
    check_schema(schema)
    port = as_language_model(model)
    if attempts < 1:
        raise InvalidArgumentError(f"attempts must be at least 1, got {attempts}.")
    stated = json.dumps(schema, ensure_ascii=False)
    task = f"{prompt}\n\nAnswer with one JSON value of this schema, and with nothing else:\n{stated}"
    asked, fault = task, ""
    for _ in range(attempts):
        try:
            answer = port.complete(asked, schema)
        except Exception as error:
            raise LanguageModelError(f"The language model failed ({type(error).__name__}: {error}).") from error
        if not isinstance(answer, str):
            raise LanguageModelError(f"The language model returned {type(answer).__name__} {answer!r:.100}; expected a text.")
        try:
            value = _parse(answer)
        except ValueError as error:
            fault = f"it is not JSON ({error})"
        else:
            fault = _fault(value, schema, "the answer")
            if not fault:
                return value
        asked = f"{task}\n\nAn earlier answer was rejected, since {fault}. It was:\n{answer[:2000]}"
    raise LanguageModelError(
        f"No answer of the language model satisfied the schema in {attempts} attempts; of the last, {fault}. It began "
        f"{answer[:200]!r}. Use a stronger model, or one with structured output."
    )


def complete_many(
    model: Any,
    prompts: Sequence[str],
    schema: Schema | Sequence[Schema],
    *,
    attempts: int = 3,
    workers: int = 4,
    show_progress: bool = False,
    description: str = "asking",
) -> Iterator[tuple[int, Any]]:
    """Yield the JSON answers to many prompts as they arrive.

    Parameters
    ----------
    model, attempts
        See :func:`complete_json`.
    prompts : sequence of str, length n
    schema : mapping, or sequence of mapping of length n
        One schema for all prompts, or one each.
    workers : int, default 4
        Prompts asked at the same time; 1 asks in the calling thread, for models that are not thread-safe.
    show_progress : bool, default False
    description : str, default "asking"
        Text of the progress bar.

    Yields
    ------
    position : int
        Position of the prompt; the order is that of completion.
    answer : object or LanguageModelError
        What :func:`complete_json` returned or raised; after an error the other prompts are still asked.

    Examples
    --------
    >>> list(complete_many(lambda prompt: "1801", ["When?", "When then?"], {"type": "integer"}, workers=1))
    [(0, 1801), (1, 1801)]
    """
    from tqdm.auto import tqdm

    if workers < 1:
        raise InvalidArgumentError(f"workers must be at least 1, got {workers}.")
    port = as_language_model(model)
    schemas = [schema] * len(prompts) if isinstance(schema, Mapping) else list(schema)
    if len(schemas) != len(prompts):
        raise InvalidArgumentError(
            f"{len(schemas)} schemas were given for {len(prompts)} prompts; pass one schema, or one per prompt."
        )

    def ask(position: int) -> Any:
        try:
            return complete_json(port, prompts[position], schemas[position], attempts=attempts)
        except LanguageModelError as error:
            return error

    with tqdm(total=len(prompts), desc=description, unit="prompt", disable=not show_progress) as bar:
        if workers == 1:
            for position in range(len(prompts)):
                answer = ask(position)
                bar.update()
                yield position, answer
            return
        pool = ThreadPoolExecutor(workers, thread_name_prefix="language-model")
        try:
            position_of = {pool.submit(ask, position): position for position in range(len(prompts))}
            for future in as_completed(position_of):
                bar.update()
                yield position_of[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_FENCE = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)


def _parse(answer: str) -> Any:
    """Return the JSON value of an answer; one Markdown fence around the whole answer is removed."""
    text = answer.strip()
    fenced = _FENCE.fullmatch(text)

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not a JSON number")

    return json.loads(fenced.group(1) if fenced else text, parse_constant=constant)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
}
_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minLength": ("string", lambda v, limit: len(v) >= limit),
    "maxLength": ("string", lambda v, limit: len(v) <= limit),
    "minItems": ("array", lambda v, limit: len(v) >= limit),
    "maxItems": ("array", lambda v, limit: len(v) <= limit),
    "minimum": ("number", lambda v, limit: v >= limit),
    "maximum": ("number", lambda v, limit: v <= limit),
}
_STRUCTURE = {"type", "enum", "properties", "required", "additionalProperties", "items", "anyOf"}
_REMARKS = {"title", "description", "default", "examples", "$schema"}


def check_schema(schema: Schema) -> None:
    """Raise InvalidArgumentError for a JSON schema with keywords or types that answers are not checked for.

    The keywords are ``type``, ``enum``, ``properties``, ``required``, ``additionalProperties`` (a bool), ``items`` (one schema),
    ``anyOf``, ``minLength``, ``maxLength``, ``minItems``, ``maxItems``, ``minimum``, ``maximum``, and remarks such as
    ``description``.
    """
    if not isinstance(schema, Mapping):
        raise InvalidArgumentError(f"A schema is a mapping, got {schema!r}.")
    for key in schema:
        if key not in _STRUCTURE | _REMARKS and key not in _LIMITS:
            raise InvalidArgumentError(f"Schema keyword {key!r} is not known; use {', '.join(sorted(_STRUCTURE | set(_LIMITS)))}.")
    for name in _type_names(schema):
        if name not in _TYPES:
            raise InvalidArgumentError(f"Schema type {name!r} is not known; use {', '.join(_TYPES)}.")
    if not isinstance(schema.get("additionalProperties", True), bool):
        raise InvalidArgumentError("Schema keyword 'additionalProperties' takes a bool.")
    for inner in [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]:
        check_schema(inner)
    if "items" in schema:
        check_schema(schema["items"])


def _type_names(schema: Schema) -> list[str]:
    names = schema.get("type", [])
    return [names] if isinstance(names, str) else list(names)


def _fault(value: Any, schema: Schema, place: str) -> str:
    """Return what is wrong with a value, "" if it satisfies the schema."""
    names = _type_names(schema)
    if names and not any(_TYPES[name](value) for name in names):
        return f"{place} is {json.dumps(value)[:80]} where a value of type {' or '.join(names)} is expected"
    if "enum" in schema and value not in schema["enum"]:
        return f"{place} is {json.dumps(value)[:80]} where one of {json.dumps(list(schema['enum']))} is expected"
    for key, (kind, holds) in _LIMITS.items():
        if key in schema and _TYPES[kind](value) and not holds(value, schema[key]):
            return f"{place} breaks {key} {schema[key]}"
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                return f"{place} lacks {name!r}"
        for name, entry in value.items():
            if name not in properties:
                if not schema.get("additionalProperties", True):
                    return f"{place} has {name!r}, which the schema does not name"
            elif fault := _fault(entry, properties[name], f"{place}.{name}"):
                return fault
    if isinstance(value, list) and "items" in schema:
        for position, entry in enumerate(value):
            if fault := _fault(entry, schema["items"], f"{place}[{position}]"):
                return fault
    if "anyOf" in schema:
        faults = [_fault(value, inner, place) for inner in schema["anyOf"]]
        if all(faults):
            return " and ".join(faults)
    return ""
