"""Learned sparse encoders, on small models made here, and the signal over their weights."""

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertModel, BertTokenizerFast

from graph_retrievers import Retriever
from graph_retrievers.errors import InvalidArgumentError, InvalidVectorError, MissingSignalError
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search
from graph_retrievers.signals import sparse
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.sparse import SparseIndex
from graph_retrievers.signals.sparse_encoders import LexicalWeights, Splade
from graph_retrievers.systems import LeSeGR
from tests.helpers import HashEmbedding

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "loom", "card", "engine", "a", "of", "brass", "punched"]
TEXTS = ["a loom", "a punched card", "engine of brass", "a loom card"]


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizerFast(vocab={word: number for number, word in enumerate(WORDS)})


def config():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes)


def test_splade_is_the_largest_logit_of_any_position(tokenizer):
    torch.manual_seed(0)
    model = BertForMaskedLM(config()).eval()
    encoder = Splade((model, tokenizer), batch_size=2)
    found = encoder.encode(TEXTS)
    for text, weights in zip(TEXTS, found, strict=True):
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits[0]
        expected = torch.log1p(torch.relu(logits)).amax(0)
        dense = torch.zeros(len(WORDS))
        dense[list(weights)] = torch.tensor(list(weights.values()))
        assert torch.allclose(dense, expected, atol=1e-5), "padding of a batch adds nothing"


def test_splade_is_read_from_a_folder_and_searched_as_words_are(tokenizer, tmp_path):
    torch.manual_seed(0)
    model = BertForMaskedLM(config()).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    weights = [Splade((model, tokenizer)).encode([text])[0] for text in [*TEXTS, "a card"]]
    built = GraphIndex.from_texts(TEXTS)
    index = GraphIndex(built.graph, {**built.signals, "splade": SparseIndex(TEXTS, Splade(tmp_path))})
    hits = Retriever(index, BM25Search(signal="splade"), backfill=False).retrieve("a card")
    products = [sum(value * weights[-1].get(term, 0.0) for term, value in text.items()) for text in weights[:-1]]
    assert {int(hit.id): hit.score for hit in hits} == pytest.approx({row: p for row, p in enumerate(products) if p > 0}, abs=1e-4)
    (tmp_path / "model.safetensors").rename(tmp_path / "elsewhere")
    with pytest.raises(InvalidArgumentError, match="No sparse encoder could be loaded from"):
        Splade(tmp_path).encode(["a loom"])


def test_lexical_weights_are_those_of_tokens_without_special_ones(tokenizer):
    torch.manual_seed(1)
    model = BertModel(config()).eval()
    weight, bias = torch.randn(16), 0.3
    found = LexicalWeights((model, tokenizer), (weight, bias)).encode(["a loom a card"])[0]
    read = tokenizer("a loom a card", return_tensors="pt")
    with torch.no_grad():
        hidden = model(**read).last_hidden_state[0]
    expected = {}
    for token, value in zip(read["input_ids"][0].tolist(), torch.relu(hidden @ weight + bias).tolist(), strict=True):
        if token >= 5 and value > 0:
            expected[token] = max(expected.get(token, 0.0), value)
    assert found == pytest.approx(expected, abs=1e-5)
    with pytest.raises(InvalidArgumentError, match="3 weights for hidden states of width 16"):
        LexicalWeights((model, tokenizer), (torch.ones(3), 0.0)).encode(["a loom"])


class Fixed:
    """Weights that a test gives."""

    name = "fixed"

    def __init__(self, weights):
        self.weights = weights

    def encode(self, texts, *, queries=False):
        return [self.weights[text] for text in texts]


def test_scores_are_dot_products_whichever_way_they_are_asked():
    weights = {"x": {0: 1.0, 3: 2.0}, "y": {3: 0.5}, "z": {}, "q": {3: 2.0, 7: 9.0, 0: 0.5}, "r": {1: 1.0}}
    signal = SparseIndex(["x", "y", "z"], Fixed(weights))
    assert signal.table(["q", "r"]).tolist() == [[4.5, 1.0, 0.0], [0.0, 0.0, 0.0]]
    pairs = signal.scores(["q", "r"], torch.tensor([0, 0, 0, 1]), torch.tensor([0, 1, 2, 0]))
    assert pairs.tolist() == [4.5, 1.0, 0.0, 0.0]
    scores, rows = signal.search(["q", "r"], 2)
    assert rows.tolist() == [[0, 1], [-1, -1]] and scores[0].tolist() == [4.5, 1.0]


@pytest.mark.parametrize("entries", [1, 1 << 24])
def test_single_pairs_of_bm25_equal_its_table(entries, monkeypatch):
    monkeypatch.setattr(sparse, "_ENTRIES_AT_A_TIME", entries)
    texts = ["a loom and a loom", "punched cards", "", "a cipher, a loom, a card"]
    bm25, asked = BM25(texts), ["loom loom cards", "cipher", "nothing known"]
    batch, rows = torch.cartesian_prod(torch.arange(3), torch.arange(4)).unbind(1)
    assert torch.allclose(bm25.scores(asked, batch, rows).view(3, 4), bm25.table(asked))
    assert BM25(["", ""]).scores(["loom"], torch.tensor([0]), torch.tensor([1])).tolist() == [0.0]


def test_an_index_keeps_the_weights_and_gets_its_encoder_back(tokenizer, tmp_path):
    torch.manual_seed(0)
    encoder = Splade((BertForMaskedLM(config()).eval(), tokenizer))
    built = GraphIndex.from_texts(TEXTS, embedding=HashEmbedding(), edges=[("0", "3")])
    index = GraphIndex(built.graph, {**built.signals, "splade": SparseIndex(TEXTS, encoder)}, embedding=HashEmbedding())
    found = Retriever(index, LeSeGR(sparse="splade")).retrieve("a loom")
    without = GraphIndex(built.graph, {name: index.signals[name] for name in ("dense", "splade")}, embedding=HashEmbedding())
    assert {hit.operator for hit in Retriever(without, LeSeGR(sparse="splade")).retrieve("a loom")} == {"VectorSearch"}
    index.save(tmp_path / "index")
    bare = GraphIndex.load(tmp_path / "index", embedding=HashEmbedding())
    with pytest.raises(MissingSignalError, match="without its encoder 'BertForMaskedLM'"):
        Retriever(bare, LeSeGR(sparse="splade")).retrieve("a loom")
    signals = {"splade": bare.signal("splade").with_encoder(encoder)}
    again = GraphIndex.load(tmp_path / "index", embedding=HashEmbedding(), signals=signals)
    assert [(hit.id, hit.score) for hit in Retriever(again, LeSeGR(sparse="splade")).retrieve("a loom")] == [
        (h.id, h.score) for h in found
    ]
    with pytest.raises(InvalidArgumentError, match="not with 'fixed'"):
        bare.signal("splade").with_encoder(Fixed({}))


def test_weights_that_are_no_weights_are_refused():
    for wrong in ({0: float("nan")}, {0: -1.0}, {-1: 1.0}, {2**40: 1.0}, {"a": 1.0}, {1.7: 1.0}, {0: "x"}, [1.0], None):
        with pytest.raises(InvalidVectorError):
            SparseIndex(["x"], Fixed({"x": wrong}))
    with pytest.raises(InvalidArgumentError, match="Expected a sparse encoder"):
        SparseIndex(["x"], lambda texts: [])
    with pytest.raises(InvalidArgumentError, match="No sparse encoder could be loaded"):
        Splade("no/such/model/folder").encode(["x"])
