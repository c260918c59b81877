"""What kind of nodes an index holds: entities or passages, with names or with headings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.names import capitalized_names, name_table
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.bm25 import BM25

__all__ = ["holds_passages", "is_knowledge_graph", "names_identify", "names_mentioned", "names_shared"]

# Nodes that are looked at.
_SAMPLE = 2000
_PASSAGE_WORDS = 20
# A word in more texts than both of these does not tell a node apart.
_SHARE, _FEW = 0.003, 10



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
    """Return the share of texts that hold the name of another node, as :class:`~graph_retrievers.graph.names.NameTable` finds it.

    Of an encyclopedia it is about a half, of papers, whose titles stand in no other text, near 0. Read from 2,000 nodes drawn with
    a fixed seed.

    Examples
    --------
    >>> names_mentioned(CorpusGraph(["a", "b"], ["A film by Ada Holm.", "Born in Lund."], titles=["Kismet", "Ada Holm"]))
    0.5
    """

    def make() -> float:
        names, rows = name_table(graph, fold=True), _sample(range(len(graph)))
        told = [any(row not in found for _, found in names.find(graph.texts[row])) for row in rows]
        return sum(told) / max(len(told), 1)

    return graph.cache.get("names in the texts", make)


def names_shared(graph: CorpusGraph) -> float:
    """Return the share of texts that hold a name that another text holds too, names being told by their capitals.

    Read from 2,000 nodes drawn with a fixed seed, of which the other text is one.

    Examples
    --------
    >>> names_shared(CorpusGraph(["a", "b", "c"], ["A film by Ada Holm.", "In Lund, Ada Holm was born.", "A loom."]))
    0.6666666666666666
    """

    def make() -> float:
        names = [{name.casefold() for name in capitalized_names(text)} for text in _sample(graph.texts)]
        texts = Counter(name for own in names for name in own)
        return sum(any(texts[name] > 1 for name in own) for own in names) / max(len(names), 1)

    return graph.cache.get("names that texts share", make)


def _sample(items: Sequence[Any]) -> list[Any]:
    """Return the items, or 2,000 of them drawn with a fixed seed."""
    if len(items) <= _SAMPLE:
        return list(items)
    return [items[place] for place in random.Random(0).sample(range(len(items)), _SAMPLE)]
