"""The harness on a small corpus: what is shared, what is measured, what is kept, and retrievers from elsewhere."""

import json
import re
from dataclasses import replace

import pytest
import torch
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex

from graph_retrievers import BM25, HyDE, Node, SpreadingActivation
from graph_retrievers.construction.edges import EntityMentions
from graph_retrievers.datasets import Query
from graph_retrievers.errors import EmbeddingError, GraphRetrieverError, InvalidArgumentError, UnknownNodeError
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.metrics import capped_recall, ndcg, reciprocal_rank
from graph_retrievers.evaluation.significance import compare
from graph_retrievers.evaluation.tables import results_table, source_rows
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, EvidenceNetwork, LeSeGRModel, MixedTraversal, Operator, OperatorKind
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals import retries
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.stores.remote import RemoteIndex
from graph_retrievers.systems import GRAG, LeSeGR, MoR
from tests.helpers import HashEmbedding, WordOverlap, linked_edges, linked_index, linked_nodes
from tests.integration.langchain_models import LangChainHashEmbeddings
from tests.integration.llama_corpus import HashEmbed, llama_nodes
from tests.movies import movie_edges, movie_nodes
from tests.remote import MemoryGraph

QUERIES = [
    Query("q1", "Which machine did Ada Lovelace write a program for?", ("ada", "engine"), "test", "bridge", ("Ada Lovelace",)),
    Query("q2", "What data do punched cards hold in a loom?", ("cards", "jacquard"), "test", "bridge"),
    Query("q3", "Which computer broke ciphers at Bletchley Park?", ("colossus", "bletchley"), "test", "bridge"),
    Query("q4", "Which company grew out of tabulating machines?", ("ibm",), "test", "single"),
    Query("q5", "Who counted the census?", ("hollerith",), "test", "single"),
]
ALL = ["vector", "bm25", "hybrid", "re2", "gar", "fastinsight"]


def with_overlap():
    model = WordOverlap()
    return linked_index(relevance=model), model


def test_results_are_those_of_each_retriever_by_itself():
    index, _ = with_overlap()
    evaluation = evaluate(index, QUERIES, ALL, k=3, batch_size=2, timed_queries=0)
    for name in ALL:
        alone = Retriever(index, name, k=3)
        for query in QUERIES:
            assert list(evaluation.returned[name][query.id].ids) == [hit.id for hit in alone.retrieve(query.text)]
    content = evaluation.to_dict()
    assert content["queries"] == 5 and content["k"] == 3
    for name in ALL:
        rankings = content["per_query"][name]
        for metric, function in (("recall@3", capped_recall), ("ndcg@3", ndcg), ("mrr", reciprocal_rank)):
            mean = sum(function(rankings[q.id], q.gold, 3) for q in QUERIES) / 5
            assert content["results"][name][metric] == pytest.approx(mean)
    json.dumps(content)


def test_latents_are_shared_and_costs_are_measured_without_sharing():
    index, model = with_overlap()
    names = ["re2", "gar", "fastinsight"]
    together = evaluate(index, QUERIES, names, k=3, timed_queries=0)
    pairs = model.pairs
    held = {(q.id, node) for q in QUERIES for name in names for node in together.returned[name][q.id].candidates}
    assert pairs == len(held)
    evaluation = evaluate(index, QUERIES, names, k=3, timed_queries=3, seed=1)
    for name in names:
        costs, results = evaluation.costs[name], evaluation.returned[name]
        assert costs["timed_queries"] == 3 and costs["seconds_per_query"] > 0 and costs["peak_memory_mb"] > 10
        sizes = sorted(len(results[q.id].candidates) for q in QUERIES)
        assert sizes[0] <= costs["encodes_per_query"] <= sizes[-1]
    assert evaluation.returned == together.returned


def test_retrievers_of_both_frameworks_and_callables():
    index = linked_index()
    ours = Retriever(index, "vector", k=3)
    texts = {node.id: index.graph.content(index.graph.row(node.id)) for node in linked_nodes()}
    store = InMemoryVectorStore(LangChainHashEmbeddings())
    store.add_documents([Document(id=name, page_content=text) for name, text in texts.items()])
    llama = VectorStoreIndex(llama_nodes(), embed_model=HashEmbed())
    retrievers = {
        "ours": ours,
        "langchain": store.as_retriever(search_kwargs={"k": 3}),
        "llama": llama.as_retriever(similarity_top_k=3),
        "ids": lambda text: [hit.id for hit in ours.retrieve(text)] * 2,
        "pairs": lambda text: [(hit.id, hit.score) for hit in ours.retrieve(text)],
        "run": {"q1": [("ada", 2.0), ("engine", 1.0)], "q4": [("ibm", 1.0)]},
    }
    evaluation = evaluate(index, QUERIES, retrievers, k=3, timed_queries=2)
    for query in QUERIES:
        found = {name: list(results[query.id].ids) for name, results in evaluation.returned.items()}
        assert found["ids"] == found["pairs"] == found["ours"]
        assert found["langchain"] == [document.id for document in retrievers["langchain"].invoke(query.text)]
        assert found["llama"] == [result.node.node_id for result in retrievers["llama"].retrieve(query.text)]
    assert evaluation.column("run", "recall@3") == [1, 0, 0, 1, 0]
    assert "run" not in evaluation.costs and evaluation.costs["langchain"]["seconds_per_query"] > 0


def test_strange_retrievers_are_refused():
    index = linked_index()
    with pytest.raises(InvalidArgumentError, match="cannot be evaluated"):
        evaluate(index, QUERIES, {"x": 7})
    with pytest.raises(InvalidArgumentError, match="only ids that are not in the graph"):
        evaluate(index, QUERIES, {"x": lambda text: ["nowhere"]}, timed_queries=0)
    with pytest.raises(InvalidArgumentError, match="no node id"):
        evaluate(index, QUERIES, {"x": lambda text: [Document(page_content="no id")]})
    evaluation = evaluate(index, QUERIES, {"x": lambda text: ["nowhere", "ada"]}, timed_queries=0)
    assert "5 of 10 ids" in evaluation.notes[0] and evaluation.results()["x"]["mrr"] == pytest.approx(0.5 / 5)
    for wrong, told in (
        (BM25(), r"must be a list of systems or a mapping from names to retrievers, got BM25\(\)"),
        ([7], "7 has no name; pass a mapping"),
        ({"x": {"q1": 7}}, "x is {'q1': 7}; expected a run, which has .node id, score. pairs by query id, or a system"),
    ):
        with pytest.raises(InvalidArgumentError, match=told):
            evaluate(index, QUERIES, wrong)
    for wrong in ({}, [], "vector", ["vector", "vector"], ["no such name"]):
        with pytest.raises(InvalidArgumentError):
            evaluate(index, QUERIES, wrong)


def test_an_index_in_a_database_is_refused_and_its_retrievers_are_measured():
    index = linked_index()
    remote = RemoteIndex(MemoryGraph(index.graph), vectors=None, signals={"bm25": index.bm25})
    queries = [Query("q1", "Ada wrote a program", ("ada",))]
    with pytest.raises(InvalidArgumentError, match=r"pass the same index in memory .*, and retrievers by name: evaluate\("):
        evaluate(remote, queries, ["bm25"])
    places = {"stored": remote, "memory": index}
    found = evaluate(index, queries, {name: Retriever(each, BM25(), backfill=False) for name, each in places.items()})
    assert found.returned["stored"]["q1"].ids == found.returned["memory"]["q1"].ids != ()


def test_queries_that_cannot_be_measured():
    index = linked_index()
    evaluation = evaluate(index, [*QUERIES, Query("q6", "Who?", ())], ["bm25"], timed_queries=0)
    assert len(evaluation.queries) == 5 and evaluation.notes == ["1 queries without relevant nodes were left out."]
    with pytest.raises(UnknownNodeError, match="'q7' names 'nobody'"):
        evaluate(index, [Query("q7", "Who?", ("nobody",))], ["bm25"])
    with pytest.raises(InvalidArgumentError, match="nothing to measure"):
        evaluate(index, [Query("q6", "Who?", ())], ["bm25"])
    with pytest.raises(InvalidArgumentError, match="Two queries have the id 'q1'"):
        evaluate(index, [QUERIES[0], QUERIES[0]], ["bm25"])
    for option in ({"k": 0}, {"batch_size": 0}, {"use": ["answers"]}):
        with pytest.raises(InvalidArgumentError):
            evaluate(index, QUERIES, ["bm25"], **option)


def test_judgements_from_elsewhere_replace_the_relevant_nodes():
    index = linked_index()
    qrels = {"q1": {"engine": 2, "ada": 1, "loom": 0}, "q4": {"ibm": 0}}
    evaluation = evaluate(index, QUERIES, ["bm25"], k=3, qrels=qrels, timed_queries=0)
    assert [q.id for q in evaluation.queries] == ["q1"] and "4 queries" in evaluation.notes[0]
    ids = evaluation.returned["bm25"]["q1"].ids
    assert evaluation.column("bm25", "ndcg@3") == [pytest.approx(ndcg(ids, qrels["q1"], 3))]
    assert evaluation.column("bm25", "recall@3") == [pytest.approx(capped_recall(ids, ["engine", "ada"], 3))]


def test_annotations_are_used_only_where_asked():
    index = linked_index()
    queries = [replace(QUERIES[0], text="Who wrote it?")]
    plain = evaluate(index, queries, ["spreading"], k=3, timed_queries=1)
    told = evaluate(index, queries, ["spreading", "vector"], k=3, use=["entities"], timed_queries=1)
    assert told.returned["spreading"]["q1"].ids[0] == "ada"
    assert told.returned["spreading"]["q1"] != plain.returned["spreading"]["q1"]
    assert told.returned["vector"]["q1"] == evaluate(index, queries, ["vector"], k=3, timed_queries=0).returned["vector"]["q1"]


# -- retrievers that lack something, or refuse the index ----------------------------------------------------------


def planned_movies():
    index = GraphIndex.from_nodes(movie_nodes(), movie_edges(), embedding=HashEmbedding())
    plan = ({"type": "person", "restriction": "Cleo Marsh"}, {"type": "movie"})
    return index, [Query("q1", "Who directed Glass Winter with Cleo Marsh?", (index.graph.ids[0],), plan=plan)]


LACKS = {
    "re2": ("a relevance model (pass relevance=)",),
    "gar": ("a relevance model (pass relevance=)",),
    "fastinsight": ("a relevance model (pass relevance=)",),
    "lesegr": ("a trained model (pass checkpoint=)",),
    "g-rag": ("a trained network (pass checkpoint=)",),
    "mor": ("a trained reranker (pass checkpoint=)", "a plan (pass plan=, planner= or checkpoint=)"),
    "mor(structure=False, rerank=False)": ("a plan (pass plan=, planner= or checkpoint=)",),
    "mor(matches=0, rerank=False)": ("a plan (pass plan=, planner= or checkpoint=)",),
    "mor(rerank=False)": ("a plan (pass plan=, planner= or checkpoint=)",),
}
SYSTEMS = ["vector", "bm25", "hybrid", "ppr", "spreading", "walk-fusion", *LACKS]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_retriever_knows_what_it_has_to_do_without(name):
    index = linked_index()
    made = Retriever(index, name)
    assert made.lacks() == LACKS.get(name, ())
    assert made.lacks(["plan"]) == tuple(need for need in LACKS.get(name, ()) if not need.startswith("a plan"))
    if name in ("re2", "gar", "fastinsight"):
        assert Retriever(linked_index(relevance=WordOverlap()), name).lacks() == ()


def test_a_trained_retriever_lacks_nothing():
    index = linked_index()
    assert Retriever(index, LeSeGR(model=LeSeGRModel(index.dense.dimension))).lacks() == ()
    assert Retriever(index, GRAG(network=EvidenceNetwork())).lacks() == ()
    planner = MixedTraversal(planner=lambda question: None)
    assert Retriever(index, MoR(rerank=False, traversal=planner)).lacks() == ()
    assert Retriever(index, MoR(rerank=False, planner=lambda question: None)).lacks() == ()


def test_what_lacks_something_is_left_out_where_that_is_asked_for_and_noted_where_not():
    index, queries = planned_movies()
    texts = "mor(structure=False, rerank=False)"
    left = evaluate(index, queries, ["bm25", texts, "re2"], timed_queries=0, skip=True)
    assert left.retrievers == ["bm25"]
    assert left.notes == [
        f"{texts} was left out: it lacks a plan (pass plan=, planner= or checkpoint=).",
        "re2 was left out: it lacks a relevance model (pass relevance=).",
    ]
    noted = evaluate(index, queries, ["bm25", "mor"], timed_queries=0)
    assert noted.retrievers == ["bm25", "mor"]
    assert noted.notes == [
        "mor ran without a trained reranker (pass checkpoint=) and a plan (pass plan=, planner= or checkpoint=)."
    ]
    given = evaluate(index, queries, [texts, "mor"], timed_queries=0, use=["plan"], skip=True)
    assert given.retrievers == [texts] and given.notes == ["mor was left out: it lacks a trained reranker (pass checkpoint=)."]
    # Annotations that no query has are not given.
    bare = [replace(queries[0], plan=())]
    assert evaluate(index, bare, ["bm25", texts], timed_queries=0, use=["plan"], skip=True).retrievers == ["bm25"]
    told = re.escape(f"No retriever is left to evaluate. {texts} was left out: it lacks a plan")
    with pytest.raises(InvalidArgumentError, match=told):
        evaluate(index, queries, [texts], timed_queries=0, skip=True)


class Refusing(Operator):
    """Finds nothing, and refuses one question."""

    kind = OperatorKind.VECTOR_SEARCH

    def search(self, question, candidates):
        yield from ()
        if QUERIES[2].text == question.text:
            raise InvalidArgumentError("this question\nis refused.")
        return candidates


@pytest.mark.slow
def test_an_error_leaves_a_retriever_out_or_ends_the_evaluation():
    index = GraphIndex.from_nodes(linked_nodes(), linked_edges())
    retrievers = {"bm25": "bm25", "vector": "vector", "lesegr": "lesegr", "late": Retriever(index, Refusing())}
    options = {"batch_size": 1, "timed_queries": 1}
    evaluation = evaluate(index, QUERIES, retrievers, skip=True, **options)
    assert evaluation.retrievers == list(evaluation.costs) == ["bm25"]
    assert sorted(evaluation.notes)[0] == "late was left out: this question is refused."
    assert all("was left out: This index has no " in note for note in sorted(evaluation.notes)[1:]) and len(evaluation.notes) == 3
    for name in ("vector", "lesegr", "late"):
        with pytest.raises(GraphRetrieverError, match="^(This index has no|this question)"):
            evaluate(index, QUERIES, {name: retrievers[name]}, **options)
    with pytest.raises(ZeroDivisionError):
        evaluate(index, QUERIES, {"bm25": "bm25", "broken": lambda text: [str(1 // 0)]}, skip=True, **options)


def test_a_system_finds_what_its_retriever_finds():
    index, queries = planned_movies()
    system = MoR(rerank=False, planner=lambda question: list(queries[0].plan))
    found = evaluate(index, queries, {"system": system, "planned": Retriever(index, system)}, timed_queries=0)
    assert found.notes == [] and found.returned["system"] == found.returned["planned"]
    name = "mor(rerank=False)"
    assert found.returned["planned"] != evaluate(index, queries, [name], timed_queries=0).returned[name]


def test_a_system_is_a_value_a_text_a_mapping_or_an_operator():
    forms = {"value": BM25(), "text": "bm25", "mapping": {"system": "bm25"}, "operator": BM25Search()}
    found = evaluate(linked_index(), QUERIES, forms, timed_queries=0).returned
    assert all(found[name] == found["value"] for name in forms)
    listed = evaluate(linked_index(), QUERIES, [BM25(), {"system": "spreading", "gate": "uniform"}, BM25Search()], timed_queries=0)
    assert list(listed.returned) == ["bm25", "spreading(gate='uniform')", "BM25Search"]
    assert listed.returned["BM25Search"] == found["value"]


def test_a_retriever_of_passages_narrows_no_other_ones_results():
    nodes = [replace(node, type="passage" if row % 2 else "entity") for row, node in enumerate(linked_nodes())]
    index = GraphIndex.from_nodes(nodes, linked_edges(), embedding=HashEmbedding())
    queries = [Query("q", "Who broke ciphers with punched cards?", ["turing"])]
    passages = Retriever(index, SpreadingActivation(passages=True))
    alone = evaluate(index, queries, ["vector"], timed_queries=0).returned["vector"]
    assert evaluate(index, queries, {"passages": passages, "vector": "vector"}, timed_queries=0).returned["vector"] == alone
    assert len({index.graph.types[index.graph.row(node)] for node in alone["q"].ids}) == 2


def test_systems_that_follow_names_themselves_are_measured_without_the_nodes_of_names():
    names = EntityMentions()
    people = ["Ada Holm", "Cleo Marsh", "Ilse Vane", "Otto Brand"]
    texts = [f"The film {n} was made by {people[n % 4]} with {people[(n + 1) % 4]}." for n in range(8)]
    nodes = names.nodes([Node(str(n), text) for n, text in enumerate([*texts, *(f"{who} was born in a mill." for who in people)])])
    index = GraphIndex.from_documents(nodes, edges=names, embedding=HashEmbedding())
    query, systems = Query("q", "Where was the maker of film 3, Ada Holm, born?", ("8",)), ["walk-fusion", "path-reranking", "ppr"]
    returned = evaluate(index, [query], systems, k=5, timed_queries=0).returned
    for name in systems:
        hits = Retriever(index, name).retrieve(query.text, 5)
        assert returned[name]["q"].ids == tuple(hit.id for hit in hits)
        assert returned[name]["q"].scores == pytest.approx([hit.score for hit in hits])


def test_the_device_changes_nothing(device):
    cpu, other = linked_index(), linked_index(device=device)
    here = evaluate(cpu, QUERIES, ["vector", "fastinsight"], k=3, timed_queries=0)
    there = evaluate(other, QUERIES, ["vector", "fastinsight"], k=3, timed_queries=1)
    assert {n: [r.ids for r in rows.values()] for n, rows in here.returned.items()} == {
        n: [r.ids for r in rows.values()] for n, rows in there.returned.items()
    }
    assert there.column("vector", "tr@3") == pytest.approx(here.column("vector", "tr@3"))


def test_vectors_are_embedded_once(tmp_path):
    texts = ["one text", "another text", "a third"]
    model = HashEmbedding()
    first = embed_corpus(model, texts, cache=tmp_path)
    calls = model.document_calls
    assert torch.equal(embed_corpus(model, texts, cache=tmp_path), first) and model.document_calls == calls + 1  # the probes
    assert torch.equal(first, torch.tensor(HashEmbedding().embed_documents(texts)))
    asked, embed = [], model.embed_documents
    model.embed_documents = lambda batch: asked.append(list(batch)) or embed(batch)
    more = embed_corpus(model, [*texts, "a fourth", texts[0]], cache=tmp_path)
    assert asked[1:] == [["a fourth"]] and torch.equal(more[[0, 1, 2, 4]], first[[0, 1, 2, 0]])
    embed_corpus(HashEmbedding(32), texts, cache=tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2, "a file for each model"
    for size in (20, 5000):
        for file in files:
            file.write_bytes(file.read_bytes()[:size])
        assert torch.equal(embed_corpus(model, texts, cache=tmp_path), first)


def test_vectors_that_cannot_be_kept_are_an_error_that_names_the_folder(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InvalidArgumentError, match="set GRAPH_RETRIEVERS_CACHE"):
        embed_corpus(HashEmbedding(), ["a text"], cache=tmp_path / "file")


def test_an_error_of_the_model_is_not_taken_for_one_of_the_folder(tmp_path, monkeypatch):
    def embed(texts):
        if "a text" in texts:
            raise ConnectionError("no network")
        return [[1.0, 0.0]] * len(texts)

    monkeypatch.setattr(retries, "_FIRST", 0.0)
    with pytest.raises(EmbeddingError, match="no network"):
        embed_corpus(embed, ["a text"], cache=tmp_path)


def test_texts_read_with_their_paths_are_counted():
    index = linked_index(HashEmbedding(), relevance=WordOverlap())
    found = evaluate(index, QUERIES, ["path-reranking", "re2"], k=3, timed_queries=2)
    encodes = {name: found.costs[name]["encodes_per_query"] for name in found.retrievers}
    alone = evaluate(index, QUERIES, ["path-reranking"], k=3, timed_queries=0)
    assert alone.returned["path-reranking"] == found.returned["path-reranking"]
    assert 0 < encodes["path-reranking"] <= encodes["re2"] == len(index)


def test_tables_say_which_differences_are_real():
    index = linked_index()
    queries = [replace(query, id=f"{query.id}-{n}") for n in range(8) for query in QUERIES]
    run = {q.id: [(node, 1.0 / rank) for rank, node in enumerate(q.gold, 1)] for q in queries}
    evaluation = evaluate(index, queries, {"bm25": "bm25", "right": run, "also right": run, "wrong": {}}, k=3, timed_queries=0)
    comparisons = compare(evaluation, "recall@3")
    assert len(comparisons) == 6
    by_pair = {(c.better, c.worse): c for c in comparisons}
    top = by_pair["right", "wrong"]
    assert top.difference == 1.0 and top.real and top.low == top.high == 1.0 and top.adjusted == pytest.approx(6 / 10_001)
    level = by_pair["right", "also right"]
    assert level.difference == 0 and level.p_value == 1.0 and not level.real
    lines = {line.split("  ")[0]: line for line in results_table(evaluation, comparisons).splitlines()}
    assert lines["wrong"].endswith(" -") and "wrong" in lines["right"] and "also right" not in lines["right"]
    with pytest.raises(InvalidArgumentError, match="Unknown metric"):
        compare(evaluation, "recall@4")


def test_notes_on_questions_are_told():
    index, failing = linked_index(), [query.text for query in QUERIES[:3]]

    def model(prompt):
        if any(text in prompt for text in failing):
            raise RuntimeError("no quota")
        return '{"passages": ["A census."]}'

    retrievers = {"bm25": "bm25", "hyde": Retriever(index, HyDE(language_model=model))}
    (note,) = evaluate(index, QUERIES, retrievers, k=3, batch_size=2, timed_queries=0).notes
    assert note.startswith("hyde: 3 of 5 questions have notes, most often 'HypotheticalDocuments: ") and "no quota" in note


def test_tables_of_multi_hop_questions_have_what_papers_print_by_source():
    index = linked_index()
    ids = list(index.graph.ids[:4])
    queries = [
        Query("q1", "one", (ids[0], ids[1]), extra={"source": "musique"}),
        Query("q2", "two", (ids[0], ids[1], ids[2]), extra={"source": "hotpot"}),
        Query("q3", "three", (ids[3],), extra={"source": "hotpot"}),
    ]
    run = {"q1": [(ids[1], 2.0), (ids[2], 1.0)], "q2": [(node, 1.0) for node in ids[:3]], "q3": [(ids[0], 1.0)]}
    evaluation = evaluate(index, queries, {"mine": run}, k=6, timed_queries=0)
    values = evaluation.values["mine"]
    # q2 has three relevant nodes: two of them are the most that two places hold, and they count as two thirds.
    assert [round(values[q]["uncapped-recall@2"], 3) for q in ("q1", "q2", "q3")] == [0.5, 0.667, 0.0]
    assert [round(values[q]["uncapped-recall@5"], 3) for q in ("q1", "q2", "q3")] == [0.5, 1.0, 0.0]
    assert [values[q]["all-recall@5"] for q in ("q1", "q2", "q3")] == [0.0, 1.0, 0.0]
    heading, row = results_table(evaluation).splitlines()
    assert heading.split()[:5] == ["retriever", "Recall@2", "Recall@5", "All@5", "Recall@6"]
    assert row.split()[1:4] == ["0.3889", "0.5000", "0.3333"]
    assert source_rows(evaluation) == [
        ["source", "questions", "retriever", "Recall@2", "Recall@5", "All@5", "Recall@6"],
        ["hotpot", "2", "mine", "0.333", "0.500", "0.500", "0.500"],
        ["musique", "1", "mine", "0.500", "0.500", "0.000", "0.500"],
    ]


def test_tables_of_other_questions_stay_as_they_are():
    index = linked_index()
    ids = list(index.graph.ids[:4])
    single = [Query(f"q{n}", "one", (node,), extra={"source": "a"}) for n, node in enumerate(ids)]
    evaluation = evaluate(index, single, ["bm25"], k=6, timed_queries=0)
    assert not evaluation.multi_hop and source_rows(evaluation) == []
    assert results_table(evaluation).split()[1] == "Recall@6" and "All@5" not in results_table(evaluation)
    # Half of the questions with several relevant nodes are not most of them.
    mixed = [*single[:2], *(Query(f"m{n}", "one", tuple(ids[:2])) for n in range(2))]
    assert not evaluate(index, mixed, ["bm25"], k=6, timed_queries=0).multi_hop
    few = [Query(f"q{n}", "one", tuple(ids[:2]), extra={"source": "a"}) for n in range(2)]
    assert evaluate(index, few, ["bm25"], k=6, timed_queries=0).multi_hop
    assert not evaluate(index, few, ["bm25"], k=5, timed_queries=0).multi_hop
