"""What trainable operators share, and the training of the trajectory reranker."""

import argparse
import json
from importlib import import_module

import pytest
import torch

from graph_retrievers import Retriever
from graph_retrievers.arguments import keywords_of
from graph_retrievers.commands.fit import FITTERS, add_commands
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, MissingSignalError
from graph_retrievers.index import GraphIndex
from graph_retrievers.learning.checkpoint import load_checkpoint, save_checkpoint
from graph_retrievers.learning.loop import fit
from graph_retrievers.learning.loss import sampled_cross_entropy
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.mor.reranker import TrajectoryReranker, TrajectoryScorer
from graph_retrievers.systems.mor.retriever import MoR
from graph_retrievers.systems.mor.training import Example, fit_mor, fit_trajectory_reranker
from graph_retrievers.systems.mor.traversal import MixedTraversal
from tests.helpers import HashEmbedding, trajectories
from tests.movies import FILMS, PEOPLE, movie_edges, movie_nodes
from tests.rankings import ranked


def test_the_loss_is_the_cross_entropy_of_the_first():
    positive, negative = torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    first = -torch.log(torch.tensor(1.0).exp() / torch.tensor([1.0, 0.0, 2.0]).exp().sum())
    assert float(sampled_cross_entropy(positive, negative)) == pytest.approx(float((first + torch.log(torch.tensor(3.0))) / 2))


def line_fit(scores, **options):
    """Fit y = w x; `scores` are what the held-out measure says after each epoch."""
    module = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(module.weight)
    states, told = [], iter(scores)

    def evaluate():
        states.append(module.weight.detach().clone())
        return next(told)

    data = torch.tensor([[1.0], [2.0]])
    history = fit(
        module, lambda random: [data], lambda x: ((module(x) - 3 * x) ** 2).mean(), evaluate, learning_rate=0.1, **options
    )
    return module, history, states


def test_the_best_state_is_kept_and_patience_ends_training():
    module, history, states = line_fit([0.1, 0.5, 0.4, 0.3, 0.9], epochs=5, patience=2)
    assert (history.best_epoch, history.best_score, len(history.scores)) == (2, 0.5, 4)
    assert torch.equal(module.weight, states[1]) and not torch.equal(states[1], states[3])
    assert history.losses[0] > history.losses[-1] and not module.training


def test_of_several_measures_the_mean_decides_and_each_is_kept(tmp_path):
    measured = [{"hit@1": 0.8, "recall@10": 0.5}, {"hit@1": 0.6, "recall@10": 0.9}, {"hit@1": 0.3, "recall@10": 1.0}]
    _, history, _ = line_fit(measured[:2], epochs=2, resume=tmp_path)
    _, history, _ = line_fit(measured[2:], epochs=3, resume=tmp_path)
    assert history.best_epoch == 2 and history.scores == pytest.approx([0.65, 0.75, 0.65])
    assert history.measures == {"hit@1": [0.8, 0.6, 0.3], "recall@10": [0.5, 0.9, 1.0]}
    assert history.summary() == {
        "quality_on_dev": 0.75,
        "hit@1_on_dev": 0.6,
        "recall@10_on_dev": 0.9,
        "epoch": 2,
        "epochs": 3,
    }


def test_a_measure_may_be_whole_numbers_and_a_stopped_training_goes_on(tmp_path):
    line_fit([0, 2], epochs=2, resume=tmp_path)
    _, history, _ = line_fit([1], epochs=3, resume=tmp_path)
    assert history.scores == [0.0, 2.0, 1.0] and history.best_epoch == 2 and isinstance(history.scores[0], float)


def test_the_learning_rate_rises_over_the_steps_of_the_warm_up():
    # With a gradient of constant sign, AdamW takes a step of the learning rate.
    module = torch.nn.Linear(1, 1, bias=False)
    weights = [float(module.weight.detach())]

    def evaluate():
        weights.append(float(module.weight.detach()))
        return float(len(weights))

    fit(module, lambda _: [torch.ones(1, 1)], lambda x: module(x).sum(), evaluate, epochs=6, learning_rate=0.1, warm_up=4)
    steps = [before - after for before, after in zip(weights, weights[1:], strict=False)]
    assert steps == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1], abs=1e-5)


def test_equal_seeds_draw_equal_batches():
    draws = []
    for seed in (3, 3, 4):
        module = torch.nn.Linear(1, 1)
        seen = []

        def batches(random, seen=seen):
            seen.append(torch.rand(2, generator=random).tolist())
            return [torch.ones(1, 1)]

        fit(module, batches, lambda x, module=module: module(x).sum(), lambda: 0.0, epochs=2, seed=seed)
        draws.append(seen)
    assert draws[0] == draws[1] != draws[2]
    assert draws[0][0] != draws[0][1]


def test_checkpoints_keep_parts_apart(tmp_path):
    save_checkpoint(tmp_path / "a", "one", {"w": torch.arange(3.0)}, {"size": 3})
    save_checkpoint(tmp_path / "a", "two", {"w": torch.zeros(1)}, {"size": 1})
    tensors, config = load_checkpoint(tmp_path / "a", "one")
    assert tensors["w"].tolist() == [0.0, 1.0, 2.0] and config == {"size": 3}
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["one.json", "one.safetensors", "two.json", "two.safetensors"]
    with pytest.raises(InvalidArgumentError, match="three"):
        load_checkpoint(tmp_path / "a", "three")
    (tmp_path / "a" / "one.safetensors").write_bytes(b"no weights")
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        load_checkpoint(tmp_path / "a", "one")


# -- the reranker -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def index():
    return GraphIndex.from_nodes(movie_nodes(), movie_edges(), embedding=HashEmbedding())


def examples(index, rows):
    """Films by their directors: the answer is what the plan reaches, the fill is everything of the same type."""
    made = []
    for i in rows:
        plan = [{"type": "person", "restriction": PEOPLE[i]}, {"type": "movie", "relation": "directed_by"}]
        made.append(Example(f"a film by {PEOPLE[i]}", plan, (index.graph.row(f"m{i}"),)))
    return made


class Everything(MixedTraversal):
    """Text matches every film, so that the reranker has something to choose from."""

    def __init__(self):
        super().__init__(candidates=10, matching="dense")


def test_the_reranker_learns_to_prefer_what_the_plan_reached(index):
    traversal = Everything()
    before = Retriever(index, MoR(traversal=traversal))
    reranker, history = fit_trajectory_reranker(
        index, examples(index, range(4)), examples(index, [4]), traversal, length=3, epochs=60, patience=60
    )
    assert history.best_score == 1.0
    after = Retriever(index, MoR(traversal=traversal, reranker=reranker))
    held = examples(index, [4, 5])
    hits = [after.retrieve(e.text, 3, plan=e.plan) for e in held]
    assert [h[0].id for h in hits] == ["m4", "m5"]
    assert len(hits[0][0].path.nodes) == 2
    # Without the reranker the order is that of the vectors, which know nothing of who directed what.
    assert [before.retrieve(e.text, 3, plan=e.plan)[0].id for e in held] != ["m4", "m5"]
    again, _ = fit_trajectory_reranker(
        index, examples(index, range(4)), examples(index, [4]), Everything(), length=3, epochs=60, patience=60
    )
    assert all(torch.equal(a, b) for a, b in zip(again.scorer.parameters(), reranker.scorer.parameters(), strict=True))


def test_the_node_only_reranker_reads_the_last_node_alone(index):
    queries = Queries.of(index, ["a film by Ada Stone"], inputs={"plan": [examples(index, [0])[0].plan]})
    ranking = ranked(MixedTraversal(fill=False), queries)
    (seen,) = trajectories(TrajectoryReranker(TrajectoryScorer(3, 64), node_only=True), queries, ranking)
    assert set(seen.patterns) == {("padding", "padding", "movie")}
    assert seen.identifier[0].tolist() == [2, 2, 1]
    assert seen.text[0, :2].tolist() == [0.0, 0.0]
    (full,) = trajectories(TrajectoryReranker(TrajectoryScorer(3, 64)), queries, ranking)
    assert full.identifier[0].tolist() == [2, 0, 1]
    assert full.text[0, 1] > 0 and full.text[0, 2:].tolist() == seen.text[0, 2:].tolist()


@pytest.mark.parametrize("features", [("text",), ("structure",), ("identifier",), ("text", "identifier")])
def test_the_reranker_reads_only_the_features_it_is_given(index, features):
    queries = Queries.of(index, ["a film by Ada Stone"], inputs={"plan": [examples(index, [0])[0].plan]})
    ranking = ranked(MixedTraversal(), queries)
    scorer = TrajectoryScorer(3, 64)
    (whole,) = trajectories(TrajectoryReranker(scorer), queries, ranking)
    (seen,) = trajectories(TrajectoryReranker(scorer, features=features), queries, ranking)
    for name, given, full in zip(
        ("text", "structure", "identifier"),
        (seen.text.tolist(), seen.patterns, seen.identifier.tolist()),
        (whole.text.tolist(), whole.patterns, whole.identifier.tolist()),
        strict=True,
    ):
        assert len(set(map(tuple, full))) > 1
        assert list(map(tuple, given)) == list(map(tuple, full)) if name in features else len(set(map(tuple, given))) == 1
    # Without the textual fingerprint, trajectories of one pattern have one score and keep their order.
    found = ranked(TrajectoryReranker(scorer, features=["structure"]), queries, ranking)
    of_pattern = {}
    for node, score in zip(found.nodes[0].tolist(), found.scores[0].tolist(), strict=True):
        place = ranking.nodes[0].tolist().index(node)
        of_pattern.setdefault(whole.patterns[place], []).append((score, place))
    for same in of_pattern.values():
        assert len({round(score, 6) for score, _ in same}) == 1 and [place for _, place in same] == sorted(p for _, p in same)


@pytest.mark.parametrize(("features", "message"), [((), "features are empty"), (("TF",), "Unknown features 'TF'"), ("text", "str")])
def test_features_that_the_reranker_does_not_have_are_refused(features, message):
    with pytest.raises(InvalidArgumentError, match=message):
        TrajectoryReranker(TrajectoryScorer(2, 8, 4), features=features)


def test_fit_writes_which_features_the_reranker_reads(index, tmp_path):
    fit_mor(dataset(), index, tmp_path, features=["structure", "text"], exact_titles=False)
    written = json.loads((tmp_path / "reranker.json").read_text())
    assert written["features"] == ["text", "structure"] and written["exact_titles"] is False
    system = MoR(checkpoint=tmp_path, exact_titles=False)
    traversal, reranker = Retriever(index, system).operator.operators
    assert reranker.features == ("text", "structure") and traversal.exact_titles is False


def test_the_reranker_scores_each_query_as_it_would_alone(index):
    torch.manual_seed(1)
    retriever = Retriever(index, MoR(reranker=TrajectoryReranker(TrajectoryScorer(3, 64))))
    plans = [example.plan for example in examples(index, range(3))]
    texts = ["a film by Ada Stone", "the comedies of Bruno Vale", "Cleo"]
    for hits, text, plan in zip(retriever.retrieve_batch(texts, 5, plan=plans), texts, plans, strict=True):
        alone = retriever.retrieve(text, 5, plan=plan)
        assert [h.id for h in alone] == [h.id for h in hits]
        assert [h.score for h in alone] == pytest.approx([h.score for h in hits], abs=1e-5)


def test_the_reranker_drops_what_is_behind_its_depth(index):
    queries = Queries.of(index, ["a film"], inputs={"plan": [None]})
    ranking = ranked(MixedTraversal(matching="dense"), queries)
    found = ranked(TrajectoryReranker(TrajectoryScorer(3, 64), depth=2), queries, ranking)
    assert ranking.width > 2 and sorted(found.nodes[0].tolist()) == sorted(ranking.nodes[0, :2].tolist())


def test_weights_and_embeddings_that_do_not_fit_are_errors(index):
    with pytest.raises(InvalidArgumentError, match="not the weights"):
        TrajectoryReranker({"w": torch.zeros(2)})
    wide = Retriever(index, MoR(reranker=TrajectoryReranker(TrajectoryScorer(3, 768))))
    with pytest.raises(DimensionMismatchError, match="64 wide"):
        wide.retrieve("a film by Ada Stone", plan=examples(index, [0])[0].plan)
    bare = GraphIndex.from_nodes(movie_nodes(), movie_edges())
    with pytest.raises(MissingSignalError, match="embedding="):
        Retriever(bare, MoR(reranker=TrajectoryReranker(TrajectoryScorer(3, 64)))).retrieve("Ada", plan=examples(bare, [0])[0].plan)
    with pytest.raises(InvalidArgumentError, match="No training question"):
        fit_trajectory_reranker(index, [], [], MixedTraversal())


# -- fit --------------------------------------------------------------------------------------------------------------


def dataset():
    queries = []
    for i, split in enumerate(["train"] * 4 + ["dev"] * 2):
        plan = ({"type": "person", "restriction": PEOPLE[i]}, {"type": "movie", "relation": "directed_by"})
        queries.append(Query(f"d{i}", f"films directed by {PEOPLE[i]}", (f"m{i}",), split, plan=plan))
        plan = ({"type": "movie", "restriction": FILMS[i]}, {"type": "genre", "relation": "has_genre"})
        queries.append(Query(f"g{i}", f"the genre of {FILMS[i]}", (f"g{i % 3}",), split, plan=plan))
    return Dataset("films", movie_nodes(), movie_edges(), queries, True)


def test_fit_writes_a_checkpoint_that_the_retriever_reads(index, tmp_path):
    summary = fit_mor(dataset(), index, tmp_path)
    assert summary["planner"] == {"right_on_dev": 1.0, "plans": 2, "left_out": 0}
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"{part}.{end}" for part in ("planner", "reranker") for end in ("json", "safetensors")
    ]
    assert json.loads((tmp_path / "reranker.json").read_text())["node_only"] is False
    mor = Retriever(index, MoR(checkpoint=tmp_path))
    assert mor.operator.formula() == "O_vgs -> O_gm"
    assert Retriever(index, MoR(checkpoint=tmp_path, rerank=False)).operator.formula() == "O_vgs"
    assert mor.retrieve("films directed by Emil Gray", 1)[0].id == "m4"
    bare = Dataset("films", movie_nodes(), movie_edges(), [], True)
    with pytest.raises(InvalidArgumentError, match="0 train and 0 dev"):
        fit_mor(bare, index, tmp_path)


@pytest.mark.parametrize("name", sorted(FITTERS))
def test_an_editor_shows_by_name_what_every_training_takes(name):
    module, function = FITTERS[name]
    assert {"seed", "show_progress"} <= keywords_of(getattr(import_module(module), function))


def test_the_fit_command_knows_its_names(capsys):
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers())
    args = parser.parse_args(["fit", "mor", "folder", "--out", "there", "--seed", "3"])
    assert (args.name, args.dataset, args.out, args.seed) == ("mor", "folder", "there", 3)
    with pytest.raises(SystemExit):
        parser.parse_args(["fit", "vector", "folder", "--out", "there"])
    assert "mor" in FITTERS and "invalid choice" in capsys.readouterr().err
