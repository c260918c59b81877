"""Labels, relationship types and property names of a graph in a database."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

from graph_retrievers.errors import InvalidArgumentError, shown

__all__ = ["GraphSchema"]

# Excludes backquotes, which end the quotation, and backslashes, which may begin an escape.
_IDENTIFIER = re.compile(r"\w(?:[\w .:\-]*\w)?")

_INSTANT, _LONGEST = ":instant", 128


def quoted(identifier: str) -> str:
    """Return an identifier in backquotes, for the text of a query.

    InvalidArgumentError if it contains anything but letters, digits and underscores, with spaces, dots, colons and hyphens between
    them, or is longer than 128 characters: identifiers are part of the text of a query, not parameters.
    """
    if not isinstance(identifier, str) or len(identifier) > _LONGEST or not _IDENTIFIER.fullmatch(identifier):
        raise InvalidArgumentError(
            f"{shown(identifier, 200)} cannot be a label, property or index name here; use letters, digits and underscores "
            "(spaces, dots, colons and hyphens inside), at most 128 characters."
        )
    return f"`{identifier}`"


@dataclass(frozen=True)
class GraphSchema:
    """Labels and property names of a graph in a database.

    The defaults are those of the paper's graph if it has the field.

    Parameters
    ----------
    label : str, default "Entity"
        Label of all nodes of the graph.
    relationship : str or None, default "RELATES_TO"
        Type of the relationships. None follows every type, and the relation is the type.
    id, name, text, type, metadata, embedding : str
        Node properties: identifier (unique), name, text ("description" by default), type, metadata as JSON, and vector.
    name_key : str, default "name_key"
        Node property with the normalised name (:func:`~graph_retrievers.stores.cypher.writer.index_names` writes it).
    position : str, default "position"
        Property of nodes and relationships with the row in the corpus graph, which breaks ties.
    degree : str, default "degree"
        Node property with the number of distinct neighbours.
    digest : str, default "digest"
        Node property by which the next write recognises unchanged nodes.
    relation : str, default "relation"
        Relationship property with the relation's name.
    field_prefix : str, default "metadata_"
        Prefix of the node properties of metadata fields, for filters: the field "year" is the property "metadata_year", and its
        dates are "metadata_year:instant". Use "" for an existing graph with plain property names.

    Raises
    ------
    InvalidArgumentError
        If a name is not valid (see :func:`quoted`), or a node property's name begins with `field_prefix`.

    Examples
    --------
    >>> GraphSchema(label="Person", relationship=None).names()["label"]
    '`Person`'
    """

    label: str = "Entity"
    relationship: str | None = "RELATES_TO"
    id: str = "id"
    name: str = "name"
    text: str = "description"
    type: str = "type"
    metadata: str = "metadata"
    embedding: str = "embedding"
    name_key: str = "name_key"
    position: str = "position"
    degree: str = "degree"
    digest: str = "digest"
    relation: str = "relation"
    field_prefix: str = "metadata_"

    def __post_init__(self) -> None:
        """Check every name."""
        for value in self._identifiers().values():
            quoted(value)
        self.field("x")
        collisions = [value for value in self.node_properties() if self.field_prefix and value.startswith(self.field_prefix)]
        if collisions:
            raise InvalidArgumentError(
                f"The property {collisions[0]!r} begins with the prefix of metadata fields, {self.field_prefix!r}; choose another "
                "field_prefix."
            )

    def names(self) -> dict[str, str]:
        """Return every name in backquotes, and ``edge``, the text inside the brackets of a relationship pattern."""
        names = {name: quoted(value) for name, value in self._identifiers().items()}
        return names | {"edge": f":{names['relationship']}" if "relationship" in names else ""}

    def node_properties(self) -> set[str]:
        """Return the names of the node properties, without those of metadata fields."""
        exceptions = ("label", "relationship", "relation")
        return {value for name, value in self._identifiers().items() if name not in exceptions}

    def field(self, name: str) -> str:
        """Return the node property of a metadata field, in backquotes; InvalidArgumentError if it cannot be one."""
        if not isinstance(name, str) or not isinstance(self.field_prefix, str):
            raise InvalidArgumentError(f"{self.field_prefix!r} and {name!r} are the name of a property only if both are strings.")
        if name.endswith(_INSTANT):
            raise InvalidArgumentError(f"{name!r} ends with {_INSTANT!r}, as the properties with the times of dates do; rename it.")
        return quoted(self.field_prefix + name)

    def instant(self, field: Any) -> str | None:
        """Return the name of the node property with a field's dates, microseconds since 1970 in UTC; None if it cannot have one."""
        name = f"{self.field_prefix}{field}{_INSTANT}"
        return name if self.property_of(field) is not None and len(name) <= _LONGEST else None

    def property_of(self, field: Any) -> str | None:
        """Return the name of a metadata field's node property; None if it cannot have one, or another property has that name."""
        try:
            self.field(field)
        except InvalidArgumentError:
            return None
        name = f"{self.field_prefix}{field}"
        return None if name in self.node_properties() else name

    def _identifiers(self) -> dict[str, str]:
        values = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "field_prefix"}
        return {name: value for name, value in values.items() if not (name == "relationship" and value is None)}
