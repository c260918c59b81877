"""At most so many candidates of one document."""

from __future__ import annotations

from collections import Counter

import numpy as np

from graph_retrievers.graph.addresses import node_source
from graph_retrievers.search.candidates import Candidates
from graph_retrievers.search.driver import Search
from graph_retrievers.search.memory import Question
from graph_retrievers.search.requests import Contents

__all__ = ["DEEPER", "per_source"]

DEEPER = 4
"""How many times more nodes are asked for where those of one document are limited."""


def per_source(question: Question, found: Candidates, most: int, field: str | None = None) -> Search[Candidates]:
    """Return candidates without those that `most` others of the same document come before.

    Parameters
    ----------
    question : Question
        Gets a note if none of the candidates has the field.
    found : Candidates
    most : int
        1 or more.
    field : str, optional
        Metadata field that names the document; a node without it is a document of its own. By default what
        :func:`~graph_retrievers.graph.addresses.node_source` finds.
    """
    nodes = yield Contents(found.nodes)
    sources: list[object]
    if field is None:
        sources = [node_source(node.id, node.metadata, node.origin) for node in nodes]
    else:
        held = [node.metadata.get(field) for node in nodes]
        # A value may be a list. A node without one is called by a pair, so that no document has its name.
        sources = [("", node.id) if value is None else str(value) for node, value in zip(nodes, held, strict=True)]
        if nodes and all(value is None for value in held):
            question.notes.append(f"no node found has the metadata field {field!r}: each is taken for a document of its own")
    seen: Counter[object] = Counter()
    kept = []
    for place, source in enumerate(sources):
        seen[source] += 1
        if seen[source] <= most:
            kept.append(place)
    return found if len(kept) == len(found) else found.taken(np.array(kept, np.int64))
