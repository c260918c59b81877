"""Choosing a retriever, its settings and a trained reranker on questions with known answers."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graph_retrievers.arguments import positive, seed_number
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, shown
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.outcome import Evaluation
from graph_retrievers.evaluation.significance import paired_bootstrap, randomization_test
from graph_retrievers.index import GraphIndex
from graph_retrievers.systems.grag.retriever import fit_grag
from graph_retrievers.systems.registry import build_retriever, default_retriever
from graph_retrievers.systems.traits import is_knowledge_graph
from graph_retrievers.systems.tuned import drop_reranker, write_choice
from graph_retrievers.systems.walk_fusion.retriever import WEIGHTS

__all__ = ["Trial", "candidates", "tune"]

_FINALISTS, _FEWEST, _LEVEL = 4, 40, 0.05
# Of fewer, the randomisation test cannot be significant, whatever the difference.
_DECIDING = 6
_BASELINES = ("vector", "bm25", "hybrid", "ppr", "spreading", "spreading-hybrid")
_SCORED = ("fastinsight", "fastinsight-hybrid", "gar", "path-reranking", "re2")
# Settings that are tried besides the defaults, of the retrievers and of those that ask the relevance model.
_KNOBS: dict[str, tuple[dict[str, Any], ...]] = {
    "ppr": ({"damping": 0.7}, {"seeds": 10}),
    "spreading": ({"hub_exponent": 0.5}, {"steps": 2}),
}
_SCORED_KNOBS: dict[str, tuple[dict[str, Any], ...]] = {
    "fastinsight": ({"alpha": 0.5}, {"beta": 0.5}, {"beta": 2.0}, {"budget": 50}, {"paths": True}),
    "gar": ({"budget": 50},),
    "path-reranking": ({"weight": 0.25}, {"weight": 0.75}),
}


@dataclass
class Trial:
    """A retriever with settings, and how it did.

    `score` is the mean of Recall@k and nDCG@k over the first `questions` of the shuffled questions.
    """

    retriever: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    score: float = 0.0
    questions: int = 0

    @property
    def label(self) -> str:
        """Name and settings, such as ``"walk-fusion seeds=3"``."""
        return " ".join([self.retriever, *(f"{name}={value}" for name, value in self.settings.items())])


def candidates(index: GraphIndex, question: str, *, scored: bool = False) -> list[Trial]:
    """Return the retrievers and settings that :func:`tune` tries, the default for the index first.

    Parameters
    ----------
    index : GraphIndex
        Those that need a signal it lacks are left out.
    question : str
        Asked of each, to see which these are.
    scored : bool, default False
        Whether those that ask the relevance model are tried too.

    Examples
    --------
    >>> candidates(GraphIndex.from_texts(["a loom", "a card"]), "Which card?")[0].label
    'bm25'
    """
    tried = [Trial(default_retriever(index))]
    for form in ("relations",) if is_knowledge_graph(index.graph) else ("links", "names"):
        weights = WEIGHTS.get(form, ())
        settings: list[dict[str, Any]] = [{}, {"seeds": 3}, {"seeds": 10}]
        settings += [] if form == "relations" else [{"bridges": 3 if form == "links" else 0}]
        for place in range(len(weights)):
            settings += [{"weights": [w * factor if i == place else w for i, w in enumerate(weights)]} for factor in (0.0, 2.0)]
        settings += [{"constant": 30}] if weights else []
        tried += [Trial("walk-fusion", {"form": form, **each}) for each in settings]
    tried += [Trial(name) for name in (*_BASELINES, *(_SCORED if scored else ()))]
    for name, knobs in {**_KNOBS, **(_SCORED_KNOBS if scored else {})}.items():
        tried += [Trial(name, settings) for settings in knobs]
    # What is wrong with the default is wrong with the index or its model, and is told.
    build_retriever(tried[0].retriever, index).retrieve(question)
    return [trial for trial in {trial.label: trial for trial in tried}.values() if _fits(trial, index, question)]


def _fits(trial: Trial, index: GraphIndex, question: str) -> bool:
    try:
        build_retriever(trial.retriever, index, **trial.settings).retrieve(question)
    except GraphRetrieverError:
        return False
    return True


def tune(
    index: GraphIndex,
    queries: Sequence[Query],
    folder: str | Path,
    *,
    k: int = 10,
    scored: bool = False,
    rerank: bool = True,
    seed: int = 0,
    show_progress: bool = False,
) -> dict[str, Any]:
    """Choose a retriever and settings on questions with known answers, train a reranker, and keep what is surely better.

    Candidates are compared by successive halving: all on a few questions, the better ones on twice as many, until four are
    compared on all. The best replaces the default only if it is better by a paired randomisation test (p < 0.05 with Bonferroni's
    correction for all candidates, so that it takes ten questions or more on which the two differ). Then G-RAG's network is
    trained on the questions of the split "train" to rerank what the chosen retriever finds; a fifth of them say when to stop. It
    is kept if it is better on the questions of the split "dev", of which it takes six, by the same test.

    Parameters
    ----------
    index : GraphIndex
    queries : sequence of Query
        Questions of the split "test" are not read. If all others are of one split, a quarter of them counts as "dev".
    folder : str or Path
        What :func:`~graph_retrievers.systems.tuned.load_retriever` opens. Until tuning ends, what has been measured is kept in
        its subfolder ``under-way``, so that tuning that was stopped goes on from there.
    k : int, default 10
    scored : bool, default False
        Whether retrievers that ask the relevance model are tried too, which takes much longer.
    rerank : bool, default True
        Whether to train a reranker.
    seed : int, default 0
    show_progress : bool, default False

    Returns
    -------
    dict
        What was chosen and why, for JSON: ``retriever``, ``settings``, ``reranked``, ``default``, the ``gain`` over the default
        and over the list that is reranked with 95 % bootstrap intervals and p-values, and a row for each candidate.

    Raises
    ------
    InvalidArgumentError
        If there are fewer than two questions to tune on.

    References
    ----------
    Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016 (successive
    halving).

    Examples
    --------
    >>> import tempfile
    >>> index = GraphIndex.from_texts(["A loom weaves.", "A card is read."])
    >>> queries = [Query("q1", "Which card?", ("1",)), Query("q2", "Which loom?", ("0",))]
    >>> report = tune(index, queries, tempfile.mkdtemp())
    >>> report["retriever"], report["settings"], report["gain"]
    ('bm25', {}, None)
    """
    positive("k", k), seed_number(seed)
    queries = _shuffled(queries, seed)
    under_way = Path(folder) / "under-way"
    options = {"k": k, "seed": seed, "timed_queries": 0, "show_progress": show_progress}
    trials = candidates(index, queries[0].text, scored=scored)
    finalists, evaluation = _halved(trials, index, queries, under_way, options)
    default = trials[0]
    chosen, gain = _better(evaluation, default, finalists, len(trials) - 1, seed)
    write_choice(folder, chosen.retriever, chosen.settings)
    reranking = None
    reranked = False
    if rerank and index.has_dense:
        reranked, reranking = _reranked(index, queries, folder, chosen, under_way, options)
    report = {
        "retriever": chosen.retriever,
        "settings": dict(chosen.settings),
        "reranked": reranked,
        "default": default.retriever,
        "questions": len(queries),
        "gain": gain,
        "reranker": reranking,
        "candidates": [
            {"candidate": trial.label, "questions": trial.questions, "score": round(trial.score, 4)}
            for trial in sorted(trials, key=lambda trial: (-trial.questions, -trial.score))
        ],
    }
    write_choice(folder, chosen.retriever, chosen.settings, reranked=reranked, report=report)
    shutil.rmtree(under_way, ignore_errors=True)
    return report


def _shuffled(queries: Sequence[Query], seed: int) -> list[Query]:
    """Return the questions of train and dev in random order; if one of the splits is empty, a quarter is dev."""
    strange = sorted({query.split for query in queries} - {"", "train", "dev", "test"})
    if strange:
        raise InvalidArgumentError(f"The split {shown(strange[0])} is not known; tuning reads train and dev, and leaves out test.")
    # Without a split, a question is one to learn from; without a relevant node, it tells nothing.
    kept = [replace(query, split=query.split or "train") for query in queries if query.split != "test" and query.gold]
    if len(kept) < 2:
        raise InvalidArgumentError(
            f"There are {len(kept)} questions with relevant nodes of the splits train and dev; tuning needs two or more. "
            "`graph-retrievers make-queries --split train` makes some."
        )
    random.Random(seed).shuffle(kept)
    if len({query.split for query in kept} & {"train", "dev"}) < 2:
        kept = _split(kept, len(kept) // 4)
    return kept


def _split(queries: Sequence[Query], held: int) -> list[Query]:
    """Return the questions with `held` of them, one at least, as the split "dev" and the others as "train"."""
    return [replace(query, split="dev" if place < max(1, held) else "train") for place, query in enumerate(queries)]


def _halved(
    trials: Sequence[Trial], index: GraphIndex, queries: Sequence[Query], under_way: Path, options: Mapping[str, Any]
) -> tuple[list[Trial], Evaluation]:
    """Return the best trials and their evaluation on all questions; the default, the first trial, is always one of them."""
    rounds = max(0, math.ceil(math.log2(min(len(trials) / _FINALISTS, len(queries) / _FEWEST))))
    left = list(trials)
    for number in range(rounds + 1):
        count = min(len(queries), max(_FEWEST, len(queries) // 2 ** (rounds - number)))
        built = {trial.label: build_retriever(trial.retriever, index, k=options["k"], **trial.settings) for trial in left}
        evaluation = evaluate(index, queries[:count], built, resume=under_way / f"round-{number}", **options)
        for trial in left:
            values = _scores(evaluation, trial)
            trial.score, trial.questions = sum(values) / len(values), len(values)
        if number < rounds:
            best = sorted(left[1:], key=lambda trial: -trial.score)
            kept = math.ceil(len(trials) * (_FINALISTS / len(trials)) ** ((number + 1) / rounds))
            left = [left[0], *best[: kept - 1]]
    return left, evaluation


def _scores(evaluation: Evaluation, trial: Trial) -> list[float]:
    recall, ndcg = (evaluation.column(trial.label, f"{metric}@{evaluation.k}") for metric in ("recall", "ndcg"))
    return [(a + b) / 2 for a, b in zip(recall, ndcg, strict=True)]


def _better(
    evaluation: Evaluation, default: Trial, finalists: Sequence[Trial], tests: int, seed: int
) -> tuple[Trial, dict[str, Any] | None]:
    """Return the best trial if it is surely better than the default, otherwise the default; and the figures."""
    best = max(finalists, key=lambda trial: trial.score)
    if best is default:
        return default, None
    gain = _gain(_scores(evaluation, best), _scores(evaluation, default), tests, seed)
    return (best if gain["kept"] else default), {"candidate": best.label, **gain}


def _gain(values: list[float], base: list[float], tests: int, seed: int) -> dict[str, Any]:
    low, high = paired_bootstrap(values, base, seed=seed)
    p_value = min(1.0, tests * randomization_test(values, base, seed=seed))
    difference = (sum(values) - sum(base)) / len(values)
    kept = difference > 0 and p_value < _LEVEL
    return {"difference": round(difference, 4), "low": round(low, 4), "high": round(high, 4), "p": round(p_value, 4), "kept": kept}


def _reranked(
    index: GraphIndex, queries: list[Query], folder: str | Path, chosen: Trial, under_way: Path, options: Mapping[str, Any]
) -> tuple[bool, dict[str, Any]]:
    """Train G-RAG behind the chosen retriever; return whether it is kept, and the figures."""
    dev = [query for query in queries if query.split == "dev"]
    if len(dev) < _DECIDING:
        return False, {"error": f"{len(dev)} dev questions cannot tell whether one is better; it takes {_DECIDING} or more"}
    # Early stopping has its own questions, so that those of dev decide without having been seen.
    learnt = [query for query in queries if query.split == "train"]
    dataset = Dataset("questions", [], [], _split(learnt, len(learnt) // 5), include_titles=True)
    training = {"resume": under_way / "g-rag"}
    fit = {"first": chosen.retriever, "first_settings": chosen.settings, "training": training, "seed": options["seed"]}
    try:
        fit_grag(dataset, index, folder, show_progress=options["show_progress"], **fit)
        trial = Trial("reranked")
        built = {
            chosen.label: build_retriever(chosen.retriever, index, k=options["k"], **chosen.settings),
            trial.label: build_retriever("g-rag", index, k=options["k"], checkpoint=folder),
        }
        evaluation = evaluate(index, dev, built, **options)
    except BaseException:
        # What was not compared is not left where it would be read.
        drop_reranker(folder)
        raise
    gain = _gain(_scores(evaluation, trial), _scores(evaluation, chosen), 1, options["seed"])
    if not gain["kept"]:
        drop_reranker(folder)
    return gain["kept"], {"questions": len(dev), **gain}
