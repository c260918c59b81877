"""The points of an index in Qdrant: written, compared with what is there, and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any
from uuid import UUID, uuid4, uuid5

import numpy as np

from graph_retrievers.arguments import fraction, positive
from graph_retrievers.errors import (
    DatabaseAuthError,
    DatabaseError,
    DatabaseUnreachableError,
    GraphRetrieverError,
    InvalidArgumentError,
    MissingSignalError,
    shown,
)
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.stores.changes import Changes, check_lengths, check_loss, check_same_vectors, warn_of_bare
from graph_retrievers.systems.traits import traits_of

__all__ = ["settings"]

_KEY = "graph_retrievers"
# Payload of a point: the id of its node, and the digest by which the next write skips it.
NODE, _DIGEST = "node_id", "digest"
_SPACE = UUID("6f1c5b0e-58a5-4f0c-9d3b-0a8a4c1f7d52")
_SCANNED = 1000
# Most numbers of vectors in a request: a server takes 32 MB by default, and a number has up to 22 characters.
_NUMBERS = 1_000_000


class QdrantPoints:
    """A write of the vectors and words of an index into a Qdrant collection; creating it only reads the existing contents.

    Points are written by :meth:`begin`, :meth:`write` and :meth:`finish`. Each has the id of its node in its payload, and a
    digest of its vectors, by which the next write skips it: an interrupted write continues.

    Parameters
    ----------
    client : qdrant_client.QdrantClient
    collection : str
    index : GraphIndex
    words : str or None, default "words"
        Name of the sparse vectors; None writes no words.
    length_drift : float, default 0.01
        See :func:`~graph_retrievers.stores.engines.write_index`.
    replace : bool, default False
        See there.
    foreign : bool, default False
        Whether the collection may be one that was not created here; then only the words of its points are written and deleted.

    Raises
    ------
    MissingSignalError
        If the index has no BM25, or nothing to write.
    InvalidArgumentError
        If the collection was not created here, has other points, lacks such sparse vectors, has vectors of another model, or more
        than half of its points would be deleted; if two nodes have the same point (see :func:`point_id`); if vectors are compared
        by dot products and have different lengths.
    DimensionMismatchError
        If its vectors have another width.
    DatabaseUnreachableError, DatabaseAuthError, DatabaseError
        If Qdrant cannot be reached, refuses the key, or fails.
    """

    def __init__(
        self,
        client: Any,
        collection: str,
        index: GraphIndex,
        *,
        words: str | None = "words",
        length_drift: float = 0.01,
        replace: bool = False,
        foreign: bool = False,
    ) -> None:
        check_client(client)
        self.client, self.collection, self.index, self.words = client, collection, index, words
        bm25, dense = index.signals.get("bm25"), index.signals.get("dense")
        if words is not None and not isinstance(bm25, BM25):
            raise MissingSignalError("The index has no BM25, of which the words are made; build it with bm25=True.")
        self.dense = dense if isinstance(dense, DenseIndex) else None
        if words is None and self.dense is None:
            raise MissingSignalError("The index has no vectors to write; build it with embedding= or vectors=.")
        self.bm25 = bm25 if words is not None else None
        drift, self.embedding_name = fraction("length_drift", length_drift), index.embedding_name
        self._check_ids()
        with reaching():
            self.new = not client.collection_exists(collection)
            properties = None if self.new else settings(client, collection)
            self.is_own, self.deletions = bool(properties and properties.get("own")), list[Any]()
            # Whether the collection is created, or created anew.
            self.fresh = self.new
            if not self.new:
                self._check(properties or {}, replace, foreign)
                absent_ids = self._absent(replace)
                self.deletions = [] if self.fresh else absent_ids
        if self.dense is not None and (self.is_own or self.fresh):
            check_lengths(self.dense)
        self.mean = 0.0
        if isinstance(self.bm25, BM25):
            self.mean, old_mean = self.bm25.mean_length, (properties or {}).get("mean length")
            if old_mean and abs(self.mean / old_mean - 1) <= drift:
                self.mean = old_mean

    def _check_ids(self) -> None:
        """Raise InvalidArgumentError if two nodes have one point: the id of one is the UUID that is made of the id of the other."""
        ids = self.index.graph.ids
        owners = dict(zip(map(point_id, ids), ids, strict=True))
        if len(owners) < len(ids):
            one = next(node for node in ids if owners[point_id(node)] != node)
            raise InvalidArgumentError(
                f"The nodes {shown(one)} and {shown(owners[point_id(one)])} have the same point in Qdrant, {point_id(one)}, which "
                "is the id of one and is made of that of the other; give one of them another id."
            )

    def _check(self, properties: Mapping[str, Any], replace: bool, foreign: bool) -> None:
        """Raise an error if a collection that is there cannot take the index; with `replace` it is made anew."""
        from qdrant_client import models

        config = self.client.get_collection(self.collection).config.params
        subject, sparse = f"The collection {self.collection!r}", config.sparse_vectors or {}
        if not self.is_own and not foreign:
            raise InvalidArgumentError(f"{subject} was not made by write_index, which would delete its points; give another name.")
        fits = self.words is None or (self.words in sparse and sparse[self.words].modifier == models.Modifier.IDF)
        if not fits and not (self.is_own and replace):
            raise InvalidArgumentError(
                f"{subject} has no sparse vectors {self.words!r} with the modifier idf. Make it with "
                f"sparse_vectors_config={{{self.words!r}: models.SparseVectorParams(modifier=models.Modifier.IDF)}}, or let "
                "fill(index) make one of another name."
            )
        if not self.is_own:
            return
        width, old_width = 0 if self.dense is None else self.dense.dimension, getattr(config.vectors, "size", 0)
        names = (properties.get("embedding", ""), self.embedding_name)
        self.embedding_name = self.embedding_name or names[0]
        self.fresh = not fits or width != old_width or (all(names) and names[0] != names[1])
        if not replace:
            check_same_vectors(subject, (old_width, names[0]), (width, names[1]))

    def _absent(self, replace: bool) -> list[Any]:
        """Return the ids of the points whose nodes the index lacks."""
        count, absent_ids, offset = 0, list[Any](), None
        while True:
            points, offset = self.client.scroll(
                self.collection, limit=_SCANNED, offset=offset, with_payload=[NODE, _DIGEST], with_vectors=False
            )
            ids = [point.id for point in points if self.is_own and not {NODE, _DIGEST} <= (point.payload or {}).keys()]
            if ids:
                raise InvalidArgumentError(
                    f"The collection {self.collection!r} holds points that were not written here, such as {ids[0]}, and would "
                    "be deleted; move them to another collection, or give another name."
                )
            count += len(points)
            absent_ids += [point.id for point in points if node_of(point) not in self.index.graph]
            if offset is None:
                break
        if self.is_own:
            check_loss(f"The collection {self.collection!r}", count, len(absent_ids), replace)
        return absent_ids

    def begin(self) -> None:
        """Create the collection if it does not exist, and mark it as being filled."""
        from qdrant_client import models

        # Two writes at the same time are noticed by it.
        properties: dict[str, Any] = {"own": self.is_own or self.fresh, "embedding": self.embedding_name, "write": str(uuid4())}
        if isinstance(self.bm25, BM25):
            properties |= self.bm25.settings | {"mean length": self.mean}
        self.properties = properties
        if self.dense is not None and properties["own"]:
            warn_of_bare(self.dense, self.index.graph.ids)
        with reaching():
            if self.fresh and not self.new:
                self.client.delete_collection(self.collection)
            if self.fresh:
                size = (
                    None if self.dense is None else models.VectorParams(size=self.dense.dimension, distance=models.Distance.COSINE)
                )
                sparse = {} if self.words is None else {self.words: models.SparseVectorParams(modifier=models.Modifier.IDF)}
                self.client.create_collection(
                    self.collection, vectors_config=size or {}, sparse_vectors_config=sparse, metadata={_KEY: properties}
                )
            else:
                self.client.update_collection(self.collection, metadata={_KEY: properties})
            if settings(self.client, self.collection) is None:
                raise DatabaseError(f"Qdrant keeps no metadata of the collection {self.collection!r}; version 1.16 or later does.")

    def write(self, batch_size: int = 256, show_progress: bool = False) -> Changes:
        """Delete the points of missing nodes, and write those that differ from the existing ones."""
        from qdrant_client import models

        size, ids, count = positive("batch_size", batch_size), self.index.graph.ids, 0
        weights = _Weights(self.bm25, self.mean) if isinstance(self.bm25, BM25) else None
        with (
            reaching(),
            progress_bar(total=len(ids), desc="writing points", unit="node", disable=not show_progress) as bar,
        ):
            for start in range(0, len(self.deletions), size):
                selection = models.PointIdsList(points=self.deletions[start : start + size])
                if self.is_own:
                    self.client.delete(self.collection, selection)
                else:
                    self.client.delete_vectors(self.collection, [self.words], selection.points)
            for start in range(0, len(ids), size):
                self.check_alone()
                rows = range(start, min(start + size, len(ids)))
                points = self._points(rows, weights)
                if self.properties["own"]:
                    point_ids = [point.id for point in points]
                    old_points = self.client.retrieve(self.collection, point_ids, with_payload=[_DIGEST], with_vectors=False)
                    digests = {str(point.id): (point.payload or {}).get(_DIGEST) for point in old_points}
                    points = [point for point in points if digests.get(point.id) != point.payload[_DIGEST]]
                    for part in _requests(points):
                        self.client.upsert(self.collection, part)
                else:
                    name = str(self.words)
                    for part in _requests(points):
                        vectors = [models.PointVectors(id=point.id, vector={name: point.vector[name]}) for point in part]
                        self.client.update_vectors(self.collection, vectors)
                count += len(points)
                bar.update(len(rows))
        return Changes(count, 0, len(self.deletions))

    def _points(self, rows: range, weights: _Weights | None) -> list[Any]:
        """Return the points of some nodes, each with a digest of its vectors."""
        from qdrant_client import models

        dense = None if self.dense is None else self.dense.taken(slice(rows.start, rows.stop)).cpu().numpy().astype("<f4")
        words, points = {} if weights is None else dict(zip(rows, weights.taken(rows), strict=True)), []
        for row in rows:
            node, vector, digest = self.index.graph.ids[row], dict[str, Any](), blake2b(digest_size=16)
            if dense is not None:
                vector[""] = dense[row - rows.start].tolist()
                digest.update(dense[row - rows.start].tobytes())
            if row in words:
                places, values = list(words[row]), list(words[row].values())
                vector[str(self.words)] = models.SparseVector(indices=places, values=values)
                digest.update(np.array(places, "<u4").tobytes() + np.array(values, "<f4").tobytes())
            payload = {NODE: node, _DIGEST: digest.hexdigest()}
            points.append(models.PointStruct(id=point_id(node), vector=vector, payload=payload))
        return points

    def check_alone(self) -> None:
        """Raise DatabaseError if another write has begun since :meth:`begin`, and make that one raise it too.

        Each may have changed what the other had compared, so that neither is complete.
        """
        with reaching():
            if (settings(self.client, self.collection) or {}).get("write") == self.properties["write"]:
                return
            # With this mark, the other write does not count as complete either, whether it still runs or has ended.
            self.client.update_collection(self.collection, metadata={_KEY: self.properties})
        raise DatabaseError(
            f"Another write to the collection {self.collection!r} began while this one ran, and each may have undone what the "
            "other wrote. Let both end, and write again, one at a time."
        )

    def finish(self) -> None:
        """Write the properties by which retrievers are chosen; without them, the collection counts as incomplete."""
        self.check_alone()
        properties = {name: value for name, value in self.properties.items() if name != "write"}
        with reaching():
            self.client.update_collection(self.collection, metadata={_KEY: {**properties, "traits": traits_of(self.index)}})


def _requests(points: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield points in parts whose vectors a server takes in one request; one with very many words is alone."""
    part, room = list[Any](), _NUMBERS
    for point in points:
        size = sum(len(vector) if isinstance(vector, list) else 2 * len(vector.indices) for vector in point.vector.values())
        if part and size > room:
            yield part
            part, room = [], _NUMBERS
        part.append(point)
        room -= size
    if part:
        yield part


def settings(client: Any, collection: str) -> dict[str, Any] | None:
    """Return what a write has stored in the metadata of a collection."""
    return (client.get_collection(collection).config.metadata or {}).get(_KEY)  # type: ignore[no-any-return]


@contextmanager
def reaching() -> Iterator[None]:
    """Raise errors of Qdrant as errors of this package."""
    try:
        yield
    except GraphRetrieverError:
        raise
    except Exception as error:
        status, message = getattr(error, "status_code", None), f"{type(error).__name__}: {error}"
        if status in (401, 403):
            raise DatabaseAuthError(
                f"Qdrant refused the API key ({message}). Check QdrantClient(api_key=...), and its rights."
            ) from error
        if isinstance(error, OSError) or type(error).__name__ == "ResponseHandlingException":
            raise DatabaseUnreachableError(f"Qdrant cannot be reached ({message}). Check its address, and that it runs.") from error
        raise DatabaseError(f"Qdrant failed ({message}).") from error


def point_id(node: str) -> str:
    """Return the id of the point of a node: the node's own if it is a UUID, else one derived from it.

    >>> point_id("a0000000-0000-4000-8000-000000000000"), point_id("looms.md")
    ('a0000000-0000-4000-8000-000000000000', '584862d5-6736-52b7-97b2-e4a6c1968764')
    """
    try:
        if str(UUID(node)) == node:
            return node
    except ValueError:
        pass
    return str(uuid5(_SPACE, node))


def node_of(point: Any) -> str:
    """Return the id of the node of a point."""
    return str((point.payload or {}).get(NODE, point.id))


def among_nodes(ids: Iterable[str]) -> Any:
    """Return a filter that passes only the points of some nodes."""
    from qdrant_client import models

    return models.Filter(must=[models.HasIdCondition(has_id=list(map(point_id, ids)))])


def check_client(client: Any) -> None:
    """Raise InvalidArgumentError if `client` is not a Qdrant client."""
    for method in ("query_batch_points", "update_vectors", "get_collection"):
        if not hasattr(client, method):
            raise InvalidArgumentError(f"client is {shown(client)}; expected a qdrant_client.QdrantClient.")


def word_place(word: str) -> int:
    """Return the place of a word in sparse vectors: 32 bits; among a million words, about a hundred pairs share one."""
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest())


def added_weights(weights: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Return weights by place, ascending; the weights of words with the same place are added."""
    sums: dict[int, float] = {}
    for place, weight in weights:
        sums[place] = sums.get(place, 0.0) + weight
    return dict(sorted(sums.items()))


class _Weights:
    """The weights of BM25 for a mean length of texts, by texts; BM25 keeps them by words."""

    def __init__(self, bm25: BM25, mean: float) -> None:
        places = np.zeros(bm25.indptr.numel() - 1, np.uint32)
        for word, term in bm25.vocabulary.items():
            places[term] = word_place(word)
        rows = bm25.rows.cpu().numpy()
        order = np.argsort(rows, kind="stable")
        self.ends = np.searchsorted(rows[order], np.arange(len(bm25) + 1))
        self.places = np.repeat(places, np.diff(bm25.indptr.cpu().numpy()))[order]
        self.shares = bm25.shares(mean)[order]

    def taken(self, rows: Sequence[int]) -> Iterator[dict[int, float]]:
        """Yield the weights of each of some texts by place."""
        for row in rows:
            part = slice(self.ends[row], self.ends[row + 1])
            yield added_weights(zip(self.places[part].tolist(), self.shares[part].tolist(), strict=True))
