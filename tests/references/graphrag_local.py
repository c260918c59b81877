"""The order of GraphRAG's local search written out (its public code: mixed_context.py, source_context.py, local_context.py).

A graph is a list of types and a list of rows (source, target). `selected` are the entities that vector search found, best first.
"""

TEXT, REPORT = "passage", "community"


def neighbours(rows, node, types, kind):
    """The distinct neighbours of a node of a type, ascending."""
    near = {b if a == node else a for a, b in rows if node in (a, b)} - {node}
    return sorted(other for other in near if types[other] == kind)


def texts(selected, rows, types):
    """Texts with the entity that each belongs to: by entity, then by how many of its relationships they contain."""
    listed, seen = [], set()
    for order, entity in enumerate(selected):
        relationships = [pair for pair in rows if entity in pair and pair[0] != pair[1]]
        relationships = [pair for pair in relationships if not {types[pair[0]], types[pair[1]]} & {TEXT, REPORT}]
        for text in neighbours(rows, entity, types, TEXT):
            if text not in seen:
                seen.add(text)
                contained = sum(
                    text in neighbours(rows, a, types, TEXT) and text in neighbours(rows, b, types, TEXT) for a, b in relationships
                )
                listed.append((order, -contained, text))
    return [(text, selected[order]) for order, _, text in sorted(listed)]


def reports(selected, rows, types):
    """Reports on the communities of most entities first."""
    matches = {}
    for entity in selected:
        for report in neighbours(rows, entity, types, REPORT):
            matches[report] = matches.get(report, 0) + 1
    return sorted(matches, key=lambda report: (-matches[report], report))


def relationships(selected, rows, types, budget):
    """Numbers of the relationships within the selected entities, then of the first with others."""
    between = [n for n, (a, b) in enumerate(rows) if a != b and not {types[a], types[b]} & {TEXT, REPORT}]
    near = {}
    for n in between:
        for one, other in (rows[n], rows[n][::-1]):
            near.setdefault(one, set()).add(other)
    rank = {n: len(near[rows[n][0]]) + len(near[rows[n][1]]) for n in between}
    inside = [n for n in between if set(rows[n]) <= set(selected)]
    outside = [n for n in between if len(set(rows[n]) & set(selected)) == 1]
    links = {}
    for n in outside:
        (far,) = set(rows[n]) - set(selected)
        links[n] = len(near[far] & set(selected))
    inside.sort(key=lambda n: (-rank[n], n))
    outside.sort(key=lambda n: (-links[n], -rank[n], n))
    return inside + outside[: budget * len(selected)]
