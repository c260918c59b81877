"""Hits of what was found in a database, with the contents that are fetched for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from graph_retrievers.hits import NOTHING_FOUND, Hits, to_hits
from graph_retrievers.operators.backfill import Backfill
from graph_retrievers.results import Ranking
from graph_retrievers.retrievers.retriever import FALLS_BACK, Retriever
from graph_retrievers.retrievers.similarity import similarities
from graph_retrievers.search.candidates import Candidates, ranking_of
from graph_retrievers.search.driver import Search, Trace, run
from graph_retrievers.stores.remote.backend import StoredQuestion, Stores
from graph_retrievers.stores.remote.stored_index import WholeGraphError

__all__ = ["answered"]


def answered(retriever: Retriever, backend: Stores) -> list[Hits]:
    """Return the hits of a batch of questions: what the retriever does on an index, on what the backend answers."""
    questions = [StoredQuestion(backend, place) for place in range(len(backend.queries))]
    trace, name = backend.queries.trace, retriever.operator.name
    found = run(backend, [_answer(retriever, question) for question in questions], trace, name)
    ranking = ranking_of(found, torch.device("cpu"))
    ranking = replace(ranking, notes=tuple(tuple(dict.fromkeys(question.notes)) for question in questions))
    k = min(backend.queries.k, backend.pages.size)
    alike = similarities(backend.queries, retriever.operator, ranking, k)
    graph, ranking = backend.part(ranking)
    rows = np.array([backend.pages.rows[node] for node in graph.ids], np.int64)
    shown = torch.from_numpy(backend.passing(rows, "filter")) if "filter" in backend.filters else None
    places = {row: place for place, row in enumerate(rows.tolist())}
    near = {(query, places[row]): value for (query, row), value in alike.items()}
    hits = to_hits(ranking, graph, k, shown, None, retriever.reason, near, Trace(trace))
    return [each.noted(backend.pages.note()) for each in hits]


def _answer(retriever: Retriever, question: StoredQuestion) -> Search[Candidates]:
    """Return what becomes hits: the filter applied, cut to k, filled up."""
    empty = Candidates.of(Ranking.empty(1, torch.device("cpu")))[0]
    found = yield from retriever.operator.stepped(question, empty)  # type: ignore[attr-defined]
    if found.facts is not None:
        raise WholeGraphError("facts, which are edges by their rows in")
    found = found.taken(np.flatnonzero(question.returned(found.nodes))).top(min(question.k, question.size))
    question.notes += [] if len(found) else [NOTHING_FOUND]
    question.notes += [FALLS_BACK] if retriever._falls_back else []
    if retriever.types is not None and found.chains is not None:
        chains = found.chains
        ends = chains.nodes[np.arange(len(chains.nodes)), (chains.nodes >= 0).sum(1) - 1]
        kept = question.typed(ends, retriever.types)
        found = replace(found, chains=replace(chains, nodes=chains.nodes[kept], scores=chains.scores[kept]))
    if retriever.backfill:
        found = yield from Backfill().stepped(question, found)
    return found
