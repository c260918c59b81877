"""Planned mixed traversal, O_vgs: typed steps along a plan, with text matches in layers with a restriction (MoR, section 3.2)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, InvalidPlanError, reason
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import type_mask
from graph_retrievers.graph.names import nodes_titled
from graph_retrievers.graph.ragged import pad_ranked
from graph_retrievers.operators.mor.adjacency import typed_adjacency
from graph_retrievers.operators.mor.matching import TextMatching
from graph_retrievers.operators.mor.parse import read_plan
from graph_retrievers.operators.mor.plan import GraphSchema, PathStep, PlanCheck, PlanningGraph, check_plan
from graph_retrievers.operators.mor.planner import Planner, as_planner
from graph_retrievers.operators.mor.walk import Routes, Walk, find, walk
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking

__all__ = ["MixedTraversal"]

_logger = logging.getLogger(__name__)


class MixedTraversal(Operator):
    r"""Follow each query's plan through the graph, and return the nodes it leads to.

    Every reasoning path starts at the `seeds` nodes of its first type that match query and restriction best. Each step goes to
    the neighbours of the planned type (equation 4), by the planned relation if there is one, in either direction; in a layer
    with a restriction, the `matches` nodes of its type that match query and restriction best join them (equations 5 and 6).
    Candidates are the nodes that all paths reach, or any path if no node is reached by all. Fewer than `candidates` are filled
    up with nodes that match the query, more are cut, by the dot product of node and query vectors (BM25 if the index has no
    vectors).

    A query's plan is the input ``plan`` (see :func:`~graph_retrievers.operators.mor.parse.read_plan` for its forms), or the
    planner's. A query without a plan that can be walked gets text retrieval, and a note with the reason.

    Parameters
    ----------
    seeds : int, default 5
        Nodes each path starts from.
    matches : int, default 10
        Nodes that textual matching adds in each layer with a restriction; with 0, structure alone is walked.
    candidates : int, default 100
        Nodes to return.
    fill : bool, default True
        Whether text fills up what the plan finds. False leaves that to what comes after (a retriever's backfill).
    structure : bool, default True
        False takes no step: text matches of the last layer, and the fill (the paper's ablation).
    exact_titles : bool, default True
        Whether nodes of the right type whose title is the restriction are the only seeds of a path.
    check_types : bool, default True
        False walks by relation alone, as the published code does, which never checks the neighbour's type.
    targets : sequence of str, optional
        Node types that questions ask for; all by default.
    last_steps : int, optional
        Keep this many steps at the end of each path (the published code: 3 for two of its graphs).
    matching : TextMatching, optional
        By default BM25 if the index has it.
    max_edges : int, default 1000000
        Edges a path may read in one step; a note says so if that cut a walk short.
    planner : Planner or callable, optional
        Makes a plan if the caller gives none: see :mod:`graph_retrievers.operators.mor.planner`.

    Notes
    -----
    Trails are the trajectories. The longest of several ways to a node counts, among equal ones the first path of the plan,
    within it the best matching start (in the published code it depends on the order of a hash set), then the lowest parent row.

    Departures: restriction phrases are joined by a space (the code joins them by nothing); exact titles, above; a path never
    returns to a start node given by its exact title; without a relation in the plan any relation between the two types is
    walked (the code walks one); the fill has the types the plan asks for. With ``exact_titles=False, check_types=False`` the
    walk is that of the code.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> graph = CorpusGraph(["ada", "tom", "loom"], ["", "", ""], titles=["Ada", "Tom", "Loom"],
    ...     types=["person", "person", "movie"], edges=[("ada", "loom", "directed"), ("tom", "loom", "wrote")])
    >>> plan = [{"type": "movie", "restriction": "Loom"}, {"type": "person", "relation": "directed"}]
    >>> queries = Queries.of(GraphIndex.from_graph(graph), ["Who directed Loom?"], inputs={"plan": [plan]})
    >>> MixedTraversal(fill=False)(queries).trails[0, 0].tolist()
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
        matching: TextMatching | None = None,
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
        self.matching = matching or TextMatching()
        self.max_edges = positive("max_edges", max_edges)
        self.planner: Planner | None = None if planner is None else as_planner(planner)
        self._warned = False

    def schema(self, graph: CorpusGraph) -> GraphSchema:
        """Return the schema plans for this graph must fit."""
        key = ("schema", None if self.targets is None else tuple(self.targets))
        return graph.cache.get(key, lambda: GraphSchema.of(graph, self.targets))

    def lacks(self, given: Collection[str] = ()) -> tuple[str, ...]:
        """Return a plan, unless there is a planner or queries come with plans."""
        return () if self.planner is not None or "plan" in given else ("a plan (pass plan=, planner= or checkpoint=)",)

    def check(self, plan: object, graph: CorpusGraph) -> PlanCheck:
        """Return what :func:`check_plan` says about a plan in any form, about the error of a planner, or about None, no plan."""
        if plan is None:
            return PlanCheck(PlanningGraph(), "empty")
        try:
            if isinstance(plan, GraphRetrieverError):
                raise InvalidPlanError(str(plan))
            return check_plan(read_plan(plan), self.schema(graph), self.last_steps)
        except InvalidPlanError as error:
            return PlanCheck(PlanningGraph(), "unreadable", note=f"{error} Text retrieval was used instead.")

    def plans(self, queries: Queries) -> list[Any]:
        """Return the plan of each query: the caller's, the planner's, an error with the reason why there is none, or None."""
        plans = queries.input("plan")
        missing = [row for row, plan in enumerate(plans) if plan is None or (isinstance(plan, (str, list, tuple)) and not plan)]
        if self.planner is None:
            if not self._warned and any(plan is None for plan in plans):
                self._warned = True
                _logger.warning(
                    "There is no planner, so questions without a plan are answered by text retrieval; pass plan=, planner= or "
                    "checkpoint=."
                )
            return plans
        try:
            made = list(self.planner.plan([queries.texts[row] for row in missing], queries.index.graph)) if missing else []
        except GraphRetrieverError:
            raise
        except Exception as error:
            made = [InvalidPlanError(f"The planner failed ({reason(error)}).")] * len(missing)
        if len(made) != len(missing):
            raise InvalidArgumentError(f"The planner gave {len(made)} plans for {len(missing)} questions; one each is needed.")
        for row, plan in zip(missing, made, strict=True):
            plans[row] = plan
        return plans

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the candidates of every query; the ranking before is not read."""
        graph = queries.index.graph
        checks = [self.check(plan, graph) for plan in self.plans(queries)]
        adjacency = typed_adjacency(graph, "type" if self.check_types else "relation")
        routes = Routes.of([check.plan.paths for check in checks], adjacency, self.schema(graph))
        entries, titled, matches = self._matches(queries, routes)
        if not self.structure:
            routes = replace(routes, low=[[0] * len(row) for row in routes.low], high=[[0] * len(row) for row in routes.high])
        walked = walk(adjacency, routes, entries, banned=titled, allowed=queries.walk_allowed, max_edges=self.max_edges)
        batch, nodes = self._merged(queries, walked)
        planned = batch * len(graph) + nodes
        batch, nodes = self._filled(queries, checks, batch, nodes)
        dense = queries.index.has_dense
        scores = queries.scores(batch, nodes) if dense else self.matching.pairs(queries, list(queries.texts), batch, nodes)
        table, values, _ = pad_ranked(batch, nodes, scores, nodes, len(queries), min(self.candidates, len(graph)))
        trails, relations = _trails(walked, table, planned, graph)
        notes = [(check.note,) if check.note else () for check in checks]
        for route in sorted(walked.cut):
            text = f"A walk was cut short after reading {self.max_edges} edges in one step."
            notes[routes.owner[route]] = (*notes[routes.owner[route]], text)
        found = Ranking.of(table, values, self.name, trails, relations=relations, notes=tuple(notes))
        # Text matching found a node whose trail is the node alone.
        origins = (trails[:, :, -2:-1] < 0).all(2).long().masked_fill(table < 0, -1)
        seed_scores = _seed_scores(trails, matches, len(graph))
        return replace(found, origins=origins, operators=(self.name, "TextMatching"), seed_scores=seed_scores)

    def _matches(self, queries: Queries, routes: Routes) -> tuple[list[tuple[Tensor, Tensor]], Tensor, tuple[Tensor, Tensor]]:
        """Return the entries of :func:`walk`, the keys of nodes given by title, and the text matches.

        The matches are keys ``query * N + node`` and similarities to query and restriction.
        """
        graph, size, device = queries.index.graph, len(queries.index), queries.index.device
        wanted: dict[tuple[int, str, str], int] = {}
        uses: list[tuple[int, int, int]] = []
        for route, path in enumerate(routes.paths):
            for layer, step in enumerate(path.steps):
                if step.phrase.strip() and (layer == 0 or self.matches):
                    row = wanted.setdefault((routes.owner[route], step.type, step.phrase), len(wanted))
                    uses.append((route, layer, row))
        texts = [f"{queries.texts[query]} {phrase}" for query, _, phrase in wanted]
        found: list[list[int]] = []
        if wanted:
            allowed = torch.stack([type_mask(graph, [kind]) for _, kind, _ in wanted])
            if queries.named_allowed is not None:
                allowed &= queries.named_allowed
            found = self.matching.search(queries, texts, max(self.seeds, self.matches), allowed)[1].tolist()
        layers: list[list[tuple[int, int]]] = [[] for _ in range(len(routes.low) + 1)]
        owners, kept, pinned = list[int](), list[int](), list[int]()
        for route, layer, row in uses:
            hits = [node for node in found[row][: self.matches if layer else self.seeds] if node >= 0]
            if layer == 0 and self.exact_titles and (titled := self._titled(queries, routes.paths[route].steps[0])):
                hits = titled
                pinned += [route * size + node for node in titled]
            layers[layer] += [(route * size + node, place) for place, node in enumerate(hits)]
            owners += [row] * len(hits)
            kept += hits
        owner, nodes, banned = (torch.tensor(rows, dtype=torch.int64, device=device) for rows in (owners, kept, pinned))
        query = torch.tensor([query for query, _, _ in wanted] or [0], device=device)[owner]
        matches = (query * size + nodes, self.matching.pairs(queries, texts, owner, nodes))
        tables = [torch.tensor(sorted(layer), dtype=torch.int64, device=device).reshape(-1, 2) for layer in layers]
        return [(table[:, 0].contiguous(), table[:, 1].contiguous()) for table in tables], banned, matches

    @staticmethod
    def _titled(queries: Queries, step: PathStep) -> list[int]:
        graph, allowed = queries.index.graph, queries.named_allowed
        rows = {row for phrase in step.restriction for row in nodes_titled(graph, phrase) if graph.types[row] == step.type}
        return [row for row in sorted(rows) if allowed is None or bool(allowed[row])]

    def _merged(self, queries: Queries, walked: Walk) -> tuple[Tensor, Tensor]:
        """Return query and node of what all paths of a query reach, or any path if no node is reached by all: [C] each."""
        size, count = len(queries.index), len(queries)
        owner = torch.tensor(walked.routes.owner, dtype=torch.int64, device=walked.finals.device)
        route = walked.finals // size
        paths = torch.bincount(owner[torch.unique(route)], minlength=count)
        keys, times = torch.unique(owner[route] * size + walked.finals % size, return_counts=True)
        batch = keys // size
        shared = times == paths[batch]
        keep = shared | (torch.bincount(batch[shared], minlength=count) == 0)[batch]
        if queries.allowed is not None:
            keep &= queries.allowed[keys % size]
        return batch[keep], keys[keep] % size

    def _filled(self, queries: Queries, checks: list[PlanCheck], batch: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the candidates, and after them nodes that match the query, for queries that have too few."""
        index, size = queries.index, len(queries.index)
        held = torch.bincount(batch, minlength=len(queries)).tolist()
        short = [b for b, n in enumerate(held) if n < self.candidates and (self.fill or not checks[b].plan.paths)]
        if not short:
            return batch, nodes
        targets = self.schema(index.graph).targets
        kinds = [[path.steps[-1].type for path in checks[b].plan.paths] or targets for b in short]
        allowed = torch.stack([type_mask(index.graph, types) for types in kinds])
        if queries.starts is not None:
            allowed &= queries.starts
        reach = self.candidates + max(held[b] for b in short)
        _, rows = self.matching.search(queries, [queries.texts[b] for b in short], reach, allowed)
        place = torch.tensor(short, device=index.device).unsqueeze(1).expand_as(rows)
        new = (rows >= 0) & ~torch.isin(place * size + rows, batch * size + nodes)
        room = torch.tensor([self.candidates - held[b] for b in short], device=index.device).unsqueeze(1)
        new &= torch.cumsum(new, 1) <= room
        return torch.cat([batch, place[new]]), torch.cat([nodes, rows[new]])


def _trails(walked: Walk, table: Tensor, planned: Tensor, graph: CorpusGraph) -> tuple[Tensor, Tensor]:
    """Return the trajectory of each candidate, [B, K, S], and the relation that the plan has for each step, [B, K, S - 1].

    The trajectory of a candidate that is not in `planned` is the candidate alone; -1 stands for any relation.
    """
    count, width = table.shape
    size, routes = walked.adjacency.num_nodes, walked.routes
    longest = len(walked.layers)
    trails = torch.full((count, width, longest), -1, dtype=torch.int64, device=table.device)
    trails[:, :, -1] = table
    relations = torch.full((count, width, longest - 1), -1, dtype=torch.int64, device=table.device)
    if not routes.paths or walked.finals.numel() == 0 or width == 0:
        return trails, relations
    owner = torch.tensor(routes.owner, device=table.device)
    mine = table[owner]
    _, there = find(walked.finals, torch.arange(len(routes.paths), device=table.device).unsqueeze(1) * size + mine)
    by_plan = torch.isin(torch.arange(count, device=table.device).unsqueeze(1) * size + table, planned) & (table >= 0)
    route, column = (there & by_plan[owner]).nonzero(as_tuple=True)
    ways = walked.trails(route, mine[route, column])
    # The longest way counts, of equal ones that of the first route: one number has both.
    worth = (ways >= 0).sum(1) * (len(routes.paths) + 1) + (len(routes.paths) - route)
    cell = owner[route] * width + column
    best = torch.full((count * width,), -1, dtype=torch.int64, device=table.device)
    best.scatter_reduce_(0, cell, worth, "amax")
    chosen = worth == best[cell]
    trails.view(-1, longest)[cell[chosen]] = ways[chosen]
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(graph.relation_names)}
    planned_relations = [[numbers.get(step.relation, -1) for step in path.steps[1:]] for path in routes.paths]
    padded = [[-1] * (longest - 1 - len(row)) + row for row in planned_relations]
    walked_relations = torch.tensor(padded, dtype=torch.int64, device=table.device).reshape(-1, longest - 1)
    relations.view(-1, longest - 1)[cell[chosen]] = walked_relations[route[chosen]]
    return trails, relations


def _seed_scores(trails: Tensor, matches: tuple[Tensor, Tensor], size: int) -> Tensor:
    """Return the similarity of the first node of each trail if it matched a restriction, else NaN: [B, K]."""
    keys, known = matches
    # A node that matched several restrictions keeps its best similarity.
    held, place = torch.unique(keys, return_inverse=True)
    best = torch.full((held.numel(),), float("-inf"), device=known.device).scatter_reduce_(0, place, known, "amax")
    start = (trails >= 0).to(torch.int8).argmax(2, keepdim=True)
    batch = torch.arange(trails.shape[0], device=trails.device).unsqueeze(1)
    spot, there = find(held, batch * size + trails.gather(2, start).squeeze(2))
    scores = torch.full(trails.shape[:2], float("nan"), device=trails.device)
    there &= trails[:, :, -1] >= 0
    scores[there] = best[spot[there]]
    return scores
