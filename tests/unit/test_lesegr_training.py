"""Training LeSeGR: it learns whom to listen to, the same way for one seed, also after an interruption."""

import json

import pytest
import torch
from torch import nn

from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.graph.corpus_graph import Edge
from graph_retrievers.index import GraphIndex
from graph_retrievers.learning.loop import fit
from graph_retrievers.operators import LeSeGRModel
from graph_retrievers.retrievers.lesegr import LeSeGR, fit_lesegr
from tests.helpers import HashEmbedding

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


def recall(retriever, queries, k=2):
    found = [{hit.id for hit in retriever.retrieve(query.text, k)} for query in queries]
    return sum(len(hits & set(query.gold)) / len(query.gold) for hits, query in zip(found, queries, strict=True)) / len(queries)


def test_it_learns_to_listen_to_the_neighbours_that_answer(data, index, tmp_path):
    told = fit_lesegr(data, index, tmp_path, training={**QUICK, "epochs": 15, "k": 2})
    dev = [query for query in data.queries if query.split == "dev"]
    before, after = recall(LeSeGR(index), dev), recall(LeSeGR(index, checkpoint=tmp_path), dev)
    assert before == pytest.approx(0.5) and after >= 0.9 and told["recall_on_dev"] > 0.9
    hit = LeSeGR(index, checkpoint=tmp_path).retrieve(dev[0].text, 2)[1]
    assert hit.id.startswith("a") and [node.id for node in hit.context.nodes] == ["p" + hit.id[1:]]
    hits = LeSeGR(index, checkpoint=tmp_path, candidates=6, backfill=False).retrieve(dev[0].text, 20)
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


def test_the_state_of_another_model_is_refused(tmp_path):
    def train(width, stop):
        torch.manual_seed(0)
        module, x = nn.Linear(width, 1), torch.ones(4, width)

        def evaluate():
            if stop:
                raise KeyboardInterrupt
            return 0.0

        def loss(batch):
            return module(batch).pow(2).mean()

        return fit(module, lambda generator: [x], loss, evaluate, epochs=3, resume=tmp_path / "state")

    train(3, stop=False)
    assert not (tmp_path / "state").exists()
    with pytest.raises(KeyboardInterrupt):
        train(3, stop=True)
    train(2, stop=False)


@pytest.mark.parametrize("encoder", ["mean", "gcn", "gat", "transformer"])
def test_every_encoder_can_be_trained_and_loaded(encoder, data, index, tmp_path):
    fit_lesegr(data, index, tmp_path, training={**QUICK, "epochs": 2}, encoder=encoder, hidden=16, heads=2, layers=2, hops=2)
    retriever = LeSeGR(index, checkpoint=tmp_path)
    search = retriever.operator.operators[1]
    assert (search.model.encoder, search.model.layers, search.hops) == (encoder, 2, 2)
    assert len(retriever.retrieve("What about loom 0?")) == 10


def test_a_checkpoint_refuses_what_it_was_not_trained_for(data, index, tmp_path):
    fit_lesegr(data, index, tmp_path, training={**QUICK, "epochs": 1})
    with pytest.raises(InvalidArgumentError, match="dimension 64, this one has 16"):
        LeSeGR(GraphIndex.from_graph(data.graph(), embedding=HashEmbedding(16)), checkpoint=tmp_path)

    class Other(HashEmbedding):
        name = "another model"

    named = GraphIndex.from_graph(data.graph(), embedding=Other())
    with pytest.raises(InvalidArgumentError, match="embedding 'HashEmbedding', this one has 'another model'"):
        LeSeGR(named, checkpoint=tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"either checkpoint= or model="):
        LeSeGR(index, checkpoint=tmp_path, model=LeSeGRModel(64))
    with pytest.raises(InvalidArgumentError, match="does not exist"):
        LeSeGR(index, checkpoint=tmp_path / "nothing")
    settings = json.loads((tmp_path / "lesegr.json").read_text())
    settings["model"]["encoder"] = "transformer"
    (tmp_path / "lesegr.json").write_text(json.dumps(settings))
    with pytest.raises(InvalidArgumentError, match="not the weights and settings of LeSeGR"):
        LeSeGR(index, checkpoint=tmp_path)


def test_questions_are_needed_to_learn_and_to_stop(data, index, tmp_path):
    for split in ("train", "dev"):
        some = Dataset("some", data.nodes, data.edges, [query for query in data.queries if query.split == split], True)
        with pytest.raises(InvalidArgumentError, match="learns from both"):
            fit_lesegr(some, index, tmp_path)
