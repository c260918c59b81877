"""Planning graphs (MoR, section 3.1), the schema of a graph, and the rules that plans must pass (section 4.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.facts import GraphFacts

MAX_PATHS, MAX_STEPS = 16, 8
"""Maximum number of paths of a plan, and of steps of a path; planners write one to four paths."""


@dataclass(frozen=True)
class PathStep:
    """One node of a reasoning path: its type, and phrases of the question that it must match.

    `relation` is that of the edge from the previous step, in either direction; None for the first step, and for any relation.
    """

    type: str
    relation: str | None = None
    restriction: tuple[str, ...] = ()

    @property
    def phrase(self) -> str:
        """The restriction as one text."""
        return " ".join(self.restriction)


@dataclass(frozen=True)
class ReasoningPath:
    """Steps from the nodes where a search starts to the requested nodes."""

    steps: tuple[PathStep, ...]

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.steps)

    def __str__(self) -> str:
        """Return the path as text, e.g. ``person<Tom Hanks> -[starred_actors]- movie``."""
        links = ["", *(f" -[{step.relation}]- " if step.relation else " - " for step in self.steps[1:])]
        nodes = [step.type + (f"<{step.phrase}>" if step.restriction else "") for step in self.steps]
        return "".join(link + node for link, node in zip(links, nodes, strict=False))


@dataclass(frozen=True)
class PlanningGraph:
    """A plan: reasoning paths that all lead to the requested nodes (MoR, section 3.1.1).

    Examples
    --------
    >>> start = PathStep("person", restriction=("Tom Hanks",))
    >>> plan = PlanningGraph((ReasoningPath((start, PathStep("movie", "starred_actors"))),))
    >>> print(plan)
    person<Tom Hanks> -[starred_actors]- movie
    >>> plan.to_dict()["paths"][0][1]
    {'type': 'movie', 'relation': 'starred_actors'}
    """

    paths: tuple[ReasoningPath, ...] = ()

    def __str__(self) -> str:
        """Return the paths as text, joined by " & "."""
        return " & ".join(str(path) for path in self.paths)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in the JSON form that :func:`graph_retrievers.systems.mor.parse.read_plan` reads."""
        return {"paths": [[_step_dict(step) for step in path.steps] for path in self.paths]}


def _step_dict(step: PathStep) -> dict[str, Any]:
    fields = {"type": step.type, "relation": step.relation, "restriction": list(step.restriction)}
    return {name: value for name, value in fields.items() if value or name == "type"}


class TypeSchema:
    """The node types of a graph, and the relations that join them.

    Parameters
    ----------
    triples : iterable of (type, relation, type)
        Edges as in the graph; a relation can be followed in either direction.
    types : iterable of str, optional
        Node types; those of the triples are added.
    targets : iterable of str, optional
        Types that questions ask for: a path must end in one of them. All types by default.

    Examples
    --------
    >>> schema = TypeSchema([("movie", "directed_by", "person"), ("movie", "written_by", "person")])
    >>> schema.relations("person", "movie")
    ['directed_by', 'written_by']
    """

    def __init__(
        self, triples: Iterable[tuple[str, str, str]], *, types: Iterable[str] = (), targets: Iterable[str] | None = None
    ) -> None:
        self.directed_triples = sorted(set(triples))
        self.triples = {t for a, r, b in self.directed_triples for t in ((a, r, b), (b, r, a))}
        self.types = sorted({*types, *(t for a, _, b in self.directed_triples for t in (a, b))})
        self.targets = self.types if targets is None else sorted(set(targets))
        unknown = [t for t in self.targets if t not in self.types]
        if unknown:
            raise InvalidArgumentError(f"Target types {unknown} are not in the graph; its types are {', '.join(self.types)}.")
        self._between: dict[tuple[str, str], list[str]] = {}
        for a, r, b in sorted(self.triples):
            self._between.setdefault((a, b), []).append(r)

    @classmethod
    def of(cls, graph: GraphFacts, targets: Iterable[str] | None = None) -> TypeSchema:
        """Return the schema of a graph, read from its relationship rows or kept with it."""
        return cls(graph.fact("schema triples", _triples), types=graph.type_names, targets=targets)

    def relations(self, near: str, far: str) -> list[str]:
        """Return the relations that join two types, in alphabetical order."""
        return self._between.get((near, far), [])

    def describe(self) -> str:
        """Return the schema as text for a prompt: the types, then a line for each triple."""
        lines = [f"{a} -[{r}]-> {b}" if r else f"{a} --> {b}" for a, r, b in self.directed_triples]
        parts = ["Node types: " + ", ".join(t or "(none)" for t in self.types), "Relations:", *lines]
        return "\n".join(" ".join(line.split()) for line in parts)


def _triples(graph: CorpusGraph) -> list[tuple[str, str, str]]:
    """Return the distinct (type, relation, type) of a graph's relationship rows."""
    names, relations = graph.type_names, graph.relation_names
    kinds, size = graph.node_types.long(), max(len(relations), 1)
    codes = torch.unique((kinds[graph.sources] * size + graph.relations.long()) * len(names) + kinds[graph.targets])
    parts = [(*divmod(code // len(names), size), code % len(names)) for code in codes.tolist()]
    return [(names[head], relations[relation], names[tail]) for head, relation, tail in parts]


@dataclass(frozen=True)
class PlanCheck:
    """The result of :func:`check_plan` for a plan.

    `plan` has the paths that can be followed; if there are none, text retrieval is used. `reason` is "" if there is a path, else
    "empty", "single node", "invalid" or "no start restriction". `dropped` counts paths that do not match the schema, `skipped`
    those without a restriction at their start; `note` says the same as a message, "" if every path can be followed.
    """

    plan: PlanningGraph
    reason: str = ""
    dropped: int = 0
    skipped: int = 0
    note: str = ""


def check_plan(plan: PlanningGraph, schema: TypeSchema, last_steps: int | None = None) -> PlanCheck:
    """Apply the validity rules to a plan (MoR, section 4.1, and its published code); errors are in the note, and nothing is raised.

    In order: a plan without a path is empty; a single path of one node has no step to take; a path is dropped if it does not end
    in a target type, has an unknown type, or takes a step that the schema does not have; a path is skipped if its first node has
    no restriction, because the search would have no start. `last_steps` is the number of steps to keep at the end of each path (3
    in the published code for two of its graphs); all by default.

    >>> from graph_retrievers.systems.mor import read_plan
    >>> schema = TypeSchema([("movie", "directed_by", "person")])
    >>> plan = read_plan([{"type": "person", "restriction": "Ada"}, {"type": "movie", "relation": "sings"}])
    >>> check_plan(plan, schema).note
    "The plan cannot be walked: no relation 'sings' joins person and movie; text retrieval was used instead."
    """
    paths = plan.paths
    if len(paths) > MAX_PATHS or any(len(p) > MAX_STEPS for p in paths):
        sizes = f"{len(paths)} paths of up to {max(len(p) for p in paths)} steps"
        return _refusal("invalid", f"it has {sizes}, but at most {MAX_PATHS} of {MAX_STEPS} are walked", dropped=len(paths))
    if not any(len(path) for path in paths):
        return _refusal("empty", "it has no path")
    if len(paths) == 1 and len(paths[0]) == 1:
        return _refusal("single node", f"it is the single node {paths[0]}, without a step")
    faults = [_fault(path, schema) for path in paths]
    fitting = [ReasoningPath(p.steps[-last_steps:]) if last_steps else p for p, f in zip(paths, faults, strict=True) if not f]
    dropped, parts = len(paths) - len(fitting), list(dict.fromkeys(fault for fault in faults if fault))
    if not fitting:
        return _refusal("invalid", "; ".join(parts), dropped)
    started = [path for path in fitting if any(phrase.strip() for phrase in path.steps[0].restriction)]
    skipped = len(fitting) - len(started)
    if not started:
        return _refusal("no start restriction", "no path has a restriction on its first node", dropped, skipped)
    if skipped:
        parts.append("a path without a restriction on its first node was skipped")
    note = f"Part of the plan was left out: {'; '.join(parts)}." if parts else ""
    return PlanCheck(PlanningGraph(tuple(started)), "", dropped, skipped, note)


def _refusal(reason: str, why: str, dropped: int = 0, skipped: int = 0) -> PlanCheck:
    note = f"The plan cannot be walked: {why}; text retrieval was used instead."
    return PlanCheck(PlanningGraph(), reason, dropped, skipped, note)


def _fault(path: ReasoningPath, schema: TypeSchema) -> str:
    """Return why a path cannot be walked, or ""."""
    steps = path.steps
    if not steps or steps[-1].type not in schema.targets:
        return f"a path ends in {shown(steps[-1].type if steps else '', 60)}, which is not asked for"
    for step in steps:
        if step.type not in schema.types:
            return f"{shown(step.type, 60)} is not a node type"
    if len(steps) < 2:
        return "a path of one node has no step"
    for near, far in zip(steps, steps[1:], strict=False):
        relations = schema.relations(near.type, far.type)
        if not relations or (far.relation is not None and far.relation not in relations):
            return f"no relation {shown(far.relation or '', 60)} joins {near.type} and {far.type}"
    return ""
