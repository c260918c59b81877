"""An index in PostgreSQL, opened for retrievers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from graph_retrievers.stores.postgres.corpus import PostgresCorpus
from graph_retrievers.stores.postgres.database import PostgresDatabase
from graph_retrievers.stores.postgres.graph import PostgresGraph
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
    >>> from graph_retrievers.stores.remote import RemoteRetriever
    >>> index = open_index("postgresql://localhost/works", "machines", embedding=model)  # doctest: +SKIP
    >>> [hit.id for hit in RemoteRetriever(index).retrieve("Which loom?")]  # doctest: +SKIP
    ['jacquard', 'loom']
    """
    database = PostgresDatabase(database) if isinstance(database, str) else database
    reopen = partial(open_index, database, name, exact=exact, **options)

    @contextmanager
    def pinned() -> Iterator[RemoteIndex]:
        with database.pinned() as state:
            yield open_index(state, name, exact=exact, **options)

    # So that it is of one state, even if others write all the time.
    with database.pinned() as state:
        corpus = PostgresCorpus(state, name)
        stores: dict[str, Any] = {"words": PostgresWords(corpus), "reopen": reopen, "pinned": pinned}
        if corpus.dimension:
            stores["vectors"] = PostgresVectors(corpus, exact=exact)
        index = RemoteIndex(PostgresGraph(corpus), **{**stores, **options})
    corpus.database = database
    return index
