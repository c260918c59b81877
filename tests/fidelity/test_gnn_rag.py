"""GNN-RAG against its network, its answers and their paths written out, a worked example, and its training."""

import json
import random

import numpy as np
import pytest
import torch

from graph_retrievers import GNNRAG, GraphIndex, Retriever
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, MissingSignalError
from graph_retrievers.graph import Edge, Node
from graph_retrievers.learning import loop
from graph_retrievers.learning.labelled import LabelledQuery
from graph_retrievers.operators import AnswerNetwork, AnswerSearch, EntityLinking, Pipeline, VectorSearch
from graph_retrievers.systems.gnn_rag import training
from graph_retrievers.systems.gnn_rag.training import fit_answer_network, fit_gnn_rag
from graph_retrievers.systems.subgraphs import training as on_subgraphs
from graph_retrievers.systems.subgraphs.around import Subgraph
from tests.helpers import HashEmbedding
from tests.references import gnn_rag as written

AXES = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0], [0.8, -0.6]]


class Relations:
    """An embedding model of two dimensions: relations by their last figure, or their first against their direction."""

    name = "figures"

    def embed_documents(self, texts):
        return [AXES[int(text[-1]) if text[-1].isdigit() else int(text[0]) - 1 if text[0].isdigit() else 2] for text in texts]

    def embed_query(self, text):
        return [1.0, 0.0]


# "to_3" is read as "to 3", and against its direction as "3 to".
NAMES = {f"to_{number}": (AXES[number], AXES[number - 1]) for number in range(1, 5)}


def index_of(rows, vectors, **settings):
    edges = [(str(a), str(b), relation) for a, relation, b in rows]
    texts = [f"t{row}" for row in range(len(vectors))]
    return GraphIndex.from_texts(
        texts, edges=edges, vectors=vectors, metric="cosine", bm25=False, **{"embedding": Relations(), **settings}
    )


def found(index, search, question="?"):
    return Retriever(index, search, k=99, backfill=False).retrieve(question, vector=[1.0, 0.0])


def graph_of(rng, size=9):
    size = rng.randrange(1, size)
    return size, [(rng.randrange(size), rng.choice(list(NAMES)), rng.randrange(size)) for _ in range(rng.randrange(2 * size))]


def weights_of(network):
    return {name: value.tolist() for name, value in network.state_dict().items()}


def settings_of(network):
    return network.instructions, network.layers, network.rounds


def made(rng, seed):
    """A small network, whose scores are far enough apart that some nodes are left out."""
    network = AnswerNetwork(
        2, hidden=3, instructions=rng.randrange(1, 4), layers=rng.randrange(1, 4), rounds=rng.randrange(1, 4), seed=seed
    )
    with torch.no_grad():
        network.score.weight *= 8
        network.relate[0].weight *= 3
    return network


def check(seed, cases):
    rng, cut, limited, levels = random.Random(seed), 0, 0, 0
    for case in range(cases):
        size, rows = graph_of(rng)
        vectors = [rng.choice(AXES) for _ in range(size)]
        topics, hops = rng.randrange(1, 4), rng.randrange(1, 4)
        candidates, mass = rng.choice([4, 2000]), rng.choice([0.5, 0.95])
        network = made(rng, case) if rng.random() < 0.6 else None
        similarity = [vector[0] for vector in vectors]
        starts = sorted(range(size), key=lambda row: (-similarity[row], row))[:topics]
        before, read = written.around(starts, rows, hops, candidates, similarity)
        if network is None:
            scores = {node: similarity[node] for node in before}
            expected = written.ranked(scores, before)
        else:
            nodes, inside = sorted(before), [rows[row] for row in read]
            scores = written.probabilities(weights_of(network), [1.0, 0.0], NAMES, nodes, inside, starts, *settings_of(network))
            expected = written.ranked(scores, before, mass, candidates)
            cut += len(expected) < len(before)
            levels += len({round(score, 6) for score in scores.values()}) < len(scores)
        search = Pipeline(VectorSearch(topics, returned=False), AnswerSearch(network, mass=mass, hops=hops, candidates=candidates))
        hits = found(index_of(rows, vectors), search)
        assert [hit.id for hit in hits] == [str(node) for node in [*expected, *(node for node in starts if node not in expected)]]
        told = np.minimum.accumulate([scores[node] for node in expected]) if len(before) > len(starts) else []
        assert [hit.score for hit in hits[: len(told)]] == pytest.approx(told, abs=1e-5)
        for hit in hits if len(told) else ():
            path = [int(hit.id)]
            while before[path[0]] is not None:
                path.insert(0, before[path[0]])
            assert hit.path.nodes == tuple(map(str, path))
        noted = any("the subgraph was limited to" in note for note in hits.notes)
        assert noted == (len(before) < len(written.around(starts, rows, hops, 2000, similarity)[0]))
        limited += noted
    # The cases that make a difference do occur.
    assert min(cut, limited, levels) > cases / 50


def test_the_search_as_written_out():
    check(0, 60)


@pytest.mark.slow
def test_the_search_as_written_out_in_a_thousand_graphs():
    check(1, 1000)


def test_worked_example():
    # Vectors are read by their first number, which the network stretches by the root of 2; a message is the number of its relation,
    # and a node adds messages to what it begins with: the relations at it, 1.4, 0.6, 0.8 and 0. The topic 0 sends 0.6 and 0.8.
    # That makes 1.4, 1.2, 1.6 and 0 before the softmax.
    network = AnswerNetwork(2, hidden=1, instructions=1, layers=1, rounds=1)
    own = {"read.weight": [[0.5**0.5, 0.0]], "instruct.weight": [[0.0, 1.0, 0.0, 0.0]], "gather.0.weight": [[1.0, 1.0, 0.0]]}
    ones = {f"{name}.weight": [[1.0]] for name in ("asked.0", "start", "relate.0", "score")}
    with torch.no_grad():
        for name, value in network.named_parameters():
            value.copy_(torch.tensor({**own, **ones}[name]) if name in {**own, **ones} else torch.zeros_like(value))
    index = index_of([(0, "to_1", 1), (0, "to_4", 2), (1, "to_2", 3)], [AXES[0], AXES[2], AXES[2], AXES[2]])
    hits = found(index, Pipeline(VectorSearch(1, returned=False), AnswerSearch(network, mass=0.6)))
    assert [(hit.id, round(hit.score, 4), hit.path.nodes) for hit in hits] == [
        ("2", 0.3716, ("0", "2")),
        ("1", 0.2491, ("0", "1")),
        ("0", 0.2491, ("0",)),
    ]
    # 3 would have 0.0750, but 0.3716 + 0.2491 is more than 0.6.
    hits = found(index, Pipeline(VectorSearch(1, returned=False), AnswerSearch(network)))
    assert [(hit.id, round(hit.score, 4)) for hit in hits][2:] == [("3", 0.0750), ("0", 0.0750)]


def test_answers_are_those_whose_probabilities_add_up_to_the_mass_but_for_the_least_probable():
    around = Subgraph(np.arange(5), np.arange(5) == 0, np.full(5, -1), np.zeros((0, 2), np.int64), ())

    def answers(mass, candidates, *scores):
        search = AnswerSearch(AnswerNetwork(2), mass=mass, candidates=candidates)
        return search._answers(around, np.array(scores), np.ones(5, bool)).tolist()

    # 0.1 and 0.2 are 0.30000000000000004, which is no more than 0.3.
    assert answers(0.3, 100, 0.5, 0.2, 0.1, 0.1, 0.1) == [1, 2, 3]
    # With two candidates none below (1 - 0.9) / 2 is an answer, however much of the mass is left.
    assert answers(0.9, 2, 0.86, 0.06, 0.05, 0.02, 0.01) == [1, 2]


def test_the_loss_as_written_out():
    rng = random.Random(3)
    for seed in range(40):
        size, rows = graph_of(rng)
        network, topics = made(rng, seed).eval(), [0]
        gold = [node for node in range(size) if rng.random() < 0.5] or [0]
        read = torch.tensor([1.0, 0.0]), torch.tensor(list(NAMES.values()))
        kinds = torch.tensor([list(NAMES).index(name) for _, name, _ in rows], dtype=torch.int64)
        ends = torch.tensor([(a, b) for a, _, b in rows], dtype=torch.int64).view(-1, 2)
        edges = kinds, ends, torch.arange(size) == 0
        example = training._Example(
            *read, torch.arange(len(NAMES)), edges, None, torch.isin(torch.arange(size), torch.tensor(gold)), frozenset(gold)
        )
        p = written.probabilities(weights_of(network), [1.0, 0.0], NAMES, list(range(size)), rows, topics, *settings_of(network))
        # Cross entropy is the divergence and the entropy of the answers.
        assert example.loss(network).item() == pytest.approx(written.divergence(p, gold) + np.log(len(gold)), abs=1e-4)


def test_a_filter_finds_answers_among_the_nodes_it_allows():
    texts, edges, vectors = ["a", "b", "c"], [("0", "1", "to_1"), ("0", "2", "to_2")], [AXES[0], AXES[1], AXES[2]]
    index = GraphIndex.from_texts(
        texts, edges=edges, vectors=vectors, embedding=Relations(), metadatas=[{"n": n} for n in range(3)]
    )
    search = Pipeline(VectorSearch(1, returned=False), AnswerSearch(AnswerNetwork(2, hidden=3), mass=0.0))
    ids = {hit.id for hit in found(index, search)}
    for n in (1, 2):
        hits = Retriever(index, search, k=9, backfill=False).retrieve("?", vector=[1.0, 0.0], filter={"n": n}, seed_filter={})
        assert [hit.id for hit in hits] == [str(n)]
    # Without a filter there is one answer: the sum of the first is above 0.
    assert len(ids) == 2 and "0" in ids


def test_without_edges_the_topics_remain():
    for network in (None, AnswerNetwork(2)):
        search = Pipeline(VectorSearch(1, returned=False), AnswerSearch(network))
        hits = found(index_of([(0, "to_1", 0)], AXES[:2]), search)
        assert [hit.id for hit in hits] == ["0"] and not hits.notes


def test_what_does_not_fit_is_refused():
    index = index_of([(0, "to_1", 1)], AXES[:2])
    with pytest.raises(DimensionMismatchError, match="is for vectors of 3 dimensions, got 2"):
        found(index, Pipeline(VectorSearch(1), AnswerSearch(AnswerNetwork(3))))
    with pytest.raises(MissingSignalError, match="the index has no embedding model"):
        found(index_of([(0, "to_1", 1)], AXES[:2], embedding=None), Pipeline(VectorSearch(1), AnswerSearch(AnswerNetwork(2))))
    broken = AnswerNetwork(2)
    torch.nn.init.constant_(broken.score.bias, float("nan"))
    with pytest.raises(InvalidArgumentError, match="scores that are NaN or infinite"):
        found(index, Pipeline(VectorSearch(1), AnswerSearch(broken)))
    with pytest.raises(InvalidArgumentError, match="expected an AnswerNetwork"):
        AnswerSearch(torch.nn.Linear(1, 1))
    with pytest.raises(InvalidArgumentError, match="mass must lie in"):
        AnswerSearch(mass=1.5)


# -- training ----------------------------------------------------------------------------------------------------------


FIRST = ["Otto", "Edda", "Runa", "Lars", "Maud", "Nils"]
LAST = ["Lindgren", "Falk", "Moberg", "Strand"]
WAYS = ("works for", "studied with")


def dataset():
    """Questions name a person and how they know another; the answer is where that one lives, two relations away."""
    nodes, edges, queries = [], [], []
    for number in range(24):
        name = f"{FIRST[number % 6]} {LAST[number // 6]}"
        nodes.append(Node(f"p{number}", "", name))
        for way, relation in enumerate(WAYS):
            there = f"{number}-{way}"
            nodes += [Node(f"o{there}", "", f"Person {there}"), Node(f"t{there}", "", f"Town {there}")]
            edges += [Edge(f"p{number}", f"o{there}", relation.replace(" ", "_")), Edge(f"o{there}", f"t{there}", "lives_in")]
            split = "dev" if number % 4 == 3 else "train"
            queries.append(Query(f"q{there}", f"{name} {relation} who lives where?", (f"t{there}",), split=split))
    return Dataset("towns", nodes, edges, queries, True)


@pytest.fixture(scope="module")
def data():
    return dataset()


@pytest.fixture(scope="module")
def index(data):
    return GraphIndex.from_graph(data.graph(), embedding=HashEmbedding())


QUICK = {"epochs": 3, "learning_rate": 0.003, "k": 2}


@pytest.mark.slow
def test_it_learns_which_relations_lead_to_answers(data, index, tmp_path):
    told = fit_gnn_rag(data, index, tmp_path, instructions=2, training={**QUICK, "epochs": 12, "patience": 12})
    assert told["hit@1_on_dev"] == told["recall@2_on_dev"] == told["quality_on_dev"] == 1.0
    retriever, before = (Retriever(index, GNNRAG(checkpoint=given), backfill=False) for given in (tmp_path, None))
    held = [query for query in data.queries if query.split == "dev"]
    for query in held:
        hit = retriever.retrieve(query.text, 3)[0]
        way = WAYS[int(query.gold[0][-1])].replace(" ", "_")
        assert hit.id == query.gold[0] and f"-[{way}]->" in hit.path.text and "-[lives_in]->" in hit.path.text
    untrained = [before.retrieve(query.text, 1) for query in held]
    # On questions that were not learnt from, as many are right by chance.
    assert sum(hits[0].id in query.gold for hits, query in zip(untrained, held, strict=True)) < len(held) / 2
    assert "the network is not trained" in untrained[0].notes[0] and not retriever.retrieve(held[0].text).notes
    batch = retriever.retrieve_batch([query.text for query in data.queries], 9)
    alone = [retriever.retrieve(query.text, 9) for query in data.queries]
    assert [[(hit.id, hit.score) for hit in hits] for hits in batch] == [[(hit.id, hit.score) for hit in hits] for hits in alone]
    other = GraphIndex.from_graph(data.graph(), embedding=Relations())
    with pytest.raises(InvalidArgumentError, match=r"was trained with vectors of .*, these are of 'figures'"):
        Retriever(other, GNNRAG(checkpoint=tmp_path))


@pytest.mark.slow
def test_one_seed_gives_one_result_also_after_an_interruption(data, index, tmp_path, monkeypatch):
    weights, small = [], {"hidden": 8, "instructions": 1, "layers": 2}
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        fit_gnn_rag(data, index, tmp_path / name, seed=seed, training=QUICK, **small)
        weights.append((tmp_path / name / "gnn-rag.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]
    real, calls = loop.save_state, []

    def stopped(*arguments):
        real(*arguments)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save_state", stopped)
    with pytest.raises(KeyboardInterrupt):
        fit_gnn_rag(data, index, tmp_path / "stopped", training=QUICK, **small)
    monkeypatch.setattr(loop, "save_state", real)
    for options in ({"hops": 2}, {"rounds": 1}, {"training": {**QUICK, "clip": 2.0}}, {"training": {**QUICK, "batch_size": 2}}):
        with pytest.raises(InvalidArgumentError, match="holds another training"):
            fit_gnn_rag(data, index, tmp_path / "stopped", **{"training": QUICK, **small, **options})
    fit_gnn_rag(data, index, tmp_path / "stopped", training=QUICK, **small)
    assert (tmp_path / "stopped" / "gnn-rag.safetensors").read_bytes() == weights[0]
    assert not (tmp_path / "stopped" / "under-way").exists()
    settings = json.loads((tmp_path / "a" / "gnn-rag.json").read_text())
    published = {"dimension": 64, "hidden": 50, "instructions": 3, "layers": 3, "rounds": 2, "dropout": 0.2}
    assert settings["network"] == {**published, **small} and AnswerNetwork(64).config() == published
    assert len(settings["history"]["losses"]) == 3 and settings["hops"] == 3 and settings["candidates"] == 2000


def test_what_cannot_be_learnt_from_is_refused(index):
    row = index.graph.row
    near, far = (LabelledQuery("Otto Lindgren works for who lives where?", (row(gold),)) for gold in ("t0-0", "t1-0"))
    search = AnswerSearch(AnswerNetwork(index.dense.dimension, hidden=2))
    with pytest.raises(InvalidArgumentError, match="No training question has a relevant node within 3 edges"):
        fit_answer_network(index, [far], [near], search, EntityLinking())
    with pytest.raises(InvalidArgumentError, match="There is no dev question"):
        fit_answer_network(index, [near], [], search, EntityLinking())
    with pytest.raises(InvalidArgumentError, match="has no network to train"):
        fit_answer_network(index, [near], [near], AnswerSearch(), EntityLinking())
    with pytest.raises(InvalidArgumentError, match="clip must be a number above 0"):
        fit_answer_network(index, [near], [near], search, EntityLinking(), clip=0)
    # A question without topics, or whose answer is too far, is measured and not learnt from.
    history = fit_answer_network(index, [near, far], [near, far], search, EntityLinking(budget=0), epochs=1)
    assert history.measures["recall@10"][0] <= 0.5
    nothing = LabelledQuery("Who else?", (row("t0-0"),))
    assert fit_answer_network(index, [near], [nothing], search, EntityLinking(budget=0), epochs=1).scores == [0.0]


def test_measures_are_of_the_nodes_that_are_no_topics_and_of_what_k_can_hold():
    around = Subgraph(np.arange(4), np.arange(4) == 0, np.full(4, -1), np.zeros((0, 2), np.int64), ())
    read = torch.zeros(2), torch.zeros(1, 2, 2), torch.zeros(1, dtype=torch.int64)
    example = training._Example(*read, (), around, torch.arange(4) > 0, frozenset({1, 2, 3}))

    def network(*given):
        return torch.tensor([9.0, 3.0, 2.0, 1.0])

    # The topic, which is the most probable, takes no place; two places hold two of the three.
    assert example.hit_and_recall(network, 2) == (1.0, 1.0)
    assert example.hit_and_recall(network, 4) == (1.0, 1.0)


def test_steps_are_of_some_questions_and_gradients_are_clipped(data, index, monkeypatch):
    row, sizes, lengths = index.graph.row, [], []
    train = [LabelledQuery(query.text, (row(query.gold[0]),)) for query in data.queries if query.split == "train"]
    real = torch.nn.utils.clip_grad_norm_

    def clipped(parameters, length):
        parameters = list(parameters)
        real(parameters, length)
        lengths.append(float(torch.cat([each.grad.flatten() for each in parameters if each.grad is not None]).norm()))

    def given(module, batches, loss, *arguments, **options):
        def measured(batch):
            sizes.append(len(batch))
            value = loss(batch)
            assert value.item() == pytest.approx(sum(each.loss(module).item() for each in batch) / len(batch), rel=1e-5)
            return value

        return loop.fit(module, batches, measured, *arguments, **options)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clipped)
    monkeypatch.setattr(on_subgraphs, "fit", given)
    search = AnswerSearch(AnswerNetwork(index.dense.dimension, dropout=0.0))
    fit_answer_network(index, train, train[:2], search, EntityLinking(), epochs=1, clip=0.01)
    assert sizes == [8, 8, 8, 8, 4] and max(lengths) == pytest.approx(0.01, rel=1e-3)
