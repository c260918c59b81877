"""A hundred tenants on one graph in a database and one collection of Qdrant: each gets the answers of a graph of its own."""

import random
from dataclasses import replace

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore

from graph_retrievers import GAR, Edge, FastInsight, GraphIndex, MoR, Pipeline, Retriever, SpreadingActivation
from graph_retrievers.errors import DatabaseError, InvalidArgumentError
from graph_retrievers.operators import VectorSearch
from graph_retrievers.stores.cypher import CypherGraphStore, CypherSpreadingActivation, write_graph
from graph_retrievers.stores.remote import RemoteIndex
from langchain_graph_retrievers import GraphRetriever, LangChainVectors
from llama_graph_retrievers import GraphRetriever as LlamaGraphRetriever
from llama_graph_retrievers import LlamaIndexVectors
from tests.integration.test_cypher_filters import DAY
from tests.integration.test_postgres_filters import owned
from tests.integration.test_scale_out import INPUTS, SYSTEMS, Hashed, in_qdrant, round_trips, sent
from tests.remote import QUESTIONS, CountingRelevance, MemoryGraph, MemoryVectors, assert_same, question_vectors, random_corpus
from tests.retrievers import on
from tests.tenants import foreign

pytestmark = [pytest.mark.slow, pytest.mark.database]
__all__ = ["sent"]

TENANTS = 100


def tenant(number):
    return {"tenant": f"T{number}x"}


@pytest.fixture(scope="module")
def corpus():
    """Nodes, edges and vectors: about 12 nodes of each tenant, edges within and between tenants, words of each in its texts."""
    rng = random.Random(0)
    nodes, edges, vectors = random_corpus(11, 12 * TENANTS, 12 * TENANTS)
    owners = [rng.randrange(TENANTS) for _ in nodes]
    owner = {node.id: number for node, number in zip(nodes, owners, strict=True)}
    nodes = [
        replace(node, text=f"{node.text} BodyT{number}x", metadata={**node.metadata, **tenant(number)})
        for node, number in zip(nodes, owners, strict=True)
    ]
    own = {number: [node.id for node in nodes if owner[node.id] == number] for number in set(owners)}
    for ids in own.values():
        for _ in range(3 * len(ids)):
            edge = Edge(rng.choice(ids), rng.choice(ids), f"r{rng.randrange(4)}", weight=float(rng.randint(1, 4)))
            edges.insert(rng.randrange(len(edges) + 1), edge)
    return nodes, [replace(edge, text=_text(owner, edge)) for edge in edges], vectors


def _text(owner, edge):
    one, other = owner[edge.source], owner[edge.target]
    return f"EdgeT{one}x" if one == other else f"EdgeT{one}x EdgeT{other}x"


def alone(corpus, number, **models):
    """The index of a tenant's nodes and of the edges among them, which knows nobody else."""
    nodes, edges, vectors = corpus
    rows = [row for row, node in enumerate(nodes) if node.metadata["tenant"] == f"T{number}x"]
    ids = {nodes[row].id for row in rows}
    kept = [edge for edge in edges if {edge.source, edge.target} <= ids]
    return GraphIndex.from_nodes([nodes[row] for row in rows], kept, vectors=vectors[rows], metric="cosine", **models)


@pytest.fixture(scope="module")
def engines(corpus, cypher_server):
    """BM25 of all tenants, the database, and Qdrant."""
    nodes, edges, vectors = corpus
    index = GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine")
    database = cypher_server.open()
    write_graph(database, index)
    yield index, database, LangChainVectors(in_qdrant(index))
    cypher_server.clean(database)


def shared(engines, **options):
    index, database, vectors = engines
    options = {"relevance": CountingRelevance(), "vectors": vectors, "signals": {"bm25": index.bm25}, **options}
    return RemoteIndex(CypherGraphStore(database), **options)


def strange(hits, number, own):
    """Return the ids and the words of a result that are another tenant's."""
    named = {node for hit in hits for node in hit.path.nodes} | {hit.id for hit in hits.nodes}
    return [*named.difference(own.graph.ids), *foreign(hits, f"T{number}x", ("Body", "Edge", '"'))]


@pytest.mark.parametrize("place", range(len(SYSTEMS)), ids=list(SYSTEMS))
def test_a_tenant_gets_the_answers_of_an_index_of_its_own(corpus, engines, place):
    name = list(SYSTEMS)[place]
    system, options, *_ = SYSTEMS[name]
    models = {"embedding": Hashed()} if "entities" in name else {}
    vectors, inputs = question_vectors(corpus), INPUTS.get(name, {})
    retriever, found = on(shared(engines, **models), system, **options), 0
    # All tenants, over the systems.
    for number in range(place, TENANTS, len(SYSTEMS)):
        own = alone(corpus, number, relevance=CountingRelevance(), **models)
        batch = retriever.retrieve_batch(QUESTIONS, vectors=vectors, scope=tenant(number), **inputs)
        assert_same(batch, on(own, system, **options).retrieve_batch(QUESTIONS, vectors=vectors, **inputs))
        assert [strange(hits, number, own) for hits in batch] == [[]] * len(QUESTIONS)
        # In as many round trips.
        stores = {"vectors": LangChainVectors(in_qdrant(own)), "signals": {"bm25": own.bm25}}
        remote = RemoteIndex(MemoryGraph(own.graph), relevance=CountingRelevance(), **stores, **models)
        apart = on(remote, system, **options).retrieve_batch(QUESTIONS, vectors=vectors, **inputs)
        assert [hits.notes for hits in batch] == [hits.notes for hits in apart]
        found += sum(map(len, batch))
    assert found > 20


def test_other_filters_narrow_a_scope_and_a_batch_may_have_a_scope_each(corpus, engines):
    vectors = question_vectors(corpus)
    filters = {"filter": {"$type": {"$ne": "place"}}, "traversal_filter": {"year": {"$gte": 1993}}}
    system = FastInsight(budget=12, nodes_per_round=4)
    retriever = Retriever(shared(engines), system)
    numbers = [1, 2, 1, 3]
    batch = retriever.retrieve_batch(QUESTIONS, vectors=vectors, scope=list(map(tenant, numbers)), **filters)
    for hits, question, vector, number in zip(batch, QUESTIONS, vectors, numbers, strict=True):
        own = Retriever(alone(corpus, number, relevance=CountingRelevance()), system)
        assert_same([hits], [own.retrieve(question, vector=vector, **filters)])
        assert hits and all(hit.type != "place" for hit in hits)
    ids = [node.id for node in corpus[0][:40:2]]
    chosen = retriever.retrieve(QUESTIONS[0], vector=vectors[0], scope={"$id": {"$in": ids}})
    assert {node for hit in chosen for node in hit.path.nodes} <= set(ids) and len(chosen) == 10


def test_a_scope_takes_one_round_trip_more_once(corpus, engines, sent):
    retriever, vectors = Retriever(shared(engines), GAR(budget=8)), question_vectors(corpus)
    counts = []
    for scope in (tenant(4), tenant(4), {"tenant": "T4x"}, tenant(5), tenant("nobody"), tenant("nobody"), {}):
        sent.clear()
        hits = retriever.retrieve(QUESTIONS[0], vector=vectors[0], scope=scope)
        counts.append(len(sent) - (round_trips(hits)[0] if hits else 0))
    assert counts == [1, 0, 0, 1, 1, 1, 0] and round_trips(hits)[0] <= 8
    assert retriever.retrieve(QUESTIONS[0], vector=vectors[0], scope=tenant("nobody")).notes == ("no node is in the scope",)
    # The values of a scope are parameters.
    hostile = ["T4x' OR true //", "T4x`) RETURN n //", "$scope_0", "{e}"]
    sent.clear()
    assert [list(retriever.retrieve("?", vector=vectors[0], scope={"tenant": name})) for name in hostile] == [[]] * 4
    assert len(set(sent)) == 1 and len(sent) == 4
    planned = Retriever(retriever.index, MoR())
    sent.clear()
    assert planned.index.within(tenant(4)) is retriever.index.within(tenant(4))
    hits = planned.retrieve(QUESTIONS[0], vector=vectors[0], scope=tenant(4))
    assert len(sent) == round_trips(hits)[0] + 1


def test_a_planner_is_told_of_the_scope_alone(engines, corpus):
    nodes, edges, _ = corpus
    index = shared(engines)
    index.within(tenant(7)).read_schema()
    told = index.within(tenant(7)).facts.value
    types, triples = told("type_names"), told("schema triples")
    own = alone(corpus, 7).graph
    assert types == sorted(set(own.types))
    kinds = dict(zip(own.ids, own.types, strict=True))
    assert triples == sorted({(kinds[edge.source], edge.relation, kinds[edge.target]) for edge in own.edges()})


def test_stores_of_both_frameworks_are_searched_in_a_scope(corpus, engines):
    nodes, _, vectors = corpus
    memory = InMemoryVectorStore(Hashed())
    held = zip(nodes, vectors, strict=True)
    memory.store = {n.id: {"id": n.id, "vector": v.tolist(), "text": "", "metadata": {}} for n, v in held}
    simple = SimpleVectorStore()
    simple.add([TextNode(id_=node.id, embedding=row.tolist()) for node, row in zip(nodes, vectors, strict=True)])
    own = alone(corpus, 8, relevance=CountingRelevance(), embedding=Hashed())
    expected = Retriever(own, GAR(budget=8)).retrieve_batch(QUESTIONS)
    for store in (LangChainVectors(memory), LlamaIndexVectors(simple), engines[2]):
        retriever = Retriever(shared(engines, vectors=store, embedding=Hashed()), GAR(budget=8))
        assert_same(retriever.retrieve_batch(QUESTIONS, scope=tenant(8)), expected)
        ids = [[hit.id for hit in hits] for hits in expected]
        documents = GraphRetriever(retriever=retriever).batch(QUESTIONS, scope=tenant(8))
        assert [[document.id for document in found] for found in documents] == ids
        listed = LlamaGraphRetriever(retriever, scope=tenant(8)).retrieve_batch(QUESTIONS)
        assert [[node.node.node_id for node in found] for found in listed] == ids


def test_spreading_inside_the_database_has_a_hundred_tenants_too(corpus, engines):
    _, database, _ = engines
    inside = CypherSpreadingActivation(database, gate="uniform", k=99)
    for number in range(0, TENANTS, 9):
        own = alone(corpus, number)
        engine = Retriever(own, SpreadingActivation(gate="uniform", hub_exponent=0.0), k=99, backfill=False)
        named = next(title for title in own.graph.titles if title)
        there = inside.retrieve("Which?", scope=tenant(number), entities=[named])
        here = engine.retrieve("Which?", entities=[named])
        assert {hit.id: pytest.approx(hit.score, rel=1e-6) for hit in here} == {hit.id: hit.score for hit in there}
        assert strange(there, number, own) == [] and there


def test_a_filter_with_dates_reads_the_nodes_of_the_scope_alone(database):
    index = GraphIndex.from_nodes(owned())
    write_graph(database, index)
    stored = Retriever(RemoteIndex(CypherGraphStore(database), signals={"bm25": index.bm25}), "bm25")
    inside = CypherSpreadingActivation(database, gate="uniform")
    given = {"filter": {"note": {"$gt": DAY}}}
    assert [hit.id for hit in stored.retrieve("loom", scope={"owner": "b"}, **given)] == ["b0", "b1"]
    assert {hit.id for hit in inside.retrieve("?", scope={"owner": "b"}, entities=["b0"], **given)} == {"b0"}
    # Another owner has dates there, and nobody sees what they are.
    for engine, question, more in ((stored, "loom", {}), (inside, "?", {"entities": ["a0"]})):
        with pytest.raises(InvalidArgumentError, match="no node has a date there; one has 'of a'"):
            engine.retrieve(question, scope={"owner": "a"}, **given, **more)
    assert list(stored.retrieve("loom", scope={"owner": "c"}, **given)) == []


# -- what is refused --------------------------------------------------------------------------------------------------


class Bare:
    """A store that cannot be asked in a scope."""

    def __init__(self, store):
        for name in ("sample", "read", "schema", "search", "vectors"):
            if hasattr(store, name):
                setattr(self, name, getattr(store, name))


class Wide(MemoryVectors):
    """A store that does not keep to the ids."""

    def within(self, ids):
        return self


class Shelf(InMemoryVectorStore.__mro__[1]):
    """A store of LangChain with vectors by id, which has no search among ids."""

    def vectors_by_ids(self, ids):
        return {}

    def similarity_search(self, query, k=4, **kwargs):
        return [Document("", id="x")]

    @classmethod
    def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
        return cls()


def test_what_cannot_be_asked_in_a_scope_is_refused_with_the_reason(corpus, engines):
    nodes, edges, vectors = corpus
    whole = engines[0]
    graph, held = MemoryGraph(whole.graph), MemoryVectors(whole.graph.ids, vectors)
    good = {"vectors": held, "signals": {"bm25": whole.bm25}}

    def asked(store=graph, scope=None, **options):
        retriever = Retriever(RemoteIndex(store, **{**good, **options}), Pipeline(VectorSearch(5)))
        return retriever.retrieve("word1", vector=np.ones(6), scope=tenant(1) if scope is None else scope)

    assert len(asked()) == 10
    with pytest.raises(InvalidArgumentError, match="Bare cannot be asked in a scope; give it the methods within"):
        asked(Bare(graph))
    with pytest.raises(InvalidArgumentError, match="Bare cannot be searched in a scope: nodes outside it would take places"):
        asked(vectors=Bare(held))
    with pytest.raises(InvalidArgumentError, match="found a node outside the scope"):
        asked(vectors=Wide(whole.graph.ids, vectors))
    with pytest.raises(InvalidArgumentError, match="Shelf cannot be searched in a scope: LangChain has no search among some ids"):
        LangChainVectors(Shelf()).within(["a"])
    with pytest.raises(InvalidArgumentError, match="more than max_nodes=5 nodes; their ids"):
        asked(max_nodes=5)
    with pytest.raises(InvalidArgumentError, match="scope is .*expected a mapping"):
        asked(scope=lambda node: True)
    with pytest.raises(InvalidArgumentError, match="scope is a|cannot be part|compared to strings"):
        Retriever(shared(engines), GAR()).retrieve("?", vector=np.ones(6), scope={"made": {"$eq": object()}})


def test_a_node_that_came_into_a_scope_after_its_ids_were_read_is_noticed(corpus):
    nodes, edges, vectors = corpus
    own = [replace(node, metadata={"tenant": "a" if row < 20 else "b"}) for row, node in enumerate(nodes[:40])]
    ids = {node.id for node in own}
    kept = [edge for edge in edges if {edge.source, edge.target} <= ids]
    index = GraphIndex.from_nodes(own, kept, vectors=vectors[:40], metric="cosine", bm25=False)
    graph = MemoryGraph(index.graph)
    retriever = Retriever(RemoteIndex(graph, vectors=MemoryVectors(index.graph.ids, vectors[:40])), FastInsight())
    assert len(retriever.retrieve("?", vector=np.ones(6), scope={"tenant": "a"})) == 10
    scoped = retriever.index.within({"tenant": "a"}).store
    scoped.graph = graph
    with pytest.raises(DatabaseError, match="was not in the scope when its ids were read: the graph was changed"):
        retriever.retrieve("?", vector=np.ones(6), scope={"tenant": "a"})
