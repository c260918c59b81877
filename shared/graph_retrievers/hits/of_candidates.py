"""Candidates as hits: the nodes, chains and facts that operators find, with their paths looked up in the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, islice
from math import isnan

import numpy as np
import torch

from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.chains import Chains, Facts
from graph_retrievers.core.trace import Trace
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.graph.labels import path_title
from graph_retrievers.graph.names import named_step
from graph_retrievers.graph.node_path import NodePath
from graph_retrievers.graph.plain import copied
from graph_retrievers.graph.subgraph import Subgraph
from graph_retrievers.hits.hit import Hit
from graph_retrievers.hits.hits import Hits

__all__ = ["to_hits"]

_Triple = tuple[str, str, str]
Similarities = Mapping[tuple[int, int], float | None]
"""Cosines of nodes and questions, by the number of the question and the row of the node."""
_Largest = Callable[[Iterable[int]], float | None]

_ALONE = Subgraph()

NOTHING_FOUND = "the operators found no node"
"""Note on a query for which the operators, without backfill, found no node."""


def to_hits(
    found: Sequence[Candidates],
    graph: CorpusGraph,
    shown: np.ndarray | None = None,
    plain: Callable[[int, str], int | None] | None = None,
    reason: str = "",
    alike: Similarities | None = None,
    trace: Trace | None = None,
    notes: Sequence[Sequence[str]] = (),
) -> list[Hits]:
    """Return candidates as hits: the nodes with their paths, then all chains, then all facts.

    Parameters
    ----------
    found : sequence of Candidates, length B
    graph : CorpusGraph
    shown : ndarray, shape [N], bool, optional
        Nodes that may be returned: titles and contents of other nodes on paths are hidden, and chains and facts with such a
        node are left out.
    plain : callable, optional
        Maps the number of a query and the id of a node to `plain_rank`.
    reason : str, default ""
        The reason of the retriever, for all hits that are nodes.
    alike : mapping of (int, int) to float or None, optional
        `similarity` by the number of the query and the row of the node.
    trace : Trace, optional
        The requests of the batch.
    notes : sequence of sequence of str, length B, optional

    Returns
    -------
    list of Hits, length B
    """
    paths, alike, results = _Paths(graph, shown), alike or {}, []
    walked, chains = iter(_node_paths(paths, found)), _chain_paths(paths, found)
    for b, each in enumerate(found):
        context, ranks, hits = each.beside.get("context"), each.beside.get("ranks"), list[Hit]()
        rows, origins = each.nodes.tolist(), each.origins.tolist()
        for place, (row, score, origin) in enumerate(zip(rows, each.scores.tolist(), origins, strict=True)):
            node = graph.node(row).shown()
            hits.append(
                Hit(
                    node.id,
                    node.text,
                    score,
                    each.operators[origin],
                    next(walked),
                    node.title,
                    node.type,
                    node.metadata,
                    context=_ALONE if context is None else paths.context(row, context[place].tolist()),
                    origin=node.origin,
                    ranks={} if ranks is None else {n: int(r) or None for n, r in zip(each.lists, ranks[place], strict=True)},
                    plain=None if plain is None else partial(plain, b, node.id),
                    reason=reason,
                    similarity=alike.get((b, row)),
                )
            )
        near = partial(_largest, alike, b)
        if each.chains is not None:
            hits += _chain_hits(each.chains, chains[b], near)
        if each.facts is not None:
            hits += _fact_hits(each.facts, paths, near)
        results.append(Hits(hits, notes[b] if notes else (), *paths.told(hits), trace))
    return results


def named_rows(found: Candidates, ends: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the rows of the nodes, of those on chains and of the ends of facts, each once: int64, shape [n].

    `ends` maps the rows of M edges to those of their two nodes, shape [M, 2].

    >>> named_rows(Candidates.seeds(np.array([4, 2]), np.zeros(2), "Mine"), lambda edges: edges)
    array([4, 2])
    """
    if found.chains is None and found.facts is None:
        return found.nodes
    rows = [found.nodes]
    if found.chains is not None:
        rows.append(found.chains.nodes[found.chains.nodes >= 0])
    if found.facts is not None:
        rows.append(ends(found.facts.rows).ravel())
    return np.unique(np.concatenate(rows))


class _Paths:
    """Paths through nodes given by row; titles only of nodes that may be shown."""

    def __init__(self, graph: CorpusGraph, shown: np.ndarray | None) -> None:
        self.graph, self.shown = graph, shown
        # The nodes of longer paths, and the rows of their steps.
        self._rows: dict[_Triple, int] = {}
        self._nodes: dict[str, Node] = {}
        self._seeds: dict[int, NodePath] = {}

    def may_show(self, row: int) -> bool:
        return self.shown is None or bool(self.shown[row])

    def title(self, row: int) -> str:
        """Return the title of a node, of one with a UUID and without a title a label, and "" of one that may not be shown."""
        graph = self.graph
        return path_title(graph.ids[row], graph.titles[row], graph.texts[row]) if self.may_show(row) else ""

    def seed(self, row: int) -> NodePath:
        """Return the path of one node, made once."""
        if row not in self._seeds:
            self._seeds[row] = NodePath((self.graph.ids[row],), titles=(self.title(row),))
        return self._seeds[row]

    def told(self, hits: Sequence[Hit]) -> tuple[dict[str, Node], dict[_Triple, Edge]]:
        """Return the nodes on the paths of hits that may be shown, by id, and the edges there, by their ends and relation."""
        # The path of a seed is the hit itself.
        longer = [hit.path for hit in hits if len(hit.path.nodes) > 1]
        if not longer:
            return {}, {}
        nodes = {node: told for path in longer for node in path.nodes if (told := self._node(node)) is not None}
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
        kept = [near for near in neighbors if near >= 0 and self.may_show(near)]
        inside = self.graph.edges_within([row, *kept]) if kept else []
        return Subgraph(tuple(map(self.graph.node, kept)), tuple(self.graph.edges(inside)))

    def of(
        self, trails: Sequence[Sequence[int]], owners: Sequence[str], what: str, relations: Sequence[Sequence[int]] | None = None
    ) -> list[NodePath]:
        """Return a path for each trail in one look-up; `relations` has the relation of each step, as in a ranking.

        InvalidArgumentError for a step that is neither an edge nor a name: `owners` are the operators that returned each a `what`.
        """
        graph = self.graph
        steps = [pair for trail in trails if len(trail) > 1 for pair in zip(trail, trail[1:], strict=False)]
        if not steps:
            return [self.seed(row) for (row,) in trails]
        near, far = torch.tensor(steps, dtype=torch.int64, device=graph.device).reshape(-1, 2).unbind(1)
        given = None if relations is None else [r for row in relations for r in row]
        wanted = torch.tensor(given, dtype=torch.int64, device=graph.device) if given and max(given) >= 0 else None
        found_rows, forward = graph.steps_between(near, far, wanted)
        number = graph.relations[found_rows.clamp(min=0)] if graph.num_edges else found_rows
        # One answer of the device to wait for.
        rows, numbers, along_rows = torch.stack([found_rows, number.long(), forward.long()]).tolist()
        names = [graph.relation_names[name] if row >= 0 else "" for row, name in zip(rows, numbers, strict=True)]
        ahead: list[bool | None] = [bool(along) if row >= 0 else None for row, along in zip(rows, along_rows, strict=True)]
        start, found, texts = 0, [], [""] * len(steps)
        for step, (row, (a, b), name, along) in enumerate(zip(rows, steps, names, ahead, strict=True)):
            if row < 0 and not (given is not None and named_step(graph.texts[a], given[step])):
                owner = owners[next(n for n, stop in enumerate(accumulate(len(trail) - 1 for trail in trails)) if step < stop)]
                raise InvalidArgumentError(
                    f"{owner} returned a {what} with a step from {graph.ids[a]!r} to {graph.ids[b]!r}, which no edge joins and no "
                    "name in relations."
                )
            ends = (a, b) if along else (b, a)
            if not (self.may_show(a) and self.may_show(b)):
                continue
            if row >= 0:
                self._rows[graph.ids[ends[0]], graph.ids[ends[1]], name] = row
                texts[step] = graph.edge_texts[row] if graph.edge_texts else ""
            else:
                names[step] = named_step(graph.texts[a], given[step] if given else -1)
        for trail in trails:
            if len(trail) == 1:
                found.append(self.seed(trail[0]))
                continue
            stop = start + len(trail) - 1
            titles = tuple(map(self.title, trail))
            ids = tuple(graph.ids[row] for row in trail)
            found.append(NodePath(ids, tuple(names[start:stop]), tuple(ahead[start:stop]), titles, tuple(texts[start:stop])))
            start = stop
        return found


def _node_paths(paths: _Paths, found: Sequence[Candidates]) -> list[NodePath]:
    """Return the path to every candidate, those of all questions in one look-up."""
    trails, relations, owners = list[list[int]](), list[list[int]](), list[str]()
    for each in found:
        if each.trails.shape[1] > 1:
            owners += map(each.operators.__getitem__, each.origins.tolist())
            for trail, steps in zip(each.trails.tolist(), each.steps().tolist(), strict=True):
                rows = [node for node in trail if node >= 0]
                trails.append(rows)
                relations.append(steps[len(trail) - len(rows) :])
    walked, made = iter(paths.of(trails, owners, "trail", relations) if trails else ()), list[NodePath]()
    for each in found:
        # The trails of a search are its nodes.
        part = islice(walked, len(each)) if each.trails.shape[1] > 1 else map(paths.seed, each.nodes.tolist())
        own = each.beside.get("trail_scores")
        made += part if own is None else map(_scored, part, own.tolist())
    return made


def _scored(path: NodePath, score: float) -> NodePath:
    return path if isnan(score) else replace(path, score=score)


def _largest(alike: Similarities, query: int, nodes: Iterable[int]) -> float | None:
    return max((value for node in nodes if (value := alike.get((query, node))) is not None), default=None)


_Chain = tuple[list[int], float, NodePath]


def _chain_paths(paths: _Paths, found: Sequence[Candidates]) -> dict[int, list[_Chain]]:
    """Return the chains of each question that may be shown: rows, score and path, those of all questions in one look-up."""
    kept: dict[int, list[tuple[list[int], float]]] = {}
    owners = list[str]()
    for b, each in enumerate(found):
        if each.chains is not None:
            table = zip(each.chains.nodes.tolist(), each.chains.scores.tolist(), strict=True)
            told = (([row for row in rows if row >= 0], score) for rows, score in table)
            kept[b] = [(rows, score) for rows, score in told if all(map(paths.may_show, rows))]
            owners += [each.chains.operator] * len(kept[b])
    if not kept:
        return {}
    walked = iter(paths.of([rows for part in kept.values() for rows, _ in part], owners, "chain"))
    return {b: [(rows, score, next(walked)) for rows, score in part] for b, part in kept.items()}


def _chain_hits(chains: Chains, told: list[_Chain], alike: _Largest) -> list[Hit]:
    hits = []
    for rows, score, path in told:
        scored = _scored(path, score) if chains.rising else path
        ids = " | ".join(path.nodes)
        hits.append(Hit(ids, path.text, score, chains.operator, scored, kind="chain", similarity=alike(rows)))
    return hits


def _fact_hits(facts: Facts, paths: _Paths, alike: _Largest) -> list[Hit]:
    graph, hits = paths.graph, []
    for edge, row, score in zip(graph.edges(facts.rows.tolist()), facts.rows.tolist(), facts.scores.tolist(), strict=True):
        ends = (edge.source, edge.target)
        if all(paths.may_show(graph.row(end)) for end in ends):
            titles = tuple(paths.title(graph.row(end)) for end in ends)
            path = NodePath(ends, (edge.relation,), (True,), titles, (edge.text,))
            ids, text = f"{edge.source} | {edge.relation} | {edge.target}", edge.text or path.text
            # Edges with the same relation between the same nodes are separate facts.
            place = graph.parallel_place(row)
            ids, near = ids if place == 1 else f"{ids} | {place}", alike(map(graph.row, ends))
            metadata, operator = copied(edge.metadata), facts.operator
            hits.append(Hit(ids, text, score, operator, path, metadata=metadata, kind="fact", edge=edge, similarity=near))
    return hits
