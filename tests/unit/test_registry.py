"""The short names of retrievers: what each stands for, and which is the default."""

import pytest

from graph_retrievers import GraphIndex
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.retrievers.signatures import class_knobs
from graph_retrievers.systems.mor import LanguageModelPlanner
from graph_retrievers.systems.registry import build_retriever, default_retriever, retriever_class, retriever_names
from tests.helpers import HashEmbedding, linked_index

NAMES = {
    "vector": ("Vector", {}),
    "bm25": ("BM25", {}),
    "hybrid": ("Hybrid", {}),
    "re2": ("Re2", {}),
    "fastinsight": ("FastInsight", {}),
    "fastinsight-hybrid": ("FastInsight", {"fuse": True}),
    "gar": ("GAR", {}),
    "ppr": ("PPR", {}),
    "spreading": ("SpreadingActivation", {}),
    "spreading-uniform": ("SpreadingActivation", {"gate": "uniform"}),
    "spreading-hybrid": ("SpreadingActivation", {"fuse": True}),
    "walk-fusion": ("WalkFusion", {}),
    "eager": ("Eager", {}),
    "mmr": ("MMR", {}),
    "scored": ("Scored", {}),
    "hyde": ("HyDE", {}),
    "decomposition": ("Decomposition", {}),
    "ircot": ("IRCoT", {}),
    "lesegr": ("LeSeGR", {}),
    "path-reranking": ("PathReranking", {}),
    "lightrag": ("LightRAG", {}),
    "pathrag": ("PathRAG", {}),
    "g-rag": ("GRAG", {}),
    "g-retriever": ("GRetriever", {}),
    "hipporag": ("HippoRAG", {}),
    "linear-rag": ("LinearRAG", {}),
    "mor": ("MoR", {}),
    "mor-text": ("MoR", {"structure": False, "rerank": False}),
    "mor-structure": ("MoR", {"matches": 0, "rerank": False}),
    "mor-no-rerank": ("MoR", {"rerank": False}),
}


def test_each_name_stands_for_a_class_and_keywords():
    assert {name: (kind.__name__, keywords) for name in retriever_names() for kind, keywords in [retriever_class(name)]} == NAMES
    with pytest.raises(InvalidArgumentError, match="retriever .*'none'"):
        retriever_class("none")


@pytest.mark.parametrize(
    ("edges", "why"),
    [
        ([], "there are neither edges nor vectors: words alone"),
        ([("0", "1")], "there are no vectors: words alone, edges are not followed"),
    ],
)
def test_a_default_that_reads_words_alone_says_why(edges, why):
    index = GraphIndex.from_texts(["a loom", "a card"], edges=edges)
    (hit,) = build_retriever(None, index, k=1).retrieve("Which loom?")
    assert hit.reason == why and hit.explain().splitlines()[-1] == why
    # Whoever asks for it by name knows.
    assert build_retriever("bm25", index, k=1).retrieve("Which loom?")[0].reason == ""


def test_what_is_built_has_the_name_and_the_options():
    index = linked_index()
    uniform = build_retriever("spreading-uniform", index, k=3, steps=1)
    assert (uniform.name, uniform.k) == ("spreading-uniform", 3) and "steps=1" in repr(uniform)
    assert build_retriever("bm25", index, name="mine").name == "mine"
    assert "gate='uniform'" in repr(uniform) and "gate='uniform'" not in repr(build_retriever("spreading", index, steps=1))
    assert (build_retriever(None, index).k, build_retriever(None, index, k=2).k) == (10, 2)
    with pytest.raises(UnexpectedArgumentError, match="bm25 does not take 'steps'; it takes .*backfill, .*k, "):
        build_retriever("bm25", index, steps=1)
    assert not build_retriever("bm25", index, backfill=False).backfill


@pytest.mark.parametrize(
    ("kinds", "words", "signals", "name"),
    [
        ("xx", 3, {}, "walk-fusion"),
        ("xy", 3, {}, "spreading"),
        ("xyz", 3, {}, "spreading"),
        ("xy", 25, {}, "walk-fusion"),
        ("xy", 3, {"bm25": False}, "spreading"),
        ("xy", 25, {"bm25": False}, "spreading-hybrid"),
        ("xx", 3, {"bm25": False}, "spreading-hybrid"),
        ("xy", 3, {"embedding": None}, "bm25"),
    ],
)
def test_the_default_follows_types_texts_and_signals(kinds, words, signals, name):
    nodes = [Node(str(place), "word " * words, type=kind) for place, kind in enumerate(kinds)]
    index = GraphIndex.from_nodes(nodes, **{"embedding": HashEmbedding(), **signals})
    assert default_retriever(index) == build_retriever(None, index).name == name


class _Documented:
    """A class.

    Parameters
    ----------
    first : int
    second : int
        Both of these.
    third : int
        Another.
    """

    def __init__(self, index, *, first=1, second=2, third=3):
        pass


def test_parameters_documented_together():
    assert [knob.doc for knob in class_knobs(_Documented)] == ["Both of these.", "Both of these.", "Another."]


def _asks(name):
    """Return the keyword of a retriever that takes a language model, or what asks one; None if there is none."""
    knobs = {knob.name for knob in class_knobs(retriever_class(name)[0])}
    return next((knob for knob in ("language_model", "planner") if knob in knobs), None)


ASKING = [name for name in retriever_names() if _asks(name)]


@pytest.mark.parametrize("name", ASKING)
def test_where_a_language_model_fails_the_search_goes_on_and_a_note_says_why(name):
    def model(prompt):
        raise RuntimeError("no quota")

    assert len(ASKING) == 13
    index = linked_index(edge_signals=True)
    options = {_asks(name): LanguageModelPlanner(model) if _asks(name) == "planner" else model}
    if name in ("hyde", "ircot"):
        options["search"] = "hybrid"
    questions = ["What did Ada Lovelace write?", "Which loom?"]
    failed = build_retriever(name, index, **options).retrieve_batch(questions)
    plain = build_retriever(name, index, **options | {_asks(name): None}).retrieve_batch(questions)
    assert [[(hit.id, hit.score) for hit in hits] for hits in failed] == [[(hit.id, hit.score) for hit in hits] for hits in plain]
    for hits in failed:
        (note,) = [note for note in hits.notes if "The language model failed (RuntimeError: no quota)" in note]
        assert len(hits) and len(note.partition("no quota)")[2]) > 10, "what was done instead"


def test_a_function_that_plans_may_fail_as_a_planner_may():
    def planner(question):
        if "loom" in question:
            raise RuntimeError("no quota")
        return []

    good, bad = build_retriever("mor", linked_index(), planner=planner).retrieve_batch(["What did Ada write?", "Which loom?"])
    assert len(bad) and bad.notes[0] == "The planner failed (RuntimeError: no quota). Text retrieval was used instead."
    assert not any("failed" in note for note in good.notes)
