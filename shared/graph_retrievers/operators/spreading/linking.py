"""Entity linking, O_vs: the nodes that a question names, or the nodes nearest to it.

Glybovets and Makarov, "Query-Aware Spreading Activation", section III-B and Algorithm 1, lines 3 to 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import choice, positive, strings
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.filters import type_mask
from graph_retrievers.graph.names import name_table
from graph_retrievers.graph.ragged import pad_ranked, top_k
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.operators.traits import names_identify
from graph_retrievers.operators.vector_search import VectorSearch
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.signals.language import complete_many
from graph_retrievers.signals.signal import VectorSignal

__all__ = ["EntityLinking", "extract_entities", "missing_note", "named_entities"]

# Entries of a table of cosines at a time.
_TABLE_LIMIT = 1 << 24

_PROMPT = (
    "List the named entities that the question below mentions: people, organisations, places, events, works. Give each "
    "once, by its full name and as the question spells it; no pronouns, no general nouns, nothing that the question "
    "does not mention.\n\nQuestion: "
)
_SCHEMA = {
    "type": "object",
    "properties": {"entities": {"type": "array", "items": {"type": "string", "minLength": 1}}},
    "required": ["entities"],
}


def extract_entities(language_model: Any, questions: Sequence[str]) -> list[list[str]]:
    """Return the named entities of each question, as a language model lists them.

    Parameters
    ----------
    language_model : object
        See :func:`graph_retrievers.signals.language.as_language_model`.
    questions : sequence of str, length B

    Raises
    ------
    LanguageModelError
        If the model failed or its answer does not fit the schema.

    Examples
    --------
    >>> extract_entities(lambda prompt: '{"entities": ["Ada Lovelace"]}', ["Who taught Ada Lovelace?"])
    [['Ada Lovelace']]
    """
    entities: list[list[str]] = [[] for _ in questions]
    for position, answer in complete_many(language_model, [_PROMPT + question for question in questions], _SCHEMA):
        if isinstance(answer, Exception):
            raise answer
        entities[position] = [name for name in answer["entities"] if name.strip()]
    return entities


def named_entities(given: Sequence[Any], questions: Sequence[str], language_model: Any = None) -> list[list[str] | None]:
    """Return the entities of each question, each once: those given, or what a language model extracts; None if neither exists.

    Raises InvalidArgumentError for anything that is neither None nor a list of strings that are not empty.
    """
    entities = list(given)
    for b, names in enumerate(entities):
        plain = isinstance(names, (list, tuple)) and all(isinstance(name, str) and name.strip() for name in names)
        if names is not None and not plain:
            raise InvalidArgumentError(f"entities of query {b} are {shown(names)}; expected a list of non-empty strings, or None.")
    asked = [b for b, names in enumerate(entities) if names is None and language_model is not None]
    if asked:
        for b, names in zip(asked, extract_entities(language_model, [questions[b] for b in asked]), strict=True):
            entities[b] = names
    return [None if names is None else list(dict.fromkeys(names)) for names in entities]


def missing_note(missing: Sequence[str], room: int) -> str:
    """Return the note on entities without a node of their name, of which the first `room` are searched by vector."""
    note = f"no node is named {', '.join(map(repr, missing[:room]))}: seeds from vector search"
    rest = ", ".join(map(repr, missing[room:]))
    return f"{note}; not searched, as the budget is used up: {rest}" if rest else note


class EntityLinking(Operator):
    """Seeds from the names in a question.

    The entities of a question are the input ``entities``; else what `language_model` extracts; else the names of nodes that are
    part of the question (longest match, one pass). Each entity is matched to all nodes of that name, with score 1. An entity
    without such a node is searched by the vector of its name: ``max(1, budget // number of entities)`` nodes, at most `budget`
    in all. If a question has no entity at all, its own vector finds `budget` nodes; so it is, too, where the titles of the index do
    not identify its nodes, as headings of a manual do not (see :func:`~graph_retrievers.operators.traits.names_identify`), unless
    entities are given.

    Parameters
    ----------
    language_model : object, optional
        Extracts entities (see :func:`graph_retrievers.signals.language.as_language_model`).
    case : {"fold", "exact"}, default "fold"
        Whether case is folded when names are compared; of names that differ in case only, the one written as in the question is
        taken. Either way, words in lower case are names only in questions that name nothing with a capital (see
        :meth:`graph_retrievers.graph.names.NameTable.find`).
    budget : int >= 0, default 5
        Nodes that vector search may add for one question; with 0, only names find nodes.
    fallback_score : {"cosine", "index"}, default "cosine"
        Score of a node that vector search finds: the cosine of question and node, as in the paper; or (1 + cosine of entity and
        node) / 2, as in the vector index of the paper's database, with which even unrelated nodes start at half of an exact
        match.
    exclude_types : sequence of str, default ()
        Node types that are not entities.

    Raises
    ------
    InvalidArgumentError
        For an unknown option, or entities that are not a list of strings.
    LanguageModelError
        If the language model failed.

    Notes
    -----
    A node's name is its title, or its id if the title is empty. Nodes whose score is not positive are not seeds. A node matched
    by several entities keeps its best score. Seeds that no name matched carry the operator name "VectorSearch". Entities beyond
    the budget, in the order given, are not searched and a note says so.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex
    >>> from graph_retrievers.graph import CorpusGraph
    >>> graph = CorpusGraph(["a", "b"], ["", ""], titles=["Ada Lovelace", "Charles Babbage"])
    >>> EntityLinking()(Queries.of(GraphIndex.from_graph(graph), ["Who taught Ada Lovelace?"])).nodes.tolist()
    [[0]]
    """

    kind = OperatorKind.VECTOR_SEARCH
    reads = ("entities",)

    def __init__(
        self,
        *,
        language_model: Any = None,
        case: str = "fold",
        budget: int = 5,
        fallback_score: str = "cosine",
        exclude_types: Sequence[str] = (),
    ) -> None:
        self.language_model, self.exclude_types = language_model, strings("exclude_types", exclude_types)
        self.case, self.budget = choice("case", case, ("fold", "exact")), positive("budget", budget, least=0)
        self.fallback_score = choice("fallback_score", fallback_score, ("cosine", "index"))

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the seeds of each query with their matching scores; the ranking before is not read."""
        device = queries.index.device
        mask = queries.seeds_allowed
        if self.exclude_types:
            kept = ~type_mask(queries.index.graph, self.exclude_types)
            mask = kept if mask is None else mask & kept
        allowed = None if mask is None else mask.cpu().numpy()
        matched, searched, notes = list[tuple[int, int]](), list[tuple[int, str | None, int]](), list[tuple[str, ...]]()
        for b, entities in enumerate(named_entities(queries.input("entities"), queries.texts, self.language_model)):
            rows, wanted, note = self._linked(queries, queries.texts[b], entities, allowed)
            matched += [(b, row) for row in rows]
            searched += [(b, text, k) for text, k in wanted]
            notes.append(note)
        batch, nodes = torch.tensor(matched, dtype=torch.int64, device=device).reshape(-1, 2).unbind(1)
        scores, named = torch.ones(len(matched), device=device), batch * len(queries.index) + nodes
        if searched:
            found = self._search(queries, searched, mask)
            batch, nodes, scores = (torch.cat(pair) for pair in zip((batch, nodes, scores), found, strict=True))
        batch, nodes, scores = _distinct(batch, nodes, scores, len(queries.index))
        width = int(torch.bincount(batch, minlength=1).max()) if batch.numel() else 0
        only_near = (~torch.isin(batch * len(queries.index) + nodes, named)).long()
        table, values, origins = pad_ranked(batch, nodes, scores, only_near, len(queries), width)
        seeds = Ranking.of(table, values, self.name, notes=tuple(notes))
        return replace(seeds, origins=origins, operators=(self.name, VectorSearch.name)) if searched else seeds

    def _linked(
        self, queries: Queries, text: str, entities: list[str] | None, allowed: np.ndarray | None
    ) -> tuple[list[int], list[tuple[str | None, int]], tuple[str, ...]]:
        """Return rows of exact matches, names to search by vector (None: the question) for so many nodes each, and a note."""
        names = name_table(queries.index.graph, fold=self.case == "fold")
        if entities is not None:
            found = [(entity, names.rows(entity)) for entity in entities]
        else:
            found = names.find(text) if not queries.index.has_dense or names_identify(queries.index) else []
        kept = [(name, [row for row in rows if allowed is None or allowed[row]]) for name, rows in found]
        if entities is None:
            kept = [(name, group) for name, group in kept if group]
        rows, missing = [row for _, group in kept for row in group], [name for name, group in kept if not group]
        if (kept and not missing) or not self.budget:
            return rows, [], ()
        if not queries.index.has_dense:
            named = f"no node is named {', '.join(map(repr, missing))}" if missing else "no entity of the graph is named"
            return rows, [], (f"{named}; there are no vectors to search by",)
        if not kept:
            # An ordinary case, in which the seeds carry the name of the search: no note.
            return rows, [(None, self.budget)], ()
        each = max(1, self.budget // len(kept))
        return rows, [(entity, each) for entity in missing[: self.budget]], (missing_note(missing, self.budget),)

    def _search(
        self, queries: Queries, searched: list[tuple[int, str | None, int]], mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, node and score of the nodes that vector search finds, each [n]."""
        dense, device = queries.index.dense, queries.index.device
        batch, width = torch.tensor([(b, k) for b, _, k in searched], device=device).unbind(1)
        most = int(width.max())
        asked = torch.tensor([text is None for _, text, _ in searched], device=device)
        if self.fallback_score == "index" or not _of_unit_length(dense):
            asked = torch.zeros_like(asked)
        cosines = torch.full((len(searched), most), -torch.inf, dtype=torch.float64, device=device)
        nodes = torch.full((len(searched), most), -1, device=device)
        if bool(asked.any()):
            # The questions themselves: another operator may have searched for them. Nodes without a vector score 0.
            scores, rows = (found[batch[asked]] for found in queries.search("dense", most, mask))
            lengths = torch.linalg.vector_norm(queries.vectors, dim=1)[batch[asked]].clamp(min=1e-30)
            cosines[asked, : rows.shape[1]], nodes[asked, : rows.shape[1]] = scores.double() / lengths.unsqueeze(1), rows
        if not bool(asked.all()):
            vectors = queries.vectors[batch]
            named = [i for i, (_, text, _) in enumerate(searched) if text is not None]
            if named:
                vectors[named] = queries.embed([searched[i][1] or "" for i in named])
            near, rows = _nearest(dense, vectors[~asked], most, mask)
            cosines[~asked, : rows.shape[1]], nodes[~asked, : rows.shape[1]] = near.double(), rows
        inside = (nodes >= 0) & (torch.arange(most, device=device) < width.unsqueeze(1))
        batch, asked = (column.unsqueeze(1).expand_as(nodes)[inside] for column in (batch, asked))
        nodes, cosines = nodes[inside], cosines[inside]
        if self.fallback_score == "index":
            scores = (1 + cosines) / 2
        else:
            scores = torch.where(asked, cosines, queries.cosines(batch, nodes))
        good = scores > 0
        return batch[good], nodes[good], scores[good].float()


def _of_unit_length(dense: VectorSignal) -> bool:
    """Return whether all vectors that there are have length 1, so that dot products order as cosines do."""
    norms = dense.norms
    return bool((((norms - 1).abs() < 1e-4) | (norms == 0)).all())


def _nearest(dense: VectorSignal, vectors: Tensor, k: int, allowed: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the k nodes of largest cosine, as :meth:`VectorSignal.search` does; nodes without a vector are left out."""
    norms = dense.norms
    real = norms > 0
    if not bool(real.all()):
        allowed = real if allowed is None else real & allowed
    vectors = torch.nn.functional.normalize(vectors, dim=1)
    if _of_unit_length(dense):
        return dense.search(vectors, k, allowed)
    allowed = real if allowed is None else allowed
    values, rows = [], []
    for part in vectors.split(max(1, _TABLE_LIMIT // len(dense))):
        best, columns = top_k((dense.table(part) / norms).masked_fill(~allowed, float("-inf")), k)
        values.append(best)
        rows.append(columns.masked_fill(best == float("-inf"), -1))
    return torch.cat(values), torch.cat(rows)


def _distinct(batch: Tensor, nodes: Tensor, scores: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return every query and node once, with the best score."""
    keys, place = torch.unique(batch * size + nodes, return_inverse=True)
    best = torch.zeros(keys.numel(), device=scores.device).scatter_reduce_(0, place, scores, "amax")
    return keys // size, keys % size, best
