"""Planning graphs, the schema they must fit, and the rules that say whether one can be walked (MoR, section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph

__all__ = ["MAX_PATHS", "MAX_STEPS", "GraphSchema", "PathStep", "PlanCheck", "PlanningGraph", "ReasoningPath", "check_plan"]

MAX_PATHS = 16
"""Paths a plan may have; planners emit one to four."""
MAX_STEPS = 8
"""Steps a path may have."""


@dataclass(frozen=True)
class PathStep:
    """One node of a reasoning path.

    Attributes
    ----------
    type : str
        Node type.
    relation : str or None
        Relation walked to get here, in either direction; None for the first step, and where any relation will do.
    restriction : tuple of str
        Phrases of the question that the node must fit; empty where there is none.
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
    """Steps from where a search starts to the nodes asked for."""

    steps: tuple[PathStep, ...]

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.steps)

    def __str__(self) -> str:
        """Return the path as text, e.g. ``person<Tom Hanks> -[starred_actors]- movie``."""
        parts = []
        for number, step in enumerate(self.steps):
            link = "" if number == 0 else f" -[{step.relation}]- " if step.relation else " - "
            parts.append(link + step.type + (f"<{step.phrase}>" if step.restriction else ""))
        return "".join(parts)


@dataclass(frozen=True)
class PlanningGraph:
    """A plan: reasoning paths that all lead to the nodes asked for (MoR, section 3.1.1)."""

    paths: tuple[ReasoningPath, ...] = ()

    def __str__(self) -> str:
        """Return the paths as text, joined by " & "."""
        return " & ".join(str(path) for path in self.paths)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in the JSON form that :func:`graph_retrievers.operators.mor.parse.read_plan` reads."""
        return {"paths": [[_step_dict(step) for step in path.steps] for path in self.paths]}


def _step_dict(step: PathStep) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": step.type}
    if step.relation is not None:
        fields["relation"] = step.relation
    if step.restriction:
        fields["restriction"] = list(step.restriction)
    return fields


class GraphSchema:
    """Which node types there are, and which relations join them.

    Parameters
    ----------
    triples : iterable of (type, relation, type)
        What stands in the graph; a relation can be walked in either direction.
    types : iterable of str, optional
        Node types; those of the triples are added.
    targets : iterable of str, optional
        Types that questions ask for: a path must end in one of them. All types by default.
    """

    def __init__(
        self, triples: Iterable[tuple[str, str, str]], *, types: Iterable[str] = (), targets: Iterable[str] | None = None
    ) -> None:
        self.given = sorted(set(triples))
        self.triples = {t for a, r, b in self.given for t in ((a, r, b), (b, r, a))}
        self.types = sorted({*types, *(t for a, _, b in self.given for t in (a, b))})
        self.targets = self.types if targets is None else sorted(set(targets))
        unknown = [t for t in self.targets if t not in self.types]
        if unknown:
            raise InvalidArgumentError(f"Target types {unknown} are not in the graph; its types are {', '.join(self.types)}.")
        self._between: dict[tuple[str, str], list[str]] = {}
        for a, r, b in sorted(self.triples):
            self._between.setdefault((a, b), []).append(r)

    @classmethod
    def of(cls, graph: CorpusGraph, targets: Iterable[str] | None = None) -> GraphSchema:
        """Return the schema of a corpus graph, read from its relationship rows."""
        triples = graph.cache.get("schema triples", lambda: _triples(graph))
        return cls(triples, types=graph.type_names, targets=targets)

    def relations(self, near: str, far: str) -> list[str]:
        """Return the relations that join two types, in alphabetical order."""
        return self._between.get((near, far), [])

    def describe(self) -> str:
        """Return the schema as text for a prompt: the types, then one line a triple."""
        lines = [f"{a} -[{r}]-> {b}" if r else f"{a} --> {b}" for a, r, b in self.given]
        return "Node types: " + ", ".join(t or "(none)" for t in self.types) + "\nRelations:\n" + "\n".join(lines)


def _triples(graph: CorpusGraph) -> list[tuple[str, str, str]]:
    """Return the distinct (type, relation, type) of a graph's relationship rows."""
    names, relations = graph.type_names, graph.relation_names
    kinds, size = graph.node_types.long(), len(relations)
    codes = torch.unique((kinds[graph.sources] * max(size, 1) + graph.relations.long()) * len(names) + kinds[graph.targets])
    triples = []
    for code in codes.tolist():
        pair, tail = divmod(code, len(names))
        triples.append((names[pair // size], relations[pair % size], names[tail]))
    return triples


@dataclass(frozen=True)
class PlanCheck:
    """What the validity rules say about a plan.

    Attributes
    ----------
    plan : PlanningGraph
        The paths that can be walked; none means text retrieval.
    reason : str
        "" if a path can be walked; else "empty", "single node", "invalid" or "no start restriction".
    dropped, skipped : int
        Paths that do not fit the schema, and paths without a restriction at their start.
    note : str
        The same for a person to read; "" if every path can be walked.
    """

    plan: PlanningGraph
    reason: str = ""
    dropped: int = 0
    skipped: int = 0
    note: str = ""


def check_plan(plan: PlanningGraph, schema: GraphSchema, last_steps: int | None = None) -> PlanCheck:
    """Apply the validity rules to a plan (MoR, section 4.1, and what its published code does).

    In order: a plan without a path is empty; one path of one node asks for no step; a path is dropped if it does
    not end in a target type, has an unknown type, or takes a step the schema does not have; a path is skipped if
    its first node has no restriction, because nothing would start it.

    Parameters
    ----------
    plan : PlanningGraph
    schema : GraphSchema
    last_steps : int, optional
        Keep this many steps at the end of each path, as the published code does (3) for two of its graphs. By
        default paths are kept whole.

    Returns
    -------
    PlanCheck
        Never raises: what is wrong with the plan is in the note.
    """
    paths = plan.paths
    if len(paths) > MAX_PATHS or any(len(p) > MAX_STEPS for p in paths):
        sizes = f"{len(paths)} paths of up to {max(len(p) for p in paths)} steps"
        return _refused("invalid", f"it has {sizes}, at most {MAX_PATHS} of {MAX_STEPS} are walked", dropped=len(paths))
    if not any(len(path) for path in paths):
        return _refused("empty", "it has no path")
    if len(paths) == 1 and len(paths[0]) == 1:
        return _refused("single node", f"it is the single node {paths[0]}, no step to take")
    faults = [_fault(path, schema) for path in paths]
    fitting = [path for path, fault in zip(paths, faults, strict=True) if not fault]
    wrong = [fault for fault in faults if fault]
    if not fitting:
        return _refused("invalid", "; ".join(dict.fromkeys(wrong)), dropped=len(wrong))
    cut = [replace(path, steps=path.steps[-last_steps:]) if last_steps else path for path in fitting]
    started = [path for path in cut if any(phrase.strip() for phrase in path.steps[0].restriction)]
    skipped = len(cut) - len(started)
    if not started:
        return _refused("no start restriction", "no path has a restriction on its first node", len(wrong), skipped)
    parts = list(dict.fromkeys(wrong)) + (["a path without a restriction on its first node was skipped"] if skipped else [])
    note = f"Part of the plan was left out: {'; '.join(parts)}." if parts else ""
    return PlanCheck(PlanningGraph(tuple(started)), "", len(wrong), skipped, note)


def _refused(reason: str, why: str, dropped: int = 0, skipped: int = 0) -> PlanCheck:
    note = f"The plan cannot be walked: {why}; text retrieval was used instead."
    return PlanCheck(PlanningGraph(), reason, dropped, skipped, note)


def _fault(path: ReasoningPath, schema: GraphSchema) -> str:
    """Return what keeps a path from being walked, or ""."""
    steps = path.steps
    if not steps or steps[-1].type not in schema.targets:
        return f"a path ends in {_short(steps[-1].type if steps else '')}, which is not asked for"
    for step in steps:
        if step.type not in schema.types:
            return f"{_short(step.type)} is not a node type"
    if len(steps) < 2:
        return "a path of one node takes no step"
    for near, far in zip(steps, steps[1:], strict=False):
        known = schema.relations(near.type, far.type)
        if not known or (far.relation is not None and far.relation not in known):
            return f"no relation {_short(far.relation or '')} joins {near.type} and {far.type}"
    return ""


def _short(text: str, limit: int = 60) -> str:
    """Return untrusted text as it may stand in a note: quoted and cut."""
    return repr(text if len(text) <= limit else text[:limit] + "...")
