"""LinearRAG written out over dictionaries: activation round by round, restart weights, and the walk by solving its equations.

Passages are lists of sentences, sentences lists of entities with repetitions; nodes of the walk are passages, then entities.
"""

from math import log

from tests.references.hipporag import pagerank


def activation(seeds, passages, similar, threshold, rounds):
    """Activations and levels of entities; `similar` has the cosine of each sentence, by (passage, place)."""
    active, level = dict(seeds), dict.fromkeys(seeds, 1)
    for number in range(2, rounds + 2):
        after = dict(active)
        for row, sentences in enumerate(passages):
            for place, sentence in enumerate(sentences):
                strength = max(similar[row, place], 0.0) * max((active.get(entity, 0.0) for entity in sentence), default=0.0)
                for entity in sentence:
                    if entity in active or strength > threshold:
                        after[entity] = max(after.get(entity, 0.0), strength)
                        level.setdefault(entity, number)
        if after == active:
            break
        active = after
    return active, level


def restart(active, level, passages, cosines, entities, similarity_weight, passage_weight):
    """Restart weights of passages, then of entities."""
    weights = []
    for row, sentences in enumerate(passages):
        named = [entity for sentence in sentences for entity in sentence]
        total = sum(active[e] * log(1 + named.count(e)) / level[e] for e in active if e in named)
        weights.append(passage_weight * (similarity_weight * max(cosines[row], 0.0) + log(1 + total)))
    return weights + [active.get(entity, 0.0) for entity in range(entities)]


def shares(passages, entities, reset, damping):
    """The walk's share of each passage."""
    size = len(passages)
    edges = [(row, size + e, 1) for row, sentences in enumerate(passages) for e in {e for s in sentences for e in s}]
    return pagerank(size + entities, edges, reset, damping)[:size]
