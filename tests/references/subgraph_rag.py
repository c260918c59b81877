"""SubgraphRAG's directional distances, the triples around topics, and the labels of its training written out (section 3).

A graph is a list of rows (source, target), its nodes are 0 to n - 1.
"""

from itertools import pairwise


def distances(topics, rows, count, rounds):
    """Each node's encoding: whether it is a topic, then means over sources, round by round, then means over targets."""
    first = [[0.0, 1.0] if node in topics else [1.0, 0.0] for node in range(count)]
    told = [list(each) for each in first]
    for forward in (True, False):
        now = first
        for _ in range(rounds):
            after = []
            for node in range(count):
                read = [now[a if forward else b] for a, b in rows if (b if forward else a) == node]
                after.append([sum(part) / len(read) for part in zip(*read, strict=True)] if read else [0.0, 0.0])
            now = after
            told = [old + new for old, new in zip(told, now, strict=True)]
    return told


def hops_from(starts, rows):
    """The number of edges from the nearest start to each node that is reached."""
    reached = dict.fromkeys(starts, 0)
    while True:
        new = {other for a, b in rows for one, other in ((a, b), (b, a)) if one in reached and other not in reached}
        if not new:
            return reached
        reached |= dict.fromkeys(new, max(reached.values()) + 1)


def around(topics, rows, hops):
    """The numbers of the rows with an end that is less than `hops` edges from a topic."""
    reached = hops_from(topics, rows)
    return [row for row, (a, b) in enumerate(rows) if min(reached.get(a, hops), reached.get(b, hops)) < hops]


def shortest_paths(start, end, rows):
    """All shortest paths, as lists of nodes, along edges in either direction."""
    reached = hops_from([start], rows)
    if end not in reached:
        return []
    paths = [[end]]
    for _ in range(reached[end]):
        paths = [
            [one, *path]
            for path in paths
            for one in sorted({one for a, b in rows for one, other in ((a, b), (b, a)) if other == path[0]})
            if reached.get(one) == reached[path[0]] - 1
        ]
    return paths


def labels(topics, gold, rows):
    """Which rows join two nodes that follow each other on a shortest path from a topic to a relevant node."""
    steps = {
        frozenset(step)
        for topic in topics
        for node in gold
        for path in shortest_paths(topic, node, rows)
        for step in pairwise(path)
    }
    return [frozenset(row) in steps for row in rows]


def ranked(scores, rows, triples):
    """Nodes of the best triples with the score of their best one; of equal scores the lower row, and the lower node."""
    kept = sorted(range(len(rows)), key=lambda row: (-round(scores[row], 6), row))[:triples]
    best = {}
    for row in kept:
        for node in rows[row]:
            best[node] = max(best.get(node, scores[row]), scores[row])
    return sorted(best.items(), key=lambda item: (-round(item[1], 6), item[0]))
