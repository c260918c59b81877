"""An index written into a database and Qdrant: answers as in memory, changes only, what is refused."""

import re

import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from graph_retrievers import Edge, GraphIndex, Node, Retriever, WalkFusion
from graph_retrievers.errors import (
    DatabaseAuthError,
    DatabaseError,
    DatabaseUnreachableError,
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidVectorError,
    MissingDatabaseFeatureError,
    MissingSignalError,
)
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.stores.changes import Changes
from graph_retrievers.stores.cypher import CypherDatabase, CypherGraphStore, CypherWords, GraphSchema
from graph_retrievers.stores.engines import write_index
from graph_retrievers.stores.qdrant import QdrantVectors, QdrantWords
from graph_retrievers.stores.qdrant_points import point_id
from graph_retrievers.stores.remote import RemoteIndex
from langchain_graph_retrievers import GraphRetriever
from tests.engines import NOTHING, QUESTIONS, TRADES, Breaking, Losing, change_pages, contents, emptied, index_of, remote_of
from tests.helpers import HashEmbedding
from tests.remote import assert_same
from tests.store_checks import check_stores


def test_a_folder_in_the_engines_gives_the_answers_in_memory(database, client, pages):
    index = index_of(pages)
    written = write_index(index, database, client, "works")
    assert written == (Changes(len(index)), Changes(index.graph.num_edges), Changes(len(index)))
    retriever, local = Retriever(remote_of(database, client)), Retriever(index, WalkFusion())
    assert_same(retriever.retrieve_batch(QUESTIONS), local.retrieve_batch(QUESTIONS))
    vectors, words = QdrantVectors(client, "works"), QdrantWords(client, "works")
    check_stores(index, CypherGraphStore(database), vectors, QUESTIONS, words=words)
    found = GraphRetriever(retriever=retriever).invoke(QUESTIONS[0])
    assert [document.id for document in found] == [hit.id for hit in local.retrieve(QUESTIONS[0])] and len(found) > 3
    scope = {"path": {"$in": ["loom.md", "card.md", "mill.md", "engine.md"]}}
    hits = retriever.retrieve(QUESTIONS[0], scope=scope)
    assert {hit.id for hit in hits} <= {node for node in index.graph.ids if node.partition("#")[0] in scope["path"]["$in"]}
    assert len(hits) > 3


def test_changed_documents_write_their_changes_alone(database, client, pages):
    before = index_of(pages)
    write_index(before, database, client, "works", length_drift=0)
    gone = {node for node in before.graph.ids if node.startswith(("clock.md", "still.md"))}
    change_pages(pages)
    after = index_of(pages)
    nodes, edges, points = write_index(after, database, client, "works", length_drift=0)
    # A page and a section that are new, and four sections with links to what is gone; others got another place or degree alone.
    assert nodes.written == 6 and 0 < nodes.moved <= 12 and nodes.deleted == points.deleted == len(gone)
    assert 0 < edges.written < after.graph.num_edges / 2 and edges.moved > 0
    changed = contents(database, client)
    assert not gone & changed[0].keys() and not gone & changed[2].keys() and changed[0].keys() == set(after.graph.ids)
    assert write_index(after, database, client, "works", length_drift=0) == (NOTHING, NOTHING, NOTHING)
    assert contents(database, client) == changed
    assert_same(
        Retriever(remote_of(database, client)).retrieve_batch(QUESTIONS),
        Retriever(after, WalkFusion()).retrieve_batch(QUESTIONS),
    )
    fresh = emptied(database)
    write_index(after, database, fresh, "works", length_drift=0)
    assert contents(database, fresh) == changed


def test_changes_by_source_reach_the_engines(database, client, pages):
    index = index_of(pages)
    write_index(index, database, client, "works")
    changed = index.with_changes(delete_sources=["kiln.md"], upsert=[Node("loom.md", "A loom that was sold.", "Loom")])
    nodes, _, points = write_index(changed, database, client, "works", length_drift=0.2)
    assert nodes.deleted == points.deleted == len(index) - len(changed) > 0 and (nodes.written, points.written) == (1, 1)
    held = contents(database, client)
    assert held[0]["loom.md"]["description"] == "A loom that was sold." and not any("kiln" in node for node in held[0] | held[2])


def test_the_last_nodes_of_batches_are_deleted(database, client):
    ids = [f"n{place}" for place in range(9)]
    index = GraphIndex.from_texts(["a loom"] * 9, ids=ids)
    write_index(index, database, client, "works", batch_size=8)
    # The places of one batch, and of the next.
    for gone in (["n8"], ["n7"]):
        index = index.with_changes(delete=gone)
        nodes, _, points = write_index(index, database, client, "works", batch_size=8, length_drift=1)
        assert nodes.deleted == points.deleted == 1 and contents(database, client)[0].keys() == set(index.graph.ids)
    one = GraphIndex.from_texts(["a loom"], ids=["other"])
    write_index(index.with_changes(delete=ids[1:7]), database, client, "works", replace=True)
    assert write_index(one, database, client, "works", replace=True).nodes == Changes(1, 0, 1)


def test_a_text_or_a_vector_alone_is_written_alone(database, client):
    texts, vectors = ["oak loom", "ash card", "elm mill", "fir clock"], np.eye(4)

    def written(texts, vectors):
        index = GraphIndex.from_texts(texts, ids=list("abcd"), vectors=vectors)
        nodes, _, points = write_index(index, database, client, "works")
        return nodes.written, points.written

    assert written(texts, vectors) == (4, 4) and written(texts, vectors) == (0, 0)
    turned = np.eye(4)[[0, 1, 3, 2]]
    assert written(texts, turned) == (0, 2)
    np.testing.assert_allclose(QdrantVectors(client, "works").vectors(["c"])["c"], turned[2], atol=1e-6)
    texts[1] = "yew card"
    assert written(texts, turned) == (1, 1) and QdrantWords(client, "works").search(["yew"], 1)[0][0][0] == "b"


def test_a_weight_or_a_text_of_an_edge_is_written_and_no_move(database, client):
    def written(*edges):
        return write_index(
            GraphIndex.from_texts(["a loom", "a card"], ids=["a", "b"], edges=edges), database, client, "works"
        ).edges

    first, second = Edge("a", "b", "reads"), Edge("b", "a", "reads")
    assert written(first, second) == Changes(2)
    assert written(second, first) == Changes(0, 2)
    assert written(second, Edge("a", "b", "reads", weight=0.5)) == Changes(1)
    assert written(second, Edge("a", "b", "reads", weight=0.5, text="by hand")) == Changes(1)
    assert written(second) == Changes(0, 0, 1)


def test_words_are_written_anew_only_where_the_mean_length_has_drifted(database, client):
    def made(texts):
        return GraphIndex.from_texts(texts, ids=[f"n{row}" for row in range(len(texts))])

    texts = ["loom of oak " * 5 for _ in range(200)]
    write_index(made(texts), database, client, "works")
    a_little, much = [*texts, "loom of oak " * 10], [*texts, "loom of oak " * 500]
    assert write_index(made(a_little), database, client, "works").points == Changes(1)
    scores = dict(QdrantWords(client, "works").search(["oak"], 300)[0])
    memory = dict(zip(made(a_little).graph.ids, made(a_little).bm25.scores(["oak"], *pairs(201)).tolist(), strict=True))
    assert scores == pytest.approx(memory, rel=0.01) and scores != pytest.approx(memory, rel=1e-4)
    # Asked for the scores in memory, they are all written, and again where texts are much longer.
    assert write_index(made(a_little), database, client, "works", length_drift=0).points == Changes(201)
    assert dict(QdrantWords(client, "works").search(["oak"], 300)[0]) == pytest.approx(memory, rel=1e-5)
    assert write_index(made(much), database, client, "works").points == Changes(201)


def pairs(count):
    import torch

    return torch.zeros(count, dtype=torch.int64), torch.arange(count)


HOSTILE = [
    "'}) DETACH DELETE n //",
    "Ada` SET n.owned = true //",
    '"a" \\"b\\" \\',
    "$ids",
    "$rows",
    "{id: 'x'}",
    "a\nb\t😀\r\n",
    "x" * 2000,
    "  ",
    "12",
    "A0000000-0000-4000-8000-000000000000",
    "a0000000-0000-4000-8000-000000000000",
    "é/ß/漢字#ﬁ",
]


def hostile():
    nodes = [
        Node(name, f"{name} turns {place}", name * (1 + place % 3), name[:50], {name[:90]: name, "list": [name]})
        for place, name in enumerate(HOSTILE)
    ]
    edges = [Edge(HOSTILE[place - 1], name, name, text=name) for place, name in enumerate(HOSTILE)]
    edges += [Edge(HOSTILE[0], HOSTILE[1], "twice", weight=weight) for weight in (1.0, 0.1, 1.0)] + [
        (HOSTILE[2], HOSTILE[2], "self")
    ]
    return GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(16))


def test_ids_and_titles_may_be_any_text(database, client):
    index = hostile()
    write_index(index, database, client, "works", length_drift=0)
    held = contents(database, client)
    assert held[0].keys() == held[2].keys() == set(HOSTILE) and len(held[1]) == index.graph.num_edges
    assert write_index(index, database, client, "works", length_drift=0) == (NOTHING, NOTHING, NOTHING)
    retriever = Retriever(remote_of(database, client))
    asked = [*HOSTILE[:7], "turns 3"]
    assert_same(retriever.retrieve_batch(asked), Retriever(index, WalkFusion()).retrieve_batch(asked))
    for name in HOSTILE:
        assert QdrantVectors(client, "works").vectors([name]).keys() == {name}
    # One goes, with its edges; the copies of another edge are fewer.
    kept = [node for node in map(index.graph.node, range(len(index))) if node.id != HOSTILE[3]]
    edges = [edge for edge in index.graph.edges() if HOSTILE[3] not in (edge.source, edge.target) and edge.weight != 1.0]
    smaller = GraphIndex.from_nodes(kept, edges, embedding=HashEmbedding(16))
    write_index(smaller, database, client, "works", length_drift=0, replace=True)
    changed = contents(database, client)
    fresh = emptied(database)
    write_index(smaller, database, fresh, "works", length_drift=0)
    assert contents(database, fresh) == changed and HOSTILE[3] not in changed[0]


def test_a_long_title_can_be_written_and_a_longer_id_cannot(database, client):
    nodes = [Node("a", "A loom.", "words " * 60_000), Node("b", "A card.")]
    index = GraphIndex.from_nodes(nodes, embedding=HashEmbedding(16))
    write_index(index, database, client, "works")
    assert Retriever(remote_of(database, client)).retrieve("a card")[0].id == "b"
    with pytest.raises(InvalidArgumentError, match="has 2,001 characters; the index of a database takes at most 2,000: shorten"):
        write_index(GraphIndex.from_texts(["a"], ids=["y" * 2001]), database, client, "works", replace=True)


def test_a_long_label_has_indexes_of_its_own(cypher_server, client, monkeypatch):
    index, made, plain = GraphIndex.from_texts(["A loom."]), [], CypherDatabase.write
    monkeypatch.setattr(CypherDatabase, "write", lambda self, text, **given: made.append(text) or plain(self, text, **given))
    # Names that are cut to 128 characters would end in a space, or be those of others.
    for label in ("l" * 110, "l" * 127 + "a", "l" * 127 + "b"):
        database = cypher_server.open(label=label)
        write_index(index, database, client, label[-1])
        assert len(contents(database, client, label[-1])[0]) == 1
        database.write(f"MATCH (n:`{label}`) DETACH DELETE n")
        database.close()
    names = [text.split("`")[1] for text in made if text.startswith("CREATE")]
    assert len(names) == len(set(names)) == 9


def test_two_indexes_of_one_database_and_one_qdrant_are_kept_apart(cypher_server, database, client, pages):
    first = index_of(pages)
    write_index(first, database, client, "works")
    whole = contents(database, client)
    other = cypher_server.open()
    # The same ids, and other texts.
    second = GraphIndex.from_texts(["A town."] * len(first), ids=first.graph.ids, edges=[("loom.md", "card.md", "near")])
    write_index(second, other, client, "towns")
    assert contents(database, client) == whole
    assert Retriever(remote_of(database, client)).retrieve(QUESTIONS[0])[0].text != "A town."
    write_index(second.with_changes(delete=["kiln.md"]), other, client, "towns")
    assert contents(database, client) == whole and "kiln.md" not in contents(other, client, "towns")[0]
    cypher_server.clean(other)


def test_what_cannot_be_meant_is_refused_before_anything_is_written(cypher_server, database, client, pages):
    index = index_of(pages)
    write_index(index, database, client, "works")
    whole = contents(database, client)
    nodes = [index.graph.node(row) for row in range(len(index))]
    other = [Node(f"other {row}", f"Text {row}.") for row in range(9)]
    wide, models_ = HashEmbedding(32), HashEmbedding(16)
    models_.name = "another-model"
    named = HashEmbedding(16)
    named.name = "hashes"
    cases = [
        (DimensionMismatchError, "has vectors of width 16, and this index of width 32. Give another", nodes, wide, "works"),
        (DimensionMismatchError, "this index has none: build it with embedding=. Give another", nodes, None, "works"),
        (InvalidArgumentError, "of the model 'HashEmbedding', and this index of 'another-model'. Give", nodes, models_, "works"),
        (
            InvalidArgumentError,
            "24 nodes, and 24 of them are not in this index: it may be of other",
            other,
            HashEmbedding(16),
            "works",
        ),
        (InvalidArgumentError, "The label .* holds .* are not in this index", other, named, "new"),
    ]
    cases = [(kind, said.replace("24", str(len(index))), *rest) for kind, said, *rest in cases]
    for kind, said, given, model, name in cases:
        with pytest.raises(kind, match=said):
            write_index(GraphIndex.from_nodes(given, embedding=model), database, client, name)
    client.create_collection("theirs", vectors_config=models.VectorParams(size=16, distance=models.Distance.COSINE))
    with pytest.raises(
        InvalidArgumentError, match="'theirs' was not made by write_index, which would delete its points; give another"
    ):
        write_index(index, database, client, "theirs", replace=True)
    with pytest.raises(MissingSignalError, match="no BM25"):
        write_index(GraphIndex.from_nodes(nodes, embedding=HashEmbedding(16), bm25=False), database, client, "works")
    with pytest.raises(InvalidArgumentError, match="length_drift"):
        write_index(index, database, client, "works", length_drift=2)
    with pytest.raises(InvalidArgumentError, match="names no relationship type"):
        write_index(index, cypher_server.open(schema=GraphSchema(label=database.schema.label, relationship=None)), client, "works")
    with pytest.raises(InvalidArgumentError, match="The collection 'works' holds .* are not in this index"):
        write_index(GraphIndex.from_nodes(other, embedding=HashEmbedding(16)), cypher_server.open(), client, "works")
    with pytest.raises(InvalidArgumentError, match="expected CypherWords of the same label, or None for words in Qdrant"):
        write_index(index, database, client, "new", words=CypherWords(cypher_server.open()))
    with pytest.raises(InvalidArgumentError, match="expected CypherWords of the same label"):
        write_index(index, database, client, "new", words=QdrantWords(client, "new"))
    with pytest.raises(InvalidArgumentError, match="expected a CypherDatabase"):
        write_index(index, CypherGraphStore(database), client, "new")
    assert contents(database, client) == whole and not client.collection_exists("new")
    # What is meant: another model in the place of this one, and other documents.
    write_index(GraphIndex.from_nodes(nodes, embedding=wide), database, client, "works", replace=True)
    assert Retriever(remote_of(database, client, embedding=wide)).retrieve(QUESTIONS[0])
    # The collection is made anew, of which no points are left to delete.
    changes = write_index(GraphIndex.from_nodes(other, embedding=HashEmbedding(16)), database, client, "works", replace=True)
    assert changes.points == Changes(9) and changes.nodes == Changes(9, 0, len(index))
    assert contents(database, client)[0].keys() == contents(database, client)[2].keys() == {node.id for node in other}


def test_what_the_relevance_model_reads_is_told(database, client):
    graph = CorpusGraph(["a", "b"], ["A loom.", "A card."], titles=["Loom", "Card"], include_titles=False)
    write_index(GraphIndex.from_graph(graph, embedding=HashEmbedding(16)), database, client, "works")
    assert not remote_of(database, client).include_titles and remote_of(database, client, include_titles=True).include_titles


def test_vectors_without_the_name_of_a_model_keep_the_one_that_is_known(database, client):
    nodes, other = [Node("a", "A loom."), Node("b", "A card.")], HashEmbedding(16)
    other.name = "another-model"
    index = GraphIndex.from_nodes(nodes, embedding=HashEmbedding(16))
    assert write_index(index, database, client, "works", batch_size=1).points == Changes(2)
    assert write_index(GraphIndex.from_nodes(nodes, vectors=index.dense.vectors), database, client, "works").points == NOTHING
    with pytest.raises(InvalidArgumentError, match="of the model 'HashEmbedding', and this index of 'another-model'"):
        write_index(GraphIndex.from_nodes(nodes, embedding=other), database, client, "works")


def test_nodes_without_a_vector_are_told(database, client, caplog):
    vectors = np.diag([1.0, 0.0, 1.0])
    index = GraphIndex.from_texts(["A loom.", "A card.", "A mill."], ids=["a", "b", "c"], vectors=vectors)
    write_index(index, database, client, "works")
    said = "1 of 3 nodes have no vector (a row of zeros), such as 'b': on engines, a retriever that compares one ends in an error."
    assert caplog.messages == [said]
    retriever = Retriever(remote_of(database, client, embedding=None), WalkFusion(form="links"))
    with pytest.raises(InvalidVectorError, match="no vector of node 'b'"):
        retriever.retrieve("card", vector=vectors[0])
    # Words alone, in a collection of others, which has vectors of its own.
    sparse = {"words": models.SparseVectorParams(modifier=models.Modifier.IDF)}
    client.create_collection("theirs", vectors_config={}, sparse_vectors_config=sparse)
    client.upsert("theirs", [models.PointStruct(id=point_id(node), vector={}) for node in index.graph.ids])
    QdrantWords(client, "theirs").fill(index)
    assert caplog.messages == [said]


@pytest.mark.parametrize("others", ["", ", position: 0", ", position: 'porter'", ", digest: '0'"])
def test_nodes_of_others_are_not_deleted(database, client, others):
    database.write(f"CREATE (:`{database.schema.label}` {{id: 'theirs', name: 'Theirs'{others}}})")
    index = GraphIndex.from_texts(["A loom."])
    with pytest.raises(InvalidArgumentError, match="1 of the 1 nodes with the label .* were not written by write_graph, and would"):
        write_index(index, database, client, "works", replace=True)
    assert not client.collection_exists("works")


@pytest.mark.parametrize("payload", [None, {"node_id": "theirs"}, {"digest": "0"}])
def test_points_of_others_are_not_deleted(database, client, payload):
    index = GraphIndex.from_texts(["A loom.", "A card.", "A mill."], vectors=np.eye(3))
    write_index(index, database, client, "works")
    held = contents(database, client)[0]
    client.upsert("works", [models.PointStruct(id=7, vector={"": [1.0, 0.0, 0.0]}, payload=payload)])
    wide = GraphIndex.from_texts(["A loom.", "A card.", "A mill."], vectors=np.eye(4)[:3])
    for other in (index.with_changes(delete=["1"]), wide):
        with pytest.raises(
            InvalidArgumentError, match="'works' holds points that were not written here, such as 7, and would be del"
        ):
            write_index(other, database, client, "works", replace=True)
    assert client.count("works").count == 4 and contents(database, QdrantClient(":memory:"))[0] == held


def test_two_nodes_of_one_point_are_refused(database, client):
    made = point_id("loom")
    index = GraphIndex.from_texts(["A card.", "A loom.", "A mill."], ids=[made, "loom", "mill"])
    with pytest.raises(
        InvalidArgumentError, match=f"The nodes '{made}' and 'loom' have the same point in Qdrant, {made}, which is"
    ):
        write_index(index, database, client, "works")
    assert not client.collection_exists("works") and contents(database, client)[0] == {}


def test_dot_products_that_are_no_cosines_are_refused(database, client):
    texts, vectors = ["A loom.", "A card."], np.diag([1.0, 2.0])
    with pytest.raises(InvalidArgumentError, match="compares its vectors by dot products, and engines by cosine, .* metric="):
        write_index(GraphIndex.from_texts(texts, vectors=vectors, metric="dot"), database, client, "works")
    assert not client.collection_exists("works")
    write_index(GraphIndex.from_texts(texts, vectors=vectors, metric="cosine"), database, client, "works")
    # The same cosines, and a row of zeros, which is not a vector.
    assert write_index(GraphIndex.from_texts(texts, vectors=np.eye(2), metric="dot"), database, client, "works").points == NOTHING
    assert write_index(GraphIndex.from_texts(texts, vectors=np.diag([1.0, 0.0])), database, client, "works").points == Changes(1)


def test_long_texts_are_written_in_smaller_requests(database, client, monkeypatch):
    texts = [" ".join(f"w{place}x{word}" for word in range(200)) for place in range(10)] + ["a loom"] * 5
    index = GraphIndex.from_texts(texts, vectors=np.eye(15))
    # Two texts, or two points of 15 and twice 200 numbers.
    monkeypatch.setattr("graph_retrievers.stores.cypher.writer._CHARACTERS", 2 * len(texts[0]) + 5)
    monkeypatch.setattr("graph_retrievers.stores.qdrant_points._NUMBERS", 2 * 415)
    breaking = Breaking(monkeypatch, client)
    sizes, plain = [], CypherDatabase.write
    breaking.upsert = lambda name, points: sizes.append(len(points)) or client.upsert(name, points)
    monkeypatch.setattr(
        CypherDatabase, "write", lambda self, text, **given: sizes.append(len(given.get("rows", ""))) or plain(self, text, **given)
    )
    assert write_index(index, database, breaking, "works")[::2] == (Changes(15), Changes(15))
    assert [size for size in sizes if size] == [2, 2, 2, 2, 2, 5] * 2
    # One that is larger than that is written all the same.
    monkeypatch.setattr("graph_retrievers.stores.cypher.writer._CHARACTERS", 5)
    monkeypatch.setattr("graph_retrievers.stores.qdrant_points._NUMBERS", 5)
    emptied(database)
    assert write_index(index, database, client, "other")[::2] == (Changes(15), Changes(15))
    assert client.count("other").count == 15


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("relations", [["knows"], ["knows", "likes"]])
def test_the_default_is_that_in_memory(database, client, vectors, relations):
    names = [f"{trade} {place}" for place, trade in enumerate(TRADES)]
    nodes = [Node(name, f"text {place}", name, ("tool", "house")[place % 2]) for place, name in enumerate(names)]
    edges = [(name, names[place - 3], relations[place % len(relations)]) for place, name in enumerate(names)]
    index = GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding(16) if vectors else None)
    write_index(index, database, client, "works", length_drift=0)
    words = QdrantWords(client, "works")
    remote = remote_of(database, client) if vectors else RemoteIndex(CypherGraphStore(database), words=words)
    retriever, local = Retriever(remote), Retriever(index)
    assert retriever.name == local.name == ("BM25" if not vectors else "WalkFusion" if relations[1:] else "SpreadingActivation")
    asked = ["Which house knows Card 1?", "text 4", "the Kiln"]
    assert_same(retriever.retrieve_batch(asked), local.retrieve_batch(asked))


class Refusing:
    """A client of a server that refuses or is gone."""

    def __init__(self, error):
        self.error = error

    def __getattr__(self, name):
        def call(*given, **named):
            raise self.error

        return call


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            UnexpectedResponse(401, "Unauthorized", b"no", {}),
            DatabaseAuthError,
            "(?s)refused the API key .*Check QdrantClient.api_key=",
        ),
        (UnexpectedResponse(403, "Forbidden", b"no", {}), DatabaseAuthError, "refused the API key"),
        (ResponseHandlingException(OSError("refused")), DatabaseUnreachableError, "cannot be reached .*Check its address"),
        (UnexpectedResponse(500, "Error", b"no", {}), DatabaseError, "Qdrant failed .UnexpectedResponse"),
    ],
)
def test_an_engine_that_refuses_is_told_before_anything_is_written(database, error, kind, said):
    with pytest.raises(kind, match=said):
        write_index(GraphIndex.from_texts(["A loom."]), database, Refusing(error), "works")
    assert not database.read(f"MATCH (n:`{database.schema.label}`) RETURN n")


def test_words_of_the_database_take_the_place_of_those_of_qdrant(cypher_server, database, client, pages):
    index = index_of(pages)
    words = CypherWords(database)
    if cypher_server.process is not None:
        with pytest.raises(MissingDatabaseFeatureError) as caught:
            write_index(index, database, client, "works", words=words)
        assert contents(database, client)[0] == {} and not client.collection_exists("works")
        label = database.schema.label
        for statement in re.search(r"CREATE VERTEX .*FULL_TEXT", str(caught.value)).group().split("; "):
            cypher_server.sql(statement)
        words = CypherWords(database, f"{label}[name,description]")
    write_index(index, database, client, "works", words=words)
    assert set(client.scroll("works", limit=1, with_vectors=True)[0][0].vector) != {"words"}
    retriever = Retriever(remote_of(database, client, words=words))
    found = [{hit.id for hit in retriever.retrieve(question)} for question in QUESTIONS[:3]]
    local = [{hit.id for hit in Retriever(index, WalkFusion()).retrieve(question)} for question in QUESTIONS[:3]]
    assert np.mean([len(a & b) / len(b) for a, b in zip(found, local, strict=True)]) >= 0.7
    change_pages(pages)
    write_index(index_of(pages), database, client, "works", words=words)
    assert not any(name.startswith("clock.md") for name, _ in words.search(["clock"], 50)[0])
    found = words.search(["anvil stands"], 50)[0]
    scores = [score for _, score in found]
    assert any(name == "anvil.md" for name, _ in found) and scores == sorted(scores, reverse=True) and scores[0] > scores[-1]
    # A write that was stopped is not taken for whole.
    with pytest.raises(DatabaseError, match="lost"):
        write_index(index_of(pages), database, Losing(client), "works", words=words)
    with pytest.raises(InvalidArgumentError, match="or they are being filled"):
        words.traits()
