"""A changed corpus: the nodes and edges of a graph after additions, replacements and deletions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from graph_retrievers.arguments import listed, strings
from graph_retrievers.construction.documents import node_source, to_nodes
from graph_retrievers.construction.edges import edge_parts
from graph_retrievers.construction.spec import Corpus, EdgeSpec
from graph_retrievers.errors import DuplicateNodeError, InvalidArgumentError, UnknownNodeError, shown
from graph_retrievers.graph.changes import change_nodes, merged_keys, set_rows, surviving_rows
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, EdgeLike, Rows

__all__ = ["ChangedNodes", "EdgeSource", "change_corpus", "change_edges", "check_ids"]


class EdgeSource(NamedTuple):
    """Where a stretch of relationship rows comes from: a specification, or None for edges given one by one; and its length."""

    spec: EdgeSpec | None
    rows: int


class ChangedNodes(NamedTuple):
    """A graph with changed nodes, still without edges.

    Attributes
    ----------
    graph : CorpusGraph
    place : array, shape [N]
        The new row of each present row, -1 for deleted ones.
    kept : array, shape [N']
        The present row with the content of each new row, -1 if the content is new.
    rows : array, shape [n]
        The new rows of the documents that were given, in their order.
    """

    graph: CorpusGraph
    place: np.ndarray
    kept: np.ndarray
    rows: np.ndarray


def change_corpus(
    graph: CorpusGraph, add: Sequence[Any], upsert: Sequence[Any], delete: Iterable[str], delete_sources: Iterable[str]
) -> ChangedNodes:
    """Return the nodes of a graph after a change; see :meth:`graph_retrievers.index.GraphIndex.with_changes`."""
    gone = {graph.row(node) for node in strings("delete", delete)}
    if wanted := dict.fromkeys(strings("delete_sources", delete_sources)):
        sources = _sources(graph)
        for source in wanted:
            if source not in sources:
                raise UnknownNodeError(f"No node was made from the source {source!r}; see node_source for what a source is.")
            gone.update(sources[source])
    new = CorpusGraph.from_nodes(to_nodes(check_ids([*add, *upsert])), include_titles=graph.include_titles)
    for node in new.ids[: len(add)]:
        if node in graph and graph.row(node) not in gone:
            raise DuplicateNodeError(f"{node!r} is already a node; pass it in upsert= to replace it.")
    changed, place, rows = change_nodes(graph, gone, new)
    kept = np.full(len(changed), -1, np.int64)
    kept[place[place >= 0]] = np.flatnonzero(place >= 0)
    kept[rows] = _kept_rows(graph, changed, rows.tolist(), kept[rows].tolist())
    return ChangedNodes(changed, place, kept, rows)


def check_ids(documents: Sequence[Any]) -> Sequence[Any]:
    """Return documents; raise InvalidArgumentError if one has no id."""
    for document in documents:
        if hasattr(document, "page_content") and not getattr(document, "id", None):
            raise InvalidArgumentError(f"The document {shown(document)} has no id; a change needs ids, to find what it replaces.")
    return documents


def _sources(graph: CorpusGraph) -> dict[str, list[int]]:
    """Return the rows of the nodes that were made from each source."""

    def make() -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for row, columns in enumerate(zip(graph.ids, graph.metadata, graph.origins, strict=True)):
            found.setdefault(node_source(*columns), []).append(row)
        return found

    return graph.cache.get("sources", make)


def _kept_rows(graph: CorpusGraph, changed: CorpusGraph, rows: Sequence[int], first: Sequence[int] | None = None) -> list[int]:
    """Return a row of `graph` with the same content for some rows of a changed graph, -1 where there is none.

    `first` are the rows to look at first, -1 for none. Titles count only where signals read them.
    """

    def read(of: CorpusGraph, row: int) -> tuple[str, str]:
        return (of.titles[row] if of.include_titles else "", of.texts[row])

    def make() -> dict[tuple[str, str], int]:
        # The lowest of several rows.
        return {read(graph, row): row for row in reversed(range(len(graph)))}

    def find(row: int, near: int) -> int:
        content = read(changed, row)
        return near if near >= 0 and read(graph, near) == content else graph.cache.get("rows by content", make).get(content, -1)

    return [find(row, near) for row, near in zip(rows, first or [-1] * len(rows), strict=True)]


def change_edges(
    graph: CorpusGraph,
    sources: Sequence[EdgeSource],
    nodes: ChangedNodes,
    add: Iterable[EdgeLike],
    delete: Iterable[EdgeLike],
    vectors: Tensor | None,
) -> list[EdgeSource]:
    """Set the edges of a changed graph, and return where they come from.

    Edges given one by one stay where both of their ends do. Those of specifications are found again in the changed corpus.
    """
    changed, names = nodes.graph, {name: number for number, name in enumerate(graph.relation_names)}
    starts = np.cumsum([0, *(source.rows for source in sources)]).tolist()
    stretches = [slice(start, stop) for start, stop in zip(starts, starts[1:], strict=False)]
    given = np.zeros(graph.num_edges, bool)
    for (spec, _), part in zip(sources, stretches, strict=True):
        given[part] = spec is None
    dropped = _matching(graph, given, delete)
    specs = [spec for spec, _ in sources if spec is not None]
    found: Iterable[tuple[EdgeSpec | None, Sequence[EdgeLike]]] = ()
    same = len(nodes.rows) == 0 and len(changed) == len(graph)
    if specs and not same:
        corpus = Corpus([changed.node(row) for row in range(len(changed))], vectors=vectors)
        found = edge_parts(specs, corpus, lenient=True)
    parts, made, again = list[Rows](), list[EdgeSource](), iter(found)
    for (spec, _), part in zip(sources, stretches, strict=True):
        if spec is None or same:
            parts.append(surviving_rows(graph, part, nodes.place, dropped))
        else:
            parts.append(changed._rows_of(next(again)[1], names))
        made.append(EdgeSource(spec, len(parts[-1][0])))
    parts.append(changed._rows_of(add, names))
    if len(parts[-1][0]) and made and made[-1].spec is None:
        made[-1] = EdgeSource(None, made[-1].rows + len(parts[-1][0]))
    elif len(parts[-1][0]):
        made.append(EdgeSource(None, len(parts[-1][0])))
    # Rows that were dropped may have been one of several between their ends.
    kept = not dropped and (same or not specs)
    set_rows(changed, parts, list(names), merged_keys(graph, nodes.place, parts[-1], len(changed)) if kept else None)
    return made


def _matching(graph: CorpusGraph, given: np.ndarray, edges: Iterable[EdgeLike]) -> set[int]:
    """Return the rows, among those `given` one by one, that edges name: (source, target) for any relation, or with a relation."""
    wanted = listed("delete_edges", edges, "edges")
    if not wanted:
        return set()
    checked = [Edge.of(edge) for edge in wanted]
    pairs = [graph.row(edge.source) * len(graph) + graph.row(edge.target) for edge in checked]
    near = given & np.isin((graph.sources * len(graph) + graph.targets).cpu().numpy(), pairs)
    rows: dict[tuple[str, ...], list[int]] = {}
    places = np.flatnonzero(near).tolist()
    for row, held in zip(places, graph.edges(places), strict=True):
        for key in ((held.source, held.target), (held.source, held.target, held.relation)):
            rows.setdefault(key, []).append(row)
    found: set[int] = set()
    for edge, full in zip(wanted, checked, strict=True):
        pair = not isinstance(edge, Edge) and len(edge) == 2
        asked = (full.source, full.target) if pair else (full.source, full.target, full.relation)
        if asked not in rows:
            what = f"{shown(edge, 200)} is not an edge that was given one by one"
            raise InvalidArgumentError(f"{what}; edges of specifications go when the documents change.")
        found.update(rows[asked])
    return found
