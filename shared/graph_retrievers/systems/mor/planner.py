"""Planners (MoR, section 3.1.2): from a question to a plan, by a language model of any kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from graph_retrievers.arguments import called
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.signals.language import as_language_model, complete_many
from graph_retrievers.systems.mor.parse import PLAN_SCHEMA, read_plan
from graph_retrievers.systems.mor.plan import GraphSchema

__all__ = ["EXAMPLES", "LanguageModelPlanner", "Planner", "as_planner", "planning_prompt"]

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
"""Questions with their plans for prompts; examples of one's own graph are better."""

_SCHEMA_LINES = 300
"""Lines of a schema that are written to a prompt."""

_TASK = """You plan a search in a graph of typed nodes. Write the paths that lead from nodes named in the question to the \
nodes it asks for.
- A path is a list of steps. The first step is a node type with a restriction: the words of the question that name where \
to start.
- Each further step is a node type, and the relation that leads to it from the step before; relations can be walked in \
either direction. Leave the relation out if any will do.
- A step has a restriction where the question says something about that node.
- Every path ends in the type of the nodes the question asks for. Where several conditions must hold, write one path for each.
- Use only the node types and relations of the graph."""


@runtime_checkable
class Planner(Protocol):
    """What a retriever asks of a planner."""

    def plan(self, queries: Sequence[str], graph: CorpusGraph) -> list[Any]:
        """Return a plan for each question, in any form that :func:`~graph_retrievers.systems.mor.parse.read_plan` reads.

        A question without a plan gets a GraphRetrieverError that says why, returned and not raised.
        """


def planning_prompt(question: str, schema: GraphSchema, examples: Sequence[tuple[str, Any]] = EXAMPLES) -> str:
    """Return a prompt for a plan: the task, the graph's schema, examples of questions with plans, and the question."""
    lines = schema.describe().split("\n")
    if len(lines) > _SCHEMA_LINES:
        lines[_SCHEMA_LINES:] = [f"({len(lines) - _SCHEMA_LINES} more)"]
    shown = [f"Question: {json.dumps(q)}\nPlan: {json.dumps(read_plan(plan).to_dict())}" for q, plan in examples]
    header = ["Examples, of other graphs:"] if shown else []
    parts = [[_TASK], ["The graph:", *lines], header + shown, [f"Question: {json.dumps(question)}", "Plan:"]]
    return "\n\n".join("\n".join(part) for part in parts if part)


class LanguageModelPlanner:
    """Plans by any language model, as JSON that fits :data:`~graph_retrievers.systems.mor.parse.PLAN_SCHEMA`.

    Parameters
    ----------
    model : object
        See :func:`graph_retrievers.signals.language.as_language_model`.
    examples : sequence of (str, plan), default :data:`EXAMPLES`
    attempts : int, default 3
        Times to ask for one plan.
    workers : int, default 4
        Questions that are asked at the same time.

    Examples
    --------
    >>> answer = '{"paths": [[{"type": "person", "restriction": "Ada"}, {"type": "movie"}]]}'
    >>> plans = LanguageModelPlanner(lambda prompt: answer).plan(["Which film did Ada write?"], CorpusGraph(["p"], [""]))
    >>> print(read_plan(plans[0]))
    person<Ada> - movie
    """

    name = "language-model-planner"

    def __init__(self, model: Any, *, examples: Sequence[tuple[str, Any]] = EXAMPLES, attempts: int = 3, workers: int = 4) -> None:
        self.model = as_language_model(model)
        self.examples, self.attempts, self.workers = list(examples), attempts, workers

    def plan(self, queries: Sequence[str], graph: CorpusGraph) -> list[Any]:
        """Return a plan for each question, or the LanguageModelError of the question that got none."""
        schema = GraphSchema.of(graph)
        prompts = [planning_prompt(query, schema, self.examples) for query in queries]
        plans = dict(complete_many(self.model, prompts, PLAN_SCHEMA, attempts=self.attempts, workers=self.workers))
        return [plans[place] for place in range(len(prompts))]


class _CallablePlanner:
    """A function from a question to a plan, as a planner."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._function = function

    def plan(self, queries: Sequence[str], graph: CorpusGraph) -> list[Any]:
        return [called("The planner", self._function, query) for query in queries]


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
