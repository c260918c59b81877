"""MoR: plan, traverse, organise (Lei et al., mixture of structural-and-textual retrieval)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import InvalidArgumentError, InvalidPlanError
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.learning.checkpoint import load_checkpoint, save_checkpoint
from graph_retrievers.operators.mor.traversal import MixedTraversal
from graph_retrievers.operators.operator import Operator, Pipeline, Ranking
from graph_retrievers.operators.mor.reranker import TrajectoryReranker
from graph_retrievers.operators.mor.training import Example, fit_trajectory_reranker
from graph_retrievers.operators.mor.plan import PlanCheck, ReasoningPath
from graph_retrievers.operators.mor.planner import Planner, as_planner
from graph_retrievers.operators.mor.trained import TrainedPlanner
from graph_retrievers.queries import QueryBatch
from graph_retrievers.retrievers.retriever import Hit, HitList, Retriever

__all__ = ["MoR", "fit_mor"]

_RERANKER, _PLANNER = "reranker", "planner"
_NO_PLAN = "No plan was given and there is no planner; pass plan=, planner= or a checkpoint."


class MoR(Retriever):
    r"""A plan of typed paths, a traversal that mixes structure and text, a reranker that reads the trajectory.

    .. math:: O_{vgs} \to O_{gm}

    A query's plan is the caller's (``retrieve(question, plan=...)``, see
    :func:`~graph_retrievers.operators.mor.parse.read_plan` for its forms) or the planner's. A plan that cannot be
    walked gives text retrieval, and the result's notes say why. Each hit's path is its trajectory.

    Parameters
    ----------
    index : GraphIndex
        With node types; with BM25 or vectors.
    planner : Planner or callable, optional
        Makes a plan where the caller gives none: see :mod:`graph_retrievers.operators.mor.planner`, and
        :class:`~graph_retrievers.operators.mor.trained.TrainedPlanner`.
    reranker : TrajectoryReranker, optional
        Without one, candidates are ordered by the similarity of their vectors (BM25 where there are none), the
        paper's ablation.
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit mor``: its planner and reranker stand in for those not given.
    rerank : bool, default True
        False leaves the checkpoint's reranker out.
    seeds, matches, candidates : int, default 5, 10 and 100
        Nodes each path starts from, text matches at each restricted layer (0 for structure alone), and candidates.
    structure : bool, default True
        False takes no step in the graph, the ablation by text alone.
    fill : bool, optional
        Whether text fills the candidates up before they are ordered; by default where a reranker or no structure
        orders them. Otherwise text comes behind what the plan found, as the retriever's backfill. The paper
        always fills, which without a reranker lets similar texts outrank what the plan leads to.
    traversal : MixedTraversal, optional
        For its other options; takes the place of the five above.
    **options
        Keywords of :class:`Retriever`.

    References
    ----------
    Lei et al., "Mixture of Structural-and-Textual Retrieval over Text-rich Graph Knowledge Bases", sections 3.1 to
    3.3; defaults of section 4.1.
    """

    inputs = ("plan",)

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
        **options: Any,
    ) -> None:
        if checkpoint is not None:
            planner, reranker = _loaded(checkpoint, index, planner, reranker if rerank else None, rerank)
        if traversal is None:
            fill = (reranker is not None or not structure) if fill is None else fill
            traversal = MixedTraversal(seeds, matches, candidates, fill=fill, structure=structure)
        steps: list[Operator] = [traversal, *([reranker] if reranker is not None else [])]
        super().__init__(index, Pipeline(*steps), **options)
        self.planner: Planner | None = None if planner is None else as_planner(planner)
        self.traversal = traversal

    def rank(self, queries: QueryBatch) -> Ranking:
        """Make the plans that are missing, then return what the operators find."""
        graph = self.index.graph
        plans = list(queries.inputs.get("plan", [None] * len(queries)))
        missing = [row for row, plan in enumerate(plans) if plan is None or (isinstance(plan, (str, list, tuple)) and not plan)]
        made: list[Any] = [InvalidPlanError(_NO_PLAN)] * len(missing)
        if missing and self.planner is not None:
            made = list(self.planner.plan([queries.texts[row] for row in missing], graph))
            if len(made) != len(missing):
                raise InvalidArgumentError(f"The planner gave {len(made)} plans for {len(missing)} questions; one each is needed.")
        for row, plan in zip(missing, made, strict=True):
            plans[row] = plan
        queries.memo["plans"] = [self.traversal.check(plan, graph) for plan in plans]
        return super().rank(queries)

    def hits(self, queries: QueryBatch, ranking: Ranking, k: int) -> list[HitList]:
        """Return a ranking as hits whose paths name the relations that the plan walked."""
        checks: list[PlanCheck] = queries.memo["plans"]
        return [
            HitList([_planned(hit, check.plan.paths, self.index) for hit in hits], hits.notes)
            for hits, check in zip(super().hits(queries, ranking, k), checks, strict=True)
        ]


def _planned(hit: Hit, paths: Sequence[ReasoningPath], index: GraphIndex) -> Hit:
    """Return a hit with the relations of the plan where parallel edges join two nodes of its path."""
    graph, size = index.graph, len(hit.path.nodes)
    if size < 2:
        return hit
    types = [graph.types[graph.row(node)] for node in hit.path.nodes]
    for path in paths:
        steps = path.steps[-size:]
        if [step.type for step in steps] == types:
            relations, forward = list(hit.path.relations), list(hit.path.forward)
            for place, step in enumerate(steps[1:]):
                if step.relation is not None and step.relation != relations[place]:
                    near, far = (graph.row(node) for node in hit.path.nodes[place : place + 2])
                    relations[place], forward[place] = step.relation, _points(graph, near, far, step.relation)
            return replace(hit, path=replace(hit.path, relations=tuple(relations), forward=tuple(forward)))
    return hit


def _points(graph: CorpusGraph, near: int, far: int, relation: str) -> bool:
    """Return whether the first row of a relation between two nodes points from the one to the other."""
    key = near * len(graph) + far
    start, stop = torch.searchsorted(graph.incidence_keys, torch.tensor([key, key + 1], device=graph.device)).tolist()
    mine = graph.incidence.relations[start:stop] == graph.relation_names.index(relation)
    return bool(graph.incidence.forward[start:stop][mine][:1].all())


def _loaded(
    checkpoint: str | Path, index: GraphIndex, planner: Any, reranker: TrajectoryReranker | None, rerank: bool
) -> tuple[Any, TrajectoryReranker | None]:
    """Return planner and reranker of a checkpoint where none is given."""
    held = {part: (Path(checkpoint) / f"{part}.json").is_file() for part in (_PLANNER, _RERANKER)}
    if not any(held.values()):
        raise InvalidArgumentError(f"{checkpoint} holds neither a planner nor a reranker; make one with graph-retrievers fit mor.")
    if planner is None and held[_PLANNER]:
        planner = TrainedPlanner.load(checkpoint)
    if rerank and reranker is None and held[_RERANKER]:
        tensors, config = load_checkpoint(checkpoint, _RERANKER)
        reranker = TrajectoryReranker(tensors, node_only=bool(config.get("node_only", False)))
    return planner, reranker


def fit_mor(
    dataset: Dataset,
    index: GraphIndex,
    folder: str | Path,
    *,
    node_only: bool = False,
    seed: int = 0,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Train MoR's planner and reranker on a dataset, and write both as a checkpoint.

    Parameters
    ----------
    dataset : Dataset
        Its queries of the splits "train" and "dev" that have plans.
    index : GraphIndex
        Of the dataset's graph.
    folder : str or Path
        For the checkpoint.
    node_only : bool, default False
        Train the reranker that reads the last node of each trajectory alone (the paper's ablation).
    seed : int, default 0
    show_progress : bool, default False

    Returns
    -------
    dict
        How the training went, JSON-plain.

    Raises
    ------
    InvalidArgumentError
        If no query of the split "train" has a plan.

    Notes
    -----
    The reranker learns from the candidates of the given plans, and from those of text retrieval for the same
    questions, which is what it will be given where a plan cannot be walked.
    """
    train = [query for query in dataset.queries if query.split == "train" and query.plan]
    dev = [query for query in dataset.queries if query.split == "dev" and query.plan]
    if not train or not dev:
        found = f"{len(train)} train and {len(dev)} dev queries with a plan"
        raise InvalidArgumentError(f"{dataset.name} has {found}; MoR learns from both.")
    pairs = [[(query.text, list(query.plan)) for query in split] for split in (train, dev)]
    planner, planned = TrainedPlanner.fit(pairs[0], pairs[1], index.graph, seed=seed, show_progress=show_progress)
    planner.save(folder)
    examples = [[_example(query, index) for query in split] for split in (train, dev)]
    length = max(len(query.plan) for query in train)
    reranker, ranked = fit_trajectory_reranker(
        index,
        examples[0] + [replace(example, plan=None) for example in examples[0]],
        examples[1],
        MixedTraversal(),
        length=length,
        node_only=node_only,
        seed=seed,
        show_progress=show_progress,
    )
    config = {"node_only": node_only, "embedding": index.embedding_name, "seed": seed, "history": ranked.to_dict()}
    save_checkpoint(folder, _RERANKER, reranker.scorer.state_dict(), config)
    return {
        "planner": {"right_on_dev": planned.best_score, "plans": planned.classes, "left_out": planned.left_out},
        "reranker": {"mrr_on_dev": ranked.best_score, "epoch": ranked.best_epoch},
    }


def _example(query: Query, index: GraphIndex) -> Example:
    return Example(query.text, list(query.plan), tuple(index.graph.row(node) for node in query.gold))
