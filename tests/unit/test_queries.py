"""Queries: frozen, narrowed without a change to what they came from, and sure of what their models give them."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
import torch

from graph_retrievers import Re2
from graph_retrievers.cache import Cache
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError, MissingSignalError
from graph_retrievers.graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import GRanker, Operator, OperatorKind, Pipeline, Rerank, VectorSearch
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.relevance import RelevanceModel
from tests.helpers import HashEmbedding, WordOverlap, linked_index

TEXTS = ["punched cards", "an engine"]


def queries(texts=TEXTS, index=None, **options):
    return Queries.of(linked_index() if index is None else index, texts, **options)


def mask_of(size, *rows):
    mask = torch.zeros(size, dtype=torch.bool)
    mask[list(rows)] = True
    return mask


# -- frozen -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Queries)])
def test_nothing_can_be_assigned(name):
    batch = queries()
    before = getattr(batch, name)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(batch, name, None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(batch, name)
    assert getattr(batch, name) is before


def test_nothing_can_be_added():
    with pytest.raises(AttributeError):
        queries().memo = {}


def test_texts_and_inputs_of_the_caller_may_change_afterwards():
    texts, inputs = list(TEXTS), {"entities": [["a"], ["b"]]}
    batch = queries(texts, inputs=inputs)
    texts[0] = "other"
    inputs["plan"] = [1, 2]
    assert batch.texts == tuple(TEXTS) and list(batch.inputs) == ["entities"]


def test_sizes_and_repr():
    batch = queries(k=3, filter={"topic": "war"}, inputs={"plan": [None, None]})
    assert len(batch) == 2 and repr(batch) == "Queries(2, k=3, filters=['allowed', 'seeds_allowed'], inputs=['plan'])"
    assert queries("one question").texts == ("one question",) and len(queries([])) == 0
    assert queries().k == 10


# -- narrowed ---------------------------------------------------------------------------------------------------------


def test_a_narrowed_copy_shares_what_was_computed_and_leaves_the_original():
    index = linked_index()
    batch = queries(index=index, filter={"topic": "machines"}, seed_filter={"$id": {"$ne": "ada"}}, k=4)
    table, vectors, allowed = batch.table(), batch.vectors, batch.allowed.clone()
    narrow = batch.narrowed(mask_of(12, 1, 2, 8))
    assert torch.equal(narrow.allowed, mask_of(12, 1, 2)), "both filters hold"
    assert torch.equal(batch.allowed, allowed)
    assert narrow.cache is batch.cache and narrow.latents is batch.latents
    assert narrow.table() is table and narrow.vectors is vectors
    assert index.embedding.query_calls == 2
    assert (narrow.texts, narrow.k, narrow.seeds_allowed) == (batch.texts, 4, batch.seeds_allowed)
    assert batch.narrowed(None) is batch
    assert torch.equal(queries().narrowed(allowed).allowed, allowed)


def test_what_starts_follows_the_narrowing():
    batch = queries(seed_filter={"$id": {"$in": ["ada", "ibm"]}})
    assert batch.starts.nonzero().flatten().tolist() == [0, 7]
    assert batch.narrowed(mask_of(12, 7, 8)).starts.nonzero().flatten().tolist() == [7]
    assert batch.starts.nonzero().flatten().tolist() == [0, 7]
    assert queries().starts is None


def test_searches_of_narrowed_copies_are_kept_apart():
    batch = queries()
    # Masks come and go; none may be taken for another that lay at its place in memory.
    for row in [row % 12 for row in range(0, 600, 5)]:
        narrow = batch.narrowed(mask_of(12, row))
        assert narrow.search("dense", 3, narrow.allowed)[1].tolist() == [[row, -1, -1]] * 2
        del narrow
    assert batch.search("dense", 12)[1].shape == (2, 12)


def test_the_same_search_is_made_once(monkeypatch):
    batch = queries(filter={"topic": "machines"}, k=2)
    calls = []
    kind = type(batch.index.dense)
    search = kind.best_of
    monkeypatch.setattr(kind, "best_of", lambda *args: calls.append(args[3]) or search(*args))
    batch.search("dense", 5, batch.allowed)
    batch.search("dense", 5, batch.allowed)
    assert calls == [5]
    batch.search("dense", 6, batch.allowed)
    batch.search("dense", 5)
    assert calls == [5, 6, 5]
    batch.search("dense", 2, batch.allowed)
    batch.search("bm25", 2, batch.allowed)
    assert calls == [5, 6, 5], "the first two of six are known"
    few, more = queries(k=3), queries(k=3)
    for k in (1, 3, 4):
        torch.testing.assert_close(few.search("dense", k)[1], more.search("dense", 4)[1][:, :k])
    assert calls[3:] == [3, 4, 4], "a search for fewer than the requested nodes finds these too, which a list is filled up from"


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["dense", "bm25"])
def test_the_first_of_a_longer_search_are_those_of_a_shorter_one(signal):
    draw = torch.Generator().manual_seed(2)
    for _ in range(60):
        # Few distinct vectors and words, so that there are ties.
        texts = [" ".join(f"w{word}" for word in torch.randint(4, (2,), generator=draw).tolist()) for _ in range(30)]
        vectors = torch.nn.functional.normalize(torch.randint(-1, 2, (30, 3), generator=draw).float(), dim=1)
        index = GraphIndex.from_texts(texts, vectors=vectors)
        asked = torch.randn(2, 3, generator=draw)
        mask = torch.rand(30, generator=draw) < 0.7
        for allowed in (None, mask):
            batch = queries(["w1 w2", "w3"], index, vectors=asked)
            longer = batch.search(signal, 20, allowed)
            for k in (1, 3, 20):
                alone = queries(["w1 w2", "w3"], index, vectors=asked).search(signal, k, allowed)
                assert all(torch.equal(mine[:, :k], part) for mine, part in zip(longer, alone, strict=True))
                taken = batch.search(signal, k, allowed)
                assert all(torch.equal(mine, part) for mine, part in zip(taken, alone, strict=True))


def test_a_copy_starts_without_what_was_computed():
    cache = Cache()
    assert cache.get("a", lambda: 1) == 1 and cache.get("a", lambda: 2) == 1
    for other in (copy.copy(cache), copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):  # noqa: S301
        assert other.get("a", lambda: 3) == 3
    assert cache.get("a", lambda: 4) == 1
    # None is a value like others, and a failure is not kept.
    made = []
    assert cache.get("none", lambda: made.append(1)) is None and cache.get("none", lambda: made.append(1)) is None
    assert made == [1]
    with pytest.raises(ZeroDivisionError):
        cache.get("bad", lambda: 1 / 0)
    assert cache.get("bad", lambda: 5) == 5


# -- inputs -----------------------------------------------------------------------------------------------------------


class Echo(Operator):
    """Finds the nodes that the input names."""

    kind = OperatorKind.VECTOR_SEARCH
    reads = ("wanted",)
    seen = ()

    def search(self, question, candidates):
        yield from ()
        Echo.seen = wanted = question.input("wanted")
        rows = [question.queries.index.graph.row(wanted)] if wanted else []
        return Candidates.seeds(np.array(rows, np.int64), np.ones(len(rows)), self.name)


def test_inputs_are_one_value_a_query_or_none():
    batch = queries(inputs={"entities": [["a"], None]})
    assert batch.input("entities") == [["a"], None] and batch.input("plan") == [None, None]
    batch.input("entities").clear()
    assert batch.input("entities") == [["a"], None]


def test_a_retriever_takes_the_inputs_that_its_operators_read():
    retriever = Retriever(linked_index(), Pipeline(Echo(), Echo()), backfill=False, batch_size=2)
    assert retriever.inputs == ("wanted",)
    assert [hit.id for hit in retriever.retrieve("q", wanted="ibm")] == ["ibm"]
    assert list(retriever.retrieve("q")) == [] and Echo.seen is None
    found = retriever.retrieve_batch(["a", "b", "c"], wanted=["ada", None, "loom"])
    assert [[hit.id for hit in hits] for hits in found] == [["ada"], [], ["loom"]]
    with pytest.raises(InvalidArgumentError, match="does not read 'plan'"):
        retriever.retrieve("q", plan="x")
    with pytest.raises(InvalidArgumentError, match="wanted"):
        retriever.retrieve_batch(["a", "b", "c"], wanted=["ada"])


@pytest.mark.parametrize("text", ["", " \n", None, 3, b"x"])
def test_an_empty_text_is_refused_with_its_place(text):
    with pytest.raises(InvalidArgumentError, match="Query 1 is "):
        queries(["fine", text])


# -- vectors ----------------------------------------------------------------------------------------------------------


def test_vectors_are_embedded_when_they_are_needed_and_once():
    index = linked_index()
    batch = queries(index=index)
    batch.search("bm25", 3)
    assert index.embedding.query_calls == 0
    for _ in range(2):
        assert batch.vectors.shape == (2, 64)
    assert index.embedding.query_calls == 2


def test_given_vectors_are_taken_and_checked():
    index = linked_index()
    rows = HashEmbedding().embed_documents(TEXTS)
    assert queries(index=index, vectors=rows).vectors.tolist() == [pytest.approx(row) for row in rows]
    assert index.embedding.query_calls == 0
    for bad, error in [
        (rows[:1], DimensionMismatchError),
        ([row[:5] for row in rows], DimensionMismatchError),
        ([[math.nan] * 64] * 2, InvalidVectorError),
    ]:
        with pytest.raises(error, match="query vectors"):
            queries(index=index, vectors=bad)
        with pytest.raises(error, match="query vectors"):
            _ = queries(index=index, vectors=lambda texts, bad=bad: bad).vectors
    called = []
    batch = queries(index=index, vectors=lambda texts: called.append(texts) or rows)
    assert called == [] and batch.vectors is batch.vectors and called == [TEXTS]


def test_without_a_model_or_vectors_it_says_what_to_pass():
    index = GraphIndex.from_texts(["a", "b"], vectors=[[1.0], [2.0]])
    batch = queries(index=index)
    assert not batch.has_vectors
    with pytest.raises(MissingSignalError, match="no embedding model for queries; pass embedding= or the query's vector"):
        _ = batch.vectors
    given = queries(index=index, vectors=[[1.0], [1.0]])
    assert given.has_vectors
    with pytest.raises(MissingSignalError, match="'Lutetia' is another text"):
        given.embed(["Lutetia"])


def test_scores_and_cosines_by_hand(device):
    vectors = [[3.0, 4.0], [0.0, 0.0], [-1.0, 0.0]]
    index = GraphIndex.from_texts(list("abc"), vectors=vectors, bm25=False, device=device)
    batch = Queries.of(index, TEXTS, vectors=[[2.0, 0.0], [0.0, 5.0]])
    who, rows = (torch.tensor(t, device=device) for t in ([[0, 0, 0], [1, 1, 1]], [[0, 1, 2], [2, 1, 0]]))
    assert batch.scores(who, rows).tolist() == [[6.0, 0.0, -2.0], [0.0, 0.0, 20.0]]
    assert batch.cosines(who, rows).tolist() == [pytest.approx([0.6, 0.0, -1.0]), pytest.approx([0.0, 0.0, 0.8])]


def test_of_many_vectors_a_few_scores_are_computed_without_the_others(monkeypatch):
    vectors = torch.randn(64, 5, generator=torch.Generator().manual_seed(4))
    index = GraphIndex.from_texts([str(n) for n in range(64)], vectors=vectors)
    asked, kind = torch.randn(2, 5, generator=torch.Generator().manual_seed(5)), type(index.dense)
    tables, products = [], kind.products
    monkeypatch.setattr(kind, "products", lambda *args: tables.append(1) or products(*args))
    for large, share, count, made in [(64, 0.5, 63, 0), (64, 0.5, 64, 1), (65, 0.5, 1, 1), (64, 0.25, 31, 0), (64, 0.25, 32, 1)]:
        monkeypatch.setattr("graph_retrievers.search.queries._LARGE", large)
        monkeypatch.setattr("graph_retrievers.search.queries._FEW", share)
        tables.clear()
        batch, rows = torch.arange(count) % 2, torch.arange(count)
        asking = queries(index=index, vectors=asked)
        torch.testing.assert_close(asking.scores(batch, rows), (asked[batch] * vectors[rows]).sum(1))
        assert len(tables) == made
        asking.table()
        torch.testing.assert_close(asking.scores(batch, rows), (asked[batch] * vectors[rows]).sum(1))
        assert len(tables) == 1, "a table that there is is read"


# -- relevance --------------------------------------------------------------------------------------------------------


class Broken(RelevanceModel):
    """Gives a number of one's choice for one text, and word counts for others."""

    name = "broken-model"

    def __init__(self, number, text="A company that grew out"):
        self.number, self.text = number, text

    def encode(self, queries, texts):
        return torch.tensor([[self.number if self.text in text else float(len(text))] for text in texts]).reshape(-1, 1)

    def score(self, latent):
        return latent[..., 0]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("operator", [Rerank(), GRanker(), GRanker(alpha=0.0)], ids=["rerank", "granker", "alpha 0"])
def test_scores_that_are_no_numbers_name_model_node_and_query(number, operator):
    index = linked_index(relevance=Broken(number))
    retriever = Retriever(index, Pipeline(VectorSearch(12), operator))
    message = r"relevance model 'broken-model' gave (nan|inf|-inf) for node 'ibm' and the query 'who sold machines\?'"
    with pytest.raises(InvalidVectorError, match=message):
        retriever.retrieve("who sold machines?")


def test_fastinsight_and_gar_refuse_such_scores_too():
    for name in ("fastinsight", "gar", "re2"):
        with pytest.raises(InvalidVectorError, match="'broken-model' gave nan for node"):
            Retriever(linked_index(relevance=Broken(math.nan, "")), name).retrieve("who sold machines?")


def test_scores_of_another_shape_are_refused():
    class Columns(Broken):
        def score(self, latent):
            return latent

    with pytest.raises(InvalidArgumentError, match=r"'broken-model' gave scores of shape \[3, 1\] for latents .*; expected \[3\]"):
        Retriever(linked_index(relevance=Columns(0.0)), Re2(depth=3)).retrieve("who sold machines?")


def test_a_pair_is_encoded_once_whoever_asks():
    model = WordOverlap()
    batch = queries(index=linked_index(relevance=model))
    whole = batch.pair_latents(np.array([0, 0, 0, 1, 1]), np.array([0, 1, 1, 0, 5]))
    assert model.pairs == batch.latents.encoded == 4
    narrow = batch.narrowed(mask_of(12, 0, 1))
    found = narrow.pair_latents(np.array([0, 0, 1, 1]), np.array([1, 0, 5, 2]))
    assert model.pairs == batch.latents.encoded == 5
    assert torch.equal(found[:3], whole[[1, 0, 4]])
    assert queries(index=batch.index).latents.encoded == 0


def test_a_value_that_another_thread_drops_meanwhile_is_made_again():
    class Dropping(dict):
        def __contains__(self, key):
            there = super().__contains__(key)
            self.clear()
            return there

    cache = Cache(limit=2)
    cache._values = Dropping({"a": 1})
    assert cache.get("a", lambda: 1) == 1


def test_a_limited_cache_keeps_the_last_values():
    cache = Cache(limit=2)
    for key in "abc":
        assert cache.get(key, key.upper) == key.upper()
    assert cache.get("b", lambda: "made again") == "B" and cache.get("a", lambda: "made again") == "made again"
    assert copy.deepcopy(cache).limit == 2 and copy.deepcopy(cache).get("c", lambda: "empty") == "empty"


def test_what_an_operator_writes_into_stays_with_its_queries():
    class Writes(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def search(self, question, candidates):
            yield from ()
            queries = question.queries
            for tensor in (queries.allowed, queries.seeds_allowed, queries.vectors):
                if tensor is not None:
                    tensor.zero_()
            return candidates

    nodes = [Node("0", "a loom", type="p"), Node("1", "a card", type="p")]
    index = GraphIndex.from_nodes(nodes, vectors=[[1.0, 0.0], [0.0, 1.0]])
    mask, vector = torch.tensor([True, True]), torch.tensor([1.0, 0.0])
    Retriever(index, Writes(), backfill=False).retrieve("q", vector=vector, filter=mask)
    Retriever(index, Writes(), backfill=False, types=["p"]).retrieve("q", vector=vector)
    assert mask.tolist() == [True, True] and vector.tolist() == [1.0, 0.0]
    # Another retriever on the same index is not told that no node has the type.
    assert len(Retriever(index, VectorSearch(), types=["p"], backfill=False).retrieve("q", vector=vector)) == 2
    batch = queries(inputs={"entities": [["Ada"], []]})
    with pytest.raises(TypeError):
        batch.inputs["entities"] = [["Ada"], ["Ada"]]
    for twin in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):  # noqa: S301
        assert twin.input("entities") == [["Ada"], []] and twin.texts == batch.texts
        with pytest.raises(TypeError):
            twin.inputs["entities"] = []


def test_a_text_beside_a_given_vector_is_told_by_its_words():
    batch = queries(["q"], GraphIndex.from_texts(["a loom"], vectors=[[1.0]]), vectors=[[1.0]])
    with pytest.raises(MissingSignalError, match="vector was given, but 'Nobody' is another text; pass embedding="):
        batch.embed(["Nobody"])


def test_a_scope_that_is_a_function_is_asked_once_of_each_node():
    asked = []
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0, 0.0], [0.0, 1.0]])
    scope = lambda node: asked.append(node.id) or node.id == "1"  # noqa: E731
    assert [hit.id for hit in Retriever(index, VectorSearch()).retrieve("q", vector=[1.0, 0.0], scope=scope)] == ["1"]
    assert asked == ["0", "1"]


def test_the_first_value_a_cache_holds_stays():
    cache, early = Cache(), []
    # What another thread stored while this one computed stays.
    found = cache.get("key", lambda: early.append(cache.get("key", object)) or object())
    assert found is early[0]
