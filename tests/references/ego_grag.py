"""The search of ego graphs written out (Hu et al., "GRAG", section 4), with cosines in place of the trained pruning."""

import math


def within(rows, centre, hops):
    """The nodes within some edges of a centre."""
    ego = {centre}
    for _ in range(hops):
        ego |= {b if a in ego else a for a, b in rows if (a in ego) != (b in ego)}
    return ego


def similarity(question, vectors):
    """The cosine of a question with the mean of unit vectors."""
    mean = [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]
    length = math.sqrt(sum(value**2 for value in mean))
    return sum(a * b for a, b in zip(question, mean, strict=True)) / length if length > 1e-9 else 0.0


def search(question, centres, rows, vectors, graphs, hops):
    """Nodes of the best ego graphs by their cosines, of equal ones the lower first."""
    egos = {centre: within(rows, centre, hops) for centre in centres}
    scores = {centre: similarity(question, [vectors[node] for node in sorted(ego)]) for centre, ego in egos.items()}
    best = sorted(centres, key=lambda centre: (-round(scores[centre], 6), centre))[:graphs]
    nodes = set().union(*(egos[centre] for centre in best))
    cosine = {node: sum(a * b for a, b in zip(question, vectors[node], strict=True)) for node in nodes}
    return sorted(((node, cosine[node]) for node in nodes), key=lambda item: (-round(item[1], 6), item[0]))
