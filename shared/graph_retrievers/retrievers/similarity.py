"""The cosines of hits with the question, by which hits of different questions compare."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.hits import Similarities
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.mor import MixedTraversal
from graph_retrievers.operators.operator import Operator
from graph_retrievers.operators.passage_walk import PassageWalk
from graph_retrievers.operators.path_search import PathSearch
from graph_retrievers.operators.spreading import GatedPropagation
from graph_retrievers.operators.stex import STeX
from graph_retrievers.operators.vector_search import HybridSearch
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.signals.signal import VectorSignal

__all__ = ["compares_vectors", "similarities"]


def similarities(queries: Queries, operator: Operator, ranking: Ranking, k: int) -> Similarities:
    """Return the cosine of each question with each node that its hits name.

    Parameters
    ----------
    queries : Queries
        B queries.
    operator : Operator
        What answered them.
    ranking : Ranking
        What it found, of which the first `k` nodes, all chains and all facts become hits.
    k : int

    Returns
    -------
    mapping of (int, int) to float or None
        By the number of the query and the row of the node; None where one of the two has no vector. Empty where the index has no
        vectors of nodes, or no vector of a question can be had, and where the operator reads words and edges alone and the vectors
        are not given: a question is not embedded for this alone. That does not depend on the other questions of a batch.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.operators import BM25Search, VectorSearch
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [3, 4]], edges=[])
    >>> queries = Queries.of(index, ["Which loom?"], vectors=lambda texts: [[2, 0]])
    >>> ranking = VectorSearch()(queries)
    >>> similarities(queries, VectorSearch(), ranking, 2), similarities(queries, BM25Search(), ranking, 2)
    ({(0, 0): 1.0, (0, 1): 0.6}, {})
    """
    index = queries.index
    if not isinstance(index.signals.get("dense"), VectorSignal) or not queries.has_vectors:
        return {}
    if not isinstance(queries.given, Tensor) and not compares_vectors(operator, index):
        return {}
    pairs = _named(index, ranking, k)
    if not len(pairs):
        return {}
    batch, rows = np.divmod(pairs, len(index))
    lengths = queries.lengths.double().cpu().numpy()[batch] * index.dense.norms.cpu().numpy()[rows]
    # Pair by pair, so that a batch gives what its questions give one by one.
    found = queries.pair_scores(torch.from_numpy(batch).to(index.device), torch.from_numpy(rows).to(index.device))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = np.clip(found.double().cpu().numpy() / lengths, -1.0, 1.0)
    named = zip(batch.tolist(), rows.tolist(), cosines.tolist(), (lengths > 0).tolist(), strict=True)
    return {(query, row): cosine if real else None for query, row, cosine, real in named}


def compares_vectors(operator: Operator, index: GraphIndex) -> bool:
    """Return whether an operator compares the vector of every question with vectors of nodes or edges.

    One that does so for some questions only, as entity linking where no name is found, does not count.
    """
    return any(_compares(part, index) for part in operator.parts())


def _compares(part: Operator, index: GraphIndex) -> bool:
    if isinstance(part, HybridSearch):
        return part.weights[0] > 0
    if isinstance(part, PathSearch):
        return part.dense_weight > 0
    if isinstance(part, GatedPropagation):
        return part.gate != "uniform"
    # The name of the signal that it searches, of an operator of this package.
    name = getattr(part, "signal", None)
    searched = index.signals.get(name) if isinstance(name, str) else None
    return isinstance(part, (STeX, MixedTraversal, PassageWalk)) or isinstance(searched, VectorSignal)


def _named(index: GraphIndex, ranking: Ranking, k: int) -> np.ndarray:
    """Return ``query * N + node`` of the nodes that hits name, each once: shape [n], int64, ascending."""
    graph, tables = index.graph, [ranking.nodes[:, :k]]
    if ranking.chains is not None:
        tables.append(ranking.chains.nodes.flatten(1))
    if ranking.facts is not None and graph.sources.numel():
        rows = ranking.facts.rows
        tables += [torch.where(rows >= 0, ends[rows.clamp(min=0)].long(), -1) for ends in (graph.sources, graph.targets)]
    named = [table.cpu().numpy() for table in tables]
    keys = [(np.arange(len(table))[:, None] * len(graph) + table)[table >= 0] for table in named]
    return np.unique(np.concatenate(keys))
