"""A graph store and a vector store in memory, written out plainly, and a random corpus for them."""

from uuid import NAMESPACE_OID, uuid5

import numpy as np
import torch

from graph_retrievers import Edge, GraphIndex, Node
from graph_retrievers.graph.blank import BLANK, blank_nodes
from graph_retrievers.graph.filters import filter_mask, logger
from graph_retrievers.graph.names import name_words
from graph_retrievers.index.scope import induced_graph
from graph_retrievers.retrievers.protocol import EMPTY_SCOPE
from graph_retrievers.stores.remote import FetchedRows, RemoteIndex, StoredEdge, StoredNode, TitleMatch
from graph_retrievers.systems.traits import traits_of

ONE = np.ones(6, np.float32)


class MemoryGraph:
    """The graph of an index as a GraphStore; `asked` has the arguments of every round trip."""

    def __init__(self, graph):
        self.graph, self.asked, self.places = graph, [], list(range(len(graph)))
        self.edges = [StoredEdge(row, e.source, e.target, e.relation, e.weight, e.text) for row, e in enumerate(graph.edges())]

        self.near = {name: set() for name in graph.ids}
        for edge in self.edges:
            self.near[edge.source].add(edge.target)
            self.near[edge.target].add(edge.source)

    def within(self, scope):
        """A store of some nodes that answers with their positions in this one."""
        # A database evaluates filters without warnings.
        logger.disabled = True
        try:
            mask = filter_mask(self.graph, scope)
        finally:
            logger.disabled = False
        made = MemoryGraph(induced_graph(self.graph, mask.nonzero().flatten())[0])
        made.asked, made.places = self.asked, mask.nonzero().flatten().tolist()
        made.edges = [edge for edge in self.edges if edge.source in made.near and edge.target in made.near]
        return made

    def positions(self, limit):
        self.asked.append({"scope": [limit]})
        # The first, in no order of the graph.
        return dict(list(zip(self.graph.ids, self.places, strict=True))[: limit + 1][::-1])

    def node(self, row, text=False):
        g = self.graph
        more = (g.texts[row], g.origins[row]) if text else (None, None)
        degree = len(self.near[g.ids[row]] - {g.ids[row]})
        # As write_graph marks it.
        mark = {BLANK: True} if (blank := blank_nodes(g)) is not None and blank[row] else {}
        return StoredNode(g.ids[row], self.places[row], degree, g.titles[row], g.types[row], {**g.metadata[row], **mark}, *more)

    def sample(self, count):
        return len(self.graph), FetchedRows([self.node(row) for row in range(min(count, len(self.graph)))])

    def read(self, *, ids=(), positions=(), texts=(), expand=(), titles=(), names=(), limit):
        asked = {"ids": ids, "positions": positions, "texts": texts, "expand": expand, "titles": titles, "names": names}
        self.asked.append(asked)
        g = self.graph
        nodes = [self.node(row) for row, name in enumerate(g.ids) if name in ids or self.places[row] in positions]
        nodes += [self.node(row, True) for row, name in enumerate(g.ids) if name in texts or name in expand]
        keys = [" ".join(name_words(title or name, fold=True)) for title, name in zip(g.titles, g.ids, strict=True)]
        nodes += [self.node(row, True) for row, key in enumerate(keys) if key in names]
        edges = [edge for edge in self.edges if edge.source in expand or edge.target in expand]
        nodes += [self.node(g.row(name)) for edge in edges for name in (edge.source, edge.target)]
        titled = [
            TitleMatch(title, name)
            for title in titles
            for name, own in zip(g.ids, g.titles, strict=True)
            if own.strip().casefold() == title
        ]
        nodes += [self.node(g.row(name)) for _, name in titled]
        return FetchedRows(nodes[::-1], edges[: limit + 1][::-1], titled)

    def schema(self):
        types = dict(zip(self.graph.ids, self.graph.types, strict=True))
        return sorted(set(types.values())), sorted({(types[e.source], e.relation, types[e.target]) for e in self.edges})


class MemoryVectors:
    """Vectors as a VectorStore; ties come in the order of the store, which is not that of the graph."""

    def __init__(self, ids, vectors):
        self.held, self.asked = dict(zip(ids[::-1], np.asarray(vectors)[::-1], strict=True)), []

    def within(self, ids):
        made = type(self)([], [])
        made.held, made.asked = {name: self.held[name] for name in self.held if name in ids}, self.asked
        return made

    def search(self, vectors, k):
        self.asked.append(("search", k))
        names, table = list(self.held), np.stack(list(self.held.values()))
        table = table / np.linalg.norm(table, axis=1, keepdims=True)
        return [[names[i] for i in np.argsort(-(table @ vector), kind="stable")[:k]] for vector in vectors]

    def vectors(self, ids):
        self.asked.append(("vectors", len(ids)))
        return {name: self.held[name] for name in ids if name in self.held}


class ComparingVectors(MemoryVectors):
    """Vectors as a ComparingVectorStore."""

    def nearest(self, vectors, k):
        found = zip(vectors, self.search(vectors, k), strict=True)
        return [[(name, self._cosine(vector, name)) for name in names] for vector, names in found]

    def cosines(self, pairs):
        self.asked.append(("cosines", sum(len(ids) for _, ids in pairs)))
        return [{name: self._cosine(vector, name) for name in ids if name in self.held} for vector, ids in pairs]

    def _cosine(self, vector, name):
        lengths = np.linalg.norm(vector) * np.linalg.norm(self.held[name])
        return float(vector @ self.held[name] / lengths) if lengths else 0.0


class MemoryEdgeVectors:
    """The vectors of the edges of an index as an EdgeVectorStore; `asked` has every request."""

    def __init__(self, index, vectors, edges=None):
        self.index, self.held, self.dimension, self.asked = index, np.asarray(vectors), vectors.shape[1], []
        self.edges = MemoryGraph(index.graph).edges if edges is None else edges

    def within(self, ids):
        inside = [edge for edge in self.edges if edge.source in ids and edge.target in ids]
        made = type(self)(self.index, self.held, inside)
        made.asked = self.asked
        return made

    def nearest(self, vectors, k, *, exclude_types=()):
        self.asked.append(("nearest", k))
        types = dict(zip(self.index.graph.ids, self.index.graph.types, strict=True))
        edges = [edge for edge in self.edges if not {types[edge.source], types[edge.target]} & {*exclude_types}]
        return [self._nearest(vector, k, edges) for vector in vectors]

    def _nearest(self, vector, k, edges):
        cosines = [float(vector @ self.held[edge.position]) / np.linalg.norm(vector) for edge in edges]
        by_cosine = sorted(zip(edges, cosines, strict=True), key=lambda pair: -pair[1])
        if len(by_cosine) <= k:
            return by_cosine
        last = by_cosine[k - 1][1]
        better = [pair for pair in by_cosine if pair[1] > last + 1e-6]
        ties = sorted((pair for pair in by_cosine if abs(pair[1] - last) <= 1e-6), key=lambda pair: pair[0].position)
        return better + ties[: k - len(better)]

    def vectors(self, edges):
        self.asked.append(("vectors", len(edges)))
        return {edge.position: self.held[edge.position] for edge in edges}


class MemoryWords:
    """The BM25 of an index as a WordStore; ties come in the order of the ids. `asked` has every request."""

    def __init__(self, index):
        self.index, self.bm25, self.ids, self.asked = index, index.bm25, index.graph.ids, []

    def traits(self):
        return traits_of(self.index)

    def within(self, ids):
        made = MemoryWords(self.index)
        rows = [row for row, name in enumerate(self.ids) if name in ids]
        made.bm25, made.ids = self.bm25.restricted(torch.tensor(rows), None), [self.ids[row] for row in rows]
        made.asked = self.asked
        return made

    def search(self, texts, k):
        self.asked.append(("search", len(texts), k))
        scores, rows = self.bm25.search(texts, len(self.ids))
        found = [
            [(self.ids[r], s) for r, s in zip(row, score, strict=True) if r >= 0]
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
        ]
        return [sorted(each, key=lambda pair: (-pair[1], pair[0]))[:k] for each in found]

    def term_scores(self, pairs):
        self.asked.append(("term_scores", len(pairs)))
        found = []
        for text, ids in pairs:
            rows = torch.tensor([self.ids.index(name) for name in ids])
            terms = self.bm25.term_scores([text], torch.zeros_like(rows), rows)
            found.append([{n: s for n, s in zip(ids, column, strict=True) if s} for column in terms.T.tolist()])
        return found


WORDS = [f"word{i}" for i in range(30)]


def random_corpus(seed, count=60, edges=150, dimension=6, ties=True):
    """Nodes, edges, vectors: ties of vectors and texts, names in some, a hub, parallel edges, self loops, isolated nodes."""
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(count, dimension))
    if ties:
        vectors[count // 2 :: 3] = vectors[0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nodes = [
        Node(
            str(uuid5(NAMESPACE_OID, f"node {row}")),
            _text(draw.choice(WORDS, 6), row % 4 == 1),
            f"Title {row // 2}" if row % 5 else "",
            ("film", "person", "place")[row % 3],
            {"year": int(draw.integers(1990, 2000)), "tags": ["a", "b"][: row % 3]} if row % 7 else {},
        )
        for row in range(count)
    ]
    joined = count - count // 8
    ends = draw.integers(0, joined, size=(edges, 2)).tolist() + [[0, n] for n in range(1, joined // 2)] + [[1, 2], [2, 1], [3, 3]]
    made = [
        Edge(nodes[a].id, nodes[b].id, f"r{i % 4}", weight=float(draw.integers(1, 4)), text=f"edge {i}" if i % 3 == 0 else "")
        for i, (a, b) in enumerate(ends)
    ]
    return nodes, [*made, made[0], made[0]], vectors.astype(np.float32)


def _text(words, named):
    return f"see {words[0].title()} {words[1].title()} or {' '.join(words[2:])}" if named else " ".join(words)


class CountingRelevance:
    """A fake relevance model with many ties, which counts how often it sees each pair."""

    def __init__(self):
        self.seen = {}

    def __call__(self, pairs):
        for pair in pairs:
            self.seen[pair] = self.seen.get(pair, 0) + 1
        return [float(sum(word in text for word in query.split())) + len(text) % 3 for query, text in pairs]


QUESTIONS = ["word1 word2 word3", "word4 word5", "word6 word7 word8 word9", "nothing of it"]


def index_of(corpus, relevance=None, **options):
    nodes, edges, vectors = corpus
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine", relevance=relevance, **options)


def question_vectors(corpus, seed=0):
    draw = np.random.default_rng(seed)
    own = draw.normal(size=(len(QUESTIONS), corpus[2].shape[1])).astype(np.float32)
    own[1] = corpus[2][0]
    return own


def told(hits):
    """What must be the same: ids, scores, operators, paths, contents."""
    return [(h.id, h.operator, h.path, h.text, h.title, h.type, dict(h.metadata)) for h in hits]


def assert_same(remote, local):
    assert len(remote) == len(local)
    for ours, theirs in zip(remote, local, strict=True):
        assert told(ours) == told(theirs)
        np.testing.assert_allclose([h.score for h in ours], [h.score for h in theirs], rtol=1e-6, atol=1e-6)
        assert [h.ranks for h in ours] == [h.ranks for h in theirs]
        if theirs.notes == (EMPTY_SCOPE,):
            assert ours.notes == theirs.notes
        else:
            # Whether a scope has edges is not known there, and so neither that signals over edges have nothing to find.
            expected = tuple(note for note in theirs.notes if not note.startswith("the scope has no edges"))
            unknown = () if expected == theirs.notes else ("edges have no prizes",)
            assert tuple(note for note in ours.notes[:-1] if not note.startswith(unknown)) == expected
            assert ours.notes[-1].startswith("round trips: ")
        assert ours.to_context() == theirs.to_context()
        near = [[np.nan if h.similarity is None else h.similarity for h in hits] for hits in (ours, theirs)]
        np.testing.assert_allclose(*near, rtol=0, atol=1e-6)


def engines(corpus, **options):
    index = index_of(corpus, CountingRelevance())
    graph, vectors = MemoryGraph(index.graph), MemoryVectors(index.graph.ids, corpus[2])
    options = {"relevance": CountingRelevance(), "vectors": vectors, "signals": {"bm25": index.bm25}, **options}
    return index, graph, vectors, RemoteIndex(graph, **options)


class Letters:
    def embed_query(self, text):
        return np.random.default_rng(len(text)).normal(size=6).tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]
