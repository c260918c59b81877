"""An index of a few documents, such as the results of another retriever, for operators that rerank them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.construction.edges import edge_items, edges_among, needs_vectors
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, EdgeLike, Node
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.search.memory import ranked
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.bi_encoder import BiEncoder
from graph_retrievers.signals.embedding import embed_texts
from graph_retrievers.signals.embedding_models import as_embedding
from graph_retrievers.signals.models import as_relevance_model
from graph_retrievers.signals.relevance import RelevanceModel

__all__ = ["rerank"]


def excerpt_index(
    nodes: Sequence[Node],
    *,
    index: GraphIndex | None = None,
    edges: Any = (),
    relevance: Any = None,
    embedding: Any = None,
    vectors: Callable[[Sequence[Node]], Any] | None = None,
) -> GraphIndex:
    """Return an index that contains all nodes: the given one if it has them all, else a small one of only these nodes.

    The ids of the nodes must be distinct. A small index has the edges of `index` with their relations and weights, and its models
    unless the caller gives others; a bi-encoder used instead of a relevance model does not count. `edges` adds other links (see
    :func:`graph_retrievers.construction.edges.build_edges`; edges of absent nodes are ignored). `vectors`, a function of the nodes,
    returns their vectors, shape [n, d], and is called only if they are needed; by default the embedding model computes them, and
    without one MissingSignalError is raised.
    """
    model: RelevanceModel | None = None if relevance is None else as_relevance_model(relevance)
    if index is not None and all(node.id in index.graph for node in nodes):
        return index if model is None and embedding is None else index.with_models(embedding=embedding, relevance=model)
    index_edges: list[Edge] = []
    if index is not None:
        graph = index.graph
        index_edges = graph.edges(graph.edges_within([graph.row(node.id) for node in nodes if node.id in graph]))
        embedding = index.embedding if embedding is None else embedding
        if model is None and not isinstance(index.relevance, BiEncoder):
            model = index.relevance
    specs = edge_items(edges)
    table: Tensor | None = None
    if model is None or needs_vectors(specs):
        if vectors is None and embedding is None:
            raise MissingSignalError("Documents that no index holds need a model: pass relevance= or embedding=.")
        contents = CorpusGraph.from_nodes(nodes).contents()
        table = vectors(nodes) if vectors is not None else embed_texts(as_embedding(embedding), contents)
    all_edges: list[EdgeLike] = [*index_edges, *edges_among(nodes, specs, table)]
    distinct = {(edge.source, edge.target, edge.relation): edge for edge in map(Edge.of, reversed(all_edges))}
    device = None if index is None else index.device
    options: dict[str, Any] = {"vectors": table, "embedding": embedding if table is not None else None, "relevance": model}
    return GraphIndex.from_nodes(nodes, list(distinct.values())[::-1], bm25=False, device=device, **options)


def check_same_model(index: GraphIndex | None, embedding: Any) -> None:
    """Raise InvalidArgumentError if vectors of an index would be mixed with those of a model with another name."""
    name, index_name = getattr(embedding, "name", None), None if index is None else index.embedding_name
    if name and index_name and name != index_name:
        raise InvalidArgumentError(
            f"The vectors of the index are of {index_name!r}, the embedding model is {name!r}; pass one of them."
        )


def index_vectors(nodes: Sequence[Node], index: GraphIndex | None) -> list[Tensor | None]:
    """Return the index's vectors of nodes, None for nodes that it does not contain with the same id, title and (shown) text."""
    table = None if index is None else getattr(index.dense, "vectors", None)
    if index is None or not isinstance(table, Tensor):
        return [None] * len(nodes)
    contents, graph = CorpusGraph.from_nodes(nodes).contents() if nodes else [], index.graph
    rows = [graph.row(node.id) if node.id in graph else None for node in nodes]
    shown_contents = iter(CorpusGraph.from_nodes([graph.node(row).shown() for row in rows if row is not None]).contents())
    return [
        table[row].cpu() if row is not None and text in (graph.content(row), next(shown_contents)) else None
        for row, text in zip(rows, contents, strict=True)
    ]


def excerpt_vectors(nodes: Sequence[Node], index: GraphIndex | None, embed: Callable[[list[int]], Iterable[Any]]) -> Tensor:
    """Return the vectors of nodes, shape [n, d]: those of :func:`index_vectors`, and what `embed` returns for the places of others.

    >>> excerpt_vectors([Node("a", "A loom.")], None, lambda places: torch.ones(len(places), 2))
    tensor([[1., 1.]])
    """
    vectors = index_vectors(nodes, index)
    bare = [place for place, vector in enumerate(vectors) if vector is None]
    model_vectors = iter(embed(bare) if bare else ())
    return torch.stack([next(model_vectors) if vector is None else vector for vector in vectors])


def rerank(
    operator: Operator,
    query: str,
    nodes: Sequence[Node],
    *,
    scores: Sequence[float | None] | None = None,
    query_vectors: Any = None,
    **excerpt: Any,
) -> list[tuple[int, float]]:
    """Return the places of `nodes`, best first, and their scores, as an operator ranks them for one query.

    Nodes with a repeated id count once, at the first place. `scores` are the scores with which the nodes were found; unless each
    node has one, they count as equal. For an empty query the order and the scores stay as they are, 0 without one.
    `query_vectors` is the query's vector, shape [1, d], or a function from texts to vectors; `excerpt` has the keywords of
    :func:`excerpt_index`, with lists in the order of `nodes`.
    """
    for score in scores or ():
        if score is not None and not abs(score) < 1e38:
            raise InvalidArgumentError(f"A document was found with the score {shown(score)}; expected a finite number, or none.")
    places: dict[str, int] = {}
    for place, node in enumerate(nodes):
        places.setdefault(node.id, place)
    if not places:
        return []
    if not query.strip():
        return [(place, 0.0 if scores is None else scores[place] or 0.0) for place in places.values()]
    index = excerpt_index([nodes[place] for place in places.values()], **excerpt)
    rows = np.array([index.graph.row(name) for name in places])
    values = [scores[place] for place in places.values()] if scores is not None else [None]
    candidates = Candidates.seeds(rows, np.zeros(len(rows)) if None in values else np.array(values, np.float32), "given")
    result = ranked(operator, Queries.of(index, [query], vectors=query_vectors), [candidates])[0].trimmed()
    return [(places[index.graph.ids[row]], score) for row, score in zip(result.nodes.tolist(), result.scores.tolist(), strict=True)]
