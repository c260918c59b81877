"""HyKGE's chains and their reranking written out (Jiang et al., 2024, section 4).

A graph is a list of rows (source, relation, target).
"""


def steps_of(rows, node):
    """The neighbours of a node with the first relation to each, as (relation, whether the edge leads away from the node)."""
    steps = {}
    for source, relation, target in rows:
        for near, far, ahead in ((source, target, True), (target, source, False)):
            if near == node and far != node:
                steps.setdefault(far, (relation, ahead))
    return steps


def turns(steps):
    """How often the direction of a chain changes: never on a path, once at a common source or target."""
    return sum(one[1] != other[1] for one, other in zip(steps, steps[1:], strict=False))


def chains_from(rows, node, hops):
    """All chains from a node of at most `hops` edges, without a node twice, as (nodes, steps)."""
    found, left = [], [([node], [])]
    while left:
        nodes, steps = left.pop(0)
        if len(steps) < hops:
            for far, step in steps_of(rows, nodes[-1]).items():
                if far not in nodes:
                    left.append(([*nodes, far], [*steps, step]))
                    found.append(left[-1])
    return found


def chains_of(rows, anchors, hops=2):
    """Paths, co-ancestor chains and co-occurrence chains between anchors, or the edges of a single one, as (nodes, steps)."""
    if len(anchors) == 1:
        return sorted(chains_from(rows, anchors[0], 1), key=lambda chain: chain[0][-1])
    chains = []
    for place, one in enumerate(anchors):
        for other in anchors[place + 1 :]:
            joining = [chain for chain in chains_from(rows, one, hops) if chain[0][-1] == other and turns(chain[1]) <= 1]
            chains += sorted(joining, key=lambda chain: (len(chain[0]), chain[0]))
    return chains


def text_of(nodes, steps, name):
    told = name(nodes[0])
    for node, (relation, ahead) in zip(nodes[1:], steps, strict=True):
        told += f" -{relation}-> {name(node)}" if ahead else f" <-{relation}- {name(node)}"
    return told


def parts(text, window, overlap):
    """Windows of a text, each beginning before the last characters of the one before."""
    found, start = [text[:window]], window - overlap
    while start + overlap < len(text):
        found.append(text[start : start + window])
        start += window - overlap
    return found


def retrieve(question, hypothesis, anchors, rows, name, score, most, window, overlap, hops=2):
    """Nodes with their scores and paths: of the best chains in order, then the other anchors."""
    texts = [question, *([*parts(hypothesis, window, overlap), hypothesis] if hypothesis else [])]
    chains = chains_of(rows, anchors, hops)
    scored = [(max(score(text, text_of(*chain, name)) for text in texts), chain) for chain in chains]
    scored.sort(key=lambda item: -item[0])
    found = {}
    for value, (nodes, _) in scored[:most]:
        for length, node in enumerate(nodes, 1):
            found.setdefault(node, (value, tuple(nodes[:length])))
    last = scored[:most][-1][0] if scored else 0.0
    for anchor in anchors:
        found.setdefault(anchor, (last, (anchor,)))
    return list(found.values())
