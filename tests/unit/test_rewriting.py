"""HyDE, decomposition and IRCoT: what a language model adds, and what is left without one."""

import json
import re
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_retrievers import GraphIndex, LightRAG, Node, Pipeline, ReciprocalRankFusion, Retriever, Vector
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.operators import (
    BM25Search,
    ChainSearch,
    EntityLinking,
    FactSearch,
    GatedPropagation,
    HybridSearch,
    HypotheticalDocuments,
    InterleavedReasoning,
    Operator,
    OperatorKind,
    QueryDecomposition,
    VectorSearch,
)
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems import Decomposition, HyDE, IRCoT
from graph_retrievers.systems.walk_fusion.feedback_search import FeedbackSearch
from tests.helpers import HashEmbedding, WordOverlap, linked_edges, linked_index, linked_nodes
from tests.rankings import ranked_hits
from tests.references import rewriting as literal
from tests.retrievers import FUSED_SPREADING

QUESTIONS = ["Who wrote a program for an engine?", "Which machine broke a cipher?", "What holds data by holes?"]
KINDS = {"hyde": (HyDE, "HypotheticalDocuments"), "ircot": (IRCoT, "InterleavedReasoning")}
KINDS["decomposition"] = (Decomposition, "QueryDecomposition")
EMBED = HashEmbedding()


class Distinct:
    """Unit vectors whose dot products hold no ties, as equal up to rounding is not equal."""

    name = "distinct"

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        row = np.random.default_rng(zlib.crc32(text.encode())).normal(size=32)
        return (row / np.linalg.norm(row)).tolist()


def question_of(prompt):
    return re.search(r"^Question: (.*)$", prompt, re.MULTILINE)[1]


def thoughts_of(prompt):
    return re.search(r"^Reasoning so far: (.*)$", prompt, re.MULTILINE)[1]


def writer(prompt):
    """Passages, parts of the question or a sentence, made of the question's own words."""
    asked = question_of(prompt)
    if '"sentence"' in prompt:
        done = thoughts_of(prompt).count("It follows") >= 2
        return json.dumps(
            {"sentence": "So the answer is: none" if done else f"It follows from {asked.split()[-1]} and punched cards."}
        )
    name = "passages" if '"passages"' in prompt else "questions"
    return json.dumps({name: [f"Where is {asked.split()[-1]}", "Who worked at Bletchley Park?"]})


def refusing(prompt):
    """Fails for one of the questions, always or only once there is a sentence."""
    if question_of(prompt) == QUESTIONS[1]:
        raise RuntimeError("no quota")
    return writer(prompt)


def ids(results):
    return [[(hit.id, hit.operator, hit.kind, str(hit.path)) for hit in hits] for hits in results]


# -- what each finds ------------------------------------------------------------------------------------------


def test_hyde_searches_by_the_mean_vector_and_reads_words_of_the_question():
    index = linked_index()
    passages = json.loads(writer(f'"passages"\nQuestion: {QUESTIONS[0]}'))["passages"]
    vector = literal.hyde_vector(QUESTIONS[0], passages, EMBED.embed_query)
    for name in ("vector", "hybrid", "ppr", "walk-fusion", "fastinsight"):
        found = Retriever(index, HyDE(search=name, language_model=writer, documents=2)).retrieve(QUESTIONS[0])
        expected = Retriever(index, name).retrieve(QUESTIONS[0], vector=vector)
        assert ids([found]) == ids([expected])
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-5)
        assert ids([found]) != ids([Retriever(index, name).retrieve(QUESTIONS[0])])
    # By cosines, vectors keep the length that the index gives to queries.
    cosine = GraphIndex.from_nodes(linked_nodes(), embedding=EMBED, metric="cosine")
    hits = Retriever(cosine, HyDE(language_model=writer, documents=2)).retrieve(QUESTIONS[0])
    assert [h.score for h in hits] == pytest.approx([h.score for h in Retriever(cosine, "vector").retrieve("?", vector=vector)])
    assert max(hit.score for hit in hits) <= 1


def test_hyde_needs_a_model_that_embeds_passages():
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]])
    with pytest.raises(MissingSignalError, match="HyDE embeds the passages .*pass embedding="):
        Retriever(index, HyDE(language_model=writer, documents=2)).retrieve("Which loom?", vector=[1, 0])
    assert Retriever(index, HyDE()).retrieve("Which loom?", vector=[1, 0])[0].text == "a loom"


WORDS = ["loom", "card", "engine", "mill", "valve"]


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), min_size=1, max_size=9),
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(1, 6),
)
def test_decomposition_and_ircot_equal_their_literal_forms(texts, parts, passages, budget):
    index = GraphIndex.from_texts(texts)
    plain = Retriever(index, BM25Search(), backfill=False)

    def search(text, k=10):
        return [int(hit.id) for hit in plain.retrieve(text, k)]

    question = "loom card"
    distinct = list(dict.fromkeys(parts))
    split = Retriever(index, QueryDecomposition(BM25Search(), lambda prompt: json.dumps({"questions": parts})), backfill=False)
    hits = split.retrieve(question)
    expected, scores = literal.decomposition(question, distinct, search)
    assert [int(hit.id) for hit in hits] == expected[:10]
    assert [hit.score for hit in hits] == pytest.approx([scores[node] for node in expected[:10]])

    sentences = [*parts, "So the Answer is: 3"]
    shown = []

    def model(prompt):
        so_far = thoughts_of(prompt)
        shown.append((so_far, [row for row in range(len(texts)) if f"\n\n{index.graph.content(row)}\n" in prompt]))
        said = 0
        while " ".join(sentences[:said]) != so_far:
            said += 1
        return json.dumps({"sentence": sentences[said]})

    seen = []

    def reason(collected, before):
        seen.append((" ".join(before), {texts[row] for row in collected}))
        return sentences[len(before)]

    chained = InterleavedReasoning(BM25Search(), model, passages=passages, budget=budget, steps=3)
    hits = Retriever(index, chained, backfill=False).retrieve(question)
    expected = literal.ircot(question, reason, search, passages=passages, budget=budget, steps=3)
    assert [int(hit.id) for hit in hits] == expected
    assert [hit.score for hit in hits] == pytest.approx([1 / rank for rank in range(1, len(expected) + 1)])
    assert [(so_far, {texts[row] for row in rows}) for so_far, rows in shown] == seen


def test_a_sentence_leads_to_what_the_question_does_not_name():
    texts = ["Kismet starred Ada Holm.", "Ada Holm grew up in Lund.", "Kismet opened in May.", "A mill."]
    index = GraphIndex.from_texts(texts)

    def model(prompt):
        return json.dumps({"sentence": "The answer is: Lund" if "Ada Holm" in thoughts_of(prompt) else "It starred Ada Holm."})

    hits = Retriever(index, IRCoT(language_model=model, passages=2)).retrieve("Where did the star of Kismet grow up?", k=3)
    assert "1" in [hit.id for hit in hits] and hits.notes == ()


@pytest.mark.parametrize(("steps", "asked", "nodes"), [(2, [5, 10], 15), (1, [5], 10)])
def test_two_steps_of_five_nodes_as_in_the_comparison_of_fastinsight(steps, asked, nodes):
    # Three groups of seven nodes, each on an axis: the question finds those of the first, the sentences those of the others.
    vectors = np.repeat(np.eye(3), 7, axis=0) * np.tile(np.linspace(1, 0.4, 7), 3)[:, None]
    axes = {"first": 0, "second": 1, "third": 2}
    index = GraphIndex.from_texts(
        [f"passage {row}" for row in range(21)], vectors=vectors, embedding=lambda texts: [np.eye(3)[axes[text]] for text in texts]
    )
    shown = []

    def model(prompt):
        shown.append(prompt.count("\n\npassage ") + prompt.count(":\npassage "))
        return json.dumps({"sentence": ("second", "third")[len(shown) - 1]})

    system = IRCoT(search=Vector(), steps=steps, passages=5, language_model=model)
    hits = Retriever(index, system, k=20, backfill=False).retrieve("first")
    assert shown == asked
    expected = [row + 7 * group for group in range(steps + 1) for row in range(5)]
    assert [int(hit.id) for hit in hits] == expected and len(expected) == nodes
    assert [hit.score for hit in hits] == pytest.approx([1 / rank for rank in range(1, nodes + 1)])


def test_the_model_is_shown_as_many_passages_as_wanted_whatever_k_is():
    shown = []

    def model(prompt):
        shown.append(prompt.count("a loom "))
        return '{"sentence": "The answer is 1."}'

    index = GraphIndex.from_texts([f"a loom {number}" for number in range(9)])
    assert len(Retriever(index, IRCoT(language_model=model, passages=6)).retrieve("Which loom?", 1)) == 1 and shown == [6]


# -- without a model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("search", ["hybrid", "bm25", "vector", "ppr", "spreading", "re2"])
def test_without_a_model_the_result_is_that_of_the_search_with_one_note(name, search):
    index, (kind, operator) = linked_index(relevance=WordOverlap()), KINDS[name]
    plain = Retriever(index, search).retrieve_batch(QUESTIONS, 6)
    found = Retriever(index, kind(search=search)).retrieve_batch(QUESTIONS, 6)
    assert ids(found) == ids(plain)
    assert [[h.score for h in hits] for hits in found] == [[h.score for h in hits] for hits in plain]
    assert [hits.notes for hits in found] == [(f"{operator}: there is no language model; the question itself was searched",)] * 3
    assert Retriever(index, kind(search=search)).lacks() == ("a language model (pass language_model=)",)
    assert Retriever(index, kind(search=search, language_model=writer)).lacks() == ()
    bare = Retriever(linked_index(), kind(search="re2", language_model=writer))
    assert bare.lacks() == ("a relevance model (pass relevance=)",)


@pytest.mark.parametrize("answer", ["no JSON", '{"passages": 3, "questions": 3, "sentence": 3}', None], ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_a_model_without_an_answer_leaves_the_question(name, answer):
    index, (kind, operator) = linked_index(), KINDS[name]
    hits = Retriever(index, kind(search="hybrid", language_model=lambda prompt: answer)).retrieve(QUESTIONS[0])
    assert ids([hits]) == ids([Retriever(index, "hybrid").retrieve(QUESTIONS[0])])
    (note,) = hits.notes
    assert note.startswith(f"{operator}: ") and note.endswith("; the question itself was searched") and len(note) < 300


@pytest.mark.parametrize("name", KINDS)
def test_blank_texts_are_no_texts(name):
    index, (kind, _) = linked_index(), KINDS[name]
    blank = json.dumps({"passages": [" "], "questions": [" "], "sentence": " "})
    hits = Retriever(index, kind(search="hybrid", language_model=lambda prompt: blank)).retrieve(QUESTIONS[0])
    assert ids([hits]) == ids([Retriever(index, "hybrid").retrieve(QUESTIONS[0])])
    (note,) = hits.notes
    assert note.endswith("the language model wrote nothing; the question itself was searched")
    none = Retriever(
        index, kind(search="hybrid", language_model=lambda prompt: '{"passages": [], "questions": [], "sentence": " "}')
    )
    assert none.retrieve(QUESTIONS[0]).notes == (() if name == "decomposition" else (note,))


@pytest.mark.parametrize(("name", "option"), [("hyde", "documents"), ("decomposition", "questions")])
def test_of_too_many_texts_the_first_are_taken(name, option):
    index, (kind, _), asked = linked_index(), KINDS[name], []

    def model(texts):
        return lambda prompt: asked.append(prompt) or json.dumps({"passages": texts, "questions": texts})

    texts = ["a loom", "a loom", "punched cards", "a cipher"]
    many = Retriever(index, kind(search="hybrid", language_model=model(texts), **{option: 2})).retrieve(QUESTIONS[0])
    assert len(asked) == 1 and many.notes == ()
    two = Retriever(index, kind(search="hybrid", language_model=model(["a loom", "punched cards"]), **{option: 2}))
    assert many == two.retrieve(QUESTIONS[0])


@pytest.mark.parametrize("name", KINDS)
def test_one_question_that_fails_in_a_batch_moves_no_other(name):
    index, (kind, _) = linked_index(), KINDS[name]
    options = {"search": "hybrid", **({"documents": 2} if name == "hyde" else {})}
    some = Retriever(index, kind(language_model=refusing, **options)).retrieve_batch(QUESTIONS)
    every = Retriever(index, kind(language_model=writer, **options)).retrieve_batch(QUESTIONS)
    plain = Retriever(index, "hybrid").retrieve_batch(QUESTIONS)
    assert ids(some) == [ids(every)[0], ids(plain)[1], ids(every)[2]]
    told = "The language model failed (RuntimeError: no quota); the question itself was searched"
    assert some[1].notes == (f"{KINDS[name][1]}: {told}",) and some[0].notes == some[2].notes == ()
    assert ids(every)[0] != ids(plain)[0]


def test_a_model_that_fails_later_keeps_what_was_found():
    index = linked_index()

    def model(prompt):
        if thoughts_of(prompt):
            raise RuntimeError("no quota")
        return writer(prompt)

    hits = Retriever(index, IRCoT(language_model=model, passages=2), backfill=False).retrieve(QUESTIONS[0])
    sentence = json.loads(writer(f'"sentence"\nQuestion: {QUESTIONS[0]}\nReasoning so far: '))["sentence"]
    plain = Retriever(index, "bm25")
    both = [hit.id for text in (QUESTIONS[0], sentence) for hit in plain.retrieve(text, 2)]
    assert [hit.id for hit in hits] == list(dict.fromkeys(both))
    assert hits.notes[0].startswith("InterleavedReasoning: ") and hits.notes[0].endswith("; the search ended there")


# -- what holds for every search -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("search", ["hybrid", "ppr", "walk-fusion", "fastinsight", FUSED_SPREADING, "mmr", "g-rag", "lesegr"])
@pytest.mark.parametrize("name", KINDS)
def test_a_batch_gives_each_question_what_it_gets_alone(name, search):
    retriever = Retriever(linked_index(Distinct()), KINDS[name][0](search=search, language_model=writer))
    together = retriever.retrieve_batch([*QUESTIONS, QUESTIONS[0]], 8)
    alone = [retriever.retrieve(question, 8) for question in QUESTIONS]
    assert ids(together) == [*ids(alone), ids(alone)[0]]
    for hits, single in zip(together, alone, strict=False):
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in single], abs=1e-5) and hits.notes == single.notes


def test_steps_of_ircot_whose_operators_do_not_begin_alike_keep_who_found_each_node():
    # The first step names an entity and spreads from it, the second names none.
    texts = ["loom card", "card", "loom", "card loom", "mill gear", "gear", "mill"]
    titles = ["Ada", "Babbage", "Lovelace", "Byron", "M1x", "M2x", "M3x"]
    edges = [("0", "1"), ("1", "2"), ("2", "3"), ("4", "5"), ("5", "6")]

    def embed(texts):
        return [[float(word in text.lower()) + 0.01 for word in ("loom", "card", "mill", "gear")] for text in texts]

    def model(prompt):
        return json.dumps({"sentence": "So the answer is: x" if thoughts_of(prompt) else "mill gear"})

    index = GraphIndex.from_texts(texts, titles=titles, edges=edges, embedding=embed)
    steps = [Retriever(index, "spreading", backfill=False).retrieve(text, 4) for text in ("Babbage loom", "mill gear")]
    expected = {hit.id: hit.operator for hit in (*steps[1], *steps[0])}
    retriever = Retriever(index, IRCoT(search="spreading", language_model=model), backfill=False)
    (together, _), alone = retriever.retrieve_batch(["Babbage loom", "gear card"], 10), retriever.retrieve("Babbage loom", 10)
    assert {hit.id: hit.operator for hit in alone} == expected and len(set(expected.values())) == 3
    assert ids([together]) == ids([alone])
    assert ids([retriever.retrieve("Babbage loom", 4)]) == ids([alone[:4]])


def test_the_trace_tells_the_searches_in_order_and_who_asked():
    search = Pipeline(BM25Search(4), VectorSearch(4))
    for name, expected in {
        "hyde": ["Completion", "MeanVector", "BM25Search", "VectorSearch"],
        "ircot": ["BM25Search", "VectorSearch", "Texts", "Completion"] * 3,
        "decomposition": ["Completion"] + ["BM25Search", "VectorSearch"] * 2,
    }.items():
        kind, own = KINDS[name]
        batch = Retriever(linked_index(), kind(search=search, language_model=writer), backfill=False).retrieve_batch(QUESTIONS[:2])
        steps = [asked.step for asked in batch[0].trace]
        assert steps == list(range(1, len(steps) + 1)), "one call a step, each after the one before"
        asked = [told.request.__name__ if told.operators == (own,) else ", ".join(told.operators) for told in batch[0].trace]
        assert asked == expected
    # What another operator asks beside such a search is a later step.
    both = ReciprocalRankFusion(InterleavedReasoning(search, None), VectorSearch(3))
    trace = Retriever(linked_index(), both, backfill=False).retrieve(QUESTIONS[0]).trace
    assert [(asked.step, *asked.operators) for asked in trace] == [(1, "BM25Search"), (2, "VectorSearch"), (3, "VectorSearch")]


@pytest.mark.parametrize("name", KINDS)
def test_filters_and_scopes_hold(name):
    index, machines = linked_index(), {"topic": "machines"}
    retriever = Retriever(index, KINDS[name][0](search="walk-fusion", language_model=writer))
    allowed = retriever.retrieve(QUESTIONS[1], filter=machines)
    assert {hit.metadata["topic"] for hit in allowed} == {"machines"}
    war = [node for node in linked_nodes() if node.metadata["topic"] == "war"]
    inside = [edge for edge in linked_edges() if edge[0] in ("turing", "bletchley")]
    part = GraphIndex.from_nodes(war, inside, embedding=EMBED)
    scoped = retriever.retrieve(QUESTIONS[1], scope={"topic": "war"})
    assert ids([scoped]) == ids(
        [Retriever(part, KINDS[name][0](search="walk-fusion", language_model=writer)).retrieve(QUESTIONS[1])]
    )


@pytest.mark.parametrize("kind", [QueryDecomposition, InterleavedReasoning])
def test_inputs_chains_and_facts_go_with_their_question(kind):
    index = GraphIndex.from_nodes(linked_nodes(), linked_edges(), embedding=EMBED, edge_signals=True)
    inner = Pipeline(FactSearch(2), EntityLinking(), GatedPropagation(gate="uniform"), ChainSearch())

    def half(prompt):
        if question_of(prompt) == "Second?":
            raise RuntimeError("no quota")
        return writer(prompt)

    retriever = Retriever(index, kind(inner, half))
    given = [["Alan Turing"], ["IBM"]]
    together = retriever.retrieve_batch(["First?", "Second?"], entities=given)
    for question, names, hits in zip(["First?", "Second?"], given, together, strict=True):
        assert hits == retriever.retrieve(question, entities=names) and hits.facts
        first = Retriever(index, inner).retrieve(question, entities=names)
        assert {hit.id for hit in first.facts} <= {hit.id for hit in hits.facts}
        assert {hit.id for hit in first.chains} <= {hit.id for hit in hits.chains}
        assert hits.nodes[0].path.nodes[0] in ("turing", "ibm")
    assert list(together[1].facts) == list(Retriever(index, inner).retrieve("Second?", entities=["IBM"]).facts)


def test_vectors_of_the_caller_stand_for_the_question_alone():
    index, vector = linked_index(), EMBED.embed_query("punched cards")
    search = QueryDecomposition(VectorSearch(3), lambda prompt: '{"questions": ["Who broke ciphers?"]}')
    found = Retriever(index, search, backfill=False).retrieve("?", vector=vector)
    by_vector = [hit.id for hit in Retriever(index, "vector").retrieve("?", 3, vector=vector)]
    by_part = [hit.id for hit in Retriever(index, "vector").retrieve("Who broke ciphers?", 3)]
    assert {hit.id for hit in found} == {*by_vector, *by_part}


def test_a_part_that_is_the_question_itself_has_its_vector_alone_and_in_a_batch():
    index, vectors = linked_index(), [EMBED.embed_query(text) for text in ("census", "punched cards")]

    def model(prompt):
        return json.dumps({"questions": [question_of(prompt)] if QUESTIONS[1] in prompt else ["Who broke ciphers?"]})

    retriever = Retriever(index, QueryDecomposition(VectorSearch(3), model), backfill=False)
    together = retriever.retrieve_batch(QUESTIONS[:2], vectors=vectors)
    assert together == [retriever.retrieve(text, vector=vector) for text, vector in zip(QUESTIONS[:2], vectors, strict=True)]
    by_vector = Retriever(index, "vector").retrieve("?", 3, vector=vectors[1])
    assert [hit.id for hit in together[1]] == [hit.id for hit in by_vector]


@pytest.mark.parametrize("name", KINDS)
def test_pairs_that_a_relevance_model_reads_are_counted(name):
    model = WordOverlap()
    index = linked_index(relevance=model)
    retriever = Retriever(index, KINDS[name][0](search="re2", language_model=writer))
    queries = Queries.of(index, QUESTIONS)
    ranked_hits(retriever, queries)
    assert queries.latents.encoded == model.pairs > 0


def test_prompts_hold_the_beginnings_of_passages():
    prompts = []
    index = GraphIndex.from_texts(["loom " + "x" * 5000])
    Retriever(index, IRCoT(language_model=lambda prompt: prompts.append(prompt) or '{"sentence": "The answer is: 1"}')).retrieve(
        "Which loom?"
    )
    assert len(prompts) == 1 and "x" * 1900 in prompts[0] and "x" * 2000 not in prompts[0]


def test_compositions_of_compositions():
    index = linked_index()
    search = QueryDecomposition(HypotheticalDocuments(HybridSearch(), writer, documents=2), writer)
    assert search.formula() == "QueryDecomposition(HypotheticalDocuments(O_vs))"
    assert InterleavedReasoning(search).formula() == f"InterleavedReasoning(({search.formula()})*)"
    assert len(Retriever(index, search).retrieve(QUESTIONS[0])) == 10
    assert InterleavedReasoning(search).lacks() == ("a language model (pass language_model=)",)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (HyDE, {"documents": 0}),
        (Decomposition, {"questions": 0}),
        (Decomposition, {"constant": 0}),
        (IRCoT, {"passages": 0}),
        (IRCoT, {"budget": 0}),
        (IRCoT, {"steps": 0}),
        (HyDE, {"language_model": 3}),
        (HyDE, {"search": "nothing"}),
    ],
)
def test_wrong_options_are_refused(kind, options):
    with pytest.raises(InvalidArgumentError):
        Retriever(linked_index(), kind(**options))


def by_word(texts):
    return [[float(word in text) + 0.01 for word in ("loom", "secret", "mill", "hub")] for text in texts]


def test_filtered_nodes_take_no_place_and_stand_in_no_prompt():
    nodes = [Node("hub", "loom hub", metadata={"t": "pub"})]
    nodes += [Node(f"s{n}", f"loom secret {n}", metadata={"t": "priv"}) for n in range(5)]
    nodes += [Node(f"o{n}", f"mill {n}", metadata={"t": "pub"}) for n in range(3)]
    index = GraphIndex.from_nodes(nodes, [("hub", node.id) for node in nodes[1:]], embedding=by_word)
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        return json.dumps({"sentence": "The answer is: 1" if thoughts_of(prompt) else "It is a loom secret."})

    search = Retriever(index, IRCoT(search="fastinsight", language_model=model, passages=4), backfill=False)
    hits = search.retrieve("loom hub?", filter={"t": "pub"}, k=4)
    assert sorted(hit.id for hit in hits) == ["hub", "o0", "o1", "o2"]
    assert len(prompts) == 2 and "mill" in prompts[0] and not any("loom secret 0" in prompt for prompt in prompts)


def test_a_node_that_a_filter_hides_keeps_its_rank_in_a_decomposition_as_in_other_fusions():
    class Fixed(Operator):
        kind = OperatorKind.GRAPH_SEARCH

        def __init__(self, given):
            self.given = given

        def search(self, question, candidates):
            yield from ()
            return Candidates.seeds(np.array(self.given[question.text]), -np.arange(3.0), self.name)

    index, given = GraphIndex.from_texts(["a", "b", "c"]), {"whole?": [0, 1, 2], "part?": [1, 0, 2]}
    split = QueryDecomposition(Fixed(given), lambda prompt: '{"questions": ["part?"]}')
    merged = ReciprocalRankFusion(Fixed(given), Fixed({"whole?": given["part?"]}))
    for search in (split, merged):
        hits = Retriever(index, search, backfill=False).retrieve("whole?", filter={"$id": {"$ne": "0"}})
        assert [(hit.id, hit.score) for hit in hits] == [("1", pytest.approx(1 / 62 + 1 / 61)), ("2", pytest.approx(2 / 63))]


@pytest.mark.parametrize("name", KINDS)
def test_types_and_facts_are_those_of_the_retriever_inside(name):
    nodes = [Node("p1", "On Ada.", type="passage"), Node("p2", "On engines.", type="passage")]
    nodes += [Node("ada", "", "Ada"), Node("engine", "", "Engine")]
    edges = [("p1", "ada", "mentions"), ("p2", "engine", "mentions"), ("ada", "engine", "wrote for")]
    embed = lambda texts: [[float("Ada" in text), float("ngine" in text), 0.1] for text in texts]  # noqa: E731
    index = GraphIndex.from_nodes(nodes, edges, embedding=embed, edge_signals=True, metric="cosine")
    kind = KINDS[name][0]
    for search in ("hipporag", "spreading"):
        plain = Retriever(index, search).retrieve("Who is Ada?")
        assert ids([Retriever(index, kind(search=search)).retrieve("Who is Ada?")]) == ids([plain])
    found = Retriever(index, kind(search="hipporag"))
    assert [hit.id for hit in found.retrieve("Who is Ada?")] == ["p1", "p2"]
    chosen = Retriever(index, kind(search="hipporag"), types=["concept"])
    assert chosen.types == chosen.over(index).types == ("concept",)
    # A scope without passages has phrases for hits, as HippoRAG has there.
    scope = {"$id": {"$in": ["ada", "engine"]}}
    assert {hit.id for hit in found.retrieve("Who is Ada?", scope=scope)} == {"ada", "engine"}
    assert Retriever(index, kind(search="g-rag")).lacks()[0] == "a trained network (pass checkpoint=)"
    light = Retriever(index, kind(search="lightrag")).retrieve("Who is Ada?", k=2)
    assert [hit.kind for hit in light] == ["node", "node"]
    assert Retriever(index, LightRAG(facts=True)).retrieve("Who is Ada?", k=2).facts


def ids_of(hits):
    return [hit.id for hit in hits]


def test_feedback_reads_the_text_of_the_best_node_and_not_its_title():
    nodes = [
        Node("best", "A saxophonist from Guildford.", "Ballamy of Kenya"),
        Node("by_text", "The town of Guildford lies in Surrey."),
        Node("by_title", "Lions live in Kenya."),
        Node("neither", "Bread is baked of flour."),
    ]
    index = GraphIndex.from_nodes(nodes)
    retriever = Retriever(index, Pipeline(BM25Search(1), FeedbackSearch()), backfill=False)
    assert ids_of(retriever.retrieve("saxophonist Ballamy")) == ["best", "by_text"]
