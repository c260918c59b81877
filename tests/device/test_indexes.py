"""Signals and indexes on a GPU: searches of every signal, changes, scopes, files, pickles, and embeddings that answer from it."""

import pickle
import random

import pytest
import torch

from graph_retrievers import GraphIndex, IndexStore, Retriever
from graph_retrievers.graph import Node
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.multi_vector import MultiVectorIndex
from graph_retrievers.signals.sparse import SparseIndex
from graph_retrievers.signals.tfidf import TfIdf
from tests.accelerator import DEVICE, REAL
from tests.helpers import HashEmbedding, linked_edges, linked_nodes
from tests.property.test_every_retriever import QUERIES, embed, new_corpus

CONTENTS = new_corpus().graph.contents()
ROWS = len(CONTENTS)
ASKED = [*QUERIES, *CONTENTS[:12], "loom loom card"]


class Weights:
    """Weights by term number, as many decimal places as a model gives; from the words of a text."""

    name = "weights"

    def encode(self, texts, *, queries=False):
        drawn = {word: random.Random(word) for text in texts for word in text.split()}
        return [{drawn[word].randrange(500): drawn[word].random() for word in text.split()} for text in texts]


class Vectors:
    """A unit vector for each word, on the device that it is made for."""

    name = "vectors"

    def __init__(self, device="cpu"):
        self.device = device

    def encode(self, texts, *, queries=False):
        found = [torch.from_numpy(embed(text.split() or ["-"])).float() for text in texts]
        return [vectors.to(self.device) for vectors in found]


VECTORS = torch.from_numpy(embed(CONTENTS)).float()
SIGNALS = {
    **{f"dense {p}": lambda device, p=p: DenseIndex(VECTORS, precision=p, device=device) for p in ("float32", "bfloat16", "int8")},
    "cosine": lambda device: DenseIndex(VECTORS * torch.arange(1, ROWS + 1).unsqueeze(1), metric="cosine", device=device),
    "hnsw": lambda device: DenseIndex(VECTORS, backend="hnsw", device=device),
    "bm25": lambda device: BM25(CONTENTS, device=device),
    "tfidf": lambda device: TfIdf(CONTENTS, device=device),
    "sparse": lambda device: SparseIndex(CONTENTS, Weights(), device=device),
    "multi-vector": lambda device: MultiVectorIndex(CONTENTS, Vectors(), device=device),
    "multi-vector of the device": lambda device: MultiVectorIndex(CONTENTS, Vectors(device), device=device),
}


def searched(signal, device):
    """What a signal answers: all rows, some rows, pairs and terms, on the CPU; the first two as scores by row."""
    asked = torch.from_numpy(embed(ASKED)).float().to(device) if signal.reads == "vector" else ASKED
    allowed = torch.arange(len(signal), device=device) % 3 > 0
    batch, rows = (part.to(device) for part in torch.cartesian_prod(torch.arange(len(ASKED)), torch.arange(len(signal))).T)
    found = [signal.table(asked), signal.scores(asked, batch, rows)]
    if signal.reads != "vector":
        found.append(signal.term_scores(asked, batch, rows))
    for mask in (None, allowed, allowed.expand(len(ASKED), -1)):
        scores, places = signal.search(asked, 7, mask)
        found += [scores.masked_fill(places < 0, 0.0), places]
    assert all(part.device.type == torch.device(device).type for part in found)
    return [part.cpu() for part in found]


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_answers_the_same_and_so_do_its_copies_and_what_follows_changes(accelerator, name):
    here, there = SIGNALS[name](None), SIGNALS[name](DEVICE)
    kept = torch.tensor([*range(5, ROWS), 2, -1])
    contents = [*CONTENTS[5:], CONTENTS[2], "a new loom of cards"]
    new = lambda texts: torch.from_numpy(embed(texts)).float()  # noqa: E731

    def followed(signal, device):
        return signal.updated(contents, kept.to(device), lambda texts: new(texts).to(device))

    def part(signal, device):
        return signal.restricted(torch.tensor([1, 4, 6, 30], device=device), [CONTENTS[row] for row in (1, 4, 6, 30)])

    pairs = [(there, here, DEVICE), (here.to(DEVICE), here, DEVICE), (there.to(torch.device("cpu")), here, "cpu")]
    pairs += [(followed(there, DEVICE), followed(here, "cpu"), DEVICE), (part(there, DEVICE), part(here, "cpu"), DEVICE)]
    for other, signal, device in pairs:
        for found, expected in zip(searched(other, device), searched(signal, "cpu"), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def hits_of(index, name="fastinsight", **options):
    return [
        [(hit.id, round(hit.score, 5)) for hit in hits] for hits in Retriever(index, name).retrieve_batch(QUERIES, 8, **options)
    ]


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_saved_index_is_the_same_on_the_device(accelerator, tmp_path, precision):
    options = {"embedding": HashEmbedding(), "edge_signals": True, "dense_precision": precision}
    here, there = (GraphIndex.from_nodes(linked_nodes(), linked_edges(), device=device, **options) for device in ("cpu", DEVICE))
    expected = hits_of(here)
    assert hits_of(there) == expected
    for name, index in (("here", here), ("there", there)):
        index.save(tmp_path / name)
        for device in ("cpu", DEVICE):
            loaded = GraphIndex.load(tmp_path / name, embedding=HashEmbedding(), device=device)
            assert loaded.device == torch.device(device) and hits_of(loaded) == expected
    files = [
        {file.name: file.read_bytes() for file in (tmp_path / name).rglob("*") if file.is_file()} for name in ("here", "there")
    ]
    assert files[0].keys() == files[1].keys()
    assert hits_of(there.to("cpu")) == hits_of(here.to(DEVICE)) == expected


@pytest.mark.parametrize("of", ["index", "scope", "retriever"])
def test_a_pickle_is_read_where_there_is_no_device(accelerator, of):
    index = GraphIndex.from_nodes(linked_nodes(), linked_edges(), embedding=HashEmbedding(), edge_signals=True, device=DEVICE)
    index = index.within({"topic": "machines"}) if of == "scope" else index
    expected = hits_of(index, "spreading")
    written = pickle.dumps(Retriever(index, "spreading") if of == "retriever" else index)
    assert b"cuda" not in written
    read = pickle.loads(written)  # noqa: S301
    read = read.index if of == "retriever" else read
    assert read.device.type == "cpu" and read.is_scope == index.is_scope
    assert hits_of(read, "spreading") == hits_of(read.to(DEVICE), "spreading") == expected
    assert read.to(DEVICE).is_scope == index.is_scope


def test_changes_and_stores_give_the_same(accelerator, tmp_path):
    found = []
    for device in ("cpu", DEVICE):
        index = GraphIndex.from_nodes(linked_nodes(), linked_edges(), embedding=HashEmbedding(), edge_signals=True, device=device)
        changes = {"add": [Node("new", "A loom that is driven by a valve.", "New loom")], "add_edges": [("new", "loom", "is")]}
        changes |= {"upsert": [Node("ada", "She wrote of looms.", "Ada Lovelace")], "delete": ["ibm"]}
        changed = index.with_changes(**changes)
        store = IndexStore(tmp_path / str(device), embedding=HashEmbedding(), device=device)
        store.update(add=linked_nodes(), add_edges=linked_edges())
        store.update(**changes)
        again = IndexStore(tmp_path / str(device), embedding=HashEmbedding(), device=device)
        assert {each.device for each in (changed, store.index, again.index)} == {torch.device(device)}
        late = changed.within({"year": {"$gt": 1800}})
        found.append([hits_of(changed, "spreading"), *map(hits_of, (changed, store.index, again.index, late))])
    assert found[0] == found[1]


class OnDevice:
    """An embedding whose vectors are tensors of the device, as those of a local model may be."""

    name = "on-device"

    def __init__(self, lists):
        if lists:
            self.embed_queries = self.embed_documents

    def embed_documents(self, texts):
        return torch.from_numpy(embed(texts)).float().to(DEVICE)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("device", ["cpu", DEVICE], ids=str)
def test_an_embedding_may_answer_from_the_device(accelerator, tmp_path, device, lists):
    given = {"edges": [(str(row), str(row + 1)) for row in range(20)], "device": device}
    expected = GraphIndex.from_texts(CONTENTS[:30], embedding=embed, **given)
    for cache in (None, tmp_path):
        index = GraphIndex.from_texts(CONTENTS[:30], embedding=OnDevice(lists), cache=cache, edge_signals=True, **given)
        for name in ("hybrid", "spreading", "mmr", "hyde"):
            assert hits_of(index, name) == hits_of(expected, name)
        new = [Node("new", "a new loom")]
        assert hits_of(index.with_changes(add=new)) == hits_of(expected.with_changes(add=new))
    vectors = torch.from_numpy(embed(QUERIES)).float().to(DEVICE)
    assert hits_of(index, "vector", vectors=vectors) == hits_of(index, "vector")
    mask = torch.arange(30) % 2 == 0
    for masked in (mask, mask.to(DEVICE)):
        assert hits_of(index, "spreading", filter=masked) == hits_of(expected, "spreading", filter=mask)
        assert hits_of(index, "spreading", scope=masked) == hits_of(expected, "spreading", scope=mask)


@pytest.mark.skipif(REAL, reason="the simulated device counts its tensors by themselves")
def test_nothing_of_an_index_stays_behind(accelerator):
    """Every tensor of an index on the device is there, and none of one that was moved away."""
    there = GraphIndex.from_nodes(linked_nodes(), linked_edges(), embedding=HashEmbedding(), device=DEVICE)
    assert hits_of(there) and {tensor.device for tensor in tensors_of(there)} == {DEVICE}
    assert {tensor.device.type for tensor in tensors_of(there.to("cpu"))} == {"cpu"}


def tensors_of(index):
    parts = [index.graph, *index.signals.values()]
    return [value for part in parts for value in vars(part).values() if isinstance(value, torch.Tensor)]
