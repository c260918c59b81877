"""The sentence encoder: mean pooling, unit vectors, one load whatever the threads."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.embedding import SentenceEncoder, as_embedding, embed_texts, embedded_batches, load_embedding, minilm
from graph_retrievers.signals.loading import no_loading_bar

TEXTS = ["", "A loom.", "Punched cards held data by the presence of holes, in Lyon and elsewhere.", "織機 🧶", "loom " * 400]


@pytest.fixture(scope="module")
def encoder():
    return minilm(batch_size=2)


def test_vectors_are_the_mean_of_the_last_states_and_of_length_one(encoder):
    tokenizer, model = encoder._read()
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


def test_threads_share_one_model_that_is_loaded_once():
    class Counted(SentenceEncoder):
        loads = 0

        def _read(self):
            type(self).loads += 1
            return super()._read()

    shared = Counted(minilm()._source)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: shared.embed_queries(TEXTS[i % 4 : i % 4 + 1])[0], range(12)))
    assert Counted.loads == 1
    assert all(torch.equal(results[i], results[i % 4]) for i in range(12))


def test_what_cannot_be_loaded_says_so_at_the_first_text(tmp_path):
    encoder = load_embedding(tmp_path)
    with pytest.raises(InvalidArgumentError, match="No embedding model could be loaded"):
        encoder.embed_query("loom")


def test_nothing_is_printed_that_was_not_asked_for():
    code = """if True:
        from graph_retrievers import BM25, GraphIndex, Hybrid, minilm
        index = GraphIndex.from_texts(["a loom", "a card"], embedding=minilm(), edges=[("0", "1")])
        Hybrid(index).retrieve("Which loom?")"""
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


def test_the_bar_of_embedding_moves_by_small_batches_of_texts(encoder, capsys):
    long, short = "a long text of many words " * 60, "short"
    texts = [short, long] * 20
    parts = [rows for rows, _ in embedded_batches(encoder, texts)]
    assert sorted(row for rows in parts for row in rows) == list(range(40))
    # 20 texts of 256 tokens are 8, 8 and 4 with short ones; each batch of long ones is about 2,000 tokens.
    assert [len(rows) for rows in parts[:2]] == [8, 8] and len(parts) == 4
    assert [len(rows) for rows, _ in embedded_batches(lambda_embedding(), texts)] == [32, 8]
    vectors = embed_texts(encoder, texts, show_progress=True)
    assert torch.allclose(vectors[:2], encoder.embed_queries(texts[:2]), atol=1e-5)
    assert torch.allclose(vectors[0::2], vectors[0].expand(20, -1), atol=1e-5)
    assert "/40 [" in capsys.readouterr().err


def lambda_embedding():
    return as_embedding(lambda texts: [[float(len(text)), 1.0] for text in texts])
