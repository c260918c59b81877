"""The relevance port, the bi-encoder and scores of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.cross_encoders import BaseCrossEncoder

from graph_retrievers.errors import InvalidArgumentError, InvalidVectorError, MissingSignalError
from graph_retrievers.index import GraphIndex
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.signals.models import PairScorer, as_relevance_model

WORDS = ["graph", "node", "edge", "tree"]


class CountingWords:
    """An embedding that counts four words and remembers what it was asked."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(text.split().count(word)) for word in WORDS] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        return self.embed_documents([text])[0]


class SharedWords(BaseCrossEncoder):
    """A LangChain cross-encoder: how many words a pair shares."""

    def score(self, text_pairs: list[tuple[str, str]]) -> list[float]:
        return [float(len(set(a.split()) & set(b.split()))) for a, b in text_pairs]


def test_the_score_of_a_bi_encoder_is_the_dot_product_of_the_two_vectors() -> None:
    model = BiEncoder(CountingWords())
    latent = model.encode(["graph node", "edge edge"], ["a graph with one node and another node", "no such word"])
    assert latent.tolist() == [[3], [0]]
    assert model.score(latent).tolist() == [3, 0]


def test_a_bi_encoder_embeds_each_distinct_query_once_and_keeps_pairs_in_order() -> None:
    words = CountingWords()
    latent = BiEncoder(words).encode(["tree", "node", "tree"], ["node tree", "node tree", "tree tree"])
    assert words.queries == ["tree", "node"]
    assert latent.tolist() == [[1], [1], [2]]


whole = st.integers(-50, 50)


@settings(max_examples=60)
@given(st.data())
def test_mixing_latents_is_exactly_mixing_node_vectors(data: st.DataObject) -> None:
    # Whole numbers are exact in float32, so linearity can be asked for without a tolerance.
    n, d = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 6))
    table = st.lists(st.lists(whole, min_size=d, max_size=d), min_size=n, max_size=n)
    nodes = torch.tensor(data.draw(table), dtype=torch.float32)
    query = torch.tensor(data.draw(st.lists(whole, min_size=d, max_size=d)), dtype=torch.float32)
    mix = torch.tensor(data.draw(st.lists(st.lists(whole, min_size=n, max_size=n), min_size=n, max_size=n)), dtype=torch.float32)
    # The latents of a graph's nodes as an index gives them: the dot products themselves.
    texts = [str(row) for row in range(n)]
    index = GraphIndex.from_texts(texts, vectors=nodes, bm25=False, embedding=lambda queries: [query.tolist() for _ in queries])
    queries = Queries.of(index, ["question"])
    latents = queries.pair_latents(np.zeros(n, np.int64), np.arange(n))
    assert latents.shape == (n, 1)
    mixed = index.relevance.score(mix @ latents)
    assert torch.equal(mixed, (mix @ nodes) @ query)


def test_scores_take_any_leading_dimensions() -> None:
    latent = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    for model in (BiEncoder(), PairScorer(lambda pairs: [])):
        assert torch.equal(model.score(latent), latent[:, :, 0])


def test_a_bi_encoder_without_an_embedding_says_so() -> None:
    with pytest.raises(MissingSignalError, match="embedding="):
        BiEncoder().encode(["a"], ["b"])


def test_no_pairs_give_no_latents() -> None:
    assert BiEncoder(CountingWords()).encode([], []).shape[0] == 0
    assert PairScorer(lambda pairs: 1 / 0).encode([], []).shape == (0, 1)


@pytest.mark.parametrize("model", [BiEncoder(CountingWords()), PairScorer(lambda pairs: [0.0] * len(pairs))])
@pytest.mark.parametrize(("queries", "texts"), [(["a"], ["b", "c"]), (["a", "b"], ["c"]), ("ab", ["c", "d"]), (["a"], "b")])
def test_unequal_lists_are_refused(model: Any, queries: Any, texts: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"expected (one query|two lists)"):
        model.encode(queries, texts)


def test_a_langchain_cross_encoder_gives_its_own_scores() -> None:
    model = as_relevance_model(SharedWords())
    latent = model.encode(["a b", "c"], ["b a d", "d"])
    assert latent.shape == (2, 1)
    assert model.score(latent).tolist() == [2, 0]
    assert model.name == "SharedWords"


def test_a_callable_becomes_a_pair_scorer_and_a_relevance_model_stays_itself() -> None:
    def lengths(pairs: list[tuple[str, str]]) -> list[int]:
        return [len(text) for _, text in pairs]

    model = as_relevance_model(lengths)
    assert model.name == "lengths"
    assert model.score(model.encode(["q", "q"], ["abc", "d"])).tolist() == [3, 1]
    assert as_relevance_model(model) is model


def test_a_name_becomes_a_cross_encoder_that_has_loaded_nothing() -> None:
    model = as_relevance_model("some-organisation/a-model-that-is-not-there")
    assert isinstance(model, CrossEncoder)
    assert model.name == "some-organisation/a-model-that-is-not-there"


def test_what_is_no_relevance_model_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="int is not a relevance model"):
        as_relevance_model(3)


def test_a_score_that_is_no_number_is_refused_with_its_row() -> None:
    with pytest.raises(InvalidVectorError, match=r"scores of broken\[1\]"):
        PairScorer(lambda pairs: [0.5, float("nan")], "broken").encode(["a", "a"], ["b", "c"])


def test_a_scorer_that_returns_too_few_scores_is_refused() -> None:
    with pytest.raises(ValueError, match="scores of short"):
        PairScorer(lambda pairs: [0.5], "short").encode(["a", "a"], ["b", "c"])
