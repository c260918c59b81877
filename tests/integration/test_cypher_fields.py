"""Metadata fields as properties of nodes in a graph database."""

import logging
import math

import numpy as np
import pytest

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.stores.cypher import CypherSpreadingActivation, GraphSchema, write_graph


def properties(database):
    rows = database.read(f"MATCH (n:`{database.schema.label}`) RETURN n.id AS id, properties(n) AS p")
    return {row["id"]: {key: value for key, value in row["p"].items() if key.startswith("metadata_")} for row in rows}


def test_fields_become_properties(database):
    metadata = {
        "text": "x", "yes": True, "no": False, "whole": 3, "real": 0.5, "empty": "", "strings": ["a", "b"], "mixed": [1, 2.5],
        "flags": [True, False], "none": [], "pair": (1, 2), "set": {"b", "a"}, "numpy": np.int64(7), "two words": 1, "a.b": 2,
        "null": None, "map": {"a": 1}, "odd": ["a", 1], "deep": [[1]], "nan": math.nan, "big": 2**63,
    }  # fmt: skip
    write_graph(database, CorpusGraph(["a"], [""], metadata=[metadata]))
    assert properties(database)["a"] == {
        "metadata_text": "x", "metadata_yes": True, "metadata_no": False, "metadata_whole": 3, "metadata_real": 0.5,
        "metadata_empty": "", "metadata_strings": ["a", "b"], "metadata_mixed": [1.0, 2.5], "metadata_flags": [True, False],
        "metadata_none": [], "metadata_pair": [1, 2], "metadata_set": ["a", "b"], "metadata_numpy": 7, "metadata_two words": 1,
        "metadata_a.b": 2, "metadata_map.a": 1,
    }  # fmt: skip


def test_fields_that_a_node_no_longer_has_go(database):
    def write(*metadata):
        write_graph(database, CorpusGraph(["a", "b"], ["", ""], metadata=metadata), batch_size=1)
        return properties(database)

    assert write({"x": 1, "y": "s"}, {"x": 2}) == {"a": {"metadata_x": 1, "metadata_y": "s"}, "b": {"metadata_x": 2}}
    database.write(f"MATCH (n:`{database.schema.label}` {{id: 'a'}}) SET n.theirs = 1")
    assert write({"y": {"no": "property"}, "z": 3}, {"x": 2}) == {
        "a": {"metadata_z": 3, "metadata_y.no": "property"},
        "b": {"metadata_x": 2},
    }
    assert write({}, {}) == {"a": {}, "b": {}}
    # Metadata that others wrote names no fields of ours.
    for text in ("'no json'", "'[1]'", "'3'", "5"):
        database.write(f"MATCH (n:`{database.schema.label}` {{id: 'a'}}) SET n.metadata = {text}")
        assert write({"x": 1}, {}) == {"a": {"metadata_x": 1}, "b": {}}
    assert database.read(f"MATCH (n:`{database.schema.label}` {{id: 'a'}}) RETURN n.theirs AS t") == [{"t": 1}]


def test_fields_that_cannot_be_properties_are_named_once(database, caplog):
    metadata = [{"good": i, "bad`name": i, "": i, "x" * 200: i} for i in range(3)]
    with caplog.at_level(logging.WARNING, logger="graph_retrievers"):
        write_graph(database, CorpusGraph(["a", "b", "c"], [""] * 3, metadata=metadata), batch_size=1)
    (record,) = [record for record in caplog.records if record.name.startswith("graph_retrievers")]
    assert "'bad`name'" in record.getMessage() and "'xxx" in record.getMessage() and "good" not in record.getMessage()
    assert {key for fields in properties(database).values() for key in fields} == {"metadata_good", "metadata_"}
    caplog.clear()
    write_graph(database, CorpusGraph(["a"], [""], metadata=[{f"`{i}": 1 for i in range(50)}]))
    assert "and 30 more" in caplog.text


def test_plain_names_for_a_graph_that_is_there(cypher_server):
    plain = GraphSchema(label="PlainNames", field_prefix="")
    with cypher_server.open(schema=plain) as database:
        try:
            database.write("CREATE (:PlainNames {id: 'b', name: 'B', year: 1990, name_key: 'b', position: 1})")
            graph = CorpusGraph(["a"], ["text"], titles=["A"], metadata=[{"year": 2000, "name": "not the name"}])
            write_graph(database, graph)
            inside = CypherSpreadingActivation(database, gate="uniform")
            for condition, ids in (
                ({"year": {"$lt": 1995}}, ["b"]),
                ({"year": 2000}, ["a"]),
                ({"name": "A"}, ["a"]),
                ({}, ["a", "b"]),
            ):
                assert sorted(hit.id for hit in inside.retrieve("q", entities=["A", "B"], filter=condition)) == ids
            write_graph(database, CorpusGraph(["a"], ["text"], titles=["A"]))
            assert list(inside.retrieve("q", entities=["A"], filter={"year": 2000})) == []
            assert [hit.title for hit in inside.retrieve("q", entities=["A"])] == ["A"]
        finally:
            cypher_server.clean(database)


def test_prefixes_that_meet_other_properties_are_refused():
    with pytest.raises(InvalidArgumentError, match="begins with the prefix"):
        GraphSchema(text="metadata_text")
    with pytest.raises(InvalidArgumentError, match="begins with the prefix"):
        GraphSchema(field_prefix="n")
    for prefix in ("a`", " ", None, 3, "x" * 128):
        with pytest.raises(InvalidArgumentError):
            GraphSchema(field_prefix=prefix)
    assert GraphSchema().field("year") == "`metadata_year`" and GraphSchema(field_prefix="").field("year") == "`year`"
