"""Relations of entities, and the chunks of entities and relations: the graph search of LightRAG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from graph_retrievers.arguments import choice, positive, strings
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import type_mask
from graph_retrievers.graph.ragged import columns_of, gather_rows, pad_ranked
from graph_retrievers.graph.tokens import estimate_tokens
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.operators.round_robin import place_scores
from graph_retrievers.queries import Queries
from graph_retrievers.results import Facts, Ranking, extended_relations, extended_trails

__all__ = ["ChunkGathering", "RelationGathering", "chunk_quotas", "within_tokens"]

# Quotas of all items together fit into 64 bits.
_MOST_RELATED = 1 << 31


def chunk_quotas(count: int, most: int = 5) -> list[int]:
    """Return how many chunks each of `count` items may bring: from `most` for the first down to 1, evenly (LightRAG, "WEIGHT").

    Python's rounding: a half goes to the even number.

    >>> chunk_quotas(3), chunk_quotas(2), chunk_quotas(1)
    ([5, 3, 1], [5, 1], [5])
    """
    return [round(most - place / max(count - 1, 1) * (most - 1)) for place in range(count)]


def within_tokens(rows: Tensor, of: str, graph: CorpusGraph, budget: int) -> Tensor:
    """Return which entries of lists come before their texts exceed a number of tokens: Tensor, shape [B, K], bool.

    `rows`, shape [B, K], are node rows (`of` is "nodes") or relationship rows ("edges"), -1 on pads; the texts are those that
    signals read, and their tokens are estimated (:func:`~graph_retrievers.graph.tokens.estimate_tokens`).
    """
    contents: Callable[[], list[str]] = graph.contents if of == "nodes" else graph.edge_contents
    tokens = graph.cache.get(("tokens", of), lambda: torch.tensor([*map(estimate_tokens, contents()), 0], device=graph.device))
    # The last entry is that of pads.
    return (torch.cumsum(tokens[rows], 1) <= budget) & (rows >= 0)


class RelationGathering(Operator):
    """The relations of the ranked nodes as facts, those between nodes of many neighbours first.

    Relations are relationship rows with a ranked node at one end. Each is taken once, in order of the degrees of its two ends
    together, then of its weight, largest first; equal ones in the order in which they are first seen: those of the first node, in
    row order, then those of the next.

    Parameters
    ----------
    tokens : int, default 8000
        Budget for the texts of the relations; the rest is cut off.
    exclude_types : sequence of str, default ()
        Node types that are not entities: edges at them are not relations, and do not count for degrees.

    Notes
    -----
    The degree of a node is its number of distinct neighbours. The original joins parallel edges to one; here each is a relation.
    The work is that of reading all edges of the ranked nodes.

    References
    ----------
    LightRAG, ``operate.py``.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.graph import CorpusGraph
    >>> graph = CorpusGraph(["a", "b", "c"], [""] * 3, edges=[("a", "b"), ("b", "c")])
    >>> seeds = Ranking.of(torch.tensor([[1]]), torch.tensor([[1.0]]), "Seeds")
    >>> RelationGathering()(Queries.of(GraphIndex.from_graph(graph), ["?"]), seeds).facts.rows
    tensor([[0, 1]])
    """

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, tokens: int = 8000, *, exclude_types: Sequence[str] = ()) -> None:
        self.tokens, self.exclude_types = positive("tokens", tokens), strings("exclude_types", exclude_types)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the ranking with the relations of its nodes as facts."""
        graph, view, count = queries.index.graph, queries.index.graph.incidence, len(ranking)
        excluded = type_mask(graph, self.exclude_types) if self.exclude_types else None
        place, entry = gather_rows(view.indptr, ranking.nodes.flatten())
        far = view.neighbors[entry].long()
        kept = torch.ones_like(far, dtype=torch.bool) if excluded is None else ~excluded[far]
        if queries.walk_allowed is not None:
            kept &= queries.walk_allowed[far]
        place, rows = place[kept], view.rows[entry[kept]].long()
        # By node, then by row, each where it is first seen.
        order = torch.argsort(place * graph.num_edges + rows)
        place, rows = place[order], rows[order]
        batch = place // max(ranking.width, 1)
        first = _first(batch * graph.num_edges + rows)
        batch, rows = batch[first], rows[first]
        degree = _degrees(graph, self.exclude_types, excluded)
        # From the last criterion to the first; each sort keeps the order of equals, which was that in which they are seen.
        order = torch.argsort(graph.weights[rows], descending=True, stable=True)
        degrees = degree[graph.sources[rows]] + degree[graph.targets[rows]]
        order = order[torch.argsort(degrees[order], descending=True, stable=True)]
        order = order[torch.argsort(batch[order], stable=True)]
        table = _table(batch[order], rows[order], count)
        kept = within_tokens(table, "edges", graph, self.tokens)
        table = table.masked_fill(~kept, -1)[:, : int(kept.sum(1).max()) if count else 0]
        return replace(ranking, facts=Facts(table, place_scores(table), self.name))


def _first(keys: Tensor) -> Tensor:
    """Return where each key stands for the first time, ascending."""
    keys, order = torch.sort(keys, stable=True)
    new = torch.ones_like(keys, dtype=torch.bool)
    new[1:] = keys[1:] != keys[:-1]
    return order[new].sort().values


def _degrees(graph: CorpusGraph, types: tuple[str, ...], excluded: Tensor | None) -> Tensor:
    """Return the number of distinct neighbours of each node that are not `excluded`, shape [N]."""
    if excluded is None:
        return graph.degree

    def make() -> Tensor:
        counted = (~excluded[graph.indices.long()]).long()
        return torch.segment_reduce(counted.double(), "sum", offsets=graph.indptr, initial=0.0).long()

    return graph.cache.get(("degrees without", types), make)


def _table(batch: Tensor, values: Tensor, count: int) -> Tensor:
    """Return values, grouped by query, as a table [B, K]; -1 pads."""
    lengths = torch.bincount(batch, minlength=count)
    column = torch.arange(batch.numel(), device=batch.device) - (torch.cumsum(lengths, 0) - lengths)[batch]
    table = torch.full((count, int(lengths.max()) if count else 0), -1, dtype=torch.int64, device=batch.device)
    table[batch, column] = values
    return table


class ChunkGathering(Operator):
    """The chunks of the ranked entities, or of their relations.

    Parameters
    ----------
    of : {"entities", "relations"}
        What chunks are gathered for: the ranked nodes, or the ranking's facts. Chunks of entities are not gathered again for
        relations.
    pick : {"vector", "weight"}, default "vector"
        Which chunks are taken. ``"vector"``: of n items with chunks, the ``related * n // 2`` that are most similar to the
        question. ``"weight"``: an item brings up to its quota of :func:`chunk_quotas`, those of most items first; what quotas leave
        over goes to the first items that have more.
    chunk_types : sequence of str, default ()
        Node types that are chunks. Those of an entity are its neighbours of these types; those of a relation, which the original
        reads from where it was extracted, are linked to both of its ends. Without types, every node is its own chunk, and a
        relation has its two ends.
    related : int, default 5
        Chunks for an item.
    entity_tokens, relation_tokens : int, default 6000 and 8000
        Budgets for the texts of the entities and of the relations; only those within them bring chunks.

    Notes
    -----
    A chunk of several items belongs to the first. As published, entities count for n and for quotas though all of their chunks
    belong to others, and relations do not. By ``"vector"``, equal cosines go to the lower row. The n-th chunk scores 1 / n.
    In the taxonomy this is a search of the graph: only edges lead to chunks.

    References
    ----------
    LightRAG, ``operate.py``.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.graph import CorpusGraph
    >>> graph = CorpusGraph(["p", "a"], ["Ada.", ""], types=["passage", "person"], edges=[("p", "a", "mentions")])
    >>> seeds = Ranking.of(torch.tensor([[1]]), torch.tensor([[1.0]]), "Seeds")
    >>> operator = ChunkGathering("entities", pick="weight", chunk_types=["passage"])
    >>> operator(Queries.of(GraphIndex.from_graph(graph), ["?"]), seeds).trails.tolist()
    [[[1, 0]]]
    """

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(
        self,
        of: str = "entities",
        *,
        pick: str = "vector",
        chunk_types: Sequence[str] = (),
        related: int = 5,
        entity_tokens: int = 6000,
        relation_tokens: int = 8000,
    ) -> None:
        self.of, self.pick = choice("of", of, ("entities", "relations")), choice("pick", pick, ("vector", "weight"))
        self.chunk_types, self.related = strings("chunk_types", chunk_types), min(positive("related", related), _MOST_RELATED)
        self.entity_tokens = positive("entity_tokens", entity_tokens)
        self.relation_tokens = positive("relation_tokens", relation_tokens)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the chunks, each with the trail of the entity that it belongs to, and itself."""
        found, via = self._picked(queries, *self._of_entities(queries, ranking))
        if self.of == "relations":
            found, via = self._picked(queries, *self._of_relations(queries, ranking), found)
        steps, own = ranking.steps(), columns_of(ranking.nodes, found).unsqueeze(2)
        trails, relations = extended_trails(ranking.trails, via, found), extended_relations(steps, via, found)
        if ranking.width:
            # An entity that is a chunk has its own trail.
            def own_instead(mine: Tensor, extended: Tensor) -> Tensor:
                kept = mine.gather(1, own.clamp(min=0).expand(-1, -1, mine.shape[2]))
                return torch.where(own >= 0, pad(kept, (1, 0), value=-1)[:, :, -extended.shape[2] :], extended)

            trails, relations = own_instead(ranking.trails, trails), own_instead(steps, relations)
        return Ranking.of(found, place_scores(found), self.name, trails, relations=relations).trimmed()

    def _of_entities(self, queries: Queries, ranking: Ranking) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return query, item, chunk, and the column of the entity that leads to it, of all chunks of entities, each [T]."""
        graph = queries.index.graph
        batch, item = within_tokens(ranking.nodes, "nodes", graph, self.entity_tokens).nonzero().unbind(1)
        node = ranking.nodes[batch, item]
        if not self.chunk_types:
            return batch, item, node, item
        place, chunk = self._linked(queries, node)
        return batch[place], item[place], chunk, item[place]

    def _of_relations(self, queries: Queries, ranking: Ranking) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return what :meth:`_of_entities` does, of the chunks of relations."""
        graph, facts = queries.index.graph, ranking.facts
        table = ranking.nodes[:, :0] if facts is None else facts.rows
        batch, item = within_tokens(table, "edges", graph, self.relation_tokens).nonzero().unbind(1)
        near, far = graph.sources[table[batch, item]], graph.targets[table[batch, item]]
        columns = [columns_of(ranking.nodes, _table(batch, end, len(ranking)))[batch, item] for end in (near, far)]
        if not self.chunk_types:
            return batch.repeat(2), item.repeat(2), torch.cat([near, far]), torch.cat([columns[1], columns[0]])
        # Through the end of fewer neighbours, so that no hub is read for each of its relations.
        fewer = graph.degree[near] <= graph.degree[far]
        place, chunk = self._linked(queries, torch.where(fewer, near, far))
        shared = graph.adjacent(torch.where(fewer, far, near)[place], chunk)
        place, chunk = place[shared], chunk[shared]
        return batch[place], item[place], chunk, torch.where(columns[0] >= 0, columns[0], columns[1])[place]

    def _linked(self, queries: Queries, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the chunks linked to nodes: the place of the node, and the chunk, each [T]."""
        graph = queries.index.graph
        place, entry = gather_rows(graph.indptr, nodes)
        chunk = graph.indices[entry].long()
        kept = type_mask(graph, self.chunk_types)[chunk]
        if queries.walk_allowed is not None:
            kept &= queries.walk_allowed[chunk]
        return place[kept], chunk[kept]

    def _picked(
        self, queries: Queries, batch: Tensor, item: Tensor, chunk: Tensor, via: Tensor, taken: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the chunks that are picked and the columns that lead to them: each [B, K].

        Without chunks `taken`, [B, M], each item with chunks counts for quotas; with them, each that is the first of one not taken.
        """
        size, count, width = len(queries.index), len(queries), int(item.max()) + 1 if item.numel() else 1
        # Ascending by query, chunk and item: the first of each chunk is that of its first item.
        codes, place = torch.unique((batch * size + chunk) * width + item, return_inverse=True)
        via = torch.full_like(codes, -1).scatter_reduce_(0, place, via, "amax")
        keys, times = torch.unique_consecutive(codes // width, return_counts=True)
        first = torch.cumsum(times, 0) - times
        batch, chunk, item, via = keys // size, keys % size, codes[first] % width, via[first]
        items = torch.unique(codes // width // size * width + codes % width)
        if taken is not None:
            spoken = torch.arange(count, device=keys.device).unsqueeze(1) * size + taken
            kept = ~torch.isin(keys, spoken[taken >= 0])
            batch, chunk, item, via, times = (values[kept] for values in (batch, chunk, item, via, times))
            items = torch.unique(batch * width + item)
        # How many items count, and the place of each among them.
        held = torch.bincount(items // width, minlength=count)
        item = torch.searchsorted(items, batch * width + item) - (torch.cumsum(held, 0) - held)[batch]
        if self.pick == "vector":
            limit = self.related * held // 2
            scores = queries.cosines(batch, chunk).float()
            found, _, via = pad_ranked(batch, chunk, scores, via, count, min(int(limit.max()), size) if count else 0)
        else:
            quotas = [chunk_quotas(number, self.related) for number in held.tolist()]
            limit = torch.tensor([sum(quota) for quota in quotas], dtype=torch.int64, device=keys.device)
            order = torch.argsort(times, descending=True, stable=True)
            for values in (item, batch):
                order = order[torch.argsort(values[order], stable=True)]
            batch, item = batch[order], item[order]
            _, run, sizes = torch.unique_consecutive(batch * width + item, return_inverse=True, return_counts=True)
            number = torch.arange(run.numel(), device=run.device) - (torch.cumsum(sizes, 0) - sizes)[run]
            flat = torch.tensor([most for quota in quotas for most in quota], dtype=torch.int64, device=keys.device)
            beyond = number >= flat[(torch.cumsum(held, 0) - held)[batch] + item]
            last = torch.argsort(batch * 2 + beyond, stable=True)
            found, via = (_table(batch[last], values[order][last], count) for values in (chunk, via))
        inside = torch.arange(found.shape[1], device=found.device) < limit.unsqueeze(1)
        return found.masked_fill(~inside, -1), via.masked_fill(~inside, -1)
