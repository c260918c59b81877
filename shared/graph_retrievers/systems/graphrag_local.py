"""GraphRAG's local search: entities like the question, their texts, reports and relationships (Edge et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, places_of, reached
from graph_retrievers.core.chains import Facts
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import EdgeRows, Edges, Near, Neighbors
from graph_retrievers.search.around import end_degrees, linked_to_both
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import Count, System
from graph_retrievers.systems.traits import passage_types

__all__ = ["GraphRAGLocal"]


@dataclass(frozen=True, kw_only=True, repr=False)
class GraphRAGLocal(System):
    r"""Entities by vector search, then their texts, reports and relationships: Microsoft GraphRAG's local search.

    A text belongs to the first entity e that is linked to it. Texts are in the order of their entities, and those of one entity u
    by how many relationships of u they contain:

    .. math:: |\{(u, v) : v \text{ is linked to the text}\}|

    Then come the reports, those of most entities first, and the entities themselves.

    Parameters
    ----------
    entities : int, default 10
        Entities that vector search finds.
    relationships : int, default 10
        Relationships with other entities, for each entity, that are facts; 0 for no facts at all.
    facts : bool, default False
        Whether relationships are results too: additional hits after the k nodes.
    passage_type, report_type : str, default "passage" and "community"
        Node types of texts and of reports on communities; other nodes are entities. In a graph without such texts, each node is an
        entity that is followed by its neighbours, and reports are not read.

    Notes
    -----
    It reads graphs that a language model or another tool has made. The original finds entities by the vectors of their
    descriptions; here by those of their nodes. Its setting ``top_k_mapped_entities`` is 10, but its code searches twice as many, in
    case some are excluded by name, and keeps all of them: write ``entities=20`` for that. Claims (covariates) and the conversation
    before the question are not read.

    Relationships between two of the entities are the first facts, all of them; those with others follow, first those with
    entities to which most of the ranked ones are related. Both are ordered by the degrees of their two ends together.

    In the original, texts list the relationships that were extracted from them; here a text contains a relationship if it is
    linked to both ends. Reports have no rank of importance here, so that ties go to the lower row, as all ties do. The original
    then fills a prompt of 8,000 tokens, half of them with texts and a quarter with reports; here the retriever's `k` limits them.

    References
    ----------
    Edge et al., "From Local to Global: A Graph RAG Approach to Query-Focused Summarization", 2024; local search is described by
    its public code only (``graphrag/query/structured_search/local_search``).

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node("p", "Ada wrote for it.", type="passage"), Node("a", "", "Ada", "person"), Node("e", "", "Engine", "thing")]
    >>> edges = [("p", "a", "mentions"), ("p", "e", "mentions"), ("a", "e", "wrote for")]
    >>> index = GraphIndex.from_nodes(nodes, edges, vectors=[[0], [1], [0]])
    >>> hits = Retriever(index, GraphRAGLocal(entities=1, facts=True), backfill=False).retrieve("?", vector=[1])
    >>> [hit.path.text for hit in hits.nodes], [hit.text for hit in hits.facts]
    (['Ada <-[mentions]- p', 'Ada'], ['Ada -[wrote for]-> Engine'])
    """

    name = "graphrag-local"
    kind = OperatorKind.GRAPH_SEARCH

    entities: Count = 10
    relationships: Annotated[int, partial(positive, least=0)] = 10
    facts: bool = False
    passage_type: str = "passage"
    report_type: str = "community"

    def compose(self, index: Corpus) -> Operator:
        """Return vector search for entities, and their texts."""
        others = (*self._text_types(index), *self._report_types(index))
        types = tuple(name for name in index.facts.type_names if name not in others) if others else ()
        return Pipeline(VectorSearch(self.entities, returned=False, types=types), self.operator())

    def _text_types(self, index: Corpus) -> tuple[str, ...]:
        """Return the node type of texts; without one, each node is an entity, and its texts are its neighbours."""
        return passage_types(index.facts, self.passage_type)

    def _report_types(self, index: Corpus) -> tuple[str, ...]:
        """Return the node type of reports, if there are any."""
        return passage_types(index.facts, self.report_type)

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the texts, then the reports, then the entities, with relationships as facts."""
        near, edges = yield Neighbors(candidates.nodes), Edges(candidates.nodes)
        text_types, report_types = self._text_types(question.corpus), self._report_types(question.corpus)
        mask = question.typed(edges.far, (*text_types, *report_types))
        edges = edges.masked(~mask & (edges.far != candidates.nodes[edges.owner]))
        texts = yield from self._texts(question, candidates, near.masked(self._are_texts(question, near.node)), edges)
        facts = (yield from self._facts(question, candidates, edges)) if self.facts and self.relationships else None
        if not text_types:
            return replace(candidates.joined(texts), facts=facts)
        reports = self._reports(candidates, near.masked(question.typed(near.node, report_types)))
        return replace(texts.followed_by(reports, candidates), facts=facts)

    def _are_texts(self, question: Question, nodes: np.ndarray) -> np.ndarray:
        """Return which nodes are texts; all but reports if no types say which are."""
        types = self._text_types(question.corpus)
        return question.typed(nodes, types) if types else ~question.typed(nodes, self._report_types(question.corpus))

    def _texts(self, question: Question, candidates: Candidates, texts: Near, edges: EdgeRows) -> Algorithm[Candidates]:
        """Return the texts of the entities, in order."""
        ends = np.stack([candidates.nodes[edges.owner], edges.far], 1)
        edge, text = yield from linked_to_both(question, ends, partial(self._are_texts, question))
        keys, edge_keys = texts.owner * question.size + texts.node, edges.owner[edge] * question.size + text
        counts = np.bincount(places_of(keys, edge_keys), minlength=len(keys))
        # The first owner of each text, as owners ascend.
        _, first = np.unique(texts.node, return_index=True)
        by = first[np.lexsort((texts.node[first], -counts[first], texts.owner[first]))]
        return reached(candidates, texts.owner[by], texts.node[by], candidates.scores[texts.owner[by]], self.name)

    def _reports(self, candidates: Candidates, reports: Near) -> Candidates:
        """Return the reports, those of most entities first."""
        nodes, first, matches = np.unique(reports.node, return_index=True, return_counts=True)
        by = np.lexsort((nodes, -matches))
        return reached(candidates, reports.owner[first[by]], nodes[by], matches[by] / max(len(candidates), 1), self.name)

    def _facts(self, question: Question, candidates: Candidates, edges: EdgeRows) -> Algorithm[Facts]:
        """Return the relationships among the entities, and the first of those with others."""
        rows, first = np.unique(edges.row, return_index=True)
        ends = question.ends(rows)
        rank = yield from end_degrees(ends, (*self._text_types(question.corpus), *self._report_types(question.corpus)))
        inside = (places_of(candidates.nodes, ends.ravel()).reshape(-1, 2) >= 0).all(1)
        # How many of the entities the far end of a relationship is related to.
        pairs = np.unique(np.stack([edges.far, edges.owner], 1), axis=0)
        far, links = np.unique(pairs[:, 0], return_counts=True)
        counts = links[np.searchsorted(far, edges.far[first])]
        by = np.lexsort((rows, -rank, -np.where(inside, 0, counts), ~inside))
        by = by[: int(inside.sum()) + self.relationships * len(candidates)]
        return Facts(rows[by], 1 / np.arange(1, len(by) + 1), self.name)
