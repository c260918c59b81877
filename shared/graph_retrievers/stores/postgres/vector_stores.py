"""What vector stores of LangChain and LlamaIndex hold in tables of PostgreSQL, read by their own connections.

The stores are recognised by their attributes: neither framework is imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from graph_retrievers.errors import (
    DatabaseError,
    EmptyGraphError,
    GraphRetrieverError,
    InvalidArgumentError,
    InvalidVectorError,
    few,
    shown,
)
from graph_retrievers.stores.postgres.values import read_vector

T = TypeVar("T")
_METRICS = {
    **{"cosine": "cosine", "l2": "euclidean", "inner": "dot"},
    **{"COSINE_DISTANCE": "cosine", "EUCLIDEAN": "euclidean", "INNER_PRODUCT": "dot"},
}
# Rows that a cursor on the server gives at a time.
_BLOCK = 1000
_ASYNC_STORE = (
    "{} can only be awaited, and its table is read at once; make a store on the same table for it, with PGVector(..., "
    "connection='postgresql+psycopg://...') or PGVectorStore.create_sync(PGEngine.from_connection_string(...), ...)."
)


class StoredRow(NamedTuple):
    """A row of a vector store: id, text, metadata and vector, float32, shape [d]."""

    id: str
    text: str
    metadata: dict[str, Any]
    vector: np.ndarray


@dataclass(frozen=True)
class StoreTable:
    """The table of a vector store.

    Parameters
    ----------
    store : str
        What messages call it.
    table : sqlalchemy.TableClause
    id, text, vector : str
        Columns of the table.
    metadata : str or None
        The column with metadata as JSON.
    fields : sequence of str
        Further columns that are metadata, by their names.
    order : str
        The column by which rows are ordered.
    metric : str
        "cosine", "dot", "euclidean", or the store's own name of another.
    connected : callable
        Calls a function with a synchronous connection of SQLAlchemy, and returns its result.
    collection : tuple of a table and a name, optional
        The table of collections, and the name of the collection whose rows are read; None if the table has only one.
    """

    store: str
    table: Any
    id: str
    text: str
    vector: str
    metadata: str | None
    fields: Sequence[str]
    order: str
    metric: str
    connected: Callable[[Callable[[Any], Any]], Any]
    collection: tuple[Any, str] | None = None

    def rows(self) -> list[StoredRow]:
        """Return all rows, in the order of their keys.

        Raises EmptyGraphError if there are none, InvalidVectorError for a row without a vector, InvalidArgumentError for one
        without an id, without a text or with metadata that are not a mapping, and DatabaseError if the database fails.
        """
        import sqlalchemy as sa
        from sqlalchemy.types import UserDefinedType

        class Vector(UserDefinedType):  # type: ignore[type-arg]
            cache_ok = True

            def get_col_spec(self, **kw: Any) -> str:
                return "vector"

        columns = self.table.c
        expressions = [sa.cast(columns[self.id], sa.Text), columns[self.text]]
        # JSON is read as text, because drivers differ in what they make of it, and vectors as bytes, because drivers have none.
        expressions += [sa.null() if self.metadata is None else sa.cast(columns[self.metadata], sa.Text)]
        expressions += [sa.func.vector_send(sa.cast(columns[self.vector], Vector()))]
        expressions += [sa.cast(sa.func.to_json(columns[name]), sa.Text) for name in self.fields]
        statement = sa.select(*(column.label(f"c{place}") for place, column in enumerate(expressions)))
        statement = statement.select_from(self.table).order_by(columns[self.order])
        if self.collection is not None:
            collections, name = self.collection
            statement = statement.where(
                columns.collection_id == sa.select(collections.c.uuid).where(collections.c.name == name).scalar_subquery()
            )

        def read(connection: Any) -> list[StoredRow]:
            result = connection.execute(statement, execution_options={"yield_per": _BLOCK})
            rows = [self._row(*row) for part in result.partitions() for row in part]
            if not rows:
                raise EmptyGraphError(f"T{self.store[1:]} is empty{self._others(connection)}; add documents, or correct its name.")
            return rows

        return self._run(read)

    def _others(self, connection: Any) -> str:
        """Return, as a part of a message, which other collections of the table have documents."""
        import sqlalchemy as sa

        if self.collection is None:
            return ""
        collections, _ = self.collection
        filled = sa.exists().where(self.table.c.collection_id == collections.c.uuid)
        names = connection.execute(sa.select(collections.c.name).where(filled).order_by(collections.c.name)).scalars().all()
        return f", and the table has documents of {few([shown(name) for name in names])}" if names else ""

    def place(self) -> tuple[str, str, str | None]:
        """Return the name of the table, its schema, and the key of the collection, None if the table has only one.

        Raises InvalidArgumentError if there is no such collection, and DatabaseError if the database fails.
        """
        import sqlalchemy as sa

        name = str(self.table.name)
        # The schema that the name without a schema means in the store's own statements.
        first = (
            "SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = to_regclass(format('%I', CAST(:name AS text)))"
        )

        def read(connection: Any) -> tuple[str, str, str | None]:
            schema = self.table.schema or connection.execute(sa.text(first), {"name": name}).scalar()
            if self.collection is None:
                return name, str(schema), None
            collections, collection_name = self.collection
            key = connection.execute(
                sa.select(sa.cast(collections.c.uuid, sa.Text)).where(collections.c.name == collection_name)
            ).scalar()
            if key is None:
                raise InvalidArgumentError(f"The database has no collection of the name of {self.store}; it was deleted.")
            return name, str(schema), key

        return self._run(read)

    def _row(self, name: str | None, text: str | None, metadata: str | None, vector: Any, *fields: str | None) -> StoredRow:
        if name is None:
            raise InvalidArgumentError(f"A row of {self.store} has no {self.id}; give it one, or delete it.")
        if text is None:
            raise InvalidArgumentError(f"Document {name!r} of {self.store} has no text; store the texts beside the vectors.")
        if vector is None:
            raise InvalidVectorError(f"Document {name!r} of {self.store} has no vector; add it to the store again, or delete it.")
        mapping = None if metadata is None else json.loads(metadata)
        if not isinstance(mapping, dict | None):
            raise InvalidArgumentError(
                f"The metadata of document {name!r} of {self.store} are {shown(mapping)}; expected a mapping."
            )
        values = {key: None if value is None else json.loads(value) for key, value in zip(self.fields, fields, strict=True)}
        return StoredRow(name, text, {**(mapping or {}), **values}, read_vector(vector))

    def _run(self, function: Callable[[Any], T]) -> T:
        try:
            return self.connected(function)  # type: ignore[no-any-return]
        except GraphRetrieverError:
            raise
        except Exception as error:
            # Every driver has its own errors; SQLAlchemy's repeat the statement.
            cause = getattr(error, "orig", None) or error
            why = f"{type(cause).__name__}: {' '.join(str(cause).split())}"
            raise DatabaseError(
                f"The table of {self.store} cannot be read ({why}). Check that the database runs, and that the store can search it."
            ) from error


def store_table(store: Any) -> StoreTable | None:
    """Return the table of a vector store, or None for an object of another kind.

    Parameters
    ----------
    store : object
        ``PGVector`` or ``PGVectorStore`` of langchain-postgres, ``PGVectorStore`` of llama-index-vector-stores-postgres.

    Raises
    ------
    InvalidArgumentError
        If the store can only be awaited.

    Examples
    --------
    >>> store_table("a text") is None
    True
    """
    if all(hasattr(store, name) for name in ("collection_name", "_distance_strategy", "async_mode", "_async_engine")):
        return _langchain_collection(store)
    if (inner := getattr(store, "_PGVectorStore__vs", None)) is not None:
        return _langchain_table(store, inner)
    if all(hasattr(store, name) for name in ("metadata_json_column", "content_column", "embedding_column")):
        # The store inside a PGVectorStore, which runs in the event loop of its caller.
        raise InvalidArgumentError(_ASYNC_STORE.format(f"The {type(store).__name__}"))
    if all(hasattr(store, name) for name in ("_table_class", "_initialize", "embed_dim")):
        return _llama_table(store)
    return None


def _langchain_collection(store: Any) -> StoreTable:
    name = f"the {type(store).__name__} collection {shown(store.collection_name)}"
    if store.async_mode:
        raise InvalidArgumentError(_ASYNC_STORE.format(f"T{name[1:]}"))
    metric = getattr(store._distance_strategy, "value", store._distance_strategy)
    columns: dict[str, Any] = {"id": "id", "text": "document", "vector": "embedding", "metadata": "cmetadata", "order": "id"}
    return StoreTable(
        name,
        store.EmbeddingStore.__table__,
        fields=(),
        metric=_METRICS.get(metric, str(metric)),
        connected=_with_engine(store._engine),
        collection=(store.CollectionStore.__table__, store.collection_name),
        **columns,
    )


def _langchain_table(store: Any, inner: Any) -> StoreTable:
    import sqlalchemy as sa
    from sqlalchemy.sql import quoted_name

    if store._engine._loop is None:
        raise InvalidArgumentError(_ASYNC_STORE.format(f"The {type(store).__name__}"))
    names = [inner.id_column, inner.content_column, inner.embedding_column, *inner.metadata_columns]
    names += [] if inner.metadata_json_column is None else [inner.metadata_json_column]
    columns: list[Any] = [sa.column(quoted_name(name, True)) for name in dict.fromkeys(names)]
    table = sa.table(quoted_name(inner.table_name, True), *columns, schema=quoted_name(inner.schema_name, True))

    def connected(function: Callable[[Any], Any]) -> Any:
        async def run() -> Any:
            async with inner.engine.connect() as connection:
                return await connection.run_sync(function)

        return store._engine._run_as_sync(run())

    return StoreTable(
        f"the {type(store).__name__} {shown(inner.table_name)}",
        table,
        id=inner.id_column,
        text=inner.content_column,
        vector=inner.embedding_column,
        metadata=inner.metadata_json_column,
        fields=inner.metadata_columns,
        order=inner.id_column,
        metric=_METRICS.get(inner.distance_strategy.name, inner.distance_strategy.name),
        connected=connected,
    )


def _llama_table(store: Any) -> StoreTable:
    # This connects, and creates the table unless it is there, as each method of the store does.
    store._initialize()
    table = store._table_class.__table__
    columns: dict[str, Any] = {"id": "node_id", "text": "text", "vector": "embedding", "metadata": "metadata_", "order": "id"}
    # The store's queries compare by cosine, whatever its index does.
    options: dict[str, Any] = {"fields": (), "metric": "cosine", "connected": _with_engine(store._engine)}
    return StoreTable(f"the {type(store).__name__} {shown(store.table_name)}", table, **columns, **options)


def _with_engine(engine: Any) -> Callable[[Callable[[Any], Any]], Any]:
    def connected(function: Callable[[Any], Any]) -> Any:
        with engine.connect() as connection:
            return function(connection)

    return connected
