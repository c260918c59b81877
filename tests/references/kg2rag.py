"""KG2RAG's expansion and spanning trees written out (Zhu et al., NAACL 2025, sections 3.2 and 3.3).

A graph is a list of types and a list of rows (source, target). Nodes of the type "passage" are chunks, others entities; without
chunks among the types every node is a chunk, its own entity.
"""

CHUNK = "passage"


def near(rows, nodes):
    return {other for a, b in rows for one, other in ((a, b), (b, a)) if one in nodes} | set(nodes)


def expanded(seeds, rows, types, hops):
    """All chunks and entities that expansion reaches."""
    if CHUNK not in types:
        reached = set(seeds)
        for _ in range(hops):
            reached |= near(rows, reached)
        return reached, reached
    entities = {node for node in near(rows, seeds) if types[node] != CHUNK}
    for _ in range(hops):
        entities |= {node for node in near(rows, entities) if types[node] != CHUNK}
    return set(seeds) | {node for node in near(rows, entities) if types[node] == CHUNK}, entities


def facts_of(chunks, entities, rows, types, similarity):
    """Facts (weight, row, chunk, source, target): those that a chunk states."""
    found = []
    for row, (source, target) in enumerate(rows):
        if source == target or not {source, target} & set(entities):
            continue
        if CHUNK in types:
            if CHUNK in (types[source], types[target]):
                continue
            stated = {node for node in near(rows, [source]) & near(rows, [target]) if types[node] == CHUNK}
        else:
            stated = {source, target}
            if not stated <= set(chunks):
                continue
        found += [(similarity[chunk], row, chunk, source, target) for chunk in sorted(stated & set(chunks))]
    return found


def parts_of(facts):
    """Connected parts of the facts, by their lowest rows."""
    parts, left = [], list(facts)
    while left:
        nodes, part = {left[0][3], left[0][4]}, []
        while more := [fact for fact in left if {fact[3], fact[4]} & nodes]:
            part += more
            left = [fact for fact in left if fact not in more]
            nodes |= {node for fact in more for node in fact[3:]}
        parts.append(sorted(part, key=lambda fact: (fact[1], fact[2])))
    return parts


def tree_of(part):
    """Kruskal: the heaviest facts that join what is apart; of equal ones the lower row, then the lower chunk."""
    groups, tree = [{node} for node in {node for fact in part for node in fact[3:]}], []
    for fact in sorted(part, key=lambda fact: (-round(fact[0], 6), fact[1], fact[2])):
        one, other = (next(group for group in groups if node in group) for node in fact[3:])
        if one is not other:
            groups = [group for group in groups if group not in (one, other)] + [one | other]
            tree.append(fact)
    return tree


def walked(tree, stated):
    """Chunks in the order of a depth first walk from the heaviest fact."""
    order, seen = [], set()

    def visit(node):
        seen.add(node)
        if not stated:
            order.append(node)
        for fact in tree:
            if node in fact[3:]:
                other = fact[4] if fact[3] == node else fact[3]
                if other not in seen:
                    if stated:
                        order.append(fact[2])
                    visit(other)

    visit(tree[0][4] if tree[0][2] == tree[0][4] else tree[0][3])
    return list(dict.fromkeys(order))


def retrieve(seeds, rows, types, similarity, relevance, hops, most=100):
    """Chunks in order, at most `most`; `relevance` maps the rows of a tree to its score, None for no model of relevance."""
    chunks, entities = expanded(seeds, rows, types, hops)
    others = sorted(chunks - set(seeds), key=lambda chunk: (-round(similarity[chunk], 6), chunk))
    chunks = set(seeds) | set(others[: max(most - len(seeds), 0)])
    trees = [tree_of(part) for part in parts_of(facts_of(chunks, entities, rows, types, similarity))]
    if relevance is None:
        scores = [round(max(fact[0] for fact in tree), 6) for tree in trees]
    else:
        scores = [relevance(sorted({fact[1] for fact in tree})) for tree in trees]
    by = sorted(range(len(trees)), key=lambda place: (-scores[place], place))
    ranked = [chunk for place in by for chunk in walked(trees[place], CHUNK in types)]
    rest = sorted(set(chunks) - set(ranked), key=lambda chunk: (-round(similarity[chunk], 6), chunk))
    return list(dict.fromkeys(ranked)) + rest
