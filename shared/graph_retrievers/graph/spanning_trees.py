"""Maximum spanning trees of the connected parts of a graph, as depth first walks meet their edges."""

from __future__ import annotations

import numpy as np


def spanning_trees(ends: np.ndarray, by: np.ndarray) -> list[np.ndarray]:
    """Return a maximum spanning tree of each connected part of a graph: the places of its edges as a depth first walk meets them.

    The walk begins at the first end of the heaviest edge, and from each node follows heavier edges first. Trees are in the order of
    the first edges of their parts.

    Parameters
    ----------
    ends : ndarray, shape [M, 2], int64
        The two nodes that each edge joins; of several edges between the same two, the heaviest counts.
    by : ndarray, shape [M], int64
        The places of the edges, the heaviest first.

    Examples
    --------
    >>> ends = np.array([[0, 1], [0, 1], [4, 5], [2, 1], [0, 2]])
    >>> [tree.tolist() for tree in spanning_trees(ends, np.array([2, 1, 3, 0, 4]))]
    [[1, 3], [2]]
    """
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(ends.ravel().tolist())
    for weight, place in enumerate(by[::-1].tolist()):
        # No two edges weigh the same. One that was added before, between the same nodes, is lighter, and is replaced.
        graph.add_edge(*ends[place].tolist(), weight=weight, place=place)
    forest, trees = networkx.maximum_spanning_tree(graph), list[np.ndarray]()
    for part in networkx.connected_components(forest):
        *_, heaviest = max(forest.edges(part, data=True), key=lambda edge: edge[2]["weight"])
        walk = networkx.dfs_edges(forest, int(ends[heaviest["place"], 0]))
        trees.append(np.array([forest.edges[step]["place"] for step in walk], np.int64))
    return trees
