"""Typed adjacency: the kinds of steps from each node."""

import numpy as np

from graph_retrievers.graph import CorpusGraph
from graph_retrievers.graph.typed_adjacency import TypedAdjacency


def test_names_of_relations_that_end_with_nul_are_names_of_their_own():
    names = ["r", "", "\x00", "\x00\x00", "r\x00"]
    for shift in range(len(names)):
        relations = names[shift:] + names[:shift]
        nodes = [f"n{place}" for place in range(len(names) + 1)]
        edges = [("n0", node, relation) for node, relation in zip(nodes[1:], relations, strict=True)]
        adjacency = TypedAdjacency(CorpusGraph(nodes, nodes, edges=edges))
        for place, relation in enumerate(relations, start=1):
            start, length = adjacency.slices(np.array([0]), *adjacency.span("", relation))
            assert (adjacency.neighbors[start[0]], length[0]) == (place, 1)
