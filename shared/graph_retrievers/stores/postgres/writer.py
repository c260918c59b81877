"""Write an index, or a graph with words and vectors that are made of it, into PostgreSQL, and bring it up to date there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.graph.corpus_graph import COLUMNS, CorpusGraph, Edge
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.word_signal import languages_of
from graph_retrievers.stores.changes import check_lengths, check_loss, check_same_vectors, warn_of_bare, warn_of_bare_nodes
from graph_retrievers.stores.postgres.change import Change, Written
from graph_retrievers.stores.postgres.corpus import corpus_name
from graph_retrievers.stores.postgres.database import PostgresDatabase, Writing, check_database
from graph_retrievers.stores.postgres.edge_vectors import VectorsOfEdges, delete_other_vectors
from graph_retrievers.stores.postgres.nodes import BLOCK, CountedWords, NodeBlock, check_ids
from graph_retrievers.stores.postgres.schema import ensure_tables
from graph_retrievers.stores.postgres.sentences import SentenceReader, check_finder, embed_texts
from graph_retrievers.stores.postgres.values import decoded, encoded
from graph_retrievers.stores.postgres.vector_table import TableColumns, VectorTable, vector_table

__all__ = ["write_index"]


def write_index(
    index: GraphIndex,
    database: PostgresDatabase,
    name: str,
    *,
    vectors: Any = None,
    sentences: Any = False,
    replace: bool = False,
    show_progress: bool = False,
) -> Written:
    """Write an index into PostgreSQL, or update it there, so that retrievers run there as in memory.

    Nodes, edges, words, vectors and names go into the tables of the database's schema, under the name of the index, and vectors of
    edges if the index was built with ``edge_signals=True``; several indexes lie in the same tables. Contents that are there are not
    written again, and contents that are not in the index are deleted, in one transaction: a reader sees the state before or after.
    Of several writers, each waits for the one before.

    Parameters
    ----------
    index : GraphIndex
        With BM25.
    database : PostgresDatabase
    name : str
        Of 1 to 500 characters.
    vectors : VectorTable, PGVector or PGVectorStore, optional
        A table of the same database that has the vectors of the nodes already, or the vector store of LangChain or LlamaIndex that
        has this table. They stay there and are searched there, and no vector is written: see
        :class:`~graph_retrievers.stores.postgres.VectorTable`. The table is only read. After its rows have changed, build the index
        of it again, and write that.
    sentences : bool or object, default False
        Whether the sentences of texts, and the names in them, are written too, with their vectors, which the model of the index
        makes: :class:`~graph_retrievers.LinearRAG` reads them. Names are found by their capitals, or by what is given here, as for
        its `extractor`. Those that are there are kept, and follow the texts, unless the index in memory has no model.
    replace : bool, default False
        Whether the index may replace one of other documents, of which more than half of the nodes would be deleted, or one with
        vectors of another model or width. An HNSW index of another width is dropped.
    show_progress : bool, default False

    Returns
    -------
    Written

    Raises
    ------
    InvalidArgumentError, DimensionMismatchError
        Without `replace`, if there is an index of other documents or of another model under this name; if an id has more than 2,600
        bytes; if vectors are compared by dot products and have different lengths; if this database has no table of `vectors`, or it
        has no row with a vector for a node.
    MissingSignalError
        If the index has no BM25, or with `vectors` no vectors, or with `sentences` no vectors or no model.
    MissingDatabaseFeatureError
        If the database has no extension ``vector``, and the user cannot create it.
    DatabaseUnreachableError, DatabaseAuthError, DatabaseError
        If the database cannot be reached, refuses the user, or fails. Nothing was written then.

    Examples
    --------
    >>> database = PostgresDatabase("postgresql://localhost/works")  # doctest: +SKIP
    >>> write_index(index, database, "machines").nodes  # doctest: +SKIP
    Changes(written=1200, moved=0, deleted=0)
    """
    check_database(database)
    sentences = sentences or False
    graph, bm25, dense = index.graph, index.signals.get("bm25"), index.signals.get("dense")
    if not isinstance(bm25, BM25):
        raise MissingSignalError("The index has no BM25, of which the words are made; build it with bm25=True.")
    dense = dense if isinstance(dense, DenseIndex) else None
    edge_dense = index.signals.get("edge_dense")
    edge_vectors = edge_dense if isinstance(edge_dense, DenseIndex) and edge_dense.covers == "edges" else None
    table = None if vectors is None else vector_table(vectors)
    if edge_vectors is not None:
        check_lengths(edge_vectors)
    if dense is not None:
        check_lengths(dense)
        warn_of_bare(dense, graph.ids)
    elif table is not None:
        raise MissingSignalError("The index has no vectors, and vectors= says where they are; build it of the same store.")
    blocks = _blocks_of(graph, CountedWords(bm25), None if dense is None or table is not None else dense)
    # The settings name the table of the vectors if these are not written.
    settings = bm25.settings if table is None else {**bm25.settings, "vectors": table.to_dict()}
    settings = settings if edge_vectors is None else {**settings, "edge_dimension": edge_vectors.dimension}
    dimension = 0 if dense is None else dense.dimension
    reader = _sentence_reader(index, sentences)
    if sentences is not False:
        if reader is None:
            raise MissingSignalError(
                "Sentences and names are embedded by the model of the nodes; build the index with embedding=, or leave out "
                "sentences=."
            )
        settings = {**settings, "sentences": reader.way}
    settings = {**settings, "numbers": index.looks_up}
    parts = (
        graph,
        blocks,
        settings,
        dimension,
        index.embedding_name,
        None if edge_vectors is None else partial(_taken, edge_vectors),
        reader,
    )
    return _write(*parts, database, name, table, replace, show_progress)


def _sentence_reader(index: GraphIndex, sentences: Any) -> SentenceReader | None:
    """Return what reads sentences, with the model of an index; None if it has none."""
    if index.embedding is None or not index.has_dense:
        return None
    return SentenceReader.of(sentences is False or sentences, partial(embed_texts, index.embedding))


def _taken(dense: DenseIndex, rows: list[int], texts: object = None) -> np.ndarray:
    """Return vectors by their rows: float32, shape [n, d]."""
    return dense.taken(torch.tensor(rows, dtype=torch.int64)).cpu().numpy()


def write_graph(
    graph: CorpusGraph,
    database: PostgresDatabase,
    name: str,
    *,
    vectors: Callable[[list[str]], Tensor] | None = None,
    embedding_name: str = "",
    numbers: bool = False,
    replace: bool = False,
    show_progress: bool = False,
) -> Written:
    """Write the index of a graph as :func:`write_index` does, but make its vectors and words in blocks, as they are written.

    `vectors` returns the vectors of n texts: Tensor, shape [n, d], of unit length; by default the index has none. It is called
    while other writers of this index wait, so the texts should be embedded, and their vectors kept, before. `numbers` says whether
    the graph has references by number.
    """
    check_database(database)
    languages = languages_of(graph.contents(), stem=True if vectors is None else None)
    blocks = _make_blocks(graph, languages, vectors)
    first = next(blocks)
    dimension = 0 if first.vectors is None else first.vectors.shape[1]
    all_blocks = chain([first], blocks)

    def vectors_of(texts: list[str]) -> np.ndarray:
        assert vectors is not None
        return vectors(texts).cpu().numpy()  # type: ignore[no-any-return]

    parts = (
        graph,
        all_blocks,
        {**first.words.settings, "numbers": numbers},
        dimension,
        embedding_name,
        None if vectors is None else lambda positions, texts: vectors_of(texts),
        None if vectors is None else SentenceReader.of(True, vectors_of),
    )
    return _write(*parts, database, name, None, replace, show_progress)


def _write(
    graph: CorpusGraph,
    blocks: Iterator[NodeBlock],
    settings: dict[str, Any],
    dimension: int,
    embedding_name: str,
    vectors_of_edges: VectorsOfEdges | None,
    sentence_reader: SentenceReader | None,
    database: PostgresDatabase,
    name: str,
    table: VectorTable | None,
    replace: bool,
    show_progress: bool,
) -> Written:
    """Write the edges of a graph, and its nodes as blocks, in place of what the database has under a name.

    Edges have vectors if the settings have their width, or if those that are there have some; likewise there are sentences if the
    settings say what finds the names in them, or if some are there and there is what reads them.
    """
    check_ids(graph)
    encoded_name, where = corpus_name(name), f"The index {shown(name)} of {database.where}"
    ensure_tables(database)
    with database.writing() as writing:
        change = Change(writing, encoded_name)
        rows = writing.run("SELECT id, node FROM {nodes} WHERE corpus = %(corpus)s", corpus=change.corpus).fetchall()
        ids = set(map(encoded, graph.ids))
        absent_nodes = [node for node_id, node in rows if node_id not in ids]
        check_loss(where, len(rows), len(absent_nodes), replace)
        if not replace and rows:
            check_same_vectors(where, (change.dimension, change.embedding), (dimension, encoded(embedding_name)))
        is_other_model = replace and (not embedding_name or encoded(embedding_name) != change.embedding)
        if replace:
            # The vectors may be of another model, whose name is not known.
            change.embedding = ""
        if change.dimension not in (0, dimension):
            change.drop_vector_index()
        change.delete(absent_nodes, close=False)
        with progress_bar(total=len(graph), desc="writing nodes", unit="node", disable=not show_progress) as bar:
            start = 0
            for block in blocks:
                change.write(block, range(start, start + len(block.ids)), bar.update)
                start += len(block.ids)
        change.replace_edges(_edges(graph))
        if vectors_of_edges is not None and change.edge_dimension:
            if change.edge_dimension == settings.get("edge_dimension"):
                delete_other_vectors(writing, change.corpus, vectors_of_edges)
            elif "edge_dimension" not in settings:
                if is_other_model:
                    change.delete_edge_vectors()
                settings = {**settings, "edge_dimension": dimension}
        if change.sentences and sentence_reader is not None and "sentences" not in settings:
            check_finder(change.sentences, sentence_reader, where)
            settings = {**settings, "sentences": change.sentences}
        if is_other_model:
            change.delete_sentences()
        if table is not None:
            _check_table(writing, change.corpus, len(graph), table, database.where)
        return change.finish(settings, dimension, embedding_name, graph.include_titles, vectors_of_edges, sentence_reader)


def _check_table(writing: Writing, corpus: int, size: int, table: VectorTable, where: str) -> None:
    """Raise InvalidArgumentError if a table has not the vectors of all nodes."""
    text, parameters = table.columns
    columns = TableColumns(table, writing.run(text, **parameters).fetchall(), where)
    ((count, node_id),) = writing.run(columns.absent, corpus=corpus, **columns.parameters).fetchall()
    if count:
        raise InvalidArgumentError(
            f"{count:,} of {size:,} nodes, such as {shown(decoded(node_id))}, have no row with a vector in the table "
            f"{columns.label} of {where}. If it is the database of the store, the rows were deleted since the index was built: "
            "read the store again."
        )


def _row_ranges(graph: CorpusGraph) -> Iterator[range]:
    return (range(start, min(start + BLOCK, len(graph))) for start in range(0, len(graph), BLOCK))


def _make_blocks(
    graph: CorpusGraph, languages: dict[str, Any], vectors: Callable[[list[str]], Tensor] | None
) -> Iterator[NodeBlock]:
    """Yield the nodes of a graph with words and vectors that are made for each block."""
    bare_ids: list[str] = []
    for rows in _row_ranges(graph):
        part = graph.with_columns({name: getattr(graph, name)[rows.start : rows.stop] for name in COLUMNS})
        contents, block_vectors = part.contents(), None
        if vectors is not None:
            dense = DenseIndex(vectors(contents))
            check_lengths(dense)
            block_vectors = dense.vectors.cpu().numpy()
            bare_ids += [part.ids[place] for place in np.flatnonzero(~block_vectors.any(1))]
        yield NodeBlock(part, range(len(part)), CountedWords(BM25(contents, **languages)), block_vectors)
    if bare_ids:
        warn_of_bare_nodes(len(bare_ids), len(graph), bare_ids[0])


def _blocks_of(graph: CorpusGraph, words: CountedWords, dense: DenseIndex | None) -> Iterator[NodeBlock]:
    """Yield the nodes of a graph with their words and vectors."""
    for rows in _row_ranges(graph):
        vectors = None if dense is None else dense.taken(torch.arange(rows.start, rows.stop)).cpu().numpy().astype(np.float32)
        yield NodeBlock(graph, rows, words, vectors)


def _edges(graph: CorpusGraph) -> Iterator[Edge]:
    """Yield the edges of a graph, without their metadata."""
    for start in range(0, graph.num_edges, BLOCK):
        part = slice(start, start + BLOCK)
        columns = [column[part].tolist() for column in (graph.sources, graph.targets, graph.relations, graph.weights)]
        texts = graph.edge_texts[part] or [""] * len(columns[0])
        for source, target, relation, weight, text in zip(*columns, texts, strict=True):
            yield Edge(graph.ids[source], graph.ids[target], graph.relation_names[relation], weight, text)
