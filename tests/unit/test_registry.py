"""The short names of retrievers: what each stands for, and which is the default."""

import pytest

from graph_retrievers import GraphIndex
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.retrievers.signatures import class_knobs
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
