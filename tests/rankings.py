"""Lists of candidates of several questions as padded tables, with which tests compare, and operators run on a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.core import chains as beyond
from graph_retrievers.core.candidates import LONGEST_TRAIL, Candidates, concatenated
from graph_retrievers.core.chains import padded
from graph_retrievers.core.driver import run
from graph_retrievers.core.question import Question
from graph_retrievers.search.memory import MemoryBackend

BESIDE = {"seed_scores": np.nan, "trail_scores": np.nan, "context": -1, "ranks": 0}


@dataclass(frozen=True)
class Chains:
    """Chains of B questions: nodes [B, K, L], scores [B, K]; -1 and -inf pad."""

    nodes: Tensor
    scores: Tensor
    operator: str = "Chains"
    rising: bool = False


@dataclass(frozen=True)
class Facts:
    """Facts of B questions: rows [B, M], scores [B, M]; -1 and -inf pad."""

    rows: Tensor
    scores: Tensor
    operator: str = "Facts"


@dataclass(frozen=True)
class Ranking:
    """Candidates of B questions: tables [B, K], [B, K, L] for trails; -1 and -inf pad at the end of a row, -1 before a trail."""

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
        whole = torch.empty((num_queries, 0), dtype=torch.int64, device=device)
        return cls(whole, torch.empty((num_queries, 0), device=device), whole.unsqueeze(2), whole)

    @classmethod
    def of(cls, nodes: Tensor, scores: Tensor, operator: str, trails: Tensor | None = None, **results: Any) -> Ranking:
        nodes = nodes.to(torch.int64)
        scores = torch.where(nodes >= 0, scores.float(), float("-inf"))
        trails = nodes.unsqueeze(2) if trails is None else trails
        return cls(nodes, scores, trails, torch.where(nodes >= 0, 0, -1), (operator,), **results)

    def __len__(self) -> int:
        return self.nodes.shape[0]

    @property
    def width(self) -> int:
        return self.nodes.shape[1]

    def lengths(self) -> Tensor:
        return (self.nodes >= 0).sum(1)


def lists_of(ranking: Ranking) -> list[Candidates]:
    """The candidates of each question of a ranking."""
    tables = {name: getattr(ranking, name) for name in ("nodes", "scores", "trails", "origins", "relations", *BESIDE)}
    arrays = {name: table.cpu().numpy() for name, table in tables.items() if table is not None}
    lists = []
    for b in range(len(ranking)):
        own = {name: array[b] for name, array in arrays.items()}
        columns = [own.pop(name) for name in ("nodes", "scores", "trails", "origins")]
        part = Candidates(*columns, ranking.operators, own.pop("relations", None), own, ranking.lists)
        if ranking.chains is not None:
            rows = _without_pads(ranking.chains.nodes[b], ranking.chains.scores[b])
            part.chains = beyond.Chains(*rows, ranking.chains.operator, ranking.chains.rising)
        if ranking.facts is not None:
            part.facts = beyond.Facts(*_without_pads(ranking.facts.rows[b], ranking.facts.scores[b]), ranking.facts.operator)
        lists.append(part.taken(np.flatnonzero(part.nodes >= 0)))
    return lists


def ranking_of(lists: list[Candidates], device: torch.device | str = "cpu") -> Ranking:
    """Lists of candidates as one ranking, with the last 32 nodes of trails."""
    if not lists:
        return Ranking.empty(0, torch.device(device))
    together, ends = concatenated(lists), np.cumsum([len(part) for part in lists])[:-1]

    def table(parts: Any, pad: float = -1, left: bool = False) -> Tensor:
        return torch.from_numpy(padded(parts, pad, left=left)).to(device)

    def split(column: np.ndarray, pad: float = -1, left: bool = False) -> Tensor:
        return table(np.split(column, ends), pad, left)

    columns: dict[str, Any] = {
        "nodes": split(together.nodes),
        "scores": split(together.scores, -np.inf),
        "trails": split(together.trails[:, -LONGEST_TRAIL:], left=True),
        "origins": split(together.origins),
    }
    if together.relations is not None:
        columns["relations"] = split(together.relations[:, 1 - LONGEST_TRAIL :], left=True)
    columns |= {name: split(column, BESIDE[name]) for name, column in together.columns.items()}
    chains, facts = [part.chains for part in lists], [part.facts for part in lists]
    if first := next(filter(None, chains), None):
        scores = table([each and each.scores for each in chains], -np.inf)
        columns["chains"] = Chains(table([each and each.nodes for each in chains]), scores, first.operator, first.rising)
    if best := next(filter(None, facts), None):
        scores = table([each and each.scores for each in facts], -np.inf)
        columns["facts"] = Facts(table([each and each.rows for each in facts]), scores, best.operator)
    return Ranking(operators=together.operators, lists=together.lists, **columns)


def ranked(operator: Any, queries: Any, ranking: Ranking | None = None) -> Ranking:
    """What an operator finds for each query of a batch, after the candidates of `ranking`."""
    before = [Candidates.none()] * len(queries) if ranking is None else lists_of(ranking)
    questions = [Question(MemoryBackend(queries), place) for place in range(len(queries))]
    for question, notes in zip(questions, (ranking and ranking.notes) or [()] * len(queries), strict=True):
        question.notes += notes
    searches = [operator.stepped(*pair) for pair in zip(questions, before, strict=True)]
    found = ranking_of(run(MemoryBackend(queries), searches, queries.trace, operator.name), queries.index.device)
    return with_notes(found if ranking is None else replace(found, touched=ranking.touched), questions)


def rank(retriever: Any, queries: Any) -> Ranking:
    """Everything that a retriever finds for each query of a batch, before it is cut to k or filled up."""
    questions = retriever.questions(queries)
    return with_notes(ranking_of(retriever.rank(questions), queries.index.device), questions)


def ranked_hits(retriever: Any, queries: Any) -> list[Any]:
    """The hits of each query of a batch, from everything that a retriever finds."""
    questions = retriever.questions(queries)
    return retriever.hits(questions, retriever.rank(questions))


def with_notes(found: Ranking, questions: list[Question]) -> Ranking:
    """A ranking with the notes and counts of the questions that it answers."""
    if any(question.notes for question in questions):
        found = replace(found, notes=tuple(tuple(dict.fromkeys(question.notes)) for question in questions))
    counts = [question.touched for question in questions]
    if counts and None not in counts:
        found = replace(found, touched=torch.tensor(counts, device=found.nodes.device))
    return found


def _without_pads(rows: Tensor, scores: Tensor) -> tuple[np.ndarray, np.ndarray]:
    real = (rows if rows.dim() == 1 else rows[:, 0]) >= 0 if rows.numel() else torch.zeros(len(rows), dtype=torch.bool)
    return rows[real].cpu().numpy(), scores[real].cpu().numpy()
