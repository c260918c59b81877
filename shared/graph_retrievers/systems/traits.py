"""The kind of nodes in an index: entities or passages, with names or with headings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graph_retrievers.cache import Identity
from graph_retrievers.graph.addresses import node_source, page_of
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.facts import GraphFacts, WholeGraphError
from graph_retrievers.graph.names import NameTable, capitalized_names, is_proper_name, name_table, name_types, opening_name
from graph_retrievers.graph.words import word_count
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.bm25 import BM25

__all__ = ["names_identify", "names_lead", "names_mentioned", "traits_of"]

# Number of nodes that are read.
_SAMPLE = 2000
_PASSAGE_WORDS = 20
# Characters of a text in which names are counted, and the most words for each name.
_READ, _WORDS_A_NAME = 10_000, 70
# A word in more texts than both of these does not tell a node apart.
_SHARE, _FEW = 0.003, 10
# In manuals and papers, at most 0.05 of the texts contain names, in encyclopedias 0.35 or more.
_MENTION_SHARE = 0.15
STRUCTURE = ("contains", "next", "child")
"""The relations of edges that a document's own structure makes."""
LINKED = 0.1
"""If a smaller share of nodes has an edge that refers to another, few documents are linked: see :func:`documents_linked`."""


def holds_passages(graph: GraphFacts) -> bool:
    """Return whether the nodes are passages: whether most have a text of at least 20 words. Those of a knowledge graph are not.

    Nodes that represent names in the texts of others (:func:`~graph_retrievers.graph.names.name_types`) do not count. Texts of
    one type in which such names were found are passages, however short.
    """

    def read(graph: CorpusGraph) -> bool:
        names = name_types(graph)
        if names and len(graph.type_names) == len(names) + 1:
            return True
        return are_passages(_sample(_without(names, graph)))

    return graph.fact("holds passages", read)


def are_passages(texts: Sequence[str]) -> bool:
    """Return whether most of some texts have at least 20 words."""
    return 2 * sum(word_count(text) >= _PASSAGE_WORDS for text in texts) > len(texts)


def passage_types(graph: GraphFacts, *types: str) -> tuple[str, ...]:
    """Return those of the types of passages that nodes have, if other nodes have another; else an empty tuple."""
    names = tuple(name for name in types if name in graph.type_names)
    return names if len(names) < len(graph.type_names) else ()


def holds_pieces(graph: GraphFacts) -> bool:
    """Return whether the nodes are pieces of documents, cut without regard to sections.

    Most have no title of their own within their document: none at all, such as chunks of LangChain's
    ``RecursiveCharacterTextSplitter`` and LlamaIndex' ``SentenceSplitter``, or one that other nodes of the document share, such
    as parts of a long section. The document of a node is the result of :func:`~graph_retrievers.graph.addresses.node_source`.
    Nodes to whose exact place links lead are not pieces: those with ``anchors``, such as those of
    :func:`~graph_retrievers.construction.folder.read_folder`, and those whose id is a place on a page, such as ``page.md#place``.

    >>> metadata = [{"source": "a.md"}] * 3
    >>> holds_pieces(CorpusGraph(list("123"), [""] * 3, metadata=metadata))
    True
    >>> holds_pieces(CorpusGraph(["a.md#1", "a.md#1~2", "a.md#1~3"], [""] * 3, titles=["Loom"] * 3, metadata=metadata))
    False
    """

    def read(graph: CorpusGraph) -> bool:
        columns = zip(graph.titles, graph.ids, graph.metadata, graph.origins, strict=True)
        counts = Counter(
            (title, node_source(node, metadata, origin))
            for title, node, metadata, origin in columns
            if not is_place(node, metadata)
        )
        return 2 * sum(count for count in counts.values() if count > 1) > len(graph)

    return graph.fact("holds pieces", read)


def is_place(node: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether links lead to the exact place of a node on its page, by its id and metadata.

    >>> is_place("a.md#cards", {}), is_place("a.md", {"anchors": []}), is_place("a.md", {})
    (True, True, False)
    """
    return "anchors" in metadata or page_of(node) != node


def is_knowledge_graph(graph: GraphFacts) -> bool:
    """Return whether the nodes are entities of several types, with short texts: see :func:`holds_passages`."""
    return not holds_passages(graph) and len(graph.type_names) - len(name_types(graph)) > 1


def names_identify(index: Corpus) -> bool:
    """Return whether the names of nodes are names, rather than words that many texts contain.

    The name of a node is its title. It identifies the node if its rarest word is in at most 0.3 % of the texts, or in at most 10.
    The titles of an encyclopedia, whose articles are about one thing each, identify nodes; the headings of a manual ("Tables",
    "Notes") and a title that a hundred chunks share do not. If texts use titles as names (:func:`names_mentioned` of 0.15 or
    more), titles of several words identify too: both words of "Ada Holm" may be common. Nodes with a text but no title have no
    name. The answer is that of most nodes; it is True for an index without BM25, which counts the words.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> names_identify(GraphIndex.from_texts(["A loom.", "A card."], titles=["Loom", "Card"]))
    True
    """
    bm25, graph = index.signals.get("bm25"), index.facts
    if not isinstance(bm25, BM25) or not isinstance(graph, CorpusGraph):
        # A database may keep the answer; without one, and without BM25, it is True.
        return graph.fact("names identify", lambda graph: True)

    def make() -> bool:
        columns = zip(graph.titles, graph.texts, graph.ids, strict=True)
        names = _sample([node_name(*column) for column in columns])
        texts = bm25.indptr.diff().tolist()
        # A word that BM25 does not know is in no text.
        counts = [
            [texts[bm25.vocabulary[word]] if word in bm25.vocabulary else 0 for word in words] for words in bm25.tokenize(names)
        ]
        return rare_names(counts, len(graph), lambda: names_mentioned(graph))

    # The key has BM25, as indexes with other counts of words may share a graph.
    return graph.cache.get(("names identify", Identity(bm25)), make)


def node_name(title: str, text: str, node: str) -> str:
    """Return what :func:`names_identify` takes as the name of a node: its title, or the id of one without a text.

    >>> node_name("", "", "ada"), node_name("", "A loom.", "7")
    ('ada', '')
    """
    return title or ("" if text.strip() else node)


def rare_names(counts: Sequence[Sequence[int]], size: int, mentioned: Callable[[], float]) -> bool:
    """Return whether most names identify their nodes, by the numbers of texts that contain each of their words.

    `size` is the number of nodes, and `mentioned` returns :func:`names_mentioned`, which is computed if it matters.

    >>> rare_names([[1, 900], [400]], 1000, lambda: 0.0), rare_names([[1, 900], [400, 3]], 1000, lambda: 0.0)
    (False, True)
    """
    limit = max(_FEW, _SHARE * size)

    def identifies(numbers: Sequence[int]) -> bool:
        # A name without a word that BM25 reads, such as a single letter, is none.
        return bool(numbers) and (min(numbers) <= limit or (len(numbers) > 1 and mentioned() >= _MENTION_SHARE))

    return 2 * sum(map(identifies, counts)) > len(counts)


def names_mentioned(graph: GraphFacts) -> float:
    """Return the share of texts that contain names of nodes as in an encyclopedia, from 0 to 1.

    Such a text begins with its own title, spelled as a name (:func:`~graph_retrievers.graph.names.opening_name`,
    :func:`~graph_retrievers.graph.names.is_proper_name`), or it contains the name of another node, of two or more capitalised
    words, that few texts contain. Headings of manuals, identifiers and titles of papers are not used like that: the share is at
    most 0.05 there, and 0.5 or more in an encyclopedia of any size. Texts entirely in lower case or in capitals count by titles
    of several words with which they begin; if most titles are in capitals, names of several words may be in capitals too. The
    share is computed from 2,000 nodes drawn with a fixed seed.

    Examples
    --------
    >>> names_mentioned(CorpusGraph(["a", "b"], ["A film by Ada Holm.", "She came from Lund."], titles=["Kismet", "Ada Holm"]))
    0.5
    """

    def read(graph: CorpusGraph) -> float:
        rows = _sample(range(len(graph)))
        titles, texts = [graph.titles[row] for row in rows], [graph.texts[row] for row in rows]
        return mentions(rows, titles, texts, lambda _: name_table(graph, fold=True))

    return graph.fact("names in the texts", read)


def mentions(rows: Sequence[int], titles: Sequence[str], texts: Sequence[str], table: Callable[[list[str]], NameTable]) -> float:
    """Return the share of some texts that contain names, see :func:`names_mentioned`.

    `rows` and `titles` are those of their nodes, and `table` returns the names of all nodes that may be in given texts, with the
    rows of these nodes.
    """
    # Letters that are all small or all capitals tell nothing; nor do capitals where most titles have no other letters.
    folded = 20 * sum(text not in (text.lower(), text.upper()) for text in texts) < len(texts)
    capital_titles = 2 * sum(title.isupper() for title in titles) > len(titles)
    texts = [text.lower() for text in texts] if folded else list(texts)
    names, opening = table(texts), map(opening_name, titles, texts)

    def proper(name: str) -> bool:
        words = name.split()
        several = len(words) > 1 and all(word[0].isalpha() for word in words)
        return is_proper_name(name) or (several and (folded or (capital_titles and name.isupper())))

    # With capitals: of two characters, as in Chinese, a name may be any word.
    def other_names(row: int, text: str) -> set[str]:
        matches = {name for name, nodes in names.find(text) if row not in nodes}
        return {name for name in matches if " " in name and name != name.lower() and proper(name)}

    name_sets = list(map(other_names, rows, texts))
    counts = Counter(name for part in name_sets for name in part)
    limit = max(_FEW, _SHARE * len(rows))
    flags = [
        bool(start and proper(start)) or any(counts[name] <= limit for name in part)
        for start, part in zip(opening, name_sets, strict=True)
    ]
    return sum(flags) / max(len(flags), 1)


def names_lead(index: Corpus) -> bool:
    """Return whether names lead from text to text: whether they identify nodes, and at least 0.15 of the texts contain them.

    See :func:`names_identify` and :func:`names_mentioned`.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> names_lead(GraphIndex.from_texts(["Ada Holm was a weaver.", "A machine."], titles=["Ada Holm", "Loom"]))
    True
    """
    return names_identify(index) and names_mentioned(index.facts) >= _MENTION_SHARE


def names_join(index: Corpus) -> bool:
    """Return whether names in the texts join nodes: few documents are linked, most texts contain names, and BM25 finds them.

    See :func:`documents_linked` and :func:`name_share`.
    """
    return index.has_bm25 and documents_linked(index.facts) < LINKED and 2 * name_share(index.facts) > 1


def name_share(graph: GraphFacts) -> float:
    """Return the share of texts that contain names of two or more words, recognised by their capitals: one for every 70 words.

    A long text contains some name by chance, so it needs more of them; and what many texts contain, such as "Member State" in a
    law or "The Employer" in a contract, does not count. The share is 0.97 for an encyclopedia, 0.25 for acts of law, and 0.07 and
    0.22 for two manuals. Texts in lower case, and in scripts without capitals, have no such names. The share is computed from
    2,000 nodes drawn with a fixed seed, and from 10,000 characters of each text.

    >>> name_share(CorpusGraph(["a", "b"], ["A film by Ada Holm.", "A loom in Lund."]))
    0.5
    >>> name_share(CorpusGraph(["a"], ["A film by Ada Holm." + " It is long." * 30]))
    0.0
    """
    return graph.fact("names in texts", lambda graph: names_in(_sample(graph.texts)))


def names_in(texts: Sequence[str]) -> float:
    """Return the share of some texts that contain names, see :func:`name_share`."""
    texts = [text[:_READ] for text in texts]
    name_lists = [[name for name in capitalized_names(text) if " " in name and is_proper_name(name)] for text in texts]
    counts = Counter(name for names in name_lists for name in set(names))
    limit = max(_FEW, _SHARE * len(texts))
    rare = (sum(counts[name] <= limit for name in names) for names in name_lists)
    flags = (count > 0 and _WORDS_A_NAME * count >= word_count(text) for count, text in zip(rare, texts, strict=True))
    return sum(flags) / max(len(texts), 1)


def documents_linked(graph: GraphFacts) -> float:
    """Return the share of nodes with an edge to or from a node of another document, or one that refers to a place in its own.

    The document of a node is the result of :func:`~graph_retrievers.graph.addresses.node_source`. Within a document, edges of
    its structure ("contains", "next" and "child") do not count.

    >>> metadata = [{"source": "a.md"}, {"source": "a.md"}, {"source": "b.md"}, {"source": "c.md"}]
    >>> documents_linked(CorpusGraph(list("1234"), [""] * 4, metadata=metadata, edges=[("1", "2", "next"), ("2", "3", "links to")]))
    0.5
    >>> documents_linked(CorpusGraph(list("1234"), [""] * 4, metadata=metadata, edges=[("1", "2", "refers to")]))
    0.5
    """

    def read(graph: CorpusGraph) -> float:
        places: dict[str, int] = {}
        columns = zip(graph.ids, graph.metadata, graph.origins, strict=True)
        document = np.array([places.setdefault(node_source(*column), len(places)) for column in columns])
        ends = np.stack([graph.sources.cpu().numpy(), graph.targets.cpu().numpy()])
        structural = np.isin(graph.relation_names, STRUCTURE)[graph.relations.cpu().numpy()]
        pairs = ends[:, ~structural | (document[ends[0]] != document[ends[1]])]
        return len(np.unique(pairs)) / max(len(graph), 1)

    return graph.fact("documents linked", read)


def has_titles(graph: GraphFacts) -> bool:
    """Return whether any node has a title.

    >>> has_titles(CorpusGraph(["a"], ["A loom."]))
    False
    """
    return graph.fact("titles told", lambda graph: any(graph.titles))


def traits_of(index: Corpus) -> dict[str, Any]:
    """Return the properties by which retrievers choose their form, as values for JSON.

    They depend on all nodes, so stores of a graph outside memory keep them: a
    :class:`~graph_retrievers.stores.remote.RemoteIndex` passes them to retrievers, which then choose the same form as in memory.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> traits_of(GraphIndex.from_texts(["Kismet starred Ada Holm."], titles=["Kismet"]))["names in texts"]
    1.0
    """
    return {name: function(index) for name, function in _TRAITS.items()}


# The keys are those of the cache of a graph, or the names of its attributes.
_TRAITS: dict[str, Callable[[Any], Any]] = {
    "nodes": len,
    "include_titles": lambda index: index.graph.include_titles,
    "type_names": lambda index: list(index.graph.type_names),
    "relation_names": lambda index: list(index.graph.relation_names),
    "has_edges": lambda index: index.graph.has_edges,
    "types of names": lambda index: list(name_types(index.graph)),
    "titles told": lambda index: has_titles(index.graph),
    "holds passages": lambda index: holds_passages(index.graph),
    "holds pieces": lambda index: holds_pieces(index.graph),
    "names identify": names_identify,
    "names in the texts": lambda index: names_mentioned(index.graph),
    "names in texts": lambda index: name_share(index.graph),
    "documents linked": lambda index: documents_linked(index.graph),
    "names have capitals": lambda index: name_table(index.graph, fold=True).capitals,
    "longest name": lambda index: name_table(index.graph, fold=True).longest,
}


def without_names(index: Corpus) -> Corpus:
    """Return the index without the nodes that represent names in the texts of others, and without their edges.

    See :func:`~graph_retrievers.graph.names.name_types`.
    """
    types = list(name_types(index.facts))
    if not types:
        return index
    if not isinstance(index.facts, CorpusGraph):
        raise WholeGraphError(f"facts of the graph without its nodes of the types {types}, which a database does not keep")
    return index.within({"$type": {"$nin": types}})


def search_finds_more(index: Corpus, *, unless_names_lead: bool = True) -> bool:
    """Return whether hybrid search is known to find more than a walk alone on indexes like this one: over passages.

    With `unless_names_lead`, not where names lead from passage to passage along edges between documents (see
    :func:`~graph_retrievers.systems.traits.names_lead`), as in an encyclopedia. False if the index lacks vectors or BM25.
    """
    # A lexical signal of another kind does not come with a graph in a database, which is read here.
    comparable = index.has_dense and index.has_bm25 and index.signals["bm25"].kind == BM25.kind
    if not comparable or not holds_passages(index.facts):
        return False
    # Edges within documents, such as those of their structure, do not lead to nodes that names refer to.
    leading = names_lead(without_names(index)) and documents_linked(index.facts) >= LINKED
    return not (unless_names_lead and leading)


def _without(types: Sequence[str], graph: CorpusGraph) -> list[str]:
    """Return the texts of the nodes of other types."""
    return [text for kind, text in zip(graph.types, graph.texts, strict=True) if kind not in types] if types else graph.texts


def _sample(items: Sequence[Any]) -> list[Any]:
    """Return the items, or 2,000 of them drawn with a fixed seed."""
    return [items[place] for place in sampled_places(len(items))]


def sampled_places(size: int) -> Sequence[int]:
    """Return which of a number of items are read: all, or 2,000 of them drawn with a fixed seed.

    >>> list(sampled_places(3)), len(sampled_places(9_999))
    ([0, 1, 2], 2000)
    """
    return range(size) if size <= _SAMPLE else random.Random(0).sample(range(size), _SAMPLE)
