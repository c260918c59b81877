"""G-RAG as the paper says it, in plain Python: no tensors, no shortcuts."""

import math


def paths(concepts, relations, root="question"):
    """All shortest paths from the first node called `root` that are not the beginning of another, by target node."""
    if root not in concepts:
        return [], 0
    start = concepts.index(root)
    distance = {start: 0}
    for _ in concepts:
        for source, _, target in relations:
            if source in distance:
                distance[target] = min(distance.get(target, len(concepts)), distance[source] + 1)

    def path(node):
        # Over the lowest node that is one step nearer.
        before = [s for s, _, t in relations if t == node and distance.get(s) == distance[node] - 1]
        return [*path(min(before)), node] if distance[node] else [node]

    shortest = {node: path(node) for node in distance}
    found = [shortest[node] for node in sorted(shortest)]
    maximal = [p for p in found if not any(len(o) > len(p) and o[: len(p)] == p for o in found)]
    return maximal, len(found)


def edge_features(graphs):
    """Counts of common concepts and common labelled relations of each two graphs (concepts, relations)."""
    sets = [(set(concepts), {(concepts[s], role, concepts[t]) for s, role, t in relations}) for concepts, relations in graphs]
    return [
        [[len(a & b) if i != j else 0 for a, b in zip(sets[i], sets[j], strict=True)] for j in range(len(graphs))]
        for i in range(len(graphs))
    ]


def row_column(values):
    """A matrix divided by its row sums, then by its column sums; 0 / 0 is 0."""
    n = range(len(values))
    rows = [[values[i][j] / sum(values[i]) if sum(values[i]) else 0.0 for j in n] for i in n]
    columns = [sum(rows[i][j] for i in n) for j in n]
    return [[rows[i][j] / columns[j] if columns[j] else 0.0 for j in n] for i in n]


def linear(weight, bias, x):
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weight, bias, strict=True)]


def gcn(x, edges, query, layers, edge_layers):
    """Equations 4 to 8. `layers` are (W1, b, W2), `edge_layers` (U1, c, U2); `edges[v][u]` has the channels."""
    n = range(len(x))
    neighbors = [[u for u in n if any(edges[v][u])] for v in n]
    for number, (own, bias, heard) in enumerate(layers):
        if number:
            x = [[max(0.0, value) for value in row] for row in x]
            u1, c, u2 = edge_layers[number - 1]
            near = [
                [[sum(edges[u][w][m] for u in neighbors[v]) / max(1, len(neighbors[v])) for m in range(2)] for w in n] for v in n
            ]
            edges = [
                [
                    [max(0.0, a + b) for a, b in zip(linear(u1, c, edges[v][u]), linear(u2, [0, 0], near[v][u]), strict=True)]
                    if u in neighbors[v]
                    else [0.0, 0.0]
                    for u in n
                ]
                for v in n
            ]
        messages = []
        for v in n:
            total = [0.0] * len(x[0])
            for u in neighbors[v]:
                total = [t + sum(edges[v][u]) * value for t, value in zip(total, x[u], strict=True)]
            messages.append([t / max(1, len(neighbors[v])) for t in total])
        zero = [0.0] * len(bias)
        x = [[a + b for a, b in zip(linear(own, bias, x[v]), linear(heard, zero, messages[v]), strict=True)] for v in n]
    return [sum(a * b for a, b in zip(row, query, strict=True)) for row in x]


def evidence(question, documents, lead=4):
    """Coverage, lead and mentions[v][u] of documents, each a list of concepts."""
    n = len(documents)
    rarity = {c: math.log((n + 1) / sum(c in d for d in documents)) for document in documents for c in document}

    def share(concepts, held):
        total = sum(rarity[c] for c in concepts)
        return sum(rarity[c] for c in concepts if c in held) / total if total else 0.0

    asked = {concept for concept in question if concept in rarity}
    leads = [list(dict.fromkeys(document[:lead])) for document in documents]
    coverage = [share(asked, set(document)) for document in documents]
    mentions = [[share(leads[v], set(documents[u])) if u != v else 0.0 for u in range(n)] for v in range(n)]
    return coverage, [share(each, set(question)) for each in leads], mentions


def by_row(values):
    """Squares of a matrix divided by their row sums; 0 / 0 is 0."""
    squares = [[value**2 for value in row] for row in values]
    return [[value / sum(row) if sum(row) else 0.0 for value in row] for row in squares]
