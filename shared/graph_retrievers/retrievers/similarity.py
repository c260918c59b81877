"""Cosines of hits with the question, which are comparable between questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.hits import Similarities
from graph_retrievers.signals.signal import VectorSignal

__all__ = ["similarities"]


def similarities(questions: Sequence[Question], operator: Operator, found: Sequence[Candidates]) -> Similarities:
    """Return the cosine of each of B questions with each node that its hits name, by the numbers of question and row.

    `found` has the nodes, chains and facts that become hits. A cosine is None if one of the two has no vector. The mapping is
    empty if the index has no vectors of nodes, or the vectors of questions are not available, or the operator reads only words
    and edges and no vectors are given, because a question is not embedded only for this. That does not depend on the other
    questions of a batch.

    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.operators import BM25Search, VectorSearch
    >>> from graph_retrievers.queries import Queries
    >>> from graph_retrievers.search.memory import Memory
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [3, 4]], edges=[])
    >>> (question,) = Memory(Queries.of(index, ["Which loom?"], vectors=lambda texts: [[2, 0]])).questions()
    >>> found = [Candidates.seeds(np.array([0, 1]), np.zeros(2), "Mine")]
    >>> similarities([question], VectorSearch(), found), similarities([question], BM25Search(), found)
    ({(0, 0): 1.0, (0, 1): 0.6}, {})
    """
    if not questions:
        return {}
    queries = questions[0].queries
    index = queries.index
    if not isinstance(index.signals.get("dense"), VectorSignal) or not queries.has_vectors:
        return {}
    if not isinstance(queries.given, Tensor) and not operator.compares_vectors(index):
        return {}
    named = list(map(_named, questions, found))
    batch, rows = np.repeat(np.arange(len(named)), list(map(len, named))), np.concatenate(named)
    if not len(rows):
        return {}
    # Pair by pair, so that a batch returns what its questions return one by one.
    owner, node = torch.from_numpy(batch).to(index.device), torch.from_numpy(rows).to(index.device)
    lengths = queries.lengths.double()[owner] * index.dense.norms.to(index.device)[node]
    # One answer of the device to wait for.
    products, lengths = torch.stack([queries.pair_scores(owner, node).double(), lengths]).cpu().numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = np.clip(products / lengths, -1.0, 1.0).astype(object)
    cosines[lengths == 0] = None
    return dict(zip(zip(batch.tolist(), rows.tolist(), strict=True), cosines.tolist(), strict=True))


def _named(question: Question, found: Candidates) -> np.ndarray:
    """Return the rows of nodes that the hits of a question name, each once: int64, shape [n]."""
    if found.chains is None and found.facts is None:
        return found.nodes
    rows = [found.nodes]
    if found.chains is not None:
        rows.append(found.chains.nodes[found.chains.nodes >= 0])
    if found.facts is not None:
        rows.append(question.ends(found.facts.rows).ravel())
    return np.unique(np.concatenate(rows))
