"""Passages that a name joins, where no edge does: the bridge entities of multi-hop questions."""

from __future__ import annotations

import torch
from torch import Tensor

from graph_retrievers.graph.names import capitalized_names
from graph_retrievers.queries import Queries

__all__ = ["bridges"]

# Entries of a table of scores at a time.
_TABLE_LIMIT = 1 << 24


def bridges(queries: Queries, seeds: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the nodes that names in the texts of some nodes lead to, by BM25.

    Parameters
    ----------
    queries : Queries
        B queries. Names that a question holds itself are left out: what they lead to has been searched.
    seeds : Tensor, shape [B, S], int64
        Rows of nodes; -1 pads.
    count : int
        Nodes for each name: those of the largest BM25 scores with the name as the query, without the seed.

    Returns
    -------
    place : Tensor, shape [T], int64
        For each node that was found, the place of its seed in ``seeds.flatten()``, in ascending order.
    nodes : Tensor, shape [T], int64
        Its row. A node that several names of a seed lead to is listed once for each.

    Notes
    -----
    What a name is: see :func:`~graph_retrievers.graph.names.capitalized_names`.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> index = GraphIndex.from_texts(["Kismet starred Ada Holm.", "In Lund, Ada Holm went to school.", "A loom."])
    >>> bridges(Queries.of(index, ["Where was the star of Kismet born?"]), torch.tensor([[0]]), 2)
    (tensor([0]), tensor([1]))
    """
    graph, named = queries.index.graph, list[tuple[int, str]]()
    for place, row in enumerate(seeds.flatten().tolist()):
        if row >= 0:
            question = queries.texts[place // seeds.shape[1]]
            named += [(place, name) for name in capitalized_names(graph.texts[row], question)]
    if not named:
        return seeds.new_empty(0), seeds.new_empty(0)
    number = {name: i for i, name in enumerate(dict.fromkeys(name for _, name in named))}
    names, step = list(number), max(1, _TABLE_LIMIT // max(len(queries.index), 1))
    # One more than wanted, as the seed is usually among them.
    parts = [
        queries.index.bm25.search(names[start : start + step], count + 1, queries.walk_allowed)[1]
        for start in range(0, len(names), step)
    ]
    widest = max(part.shape[1] for part in parts)
    table = torch.cat([torch.nn.functional.pad(part, (0, widest - part.shape[1]), value=-1) for part in parts])
    places = torch.tensor([place for place, _ in named], device=seeds.device)
    found = table[torch.tensor([number[name] for _, name in named], device=seeds.device)]
    other = (found >= 0) & (found != seeds.flatten()[places].unsqueeze(1))
    kept = other & (other.cumsum(1) <= count)
    return places.unsqueeze(1).expand_as(found)[kept], found[kept]
