"""HippoRAG, the first, written out: restart weights, and passages by the shares of their phrases (NeurIPS 2024, section 2.3).

Links are (passage, phrase); a link that occurs twice counts twice. The walk is that of :mod:`tests.references.hipporag`.
"""

from tests.references.hipporag import pagerank, walk_edges


def retrieve(size, facts, links, synonyms, seeds, damping=0.5):
    """Passages with a score above 0, best first, ties to the lower."""
    contained = {}
    for passage, phrase in links:
        contained.setdefault(phrase, set()).add(passage)
    reset = [0.0] * size
    for seed in seeds:
        reset[seed] = 1 / max(len(contained.get(seed, ())), 1)
    # Passages are not part of the walk, and no edge leads to them.
    share = pagerank(size, walk_edges(facts, [], synonyms), reset, damping)
    scores = {}
    for passage, phrase in links:
        scores[passage] = scores.get(passage, 0.0) + share[phrase]
    return sorted(((p, s) for p, s in scores.items() if s > 1e-12), key=lambda item: (-round(item[1], 9), item[0]))
