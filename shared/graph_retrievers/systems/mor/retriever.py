"""MoR: plan, traverse, organise (Lei et al., mixture of structural-and-textual retrieval)."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from graph_retrievers.arguments import as_path
from graph_retrievers.core.compositions import Pipeline
from graph_retrievers.core.operator import Operator
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.learning.checkpoint import load_part
from graph_retrievers.search.corpus import Corpus
from graph_retrievers.systems.mor.reranker import FEATURES, RERANKER, TrajectoryReranker
from graph_retrievers.systems.mor.trained import PLANNER, TrainedPlanner
from graph_retrievers.systems.mor.traversal import MixedTraversal
from graph_retrievers.systems.system import System
from graph_retrievers.systems.untrained import Untrained

__all__ = ["MoR"]


@dataclass(frozen=True, kw_only=True, repr=False)
class MoR(System):
    r"""A plan of typed paths, a traversal that mixes structure and text, and a reranker that reads the trajectories.

    .. math:: O_{vgs} \to O_{gm}

    A query's plan comes from the caller (``retrieve(question, plan=...)``, see
    :func:`~graph_retrievers.systems.mor.parse.read_plan` for its forms) or the planner. If a plan cannot be followed, text
    retrieval is used, and the result's notes say why. Each hit's path is its trajectory. The index needs node types, and BM25 or
    vectors.

    Parameters
    ----------
    planner : Planner or callable, optional
        Writes a plan if the caller gives none: see :mod:`graph_retrievers.systems.mor.planner`, and
        :class:`~graph_retrievers.systems.mor.trained.TrainedPlanner`.
    reranker : TrajectoryReranker, optional
        Without one, candidates are ordered by the similarity of their vectors (BM25 without vectors), the paper's ablation.
    checkpoint : str or Path, optional
        Folder written by ``graph-retrievers fit mor``; its planner and reranker are used if none are given.
    rerank : bool, default True
        Whether to use the checkpoint's reranker.
    seeds, matches, candidates : int, default 5, 10 and 100
        Nodes at which each path starts, text matches in each layer with a restriction (0 for only structure), and candidates.
    exact_titles : bool, default True
        Whether nodes whose title equals the restriction of a path's first step are its only seeds. In the paper text matching
        finds all seeds (False).
    structure : bool, default True
        If False, no step is taken in the graph: the ablation with only text.
    fill : bool, optional
        Whether text matches fill up the candidates before these are ordered; by default with a reranker or without structure.
        Otherwise text matches come after the results of the plan, as the retriever's backfill. The paper always fills, but
        without a reranker similar texts can then outrank the results of the plan.
    traversal : MixedTraversal, optional
        Allows its other options; replaces the six arguments above, and the planner.

    Notes
    -----
    Departure from the paper: ``exact_titles``. Over the 42,846 nodes of MetaQA, with the plans given and no reranker, Recall@10 on
    195 test questions is 0.999, and 0.802 with the paper's seeds; on 150 dev questions 0.999 and 0.766. The traversal and the
    reranker state their own.

    References
    ----------
    Lei et al., "Mixture of Structural-and-Textual Retrieval over Text-rich Graph Knowledge Bases", sections 3.1 to 3.3; defaults
    of section 4.1.

    Examples
    --------
    >>> from graph_retrievers import GraphIndex, Retriever
    >>> from graph_retrievers.graph import CorpusGraph
    >>> graph = CorpusGraph(["ada", "loom"], ["", ""], titles=["Ada", "Loom"], types=["person", "movie"],
    ...     edges=[("ada", "loom", "directed")])
    >>> plan = [{"type": "movie", "restriction": "Loom"}, {"type": "person", "relation": "directed"}]
    >>> retriever = Retriever(GraphIndex.from_graph(graph), MoR())
    >>> print(retriever.retrieve("Who directed Loom?", plan=plan)[0].path.text)
    Loom <-[directed]- Ada
    """

    name = "mor"

    planner: Any = None
    reranker: TrajectoryReranker | None = None
    checkpoint: str | Path | None = None
    rerank: bool = True
    seeds: int = 5
    matches: int = 10
    candidates: int = 100
    exact_titles: bool = True
    structure: bool = True
    fill: bool | None = None
    traversal: MixedTraversal | None = None

    def compose(self, index: Corpus) -> Operator:
        """Return the traversal and the reranker, if there is one; they are the same for all indexes on a device."""
        return self._parts_cache.get(index.device, self._composed)

    def untrained(self, index: Corpus) -> tuple[Untrained, ...]:
        """Return the reranker, if one is wanted and there is none."""
        missing = self.rerank and self._parts[1] is None
        return (Untrained("reranker", "candidates are ordered by similarity"),) if missing else ()

    def _composed(self) -> Pipeline:
        planner, reranker = self._parts
        traversal = self.traversal
        if traversal is None:
            fill = (reranker is not None or not self.structure) if self.fill is None else self.fill
            options = {"structure": self.structure, "exact_titles": self.exact_titles, "planner": planner}
            traversal = MixedTraversal(self.seeds, self.matches, self.candidates, fill=fill, **options)
        if reranker is None:
            return Pipeline(traversal)
        # The reranker of a checkpoint is copied for each device; one that the caller passed is used itself.
        return Pipeline(traversal, reranker if reranker is self.reranker else deepcopy(reranker))

    @cached_property
    def _parts(self) -> tuple[Any, TrajectoryReranker | None]:
        """Planner and reranker, those of the checkpoint where none is given."""
        if self.checkpoint is None:
            return self.planner, self.reranker
        return _loaded(self.checkpoint, self.planner, self.reranker if self.rerank else None, self.rerank)


def _loaded(
    checkpoint: str | Path, planner: Any, reranker: TrajectoryReranker | None, rerank: bool
) -> tuple[Any, TrajectoryReranker | None]:
    """Return planner and reranker, those of a checkpoint where none is given."""
    files = {part: (as_path("checkpoint", checkpoint) / f"{part}.json").is_file() for part in (PLANNER, RERANKER)}
    if not any(files.values()):
        raise InvalidArgumentError(f"{checkpoint} has neither a planner nor a reranker; make one with graph-retrievers fit mor.")
    if planner is None and files[PLANNER]:
        planner = TrainedPlanner.load(checkpoint)
    if rerank and reranker is None and files[RERANKER]:
        kinds, older = {"node_only": (bool,), "features": (list,)}, {"node_only": False, "features": list(FEATURES)}
        tensors, settings = load_part(checkpoint, RERANKER, kinds, "MoR", older)
        reranker = TrajectoryReranker(tensors, node_only=settings["node_only"], features=settings["features"])
    return planner, reranker
