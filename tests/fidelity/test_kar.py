"""KAR against a literal reference: what the language model is shown, what is searched, and what is left without a model."""

import json
import random

import pytest

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.systems import KAR
from tests.references import kar as reference

WORDS = ["loom", "card", "mill", "valve"]
INSTEAD = "the texts of neighbours expanded the question"


def embed(texts):
    return [embedded(text) for text in texts]


def embedded(text):
    """How often each word is in a text, and a little of the last, so that no text is without a vector."""
    return [float(text.count(word)) for word in WORDS] + [0.5]


def index_of(texts, edges, bm25=False):
    return GraphIndex.from_texts(
        texts, edges=[(str(a), str(b), name) for a, b, name in edges], embedding=embed, metric="cosine", bm25=bm25
    )


def shown(prompt):
    """What a prompt for documents shows: each entity's document with (relations, document) of its neighbours."""
    blocks = prompt.partition("looks for.\n\n")[2].rpartition("\n\nQuestion: ")[0].split("\n\n")
    told = []
    for block in blocks:
        first, *others = block.split("\n")
        pairs = [tuple(part.strip() for part in line.split("Document:")) for line in others]
        told.append((first.removeprefix("Document:").strip(), pairs))
    return told


class Model:
    """Answers with given entities, and with documents made of what it is shown."""

    def __init__(self, entities, documents=None):
        self.entities, self.documents, self.prompts = entities, documents, []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        if '"entities"' in prompt:
            return json.dumps({"entities": self.entities})
        return json.dumps({"passages": self.written(prompt) if self.documents is None else self.documents})

    @staticmethod
    def written(prompt):
        return [text for _, pairs in shown(prompt) for _, text in pairs[-1:]][:3] or ["loom mill"]


def told(hits):
    return [(int(hit.id), hit.score) for hit in hits]


TEXTS = ["loom", "card card", "loom mill", "valve", "mill mill mill", "card valve"]
EDGES = [(0, 1, "reads"), (2, 1, "cuts"), (2, 3, "has"), (3, 3, "is"), (4, 2, "near")]


def test_the_worked_case():
    # The question is nearest to 0 (loom), its entity to 3 (valve). From 0: 1 by "reads", 2 by way of 1. From 3: 2, 1 and 4.
    model = Model(["valve"], ["mill mill", "mill"])
    hits = Retriever(index_of(TEXTS, EDGES), KAR(language_model=model, neighbors=2), k=6).retrieve("Which loom?")
    assert shown(model.prompts[1]) == [
        ("loom", [("-[reads]-> <-[cuts]-", "loom mill"), ("-[reads]->", "card card")]),
        ("valve", [("<-[has]-", "loom mill"), ("<-[has]- -[cuts]->", "card card")]),
    ]
    assert "Question: Which loom?" in model.prompts[0] and "write 3 different passages" in model.prompts[1]
    # Searched is (1, 0, 3, 0, 0.5): 10.25 long, squared; node 4 is (0, 0, 3, 0, 0.5).
    assert [int(hit.id) for hit in hits][:2] == [4, 2]
    assert hits[0].score == pytest.approx((9 + 0.25) / (10.25 * 9.25) ** 0.5) and hits.notes == ()
    assert hits[1].score == pytest.approx((1 + 3 + 0.25) / (10.25 * 2.25) ** 0.5)


def test_of_two_ways_to_a_neighbour_that_through_the_lower_node_is_told():
    model = Model([])
    edges = [(0, 2, "b"), (0, 1, "a"), (2, 3, "d"), (1, 3, "c"), (1, 3, "e")]
    Retriever(index_of(TEXTS[:4], edges), KAR(language_model=model)).retrieve("loom")
    assert ("-[a]-> -[c]->", "valve") in dict(shown(model.prompts[1]))["loom"]


def test_of_neighbours_that_are_equally_similar_the_lower_one_is_kept():
    # Node 1, two edges away, and node 2, beside the loom, have the same text.
    model = Model([])
    index = index_of(["loom", "card", "card", "loom mill"], [(0, 2, "a"), (2, 1, "b")])
    Retriever(index, KAR(language_model=model, neighbors=1)).retrieve("Which loom?")
    assert shown(model.prompts[1]) == [("loom", [("-[a]-> -[b]->", "card")])]


def case(seed):
    """A random graph with parallel edges, loops, isolated nodes, equal texts; entities that no text contains."""
    draw = random.Random(seed)
    size = draw.randint(1, 10)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 3))) for _ in range(size)]
    inner = draw.randint(1, size)
    edges = [(draw.randrange(inner), draw.randrange(inner), draw.choice("rst")) for _ in range(draw.randint(0, 2 * size))]
    edges += draw.choices(edges, k=2) if edges else []
    questions = list(dict.fromkeys(" ".join(["Which", *draw.choices(WORDS, k=draw.randint(0, 2))]) for _ in range(3)))
    entities = [draw.choice([*WORDS, "nobody", "loom valve"]) for _ in range(draw.randint(0, 3))]
    return texts, edges, questions, entities, {"hops": draw.choice([1, 2, 3]), "neighbors": draw.choice([1, 2, 10])}


def compare(seeds, batches=False):
    for seed in seeds:
        texts, edges, questions, entities, settings = case(seed)
        index, vectors, model = index_of(texts, edges), embed(texts), Model(entities)
        retriever = Retriever(index, KAR(language_model=model, **settings), k=20)
        # Equal edges count once in an index.
        edges = list(dict.fromkeys(edges))
        for question in questions if batches else questions[:1]:
            model.prompts.clear()
            hits = retriever.retrieve(question)
            expected = reference.triples(question, entities, vectors, edges, embedded, **settings)
            told_of = [(texts[node], [(way, texts[other]) for way, other in pairs]) for node, pairs in expected.items()]
            assert shown(model.prompts[1]) == told_of, seed
            nodes, scores = reference.search(question, list(dict.fromkeys(model.written(model.prompts[1]))), vectors, embedded)
            assert [node for node, _ in told(hits)] == nodes, seed
            assert [score for _, score in told(hits)] == pytest.approx([scores[node] for node in nodes], abs=1e-6)
        if not batches:
            continue
        alone = [told(retriever.retrieve(question)) for question in questions]
        for hits, single in zip(retriever.retrieve_batch(questions), alone, strict=True):
            assert [node for node, _ in told(hits)] == [node for node, _ in single]
            assert [score for _, score in told(hits)] == pytest.approx([score for _, score in single], abs=1e-6)
        # Without a model, the documents of the question's own node and its neighbours.
        for question in questions:
            known = reference.triples(question, [], vectors, edges, embedded, **settings)
            read = [text for node, pairs in known.items() for text in (texts[node], *(texts[other] for _, other in pairs))]
            plain = Retriever(index, KAR(**settings), k=20).retrieve(question)
            assert [node for node, _ in told(plain)] == reference.search(question, list(dict.fromkeys(read)), vectors, embedded)[0]


def test_the_triples_and_the_order_are_those_of_the_reference_on_20_random_graphs():
    compare(range(20), batches=True)


@pytest.mark.slow
def test_the_triples_and_the_order_are_those_of_the_reference_on_1000_random_graphs():
    compare(range(1000, 2000))


def test_a_bad_answer_a_failure_or_no_model_leaves_the_texts_of_neighbours():
    index = index_of(TEXTS, EDGES)
    plain = Retriever(index, KAR()).retrieve("Which loom?")
    assert plain.notes == (f"KnowledgeAwareExpansion: there is no language model; {INSTEAD}",)
    # Its own texts and those of 0, 2, 1, 3 and 4: ahead of what the question alone finds.
    assert told(plain) != told(Retriever(index, "vector").retrieve("Which loom?")) and len(plain) == 6

    def failing(prompt):
        raise RuntimeError("no quota")

    calls = []

    def babbling(prompt):
        calls.append(prompt)
        return "I do not know."

    failed, bad = (Retriever(index, KAR(language_model=model)).retrieve("Which loom?") for model in (failing, babbling))
    assert told(failed) == told(bad) == told(plain)
    assert failed.notes == (f"KnowledgeAwareExpansion: The language model failed (RuntimeError: no quota); {INSTEAD}",)
    assert bad.notes[0].endswith(INSTEAD) and len(bad.notes) == 1 and len(calls) == 3, "asked for no documents any more"
    # Blank entities are not an answer; an empty list says that the question names nothing.
    blank = Model([" ", "\n"], ["mill mill"])
    hits = Retriever(index, KAR(language_model=blank)).retrieve("Which loom?")
    assert told(hits) == told(plain) and len(blank.prompts) == 1
    assert hits.notes == (f"KnowledgeAwareExpansion: the language model wrote nothing; {INSTEAD}",)
    # Only the documents are missing: the entities are used.
    for documents, note in (
        ([" "], "the language model wrote nothing"),
        ([], "the language model wrote nothing"),
        ("none", "No answer of the language model"),
    ):
        model = Model(["valve"], documents)
        hits = Retriever(index, KAR(language_model=model, neighbors=1, hops=1)).retrieve("Which loom?")
        assert note in hits.notes[0] and hits.notes[0].endswith(INSTEAD) and len(hits.notes) == 1
        read = ["loom", "valve", "card card", "loom mill"]
        assert [node for node, _ in told(hits)] == reference.search("Which loom?", read, embed(TEXTS), embedded)[0]


def test_of_too_many_entities_and_documents_the_first_are_read_and_each_once():
    texts = [f"w{n:02}" for n in range(30)]
    vectors = {text: [float(text == other) for other in texts] for text in texts}

    def one(given):
        return [vectors.get(text, [0.1] * 30) for text in given]

    index = GraphIndex.from_texts(texts, embedding=one)
    model = Model([*texts, texts[3]], ["a", " a ", "b", "c", "d"])
    asked = []

    def recording(given):
        asked.extend(given)
        return one(given)

    index = index.with_models(embedding=recording)
    hits = Retriever(index, KAR(language_model=model, entities=9, expansions=3)).retrieve("What?")
    assert [text for text, _ in shown(model.prompts[1])] == texts[:9]
    assert "What?\na\nb\nc" in asked and not any("language model" in note for note in hits.notes)


def test_the_search_inside_may_be_any_and_filters_hold():
    index = index_of(TEXTS, EDGES, bm25=True)
    model = Model(["valve"], ["mill mill", "mill"])
    hits = Retriever(index, KAR(search="bm25", language_model=model), backfill=False).retrieve("Which loom?")
    assert [hit.id for hit in hits] == ["4", "2", "0"] and hits[0].operator == "BM25Search"
    # Neighbours that may not be walked to are not read.
    Retriever(index, KAR(language_model=model)).retrieve("Which loom?", traversal_filter={"$id": {"$in": ["0", "1"]}})
    assert shown(model.prompts[-1]) == [("loom", [("-[reads]->", "card card")]), ("valve", [])]
    Retriever(index, KAR(language_model=model)).retrieve("Which loom?", seed_filter={"$id": "4"}, filter={"$id": "5"})
    assert [text for text, _ in shown(model.prompts[-1])] == ["mill mill mill"]


def test_the_model_reads_the_first_2000_characters_of_a_document():
    texts = ["".join(f"{name}{number:03}" for number in range(900)) for name in ("loom", "card")]
    model = Model([])
    Retriever(index_of(texts, [(0, 1, "reads")]), KAR(language_model=model)).retrieve("Which loom?")
    assert shown(model.prompts[1]) == [(texts[0][:2000], [("-[reads]->", texts[1][:2000])])]


def test_notes_of_the_search_inside_come_first():
    notes = Retriever(index_of(TEXTS, EDGES), KAR(search="hyde")).retrieve("Which loom?").notes
    assert [note.partition(":")[0] for note in notes] == ["HypotheticalDocuments", "KnowledgeAwareExpansion"]


def test_without_an_embedding_model_or_a_start_the_question_itself_is_searched():
    graph = CorpusGraph(list("ab"), ["loom", "mill"], edges=[("a", "b")])
    bare = GraphIndex(graph, {"dense": DenseIndex([[1.0, 0.0], [0.0, 1.0]])})
    hits = Retriever(bare, KAR(language_model=Model([]))).retrieve("?", vector=[0.1, 1.0])
    assert [hit.id for hit in hits] == ["b", "a"]
    assert hits.notes[0].startswith("KnowledgeAwareExpansion: there is no embedding model") and len(hits.notes) == 1
    words = GraphIndex.from_texts(["loom", "mill"], edges=[("0", "1")]).with_models(embedding=embed)
    hits = Retriever(words, KAR(search="bm25", language_model=Model([])), backfill=False).retrieve("mill")
    assert [hit.id for hit in hits] == ["1"] and len(hits.notes) == 1
    index = index_of(TEXTS, EDGES)
    hits = Retriever(index, KAR()).retrieve("Which loom?", seed_filter={"$id": "nobody"})
    assert told(hits) == told(Retriever(index, "vector").retrieve("Which loom?", seed_filter={"$id": "nobody"})) and len(hits) == 6


def test_values_outside_their_ranges_are_refused():
    for name in ("entities", "hops", "neighbors", "expansions"):
        with pytest.raises(InvalidArgumentError, match=name):
            Retriever(index_of(TEXTS, EDGES), KAR(**{name: 0}))


def test_without_edges_there_is_nothing_to_expand_by_and_a_note_says_so():
    index = GraphIndex.from_texts(["a loom", "a card"], embedding=embed)
    for search in ("vector", "bm25"):
        hits = Retriever(index, KAR(search=search)).retrieve("Which loom?")
        assert any("there are no edges" in note for note in hits.notes)
