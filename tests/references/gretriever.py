"""G-Retriever written out: prizes over lists, the graph that the solver gets, and the best tree by trying all sets of nodes."""


def node_prizes(similarities, count):
    """The `count` most similar nodes have `count`, ..., 1, the others 0."""
    order = sorted(range(len(similarities)), key=lambda node: (-similarities[node], node))
    prizes = [0.0] * len(similarities)
    count = min(count, len(similarities))
    for place in range(count):
        prizes[order[place]] = float(count - place)
    return prizes


def edge_prizes(similarities, count, fall=0.01):
    """Edges of equal similarity share k - j, and never more than (1 - fall) of what the ones before them have.

    k is the count, or the number of distinct similarities if there are fewer.
    """
    count = min(count, len(set(similarities)))
    prizes, last = [0.0] * len(similarities), float(count)
    for place, value in enumerate(sorted(set(similarities), reverse=True)[:count]):
        alike = [edge for edge, similarity in enumerate(similarities) if similarity == value]
        last = min((count - place) / len(alike), last)
        for edge in alike:
            prizes[edge] = last
        last *= 1 - fall
    return prizes


def edge_cost(prizes, cost, fall=0.01):
    """What an edge costs: a little less than the highest prize of an edge, if that is less than the cost."""
    return min(cost, max(prizes) * (1 - fall / 2)) if any(prizes) else cost


def worth(nodes, edges, ends, node_prize, edge_prize, cost):
    """Prizes less costs of a subgraph that holds all ends of its edges."""
    assert all({*ends[edge]} <= {*nodes} for edge in edges)
    return sum(node_prize[node] for node in nodes) + sum(edge_prize[edge] - cost for edge in edges)


def spanning(nodes, ends, costs):
    """A cheapest spanning tree of some nodes as edges; None if they are not connected."""
    group, tree = {node: node for node in nodes}, []

    def head(node):
        while group[node] != node:
            node = group[node]
        return node

    for edge in sorted(range(len(ends)), key=lambda edge: costs[edge]):
        a, b = ends[edge]
        if a in group and b in group and head(a) != head(b):
            group[head(a)] = head(b)
            tree.append(edge)
    return tree if len(tree) == len(nodes) - 1 else None


def most_worth(size, ends, prizes, costs):
    """The largest worth of any tree of a small graph: prizes of nodes less costs of edges, by trying all sets of nodes."""
    best = 0.0
    for number in range(1, 1 << size):
        nodes = [node for node in range(size) if number >> node & 1]
        tree = spanning(nodes, ends, costs)
        if tree is not None:
            best = max(best, sum(prizes[node] for node in nodes) - sum(costs[edge] for edge in tree))
    return best


def solver_graph(size, ends, node_prize, edge_prize, cost):
    """The graph with a node for each edge whose prize is above the cost; the last list has the edge of each new one."""
    made, prizes, costs, stands = [], list(node_prize), [], []
    for edge, (a, b) in enumerate(ends):
        if edge_prize[edge] <= cost:
            made, costs, stands = [*made, (a, b)], [*costs, cost - edge_prize[edge]], [*stands, edge]
        else:
            middle = len(prizes)
            prizes.append(edge_prize[edge] - cost)
            made, costs, stands = [*made, (a, middle), (middle, b)], [*costs, 0.0, 0.0], [*stands, edge, edge]
    return made, prizes, costs, stands


def question_graph(ends, node_similarities, edge_similarities, nodes, edges):
    """What stands for the graph of a question: all that hangs together with its best nodes and edges.

    Returns the nodes, the edges, and the prizes of all nodes and edges.
    """
    prizes = node_prizes(node_similarities, nodes)
    best = sorted(range(len(ends)), key=lambda edge: (-edge_similarities[edge], edge))[:edges]
    held = {node for node, prize in enumerate(prizes) if prize} | {node for edge in best for node in ends[edge]}
    while True:
        grown = held | {node for a, b in ends for node in (a, b) if a in held or b in held}
        if grown == held:
            break
        held = grown
    inside = [edge for edge, (a, b) in enumerate(ends) if a in held]
    shared = edge_prizes([edge_similarities[edge] for edge in inside], edges)
    gains = [0.0] * len(ends)
    for edge, gain in zip(inside, shared, strict=True):
        gains[edge] = gain
    return sorted(held), inside, prizes, gains
