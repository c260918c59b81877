"""An index written into a database and Qdrant: answers as in memory, changes alone, what was interrupted, what is refused."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from graph_retrievers import Edge, GraphIndex, Node, WalkFusion, build_retriever, minilm
from graph_retrievers.cli import main
from graph_retrievers.construction import DocumentStructure, Links, TitleMentions, read_folder
from graph_retrievers.errors import (
    DatabaseAuthError,
    DatabaseError,
    DatabaseUnreachableError,
    DimensionMismatchError,
    GraphRetrieverError,
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
from graph_retrievers.stores.qdrant_points import QdrantPoints, point_id
from graph_retrievers.stores.remote import RemoteIndex, RemoteRetriever, ScopedVectorStore, ScopedWordStore
from langchain_graph_retrievers import GraphRetriever
from tests.helpers import HashEmbedding
from tests.remote import assert_same

TRADES = ("Loom", "Card", "Mill", "Engine", "Clock", "Press", "Lathe", "Forge", "Kiln", "Still")
QUESTIONS = ["Which machine reads the card?", "What does the Forge make for the mill?", "press 3 and lathe", "nothing of the kind"]
WRITES = ("create_collection", "update_collection", "delete_collection", "upsert", "delete", "update_vectors", "delete_vectors")
NOTHING = Changes(0, 0, 0)


def write_pages(folder):
    for place, trade in enumerate(TRADES):
        others = [TRADES[(place + step) % len(TRADES)] for step in (1, 3)]
        text = f"# {trade}\nThe {trade} of the works makes part {place} for the [{others[0]}]({others[0].lower()}.md).\n"
        text += (
            f"\n## Use\nWhat the {others[1]} reads, the {trade} turns {place + 2} times.\nSee [more]({others[1].lower()}.md#use).\n"
        )
        Path(folder, f"{trade.lower()}.md").write_text(text, encoding="utf-8")
    return folder


def change_pages(folder):
    """Remove two pages, change one, add one that comes first."""
    for name in ("clock.md", "still.md"):
        Path(folder, name).unlink()
    with open(Path(folder, "mill.md"), "a", encoding="utf-8") as page:
        page.write("\n## News\nIt grinds what the [Anvil](anvil.md) leaves.\n")
    Path(folder, "anvil.md").write_text("# Anvil\nIt stands by the [forge](forge.md), long words and more words of it.\n")


def index_of(folder, **options):
    edges = [Links(field="links"), DocumentStructure(parts=False), TitleMentions()]
    return GraphIndex.from_documents(read_folder(folder, max_tokens=20), edges=edges, embedding=HashEmbedding(16), **options)


@pytest.fixture
def pages(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    return write_pages(folder)


@pytest.fixture
def client():
    return QdrantClient(":memory:")


def contents(database, client, collection="works"):
    """All that the engines hold under a label and in a collection."""
    label = database.schema.label
    nodes = {row["p"]["id"]: row["p"] for row in database.read(f"MATCH (n:`{label}`) RETURN properties(n) AS p")}
    edges = database.read(f"MATCH (a:`{label}`)-[e]->(b) RETURN a.id AS a, b.id AS b, properties(e) AS p")
    edges = sorted((row["a"], row["b"], sorted(row["p"].items(), key=str)) for row in edges)
    if not client.collection_exists(collection):
        return nodes, edges, {}, None
    points = client.scroll(collection, limit=1000, with_payload=True, with_vectors=True)[0]
    points = {point.payload["node_id"]: (point.id, point.payload, plain(point.vector)) for point in points}
    return nodes, edges, points, client.get_collection(collection).config.metadata


def plain(vector):
    """Vectors as the local mode keeps them, which normalises them again when it writes them again."""
    named = vector if isinstance(vector, dict) else {"": vector}
    return {name: np.round(held, 5).tolist() if isinstance(held, list) else held for name, held in named.items()}


def emptied(database):
    database.write(f"MATCH (n:`{database.schema.label}`) DETACH DELETE n")
    return QdrantClient(":memory:")


def remote_of(database, client, collection="works", **options):
    vectors, words = QdrantVectors(client, collection), QdrantWords(client, collection)
    assert isinstance(vectors, ScopedVectorStore) and isinstance(words, ScopedWordStore)
    return RemoteIndex(CypherGraphStore(database), **{"vectors": vectors, "words": words, "embedding": HashEmbedding(16)} | options)


class Breaking:
    """Counts the writes to both engines, and ends the one of a given number in an error, before or after it was made."""

    def __init__(self, monkeypatch, client, at=None):
        self.client, self.at, self.count, plain = client, at, 0, CypherDatabase.write
        monkeypatch.setattr(CypherDatabase, "write", lambda *given, **named: self.call(plain, *given, **named))

    def __getattr__(self, name):
        method = getattr(self.client, name)
        return (lambda *given, **named: self.call(method, *given, **named)) if name in WRITES else method

    def call(self, method, *given, **named):
        self.count += 1
        broken = self.count == self.at
        if broken and self.at % 2:
            raise ConnectionResetError("before")
        made = method(*given, **named)
        if broken:
            raise ConnectionResetError("after")
        return made


def test_a_folder_in_the_engines_gives_the_answers_in_memory(database, client, pages):
    index = index_of(pages)
    written = write_index(index, database, client, "works")
    assert written == (Changes(len(index)), Changes(index.graph.num_edges), Changes(len(index)))
    retriever, local = RemoteRetriever(remote_of(database, client)), WalkFusion(index)
    assert_same(retriever.retrieve_batch(QUESTIONS), local.retrieve_batch(QUESTIONS))
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
    assert_same(RemoteRetriever(remote_of(database, client)).retrieve_batch(QUESTIONS), WalkFusion(after).retrieve_batch(QUESTIONS))
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


def test_a_write_that_failed_goes_on_where_it_stopped(database, pages, monkeypatch):
    index, options = index_of(pages), {"batch_size": 8}
    client = Breaking(monkeypatch, QdrantClient(":memory:"))
    write_index(index, database, client, "works", **options)
    whole, total = contents(database, client.client), client.count
    assert total > 20
    for at in range(1, total + 1, 2 if total < 40 else 3):
        monkeypatch.undo()
        client = Breaking(monkeypatch, emptied(database), at)
        with pytest.raises((ConnectionResetError, DatabaseUnreachableError)):
            write_index(index, database, client, "works", **options)
        nodes, edges, points, _ = contents(database, client.client)
        if at < total:
            with pytest.raises(GraphRetrieverError):
                remote_of(database, client.client)
        again = write_index(index, database, client, "works", **options)
        # What is there was not written again.
        assert [each.written for each in again] == [len(index) - len(nodes), len(whole[1]) - len(edges), len(index) - len(points)]
        assert contents(database, client.client) == whole


def test_a_change_that_failed_goes_on_where_it_stopped(database, pages, tmp_path, monkeypatch):
    before = index_of(pages)
    change_pages(pages)
    after, options = index_of(pages), {"batch_size": 8}
    fresh = QdrantClient(":memory:")
    write_index(after, database, fresh, "works", length_drift=0)
    whole = contents(database, fresh)
    for at in (2, 5, 7, 9, 12, 14, 17, 20):
        monkeypatch.undo()
        client = emptied(database)
        write_index(before, database, client, "works")
        with pytest.raises((ConnectionResetError, DatabaseUnreachableError)):
            write_index(after, database, Breaking(monkeypatch, client, at), "works", length_drift=0, **options)
        monkeypatch.undo()
        # Qdrant is marked as being filled before the database is changed; what was read before is not taken for whole.
        if at > 2:
            with pytest.raises(InvalidArgumentError, match="is being filled, or that was interrupted"):
                QdrantWords(client, "works").traits()
        write_index(after, database, client, "works", length_drift=0, **options)
        assert contents(database, client) == whole


class Losing:
    """A client that is lost when the collection is marked."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        if name == "update_collection":
            raise RuntimeError("lost")
        return getattr(self.client, name)


class Meeting:
    """A client, of which the first request of points lets another write begin and end."""

    def __init__(self, client, other):
        self.client, self.other = client, other

    def __getattr__(self, name):
        if name == "upsert" and self.other is not None:
            other, self.other = self.other, None
            other()
        return getattr(self.client, name)


def test_of_two_writes_at_once_neither_is_taken_for_whole(database, client, pages):
    index = index_of(pages)
    change_pages(pages)
    other = index_of(pages)
    meeting = Meeting(client, lambda: write_index(other, database, client, "works"))
    with pytest.raises(DatabaseError, match="Another write to the collection 'works' began while this one ran, and each"):
        write_index(index, database, meeting, "works")
    with pytest.raises(InvalidArgumentError, match="is being filled"):
        remote_of(database, client)
    # The write that began last, where the other ends before it.
    first, last = (QdrantPoints(client, "works", each) for each in (index, other))
    first.begin()
    last.begin()
    for points in (first, last):
        with pytest.raises(DatabaseError, match="Another write"):
            points.finish()
    write_index(other, database, client, "works", length_drift=0)
    changed = contents(database, client)
    fresh = emptied(database)
    write_index(other, database, fresh, "works", length_drift=0)
    assert contents(database, fresh) == changed


def test_a_write_ends_before_its_next_batch_where_another_began(database, client, pages, monkeypatch):
    index, plain = index_of(pages), CypherDatabase.write
    other = []

    def write(self, text, **given):
        plain(self, text, **given)
        if "MERGE (n" in text:
            other.append(QdrantPoints(client, "works", index))
            other[-1].begin()

    monkeypatch.setattr(CypherDatabase, "write", write)
    with pytest.raises(DatabaseError, match="Another write to the collection 'works' began"):
        write_index(index, database, client, "works", batch_size=8)
    assert len(contents(database, client)[0]) == 8 and len(other) == 1
    with pytest.raises(DatabaseError, match="Another write"):
        other[0].write()


def test_a_write_that_the_database_ends_tells_another_that_began(database, client, pages, monkeypatch):
    index, plain = index_of(pages), CypherDatabase.write

    def write(self, text, **given):
        if "-[e" in text:
            other.begin()
            raise DatabaseError("a deadlock")
        return plain(self, text, **given)

    write_index(index, database, client, "works")
    other = QdrantPoints(client, "works", index)
    monkeypatch.setattr(CypherDatabase, "write", write)
    emptied(database)
    with pytest.raises(DatabaseError, match="a deadlock"):
        write_index(index, database, client, "works")
    with pytest.raises(DatabaseError, match="Another write to the collection 'works' began"):
        other.finish()
    # Alone, it goes on.
    monkeypatch.undo()
    write_index(index, database, client, "works")
    assert remote_of(database, client)


KILLED = """
import os, signal, sys
from qdrant_client import QdrantClient
from graph_retrievers.stores.cypher import CypherDatabase, GraphSchema
from graph_retrievers.stores.engines import write_index
from tests.integration.test_engines import Breaking, index_of
uri, user, password, name, label, pages, place, at = sys.argv[1:]
class Patch:
    def setattr(self, owner, name, value): setattr(owner, name, value)
class Killing(Breaking):
    def call(self, method, *given, **named):
        made = method(*given, **named)
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return made
database = CypherDatabase(uri, (user, password), name=name, schema=GraphSchema(label=label))
write_index(index_of(pages), database, Killing(Patch(), QdrantClient(path=place), int(at)), "works", batch_size=8)
"""


def test_a_process_that_was_killed_goes_on_in_another(cypher_server, database, pages, tmp_path):
    index = index_of(pages)
    given = [cypher_server.uri, *cypher_server.auth, cypher_server.name or "", database.schema.label, str(pages)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    for at in (9, 28):
        place = tmp_path / f"killed {at}"
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, *given, str(place), str(at)], env=environment, cwd=Path(__file__).parents[2]
        )
        assert ended.returncode == -signal.SIGKILL
    held = len(contents(database, QdrantClient(":memory:"))[0])
    client = QdrantClient(path=str(place))
    again = write_index(index, database, client, "works", batch_size=8)
    assert again.nodes.written == len(index) - held and again.points.written < len(index)
    written = contents(database, client)
    client.close()
    fresh = emptied(database)
    write_index(index, database, fresh, "works")
    whole = contents(database, fresh)
    assert written[:2] == whole[:2] and written[2].keys() == whole[2].keys() and written[3] == whole[3]
    assert all(written[2][node][:2] == whole[2][node][:2] for node in whole[2])


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
    retriever = RemoteRetriever(remote_of(database, client))
    asked = [*HOSTILE[:7], "turns 3"]
    assert_same(retriever.retrieve_batch(asked), WalkFusion(index).retrieve_batch(asked))
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
    assert RemoteRetriever(remote_of(database, client)).retrieve("a card")[0].id == "b"
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
    assert RemoteRetriever(remote_of(database, client)).retrieve(QUESTIONS[0])[0].text != "A town."
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
        (DimensionMismatchError, "has vectors of width 16, and this index of width 0. Give another", nodes, None, "works"),
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
    assert RemoteRetriever(remote_of(database, client, embedding=wide)).retrieve(QUESTIONS[0])
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
    retriever = RemoteRetriever(remote_of(database, client, embedding=None), WalkFusion, form="links")
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
    retriever, local = RemoteRetriever(remote), build_retriever(None, index)
    assert retriever.name == local.name == ("bm25" if not vectors else "walk-fusion" if relations[1:] else "spreading")
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
    retriever = RemoteRetriever(remote_of(database, client, words=words))
    found = [{hit.id for hit in retriever.retrieve(question)} for question in QUESTIONS[:3]]
    local = [{hit.id for hit in WalkFusion(index).retrieve(question)} for question in QUESTIONS[:3]]
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


# -- the command ---------------------------------------------------------------------------------------------------


@pytest.fixture
def command(cypher_server, database, pages, tmp_path, monkeypatch, capsys):
    """Run ``index`` on the pages with the secrets of the server in the environment; return status, output and messages."""
    environment = {"NEO4J_USERNAME": cypher_server.auth[0], "NEO4J_PASSWORD": cypher_server.auth[1]}
    for name, value in {**environment, "GRAPH_RETRIEVERS_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("QDRANT_API_KEY", raising=False)

    def run(*options):
        status = main(["index", str(pages), *map(str, options)])
        printed = capsys.readouterr()
        assert cypher_server.auth[1] not in printed.out + printed.err
        return status, printed.out, printed.err

    return run


def test_the_command_fills_the_engines_and_follows_the_folder(cypher_server, database, pages, tmp_path, command):
    label, place = database.schema.label, tmp_path / "qdrant"
    options = ("--to", cypher_server.uri, "--vectors", place, "--name", label, "--database", cypher_server.name, "--tokens", 20)
    status, out, err = command(*options)
    assert status == 0, err
    whole = f"{cypher_server.uri}, {label}: 20 nodes (20 written), 60 edges (60 written); {place}: 20 points (20 written)\n"
    assert out.endswith(whole) and f"{pages}: 20 nodes, 60 edges (" in out and "writing points: 100%" in err
    assert command(*options)[1].endswith(f"20 nodes (unchanged), 60 edges (unchanged); {place}: 20 points (unchanged)\n")
    change_pages(pages)
    status, out, err = command(tmp_path / "out", *options)
    assert "18 nodes (6 written, 11 moved, 4 deleted), " in out and "points (" in out and ", 4 deleted)" in out, err
    index = GraphIndex.load(tmp_path / "out", embedding=minilm())
    client = QdrantClient(path=str(place))
    held = contents(database, client, label)
    assert held[0].keys() == held[2].keys() == set(index.graph.ids) and len(held[1]) == index.graph.num_edges
    remote = RemoteRetriever(remote_of(database, client, label, embedding=minilm()))
    for question in QUESTIONS:
        assert [hit.id for hit in remote.retrieve(question)] == [hit.id for hit in WalkFusion(index).retrieve(question)]
    client.close()


SECRET = "hush-hush-9"


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        ((), {}, "Where is the index to go? Give OUT, a folder, or --to and --vectors."),
        (("--to", "{uri}"), {}, "--to and --vectors belong together"),
        (("--to", "{uri}", "--vectors", "{folder}"), {"NEO4J_PASSWORD": SECRET}, "Check NEO4J_USERNAME and NEO4J_PASSWORD"),
        (("--to", "{uri}", "--vectors", "localhost:6333"), {}, "would be a folder; write an address as http://localhost:6333"),
        (("--to", "{uri}", "--vectors", "{pages}"), {}, "holds 'card.md', which Qdrant did not make; give a folder"),
        (("--to", "{uri}", "--vectors", "{pages}/card.md"), {}, "is a file; expected http://HOST:6333"),
        (("--to", "bolt://127.0.0.1:1", "--vectors", "{folder}"), {}, "bolt://127.0.0.1:1 cannot be reached"),
        (("--to", "bolt://0.0.0.0:1", "--vectors", "{folder}", "--insecure"), {}, "bolt://0.0.0.0:1 cannot be reached"),
        (("--to", "{uri}", "--vectors", "{folder}"), {"NEO4J_DATABASE": "elsewhere"}, "elsewhere"),
        (("--to", "{uri}", "--vectors", "http://127.0.0.1:1"), {}, "Qdrant cannot be reached"),
        (("--to", f"bolt://me:{SECRET}@127.0.0.1:1", "--vectors", "{folder}"), {}, "set NEO4J_PASSWORD in the environment"),
        (("--to", "{uri}", "--vectors", f"http://h:6333?api_key={SECRET}"), {}, "set QDRANT_API_KEY in the environment"),
        (("--to", "bolt://db.example.org", "--vectors", "{folder}"), {}, "as it is. Use bolt+s://, or --insecure in a network"),
        (
            ("--to", "{uri}", "--vectors", "http://q.example.org"),
            {"QDRANT_API_KEY": SECRET},
            "as it is. Use https://, or --insecure",
        ),
        (("--to", "{uri}", "--vectors", "ftp://q.example.org"), {}, "expected http://HOST:6333, https://..., or a folder"),
        (("--to", "{uri}", "--vectors", "{folder}", "--name", "a`b"), {}, "cannot be a label"),
    ],
)
def test_the_command_says_what_is_wrong_before_it_reads(cypher_server, command, tmp_path, monkeypatch, options, environment, said):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    given = {"uri": cypher_server.uri, "folder": tmp_path / "qdrant", "pages": tmp_path / "pages"}
    status, out, err = command(*(option.format(**given) for option in options))
    assert status == 2 and said in err and err.count("\n") == 1 and not out and SECRET not in err


def test_the_command_asks_for_its_own_flags(cypher_server, database, command, tmp_path):
    options = ("--to", cypher_server.uri, "--vectors", tmp_path / "qdrant", "--name", database.schema.label)
    options += ("--database", cypher_server.name, "--no-embedding")
    assert command(*options)[0] == 0
    (tmp_path / "pages" / "loom.md").rename(tmp_path / "loom.txt")
    for page in (tmp_path / "pages").iterdir():
        page.unlink()
    (tmp_path / "pages" / "other.txt").write_text("Another folder.")
    status, _, err = command(*options)
    assert status == 2 and "Give another name to write this one beside it, or pass --replace to write it in its place." in err
    assert command(*options, "--replace")[0] == 0 and contents(database, QdrantClient(":memory:"))[0].keys() == {"other.txt"}
