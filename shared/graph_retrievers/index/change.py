"""The next index of a changing corpus: its nodes, edges and signals, without reading unchanged parts again.

:func:`change` has these steps: delete and add nodes, update the signals of nodes, set edges, update the signals of edges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import as_list, strings
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.edges import edge_parts
from graph_retrievers.construction.spec import CorpusNodes, EdgeSource, EdgeSpec
from graph_retrievers.errors import DuplicateNodeError, InvalidArgumentError, MissingSignalError, UnknownNodeError, shown
from graph_retrievers.graph.addresses import node_source
from graph_retrievers.graph.corpus_graph import COLUMNS, CorpusGraph, Edge, EdgeLike, Rows
from graph_retrievers.index.parts import Built, check_not_empty
from graph_retrievers.index.rows import merged_keys, set_rows, surviving
from graph_retrievers.signals.signal import Signal
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.signals.vectors import check_vectors, unit_vectors

__all__ = ["change"]


class _Changed(NamedTuple):
    """A graph with changed nodes, still without edges.

    `place`, shape [N], is the new row of each current row, -1 for deleted ones; `old_rows`, shape [N'], the current row with the
    content of each new row, -1 if the content is new; `rows`, shape [n], the new rows of the documents that were given, in their
    order.
    """

    graph: CorpusGraph
    place: np.ndarray
    old_rows: np.ndarray
    rows: np.ndarray


def change(
    before: Built,
    *,
    add: Iterable[Any],
    upsert: Iterable[Any],
    delete: Iterable[str],
    delete_sources: Iterable[str],
    add_edges: Iterable[EdgeLike],
    delete_edges: Iterable[EdgeLike],
    vectors: Any,
    show_progress: bool,
    strict: bool,
) -> Built:
    """Return the parts of an index after a change; see :meth:`graph_retrievers.index.GraphIndex.with_changes`."""
    new, other = as_list("add", add, "documents"), as_list("upsert", upsert, "documents")
    nodes = _change_nodes(before.graph, new, other, delete, delete_sources, strict)
    check_not_empty(nodes.graph)
    given_vectors = dict(zip(nodes.rows.tolist(), _own_vectors([*new, *other], vectors), strict=True))

    def embed(texts: list[str]) -> Tensor:
        if before.embedding is None:
            raise MissingSignalError(f"{len(texts)} new texts have no vectors; pass vectors=, or give the index a model.")
        return embed_corpus(before.embedding, texts, show_progress=show_progress)

    by_cover: dict[str, dict[str, Signal]] = {"nodes": {}, "edges": {}}
    for name, signal in before.signals.items():
        by_cover[signal.covers][name] = signal
    signals = _updated_signals(by_cover["nodes"], _Contents(nodes.graph), nodes.old_rows, embed, given_vectors)
    sources = _change_edges(before, nodes, add_edges, delete_edges, getattr(signals.get("dense"), "vectors", None))
    if by_cover["edges"]:
        place = {text: row for row, text in enumerate(before.graph.edge_contents())}
        contents = nodes.graph.edge_contents()
        old_rows = np.array([place.get(text, -1) for text in contents], np.int64)
        signals |= _updated_signals(by_cover["edges"], contents, old_rows, embed, {})
    return Built(nodes.graph, {name: signals[name] for name in before.signals}, before.embedding, sources)


def check_ids(documents: Sequence[Any]) -> Sequence[Any]:
    """Return documents; raise InvalidArgumentError if one has no id."""
    for document in documents:
        if hasattr(document, "page_content") and not getattr(document, "id", None):
            raise InvalidArgumentError(f"The document {shown(document)} has no id; a change needs ids, to find what it replaces.")
    return documents


def _change_nodes(
    graph: CorpusGraph,
    add: Sequence[Any],
    upsert: Sequence[Any],
    delete: Iterable[str],
    delete_sources: Iterable[str],
    strict: bool,
) -> _Changed:
    gone = {graph.row(node) for node in strings("delete", delete)}
    if names := dict.fromkeys(strings("delete_sources", delete_sources)):
        sources = _sources(graph)
        for source in names:
            if source not in sources:
                raise UnknownNodeError(f"No node was made from the source {source!r}; see node_source for what a source is.")
            gone.update(sources[source])
    new = CorpusGraph.from_nodes(to_nodes(check_ids([*add, *upsert]), strict=strict), include_titles=graph.include_titles)
    for node in new.ids[: len(add)]:
        if node in graph and graph.row(node) not in gone:
            raise DuplicateNodeError(f"{node!r} is already a node; pass it in upsert= to replace it.")
    result, place, rows = _replaced(graph, gone, new)
    old_rows = np.full(len(result), -1, np.int64)
    old_rows[place[place >= 0]] = np.flatnonzero(place >= 0)
    old_rows[rows] = _rows_before(graph, result, rows.tolist(), old_rows[rows].tolist())
    return _Changed(result, place, old_rows, rows)


def _sources(graph: CorpusGraph) -> dict[str, list[int]]:
    """Return the rows of the nodes that were made from each source."""

    def make() -> dict[str, list[int]]:
        rows_of: dict[str, list[int]] = {}
        for row, columns in enumerate(zip(graph.ids, graph.metadata, graph.origins, strict=True)):
            rows_of.setdefault(node_source(*columns), []).append(row)
        return rows_of

    return graph.cache.get("sources", make)


def _replaced(graph: CorpusGraph, deleted: Collection[int], new: CorpusGraph) -> tuple[CorpusGraph, np.ndarray, np.ndarray]:
    """Return a graph without some rows and with the nodes of another one, the new row of each current row, and those of new nodes.

    A new node takes the row of the node that has its id and is not deleted; the others come last, in their order.
    """
    stay = np.ones(len(graph), bool)
    stay[list(deleted)] = False
    place = np.where(stay, np.cumsum(stay) - 1, -1)
    current_rows = [graph.row(node) if node in graph else -1 for node in new.ids]
    kept_rows = [row if row >= 0 and stay[row] else -1 for row in current_rows]
    additions = [number for number, row in enumerate(kept_rows) if row < 0]
    rows = place[kept_rows] if len(graph) else np.full(len(kept_rows), -1)
    rows[additions] = np.arange(len(additions)) + int(stay.sum())
    ends, columns = [*sorted(deleted), len(graph)], dict[str, list[Any]]()
    for name in COLUMNS:
        old_values, new_values = getattr(graph, name), getattr(new, name)
        values: list[Any] = []
        # A few long stretches are copied faster than one by one.
        for start, stop in zip([0, *(row + 1 for row in ends)], ends, strict=False):
            values += old_values[start:stop]
        for number, row in enumerate(rows.tolist()):
            if kept_rows[number] >= 0:
                values[row] = new_values[number]
        columns[name] = values + [new_values[number] for number in additions]
    return graph.with_columns(columns), place, rows


def _rows_before(graph: CorpusGraph, new_graph: CorpusGraph, rows: Sequence[int], first: Sequence[int]) -> list[int]:
    """Return a row of `graph` with the same content for some rows of a changed graph, -1 for a row without one.

    `first` are the rows to look at first, -1 for none. Titles count only where signals read them.
    """

    def read(of: CorpusGraph, row: int) -> tuple[str, str]:
        return (of.titles[row] if of.include_titles else "", of.texts[row])

    def make() -> dict[tuple[str, str], int]:
        # The lowest of several rows.
        return {read(graph, row): row for row in reversed(range(len(graph)))}

    def find(row: int, near: int) -> int:
        content = read(new_graph, row)
        return near if near >= 0 and read(graph, near) == content else graph.cache.get("rows by content", make).get(content, -1)

    return [find(row, near) for row, near in zip(rows, first, strict=True)]


def _own_vectors(documents: Sequence[Any], vectors: Any) -> Sequence[Tensor | None]:
    """Return the vectors given for documents, or their own, of unit length; None for a document without one."""
    if vectors is not None:
        return list(check_vectors(vectors, len(documents)).cpu())
    vectors = (getattr(document, "embedding", None) for document in documents)
    return [None if vector is None else unit_vectors(check_vectors([vector]))[0] for vector in vectors]


class _Contents(Sequence[str]):
    """The texts that signals read for the nodes of a graph, computed when needed."""

    def __init__(self, graph: CorpusGraph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph)

    def __getitem__(self, row: Any) -> Any:
        return self._graph.content(range(len(self))[row])


def _updated_signals(
    signals: Mapping[str, Signal],
    contents: Sequence[str],
    old_rows: np.ndarray,
    embed: Callable[[list[str]], Tensor],
    given_vectors: Mapping[int, Tensor | None],
) -> dict[str, Signal]:
    """Return signals, all over nodes or all over edges, as :meth:`Signal.updated` makes them; unchanged if no row changes.

    The signal "dense" takes the `given_vectors` of some rows instead of embedding their contents.
    """
    results: dict[str, Signal] = {}
    for name, signal in signals.items():
        row_vectors = {row: vector for row, vector in given_vectors.items() if vector is not None} if name == "dense" else {}
        rows = old_rows.copy()
        rows[list(row_vectors)] = -1
        if np.array_equal(rows, np.arange(len(signal))):
            results[name] = signal
            continue
        new = np.flatnonzero(rows < 0).tolist()

        def vectors(texts: list[str], row_vectors: Mapping[int, Tensor] = row_vectors, new: list[int] = new) -> Tensor:
            bare = [text for row, text in zip(new, texts, strict=True) if row not in row_vectors]
            rest = iter(embed(bare) if bare else ())
            return torch.stack([row_vectors[row] if row in row_vectors else next(rest).cpu() for row in new])

        results[name] = signal.updated(contents, torch.from_numpy(rows), vectors)
    return results


def _change_edges(
    before: Built, nodes: _Changed, add: Iterable[EdgeLike], delete: Iterable[EdgeLike], vectors: Tensor | None
) -> list[EdgeSource]:
    """Set the edges of a changed graph, and return where they come from.

    Edges given one by one stay where both of their ends do. Those of specifications are found again in the changed corpus.
    """
    graph, new_graph, sources = before.graph, nodes.graph, before.edge_sources
    names = {name: number for number, name in enumerate(graph.relation_names)}
    starts = np.cumsum([0, *(source.rows for source in sources)]).tolist()
    stretches = [slice(start, stop) for start, stop in zip(starts, starts[1:], strict=False)]
    mask = np.zeros(graph.num_edges, bool)
    for (spec, _), part in zip(sources, stretches, strict=True):
        mask[part] = spec is None
    dropped = _matching(graph, mask, delete)
    specs = [spec for spec, _ in sources if spec is not None]
    spec_edges: Iterable[tuple[EdgeSpec | None, Sequence[EdgeLike]]] = ()
    same = len(nodes.rows) == 0 and len(new_graph) == len(graph)
    if specs and not same:
        corpus = CorpusNodes([new_graph.node(row) for row in range(len(new_graph))], vectors=vectors)
        spec_edges = edge_parts(specs, corpus, lenient=True)
    parts, new_sources, again = list[Rows](), list[EdgeSource](), iter(spec_edges)
    for (spec, _), part in zip(sources, stretches, strict=True):
        if spec is None or same:
            parts.append(surviving(graph, part, nodes.place, dropped)[1])
        else:
            parts.append(new_graph._rows_of(next(again)[1], names))
        new_sources.append(EdgeSource(spec, len(parts[-1].sources)))
    parts.append(new_graph._rows_of(add, names))
    added = len(parts[-1].sources)
    if added and new_sources and new_sources[-1].spec is None:
        new_sources[-1] = EdgeSource(None, new_sources[-1].rows + added)
    elif added:
        new_sources.append(EdgeSource(None, added))
    # Rows that were dropped may have been one of several between their ends.
    intact = not dropped and (same or not specs)
    set_rows(new_graph, parts, list(names), merged_keys(graph, nodes.place, parts[-1], len(new_graph)) if intact else None)
    return new_sources


def _matching(graph: CorpusGraph, mask: np.ndarray, edges: Iterable[EdgeLike]) -> set[int]:
    """Return the rows of `mask`, which were given one by one, that edges name: (source, target) means any relation."""
    items = as_list("delete_edges", edges, "edges")
    if not items:
        return set()
    full_edges = [Edge.of(edge) for edge in items]
    pairs = [graph.row(edge.source) * len(graph) + graph.row(edge.target) for edge in full_edges]
    mask = mask & np.isin((graph.sources * len(graph) + graph.targets).cpu().numpy(), pairs)
    rows: dict[tuple[str, ...], list[int]] = {}
    edge_rows = np.flatnonzero(mask).tolist()
    for row, graph_edge in zip(edge_rows, graph.edges(edge_rows), strict=True):
        for key in ((graph_edge.source, graph_edge.target), (graph_edge.source, graph_edge.target, graph_edge.relation)):
            rows.setdefault(key, []).append(row)
    matches: set[int] = set()
    for edge, full in zip(items, full_edges, strict=True):
        pair = not isinstance(edge, Edge) and len(edge) == 2
        names = (full.source, full.target) if pair else (full.source, full.target, full.relation)
        if names not in rows:
            what = f"{shown(edge, 200)} is not an edge that was given one by one"
            raise InvalidArgumentError(f"{what}; edges of specifications go when the documents change.")
        matches.update(rows[names])
    return matches
