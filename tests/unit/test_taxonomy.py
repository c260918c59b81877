"""The kinds that operators declare, against what they are seen to ask."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from graph_retrievers import GraphIndex, Node, Retriever
from graph_retrievers.commands.taxonomy import print_taxonomy
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.requests import (
    ByTitle,
    Contents,
    Degree,
    EdgesAmong,
    Nearest,
    NearestByCosine,
    Neighbors,
    Pairs,
    Relevance,
    Request,
    Scores,
    Similarity,
    Steps,
    TermScores,
    Texts,
    Titled,
    Vectors,
    Weights,
)
from graph_retrievers.core.trace import Asked, Trace
from graph_retrievers.operators import DocumentGraphRerank, Rerank, STeX, VectorSearch
from graph_retrievers.systems.mor.reranker import TrajectoryReranker, TrajectoryScorer
from graph_retrievers.testing import kind_of
from tests.retrievers import EVERY, on

PAPER = Path(os.environ.get("GRAPH_RETRIEVERS_SHARED", "../shared"), "papers", "000_4fdd3fd40e843bbf.txt")
# Table 1 of FastInsight's paper.
MARKS = {
    "HyKGE": {"O_vs"},
    "HippoRAG": {"O_vs", "O_gs"},
    "GNN-RAG": {"O_vs", "O_gs"},
    "G-Retriever": {"O_vs", "O_gs"},
    "SubgraphRAG": {"O_vs", "O_m"},
    "LightPROF": {"O_vs", "O_gs", "O_m"},
    "ToG": {"O_vs", "O_gs", "O_m"},
    "LightRAG": {"O_vs", "O_gs"},
    "PathRAG": {"O_vs"},
    "GRAG": {"O_vs"},
    "KG2RAG": {"O_vs", "O_gs", "O_m"},
    "ToG 2.0": {"O_vs", "O_gs", "O_m"},
    "HippoRAG 2": {"O_vs", "O_gs"},
    "FastInsight": {"O_vs", "O_vgs", "O_gm"},
}


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ([Nearest, Similarity], OperatorKind.VECTOR_SEARCH),
        ([Neighbors, Degree], OperatorKind.GRAPH_SEARCH),
        ([Relevance], OperatorKind.MODEL_SEARCH),
        ([Nearest, Relevance], OperatorKind.MODEL_SEARCH),
        ([Neighbors, Similarity], OperatorKind.VECTOR_GRAPH_SEARCH),
        ([Relevance, Neighbors, Similarity], OperatorKind.GRAPH_MODEL_SEARCH),
        ([Neighbors, Texts, Contents, Titled, ByTitle], OperatorKind.GRAPH_SEARCH),
        *(([kind], OperatorKind.GRAPH_SEARCH) for kind in (Degree, EdgesAmong, Neighbors, Steps, Weights)),
        *(
            ([kind], OperatorKind.VECTOR_SEARCH)
            for kind in (NearestByCosine, Nearest, Pairs, Scores, Similarity, TermScores, Vectors)
        ),
        ([Request], None),
        ([], None),
    ],
)
def test_the_kind_follows_from_what_is_read(asked, kind):
    assert kind_of(Trace(Asked(1, request, ("Mine",), 1, 1, 0.0) for request in asked)) is kind


# Where another kind is declared than what is asked shows, mostly as papers place it, and why.
OTHERWISE = {
    # Without a trained network, vectors order what edges lead to.
    "AnswerSearch": (OperatorKind.GRAPH_MODEL_SEARCH, OperatorKind.VECTOR_GRAPH_SEARCH),
    # Its model reads no graph; what it scores comes from neighbours.
    "AdaptiveReranking": (OperatorKind.MODEL_SEARCH, OperatorKind.GRAPH_MODEL_SEARCH),
    # It takes the best edges itself, which the paper's example 4 counts as a search before it.
    "g-retriever": (OperatorKind.GRAPH_SEARCH, OperatorKind.VECTOR_GRAPH_SEARCH),
    # Vectors pick among the chunks that edges lead to.
    "ChunkGathering": (OperatorKind.GRAPH_SEARCH, OperatorKind.VECTOR_GRAPH_SEARCH),
    # Without a language model, which chooses relations, it searches texts.
    "hybgrag": (OperatorKind.VECTOR_GRAPH_SEARCH, OperatorKind.VECTOR_SEARCH),
    # The graph that its model reads is in the trails, which were walked before.
    "TrajectoryReranker": (OperatorKind.GRAPH_MODEL_SEARCH, OperatorKind.MODEL_SEARCH),
}
MADE = {"mor": {"reranker": TrajectoryReranker(TrajectoryScorer(structure_width=5))}}
PLAN = [{"type": "film", "restriction": "Kismet"}, {"type": "person"}]


def test_every_operator_asks_what_its_kind_says():
    nodes = [
        Node("0", "Ada Holm grew up in Lund.", "Ada Holm", "person"),
        Node("1", "Lund is a town.", "Lund", "town"),
        Node("2", "Kismet starred Ada Holm.", "Kismet", "film"),
        Node("3", "Cleo Marsh sang.", "Cleo Marsh", "person"),
        Node("4", "Glass is by Cleo Marsh.", "Glass", "passage"),
    ]
    edges = [("0", "1", "born in"), ("2", "0", "starred"), ("4", "3", "by"), ("2", "4", "before")]

    def embed(texts):
        counts = np.array([[1.0 + text.count(word) for word in "abcde"] for text in texts])
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)

    index = GraphIndex.from_nodes(
        nodes, edges, embedding=embed, relevance=lambda pairs: [float(len(text)) for _, text in pairs], edge_signals=True
    )
    kinds, seen = {}, {}
    for name in EVERY:
        retriever = on(index, name, **MADE.get(name, {}))
        kinds |= {part.name: part.kind for part in retriever.operator.parts()}
        plan = {"plan": PLAN} if "plan" in retriever.operator.reads else {}
        for asked in retriever.retrieve("Where was the star of Kismet born?", **plan).trace:
            for operator in asked.operators:
                seen.setdefault(operator, Trace()).append(asked)
    found = {name: kind_of(seen.get(name, Trace())) for name in kinds}
    assert found == {**kinds, **{name: asked for name, (_, asked) in OTHERWISE.items()}}
    assert {name: kinds[name] for name in OTHERWISE} == {name: declared for name, (declared, _) in OTHERWISE.items()}


@pytest.mark.parametrize("kind", list(OperatorKind))
def test_kinds_with_the_graph_find_more_where_there_are_edges(kind):
    made = type("Mine", (Operator,), {"kind": kind, "search": lambda self, question, found: found})()
    assert made.walks == (kind not in (OperatorKind.VECTOR_SEARCH, OperatorKind.MODEL_SEARCH))
    assert Pipeline(VectorSearch(1), made).walks == made.walks


@pytest.mark.parametrize(("operator", "needs"), [(STeX(), True), (DocumentGraphRerank(), False), (Rerank(), False)])
def test_what_needs_edges_says_so_where_there_are_none(operator, needs):
    # G-RAG makes a graph of its own.
    bare = GraphIndex.from_texts(["Ada Holm starred in Kismet.", "Ada Holm came from Lund."], vectors=[[1.0, 0.0], [0.0, 1.0]])
    for index, told in ((bare, needs), (bare.with_changes(add_edges=[("0", "1")]), False)):
        reason = Retriever(index, Pipeline(VectorSearch(2), operator)).reason
        assert reason == ("there are no edges" if told else "")


def test_table_1_of_fastinsight_is_printed_beside_what_each_system_reads(capsys):
    print_taxonomy()
    table = capsys.readouterr().out.partition("Table 1 ")[2]
    rows, _, differences = table.partition("\n\nWhere a row differs:\n")
    found = {re.split(r" {2,}", row)[0]: re.split(r" {2,}", row)[1:] for row in rows.splitlines()[1:]}
    assert list(found) == list(MARKS)
    assert {method: set(cells[0].split()) for method, cells in found.items()} == MARKS
    # Each row that differs is named, and no other.
    reads = {"O_vgs": {"O_vs", "O_gs"}, "O_gm": {"O_gs", "O_m"}}
    for method, (marks, seen, kinds) in found.items():
        marks, seen, kinds = (set(cell.split()) for cell in (marks, seen, kinds))
        same = seen == set().union(*(reads.get(mark, {mark}) for mark in marks)) and kinds <= marks
        assert same != (f"\n{method}: " in f"\n{differences}"), method
    assert found["KG2RAG"][1:] == ["O_vs O_gs O_m", "O_vs O_gm"] and found["LightPROF"][1:] == ["-", "-"]


@pytest.mark.skipif(not PAPER.exists(), reason=f"there is no {PAPER}: GRAPH_RETRIEVERS_SHARED names its folder")
def test_the_marks_are_those_of_the_paper():
    kinds, seen, last = [kind.value for kind in OperatorKind], {}, None
    lines = PAPER.read_text(encoding="utf-8").partition("\nTable 1: ")[2].splitlines()[4:18]
    for line in lines:
        _, method, *marks = line.split("\t")
        method = re.sub(r"<[^>]+>| \[\d+\]| \(ours\)", "", method)
        seen[method] = {kind for kind, mark in zip(kinds, marks, strict=True) if mark == "✓"}
        last = method
    assert last == "FastInsight"
    # The three rows share the marks of the middle one.
    seen |= {method: seen["GNN-RAG"] for method in ("HippoRAG", "G-Retriever")}
    assert {name.replace("HyKE", "HyKGE"): marks for name, marks in seen.items()} == MARKS
