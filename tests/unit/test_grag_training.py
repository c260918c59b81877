"""Training G-RAG: it learns from what documents share, the same way for one seed, and checkpoints fit what they are used for."""

import json

import pytest
import torch

from graph_retrievers import GRAG, GraphIndex, Retriever
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph import Node
from graph_retrievers.learning import loop
from graph_retrievers.learning.labelled import LabelledQuery
from graph_retrievers.learning.loss import listwise_cross_entropy, pairwise_hinge
from graph_retrievers.operators import DocumentGraphNetwork, DocumentGraphRerank, EvidenceNetwork, VectorSearch
from graph_retrievers.signals.meaning import MeaningGraph
from graph_retrievers.signals.meaning_cache import MeaningCache
from graph_retrievers.systems.grag import training
from graph_retrievers.systems.grag.retriever import grag_reranker
from graph_retrievers.systems.grag.training import fit_document_graph, fit_grag
from langchain_graph_retrievers import GRAGCompressor
from llama_graph_retrievers import GRAGPostprocessor
from tests.helpers import HashEmbedding

PEOPLE = ["ada", "ben", "cy", "dot", "eve", "fay", "gus", "hal", "ida", "jon", "kay", "lee"]


def words(text):
    concepts = list(dict.fromkeys(word.strip("?:.,") for word in text.lower().split()))
    return MeaningGraph.of(concepts, [(row, "next", row + 1) for row in range(len(concepts) - 1)])


def dataset():
    """Questions name a person; the answer stands on the page of the town that the person's page mentions."""
    nodes, queries = [], []
    for number, person in enumerate(PEOPLE):
        nodes += [
            Node(f"p{number}", f"{person} lives near town{number} since youth"),
            Node(f"t{number}", f"town{number} has a river and bridge"),
            Node(f"n{number}", f"weather{number} is often grey"),
        ]
        split = "dev" if number % 4 == 3 else "train"
        queries.append(Query(f"q{number}", f"river near {person}?", (f"p{number}", f"t{number}"), split=split))
    return Dataset("towns", nodes, [], queries, True)


def index_of(data, width=4):
    # Vectors say nothing about the answers.
    generator = torch.Generator().manual_seed(0)
    embed = lambda texts: torch.ones(len(texts), width)  # noqa: E731
    return GraphIndex.from_graph(data.graph(), embedding=embed, vectors=torch.randn(len(data.nodes), width, generator=generator))


def fitted(seed=0, loss="hinge", network=None, **options):
    data = dataset()
    index = index_of(data)
    row = index.graph.row
    train, dev = ([LabelledQuery(q.text, tuple(map(row, q.gold))) for q in data.queries if q.split == s] for s in ("train", "dev"))
    torch.manual_seed(seed)
    network = EvidenceNetwork(hidden=8) if network is None else network
    reranker = DocumentGraphRerank(network, parser=words)
    options = {"epochs": 60, "batch_size": 3, "k": 2, "learning_rate": 0.05, **options}
    return network, fit_document_graph(index, train, dev, reranker, VectorSearch(36), loss=loss, seed=seed, **options)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "cross-entropy"])
def test_the_graph_finds_what_no_document_says_alone(loss):
    _, history = fitted(loss=loss)
    _, alone = fitted(loss=loss, network=EvidenceNetwork(hidden=8, graph=False))
    # Both relevant pages first: MRR 3 / 4, both among the first two.
    assert history.best_score == pytest.approx((0.75 + 1) / 2)
    assert alone.best_score < 0.7


def test_the_published_network_learns_too():
    torch.manual_seed(0)
    network = DocumentGraphNetwork(4, paths=False, hidden=8)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    _, history = fitted(network=network, epochs=3)
    assert history.losses[-1] < history.losses[0]
    assert any(not torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_one_seed_gives_one_result_and_another_seed_another():
    first, second, other = (fitted(seed, epochs=4)[0].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_losses_worked_by_hand():
    scores, relevant = torch.tensor([2.0, 0.5, 1.0]), torch.tensor([False, True, True])
    assert pairwise_hinge(scores, relevant).item() == pytest.approx(((1 + 1.5) + (1 + 1.0)) / 2)
    assert pairwise_hinge(torch.tensor([5.0, 0.0]), torch.tensor([True, False])).item() == 0
    assert pairwise_hinge(scores, torch.zeros(3, dtype=torch.bool)).item() == 0
    assert pairwise_hinge(scores, relevant.long()).item() == pairwise_hinge(scores, relevant).item()
    shares = scores.softmax(0)
    assert listwise_cross_entropy(scores, relevant).item() == pytest.approx(-(shares[1].log() + shares[2].log()).item(), rel=1e-5)
    assert listwise_cross_entropy(scores, torch.zeros(3, dtype=torch.bool)).item() == 0


def test_a_checkpoint_gives_the_trained_network_back(tmp_path):
    data = dataset()
    index = index_of(data)
    training = {"epochs": 5, "batch_size": 3}
    told = fit_grag(data, index, tmp_path, first="vector", parser=NAMED, training=training)
    assert told["epochs"] == 5 and not (tmp_path / "under-way").exists()
    retriever = Retriever(index, GRAG(checkpoint=tmp_path, parser=NAMED), k=5)
    network = retriever.operator.operators[-1].network
    assert retriever.operator.formula() == "O_vs -> O_gm", "the first search of the checkpoint"
    again = Retriever(index, GRAG(network=network, first="vector", parser=NAMED), k=5)
    assert [h.score for h in retriever.retrieve("river near ada?")] == [h.score for h in again.retrieve("river near ada?")]
    with pytest.raises(InvalidArgumentError, match="was trained with the parser 'named'"):
        Retriever(index, GRAG(checkpoint=tmp_path, parser=words))
    with pytest.raises(InvalidArgumentError, match="either checkpoint= or network="):
        grag_reranker(tmp_path, network, parser=NAMED)
    nameless = tmp_path / "nameless"
    fit_grag(data, index, nameless, first=VectorSearch(9), parser=NAMED, training={"epochs": 1})
    with pytest.raises(InvalidArgumentError, match="pass it as first="):
        Retriever(index, GRAG(checkpoint=nameless, parser=NAMED))
    assert (
        Retriever(index, GRAG(checkpoint=nameless, parser=NAMED, first=VectorSearch(9))).operator.operators[0].operators[0].k == 9
    )
    config = json.loads((tmp_path / "g-rag.json").read_text())
    assert config["depth"] == 100
    with pytest.raises(InvalidArgumentError, match="checkpoint is 5; expected str or Path"):
        grag_reranker(5)
    for broken in (
        {"kind": ["x"]},
        {**config, "network": 3},
        {**config, "network": {"kind": "x"}},
        {**config, "network": config["network"] | {"hidden": 9}},
    ):
        (tmp_path / "g-rag.json").write_text(json.dumps(broken))
        with pytest.raises(InvalidArgumentError, match="G-RAG"):
            grag_reranker(tmp_path, parser=NAMED)


class _Named:
    name = "named"

    def parse(self, texts):
        return [words(text) for text in texts]


NAMED = _Named()


def test_a_published_network_refuses_vectors_of_another_model(tmp_path):
    class Model:
        name = "first"

        def embed_documents(self, texts):
            return [[1.0, float(len(text) % 5), 0.0, 0.0] for text in texts]

        def embed_query(self, text):
            return self.embed_documents([text])[0]

    data, model = dataset(), Model()
    index = GraphIndex.from_graph(data.graph(), embedding=model)
    network = DocumentGraphNetwork(4)
    fit_grag(data, index, tmp_path, first="vector", parser=NAMED, network=network, training={"epochs": 1})
    Retriever(index, GRAG(checkpoint=tmp_path, parser=NAMED))
    model.name = "second"
    other = GraphIndex.from_graph(data.graph(), embedding=model)
    with pytest.raises(InvalidArgumentError, match="trained with vectors of 'first'"):
        Retriever(other, GRAG(checkpoint=tmp_path, parser=NAMED))


def test_an_interrupted_training_goes_on(tmp_path):
    whole = fitted(epochs=6)[0].state_dict()
    fitted(epochs=3, resume=tmp_path)
    rest = fitted(epochs=6, resume=tmp_path)[0].state_dict()
    assert all(torch.equal(whole[name], rest[name]) for name in whole)
    with pytest.raises(InvalidArgumentError, match="another training"):
        fitted(epochs=6, resume=tmp_path, loss="cross-entropy")


def test_what_cannot_be_learnt_from(tmp_path):
    data = dataset()
    index = index_of(data)
    reranker, first = DocumentGraphRerank(parser=words), VectorSearch(36)
    good = [LabelledQuery("river near ada?", (0,))]
    with pytest.raises(InvalidArgumentError, match="no relevant node"):
        LabelledQuery("river", ())
    with pytest.raises(InvalidArgumentError, match="no dev question"):
        fit_document_graph(index, good, [], reranker, first)
    with pytest.raises(InvalidArgumentError, match="No training question"):
        fit_document_graph(index, [LabelledQuery("river", (999,))], good, reranker, first)
    with pytest.raises(InvalidArgumentError, match="no meaning graph for any document"):
        silent = DocumentGraphRerank(parser=lambda text: MeaningGraph())
        fit_document_graph(index, good, good, silent, first)
    with pytest.raises(InvalidArgumentError, match="loss"):
        fit_document_graph(index, good, good, reranker, first, loss="mse")
    empty = Dataset("towns", data.nodes, [], [q for q in data.queries if q.split == "train"], True)
    with pytest.raises(InvalidArgumentError, match="9 train and 0 dev queries; G-RAG learns from both"):
        fit_grag(empty, index, tmp_path / "unused")


def test_documents_are_parsed_once_for_all_questions():
    seen = []

    def parser(text):
        seen.append(text)
        return words(text)

    data = dataset()
    index = index_of(data)
    row = index.graph.row
    examples = [LabelledQuery(q.text, tuple(map(row, q.gold))) for q in data.queries]
    reranker = DocumentGraphRerank(EvidenceNetwork(hidden=4), parser=MeaningCache(parser))
    fit_document_graph(index, examples, examples, reranker, VectorSearch(36), epochs=1)
    assert len(seen) == len(set(seen)) == 36 + 12


def test_a_training_has_the_documented_settings(monkeypatch):
    told = {}

    def spy(module, batches, loss, evaluate, **options):
        told.update(options, batches=batches, loss=loss)
        return loop.History()

    monkeypatch.setattr(training, "fit", spy)
    data = dataset()
    index = index_of(data)
    row = index.graph.row
    examples = [training.LabelledQuery(q.text, tuple(map(row, q.gold))) for q in data.queries]
    network = EvidenceNetwork(dropout=0.0)
    reranker = DocumentGraphRerank(network, parser=words)
    fit_document_graph(index, examples, examples[:2], reranker, VectorSearch(36))
    assert [told[name] for name in ("learning_rate", "weight_decay", "patience", "epochs")] == [1.5e-3, 0.01, 20, 150]
    about = told["about"]
    assert (about["loss"], about["together"], about["batch_size"], about["depth"]) == ("hinge", False, 16, 100)
    orders = [[tuple(r.tolist()) for batch in told["batches"](torch.Generator().manual_seed(s)) for _, r in batch] for s in (0, 1)]
    assert len(orders[0]) == 12 and sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]
    (batch,) = [b for b in told["batches"](torch.Generator()) if len(b) == 12]
    one_by_one = [pairwise_hinge(network(*inputs.arguments), relevant) for inputs, relevant in batch]
    assert told["loss"](batch).item() == pytest.approx(torch.stack(one_by_one).mean().item(), rel=1e-5)


def test_the_paper_trains_by_steps_with_a_warm_up(monkeypatch, tmp_path):
    told = {}

    def spy(module, batches, loss, evaluate, **options):
        told.update(options, batches=batches)
        return loop.History([0.0], [0.0], 1, 0.0, {"mrr": [0.0], "mhits@10": [0.0]})

    monkeypatch.setattr(training, "fit", spy)
    data, seen = dataset(), []

    def parser(text):
        seen.append(text)
        return words(text)

    index = index_of(data)
    fit_grag(data, index, tmp_path, paper=True, first=VectorSearch(36), parser=parser)
    assert (told["learning_rate"], told["weight_decay"], told["warm_up"]) == (1e-4, 0.01, 1000)
    # 50,000 steps, of which each 10,000th is evaluated; none ends the training.
    assert told["epochs"] == told["patience"] == 5
    about = told["about"]
    assert (about["batch_size"], about["steps"], about["evaluate_every"], about["loss"]) == (5, 50_000, 10_000, "hinge")
    drawn = list(told["batches"](torch.Generator().manual_seed(0)))
    # Nine questions in batches of five and four, again and again.
    assert len(drawn) == 10_000 and [len(batch) for batch in drawn[:4]] == [5, 4, 5, 4]
    orders = [[id(example[0]) for batch in drawn[start : start + 2] for example in batch] for start in (0, 2)]
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]
    # Question and document are one text.
    assert about["together"] is True and "question:river near ada?town0 has a river and bridge" in seen
    assert json.loads((tmp_path / "g-rag.json").read_text())["together"] is True
    fit_grag(data, index, tmp_path / "apart", paper=True, together=False, parser=words, training={"steps": 10_000})
    assert (told["about"]["together"], told["epochs"]) == (False, 1)
    fit_grag(data, index, tmp_path / "own", network=EvidenceNetwork(hidden=4), paper=True, parser=words)
    assert told["about"]["together"] is False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 15, "evaluate_every": 10}, "steps is 15, which evaluate_every=10 does not divide"),
        ({"steps": 0}, "steps must be"),
        ({"steps": 10, "evaluate_every": 0}, "evaluate_every must be"),
        ({"steps": 10, "evaluate_every": 5, "epochs": 3}, "Pass either steps= or epochs="),
        ({"warm_up": -1, "epochs": 1}, "warm_up must be"),
    ],
)
def test_steps_that_no_training_can_take(options, message):
    data = dataset()
    index = index_of(data)
    good = [LabelledQuery("river near ada?", (0,))]
    with pytest.raises(InvalidArgumentError, match=message):
        fit_document_graph(index, good, good, DocumentGraphRerank(parser=words), VectorSearch(36), **options)


def test_a_training_of_steps_goes_on_after_an_interruption(tmp_path):
    def stepped(**more):
        data = dataset()
        index, examples = index_of(data), {"train": [], "dev": []}
        for query in data.queries:
            examples[query.split].append(LabelledQuery(query.text, tuple(map(index.graph.row, query.gold))))
        torch.manual_seed(0)
        reranker = DocumentGraphRerank(EvidenceNetwork(hidden=8), parser=words)
        options = {"steps": 30, "evaluate_every": 10, "warm_up": 25, "batch_size": 3, "k": 2, "learning_rate": 0.05, **more}
        history = fit_document_graph(index, examples["train"], examples["dev"], reranker, VectorSearch(36), **options)
        return reranker.network.state_dict(), history

    whole, history = stepped()
    assert len(history.losses) == 3
    original = loop.save_state

    class Stop(Exception):
        pass

    def save(*given):
        original(*given)
        raise Stop

    loop.save_state = save
    try:
        with pytest.raises(Stop):
            stepped(resume=tmp_path)
    finally:
        loop.save_state = original
    rest, _ = stepped(resume=tmp_path)
    assert all(torch.equal(whole[name], rest[name]) for name in whole)


def test_ties_on_dev_go_to_the_first():
    scores = torch.zeros(100)
    for place, expected in ((0, (1.0, 1.0)), (50, (1 / 51, 0.0))):
        assert training._quality(scores, torch.arange(100) == place, 10) == pytest.approx(expected)


def test_dev_questions_for_which_nothing_relevant_is_found_count_as_none():
    data = dataset()
    index = index_of(data)
    row = index.graph.row
    train, dev = (
        [training.LabelledQuery(q.text, tuple(map(row, q.gold))) for q in data.queries if q.split == s] for s in ("train", "dev")
    )
    lost = [training.LabelledQuery(example.text, (10**6,)) for example in dev]
    options = {"epochs": 1, "learning_rate": 1e-9}
    whole, half = (
        fit_document_graph(index, train, some, DocumentGraphRerank(parser=words), VectorSearch(36), **options).best_score
        for some in (dev, dev + lost)
    )
    assert half == pytest.approx(whole / 2)


def test_the_seed_makes_the_network_too(tmp_path):
    data = dataset()
    index = index_of(data)
    made = []
    for number, seed in enumerate((0, 0, 1)):
        torch.manual_seed(100 + number)
        folder = tmp_path / str(number)
        fit_grag(data, index, folder, first="vector", parser=NAMED, seed=seed, training={"epochs": 1})
        made.append(Retriever(index, GRAG(checkpoint=folder, parser=NAMED)).operator.operators[-1].network.state_dict())
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])
    assert any(not torch.equal(made[0][name], made[2][name]) for name in made[0])


def test_a_trained_evidence_network_serves_vectors_of_any_model(tmp_path):
    class Model(HashEmbedding):
        def __init__(self, name):
            super().__init__(4)
            self.name = name

    data = dataset()
    indexes = [GraphIndex.from_graph(data.graph(), embedding=Model(name)) for name in ("a", "b")]
    fit_grag(data, indexes[0], tmp_path / "e", first="vector", parser=NAMED, training={"epochs": 1})
    assert len(Retriever(indexes[1], GRAG(checkpoint=tmp_path / "e", parser=NAMED), k=3).retrieve("river near ada?")) == 3
    network = DocumentGraphNetwork(4)
    fit_grag(data, indexes[0], tmp_path / "p", first="vector", depth=7, parser=NAMED, network=network, training={"epochs": 1})
    assert GRAGCompressor(checkpoint=tmp_path / "p", embedding=Model("a"), parser=NAMED)._reranker.depth == 7
    given = {"checkpoint": tmp_path / "p", "parser": NAMED}
    with pytest.raises(InvalidArgumentError, match="trained with vectors of 'a', these are of 'b'"):
        GRAGCompressor(embedding=Model("b"), **given)
    with pytest.raises(InvalidArgumentError, match="trained with vectors of 'a', these are of 'b'"):
        GRAGPostprocessor(embed_model=Model("b"), **given)
    assert Retriever(indexes[0], GRAG(**given)).operator.operators[-1].depth == 7


def test_losses_have_gradients_without_a_pair():
    scores = torch.zeros(2, requires_grad=True)
    pairwise_hinge(scores, torch.zeros(2, dtype=torch.bool)).backward()
    assert scores.grad.tolist() == [0.0, 0.0]


def test_fitting_stops_where_nothing_gets_better():
    _, history = fitted(epochs=50, patience=2, learning_rate=1e-9)
    assert len(history.losses) == 3
