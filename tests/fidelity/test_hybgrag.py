"""HybGRAG against its retrievers and rounds written out, with a fake router, validator and commenter."""

import json
import random

import pytest

from graph_retrievers import GraphIndex, HybGRAG, Node, Retriever
from graph_retrievers.systems.hybgrag import _FEEDBACK
from tests.references.hybgrag import retrieve

COSINES = [(1.0, 0.0), (0.8, 0.6), (0.6, 0.8), (0.0, 1.0)]
RELATIONS = ["wrote", "cites"]


def index_of(rows, vectors, **options):
    nodes = [Node(f"n{row}", f"Text {row}", f"N{row}") for row in range(len(vectors))]
    edges = [(f"n{a}", f"n{b}", name) for a, name, b in rows]
    return GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine", bm25=False, **options)


class Model:
    """Answers the prompts of router, validator and commenter, each in turn; a verdict is that of the round."""

    def __init__(self, routes, verdicts, errors=()):
        self.routes, self.verdicts, self.errors, self.prompts = list(routes), list(verdicts), list(errors), []
        self.rounds = 0

    def __call__(self, prompt):
        self.prompts.append(prompt)
        kind = kind_of(prompt)
        if kind == "router":
            self.rounds += 1
            answer = self.routes.pop(0)
        elif kind == "validator":
            answer = self.verdicts[self.rounds - 1]
            answer = {"correct": answer} if isinstance(answer, bool) else answer
        else:
            answer = self.errors.pop(0) if self.errors else {"error": "incorrect search"}
        return answer if isinstance(answer, str) else json.dumps(answer)

    def asked(self, kind):
        return [prompt for prompt in self.prompts if kind_of(prompt) == kind]


def kind_of(prompt):
    return "commenter" if '"error"' in prompt else "validator" if '"correct"' in prompt else "router"


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
        model = Model([route([(f"N{node}", relations) for node, relations in each]) for each in asked], correct)
        system = HybGRAG(language_model=model, iterations=rounds)
        hits = Retriever(index_of(rows, vectors), system, k=count, backfill=False).retrieve("?", vector=[1.0, 0.0])
        routes = [[([node], relations) for node, relations in each] or None for each in asked]
        expected, made = retrieve(rows, routes, correct, [vector[0] for vector in vectors], count)
        assert [hit.id for hit in hits] == [f"n{node}" for node in expected]
        assert [hit.score for hit in hits] == pytest.approx([vectors[node][0] for node in expected], abs=1e-6)
        assert model.rounds == made and len(model.asked("commenter")) == made - 1


def test_rounds_as_written_out():
    check(0, 40)


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
    # First the texts; told that no entity was extracted, what both wrote; told that a relation is wrong, what that cites.
    model = Model(
        [route([]), route([("N0", ["wrote"]), ("N1", ["wrote"])]), route([("N0", ["wrote", "cites"])])],
        [False, False, True],
        [{"error": "no entity"}, {"error": "incorrect entity or relation", "name": "wrote"}],
    )
    hits = found(model)
    assert [(hit.path.text, round(hit.score, 2)) for hit in hits] == [("N0 -[wrote]-> N3 -[cites]-> N4", 1.0)] and not hits.notes
    first, second, third = model.asked("router")
    assert "Relations: cites, wrote" in first and "You chose before" not in first
    assert "- text: No entity was extracted; extract at least one, with its relations." in second
    assert third.index("- text: No entity") < third.index("- N0: wrote; N1: wrote: wrote is wrong; leave it out, or replace it.")
    # The validator reads what was found, and by which ways from the entities.
    texts, common, cited = model.asked("validator")
    assert "- N4" in texts and "this text" not in texts
    shown = common.partition("Texts:\n")[2].partition("\n\nQuestion")[0]
    assert shown == f"- {library().graph.content(3)}\n  N0 -> wrote -> this text\n  N1 -> wrote -> this text"
    assert "  N0 -> wrote -> cites -> this text" in cited
    # The commenter reads the choice, and how much was found.
    assert "Searched by: text\nFound: 5 in all" in model.asked("commenter")[0]
    assert "Searched by: N0: wrote; N1: wrote\nFound: 2 from N0; 1 from N1; 1 in all" in model.asked("commenter")[1]


def test_the_first_answer_that_the_validator_accepts_is_the_result_and_the_last_is_not_validated():
    model = Model([route([("N0", ["wrote"])])], [True])
    assert [hit.id for hit in found(model)] == ["n2", "n3"] and len(model.prompts) == 2
    model = Model([route([("N0", ["wrote"])])] * 4, [False] * 4)
    assert [hit.id for hit in found(model)] == ["n2", "n3"]
    # At most 14 calls in the paper, which asks the router twice in each of four rounds.
    assert [len(model.asked(kind)) for kind in ("router", "validator", "commenter")] == [4, 3, 3]


def test_the_router_may_choose_texts_although_there_are_entities_and_the_validator_reads_the_first():
    model = Model([{**route([("N0", ["wrote"])]), "search": "text"}], [True])
    assert [hit.id for hit in found(model, judged=2)] == ["n4", "n2", "n3", "n0", "n1"]
    (prompt,) = model.asked("validator")
    assert [row for row in range(5) if f"- {library().graph.content(row)}" in prompt] == [2, 4]


def test_every_error_has_its_feedback():
    for error in ("missing entity", "no intersection", "incorrect intersection", "incorrect search"):
        model = Model([route([("N0", ["wrote"])])] * 2, [False] * 2, [{"error": error}])
        found(model, iterations=2)
        assert f"- N0: wrote: {_FEEDBACK[error]}" in model.prompts[-1]
    model = Model([route([("N0", ["wrote"])])] * 2, [False] * 2, [{"error": "incorrect entity or relation"}])
    found(model, iterations=2)
    assert "- N0: wrote: An entity or relation is wrong" in model.prompts[-1]


def test_what_is_reached_from_no_or_not_from_all_entities_is_rejected_and_at_last_texts_are_searched():
    for entities in ([("N4", ["wrote"])], [("N0", ["cites"]), ("N1", ["wrote"])]):
        model = Model([route(entities)] * 2, [True] * 2, [{"error": "no intersection"}])
        hits = found(model, iterations=2)
        assert [hit.id for hit in hits] == ["n4", "n2", "n3", "n0", "n1"] and not model.asked("validator")
        assert "No text is reached from all entities" in model.prompts[-1]
        asked = "; ".join(f"{name}: {relations[0]}" for name, relations in entities)
        assert hits.notes == (f"hybgrag: nothing is reached by {asked}; texts were searched",)


def test_unknown_names_unknown_relations_and_too_many_of_them():
    # An entity that no node is named after is the node nearest to its name; the case of names does not matter.
    vectors = {"nobody": [0.0, 1.0], "no text": [0.8, 0.6]}
    index = library(embedding=lambda texts: [vectors.get(text, [1.0, 0.0]) for text in texts])
    for name, expected in (("nobody", ["n2", "n3"]), ("no text", ["n0"]), ("n0", ["n2", "n3"]), ("N1", ["n3"])):
        system = HybGRAG(language_model=Model([route([(name, ["WROTE"])])], [True]))
        assert [hit.id for hit in Retriever(index, system, backfill=False).retrieve("What?", vector=[1.0, 0.0])] == expected
    # Nor does that of relations.
    named = index_of([(0, "Wrote", 1), (0, "Cites", 2)], [(1.0, 0.0)] * 3)
    system = HybGRAG(language_model=Model([route([("N0", ["wrote"])])], [True]))
    assert [hit.id for hit in Retriever(named, system, backfill=False).retrieve("?", vector=[1.0, 0.0])] == ["n1"]
    # Two relations are followed, and ten entities read.
    assert [hit.id for hit in found(Model([route([("N0", ["wrote", "cites", "cites"])])], [True]))] == ["n4"]
    assert [hit.id for hit in found(Model([route([("N0", ["wrote"])] * 10 + [("N1", ["wrote"])])], [True]))] == ["n2", "n3"]
    # Both ways from one entity count: nothing is reached by both.
    hits = found(Model([route([("N0", ["wrote"]), ("N0", ["wrote", "cites"])])], [True]), iterations=1)
    assert hits.notes == ("hybgrag: nothing is reached by N0: wrote; N0: wrote, cites; texts were searched",)


def test_prompts_and_notes_tell_what_is_read_of_a_long_route():
    model = Model([route([(f"N{9 + row}", ["r1", "r2", "r3"]) for row in range(2000)])] * 2, [], [{"error": "no intersection"}])
    hits = found(model, iterations=2)
    for prompt in (*model.asked("commenter"), model.asked("router")[1]):
        assert "N9: r1, r2; N10" in prompt and "N18: r1, r2" in prompt and "N19" not in prompt and "r3" not in prompt
    assert len(hits.notes) == 1 and "nothing is reached by N9: r1, r2; N10" in hits.notes[0]
    (note,) = found(Model([route([("n" * 5000, ["wrote"])])], []), iterations=1).notes
    assert note == f"hybgrag: nothing is reached by {'n' * 200}; texts were searched"


def test_of_equally_similar_nodes_the_lower_comes_first_and_relations_without_a_name_are_not_shown():
    # The walk from node 0 meets node 4, over 1, before node 3, over 2.
    index = index_of([(0, "a", 1), (0, "a", 2), (1, "b", 4), (2, "b", 3), (3, "", 4)], [(0.0, 1.0)] * 3 + [(1.0, 0.0)] * 2)
    model = Model([route([("N0", ["a", "b"])])], [True])
    hits = Retriever(index, HybGRAG(language_model=model), backfill=False).retrieve("?", vector=[1.0, 0.0])
    assert [hit.id for hit in hits] == ["n3", "n4"] and "Relations: a, b\n" in model.prompts[0]


def test_prompts_have_a_hundred_relations_and_500_characters_of_a_text():
    text = "".join(f"{number:04}" for number in range(300))
    edges = [("b", "b", f"r{number:03}") for number in range(120)]
    index = GraphIndex.from_nodes([Node("a", text, "A"), Node("b", "", "B")], edges, vectors=[[1.0, 0.0], [0.0, 1.0]])
    model = Model([route([])], [True])
    Retriever(index, HybGRAG(language_model=model)).retrieve("?", vector=[1.0, 0.0])
    assert "r099\n" in model.asked("router")[0] and "r100" not in model.asked("router")[0]
    assert f"- {f'A. {text}'[:500]}\n" in model.asked("validator")[0]


@pytest.mark.parametrize(
    ("model", "note", "expected"),
    [
        (None, "hybgrag: there is no language model; texts were searched", ["n4", "n2", "n3", "n0", "n1"]),
        (Model(["no JSON"] * 3, []), "texts were searched", ["n4", "n2", "n3", "n0", "n1"]),
        # Of the second round.
        (Model([route([("N1", [])]), *["no JSON"] * 3], [False]), "the last result stays", ["n3"]),
        (Model([route([("N4", ["wrote"])]), *["no JSON"] * 3], [False]), "texts were searched", ["n4", "n2", "n3", "n0", "n1"]),
        (Model([route([("N1", [])])], ["no JSON"]), "the result was not validated", ["n3"]),
        (Model([route([("N1", [])])], [False], ["no JSON"] * 3), "the last result stays", ["n3"]),
        (Model([route([("N4", ["wrote"])])], [], ["no JSON"] * 3), "texts were searched", ["n4", "n2", "n3", "n0", "n1"]),
        (Model([route([("N1", [])])], [False], [{"error": "unknown"}] * 3), "the last result stays", ["n3"]),
    ],
)
def test_a_model_that_fails_leaves_what_was_found(model, note, expected):
    hits = found(model)
    assert [hit.id for hit in hits] == expected
    assert len(hits.notes) == 1 and hits.notes[0].endswith(note)


def test_filters_hold_for_entities_ways_and_results():
    model = Model([route([("N0", ["wrote"])])] * 9, [True] * 9)
    retriever, query = Retriever(library(), HybGRAG(language_model=model), backfill=False), {"query": "?", "vector": [1.0, 0.0]}
    assert [hit.id for hit in retriever.retrieve(**query, seed_filter={}, filter={"$id": "n3"})] == ["n3"]
    # What is hidden is not read either.
    assert "Text 3" in model.prompts[-1] and "Text 2" not in model.prompts[-1]
    assert [hit.id for hit in retriever.retrieve(**query, traversal_filter={"$id": "n2"})] == ["n2"]
    # The entity may not start a walk, and there is no model that embeds its name.
    retriever = Retriever(library(), HybGRAG(language_model=model, iterations=1), backfill=False)
    hits = retriever.retrieve(**query, seed_filter={"$id": "n1"})
    assert hits.notes == ("hybgrag: nothing is reached by N0: wrote; texts were searched",)


def test_texts_are_searched_among_those_that_pass_the_filter():
    retriever = Retriever(library(), HybGRAG(language_model=Model([route([])], [{"correct": True}])), backfill=False)
    assert [hit.id for hit in retriever.retrieve("Which?", 1, vector=[1.0, 0.0], filter={"$id": "n3"})] == ["n3"]


def test_a_batch_is_its_questions_one_by_one():
    def model(prompt):
        if kind_of(prompt) != "router":
            return json.dumps({"correct": True})
        return json.dumps(route([("N0", ["wrote"])] if "both" in prompt else []))

    retriever, vectors = Retriever(library(), HybGRAG(language_model=model)), [[1.0, 0.0], [0.0, 1.0]]
    questions = ["What did both write?", "What is it?"]
    batch = [[(hit.id, hit.score) for hit in hits] for hits in retriever.retrieve_batch(questions, vectors=vectors)]
    assert batch == [
        [(hit.id, hit.score) for hit in retriever.retrieve(question, vector=vector)]
        for question, vector in zip(questions, vectors, strict=True)
    ]
