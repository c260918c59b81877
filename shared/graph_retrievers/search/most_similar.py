"""The nodes most similar to several texts, such as the names of entities that a language model writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.requests import NearestByCosine


def most_similar(texts: Sequence[str | None], least: float = -np.inf) -> Algorithm[np.ndarray]:
    """Return the node of the largest cosine for each of some texts, each node once: int64, shape [n].

    None stands for the question. A text for which this cosine is below `least` has no node.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.core.driver import run
    >>> from graph_retrievers.search.memory import MemoryBackend
    >>> from graph_retrievers.search.queries import Queries
    >>> embed = lambda texts: [[float("loom" in text), float("card" in text), 0.1] for text in texts]
    >>> backend = MemoryBackend(Queries.of(GraphIndex.from_texts(["A loom.", "A card."], embedding=embed, metric="cosine"), ["?"]))
    >>> run(backend, [most_similar(["the card", "cards", "valves", "looms"], 0.9)])
    [array([1, 0])]
    """
    answers = yield tuple(NearestByCosine(1, text) for text in texts)
    nearest = [int(nodes[0]) for nodes, cosines in answers if len(nodes) and cosines[0] >= least]
    return np.array(list(dict.fromkeys(nearest)), np.int64)
