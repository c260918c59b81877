"""Hits of what was found in a database, with the contents that are fetched for them."""

from __future__ import annotations

import numpy as np

from graph_retrievers.hits import Hits, to_hits
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.retrievers.similarity import similarities
from graph_retrievers.search.candidates import Candidates
from graph_retrievers.search.driver import Search, Trace, run
from graph_retrievers.stores.remote.backend import StoredQuestion, Stores
from graph_retrievers.stores.remote.stored_index import WholeGraphError

__all__ = ["answered"]


def answered(retriever: Retriever, backend: Stores) -> list[Hits]:
    """Return the hits of a batch of questions: what the retriever does on an index, on what the backend answers."""
    questions = [StoredQuestion(backend, place) for place in range(len(backend.queries))]
    trace, name = backend.queries.trace, retriever.operator.name
    found = run(backend, [_answer(retriever, question) for question in questions], trace, name)
    alike = similarities(questions, retriever.operator, found)
    graph, parts = backend.part(found)
    rows = np.array([backend.pages.rows[node] for node in graph.ids], np.int64)
    shown = backend.passing(rows, "filter") if "filter" in backend.filters else None
    places = {row: place for place, row in enumerate(rows.tolist())}
    near = {(query, places[row]): value for (query, row), value in alike.items()}
    notes = [(*dict.fromkeys(question.notes), backend.pages.note()) for question in questions]
    return to_hits(parts, graph, shown, None, retriever.reason, near, Trace(trace), notes)


def _answer(retriever: Retriever, question: StoredQuestion) -> Search[Candidates]:
    """Return what becomes hits: the filter applied, cut to k, filled up."""
    found = yield from retriever.found(question)
    if found.facts is not None:
        raise WholeGraphError("facts, which are edges by their rows in")
    return (yield from retriever.answer(question, found))
