"""A search as plain values for drawing, and as a page: its hits, the results of each step, and the nodes and edges visited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import isfinite
from time import perf_counter
from typing import Any

import numpy as np
import torch

from graph_retrievers.arguments import positive
from graph_retrievers.core.requests import inner_request
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.labels import label
from graph_retrievers.graph.subgraph import Subgraph
from graph_retrievers.hits.hit import Hit
from graph_retrievers.hits.hits import Hits
from graph_retrievers.retrievers.memory import MemoryRetriever
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.serve.page import filled_page
from graph_retrievers.serve.recording import StepResult, recorded

__all__ = ["picture", "search_page", "subgraph"]

MOST_NODES = 5000
"""Maximum number of nodes drawn for one search."""

_MOST_EDGES = 2 * MOST_NODES
# If at most this number of nodes is drawn, the edges among them that the search did not walk are drawn too.
_FEW_NODES = 300
# How many of the best nodes of a call are listed.
_MOST_LISTED = 200
_NAME, _SNIPPET = 200, 320
# Most characters of a text on a page that loads nothing.
_TEXT = 20_000

# What a request asks for, in words; others are shown by their names.
_REQUEST_TEXTS = {
    "Nearest": "the best {nodes} by {signal}{types}{text}{among}",
    "NearestEdges": "the best {edges} by {signal}",
    "LowestEdgeScore": "the lowest score of edges by {signal}",
    "NearestByCosine": "the {nodes} most like the question{text}",
    "Entities": "the entities of the question",
    "Mentions": "the names in the question",
    "Mentioned": "the names in the question",
    "Titled": "nodes by their names",
    "ByTitle": "nodes by their names",
    "Similarity": "how alike question and nodes are",
    "Scores": "scores of nodes by {signal}{text}",
    "EdgeScores": "scores of edges by {signal}",
    "EdgeVectors": "vectors of edges by {signal}",
    "TermScores": "scores of nodes by the terms of the question",
    "Relevance": "the relevance model's scores",
    "Neighbors": "neighbours",
    "WeightedNeighbors": "neighbours with the weights of edges",
    "Steps": "neighbours by one relation",
    "Edges": "edges",
    "EdgeTexts": "texts of edges",
    "EdgesAmong": "edges among the nodes",
    "Weights": "weights of the edges among the nodes",
    "Degree": "how many neighbours nodes have",
    "Vectors": "vectors of nodes",
    "Texts": "texts",
    "Contents": "texts",
    "Pairs": "scores of nodes",
    "Walk": "where a random walk comes by most",
    "Extraction": "the keywords of the question",
    "Planning": "a plan for the question",
    "Entangled": "the network's scores",
    "NetworkScores": "the network's scores",
    "EntityMatches": "the entities most like those of the question",
    "MentioningSentences": "sentences that mention entities, and how alike they and the question are",
    "ContainingPassages": "passages that contain entities",
    "EntityNames": "names of entities",
    "Completion": "an answer of the language model",
}
_SIGNALS = {"dense": "vectors", "bm25": "words", "edge_dense": "the vectors of edges", "edge_bm25": "the words of edges"}
# The purpose of a search that is not for results.
_AMONG = {"start": ", to start from", "name": ", named by the question", "walk": ", to walk to", "return": ""}


def picture(retriever: Retriever, question: str, k: int | None = None, *, most: int = MOST_NODES) -> dict[str, Any]:
    """Search, and return the data for drawing the search, as values for JSON; nodes are identified by their rows.

    Parameters
    ----------
    retriever : Retriever
        On an index in memory.
    question : str
    k : int, optional
        Number of hits; by default that of the retriever.
    most : int, default 5000
        Maximum number of nodes to draw: hits and the nodes on their paths first, then the nodes found, in the order of the steps.

    Returns
    -------
    dict
        ``question``, ``retriever``, ``seconds``, ``notes``; ``hits``; ``rounds``: for each step its calls, with the request and
        the best results, each ``[row, score or None, row whose neighbour it is or None]``; ``nodes``, each with the step that
        found it first; ``edges``, each with the step that followed it first, or None; ``left_out``, the number of nodes found
        beyond `most`. Names and texts are cut.

    Raises
    ------
    InvalidArgumentError
        If the retriever is not on an index in memory.

    Examples
    --------
    >>> from graph_retrievers import BM25, GraphIndex
    >>> index = GraphIndex.from_texts(["A loom.", "A card."], titles=["Loom", "Card"], edges=[("0", "1", "reads")])
    >>> drawn = picture(Retriever(index, BM25(), k=1), "Which loom?")
    >>> drawn["hits"][0]["name"], drawn["rounds"][0]["calls"][0]["asked"], [node["name"] for node in drawn["nodes"]]
    ('Loom', 'the best node by words', ['Loom'])
    """
    if not isinstance(retriever, MemoryRetriever) or type(retriever.index.graph) is not CorpusGraph:
        raise InvalidArgumentError(
            f"Expected a Retriever on a GraphIndex, whose search can be drawn, got {type(retriever).__name__}."
        )
    graph, most = retriever.index.graph, positive("most", most)
    start = perf_counter()
    with recorded() as results:
        hits = retriever.retrieve(question, k)
    seconds = perf_counter() - start
    rows, first_steps = _node_rows(graph, hits, results, most)
    drawn = set(rows)
    found = {row for call in results for row in np.unique(call.nodes).tolist()}
    return {
        "question": question,
        "retriever": retriever.name,
        "seconds": seconds,
        "notes": list(hits.notes),
        "hits": [_hit(graph, hit) for hit in hits],
        "rounds": _rounds(results, drawn, question),
        "nodes": [node_entry(graph, row) | {"step": first_steps.get(row)} for row in rows],
        "edges": _edges(graph, rows, hits, results),
        "left_out": len(found - drawn),
    }


def search_page(retriever: Retriever, question: str, k: int | None = None) -> str:
    """Search, and return the search as one HTML page, which contains everything that it needs and loads nothing.

    It shows the hits with their texts and paths, and the search as a graph, step by step. Texts of documents cannot become part
    of its code.

    Parameters
    ----------
    retriever, question, k
        As for :func:`picture`.

    Examples
    --------
    >>> from graph_retrievers import BM25, GraphIndex
    >>> page = search_page(Retriever(GraphIndex.from_texts(["A loom.", "A card."]), BM25()), "Which </script> loom?")
    >>> page[:15], page.count("</script>")
    ('<!doctype html>', 3)
    """
    drawn, graph = picture(retriever, question, k), retriever.index.graph
    rows = list(dict.fromkeys(row for hit in drawn["hits"] for row in hit["rows"]))
    part = subgraph(graph, rows)
    data = {
        "picture": drawn,
        "texts": {row: graph.texts[row][:_TEXT] for row in rows},
        "exports": {"json": json.dumps(part.to_node_link()), "graphml": part.to_graphml()},
    }
    return filled_page(data)


def node_entry(graph: CorpusGraph, row: int) -> dict[str, Any]:
    """Return the row, id, name and type of a node, cut."""
    node, title, kind = graph.ids[row], graph.titles[row], graph.types[row]
    # A few words of the text name a node without a title, if its id is random.
    name = label(node[:_NAME], title[:_NAME], graph.texts[row][:_NAME])
    return {"row": row, "id": node[:_NAME], "name": name, "type": kind[:_NAME]}


def _node_rows(graph: CorpusGraph, hits: Hits, results: Sequence[StepResult], most: int) -> tuple[list[int], dict[int, int]]:
    """Return the nodes that are drawn, the most important first, and the step that found each first."""
    first_steps: dict[int, int] = {}
    for call in results:
        for row in call.nodes.tolist():
            first_steps.setdefault(row, call.entry.step)
    path_rows = [graph.row(node) for hit in hits for node in hit.path.nodes]
    return list(dict.fromkeys([*path_rows, *first_steps]))[:most], first_steps


def _hit(graph: CorpusGraph, hit: Hit) -> dict[str, Any]:
    values = hit.to_dict()
    rows = [graph.row(node) for node in hit.path.nodes]
    head = node_entry(graph, rows[-1]) if hit.kind == "node" else {"row": None, "id": "", "name": hit.path.text[:_NAME], "type": ""}
    return {
        **head,
        **{name: values[name] for name in ("operator", "kind")},
        "score": _number(hit.score),
        "similarity": None if hit.similarity is None else _number(hit.similarity),
        "path": hit.path.text[: 4 * _NAME] if len(rows) > 1 else "",
        "rows": rows,
        "why": hit.explain()[: 8 * _NAME],
        "text": hit.text[:_SNIPPET],
    }


def _rounds(results: Sequence[StepResult], drawn: set[int], question: str) -> list[dict[str, Any]]:
    """Return the calls of each step."""
    rounds: dict[int, list[dict[str, Any]]] = {}
    for call in results:
        entry, scores = call.entry, call.scores
        # A stable order: the best first, neighbours as they were found.
        order = np.arange(len(call.nodes)) if scores is None else np.argsort(-np.asarray(scores, np.float64), kind="stable")
        places = [place for place in order.tolist() if int(call.nodes[place]) in drawn][:_MOST_LISTED]
        best = [
            [
                int(call.nodes[place]),
                None if scores is None else _number(scores[place]),
                None if call.near is None else int(call.near[place]),
            ]
            for place in places
        ]
        rounds.setdefault(entry.step, []).append(
            {
                "operator": ", ".join(entry.operators),
                "asked": _request_text(call, question),
                "about": entry.nodes,
                "seconds": entry.seconds,
                "count": len(np.unique(call.nodes)),
                "found": best,
            }
        )
    return [{"step": step, "calls": calls} for step, calls in rounds.items()]


def _request_text(call: StepResult, question: str) -> str:
    """Return in words what a call asked for."""
    requests = [inner_request(request) for request in call.requests]
    signal, types, among = (getattr(requests[0], name, "") for name in ("signal", "types", "among"))
    k = max(getattr(request, "k", 0) for request in requests)
    # The texts that are searched for in place of the question.
    texts: set[Any] = {getattr(request, "text", None) for request in (*call.requests, *requests)} - {None, question}
    return _REQUEST_TEXTS.get(call.entry.request.__name__, call.entry.request.__name__).format(
        nodes=f"{k:,} nodes" if k > 1 else "node",
        edges=f"{k:,} edges" if k > 1 else "edge",
        signal=_SIGNALS.get(signal, f"the signal {shown(signal)}"),
        types=f" of the type {', '.join(map(shown, types))}" if any(types) else "",
        text=f" for {shown(min(texts))}{f' and {len(texts) - 1} more' * (len(texts) > 1)}" if texts else "",
        among="" if getattr(requests[0], "returned", True) else _AMONG.get(among, ""),
    )


def _number(score: Any) -> float | None:
    return float(f"{float(score):.6g}") if isfinite(score) else None


def _edges(graph: CorpusGraph, rows: Sequence[int], hits: Hits, results: Sequence[StepResult]) -> list[dict[str, Any]]:
    """Return the edges that are drawn: those on paths of hits, those walked, and among few nodes all others too."""
    edges: dict[tuple[int, int, str], dict[str, Any]] = {}
    row_set = set(rows)

    def draw(source: int, target: int, relation: str, **more: Any) -> None:
        if source in row_set and target in row_set and (len(edges) < _MOST_EDGES or (source, target, relation) in edges):
            plain = {"source": source, "target": target, "relation": relation[:_NAME], "step": None, "path": False, "edge": True}
            edge = edges.setdefault((source, target, relation), plain)
            edge |= {name: value for name, value in more.items() if edge[name] in (None, False) or name == "edge"}

    for hit in hits:
        for near, far, relation in hit.path.triples():
            draw(graph.row(near), graph.row(far), relation, path=True)
        for link in hit.path.names():
            draw(graph.row(link.near), graph.row(link.far), link.name, path=True, edge=False)
    step_of: dict[tuple[int, int], int] = {}
    for call in results:
        if call.near is not None:
            for pair in zip(call.near.tolist(), call.nodes.tolist(), strict=True):
                if len(step_of) < _MOST_EDGES and pair[::-1] not in step_of and row_set.issuperset(pair):
                    step_of.setdefault(pair, call.entry.step)
    ends = torch.tensor(list(step_of), dtype=torch.int64, device=graph.device).reshape(-1, 2)
    edge_rows = graph.steps_between(ends[:, 0], ends[:, 1])[0].tolist()
    steps = [(row, step) for row, step in zip(edge_rows, step_of.values(), strict=True) if row >= 0]
    for (source, target, relation), (_, step) in zip(_ends(graph, [row for row, _ in steps]), steps, strict=True):
        draw(source, target, relation, step=step)
    if len(rows) <= _FEW_NODES:
        for source, target, relation in _ends(graph, graph.edges_within(rows)[:_MOST_EDGES]):
            draw(source, target, relation)
    return list(edges.values())


def _ends(graph: CorpusGraph, rows: Sequence[int]) -> Iterable[tuple[int, int, str]]:
    """Yield source, target and relation of relationship rows."""
    place = torch.tensor(rows, dtype=torch.int64, device=graph.device)
    for source, target, relation in zip(
        *(column[place].tolist() for column in (graph.sources, graph.targets, graph.relations)), strict=True
    ):
        yield source, target, graph.relation_names[relation]


def subgraph(graph: CorpusGraph, rows: Sequence[int]) -> Subgraph:
    """Return some nodes, and the edges between them."""
    return Subgraph(tuple(graph.node(row).shown() for row in rows), tuple(graph.edges(graph.edges_within(rows))))
