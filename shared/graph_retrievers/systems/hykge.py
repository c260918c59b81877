"""HyKGE: chains between the entities of a hypothesis and of the question, reranked by fragments (Jiang et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graph_retrievers.arguments import fraction, positive
from graph_retrievers.core.candidates import Candidates, best, falling
from graph_retrievers.core.chains import Chains, padded
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Completion, Contents, Edges, Nearest, NearestByCosine, Relevance, Similarity, WithQuery
from graph_retrievers.errors import LanguageModelError
from graph_retrievers.index import Corpus
from graph_retrievers.signals.language import as_language_model, failure_note
from graph_retrievers.systems.system import System

__all__ = ["HyKGE", "HypothesisChains"]

_PROMPT = (
    "Write a short passage that answers the question below as well as you can, step by step. Then name the entities that the "
    "question and your passage mention, at most {count}.\n\nQuestion: {question}"
)
_SCHEMA = {
    "type": "object",
    "properties": {
        "passage": {"type": "string", "minLength": 1},
        "entities": {"type": "array", "items": {"type": "string", "minLength": 1}},
    },
    "required": ["passage", "entities"],
}
_WITHOUT = "chains join the nodes nearest to the question"


def fragments(text: str, window: int = 35, overlap: int = 15) -> list[str]:
    """Return the parts of a text of `window` characters, each with the last `overlap` characters of the one before.

    >>> fragments("abcdefgh", 4, 2)
    ['abcd', 'cdef', 'efgh']
    """
    step = window - overlap
    return [text[start : start + window] for start in range(0, max(len(text) - overlap, 1), step)]


class HypothesisChains(Operator):
    r"""Chains of at most two edges between the entities of the question and of a hypothesis that a language model writes.

    1. The language model writes a hypothesis, a passage that may answer the question, and names the entities of both.
    2. An entity is linked to the node whose vector is most similar to that of its name, if the cosine is at least `threshold`.
    3. Chains join two such nodes by an edge, or by two edges over a node between them: a path, a common source (co-ancestor) or a
       common target (co-occurrence). Of a single node, its edges are the chains.
    4. A chain c scores as the best fragment of the hypothesis h, the whole of it, or the question q:

    .. math:: s(c) = \max_{t \in \{q, h\} \cup \mathrm{fragments}(h)} m(t, c)

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`.
    entities : int, default 10
        Most entities.
    threshold : float, default 0.7
        The paper's delta, in [0, 1].
    chains : int, default 10
        Chains to keep.
    window, overlap : int, default 35 and 15
        Characters of a fragment, and how many of them it shares with the one before.
    facts : bool, default False
        Whether the chains are results too: additional hits after the k nodes.

    Notes
    -----
    The result has the nodes of the best chains, each with the score of its best chain, then the linked nodes that are in none,
    with the score of the last chain. A
    node's path leads along its chain, from the linked node at which the chain begins. Relations of a chain are read in their
    direction ("->" or "<-").

    Without a language model, or if it fails, the chains join the `entities` nodes nearest to the question, which alone is compared
    with them, and a note says so. Without a model that reads texts, a chain scores as the mean cosine of its nodes with the
    question. The paper names entities with a model of its own for medicine. Of parallel edges the first one is read.

    References
    ----------
    Jiang et al., "HyKGE: A Hypothesis Knowledge Graph Enhanced Framework for Accurate and Reliable Medical LLMs Responses", 2024,
    section 4; windows are those of the public code.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node(name.lower(), "", name) for name in ("Ada", "Engine", "Cards")]
    >>> edges = [("ada", "engine", "wrote for"), ("cards", "engine", "drive")]
    >>> words = ("Ada", "Engine", "Cards")
    >>> embed = lambda texts: [[float(word in text) for word in words] + [0.1] for text in texts]
    >>> index = GraphIndex.from_nodes(nodes, edges, embedding=embed, metric="cosine")
    >>> model = lambda prompt: '{"passage": "Ada used Cards.", "entities": ["Ada", "Cards"]}'
    >>> hits = Retriever(index, HypothesisChains(model), backfill=False).retrieve("How did Ada program?")
    >>> [hit.path.text for hit in hits]
    ['Ada', 'Ada -[wrote for]-> Engine', 'Ada -[wrote for]-> Engine <-[drive]- Cards']
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH

    def __init__(
        self,
        language_model: Any = None,
        *,
        entities: int = 10,
        threshold: float = 0.7,
        chains: int = 10,
        window: int = 35,
        overlap: int = 15,
        facts: bool = False,
    ) -> None:
        self.language_model = None if language_model is None else as_language_model(language_model)
        self.entities, self.chains = positive("entities", entities), positive("chains", chains)
        self.threshold, self.window = fraction("threshold", threshold), positive("window", window)
        self.overlap, self.facts = positive("overlap", overlap, most=self.window - 1, least=0), facts

    def search(self, question: Question, found: Candidates) -> Algorithm[Candidates]:
        """Return the nodes of the best chains."""
        hypothesis, names = yield from self._hypothesis(question)
        anchors = yield from self._linked(question, names)
        chains = yield from self._joined(question, anchors)
        texts = [question.text, *([*fragments(hypothesis, self.window, self.overlap), hypothesis] if hypothesis else [])]
        scores = yield from self._scored(question, chains, list(dict.fromkeys(texts)))
        by = best(scores, self.chains).tolist()
        trails, relations, values = list[list[int]](), list[list[int]](), list[float]()
        seen = set[int]()
        for place in by:
            nodes, steps = chains[place]
            for length, node in enumerate(nodes, 1):
                if node not in seen:
                    seen.add(node)
                    trails.append(nodes[:length])
                    relations.append([relation for relation, _ in steps[: length - 1]])
                    values.append(float(scores[place]))
        for node in anchors:
            if node not in seen:
                trails.append([node])
                relations.append([])
                values.append(float(scores[by[-1]]) if by else 0.0)
        rows = np.array([trail[-1] for trail in trails], np.int64)
        table, told = padded(trails, left=True, least=1), padded(relations, left=True)
        made = Candidates(rows, falling(np.array(values, np.float64)), table, np.zeros(len(rows), np.int64), (self.name,), told)
        if self.facts and by:
            made.chains = Chains(padded([chains[place][0] for place in by]), scores[by], self.name)
        return made

    def _hypothesis(self, question: Question) -> Algorithm[tuple[str, list[str] | None]]:
        """Return the hypothesis and the entities; "" and None without a language model."""
        if self.language_model is None:
            question.notes.append(f"{self.name}: there is no language model; {_WITHOUT}")
            return "", None
        answer = yield Completion(self.language_model, _PROMPT.format(count=self.entities, question=question.text), _SCHEMA)
        if isinstance(answer, LanguageModelError):
            question.notes.append(f"{self.name}: {failure_note(answer, _WITHOUT)}")
            return "", None
        names = dict.fromkeys(name.strip() for name in answer["entities"] if name.strip())
        return answer["passage"].strip(), list(names)[: self.entities]

    def _linked(self, question: Question, names: list[str] | None) -> Algorithm[list[int]]:
        """Return the nodes of the entities, each once."""
        if names is None:
            nodes, _ = yield Nearest(self.entities)
            return nodes.tolist()  # type: ignore[no-any-return]
        answers = yield tuple(NearestByCosine(1, name) for name in names)
        nearest = [int(nodes[0]) for nodes, cosines in answers if len(nodes) and cosines[0] >= self.threshold]
        return list(dict.fromkeys(nearest))

    def _joined(self, question: Question, anchors: list[int]) -> Algorithm[list[tuple[list[int], list[tuple[int, bool]]]]]:
        """Return the chains: their nodes, and the relation and direction of each step; each once, from the first of its ends."""
        rows = np.array(anchors, np.int64)
        edges = yield Edges(rows)
        ahead = question.ends(edges.row)[:, 0] == rows[edges.owner]
        steps: list[dict[int, tuple[int, bool]]] = [{} for _ in anchors]
        columns = (edges.row, edges.owner, edges.far, edges.relation, ahead)
        for _, owner, far, relation, forward in sorted(zip(*(column.tolist() for column in columns), strict=True)):
            if far != anchors[owner]:
                steps[owner].setdefault(far, (relation, forward))
        if len(anchors) == 1:
            return [([anchors[0], far], [steps[0][far]]) for far in sorted(steps[0])]
        # A chain begins at a node that may start a walk, and ends at one to which a walk may lead.
        walked, chains = question.walked(rows), list[tuple[list[int], list[tuple[int, bool]]]]()
        for place, one in enumerate(anchors):
            for other_place in range(place + 1, len(anchors)):
                other, there = anchors[other_place], steps[other_place]
                if not walked[other_place]:
                    continue
                if other in steps[place]:
                    chains.append(([one, other], [steps[place][other]]))
                for middle in sorted(steps[place].keys() & there.keys() - {one, other}):
                    relation, forward = there[middle]
                    chains.append(([one, middle, other], [steps[place][middle], (relation, not forward)]))
        return chains

    def _scored(
        self, question: Question, chains: list[tuple[list[int], list[tuple[int, bool]]]], texts: list[str]
    ) -> Algorithm[np.ndarray]:
        """Return the score of each chain: of the text that suits it best."""
        if not chains:
            return np.zeros(0)
        nodes = np.array(sorted({node for chain, _ in chains for node in chain}), np.int64)
        if not question.reads_texts:
            cosines = dict(zip(nodes.tolist(), (yield Similarity(nodes)).tolist(), strict=True))
            return np.array([np.mean([cosines[node] for node in chain]) for chain, _ in chains])
        contents = yield Contents(nodes)
        names = {int(node): each.title or each.id for node, each in zip(nodes, contents, strict=True)}
        read = list[str]()
        for chain, steps in chains:
            relations = question.relation_names(np.array([relation for relation, _ in steps], np.int64))
            text = names[chain[0]]
            for node, relation, (_, forward) in zip(chain[1:], relations, steps, strict=True):
                text += f" -{relation}-> {names[node]}" if forward else f" <-{relation}- {names[node]}"
            read.append(text)
        ends = np.array([chain[-1] for chain, _ in chains], np.int64)
        asked = Relevance(ends, texts=read, notes=question.notes)
        scores = yield tuple(asked if text == question.text else WithQuery(asked, text) for text in texts)
        return np.max(scores, 0)  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True, repr=False)
class HyKGE(System):
    """Chains between the entities of the question and of a hypothesis that a language model writes, reranked by its fragments.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one, chains join the nodes nearest to the
        question, with a note.
    entities, threshold, chains, window, overlap : int and float, default 10, 0.7, 10, 35 and 15
        See :class:`~graph_retrievers.systems.hykge.HypothesisChains`, which also states the departures.
    facts : bool, default False
        Whether the chains are results too: additional hits after the k nodes.

    References
    ----------
    Jiang et al., "HyKGE: A Hypothesis Knowledge Graph Enhanced Framework for Accurate and Reliable Medical LLMs Responses", 2024.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom"], titles=["Loom"], vectors=[[1]])
    >>> print(Retriever(index, HyKGE()).operator.formula())
    O_gm
    """

    name = "hykge"

    language_model: Any = None
    entities: int = 10
    threshold: float = 0.7
    chains: int = 10
    window: int = 35
    overlap: int = 15
    facts: bool = False

    def compose(self, index: Corpus) -> Operator:
        """Return the search for chains."""
        numbers = {"entities": self.entities, "chains": self.chains, "window": self.window, "overlap": self.overlap}
        return HypothesisChains(self.language_model, threshold=self.threshold, facts=self.facts, **numbers)
