"""One change of an index in PostgreSQL: its parts, in one transaction."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from graph_retrievers.errors import DuplicateNodeError, shown
from graph_retrievers.graph.corpus_graph import EdgeLike
from graph_retrievers.stores.changes import Changes
from graph_retrievers.stores.postgres.database import Writing
from graph_retrievers.stores.postgres.edge_vectors import VectorsOfEdges, write_edge_vectors
from graph_retrievers.stores.postgres.edges import (
    append_edges,
    count_neighbors,
    delete_edges,
    delete_edges_of,
    replace_edges,
    stage_edges,
    touch_neighbors,
)
from graph_retrievers.stores.postgres.nodes import NodeBlock, copy_nodes, delete_rows, mark_blank
from graph_retrievers.stores.postgres.schema import vector_index
from graph_retrievers.stores.postgres.sentences import SentenceReader, write_sentences
from graph_retrievers.stores.postgres.traits import corpus_traits
from graph_retrievers.stores.postgres.values import decoded, encoded

__all__ = ["Written"]

logger = logging.getLogger(__name__)

# If more than this share of the nodes was written, the planner's statistics are made anew.
_SHARE = 0.1


class Written(NamedTuple):
    """What a change of an index in PostgreSQL wrote: nodes, with words and vectors, edges, vectors of edges, and sentences."""

    nodes: Changes
    edges: Changes
    edge_vectors: int = 0
    sentences: int = 0


class NodeRow(NamedTuple):
    """A stored node: its number, the digest of its contents, its position, and the document from which it was made."""

    node: int
    digest: bytes
    position: int
    source: str


class Change:
    """A change of the index of some name, which no other writer changes until the end of the transaction.

    Its methods write parts; :meth:`finish` brings up to date what follows from all of them, and must come last.

    Attributes
    ----------
    corpus : int
        The number of the index.
    size, dimension, edge_dimension : int
        Number of nodes, and width of their vectors and of those of edges, before the change.
    embedding : str
        Name of the model of the vectors, if it is known.
    sentences : str
        What found the names in the sentences that are there; "" if there are none.
    settings, traits : mapping or None
        Of BM25, and see :func:`~graph_retrievers.systems.traits.traits_of`; None if the index is new.
    """

    def __init__(self, writing: Writing, name: str) -> None:
        self.writing = writing
        writing.run("INSERT INTO {corpora} (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING", name=name)
        (row,) = writing.run(
            "SELECT corpus, nodes, next_node, next_edge, dimension, embedding, settings, traits FROM {corpora} "
            "WHERE name = %(name)s FOR UPDATE",
            name=name,
        ).fetchall()
        self.corpus, self.size, self._next, self._next_edge, self.dimension, self.embedding, self.settings, self.traits = row
        self.edge_dimension: int = (self.settings or {}).get("edge_dimension", 0)
        self.sentences: str = (self.settings or {}).get("sentences", "")
        self._first, self._replaced, self._deleted = self._next, set[int](), 0
        # The position of the next new node.
        self._end = self.size
        self._edges = Changes()
        # The tables have nodes whose edges changed, or that were written; nodes that only got another place or degree; and by how
        # many the number of nodes with each term grew or shrank.
        for table in (
            "affected (node integer PRIMARY KEY, written boolean NOT NULL DEFAULT false)",
            "moved (node integer)",
            'changed_terms (term text COLLATE "C", nodes bigint)',
            "changed_names (name integer)",
        ):
            writing.run(f"CREATE TEMPORARY TABLE {table} ON COMMIT DROP")

    def node_rows(self, ids: Sequence[str]) -> dict[str, NodeRow]:
        """Return the nodes that are there, by their ids."""
        rows = self.writing.run(
            "SELECT id, node, digest, position, source FROM {nodes} WHERE corpus = %(corpus)s AND id = ANY(%(ids)s)",
            corpus=self.corpus,
            ids=list(ids),
        ).fetchall()
        return {row[0]: NodeRow(*row[1:]) for row in rows}

    def write(self, block: NodeBlock, positions: Sequence[int] | None = None, advance: Callable[[], Any] = lambda: None) -> None:
        """Write nodes, unless they are there with the same contents.

        By default, a node that is there keeps its position, and others come last. `advance` is called for each node.
        DuplicateNodeError if one was written before in this change.
        """
        old_nodes = self.node_rows(block.ids)
        # `numbers`, `new_positions` and `digests` are those of all nodes; a place is that of a node in the block.
        numbers, new_positions, digests = list[int](), list[int](), list[bytes]()
        changed_places, moves, source_changes = list[int](), list[tuple[int, int]](), list[int]()
        for place, name in enumerate(block.ids):
            digests.append(block.digest(place))
            old_node = old_nodes.get(name)
            if old_node is None:
                numbers.append(self._next)
                self._next += 1
                new_positions.append(self._end if positions is None else positions[place])
                self._end += 1
                changed_places.append(place)
            elif old_node.node >= self._first or old_node.node in self._replaced:
                raise DuplicateNodeError(f"Id {shown(decoded(name))} is given twice; make ids unique (drop one or rename it).")
            else:
                numbers.append(old_node.node)
                new_positions.append(old_node.position if positions is None else positions[place])
                if bytes(old_node.digest) != digests[place]:
                    changed_places.append(place)
                    self._replaced.add(old_node.node)
                    if old_node.source != block.sources[place]:
                        source_changes.append(old_node.node)
                elif old_node.position != new_positions[place]:
                    moves.append((old_node.node, new_positions[place]))
            advance()
        if old_numbers := [numbers[place] for place in changed_places if block.ids[place] in old_nodes]:
            delete_rows(self.writing, self.corpus, old_numbers)
        if changed_places:
            copy_nodes(self.writing, self.corpus, block, changed_places, numbers, new_positions, digests)
            nodes = [numbers[place] for place in changed_places]
            self.writing.run(
                "INSERT INTO affected (node, written) SELECT unnest(%(nodes)s::integer[]), true "
                "ON CONFLICT (node) DO UPDATE SET written = true",
                nodes=nodes,
            )
        if moves:
            self._move(moves)
        if source_changes:
            touch_neighbors(self.writing, self.corpus, source_changes)

    def _move(self, moves: Sequence[tuple[int, int]]) -> None:
        nodes, positions = map(list, zip(*moves, strict=True))
        self.writing.run(
            "WITH written AS (UPDATE {nodes} n SET position = m.position "
            "FROM unnest(%(nodes)s::integer[], %(positions)s::integer[]) AS m (node, position) "
            "WHERE n.corpus = %(corpus)s AND n.node = m.node RETURNING n.node) "
            "INSERT INTO moved (node) SELECT node FROM written",
            corpus=self.corpus,
            nodes=nodes,
            positions=positions,
        )

    def delete(self, nodes: Sequence[int], close: bool = True) -> None:
        """Delete nodes and their edges, by the numbers of these nodes; with `close`, the nodes behind them move up."""
        if not nodes:
            return
        count = delete_edges_of(self.writing, self.corpus, nodes)
        self._edges = self._edges._replace(deleted=self._edges.deleted + count)
        ((first,),) = self.writing.run(
            "SELECT min(position) FROM {nodes} WHERE corpus = %(corpus)s AND node = ANY(%(nodes)s)",
            corpus=self.corpus,
            nodes=list(nodes),
        ).fetchall()
        delete_rows(self.writing, self.corpus, nodes)
        self._deleted += len(nodes)
        self._end -= len(nodes)
        if close:
            self.writing.run(
                "WITH placed AS (SELECT node, row_number() OVER (ORDER BY position) - 1 + %(first)s AS place FROM {nodes} "
                "WHERE corpus = %(corpus)s AND position >= %(first)s), "
                "written AS (UPDATE {nodes} n SET position = p.place FROM placed p "
                "WHERE n.corpus = %(corpus)s AND n.node = p.node AND n.position <> p.place RETURNING n.node) "
                "INSERT INTO moved (node) SELECT node FROM written",
                corpus=self.corpus,
                first=first,
            )

    def delete_edges(self, edges: Sequence[EdgeLike]) -> None:
        """Delete edges; InvalidArgumentError if one is not there."""
        if edges:
            count = delete_edges(self.writing, self.corpus, edges)
            self._edges = self._edges._replace(deleted=self._edges.deleted + count)

    def append_edges(self, edges: Iterable[EdgeLike]) -> None:
        """Add edges behind those that are there; UnknownNodeError if an end is not a node."""
        stage_edges(self.writing, self.corpus, edges)
        count = append_edges(self.writing, self.corpus, self._next_edge)
        self._edges = self._edges._replace(written=self._edges.written + count)
        self._next_edge += count

    def replace_edges(self, edges: Iterable[EdgeLike]) -> None:
        """Write edges in place of those that are there; UnknownNodeError if an end is not a node."""
        self._next_edge = stage_edges(self.writing, self.corpus, edges)
        with self.writing.joining(self._next_edge):
            writes, moves, deletions = replace_edges(self.writing, self.corpus)
        self._edges = Changes(writes, moves, self._edges.deleted + deletions)

    def finish(
        self,
        settings: Any,
        dimension: int,
        embedding: str,
        include_titles: bool,
        vectors_of_edges: VectorsOfEdges | None = None,
        sentence_reader: SentenceReader | None = None,
    ) -> Written:
        """Bring up to date what follows from nodes and edges, and return what changed; a new version, if anything did.

        Edges have vectors if their width is in the settings, and `vectors_of_edges` returns new ones. There are sentences if the
        settings say what finds the names in them, and `sentence_reader` reads new texts.
        """
        writing, corpus = self.writing, self.corpus
        writes = len(self._replaced) + self._next - self._first
        self._count_terms()
        if writes > _SHARE * (self.size + writes):
            for table in ("nodes", "edges", "words", "terms", "vectors"):
                # For a user without this right, the server only warns, and makes the statistics itself later.
                writing.run(f"ANALYZE {{{table}}}")
        count_neighbors(writing, corpus)
        edge_vectors = self._write_edge_vectors(settings, vectors_of_edges)
        sentences = self._write_sentences(settings, sentence_reader)
        mark_blank(writing, corpus)
        ((moves,),) = writing.run(
            "SELECT count(DISTINCT node) FROM moved m WHERE NOT EXISTS (SELECT FROM affected a WHERE a.node = m.node AND a.written)"
        ).fetchall()
        nodes = Changes(writes, moves, self._deleted)
        state = corpus_traits(writing, corpus, settings, include_titles)
        is_same = (settings, state.traits, dimension) == (self.settings, self.traits, self.dimension)
        if not is_same or any(nodes) or any(self._edges) or edge_vectors or sentences:
            writing.run(
                "UPDATE {corpora} SET version = version + 1, nodes = %(nodes)s, length = %(length)s, next_node = %(next)s, "
                "next_edge = %(next_edge)s, dimension = %(dimension)s, embedding = %(embedding)s, settings = %(settings)s, "
                "traits = %(traits)s WHERE corpus = %(corpus)s",
                corpus=corpus,
                nodes=state.size,
                length=state.length,
                next=self._next,
                next_edge=self._next_edge,
                dimension=dimension,
                embedding=encoded(embedding) or self.embedding,
                settings=json.dumps(settings),
                traits=json.dumps(state.traits),
            )
        return Written(nodes, self._edges, edge_vectors, sentences)

    def delete_edge_vectors(self) -> None:
        """Delete the vectors of all edges; if there are to be some, :meth:`finish` writes new ones."""
        self.writing.run("DELETE FROM {edge_vectors} WHERE corpus = %(corpus)s", corpus=self.corpus)
        self.edge_dimension = 0

    def _write_edge_vectors(self, settings: Any, vectors_of: VectorsOfEdges | None) -> int:
        """Bring up to date the vectors of edges, and return how many were written."""
        if settings.get("edge_dimension", 0) != self.edge_dimension:
            self.delete_edge_vectors()
        if "edge_dimension" not in settings:
            return 0
        assert vectors_of is not None
        return write_edge_vectors(self.writing, self.corpus, vectors_of, everywhere=not self.edge_dimension)

    def delete_sentences(self) -> None:
        """Delete all sentences, and the names in them; if there are to be some, :meth:`finish` writes new ones."""
        for table in ("sentences", "mentions", "names"):
            self.writing.run(f"DELETE FROM {{{table}}} WHERE corpus = %(corpus)s", corpus=self.corpus)
        self.sentences = ""

    def _write_sentences(self, settings: Any, reader: SentenceReader | None) -> int:
        """Bring up to date the sentences and the names in them, and return how many sentences were written."""
        way = settings.get("sentences", "")
        if self.sentences and way != self.sentences:
            self.delete_sentences()
        if not way:
            return 0
        assert reader is not None
        return write_sentences(self.writing, self.corpus, reader, everywhere=way != self.sentences)

    def _count_terms(self) -> None:
        parameters = {"corpus": self.corpus}
        self.writing.run(
            "INSERT INTO {terms} AS t (corpus, term, nodes) SELECT %(corpus)s, term, sum(nodes) FROM changed_terms GROUP BY term "
            "HAVING sum(nodes) <> 0 ON CONFLICT (corpus, term) DO UPDATE SET nodes = t.nodes + excluded.nodes",
            **parameters,
        )
        self.writing.run(
            "DELETE FROM {terms} WHERE corpus = %(corpus)s AND nodes = 0 AND term IN (SELECT term FROM changed_terms)", **parameters
        )

    def drop_vector_index(self) -> None:
        """Drop the HNSW index of the vectors that are there, if there is one: others have another width."""
        name = vector_index(self.corpus)
        place = f"{self.writing.tables['schema']}.{name}"
        ((exists,),) = self.writing.run("SELECT to_regclass(%(place)s) IS NOT NULL", place=place).fetchall()
        if exists:
            self.writing.run(f"DROP INDEX {{schema}}.{name}")
            logger.warning("The HNSW index of vectors was of another width and is dropped; call create_vector_index again.")
