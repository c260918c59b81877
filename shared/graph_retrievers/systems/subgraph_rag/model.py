"""The network of SubgraphRAG: a triple's score from vectors and directional distances."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graph_retrievers.arguments import positive
from graph_retrievers.seeding import seeded

__all__ = ["TripleScorer"]


def distance_encoding(topics: Tensor, ends: Tensor, rounds: int = 2) -> Tensor:
    r"""Return the directional distance encoding of nodes: Tensor, shape [n, 2 + 4 * rounds], float32.

    It begins with whether a node is a topic, as (1, 0) for no and (0, 1) for yes. In each of the rounds this is averaged over the
    sources of the edges that end at a node, and, from the beginning again, over the targets of those that leave it; a node without
    such edges gets zeros.

    .. math:: p^{(l+1)}_v = \frac{1}{|\{u \to v\}|} \sum_{u \to v} p^{(l)}_u, \qquad
        r^{(l+1)}_v = \frac{1}{|\{v \to u\}|} \sum_{v \to u} r^{(l)}_u, \qquad p^{(0)} = r^{(0)}

    Parameters
    ----------
    topics : Tensor, shape [n], bool
    ends : Tensor, shape [m, 2], int64
        Source and target of each edge; parallel edges count each.
    rounds : int, default 2

    References
    ----------
    Li, Miao and Li, "Simple Is Effective: The Roles of Graphs and Large Language Models in Knowledge-Graph-Based
    Retrieval-Augmented Generation", ICLR 2025, section 3.2.

    Examples
    --------
    >>> distance_encoding(torch.tensor([True, False]), torch.tensor([[0, 1]]), 1)
    tensor([[0., 1., 0., 0., 1., 0.],
            [1., 0., 0., 1., 0., 0.]])
    """
    first = torch.stack([~topics, topics], 1).float()
    parts = [first]
    for near, far in (ends.unbind(1), ends.unbind(1)[::-1]):
        # Each node reads what is at the other end of its edges.
        count = first.new_zeros(len(topics)).index_add_(0, far, first.new_ones(len(far))).clamp(min=1).unsqueeze(1)
        encoding = first
        for _ in range(rounds):
            encoding = torch.zeros_like(first).index_add_(0, far, encoding[near]) / count
            parts.append(encoding)
    return torch.cat(parts, 1)


class TripleScorer(nn.Module):
    """A network of one hidden layer over the vectors of question, source, relation and target, and the distances of the two ends.

    Parameters
    ----------
    dimension : int
        Width d of the vectors.
    rounds : int, default 2
        See :func:`distance_encoding`.
    hidden : int, optional
        Width of the hidden layer; d by default, as published.
    seed : int, default 0
        Of the initial weights.

    Notes
    -----
    The distances begin with whether a node is a topic, as in the paper; the public code, whose settings for both collections have
    ``topic_pe: false``, reads only the averages.

    References
    ----------
    Li, Miao and Li, "Simple Is Effective", ICLR 2025, section 3.2; layers are those of the public code.

    Examples
    --------
    >>> scorer = TripleScorer(4)
    >>> scorer(torch.zeros(4), torch.zeros(2, 4), torch.zeros(1, 4), torch.tensor([[0, 1]]), torch.tensor([True, False])).shape
    torch.Size([1])
    """

    def __init__(self, dimension: int, *, rounds: int = 2, hidden: int | None = None, seed: int = 0) -> None:
        super().__init__()
        self.dimension, self.rounds = positive("dimension", dimension), positive("rounds", rounds, most=16)
        self.hidden = self.dimension if hidden is None else positive("hidden", hidden, most=1 << 14)
        with seeded(seed):
            width = 4 * self.dimension + 2 * (2 + 4 * self.rounds)
            self.layers = nn.Sequential(nn.Linear(width, self.hidden), nn.ReLU(), nn.Linear(self.hidden, 1))

    def config(self) -> dict[str, Any]:
        """Return the keywords with which an equal network is made, for JSON."""
        return {"dimension": self.dimension, "rounds": self.rounds, "hidden": self.hidden}

    def forward(self, question: Tensor, nodes: Tensor, relations: Tensor, ends: Tensor, topics: Tensor) -> Tensor:
        """Return the score of each triple before the sigmoid: Tensor, shape [m].

        Parameters
        ----------
        question : Tensor, shape [d] or [m, d]
            One question, or that of each triple.
        nodes : Tensor, shape [n, d]
        relations : Tensor, shape [m, d]
            The vector of the relation of each triple.
        ends : Tensor, shape [m, 2], int64
        topics : Tensor, shape [n], bool
        """
        node_inputs = torch.cat([nodes, distance_encoding(topics, ends, self.rounds)], 1)
        questions = question.expand(len(ends), -1)
        return self.layers(torch.cat([questions, node_inputs[ends[:, 0]], relations, node_inputs[ends[:, 1]]], 1)).squeeze(1)  # type: ignore[no-any-return]
