"""Candidates as hits: the nodes, chains and facts that operators find, with their paths looked up in the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import isnan
from typing import Any

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

__all__ = ["NOTHING_FOUND", "Similarities", "to_hits"]

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
        context, ranks = each.beside.get("context"), each.beside.get("ranks")
        hits = [
            _node_hit(
                paths.stored(node),
                score,
                each.operators[origin],
                next(walked),
                context=_ALONE if context is None else paths.context(node, context[place].tolist()),
                ranks={} if ranks is None else {n: int(r) or None for n, r in zip(each.lists, ranks[place], strict=True)},
                plain=None if plain is None else partial(plain, b, graph.ids[node]),
                reason=reason,
                similarity=alike.get((b, node)),
            )
            for place, (node, score, origin) in enumerate(zip(each.nodes.tolist(), each.scores.tolist(), each.origins.tolist(), strict=True))
        ]
        near = partial(_largest, alike, b)
        hits += _chain_hits(each.chains, chains[b], near) + _fact_hits(each.facts, paths, near)
        # The path of a seed is the hit itself.
        longer = [hit.path for hit in hits if len(hit.path.nodes) > 1]
        mentioned = {node: told for path in longer for node in path.nodes if (told := paths.node(node)) is not None}
        edges = paths.edges(triple for path in longer for triple in path.triples())
        results.append(Hits(hits, notes[b] if notes else (), mentioned, edges, trace))
    return results


class _Paths:
    """Paths through nodes given by row; titles only of nodes that may be shown."""

    def __init__(self, graph: CorpusGraph, shown: np.ndarray | None) -> None:
        self.graph, self.shown = graph, shown
        self._rows: dict[_Triple, int] = {}
        self._nodes: dict[int, Node] = {}
        self._seeds: dict[int, NodePath] = {}

    def may_show(self, row: int) -> bool:
        return self.shown is None or bool(self.shown[row])

    def stored(self, row: int) -> Node:
        """Return the node at a row, made once."""
        if row not in self._nodes:
            self._nodes[row] = self.graph.node(row)
        return self._nodes[row]

    def title(self, row: int) -> str:
        """Return the title of a node, of one with a UUID and without a title a label, and "" of one that may not be shown."""
        return path_title(self.graph, row) if self.may_show(row) else ""

    def seed(self, row: int) -> NodePath:
        """Return the path of one node, made once."""
        if row not in self._seeds:
            self._seeds[row] = NodePath((self.graph.ids[row],), titles=(self.title(row),))
        return self._seeds[row]

    def edges(self, steps: Iterable[_Triple]) -> dict[_Triple, Edge]:
        """Return the edges of the graph that steps of these paths follow, where both ends may be shown."""
        keys = [key for key in dict.fromkeys(steps) if key in self._rows]
        if not keys:
            return {}
        return dict(zip(keys, self.graph.edges([self._rows[key] for key in keys]), strict=True))

    def context(self, row: int, neighbors: Sequence[int]) -> Subgraph:
        """Return the nodes of some rows that may be shown, and the edges among them and the node of `row`."""
        kept = [near for near in neighbors if near >= 0 and self.may_show(near)]
        inside = self.graph.edges_within([row, *kept]) if kept else []
        return Subgraph(tuple(map(self.graph.node, kept)), tuple(self.graph.edges(inside)))

    def node(self, node: str) -> Node | None:
        row = self.graph.row(node)
        return self.stored(row) if self.may_show(row) else None

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


def _scored(path: NodePath, score: float | None) -> NodePath:
    return path if score is None else replace(path, score=score)


def _node_paths(paths: _Paths, found: Sequence[Candidates]) -> list[NodePath]:
    """Return the path to every candidate, those of all questions in one look-up."""
    trails, relations, scores = list[list[int]](), list[list[int]](), list[float | None]()
    for each in found:
        own = each.beside.get("trail_scores")
        scores += [None] * len(each) if own is None else [None if isnan(score) else score for score in own.tolist()]
        if each.trails.shape[1] == 1:
            # Of a search, often all.
            trails += each.trails.tolist()
            relations += [[]] * len(each)
            continue
        for trail, walked in zip(each.trails.tolist(), each.steps().tolist(), strict=True):
            rows = [node for node in trail if node >= 0]
            trails.append(rows)
            relations.append(walked[len(trail) - len(rows) :])
    owners = [each.operators[origin] for each in found for origin in each.origins.tolist()]
    return list(map(_scored, paths.of(trails, owners, "trail", relations), scores))


def _node_hit(stored: Node, score: float, operator: str, path: NodePath, **found: Any) -> Hit:
    node = stored.shown()
    origin = copied(node.origin)
    return Hit(node.id, node.text, score, operator, path, node.title, node.type, copied(node.metadata), origin=origin, **found)


def _largest(alike: Similarities, query: int, nodes: Iterable[int]) -> float | None:
    return max((value for node in nodes if (value := alike.get((query, node))) is not None), default=None)


_Chain = tuple[list[int], float, NodePath]


def _chain_paths(paths: _Paths, found: Sequence[Candidates]) -> list[list[_Chain]]:
    """Return the chains of each question that may be shown: rows, score and path, those of all questions in one look-up."""
    kept: list[list[tuple[list[int], float]]] = []
    for each in found:
        table = [] if each.chains is None else zip(each.chains.nodes.tolist(), each.chains.scores.tolist(), strict=True)
        told = (([row for row in rows if row >= 0], score) for rows, score in table)
        kept.append([(rows, score) for rows, score in told if all(map(paths.may_show, rows))])
    owners = [each.chains.operator for each, part in zip(found, kept, strict=True) if each.chains is not None for _ in part]
    walked = iter(paths.of([rows for part in kept for rows, _ in part], owners, "chain"))
    return [[(rows, score, next(walked)) for rows, score in part] for part in kept]


def _chain_hits(chains: Chains | None, told: list[_Chain], alike: _Largest) -> list[Hit]:
    if chains is None:
        return []
    shown = [(_scored(path, score if chains.rising else None), score, alike(rows)) for rows, score, path in told]
    return [Hit(" | ".join(p.nodes), p.text, s, chains.operator, p, kind="chain", similarity=near) for p, s, near in shown]


def _fact_hits(facts: Facts | None, paths: _Paths, alike: _Largest) -> list[Hit]:
    if facts is None:
        return []
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
