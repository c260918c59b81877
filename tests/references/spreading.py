"""Query-aware spreading activation written out over dictionaries, and chains by naive depth-first search.

Equations 1 and 2 and Algorithm 1 of Glybovets and Makarov as they are printed; `semantics="rows"` sums over
relationship rows, as the paper's database query does.
"""


def adjacency(edges, semantics="set"):
    """Neighbours of each node: each once, or once for every row that joins them."""
    table = {}
    for a, b in edges:
        if a != b:
            table.setdefault(a, []).append(b)
            table.setdefault(b, []).append(a)
    if semantics == "set":
        return {node: sorted(set(others)) for node, others in table.items()}
    return {node: sorted(others) for node, others in table.items()}


def relations_between_entities(edges, types, texts):
    """The edges of the traversal: not those at documents and paragraphs, which mention entities (Figure 2)."""
    return [(a, b) for a, b in edges if types[a] not in texts and types[b] not in texts]


def spread(neighbours, seeds, gate, steps=3, decay=0.7, threshold=0.01, walkable=lambda node: True, degree=None):
    """Activation of every touched node, and the parent of each at its first arrival.

    `seeds` maps a node to its matching score, `gate` a node to sigma; a node that `gate` lacks cannot receive. With `degree`,
    which the paper does not have, a node gives each neighbour its activation divided by its degree.
    """
    top = max(seeds.values(), default=1)
    activation = {node: score / top for node, score in seeds.items() if score > 0}
    parents = {node: None for node in activation}
    for _ in range(steps):
        incoming, givers = {}, {}
        for u, level in activation.items():
            if level <= threshold:
                continue
            for v in neighbours.get(u, ()):
                if v in gate and walkable(v) and level > activation.get(v, 0):
                    given = level / degree[u] if degree else level
                    incoming[v] = incoming.get(v, 0) + given
                    givers.setdefault(v, set()).add((-given, u))
        gained = {v: decay * max(gate[v], 0) * total for v, total in incoming.items()}
        for v, gain in gained.items():
            if gain > threshold:
                parents.setdefault(v, min(givers[v])[1])
                activation[v] = activation.get(v, 0) + gain
    return activation, parents


def all_chains(neighbours, seeds, activation, length=4):
    """Every simple path of 1 to `length` edges from a seed through touched nodes: (mean activation, nodes)."""
    found = []

    def walk(path, total):
        for v in neighbours.get(path[-1], ()):
            if v in activation and v not in path:
                longer = (*path, v)
                found.append(((total + activation[v]) / len(longer), longer))
                if len(longer) <= length:
                    walk(longer, total + activation[v])

    for seed in sorted(seeds):
        if seed in activation:
            walk((seed,), activation[seed])
    return found


def ranked(chains, digits=9):
    """Chains by mean, of equal ones the shorter and then the lower first."""
    return sorted(chains, key=lambda c: (-round(c[0], digits), len(c[1]), c[1]))


def deduped(chains):
    """What is left of (mean, nodes) pairs, best first, once reversed and absorbed chains are dropped."""
    seen, kept = set(), []
    for mean, nodes in chains:
        if nodes not in seen and nodes[::-1] not in seen:
            seen.add(nodes)
            kept.append((mean, nodes))
    longer = {}
    for _, nodes in kept:
        for n in range(1, len(nodes)):
            longer[nodes[:n]] = True
            longer[nodes[::-1][:n]] = True
    return [(mean, nodes) for mean, nodes in kept if nodes not in longer]


def best_chains(neighbours, seeds, activation, limit=30, length=4, dedupe="after_limit"):
    """The chains of the published code ("after_limit"), or of the paper's text ("before_limit")."""
    chains = ranked(all_chains(neighbours, seeds, activation, length))
    if dedupe == "after_limit":
        return deduped(chains[:limit])
    return deduped(chains)[:limit]
