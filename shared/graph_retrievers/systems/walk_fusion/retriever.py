"""WalkFusion: vector search, BM25 and graph searches, fused by rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import floor
from typing import Annotated

import numpy as np

from graph_retrievers.arguments import choice, positive
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.compositions import Pipeline, ReciprocalRankFusion
from graph_retrievers.core.driver import Algorithm
from graph_retrievers.core.fusion import list_weights
from graph_retrievers.core.operator import Operator
from graph_retrievers.core.question import Question
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.search.per_source import by_search
from graph_retrievers.search.vector_search import HybridSearch
from graph_retrievers.systems.fastinsight import STeX
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.propagation import GatedPropagation
from graph_retrievers.systems.spreading.retriever import DAMPED
from graph_retrievers.systems.system import Count, System
from graph_retrievers.systems.traits import (
    has_titles,
    holds_pieces,
    is_knowledge_graph,
    name_share,
    names_identify,
    names_join,
    names_lead,
    names_mentioned,
    without_names,
)
from graph_retrievers.systems.walk_fusion.look_up import CitedFirst
from graph_retrievers.systems.walk_fusion.metapath_search import MetapathSearch
from graph_retrievers.systems.walk_fusion.path_search import PathSearch

__all__ = ["WalkFusion"]

_SEEDS, _LINK_SEEDS, _BRIDGES = 5, 20, 3
# The share of paths in the score where names lead.
_SHARE = 0.5
# Where names in the texts are all that joins them; the seeds are of the links form.
_PLAIN_SEEDS, _PLAIN_BRIDGES = 10, 1
# Names are recognised by their capitals: texts in lower case, or in scripts without capitals, are below this share.
_NAME_SHARE = 0.15
_FORMS = ("links", "names", "pieces", "relations")
WEIGHTS = {"names": (4.0, 1.0, 2.0), "relations": (1.0, 1.0, 3.0), "pieces": (1.0, 2.0)}
"""Weights of the lists of WalkFusion, by form."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WalkFusion(System):
    r"""Several walks from the best matches, side by side and fused by reciprocal ranks; needs no cross-encoder.

    .. math:: S_n = \sum_{l} \frac{w_l}{c + r_l(n)}

    over the lists l that contain node n at rank :math:`r_l(n) \ge 1`. The lists depend on the graph.

    ``"names"``, for passages whose titles are names, as in an encyclopedia:

    1. :class:`~graph_retrievers.operators.PathSearch` from hybrid search: passages with the passage that leads to them,
       by an edge or by a name that is in its text and not in the question;
    2. STeX from the best nodes of hybrid search: these, followed by their neighbours by similarity and structure;
    3. gated spreading activation from the names in the question, which hubs divide among their neighbours, as in
       :class:`~graph_retrievers.systems.spreading.retriever.SpreadingActivation` over passages.

    ``"relations"``, for the entities of a knowledge graph:

    1. hybrid search;
    2. gated spreading activation from the names in the question;
    3. :class:`~graph_retrievers.systems.walk_fusion.metapath_search.MetapathSearch` from these names.

    ``"pieces"``, for chunks of pages that were cut without regard to sections, as by common splitters
    (:func:`~graph_retrievers.systems.traits.holds_pieces`), and are joined by edges:

    1. hybrid search;
    2. :class:`~graph_retrievers.operators.PathSearch` as in ``"links"``, only by edges to other pages.

    Neighbouring pieces of a page are similar, and would fill ten hits with one page. So a page gets at most as many of the first k
    hits as in hybrid search, or one if it has none there: the hits are from at least as many pages as those of hybrid search.

    ``"links"``, for all other graphs, such as manuals, whose headings are ordinary words, and papers, which do not name what
    they cite: only the first list of ``"names"``, only by edges, with the neighbours of more nodes, and with a share of paths that
    is smaller where nodes have more neighbours. If few edges join documents and most texts contain names, recognised by their
    capitals, then here and in ``"pieces"`` names join passages as edges do, and the share is that of ``"names"``
    (:func:`~graph_retrievers.systems.traits.names_join`).

    Where the index finds references by number (:class:`~graph_retrievers.construction.NumberedReferences`), what a question cites,
    as in "Article 17 GDPR", comes first (:class:`~graph_retrievers.operators.CitedFirst`).

    The index needs vectors and BM25.

    Parameters
    ----------
    seeds : int, optional
        Nodes of hybrid search whose neighbours are read, and maximum number of named nodes at which metapaths start; by default 5,
        for ``"links"`` and ``"pieces"`` 20, or 10 if names join passages. If a tenth of the nodes is less, it is that, and at
        least 2, or 1 for ``"links"`` and ``"pieces"``.
    bridges : int, optional
        Passages to which each name in a text leads, as for :class:`~graph_retrievers.operators.PathSearch`; by default 3 for
        ``"names"``, or without edges 1 if names in texts have capitals and 0 otherwise, and for ``"links"`` and ``"pieces"`` 1 if
        names join passages and 0 otherwise. ``"relations"`` has no such list.
    form : {"links", "names", "pieces", "relations"}, optional
        By default ``"relations"`` for a knowledge graph (see :func:`~graph_retrievers.systems.traits.is_knowledge_graph`) whose
        edges have at least two relations, with an embedding model; ``"pieces"`` if edges join pieces of documents; ``"names"`` if
        titles identify nodes (:func:`~graph_retrievers.systems.traits.names_identify`) and texts name each other
        (:func:`~graph_retrievers.systems.traits.names_mentioned` of 0.15 or more), with edges or without; otherwise ``"links"``.
    weights : sequence of float, optional
        The w of the equation: three, by default (4, 1, 2) for ``"names"`` and (1, 1, 3) for ``"relations"``, or two for
        ``form="pieces"``, by default (1, 2). 0 leaves a list out. Without a `form`, they apply to the lists of the form that fits
        the index, or the scope. If that is ``"links"``, which has one list, they are not used, and the reason of hits says so.
    constant : int, default 5
        The c of the equation. With the usual 60, a node at rank 20 of two lists would be ranked above the best node of one list.
    depth : int, default 100
        Nodes taken from each list.

    Raises
    ------
    InvalidArgumentError
        For a value outside its range, or weights with ``form="links"``, which has one list.

    Notes
    -----
    Chosen on train and dev questions (all-MiniLM-L6-v2, Recall@10): see ``benchmarks/results/walk-fusion`` for each form and
    list on every dataset.

    ``retrieve`` takes ``entities=[...]``, names that the question mentions, if a list starts from names. In a scope, the form is
    that which fits the scope.

    References
    ----------
    A composition of this package. Its parts: Cormack et al., SIGIR 2009 (reciprocal rank fusion); Glybovets and Makarov, 2026
    (gated spreading activation); An et al., SIGIR 2026 (STeX).

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1, 0], [0, 1]], edges=[("0", "1", "reads")])
    >>> [hit.text for hit in Retriever(index, WalkFusion()).retrieve("looms", vector=[1, 0])]
    ['a loom', 'a card']
    >>> WalkFusion().form_on(index)
    'links'
    """

    name = "walk-fusion"

    seeds: Count | None = None
    bridges: Annotated[int, partial(positive, least=0)] | None = None
    form: str | None = None
    weights: Sequence[float] | None = None
    constant: Count = 5
    depth: Count = 100

    def __post_init__(self) -> None:
        """Check the form and the weights."""
        choice("form", self.form, (None, *_FORMS))
        if self.weights is not None:
            if self.form == "links":
                raise InvalidArgumentError("WalkFusion has one list here, so weights= cannot be given; form='names' has three.")
            # A list equals a tuple, as it comes from a file of JSON.
            object.__setattr__(self, "weights", list_weights(self.weights, 2 if self.form == "pieces" else 3))

    def form_on(self, index: Corpus) -> str:
        """Return the given form, or the one that fits an index."""
        return self.form or _fitting(index)[0]

    def compose(self, index: Corpus) -> Operator:
        """Return the lists of the form, fused if there are several; the operator has the reason for the form."""
        form, why = (self.form, "as given") if self.form else _fitting(index)
        seeds, bridges, weights, depth = self.seeds, self.bridges, self.weights, self.depth
        plain = bridges is None and form in ("links", "pieces") and names_join(without_names(index))
        if form == "links" and weights is not None:
            why = f"{why}; weights= are for three lists, and this form has one"
        if form == "pieces" and weights is not None and len(weights) != 2:
            why, weights = f"{why}; weights= are for three lists, and this form has two", None

        search, links = HybridSearch(depth), form in ("links", "pieces")
        if seeds is None:
            # Neighbours of most nodes would tell nothing; of a few texts, the one that a name leads from may be the second.
            seeds = min(_PLAIN_SEEDS if plain else _LINK_SEEDS if links else _SEEDS, max(1 if links else 2, len(index.facts) // 10))
        if bridges is None:
            bare = form == "names" and not index.facts.has_edges
            alone = plain or (bare and name_share(index.facts) >= _NAME_SHARE)
            bridges = _PLAIN_BRIDGES if alone else _BRIDGES if form == "names" and not bare else 0
            if alone:
                few = "few documents are linked" if index.facts.has_edges else "there are no edges"
                why = f"{why}; {few}, so names that texts share join them"
        paths = Pipeline(
            HybridSearch(depth, returned=False),
            PathSearch(
                seeds,
                share=None if links and not bridges else _SHARE,
                bridges=bridges,
                across=form == "pieces",
                k=depth,
            ),
        )
        activation = Pipeline(EntityLinking(), GatedPropagation(**(DAMPED if form == "names" else {})))
        lists: dict[str, list[Operator]] = {
            "links": [paths],
            "pieces": [search, paths],
            "names": [paths, Pipeline(HybridSearch(seeds, returned=False), STeX()), activation],
            "relations": [search, activation, Pipeline(EntityLinking(budget=0), MetapathSearch(seeds, k=depth))],
        }
        operator, *rest = lists[form]
        if rest:
            weights = weights or WEIGHTS[form]
            fusion = _PieceFusion if form == "pieces" else ReciprocalRankFusion
            operator = fusion(operator, *rest, weights=weights, depth=depth, constant=self.constant)
        if index.looks_up:
            operator = CitedFirst(operator)
        operator.reason = f"form {form}: {why}"
        return operator

    def skips_names(self, index: Corpus) -> bool:
        """Return whether the lists follow names in texts themselves: not for ``form="relations"``."""
        return self.form != "relations"


class _PieceFusion(ReciprocalRankFusion):
    """The fusion of form "pieces": of the first hits, a page has at most as many as it has in the first list, which is a search.

    It is shown as the fusion that it is.
    """

    name = ReciprocalRankFusion.name

    def search(self, question: Question, candidates: Candidates) -> Algorithm[Candidates]:
        """Return the nodes of all lists that may be returned, those above the limit of their page after the others."""
        candidates = yield from super().search(question, candidates)
        return (yield from by_search(question, candidates.taken(np.flatnonzero(question.returned(candidates.nodes)))))

    def __repr__(self) -> str:
        """Return the composition under the name of the fusion."""
        return self.name + super().__repr__().removeprefix(type(self).__name__)


def _fitting(index: Corpus) -> tuple[str, str]:
    """Return the form whose lists fit an index, and why."""
    index = without_names(index)
    graph, lacks = index.facts, ""
    if is_knowledge_graph(graph) and len(graph.relation_names) > 1:
        if index.embedding is not None:
            return "relations", f"a knowledge graph of {len(graph.relation_names)} relations"
        lacks = "no embedding model to compare relations with; "
    if graph.has_edges and holds_pieces(graph):
        return "pieces", lacks + "most nodes are pieces of a document without a title of their own"
    if not names_identify(index):
        return "links", lacks + ("titles do not identify most nodes" if has_titles(graph) else "no node has a title")
    # Rounded down, so that a share below 15 % is not shown as 15 %.
    share = floor(1000 * names_mentioned(graph)) / 10
    text = f"{lacks}{share:g}% of the texts open with their title as a name, or name another node"
    return "names" if names_lead(index) else "links", text
