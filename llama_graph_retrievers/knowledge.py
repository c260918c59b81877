"""Systems for knowledge graphs: spreading activation from entities, and plans of typed paths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.spreading.chains import ChainSearch
from graph_retrievers.operators.spreading.linking import EntityLinking
from graph_retrievers.operators.mor.traversal import MixedTraversal
from graph_retrievers.operators.mor.reranker import TrajectoryReranker
from llama_graph_retrievers.graph_retriever import IndexOptions, IndexRetriever

__all__ = ["MoRRetriever", "SpreadingActivationRetriever"]


class SpreadingActivationRetriever(IndexRetriever):
    """Entities by the activation that reaches them from the entities of the question, gated by the question.

    Parameters
    ----------
    index : GraphIndex
    steps : int, default 3
    decay : float, default 0.7
        Share of a node's activation that goes on, in (0, 1].
    threshold : float, default 0.01
        Activation below which nothing goes on, at least 0.
    gate : {"cosine", "uniform"} or callable, default "cosine"
        What a node lets in: its similarity to the question, or all.
    semantics : {"set", "rows"}, default "set"
        Whether a neighbour counts once, or once for each edge to it.
    language_model : object, optional
        A LlamaIndex ``LLM`` (or what else :func:`graph_retrievers.signals.language.as_language_model` takes) that
        extracts the entities of a question. Without one, names of nodes that stand in the question are taken.
        ``inputs={"entities": function}`` takes a function from a question to names instead.
    linking : EntityLinking, optional
        Finds the seeds; takes the place of `language_model` and allows further options.
    chains : {"hits", "path"}, optional
        ``"hits"``: the best chains come behind the entities, as nodes of the metadata ``kind`` "chain" whose text is the
        chain, ``a -[relation]-> b``. ``"path"``: the path of an entity is the best chain that leads to it.
    chain_search : ChainSearch, optional
        Finds the chains; 30 of 1 to 4 edges by default.
    passages : bool, optional
        For graphs with passages: True returns the passages that gather the most activation from the entities in them,
        False entities alone. By default all nodes are alike.
    passage_type : str, default "passage"
        Node type of passages.
    fuse : bool, default False
        Whether the ranking is fused with that of vector search.
    **options
        Keywords of :class:`~llama_graph_retrievers.IndexRetriever`; `similarity_top_k` is 30 by default, as published.

    References
    ----------
    Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", 2026; see
    :class:`graph_retrievers.retrievers.spreading_activation.SpreadingActivation`.
    """

    system = "spreading"

    def __init__(
        self,
        index: GraphIndex,
        *,
        steps: int = 3,
        decay: float = 0.7,
        threshold: float = 0.01,
        gate: str | Callable[..., Any] = "cosine",
        semantics: str = "set",
        language_model: Any = None,
        linking: EntityLinking | None = None,
        chains: str | None = None,
        chain_search: ChainSearch | None = None,
        passages: bool | None = None,
        passage_type: str = "passage",
        fuse: bool = False,
        **options: Unpack[IndexOptions],
    ) -> None:
        knobs = {
            "steps": steps,
            "decay": decay,
            "threshold": threshold,
            "gate": gate,
            "semantics": semantics,
            "language_model": language_model,
            "linking": linking,
            "chains": chains,
            "chain_search": chain_search,
            "passages": passages,
            "passage_type": passage_type,
            "fuse": fuse,
        }
        super().__init__(index, knobs, **options)


class MoRRetriever(IndexRetriever):
    """MoR: a plan of typed paths, a traversal that mixes structure and text, a reranker that reads the trajectory.

    A plan that cannot be walked gives text retrieval, and the metadata ``notes`` say why. The metadata ``path`` is the
    trajectory. ``retrieve_batch(questions, plan=[...])`` takes plans that are known, in any form that
    :func:`graph_retrievers.operators.mor.parse.read_plan` reads.

    Parameters
    ----------
    index : GraphIndex
    planner : Planner or callable, optional
        Makes a plan where none is given, such as :class:`~graph_retrievers.operators.mor.planner.LanguageModelPlanner` with
        a LlamaIndex ``LLM``, or a function from a question to its plan.
    reranker : TrajectoryReranker, optional
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit mor``: its planner and reranker stand in for those not given.
    rerank : bool, default True
        False leaves the checkpoint's reranker out.
    seeds, matches, candidates : int, default 5, 10 and 100
        Nodes each path starts from, text matches at each restricted layer (0 for structure alone), and candidates.
    structure : bool, default True
        False takes no step in the graph.
    fill : bool, optional
        Whether text fills the candidates up before they are ordered; by default where a reranker orders them.
    traversal : MixedTraversal, optional
        For its other options; takes the place of the five above.
    **options
        Keywords of :class:`~llama_graph_retrievers.IndexRetriever`.

    References
    ----------
    Lei et al., "Mixture of Structural-and-Textual Retrieval over Text-rich Graph Knowledge Bases"; see
    :class:`graph_retrievers.retrievers.mor.MoR`.
    """

    system = "mor"

    def __init__(
        self,
        index: GraphIndex,
        *,
        planner: Any = None,
        reranker: TrajectoryReranker | None = None,
        checkpoint: str | Path | None = None,
        rerank: bool = True,
        seeds: int = 5,
        matches: int = 10,
        candidates: int = 100,
        structure: bool = True,
        fill: bool | None = None,
        traversal: MixedTraversal | None = None,
        **options: Unpack[IndexOptions],
    ) -> None:
        knobs = {
            "planner": planner,
            "reranker": reranker,
            "checkpoint": checkpoint,
            "rerank": rerank,
            "seeds": seeds,
            "matches": matches,
            "candidates": candidates,
            "structure": structure,
            "fill": fill,
            "traversal": traversal,
        }
        super().__init__(index, knobs, **options)
