"""An index in engines: its graph and names in a graph database, its vectors and words in Qdrant."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from graph_retrievers.arguments import positive
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, shown
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.stores.changes import Changes, check_loss
from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.words import CypherWords
from graph_retrievers.stores.cypher.writer import absent_nodes, check_writable, write_rows
from graph_retrievers.stores.qdrant_points import QdrantPoints

__all__ = ["Written", "write_index"]


class Written(NamedTuple):
    """What :func:`write_index` changed: nodes and edges of the database, and points of Qdrant."""

    nodes: Changes
    edges: Changes
    points: Changes


def write_index(
    index: GraphIndex,
    database: CypherDatabase,
    client: Any,
    collection: str,
    *,
    words: CypherWords | None = None,
    length_drift: float = 0.01,
    replace: bool = False,
    batch_size: int = 1000,
    show_progress: bool = False,
) -> Written:
    """Write an index into a graph database and Qdrant, or update it there, so that retrievers run there as in memory.

    Nodes, edges and names are written under the label of the database's schema, vectors and words into a collection; each of
    these contains one index. Existing contents are not written again, and contents that are not in the index are deleted. So a
    stopped write continues when it is repeated, and the index of changed documents
    (:meth:`~graph_retrievers.index.GraphIndex.with_changes`) writes only its changes. During a write, no
    :class:`~graph_retrievers.stores.remote.RemoteIndex` with its words can be created.

    Parameters
    ----------
    index : GraphIndex
        With BM25, unless `words` is given.
    database : CypherDatabase
    client : qdrant_client.QdrantClient
    collection : str
        Name of the collection; it is created if it does not exist.
    words : CypherWords, optional
        The full-text index of the database, used instead of words in Qdrant.
    length_drift : float, default 0.01
        From 0 to 1: the share by which the mean length of all texts, on which the weight of each word depends, may differ from that
        in the collection before all words are written again. 0 keeps the scores of words equal to those in memory; with 0.01 they
        differ by less than 1 %.
    replace : bool, default False
        Whether the index may replace one of other documents, of which more than half of the nodes would be deleted, or one with
        vectors of another model or width.
    batch_size : int, default 1000
        Nodes or edges per query to the database; a request to Qdrant has a quarter as many points.
    show_progress : bool, default False

    Returns
    -------
    Written

    Raises
    ------
    InvalidArgumentError, DimensionMismatchError
        Before anything is written: if label or collection have contents that this package did not write, or, without `replace`,
        an index of other documents or another model, or if an id has more than 2,000 characters.
    MissingSignalError
        If the index has no BM25, or with `words` no vectors.
    MissingDatabaseFeatureError
        See :meth:`~graph_retrievers.stores.cypher.words.CypherWords.fill`.
    DatabaseUnreachableError, DatabaseAuthError, DatabaseError
        If an engine cannot be reached, refuses the user, or fails, or another write to the collection began meanwhile. What was
        written remains, and the next call continues from there.

    Examples
    --------
    >>> from qdrant_client import QdrantClient
    >>> database = CypherDatabase("bolt://localhost:7687", auth=("neo4j", "password"))  # doctest: +SKIP
    >>> write_index(index, database, QdrantClient(url="http://localhost:6333"), "machines").nodes  # doctest: +SKIP
    Changes(written=1200, moved=0, deleted=0)
    """
    if not isinstance(database, CypherDatabase):
        raise InvalidArgumentError(f"database is {shown(database)}; expected a CypherDatabase.")
    if words is not None and (not isinstance(words, CypherWords) or words.database.schema.label != database.schema.label):
        raise InvalidArgumentError(f"words is {shown(words)}; expected CypherWords of the same label, or None for words in Qdrant.")
    size, label = positive("batch_size", batch_size), database.schema.label
    # All that can be refused is looked at before the first write.
    check_writable(database.schema, index.graph)
    lexical = "words" if words is None else None
    points = QdrantPoints(client, collection, index, words=lexical, length_drift=length_drift, replace=replace)
    count, absent_ids = absent_nodes(database, index.graph, size)
    check_loss(f"The label {label!r} of {database.uri}", count, len(absent_ids), replace)
    if words is not None:
        words.begin()
    points.begin()
    try:
        nodes, edges = write_rows(database, index.graph, None, absent_ids, size, show_progress, points.check_alone)
        changes = points.write(max(size // 4, 1), show_progress)
    except Exception:
        # If another write ran at the same time, the database may have ended this one, and the other is not complete either.
        with suppress(GraphRetrieverError):
            points.check_alone()
        raise
    points.finish()
    if words is not None:
        words.finish(index)
    return Written(nodes, edges, changes)
