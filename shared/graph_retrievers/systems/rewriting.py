"""HyDE, decomposition and IRCoT: searches for which a language model rewrites the question."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.compositions import Composite
from graph_retrievers.core.driver import Algorithm, run
from graph_retrievers.core.fusion import fused, reciprocal_rank_parts
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Request, Texts
from graph_retrievers.errors import MissingSignalError
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.embedding import embed_texts
from graph_retrievers.signals.language import optional_language_model
from graph_retrievers.systems.asking import TEXT, Prompt, answer_texts, ask_model, record, texts_schema
from graph_retrievers.systems.baselines import BM25, Hybrid, Vector
from graph_retrievers.systems.first_stage import CompositeSystem, as_first, composed
from graph_retrievers.systems.system import System

__all__ = ["Decomposition", "HyDE", "HypotheticalDocuments", "IRCoT", "InterleavedReasoning", "QueryDecomposition"]

# Characters of a passage in a prompt.
_LONGEST = 2000

_PASSAGES = Prompt("hyde-passages", texts_schema("passages"))
_QUESTIONS = Prompt("decomposition-questions", texts_schema("questions"))
_THOUGHT = Prompt("ircot-thought", record({"sentence": TEXT}))
_END = "answer is"


class Rewriting(Composite):
    """An operator with a language model in front; without one, or if it fails, only the operator and a note."""

    instead = "the question itself was searched"

    def __init__(self, operator: Operator, language_model: Any) -> None:
        super().__init__(operator)
        self.language_model = optional_language_model(language_model)

    # The requests of this operator have its own name in the trace, not that of the operator inside.
    stepped = Operator.stepped

    def formula(self) -> str:
        """Return that of the operator, with the name of this one."""
        return f"{self.name}({self.operators[0].formula()})"

    def lacks(self, given: Collection[str] = ()) -> tuple[str, ...]:
        """Return a language model if there is none, and what the operator inside lacks."""
        texts = ("a language model (pass language_model=)",) if self.language_model is None else ()
        return (*texts, *super().lacks(given))

    def _write_texts(
        self, question: Question, prompt: Prompt, count: int = 1, *, least: int = 1, **fields: str
    ) -> Algorithm[list[str] | None]:
        """Return the first texts, or the text, that the model writes; None with a note if it fails or writes nothing.

        With `least` 0, an empty list is an answer.
        """
        answer = yield from ask_model(self, question, prompt, self.instead, count=count, **fields)
        if answer is None:
            return None
        (name,) = prompt.schema["properties"]
        values = [answer[name]] if isinstance(answer[name], str) else answer[name]
        texts = answer_texts(values, count)
        if texts or len(values) == least == 0:
            return texts
        question.notes.append(f"{self.name}: the language model wrote nothing; {self.instead}")
        return None

    def _search(
        self, question: Question, candidates: Candidates, text: str | None = None, vector: Tensor | None = None
    ) -> Algorithm[Candidates]:
        """Return what the operator finds for the question, or for a text or a vector instead; its notes come first."""
        result, notes = yield SubQuestion(self.operators[0], candidates, question.k, text, vector)
        question.notes[:0] = notes
        return result  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class SubQuestion(Request):
    """What an operator finds for a question, or for `text` instead: ``(Candidates, notes)``.

    It starts from `candidates` and requests `k` nodes. With `text`, the vector is that of the text; `vector`, shape [d], replaces
    either.
    """

    shared = ("operator", "k")
    operator: Operator
    candidates: Candidates
    k: int
    text: str | None = None
    vector: Tensor | None = None

    def key(self) -> Hashable:
        """Return the operator, and what replaces the question."""
        return super().key(), self.vector is None

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, SubQuestion]]) -> list[tuple[Candidates, tuple[str, ...]]]:
        """Return answers: one batch of questions."""
        first, queries, places = requests[0][1], backend.queries, [b for b, _ in requests]
        texts = [queries.texts[b] if request.text is None else request.text for b, request in requests]
        parts = [request.vector for _, request in requests if request.vector is not None]
        vectors = torch.stack(parts) if parts else None
        inside = backend.over(replace(queries.for_texts(texts, places, vectors=vectors), k=first.k))
        questions = inside.questions()
        pairs = zip(questions, requests, strict=True)
        searches = [first.operator.stepped(question, request.candidates) for question, (_, request) in pairs]
        results = run(inside, searches, queries.trace, first.operator.name)
        if inside.queries.latents is not queries.latents:
            queries.latents.encoded += inside.queries.latents.encoded
        notes = [tuple(dict.fromkeys(question.notes)) for question in questions]
        return list(zip([each.trimmed() for each in results], notes, strict=True))


class HypotheticalDocuments(Rewriting):
    r"""HyDE: run an operator with the vector of passages that a language model writes to answer the question.

    .. math:: v = \frac{1}{N + 1} \Bigl(f(q) + \sum_{i=1}^{N} f(d_i)\Bigr)

    where f is the embedding model of the index, q the question and :math:`d_i` the N passages. Names and facts in a passage may
    be wrong; its vector is near those of real passages that answer the question.

    Parameters
    ----------
    operator : Operator
        The search, such as ``VectorSearch()`` or the operator of any retriever. Its words and relevance model read the original
        question.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`.
    documents : int, default 1
        Passages to write, the N of the equation (8 in the published code, sampled one by one; here one answer contains all).

    Raises
    ------
    MissingSignalError
        If passages must be embedded and the index has no embedding model.

    Notes
    -----
    Without a language model, or if it fails or writes nothing, the operator runs on the question, and a note says so. If there
    are more passages than requested, the first are used.

    References
    ----------
    Gao, Ma, Lin and Callan, "Precise Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023, equation 8.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import VectorSearch
    >>> embed = lambda texts: [[float("weaves" in text), float("card" in text)] for text in texts]
    >>> index = GraphIndex.from_texts(["It weaves.", "Driven by cards."], embedding=embed)
    >>> model = lambda prompt: '{"passages": ["The Jacquard loom reads punched cards."]}'
    >>> search = HypotheticalDocuments(VectorSearch(1), model)
    >>> [hit.text for hit in Retriever(index, search, backfill=False).retrieve("What controls a loom?")]
    ['Driven by cards.']
    """

    def __init__(self, operator: Operator, language_model: Any = None, *, documents: int = 1) -> None:
        super().__init__(operator, language_model)
        self.documents = positive("documents", documents)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return what the operator finds with the mean of the vectors."""
        passages = yield from self._write_texts(question, _PASSAGES, self.documents)
        vector = (yield MeanVector(passages)) if passages else None
        return (yield from self._search(question, candidates, vector=vector))


@dataclass(frozen=True, eq=False)
class MeanVector(Request):
    """The mean of the vectors of the question and of passages: Tensor, shape [d]; MissingSignalError without an embedding model."""

    passages: list[str]

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, MeanVector]]) -> list[Tensor]:
        """Return means; the passages of all questions are embedded together."""
        queries, index = backend.queries, backend.queries.index
        if index.embedding is None:
            raise MissingSignalError("HyDE embeds the passages that a language model writes; pass embedding= to the index.")
        passages = [text for _, request in requests for text in request.passages]
        vectors = index.dense.prepared(embed_texts(index.embedding, passages)).to(queries.vectors.device)
        parts = vectors.split([len(request.passages) for _, request in requests])
        means = [(queries.vectors[b] + part.sum(0)) / (1 + len(part)) for (b, _), part in zip(requests, parts, strict=True)]
        return list(index.dense.prepared(torch.stack(means)))


class QueryDecomposition(Rewriting):
    r"""Run an operator for the question and for simpler questions into which a language model breaks it, fused by rank.

    A node scores :math:`\sum_s 1 / (c + r_s)` over the question and its parts s that find it, at rank :math:`r_s \ge 1`.

    Parameters
    ----------
    operator : Operator
        The search.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`.
    questions : int, default 4
        Maximum number of parts of a question; if there are more, the first are used.
    constant : int, default 60
        The c of the sum.

    Notes
    -----
    Without a language model, or if it fails or does not split the question, the operator runs on the question; a note says so in
    the first two cases. The parts are written before any search, so a part cannot use the answer of another; see
    :class:`InterleavedReasoning` for that. A node that a search finds and a filter hides keeps its rank there, as in
    :class:`~graph_retrievers.core.compositions.ReciprocalRankFusion`.

    References
    ----------
    Khot et al., "Decomposed Prompting", ICLR 2023, for decomposition; Cormack et al., SIGIR 2009, for the fusion.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> index = GraphIndex.from_texts(["Ada was born in London.", "Babbage was born in Southwark.", "A mill in York."])
    >>> model = lambda prompt: '{"questions": ["Where was Ada born?", "Where was Babbage born?"]}'
    >>> search = QueryDecomposition(BM25Search(), model)
    >>> [hit.text for hit in Retriever(index, search, backfill=False).retrieve("Do both come from one town?")]
    ['Ada was born in London.', 'Babbage was born in Southwark.']
    """

    def __init__(self, operator: Operator, language_model: Any = None, *, questions: int = 4, constant: int = 60) -> None:
        super().__init__(operator, language_model)
        self.questions, self.constant = positive("questions", questions), positive("constant", constant)

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes that the question and its parts find."""
        parts = yield from self._write_texts(question, _QUESTIONS, self.questions, least=0)
        answers = yield tuple(SubQuestion(self.operators[0], candidates, question.k, text) for text in (None, *(parts or ())))
        question.notes[:0] = [note for _, notes in answers for note in notes]
        lists = [result for result, _ in answers]
        if not parts:
            return lists[0]  # type: ignore[no-any-return]
        return fused(lists, [reciprocal_rank_parts(part, self.constant) for part in lists])


class InterleavedReasoning(Rewriting):
    """IRCoT: search by the question, then by each sentence of a language model's reasoning from the results.

    Parameters
    ----------
    operator : Operator
        The search.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`.
    passages : int, default 4
        Nodes kept from each search, the paper's K (2 to 8, chosen for each dataset).
    budget : int, default 15
        Maximum number of nodes for a question; the first found are kept.
    steps : int, default 8
        Maximum number of sentences. A sentence with the words "answer is" is the last, and is not searched.

    Notes
    -----
    Nodes are in the order in which they were found; the score of the r-th is 1 / r. Only nodes that may be returned are kept and
    shown to the model, which reads the first 2,000 characters of each. The paper's prompt has some 20 questions with their
    reasoning; here the prompt has instructions. Without a language model, or if its first sentence fails or is blank, the result
    is that of the operator, with a note; if a later sentence fails, the result is what was found until then.

    References
    ----------
    Trivedi, Balasubramanian, Khot and Sabharwal, "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive
    Multi-Step Questions", ACL 2023, section 3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.operators import BM25Search
    >>> index = GraphIndex.from_texts(["Kismet starred Ada Holm.", "Ada Holm grew up in Lund.", "Kismet opened in May."])
    >>> def model(prompt):
    ...     reasoned = "Ada Holm grew up." in prompt.partition("Reasoning so far:")[2]
    ...     return '{"sentence": "So the answer is: Lund"}' if reasoned else '{"sentence": "See where Ada Holm grew up."}'
    >>> search = InterleavedReasoning(BM25Search(), model, passages=1)
    >>> [hit.text for hit in Retriever(index, search, backfill=False).retrieve("Where did the star of Kismet grow up?")]
    ['Kismet starred Ada Holm.', 'Ada Holm grew up in Lund.']
    """

    def __init__(
        self, operator: Operator, language_model: Any = None, *, passages: int = 4, budget: int = 15, steps: int = 8
    ) -> None:
        super().__init__(operator, language_model)
        self.passages, self.budget = positive("passages", passages), positive("budget", budget)
        self.steps = positive("steps", steps)

    def formula(self) -> str:
        """Return the formula of the operator, repeated, with the name of this one."""
        return f"{self.name}(({self.operators[0].formula()})*)"

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes in the order in which they were found."""
        first, notes = yield self._step(question, candidates)
        first = first.taken(np.flatnonzero(question.returned(first.nodes)))
        results, thoughts, count = first.top(min(self.passages, self.budget)), list[str](), len(question.notes)
        for _ in range(self.steps):
            # Reason: the next sentence, from what was found so far.
            passages = (yield Texts(results.nodes, titles=True)) if self.language_model is not None else []
            context = "\n\n".join(text[:_LONGEST] for text in passages)
            sentence = yield from self._write_texts(question, _THOUGHT, passages=context, thoughts=" ".join(thoughts))
            thoughts += sentence or []
            if not sentence or _END in sentence[0].lower():
                break
            # Retrieve: by that sentence.
            more, new = yield self._step(question, candidates, sentence[0])
            more = more.taken(np.flatnonzero(question.returned(more.nodes)))
            notes, results = (*notes, *new), results.joined(more.top(self.passages)).top(self.budget)
        model_notes = [
            note.replace(self.instead, "the search ended there") if thoughts else note for note in question.notes[count:]
        ]
        question.notes[count:] = [*notes, *model_notes]
        return replace(results, scores=1.0 / np.arange(1, len(results) + 1)) if thoughts else first  # type: ignore[no-any-return]

    def _step(self, question: Question, candidates: Candidates, text: str | None = None) -> SubQuestion:
        return SubQuestion(self.operators[0], candidates, max(question.k, self.passages), text)


@dataclass(frozen=True, kw_only=True, repr=False)
class RewritingSystem(CompositeSystem):
    """A system around another, or around an operator, for which a language model rewrites the question.

    A subclass names the operator that rewrites it, and has its parameters as fields.
    """

    rewriting: ClassVar[type[Rewriting]]

    search: System | str | Operator
    language_model: Any = None

    def __post_init__(self) -> None:
        """Read the system inside: an unknown one is refused here, and a text equals its system."""
        object.__setattr__(self, "search", as_first(self.search))

    def compose(self, index: Corpus) -> Operator:
        """Return the operator of the search, with the language model in front."""
        return self.part(self.rewriting, composed(index, self.search))

    def returned_types(self, index: Corpus) -> tuple[str, ...] | None:
        """Return the node types that the system inside returns."""
        return self.search.returned_types(index) if isinstance(self.search, System) else None

    @property
    def inner(self) -> tuple[System | Operator, ...]:
        """The search inside."""
        return (as_first(self.search),)


@dataclass(frozen=True, kw_only=True, repr=False)
class HyDE(RewritingSystem):
    """Search by the vector of a passage that a language model writes to answer the question.

    The index needs vectors and an embedding model.

    Parameters
    ----------
    search : System, str or Operator, default Vector()
        The search: a system, its text such as ``"ppr(damping=0.7)"``, or an operator.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one the result is that of the search, with a note.
    documents : int, default 8
        See :class:`~graph_retrievers.systems.rewriting.HypotheticalDocuments`, which also states the departures.

    References
    ----------
    Gao, Ma, Lin and Callan, "Precise Zero-Shot Dense Retrieval without Relevance Labels", ACL 2023.

    Examples
    --------
    >>> from graph_retrievers import FastInsight, GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])
    >>> print(Retriever(index, HyDE(search=FastInsight())).operator.formula())
    HypotheticalDocuments(O_vs -> O_gm -> (O_vgs -> O_gm)*)
    """

    name = "hyde"
    rewriting = HypotheticalDocuments

    search: System | str | Operator = Vector()
    documents: int = 8


@dataclass(frozen=True, kw_only=True, repr=False)
class Decomposition(RewritingSystem):
    """Search by the question and by simpler questions into which a language model breaks it, fused by rank.

    Parameters
    ----------
    search : System, str or Operator, default Hybrid()
    language_model : object, optional
        As for :class:`HyDE`.
    questions, constant : int, default 4 and 60
        See :class:`~graph_retrievers.systems.rewriting.QueryDecomposition`.

    References
    ----------
    Khot et al., "Decomposed Prompting", ICLR 2023.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> print(Retriever(GraphIndex.from_texts(["a loom"]), Decomposition(search="bm25")).operator.formula())
    QueryDecomposition(O_vs)
    """

    name = "decomposition"
    rewriting = QueryDecomposition

    search: System | str | Operator = Hybrid()
    questions: int = 4
    constant: int = 60


@dataclass(frozen=True, kw_only=True, repr=False)
class IRCoT(RewritingSystem):
    """Search by the question, then by each sentence of the reasoning that a language model writes from the results.

    Parameters
    ----------
    search : System, str or Operator, default BM25()
    language_model : object, optional
        As for :class:`HyDE`.
    passages, budget, steps : int, default 4, 15 and 8
        See :class:`~graph_retrievers.systems.rewriting.InterleavedReasoning`, which also states the departures.

    Notes
    -----
    ``IRCoT(search=Vector(), steps=2, passages=5)`` is that of the comparison in FastInsight's paper (section 5.2.2): two steps of
    5 nodes. The paper does not say whether the search with the question is one of them; with ``steps=1`` it is.

    References
    ----------
    Trivedi et al., "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step Questions", ACL 2023.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> print(Retriever(GraphIndex.from_texts(["a loom"]), IRCoT(steps=3)).operator.formula())
    InterleavedReasoning((O_vs)*)
    """

    name = "ircot"
    rewriting = InterleavedReasoning

    search: System | str | Operator = BM25()
    passages: int = 4
    budget: int = 15
    steps: int = 8
