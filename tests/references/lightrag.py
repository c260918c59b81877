"""LightRAG's order of entities, relations and chunks written out in lists (Guo et al., EMNLP Findings 2025, ``operate.py``).

A graph is a list of rows (source, target, weight); `chunks` maps an entity to the chunks linked to it, ascending.
"""


def degrees(rows):
    neighbours = {}
    for a, b, _ in rows:
        if a != b:
            neighbours.setdefault(a, set()).add(b)
            neighbours.setdefault(b, set()).add(a)
    return {node: len(others) for node, others in neighbours.items()}


def relations_of(entities, rows):
    """Numbers of the rows at some entities: by the degrees of both ends together, then by weight, then as they are first seen."""
    degree = degrees(rows)
    found = list(dict.fromkeys(n for entity in entities for n, (a, b, _) in enumerate(rows) if entity in (a, b)))
    return sorted(found, key=lambda n: (-degree.get(rows[n][0], 0) - degree.get(rows[n][1], 0), -rows[n][2]))


def turns(*lists):
    """One of each list in turn, each item once."""
    merged = {}
    for place in range(max(map(len, lists), default=0)):
        for each in lists:
            if place < len(each):
                merged.setdefault(each[place])
    return list(merged)


def within(items, tokens, budget):
    """The items before their tokens exceed the budget."""
    kept, used = [], 0
    for item in items:
        used += tokens[item]
        if used > budget:
            break
        kept.append(item)
    return kept


def owned(item_chunks, taken=None):
    """Of each item that counts, the chunks that no earlier item has and that are not taken: the most frequent first.

    Entities, for which nothing is taken, count if they have chunks; relations if they have such chunks.
    """
    times, mine = {}, []
    for listed in item_chunks:
        mine.append([])
        for chunk in sorted(set(listed) - set(taken or ())):
            times[chunk] = times.get(chunk, 0) + 1
            if times[chunk] == 1:
                mine[-1].append(chunk)
    counted = item_chunks if taken is None else mine
    kept = [own for own, listed in zip(mine, counted, strict=True) if listed]
    return [sorted(own, key=lambda chunk: (-times[chunk], chunk)) for own in kept]


def by_vector(item_chunks, similarity, taken=None, related=5):
    listed = owned(item_chunks, taken)
    pool = sorted({chunk for mine in listed for chunk in mine}, key=lambda chunk: (-similarity[chunk], chunk))
    return pool[: int(related * len(listed) / 2)]


def by_weight(item_chunks, taken=None, related=5):
    """Quotas that fall evenly from `related` to 1; what is left over goes to the first items that have more."""
    listed = owned(item_chunks, taken)
    n = len(listed)
    quotas = [round(related - i / (n - 1) * (related - 1)) for i in range(n)] if n > 1 else [related] * n
    picked = [chunk for quota, mine in zip(quotas, listed, strict=True) for chunk in mine[:quota]]
    used = [min(quota, len(mine)) for quota, mine in zip(quotas, listed, strict=True)]
    for _ in range(sum(quotas) - sum(used)):
        for number, mine in enumerate(listed):
            if used[number] < len(mine):
                picked.append(mine[used[number]])
                used[number] += 1
                break
    return picked


def retrieve(mode, near, near_relations, near_chunks, rows, chunks, similarity, tokens, *, pick, budgets):
    """Nodes in order, and relations in order.

    `near`, `near_relations` and `near_chunks` are the results of the three searches, `chunks` is None if every node is its own
    chunk; `tokens` are those of nodes and of rows; `similarity` are the scores of nodes.
    """
    local = (near, relations_of(near, rows))
    # First seen, source before target.
    wide = (list(dict.fromkeys(node for n in near_relations for node in rows[n][:2])), near_relations)
    parts = {"local": [local], "global": [wide]}.get(mode, [local, wide])
    entities, relations = (turns(*(part[kind] for part in parts)) for kind in (0, 1))
    kept = within(entities, tokens[0], budgets[0])
    walked = within(relations, tokens[1], budgets[1])
    if chunks is None:
        of_entities, of_relations = [[node] for node in kept], [list({*rows[n][:2]}) for n in walked]
    else:
        of_entities = [chunks.get(node, []) for node in kept]
        ends = [(set(chunks.get(rows[n][0], [])), set(chunks.get(rows[n][1], []))) for n in walked]
        of_relations = [sorted(a & b) for a, b in ends]
    choose = (lambda items, taken=None: by_vector(items, similarity, taken)) if pick == "vector" else by_weight
    first = choose(of_entities)
    lists = [first, choose(of_relations, first)]
    if mode == "mix":
        lists.insert(0, near_chunks)
    return list(dict.fromkeys([*turns(*lists), *entities])), relations
