"""The text of a node, and of the path to it, for a relevance model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Request
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.names import step_name
from graph_retrievers.graph.node_path import NodePath
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.signals.relevance import PathText, RelevanceModel

__all__ = ["PathTexts"]


def path_texts(graph: CorpusGraph, candidates: Candidates) -> list[str]:
    r"""Return the text of each candidate with that of the node from which it was reached.

    The candidate's text comes first, so that a model with a token limit cuts the other one; then the last step of the candidate's
    trail, as ``parent -[relation]-> candidate``, and the text of its edge, if it has one; then the parent's text. If a name led
    to the candidate, it replaces the relation. A node found by a search, without a step, has only its own text, as does a node
    that neither an edge nor a name joins. Texts with a step are a :class:`~graph_retrievers.signals.relevance.PathText`.

    Examples
    --------
    >>> graph = CorpusGraph(
    ...     ["0", "1"], ["A loom weaves.", "Cards drive looms."], titles=["Loom", "Card"], edges=[("1", "0", "drives")]
    ... )
    >>> candidates = Candidates(np.array([0, 1]), np.zeros(2), np.array([[-1, 0], [0, 1]]), np.zeros(2, np.int64), ("Mine",))
    >>> path_texts(graph, candidates)
    ['Loom. A loom weaves.', 'Card. Cards drive looms.\nLoom <-[drives]- Card\nLoom. A loom weaves.']
    """
    (texts,) = _texts_of_lists(graph, [candidates])
    return texts


def _texts_of_lists(graph: CorpusGraph, lists: Sequence[Candidates]) -> list[list[str]]:
    """Return the :func:`path_texts` of several lists, whose steps are looked up together."""
    texts = [[graph.content(row) for row in candidates.nodes.tolist()] for candidates in lists]
    parts = []
    for number, candidates in enumerate(lists):
        if candidates.trails.shape[1] > 1:
            parents = candidates.trails[:, -2]
            places = np.flatnonzero(parents >= 0)
            part = np.full(len(places), number), places, parents[places], candidates.nodes[places], candidates.steps()[places, -1]
            parts.append(np.stack(part))
    if not parts:
        return texts
    steps = np.concatenate(parts, 1)
    near, far, code = torch.from_numpy(steps[2:]).to(graph.device)
    edges, forward = graph.steps_between(near, far, code if (steps[4] >= 0).any() else None)
    # Stacked, so that the device is waited for only once.
    answer = torch.stack([edges, forward.long()]).tolist()
    relations = graph.on_host("relations")
    for (number, place, parent, node, name_code), edge, ahead in zip(steps.T.tolist(), *answer, strict=True):
        has_edge = edge >= 0
        relation = graph.relation_names[relations[edge]] if has_edge else step_name(graph.texts[parent], name_code)
        if not has_edge and not relation:
            continue
        ids, titles = zip(*((graph.ids[row], graph.titles[row]) for row in (parent, node)), strict=True)
        step = NodePath(ids, (relation,), (bool(ahead) if has_edge else None,), titles).text
        edge_text = graph.edge_texts[edge] if has_edge and graph.edge_texts else ""
        own_text = texts[number][place]
        texts[number][place] = PathText(own_text, "\n".join(filter(None, (step, edge_text))), graph.content(parent))
    return texts


def reads_paths(question: Question, paths: bool = False, model: RelevanceModel | None = None) -> bool:
    """Return whether a relevance model, by default that of the index, reads the paths to nodes: if it asks for them, or `paths`.

    The similarity of vectors belongs to the nodes' own texts, and never gets the path.
    """
    model = model or question.corpus.relevance
    return not isinstance(model, BiEncoder) and (paths or model.paths)


def relevance_texts(
    question: Question, candidates: Candidates, paths: bool = False, model: RelevanceModel | None = None
) -> Algorithm[list[str] | None]:
    """Return the texts of candidates for a relevance model: with the path to each, or None for only their own texts.

    `question` and `candidates` are those of an operator; for `paths` and `model` see :func:`reads_paths`.
    """
    return (yield PathTexts(candidates)) if reads_paths(question, paths, model) else None


@dataclass(frozen=True, eq=False)
class PathTexts(Request):
    """The texts of candidates and of the path to each for a relevance model (see :func:`path_texts`): list of str."""

    reads = "graph"
    candidates: Candidates

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[Any, PathTexts]]) -> list[list[str]]:
        """Return the texts of each question's candidates."""
        parts = [
            [request.candidates] if type(place) is int else request.candidates.apart(len(place), backend.size)
            for place, request in requests
        ]
        graph, lists = backend.part([candidates for part in parts for candidates in part])
        texts = iter(_texts_of_lists(graph, lists))
        return [[text for _ in part for text in next(texts)] for part in parts]
