"""The index of what a call has fetched: reads of anything else are noted as missing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.cache import Cache
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Rows
from graph_retrievers.graph.ragged import falling, top_k
from graph_retrievers.signals.dense import ROUNDING, zeroed
from graph_retrievers.signals.embedding import Embedding, embed_queries
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.signals.signal import Signal, VectorSignal
from graph_retrievers.stores.remote.pages import Found, Pages
from graph_retrievers.stores.remote.ports import StoredNode

__all__ = ["KeptEmbedding", "KeptRelevance", "LocalSignal", "PartialGraph", "StoreVectors", "WholeGraphError"]

# Results of a search beyond those asked for, which show whether there are ties at the end; and how much deeper the next one goes.
_MORE, _DEEPER = 16, 4
# More than this, and a store orders results by something else than the cosine.
_RISE = 0.05

# What a partial graph may keep: values that follow from what is fetched, or that are asked again where they are incomplete.
_LOCAL = {
    *("edge keys", "edge weights", "strength", "incidence", "incidence keys", "incidence by relation"),
    *("kinds of", "types", "typed adjacency", "schema"),
}


class WholeGraphError(InvalidArgumentError):
    """A retriever reads what follows from the whole graph."""


class _LocalCache(Cache):
    """A cache that computes what follows from a part of the graph, has some values of the whole, and refuses all others."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        super().__init__()
        self.whole = whole

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return a value; WholeGraphError where it follows from the whole graph."""
        name = str(key[0] if isinstance(key, tuple) else key)
        if name == "filters told":
            # Whether any node has a field is not known here.
            return None
        if name in self.whole:
            return self.whole[name]
        if name not in _LOCAL:
            raise WholeGraphError(f"{name!r} of the whole graph")
        return super().get(key, make)


class _Column(Sequence[Any]):
    """A column of a partial graph that not all nodes have; reads of others are noted."""

    def __init__(self, pages: Pages, nodes: list[StoredNode], name: str, default: Any) -> None:
        self.pages, self.nodes, self.read, self.default = pages, nodes, attrgetter(name), default

    def __len__(self) -> int:
        return len(self.nodes)

    @overload
    def __getitem__(self, row: int) -> Any: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[Any]: ...

    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[place] for place in range(*row.indices(len(self)))]
        value = self.read(self.nodes[row])
        if value is None:
            self.pages.texts.add(self.nodes[row].id)
            return self.default
        return value


class _Titles:
    """Rows of nodes by title, as :func:`graph_retrievers.graph.names.nodes_titled` reads them."""

    def __init__(self, pages: Pages, row_of: Mapping[str, int]) -> None:
        self.pages, self.row_of = pages, row_of

    def get(self, title: str, default: list[int]) -> list[int]:
        """Return the rows of the nodes with a title, ascending; none while it is not looked up yet."""
        if title and title not in self.pages.titled:
            self.pages.titles.add(title)
        return sorted(self.row_of[name] for name in self.pages.titled[title]) if title in self.pages.titled else default


class PartialGraph(CorpusGraph):
    """The fetched nodes in the order of the whole graph's rows, and their edges."""

    # Set while a retriever is composed.
    template = False

    def __init__(
        self, pages: Pages, include_titles: bool, schema: tuple[Sequence[str], Sequence[tuple[str, str, str]]] | None
    ) -> None:
        nodes = sorted(pages.nodes.values(), key=lambda node: (node.position, node.id))
        self.pages, self.include_titles = pages, include_titles
        self.ids, self.titles = [node.id for node in nodes], [node.title for node in nodes]
        self.types, self.metadata = [node.type for node in nodes], [dict(node.metadata) for node in nodes]
        self.texts: Any = _Column(pages, nodes, "text", "")
        self.origins: Any = _Column(pages, nodes, "origin", {})
        self._row_of, self.device = {node: row for row, node in enumerate(self.ids)}, torch.device("cpu")
        self._set_types()
        if schema is not None:
            self.type_names = sorted({*schema[0], *self.type_names})
            self.node_types = torch.tensor([self.type_names.index(name) for name in self.types], dtype=torch.int32)
        edges, names = sorted(pages.edges.values()), dict[str, int]()
        ends = np.array([(self._row_of[edge.source], self._row_of[edge.target]) for edge in edges], np.int64).reshape(-1, 2)
        relations = np.array([names.setdefault(edge.relation, len(names)) for edge in edges], np.int32)
        weights, texts = np.array([edge.weight for edge in edges], np.float32), [edge.text for edge in edges]
        columns = ends[:, 0].copy(), ends[:, 1].copy(), relations, weights
        self._set_rows(Rows(*columns, texts if any(texts) else [], []), list(names))
        whole = {"titles": _Titles(pages, self._row_of)}
        self.cache = _LocalCache(whole if schema is None else whole | {"schema triples": list(schema[1])})
        self.degree = torch.tensor([node.degree for node in nodes], dtype=torch.int32)
        self.positions = torch.tensor([node.position for node in nodes])
        self._expanded = torch.tensor([node in pages.expanded for node in self.ids])

    @property
    def num_edges(self) -> int:
        """Number of relationship rows that are fetched; refused while a retriever is composed, which may not depend on it."""
        if self.template:
            raise WholeGraphError("the number of edges of the whole graph")
        return super().num_edges

    @property
    def has_edges(self) -> bool:
        """True: those that are fetched do not tell whether the whole graph has any."""
        return True

    def expand(self, nodes: Tensor) -> None:
        """Note which of some nodes have edges that are not fetched."""
        rows = torch.unique(nodes[nodes >= 0])
        self.pages.expand.update(self.ids[row] for row in rows[~self._expanded[rows]].tolist())


class _StoreSignal(Signal):
    """A signal on a partial graph, whose searches cover the whole."""

    tabled = False

    def __init__(self, graph: PartialGraph, name: str) -> None:
        self.graph, self.pages, self.name = graph, graph.pages, name

    def __len__(self) -> int:
        return len(self.graph)

    def search(self, queries: Any, k: int, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the k best of each query, nothing for a query whose results are not fetched yet."""
        self.pages.check()
        scores, rows = torch.full((len(queries), k), float("-inf")), torch.full((len(queries), k), -1)
        masks = None if allowed is None else allowed.expand(len(queries), -1)
        for b in range(len(queries)):
            values, found = self._best(queries[b], k, None if masks is None else masks[b])
            scores[b, : len(values)], rows[b, : len(found)] = values, found
        return scores, rows

    @abstractmethod
    def _best(self, query: Any, k: int, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return at most k scores and rows, best first; none where something is missing."""

    def state(self) -> Any:
        raise InvalidArgumentError("A part of a graph is not saved; save its database.")

    @classmethod
    def restore(cls, *state: Any) -> Any:
        raise InvalidArgumentError("A part of a graph is not saved; save its database.")

    def to(self, device: torch.device) -> Any:
        return self


_NOTHING = torch.zeros(0), torch.zeros(0, dtype=torch.int64)


class StoreVectors(_StoreSignal, VectorSignal):
    """Vectors in a vector store, by cosine."""

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """Width of the vectors."""
        return self.pages.dimension

    def prepared(self, vectors: Tensor) -> Tensor:
        """Return the vectors of queries at unit length."""
        return torch.nn.functional.normalize(vectors)

    def scores(self, queries: Tensor, batch: Tensor, rows: Tensor) -> Tensor:
        """Return cosines of pairs; Incomplete where a vector is not fetched yet."""
        self.pages.check()
        distinct, back = torch.unique(rows, return_inverse=True)
        names = [self.graph.ids[row] for row in distinct.tolist()]
        missing = {name for name in names if name not in self.pages.places}
        self.pages.scores_neighbors |= bool(missing)
        self.pages.vectors |= missing
        self.pages.check()
        places = torch.tensor([self.pages.places[name] for name in names], dtype=torch.int64)[back]
        return zeroed((queries[batch] * self.pages.table[places]).sum(-1), torch.tensor(ROUNDING))

    def _best(self, query: Tensor, k: int, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        key = self.name, query.numpy().tobytes()
        found, row_of = self.pages.found.get(key), self.graph._row_of
        if found is None:
            return self._search(key, query, k if allowed is None else _DEEPER * k)
        # Results that are not nodes of the graph are left out.
        rows = torch.tensor([row_of[name] for name in found.keys if name in row_of], dtype=torch.int64)
        scores = self.scores(query.unsqueeze(0), torch.zeros_like(rows), rows)
        if bool((scores.diff() > _RISE).any()):
            raise InvalidArgumentError(
                "The vector store orders its results by something else than the cosine; make it a cosine store."
            )
        floor = scores.min() if len(rows) else torch.tensor(float("inf"))
        kept = torch.ones_like(rows, dtype=torch.bool) if allowed is None else allowed[rows]
        rows, order = torch.sort(rows[kept])
        values, columns = top_k(scores[kept][order].unsqueeze(0), k, ROUNDING)
        # What the store did not return scores at most as the last that it returned.
        if not found.complete and (len(rows) < k or bool(values[0, -1] <= floor + ROUNDING)):
            return self._search(key, query, max(k, _DEEPER * found.reach))
        return falling(values)[0], rows[columns[0]]

    def _search(self, key: Any, query: Tensor, reach: int) -> tuple[Tensor, Tensor]:
        # Several searches of a run may be made by the same vector.
        _, other = self.pages.searches.get(key, (None, 0))
        self.pages.searches[key] = query, max(reach + _MORE, other)
        return _NOTHING


class LocalSignal(_StoreSignal):
    """A signal over all nodes that this process holds, such as BM25, for a partial graph."""

    def __init__(self, graph: PartialGraph, name: str, whole: Signal) -> None:
        super().__init__(graph, name)
        self.whole = whole

    def scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of pairs."""
        return self.term_scores(queries, batch, rows).sum(1)

    def term_scores(self, queries: Any, batch: Tensor, rows: Tensor) -> Tensor:
        """Return the scores of pairs by terms."""
        self.pages.check()
        return self.whole.term_scores(queries, batch, self.graph.positions[rows])

    def _best(self, query: str, k: int, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
        reach, at = k if allowed is None else _DEEPER * k, self.pages.at
        while True:
            found = self.pages.found.get((self.name, query))
            if found is None or (found.reach < reach and not found.complete):
                values, places = self.whole.search([query], reach)
                keys = [pair for pair in zip(values[0].tolist(), places[0].tolist(), strict=True) if pair[1] >= 0]
                found = self.pages.found[self.name, query] = Found(keys, reach, len(keys) < reach)
            missing = {place for _, place in found.keys if place not in at}
            if missing:
                self.pages.positions |= missing
                return _NOTHING
            rows = torch.tensor([self.graph._row_of[at[place]] for _, place in found.keys], dtype=torch.int64)
            kept = torch.ones_like(rows, dtype=torch.bool) if allowed is None else allowed[rows]
            if found.complete or int(kept.sum()) >= k:
                return torch.tensor([value for value, _ in found.keys])[kept][:k], rows[kept][:k]
            reach = _DEEPER * found.reach


class KeptRelevance(RelevanceModel):
    """A relevance model that encodes a pair once, however often the retriever runs."""

    def __init__(self, model: RelevanceModel, pages: Pages) -> None:
        self.model, self.pages, self.name = model, pages, model.name
        self.held: dict[tuple[str, str], Tensor] = {}

    def encode(self, queries: Sequence[str], texts: Sequence[str]) -> Tensor:
        """Return latents; Incomplete where a text is not fetched yet."""
        # What is read is expanded next: texts and edges come together.
        self.pages.expand |= self.pages.texts
        self.pages.check()
        pairs = list(zip(queries, texts, strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.held]
        if new or not pairs:
            latents = self.model.encode([query for query, _ in new], [text for _, text in new])
            if not pairs:
                return latents
            self.held.update(zip(new, latents, strict=True))
        return torch.stack([self.held[pair] for pair in pairs])

    def score(self, latent: Tensor) -> Tensor:
        """Return the model's score of each latent."""
        return self.model.score(latent)


class KeptEmbedding:
    """An embedding model that embeds a query once, however often the retriever runs."""

    def __init__(self, model: Embedding) -> None:
        self.model, self.held = model, dict[str, Tensor]()

    def embed_queries(self, texts: Sequence[str]) -> Tensor:
        """Return vectors of queries: Tensor, shape [n, d]."""
        new = [text for text in dict.fromkeys(texts) if text not in self.held]
        self.held.update(zip(new, embed_queries(self.model, new), strict=True))
        return torch.stack([self.held[text] for text in texts])

    def embed_query(self, text: str) -> Any:
        """Return the vector of a query."""
        return self.embed_queries([text])[0].tolist()

    def embed_documents(self, texts: list[str]) -> Any:
        """Return the vectors of texts."""
        return self.model.embed_documents(texts)
