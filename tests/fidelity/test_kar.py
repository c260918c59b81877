"""KAR: what the language model is shown against the knowledge written out, and what is searched in the end."""

import json
import random
import re

import pytest

from graph_retrievers import KAR, GraphIndex, Node, Retriever
from tests.references.kar import knowledge

NAMES = ["alpha", "beta", "gamma", "delta"]


def vector_of(text):
    """Axes of the names in a text: few values, so that there are ties."""
    return [float(name in text) for name in NAMES] + [0.5]


class Axes:
    name = "axes"

    def embed_documents(self, texts):
        return [vector_of(text) for text in texts]

    def embed_query(self, text):
        return vector_of(text)


class Model:
    """Names entities and writes passages that a test gives; keeps the prompts."""

    def __init__(self, entities, passages):
        self.answers, self.prompts = {"entities": entities, "passages": passages}, []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        kind = "passages" if '"passages"' in prompt else "entities"
        return json.dumps({kind: self.answers[kind]})


def product(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def random_index(rng):
    size = rng.randrange(1, 10)
    texts = [" ".join(rng.choices(NAMES, k=rng.randrange(3))) for _ in range(size)]
    rows = [(rng.randrange(size), rng.randrange(size)) for _ in range(rng.randrange(4 * size))]
    relations = [rng.choice(["cites", "has", ""]) for _ in rows]
    nodes = [Node(f"n{row}", f"{text} <{row}>") for row, text in enumerate(texts)]
    edges = [(f"n{a}", f"n{b}", relation) for (a, b), relation in zip(rows, relations, strict=True)]
    return GraphIndex.from_nodes(nodes, edges, embedding=Axes(), metric="cosine"), texts, rows, relations


def shown(prompt):
    """The documents, as rows of nodes, and the triples that a prompt shows."""
    documents = [int(row) for row in re.findall(r"^\[\d+\] .*<(\d+)>$", prompt, re.MULTILINE)]
    triples = re.findall(r"^\[(\d+)\] (.+) \[(\d+)\]$", prompt, re.MULTILINE)
    return documents, [(documents[int(a) - 1], name.replace("is linked to", ""), documents[int(b) - 1]) for a, name, b in triples]


def cosine(text, other):
    one, two = vector_of(text), vector_of(other)
    return round(product(one, two) / (product(one, one) * product(two, two)) ** 0.5, 6)


def nearest(text, texts):
    """The rows of texts by their cosines with a text, of equal ones the lower first."""
    return sorted(range(len(texts)), key=lambda row: (-cosine(text, texts[row]), row))


def check(seed, cases):
    rng = random.Random(seed)
    for _ in range(cases):
        index, texts, rows, relations = random_index(rng)
        entities, passages, most = rng.sample(NAMES, rng.randrange(3)), rng.sample(NAMES, rng.randrange(1, 3)), rng.randrange(1, 4)
        question, model = f"Which {rng.choice(NAMES)}?", Model(entities, passages)
        hits = Retriever(index, KAR(language_model=model, neighbors=most), backfill=False).retrieve(question)
        documents = {text: nearest(text, texts)[0] for text in (question, *entities)}
        similarity = [cosine(question, text) for text in texts]
        expected = knowledge([question, *entities], rows, relations, documents.get, similarity, most)
        assert shown(model.prompts[1]) == expected
        searched = " ".join([question, *passages])
        by = nearest(searched, texts)[:10]
        assert [hit.id for hit in hits] == [f"n{row}" for row in by]
        assert [hit.score for hit in hits] == pytest.approx([cosine(searched, texts[row]) for row in by], abs=1e-5)


def test_knowledge_as_written_out():
    check(0, 40)


@pytest.mark.slow
def test_knowledge_as_written_out_in_a_thousand_graphs():
    check(1, 1000)


def library():
    nodes = [Node("a", "alpha"), Node("b", "beta"), Node("c", "is a letter", "gamma"), Node("d", "delta")]
    return GraphIndex.from_nodes(nodes, [("a", "b", "cites"), ("a", "d"), ("a", "a")], embedding=Axes())


def test_worked_example():
    # The question is nearest to "a", the entity gamma to "c". Of the neighbours of "a", both equally similar, the lower row stays.
    model = Model(["gamma"], ["It is the delta.", "Or beta."])
    hits = Retriever(library(), KAR(language_model=model, neighbors=1), k=2).retrieve("Which alpha?")
    told = model.prompts[1].partition("Documents:\n")[2]
    assert told.startswith("[1] alpha\n[2] gamma. is a letter\n[3] beta\n\nRelations:\n[1] cites [3]\n\nQuestion: Which alpha?")
    # Searched: "Which alpha? It is the delta. Or beta.", in which alpha, beta and delta occur.
    assert [(hit.id, round(hit.score, 2)) for hit in hits] == [("a", 1.25), ("b", 1.25)] and not hits.notes


@pytest.mark.parametrize(
    ("model", "note"),
    [
        (None, "KnowledgeAwareExpansion: there is no language model; the question itself was searched"),
        (lambda prompt: "no JSON", "KnowledgeAwareExpansion: No answer of the language model satisfied the schema"),
        (Model(["alpha"], []), "KnowledgeAwareExpansion: the language model wrote nothing; the question itself was searched"),
        (Model(["alpha"], ["  "]), "KnowledgeAwareExpansion: the language model wrote nothing; the question itself was searched"),
    ],
)
def test_without_passages_the_question_is_searched_and_a_note_says_so(model, note):
    hits = Retriever(library(), KAR(language_model=model), k=2).retrieve("Which gamma?")
    assert [hit.id for hit in hits] == [hit.id for hit in Retriever(library(), "vector", k=2).retrieve("Which gamma?")]
    assert len(hits.notes) == 1 and hits.notes[0].startswith(note)


def test_more_entities_than_asked_for_are_left_out_and_a_batch_is_its_questions_one_by_one():
    model = Model(NAMES, ["beta"])
    retriever = Retriever(library(), KAR(language_model=model, entities=1, search="hybrid"))
    questions = ["Which delta?", "Which gamma?"]
    batch = [[(hit.id, round(hit.score, 5)) for hit in hits] for hits in retriever.retrieve_batch(questions)]
    assert batch == [[(hit.id, round(hit.score, 5)) for hit in retriever.retrieve(question)] for question in questions]
    # Documents of the question and of the first entity, and the neighbours of these.
    assert "\n[1] gamma. is a letter\n[2] alpha\n[3] beta\n[4] delta\n\n" in model.prompts[-1]
