"""GRAG (Hu et al., NAACL Findings 2025) written out: ego graphs as sets and lists, their mean vectors, the nodes that are kept."""

import math


def cosine(one, other):
    """The cosine of two vectors; 0 where either has no length, or where the products cancel out."""
    lengths = math.dist(one, [0] * len(one)) * math.dist(other, [0] * len(other))
    return round(sum(a * b for a, b in zip(one, other, strict=True)) / lengths, 9) + 0.0 if lengths > 1e-9 else 0.0


def unit(vector):
    length = math.dist(vector, [0] * len(vector))
    return [value / length for value in vector] if length else list(vector)


def ego_graph(center, edges, hops):
    """The shortest path from the centre to each node within `hops` edges, through the lowest nodes; and the edges among them."""
    paths, front = {center: (center,)}, [center]
    for _ in range(hops):
        following = {}
        for node in sorted(front):
            for source, target in edges:
                for near, far in ((source, target), (target, source)):
                    if near == node and far not in paths and far not in following:
                        following[far] = (*paths[node], far)
        paths |= following
        front = list(following)
    inside = [place for place, (source, target) in enumerate(edges) if source in paths and target in paths]
    return paths, inside


def mean_vector(nodes, edges, node_vectors, edge_vectors):
    """The mean of the unit vectors of nodes and edges; of nodes alone where edges have no vectors."""
    parts = [unit(node_vectors[node]) for node in nodes]
    if edge_vectors is not None:
        parts += [unit(edge_vectors[edge]) for edge in edges]
    return [sum(column) / len(parts) for column in zip(*parts, strict=True)]


def search(question, node_vectors, edges, edge_vectors=None, centres=100, graphs=20, hops=2, entities=10):
    """The nodes of the best ego graphs as (node, soft score, path from the centre), and the score of each ego graph."""
    soft = [cosine(question, vector) for vector in node_vectors]
    nearest = sorted(range(len(soft)), key=lambda node: (-soft[node], node))[:centres]
    found = {center: ego_graph(center, edges, hops) for center in nearest}
    scores = {
        center: cosine(question, mean_vector(paths, inside, node_vectors, edge_vectors))
        for center, (paths, inside) in found.items()
    }
    merged = {}
    for center in sorted(nearest, key=lambda center: (-scores[center], center))[:graphs]:
        paths, _ = found[center]
        for node in sorted(paths, key=lambda node: (-soft[node], node))[:entities]:
            merged.setdefault(node, paths[node])
    return [(node, soft[node], merged[node]) for node in sorted(merged, key=lambda node: (-soft[node], node))], scores
