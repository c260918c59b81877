"""KG2RAG: chunks by vectors, expansion along their facts, and chunks in the order of spanning trees (Zhu et al., 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates, best, stacked
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Edges, EdgeTexts, Neighbors, Relevance, Similarity
from graph_retrievers.index import Corpus
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


class FactTrees(Operator):
    """Chunks around the chunks found before, along the facts that they state, in the order of spanning trees of these facts.

    1. Expansion: from the entities of the chunks along facts, for some hops, to all chunks of the entities that are reached.
    2. Filter: the facts of all these chunks are the edges of a graph among entities, each with the similarity of its chunk to the
       question. Of each connected part, a maximum spanning tree remains.
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
        Most chunks: those found before, then the most similar ones.

    Notes
    -----
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

    def search(self, question: Question, found: Candidates) -> Algorithm[Candidates]:
        """Return the chunks, tree by tree."""
        parents, entities = yield from self._expanded(question, found)
        chunks = np.array([node for node in parents if self._is_chunk(question, node)], np.int64)
        similarity = yield Similarity(chunks)
        given = np.isin(chunks, found.nodes)
        seeds, others = np.flatnonzero(given), np.flatnonzero(~given)
        kept = np.append(seeds, others[best(similarity[others], len(others), chunks[others])])
        kept = kept[: max(self.candidates, len(found))]
        likeness = dict(zip(chunks[kept].tolist(), similarity[kept].tolist(), strict=True))
        facts = yield from self._facts(question, entities, likeness)
        trees = [spanning_tree(part) for part in connected(facts)]
        orders = [arranged(tree, bool(self.text_type)) for tree in trees]
        scores = yield from self._scored(question, trees, likeness)
        ranked = [chunk for place in best(scores, len(trees)).tolist() for chunk in orders[place]]
        alone = np.array([node for node in likeness if node not in set(ranked)], np.int64)
        ranked += alone[best(np.array([likeness[node] for node in alone.tolist()]), len(alone), alone)].tolist()
        ranked = list(dict.fromkeys(ranked))
        place = {node: number for number, node in enumerate(found.nodes.tolist())}
        ways = [self._way(parents, node) for node in ranked]
        origin = np.array([place[way[0]] for way in ways], np.int64)
        return stacked(found, origin, [way[1:] for way in ways], 1 / np.arange(1, len(ranked) + 1), self.name)

    def _is_chunk(self, question: Question, node: int) -> bool:
        return not self.text_type or bool(question.typed(np.array([node]), (self.text_type,))[0])

    def _expanded(self, question: Question, found: Candidates) -> Algorithm[tuple[dict[int, int], list[int]]]:
        """Return the nodes that are reached, with the node that led to each, and the entities among them."""
        parents = dict.fromkeys(found.nodes.tolist(), -1)
        if not self.text_type:
            yield from self._stepped(question, parents, list(parents), self.hops)
            return parents, sorted(parents)
        entities = yield from self._stepped(question, parents, list(parents), 1, chunks=False)
        entities += yield from self._stepped(question, parents, entities, self.hops, chunks=False)
        yield from self._stepped(question, parents, entities, 1, chunks=True)
        return parents, sorted(entities)

    def _stepped(
        self, question: Question, parents: dict[int, int], front: list[int], hops: int, chunks: bool | None = None
    ) -> Algorithm[list[int]]:
        """Add what some steps along edges reach, only chunks or only entities unless `chunks` is None; return the new nodes."""
        added = list[int]()
        for _ in range(hops):
            nodes = np.array(front, np.int64)
            near = yield Neighbors(nodes)
            wanted = np.ones(len(near.node), bool) if chunks is None else question.typed(near.node, (self.text_type,)) == chunks
            front = []
            for owner, node in zip(near.owner[wanted].tolist(), near.node[wanted].tolist(), strict=True):
                if node not in parents:
                    parents[node] = int(nodes[owner])
                    front.append(node)
            added += front
        return added

    def _facts(self, question: Question, entities: list[int], likeness: dict[int, float]) -> Algorithm[list[Fact]]:
        """Return the facts of the chunks, by the number of the edge and then by chunk."""
        nodes = np.array(entities, np.int64)
        edges = yield Edges(nodes)
        rows, first = np.unique(edges.row, return_index=True)
        ends = question.ends(rows)
        stated: dict[int, set[int]] = {node: {node} for node in entities}
        if self.text_type:
            others = np.unique(ends)
            near = yield Neighbors(others)
            stated = {node: set() for node in others.tolist()}
            for owner, node in zip(others[near.owner].tolist(), near.node.tolist(), strict=True):
                stated[owner].add(node)
        facts = list[Fact]()
        for row, (source, target) in zip(rows.tolist(), ends.tolist(), strict=True):
            if self.text_type:
                inside = not question.typed(np.array([source, target]), (self.text_type,)).any()
                shared = stated[source] & stated[target] if inside else set[int]()
            else:
                shared = {source, target}
            if source != target and (self.text_type or shared <= likeness.keys()):
                facts += [Fact(source, target, likeness[chunk], chunk, row) for chunk in sorted(shared & likeness.keys())]
        return facts

    def _scored(self, question: Question, trees: list[list[Fact]], likeness: dict[int, float]) -> Algorithm[np.ndarray]:
        """Return the score of each tree: the relevance of its facts."""
        texts = list[str]()
        for tree in trees:
            told = yield EdgeTexts(np.array(sorted({fact.row for fact in tree}), np.int64))
            texts.append(". ".join(told))
        if question.reads_texts:
            chunks = np.array([tree[0].chunk for tree in trees], np.int64)
            return (yield Relevance(chunks, texts=texts, notes=question.notes))  # type: ignore[no-any-return]
        return np.array([max(fact.weight for fact in tree) for tree in trees])

    def _way(self, parents: dict[int, int], node: int) -> list[int]:
        """Return the nodes from one that was found before to a node."""
        way = [node]
        while parents[way[0]] >= 0:
            way.insert(0, parents[way[0]])
        return way


def connected(facts: list[Fact]) -> list[list[Fact]]:
    """Return the connected parts of a graph of facts, by their lowest edges.

    >>> [[fact.row for fact in part] for part in connected([Fact(0, 1, 0, 0, 5), Fact(2, 3, 0, 0, 6), Fact(1, 4, 0, 0, 7)])]
    [[5, 7], [6]]
    """
    home = {entity: entity for fact in facts for entity in fact[:2]}

    def top(entity: int) -> int:
        while home[entity] != entity:
            home[entity] = entity = home[home[entity]]
        return entity

    for fact in facts:
        home[top(fact.source)] = top(fact.target)
    parts: dict[int, list[Fact]] = {}
    for fact in facts:
        parts.setdefault(top(fact.source), []).append(fact)
    return list(parts.values())


def spanning_tree(facts: list[Fact]) -> list[Fact]:
    """Return a maximum spanning tree of a connected graph of facts, heaviest first (Kruskal).

    >>> [fact.row for fact in spanning_tree([Fact(0, 1, 0.2, 7, 0), Fact(0, 1, 0.9, 8, 0), Fact(1, 2, 0.5, 8, 1)])]
    [0, 1]
    """
    home = {entity: entity for fact in facts for entity in fact[:2]}

    def top(entity: int) -> int:
        while home[entity] != entity:
            entity = home[entity]
        return entity

    tree = list[Fact]()
    for place in best(np.array([fact.weight for fact in facts]), len(facts)).tolist():
        one, other = top(facts[place].source), top(facts[place].target)
        if one != other:
            home[one] = other
            tree.append(facts[place])
    return tree


def arranged(tree: list[Fact], stated: bool) -> list[int]:
    """Return the chunks of a tree in the order in which a depth first walk from its heaviest edge meets them.

    With `stated`, these are the chunks that state its facts; otherwise its nodes.
    """
    edges: dict[int, list[int]] = {}
    for number, fact in enumerate(tree):
        edges.setdefault(fact.source, []).append(number)
        edges.setdefault(fact.target, []).append(number)
    chunks, seen = list[int](), set[int]()
    # Of the heaviest edge the end whose chunk it is comes first, if it is one of the two.
    root = tree[0].target if tree[0].chunk == tree[0].target else tree[0].source
    stack: list[tuple[int, int]] = [(-1, root)]
    while stack:
        number, entity = stack.pop()
        if entity in seen:
            continue
        seen.add(entity)
        chunks += [tree[number].chunk] if stated and number >= 0 else [] if stated else [entity]
        # The heaviest edge is walked first.
        for other in reversed(edges[entity]):
            fact = tree[other]
            stack.append((other, fact.target if fact.source == entity else fact.source))
    return list(dict.fromkeys(chunks))


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
        return Pipeline(search, FactTrees("".join(types), hops=self.hops, candidates=self.candidates))
