"""Hits as text for a language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_retrievers.retrievers.retriever import Hit

__all__ = ["to_context"]


def to_context(hits: Sequence[Hit]) -> str:
    """Return chains and entities as text (Glybovets and Makarov, section III-B, "Context assembly").

    Parameters
    ----------
    hits : sequence of Hit
        What a retriever returned.

    Returns
    -------
    str
        First the chains, one a line, as ``a -[relation]-> b <-[relation]- c`` with the direction of each edge: hits of
        kind "chain", or where there are none, the paths by which the hits were reached, without those that begin a
        longer one. Then the hits in their order as ``- name (TYPE): text``; type and text are left out where a node has
        none.
    """
    chains = [hit.text for hit in hits if hit.kind == "chain"]
    nodes = [hit for hit in hits if hit.kind != "chain"]
    lines = ["Chains:", *(chains or _paths(nodes) or ["No chains found."]), "", "Entities:"]
    for hit in nodes:
        kind = f" ({hit.type.upper()})" if hit.type else ""
        lines.append(f"- {hit.title or hit.id}{kind}" + (f": {hit.text}" if hit.text else ""))
    return "\n".join(lines if nodes else [*lines, "No entities found."])


def _paths(nodes: Sequence[Hit]) -> list[str]:
    names = {hit.id: hit.title for hit in nodes if hit.title}
    walked = list(dict.fromkeys(hit.path for hit in nodes if len(hit.path.nodes) > 1))
    begun = {path.nodes[:n] for path in walked for n in range(2, len(path.nodes))}
    return [str(path.named(names)) for path in walked if path.nodes not in begun]
