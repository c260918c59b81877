"""The short names of retrievers: what each stands for, and which is the default."""

from dataclasses import fields

import pytest

from graph_retrievers import BM25, GraphIndex, MoR, Retriever, SpreadingActivation
from graph_retrievers.errors import InvalidArgumentError, UnexpectedArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.systems import default_system, read_system
from graph_retrievers.systems.mor.planner import LanguageModelPlanner
from graph_retrievers.systems.system import SYSTEMS
from tests.helpers import HashEmbedding, linked_index
from tests.retrievers import EVERY, on

KNOWLEDGE = "spreading"
DAMPED = "fused(systems=['spreading(threshold=0.001, hub_exponent=1.0)', 'vector'])"

NAMES = {
    "vector": "Vector",
    "bm25": "BM25",
    "hybrid": "Hybrid",
    "re2": "Re2",
    "fastinsight": "FastInsight",
    "gar": "GAR",
    "ppr": "PPR",
    "spreading": "SpreadingActivation",
    "walk-fusion": "WalkFusion",
    "eager": "Eager",
    "mmr": "MMR",
    "scored": "Scored",
    "think-on-graph": "ThinkOnGraph",
    "think-on-graph-2": "ThinkOnGraph2",
    "kg2rag": "KG2RAG",
    "graphrag-local": "GraphRAGLocal",
    "qafd-rag": "QAFD",
    "hykge": "HyKGE",
    "ego-grag": "EgoGRAG",
    "hybgrag": "HybGRAG",
    "hipporag-1": "HippoRAG1",
    "kar": "KAR",
    "hyde": "HyDE",
    "decomposition": "Decomposition",
    "ircot": "IRCoT",
    "subgraph-rag": "SubgraphRAG",
    "gnn-rag": "GNNRAG",
    "lesegr": "LeSeGR",
    "path-reranking": "PathReranking",
    "lightrag": "LightRAG",
    "pathrag": "PathRAG",
    "g-rag": "GRAG",
    "g-retriever": "GRetriever",
    "hipporag": "HippoRAG",
    "linear-rag": "LinearRAG",
    "mor": "MoR",
    "fused": "Fused",
}


def test_each_name_stands_for_a_class():
    assert {name: kind.__name__ for name, kind in SYSTEMS.items()} == NAMES
    with pytest.raises(InvalidArgumentError, match="Unknown system 'none'"):
        read_system("none")


@pytest.mark.parametrize(
    ("edges", "why"),
    [
        ([], "there are neither edges nor vectors: words alone"),
        ([("0", "1")], "there are no vectors: words alone, edges are not followed"),
    ],
)
def test_a_default_that_reads_words_alone_says_why(edges, why):
    index = GraphIndex.from_texts(["a loom", "a card"], edges=edges)
    (hit,) = Retriever(index, k=1).retrieve("Which loom?")
    assert hit.reason == why and hit.explain().splitlines()[-1] == why
    # Whoever asks for it by name knows.
    assert Retriever(index, "bm25", k=1).retrieve("Which loom?")[0].reason == ""


def test_what_is_built_has_the_name_and_the_options():
    index = linked_index()
    uniform = Retriever(index, SpreadingActivation(gate="uniform", steps=1), k=3)
    assert (uniform.name, uniform.k) == ("SpreadingActivation", 3) and "steps=1" in repr(uniform)
    assert str(uniform.system) == "spreading(steps=1, gate='uniform')"
    assert Retriever(index, "bm25", name="mine").name == "mine"
    assert "gate='uniform'" in repr(uniform) and "gate='uniform'" not in repr(Retriever(index, SpreadingActivation(steps=1)))
    assert (Retriever(index).k, Retriever(index, k=2).k) == (10, 2)
    with pytest.raises(UnexpectedArgumentError, match="BM25 does not take 'steps'"):
        Retriever(index, BM25(steps=1))
    assert not Retriever(index, "bm25", backfill=False).backfill


@pytest.mark.parametrize(
    ("kinds", "words", "signals", "name"),
    [
        ("xx", 3, {}, "walk-fusion"),
        ("xy", 3, {}, KNOWLEDGE),
        ("xyz", 3, {}, KNOWLEDGE),
        ("xy", 25, {}, "walk-fusion"),
        ("xy", 3, {"bm25": False}, KNOWLEDGE),
        ("xy", 25, {"bm25": False}, DAMPED),
        ("xx", 3, {"bm25": False}, f"fused(systems=[{KNOWLEDGE!r}, 'vector'])"),
        ("xy", 3, {"embedding": None}, "bm25"),
    ],
)
def test_the_default_follows_types_texts_and_signals(kinds, words, signals, name):
    nodes = [Node(str(place), "word " * words, type=kind) for place, kind in enumerate(kinds)]
    index = GraphIndex.from_nodes(nodes, **{"embedding": HashEmbedding(), **signals})
    assert str(default_system(index)) == str(Retriever(index).system) == name
    # 30 of spreading activation are for those who name it.
    assert Retriever(index).k == 10 and Retriever(index, name).k == (30 if name == KNOWLEDGE else 10)


def _asks(name):
    """Return the keyword of a retriever that takes a language model, or what asks one; None if there is none."""
    names = {field.name for field in fields(read_system(name))}
    return next((each for each in ("language_model", "planner") if each in names), None)


ASKING = [name for name in EVERY if _asks(name)]


@pytest.mark.parametrize("name", ASKING)
def test_where_a_language_model_fails_the_search_goes_on_and_a_note_says_why(name):
    def model(prompt):
        raise RuntimeError("no quota")

    assert len(ASKING) == 20
    index = linked_index(edge_signals=True)
    options = {_asks(name): LanguageModelPlanner(model) if _asks(name) == "planner" else model}
    if name in ("hyde", "ircot"):
        options["search"] = "hybrid"
    questions = ["What did Ada Lovelace write?", "Which loom?"]
    failed = on(index, name, **options).retrieve_batch(questions)
    plain = on(index, name, **options | {_asks(name): None}).retrieve_batch(questions)
    assert [[(hit.id, hit.score) for hit in hits] for hits in failed] == [[(hit.id, hit.score) for hit in hits] for hits in plain]
    for hits in failed:
        (note,) = [note for note in hits.notes if "The language model failed (RuntimeError: no quota)" in note]
        assert len(hits) and len(note.partition("no quota)")[2]) > 10, "what was done instead"


def test_a_function_that_plans_may_fail_as_a_planner_may():
    def planner(question):
        if "loom" in question:
            raise RuntimeError("no quota")
        return []

    good, bad = Retriever(linked_index(), MoR(planner=planner)).retrieve_batch(["What did Ada write?", "Which loom?"])
    assert len(bad) and bad.notes[0] == "The planner failed (RuntimeError: no quota). Text retrieval was used instead."
    assert not any("failed" in note for note in good.notes)
