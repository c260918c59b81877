"""Metadata fields as node properties, so that a query can read them."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

import numpy as np

from graph_retrievers.graph.dates import instant
from graph_retrievers.graph.nested import look_up, paths
from graph_retrievers.stores.cypher.schema import GraphSchema

ORIGIN = "_origin"
"""Key of a node's origin in the JSON of its metadata."""

logger = logging.getLogger(__name__)
# Names that a warning shows, and the first integer that a property cannot hold.
_SHOWN, _LARGEST = 20, 2**63
# Fields inside the mappings of a node that become properties; a mapping with more has keys that are data.
_MOST = 256


def property_value(value: Any) -> str | bool | int | float | list[Any] | None:
    """Return a metadata value as the value of a node property; None if a property cannot store it.

    Strings, booleans, integers of 64 bits, finite floats and lists of one kind of these can be stored. Tuples and sets (sorted)
    become lists; in a list, booleans among numbers become numbers, and integers among floats become floats.

    Examples
    --------
    >>> property_value((1, 2.5)), property_value({"b", "a"}), property_value({"a": 1})
    ([1.0, 2.5], ['a', 'b'], None)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (list, tuple, set)):
        return value if _is_scalar(value) else None
    items = [item.item() if isinstance(item, np.generic) else item for item in value]
    if not all(map(_is_scalar, items)) or len({isinstance(item, str) for item in items}) > 1:
        return None
    kinds = {type(item) for item in items}
    if len(kinds) > 1 and not isinstance(items[0], str):
        items = [float(item) if float in kinds else int(item) for item in items]
    return sorted(items) if isinstance(value, set) else items


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        # Half of a surrogate pair cannot be sent.
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and -_LARGEST <= value < _LARGEST


def node_metadata(text: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metadata and origin of a node from their JSON; both are empty if this package did not write it."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        value = None
    metadata = value if isinstance(value, dict) else {}
    return metadata, metadata.pop(ORIGIN, {})


def warn_of_fields(schema: GraphSchema, metadata: Collection[Mapping[str, Any]]) -> None:
    """Log the metadata fields that cannot be properties, if there are any."""
    fields = {field for mapping in metadata for field in _fields(mapping)}
    names = sorted(repr(field)[:100] for field in fields if schema.property_of(field) is None)
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        logger.warning("Metadata fields that cannot be filtered on in the database: %s%s.", ", ".join(names[:_SHOWN]), more)
    if count := sum(_inside(mapping) is None for mapping in metadata):
        message = (
            "%s nodes have more than %s fields inside mappings of their metadata; in the database, these cannot be filtered on."
        )
        logger.warning(message, f"{count:,}", _MOST)


def field_properties(schema: GraphSchema, old_metadata: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties to set on a node: its fields, and None for those of an earlier write, given by its metadata as text."""
    earlier = node_metadata(old_metadata)[0]
    removals = dict.fromkeys([*_own_properties(schema, earlier), *further_properties(schema, earlier)])
    return removals | _own_properties(schema, metadata) | further_properties(schema, metadata)


def further_properties(schema: GraphSchema, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a node besides its fields: of fields inside mappings, and of dates as instants.

    >>> further_properties(GraphSchema(), {"a": {"b": 1}, "day": "1970-01-02"})
    {'metadata_a.b': 1, 'metadata_day:instant': 86400000000}
    """
    nested_fields = {path: look_up(metadata, path) for path in _fields(metadata) if path not in metadata}
    dates = ((schema.instant(field), _instants(value)) for field, value in {**metadata, **nested_fields}.items())
    return _own_properties(schema, nested_fields) | {
        name: timestamps for name, timestamps in dates if name is not None and timestamps is not None
    }


def _own_properties(schema: GraphSchema, fields: Mapping[str, Any]) -> dict[str, Any]:
    pairs = ((schema.property_of(field), property_value(value)) for field, value in fields.items())
    return {name: value for name, value in pairs if name is not None and value is not None}


def _fields(metadata: Mapping[str, Any]) -> list[str]:
    """Return the fields of metadata, and the paths of those inside mappings."""
    return [*metadata, *(path for path in _inside(metadata) or () if path not in metadata)]


def _inside(metadata: Mapping[str, Any]) -> list[str] | None:
    """Return the paths of the fields inside mappings; None if there are very many."""
    fields = list(islice(dict.fromkeys(paths(metadata)), _MOST + 1))
    return fields if len(fields) <= _MOST else None


def _instants(value: Any) -> int | list[int] | None:
    """Return the date or dates of a field, None if there are none."""
    if isinstance(value, list):
        return [timestamp for item in value if (timestamp := instant(item)) is not None] or None
    return instant(value)
