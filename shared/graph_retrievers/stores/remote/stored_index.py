"""The known parts of a graph in a database and of its signals, as an index that refuses everything else."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self, overload

import torch
from torch import Tensor

from graph_retrievers.cache import Cache
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.plain import copied
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.dense import ROUNDING, zeroed
from graph_retrievers.signals.relevance import BiEncoder
from graph_retrievers.signals.signal import Signal, VectorSignal
from graph_retrievers.stores.remote.pages import Pages

__all__ = ["Facts", "SearchedWords", "StoredGraph", "StoredIndex", "StoredVectors", "StoredWords", "WholeGraphError"]

# Of a graph of which nothing is told, titles are taken for names, and edges for what joins documents. That it has no edges was
# told where it was built.
_ASSUMED = {"names identify": True, "documents linked": 1.0, "types of names": (), "missing edges reported": None}
# What follows from the types and relations of a graph.
_OF_SCHEMA = ("schema", "metapaths")


class WholeGraphError(InvalidArgumentError):
    """An algorithm reads data that depend on the whole graph."""


class _Ids(Sequence[str]):
    """The ids of fetched nodes by their rows."""

    def __init__(self, pages: Pages) -> None:
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


class Facts(Cache):
    """Known properties of a whole graph, as the cache of the graph; everything else is refused.

    Parameters
    ----------
    traits : mapping
        See :func:`~graph_retrievers.systems.traits.traits_of`; empty if nothing is known.
    """

    def __init__(self, traits: Mapping[str, Any]) -> None:
        super().__init__()
        self.known: dict[str, Any] = {**_ASSUMED, **traits}

    def told(self, name: str, reads: str = "") -> Any:
        """Return the property with a name; if it is unknown, a WholeGraphError says what was read."""
        if name not in self.known:
            raise WholeGraphError(f"{(reads or name)!r} of the whole graph")
        return self.known[name]

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what is known, or derived from known types and relations; WholeGraphError for anything else."""
        name = str(key[0] if isinstance(key, tuple) else key)
        return super().get(key, make) if name in _OF_SCHEMA and "schema triples" in self.known else self.told(name)


class StoredGraph(CorpusGraph):
    """The known parts of a graph in a database: its size, and the fetched nodes. Reads of anything else are refused."""

    def __init__(self, pages: Pages, include_titles: bool, facts: Facts) -> None:
        self.pages, self.include_titles, self.device = pages, include_titles, torch.device("cpu")
        self.ids, self.cache = _Ids(pages), facts  # type: ignore[assignment]

    def __len__(self) -> int:
        """Return the number of nodes."""
        return self.pages.size

    def __getattr__(self, name: str) -> Any:
        """Return what is known, such as `type_names`; refuse columns of all nodes and edges."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self.cache.told(name)  # type: ignore[attr-defined]

    @property
    def has_edges(self) -> bool:
        """Whether the whole graph has edges; True if unknown."""
        return bool(self.cache.known.get("has_edges", True))  # type: ignore[attr-defined]

    def row(self, node: str) -> int:
        """Return the row of a fetched node."""
        return self.pages.rows[node]

    def node(self, row: int) -> Node:
        """Return a node whose text has been fetched."""
        held = self.pages.nodes[int(row)]
        return Node(held.id, held.text or "", held.title, held.type, copied(held.metadata), copied(held.origin or {}))

    def content(self, row: int) -> str:
        """Return the text that models read for a node whose text has been fetched."""
        node = self.node(row)
        return f"{node.title}. {node.text}" if self.include_titles and node.title else node.text


class _Stored(Signal):
    """A signal over the whole graph; the backend searches it."""

    tabled = False

    def __init__(self, pages: Pages) -> None:
        self.pages = pages

    def __len__(self) -> int:
        return self.pages.size

    def search(self, queries: Any, k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        raise WholeGraphError("the rows of a signal over the whole graph, for which it does not ask by a request")

    def state(self) -> Any:
        raise InvalidArgumentError("A part of a graph is not saved; save its database.")

    @classmethod
    def restore(cls, *state: Any) -> Any:
        raise InvalidArgumentError("A part of a graph is not saved; save its database.")

    def to(self, device: torch.device) -> Any:
        return self


class StoredVectors(_Stored, VectorSignal):
    """Vectors in a vector store, by cosine."""

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """Width of the vectors."""
        return self.pages.dimension

    @property
    def norms(self) -> Tensor:
        """Lengths: all 1."""
        return torch.ones(1).expand(len(self))

    def prepared(self, vectors: Tensor) -> Tensor:
        """Return the vectors of queries, scaled to unit length."""
        return torch.nn.functional.normalize(vectors)

    def scores(self, queries: Tensor, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the cosines of pairs; missing vectors are fetched."""
        distinct, back = torch.unique(rows, return_inverse=True)
        vectors = self.pages.vectors_of(distinct.numpy())[back]
        return zeroed((queries[batch] * vectors).sum(-1), torch.tensor(ROUNDING))


class StoredWords(_Stored):
    """A signal over words in the memory of this process, such as BM25."""

    def __init__(self, pages: Pages, whole: Signal) -> None:
        super().__init__(pages)
        self.whole = whole

    def scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of pairs."""
        return self.whole.scores(queries, batch, rows)

    def term_scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of pairs by terms."""
        return self.whole.term_scores(queries, batch, rows)


class SearchedWords(_Stored):
    """Words in an engine that searches them."""

    kind = "bm25"

    def scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of pairs."""
        return self.term_scores(queries, batch, rows).double().sum(1).float()

    def term_scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of pairs by terms; missing ones are fetched."""
        parts = {b: self.pages.term_scores(queries[b], rows[batch == b].tolist()) for b in batch.unique().tolist()}
        found = torch.zeros(rows.numel(), max((part.shape[1] for part in parts.values()), default=0))
        for b, part in parts.items():
            found[batch == b, : part.shape[1]] = torch.from_numpy(part)
        return found


class StoredIndex(GraphIndex):
    """The known parts of a graph in a database and its signals, as an index."""

    def __init__(self, graph: StoredGraph, words: Mapping[str, Signal], embedding: Any = None, relevance: Any = None) -> None:
        self.graph, self.pages, self.rows, self.edge_sources = graph, graph.pages, None, ()
        self.signals = {} if self.pages.store is None else {"dense": StoredVectors(self.pages)}
        self.signals |= {name: StoredWords(self.pages, whole) for name, whole in words.items()}
        if self.pages.words is not None:
            self.signals["bm25"] = SearchedWords(self.pages)
        self.embedding, self.relevance = embedding, BiEncoder(embedding) if relevance is None else relevance

    def within(self, scope: Any) -> GraphIndex:
        """Refuse to select a part of the graph, which is done by the engines."""
        raise WholeGraphError(f"the part of the graph with {scope}, of which nothing is told")

    def with_models(self, *, embedding: Any = None, relevance: Any = None) -> Self:
        """Return this index with another relevance model."""
        made = object.__new__(type(self))
        made.__dict__ = self.__dict__ | {"relevance": relevance}
        return made
