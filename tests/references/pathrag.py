"""PathRAG's paths written out: depth-first search, resources in dictionaries (Chen et al., arXiv:2502.14902, and its code).

The published code adds resources up while it walks sets; here they are added up level by level.
"""


def simple_paths(neighbours, start, end, longest=3, walkable=lambda node: True):
    """Every path of 1 to `longest` edges from start to end that visits no node twice; the start need not be walkable."""
    found = []

    def walk(path):
        for node in sorted(neighbours.get(path[-1], ())):
            if node in path or not walkable(node):
                continue
            if node == end:
                found.append((*path, node))
            elif len(path) < longest:
                walk((*path, node))

    walk((start,))
    return found


def reliabilities(paths, alpha=0.8, theta=0.3):
    """The mean resource of the edges of each path, for all paths of one start and one end."""
    follow = {}
    for path in paths:
        for a, b in zip(path, path[1:], strict=False):
            follow.setdefault(a, set()).add(b)
    start, end = paths[0][0], paths[0][-1]
    first = {(start, b): 1 / len(follow[start]) for b in follow[start]}
    second, third = {}, {}
    for (_, b), resource in sorted(first.items()):
        if b != end and resource > theta:
            for c in follow[b]:
                second[b, c] = alpha * resource / len(follow[b])
    for (_, c), resource in sorted(second.items()):
        if c != end and resource > theta:
            for d in follow[c]:
                third[c, d] = third.get((c, d), 0) + alpha * resource / len(follow[c])
    total = {edge: sum(level.get(edge, 0) for level in (first, second, third)) for edge in first | second | third}
    return [sum(total.get(edge, 0) for edge in zip(p, p[1:], strict=False)) / (len(p) - 1) for p in paths]


def best_paths(neighbours, seeds, limit=15, alpha=0.8, theta=0.3, walkable=lambda node: True):
    """The best paths between seeds, in rank order, as (reliability, nodes); of paths through the same nodes only the best."""
    listed = []
    for i, start in enumerate(seeds):
        for j, end in enumerate(seeds):
            paths = simple_paths(neighbours, start, end, walkable=walkable) if i != j else []
            if paths:
                scores = reliabilities(paths, alpha, theta)
                listed += [(-round(score, 9), i, j, len(path), path) for score, path in zip(scores, paths, strict=True)]
    kept, seen = [], set()
    for score, _, _, _, path in sorted(listed):
        if frozenset(path) not in seen:
            seen.add(frozenset(path))
            kept.append((-score, path))
    return kept[:limit]


def node_order(paths, seeds):
    """Seeds and nodes of the paths in turns, each once, with the first path that has it, up to it."""
    trails = {}
    for _, path in paths:
        for place, node in enumerate(path):
            trails.setdefault(node, path[: place + 1])
    on_paths, order = list(trails), {}
    for place in range(max(len(seeds), len(on_paths))):
        for listed in (seeds, on_paths):
            if place < len(listed):
                order.setdefault(listed[place], trails.get(listed[place], (listed[place],)))
    return order
