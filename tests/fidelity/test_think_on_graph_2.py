"""Think-on-Graph 2.0 against its rounds written out, with fake models, and a worked example."""

import json
import math
import random
import re
import zlib

import pytest

from graph_retrievers import GraphIndex, Node, Retriever, ThinkOnGraph, ThinkOnGraph2
from graph_retrievers.errors import InvalidArgumentError
from tests.helpers import HashEmbedding
from tests.references.think_on_graph_2 import search

RELATIONS = ["made by", "born in", ""]


def value(*texts):
    """A number from 0 to 1 that texts determine, with ties and zeros."""
    return zlib.crc32(" ".join(texts).encode()) % 7 / 6


def relation_text(name, outgoing):
    return (name or "is linked to") + ("" if outgoing else " (from it)")


def normal(scores):
    return scores if any(scores) else [1 / max(len(scores), 1)] * len(scores)


def verdict(texts, clue):
    """None if texts suffice, else the next clue; the same clue if there is nothing new."""
    number = round(6 * value(*texts, clue))
    return None if number == 0 else clue if number == 1 else f"clue {number}"


def pruned(names):
    """The names of topics that are kept; sometimes none."""
    return [name for name in names if value("topic", *names, name) > 0.4]


class Model:
    """Scores relations by their texts, keeps topics by their names, and judges the texts that it is shown."""

    def __call__(self, prompt):
        if "Texts:" in prompt:
            clue = re.search(r"^Clue so far: (.*)$", prompt, re.MULTILINE)[1]
            clue = "" if clue == "none" else clue
            said = verdict(re.findall(r"^- (.*)$", prompt, re.MULTILINE), clue)
            # A model may leave the clue out.
            return json.dumps({"sufficient": said is None} | ({} if said == clue else {"clue": said or ""}))
        options = re.findall(r"^(\d+)\. (.*)$", prompt, re.MULTILINE)
        if "Relations of" not in prompt:
            kept = pruned([name for _, name in options])
            return json.dumps({"numbers": [*(int(number) for number, name in options if name in kept), len(options) + 1, 0]})
        entity = re.search(r"^Relations of (.*):$", prompt, re.MULTILINE)[1]
        asked = re.search(r"^Question: (.*)$", prompt, re.MULTILINE)[1]
        return json.dumps({"scores": [{"number": int(n), "score": value(asked, entity, text)} for n, text in options]})


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
        width, depth, most = rng.randrange(1, 4), rng.randrange(1, 4), rng.randrange(1, 8)
        numbers = {"width": width, "depth": depth, "decay": rng.choice([0.0, 0.8])}

        def relation_scores(entity, options, clue, score=score):
            name = f"Node{entity}"
            if not with_model:
                return [score("Which?", f"{name} {relation}") for relation, _ in options]
            return normal([value(f"Which? {clue}".strip(), name, relation_text(*option)) for option in options])

        expected = search(
            topics,
            rows,
            types,
            lambda node: f"Node{node}",
            lambda node: f"Node{node}. Text {node}.",
            lambda found: [int(name[4:]) for name in pruned([f"Node{topic}" for topic in found])] if with_model else found,
            relation_scores,
            lambda clue, text, score=score: score(f"Which? {clue}" if clue else "Which?", text),
            verdict if with_model else lambda texts, clue: "",
            most=most,
            least=0.2 if with_model else None,
            **numbers,
        )
        system = ThinkOnGraph2(language_model=Model() if with_model else None, texts=most, **numbers)
        retriever = Retriever(index, system, backfill=False)
        hits = retriever.retrieve("Which?", k=99, entities=[f"Node{topic}" for topic in topics])
        assert [tuple(int(node[1:]) for node in hit.path.nodes) for hit in hits] == [path for _, path in expected]
        told = [score for score, _ in expected if score is not None]
        assert [hit.score for hit in hits[: len(told)]] == pytest.approx(told, abs=1e-6)
        assert not any("language model" in note for note in hits.notes)


CASES = pytest.mark.parametrize(("negative", "with_model"), [(False, True), (True, True), (False, False), (True, False)])


@CASES
def test_rounds_as_written_out(negative, with_model):
    check(0, 30, negative, with_model)


@pytest.mark.slow
@CASES
def test_rounds_as_written_out_in_a_thousand_graphs(negative, with_model):
    check(1, 300, negative, with_model)


def silk():
    """A loom, two entities to which it leads, and a text of each."""
    nodes = [Node("loom", "", "Loom"), Node("jacquard", "", "Jacquard"), Node("paris", "", "Paris")]
    nodes += [Node("p", "Born in Lyon.", type="passage"), Node("q", "A town.", type="passage")]
    nodes += [Node("r", "It weaves silk.", type="passage")]
    edges = [("loom", "jacquard", "made by"), ("paris", "loom", "shows"), ("p", "jacquard"), ("q", "paris"), ("r", "loom")]
    return nodes, edges


def relevance(pairs):
    scores = {"Born": 0.8, "town": 0.4, "silk": 0.6}
    return [next((score for word, score in scores.items() if word in text), 0.0) for _, text in pairs]


def test_worked_example():
    # The texts of the loom: "r" 0.6, itself 0. Of Jacquard: "p" 0.8, itself 0; of Paris: "q" 0.4, itself 0. In the order p, q:
    # Jacquard 0.8 / e^0.8 = 0.359, and Paris 0.4 / e^1.6 = 0.081.
    nodes, edges = silk()
    index = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(), relevance=relevance)
    hits = Retriever(index, ThinkOnGraph2(width=2, depth=1), backfill=False).retrieve("Who?", entities=["Loom"])
    assert [(hit.path.text, round(hit.score, 2)) for hit in hits] == [
        ("Loom -[made by]-> Jacquard <- p", 0.8),
        ("Loom <- r", 0.6),
        ("Loom <-[shows]- Paris <- q", 0.4),
        ("Loom", 0.0),
        ("Loom -[made by]-> Jacquard", 0.0),
        ("Loom <-[shows]- Paris", 0.0),
    ]
    assert math.isclose(0.8 * math.exp(-0.8), 0.359, abs_tol=1e-3) and math.isclose(0.4 * math.exp(-1.6), 0.081, abs_tol=1e-3)


def test_an_entity_without_a_text_of_its_own_has_the_score_of_its_texts():
    # With one text a round, that of Jacquard is "p": 0.8 / e^0.8 = 0.359. He and the loom themselves are not texts of a round.
    nodes, edges = silk()
    index = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(), relevance=relevance)
    hits = Retriever(index, ThinkOnGraph2(width=2, depth=1, texts=1), backfill=False).retrieve("Who?", entities=["Loom"])
    assert [(hit.id, round(hit.score, 3)) for hit in hits] == [("p", 0.8), ("r", 0.6), ("jacquard", 0.359), ("loom", 0.359)]


def test_the_place_of_a_text_in_the_order_counts():
    # Jacquard has the best text, 0.8, and Paris the next two, 0.7 and 0.7: 0.8 / e^0.8 = 0.359 and 0.7 (1 / e^1.6 + 1 / e^2.4) =
    # 0.205. Without a decay, Paris has more. One relation leads to both, and one of them is kept.
    nodes, edges = silk()
    edges[1] = ("loom", "paris", "made by")
    nodes.append(Node("s", "Another town.", type="passage"))
    index = GraphIndex.from_nodes(
        nodes,
        [*edges, ("s", "paris")],
        embedding=HashEmbedding(),
        relevance=lambda pairs: [0.8 if "Born" in text else 0.7 if "town" in text else 0.0 for _, text in pairs],
    )
    for decay, kept in ((0.8, "jacquard"), (0.0, "paris")):
        system = ThinkOnGraph2(width=1, depth=1, decay=decay)
        hits = Retriever(index, system, backfill=False).retrieve("Who?", entities=["Loom"])
        assert kept in [hit.id for hit in hits] and len({"jacquard", "paris"} & {hit.id for hit in hits}) == 1


def test_scores_of_rounds_stay_comparable_if_some_are_negative():
    # The text of the loom has 0.3, and that of Paris, in a round with a negative score, 0.1: less, and not 1 / (1 + e^-0.1) = 0.52.
    nodes, edges = silk()
    scores = {"silk": 0.3, "Born": -0.4, "town": 0.1}
    index = GraphIndex.from_nodes(
        nodes,
        edges,
        embedding=HashEmbedding(),
        relevance=lambda pairs: [next((score for word, score in scores.items() if word in text), -1.0) for _, text in pairs],
    )
    hits = Retriever(index, ThinkOnGraph2(depth=1), backfill=False).retrieve("Who?", entities=["Loom"])
    assert [(hit.id, round(hit.score, 2)) for hit in hits][:3] == [("r", 0.3), ("q", 0.1), ("p", -0.4)]


class Scripted:
    """Follows `relations`, wants more texts until one has `last` in it, keeps all topics but the first; keeps what it was asked."""

    def __init__(self, relations, last):
        self.relations, self.last, self.prompts = relations, last, []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        options = re.findall(r"^(\d+)\. (.*)$", prompt, re.MULTILINE)
        if "Texts:" in prompt:
            texts = prompt.partition("Clue so far")[0]
            return json.dumps({"sufficient": self.last in texts, "clue": f"Find {self.last}."})
        if "Relations of" in prompt:
            scores = [(int(number), self.relations.get(text, 0)) for number, text in options]
            return json.dumps({"scores": [{"number": number, "score": score} for number, score in scores if score]})
        return json.dumps({"numbers": [int(number) for number, _ in options][1:]})


def chain():
    nodes = [Node(f"n{row}", f"Text {row}.", f"Node{row}") for row in range(5)]
    return nodes, [("n0", "n1", "a"), ("n1", "n3", "b"), ("n2", "n1", "a"), ("n4", "n1", "c")]


def asked(model, entities, **settings):
    nodes, edges = chain()
    index = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(), relevance=lambda pairs: [1.0] * len(pairs))
    return Retriever(index, ThinkOnGraph2(language_model=model, **settings), backfill=False).retrieve("Which?", entities=entities)


def test_the_model_keeps_topics_and_its_clue_goes_with_the_question():
    model = Scripted({"a": 1, "b": 1}, "Node3")
    hits = asked(model, ["Node0", "Node2", "Node4"])
    # Of three entities the last two are kept; the first has its place at the end.
    assert {hit.path.nodes[0] for hit in hits[:-1]} == {"n2", "n4"} and hits[-1].id == "n0"
    relations = [prompt for prompt in model.prompts if "Relations of" in prompt]
    assert all("Question: Which? Find Node3.\n" in f"{prompt}\n" for prompt in relations)
    # Of several relations each may have the score 1.
    assert relations and all("a score from 0 to 1.\n" in prompt for prompt in relations)
    judged = [prompt for prompt in model.prompts if "Texts:" in prompt]
    assert "- Node2. Text 2.\n- Node4. Text 4.\n\nClue so far: none\n" in judged[0]
    # All texts so far, each behind the edge that led to it.
    assert "- Node2 a Node1: Node1. Text 1.\n- Node2. Text 2.\n- Node4. Text 4.\n\nClue so far: Find Node3.\n" in judged[1]
    assert len(judged) == 3 and "- Node1 b Node3: Node3. Text 3." in judged[2]


def test_calls_are_as_many_as_the_page_says():
    size, prompts = 40, []
    edges = [(f"n{a}", f"n{b}", f"r{(7 * a + b) % 4}") for a in range(size) for b in range(size) if a != b and a * (b + 1) % 3 == 0]
    nodes = [Node(f"n{row}", "", f"Node{row}") for row in range(size)]
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[1.0]] * size)

    def model(prompt):
        prompts.append(prompt)
        if "named entities" in prompt:
            return json.dumps({"entities": ["Node0", "Node3", "Node6"]})
        numbers = [int(number) for number in re.findall(r"^(\d+)\. ", prompt, re.MULTILINE)]
        scores = [{"number": number, "score": 0.5} for number in numbers]
        return json.dumps({"sufficient": False, "numbers": numbers, "scores": scores})

    for system, calls in ((ThinkOnGraph, 39), (ThinkOnGraph2, 14)):
        prompts.clear()
        Retriever(index, system(language_model=model), backfill=False).retrieve("Which?", vector=[1.0])
        assert len(prompts) == calls


def test_all_topics_start_if_the_model_names_none_of_them():
    def model(prompt):
        return json.dumps({"numbers": [0, 4]}) if "Entities:" in prompt else Scripted({"a": 1, "c": 1}, "Text 9")(prompt)

    hits = asked(model, ["Node0", "Node2", "Node4"], depth=1)
    assert {hit.id for hit in hits} == {"n0", "n1", "n2", "n4"} and not hits.notes


def test_the_model_reads_the_first_500_characters_of_a_text():
    nodes = [Node("a", "".join(f"{number:04}" for number in range(300)), "A"), Node("b", "", "B")]
    index = GraphIndex.from_nodes(nodes, [("a", "b", "x")], embedding=HashEmbedding(), relevance=lambda pairs: [1.0] * len(pairs))
    model = Scripted({"x": 1}, "0299")
    Retriever(index, ThinkOnGraph2(language_model=model), backfill=False).retrieve("Which?", entities=["A"])
    assert f"- {f'A. {nodes[0].text}'[:500]}\n\nClue so far: none" in model.prompts[0]


def test_texts_are_no_topics():
    nodes, edges = silk()
    nodes.append(Node("s", "On the loom of Paris.", "Loom", type="passage"))
    index = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(), relevance=relevance)
    hits = Retriever(index, ThinkOnGraph2(), backfill=False).retrieve("Who?", entities=["Loom"])
    assert hits and {hit.path.nodes[0] for hit in hits} == {"loom"}


def test_of_two_topics_none_is_left_out():
    model = Scripted({"a": 1}, "Text 9")
    assert {hit.id for hit in asked(model, ["Node0", "Node2"], depth=1)} == {"n0", "n1", "n2"}
    assert not any("Entities:" in prompt for prompt in model.prompts)


def test_nothing_is_walked_if_the_texts_of_the_topics_suffice():
    model = Scripted({"a": 1}, "Text 0")
    assert [hit.id for hit in asked(model, ["Node0"])] == ["n0"]
    assert [("Texts:" in prompt) for prompt in model.prompts] == [True]


def test_after_the_last_round_the_model_is_not_asked():
    model = Scripted({"a": 1, "b": 1}, "Text 9")
    asked(model, ["Node0"], depth=2)
    assert ["Texts:" in prompt for prompt in model.prompts] == [True, False, True, False]


def test_where_no_relation_leads_on_the_model_is_not_asked_again():
    model = Scripted({"a": 1, "b": 1}, "Text 9")
    asked(model, ["Node0"], depth=5)
    # Node3 leads only back; the third judgement is the last call.
    assert ["Texts:" in prompt for prompt in model.prompts] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ({"a (from it)": 0.2, "b": 0.19}, {"n0", "n2"}),
        ({"b": 0.9}, {"n3"}),
        # If all are below 0.2, the best are followed; if none is named, all are alike.
        ({"b": 0.19, "c (from it)": 0.1}, {"n3"}),
        ({}, {"n0", "n2", "n3", "n4"}),
    ],
)
def test_relations_without_a_score_of_a_fifth_are_not_followed(scores, found):
    hits = asked(Scripted(scores, "Text 9"), ["Node1"], depth=1, width=4)
    assert {hit.id for hit in hits} == found | {"n1"}


def failing(part):
    """A model that gives no JSON where a prompt has `part` in it, and otherwise follows all."""

    def model(prompt):
        return "no JSON" if part in prompt else Scripted({"a": 1, "b": 1, "c": 1}, "Text 9")(prompt)

    return model


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("Entities:", "the search started at all entities"),
        ("Texts:", "the search went on"),
        ("Relations of", "the relevance model scored instead"),
    ],
)
def test_where_the_model_fails_the_search_goes_on_with_a_note(part, instead):
    hits = asked(failing(part), ["Node0", "Node2", "Node4"], depth=2)
    assert len(hits.notes) == 1 and instead in hits.notes[0]
    assert {"n1", "n3"} <= {hit.id for hit in hits}
    if part == "Entities:":
        assert "n0" in {hit.path.nodes[0] for hit in hits if len(hit.path.nodes) > 1} | {hit.id for hit in hits[:3]}


def test_a_model_that_fails_leaves_the_choice_to_the_relevance_model_and_wrong_numbers_are_refused():
    nodes = [Node("a", "", "A"), Node("b", "", "B")]
    index = GraphIndex.from_nodes(nodes, [("a", "b", "x")], embedding=HashEmbedding(), relevance=lambda pairs: [1.0] * len(pairs))
    for model in (lambda prompt: "no JSON", None):
        hits = Retriever(index, ThinkOnGraph2(language_model=model), backfill=False).retrieve("Which?", entities=["A"])
        assert [hit.id for hit in hits] == ["a", "b"] and len(hits.notes) == (model is not None)
    with pytest.raises(InvalidArgumentError, match="decay must be a number of at least 0"):
        ThinkOnGraph2(decay=-1)


def test_a_batch_is_its_questions_one_by_one():
    nodes, _, rows, _ = graph(random.Random(5))
    index = GraphIndex.from_nodes(nodes, [(f"n{a}", f"n{b}", name) for a, name, b in rows], embedding=HashEmbedding())
    retriever, questions = Retriever(index, ThinkOnGraph2()), ["What of Node0?", "And Node2?"]
    batch = [[(hit.id, round(hit.score, 5)) for hit in hits] for hits in retriever.retrieve_batch(questions)]
    assert batch == [[(hit.id, round(hit.score, 5)) for hit in retriever.retrieve(question)] for question in questions]
