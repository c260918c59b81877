"""GraphIndex, its signals and the retriever contract: what bad input meets, and what k means."""

import threading

import numpy as np
import pytest
import torch

from graph_retrievers.errors import (
    InvalidArgumentError,
    MissingSignalError,
)
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, HybridSearch, Pipeline, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.baselines import BM25 as BM25Retriever
from graph_retrievers.systems.baselines import Hybrid, Re2, Vector
from graph_retrievers.systems.fastinsight import FastInsight, GRanker
from graph_retrievers.systems.pagerank import PPR, TransitionGraph
from graph_retrievers.systems.walk_fusion.retriever import WalkFusion
from tests.apples import TEXTS, VECTORS, ids, index
from tests.helpers import HashEmbedding, linked_index
from tests.rankings import rank


def test_vector_search_orders_by_dot_product_and_ties_by_row(device):
    assert ids(Retriever(index(device), Vector()).retrieve("apple", k=6)) == ["1", "2", "5", "0", "3", "4"]


@pytest.mark.parametrize("make", [Vector, BM25Retriever, Hybrid, Re2, FastInsight])
def test_exactly_k_hits_where_the_corpus_has_them(make):
    retriever = Retriever(index(), make())
    for k in (1, 3, 6):
        assert len(set(ids(retriever.retrieve("apple", k=k)))) == k
    assert len(retriever.retrieve("apple", k=100)) == 6, "a larger k gives the whole corpus"


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_k_below_one_is_refused(k):
    with pytest.raises(InvalidArgumentError, match="k must be"):
        Retriever(index(), Vector()).retrieve("apple", k=k)


@pytest.mark.parametrize("query", [None, 3, b"apple"])
def test_a_query_that_is_no_text_is_refused(query):
    with pytest.raises(InvalidArgumentError, match="Query 0"):
        Retriever(index(), Vector()).retrieve(query)


def test_an_empty_batch_gives_an_empty_list():
    assert Retriever(index(), Vector()).retrieve_batch([]) == []
    with pytest.raises(InvalidArgumentError, match="list of queries"):
        Retriever(index(), Vector()).retrieve_batch("one string")


def test_a_missing_signal_is_named():
    bare = GraphIndex.from_texts(TEXTS, bm25=False)
    with pytest.raises(MissingSignalError, match="no vectors"):
        Retriever(bare, Vector()).retrieve("apple")
    with pytest.raises(MissingSignalError, match="no BM25"):
        Retriever(bare, BM25Retriever()).retrieve("apple")
    with pytest.raises(MissingSignalError, match="query's vector"):
        Retriever(GraphIndex.from_texts(TEXTS, vectors=VECTORS), Vector()).retrieve("apple")


def test_filters_of_seeds_traversal_and_result():
    retriever = Retriever(index(), FastInsight(nodes_per_round=1, budget=6), backfill=False)
    assert ids(retriever.retrieve("apple")) == ["1", "2", "0"]
    # What may be returned may start the walk, unless the seeds have a filter of their own ...
    assert ids(retriever.retrieve("apple", filter={"$id": {"$in": ["3", "4"]}})) == ["3", "4"]
    # ... and does not stop it.
    hits = retriever.retrieve("apple", filter={"$id": {"$ne": "1"}}, seed_filter={})
    assert ids(hits) == ["2", "0"] and hits[0].path.nodes == ("1", "2")
    # ... what may be walked to does, ...
    assert ids(retriever.retrieve("apple", traversal_filter={"$id": {"$ne": "2"}})) == ["1", "0"]
    # ... and seeds have a filter of their own.
    assert ids(retriever.retrieve("apple", seed_filter={"$id": "3"})) == ["3", "4"]


@pytest.mark.parametrize("system", ["fastinsight", "spreading(gate='uniform')", "ppr", "walk-fusion"])
def test_a_filter_restricts_the_start_too(system):
    """Seeds that may not be returned would fill the start, and the rest would have to be filled up."""
    others = [Node(f"other{i}", f"A loom weaves cloth {i}.", metadata={"manual": "other"}) for i in range(12)]
    texts = ["A loom.", "Punched cards.", "A census.", "Brass wheels."]
    own = [Node(f"own{i}", text, metadata={"manual": "own"}) for i, text in enumerate(texts)]
    edges = [(f"own{i}", f"own{i + 1}") for i in range(3)]
    retriever = Retriever(GraphIndex.from_nodes([*others, *own], edges, embedding=HashEmbedding()), system)
    hits = retriever.retrieve("Which loom weaves cloth?", 4, filter={"manual": "own"})
    assert len(hits) == 4 and not [h for h in hits if h.operator == "Backfill"]
    assert all(h.path.nodes[0].startswith("own") for h in hits)
    lifted = retriever.retrieve("Which loom weaves cloth?", 4, filter={"manual": "own"}, seed_filter={})
    assert {h.id for h in lifted} == {h.id for h in hits}


def test_backfill_respects_the_filter():
    hits = Retriever(index(), FastInsight(nodes_per_round=1, budget=6)).retrieve("apple", filter={"$id": {"$in": ["0", "5", "4"]}})
    assert ids(hits) == ["5", "0", "4"]
    assert [h.operator for h in hits] == ["VectorSearch", "Backfill", "Backfill"]


def test_a_retriever_of_ones_own_is_a_pipeline():
    retriever = Retriever(index(), Pipeline(HybridSearch(4), GRanker()), name="mine")
    assert retriever.operator.formula() == "O_vs -> O_gm"
    assert len(retriever.retrieve("apple", k=4)) == 4


def test_an_input_that_a_retriever_does_not_read_is_refused():
    with pytest.raises(InvalidArgumentError, match="does not read 'plan'"):
        Retriever(index(), Vector()).retrieve("apple", plan={})
    with pytest.raises(InvalidArgumentError, match="does not read 'filters'; besides k, vectors, filter, seed_filter,"):
        Retriever(index(), Vector()).retrieve("apple", filters={})


def test_retrievers_by_name():
    assert Retriever(index(), "bm25").retrieve("cat", k=1)[0].operator == "BM25Search"
    with pytest.raises(InvalidArgumentError, match="Unknown system 'nope'"):
        Retriever(index(), "nope")


def test_a_pair_is_encoded_once_however_many_rounds_rerank_it():
    calls = []

    def scorer(pairs):
        calls.extend(pairs)
        return [float(len(text)) for _, text in pairs]

    retriever = Retriever(index(relevance=scorer), FastInsight(nodes_per_round=1, budget=6))
    queries = Queries.of(retriever.index, ["apple", "cat"])
    ranking = rank(retriever, queries)
    assert len(calls) == len(set(calls)) == queries.latents.encoded == int(ranking.lengths().sum())


def test_concurrent_callers_share_one_index():
    retriever = Retriever(index(), FastInsight(nodes_per_round=2, budget=6))
    alone = retriever.retrieve("apple")
    results = [None] * 8

    def call(slot):
        results[slot] = retriever.retrieve("apple")

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(hits == alone for hits in results)


def test_hits_are_json_plain():
    import json

    hit = Retriever(index(), FastInsight(nodes_per_round=1, budget=6)).retrieve("apple")[1]
    plain = json.loads(json.dumps(hit.to_dict()))
    assert plain["path"] == {"nodes": ["1", "2"], "relations": [""], "forward": [True], "titles": ["", ""]}
    assert str(hit.path) == "1 -> 2"


def test_search_operators_refuse_unknown_options():
    with pytest.raises(InvalidArgumentError, match="fusion"):
        HybridSearch(fusion="sum")
    with pytest.raises(InvalidArgumentError, match="weights"):
        HybridSearch(weights=(1.0,))
    with pytest.raises(InvalidArgumentError, match="k must be"):
        BM25Search(0)
    with pytest.raises(InvalidArgumentError, match="k must be"):
        VectorSearch(-3)
    with pytest.raises(InvalidArgumentError, match="backend"):
        index(dense_backend="annoy")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cpu_and_gpu_agree():
    for make in (Vector, BM25Retriever, Hybrid, FastInsight):
        assert ids(Retriever(index("cpu"), make()).retrieve("apple")) == ids(Retriever(index("cuda"), make()).retrieve("apple"))


def test_changing_the_metadata_of_a_hit_leaves_the_index_as_it_was():
    built = index(metadatas=[{"year": i} for i in range(6)])
    hit = Retriever(built, Vector()).retrieve("apple", k=1)[0]
    hit.metadata["year"] = -1
    assert Retriever(built, Vector()).retrieve("apple", k=1)[0].metadata == {"year": 1}


LONG = [[3.0, 3.0], [1.0, 0.0]]


def test_cosine_and_dot_product_are_one_choice(tmp_path):
    """The long vector wins by dot product, the one of the same direction by cosine; so in every search, saved or not."""
    dot = GraphIndex.from_texts(["a long one", "a short one"], vectors=LONG, metric="dot")
    cosine = GraphIndex.from_texts(["a long one", "a short one"], vectors=LONG, metric="cosine")
    assert ids(Retriever(dot, Vector()).retrieve("?", vector=[2.0, 0.0])) == ["0", "1"]
    cosine.save(tmp_path / "index")
    for made in (cosine, GraphIndex.load(tmp_path / "index")):
        hits = Retriever(made, Vector()).retrieve("?", vector=[2.0, 0.0])
        assert ids(hits) == ["1", "0"] and [h.score for h in hits] == pytest.approx([1.0, 0.5**0.5])
        assert ids(Retriever(made, Vector()).retrieve("?", vector=[2.0, 0.0], filter={"$id": "0"})) == ["0"]
    assert torch.equal(made.dense.vectors, cosine.dense.vectors)
    queries = Queries.of(cosine, ["?"], vectors=[[2.0, 0.0]])
    assert queries.cosines(torch.tensor([[0, 0]]), torch.tensor([[0, 1]])).tolist() == [pytest.approx([0.5**0.5, 1.0])]


@pytest.mark.parametrize(
    ("vectors", "metric", "warned"),
    [(LONG, None, True), (LONG, "dot", False), (LONG, "cosine", False), ([[0.6, 0.8], [0.0, 0.0]], None, False)],
)
def test_vectors_that_are_not_of_unit_length_are_noticed(vectors, metric, warned, caplog):
    GraphIndex.from_texts(["a", "b"], vectors=vectors, metric=metric)
    told = [record.message for record in caplog.records if "unit length" in record.message]
    assert len(told) == warned and (not warned or "(1 to 4.24)" in told[0] and "metric='cosine'" in told[0])


def test_an_unknown_metric_is_refused():
    with pytest.raises(InvalidArgumentError, match="Unknown metric 'l2'; choose from 'dot', 'cosine'"):
        GraphIndex.from_texts(["a"], vectors=[[1.0]], metric="l2")


def test_a_ready_index_gives_the_same_and_prepares_nothing_at_its_first_question(tmp_path, monkeypatch):
    linked_index().save(tmp_path / "index")
    late, ready = (GraphIndex.load(tmp_path / "index", embedding=HashEmbedding(), ready=ready) for ready in (False, True))
    assert "sorted" in ready.signals["bm25"]._cache and "norms" in vars(ready.signals["dense"])
    with monkeypatch.context() as patched:
        patched.setattr(CorpusGraph, "_incidence", lambda graph: pytest.fail("the first question sorts the edges"))
        found = Retriever(ready, WalkFusion(form="links")).retrieve("Which loom?")
        with pytest.raises(pytest.fail.Exception):
            Retriever(late, WalkFusion(form="links")).retrieve("Which loom?")
    assert found == Retriever(late, WalkFusion(form="links")).retrieve("Which loom?")


def test_what_a_retriever_alone_needs_is_made_with_it_on_an_index_that_is_prepared(monkeypatch, tmp_path):
    made, plain = [], TransitionGraph.__init__
    monkeypatch.setattr(TransitionGraph, "__init__", lambda self, *given: made.append(given) or plain(self, *given))
    edges = [("0", "1", "r"), ("1", "2", "r")]
    index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=edges, vectors=np.eye(3))
    index.save(tmp_path / "index")
    plainly = Retriever(index, PPR())
    assert not index.prepared and not made
    hits = plainly.retrieve("loom", vector=np.eye(3)[0])
    assert len(made) == 1
    ready = GraphIndex.load(tmp_path / "index", ready=True)
    retriever = Retriever(ready.with_models(embedding=HashEmbedding(3)), PPR())
    assert ready.prepared and len(made) == 2
    assert retriever.retrieve("loom", vector=np.eye(3)[0]) == hits and len(made) == 2
