"""The network of GNN-RAG: ReaRev, whose messages are relations gated by instructions from the question."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graph_retrievers.arguments import fraction, positive
from graph_retrievers.seeding import seeded_weights

__all__ = ["AnswerNetwork"]


class AnswerNetwork(nn.Module):
    r"""Score the nodes around a question as answers, by the relations on the way from its topics.

    With q and r the vectors of the question and of a relation, of width `hidden` after one linear layer, :math:`r^{-1}` that of a
    relation against its direction, p the distribution over nodes so far, and :math:`i_1` to :math:`i_K` the instructions:

    .. math::
        i_k = C\,[\,i_{k-1};\ q_k;\ q_k - i_{k-1};\ q_k \odot i_{k-1}\,], \qquad q_k = Q_k q, \quad i_0 = 0

    .. math::
        m^{k}_v = \sum_{u \xrightarrow{r} v} p_u\, \mathrm{ReLU}(W_l r \odot i_k), \qquad
        n^{k}_v = \sum_{v \xrightarrow{r} u} p_u\, \mathrm{ReLU}(W_l r^{-1} \odot i_k)

    .. math::
        h_v \leftarrow \mathrm{ReLU}(E_l\,[\,h_v;\ m^1_v;\ n^1_v; \dots;\ m^K_v;\ n^K_v\,]), \qquad
        p = \mathrm{softmax}_v(w \cdot h_v)

    for the layers l = 1 to L. At first, :math:`h_v = \mathrm{ReLU}(\sum S r)` over the ends of edges at v, and p is uniform over
    the topics. After the L layers, each instruction reads the topics, p begins again, and the same layers follow, `rounds` times
    in all:

    .. math::
        i_k \leftarrow g \odot R_k z + (1 - g) \odot i_k, \qquad g = \sigma(G_k z), \quad z = [\,i_k;\ s;\ i_k - s\,],
        \quad s = \sum_{\text{topics } u} h_u

    Every node has an edge to itself, whose relation has a vector of its own.

    Parameters
    ----------
    dimension : int
        Width d of the vectors of question and relations.
    hidden : int, default 50
    instructions, layers, rounds : int, default 3, 3 and 2
        K, L and the number of rounds.
    dropout : float, default 0.2
        Share of the numbers that linear layers for instructions, nodes and scores do not read while training.
    seed : int, default 0
        Of the initial weights.

    Notes
    -----
    Equations and defaults are those of the published code, with its settings for CWQ; for WebQSP it has two instructions and three
    rounds. There, :math:`i_k` is the mean of the question's words, weighted by their products with the :math:`i_k` above, and a
    relation the mean of its words; an index has one vector of a text, and none of its words. Vectors of unit length are stretched
    to the square root of d, about the length of the words of a language model: as they are, the biases of the layers conceal them.

    References
    ----------
    Mavromatis and Karypis, "GNN-RAG: Graph Neural Retrieval for Large Language Model Reasoning", 2024, section 4.1; the same,
    "ReaRev: Adaptive Reasoning for Question Answering over Knowledge Graphs", Findings of EMNLP 2022, section 4.

    Examples
    --------
    >>> network, relations = AnswerNetwork(4).eval(), torch.zeros(1, 2, 4)
    >>> ends, topics = torch.tensor([[0, 1]]), torch.tensor([True, False])
    >>> network(torch.zeros(4), relations, torch.tensor([0]), ends, topics).shape
    torch.Size([2])
    """

    def __init__(
        self,
        dimension: int,
        *,
        hidden: int = 50,
        instructions: int = 3,
        layers: int = 3,
        rounds: int = 2,
        dropout: float = 0.2,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.dimension, self.hidden = positive("dimension", dimension, most=1 << 16), positive("hidden", hidden, most=1 << 14)
        self.instructions, self.layers = positive("instructions", instructions, most=16), positive("layers", layers, most=16)
        self.rounds, self.dropout = positive("rounds", rounds, most=16), fraction("dropout", dropout)
        with seeded_weights(seed):
            self.read = nn.Linear(dimension, hidden)
            self.itself = nn.Parameter(torch.randn(2, dimension) / dimension**0.5)
            self.asked = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(instructions))
            self.instruct = nn.Linear(4 * hidden, hidden)
            self.start = nn.Linear(hidden, hidden)
            self.relate = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
            self.gather = nn.ModuleList(nn.Linear((1 + 2 * instructions) * hidden, hidden) for _ in range(layers))
            self.score = nn.Linear(hidden, 1)
            self.change = nn.ModuleList(nn.Linear(3 * hidden, hidden, bias=False) for _ in range(instructions))
            self.gate = nn.ModuleList(nn.Linear(3 * hidden, hidden, bias=False) for _ in range(instructions))
        self.drop = nn.Dropout(self.dropout)

    def config(self) -> dict[str, Any]:
        """Return the keywords with which an equal network is made, for JSON."""
        return {name: getattr(self, name) for name in ("dimension", "hidden", "instructions", "layers", "rounds", "dropout")}

    def forward(self, question: Tensor, relations: Tensor, kinds: Tensor, ends: Tensor, topics: Tensor) -> Tensor:
        """Return the score of each node before the softmax: Tensor, shape [n].

        Parameters
        ----------
        question : Tensor, shape [d]
        relations : Tensor, shape [R, 2, d]
            The vectors of each relation, along and against its direction.
        kinds : Tensor, shape [m], int64
            The relation of each edge.
        ends : Tensor, shape [m, 2], int64
            Source and target of each edge.
        topics : Tensor, shape [n], bool
            At least one is True.
        """
        count, width = len(topics), len(relations) + 1
        nodes = torch.arange(count, device=topics.device)
        kinds = torch.cat([kinds, torch.full_like(nodes, width - 1)])
        sources, targets = torch.cat([ends, nodes.unsqueeze(1).expand(-1, 2)]).unbind(1)
        relations = self.read(torch.cat([relations, self.itself.unsqueeze(0)]) * self.dimension**0.5)

        def summed(at: Tensor, values: Tensor) -> Tensor:
            """Return the sums of the edges' values by the node at one end and by relation: Tensor, shape [n, R + 1]."""
            return values.new_zeros(count * width).index_add(0, at * width + kinds, values).view(count, width)

        ones = relations.new_ones(len(kinds))
        h = ((summed(targets, ones) + summed(sources, ones)) @ self.start(relations[:, 0])).relu()
        instructions = self._instructions(question)
        for turn in range(self.rounds):
            if turn:
                instructions = self._reset(instructions, h.masked_fill(~topics.unsqueeze(1), 0.0).sum(0))
            p = topics / topics.sum()
            for relate, gather in zip(self.relate, self.gather, strict=True):
                # Edges of one relation bring the same message, each times the p of its other end.
                along, against, projections = summed(targets, p[sources]), summed(sources, p[targets]), relate(relations)
                parts = [h]
                for instruction in instructions:
                    message = (projections * instruction).relu()
                    parts += [along @ message[:, 0], against @ message[:, 1]]
                h = gather(self.drop(torch.cat(parts, 1))).relu()
                scores = self.score(self.drop(h)).squeeze(1)
                p = scores.softmax(0)
        return scores

    def _instructions(self, question: Tensor) -> list[Tensor]:
        query, instructions = self.read(question * self.dimension**0.5), [torch.zeros_like(self.score.weight[0])]
        for layer in self.asked:
            part, before = layer(self.drop(query)), instructions[-1]
            instructions.append(self.instruct(self.drop(torch.cat([before, part, part - before, part * before]))))
        return instructions[1:]

    def _reset(self, instructions: list[Tensor], topics: Tensor) -> list[Tensor]:
        results = []
        for instruction, change, gate in zip(instructions, self.change, self.gate, strict=True):
            inputs = torch.cat([instruction, topics, instruction - topics])
            share = gate(inputs).sigmoid()
            results.append(share * change(inputs) + (1 - share) * instruction)
        return results
