"""HyKGE: chains between the entities of a hypothesis and of the question, reranked by fragments (Jiang et al., ACL 2025)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, along, best
from graph_retrievers.core.chains import Chains
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Nearest, Relevance, WithQuery
from graph_retrievers.search.most_similar import most_similar
from graph_retrievers.systems.asking import TEXT, Prompt, answer_texts, array, ask_model, record
from graph_retrievers.systems.step_chains import chains_between
from graph_retrievers.systems.system import Count, Fraction, System

__all__ = ["HyKGE"]

_PROMPT = Prompt("hykge-hypothesis", record({"passage": TEXT, "entities": array(TEXT)}))
_WITHOUT = "chains join the nodes nearest to the question"
# Edges to read of nodes that are not linked to an entity, and characters of a hypothesis.
_MOST, _LONGEST = 65_536, 2_000


def fragments(text: str, window: int = 35, overlap: int = 15) -> list[str]:
    """Return the parts of a text of `window` characters, each with the last `overlap` characters of the one before.

    >>> fragments("abcdefgh", 4, 2)
    ['abcd', 'cdef', 'efgh']
    """
    step = window - overlap
    return [text[start : start + window] for start in range(0, max(len(text) - overlap, 1), step)]


@dataclass(frozen=True, kw_only=True, repr=False)
class HyKGE(System):
    r"""Chains of at most `hops` edges between the entities of the question and of a hypothesis that a language model writes.

    1. The language model writes a hypothesis, a passage that may answer the question, and names the entities of both.
    2. An entity is linked to the node whose vector is most similar to that of its name, if the cosine is at least `threshold`.
    3. Chains of at most `hops` edges join two such nodes: paths from one to the other, chains from a common source to both
       (co-ancestor), and chains from both to a common target (co-occurrence). For a single node, the chains are its edges.
    4. A chain c scores as the best fragment of the hypothesis h, the whole of it, or the question q:

    .. math:: s(c) = \max_{t \in \{q, h\} \cup \mathrm{fragments}(h)} m(t, c)

    Parameters
    ----------
    language_model : object, optional
        See :func:`~graph_retrievers.signals.language.as_language_model`. Without one, chains join the nodes nearest to the
        question, with a note.
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
    with the score of the last chain. A node's path leads along its chain, from the linked node at which the chain begins.
    Relations of a chain are read in their direction ("->" or "<-").

    Without a language model, or if it fails, the chains join the `entities` nodes nearest to the question, which alone is compared
    with them, and a note says so. Without a model that reads texts, a chain scores as the mean cosine of its nodes with the
    question. Without an embedding model for the names of entities, chains join the nearest nodes too, with a note. If the model
    names no entity, or none is similar enough to a node, nothing is found. The paper names entities with a model of its own for
    medicine. Of parallel edges the first one is read.

    The public code finds chains of two edges, although its settings name three, and none over a third linked node; here such chains
    count too. It also takes the edges of each linked node as chains; these lead to no other linked node, and are left out here. It
    links entities from a cosine of 0.6, where the paper has 0.7, keeps 11 chains, and lets the model write 500 tokens; here the
    first 2,000 characters of the hypothesis are compared with chains. With three hops, the edges of the nodes around the linked
    ones are read, those of nodes with few edges first, and at most 65,536; a note says if there are more.

    References
    ----------
    Jiang et al., "HyKGE: A Hypothesis Knowledge Graph Enhanced Framework for Accurate and Reliable Medical LLMs Responses", 2024
    (ACL 2025), section 4; windows are those of the public code.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node(name.lower(), "", name) for name in ("Ada", "Engine", "Cards")]
    >>> edges = [("ada", "engine", "wrote for"), ("cards", "engine", "drive")]
    >>> words = ("Ada", "Engine", "Cards")
    >>> embed = lambda texts: [[float(word in text) for word in words] + [0.1] for text in texts]
    >>> index = GraphIndex.from_nodes(nodes, edges, embedding=embed, metric="cosine")
    >>> model = lambda prompt: '{"passage": "Ada used Cards.", "entities": ["Ada", "Cards"]}'
    >>> hits = Retriever(index, HyKGE(language_model=model), backfill=False).retrieve("How did Ada program?")
    >>> [hit.path.text for hit in hits]
    ['Ada', 'Ada -[wrote for]-> Engine', 'Ada -[wrote for]-> Engine <-[drive]- Cards']
    """

    name = "hykge"
    kind = OperatorKind.GRAPH_MODEL_SEARCH

    language_model: Any = None
    entities: Count = 10
    threshold: Fraction = 0.7
    hops: Annotated[int, partial(positive, most=3)] = 2
    chains: Count = 10
    candidates: Count = 500
    window: Count = 35
    overlap: int = 15
    facts: bool = False

    def __post_init__(self) -> None:
        """Check that a fragment is longer than what it shares with the one before."""
        positive("overlap", self.overlap, most=self.window - 1, least=0)

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes of the best chains."""
        # The hypothesis, and the nodes of its entities and of those of the question.
        answer = yield from ask_model(self, question, _PROMPT, _WITHOUT, count=self.entities)
        hypothesis = answer["passage"].strip()[:_LONGEST] if answer else ""
        anchors = yield from self._linked(question, answer_texts(answer["entities"], self.entities) if answer else None)

        # The chains between these nodes.
        chains = yield from chains_between(question, anchors, self.hops, _MOST, self.name)

        # Reranking: of the question, the hypothesis and its fragments, the text that suits a chain best counts.
        if question.reads_texts:
            # The model reads each chain once for each text.
            chains = yield from chains.most_similar(question, self.candidates, self.name)
            request = Relevance(chains.last, texts=(yield from chains.texts(question)), notes=question.notes)
            parts = dict.fromkeys([*fragments(hypothesis, self.window, self.overlap), hypothesis])
            texts = [text for text in parts if text not in ("", question.text)]
            scores = np.max((yield (request, *(WithQuery(request, text) for text in texts))), 0)
        else:
            scores = yield from chains.cosines()
        by = best(scores, self.chains)
        best_chains, least = Chains(chains.nodes[by], scores[by], self.name), scores[by[-1]] if len(by) else 0.0
        seeds = Candidates.seeds(anchors, np.full(len(anchors), least), self.name)
        result = along(best_chains).followed_by(seeds)
        return replace(result, chains=best_chains) if self.facts and len(by) else result

    def _linked(self, question: Question, names: list[str] | None) -> Algorithm[np.ndarray]:
        """Return the nodes of the entities, each once; without a language model those nearest to the question."""
        if names and not question.embeds_texts:
            question.notes.append(f"{self.name}: there is no embedding model for the entities; {_WITHOUT}")
            names = None
        if names is None:
            nodes, _ = yield Nearest(self.entities)
            return nodes  # type: ignore[no-any-return]
        return (yield from most_similar(names, self.threshold))
