"""The network of LeSeGR: message passing with sparse and dense signals as gates (CG-RAG, section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graph_retrievers.arguments import choice, is_number, positive
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.learning.checkpoint import restored
from graph_retrievers.learning.graph_layers import GATConv, GCNConv, TransformerConv
from graph_retrievers.seeding import seeded_weights

__all__ = ["LeSeGRModel"]

ENCODERS = ("sum", "mean", "gcn", "gat", "transformer")
"""Graph encoders; sum and mean have no weights."""

_MOST_LAYERS, _WIDEST, _STEEPEST = 32, 1 << 16, 100


class LeSeGRModel(nn.Module):
    r"""Entangled representations of nodes: a graph encoder over messages that are gated by a sparse and a dense signal.

    .. math::
        h_i^{(k+1)} = \mathrm{AGG}\big(\{\delta_{qj}\, \alpha_{ij}\, h_j^{(k)} : j \in \{i\} \cup N(i)\}\big), \qquad
        h_i^{(0)} = c_i, \quad \alpha_{ij} = \mathrm{MLP}_\phi(c_i - c_j), \quad \alpha_{ii} = 1

    (CG-RAG, section 4.3, equations 4 to 8). :math:`\delta_{qj}` is the sparse score of node j for the query, :math:`c_i` a node's
    dense vector, of width `dimension`, and the score of a node is :math:`q \cdot h_i^{(K)}` (equation 9).

    Parameters
    ----------
    encoder : {"sum", "mean", "gcn", "gat", "transformer"}, default "sum"
        AGG. The first two only add or average the gated messages; the others have weights and return vectors of width d.
    layers : int, default 1
        K. The paper uses 2, with the Graph Transformer.
    hidden, heads : int, default 1024 and 4
        Width of the hidden layers, all heads together, and the number of heads of "gat" and "transformer".
    hub_exponent : float, default 0.5
        With "sum" and "mean", the message of j to another node is divided by ``(|N(j)| + 1) ** hub_exponent``. The paper has no
        such factor (0); without it, hubs, such as a page that many others mention, send as much to each neighbour as other nodes
        do.
    sparse_gate, dense_gate : bool, default True
        False sets all :math:`\delta` or all :math:`\alpha` to 1 (ablations).
    seed : int, default 0
        Of the weights before training.

    Notes
    -----
    The last layer of the MLP is initialised to zero, so that an untrained model passes no messages between nodes: with ``"sum"``
    and K layers its score is :math:`\delta_{qi}^K\, q \cdot c_i`. For K = 1 that is the product fusion of Proposition 4.1; the
    proposition does not hold for more layers, because each multiplies by :math:`\delta_{qi}` again, nor for encoders with weights
    as published.

    Departures from the paper. The paper does not specify the MLP (d, d / 2 and 1 units, with ReLU). Encoders with weights are
    followed by a linear layer from `hidden` to d that is initialised to zero, and :math:`\delta_{qi} c_i` is added to its result:
    the paper does not say how vectors of width 1024 are compared with the query, and this way an untrained model is the product
    fusion with every encoder. There is a ReLU between layers. As in equation 5, a gate scales the vector that a node sends and no
    bias; attention compares vectors without gates, about which the paper is silent.

    >>> model = LeSeGRModel(2)
    >>> dense, edges = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[1], [0]])
    >>> model(dense, edges, torch.tensor([0.5, 2.0]), model.alpha(dense[0] - dense[1]).view(1)).tolist()
    [[0.5, 0.0], [0.0, 4.0]]
    """

    def __init__(
        self,
        dimension: int,
        encoder: str = "sum",
        layers: int = 1,
        *,
        hidden: int = 1024,
        heads: int = 4,
        hub_exponent: float = 0.5,
        sparse_gate: bool = True,
        dense_gate: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.dimension, self.layers = positive("dimension", dimension, _WIDEST), positive("layers", layers, _MOST_LAYERS)
        self.encoder = choice("encoder", encoder, ENCODERS)
        self.hidden, self.heads = positive("hidden", hidden, _WIDEST), positive("heads", heads)
        self.sparse_gate = choice("sparse_gate", sparse_gate, (True, False))
        self.dense_gate = choice("dense_gate", dense_gate, (True, False))
        if not is_number(hub_exponent) or isinstance(hub_exponent, bool) or not 0 <= hub_exponent <= _STEEPEST:
            raise InvalidArgumentError(f"hub_exponent must be a number from 0 to {_STEEPEST}, got {shown(hub_exponent)}.")
        self.hub_exponent = float(hub_exponent)
        if hidden % heads:
            raise InvalidArgumentError(f"hidden is {hidden}, which {heads} heads cannot share equally.")
        half = max(1, dimension // 2)
        widths = [dimension, *[hidden] * self._weighted][: self._weighted]
        with seeded_weights(seed):
            last = nn.Linear(half, 1)
            self.mlp = nn.Sequential(nn.Linear(dimension, half), nn.ReLU(), last)
            self.convs = nn.ModuleList(_layer(encoder, width, hidden, heads) for width in widths)
            self.out = nn.Linear(hidden, dimension) if self.convs else None
        # Training only: scores are multiplied by its exponential before the softmax, which changes no order.
        self.log_scale = nn.Parameter(torch.tensor(20.0).log())
        for linear in (last, self.out):
            if linear is not None:
                nn.init.zeros_(linear.weight)
                nn.init.zeros_(linear.bias)

    @property
    def linear(self) -> bool:
        """Whether the encoder treats all dimensions alike, so that messages can be scores instead of vectors."""
        return self._weighted == 0

    @property
    def _weighted(self) -> int:
        return 0 if self.encoder in ("sum", "mean") else self.layers

    def config(self) -> dict[str, Any]:
        """Return the arguments that recreate this network, for JSON."""
        names = ("dimension", "encoder", "layers", "hidden", "heads", "hub_exponent", "sparse_gate", "dense_gate")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_config(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LeSeGRModel:
        """Return the network of a :meth:`config` and its weights; InvalidArgumentError if they do not match."""
        return restored(lambda: cls(**{name: config[name] for name in cls(1).config()}), tensors, "LeSeGR")

    def alpha(self, difference: Tensor) -> Tensor:
        """Return the dense signals of pairs, shape [...], from the differences of their vectors, shape [..., d] (equation 8)."""
        if not self.dense_gate:
            return torch.ones(difference.shape[:-1], dtype=difference.dtype, device=difference.device)
        return self.mlp(difference).squeeze(-1)  # type: ignore[no-any-return]

    def forward(self, x: Tensor, edges: Tensor, delta: Tensor, alpha: Tensor, degree: Tensor | None = None) -> Tensor:
        r"""Return the entangled representations.

        Parameters
        ----------
        x : Tensor, shape [n, d]
            Dense vectors. If :attr:`linear` is True, they may have any width: with :math:`q \cdot c_i` as the only column, the
            result is the score.
        edges : Tensor, shape [2, E], int64
            Sources j and targets i, without self loops.
        delta : Tensor, shape [n]
            Sparse score of each node.
        alpha : Tensor, shape [E]
            Dense signal of each edge.
        degree : Tensor, shape [n], optional
            :math:`|N(j)|` in the whole graph; by default the number of edges that end at a node here.

        Returns
        -------
        Tensor, shape [n, d]
        """
        source, target = edges
        if not self.sparse_gate:
            delta = torch.ones_like(delta)
        gates = delta[source] * alpha
        if self.linear:
            incoming = torch.bincount(target, minlength=x.shape[0])
            degree = incoming if degree is None else degree
            gates = gates / (degree[source] + 1).to(x.dtype) ** self.hub_exponent
            for _ in range(self.layers):
                x = (x * delta.unsqueeze(1)).index_add(0, target, x[source] * gates.unsqueeze(1))
                if self.encoder == "mean":
                    x = x / (incoming + 1).unsqueeze(1)
            return x
        h = x
        for number, conv in enumerate(self.convs):
            arguments = (degree,) if self.encoder == "gcn" else ()
            h = conv(torch.relu(h) if number else h, edges, gates, delta, *arguments)
        assert self.out is not None
        return x * delta.unsqueeze(1) + self.out(torch.relu(h))


def _layer(encoder: str, width: int, hidden: int, heads: int) -> nn.Module:
    if encoder == "gcn":
        return GCNConv(width, hidden)
    return {"gat": GATConv, "transformer": TransformerConv}[encoder](width, hidden // heads, heads)
