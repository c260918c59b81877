"""Think-on-Graph 2.0 written out (Ma et al., ICLR 2025, section 3).

A graph is a list of types and a list of rows (source, relation, target); nodes of the type "passage" are texts, others entities.
`relation_scores` maps an entity and its relations, as (name, outgoing), to their scores, `text_score` the question with its clue
and a text to a number, and `judged` the texts of a round to None if they suffice, or to a clue.
"""

import math

from tests.references.think_on_graph import best, neighbours

TEXT = "passage"


def linked(rows, types, entity):
    """The texts of an entity besides itself, ascending."""
    return sorted(
        {b if a == entity else a for a, _, b in rows if entity in (a, b) and a != b and types[b if a == entity else a] == TEXT}
    )


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


def search(topics, rows, types, name, read, relation_scores, text_score, judged, width, depth, most, decay):
    """Nodes in order, each with its path of nodes: the texts of all rounds, the entities of the beams, the topics."""
    beam, clue, told, entities = [(topic, (topic,), None) for topic in topics], "", [], []
    for _ in range(depth):
        candidates = []
        for entity, path, before in beam:
            options = []
            for relation in sorted({relation for _, relation, _ in rows}):
                for outgoing in (True, False):
                    reached = [node for node in neighbours(rows, entity, relation, outgoing) if types[node] != TEXT]
                    if before is not None and before[1] == relation:
                        reached = [node for node in reached if node != before[0]]
                    if reached:
                        options.append((relation, outgoing, reached))
            scores = relation_scores(entity, [option[:2] for option in options], clue)
            for _, (relation, outgoing, reached) in best(list(zip(scores, options, strict=True)), width):
                way = f"{name(entity)} {relation or 'is linked to'}{'' if outgoing else ' (from it)'}"
                for far in reached:
                    if far not in [other for other, *_ in candidates]:
                        candidates.append((far, path + (far,), (entity, relation), way))
        texts = []
        for far, path, _, way in candidates:
            texts.append((far, far, path, f"{way} {name(far)}: {read(far)}"))
        for far, path, _, way in candidates:
            texts += [(far, node, path + (node,), f"{way} {name(far)}: {read(node)}") for node in linked(rows, types, far)]
        # By score, of equal ones the lower node, then as listed.
        scored = [(text_score(clue, text), node, far, path) for far, node, path, text in texts]
        scored = sorted(scored, key=lambda item: (-round(item[0], 6), item[1]))[:most]
        if scored and min(item[0] for item in scored) < 0:
            scored = [(sigmoid(score), *rest) for score, *rest in scored]
        total = {far: 0.0 for far, *_ in candidates}
        for place, (score, _, far, _) in enumerate(scored, 1):
            total[far] += score * math.exp(-decay * place)
        chosen = [far for far in sorted(total, key=lambda far: (-round(total[far], 9), far)) if total[far] > 0][:width]
        kept = [item for item in scored if item[2] in chosen]
        if not kept:
            break
        told += kept
        ways = {far: (path, before) for far, path, before, _ in candidates}
        beam = [(far, *ways[far]) for far in chosen]
        entities += [(far, ways[far][0]) for far in chosen]
        clue = judged([node for _, node, _, _ in kept])
        if clue is None:
            break
    result = {}
    for _, node, _, path in sorted(told, key=lambda item: (-round(item[0], 6), item[1])):
        result.setdefault(node, path)
    for far, path in entities:
        result.setdefault(far, path)
    for topic in topics:
        result.setdefault(topic, (topic,))
    return list(result.values())
