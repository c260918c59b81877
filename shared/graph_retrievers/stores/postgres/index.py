"""An index in PostgreSQL, opened for retrievers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graph_retrievers.errors import shown
from graph_retrievers.index.settings import warn_of_other_model
from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.database import PostgresDatabase, check_database
from graph_retrievers.stores.postgres.edge_vectors import PostgresEdgeVectors
from graph_retrievers.stores.postgres.graph import PostgresGraph
from graph_retrievers.stores.postgres.sentences import PostgresSentences
from graph_retrievers.stores.postgres.vectors import PostgresVectors
from graph_retrievers.stores.postgres.words import PostgresWords
from graph_retrievers.stores.remote.index import RemoteIndex

__all__ = ["open_index"]


def open_index(database: PostgresDatabase | str, name: str, *, exact: bool = True, **options: Any) -> RemoteIndex:
    """Return an index in PostgreSQL, with its vectors and words, for retrievers; nothing of it is loaded.

    It is the state in which the index is now. A retriever on it opens the index again when it has been written with changes
    (:func:`~graph_retrievers.stores.postgres.write_index`), so that every answer is of one state, that before or after a change.

    Parameters
    ----------
    database : PostgresDatabase or str
        Or its url.
    name : str
        The name under which the index was written.
    exact : bool, default True
        See :class:`~graph_retrievers.stores.postgres.PostgresVectors`.
    **options
        Keywords of :class:`~graph_retrievers.stores.remote.RemoteIndex`, such as ``embedding``.

    Returns
    -------
    RemoteIndex

    Raises
    ------
    InvalidArgumentError
        If there is no index of that name.
    DatabaseUnreachableError, DatabaseAuthError, DatabaseError
        If the database cannot be reached, refuses the user, or fails.

    Examples
    --------
    >>> from graph_retrievers import Retriever
    >>> index = open_index("postgresql://localhost/works", "machines", embedding=model)  # doctest: +SKIP
    >>> [hit.id for hit in Retriever(index).retrieve("Which loom?")]  # doctest: +SKIP
    ['jacquard', 'loom']
    """
    server = PostgresDatabase(database) if isinstance(database, str) else database
    check_database(server)
    corpus, index = _opened(server, name, exact, options)
    if corpus.dimension:
        warn_of_other_model(f"the index {shown(name)}", corpus.embedding, index.embedding)
    return index


def _opened(database: PostgresDatabase, name: str, exact: bool, options: dict[str, Any]) -> tuple[PostgresCorpus, RemoteIndex]:
    def reopen() -> RemoteIndex:
        return _opened(database, name, exact, options)[1]

    @contextmanager
    def pinned() -> Iterator[RemoteIndex]:
        with database.pinned() as state:
            yield _opened(state, name, exact, options)[1]

    # The database is pinned so that the index is of one state, even if others write all the time.
    with database.pinned() as state:
        corpus = PostgresCorpus(state, name)
        stores: dict[str, Any] = {"words": PostgresWords(corpus), "reopen": reopen, "pinned": pinned}
        if corpus.dimension:
            stores["vectors"] = PostgresVectors(corpus, exact=exact)
        if corpus.edge_dimension:
            stores["edge_vectors"] = PostgresEdgeVectors(corpus)
        if corpus.sentences:
            stores["sentences"] = PostgresSentences(corpus)
        index = RemoteIndex(PostgresGraph(corpus), **{**stores, **options})
    corpus.database = database
    return corpus, index
