"""Think-on-Graph against its beam search written out, with fake models."""

import json
import random
import re
import zlib

import pytest

from graph_retrievers import GraphIndex, Node, Retriever, ThinkOnGraph
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.systems.spreading.linking import EntityLinking
from tests.helpers import HashEmbedding
from tests.references.think_on_graph import search

RELATIONS = ["made by", "born in", ""]


def value(*texts):
    """A number from 0 to 1 that texts determine, with many ties and zeros."""
    return zlib.crc32(" ".join(texts).encode()) % 5 / 4


def relation_text(name, outgoing):
    return (name or "is linked to") + ("" if outgoing else " (from it)")


def normal(scores):
    return scores if any(scores) else [1 / max(len(scores), 1)] * len(scores)


class Model:
    """Scores the options of a prompt by their texts, and says after some facts that they suffice."""

    def __init__(self, enough=99):
        self.enough, self.prompts = enough, []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        if "Facts:" in prompt:
            return json.dumps({"sufficient": len(re.findall(r"^- ", prompt, re.MULTILINE)) >= self.enough})
        head = re.search(r"^(Relations of .*|Entities that .*):$", prompt, re.MULTILINE)[1]
        options = re.findall(r"^(\d+)\. (.*)$", prompt, re.MULTILINE)
        scores = [{"number": int(number), "score": value(head, text)} for number, text in options]
        # Numbers that were not shown, and scores that are none.
        return json.dumps({"scores": [*scores, {"number": len(options) + 1, "score": 1}, {"number": 1, "score": 1.1}]})


def graph(rng):
    size = rng.randrange(2, 9)
    rows = [(rng.randrange(size), rng.choice(RELATIONS), rng.randrange(size)) for _ in range(rng.randrange(4 * size))]
    nodes = [Node(f"n{row}", f"Text {row}", f"Node{row}") for row in range(size)]
    topics = sorted(rng.sample(range(size), rng.randrange(1, min(size, 3) + 1)))
    return nodes, rows, topics


def asked(index, topics, beam):
    retriever = Retriever(index, Pipeline(EntityLinking(), beam), k=99, backfill=False)
    return retriever.retrieve("Which?", entities=[f"Node{topic}" for topic in topics])


def compare(hits, expected):
    assert [tuple(int(node[1:]) for node in hit.path.nodes) for hit in hits] == [path for _, path in expected]
    told = [score for score, _ in expected if score is not None]
    assert [hit.score for hit in hits[: len(told)]] == pytest.approx(told, abs=1e-6)


def by_language_model(seed, cases):
    rng = random.Random(seed)
    for _ in range(cases):
        nodes, rows, topics = graph(rng)
        index = GraphIndex.from_nodes(nodes, [(f"n{a}", f"n{b}", name) for a, name, b in rows], vectors=[[1.0]] * len(nodes))
        width, depth, enough = rng.randrange(1, 4), rng.randrange(1, 4), rng.randrange(1, 6)

        def relation_scores(entity, options):
            return normal([value(f"Relations of Node{entity}", relation_text(*option)) for option in options])

        def entity_scores(entity, relation, far):
            if len(far) == 1:
                return [1.0]
            head = f"Entities that Node{entity} leads to by {relation_text(*relation)}"
            return normal([value(head, f"Node{node}") for node in far])

        def suffices(facts, enough=enough):
            return len(facts) >= enough

        expected = search(topics, rows, relation_scores, entity_scores, suffices, width, depth)
        compare(asked(index, topics, ThinkOnGraph(language_model=Model(enough), width=width, depth=depth).operator()), expected)


def by_relevance(seed, cases):
    rng = random.Random(seed)
    for _ in range(cases):
        nodes, rows, topics = graph(rng)
        edges = [(f"n{a}", f"n{b}", name) for a, name, b in rows]

        def relevance(pairs):
            # Scores of a model may be negative.
            return [value(text) - 0.5 for _, text in pairs]

        index = GraphIndex.from_nodes(nodes, edges, vectors=[[1.0]] * len(nodes), relevance=relevance)
        width, depth = rng.randrange(1, 4), rng.randrange(1, 4)

        def relation_scores(entity, options):
            return [value(f"Node{entity} {name}") - 0.5 for name, _ in options]

        def entity_scores(entity, relation, far):
            name, outgoing = relation
            pairs = [(f"Node{entity}", f"Node{node}")[:: 1 if outgoing else -1] for node in far]
            return [value(f"{one} {name or 'is linked to'} {other}") - 0.5 for one, other in pairs]

        expected = search(topics, rows, relation_scores, entity_scores, lambda facts: False, width, depth, product=False)
        compare(asked(index, topics, ThinkOnGraph(width=width, depth=depth).operator()), expected)


@pytest.mark.parametrize("check", [by_language_model, by_relevance])
def test_beams_as_written_out(check):
    check(0, 60)


@pytest.mark.slow
@pytest.mark.parametrize("check", [by_language_model, by_relevance])
def test_beams_as_written_out_in_a_thousand_graphs(check):
    check(1, 1000)


def library(**options):
    nodes = [Node(name.lower(), f"Text of {name}.", name) for name in ("Loom", "Jacquard", "Paris", "Lyon", "Silk")]
    edges = [("loom", "jacquard", "made by"), ("loom", "paris", "shown in"), ("jacquard", "lyon", "born in")]
    return GraphIndex.from_nodes([*nodes], [*edges, ("lyon", "silk", "trades")], embedding=HashEmbedding(), **options)


def scripted(prompt):
    """Of the loom 0.75 for its maker; of him only the place of birth; then it is enough."""
    if "Facts:" in prompt:
        return json.dumps({"sufficient": "Jacquard born in Lyon" in prompt})
    if "entities" in prompt:
        return json.dumps({"entities": ["Loom"]})
    listed = dict(re.findall(r"^(\d+)\. (.*)$", prompt, re.MULTILINE))
    chosen = {"made by": 0.75, "shown in": 0.25, "born in": 0.5}
    return json.dumps({"scores": [{"number": int(n), "score": chosen.get(text, 0)} for n, text in listed.items()]})


def test_worked_example():
    question = "Where was the maker of the loom born?"
    hits = Retriever(library(), ThinkOnGraph(language_model=scripted, width=2), backfill=False).retrieve(question)
    assert [(hit.path.text, round(hit.score, 2)) for hit in hits] == [
        ("Loom -[made by]-> Jacquard", 0.75),
        # The only relation that does not lead back; silk is not reached, as the facts suffice.
        ("Loom -[made by]-> Jacquard -[born in]-> Lyon", 0.5),
        ("Loom -[shown in]-> Paris", 0.25),
        ("Loom", 0.25),
    ]
    assert not hits.notes


def test_relations_without_a_score_are_not_followed_and_the_last_round_is_not_judged():
    nodes = [Node(name, "", name.upper()) for name in "abcdef"]
    edges = [("a", "b", "x"), ("a", "c", "x"), ("a", "d", "y"), ("a", "e", "y"), ("b", "f", "x")]
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[1.0]] * 6)
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        if "Facts:" in prompt:
            return json.dumps({"sufficient": False})
        if "Relations of A" in prompt:
            return json.dumps({"scores": [{"number": 1, "score": 1}]})
        return json.dumps({"scores": [{"number": 1, "score": 0.6}, {"number": 2, "score": 0.4}]})

    system = ThinkOnGraph(language_model=model, depth=2)
    hits = Retriever(index, system, backfill=False).retrieve("?", vector=[1.0], entities=["A"])
    # Nobody is asked which of D and E help, as their relation has no score.
    assert not any("leads to by y" in prompt for prompt in prompts) and sum("leads to by x" in prompt for prompt in prompts) == 1
    assert all("the scores sum to 1" in prompt for prompt in prompts if "Facts:" not in prompt)
    assert sum("Facts:" in prompt for prompt in prompts) == 1 and "Facts:" not in prompts[-1]
    # "x" of B has the number 1 and the score 0.6; of an only entity nobody is asked.
    assert [(hit.id, round(hit.score, 2)) for hit in hits] == [("b", 0.6), ("f", 0.6), ("c", 0.4), ("a", 0.4)]


def test_a_model_that_does_not_judge_facts_lets_the_search_go_on_with_a_note():
    def model(prompt):
        return "no JSON" if "Facts:" in prompt else scripted(prompt)

    hits = Retriever(library(), ThinkOnGraph(language_model=model, width=1, depth=2), backfill=False).retrieve(
        "?", entities=["Loom"]
    )
    assert [(hit.id, round(hit.score, 2)) for hit in hits] == [("jacquard", 0.75), ("lyon", 0.5), ("loom", 0.5)]
    assert len(hits.notes) == 1 and "the search went on" in hits.notes[0]


def test_a_model_that_fails_leaves_the_scores_to_the_relevance_model():
    index = library(relevance=lambda pairs: [float("born in" in text or "made by" in text) for _, text in pairs])
    for model, note in (((lambda prompt: "no JSON"), "No answer of the language model"), (None, None)):
        system = ThinkOnGraph(language_model=model, width=1, depth=2)
        hits = Retriever(index, system, backfill=False).retrieve("Where was the maker of the loom born?", entities=["Loom"])
        assert [hit.id for hit in hits] == ["jacquard", "lyon", "loom"]
        assert not hits.notes if note is None else all(note in told for told in hits.notes)
    # Entity linking asks the model too; why it failed is told once.
    retriever = Retriever(index, ThinkOnGraph(language_model=lambda prompt: "no JSON", width=1), backfill=False)
    hits = retriever.retrieve("Where was the maker of the Loom born?")
    assert [hit.id for hit in hits][0] == "jacquard" and sum("No answer of" in told for told in hits.notes) == 1


def test_a_model_that_fails_leaves_the_seeds_where_nothing_else_scores():
    index = GraphIndex.from_texts(["a loom", "a card"], titles=["Loom", "Card"], edges=[("0", "1", "reads")])
    retriever = Retriever(index, ThinkOnGraph(language_model=lambda prompt: "no JSON"), backfill=False)
    hits = retriever.retrieve("What does it read?", entities=["Loom"])
    assert [hit.title for hit in hits] == ["Loom"]
    assert [note.endswith("; nothing else scores relations, and none was followed") for note in hits.notes] == [True]


def test_vectors_without_their_model_follow_all_relations_by_cosine():
    nodes = [Node(name, "", name.upper()) for name in "abcd"]
    edges = [("a", "b", "x"), ("a", "c", "y"), ("a", "d", "z")]
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[1, 0], [0, 1], [0.6, 0.8], [1, 0]])
    hits = Retriever(index, ThinkOnGraph(width=2, depth=1), backfill=False).retrieve("?", vector=[1, 0], entities=["A"])
    assert [(hit.id, round(hit.score, 2)) for hit in hits] == [("d", 1.0), ("c", 0.6), ("a", 0.6)]


def test_of_many_entities_the_most_similar_are_scored():
    nodes = [Node("a", "", "A"), *(Node(f"n{row}", "", f"N{row}") for row in range(9))]
    edges = [("a", f"n{row}", "x") for row in range(9)]
    index = GraphIndex.from_nodes(nodes, edges, vectors=[[1, 0], *([0.1 * row, 1] for row in range(9))], metric="dot")
    model = Model()
    system = ThinkOnGraph(language_model=model, candidates=3, depth=1)
    hits = Retriever(index, system).retrieve("?", vector=[1, 0], entities=["A"])
    assert hits.notes == ("think-on-graph: of the entities of a relation, only the 3 most similar to the question were scored",)
    shown = next(prompt for prompt in model.prompts if "Entities that" in prompt)
    assert re.findall(r"^\d+\. (.*)$", shown, re.MULTILINE) == ["N6", "N7", "N8"]
    # Without vectors the first ones are.
    index = GraphIndex.from_nodes(nodes, edges)
    hits = Retriever(index, system).retrieve("?", entities=["A"])
    assert hits.notes == ("think-on-graph: of the entities of a relation, only the first 3 were scored",)
    # As many as may be scored are all.
    system = ThinkOnGraph(language_model=model, candidates=9, depth=1)
    assert not Retriever(index, system).retrieve("?", entities=["A"]).notes


def test_a_batch_is_its_questions_one_by_one():
    retriever = Retriever(library(), ThinkOnGraph(language_model=scripted))
    questions = ["Where was the maker of the Loom born?", "What does Lyon trade?"]
    batch = [[(hit.id, hit.score) for hit in hits] for hits in retriever.retrieve_batch(questions)]
    assert batch == [[(hit.id, hit.score) for hit in retriever.retrieve(question)] for question in questions]
