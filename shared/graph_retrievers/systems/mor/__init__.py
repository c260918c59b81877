"""MoR (Lei et al.): plans of typed paths, a traversal of structure and text, a reranker that reads the trajectory."""

from graph_retrievers.systems.mor.parse import read_plan
from graph_retrievers.systems.mor.plan import PathStep, PlanningGraph, ReasoningPath, check_plan
from graph_retrievers.systems.mor.planner import CausalPlanner, LanguageModelPlanner, Planner, planning_prompt
from graph_retrievers.systems.mor.reranker import TrajectoryReranker, TrajectoryScorer
from graph_retrievers.systems.mor.trained import TrainedPlanner
from graph_retrievers.systems.mor.traversal import MixedTraversal

__all__ = [
    "CausalPlanner",
    "LanguageModelPlanner",
    "MixedTraversal",
    "PathStep",
    "Planner",
    "PlanningGraph",
    "ReasoningPath",
    "TrainedPlanner",
    "TrajectoryReranker",
    "TrajectoryScorer",
    "check_plan",
    "planning_prompt",
    "read_plan",
]
