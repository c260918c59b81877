"""The backend on a graph in a database and vectors in a vector store: it answers requests with one round trip per step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.core.candidates import Candidates, places_of
from graph_retrievers.core.requests import (
    ByTitle,
    Closest,
    Contents,
    Degree,
    Links,
    Mentions,
    Near,
    Nearest,
    Neighbors,
    Relevance,
    Request,
    Scores,
    Similarity,
    Steps,
    TermScores,
    Texts,
    Titled,
    Vectors,
    Weights,
)
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.blank import BLANK
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.graph.names import name_runs, name_table
from graph_retrievers.graph.ragged import falling, top_k
from graph_retrievers.queries import Queries
from graph_retrievers.search.memory import Memory
from graph_retrievers.signals.dense import ROUNDING
from graph_retrievers.signals.relevance import BiEncoder
from graph_retrievers.stores.remote.pages import VECTORS, WORDS, Found, Pages, name_key
from graph_retrievers.stores.remote.stored_index import SearchedWords, StoredIndex, StoredWords, WholeGraphError

__all__ = ["READABLE", "Stores"]

# What is answered here; a request without a verb reads the index itself, which refuses what it does not have.
_ANSWERED = {
    *("nearest", "closest", "similarity", "scores", "term_scores", "vectors", "relevance", "contents", "texts", "titled"),
    *("neighbors", "steps", "by_title", "mentions", "degree", "weights", "links", "complete"),
}
# The filters of a call that nodes must pass.
_FILTERS = {"return": ("filter", "types", "readable"), "start": ("seed_filter", "readable"), "walk": ("traversal_filter",)}
_Test = Callable[[np.ndarray], np.ndarray]
# Results of a search beyond those asked for, which show whether there are ties at the end; and how much deeper the next one goes.
_MORE, _DEEPER = 16, 4
# More than this, and a store orders results by something else than the cosine.
_RISE = 0.05


READABLE = {BLANK: {"$exists": False}}
"""Filter of the nodes that have something to read."""


class _Condition:
    """A filter, evaluated once for each node that is fetched."""

    def __init__(self, pages: Pages, condition: Mapping[str, Any]) -> None:
        self.pages, self.condition = pages, condition
        self.known, self.passes = np.zeros(pages.size, bool), np.zeros(pages.size, bool)
        self._mask(())  # A condition that cannot be read is refused before anything is fetched.

    def __call__(self, nodes: np.ndarray) -> np.ndarray:
        """Return which nodes, shape [n], pass: bool, shape [n]."""
        new = np.unique(nodes[~self.known[nodes]])
        if len(new):
            self.passes[new], self.known[new] = self._mask(new.tolist()), True
        return self.passes[nodes]

    def _mask(self, rows: Sequence[int]) -> np.ndarray:
        self.pages.know(rows)
        held = [self.pages.nodes[row] for row in rows]
        graph = CorpusGraph.from_nodes([Node(n.id, "", n.title, n.type, n.metadata) for n in held])
        # Whether any node has a field is unknown here, and not reported.
        graph.cache.get("filters told", lambda: None)
        return filter_mask(graph, self.condition).numpy()  # type: ignore[no-any-return]


class Stores(Memory):
    """Answers requests from a graph store and a vector store; the data for a step are fetched together.

    Parameters
    ----------
    queries : Queries
        On a :class:`StoredIndex`, without masks.
    filters : mapping of str to mapping
        Those of the call, and ``types``.
    """

    def __init__(self, queries: Queries, filters: Mapping[str, Any]) -> None:
        super().__init__(queries)
        assert isinstance(queries.index, StoredIndex)
        self.pages, self.asked = queries.index.pages, set[str]()
        conditions = {**filters, "readable": READABLE}
        self.filters = {name: _Condition(self.pages, condition) for name, condition in conditions.items()}
        if "seed_filter" in self.filters:
            self.filters["named"] = self.filters["seed_filter"]
        if "filter" in self.filters:
            self.filters.setdefault("seed_filter", self.filters["filter"])

    def passing(self, nodes: np.ndarray, what: str) -> np.ndarray:
        """Return which nodes, shape [n], may "return", "start" or "walk": bool, shape [n]."""
        return self.filtered(nodes, *_FILTERS[what])

    def filtered(self, nodes: np.ndarray, *names: str) -> np.ndarray:
        """Return which nodes, shape [n], pass the filters of some names: bool, shape [n]."""
        passes = np.ones(len(nodes), bool)
        for name in names:
            if name in self.filters:
                passes &= self.filters[name](nodes)
        return passes

    def typed(self, nodes: np.ndarray, types: Collection[str]) -> np.ndarray:
        """Return which nodes, shape [n], have one of the types: bool, shape [n]."""
        self.pages.know(nodes.tolist())
        return np.array([self.pages.nodes[row].type in types for row in nodes.tolist()], bool)

    def types(self, nodes: np.ndarray) -> list[str]:
        """Return the type of each of some nodes, shape [n]."""
        self.pages.know(nodes.tolist())
        return [self.pages.nodes[row].type for row in nodes.tolist()]

    def relation(self, name: str) -> int:
        """Return the number of a relation; -1 if no edge that was fetched has it."""
        return self.pages.relations.get(name, -1)

    def prepare(self, asked: Sequence[tuple[int, Request]]) -> None:
        """Fetch what the requests of a step need."""
        pages, self.asked = self.pages, {type(request).__name__ for _, request in asked}
        searched = {name for name, held in self.queries.index.signals.items() if not isinstance(held, StoredWords)}
        # Signals that are in memory may be of edges.
        about = [request for _, request in asked if request.verb in _ANSWERED and getattr(request, "signal", "dense") in searched]
        pages.know(row for request in about if hasattr(request, "nodes") for row in request.nodes.tolist())
        for place, request in asked:
            if request.verb and request.verb not in _ANSWERED:
                raise WholeGraphError(f"what {type(request).__name__} is answered with, which only an index in memory has")
            if isinstance(request, (Nearest, Closest)):
                self._best(place, request)
            elif isinstance(request, (Neighbors, Steps, Weights, Links)) or (isinstance(request, Degree) and request.parallel):
                pages.expand.update(request.nodes.tolist())
            elif isinstance(request, (Similarity, Vectors)) or (isinstance(request, Scores) and request.signal == "dense"):
                pages.vectors.update(request.nodes.tolist())
            elif isinstance(request, (Scores, TermScores)) and request.signal in searched:
                text = getattr(request, "text", None) or self.queries.texts[place]
                pages.pairs.setdefault(text, set()).update(pages.nodes[row].id for row in request.nodes.tolist())
            elif isinstance(request, Mentions):
                longest = self.graph.cache.told("longest name", "names")  # type: ignore[attr-defined]
                pages.names |= name_runs(self.queries.texts[place], longest)
            elif isinstance(request, Relevance) and request.texts is None:
                model = request.model or self.queries.index.relevance
                by_vectors = isinstance(model, BiEncoder) and model.embedding is self.queries.index.embedding
                wanted = pages.vectors if by_vectors else pages.texts
                wanted.update(request.nodes.tolist())
            elif isinstance(request, (Contents, Texts)):
                pages.texts.update(request.nodes.tolist())
            elif isinstance(request, Titled):
                pages.names |= {key for key in map(name_key, request.names) if key}
            elif isinstance(request, ByTitle):
                pages.titles |= {key for key in map(_letters, request.titles) if key}
        pages.fetch()

    def titled(self, asked: Sequence[tuple[int, Titled]]) -> list[list[list[int]]]:
        """Return rows by name: those of nodes whose names have the same words, ignoring case, distinguished as in memory."""
        found = []
        for _, request in asked:
            rows = sorted({row for name in request.names for row in self.pages.named.get(name_key(name), [])})
            names = name_table(self.pages.part(rows, self.graph.include_titles), fold=request.fold)
            found.append([[rows[place] for place in names.rows(name)] for name in request.names])
        return found

    def mentions(self, asked: Sequence[tuple[int, Mentions]]) -> list[list[tuple[str, list[int]]]]:
        """Return the names in questions: those of the nodes whose names are runs of words of a question."""
        told, found = self.graph.cache.told, []  # type: ignore[attr-defined]
        for place, request in asked:
            text = self.queries.texts[place]
            rows = sorted({row for run in name_runs(text, told("longest name")) for row in self.pages.named.get(run, [])})
            names = name_table(self.pages.part(rows, self.graph.include_titles), fold=request.fold)
            names.capitals = told("names have capitals")
            found.append([(name, [rows[place] for place in places]) for name, places in names.find(text)])
        return found

    def closest(self, asked: Sequence[tuple[int, Closest]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the nodes of the largest cosines."""
        return [(nodes, cosines.astype(np.float64)) for nodes, cosines in self.nearest(asked)]

    def nearest(self, asked: Sequence[tuple[int, Nearest | Closest]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the best nodes of a signal; searches go deeper if filters or ties leave too few."""
        while True:
            found = [self._best(place, request) for place, request in asked]
            if not self.pages.fetch():
                return found

    def _best(self, place: int, request: Nearest | Closest) -> tuple[np.ndarray, np.ndarray]:
        """Return the best nodes, or what is known of them and note what is missing."""
        k, text = min(request.k, self.pages.size), self.queries.texts[place] if request.text is None else request.text
        excluded, types, readable = tuple[str, ...](), tuple[str, ...](), ["readable"]
        if isinstance(request, Nearest):
            starts = ["seed_filter", *(["filter", "types"] if request.returned else [])]
            filters = {"start": starts, "name": ["named"], "walk": ["traversal_filter"], "return": ["filter", "types"]}
            names, types, signal = filters[request.among], request.types, self.queries.index.signal(request.signal)
            readable = [] if request.among == "walk" else readable
        else:
            names, excluded, signal = ["seed_filter"], request.exclude_types, self.queries.index.dense
        names = [name for name in names if name in self.filters]
        # Nodes without anything to read are few.
        deep = _DEEPER if names or excluded or types else 1

        def test(nodes: np.ndarray) -> np.ndarray:
            passes = self.filtered(nodes, *names, *readable)
            passes = passes & ~self.typed(nodes, excluded) if excluded else passes
            return passes & self.typed(nodes, types) if types else passes

        if isinstance(signal, StoredWords):
            return self._words(signal, text, k, deep, test)
        if isinstance(signal, SearchedWords):
            return self._looked_up(text, k, deep, test)
        if request.text is None:
            return self._looked_up(self.queries.vectors[place], k, deep, test)
        vector = self.queries.cache.get(("vector of a text", text), lambda: self.queries.embed([text])[0])
        return self._looked_up(vector, k, deep, test)

    def _looked_up(self, query: Tensor | str, k: int, deep: int, test: _Test) -> tuple[np.ndarray, np.ndarray]:
        """Return the best nodes of a search by a vector or by words; none, and note the search, if it is still to be made."""
        pages, reach = self.pages, deep * k + _MORE
        key = query if isinstance(query, str) else query.numpy().tobytes()
        found = pages.found.get(key)
        if found is not None:
            # Results that are not nodes of the graph are left out.
            held = [(pages.rows[name], score) for name, score in found.results if name in pages.rows]
            rows = torch.tensor([row for row, _ in held], dtype=torch.int64)
            told = torch.tensor([score for _, score in held], dtype=torch.float32)
            scores, rounding = (told, 0.0) if isinstance(query, str) else (self._cosines(query, rows), ROUNDING)
            best = _first(rows, scores, k, test, rounding, found.complete)
            if best is not None:
                return best
            reach = max(reach, _DEEPER * found.reach)
        searches = pages.searches[WORDS if isinstance(query, str) else VECTORS]
        # Several searches of a step may be made for the same.
        searches[key] = query, max(reach, searches.get(key, (None, 0))[1])
        return np.zeros(0, np.int64), np.zeros(0, np.float32)

    def _cosines(self, query: Tensor, rows: Tensor) -> Tensor:
        """Return the cosines of results of the vector store, in its order."""
        scores = self.queries.index.dense.scores(query.unsqueeze(0), torch.zeros_like(rows), rows)
        if bool((scores.diff() > _RISE).any()):
            raise InvalidArgumentError(
                "The vector store orders its results by something else than the cosine; make it a cosine store."
            )
        return scores

    def _words(self, signal: StoredWords, text: str, k: int, deep: int, test: _Test) -> tuple[np.ndarray, np.ndarray]:
        pages = self.pages
        key, reach = (id(signal), text), deep * k
        while True:
            found = pages.found.get(key)
            if found is None or (found.reach < reach and not found.complete):
                values, rows = signal.whole.search([text], reach)
                pairs = [pair for pair in zip(rows[0].tolist(), values[0].tolist(), strict=True) if pair[0] >= 0]
                found = pages.found[key] = Found(pairs, reach, len(pairs) < reach)
            nodes = np.array([row for row, _ in found.results], np.int64)
            missing = {row for row in nodes.tolist() if row not in pages.nodes}
            if missing:
                pages.positions |= missing
                return nodes[:0], np.zeros(0, np.float32)
            kept = np.flatnonzero(test(nodes))
            if found.complete or len(kept) >= k:
                return nodes[kept][:k], np.array([value for _, value in found.results], np.float32)[kept][:k]
            reach = _DEEPER * found.reach

    def vectors(self, asked: Sequence[tuple[int, Vectors]]) -> list[np.ndarray]:
        """Return vectors at unit length."""
        found = self.pages.vectors_of(np.concatenate([request.nodes for _, request in asked]))
        return self._split(torch.nn.functional.normalize(found.double(), dim=1), asked)

    def contents(self, asked: Sequence[tuple[int, Contents]]) -> list[list[Node]]:
        """Return nodes with their texts."""
        return [[self.graph.node(row) for row in request.nodes.tolist()] for _, request in asked]

    def texts(self, asked: Sequence[tuple[int, Texts]]) -> list[list[str]]:
        """Return texts of nodes."""
        return [[node.text for node in nodes] for nodes in self.contents(asked)]  # type: ignore[arg-type]

    def neighbors(self, asked: Sequence[tuple[int, Neighbors]]) -> list[Near]:
        """Return the neighbours of nodes, without nodes that may not be visited."""
        found = [Near(*self._edges(request.nodes, request.parallel)[:2]) for _, request in asked]
        return [near.kept(self.passing(near.node, "walk")) for near in found]

    def steps(self, asked: Sequence[tuple[int, Steps]]) -> list[tuple[Near, bool]]:
        """Return the neighbours of one type and by one relation."""
        found = []
        for _, request in asked:
            nodes = [self._stepped(row, request) for row in request.nodes.tolist()]
            length = np.array([len(near) for near in nodes], np.int64)
            read = np.cumsum(length)
            whole = not len(read) or bool(read[-1] <= request.most)
            kept = [near for near, total in zip(nodes, read.tolist(), strict=True) if total <= request.most]
            owner = np.repeat(np.arange(len(nodes)), np.where(read <= request.most, length, 0))
            near = Near(owner, np.array([node for near in kept for node in near], np.int64))
            found.append((near.kept(self.passing(near.node, "walk")), whole))
        return found

    def _stepped(self, row: int, request: Steps) -> list[int]:
        """Return the neighbours of a node, those of one relation together, as a typed adjacency of the whole graph has them."""
        pages, found = self.pages, []
        for edge in pages.near[row].edges:
            other = pages.rows[edge.target if pages.rows[edge.source] == row else edge.source]
            kind = pages.nodes[other].type
            if request.type in (None, kind) and request.relation in (None, edge.relation):
                found.append((edge.relation if request.type is not None else kind, other, edge.position))
        return [other for _, other, _ in sorted(found)]

    def by_title(self, asked: Sequence[tuple[int, ByTitle]]) -> list[np.ndarray]:
        """Return nodes by title and type."""
        pages, found = self.pages, []
        for _, request in asked:
            rows = {row for title in request.titles for row in pages.titled.get(_letters(title), [])}
            nodes = np.array(sorted(row for row in rows if pages.nodes[row].type == request.type), np.int64)
            found.append(nodes[self.filtered(nodes, "named", "readable")])
        return found

    def degree(self, asked: Sequence[tuple[int, Degree]]) -> list[np.ndarray]:
        """Return the numbers of neighbours, which the database stores, or of edges."""
        held, near, parallel = self.pages.nodes, self.pages.near, asked[0][1].parallel
        return [
            np.array([len(near[row].parallel) if parallel else held[row].degree for row in request.nodes.tolist()], np.int64)
            for _, request in asked
        ]

    def weights(self, asked: Sequence[tuple[int, Weights]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return adjacency matrices among nodes, and sums of weights."""
        found = []
        for _, request in asked:
            nodes = request.nodes
            owner, near, weights = self._edges(nodes, parallel=False)
            place = places_of(nodes, near)
            among = np.zeros((len(nodes), len(nodes)), np.float32)
            among[owner[place >= 0], place[place >= 0]] = weights[place >= 0]
            found.append((among, np.bincount(owner, weights, len(nodes)).astype(np.float32)))
        return found

    def links(self, asked: Sequence[tuple[int, Links]]) -> list[Near]:
        """Return the edges among nodes."""
        found = []
        for _, request in asked:
            owner, near, _ = self._edges(request.nodes, request.parallel)
            place = places_of(request.nodes, near)
            found.append(Near(owner, place).kept((place >= 0) & (place != owner)))
        return found

    def _edges(self, nodes: np.ndarray, parallel: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the place of each neighbour's node, its row, and its weight (of the simple view), each [T]."""
        near = [self.pages.near[row] for row in nodes.tolist()]
        rows = [one.parallel if parallel else one.rows for one in near]
        owner = np.repeat(np.arange(len(nodes)), [len(one) for one in rows])
        if not near:
            return owner, np.zeros(0, np.int64), np.zeros(0, np.float32)
        return owner, np.concatenate(rows), np.concatenate([one.weights for one in near])

    def part(self, found: Sequence[Candidates]) -> tuple[CorpusGraph, Sequence[Candidates]]:
        """Fetch the contents of all nodes that candidates name, and the edges of their paths: a graph of these, in their order."""
        pages = self.pages
        paths = [each.trails for each in found] + [each.chains.nodes for each in found if each.chains is not None]
        for table in paths:
            for near, far in zip(table[:, :-1].ravel().tolist(), table[:, 1:].ravel().tolist(), strict=True):
                if near >= 0 and far >= 0 and near not in pages.near and far not in pages.near:
                    pages.expand.add(near)
        contexts = [each.beside["context"].ravel() for each in found if "context" in each.beside]
        for context in contexts:
            pages.expand.update(context[context >= 0].tolist())
        rows = np.unique(np.concatenate([table.ravel() for table in (*contexts, *paths)]))
        rows = rows[rows >= 0]
        pages.texts.update(rows.tolist())
        pages.fetch()
        return pages.part(rows.tolist(), self.graph.include_titles), [_renumbered(each, rows) for each in found]


def _first(
    rows: Tensor, scores: Tensor, k: int, test: _Test, rounding: float, complete: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the k best of what a search found, ties to the lower row; None if the search has to go deeper for them.

    `rows` and `scores` are of shape [n], and scores that differ by less than `rounding` are ties.
    """
    floor = scores.min() if len(rows) else torch.tensor(float("inf"))
    kept = torch.from_numpy(test(rows.numpy()))
    rows, scores = rows[kept], scores[kept]
    rows, order = torch.sort(rows)
    values, columns = top_k(scores[order].unsqueeze(0), k, rounding)
    # What the store did not return scores at most as the last that it returned.
    if not complete and (len(rows) < k or bool(values[0, -1] <= floor + rounding)):
        return None
    return rows[columns[0]].numpy(), falling(values)[0].numpy()


def _letters(title: str) -> str:
    return title.strip().casefold()


def _renumbered(found: Candidates, rows: np.ndarray) -> Candidates:
    """Return candidates with the places of their nodes in `rows` instead of their rows."""

    def places(table: np.ndarray) -> np.ndarray:
        return np.where(table >= 0, np.searchsorted(rows, table), -1)

    chains = None if found.chains is None else replace(found.chains, nodes=places(found.chains.nodes))
    beside = {name: places(table) if name == "context" else table for name, table in found.beside.items()}
    return replace(found, nodes=places(found.nodes), trails=places(found.trails), beside=beside, chains=chains)
