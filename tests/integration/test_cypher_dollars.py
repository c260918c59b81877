"""Ids and names that look like parameters of a query."""

import numpy as np

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.stores.cypher import CypherSpreadingActivation, index_names, write_graph
from graph_retrievers.systems import SpreadingActivation

IDS = ["$ids", "$rows", "$id", "$", "$$", "${id}", "$text", "plain"]


def test_ids_and_names_with_dollar_signs_are_values(database):
    vectors = np.eye(len(IDS))
    edges = [(IDS[i], IDS[i + 1], "$type") for i in range(len(IDS) - 1)]
    index = GraphIndex(
        CorpusGraph(IDS, [f"text of {name}" for name in IDS], titles=IDS, edges=edges, metadata=[{"own": 1}] * len(IDS))
    )
    index = GraphIndex.from_graph(index.graph, vectors=vectors)
    for _ in range(2):
        write_graph(database, index)
    label = f"`{database.schema.label}`"
    rows = database.read(f"MATCH (n:{label}) RETURN n.id AS id, n.name AS name ORDER BY n.position")
    assert [(row["id"], row["name"]) for row in rows] == [(name, name) for name in IDS]
    found = database.read(
        f"MATCH (a:`{database.schema.label}`)-[e]->(b) RETURN a.id AS near, e.relation AS r, b.id AS far ORDER BY a.position"
    )
    assert [(row["near"], row["far"], row["r"]) for row in found] == edges
    database.write(f"MATCH (n:{label}) REMOVE n.name_key")
    assert index_names(database) == len(IDS)
    for question in ("Who knows $ids?", "Is it $text or plain?", "And ${id}?"):
        engine = Retriever(index, SpreadingActivation(gate="uniform"), backfill=False)
        wanted = engine.retrieve(question, vector=vectors[0].tolist())
        got = CypherSpreadingActivation(database, gate="uniform").retrieve(question, vector=vectors[0].tolist())
        assert [(hit.id, hit.path.nodes) for hit in got.nodes] == [(hit.id, hit.path.nodes) for hit in wanted.nodes] and len(
            got.nodes
        )
