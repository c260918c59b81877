"""Limit the number of candidates from one document."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Contents
from graph_retrievers.graph.addresses import node_source

__all__ = ["per_source"]

DEEPER = 4
"""Factor by which more nodes are requested if those of one document are limited."""


def per_source(question: Question, candidates: Candidates, most: int, field: str | None = None) -> Algorithm[Candidates]:
    """Return the candidates, with only the first `most` of each document.

    Parameters
    ----------
    question : Question
        Gets a note if none of the candidates has the field.
    candidates : Candidates
    most : int
        1 or more.
    field : str, optional
        Metadata field that names the document; a node without it is its own document. By default the result of
        :func:`~graph_retrievers.graph.addresses.node_source`.
    """
    sources: list[Any] = []
    if field is None:
        sources = yield from sources_of(candidates.nodes)
    else:
        nodes = yield Contents(candidates.nodes)
        values = [node.metadata.get(field) for node in nodes]
        # A value may be a list. A node without one is called by a pair, so that no document has its name.
        sources = [("", node.id) if value is None else str(value) for node, value in zip(nodes, values, strict=True)]
        if nodes and all(value is None for value in values):
            question.notes.append(f"no node found has the metadata field {field!r}: each is taken for a document of its own")
    counts: Counter[object] = Counter()
    places = []
    for place, source in enumerate(sources):
        counts[source] += 1
        if counts[source] <= most:
            places.append(place)
    return candidates if len(places) == len(candidates) else candidates.taken(np.array(places, np.int64))


def by_search(question: Question, candidates: Candidates) -> Algorithm[Candidates]:
    """Return the candidates, with at most as many of one document among the first as search has among its first k.

    A document that is not in the first k of search gets one place. So the first k are from at least as many documents as those of
    search. The remaining candidates follow in their order; the n-th candidate gets the n-th score.

    Parameters
    ----------
    question : Question
        Its k is that of the search.
    candidates : Candidates
        Result of :class:`~graph_retrievers.operators.ReciprocalRankFusion`, whose first list is the search.
    """
    ranks = candidates.columns.get("ranks")
    if ranks is None or len(candidates) <= 1:
        return candidates
    sources = yield from sources_of(candidates.nodes)
    limits = Counter(sources[place] for place in np.flatnonzero((ranks[:, 0] > 0) & (ranks[:, 0] <= question.k)))
    counts: Counter[object] = Counter()
    front: list[int] = []
    later: list[int] = []
    for place, source in enumerate(sources):
        counts[source] += 1
        (front if counts[source] <= max(1, limits[source]) else later).append(place)
    return replace(candidates.taken(np.array(front + later)), scores=candidates.scores)


def sources_of(nodes: np.ndarray) -> Algorithm[list[str]]:
    """Return the document of each of some nodes, shape [n], as :func:`~graph_retrievers.graph.addresses.node_source` finds it."""
    contents = yield Contents(nodes)
    return [node_source(node.id, node.metadata, node.origin) for node in contents]
