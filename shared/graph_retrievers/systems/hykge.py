"""HyKGE: chains between the entities of a hypothesis and of the question, reranked by fragments (Jiang et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from graph_retrievers.arguments import fraction, positive
from graph_retrievers.core.candidates import Candidates, best, falling
from graph_retrievers.core.chains import Chains, padded
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import (
    Completion,
    Contents,
    Degree,
    Edges,
    Nearest,
    NearestByCosine,
    Relevance,
    Similarity,
    WithQuery,
)
from graph_retrievers.errors import LanguageModelError
from graph_retrievers.index.corpus import Corpus
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
# Edges to read of nodes that are not linked to an entity, and characters of a hypothesis.
_MOST, _LONGEST = 65_536, 2_000
_CUT = "HypothesisChains: chains over nodes with many edges were left out"
_FEWER = "HypothesisChains: of {} chains, the {} whose nodes are most similar to the question were scored"


def fragments(text: str, window: int = 35, overlap: int = 15) -> list[str]:
    """Return the parts of a text of `window` characters, each with the last `overlap` characters of the one before.

    >>> fragments("abcdefgh", 4, 2)
    ['abcd', 'cdef', 'efgh']
    """
    step = window - overlap
    return [text[start : start + window] for start in range(0, max(len(text) - overlap, 1), step)]


class _Chain(NamedTuple):
    """Nodes, and for each step between two of them its relation, and whether its edge leads ahead."""

    nodes: list[int]
    relations: list[int]
    ahead: list[bool]

    def to(self, node: int, relation: int, ahead: bool) -> _Chain:
        """Return it with one more step."""
        return _Chain([*self.nodes, node], [*self.relations, relation], [*self.ahead, ahead])

    @property
    def turns(self) -> int:
        """How often its direction changes."""
        return sum(one != other for one, other in pairwise(self.ahead))


class HypothesisChains(Operator):
    r"""Chains of at most `hops` edges between the entities of the question and of a hypothesis that a language model writes.

    1. The language model writes a hypothesis, a passage that may answer the question, and names the entities of both.
    2. An entity is linked to the node whose vector is most similar to that of its name, if the cosine is at least `threshold`.
    3. Chains of at most `hops` edges join two such nodes: paths from one to the other, chains from a common source to both
       (co-ancestor), and chains from both to a common target (co-occurrence). Of a single node, its edges are the chains.
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
    hops : int, default 2
        Most edges of a chain, the paper's k: 1, 2 or 3.
    chains : int, default 10
        Chains to keep.
    candidates : int, default 500
        Most chains that a model scores: those of the largest mean cosine of their nodes with the question. A note says if there
        were more. The paper has no such limit.
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

    The public code finds chains of two edges, although its settings name three, and none over a third linked node; here such chains
    count too. It also takes the edges of each linked node as chains; these lead to no other linked node, and are left out here. It
    links entities from a cosine of 0.6, where the paper has 0.7, keeps 11 chains, and lets the model write 500 tokens; here the
    first 2,000 characters of the hypothesis are compared with chains. With three hops, the edges of the nodes around the linked
    ones are read, those of nodes with few edges first, and at most 65,536; a note says if there are more.

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
        hops: int = 2,
        chains: int = 10,
        candidates: int = 500,
        window: int = 35,
        overlap: int = 15,
        facts: bool = False,
    ) -> None:
        self.language_model = None if language_model is None else as_language_model(language_model)
        self.entities, self.chains = positive("entities", entities), positive("chains", chains)
        self.candidates = positive("candidates", candidates)
        self.hops = positive("hops", hops, most=3)
        self.threshold, self.window = fraction("threshold", threshold), positive("window", window)
        self.overlap, self.facts = positive("overlap", overlap, most=self.window - 1, least=0), facts

    def search(self, question: Question, found: Candidates) -> Algorithm[Candidates]:
        """Return the nodes of the best chains."""
        hypothesis, names = yield from self._hypothesis(question)
        anchors = yield from self._linked(question, names)
        chains = yield from self._joined(question, anchors)
        # A model reads each chain once for each text.
        if question.reads_texts and len(chains) > self.candidates:
            question.notes.append(_FEWER.format(len(chains), self.candidates))
            kept = best((yield from self._cosines(chains)), self.candidates)
            chains = [chains[place] for place in np.sort(kept)]
        texts = [question.text, *([*fragments(hypothesis, self.window, self.overlap), hypothesis] if hypothesis else [])]
        scores = yield from self._scored(question, chains, list(dict.fromkeys(texts)))
        by = best(scores, self.chains).tolist()
        # The chain up to each node, and its score; then the linked nodes that are in none.
        trails = dict[int, tuple[list[int], list[int], float]]()
        for place in by:
            chain, score = chains[place], float(scores[place])
            for length, node in enumerate(chain.nodes, 1):
                trails.setdefault(node, (chain.nodes[:length], chain.relations[: length - 1], score))
        for node in anchors:
            trails.setdefault(node, ([node], [], float(scores[by[-1]]) if by else 0.0))
        nodes, values = np.array(list(trails), np.int64), np.array([score for _, _, score in trails.values()])
        table = padded([trail for trail, _, _ in trails.values()], left=True, least=1)
        told = padded([relations for _, relations, _ in trails.values()], left=True)
        made = Candidates(nodes, falling(values), table, np.zeros(len(nodes), np.int64), (self.name,), told)
        if self.facts and by:
            made.chains = Chains(padded([chains[place].nodes for place in by]), scores[by], self.name)
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
        return answer["passage"].strip()[:_LONGEST], list(names)[: self.entities]

    def _linked(self, question: Question, names: list[str] | None) -> Algorithm[list[int]]:
        """Return the nodes of the entities, each once."""
        if names and not question.embeds_texts:
            question.notes.append(f"{self.name}: there is no embedding model for the entities; {_WITHOUT}")
            names = None
        if names is None:
            nodes, _ = yield Nearest(self.entities)
            return nodes.tolist()  # type: ignore[no-any-return]
        answers = yield tuple(NearestByCosine(1, name) for name in names)
        nearest = [int(nodes[0]) for nodes, cosines in answers if len(nodes) and cosines[0] >= self.threshold]
        return list(dict.fromkeys(nearest))

    def _joined(self, question: Question, anchors: list[int]) -> Algorithm[list[_Chain]]:
        """Return the chains, each once."""
        # A chain is found from the first of its ends.
        begun, chains = [_Chain([node], [], []) for node in anchors[:-1] or anchors], list[_Chain]()
        steps = yield from self._steps(question, np.array(anchors, np.int64))
        if len(anchors) == 1:
            return [begun[0].to(far, *steps[anchors[0]][far]) for far in sorted(steps[anchors[0]])]
        # A chain begins at a node that may start a walk, and ends at one to which a walk may lead.
        walked, place = question.walked(np.array(anchors, np.int64)), {node: place for place, node in enumerate(anchors)}
        ends = [node for node, may in zip(anchors, walked, strict=True) if may]
        for hop in range(self.hops):
            for chain in begun:
                for end in ends:
                    # The last step is read from its end.
                    if place[end] > place[chain.nodes[0]] and chain.nodes[-1] in steps[end] and end not in chain.nodes:
                        relation, ahead = steps[end][chain.nodes[-1]]
                        chains.append(chain.to(end, relation, not ahead))
            if hop + 1 < self.hops:
                last = np.array(sorted({chain.nodes[-1] for chain in begun} - steps.keys()), np.int64)
                if len(last):
                    degrees = yield Degree(last, parallel=True)
                    few = np.argsort(degrees, kind="stable")
                    few = few[np.cumsum(degrees[few]) <= _MOST]
                    question.notes += [_CUT] * (len(few) < len(last))
                    steps |= yield from self._steps(question, np.sort(last[few]))
                begun = [
                    chain.to(far, *step)
                    for chain in begun
                    for far, step in steps.get(chain.nodes[-1], {}).items()
                    if far not in chain.nodes
                ]
        # A path goes one way; the other kinds turn once.
        chains = [chain for chain in chains if chain.turns <= 1]
        return sorted(chains, key=lambda chain: (place[chain.nodes[0]], place[chain.nodes[-1]], len(chain.nodes), chain.nodes))

    def _steps(self, question: Question, rows: np.ndarray) -> Algorithm[dict[int, dict[int, tuple[int, bool]]]]:
        """Return the relation and the direction of the first edge from each of some nodes to each of its neighbours."""
        edges = yield Edges(rows)
        ahead = question.ends(edges.row)[:, 0] == rows[edges.owner]
        steps = dict[int, dict[int, tuple[int, bool]]]({node: {} for node in rows.tolist()})
        columns = (edges.row, rows[edges.owner], edges.far, edges.relation, ahead)
        for _, node, far, relation, forward in sorted(zip(*(column.tolist() for column in columns), strict=True)):
            if far != node:
                steps[node].setdefault(far, (relation, forward))
        return steps

    def _scored(self, question: Question, chains: list[_Chain], texts: list[str]) -> Algorithm[np.ndarray]:
        """Return the score of each chain: of the text that suits it best."""
        if not chains:
            return np.zeros(0)
        if not question.reads_texts:
            return (yield from self._cosines(chains))
        nodes = _nodes_of(chains)
        contents = yield Contents(nodes)
        names = {int(node): each.title or each.id for node, each in zip(nodes, contents, strict=True)}
        read = list[str]()
        for chain in chains:
            relations = question.relation_names(np.array(chain.relations, np.int64))
            text = names[chain.nodes[0]]
            for node, relation, forward in zip(chain.nodes[1:], relations, chain.ahead, strict=True):
                text += f" -{relation}-> {names[node]}" if forward else f" <-{relation}- {names[node]}"
            read.append(text)
        ends = np.array([chain.nodes[-1] for chain in chains], np.int64)
        asked = Relevance(ends, texts=read, notes=question.notes)
        scores = yield tuple(asked if text == question.text else WithQuery(asked, text) for text in texts)
        return np.max(scores, 0)  # type: ignore[no-any-return]

    def _cosines(self, chains: list[_Chain]) -> Algorithm[np.ndarray]:
        """Return the mean cosine of the nodes of each chain with the question."""
        nodes = _nodes_of(chains)
        cosines = dict(zip(nodes.tolist(), (yield Similarity(nodes)).tolist(), strict=True))
        return np.array([np.mean([cosines[node] for node in chain.nodes]) for chain in chains])


def _nodes_of(chains: list[_Chain]) -> np.ndarray:
    """Return the nodes of chains, each once, ascending."""
    return np.unique(np.array([node for chain in chains for node in chain.nodes], np.int64))


@dataclass(frozen=True, kw_only=True, repr=False)
class HyKGE(System):
    """Chains between the entities of the question and of a hypothesis that a language model writes, reranked by its fragments.

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one, chains join the nodes nearest to the
        question, with a note.
    entities, threshold, hops, chains, candidates, window, overlap : int and float, default 10, 0.7, 2, 10, 500, 35 and 15
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
    hops: int = 2
    chains: int = 10
    candidates: int = 500
    window: int = 35
    overlap: int = 15
    facts: bool = False

    def compose(self, index: Corpus) -> Operator:
        """Return the search for chains."""
        numbers = {"entities": self.entities, "hops": self.hops, "chains": self.chains, "window": self.window}
        numbers["candidates"] = self.candidates
        return HypothesisChains(self.language_model, threshold=self.threshold, overlap=self.overlap, facts=self.facts, **numbers)
