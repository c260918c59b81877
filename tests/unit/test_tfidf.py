"""TF-IDF as a signal: equal to scikit-learn's where that is installed, and to sums written out."""

import math
import random

import pytest
import torch

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.operators import BM25Search
from graph_retrievers.signals.tfidf import TfIdf

WORDS = ["loom", "card", "engine", "cloth", "cipher", "brass"]


def weights(counts, texts):
    """The unit vector of a text by its counts of words."""
    found = {
        word: times * (1 + math.log((1 + len(texts)) / (1 + sum(word in text.split() for text in texts))))
        for word, times in counts.items()
        if any(word in text.split() for text in texts)
    }
    length = math.sqrt(sum(value**2 for value in found.values()))
    return {word: value / length for word, value in found.items()} if length else {}


def counted(text):
    return {word: text.split().count(word) for word in text.split()}


def cosines(query, texts):
    asked = weights(counted(query), texts)
    return [sum(asked.get(word, 0.0) * value for word, value in weights(counted(text), texts).items()) for text in texts]


def corpora(seed, count=100):
    rng = random.Random(seed)
    for _ in range(count):
        yield [" ".join(rng.choices(WORDS[:5], k=rng.randrange(6))) for _ in range(rng.randrange(1, 8))], rng


def test_scores_are_cosines_of_weighted_counts():
    for texts, rng in corpora(0):
        signal, queries = TfIdf(texts, language=""), [" ".join(rng.choices(WORDS, k=rng.randrange(5))) for _ in range(3)]
        expected = torch.tensor([cosines(query, texts) for query in queries])
        assert torch.allclose(signal.table(queries), expected.float(), atol=1e-6)
        batch, rows = torch.cartesian_prod(torch.arange(3), torch.arange(len(texts))).T
        assert torch.allclose(signal.scores(queries, batch, rows), expected.flatten().float(), atol=1e-6)
        _, found = signal.search(queries, len(texts))
        for row, cosine in zip(found.tolist(), expected.tolist(), strict=True):
            best = sorted(
                (place for place, value in enumerate(cosine) if value > 0), key=lambda place: (-round(cosine[place], 6), place)
            )
            assert [place for place in row if place >= 0] == best


def test_scores_are_those_of_scikit_learn():
    text = pytest.importorskip("sklearn.feature_extraction.text")
    for texts, _ in corpora(1, 20):
        if not any(texts):
            continue
        vectorizer = text.TfidfVectorizer().fit(texts)
        expected = vectorizer.transform(["loom card card"]) @ vectorizer.transform(texts).T
        assert TfIdf(texts, language="").table(["loom card card"])[0].tolist() == pytest.approx(
            expected.toarray()[0].tolist(), abs=1e-6
        )


def test_changes_scopes_and_files_keep_it_equal_to_a_new_one(tmp_path):
    texts = ["loom card", "card engine", "", "loom loom brass"]
    made, queries = TfIdf(texts, language=""), ["loom engine", "cipher"]
    changed = ["card engine", "cipher loom", "loom card"]
    after = made.updated(changed, torch.tensor([1, -1, 0]), lambda new: torch.zeros(0))
    assert torch.allclose(after.table(queries), TfIdf(changed, language="").table(queries))
    part = made.restricted(torch.tensor([0, 3]), [texts[0], texts[3]])
    assert torch.allclose(part.table(queries), TfIdf([texts[0], texts[3]], language="").table(queries))
    assert repr(made) == "TfIdf(4 nodes, words=4, language='')"
    built = GraphIndex.from_texts(texts)
    index = GraphIndex(built.graph, {**built.signals, "tfidf": made})
    index.save(tmp_path / "index")
    for each in (index, GraphIndex.load(tmp_path / "index")):
        hits = Retriever(each, BM25Search(signal="tfidf"), backfill=False).retrieve("loom engine")
        expected = dict(enumerate(cosines("loom engine", texts)))
        assert {int(hit.id): hit.score for hit in hits} == pytest.approx({row: c for row, c in expected.items() if c > 0}, abs=1e-6)
