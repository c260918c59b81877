"""Forward push written out over dictionaries, one node at a time (Andersen, Chung and Lang, FOCS 2006, section 3).

Edges are (a, b, weight). The walk is not lazy: a push passes on all that it does not settle. A node without edges passes it on to
the restart distribution.
"""


def push(edges, restart, damping, epsilon):
    """Shares and residuals by node, when no residual is above epsilon times the number of neighbours of its node."""
    links = {}
    for a, b, weight in edges:
        if a != b:
            for near, far in ((a, b), (b, a)):
                links.setdefault(near, {})
                links[near][far] = links[near].get(far, 0.0) + weight
    start = {node: weight / sum(restart.values()) for node, weight in restart.items() if weight > 0}
    shares, residuals = {}, dict(start)
    while True:
        above = [node for node, rest in residuals.items() if rest > epsilon * max(len(links.get(node, {})), 1)]
        if not above:
            return shares, residuals
        node = min(above)
        rest = residuals.pop(node)
        shares[node] = shares.get(node, 0.0) + (1 - damping) * rest
        near = links.get(node) or start
        for other, weight in near.items():
            residuals[other] = residuals.get(other, 0.0) + damping * rest * weight / sum(near.values())
