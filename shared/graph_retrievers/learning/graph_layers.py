r"""Layers of graph neural networks over edge lists, in plain torch.

All layers take the same arguments (not all of them `self_gates`) and compute the new vector of node i from its own and those of its
neighbours N(i):

- `x`, Tensor, shape [n, in]: vectors of the nodes.
- `edges`, Tensor, shape [2, E], int64: source j (row 0) and target i (row 1) of each edge; no self loops.
- `gates`, Tensor, shape [E], optional: a factor :math:`g_{ij}` of each message, 1 by default.
- `self_gates`, Tensor, shape [n], optional: the factor :math:`g_{ii}` of a node's message to itself, 1 by default.

Without gates the layers equal those of the same names in torch_geometric.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def segment_softmax(values: Tensor, segments: Tensor, count: int) -> Tensor:
    """Return the softmax of `values`, shape [E, H], within each of `count` segments; `segments`, shape [E], holds their numbers.

    >>> segment_softmax(torch.zeros(3, 1), torch.tensor([0, 0, 1]), 2).flatten()
    tensor([0.5000, 0.5000, 1.0000])
    """
    place = segments.unsqueeze(1).expand_as(values)
    top = torch.full((count, values.shape[1]), float("-inf"), device=values.device, dtype=values.dtype)
    top = top.scatter_reduce(0, place, values.detach(), "amax")
    shares = (values - top[segments]).exp()
    total = torch.zeros_like(top).index_add(0, segments, shares)
    return shares / total[segments]


def _scaled(values: Tensor, factors: Tensor | None) -> Tensor:
    """Return `values`, shape [n, ...], times `factors`, shape [n], if there are any."""
    return values if factors is None else values * factors.view(-1, *[1] * (values.dim() - 1))


class GCNConv(nn.Module):
    r"""Graph convolution (Kipf and Welling, 2016), with d the number of neighbours, in `edges` or from `degree`, plus one.

    .. math:: x'_i = \sum_{j \in N(i) \cup \{i\}} \frac{g_{ij}}{\sqrt{d_i d_j}} W x_j + b
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(
        self, x: Tensor, edges: Tensor, gates: Tensor | None = None, self_gates: Tensor | None = None, degree: Tensor | None = None
    ) -> Tensor:
        """Return the new vectors: Tensor, shape [n, out]; `degree`, shape [n], has the numbers of neighbours."""
        source, target = edges
        degree = 1 + (torch.bincount(target, minlength=x.shape[0]) if degree is None else degree).to(x.dtype)
        x = self.lin(x)
        messages = _scaled(x[source], (degree[source] * degree[target]).rsqrt())
        return (_scaled(x, self_gates) / degree.unsqueeze(1)).index_add(0, target, _scaled(messages, gates)) + self.bias


class GATConv(nn.Module):
    r"""Graph attention (Veličković et al., 2017), the heads side by side.

    .. math::
        x'_i = \sum_{j \in N(i) \cup \{i\}} g_{ij} a_{ij} W x_j + b, \qquad
        a_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}_{0.2}(u \cdot W x_j + v \cdot W x_i)

    >>> GATConv(8, 16, heads=2)(torch.zeros(3, 8), torch.tensor([[0], [1]])).shape
    torch.Size([3, 32])
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(in_channels, heads * out_channels, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_channels))
        self.bias = nn.Parameter(torch.zeros(heads * out_channels))
        for weight in (self.att_src, self.att_dst):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, edges: Tensor, gates: Tensor | None = None, self_gates: Tensor | None = None) -> Tensor:
        """Return the new vectors: Tensor, shape [n, heads * out]."""
        count = x.shape[0]
        loops = torch.arange(count, device=x.device)
        source, target = torch.cat([edges, loops.expand(2, -1)], 1)
        if gates is not None or self_gates is not None:
            gates = torch.cat(
                [x.new_ones(edges.shape[1]) if gates is None else gates, x.new_ones(count) if self_gates is None else self_gates]
            )
        x = self.lin(x).view(count, self.heads, -1)
        logits = (x * self.att_src).sum(2)[source] + (x * self.att_dst).sum(2)[target]
        shares = segment_softmax(nn.functional.leaky_relu(logits, 0.2), target, count)
        messages = _scaled(x[source] * shares.unsqueeze(2), gates)
        return torch.zeros_like(x).index_add(0, target, messages).flatten(1) + self.bias


def _mean_of_neighbors(x: Tensor, edges: Tensor, gates: Tensor | None) -> Tensor:
    """Return the mean of the messages that each node gets, shape [n, in]; zero for a node without neighbours."""
    source, target = edges
    total = torch.zeros_like(x).index_add(0, target, _scaled(x[source], gates))
    return total / torch.bincount(target, minlength=x.shape[0]).clamp(min=1).unsqueeze(1)


class SAGEConv(nn.Module):
    r"""GraphSAGE (Hamilton et al., 2017) with the mean as aggregator.

    .. math:: x'_i = W_1 x_i + W_2 \operatorname{mean}_{j \in N(i)} g_{ij} x_j + b
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin_l = nn.Linear(in_channels, out_channels)
        self.lin_r = nn.Linear(in_channels, out_channels, bias=False)

    def forward(self, x: Tensor, edges: Tensor, gates: Tensor | None = None) -> Tensor:
        """Return the new vectors: Tensor, shape [n, out]."""
        return self.lin_l(_mean_of_neighbors(x, edges, gates)) + self.lin_r(x)  # type: ignore[no-any-return]


class GINConv(nn.Module):
    r"""Graph isomorphism network (Xu et al., 2018) with the mean as aggregator.

    .. math:: x'_i = \mathrm{MLP}\Big(x_i + \operatorname{mean}_{j \in N(i)} g_{ij} x_j\Big)
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.nn = nn.Sequential(nn.Linear(in_channels, out_channels), nn.ReLU(), nn.Linear(out_channels, out_channels))

    def forward(self, x: Tensor, edges: Tensor, gates: Tensor | None = None) -> Tensor:
        """Return the new vectors: Tensor, shape [n, out]."""
        return self.nn(x + _mean_of_neighbors(x, edges, gates))  # type: ignore[no-any-return]


class TransformerConv(nn.Module):
    r"""Graph Transformer layer (Shi et al., "Masked Label Prediction", 2020), the heads side by side.

    .. math::
        x'_i = W_1 (g_{ii} x_i) + b_1 + \sum_{j \in N(i)} a_{ij} (W_2 (g_{ij} x_j) + b_2), \qquad
        a_{ij} = \mathrm{softmax}_j \frac{(W_3 x_i + b_3) \cdot (W_4 x_j + b_4)}{\sqrt{c}}

    A gate is a factor of the vector that a node sends, not of the bias. A node without neighbours has only the first term.

    >>> TransformerConv(8, 16, heads=2)(torch.zeros(3, 8), torch.tensor([[0], [1]])).shape
    torch.Size([3, 32])
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1) -> None:
        super().__init__()
        self.heads, self.out_channels = heads, out_channels
        self.lin_key, self.lin_query, self.lin_value, self.lin_skip = (
            nn.Linear(in_channels, heads * out_channels) for _ in range(4)
        )

    def forward(self, x: Tensor, edges: Tensor, gates: Tensor | None = None, self_gates: Tensor | None = None) -> Tensor:
        """Return the new vectors: Tensor, shape [n, heads * out]."""
        source, target = edges
        weight, bias = self.lin_value.weight, self.lin_value.bias.view(self.heads, self.out_channels)
        tables = self.lin_query(x), self.lin_key(x), nn.functional.linear(x, weight)
        query, key, value = (vectors.view(-1, self.heads, self.out_channels) for vectors in tables)
        logits = (query[target] * key[source]).sum(2) / self.out_channels**0.5
        shares = segment_softmax(logits, target, x.shape[0])
        messages = (_scaled(value[source], gates) + bias) * shares.unsqueeze(2)
        return self.lin_skip(_scaled(x, self_gates)).index_add(0, target, messages.flatten(1))
