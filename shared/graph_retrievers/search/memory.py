"""The backend in memory: it answers requests from an index and the results computed for a batch of queries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import run
from graph_retrievers.core.requests import (
    ByTitle,
    Contents,
    Degree,
    EdgeRows,
    Edges,
    EdgesAmong,
    EdgeTexts,
    EdgeVectors,
    LowestEdgeScore,
    Mentions,
    Near,
    Nearest,
    NearestByCosine,
    NearestEdges,
    Neighbors,
    Pairs,
    Scores,
    Similarity,
    Steps,
    TermScores,
    Texts,
    Titled,
    Vectors,
    WeightedNeighbors,
    Weights,
    WithQuery,
)
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.filters import type_mask
from graph_retrievers.graph.names import name_table, nodes_titled
from graph_retrievers.graph.ragged import ranked_on_host, runs, slices, top_k
from graph_retrievers.graph.typed_adjacency import typed_adjacency
from graph_retrievers.search.backend import Backend, ends_of, entries_of, host, split_by
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.queries import Queries, both, pair_tensors
from graph_retrievers.signals.dense import DenseIndex

__all__ = ["ranked"]

# Nodes with more neighbours than this many times their pairs are joined by looking the pairs up.
_HUBS = 4
# The number of pairs that a function reads at a time: each may need a row of vectors in memory.
_PAIRS = 1 << 16
# The neighbours of more nodes than this are read question by question: together they leave the caches of a processor.
_CACHED = 1 << 12
# Entries of a table of cosines at a time.
_ENTRIES = 1 << 24


class MemoryBackend(Backend):
    """Answers requests from the graph and the signals of a :class:`~graph_retrievers.index.GraphIndex`.

    Each method takes the requests of one kind as (place of the question in the batch, request) and returns their answers.

    Parameters
    ----------
    queries : Queries
        The batch; its filters apply to the answers.
    """

    in_memory = True

    def __init__(self, queries: Queries) -> None:
        super().__init__(queries, queries.index.graph.ids)
        self.graph = queries.index.graph
        self._places = np.zeros(0, np.int32)

    @property
    def index(self) -> Corpus:
        """The index."""
        return self.queries.index  # type: ignore[no-any-return]

    @property
    def has_traversal_filter(self) -> bool:
        """Whether a filter says which nodes may be visited."""
        return self.queries.walk_allowed is not None

    def passing(self, nodes: np.ndarray, what: str) -> np.ndarray:
        """Return which nodes, shape [n], may "return", "start", be seeds by "name", or "walk", or pass the "filter": bool, [n]."""
        return _passing(self.queries.masks[what], nodes)

    def typed(self, nodes: np.ndarray, types: Collection[str]) -> np.ndarray:
        """Return which nodes, shape [n], have one of the types: bool, shape [n]."""
        return _passing(type_mask(self.graph, types), nodes)

    def types(self, nodes: np.ndarray) -> list[str]:
        """Return the type of each of some nodes, shape [n]."""
        return [self.graph.types[row] for row in nodes.tolist()]

    @property
    def edges(self) -> int:
        """Number of relationship rows of the graph."""
        return self.graph.num_edges

    def ends(self, facts: np.ndarray) -> np.ndarray:
        """Return the node rows joined by some relationship rows, shape [M]: int64, shape [M, 2]."""
        return np.stack([self.graph.on_host(end).take(facts) for end in ("sources", "targets")], 1).astype(np.int64)

    def relation_names(self, numbers: np.ndarray) -> list[str]:
        """Return the names of relations by their numbers, shape [T]."""
        return [self.graph.relation_names[number] for number in numbers.tolist()]

    def relation(self, name: str) -> int:
        """Return the number of a relation; -1 if no edge has it."""
        names = self.graph.relation_names
        return names.index(name) if name in names else -1

    def nearest(self, requests: Sequence[tuple[int, Nearest]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the best nodes of a signal."""
        first, width = requests[0][1], max(request.k for _, request in requests)
        mask = self.queries.starts if first.returned and first.among == "start" else self.queries.masks[first.among]
        if first.types:
            mask = both(type_mask(self.graph, first.types), mask)
        queries, places = self._search_queries(requests, first.signal)
        return _request_answers(*queries.search(first.signal, width, mask), places, requests, self.size)

    def closest(self, requests: Sequence[tuple[int, NearestByCosine]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the nodes of the largest cosines."""
        first, width = requests[0][1], max(request.k for _, request in requests)
        queries, places = self._search_queries(requests, "dense")
        mask, norms = queries.seeds_allowed, queries.index.dense.norms
        if first.exclude_types:
            mask = both(mask, ~type_mask(self.graph, first.exclude_types))
        real = norms > 0
        if self.queries.cache.get("vectors of length 1", lambda: bool((((norms - 1).abs() < 1e-4) | ~real).all())):
            scores, nodes = queries.search("dense", width, mask)
            if not bool(real[nodes.clamp(min=0)].all()):
                # Beside nodes whose cosines are below 0, those without a vector stand out.
                scores, nodes = queries.search("dense", width, both(mask, real))
            return _request_answers(
                scores.double() / queries.lengths.clamp(min=1e-30).unsqueeze(1), nodes, places, requests, self.size
            )
        tables, allowed = [], real if mask is None else mask & real
        for vectors in normalize(queries.vectors, dim=1).split(max(1, _ENTRIES // len(self.graph))):
            cosines = (queries.index.dense.table(vectors) / norms).masked_fill(~allowed, -torch.inf)
            tables.append(top_k(cosines, width))
        scores, nodes = map(torch.cat, zip(*tables, strict=True))
        return _request_answers(scores, nodes.masked_fill(scores == -torch.inf, -1), places, requests, self.size)

    def nearest_edges(self, requests: Sequence[tuple[int, NearestEdges]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the best edges of a signal."""
        first, width = requests[0][1], max(request.k for _, request in requests)
        mask = self._edges_between(first.exclude_types, first.returned)
        values, rows = ranked_on_host(*self.queries.search(first.signal, width, mask, "edges"))
        lengths = (rows >= 0).sum(1).tolist()
        ends = [min(request.k, lengths[b]) for b, request in requests]
        return [(rows[b, :end], values[b, :end]) for (b, _), end in zip(requests, ends, strict=True)]

    def lowest_edge_score(self, requests: Sequence[tuple[int, LowestEdgeScore]]) -> list[float]:
        """Return the lowest score of all edges in a signal."""
        queries, name = self.queries, requests[0][1].signal
        mask, signal, table = self._edges_between(requests[0][1].exclude_types), queries.index.signal(name), queries.table(name)
        if not len(signal):
            return [0.0] * len(requests)
        view = queries.view(name)
        parts = (signal.table(view[b : b + 1]) for b in range(len(queries))) if table is None else [table]
        if mask is not None:
            parts = (part.masked_fill(~mask, torch.inf) for part in parts)
        lowest = [low for part in parts for low in part.amin(1).tolist()]
        return [lowest[b] if lowest[b] < torch.inf else 0.0 for b, _ in requests]

    def _edges_between(self, exclude_types: tuple[str, ...], returned: bool = False) -> Tensor | None:
        """Return the edges whose ends may be seeds by their names, without some types: Tensor, shape [R], bool, or None for all."""

        def make() -> Tensor | None:
            nodes = both(self.queries.named_allowed, self.queries.allowed if returned else None)
            nodes = both(nodes, ~type_mask(self.graph, exclude_types)) if exclude_types else nodes
            return None if nodes is None else nodes[self.graph.sources] & nodes[self.graph.targets]

        return self.queries.cache.get(("edges", exclude_types, returned), make)

    def titled(self, requests: Sequence[tuple[int, Titled]]) -> list[list[list[int]]]:
        """Return rows by name."""
        return [[name_table(self.graph, fold=request.fold).rows(name) for name in request.names] for _, request in requests]

    def mentions(self, requests: Sequence[tuple[int, Mentions]]) -> list[list[tuple[str, list[int]]]]:
        """Return the names in questions."""
        names, answers = name_table(self.graph, fold=requests[0][1].fold), []
        for place, _ in requests:
            # Several questions as one number the nodes of each apart.
            texts = [self.queries.texts[b] for b in np.atleast_1d(place).tolist()]
            matches = ((n * self.size, match) for n, text in enumerate(texts) for match in names.find(text))
            answers.append([(name, [start + row for row in rows]) for start, (name, rows) in matches])
        return answers

    def _search_queries(self, requests: Sequence[tuple[int, Any]], signal: str) -> tuple[Queries, list[int]]:
        """Return what is searched for, the questions or other texts, each once, and the place of each request in it."""
        queries, by_vector = self.queries, self.queries.index.signal(signal).reads == "vector"
        if requests[0][1].text is None:
            places = [place for place, _ in requests]
            all_ask = len(requests) == len(queries) or type(places[0]) is not int
            if all_ask or not getattr(requests[0][1], "types", ()):
                # A search of all questions is kept for those that ask later.
                return queries, places
            texts, vectors = [queries.texts[b] for b in places], queries.vectors[places] if by_vector else None
            return queries.rewritten(texts, places, vectors=vectors), list(range(len(requests)))
        row_of = {text: row for row, text in enumerate(dict.fromkeys(request.text for _, request in requests))}
        vectors = queries.embed(list(row_of)) if by_vector else None
        others = queries.rewritten(list(row_of), [0] * len(row_of), vectors=vectors)
        return others, [row_of[request.text] for _, request in requests]

    def similarity(self, requests: Sequence[tuple[int, Similarity]]) -> list[np.ndarray]:
        """Return cosines."""
        queries = self.queries
        if queries.index.device.type != "cpu":
            return split_by(requests, queries.cosines(*self._pairs(requests)))
        batch, nodes = entries_of(requests, self.size)
        lengths = queries.index.dense.norms.numpy().take(nodes) * queries.lengths.numpy().take(batch)
        cosines = queries.entries(batch, nodes).astype(np.float64) / np.maximum(lengths, 1e-30)
        return [cosines[start:stop] for start, stop in pairwise(ends_of(requests))]

    def scores(self, requests: Sequence[tuple[int, Scores]]) -> list[np.ndarray]:
        """Return a signal's scores."""
        if requests[0][1].text is not None:
            queries, places = self._search_queries(requests, requests[0][1].signal)
            pairs = self._pairs([(row, request) for row, (_, request) in zip(places, requests, strict=True)])
            return split_by(requests, queries.pair_scores(*pairs, requests[0][1].signal))
        values = self.queries.entries(*entries_of(requests, self.size), requests[0][1].signal)
        return [values[start:stop] for start, stop in pairwise(ends_of(requests))]

    def term_scores(self, requests: Sequence[tuple[int, TermScores]]) -> list[np.ndarray]:
        """Return a signal's scores by terms."""
        name = requests[0][1].signal
        return split_by(requests, self.queries.index.signal(name).term_scores(self.queries.view(name), *self._pairs(requests)))

    def texts(self, requests: Sequence[tuple[int, Texts]]) -> list[list[str]]:
        """Return texts of nodes."""
        text_of = self.graph.content if requests[0][1].titles else self.graph.texts.__getitem__
        return [list(map(text_of, request.nodes.tolist())) for _, request in requests]

    def vectors(self, requests: Sequence[tuple[int, Vectors]]) -> list[np.ndarray]:
        """Return vectors of unit length; MissingSignalError if they are not in memory."""
        _, nodes = entries_of(requests, self.size)
        return split_by(requests, normalize(self.queries.node_vectors(torch.from_numpy(nodes)).double(), dim=1))

    def contents(self, requests: Sequence[tuple[int, Contents]]) -> list[list[Node]]:
        """Return nodes with their texts."""
        return [list(map(self.graph.node, request.nodes.tolist())) for _, request in requests]

    def neighbors(self, requests: Sequence[tuple[int, Neighbors]]) -> list[Near]:
        """Return slices of the adjacency lists, without nodes that may not be visited."""
        nodes, ends = np.concatenate([request.nodes for _, request in requests]), ends_of(requests)
        if len(requests) > 1 and len(nodes) > _CACHED:
            return [near for one in requests for near in self.neighbors([one])]
        rows = nodes % self.size
        indptr, indices = self._lists(requests[0][1].parallel, requests[0][1].incoming)
        owner, entry = slices(indptr, rows)
        near = self._visitable(Near(owner, indices.take(entry).astype(np.int64)))
        if type(requests[0][0]) is not int:
            near = Near(near.owner, near.node + (nodes - rows).take(near.owner))
        if len(requests) == 1:
            return [near]
        places = np.searchsorted(near.owner, ends).tolist()
        return [Near(near.owner[a:b] - first, near.node[a:b]) for first, (a, b) in zip(ends, pairwise(places), strict=False)]

    def weighted_neighbors(self, requests: Sequence[tuple[int, WeightedNeighbors]]) -> list[tuple[Near, np.ndarray, np.ndarray]]:
        """Return the sums of slices of the incidence lists, without nodes that may not be visited; all are read."""
        indptr, neighbors, rows, forward = (
            self.graph.on_host(f"incidence.{part}") for part in ("indptr", "neighbors", "rows", "forward")
        )
        answers = []
        for _, request in requests:
            owner, entry = slices(indptr, request.nodes)
            near = neighbors.take(entry).astype(np.int64)
            keep = near != request.nodes[owner]
            if self.queries.walk_allowed is not None:
                keep &= _passing(self.queries.walk_allowed, near)
            owner, near, entry = owner[keep], near[keep], entry[keep]
            pairs, place = np.unique(owner * self.size + near, return_inverse=True)
            weights, is_forward = self.graph.on_host("weights").take(rows.take(entry)), forward.take(entry)
            sums = [np.bincount(place, weights * mask, len(pairs)) for mask in (is_forward, ~is_forward)]
            found = Near(pairs // self.size, pairs % self.size)
            answers.append((found, np.column_stack(sums), np.ones(len(request.nodes), bool)))
        return answers

    def edges_at(self, requests: Sequence[tuple[int, Edges]]) -> list[EdgeRows]:
        """Return slices of the incidence lists, without those that lead where a traversal may not go."""
        answers = []
        indptr, neighbors, rows = (self.graph.on_host(f"incidence.{part}") for part in ("indptr", "neighbors", "rows"))
        for _, request in requests:
            owner, entry = slices(indptr, request.nodes)
            if self.queries.walk_allowed is not None:
                places = np.flatnonzero(_passing(self.queries.walk_allowed, neighbors.take(entry)))
                owner, entry = owner[places], entry[places]
            row = rows.take(entry).astype(np.int64)
            relation, weight = self.graph.on_host("relations").take(row).astype(np.int64), self.graph.on_host("weights").take(row)
            answers.append(EdgeRows(owner, row, neighbors.take(entry).astype(np.int64), relation, weight))
        return answers

    def edge_texts(self, requests: Sequence[tuple[int, EdgeTexts]]) -> list[list[str]]:
        """Return the texts of edges."""
        return [self.graph.edge_contents(request.rows.tolist()) for _, request in requests]

    def edge_vectors(self, requests: Sequence[tuple[int, EdgeVectors]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return vectors of edges, and their cosines."""
        queries, name = self.queries, requests[0][1].signal
        dense, questions = queries.index.signal(name), normalize(queries.vectors.double(), dim=1).cpu()
        if not isinstance(dense, DenseIndex):
            raise MissingSignalError(f"The signal {name!r} is a {type(dense).__name__}, which does not give the vectors of edges.")
        rows = torch.from_numpy(np.concatenate([request.rows for _, request in requests])).to(queries.index.device)
        vectors = normalize(dense.taken(rows).cpu().double(), dim=1).split([len(request.rows) for _, request in requests])
        return [(part.numpy(), (part @ questions[b]).numpy()) for part, (b, _) in zip(vectors, requests, strict=True)]

    def steps(self, requests: Sequence[tuple[int, Steps]]) -> list[tuple[Near, bool]]:
        """Return slices of the typed adjacency lists, without nodes that may not be visited."""
        answers = []
        for _, request in requests:
            adjacency = typed_adjacency(self.graph, "relation" if request.type is None else "type")
            start, length = adjacency.slices(request.nodes, *adjacency.span(request.type, request.relation))
            totals = np.cumsum(length)
            whole = not len(totals) or bool(totals[-1] <= request.most)
            length = length if whole else np.where(totals > request.most, 0, length)
            owner, entry = runs(start, length)
            answers.append((self._visitable(Near(owner, adjacency.neighbors.take(entry).astype(np.int64))), whole))
        return answers

    def by_title(self, requests: Sequence[tuple[int, ByTitle]]) -> list[np.ndarray]:
        """Return nodes by title and type."""
        graph, answers = self.graph, []
        for _, request in requests:
            rows = {row for title in request.titles for row in nodes_titled(graph, title) if graph.types[row] == request.type}
            nodes = np.array(sorted(rows), np.int64)
            answers.append(nodes[_passing(self.queries.named_allowed, nodes)])
        return answers

    def degree(self, requests: Sequence[tuple[int, Degree]]) -> list[np.ndarray]:
        """Return the lengths of the adjacency lists."""
        first = requests[0][1]
        if not (first.parallel or first.incoming):
            degree = self._degrees(first.exclude_types)
            return [degree.take(request.nodes % self.size).astype(np.int64) for _, request in requests]
        indptr, _ = self._lists(first.parallel, first.incoming)
        rows = [request.nodes % self.size for _, request in requests]
        return [indptr.take(nodes + 1) - indptr.take(nodes) for nodes in rows]

    def _degrees(self, types: tuple[str, ...]) -> np.ndarray:
        """Return the number of neighbours of each node that are not of some types: shape [N]."""
        if not types:
            return self.graph.on_host("degree")

        def make() -> np.ndarray:
            counts = (~type_mask(self.graph, types)[self.graph.indices.long()]).double()
            return host(torch.segment_reduce(counts, "sum", offsets=self.graph.indptr, initial=0.0).long())

        return self.graph.cache.get(("degrees without", types), make)

    def weights(self, requests: Sequence[tuple[int, Weights]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return adjacency matrices among nodes, and sums of weights."""
        strength, answers = self.graph.on_host("strength"), []
        for _, request in requests:
            among = np.zeros((len(request.nodes), len(request.nodes)), np.float32)
            left, right, entry = self._inside(request.nodes, parallel=False)
            among[left, right] = self.graph.on_host("edge_weights").take(entry)
            answers.append((among, strength.take(request.nodes)))
        return answers

    def links(self, requests: Sequence[tuple[int, EdgesAmong]]) -> list[Near]:
        """Return the edges among nodes."""
        return [Near(*self._inside(request.nodes, request.parallel)[:2]) for _, request in requests]

    def part(self, lists: Sequence[Candidates]) -> tuple[CorpusGraph, Sequence[Candidates]]:
        """Return a graph with the contents of all nodes in the candidates (here, the whole graph), and these with its rows."""
        return self.graph, lists

    def _inside(self, nodes: np.ndarray, parallel: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the entries of the adjacency lists among distinct nodes: the places of both ends, and the entry.

        Nodes of several questions as one are in order.
        """
        indptr, indices = self._lists(parallel)
        several = len(nodes) and int(nodes[-1]) >= self.size
        rows = nodes % self.size if several else nodes
        start = indptr.take(rows)
        length = indptr.take(rows + 1) - start
        if not parallel and not several and length.sum() > _HUBS * len(nodes) ** 2:
            # Long lists: the pairs are looked up.
            keys = self.graph.on_host("edge_keys")
            pair_keys = (nodes[:, None] * len(self.graph) + nodes).ravel()
            entry = np.minimum(np.searchsorted(keys, pair_keys), len(keys) - 1)
            places = np.flatnonzero(keys[entry] == pair_keys)
            return places // len(nodes), places % len(nodes), entry[places]
        owner, entry = runs(start, length)
        near = indices.take(entry)
        if several:
            near = near + (nodes - rows).take(owner)
        # Places count from 1, so that 0 is not a place: only the entries of the nodes are written, and set to 0 again afterwards.
        table = self._place_table(int(nodes.max(initial=0)))
        table[nodes] = np.arange(1, len(nodes) + 1)
        place = table.take(near)
        table[nodes] = 0
        mask = place > 0
        if parallel:
            # Only these lists have edges from a node to itself.
            mask &= place != owner + 1
        places = np.flatnonzero(mask)
        return owner.take(places), place.take(places) - 1, entry.take(places)

    def _place_table(self, most: int) -> np.ndarray:
        """Return a table of zeros with an entry for each node up to the number `most`; several questions number copies of nodes."""
        size = self.size * (1 + most // self.size)
        if len(self._places) < size:
            self._places = np.zeros(size, np.int32)
        return self._places

    def pairs(self, requests: Sequence[tuple[int, Pairs]]) -> list[np.ndarray]:
        """Return the values of a function of queries and (query, node) pairs."""
        (batch, nodes), function, parts = self._pairs(requests), requests[0][1].function, []
        for b, v in zip(batch.split(_PAIRS), nodes.split(_PAIRS), strict=True):
            values = torch.as_tensor(function(self.queries, b, v))
            if values.shape != v.shape:
                message = f"{shown(function)} gave values of shape {tuple(values.shape)} for {len(v)} pairs of question and node"
                raise InvalidArgumentError(f"{message}; expected one for each, shape ({len(v)},).")
            parts.append(values)
        return split_by(requests, torch.cat(parts).double())

    def over(self, queries: Any) -> MemoryBackend:
        """Return the backend of other questions, which have their filters."""
        return MemoryBackend(queries)

    def _replacing(self, pairs: Sequence[tuple[int, str]], first: WithQuery) -> MemoryBackend:
        """Return the backend of texts in place of questions, with the filters of a request."""
        queries, start = self.queries, self.queries.seeds_allowed
        if first.exclude_types:
            start = both(start, ~type_mask(self.graph, first.exclude_types))
        texts = tuple(text for _, text in pairs)
        if texts != queries.texts:
            queries = queries.rewritten(texts, [b for b, _ in pairs], vectors=self._vectors_instead(pairs))
        allowed = queries.allowed if first.returned else None
        return MemoryBackend(replace(queries, seeds_allowed=start, named_allowed=start, allowed=allowed))

    def _visitable(self, near: Near) -> Near:
        """Return neighbours without nodes that may not be visited."""
        mask = self.queries.walk_allowed
        return near if mask is None else near.masked(_passing(mask, near.node))

    def _lists(self, parallel: bool, incoming: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the adjacency lists: where those of each node begin, shape [N + 1], and the neighbours."""
        if incoming:
            return self.graph.cache.get("predecessors", partial(_predecessors, self.graph))
        names = ("incidence.indptr", "incidence.neighbors") if parallel else ("indptr", "indices")
        return self.graph.on_host(names[0]), self.graph.on_host(names[1])

    def _pairs(self, requests: Sequence[tuple[int, Any]]) -> tuple[Tensor, Tensor]:
        """Return the query and the node row of every pair, each [n], on the index's device."""
        batch, nodes = entries_of(requests, self.size)
        return pair_tensors(batch, nodes, self.queries.index.device)


def _request_answers(
    scores: Tensor, nodes: Tensor, places: Sequence[Any], requests: Sequence[tuple[Any, Any]], size: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the `k` first nodes and scores, of tables [B, K] with pads, of the row, or the rows, of each request."""
    values, table = ranked_on_host(scores, nodes)
    answers, lengths = [], (table >= 0).sum(1)
    for place, (_, request) in zip(places, requests, strict=True):
        if type(place) is int:
            n = min(request.k, int(lengths[place]))
            answers.append((table[place, :n], values[place, :n]))
            continue
        node_rows, row_scores = table[place, : request.k], values[place, : request.k]
        mask = node_rows >= 0
        answers.append(((node_rows + size * np.arange(len(place))[:, None])[mask], row_scores[mask]))
    return answers


def ranked(operator: Any, queries: Queries, before: Sequence[Candidates] | None = None) -> list[Candidates]:
    """Return the candidates that an operator finds for each query of a batch in memory: a list of length B.

    `before` has the candidates of earlier operators for each query, none by default.

    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.operators import BM25Search
    >>> ranked(BM25Search(), Queries.of(GraphIndex.from_texts(["a loom", "a card"]), ["Which card?"]))[0].nodes
    array([1])
    """
    first = [Candidates.none()] * len(queries) if before is None else before
    backend = MemoryBackend(queries)
    searches = [operator.stepped(*pair) for pair in zip(backend.questions(), first, strict=True)]
    return run(backend, searches, queries.trace, operator.name)


def _predecessors(graph: CorpusGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct nodes with an edge to each node, ascending, without itself: pointers [N + 1] and nodes [M], int64."""
    sources, targets = graph.on_host("sources").astype(np.int64), graph.on_host("targets").astype(np.int64)
    keys = np.unique((targets * len(graph) + sources)[sources != targets])
    return np.searchsorted(keys, np.arange(len(graph) + 1) * len(graph)), keys % len(graph)


def _passing(mask: Tensor | None, nodes: np.ndarray) -> np.ndarray:
    return np.ones(len(nodes), bool) if mask is None else host(mask).take(nodes)
