"""Vectors and words in one Qdrant collection: the vectors of the nodes, and BM25 as sparse vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores.qdrant_points import (
    NODE,
    QdrantPoints,
    added_weights,
    among_nodes,
    check_client,
    node_of,
    point_id,
    settings,
    word_place,
)

__all__ = ["QdrantVectors", "QdrantWords"]


class QdrantVectors:
    """The vectors of nodes in a Qdrant collection, for a :class:`~graph_retrievers.stores.remote.RemoteIndex`.

    Parameters
    ----------
    client : qdrant_client.QdrantClient
    collection : str
        Created by :func:`~graph_retrievers.stores.engines.write_index` or :meth:`QdrantWords.fill`. The points of any other
        collection must have the ids of the nodes, or these in their payload as ``node_id``.
    name : str, default ""
        Name of the vectors, if the collection has several.

    Examples
    --------
    >>> from qdrant_client import QdrantClient
    >>> client = QdrantClient(":memory:")
    >>> index = GraphIndex.from_texts(["A loom.", "A card."], ids=["loom", "card"], vectors=[[1.0, 0.0], [0.0, 1.0]])
    >>> QdrantWords(client, "machines").fill(index)
    >>> QdrantVectors(client, "machines").search(np.array([[0.6, 0.8]]), 1)
    [['card']]
    """

    def __init__(self, client: Any, collection: str, *, name: str = "") -> None:
        check_client(client)
        self.client, self.collection, self.name = client, collection, name
        self._filter: Any = None

    def __repr__(self) -> str:
        """Return the collection."""
        return f"QdrantVectors({self.collection!r})"

    def within(self, ids: Collection[str]) -> Self:
        """Return a store restricted to some ids, for a ``scope``; its search finds the nearest among them."""
        store = copy(self)
        store._filter = among_nodes(ids)
        return store

    def search(self, vectors: np.ndarray, k: int) -> list[list[str]]:
        """Return the ids of the k nearest of each vector, best first, in one request."""
        from qdrant_client import models

        options: dict[str, Any] = {"using": self.name or None, "filter": self._filter, "limit": k, "with_payload": [NODE]}
        requests = [models.QueryRequest(query=vector.tolist(), **options) for vector in vectors]
        return [
            [node_of(point) for point in response.points] for response in self.client.query_batch_points(self.collection, requests)
        ]

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Any]:
        """Return the vectors of ids, in one request; ids without a vector are left out."""
        nodes = {point_id(node): node for node in ids}
        points = self.client.retrieve(
            self.collection, list(nodes), with_payload=False, with_vectors=[self.name] if self.name else True
        )
        pairs = ((point, point.vector.get(self.name) if isinstance(point.vector, dict) else point.vector) for point in points)
        return {nodes[str(point.id)]: vector for point, vector in pairs if vector is not None}


class QdrantWords:
    r"""The words of nodes in a Qdrant collection, searched by BM25.

    A node's sparse vector has for each of its words the weight :math:`f / (f + k_1 (1 - b + b L / \bar L))`, where f is its count
    in the text and L the number of words; a question's vector has the count of each of its words. Qdrant multiplies by the idf
    (the modifier "idf"), in the form of Lucene, so that scores are those of :class:`~graph_retrievers.signals.bm25.BM25` up to
    rounding. Texts are split in the same way; a word's place in the vectors is a hash of 32 bits.

    Parameters
    ----------
    client : qdrant_client.QdrantClient
    collection : str
        See :class:`QdrantVectors`.
    name : str, default "words"
        Name of the sparse vectors.

    Notes
    -----
    Needs Qdrant 1.16 or later, whose collections have metadata, which store the settings of BM25 and the properties by which
    retrievers choose their form. A collection with several shards counts words in each of them separately. In a scope the idf is
    that of its nodes (Qdrant 1.19 or later); the mean length is that of the collection.

    References
    ----------
    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.

    Examples
    --------
    >>> from qdrant_client import QdrantClient
    >>> index = GraphIndex.from_texts(["A loom weaves cloth.", "A card."], ids=["loom", "card"])
    >>> words = QdrantWords(QdrantClient(":memory:"), "machines")
    >>> words.fill(index)
    >>> [[node for node, score in found] for found in words.search(["Which loom?", "a card"], 2)]
    [['loom'], ['card']]
    """

    def __init__(self, client: Any, collection: str, *, name: str = "words") -> None:
        check_client(client)
        self.client, self.collection, self.name = client, collection, name
        self._ids: list[str] | None = None
        self._analyser: BM25 | None = None

    def __repr__(self) -> str:
        """Return the collection and the name of the vectors."""
        return f"QdrantWords({self.collection!r}, name={self.name!r})"

    def fill(self, index: GraphIndex, *, replace: bool = False, batch_size: int = 256, show_progress: bool = False) -> None:
        """Write the words of all nodes of an index; a later call writes only changes, and deletes the words of other nodes.

        A missing collection is created, with the vectors of the index if it has any. An existing collection that was not created
        here must have a point for each node, and sparse vectors with the modifier "idf":
        ``sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)}``.
        :func:`~graph_retrievers.stores.engines.write_index` also fills the database.

        Parameters
        ----------
        index : GraphIndex
            With BM25.
        replace : bool, default False
            Whether it may replace an index of other documents, or one with vectors of another model or width.
        batch_size : int, default 256
            Points per request.
        show_progress : bool, default False

        Raises
        ------
        MissingSignalError
            If the index has no BM25.
        InvalidArgumentError, DimensionMismatchError, DatabaseError
            See :class:`~graph_retrievers.stores.qdrant_points.QdrantPoints`.
        """
        points = QdrantPoints(self.client, self.collection, index, words=self.name, length_drift=0.0, replace=replace, foreign=True)
        points.begin()
        points.write(batch_size, show_progress)
        points.finish()
        self._analyser = None

    def _settings(self) -> dict[str, Any]:
        """Return what was written last: settings of BM25, and traits."""
        properties = settings(self.client, self.collection)
        fill = f"QdrantWords(client, {self.collection!r}).fill(index)"
        if properties is None or "k1" not in properties:
            raise InvalidArgumentError(
                f"The collection {self.collection!r} has no words: fill it with {fill} (Qdrant 1.16 or later)."
            )
        if "traits" not in properties:
            raise InvalidArgumentError(
                f"The collection {self.collection!r} is being filled, or that was interrupted: wait, or fill it again, which goes "
                "on where it stopped."
            )
        if BM25.is_older(properties):
            raise InvalidArgumentError(
                f"The words of the collection {self.collection!r} were cut in another way by an earlier version; fill it "
                f"again with {fill}, which writes only what differs."
            )
        self._analyser = BM25([], **{name: properties[name] for name in BM25.options})
        return properties

    def traits(self) -> Mapping[str, Any]:
        """Return the properties of the index from when the collection was filled; InvalidArgumentError if it was not."""
        return self._settings()["traits"]  # type: ignore[no-any-return]

    def within(self, ids: Collection[str]) -> Self:
        """Return a store restricted to some ids, for a ``scope``; its search ranks and counts words among them."""
        store = copy(self)
        store._ids = list(ids)
        return store

    def search(self, texts: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """Return the ids and scores of the k best matches of each text, best first."""
        ids = self._ids
        return self._search_points([(terms, ids, k) for terms in self._terms(texts)])

    def term_scores(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[list[Mapping[str, float]]]:
        """Return the scores by id of each distinct word of some texts, each text for its own ids."""
        terms = self._terms([text for text, _ in pairs])
        requests = [
            ({term: n}, ids, len(ids)) for weights, (_, ids) in zip(terms, pairs, strict=True) for term, n in weights.items()
        ]
        results = iter(self._search_points(requests))
        return [[dict(next(results)) for _ in weights] for weights in terms]

    def _terms(self, texts: Sequence[str]) -> list[dict[int, float]]:
        """Return how often each text has each of its words, by the place of the word."""
        if self._analyser is None:
            self._settings()
        assert self._analyser is not None
        return [
            added_weights((word_place(word), float(n)) for word, n in Counter(words).items())
            for words in self._analyser.tokenize(texts)
        ]

    def _search_points(
        self, searches: Sequence[tuple[dict[int, float], Sequence[str] | None, int]]
    ) -> list[list[tuple[str, float]]]:
        """Return the points of searches, each by words and among ids (of all by default), in one request."""
        from qdrant_client import models

        params: Any = None
        if self._ids is not None:
            params = models.SearchParams(idf=models.IdfCorpusParams(corpus=among_nodes(self._ids)))
        requests = [
            models.QueryRequest(
                query=models.SparseVector(indices=list(terms), values=list(terms.values())),
                using=self.name,
                filter=None if ids is None else among_nodes(ids),
                params=params,
                limit=k,
                with_payload=[NODE],
            )
            for terms, ids, k in searches
            # Qdrant refuses a search without terms, or for no points.
            if terms and k
        ]
        responses = iter(self.client.query_batch_points(self.collection, requests) if requests else ())
        return [
            [(node_of(point), point.score) for point in next(responses).points if point.score > 0] if terms and k else []
            for terms, _, k in searches
        ]
