"""Published systems and baselines, one file each, as compositions of operators."""

from graph_retrievers.retrievers.retriever import Hit, HitList, Path, Retriever

__all__ = ["Hit", "HitList", "Path", "Retriever"]
