"""Candidates as hits: the nodes, chains and facts that operators find, with their paths looked up in the graph."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from math import isnan
from typing import NamedTuple

import numpy as np
import torch

from graph_retrievers.cache import Lazy
from graph_retrievers.core.candidates import Candidates, wider
from graph_retrievers.core.chains import Chains, Facts
from graph_retrievers.core.trace import Trace
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.graph.labels import path_title
from graph_retrievers.graph.names import step_name
from graph_retrievers.graph.node_path import NodePath
from graph_retrievers.graph.plain import copied
from graph_retrievers.graph.subgraph import Subgraph
from graph_retrievers.hits.hit import Hit
from graph_retrievers.hits.hits import Hits

__all__ = ["to_hits"]

_Triple = tuple[str, str, str]
Similarities = Mapping[tuple[int, int], float | None]
"""Cosines of nodes and questions, by the number of the question and the row of the node."""

_ALONE = Subgraph()

NOTHING_FOUND = "the operators found no node"
"""Note on a query for which the operators, without backfill, found no node."""


def to_hits(
    lists: Sequence[Candidates],
    graph: CorpusGraph,
    mask: np.ndarray | None = None,
    plain: Callable[[int, str], int | None] | None = None,
    reason: str = "",
    similarities: Lazy[Similarities] | None = None,
    trace: Trace | None = None,
    notes: Sequence[Sequence[str]] = (),
) -> list[Hits]:
    """Return candidates as hits: the nodes with their paths, then all chains, then all facts.

    The steps of all paths are looked up in the graph at once. Texts, metadata and paths are made for the hits that are read.

    Parameters
    ----------
    lists : sequence of Candidates, length B
    graph : CorpusGraph
    mask : ndarray, shape [N], bool, optional
        Nodes that may be returned: titles and contents of other nodes on paths are hidden, and chains and facts with such a
        node are left out.
    plain : callable, optional
        Maps the number of a query and the id of a node to `plain_rank`.
    reason : str, default ""
        The reason of the retriever, for all hits that are nodes.
    similarities : Lazy, optional
        Mapping of (int, int) to float or None: `similarity` by the number of the query and the row of the node.
    trace : Trace, optional
        The requests of the batch.
    notes : sequence of sequence of str, length B, optional

    Returns
    -------
    list of Hits, length B

    Raises
    ------
    InvalidArgumentError
        For a step of a path that neither an edge nor a name joins.
    """
    paths = _Paths(graph, mask)
    maker = _HitMaker(paths, plain, reason, similarities or Lazy(dict))
    relations = None if all(part.relations is None for part in lists) else [part.steps() for part in lists]
    trails = paths.steps([part.trails for part in lists], relations, lambda b, n: lists[b].operators[lists[b].origins[n]], "trail")
    chains = [None if part.chains is None else paths.visible_chains(part.chains) for part in lists]
    chain_steps: Sequence[_Steps | None] = [None] * len(lists)
    if any(chains):
        tables = [np.zeros((0, 1), np.int64) if part is None else part.nodes for part in chains]
        chain_steps = paths.steps(tables, None, lambda b, _: chains[b].operator, "chain")  # type: ignore[union-attr]
    results = []
    for b, part in enumerate(lists):
        if part.chains is not None:
            part = replace(part, chains=chains[b])
        hits = partial(maker.hits, b, part, trails[b], chain_steps[b])
        results.append(Hits.later(hits, notes[b] if notes else (), paths.mentions, trace))
    return results


def result_rows(candidates: Candidates, ends: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the rows of the nodes, of those on chains and of the ends of facts, each once: int64, shape [n].

    `ends` maps the rows of M edges to those of their two nodes, shape [M, 2].

    >>> result_rows(Candidates.seeds(np.array([4, 2]), np.zeros(2), "Mine"), lambda edges: edges)
    array([4, 2])
    """
    if candidates.chains is None and candidates.facts is None:
        return candidates.nodes
    rows = [candidates.nodes]
    if candidates.chains is not None:
        rows.append(candidates.chains.nodes[candidates.chains.nodes >= 0])
    if candidates.facts is not None:
        rows.append(ends(candidates.facts.rows).ravel())
    return np.unique(np.concatenate(rows))


class _Paths:
    """Paths through nodes given by row; titles only of nodes that may be shown."""

    def __init__(self, graph: CorpusGraph, mask: np.ndarray | None) -> None:
        self.graph, self.mask = graph, mask
        # The nodes of longer paths, and the rows of their steps.
        self._rows: dict[_Triple, int] = {}
        self._nodes: dict[str, Node] = {}
        self._seeds: dict[int, NodePath] = {}

    def may_show(self, row: int) -> bool:
        return self.mask is None or bool(self.mask[row])

    def title(self, row: int) -> str:
        """Return the title of a node, or a label if it has none and its id is a UUID; "" if it may not be shown."""
        graph = self.graph
        return path_title(graph.ids[row], graph.titles[row], graph.texts[row]) if self.may_show(row) else ""

    def seed(self, row: int) -> NodePath:
        """Return the path of one node, made once."""
        if row not in self._seeds:
            self._seeds[row] = NodePath((self.graph.ids[row],), titles=(self.title(row),))
        return self._seeds[row]

    def mentions(self, hits: Sequence[Hit]) -> tuple[dict[str, Node], dict[_Triple, Edge]]:
        """Return the nodes on the paths of hits that may be shown, by id, and the edges there, by their ends and relation."""
        # The path of a seed is the hit itself.
        longer = [hit.path for hit in hits if len(hit.path.nodes) > 1]
        if not longer:
            return {}, {}
        nodes = {node: entry for path in longer for node in path.nodes if (entry := self._node(node)) is not None}
        keys = [key for key in dict.fromkeys(step for path in longer for step in path.triples()) if key in self._rows]
        return nodes, dict(zip(keys, self.graph.edges([self._rows[key] for key in keys]), strict=True)) if keys else {}

    def _node(self, node: str) -> Node | None:
        """Return a node, made once; None if it may not be shown."""
        row = self.graph.row(node)
        if not self.may_show(row):
            return None
        if node not in self._nodes:
            self._nodes[node] = self.graph.node(row)
        return self._nodes[node]

    def context(self, row: int, neighbors: Sequence[int]) -> Subgraph:
        """Return the nodes of some rows that may be shown, and the edges among them and the node of `row`."""
        rows = [near for near in neighbors if near >= 0 and self.may_show(near)]
        inside = self.graph.edges_within([row, *rows]) if rows else []
        return Subgraph(tuple(map(self.graph.node, rows)), tuple(self.graph.edges(inside)))

    def steps(
        self,
        tables: Sequence[np.ndarray],
        relations: Sequence[np.ndarray] | None,
        owner: Callable[[int, int], str],
        what: str,
    ) -> list[_Steps]:
        """Look up the steps of all paths of several tables, each of shape [K, L], with -1 before or after the nodes of a path.

        `relations`, [K, L - 1] for each, has the relation of each step, as in a ranking. InvalidArgumentError for a step without an
        edge that has no name: `owner` maps the number of a table and the place in it to the operator that returned the `what`.
        """
        ends, width = list(accumulate(map(len, tables), initial=0)), max((table.shape[1] for table in tables), default=1)
        if width == 1:
            # Nodes alone, as a search finds them.
            return [_Steps(*[table[:, 1:]] * 3) for table in tables]
        table = _stacked(tables, width)
        mask = (table[:, :-1] >= 0) & (table[:, 1:] >= 0)
        result = _Steps(np.full(mask.shape, -1), np.ones(mask.shape, bool), np.full(mask.shape, -1))
        if mask.any():
            columns = [table[:, :-1], table[:, 1:], *([] if relations is None else [_stacked(relations, width - 1)])]
            steps = np.stack([column[mask] for column in columns])
            near, far, *rest = torch.from_numpy(steps).to(self.graph.device)
            edges = self.graph.steps_between(near, far, rest[0] if rest and steps[2].max() >= 0 else None)
            # Stacked, so that the device is waited for only once.
            rows, forward = torch.stack([edges[0], edges[1].long()]).cpu().numpy()
            codes = steps[2] if rest else np.full(len(rows), -1)
            for place in np.flatnonzero(rows < 0).tolist():
                if not step_name(self.graph.texts[steps[0, place]], int(codes[place])):
                    line = int(np.nonzero(mask)[0][place])
                    b = bisect(ends, line) - 1
                    raise self._no_step(owner(b, line - ends[b]), what, *steps[:2, place].tolist())
            result.rows[mask], result.forward[mask] = rows, forward
            relation_codes = self.graph.on_host("relations").take(rows, mode="clip") if self.graph.num_edges else codes
            result.relations[mask] = np.where(rows >= 0, relation_codes, codes)
        firsts = [width - one.shape[1] for one in tables]
        return [_Steps(*(part[a:b, n:] for part in result)) for (a, b), n in zip(pairwise(ends), firsts, strict=True)]

    def _no_step(self, owner: str, what: str, near: int, far: int) -> InvalidArgumentError:
        ids = self.graph.ids
        return InvalidArgumentError(
            f"{owner} returned a {what} with a step from {ids[near]!r} to {ids[far]!r}, which no edge joins and no name in "
            "relations."
        )

    def path(self, nodes: Sequence[int], steps: Iterable[tuple[int, bool, int]]) -> NodePath:
        """Return the path through some nodes; `steps` has the edge, its direction and the relation of each step."""
        graph, (names, ahead, texts) = self.graph, (list[str](), list[bool | None](), list[str]())
        ids = [graph.ids[row] for row in nodes]
        for n, (row, along, code) in enumerate(steps):
            visible = self.mask is None or bool(self.mask[nodes[n]] and self.mask[nodes[n + 1]])
            if row >= 0:
                name = graph.relation_names[code]
                if visible:
                    self._rows[(ids[n], ids[n + 1], name) if along else (ids[n + 1], ids[n], name)] = row
            else:
                name = step_name(graph.texts[nodes[n]], code) if visible else ""
            names.append(name)
            ahead.append(along if row >= 0 else None)
            texts.append(graph.edge_texts[row] if visible and row >= 0 and graph.edge_texts else "")
        return NodePath(tuple(ids), tuple(names), tuple(ahead), tuple(map(self.title, nodes)), tuple(texts))

    def visible_chains(self, chains: Chains) -> Chains:
        """Return the chains whose nodes may all be shown."""
        return chains if self.mask is None else chains.taken(((chains.nodes < 0) | self.mask[chains.nodes]).all(1))


class _Steps(NamedTuple):
    """The edges that the steps of paths follow, whether along their direction, and their relations, each of shape [K, L - 1].

    A step without an edge has the edge -1 and the relation that it was given.
    """

    rows: np.ndarray
    forward: np.ndarray
    relations: np.ndarray

    def by_path(self) -> Iterator[list[tuple[int, bool, int]]]:
        """Yield the edge, the direction and the relation of each step, path by path."""
        return (list(zip(*path, strict=True)) for path in zip(*(part.tolist() for part in self), strict=True))


def _stacked(tables: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Return tables, each of shape [K, L], one after another, with -1 before the columns of narrower ones: shape [M, width]."""
    return np.concatenate([wider(table, width) for table in tables]) if tables else np.zeros((0, width), np.int64)


class _HitMaker(NamedTuple):
    """Makes the hits of a question."""

    paths: _Paths
    plain: Callable[[int, str], int | None] | None
    reason: str
    similarities: Lazy[Similarities]

    def hits(self, b: int, candidates: Candidates, trails: _Steps, chain_steps: _Steps | None) -> tuple[Hit, ...]:
        """Return the nodes, chains and facts found for the question with the number b, whose paths have these steps."""
        chains = () if candidates.chains is None or chain_steps is None else self._chains(b, candidates.chains, chain_steps)
        facts = () if candidates.facts is None else self._facts(b, candidates.facts)
        return (*self._nodes(b, candidates, trails), *chains, *facts)

    def _nodes(self, b: int, candidates: Candidates, trails: _Steps) -> Iterator[Hit]:
        graph, similarities, ranks, context = (
            self.paths.graph,
            self.similarities.value,
            candidates.columns.get("ranks"),
            candidates.columns.get("context"),
        )
        columns = (
            candidates.nodes.tolist(),
            candidates.scores.tolist(),
            candidates.origins.tolist(),
            self._paths(candidates, trails),
        )
        for place, (row, score, origin, path) in enumerate(zip(*columns, strict=True)):
            node, operator = graph.node(row).shown(), candidates.operators[origin]
            yield Hit(
                node.id,
                node.text,
                score,
                operator,
                path,
                node.title,
                node.type,
                node.metadata,
                context=_ALONE if context is None else self.paths.context(row, context[place].tolist()),
                origin=node.origin,
                ranks={} if ranks is None else {n: int(r) or None for n, r in zip(candidates.lists, ranks[place], strict=True)},
                plain=None if self.plain is None else partial(self.plain, b, node.id),
                reason=self.reason,
                similarity=similarities.get((b, row)),
            )

    def _paths(self, candidates: Candidates, trails: _Steps) -> Iterator[NodePath]:
        """Yield the path to each candidate."""
        last, begins = candidates.trails.shape[1] - 1, np.count_nonzero(candidates.trails < 0, axis=1).tolist()
        scores = candidates.columns.get("trail_scores")
        for place, (trail, steps, first) in enumerate(zip(candidates.trails.tolist(), trails.by_path(), begins, strict=True)):
            path = self.paths.seed(trail[last]) if first == last else self.paths.path(trail[first:], steps[first:])
            yield path if scores is None else _scored(path, float(scores[place]))

    def _chains(self, b: int, chains: Chains, chain_steps: _Steps) -> Iterator[Hit]:
        for nodes, score, steps in zip(chains.nodes.tolist(), chains.scores.tolist(), chain_steps.by_path(), strict=True):
            rows = [row for row in nodes if row >= 0]
            path = self.paths.path(rows, steps[: len(rows) - 1])
            scored_path, similarity = _scored(path, score) if chains.rising else path, self._largest(b, rows)
            yield Hit(" | ".join(path.nodes), path.text, score, chains.operator, scored_path, kind="chain", similarity=similarity)

    def _facts(self, b: int, facts: Facts) -> Iterator[Hit]:
        graph, paths = self.paths.graph, self.paths
        for edge, row, score in zip(graph.edges(facts.rows.tolist()), facts.rows.tolist(), facts.scores.tolist(), strict=True):
            ends = (edge.source, edge.target)
            if all(paths.may_show(graph.row(end)) for end in ends):
                titles = tuple(paths.title(graph.row(end)) for end in ends)
                path = NodePath(ends, (edge.relation,), (True,), titles, (edge.text,))
                ids, text = f"{edge.source} | {edge.relation} | {edge.target}", edge.text or path.text
                # Edges with the same relation between the same nodes are separate facts.
                place = graph.parallel_place(row)
                ids, similarity = ids if place == 1 else f"{ids} | {place}", self._largest(b, map(graph.row, ends))
                metadata, operator = copied(edge.metadata), facts.operator
                yield Hit(ids, text, score, operator, path, metadata=metadata, kind="fact", edge=edge, similarity=similarity)

    def _largest(self, b: int, nodes: Iterable[int]) -> float | None:
        similarities = self.similarities.value
        return max((value for node in nodes if (value := similarities.get((b, node))) is not None), default=None)


def _scored(path: NodePath, score: float) -> NodePath:
    return path if isnan(score) else replace(path, score=score)
