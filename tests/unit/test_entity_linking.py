"""Names in questions: what is found, what is searched instead, and what is refused."""

import json

import pytest
import torch

from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.names import NameTable, name_table
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, GatedPropagation, Pipeline, ReciprocalRankFusion, VectorSearch
from graph_retrievers.retrievers.protocol import Call
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.search.queries import Queries
from graph_retrievers.stores.cypher.questions import question_notes, read_questions
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.retriever import SpreadingActivation
from graph_retrievers.systems.traits import names_identify
from tests.helpers import HashEmbedding, linked_index
from tests.rankings import ranked

VECTORS = {
    "Paris": [1.0, 0.0, 0.0],
    "Paris Hilton": [0.6, 0.8, 0.0],
    "Paris, Texas": [0.0, 1.0, 0.0],
    "Berlin": [0.8, 0.0, 0.6],
    "berlin wall": [-1.0, 0.0, 0.0],
    "nowhere": [0.0, 0.0, 0.0],
}


class Embedding:
    """Looks vectors up; counts what is embedded."""

    def __init__(self, **vectors):
        self.vectors, self.asked = vectors, []

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        self.asked.append(text)
        return self.vectors[text]


def index_of(names=None, embedding=None, scale=1.0, device="cpu"):
    names = names or list(VECTORS)
    vectors = [[scale * (i + 1) * x for x in VECTORS[name]] for i, name in enumerate(names)]
    graph = CorpusGraph([f"id{i}" for i in range(len(names))], [""] * len(names), titles=names, device=device)
    return GraphIndex.from_graph(graph, vectors=vectors, embedding=embedding, bm25=False)


def link(index, *questions, entities=None, vectors=None, seed_filter=None, **options):
    inputs = None if entities is None else {"entities": entities}
    batch = Queries.of(index, questions, vectors=vectors, seed_filter=seed_filter, inputs=inputs)
    seeds = ranked(EntityLinking(**options), batch)
    titles = index.graph.titles
    found = [
        {titles[v]: s for v, s in zip(nodes, scores, strict=True) if v >= 0}
        for nodes, scores in zip(seeds.nodes.tolist(), seeds.scores.tolist(), strict=True)
    ]
    return found, seeds


def names_in(text, names, **options):
    return [name for name, _ in NameTable(names, **options).find(text)]


def test_the_longest_name_is_taken_and_names_do_not_overlap():
    names = ["New York", "New York Times", "Times Square", "York"]
    assert names_in("Is the New York Times near Times Square, New York?", names) == ["New York Times", "Times Square", "New York"]


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("Who wrote Kill Bill: Vol. 1?", "Kill Bill: Vol. 1", True),
        ("Was Hagar's father a king?", "Hagar", True),
        ("Was Hagard a king?", "Hagar", False),
        ("Was Hagar_2 a king?", "Hagar", False),
        ("Who plays in Ocean\u2019s   Eleven?", "Ocean's Eleven", True),
        ("Wer schrieb die U\u0308bung?", "\u00dcbung", True),
        ("\u6771\u4eac\u306e\u4eba\u53e3\u306f\uff1f", "\u6771\u4eac", True),
        ("Who directed Mother!?", "Mother!", True),
        ("Who is my Mother?", "Mother!", False),
    ],
)
def test_names_begin_and_end_at_words(text, name, found):
    assert bool(names_in(text, [name])) is found


def test_case_counts_only_where_it_is_asked_to():
    assert names_in("Who directed NOTORIOUS?", ["Notorious"]) == []
    assert names_in("Who directed NOTORIOUS?", ["Notorious"], fold=True) == ["NOTORIOUS"]
    assert names_in("Stra\u00dfe or STRASSE?", ["Strasse"], fold=True) == ["Stra\u00dfe", "STRASSE"]


def test_of_names_that_differ_in_case_the_one_written_is_meant():
    table = NameTable(["Turkey", "turkey", "Rome"], fold=True)
    assert table.rows("Turkey") == [0] and table.rows("turkey") == [1]
    assert table.rows("TURKEY") == [0, 1] and table.rows("ROME") == [2]
    assert table.find("From Rome to Turkey") == [("Rome", [2]), ("Turkey", [0])]


def test_lower_case_words_are_names_only_beside_no_other():
    titles = ["Kismet", "Tom Hanks", "Actors", "film"]
    table = NameTable(titles, fold=True)
    assert [name for name, _ in table.find("which actors star in the film Kismet")] == ["Kismet"]
    assert [name for name, _ in table.find("which actors star in the film kismet")] == ["actors", "film", "kismet"]
    # Where names themselves are in lower case, nothing tells them from other words.
    assert names_in("Does aspirin treat Asthma?", ["aspirin", "asthma", "fever"], fold=True) == ["aspirin", "Asthma"]


def test_names_are_titles_or_else_ids_and_all_nodes_of_a_name_count():
    graph = CorpusGraph(["a", "Ada", "c", "d"], [""] * 4, titles=["Bob", "", "Bob", "..."])
    table = name_table(graph)
    assert table.find("Ada met Bob") == [("Ada", [1]), ("Bob", [0, 2])]
    assert table.rows("Bob") == [0, 2] and table.rows("Carl") == []
    assert name_table(graph) is table


def test_exact_matches_score_one_and_need_no_embedding_model(device):
    found, seeds = link(index_of(device=device), "Did Paris Hilton visit Berlin?", "Is Paris, Texas in Paris?")
    assert found == [{"Paris Hilton": 1.0, "Berlin": 1.0}, {"Paris": 1.0, "Paris, Texas": 1.0}]
    assert seeds.nodes.tolist() == [[1, 3], [0, 2]]
    assert not any(seeds.notes)


def test_without_a_name_the_question_itself_is_searched():
    found, seeds = link(index_of(), "Where is it?", vectors=[[2.0, 0.0, 0.0]])
    # The cosine, whatever the lengths; neither the opposite nor the node without a vector is a seed.
    assert found == [{"Paris": pytest.approx(1.0), "Berlin": pytest.approx(0.8), "Paris Hilton": pytest.approx(0.6)}]
    # The operator of such a seed says where it comes from; a note on many questions would say no more.
    assert not any(seeds.notes) and seeds.operators[int(seeds.origins[0, 0])] == "VectorSearch"


@pytest.mark.parametrize(("entities", "each"), [(["x"], 5), (["x", "y"], 2), (["x", "Berlin", "y"], 1), (list("xyzuvw"), 1)])
def test_the_budget_is_shared_among_the_entities(entities, each):
    names = [f"node {i}" for i in range(9)] + ["Berlin"]
    vectors = torch.eye(10) + 1.0
    graph = CorpusGraph([str(i) for i in range(10)], [""] * 10, titles=names)
    model = Embedding(**{name: (torch.eye(10)[i] + 0.5).tolist() for i, name in enumerate("xyzuvw")})
    index = GraphIndex.from_graph(graph, vectors=vectors, embedding=model, bm25=False)
    found, seeds = link(index, "question", entities=[entities], vectors=torch.ones(1, 10))
    missing = [e for e in entities if e != "Berlin"]
    assert model.asked == missing[:5]
    assert len(found[0]) <= min(5, each * len(missing)) + ("Berlin" in entities)
    assert ("budget is used up" in seeds.notes[0][0]) is (len(missing) > 5)


def test_a_searched_entity_scores_by_the_question_or_as_a_database_index_would():
    model = Embedding(Lutetia=[1.0, 0.0, 0.0])
    question = [[0.0, 0.6, 0.8]]
    by_question, seeds = link(index_of(embedding=model), "Where was Lutetia?", entities=[["Lutetia"]], vectors=question)
    # Near Lutetia stand Paris (1.0), Berlin (.8), Paris Hilton (.6) and others; those the question is not near to go.
    assert by_question == [{"Berlin": pytest.approx(0.48), "Paris Hilton": pytest.approx(0.48), "Paris, Texas": pytest.approx(0.6)}]
    assert seeds.notes[0] == ("no node is named 'Lutetia': seeds from vector search",)
    by_index, _ = link(
        index_of(embedding=model), "Where was Lutetia?", entities=[["Lutetia"]], vectors=question, fallback_score="index"
    )
    assert by_index == [
        {
            "Paris": pytest.approx(1.0),
            "Berlin": pytest.approx(0.9),
            "Paris Hilton": pytest.approx(0.8),
            "Paris, Texas": pytest.approx(0.5),
        }
    ]


def test_a_note_tells_ten_of_many_names_and_the_beginning_of_a_long_one():
    index = GraphIndex(CorpusGraph(["a"], [""], titles=["Paris"]))
    for entities, told in (
        ([f"n{number}" for number in range(10)], "'n9'"),
        ([f"n{number}" for number in range(5000)], "'n9', 4990 more"),
        (["x" * 5000], "x..."),
    ):
        _, seeds = link(index, "?", entities=[entities])
        ((note,),) = seeds.notes
        assert note.endswith(f"{told}; there are no vectors to search by") and len(note) < 200


def test_of_thousands_of_names_a_hundred_are_searched():
    entities = [f"n{number}" for number in range(3000)]
    model = Embedding(**dict.fromkeys(entities, [1.0, 0.0, 0.0]))
    _, seeds = link(index_of(embedding=model), "?", entities=[entities], vectors=[[1.0, 0.0, 0.0]], each=1)
    assert model.asked == entities[:100]
    assert seeds.notes[0][0].endswith("'n109', 2890 more") and "budget is used up: 'n100'" in seeds.notes[0][0]


def test_a_question_without_names_is_searched_for_once(monkeypatch):
    draw = torch.Generator().manual_seed(1)
    vectors = torch.nn.functional.normalize(torch.randn(40, 4, generator=draw), dim=1)
    vectors[[3, 7]] = 0.0
    index = GraphIndex.from_texts([f"text {n}" for n in range(40)], titles=[f"Name{n}" for n in range(40)], vectors=vectors)
    asked, mask = torch.randn(3, 4, generator=draw) * 2, torch.rand(40, generator=draw) < 0.5
    searches, kind = [], type(index.dense)
    search, best_of = kind.search, kind.best_of
    monkeypatch.setattr(kind, "search", lambda *args: searches.append(args[2]) or search(*args))
    monkeypatch.setattr(kind, "best_of", lambda *args: searches.append(args[3]) or best_of(*args))
    for allowed in (None, mask, torch.arange(40) < 3):
        searches.clear()
        batch = Queries.of(index, ["who?", "what?", "Name1?"], k=5, vectors=asked, seed_filter=allowed)
        ranked(Pipeline(VectorSearch(9, returned=False), EntityLinking(budget=6)), batch)
        assert searches == [9]
        seeds = ranked(EntityLinking(budget=6), batch)
        cosines = torch.nn.functional.normalize(asked, dim=1) @ vectors.T
        for b in range(3):
            best = torch.argsort(cosines[b], descending=True, stable=True).tolist()
            expected = [row for row in best if cosines[b, row] > 0 and (allowed is None or allowed[row])][:6]
            named = [1] if b == 2 and (allowed is None or allowed[1]) else expected
            found = [row for row in seeds.nodes[b].tolist() if row >= 0]
            assert found == named
            wanted = torch.ones(1) if found == [1] and b == 2 else cosines[b, found]
            torch.testing.assert_close(seeds.scores[b, : len(found)], wanted)


def test_what_each_question_lacks_is_searched_for_alone():
    """A question that names nothing gets as many seeds beside one whose entities have no node, and the same ones."""
    draw = torch.Generator().manual_seed(3)
    vectors = torch.nn.functional.normalize(torch.rand(9, 3, generator=draw), dim=1)
    model = Embedding(Zoe=[1.0, 0.0, 0.0], Yul=[0.0, 1.0, 0.0])
    index = GraphIndex.from_texts(
        [""] * 9, titles=[f"Name{n}" for n in range(9)], vectors=vectors, embedding=model, bm25=False, include_titles=False
    )
    asked = torch.rand(2, 3, generator=draw)
    found, _ = link(index, "who?", "what?", entities=[["Zoe", "Yul"], None], vectors=asked)
    assert [len(each) for each in found] == [len(found[0]), 5] and 2 <= len(found[0]) <= 4
    alone, _ = link(index, "what?", vectors=asked[1:])
    assert list(found[1]) == list(alone[0]) and found[1] == pytest.approx(alone[0])


def test_equal_vectors_far_from_the_question_keep_their_order():
    draw = torch.Generator().manual_seed(1080)
    base = torch.nn.functional.normalize(torch.randn(7, 3, generator=draw), dim=1)
    vectors, asked = base[torch.randint(7, (17,), generator=draw)], torch.randn(2, 3, generator=draw)
    # Cosines near 0: their rounding is a larger share of them than of others.
    asked[0] -= (asked[0] @ base[0]) * base[0] * 0.998
    titles = [f"Name{n}" for n in range(17)]
    index = GraphIndex.from_texts([f"text {n}" for n in range(17)], titles=titles, vectors=vectors, bm25=False)
    both, alone = (ranked(EntityLinking(), Queries.of(index, ["who?"] * n, vectors=asked[:n])).nodes[0].tolist() for n in (2, 1))
    assert both == alone == [14, 15, 10, 11, 16]


def test_a_database_index_scores_nodes_with_vectors_only():
    index = GraphIndex.from_texts(list("abcd"), vectors=[[1, 0], [0, 1], [0, 0], [0.6, 0.8]], bm25=False)
    seeds = ranked(EntityLinking(fallback_score="index"), Queries.of(index, ["who?"], vectors=[[2.0, 0.0]]))
    assert seeds.nodes.tolist() == [[0, 3, 1]] and seeds.scores[0].tolist() == pytest.approx([1.0, 0.8, 0.5])


def test_the_approximate_search_of_an_index_is_used_for_seeds(monkeypatch):
    draw = torch.Generator().manual_seed(1)
    vectors = torch.nn.functional.normalize(torch.randn(40, 4, generator=draw), dim=1)
    titles, model = [f"Name{n}" for n in range(40)], Embedding(Zoe=[1.0, 0, 0, 0])
    index = GraphIndex.from_texts([""] * 40, titles=titles, vectors=vectors, dense_backend="hnsw", embedding=model)
    exact = []
    monkeypatch.setattr(type(index.dense), "_search_exact", lambda *args: exact.append(args))
    for entities in (None, [["Zoe"]]):
        found, _ = link(index, "who is it?", entities=entities, vectors=[[1.0, 0.0, 0.0, 0.0]])
        assert len(found[0]) > 0 and not exact


def test_a_node_matched_twice_keeps_its_best_score():
    model = Embedding(Lutetia=[1.0, 0.0, 0.0])
    found, _ = link(
        index_of(embedding=model), "question", entities=[["Lutetia", "Paris", "Paris"]], vectors=[[0.8, 0.0, 0.6]], budget=2
    )
    assert found == [{"Paris": 1.0}]


def test_entities_of_the_caller_take_the_place_of_names():
    found, _ = link(index_of(), "Is Paris nice?", "Is Paris nice?", entities=[["berlin"], None], vectors=torch.eye(3)[:2])
    assert found == [{"Berlin": 1.0}, {"Paris": 1.0}]


def test_no_entities_given_means_the_question_is_searched():
    found, _ = link(index_of(), "Is Berlin nice?", entities=[[]], vectors=[[1.0, 0.0, 0.0]], budget=1)
    assert found == [{"Paris": pytest.approx(1.0)}]


def test_exact_case_leaves_other_spellings_to_vector_search():
    model = Embedding(berlin=[0.8, 0.0, 0.6])
    found, _ = link(index_of(embedding=model), "q", entities=[["berlin"]], vectors=[[0.8, 0.0, 0.6]], case="exact", budget=1)
    assert found == [{"Berlin": pytest.approx(1.0)}]


def test_seed_filter_and_excluded_types_hold_for_names_and_search():
    graph = CorpusGraph(["a", "b", "c"], [""] * 3, titles=["Paris", "Paris", "Rome"], types=["passage", "place", "place"])
    index = GraphIndex.from_graph(graph, vectors=torch.eye(3), bm25=False)
    vectors = [[1.0, 0.5, 0.2]]
    assert link(index, "Paris?", vectors=vectors, exclude_types=["passage"])[1].nodes.tolist() == [[1]]
    assert link(index, "Paris?", vectors=vectors, seed_filter={"$id": "c"})[1].nodes.tolist() == [[2]]
    assert link(index, "Where?", vectors=vectors, exclude_types=["place"])[1].nodes.tolist() == [[0]]


def test_a_language_model_lists_the_entities():
    prompts = []

    def model(prompt):
        prompts.append(prompt)
        return json.dumps({"entities": ["Berlin", " "]})

    found, _ = link(index_of(), "How far is it from Paris?", language_model=model)
    assert found == [{"Berlin": 1.0}]
    assert "How far is it from Paris?" in prompts[0] and len(prompts) == 1
    # What the caller gives is not asked for.
    link(index_of(), "How far is it?", entities=[["Paris"]], language_model=model)
    assert len(prompts) == 1


def test_where_a_language_model_gives_no_entities_names_are_looked_for_in_memory_and_for_a_database():
    def model(prompt):
        if "Rome" in prompt:
            raise TimeoutError("no answer")
        return '{"entities": ["Berlin"]}' if "Paris" in prompt else '{"names": []}'

    questions = ["Is Rome near Paris?", "Is Paris far?", "Is Berlin?"]
    found, seeds = link(index_of(), *questions, language_model=model)
    assert found == [*link(index_of(), questions[0])[0], {"Berlin": 1.0}, *link(index_of(), questions[2])[0]]
    failed, none, schema = seeds.notes
    assert failed == ("The language model failed (TimeoutError: no answer); names of nodes were looked for in the question",)
    assert none == () and schema[0].startswith("No answer of the language model satisfied the schema")
    call = Call(questions, 3, None, {}, {})
    asked = read_questions(call, embedding=None, language_model=model, needs_vectors=False)
    assert [question.entities for question in asked] == [None, ("Berlin",), None]
    assert [question_notes(question, (), 0) for question in asked] == list(seeds.notes)
    assert question_notes(asked[0], (0,), 0) == (*failed, "no entity of the graph is named; there is no vector to search by")


def test_what_is_not_a_language_model_is_refused_at_once():
    with pytest.raises(InvalidArgumentError, match="3 is not a language model"):
        EntityLinking(language_model=3)


def test_without_vectors_only_names_bring_seeds():
    index = GraphIndex(CorpusGraph(["a", "b"], [""] * 2, titles=["Paris", "Rome"]))
    found, seeds = link(index, "Where is Rome?", "Where is it?", "q", entities=[None, None, ["Paris", "Bonn"]])
    assert found == [{"Rome": 1.0}, {}, {"Paris": 1.0}]
    assert seeds.notes == (
        (),
        ("no entity of the graph is named; there are no vectors to search by",),
        ("no node is named 'Bonn'; there are no vectors to search by",),
    )


@pytest.mark.parametrize("has_vectors", [True, False])
def test_of_questions_that_run_as_one_only_those_without_names_are_searched_for(has_vectors):
    names, vectors = ["Lyon", "Paris", "Rome"], [[0.6, 0.8], [-1.0, 0.0], [1.0, 0.0]]
    graph = CorpusGraph(["l", "p", "r"], [""] * 3, titles=names)
    index = GraphIndex.from_graph(graph, vectors=vectors if has_vectors else None, bm25=False)
    retriever = Retriever(index, EntityLinking(), backfill=False)
    texts = ["Rome or Paris?", "Where is it?", "Where is Lyon?"]
    found = retriever.retrieve_batch(texts, vectors=[[1.0, 0.0]] * 3 if has_vectors else None)
    near = [("r", 1.0, "VectorSearch"), ("l", pytest.approx(0.6), "VectorSearch")] if has_vectors else []
    assert [[(hit.id, hit.score, hit.operator) for hit in hits] for hits in found] == [
        [("p", 1.0, "EntityLinking"), ("r", 1.0, "EntityLinking")],
        near,
        [("l", 1.0, "EntityLinking")],
    ]
    told = [any("there are no vectors to search by" in note for note in hits.notes) for hits in found]
    assert told == [False, not has_vectors, False]


def test_entities_are_embedded_by_the_model_and_not_taken_for_the_query():
    model = Embedding(Lutetia=[1.0, 0.0, 0.0])
    own = Embedding(**{"Where was it?": [0.8, 0.0, 0.6], "Lutetia": [0.0, 1.0, 0.0]})
    # The caller's function for query vectors is for queries, as long as the index has a model.
    found, _ = link(index_of(embedding=model), "Where was it?", entities=[["Lutetia"]], vectors=own.embed_documents, budget=1)
    assert found == [{"Paris": pytest.approx(0.8)}] and own.asked == ["Where was it?"]
    found, _ = link(index_of(), "Where was it?", entities=[["Lutetia"]], vectors=own.embed_documents, budget=2)
    assert own.asked[1:] == ["Lutetia", "Where was it?"] or own.asked[1:] == ["Where was it?", "Lutetia"]
    assert found == [{"Paris Hilton": pytest.approx(0.48)}]


def test_without_an_embedding_model_an_unmatched_entity_is_an_error():
    with pytest.raises(MissingSignalError, match="embedding"):
        link(index_of(), "question", entities=[["Lutetia"]], vectors=[[1.0, 0.0, 0.0]])


def test_without_an_embedding_model_the_question_stands_for_what_a_language_model_names():
    def model(prompt):
        return '{"entities": ["Lutetia", "Berlin"]}' if "Where was it?" in prompt else '{"entities": ["Lutetia"]}'

    questions, vectors = ["Where was it?", "What is near?"], [[0.96, 0.28, 0.0]] * 2
    found, seeds = link(index_of(), *questions, language_model=model, vectors=vectors, budget=1)
    told = ("no node is named 'Lutetia'; there is no embedding model to search by",)
    assert found == [{"Berlin": 1.0}, {"Paris": pytest.approx(0.96)}] and seeds.notes == (told, told)


@pytest.mark.parametrize("entities", ["Paris", [""], [3], ["Paris", None], 7])
def test_entities_must_be_names(entities):
    with pytest.raises(InvalidArgumentError, match="entities of query 0"):
        link(index_of(), "question", entities=[entities])


@pytest.mark.parametrize("options", [{"case": "lower"}, {"fallback_score": "dot"}, {"budget": -1}])
def test_options_outside_their_range(options):
    with pytest.raises(InvalidArgumentError):
        EntityLinking(**options)


@pytest.mark.parametrize(
    ("entities", "labels"),
    [
        (["Ada Lovelace"], {"ada": "EntityLinking"}),
        (["Ada Lovelace", "Nobody"], {"ada": "EntityLinking", "*": "VectorSearch"}),
        (["Nobody"], {"*": "VectorSearch"}),
        (None, {"*": "VectorSearch"}),
    ],
)
def test_a_seed_that_vector_search_found_is_called_so(entities, labels):
    hits = Retriever(linked_index(), SpreadingActivation(), backfill=False).retrieve("what was woven there", entities=entities)
    seeds = [hit for hit in hits if len(hit.path.nodes) == 1]
    assert seeds and {hit.id: hit.operator for hit in seeds} == {hit.id: labels.get(hit.id, labels.get("*")) for hit in seeds}
    assert all(hit.operator == "GatedPropagation" for hit in hits if len(hit.path.nodes) > 1)


def test_seeds_of_several_operators_keep_their_names_through_propagation():
    first = ReciprocalRankFusion(BM25Search(1), VectorSearch(1))
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[0.5], [1.0]])
    hits = Retriever(index, Pipeline(first, GatedPropagation(gate="uniform"))).retrieve("loom", vector=[1.0])
    assert {hit.id: hit.operator for hit in hits} == {"0": "BM25Search", "1": "VectorSearch"}


def _linking(names, entities, seed_filter=None, **options):
    vectors = [[1.0, 0.1 * row] for row in range(len(names))]
    graph = CorpusGraph(names, [""] * len(names))
    index = GraphIndex.from_graph(graph, vectors=vectors, embedding=lambda texts: [[1.0, 0.0] for _ in texts], bm25=False)
    queries = Queries.of(index, ["?"] * len(entities), seed_filter=seed_filter, inputs={"entities": entities})
    return ranked(EntityLinking(**options), queries)


def test_linking_keeps_each_query_to_its_own_share():
    names = ["a", "b", "c", "d", "e"]
    assert _linking(names, [["u"], ["v", "w"]], budget=4).lengths().tolist() == [4, 2]


def test_an_entity_named_twice_counts_once():
    names = ["a", "b", "c", "d", "e"]
    assert _linking(names, [["u", "u"]], budget=4).lengths().tolist() == [4]


def test_scores_of_the_index_pass_the_filter():
    graph = CorpusGraph(["a", "b"], ["", ""])
    index = GraphIndex.from_graph(graph, vectors=[[1.0], [0.0]], embedding=lambda texts: [[1.0] for _ in texts], bm25=False)
    queries = Queries.of(index, ["?"], seed_filter={"$id": {"$in": ["a", "b"]}}, inputs={"entities": [["u"]]})
    assert ranked(EntityLinking(fallback_score="index"), queries).nodes.tolist() == [[0]]


def test_titles_that_are_common_words_are_names_only_where_there_are_no_vectors():
    titles = ("Index", "Table", "Page")
    nodes = [Node(str(n), "the page on the index of the table", titles[n % 3]) for n in range(36)]
    bare, dense = (GraphIndex.from_nodes(nodes, embedding=embedding) for embedding in (None, HashEmbedding()))
    assert not names_identify(bare) and not names_identify(dense)
    assert ranked(EntityLinking(), Queries.of(bare, ["What is a Table?"])).nodes.tolist() == [[*range(1, 36, 3)]]
    found = ranked(EntityLinking(), Queries.of(dense, ["What is a Table?"]))
    assert found.nodes.shape == (1, 5) and set(found.operators) == {"EntityLinking", "VectorSearch"}
