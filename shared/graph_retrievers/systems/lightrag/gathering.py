"""Relations of entities, and the chunks of entities and relations: the graph search of LightRAG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from graph_retrievers.arguments import choice, positive, strings
from graph_retrievers.core.candidates import Candidates, best, places_of
from graph_retrievers.core.chains import Facts
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges, EdgeTexts, Neighbors, Similarity, Texts
from graph_retrievers.graph.tokens import estimate_tokens
from graph_retrievers.search.around import end_degrees, linked_to_both

__all__ = ["ChunkGathering", "RelationGathering"]

# Quotas of all items together fit into 64 bits.
_MOST_RELATED = 1 << 31


def chunk_quotas(count: int, most: int = 5) -> list[int]:
    """Return how many chunks each of `count` items may add: from `most` for the first down to 1, evenly (LightRAG, "WEIGHT").

    Halves are rounded to the even number, as in Python.

    >>> chunk_quotas(3), chunk_quotas(2), chunk_quotas(1)
    ([5, 3, 1], [5, 1], [5])
    """
    return [round(most - place / max(count - 1, 1) * (most - 1)) for place in range(count)]


def within_tokens(texts: Sequence[str], budget: int) -> np.ndarray:
    """Return the entries of a list, from the first, whose texts fit a number of tokens: bool, shape [K].

    The tokens of the K texts are estimated (:func:`~graph_retrievers.graph.tokens.estimate_tokens`).

    >>> within_tokens(["A loom weaves.", "A card stores a pattern."], 5).tolist()
    [True, False]
    """
    return np.cumsum([estimate_tokens(text) for text in texts]) <= budget  # type: ignore[no-any-return]


class RelationGathering(Operator):
    """The relations of the ranked nodes as facts, those between nodes with many neighbours first.

    Relations are relationship rows with a ranked node at one end. Each is used once, ordered by the sum of the degrees of its
    ends, then by its weight, largest first; equal ones are in the order in which they are first seen: those of the first node, in
    row order, then those of the next.

    Parameters
    ----------
    tokens : int, default 8000
        Budget for the texts of the relations; further relations are dropped.
    exclude_types : sequence of str, default ()
        Node types that are not entities: edges at them are not relations, and do not count for degrees.

    Notes
    -----
    The degree of a node is its number of distinct neighbours. The original merges parallel edges; here each is a relation. The
    cost is that of reading all edges of the ranked nodes.

    References
    ----------
    LightRAG, ``operate.py``.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.operators import VectorSearch
    >>> index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "1"), ("1", "2")], vectors=[[0], [1], [0]])
    >>> search = Pipeline(VectorSearch(1, returned=False), RelationGathering())
    >>> [hit.text for hit in Retriever(index, search).retrieve("?", vector=[1]).facts]
    ['0 -> 1', '1 -> 2']
    """

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, tokens: int = 8000, *, exclude_types: Sequence[str] = ()) -> None:
        self.tokens, self.exclude_types = positive("tokens", tokens), strings("exclude_types", exclude_types)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the ranked nodes with their relations as facts."""
        edges = yield Edges(candidates.nodes)
        places = np.flatnonzero(~question.typed(edges.far, self.exclude_types))
        places = places[np.lexsort((edges.row[places], edges.owner[places]))]
        rows, firsts = np.unique(edges.row[places], return_index=True)
        degrees = yield from end_degrees(question.ends(rows), self.exclude_types)
        rows = rows[np.lexsort((firsts, -edges.weight[places][firsts], -degrees))]
        rows = rows[within_tokens((yield EdgeTexts(rows)), self.tokens)]
        return replace(candidates, facts=Facts(rows, 1 / np.arange(1, len(rows) + 1), self.name))


class ChunkGathering(Operator):
    """The chunks of the ranked entities, or of their relations.

    Parameters
    ----------
    of : {"entities", "relations"}
        Items whose chunks are gathered: the ranked nodes, or the ranking's facts. Chunks of entities are not gathered again for
        relations.
    pick : {"vector", "weight"}, default "vector"
        Which chunks to use. ``"vector"``: for n items with chunks, the ``related * n // 2`` most similar to the question.
        ``"weight"``: an item adds up to its quota of :func:`chunk_quotas`, chunks of most items first; unused quotas go to the
        first items that have more.
    chunk_types : sequence of str, default ()
        Node types that are chunks. The chunks of an entity are its neighbours of these types; the chunks of a relation are linked
        to both of its ends (in the original, they are those from which it was extracted). Without types, every node is its own
        chunk, and the chunks of a relation are its two ends.
    related : int, default 5
        Chunks per item.
    entity_tokens, relation_tokens : int, default 6000 and 8000
        Budgets for the texts of the entities and of the relations; only those within the budget add chunks.

    Notes
    -----
    A chunk of several items belongs to the first. As published, entities count for n and for quotas even if all of their chunks
    belong to others; relations do not. With ``"vector"``, ties go to the lower row. The n-th chunk scores 1 / n. In the taxonomy
    this is graph search, because only edges lead to chunks.

    References
    ----------
    LightRAG, ``operate.py``.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Pipeline, Retriever
    >>> from graph_retrievers.operators import VectorSearch
    >>> nodes = [Node("p", "Ada.", type="passage"), Node("a", "", "Ada", "person")]
    >>> index = GraphIndex.from_nodes(nodes, [("p", "a", "mentions")], vectors=[[0], [1]])
    >>> search = Pipeline(VectorSearch(1, returned=False), ChunkGathering(chunk_types=["passage"]))
    >>> Retriever(index, search).retrieve("?", vector=[1])[0].path.text
    'Ada <-[mentions]- p'
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

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the chunks; the trail of each is that of its entity, followed by the chunk."""
        chunk, via = yield from self._pick(question, (yield from self._of_entities(question, candidates)))
        if self.of == "relations":
            chunk, via = yield from self._pick(question, (yield from self._of_relations(question, candidates)), chunk)
        places = places_of(candidates.nodes, chunk)
        origin, entities = np.where(places >= 0, places, via), np.flatnonzero(places >= 0)
        trails, relations = _extended(candidates.trails, origin, chunk), None
        # An entity that is a chunk has its own trail.
        trails[entities, 0], trails[entities, 1:] = -1, candidates.trails[places[entities]]
        if candidates.relations is not None:
            relations = _extended(candidates.relations, origin, np.full(len(chunk), -1))
            relations[entities, 0], relations[entities, 1:] = -1, candidates.relations[places[entities]]
        scores, origins = 1 / np.arange(1, len(chunk) + 1), np.zeros(len(chunk), np.int64)
        return Candidates(chunk, scores, trails, origins, (self.name,), relations)

    def _of_entities(self, question: Question, candidates: Candidates) -> Algorithm[tuple[np.ndarray, ...]]:
        """Return item, chunk, and the place of the entity that leads to it, of all chunks of entities, each [T]."""
        item = np.flatnonzero(within_tokens((yield Texts(candidates.nodes, titles=True)), self.entity_tokens))
        if not self.chunk_types:
            return item, candidates.nodes[item], item
        near = yield Neighbors(candidates.nodes[item])
        near = near.masked(question.typed(near.node, self.chunk_types))
        return item[near.owner], near.node, item[near.owner]

    def _of_relations(self, question: Question, candidates: Candidates) -> Algorithm[tuple[np.ndarray, ...]]:
        """Return what :meth:`_of_entities` does, of the chunks of relations."""
        rows = candidates.nodes[:0] if candidates.facts is None else candidates.facts.rows
        rows = rows[within_tokens((yield EdgeTexts(rows)), self.relation_tokens)]
        near, far = question.ends(rows).T
        item, both = np.arange(len(rows)), np.append(near, far)
        at_near, at_far = places_of(candidates.nodes, both).reshape(2, -1)
        if not self.chunk_types:
            return np.tile(item, 2), both, np.append(at_far, at_near)
        chunks = partial(question.typed, types=self.chunk_types)
        relation, chunk = yield from linked_to_both(question, np.stack([near, far], 1), chunks)
        return relation, chunk, np.where(at_near >= 0, at_near, at_far)[relation]

    def _pick(
        self, question: Question, columns: tuple[np.ndarray, ...], chunks: np.ndarray | None = None
    ) -> Algorithm[tuple[np.ndarray, np.ndarray]]:
        """Return the chunks that are picked, and the places that lead to them.

        Without `chunks`, each item with chunks counts for quotas; with them, each that is the first of one not among them.
        """
        # Sorted by chunk, then by item: the first entry of a chunk is that of its first item.
        by = np.lexsort(columns[:2])
        item, chunk, via = (values[by] for values in columns)
        fresh = np.append(True, chunk[1:] != chunk[:-1])[: len(by)]
        pair = np.append(True, item[1:] != item[:-1])[: len(by)] | fresh
        times, items = np.bincount(np.cumsum(fresh) - 1, pair), item
        chunk, item, via = chunk[fresh], item[fresh], via[fresh]
        if chunks is not None:
            available = np.ones(question.size, bool)
            available[chunks] = False
            mask = available[chunk]
            chunk, item, via, times = chunk[mask], item[mask], via[mask], times[mask]
            items = item
        counts = np.bincount(items) > 0
        count = int(counts.sum())
        if self.pick == "vector":
            cosines = yield Similarity(chunk)
            by = best(cosines.astype(np.float32), self.related * count // 2, chunk)
        else:
            quotas = np.array(chunk_quotas(count, self.related), np.int64)
            by = np.lexsort((-times, item))
            groups = (np.cumsum(counts) - 1)[item[by]]
            number = np.arange(len(by)) - np.searchsorted(groups, groups)
            # What quotas leave over goes to the first items that have more.
            by = by[np.argsort(number >= quotas[groups], kind="stable")][: quotas.sum()]
        return chunk[by], via[by]


def _extended(table: np.ndarray, place: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return rows of a table, [K, L], none for a place of -1, with one more column."""
    above = np.append(table, np.full((1, table.shape[1]), -1), 0)[place]
    return np.concatenate([above, last[:, None]], 1)
