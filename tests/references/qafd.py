"""Query-aware flow diffusion written out over dictionaries (Zhou et al., ICLR 2026, Algorithm 2; all nodes send in each round).

A graph is a list of rows (source, target, weight); vectors have unit length.
"""

EPSILON, ROUNDING = 0.02, 1e-6


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def likeness(one, other):
    return (1 + cosine(one, other)) / 2


def weights_of(rows, node, vectors, question, query_weight):
    """The neighbours of a node with the weights of the edges to them for the question, equation 5c."""
    weights = {}
    for source, target, weight in rows:
        if source != target and node in (source, target):
            other = target if node == source else source
            asked = likeness(vectors[node], question) + likeness(vectors[other], question)
            share = weight * likeness(vectors[node], vectors[other]) * (1 + query_weight * asked)
            weights[other] = weights.get(other, 0.0) + share
    return weights


def part_of(node, edges):
    """The nodes that positive weights of the edges read so far connect with a node."""
    part, left = {node}, [node]
    while left:
        here = left.pop()
        for one, near in edges.items():
            for other, weight in near.items():
                for end, far in ((one, other), (other, one)):
                    if weight > 0 and end == here and far not in part:
                        part.add(far)
                        left.append(far)
    return part


def ranked(nodes, value):
    """Nodes by a value, the largest first; those whose values differ only by rounding keep their order."""
    left, result = sorted(nodes, key=lambda node: -value[node]), []
    while left:
        first = value[left[0]]
        run = [node for node in left if first - value[node] <= ROUNDING * abs(first)]
        result += [node for node in nodes if node in run]
        left = left[len(run) :]
    return result


def diffuse(seeds, rows, vectors, question, mass, query_weight, rounds):
    """Nodes that hold mass, as (node, score, path), and whether the flow came to rest."""
    near = {node: weights_of(rows, node, vectors, question, query_weight) for node in range(len(vectors))}
    capacity = {node: max(len(near[node]), 1) for node in near}
    held = {seed: mass * capacity[seed] for seed in sorted(seeds)}
    score, path, read = dict.fromkeys(held, 0.0), {seed: (seed,) for seed in held}, {}
    for _ in range(rounds):
        over = [node for node in held if held[node] > capacity[node] + EPSILON]
        for node in over:
            if node not in read:
                read[node] = near[node]
        for node in sorted({other for one in over for other in near[one]} - held.keys()):
            first = next(one for one in held if one in over and node in near[one])
            held[node], score[node], path[node] = 0.0, 0.0, (*path[first], node)
        sending = []
        for node in over:
            part = part_of(node, read)
            full = all(other in read for other in part) and sum(held[other] - capacity[other] for other in part) > EPSILON
            if not full:
                sending.append(node)
        if not sending:
            break
        flows = []
        for node in sending:
            excess, total = held[node] - capacity[node], sum(near[node].values())
            score[node] += excess / total
            held[node] = capacity[node]
            flows += [(other, excess * weight / total) for other, weight in near[node].items()]
        for other, flow in flows:
            held[other] += flow
    else:
        return _listed(held, score, path), False
    return _listed(held, score, path), True


def _listed(held, score, path):
    nodes = sorted(node for node in held if held[node] > 0)
    return [(node, score[node], path[node]) for node in ranked(ranked(nodes, held), score)]
