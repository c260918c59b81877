"""The harness: evaluate retrievers side by side on the same queries."""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import torch

from graph_retrievers.arguments import choice, positive
from graph_retrievers.core.operator import Operator
from graph_retrievers.datasets import Query
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, UnknownNodeError, shown
from graph_retrievers.evaluation.costs import measure
from graph_retrievers.evaluation.foreign import ScoredIds, as_search
from graph_retrievers.evaluation.metrics import Gold
from graph_retrievers.evaluation.outcome import Evaluation, Returned
from graph_retrievers.evaluation.tables import join_names
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.progress import progress_bar
from graph_retrievers.retrievers.memory import MemoryRetriever
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.seeding import seed_number
from graph_retrievers.systems.system import System, read_system
from graph_retrievers.version import __version__

__all__ = ["evaluate"]

ANNOTATIONS = ("entities", "plan")
"""Annotations of queries that some retrievers read."""

RetrieverLike: TypeAlias = str | System | Mapping[str, Any] | Operator | Retriever
"""What has a name, and needs no other in a list of retrievers."""

# Retrievers may score thousands of nodes; analyses need only the first of them.
_MOST_NODES = 1000


def evaluate(
    index: GraphIndex,
    queries: Sequence[Query],
    retrievers: Mapping[str, Any] | Sequence[RetrieverLike],
    *,
    k: int = 10,
    qrels: Mapping[str, Mapping[str, float]] | None = None,
    use: Sequence[str] = (),
    batch_size: int = 32,
    timed_queries: int = 20,
    seed: int = 0,
    about: Mapping[str, str] | None = None,
    skip: bool = False,
    dataset: str = "",
    split: str = "",
    before_timing: Callable[[Evaluation], None] | None = None,
    show_progress: bool = False,
) -> Evaluation:
    """Return what each retriever finds for each query, its metrics and its costs.

    Parameters
    ----------
    index : GraphIndex
        In memory. Retrievers may use other indexes of the same graph (with another relevance model, or in a database).
    queries : sequence of Query
        Questions with their relevant nodes; questions without any are left out, with a note.
    retrievers : mapping of str to object, or sequence of System, str and Retriever
        By name. A value may be a system, its text such as ``"ppr(damping=0.7)"`` or its mapping, an operator, a
        :class:`Retriever`, a LangChain or LlamaIndex retriever, a callable (see
        :func:`~graph_retrievers.evaluation.foreign.as_search`), or a run by query id (see
        :func:`~graph_retrievers.evaluation.run_files.read_run`).
    k : int, default 10
        Number of hits to retrieve and to measure at. If another library's retriever returns more, the first k count.
    qrels : mapping, optional
        Judgements that replace the queries' relevant nodes: a grade for each judged node, by query id.
    use : sequence of str, default ()
        Annotations of the queries (``"entities"``, ``"plan"``) to give to the retrievers that read them. By default all
        retrievers see only the text of the question.
    batch_size : int, default 32
        Queries that run together; the retrievers share their latents.
    timed_queries : int, default 20
        Queries that each retriever runs again, one at a time and without sharing, to measure costs; 0 measures none.
    seed : int, default 0
        Seed for drawing the timed queries.
    about : mapping of str to str, optional
        What else defines a retriever, such as the digest of a checkpoint, by name; ``settings`` has it.
    skip : bool, default False
        Whether to leave out a retriever that lacks something (:meth:`~graph_retrievers.retrievers.retriever.Retriever.lacks`) or
        raises a GraphRetrieverError; a note says why. If False, a note says what it ran without, and errors are raised.
    dataset, split : str, default ""
        Source of the queries.
    before_timing : callable, optional
        Called with the evaluation so far, without costs, before queries are timed; not called if none are timed.
    show_progress : bool, default False

    Raises
    ------
    InvalidArgumentError
        If an argument is out of range, no query has relevant nodes, two queries have the same id, a retriever returns only ids
        that are not in the graph, or all retrievers are left out.
    UnknownNodeError
        If a relevant node of a query is not in the graph.

    Examples
    --------
    >>> from graph_retrievers.graph import CorpusGraph
    >>> index = GraphIndex.from_graph(CorpusGraph(["ada", "engine"], ["She wrote a program.", "A machine."]))
    >>> evaluation = evaluate(index, [Query("q1", "Who wrote a program?", ("ada",))], ["bm25"], k=1, timed_queries=0)
    >>> evaluation.results()["bm25"]["recall@1"]
    1.0
    """
    if not isinstance(index, GraphIndex):
        raise InvalidArgumentError(
            f"index is {shown(index)}; expected a GraphIndex. To evaluate what lies in a database, pass the same index in "
            "memory (read_index gives that of PostgreSQL), and retrievers by name: "
            "evaluate(index, queries, {'in the database': Retriever(remote, ...)})."
        )
    check_measurement(k, timed_queries, seed, use)
    positive("batch_size", batch_size)
    questions, gold, notes = _checked(index, queries, qrels)
    inputs = {name for name in use if any(getattr(query, name) for query in questions)}
    built, more_notes = _built(index, retrievers, k, inputs, skip)
    notes += more_notes
    runner = _Runner(questions, k, tuple(use))
    answers, errors = _run(runner, built, batch_size, skip, show_progress)
    for name, error in errors.items():
        built.pop(name)
        notes.append(_omission_note(name, error))
    if not built:
        raise InvalidArgumentError(f"No retriever is left to evaluate. {' '.join(notes)}")
    notes += _unknown(index, answers) + _notes_of(answers)
    descriptions = {name: f"{_description(built[name])} {(about or {}).get(name, '')}".rstrip() for name in built}
    made_with = {"batch_size": batch_size, "timed_queries": timed_queries, "seed": seed, "device": str(index.device)}
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    settings = _source(index, questions, gold, k, use, dataset, split) | {"retrievers": descriptions} | made_with | versions
    costs: dict[str, dict[str, Any]] = {}

    def so_far() -> Evaluation:
        return Evaluation(dataset, split, k, questions, gold, answers, index.graph, dict(costs), settings, notes)

    names = [name for name in built if not isinstance(built[name], Mapping)]
    if timed_queries and names:
        if before_timing is not None:
            before_timing(so_far())
        for name in progress_bar(names, desc="timing single queries", unit="retriever", disable=not show_progress):
            costs[name] = measure(runner.single(built[name]), len(questions), sample=timed_queries, seed=seed, device=index.device)
    return so_far()


def check_measurement(k: int, timed_queries: int, seed: int, use: Sequence[str]) -> None:
    """Raise InvalidArgumentError if one of these arguments of :func:`evaluate` is out of range."""
    positive("k", k), positive("timed_queries", timed_queries, least=0), seed_number(seed)
    for name in use:
        choice("annotation", name, ANNOTATIONS)


def _omission_note(name: str, reason: object) -> str:
    return f"{name} was left out: {' '.join(str(reason).split())}"


def _run(
    runner: _Runner, built: dict[str, Any], batch_size: int, skip: bool, show_progress: bool
) -> tuple[dict[str, dict[str, Returned]], dict[str, GraphRetrieverError]]:
    """Run each retriever on all queries, chunk by chunk; return the results, and the errors of those to skip, by name."""
    chunks = [slice(start, start + batch_size) for start in range(0, len(runner.queries), batch_size)]
    answers: dict[str, dict[str, Returned]] = {name: {} for name in built}
    errors: dict[str, GraphRetrieverError] = {}
    todo = [(part, name) for part in chunks for name in built]
    with progress_bar(todo, desc="evaluating", unit="chunk", disable=not show_progress) as bar:
        for part, name in bar:
            bar.set_postfix_str(name)
            if name in errors:
                continue
            try:
                answers[name] |= runner.run(built[name], part)
            except GraphRetrieverError as error:
                if not skip:
                    raise
                errors[name] = error
    # The results of the last chunk are dropped, so that their memory does not count for the queries that are timed.
    runner.close()
    return {name: results for name, results in answers.items() if name not in errors}, errors


class _Runner:
    """Runs retrievers on chunks of queries; those of one chunk share query vectors and latents."""

    def __init__(self, queries: list[Query], k: int, use: tuple[str, ...]) -> None:
        self.queries, self.k, self.use = queries, k, use
        self._chunk: slice | None = None
        self._batches: dict[int, Queries] = {}

    def run(self, retriever: Any, part: slice) -> dict[str, Returned]:
        chunk = self.queries[part]
        if isinstance(retriever, Mapping):
            return {q.id: _result_of(retriever.get(q.id, []), self.k) for q in chunk}
        if not isinstance(retriever, MemoryRetriever):
            return {q.id: _result_of(retriever(q.text), self.k) for q in chunk}
        if part != self._chunk:
            self._chunk, self._batches = part, {}
        batch = self._batches.get(id(retriever.index))
        if batch is None:
            batch = self._batches[id(retriever.index)] = Queries.of(retriever.index, [q.text for q in chunk], k=self.k)
        if retriever.index.relevance.listwise:
            # A listwise model judges the candidates of a list together, so that its scores are not shared between retrievers.
            batch = batch.afresh()
        # Vectors, similarities and latents are shared by the retrievers; their inputs are not.
        batch = replace(batch, inputs=self._inputs(retriever, chunk))
        questions, ids = retriever.questions(batch), retriever.index.graph.ids
        lists = retriever.rank(questions)
        notes = [tuple(dict.fromkeys(question.notes)) for question in questions]
        pairs = [
            [(ids[row], score) for row, score in zip(candidates.nodes.tolist(), candidates.trimmed().scores.tolist(), strict=True)]
            for candidates in lists
        ]
        hits = retriever.hits(questions, lists)
        return {
            q.id: replace(_result_of([(h.id, h.score) for h in row.nodes], self.k, everything), notes=question_notes)
            for q, row, everything, question_notes in zip(chunk, hits, pairs, notes, strict=True)
        }

    def close(self) -> None:
        """Drop what is kept for the present chunk."""
        self._chunk, self._batches = None, {}

    def single(self, retriever: Any) -> Callable[[int], tuple[int, int | None] | None]:
        """Return a function that runs one query by itself, and returns the numbers of encoded and of touched nodes."""

        def once(position: int) -> tuple[int, int | None] | None:
            query = self.queries[position]
            if not isinstance(retriever, MemoryRetriever):
                retriever(query.text)
                return None
            batch = Queries.of(retriever.index, [query.text], k=self.k, inputs=self._inputs(retriever, [query]))
            questions = retriever.questions(batch)
            retriever.hits(questions, retriever.rank(questions))
            return batch.latents.encoded, questions[0].touched

        return once

    def _inputs(self, retriever: Retriever, queries: Sequence[Query]) -> dict[str, Sequence[Any]]:
        names = [name for name in self.use if name in retriever.inputs]
        return {name: [list(getattr(query, name)) or None for query in queries] for name in names}


def _result_of(pairs: ScoredIds, k: int, everything: ScoredIds | None = None) -> Returned:
    def columns(part: ScoredIds) -> tuple[tuple[str, ...], tuple[float, ...]]:
        return tuple(node for node, _ in part), tuple(score for _, score in part)

    return Returned(*columns(pairs[:k]), *columns((pairs if everything is None else everything)[:_MOST_NODES]))


def _checked(
    index: GraphIndex, queries: Sequence[Query], qrels: Mapping[str, Mapping[str, float]] | None
) -> tuple[list[Query], dict[str, Gold], list[str]]:
    """Return the queries that can be measured, the relevant nodes of each, and a note about the others."""
    twice = [name for name, count in Counter(query.id for query in queries).items() if count > 1]
    if twice:
        raise InvalidArgumentError(f"Two queries have the id {twice[0]!r}; ids must be unique.")
    questions: list[Query] = []
    gold: dict[str, Gold] = {}
    for query in queries:
        grades = query.gold if qrels is None else qrels.get(query.id, {})
        relevant = [node for node, grade in grades.items() if grade > 0] if isinstance(grades, Mapping) else list(grades)
        missing = [node for node in relevant if node not in index.graph]
        if missing:
            raise UnknownNodeError(
                f"Query {query.id!r} names {missing[0]!r} as relevant, which is not one of the {len(index)} nodes of this graph; "
                "use the graph that the queries were made for, or leave the query out."
            )
        if relevant:
            questions.append(query)
            gold[query.id] = dict(grades) if isinstance(grades, Mapping) else tuple(grades)
    if not questions:
        raise InvalidArgumentError(f"None of the {len(queries)} queries names a relevant node; there is nothing to measure.")
    left_out = len(queries) - len(questions)
    return questions, gold, [f"{left_out} queries without relevant nodes were left out."] if left_out else []


def _built(
    index: GraphIndex,
    retrievers: Mapping[str, Any] | Sequence[RetrieverLike],
    k: int,
    inputs: set[str],
    skip: bool,
) -> tuple[dict[str, Any], list[str]]:
    """Return the retrievers by name, and notes on those that lack something or are left out."""
    if not isinstance(retrievers, Mapping):
        if isinstance(retrievers, str) or not isinstance(retrievers, Sequence):
            raise InvalidArgumentError(
                f"retrievers must be a list of systems or a mapping from names to retrievers, got {shown(retrievers)}."
            )
        by_name = {_name(value): value for value in retrievers}
        if len(by_name) != len(retrievers):
            raise InvalidArgumentError("Two retrievers have the same name; pass a mapping from other names.")
        retrievers = by_name
    if not retrievers:
        raise InvalidArgumentError("There are no retrievers to evaluate; name at least one.")

    def build(name: str, value: Any) -> Any:
        if isinstance(value, Mapping) and not isinstance(value.get("system"), str):
            return _checked_run(name, value)
        if isinstance(value, str | System | Mapping | Operator):
            value = Retriever(index, value, k=k, name=name)
        return value.unfiltered if isinstance(value, MemoryRetriever) else as_search(value)

    built: dict[str, Any] = {}
    notes: list[str] = []
    for name, value in retrievers.items():
        try:
            retriever = build(name, value)
        except GraphRetrieverError as error:
            if not skip:
                raise
            notes.append(_omission_note(name, error))
            continue
        lacks = retriever.lacks(inputs) if isinstance(retriever, MemoryRetriever) else ()
        if lacks:
            notes.append(
                _omission_note(name, f"it lacks {join_names(lacks)}.") if skip else f"{name} ran without {join_names(lacks)}."
            )
        if not (lacks and skip):
            built[name] = retriever
    return built, notes


def _name(value: Any) -> str:
    """Return the name of a retriever in a list."""
    if isinstance(value, str | System | Mapping):
        return value if isinstance(value, str) else str(read_system(value))
    name = getattr(value, "name", None)
    if not isinstance(name, str):
        raise InvalidArgumentError(f"{shown(value)} has no name; pass a mapping from names to retrievers.")
    return name


def _checked_run(name: str, run: Mapping[str, Any]) -> dict[str, list[tuple[str, float]]]:
    try:
        return {query: [(str(node), float(score)) for node, score in pairs] for query, pairs in run.items()}
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{name} is {shown(run)}; expected a run, which has (node id, score) pairs by query id, or a system."
        ) from error


def _description(retriever: Any) -> str:
    if isinstance(retriever, Mapping):
        return f"a run {hashlib.sha256(repr(sorted(retriever.items())).encode()).hexdigest()[:16]}"
    if not isinstance(retriever, MemoryRetriever):
        return "a retriever of another library"
    return f"{retriever!r} with {retriever.index.relevance.name or 'no model'}"


def _source(
    index: GraphIndex, queries: list[Query], gold: dict[str, Gold], k: int, use: Sequence[str], dataset: str, split: str
) -> dict[str, Any]:
    """Return what was searched, and with which models, for ``settings``."""
    digest = hashlib.sha256()
    for query in queries:
        digest.update(f"{query.id}\0{query.text}\0{sorted(gold[query.id])}\0".encode())
    return {
        "dataset": dataset,
        "split": split,
        "k": k,
        "use": sorted(use),
        "nodes": len(index),
        "edges": index.graph.num_edges,
        "queries": digest.hexdigest()[:16],
        "corpus": index.digest(),
        "embedding": index.embedding_name,
        "relevance": index.relevance.name,
        "version": __version__,
    }


def _unknown(index: GraphIndex, answers: dict[str, dict[str, Returned]]) -> list[str]:
    notes = []
    for name, results in answers.items():
        ids = [node for result in results.values() for node in result.ids]
        unknown_ids = [node for node in ids if node not in index.graph]
        if ids and len(unknown_ids) == len(ids):
            raise InvalidArgumentError(
                f"{name} returned only ids that are not in the graph, such as {unknown_ids[0]!r}; an id of this graph is "
                f"{index.graph.ids[0]!r}. Let the retriever return ids of nodes."
            )
        if unknown_ids:
            count = f"{len(unknown_ids)} of {len(ids)} ids"
            notes.append(f"{name} returned {count} that are not in the graph; they count as not relevant.")
    return notes


def _notes_of(answers: dict[str, dict[str, Returned]]) -> list[str]:
    """Return, for each retriever whose operators left notes, on how many questions, and the commonest."""
    notes = []
    for name, results in answers.items():
        counts = Counter(note for result in results.values() for note in result.notes)
        if counts:
            (note, _), noted = counts.most_common(1)[0], sum(bool(result.notes) for result in results.values())
            notes.append(f"{name}: {noted} of {len(results)} questions have notes, most often {note!r}.")
    return notes
