"""Planners (MoR, section 3.1.2): from a question to a plan, by a language model of any kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from graph_retrievers.device import resolve_device
from graph_retrievers.errors import (
    GraphRetrieverError,
    InvalidArgumentError,
    InvalidPlanError,
    LanguageModelError,
    reason,
    shown,
)
from graph_retrievers.graph.facts import GraphFacts
from graph_retrievers.signals.language import as_language_model, complete_many
from graph_retrievers.signals.loading import load_pretrained
from graph_retrievers.systems.asking import prompt_text
from graph_retrievers.systems.mor.parse import PLAN_SCHEMA, read_plan
from graph_retrievers.systems.mor.plan import TypeSchema

__all__ = ["LanguageModelPlanner"]

EXAMPLES: tuple[tuple[str, Any], ...] = (
    (
        "Publications by Northfield University authors on galaxy rotation curves",
        [
            {"type": "institution", "restriction": ["Northfield University"]},
            {"type": "author", "relation": "affiliated_with"},
            {"type": "paper", "relation": "writes", "restriction": ["galaxy rotation curves"]},
        ],
    ),
    (
        "Which drugs treat asthma and target the gene ADRB2?",
        {
            "paths": [
                [{"type": "disease", "restriction": ["asthma"]}, {"type": "drug", "relation": "indication"}],
                [{"type": "gene", "restriction": ["ADRB2"]}, {"type": "drug", "relation": "target"}],
            ]
        },
    ),
)
"""Questions with their plans for prompts; examples for your own graph are better."""

_SCHEMA_LINES = 300
"""Lines of a schema that are written to a prompt."""


@runtime_checkable
class Planner(Protocol):
    """Interface of a planner."""

    def plan(self, queries: Sequence[str], graph: GraphFacts) -> list[Any]:
        """Return a plan for each question, in any form that :func:`~graph_retrievers.systems.mor.parse.read_plan` reads.

        A question without a plan gets a GraphRetrieverError that says why, returned and not raised.
        """


def planning_prompt(question: str, schema: TypeSchema, examples: Sequence[tuple[str, Any]] = EXAMPLES) -> str:
    """Return the prompt for a plan: the task, the graph's schema, examples of questions with plans, and the question."""
    lines = schema.describe().split("\n")
    if len(lines) > _SCHEMA_LINES:
        lines[_SCHEMA_LINES:] = [f"({len(lines) - _SCHEMA_LINES} more)"]
    blocks = [f"Question: {json.dumps(q)}\nPlan: {json.dumps(read_plan(plan).to_dict())}" for q, plan in examples]
    header = ["Examples, of other graphs:"] if blocks else []
    parts = [[prompt_text("mor-plan")], ["The graph:", *lines], header + blocks, [f"Question: {json.dumps(question)}", "Plan:"]]
    return "\n\n".join("\n".join(part) for part in parts if part)


class LanguageModelPlanner:
    """Plans from any language model, as JSON that matches :data:`~graph_retrievers.systems.mor.parse.PLAN_SCHEMA`.

    Parameters
    ----------
    model : object
        See :func:`graph_retrievers.signals.language.as_language_model`.
    examples : sequence of (str, plan), default :data:`EXAMPLES`
    attempts : int, default 3
        Maximum number of calls for one plan.
    workers : int, default 4
        Number of concurrent questions.

    Examples
    --------
    >>> answer = '{"paths": [[{"type": "person", "restriction": "Ada"}, {"type": "movie"}]]}'
    >>> from graph_retrievers.graph import CorpusGraph
    >>> plans = LanguageModelPlanner(lambda prompt: answer).plan(["Which film did Ada write?"], CorpusGraph(["p"], [""]))
    >>> print(read_plan(plans[0]))
    person<Ada> - movie
    """

    name = "language-model-planner"

    def __init__(self, model: Any, *, examples: Sequence[tuple[str, Any]] = EXAMPLES, attempts: int = 3, workers: int = 4) -> None:
        self.model = as_language_model(model)
        self.examples, self.attempts, self.workers = list(examples), attempts, workers

    def plan(self, queries: Sequence[str], graph: GraphFacts) -> list[Any]:
        """Return a plan for each question, or the LanguageModelError of the question that got none."""
        schema = TypeSchema.of(graph)
        prompts = [planning_prompt(query, schema, self.examples) for query in queries]
        return complete_many(self.model, prompts, PLAN_SCHEMA, attempts=self.attempts, workers=self.workers)


class CausalPlanner:
    """Plans from a local Hugging Face causal language model, such as the paper's fine-tuned Llama.

    Parameters
    ----------
    model : str or Path
        Name on a hub, or a folder. It is loaded at the first question.
    examples : sequence of (str, plan), optional
        For a model that is not fine-tuned: the prompt of :func:`planning_prompt` with these examples. By default only the
        question is the prompt, for a fine-tuned model.
    max_new_tokens : int, default 128
        Maximum length of the plan, as published.
    batch_size : int, default 8
        Questions per batch.
    device : str or torch.device, optional
        Device of the model; the CPU by default.

    Notes
    -----
    Decoding is greedy, so that a question always gets the same plan; the published code samples at temperature 1.5. A chat
    template of the tokenizer is used, without a system prompt. Weights are read from safetensors only; code of a model
    repository is never run.
    """

    name = "causal-planner"

    def __init__(
        self,
        model: str | Path,
        *,
        examples: Sequence[tuple[str, Any]] | None = None,
        max_new_tokens: int = 128,
        batch_size: int = 8,
        device: Any = None,
    ) -> None:
        self._source, self.examples = str(model), examples
        self.max_new_tokens, self.batch_size = max_new_tokens, batch_size
        self.device = resolve_device(device)
        self._loaded: tuple[Any, Any] | None = None

    def _model(self) -> tuple[Any, Any]:
        if self._loaded is None:
            tokenizer, model = load_pretrained(self._source, "AutoModelForCausalLM", "language model")
            tokenizer.padding_side = "left"
            if tokenizer.pad_token is None:
                tokenizer.pad_token = tokenizer.eos_token
            self._loaded = tokenizer, model.eval().to(self.device)
        return self._loaded

    def plan(self, queries: Sequence[str], graph: GraphFacts) -> list[str]:
        """Return the text the model writes for each question."""
        import torch

        tokenizer, model = self._model()
        schema = TypeSchema.of(graph)
        prompts = [q if self.examples is None else planning_prompt(q, schema, self.examples) for q in queries]
        chat = bool(getattr(tokenizer, "chat_template", None))
        if chat:
            turns = [[{"role": "user", "content": prompt}] for prompt in prompts]
            prompts = [tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True) for turn in turns]
        texts: list[str] = []
        for start in range(0, len(prompts), self.batch_size):
            # A chat template adds the special tokens itself.
            part = prompts[start : start + self.batch_size]
            batch = tokenizer(part, return_tensors="pt", padding=True, add_special_tokens=not chat).to(self.device)
            inputs = {key: batch[key] for key in ("input_ids", "attention_mask")}
            limits = {"max_new_tokens": self.max_new_tokens, "do_sample": False, "pad_token_id": tokenizer.pad_token_id}
            with torch.inference_mode():
                tokens = model.generate(**inputs, **limits)
            texts += tokenizer.batch_decode(tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        return texts


class _CallablePlanner:
    """A function from a question to a plan, as a planner."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._function = function

    def plan(self, queries: Sequence[str], graph: GraphFacts) -> list[Any]:
        return list(map(self._plan, queries))

    def _plan(self, query: str) -> Any:
        try:
            return self._function(query)
        except Exception as error:
            return failed_plan(error)


def failed_plan(error: Exception) -> GraphRetrieverError:
    """Return what a question gets if its planner fails; errors of this package other than a language model's are raised."""
    if isinstance(error, GraphRetrieverError):
        if not isinstance(error, LanguageModelError):
            raise error
        return error
    return InvalidPlanError(f"The planner failed ({reason(error)}).")


def as_planner(planner: Any) -> Planner:
    """Return a :class:`Planner`, or a function from a question to a plan as one; InvalidArgumentError for anything else."""
    if callable(getattr(planner, "plan", None)) and not isinstance(planner, type):
        return planner  # type: ignore[no-any-return]
    if callable(planner) and not isinstance(planner, type):
        return _CallablePlanner(planner)
    raise InvalidArgumentError(
        f"{shown(planner)} is not a planner; pass an object with plan(queries, graph), such as LanguageModelPlanner(model), "
        "or a function from a question to a plan."
    )
