"""Retriever: a composition of operators on an index."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Never, Self, Unpack

import numpy as np
from torch import Tensor

from graph_retrievers.arguments import check_keywords, keywords_of, positive, seconds, strings, typed
from graph_retrievers.cache import Same
from graph_retrievers.core.candidates import Candidates, falling
from graph_retrievers.core.driver import Search, run
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.core.recording import recording
from graph_retrievers.core.trace import Trace
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError, shown
from graph_retrievers.graph.blank import blank_nodes
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.description import tell_no_edges
from graph_retrievers.graph.filters import Filter, filter_mask, type_mask
from graph_retrievers.hits import NOTHING_FOUND, Hits, Similarities, named_rows, to_hits
from graph_retrievers.index import GraphIndex
from graph_retrievers.queries import DEFAULT_K, Queries, compared_vectors, filter_masks
from graph_retrievers.retrievers.composition import Composition
from graph_retrievers.retrievers.options import RetrieverOptions
from graph_retrievers.retrievers.plain_search import PlainSearch
from graph_retrievers.retrievers.protocol import LISTED, LISTING, NOTHING_PASSES, BaseRetriever, Call
from graph_retrievers.retrievers.shared_calls import SharedCalls
from graph_retrievers.search.backfill import Backfill
from graph_retrievers.search.memory import Memory
from graph_retrievers.search.per_source import DEEPER, per_source
from graph_retrievers.signals.relevance import BiEncoder
from graph_retrievers.signals.signal import VectorSignal
from graph_retrievers.systems.baselines import BM25
from graph_retrievers.systems.given import check_options
from graph_retrievers.systems.registry import default_system, without_vectors
from graph_retrievers.systems.system import System, SystemLike, read_system

__all__ = ["EMPTY_SCOPE", "Retriever", "tell_unused_relevance", "with_options"]

_logger = logging.getLogger(__name__)

EMPTY_SCOPE = "no node is in the scope"
"""Note on a query whose scope has no node."""


class Retriever(BaseRetriever):
    """Retrieve nodes of an index, and other results, by a system or a composition of operators.

    Parameters
    ----------
    index : GraphIndex
    system : System, str, mapping, Operator, or function from a GraphIndex to an Operator, optional
        A system such as ``PPR(damping=0.7)``; its text ``"ppr(damping=0.7)"`` or mapping ``{"system": "ppr", "damping": 0.7}`` (see
        :func:`~graph_retrievers.systems.system.read_system`); or your own composition, usually a
        :class:`~graph_retrievers.core.compositions.Pipeline`. Pass a composition that depends on the contents of the index as a
        function, so that a ``scope`` gets its own. By default the system with the best results on indexes with the same signals
        (:func:`~graph_retrievers.systems.registry.default_system`).
    k : int, optional
        Nodes to return; by default that of the system, which is 10 unless its page says otherwise. Chains and facts are additional
        hits after the nodes, as many as the operators find, if requested by ``chains="hits"`` of
        :class:`~graph_retrievers.systems.spreading.retriever.SpreadingActivation`, or by an operator such as ``ChainSearch()`` or
        ``FactSearch()``.
    backfill : bool, default True
        Whether vector search (BM25 if the index has no vectors) fills the list up to k when the operators find fewer nodes. These
        hits come last, with the operator name "Backfill" and scores below all others, on the same scale (see
        :class:`~graph_retrievers.search.backfill.Backfill`).
    per_source : int, optional
        Maximum number of hits from one document, such as 2 chunks of a page; no limit by default. The operators search for four
        times as many nodes, and nodes above the limit of their document are left out before the list is cut to k and filled up.
        If fewer than k are left, operators and backfill search deeper, if necessary to the end of the corpus; operators that use
        a model do not, and the list is filled up. With few documents there are fewer than k hits, and a note says so.
    source_field : str, optional
        Metadata field with the document of a node; a node without it is its own document. By default the source of a LlamaIndex
        node (``ref_doc_id``), else the page of a chunk, from ``url``, ``source``, ``path`` or ``file_path`` (see
        :func:`~graph_retrievers.graph.addresses.node_source`).
    types : collection of str, optional
        Node types that may be returned, end chains and be connected by facts. A traversal passes through others. By default all
        except entities that represent names in texts and have no text themselves, such as those of
        :class:`~graph_retrievers.construction.entities.EntityMentions`; a `filter` that one of them passes includes them.
    batch_size : int, default 32
        Number of queries that run together.
    share_batches : bool, optional
        Whether concurrent calls of threads or tasks are answered in batches of up to `batch_size` questions, which share
        embedding, search and reranking. By default only on a GPU; two cores of a CPU gain nothing.
    time_limit : float, optional
        Seconds that a call may take; no limit by default. The time is checked before each step of the search, so it does not
        interrupt a running step, or your own operator that computes without requests. The TimeLimitError says which step was
        reached and how long each took.
    name : str, optional
        Name in tables.

    Attributes
    ----------
    system : System or None
        None for your own composition.
    operator : Operator
        The composition of the system on the index.
    inputs : tuple of str
        Other per-query arguments that the operators read, such as ``entities`` or ``plan``.

    Examples
    --------
    >>> from graph_retrievers.operators import BM25Search, GatedPropagation, Pipeline
    >>> index = GraphIndex.from_texts(
    ...     ["Ada wrote a program.", "An engine of brass."], titles=["Ada", "Engine"], edges=[("0", "1", "ran on")]
    ... )
    >>> retriever = Retriever(index, Pipeline(BM25Search(1), GatedPropagation(gate="uniform")))
    >>> for hit in retriever.retrieve("Who wrote a program?"):
    ...     print(hit.title, "|", hit.path.text)
    Ada | Ada
    Engine | Ada -[ran on]-> Engine
    """

    def __init__(
        self,
        index: GraphIndex,
        system: SystemLike | None = None,
        *,
        k: int | None = None,
        backfill: bool = True,
        per_source: int | None = None,
        source_field: str | None = None,
        types: Collection[str] | None = None,
        batch_size: int = 32,
        share_batches: bool | None = None,
        time_limit: float | None = None,
        name: str | None = None,
        **unknown: Never,
    ) -> None:
        if unknown:
            check_options("Retriever", unknown, keywords_of(Retriever.__init__), system)
        chosen = system is None
        if system is None:
            system = default_system(index)
        self.system: System | None = read_system(system) if isinstance(system, System | str | Mapping) else None
        self._compose: Any = system if self.system is None else self.system.compose
        self._chosen_types: tuple[str, ...] | None = None
        self._take(index)
        if chosen and isinstance(self.system, BM25):
            self.operator.reason = without_vectors(index)
        if k is None:
            k = DEFAULT_K if self.system is None or chosen else self.system.default_k
        self._options: dict[str, Any] = {
            "k": k,
            "backfill": backfill,
            "per_source": per_source,
            "source_field": source_field,
            "types": types,
            "batch_size": batch_size,
            "share_batches": share_batches,
            "time_limit": time_limit,
            "name": name,
        }
        self._set(**self._options)
        self._told_unused = False
        if chosen:
            tell_unused_relevance(self)
        if index.prepared:
            for part in self.operator.parts():
                part.prepare(index)
        if self._composition.lacks_edges:
            tell_no_edges(index.graph)
        elif self.system is not None and type(index.graph) is CorpusGraph and self.system.finds_less(index):
            # Once for a graph, however often a retriever is made.
            index.graph.cache.get(("finds less", self.system.name), self._tell_search_finds_more)
        if self._composition.falls_back:
            _logger.warning(
                "%s has no relevance model to rerank with and falls back to the similarity of the vectors; pass relevance= to the "
                "index.",
                self.name,
            )

    def _tell_search_finds_more(self) -> None:
        kind = type(self.system).__name__
        _logger.warning(
            "%s alone is known to find less than hybrid search on passages like these; Fused(%s(), Hybrid()) or WalkFusion() finds "
            "more.",
            kind,
            kind,
        )

    @typed
    def _set(
        self,
        k: int,
        backfill: bool,
        per_source: int | None,
        source_field: str | None,
        types: Collection[str] | None,
        batch_size: int,
        share_batches: bool | None,
        time_limit: float | None,
        name: str | None,
    ) -> None:
        self.k, self.batch_size = positive("k", k), positive("batch_size", batch_size)
        share_batches = self.index.device.type == "cuda" if share_batches is None else share_batches
        self._shared_calls = SharedCalls(self.batch_size) if share_batches else None
        self.time_limit = None if time_limit is None else seconds("time_limit", time_limit)
        self.per_source = None if per_source is None else positive("per_source", per_source)
        if source_field is not None and per_source is None:
            raise InvalidArgumentError(
                f"source_field={source_field!r} says what a document is, and per_source= how many hits of one may be there; "
                "give both."
            )
        self.source_field = source_field
        # The contents of a database are unknown here.
        held = self.index.graph.metadata if source_field is not None and type(self.index.graph) is CorpusGraph else ()
        if held and not any(source_field in metadata for metadata in held):
            _logger.warning(
                "%s: no node has the metadata field source_field=%s; each is taken for a document of its own, and per_source=%d "
                "limits nothing.",
                name or self._title,
                shown(source_field),
                self.per_source,
            )
        self._filling = Backfill(self.per_source, source_field)
        self.backfill, self._chosen_types = backfill, None if types is None else strings("types", types)
        self.types = self._returned()
        self.name = name or self._title

    def with_options(self, **options: Unpack[RetrieverOptions]) -> Self:
        """Return this retriever with other values of the keywords of every retriever; the operators stay the same.

        Their calls share batches (`share_batches`) unless `backfill`, `types`, `per_source` or `source_field` differ, or a
        `batch_size` or `share_batches` is given.

        Examples
        --------
        >>> from graph_retrievers import BM25
        >>> retriever = Retriever(GraphIndex.from_texts(["A loom.", "A loom of wood."]), BM25(), k=2)
        >>> [len(made.retrieve("Which loom?")) for made in (retriever, retriever.with_options(k=1, time_limit=5))]
        [2, 1]
        """
        check_keywords(type(self).__name__, options, sorted(self._options))
        made, given = copy(self), dict[str, Any]({**self._options, **options})
        made._options = given
        made._set(**given)
        if not options.keys() & {"batch_size", "share_batches"}:
            made._shared_calls = self._shared_calls
        return made

    def __repr__(self) -> str:
        """Return the name and the composition with its parameters."""
        composition = repr(self.operator).replace("\n", "\n  ")
        types = "" if self.types is None else f", types={self.types}"
        types += "" if self.per_source is None else f", per_source={self.per_source}"
        types += "" if self.source_field is None else f", source_field={self.source_field!r}"
        return f"{self.name}(\n  {composition},\n  k={self.k}, backfill={self.backfill}{types},\n)"

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of other per-query arguments that the operators read."""
        return self.operator.reads

    @property
    def reason(self) -> str:
        """Why this composition was chosen, if it depends on the index, as for ``WalkFusion``; hits show it.

        It also says if the retriever needs edges and the index has none.
        """
        return self._composition.reason

    def lacks(self, given: Collection[str] = ()) -> tuple[str, ...]:
        """Return the parts of the system that this retriever lacks, such as "a plan"; it then uses a fallback with other results.

        Parameters
        ----------
        given : collection of str, default ()
            Names of the inputs that queries have.

        Examples
        --------
        >>> from graph_retrievers import MoR
        >>> retriever = Retriever(GraphIndex.from_texts(["a loom"]), MoR(rerank=False))
        >>> retriever.lacks(), retriever.lacks(given=["plan"])
        (('a plan (pass plan=, planner= or checkpoint=)',), ())
        """
        model = ("a relevance model (pass relevance=)",) if self._composition.falls_back else ()
        return (*model, *(untrained.need for untrained in self._composition.untrained), *self.operator.lacks(given))

    def over(self, index: GraphIndex) -> Self:
        """Return this retriever on another index with the same signals, such as that of a scope."""
        made = copy(self)
        made._take(index)
        return made

    def _take(self, index: GraphIndex) -> None:
        """Compose the operators on an index."""
        made = self._compose
        operator = made(index) if callable(made) and not isinstance(made, (Operator, type)) else made
        if not isinstance(operator, Operator):
            hint = f"; call it: {made.__name__}()" if isinstance(made, type) else ""
            raise InvalidArgumentError(f"Expected a system or an Operator, such as a Pipeline, got {shown(operator)}{hint}.")
        self.index, self.operator = index, operator
        self._composition = Composition(index, operator, self.system)
        self.types = self._returned()

    @property
    def _title(self) -> str:
        return type(self if self.system is None else self.system).__name__

    def _returned(self) -> tuple[str, ...] | None:
        """Return the node types that may be returned: those given, or those of the system."""
        if self._chosen_types is not None or self.system is None:
            return self._chosen_types
        return self.system.returned_types(self.index)

    def questions(self, queries: Queries) -> list[Question]:
        """Return the questions of a batch on the index of this retriever, limited to the types that it returns.

        Raises InvalidArgumentError for a batch on another index, such as that of a scope: use :meth:`over` first.
        """
        if queries.index is not self.index:
            raise InvalidArgumentError("The queries are on another index than the retriever; use retriever.over(queries.index).")
        return Memory(self._narrowed(queries)).questions()

    def rank(self, questions: Sequence[Question]) -> list[Candidates]:
        """Return everything that the operators find for each question, with filters applied, before it is cut to k or filled up.

        Notes on the search, and counts of visited nodes, are then in the questions.
        """
        return run(questions[0].backend, list(map(self.found, questions)), questions[0].queries.trace) if questions else []

    def hits(self, questions: Sequence[Question], found: Sequence[Candidates]) -> list[Hits]:
        """Return what :meth:`rank` found as hits: cut to k, and filled up if necessary."""
        return self._hits(questions, map(self.answer, questions, found))

    def _hits(self, questions: Sequence[Question], answers: Iterable[Search[Candidates]]) -> list[Hits]:
        if not questions:
            return []
        queries, index = questions[0].queries, self.index
        found = run(questions[0].backend, list(answers), queries.trace)
        plain = None
        if self._composition.reads_graph and (index.has_bm25 or (index.has_dense and queries.has_vectors)):
            plain = PlainSearch(queries).rank
        alike, trace = self.similarities(questions, found), Trace(queries.trace)
        shown = None if queries.filtered is None else queries.filtered.cpu().numpy()
        notes = [tuple(dict.fromkeys(question.notes)) for question in questions]
        return to_hits(found, index.graph, shown, plain, self._composition.reason, alike, trace, notes)

    def similarities(self, questions: Sequence[Question], found: Sequence[Candidates]) -> Similarities:
        """Return the cosine of each of B questions with each node that its hits name, by the numbers of question and row.

        `found` has the nodes, chains and facts that become hits. A cosine is None if one of the two has no vector. The mapping is
        empty if the index has no vectors of nodes, or the vectors of questions are not available, or the operators read only words
        and edges and no vectors are given, because a question is not embedded only for this. That does not depend on the other
        questions of a batch.

        Examples
        --------
        >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [3, 4]], edges=[])
        >>> retriever = Retriever(index, "vector")
        >>> questions = retriever.questions(Queries.of(index, ["Which loom?"], vectors=[[2, 0]]))
        >>> retriever.similarities(questions, retriever.rank(questions))
        {(0, 1): 0.6, (0, 0): 1.0}
        """
        if not questions:
            return {}
        queries = questions[0].queries
        if not isinstance(queries.index.signals.get("dense"), VectorSignal) or not queries.has_vectors:
            return {}
        if not self._composition.compares_vectors and not isinstance(queries.given, Tensor):
            return {}
        return queries.similarities([named_rows(each, question.ends) for question, each in zip(questions, found, strict=True)])

    def found(self, question: Question) -> Search[Candidates]:
        """Return everything that the operators find for a question, with filters applied."""
        return self._found(question, question) if self.per_source is None else self._found_deeper(question, self.per_source)

    def _found(self, question: Question, asked: Question) -> Search[Candidates]:
        found = yield from self.operator.stepped(asked, Candidates.none())
        # On stores, queries have no masks: the question knows what may be returned.
        kept = question.returned(found.nodes)
        return found if np.count_nonzero(kept) == len(found) else found.taken(np.flatnonzero(kept))

    def _found_deeper(self, question: Question, most: int) -> Search[Candidates]:
        """Return what is found where documents have at most so many hits: a search for more nodes, if necessary for all."""
        reach = min(DEEPER * question.k, question.size)
        while True:
            asked = question.asking(reach)
            found = yield from self._found(question, asked)
            question.touched = asked.touched
            if reach >= question.size or len(found) < reach or self._composition.asks_model:
                return found
            # Documents may have any number of nodes alike.
            kept = yield from per_source(question, found, most, self.source_field)
            if len(kept) >= question.k:
                return found
            reach = min(DEEPER * reach, question.size)

    def _searched(self, question: Question) -> Search[Candidates]:
        return (yield from self.answer(question, (yield from self.found(question))))

    def answer(self, question: Question, found: Candidates) -> Search[Candidates]:
        """Return the candidates that become the hits of a question: cut to k, filled up, with notes for the user."""
        wanted = min(question.k, question.size)
        if self.per_source is not None:
            found = yield from per_source(question, found, self.per_source, self.source_field)
        found = found.top(wanted)
        # An operator that appends may score nodes higher than those above them.
        found = replace(found, scores=falling(found.scores))
        question.notes += self._composition.notes if len(found) else (NOTHING_FOUND, *self._composition.notes)
        if self.types is not None and found.chains is not None:
            found = replace(found, chains=found.chains.taken(question.typed(found.chains.last(), self.types)))
        if self.types is not None and found.facts is not None:
            ends = question.ends(found.facts.rows)
            kept = question.typed(ends[:, 0], self.types) & question.typed(ends[:, 1], self.types)
            found = replace(found, facts=found.facts.taken(kept))
        if self.backfill and len(found) < wanted:
            found = yield from self._filling.stepped(question, found)
        if self.per_source is not None and len(found) < wanted:
            question.notes.append(f"{len(found)} of {wanted} hits: at most {self.per_source} of one document")
        return found.trimmed()

    def _narrowed(self, queries: Queries) -> Queries:
        graph, types = self.index.graph, self.types
        if self._composition.blank is not None:
            queries = queries.without(self._composition.blank)
        if types is None:
            names = self._composition.names and self._left_out(queries.filtered)
            if not names:
                return queries
            types = tuple(kind for kind in graph.type_names if kind not in names)
        return queries.narrowed(graph.cache.get(("types", types), lambda: type_mask(graph, types)))

    def _left_out(self, filtered: Tensor | None) -> tuple[str, ...]:
        """Return the node types of mere names, or nothing where `types`, or a filter by its mask, asks for one of them."""
        names = self._composition.names
        if self.types is not None and set(names) & set(self.types):
            return ()
        if filtered is not None and bool((filtered & type_mask(self.index.graph, names)).any()):
            return ()
        return names

    def _check_inputs(self, names: Iterable[str], filters: Mapping[str, Filter]) -> None:
        # The inputs of a composition may depend on the index: those of a scope are checked when it exists.
        if "scope" not in filters:
            super()._check_inputs(names, filters)

    def search(self, call: Call) -> list[Hits]:
        """Return the hits of each query of a call; `batch_size` queries run together."""
        with self._time_limited():
            # A record has the steps of only one call.
            if self._shared_calls is None or recording():
                return self._answered(call)
            call = self._with_vectors(call)
            # Another function knows the vectors of its own queries only.
            alone = callable(call.vectors)
            # What an answer depends on, besides the call.
            key = (Same(self.index), self.backfill, self.per_source, self.source_field, self.types)
            return self._answered(call) if alone else self._shared_calls(call, self._answered, key)

    def _question_model(self) -> tuple[bool, Any]:
        dense = isinstance(self.index.signals.get("dense"), VectorSignal)
        return dense and self._composition.compares_vectors, self.index.embedding

    def _answered(self, call: Call) -> list[Hits]:
        if self._composition.skips_names:
            call = self._without_names(call)
        if "scope" in call.filters:
            try:
                scoped, call = self._within(call)
            except EmptyGraphError:
                return [Hits((), (EMPTY_SCOPE,)) for _ in call.queries]
            if scoped is not self:
                return scoped._answered(call)
        if call.inputs:
            # Those of a composition may depend on the index.
            self._check_inputs(call.inputs, call.filters)
        # Filters are evaluated once for all batches.
        masks = filter_masks(self.index.graph, **call.filters) if call.filters else {}
        results: list[Hits] = []
        for part in call.parts(self.batch_size):
            vectors = compared_vectors(self.index, part.vectors, len(part.queries))
            queries = Queries(self.index, tuple(part.queries), part.k, inputs=part.inputs, given=vectors, **masks)
            questions = self.questions(queries)
            results += self._hits(questions, map(self._searched, questions))
        return results

    def _without_names(self, call: Call) -> Call:
        """Return the call in the scope of the nodes that are not mere names, unless these may be hits."""
        if "scope" in call.filters:
            return call
        condition = call.filters.get("filter")
        mask = None if condition is None else filter_mask(self.index.graph, condition)
        if not (names := self._left_out(mask)):
            return call
        filters = call.filters if mask is None else {**call.filters, "filter": mask}
        return replace(call, filters={**filters, "scope": {"$type": {"$nin": list(names)}}})

    def _within(self, call: Call) -> tuple[Self, Call]:
        """Return the retriever on the scope of a call, and the call without it; EmptyGraphError if no node is in the scope."""
        filters = dict(call.filters)
        if (scope := filters.pop("scope", None)) is None:
            return self, call
        index = self.index.within(scope)
        if index is self.index:
            return self, replace(call, filters=filters)
        # A mask has a bool for each node of the whole index.
        masks = {n: filter_mask(self.index.graph, m)[index.rows] for n, m in filters.items() if isinstance(m, Tensor)}
        return self.over(index), replace(call, filters=filters | masks)

    def listed(self, call: Call) -> Hits:
        """Return the first k nodes that pass the filter and the scope of a call, in order, of the types that may be returned."""
        try:
            scoped, call = self._within(call)
        except EmptyGraphError:
            return Hits((), (LISTED, EMPTY_SCOPE))
        index = scoped.index
        # Operators get no empty question: this one only has the filter.
        asked = replace(Queries.of(index, [], k=call.k, filter=call.filters.get("filter")), texts=("",))
        (question,) = scoped.questions(asked)
        rows = np.arange(question.size)
        rows = rows[question.returned(rows)]
        found = Candidates.seeds(rows, np.zeros(len(rows)), LISTING)
        if scoped.per_source is not None:
            kept = per_source(question, found, scoped.per_source, scoped.source_field)
            (found,) = run(question.backend, [kept], asked.trace)
        notes = (LISTED, *question.notes, *(() if len(found) else (NOTHING_PASSES,)))
        (hits,) = to_hits([found.top(call.k)], index.graph, trace=Trace(asked.trace), notes=[notes])
        return hits


def with_options(retriever: Any, options: Mapping[str, Any]) -> Any:
    """Return a retriever of any kind with other values of keywords of every retriever; InvalidArgumentError if it has none."""
    if not options:
        return retriever
    if not callable(getattr(retriever, "with_options", None)):
        told = " and ".join(f"{name}=" for name in options)
        raise InvalidArgumentError(
            f"{told} cannot be set on this {type(retriever).__name__}, which has no with_options(); use what its own constructor "
            "takes."
        )
    return retriever.with_options(**options)


def tell_unused_relevance(retriever: Any) -> None:
    """Warn once if the index of a retriever has a relevance model that the retriever's operators do not use."""
    if not isinstance(retriever, Retriever) or retriever._told_unused or isinstance(retriever.index.relevance, BiEncoder):
        return
    if not retriever._composition.asks_relevance:
        retriever._told_unused = True
        _logger.warning(
            "%s does not use the relevance model %s. The systems 're2', 'gar', 'fastinsight' and 'path-reranking' do; pass "
            "system='fastinsight'.",
            retriever.name,
            retriever.index.relevance.name,
        )


def _asks_relevance(operator: Operator) -> bool:
    """Return whether an operator asks the relevance model of the index."""
    return any(part.asks_relevance for part in operator.parts())


def _reads_graph(operator: Operator) -> bool:
    # A search by a model may take its candidates from neighbours.
    plain = (OperatorKind.VECTOR_SEARCH, OperatorKind.MODEL_SEARCH)
    return any(part.walks or part.kind not in plain for part in operator.parts())
