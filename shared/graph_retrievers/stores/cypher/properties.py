"""Metadata fields as node properties, so that a query can read them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.schema import GraphSchema
from graph_retrievers.stores.cypher.values import stored
from graph_retrievers.errors import InvalidArgumentError

__all__ = ["FieldProperties"]

logger = logging.getLogger(__name__)
# Names that a warning shows.
_SHOWN = 20


class FieldProperties:
    """The properties of the metadata fields of nodes that are written.

    Parameters
    ----------
    database : CypherDatabase

    Notes
    -----
    A field whose name cannot be part of a property's name, or whose property is another one of the schema's, is left out;
    :meth:`warn` says which.
    """

    def __init__(self, database: CypherDatabase) -> None:
        self.database = database
        self._names: dict[Any, str | None] = {}

    def batch(self, ids: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return what is to be set on nodes: the properties of their fields, and None for those to be removed.

        Parameters
        ----------
        ids : sequence of str, length n
        metadata : sequence of mapping, length n

        Returns
        -------
        list of dict of str to object, length n
        """
        before = self._written(ids)
        # Null removes what the node was written with earlier.
        properties: list[dict[str, Any]] = [
            {name: None for field in before.get(node, ()) if (name := self._name(field)) is not None} for node in ids
        ]
        for found, fields in zip(properties, metadata, strict=True):
            for field, value in fields.items():
                name, value = self._name(field), stored(value)
                if name is not None and value is not None:
                    found[name] = value
        return properties

    def warn(self, metadata: Iterable[Mapping[str, Any]]) -> None:
        """Log which fields of the metadata have names that cannot be used, if there are any."""
        fields = {field for each in metadata for field in each}
        refused = sorted(repr(field)[:100] for field in fields if self._name(field) is None)
        if refused:
            more = f" and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
            logger.warning("Metadata fields that cannot be filtered on in the database: %s%s.", ", ".join(refused[:_SHOWN]), more)

    def _name(self, field: Any) -> str | None:
        if field not in self._names:
            self._names[field] = _property(self.database.schema, field)
        return self._names[field]

    def _written(self, ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the fields that the nodes were written with, by id."""
        rows = self.database.read(
            "UNWIND $ids AS id MATCH (n:{label} {{{id}: id}}) WHERE n.{metadata} IS NOT NULL "
            "RETURN id, n.{metadata} AS metadata".format(**self.database.schema.names()),
            ids=list(ids),
        )
        return {row["id"]: _keys(row["metadata"]) for row in rows}


def _property(schema: GraphSchema, field: Any) -> str | None:
    try:
        schema.field(field)
    except InvalidArgumentError:
        return None
    name = f"{schema.field_prefix}{field}"
    return None if name in schema.node_properties() else name


def _keys(text: Any) -> list[str]:
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        # Others wrote the property, and so the fields.
        return []
    return list(found) if isinstance(found, dict) else []
