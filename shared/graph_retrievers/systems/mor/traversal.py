"""Planned mixed traversal, O_vgs: typed steps along a plan, with text matches in layers with a restriction (MoR, section 3.2)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, concatenated, falling, places_of
from graph_retrievers.core.driver import Algorithm, Parallel
from graph_retrievers.core.fusion import fused
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import ByTitle, Nearest, Request, Scores, Steps
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, InvalidPlanError, MissingSignalError
from graph_retrievers.graph.facts import GraphFacts
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.scaling import scaled_parts
from graph_retrievers.systems.mor.parse import read_plan
from graph_retrievers.systems.mor.plan import PathStep, PlanCheck, PlanningGraph, ReasoningPath, TypeSchema, check_plan
from graph_retrievers.systems.mor.planner import Planner, as_planner, failed_plan

__all__ = ["MixedTraversal"]

_logger = logging.getLogger(__name__)

# Nodes [n] that text matched, and their similarities.
Ranked = tuple[np.ndarray, np.ndarray]


class MixedTraversal(Operator):
    r"""Follow each query's plan through the graph, and return the nodes to which it leads.

    Every reasoning path starts at the `seeds` nodes of its first type that match query and restriction best. Each step goes to
    the neighbours of the planned type (equation 4), by the planned relation if there is one, in either direction; in a layer with
    a restriction, the `matches` nodes of its type that match query and restriction best are added (equations 5 and 6). Candidates
    are the nodes reached by all paths, or by any path if no node is reached by all. If there are fewer than `candidates`, nodes
    that match the query are added; if there are more, they are cut, by the dot product of node and query vectors (BM25 if the
    index has no vectors).

    A query's plan is the input ``plan`` (see :func:`~graph_retrievers.systems.mor.parse.read_plan` for its forms), or that of the
    planner. A query without a plan that can be followed gets text retrieval, and a note with the reason.

    Parameters
    ----------
    seeds : int, default 5
        Nodes at which each path starts.
    matches : int, default 10
        Nodes that text matching adds in each layer with a restriction; 0 for only structure.
    candidates : int, default 100
        Nodes to return.
    fill : bool, default True
        Whether text matches fill up the results of the plan. False leaves that to a later step (a retriever's backfill); without a
        plan, the nodes are then those of hybrid search, because no reranker chooses among those found by BM25.
    structure : bool, default True
        If False, no step is taken: only text matches of the last layer, and the fill (the paper's ablation).
    exact_titles : bool, default True
        Whether nodes of the planned type whose title equals the restriction are the only seeds of a path.
    check_types : bool, default True
        If False, steps follow only the relation, as in the published code, which never checks the neighbour's type.
    targets : sequence of str, optional
        Node types that questions ask for; all by default.
    last_steps : int, optional
        Number of steps to keep at the end of each path (in the published code 3 for two of its graphs).
    matching : str, optional
        Signal of text matching: ``"bm25"``, as in the paper for two of its graphs, or ``"dense"``, as for the third. By default
        BM25 if the index has it.
    max_edges : int, default 1000000
        Maximum number of edges that a path reads in one step; a note says so if that ended a walk early.
    planner : Planner or callable, optional
        Writes a plan if the caller gives none: see :mod:`graph_retrievers.systems.mor.planner`.

    Notes
    -----
    Trails are the trajectories. If several lead to a node, the longest counts; among equal ones that of the first path of
    the plan, then of the best matching start (in the published code it depends on the order of a hash set), then of the lowest
    parent row.

    Departures: restriction phrases are joined by a space (in the code by nothing); exact titles, see above; a path never returns
    to a start node given by its exact title; without a relation in the plan, any relation between the two types is followed (in
    the code only one); the fill has the types that the plan requests. With ``exact_titles=False, check_types=False`` the walk is
    that of the code.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.search.queries import Queries
    >>> from graph_retrievers.search.memory import ranked
    >>> from graph_retrievers.graph import CorpusGraph
    >>> graph = CorpusGraph(["ada", "tom", "loom"], ["", "", ""], titles=["Ada", "Tom", "Loom"],
    ...     types=["person", "person", "movie"], edges=[("ada", "loom", "directed"), ("tom", "loom", "wrote")])
    >>> plan = [{"type": "movie", "restriction": "Loom"}, {"type": "person", "relation": "directed"}]
    >>> queries = Queries.of(GraphIndex.from_graph(graph), ["Who directed Loom?"], inputs={"plan": [plan]})
    >>> ranked(MixedTraversal(fill=False), queries)[0].trails[0].tolist()
    [2, 0]
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH
    reads = ("plan",)

    def __init__(
        self,
        seeds: int = 5,
        matches: int = 10,
        candidates: int = 100,
        *,
        fill: bool = True,
        structure: bool = True,
        exact_titles: bool = True,
        check_types: bool = True,
        targets: Sequence[str] | None = None,
        last_steps: int | None = None,
        matching: str | None = None,
        max_edges: int = 1_000_000,
        planner: Any = None,
    ) -> None:
        self.seeds = positive("seeds", seeds)
        self.matches = positive("matches", matches, least=0)
        self.k = self.candidates = positive("candidates", candidates)
        self.fill, self.structure = fill, structure
        self.exact_titles, self.check_types = exact_titles, check_types
        self.targets = None if targets is None else list(targets)
        self.last_steps = None if last_steps is None else positive("last_steps", last_steps)
        self.matching = matching
        self.max_edges = positive("max_edges", max_edges)
        self.planner: Planner | None = None if planner is None else as_planner(planner)
        self._has_warned = False

    def schema(self, graph: GraphFacts) -> TypeSchema:
        """Return the schema that plans for this graph must match."""
        key = ("schema", None if self.targets is None else tuple(self.targets))
        return graph.cache.get(key, lambda: TypeSchema.of(graph, self.targets))

    def lacks(self, given: Collection[str] = ()) -> tuple[str, ...]:
        """Return "a plan", unless there is a planner or queries have plans."""
        return () if self.planner is not None or "plan" in given else ("a plan (pass plan=, planner= or checkpoint=)",)

    def check(self, plan: object, graph: GraphFacts) -> PlanCheck:
        """Return the result of :func:`check_plan` for a plan in any form, for the error of a planner, or for None (no plan)."""
        if plan is None:
            return PlanCheck(PlanningGraph(), "empty")
        try:
            if isinstance(plan, GraphRetrieverError):
                raise InvalidPlanError(str(plan))
            return check_plan(read_plan(plan), self.schema(graph), self.last_steps)
        except InvalidPlanError as error:
            return PlanCheck(PlanningGraph(), "unreadable", note=f"{error} Text retrieval was used instead.")

    def plans(self, texts: Sequence[str], plans: Sequence[Any], graph: GraphFacts) -> list[Any]:
        """Return the plan of each question: the caller's, the planner's, an error with the reason if there is none, or None.

        `texts` and `plans` have the questions and the caller's plans, None for a question without one.
        """
        plans = list(plans)
        rows = [row for row, plan in enumerate(plans) if plan is None or (isinstance(plan, (str, list, tuple)) and not plan)]
        if self.planner is None:
            if not self._has_warned and any(plan is None for plan in plans):
                self._has_warned = True
                _logger.warning(
                    "There is no planner, so questions without a plan are answered by text retrieval; pass plan=, planner= or "
                    "checkpoint=."
                )
            return plans
        try:
            answers = list(self.planner.plan([texts[row] for row in rows], graph)) if rows else []
        except Exception as error:
            answers = [failed_plan(error)] * len(rows)
        if len(answers) != len(rows):
            raise InvalidArgumentError(f"The planner gave {len(answers)} plans for {len(rows)} questions; one each is needed.")
        for row, plan in zip(rows, answers, strict=True):
            plans[row] = plan
        return plans

    def compares_vectors(self, index: Corpus) -> bool:
        """Return True."""
        return True

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes to which the question's plan leads, best first; earlier results are not read."""
        # Section 3.1: the planning graph, its paths and the types that they end in.
        check, schema = yield Planning(self)
        question.notes += [check.note] if check.note else []
        paths = check.plan.paths
        # Section 3.2: every path is followed, with structure and text.
        walks = yield Parallel([self._follow(question, path, schema) for path in paths])
        none = np.zeros(0, np.int64)
        pool = _merged([walk for walk, _ in walks]) if walks else Candidates.seeds(none, none, self.name)
        pool = pool.taken(np.flatnonzero(question.returned(pool.nodes)))
        # Section 4.1: text fills up what the plan finds, and takes its place where it cannot be walked.
        signal, room = matching_signal(question, self.matching), self.candidates - len(pool)
        ends = tuple(dict.fromkeys(path.steps[-1].type for path in paths)) or tuple(schema.targets)
        both = tuple(Nearest(self.candidates, name, returned=True, types=ends) for name in ("dense", "bm25"))
        if not (paths or self.fill or self.matching) and {"dense", "bm25"} <= set(question.signals):
            # No reranker chooses among what text finds: both signals order it, as in hybrid search.
            lists = [Candidates.seeds(nodes, scores, self.name) for nodes, scores in (yield both)]
            parts = [
                scaled_parts(part, depth=self.candidates, from_zero=words) for part, words in zip(lists, (False, True), strict=True)
            ]
            pool = fused(lists, parts)
            scores = pool.scores
        else:
            if room > 0 and (self.fill or not paths):
                filler, _ = yield Nearest(self.candidates + len(pool), signal, returned=True, types=ends)
                filler = filler[places_of(pool.nodes, filler) < 0][:room]
                pool = concatenated([pool, Candidates.seeds(filler, np.zeros(len(filler)), self.name)])
            scores = yield Scores(pool.nodes, "dense" if "dense" in question.signals else signal)
        by = best(scores, self.candidates, pool.nodes)
        result = pool.taken(by)
        return replace(
            result,
            scores=falling(scores[by]),
            operators=(self.name, "TextMatching"),
            # A node that no step reached was found by text.
            origins=np.where(result.trails[:, -2:-1] >= 0, 0, 1).min(1, initial=1),
            columns={"seed_scores": _seed_scores(result.trails, [part for _, matches in walks for part in matches])},
        )

    def _follow(self, question: Question, path: ReasoningPath, schema: TypeSchema) -> Algorithm[tuple[Candidates, list[Ranked]]]:
        """Follow one reasoning path, layer by layer; return what it leads to, and what text matched on the way."""
        signal, (first, *rest) = matching_signal(question, self.matching), path.steps

        def matching(step: PathStep, k: int) -> Nearest:
            # Equation 5: the nodes of a type that are most similar to the question and the restriction.
            return Nearest(k, signal, text=_restricted(question, step), types=(step.type,), among="name")

        layers = [layer for layer, step in enumerate(rest) if step.phrase.strip() and self.matches]
        titles = first.restriction if self.exact_titles else ()
        requests = [matching(first, self.seeds), *(matching(rest[layer], self.matches) for layer in layers)]
        seeds, *matches, title_rows = yield *requests, ByTitle(titles, first.type)
        if len(title_rows):
            seeds = title_rows, (yield Scores(title_rows, signal, _restricted(question, first)))
        by_text = dict(zip(layers, matches, strict=True))
        # V of the layer, by the start of each trajectory (better matches and earlier layers first), then by row.
        nodes, start = seeds[0], np.arange(len(seeds[0]))
        trails, count = nodes[:, None], len(nodes)
        for layer, (near_step, step) in enumerate(zip(path.steps, rest, strict=False)):
            # Equation 4: the neighbours of the planned type.
            rows, parent = nodes[:0], nodes[:0]
            if self.structure:
                near, whole = yield Steps(nodes, *self._edges(near_step, step, schema), self.max_edges)
                if not whole:
                    question.notes.append(f"A walk was cut short after reading {self.max_edges} edges in one step.")
                rows, places = np.unique(near.node, return_index=True)
                parent = near.owner[places]
                by = np.argsort(start[parent], kind="stable")
                rows, parent = rows[by], parent[by]
            # Equation 6: text matches join them.
            new = by_text[layer][0] if layer in by_text else nodes[:0]
            new = new[places_of(rows, new) < 0]
            start = np.concatenate([start[parent], count + np.arange(len(new))])
            trails = np.concatenate([trails[parent], np.full((len(new), trails.shape[1]), -1)])
            nodes, count = np.concatenate([rows, new]), count + len(new)
            trails = np.concatenate([trails, nodes[:, None]], 1)
            if len(title_rows):
                mask = places_of(title_rows, nodes) < 0
                nodes, start, trails = nodes[mask], start[mask], trails[mask]
        result = Candidates.seeds(nodes, np.zeros(len(nodes)), self.name)
        relations = np.tile([question.relation(step.relation) for step in rest], (len(nodes), 1))
        return replace(result, trails=trails, relations=relations), [seeds, *matches]

    def _edges(self, near: PathStep, far: PathStep, schema: TypeSchema) -> tuple[str | None, str | None]:
        """Return type and relation of a step, None for any."""
        if self.check_types:
            return far.type, far.relation
        return None, far.relation if far.relation is not None else schema.relations(near.type, far.type)[-1]


def _merged(walks: Sequence[Candidates]) -> Candidates:
    """Return the nodes that all paths reach, or that any does if there is none, ascending.

    Of several ways to a node the longest counts, of equal ones that of the first path. Paths that lead nowhere do not count.
    """
    candidates, route = concatenated(walks), np.repeat(np.arange(len(walks)), [len(walk) for walk in walks])
    by = np.lexsort((route, -(candidates.trails >= 0).sum(1)))
    _, first, times = np.unique(candidates.nodes[by], return_index=True, return_counts=True)
    mask = times == sum(len(walk) > 0 for walk in walks)
    return candidates.taken(by[first[mask] if mask.any() else first])


@dataclass(frozen=True, eq=False)
class Planning(Request):
    """The plan of a question as far as it can be followed, and the schema: ``(PlanCheck, TypeSchema)``.

    The planner is called for all questions at once.
    """

    shared = ("traversal",)
    traversal: MixedTraversal

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Planning]]) -> list[tuple[PlanCheck, TypeSchema]]:
        """Return the checked plans."""
        traversal, queries, graph = requests[0][1].traversal, backend.queries, backend.queries.index.facts
        inputs, schema = queries.input("plan"), traversal.schema(graph)
        plans = traversal.plans([queries.texts[b] for b, _ in requests], [inputs[b] for b, _ in requests], graph)
        return [(traversal.check(plan, graph), schema) for plan in plans]


def matching_signal(question: Question, name: str | None = None) -> str:
    """Return the signal of text matching: the given one, else BM25, else vectors; MissingSignalError if there is none."""
    for signal in ("bm25", "dense") if name is None else ():
        if signal in question.signals:
            return signal
    if name is None:
        raise MissingSignalError("Textual matching needs BM25 or vectors; build the index with bm25=True or embedding=.")
    return name


def _restricted(question: Question, step: PathStep) -> str:
    return f"{question.text} {step.phrase}"


def _seed_scores(trails: np.ndarray, matches: Sequence[Ranked]) -> np.ndarray:
    """Return the best similarity of the first node of each trail if text matched it, else NaN: shape [n]."""
    similarities: dict[int, float] = {}
    for nodes, scores in matches:
        for node, score in zip(nodes.tolist(), scores.tolist(), strict=True):
            similarities[node] = max(score, similarities.get(node, score))
    starts = trails[np.arange(len(trails)), (trails >= 0).argmax(1)]
    return np.array([similarities.get(node, np.nan) for node in starts.tolist()], np.float32)
