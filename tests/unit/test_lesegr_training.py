"""Training LeSeGR: it learns whom to listen to, the same way for one seed, also after an interruption."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from graph_retrievers import Retriever
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import Edge
from graph_retrievers.index import GraphIndex
from graph_retrievers.learning.checkpoint import load_checkpoint, save_checkpoint
from graph_retrievers.learning.labelled import LabelledQuery, questions_digest
from graph_retrievers.learning.loop import fit
from graph_retrievers.learning.state import History, clear_state
from graph_retrievers.operators import HybridSearch, LeSeGRModel, LexicalSemanticSearch
from graph_retrievers.search.queries import Queries
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.stores.remote import RemoteIndex
from graph_retrievers.systems.lesegr.retriever import LeSeGR
from graph_retrievers.systems.lesegr.training import fit_lesegr, fit_lesegr_model
from tests.helpers import HashEmbedding
from tests.rankings import ranked
from tests.remote import MemoryGraph, MemoryVectors, MemoryWords, assert_same

TOPICS = ["loom", "engine", "cipher", "valve", "census", "press", "clock", "bridge"]


def dataset():
    """Questions name one page; the page that answers is linked to it and shares no word with the question."""
    nodes, edges, queries = [], [], []
    for number in range(24):
        topic = TOPICS[number % len(TOPICS)]
        nodes += [
            Node(f"p{number}", f"A page on {topic} {number}."),
            Node(f"a{number}", f"Its answer number {number}."),
            Node(f"x{number}", f"Noise about weather {number}."),
        ]
        edges += [Edge(f"p{number}", f"a{number}", "answers"), Edge(f"p{number}", f"x{number}", "mentions")]
        split = "dev" if number % 4 == 3 else "train"
        queries.append(Query(f"q{number}", f"What about {topic} {number}?", (f"p{number}", f"a{number}"), split=split))
    return Dataset("pages", nodes, edges, queries, True)


@pytest.fixture(scope="module")
def data():
    return dataset()


@pytest.fixture(scope="module")
def index(data):
    return GraphIndex.from_graph(data.graph(), embedding=HashEmbedding())


QUICK = {"epochs": 6, "learning_rate": 0.01, "batch_size": 6}


def index_with(data, name, signal):
    """The index of the data with a further signal."""
    made = GraphIndex.from_graph(data.graph(), embedding=HashEmbedding())
    return GraphIndex(made.graph, {**made.signals, name: signal}, embedding=made.embedding)


def recall(retriever, queries, k=2):
    found = [{hit.id for hit in retriever.retrieve(query.text, k)} for query in queries]
    return sum(len(hits & set(query.gold)) / len(query.gold) for hits, query in zip(found, queries, strict=True)) / len(queries)


def test_it_learns_to_listen_to_the_neighbours_that_answer(data, index, tmp_path):
    told = fit_lesegr(data, index, tmp_path, training={**QUICK, "epochs": 15, "k": 2})
    dev = [query for query in data.queries if query.split == "dev"]
    before, after = recall(Retriever(index, LeSeGR()), dev), recall(Retriever(index, LeSeGR(checkpoint=tmp_path)), dev)
    assert before == pytest.approx(0.5) and after >= 0.9 and told["recall@2_on_dev"] > 0.9
    assert told["quality_on_dev"] == (told["hit@1_on_dev"] + told["recall@2_on_dev"]) / 2
    hit = Retriever(index, LeSeGR(checkpoint=tmp_path)).retrieve(dev[0].text, 2)[1]
    assert hit.id.startswith("a") and [node.id for node in hit.context.nodes] == ["p" + hit.id[1:]]
    hits = Retriever(index, LeSeGR(checkpoint=tmp_path, candidates=6), backfill=False).retrieve(dev[0].text, 20)
    reached = [hit for hit in hits if hit.operator == "LexicalSemanticSearch"]
    assert reached and all(len(hit.path.nodes) == 2 and hit.path.nodes[-1] == hit.id for hit in reached)


def test_one_seed_gives_one_result_and_another_seed_another(data, index, tmp_path):
    weights = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        fit_lesegr(data, index, tmp_path / name, seed=seed, training=QUICK)
        weights.append((tmp_path / name / "lesegr.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_training_goes_on_after_an_interruption_with_the_same_result(data, index, tmp_path, monkeypatch):
    fit_lesegr(data, index, tmp_path / "whole", training=QUICK)
    folder = tmp_path / "stopped"
    from graph_retrievers.learning import loop

    real, calls = loop.save_state, []

    def stopped(*arguments):
        real(*arguments)
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save_state", stopped)
    with pytest.raises(KeyboardInterrupt):
        fit_lesegr(data, index, folder, training=QUICK)
    assert (folder / "under-way").is_dir() and not (folder / "lesegr.json").exists()
    monkeypatch.setattr(loop, "save_state", real)
    with pytest.raises(InvalidArgumentError, match="holds another training"):
        fit_lesegr(data, index, folder, seed=7, training=QUICK)
    fit_lesegr(data, index, folder, training=QUICK)
    assert (folder / "lesegr.safetensors").read_bytes() == (tmp_path / "whole" / "lesegr.safetensors").read_bytes()
    histories = [json.loads((path / "lesegr.json").read_text())["history"] for path in (folder, tmp_path / "whole")]
    assert histories[0] == histories[1] and not (folder / "under-way").exists()


def line(folder, width=3, epochs=3, stop=None, **options):
    """Train a line; `stop` is the epoch in which it is interrupted."""
    torch.manual_seed(0)
    module, x, calls = nn.Linear(width, 1), torch.ones(4, width), []

    def evaluate():
        calls.append(1)
        if len(calls) == stop:
            raise KeyboardInterrupt
        return -float(module(x).pow(2).mean())

    def batches(generator):
        return [torch.rand(4, width, generator=generator) + torch.rand(1)]

    history = fit(module, batches, lambda batch: module(batch).pow(2).mean(), evaluate, epochs=epochs, resume=folder, **options)
    return history.to_dict(), module.state_dict()


def test_both_generators_go_on_and_the_folder_is_kept_as_it_is(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(KeyboardInterrupt):
        line(tmp_path, epochs=6, stop=4)
    torch.rand(5)
    stopped, whole = line(tmp_path, epochs=6), line(None, epochs=6)
    assert stopped[0] == whole[0] and all(torch.equal(stopped[1][name], whole[1][name]) for name in whole[1])
    assert line(tmp_path, epochs=6)[0] == whole[0], "a training that has ended is not trained further"
    clear_state(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_state_of_something_else_is_refused(tmp_path):
    line(tmp_path, epochs=2)
    for options in ({"seed": 1}, {"learning_rate": 1.0}, {"about": {"k": 3}}):
        with pytest.raises(InvalidArgumentError, match="holds another training"):
            line(tmp_path, **options)
    with pytest.raises(InvalidArgumentError, match="training of another model"):
        line(tmp_path, width=2)
    (tmp_path / "training.json").write_text("{}")
    with pytest.raises(InvalidArgumentError, match="does not hold the state of a training"):
        line(tmp_path)


def test_patience_that_is_spent_ends_a_resumed_training(tmp_path):
    module = nn.Linear(1, 1)
    options = {"epochs": 9, "patience": 2, "resume": tmp_path}

    def train():
        return fit(module, lambda generator: [torch.ones(1, 1)], lambda x: module(x).pow(2).mean(), lambda: 1.0, **options)

    assert len(train().losses) == 3 == len(train().losses)


def test_a_loss_that_is_no_number_stops_the_training(data, index, tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"The loss is (nan|inf) in epoch \d+; use a smaller learning_rate"):
        fit_lesegr(data, index, tmp_path, training={**QUICK, "learning_rate": 1e30, "epochs": 40, "patience": 40})
    assert not (tmp_path / "lesegr.json").exists()


def test_a_stopped_training_does_not_go_on_with_other_settings(data, index, tmp_path, monkeypatch):
    from graph_retrievers.learning import loop

    def stopped(*arguments, real=loop.save_state):
        real(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "save_state", stopped)
        fit_lesegr(data, index, tmp_path, training=QUICK)
    for options in ({"direction": "in"}, {"candidates": 5}, {"encoder": "mean"}, {"hub_exponent": 1.0}, {"hops": 2}):
        with pytest.raises(InvalidArgumentError, match="holds another training"):
            fit_lesegr(data, index, tmp_path, training=QUICK, **options)
    for options in ({"batch_size": 3}, {"k": 5}):
        with pytest.raises(InvalidArgumentError, match="holds another training"):
            fit_lesegr(data, index, tmp_path, training={**QUICK, **options})
    other = index_with(data, "words", index.bm25)
    with pytest.raises(InvalidArgumentError, match="holds another training"):
        fit_lesegr(data, other, tmp_path, training=QUICK, sparse="words")


@pytest.mark.slow
def test_a_stopped_training_does_not_go_on_with_other_data(data, index, tmp_path, monkeypatch):
    from graph_retrievers.learning import loop

    def stopped(*arguments, real=loop.save_state):
        real(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "save_state", stopped)
        fit_lesegr(data, index, tmp_path, training=QUICK)
    gold = [replace(query, gold=("x0",)) for query in data.queries]

    class Other(HashEmbedding):
        name = "another model"

        def embed_documents(self, texts):
            return [[-value for value in vector] for vector in super().embed_documents(texts)]

    class Renamed(HashEmbedding):
        name = "a third model"

    for other, on in (
        (Dataset("pages", data.nodes, data.edges, gold, True), index),
        (Dataset("pages", data.nodes, data.edges, [*data.queries, replace(data.queries[3], text="What?")], True), index),
        (data, GraphIndex.from_graph(data.graph(), embedding=Other())),
        (data, GraphIndex.from_graph(data.graph(), embedding=Renamed())),
        (data, GraphIndex.from_nodes(data.nodes, data.edges[1:], embedding=HashEmbedding())),
    ):
        with pytest.raises(InvalidArgumentError, match="holds another training"):
            fit_lesegr(other, on, tmp_path, training=QUICK)
    state = json.loads((tmp_path / "under-way" / "training.json").read_text())
    kept = state["history"]
    odd = {"losses": ["a", [math.nan], [1.0] * 9], "scores": [[1.0, 2.0]], "best_epoch": [7, 0], "best_score": [None, math.inf]}
    for name, value in ((name, value) for name, values in odd.items() for value in values):
        changed = {**state, "history": {**kept, name: value}}
        (tmp_path / "under-way" / "training.json").write_text(json.dumps(changed))
        with pytest.raises(InvalidArgumentError, match="does not hold the state of a training"):
            fit_lesegr(data, index, tmp_path, training=QUICK)
    (tmp_path / "under-way" / "training.json").write_text(json.dumps(state))
    tensors, config = load_checkpoint(tmp_path / "under-way", "training")
    first = tensors["optimizer.0.exp_avg"]
    damage = {
        "generator": [torch.zeros(3)],
        "optimizer.x.step": [torch.zeros(1)],
        "optimizer.99.step": [torch.tensor(1.0)],
        "optimizer.0.step": [torch.tensor(-1.0), torch.zeros(2)],
        "optimizer.0.exp_avg": [None, torch.zeros(0), first.int(), first * math.nan],
        "best.mlp.0.weight": [None, torch.zeros(2), tensors["best.mlp.0.weight"] * math.nan, tensors["best.mlp.0.weight"].long()],
        "module.mlp.0.weight": [None, tensors["module.mlp.0.weight"].half()],
    }
    for name, values in damage.items():
        for value in values:
            changed = {key: held for key, held in {**tensors, name: value}.items() if held is not None}
            save_checkpoint(tmp_path / "under-way", "training", changed, config)
            with pytest.raises(InvalidArgumentError, match="remove it to start again"):
                fit_lesegr(data, index, tmp_path, training=QUICK)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"epochs": 0}, "epochs must be an integer of at least 1"),
        ({"patience": None}, "patience must be an integer of at least 1"),
        ({"learning_rate": math.nan}, "learning_rate must be a number of at least 0"),
        ({"weight_decay": "x"}, "weight_decay must be a number of at least 0"),
        ({"batch_size": 0}, "batch_size must be an integer"),
    ],
)
def test_settings_of_a_training_are_checked(data, index, tmp_path, options, told):
    with pytest.raises(InvalidArgumentError, match=told):
        fit_lesegr(data, index, tmp_path, training=options)


def test_seeds_and_folders_of_a_training_are_checked(data, index, tmp_path):
    for seed in (-1, 2**64, "a", None, True):
        with pytest.raises(InvalidArgumentError, match="expected an integer from 0"):
            fit_lesegr(data, index, tmp_path, seed=seed, training=QUICK)
    (tmp_path / "file").write_text("mine")
    for folder in ("\0", 3, None, tmp_path / "file" / "x", tmp_path / "file"):
        with pytest.raises(InvalidArgumentError, match="cannot be"):
            fit_lesegr(data, index, folder, training=QUICK)


def test_batches_and_questions_without_a_relevant_node_found_teach_nothing(data, index):
    found, lost = LabelledQuery("What about loom 0?", (0,)), LabelledQuery("What about engine 1?", (70,))
    options = {"epochs": 1, "learning_rate": 1e-9}

    def loss(train, size):
        search = LexicalSemanticSearch(LeSeGRModel(64))
        return fit_lesegr_model(index, train, [found], search, HybridSearch(2), batch_size=size, **options).losses[0]

    assert math.isfinite(loss([found], 1)) and loss([found, lost], 1) == loss([found], 1)
    assert loss([found, lost], 2) == pytest.approx(loss([found], 1), rel=1e-5)


def test_the_scale_of_the_softmax_is_learnt(index):
    search, queries = LexicalSemanticSearch(LeSeGRModel(64)), [LabelledQuery("What about loom 0?", (0, 1))]
    fit_lesegr_model(index, queries, queries, search, HybridSearch(5), epochs=3, patience=3, learning_rate=0.1)
    history = fit_lesegr_model(index, queries, queries, search, HybridSearch(5), epochs=1, learning_rate=0.0)
    other = LexicalSemanticSearch(LeSeGRModel.of_config(search.model.config(), search.model.state_dict()))
    with torch.no_grad():
        other.model.log_scale.fill_(math.log(20))
    fixed = fit_lesegr_model(index, queries, queries, other, HybridSearch(5), epochs=1, learning_rate=0.0)
    assert search.model.log_scale.item() != pytest.approx(math.log(20), abs=1e-3) and history.losses != fixed.losses


def test_a_trained_model_changes_what_its_searches_answer(index):
    model = LeSeGRModel(64)
    retriever = Retriever(index, LeSeGR(model=model))
    before = [hit.score for hit in retriever.retrieve("What about loom 0?")]
    torch.manual_seed(3)
    model.load_state_dict({name: torch.randn_like(value) for name, value in model.state_dict().items()})
    after = [hit.score for hit in retriever.retrieve("What about loom 0?")]
    assert after != before and after == [hit.score for hit in Retriever(index, LeSeGR(model=model)).retrieve("What about loom 0?")]


def test_each_relevant_node_counts_as_much_as_it_is_one_of(index):
    queries = [LabelledQuery("What about loom 0?", (0, 1)), LabelledQuery("What about engine 1?", (3,))]
    search = LexicalSemanticSearch(LeSeGRModel(64))
    history = fit_lesegr_model(index, queries, queries[:1], search, HybridSearch(5), epochs=1, batch_size=2, learning_rate=1e-9)
    scale, losses = 20.0, []
    for query in queries:
        asked = Queries.of(index, [query.text])
        scored = ranked(search, asked, ranked(HybridSearch(5), asked))
        logits = {n: s * scale for n, s in zip(scored.nodes[0].tolist(), scored.scores[0].tolist(), strict=True) if n >= 0}
        total = math.log(sum(math.exp(value) for value in logits.values()))
        held = [row for row in query.gold if row in logits]
        losses.append(sum(total - logits[row] for row in held) / len(held))
    assert history.losses[0] == pytest.approx(sum(losses) / 2, rel=1e-4)
    many = [LabelledQuery("What about loom 0?", tuple(range(72)))]
    perfect = fit_lesegr_model(index, many, many, LexicalSemanticSearch(LeSeGRModel(64)), HybridSearch(72), k=3, epochs=1)
    assert perfect.best_score == 1.0, "three places cannot hold more than three relevant nodes"
    with pytest.raises(InvalidArgumentError, match="no dev question"):
        fit_lesegr_model(index, queries, [], search, HybridSearch(5))


@pytest.mark.parametrize("encoder", ["mean", "gcn", "gat", "transformer"])
def test_every_encoder_can_be_trained_and_loaded(encoder, data, index, tmp_path):
    fit_lesegr(data, index, tmp_path, training={**QUICK, "epochs": 2}, encoder=encoder, hidden=16, heads=2, layers=2, hops=2)
    retriever = Retriever(index, LeSeGR(checkpoint=tmp_path))
    search = retriever.operator.operators[1]
    assert (search.model.encoder, search.model.layers, search.hops) == (encoder, 2, 2)
    assert len(retriever.retrieve("What about loom 0?")) == 10


def test_a_checkpoint_refuses_what_it_was_not_trained_for(data, index, tmp_path):
    fit_lesegr(data, index, tmp_path, training={**QUICK, "epochs": 1})
    with pytest.raises(InvalidArgumentError, match="dimension 64, this one has 16"):
        Retriever(GraphIndex.from_graph(data.graph(), embedding=HashEmbedding(16)), LeSeGR(checkpoint=tmp_path))

    class Other(HashEmbedding):
        name = "another model"

    named = GraphIndex.from_graph(data.graph(), embedding=Other())
    with pytest.raises(InvalidArgumentError, match="embedding 'HashEmbedding', this one has 'another model'"):
        Retriever(named, LeSeGR(checkpoint=tmp_path))
    with pytest.raises(InvalidArgumentError, match=r"either checkpoint= or model="):
        Retriever(index, LeSeGR(checkpoint=tmp_path, model=LeSeGRModel(64)))
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        Retriever(index, LeSeGR(checkpoint=tmp_path / "nothing"))
    settings = json.loads((tmp_path / "lesegr.json").read_text())
    other = {**settings, "sparse_kind": "sparse"}
    (tmp_path / "lesegr.json").write_text(json.dumps(other))
    with pytest.raises(InvalidArgumentError, match="sparse_kind 'sparse', this one has 'bm25'"):
        Retriever(index, LeSeGR(checkpoint=tmp_path))
    (tmp_path / "lesegr.json").write_text(json.dumps({**settings, "embedding": ""}))
    assert Retriever(index, LeSeGR(checkpoint=tmp_path)), "vectors that were given have no model to compare"
    for broken in ("{}", json.dumps({**settings, "model": {}}), json.dumps({"model": settings["model"]})):
        (tmp_path / "lesegr.json").write_text(broken)
        with pytest.raises(InvalidArgumentError, match="not a checkpoint of LeSeGR|not the weights and settings"):
            Retriever(index, LeSeGR(checkpoint=tmp_path))
    weights = (tmp_path / "lesegr.safetensors").read_bytes()
    (tmp_path / "lesegr.json").write_text(json.dumps({**settings, "model": {**settings["model"], "dimension": 60_000}}))
    with pytest.raises(InvalidArgumentError, match="not the weights and settings"):
        Retriever(index, LeSeGR(checkpoint=tmp_path))
    (tmp_path / "lesegr.json").write_text(json.dumps(settings))
    tensors, config = load_checkpoint(tmp_path, "lesegr")
    bias = tensors["mlp.0.bias"]
    for value in (bias.double(), bias.to(torch.complex64), bias.long(), bias * math.nan):
        save_checkpoint(tmp_path, "lesegr", {**tensors, "mlp.0.bias": value}, config)
        with pytest.raises(InvalidArgumentError, match="'mlp.0.bias' holds NaN, infinity or no float32 numbers|not the weights"):
            Retriever(index, LeSeGR(checkpoint=tmp_path))
    (tmp_path / "lesegr.safetensors").write_bytes(weights)
    (tmp_path / "lesegr.json").write_text(json.dumps({**settings, "seed": 7, "weights_sha256": "0" * 64}))
    with pytest.raises(InvalidArgumentError, match="does not belong to lesegr.json"):
        Retriever(index, LeSeGR(checkpoint=tmp_path))
    for name, value in (("dimension", 0), ("sparse_kind", None), ("embedding", [])):
        (tmp_path / "lesegr.json").write_text(json.dumps({**settings, name: value}))
        with pytest.raises(InvalidArgumentError, match=f"with {name}"):
            Retriever(index, LeSeGR(checkpoint=tmp_path))
    for name in ("dimension", "embedding", "sparse_kind"):
        (tmp_path / "lesegr.json").write_text(json.dumps({key: value for key, value in settings.items() if key != name}))
        with pytest.raises(InvalidArgumentError, match=f"it lacks {name}"):
            Retriever(index, LeSeGR(checkpoint=tmp_path))
    settings["model"]["encoder"] = "transformer"
    (tmp_path / "lesegr.json").write_text(json.dumps(settings))
    with pytest.raises(InvalidArgumentError, match="not the weights and settings of LeSeGR"):
        Retriever(index, LeSeGR(checkpoint=tmp_path))


def test_a_checkpoint_finds_on_stores_what_it_finds_in_memory(data, index, tmp_path):
    fit_lesegr(data, index, tmp_path, training=QUICK)
    stores = {"vectors": MemoryVectors(index.graph.ids, index.dense.vectors), "words": MemoryWords(index)}
    remote = RemoteIndex(MemoryGraph(index.graph), **stores, embedding=HashEmbedding())
    questions = [query.text for query in data.queries]
    assert_same(*(Retriever(each, LeSeGR(checkpoint=tmp_path)).retrieve_batch(questions) for each in (remote, index)))


def test_the_cost_of_the_whole_graph_is_told_before_the_training(data, index, tmp_path, caplog, monkeypatch):
    from graph_retrievers.systems.lesegr import training

    told = []
    made = History([0.0], [0.0], 1, 0.0)
    monkeypatch.setattr(training, "fit", lambda *_, **options: told.append(list(caplog.messages)) or made)
    fit_lesegr(data, index, tmp_path / "near", training=QUICK)
    assert told == [[]], "one hop is cheap"
    fit_lesegr(data, index, tmp_path / "paper", paper=True, hidden=8)
    memory, time = told[1]
    nodes, edges = len(index), index.graph.sources.numel()
    assert memory.startswith(f"LeSeGR is trained over the whole graph, {nodes} nodes and {edges} edges for each question.")
    assert "for a step of 4 questions" in memory and "hops=1 both" in memory
    train = sum(query.split == "train" for query in data.queries)
    assert f"for 40 epochs of {-(-train // 4)} steps" in time and "A step of one question takes" in time
    caplog.clear()
    fit_lesegr(data, index, tmp_path / "more", paper=True, hidden=8, training={"batch_size": 5, "epochs": 2})
    assert "for a step of 5 questions" in told[2][0] and "for 2 epochs of" in told[2][1]


def test_questions_are_needed_to_learn_and_to_stop(data, index, tmp_path):
    for split in ("train", "dev"):
        some = Dataset("some", data.nodes, data.edges, [query for query in data.queries if query.split == split], True)
        with pytest.raises(InvalidArgumentError, match="learns from both"):
            fit_lesegr(some, index, tmp_path)


def test_training_reads_the_sparse_signal_that_is_named(data, index, tmp_path):
    words = index_with(data, "words", BM25(["nothing"] * len(index)))
    for sparse in ("bm25", "words"):
        fit_lesegr(data, words, tmp_path / sparse, training=QUICK, sparse=sparse)
    weights = [load_checkpoint(tmp_path / sparse, "lesegr")[0]["mlp.2.weight"] for sparse in ("bm25", "words")]
    assert not torch.equal(*weights)
    assert load_checkpoint(tmp_path / "words", "lesegr")[1]["sparse_kind"] == "bm25"
    assert Retriever(words, LeSeGR(checkpoint=tmp_path / "words")).operator.operators[1].sparse == "words"
    with pytest.raises(MissingSignalError, match="words"):
        Retriever(index, LeSeGR(checkpoint=tmp_path / "words"))
    with pytest.raises(MissingSignalError, match="words"):
        Retriever(index, LeSeGR(sparse="words"))
    plain = GraphIndex.from_graph(data.graph(), embedding=HashEmbedding(), bm25=False)
    alone = GraphIndex(plain.graph, {**plain.signals, "words": index.bm25}, embedding=plain.embedding)
    assert [operator.name for operator in Retriever(alone, LeSeGR(sparse="words")).operator.operators][0] == "VectorSearch"


def test_an_index_without_the_name_of_a_model_takes_a_checkpoint(data, index, tmp_path):
    fit_lesegr(data, index, tmp_path, training={**QUICK, "epochs": 1})
    unnamed = GraphIndex.from_graph(data.graph(), vectors=index.dense.vectors)
    assert unnamed.embedding_name == "" and Retriever(unnamed, LeSeGR(checkpoint=tmp_path))


def test_recall_on_dev_is_a_mean_over_questions_and_over_different_relevant_nodes(index):
    search = LexicalSemanticSearch(LeSeGRModel(64))
    queries = [LabelledQuery(f"What about {topic} {row}?", (3 * row, 3 * row)) for row, topic in enumerate(TOPICS[:3])]
    history = fit_lesegr_model(index, queries, queries, search, HybridSearch(5), k=5, epochs=1, batch_size=2, learning_rate=0.0)
    assert history.best_score == 1.0


def test_the_epoch_is_chosen_by_the_first_hit_as_much_as_by_recall(index):
    # All passages on a topic are ties, of which the first is relevant to one question, and the others to the second.
    search = LexicalSemanticSearch(LeSeGRModel(64))
    queries = [LabelledQuery("What about loom 0?", (0, 71)), LabelledQuery("What about loom 0?", (70, 71))]
    history = fit_lesegr_model(index, queries, queries, search, HybridSearch(5), k=1, epochs=1, learning_rate=0.0)
    found = Retriever(index, LeSeGR(model=search.model, candidates=5)).retrieve("What about loom 0?", 1)[0].id == index.graph.ids[0]
    assert found and history.measures == {"hit@1": [0.5], "recall@1": [0.5]}
    wide = fit_lesegr_model(index, queries, queries, search, HybridSearch(72), k=72, epochs=1, learning_rate=0.0)
    assert wide.measures == {"hit@1": [0.5], "recall@72": [1.0]} and wide.best_score == 0.75


def test_the_loss_of_an_epoch_is_the_mean_of_its_batches_and_settings_of_torch_are_left_as_they_were(index):
    first, second = LabelledQuery("What about loom 0?", (0,)), LabelledQuery("What about engine 1?", (3,))

    def losses(train, size):
        search = LexicalSemanticSearch(LeSeGRModel(64))
        options = {"epochs": 1, "batch_size": size, "learning_rate": 0.0}
        return fit_lesegr_model(index, train, [first], search, HybridSearch(9), **options).losses[0]

    alone = [losses([query], 1) for query in (first, second)]
    assert losses([first, second], 1) == pytest.approx(sum(alone) / 2) and alone[0] != pytest.approx(alone[1])
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_state_of_other_rates_or_patience_is_refused(tmp_path):
    line(tmp_path, epochs=2)
    for options in ({"weight_decay": 0.5}, {"patience": 3}):
        with pytest.raises(InvalidArgumentError, match="holds another training"):
            line(tmp_path, **options)


@pytest.mark.parametrize("written", ["[" * 100_000, "5", "null", "\udce9"])
def test_settings_of_a_checkpoint_that_cannot_be_read(written, tmp_path):
    save_checkpoint(tmp_path, "part", {"w": torch.zeros(1)}, {})
    (tmp_path / "part.json").write_bytes(written.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        load_checkpoint(tmp_path, "part")


def test_questions_of_any_characters_have_a_digest():
    assert questions_digest([LabelledQuery("a\ud800", (0,))]) != questions_digest([LabelledQuery("a\udfff", (0,))])
    one, two = [LabelledQuery("a", (0,))], [LabelledQuery("b", (0,))]
    assert len({questions_digest(*splits) for splits in ((one, two), (one, one), (two, one), (one,))}) == 4
