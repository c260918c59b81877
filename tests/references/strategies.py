"""DataStax's strategies written out over dictionaries: eager, scored and MMR traversal from given start nodes.

As graph-retriever 0.8.0 behaves with links as edges: a neighbour is offered once, the best `adjacent_k` of a round are looked
at, start nodes among them take a place. Stated departures: ties go to the lower node, the depth of a node is its own.
"""

import math


def _offer(visited, depth, cosine, adjacent, offered, found, adjacent_k, max_depth):
    """New nodes that the nodes of a round lead to, best first; `depth`, `offered` and `found` are brought up to date."""
    reached = {}
    for node in visited:
        if max_depth is None or depth[node] < max_depth:
            for other in adjacent.get(node, ()):
                if other not in offered:
                    reached[other] = min(reached.get(other, math.inf), depth[node] + 1)
    offered |= set(reached)
    best = sorted(reached, key=lambda n: (-cosine[n], n))[:adjacent_k]
    new = [node for node in best if node not in found]
    depth.update({node: reached[node] for node in new})
    found |= set(new)
    return new


def eager(start, cosine, adjacent, *, select_k, adjacent_k, max_depth=None):
    depth, offered, found, selected, new = dict.fromkeys(start, 0), set(), set(start), [], list(start)
    while new and len(selected) < select_k:
        selected += new
        new = _offer(new, depth, cosine, adjacent, offered, found, adjacent_k, max_depth)
    return selected[:select_k]


def scored(start, cosine, adjacent, score, *, select_k, adjacent_k, max_depth=None, per_iteration_limit=None):
    depth, offered, found, selected, new = dict.fromkeys(start, 0), set(), set(start), [], list(start)
    waiting = []
    while len(selected) < select_k:
        waiting += new
        limit = min(select_k - len(selected), per_iteration_limit or select_k)
        visited = []
        while waiting and limit > 0:
            node = min(waiting, key=lambda n: (-score[n], n))
            waiting.remove(node)
            visited.append(node)
            limit -= max_depth is None or depth[node] < max_depth
        selected += visited
        if not visited:
            break
        new = _offer(visited, depth, cosine, adjacent, offered, found, adjacent_k, max_depth)
    return sorted(selected, key=lambda n: -score[n])[:select_k]


def mmr(start, cosine, between, adjacent, *, select_k, adjacent_k, lambda_mult, min_mmr_score=-math.inf, max_depth=None):
    """`between` maps two nodes to their cosine. Returns nodes and the scores with which they were visited."""
    depth, offered, found, selected, scores = dict.fromkeys(start, 0), set(), set(start), [], []
    redundancy = dict.fromkeys(start, 0.0)
    while redundancy and len(selected) < select_k:
        value = {n: lambda_mult * cosine[n] - (1 - lambda_mult) * r for n, r in redundancy.items()}
        best = max(value.values())
        if best < min_mmr_score - 1e-6:
            break
        node = min(n for n in value if value[n] >= best - 1e-6)
        selected.append(node)
        scores.append(value[node])
        del redundancy[node]
        redundancy = {n: max(r, between(n, node)) for n, r in redundancy.items()}
        for new in _offer([node], depth, cosine, adjacent, offered, found, adjacent_k, max_depth):
            redundancy[new] = max(between(new, old) for old in selected)
    return selected, scores
