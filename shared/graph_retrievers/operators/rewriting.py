"""Searches that a language model rewrites the question for: HyDE, decomposition and IRCoT, around any operator."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import LanguageModelError, MissingSignalError
from graph_retrievers.operators.fusion import fused_rankings, reciprocal_rank_parts
from graph_retrievers.operators.operator import Composite, Operator
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.signals.embedding import embed_texts
from graph_retrievers.signals.language import as_language_model, complete_many

__all__ = ["HypotheticalDocuments", "InterleavedReasoning", "QueryDecomposition"]

# Characters of a passage that a prompt holds.
_LONGEST = 2000

_PASSAGES = "Please write a passage to answer the question. Write {count} different passages.\n\nQuestion: {question}"
_QUESTIONS = (
    "Break the question below into the simpler questions that must be answered to answer it, at most {count}. Each must be "
    "understandable by itself: repeat names in place of pronouns. If the question is simple, give none.\n\nQuestion: {question}"
)
_THOUGHT = (
    "Answer the question below step by step, one sentence at a time, from the passages. Write only the next sentence of the "
    "reasoning: one fact, with names in place of pronouns. Once the reasoning is complete, write instead: So the answer is: "
    "...\n\n{passages}\n\nQuestion: {question}\nReasoning so far: {thoughts}"
)
_END, _WHOLE = "answer is", "the question itself was searched"


def _texts_schema(name: str) -> dict[str, Any]:
    """Return the schema of an object that holds texts."""
    texts = {"type": "array", "items": {"type": "string", "minLength": 1}}
    return {"type": "object", "properties": {name: texts}, "required": [name]}


class _Rewriting(Composite):
    """An operator with a language model in front; without one, or where it fails, the operator alone and a note."""

    def __init__(self, operator: Operator, language_model: Any) -> None:
        super().__init__(operator)
        self.language_model = None if language_model is None else as_language_model(language_model)

    def formula(self) -> str:
        """Return that of the operator, with the name of this one."""
        return f"{self.name}({self.operators[0].formula()})"

    def lacks(self, given: Collection[str] = ()) -> tuple[str, ...]:
        """Return a language model if there is none, and what the operator inside lacks."""
        own = ("a language model (pass language_model=)",) if self.language_model is None else ()
        return (*own, *super().lacks(given))

    def _asked(self, prompts: Sequence[str], schema: dict[str, Any], name: str, most: int = 1) -> tuple[list[list[str]], list[str]]:
        """Return the first texts that the model writes for each prompt, and a note on each, "" unless it failed."""
        texts: list[list[str]] = [[] for _ in prompts]
        if self.language_model is None:
            return texts, [self._note("there is no language model")] * len(prompts)
        notes = [""] * len(prompts)
        for place, answer in complete_many(self.language_model, prompts, schema):
            if isinstance(answer, LanguageModelError):
                notes[place] = self._note(f"{str(answer):.200}".rstrip("."))
                continue
            given = [answer[name]] if isinstance(answer[name], str) else answer[name]
            texts[place] = list(dict.fromkeys(text.strip() for text in given if text.strip()))[:most]
            # A question that is simple has no parts.
            if not texts[place] and (given or name != "questions"):
                notes[place] = self._note("the language model wrote nothing")
        return texts, notes

    def _note(self, reason: str) -> str:
        return f"{self.name}: {reason}; {_WHOLE}"

    def _run(self, queries: Queries, ranking: Ranking, asked: Queries, places: Sequence[int]) -> Ranking:
        """Return what the operator finds for the questions `asked` in the place of the queries at `places`."""
        rows = torch.tensor(list(places), dtype=torch.int64, device=ranking.nodes.device)
        found = self.operators[0](asked, ranking.lists_of(rows))
        queries.latents.encoded += asked.latents.encoded
        return found


def _noted(ranking: Ranking, notes: Sequence[str]) -> Ranking:
    for note in dict.fromkeys(notes):
        if note:
            ranking = ranking.noted([note == other for other in notes], note)
    return ranking


def _allowed(ranking: Ranking, queries: Queries) -> Ranking:
    return ranking if queries.allowed is None else ranking.only(queries.allowed)


def _either(first: Ranking, second: Ranking, chosen: Tensor) -> Ranking:
    """Return the lists of the second ranking for the queries of `chosen`, shape [B], bool, those of the first for the others."""
    rows = torch.arange(len(first), device=chosen.device)
    left, right = first.lists_of(torch.where(chosen, -1, rows)), second.lists_of(torch.where(chosen, rows, -1))
    return left.append(right, max(left.width, right.width))


class HypotheticalDocuments(_Rewriting):
    r"""HyDE: run an operator with the vector of passages that a language model writes to answer the question.

    .. math:: v = \frac{1}{N + 1} \Bigl(f(q) + \sum_{i=1}^{N} f(d_i)\Bigr)

    where f is the embedding model of the index, q the question and :math:`d_i` the N passages. Names and facts in a passage may
    be wrong; its vector is near those of real passages that answer the question.

    Parameters
    ----------
    operator : Operator
        What searches, such as ``VectorSearch()`` or the operator of any retriever. Its words and relevance model read the
        question as it is.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`.
    documents : int, default 1
        Passages to write, the N of the equation (8 in the published code, sampled one by one; here one answer holds all).

    Raises
    ------
    MissingSignalError
        When passages are to be embedded and the index has no embedding model.

    Notes
    -----
    Without a language model, and where it fails or writes nothing, the operator runs on the question, and a note says so. Of more
    passages than asked for, the first are taken.

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

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return what the operator finds with the mean of the vectors."""
        index = queries.index
        prompts = [_PASSAGES.format(count=self.documents, question=text) for text in queries.texts]
        written, notes = self._asked(prompts, _texts_schema("passages"), "passages", self.documents)
        passages = [text for texts in written for text in texts]
        if not passages:
            return _noted(self.operators[0](queries, ranking), notes)
        if index.embedding is None:
            raise MissingSignalError("HyDE embeds the passages that a language model writes; pass embedding= to the index.")
        vectors = queries.vectors
        made = index.dense.prepared(embed_texts(index.embedding, passages)).to(vectors.device)
        owners = torch.tensor([b for b, texts in enumerate(written) for _ in texts], device=vectors.device)
        total = vectors.index_add(0, owners, made)
        mean = total / (1 + torch.bincount(owners, minlength=len(queries))).unsqueeze(1)
        places = range(len(queries))
        asked = queries.rewritten(queries.texts, places, vectors=index.dense.prepared(mean))
        return _noted(self._run(queries, ranking, asked, places), notes)


class QueryDecomposition(_Rewriting):
    r"""Run an operator for the question and for the simpler questions that a language model breaks it into, fused by rank.

    A node scores :math:`\sum_s 1 / (c + r_s)` over the question and its parts s that find it, at rank :math:`r_s \ge 1`.

    Parameters
    ----------
    operator : Operator
        What searches.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`.
    questions : int, default 4
        Most parts of a question; of more, the first are taken.
    constant : int, default 60
        The c of the sum.

    Notes
    -----
    Without a language model, and where it fails or leaves a question whole, the operator runs on the question; a note says so
    in the first two cases. The parts are made before anything is searched, so a part cannot use the answer of another; see
    :class:`InterleavedReasoning` for that. A node that a search finds and a filter hides keeps its rank there, as in
    :class:`~graph_retrievers.operators.fusion.ReciprocalRankFusion`.

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

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the nodes that the question and its parts find."""
        prompts = [_QUESTIONS.format(count=self.questions, question=text) for text in queries.texts]
        parts, notes = self._asked(prompts, _texts_schema("questions"), "questions", self.questions)
        whole = self.operators[0](queries, ranking)
        most = max(map(len, parts), default=0)
        if most:
            places = [b for b, texts in enumerate(parts) for _ in texts]
            asked = queries.rewritten([text for texts in parts for text in texts], places)
            found = self._run(queries, ranking, asked, places)
            # Where the answers for each query begin.
            starts = [sum(map(len, parts[:b])) for b in range(len(parts))]
            lists = [whole]
            for number in range(most):
                rows = [start + number if number < len(texts) else -1 for start, texts in zip(starts, parts, strict=True)]
                lists.append(found.lists_of(torch.tensor(rows, device=whole.nodes.device)))
            joined = fused_rankings(lists, partial(reciprocal_rank_parts, constant=self.constant))
            whole = _either(whole, joined, torch.tensor([bool(texts) for texts in parts], device=whole.nodes.device))
        return _noted(whole, notes)


class InterleavedReasoning(_Rewriting):
    """IRCoT: search by the question, then by each sentence that a language model reasons from what was found.

    Parameters
    ----------
    operator : Operator
        What searches.
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`.
    passages : int, default 4
        Nodes kept of each search, the paper's K (2 to 8, chosen for each dataset).
    budget : int, default 15
        Most nodes of a question; the first found are kept.
    steps : int, default 8
        Most sentences. A sentence with the words "answer is" is the last, and is not searched.

    Notes
    -----
    Nodes stand in the order in which they were found, the score of the r-th is 1 / r. Only nodes that may be returned are kept and
    shown to the model, which reads the first 2,000 characters of each. The paper shows it some 20 questions with their reasoning;
    here the prompt says what to do. Without a language model, and where its first sentence fails or is blank, the result is that of
    the operator, with a note; where a later one does, what was found until then.

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
    ...     reasoned = "starred Ada Holm." in prompt.partition("Reasoning so far:")[2]
    ...     return '{"sentence": "So the answer is: Lund"}' if reasoned else '{"sentence": "The film starred Ada Holm."}'
    >>> search = InterleavedReasoning(BM25Search(), model, passages=1)
    >>> [hit.text for hit in Retriever(index, search, backfill=False).retrieve("Where did the star of Kismet grow up?")]
    ['Ada Holm grew up in Lund.', 'Kismet starred Ada Holm.']
    """

    def __init__(
        self, operator: Operator, language_model: Any = None, *, passages: int = 4, budget: int = 15, steps: int = 8
    ) -> None:
        super().__init__(operator, language_model)
        self.passages, self.budget, self.steps = (
            positive("passages", passages),
            positive("budget", budget),
            positive("steps", steps),
        )

    def formula(self) -> str:
        """Return that of the operator, repeated, with the name of this one."""
        return f"{self.name}(({self.operators[0].formula()})*)"

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the nodes in the order in which they were found."""
        queries = replace(queries, k=max(queries.k, self.passages))
        first = _allowed(self.operators[0](queries, ranking), queries)
        seen, count = first.top(min(self.passages, self.budget)), len(queries)
        thoughts: list[list[str]] = [[] for _ in range(count)]
        notes, active = [""] * count, list(range(count))
        schema = {"type": "object", "properties": {"sentence": {"type": "string", "minLength": 1}}, "required": ["sentence"]}
        for _ in range(self.steps):
            prompts = [self._prompt(queries, seen, thoughts[b], b) for b in active]
            written, failed = self._asked(prompts, schema, "sentence")
            for b, sentences, note in zip(active, written, failed, strict=True):
                thoughts[b] += sentences
                notes[b] = note.replace(_WHOLE, "the search ended there") if thoughts[b] else note
            active = [b for b, sentences in zip(active, written, strict=True) if sentences and _END not in sentences[0].lower()]
            if not active:
                break
            asked = queries.rewritten([thoughts[b][-1] for b in active], active)
            found = _allowed(self._run(queries, ranking, asked, active), queries)
            rows = torch.full((count,), -1, device=seen.nodes.device)
            rows[active] = torch.arange(len(active), device=rows.device)
            seen = seen.append(found.top(self.passages).lists_of(rows), self.budget)
        places = torch.arange(1, seen.width + 1, device=seen.nodes.device)
        seen = replace(seen, scores=(1.0 / places).expand(seen.nodes.shape).masked_fill(seen.nodes < 0, -torch.inf))
        return _noted(_either(first, seen, torch.tensor([bool(texts) for texts in thoughts], device=seen.nodes.device)), notes)

    def _prompt(self, queries: Queries, seen: Ranking, thoughts: Sequence[str], b: int) -> str:
        graph = queries.index.graph
        passages = "\n\n".join(graph.content(row)[:_LONGEST] for row in seen.nodes[b].tolist() if row >= 0)
        return _THOUGHT.format(passages=passages, question=queries.texts[b], thoughts=" ".join(thoughts))
