"""The backend on a graph in a database and vectors in a vector store: it answers requests with one round trip per step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.core.candidates import Candidates, places_of
from graph_retrievers.core.requests import (
    ByTitle,
    Contents,
    Degree,
    EdgeRows,
    Edges,
    EdgesAmong,
    EdgeScores,
    EdgeTexts,
    EdgeVectors,
    LowestEdgeScore,
    Mentions,
    Near,
    Nearest,
    NearestByCosine,
    NearestEdges,
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
    WeightedNeighbors,
    Weights,
    WithQuery,
)
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.blank import BLANK
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.facts import WholeGraphError
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.graph.names import name_runs, name_table
from graph_retrievers.graph.plain import copied
from graph_retrievers.graph.ragged import falling, top_k
from graph_retrievers.search.backend import Backend, entries_of, split_by
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.signals.dense import ROUNDING, zeroed
from graph_retrievers.signals.signal import Signal
from graph_retrievers.stores.remote.facts import StoredEdgeVectors, StoredFacts, StoredVectors, StoredWords
from graph_retrievers.stores.remote.pages import EDGES, VECTORS, WORDS, FetchedGraph, StoreResults, name_key, search_key
from graph_retrievers.stores.remote.queries import StoredQueries

# The filters of a call that nodes must pass.
_FILTERS = {
    "return": ("filter", "types", "readable"),
    "start": ("seed_filter", "readable"),
    "name": ("named", "readable"),
    "walk": ("traversal_filter",),
    "filter": ("filter",),
}
_Test = Callable[[np.ndarray], np.ndarray]
# Results of a search beyond those asked for, which show whether there are ties at the end; and by which factor the next search is
# deeper.
_MORE, _DEEPER = 16, 4
# If a cosine is larger by more than this than the one before it, the store orders results by something else.
_RISE = 0.05
# Graphs of fetched nodes are made from this one by other columns, without the checks of new nodes.
_NO_NODES = CorpusGraph([], [], device="cpu")

READABLE = {BLANK: {"$exists": False}}
"""Filter of the nodes that have something to read."""


class _Ids(Sequence[str]):
    """The ids of nodes by their rows; unknown ones are fetched."""

    def __init__(self, pages: FetchedGraph) -> None:
        self.pages = pages

    def __len__(self) -> int:
        return self.pages.size

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...

    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            raise WholeGraphError("the ids of the whole graph")
        self.pages.know([int(row)])
        return self.pages.nodes[int(row)].id


class _Condition:
    """A filter, evaluated once for each node that is fetched."""

    def __init__(self, pages: FetchedGraph, condition: Mapping[str, Any]) -> None:
        self.pages, self.condition = pages, condition
        self.is_known, self.passes = np.zeros(pages.size, bool), np.zeros(pages.size, bool)
        self._mask(())  # A condition that cannot be read is refused before anything is fetched.

    def __call__(self, nodes: np.ndarray) -> np.ndarray:
        """Return which nodes, shape [n], pass: bool, shape [n]."""
        rows = np.unique(nodes[~self.is_known[nodes]])
        if len(rows):
            self.passes[rows], self.is_known[rows] = self._mask(rows.tolist()), True
        return self.passes[nodes]

    def _mask(self, rows: Sequence[int]) -> np.ndarray:
        self.pages.know(rows)
        nodes = [self.pages.nodes[row] for row in rows]
        if self.condition is READABLE:
            # Each node that is fetched is tested by this, in a fraction of the time of a filter.
            return np.array([node.metadata.get(BLANK) is None for node in nodes], bool)
        columns: dict[str, list[Any]] = {name: [getattr(node, name[:-1]) for node in nodes] for name in ("ids", "titles", "types")}
        graph = _NO_NODES.with_columns({**columns, "metadata": [node.metadata for node in nodes]})
        # Whether any node has a field is unknown here, and not reported.
        graph.cache.get("filter problems", lambda: None)
        return filter_mask(graph, self.condition).numpy()  # type: ignore[no-any-return]


class RemoteBackend(Backend):
    """Answers requests from a graph store and a vector store; the data for a step are fetched together.

    Parameters
    ----------
    queries : StoredQueries
    filters : mapping of str to mapping
        Those of the call, and ``types``.
    """

    def __init__(self, queries: StoredQueries, filters: Mapping[str, Any]) -> None:
        self.pages, self.request_types, self.conditions = queries.pages, set[str](), dict(filters)
        super().__init__(queries, _Ids(self.pages))
        self.facts: StoredFacts = self.queries.index.facts
        conditions = {**filters, "readable": READABLE}
        self.filters = {name: _Condition(self.pages, condition) for name, condition in conditions.items()}
        if "named" not in self.filters and "seed_filter" in self.filters:
            self.filters["named"] = self.filters["seed_filter"]
        if "filter" in self.filters:
            self.filters.setdefault("seed_filter", self.filters["filter"])

    @property
    def index(self) -> Corpus:
        """Refuse what reads all of an index."""
        raise WholeGraphError("all nodes and edges")

    @property
    def edges(self) -> int:
        """One more than the number of the last edge that was fetched; how many there are is unknown."""
        return int(self.pages.edges.table.positions.max(initial=-1)) + 1

    def ends(self, facts: np.ndarray) -> np.ndarray:
        """Return the node rows joined by some edges that were fetched, shape [M]: int64, shape [M, 2]."""
        return self.pages.edges.table.ends[self.pages.edges.places(facts)]

    def relation_names(self, numbers: np.ndarray) -> list[str]:
        """Return the names of relations of edges that were fetched, by their numbers, shape [T]."""
        names = list(self.pages.edges.relation_numbers)
        return [names[number] for number in numbers.tolist()]

    @property
    def has_traversal_filter(self) -> bool:
        """Whether a filter says which nodes may be visited."""
        return "traversal_filter" in self.filters

    def passing(self, nodes: np.ndarray, what: str) -> np.ndarray:
        """Return which nodes, shape [n], may "return", "start", be seeds by "name", or "walk", or pass the "filter": bool, [n]."""
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
        return self.pages.edges.relation_numbers.get(name, -1)

    def prepare(self, requests: Sequence[tuple[int, Request]]) -> None:
        """Fetch what the requests of a step need."""
        self.request_types = {type(request).__name__ for _, request in requests}
        self._want(requests)
        self.pages.fetch()

    def _want(self, requests: Sequence[tuple[int, Request]]) -> None:
        """Add what requests need to what is fetched next."""
        pages = self.pages
        # Signals that are in memory need no node.
        elsewhere = [request for _, request in requests if request.verb and not isinstance(self._signal(request), Signal)]
        node_requests = [request for request in elsewhere if not isinstance(request, EdgeScores)]
        pages.know(row for request in node_requests if hasattr(request, "nodes") for row in request.nodes.tolist())
        pages.expand_further([request.nodes.tolist() for _, request in requests if isinstance(request, WeightedNeighbors)])
        for place, request in requests:
            if request.verb and not hasattr(self, request.verb):
                raise WholeGraphError(f"what {type(request).__name__} is answered with, which only an index in memory has")
            if isinstance(request, WithQuery):
                self._replacing([(place, request.text)], request)._want([(0, request.request)])
            elif isinstance(request, (Nearest, NearestByCosine)):
                self._best(place, request)
            elif isinstance(request, NearestEdges):
                self._best_edges(place, request)
            elif isinstance(request, LowestEdgeScore):
                self._lowest(place, request)
            elif isinstance(request, (EdgeScores, EdgeVectors)):
                pages.edge_vectors.update((request.nodes if isinstance(request, EdgeScores) else request.rows).tolist())
            elif isinstance(request, (Neighbors, Steps, Weights, EdgesAmong, Edges)) or (
                isinstance(request, Degree) and (request.parallel or request.incoming or request.exclude_types)
            ):
                pages.expand.update(request.nodes.tolist())
            elif isinstance(request, Vectors):
                pages.vectors.update(request.nodes.tolist())
            elif isinstance(request, Similarity) or (isinstance(request, Scores) and request.signal == "dense"):
                pages.compare(request.nodes.tolist())
            elif isinstance(request, (Scores, TermScores)) and isinstance(self._signal(request), StoredWords):
                text = getattr(request, "text", None) or self.queries.texts[place]
                pages.pairs.setdefault(text, set()).update(pages.nodes[row].id for row in request.nodes.tolist())
            elif isinstance(request, Mentions):
                pages.names |= name_runs(self.queries.texts[place], self._longest_name)
            elif isinstance(request, Relevance) and request.texts is None:
                model = request.model or self.queries.relevance
                by_vectors = isinstance(model, BiEncoder) and model.embedding is self.queries.index.embedding
                (pages.compare if by_vectors else pages.texts.update)(request.nodes.tolist())
            elif isinstance(request, (Contents, Texts)):
                pages.texts.update(request.nodes.tolist())
            elif isinstance(request, Titled):
                pages.names |= {key for key in map(name_key, request.names) if key}
            elif isinstance(request, ByTitle):
                pages.titles |= {key for key in map(_letters, request.titles) if key}

    def _signal(self, request: Request) -> Any:
        """Return the signal that a request reads, or None."""
        return self.queries.index.signals.get(getattr(request, "signal", "dense"))

    @property
    def _longest_name(self) -> int:
        """The number of words of the longest name."""
        if "longest name" not in self.facts.traits:
            raise WholeGraphError("'names' of the whole graph")
        return int(self.facts.traits["longest name"])

    def titled(self, requests: Sequence[tuple[int, Titled]]) -> list[list[list[int]]]:
        """Return rows by name: those of nodes whose names have the same words, ignoring case, distinguished as in memory."""
        results = []
        for _, request in requests:
            rows = sorted({row for name in request.names for row in self.pages.rows_by_name.get(name_key(name), [])})
            names = name_table(self.pages.part(rows, self.queries.index.include_titles)[0], fold=request.fold)
            results.append([[rows[place] for place in names.rows(name)] for name in request.names])
        return results

    def mentions(self, requests: Sequence[tuple[int, Mentions]]) -> list[list[tuple[str, list[int]]]]:
        """Return the names in questions: those of the nodes whose names are runs of words of a question."""
        capitals, results = self.facts.value("names have capitals"), []
        for place, request in requests:
            text = self.queries.texts[place]
            rows = sorted({row for run in name_runs(text, self._longest_name) for row in self.pages.rows_by_name.get(run, [])})
            names = name_table(self.pages.part(rows, self.queries.index.include_titles)[0], fold=request.fold)
            names.capitals = capitals
            results.append([(name, [rows[place] for place in places]) for name, places in names.find(text)])
        return results

    def closest(self, requests: Sequence[tuple[int, NearestByCosine]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the nodes of the largest cosines."""
        return [(nodes, cosines.astype(np.float64)) for nodes, cosines in self.nearest(requests)]

    def nearest(self, requests: Sequence[tuple[int, Nearest | NearestByCosine]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the best nodes of a signal; searches go deeper if filters or ties leave too few."""
        while True:
            results = [self._best(place, request) for place, request in requests]
            if not self.pages.fetch():
                return results

    def nearest_edges(self, requests: Sequence[tuple[int, NearestEdges]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the best edges of a signal; searches go deeper if filters or ties leave too few."""
        while True:
            results = [self._best_edges(place, request) for place, request in requests]
            if not self.pages.fetch():
                return results

    def lowest_edge_score(self, requests: Sequence[tuple[int, LowestEdgeScore]]) -> list[float]:
        """Return the lowest score of all edges in a signal."""
        while True:
            results = [self._lowest(place, request) for place, request in requests]
            if not self.pages.fetch():
                return results

    def _best_edges(self, place: int, request: NearestEdges) -> tuple[np.ndarray, np.ndarray]:
        """Return the best edges, or none, and request what is missing for them."""
        names = ("named", "readable", *(_FILTERS["return"] if request.returned else ()))
        return self._edges_like(self.queries.vectors[place], request, request.k, names)

    def _lowest(self, place: int, request: LowestEdgeScore) -> float:
        """Return the lowest score, that of the edge nearest to the opposite of the question; 0, and request what is missing."""
        _, scores = self._edges_like(-self.queries.vectors[place], request, 1, ("named", "readable"))
        return -float(scores[0]) if len(scores) else 0.0

    def _edges_like(
        self, vector: Tensor, request: NearestEdges | LowestEdgeScore, k: int, names: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k edges nearest to a vector whose ends pass filters, or none, and request what is missing for them."""
        if self.queries.index.signal(request.signal).covers != "edges":
            raise InvalidArgumentError(f"The signal {request.signal!r} covers nodes; VectorSearch searches those.")

        def test(edges: np.ndarray) -> np.ndarray:
            passes: np.ndarray = self.filtered(self.ends(edges).ravel(), *names).reshape(-1, 2)
            return passes[:, 0] & passes[:, 1]

        factor = _DEEPER if any(name in self.filters for name in names if name != "readable") else 1
        return self._look_up(EDGES, (vector, request.exclude_types), k, factor, test)

    def _best(self, place: int, request: Nearest | NearestByCosine) -> tuple[np.ndarray, np.ndarray]:
        """Return the best nodes, or none, and request what is missing for them."""
        k, text = min(request.k, self.pages.size), self.queries.texts[place] if request.text is None else request.text
        excluded_types, types, readable = tuple[str, ...](), tuple[str, ...](), ["readable"]
        if isinstance(request, Nearest):
            starts = ["seed_filter", *(["filter", "types"] if request.returned else [])]
            filters = {"start": starts, "name": ["named"], "walk": ["traversal_filter"], "return": ["filter", "types"]}
            names, types, signal = filters[request.among], request.types, self.queries.index.signal(request.signal)
            readable = [] if request.among == "walk" else readable
        else:
            names, excluded_types, signal = ["seed_filter"], request.exclude_types, self.queries.index.dense
        names = [name for name in names if name in self.filters]
        # Nodes without anything to read are few.
        factor = _DEEPER if names or excluded_types or types else 1

        def test(nodes: np.ndarray) -> np.ndarray:
            passes = self.filtered(nodes, *names, *readable)
            passes = passes & ~self.typed(nodes, excluded_types) if excluded_types else passes
            return passes & self.typed(nodes, types) if types else passes

        if isinstance(signal, Signal):
            return self._search_memory(signal, text, k, factor, test)
        if isinstance(signal, StoredWords):
            return self._look_up(WORDS, text, k, factor, test)
        vector = self.queries.vectors[place] if request.text is None else self._embed([text])[0]
        return self._look_up(VECTORS, vector, k, factor, test)

    def _embed(self, texts: Sequence[str]) -> Tensor:
        """Return the vectors of texts, each embedded once in a call: Tensor, shape [n, d]."""
        vectors: dict[str, Tensor] = self.pages.embedded
        new_texts = [text for text in dict.fromkeys(texts) if text not in vectors]
        if new_texts:
            vectors.update(zip(new_texts, self.queries.embed(new_texts), strict=True))
        return torch.stack([vectors[text] for text in texts])

    def _look_up(self, engine: str, query: Any, k: int, factor: int, test: _Test) -> tuple[np.ndarray, np.ndarray]:
        """Return the best nodes, or edges, of a search of an engine; none, and request the search, if it was not made yet."""
        pages, reach = self.pages, factor * k + _MORE
        key = search_key(engine, query)
        result = pages.store_results.get(key)
        if result is not None:
            pairs = result.results
            if engine != EDGES:
                # Results that are not nodes of the graph are left out.
                pairs = [(pages.rows[name], score) for name, score in pairs if name in pages.rows]
            rows = torch.tensor([row for row, _ in pairs], dtype=torch.int64)
            scores = torch.tensor([score for _, score in pairs], dtype=torch.float32)
            if engine == EDGES:
                scores = zeroed(scores, torch.tensor(ROUNDING))
            elif engine == VECTORS:
                scores = self._cosines(query, rows)
            best = _first(rows, scores, k, test, 0.0 if engine == WORDS else ROUNDING, result.complete, engine == EDGES)
            if best is not None:
                return best
            reach = max(reach, _DEEPER * result.reach)
        searches = pages.searches[engine]
        # Several searches of a step may be made for the same.
        searches[key] = query, max(reach, searches.get(key, (None, 0))[1])
        return np.zeros(0, np.int64), np.zeros(0, np.float32)

    def _cosines(self, query: Tensor, rows: Tensor) -> Tensor:
        """Return the cosines of results of the vector store, in its order."""
        scores = self.pages.cosines(query.unsqueeze(0), np.zeros(len(rows), np.int64), rows.numpy())
        if bool((scores.diff() > _RISE).any()):
            raise InvalidArgumentError(
                "The vector store orders its results by something else than the cosine; make it a cosine store."
            )
        return scores

    def _search_memory(self, signal: Signal, text: str, k: int, factor: int, test: _Test) -> tuple[np.ndarray, np.ndarray]:
        """Return the best nodes of a signal in memory; none, and request the nodes, if some of them were not fetched."""
        pages = self.pages
        key, reach = (id(signal), text), factor * k
        while True:
            result = pages.store_results.get(key)
            if result is None or (result.reach < reach and not result.complete):
                values, rows = signal.search([text], reach)
                pairs = [pair for pair in zip(rows[0].tolist(), values[0].tolist(), strict=True) if pair[0] >= 0]
                result = pages.store_results[key] = StoreResults(pairs, reach, len(pairs) < reach)
            nodes = np.array([row for row, _ in result.results], np.int64)
            missing = {row for row in nodes.tolist() if row not in pages.nodes}
            if missing:
                pages.positions |= missing
                return nodes[:0], np.zeros(0, np.float32)
            places = np.flatnonzero(test(nodes))
            if result.complete or len(places) >= k:
                return nodes[places][:k], np.array([value for _, value in result.results], np.float32)[places][:k]
            reach = _DEEPER * result.reach

    def similarity(self, requests: Sequence[tuple[int, Similarity]]) -> list[np.ndarray]:
        """Return cosines: the products of vectors of unit length."""
        return [products.astype(np.float64) for products in self._products(requests)]

    def scores(self, requests: Sequence[tuple[int, Scores]]) -> list[np.ndarray]:
        """Return a signal's scores."""
        signal, first = self._signal(requests[0][1]), requests[0][1]
        if isinstance(signal, StoredEdgeVectors):
            return [self._edge_vectors(place, request.nodes)[1].astype(np.float32) for place, request in requests]
        if isinstance(signal, StoredVectors):
            return self._products(requests) if first.text is None else self._products(*self._of_texts(requests))
        texts = [self.queries.texts[place] if request.text is None else request.text for place, request in requests]
        nodes = [request.nodes for _, request in requests]
        if isinstance(signal, StoredWords):
            term_scores = [self.pages.term_scores(text, rows.tolist()) for text, rows in zip(texts, nodes, strict=True)]
            return [terms.sum(1, dtype=np.float64).astype(np.float32) for terms in term_scores]
        pairs = [torch.from_numpy(part) for part in entries_of([(row, request) for row, (_, request) in enumerate(requests)])]
        return split_by(requests, signal.scores(texts, *pairs))

    def _products(self, requests: Sequence[tuple[int, Any]], vectors: Tensor | None = None) -> list[np.ndarray]:
        """Return the products of the vectors of nodes with those of questions, or with others, by place."""
        batch, nodes = entries_of(requests)
        query_vectors = self.queries.vectors if vectors is None else vectors
        return split_by(requests, self.pages.cosines(query_vectors, batch, nodes))

    def _of_texts(self, requests: Sequence[tuple[int, Scores]]) -> tuple[list[tuple[int, Scores]], Tensor]:
        """Return requests by the places of their texts, and the vectors of these."""
        vectors = self._embed([str(request.text) for _, request in requests])
        return [(row, request) for row, (_, request) in enumerate(requests)], vectors

    def term_scores(self, requests: Sequence[tuple[int, TermScores]]) -> list[np.ndarray]:
        """Return a signal's scores by terms."""
        signal = self._signal(requests[0][1])
        if isinstance(signal, StoredVectors):
            return [products[:, None] for products in self._products(requests)]
        parts = [(self.queries.texts[place], request.nodes) for place, request in requests]
        if isinstance(signal, StoredWords):
            return [self.pages.term_scores(text, rows.tolist()) for text, rows in parts]
        batch, nodes = map(torch.from_numpy, entries_of(requests))
        return split_by(requests, signal.term_scores(list(self.queries.texts), batch, nodes))

    def vectors(self, requests: Sequence[tuple[int, Vectors]]) -> list[np.ndarray]:
        """Return vectors at unit length."""
        table = self.pages.vectors_of(np.concatenate([request.nodes for _, request in requests]))
        return split_by(requests, normalize(table.double(), dim=1))

    def contents(self, requests: Sequence[tuple[int, Contents]]) -> list[list[Node]]:
        """Return nodes with their texts."""
        return [[self._node(row) for row in request.nodes.tolist()] for _, request in requests]

    def _node(self, row: int) -> Node:
        node = self.pages.nodes[row]
        return Node(node.id, node.text or "", node.title, node.type, copied(node.metadata), copied(node.origin or {}))

    def texts(self, requests: Sequence[tuple[int, Texts]]) -> list[list[str]]:
        """Return texts of nodes."""
        content = self.queries.content if requests[0][1].titles else lambda row: self.pages.nodes[row].text or ""
        return [list(map(content, request.nodes.tolist())) for _, request in requests]

    def over(self, queries: Any) -> RemoteBackend:
        """Return the backend of other questions, with the filters of this one."""
        return RemoteBackend(queries, self.conditions)

    def _replacing(self, pairs: Sequence[tuple[int, str]], request: WithQuery) -> RemoteBackend:
        """Return the backend of texts in place of questions, with the filters of a request."""
        queries, texts = self.queries, [text for _, text in pairs]
        filters = {
            name: condition for name, condition in self.conditions.items() if request.returned or name not in ("filter", "types")
        }
        start = [self.conditions[name] for name in ("seed_filter", "filter") if name in self.conditions][:1]
        start += [{"$type": {"$nin": list(request.exclude_types)}}] if request.exclude_types else []
        if start:
            filters["seed_filter"] = {"$and": start}
        places = [place for place, _ in pairs]
        return RemoteBackend(queries.rewritten(texts, places, vectors=self._vectors_instead(pairs)), filters)

    def neighbors(self, requests: Sequence[tuple[int, Neighbors]]) -> list[Near]:
        """Return the neighbours of nodes, without nodes that may not be visited."""
        neighbors = [Near(*self._neighbors_of(request.nodes, request.parallel, request.incoming)[:2]) for _, request in requests]
        return [near.masked(self.passing(near.node, "walk")) for near in neighbors]

    def weighted_neighbors(self, requests: Sequence[tuple[int, WeightedNeighbors]]) -> list[tuple[Near, np.ndarray, np.ndarray]]:
        """Return the neighbours of nodes whose edges were fetched, with the weights of the edges between."""
        results = []
        for _, request in requests:
            mask = np.array([row in self.pages.edges.near for row in request.nodes.tolist()], bool)
            lists = [self.pages.edges.near[row] for row in request.nodes[mask].tolist()]
            owner = np.repeat(np.flatnonzero(mask), [len(near.neighbors) for near in lists])
            node = np.concatenate([np.zeros(0, np.int64), *(near.neighbors for near in lists)])
            sums = np.concatenate([np.zeros((0, 2)), *(near.sums for near in lists)])
            places = np.flatnonzero(self.passing(node, "walk"))
            results.append((Near(owner[places], node[places]), sums[places], mask))
        return results

    def edges_at(self, requests: Sequence[tuple[int, Edges]]) -> list[EdgeRows]:
        """Return the edges at nodes, without those that lead where a traversal may not go."""
        table, results = self.pages.edges.table, []
        for _, request in requests:
            owner, far, places = self._edges_of(request.nodes)
            mask = self.passing(far, "walk")
            owner, far, places = owner[mask], far[mask], places[mask]
            weights = table.weights[places].astype(np.float32)
            results.append(EdgeRows(owner, table.positions[places], far, table.relations[places], weights))
        return results

    def _edges_of(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the place of each edge's node, its other end, and its place in the table of edges, in this order; each [T]."""
        near, none = [self.pages.edges.near[row] for row in nodes.tolist()], np.zeros(0, np.int64)
        owner = np.repeat(np.arange(len(nodes)), [len(edges.ends) for edges in near])
        far, positions = (np.concatenate([none, *columns]) for columns in ([e.ends for e in near], [e.positions for e in near]))
        return owner, far, self.pages.edges.places(positions)

    def edge_vectors(self, requests: Sequence[tuple[int, EdgeVectors]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return vectors of edges, and their cosines."""
        return [self._edge_vectors(place, request.rows) for place, request in requests]

    def _edge_vectors(self, place: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of edges, and their cosines with a question."""
        vectors, question = normalize(self.pages.edge_vectors_of(rows).double(), dim=1), self.queries.vectors[place].double()
        return vectors.numpy(), (vectors @ normalize(question, dim=0)).numpy()

    def edge_texts(self, requests: Sequence[tuple[int, EdgeTexts]]) -> list[list[str]]:
        """Return the texts of edges that were fetched."""
        edges, nodes, results = self.pages.edges, self.pages.nodes, []
        relations = list(edges.relation_numbers)
        for _, request in requests:
            places = edges.places(request.rows)
            names = [[nodes[row].title or nodes[row].id for row in column] for column in edges.table.ends[places].T.tolist()]
            columns = (edges.table.texts[places], names[0], edges.table.relations[places].tolist(), names[1])
            results.append(
                [
                    text or " ".join(filter(None, (source, relations[relation], target)))
                    for text, source, relation, target in zip(*columns, strict=True)
                ]
            )
        return results

    def steps(self, requests: Sequence[tuple[int, Steps]]) -> list[tuple[Near, bool]]:
        """Return the neighbours of one type and by one relation."""
        results = []
        for _, request in requests:
            near = self._stepped(request)
            totals = np.cumsum(np.bincount(near.owner, minlength=len(request.nodes)))
            near = near.masked((totals <= request.most)[near.owner])
            complete = not len(totals) or bool(totals[-1] <= request.most)
            results.append((near.masked(self.passing(near.node, "walk")), complete))
        return results

    def _stepped(self, request: Steps) -> Near:
        """Return the neighbours of nodes, those of one relation together, as a typed adjacency of the whole graph has them."""
        owner, far, places = self._edges_of(request.nodes)
        relations = self.pages.edges.table.relations[places]
        if request.relation is not None:
            mask = relations == self.relation(request.relation)
            owner, far, places, relations = owner[mask], far[mask], places[mask], relations[mask]
        names = self.types(far)
        if request.type is not None:
            mask = np.array([name == request.type for name in names], bool)
            owner, far, places, names = owner[mask], far[mask], places[mask], self.relation_names(relations[mask])
        number = {name: number for number, name in enumerate(sorted(set(names)))}
        order = np.lexsort((places, far, np.array([number[name] for name in names], np.int64), owner))
        return Near(owner[order], far[order])

    def by_title(self, requests: Sequence[tuple[int, ByTitle]]) -> list[np.ndarray]:
        """Return nodes by title and type."""
        pages, results = self.pages, []
        for _, request in requests:
            rows = {row for title in request.titles for row in pages.titled.get(_letters(title), [])}
            nodes = np.array(sorted(row for row in rows if pages.nodes[row].type == request.type), np.int64)
            results.append(nodes[self.filtered(nodes, "named", "readable")])
        return results

    def degree(self, requests: Sequence[tuple[int, Degree]]) -> list[np.ndarray]:
        """Return the numbers of neighbours, which the database stores, or of edges, or of some neighbours."""
        return [np.array([self._degree(row, request) for row in request.nodes.tolist()], np.int64) for _, request in requests]

    def _degree(self, row: int, request: Degree) -> int:
        if not (request.parallel or request.incoming or request.exclude_types):
            return self.pages.nodes[row].degree
        near = self.pages.edges.near[row]
        if request.parallel:
            return len(near.ends)
        neighbors = near.incoming if request.incoming else near.neighbors
        return int((~self.typed(neighbors, request.exclude_types)).sum()) if request.exclude_types else len(neighbors)

    def weights(self, requests: Sequence[tuple[int, Weights]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return adjacency matrices among nodes, and sums of weights."""
        results = []
        for _, request in requests:
            nodes = request.nodes
            owner, near, weights = self._neighbors_of(nodes, parallel=False)
            place = places_of(nodes, near)
            matrix = np.zeros((len(nodes), len(nodes)), np.float32)
            matrix[owner[place >= 0], place[place >= 0]] = weights[place >= 0]
            results.append((matrix, np.bincount(owner, weights, len(nodes)).astype(np.float32)))
        return results

    def links(self, requests: Sequence[tuple[int, EdgesAmong]]) -> list[Near]:
        """Return the edges among nodes."""
        results = []
        for _, request in requests:
            owner, near, _ = self._neighbors_of(request.nodes, request.parallel)
            place = places_of(request.nodes, near)
            results.append(Near(owner, place).masked((place >= 0) & (place != owner)))
        return results

    def _neighbors_of(self, nodes: np.ndarray, parallel: bool, incoming: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return for each neighbour the place of its node and its own row, shape [T], and the weights.

        With `parallel`, a neighbour is repeated for each edge; the weights are those of the distinct neighbours all the same, also
        with `incoming`, for which there are only the neighbours with an edge to the node.
        """
        near = [self.pages.edges.near[row] for row in nodes.tolist()]
        rows = [edges.ends if parallel else edges.incoming if incoming else edges.neighbors for edges in near]
        owner = np.repeat(np.arange(len(nodes)), [len(neighbors) for neighbors in rows])
        if not near:
            return owner, np.zeros(0, np.int64), np.zeros(0, np.float32)
        return owner, np.concatenate(rows), np.concatenate([edges.weights for edges in near])

    def part(self, lists: Sequence[Candidates]) -> tuple[CorpusGraph, Sequence[Candidates]]:
        """Fetch the contents of all nodes that candidates name, and the edges of their paths: a graph of these, in their order."""
        pages = self.pages
        paths = [item.trails for item in lists] + [item.chains.nodes for item in lists if item.chains is not None]
        facts = [self.ends(item.facts.rows) for item in lists if item.facts is not None]
        steps = [np.stack([table[:, :-1].ravel(), table[:, 1:].ravel()], 1) for table in paths]
        for near, far in (pair for pairs in (*steps, *facts) for pair in pairs.tolist()):
            # A step may follow any edge between its nodes, and a fact is told from edges parallel to it.
            if near >= 0 and far >= 0 and near not in pages.edges.near and far not in pages.edges.near:
                pages.expand.add(min(near, far, key=lambda row: pages.nodes[row].degree))
        contexts = [item.columns["context"].ravel() for item in lists if "context" in item.columns]
        for context in contexts:
            pages.expand.update(context[context >= 0].tolist())
        rows = np.unique(np.concatenate([table.ravel() for table in (*contexts, *paths, *facts)]))
        rows = rows[rows >= 0]
        pages.texts.update(rows.tolist())
        pages.fetch()
        graph, edges = pages.part(rows.tolist(), self.queries.index.include_titles)
        return graph, [_renumbered(item, rows, edges) for item in lists]


def _first(
    rows: Tensor, scores: Tensor, k: int, test: _Test, rounding: float, complete: bool, lowest: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the k best of what a search found, ties to the lower row; None if the search has to go deeper for them.

    `rows` and `scores` are of shape [n], and scores that differ by less than `rounding` are ties. `complete` says that there are no
    other results, and `lowest` that others that tie with the last have higher rows.
    """
    floor = scores.min() if len(rows) else torch.tensor(float("inf"))
    mask = torch.from_numpy(test(rows.numpy()))
    rows, scores = rows[mask], scores[mask]
    rows, order = torch.sort(rows)
    values, columns = top_k(scores[order].unsqueeze(0), k, rounding)
    # What the store did not return has at most the score of the last that it returned.
    if not complete and (len(rows) < k or not lowest and bool(values[0, -1] <= floor + rounding)):
        return None
    return rows[columns[0]].numpy(), falling(values)[0].numpy()


def _letters(title: str) -> str:
    return title.strip().casefold()


def _renumbered(candidates: Candidates, rows: np.ndarray, edges: np.ndarray) -> Candidates:
    """Return candidates with the places of their nodes in `rows`, and of their facts in `edges`, instead of their rows."""

    def places(table: np.ndarray) -> np.ndarray:
        return np.where(table >= 0, np.searchsorted(rows, table), -1)

    chains = None if candidates.chains is None else replace(candidates.chains, nodes=places(candidates.chains.nodes))
    facts = None if candidates.facts is None else replace(candidates.facts, rows=np.searchsorted(edges, candidates.facts.rows))
    tables = {name: places(table) if name == "context" else table for name, table in candidates.columns.items()}
    return replace(
        candidates, nodes=places(candidates.nodes), trails=places(candidates.trails), columns=tables, chains=chains, facts=facts
    )
