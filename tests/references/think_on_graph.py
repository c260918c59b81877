"""Think-on-Graph's beam search written out (Sun et al., ICLR 2024, section 2).

A graph is a list of rows (source, relation, target). `relation_scores` maps an entity and its relations, as (name, outgoing), to
their scores; `entity_scores` an entity, a relation and the entities that it leads to; `suffices` the numbers of rows so far to
whether they answer the question.
"""


def neighbours(rows, entity, relation, outgoing):
    """The entities that a relation leads to, with the number of the first row that does, by entity."""
    found = {}
    for number, (source, name, target) in enumerate(rows):
        near, far = (source, target) if outgoing else (target, source)
        if near == entity and far != entity and name == relation:
            found.setdefault(far, number)
    return dict(sorted(found.items()))


def best(scored, count):
    """The first items by falling score; of equal ones the first listed."""
    return sorted(scored, key=lambda item: -item[0])[:count]


def search(topics, rows, relation_scores, entity_scores, suffices, width, depth, product=True):
    """The entities of all rounds, as (score, path of entities), best first; then the topics."""
    beam = [(topic, (topic,), None) for topic in topics]
    walked, facts = [], []
    for _ in range(depth):
        candidates = []
        for entity, path, before in beam:
            options = []
            for name in sorted({name for _, name, _ in rows}):
                for outgoing in (True, False):
                    reached = neighbours(rows, entity, name, outgoing)
                    if before is not None and before[1] == name:
                        reached.pop(before[0], None)
                    if reached:
                        options.append((name, outgoing, reached))
            scores = relation_scores(entity, [option[:2] for option in options])
            for score, (name, outgoing, reached) in best(list(zip(scores, options, strict=True)), width):
                own = entity_scores(entity, (name, outgoing), list(reached))
                for value, (far, number) in zip(own, reached.items(), strict=True):
                    candidates.append((score * value if product else value, far, path + (far,), (entity, name), number))
        # By score, of equal ones the lower entity; each entity once.
        candidates.sort(key=lambda item: (-round(item[0], 9), item[1]))
        once = {}
        for candidate in candidates:
            once.setdefault(candidate[1], candidate)
        chosen = [each for each in list(once.values())[:width] if each[0] > 0 or not product]
        if not chosen:
            break
        walked += [(score, path) for score, _, path, _, _ in chosen]
        facts += [number for *_, number in chosen]
        beam = [(far, path, before) for _, far, path, before, _ in chosen]
        if suffices(facts):
            break
    result, seen = [], set()
    # Of each entity the first path counts.
    first = {}
    for score, path in walked:
        first.setdefault(path[-1], (score, path))
    for score, path in sorted(first.values(), key=lambda item: -round(item[0], 9)):
        result.append((score, path))
        seen.add(path[-1])
    return result + [(None, (topic,)) for topic in topics if topic not in seen]
