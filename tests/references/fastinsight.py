"""Algorithms 1 to 3 of FastInsight, written out loop by loop over sets, as the paper prints them.

Departures, each a stated rule: the three endless loops end when nothing is left to add, a node without
neighbours among the retrieved keeps its latent, and equal scores go to the earlier (GRanker) or lower (STeX) node.
"""

import math


def neighbours(edges):
    table = {}
    for a, b in edges:
        if a != b:
            table.setdefault(a, set()).add(b)
            table.setdefault(b, set()).add(a)
    return table


def largest_weights(edges, given):
    """The weight of each pair of linked nodes, in both orders: the largest of its parallel edges."""
    table = {}
    for (a, b), weight in zip(edges, given, strict=True):
        if a != b:
            table[a, b] = table[b, a] = max(weight, table.get((a, b), 0.0))
    return table


def granker(retrieved, latents, adjacent, head, alpha, degree="graph", weight=None):
    """Algorithm 2. `latents` maps node -> list of floats, `head` maps a latent to a score.

    `weight` maps pairs of linked nodes to what counts in place of the 1 of line 2; the paper has none.
    """
    edge = (lambda a, b: 1) if weight is None else (lambda a, b: weight[a, b])
    inside = {n: [m for m in retrieved if m in adjacent.get(n, set())] for n in retrieved}
    counted = {n: adjacent.get(n, set()) if degree == "graph" else inside[n] for n in retrieved}
    degrees = {n: sum(edge(n, m) for m in counted[n]) for n in retrieved}
    scores = {}
    for n in retrieved:
        own = latents[n]
        weights = {m: edge(n, m) / degrees[m] for m in inside[n]}
        total = sum(weights.values())
        if total == 0:
            mixed = own
        else:
            mixed = [
                (1 - alpha) * own[j] + alpha * sum(w / total * latents[m][j] for m, w in weights.items()) for j in range(len(own))
            ]
        scores[n] = head(mixed)
    return sorted(retrieved, key=lambda n: -scores[n]), scores


def stex(retrieved, similarity, adjacent, beta):
    """Algorithm 3: every candidate with its score, best first."""
    candidates = set()
    for n in retrieved:
        candidates |= adjacent.get(n, set())
    candidates -= set(retrieved)
    r_max = len(retrieved)
    scored = []
    for n in sorted(candidates):
        structure = 0.0
        linked = [v for v in retrieved if n in adjacent.get(v, set())]
        if r_max > 1:
            r_best = min(retrieved.index(v) + 1 for v in linked)
            structure = 1 - (r_best - 1) / (r_max - 1)
        c_max = min(len(adjacent[n]), r_max)
        if c_max > 1:
            structure += (len(linked) - 1) / (c_max - 1)
        scored.append((n, structure if math.isinf(beta) else similarity[n] + beta * structure))
    return sorted(scored, key=lambda item: -item[1])


def fastinsight(similarity, latents, edges, head, *, batch, budget, alpha, beta, degree="graph", weight=None):
    """Algorithm 1: the final order, its scores, the rounds, and how many pairs were encoded."""
    adjacent = neighbours(edges)
    nodes = sorted(similarity, key=lambda n: (-similarity[n], n))
    retrieved = nodes[: min(batch, budget)]
    retrieved, scores = granker(retrieved, latents, adjacent, head, alpha, degree, weight)
    rounds = [list(retrieved)]
    while len(retrieved) < budget:
        added = [n for n, _ in stex(retrieved, similarity, adjacent, beta)]
        remain = min(len(retrieved) + batch, budget) - len(retrieved)
        if not added:
            break
        retrieved = retrieved + added[:remain]
        retrieved, scores = granker(retrieved, latents, adjacent, head, alpha, degree, weight)
        rounds.append(list(retrieved))
    return retrieved, scores, rounds
