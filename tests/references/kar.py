"""KAR (Xia et al., NAACL 2025, section 3) written out: entities, related documents, triples, the expanded question."""

import math


def cosine(one, other):
    lengths = math.dist(one, [0] * len(one)) * math.dist(other, [0] * len(other))
    return round(sum(a * b for a, b in zip(one, other, strict=True)) / lengths, 9) + 0.0 if lengths else 0.0


def nearest(vector, vectors):
    """The document of an entity: the most similar one, of equal ones the first."""
    return min(range(len(vectors)), key=lambda node: (-cosine(vector, vectors[node]), node))


def related(node, edges, hops):
    """The nodes within some edges of a node, each with the relations on a shortest way, by the lowest nodes and edges."""
    ways, front = {node: []}, [node]
    for _ in range(hops):
        reached = {}
        for near in sorted(front):
            for source, target, relation in edges:
                if near == source and target not in ways:
                    reached.setdefault(target, [*ways[near], f"-[{relation}]->"])
                elif near == target and source not in ways:
                    reached.setdefault(source, [*ways[near], f"<-[{relation}]-"])
        ways |= reached
        front = list(reached)
    del ways[node]
    return ways


def triples(question, entities, vectors, edges, embed, hops=2, neighbors=10):
    """Each entity's node once, with (relations, neighbour) of the neighbours most similar to the question."""
    found = {}
    for entity in (question, *entities):
        node = nearest(embed(entity), vectors)
        ways = related(node, edges, hops)
        kept = sorted(ways, key=lambda other: (-cosine(embed(question), vectors[other]), other))[:neighbors]
        found.setdefault(node, [(" ".join(ways[other]), other) for other in kept])
    return found


def search(question, expansion, vectors, embed):
    """Nodes by their cosine with the question and its expansion, and the cosines."""
    vector = embed("\n".join((question, *expansion)))
    scores = [cosine(vector, other) for other in vectors]
    return sorted(range(len(vectors)), key=lambda node: (-scores[node], node)), scores
