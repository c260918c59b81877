"""Encoders, relevance models and training on a GPU give what they give on a processor."""

import copy

import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM, BertModel

from graph_retrievers import CrossEncoder, GraphIndex, read_system
from graph_retrievers.learning import loop
from graph_retrievers.operators import EvidenceNetwork
from graph_retrievers.signals.colbert import ColBERT
from graph_retrievers.signals.sentence_encoder import SentenceEncoder
from graph_retrievers.signals.sparse_encoders import LexicalWeights, Splade
from graph_retrievers.systems.gnn_rag.training import fit_gnn_rag
from graph_retrievers.systems.grag.training import fit_grag
from graph_retrievers.systems.lesegr.training import fit_lesegr
from graph_retrievers.systems.mor.training import fit_mor
from graph_retrievers.systems.path_reranking.training import fit_path_reranking
from graph_retrievers.systems.subgraph_rag.training import fit_subgraph_rag
from tests.accelerator import DEVICE
from tests.device.test_retrievers import found, same
from tests.fidelity import test_gnn_rag, test_subgraph_rag
from tests.helpers import HashEmbedding
from tests.unit import test_grag_training, test_learning, test_lesegr_training, test_path_reranking_training
from tests.unit.test_cross_encoder import FAMILIES, QUERIES, SIZES, TEXTS, WORDS, build, tokenizer

DEVICES = (None, DEVICE)
TERMS = len(WORDS) + 5


def bert(kind=BertModel):
    torch.manual_seed(3)
    return kind(BertConfig(vocab_size=TERMS, max_position_embeddings=64, initializer_range=0.4, pad_token_id=0, **SIZES)).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small encoder."""
    made = tmp_path_factory.mktemp("encoder")
    bert().save_pretrained(made)
    tokenizer().save_pretrained(made)
    return made


def numbers(encoder):
    """The weights of an encoder of terms, as rows of a table."""
    table = torch.zeros(len(TEXTS), TERMS)
    for row, weights in enumerate(encoder.encode(TEXTS)):
        table[row, list(weights)] = torch.tensor(list(weights.values()))
    return table


ENCODERS = {
    "queries": lambda folder, **given: SentenceEncoder(folder, dtype="float32", **given).embed_queries(TEXTS),
    "documents": lambda folder, **given: SentenceEncoder(folder, dtype="float32", **given).embed_documents(TEXTS),
    "splade": lambda folder, **given: numbers(Splade((bert(BertForMaskedLM), tokenizer()), max_length=40, **given)),
    "lexical": lambda folder, **given: numbers(
        LexicalWeights((bert(), tokenizer()), (torch.linspace(-1, 1, 16), 0.2), max_length=40, **given)
    ),
    "colbert": lambda folder, **given: torch.cat(ColBERT((bert(), tokenizer()), **given).encode(QUERIES)),
    "colbert queries": lambda folder, **given: torch.cat(ColBERT((bert(), tokenizer()), **given).encode(QUERIES, queries=True)),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_gives_the_same(accelerator, folder, name):
    here, there = (torch.as_tensor(ENCODERS[name](folder, device=device)).cpu() for device in DEVICES)
    torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cross_encoder_gives_the_same(accelerator, family):
    scores = []
    for device in DEVICES:
        model = CrossEncoder((build(family), tokenizer()), max_length=40, device=device)
        scores.append(model.score(model.encode(QUERIES, TEXTS)).cpu())
        assert copy.deepcopy(model).device == model.device
    torch.testing.assert_close(scores[1], scores[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("of_index", "of_model"), [(DEVICE, DEVICE), ("cpu", DEVICE), (DEVICE, "cpu")], ids=str)
def test_index_and_cross_encoder_may_be_on_two_devices(accelerator, of_index, of_model):
    results = []
    for device, elsewhere in (("cpu", "cpu"), (of_index, of_model)):
        model = CrossEncoder((build("bert"), tokenizer()), max_length=40, device=elsewhere)
        given = {"embedding": HashEmbedding(), "relevance": model, "edges": [(str(row), str(row + 1)) for row in range(6)]}
        index = GraphIndex.from_texts([text or "a" for text in TEXTS], device=device, **given)
        results.append([found(index, name, QUERIES[:3]) for name in ("fastinsight", "path-reranking")])
    for here, there in zip(*results, strict=True):
        same(there, here)


def rivers(device):
    data = test_path_reranking_training.dataset()
    index = test_path_reranking_training.index_of(data)
    model = build("bert", initializer_range=0.2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    relevance = CrossEncoder((model, tokenizer()), max_length=40, device=device)
    return data, GraphIndex(index.graph, index.signals, embedding=index.embedding, relevance=relevance).to(device)


def hashed(module):
    def made(device):
        data = module.dataset()
        return data, GraphIndex.from_graph(data.graph(device), embedding=HashEmbedding())

    return made


SHORT = {"epochs": 2, "learning_rate": 0.003}
PARSED = {"parser": test_grag_training.NAMED}
# By the name of a system: its data, its training, what both are given, and what only the training is, made anew, as networks learn.
# Without dropout, for which each device has a generator of its own.
TRAININGS = {
    "gnn-rag": (
        hashed(test_gnn_rag),
        fit_gnn_rag,
        {},
        lambda: {"hidden": 8, "instructions": 1, "layers": 2, "dropout": 0.0, "training": {**SHORT, "epochs": 1}},
    ),
    "subgraph-rag": (hashed(test_subgraph_rag), fit_subgraph_rag, {}, lambda: {"training": SHORT}),
    "lesegr": (hashed(test_lesegr_training), fit_lesegr, {}, lambda: {"training": {**SHORT, "batch_size": 6}}),
    "g-rag": (
        hashed(test_grag_training),
        fit_grag,
        {"first": "vector", **PARSED},
        lambda: {"network": graph(0.0), "training": SHORT},
    ),
    "mor": (hashed(test_learning), fit_mor, {}, dict),
    "path-reranking": (
        rivers,
        fit_path_reranking,
        {"first": "spreading(gate='uniform')", "depth": 5},
        lambda: {"training": {**SHORT, "negatives": 3, "k": 1}},
    ),
}


def graph(dropout):
    torch.manual_seed(0)
    return EvidenceNetwork(hidden=8, dropout=dropout)


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_gives_the_same_network_and_the_network_the_same_hits(accelerator, tmp_path, name):
    made, fitted, both, options = TRAININGS[name]
    indexes = {}
    for device in ("cpu", DEVICE):
        data, indexes[device] = made(device)
        assert indexes[device].device == torch.device(device)
        fitted(data, indexes[device], tmp_path / str(device), **both, **options())
    for here, there in zip(*(sorted((tmp_path / str(device)).rglob("*.safetensors")) for device in indexes), strict=True):
        weights, others = load_file(here), load_file(there)
        assert weights.keys() == others.keys()
        for part, expected in weights.items():
            if part.endswith("key.bias"):
                # It adds the same to all scores of a query, so that its gradient is rounding, which AdamW scales up.
                continue
            torch.testing.assert_close(others[part], expected, rtol=1e-3, atol=1e-4)
    system = type(read_system(name))(checkpoint=tmp_path / "cpu", **both)
    here, there = (found(index, system, [query.text for query in data.queries][:16]) for index in indexes.values())
    same(there, here)
    assert not any("not trained" in note for _, notes in here[0] for note in notes)


def test_a_training_with_dropout_goes_on_as_if_it_had_not_been_stopped(accelerator, tmp_path, monkeypatch):
    data, index = hashed(test_grag_training)(DEVICE)
    options = {"first": "vector", **PARSED, "training": {**SHORT, "batch_size": 3}}
    fit_grag(data, index, tmp_path / "whole", network=graph(0.5), **options)
    real = loop.save_state

    def stopped(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save_state", stopped)
    with pytest.raises(KeyboardInterrupt):
        fit_grag(data, index, tmp_path / "stopped", network=graph(0.5), **options)
    monkeypatch.setattr(loop, "save_state", real)
    fit_grag(data, index, tmp_path / "stopped", network=graph(0.5), **options)
    (whole,), (resumed,) = (list((tmp_path / part).glob("*.safetensors")) for part in ("whole", "stopped"))
    for name, expected in load_file(whole).items():
        torch.testing.assert_close(load_file(resumed)[name], expected, rtol=1e-5, atol=1e-6)
