"""Follow metapaths that are similar to the question from the nodes that it names, O_vgs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from graph_retrievers.arguments import positive
from graph_retrievers.cache import Identity
from graph_retrievers.core.candidates import Candidates, best, falling, newly_reached
from graph_retrievers.core.chains import padded
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.question import Question
from graph_retrievers.core.requests import Contents, Near, Request, Steps
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, shown
from graph_retrievers.graph.facts import GraphFacts
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.systems.mor.plan import PathStep, ReasoningPath, TypeSchema

__all__ = ["MetapathSearch"]

# Metapaths with a smaller share of the weight of the best are not followed.
_LEAST = 0.01
_MOST_EDGES = 1_000_000

# A metapath and the node that it begins at.
_Route = tuple[tuple[PathStep, ...], int]


def metapaths(graph: GraphFacts, start: str, length: int = 3, limit: int = 500) -> list[ReasoningPath]:
    """Return the metapaths of a graph that begin at a node type: sequences of relations and node types along its edges.

    They have at most `length` relations. If there are more than `limit`, whole lengths are left out, the longest first.

    >>> from graph_retrievers.graph import CorpusGraph
    >>> graph = CorpusGraph(["m", "p"], ["", ""], types=["movie", "person"], edges=[("m", "p", "directed_by")])
    >>> [str(path) for path in metapaths(graph, "movie", length=2)]
    ['movie -[directed_by]- person', 'movie -[directed_by]- person -[directed_by]- movie']
    """
    schema = TypeSchema.of(graph)
    paths: list[ReasoningPath] = []
    ends = [ReasoningPath((PathStep(start),))]
    for _ in range(length):
        ends = [
            ReasoningPath((*path.steps, PathStep(kind, relation)))
            for path in ends
            for kind in schema.types
            for relation in schema.relations(path.steps[-1].type, kind)
        ]
        if len(paths) + len(ends) > limit:
            break
        paths += ends
    return paths


class MetapathSearch(Operator):
    r"""Follow, from the nodes that a question names, the metapaths whose text is similar to the question.

    A metapath is a sequence of node types and relations, such as movie, starred actors, person, directed by, movie. With
    :math:`R_{p,u}` the nodes that metapath p reaches from the named node u, the score of a node is

    .. math:: S_v = \sum_{u} s_u \sum_{p:\, v \in R_{p,u}} \frac{w_{p,u}}{|R_{p,u}|}, \qquad
        w_{p,u} = \exp\Bigl(\frac{\cos(q', p) - \max_{p'} \cos(q', p')}{\tau}\Bigr),

    where :math:`s_u` is the matching score of u divided by the largest, q' the question without the names, p' runs over the
    metapaths that begin at the type of u, and the text of a metapath is its types and relations in order, with underscores as
    spaces.

    Parameters
    ----------
    seeds : int, default 5
        Nodes of the previous ranking at which walks start.
    length : int, default 3
        Maximum number of relations of a metapath.
    temperature : float, default 0.03
        The tau of the equation.
    limit : int, default 500
        Maximum number of metapaths that begin at one node type: see :func:`metapaths`.
    k : int, default 100
        Nodes to keep.

    Raises
    ------
    MissingSignalError
        If the index has no embedding model for the metapaths.
    InvalidArgumentError
        For a value outside its range.

    Notes
    -----
    Reads the named nodes and their scores from the previous ranking, such as that of
    :class:`~graph_retrievers.systems.spreading.linking.EntityLinking`. Edges are followed both ways, and a walk does not return
    to its start. A metapath with a weight below 0.01 is not followed; a step of a walk ends after reading a million edges, and a
    note says so. The path of a hit is that of the metapath that contributes most to its score.

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

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes reached by the metapaths from the best nodes found."""
        seeds = candidates.top(self.seeds)
        names = [node.name for node in (yield Contents(seeds.nodes))]
        seeds = seeds.taken(np.flatnonzero(seeds.scores > 0))
        nothing = Candidates.seeds(seeds.nodes[:0], seeds.scores[:0], self.name)
        nothing.relations = nothing.trails[:, 1:]
        if not len(seeds):
            return nothing
        # A question that is only a name is compared unchanged.
        results = yield Likeness(self, _without(question.text, names) or question.text, tuple(question.types(seeds.nodes)))
        # A route p, u: the metapath and the node that it begins at, and s_u w_pu.
        routes, weights = list[_Route](), list[float]()
        strength = seeds.scores / seeds.scores[0]
        for start, s, (paths, cosines) in zip(seeds.nodes.tolist(), strength.tolist(), results, strict=True):
            w = np.exp((cosines - cosines.max(initial=-np.inf)) / self.temperature)
            indices = np.flatnonzero(w >= _LEAST).tolist()
            routes += [(paths[p].steps, start) for p in indices]
            weights += [s * w[p] for p in indices]
        ways = yield from self._walk(question, routes)  # R_pu, each node at the end of its way
        sizes = [len(trails) for trails in ways]
        if not sum(sizes):
            return nothing
        route = np.repeat(np.arange(len(ways)), sizes)
        ends, part = np.concatenate([trails[:, -1] for trails in ways]), (np.array(weights) / np.maximum(sizes, 1))[route]
        # The way to a node is that of the largest part, of equal ones the first.
        turn = np.argsort(-part.astype(np.float32), kind="stable")
        nodes, first, at = np.unique(ends[turn], return_index=True, return_inverse=True)
        scores = np.bincount(at, part[turn])
        by = best(scores, self.k, nodes)
        places = turn[first[by]]
        inside = places - (np.cumsum(sizes) - sizes)[route[places]]
        trails = padded([ways[r][n] for r, n in zip(route[places].tolist(), inside.tolist(), strict=True)], left=True)
        relations = [[question.relation(step.relation) for step in routes[r][0][1:]] for r in route[places].tolist()]
        result = Candidates.seeds(nodes[by], falling(scores[by]), self.name)
        return replace(result, trails=trails, relations=padded(relations, left=True))

    def _walk(self, question: Question, routes: list[_Route]) -> Algorithm[list[np.ndarray]]:
        """Find the nodes that each route reaches, each at the end of its trail, shape [n, L]: of several the lowest rows."""
        trails = {(steps[:1], start): np.array([[start]]) for steps, start in routes}
        for step in range(1, max((len(steps) for steps, _ in routes), default=0)):
            # Routes that begin alike are walked once.
            prefixes = list(dict.fromkeys((steps[: step + 1], start) for steps, start in routes if len(steps) > step))
            before = [trails[steps[:-1], start] for steps, start in prefixes]
            requests = [
                Steps(way[:, -1], steps[-1].type, steps[-1].relation, _MOST_EDGES)
                for way, (steps, _) in zip(before, prefixes, strict=True)
                if len(way)
            ]
            answers = iter((yield tuple(requests)))
            for (steps, start), way in zip(prefixes, before, strict=True):
                near, whole = next(answers) if len(way) else (Near(way[:, 0], way[:, 0]), True)
                nodes, owner = newly_reached(np.array([start]), near.owner, near.node)
                trails[steps, start] = np.concatenate([way[owner], nodes[:, None]], 1)
                if not whole:
                    question.notes.append(f"a walk along a metapath was cut short after {_MOST_EDGES:,} edges")
        return [trails[route] for route in routes]

    def metapaths(self, index: Corpus, start: str) -> tuple[list[ReasoningPath], Tensor]:
        """Return the metapaths of a node type, and their vectors of unit length, [P, d]; kept with the graph."""
        model = index.embedding
        if model is None:
            raise MissingSignalError("MetapathSearch compares questions with metapaths; pass embedding= to the index.")

        def make() -> tuple[list[ReasoningPath], Tensor]:
            paths = metapaths(index.facts, start, self.length, self.limit)
            vectors = embed_corpus(model, [_text(path) for path in paths]) if paths else torch.empty((0, index.dense.dimension))
            return paths, normalize(vectors.float(), dim=1).to(index.device)

        return index.facts.cache.get(("metapaths", Identity(model), start, self.length, self.limit), make)


@dataclass(frozen=True, eq=False)
class Likeness(Request):
    """The metapaths that begin at each of some node types, and their cosines with a text: list of (paths, float64 [P])."""

    shared = ("metapaths",)
    reads = "signals"
    metapaths: MetapathSearch
    text: str
    types: tuple[str, ...]

    @classmethod
    def together(cls, backend: Any, requests: Sequence[tuple[int, Likeness]]) -> list[list[tuple[list[ReasoningPath], np.ndarray]]]:
        """Embed the texts of all questions at once."""
        queries, search = backend.queries, requests[0][1].metapaths
        texts = normalize(queries.embed([request.text for _, request in requests]).float(), dim=1)
        answers = []
        for text, (_, request) in zip(texts, requests, strict=True):
            pairs = [search.metapaths(queries.index, kind) for kind in request.types]
            answers.append([(paths, (vectors @ text).double().cpu().numpy()) for paths, vectors in pairs])
        return answers


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
