"""Think-on-Graph 2.0 written out (Ma et al., ICLR 2025, section 3).

A graph is a list of types and a list of rows (source, relation, target); nodes of the type "passage" are texts, others entities.
`topic_prune` maps topics to those that are kept, `relation_scores` an entity and its relations, as (name, outgoing), with the clue,
to their scores, `text_score` the clue and a text to a number, and `judged` the texts so far and the clue to None if they suffice,
or to a clue. `least` is the score below which a relation is not followed; None if a relevance model scores relations.
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


def best_texts(entities, rows, types, read, text_score, clue, most):
    """The best texts of entities, given as (entity, path, way), as (score, node, entity, path, what is read)."""
    texts = [(node, node, path, way + read(node)) for node, path, way in entities]
    for entity, path, way in entities:
        texts += [(entity, node, path + (node,), way + read(node)) for node in linked(rows, types, entity)]
    scored = [(text_score(clue, text), node, entity, path, text) for entity, node, path, text in texts]
    # By score, of equal ones the lower node, then as listed.
    return sorted(scored, key=lambda item: (-round(item[0], 6), item[1]))[:most]


def followed_relations(entity, before, rows, types, scores_of, clue, width, least):
    """The relations of an entity that are followed, as (name, outgoing, entities that it leads to)."""
    options = []
    for relation in sorted({relation for _, relation, _ in rows}):
        for outgoing in (True, False):
            ends = [node for node in neighbours(rows, entity, relation, outgoing) if types[node] != TEXT]
            if before is not None and before[1] == relation:
                ends = [node for node in ends if node != before[0]]
            if ends:
                options.append((relation, outgoing, ends))
    scores = scores_of(entity, [option[:2] for option in options], clue)
    chosen = best(list(zip(scores, options, strict=True)), width)
    if least is not None and scores:
        chosen = [item for item in chosen if item[0] > 0 and (item[0] >= least or max(scores) < least and item[0] == max(scores))]
    return [option for _, option in chosen]


def once(texts):
    """Each text once, by its best score, best first."""
    found = {}
    for item in sorted(texts, key=lambda item: (-round(item[0], 6), item[1])):
        found.setdefault(item[1], item)
    return list(found.values())


def search(
    topics, rows, types, name, read, topic_prune, relation_scores, text_score, judged, *, width, depth, most, decay, least=None
):
    """Nodes in order, as (score, path): texts by score, then entities of the beams and the topics, without a score."""
    starts = topics
    if len(topics) > 2:
        starts = topic_prune(topics) or topics
    clue, entities = "", []
    beam = [(topic, (topic,), None) for topic in starts]
    texts = once(best_texts([(topic, path, "") for topic, path, _ in beam], rows, types, read, text_score, clue, most))
    for _ in range(depth):
        clue = judged([item[4] for item in texts[:most]], clue)
        if clue is None:
            break
        candidates = {}
        for entity, path, before in beam:
            followed = followed_relations(entity, before, rows, types, relation_scores, clue, width, least)
            for relation, outgoing, ends in followed:
                for far in ends:
                    first, last = (entity, far) if outgoing else (far, entity)
                    fact = f"{name(first)} {relation or 'is linked to'} {name(last)}: "
                    candidates.setdefault(far, (path + (far,), (entity, relation), fact))
        listed = [(far, path, fact) for far, (path, _, fact) in candidates.items()]
        scored = best_texts(listed, rows, types, read, text_score, clue, most)
        negative = any(item[0] < 0 for item in scored)
        total = dict.fromkeys(candidates, 0.0)
        for place, (score, _, entity, _, _) in enumerate(scored, 1):
            total[entity] += (sigmoid(score) if negative else score) * math.exp(-decay * place)
        chosen = [far for far in sorted(total, key=lambda far: (-round(total[far], 9), far))[:width] if total[far] > 0]
        if not chosen:
            break
        texts = once(texts + [item for item in scored if item[2] in chosen])
        beam = [(far, *candidates[far][:2]) for far in chosen]
        entities += [(far, candidates[far][0]) for far in chosen]
    result = {node: (score, path) for score, node, _, path, _ in texts}
    for far, path in entities:
        result.setdefault(far, (None, path))
    for topic in topics:
        result.setdefault(topic, (None, (topic,)))
    return list(result.values())
