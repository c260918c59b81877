"""The nodes, edges and vectors that one call has fetched, and the round trips for missing ones."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from itertools import chain, zip_longest
from numbers import Real
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import as_list
from graph_retrievers.errors import (
    DatabaseError,
    DatabaseUnreachableError,
    DimensionMismatchError,
    GraphRetrieverError,
    InvalidArgumentError,
    InvalidVectorError,
    UnknownNodeError,
    shown,
)
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.graph.names import name_words
from graph_retrievers.retrievers.limits import seconds_left
from graph_retrievers.signals.dense import ROUNDING, zeroed
from graph_retrievers.signals.vectors import check_vectors
from graph_retrievers.stores.remote.edges import FetchedEdges, check_edges
from graph_retrievers.stores.remote.ports import (
    ComparingVectorStore,
    EdgeColumns,
    EdgeVectorStore,
    FetchedRows,
    GraphStore,
    SentenceStore,
    StoredEdge,
    StoredNode,
    VectorStore,
    WordStore,
)

__all__ = ["name_key", "within"]

T = TypeVar("T")
# The engines, as messages name them.
GRAPH, VECTORS, WORDS, EDGES = "graph database", "vector store", "word store", "store of edge vectors"
SENTENCES = "store of sentences"
# A store that rounds may give cosines slightly above 1.
_LARGEST_COSINE = 1.01
# A walk leaves a part of the limits for the fetches after it: this number of round trips, for a search that fills up the hits, for
# their contents, and for a page that exceeds the limits; and one in this number of nodes and edges.
_LAST_TRIPS, _LAST_PART = 5, 10


@dataclass(frozen=True)
class Limits:
    """Limits of one call: round trips to each engine, nodes, and seconds for each answer of the vector store."""

    round_trips: int
    nodes: int
    timeout: float


class StoreResults(NamedTuple):
    """The first `reach` results of a search, best first; `complete` if there are no others.

    They are ids, rows or positions of edges, with scores.
    """

    results: list[tuple[Any, float]]
    reach: int
    complete: bool


class FetchedGraph:
    """What one call has fetched, by the rows of nodes, which are their positions in the graph that was written.

    `texts`, `expand`, `vectors`, `edge_vectors`, `positions`, `titles`, `names`, `searches` and `pairs` have what is needed next,
    and `further` the nodes whose edges are needed as far as the limits allow; :meth:`fetch` fetches what is missing, in at most one
    round trip to the graph (two where `further` exceeds the limits) and two to each other store.

    Parameters
    ----------
    graph, store, words, edge_store, sentence_store : GraphStore, and VectorStore, WordStore, EdgeVectorStore, SentenceStore or None
    limits : Limits
    size : int
        Number of nodes in the graph.
    dimension : int, default 0
        Width of the vectors, if known.
    members : collection of str, optional
        For a scope, the ids of its nodes; a search may find no others.
    """

    def __init__(
        self,
        graph: GraphStore,
        store: VectorStore | None,
        words: WordStore | None,
        edge_store: EdgeVectorStore | None,
        sentence_store: SentenceStore | None,
        limits: Limits,
        size: int,
        dimension: int = 0,
        members: frozenset[str] | None = None,
    ) -> None:
        self.graph, self.store, self.words, self.edge_store = graph, store, words, edge_store
        self.sentence_store = sentence_store
        # If it is None, cosines are those of vectors that are fetched.
        self.comparing = store if isinstance(store, ComparingVectorStore) else None
        self.limits, self.size, self.dimension, self.members = limits, size, dimension, members
        self.nodes: dict[int, StoredNode] = {}
        self.rows: dict[str, int] = {}
        self.edges = FetchedEdges()
        self.titled: dict[str, list[int]] = {}
        self.rows_by_name: dict[str, list[int]] = {}
        self.store_results: dict[Any, StoreResults] = {}
        # Vectors of texts other than the questions.
        self.embedded: dict[str, Tensor] = {}
        # Scores of nodes by their ids, for each term of a text; a node without one of its terms is in none.
        self.terms: dict[str, list[dict[str, float]]] = {}
        # The ids of the nodes whose scores are in `terms`, by the text.
        self.scored_ids: dict[str, set[str]] = {}
        # Cosines of nodes by their ids, for the bytes of each vector that was compared with some.
        self.known_cosines: dict[bytes, dict[str, float]] = {}
        # The place of a node in the table of vectors, by its row.
        self.vector_places: dict[int, int] = {}
        self.vector_table = torch.zeros(0, dimension)
        # Edges that a search found, and vectors of edges, by their positions.
        self.edges_found: dict[int, StoredEdge] = {}
        self.vectors_of_edges: dict[int, np.ndarray] = {}
        # Ids that a search found, and that are not in the graph.
        self.absent: set[str] = set()
        # What was fetched of the sentences of passages of some types.
        self.tri_graphs: dict[tuple[str, ...], Any] = {}
        # How many results a search gave, and of how many, where it gave fewer than there must be.
        self.short: tuple[int, int] | None = None
        self.trips = Counter[str]()
        self._start_anew()

    def _start_anew(self) -> None:
        self.further = set[int]()
        self.texts, self.expand, self.vectors, self.positions = set[int](), set[int](), set[int](), set[int]()
        self.edge_vectors = set[int]()
        self.titles, self.names = set[str](), set[str]()
        # For each engine, what is searched for and the number of results, by a key of their own.
        self.searches: dict[str, dict[Hashable, tuple[Any, int]]] = {VECTORS: {}, WORDS: {}, EDGES: {}}
        self.pairs: dict[str, set[str]] = {}

    def fetch(self) -> bool:
        """Fetch what is needed; return whether anything was missing."""
        ids = self._search(VECTORS, self._by_vectors) | self._search(WORDS, self._by_words)
        edges = [self.edges_found[position] for position in self._search(EDGES, self._by_edge_vectors)]
        ids |= {name for edge in edges for name in (edge.source, edge.target)}
        any_search = self._fetch_term_scores(self.pairs) or any(self.searches.values())
        arguments, expand = self._needs(ids, self.expand | self.further)
        page = self._read(arguments)
        if self.further and self._exceeds(page):
            arguments, expand = self._needs(ids, self.expand)
            page = self._read(arguments)
        any_rows = any(arguments.values())
        if any_rows:
            self.take(page)
            self._check_present(arguments)
            self.absent |= arguments["ids"] - self.rows.keys()
            for name in arguments["titles"]:
                self.titled.setdefault(name, [])
            if arguments["names"]:
                self.rows_by_name |= {name: [] for name in arguments["names"]}
                for row in sorted(self.nodes):
                    if (key := name_key(self.nodes[row].title or self.nodes[row].id)) in arguments["names"]:
                        self.rows_by_name[key].append(row)
            if expand:
                self._join(expand, EdgeColumns.of(page.edges))
        if edges:
            self.edges.keep((), EdgeColumns.of(edges), self.rows)
        if bare_edges := self.edge_vectors - self.vectors_of_edges.keys():
            self._read_edge_vectors(sorted(bare_edges))
        nearest_ids = {name for key in self.searches[VECTORS] for name, _ in self.store_results[key].results}
        self.compare(self.rows[name] for name in nearest_ids if name in self.rows)
        bare_rows = self.vectors - self.vector_places.keys()
        if bare_rows and self.store is not None:
            self._read_vectors(sorted(bare_rows))
        self._start_anew()
        return any_search or any_rows or bool(bare_rows)

    def _needs(self, ids: set[str], expand: set[int]) -> tuple[dict[str, set[Any]], set[int]]:
        """Return what a round trip has to ask for, by the arguments of the store, and the nodes whose edges are among it."""
        expand = expand - self.edges.near.keys()
        texts = {row for row in self.texts - expand if row not in self.nodes or self.nodes[row].text is None}
        arguments: dict[str, set[Any]] = {
            "ids": ids - self.rows.keys() - self.absent,
            "positions": self.positions - self.nodes.keys(),
            "texts": {self.nodes[row].id for row in texts},
            "expand": {self.nodes[row].id for row in expand},
            "titles": self.titles - self.titled.keys(),
            "names": self.names - self.rows_by_name.keys(),
        }
        return arguments, expand

    def _read(self, arguments: Mapping[str, set[Any]]) -> FetchedRows:
        """Return a page of the graph store, which is a round trip; an empty one without a round trip if nothing is asked for."""
        if not any(arguments.values()):
            return FetchedRows()
        self._count(GRAPH)
        return call_engine("graph store", self.graph.read, **arguments, limit=self.limits.nodes)

    def goes_on(self, engine: str) -> bool:
        """Return whether a walk may make a further round trip to an engine."""
        return self.trips[engine] + _LAST_TRIPS < self.limits.round_trips

    def expand_further(self, lists: Sequence[Sequence[int]]) -> None:
        """Request the edges of nodes as far as the limits allow: of the first of each list, then of the second of each, and so on.

        A part of the limits is left for what has to be fetched after them.
        """
        if not self.goes_on(GRAPH):
            return
        room = self.most_further - max(len(self.nodes), len(self.edges))
        for row in dict.fromkeys(row for turn in zip_longest(*lists) for row in turn if row is not None):
            degree = self.nodes[row].degree
            if row not in self.edges.near and degree <= room:
                room -= degree
                self.further.add(row)

    @property
    def most_further(self) -> int:
        """How many nodes, and edges, may be fetched further, so that a part of the limits is left for what comes after."""
        return self.limits.nodes - self.limits.nodes // _LAST_PART

    def _exceeds(self, page: FetchedRows) -> bool:
        """Return whether a page, with what was fetched before, has more than may be fetched further."""
        nodes, edges = {node.position for node in page.nodes}, set(EdgeColumns.of(page.edges).position)
        edge_count = len(edges.union(self.edges.table.positions.tolist()))
        return max(len(nodes | self.nodes.keys()), edge_count) > self.most_further

    def know(self, rows: Iterable[int]) -> None:
        """Fetch the nodes that no answer contained, before anything else about them is needed: at most one round trip."""
        unknown = set(rows) - self.nodes.keys()
        if unknown:
            self.positions |= unknown
            self.fetch()

    def take(self, page: FetchedRows) -> None:
        """Keep the nodes of a page, and the results for titles."""
        for node in page.nodes:
            known = self.nodes.get(node.position)
            if known is not None and known.id != node.id:
                raise DatabaseError(
                    f"Nodes {shown(known.id)} and {shown(node.id)} both have the position {node.position}; write only one graph "
                    "under a label, or, if the graph was written anew, make a new RemoteIndex."
                )
            if not 0 <= node.position < self.size:
                raise DatabaseError(
                    f"Node {shown(node.id)} has the position {node.position}, and the graph has {self.size:,} nodes: it was "
                    "changed since write_graph wrote it; write it again, and make a new RemoteIndex."
                )
            if known is None or known.text is None:
                self.nodes[node.position], self.rows[node.id] = node, node.position
        self.check_size(max(len(self.nodes), len(page.edges), len(page.titled)))
        edges = EdgeColumns.of(page.edges)
        check_edges(edges)
        names = chain(edges.source, edges.target, (match.id for match in page.titled))
        end = next((name for name in names if name not in self.rows), None)
        if end is not None:
            raise DatabaseError(
                f"The graph store gave an edge or a title of node {shown(end)}, and not the node; expected the nodes of all edges "
                "and titles in the same page."
            )
        for title, name in page.titled:
            self.titled.setdefault(title, []).append(self.rows[name])

    def _check_present(self, arguments: Mapping[str, Iterable[Any]]) -> None:
        ids = (
            {node.id for node in self.nodes.values() if node.text is not None}
            if arguments["texts"] or arguments["expand"]
            else set()
        )
        missing = sorted({*arguments["texts"], *arguments["expand"]} - ids)
        missing += sorted(f"at position {place}" for place in arguments["positions"] if place not in self.nodes)
        if missing:
            raise UnknownNodeError(
                f"The database has no node {shown(missing[0])} any more; it was changed during the call, or since the signals "
                "were made of its nodes."
            )

    def check_size(self, count: int) -> None:
        """Raise DatabaseError for more nodes, or edges, than the limits allow."""
        if count > self.limits.nodes:
            raise DatabaseError(
                f"The call needs more than max_nodes={self.limits.nodes} nodes or edges; raise it, or ask for less: fewer queries "
                "at a time (batch_size), a smaller budget, a filter that more nodes pass."
            )

    def _join(self, rows: set[int], edges: EdgeColumns) -> None:
        """Keep the edges of nodes."""
        self.edges.keep(rows, edges, self.rows)
        for row in sorted(rows):
            node, near = self.nodes[row], self.edges.near[row]
            if len(near.neighbors) != node.degree:
                raise DatabaseError(
                    f"Node {shown(node.id)} has {len(near.neighbors)} neighbours, and its property says {node.degree}: the graph "
                    "was changed since write_graph wrote it; write it again."
                )
        self.check_size(len(self.edges))

    def _search(self, engine: str, search: Callable[[list[Any], int], list[list[tuple[Any, float]]]]) -> set[Any]:
        """Make the searches of an engine that are wanted; return the ids, or positions of edges, that they found."""
        searches, ids = self.searches[engine], set[Any]()
        if not searches:
            return ids
        reach = max(reach for _, reach in searches.values())
        results = self.ask(engine, search, [query for query, _ in searches.values()], reach)
        if len(results) != len(searches):
            raise DatabaseError(f"The {engine} gave {len(results)} results for {len(searches)} searches; expected one each.")
        for key, result in zip(searches, results, strict=True):
            # If a store repeated ids without end, deeper and deeper searches would be made.
            self.check_size(len(result))
            scores = dict[Any, float]()
            for name, score in result:
                scores.setdefault(name, score)
            self.store_results[key] = StoreResults([*scores.items()], reach, len(result) < reach)
            if engine != EDGES:
                self._check_members(engine, scores)
            if engine == VECTORS and len(result) < min(reach, self.size):
                self.short = (len(result), reach)
            ids |= scores.keys()
        return ids

    def _check_members(self, engine: str, ids: Iterable[str]) -> None:
        if self.members is not None and not self.members.issuperset(ids):
            raise InvalidArgumentError(
                f"The {engine} found a node outside the scope: it was asked for the nearest among some ids, and does not keep "
                "to them. Use a store that does."
            )

    def _by_edge_vectors(self, queries: list[tuple[Tensor, tuple[str, ...]]], k: int) -> list[list[tuple[int, float]]]:
        """Return the results of searches for edges by vectors, without types of their ends: their positions and cosines."""
        assert self.edge_store is not None
        results: list[list[tuple[int, float]]] = [[] for _ in queries]
        for types in dict.fromkeys(types for _, types in queries):
            places = [place for place, query in enumerate(queries) if query[1] == types]
            vectors = torch.stack([queries[place][0] for place in places]).cpu().numpy()
            answer = self.edge_store.nearest(vectors, k, exclude_types=types)
            pair_lists = as_list(f"The result of the {EDGES}", answer, "lists of edges and cosines")
            if len(pair_lists) != len(places):
                raise DatabaseError(f"The {EDGES} gave {len(pair_lists)} results for {len(places)} searches; expected one each.")
            edges = [edge for pairs in pair_lists for edge, _ in pairs]
            check_edges(EdgeColumns.of(edges))
            self._check_members(EDGES, (name for edge in edges for name in (edge.source, edge.target)))
            self.edges_found.update((edge.position, edge) for edge in edges)
            for place, pairs in zip(places, pair_lists, strict=True):
                results[place] = [(edge.position, _edge_cosine(edge, cosine)) for edge, cosine in pairs]
        return results

    def _by_vectors(self, vectors: list[Tensor], k: int) -> list[list[tuple[str, float]]]:
        """Return the results of searches by vectors, with their cosines if the store gives them."""
        assert self.store is not None
        subject, queries = "The result of the vector store's search", torch.stack(vectors).cpu().numpy()
        if self.comparing is None:
            id_lists = as_list(subject, self.store.search(queries, k), "lists of ids")
            return [[(str(name), 0.0) for name in as_list("A result of the vector store's search", ids, "ids")] for ids in id_lists]
        pair_lists = as_list(subject, self.comparing.nearest(queries, k), "lists of ids and cosines")
        results = [[(str(name), _cosine(name, value)) for name, value in pairs] for pairs in pair_lists]
        for vector, result in zip(queries, results, strict=False):
            self.known_cosines.setdefault(vector.tobytes(), {}).update(result)
        return results

    def _by_words(self, texts: list[str], k: int) -> list[list[tuple[str, float]]]:
        """Return the results of searches by words."""
        assert self.words is not None
        results = as_list("The result of the word store's search", self.words.search(texts, k), "lists of ids and scores")
        return [[(str(name), float(score)) for name, score in result] for result in results]

    def _fetch_term_scores(self, pairs: Mapping[str, set[str]]) -> bool:
        """Fetch the scores of nodes, by their ids, by the terms of texts; return whether any were missing."""
        missing = {text: sorted(ids - self.scored_ids.get(text, set())) for text, ids in pairs.items()}
        requests = [(text, ids) for text, ids in missing.items() if ids]
        if not requests:
            return False
        assert self.words is not None
        answer = self.ask(WORDS, self.words.term_scores, requests)
        results = [list(terms) for terms in as_list("The scores of the word store", answer, "lists of scores by id")]
        if len(results) != len(requests):
            raise DatabaseError(f"The word store gave the scores of {len(results)} texts, and was asked for {len(requests)}.")
        for (text, ids), terms in zip(requests, results, strict=True):
            columns = self.terms.setdefault(text, [{} for _ in terms])
            if len(columns) != len(terms):
                raise DatabaseError(f"The word store gave scores of {len(terms)} terms of a text, and of {len(columns)} before.")
            for column, scores in zip(columns, terms, strict=True):
                column.update(scores)
            self.scored_ids.setdefault(text, set()).update(ids)
        return True

    def term_scores(self, text: str, rows: Sequence[int]) -> np.ndarray:
        """Return the scores of nodes by the terms of a text, fetched if missing: float32, shape [n, T]."""
        names = [self.nodes[row].id for row in rows]
        self._fetch_term_scores({text: set(names)})
        terms = self.terms.get(text, [])
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        table = np.zeros((len(places), len(terms)), np.float32)
        for column, scores in enumerate(terms):
            # Most nodes have few of the terms.
            ids = [name for name in scores if name in places]
            table[[places[name] for name in ids], column] = [scores[name] for name in ids]
        return table[[places[name] for name in names]]

    def _read_vectors(self, rows: Sequence[int]) -> None:
        assert self.store is not None
        names = [self.nodes[row].id for row in rows]
        answer = self.ask(VECTORS, self.store.vectors, names)
        if not isinstance(answer, Mapping):
            raise DatabaseError(f"The vector store gave {shown(answer)} as vectors; expected a mapping of ids to vectors.")
        try:
            by_id = {name: np.asarray(vector, np.float32) for name in names if (vector := answer.get(name)) is not None}
        except (TypeError, ValueError, OverflowError) as error:
            raise DatabaseError(f"A vector of the store cannot be read as a row of numbers: {error}.") from error
        for name in names:
            if name not in by_id or not by_id[name].size:
                raise _without_vector(name)
        width = self.dimension or by_id[names[0]].size
        for name in names:
            if by_id[name].shape != (width,):
                raise DimensionMismatchError(
                    f"The vectors of the store differ in width; expected {width} for all, got the shape {list(by_id[name].shape)} "
                    f"for node {shown(name)}."
                )
        matrix = np.stack([by_id[name] for name in names])
        if not (mask := matrix.any(1)).all():
            raise _without_vector(names[int(np.argmin(mask))])
        vectors = check_vectors(matrix, len(names), width, "vectors of the store")
        start = len(self.vector_places)
        self.vector_places.update(zip(rows, range(start, start + len(rows)), strict=True))
        self.vector_table = torch.cat([self.vector_table.view(-1, width), torch.nn.functional.normalize(vectors)])
        self.dimension = width

    def _read_edge_vectors(self, positions: Sequence[int]) -> None:
        assert self.edge_store is not None
        table, places = self.edges.table, self.edges.places(np.array(positions))
        sources, targets = ([self.nodes[row].id for row in column] for column in table.ends[places].T.tolist())
        edges = list(map(StoredEdge, positions, sources, targets))
        vectors = self.ask(EDGES, self.edge_store.vectors, edges)
        if (edge := next((edge for edge in edges if edge.position not in vectors), None)) is not None:
            raise InvalidVectorError(
                f"The {EDGES} has no vector of the edge from {shown(edge.source)} to {shown(edge.target)}; write the index again."
            )
        rows = [vectors[position] for position in positions]
        matrix = check_vectors(rows, len(rows), self.edge_store.dimension, f"vectors of the {EDGES}")
        self.vectors_of_edges.update(zip(positions, matrix.numpy(), strict=True))

    def edge_vectors_of(self, positions: np.ndarray) -> Tensor:
        """Return the vectors of edges that were fetched, by their positions, shape [n]: Tensor, shape [n, d], float32."""
        vectors = [self.vectors_of_edges[position] for position in positions.tolist()]
        return torch.from_numpy(np.stack(vectors)) if vectors else torch.zeros(0, self.edge_store.dimension)  # type: ignore[union-attr]

    def vectors_of(self, rows: np.ndarray) -> Tensor:
        """Return vectors of unit length, fetched if missing: Tensor, shape [n, d], float32."""
        missing = sorted(set(rows.tolist()) - self.vector_places.keys())
        if missing:
            self._read_vectors(missing)
        return self.vector_table[[self.vector_places[row] for row in rows.tolist()]]

    def compare(self, rows: Iterable[int]) -> None:
        """Request the vectors from which :meth:`cosines` computes, unless the store computes cosines itself."""
        if self.comparing is None:
            self.vectors.update(rows)

    def cosines(self, vectors: Tensor, places: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the cosines of vectors, shape [B, d], at some places, shape [n], and of nodes, shape [n]: Tensor, shape [n].

        What is missing is fetched.
        """
        if self.comparing is None:
            distinct, back = np.unique(rows, return_inverse=True)
            node_vectors = self.vectors_of(distinct)[torch.from_numpy(back)]
            products = (vectors[torch.from_numpy(places)] * node_vectors).sum(-1)
        else:
            products = self._store_cosines(vectors, places.tolist(), [self.nodes[row].id for row in rows.tolist()])
        return zeroed(products, torch.tensor(ROUNDING))

    def _store_cosines(self, vectors: Tensor, places: Sequence[int], names: Sequence[str]) -> Tensor:
        """Return cosines that the store computes, each once, of vectors at some places and of nodes by their ids."""
        assert self.comparing is not None
        id_sets = dict[int, set[str]]()
        for place, name in zip(places, names, strict=True):
            id_sets.setdefault(place, set()).add(name)
        queries = {place: vectors[place].cpu().numpy() for place in id_sets}
        by_place = {place: self.known_cosines.setdefault(vector.tobytes(), {}) for place, vector in queries.items()}
        requests = [(place, sorted(ids - by_place[place].keys())) for place, ids in id_sets.items()]
        requests = [(place, ids) for place, ids in requests if ids]
        if requests:
            response = self.ask(VECTORS, self.comparing.cosines, [(queries[place], ids) for place, ids in requests])
            results = as_list("The cosines of the vector store", response, "mappings of ids to cosines")
            if len(results) != len(requests):
                raise DatabaseError(
                    f"The vector store gave the cosines of {len(results)} vectors, and was asked for {len(requests)}."
                )
            for (place, ids), cosines in zip(requests, results, strict=True):
                for name in ids:
                    by_place[place][name] = _cosine(name, cosines.get(name))
        return torch.tensor([by_place[place][name] for place, name in zip(places, names, strict=True)], dtype=torch.float32)

    def part(self, rows: Sequence[int], include_titles: bool) -> tuple[CorpusGraph, np.ndarray]:
        """Return some nodes with fetched texts as a graph in the order of `rows`, with the fetched edges between them, ascending.

        The second result has the positions of these edges: int64, shape [M].
        """
        stored_nodes = [self.nodes[row] for row in rows]
        nodes = [Node(n.id, n.text or "", n.title, n.type, n.metadata, n.origin or {}) for n in stored_nodes]
        graph = CorpusGraph.from_nodes(nodes, include_titles=include_titles)
        edges = self.edges
        places = np.flatnonzero(np.isin(edges.table.ends, rows).all(1))
        relations = list(edges.relation_numbers)
        columns = (column[places].tolist() for column in (edges.table.ends, *edges.table[2:]))
        graph_edges = [
            Edge(self.nodes[source].id, self.nodes[target].id, relations[relation], weight, text)
            for (source, target), relation, weight, text in zip(*columns, strict=True)
        ]
        graph._set_rows(graph._rows_of(graph_edges, edges.relation_numbers), relations)
        return graph, edges.table.positions[places]

    def ask(self, engine: str, ask: Callable[..., T], *arguments: Any) -> T:
        """Return what a call to a store returns, which is a round trip."""
        self._count(engine)
        stores = {VECTORS: self.store, WORDS: self.words, EDGES: self.edge_store, SENTENCES: self.sentence_store}
        if getattr(stores[engine], "keeps_time_limits", False) is True:
            return call_engine(engine, ask, *arguments)
        return within(self.limits.timeout, ask, *arguments, engine=engine)

    def _count(self, engine: str) -> None:
        self.trips[engine] += 1
        if self.trips[engine] > self.limits.round_trips:
            raise DatabaseError(
                f"The call needs more than max_round_trips={self.limits.round_trips} round trips to the {engine}; raise it, or ask "
                "for less: a smaller budget, more nodes a round, a filter that more nodes pass."
            )

    def note(self) -> str:
        """Return what the call has fetched, as a note."""
        left_out = f"; {len(self.absent)} results of the vector store are not in the graph" if self.absent else ""
        trips = f"{self.trips[GRAPH]} to the graph, {self.trips[VECTORS]} to the vector store"
        trips += f", {self.trips[WORDS]} to the word store" if self.words is not None else ""
        trips += "".join(f", {self.trips[engine]} to the {engine}" for engine in (EDGES, SENTENCES) if self.trips[engine])
        short = ""
        if self.short is not None:
            count, limit = self.short
            short = f"; the vector store gave {count:,} of {limit:,} results, and the graph has {self.size:,} nodes: it lacks "
            short += "some, or limits its results, so that hits may be missing"
        return f"round trips: {trips}; {len(self.nodes)} nodes fetched{left_out}{short}"


def search_key(engine: str, query: Any) -> Hashable:
    """Return the key of a search for a text, for a vector, or for a vector without types of the ends of edges."""
    vector, types = query if isinstance(query, tuple) else (query, ())
    return engine, types, vector if isinstance(vector, str) else vector.numpy().tobytes()


def name_key(name: str) -> str:
    """Return a name for comparison: its words in folded case, separated by one space; at most 1,000 characters.

    >>> name_key("Ada  LOVELACE")
    'ada lovelace'
    """
    # An entry of an index of a database has at most 8 KB.
    return " ".join(name_words(name, fold=True))[:1000]


def _without_vector(name: str) -> InvalidVectorError:
    return InvalidVectorError(f"The vector store has no vector of node {shown(name)}; add it to the store.")


def _cosine(name: str, value: Any) -> float:
    """Return the cosine that a store gave for a node."""
    if value is None or value != value:
        raise _without_vector(name)
    if not isinstance(value, Real) or abs(float(value)) > _LARGEST_COSINE:
        raise DatabaseError(
            f"The vector store gave {shown(value)} as the cosine of node {shown(name)}; expected a number from -1 to 1."
        )
    return float(value)


def _edge_cosine(edge: StoredEdge, value: Any) -> float:
    """Return the cosine that a store gave for an edge."""
    if not isinstance(value, Real) or not abs(float(value)) <= _LARGEST_COSINE:
        raise DatabaseError(
            f"The {EDGES} gave {shown(value)} as the cosine of the edge from {shown(edge.source)} to {shown(edge.target)}; "
            "expected a number from -1 to 1."
        )
    return float(value)


def call_engine(engine: str, ask: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Return the result of a call to an engine; DatabaseError if it fails.

    >>> call_engine("graph store", sorted, [2, 1], reverse=True)
    [2, 1]
    """
    try:
        return ask(*arguments, **options)
    except GraphRetrieverError:
        raise
    except Exception as error:
        raise DatabaseError(f"The {engine} failed ({type(error).__name__}: {error}).") from error


def within(seconds: float, ask: Callable[..., T], *arguments: Any, engine: str = VECTORS) -> T:
    """Return the result of a call to a store; DatabaseUnreachableError after `seconds`, DatabaseError if it fails.

    A time limit of the caller that is over earlier ends the wait then.

    >>> within(1.0, sorted, [2, 1])
    [1, 2]
    """
    answer: dict[str, Any] = {}

    def run() -> None:
        try:
            answer["value"] = call_engine(engine, ask, *arguments)
        except BaseException as error:
            # The cancellation of the task that waits is among them, which is no Exception.
            answer["error"] = error

    # The thread is left behind after the limit, as clients of stores have their own deadlines, or none. It has the caller's limits.
    thread = threading.Thread(target=copy_context().run, args=(run,), name="graph-retrievers-store", daemon=True)
    thread.start()
    remaining = seconds_left()
    thread.join(seconds if remaining is None else min(seconds, remaining))
    if "error" in answer:
        raise answer["error"]
    if "value" not in answer:
        raise DatabaseUnreachableError(
            f"The {engine} did not answer within {seconds:g} seconds. Check that it runs, or raise timeout=."
        )
    return answer["value"]  # type: ignore[no-any-return]
