"""The command ``taxonomy``: the operators of each retriever, and their requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from graph_retrievers.core.operator import OperatorKind
from graph_retrievers.errors import GraphRetrieverError, MissingDependencyError
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.systems.mor.reranker import TrajectoryReranker, TrajectoryScorer
from graph_retrievers.systems.mor.retriever import MoR
from graph_retrievers.systems.system import every_system


def print_taxonomy() -> None:
    """Print the composition of each retriever, and the declared kind of each operator with that of its actual requests."""
    rows = [("retriever", "composition", "operators")]
    retrievers = list(_retrievers(_encyclopedia()))
    for name, retriever in retrievers:
        if isinstance(retriever, Retriever):
            parts = dict.fromkeys(f"{part.name} {part.kind.value}" for part in retriever.operator.parts())
            rows.append((name, retriever.operator.formula(), ", ".join(parts)))
        else:
            rows.append((name, "-", " ".join(str(retriever).split())))
    _print_table(rows)
    print()
    kinds, requests, lacking = dict[str, OperatorKind](), dict[str, list[str]](), dict[str, str]()
    for name, retriever in chain(retrievers, _retrievers(_knowledge())):
        if not isinstance(retriever, Retriever):
            continue
        kinds |= {part.name: part.kind for part in retriever.operator.parts()}
        plan: dict[str, Any] = {"plan": _PLAN} if "plan" in retriever.operator.reads else {}
        try:
            trace = retriever.retrieve("What did Ada Holm write of?", **plan).trace
        except MissingDependencyError as error:
            lacking[name] = str(error)
            continue
        for call in trace:
            for operator in call.operators:
                requests.setdefault(operator, []).append(call.request.__name__)
    order = [member.value for member in OperatorKind]
    kind_rows = [(name, kind.value, ", ".join(dict.fromkeys(requests.get(name, ["-"])))) for name, kind in kinds.items()]
    _print_table([("operator", "kind", "asks"), *sorted(kind_rows, key=lambda row: order.index(row[1]))])
    print()
    for member in OperatorKind:
        print(f"{member.value:<6} {member.name.lower().replace('_', ' ')}")
    print()
    _print_table_1({name: retriever for name, retriever in retrievers if isinstance(retriever, Retriever)})
    for name, why in lacking.items():
        print(f"\n{name} was not run: {why}")


# Table 1 of FastInsight's paper: a method, the system that implements it, and the marks of its row. Those of HippoRAG and
# G-Retriever are those of the row between them, which the three share there.
_TABLE_1 = [
    ("HyKGE", "hykge", {"O_vs"}),
    ("HippoRAG", "hipporag-1", {"O_vs", "O_gs"}),
    ("GNN-RAG", "gnn-rag", {"O_vs", "O_gs"}),
    ("G-Retriever", "g-retriever", {"O_vs", "O_gs"}),
    ("SubgraphRAG", "subgraph-rag", {"O_vs", "O_m"}),
    ("LightPROF", "", {"O_vs", "O_gs", "O_m"}),
    ("ToG", "think-on-graph", {"O_vs", "O_gs", "O_m"}),
    ("LightRAG", "lightrag", {"O_vs", "O_gs"}),
    ("PathRAG", "pathrag", {"O_vs"}),
    ("GRAG", "ego-grag", {"O_vs"}),
    ("KG2RAG", "kg2rag", {"O_vs", "O_gs", "O_m"}),
    ("ToG 2.0", "think-on-graph-2", {"O_vs", "O_gs", "O_m"}),
    ("HippoRAG 2", "hipporag", {"O_vs", "O_gs"}),
    ("FastInsight", "fastinsight", {"O_vs", "O_vgs", "O_gm"}),
]
_READS = {"signals": "O_vs", "graph": "O_gs", "model": "O_m"}
# The marks of the kinds of data that a fusion operator reads.
_FUSED = {"O_vgs": {"O_vs", "O_gs"}, "O_gm": {"O_gs", "O_m"}}
# Why a row differs, or has no system.
_DIFFERENCES = {
    "HyKGE": "its chains follow edges, and a reranker scores them: section 4 of its own paper",
    "GNN-RAG": "its graph neural network reads edges as a model, so that one operator reads both (O_gm)",
    "SubgraphRAG": "it finds the triples around a question itself, by edges, which the paper counts as a part of the index (O_gm)",
    "LightPROF": "no system here: it projects paths into a language model, and ranks no nodes",
    "ToG": "its model chooses among the edges of the beam, so that one operator reads both (O_gm); the text counts them apart",
    "PathRAG": "the text of the paper has O_vs -> O_gs (section 4.1), as its paths follow edges",
    "GRAG": "ego graphs are made of edges, which the paper counts as a part of the index",
    "KG2RAG": "its expansion and its trees are one operator, which reads vectors, edges and a model (O_gm)",
    "ToG 2.0": "as for ToG; texts choose the entities",
}


def _print_table_1(retrievers: Mapping[str, Retriever]) -> None:
    """Print FastInsight's Table 1 beside what each system was seen to read, and the kinds of its operators."""
    kinds = [member.value for member in OperatorKind]
    rows: list[tuple[str, ...]] = [("Table 1", "marks of the paper", "seen to read", "kinds of its operators")]
    notes = list[str]()
    for method, name, marks in _TABLE_1:
        paper = " ".join(kind for kind in kinds if kind in marks)
        if name not in retrievers:
            rows.append((method, paper, "-", "-"))
        else:
            retriever = Retriever(_knowledge(), name)
            reads = {
                _READS[call.request.reads] for call in retriever.retrieve("What did Ada Holm write of?").trace if call.request.reads
            }
            operator_kinds = {part.kind.value for part in retriever.operator.parts()}
            rows.append((method, paper, *(" ".join(kind for kind in kinds if kind in each) for each in (reads, operator_kinds))))
            if reads == set().union(*(_FUSED.get(mark, {mark}) for mark in marks)) and operator_kinds <= marks:
                continue
        notes.append(f"{method}: {_DIFFERENCES[method]}")
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[3]]))
    print("\nWhere a row differs:")
    for note in notes:
        print(note)


# Retrievers are shown on the first graph; some have other lists, or fewer, on the second.
def _encyclopedia() -> GraphIndex:
    return _index([])


def _knowledge() -> GraphIndex:
    return _index([Node("c", "Of both.", type="passage")], [("c", "a", "of"), ("c", "b", "of")], edge_signals=True)


def _index(nodes: list[Node], edges: Sequence[tuple[str, str, str]] = (), **settings: Any) -> GraphIndex:
    ada = Node("a", "Ada Holm wrote of Kismet Hall.", "Ada Holm", "thing")
    hall = Node("b", "Kismet Hall was built by Ada Holm.", "Kismet Hall", "thing")
    return GraphIndex.from_nodes(
        [ada, hall, *nodes],
        [("a", "b", "mentions"), *edges],
        embedding=lambda texts: [[1.0, 0.0]] * len(texts),
        # Without a relevance model, retrievers warn that they have fallen back.
        relevance=lambda pairs: [0.0] * len(pairs),
        **settings,
    )


def _retrievers(index: GraphIndex) -> Iterator[tuple[str, Retriever | GraphRetrieverError]]:
    """Yield each retriever with its name, or why there is none."""
    # A checkpoint would provide the reranker.
    extra = {"mor": MoR(reranker=TrajectoryReranker(TrajectoryScorer(structure_width=2)))}
    for name, system in (every_system() | extra).items():
        try:
            yield name, Retriever(index, system)
        except GraphRetrieverError as error:
            yield name, error


def _print_table(rows: list[tuple[str, str, str]]) -> None:
    first, second = (max(len(row[column]) for row in rows) for column in range(2))
    for row in rows:
        print(f"{row[0]:<{first}}  {row[1]:<{second}}  {row[2]}")


_PLAN = [{"type": "thing", "restriction": "Ada Holm"}, {"type": "thing"}]
