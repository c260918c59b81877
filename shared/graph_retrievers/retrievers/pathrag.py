"""PathRAG: flow-pruned relational paths between the entities of a question."""

from __future__ import annotations

from functools import partial
from typing import Any

from graph_retrievers.arguments import positive
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.flow_pruning import FlowPruning
from graph_retrievers.operators.gathering import ChunkGathering
from graph_retrievers.operators.keywords import KeywordSearch
from graph_retrievers.operators.operator import Operator, Pipeline
from graph_retrievers.operators.round_robin import RoundRobin
from graph_retrievers.operators.vector_search import VectorSearch
from graph_retrievers.retrievers.lightrag import passage_types
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["PathRAG"]


class PathRAG(Retriever):
    r"""Entities by low-level keywords, and the most reliable paths between them.

    .. math:: O_{vs} \to O_{gs}

    A hit's path is the most reliable path that has it, up to it. :meth:`~graph_retrievers.hits.Hits.to_context` lists paths with
    the most reliable last, as published, since language models overlook the middle of a prompt.

    Parameters
    ----------
    index : GraphIndex
        With vectors.
    top_k : int, default 40
        Entities that are searched.
    paths : int, default 15
    alpha : float, default 0.8
    theta : float, default 0.3
        The pruning: see :class:`~graph_retrievers.operators.flow_pruning.FlowPruning`, which also says where it departs from the
        published code and how its work is bounded.
    chains : {"path", "hits"}, default "path"
        ``"hits"``: the paths are also hits of their own, of kind "chain" and scored by their reliability, behind the k nodes.
    language_model : object, optional
        Finds the keywords of a question, see :class:`~graph_retrievers.retrievers.lightrag.LightRAG`.
    threshold : float, default 0.2
        Cosine that entities must exceed.
    passage_type : str, default "passage"
        Node type of chunks: see there. No path leads through chunks; those of the entities are ranked first.
    **options
        Keywords of :class:`Retriever`.

    Notes
    -----
    The published system gives a model a list of entities and a list of paths; the one ranking has the entities, in order of
    similarity, and the nodes of the paths in turns. Where chunks are nodes of their own, the chunks of all these come first: of n
    with chunks, the ``5 * n // 2`` most similar to the question. ``retrieve`` takes ``keywords={"low_level_keywords": [...]}``;
    without them and without a language model, the question is searched itself. The published system also shows the model the
    relations that high-level keywords find, which are those of ``LightRAG(index, mode="global", facts=True)``.

    References
    ----------
    Chen et al., "PathRAG: Pruning Graph-based Retrieval Augmented Generation with Relational Paths", arXiv:2502.14902, 2025.

    Examples
    --------
    >>> embed = lambda texts: [[float("loom" in text), float("card" in text)] for text in texts]
    >>> edges = [("0", "1", "woven on"), ("1", "2", "drives")]
    >>> index = GraphIndex.from_texts(["a loom", "cloth", "a card"], edges=edges, embedding=embed)
    >>> hits = PathRAG(index, backfill=False).retrieve("Does the loom need a card?")
    >>> [hit.path.text for hit in hits]
    ['0', '0 -[woven on]-> 1 -[drives]-> 2', '0 -[woven on]-> 1']
    """

    PUBLISHED = {
        "top_k": 40,
        "paths": 15,
        "alpha": 0.8,
        "theta": 0.3,
        "chains": "hits",
        "threshold": 0.2,
        "backfill": False,
    }

    def __init__(
        self,
        index: GraphIndex,
        *,
        top_k: int = 40,
        paths: int = 15,
        alpha: float = 0.8,
        theta: float = 0.3,
        chains: str = "path",
        language_model: Any = None,
        threshold: float = 0.2,
        passage_type: str = "passage",
        **options: Any,
    ) -> None:
        compose = partial(
            _composed,
            top_k=positive("top_k", top_k),
            pruning={"paths": paths, "alpha": alpha, "theta": theta, "chains": chains},
            searching={"extractor": language_model, "threshold": threshold},
            passage_type=passage_type,
        )
        super().__init__(index, compose, **options)


def _composed(index: GraphIndex, *, top_k: int, pruning: dict[str, Any], searching: dict[str, Any], passage_type: str) -> Operator:
    chunks = passage_types(index.graph, passage_type)
    entities = KeywordSearch(VectorSearch(top_k, returned=False), "low", exclude_types=chunks, **searching)
    gathered = [RoundRobin(ChunkGathering(chunk_types=chunks))] if chunks else []
    return Pipeline(entities, FlowPruning(exclude_types=chunks, **pruning), *gathered)
