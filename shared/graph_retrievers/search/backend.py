"""Backend: the verbs by which requests are answered, wherever the nodes and their signals lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import (
    ByTitle,
    Completion,
    Contents,
    Degree,
    EdgeRows,
    Edges,
    EdgesAmong,
    EdgeTexts,
    EdgeVectors,
    LowestEdgeScore,
    Mentions,
    Mix,
    Near,
    Nearest,
    NearestByCosine,
    NearestEdges,
    Neighbors,
    Relevance,
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
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.search.batch import Batch
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.language import complete_many

__all__ = ["Backend", "host"]


class Backend(ABC):
    """Answers requests for a batch of questions: the base class of backends.

    A method answers the requests of one kind, given as (place of the question in the batch, request); the class of a request
    documents its answer. A backend whose data are elsewhere also has ``prepare``, which the driver calls with all requests of a
    step (see :func:`~graph_retrievers.core.driver.run`).

    Parameters
    ----------
    queries : Batch

    Attributes
    ----------
    ids : sequence of str, length N
        Ids of the nodes by their rows.
    size : int
        Number of nodes N.
    in_memory : bool
        Whether :attr:`index` has all nodes and edges.
    """

    in_memory: ClassVar[bool] = False

    def __init__(self, queries: Batch, ids: Sequence[str]) -> None:
        self.queries: Any = queries
        self.ids, self.size = ids, len(ids)

    def questions(self) -> list[Question]:
        """Return the questions of the batch."""
        return [Question(self, place) for place in range(len(self.queries))]

    # What a question knows without a request.

    @property
    @abstractmethod
    def index(self) -> Corpus:
        """The index, for requests that read all of it; WholeGraphError if it is not in memory."""

    @property
    @abstractmethod
    def edges(self) -> int:
        """Number of relationship rows of the graph."""

    @property
    @abstractmethod
    def has_traversal_filter(self) -> bool:
        """Whether a filter says which nodes may be visited."""

    @abstractmethod
    def passing(self, nodes: np.ndarray, what: str) -> np.ndarray:
        """Return which nodes, shape [n], may "return", "start", be seeds by "name", or "walk", or pass the "filter": bool, [n]."""

    @abstractmethod
    def typed(self, nodes: np.ndarray, types: Collection[str]) -> np.ndarray:
        """Return which nodes, shape [n], have one of the types: bool, shape [n]."""

    @abstractmethod
    def types(self, nodes: np.ndarray) -> list[str]:
        """Return the type of each of some nodes, shape [n]."""

    @abstractmethod
    def ends(self, facts: np.ndarray) -> np.ndarray:
        """Return the node rows joined by some relationship rows, shape [M]: int64, shape [M, 2]."""

    @abstractmethod
    def relation(self, name: str) -> int:
        """Return the number of a relation; -1 if no edge has it."""

    @abstractmethod
    def relation_names(self, numbers: np.ndarray) -> list[str]:
        """Return the names of relations by their numbers, shape [T]."""

    # Searches.

    @abstractmethod
    def nearest(self, requests: Sequence[tuple[int, Nearest]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the best nodes of a signal."""

    @abstractmethod
    def closest(self, requests: Sequence[tuple[int, NearestByCosine]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the nodes of the largest cosines."""

    @abstractmethod
    def nearest_edges(self, requests: Sequence[tuple[int, NearestEdges]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the best edges of a signal."""

    @abstractmethod
    def lowest_edge_score(self, requests: Sequence[tuple[int, LowestEdgeScore]]) -> list[float]:
        """Return the lowest score of all edges in a signal."""

    @abstractmethod
    def titled(self, requests: Sequence[tuple[int, Titled]]) -> list[list[list[int]]]:
        """Return rows by name."""

    @abstractmethod
    def by_title(self, requests: Sequence[tuple[int, ByTitle]]) -> list[np.ndarray]:
        """Return nodes by title and type."""

    @abstractmethod
    def mentions(self, requests: Sequence[tuple[int, Mentions]]) -> list[list[tuple[str, list[int]]]]:
        """Return the names in questions."""

    # Scores, vectors and texts of given nodes.

    @abstractmethod
    def similarity(self, requests: Sequence[tuple[int, Similarity]]) -> list[np.ndarray]:
        """Return cosines."""

    @abstractmethod
    def scores(self, requests: Sequence[tuple[int, Scores]]) -> list[np.ndarray]:
        """Return a signal's scores."""

    @abstractmethod
    def term_scores(self, requests: Sequence[tuple[int, TermScores]]) -> list[np.ndarray]:
        """Return a signal's scores by terms."""

    @abstractmethod
    def vectors(self, requests: Sequence[tuple[int, Vectors]]) -> list[np.ndarray]:
        """Return vectors of unit length."""

    @abstractmethod
    def contents(self, requests: Sequence[tuple[int, Contents]]) -> list[list[Node]]:
        """Return nodes with their texts."""

    @abstractmethod
    def texts(self, requests: Sequence[tuple[int, Texts]]) -> list[list[str]]:
        """Return texts of nodes."""

    # Edges at given nodes.

    @abstractmethod
    def neighbors(self, requests: Sequence[tuple[int, Neighbors]]) -> list[Near]:
        """Return the neighbours of nodes, without nodes that may not be visited."""

    @abstractmethod
    def weighted_neighbors(self, requests: Sequence[tuple[int, WeightedNeighbors]]) -> list[tuple[Near, np.ndarray, np.ndarray]]:
        """Return the neighbours of nodes with the weights of the edges between, as far as limits allow."""

    @abstractmethod
    def steps(self, requests: Sequence[tuple[int, Steps]]) -> list[tuple[Near, bool]]:
        """Return the neighbours of one type and by one relation."""

    @abstractmethod
    def edges_at(self, requests: Sequence[tuple[int, Edges]]) -> list[EdgeRows]:
        """Return the edges at nodes, without those that lead where a traversal may not go."""

    @abstractmethod
    def edge_texts(self, requests: Sequence[tuple[int, EdgeTexts]]) -> list[list[str]]:
        """Return the texts of edges."""

    @abstractmethod
    def edge_vectors(self, requests: Sequence[tuple[int, EdgeVectors]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return vectors of edges, and their cosines."""

    @abstractmethod
    def degree(self, requests: Sequence[tuple[int, Degree]]) -> list[np.ndarray]:
        """Return the numbers of neighbours, or of edges."""

    @abstractmethod
    def weights(self, requests: Sequence[tuple[int, Weights]]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return adjacency matrices among nodes, and sums of weights."""

    @abstractmethod
    def links(self, requests: Sequence[tuple[int, EdgesAmong]]) -> list[Near]:
        """Return the edges among nodes."""

    @abstractmethod
    def part(self, lists: Sequence[Candidates]) -> tuple[CorpusGraph, Sequence[Candidates]]:
        """Return a graph with the contents of all nodes in the candidates, and of their paths, and these with its rows."""

    # Models, and other questions.

    def complete(self, requests: Sequence[tuple[int, Completion]]) -> list[Any]:
        """Return the answers to all prompts, several of which are sent at the same time."""
        prompts, schemas = [request.prompt for _, request in requests], [request.schema for _, request in requests]
        return complete_many(requests[0][1].model, prompts, schemas)

    def relevance(self, requests: Sequence[tuple[Any, Relevance]]) -> list[np.ndarray]:
        """Return the relevance model's scores."""
        (batch, nodes), (queries, first) = entries_of(requests, self.size), (self.queries, requests[0][1])
        if first.model is not None:
            queries = replace(queries.afresh(), model=first.model)
        texts = None if first.texts is None else [text for _, request in requests for text in request.texts or ()]
        latents, mixed = queries.pair_latents(batch, nodes, texts), None
        if first.model is not None:
            self.queries.latents.encoded += queries.latents.encoded
        if any(request.mix is not None for _, request in requests):
            mixed = smoothed(latents, _joint_mix([request for _, request in requests]), first.alpha)
        for place, request in requests:
            if request.notes is not None and queries.relevance_notes:
                # Where several questions are one, each has its own notes.
                notes: Any = [request.notes] if isinstance(place, int) else request.notes
                for b, own_notes in zip([place] if isinstance(place, int) else place, notes, strict=True):
                    # Once, however often the question, or another of the batch, asks.
                    own_notes += [note for note in dict.fromkeys(queries.relevance_notes.get(b, ())) if note not in own_notes]
        scores = queries.head(latents, batch, nodes, mixed)
        return [scores[start:stop] for start, stop in pairwise(ends_of(requests))]

    @abstractmethod
    def over(self, queries: Any) -> Backend:
        """Return the backend of other questions of the same kind, with the filters of these."""

    @abstractmethod
    def _replacing(self, pairs: Sequence[tuple[int, str]], first: WithQuery) -> Backend:
        """Return the backend of (place, text) pairs, each text in place of a question, with the filters of a request."""

    def instead(self, requests: Sequence[tuple[int, WithQuery]]) -> Sequence[Any]:
        """Return answers as if questions were other texts; the results for these are kept."""
        first, pairs = requests[0][1], tuple(dict.fromkeys((b, request.text) for b, request in requests))
        key = ("instead", pairs, first.exclude_types, first.returned)
        other = self.queries.cache.get(key, lambda: self._replacing(pairs, first))
        row_of = {pair: row for row, pair in enumerate(pairs)}
        inner = [(row_of[b, request.text], request.request) for b, request in requests]
        return type(inner[0][1]).together(other, inner)  # type: ignore[no-any-return]

    def _vectors_instead(self, pairs: Sequence[tuple[int, str]]) -> Tensor | None:
        """Return the vectors of texts in place of questions: Tensor, shape [n, d]; None if there is none for them."""
        queries = self.queries
        new = [row for row, (b, text) in enumerate(pairs) if text != queries.texts[b]]
        if not queries.has_vectors or (new and not queries.embeds_texts):
            return None
        vectors: Tensor = queries.vectors[[b for b, _ in pairs]].clone()
        if new:
            vectors[new] = self._embed([pairs[row][1] for row in new])
        return vectors

    def _embed(self, texts: Sequence[str]) -> Tensor:
        """Return the vectors of texts other than the questions: Tensor, shape [n, d]."""
        return self.queries.embed(texts)  # type: ignore[no-any-return]


def smoothed(latents: Tensor, mix: Mix, alpha: float) -> Tensor:
    r"""Return :math:`H' = (1 - \alpha) H + \alpha P H` (FastInsight, Algorithm 2, line 6): Tensor, shape [n, d].

    Parameters
    ----------
    latents : Tensor, shape [n, d]
        The H of the paper.
    mix : Mix
        The P of the paper; a zero row marks a node without neighbours, which keeps its latent (the paper divides by zero there).
    alpha : float
        In [0, 1].
    """
    if not len(mix.node):
        return latents
    counts = np.bincount(mix.owner, minlength=len(latents))
    numbers = torch.from_numpy(np.concatenate([mix.node, counts])).to(latents.device)
    parts = latents.index_select(0, numbers[: len(mix.node)]) * torch.from_numpy(mix.share).to(latents.device)[:, None]
    lengths = numbers[len(mix.node) :]
    mixed = torch.segment_reduce(parts, "sum", lengths=lengths, initial=0.0)
    return torch.where(lengths[:, None] > 0, torch.add((1 - alpha) * latents, mixed, alpha=alpha), latents)


def _joint_mix(requests: Sequence[Relevance]) -> Mix:
    """Return the matrices of several lists as one, of the nodes of all."""
    parts, start = list[Mix](), 0
    for request in requests:
        if request.mix is not None:
            mix = request.mix if isinstance(request.mix, Mix) else Mix.of(request.mix)
            parts.append(Mix(mix.owner + start, mix.node + start, mix.share))
        start += len(request.nodes)
    return Mix(*map(np.concatenate, zip(*parts, strict=True)))


def entries_of(requests: Sequence[tuple[Any, Any]], size: int = 0) -> np.ndarray:
    """Return the question and the row of every node that requests ask about: int64, shape [2, n].

    Requests of several questions as one (:class:`~graph_retrievers.core.question.Questions`) have an array of places; `size` is
    then the number of nodes N.
    """
    ends = ends_of(requests)
    entries = np.empty((2, ends[-1]), np.int64)
    np.concatenate([request.nodes for _, request in requests], out=entries[1])
    several = type(requests[0][0]) is not int
    if several:
        # numpy takes several times as long for divmod.
        np.floor_divide(entries[1], size, out=entries[0])
        entries[1] -= entries[0] * size
    for (place, _), (start, stop) in zip(requests, pairwise(ends), strict=True):
        entries[0, start:stop] = place[entries[0, start:stop]] if several else place
    return entries


def ends_of(requests: Sequence[tuple[int, Any]]) -> list[int]:
    """Return where the entries of each of B requests begin, and where the last end: length B + 1."""
    return list(accumulate((len(request.nodes) for _, request in requests), initial=0))


def split_by(requests: Sequence[tuple[int, Any]], values: Tensor) -> list[np.ndarray]:
    """Return the values of each request, on the host, from those of all their nodes, shape [n, ...]."""
    entries = host(values)
    return [entries[start:stop] for start, stop in pairwise(ends_of(requests))]


def host(values: Tensor) -> np.ndarray:
    """Return a tensor as an array."""
    return values.cpu().numpy()  # type: ignore[no-any-return]
