"""Retriever: a composition of operators on an index, in memory or in a database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Never, Self, Unpack

import numpy as np
from torch import Tensor

from graph_retrievers.arguments import check_keywords, keywords_of, positive, seconds, strings, typed
from graph_retrievers.cache import Lazy
from graph_retrievers.core.candidates import Candidates, falling
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.errors import InvalidArgumentError, few, shown
from graph_retrievers.graph.filters import Filter, filter_fields
from graph_retrievers.hits.hits import Hits
from graph_retrievers.hits.of_candidates import NOTHING_FOUND, Similarities, result_rows
from graph_retrievers.retrievers.composition import Composition
from graph_retrievers.retrievers.options import RetrieverOptions, SystemLike
from graph_retrievers.retrievers.protocol import NOTHING_PASSES, BaseRetriever, Call
from graph_retrievers.retrievers.shared_calls import SharedCalls
from graph_retrievers.search.backfill import Backfill
from graph_retrievers.search.batch import DEFAULT_K
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.per_source import DEEPER, per_source
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.systems.baselines import BM25
from graph_retrievers.systems.given import check_options
from graph_retrievers.systems.registry import default_system, without_vectors
from graph_retrievers.systems.system import System, read_system

__all__ = ["Retriever", "with_options"]

_logger = logging.getLogger(__name__)


class Retriever(BaseRetriever):
    """Retrieve nodes of an index, and other results, by a system or a composition of operators.

    Parameters
    ----------
    index : GraphIndex or RemoteIndex
        In memory, or in a database: see :class:`~graph_retrievers.stores.remote.RemoteIndex`.
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
        Number of queries that run together. On a GPU more are better, such as 256: a batch waits for it at each step of the
        search, however many queries there are.
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
    >>> from graph_retrievers import GraphIndex
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

    _runs_on: ClassVar[type[Corpus]] = Corpus  # type: ignore[type-abstract]
    _kinds: ClassVar[list[type[Retriever]]] = []

    def __init_subclass__(cls) -> None:
        """Note what kind of index a subclass runs on."""
        super().__init_subclass__()
        if "_runs_on" in vars(cls):
            Retriever._kinds.append(cls)

    def __new__(cls, index: Any = None, *_: Any, **__: Any) -> Self:
        """Return a retriever of the kind that runs where the index lies."""
        kinds = (kind for kind in Retriever._kinds if isinstance(index, kind._runs_on))
        return super().__new__(next(kinds, cls) if cls is Retriever else cls)  # type: ignore[return-value]

    def __init__(
        self,
        index: Corpus,
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
        if not isinstance(index, self._runs_on):
            expected = "GraphIndex, or RemoteIndex for one in a database" if type(self) is Retriever else self._runs_on.__name__
            raise InvalidArgumentError(f"index is {shown(index)}; expected {expected}.")
        default = system is None
        if system is None:
            system = self._default_system(index)
        self.system: System | None = read_system(system) if isinstance(system, System | str | Mapping) else None
        self._compose: Any = system if self.system is None else self.system.compose
        self._chosen_types: tuple[str, ...] | None = None
        self._take(index)
        if default and isinstance(self.system, BM25):
            self.operator.reason = without_vectors(index)
        if k is None:
            k = DEFAULT_K if self.system is None or default else self.system.default_k
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
        self._has_warned = False
        self._begin(default)
        if self._composition.falls_back:
            self._once("falls back", self._warn_of_fallback)

    def _begin(self, default: bool) -> None:
        """Do what is to be done once the retriever is made; `default` says whether its system is the default."""

    def _once(self, what: str, tell: Callable[[], None]) -> None:
        """Tell users something about this system on this index, once where that can be known."""
        tell()

    def _warn_of_fallback(self) -> None:
        _logger.warning(
            "%s has no relevance model to rerank with and falls back to the similarity of the vectors; pass relevance= to the "
            "index.",
            self.name,
        )

    def _default_system(self, index: Corpus) -> System:
        """Return the system if none is given."""
        return default_system(index)

    def _has_field(self, field: str) -> bool:
        """Return whether a node has a metadata field; True where that is unknown."""
        return True

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
        self._filling = Backfill(self.per_source, source_field)
        if source_field is not None and not self._has_field(source_field):
            _logger.warning(
                "%s: no node has the metadata field source_field=%s; each is taken for a document of its own, and per_source=%d "
                "limits nothing.",
                name or self._title,
                shown(source_field),
                self.per_source,
            )
        self.backfill, self._chosen_types = backfill, None if types is None else strings("types", types)
        self.types = self._result_types()
        self.name = name or self._title

    def with_options(self, **options: Unpack[RetrieverOptions]) -> Self:
        """Return this retriever with other values of the keywords of every retriever; the operators stay the same.

        Their calls share batches (`share_batches`) unless `backfill`, `types`, `per_source` or `source_field` differ, or a
        `batch_size` or `share_batches` is given.

        Examples
        --------
        >>> from graph_retrievers import BM25, GraphIndex, Retriever
        >>> retriever = Retriever(GraphIndex.from_texts(["A loom.", "A loom of wood."]), BM25(), k=2)
        >>> [len(made.retrieve("Which loom?")) for made in (retriever, retriever.with_options(k=1, time_limit=5))]
        [2, 1]
        """
        check_keywords("Retriever", options, sorted(self._options))
        retriever, values = copy(self), dict[str, Any]({**self._options, **options})
        retriever._options = values
        retriever._set(**values)
        if not options.keys() & {"batch_size", "share_batches"}:
            retriever._shared_calls = self._shared_calls
        return retriever

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

    def _check_inputs(self, names: Iterable[str], filters: Mapping[str, Filter]) -> None:
        # The inputs of a composition may depend on the index: those of a scope are checked when it exists.
        if "scope" not in filters:
            super()._check_inputs(names, filters)

    def _reading_depends_on(self) -> str:
        """Return on what it depends which inputs are read: a scope, and what the system has chosen for it."""
        return f"{' in this scope' if self.index.is_scope else ''}{f' ({self.reason})' if self.reason else ''}"

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
        >>> from graph_retrievers import GraphIndex, MoR, Retriever
        >>> retriever = Retriever(GraphIndex.from_texts(["a loom"]), MoR(rerank=False))
        >>> retriever.lacks(), retriever.lacks(given=["plan"])
        (('a plan (pass plan=, planner= or checkpoint=)',), ())
        """
        model = ("a relevance model (pass relevance=)",) if self._composition.falls_back else ()
        return (*model, *(untrained.need for untrained in self._composition.untrained), *self.operator.lacks(given))

    def over(self, index: Corpus) -> Self:
        """Return this retriever on another index with the same signals, such as that of a scope."""
        retriever = copy(self)
        retriever._take(index)
        return retriever

    def _take(self, index: Corpus) -> None:
        """Compose the operators on an index."""
        compose = self._compose
        operator = compose(index) if callable(compose) and not isinstance(compose, (Operator, type)) else compose
        if not isinstance(operator, Operator):
            hint = f"; call it: {compose.__name__}()" if isinstance(compose, type) else ""
            raise InvalidArgumentError(f"Expected a system or an Operator, such as a Pipeline, got {shown(operator)}{hint}.")
        self.index, self.operator = index, operator
        self._composition = Composition(index, operator, self.system)
        self.types = self._result_types()

    @property
    def _title(self) -> str:
        if self.system is not None:
            return type(self.system).__name__
        return Retriever.__name__ if type(self) in Retriever._kinds else type(self).__name__

    def _result_types(self) -> tuple[str, ...] | None:
        """Return the node types that may be returned: those given, or those of the system."""
        if self._chosen_types is not None or self.system is None:
            return self._chosen_types
        return self.system.returned_types(self.index)

    def _question_model(self) -> tuple[bool, Any]:
        dense = getattr(self.index.signals.get("dense"), "reads", "") == "vector"
        return dense and self._composition.compares_vectors, self.index.embedding

    def _similarities(self, questions: Sequence[Question], lists: Sequence[Candidates]) -> Lazy[Similarities]:
        """Return the cosine of each of B questions with each node that its hits name, by the numbers of question and row.

        `lists` has the nodes, chains and facts that become hits. A cosine is None if one of the two has no vector. The mapping is
        empty if the index has no vectors of nodes, or the vectors of questions are not available, or the operators read only words
        and edges and no vectors are given, because a question is not embedded only for this. That does not depend on the other
        questions of a batch. The cosines are computed when a hit is first read.
        """
        queries = questions[0].queries
        compares = questions[0].has_vectors and queries.index.signals["dense"].reads == "vector"
        if not compares or not (self._composition.compares_vectors or isinstance(queries.vector_source, Tensor)):
            return Lazy(dict)
        rows = [result_rows(candidates, question.ends) for question, candidates in zip(questions, lists, strict=True)]
        _ = queries.vectors
        # Without what else was computed for the questions.
        return Lazy(partial(queries.afresh().similarities, rows))

    def search(self, call: Call) -> list[Hits]:
        """Return the hits of each query of a call; the class for each kind of index has its own."""
        raise InvalidArgumentError(f"{type(self).__name__} has no search of its own; derive it from MemoryRetriever.")

    def find(self, question: Question) -> Algorithm[Candidates]:
        """Return everything that the operators find for a question, with filters applied.

        Where a document has at most `per_source` hits, they search for more nodes, if necessary for all.
        """
        most = self.per_source
        deeper = question if most is None else question.asking(min(DEEPER * question.k, question.size))
        while True:
            candidates = yield from self.operator.stepped(deeper, Candidates.none())
            # On stores, queries have no masks: the question knows what may be returned.
            mask = question.returned(candidates.nodes)
            if np.count_nonzero(mask) < len(candidates):
                candidates = candidates.taken(np.flatnonzero(mask))
            if most is None:
                return candidates
            question.touched = deeper.touched
            if deeper.k >= question.size or len(candidates) < deeper.k or self._composition.asks_model:
                return candidates
            # Documents may have any number of nodes alike.
            cut = yield from per_source(question, candidates, most, self.source_field)
            if len(cut) >= question.k:
                return candidates
            deeper = question.asking(min(DEEPER * deeper.k, question.size))

    def answer(self, question: Question, candidates: Candidates | None = None) -> Algorithm[Candidates]:
        """Return the candidates that become the hits of a question, by default those of :meth:`find`.

        They are cut to k and filled up, and the question gets notes for the user.
        """
        if candidates is None:
            candidates = yield from self.find(question)
        most = min(question.k, question.nodes)
        if self.per_source is not None:
            candidates = yield from per_source(question, candidates, self.per_source, self.source_field)
        candidates = candidates.top(most, question.owners(candidates.nodes))
        # An operator that appends may score nodes higher than those above them.
        candidates = replace(candidates, scores=falling(candidates.scores, question.owners(candidates.nodes)))
        counts = question.counts(candidates.nodes).tolist()
        for n, count in enumerate(counts):
            for note in self._composition.notes if count else (NOTHING_FOUND, *self._composition.notes):
                question.note(note, n)
        if self.types is not None:
            candidates = _with_results_of_types(question, candidates, self.types)
        if self.backfill and min(counts) < most:
            candidates = yield from self._filling.stepped(question, candidates)
        if self.per_source is not None and len(candidates) < most:
            question.notes.append(f"{len(candidates)} of {most} hits: at most {self.per_source} of one document")
        return candidates.trimmed()


def _with_results_of_types(question: Question, candidates: Candidates, types: Collection[str]) -> Candidates:
    """Return candidates with only the chains that end in a node of some types, and the facts that connect two such nodes."""
    chains, facts = candidates.chains, candidates.facts
    if chains is not None:
        chains = chains.taken(question.typed(chains.last(), types))
    if facts is not None:
        ends = question.ends(facts.rows)
        facts = facts.taken(question.typed(ends[:, 0], types) & question.typed(ends[:, 1], types))
    return replace(candidates, chains=chains, facts=facts)


def note_that_nothing_passes(
    questions: Sequence[Question], lists: Sequence[Candidates], condition: Any, passes: Callable[[], object]
) -> None:
    """Note for each question without hits that no node passes the filter; `passes`, which says whether one does, is called once."""
    empty = [question for question, candidates in zip(questions, lists, strict=True) if not len(candidates)]
    if empty and not passes():
        fields = few(list(map(shown, filter_fields(condition))))
        for question in empty:
            question.note(f"{NOTHING_PASSES}, which reads {fields}" if fields else NOTHING_PASSES)


def with_options(retriever: Any, options: Mapping[str, Any]) -> Any:
    """Return a retriever of any kind with other values of keywords of every retriever; InvalidArgumentError if it has none."""
    if not options:
        return retriever
    if not callable(getattr(retriever, "with_options", None)):
        names = " and ".join(f"{name}=" for name in options)
        raise InvalidArgumentError(
            f"{names} cannot be set on this {type(retriever).__name__}, which has no with_options(); use what its own constructor "
            "takes."
        )
    return retriever.with_options(**options)


def warn_of_unused_relevance(retriever: Any) -> None:
    """Warn once if the index of a retriever has a relevance model that the retriever's operators do not use."""
    if not isinstance(retriever, Retriever) or retriever._has_warned or isinstance(retriever.index.relevance, BiEncoder):
        return
    if not retriever._composition.asks_relevance:
        retriever._has_warned = True
        _logger.warning(
            "%s does not use the relevance model %s. The systems 're2', 'gar', 'fastinsight' and 'path-reranking' do; pass "
            "system='fastinsight'.",
            retriever.name,
            retriever.index.relevance.name,
        )
