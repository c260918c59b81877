"""Language models: the interface, adapters for models of other libraries, and answers that satisfy a JSON schema."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from graph_retrievers.arguments import positive
from graph_retrievers.concurrency import at_most, call_or_await, in_threads, most_calls
from graph_retrievers.errors import InvalidArgumentError, LanguageModelError, reason, shown
from graph_retrievers.graph.labels import one_line
from graph_retrievers.progress import progress_bar

__all__ = ["LanguageModel"]

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
    """A language model of another library, asked by `ask` with the model, the prompt and the schema."""

    ask: Callable[[Any, str, Schema | None], str]
    model: Any
    name: str

    def complete(self, prompt: str, schema: Schema | None = None) -> str:
        return self.ask(self.model, prompt, schema)


def as_language_model(model: Any) -> LanguageModel:
    """Return `model` as a :class:`LanguageModel`; InvalidArgumentError if it is none of the kinds below.

    It is a LangChain chat model or LLM (``invoke``; ``with_structured_output`` is used if there is a schema), a LlamaIndex
    ``LLM`` (``complete`` and ``stream_complete``), a :class:`LanguageModel`, or a callable from a prompt to a text. A LangChain
    model without its own ``invoke`` is called with ``ainvoke``; other asynchronous functions are refused.
    """
    labels = [getattr(model, key, None) for key in ("model_name", "model", "name")]
    name = next((label for label in labels if isinstance(label, str) and label), type(model).__name__)
    functions = [model, *(getattr(model, key, None) for key in ("invoke", "complete", "__call__"))]
    if any(map(inspect.iscoroutinefunction, functions)):
        raise InvalidArgumentError(
            f"{shown(model)} is asynchronous, and language models are asked from threads here; pass a function that waits for the "
            "answer, such as lambda prompt: asyncio.run(ask(prompt))."
        )
    if not isinstance(model, type):
        if hasattr(model, "invoke"):
            return _Adapted(_ask_langchain, model, name)
        if hasattr(model, "complete") and hasattr(model, "stream_complete"):
            return _Adapted(_ask_llama_index, model, name)
        if hasattr(model, "complete"):
            return model  # type: ignore[no-any-return]
        if callable(model):
            return _Adapted(_ask_callable, model, getattr(model, "__qualname__", name))
    raise InvalidArgumentError(
        f"{shown(model)} is not a language model; pass a LangChain chat model, a LlamaIndex LLM, an object with "
        "complete(prompt, schema), or a callable from a prompt to a text."
    )


def optional_language_model(model: Any) -> LanguageModel | None:
    """Return `model` as :func:`as_language_model` does; None for None."""
    return None if model is None else as_language_model(model)


def _ask_langchain(model: Any, prompt: str, schema: Schema | None) -> Any:
    if schema is None or not hasattr(model, "with_structured_output"):
        return _text(_invoked(model, prompt))
    named_schema = {"title": "Answer", "description": "The answer.", **schema}
    try:
        bound = model.with_structured_output(named_schema, include_raw=True)
    except (NotImplementedError, AttributeError):
        # Some chat models do not support structured output; the prompt states the schema too.
        return _text(_invoked(model, prompt))
    answer = _invoked(bound, prompt)
    value = answer.get("parsed")
    return _text(answer.get("raw")) if value is None else json.dumps(value)


def _invoked(model: Any, prompt: str) -> Any:
    """Return what a runnable of LangChain answers; one that can only be awaited is awaited, outside the loop that may run here."""
    return call_or_await(model.invoke, getattr(model, "ainvoke", None), prompt)


def _ask_llama_index(model: Any, prompt: str, schema: Schema | None) -> Any:
    return model.complete(prompt).text


def _ask_callable(model: Any, prompt: str, schema: Schema | None) -> str:
    answer: str = model(prompt)
    return answer


def _text(message: Any) -> Any:
    """Return the text of a message of LangChain; what has none as it is."""
    content = getattr(message, "content", message)
    if isinstance(content, list):
        return "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)
    return content


def complete_text(model: LanguageModel, prompt: str, schema: Schema | None = None) -> str:
    """Return the answer to a prompt; LanguageModelError if the model fails or returns anything but a text."""
    try:
        answer = model.complete(prompt, schema)
    except Exception as error:
        raise LanguageModelError(f"The language model failed ({reason(error)}).") from error
    if isinstance(answer, Awaitable):
        if inspect.iscoroutine(answer):
            answer.close()
        raise LanguageModelError("The language model is asynchronous; pass one that returns a text.")
    if not isinstance(answer, str):
        raise LanguageModelError(f"The language model returned {type(answer).__name__} {shown(answer, 100)}; expected a text.")
    return answer


def complete_json(
    model: Any,
    prompt: str,
    schema: Schema,
    *,
    attempts: int = 3,
    check: Callable[[Any], str] | None = None,
) -> Any:
    """Return a language model's answer as a JSON value that satisfies a schema; LanguageModelError if there is none.

    The schema (JSON schema, draft 2020-12) is appended to the prompt, which is sent at most `attempts` times; later prompts
    contain the rejected answer and the reason. Answers of more than 200,000 characters are rejected unread. An object, or an
    array if the schema requires one, may be inside a text or a code fence, or after the thoughts in ``<think>``, but not next to
    another one; if the schema requires a number, a string may contain it. `check` returns any other error of a value that
    satisfies the schema, such as "the id 3 comes twice", or "".

    >>> complete_json(lambda prompt: '{"year": 1801}', "When was the loom built?", {"type": "object", "required": ["year"]})
    {'year': 1801}
    """
    schema_text = check_schema(schema)
    language_model = as_language_model(model)
    task = f"{prompt}\n\nAnswer with one JSON value of this schema, and with nothing else:\n{schema_text}"
    text, fault = task, ""
    for _ in range(positive("attempts", attempts)):
        answer = complete_text(language_model, text, schema)
        value, fault = _read_answer(answer, schema)
        fault = fault or (check(value) if check is not None else "")
        if not fault:
            return value
        text = f"{task}\n\nAn earlier answer was rejected, since {fault}. It was:\n{answer[:2000]}"
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
    check: Callable[[Any], str] | None = None,
    workers: int | None = None,
    show_progress: bool = False,
    description: str = "asking",
) -> list[Any]:
    """Return the JSON answers to prompts, in their order; an answer is what :func:`complete_json` returns or raises.

    `schema` is one for all n prompts, or a sequence with one per prompt. `workers` prompts are sent at the same time, by default 4,
    or as many as the caller's batch may ask at once (:func:`~graph_retrievers.concurrency.at_most`); 1 uses the calling thread, for
    models that are not thread-safe. After an error the other prompts are still sent. `description` is the text of the progress bar;
    the other arguments are those of :func:`complete_json`.

    >>> complete_many(lambda prompt: "1801", ["When?", "When then?"], {"type": "integer"}, workers=1)
    [1801, 1801]
    """
    workers = positive("workers", most_calls(4) if workers is None else workers)
    language_model = as_language_model(model)
    schemas = [schema] * len(prompts) if isinstance(schema, Mapping) else list(schema)
    if len(schemas) != len(prompts):
        raise InvalidArgumentError(
            f"{len(schemas)} schemas were given for {len(prompts)} prompts; pass one schema, or one per prompt."
        )

    def ask(position: int) -> Any:
        try:
            return complete_json(language_model, prompts[position], schemas[position], attempts=attempts, check=check)
        except LanguageModelError as error:
            return error
        finally:
            bar.update()

    with progress_bar(total=len(prompts), desc=description, unit="prompt", disable=not show_progress) as bar, at_most(workers):
        return in_threads(ask, range(len(prompts)))


def failure_note(error: Exception, instead: str) -> str:
    """Return the note on a question for which a language model failed: why, in a line of 200 characters, and what was done instead.

    No search raises this error: it goes on without the answer, and its hits have this note.

    >>> failure_note(LanguageModelError("The language model failed (RuntimeError: no quota)."), "all facts are kept")
    'The language model failed (RuntimeError: no quota); all facts are kept'
    """
    return f"{one_line(reason(error).rstrip('.'), 200)}; {instead}"


_FENCE = re.compile(r"```(?:json)?[^\S\n]*\n(.*)\n[^\S\n]*```", re.DOTALL)
# What models that reason write first; some servers leave out where it begins.
_THOUGHTS = "</think>"
_INTEGER = r"-?(?:0|[1-9][0-9]{0,15})"
_NUMBERS = {"integer": re.compile(_INTEGER), "number": re.compile(rf"{_INTEGER}(?:\.[0-9]{{1,15}})?")}
_SURROGATE = re.compile("[\ud800-\udfff]")
# The longest answer, in characters; models write less at a time. The most faults among which the worst is looked for.
_LONGEST_ANSWER, _MOST_FAULTS = 200_000, 100


def _read_answer(answer: str, schema: Schema) -> tuple[Any, str]:
    """Return the value of an answer, and what is wrong with it, "" if it satisfies the schema."""
    try:
        try:
            value = _coerced(_parse(answer, schema), schema)
        except ValueError as error:
            return None, f"it is not JSON ({error})"
        return value, _fault(value, schema)
    except RecursionError:
        return None, "it is not JSON (nested too deeply)"


def _parse(answer: str, schema: Schema) -> Any:
    """Return the JSON value of an answer: all of it, what one Markdown fence holds, or the only object in a text."""
    if len(answer) > _LONGEST_ANSWER:
        raise ValueError(f"it has {len(answer)} characters, at most {_LONGEST_ANSWER} are read")
    text = answer.strip()
    fence = _FENCE.fullmatch(text)

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not a JSON number")

    try:
        value = json.loads(fence.group(1) if fence else text, parse_constant=constant)
    except ValueError:
        values = _values(text, json.JSONDecoder(parse_constant=constant), "[" if schema.get("type") == "array" else "{")
        if not values:
            raise
        if any(json.dumps(other) != json.dumps(values[0]) for other in values[1:]):
            raise ValueError(f"it holds {len(values)} JSON values that differ") from None
        value = values[0]
    # A number that is too large for a float, such as 1e999, was read as infinite.
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False, allow_nan=False)):
        raise ValueError("it holds half of a surrogate pair")
    return value


def _values(text: str, decoder: json.JSONDecoder, opening: str) -> list[Any]:
    """Return the JSON values in a text after the model's thoughts; none if a bracket opens what is not JSON."""
    if text.startswith("<think>") and _THOUGHTS not in text:
        return []
    values, place = list[Any](), text.find(opening, text.find(_THOUGHTS) + 1)
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
        except ValueError:
            return []
        values.append(value)
        place = text.find(opening, end)
    return values


def _coerced(value: Any, schema: Any) -> Any:
    """Return a value whose texts are numbers where a schema asks for numbers, and they spell some."""
    if not isinstance(schema, Mapping):
        return value
    kind = schema.get("type")
    if isinstance(value, str) and isinstance(kind, str) and kind in _NUMBERS:
        return json.loads(value) if _NUMBERS[kind].fullmatch(value) else value
    if isinstance(value, list):
        return [_coerced(item, schema.get("items")) for item in value]
    if isinstance(value, dict) and isinstance(schema.get("properties"), Mapping):
        return {key: _coerced(item, schema["properties"].get(key)) for key, item in value.items()}
    return value


def check_schema(schema: Schema) -> str:
    """Return the text of a JSON schema (draft 2020-12); raise InvalidArgumentError if it is not one."""
    try:
        text = json.dumps(schema, ensure_ascii=False)
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise InvalidArgumentError(f"This is not a JSON schema: {error.message}, at {error.json_path}.") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{shown(schema)} is not a JSON schema; expected a mapping that JSON holds.") from error
    return text


def _fault(value: Any, schema: Schema) -> str:
    """Return what is wrong with a value, "" if it satisfies the schema."""
    # An empty registry: a schema that refers to another document is an error, not a download.
    try:
        problem = best_match(islice(Draft202012Validator(schema, registry=Registry()).iter_errors(value), _MOST_FAULTS))
    except Unresolvable as error:
        raise InvalidArgumentError(f"The schema cannot be checked: {error}") from error
    return "" if problem is None else f"at {problem.json_path}, {problem.message:.300}"
