"""A small trained planner: it predicts the path of a question, and the words of the question that name its start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graph_retrievers.arguments import choice, fraction, positive
from graph_retrievers.errors import InvalidArgumentError, InvalidPlanError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.graph.facts import GraphFacts
from graph_retrievers.learning.checkpoint import check_scores, load_part, restored, save_checkpoint
from graph_retrievers.learning.loop import History, fit
from graph_retrievers.systems.mor.parse import read_plan
from graph_retrievers.systems.mor.plan import PathStep, PlanningGraph, ReasoningPath
from graph_retrievers.systems.mor.spans import QuestionWords, Span

PLANNER = "planner"
"""The part of a checkpoint that has the planner."""

_OPTIONS = ("titled", "buckets", "threshold")
_NEGATIVES, _BATCH = 24, 256
# From this share of training restrictions on, a restriction is expected to be a title.
_TITLED_SHARE = 0.95
# Entries of the table of plans and their parts: 256 MiB.
_LARGEST = 1 << 26


@dataclass
class PlannerHistory(History):
    """The history of a planner's training.

    `classes` counts the distinct plans, ignoring restrictions, and `left_out` the training questions whose plan has no
    restriction that is part of the question, or more than one.
    """

    classes: int = 0
    left_out: int = 0


class TrainedPlanner:
    r"""Choose one of the plans of the training data, and the span of the question that is its restriction.

    For every span s of the question, a softmax gives the probability of each plan c, and of none, given the question with that span
    left out:

    .. math:: p(c \mid q, s) \propto \exp\Big(\sum_{m \in M(c)} \sum_{f \in \phi(q, s)} w_{f m}\Big)

    where :math:`\phi` gives the features of :meth:`graph_retrievers.systems.mor.spans.QuestionWords.features`, hashed into
    `buckets`, and M the parts of a plan: itself, its first type, its length, and each step at its position from the start and
    from the end, so that plans that share a step learn it together. The most probable plan of any span is chosen; among equal
    ones, that of the longer span, then of the earlier one. If the span is the title of nodes, the plan must start at one of
    their types; if restrictions were titles in training (`titled`), other spans are used only in questions without a title.

    The C `skeletons` are the plans, with ``("",)`` as the restriction of the one step that has one. If the best plan of a
    question is less probable than `threshold`, the question gets none.

    MoR fine-tunes Llama 3.2 (3B) to write plans. This planner can only choose plans from the training data, with one restriction
    that occurs literally in the question; it trains on a CPU in a minute.

    >>> graph = CorpusGraph(["a", "b"], ["", ""], titles=["Ada", "Tom"], types=["person", "person"])
    >>> plan = [{"type": "person", "restriction": "Ada"}, {"type": "movie", "relation": "wrote"}]
    >>> planner, _ = TrainedPlanner.fit([("films by Ada", plan)], [("films by Ada", plan)], graph, epochs=9)
    >>> print(planner.plan(["new films by Tom"], graph)[0])
    person<Tom> -[wrote]- movie
    """

    name = "trained-planner"

    def __init__(
        self, skeletons: Sequence[PlanningGraph], *, titled: bool = True, buckets: int = 1 << 14, threshold: float = 0.0
    ) -> None:
        if not skeletons:
            raise InvalidArgumentError("A trained planner needs at least one plan to choose from.")
        self.skeletons, self.titled, self.buckets = (
            list(skeletons),
            choice("titled", titled, (True, False)),
            positive("buckets", buckets),
        )
        self.threshold = fraction("threshold", threshold)
        self._starts = [_restricted(skeleton)[0][2].type for skeleton in self.skeletons]
        # The last plan is "this span is not a restriction".
        made_of = [_parts(number, skeleton) for number, skeleton in enumerate(self.skeletons)] + [{"none"}]
        names = {name: i for i, name in enumerate(dict.fromkeys(part for parts in made_of for part in sorted(parts)))}
        if len(names) * len(made_of) > _LARGEST:
            raise InvalidArgumentError(
                f"A trained planner has a table of {len(made_of):,} plans and {len(names):,} parts of them, more than {_LARGEST:,} "
                "entries; train it on fewer different plans."
            )
        self._skeleton_parts = torch.zeros((len(names), len(made_of)))
        for plan, parts in enumerate(made_of):
            self._skeleton_parts[[names[part] for part in parts], plan] = 1.0
        self.model = self._network()

    def plan(self, queries: Sequence[str], graph: GraphFacts) -> list[Any]:
        """Return for each question a :class:`PlanningGraph`, or an InvalidPlanError with the reason if it has none.

        It raises InvalidArgumentError if the weights are so large that a plan's logit is NaN or infinite.
        """
        # Titles are looked up in the graph; what is stored of one elsewhere refuses.
        return [self._best(QuestionWords(query, graph)) for query in queries]  # type: ignore[arg-type]

    @torch.inference_mode()
    def _best(self, question: QuestionWords) -> PlanningGraph | InvalidPlanError:
        spans = question.spans
        if self.titled:
            spans = [span for span in spans if question.types(span) & set(self._starts)] or spans
        if not spans:
            return InvalidPlanError("The planner found no words in the question.")
        logits = self._logits([question.features(span, self.buckets) for span in spans])
        # A NaN is not below the threshold.
        check_scores(logits, "The planner of MoR")
        probabilities = torch.softmax(logits, 1)[:, :-1].clone()
        for row, span in enumerate(spans):
            if kinds := question.types(span):
                probabilities[row, [i for i, start in enumerate(self._starts) if start not in kinds]] = 0.0
        values, classes = probabilities.max(1)
        best = max(range(len(spans)), key=lambda i: (float(values[i]), spans[i][1] - spans[i][0], -spans[i][0]))
        if float(values[best]) < self.threshold or float(values[best]) == 0.0:
            return InvalidPlanError(f"The planner is not sure of any plan (the best has probability {float(values[best]):.2f}).")
        return _with_restriction(self.skeletons[int(classes[best])], question.phrase(spans[best]))

    def _logits(self, features: list[list[int]]) -> Tensor:
        """Return the logits of the plans, none at the end, for lists of features: [n, C + 1]."""
        offsets = torch.tensor([0, *(len(f) for f in features[:-1])]).cumsum(0)
        return self.model(torch.tensor([f for row in features for f in row]), offsets) @ self._skeleton_parts

    @classmethod
    def fit(
        cls,
        train: Iterable[tuple[str, Any]],
        dev: Iterable[tuple[str, Any]],
        graph: CorpusGraph,
        *,
        dropout: float = 0.2,
        seed: int = 0,
        **options: Any,
    ) -> tuple[TrainedPlanner, PlannerHistory]:
        """Return a planner trained on questions with their plans.

        Parameters
        ----------
        train, dev : iterable of (str, plan)
            Questions and plans in any form that :func:`~graph_retrievers.systems.mor.parse.read_plan` reads; the metric on `dev`
            is the share of questions that get exactly their plan.
        graph : CorpusGraph
        dropout : float, default 0.2
            Share of features dropped from each example in training.
        seed, **options
            See :func:`graph_retrievers.learning.loop.fit`; by default ``epochs=40, patience=6, learning_rate=0.005``.

        Raises
        ------
        InvalidArgumentError
            If no training question contains its plan's restriction.
        """
        pairs = [(QuestionWords(text, graph), read_plan(plan)) for text, plan in train]
        dev_pairs = [(text, read_plan(plan)) for text, plan in dev]
        marked = [(question, plan, _gold(question, plan)) for question, plan in pairs]
        usable = [(question, plan, span) for question, plan, span in marked if span is not None]
        if not usable:
            raise InvalidArgumentError("No training question holds the one restriction of its plan, word for word.")
        skeletons = list(dict.fromkeys(_with_restriction(plan, "") for _, plan, _ in usable))
        titles = sum(bool(question.types(span)) for question, _, span in usable)
        planner = cls(skeletons, titled=titles >= _TITLED_SHARE * len(usable))
        number = {skeleton: i for i, skeleton in enumerate(skeletons)}
        generator = torch.Generator().manual_seed(seed)
        examples: list[Tensor] = []
        labels: list[int] = []
        for question, plan, gold in usable:
            spans = [gold, *question.wrong_spans(gold, _NEGATIVES, generator)]
            examples += [torch.tensor(question.features(span, planner.buckets)) for span in spans]
            labels += [number[_with_restriction(plan, "")], *[len(skeletons)] * (len(spans) - 1)]
        targets = torch.tensor(labels)

        def batches(random: torch.Generator) -> Iterable[tuple[list[list[int]], Tensor]]:
            for rows in torch.randperm(len(examples), generator=random).split(_BATCH):
                parts = [examples[i][torch.rand(len(examples[i]), generator=random) >= dropout] for i in rows.tolist()]
                yield [features.tolist() for features in parts], targets[rows]

        def share_of_equal_plans() -> float:
            plans = planner.plan([text for text, _ in dev_pairs], graph)
            return sum(same_plan(plan, gold_plan) for plan, (_, gold_plan) in zip(plans, dev_pairs, strict=True)) / max(
                len(dev_pairs), 1
            )

        def loss(batch: tuple[list[list[int]], Tensor]) -> Tensor:
            return nn.functional.cross_entropy(planner._logits(batch[0]), batch[1])

        options = {"epochs": 40, "patience": 6, "learning_rate": 0.005, "description": "fit planner", **options}
        history = fit(planner.model, batches, loss, share_of_equal_plans, seed=seed, **options)
        return planner, PlannerHistory(**vars(history), classes=len(skeletons), left_out=len(pairs) - len(usable))

    def save(self, folder: str | Path) -> None:
        """Write the planner as the part ``planner`` of a checkpoint."""
        config: dict[str, Any] = {name: getattr(self, name) for name in _OPTIONS}
        config["plans"] = [skeleton.to_dict() for skeleton in self.skeletons]
        config["restricted"] = [_restricted(skeleton)[0][:2] for skeleton in self.skeletons]
        save_checkpoint(folder, PLANNER, {"weight": self.model.weight}, config)

    @classmethod
    def load(cls, folder: str | Path) -> TrainedPlanner:
        """Return the planner of a checkpoint; InvalidArgumentError if the folder has none, or one that cannot be read."""
        kinds = {"titled": (bool,), "buckets": (int,), "threshold": (int, float), "plans": (list,), "restricted": (list,)}
        tensors, settings = load_part(folder, PLANNER, kinds, "a trained planner")
        try:
            plans = zip([read_plan(plan) for plan in settings["plans"]], settings["restricted"], strict=True)
            skeletons = [_restored(plan, place) for plan, place in plans]
            # A table of weights is made when it is known that they are there.
            planner = cls(skeletons, titled=settings["titled"], buckets=1, threshold=settings["threshold"])
            planner.buckets = positive("buckets", settings["buckets"])
        except (TypeError, ValueError, InvalidPlanError) as error:
            raise InvalidArgumentError(f"The planner in {folder} cannot be read: {error}") from error
        planner.model = restored(lambda: planner._network(), tensors, "a trained planner")
        return planner

    def _network(self) -> nn.EmbeddingBag:
        zeros = torch.zeros(self.buckets, len(self._skeleton_parts))
        return nn.EmbeddingBag.from_pretrained(zeros, freeze=False, mode="sum")


def same_plan(plan: Any, other: PlanningGraph) -> bool:
    """Return whether two plans take the same steps from the same restriction, ignoring case."""

    def folded(graph: PlanningGraph) -> list[list[PathStep]]:
        return [[replace(s, restriction=tuple(p.casefold() for p in s.restriction)) for s in p.steps] for p in graph.paths]

    return isinstance(plan, PlanningGraph) and folded(plan) == folded(other)


def _restricted(plan: PlanningGraph) -> list[tuple[int, int, PathStep]]:
    """Return path, place and step of every step with a restriction."""
    return [(i, j, step) for i, path in enumerate(plan.paths) for j, step in enumerate(path.steps) if step.restriction]


def _gold(question: QuestionWords, plan: PlanningGraph) -> Span | None:
    """Return the span of the question that is the plan's one restriction, or None."""
    phrases = [phrase for _, _, step in _restricted(plan) for phrase in step.restriction]
    return question.find(phrases[0]) if len(phrases) == 1 else None


def _replaced(plan: PlanningGraph, path: int, step: int, restriction: tuple[str, ...]) -> PlanningGraph:
    """Return the plan with another restriction of one step."""
    paths = [list(p.steps) for p in plan.paths]
    paths[path][step] = replace(paths[path][step], restriction=restriction)
    return PlanningGraph(tuple(ReasoningPath(tuple(steps)) for steps in paths))


def _restored(plan: PlanningGraph, place: Any) -> PlanningGraph:
    """Return a plan as it was before it was saved, with ``("",)`` as the restriction at its place, path and step."""
    path, step = place if isinstance(place, list) and [type(number) for number in place] == [int, int] else (-1, -1)
    if 0 <= path < len(plan.paths) and 0 <= step < len(plan.paths[path]):
        original = _replaced(plan, path, step, ("",))
        if len(_restricted(original)) == 1:
            return original
    raise InvalidArgumentError(f"the restriction of a plan is said to be at {shown(place, 60)}; expected its one path and step")


def _with_restriction(plan: PlanningGraph, phrase: str) -> PlanningGraph:
    """Return the plan with another phrase as its one restriction."""
    path, step, _ = _restricted(plan)[0]
    return _replaced(plan, path, step, (phrase,))


def _parts(number: int, skeleton: PlanningGraph) -> set[str]:
    """Return the names of the parts of a plan, M(c)."""
    parts = {f"plan {number}"}
    for path in skeleton.paths:
        size = len(path)
        parts |= {f"from {path.steps[0].type}", f"{size} steps"}
        for place, step in enumerate(path.steps[1:], 1):
            parts |= {f"step {place} {step.relation} {step.type}", f"step -{size - place} {step.relation} {step.type}"}
    return parts
