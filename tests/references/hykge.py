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


def chains_of(rows, anchors):
    """Chains of one or two edges between anchors, or the edges of a single one, as (nodes, steps)."""
    steps = {anchor: steps_of(rows, anchor) for anchor in anchors}
    if len(anchors) == 1:
        (only,) = anchors
        return [([only, far], [steps[only][far]]) for far in sorted(steps[only])]
    chains = []
    for place, one in enumerate(anchors):
        for other in anchors[place + 1 :]:
            if other in steps[one]:
                chains.append(([one, other], [steps[one][other]]))
            for middle in sorted(set(steps[one]) & set(steps[other]) - {one, other}):
                relation, ahead = steps[other][middle]
                chains.append(([one, middle, other], [steps[one][middle], (relation, not ahead)]))
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


def retrieve(question, hypothesis, anchors, rows, name, score, most, window, overlap):
    """Nodes with their scores and paths: of the best chains in order, then the other anchors."""
    texts = [question, *([*parts(hypothesis, window, overlap), hypothesis] if hypothesis else [])]
    chains = chains_of(rows, anchors)
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
