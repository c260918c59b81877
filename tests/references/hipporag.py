"""HippoRAG 2 written out over dictionaries: phrase weights, reset, the walk's edges, and the walk by solving its equations.

Facts are (subject, object, weight), links (passage, phrase, weight); nodes are numbers.
"""

import numpy as np


def min_max(values):
    """Values brought to [0, 1]; all ones where they are equal."""
    low, high = min(values), max(values)
    return [1.0 if high == low else (value - low) / (high - low) for value in values]


def phrase_weights(facts, similarities, kept, chunks, limit):
    """Mean score of the kept facts of each phrase over the number of its passages; the best `limit`, ties to the lower phrase.

    Weights that differ by rounding are ties.
    """
    scores, total, times = min_max(similarities), {}, {}
    for fact in kept:
        for phrase in facts[fact][:2]:
            total[phrase] = total.get(phrase, 0.0) + scores[fact] / (len(chunks.get(phrase, ())) or 1)
            times[phrase] = times.get(phrase, 0) + 1
    weights = {phrase: total[phrase] / times[phrase] for phrase in total}
    best = sorted(weights, key=lambda phrase: (-round(weights[phrase], 9), phrase))[:limit]
    return {phrase: weights[phrase] for phrase in best}


def synonym_edges(names, cosines, threshold=0.8):
    """Ordered pairs of names with at least so large a cosine, from names with more than two letters and digits."""
    pairs = {}
    for near, name in enumerate(names):
        if sum(letter.isalnum() for letter in name) > 2:
            others = sorted((n for n in range(len(names)) if n != near), key=lambda n: (-cosines[near][n], n))
            pairs |= {(near, far): cosines[near][far] for far in others[:101] if cosines[near][far] >= threshold}
    return pairs


def walk_edges(facts, links, synonyms):
    """Undirected weighted edges: facts in both directions unless a synonym is written over them, links once; no self loops."""
    ordered = {}
    for subject, other, weight in facts:
        for pair in ((subject, other), (other, subject)):
            ordered[pair] = ordered.get(pair, 0.0) + weight
    ordered.update(synonyms)
    edges = [(a, b, weight) for (a, b), weight in ordered.items()] + list(links)
    return [(a, b, weight) for a, b, weight in edges if a != b]


def pagerank(size, edges, reset, damping=0.5):
    """The stationary distribution; the mass of nodes without edges goes to the reset distribution."""
    adjacency = np.zeros((size, size))
    for a, b, weight in edges:
        adjacency[a, b] += weight
        adjacency[b, a] += weight
    reset = np.array(reset) / sum(reset)
    strength = adjacency.sum(0)
    steps = np.where(strength > 0, adjacency / np.where(strength > 0, strength, 1), reset[:, None])
    return np.linalg.solve(np.eye(size) - damping * steps, (1 - damping) * reset)
