"""Signals: the contract, signals of one's own, signals over edges, and what saving, moving and updating makes of them."""

import random

import numpy as np
import pytest
import torch

from graph_retrievers.core.driver import run
from graph_retrievers.core.requests import LowestEdgeScore, NearestEdges
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, MissingSignalError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, EntityLinking, FactSearch, GatedPropagation, HybridSearch, Pipeline, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.signal import Signal, VectorSignal
from tests.helpers import HashEmbedding, linked_edges, linked_index, linked_nodes
from tests.rankings import ranked
from tests.retrievers import FUSED_SPREADING

QUESTIONS = ["who wrote a program for an engine", "punched cards", "codebreakers at Bletchley Park", "zebra"]


class Store(VectorSignal):
    """Vectors in an external store, reached by an address; counts what it is asked."""

    kind = "store"
    STORES = {}

    def __init__(self, address):
        self.address, self.vectors = address, np.asarray(self.STORES[address], np.float32)
        self.dimension = self.vectors.shape[1]
        self.searches, self.pairs = [], 0

    def __len__(self):
        return len(self.vectors)

    def search(self, queries, k, allowed=None):
        self.searches.append((len(queries), k))
        scores = np.asarray(queries.cpu()) @ self.vectors.T
        if allowed is not None:
            scores = np.where(allowed.cpu().numpy(), scores, -np.inf)
        # Equal products may differ in their last bits; they go to the lower row.
        rows = np.argsort(-scores.round(5), axis=1, kind="stable")[:, : min(k, len(self))]
        values = torch.from_numpy(np.take_along_axis(scores, rows, 1))
        return values, torch.where(values > -torch.inf, torch.from_numpy(rows), -1)

    def scores(self, queries, batch, rows):
        self.pairs += len(rows)
        pairs = zip(np.asarray(queries.cpu())[batch.cpu()], self.vectors[rows.cpu()], strict=True)
        return torch.tensor([float(query @ vector) for query, vector in pairs])

    def state(self):
        return {}, {"address": self.address}

    @classmethod
    def restore(cls, tensors, settings, device=None):
        return cls(settings["address"])

    def to(self, device):
        return self


@pytest.fixture
def stored():
    """The linked corpus twice: with vectors in memory, and in a store."""
    memory = linked_index()
    Store.STORES["here"] = memory.dense.vectors.tolist()
    store = Store("here")
    return memory, GraphIndex(memory.graph, {"dense": store, "bm25": memory.bm25}, embedding=HashEmbedding()), store


def same(left, right):
    for ours, theirs in zip(left, right, strict=True):
        assert [(hit.id, hit.operator, hit.path) for hit in ours] == [(hit.id, hit.operator, hit.path) for hit in theirs]
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs], abs=1e-5)
        assert ours.notes == theirs.notes


# -- a signal of one's own --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["vector", "hybrid", "fastinsight", "gar", "re2", "spreading", FUSED_SPREADING, "ppr", "walk-fusion", "mor"]
)
def test_a_store_takes_the_place_of_vectors_in_every_retriever(stored, name):
    memory, outside, store = stored
    for options in ({}, {"filter": {"topic": "machines"}}, {"seed_filter": {"year": {"$lt": 1900}}}):
        expected, found = (Retriever(index, name).retrieve_batch(QUESTIONS, 7, **options) for index in (memory, outside))
        same(expected, found)
    assert store.searches or store.pairs


def test_a_store_takes_the_place_of_vectors_in_entity_linking(stored):
    memory, outside, store = stored
    # No name stands in the question, so that its vector is searched; or the entity's is.
    for entities in (None, [["a tabulating company"]]):
        inputs = None if entities is None else {"entities": entities}
        found = [
            ranked(EntityLinking(budget=3), Queries.of(index, "which company grew?", inputs=inputs)) for index in (memory, outside)
        ]
        assert found[0].nodes.tolist() == found[1].nodes.tolist() and found[0].lengths().tolist() != [0]
        assert found[0].scores.tolist() == [pytest.approx(row, abs=1e-6) for row in found[1].scores.tolist()]
    assert store.searches


def test_fastinsight_reads_the_bi_encoder_from_the_store(stored):
    memory, outside, store = stored
    assert isinstance(outside.relevance, BiEncoder)
    queries = [Queries.of(index, QUESTIONS[:2]) for index in (memory, outside)]
    latents = [batch.pair_latents(np.array([0, 0, 1, 1, 1]), np.array([0, 5, 3, 2, 1])) for batch in queries]
    assert latents[1].shape == (5, 1)
    assert torch.allclose(latents[0], latents[1], atol=1e-6)
    # Texts are not embedded again: the store's vectors are those of the nodes.
    assert outside.embedding.document_calls == 0


def test_a_store_needs_search_and_scores_alone(stored):
    memory, _, store = stored
    queries = memory.dense.vectors[:3]
    assert torch.allclose(store.table(queries), memory.dense.table(queries), atol=1e-6)
    assert store.norms.tolist() == [1.0] * 12
    with pytest.raises(InvalidArgumentError, match="Store cannot follow a change"):
        store.updated(["x"], torch.tensor([-1]), None)


def test_the_table_of_a_store_that_does_not_match_all_rows():
    class Partial(Store):
        def search(self, queries, k, allowed=None):
            scores, rows = super().search(queries, k, allowed)
            return scores.masked_fill(scores <= 0, -torch.inf), torch.where(scores > 0, rows, -1)

    Store.STORES["partial"] = [[1.0], [-1.0], [0.5]]
    assert Partial("partial").table(torch.tensor([[1.0], [-1.0]])).tolist() == [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]


def test_single_scores_where_a_table_would_be_too_large(stored, monkeypatch):
    from graph_retrievers.search import queries as module

    _, outside, store = stored
    batch, rows = torch.tensor([[0, 1], [1, 0]]), torch.tensor([[3, 4], [5, 6]])
    expected = Queries.of(outside, QUESTIONS[:2]).scores(batch, rows)
    assert store.pairs == 0
    monkeypatch.setattr(module, "_TABLE_LIMIT", 1)
    queries = Queries.of(outside, QUESTIONS[:2])
    assert queries.table() is None
    assert torch.allclose(queries.scores(batch, rows), expected, atol=1e-6) and store.pairs == 4


def test_a_saved_store_is_given_again(stored, tmp_path):
    memory, outside, store = stored
    outside.save(tmp_path / "index")
    with pytest.raises(MissingSignalError, match=r"'dense' of .* is a 'store'; pass it as signals=\{'dense': \.\.\.\}"):
        GraphIndex.load(tmp_path / "index")
    loaded = GraphIndex.load(tmp_path / "index", embedding=HashEmbedding(), signals={"dense": store})
    assert loaded.dense is store
    same(*(Retriever(index, "fastinsight").retrieve_batch(QUESTIONS, 5) for index in (memory, loaded)))


# -- any number of signals --------------------------------------------------------------------------------------------


def test_signals_are_searched_by_name(stored):
    memory, _, store = stored
    words = BM25(memory.graph.titles)
    index = GraphIndex(
        memory.graph, {"dense": memory.dense, "store": store, "titles": words, "bm25": memory.bm25}, embedding=HashEmbedding()
    )
    assert list(index.signals) == ["dense", "store", "titles", "bm25"]
    by_title = Retriever(index, BM25Search(signal="titles"), backfill=False).retrieve("Park of Colossus")
    assert [hit.id for hit in by_title] == ["colossus", "bletchley"]
    by_store = Retriever(index, VectorSearch(signal="store")).retrieve_batch(QUESTIONS, 5)
    same(Retriever(index, VectorSearch()).retrieve_batch(QUESTIONS, 5), by_store)
    assert store.searches == [(4, 5)]
    # A mixture of kinds: words by the operator of vectors.
    assert [hit.id for hit in Retriever(index, VectorSearch(signal="titles"), backfill=False).retrieve("Colossus")] == ["colossus"]
    queries = Queries.of(index, QUESTIONS[:1])
    assert queries.view("titles") == QUESTIONS[:1] and queries.view("store").shape == (1, 64)
    assert queries.table("titles").shape == (1, 12)
    assert queries.scores(torch.tensor([0]), torch.tensor([1]), "titles").tolist() == [float(queries.table("titles")[0, 1])]


def test_a_missing_signal_says_how_to_build_it_and_what_there_is():
    index = GraphIndex.from_texts(["a loom"])
    for name, hint in [
        ("dense", r"no vectors; build it with embedding= or vectors=\. Signals it has: bm25"),
        ("edge_dense", "no signal 'edge_dense'; build it with edge_signals=True"),
        ("mine", r"no signal 'mine'; pass it in signals="),
    ]:
        with pytest.raises(MissingSignalError, match=hint):
            index.signal(name)
    with pytest.raises(MissingSignalError, match="no BM25 scores; build it with bm25=True. Signals it has: none"):
        GraphIndex.from_texts(["a loom"], bm25=False).bm25.search(["loom"], 1)
    assert (index.has_dense, index.has_bm25) == (False, True)


def test_what_is_no_signal_is_refused():
    graph = CorpusGraph(["a", "b"], ["", ""], edges=[("a", "b")])
    with pytest.raises(InvalidArgumentError, match="Signal 'dense' is a list; expected a Signal"):
        GraphIndex(graph, {"dense": [[1.0], [2.0]]})
    with pytest.raises(DimensionMismatchError, match="Signal 'dense' covers 1 nodes, the graph has 2"):
        GraphIndex(graph, {"dense": DenseIndex([[1.0]])})
    with pytest.raises(DimensionMismatchError, match="Signal 'edge_dense' covers 2 edges, the graph has 1"):
        GraphIndex(graph, {"edge_dense": DenseIndex([[1.0], [1.0]], covers="edges")})
    for name in ("dense", "bm25"):
        with pytest.raises(InvalidArgumentError, match=f"Signal '{name}' covers edges; give it another name"):
            GraphIndex(graph, {name: DenseIndex([[1.0]], covers="edges")})
    index = GraphIndex(graph, {"dense": BM25(["a loom", "b"])})
    with pytest.raises(MissingSignalError, match="'dense' is a BM25; expected a VectorSignal"):
        index.dense  # noqa: B018
    with pytest.raises(TypeError):
        Signal()


def test_the_mapping_of_signals_is_copied():
    signals = {"bm25": BM25(["a loom"])}
    index = GraphIndex(CorpusGraph(["a"], ["a loom"]), signals)
    signals.clear()
    assert index.has_bm25


# -- the same contract for all ----------------------------------------------------------------------------------------

TEXTS = ["red apple pie", "green apple", "blue sea", "", "red sea", "apple apple"]


def vectors_of(texts):
    return torch.tensor(HashEmbedding(16).embed_documents(texts))


MAKE = {
    "dense": lambda texts, device="cpu": DenseIndex(vectors_of(texts), device=torch.device(device)),
    "edges": lambda texts, device="cpu": DenseIndex(vectors_of(texts), device=torch.device(device), covers="edges"),
    "bm25": lambda texts, device="cpu": BM25(texts, device=torch.device(device), k1=1.2, b=0.5, stopwords=None),
    "bm25 of edges": lambda texts, device="cpu": BM25(texts, device=torch.device(device), covers="edges"),
}
WORDS = ["red apple", "sea", "zebra"]


def asked(signal, device="cpu"):
    queries = vectors_of(WORDS).to(device) if signal.reads == "vector" else WORDS
    scores, rows = signal.search(queries, 4)
    return scores.tolist(), rows.tolist(), signal.table(queries).tolist()


@pytest.mark.parametrize("name", MAKE)
def test_search_table_and_scores_agree(name, device):
    signal = MAKE[name](TEXTS, device)
    queries = vectors_of(WORDS).to(device) if signal.reads == "vector" else WORDS
    table = signal.table(queries)
    assert table.shape == (3, 6) and len(signal) == 6
    batch, rows = (grid.flatten() for grid in torch.meshgrid(torch.arange(3), torch.arange(6), indexing="ij"))
    batch, rows = batch.to(device), rows.to(device)
    assert signal.scores(queries, batch, rows).tolist() == pytest.approx(table[batch, rows].tolist(), abs=1e-6)
    allowed = torch.tensor([True, True, False, True, True, False], device=device)
    for k, mask in [(3, None), (9, None), (3, allowed), (9, allowed)]:
        scores, found = signal.search(queries, k, mask)
        assert scores.shape == found.shape == (3, min(k, 6))
        for b in range(3):
            real = [row for row in found[b].tolist() if row >= 0]
            assert found[b].tolist() == real + [-1] * (found.shape[1] - len(real))
            assert scores[b].tolist()[: len(real)] == pytest.approx([float(table[b, row]) for row in real], abs=1e-6)
            assert all(score == float("-inf") for score in scores[b].tolist()[len(real) :])
            pool = [row for row in range(6) if mask is None or bool(mask[row])]
            if signal.reads == "text":
                pool = [row for row in pool if float(table[b, row]) > 0]
            assert real == sorted(pool, key=lambda row: (-round(float(table[b, row]), 5), row))[:k]


@pytest.mark.parametrize("name", MAKE)
def test_a_state_gives_the_signal_back(name, device):
    signal = MAKE[name](TEXTS)
    tensors, settings = signal.state()
    assert all(isinstance(tensor, torch.Tensor) for tensor in tensors.values())
    again = type(signal).restore(tensors, settings, torch.device(device))
    assert asked(again, device) == asked(signal) and repr(again) == repr(signal)
    assert again.covers == signal.covers == settings["covers"]
    moved = signal.to(torch.device(device))
    assert asked(moved, device) == asked(signal) and moved.covers == signal.covers


@pytest.mark.parametrize("name", MAKE)
def test_an_updated_signal_equals_a_fresh_one(name):
    generator = random.Random(3)
    for _ in range(15):
        new = [generator.choice([*TEXTS, "blue pie", "a red zebra", "pear"]) for _ in range(generator.randint(1, 9))]
        kept = torch.tensor([TEXTS.index(text) if text in TEXTS else -1 for text in new])
        embedded = []

        def embed(texts, embedded=embedded):
            embedded.extend(texts)
            return vectors_of(texts)

        signal = MAKE[name](TEXTS)
        before = asked(signal)
        updated = signal.updated(new, kept, embed)
        assert asked(updated) == asked(MAKE[name](new)) and repr(updated) == repr(MAKE[name](new))
        assert asked(signal) == before, "the signal itself does not change"
        # Only what is new is embedded, and nothing for words.
        assert embedded == ([text for text in new if text not in TEXTS] if signal.reads == "vector" else [])


def test_new_vectors_of_another_width_are_refused():
    with pytest.raises(DimensionMismatchError, match="new vectors"):
        MAKE["dense"](TEXTS).updated(["x"], torch.tensor([-1]), lambda texts: torch.ones(len(texts), 3))


def test_any_set_of_signals_is_saved_and_loaded(tmp_path, device):
    graph = CorpusGraph.from_nodes(linked_nodes(), linked_edges())
    signals = {
        "titles": BM25(graph.titles),
        "dense": DenseIndex(HashEmbedding().embed_documents(graph.contents())),
        "second": DenseIndex(HashEmbedding(8).embed_documents(graph.texts)),
        "edge_bm25": BM25(graph.edge_contents(), covers="edges"),
    }
    index = GraphIndex(graph, signals, embedding=HashEmbedding())
    index.save(tmp_path / "index")
    loaded = GraphIndex.load(tmp_path / "index", embedding=HashEmbedding(), device=device)
    assert list(loaded.signals) == list(signals)
    for name, signal in signals.items():
        other = loaded.signal(name)
        assert type(other) is type(signal) and repr(other) == repr(signal)
        (ours, settings), (theirs, own) = other.state(), signal.state()
        assert settings == own and ours.keys() == theirs.keys()
        assert all(ours[key].device.type == device and torch.equal(ours[key].cpu(), theirs[key]) for key in ours)
    # A signal that is given takes the place of the saved one, or joins the others.
    given = {"titles": BM25(graph.texts), "new": BM25(graph.ids)}
    replaced = GraphIndex.load(tmp_path / "index", signals=given)
    assert replaced.signal("titles") is given["titles"] and replaced.signal("new") is given["new"]
    assert set(replaced.signals) == {*signals, "new"}


# -- signals over edges -----------------------------------------------------------------------------------------------

PEOPLE = [Node("ada", "", "Ada"), Node("bo", "", "Bo"), Node("cy", "", "Cy"), Node("di", "", "Di")]
FACTS = [
    Edge("ada", "bo", "knows", text="Ada met Bo at a party in Turin."),
    Edge("bo", "cy", "employs"),
    Edge("cy", "di", "knows", text="Cy wrote letters to Di."),
    Edge("ada", "di", "paid", text="Ada paid for a party of Di."),
]


def people(**options):
    return GraphIndex.from_nodes(PEOPLE, FACTS, edge_signals=True, **{"embedding": HashEmbedding(), **options})


def test_edges_get_signals_of_their_own():
    index = people()
    assert list(index.signals) == ["dense", "bm25", "edge_bm25", "edge_dense"]
    assert [index.signal(name).covers for name in index.signals] == ["nodes", "nodes", "edges", "edges"]
    contents = ["Ada met Bo at a party in Turin.", "Bo employs Cy", "Cy wrote letters to Di.", "Ada paid for a party of Di."]
    assert torch.allclose(index.signal("edge_dense").vectors, torch.tensor(HashEmbedding().embed_documents(contents)))
    assert index.signal("edge_bm25").search(["employs"], 2)[1].tolist() == [[1, -1]]
    assert list(people(embedding=None).signals) == ["bm25", "edge_bm25"]


@pytest.mark.parametrize("model", [None, HashEmbedding()])
def test_signals_over_edges_begin_without_edges(model, tmp_path):
    bare = GraphIndex.from_nodes(PEOPLE, edge_signals=True, embedding=model)
    bare.save(tmp_path / "bare")
    for index in (bare, GraphIndex.load(tmp_path / "bare", embedding=model)):
        changed, fresh = index.with_changes(add_edges=FACTS), people(embedding=model)
        assert [repr(signal) for signal in changed.signals.values()] == [repr(signal) for signal in fresh.signals.values()]
        for name, signal in fresh.signals.items():
            queries = Queries.of(fresh, ["a party", "employs"]).view(name)
            assert torch.equal(changed.signal(name).table(queries), signal.table(queries))
        none = changed.with_changes(delete_edges=FACTS)
        assert list(none.signals) == list(bare.signals) == list(index.signals)


@pytest.mark.parametrize("name", ["hipporag", "g-retriever", "lightrag", "pathrag", "hybrid"])
def test_retrievers_on_signals_over_no_edges_find_nodes_only(name):
    plain, bare = (GraphIndex.from_nodes(PEOPLE, embedding=HashEmbedding(), edge_signals=asked) for asked in (False, True))
    found, other = (Retriever(index, name).retrieve("a party") for index in (bare, plain))
    assert [(hit.id, hit.score) for hit in found] == [(hit.id, hit.score) for hit in other]
    assert Retriever(bare, FactSearch(), backfill=False).retrieve("a party") == []


@pytest.mark.parametrize("signal", ["edge_bm25", "edge_dense"])
def test_facts_are_found_and_their_ends_are_seeds(signal):
    index = people()
    hits = Retriever(index, FactSearch(2, signal=signal), backfill=False).retrieve("a party")
    scores = index.signal(signal).table(Queries.of(index, "a party").view(signal))[0].tolist()
    best = sorted(range(4), key=lambda row: (-scores[row], row))[:2]
    assert signal == "edge_dense" or sorted(best) == [0, 3]
    read = [edge.text or f"{edge.source.title()} -[{edge.relation}]-> {edge.target.title()}" for edge in FACTS]
    assert [hit.text for hit in hits.facts] == [read[row] for row in best]
    assert [hit.score for hit in hits.facts] == pytest.approx([scores[row] for row in best])
    assert [hit.edge for hit in hits.facts] == [FACTS[row] for row in best]
    # A node scores what its best fact scores; equal ones go by row.
    level = {}
    for row in best:
        for end in (FACTS[row].source, FACTS[row].target):
            level[end] = max(level.get(end, -1.0), scores[row])
    order = sorted(level, key=lambda node: (-level[node], index.graph.row(node)))
    assert [(hit.id, hit.path.nodes) for hit in hits.nodes] == [(node, (node,)) for node in order]
    assert [hit.score for hit in hits.nodes] == pytest.approx([level[node] for node in order])


def test_facts_keep_to_the_filters():
    retriever = Retriever(people(), FactSearch(signal="edge_bm25"), backfill=False)
    hits = retriever.retrieve("a party", filter={"$id": {"$ne": "bo"}})
    assert [hit.text for hit in hits.facts] == [FACTS[3].text] and {hit.id for hit in hits.nodes} == {"ada", "di"}
    hits = retriever.retrieve("a party", seed_filter={"$id": {"$ne": "di"}})
    assert [hit.text for hit in hits.facts] == [FACTS[0].text]
    assert retriever.retrieve("zebra") == []
    # Facts that only begin a walk may end at nodes that are not returned; they are not shown.
    walk = Pipeline(FactSearch(signal="edge_bm25", returned=False), GatedPropagation(gate="uniform", steps=1))
    hits = Retriever(people(), walk, backfill=False).retrieve("a party", filter={"$id": "cy"})
    assert [(hit.id, hit.kind) for hit in hits] == [("cy", "node")]


def test_facts_travel_behind_what_follows_them():
    walk = Pipeline(FactSearch(1, signal="edge_bm25"), GatedPropagation(gate="uniform", steps=1))
    hits = Retriever(people(), walk, backfill=False).retrieve("letters")
    assert [hit.text for hit in hits.facts] == [FACTS[2].text]
    assert {hit.id: hit.path.nodes for hit in hits.nodes}["bo"] == ("cy", "bo")


def test_facts_that_only_begin_a_walk_are_not_hits_beyond_k():
    walk = Pipeline(FactSearch(2, signal="edge_bm25", returned=False), GatedPropagation(gate="uniform", steps=1))
    hits = Retriever(people(), walk, k=2, backfill=False).retrieve("a party")
    assert [hit.kind for hit in hits] == ["node", "node"]


def test_a_batch_of_facts_is_what_its_queries_are_alone():
    retriever = Retriever(people(), FactSearch(3), backfill=False)
    questions = ["a party", "letters", "who employs whom", "zebra"]
    same(retriever.retrieve_batch(questions), [retriever.retrieve(question) for question in questions])


def test_the_lowest_score_of_edges_is_told(monkeypatch):
    index = people()
    vectors = torch.linspace(-2, 1, index.signal("edge_dense").dimension)[None]
    scores = index.signal("edge_dense").table(vectors)[0]

    def lowest(index, **filters):
        queries = Queries.of(index, ["letters"], vectors=vectors, **filters)
        return run(MemoryBackend(queries), [alone(LowestEdgeScore("edge_dense"))])[0]

    assert lowest(index) == pytest.approx(float(scores.min())) and scores.min() < 0
    # Where no table of all scores is kept, each question has its own.
    queries = Queries.of(index, ["letters", "a party", "letters"], vectors=torch.cat([vectors, -vectors, vectors]))
    for kept in (True, False):
        if not kept:
            monkeypatch.setattr(Queries, "table", lambda self, name: None)
        lows = run(MemoryBackend(queries), [alone(LowestEdgeScore("edge_dense")) for _ in range(3)])
        assert lows == pytest.approx([float(scores.min()), -float(scores.max()), float(scores.min())])
    lists = run(MemoryBackend(queries), [alone(NearestEdges(k, "edge_dense")) for k in (1, 3, 2)])
    assert [len(rows) for rows, _ in lists] == [1, 3, 2]
    # Where there is none it is 0.
    assert lowest(index, seed_filter={"$id": "nobody"}) == 0
    assert lowest(GraphIndex.from_nodes(PEOPLE, [], edge_signals=True, embedding=HashEmbedding())) == 0


def alone(request):
    return (yield request)


def test_facts_are_searched_in_signals_over_edges_only():
    with pytest.raises(InvalidArgumentError, match="the signal 'dense' covers nodes"):
        Retriever(people(), FactSearch(signal="dense")).retrieve("a party")
    with pytest.raises(MissingSignalError, match="edge_signals=True"):
        Retriever(linked_index(), FactSearch()).retrieve("a party")
    with pytest.raises(InvalidArgumentError, match="limit must be"):
        FactSearch(0)


@pytest.mark.parametrize("operator", [VectorSearch(signal="edge_dense"), BM25Search(signal="edge_bm25")], ids=["vectors", "words"])
def test_nodes_are_not_searched_in_signals_over_edges(operator):
    # Row 3 of the edges is not node 3: such rows must never be taken for nodes.
    with pytest.raises(InvalidArgumentError, match="covers edges; FactSearch searches those"):
        Retriever(people(), operator).retrieve("a party")


def test_hybrid_search_reads_dense_and_words():
    index = linked_index()
    only = Retriever(index, HybridSearch(weights=(0, 1)), backfill=False).retrieve("punched cards")
    assert {hit.id for hit in only} == {"cards", "jacquard", "hollerith"}


def test_the_bar_of_bm25_is_shown_where_it_is_asked_for_and_says_what_it_is(capsys):
    texts = ["a loom", "a card"] * 600
    BM25(texts)
    assert capsys.readouterr().err == ""
    words = BM25(texts, show_progress=True).tokenize(texts)
    shown = capsys.readouterr().err
    assert "BM25" in shown and "1200/1200" in shown and "Split" not in shown and len(words) == 1200


def test_bm25_without_words_follows():
    texts = ["loom card", "", "loom"]
    updated = BM25(["", "a"]).updated(texts, torch.tensor([-1, 0, -1]), vectors_of)
    assert torch.equal(updated.table(["loom card"]), BM25(texts).table(["loom card"]))


@pytest.mark.parametrize("size", [1, 3, 7, 1 << 16])
def test_bm25_scores_are_those_of_bm25s_to_the_bit_in_pieces_of_any_size(monkeypatch, size):
    import bm25s

    generator = random.Random(size)
    texts = [
        " ".join(generator.choices(["loom", "card", "engine", "cipher", "drum"], k=generator.randint(0, 9))) for _ in range(30)
    ]
    monkeypatch.setattr("graph_retrievers.signals.bm25._ENTRIES_AT_A_TIME", size)
    mine, peer = BM25(texts), bm25s.BM25(method="lucene")
    peer.index([text.split() for text in texts], show_progress=False)
    for word in mine.vocabulary:
        assert mine.table([word])[0].tolist() == peer.get_scores([word]).tolist()


def test_a_long_corpus_copies_its_vectors_in_stretches():
    before = torch.arange(400.0).view(200, 2) + 1
    for gone, new in (([0], []), ([5, 6, 199], [0, 1]), ([], [3]), ([7], [196]), ([1], [0])):
        kept = torch.tensor([row for row in range(200) if row not in gone])
        kept[new] = -1
        made = DenseIndex(before).updated([""] * len(kept), kept, lambda texts: torch.full((len(texts), 2), -1.0)).vectors
        assert torch.equal(made, torch.where(kept[:, None] < 0, -1.0, before[kept.clamp(min=0)]))
        assert made.data_ptr() != before.data_ptr()


def test_words_that_no_text_has_any_more_are_dropped_when_they_are_many():
    texts = [f"word{number} loom" for number in range(40)]
    index = GraphIndex.from_texts(texts)
    few, many = (index.with_changes(delete=[str(row) for row in range(count)]) for count in (2, 20))
    for changed, known, used in ((few, 41, 39), (many, 21, 21)):
        assert len(changed.bm25.vocabulary) == known and f"words={used}" in repr(changed.bm25)
        fresh = GraphIndex.from_texts(changed.graph.texts)
        questions = ["word0 word1", "word39 loom"]
        assert torch.equal(changed.bm25.table(questions), fresh.bm25.table(questions))
    again = few.with_changes(add=[Node("x", "word0 again")])
    assert again.bm25.search(["word0"], 1)[1].tolist() == [[38]]


@pytest.mark.parametrize("seed", range(40))
def test_words_that_few_rows_have_are_found_as_in_the_table_of_all_rows(monkeypatch, seed):
    draw = random.Random(seed)
    words = [f"w{n}" for n in range(draw.choice([3, 10, 60]))]
    texts = [" ".join(draw.choices(words, k=draw.randint(0, 9))) for _ in range(draw.randint(1, 80))]
    bm25 = BM25(texts)
    queries = [" ".join(draw.choices([*words, "unknown"], k=draw.randint(0, 4))) for _ in range(draw.randint(1, 6))]
    k, rows = draw.choice([1, 2, 5, 100]), len(texts)
    allowed = [None, torch.rand(rows) > 0.4, torch.rand(len(queries), rows) > 0.4][seed % 3]
    table = bm25.table(queries)
    if allowed is not None:
        table = table.masked_fill(~allowed, 0.0)
    for share in (0, 1 << 40):
        monkeypatch.setattr("graph_retrievers.signals.sparse._DENSE", share)
        scores, found = bm25.search(queries, k, allowed)
        assert scores.shape == found.shape == (len(queries), min(k, rows))
        for b, row in enumerate(table.tolist()):
            best = sorted((-score, n) for n, score in enumerate(row) if score > 0)[:k]
            assert [n for n in found[b].tolist() if n >= 0] == [n for _, n in best]
            assert [score for score in scores[b].tolist() if score > 0] == [-score for score, _ in best]


def test_products_that_are_rounding_are_read_as_zeros():
    """Of each question and row, in proportion to the length of the question; equal rows have the product of the first."""
    signal = DenseIndex(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))
    products = np.array([[1e-9, 0.5, 7.0], [3e-9, -1e-9, 7.0]], np.float32)
    batch, rows = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])
    assert signal.entries(products, np.array([1.0, 1.0]), batch, rows).tolist() == [0.0, 0.5, 0.0, 0.0]
    assert signal.entries(products, np.array([1.0, 1e-4]), batch, rows).tolist() == pytest.approx([0.0, 0.5, -1e-9, 3e-9])
