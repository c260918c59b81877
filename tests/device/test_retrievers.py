"""Every system finds on a GPU what it finds on a processor: alone, in a batch, with filters and scopes, with models."""

from dataclasses import fields, replace
from functools import cache

import pytest

from graph_retrievers import Retriever, read_system
from tests.accelerator import DEVICE
from tests.device.languages import Filling
from tests.integration import test_compositions
from tests.property.test_every_retriever import OVERLAP, QUERIES, inputs, new_corpus
from tests.retrievers import EVERY

BATCH = [QUERIES[place % len(QUERIES)] for place in range(32)]
KEPT = {"$type": {"$in": ["movie", "person", "note"]}}
WALKED = {"$id": {"$nin": ["engine", "m2", "x7"]}}
# What restricts a search, by what it restricts.
RESTRICTED = {
    "filter": {"filter": KEPT},
    "seeds": {"seed_filter": KEPT, "traversal_filter": WALKED},
    "scope": {"scope": KEPT},
    "nothing": {"filter": {"$id": "nobody"}},
    "no seeds": {"seed_filter": {"$id": "nobody"}},
    "both": {"scope": WALKED, "filter": KEPT},
}
ASKING = [name for name in EVERY if any(field.name == "language_model" for field in fields(read_system(name)))]
indexes = cache(new_corpus)


def index_on(accelerator, relevance=None):
    """The corpus on the device, made there once."""
    return indexes(DEVICE, relevance)


def found(index, system, questions, k=10, name="", **options):
    """What a system finds for a batch: ids, paths and notes, and scores."""
    given = inputs(name, len(questions))
    results = Retriever(index, system).retrieve_batch(questions, k, **given, **options)
    told = [([(hit.id, hit.kind, hit.path and hit.path.nodes) for hit in hits], hits.notes) for hits in results]
    return told, [hit.score for hits in results for hit in hits]


def same(left, right):
    """Whether two results of :func:`found` are the same, scores to 1e-5."""
    assert left[0] == right[0]
    assert left[1] == pytest.approx(right[1], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_a_system_finds_the_same_alone_and_in_a_batch(accelerator, name):
    here, there = indexes("cpu", None), index_on(accelerator)
    assert (here.device.type, there.device) == ("cpu", DEVICE)
    same(found(there, name, BATCH, name=name), found(here, name, BATCH, name=name))
    same(found(there, name, QUERIES[:1], name=name), found(here, name, QUERIES[:1], name=name))


@pytest.mark.parametrize("restricted", RESTRICTED)
@pytest.mark.parametrize("name", EVERY)
def test_a_system_finds_the_same_with_filters_and_scopes(accelerator, name, restricted):
    options = {"name": name, "k": 20, **RESTRICTED[restricted]}
    same(found(index_on(accelerator), name, QUERIES[:3], **options), found(indexes("cpu", None), name, QUERIES[:3], **options))


@pytest.mark.parametrize("name", ["fastinsight", "re2", "gar", "path-reranking", "fused(systems=['fastinsight', 'hybrid'])"])
def test_a_system_finds_the_same_with_a_relevance_model(accelerator, name):
    for options in ({}, RESTRICTED["nothing"], RESTRICTED["no seeds"]):
        here = found(indexes("cpu", OVERLAP), name, BATCH, **options)
        same(found(index_on(accelerator, OVERLAP), name, BATCH, **options), here)


@pytest.mark.parametrize("name", ASKING)
def test_a_system_finds_the_same_with_a_language_model(accelerator, name):
    system = replace(read_system(name), language_model=Filling())
    same(found(index_on(accelerator), system, QUERIES, name=name), found(indexes("cpu", None), system, QUERIES, name=name))


@pytest.mark.parametrize("name", test_compositions.COMPOSITIONS)
def test_a_composition_finds_the_same(accelerator, name):
    filtered = {"filter": {"$type": {"$ne": "person"}}}
    results = []
    for device in ("cpu", DEVICE):
        retriever = test_compositions.made(name, device)
        own = test_compositions.given(retriever)
        parts = [retriever.retrieve_batch(test_compositions.QUESTIONS, **own, **options) for options in ({}, filtered)]
        results.append([test_compositions.plain(hits) for part in parts for hits in part])
    for (here, scores), (there, others) in zip(*results, strict=True):
        assert here == there and others == pytest.approx(scores, rel=1e-5, abs=1e-5)
