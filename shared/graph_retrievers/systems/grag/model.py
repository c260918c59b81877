"""The networks of G-RAG: a graph neural network over a question's documents (G-RAG, section 3.2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graph_retrievers.arguments import choice, positive, strings
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.learning.checkpoint import restored
from graph_retrievers.learning.graph_layers import GATConv, GINConv, SAGEConv
from graph_retrievers.seeding import seeded_weights
from graph_retrievers.systems.grag.document_graph import NORMALIZATIONS

__all__ = ["DocumentGraphNetwork", "EvidenceNetwork"]

EVIDENCE = ("similarity", "rank", "coverage", "lead")
"""The evidence on each document that :class:`EvidenceNetwork` reads."""

CHANNELS = ("concepts", "relations", "leads-in", "leads-out", "paths-in", "paths-out", "links")
"""The evidence on each pair of documents that :class:`EvidenceNetwork` can read."""

LAYERS = ("gcn", "gat", "sage", "gin", "none")


class DocumentGraphNetwork(nn.Module):
    r"""The graph neural network of G-RAG as published: document vectors, two layers, and a dot product with the question.

    .. math::
        x_v^\ell = g\Big(x_v^{\ell-1}, \operatorname{mean}_{u \in N(v)} \sum_{m=1}^{2} e_{uv}^{\ell-1}(m)\, x_u^{\ell-1}\Big),
        \qquad s_v = y \cdot x_v^L

    (equations 4, 5 and 8), with :math:`g(x, m) = W_1 x + W_2 m + b`, and ReLU and dropout between the layers. Edge features
    follow equation 6: :math:`e_{vw}^\ell = \mathrm{ReLU}(U_1 e_{vw}^{\ell-1} + U_2 \operatorname{mean}_{u \in N(v)}
    e_{uw}^{\ell-1} + c)` on pairs that share something.

    Parameters
    ----------
    dimension : int
        Width d of the vectors of documents and questions.
    layer : {"gcn", "gat", "sage", "gin", "none"}, default "gcn"
        The equation above, or instead a layer of the paper's appendix B, with :math:`\sum_m e_{uv}(m)` as a factor of each
        message. ``"none"`` reads no graph: the paper's MLP.
    hidden : int, default 8
        Width between the layers.
    layers : int, default 2
    heads : int, default 8
        For "gat".
    dropout : float, default 0.1
    normalization : {"row-column", "doubly-stochastic"}, default "row-column"
        See :func:`~graph_retrievers.systems.grag.document_graph.normalized`.
    paths : bool, default True
        Whether the vector of a document is that of its text and of :math:`a_i`, the concepts on the paths from the question; else
        only that of its text (the paper's "GCN").
    seed : int, default 0
        Of the weights before training, with which the scores mean nothing.

    Notes
    -----
    The paper defines neither g nor the g of the edges: both are linear layers here, with the ReLU of a usual two-layer GCN. The
    normalised features are not symmetric: :math:`e_{uv}` is the entry in the row of the receiver v; in equation 6, :math:`e_{vw}`
    is that in the row of v. Neighbours are those of the document graph in all layers. The last layer has neither ReLU nor
    dropout, because its result is compared with the question. GraphSAGE aggregates by the mean, because with the paper's LSTM the
    score would depend on the order of the documents.

    References
    ----------
    Dong et al., "Don't Forget to Connect! Improving RAG with Graph-based Reranking", 2024, section 3.2 and appendix B.

    Examples
    --------
    >>> network = DocumentGraphNetwork(4)
    >>> network(torch.zeros(3, 4), torch.zeros(3, 3, 2), torch.ones(4)).shape
    torch.Size([3])
    """

    kind = "published"

    def __init__(
        self,
        dimension: int,
        layer: str = "gcn",
        *,
        hidden: int = 8,
        layers: int = 2,
        heads: int = 8,
        dropout: float = 0.1,
        normalization: str = "row-column",
        paths: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.dimension, self.hidden = positive("dimension", dimension), positive("hidden", hidden)
        self.layers, self.heads = positive("layers", layers), positive("heads", heads)
        for name, value, most in (("layers", layers, 32), ("hidden", hidden, 1 << 14), ("dimension", dimension, 1 << 16)):
            if value > most:
                raise InvalidArgumentError(f"{name} must be at most {most}, got {value}.")
        self.layer, self.dropout = choice("layer", layer, LAYERS), _rate(dropout)
        self.normalization = choice("normalization", normalization, NORMALIZATIONS)
        self.paths, self._seed = choice("paths", paths, (True, False)), seed
        if layer == "gat" and hidden % heads:
            raise InvalidArgumentError(f"hidden is {hidden}, which {heads} heads cannot share equally.")
        widths = [dimension, *[hidden] * (layers - 1), dimension]
        pairs = list(zip(widths, widths[1:], strict=False))
        with seeded_weights(seed):
            self.convs = nn.ModuleList(self._conv(*pair, last=number == layers) for number, pair in enumerate(pairs, 1))
            self.edge_convs = nn.ModuleList(_Mixing(2, 2, 1) for _ in pairs[1:]) if layer != "none" else nn.ModuleList()

    def _conv(self, width: int, out: int, last: bool) -> nn.Module:
        if self.layer == "none":
            return nn.Linear(width, out)
        if self.layer == "gcn":
            return _Mixing(width, out, 1)
        if self.layer == "gat":
            heads = 1 if last else self.heads
            return GATConv(width, out // heads, heads)
        return {"sage": SAGEConv, "gin": GINConv}[self.layer](width, out)

    def config(self) -> dict[str, Any]:
        """Return the arguments that make this network again, for JSON."""
        names = ("dimension", "layer", "hidden", "layers", "heads", "dropout", "normalization", "paths")
        return {"kind": self.kind, **{name: getattr(self, name) for name in names}}

    @property
    def trained(self) -> bool:
        """Whether any weight differs from those with which the network was made."""
        settings = {name: value for name, value in self.config().items() if name != "kind"}
        before = DocumentGraphNetwork(**settings, seed=self._seed).state_dict()
        return not all(torch.equal(before[name], weights.cpu()) for name, weights in self.state_dict().items())

    def forward(self, x: Tensor, edges: Tensor, query: Tensor) -> Tensor:
        """Return the scores of the documents.

        Parameters
        ----------
        x : Tensor, shape [n, d]
            Vectors of the documents.
        edges : Tensor, shape [n, n, 2]
            Normalised edge features.
        query : Tensor, shape [d]

        Returns
        -------
        Tensor, shape [n]
        """
        mask = (edges != 0).any(-1)
        for number, conv in enumerate(self.convs):
            if number:
                x = nn.functional.dropout(torch.relu(x), self.dropout, self.training)
                if self.layer != "none":
                    near = torch.einsum("vu,uwl->vwl", mask.to(edges.dtype), edges)
                    message = near / mask.sum(1).clamp(min=1).view(-1, 1, 1)
                    edges = torch.relu(self.edge_convs[number - 1](edges, [message])) * mask.unsqueeze(-1)
            weights = edges.sum(-1)
            if self.layer == "none":
                x = conv(x)
            elif self.layer == "gcn":
                x = conv(x, [weights @ x / mask.sum(1).clamp(min=1).unsqueeze(-1)])
            else:
                target, source = mask.nonzero().unbind(1)
                apart = source != target
                x = conv(x, torch.stack([source, target])[:, apart], weights[target, source][apart])
        return x @ query


class EvidenceNetwork(nn.Module):
    r"""A graph neural network over the evidence on each document, and on each pair, for a question.

    .. math::
        h_v = \mathrm{ReLU}\Big(W x_v + \sum_m \sum_u e_{vu}(m)\, U_m x_u + b\Big), \qquad
        s_v = w \cdot h_v + \sum_m \sum_u e_{vu}(m)\, u_m \cdot h_u + c \cdot x_v

    It differs from :class:`DocumentGraphNetwork` in four ways. A document is described by a few numbers that already compare it
    with the question, instead of a vector that is compared at the end: there are far fewer weights to learn, and none depends on
    the embedding model. Each kind of edge has its own weights, as in the paper from which G-RAG takes its edge features. Edge
    features are the same in both layers. Finally, the scores of the retriever are used.

    Parameters
    ----------
    hidden : int, default 32
    dropout : float, default 0.1
    graph : bool, default True
        False ignores all edges: an MLP.
    evidence : sequence of str, default all of ``EVIDENCE``
        The evidence on a document:

        - ``similarity``: three times the cosine of the vectors of question and document;
        - ``rank``: minus the logarithm of its rank by the retriever's scores;
        - ``coverage``: the share of the question's concepts that it has;
        - ``lead``: the share of its first concepts, usually its subject, that the question has.
    channels : sequence of str, default ("concepts", "relations", "leads-in", "leads-out")
        The evidence on two documents (see :meth:`~graph_retrievers.systems.grag.evidence.DocumentSet.pair_evidence`):

        - ``concepts``, ``relations``: how many both have, as published;
        - ``leads-in``: the share of the receiver's first concepts that the sender has, so that messages come from those that
          mention its subject; ``leads-out``: the share of the sender's that the receiver has;
        - ``paths-in``, ``paths-out``: the same, only of concepts on the sender's (receiver's) paths from the question;
        - ``links``: whether an edge of the index joins them, in either direction. ``GRAGCompressor`` and ``GRAGPostprocessor``,
          which rerank documents of other retrievers, see no links: train a network for them without this channel.
    seed : int, default 0
        Of the weights before training.

    Notes
    -----
    Before training it scores by the sum of its evidence, without the graph.

    On multi-hop Wikipedia the paths from the question (``paths-in``, ``paths-out``), G-RAG's :math:`a_i` as edges, add nothing to
    the leads, so they are left out by default.

    Examples
    --------
    >>> network = EvidenceNetwork()
    >>> network(torch.zeros(3, 4), torch.zeros(3, 3, 4)).tolist()
    [0.0, 0.0, 0.0]
    """

    kind = "evidence"

    def __init__(
        self,
        *,
        hidden: int = 32,
        dropout: float = 0.1,
        graph: bool = True,
        evidence: Sequence[str] = EVIDENCE,
        channels: Sequence[str] = CHANNELS[:4],
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.hidden, self.dropout = positive("hidden", hidden), _rate(dropout)
        self.graph = choice("graph", graph, (True, False))
        self.evidence = tuple(choice("evidence", name, EVIDENCE) for name in strings("evidence", evidence))
        self.channels = tuple(choice("channel", name, CHANNELS) for name in strings("channels", channels)) if graph else ()
        if not self.evidence:
            raise InvalidArgumentError(f"evidence is empty; choose from {', '.join(EVIDENCE)}.")
        for name, values in (("evidence", self.evidence), ("channels", self.channels)):
            if len(set(values)) < len(values):
                raise InvalidArgumentError(f"{name} must name each once, got {shown(values)}.")
        with seeded_weights(seed):
            self.first = _Mixing(len(self.evidence), hidden, len(self.channels))
            self.last = _Mixing(hidden, 1, len(self.channels))
            self.skip = nn.Linear(len(self.evidence), 1, bias=False)
        for parameter in self.last.parameters():
            nn.init.zeros_(parameter)
        nn.init.ones_(self.skip.weight)

    def config(self) -> dict[str, Any]:
        """Return the arguments that make this network again, for JSON."""
        settings = {name: getattr(self, name) for name in ("hidden", "dropout", "graph")}
        return {"kind": self.kind, **settings, "evidence": list(self.evidence), "channels": list(self.channels)}

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Return the scores of the documents: Tensor, shape [..., n].

        Parameters
        ----------
        x : Tensor, shape [..., n, f]
            A column for each of `evidence`.
        edges : Tensor, shape [..., n, n, l]
            A channel for each of `channels`.
        """
        h = self.first(x, [edges[..., m] @ x for m in range(len(self.channels))])
        h = nn.functional.dropout(torch.relu(h), self.dropout, self.training)
        return (self.last(h, [edges[..., m] @ h for m in range(len(self.channels))]) + self.skip(x)).squeeze(-1)  # type: ignore[no-any-return]


class _Mixing(nn.Module):
    """A linear map of a node's own values, plus one of each kind of message: W x + sum_m U_m m + b."""

    def __init__(self, width: int, out: int, messages: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, out)
        self.heard = nn.ModuleList(nn.Linear(width, out, bias=False) for _ in range(messages))

    def forward(self, x: Tensor, messages: list[Tensor]) -> Tensor:
        result = self.own(x)
        for linear, message in zip(self.heard, messages, strict=True):
            result = result + linear(message)
        return result


def network_of_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> DocumentGraphNetwork | EvidenceNetwork:
    """Return the network of a ``config()`` and its weights; InvalidArgumentError if they do not match."""
    kinds: dict[Any, Any] = {"published": DocumentGraphNetwork, "evidence": EvidenceNetwork}

    def make() -> DocumentGraphNetwork | EvidenceNetwork:
        settings = {name: value for name, value in config.items() if name != "kind"}
        return kinds[choice("kind", config.get("kind"), kinds)](**settings)  # type: ignore[no-any-return]

    return restored(make, tensors, "a network of G-RAG")


def _rate(dropout: float) -> float:
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise InvalidArgumentError(f"dropout must be a number in [0, 1), got {shown(dropout)}.")
    return float(dropout)
