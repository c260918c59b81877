"""Phrases of the facts that match a question, O_vs (HippoRAG 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best
from graph_retrievers.core.chains import Facts
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import (
    Completion,
    Degree,
    EdgeTexts,
    LowestEdgeScore,
    NearestEdges,
    Neighbors,
)
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.filters import type_mask
from graph_retrievers.graph.ragged import min_max
from graph_retrievers.signals.language import failure_note, optional_language_model
from graph_retrievers.systems.asking import INTEGER, array, numbered, prompt_text, record
from graph_retrievers.systems.traits import passage_types

__all__ = ["FactLinking"]

# By which factor the next search for facts is deeper, if filters leave too few.
_DEEPER = 4


@dataclass(frozen=True)
class PhraseGraph:
    """The nodes of a graph in HippoRAG 2's terms: phrases, and passages that mention them; created by :func:`phrase_graph`.

    `phrases` and `passages`, shape [N], bool, are nodes, and `facts`, shape [R], bool, relationship rows between two phrases.
    With `doubled`, every node is both: its title is a phrase, its text a passage. On the host, `mention_counts`, shape [N], int64,
    counts the passages that mention each phrase, and `is_phrase` are the phrases.
    """

    phrases: Tensor
    passages: Tensor
    facts: Tensor
    doubled: bool
    mention_counts: np.ndarray
    is_phrase: np.ndarray


def phrase_graph(graph: CorpusGraph, passage_type: str) -> PhraseGraph:
    """Return which nodes are phrases and passages; computed once for a graph.

    Nodes of the type are passages and mention the phrases to which they are linked. If no node or every node has the type, every
    node is both. Its text then mentions its own title and the titles to which its edges lead, as the text of a page contains its
    links; so its edges are facts.

    >>> found = phrase_graph(CorpusGraph(["ada", "loom"], ["", ""], edges=[("ada", "loom", "wrote of")]), "passage")
    >>> found.doubled, found.facts.tolist(), found.mention_counts.tolist()
    (True, [True], [1, 2])
    """

    def make() -> PhraseGraph:
        passages = type_mask(graph, (passage_type,))
        doubled = bool(passages.all()) or not bool(passages.any())
        phrases, passages = (torch.ones_like(passages),) * 2 if doubled else (~passages, passages)
        facts = phrases[graph.sources] & phrases[graph.targets]
        mention_counts = torch.bincount(contained_phrases(graph, passages, doubled)[1], minlength=len(graph))
        return PhraseGraph(phrases, passages, facts, doubled, mention_counts.cpu().numpy(), phrases.cpu().numpy())

    return graph.cache.get(("phrases", passage_type), make)


def contained_phrases(graph: CorpusGraph, passages: Tensor, doubled: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return passages, phrases that they contain, and how often, by their rows: int64, shape [T]; see :func:`phrase_graph`.

    A passage contains a phrase once for each link between the two, and its own once more if each node is both.
    """
    source, target, size = graph.sources, graph.targets, len(graph)
    if doubled:
        rows, links = torch.arange(size, device=graph.device), source != target
        pairs = torch.cat([source[links], rows]) * size + torch.cat([target[links], rows])
    else:
        links = passages[source] != passages[target]
        near, far = source[links], target[links]
        pairs = torch.where(passages[near], near, far) * size + torch.where(passages[near], far, near)
    distinct, times = torch.unique(pairs, return_counts=True)
    return distinct // size, distinct % size, times


def mention_counts(question: Question, nodes: np.ndarray, passage_type: str) -> Algorithm[np.ndarray]:
    """Return the number of passages that mention each of some phrases: int64, shape [n]; see :func:`phrase_graph`."""
    if question.in_memory:
        # They are counted once, as HippoRAG does when it indexes.
        return phrase_graph(question.index.graph, passage_type).mention_counts[nodes]
    passages = passage_types(question.corpus.facts, passage_type)
    if not passages:
        return 1 + (yield Degree(nodes, incoming=True))  # type: ignore[no-any-return]
    counts, other = yield Degree(nodes), Degree(nodes, exclude_types=passages)
    return counts - other  # type: ignore[no-any-return]


class FactLinking(Operator):
    r"""The nodes of the facts that match the question, with HippoRAG 2's weights of phrases.

    A fact is an edge between two phrases, not one between a passage and a phrase that it mentions. With :math:`s_f` the
    similarity of question and fact, scaled to [0, 1] over all facts by min-max, F the facts that are kept and :math:`n_v` the
    number of passages that mention v,

    .. math:: w_v = \frac{1}{n_v \, |F_v|} \sum_{f \in F_v} s_f, \qquad F_v = \{f \in F : v \in f\}.

    Parameters
    ----------
    limit : int, default 5
        Facts to keep, and maximum number of nodes.
    signal : str, default "edge_dense"
        Signal over the edges: ``"edge_dense"`` or ``"edge_bm25"`` (``GraphIndex.from_graph(..., edge_signals=True)``).
    language_model : object, optional
        Selects the helpful facts (see :func:`graph_retrievers.signals.language.as_language_model`), with one prompt per question.
    passage_type : str, default "passage"
        Node type of passages; see :func:`phrase_graph` for graphs without it.
    facts : bool, default False
        Whether the kept facts are results too: additional hits after the k nodes.

    Notes
    -----
    If all facts are equally similar, each has :math:`s_f = 1`. A node that no passage mentions has :math:`n_v = 1`. A node of the
    worst fact has weight 0 and is kept; the published code raises an error there. Edges with an end that may not start a
    traversal are not facts.

    The model sees, and can keep, only facts between nodes that pass ``filter`` and ``traversal_filter``. A phrase also passes
    ``filter`` if it is mentioned by a passage that passes both.

    The model answers with the numbers of facts; the published code maps texts back to facts, with repeats. If it fails, all are
    kept and a note says so. Without the signal, no fact is found, and a note says so.

    References
    ----------
    Gutiérrez et al., "From RAG to Memory" (HippoRAG 2), ICML 2025, sections 3.2 to 3.4; the weights are those of the public code.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node("ada", ""), Node("engine", ""), Node("loom", "")]
    >>> edges = [("ada", "engine", "wrote for"), ("engine", "loom", "recalls")]
    >>> index = GraphIndex.from_nodes(nodes, edges, edge_signals=True)
    >>> hits = Retriever(index, FactLinking(2, signal="edge_bm25"), backfill=False).retrieve("Who wrote a program?")
    >>> [(hit.id, hit.score) for hit in hits]
    [('ada', 1.0), ('engine', 0.5)]
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
        self.language_model = optional_language_model(language_model)
        self.passage_type, self.facts = passage_type, facts

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the weighted nodes of the kept facts; earlier results are not read."""
        if self.signal not in question.signals:
            if question.corpus.facts.has_edges:
                names = [name for name in question.signals if question.corpus.signal(name).covers == "edges"]
                advice = f"it has {', '.join(map(repr, names))}" if names else "build it with edge_signals=True"
                if not (names or question.in_memory):
                    advice += ", and write it to PostgreSQL, as other engines have no vectors of edges"
                question.notes.append(f"no fact is looked for, as the index has no signal {self.signal!r}; {advice}")
            return Candidates.seeds(np.empty(0, np.int64), np.empty(0), self.name)
        if question.corpus.signal(self.signal).covers != "edges":
            raise InvalidArgumentError(f"FactLinking searches edges; the signal {self.signal!r} covers nodes.")
        passages = passage_types(question.corpus.facts, self.passage_type)
        rows, raw_scores, least = yield from self._nearest(question, passages)
        # s_f: between the worst and the best of all facts.
        bounds = torch.tensor([[least, *raw_scores[:1].tolist()]]).double()
        scores = min_max(torch.from_numpy(raw_scores).double(), bounds[:, :1], bounds[:, -1:])[0].numpy()
        if self.language_model is not None and len(rows):
            facts = numbered((yield EdgeTexts(rows)))
            schema = record({"facts": array({**INTEGER, "minimum": 1, "maximum": len(rows)})})
            answer = yield Completion(
                self.language_model, prompt_text("hipporag-facts").format(question=question.text, facts=facts), schema
            )
            if isinstance(answer, Exception):
                question.notes.append(failure_note(answer, "all facts are kept"))
            else:
                places = np.unique(np.array(answer["facts"], np.int64)) - 1
                rows, scores = rows[places], scores[places]
        # w_v: the mean of s_f over the kept facts of a node, divided by the number of passages that mention it.
        nodes, place, count = np.unique(question.ends(rows).T, return_inverse=True, return_counts=True)
        mentions = yield from mention_counts(question, nodes, self.passage_type)
        weights = np.bincount(place.ravel(), np.tile(scores, 2), len(nodes)) / (count * np.maximum(mentions, 1))
        by = best(weights.astype(np.float32), self.limit, nodes)
        result = Candidates.seeds(nodes[by], weights[by], self.name)
        result.facts = Facts(rows, scores, self.name) if self.facts else None
        return result

    def _nearest(self, question: Question, passages: tuple[str, ...]) -> Algorithm[tuple[np.ndarray, np.ndarray, float]]:
        """Return the best facts, their scores, and the lowest score of all.

        A language model may see only facts between nodes that pass the filters.
        """
        k = self.limit
        while True:
            (rows, scores), least = yield (
                NearestEdges(k, self.signal, exclude_types=passages),
                LowestEdgeScore(self.signal, passages),
            )
            if self.language_model is None:
                return rows, scores, least
            seen = yield from self._seen(question, rows, passages)
            if np.count_nonzero(seen) >= self.limit or len(rows) < k:
                return rows[seen][: self.limit], scores[seen][: self.limit], least
            k *= _DEEPER

    def _seen(self, question: Question, rows: np.ndarray, passages: tuple[str, ...]) -> Algorithm[np.ndarray]:
        """Return which facts, shape [n], are between nodes that pass the filters: bool, shape [n]."""
        nodes, place = np.unique(question.ends(rows), return_inverse=True)
        passes = question.filtered(nodes)
        if passages and not passes.all():
            near = yield Neighbors(nodes)
            mentioned = question.typed(near.node, passages) & question.filtered(near.node)
            passes |= np.bincount(near.owner, mentioned, len(nodes)) > 0
        return (passes & question.walked(nodes))[place].reshape(-1, 2).all(1)  # type: ignore[no-any-return]
