"""KG2RAG: chunks by vectors, expansion along their facts, and chunks in the order of spanning trees (Zhu et al., 2025)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, order, places_of, reached
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges, EdgeTexts, Neighbors, Relevance, Similarity
from graph_retrievers.index.corpus import Corpus
from graph_retrievers.search.around import linked_to_both
from graph_retrievers.search.vector_search import VectorSearch
from graph_retrievers.systems.system import System
from graph_retrievers.systems.traits import passage_types

__all__ = ["KG2RAG", "FactTrees"]


class Fact(NamedTuple):
    """A fact of a chunk: the entities that it joins, the similarity of the chunk, the chunk, and the number of the edge."""

    source: int
    target: int
    weight: float
    chunk: int
    row: int

    @property
    def root(self) -> int:
        """The end that is the chunk, or else the source."""
        return self.target if self.chunk == self.target else self.source


class FactTrees(Operator):
    """Chunks around the chunks found before, along the facts that they state, in the order of spanning trees of these facts.

    1. Expansion: from the entities of the chunks along facts, for some hops, to all chunks of the entities that are reached.
    2. Filter: the facts at the entities that are reached, once for each of these chunks that states them, are the edges of a graph
       among entities, with the similarity of the chunk to the question. Of each connected part, a maximum spanning tree remains.
    3. Arrangement: the chunks of a tree are in the order in which a depth first walk from its heaviest edge meets them; trees are
       in the order of the relevance model's scores of their facts.

    Chunks of no tree follow, those most similar to the question first.

    Parameters
    ----------
    text_type : str, default ""
        Node type of chunks; other nodes are entities. "" if every node is a chunk: its own entity, whose facts are its edges, each
        stated by both ends.
    hops : int, default 1
        Facts to follow from the entities of the chunks.
    candidates : int, default 100
        Most chunks: those found before, then the most similar ones; a note says if there were more. The paper has no such limit;
        it is for entities of many chunks.

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
    >>> search = Pipeline(VectorSearch(1, returned=False, types=["passage"]), FactTrees("passage"))
    >>> [hit.path.text for hit in Retriever(index, search, backfill=False).retrieve("?", vector=[1])]
    ['p', 'p -> Engine <- q']
    """

    kind = OperatorKind.GRAPH_MODEL_SEARCH

    def __init__(self, text_type: str = "", *, hops: int = 1, candidates: int = 100) -> None:
        self.text_type, self.hops = text_type, positive("hops", hops, least=0)
        self.candidates = positive("candidates", candidates)
        # Without a type, no node is only a text.
        self._types = (text_type,) if text_type else ()

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the chunks, tree by tree."""
        reach = yield from self._expanded(question, candidates)
        texts = question.typed(reach.nodes, self._types)
        chunks, entities = reach.nodes[texts] if self._types else reach.nodes, reach.nodes[~texts]
        similarity = yield Similarity(chunks)
        first = np.where(np.isin(chunks, candidates.nodes), np.inf, similarity)
        places = best(first, max(self.candidates, len(candidates)), chunks)
        if len(places) < len(chunks):
            question.notes.append(f"{self.name}: of {len(chunks)} chunks, the {len(places)} most similar to the question were read")
        chunks, similarity = chunks[places], similarity[places]

        trees = spanning_trees((yield from self._facts(question, entities, chunks, similarity)))
        scores = yield from self._scored(question, trees)
        ranked = [chunk for place in best(scores, len(trees)).tolist() for chunk in self._chunks_of(trees[place])]
        ranked += chunks[order(similarity, chunks)].tolist()
        nodes = np.array(list(dict.fromkeys(ranked)), np.int64)
        return replace(reach.taken(places_of(reach.nodes, nodes)), scores=1 / np.arange(1, len(nodes) + 1))

    def _expanded(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return what is reached: the entities of the chunks, others along facts, and the chunks of all of these entities."""
        reach = front = candidates
        # One step leads from chunks to their entities, where these are other nodes.
        for _ in range(self.hops + len(self._types)):
            before = len(reach)
            reach = reach.joined((yield from self._linked(question, front, chunks=False)))
            front = reach.taken(slice(before, None))
        if self._types:
            entities = reach.taken(np.flatnonzero(~question.typed(reach.nodes, self._types)))
            reach = reach.joined((yield from self._linked(question, entities, chunks=True)))
        return reach

    def _linked(self, question: Question, front: Candidates, chunks: bool) -> Algorithm[Candidates]:
        """Return the chunks, or else the entities, that are linked to some nodes."""
        near = yield Neighbors(front.nodes)
        near = near.masked(question.typed(near.node, self._types) == chunks)
        return reached(front, near.owner, near.node, np.zeros(len(near.node)), self.name)

    def _facts(self, question: Question, entities: np.ndarray, chunks: np.ndarray, similarity: np.ndarray) -> Algorithm[list[Fact]]:
        """Return the facts of the chunks, by the number of the edge and then by chunk."""
        edges = yield Edges(entities)
        rows = np.unique(edges.row)
        ends = question.ends(rows)
        outside = question.typed(ends.ravel(), self._types).reshape(-1, 2) if self._types else ~np.isin(ends, chunks)
        facts = (ends[:, 0] != ends[:, 1]) & ~outside.any(1)
        rows, ends = rows[facts], ends[facts]
        if self._types:
            fact, chunk = yield from linked_to_both(question, ends, partial(np.isin, test_elements=chunks))
        else:
            fact, chunk = np.repeat(np.arange(len(rows)), 2), np.sort(ends, 1).ravel()
        weight = similarity[places_of(chunks, chunk)]
        columns = (*ends[fact].T, weight, chunk, rows[fact])
        return [Fact(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]

    def _scored(self, question: Question, trees: list[list[Fact]]) -> Algorithm[np.ndarray]:
        """Return the score of each tree: the relevance of its facts."""
        if not question.reads_texts:
            return np.array([tree[0].weight for tree in trees])
        rows = [sorted({fact.row for fact in tree}) for tree in trees]
        # All facts in one request: it is one round trip to a database.
        distinct = np.unique(np.array([row for numbers in rows for row in numbers], np.int64))
        fact_texts = dict(zip(distinct.tolist(), (yield EdgeTexts(distinct)), strict=True))
        texts = [". ".join(fact_texts[row] for row in numbers) for numbers in rows]
        chunks = np.array([tree[0].chunk for tree in trees], np.int64)
        return (yield Relevance(chunks, texts=texts, notes=question.notes))  # type: ignore[no-any-return]

    def _chunks_of(self, tree: list[Fact]) -> list[int]:
        """Return the chunks of a tree, as the walk meets its facts: those that state them, or its nodes where these are chunks."""
        return [fact.chunk for fact in tree] if self._types else [tree[0].root, *(end for fact in tree for end in fact[:2])]


def spanning_trees(facts: list[Fact]) -> list[list[Fact]]:
    """Return a maximum spanning tree of each connected part of a graph of facts: its facts as a depth first walk meets them.

    The walk begins with the heaviest fact, and from each entity follows heavier ones first. Trees are in the order of the first
    facts of their parts.

    >>> facts = [Fact(0, 1, 0.2, 7, 0), Fact(0, 1, 0.9, 8, 0), Fact(4, 5, 1.0, 9, 2), Fact(1, 2, 0.5, 8, 3)]
    >>> [[(fact.row, fact.chunk) for fact in tree] for tree in spanning_trees(facts)]
    [[(0, 8), (3, 8)], [(2, 9)]]
    """
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(entity for fact in facts for entity in fact[:2])
    for place in best(np.array([fact.weight for fact in facts]), len(facts)).tolist():
        if not graph.has_edge(*facts[place][:2]):
            # No two edges weigh the same, so that ties go to the first fact.
            graph.add_edge(*facts[place][:2], fact=facts[place], weight=-graph.number_of_edges())
    forest, trees = networkx.maximum_spanning_tree(graph), list[list[Fact]]()
    for part in networkx.connected_components(forest):
        *_, heaviest = max(forest.edges(part, data=True), key=lambda edge: edge[2]["weight"])
        walk = networkx.dfs_edges(forest, heaviest["fact"].root)
        trees.append([forest.edges[step]["fact"] for step in walk])
    return trees


@dataclass(frozen=True, kw_only=True, repr=False)
class KG2RAG(System):
    """Chunks by vector search, expanded along their facts, and arranged by spanning trees of these facts.

    Parameters
    ----------
    seeds : int, default 10
        Chunks that vector search finds.
    hops, candidates : int, default 1 and 100
        See :class:`~graph_retrievers.systems.kg2rag.FactTrees`, which also states the departures.
    passage_type : str, default "passage"
        Node type of chunks; other nodes are entities. In a graph without such nodes, or with no others, every node is a chunk.

    References
    ----------
    Zhu et al., "Knowledge Graph-Guided Retrieval Augmented Generation", NAACL 2025.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card"], edges=[("0", "1")], vectors=[[1, 0], [0, 1]])
    >>> [hit.id for hit in Retriever(index, KG2RAG(seeds=1)).retrieve("?", vector=[1, 0])]
    ['0', '1']
    """

    name = "kg2rag"

    seeds: int = 10
    hops: int = 1
    candidates: int = 100
    passage_type: str = "passage"

    def compose(self, index: Corpus) -> Operator:
        """Return the search for chunks and the trees of their facts."""
        types = passage_types(index.facts, self.passage_type)
        search = VectorSearch(positive("seeds", self.seeds), returned=False, types=types)
        return Pipeline(search, self.part(FactTrees, "".join(types)))
