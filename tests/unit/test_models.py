"""Models of the user: which are taken, and answers that are not vectors or scores."""

import numpy as np
import pytest
import torch

from graph_retrievers import Retriever
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.signals.embedding import embed_queries
from graph_retrievers.signals.embedding_models import CachedEmbedding, as_embedding
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.signals.sentence_encoder import SentenceEncoder, minilm
from tests.helpers import HashEmbedding, linked_index


@pytest.mark.parametrize("answer", [None, [], (), np.zeros((0,)), [[1.0, 0.0], [0.0, 1.0]], torch.zeros(0, 2)])
@pytest.mark.parametrize("kind", ["callable", "object"])
def test_embedding_models_that_answer_nothing(kind, answer):
    class Model:
        name = "mute"

        def embed_documents(self, texts):
            return answer

        def embed_query(self, text):
            return None if answer is None else answer[:0]

    model = (lambda texts: answer) if kind == "callable" else Model()
    with pytest.raises((DimensionMismatchError, InvalidVectorError), match=r"vectors (are None|have shape \[.*\]); expected"):
        GraphIndex.from_texts(["a loom", "a card", "a drum"], embedding=model)
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0, 0.0], [0.0, 1.0]], embedding=model)
    with pytest.raises(InvalidVectorError, match="gave .* for the query 'loom'; expected one vector, a list of numbers"):
        Retriever(index, "vector").retrieve("loom")


def test_an_encoder_embeds_questions_in_its_own_way():
    class Encoder:
        def encode(self, texts):
            return [[float(len(text)), 0.0] for text in texts]

    class Asked(Encoder):
        def encode_query(self, texts):
            return [[0.0, float(len(text))] for text in texts]

    for encoder, expected in ((Encoder(), [[4.0, 0.0], [6.0, 0.0]]), (Asked(), [[0.0, 4.0], [0.0, 6.0]])):
        model = as_embedding(encoder)
        assert embed_queries(model, ["loom", "a card"]).tolist() == expected
        assert model.embed_query("loom") == expected[0] and model.embed_documents(["loom"]) == [[4.0, 0.0]]


@pytest.mark.parametrize("missing", [None, [], np.zeros(0)])
@pytest.mark.parametrize("texts", [["a card"], ["a loom", "a card"]])
def test_the_text_for_which_a_function_has_no_vector_is_named(texts, missing):
    model = as_embedding(lambda given: [missing if text == "a card" else [1.0, 0.0] for text in given])
    with pytest.raises(InvalidVectorError, match=r"gave .* for the query 'a card'; expected one vector"):
        embed_queries(model, texts)


def test_embedding_models_whose_vectors_are_of_two_widths():
    class Model:
        def embed_documents(self, texts):
            return [[1.0] * (2 + ("40" in text)) for text in texts]

        def embed_query(self, text):
            return [1.0] * (2 + len(text) % 2)

    with pytest.raises(DimensionMismatchError):
        GraphIndex.from_texts([f"text {n}" for n in range(64)], embedding=Model())
    with pytest.raises(DimensionMismatchError, match="3 dimensions, the index has 2"):
        embed_queries(Model(), ["even", "odd"])


@pytest.mark.parametrize("models", [{"embedding": SentenceEncoder}, {"embedding": minilm}, {"relevance": CrossEncoder}])
def test_models_that_were_not_called(models):
    with pytest.raises(InvalidArgumentError, match=r"is the (class|function)"):
        GraphIndex.from_texts(["a", "b"], **models)


@pytest.mark.parametrize("scores", [None, ["high", "low"], "ab"])
def test_scores_of_a_model_that_are_not_numbers(scores):
    index = GraphIndex.from_texts(["a", "b"], vectors=[[1.0], [1.0]], relevance=lambda pairs: scores)
    with pytest.raises(InvalidArgumentError, match="expected a number for each pair"):
        Retriever(index, "re2").retrieve("q", vector=[1.0])


def test_a_bi_encoder_of_another_model_stays():
    index = linked_index(relevance=BiEncoder(as_embedding(HashEmbedding(32))))
    assert index.with_models(embedding=HashEmbedding()).relevance is index.relevance


def test_score_comes_before_a_call():
    class Model:
        def score(self, pairs):
            return [1.0 for _ in pairs]

        def __call__(self, pairs):
            return [2.0 for _ in pairs]

    model = as_relevance_model(Model())
    assert model.score(model.encode(["q"], ["t"])).tolist() == [1.0]


def test_the_cache_of_vectors_forgets_the_oldest():
    asked = []
    model = CachedEmbedding(lambda texts: asked.extend(texts) or [[1.0]] * len(texts), limit=2)
    for text in "abcbca":
        model.embed_documents([text])
    assert asked == ["a", "b", "c", "a"]
    assert CachedEmbedding(HashEmbedding()).name == "HashEmbedding"
    named = HashEmbedding()
    named.name = "special"
    assert CachedEmbedding(named).name == "special"
    assert model.embed_documents([]).shape[0] == 0
