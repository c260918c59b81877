"""HybGRAG's retrievers and its rounds written out (Lee et al., ACL 2025, section 3).

A graph is a list of rows (source, relation, target). A route is None for the text retriever, or a list of (nodes of an entity,
relations to follow).
"""


def followed(rows, nodes, relation):
    """The nodes to which a relation leads, in the order of the nodes and then of the rows by their other end."""
    found = {}
    for node in nodes:
        ends = {b if a == node else a for a, name, b in rows if node in (a, b) and a != b and relation in (None, name)}
        for end in sorted(ends):
            found.setdefault(end)
    return list(found)


def graph(rows, entities, cosine):
    """The nodes to which the relations of all entities lead, the most similar first."""
    egos = []
    for nodes, relations in entities:
        for relation in relations or [None]:
            nodes = followed(rows, nodes, relation)
        egos.append(set(nodes))
    return sorted(set.intersection(*egos), key=lambda node: (-cosine[node], node))


def retrieve(rows, routes, correct, cosine, count):
    """Algorithm 1: `routes` and `correct` are what the router and the validator say in each round; and the rounds that were made.

    What is empty is not validated, nor is the last result; if that is empty, texts are searched.
    """
    texts = sorted(range(len(cosine)), key=lambda node: (-cosine[node], node))[:count]
    for number, route in enumerate(routes, 1):
        found = texts if route is None else graph(rows, route, cosine)[:count]
        if number == len(routes) or (found and correct[number - 1]):
            return found or texts, number
    return texts, 0
