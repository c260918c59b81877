"""One suite for every retriever: over an index, a database or stores; asked by the engine, LangChain or LlamaIndex."""

import asyncio
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
import torch

from graph_retrievers import Edge, GraphIndex, Node, Retriever, SpreadingActivation, Vector
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.retrievers import RetrieverProtocol
from graph_retrievers.retrievers.protocol import EMPTY_QUESTION, LISTING, LISTING_NOTE
from graph_retrievers.stores.cypher import CypherGraphStore, CypherSpreadingActivation, write_graph
from graph_retrievers.stores.postgres import open_index, write_index
from graph_retrievers.stores.remote import RemoteIndex
from langchain_graph_retrievers import GraphRetriever as LangChainRetriever
from llama_graph_retrievers import GraphRetriever as LlamaRetriever
from llama_graph_retrievers import provenance
from tests.helpers import CORPUS, HashEmbedding
from tests.remote import MemoryVectors, MemoryWords
from tests.retrievers import on

QUESTION = "Which machines did Charles Babbage and Alan Turing design?"
OTHER = "Who counted the census with punched cards?"
BACKENDS = ("index", "database", "stores", "postgres")


def dated(year):
    """The first half hour of a year, an hour east of UTC, where the year has not begun; and a mapping."""
    return {"begun": datetime(year, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=1))), "shelf": {"row": year % 10, "seen": [year]}}


@pytest.fixture
def index():
    nodes = [
        Node(name, text, title, metadata={"year": year, "topic": "war" if year > 1930 else "machines", **dated(year)})
        for name, title, text, year, _ in CORPUS
    ]
    edges = [Edge(name, target, "links", weight=2.0) for name, _, _, _, links in CORPUS for target in links]
    return GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding())


@pytest.fixture(params=BACKENDS)
def retriever(request, index, database, postgres):
    """The same retriever, over an index, inside a database, over stores of graph, vectors and words, and over PostgreSQL."""
    if request.param == "index":
        return Retriever(index, SpreadingActivation(chains="hits", threshold=0.001), k=5, backfill=False)
    if request.param == "postgres":
        write_index(index, postgres, "works")
        remote = open_index(postgres, "works", embedding=index.embedding)
        return Retriever(remote, SpreadingActivation(chains="hits", threshold=0.001), k=5, backfill=False)
    write_graph(database, index)
    if request.param == "stores":
        stores = {"vectors": MemoryVectors(index.graph.ids, index.dense.vectors), "words": MemoryWords(index)}
        remote = RemoteIndex(CypherGraphStore(database), **stores, embedding=index.embedding)
        return Retriever(remote, SpreadingActivation(chains="hits", threshold=0.001), k=5, backfill=False)
    return CypherSpreadingActivation(database, embedding=index.embedding, chains="hits", k=5, threshold=0.001)


class Engine:
    """The retriever itself."""

    def __init__(self, retriever):
        self.retriever = retriever

    def one(self, question, **options):
        return self._plain(self.retriever.retrieve(question, **options))

    def many(self, questions, **options):
        return [self._plain(hits) for hits in self.retriever.retrieve_batch(questions, **options)]

    async def later(self, question, **options):
        if hasattr(self.retriever, "aretrieve"):
            return self._plain(await self.retriever.aretrieve(question, **options))
        return self.one(question, **options)

    def _plain(self, hits):
        return [(hit.id, hit.kind, str(hit.path), hit.text, _told(hits.notes)) for hit in hits]


class LangChain:
    """The retriever as a LangChain retriever."""

    def __init__(self, retriever):
        self.retriever = LangChainRetriever(retriever=retriever, provenance=True)

    def one(self, question, **options):
        return self._plain(self.retriever.invoke(question, **options))

    def many(self, questions, **options):
        return [self._plain(documents) for documents in self.retriever.batch(questions, **options)]

    async def later(self, question, **options):
        return self._plain(await self.retriever.ainvoke(question, **options))

    def _plain(self, documents):
        return [
            (d.id, d.metadata.get("kind", "node"), _path(d.metadata["path"]), d.page_content, _told(d.metadata.get("notes", [])))
            for d in documents
        ]


class Llama:
    """The retriever as a LlamaIndex retriever; options for one call are those of a retriever made for it."""

    def __init__(self, retriever):
        self.engine = retriever

    def _made(self, k=None, filter=None, seed_filter=None, traversal_filter=None, **inputs):
        return LlamaRetriever(
            self.engine,
            similarity_top_k=k,
            filters=filter,
            seed_filters=seed_filter,
            traversal_filters=traversal_filter,
            inputs={name: lambda question, value=value: value for name, value in inputs.items()},
        )

    def one(self, question, **options):
        return self._plain(self._made(**options).retrieve(question))

    def many(self, questions, **options):
        return [self._plain(nodes) for nodes in self._made(**options).retrieve_batch(questions)]

    async def later(self, question, **options):
        return self._plain(await self._made(**options).aretrieve(question))

    def _plain(self, nodes):
        found = []
        for each in nodes:
            said = provenance(each)
            kind, path = said.get("kind", "node"), _path(said["path"])
            found.append((each.node.node_id, kind, path, each.node.get_content(), _told(said.get("notes", []))))
        return found


def _told(notes):
    # How many round trips a batch took is not told of its questions alone.
    return [note for note in notes if not note.startswith("round trips: ")]


def _path(plain):
    text = plain["nodes"][0]
    for node, relation, forward in zip(plain["nodes"][1:], plain["relations"], plain["forward"], strict=True):
        text += f" -[{relation}]-> {node}" if forward else f" <-[{relation}]- {node}"
    return text


@pytest.fixture(params=[Engine, LangChain, Llama], ids=lambda each: each.__name__)
def way(request, retriever):
    return request.param(retriever)


def nodes_of(hits):
    return [hit[0] for hit in hits if hit[1] == "node"]


def test_the_contract_is_met(retriever):
    assert isinstance(retriever, RetrieverProtocol)
    assert (retriever.k, retriever.inputs) == (5, ("entities",)) and retriever.name


def test_hits_paths_chains_and_notes_arrive(way):
    hits = way.one(QUESTION)
    assert len(nodes_of(hits)) == 5
    assert any("-[links]->" in path for _, kind, path, _, _ in hits if kind == "node")
    chains = [hit for hit in hits if hit[1] == "chain"]
    assert chains and all("[links]" in text and "|" in name for name, _, _, text, _ in chains)
    assert {name for name, *_ in hits} >= {"babbage", "turing"}


def test_index_and_database_find_the_same(index, database):
    write_graph(database, index)
    options = {"chains": "hits", "k": 5, "threshold": 0.001}
    inside = CypherSpreadingActivation(database, embedding=index.embedding, **options)
    memory = on(index, SpreadingActivation, backfill=False, **options)
    calls = [
        {},
        {"k": 2},
        {"entities": ["Herman Hollerith", "nobody at all"]},
        {"filter": {"topic": "machines"}},
        {"seed_filter": {"year": {"$lt": 1900}}, "traversal_filter": {"$id": {"$ne": "engine"}}},
        {"filter": {"year": {"$gte": 1843}}, "seed_filter": {"$title": "Alan Turing"}},
        {"filter": {"begun": {"$lte": date(1935, 12, 31)}}, "seed_filter": {}},
        {"filter": {"shelf": {"row": {"$gt": 5}}}, "seed_filter": {"begun": {"$gt": "1899-12-31T23:00Z"}}},
    ]
    for call in calls:
        for make in (Engine, LangChain, Llama):
            assert make(inside).one(QUESTION, **call) == make(memory).one(QUESTION, **call), (make.__name__, call)


def test_k_is_the_number_of_nodes(way):
    assert [len(nodes_of(way.one(QUESTION, k=k))) for k in (1, 3)] == [1, 3]


def test_entities_take_the_place_of_the_names_in_the_question(way):
    hits = way.one(QUESTION, entities=["Herman Hollerith"])
    assert "hollerith" in nodes_of(hits) and "turing" not in nodes_of(hits)
    assert any("nobody" in note for note in way.one(QUESTION, entities=["Alan Turing", "nobody"])[0][4])


def test_filters_hold(way):
    returned = way.one(QUESTION, filter={"topic": "war"})
    assert nodes_of(returned) and set(nodes_of(returned)) <= {"turing", "bletchley", "colossus"}
    started = way.one(QUESTION, seed_filter={"$id": "babbage"})
    assert all(path.startswith("babbage") for _, kind, path, _, _ in started if kind == "node")
    walked = way.one(QUESTION, traversal_filter={"$id": {"$nin": ["engine", "bletchley"]}})
    assert nodes_of(walked) and not {"engine", "bletchley"} & set(nodes_of(walked))


def test_dates_are_instants_and_fields_have_paths(way):
    years = {name: year for name, _, _, year, _ in CORPUS}
    turn = datetime(1837, 1, 1, tzinfo=UTC)
    asked = {
        # That of Babbage is an hour east, so that it is on the last day of the year before.
        "before": [{"begun": {"$lt": turn}}, {"begun": {"$lt": "1837-01-01"}}, {"begun": {"$lte": date(1836, 12, 31)}}],
        "after": [{"begun": {"$gt": date(1836, 12, 31)}}, {"begun": {"$gte": turn}}, {"$not": {"begun": {"$lt": turn}}}],
        "rows": [{"shelf": {"row": {"$gt": 5}}}, {"shelf.row": {"$in": [6, 7, 8, 9]}}],
        "seen": [{"shelf.seen": {"$contains": 1837}}, {"begun": datetime(1836, 12, 31, 23, 30)}, {"begun": date(1836, 12, 31)}],
    }
    wanted = {
        "before": {name for name, year in years.items() if year <= 1837},
        "after": {name for name, year in years.items() if year > 1837},
        "rows": {name for name, year in years.items() if year % 10 > 5},
        "seen": {name for name, year in years.items() if year == 1837},
    }
    for part, conditions in asked.items():
        found = [nodes_of(way.one(QUESTION, k=12, filter=each)) for each in conditions]
        assert found[0] and set(found[0]) <= wanted[part] and all(each == found[0] for each in found), part


def test_a_batch_gives_what_its_queries_give(way):
    together = way.many([QUESTION, OTHER, QUESTION])
    assert together == [way.one(QUESTION), way.one(OTHER), way.one(QUESTION)]


def test_the_event_loop_gives_the_same(way):
    async def both():
        return await asyncio.gather(way.later(QUESTION), way.later(OTHER))

    assert asyncio.run(both()) == [way.one(QUESTION), way.one(OTHER)]


@pytest.mark.parametrize(
    "options",
    [
        {"k": -1},
        {"filter": {"year": {"$near": 1}}},
        {"filter": {"year": {"gt": 1}}},
        {"filter": {"year": {"$gt": date(1900, 1, 1)}}},
        {"seed_filter": {"shelf": {"row": {"$lt": datetime(1900, 1, 1)}}}},
        {"seed_filter": 5},
        {"plan": []},
    ],
)
def test_what_cannot_be_meant_is_refused(way, options):
    with pytest.raises((InvalidArgumentError, TypeError)):
        way.one(QUESTION, **options)


@pytest.mark.parametrize("question", ["", " \n"])
def test_an_empty_question_lists_what_passes_the_filter(way, question):
    """In the order of the corpus, up to k, alone and in a batch; without a filter there is nothing."""
    passing = [name for name, _, _, year, _ in CORPUS if year > 1930]
    late = {"year": {"$gt": 1930}}
    assert way.one(question) == way.one(question, filter={}) == way.one(question, seed_filter=late) == []
    hits = way.one(question, filter=late, k=2)
    assert [(name, kind, path) for name, kind, path, *_ in hits] == [(name, "node", name) for name in passing[:2]]
    assert hits[0][4] == [LISTING_NOTE]
    assert way.one(question, filter={"year": -1}) == []
    assert nodes_of(way.one(question, filter=late, k=50)) == passing
    assert nodes_of(asyncio.run(way.later(question, filter=late, k=50))) == passing
    together = way.many([QUESTION, question, OTHER], filter=late)
    assert together == [way.one(text, filter=late) for text in (QUESTION, question, OTHER)] and together[0] != together[1]


def test_a_blank_page_is_passed_through_and_not_returned(index, database):
    """In memory, inside a database and over stores: it is neither a seed nor a hit, and takes no place among the k."""
    blank = Node("blank", " ", metadata={"year": 1900, "topic": "war"})
    edges = [Edge("colossus", "blank", "next"), Edge("blank", "far", "next")]
    nodes = [*map(index.graph.node, range(len(index))), blank, Node("far", "Beyond a blank page.", "Far", metadata={"year": 1901})]
    # Most models give a text of spaces some vector: here it is the nearest to any question.
    vectors = torch.tensor(HashEmbedding().embed_documents([node.text + "zzz" * (node is blank) for node in nodes]))
    index = GraphIndex.from_nodes(nodes, [*index.graph.edges(), *edges], vectors=vectors, embedding=HashEmbedding())
    write_graph(database, index)
    options = {"gate": "uniform", "k": 50, "threshold": 0.0001}
    stores = {"vectors": MemoryVectors(index.graph.ids, index.dense.vectors), "words": MemoryWords(index)}
    remote = RemoteIndex(CypherGraphStore(database), **stores, embedding=index.embedding)
    made = [
        on(index, SpreadingActivation, **options, backfill=False, hub_exponent=0.0),
        CypherSpreadingActivation(database, embedding=index.embedding, **options),
        on(remote, SpreadingActivation, **options, backfill=False, hub_exponent=0.0),
    ]
    for question in ("Who used the Colossus?", "zzz", "blank"):
        first, *others = ([(hit.id, hit.path.nodes) for hit in each.retrieve(question)] for each in made)
        assert first == others[0] == others[1]
        assert "blank" not in dict(first)
        assert question != "Who used the Colossus?" or "blank" in dict(first)["far"]
    for each in made:
        assert [hit.id for hit in each.retrieve("", filter={"year": {"$in": [1900, 1901]}})] == ["far"]
        assert not each.retrieve("zzz", filter={"$id": "blank"}) and not each.retrieve("", scope={"$id": "blank"})
    searched = [Retriever(index, Vector(), k=50).retrieve("zzz"), Retriever(remote, Vector(), k=50).retrieve("zzz")]
    assert [hit.id for hit in searched[0]] == [hit.id for hit in searched[1]] and len(searched[0]) == len(index) - 1


@pytest.mark.parametrize("question", [None, 3, b"x"])
def test_a_question_that_is_no_text_is_refused(retriever, question):
    with pytest.raises(InvalidArgumentError, match="Query 0 is .*; a query is a string"):
        retriever.retrieve(question, filter={"topic": "war"})
    with pytest.raises(InvalidArgumentError, match="Query 1 is"):
        retriever.retrieve_batch([QUESTION, question])


def test_an_empty_question_in_a_scope_lists_its_nodes(retriever):
    passing = [name for name, _, _, year, _ in CORPUS if year > 1930]
    late, early = {"year": {"$gt": 1930}}, {"year": {"$lt": 1860}}
    assert [hit.id for hit in retriever.retrieve("", 50, scope=late)] == passing
    assert [hit.id for hit in retriever.retrieve("", 50, scope=late, filter={"$id": {"$ne": passing[0]}})] == passing[1:]
    assert not retriever.retrieve("", scope=late, filter=early) and not retriever.retrieve("", scope={"year": -1})
    both = retriever.retrieve_batch(["", "", QUESTION], 50, scope=[late, early, late])
    assert [[hit.id for hit in hits] for hits in both[:2]] == [passing, [n for n, _, _, year, _ in CORPUS if year < 1860]]
    assert [hit.id for hit in both[2]] == [hit.id for hit in retriever.retrieve(QUESTION, 50, scope=late)]
    assert {(hit.score, hit.similarity, hit.operator, hit.plain_rank) for hit in both[0]} == {(0.0, None, LISTING, None)}
    unfiltered = retriever.retrieve(" ")
    assert not unfiltered and unfiltered.notes == (EMPTY_QUESTION,)
