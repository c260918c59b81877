"""Many questions at a time inside a graph database, and what their arguments may be."""

import asyncio
import math

import numpy as np
import pytest
import torch

from graph_retrievers.errors import (
    DimensionMismatchError,
    EmptyGraphError,
    InvalidArgumentError,
    InvalidVectorError,
    MissingSignalError,
)
from graph_retrievers.stores.cypher import CypherSpreadingActivation
from graph_retrievers.stores.cypher.database import PLAIN_COSINE
from tests.integration.test_cypher import Axis, RandomEmbedding
from tests.integration.test_cypher_filters import QUESTIONS, in_both


@pytest.fixture(scope="module")
def filtered(cypher_server):
    """A random graph with metadata, in this process and in the database, whose cosines are the same to the bit each time."""
    for index, database in in_both(cypher_server, 60):
        database.cosine = PLAIN_COSINE
        yield index, database


def test_attributes(filtered):
    _, database = filtered
    retriever = CypherSpreadingActivation(database)
    assert (retriever.name, retriever.inputs, retriever.k) == ("CypherSpreadingActivation", ("entities",), 30)
    assert CypherSpreadingActivation(database, name="other", k=7).name == "other"
    assert repr(CypherSpreadingActivation(database, name="other")).startswith("other(")


def same_hits(found, wanted):
    """The same hits and notes, to the last bit."""
    assert list(map(list, found)) == list(map(list, wanted))
    assert [hits.notes for hits in found] == [hits.notes for hits in wanted]


async def test_a_batch_gives_what_its_queries_give_one_by_one(filtered):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding(), chains="hits", k=20)
    questions = QUESTIONS * 3
    texts, entities = map(list, zip(*questions, strict=True))
    filters = {"filter": {"good": {"$ne": True}}, "traversal_filter": {"year": {"$exists": True}}}
    wanted = [inside.retrieve(text, entities=names, **filters) for text, names in questions]
    same_hits(inside.retrieve_batch(texts, entities=entities, **filters), wanted)
    same_hits(inside.retrieve_batch(tuple(texts), entities=tuple(entities), **filters), wanted)
    same_hits(await inside.aretrieve_batch(texts, entities=entities, **filters), wanted)
    same_hits([await inside.aretrieve(texts[2], 20, entities=None, **filters)], wanted[2:3])
    same_hits(inside.retrieve_batch(texts[2:4]), [inside.retrieve(text) for text in texts[2:4]])
    for hits in inside.retrieve_batch(texts[:2], 1, entities=entities[:2]):
        assert [hit.kind for hit in hits].count("node") == 1
    assert inside.retrieve_batch([]) == [] == await inside.aretrieve_batch([], entities=[])
    await database._async_drivers.pop(asyncio.get_running_loop()).close()


class Awaited(RandomEmbedding):
    """An embedding model that only answers when it is awaited."""

    async def aembed_query(self, text):
        return super().embed_query(text)

    def embed_query(self, text):
        raise AssertionError(f"{text!r} is to be awaited")


async def test_the_embedding_of_a_question_is_awaited(filtered):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=Awaited())
    wanted = CypherSpreadingActivation(database, embedding=RandomEmbedding()).retrieve_batch(["a", "b"])
    same_hits(await inside.aretrieve_batch(["a", "b"]), wanted)
    same_hits([await inside.aretrieve("a")], wanted[:1])
    await database._async_drivers.pop(asyncio.get_running_loop()).close()


class Sliced:
    """Vectors that are computed when they are asked for, as the wrappers pass them."""

    def __init__(self):
        self.asked = []

    def __getitem__(self, part):
        return self

    def __call__(self, texts):
        self.asked.append(list(texts))
        return RandomEmbedding().embed_documents(texts)


def test_vectors_come_in_every_form(filtered):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    bare = CypherSpreadingActivation(database)
    texts, entities = map(list, zip(*QUESTIONS, strict=True))
    wanted = inside.retrieve_batch(texts, entities=entities)
    table = np.stack(RandomEmbedding().embed_documents(texts))
    for vectors in (table, torch.from_numpy(table), table.tolist(), Sliced()):
        same_hits(inside.retrieve_batch(texts, entities=entities, vectors=vectors), wanted)
    same_hits(bare.retrieve_batch(texts[:1], entities=entities[:1], vectors=table[:1]), wanted[:1])
    same_hits([bare.retrieve(texts[0], entities=entities[0], vector=torch.from_numpy(table[0]))], wanted[:1])
    # Without a model, the function embeds the names too.
    function = Sliced()
    same_hits(bare.retrieve_batch(texts, entities=entities, vectors=function), wanted)
    assert function.asked == [texts, ["Name 5", "name 3", "Nobody", "Name 7", "Nowhere"]]
    assert bare.retrieve_batch([], vectors=function) == [] and len(function.asked) == 2


def test_models_are_asked_once_a_batch(filtered):
    _, database = filtered
    asked = []

    class Batched(RandomEmbedding):
        def embed_queries(self, texts):
            asked.append(list(texts))
            return self.embed_documents(texts)

    texts, entities = map(list, zip(*QUESTIONS[:2], strict=True))
    CypherSpreadingActivation(database, embedding=Batched()).retrieve_batch(texts, entities=entities)
    assert asked == [texts, ["Name 5", "name 3", "Nobody", "Name 7", "Nowhere"]]


async def test_bad_batches_are_refused(filtered):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    vector = RandomEmbedding().embed_query("x")
    cases = [
        (("Who?",), {}, InvalidArgumentError, "retrieve_batch takes a list of queries, got 'Who\\?'; call retrieve for one"),
        ((None,), {}, InvalidArgumentError, "takes a list of queries"),
        ((["Who?"], 0), {}, InvalidArgumentError, "k must be an integer of at least 1, got 0"),
        ((["Who?", None],), {}, InvalidArgumentError, "Query 1 is None"),
        ((["a", "b"],), {"entities": [["x"]]}, InvalidArgumentError, "entities has 1 entries for 2 queries"),
        ((["a", "b"],), {"entities": [None, "x"]}, InvalidArgumentError, "entities of query 1 are 'x'; expected a list"),
        ((["a", "b"],), {"entities": [["x"], [""]]}, InvalidArgumentError, "entities of query 1"),
        ((["a", "b"],), {"vectors": [vector]}, DimensionMismatchError, r"query vectors have shape \[1, 16\]; expected \[2, d\]"),
        ((["a", "b"],), {"vectors": lambda texts: [vector]}, DimensionMismatchError, "query vectors have shape"),
        ((["a"],), {"vectors": [vector * math.nan]}, InvalidVectorError, "NaN"),
        ((["a", "b"],), {"vectors": [vector, vector * 0]}, InvalidVectorError, "The vector of 'b' is zero"),
        (([],), {"vectors": [vector]}, DimensionMismatchError, "query vectors have shape"),
        ((["a"],), {"colour": "red"}, TypeError, "colour"),
    ]
    for arguments, options, error, message in cases:
        with pytest.raises(error, match=message):
            inside.retrieve_batch(*arguments, **options)
        with pytest.raises(error, match=message):
            await inside.aretrieve_batch(*arguments, **options)
    with pytest.raises(MissingSignalError, match="cosine gate"):
        CypherSpreadingActivation(database).retrieve_batch(["a"])


async def test_few_queries_of_a_batch_run_at_a_time_and_none_after_an_error(filtered, monkeypatch):
    _, database = filtered
    inside = CypherSpreadingActivation(database, embedding=RandomEmbedding())
    running, most, started, ended = 0, 0, [], []
    row = {"filled": True, "touched": 1, "missing": [], "links": [], "found": []}

    async def aread(text, **parameters):
        nonlocal running, most
        key = parameters["entities"][0]["key"]
        started.append(key)
        running, most = running + 1, max(most, running + 1)
        try:
            await asyncio.sleep(0.01 * (len(started) % 3))
            if key == "bad":
                raise RuntimeError("of the test")
            return [row]
        finally:
            running -= 1
            ended.append(1)

    monkeypatch.setattr(database, "aread", aread)
    assert len(await inside.aretrieve_batch(["q"] * 40, entities=[[f"n{i}"] for i in range(40)])) == 40
    assert most == 8 and len(ended) == 40
    started.clear()
    with pytest.raises(RuntimeError, match="of the test"):
        await inside.aretrieve_batch(["q"] * 40, entities=[["bad"]] + [["good"]] * 39)
    before = len(started)
    await asyncio.sleep(0.05)
    assert len(started) == before < 40 and running == 0


def test_an_empty_database_is_an_error_for_every_filter(database):
    inside = CypherSpreadingActivation(database, embedding=Axis())
    with pytest.raises(EmptyGraphError):
        inside.retrieve_batch(["q", "r"], entities=[["a"], ["b"]], seed_filter={"x": 1}, filter={"x": 1})
