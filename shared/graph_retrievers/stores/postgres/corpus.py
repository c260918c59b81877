"""One index in PostgreSQL, as its stores read it."""

from __future__ import annotations

from typing import Any

from graph_retrievers.errors import InvalidArgumentError, StaleIndexError, shown
from graph_retrievers.stores.postgres.database import PostgresDatabase, Statement, check_database
from graph_retrievers.stores.postgres.schema import check_layout
from graph_retrievers.stores.postgres.values import decoded, encoded, sendable
from graph_retrievers.stores.postgres.vector_table import VectorTable

__all__ = ["PostgresCorpus"]

_READ = """\
SELECT corpus, version, nodes, length, dimension, embedding, settings, traits,
    (SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %(schema)s)
FROM {corpora} WHERE name = %(name)s"""

_VERSION = "SELECT version FROM {corpora} WHERE corpus = %(corpus)s"
# Names of other indexes that an error shows.
_MOST_NAMES = 10


class PostgresCorpus:
    """An index that :func:`~graph_retrievers.stores.postgres.write_index` wrote, in the state in which it is when this is made.

    Its stores read that state only: once the index is written again, with changes, they raise an error, and a new one is needed.

    Parameters
    ----------
    database : PostgresDatabase
    name : str
        The name under which it was written.

    Attributes
    ----------
    nodes, dimension, edge_dimension : int
        Number of nodes, and width of their vectors and of those of edges; 0 without vectors.
    has_numbers : bool
        Whether it was written with references by number.
    sentences : str
        What found the names in the sentences: "capitals" or "an extractor"; "" if there are no sentences.
    version : int
        Number of the state, which each change raises by one.
    embedding : str
        Name of the model of the vectors; "" if it is not known.
    table : VectorTable or None
        The table of the user that has the vectors; None if they were written with the index.
    traits : mapping
        See :func:`~graph_retrievers.systems.traits.traits_of`.

    Raises
    ------
    InvalidArgumentError
        If there is no index of that name.
    DatabaseError
        If the database fails, or has no index at all.
    """

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        check_database(database)
        self.database, self.name = database, name
        (rows,) = database.read((_READ, {"name": corpus_name(name), "schema": database.schema}))
        if not rows:
            (names,) = database.read(("SELECT name FROM {corpora} ORDER BY name LIMIT %(most)s", {"most": _MOST_NAMES + 1}))
            examples = [shown(decoded(other)) for (other,) in names]
            others = (
                f" It has {', '.join(examples[:_MOST_NAMES])}{' and others' if len(examples) > _MOST_NAMES else ''}."
                if examples
                else ""
            )
            raise InvalidArgumentError(
                f"{database.where} has no index {shown(name)} in the schema {database.schema!r}; write it with write_index.{others}"
            )
        self.number, self.version, self.nodes, self.length, self.dimension, model, self.settings, self.traits, layout = rows[0]
        self.embedding = decoded(model)
        check_layout(layout, database.where, database.schema)
        self.edge_dimension: int = self.settings.get("edge_dimension", 0)
        self.has_numbers: bool = self.settings.get("numbers", False)
        self.sentences: str = self.settings.get("sentences", "")
        table = self.settings.get("vectors")
        self.table = None if table is None else VectorTable(**table)

    def __repr__(self) -> str:
        """Return the database and the name."""
        return f"PostgresCorpus({self.database!r}, {self.name!r})"

    def read(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        """Return the rows of statements in one round trip; StaleIndexError if the index was changed. See `PostgresDatabase.read`.

        Each is a query, and has the parameter ``corpus``; among several, statements without rows may be settings.
        """
        if len(statements) > 1:
            versions, *rows = self._rows((_VERSION, {}), *statements)
        else:
            # The version is read by the same statement, as a transaction of two may take longer than the statement alone.
            text, parameters = statements[0]
            (records,) = self._rows((f"SELECT s.*, ({_VERSION}) FROM ({text}) s", parameters))
            # A version that is read after a statement without rows held before it too, as versions only rise.
            versions = [row[-1:] for row in records[:1]] or self._rows((_VERSION, {}))[0]
            rows = [[row[:-1] for row in records]]
        if versions != [(self.version,)]:
            raise StaleIndexError(
                f"The index {shown(self.name)} of {self.database.where} was written again since it was opened; open it again."
            )
        return rows

    def _rows(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        return self.database.read(*((text, {"corpus": self.number, **parameters}) for text, parameters in statements))


def corpus_name(name: Any) -> str:
    """Return the name of an index as it is stored; InvalidArgumentError if it cannot be one."""
    if not isinstance(name, str) or not name or len(name) > 500 or not sendable(name):
        raise InvalidArgumentError(f"The name of the index is {shown(name)}; expected a text of 1 to 500 characters.")
    return encoded(name)
