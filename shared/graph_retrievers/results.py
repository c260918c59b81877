"""Results of operators for a batch of queries, as padded tensors: nodes, the trails to them, and other results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError

__all__ = ["LONGEST_TRAIL", "Chains", "Facts", "Ranking"]

LONGEST_TRAIL = 32
"""Maximum number of nodes of a trail to keep, the last ones, so that no shape grows without limit."""


@dataclass(frozen=True)
class Chains:
    """Chains: paths as results, for B queries.

    >>> from graph_retrievers.results import Chains
    >>> Chains(torch.tensor([[[0, 3, -1]]]), torch.tensor([[0.7]])).nodes.shape
    torch.Size([1, 1, 3])

    Attributes
    ----------
    nodes : Tensor, shape [B, K, L], int64
        Node rows of each chain in order, best chain first; -1 pads.
    scores : Tensor, shape [B, K], float32
        -inf on pads.
    operator : str
        Name of the operator that found them.
    rising : bool, default False
        Whether a context lists them with the best last.
    """

    nodes: Tensor
    scores: Tensor
    operator: str = "Chains"
    rising: bool = False


@dataclass(frozen=True)
class Facts:
    """Facts: edges as results, for B queries.

    >>> from graph_retrievers.results import Facts
    >>> Facts(torch.tensor([[5, 2]]), torch.tensor([[0.7, 0.1]])).rows
    tensor([[5, 2]])

    Attributes
    ----------
    rows : Tensor, shape [B, M], int64
        Relationship rows of the graph, best first; -1 pads.
    scores : Tensor, shape [B, M], float32
        -inf on pads.
    operator : str
        Name of the operator that found them.
    """

    rows: Tensor
    scores: Tensor
    operator: str = "Facts"


@dataclass(frozen=True)
class Ranking:
    """Ranked node lists of B queries as padded tensors on the index's device, with chains, facts and notes.

    Use :meth:`of` to create one; pads are at the end of a row.

    Attributes
    ----------
    nodes : Tensor, shape [B, K], int64
        Node rows, best first; -1 pads.
    scores : Tensor, shape [B, K], float32
        The scores by which they are ranked; -inf on pads.
    trails : Tensor, shape [B, K, L], int64
        Path to each node: the node rows from a seed to the node itself, which comes last. -1 pads on the left.
    origins : Tensor, shape [B, K], int64
        Index into `operators`: the operator that found the node.
    operators : tuple of str
        Names of the operators so far.
    relations : Tensor, shape [B, K, L - 1], int64, optional
        Relation of each step of the trail, an index into ``CorpusGraph.relation_names``; -1 (None for all) means the first row
        that connects the two nodes, and -2 - n means no row but the n-th name in the text of the first node
        (:func:`graph_retrievers.graph.names.capitalized_names`, from 0).
    seed_scores : Tensor, shape [B, K], float32, optional
        Score with which the first node of the trail was found; NaN if unknown.
    trail_scores : Tensor, shape [B, K], float32, optional
        Score of the path of the trail, from operators that score paths; NaN if it has none.
    context : Tensor, shape [B, K, M], int64, optional
        Node rows of the neighbours that gave context to each node, in order of weight; -1 pads on the right.
    ranks : Tensor, shape [B, K, L], int64, optional
        Rank of each node in each of the L lists of a fusion; 1 is first, 0 means that the list does not contain the node.
    lists : tuple of str, length L, or ()
        Names of these lists.
    chains : Chains, optional
    facts : Facts, optional
    notes : tuple of tuple of str, length B, or ()
        Messages about each query: a search ended early by a limit, a fallback used.
    touched : Tensor, shape [B], int64, optional
        Number of nodes visited, if an operator counts them.

    Examples
    --------
    >>> import torch
    >>> ranking = Ranking.of(torch.tensor([[4, 2, -1]]), torch.tensor([[0.9, 0.4, 0.0]]), "Mine")
    >>> ranking, ranking.lengths().tolist()
    (Ranking(queries=1, width=3, operators=['Mine'], beyond_nodes=[]), [2])
    """

    nodes: Tensor
    scores: Tensor
    trails: Tensor
    origins: Tensor
    operators: tuple[str, ...] = ()
    relations: Tensor | None = None
    seed_scores: Tensor | None = None
    trail_scores: Tensor | None = None
    context: Tensor | None = None
    ranks: Tensor | None = None
    lists: tuple[str, ...] = ()
    chains: Chains | None = None
    facts: Facts | None = None
    notes: tuple[tuple[str, ...], ...] = ()
    touched: Tensor | None = None

    @classmethod
    def empty(cls, num_queries: int, device: torch.device) -> Ranking:
        """Return a ranking of `num_queries` empty lists."""
        whole = torch.empty((num_queries, 0), dtype=torch.int64, device=device)
        return cls(whole, torch.empty((num_queries, 0), device=device), whole.unsqueeze(2), whole)

    @classmethod
    def of(cls, nodes: Tensor, scores: Tensor, operator: str, trails: Tensor | None = None, **results: Any) -> Ranking:
        """Return the ranking of nodes that one operator found.

        Parameters
        ----------
        nodes, scores : Tensor, shape [B, K]
            Best first; -1 pads.
        operator : str
            Its name.
        trails : Tensor, shape [B, K, L], optional
            By default the nodes are seeds, and a trail is the node itself.
        **results
            Other attributes of the class, such as ``facts``.
        """
        if nodes.shape != scores.shape or (nodes.numel() and nodes.is_floating_point()):
            shapes = f"{list(nodes.shape)} of {nodes.dtype} and {list(scores.shape)}"
            raise InvalidArgumentError(
                f"{operator} gave nodes and scores of shapes {shapes}; expected integers and one score for each."
            )
        nodes = nodes.to(torch.int64)
        scores = torch.where(nodes >= 0, scores.float(), float("-inf"))
        trails = nodes.unsqueeze(2) if trails is None else trails
        return cls(nodes, scores, trails, torch.where(nodes >= 0, 0, -1), (operator,), **results)

    def __len__(self) -> int:
        """Return the number of queries B."""
        return self.nodes.shape[0]

    def __repr__(self) -> str:
        """Return the sizes, the operators and the kinds of other results."""
        beyond = [name for name in ("chains", "facts") if getattr(self, name) is not None]
        return f"Ranking(queries={len(self)}, width={self.width}, operators={list(self.operators)}, beyond_nodes={beyond})"

    @property
    def width(self) -> int:
        """Width K of the table, pads included."""
        return self.nodes.shape[1]

    def lengths(self) -> Tensor:
        """Return the number of nodes of each list: Tensor, shape [B], int64."""
        return (self.nodes >= 0).sum(1)
