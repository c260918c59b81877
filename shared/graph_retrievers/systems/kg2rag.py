"""KG2RAG: chunks by vectors, expansion along their facts, and chunks in the order of spanning trees (Zhu et al., 2025)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, order, places_of, reached
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges, EdgeTexts, Neighbors, Relevance, Similarity
from graph_retrievers.graph.spanning_trees import spanning_trees
from graph_retrievers.search.around import linked_to_both
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.of_each import of_each
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import Count, System
from graph_retrievers.systems.traits import passage_types

__all__ = ["KG2RAG"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KG2RAG(System):
    """Chunks by vector search, expanded along the facts that they state, and in the order of spanning trees of these facts.

    1. Expansion: from the entities of the chunks along facts, for some hops, to all chunks of the entities that are reached.
    2. Filter: the facts at the entities that are reached, once for each of these chunks that states them, are the edges of a graph
       among entities, with the similarity of the chunk to the question. Of each connected part, a maximum spanning tree remains.
    3. Arrangement: the chunks of a tree are in the order in which a depth first walk from its heaviest edge meets them; trees are
       in the order of the relevance model's scores of their facts.

    Chunks of no tree follow, those most similar to the question first.

    Parameters
    ----------
    seeds : int, default 10
        Chunks that vector search finds.
    hops : int, default 1
        Facts to follow from the entities of the chunks.
    candidates : int, default 100
        Most chunks: those found before, then the most similar ones; a note says if there were more. The paper has no such limit;
        it is for entities of many chunks.
    passage_type : str, default "passage"
        Node type of chunks; other nodes are entities. In a graph without such nodes, or with no others, every node is a chunk: its
        own entity, whose facts are its edges, each stated by both ends.

    Notes
    -----
    Chunks are those of all entities reached, as in the published code; in the paper, those of the facts reached. For entities of
    chunks found before, the code adds further chunks only if they are among the best, and it weighs an added chunk by the mean
    similarity of the chunks that led to it; here each has its own similarity, as in the paper. The code scores a tree by the texts
    of its chunks; here, as in the paper, by its facts. It then adds trees until ``top_k`` chunks are reached;
    here the retriever's `k` limits them. The code also adds edges of weight 0 between entities that the question names, which join
    their trees; the paper does not, nor does this.

    A fact is of the chunks that are linked to both of its ends; in the paper, of the chunk from which it was extracted. Of facts
    with equal weights, the one with the lower number is in the tree, and of chunks of one fact the lower one. The n-th chunk
    scores 1 / n. Without a relevance model, the vectors score the texts of the facts; without a model that reads texts, a tree
    counts as its most similar chunk.

    References
    ----------
    Zhu et al., "Knowledge Graph-Guided Retrieval Augmented Generation", NAACL 2025, sections 3.2 and 3.3.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Node, Retriever
    >>> nodes = [Node("p", "Ada wrote for the engine.", type="passage"), Node("q", "The engine reads cards.", type="passage")]
    >>> nodes += [Node(name.lower(), "", name, "thing") for name in ("Ada", "Engine", "Cards")]
    >>> edges = [("p", "ada"), ("p", "engine"), ("q", "engine"), ("q", "cards"), ("ada", "engine", "wrote for")]
    >>> index = GraphIndex.from_nodes([*nodes], [*edges, ("engine", "cards", "reads")], vectors=[[1], [0.5], [0], [0], [0]])
    >>> [hit.path.text for hit in Retriever(index, KG2RAG(seeds=1), backfill=False).retrieve("?", vector=[1])]
    ['p', 'p -> Engine <- q']
    """

    name = "kg2rag"
    kind = OperatorKind.GRAPH_MODEL_SEARCH

    seeds: Count = 10
    hops: Annotated[int, partial(positive, least=0)] = 1
    candidates: Count = 100
    passage_type: str = "passage"

    def compose(self, index: Corpus) -> Operator:
        """Return the search for chunks, and their expansion."""
        return Pipeline(VectorSearch(self.seeds, returned=False, types=self._types(index)), self.operator())

    def _types(self, index: Corpus) -> tuple[str, ...]:
        """Return the node type of chunks; none if every node is one."""
        return passage_types(index.facts, self.passage_type)

    def algorithm(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the chunks, tree by tree."""
        types = self._types(question.corpus)
        # Expansion.
        reach, entities, chunks = yield from self._expanded(question, candidates)
        similarity = yield Similarity(chunks)
        first = np.where(np.isin(chunks, candidates.nodes), np.inf, similarity)
        places = best(first, max(self.candidates, len(candidates)), chunks)
        if len(places) < len(chunks):
            question.notes.append(f"{self.name}: of {len(chunks)} chunks, the {len(places)} most similar to the question were read")
        chunks, similarity = chunks[places], similarity[places]

        # Filter: a fact weighs as much as its chunk is similar.
        rows, ends, chunk = yield from self._facts(question, entities if types else chunks, chunks)
        weights = similarity[places_of(chunks, chunk)]
        trees = spanning_trees(ends, order(weights))

        # Arrangement: the first fact of a tree is its heaviest one.
        heaviest = np.array([tree[0] for tree in trees], np.int64)
        scores = weights[heaviest]
        if question.reads_texts:
            facts = yield from of_each(EdgeTexts, [np.unique(rows[tree]) for tree in trees])
            scores = yield Relevance(chunk[heaviest], texts=[". ".join(texts) for texts in facts], notes=question.notes)
        # Where every node is a chunk, the walk meets both ends of a fact.
        met = chunk if types else ends
        walks = [met[trees[place]].ravel() for place in best(scores, len(trees)).tolist()]
        ranked = reach.taken(places_of(reach.nodes, np.concatenate([*walks, chunks[order(similarity, chunks)]])))
        result = ranked.top(0).joined(ranked)
        return replace(result, scores=1 / np.arange(1, len(result) + 1))

    def _expanded(self, question: Question, candidates: Candidates) -> Algorithm[tuple[Candidates, np.ndarray, np.ndarray]]:
        """Return all that is reached, with paths: entities along facts, and the chunks of these entities."""
        reach, front, types = candidates, candidates, self._types(question.corpus)
        # One step leads from chunks to their entities, where these are other nodes.
        for _ in range(self.hops + len(types)):
            found = reach.joined((yield from self._linked(question, front, chunks=False)))
            reach, front = found, found.taken(slice(len(reach), None))
        if not types:
            return reach, reach.nodes, reach.nodes
        entities = reach.taken(np.flatnonzero(~question.typed(reach.nodes, types)))
        reach = reach.joined((yield from self._linked(question, entities, chunks=True)))
        return reach, entities.nodes, reach.nodes[question.typed(reach.nodes, types)]

    def _linked(self, question: Question, front: Candidates, chunks: bool) -> Algorithm[Candidates]:
        """Return the chunks, or else the entities, that are linked to some nodes."""
        near = yield Neighbors(front.nodes)
        near = near.masked(question.typed(near.node, self._types(question.corpus)) == chunks)
        return reached(front, near.owner, near.node, np.zeros(len(near.node)), self.name)

    def _facts(self, question: Question, entities: np.ndarray, chunks: np.ndarray) -> Algorithm[tuple[np.ndarray, ...]]:
        """Return the edges of the facts, their ends, and the chunk that states each, by edge and then by chunk."""
        edges, types = (yield Edges(entities)), self._types(question.corpus)
        inside = ~question.typed(edges.far, types) if types else np.isin(edges.far, chunks)
        rows = np.unique(edges.row[inside & (edges.far != entities[edges.owner])])
        ends = question.ends(rows)
        if types:
            fact, chunk = yield from linked_to_both(question, ends, lambda nodes: np.isin(nodes, chunks))
            return rows[fact], ends[fact], chunk
        # Both ends state a fact: a walk begins at the one that is its chunk.
        ends = np.sort(ends, 1)[:, [0, 1, 1, 0]].reshape(-1, 2)
        return rows.repeat(2), ends, ends[:, 0]
