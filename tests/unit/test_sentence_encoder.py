"""The sentence encoder: mean pooling, unit vectors, one load whatever the threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals.embedding import SentenceEncoder, load_embedding, minilm

TEXTS = ["", "A loom.", "Punched cards held data by the presence of holes, in Lyon and elsewhere.", "織機 🧶", "loom " * 400]


@pytest.fixture(scope="module")
def encoder():
    return minilm(batch_size=2)


def test_vectors_are_the_mean_of_the_last_states_and_of_length_one(encoder):
    tokenizer, model = encoder._read()
    vectors = encoder.embed_documents(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        with torch.inference_mode():
            inputs = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
            mean = model(**inputs).last_hidden_state[0].mean(0)
        assert torch.allclose(vector, mean / mean.norm(), atol=1e-5)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(len(TEXTS)), atol=1e-5)


def test_a_batch_gives_each_text_what_it_gets_alone(encoder):
    alone = torch.stack([encoder.embed_query(text) for text in TEXTS])
    assert torch.allclose(encoder.embed_queries(TEXTS), alone, atol=1e-5)


def test_threads_share_one_model_that_is_loaded_once():
    class Counted(SentenceEncoder):
        loads = 0

        def _read(self):
            type(self).loads += 1
            return super()._read()

    shared = Counted(minilm()._source)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: shared.embed_documents(TEXTS[i % 4 : i % 4 + 1])[0], range(12)))
    assert Counted.loads == 1
    assert all(torch.equal(results[i], results[i % 4]) for i in range(12))


def test_what_cannot_be_loaded_says_so_at_the_first_text(tmp_path):
    encoder = load_embedding(tmp_path)
    with pytest.raises(InvalidArgumentError, match="No embedding model could be loaded"):
        encoder.embed_query("loom")
