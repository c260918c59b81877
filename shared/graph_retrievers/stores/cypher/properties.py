"""Metadata fields as node properties, so that a query can read them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graph_retrievers.stores.cypher.database import CypherDatabase
from graph_retrievers.stores.cypher.schema import GraphSchema
from graph_retrievers.stores.cypher.values import stored

__all__ = ["field_properties", "warn_of_fields"]

logger = logging.getLogger(__name__)
# Names that a warning shows.
_SHOWN = 20


def warn_of_fields(schema: GraphSchema, metadata: Iterable[Mapping[str, Any]]) -> None:
    """Log which metadata fields cannot be properties of their own, if there are any."""
    fields = {field for each in metadata for field in each}
    refused = sorted(repr(field)[:100] for field in fields if schema.property_of(field) is None)
    if refused:
        more = f" and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        logger.warning("Metadata fields that cannot be filtered on in the database: %s%s.", ", ".join(refused[:_SHOWN]), more)


def field_properties(database: CypherDatabase, ids: Sequence[str], metadata: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the properties to set on each of n nodes: its fields, and None for fields it was written with earlier."""
    rows = database.read(
        "UNWIND $ids AS id MATCH (n:{label} {{{id}: id}}) WHERE n.{metadata} IS NOT NULL "
        "RETURN id, n.{metadata} AS metadata".format(**database.schema.names()),
        ids=list(ids),
    )
    before = {row["id"]: _keys(row["metadata"]) for row in rows}
    property_of = database.schema.property_of
    found = []
    for node, fields in zip(ids, metadata, strict=True):
        values: dict[str, Any] = {name: None for field in before.get(node, ()) if (name := property_of(field)) is not None}
        for field, value in fields.items():
            name, kept = property_of(field), stored(value)
            if name is not None and kept is not None:
                values[name] = kept
        found.append(values)
    return found


def _keys(text: Any) -> list[str]:
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        # Others wrote the property, and so the fields.
        return []
    return list(found) if isinstance(found, dict) else []
