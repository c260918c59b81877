"""LightRAG on worked cases: quotas, orders, modes, keywords and their fallbacks, and what is refused."""

import json

import pytest
import torch

from graph_retrievers import GraphIndex, LightRAG, Retriever
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import Edge
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.lightrag.gathering import ChunkGathering, chunk_quotas
from graph_retrievers.systems.lightrag.keywords import LanguageModelKeywords
from tests.helpers import HashEmbedding, linked_index
from tests.rankings import Ranking, ranked
from tests.retrievers import on

WORDS = ("ada", "loom", "engine", "writing", "weaving")


class Axes:
    """Embeds a text as the words of the list above that it holds; keeps what it was asked for."""

    def __init__(self):
        self.asked = []

    def embed_documents(self, texts):
        return [self._vector(text) for text in texts]

    def embed_query(self, text):
        self.asked.append(text)
        return self._vector(text)

    def _vector(self, text):
        found = [float(word in text.lower()) for word in WORDS]
        return [x / max(sum(found), 1) ** 0.5 for x in found]


def library(embedding=None, **options):
    """Passages, the entities they mention, and relations with texts between entities."""
    nodes = [
        Node("p1", "Ada describes the engine.", type="passage"),
        Node("p2", "A loom weaves.", type="passage"),
        Node("p3", "Nothing of the kind.", type="passage"),
        Node("ada", "", "Ada", "person"),
        Node("engine", "", "Engine", "thing"),
        Node("loom", "", "Loom", "thing"),
        Node("cards", "", "Cards", "thing"),
    ]
    edges = [
        *(Edge(p, e, "mentions") for p, e in [("p1", "ada"), ("p1", "engine"), ("p2", "loom"), ("p3", "cards"), ("p3", "loom")]),
        Edge("ada", "engine", "wrote for", text="writing of programs"),
        Edge("cards", "loom", "drive", text="weaving by patterns"),
        Edge("cards", "engine", "feed", weight=2.0),
    ]
    return GraphIndex.from_nodes(nodes, edges, embedding=embedding or Axes(), edge_signals=True, **options)


def found(index, question, keywords=None, **options):
    hits = on(index, LightRAG, facts=True, backfill=False, k=20, **options).retrieve(question, keywords=keywords)
    return [hit.id for hit in hits.nodes], [hit.edge.relation for hit in hits.facts]


@pytest.mark.parametrize(("count", "quotas"), [(1, [5]), (2, [5, 1]), (3, [5, 3, 1]), (5, [5, 4, 3, 2, 1]), (0, [])])
def test_worked_quotas(count, quotas):
    assert chunk_quotas(count) == quotas


def test_quotas_that_are_not_used_go_to_the_first_items_that_have_more():
    # Three entities with 1, 8 and 4 passages; the quotas are 5, 3 and 1, so that four are left over.
    nodes = [Node(e, "", type="thing") for e in "abc"] + [Node(f"{e}{n}", "", type="passage") for e in "abc" for n in range(8)]
    edges = [(f"{e}{n}", e) for e, count in zip("abc", (1, 8, 4), strict=True) for n in range(count)]
    index = GraphIndex.from_nodes(nodes, edges, vectors=torch.eye(27), bm25=False)
    seeds = Ranking.of(torch.tensor([[0, 1, 2]]), torch.tensor([[3.0, 2.0, 1.0]]), "Seeds")
    queries = Queries.of(index, ["?"], vectors=torch.eye(27)[:1])
    ranking = ranked(ChunkGathering("entities", pick="weight", chunk_types=["passage"]), queries, seeds)
    picked = [index.graph.ids[n] for n in ranking.nodes[0].tolist() if n >= 0]
    assert picked == "a0 b0 b1 b2 c0 b3 b4 b5 b6".split()
    assert ranking.trails[0, 1].tolist() == [1, index.graph.row("b0")]


def test_chunks_of_a_relation_are_reached_from_the_end_that_was_searched():
    nodes = [Node(e, "", type="thing") for e in "st"] + [Node(f"p{n}", "", type="passage") for n in range(4)]
    edges = [("s", "t", "is"), *((f"p{n}", "t") for n in range(4)), ("p3", "s")]
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[0.0, 1], *[[1.0, 0]] * 5])
    hits = Retriever(index, LightRAG(), backfill=False).retrieve("?", vector=[1.0, 0.0])
    # Two chunks for the entity t, and of its relation with s the one of both.
    assert [hit.path.nodes for hit in hits] == [("t", "p0"), ("t", "p3"), ("t", "p1"), ("t",)]


@pytest.mark.parametrize(("pick", "count"), [("vector", 7 + 2), ("weight", 5 + 3 + 1 + 5)])
def test_relations_whose_chunks_are_all_taken_do_not_count_for_how_many_are_picked(pick, count):
    nodes = [Node(f"P{n}", f"chunk {n}", type="passage") for n in range(16)] + [Node(name, "", name) for name in "ABC"]
    edges = [(f"P{n}", name, "mentions") for n in range(16) for name in "ABC"] + [("A", "B", "r"), ("B", "C", "r"), ("A", "C", "r")]
    index = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(), edge_signals=True)
    options = {"mode": "hybrid", "threshold": -1, "chunk_pick": pick, "types": ["passage"], "backfill": False}
    # Of three entities 7 chunks, or 9 by quotas; what is left is all of the first relation: 2 chunks, or 5.
    assert len(on(index, LightRAG, **options).retrieve("Q?", 50)) == count


def test_by_quotas_the_chunks_of_most_entities_come_first():
    nodes = [Node(e, "", type="thing") for e in "ab"] + [Node(p, "", type="passage") for p in "xyz"]
    index = GraphIndex.from_nodes(nodes, [("x", "a"), ("y", "a"), ("z", "b"), ("y", "b")], vectors=torch.ones(5, 1))
    hits = Retriever(index, LightRAG(chunk_pick="weight"), types=["passage"], backfill=False).retrieve("?", vector=[1.0])
    assert [hit.id for hit in hits] == ["y", "x", "z"]


def test_each_mode_on_a_worked_graph():
    """Low-level keywords name Ada, high-level ones are about weaving."""
    index = library()
    words = {"low_level_keywords": ["Ada"], "high_level_keywords": ["weaving"]}
    # Ada alone is near; her relation; the passage of both.
    assert found(index, "engine?", words, mode="local") == (["p1", "ada"], ["wrote for"])
    # The relation about weaving joins cards and loom, source before target; of their passages p3 is of both.
    assert found(index, "engine?", words, mode="global") == (["p2", "p3", "cards", "loom"], ["drive"])
    assert found(index, "engine?", words, mode="hybrid") == (["p1", "p2", "p3", "ada", "cards", "loom"], ["wrote for", "drive"])
    # Chunks are those most similar to the question, and the question itself finds chunks that no keyword leads to.
    assert found(index, "loom?", words, mode="hybrid")[0][:3] == ["p2", "p1", "p3"]
    words["high_level_keywords"] = ["nothing"]
    assert found(index, "loom?", words, mode="hybrid") == (["p1", "ada"], ["wrote for"])
    assert found(index, "loom?", words, mode="mix") == found(index, "loom?", words) == (["p2", "p1", "ada"], ["wrote for"])
    assert found(index, "Ada, engine, loom?", words)[0] == ["p1", "p2", "ada"]
    assert found(index, "Ada, engine, loom?", words, chunk_top_k=1)[0] == ["p1", "ada"]


def test_relations_stand_by_degree_and_weight_and_passages_do_not_count():
    _, relations = found(library(), "?", {"low_level_keywords": ["engine", "Ada", "loom"]}, mode="local")
    # Degrees among entities: engine and cards 2, Ada and loom 1; of 4 is feed, of 3 are the others, in row order.
    assert relations == ["feed", "wrote for", "drive"]


def test_equal_relations_stand_as_they_are_first_seen():
    nodes = [Node(name, "", type="thing") for name in "abcd"]
    edges = [("c", "d", "of c"), ("a", "b", "of b"), ("b", "a", "of b too"), ("c", "d", "twice")]
    # From the most similar node to the least: b, d, a, c.
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[0.7], [0.9], [0.6], [0.8]])
    hits = Retriever(index, LightRAG(mode="local", facts=True), backfill=False).retrieve("?", vector=[1.0])
    assert [hit.edge.relation for hit in hits.facts] == ["of b", "of b too", "of c", "twice"]


def test_relations_and_chunks_keep_to_the_filter_of_the_walk():
    retriever, words = Retriever(library(), LightRAG(mode="local", facts=True), backfill=False), {"low_level_keywords": ["engine"]}
    for allowed, nodes, relations in [
        (["p1", "ada", "cards"], ["p1", "engine"], ["feed", "wrote for"]),
        (["p1", "cards"], ["p1", "engine"], ["feed"]),
        (["ada"], ["engine"], ["wrote for"]),
    ]:
        hits = retriever.retrieve("?", keywords=words, traversal_filter={"$id": {"$in": allowed}})
        assert ([hit.id for hit in hits.nodes], [hit.edge.relation for hit in hits.facts]) == (nodes, relations)


def test_a_relation_of_an_entity_with_itself_has_the_chunks_of_the_entity():
    nodes = [Node("a", "", type="thing"), *(Node(f"p{n}", "", type="passage") for n in range(6))]
    index = GraphIndex.from_nodes(nodes, [("a", "a", "is"), *((f"p{n}", "a") for n in range(6))], vectors=torch.ones(7, 1))
    hits = Retriever(index, LightRAG(), backfill=False).retrieve("?", vector=[1.0])
    # Five chunks for two items: two of the entity, and two of the relation.
    assert [hit.id for hit in hits] == ["p0", "p2", "p1", "p3", "a"]


def test_levels_are_searched_as_one_text_and_the_question_stands_for_missing_keywords():
    embedding = Axes()
    index = library(embedding)
    retriever = Retriever(index, LightRAG(mode="hybrid"), k=3)
    for words, expected in [
        ({"low_level_keywords": ["Ada", "loom", "Ada"], "high_level_keywords": ["weaving"]}, ["Ada, loom", "weaving"]),
        ({"low_level_keywords": ["Ada"]}, ["Ada"]),
        ({"low_level_keywords": [" "], "high_level_keywords": []}, []),
        (None, []),
    ]:
        embedding.asked.clear()
        retriever.retrieve("Who wove?", keywords=words)
        assert sorted(set(embedding.asked)) == sorted(["Who wove?", *expected])
    # A level without keywords is left out; in a mode of one level, the question stands for it.
    assert found(index, "weaving?", {"low_level_keywords": ["Ada"]}, mode="hybrid") == (["p1", "ada"], ["wrote for"])
    assert found(index, "weaving?", {"low_level_keywords": ["Ada"]}, mode="global")[1] == ["drive"]
    assert found(index, "Ada?", {"high_level_keywords": ["weaving"]}, mode="hybrid") == (["p2", "p3", "cards", "loom"], ["drive"])
    embedding.asked.clear()
    only = Retriever(index, LightRAG(mode="local", facts=True), backfill=False).retrieve(
        "Ada?", keywords={"high_level_keywords": ["weaving"]}
    )
    assert embedding.asked == ["Ada?"] and [hit.id for hit in only.nodes] == ["p1", "ada"]
    assert not Retriever(index, LightRAG(mode="hybrid", facts=True), backfill=False).retrieve(
        "x", keywords={"low_level_keywords": ["zz"]}
    )


def test_a_language_model_gives_keywords_once_a_question_and_its_failures_are_noted():
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        low = ["Ada"] if "first" in prompt else ["loom"]
        return "no idea" if "third" in prompt else json.dumps({"high_level_keywords": ["weaving"], "low_level_keywords": low})

    index, questions = library(), ["the first?", "the second?", "the third loom?", "the fourth?"]
    retriever = Retriever(index, LightRAG(mode="hybrid", language_model=model), backfill=False)
    results = retriever.retrieve_batch(questions, keywords=[None, None, None, {"low_level_keywords": ["Engine"]}])
    assert sum("first" in prompt for prompt in prompts) == 1 and not any("fourth" in prompt for prompt in prompts)
    assert [[hit.id for hit in hits][:1] for hits in results] == [["p1"], ["p2"], ["p2"], ["p1"]]
    assert [len(hits.notes) for hits in results] == [0, 0, 1, 0]
    (note,) = results[2].notes
    assert note.startswith("No answer of the language model") and note.endswith("; the question itself was searched")

    class Extractor:
        def extract(self, questions):
            return [{"low_level_keywords": ["Ada"]} for _ in questions]

    own = Retriever(index, LightRAG(mode="local", language_model=Extractor()), backfill=False)
    assert [hit.id for hit in own.retrieve("loom?")] == ["p1", "ada"]


def test_a_wrong_answer_costs_its_own_question_a_note_and_other_keys_are_ignored():
    def model(prompt):
        answer = {"high_level_keywords": ["weaving"], "low_level_keywords": ["Ada"], "reasoning": "It is about Ada."}
        return "wrong " * 100 if "loom" in prompt else json.dumps(answer)

    retriever = Retriever(library(), LightRAG(mode="local", language_model=model), backfill=False)
    results = retriever.retrieve_batch(["Who?", "Which loom?"])
    assert [[hit.id for hit in hits][0] for hits in results] == ["p1", "p2"]
    assert [len(hits.notes) for hits in results] == [0, 1] and len(results[1].notes[0]) < 260

    class Extractor:
        def __init__(self, answers):
            self.answers = answers

        def extract(self, questions):
            return self.answers

    wrong = [3, {"words": ["Ada"]}, {"low_level_keywords": "Ada"}, {"low_level_keywords": ["Ada"], "why": 1}, ValueError("x" * 999)]
    results = Retriever(library(), LightRAG(mode="local", language_model=Extractor(wrong))).retrieve_batch(["loom?"] * 5)
    assert [[hit.id for hit in hits][0] for hits in results] == ["p2", "p2", "p2", "p1", "p2"]
    assert [[len(note) < 260 for note in hits.notes] for hits in results] == [[True], [True], [True], [], [True]]
    for answers in (None, [], [{}, {}], "Ada"):
        with pytest.raises(InvalidArgumentError, match=r"Extractor.extract returned .*expected"):
            Retriever(library(), LightRAG(language_model=Extractor(answers))).retrieve("loom?")


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raising(error):
    raise error


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("error", "told"), [(ConnectionError("down"), "ConnectionError: down"), (Unspeakable(), "Unspeakable")])
def test_an_extractor_that_raises_leaves_the_questions_with_a_note(error, told, lazy):
    class Extractor:
        def extract(self, questions):
            return (raising(error) for _ in questions) if lazy else raising(error)

    for hits in Retriever(library(), LightRAG(mode="local", language_model=Extractor()), backfill=False).retrieve_batch(
        ["loom?", "Ada?"]
    ):
        assert hits and hits.notes == (f"{told}; the question itself was searched",)


def test_what_is_not_an_exception_of_its_own_ends_the_search():
    class Extractor:
        def extract(self, questions):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Retriever(library(), LightRAG(language_model=Extractor())).retrieve("loom?")
    with pytest.raises(InvalidArgumentError, match="attempts"):
        LanguageModelKeywords(str.upper, attempts=0)


def test_half_of_a_surrogate_pair_costs_its_own_question_a_note():
    class Extractor:
        def extract(self, questions):
            return [{"low_level_keywords": ["\ud800" if "loom" in question else "Ada"]} for question in questions]

    retriever = Retriever(library(), LightRAG(mode="local", language_model=Extractor()), backfill=False)
    results = retriever.retrieve_batch(["loom?", "engine?"])
    assert [[hit.id for hit in hits][0] for hits in results] == ["p2", "p1"] and results[1].notes == ()
    assert "One of the keywords that Extractor gave is not valid Unicode" in results[0].notes[0]
    with pytest.raises(InvalidArgumentError, match="One of the keywords of query 0 is not valid Unicode"):
        retriever.retrieve("loom?", keywords={"low_level_keywords": ["\ud800"]})


@pytest.mark.parametrize("words", ["Ada", ["Ada"], {"low": ["Ada"]}, {"low_level_keywords": "Ada"}, {"low_level_keywords": [1]}])
def test_other_keywords_are_refused(words):
    with pytest.raises(InvalidArgumentError, match="keywords of query 0 are .*high_level_keywords and low_level_keywords"):
        Retriever(library(), LightRAG()).retrieve("Ada?", keywords=words)


@pytest.mark.parametrize("mode", ["global", "hybrid", "mix"])
def test_relations_without_texts_cannot_be_searched(mode):
    with pytest.raises(InvalidArgumentError, match="as the index has no signal over its edges. .*edge_signals=True.*mode='local'"):
        Retriever(linked_index(), LightRAG(mode=mode))
    bare = GraphIndex.from_texts(["a", "b"], edges=[("0", "1")], embedding=HashEmbedding(), edge_signals=True)
    with pytest.raises(InvalidArgumentError, match="as the edges have neither texts nor relations"):
        Retriever(bare, LightRAG(mode=mode))
    lone = GraphIndex.from_texts(["a", "b"], embedding=HashEmbedding(), edge_signals=True)
    with pytest.raises(InvalidArgumentError, match="as the graph has no edges. Add some, or choose mode='local'"):
        Retriever(lone, LightRAG(mode=mode))
    assert Retriever(lone, LightRAG()).retrieve("a")
    with pytest.raises(MissingSignalError, match="no vectors"):
        Retriever(GraphIndex.from_texts(["a loom"]), LightRAG()).retrieve("loom")


def test_the_mode_follows_signals_and_nodes():
    def formula(index, **options):
        return Retriever(index, LightRAG(**options)).operator.formula()

    local, hybrid = "O_vs -> O_gs -> (O_gs + O_gs)", "(O_vs -> O_gs + O_vs) -> (O_gs + O_gs)"
    assert formula(linked_index()) == local == formula(library(), mode="local")
    assert formula(library()) == "(O_vs -> O_gs + O_vs) -> (O_vs + O_gs + O_gs)"
    assert formula(linked_index(edge_signals=True)) == hybrid == formula(linked_index(edge_signals=True), mode="mix")
    assert formula(library(), mode="global") == "O_vs -> (O_gs + O_gs)"
    assert "pick='weight'" in repr(Retriever(linked_index(), LightRAG())) and "pick='vector'" in repr(
        Retriever(library(), LightRAG())
    )
    # A scope without relations is answered by the entities.
    for mode in (None, "local", "hybrid", "mix"):
        hits = Retriever(library(), LightRAG(mode=mode), k=2).retrieve("Ada?", scope={"$type": {"$in": ["passage", "person"]}})
        assert [hit.id for hit in hits] == ["p1", "ada"]
    assert not Retriever(library(), LightRAG(mode="global"), backfill=False).retrieve("Ada?", scope={"$type": "person"})


@pytest.mark.parametrize("edges", [[("a", "b")], []])
def test_the_mode_in_a_scope_is_that_of_an_index_of_what_it_holds(edges):
    nodes = [Node("a", "Ada", metadata={"owner": 1}), Node("b", "a loom", metadata={"owner": 1})]
    foreign = [Node("c", "an engine", metadata={"owner": 2}), Node("d", "writing", metadata={"owner": 2})]
    texts = [*edges, Edge("c", "d", text="weaving")]
    whole = GraphIndex.from_nodes([*nodes, *foreign], texts, embedding=Axes(), edge_signals=True)
    alone = GraphIndex.from_nodes(nodes, edges, embedding=Axes(), edge_signals=True)
    words = {"high_level_keywords": ["weaving"]}
    scoped = Retriever(whole, LightRAG(), backfill=False).retrieve("Ada?", keywords=words, scope={"owner": 1})
    # The notes say whether the index has no edges or the scope.
    assert (
        list(scoped) == list(Retriever(alone, LightRAG(), backfill=False).retrieve("Ada?", keywords=words)) and scoped[0].id == "a"
    )


@pytest.mark.parametrize("most", [10**12, 10**30])
@pytest.mark.parametrize("pick", ["vector", "weight"])
def test_limits_beyond_the_graph_are_those_of_the_graph(most, pick):
    def hits(**limits):
        system = LightRAG(chunk_pick=pick, facts=True, **limits)
        return Retriever(library(), system, backfill=False).retrieve("Ada, engine, loom?")

    huge = hits(top_k=most, chunk_top_k=most, related_chunks=most)
    assert huge == hits(top_k=7, chunk_top_k=7, related_chunks=100) != []


def test_passages_alone_by_type_and_words_instead_of_vectors_over_edges():
    words = {"low_level_keywords": ["Ada"], "high_level_keywords": ["patterns"]}
    hits = Retriever(library(), LightRAG(), types=["passage"], backfill=False).retrieve("engine?", keywords=words)
    assert [hit.path.nodes for hit in hits] == [("p1",)]
    hits = Retriever(library(), LightRAG(mode="global"), types=["passage"], backfill=False).retrieve("loom?", keywords=words)
    assert not hits, "no text of a relation is about patterns by its vector"
    words["high_level_keywords"] = ["weaving"]
    hits = Retriever(library(), LightRAG(mode="global"), types=["passage"], backfill=False).retrieve("loom?", keywords=words)
    assert [hit.path.nodes[-1] for hit in hits] == ["p2", "p3"], "relations start a traversal, whatever types are returned"
    words["high_level_keywords"] = ["patterns"]
    whole = library()
    index = GraphIndex(whole.graph, {n: s for n, s in whole.signals.items() if n != "edge_dense"}, embedding=Axes())
    assert found(index, "engine?", words, mode="global")[1] == ["drive"], "a relation that shares a word, whatever its score"


def test_what_is_not_near_enough_is_not_found():
    words = {"low_level_keywords": ["Ada", "loom", "engine", "writing"]}
    # Ada has a cosine of 0.5 with the four words together.
    assert found(library(), "?", words, mode="local", threshold=0.49)[0][-3:] == ["ada", "engine", "loom"]
    assert found(library(), "?", words, mode="local", threshold=0.51) == ([], [])
    # A cosine equal to the threshold does not exceed it.
    level = GraphIndex.from_texts(["a", "b"], vectors=[[1, 0], [0, 1]])
    hits = Retriever(level, LightRAG(threshold=0), backfill=False).retrieve("?", vector=[1, 0])
    assert [hit.id for hit in hits] == ["0"]
    with pytest.raises(InvalidArgumentError, match="threshold must be a cosine"):
        Retriever(library(), LightRAG(threshold=2))


def test_relations_are_measured_by_cosines_whatever_the_lengths_of_vectors():
    def found(length, edge_length, threshold):
        embed = lambda texts: [[length, 0.0] if text == "?" else [0.8 * edge_length, 0.6 * edge_length] for text in texts]  # noqa: E731
        nodes, options = [Node("a", "one"), Node("b", "other")], {"embedding": embed, "edge_signals": True, "metric": "dot"}
        index = GraphIndex.from_nodes(nodes, [("a", "b", "r")], **options)
        return [hit.id for hit in Retriever(index, LightRAG(mode="global", threshold=threshold), backfill=False).retrieve("?")]

    for lengths in ((1, 1), (0.1, 1), (1, 0.1), (10, 10)):
        assert found(*lengths, 0.79) == ["a", "b"] and found(*lengths, 0.81) == []
