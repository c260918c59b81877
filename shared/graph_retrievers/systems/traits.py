"""What kind of nodes an index holds: entities or passages, with names or with headings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from graph_retrievers.graph.addresses import node_source
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.names import capitalized_names, is_proper_name, name_table, name_types, opening_name
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.bm25 import BM25

__all__ = [
    "holds_passages",
    "holds_pieces",
    "is_knowledge_graph",
    "names_identify",
    "names_lead",
    "names_mentioned",
    "names_shared",
    "without_names",
]

# Nodes that are looked at.
_SAMPLE = 2000
_PASSAGE_WORDS = 20
# A word in more texts than both of these does not tell a node apart.
_SHARE, _FEW = 0.003, 10
# Of manuals and papers, at most 0.05 of the texts hold names, of encyclopedias 0.35 or more.
_MENTIONED = 0.15


def holds_passages(graph: CorpusGraph) -> bool:
    """Return whether the nodes are passages: whether most have a text of at least 20 words. Those of a knowledge graph are not.

    Nodes that stand for names in the texts of others (:func:`~graph_retrievers.graph.names.name_types`) do not count.

    Examples
    --------
    >>> holds_passages(CorpusGraph(["a"], ["Ada Lovelace was a mathematician."]))
    False
    """

    def make() -> bool:
        texts = _sample(_without(name_types(graph), graph))
        return 2 * sum(len(text.split()) >= _PASSAGE_WORDS for text in texts) > len(texts)

    return bool(graph.cache.get("holds passages", make))


def holds_pieces(graph: CorpusGraph) -> bool:
    """Return whether the nodes are pieces of documents, cut without regard to sections.

    Most have neither a title nor a document of their own: so are the chunks of LangChain's ``RecursiveCharacterTextSplitter`` and
    of LlamaIndex' ``SentenceSplitter``. The document of a node is what :func:`~graph_retrievers.graph.addresses.node_source` finds.

    Examples
    --------
    >>> held = [{"source": "a.md"}, {"source": "a.md"}, {"source": "b.md"}]
    >>> holds_pieces(CorpusGraph(["1", "2", "3"], ["one", "two", "three"], metadata=held))
    True
    """

    def make() -> bool:
        columns = zip(graph.ids, graph.metadata, graph.origins, strict=True)
        counts = Counter(sources := [node_source(*column) for column in columns])
        pieces = sum(counts[source] > 1 and not title for source, title in zip(sources, graph.titles, strict=True))
        return 2 * pieces > len(sources)

    return bool(graph.cache.get("holds pieces", make))


def is_knowledge_graph(graph: CorpusGraph) -> bool:
    """Return whether the nodes are entities of several types, with short texts: see :func:`holds_passages`.

    Nodes that stand for names in the texts of others (:func:`~graph_retrievers.graph.names.name_types`) do not count.

    Examples
    --------
    >>> is_knowledge_graph(CorpusGraph(["a", "b"], ["", ""], types=["person", "film"]))
    True
    """
    return len(graph.type_names) - len(name_types(graph)) > 1 and not holds_passages(graph)


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
    """Return the share of texts that hold names of nodes as an encyclopedia does, from 0 to 1.

    Such a text opens with its own title, spelled as a name (:func:`~graph_retrievers.graph.names.opening_name`,
    :func:`~graph_retrievers.graph.names.is_proper_name`), or it holds the name of another node, of two words or more with capitals,
    that few texts hold. Headings of manuals, identifiers and titles of papers are not used like that: the share is at most 0.05
    there, and 0.5 or more of an encyclopedia, whatever its size. In texts that were folded to lower case, the spelling is not
    asked for. Read from 2,000 nodes drawn with a fixed seed.

    Examples
    --------
    >>> names_mentioned(CorpusGraph(["a", "b"], ["A film by Ada Holm.", "She came from Lund."], titles=["Kismet", "Ada Holm"]))
    0.5
    """

    def make() -> float:
        names, rows = name_table(graph, fold=True), _sample(range(len(graph)))
        texts = [graph.texts[row] for row in rows]
        folded = 20 * sum(text != text.lower() for text in texts) < len(texts)
        opening = [opening_name(graph.titles[row], text) for row, text in zip(rows, texts, strict=True)]

        # With capitals: of two characters, as in Chinese, a name may be any word.
        def others(row: int, text: str) -> set[str]:
            found = {name for name, nodes in names.find(text) if row not in nodes}
            return {name for name in found if " " in name and name != name.lower() and is_proper_name(name)}

        held = list(map(others, rows, texts))
        counts = Counter(name for found in held for name in found)
        limit = max(_FEW, _SHARE * len(rows))
        told = [
            bool(own and (folded or is_proper_name(own))) or any(counts[name] <= limit for name in found)
            for own, found in zip(opening, held, strict=True)
        ]
        return sum(told) / max(len(told), 1)

    return graph.cache.get("names in the texts", make)


def names_lead(index: GraphIndex) -> bool:
    """Return whether names lead from text to text: whether they identify nodes, and 0.15 of the texts or more hold them.

    See :func:`names_identify` and :func:`names_mentioned`.

    Examples
    --------
    >>> names_lead(GraphIndex.from_texts(["Ada Holm was a weaver.", "A machine."], titles=["Ada Holm", "Loom"]))
    True
    """
    return names_identify(index) and names_mentioned(index.graph) >= _MENTIONED


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


def without_names(index: GraphIndex) -> GraphIndex:
    """Return the index without the nodes that stand for names in the texts of others, and what joins them.

    See :func:`~graph_retrievers.graph.names.name_types`.
    """
    names = name_types(index.graph)
    return index.within({"$type": {"$nin": list(names)}}) if names else index


def _without(types: Sequence[str], graph: CorpusGraph) -> list[str]:
    """Return the texts of the nodes of other types."""
    return [text for kind, text in zip(graph.types, graph.texts, strict=True) if kind not in types] if types else graph.texts


def _sample(items: Sequence[Any]) -> list[Any]:
    """Return the items, or 2,000 of them drawn with a fixed seed."""
    if len(items) <= _SAMPLE:
        return list(items)
    return [items[place] for place in random.Random(0).sample(range(len(items)), _SAMPLE)]
