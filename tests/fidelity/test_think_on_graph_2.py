"""Think-on-Graph 2.0 against its rounds written out, with fake models, and a worked example."""

import json
import math
import random
import re
import zlib

import pytest

from graph_retrievers import GraphIndex, Node, Retriever, ThinkOnGraph2
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.think_on_graph_2 import ContextBeam
from tests.helpers import HashEmbedding
from tests.references.think_on_graph_2 import search

RELATIONS = ["made by", "born in"]


def value(*texts):
    """A number from 0 to 1 that texts determine, with ties and zeros."""
    return zlib.crc32(" ".join(texts).encode()) % 7 / 6


def relation_text(name, outgoing):
    return name + ("" if outgoing else " (from it)")


class Model:
    """Scores relations by their texts, and says after some rounds that the texts suffice."""

    def __init__(self, rounds):
        self.rounds, self.prompts = rounds, []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        if "Texts:" in prompt:
            seen = sum("Texts:" in each for each in self.prompts)
            return json.dumps({"sufficient": seen >= self.rounds, "clue": f"clue {seen}"})
        options = re.findall(r"^(\d+)\. (.*)$", prompt, re.MULTILINE)
        if "Relations of" not in prompt:
            return json.dumps({"numbers": [int(number) for number, _ in options]})
        entity = re.search(r"^Relations of (.*):$", prompt, re.MULTILINE)[1]
        asked = re.search(r"^Question: (.*)$", prompt, re.MULTILINE)[1]
        return json.dumps({"scores": [{"number": int(n), "score": 0.1 + 0.9 * value(asked, entity, text)} for n, text in options]})


def graph(rng):
    size = rng.randrange(3, 10)
    types = ["thing", "passage", *(rng.choice(["thing", "thing", "passage"]) for _ in range(size - 2))]
    rows = [(rng.randrange(size), rng.choice(RELATIONS), rng.randrange(size)) for _ in range(rng.randrange(4 * size))]
    nodes = [Node(f"n{row}", f"Text {row}.", f"Node{row}", kind) for row, kind in enumerate(types)]
    things = [row for row, kind in enumerate(types) if kind == "thing"]
    return nodes, types, rows, sorted(rng.sample(things, rng.randrange(1, min(len(things), 3) + 1)))


def check(seed, cases, negative, with_model):
    rng = random.Random(seed)
    for _ in range(cases):
        nodes, types, rows, topics = graph(rng)

        def score(question, text, shift=0.5 * negative):
            return value(question, text) - shift

        index = GraphIndex.from_nodes(
            nodes,
            [(f"n{a}", f"n{b}", name) for a, name, b in rows],
            vectors=[[1.0]] * len(nodes),
            embedding=HashEmbedding(1),
            relevance=lambda pairs, score=score: [score(question, text) for question, text in pairs],
        )
        width, depth, most, rounds = (rng.randrange(1, 4) for _ in range(4))
        model = Model(rounds) if with_model else None
        numbers = {"width": width, "depth": depth, "texts": 3 * most, "decay": rng.choice([0.0, 0.5])}

        def relation_scores(entity, options, clue, with_model=with_model, score=score):
            asked, name = f"Which? {clue}".strip(), f"Node{entity}"
            if with_model:
                return [0.1 + 0.9 * value(asked, name, relation_text(*option)) for option in options]
            return [score("Which?", f"{name} {relation}") for relation, _ in options]

        seen = []

        def judged(texts, seen=seen, rounds=rounds, with_model=with_model):
            seen.append(texts)
            return "" if not with_model else None if len(seen) >= rounds else f"clue {len(seen)}"

        expected = search(
            topics,
            rows,
            types,
            lambda node: f"Node{node}",
            lambda node: f"Node{node}. Text {node}.",
            relation_scores,
            lambda clue, text, score=score: score(f"Which? {clue}" if clue else "Which?", text),
            judged,
            width,
            depth,
            3 * most,
            numbers["decay"],
        )
        retriever = Retriever(
            index, Pipeline(EntityLinking(), ContextBeam(model, text_types=["passage"], **numbers)), backfill=False
        )
        hits = retriever.retrieve("Which?", k=99, entities=[f"Node{topic}" for topic in topics])
        assert [tuple(int(node[1:]) for node in hit.path.nodes) for hit in hits] == expected


CASES = pytest.mark.parametrize(("negative", "with_model"), [(False, True), (True, True), (False, False), (True, False)])


@CASES
def test_rounds_as_written_out(negative, with_model):
    check(0, 30, negative, with_model)


@pytest.mark.slow
@CASES
def test_rounds_as_written_out_in_a_thousand_graphs(negative, with_model):
    check(1, 300, negative, with_model)


def test_worked_example():
    # The texts of Jacquard: itself 0, and "p" 0.8; of Paris "q" 0.4. In the order p, q: Jacquard 0.8 / e^0.5 = 0.485, and
    # Paris 0.4 / e = 0.147. With a beam of one entity, only the text of Jacquard is found.
    nodes = [Node("loom", "", "Loom"), Node("jacquard", "", "Jacquard"), Node("paris", "", "Paris")]
    nodes += [Node("p", "Born in Lyon.", type="passage"), Node("q", "A town.", type="passage")]
    edges = [("loom", "jacquard", "made by"), ("loom", "paris", "shown in"), ("p", "jacquard"), ("q", "paris")]

    def relevance(pairs):
        return [0.8 if "Born" in text else 0.4 if "town" in text else 0.0 for _, text in pairs]

    index = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(), relevance=relevance)
    hits = Retriever(index, ThinkOnGraph2(width=1, depth=1), backfill=False).retrieve("Who?", entities=["Loom"])
    assert [(hit.path.text, round(hit.score, 2)) for hit in hits] == [
        ("Loom -[made by]-> Jacquard <- p", 0.8),
        ("Loom -[made by]-> Jacquard", 0.0),
        ("Loom", 0.0),
    ]
    both = Retriever(index, ThinkOnGraph2(width=2, depth=1), backfill=False).retrieve("Who?", entities=["Loom"])
    assert [hit.id for hit in both] == ["p", "q", "jacquard", "paris", "loom"]
    assert math.isclose(0.8 * math.exp(-0.5), 0.485, abs_tol=1e-3)


def test_the_model_keeps_topics_and_its_clue_goes_with_the_question():
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        if "Texts:" in prompt:
            return json.dumps({"sufficient": "Node3" in prompt, "clue": "Find Node3."})
        if "Entities:" in prompt:
            return json.dumps({"numbers": [2, 9]})
        return json.dumps({"scores": [{"number": 1, "score": 1}]})

    nodes = [Node(f"n{row}", "", f"Node{row}") for row in range(4)]
    edges = [("n0", "n1", "a"), ("n1", "n3", "b"), ("n2", "n1", "a")]
    index = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(), relevance=lambda pairs: [1.0] * len(pairs))
    hits = Retriever(index, ThinkOnGraph2(language_model=model), backfill=False).retrieve("Which?", entities=["Node0", "Node2"])
    # Of the two entities the second is kept.
    assert {hit.path.nodes[0] for hit in hits[:2]} == {"n2"}
    assert any("1. Node0\n2. Node2" in prompt for prompt in prompts if "Entities:" in prompt)
    # Texts are shown with their titles.
    assert any("- Node1" in prompt for prompt in prompts if "Texts:" in prompt)
    assert any("Question: Which? Find Node3." in prompt for prompt in prompts if "Relations of" in prompt)


def test_a_model_that_fails_leaves_the_choice_to_the_relevance_model_and_wrong_numbers_are_refused():
    nodes = [Node("a", "", "A"), Node("b", "", "B")]
    index = GraphIndex.from_nodes(nodes, [("a", "b", "x")], embedding=HashEmbedding(), relevance=lambda pairs: [1.0] * len(pairs))
    for model in (lambda prompt: "no JSON", None):
        hits = Retriever(index, ThinkOnGraph2(language_model=model), backfill=False).retrieve("Which?", entities=["A"])
        assert [hit.id for hit in hits] == ["b", "a"] and len(hits.notes) == (model is not None)
    with pytest.raises(InvalidArgumentError, match="decay must be at least 0"):
        ContextBeam(decay=-1)


def test_a_batch_is_its_questions_one_by_one():
    nodes, _, rows, _ = graph(random.Random(5))
    index = GraphIndex.from_nodes(nodes, [(f"n{a}", f"n{b}", name) for a, name, b in rows], embedding=HashEmbedding())
    retriever, questions = Retriever(index, ThinkOnGraph2()), ["What of Node0?", "And Node2?"]
    batch = [[(hit.id, round(hit.score, 5)) for hit in hits] for hits in retriever.retrieve_batch(questions)]
    assert batch == [[(hit.id, round(hit.score, 5)) for hit in retriever.retrieve(question)] for question in questions]
