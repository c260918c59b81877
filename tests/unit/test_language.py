"""The port to language models: what fits it, and answers held to a schema."""

import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.language_models.llms import LLM as LangChainLLM
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata

from graph_retrievers.errors import InvalidArgumentError, LanguageModelError
from graph_retrievers.signals import language
from graph_retrievers.signals.language import LanguageModel, as_language_model, complete_json, complete_many, failure_note

NAMES = {
    "type": "object",
    "properties": {"names": {"type": "array", "items": {"type": "string", "minLength": 1}}},
    "required": ["names"],
    "additionalProperties": False,
}


class Script:
    """A callable model that gives answers one after another and keeps the prompts."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.prompts = list(answers), []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.answers.pop(0)


class ToolCaller(BaseChatModel):
    """A chat model that can be held to a schema: it answers by calling the tool it is given."""

    arguments: dict[str, Any]
    content: str = ""
    tool: str = ""

    @property
    def _llm_type(self) -> str:
        return "tool-caller"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        name = tools[0].get("title") or tools[0]["name"]
        return self.model_copy(update={"tool": name})

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        calls = [{"name": self.tool, "args": self.arguments, "id": "1"}] if self.tool and self.arguments else []
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.content, tool_calls=calls))])


class Completer(CustomLLM):
    answer: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="completer")

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self.answer)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


class PlainLLM(LangChainLLM):
    @property
    def _llm_type(self) -> str:
        return "plain"

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        return "plain answer"


def test_models_of_both_frameworks_and_callables_fit_the_port():
    assert as_language_model(lambda prompt: prompt.upper()).complete("a") == "A"
    assert as_language_model(FakeListChatModel(responses=["hello"])).complete("a") == "hello"
    assert as_language_model(PlainLLM()).complete("a") == "plain answer"
    assert as_language_model(Completer(answer="done")).complete("a") == "done"

    class Own:
        def complete(self, prompt, schema=None):
            return json.dumps(schema)

    own = Own()
    assert isinstance(own, LanguageModel) and as_language_model(own) is own
    assert as_language_model(own).complete("a", {"type": "object"}) == '{"type": "object"}'


@pytest.mark.parametrize("model", [None, "gpt", 3, FakeListChatModel])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(InvalidArgumentError, match="not a language model"):
        as_language_model(model)


def test_a_chat_model_is_held_to_the_schema_where_it_can_be():
    model = ToolCaller(arguments={"names": ["Ada"]}, content="not JSON at all")
    assert complete_json(model, "Who?", NAMES) == {"names": ["Ada"]}


def test_a_chat_model_that_calls_no_tool_is_read_as_text():
    model = ToolCaller(arguments={}, content='{"names": ["Bo"]}')
    assert complete_json(model, "Who?", NAMES) == {"names": ["Bo"]}


def test_a_chat_model_without_structured_output_is_asked_in_words():
    assert complete_json(FakeListChatModel(responses=['{"names": []}']), "Who?", NAMES) == {"names": []}


def test_content_blocks_are_joined():
    class Blocks(FakeListChatModel):
        def invoke(self, *args: Any, **kwargs: Any) -> AIMessage:
            return AIMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])

    assert as_language_model(Blocks(responses=["x"])).complete("q") == "ab"


def test_a_rejected_answer_is_asked_again_with_the_reason():
    model = Script("Sure! Here it is.", '{"names": [3]}', '```json\n{"names": ["Ada"]}\n```')
    assert complete_json(model, "Who?", NAMES) == {"names": ["Ada"]}
    first, second, third = model.prompts
    assert first.startswith("Who?") and json.dumps(NAMES) in first
    assert "it is not JSON" in second and "Sure! Here it is." in second
    assert "at $.names[0], 3 is not of type 'string'" in third


def test_reading_a_long_wrong_answer_is_bounded(monkeypatch):
    told, best_match = [], language.best_match
    monkeypatch.setattr(language, "best_match", lambda errors: best_match(told.append(found := list(errors)) or found))
    with pytest.raises(LanguageModelError, match=r"of the last, at \$.names\[99\], 1 is not of type 'string'"):
        complete_json(lambda prompt: json.dumps({"names": [1] * 5000}), "Who?", NAMES)
    assert [len(found) for found in told] == [100] * 3
    longest = json.dumps("x" * 199_998)
    assert complete_json(lambda prompt: longest, "Who?", {"type": "string"}) == "x" * 199_998
    with pytest.raises(LanguageModelError, match="it has 200001 characters, at most 200000 are read"):
        complete_json(lambda prompt: longest + " ", "Who?", {"type": "string"})


def test_attempts_are_bounded_and_the_error_says_what_was_wrong():
    model = Script("a", "b", "c")
    with pytest.raises(LanguageModelError, match="in 2 attempts; of the last, it is not JSON.*It began 'b'"):
        complete_json(model, "Who?", NAMES, attempts=2)
    assert len(model.prompts) == 2
    with pytest.raises(InvalidArgumentError, match="attempts"):
        complete_json(model, "Who?", NAMES, attempts=0)


def test_an_error_of_the_model_is_not_repeated():
    calls = []

    def failing(prompt):
        calls.append(prompt)
        raise TimeoutError("no answer in 60 s")

    with pytest.raises(LanguageModelError, match="TimeoutError: no answer in 60 s") as caught:
        complete_json(failing, "Who?", NAMES)
    assert len(calls) == 1 and isinstance(caught.value.__cause__, TimeoutError)

    class Unspeakable(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def unspeakable(prompt):
        raise Unspeakable

    with pytest.raises(LanguageModelError, match=r"The language model failed \(Unspeakable\)\."):
        complete_json(unspeakable, "Who?", NAMES)
    with pytest.raises(LanguageModelError, match="expected a text"):
        complete_json(lambda prompt: {"names": []}, "Who?", NAMES)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, 3, True),
        ({"type": "number"}, 2.5, False),
        ({"type": ["string", "null"]}, None, 3),
        ({"type": "boolean"}, False, 0),
        ({"enum": ["a", "b"]}, "b", "c"),
        ({"type": "string", "minLength": 2, "maxLength": 3}, "ab", "a"),
        ({"type": "array", "minItems": 1, "maxItems": 2}, [1], [1, 2, 3]),
        ({"type": "number", "minimum": 0, "maximum": 1}, 0.5, 1.5),
        ({"type": "object", "required": ["a"]}, {"a": 1}, {"b": 1}),
        ({"properties": {"a": {"type": "string"}}, "additionalProperties": False}, {"a": "x"}, {"b": "x"}),
        ({"items": {"items": {"type": "integer"}}}, [[1], []], [[1], ["x"]]),
        ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 5}]}, 7, 4),
    ],
)
def test_each_schema_keyword_is_checked(schema, good, bad):
    assert complete_json(lambda prompt: json.dumps(good), "q", schema) == good
    with pytest.raises(LanguageModelError, match="No answer of the language model satisfied the schema"):
        complete_json(lambda prompt: json.dumps(bad), "q", schema, attempts=1)


@pytest.mark.parametrize(
    "answer",
    [
        "NaN",
        '{"a": Infinity}',
        '{"a": 1e999}',
        "[-1e999]",
        '{"a": 1} and {"a": 2}',
        '{x} is {"a": 1}',
        "1 and more",
        "",
        "```\n1\n```\n```\n2\n```",
    ],
)
def test_what_is_almost_json_is_rejected(answer):
    with pytest.raises(LanguageModelError):
        complete_json(lambda prompt: answer, "q", {}, attempts=1)


@pytest.mark.parametrize("schema", [{"type": "text"}, {"minItems": -1}, {"items": {"oneOf": []}}, []])
def test_what_is_not_a_schema_is_refused(schema):
    with pytest.raises(InvalidArgumentError, match="not a JSON schema"):
        complete_json(lambda prompt: "1", "q", schema)


def test_a_schema_never_fetches_another_document():
    with pytest.raises(InvalidArgumentError, match="cannot be checked"):
        complete_json(lambda prompt: "1", "q", {"$ref": "https://example.org/schema.json"})


LEAVES = st.none() | st.booleans() | st.integers() | st.text()


@pytest.mark.slow
@settings(max_examples=60)
@given(st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_json_value_comes_through_unchanged(value):
    assert complete_json(lambda prompt: json.dumps(value), "q", {}) == value


def test_many_prompts_run_together_and_one_failure_stops_nothing():
    under_way, most, lock, three = 0, 0, threading.Lock(), threading.Barrier(3)

    def model(prompt):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        three.wait(60)
        with lock:
            under_way -= 1
        if prompt.startswith("bad"):
            raise ConnectionError("gone")
        return json.dumps({"names": [prompt.split("\n")[0]]})

    prompts = ["a", "bad", "c", "d", "e", "f"]
    answers = complete_many(model, prompts, NAMES, workers=3)
    assert most == 3
    assert isinstance(answers.pop(1), LanguageModelError)
    assert answers == [{"names": [p]} for p in prompts if p != "bad"]


def test_a_note_on_a_failure_is_one_line_of_whole_words():
    error = LanguageModelError("The language model failed (RuntimeError: " + "quota exceeded,\n" * 100 + ").")
    note = failure_note(error, "all facts are kept")
    assert note == f"The language model failed (RuntimeError: {'quota exceeded, ' * 9}quota ...; all facts are kept"
    assert len(note.partition(";")[0]) <= 200


def test_one_worker_asks_in_the_calling_thread_and_in_order():
    threads = []

    def model(prompt):
        threads.append(threading.current_thread())
        return "1"

    assert complete_many(model, ["a", "b"], {"type": "integer"}, workers=1) == [1, 1]
    assert set(threads) == {threading.current_thread()}


def test_each_prompt_may_have_its_own_schema():
    schemas = [{"enum": ["a"]}, {"enum": ["b"]}]
    answers = complete_many(lambda prompt: '"a"', ["x", "y"], schemas, attempts=1)
    assert answers[0] == "a" and isinstance(answers[1], LanguageModelError)
    with pytest.raises(InvalidArgumentError, match="2 schemas were given for 1 prompts"):
        complete_many(lambda prompt: '"a"', ["x"], schemas)


class Structured:
    """A chat model with structured output: it answers with a value that is already parsed, and keeps the schemas."""

    def __init__(self, parsed):
        self.parsed, self.schemas = parsed, []

    def invoke(self, prompt):
        return {"parsed": self.parsed, "raw": "not JSON"}

    def with_structured_output(self, schema, include_raw):
        self.schemas.append(schema)
        return self


@pytest.mark.parametrize("answer", [[], {}, 0, False, ""])
def test_a_structured_answer_without_content_is_an_answer(answer):
    assert complete_json(Structured(answer), "Which?", {}, attempts=1) == answer


def test_a_schema_keeps_its_own_title_and_description():
    model = Structured(1)
    port = as_language_model(model)
    for schema in ({"type": "integer"}, {"title": "Year", "type": "integer"}, {"title": "Year", "description": "When."}):
        port.complete("When?", schema)
    assert [(schema["title"], schema["description"]) for schema in model.schemas] == [
        ("Answer", "The answer."),
        ("Year", "The answer."),
        ("Year", "When."),
    ]


def test_an_answer_of_brackets_without_end_is_not_json():
    with pytest.raises(LanguageModelError, match="in 1 attempts; of the last, it is not JSON"):
        complete_json(lambda prompt: "[" * 100_000, "Which?", {}, attempts=1)


def test_one_object_in_a_text_is_the_answer():
    assert complete_json(lambda prompt: 'So: {"a": 1} and more', "q", {}) == {"a": 1}
    assert complete_json(lambda prompt: "The list {of all} is [1, 2].", "q", {"type": "array"}) == [1, 2]
    assert complete_json(lambda prompt: '"</think> {}"', "q", {}) == "</think> {}"


def test_a_text_that_spells_a_number_is_one_where_a_number_is_asked_for():
    schema = {"properties": {"n": {"type": "integer"}, "x": {"type": "number"}, "s": {"type": "string"}}}
    assert complete_json(lambda prompt: '{"n": "12", "x": "-2.5", "s": "3", "o": "4"}', "q", schema) == {
        "n": 12,
        "x": -2.5,
        "s": "3",
        "o": "4",
    }
    for wrong in ('{"n": "1.5"}', '{"n": " 1"}', '{"n": "1e3"}', '{"x": "NaN"}', '{"n": "\u0663"}'):
        with pytest.raises(LanguageModelError, match="is not of type"):
            complete_json(lambda prompt, wrong=wrong: wrong, "q", schema, attempts=1)


@pytest.mark.filterwarnings("error")
def test_what_must_be_awaited_is_refused():
    async def ask(prompt):
        return "1"

    class Asked:
        async def __call__(self, prompt):
            return "1"

    class Completed:
        async def complete(self, prompt, schema=None):
            return "1"

    for model in (ask, Asked(), Completed()):
        with pytest.raises(InvalidArgumentError, match="asynchronous"):
            as_language_model(model)
    with pytest.raises(LanguageModelError, match="asynchronous"):
        complete_json(lambda prompt: ask(prompt), "q", {})


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_chat_model_that_can_only_be_awaited_is_awaited():
    import asyncio

    class Awaited(ToolCaller):
        def _generate(self, *arguments, **keywords):
            raise NotImplementedError

        async def _agenerate(self, messages, stop=None, run_manager=None, **keywords):
            await asyncio.sleep(0)
            return ChatResult(generations=[ChatGeneration(message=AIMessage('{"names": ["Ada"]}'))])

        def with_structured_output(self, *arguments, **keywords):
            raise NotImplementedError

    async def inside():
        return complete_json(Awaited(arguments={}), "Who?", NAMES)

    assert complete_json(Awaited(arguments={}), "Who?", NAMES) == asyncio.run(inside()) == {"names": ["Ada"]}
