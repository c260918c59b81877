"""MoR's mixed traversal (section 3.2), written out node by node over dictionaries, as the paper states it.

Stated rules: of several ways to a node that counts which starts in the earliest layer, then that from the best
matching start, then that over the parent of lowest number; so reaching by an edge beats reaching by text. Over the
paths, the longest trajectory wins and the first path of equal ones. A start given by its exact title is never walked
back to.
"""


def walk(path, types, edges, seeds, matches, banned=(), check_types=True):
    """Return node -> trajectory at the last layer of one path.

    `path` is a list of (type, relation or None), `edges` a list of (node, relation, node), `matches` maps a layer
    to the nodes that textual matching adds there.
    """
    frontier = {node: ((0, place), [node]) for place, node in enumerate(seeds)}
    for layer in range(1, len(path)):
        kind, relation = path[layer]
        ways = {}
        for node in frontier:
            rank, trail = frontier[node]
            for a, r, b in edges:
                for near, far in ((a, b), (b, a)):
                    fits = (relation is None or r == relation) and (not check_types or types[far] == kind)
                    if near == node and fits and far not in banned:
                        ways.setdefault(far, []).append((rank, node, [*trail, far]))
        for place, node in enumerate(matches.get(layer, ())):
            if node not in banned:
                ways.setdefault(node, []).append(((layer, place), -1, [node]))
        frontier = {node: (min(found)[0], min(found)[2]) for node, found in ways.items()}
    return {node: trail for node, (_, trail) in frontier.items()}


def merge(found):
    """Return node -> trajectory over the results of all paths."""
    found = [result for result in found if result]
    if not found:
        return {}
    shared = set(found[0]).intersection(*found[1:])
    kept = shared or set().union(*found)
    merged = {}
    for node in kept:
        ways = [result[node] for result in found if node in result]
        longest = max(len(way) for way in ways)
        merged[node] = next(way for way in ways if len(way) == longest)
    return merged


def candidates(merged, filler, score, limit):
    """Return nodes by score (ties to the lower number): the merged ones, filled up from `filler`, cut to `limit`."""
    nodes = list(merged)
    for node in filler:
        if len(nodes) < limit and node not in merged:
            nodes.append(node)
    return sorted(nodes, key=lambda node: (-score(node), node))[:limit]


def fingerprints(trajectory, types, restricted, plain, final, length=3):
    """Return textual, structural and traversal fingerprint of one trajectory.

    `restricted` is the similarity of its first node to query and restriction, `plain` maps a node to its similarity
    to the query alone.
    """
    scores = [restricted, *(plain(node) for node in trajectory[1:])]
    seen, scores = trajectory[-length:], scores[-length:]
    pads = length - len(seen)
    text = [0.0] * pads + scores + [final]
    structure = " ".join(["padding"] * pads + [types[node] for node in seen])
    identifier = [2] * pads + [0] + [1] * (len(seen) - 1)
    return text, structure, identifier
