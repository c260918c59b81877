"""Metapaths that resemble the question, followed from the nodes that it names, O_vgs."""

from __future__ import annotations

import re

import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.arguments import positive
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.ragged import pad_ranked
from graph_retrievers.operators.mor.adjacency import typed_adjacency
from graph_retrievers.operators.mor.plan import GraphSchema, PathStep, ReasoningPath
from graph_retrievers.operators.mor.walk import Routes, Walk, walk
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.queries import Queries
from graph_retrievers.results import Ranking
from graph_retrievers.signals.embedding import embed_texts

__all__ = ["MetapathSearch", "metapaths"]

# Metapaths with a smaller share of the weight of the best are not followed.
_LEAST = 0.01
_MOST_EDGES = 1_000_000


def metapaths(graph: CorpusGraph, start: str, length: int = 3, limit: int = 500) -> list[ReasoningPath]:
    """Return the metapaths of a graph that begin at a node type: sequences of relations and node types along its edges.

    Parameters
    ----------
    graph : CorpusGraph
    start : str
        Node type.
    length : int, default 3
        The most relations of a metapath.
    limit : int, default 500
        The most metapaths: lengths are left out, the longest first, until there are no more than these.

    Examples
    --------
    >>> graph = CorpusGraph(["m", "p"], ["", ""], types=["movie", "person"], edges=[("m", "p", "directed_by")])
    >>> [str(path) for path in metapaths(graph, "movie", length=2)]
    ['movie -[directed_by]- person', 'movie -[directed_by]- person -[directed_by]- movie']
    """
    schema = GraphSchema.of(graph)
    found: list[ReasoningPath] = []
    ends = [ReasoningPath((PathStep(start),))]
    for _ in range(length):
        ends = [
            ReasoningPath((*path.steps, PathStep(kind, relation)))
            for path in ends
            for kind in schema.types
            for relation in schema.relations(path.steps[-1].type, kind)
        ]
        if len(found) + len(ends) > limit:
            break
        found += ends
    return found


class MetapathSearch(Operator):
    r"""Follow, from the nodes that a question names, the metapaths whose text resembles the question.

    A metapath is a sequence of node types and relations, such as movie, starred actors, person, directed by, movie. With
    :math:`R_{p,u}` the nodes that metapath p reaches from the named node u, a node scores

    .. math:: S_v = \sum_{u} s_u \sum_{p:\, v \in R_{p,u}} \frac{w_{p,u}}{|R_{p,u}|}, \qquad
        w_{p,u} = \exp\Bigl(\frac{\cos(q', p) - \max_{p'} \cos(q', p')}{\tau}\Bigr),

    where :math:`s_u` is the matching score of u over the largest, q' the question without the names, p' runs over the metapaths
    that begin at the type of u, and the text of a metapath is its types and relations in order, underscores read as spaces.

    Parameters
    ----------
    seeds : int, default 5
        Nodes of the ranking before it that walks start from.
    length : int, default 3
        The most relations of a metapath.
    temperature : float, default 0.03
        The tau of the equation.
    limit : int, default 500
        The most metapaths that begin at one node type: see :func:`metapaths`.
    k : int, default 100
        Nodes to keep.

    Raises
    ------
    MissingSignalError
        If the index has no embedding model, which reads the metapaths.
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    Reads the named nodes and their scores from the ranking before it, such as that of
    :class:`~graph_retrievers.operators.spreading.linking.EntityLinking`. Edges are followed both ways, and a walk does not return
    to its start. A metapath with a weight below 0.01 is not followed; a step of a walk that reads a million edges is cut short,
    and a note says so. The path of a hit is that of the metapath that gives it the largest part of its score.

    The metapaths of a node type are embedded when a question first starts from it, and their vectors are kept with the graph.

    References
    ----------
    Our own. Sun et al., "PathSim", VLDB 2011 (metapaths); Lao and Cohen, "Relational Retrieval Using a Combination of
    Path-Constrained Random Walks", Machine Learning 2010, learn the weights of metapaths from examples.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Pipeline, Retriever
    >>> from graph_retrievers.graph import CorpusGraph
    >>> from graph_retrievers.operators import EntityLinking
    >>> graph = CorpusGraph(
    ...     ["m", "a", "d"],
    ...     [""] * 3,
    ...     titles=["Kismet", "Ada Holm", "Cleo Marsh"],
    ...     types=["movie", "person", "person"],
    ...     edges=[("m", "a", "starred_actors"), ("m", "d", "directed_by")],
    ... )
    >>> words = ["starred", "directed"]
    >>> def embed(texts):
    ...     return [[1 + 9 * text.count(word) for word in words] for text in texts]
    >>> index = GraphIndex.from_graph(graph, embedding=embed)
    >>> search = Pipeline(EntityLinking(), MetapathSearch())
    >>> for hit in Retriever(index, search, backfill=False).retrieve("Who directed Kismet?"):
    ...     print(round(hit.score, 2), hit.path.text)
    1.0 Kismet -[directed_by]-> Cleo Marsh
    """

    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def __init__(self, seeds: int = 5, *, length: int = 3, temperature: float = 0.03, limit: int = 500, k: int = 100) -> None:
        self.seeds, self.length, self.limit = positive("seeds", seeds), positive("length", length), positive("limit", limit)
        if not temperature > 0:
            raise InvalidArgumentError(f"temperature must be above 0, got {shown(temperature)}.")
        self.temperature = float(temperature)
        self.k: int = positive("k", k)

    def rank(self, queries: Queries, ranking: Ranking) -> Ranking:
        """Return the nodes that the metapaths reach from the best nodes of each query."""
        graph, size, device = queries.index.graph, len(queries.index), queries.index.device
        seeds = ranking.top(self.seeds)
        # A route is a metapath from a named node: its path, start, column of the start and weight.
        plans: list[tuple[ReasoningPath, ...]] = []
        starts, columns, weights = list[int](), list[int](), list[Tensor]()
        for query, nodes, scores in zip(self._questions(queries, seeds), seeds.nodes.tolist(), seeds.scores.tolist(), strict=True):
            paths = list[ReasoningPath]()
            for column, (node, score) in enumerate(zip(nodes, scores, strict=True)):
                if node >= 0 and score > 0:
                    known, vectors = self._metapaths(queries, graph.types[node])
                    likeness = vectors @ query
                    weight = torch.exp((likeness - likeness.max()) / self.temperature) if known else likeness
                    kept = (weight >= _LEAST).nonzero().flatten().tolist()
                    paths += [known[place] for place in kept]
                    starts += [node] * len(kept)
                    columns += [column] * len(kept)
                    weights.append(weight[kept] * (score / scores[0]))
            plans.append(tuple(paths))
        if not starts:
            return Ranking.empty(len(queries), device)

        adjacency = typed_adjacency(graph)
        routes = Routes.of(plans, adjacency, GraphSchema.of(graph))
        keys = torch.arange(len(starts), device=device) * size + torch.tensor(starts, device=device)
        none = keys[:0]
        entries = [(keys, torch.zeros_like(keys)), *[(none, none)] * len(routes.low)]
        walked = walk(adjacency, routes, entries, banned=keys, allowed=queries.walk_allowed, max_edges=_MOST_EDGES)
        route, node = walked.finals // size, walked.finals % size
        reached = torch.bincount(route, minlength=len(starts))
        part = (torch.cat(weights).to(device) / reached.clamp(min=1))[route]
        owner = torch.tensor(routes.owner, device=device)
        found, place = torch.unique(owner[route] * size + node, return_inverse=True)
        scores = torch.zeros(found.numel(), device=device).index_add_(0, place, part)
        # The route of the path: that of the largest part, of equal ones the first.
        most = torch.zeros_like(scores).scatter_reduce_(0, place, part, "amax")
        best = torch.full_like(found, len(starts)).scatter_reduce_(
            0, place[part == most[place]], route[part == most[place]], "amin"
        )
        widest = int(torch.bincount(found // size).max()) if found.numel() else 0
        table, values, chosen = pad_ranked(found // size, found % size, scores, best, len(queries), min(self.k, widest))
        trails, relations = _paths(graph, walked, table, chosen)
        result = Ranking.of(table, values, self.name, trails, relations=relations)
        for cut in sorted({routes.owner[route] for route in walked.cut}):
            which = [query == cut for query in range(len(queries))]
            result = result.noted(which, f"a walk along a metapath was cut short after {_MOST_EDGES:,} edges")
        return result

    def _questions(self, queries: Queries, seeds: Ranking) -> Tensor:
        """Return the vectors of the questions without the names of their seeds, of unit length: Tensor, shape [B, d]."""
        graph, texts = queries.index.graph, list[str]()
        for text, nodes in zip(queries.texts, seeds.nodes.tolist(), strict=True):
            names = [graph.titles[node] or graph.ids[node] for node in nodes if node >= 0]
            # A question that is nothing but a name is compared as it is.
            texts.append(_without(text, names) or text)
        return normalize(queries.embed(texts).float(), dim=1)

    def _metapaths(self, queries: Queries, start: str) -> tuple[list[ReasoningPath], Tensor]:
        """Return the metapaths of a node type, and their vectors of unit length, [P, d]."""
        index, model = queries.index, queries.index.embedding
        if model is None:
            raise MissingSignalError("MetapathSearch compares questions with metapaths; pass embedding= to the index.")

        def make() -> tuple[object, list[ReasoningPath], Tensor]:
            paths = metapaths(index.graph, start, self.length, self.limit)
            vectors = embed_texts(model, [_text(path) for path in paths]) if paths else torch.empty((0, index.dense.dimension))
            return model, paths, normalize(vectors.float(), dim=1).to(index.device)

        # The model is kept with the vectors, so that its id is not used again.
        return index.graph.cache.get(("metapaths", id(model), start, self.length, self.limit), make)[1:]


def _paths(graph: CorpusGraph, walked: Walk, table: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the trail of each node along its chosen route, [B, K, S], and the relations of the steps, [B, K, S - 1]."""
    real, longest = table >= 0, len(walked.layers)
    trails = torch.full((*table.shape, longest), -1, dtype=torch.int64, device=table.device)
    trails[real] = walked.trails(chosen[real], table[real])
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(graph.relation_names)}
    rows = [[numbers.get(step.relation, -1) for step in path.steps[1:]] for path in walked.routes.paths]
    padded = torch.tensor([[-1] * (longest - 1 - len(row)) + row for row in rows], device=table.device)
    relations = torch.full((*table.shape, longest - 1), -1, dtype=torch.int64, device=table.device)
    relations[real] = padded[chosen[real]]
    return trails, relations


def _text(path: ReasoningPath) -> str:
    """Return the types and relations of a metapath in order, as words."""
    parts = [path.steps[0].type, *(part for step in path.steps[1:] for part in (step.relation or "", step.type))]
    return " ".join(" ".join(parts).replace("_", " ").split())


def _without(text: str, names: list[str]) -> str:
    """Return a text without names, longest first, upper and lower case alike."""
    for name in sorted(names, key=len, reverse=True):
        pattern = r"\s+".join(map(re.escape, name.split()))
        text = re.sub(rf"(?<!\w){pattern}(?!\w)", " ", text, flags=re.IGNORECASE)
    return " ".join(text.split())
