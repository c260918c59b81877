"""Vectors of edges in PostgreSQL: the answers in memory, what changes leave, and what is refused."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from graph_retrievers import Edge, EgoGRAG, GraphIndex, GRetriever, LightRAG, Node, Retriever
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, MissingSignalError
from graph_retrievers.operators import FactSearch, GatedPropagation, Pipeline
from graph_retrievers.stores.changes import Changes
from graph_retrievers.stores.postgres import (
    PostgresCorpus,
    PostgresEdgeVectors,
    Written,
    open_index,
    read_index,
    update_index,
    write_index,
)
from graph_retrievers.stores.postgres.writer import write_graph
from tests.integration.test_postgres_changes import WORDS, document
from tests.integration.test_postgres_retrievers import CASES, IDS, odd_corpus, odd_filter, words_of
from tests.postgres import contents, drop
from tests.remote import told

pytestmark = pytest.mark.slow


class Letters:
    """Vectors of texts by their characters: many texts have the same, and some zeros. `asked` has the texts that were embedded."""

    name = "letters"

    def __init__(self, dimension=3, turn=0):
        self.dimension, self.turn, self.asked = dimension, turn, []

    def embed_query(self, text):
        number = sum(map(ord, text)) % 23
        return np.zeros(self.dimension).tolist() if number == 0 else self._drawn(number).tolist()

    def _drawn(self, number):
        return np.random.default_rng([number, self.turn]).normal(size=self.dimension)

    def embed_documents(self, texts):
        self.asked += texts
        return [self.embed_query(text) for text in texts]


def keywords(texts):
    """Keywords of questions: of both levels, of one, and none."""
    levels = {"high_level_keywords": texts[:1], "low_level_keywords": texts[1:]}
    return [levels, {"high_level_keywords": texts}, None]


MODES = (None, "global", "hybrid", "mix")
SYSTEMS = {
    "facts": FactSearch(6),
    "ends": FactSearch(6, returned=False),
    "spreading": Pipeline(FactSearch(3, returned=False), GatedPropagation()),
    "g-retriever": GRetriever(facts=True),
    "g-retriever, few": GRetriever(seeds=1, seed_edges=1, cost=0.1, candidates=4, facts=True),
    "ego-grag": EgoGRAG(),
    **{f"lightrag {mode} {facts}": LightRAG(mode=mode, facts=facts, top_k=5) for mode in MODES for facts in (False, True)},
}


def same(found, expected, what):
    """Whether answers have the same hits, facts, paths and scores."""
    for ours, theirs in zip(found, expected, strict=True):
        assert [(hit.kind, *each) for hit, each in zip(ours, told(ours), strict=True)] == [
            (hit.kind, *each) for hit, each in zip(theirs, told(theirs), strict=True)
        ], what
        np.testing.assert_allclose(
            [hit.score for hit in ours], [hit.score for hit in theirs], rtol=1e-5, atol=1e-5, err_msg=str(what)
        )
        # Whether a scope has edges is not known there.
        notes = [
            [note for note in hits.notes if not note.startswith(("round trips", "the scope has no edges"))]
            for hits in (ours, theirs)
        ]
        assert notes[0] == notes[1], what
        assert (ours.to_context(), ours.subgraph().edges) == (theirs.to_context(), theirs.subgraph().edges), what
    return sum(map(len, found))


@pytest.mark.parametrize("seed", range(CASES))
def test_random_graphs_give_the_answers_in_memory(postgres_server, seed, request):
    """For every system that reads vectors of edges, every filter, and a scope for each question."""
    nodes, edges, vectors = odd_corpus(seed)
    draw, model = random.Random(seed), Letters()
    index = GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine", embedding=model, edge_signals=True)
    database = postgres_server.open("random_edges")
    if seed == CASES - 1:
        request.addfinalizer(lambda: drop(postgres_server.open("random_edges")))
    name, found = IDS[seed % 7], 0
    with database:
        write_index(index, database, name, replace=True)
        remote = open_index(database, name, embedding=model)
        for label, system in SYSTEMS.items():
            if label.startswith("lightrag") and system.mode is not None and not edges:
                continue
            pair = [Retriever(each, system, k=4, backfill=False) for each in (remote, index)]
            texts = [words_of(draw, 3) for _ in range(3)]
            inputs = {"keywords": keywords([words_of(draw, 2) for _ in range(3)])} if label.startswith("lightrag") else {}
            odd = [odd_filter(draw, nodes) for _ in range(4)]
            filters = draw.choice(
                [
                    {},
                    {"filter": odd[0]},
                    {"seed_filter": odd[0], "filter": odd[1]},
                    {"traversal_filter": odd[0], "seed_filter": odd[1]},
                ]
            )
            batch = [each.retrieve_batch(texts, **filters, **inputs) for each in pair]
            found += same(*batch, (label, filters))
            one = {key: values[1] for key, values in inputs.items()}
            same([pair[0].retrieve(texts[1], **filters, **one)], [batch[1][1]], (label, filters))
            if label.startswith("lightrag None"):
                # The mode follows from the whole graph there.
                continue
            scopes = [odd[2], odd[3], odd[2]]
            same(*(each.retrieve_batch(texts, scope=scopes, **filters, **inputs) for each in pair), (label, filters, scopes))
    assert found or not edges


# -- changes ----------------------------------------------------------------------------------------------------------


def rebuilt(index, model, edges=None):
    """The index of the same nodes, and the same edges or others, built at once."""
    nodes, edges = [index.graph.node(row) for row in range(len(index))], index.graph.edges() if edges is None else edges
    return GraphIndex.from_nodes(nodes, edges, embedding=model, edge_signals=True, metric="cosine", bm25="en")


def edges_with_vectors(database, name):
    """The edges of an index in their order, each with the digest of what its vector is of, and the vector."""
    edges = sorted(contents(database, name)[1], key=lambda edge: edge[4])
    return [(*edge[:3], *edge[5:8], edge[8] and np.round(json.loads(edge[8]), 5).tolist()) for edge in edges]


@pytest.mark.parametrize("seed", range(12))
def test_any_changes_leave_what_one_write_leaves(postgres, seed, monkeypatch):
    """With update_index, and now and then with write_index; in blocks of a few edges."""
    monkeypatch.setattr("graph_retrievers.stores.postgres.edge_vectors._BLOCK", 4)
    draw, model = random.Random(seed), Letters(8)
    ids = [*IDS[:12], *(f"n{number}" for number in range(9))]
    ids = [name for name in ids if name.strip()]
    first = [document(draw, name) for name in draw.sample(ids, 9)]
    index = GraphIndex.from_nodes(first, embedding=model, bm25="en", metric="cosine")
    update_index(postgres, "works", upsert=first, embedding=model, bm25="en", edge_signals=True)
    for step in range(8):
        present = index.graph.ids
        gone = draw.sample(present, min(draw.choice([0, 0, 1, 3]), len(present) - 1))
        new = [document(draw, name) for name in draw.sample(ids, draw.choice([0, 1, 4]))]
        left = list(dict.fromkeys([*(name for name in present if name not in gone), *(node.id for node in new)]))
        ends = [(draw.choice(left), draw.choice(left)) for _ in range(draw.choice([0, 1, 6]))]
        edges = [
            Edge(a, b, draw.choice(["", "r", IDS[3]]), draw.choice([1.0, 0.1]), draw.choice(["", *WORDS]))
            for a, b in ends
            for _ in range(draw.choice([1, 2]))
        ]
        old = [edge for edge in index.graph.edges() if draw.random() < 0.2]
        old = [draw.choice([edge, (edge.source, edge.target), (edge.source, edge.target, edge.relation)]) for edge in old]
        change = {"upsert": new, "delete": gone, "add_edges": edges, "delete_edges": old}
        if draw.random() < 0.3 and any(node.metadata.get("source") == "a.md" for node in map(index.graph.node, range(len(index)))):
            change |= {"delete_sources": ["a.md"], "add_edges": [], "upsert": new or [document(draw, "n0")]}
        index = rebuilt(index.with_changes(**change), model)
        if draw.random() < 0.3:
            # Other texts for the same edges, and other vectors for the same texts.
            model = Letters(8, turn=draw.choice([model.turn, step]))
            edges = [replace(edge, text=draw.choice([edge.text, *WORDS[:2]])) for edge in index.graph.edges()]
            index = rebuilt(index, model, edges)
            write_index(index, postgres, "works", replace=True)
        else:
            update_index(postgres, "works", **change, embedding=model)
            asked_count = len(model.asked)
            update_index(postgres, "works", add_edges=[], embedding=model)
            assert len(model.asked) == asked_count
        write_index(index, postgres, "whole", replace=True)
        assert edges_with_vectors(postgres, "works") == edges_with_vectors(postgres, "whole"), step
    read, expected = read_index(postgres, "works"), rebuilt(index, model)
    assert read.graph.edges() == expected.graph.edges()
    assert ("edge_dense" in read.signals) and np.allclose(read.signal("edge_dense").vectors, expected.signal("edge_dense").vectors)


NODES = [Node("a", "A loom.", "Loom"), Node("b", "A card."), Node("c", "A mill."), Node("d", "A wheel.")]
EDGES = [Edge("a", "b", "reads"), Edge("b", "c", "", text="drawn"), Edge("c", "c", "turns"), Edge("a", "b", "reads")]


def test_only_texts_of_edges_that_changed_are_embedded(postgres):
    model = Letters(8)

    def asked(**change):
        model.asked.clear()
        update_index(postgres, "works", **change, embedding=model)
        return sorted(model.asked)

    assert asked(upsert=NODES, add_edges=EDGES, edge_signals=True)[3:] == ["Loom reads b"] * 2 + [
        "Loom. A loom.",
        "c turns c",
        "drawn",
    ]
    assert asked(upsert=[replace(NODES[0], metadata={"year": 1801})], add_edges=[]) == []
    assert asked(upsert=[replace(NODES[1], title="Card")]) == ["Card. A card.", "Loom reads Card", "Loom reads Card"]
    assert asked(delete_edges=[("b", "c", "")], add_edges=[Edge("b", "c", "", text="made")]) == ["made"]
    assert asked(add_edges=[Edge("a", "b", "reads", 2.0)]) == ["Loom reads Card"]
    assert asked(delete=["d"]) == asked(delete_edges=[("c", "c")]) == []
    assert asked(upsert=[Node("d", "")], add_edges=[("d", "d")]) == ["", "d d"]
    assert asked(delete=["b"]) == []
    assert [edge[:3] for edge in edges_with_vectors(postgres, "works")] == [("d", "d", "")]


def built(model, edges=EDGES, nodes=NODES, **options):
    return GraphIndex.from_nodes(nodes, edges, **{"embedding": model, "edge_signals": True, "metric": "cosine", **options})


def best(retriever):
    """The facts that a question finds."""
    return [(hit.id, round(hit.score, 4)) for hit in retriever.retrieve("loom") if hit.kind == "fact"]


def facts(database, model):
    return Retriever(open_index(database, "works", embedding=model), FactSearch(9), backfill=False)


def test_vectors_come_and_go_with_the_index_that_is_written(postgres):
    first, other = Letters(8), Letters(8, turn=1)
    write_index(built(first, edge_signals=False), postgres, "works")
    assert "edge_dense" not in open_index(postgres, "works", embedding=first).signals
    version = PostgresCorpus(postgres, "works").version
    # Each is seen by what was opened before the first. The last has other vectors of edges alone.
    retriever = None
    several = [Edge("a", "b", "reads", text="made"), *EDGES[1:]]
    indexes = [built(first), built(first, several), built(other, several, vectors=built(first).dense.vectors)]
    for index in indexes:
        write_index(index, postgres, "works")
        retriever = facts(postgres, index.embedding) if retriever is None else retriever
        version += 1
        assert PostgresCorpus(postgres, "works").version == version
        expected = built(index.embedding, index.graph.edges()).with_models(embedding=first)
        assert best(retriever) == best(Retriever(expected, FactSearch(9), backfill=False)) and len(best(retriever)) == 4
        write_index(index, postgres, "works")
        assert PostgresCorpus(postgres, "works").version == version
    # Without them, and of another width.
    write_index(built(first, edge_signals=False), postgres, "works")
    assert not PostgresCorpus(postgres, "works").edge_dimension and not contents(postgres, "works")[1][0][8]
    with pytest.raises(MissingSignalError, match="edge_dense"):
        facts(postgres, first).retrieve("loom")
    wide = Letters(5)
    write_index(built(wide), postgres, "works", replace=True)
    assert best(facts(postgres, wide)) == best(Retriever(built(wide), FactSearch(9), backfill=False))


def test_a_graph_that_is_written_by_texts_keeps_the_vectors_that_are_there(postgres):
    first, other = Letters(8), Letters(8, turn=1)
    other.name = "others"

    def write(model, edges, **options):
        def vectors(texts):
            return built(model, [], [Node(str(row), text) for row, text in enumerate(texts)], edge_signals=False).dense.vectors

        graph = built(model, edges).graph
        model.asked.clear()
        write_graph(graph, postgres, "works", vectors=vectors, embedding_name=model.name, **options)
        return [text for text in model.asked if "oom reads" in text or text in ("drawn", "made", "c turns c")]

    assert write(first, EDGES) == [] and not PostgresCorpus(postgres, "works").edge_dimension
    update_index(postgres, "works", edge_signals=True, embedding=first)
    assert best(facts(postgres, first)) == best(Retriever(built(first), FactSearch(9), backfill=False))
    changed = [*EDGES[:1], replace(EDGES[1], text="made"), *EDGES[2:]]
    assert write(first, changed) == ["made"] and write(first, changed) == []
    assert best(facts(postgres, first)) == best(Retriever(built(first, changed), FactSearch(9), backfill=False))
    # Of another model of the same width, or whose name is unknown, all are made anew.
    assert len(write(other, changed, replace=True)) == 4
    assert best(facts(postgres, other)) == best(Retriever(built(other, changed), FactSearch(9), backfill=False))
    assert len(write(Letters(5), changed, replace=True)) == 4
    assert PostgresCorpus(postgres, "works").edge_dimension == 5
    for turn in (2, 3):
        unnamed = Letters(5, turn)
        unnamed.name = ""
        assert len(write(unnamed, changed, replace=True)) == 4
    # Without a model, there are none.
    write_graph(built(first).graph, postgres, "works", replace=True)
    assert not PostgresCorpus(postgres, "works").edge_dimension and not contents(postgres, "works")[1][0][8]


def test_edges_get_vectors_of_an_index_that_has_none_only_if_asked(postgres):
    model = Letters(8)
    update_index(postgres, "works", upsert=NODES, add_edges=EDGES, embedding=model)
    update_index(postgres, "works", upsert=[Node("e", "A weft.")], add_edges=[("e", "a", "near")], embedding=model)
    assert not PostgresCorpus(postgres, "works").edge_dimension
    retriever = Retriever(open_index(postgres, "works", embedding=model), LightRAG(), backfill=False)
    assert str(retriever.retrieve("loom").notes).count("edge vectors") == 0
    assert update_index(postgres, "works", edge_signals=True, embedding=model) == Written(Changes(), Changes(), len(EDGES) + 1)
    # What is open follows.
    assert "1 to the store of edge vectors" in str(retriever.retrieve("loom").notes)
    expected = built(model, [*EDGES, ("e", "a", "near")], [*NODES, Node("e", "A weft.")])
    assert best(facts(postgres, model)) == best(Retriever(expected, FactSearch(9), backfill=False))
    # An index without edges has no facts, and its first edge has a vector.
    update_index(postgres, "bare", upsert=NODES, embedding=model, edge_signals=True)
    bare = Retriever(open_index(postgres, "bare", embedding=model), FactSearch(9), backfill=False)
    assert list(bare.retrieve("loom")) == []
    update_index(postgres, "bare", add_edges=EDGES[:1], embedding=model)
    assert len(bare.retrieve("loom")) == 3


def test_what_cannot_be_meant_is_refused_and_nothing_is_written(postgres):
    model, other = Letters(8), Letters(8)
    other.name = "others"
    update_index(postgres, "works", upsert=NODES, add_edges=EDGES, embedding=model, edge_signals=True)
    update_index(postgres, "words", upsert=NODES, add_edges=EDGES)
    update_index(postgres, "plain", upsert=NODES, add_edges=EDGES, embedding=model)
    whole = {name: contents(postgres, name) for name in ("works", "words", "plain")}
    edge, news = [("a", "c", "near")], [Node("e", "", embedding=np.ones(8)), Node("a", "A loom.", "Machine")]
    cases = [
        (
            MissingSignalError,
            r"1 edges have no vectors of their texts, such as 'Loom near c'; pass embedding=\.",
            {"add_edges": edge},
        ),
        (
            MissingSignalError,
            "2 edges have no vectors of their texts, such as 'Machine reads b'",
            {"upsert": [replace(news[1], embedding=np.ones(8))]},
        ),
        (InvalidArgumentError, "of the model 'letters', and embedding= is 'others'", {"add_edges": edge, "embedding": other}),
        (
            DimensionMismatchError,
            "vectors of edges of width 8, and embedding= makes some of width 5; pass",
            {"add_edges": edge, "embedding": Letters(5)},
        ),
    ]
    for kind, said, change in cases:
        with pytest.raises(kind, match=said):
            update_index(postgres, "works", **change)
    for name in ("words", "plain"):
        with pytest.raises(MissingSignalError, match="The texts of edges need a model to have vectors; pass embedding="):
            update_index(postgres, name, edge_signals=True)
    with pytest.raises(MissingSignalError, match=r"'words' of .* has no vectors of nodes.* write_index\(\.\.\., replace=True\)"):
        update_index(postgres, "words", edge_signals=True, embedding=model)
    with pytest.raises(InvalidArgumentError, match="of the model 'letters', and embedding= is 'others'"):
        update_index(postgres, "plain", edge_signals=True, embedding=other)
    with pytest.raises(InvalidArgumentError, match="dot products, and engines by cosine"):
        write_index(built(model, metric="dot"), postgres, "dots")
    with pytest.raises(InvalidArgumentError, match=r"'plain'\) has no vectors of edges; write an index that was built"):
        PostgresEdgeVectors(PostgresCorpus(postgres, "plain"))
    assert whole == {name: contents(postgres, name) for name in whole}
    # Where no text of an edge changes, no model is needed.
    update_index(postgres, "works", delete=["b"])
    update_index(postgres, "works", upsert=[news[0]])


# -- the store --------------------------------------------------------------------------------------------------------

# The vector of each text; of the last two, the cosines with the first are 1 - 2e-7 and 1 - 2e-5.
VECTORS = {"": [3, 4], "one": [1, 0], "zeros": [0, 0], "back": [-2, 0], "near": [1, 6e-4], "less": [1, 6e-3]}


def by_text(texts):
    return [VECTORS.get(text, [3, 4]) for text in texts]


def store_of(database, texts):
    """The store of edges with these texts."""
    edges = [Edge("a", "bc"[row % 2], f"r{row}", text=text) for row, text in enumerate(texts)]
    write_index(built(by_text, edges, NODES[:3]), database, "works", replace=True)
    return PostgresEdgeVectors(PostgresCorpus(database, "works"))


def nearest(store, k, *vectors):
    """The positions and cosines of the nearest edges of each vector."""
    found = store.nearest(np.array(vectors, np.float32), k)
    return [[(edge.position, pytest.approx(cosine, abs=1e-6)) for edge, cosine in each] for each in found]


def test_the_nearest_edges_have_their_cosines(postgres):
    store = store_of(postgres, ["one", "zeros", "back", "less"])
    asked = ([2, 0], [0, 1], [0, 0])
    less = 6e-3
    assert nearest(store, 9, *asked) == [
        [(0, 1), (3, 1 - 1.8e-5), (1, 0), (2, -1)],
        [(3, less), (0, 0), (1, 0), (2, 0)],
        [(0, 0), (1, 0), (2, 0), (3, 0)],
    ]
    assert [len(each) for each in store.nearest(np.array(asked, np.float32), 2)] == [2, 2, 2]
    assert store.nearest(np.zeros((0, 2), np.float32), 2) == []
    # In a scope both ends are in it.
    scoped = store.within(["a", "c"])
    assert nearest(scoped, 9, [1, 0]) == [[(3, 1 - 1.8e-5), (1, 0)]]
    assert nearest(scoped.within(["a", "b"]), 9, [1, 0]) == [[(0, 1), (2, -1)]]
    assert nearest(store.within([]), 9, [1, 0]) == nearest(store.within(["b", "nobody", "\x00"]), 9, [1, 0]) == [[]]
    edges = [edge for edge, _ in store.nearest(np.array([[1, 0]], np.float32), 9)[0]]
    assert (edges[0].source, edges[0].target, edges[0].relation, edges[0].text) == ("a", "b", "r0", "one")
    vectors = store.vectors(edges[:2])
    assert {position: vector.tolist() for position, vector in vectors.items()} == {
        0: [1, 0],
        3: pytest.approx([1, 6e-3], abs=1e-4),
    }


def test_of_ties_up_to_rounding_the_first_edges_are_found_at_once(postgres):
    texts = ["less", "near", "zeros", *["one"] * 300, "near"]
    store = store_of(postgres, texts)
    (best_edges,) = nearest(store, 3, [1, 0])
    assert sorted(position for position, _ in best_edges) == [1, 3, 4]
    (best_edges,) = nearest(store, 303, [1, 0])
    assert sorted(position for position, _ in best_edges) == [0, 1, *range(3, 304)]
    retriever = Retriever(open_index(postgres, "works", embedding=by_text), FactSearch(3), backfill=False)
    hits = retriever.retrieve("?", vector=[1.0, 0.0])
    assert [hit.path.relations for hit in hits if hit.kind == "fact"] == [("r1",), ("r3",), ("r4",)]
    assert "1 to the store of edge vectors" in hits.notes[-1]
    # With a filter that few pass, the search goes on.
    hits = retriever.retrieve("?", vector=[1.0, 0.0], filter={"$id": {"$ne": "b"}})
    assert [hit.path.relations for hit in hits if hit.kind == "fact"] == [("r1",), ("r3",), ("r5",)]
    assert len(retriever.retrieve("?", vector=[1.0, 0.0], filter={"$id": "b"})) == 0
    # What is nearer by less than rounding does not come first.
    store = store_of(postgres, [*["near"] * 5, "one", "one"])
    assert nearest(store, 3, [1, 0]) == [[(0, 1), (1, 1), (2, 1)]]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_read_has_the_vectors_that_are_stored(postgres, seed):
    """Without a model, and with one that embeds nothing again; with words of edges where they are asked for."""
    nodes, edges, vectors = odd_corpus(seed)
    index = built(Letters(), edges, nodes, vectors=vectors)
    write_index(index, postgres, "works")
    model = Letters()
    for options, others in (
        ({}, set()),
        ({"embedding": model}, set()),
        ({"embedding": model, "edge_signals": True}, {"edge_bm25"}),
    ):
        read = read_index(postgres, "works", **options)
        assert set(read.signals) == {"dense", "bm25", "edge_dense"} | others
        for name in {"edge_dense"} | others:
            ours, theirs = (each.signal(name).state()[0] for each in (read, index))
            for part in theirs:
                np.testing.assert_allclose(ours[part], theirs[part], rtol=1e-6, atol=1e-7)
        assert model.asked == []
    same(*(Retriever(each, SYSTEMS["facts"]).retrieve_batch(["loom", "\x00 Ada"]) for each in (read, index)), seed)
