"""A batch of questions on a corpus, with the results computed for it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import filterfalse, groupby
from math import isfinite
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.cache import Cache
from graph_retrievers.errors import InvalidArgumentError, InvalidVectorError, MissingSignalError, shown
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.signals.embedding import embed_queries
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.signals.vectors import check_vectors

__all__ = ["Batch"]

DEFAULT_K = 10
"""Number of nodes that a retriever returns, unless its class has another default."""


class LatentCache:
    """Latents of (query, node) pairs, by the key ``query * N + node``; `encoded` is the number of pairs encoded so far."""

    def __init__(self) -> None:
        self.encoded = 0
        self._places: dict[int, int] = {}
        self._latents: Tensor | None = None

    def missing_keys(self, keys: Sequence[int]) -> list[int]:
        """Return which of `keys` are not in the cache, each once, in their order."""
        return list(dict.fromkeys(filterfalse(self._places.__contains__, keys)))

    def add(self, keys: Sequence[int], latents: Tensor) -> None:
        """Keep latents, shape [n, d], under n distinct new keys."""
        size, count = len(self._places), len(keys)
        self.encoded += count
        self._places.update(zip(keys, range(size, size + count), strict=True))
        if self._latents is None:
            self._latents = latents
        else:
            if size + count > len(self._latents):
                # Twice the room, so that a search of many rounds copies little.
                self._latents = torch.cat([self._latents, self._latents.new_empty(size + 2 * count, latents.shape[1])])
            self._latents[size : size + count] = latents

    def get(self, keys: Sequence[int]) -> Tensor:
        """Return the latents of cached keys: Tensor, shape [n, d]."""
        assert self._latents is not None
        places = torch.from_numpy(np.fromiter(map(self._places.__getitem__, keys), np.int64, len(keys)))
        return self._latents.index_select(0, places.to(self._latents.device))

    def tensors(self) -> dict[str, Tensor]:
        """Return the contents as ``keys``, shape [n], and ``latents``, shape [n, d]; empty if there are none."""
        if self._latents is None:
            return {}
        return {"keys": torch.tensor(list(self._places)), "latents": self._latents[: len(self._places)]}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Batch:
    """B immutable questions on one corpus, their vectors, and what the relevance model says of them and nodes.

    A backend makes one: :class:`~graph_retrievers.search.queries.Queries` in memory. A subclass says where texts and vectors of
    nodes are.

    Attributes
    ----------
    index : Corpus
    texts : tuple of str, length B
    k : int
        Number of requested hits, also the default for searches without their own k.
    inputs : mapping of str to sequence of length B
        Other inputs of operators (``Operator.reads``).
    vector_source : Tensor, callable or None
        Query vectors from the caller.
    model : RelevanceModel or None
        Replaces that of the index.
    cache : Cache
        Computed searches, scores and latents. Copies share it.
    trace : list of Asked
        Requests to the backend (:class:`graph_retrievers.core.trace.Trace`). Copies share it.
    """

    index: Corpus
    texts: tuple[str, ...]
    k: int = DEFAULT_K
    inputs: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    vector_source: Any = None
    model: RelevanceModel | None = None
    cache: Cache = field(default_factory=Cache)
    trace: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Prevent operators from adding inputs."""
        object.__setattr__(self, "inputs", MappingProxyType(dict(self.inputs)))

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a copy or a pickle."""
        return {**self.__dict__, "inputs": dict(self.inputs)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes of other queries."""
        self.__dict__.update(state, inputs=MappingProxyType(state["inputs"]))

    def __len__(self) -> int:
        """Return the number of queries B."""
        return len(self.texts)

    def afresh(self) -> Self:
        """Return these queries without their computed results, except their vectors."""
        query_vectors = self.vectors if "vectors" in self.cache else self.vector_source
        return replace(self, vector_source=query_vectors, cache=Cache())

    def rewritten(self, texts: Sequence[str], places: Sequence[int], *, vectors: Tensor | None = None) -> Self:
        """Replace the questions by `texts`, each with the inputs of the query at its place, and the same filters.

        `vectors`, shape [n, d], are their vectors; by default the texts are embedded.
        """
        inputs = {name: [values[place] for place in places] for name, values in self.inputs.items()}
        query_vectors = vectors if vectors is not None else None if isinstance(self.vector_source, Tensor) else self.vector_source
        return replace(self, texts=tuple(texts), inputs=inputs, vector_source=query_vectors, cache=Cache())

    def for_texts(self, texts: Sequence[str], places: Sequence[int], *, vectors: Tensor | None = None) -> Self:
        """Return what :meth:`rewritten` does, where questions that stay keep their vectors, and all of them what is computed."""
        if vectors is None:
            new = [row for row, (text, place) in enumerate(zip(texts, places, strict=True)) if text != self.texts[place]]
            if not new and list(places) == list(range(len(self))):
                return self
            if isinstance(self.vector_source, Tensor) and (not new or len(new) < len(texts) and self.embeds_texts):
                vectors = self.vector_source[list(places)]
                if new:
                    vectors[new] = self.embed([texts[row] for row in new])
        return self.rewritten(texts, places, vectors=vectors)

    def input(self, name: str) -> list[Any]:
        """Return the values of an input, one for each query; None for each if it is not given."""
        return list(self.inputs.get(name, [None] * len(self)))

    @property
    def vectors(self) -> Tensor:
        """Query vectors: Tensor, shape [B, d], on the index's device."""
        if isinstance(self.vector_source, Tensor):
            return self.vector_source
        return self.cache.get("vectors", partial(self.embed, self.texts))

    @property
    def lengths(self) -> Tensor:
        """Lengths of the queries' vectors: Tensor, shape [B], float32."""
        return self.cache.get("lengths", partial(torch.linalg.vector_norm, self.vectors, dim=1))

    @property
    def latents(self) -> LatentCache:
        """Latents of (query, node) pairs."""
        return self.cache.get("latents", LatentCache)

    @property
    def has_vectors(self) -> bool:
        """Whether the queries' vectors are known, or there is a model to compute them."""
        return self.vector_source is not None or self.index.embedding is not None

    @property
    def embeds_texts(self) -> bool:
        """Whether there is a model, or a function, for vectors of texts other than the queries."""
        return self.index.embedding is not None or callable(self.vector_source)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Return vectors of any texts, embedded as queries: Tensor, shape [n, d], on the index's device."""
        dense, model = self.index.dense, self.index.embedding
        if not texts:
            return torch.empty((0, dense.dimension), device=self.index.device)
        if callable(self.vector_source) and (texts is self.texts or model is None):
            vectors = check_vectors(self.vector_source(list(texts)), len(texts), dense.dimension, "query vectors")
        elif model is None:
            if self.vector_source is not None:
                other = shown(texts[0], 60)
                raise MissingSignalError(f"The query's vector was given, but {other} is another text; pass embedding= to embed it.")
            raise MissingSignalError(
                "This index has no embedding model for queries; pass embedding= or the query's vector. A model is not "
                "saved with an index: GraphIndex.load, open_index and IndexStore take it again."
            )
        else:
            vectors = embed_queries(model, texts, dense.dimension)
        return dense.prepared(vectors).to(self.index.device)

    @property
    def relevance(self) -> RelevanceModel:
        """The relevance model: the given one, or that of the index."""
        return self.index.relevance if self.model is None else self.model

    @abstractmethod
    def contents(self, rows: np.ndarray) -> list[str]:
        """Return the texts of nodes, shape [n], as models read them."""

    @abstractmethod
    def node_id(self, row: int) -> str:
        """Return the id of a node, for a message."""

    @abstractmethod
    def products(self, batch: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the dot products of the vectors of questions and nodes, `batch` and `rows` of shape [n]: Tensor, shape [n]."""

    @abstractmethod
    def node_vectors(self, rows: Tensor) -> Tensor:
        """Return the vectors of nodes, `rows` of shape [n], as they are compared: Tensor, shape [n, d], float32."""

    def similarities(self, rows: Sequence[np.ndarray]) -> dict[tuple[int, int], float | None]:
        """Return the cosine of each query with some node rows, B arrays of shape [n], by the numbers of query and row.

        It is None if one of the two has no vector. They are computed pair by pair, so that a batch returns what its queries return
        one by one.
        """
        batch, nodes = np.repeat(np.arange(len(rows)), list(map(len, rows))), np.concatenate(rows)
        if not len(nodes):
            return {}
        device = self.index.device
        owner, node = torch.from_numpy(batch).to(device), torch.from_numpy(nodes).to(device)
        lengths = self.lengths.double()[owner] * self.index.dense.norms.to(device)[node]
        # Stacked, so that the device is waited for only once.
        products, lengths = torch.stack([self.products(batch, nodes).double(), lengths]).cpu().numpy()
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = np.clip(products / lengths, -1.0, 1.0).astype(object)
        cosines[lengths == 0] = None
        return dict(zip(zip(batch.tolist(), nodes.tolist(), strict=True), cosines.tolist(), strict=True))

    def pair_latents(self, batch: np.ndarray, rows: np.ndarray, texts: Sequence[str] | None = None) -> Tensor:
        """Return latents of pairs, `batch` and `rows` of shape [n]: Tensor, shape [n, d], float32; each pair is encoded once.

        `texts`, length n, are read instead of those of the nodes.
        """
        size = len(self.index.facts)
        keys = (batch * size + rows).tolist()
        if texts is not None and keys:
            return self._text_latents(batch, rows, texts)
        new = self.latents.missing_keys(keys)
        if new and len(new) == len(keys):
            latents = self._encode_pairs(batch, rows)
            self.latents.add(new, latents)
            # A model may write into what it is given.
            return latents.clone()
        if new:
            self.latents.add(new, self._encode_pairs(*np.divmod(np.array(new), size)))
        if not keys:
            # The head of the model needs the width of its latents.
            table = self.latents.tensors().get("latents")
            return (table if table is not None else self._encode_pairs(batch, rows))[:0]
        return self.latents.get(keys)

    def _text_latents(self, batch: np.ndarray, rows: np.ndarray, texts: Sequence[str]) -> Tensor:
        latents: dict[tuple[int, str], Tensor] = self.cache.get("latents of texts", dict)
        pairs = list(zip(batch.tolist(), texts, strict=True))
        new = {pair: place for place, pair in enumerate(pairs) if pair not in latents}
        if new:
            table = self._encoded([b for b, _ in new], [text for _, text in new])
            latents.update(zip(new, table, strict=True))
            self.latents.encoded += len(new)
        return torch.stack([latents[pair] for pair in pairs])

    def head(self, latents: Tensor, batch: np.ndarray, rows: np.ndarray, mixed: Tensor | None = None) -> np.ndarray:
        """Return the relevance model's scores of pairs from their latents, shape [n, d]: float32, shape [n].

        With `mixed`, shape [n, d], these are scored instead of the latents. InvalidVectorError if the model returns NaN or
        infinity.
        """
        model, total = self.relevance, latents.float().sum().reshape(1)
        scores = model.score(latents if mixed is None else mixed).to(latents.device)
        if scores.shape != rows.shape:
            message = f"scores of shape {list(scores.shape)} for latents of shape {list(latents.shape)}"
            raise InvalidArgumentError(f"The relevance model {model.name!r} gave {message}; expected {list(rows.shape)}.")
        # Concatenated, so that the device is waited for only once. Mixing spreads a number such as NaN in a latent to other nodes.
        values = torch.cat([scores.float(), total]).cpu().numpy()
        if not isfinite(values[-1]):
            self._check(torch.where(torch.isfinite(latents), 0.0, latents).flatten(1).sum(1).cpu().numpy(), batch, rows)
        self._check(values[:-1], batch, rows)
        return values[:-1]

    def _encode_pairs(self, batch: np.ndarray, rows: np.ndarray) -> Tensor:
        model = self.relevance
        if isinstance(model, BiEncoder) and model.embedding is self.index.embedding:
            return self.products(batch, rows).unsqueeze(1)
        return self._encoded(batch.tolist(), self.contents(rows))

    def _encoded(self, batch: Sequence[int], texts: Sequence[str]) -> Tensor:
        """Return the latents of pairs of a query and a text; those of a query are one list for the model, in their order."""
        model = self.relevance
        if not len(batch):
            return model.encode([], []).to(self.index.device)
        groups = dict[int, list[int]]()
        for b, places in groupby(range(len(batch)), batch.__getitem__):
            groups.setdefault(b, []).extend(places)
        answers = model.encode_lists([(self.texts[b], [texts[place] for place in places]) for b, places in groups.items()])
        for b, (_, note) in zip(groups, answers, strict=True):
            if note:
                self.relevance_notes.setdefault(b, []).append(note)
        latents = torch.cat([part for part, _ in answers]).to(self.index.device)
        order = [place for places in groups.values() for place in places]
        return latents if order == list(range(len(order))) else latents[np.argsort(order)]

    @property
    def relevance_notes(self) -> dict[int, list[str]]:
        """The relevance model's notes on its scores, by the place of the query."""
        return self.cache.get("notes of the relevance model", dict)

    def _check(self, scores: np.ndarray, batch: np.ndarray, nodes: np.ndarray) -> None:
        """Raise InvalidVectorError if a score, shape [n], of a query and a node is NaN or infinite."""
        finite = np.isfinite(scores)
        if not finite.all():
            place = int(np.argmin(finite))
            node, text = self.node_id(int(nodes[place])), self.texts[batch[place]]
            raise InvalidVectorError(
                f"The relevance model {self.relevance.name!r} gave {float(scores[place])} for node {node!r} and the "
                f"query {shown(text)}; expected finite numbers."
            )


def compared_vectors(index: Corpus, vectors: Any, count: int) -> Any:
    """Return vectors of `count` queries, copied, as an index compares them; None and a function that computes them as they are.

    Raises DimensionMismatchError or InvalidVectorError for others than finite vectors of the width of the index.
    """
    if vectors is None or callable(vectors):
        return vectors
    table = check_vectors(vectors, count, index.dense.dimension, "query vectors")
    return index.dense.prepared(table).to(index.device).clone()
