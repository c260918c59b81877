"""HyKGE against its chains and fragments written out, and a worked example."""

import json
import random
import zlib

import pytest

from graph_retrievers import GraphIndex, HyKGE, Node, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.systems.hykge import fragments
from tests.references import hykge as reference

RELATIONS = ["treats", "causes", ""]


class Numbers:
    """The vector of a text that ends in a number n is the n-th axis; of others nothing like a name."""

    name = "numbers"

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        vector = [0.0] * 13
        last = text.split()[-1].strip(".") if text.split() else ""
        vector[int(last) if last.isdigit() and int(last) < 12 else 12] = 1.0
        return vector


def score(text, chain):
    return zlib.crc32(f"{text}|{chain}".encode()) % 7 / 7


def relevance(pairs):
    return [score(text, chain) for text, chain in pairs]


def index_of(size, rows, **options):
    nodes = [Node(f"n{row}", "", f"Thing {row}", metadata={"shown": row != 1}) for row in range(size)]
    edges = [(f"n{a}", f"n{b}", relation) for a, relation, b in rows]
    return GraphIndex.from_nodes(nodes, edges, embedding=Numbers(), **{"relevance": relevance} | options)


def model(passage, entities):
    return lambda prompt: json.dumps({"passage": passage, "entities": entities})


def check(seed, cases):
    rng = random.Random(seed)
    for _ in range(cases):
        size = rng.randrange(1, 11)
        rows = [(rng.randrange(size), rng.choice(RELATIONS), rng.randrange(size)) for _ in range(rng.randrange(4 * size))]
        anchors = rng.sample(range(size), rng.randrange(1, min(size, 4) + 1))
        passage = " ".join(rng.choices(["loom", "card", "engine"], k=rng.randrange(1, 12)))
        # Names that no node is like, and names that occur twice.
        names = [f"Thing {anchor}" for anchor in anchors] + ["nothing", f"Thing {anchors[0]}"]
        most, window, hops = rng.randrange(1, 6), rng.choice([10, 35]), rng.randrange(1, 4)
        system = HyKGE(language_model=model(passage, names), hops=hops, chains=most, window=window, overlap=5, facts=True)
        hits = Retriever(index_of(size, rows), system, k=99, backfill=False).retrieve("Which?")
        expected = reference.retrieve("Which?", passage, anchors, rows, lambda node: f"Thing {node}", score, most, window, 5, hops)
        assert [tuple(int(node[1:]) for node in hit.path.nodes) for hit in hits.nodes] == [path for _, path in expected]
        assert [hit.score for hit in hits.nodes] == pytest.approx([value for value, _ in expected], abs=1e-6)


def test_chains_as_written_out():
    check(0, 60)


@pytest.mark.slow
def test_chains_as_written_out_in_a_thousand_graphs():
    check(1, 1000)


def test_worked_example():
    # Two chains join 0 and 2: over 1 (a common target) and over 3 (a path). The second suits a fragment of the passage.
    rows = [(0, "treats", 1), (2, "treats", 1), (0, "causes", 3), (3, "causes", 2), (2, "has", 4)]
    passage = "a" * 35 + "It is the cause that leads to it."

    def suits(pairs):
        return [float("causes" in chain and text.startswith("aaaaaaaaaaaaaaaIt")) for text, chain in pairs]

    index = index_of(5, rows, relevance=suits)
    system = HyKGE(language_model=model(passage, ["Thing 0", "Thing 2", "Thing 0 or so"]), chains=1)
    hits = Retriever(index, system, backfill=False).retrieve("What of it?")
    assert [(hit.path.text, hit.score) for hit in hits] == [
        ("Thing 0", 1.0),
        ("Thing 0 -[causes]-> Thing 3", 1.0),
        ("Thing 0 -[causes]-> Thing 3 -[causes]-> Thing 2", 1.0),
    ]


def test_of_several_edges_between_two_nodes_a_path_names_the_first():
    for rows in ([(0, "has", 2), (0, "causes", 2), (1, "treats", 2)], [(2, "has", 0), (0, "causes", 2), (1, "treats", 2)]):
        system = HyKGE(language_model=model("It.", ["Thing 0", "Thing 1"]))
        hits = Retriever(index_of(3, rows), system, backfill=False).retrieve("Which?")
        first = "-[has]->" if rows[0][0] == 0 else "<-[has]-"
        assert hits[2].path.text == f"Thing 0 {first} Thing 2 <-[treats]- Thing 1"


def chains_between(rows, hops, **options):
    size = max(max(a, b) for a, _, b in rows) + 1
    system = HyKGE(language_model=model("It.", ["Thing 0", "Thing 1"]), hops=hops, facts=True, **options)
    hits = Retriever(index_of(size, rows), system, k=9, backfill=False).retrieve("Which?")
    return {tuple(int(node[1:]) for node in hit.path.nodes) for hit in hits.chains}, hits.notes


def test_of_three_edges_a_chain_turns_at_most_once():
    kinds = {
        # A path, in either direction.
        (0, 2, 3, 1): [(0, "x", 2), (2, "x", 3), (3, "x", 1)],
        (0, 4, 5, 1): [(4, "x", 0), (5, "x", 4), (1, "x", 5)],
        # A common source, and a common target.
        (0, 6, 7, 1): [(6, "x", 0), (6, "x", 7), (7, "x", 1)],
        (0, 8, 9, 1): [(0, "x", 8), (8, "x", 9), (1, "x", 9)],
    }
    # It turns twice, at 10 and at 11.
    rows = [row for rows in kinds.values() for row in rows] + [(0, "x", 10), (11, "x", 10), (11, "x", 1)]
    assert chains_between(rows, 3) == (set(kinds), ())
    # A chain ends where it reaches the other end.
    assert chains_between([*rows, (0, "x", 1), (1, "x", 12)], 3) == ({*kinds, (0, 1)}, ())
    assert chains_between([*rows, (0, "x", 1)], 2) == ({(0, 1)}, ())
    assert chains_between([*rows, (0, "x", 1)], 1) == ({(0, 1)}, ())


def test_a_note_says_if_nodes_have_too_many_edges(monkeypatch):
    monkeypatch.setattr("graph_retrievers.systems.hykge._MOST", 2)
    rows = [(0, "x", 2), (2, "x", 3), (3, "x", 1), (4, "x", 0), (5, "x", 4), (1, "x", 5), *[(4, "x", node) for node in (6, 7)]]
    chains, notes = chains_between(rows, 3)
    # Node 2 has two edges, and node 4 has four.
    assert (0, 2, 3, 1) in chains and (0, 4, 5, 1) not in chains
    assert notes == ("hykge: chains over nodes with many edges were left out",)
    # Nodes 2 and 4 have two edges each: together too many, so the first of them is read.
    rows = [(0, "x", 2), (2, "x", 3), (3, "x", 1), (4, "x", 0), (5, "x", 4), (1, "x", 5)]
    assert chains_between(rows, 3) == ({(0, 2, 3, 1)}, notes)
    # Parallel edges are read too.
    assert chains_between([*rows[:3], (2, "y", 3)], 3) == (set(), notes)


def test_an_entity_may_be_as_like_its_node_as_the_threshold():
    system = HyKGE(language_model=model("It.", ["Thing 0", "Thing 1"]), threshold=1.0)
    hits = Retriever(index_of(3, [(0, "treats", 2), (1, "treats", 2)]), system, backfill=False).retrieve("Which?")
    assert [hit.id for hit in hits] == ["n0", "n2", "n1"]


def test_a_model_scores_the_chains_whose_nodes_are_most_similar_to_the_question():
    # Nodes 2 to 7 join 0 and 1; the question is like node 5 alone. Of equal chains the first ones are read.
    rows = [edge for node in range(2, 8) for edge in ((0, "treats", node), (node, "treats", 1))]
    read = []

    def counted(pairs):
        read.extend(chain for _, chain in pairs)
        return [0.5] * len(pairs)

    index = index_of(8, rows, relevance=counted)

    def chains(candidates):
        system = HyKGE(language_model=model("It.", ["Thing 0", "Thing 1"]), candidates=candidates, facts=True)
        hits = Retriever(index, system, k=2, backfill=False).retrieve("What of 5")
        return [hit.path.nodes[1] for hit in hits.chains], hits.notes

    assert chains(3) == (
        ["n2", "n3", "n5"],
        ("hykge: of 6 chains, the 3 whose nodes are most similar to the question were scored",),
    )
    # The question and the hypothesis, which is its only fragment.
    assert len(read) == 3 * 2
    assert chains(6) == ([f"n{node}" for node in range(2, 8)], ())


def test_a_hypothesis_is_read_up_to_2000_characters():
    read = set()

    def kept(pairs):
        read.update(text for text, _ in pairs)
        return [0.5] * len(pairs)

    passage = " ".join(f"{number:05}" for number in range(1000))
    index = index_of(3, [(0, "treats", 2), (1, "treats", 2)], relevance=kept)
    system = HyKGE(language_model=model(passage, ["Thing 0", "Thing 1"]))
    Retriever(index, system, backfill=False).retrieve("Which?")
    assert read == {"Which?", passage[:2000], *fragments(passage[:2000])}


def test_no_more_entities_than_asked_for():
    system = HyKGE(language_model=model("It.", [" ", "Thing 0", "Thing 1", "Thing 3"]), entities=2)
    hits = Retriever(index_of(4, [(0, "treats", 2), (1, "treats", 2)]), system, backfill=False).retrieve("Which?")
    assert [hit.id for hit in hits] == ["n0", "n2", "n1"]


@pytest.mark.parametrize(("hops", "read"), [(1, 1), (2, 1), (3, 2)])
def test_edges_are_read_only_where_a_chain_can_go_on(hops, read):
    rows = [(0, "x", 2), (2, "x", 3), (3, "x", 1)]
    system = HyKGE(language_model=model("It.", ["Thing 0", "Thing 1"]), hops=hops)
    hits = Retriever(index_of(4, rows), system, backfill=False).retrieve("Which?")
    assert [asked.request.__name__ for asked in hits.trace].count("Edges") == read
    with pytest.raises(InvalidArgumentError, match="hops"):
        HyKGE(hops=4)


def test_a_chain_ends_at_no_node_that_may_not_be_visited():
    index = index_of(3, [(0, "treats", 2), (1, "treats", 2)])
    retriever = Retriever(index, HyKGE(language_model=model("It.", ["Thing 0", "Thing 1"]), facts=True), backfill=False)
    assert [hit.path.nodes for hit in retriever.retrieve("Which?").chains] == [("n0", "n2", "n1")]
    assert not retriever.retrieve("Which?", traversal_filter={"shown": True}).chains


def test_fragments_overlap_and_cover_the_text():
    for text in ("", "a", "abc" * 12, "abcdefg" * 11):
        parts = fragments(text)
        assert parts == reference.parts(text, 35, 15) and all(len(part) <= 35 for part in parts)
        assert parts[0] + "".join(part[15:] for part in parts[1:]) == text


@pytest.mark.parametrize(("asked", "note"), [(None, "there is no language model"), (lambda prompt: "no JSON", "No answer of")])
def test_without_a_hypothesis_chains_join_the_nearest_nodes_and_a_note_says_so(asked, note):
    nodes = [Node(name, "", name) for name in "abcd"]
    edges = [("a", "c", "x"), ("b", "c", "y"), ("c", "d", "z")]
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[1, 0], [0.8, 0.6], [0, 1], [0, -1]])
    hits = Retriever(index, HyKGE(language_model=asked, entities=2), backfill=False).retrieve("?", vector=[1, 0])
    # Vectors without their model: the chain scores as the mean cosine of its nodes.
    assert [(hit.id, round(hit.score, 2)) for hit in hits] == [("a", 0.6), ("c", 0.6), ("b", 0.6)]
    # No model reads them, so that their number is not limited.
    system = HyKGE(language_model=asked, entities=3, candidates=1, facts=True)
    hits = Retriever(index, system, backfill=False).retrieve("?", vector=[1, 0])
    assert len(hits.chains) == 3 and len(hits.notes) == 1
    assert note in hits.notes[0] and "chains join the nodes nearest" in hits.notes[0]


def test_entities_that_no_node_is_like_give_nothing_and_a_batch_is_its_questions_one_by_one():
    index = index_of(3, [(0, "treats", 1)])
    nothing = Retriever(index, HyKGE(language_model=model("It.", ["nothing"])), backfill=False).retrieve("?")
    assert not nothing.nodes and nothing.notes
    retriever = Retriever(index, HyKGE(language_model=model("It.", ["Thing 0", "Thing 1"])))
    batch = [[(hit.id, hit.score) for hit in hits] for hits in retriever.retrieve_batch(["a", "b"])]
    assert batch == [[(hit.id, hit.score) for hit in retriever.retrieve(question)] for question in "ab"]
