"""The next index of a changing corpus: its nodes, edges and signals, without reading unchanged parts again.

:func:`change` has these steps: delete and add nodes, update the signals of nodes, set edges, update the signals of edges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import listed, strings
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

    `place`, shape [N], is the new row of each current row, -1 for deleted ones; `kept`, shape [N'], the current row with the
    content of each new row, -1 if the content is new; `rows`, shape [n], the new rows of the documents that were given, in their
    order.
    """

    graph: CorpusGraph
    place: np.ndarray
    kept: np.ndarray
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
    new, other = listed("add", add, "documents"), listed("upsert", upsert, "documents")
    nodes = _change_nodes(before.graph, new, other, delete, delete_sources, strict)
    check_not_empty(nodes.graph)
    brought = dict(zip(nodes.rows.tolist(), _own_vectors([*new, *other], vectors), strict=True))

    def embed(texts: list[str]) -> Tensor:
        if before.embedding is None:
            raise MissingSignalError(f"{len(texts)} new texts have no vectors; pass vectors=, or give the index a model.")
        return embed_corpus(before.embedding, texts, show_progress=show_progress)

    over: dict[str, dict[str, Signal]] = {"nodes": {}, "edges": {}}
    for name, signal in before.signals.items():
        over[signal.covers][name] = signal
    followed = _followed(over["nodes"], _Contents(nodes.graph), nodes.kept, embed, brought)
    sources = _change_edges(before, nodes, add_edges, delete_edges, getattr(followed.get("dense"), "vectors", None))
    if over["edges"]:
        place = {text: row for row, text in enumerate(before.graph.edge_contents())}
        contents = nodes.graph.edge_contents()
        kept = np.array([place.get(text, -1) for text in contents], np.int64)
        followed |= _followed(over["edges"], contents, kept, embed, {})
    return Built(nodes.graph, {name: followed[name] for name in before.signals}, before.embedding, sources)


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
    if wanted := dict.fromkeys(strings("delete_sources", delete_sources)):
        sources = _sources(graph)
        for source in wanted:
            if source not in sources:
                raise UnknownNodeError(f"No node was made from the source {source!r}; see node_source for what a source is.")
            gone.update(sources[source])
    new = CorpusGraph.from_nodes(to_nodes(check_ids([*add, *upsert]), strict=strict), include_titles=graph.include_titles)
    for node in new.ids[: len(add)]:
        if node in graph and graph.row(node) not in gone:
            raise DuplicateNodeError(f"{node!r} is already a node; pass it in upsert= to replace it.")
    changed, place, rows = _replaced(graph, gone, new)
    kept = np.full(len(changed), -1, np.int64)
    kept[place[place >= 0]] = np.flatnonzero(place >= 0)
    kept[rows] = _kept_rows(graph, changed, rows.tolist(), kept[rows].tolist())
    return _Changed(changed, place, kept, rows)


def _sources(graph: CorpusGraph) -> dict[str, list[int]]:
    """Return the rows of the nodes that were made from each source."""

    def make() -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for row, columns in enumerate(zip(graph.ids, graph.metadata, graph.origins, strict=True)):
            found.setdefault(node_source(*columns), []).append(row)
        return found

    return graph.cache.get("sources", make)


def _replaced(graph: CorpusGraph, deleted: Collection[int], new: CorpusGraph) -> tuple[CorpusGraph, np.ndarray, np.ndarray]:
    """Return a graph without some rows and with the nodes of another one, the new row of each current row, and those of new nodes.

    A new node takes the row of the node that has its id and is not deleted; the others come last, in their order.
    """
    stay = np.ones(len(graph), bool)
    stay[list(deleted)] = False
    place = np.where(stay, np.cumsum(stay) - 1, -1)
    known = [graph.row(node) if node in graph else -1 for node in new.ids]
    at = [row if row >= 0 and stay[row] else -1 for row in known]
    appended = [number for number, row in enumerate(at) if row < 0]
    rows = place[at] if len(graph) else np.full(len(at), -1)
    rows[appended] = np.arange(len(appended)) + int(stay.sum())
    ends, columns = [*sorted(deleted), len(graph)], dict[str, list[Any]]()
    for name in COLUMNS:
        present, given = getattr(graph, name), getattr(new, name)
        values: list[Any] = []
        # A few long stretches are copied faster than one by one.
        for start, stop in zip([0, *(row + 1 for row in ends)], ends, strict=False):
            values += present[start:stop]
        for number, row in enumerate(rows.tolist()):
            if at[number] >= 0:
                values[row] = given[number]
        columns[name] = values + [given[number] for number in appended]
    return graph.with_columns(columns), place, rows


def _kept_rows(graph: CorpusGraph, changed: CorpusGraph, rows: Sequence[int], first: Sequence[int]) -> list[int]:
    """Return a row of `graph` with the same content for some rows of a changed graph, -1 for a row without one.

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

    return [find(row, near) for row, near in zip(rows, first, strict=True)]


def _own_vectors(documents: Sequence[Any], vectors: Any) -> Sequence[Tensor | None]:
    """Return the vectors given for documents, or their own, of unit length; None for a document without one."""
    if vectors is not None:
        return list(check_vectors(vectors, len(documents)).cpu())
    brought = (getattr(document, "embedding", None) for document in documents)
    return [None if vector is None else unit_vectors(check_vectors([vector]))[0] for vector in brought]


class _Contents(Sequence[str]):
    """The texts that signals read for the nodes of a graph, computed when needed."""

    def __init__(self, graph: CorpusGraph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph)

    def __getitem__(self, row: Any) -> Any:
        return self._graph.content(range(len(self))[row])


def _followed(
    signals: Mapping[str, Signal],
    contents: Sequence[str],
    kept: np.ndarray,
    embed: Callable[[list[str]], Tensor],
    brought: Mapping[int, Tensor | None],
) -> dict[str, Signal]:
    """Return signals, all over nodes or all over edges, as :meth:`Signal.updated` makes them; unchanged if no row changes.

    The signal "dense" takes the vectors `brought` for some rows instead of embedding their contents.
    """
    found: dict[str, Signal] = {}
    for name, signal in signals.items():
        own = {row: vector for row, vector in brought.items() if vector is not None} if name == "dense" else {}
        rows = kept.copy()
        rows[list(own)] = -1
        if np.array_equal(rows, np.arange(len(signal))):
            found[name] = signal
            continue
        new = np.flatnonzero(rows < 0).tolist()

        def vectors(texts: list[str], own: Mapping[int, Tensor] = own, new: list[int] = new) -> Tensor:
            bare = [text for row, text in zip(new, texts, strict=True) if row not in own]
            made = iter(embed(bare) if bare else ())
            return torch.stack([own[row] if row in own else next(made).cpu() for row in new])

        found[name] = signal.updated(contents, torch.from_numpy(rows), vectors)
    return found


def _change_edges(
    before: Built, nodes: _Changed, add: Iterable[EdgeLike], delete: Iterable[EdgeLike], vectors: Tensor | None
) -> list[EdgeSource]:
    """Set the edges of a changed graph, and return where they come from.

    Edges given one by one stay where both of their ends do. Those of specifications are found again in the changed corpus.
    """
    graph, changed, sources = before.graph, nodes.graph, before.edge_sources
    names = {name: number for number, name in enumerate(graph.relation_names)}
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
        corpus = CorpusNodes([changed.node(row) for row in range(len(changed))], vectors=vectors)
        found = edge_parts(specs, corpus, lenient=True)
    parts, made, again = list[Rows](), list[EdgeSource](), iter(found)
    for (spec, _), part in zip(sources, stretches, strict=True):
        if spec is None or same:
            parts.append(surviving(graph, part, nodes.place, dropped)[1])
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
