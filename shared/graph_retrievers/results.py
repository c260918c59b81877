"""Rankings, the data that operators pass on: nodes, the trails to them, and other results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.ragged import columns_of, descending, falling, pads_last

__all__ = ["LONGEST_TRAIL", "Chains", "Facts", "Ranking"]

LONGEST_TRAIL = 32
"""Most nodes of a trail that are kept, the last ones, so that no shape grows without bound."""

# The columns of a ranking and the values of their pads.
_PADS: dict[str, float] = {"scores": float("-inf"), "seed_scores": float("nan"), "trail_scores": float("nan")}
_PADS |= dict.fromkeys(("nodes", "trails", "origins", "relations", "context"), -1) | {"ranks": 0}


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

    def ending_in(self, mask: Tensor) -> Chains:
        """Return the chains whose last node is one of `mask`, shape [N], bool; the others become pads."""
        last = (self.nodes >= 0).sum(2, keepdim=True).sub(1).clamp(min=0)
        end = self.nodes.gather(2, last).squeeze(2)
        kept = (end >= 0) & mask[end.clamp(min=0)]
        return replace(
            self, nodes=self.nodes.masked_fill(~kept.unsqueeze(2), -1), scores=self.scores.masked_fill(~kept, -torch.inf)
        )

    def append(self, other: Chains) -> Chains:
        """Return these chains with the new ones of another at the end."""
        length = max(self.nodes.shape[2], other.nodes.shape[2])
        mine, others = (_widened(chains.nodes, 0, length - chains.nodes.shape[2]) for chains in (self, other))
        # The same path is one chain, whichever operators found it.
        held = (others.unsqueeze(2) == mine.unsqueeze(1)).all(3).any(2)
        nodes = torch.cat([mine, others.masked_fill(held.unsqueeze(2), -1)], 1)
        scores = torch.cat([self.scores, other.scores.masked_fill(held, -torch.inf)], 1)
        order = pads_last(nodes[..., 0] >= 0)
        return replace(self, nodes=_gathered(nodes, order), scores=scores.gather(1, order))


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

    def kept(self, keep: Tensor) -> Facts:
        """Return the facts of `keep`, shape [B, M], bool, moved together."""
        rows, scores = self.rows.masked_fill(~keep, -1), self.scores.masked_fill(~keep, float("-inf"))
        order = pads_last(rows >= 0)
        return replace(self, rows=rows.gather(1, order), scores=scores.gather(1, order))

    def append(self, other: Facts) -> Facts:
        """Return these facts with the new ones of another at the end."""
        fresh = (other.rows >= 0) & (columns_of(self.rows, other.rows) < 0)
        both = replace(self, rows=torch.cat([self.rows, other.rows], 1), scores=torch.cat([self.scores, other.scores], 1))
        return both.kept(torch.cat([self.rows >= 0, fresh], 1))


@dataclass(frozen=True)
class Ranking:
    """Ranked node lists of B queries as padded tensors on the index's device, with chains, facts and notes.

    Use :meth:`of` to make one; pads are at the end of a row.

    Attributes
    ----------
    nodes : Tensor, shape [B, K], int64
        Node rows, best first; -1 pads.
    scores : Tensor, shape [B, K], float32
        The scores that ordered them; -inf on pads.
    trails : Tensor, shape [B, K, L], int64
        Path to each node: the node rows from a seed to the node itself, which is last. -1 pads on the left.
    origins : Tensor, shape [B, K], int64
        Index into `operators`: the operator that found the node.
    operators : tuple of str
        Names of the operators so far.
    relations : Tensor, shape [B, K, L - 1], int64, optional
        Relation of each step of the trail, an index into ``CorpusGraph.relation_names``; -1 (None for all) stands for the first
        row that joins the two nodes, and -2 - n for no row but the n-th name in the text of the first node
        (:func:`graph_retrievers.graph.names.capitalized_names`, from 0).
    seed_scores : Tensor, shape [B, K], float32, optional
        Score with which the first node of the trail was found; NaN where it is not known.
    trail_scores : Tensor, shape [B, K], float32, optional
        Score of the path that the trail leads along, from operators that score paths; NaN where it has none.
    context : Tensor, shape [B, K, M], int64, optional
        Node rows of the neighbours that gave context to each node, in order of weight; -1 pads on the right.
    ranks : Tensor, shape [B, K, L], int64, optional
        Rank of each node in each of the L lists that a fusion joined; 1 is first, 0 says that the list does not hold the node.
    lists : tuple of str, length L, or ()
        Names of these lists.
    chains : Chains, optional
    facts : Facts, optional
    notes : tuple of tuple of str, length B, or ()
        Messages about each query: a search cut short by a limit, a fallback taken.
    touched : Tensor, shape [B], int64, optional
        Number of nodes visited, where an operator counts them.

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
            By default the nodes are seeds: a trail is the node itself.
        **results
            Further attributes of the class, such as ``facts``.
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
        """Return the sizes, the operators and which results there are besides nodes."""
        beyond = [name for name in ("chains", "facts") if getattr(self, name) is not None]
        return f"Ranking(queries={len(self)}, width={self.width}, operators={list(self.operators)}, beyond_nodes={beyond})"

    @property
    def width(self) -> int:
        """Width K of the table, pads included."""
        return self.nodes.shape[1]

    def lengths(self) -> Tensor:
        """Return the number of nodes of each list: Tensor, shape [B], int64."""
        return (self.nodes >= 0).sum(1)

    def steps(self) -> Tensor:
        """Return the relation of each step of the trails, -1 for all where `relations` are None: Tensor, shape [B, K, L - 1]."""
        return torch.full_like(self.trails[:, :, 1:], -1) if self.relations is None else self.relations

    def top(self, k: int) -> Ranking:
        """Return the first `k` of each list."""
        if k >= self.width:
            return self
        return replace(self, **{name: value[:, :k] for name, value in self._columns().items()})

    def reordered(self, order: Tensor) -> Ranking:
        """Return the same columns in another order: `order`, shape [B, K], holds the column for each place."""
        columns: dict[str, Any] = {name: _gathered(value, order) for name, value in self._columns().items()}
        return replace(self, **columns)

    def rescored(self, scores: Tensor) -> Ranking:
        """Return the same nodes with new scores, shape [B, K], sorted; equal scores keep their present order, pads stay last."""
        scores = torch.where(self.nodes >= 0, scores.float(), float("-inf"))
        order = descending(scores)
        # A real node may score -inf too: pads must still come last.
        order = order.gather(1, pads_last(self.nodes.gather(1, order) >= 0))
        return replace(self.reordered(order), scores=falling(scores.gather(1, order)))

    def only(self, allowed: Tensor) -> Ranking:
        """Return the ranking without nodes outside `allowed`, shape [N], bool; trails through them are kept."""
        return self.kept(allowed[self.nodes.clamp(min=0)] & (self.nodes >= 0))

    def kept(self, keep: Tensor) -> Ranking:
        """Return the ranking with only the places of `keep`, shape [B, K], bool, moved together."""
        order = pads_last(keep)
        keep = keep.gather(1, order)

        def column(name: str, value: Tensor) -> Any:
            mask = keep if value.dim() == 2 else keep.unsqueeze(2)
            return torch.where(mask, _gathered(value, order), torch.full_like(value, _PADS[name]))

        return replace(self, **{name: column(name, value) for name, value in self._columns().items()})

    def append(self, other: Ranking, capacity: Tensor | int) -> Ranking:
        """Return this ranking with another's nodes at the end, each list capped; chains, facts and notes of both.

        Parameters
        ----------
        other : Ranking
            Nodes to add; those that are already here are skipped.
        capacity : Tensor of shape [B] or int
            The most nodes a list may hold; an int is also the width of the result.

        Returns
        -------
        Ranking
            Scores are unchanged, so the result may not be in descending order. Where both rankings have ranks, but in different
            lists, the result has those of this one, and no list holds the nodes of the other.
        """
        if len(self) != len(other):
            raise InvalidArgumentError(f"Cannot append rankings of {len(self)} and {len(other)} queries.")
        operators = self.operators + tuple(n for n in other.operators if n not in self.operators)
        lookup = torch.tensor([operators.index(n) for n in other.operators] or [0], device=self.nodes.device)
        other = replace(other, origins=torch.where(other.origins >= 0, lookup[other.origins.clamp(min=0)], other.origins))
        if self.ranks is not None and self.lists != other.lists:
            other = replace(other, ranks=None)
        fresh = (other.nodes >= 0) & (columns_of(self.nodes, other.nodes) < 0)
        left, right = self.aligned(other), other.aligned(self)
        columns: dict[str, Any] = {name: torch.cat([left[name], right[name].to(left[name].dtype)], 1) for name in left}
        joined = replace(self, **columns, operators=operators, lists=self.lists or other.lists).beside(other)
        result = joined.kept(torch.cat([self.nodes >= 0, fresh], 1))
        if isinstance(capacity, int):
            return result.top(capacity).trimmed()
        place = torch.arange(result.width, device=self.nodes.device)
        return result.kept((place < capacity.unsqueeze(1)) & (result.nodes >= 0)).trimmed()

    def trimmed(self) -> Ranking:
        """Return the ranking with trails cut to the longest one, at most :data:`LONGEST_TRAIL` nodes."""
        length = self.trails.shape[2]
        if length <= 2 or not self.trails.numel():
            return self
        longest = min(int((self.trails >= 0).sum(2).max()), LONGEST_TRAIL)
        cut = length - max(longest, 1)
        relations = None if self.relations is None else self.relations[:, :, cut:]
        return replace(self, trails=self.trails[:, :, cut:], relations=relations)

    def beside(self, other: Ranking) -> Ranking:
        """Return this ranking with the chains, facts, notes and counts of another added after its own."""
        mine, others = ({name: getattr(r, name) for name in ("chains", "facts", "touched")} for r in (self, other))
        for name, value in others.items():
            own = mine[name]
            if own is None:
                mine[name] = value
            elif value is not None and value is not own:
                mine[name] = own + value if name == "touched" else own.append(value)
        return replace(self, **mine, notes=_joined(self.notes, other.notes))

    def after(self, before: Ranking) -> Ranking:
        """Return this ranking with the results beyond nodes of an earlier one, where it has none of its own."""
        return replace(
            self,
            chains=before.chains if self.chains is None else self.chains,
            facts=before.facts if self.facts is None else self.facts,
            touched=before.touched if self.touched is None else self.touched,
            notes=_joined(before.notes, self.notes),
        )

    def noted(self, which: Sequence[bool], note: str) -> Ranking:
        """Return the ranking with one more note on the queries of `which`, length B."""
        if not any(which):
            return self
        return replace(self, notes=_joined(self.notes, tuple((note,) if here else () for here in which)))

    def _columns(self) -> dict[str, Any]:
        return {name: value for name in _PADS if (value := getattr(self, name)) is not None}

    def aligned(self, other: Ranking) -> dict[str, Any]:
        """Return the columns by name, with those that only `other` has, and with trails and context at least as long as its."""
        longer = max(other.trails.shape[2] - self.trails.shape[2], 0)
        columns = self._columns() | {"trails": _widened(self.trails, longer, 0)}
        length = columns["trails"].shape[2]
        if self.relations is not None or other.relations is not None:
            columns["relations"] = _widened(self.steps(), length - self.trails.shape[2], 0)
        if self.context is not None or other.context is not None:
            empty = self.trails.new_full((*self.nodes.shape, 0), -1)
            mine, others = (empty if ranking.context is None else ranking.context for ranking in (self, other))
            columns["context"] = _widened(mine, 0, max(others.shape[2] - mine.shape[2], 0))
        for name in ("seed_scores", "trail_scores"):
            if getattr(self, name) is None and getattr(other, name) is not None:
                columns[name] = torch.full_like(self.scores, float("nan"))
        if self.ranks is None and other.ranks is not None:
            columns["ranks"] = other.ranks.new_zeros((*self.nodes.shape, other.ranks.shape[2]))
        return columns


def _joined(left: tuple[tuple[str, ...], ...], right: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Return the notes of both, each once a query."""
    if not left or not right:
        return left or right
    return tuple(tuple(dict.fromkeys(a + b)) for a, b in zip(left, right, strict=True))


def _gathered(values: Tensor, order: Tensor) -> Tensor:
    """Return columns of [B, K] or [B, K, L] by `order`, shape [B, M]."""
    if values.dim() == 2:
        return values.gather(1, order)
    return values.gather(1, order.unsqueeze(2).expand(-1, -1, values.shape[2]))


def _widened(values: Tensor, left: int, right: int) -> Tensor:
    return torch.nn.functional.pad(values, (left, right), value=-1)
