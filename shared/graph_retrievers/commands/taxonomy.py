"""The command ``taxonomy``: the operators of each retriever, and their requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from graph_retrievers.core.operator import OperatorKind
from graph_retrievers.errors import GraphRetrieverError, MissingDependencyError
from graph_retrievers.graph.corpus_graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.systems.mor import TrajectoryReranker, TrajectoryScorer
from graph_retrievers.systems.mor.retriever import MoR
from graph_retrievers.systems.system import every_system


def print_taxonomy() -> None:
    """Print the composition of each retriever, and the declared kind of each operator with that of its actual requests."""
    rows = [("retriever", "composition", "operators")]
    retrievers = list(_retrievers(_encyclopedia()))
    for name, made in retrievers:
        if isinstance(made, Retriever):
            parts = dict.fromkeys(f"{part.name} {part.kind.value}" for part in made.operator.parts())
            rows.append((name, made.operator.formula(), ", ".join(parts)))
        else:
            rows.append((name, "-", " ".join(str(made).split())))
    _print_table(rows)
    print()
    kinds, asked, lacking = dict[str, OperatorKind](), dict[str, list[str]](), dict[str, str]()
    for name, made in chain(retrievers, _retrievers(_knowledge())):
        if not isinstance(made, Retriever):
            continue
        kinds |= {part.name: part.kind for part in made.operator.parts()}
        plan: dict[str, Any] = {"plan": _PLAN} if "plan" in made.operator.reads else {}
        try:
            trace = made.retrieve("What did Ada Holm write of?", **plan).trace
        except MissingDependencyError as error:
            lacking[name] = str(error)
            continue
        for call in trace:
            for operator in call.operators:
                asked.setdefault(operator, []).append(call.request.__name__)
    order = [member.value for member in OperatorKind]
    told = [(name, kind.value, ", ".join(dict.fromkeys(asked.get(name, ["-"])))) for name, kind in kinds.items()]
    _print_table([("operator", "kind", "asks"), *sorted(told, key=lambda row: order.index(row[1]))])
    print()
    for member in OperatorKind:
        print(f"{member.value:<6} {member.name.lower().replace('_', ' ')}")
    for name, why in lacking.items():
        print(f"\n{name} was not run: {why}")


# On other graphs, some retrievers have fewer lists, or others.
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
        # Without one, retrievers warn that they have fallen back.
        relevance=lambda pairs: [0.0] * len(pairs),
        **settings,
    )


def _retrievers(index: GraphIndex) -> Iterator[tuple[str, Retriever | GraphRetrieverError]]:
    """Yield each retriever with its name, or why there is none."""
    # A checkpoint would provide the reranker.
    trained = {"mor": MoR(reranker=TrajectoryReranker(TrajectoryScorer(structure_width=2)))}
    for name, system in (every_system() | trained).items():
        try:
            yield name, Retriever(index, system)
        except GraphRetrieverError as error:
            yield name, error


def _print_table(rows: list[tuple[str, str, str]]) -> None:
    first, second = (max(len(row[column]) for row in rows) for column in range(2))
    for row in rows:
        print(f"{row[0]:<{first}}  {row[1]:<{second}}  {row[2]}")


_PLAN = [{"type": "thing", "restriction": "Ada Holm"}, {"type": "thing"}]
