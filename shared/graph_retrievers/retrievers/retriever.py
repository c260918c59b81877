"""Retriever: a composition of operators on an index; and the hits it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError
from graph_retrievers.graph.filters import Filter, filter_mask
from graph_retrievers.index import GraphIndex, QueryBatch
from graph_retrievers.operators.operator import Operator, Ranking, positive
from graph_retrievers.signals.embedding import check_vectors

__all__ = ["BACKFILL", "Hit", "HitList", "Path", "Retriever"]

BACKFILL = "Backfill"
"""Operator name of hits that vector search added because the retriever found fewer than asked."""


@dataclass(frozen=True)
class Path:
    """How a hit was reached: nodes from a seed to the hit, and the relations between them.

    Attributes
    ----------
    nodes : tuple of str, length n >= 1
        Node ids; the last is the hit.
    relations : tuple of str, length n - 1
        Relation of each step ("" where the edge has no name).
    forward : tuple of bool, length n - 1
        True where the edge points along the path.
    """

    nodes: tuple[str, ...]
    relations: tuple[str, ...] = ()
    forward: tuple[bool, ...] = ()

    def __str__(self) -> str:
        """Return the path as text, e.g. ``a -[cites]-> b <-[cites]- c``."""
        text = self.nodes[0]
        for node, relation, forward in zip(self.nodes[1:], self.relations, self.forward, strict=True):
            text += (f" -[{relation}]-> " if forward else f" <-[{relation}]- ") + node
        return text

    def named(self, names: Mapping[str, str]) -> Path:
        """Return the path with ids replaced by names, where `names` has one."""
        return replace(self, nodes=tuple(names.get(node, node) for node in self.nodes))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the path as JSON-plain lists under ``nodes``, ``relations`` and ``forward``."""
        return {"nodes": list(self.nodes), "relations": list(self.relations), "forward": list(self.forward)}


@dataclass(frozen=True)
class Hit:
    """One retrieved node.

    Attributes
    ----------
    id, text, title, type : str
        The node.
    score : float
        What ordered it; comparable within one result only.
    operator : str
        Name of the operator that found it.
    path : Path
        How it was reached.
    metadata : mapping
        The node's metadata, a copy of its first level.
    kind : str
        ``"node"``, or what else a retriever returns (``"chain"``).
    """

    id: str
    text: str
    score: float
    operator: str
    path: Path
    title: str = ""
    type: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "node"

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as a JSON-plain mapping."""
        return {
            "id": self.id,
            "score": self.score,
            "title": self.title,
            "text": self.text,
            "type": self.type,
            "operator": self.operator,
            "path": self.path.to_dict(),
            "metadata": dict(self.metadata),
            "kind": self.kind,
        }


class HitList(list[Hit]):
    """Hits, best first.

    Attributes
    ----------
    notes : tuple of str
        What a person should know: a limit that cut the search short, a fallback that was taken.
    """

    def __init__(self, hits: Iterable[Hit] = (), notes: tuple[str, ...] = ()) -> None:
        super().__init__(hits)
        self.notes = notes

    def to_context(self) -> str:
        """Return the hits as text for a language model: see :func:`graph_retrievers.retrievers.context.to_context`."""
        from graph_retrievers.retrievers.context import to_context

        return to_context(self)


class Retriever:
    """Retrieves nodes of an index by a composition of operators.

    Published systems derive from it; a retriever of one's own needs no class:
    ``Retriever(index, Pipeline(VectorSearch(10), GRanker()))``.

    Parameters
    ----------
    index : GraphIndex
    operator : Operator
        Usually a :class:`~graph_retrievers.operators.operator.Pipeline`.
    k : int, default 10
        Hits to return.
    backfill : bool, default True
        Whether vector search (BM25 where the index has no vectors) fills up to k when the operators find fewer.
        Such hits come last, carry the operator name "Backfill" and scores below all others.
    batch_size : int, default 32
        Queries that run in lock-step.
    name : str, optional
        How tables call it.
    """

    inputs: tuple[str, ...] = ()
    """Names of further per-query arguments that the retriever's operators read."""

    def __init__(
        self,
        index: GraphIndex,
        operator: Operator,
        *,
        k: int = 10,
        backfill: bool = True,
        batch_size: int = 32,
        name: str | None = None,
    ) -> None:
        if not isinstance(index, GraphIndex):
            raise InvalidArgumentError(
                f"Expected a GraphIndex, got {type(index).__name__}; build one with GraphIndex.from_documents."
            )
        self.index = index
        self.operator = operator
        self.k = positive("k", k)
        self.backfill = backfill
        self.batch_size = positive("batch_size", batch_size)
        self.name = name or type(self).__name__

    def __repr__(self) -> str:
        """Return the name and the composition."""
        return f"{self.name}({self.operator.formula()}, k={self.k})"

    def rank(self, queries: QueryBatch) -> Ranking:
        """Return all that the operators find, filters applied, before anything is cut to k or filled up."""
        ranking = self.operator(queries)
        return ranking if queries.allowed is None else _only(ranking, queries.allowed)

    def retrieve(
        self,
        query: str,
        k: int | None = None,
        *,
        vector: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        **inputs: Any,
    ) -> HitList:
        """Return the hits for one query.

        Parameters
        ----------
        query : str
        k : int, optional
            Hits to return; the retriever's own k by default. Fewer come only where the corpus (or the filter)
            has fewer, or on an index without vectors, where fewer nodes share a word with the query.
        vector : array-like, shape [d], optional
            The query's vector, if it is known already.
        filter, seed_filter, traversal_filter : mapping or callable, optional
            Which nodes may be returned, may start a traversal, may be walked to.
        **inputs
            What else this retriever reads for a query; the names are in ``inputs``.

        Returns
        -------
        HitList
            Best first.

        Raises
        ------
        InvalidArgumentError
            If the query is empty, k is below 1 or an input is unknown.
        DimensionMismatchError, InvalidVectorError
            If the vector is not [d] as the index has it, or holds NaN or infinity.
        """
        vectors = None if vector is None else vector.unsqueeze(0) if isinstance(vector, Tensor) else [vector]
        return self.retrieve_batch(
            [query],
            k,
            vectors=vectors,
            filter=filter,
            seed_filter=seed_filter,
            traversal_filter=traversal_filter,
            **{name: [value] for name, value in inputs.items()},
        )[0]

    def retrieve_batch(
        self,
        queries: Sequence[str],
        k: int | None = None,
        *,
        vectors: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        **inputs: Sequence[Any],
    ) -> list[HitList]:
        """Return the hits for many queries, which run in lock-step.

        Parameters
        ----------
        queries : sequence of str, length B
        k, filter, seed_filter, traversal_filter
            As for :meth:`retrieve`, the same for all queries.
        vectors : array-like, shape [B, d], optional
            Or what computes them when they are first needed: an object that a slice of the queries can be taken from, and
            that is called with their texts.
        **inputs : sequence, length B
            One value a query.

        Returns
        -------
        list of HitList, length B
            What :meth:`retrieve` gives for each query.
        """
        if isinstance(queries, str) or not isinstance(queries, Sequence):
            raise InvalidArgumentError(f"retrieve_batch takes a list of queries, got {queries!r}; call retrieve for one.")
        k = self.k if k is None else positive("k", k)
        for name, values in inputs.items():
            if name not in self.inputs:
                known = ", ".join(self.inputs) or "none"
                raise UnexpectedArgumentError(f"{self.name} reads no {name!r}; besides k, vectors and filters it reads: {known}.")
            if len(values) != len(queries):
                raise InvalidArgumentError(f"{name} has {len(values)} entries for {len(queries)} queries.")
        if vectors is not None and not callable(vectors):
            vectors = check_vectors(vectors, len(queries), name="query vectors")
        # Filters are worked out once, whatever the number of batches.
        masks = {
            name: None if condition is None else filter_mask(self.index.graph, condition)
            for name, condition in (("filter", filter), ("seed_filter", seed_filter), ("traversal_filter", traversal_filter))
        }
        results: list[HitList] = []
        for start in range(0, len(queries), self.batch_size):
            part = slice(start, start + self.batch_size)
            batch = self.index.queries(
                list(queries[part]),
                vectors=None if vectors is None else vectors[part],
                **masks,
            )
            batch.k = k
            batch.inputs = {name: values[part] for name, values in inputs.items()}
            results.extend(self.hits(batch, self.rank(batch), k))
        return results

    def hits(self, queries: QueryBatch, ranking: Ranking, k: int) -> list[HitList]:
        """Return a ranking as hits: filled up if need be, cut to `k`, with paths."""
        k = min(k, len(self.index))
        if self.backfill:
            # Whole trails need no parents beyond k, so a wide ranking can be cut first.
            ranking = _filled(ranking if ranking.trails is None else ranking.top(k), queries, k)
        trails = _trails(ranking, k)
        nodes, scores = ranking.nodes[:, :k].tolist(), ranking.scores[:, :k].tolist()
        origins = ranking.origins[:, :k].tolist()
        paths = iter(self.paths([trails[b][j] for b, row in enumerate(nodes) for j, node in enumerate(row) if node >= 0]))
        results = []
        for b in range(len(ranking)):
            hits = [
                self._hit(node, scores[b][j], ranking.operators[origins[b][j]], next(paths))
                for j, node in enumerate(nodes[b])
                if node >= 0
            ]
            results.append(HitList(hits, ranking.notes[b] if ranking.notes else ()))
        return results

    def paths(self, trails: Sequence[Sequence[int]]) -> list[Path]:
        """Return paths through nodes given by row, all in one look-up; of parallel edges, the first is named."""
        graph = self.index.graph
        steps = [pair for trail in trails for pair in zip(trail, trail[1:], strict=False)]
        near, far = torch.tensor(steps, dtype=torch.int64, device=graph.device).reshape(-1, 2).unbind(1)
        relations, forward = (values.tolist() for values in graph.relations_between(near, far))
        names = [graph.relation_names[relation] if relation >= 0 else "" for relation in relations]
        found, start = [], 0
        for trail in trails:
            stop = start + len(trail) - 1
            found.append(Path(tuple(graph.ids[r] for r in trail), tuple(names[start:stop]), tuple(forward[start:stop])))
            start = stop
        return found

    def _hit(self, row: int, score: float, operator: str, path: Path) -> Hit:
        graph = self.index.graph
        return Hit(
            id=graph.ids[row],
            text=graph.texts[row],
            score=score,
            operator=operator,
            path=path,
            title=graph.titles[row],
            type=graph.types[row],
            metadata=dict(graph.metadata[row]),
        )


def _only(ranking: Ranking, allowed: Tensor) -> Ranking:
    """Return the ranking without nodes that may not be returned; paths through them are kept as trails."""
    keep = allowed[ranking.nodes.clamp(min=0)] & (ranking.nodes >= 0)
    if ranking.trails is None and bool((ranking.parents >= 0).any()):
        trails = _trails(ranking, ranking.width)
        length = max((len(t) for row in trails for t in row), default=1)
        table = [[[-1] * (length - len(t)) + t for t in row] for row in trails]
        ranking = replace(ranking, trails=torch.tensor(table, device=ranking.nodes.device).reshape(*ranking.nodes.shape, length))
    order = torch.sort((~keep).to(torch.int8), dim=1, stable=True).indices
    keep = keep.gather(1, order)

    def kept(values: Tensor, pad: float) -> Tensor:
        return torch.where(keep, values.gather(1, order), torch.full_like(values, pad))

    trails_table = ranking.trails
    if trails_table is not None:
        trails_table = trails_table.gather(1, order.unsqueeze(-1).expand(-1, -1, trails_table.shape[2]))
    return replace(
        ranking,
        nodes=kept(ranking.nodes, -1),
        scores=kept(ranking.scores, float("-inf")),
        parents=kept(ranking.parents, -1),
        origins=kept(ranking.origins, -1),
        trails=trails_table,
    )


def _filled(ranking: Ranking, queries: QueryBatch, k: int) -> Ranking:
    """Return the ranking with vector search's best behind it where it holds fewer than `k`."""
    lengths = ranking.lengths()
    if not bool((lengths < k).any()):
        return ranking
    index = queries.index
    reach = min(k + ranking.width, len(index))
    if index.has_dense and (queries.has_vectors or not index.has_lexical):
        scores, rows = index.dense.search(queries.vectors, reach, queries.allowed)
    elif index.has_lexical:
        scores, rows = index.lexical.search(queries.texts, reach, queries.allowed)
    else:
        return ranking
    filled = ranking.append(Ranking.seeds(rows, scores, BACKFILL), torch.clamp(lengths, min=k))
    place = torch.arange(filled.width, device=lengths.device).expand(len(ranking), -1)
    added = (place >= lengths.unsqueeze(1)) & (filled.nodes >= 0)
    if ranking.width:
        lowest = ranking.scores.masked_fill(ranking.nodes < 0, float("inf")).amin(1, keepdim=True)
        # Behind the last score, one less each, as GAR's backfill does; a list that was empty keeps its scores.
        below = lowest - 1 - (place - lengths.unsqueeze(1))
        filled = replace(filled, scores=torch.where(added & (lengths > 0).unsqueeze(1), below, filled.scores))
    return filled


def _trails(ranking: Ranking, k: int) -> list[list[list[int]]]:
    """Return the path of each of the first `k` nodes as node rows, from its seed to itself."""
    if ranking.trails is not None:
        table = ranking.trails[:, :k].tolist()
        nodes = ranking.nodes[:, :k].tolist()
        return [
            [[r for r in trail if r >= 0] or [node] for trail, node in zip(*row, strict=True)]
            for row in zip(table, nodes, strict=True)
        ]
    nodes, parents = ranking.nodes.tolist(), ranking.parents.tolist()
    result = []
    for row_nodes, row_parents in zip(nodes, parents, strict=True):
        parent_of = dict(zip(row_nodes, row_parents, strict=True))
        trails = []
        for node in row_nodes[:k]:
            trail, seen = [node], {node}
            while (parent := parent_of.get(trail[-1], -1)) >= 0 and parent not in seen:
                trail.append(parent)
                seen.add(parent)
            trails.append(trail[::-1])
        result.append(trails)
    return result
