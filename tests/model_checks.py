"""What holds for every model: vectors and scores are finite, and do not depend on the texts beside."""

from graph_retrievers.signals.embedding import embed_queries, embed_texts
from graph_retrievers.signals.embedding_models import as_embedding
from graph_retrievers.signals.models import as_relevance_model

TEXTS = ("A loom weaves cloth.", "Punched cards drive a loom.", "", "A mill grinds corn.", "A loom weaves cloth.")


def check_embedding(embedding, texts=TEXTS):
    """Shapes, finite numbers, and the same vector for the same text or query in any batch."""
    model, given = as_embedding(embedding), list(texts)
    vectors = embed_texts(model, given)
    _check_vectors(vectors, given, lambda texts: embed_texts(model, texts), "text")
    queries = [text for text in given if text.strip()]
    held = embed_queries(model, queries, vectors.shape[1])
    _check_vectors(held, queries, lambda texts: embed_queries(model, texts), "query")


def _check_vectors(vectors, texts, embed, kind):
    worst = float((vectors - embed(texts[::-1]).flip(0)).abs().max())
    assert worst < 1e-3, f"a {kind} has another vector in another order: entries differ by {worst:.2g}"
    for place, text in enumerate(texts):
        worst = float((embed([text])[0] - vectors[place]).abs().max())
        assert worst < 1e-3, f"the {kind} {text!r} has another vector among others than alone: entries differ by {worst:.2g}"


def check_relevance(relevance, query="Which loom?", texts=TEXTS):
    """A finite score per text, and the same for the same pair; of a model that judges lists, the same for the same list."""
    model, given = as_relevance_model(relevance), list(texts)
    # Among the texts of another query.
    (_, _), (latents, _) = model.encode_lists([(f"Not: {query}", given[1:]), (query, given)])
    scores = model.score(latents)
    assert scores.shape == (len(given),), f"{len(given)} texts have scores of shape {tuple(scores.shape)}"
    assert bool(scores.isfinite().all()), "scores hold NaN or infinity"
    if model.listwise:
        ((latents, _),) = model.encode_lists([(query, given)])
        worst = float((model.score(latents) - scores).abs().max())
        assert worst < 1e-3, f"the texts of {query!r} score otherwise beside those of another query: scores differ by {worst:.2g}"
        return
    for place, text in enumerate(given):
        alone, among = float(model.score(model.encode([query], [text]))[0]), float(scores[place])
        told = f"{text!r} scores {alone:.6g} alone and {among:.6g} among others; set listwise if that is meant"
        assert abs(alone - among) < 1e-3, told
