"""Checkpoints of all trained systems: settings and weights that do not fit are refused, before memory is taken for them."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from graph_retrievers import Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.learning.checkpoint import (
    checked_settings,
    load_checkpoint,
    read_settings,
    read_weights,
    restored,
    save_checkpoint,
)
from graph_retrievers.operators import AnswerNetwork, TripleScorer
from graph_retrievers.signals.meaning import MeaningGraph
from graph_retrievers.signals.meaning_cache import MeaningCache
from graph_retrievers.systems import GNNRAG, GRAG, LeSeGR, MoR, SubgraphRAG
from graph_retrievers.systems.grag.model import DocumentGraphNetwork, EvidenceNetwork
from graph_retrievers.systems.lesegr.model import LeSeGRModel
from graph_retrievers.systems.mor.parse import read_plan
from graph_retrievers.systems.mor.reranker import TrajectoryReranker, TrajectoryScorer
from graph_retrievers.systems.mor.trained import TrainedPlanner
from tests.helpers import HashEmbedding

# Memory that no machine has.
HUGE = 10**13


class Parser:
    name = "none"

    def parse(self, texts):
        return [MeaningGraph() for _ in texts]


@pytest.fixture(scope="module")
def index():
    nodes = [Node("ada", "A person.", "Ada", "person"), Node("loom", "A film on looms.", "Loom", "movie")]
    return GraphIndex.from_nodes(nodes, [("ada", "loom", "directed")], embedding=HashEmbedding(8))


def lesegr(folder):
    model = LeSeGRModel(8, "gcn", hidden=4, heads=2)
    config = {"hops": 1, "sparse": "bm25", "direction": "both", "dimension": 8, "embedding": "", "sparse_kind": "bm25"}
    save_checkpoint(folder, "lesegr", model.state_dict(), {**config, "model": model.config()})


def subgraph_rag(folder):
    scorer = TripleScorer(8, hidden=4)
    save_checkpoint(folder, "subgraph-rag", scorer.state_dict(), {"network": scorer.config(), "embedding": ""})


def gnn_rag(folder):
    network = AnswerNetwork(8, hidden=4)
    save_checkpoint(folder, "gnn-rag", network.state_dict(), {"network": network.config(), "embedding": ""})


def grag(folder, network=None):
    network = EvidenceNetwork(hidden=4) if network is None else network
    config = {"network": network.config(), "first": "bm25", "depth": 100, "together": False, "parser": "none", "embedding": None}
    save_checkpoint(folder, "g-rag", network.state_dict(), config)


PARTS = {
    "reranker": (
        lambda folder: save_checkpoint(folder, "reranker", TrajectoryScorer(2, 8, 4).state_dict(), {"node_only": False}),
        lambda index, folder: Retriever(index, MoR(checkpoint=folder)),
    ),
    "planner": (lambda folder: skeleton().save(folder), lambda index, folder: Retriever(index, MoR(checkpoint=folder))),
    "lesegr": (lesegr, lambda index, folder: Retriever(index, LeSeGR(checkpoint=folder))),
    "subgraph-rag": (subgraph_rag, lambda index, folder: Retriever(index, SubgraphRAG(checkpoint=folder))),
    "gnn-rag": (gnn_rag, lambda index, folder: Retriever(index, GNNRAG(checkpoint=folder))),
    "g-rag": (grag, lambda index, folder: Retriever(index, GRAG(checkpoint=folder, parser=Parser()))),
}


def skeleton():
    """Return an untrained planner of one plan, with the mark of its one restriction."""
    plan = read_plan([{"type": "person", "restriction": "Ada"}, {"type": "movie", "relation": "directed"}])
    return TrainedPlanner([plan], buckets=16)


def changed(folder, part, **settings):
    """Change settings of a part; a key with dots is that of a mapping inside."""
    file = folder / f"{part}.json"
    config = json.loads(file.read_text())
    for name, value in settings.items():
        *path, last = name.split("__")
        place = config
        for step in path:
            place = place[step]
        place[last] = value
    file.write_text(json.dumps(config))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_refused(index, tmp_path, part, wrong):
    save, load = PARTS[part]
    save(tmp_path)
    assert len(load(index, tmp_path).retrieve("Which movie did Ada direct?")) == 2
    tensors, config = load_checkpoint(tmp_path, part)
    for name, value in tensors.items():
        broken = value.clone()
        broken.view(-1)[-1] = wrong
        save_checkpoint(tmp_path, part, {**tensors, name: broken}, config)
        with pytest.raises(InvalidArgumentError, match=f"'{name}' holds NaN, infinity or no float32 numbers; train"):
            load(index, tmp_path)
    save_checkpoint(tmp_path, part, {name: value.double() for name, value in tensors.items()}, config)
    with pytest.raises(InvalidArgumentError, match="no float32 numbers"):
        load(index, tmp_path)


@pytest.mark.parametrize("threshold", [0.0, 0.99])
def test_a_planner_whose_weights_are_too_large_is_not_certain(index, tmp_path, threshold):
    planner = skeleton()
    planner.threshold = threshold
    with torch.no_grad():
        planner.model.weight.fill_(1e38)
    planner.save(tmp_path)
    with pytest.raises(InvalidArgumentError, match="The planner of MoR gave scores that are NaN or infinite: its weights are too"):
        Retriever(index, MoR(checkpoint=tmp_path)).retrieve("Which movie did Ada direct?")


@pytest.mark.parametrize("size", [1e13, 1e20])
def test_a_reranker_whose_weights_are_too_large_gives_no_scores(index, tmp_path, size):
    torch.manual_seed(0)
    weights = {name: torch.randn(value.shape) * size for name, value in TrajectoryScorer(2, 8, 4).state_dict().items()}
    save_checkpoint(tmp_path, "reranker", weights, {"node_only": False})
    with pytest.raises(InvalidArgumentError, match="The reranker of MoR gave scores that are NaN or infinite: its weights are too"):
        Retriever(index, MoR(checkpoint=tmp_path)).retrieve("Which movie did Ada direct?")
    # Nothing to rerank is not an error.
    assert (
        len(
            Retriever(index, MoR(checkpoint=tmp_path), backfill=False).retrieve(
                "Which movie did Ada direct?", filter={"$id": "none"}
            )
        )
        == 0
    )


@pytest.mark.parametrize(
    ("part", "settings", "message"),
    [
        ("planner", {"buckets": HUGE}, "size mismatch"),
        ("planner", {"buckets": 10**30}, "not the weights and settings of a trained planner"),
        ("planner", {"buckets": 0}, "buckets must be an integer of at least 1"),
        ("planner", {"buckets": True}, "buckets is True, expected int"),
        ("planner", {"titled": "false"}, "titled is 'false', expected bool"),
        ("planner", {"threshold": math.nan}, r"threshold must lie in \[0, 1\]"),
        ("planner", {"threshold": "0"}, "threshold is '0', expected int or float"),
        ("planner", {"plans": []}, "cannot be read"),
        ("planner", {"plans": [], "restricted": []}, "at least one plan"),
        ("planner", {"restricted": [[-1, 0]]}, r"said to be at \[-1, 0\]; expected its one path and step"),
        ("planner", {"restricted": [[0, -2]]}, "expected its one path and step"),
        ("planner", {"restricted": [[0, 2]]}, "expected its one path and step"),
        ("planner", {"restricted": [[0, True]]}, "expected its one path and step"),
        ("planner", {"restricted": [7]}, "expected its one path and step"),
        ("planner", {"restricted": {}}, "restricted is {}, expected list"),
        ("reranker", {"node_only": "false"}, "node_only is 'false', expected bool"),
        ("reranker", {"features": "text"}, "features is 'text', expected list"),
        ("reranker", {"features": ["TF"]}, "Unknown features 'TF'"),
        ("lesegr", {"model__hidden": HUGE}, "hidden must be at most"),
        ("lesegr", {"model__hidden": 1 << 15}, "size mismatch"),
        ("lesegr", {"model__layers": 0}, "layers must be an integer of at least 1"),
        ("lesegr", {"hops": "1"}, "hops is '1', expected int or None"),
        ("lesegr", {"sparse": 3}, "sparse is 3, expected str"),
        ("lesegr", {"model": []}, r"model is \[\], expected dict"),
        ("subgraph-rag", {"network__hidden": HUGE}, "hidden must be at most"),
        ("subgraph-rag", {"network__hidden": 5}, "size mismatch"),
        ("subgraph-rag", {"network__dimension": 10**30}, "not the weights and settings of SubgraphRAG"),
        ("subgraph-rag", {"network__rounds": "2"}, "rounds must be an integer"),
        ("subgraph-rag", {"network__more": 1}, "not the weights and settings"),
        ("subgraph-rag", {"network": []}, r"network is \[\], expected dict"),
        ("gnn-rag", {"network__hidden": HUGE}, "hidden must be at most"),
        ("gnn-rag", {"network__hidden": 5}, "size mismatch"),
        ("gnn-rag", {"network__dimension": 10**30}, "dimension must be at most"),
        ("gnn-rag", {"network__layers": 10**9}, "layers must be at most"),
        ("gnn-rag", {"network__instructions": "2"}, "instructions must be an integer"),
        ("gnn-rag", {"network__dropout": 2}, "dropout must lie in"),
        ("gnn-rag", {"network__more": 1}, "not the weights and settings"),
        ("gnn-rag", {"network": []}, r"network is \[\], expected dict"),
        ("g-rag", {"network__hidden": HUGE}, "size mismatch"),
        ("g-rag", {"network__hidden": 10**30}, "not the weights and settings of a network of G-RAG"),
        ("g-rag", {"network__hidden": 0}, "hidden must be an integer of at least 1"),
        ("g-rag", {"network__graph": "false"}, "Unknown graph 'false'"),
        ("g-rag", {"network__channels": ["links"] * 10**5}, "channels must name each once"),
        ("g-rag", {"network__evidence": ["rank", "rank"]}, "evidence must name each once"),
        ("g-rag", {"network__kind": ["evidence"]}, "Unknown kind"),
        ("g-rag", {"network__more": 1}, "not the weights and settings"),
        ("g-rag", {"together": "false"}, "together is 'false', expected bool"),
        ("g-rag", {"depth": 2.5}, "depth is 2.5, expected int"),
        ("g-rag", {"depth": 0}, "depth must be an integer of at least 1"),
        ("g-rag", {"first": 3}, "first is 3, expected str or None"),
    ],
)
def test_settings_that_do_not_fit_are_refused(index, tmp_path, part, settings, message):
    save, load = PARTS[part]
    save(tmp_path)
    changed(tmp_path, part, **settings)
    with pytest.raises(InvalidArgumentError, match=message):
        load(index, tmp_path)


@pytest.mark.slow
def test_a_planner_of_more_plans_than_it_can_hold_is_refused(index, tmp_path):
    skeleton().save(tmp_path)
    written = json.loads((tmp_path / "planner.json").read_text())
    # A table of plans and their parts would have 10 ** 8 entries.
    changed(tmp_path, "planner", plans=written["plans"] * 10**4, restricted=written["restricted"] * 10**4)
    with pytest.raises(
        InvalidArgumentError, match=r"a table of 10,001 plans and 10,0\d\d parts of them, more than 67,108,864 entries"
    ):
        Retriever(index, MoR(checkpoint=tmp_path))


def test_plans_of_a_planner_have_no_other_restriction(index, tmp_path):
    skeleton().save(tmp_path)
    two = [{"type": "person", "restriction": "Ada"}, {"type": "movie", "relation": "directed", "restriction": "Loom"}]
    changed(tmp_path, "planner", plans=[read_plan(two).to_dict()])
    with pytest.raises(InvalidArgumentError, match="expected its one path and step"):
        Retriever(index, MoR(checkpoint=tmp_path))


def test_networks_that_read_nothing_are_refused(tmp_path):
    weights = TrajectoryScorer(1, 8, 4).state_dict()
    none = {**weights, "score_vec_enc.weight": torch.zeros(4, 1), "fc1.weight": torch.zeros(1, 8)}
    empty = {name: value[:0] if name.endswith("enc.weight") else value for name, value in weights.items()}
    for broken, message in ((none, "length must be"), (empty, "hidden must be"), ({"w": 3}, "'w' holds NaN")):
        with pytest.raises(InvalidArgumentError, match=message):
            TrajectoryReranker(broken)
    for sizes in ((0, 8, 4), (2, 0, 4), (2, 8, 0)):
        with pytest.raises(InvalidArgumentError, match="must be an integer of at least 1"):
            TrajectoryScorer(*sizes)
    # Small weights that ask for a large network: the width of one layer, and the length of another.
    wide = {**weights, "score_vec_enc.weight": torch.zeros(10**6, 2), "text_emb_enc.weight": torch.zeros(1, 10**7)}
    with pytest.raises(InvalidArgumentError, match="size mismatch"):
        TrajectoryReranker(wide)
    (tmp_path / "no.safetensors").write_bytes(b"no")
    for file, message in ((tmp_path / "no.safetensors", "cannot be read"), (tmp_path / "none.safetensors", "does not exist")):
        with pytest.raises(InvalidArgumentError, match=message):
            TrajectoryReranker(file)


def test_a_restored_network_is_the_saved_one(index, tmp_path):
    torch.manual_seed(3)
    for network in (DocumentGraphNetwork(8, "gat", hidden=4, heads=2), EvidenceNetwork(hidden=4, channels=("links",))):
        grag(tmp_path, network)
        again = Retriever(index, GRAG(checkpoint=tmp_path, parser=Parser())).operator.operators[-1].network
        assert again.config() == network.config() and not again.training
        state = again.state_dict()
        assert all(torch.equal(state[name], value) for name, value in network.state_dict().items())
        assert all(value.device.type == "cpu" and value.requires_grad for value in again.parameters())


@pytest.mark.parametrize(("umask", "files"), [(0o022, 0o644), (0o077, 0o600)])
def test_weights_are_as_readable_as_settings(tmp_path, umask, files):
    before = os.umask(umask)
    try:
        lesegr(tmp_path)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {files}


def test_settings_and_weights_are_read_in_one_place():
    assert checked_settings({"a": 1, "b": None, "c": 2}, {"a": (int,), "b": (str, type(None))}, "X", "here") == {"a": 1, "b": None}
    with pytest.raises(InvalidArgumentError, match="here is not a checkpoint of X: it lacks a, b"):
        checked_settings({"c": 2}, {"b": (int,), "a": (int,)}, "X", "here")
    with pytest.raises(InvalidArgumentError, match="here is not a checkpoint of X: a is True, expected int"):
        checked_settings({"a": True}, {"a": (int,)}, "X", "here")
    weights = {"weight": torch.ones(1, 1), "bias": torch.zeros(1)}
    made = restored(lambda: torch.nn.Linear(1, 1), weights, "X")
    weights["bias"] += 1
    assert made(torch.ones(1)).tolist() == [1.0] and not made.training, "weights of its own, and no dropout"
    for broken in ({"weight": torch.ones(1, 1)}, {**weights, "more": torch.ones(1)}):
        with pytest.raises(InvalidArgumentError, match="not the weights and settings of X"):
            restored(lambda: torch.nn.Linear(1, 1), broken, "X")
    with pytest.raises(InvalidArgumentError, match="not the weights and settings of X: .*division"):
        restored(lambda: 1 // 0, {}, "X")


def sparse(file, size, header=None):
    """Make a file of a size that takes no place on the disk; with a header, as safetensors begins."""
    if header is not None:
        text = json.dumps(header).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text)
        size += 8 + len(text)
    file.touch()
    os.truncate(file, size)
    return file


def entry(start, stop):
    return {"dtype": "F32", "shape": [(stop - start) // 4], "data_offsets": [start, stop]}


def test_files_larger_than_any_checkpoint_are_refused_before_they_are_read(tmp_path):
    for file in (
        sparse(tmp_path / "zeros.safetensors", 40 << 30),
        sparse(tmp_path / "one.safetensors", 40 << 30, {"w": entry(0, 40 << 30)}),
    ):
        with pytest.raises(InvalidArgumentError, match=r"it has 42,949,6\d\d,\d{3} bytes, at most 8,589,934,592 are read"):
            read_weights(file)
    many = sparse(tmp_path / "many.safetensors", 0, {f"t{number}": entry(0, 0) for number in range(20_000)})
    with pytest.raises(InvalidArgumentError, match=r"bytes of names and shapes, at most 1,048,576 are read"):
        read_weights(many)
    with pytest.raises(InvalidArgumentError, match="cannot be read: it has 42,949,672,960 bytes, at most 33,554,432 are read"):
        read_settings(sparse(tmp_path / "settings.json", 40 << 30))
    some = sparse(tmp_path / "some.safetensors", 4, {"a": entry(0, 4), "b": entry(4, 4)})
    assert {name: value.tolist() for name, value in read_weights(some).items()} == {"a": [0.0], "b": []}
    (tmp_path / "spaces.json").write_text("{}" + " " * ((1 << 25) - 2))
    assert read_settings(tmp_path / "spaces.json") == {}


SHORT_OF_MEMORY = """
import resource, sys
import torch
import safetensors.torch
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.learning.checkpoint import read_settings, read_weights, restored

large, twice, small, settings = sys.argv[1:]
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20),) * 2)
for read in (
    lambda: read_weights(large),
    lambda: read_weights(twice),
    lambda: restored(lambda: torch.nn.Linear(1, 1), read_weights(small), "a line"),
    lambda: read_settings(settings),
):
    try:
        read()
    except InvalidArgumentError as error:
        print(repr(str(error)))
"""


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs a limit of memory")
def test_a_machine_short_of_memory_says_what_could_not_be_read(tmp_path):
    files = [
        sparse(tmp_path / "large.safetensors", 3 << 30, {"w": entry(0, 3 << 30)}),
        sparse(tmp_path / "twice.safetensors", 300 << 20, {"w": entry(0, 300 << 20)}),
        # There is room for twice as much.
        sparse(tmp_path / "small.safetensors", 230 << 20, {"w": entry(0, 230 << 20)}),
        tmp_path / "settings.json",
    ]
    files[-1].write_text("[" + ",".join(["[1]"] * (1 << 23))[: (1 << 25) - 3] + "]]")
    done = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    large, twice, whole, settings = done.stdout.splitlines()
    assert "large.safetensors cannot be read: MemoryError" in large
    assert "twice.safetensors cannot be read: RuntimeError: unable to mmap" in twice
    assert "not the weights and settings of a line" in whole and "settings.json cannot be read: MemoryError" in settings


def test_a_pipe_in_the_place_of_a_checkpoint_is_not_waited_for(index, tmp_path):
    for part in ("g-rag.json", "g-rag.safetensors"):
        os.mkfifo(tmp_path / part)
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        Retriever(index, GRAG(checkpoint=tmp_path))


def test_a_checkpoint_that_names_itself_as_its_first_search_is_refused(index, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, named in ((one, one), (other, one)):
        grag(folder)
        changed(folder, "g-rag", parser=MeaningCache().name, first=str(GRAG(checkpoint=str(named))))
    for folder in (one, other):
        with pytest.raises(InvalidArgumentError, match=r"The checkpoint '.*one' names itself as its first search"):
            Retriever(index, GRAG(checkpoint=folder))
    changed(one, "g-rag", first=str(GRAG(checkpoint=str(other))))
    with pytest.raises(InvalidArgumentError, match=r"The checkpoint '.*' names itself as its first search"):
        Retriever(index, GRAG(checkpoint=one))
    # Behind another checkpoint, or another search, each stands.
    changed(one, "g-rag", first="bm25")
    changed(other, "g-rag", first=str(GRAG(checkpoint=str(one))))
    for folder, first in ((one, None), (other, "bm25")):
        made = Retriever(index, GRAG(checkpoint=folder, first=first))
        assert len(made.retrieve("Which movie did Ada direct?")) == 2
