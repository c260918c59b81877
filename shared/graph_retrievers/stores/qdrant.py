"""Words in Qdrant: BM25 as sparse vectors, beside the vectors of the nodes in one collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from hashlib import blake2b
from typing import Any, Self

import numpy as np

from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.index import GraphIndex
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.systems.traits import traits_of

__all__ = ["QdrantWords"]

_KEY = "graph_retrievers"


class QdrantWords:
    r"""The words of nodes in a Qdrant collection, searched by BM25.

    A node's sparse vector has for each of its words the weight :math:`f / (f + k_1 (1 - b + b L / \bar L))`, f its number in the
    text and L the number of words; a question has the number of each of its words. Qdrant multiplies with the idf (the modifier
    "idf"), in the form of Lucene, so that scores are those of :class:`~graph_retrievers.signals.bm25.BM25` up to rounding. Texts
    are split as there; a word's place in the vectors is a hash of 32 bits.

    Parameters
    ----------
    client : qdrant_client.QdrantClient
    collection : str
        Its points have the ids of the nodes.
    name : str, default "words"
        Of the sparse vectors.

    Notes
    -----
    Needs Qdrant 1.16 or later, whose collections have metadata: there lie the settings of BM25, and what the default form of
    retrievers is chosen by. A collection of several shards counts words in each of them apart. In a scope the idf is that of its
    nodes (Qdrant 1.19 or later); the mean length stays that of the collection.

    References
    ----------
    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.

    Examples
    --------
    >>> from qdrant_client import QdrantClient
    >>> loom, card = ("a0000000-0000-4000-8000-000000000000", "b0000000-0000-4000-8000-000000000000")
    >>> index = GraphIndex.from_texts(["A loom weaves cloth.", "A card."], ids=[loom, card])
    >>> words = QdrantWords(QdrantClient(":memory:"), "machines")
    >>> words.fill(index)
    >>> [[node[0] for node, score in found] for found in words.search(["Which loom?", "a card"], 2)]
    [['a'], ['b']]
    """

    def __init__(self, client: Any, collection: str, *, name: str = "words") -> None:
        for method in ("query_batch_points", "update_vectors", "get_collection"):
            if not hasattr(client, method):
                raise InvalidArgumentError(f"client is {shown(client)}; expected a qdrant_client.QdrantClient.")
        self.client, self.collection, self.name = client, collection, name
        self._among: list[str] | None = None
        self._analyser: BM25 | None = None

    def __repr__(self) -> str:
        """Return the collection and the name of the vectors."""
        return f"QdrantWords({self.collection!r}, name={self.name!r})"

    def fill(self, index: GraphIndex, *, batch_size: int = 256, show_progress: bool = False) -> None:
        """Write the words of all nodes of an index; writing them again replaces them, but for those of nodes that are gone.

        A collection that is not there yet is made, with the vectors of the index if it has any. One that is there has a point for
        each node, and sparse vectors with the modifier "idf": ``sparse_vectors_config={"words":
        models.SparseVectorParams(modifier=models.Modifier.IDF)}``.

        Parameters
        ----------
        index : GraphIndex
            With BM25.
        batch_size : int, default 256
            Points a request.
        show_progress : bool, default False

        Raises
        ------
        MissingSignalError
            If the index has no BM25.
        InvalidArgumentError
            If the collection has no such sparse vectors.
        """
        from qdrant_client import models

        bm25, ids = index.signals.get("bm25"), index.graph.ids
        if not isinstance(bm25, BM25):
            raise MissingSignalError("The index has no BM25, of which the words are made; build it with bm25=True.")
        told = {**{name: getattr(bm25, name) for name in ("k1", "b", "stopwords")}, "traits": traits_of(index)}
        new, vectors = not self.client.collection_exists(self.collection), np.zeros((len(index), 0), np.float32)
        if new:
            held = index.signals.get("dense")
            vectors = held.vectors.cpu().float().numpy() if isinstance(held, DenseIndex) else vectors
            size = models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
            sparse = {self.name: models.SparseVectorParams(modifier=models.Modifier.IDF)}
            self.client.create_collection(
                self.collection, vectors_config=size if vectors.shape[1] else {}, sparse_vectors_config=sparse
            )
        self._check_vectors(models)
        texts = _Weights(bm25)
        with progress_bar(total=len(index), desc="writing words", unit="node", disable=not show_progress) as bar:
            for start in range(0, len(index), batch_size):
                rows = range(start, min(start + batch_size, len(index)))
                points: list[tuple[str, dict[str, Any]]] = []
                for row, words in zip(rows, texts.taken(rows), strict=True):
                    near = {"": vectors[row].tolist()} if vectors.shape[1] else {}
                    own = models.SparseVector(indices=list(words), values=list(words.values()))
                    points.append((ids[row], {**near, self.name: own}))
                if new:
                    self.client.upsert(self.collection, [models.PointStruct(id=name, vector=own) for name, own in points])
                else:
                    self.client.update_vectors(self.collection, [models.PointVectors(id=name, vector=own) for name, own in points])
                bar.update(len(rows))
        # Last, so that what was not written to the end is not taken for whole.
        self.client.update_collection(self.collection, metadata={_KEY: told})
        self._analyser = None

    def _check_vectors(self, models: Any) -> None:
        held = self.client.get_collection(self.collection).config.params.sparse_vectors or {}
        if self.name not in held or held[self.name].modifier != models.Modifier.IDF:
            raise InvalidArgumentError(
                f"The collection {self.collection!r} has no sparse vectors {self.name!r} with the modifier idf. Make it with "
                f"sparse_vectors_config={{{self.name!r}: models.SparseVectorParams(modifier=models.Modifier.IDF)}}, or let "
                "fill(index) make one of another name."
            )

    def _told(self) -> dict[str, Any]:
        """Return what :meth:`fill` wrote last: settings of BM25, and traits."""
        found = (self.client.get_collection(self.collection).config.metadata or {}).get(_KEY)
        if found is None:
            raise InvalidArgumentError(
                f"The collection {self.collection!r} has no words: fill it with QdrantWords(client, {self.collection!r})"
                ".fill(index) (Qdrant 1.16 or later)."
            )
        self._analyser = BM25([], **{name: found[name] for name in ("k1", "b", "stopwords")})
        return found  # type: ignore[no-any-return]

    def traits(self) -> Mapping[str, Any]:
        """Return what was told of the index when the collection was filled; InvalidArgumentError if it was not."""
        return self._told()["traits"]  # type: ignore[no-any-return]

    def within(self, ids: Collection[str]) -> Self:
        """Return the words of some ids, for a ``scope``: the search finds the best among them, and counts words among them."""
        made = copy(self)
        made._among = list(ids)
        return made

    def search(self, texts: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """Return the ids and scores of the k best matches of each text, best first."""
        among = self._among
        return self._asked([(terms, among, k) for terms in self._terms(texts)])

    def term_scores(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> list[list[Mapping[str, float]]]:
        """Return the scores by id of each distinct word of some texts, each for ids of its own."""
        terms = self._terms([text for text, _ in pairs])
        asked = [({term: n}, ids, len(ids)) for each, (_, ids) in zip(terms, pairs, strict=True) for term, n in each.items()]
        found = iter(self._asked(asked))
        return [[dict(next(found)) for _ in each] for each in terms]

    def _terms(self, texts: Sequence[str]) -> list[dict[int, float]]:
        """Return how often each text has each of its words, by the place of the word."""
        if self._analyser is None:
            self._told()
        assert self._analyser is not None
        return [_added((_place(word), float(n)) for word, n in Counter(words).items()) for words in self._analyser.tokenize(texts)]

    def _asked(self, asked: Sequence[tuple[dict[int, float], Sequence[str] | None, int]]) -> list[list[tuple[str, float]]]:
        """Return the points of searches, each by words and among ids (of all by default), in one request."""
        from qdrant_client import models

        def among(ids: Sequence[str]) -> Any:
            return models.Filter(must=[models.HasIdCondition(has_id=list(ids))])

        counted: Any = None
        if self._among is not None:
            counted = models.SearchParams(idf=models.IdfCorpusParams(corpus=among(self._among)))
        requests = [
            models.QueryRequest(
                query=models.SparseVector(indices=list(terms), values=list(terms.values())),
                using=self.name,
                filter=None if ids is None else among(ids),
                params=counted,
                limit=k,
            )
            for terms, ids, k in asked
            # Qdrant takes no search for nothing.
            if terms and k
        ]
        found = iter(self.client.query_batch_points(self.collection, requests) if requests else ())
        return [
            [(str(point.id), point.score) for point in next(found).points if point.score > 0] if terms and k else []
            for terms, _, k in asked
        ]


def _place(word: str) -> int:
    """Return the place of a word in sparse vectors: 32 bits, which two of a million words share about a hundred times."""
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest())


def _added(weights: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return weights by place, ascending; those of words that share one are added."""
    found: dict[int, float] = {}
    for place, weight in weights:
        found[place] = found.get(place, 0.0) + weight
    return dict(sorted(found.items()))


class _Weights:
    """The weights of BM25 by texts, which it keeps by words."""

    def __init__(self, bm25: BM25) -> None:
        places = np.zeros(bm25.indptr.numel() - 1, np.uint32)
        for word, term in bm25.vocabulary.items():
            places[term] = _place(word)
        rows = bm25.rows.cpu().numpy()
        order = np.argsort(rows, kind="stable")
        self.ends = np.searchsorted(rows[order], np.arange(len(bm25) + 1))
        self.places = np.repeat(places, np.diff(bm25.indptr.cpu().numpy()))[order]
        self.shares = bm25.shares()[order]

    def taken(self, rows: Sequence[int]) -> Iterator[dict[int, float]]:
        """Yield the weights of each of some texts by place."""
        for row in rows:
            part = slice(self.ends[row], self.ends[row + 1])
            yield _added(zip(self.places[part].tolist(), self.shares[part].tolist(), strict=True))
