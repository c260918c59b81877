"""Layers of graph neural networks: worked cases, and equality with torch_geometric where that is installed."""

import pytest
import torch

from graph_retrievers.learning.graph_layers import GATConv, GCNConv, GINConv, SAGEConv, TransformerConv, segment_softmax

EDGES = torch.tensor([[0, 1, 2, 3, 1, 4], [1, 0, 0, 0, 2, 3]])


def layers(heads=3):
    torch.manual_seed(0)
    return {"GCNConv": GCNConv(5, 6), "GATConv": GATConv(5, 4, heads), "TransformerConv": TransformerConv(5, 4, heads)}


@pytest.mark.parametrize("name", ["GCNConv", "GATConv", "TransformerConv"])
def test_without_gates_a_layer_equals_that_of_torch_geometric(name):
    theirs = pytest.importorskip("torch_geometric.nn")
    ours = layers()[name]
    made = {
        "GCNConv": lambda: theirs.GCNConv(5, 6),
        "GATConv": lambda: theirs.GATConv(5, 4, heads=3),
        "TransformerConv": lambda: theirs.TransformerConv(5, 4, heads=3),
    }[name]()
    with torch.no_grad():
        ours.bias = torch.nn.Parameter(torch.randn(ours.bias.shape)) if hasattr(ours, "bias") else None
    made.load_state_dict({key: value for key, value in ours.state_dict().items()})
    x = torch.randn(6, 5)
    assert torch.allclose(ours(x, EDGES), made(x, EDGES), atol=1e-5)


@pytest.mark.parametrize("name", ["GCNConv", "GATConv", "TransformerConv"])
def test_gates_of_one_change_nothing_and_gates_of_zero_leave_the_own_part(name):
    layer, x = layers()[name], torch.randn(6, 5)
    plain = layer(x, EDGES)
    assert torch.allclose(layer(x, EDGES, torch.ones(6), torch.ones(6)), plain, atol=1e-6)
    closed = layer(x, EDGES, torch.zeros(6), torch.zeros(6))
    constant = (layer.lin_skip.bias if name == "TransformerConv" else layer.bias).expand_as(closed)
    if name == "TransformerConv":
        # Shares of one node sum to 1, so that every node with a neighbour gets the bias of the messages once.
        heard = torch.isin(torch.arange(6), EDGES[1]).float().unsqueeze(1)
        constant = constant + heard * layer.lin_value.bias
    assert torch.allclose(closed, constant, atol=1e-6)


def test_a_gate_scales_what_a_node_sends_and_no_bias():
    # Equation 5 of CG-RAG: the message is MSG(gate * vector), here an affine map; written out node by node.
    torch.manual_seed(1)
    layer, x = TransformerConv(5, 4, 3), torch.randn(6, 5)
    gates, own = torch.rand(6) * 2, torch.rand(6)
    found = layer(x, EDGES, gates, own)
    with torch.no_grad():
        for i in range(6):
            expected = layer.lin_skip(own[i] * x[i])
            senders = [(edge, int(EDGES[0, edge])) for edge in range(6) if EDGES[1, edge] == i]
            logits = [(layer.lin_query(x[i]) * layer.lin_key(x[j])).view(3, 4).sum(1) / 2 for _, j in senders]
            shares = torch.softmax(torch.stack(logits), 0) if senders else []
            for (edge, j), share in zip(senders, shares, strict=True):
                expected = expected + (layer.lin_value(gates[edge] * x[j]).view(3, 4) * share.unsqueeze(1)).flatten()
            assert torch.allclose(found[i], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["SAGEConv", "GINConv"])
def test_layers_with_means_equal_those_of_torch_geometric(name):
    from torch_geometric import nn as theirs

    torch.manual_seed(0)
    ours = {"SAGEConv": SAGEConv, "GINConv": GINConv}[name](5, 6)
    chain = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.ReLU(), torch.nn.Linear(6, 6))
    made = {"SAGEConv": lambda: theirs.SAGEConv(5, 6), "GINConv": lambda: theirs.GINConv(chain, aggr="mean")}[name]()
    # GIN's epsilon of torch_geometric is a constant 0.
    assert made.load_state_dict(ours.state_dict(), strict=False).missing_keys in ([], ["eps"])
    x = torch.randn(6, 5)
    assert torch.allclose(ours(x, EDGES), made(x, EDGES), atol=1e-5)
    assert torch.allclose(ours(x, EDGES, torch.ones(6)), made(x, EDGES), atol=1e-5)
    assert not torch.allclose(ours(x, EDGES, torch.full((6,), 0.5)), made(x, EDGES), atol=1e-3)
    alone = ours.lin_l.bias + ours.lin_r(x[5]) if name == "SAGEConv" else ours.nn(x[5])
    assert torch.allclose(ours(x, EDGES)[5], alone, atol=1e-6)


def test_a_node_without_neighbours_has_only_the_skip_connection():
    layer, x = layers()["TransformerConv"], torch.randn(6, 5)
    assert torch.allclose(layer(x, EDGES)[5], layer.lin_skip(x[5]), atol=1e-6)


def test_softmax_within_segments():
    shares = segment_softmax(torch.tensor([[0.0], [0.0], [700.0], [0.0]]), torch.tensor([0, 0, 1, 1]), 3)
    assert shares.flatten().tolist() == pytest.approx([0.5, 0.5, 1.0, 0.0])
