"""The power of ``tune``: how often it finds a true difference between two forms of WalkFusion, and how often it errs.

Scores of the shared datasets' train and dev questions are measured once. Then questions are drawn from them with replacement, and
weighted so that one form is truly better than the other by so much; so the differences of single questions are real ones, most of
them 0, and the true score of every candidate is known. Tuning starts from the form that is named worse. Needs the extra offline.

    python benchmarks/tune_power.py FOLDER_OF_DATASETS [--only python-docs,...] [--repeats 60] > benchmarks/results/tuned/power.md
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from plain import Kept

from graph_retrievers.datasets import Query, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.tuning import Trial, candidates, choices, choose
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.embedding import minilm
from graph_retrievers.signals.vector_cache import cached_vectors
from graph_retrievers.systems.linear_rag.retriever import LinearRAG
from graph_retrievers.systems.linear_rag.tri_graph import tri_graph
from graph_retrievers.systems.registry import build_retriever

# The form that is better on each, and the other one.
BETTER = {"python-docs": ("links", "names"), "postgres-docs": ("links", "names"), "wiki-multihop": ("names", "links")}
QUESTIONS, DIFFERENCES = (20, 40, 80, 160), (0.10, 0.05, 0.03, 0.0, -0.03, -0.05)
PREFACE = """# How often tuning finds a true difference

Made by `benchmarks/tune_power.py` from scores of train and dev questions of {datasets}, {repeats} draws of each. Questions are
drawn with replacement, and weighted so that one form of WalkFusion is truly better than the other by the given difference. The
score is the mean of Recall@10 and nDCG@10. Tuning starts from the worse form; for differences below 0, it starts from the better
one. "errs" is how often the choice is truly worse than the start, by more than half a point. The mean true gain is that of the
choice; without a true difference between the forms, it comes from other candidates.
"""
# A loss below this is none that anybody would notice.
_LOSS = 0.005
_MOST = 150


class Scores:
    """The scores of trials on all questions of a dataset, each measured when it is first asked for."""

    def __init__(self, index: GraphIndex, queries: Sequence[Query]) -> None:
        self.index, self.queries = index, queries
        self.columns: dict[str, np.ndarray] = {}

    def of(self, trial: Trial) -> np.ndarray:
        """Return the mean of Recall@10 and nDCG@10 of each question."""
        if trial.label not in self.columns:
            built = {"trial": build_retriever(trial.retriever, self.index, k=10, **trial.settings)}
            found = evaluate(self.index, self.queries, built, k=10, timed_queries=0)
            recall, ndcg = (np.array(found.column("trial", f"{metric}@10")) for metric in ("recall", "ndcg"))
            self.columns[trial.label] = (recall + ndcg) / 2
        return self.columns[trial.label]

    def drawn(self, rows: np.ndarray) -> Callable[[Sequence[Trial], int], dict[str, list[float]]]:
        """Return the function that ``choose`` measures trials with: on the questions of some rows."""
        return lambda trials, count: {trial.label: self.of(trial)[rows[:count]].tolist() for trial in trials}


def tuned(scores: Scores, better: str, worse: str, rows: np.ndarray, seed: int) -> Trial:
    """Return what tuning chooses from the worse form on the questions of some rows."""
    default = Trial("walk-fusion", {"form": worse})
    alternatives = {**choices(scores.index), "form": ({"form": better},)}

    def rest(chosen: Trial) -> list[Trial]:
        return candidates(scores.index, chosen)

    return choose(default, alternatives, rest, scores.drawn(rows), len(rows), seed=seed)[0]


def weights(differences: np.ndarray, mean: float) -> np.ndarray:
    """Return probabilities, in proportion to ``exp(t d)``, under which the mean of the differences d is as given."""
    low, high = -200.0, 200.0
    for _ in range(100):
        middle = (low + high) / 2
        tilted = np.exp(middle * differences - np.max(middle * differences))
        tilted /= tilted.sum()
        low, high = (middle, high) if tilted @ differences < mean else (low, middle)
    return tilted


def simulated(scores: Scores, better: str, worse: str, repeats: int) -> dict[tuple[int, float], list[tuple[bool, float]]]:
    """Return whether the form was found and the true gain of each draw, by number of questions and true difference."""
    of = {form: scores.of(Trial("walk-fusion", {"form": form})) for form in (better, worse)}
    found = {}
    for difference in DIFFERENCES:
        share = weights(of[better] - of[worse], difference)
        for count in QUESTIONS:
            generator, rows = np.random.default_rng(count), []
            for seed in range(repeats):
                chosen = tuned(scores, better, worse, generator.choice(len(share), count, p=share), seed)
                gain = float(share @ (scores.of(chosen) - of[worse]))
                rows.append((chosen.settings.get("form") == better, gain))
            found[count, difference] = rows
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(BETTER))
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--draws", type=int, default=10, help="draws of 40 questions without replacement, from train and dev")
    options = parser.parse_args()
    embedding, found, draws = Kept(minilm()), list[dict[Any, Any]](), list[str]()
    for name in options.only.split(","):
        dataset = read_dataset(options.folder / name)
        graph = dataset.graph()
        index = GraphIndex.from_graph(graph, embedding=embedding, vectors=cached_vectors(embedding.model, graph.contents()))
        tri = tri_graph(graph, LinearRAG(index, fuse=False).operator.extractor, "passage")
        embedding.keep([*tri.names, *tri.sentences])
        scores = Scores(index, [query for query in dataset.queries if query.split != "test" and query.gold][:_MOST])
        better, worse = BETTER[name]
        generator, size, kept = np.random.default_rng(0), len(scores.queries), 0
        for seed in range(options.draws):
            chosen = tuned(scores, better, worse, generator.choice(size, 40, replace=False), seed)
            kept += chosen.settings.get("form") == better
        means = [scores.of(Trial("walk-fusion", {"form": form})).mean() for form in (better, worse)]
        draws.append(f"| {name} | {size} | {better} {means[0]:.3f} | {worse} {means[1]:.3f} | {kept} of {options.draws} |")
        found.append(simulated(scores, better, worse, options.repeats))
    print(PREFACE.format(datasets=", ".join(options.only.split(",")), repeats=options.repeats))
    print("| true difference | questions | finds the form | errs | mean true gain |\n| --- | --- | --- | --- | --- |")
    for difference in DIFFERENCES:
        for count in QUESTIONS:
            rows = [row for part in found for row in part[count, difference]]
            finds = f"{statistics.fmean(form for form, _ in rows):.2f}" if difference > 0 else ""
            errs, gain = statistics.fmean(gain < -_LOSS for _, gain in rows), statistics.fmean(gain for _, gain in rows)
            print(f"| {difference:+.2f} | {count} | {finds} | {errs:.2f} | {gain:+.3f} |")
    print("\n40 questions of train and dev, drawn without replacement; tuning starts from the worse form:\n")
    print("| dataset | of | better form | worse form | found |\n| --- | --- | --- | --- | --- |")
    print("\n".join(draws))


if __name__ == "__main__":
    main()
