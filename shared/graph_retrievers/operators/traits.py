"""What kind of nodes an index holds: entities or passages, with names or with headings."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import normalize

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.names import name_words
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex

__all__ = ["holds_passages", "homophily", "is_knowledge_graph", "names_identify", "names_mentioned"]

# Nodes that are looked at.
_SAMPLE = 2000
_PASSAGE_WORDS = 20
# A word in more texts than both of these does not tell a node apart.
_SHARE, _FEW = 0.003, 10
# At the end of a title, by which titles that are equal otherwise are told apart.
_PARENTHESES = re.compile(r"\s\([^()]*\)\s*$")


def holds_passages(graph: CorpusGraph) -> bool:
    """Return whether the nodes are passages: whether most have a text of at least 20 words. Those of a knowledge graph are not.

    Examples
    --------
    >>> holds_passages(CorpusGraph(["a"], ["Ada Lovelace was a mathematician."]))
    False
    """

    def make() -> bool:
        texts = _sample(graph.texts)
        return 2 * sum(len(text.split()) >= _PASSAGE_WORDS for text in texts) > len(texts)

    return bool(graph.cache.get("holds passages", make))


def is_knowledge_graph(graph: CorpusGraph) -> bool:
    """Return whether the nodes are entities of several types, with short texts: see :func:`holds_passages`.

    Examples
    --------
    >>> is_knowledge_graph(CorpusGraph(["a", "b"], ["", ""], types=["person", "film"]))
    True
    """
    return len(graph.type_names) > 1 and not holds_passages(graph)


def homophily(index: GraphIndex) -> float:
    """Return how often the vectors of two linked nodes are more similar than those of one of them and any other node.

    1 where linked nodes always are, about 0.5 where edges join nodes at random, 0 without edges. Read from 2,000 edges drawn with a
    fixed seed; 1 for an index without vectors in memory. Manuals have 0.95, citations 0.90, an encyclopedia 0.85.

    Examples
    --------
    >>> vectors = [[1, 0], [1, 0], [0, 1], [0, 1]]
    >>> homophily(GraphIndex.from_texts([*"abcd"], vectors=vectors, edges=[("0", "1"), ("2", "3")]))
    0.75
    >>> homophily(GraphIndex.from_texts([*"abcd"], vectors=vectors, edges=[("0", "2"), ("1", "3")]))
    0.5
    """
    graph, dense = index.graph, index.signals.get("dense")
    if not graph.num_edges:
        return 0.0
    if not isinstance(dense, DenseIndex):
        return 1.0

    def make() -> tuple[DenseIndex, float]:
        draw = random.Random(0)
        rows = torch.tensor(_sample(range(graph.num_edges)), device=graph.device)
        near, far = graph.sources[rows].long(), graph.targets[rows].long()
        other = torch.tensor([draw.randrange(len(graph)) for _ in range(rows.numel())], device=graph.device)
        vectors = normalize(dense.taken(torch.stack([near, far, other])), dim=2)
        linked, drawn = (vectors[0] * vectors[1]).sum(1), (vectors[0] * vectors[2]).sum(1)
        # An equal similarity counts half.
        return dense, float(((linked - drawn).sign() + 1).mean()) / 2

    # Kept for these vectors: indexes may share a graph.
    return graph.cache.get(("homophily", id(dense)), make)[1]


def names_identify(index: GraphIndex) -> bool:
    """Return whether the names of nodes are names, rather than words that many texts contain.

    The name of a node is its title. It identifies the node if its rarest word is in at most 0.3 % of the texts, or in at most 10.
    The titles of an encyclopedia do, whose articles are about one thing each; the headings of a manual do not ("Tables", "Notes"),
    nor does a title that a hundred chunks share. Nodes with a text and without a title have no name. The answer is that of most
    nodes; it is True for an index without BM25, which counts the words.

    Examples
    --------
    >>> names_identify(GraphIndex.from_texts(["A loom.", "A card."], titles=["Loom", "Card"]))
    True
    """
    bm25 = index.signals.get("bm25")
    if not isinstance(bm25, BM25):
        return True

    graph = index.graph

    def make() -> tuple[BM25, bool]:
        columns = zip(graph.titles, graph.texts, graph.ids, strict=True)
        named = _sample([title or ("" if text.strip() else node) for title, text, node in columns])
        texts = bm25.indptr.diff().tolist()
        limit = max(_FEW, _SHARE * len(graph))

        def rare(words: list[str]) -> bool:
            return bool(words) and min(texts[bm25.vocabulary[word]] if word in bm25.vocabulary else 0 for word in words) <= limit

        # A name without a word that BM25 reads, such as a single letter, is none.
        return bm25, 2 * sum(map(rare, bm25.tokenize(named))) > len(named)

    # Kept for these counts of words: indexes may share a graph.
    return graph.cache.get(("names identify", id(bm25)), make)[1]


def names_mentioned(graph: CorpusGraph) -> float:
    """Return the share of edges of which the text of one end holds the title of the other, capitals or not.

    Of an encyclopedia, where texts name what they link to, it is near 1; of papers that cite each other, near 0. What stands in
    parentheses at the end of a title, as in "Kismet (film)", need not be in the text. Read from 2,000 edges drawn with a fixed
    seed; 0 without edges.

    Examples
    --------
    >>> texts, titles = ["A film by Ada Holm.", "Born in Lund."], ["Kismet", "Ada Holm"]
    >>> names_mentioned(CorpusGraph(["a", "b"], texts, titles=titles, edges=[("a", "b", "by"), ("b", "b", "knows")]))
    0.5
    """

    def make() -> float:
        rows = _sample(range(graph.num_edges))
        ends = [(int(graph.sources[row]), int(graph.targets[row])) for row in rows]
        texts = {row: _spaced(graph.texts[row]) for row in set(sum(ends, ()))}
        titles = {row: _spaced(_PARENTHESES.sub("", graph.titles[row])) for row in texts}

        def told(near: int, far: int) -> bool:
            return bool(titles[far].strip()) and titles[far] in texts[near]

        return sum(told(near, far) or told(far, near) for near, far in ends) / max(len(ends), 1)

    return graph.cache.get("names mentioned", make)


def _spaced(text: str) -> str:
    return f" {' '.join(name_words(text, fold=True))} "


def _sample(items: Sequence[Any]) -> list[Any]:
    """Return the items, or 2,000 of them drawn with a fixed seed."""
    if len(items) <= _SAMPLE:
        return list(items)
    return [items[place] for place in random.Random(0).sample(range(len(items)), _SAMPLE)]
