"""A description of a corpus graph, in numbers and in words."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.errors import GraphRetrieverError
from graph_retrievers.graph.blank import blank_nodes
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.labels import path_title
from graph_retrievers.graph.languages import has_stems, language_name
from graph_retrievers.graph.tokens import estimate_tokens

__all__ = ["describe"]

_logger = logging.getLogger(__name__)

HUBS = 5
"""Nodes with the most neighbours that are shown."""
_MANY_EDGES = 50
# In an example of fewer texts than this, most may well have no edge.
_FEW_NODES = 20
# Texts whose tokens the model counts.
_COUNTED = 500
# What makes the edges of a relation.
_SOURCES = {
    "links": "Links()",
    "next": "DocumentStructure()",
    "mentions": "TitleMentions()",
    "similar": "NearestNeighbors()",
}
NO_EDGES = "there are no edges"
_WARNING = "missing edges reported"


def _no_edges(tried: Collection[str] = ()) -> str:
    """Return the note on a graph without edges; `tried` names the classes of sources that were asked and found none."""
    names = ", ".join(_other_sources(tried))
    return (
        f"{NO_EDGES}{', as ' + ' and '.join(tried) + ' found none' if tried else ''}, so that walks along edges find little more "
        "than search does; build the index with edges=[...]: pairs of ids or of metadata fields"
        + (f", or {names} of graph_retrievers.construction.edges" if names else "")
    )


def _other_sources(tried: Collection[str]) -> list[str]:
    return [source for source in _SOURCES.values() if source.partition("(")[0] not in tried]


NO_EDGES_NOTE = _no_edges()
"""Note on a traversal of a graph without edges."""


@dataclass(frozen=True)
class GraphDescription:
    """The contents of a graph; ``print`` shows them as text, with advice.

    Attributes
    ----------
    nodes, isolated, untitled, repeated, blank : int
        Numbers of nodes: all, those without neighbours, those without a title, those with exactly the text of another node, and
        those with nothing to read, which are never returned (see :func:`~graph_retrievers.graph.blank.blank_nodes`).
    types, edges : dict of str to int
        Nodes of each type and relationship rows of each relation; "" for those without one.
    degree, tokens : tuple of five int
        Minimum, quartiles and maximum of the number of distinct neighbours, and of the estimated number of tokens that signals read
        of a node: those of the embedding model, from a sample, if it counts them. In a database, they are of 2,000 nodes.
    hubs : list of (id, title, degree)
        The five nodes with the most neighbours. The title of a node without one, whose id is a UUID or a hash, is the first words
        of its text, as in paths.
    components, largest_component : int or None
        Number of connected components, including isolated nodes, and number of nodes in the largest one; None in a database.
    readable_tokens : int or None
        Tokens that the embedding model reads of a text; None if unknown. `truncated` counts the nodes with more.
    signals, embedding : tuple of str, and str
    references : str
        What became of references by number (:class:`~graph_retrievers.construction.numbered_references.ReferenceCounts`).
    language, stemmed : str
        Codes of the languages in which BM25 reads words, and of those whose words it stems.
    recall : float or None
        Share of the ten nearest vectors that vector search finds, from a sample; None if it is exact.
    advice : tuple of str
        Likely problems, and how to solve them.
    """

    nodes: int
    types: dict[str, int]
    edges: dict[str, int]
    degree: tuple[int, ...]
    hubs: list[tuple[str, str, int]]
    isolated: int
    components: int | None
    largest_component: int | None
    untitled: int
    tokens: tuple[int, ...]
    readable_tokens: int | None = None
    truncated: int = 0
    repeated: int = 0
    blank: int = 0
    signals: tuple[str, ...] = ()
    embedding: str = ""
    language: str = ""
    stemmed: str = ""
    recall: float | None = None
    references: str = ""
    advice: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Return the description as lines of text."""
        edges = sum(self.edges.values())
        limit = "" if self.readable_tokens is None else f"; more than the {self.readable_tokens} read: {self.truncated:,}"
        repeated = f"; with exactly the text of another: {self.repeated:,}" if self.repeated else ""
        repeated += f"; without anything to read: {self.blank:,}" if self.blank else ""
        details = f"; embedding: {self.embedding}" if self.embedding else ""
        if "bm25" in self.signals and self.language:
            bare = "+".join(code for code in self.language.split("+") if code not in self.stemmed.split("+") and has_stems(code))
            details += f"; language: {self.language}{f', without stems of {bare}' if bare else ''}"
        details += "" if self.recall is None else f"; vector search finds {self.recall:.3f} of the ten nearest"
        components = "" if self.components is None else f"{self.components:,}, the largest with {self.largest_component:,} nodes"
        lines = [
            f"nodes       {self.nodes:,}{_counts(self.types)}; without a title: {self.untitled:,}{repeated}",
            f"edges       {edges:,}{_counts(self.edges)}",
            f"degree      {_quartiles(self.degree)}; isolated: {self.isolated:,} ({self.isolated / self.nodes:.0%})",
            *([f"components  {components}"] if components else []),
            f"tokens      {_quartiles(self.tokens)}, about{limit}",
            f"signals     {', '.join(self.signals) or 'none'}{details}",
        ]
        if self.references:
            lines.append(f"references  {self.references}")
        if edges:
            lines.append(
                "hubs        " + ", ".join(f"{' '.join((title or node).split())} ({degree:,})" for node, title, degree in self.hubs)
            )
        return "\n".join([*lines, *(f"advice: {line}" for line in self.advice)])


def describe(
    graph: CorpusGraph,
    max_tokens: int | None = None,
    signals: tuple[str, ...] = (),
    embedding: str = "",
    tried: Collection[str] = (),
    recall: float | None = None,
    language: tuple[str, str] = ("", ""),
    model: Any = None,
) -> GraphDescription:
    """Return the description of a graph with at least one node.

    Parameters
    ----------
    graph : CorpusGraph
    max_tokens : int, optional
        Tokens that the embedding model reads of a text.
    signals, embedding
        Names to show.
    tried : collection of str, default ()
        Classes of the sources of edges that were tried, which the advice leaves out.
    recall : float, optional
    language : tuple of two str
        See :class:`GraphDescription`: `language` and `stemmed`.
    model : optional
        The embedding model: its ``count_tokens`` and ``languages`` are used, if it has them.

    Examples
    --------
    >>> graph = CorpusGraph(["a", "b", "c"], ["A loom.", "A card.", "An engine."], edges=[("a", "b", "reads")])
    >>> print(describe(graph))
    nodes       3; without a title: 3
    edges       1 (1 reads)
    degree      0 to 1, median 1, quartiles 0 and 1; isolated: 1 (33%)
    components  2, the largest with 2 nodes
    tokens      3 to 3, median 3, quartiles 3 and 3, about
    signals     none
    hubs        a (1), b (1), c (0)
    """
    degree = graph.degree.cpu().numpy()
    tokens = token_counts(graph.contents(), model)
    _, sizes = torch.unique(_components(graph), return_counts=True)
    texts = Counter(graph.texts)
    relations = Counter(graph.relations.tolist())
    hubs = np.argsort(-degree, kind="stable")[:HUBS].tolist()
    description = GraphDescription(
        nodes=len(graph),
        types=dict(Counter(graph.types)),
        edges={graph.relation_names[number]: count for number, count in sorted(relations.items())},
        degree=five_numbers(degree),
        hubs=[(graph.ids[row], path_title(graph.ids[row], graph.titles[row], graph.texts[row]), int(degree[row])) for row in hubs],
        isolated=int((degree == 0).sum()),
        components=sizes.numel(),
        largest_component=int(sizes.max()),
        untitled=sum(not title for title in graph.titles),
        tokens=five_numbers(tokens),
        readable_tokens=max_tokens,
        truncated=0 if max_tokens is None else int((tokens > max_tokens).sum()),
        repeated=sum(count for count in texts.values() if count > 1),
        blank=0 if (blank := blank_nodes(graph)) is None else int(blank.sum()),
        signals=signals,
        embedding=embedding,
        language=language[0],
        stemmed=language[1],
        recall=recall,
    )
    return with_advice(description, model, tried)


def with_advice(description: GraphDescription, model: Any, tried: Collection[str] = ()) -> GraphDescription:
    """Return a description with its advice; `model` and `tried` are those of :func:`describe`."""
    return replace(description, advice=tuple(_advice(description, tried, getattr(model, "languages", ()))))


def token_counts(texts: Sequence[str], model: Any) -> np.ndarray:
    """Return the estimated number of tokens of each text, shape [N]; if the model counts them, as many as it has in a sample."""
    estimates = np.array([estimate_tokens(text) for text in texts])
    count = getattr(model, "count_tokens", None)
    if not callable(count):
        return estimates
    rows = range(0, len(texts), max(1, len(texts) // _COUNTED))
    try:
        total = sum(count([texts[row] for row in rows]))
    except (GraphRetrieverError, OSError):
        # The rest is described even if the model cannot be read.
        return estimates
    return np.round(estimates * (total / max(1, estimates[list(rows)].sum()))).astype(int)


def warn_of_no_edges(graph: CorpusGraph, tried: Collection[str] = ()) -> None:
    """Warn that a graph has no edges, only once per graph; sources of the classes in `tried` found none.

    A single node, such as the first chunk of an index that grows, is not a reason for a warning.
    """
    if len(graph) < 2:
        return
    graph.cache.get(_WARNING, lambda: _logger.warning("%s", _sentence(_no_edges(tried))))


def keep_warning(before: CorpusGraph, after: CorpusGraph) -> None:
    """Let :func:`warn_of_no_edges` say nothing of a graph after a change if it has warned of the graph before."""
    if _WARNING in before.cache:
        after.cache.get(_WARNING, lambda: None)


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def _components(graph: CorpusGraph) -> Tensor:
    """Return for each node the lowest row of its connected component: Tensor, shape [N], int64.

    Zhang, Azad and Hu, "FastSV: A Distributed-Memory Connected Component Operator with Fast Convergence", 2020: a number of
    rounds that grows with the logarithm of the longest path.
    """
    parent = torch.arange(len(graph), device=graph.device)
    source, target = torch.cat([graph.sources, graph.targets]).long(), torch.cat([graph.targets, graph.sources]).long()
    while True:
        grandparent = parent[parent]
        # The parent of a node, and the node itself, take the lowest grandparent of the neighbours.
        update = parent.scatter_reduce(0, parent[source], grandparent[target], "amin")
        update = update.scatter_reduce(0, source, grandparent[target], "amin")
        update = torch.minimum(update, grandparent)
        if torch.equal(update, parent):
            return parent
        parent = update


def _advice(facts: GraphDescription, tried: Collection[str], languages: Collection[str]) -> Iterator[str]:
    edges = sum(facts.edges.values())
    if not edges:
        yield _sentence(_no_edges(tried))
    elif 2 * facts.isolated > facts.nodes >= _FEW_NODES:
        share = facts.isolated / facts.nodes
        names = [source for source in _other_sources(tried) if source not in {_SOURCES.get(relation) for relation in facts.edges}]
        yield (
            f"{share:.0%} of the nodes have no edge, so no walk reaches them; add another source of edges: "
            f"{', '.join(names)} or edges of your own."
        )
    if edges > _MANY_EDGES * facts.nodes:
        yield (
            f"There are {edges / facts.nodes:.0f} edges for each node, so that walks reach everything at once; leave out relations "
            "that join nearly all nodes, such as a field that most of them share."
        )
    if 10 * facts.truncated > facts.nodes:
        yield (
            f"{facts.truncated:,} texts are longer than the {facts.readable_tokens} tokens that the embedding model reads, and the "
            "rest of them is not searched by vector; split them into shorter ones."
        )
    names = [language_name(code) for code in facts.language.split("+") if code and code not in languages]
    if languages and names:
        yield (
            f"The embedding model reads {' and '.join(map(language_name, languages))}, and these texts are {' and '.join(names)}, "
            "so that vectors find little; choose a model that reads them."
        )


def five_numbers(values: np.ndarray) -> tuple[int, ...]:
    """Return minimum, quartiles and maximum of values, each one of them."""
    return tuple(int(value) for value in np.quantile(values, (0, 0.25, 0.5, 0.75, 1), method="lower"))


def _quartiles(five: tuple[int, ...]) -> str:
    return f"{five[0]:,} to {five[4]:,}, median {five[2]:,}, quartiles {five[1]:,} and {five[3]:,}"


def _counts(counts: dict[str, int]) -> str:
    """Return the counts of names in brackets; nothing if nothing is named."""
    if not any(counts):
        return ""
    entries = (f"{count:,} {' '.join(name.split()) or 'unnamed'}" for name, count in counts.items())
    return f" ({', '.join(entries)})"
