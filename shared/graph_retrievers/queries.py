"""A batch of queries on an index, with a cache of computed results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import isfinite
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import check_query, positive
from graph_retrievers.cache import Cache, Same
from graph_retrievers.errors import InvalidArgumentError, InvalidVectorError, MissingSignalError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import Filter, filter_mask
from graph_retrievers.graph.ragged import ranked_lists
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import ROUNDING, DenseIndex, zeroed
from graph_retrievers.signals.embedding import check_vectors, embed_queries
from graph_retrievers.signals.relevance import BiEncoder
from graph_retrievers.signals.signal import Signal, VectorSignal
from graph_retrievers.signals.sparse import SparseIndex

__all__ = ["DEFAULT_K", "LatentCache", "Queries", "both", "compared_vectors", "filter_masks"]

DEFAULT_K = 10
"""Number of nodes that a retriever returns, unless its class has another default."""

# Beyond this many entries a [B, N] table of scores is not kept; single entries are computed instead.
_TABLE_LIMIT = 1 << 27
# Of at least so many vectors, single scores are computed from the vectors, if they are fewer than this share of a table.
_LARGE, _FEW = 1 << 16, 1 / 8
# Signals whose searches need no check, which would cost time at every question; classes derived from them are checked.
_SOUND = (BM25, DenseIndex, SparseIndex)


class LatentCache:
    """Latents of (query, node) pairs, by the key ``query * N + node``; `encoded` is the number of pairs encoded so far."""

    def __init__(self) -> None:
        self.encoded = 0
        self._places: dict[int, int] = {}
        self._latents: Tensor | None = None

    def missing(self, keys: Sequence[int]) -> list[int]:
        """Return which of `keys` are not in the cache, each once, in their order."""
        return [key for key in dict.fromkeys(keys) if key not in self._places]

    def add(self, keys: Sequence[int], latents: Tensor) -> None:
        """Keep latents, shape [n, d], under n distinct new keys."""
        held, count = len(self._places), len(keys)
        self.encoded += count
        self._places.update(zip(keys, range(held, held + count), strict=True))
        if self._latents is None:
            self._latents = latents
        else:
            if held + count > len(self._latents):
                # Twice the room, so that a search of many rounds copies little.
                self._latents = torch.cat([self._latents, self._latents.new_empty(held + 2 * count, latents.shape[1])])
            self._latents[held : held + count] = latents

    def get(self, keys: Sequence[int]) -> Tensor:
        """Return the latents of cached keys: Tensor, shape [n, d]."""
        assert self._latents is not None
        return self._latents[[self._places[key] for key in keys]]

    def tensors(self) -> dict[str, Tensor]:
        """Return the contents as ``keys``, shape [n], and ``latents``, shape [n, d]; empty if there are none."""
        if self._latents is None:
            return {}
        return {"keys": torch.tensor(list(self._places)), "latents": self._latents[: len(self._places)]}


@dataclass(frozen=True, eq=False, repr=False)
class Queries:
    """B immutable queries on one index; :meth:`narrowed` returns a copy that shares the computed results.

    Use :meth:`of` to create one.

    Attributes
    ----------
    index : GraphIndex
    texts : tuple of str, length B
    k : int
        Number of requested hits, also the default for searches without their own k.
    allowed, seeds_allowed, walk_allowed : Tensor, shape [N], bool, or None
        Which nodes may be returned, start a traversal, and be visited; None for all.
    named_allowed : Tensor, shape [N], bool, or None
        Which nodes may start where a plan or a fact names them: only by `seed_filter`.
    filtered : Tensor, shape [N], bool, or None
        Which nodes pass `filter`, independent of the types that may be returned.
    inputs : mapping of str to sequence of length B
        Other inputs of operators (``Operator.reads``).
    given : Tensor, callable or None
        Query vectors from the caller.
    cache : Cache
        Computed searches, scores and latents. Copies share it.
    trace : list of Asked
        Requests to the backend (:class:`graph_retrievers.core.trace.Trace`). Copies share it.

    Examples
    --------
    >>> index = GraphIndex.from_texts(["An engine.", "A program."], ids=["engine", "program"])
    >>> Queries.of(index, ["Which program?"], k=1, filter={"$id": "program"})
    Queries(1, k=1, filters=['allowed', 'seeds_allowed'], inputs=[])
    """

    index: GraphIndex
    texts: tuple[str, ...]
    k: int = DEFAULT_K
    allowed: Tensor | None = None
    seeds_allowed: Tensor | None = None
    walk_allowed: Tensor | None = None
    named_allowed: Tensor | None = None
    inputs: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    given: Any = None
    cache: Cache = field(default_factory=Cache)
    filtered: Tensor | None = None
    trace: list[Any] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        index: GraphIndex,
        texts: str | Sequence[str],
        *,
        k: int = DEFAULT_K,
        vectors: Any = None,
        filter: Filter | None = None,
        seed_filter: Filter | None = None,
        traversal_filter: Filter | None = None,
        scope: Filter | None = None,
        inputs: Mapping[str, Sequence[Any]] | None = None,
    ) -> Queries:
        """Return queries on an index.

        Parameters
        ----------
        index : GraphIndex
        texts : str or sequence of str, length B
            The questions; none may be empty, because operators have nothing to search for. A retriever lists the nodes that pass
            its filter instead.
        k : int, default 10
        vectors : array-like of shape [B, d] or callable, optional
            Query vectors, or a function from the B texts to their vectors that is called when they are needed; by default the
            index's embedding model computes them.
        filter, seed_filter, traversal_filter : mapping, callable or Tensor, optional
            Conditions for `allowed`, `seeds_allowed` and `walk_allowed` (see :func:`graph_retrievers.graph.filters.filter_mask`).
            Without a `seed_filter`, `filter` also restricts the start of a traversal; ``seed_filter={}`` removes that.
        scope : mapping, callable or Tensor, optional
            Which nodes are searched: the queries, and the rows of rankings, are on
            :meth:`graph_retrievers.index.GraphIndex.within`. Masks have a bool for each node of the given index.
        inputs : mapping of str to sequence of length B, optional

        Raises
        ------
        InvalidArgumentError
            If a text is empty or not a string.
        DimensionMismatchError, InvalidVectorError
            If the vectors are not [B, d] with the width of the index, or contain NaN or infinity.
        EmptyGraphError
            If no node is in the scope.
        """
        whole = index
        if scope is not None:
            index = index.within(scope)
        texts = (texts,) if isinstance(texts, str) else tuple(texts)
        for position, text in enumerate(texts):
            check_query(text, position)
            if not text.strip():
                raise InvalidArgumentError(f"Query {position} is {shown(text)}; operators search for a non-empty string.")
        filters = {"filter": filter, "seed_filter": seed_filter, "traversal_filter": traversal_filter}
        if index is not whole:
            filters = {n: filter_mask(whole.graph, f)[index.rows] if isinstance(f, Tensor) else f for n, f in filters.items()}
        vectors, masks = compared_vectors(index, vectors, len(texts)), filter_masks(index.graph, **filters)
        return cls(index, texts, positive("k", k), inputs=dict(inputs or {}), given=vectors, **masks)

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

    def __repr__(self) -> str:
        """Return the number of queries and their other attributes."""
        filters = [name for name in ("allowed", "seeds_allowed", "walk_allowed") if getattr(self, name) is not None]
        return f"Queries({len(self)}, k={self.k}, filters={filters}, inputs={list(self.inputs)})"

    def narrowed(self, allowed: Tensor | None) -> Queries:
        """Return these queries with the returned nodes limited to those of `allowed`, shape [N], bool."""
        return self if allowed is None else replace(self, allowed=both(self.allowed, allowed.clone()))

    def without(self, nodes: Tensor) -> Queries:
        """Return these queries without some nodes, shape [N], bool: none is returned or starts; a traversal may pass through them.

        A node that a filter passes and that is among them stays in `filtered`.
        """
        kept = ~nodes
        seeds, named = both(self.seeds_allowed, kept), both(self.named_allowed, kept)
        return replace(self, allowed=both(self.allowed, kept), seeds_allowed=seeds, named_allowed=named)

    def afresh(self) -> Queries:
        """Return these queries without their computed results, except their vectors."""
        given = self.vectors if "vectors" in self.cache else self.given
        return replace(self, given=given, cache=Cache())

    def rewritten(self, texts: Sequence[str], places: Sequence[int], *, vectors: Tensor | None = None) -> Queries:
        """Replace the questions by `texts`, each with the inputs of the query at its place, and the same filters.

        `vectors`, shape [n, d], are their vectors; by default the texts are embedded.
        """
        inputs = {name: [values[place] for place in places] for name, values in self.inputs.items()}
        given = vectors if vectors is not None else None if isinstance(self.given, Tensor) else self.given
        return replace(self, texts=tuple(texts), inputs=inputs, given=given, cache=Cache())

    def input(self, name: str) -> list[Any]:
        """Return the values of an input, one for each query; None for each if it is not given."""
        return list(self.inputs.get(name, [None] * len(self)))

    @property
    def vectors(self) -> Tensor:
        """Query vectors: Tensor, shape [B, d], on the index's device."""
        if isinstance(self.given, Tensor):
            return self.given
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
        return self.given is not None or self.index.embedding is not None

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Return vectors of any texts, embedded as queries: Tensor, shape [n, d], on the index's device."""
        dense, model = self.index.dense, self.index.embedding
        if not texts:
            return torch.empty((0, dense.dimension), device=self.index.device)
        if callable(self.given) and (texts is self.texts or model is None):
            vectors = check_vectors(self.given(list(texts)), len(texts), dense.dimension, "query vectors")
        elif model is None:
            if self.given is not None:
                other = shown(texts[0], 60)
                raise MissingSignalError(f"The query's vector was given, but {other} is another text; pass embedding= to embed it.")
            raise MissingSignalError(
                "This index has no embedding model for queries; pass embedding= or the query's vector. A model is not "
                "saved with an index: GraphIndex.load and IndexStore take it again."
            )
        else:
            vectors = embed_queries(model, texts, dense.dimension)
        return dense.prepared(vectors).to(self.index.device)

    def view(self, signal: str) -> Any:
        """Return the queries as the signal reads them: texts, or vectors of shape [B, d]."""
        return self.vectors if self.index.signal(signal).reads == "vector" else list(self.texts)

    @cached_property
    def starts(self) -> Tensor | None:
        """Nodes that may start a traversal and may be returned: Tensor, shape [N], bool, or None for all."""
        return both(self.seeds_allowed, self.allowed)

    def search(self, signal: str, k: int, mask: Tensor | None = None, covers: str = "nodes") -> tuple[Tensor, Tensor]:
        """Return the results of :meth:`graph_retrievers.signals.signal.Signal.search`.

        The same search runs only once, and a search for fewer nodes uses the result of one for more.

        `mask`, shape [N], bool, has the rows that may be found. Raises InvalidArgumentError if the signal does not cover what is
        searched, "nodes" or "edges".
        """
        searched = self.index.signal(signal)
        if searched.covers != covers:
            other = "edges; FactSearch searches those" if covers == "nodes" else "nodes; VectorSearch searches those"
            raise InvalidArgumentError(f"The signal {signal!r} covers {other}.")
        made: dict[Any, Any] = self.cache.get("searches", dict)
        key = (signal, None if mask is None else Same(mask))
        if key not in made or made[key][0] < k:
            made[key] = k, self._found(signal, searched, k, mask)
        scores, rows = made[key][1]
        return scores[:, :k], rows[:, :k]

    def _found(self, signal: str, searched: Signal, k: int, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        # One question alone, or a small corpus: the products of the search serve single scores too.
        alone = len(self) == 1 or len(searched) < _LARGE
        if type(searched) is DenseIndex and alone and searched.exact(mask):
            return searched.best_of(self._products(signal, searched), self.vectors, k, mask)
        scores, rows = searched.search(self.view(signal), k, mask)
        scores = self._cleared(searched, scores, torch.arange(len(self), device=scores.device).unsqueeze(1))
        if type(searched) not in _SOUND:
            ranked_lists(rows, scores, len(searched), f"Signal {signal!r}")
            real = rows >= 0
            if mask is not None and not bool(mask[rows[real]].all()):
                raise InvalidArgumentError(f"Signal {signal!r} returned rows that are not allowed; search must keep to `allowed`.")
            found = scores.masked_fill(~real, -torch.inf)
            # Equal scores may differ by rounding, near 0 as much as elsewhere.
            if rows.numel() and bool((found.diff(dim=1) > 1e-4 * scores.masked_fill(~real, 0.0).abs().amax(1, keepdim=True)).any()):
                raise InvalidArgumentError(f"Signal {signal!r} returned scores that are not in descending order.")
        return scores, rows

    def table(self, signal: str = "dense") -> Tensor | None:
        """Return the scores of all rows of a signal: Tensor, shape [B, N], or None if that is too large."""
        searched = self.index.signal(signal)
        if not searched.tabled or len(self) * len(searched) > _TABLE_LIMIT:
            return None
        return self.cache.get(("table", signal), lambda: self._table(signal, searched))

    def _table(self, name: str, searched: Signal) -> Tensor:
        if isinstance(searched, DenseIndex):
            return searched.cleared(self._products(name, searched), self.vectors)
        batch = torch.arange(len(self), device=self.index.device).unsqueeze(1)
        return self._cleared(searched, searched.table(self.view(name)), batch)

    def _products(self, name: str, searched: DenseIndex) -> Tensor:
        return self.cache.get(("products", name), partial(searched.products, self.vectors))

    def table_at_hand(self, signal: str = "dense") -> Tensor | None:
        """Return :meth:`table` if a search has computed it, or if it costs little; else None."""
        made = any((kind, signal) in self.cache for kind in ("table", "products"))
        return self.table(signal) if made or len(self.index.signal(signal)) < _LARGE else None

    def _cleared(self, signal: Signal, scores: Tensor, batch: Tensor) -> Tensor:
        """Return scores of a signal, and of vectors in a store exact zeros where they are rounding, as those in memory have."""
        if not isinstance(signal, VectorSignal) or isinstance(signal, DenseIndex) or not len(signal):
            return scores
        lengths = torch.linalg.vector_norm(self.vectors, dim=1) * signal.norms.max().to(self.index.device)
        return zeroed(scores, ROUNDING * lengths[batch])

    def scores(self, batch: Tensor, rows: Tensor, signal: str = "dense") -> Tensor:
        """Return a signal's scores of single pairs, as float32.

        `batch` and `rows`, int64 and of the same shape, are the query and the row of each pair. The default signal returns the
        dot products of query and node vectors.
        """
        searched = self.index.signal(signal)
        few = len(searched) >= _LARGE and rows.numel() < _FEW * len(self) * len(searched)
        table = self.table_at_hand(signal) if few and isinstance(searched, DenseIndex) else self.table(signal)
        return self.pair_scores(batch, rows, signal) if table is None else table[batch, rows]

    def pair_scores(self, batch: Tensor, rows: Tensor, signal: str = "dense") -> Tensor:
        """Return what :meth:`scores` returns, pair by pair: for few pairs, the same to the last digit in any batch."""
        searched = self.index.signal(signal)
        found = searched.scores(self.view(signal), batch.flatten(), rows.flatten())
        return self._cleared(searched, found, batch.flatten()).view(batch.shape)

    def cosines(self, batch: Tensor, nodes: Tensor) -> Tensor:
        """Return cosines of query and node vectors of any length, float64; 0 if either vector is missing (a row of zeros).

        The arguments are those of :meth:`scores`.
        """
        norms = self.index.dense.norms.index_select(0, nodes.flatten()).view(nodes.shape)
        lengths = norms * self.lengths[batch]
        # For a missing vector the dot product is 0 too.
        return self.scores(batch, nodes).double() / lengths.double().clamp(min=1e-30)

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
        # One answer of the device to wait for.
        products, lengths = torch.stack([self.pair_scores(owner, node).double(), lengths]).cpu().numpy()
        with np.errstate(invalid="ignore", divide="ignore"):
            cosines = np.clip(products / lengths, -1.0, 1.0).astype(object)
        cosines[lengths == 0] = None
        return dict(zip(zip(batch.tolist(), nodes.tolist(), strict=True), cosines.tolist(), strict=True))

    def pair_latents(self, batch: np.ndarray, rows: np.ndarray, texts: Sequence[str] | None = None) -> Tensor:
        """Return latents of pairs, `batch` and `rows` of shape [n]: Tensor, shape [n, d], float32; each pair is encoded once.

        `texts`, length n, are read instead of those of the nodes.
        """
        size = len(self.index)
        keys = (batch * size + rows).tolist()
        if texts is not None and keys:
            return self._text_latents(batch, rows, texts)
        new = self.latents.missing(keys)
        if new and len(new) == len(keys):
            latents = self._encode_pairs(batch, rows)
            self.latents.add(new, latents)
            # A model may write into what it is given.
            return latents.clone()
        if new:
            self.latents.add(new, self._encode_pairs(*np.divmod(np.array(new), size)))
        if not keys:
            # The head of the model needs the width of its latents.
            held = self.latents.tensors().get("latents")
            return (held if held is not None else self._encode_pairs(batch, rows))[:0]
        return self.latents.get(keys)

    def _text_latents(self, batch: np.ndarray, rows: np.ndarray, texts: Sequence[str]) -> Tensor:
        held: dict[tuple[int, str], Tensor] = self.cache.get("latents of texts", dict)
        pairs = list(zip(batch.tolist(), texts, strict=True))
        new = {pair: place for place, pair in enumerate(pairs) if pair not in held}
        if new:
            found = self._encoded([b for b, _ in new], [text for _, text in new])
            held.update(zip(new, found, strict=True))
            self.latents.encoded += len(new)
        return torch.stack([held[pair] for pair in pairs])

    def head(self, latents: Tensor, batch: np.ndarray, rows: np.ndarray, mixed: Tensor | None = None) -> np.ndarray:
        """Return the relevance model's scores of pairs from their latents, shape [n, d]: float32, shape [n].

        With `mixed`, shape [n, d], these are scored instead of the latents. InvalidVectorError if the model returns NaN or
        infinity.
        """
        model, total = self.index.relevance, latents.float().sum().reshape(1)
        scores = model.score(latents if mixed is None else mixed).to(latents.device)
        if scores.shape != rows.shape:
            told = f"scores of shape {list(scores.shape)} for latents of shape {list(latents.shape)}"
            raise InvalidArgumentError(f"The relevance model {model.name!r} gave {told}; expected {list(rows.shape)}.")
        # One answer of the device to wait for. Mixed along edges, a number such as NaN in a latent spreads to other nodes.
        values = torch.cat([scores.float(), total]).cpu().numpy()
        if not isfinite(values[-1]):
            self._check(torch.where(torch.isfinite(latents), 0.0, latents).flatten(1).sum(1).cpu().numpy(), batch, rows)
        self._check(values[:-1], batch, rows)
        return values[:-1]

    def _encode_pairs(self, batch: np.ndarray, rows: np.ndarray) -> Tensor:
        model = self.index.relevance
        if isinstance(model, BiEncoder) and model.embedding is self.index.embedding:
            # Not from a table, whose last digits depend on how many queries it is computed for; stores have ways of their own.
            found = self.pair_scores if isinstance(self.index.dense, DenseIndex) else self.scores
            device = self.index.device
            return found(torch.from_numpy(batch).to(device), torch.from_numpy(rows).to(device)).unsqueeze(1)
        texts = [self.index.graph.content(row) for row in rows.tolist()]
        return self._encoded(batch.tolist(), texts)

    def _encoded(self, batch: Sequence[int], texts: Sequence[str]) -> Tensor:
        """Return the latents of pairs of a query and a text; those of a query are one list for the model, in their order."""
        model, lists = self.index.relevance, dict[int, list[int]]()
        for place, b in enumerate(batch):
            lists.setdefault(b, []).append(place)
        if not lists:
            return model.encode([], []).to(self.index.device)
        found = model.encode_lists([(self.texts[b], [texts[place] for place in places]) for b, places in lists.items()])
        for b, (_, note) in zip(lists, found, strict=True):
            self._notes().setdefault(b, []).extend([note] if note else [])
        latents = torch.cat([part for part, _ in found]).to(self.index.device)
        asked = [place for places in lists.values() for place in places]
        return latents if asked == sorted(asked) else latents[np.argsort(asked).tolist()]

    def relevance_notes(self, place: int) -> list[str]:
        """Return the relevance model's notes on its scores for the query at a place."""
        return self._notes().get(place, [])

    def _notes(self) -> dict[int, list[str]]:
        return self.cache.get("notes of the relevance model", dict)

    def _check(self, scores: np.ndarray, batch: np.ndarray, nodes: np.ndarray) -> None:
        """Raise InvalidVectorError if a score, shape [n], of a query and a node is NaN or infinite."""
        finite = np.isfinite(scores)
        if not finite.all():
            wrong = int(np.argmin(finite))
            node, text = self.index.graph.ids[nodes[wrong]], self.texts[batch[wrong]]
            raise InvalidVectorError(
                f"The relevance model {self.index.relevance.name!r} gave {float(scores[wrong])} for node {node!r} and the "
                f"query {shown(text)}; expected finite numbers."
            )


def filter_masks(
    graph: CorpusGraph, filter: Filter | None = None, seed_filter: Filter | None = None, traversal_filter: Filter | None = None
) -> dict[str, Any]:
    """Return the masks of filters by the names of the attributes of :class:`Queries`: Tensor, shape [N], bool, or None for all.

    Masks are copied: an operator that writes into one does not write into what the caller has.
    """
    masks = (None if given is None else filter_mask(graph, given).clone() for given in (filter, seed_filter, traversal_filter))
    allowed, seeds, walk = masks
    starts = allowed if seeds is None else seeds
    return {"allowed": allowed, "seeds_allowed": starts, "walk_allowed": walk, "named_allowed": seeds, "filtered": allowed}


def compared_vectors(index: GraphIndex, vectors: Any, count: int) -> Any:
    """Return vectors of `count` queries, copied, as an index compares them; None and a function that computes them as they are.

    Raises DimensionMismatchError or InvalidVectorError for others than finite vectors of the width of the index.
    """
    if vectors is None or callable(vectors):
        return vectors
    checked = check_vectors(vectors, count, index.dense.dimension, "query vectors")
    return index.dense.prepared(checked).to(index.device).clone()


def both(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    """Return the conjunction of two masks, where None allows everything."""
    return left if right is None else right if left is None else left & right
