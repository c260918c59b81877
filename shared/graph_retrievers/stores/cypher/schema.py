"""How a corpus graph is laid out in a database: labels, relationship types and property names."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["GraphSchema", "quoted"]

# Word characters, and between them what names in use hold. A backquote would end the quotation, and a backslash may
# start an escape that stands for one.
_IDENTIFIER = re.compile(r"\w(?:[\w .:\-]*\w)?")


def quoted(identifier: str) -> str:
    """Return an identifier in backquotes, for the text of a query.

    Raises
    ------
    InvalidArgumentError
        If it is not made of letters, digits and underscores, with spaces, dots, colons and hyphens between them, or is
        longer than 128 characters. A query cannot take identifiers as parameters, so they are never taken on trust.
    """
    if not isinstance(identifier, str) or len(identifier) > 128 or not _IDENTIFIER.fullmatch(identifier):
        raise InvalidArgumentError(
            f"{identifier!r:.200} cannot be a label, property or index name here; use letters, digits and underscores "
            "(spaces, dots, colons and hyphens inside), at most 128 characters."
        )
    return f"`{identifier}`"


@dataclass(frozen=True)
class GraphSchema:
    """Labels and property names of a graph in a database.

    The defaults are those of the paper's graph where it has the field; point them elsewhere to use a graph that exists.

    Parameters
    ----------
    label : str, default "Entity"
        Label of all nodes that a retriever may meet.
    relationship : str or None, default "RELATES_TO"
        Type of the relationships. None walks every type and reads the relation from the type.
    id, name, text, type, metadata, embedding : str
        Node properties: identifier (unique), name, text ("description" by default), type, metadata as JSON, and vector.
    name_key : str, default "name_key"
        Node property with the name as names are compared; :func:`~graph_retrievers.stores.cypher.writer.index_names` fills it
        in a graph that lacks it.
    position : str, default "position"
        Property of nodes and relationships with the row in the corpus graph: what settles ties.
    relation : str, default "relation"
        Relationship property with the relation's name.

    Raises
    ------
    InvalidArgumentError
        If a name cannot be one (see :func:`quoted`).
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
    relation: str = "relation"

    def __post_init__(self) -> None:
        """Check every name."""
        for entry in fields(self):
            if not (entry.name == "relationship" and self.relationship is None):
                quoted(getattr(self, entry.name))

    def names(self) -> dict[str, str]:
        """Return every name in backquotes, with ``edge``: what stands inside the brackets of a relationship pattern."""
        names = {entry.name: quoted(value) for entry in fields(self) if (value := getattr(self, entry.name)) is not None}
        return names | {"edge": f":{names['relationship']}" if "relationship" in names else ""}
