"""From hits to LangChain documents and back to text, field by field."""

import logging
from dataclasses import replace

import pytest
from langchain_core.documents import Document

from graph_retrievers.graph.corpus_graph import Edge, Node
from graph_retrievers.graph.subgraph import Subgraph
from graph_retrievers.hits import Hit, Hits, NodePath
from langchain_graph_retrievers.documents import as_node, document_prompt, to_context, to_documents

NOTHING = Subgraph()
PATH = NodePath(("a", "b"), ("cites",), (True,), ("A", "B"))
PLAIN = {"nodes": ["a", "b"], "relations": ["cites"], "forward": [True], "titles": ["A", "B"]}


def hit(of="node", near=NOTHING, **metadata):
    return Hit("b", "text", 0.25, "Walk", PATH, "B", "thing", metadata, kind=of, context=near)


def only(hit, **options):
    (document,) = to_documents(Hits([hit]), **options)
    assert (document.id, document.page_content) == ("b", "text")
    return document.metadata


FOUND = {"score": 0.25, "operator": "Walk", "path": PLAIN}


@pytest.mark.parametrize(
    ("given", "plain", "provenance"),
    [
        ({}, {"title": "B", "type": "thing"}, {"title": "B", "type": "thing"}),
        ({"title": "B"}, {"title": "B", "type": "thing"}, {"title": "B", "type": "thing"}),
        ({"title": "C"}, {"title": "C", "type": "thing"}, {"title": "C", "node_title": "B", "type": "thing"}),
        ({"title": None}, {"title": None, "type": "thing"}, {"title": None, "node_title": "B", "type": "thing"}),
        ({"type": 7}, {"type": 7, "title": "B"}, {"type": 7, "node_type": "thing", "title": "B"}),
        ({"node_title": "B"}, {"node_title": "B", "title": "B", "type": "thing"}, {"node_title": "B", "type": "thing"}),
        (
            {"node_title": "C"},
            {"node_title": "C", "title": "B", "type": "thing"},
            {"node_title": "B", "original_node_title": "C", "type": "thing"},
        ),
        (
            {"score": 1, "kind": "mine"},
            {"score": 1, "kind": "mine", "title": "B", "type": "thing"},
            {"original_score": 1, "kind": "mine", "title": "B", "type": "thing"},
        ),
        (
            {"kind": "fact"},
            {"kind": "fact", "title": "B", "type": "thing"},
            {"kind": "node", "original_kind": "fact", "title": "B", "type": "thing"},
        ),
    ],
)
def test_what_is_added_to_the_metadata_of_a_node(given, plain, provenance):
    assert only(hit(**given)) == plain
    assert only(hit(**given), provenance=True) == FOUND | provenance


def test_a_node_without_title_and_type():
    bare = Hit("b", "text", 0.25, "Walk", PATH)
    assert only(bare) == {} and only(bare, provenance=True) == FOUND


@pytest.mark.parametrize("kind", ["chain", "fact"])
def test_chains_and_facts(kind):
    assert only(hit(kind, kind="x", year=1)) == {"kind": kind, "original_kind": "x", "path": PLAIN, "year": 1}
    assert only(hit(kind, year=1), provenance=True) == FOUND | {"kind": kind, "year": 1}


def test_contexts_are_given_where_there_are_any():
    context = Subgraph((Node("c", "near", "C"),), (Edge("b", "c", "cites"),))
    found = only(hit(near=context), provenance=True)["context"]
    assert [node["id"] for node in found["nodes"]] == ["c"] and len(found["edges"]) == 1
    assert "context" not in only(hit(near=context))
    assert "- C: near" in to_context(to_documents(Hits([hit(near=context)]), provenance=True))


def test_ranks_are_given_where_there_are_any():
    def search():
        raise AssertionError("a document does not need the rank without the graph")

    fused = replace(hit(near=Subgraph((Node("c", "near"),)), ranks="mine"), ranks={"A": 1, "B": None}, plain=search)
    assert only(fused, provenance=True)["ranks"] == {"A": 1, "B": None}
    assert only(fused, provenance=True)["original_ranks"] == only(fused)["ranks"] == "mine"
    assert "ranks" not in only(hit(), provenance=True)


def test_documents_may_be_changed_without_touching_the_hits():
    metadata = {"tags": ["x"]}
    found = only(hit(**metadata))
    found["tags"].append("y")
    assert metadata == {"tags": ["x"]}


@pytest.mark.parametrize(
    ("hits", "notes", "provenance", "level", "told"),
    [
        ([], ("n", "m"), False, logging.WARNING, "Nothing was found: n; m."),
        ([], ("n",), True, logging.WARNING, "Nothing was found: n."),
        ([hit()], ("n", "m"), False, logging.INFO, "Notes on the search: n; m."),
        ([hit()], ("n",), True, None, None),
        ([hit()], (), False, None, None),
        ([], (), False, None, None),
    ],
)
def test_notes_are_told_once(hits, notes, provenance, level, told, caplog):
    with caplog.at_level(logging.INFO):
        documents = to_documents(Hits(hits, notes=notes), provenance=provenance)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == ([(level, told)] if told else [])
    assert [document.metadata.get("notes") for document in documents] == [
        list(notes) if provenance and notes else None for _ in hits
    ]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"path": PLAIN}, "Paths:\nA -[cites]-> B\n\nTexts:\n- text"),
        ({"path": PLAIN, "kind": "fact"}, "Facts:\n- text"),
        ({"path": PLAIN, "kind": "chain"}, "Paths:\ntext"),
        ({"kind": "fact"}, "Texts:\n- text"),
        ({"path": PLAIN, "kind": "mine"}, "Paths:\nA -[cites]-> B\n\nTexts:\n- text"),
        ({"title": "T"}, "Texts:\n- T: text"),
        ({"title": "T", "node_title": "N"}, "Texts:\n- N: text"),
        ({"title": None}, "Texts:\n- text"),
        ({"path": "a/b.md"}, "Texts:\n- text"),
        ({"path": {"nodes": []}}, "Texts:\n- text"),
        ({"path": {"nodes": ["a", "b"]}}, "Texts:\n- text"),
        ({"path": {"nodes": ["a"], "titles": ["A", "B"]}}, "Texts:\n- text"),
        ({"path": {"nodes": ["a"], "else": [1]}}, "Texts:\n- text"),
    ],
)
def test_documents_as_text(metadata, text):
    assert to_context([Document("text", metadata=metadata)]).replace("b: text", "text") == text


@pytest.mark.parametrize(
    ("identity", "metadata", "title"), [("x", {"title": "T"}, "T"), ("x", {"title": 3}, ""), ("x", {}, ""), (None, {}, "")]
)
def test_documents_as_nodes(identity, metadata, title):
    node, other = (as_node(Document("text", id=identity, metadata=metadata)) for _ in range(2))
    assert (node.text, node.title, node.metadata) == ("text", title, metadata)
    assert node.id == other.id == "x" if identity else node.id != other.id and len(node.id) == 36


@pytest.mark.parametrize(
    ("path", "score", "shown"),
    [
        (PLAIN, 0.123456, "A -[cites]-> B 0.1235"),
        (PLAIN | {"titles": ["A", ""]}, 1.0, "A -[cites]-> b 1"),
        ({"my": "path"}, 12345.6, "{'my': 'path'} 1.235e+04"),
        ("docs/a.md", 3, "docs/a.md 3"),
    ],
)
def test_prompts_write_paths_by_titles_and_scores_with_four_digits(path, score, shown):
    assert document_prompt("{path} {score}").format(path=path, score=score) == shown
