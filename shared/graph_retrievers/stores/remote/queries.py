"""A batch of questions on nodes in a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from graph_retrievers.search.batch import DEFAULT_K, Batch, compared_vectors
from graph_retrievers.stores.remote.index import RemoteIndex
from graph_retrievers.stores.remote.pages import FetchedGraph
from graph_retrievers.stores.remote.tri_graph import StoredTriGraph


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StoredQueries(Batch):
    """B immutable questions, with the nodes that were fetched for them.

    Attributes
    ----------
    index : RemoteIndex
    pages : FetchedGraph
    """

    index: RemoteIndex
    pages: FetchedGraph

    @classmethod
    def of(
        cls,
        index: RemoteIndex,
        texts: Sequence[str],
        *,
        k: int = DEFAULT_K,
        vectors: Any = None,
        inputs: Mapping[str, Sequence[Any]] | None = None,
    ) -> StoredQueries:
        """Return questions on a graph in a database.

        Arguments are as for :meth:`graph_retrievers.search.queries.Queries.of`; filters are those of the backend.
        """
        query_vectors = compared_vectors(index, vectors, len(texts))
        return cls(
            index=index, texts=tuple(texts), k=k, inputs=dict(inputs or {}), vector_source=query_vectors, pages=index.pages()
        )

    def tri_graph(self, types: tuple[str, ...]) -> StoredTriGraph:
        """Return what is fetched of the sentences of passages of some types, and of the names in them."""
        if types not in self.pages.tri_graphs:
            self.pages.tri_graphs[types] = StoredTriGraph(self.pages, types)
        return self.pages.tri_graphs[types]  # type: ignore[no-any-return]

    def contents(self, rows: np.ndarray) -> list[str]:
        """Return the texts of nodes, shape [n], as models read them; missing ones are fetched."""
        self.pages.know(rows.tolist())
        self.pages.texts.update(rows.tolist())
        self.pages.fetch()
        return [self.content(row) for row in rows.tolist()]

    def content(self, row: int) -> str:
        """Return the text of a fetched node as models read it."""
        node = self.pages.nodes[row]
        return f"{node.title}. {node.text}" if self.index.include_titles and node.title else node.text or ""

    def node_id(self, row: int) -> str:
        """Return the id of a fetched node."""
        return self.pages.nodes[row].id

    def products(self, batch: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the cosines of questions and nodes, `batch` and `rows` of shape [n], fetched if missing: Tensor, shape [n]."""
        return self.pages.cosines(self.vectors, batch, rows)

    def node_vectors(self, rows: Tensor) -> Tensor:
        """Return the vectors of nodes, `rows` of shape [n], of unit length, fetched if missing: Tensor, shape [n, d]."""
        return self.pages.vectors_of(rows.numpy())
