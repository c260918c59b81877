"""HybGRAG against its retrievers and rounds written out, with a fake router and critic."""

import json
import random

import pytest

from graph_retrievers import GraphIndex, HybGRAG, Node, Retriever
from tests.references.hybgrag import retrieve

COSINES = [(1.0, 0.0), (0.8, 0.6), (0.6, 0.8), (0.0, 1.0)]
RELATIONS = ["wrote", "cites"]


def index_of(rows, vectors, **options):
    nodes = [Node(f"n{row}", f"Text {row}", f"N{row}") for row in range(len(vectors))]
    edges = [(f"n{a}", f"n{b}", name) for a, name, b in rows]
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine", bm25=False, **options)


class Model:
    """Answers the router's and the critic's prompts in turn; keeps them."""

    def __init__(self, routes, verdicts):
        self.routes, self.verdicts, self.prompts = list(routes), list(verdicts), []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        answer = (self.verdicts if "Searched by:" in prompt else self.routes).pop(0)
        return answer if isinstance(answer, str) else json.dumps(answer)


def route(entities):
    listed = [{"name": name, "relations": relations} for name, relations in entities]
    return {"search": "graph", "entities": listed} if entities else {"search": "text"}


def check(seed, cases):
    rng = random.Random(seed)
    for _ in range(cases):
        size = rng.randrange(1, 10)
        rows = [(rng.randrange(size), rng.choice(RELATIONS), rng.randrange(size)) for _ in range(rng.randrange(4 * size))]
        vectors = [rng.choice(COSINES) for _ in range(size)]
        rounds, count = rng.randrange(1, 4), rng.randrange(1, 8)
        asked = list[list[tuple[int, list[str]]]]()
        for _ in range(rounds):
            entities = [rng.randrange(size) for _ in range(rng.randrange(3))]
            asked.append([(entity, rng.choices(RELATIONS, k=rng.randrange(3))) for entity in entities])
        correct = [rng.random() < 0.3 for _ in range(rounds)]
        model = Model(
            [route([(f"N{node}", relations) for node, relations in each]) for each in asked],
            [{"correct": good, "feedback": "wrong"} for good in correct],
        )
        system = HybGRAG(language_model=model, iterations=rounds)
        hits = Retriever(index_of(rows, vectors), system, k=count, backfill=False).retrieve("?", vector=[1.0, 0.0])
        routes = [[([node], relations) for node, relations in each] or None for each in asked]
        expected = retrieve(rows, routes, correct, [vector[0] for vector in vectors], count)
        assert [hit.id for hit in hits] == [f"n{node}" for node in expected]
        assert [hit.score for hit in hits] == pytest.approx([vectors[node][0] for node in expected], abs=1e-6)


def test_rounds_as_written_out():
    check(0, 60)


@pytest.mark.slow
def test_rounds_as_written_out_in_a_thousand_graphs():
    check(1, 1000)


def library(**options):
    rows = [(0, "wrote", 2), (0, "wrote", 3), (1, "wrote", 3), (3, "cites", 4)]
    return index_of(rows, [(0.0, 1.0), (0.0, 1.0), (0.8, 0.6), (0.6, 0.8), (1.0, 0.0)], **options)


def found(model, **settings):
    system = HybGRAG(language_model=model, **settings)
    return Retriever(library(), system, backfill=False).retrieve("What did both write?", vector=[1.0, 0.0])


def test_worked_example():
    # First the texts; told that it was wrong, what both wrote; told so again, what that cites.
    model = Model(
        [route([]), route([("N0", ["wrote"]), ("N1", ["wrote"])]), route([("N0", ["wrote", "cites"])])],
        [{"correct": False, "feedback": "Follow the authors."}, {"correct": False}],
    )
    hits = found(model)
    assert [(hit.path.text, round(hit.score, 2)) for hit in hits] == [("N0 -[wrote]-> N3 -[cites]-> N4", 1.0)]
    router = [prompt for prompt in model.prompts if "Searched by:" not in prompt]
    assert "Relations: cites, wrote" in router[0] and "You chose before" not in router[0]
    assert "- text: Follow the authors." in router[1]
    assert "- N0: wrote; N1: wrote: the texts do not answer the question" in router[2]
    # The critic reads what was found, by which way, and is not asked in the last round.
    critic = [prompt for prompt in model.prompts if "Searched by:" in prompt]
    assert len(critic) == 2 and "Searched by: N0: wrote; N1: wrote" in critic[1] and "- N3" in critic[1] and "- N2" not in critic[1]


def test_the_first_answer_that_the_critic_accepts_is_the_result():
    hits = found(Model([route([("N0", ["wrote"])])], [{"correct": True}]))
    assert [hit.id for hit in hits] == ["n2", "n3"]


def test_what_is_not_found_is_searched_by_texts_and_told_to_the_router():
    model = Model([route([("N4", ["wrote"])])] * 2, [{"correct": False, "feedback": "No author."}])
    assert [hit.id for hit in found(model, iterations=2)] == ["n4", "n2", "n3", "n0", "n1"]
    assert "- N4: wrote: nothing was found so. No author." in model.prompts[-1]


@pytest.mark.parametrize(
    ("model", "note", "expected"),
    [
        (None, "RoutedSearch: there is no language model; texts were searched", ["n4", "n2", "n3", "n0", "n1"]),
        (Model(["no JSON"] * 3, []), "texts were searched", ["n4", "n2", "n3", "n0", "n1"]),
        # Of the second round.
        (Model([route([("N1", [])]), *["no JSON"] * 3], [{"correct": False}]), "it ended there", ["n3"]),
        # What was found stays, without a note, where the critic fails.
        (Model([route([("N1", [])])], ["no JSON"] * 3), None, ["n3"]),
    ],
)
def test_a_model_that_fails_leaves_what_was_found(model, note, expected):
    hits = found(model)
    assert [hit.id for hit in hits] == expected
    assert not hits.notes if note is None else len(hits.notes) == 1 and hits.notes[0].endswith(note)


def test_texts_are_searched_among_those_that_pass_the_filter():
    retriever = Retriever(library(), HybGRAG(language_model=Model([route([])], [{"correct": True}])), backfill=False)
    assert [hit.id for hit in retriever.retrieve("Which?", 1, vector=[1.0, 0.0], filter={"$id": "n3"})] == ["n3"]


def test_a_batch_is_its_questions_one_by_one():
    def model(prompt):
        return json.dumps({"correct": True} if "Searched by:" in prompt else route([("N0", ["wrote"])] if "both" in prompt else []))

    retriever, vectors = Retriever(library(), HybGRAG(language_model=model)), [[1.0, 0.0], [0.0, 1.0]]
    questions = ["What did both write?", "What is it?"]
    batch = [[(hit.id, hit.score) for hit in hits] for hits in retriever.retrieve_batch(questions, vectors=vectors)]
    assert batch == [
        [(hit.id, hit.score) for hit in retriever.retrieve(question, vector=vector)]
        for question, vector in zip(questions, vectors, strict=True)
    ]
