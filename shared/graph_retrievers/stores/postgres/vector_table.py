"""Vectors that stay in a table of the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.stores.postgres.database import Statement
from graph_retrievers.stores.postgres.values import sendable
from graph_retrievers.stores.postgres.vector_stores import store_table

__all__ = ["VectorTable"]

# Most bytes of a name in PostgreSQL.
_LONGEST = 63
_TYPES = ("vector", "halfvec")
_COLUMNS = """\
SELECT a.attname::text, t.typname::text, format_type(a.atttypid, NULL),
    (SELECT ' COLLATE ' || format('%%I.%%I', s.nspname, c.collname)
        FROM pg_collation c JOIN pg_namespace s ON s.oid = c.collnamespace WHERE c.oid = a.attcollation)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(format('%%I.%%I', %(table_schema)s::text, %(table_name)s::text))
    AND a.attnum > 0 AND NOT a.attisdropped AND a.attname = ANY(%(table_columns)s::text[])"""


@dataclass(frozen=True)
class VectorTable:
    """A table of PostgreSQL, or a view, that has the vectors of nodes: of the type ``vector`` or ``halfvec`` of pgvector.

    Parameters
    ----------
    name : str
    schema : str, default "public"
    id : str, default "id"
        The column with the ids of nodes, each in one row. Its type may be any whose text form is the id: text, uuid, integer.
        Vectors are read by id, for which a large table needs an index of this column.
    vector : str, default "embedding"
        The column with the vectors, of one width.
    where : mapping of str to str, default {}
        Columns with the values that rows must have, such as that of one collection of several.

    Raises
    ------
    InvalidArgumentError
        If one of these is not a name, or not a text.

    Examples
    --------
    >>> VectorTable("chunks", where={"tenant": "films"}).id
    'id'
    """

    name: str
    schema: str = "public"
    id: str = "id"
    vector: str = "embedding"
    where: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the names and the values."""
        if not isinstance(self.where, Mapping):
            raise InvalidArgumentError(f"where is {shown(self.where)}; expected a mapping of columns to texts.")
        names = {"name": self.name, "schema": self.schema, "id": self.id, "vector": self.vector}
        for label, name in [*names.items(), *(("A column of where", column) for column in self.where)]:
            if not isinstance(name, str) or not name or not _is_text(name) or len(name.encode()) > _LONGEST:
                raise InvalidArgumentError(f"{label} is {shown(name)}; expected a name of 1 to {_LONGEST} bytes.")
        for column, value in self.where.items():
            if not isinstance(value, str) or not _is_text(value):
                raise InvalidArgumentError(f"where has {shown(value)} for the column {shown(column)}; expected a text.")

    @property
    def columns(self) -> Statement:
        """The statement that reads the types of the columns."""
        parameters = {"table_schema": self.schema, "table_name": self.name, "table_columns": [self.id, self.vector, *self.where]}
        return _COLUMNS, parameters

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self) | {"where": dict(self.where)}


class TableColumns:
    """A table of vectors, with what the database says of its columns, as parts of statements.

    Parameters
    ----------
    table : VectorTable
    rows : list of tuple
        What :attr:`VectorTable.columns` gave.
    where : str
        The database, as messages name it.

    Attributes
    ----------
    type : str
        "vector" or "halfvec".
    parameters : dict
        The parameters of the conditions.

    Raises
    ------
    InvalidArgumentError
        If there is no such table, a column is missing, or the vectors are of another type.
    """

    def __init__(self, table: VectorTable, rows: list[tuple[Any, ...]], where: str) -> None:
        self.table, types = table, {name: properties for name, *properties in rows}
        self.label = f"{shown(table.name)} in the schema {shown(table.schema)}"
        if missing := [name for name in (table.id, table.vector, *table.where) if name not in types]:
            raise InvalidArgumentError(
                f"{where} has no table {self.label} with the column {shown(missing[0])}; name the table that has the vectors, and "
                "the database that has the table."
            )
        self.type, _, _ = types[table.vector]
        if self.type not in _TYPES:
            raise InvalidArgumentError(
                f"The column {shown(table.vector)} of the table {self.label} has the type {self.type}; expected vector or halfvec."
            )
        _, self._id_type, collation = types[table.id]
        self._collation, self._from = collation or "", f"{_quoted(table.schema)}.{_quoted(table.name)} t"
        self._id, self._vector = f"t.{_quoted(table.id)}", f"t.{_quoted(table.vector)}"
        conditions = [f"t.{_quoted(column)} = %(where_{place})s" for place, column in enumerate(table.where)]
        self._rows = " AND ".join([f"{self._vector} IS NOT NULL", *conditions])
        self.parameters = {f"where_{place}": value for place, value in enumerate(table.where.values())}

    @property
    def source(self) -> str:
        """The rows of nodes in place of the table ``vectors``: corpus, node, vector."""
        return (
            f"(SELECT m.corpus, m.node, {self._vector} AS vector FROM {self._from} "
            f'JOIN {{nodes}} m ON m.id = {self._id}::text COLLATE "C" WHERE {self._rows})'
        )

    @property
    def joined(self) -> str:
        """The rows of nodes `n` with their vectors `v.vector`, which is NULL for a node that has no row."""
        # Compared as the type of the column, ids are looked up in its index.
        same = f"{self._id}{self._collation} = n.id::{self._id_type}"
        return (
            f"{{nodes}} n LEFT JOIN LATERAL (SELECT {self._vector}::vector AS vector FROM {self._from} "
            f"WHERE {same} AND {self._rows}) v ON true"
        )

    @property
    def absent(self) -> str:
        """The statement that reads how many nodes have no row, and the least of their ids."""
        # A condition on each node may be planned in a way that takes minutes, as nodes that were just written have no statistics.
        return (
            "SELECT count(*), min(id) FROM (SELECT n.id FROM {nodes} n WHERE n.corpus = %(corpus)s EXCEPT "
            f'SELECT {self._id}::text COLLATE "C" FROM {self._from} WHERE {self._rows}) absent'
        )

    def index(self, dimension: int) -> str:
        """Return the statement with which the owner of the table creates an HNSW index, for messages."""
        values = [(_quoted(column, False), value.replace("'", "''")) for column, value in self.table.where.items()]
        only = " WHERE " + " AND ".join(f"{column} = '{value}'" for column, value in values) if values else ""
        table = f"{_quoted(self.table.schema, False)}.{_quoted(self.table.name, False)}"
        vector = f"({_quoted(self.table.vector, False)}::{self.type}({dimension}))"
        return f"CREATE INDEX ON {table} USING hnsw ({vector} {self.type}_cosine_ops){only}"


def vector_table(vectors: Any) -> VectorTable:
    """Return the table that is given, or that of a vector store of LangChain or LlamaIndex; InvalidArgumentError for others.

    >>> vector_table(VectorTable("chunks")).name
    'chunks'
    """
    if isinstance(vectors, VectorTable):
        return vectors
    if (table := store_table(vectors)) is None:
        raise InvalidArgumentError(
            f"vectors is {shown(vectors)}; expected a VectorTable, or a vector store with a table in PostgreSQL: PGVector or "
            "PGVectorStore. The vectors of other stores are written with the index: leave vectors= out."
        )
    name, schema, collection = table.place()
    return VectorTable(name, schema, table.id, table.vector, {} if collection is None else {"collection_id": collection})


def _is_text(text: str) -> bool:
    return "\x00" not in text and sendable(text)


def _quoted(name: str, formatted: bool = True) -> str:
    """Return a name as SQL writes it, by default in a statement whose parameters and tables are filled in."""
    from psycopg.sql import Identifier

    identifier = Identifier(name).as_string()
    return identifier.replace("%", "%%").replace("{", "{{").replace("}", "}}") if formatted else identifier
