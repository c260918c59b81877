"""WalkFusion: which lists it has on which graph, what they bring, and how they are fused."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from graph_retrievers import BM25, GRAG, Fused, SpreadingActivation, Vector
from graph_retrievers.construction import NumberedReferences, TitleMentions
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph, Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.search.vector_search import BM25Search, HybridSearch
from graph_retrievers.systems import default_system, read_system
from graph_retrievers.systems.baselines import Hybrid
from graph_retrievers.systems.spreading.propagation import GatedPropagation
from graph_retrievers.systems.spreading.retriever import DAMPED
from graph_retrievers.systems.traits import documents_linked, holds_pieces, name_share
from graph_retrievers.systems.walk_fusion.feedback_search import FeedbackSearch
from graph_retrievers.systems.walk_fusion.path_search import PathSearch
from graph_retrievers.systems.walk_fusion.retriever import WalkFusion
from tests.helpers import HashEmbedding, linked_index
from tests.rankings import Ranking, ranked

NODES = [
    Node("film", "A fantasy with music by Iain Ballamy.", "MirrorMask"),
    Node("ballamy", "A saxophonist from Guildford.", "Iain Ballamy"),
    Node("guildford", "Town in Surrey, home of saxophonist clubs.", "Guildford"),
    Node("loom", "Threads crossed at right angles.", "Weaving"),
    Node("cloth", "Made on a loom of threads.", "Cloth"),
]

MENTIONED = "of the texts open with their title as a name, or name another node"


def index():
    return GraphIndex.from_nodes(NODES, [("film", "ballamy", "mentions")], embedding=HashEmbedding())


def ids(hits):
    return [h.id for h in hits]


def test_the_score_is_the_sum_of_reciprocal_ranks_of_the_lists():
    for form in ("names", "links"):
        with pytest.raises(InvalidArgumentError, match="constant must be"):
            Retriever(index(), WalkFusion(form=form, constant=-1))
    retriever = Retriever(index(), WalkFusion(form="names", weights=(1.0, 2.0, 0.5), constant=5), k=5, backfill=False)
    question = "Who wrote the music of MirrorMask?"
    queries = Queries.of(retriever.index, question)
    expected = {}
    for operator, weight in zip(retriever.operator.operators, (1.0, 2.0, 0.5), strict=True):
        for rank, node in enumerate([n for n in ranked(operator, queries).nodes[0].tolist() if n >= 0], 1):
            expected[node] = expected.get(node, 0.0) + weight / (5 + rank)
    order = sorted(expected, key=lambda n: (-expected[n], n))[:5]
    hits = retriever.retrieve(question)
    assert ids(hits) == [NODES[n].id for n in order]
    assert [h.score for h in hits] == pytest.approx([expected[n] for n in order])


def test_a_link_brings_what_neither_words_nor_vectors_find():
    question = "Who wrote the music of MirrorMask?"
    assert ids(Retriever(index(), WalkFusion(form="names"), k=5).retrieve(question))[:2] == ["film", "ballamy"]
    linked = {h.id: h for h in Retriever(index(), WalkFusion(form="links", seeds=1), k=5).retrieve(question)}
    assert (linked["ballamy"].path.nodes, linked["ballamy"].operator) == (("film", "ballamy"), "PathSearch")
    walked = Retriever(index(), WalkFusion(form="names", seeds=1, weights=(0.5, 1.0, 0.5)), k=5).retrieve(question)
    assert (walked[1].path.nodes, walked[1].operator) == (("film", "ballamy"), "STeX")


def test_feedback_finds_what_shares_words_with_the_best_passage_where_no_edge_does():
    question, built = "Where was Iain Ballamy born?", index()
    assert set(ids(Retriever(built, BM25Search(), backfill=False).retrieve(question))) == {"ballamy", "film"}
    best = Ranking.of(torch.tensor([[1, 0]]), torch.tensor([[2.0, 1.0]]), "first")
    found = ranked(FeedbackSearch(), Queries.of(built, question), best)
    assert [NODES[n].id for n in found.nodes[0].tolist() if n >= 0] == ["ballamy", "film", "guildford"]
    plain, bm25 = (Retriever(index(), search, backfill=False) for search in (FeedbackSearch(), BM25Search()))
    assert ids(plain.retrieve("weaving threads")) == ids(bm25.retrieve("weaving threads"))


def test_a_weight_of_zero_leaves_a_list_out():
    retriever = Retriever(index(), WalkFusion(form="names", weights=(0, 1.0, 0)), k=5, backfill=False)
    hits = retriever.retrieve("Where was Iain Ballamy born?")
    assert [h.score for h in hits] == pytest.approx([1 / (5 + rank) for rank in range(1, len(hits) + 1)])
    assert {h.operator for h in hits} <= {"HybridSearch", "STeX"} and len(hits) > 0


def test_batches_names_and_bad_options():
    retriever = Retriever(linked_index(), "walk-fusion")
    questions = ["Who designed the Analytical Engine?", "What did Hollerith count?"]
    together = retriever.retrieve_batch(questions, k=4)
    assert [ids(h) for h in together] == [ids(retriever.retrieve(q, k=4)) for q in questions]
    with pytest.raises(InvalidArgumentError, match="weights must be 3 numbers"):
        Retriever(index(), WalkFusion(form="names", weights=(1.0, 1.0)))
    with pytest.raises(InvalidArgumentError, match="one list"):
        Retriever(index(), WalkFusion(form="links", weights=(1.0,)))
    with pytest.raises(InvalidArgumentError, match="Unknown form 'name'"):
        Retriever(index(), WalkFusion(form="name"))
    with pytest.raises(InvalidArgumentError, match="seeds"):
        Retriever(index(), WalkFusion(seeds=0))


@pytest.mark.parametrize("options", [{}, {"filter": {"$id": {"$ne": "film"}}}])
@pytest.mark.parametrize("form", ["names", "links"])
def test_the_same_two_searches_are_run_once(monkeypatch, options, form):
    built = index()
    plain = Retriever(built, WalkFusion(form=form)).retrieve("Where was Iain Ballamy born?", **options)
    calls = []
    search = type(built.dense).best_of
    monkeypatch.setattr(type(built.dense), "best_of", lambda *args: calls.append(args[3]) or search(*args))
    found = Retriever(built, WalkFusion(form=form), backfill=False).retrieve("Where was Iain Ballamy born?", **options)
    assert [hit.id for hit in found] == [hit.id for hit in plain][: len(found)]
    assert calls.count(100) == 1


MANUAL_TEXT = (
    "Tables and columns and notes and indexes belong to every part of this manual, more or less, in one way or in another. "
)


def manual():
    """Forty passages of a manual, whose titles are ordinary words; a link leads from "backup" to a passage without its words."""
    nodes = [Node(f"n{i}", MANUAL_TEXT + f"w{i}", ("Tables", "Columns", "Notes", "Indexes")[i % 4]) for i in range(38)]
    nodes += [Node("backup", MANUAL_TEXT + "backup of archives", "Tables"), Node("answer", MANUAL_TEXT + "streams", "Notes")]
    edges = [("backup", "answer", "links"), *((f"n{i}", f"n{i + 1}", "next") for i in range(37))]
    return GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding())


def test_where_titles_are_ordinary_words_neighbours_of_what_search_finds_are_scored_with_it():
    built = manual()
    retriever = Retriever(built, WalkFusion(), k=10)
    assert (retriever.system.form_on(built), retriever.operator.formula()) == ("links", "O_vs -> O_vgs")
    question = "How are tables put in a backup of archives?"
    assert "answer" not in ids(Retriever(built, "hybrid", k=10).retrieve(question))
    found = {hit.id: hit.path.nodes for hit in retriever.retrieve(question)}
    assert found["answer"] == ("backup", "answer")


def entities():
    """A knowledge graph of three entities, with two relations; vectors tell "starred" from "directed"."""
    nodes = [Node("film", "", "Kismet", "movie"), Node("star", "", "Ada Holm", "person"), Node("head", "", "Cleo Marsh", "person")]
    edges = [("film", "star", "starred_actors"), ("film", "head", "directed_by")]

    def embed(texts):
        return [[1, 9 * ("direct" in text), 9 * ("star" in text)] for text in texts]

    return GraphIndex.from_nodes(nodes, edges, embedding=embed)


def clusters(edges, named=True):
    """Passages of an encyclopedia in two groups of like vectors, joined by the edges; each text names the targets of its own."""
    named = {f"n{i}": " ".join(f"Sir Name{far[1:]}" for near, far in edges if named and near == f"n{i}") for i in range(40)}
    nodes = [Node(f"n{i}", f"word{i} " * 20 + named[f"n{i}"], f"Sir Name{i}") for i in range(40)]
    vectors = [[1.0, 0.1 * (i % 7)] if i < 20 else [0.1 * (i % 7), 1.0] for i in range(40)]
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors)


def test_the_form_follows_the_graph():
    inside = [(f"n{20 * half + i}", f"n{20 * half + (i + step) % 20}") for half in (0, 1) for i in range(20) for step in (1, 2)]
    names = {"names": clusters(inside), "links": clusters(inside, named=False), "relations": entities()}
    for form, built in names.items():
        assert WalkFusion().form_on(built) == form
    # Six of forty texts name another: 15 %.
    assert [WalkFusion().form_on(clusters(inside[: 2 * count])) for count in (6, 5)] == ["names", "links"]
    bare = names["names"].graph
    unlinked = CorpusGraph(bare.ids, bare.texts, titles=bare.titles)
    assert WalkFusion().form_on(GraphIndex(unlinked, names["names"].signals)) == "names", "names lead on without edges"
    pages = [("film", "ballamy", "mentions"), ("film", "ballamy", "links")]
    assert WalkFusion().form_on(GraphIndex.from_nodes(NODES, pages, embedding=HashEmbedding())) == "names", (
        "short pages have no types"
    )
    graph = names["relations"].graph
    assert WalkFusion().form_on(GraphIndex.from_graph(graph, vectors=torch.eye(3))) != "relations", "no embedding model"
    with pytest.raises(InvalidArgumentError, match="weights must be 3 numbers"):
        Retriever(entities(), WalkFusion(weights=(1, 1, 1, 1)))
    with pytest.raises(InvalidArgumentError, match="weights must be 3 numbers"):
        # Though this graph has one list: a scope of it may have three.
        Retriever(names["links"], WalkFusion(weights=(1,)))


def test_hits_tell_the_form_and_why_it_was_chosen():
    inside = [(f"n{i}", f"n{i + 1}") for i in range(10)]
    named, unnamed = clusters(inside), clusters(inside, named=False)
    cases = [
        (Retriever(named, WalkFusion()), f"form names: 25% {MENTIONED}"),
        (Retriever(unnamed, WalkFusion()), f"form links: 0% {MENTIONED}"),
        (Retriever(manual(), WalkFusion()), "form links: titles do not identify most nodes"),
        (Retriever(entities(), WalkFusion()), "form relations: a knowledge graph of 2 relations"),
        (Retriever(named, WalkFusion(form="links")), "form links: as given"),
        (Retriever(unnamed, WalkFusion()).over(named), f"form names: 25% {MENTIONED}"),
        (Retriever(unnamed, WalkFusion(weights=(1, 1, 1), form="names")).over(named), "form names: as given"),
        (
            Retriever(unnamed, WalkFusion(weights=(1, 1, 1))).over(named),
            f"form names: 25% {MENTIONED}",
        ),
        (
            Retriever(named, WalkFusion(weights=(1, 1, 1))).over(unnamed),
            f"form links: 0% {MENTIONED}; weights= are for three lists, and this form has one",
        ),
        (
            Retriever(named, "path-reranking"),
            f"form names: 25% {MENTIONED}",
        ),
        (
            Retriever(unnamed, GRAG(first="walk-fusion")).over(named),
            f"form names: 25% {MENTIONED}",
        ),
        (Retriever(manual(), Pipeline(HybridSearch(), PathSearch())), ""),
    ]
    for retriever, reason in cases:
        assert retriever.reason == reason
        system = retriever.system
        assert not isinstance(system, WalkFusion) or reason.startswith(f"form {system.form_on(retriever.index)}: ")
        hits = retriever.retrieve("word1 of Kismet", **({"vector": [1, 0]} if retriever.index.embedding is None else {}))
        assert {hit.to_dict()["reason"] for hit in hits} == {reason}
        assert all(hit.explain().splitlines()[-1] == reason or not reason for hit in hits)


def test_what_decided_the_form_is_told_exactly():
    texts = [f"Name{n} was" if n < 29 else "nothing" for n in range(200)]
    built = GraphIndex.from_texts(texts, titles=[f"Name{n}" for n in range(200)], vectors=[[1.0]] * 200)
    told = f"form links: 14.5% {MENTIONED}; there are no edges"
    assert Retriever(built, WalkFusion()).reason == told, "less than 15 %"
    alone = GraphIndex.from_graph(entities().graph, vectors=torch.eye(3))
    start = "form links: no embedding model to compare relations with; "
    assert Retriever(alone, WalkFusion()).reason == start + f"0% {MENTIONED}"


def test_a_graph_with_neither_titles_nor_edges_is_told_as_such():
    bare = GraphIndex.from_texts(["a loom", "a card"], vectors=torch.eye(2))
    hits = Retriever(bare, WalkFusion()).retrieve("a loom", vector=[1, 0])
    assert [hit.explain().splitlines()[-1] for hit in hits] == ["form links: no node has a title; there are no edges"] * 2
    linked = GraphIndex.from_texts(["a loom", "a card"], vectors=torch.eye(2), edges=[("0", "1")])
    assert Retriever(linked, WalkFusion()).reason == "form links: no node has a title"


PLAIN = [
    "Kismet is a film of 1955 with Ada Holm.",
    "As a child, Ada Holm lived in Lund.",
    "Otto Veld's loom.",
    "Cards of Ida Brandt.",
    "Mills.",
]


def test_names_join_texts_that_have_neither_titles_nor_edges(caplog):
    bare = GraphIndex.from_texts(PLAIN, embedding=HashEmbedding(), edges=[])
    retriever, question = Retriever(bare, WalkFusion()), "Where did the star of Kismet live?"
    assert "PathSearch(seeds=1, share=0.5, bridges=1, across=False, k=100)" in repr(retriever)
    hits = retriever.retrieve(question, 2)
    assert [hit.path.text for hit in hits] == ["0", '0 -["Ada Holm"]- 1'] and hits.notes == () and "no edges" not in caplog.text
    told = "form links: no node has a title; there are no edges, so names that texts share join them"
    assert hits[1].explain().splitlines()[1:3] == ['path: 0 -["Ada Holm"]- 1', "without the graph: rank 3"]
    assert retriever.reason == told and hits[1].explain().splitlines()[-1] == told
    # What is given stays, and what joins nodes in another way does it alone.
    assert "bridges=0" in repr(Retriever(bare, WalkFusion(bridges=0))) and "seeds=3" in repr(Retriever(bare, WalkFusion(seeds=3)))
    assert Retriever(bare, WalkFusion(bridges=0)).retrieve(question).notes
    linked = GraphIndex.from_texts(PLAIN, embedding=HashEmbedding(), edges=[("2", "3")])
    manual = GraphIndex.from_texts([*PLAIN[:2], "Looms.", "Cards.", "Mills."], embedding=HashEmbedding(), edges=[])
    nameless = GraphIndex.from_texts([text.lower() for text in PLAIN], embedding=HashEmbedding(), edges=[])
    half = GraphIndex.from_texts([*PLAIN[:3], "Cards.", "Mills."], embedding=HashEmbedding(), edges=[])
    assert "bridges=1" in repr(Retriever(half, WalkFusion())), "most texts hold names"
    # A name in a long text is there by chance, as in the large chunks of a manual.
    long = GraphIndex.from_texts([text + " It weaves cloth." * 30 for text in PLAIN], embedding=HashEmbedding(), edges=[])
    for index in (linked, manual, nameless, long):
        assert (
            "bridges=0" in repr(Retriever(index, WalkFusion()))
            and "names that texts share" not in Retriever(index, WalkFusion()).reason
        )
    # A scope has the settings of what is in it.
    scope = bare.within({"$id": {"$in": ["0", "4"]}})
    assert retriever.over(scope).reason == "form links: no node has a title; there are no edges"


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"titles": ["Notes", *[""] * 24]}, "form links: titles do not identify most nodes; there are no edges"),
        ({"edges": [("2", "3", "next")]}, "form links: no node has a title; few documents are linked"),
        (
            {"metadatas": [{"source": f"{n // 5}.txt"} for n in range(25)], "edges": [("0", "1", "next")]},
            "form pieces: most nodes are pieces of a document without a title of their own; few documents are linked",
        ),
        (
            {
                "metadatas": [{"source": f"{n // 5}.txt"} for n in range(25)],
                "titles": [f"{n // 5}.txt" for n in range(25)],
                "edges": [("0", "1", "next")],
            },
            "form pieces: most nodes are pieces of a document without a title of their own; few documents are linked",
        ),
    ],
    ids=["one title", "one edge", "pieces", "pieces with the name of their file"],
)
def test_an_edge_a_title_or_the_order_of_pieces_do_not_hide_the_names(parts, told):
    index = GraphIndex.from_texts(PLAIN * 5, embedding=HashEmbedding(), **{"edges": [], **parts})
    assert Retriever(index, WalkFusion()).reason == f"{told}, so names that texts share join them" and "bridges=1" in repr(
        Retriever(index, WalkFusion())
    )


def test_names_join_texts_with_titles_where_there_are_no_edges(caplog):
    titles = ["Kismet", "Ada Holm", "Loom", "Card", "Mill"]
    bare = GraphIndex.from_texts(PLAIN, titles=titles, embedding=HashEmbedding())
    retriever = Retriever(bare, WalkFusion())
    hits = retriever.retrieve("Where did the star of Kismet live?", 3)
    assert {hit.path.text for hit in hits} >= {"Kismet", 'Kismet -["Ada Holm"]- Ada Holm'} and hits.notes == ()
    told = f"form names: 20% {MENTIONED}; there are no edges, so names that texts share join them"
    assert retriever.reason == hits[1].explain().splitlines()[-1] == told and "no edges" not in caplog.text
    # Without bridges, nothing joins nodes.
    alone = Retriever(bare, WalkFusion(bridges=0))
    (note,) = alone.retrieve("Where did the star of Kismet live?").notes
    assert note.startswith("there are no edges, so that walks along edges find little more than search does")
    assert alone.reason == f"form names: 20% {MENTIONED}; there are no edges" and caplog.text.count("There are no edges") == 1
    linked = GraphIndex.from_texts(PLAIN, titles=titles, embedding=HashEmbedding(), edges=[("0", "1")])
    assert Retriever(linked, WalkFusion()).reason == f"form names: 20% {MENTIONED}"
    assert "bridges=1" in repr(retriever) and "bridges=3" in repr(Retriever(linked, WalkFusion()))


def test_names_without_capitals_are_not_said_to_join_texts(caplog):
    texts = ["《春风》是王伟芳执导的电影。", "王伟芳是一位导演，长沙人。", "长沙位于湘江岸边。", "湘江是一条河流。"]
    titles = ["春风", "王伟芳", "长沙", "湘江"]
    bare = GraphIndex.from_texts(texts, titles=titles, embedding=HashEmbedding())
    retriever = Retriever(bare, WalkFusion())
    assert (
        retriever.system.form_on(bare) == "names"
        and retriever.reason.endswith("; there are no edges")
        and "bridges=0" in repr(retriever)
    )
    (note,) = retriever.retrieve("春风的导演是哪里人？").notes
    assert note.startswith("there are no edges") and "TitleMentions()" in note
    linked = GraphIndex.from_texts(texts, titles=titles, embedding=HashEmbedding(), edges=[TitleMentions()])
    assert Retriever(linked, WalkFusion()).retrieve("春风的导演是哪里人？").notes == ()


def test_seeds_of_plain_texts_are_ten_in_a_larger_corpus():
    # In each copy of the texts the names are others.
    texts = [
        text.replace("Holm", f"Holm{n}").replace("Veld", f"Veld{n}").replace("Brandt", f"Brandt{n}")
        for n in range(60)
        for text in PLAIN
    ]
    index = GraphIndex.from_texts(texts, embedding=HashEmbedding(), edges=[])
    assert "seeds=10" in repr(Retriever(index, WalkFusion()))
    linked = GraphIndex.from_texts(texts, embedding=HashEmbedding(), edges=[(f"{n}", f"{n + 1}") for n in range(0, 60, 2)])
    assert "seeds=20" in repr(Retriever(linked, WalkFusion()))


def test_hubs_are_damped_among_passages_and_not_among_entities():
    inside = [(f"n{i}", f"n{i + 1}") for i in range(10)]
    for built, exponent, spreading in (
        (clusters(inside), 1.0, SpreadingActivation(**DAMPED)),
        (entities(), 0.0, SpreadingActivation()),
    ):
        mine, other = (
            next(part for part in Retriever(built, system).operator.parts() if isinstance(part, GatedPropagation))
            for system in (WalkFusion(), spreading)
        )
        assert mine.hub_exponent == exponent and repr(mine) == repr(other)


def test_entities_are_found_along_the_relation_that_the_question_means():
    hits = Retriever(entities(), WalkFusion(), k=3).retrieve("Who directed Kismet?")
    found = {hit.id: hit for hit in hits}
    assert found["head"].score > found["star"].score
    assert found["head"].path.relations == ("directed_by",)
    # Metapaths count three times: (1 / 6 + 1 / 6 or 1 / 7 ...) with c = 5.
    alone = Retriever(entities(), WalkFusion(weights=(0, 0, 3.0)), k=3, backfill=False).retrieve("Who directed Kismet?")
    assert [(hit.id, hit.score) for hit in alone] == [("head", pytest.approx(0.5))]
    assert not Retriever(entities(), WalkFusion(weights=(0, 0, 1.0)), backfill=False).retrieve("Who directed the film?"), (
        "nothing is named"
    )


def test_on_random_edges_it_finds_what_hybrid_search_finds():
    draw = random.Random(3)
    words = [f"w{i}" for i in range(300)]
    nodes = [Node(f"n{i}", " ".join(draw.sample(words, 25)), f"Name{i}") for i in range(200)]
    edges = [(f"n{draw.randrange(200)}", f"n{draw.randrange(200)}") for _ in range(400)]
    built = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding())
    assert WalkFusion().form_on(built) == "links"
    questions = [" ".join(draw.sample(node.text.split(), 6)) for node in nodes]
    places = {}
    for name in ("hybrid", "walk-fusion"):
        hits = Retriever(built, name, k=10).retrieve_batch(questions)
        places[name] = sum(node.id in ids(found) for node, found in zip(nodes, hits, strict=True))
    assert places["walk-fusion"] >= places["hybrid"]


def test_walks_over_a_manual_start_from_search_and_are_known_to_find_less():
    built = manual()
    question = "Which tables have columns?"
    hits = Retriever(built, SpreadingActivation()).retrieve(question)
    assert {hit.operator for hit in hits if len(hit.path.nodes) == 1} <= {"VectorSearch", "Backfill"}, "no heading is a seed"
    for name in ("spreading", "ppr", "fastinsight"):
        system = read_system(name)
        assert system.finds_less(built) and not system.finds_less(index())
        assert Retriever(built, system).operator.formula().count("+") == 0
        assert Retriever(built, Fused(system, Hybrid())).operator.formula().count("+") > 0
    named = Retriever(built, SpreadingActivation(**DAMPED)).retrieve(question, entities=["Columns"])
    assert named[0].operator == "EntityLinking", "names that are given are used"


def test_search_finds_more_where_no_edge_leads_from_document_to_document():
    """Articles with names, cut into sections: edges between the sections of an article lead to nothing that a name stands for."""
    names = [f"{first} {last}" for first in ("Ada", "Cleo", "Emil", "Ines") for last in ("Holm", "Marsh", "Quist", "Varn", "Zell")]
    texts = [part for name in names for part in (f"{name} was a weaver, {MANUAL_TEXT}", f"Her work is in Lund, {MANUAL_TEXT}")]
    titles = [title for name in names for title in (name, f"{name}: Work")]
    within = [(f"{row}", f"{row + 1}", "next") for row in range(0, 40, 2)]
    across = [(f"{row}", f"{row + 2}", "mentions") for row in range(0, 38, 2)]
    for edges, less in (([], True), (within, True), ([*within, *across[:1]], True), ([*within, *across], False)):
        pages = [{"source": f"{row // 2}.md"} for row in range(40)]
        built = GraphIndex.from_texts(texts, titles=titles, metadatas=pages, edges=edges, embedding=HashEmbedding())
        assert WalkFusion().form_on(built) == "names"
        for name in ("ppr", "spreading", "fastinsight", "eager"):
            assert read_system(name).finds_less(built) == less, (name, len(edges))


def test_the_default_is_what_measured_best_for_the_signals():
    passages, knowledge = manual(), SpreadingActivation()
    assert default_system(passages) == default_system(index()) == WalkFusion()
    typed = [replace(node, type=kind) for node, kind in zip(NODES, ("film", "person", "town", "thing", "thing"), strict=True)]
    assert default_system(GraphIndex.from_nodes(typed, embedding=HashEmbedding())) == knowledge
    two = [("film", "ballamy", "music by"), ("ballamy", "guildford", "born in")]
    assert default_system(GraphIndex.from_nodes(typed, two, embedding=HashEmbedding())) == WalkFusion()
    assert default_system(GraphIndex.from_nodes(typed, two[:1], embedding=HashEmbedding())) == knowledge, "one relation"
    assert default_system(GraphIndex.from_nodes(typed, two, embedding=HashEmbedding(), bm25=False)) == knowledge
    assert default_system(GraphIndex.from_nodes(typed, two, vectors=torch.eye(len(typed)))) == knowledge, "no model"
    assert default_system(GraphIndex.from_nodes([replace(n, type="x") for n in NODES], embedding=HashEmbedding())) == WalkFusion()
    long = [replace(node, text="word " * 20) for node in typed]
    assert default_system(GraphIndex.from_nodes(long, embedding=HashEmbedding())) == WalkFusion()
    assert Retriever(GraphIndex.from_nodes(typed, embedding=HashEmbedding())).k == 10
    assert default_system(GraphIndex.from_nodes(NODES, embedding=HashEmbedding(), bm25=False)) == Fused(knowledge, Vector())
    assert default_system(GraphIndex.from_nodes(NODES)) == BM25()


def cut_pages(seed, titles="", edges=True, **metadata):
    """Pages of eight pieces, of which neighbours are alike, and links between pages; `titles` has the section of each piece."""
    draw = np.random.default_rng(seed)
    words = "loom card thread mill engine weaver cloth pattern hole lever".split()
    nodes, made = [], []
    for page in range(12):
        own = list(draw.choice(words, 4, replace=False))
        for piece in range(8):
            text = " ".join([*own, *draw.choice(words, 2)])
            title = f"{page} {titles[piece]}" if titles else ""
            nodes.append(Node(f"{page}:{piece}", text, title, metadata={"source": f"{page}.md"} | metadata))
            made += [(f"{page}:{piece - 1}", f"{page}:{piece}", "next")] if piece else []
    made += [(*map(str, draw.choice([node.id for node in nodes], 2, replace=False)), "links") for _ in range(30)]
    return GraphIndex.from_nodes(nodes, made if edges else [], embedding=HashEmbedding())


@pytest.mark.parametrize("seed", range(8))
def test_pieces_give_a_page_no_more_hits_than_search_gives_it(seed):
    index, question = cut_pages(seed), "Which loom has a card?"
    walked = Retriever(index, WalkFusion(), k=6)
    assert walked.system.form_on(index) == "pieces" and walked.reason.startswith("form pieces: most nodes are pieces of a document")
    pages = [
        Counter(hit.id.partition(":")[0] for hit in found.retrieve(question)) for found in (Retriever(index, Hybrid(), k=6), walked)
    ]
    assert all(count <= max(1, pages[0][page]) for page, count in pages[1].items()) and len(pages[1]) >= len(pages[0])
    hits = walked.retrieve(question)
    assert len(hits) == 6 and [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    # The paths to hits lead from page to page.
    steps = [pair for hit in hits for pair in pairwise(hit.path.nodes)]
    assert all(near.partition(":")[0] != far.partition(":")[0] for near, far in steps)
    assert [hit.id for hit in walked.retrieve_batch(["a mill", question])[1]] == [hit.id for hit in hits]


def test_pieces_have_a_form_only_where_they_have_no_title_of_their_own_and_are_joined():
    assert WalkFusion().form_on(cut_pages(0, titles="abcdefgh")) != "pieces"
    # Half of them, and more, share a title with another piece of their section.
    assert WalkFusion().form_on(cut_pages(0, titles="aabbcdef")) != "pieces"
    assert WalkFusion().form_on(cut_pages(0, titles="aabbccde")) == "pieces"
    # Parts of sections that links lead to, as read_folder makes them.
    assert WalkFusion().form_on(cut_pages(0, titles="aabbccde", anchors=[])) != "pieces"
    assert WalkFusion().form_on(cut_pages(0, edges=False)) != "pieces"
    assert WalkFusion(form="links").form_on(cut_pages(0)) == "links"
    lone = GraphIndex.from_texts(["a loom of wood", "a card of paper"], edges=[("0", "1")], embedding=HashEmbedding())
    assert WalkFusion().form_on(lone) == "links"


def test_weights_of_pieces_are_two():
    index = cut_pages(1)
    assert Retriever(index, WalkFusion(form="pieces", weights=(1, 3))).operator.weights == (1, 3)
    with pytest.raises(InvalidArgumentError, match="weights must be 2 numbers"):
        Retriever(index, WalkFusion(form="pieces", weights=(1, 2, 3)))
    assert "this form has two" in Retriever(index, WalkFusion(weights=(1, 2, 3))).reason


def test_edges_across_documents_alone_are_followed():
    index = cut_pages(2)
    search = Pipeline(BM25Search(5), PathSearch(5, across=True))
    found = Retriever(index, search, k=90, backfill=False).retrieve("loom card")
    reached = {hit.path.nodes[-2:] for hit in found if len(hit.path.nodes) > 1}
    seeds = [hit.id for hit in Retriever(index, BM25Search(5), k=5, backfill=False).retrieve("loom card")]
    linked = {frozenset((e.source, e.target)) for e in index.graph.edges() if e.relation == "links"}
    ends = {(near, far) for pair in linked for near in pair & set(seeds) for far in pair - {near}}
    across = {far for near, far in ends if near.partition(":")[0] != far.partition(":")[0]}
    assert {far for _, far in reached} - set(seeds) == across - set(seeds) != set()


def test_what_many_texts_contain_is_no_name_that_joins_them():
    # As in a law: capitals of terms that its articles repeat.
    articles = [f"Each Member State shall tell the Commission of case {n} by its Data Officer." for n in range(40)]
    stories = [f"Ada Holm{chr(97 + n % 20)} lived in Lund, case {n}." for n in range(40)]
    for texts, joined in ((articles, "bridges=0"), (stories, "bridges=1")):
        index = GraphIndex.from_texts(texts, embedding=HashEmbedding(), edges=[("0", "1")])
        assert joined in repr(Retriever(index, WalkFusion())), texts[0]


@pytest.mark.parametrize(("relation", "joined"), [("next", "bridges=1"), ("refers to", "bridges=0")])
def test_references_inside_a_document_count_as_links(relation, joined):
    stories = [f"Ada Holm{chr(97 + n % 20)} lived in Lund, case {n}." for n in range(40)]
    ids = [f"a.md#{n}" for n in range(40)]
    edges = [(*pair, relation) for pair in pairwise(ids)]
    index = GraphIndex.from_texts(stories, ids=ids, embedding=HashEmbedding(), edges=edges)
    assert joined in repr(Retriever(index, WalkFusion()))


@pytest.mark.parametrize("titles", ["", "aaaaaaaa", "aaabbbcc", "abcdefgh"])
def test_the_form_is_that_of_the_pages_in_ids_or_in_metadata(titles):
    held = cut_pages(0, titles).graph
    address = {node: f"{node.replace(':', '.md#')}" for node in held.ids}
    edges = [(address[edge.source], address[edge.target], edge.relation) for edge in held.edges()]
    bare = [Node(address[node], text, title) for node, text, title in zip(held.ids, held.texts, held.titles, strict=True)]
    told = [replace(node, metadata={"source": node.id.partition("#")[0]}) for node in bare]
    indexes = [GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding()) for nodes in (bare, told)]
    hits = [[(hit.id, hit.score) for hit in Retriever(index, WalkFusion()).retrieve("Which loom has a card?")] for index in indexes]
    assert WalkFusion().form_on(indexes[0]) == WalkFusion().form_on(indexes[1]) and hits[0] == hits[1]


def test_ids_that_are_places_on_pages_are_no_pieces():
    ids = [f"a.html#{n}" for n in range(3)]
    assert not holds_pieces(CorpusGraph(ids, [""] * 3))
    assert holds_pieces(CorpusGraph(list("123"), [""] * 3, metadata=[{"source": "a.html"}] * 3))
    assert not holds_pieces(CorpusGraph(list("1234"), [""] * 4, metadata=[{"source": name} for name in "aabc"])), (
        "half are not most"
    )


def test_a_name_for_every_70_words():
    assert name_share(CorpusGraph(["a"], ["Ada Holm wove" + " cloth" * 67])) == 1
    assert name_share(CorpusGraph(["a"], ["Ada Holm wove" + " cloth" * 68])) == 0
    assert name_share(CorpusGraph(["a", "b"], ["", "cloth"])) == 0


def test_edges_of_structure_link_documents_only_across_them():
    held = [{"source": name} for name in "aab"]
    for relation, inside in (("next", 0), ("contains", 0), ("child", 0), ("refers", 2 / 3)):
        for target, linked in (("2", inside), ("3", 2 / 3)):
            graph = CorpusGraph(list("123"), [""] * 3, metadata=held, edges=[("1", target, relation)])
            assert documents_linked(graph) == linked


def law(*, others=0, folder="act"):
    """Return an act of six articles, of which the fifth has `others` further chunks, and its index."""
    texts = ["Looms weave.", "Cards are of paper.", "Mills turn.", "A fine is due.", "Makers mend looms.", "It holds at once."]
    parts = [(number, text) for number, text in enumerate(texts, 1)]
    parts[5:5] = [(5, f"Makers tell owner {n}.") for n in range(others)]
    return [
        Node(
            f"{folder}{number}",
            text,
            metadata={"path": f"{folder}.md", "chunk_index": number, "headings": ["Loom Act", f"Article {n}"]},
        )
        for number, (n, text) in enumerate(parts)
    ]


def law_index(nodes):
    return GraphIndex.from_documents(nodes, edges=NumberedReferences(), embedding=HashEmbedding())


@pytest.mark.parametrize("form", ["names", "links", "pieces", "relations", None])
def test_what_a_question_cites_by_number_comes_first(form, tmp_path):
    retriever = Retriever(law_index(law()), WalkFusion(form=form), k=4)
    questions = ["Article 4 of the Loom Act", "What do Articles 6 and 2 say of looms?", "Who mends looms?", "Article 9 on looms"]
    batch = retriever.retrieve_batch(questions)
    assert [ids(hits)[:2] for hits in batch[:2]] == [["act3", ids(batch[0])[1]], ["act5", "act1"]]
    assert [hit.operator for hit in batch[1]][:3] == ["CitedFirst", "CitedFirst", batch[1][2].operator]
    for question, hits in zip(questions, batch, strict=True):
        assert ids(hits) == ids(retriever.retrieve(question)) and len(hits) == 4
        assert all(one.score >= other.score for one, other in pairwise(hits))
    plain = Retriever(GraphIndex.from_documents(law(), embedding=HashEmbedding()), WalkFusion(form=form), k=4).retrieve_batch(
        questions
    )
    assert [ids(hits) for hits in batch[2:]] == [ids(hits) for hits in plain[2:]]
    retriever.index.save(tmp_path / "act")
    loaded = GraphIndex.load(tmp_path / "act", embedding=HashEmbedding())
    assert ids(Retriever(loaded, WalkFusion(form=form), k=4).retrieve(questions[0])) == ids(batch[0])


def test_cited_nodes_pass_filters_and_are_those_of_the_scope():
    other = [
        replace(
            node,
            id=f"b{node.id}",
            metadata={**node.metadata, "path": "b.md", "headings": ["Mill Act", *node.metadata["headings"][1:]]},
        )
        for node in law()
    ]
    index = law_index([*law(), *other])
    retriever = Retriever(index, WalkFusion(), k=12)
    # Two acts have an Article 4, and the question names none.
    assert "CitedFirst" not in {hit.operator for hit in retriever.retrieve("Article 4")}
    assert ids(retriever.retrieve("Mill Act, Article 4"))[0] == "bact3"
    found = retriever.retrieve("Mill Act, Article 4", filter={"path": "act.md"})
    assert "bact3" not in ids(found) and found[0].operator != "CitedFirst"
    assert ids(retriever.retrieve("Article 4", scope={"path": "b.md"}))[0] == "bact3"


def test_of_a_long_unit_one_node_comes_first():
    def cited(others, question):
        hits = Retriever(law_index(law(others=others)), WalkFusion(), k=12).retrieve(question)
        return [hit.id for hit in hits if hit.operator == "CitedFirst"]

    assert sorted(cited(4, "Article 5")) == ["act4", "act5", "act6", "act7", "act8"]
    assert cited(4, "What does Article 5 say of owner 2?")[0] == "act7"
    assert cited(5, "What does Article 5 say of owner 2?") == ["act7"]
