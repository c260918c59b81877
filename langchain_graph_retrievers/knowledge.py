"""Systems for knowledge graphs: spreading activation from entities, and plans of typed paths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from graph_retrievers.operators.spreading.chains import ChainSearch
from graph_retrievers.operators.spreading.linking import EntityLinking
from graph_retrievers.operators.mor.traversal import MixedTraversal
from graph_retrievers.operators.mor.reranker import TrajectoryReranker
from langchain_graph_retrievers.graph_retriever import IndexRetriever

__all__ = ["MoRRetriever", "SpreadingActivationRetriever"]


class SpreadingActivationRetriever(IndexRetriever):
    """Entities by the activation that reaches them from the entities of the question, gated by the question.

    ``invoke(question, entities=["Ada Lovelace"])`` takes the names that the question mentions, where they are known.

    Parameters
    ----------
    k : int, default 30
        Entities to return.
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
        A LangChain chat model or LLM (or what else :func:`graph_retrievers.signals.language.as_language_model` takes)
        that extracts the entities of a question. Without one, names of nodes that stand in the question are taken.
    linking : EntityLinking, optional
        Finds the seeds; takes the place of `language_model` and allows further options.
    chains : {"hits", "path"}, optional
        ``"hits"``: the best chains come behind the k entities, as documents of the metadata ``kind`` "chain" whose text
        is the chain, ``a -[relation]-> b``. ``"path"``: the path of an entity is the best chain that leads to it.
    chain_search : ChainSearch, optional
        Finds the chains; 30 of 1 to 4 edges by default.
    passages : bool, optional
        For graphs with passages: True returns the passages that gather the most activation from the entities in them,
        False entities alone. By default all nodes are alike.
    passage_type : str, default "passage"
        Node type of passages.
    fuse : bool, default False
        Whether the ranking is fused with that of vector search.
    **fields
        Those of :class:`IndexRetriever`.

    References
    ----------
    Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", 2026; see
    :class:`graph_retrievers.retrievers.spreading_activation.SpreadingActivation`.

    Examples
    --------
    ::

        index = GraphIndex.from_nodes(*from_graph_documents(graph_documents), embedding=embeddings)
        retriever = SpreadingActivationRetriever(index=index, chains="hits")
        chain = {"context": retriever | to_context, "question": RunnablePassthrough()} | prompt | model
    """

    system = "spreading"

    k: int | None = Field(30, ge=1)
    steps: int = Field(3, ge=1)
    decay: float = Field(0.7, gt=0, le=1)
    threshold: float = Field(0.01, ge=0)
    gate: Literal["cosine", "uniform"] | Callable[..., Any] = "cosine"
    semantics: Literal["set", "rows"] = "set"
    language_model: Any = Field(None, repr=False, exclude=True)
    linking: EntityLinking | None = Field(None, repr=False)
    chains: Literal["hits", "path"] | None = None
    chain_search: ChainSearch | None = Field(None, repr=False)
    passages: bool | None = None
    passage_type: str = "passage"
    fuse: bool = False


class MoRRetriever(IndexRetriever):
    """MoR: a plan of typed paths, a traversal that mixes structure and text, a reranker that reads the trajectory.

    ``invoke(question, plan=[...])`` takes the question's plan, where it is known, in any form that
    :func:`graph_retrievers.operators.mor.parse.read_plan` reads. A plan that cannot be walked gives text retrieval, and the
    metadata ``notes`` say why. The metadata ``path`` is the trajectory.

    Parameters
    ----------
    planner : Planner or callable, optional
        Makes a plan where the call gives none, such as
        :class:`~graph_retrievers.operators.mor.planner.LanguageModelPlanner` with a LangChain model.
    reranker : TrajectoryReranker, optional
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit mor``: its planner and reranker stand in for those not given. It is
        read once, at the first call.
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
    **fields
        Those of :class:`IndexRetriever`.

    References
    ----------
    Lei et al., "Mixture of Structural-and-Textual Retrieval over Text-rich Graph Knowledge Bases"; see
    :class:`graph_retrievers.retrievers.mor.MoR`.
    """

    system = "mor"

    planner: Any = Field(None, repr=False, exclude=True)
    reranker: TrajectoryReranker | None = Field(None, repr=False, exclude=True)
    checkpoint: str | Path | None = None
    rerank: bool = True
    seeds: int = Field(5, ge=1)
    matches: int = Field(10, ge=0)
    candidates: int = Field(100, ge=1)
    structure: bool = True
    fill: bool | None = None
    traversal: MixedTraversal | None = Field(None, repr=False)
