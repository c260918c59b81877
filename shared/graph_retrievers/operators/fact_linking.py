"""Phrases of the facts that match a question, O_vs (HippoRAG 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import type_mask
from graph_retrievers.graph.ragged import pad_ranked
from graph_retrievers.operators.fusion import min_max
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries, both
from graph_retrievers.results import Facts, Ranking
from graph_retrievers.signals.language import as_language_model, complete_many

__all__ = ["FactLinking", "PhraseGraph", "phrase_graph"]

_PROMPT = (
    "Which of the numbered facts below help to answer the question, directly or as a step on the way? Give their numbers; none, if "
    "no fact helps.\n\nQuestion: {question}\n\nFacts:\n{facts}"
)


@dataclass(frozen=True)
class PhraseGraph:
    """The nodes of a graph as HippoRAG 2 sees them: phrases, and passages that mention them; :func:`phrase_graph` makes it.

    Attributes
    ----------
    phrases, passages : Tensor, shape [N], bool
    facts : Tensor, shape [R], bool
        Relationship rows between two phrases.
    doubled : bool
        Whether every node is both: its title is a phrase, its text a passage.
    mentioned : Tensor, shape [N], int64
        Passages that mention each phrase.
    """

    phrases: Tensor
    passages: Tensor
    facts: Tensor
    doubled: bool
    mentioned: Tensor


def phrase_graph(graph: CorpusGraph, passage_type: str) -> PhraseGraph:
    """Return which nodes are phrases and passages; made once for a graph.

    Nodes of the type are passages and mention the phrases they are linked to. In a graph without nodes of the type, and in one with
    no others, every node is both. Its text then mentions its own title and those that its edges lead to, as the text of a page has
    its links; so its edges are facts.

    Examples
    --------
    >>> graph = CorpusGraph(["ada", "loom"], ["", ""], edges=[("ada", "loom", "wrote of")])
    >>> found = phrase_graph(graph, "passage")
    >>> found.doubled, found.facts.tolist(), found.mentioned.tolist()
    (True, [True], [1, 2])
    """

    def make() -> PhraseGraph:
        passages, size = type_mask(graph, (passage_type,)), len(graph)
        doubled = bool(passages.all()) or not bool(passages.any())
        phrases, passages = (torch.ones_like(passages),) * 2 if doubled else (~passages, passages)
        source, target = graph.sources, graph.targets
        if doubled:
            own = torch.arange(size, device=graph.device)
            pairs = torch.cat([source, own]) * size + torch.cat([target, own])
        else:
            links = passages[source] != passages[target]
            near, far = source[links], target[links]
            pairs = torch.where(passages[near], near, far) * size + torch.where(passages[near], far, near)
        mentioned = torch.bincount(torch.unique(pairs) % size, minlength=size)
        return PhraseGraph(phrases, passages, phrases[source] & phrases[target], doubled, mentioned)

    return graph.cache.get(("phrases", passage_type), make)


class FactLinking(Operator):
    r"""The nodes of the facts that match the question, weighted as HippoRAG 2 weighs its phrases.

    A fact is an edge between two phrases, not one that joins a passage to what it mentions. With :math:`s_f` the similarity of
    question and fact, brought to [0, 1] over all facts by min-max, F the facts that are kept and :math:`n_v` the passages that
    mention v,

    .. math:: w_v = \frac{1}{n_v \, |F_v|} \sum_{f \in F_v} s_f, \qquad F_v = \{f \in F : v \in f\}.

    Parameters
    ----------
    limit : int, default 5
        Facts that are kept, and nodes at most.
    signal : str, default "edge_dense"
        Signal over the edges: ``"edge_dense"`` or ``"edge_bm25"`` (``GraphIndex.from_graph(..., edge_signals=True)``).
    language_model : object, optional
        Says which of these facts help (see :func:`graph_retrievers.signals.language.as_language_model`), one prompt a question.
    passage_type : str, default "passage"
        Node type of passages; see :func:`phrase_graph` for graphs without it.
    facts : bool, default False
        Whether the kept facts are results too: hits of their own behind the k nodes.

    Notes
    -----
    If all facts are equally similar, each has :math:`s_f = 1`. A node that no passage mentions has :math:`n_v = 1`. A node
    of the worst fact of all has weight 0 and stays; the published code stops with an error there. Edges with an end that may not
    start a traversal are not facts.

    The model is shown, and so may keep, only facts between nodes that pass ``filter`` and ``traversal_filter``. A phrase passes
    ``filter`` too if a passage that passes it mentions it.

    The model answers with the numbers of facts, where the published code maps texts back to facts, with repeats. If it fails,
    all are kept and a note says so. Without the signal, no fact is found, and a note says so.

    References
    ----------
    Gutiérrez et al., "From RAG to Memory" (HippoRAG 2), ICML 2025, sections 3.2 to 3.4; the weights are those of the public code.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node
    >>> nodes = [Node("ada", ""), Node("engine", ""), Node("loom", "")]
    >>> edges = [("ada", "engine", "wrote for"), ("engine", "loom", "recalls")]
    >>> index = GraphIndex.from_nodes(nodes, edges, edge_signals=True)
    >>> found = FactLinking(2, signal="edge_bm25")(Queries.of(index, ["Who wrote a program?"]))
    >>> [index.graph.ids[row] for row in found.nodes[0]], found.scores.tolist()
    (['ada', 'engine'], [[1.0, 0.5]])
    """

    kind = OperatorKind.VECTOR_SEARCH

    def __init__(
        self,
        limit: int = 5,
        *,
        signal: str = "edge_dense",
        language_model: Any = None,
        passage_type: str = "passage",
        facts: bool = False,
    ) -> None:
        self.limit, self.signal = positive("limit", limit), signal
        self.language_model = None if language_model is None else as_language_model(language_model)
        self.passage_type, self.facts = passage_type, facts

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the weighted nodes of the kept facts; what came before is not read."""
        index, graph = queries.index, queries.index.graph
        if self.signal not in index.signals:
            note = f"no fact is looked for, as the index has no signal {self.signal!r}; build it with edge_signals=True"
            return Ranking.empty(len(queries), index.device).noted([graph.num_edges > 0] * len(queries), note)
        if index.signal(self.signal).covers != "edges":
            raise InvalidArgumentError(f"FactLinking searches edges; the signal {self.signal!r} covers nodes.")
        parts, starts = phrase_graph(graph, self.passage_type), queries.named_allowed
        if self.language_model is not None:
            starts = both(starts, both(_passing(queries, parts), queries.walk_allowed))
        allowed = parts.facts if starts is None else parts.facts & starts[graph.sources] & starts[graph.targets]
        rows, scores = self._best(queries, allowed)
        kept, failed = self._helpful(queries, rows)
        batch, place = kept.nonzero(as_tuple=True)
        found = rows[batch, place]
        keys = torch.cat([batch, batch]) * len(graph) + torch.cat([graph.sources[found], graph.targets[found]])
        distinct, where, count = torch.unique(keys, return_inverse=True, return_counts=True)
        total = torch.zeros(distinct.numel(), dtype=torch.float64, device=keys.device)
        total.index_add_(0, where, scores[batch, place].repeat(2))
        owner, phrase = distinct // len(graph), distinct % len(graph)
        weight, pads = total / (count * parts.mentioned[phrase].clamp(min=1)), torch.full_like(phrase, -1)
        table, values, _ = pad_ranked(owner, phrase, weight.float(), pads, len(queries), min(self.limit, len(graph)))
        facts = Facts(rows, scores.float(), self.name).kept(kept) if self.facts else None
        return Ranking.of(table, values, self.name, facts=facts).noted(failed, "the language model failed: all facts are kept")

    def _best(self, queries: Queries, allowed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best facts of each query and their scores between 0 and 1, of all that are allowed: [B, M]."""
        signal, view = queries.index.signal(self.signal), queries.view(self.signal)
        values, rows = signal.search(view, self.limit, allowed)
        table = queries.table(self.signal)
        if not bool(allowed.any()):
            return rows, values.double()
        parts = (signal.table(view[b : b + 1]) for b in range(len(queries))) if table is None else [table]
        low = torch.cat([part[:, allowed].amin(1, keepdim=True) for part in parts]).double()
        return rows, min_max(values.double(), low, values[:, :1].double()).masked_fill(rows < 0, 0.0)

    def _helpful(self, queries: Queries, rows: Tensor) -> tuple[Tensor, list[bool]]:
        """Return which facts a language model keeps, all without one: [B, M]; and for which queries it failed."""
        kept, failed = rows >= 0, [False] * len(queries)
        asked = [b for b, count in enumerate(kept.sum(1).tolist()) if count and self.language_model is not None]
        if not asked:
            return kept, failed
        found = [[row for row in rows[b].tolist() if row >= 0] for b in asked]
        prompts = [self._prompt(queries, b, numbers) for b, numbers in zip(asked, found, strict=True)]
        for place, answer in complete_many(self.language_model, prompts, [_schema(len(numbers)) for numbers in found]):
            b = asked[place]
            if isinstance(answer, Exception):
                failed[b] = True
            else:
                chosen = torch.zeros_like(kept[b])
                chosen[[number - 1 for number in answer["facts"]]] = True
                kept[b] = chosen
        return kept, failed

    def _prompt(self, queries: Queries, b: int, rows: Sequence[int]) -> str:
        # One line each, so that no document can write a fact of the list.
        told = [f"{number}. {' '.join(text.split())}" for number, text in enumerate(queries.index.graph.edge_contents(rows), 1)]
        return _PROMPT.format(question=queries.texts[b], facts="\n".join(told))


def _passing(queries: Queries, parts: PhraseGraph) -> Tensor | None:
    """Return which nodes pass the filter, or are phrases of a passage that does: Tensor, shape [N], bool, or None for all."""
    passing, graph = queries.filtered, queries.index.graph
    if passing is None or parts.doubled:
        return passing
    source, target, passages = graph.sources, graph.targets, parts.passages & passing
    named = passing.clone()
    named[target[passages[source]]] = True
    named[source[passages[target]]] = True
    return named


def _schema(count: int) -> dict[str, Any]:
    numbers = {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": count}}
    return {"type": "object", "properties": {"facts": numbers}, "required": ["facts"]}
