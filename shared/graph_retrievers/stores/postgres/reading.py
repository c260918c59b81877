"""An index in PostgreSQL, read into memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.index.settings import warn_of_other_model
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.database import PinnedDatabase, PostgresDatabase, check_database
from graph_retrievers.stores.postgres.edge_vectors import SAME_EDGE
from graph_retrievers.stores.postgres.nodes import BLOCK
from graph_retrievers.stores.postgres.values import decoded, read_vector
from graph_retrievers.stores.postgres.vectors import PostgresVectors
from graph_retrievers.stores.postgres.words import PostgresWords

__all__ = ["read_index"]

_COUNT = "SELECT count(*) FROM {nodes} n WHERE n.corpus = %(corpus)s"
_NODES = """\
SELECT n.position, n.node, n.length, n.id, n.text, n.title, n.type, n.metadata::text, n.origin::text
FROM {nodes} n WHERE n.corpus = %(corpus)s AND n.position > %(last)s ORDER BY n.position LIMIT %(most)s"""
_EDGES = """\
SELECT e.source, e.target, e.relation, e.weight, e.text FROM {edges} e WHERE e.corpus = %(corpus)s ORDER BY e.position"""
_EDGE_VECTORS = f"""\
SELECT e.source, e.target, vector_send(v.vector) FROM {{edges}} e LEFT JOIN {{edge_vectors}} v ON {SAME_EDGE}
WHERE e.corpus = %(corpus)s ORDER BY e.position"""


def read_index(
    database: PostgresDatabase | str,
    name: str,
    *,
    embedding: Any = None,
    relevance: Any = None,
    edge_signals: bool = False,
    device: str | torch.device | None = None,
    show_progress: bool = False,
) -> GraphIndex:
    """Return an index in PostgreSQL as one in memory, for what reads a whole index, such as ``evaluate`` and ``serve``.

    Nodes, edges and vectors are read in one state of the database, and nothing is embedded. A user whom a policy of the database
    shows only some of the nodes gets these, and the edges between them. Later changes do not follow; there were some if
    :attr:`PostgresCorpus.version` is higher.

    Parameters
    ----------
    database : PostgresDatabase or str
        Or its url.
    name : str
        The name under which the index was written.
    embedding, relevance : object, optional
        Models of the index, as for :class:`~graph_retrievers.index.GraphIndex`.
    edge_signals : bool, default False
        Whether to build signals of the edges, see :meth:`~graph_retrievers.index.GraphIndex.from_graph`. Vectors of edges that are
        stored are read in any case; if there are none, and an embedding model is given, it embeds their texts.
    device : str or torch.device, optional
        Device of the index; the CPU by default.
    show_progress : bool, default False

    Returns
    -------
    GraphIndex
        With the nodes and edges in their order. Vectors are compared by cosine, as in the database. Metadata of edges and the
        specifications that found them are not stored, so that all edges count as given one by one.

    Raises
    ------
    InvalidArgumentError
        If there is no index of that name, or its words are not those of its texts.
    EmptyGraphError
        If the user may read none of its nodes.
    DatabaseUnreachableError, DatabaseAuthError, DatabaseError
        As for :func:`open_index`.

    Examples
    --------
    >>> from graph_retrievers import Retriever
    >>> index = read_index("postgresql://localhost/works", "machines", embedding=model)  # doctest: +SKIP
    >>> [hit.id for hit in Retriever(index).retrieve("Which loom?")]  # doctest: +SKIP
    ['loom', 'jacquard']
    """
    server = PostgresDatabase(database) if isinstance(database, str) else database
    check_database(server)
    with nullcontext() if server is database else server, server.pinned() as state:
        corpus = PostgresCorpus(state, name)
        # This refuses words of an earlier version.
        PostgresWords(corpus)
        # A policy may show the user fewer nodes than the index has.
        (((readable,),),) = corpus.read((_COUNT, {}))
        with progress_bar(total=readable, desc="reading nodes", unit="node", disable=not show_progress) as bar:
            rows = []
            for block in _blocks(corpus):
                rows += block
                bar.update(len(block))
        if not rows:
            raise EmptyGraphError(f"The user may read no node of {corpus!r}.")
        _, numbers, lengths, *texts, metadata, origins = zip(*rows, strict=True)
        ids, contents, titles, types = ([decoded(text) for text in column] for column in texts)
        graph = CorpusGraph(
            ids,
            contents,
            titles=titles,
            types=types,
            metadata=list(map(json.loads, metadata)),
            origins=list(map(json.loads, origins)),
            edges=_edges(state, corpus, dict(zip(numbers, ids, strict=True))),
            include_titles=corpus.traits["include_titles"],
            device=device,
        )
        vectors = _vectors(corpus, ids) if corpus.dimension else None
        edge_vectors = _edge_vectors(state, corpus, set(numbers), graph.num_edges) if corpus.edge_dimension else None
    words = BM25(graph.contents(), device=graph.device, **{option: corpus.settings[option] for option in BM25.options})
    if words.state()[0]["lengths"].tolist() != list(lengths):
        raise InvalidArgumentError(
            f"The words of the index {shown(name)} are those of other texts than its nodes have; build it from its documents again."
        )
    index = GraphIndex.from_graph(
        graph,
        # With a model, edges would be embedded again.
        embedding=embedding if edge_vectors is None else None,
        relevance=relevance,
        vectors=False if vectors is None else vectors,
        metric="cosine",
        bm25=words,
        edge_signals=edge_signals,
        show_progress=show_progress,
    )
    if edge_vectors is not None:
        dense = DenseIndex(torch.from_numpy(edge_vectors), device=graph.device, covers="edges", metric="cosine")
        index = GraphIndex(graph, {**index.signals, "edge_dense": dense}, embedding=embedding, relevance=relevance)
    if vectors is not None:
        warn_of_other_model(f"the index {shown(name)}", corpus.embedding, index.embedding)
    return index


def _blocks(corpus: PostgresCorpus) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of the nodes in blocks, in the order of their positions."""
    last = -1
    while True:
        (block,) = corpus.read((_NODES, {"last": last, "most": BLOCK}))
        if not block:
            return
        yield block
        last = block[-1][0]


def _edges(state: PinnedDatabase, corpus: PostgresCorpus, ids: dict[int, str]) -> Iterator[Edge]:
    """Yield the edges between the nodes whose ids are given by their numbers, in order."""
    for source, target, relation, weight, text in state.rows((_EDGES, {"corpus": corpus.number})):
        if source in ids and target in ids:
            yield Edge(ids[source], ids[target], decoded(relation), weight, decoded(text))


def _edge_vectors(state: PinnedDatabase, corpus: PostgresCorpus, nodes: Collection[int], count: int) -> np.ndarray:
    """Return the vectors of the edges that :func:`_edges` yields: float32, shape [M, d]; zeros for an edge without one."""
    vectors, row = np.zeros((count, corpus.edge_dimension), np.float32), 0
    for source, target, data in state.rows((_EDGE_VECTORS, {"corpus": corpus.number})):
        if source in nodes and target in nodes:
            vectors[row] = 0.0 if data is None else read_vector(data)
            row += 1
    return vectors


def _vectors(corpus: PostgresCorpus, ids: list[str]) -> np.ndarray:
    """Return the vectors of the nodes: float32, shape [N, d]; zeros for a node without one."""
    store, vectors = PostgresVectors(corpus), np.zeros((len(ids), corpus.dimension), np.float32)
    for start in range(0, len(ids), BLOCK):
        part = ids[start : start + BLOCK]
        vectors_by_id = store.vectors(part)
        for row, node in enumerate(part, start):
            if node in vectors_by_id:
                vectors[row] = vectors_by_id[node]
    return vectors
