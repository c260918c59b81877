"""HyKGE against its chains and fragments written out, and a worked example."""

import json
import random
import zlib

import pytest

from graph_retrievers import GraphIndex, HyKGE, Node, Retriever
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
    nodes = [Node(f"n{row}", "", f"Thing {row}") for row in range(size)]
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
        most, window = rng.randrange(1, 6), rng.choice([10, 35])
        system = HyKGE(language_model=model(passage, names), chains=most, window=window, overlap=5, facts=True)
        hits = Retriever(index_of(size, rows), system, k=99, backfill=False).retrieve("Which?")
        expected = reference.retrieve("Which?", passage, anchors, rows, lambda node: f"Thing {node}", score, most, window, 5)
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
    assert note in hits.notes[0] and "chains join the nodes nearest" in hits.notes[0]


def test_entities_that_no_node_is_like_give_nothing_and_a_batch_is_its_questions_one_by_one():
    index = index_of(3, [(0, "treats", 1)])
    nothing = Retriever(index, HyKGE(language_model=model("It.", ["nothing"])), backfill=False).retrieve("?")
    assert not nothing.nodes and nothing.notes
    retriever = Retriever(index, HyKGE(language_model=model("It.", ["Thing 0", "Thing 1"])))
    batch = [[(hit.id, hit.score) for hit in hits] for hits in retriever.retrieve_batch(["a", "b"])]
    assert batch == [[(hit.id, hit.score) for hit in retriever.retrieve(question)] for question in "ab"]
