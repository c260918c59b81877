"""Query-aware flow diffusion written out over dictionaries (capacities of 1, all nodes send in each round)."""


def edge_weights(rows, node, likeness, query_weight):
    """The neighbours of a node with the weights of the edges to them for the question."""
    near = {}
    for source, target, weight in rows:
        if source != target and node in (source, target):
            other = target if node == source else source
            near[other] = near.get(other, 0.0) + weight
    return {other: near[other] * (1 + query_weight * (likeness[node] + likeness[other])) for other in sorted(near)}


def diffuse(seeds, rows, cosine, mass, query_weight, rounds, epsilon=0.02):
    """Nodes by what they sent, then by the mass that they hold, then by number: (node, score)."""
    likeness = [(1 + value) / 2 for value in cosine]
    held = {seed: mass / len(seeds) for seed in seeds}
    score = dict.fromkeys(seeds, 0.0)
    for _ in range(rounds):
        sending = [node for node in sorted(held) if held[node] > 1 + epsilon and edge_weights(rows, node, likeness, query_weight)]
        if not sending:
            break
        flows = []
        for node in sending:
            weights = edge_weights(rows, node, likeness, query_weight)
            total, rest = sum(weights.values()), held[node] - 1
            score[node] += rest / total
            flows += [(other, rest * weight / total) for other, weight in weights.items()]
            held[node] = 1.0
        for other, flow in flows:
            held[other] = held.get(other, 0.0) + flow
            score.setdefault(other, 0.0)
    return sorted(score.items(), key=lambda item: (-round(item[1], 9), -round(held[item[0]], 9), item[0]))
