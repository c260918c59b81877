"""The sentence encoder: mean pooling, unit vectors, one load whatever the threads."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals import sentence_encoder
from graph_retrievers.signals.embedding import embed_texts, embedded_batches
from graph_retrievers.signals.embedding_models import as_embedding
from graph_retrievers.signals.loading import no_loading_bar
from graph_retrievers.signals.sentence_encoder import SentenceEncoder, load_embedding, minilm

TEXTS = ["", "A loom.", "Punched cards held data by the presence of holes, in Lyon and elsewhere.", "織機 🧶", "loom " * 400]


@pytest.fixture(scope="module")
def encoder():
    return minilm(batch_tokens=64, dtype="float32")


def test_vectors_are_the_mean_of_the_last_states_and_of_length_one(encoder):
    tokenizer, model = encoder._load()
    vectors = torch.tensor(encoder.embed_documents(TEXTS))
    for text, vector in zip(TEXTS, vectors, strict=True):
        with torch.inference_mode():
            inputs = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
            mean = model(**inputs).last_hidden_state[0].mean(0)
        assert torch.allclose(vector, mean / mean.norm(), atol=1e-5)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(len(TEXTS)), atol=1e-5)


def test_a_batch_gives_each_text_what_it_gets_alone(encoder):
    alone = torch.tensor([encoder.embed_query(text) for text in TEXTS])
    assert torch.allclose(encoder.embed_queries(TEXTS), alone, atol=1e-5)


def test_bfloat16_agrees_with_float32_in_any_batch(encoder):
    half = minilm(dtype="bfloat16")
    assert (half.precision, half.embed_queries(TEXTS).dtype) == ("bfloat16", torch.float32)
    exact, found = encoder.embed_queries(TEXTS), half.embed_queries(TEXTS)
    assert half._ready().encoder.packed is not None
    assert float((exact * found).sum(1).min()) > 0.9995 and not torch.allclose(exact, found, atol=1e-6)
    alone = torch.cat([half.embed_queries([text]) for text in TEXTS])
    assert float((alone * found).sum(1).min()) > 0.9999


@pytest.mark.parametrize(
    ("fast", "agree", "chosen"), [(True, 0.9998, "bfloat16"), (False, 0.9998, "float32"), (True, 1.1, "float32")]
)
def test_bfloat16_is_the_default_where_it_is_fast_and_agrees(monkeypatch, fast, agree, chosen):
    monkeypatch.setattr(sentence_encoder, "fast_bfloat16", lambda device: fast)
    monkeypatch.setattr(sentence_encoder, "_AGREE", agree)
    model = minilm()
    assert model.precision == ""
    index = GraphIndex.from_texts(["a loom"], embedding=model)
    assert model.precision == chosen and index.describe().embedding == f"all-MiniLM-L6-v2 in {chosen}"
    assert (minilm(dtype="bfloat16").precision, minilm(dtype=torch.float32).precision) == ("bfloat16", "float32")


def test_a_precision_that_a_cpu_does_not_have_is_refused():
    for dtype in ("float16", "int8"):
        with pytest.raises(InvalidArgumentError, match=f"dtype '{dtype}' cannot be used on cpu"):
            minilm(dtype=dtype)
    with pytest.raises(InvalidArgumentError, match="batch_tokens"):
        minilm(batch_tokens=0)


def test_threads_share_one_model_that_is_loaded_once():
    class Counted(SentenceEncoder):
        loads = 0

        def _load(self):
            type(self).loads += 1
            return super()._load()

    shared = Counted(minilm()._source)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: shared.embed_queries(TEXTS[i % 4 : i % 4 + 1])[0], range(12)))
    assert Counted.loads == 1
    assert all(torch.equal(results[i], results[i % 4]) for i in range(12))


def test_what_cannot_be_loaded_says_so_at_the_first_text(tmp_path):
    encoder = load_embedding(tmp_path)
    with pytest.raises(InvalidArgumentError, match="No embedding model could be loaded"):
        encoder.embed_query("loom")


@pytest.mark.process
def test_nothing_is_printed_that_was_not_asked_for():
    code = """if True:
        from graph_retrievers import BM25, GraphIndex, Hybrid, Retriever, minilm
        index = GraphIndex.from_texts(["a loom", "a card"], embedding=minilm(), edges=[("0", "1")])
        Retriever(index, Hybrid()).retrieve("Which loom?")"""
    env = {name: value for name, value in os.environ.items() if "PROGRESS" not in name and "VERBOSITY" not in name}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_bars_of_other_models_are_left_as_they_were():
    from transformers.utils import logging as messages

    shown = messages.is_progress_bar_enabled()
    try:
        for wanted in (True, False):
            (messages.enable_progress_bar if wanted else messages.disable_progress_bar)()
            with no_loading_bar():
                assert not messages.is_progress_bar_enabled()
            assert messages.is_progress_bar_enabled() is wanted
    finally:
        (messages.enable_progress_bar if shown else messages.disable_progress_bar)()


@pytest.mark.slow
def test_the_bar_of_embedding_moves_by_small_batches_of_texts(encoder, capsys):
    long, short = "a long text of many words " * 60, "short"
    texts = [short, long] * 20
    parts = [rows for rows, _ in embedded_batches(encoder, texts)]
    assert sorted(row for rows in parts for row in rows) == list(range(40))
    # Batches of 64 tokens: each text of 256 by itself, then 20 texts of three together.
    assert [len(rows) for rows in parts] == [1] * 20 + [20]
    assert [len(rows) for rows, _ in embedded_batches(lambda_embedding(), texts)] == [32, 8]
    vectors = embed_texts(encoder, texts, show_progress=True)
    assert torch.allclose(vectors[:2], encoder.embed_queries(texts[:2]), atol=1e-5)
    assert torch.allclose(vectors[0::2], vectors[0].expand(20, -1), atol=1e-5)
    assert "/40 [" in capsys.readouterr().err


def lambda_embedding():
    return as_embedding(lambda texts: [[float(len(text)), 1.0] for text in texts])


# -- other models, by folder ----------------------------------------------------------------------------------------

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "loom", "card", "engine", "a", "ask", "read", ":"]
VOCABULARY = {word: number for number, word in enumerate(WORDS)}


@pytest.fixture
def folder(tmp_path):
    """A small model with random weights, as transformers saves it."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes)).save_pretrained(tmp_path / "model")
    BertTokenizerFast(vocab=VOCABULARY).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_model_of_another_family_runs_by_its_own_forward_in_the_precision_asked_for(folder, tmp_path):
    from transformers import BertTokenizerFast, DistilBertConfig, DistilBertModel

    torch.manual_seed(0)
    sizes = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16, "max_position_embeddings": 8}
    DistilBertModel(DistilBertConfig(vocab_size=len(WORDS), **sizes)).save_pretrained(tmp_path / "other")
    BertTokenizerFast(vocab=VOCABULARY).save_pretrained(tmp_path / "other")
    texts = ["a loom", "a card engine a", "loom " * 40]  # the last is cut at the 8 tokens that the model reads
    exact, half = SentenceEncoder(tmp_path / "other"), SentenceEncoder(tmp_path / "other", dtype="bfloat16")
    found = exact.embed_queries(texts)
    assert exact._ready().encoder.packed is None and (exact.precision, half.precision) == ("float32", "bfloat16")
    for vector, text in zip(found, [*texts[:2], "loom " * 6], strict=True):
        expected = states(tmp_path / "other", text).mean(0)
        assert torch.allclose(vector, expected / expected.norm(), atol=1e-5)
    assert 0.99 < float((half.embed_queries(texts) * found).sum(1).min()) < 1


def states(folder, text):
    from transformers import AutoModel, AutoTokenizer

    with torch.inference_mode():
        read = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
        return AutoModel.from_pretrained(folder).eval()(**read).last_hidden_state[0]


def settings_of(folder, pooling=None, prompts=None):
    (folder / "1_Pooling").mkdir(exist_ok=True)
    if pooling:
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **pooling}))
    if prompts:
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))


@pytest.mark.parametrize(
    ("saved", "given", "first"),
    [
        (None, None, False),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, None, False),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, None, True),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}, "mean", False),
        (None, "cls", True),
        ({"pooling_mode_max_tokens": True}, "cls", True),
    ],
)
def test_a_model_is_pooled_as_its_settings_say(folder, saved, given, first):
    settings_of(folder, saved)
    encoder = SentenceEncoder(folder, pooling=given, batch_tokens=8, dtype="float32")
    found = torch.tensor(encoder.embed_documents(["a loom", "a card engine a"]))
    for vector, text in zip(found, ["a loom", "a card engine a"], strict=True):
        hidden = states(folder, text)
        expected = hidden[0] if first else hidden.mean(0)
        assert torch.allclose(vector, expected / expected.norm(), atol=1e-5)


@pytest.mark.parametrize(
    "saved", [{"pooling_mode_max_tokens": True}, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}], ids=str
)
def test_another_pooling_is_refused(folder, saved):
    settings_of(folder, saved)
    with pytest.raises(InvalidArgumentError, match="is pooled by .*pooling_mode_.*, this encoder by mean or cls"):
        SentenceEncoder(folder).embed_query("a loom")
    with pytest.raises(InvalidArgumentError, match="pooling"):
        SentenceEncoder(folder, pooling="max")


@pytest.mark.parametrize("name", ["document", "passage"])
def test_prompts_stand_before_queries_and_documents(folder, name):
    settings_of(folder, prompts={"query": "ask: ", name: "read: "})
    encoder, plain = SentenceEncoder(folder, dtype="float32"), states
    for found, text in [
        (encoder.embed_query("a loom"), "ask: a loom"),
        (encoder.embed_queries(["a loom"])[0], "ask: a loom"),
        (encoder.embed_documents(["a loom"])[0], "read: a loom"),
    ]:
        expected = plain(folder, text).mean(0)
        assert torch.allclose(torch.as_tensor(found), expected / expected.norm(), atol=1e-5)


def test_a_retriever_searches_by_a_model_of_a_folder(folder):
    settings_of(folder, {"pooling_mode_cls_token": True}, {"query": "ask: "})
    texts = ["a loom", "a card", "engine engine"]
    index = GraphIndex.from_texts(texts, embedding=str(folder))
    scores = [float(states(folder, "ask: a card")[0] @ states(folder, text)[0] / states(folder, text)[0].norm()) for text in texts]
    best = max(range(3), key=lambda row: scores[row])
    assert Retriever(index, "vector").retrieve("a card", k=1)[0].id == str(best)


def test_settings_on_a_hub_that_does_not_answer_are_told(monkeypatch, tmp_path, caplog):
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def answers(result):
        def download(repository, file):
            assert (repository, file) == ("some/model", "1_Pooling/config.json")
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
        return SentenceEncoder("some/model")._settings("1_Pooling/config.json")

    (tmp_path / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert answers(str(tmp_path / "config.json")) == {"pooling_mode_cls_token": True} and not caplog.messages
    missing = huggingface_hub.errors.EntryNotFoundError.__new__(huggingface_hub.errors.EntryNotFoundError)
    assert answers(missing) == {} and not caplog.messages
    assert answers(LocalEntryNotFoundError("offline")) == {}
    assert "1_Pooling/config.json of some/model cannot be read" in caplog.text and "another pooling" in caplog.text
