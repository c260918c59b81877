"""Choose a retriever, its settings and a trained reranker on questions with known answers."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graph_retrievers.arguments import positive, seed_number
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, shown
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.outcome import Evaluation
from graph_retrievers.evaluation.significance import improvement_test, paired_bootstrap, randomization_test
from graph_retrievers.graph.addresses import node_source
from graph_retrievers.index import GraphIndex
from graph_retrievers.systems.grag.retriever import fit_grag
from graph_retrievers.systems.registry import build_retriever, default_retriever
from graph_retrievers.systems.traits import is_knowledge_graph, names_held
from graph_retrievers.systems.tuned import drop_reranker, write_choice
from graph_retrievers.systems.walk_fusion.retriever import WEIGHTS

__all__ = ["Trial", "candidates", "choices", "choose", "tune"]

_FINALISTS, _FEWEST = 4, 40
# A choice that a rule made only from the texts is replaced on weaker evidence than one measured on many corpora.
_LIKELY, _SURE = 0.2, 0.05
# Of fewer questions, one or two by chance would decide.
_FEWEST_DECIDING = 10
# With fewer, the randomisation test of the reranker cannot be significant for any difference.
_DECIDING = 6
_BASELINES = ("vector", "bm25", "hybrid", "ppr", "spreading", "spreading-hybrid")
_SCORED = ("fastinsight", "fastinsight-hybrid", "gar", "path-reranking", "re2")
# Settings to try in addition to the defaults, of the retrievers and of those that use the relevance model.
_KNOBS: dict[str, tuple[dict[str, Any], ...]] = {
    "ppr": ({"damping": 0.7}, {"seeds": 10}),
    "spreading": ({"hub_exponent": 0.5}, {"steps": 2}),
}
_SCORED_KNOBS: dict[str, tuple[dict[str, Any], ...]] = {
    "fastinsight": ({"alpha": 0.5}, {"beta": 0.5}, {"beta": 2.0}, {"budget": 50}, {"paths": True}),
    "gar": ({"budget": 50},),
    "path-reranking": ({"weight": 0.25}, {"weight": 0.75}),
}

Measure = Callable[[Sequence["Trial"], int], dict[str, list[float]]]
"""A function of trials and a number of questions: the score of each trial, by its label, on each of the first questions."""


@dataclass
class Trial:
    """A retriever with settings, and its result.

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

    def having(self, **settings: Any) -> Trial:
        """Return the same retriever with additional settings, not yet measured."""
        return Trial(self.retriever, {**self.settings, **settings})


def choices(index: GraphIndex) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the choices that the default for an index makes by a rule, with alternative settings, by name."""
    graph, found = index.graph, dict[str, tuple[dict[str, Any], ...]]()
    cut = len(set(map(node_source, graph.ids, graph.metadata, graph.origins))) < len(graph)
    if default_retriever(index) == "walk-fusion" and not is_knowledge_graph(graph):
        form = build_retriever("walk-fusion", index).form  # type: ignore[attr-defined]
        forms = ("links", "names", "pieces") if cut else ("links", "names")
        found["form"] = tuple({"form": other} for other in forms if other != form)
        found["bridges"] = ({"bridges": 0}, {"bridges": 1}, {"bridges": 3})
    if cut:
        found["per_source"] = ({"per_source": 2}, {"per_source": 3})
    return found


def candidates(index: GraphIndex, chosen: Trial | None = None, *, scored: bool = False) -> list[Trial]:
    """Return the retrievers and settings that :func:`tune` compares with `chosen`, which is the first, by default the default.

    With `scored`, they include those that use the relevance model.
    """
    chosen = chosen or Trial(default_retriever(index))
    tried = [chosen]
    walk = chosen if chosen.retriever == "walk-fusion" else Trial("walk-fusion")
    form = build_retriever(walk.retriever, index, **walk.settings).form  # type: ignore[attr-defined]
    weights = WEIGHTS.get(form, ())
    tried += [walk, walk.having(seeds=3), walk.having(seeds=10)]
    for place in range(len(weights)):
        tried += [walk.having(weights=[w * factor if i == place else w for i, w in enumerate(weights)]) for factor in (0.0, 2.0)]
    tried += [walk.having(constant=30)] if weights else []
    tried += [Trial(name) for name in (*_BASELINES, *(_SCORED if scored else ()))]
    if index.has_dense and not is_knowledge_graph(index.graph) and 2 * names_held(index.graph) > 1:
        # Alone it finds more than fused if most questions contain names.
        tried += [Trial("linear-rag"), Trial("linear-rag", {"fuse": False})]
    for name, knobs in {**_KNOBS, **(_SCORED_KNOBS if scored else {})}.items():
        tried += [Trial(name, settings) for settings in knobs]
    return list({trial.label: trial for trial in tried}.values())


def choose(
    default: Trial,
    alternatives: Mapping[str, Sequence[Mapping[str, Any]]],
    rest: Callable[[Trial], Sequence[Trial]],
    measure: Measure,
    questions: int,
    *,
    seed: int = 0,
) -> tuple[Trial, list[dict[str, Any]], list[Trial]]:
    """Return what should replace a default, if anything: the decision of :func:`tune`, independent of how trials are measured.

    `alternatives` are those of :func:`choices`. They are tried one choice after another, each with the results of the previous
    choices, on all questions. The best replaces the current one if the p-value of
    :func:`~graph_retrievers.evaluation.significance.improvement_test` is below 0.2 and there are at least ten questions. `rest`
    returns the trials with which the result is finally compared, by successive halving, at 0.05. `measure` maps trials and a
    number n to their scores on the first n questions, by label.

    Returns
    -------
    chosen : Trial
    steps : list of dict
        The best alternative of each choice: its ``candidate``, what it is ``against``, the ``difference`` with ``low`` and
        ``high``, ``p``, the ``level``, and whether it was ``kept``.
    trials : list of Trial
        All measured trials.
    """
    tried = {default.label: default}

    def measured(trials: Sequence[Trial], count: int) -> dict[str, list[float]]:
        found = measure(trials, count)
        for trial in trials:
            trial.score, trial.questions = sum(found[trial.label]) / count, count
            tried.setdefault(trial.label, trial)
        return found

    best, steps = default, []
    for name, settings in alternatives.items():
        others = [best.having(**each) for each in settings]
        if not others:
            continue
        best, step = _decided(name, best, others, measured([best, *others], questions), _LIKELY, seed)
        steps.append(step)
    others = [trial for trial in rest(best) if trial.label != best.label]
    found = _halved(best, others, measured, questions)
    if others:
        best, step = _decided("rest", best, others, found, _SURE, seed)
        steps.append(step)
    return best, steps, list(tried.values())


def _halved(best: Trial, others: Sequence[Trial], measure: Measure, questions: int) -> dict[str, list[float]]:
    """Return scores by label: of `best`, and of the others that were among the better ones until then, on all questions."""
    found: dict[str, list[float]] = {}
    size = len(others) + 1
    rounds = max(0, math.ceil(math.log2(min(size / _FINALISTS, questions / _FEWEST))))
    for number in range(rounds + 1):
        found |= measure([best, *others], min(questions, max(_FEWEST, questions // 2 ** (rounds - number))))
        if number < rounds:
            kept = math.ceil(size * (_FINALISTS / size) ** ((number + 1) / rounds))
            others = sorted(others, key=lambda trial: -trial.score)[: kept - 1]
    return found


def _decided(
    name: str, best: Trial, others: Sequence[Trial], found: Mapping[str, list[float]], level: float, seed: int
) -> tuple[Trial, dict[str, Any]]:
    """Return the best of the others if chance hardly explains its gain over the best so far, else that; and the figures."""
    base = found[best.label]
    p_values = improvement_test([found[trial.label] for trial in others], base, seed=seed)
    # Some were measured only on the first questions: they count in the correction.
    whole = [(trial, p) for trial, p in zip(others, p_values, strict=True) if trial.questions == len(base)]
    other, p_value = max(whole, key=lambda pair: pair[0].score)
    kept = p_value < level and len(base) >= _FEWEST_DECIDING
    figures = {**_difference(found[other.label], base, seed), "p": round(p_value, 4), "level": level, "kept": kept}
    return (other if kept else best), {"choice": name, "candidate": other.label, "against": best.label, **figures}


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
    """Choose a retriever and settings on questions with known answers, train a reranker, and keep what is significantly better.

    First come a few candidates: alternatives to what the default chooses by a rule from texts and titles, such as its form, and
    the number of hits from one document (:func:`choices`). An alternative replaces the default if a gain as large would occur by
    chance in less than 20 of 100 draws; the level is high because the rule was never measured on these data, and a change between
    equals costs nothing. Then come all others (:func:`candidates`), by successive halving: all on a few questions, the better
    ones on twice as many, until four are compared on all. The best replaces the current one if chance would give any of them as
    large a gain in less than 5 of 100 draws. With fewer than ten questions, the default is kept. ``benchmarks/tune_power.py``
    prints how often this finds a gain, and how often it errs.

    Then G-RAG's network is trained on the questions of the split "train" to rerank the results of the chosen retriever; a fifth
    of them determine when to stop. It is kept if it is better on the questions of the split "dev", of which at least six are
    needed, by a paired randomisation test (p < 0.05).

    Parameters
    ----------
    index : GraphIndex
    queries : sequence of Query
        Questions of the split "test" are not used. If all others are of one split, a quarter of them counts as "dev".
    folder : str or Path
        For :func:`~graph_retrievers.systems.tuned.load_retriever`. Until tuning ends, measurements are kept in its subfolder
        ``under-way``, from which a stopped tuning continues.
    k : int, default 10
    scored : bool, default False
        Whether to try retrievers that use the relevance model too, which takes much longer.
    rerank : bool, default True
        Whether to train a reranker.
    seed : int, default 0
    show_progress : bool, default False

    Returns
    -------
    dict
        The choice and its reasons, for JSON: ``retriever``, ``settings``, ``reranked``, ``default``, the ``steps`` (see
        :func:`choose`), the ``gain`` over the default with its 95 % bootstrap interval, that of the ``reranker`` over the list
        that it reranks, and a row for each candidate.

    Raises
    ------
    InvalidArgumentError
        If there are fewer than two questions to tune on.

    References
    ----------
    Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016 (successive
    halving). Westfall and Young, "Resampling-Based Multiple Testing", 1993 (the correction).

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
    options: dict[str, Any] = {"k": k, "seed": seed, "timed_queries": 0, "show_progress": show_progress}

    def measure(trials: Sequence[Trial], count: int) -> dict[str, list[float]]:
        built = {trial.label: build_retriever(trial.retriever, index, k=k, **trial.settings) for trial in trials}
        # One folder for a number of questions, so that no trial runs on them twice.
        evaluation = evaluate(index, queries[:count], built, resume=under_way / f"first-{count}", **options)
        return {trial.label: _scores(evaluation, trial) for trial in trials}

    def rest(chosen: Trial) -> list[Trial]:
        return [trial for trial in candidates(index, chosen, scored=scored) if _fits(trial, index, queries[0].text)]

    default = Trial(default_retriever(index))
    # An error of the default is an error of the index or its model, and is raised.
    build_retriever(default.retriever, index).retrieve(queries[0].text)
    alternatives = {
        name: [each for each in settings if _fits(default.having(**each), index, queries[0].text)]
        for name, settings in choices(index).items()
    }
    chosen, steps, trials = choose(default, alternatives, rest, measure, len(queries), seed=seed)
    write_choice(folder, chosen.retriever, chosen.settings)
    gain = None
    if chosen.label != default.label:
        found = measure([default, chosen], len(queries))
        gain = _difference(found[chosen.label], found[default.label], seed)
    reranking, reranked = None, False
    if rerank and index.has_dense:
        reranked, reranking = _reranked(index, queries, folder, chosen, under_way, options)
    report = {
        "retriever": chosen.retriever,
        "settings": dict(chosen.settings),
        "reranked": reranked,
        "default": default.retriever,
        "questions": len(queries),
        "steps": steps,
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


def _fits(trial: Trial, index: GraphIndex, question: str) -> bool:
    try:
        build_retriever(trial.retriever, index, **trial.settings).retrieve(question)
    except GraphRetrieverError:
        return False
    return True


def _shuffled(queries: Sequence[Query], seed: int) -> list[Query]:
    """Return the questions of train and dev in random order; if one of the splits is empty, a quarter is dev."""
    strange = sorted({query.split for query in queries} - {"", "train", "dev", "test"})
    if strange:
        raise InvalidArgumentError(f"The split {shown(strange[0])} is not known; tuning reads train and dev, and leaves out test.")
    # Without a split, a question is for training; without a relevant node, it is useless.
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


def _scores(evaluation: Evaluation, trial: Trial) -> list[float]:
    recall, ndcg = (evaluation.column(trial.label, f"{metric}@{evaluation.k}") for metric in ("recall", "ndcg"))
    return [(a + b) / 2 for a, b in zip(recall, ndcg, strict=True)]


def _difference(values: list[float], base: list[float], seed: int) -> dict[str, Any]:
    """Return the mean difference and its 95 % bootstrap interval."""
    low, high = paired_bootstrap(values, base, seed=seed)
    difference = (sum(values) - sum(base)) / len(values)
    return {"difference": round(difference, 4), "low": round(low, 4), "high": round(high, 4)}


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
    values, base = _scores(evaluation, trial), _scores(evaluation, chosen)
    p_value = randomization_test(values, base, seed=options["seed"])
    kept = sum(values) > sum(base) and p_value < _SURE
    if not kept:
        drop_reranker(folder)
    figures = {**_difference(values, base, options["seed"]), "p": round(p_value, 4), "kept": kept}
    return kept, {"questions": len(dev), **figures}
