"""Passages that a name joins, where no edge does: the bridge entities of multi-hop questions."""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor

from graph_retrievers.graph.names import capitalized_names, name_keys
from graph_retrievers.queries import Queries

__all__ = ["bridges"]

# Entries of a table of scores at a time.
_TABLE_LIMIT = 1 << 24
_MOST_NAMES = 12


def bridges(queries: Queries, seeds: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the nodes that names in the texts of some nodes lead to, by BM25.

    Parameters
    ----------
    queries : Queries
        B queries. Names whose words a question holds are left out: what they lead to has been searched.
    seeds : Tensor, shape [B, S], int64
        Rows of nodes; -1 pads. Of each, the first 12 names that are left are read.
    count : int
        Nodes for each name: those of the largest BM25 scores with the name as the query, without the seed.

    Returns
    -------
    place : Tensor, shape [T], int64
        For each node that was found, the place of its seed in ``seeds.flatten()``, in ascending order.
    nodes : Tensor, shape [T], int64
        Its row. A node that several names of a seed lead to is listed once for each.
    names : Tensor, shape [T], int64
        Number of the name among :func:`~graph_retrievers.graph.names.capitalized_names` of the seed's text.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> index = GraphIndex.from_texts(["Kismet starred Ada Holm.", "In Lund, Ada Holm went to school.", "A loom."])
    >>> bridges(Queries.of(index, ["Where was the star of Kismet born?"]), torch.tensor([[0]]), 2)
    (tensor([0]), tensor([1]), tensor([0]))
    """
    graph, named = queries.index.graph, list[tuple[int, int, str]]()
    asked = [name_keys(text) for text in queries.texts]
    for place, row in enumerate(seeds.flatten().tolist()):
        if row >= 0:
            names = enumerate(capitalized_names(graph.texts[row]))
            told = ((place, n, name) for n, name in names if not name_keys(name) <= asked[place // seeds.shape[1]])
            named += islice(told, _MOST_NAMES)
    if not named:
        nothing = seeds.new_empty(0)
        return nothing, nothing, nothing
    number = {name: i for i, name in enumerate(dict.fromkeys(name for *_, name in named))}
    texts, step = list(number), max(1, _TABLE_LIMIT // max(len(queries.index), 1))
    # One more than wanted, as the seed is usually among them.
    parts = [
        queries.index.bm25.search(texts[start : start + step], count + 1, queries.walk_allowed)[1]
        for start in range(0, len(texts), step)
    ]
    widest = max(part.shape[1] for part in parts)
    table = torch.cat([torch.nn.functional.pad(part, (0, widest - part.shape[1]), value=-1) for part in parts])
    columns = ([place for place, *_ in named], [n for _, n, _ in named], [number[name] for *_, name in named])
    places, numbers, rows = (torch.tensor(column, device=seeds.device).unsqueeze(1) for column in columns)
    found = table[rows.squeeze(1)]
    other = (found >= 0) & (found != seeds.flatten()[places])
    kept = other & (other.cumsum(1) <= count)
    return places.expand_as(found)[kept], found[kept], numbers.expand_as(found)[kept]
