"""Pages with links for the tests of engines, what the engines hold of them, and clients that break."""

from pathlib import Path

import numpy as np
from qdrant_client import QdrantClient

from graph_retrievers import GraphIndex
from graph_retrievers.construction import DocumentStructure, Links, TitleMentions, read_folder
from graph_retrievers.stores.changes import Changes
from graph_retrievers.stores.cypher import CypherDatabase, CypherGraphStore
from graph_retrievers.stores.qdrant import QdrantVectors, QdrantWords
from graph_retrievers.stores.remote import RemoteIndex, ScopedVectorStore, ScopedWordStore
from tests.helpers import HashEmbedding

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


class Losing:
    """A client that is lost when the collection is marked."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        if name == "update_collection":
            raise RuntimeError("lost")
        return getattr(self.client, name)
