"""SubgraphRAG against its parts written out, a worked example, and its training."""

import random

import numpy as np
import pytest
import torch

from graph_retrievers import GraphIndex, Retriever, SubgraphRAG
from graph_retrievers.datasets import Dataset, Query
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError
from graph_retrievers.graph import Edge, Node
from graph_retrievers.learning import loop
from graph_retrievers.learning.labelled import LabelledQuery
from graph_retrievers.operators import EntityLinking, Pipeline, TripleScorer, TripleSearch, VectorSearch
from graph_retrievers.systems.subgraph_rag.model import distance_encoding
from graph_retrievers.systems.subgraph_rag.training import fit_subgraph_rag, fit_triple_scorer, on_shortest_paths
from graph_retrievers.systems.subgraphs.around import Subgraph
from tests.helpers import HashEmbedding
from tests.references import subgraph_rag as written

AXES = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0], [0.8, -0.6]]


class Relations:
    """An embedding model of two dimensions: relations by their last figure, and questions along the first axis."""

    name = "figures"

    def embed_documents(self, texts):
        return [AXES[int(text[-1]) % 5 if text[-1].isdigit() else 2] for text in texts]

    def embed_query(self, text):
        return [1.0, 0.0]


def index_of(rows, vectors, relations=None, **settings):
    relations = relations or [""] * len(rows)
    edges = [(str(a), str(b), relation) for (a, b), relation in zip(rows, relations, strict=True)]
    texts = [f"t{row}" for row in range(len(vectors))]
    return GraphIndex.from_texts(texts, edges=edges, vectors=vectors, metric="cosine", bm25=False, **settings)


def found(index, search, question="?"):
    return Retriever(index, search, k=99, backfill=False).retrieve(question, vector=[1.0, 0.0])


def graph_of(rng):
    size = rng.randrange(1, 12)
    return size, [(rng.randrange(size), rng.randrange(size)) for _ in range(rng.randrange(2 * size))]


def check(seed, cases):
    rng = random.Random(seed)
    for case in range(cases):
        size, rows = graph_of(rng)
        vectors, relations = [rng.choice(AXES) for _ in range(size)], [f"r{rng.randrange(5)}" for _ in rows]
        topics, hops, triples = rng.randrange(1, 4), rng.randrange(1, 4), rng.randrange(1, 9)
        network = TripleScorer(2, rounds=rng.randrange(1, 4), hidden=3, seed=case) if rng.random() < 0.5 else None
        starts = sorted(range(size), key=lambda row: (-vectors[row][0], row))[:topics]
        near = written.around(starts, rows, hops)
        inside = [rows[row] for row in near]
        cosines = [AXES[int(relations[row][1])] for row in near]
        if network is None:
            scores = [vectors[a][0] + own[0] + vectors[b][0] for (a, b), own in zip(inside, cosines, strict=True)]
        else:
            encoding = torch.tensor(written.distances(starts, inside, size, network.rounds))
            located = torch.cat([torch.tensor(vectors), encoding], 1)
            read = [
                torch.cat([torch.tensor([1.0, 0.0]), located[a], torch.tensor(own), located[b]])
                for (a, b), own in zip(inside, cosines, strict=True)
            ]
            scores = [network.layers(each).sigmoid().item() for each in read]
        expected = written.ranked(scores, inside, triples)
        search = Pipeline(VectorSearch(topics, returned=False), TripleSearch(network, triples=triples, hops=hops))
        hits = found(index_of(rows, vectors, relations, embedding=Relations()), search)
        assert [hit.id for hit in hits[: len(expected)]] == [str(node) for node, _ in expected]
        assert [hit.score for hit in hits[: len(expected)]] == pytest.approx([score for _, score in expected], abs=1e-5)
        assert [hit.id for hit in hits[len(expected) :]] == [str(node) for node in starts if node not in dict(expected)]
        reached = written.hops_from(starts, rows)
        assert all(len(hit.path.nodes) == reached[int(hit.id)] + 1 and int(hit.path.nodes[0]) in starts for hit in hits)


def test_the_search_as_written_out():
    check(0, 60)


@pytest.mark.slow
def test_the_search_as_written_out_in_a_thousand_graphs():
    check(1, 1000)


def test_distances_and_labels_as_written_out():
    rng = random.Random(2)
    for _ in range(300):
        size, rows = graph_of(rng)
        topics = {node for node in range(size) if rng.random() < 0.3}
        gold = [node for node in range(size) if rng.random() < 0.3]
        ends, mask = np.array(rows, np.int64).reshape(-1, 2), np.isin(np.arange(size), sorted(topics))
        told = distance_encoding(torch.from_numpy(mask), torch.from_numpy(ends), 3)
        assert told.tolist() == [pytest.approx(each) for each in written.distances(topics, rows, size, 3)]
        around = Subgraph(np.arange(size), mask, np.full(size, -1), ends, ("",) * len(rows))
        assert on_shortest_paths(around, gold).tolist() == written.labels(topics, gold, rows)


def test_worked_example():
    # Node 0 is the topic. By cosines 0-1 scores 1 + 0.6, 0-2 scores 1 + 0, and 1-3 scores 0.6 - 1: two triples are kept.
    index = index_of([(0, 1), (0, 2), (1, 3)], [AXES[0], AXES[1], AXES[2], AXES[3]])
    hits = found(index, Pipeline(VectorSearch(1, returned=False), TripleSearch(triples=2)))
    assert [(hit.id, round(hit.score, 2), hit.path.nodes) for hit in hits] == [
        ("0", 1.6, ("0",)),
        ("1", 1.6, ("0", "1")),
        ("2", 1.0, ("0", "2")),
    ]


def test_of_a_hub_the_most_similar_neighbours_are_scored():
    index = index_of([(0, row) for row in range(1, 5)], [AXES[0], AXES[3], AXES[2], AXES[1], AXES[4]])
    search = Pipeline(VectorSearch(1, returned=False), TripleSearch(candidates=3))
    hits = found(index, search)
    assert [hit.id for hit in hits] == ["0", "4", "3"] and "the subgraph was limited to 3 nodes" in hits.notes[0]
    # No node is left out, and no note says so.
    search = Pipeline(VectorSearch(1, returned=False), TripleSearch(candidates=5))
    assert len(found(index, search)) == 5 and not found(index, search).notes


def test_relations_are_read_as_words_and_links_without_a_name_as_links():
    asked = []

    class Recording(Relations):
        def embed_documents(self, texts):
            asked.extend(texts)
            return super().embed_documents(texts)

    search = Pipeline(VectorSearch(1, returned=False), TripleSearch())
    found(index_of([(0, 1), (0, 2)], AXES[:3], ["was_born_in", ""], embedding=Recording()), search)
    assert sorted(asked) == ["is linked to", "was born in"]


def test_without_triples_the_topics_remain():
    search = Pipeline(VectorSearch(1, returned=False), TripleSearch())
    assert [hit.id for hit in found(index_of([], AXES[:2]), search)] == ["0"]


def test_a_network_for_other_vectors_or_with_broken_weights_is_refused():
    index = index_of([(0, 1)], AXES[:2])
    with pytest.raises(DimensionMismatchError, match="is for vectors of 3 dimensions, got 2"):
        found(index, Pipeline(VectorSearch(1), TripleSearch(TripleScorer(3))))
    broken = TripleScorer(2)
    torch.nn.init.constant_(broken.layers[2].bias, float("nan"))
    with pytest.raises(InvalidArgumentError, match="scores that are NaN or infinite"):
        found(index, Pipeline(VectorSearch(1), TripleSearch(broken)))
    with pytest.raises(InvalidArgumentError, match="expected a TripleScorer"):
        TripleSearch(torch.nn.Linear(1, 1))


# -- training ----------------------------------------------------------------------------------------------------------


FIRST = ["Otto", "Edda", "Runa", "Lars", "Maud", "Nils"]
LAST = ["Lindgren", "Falk", "Moberg", "Strand"]


def dataset():
    """Questions name a person; the text that answers is behind "answers", another one behind "mentions"."""
    nodes, edges, queries = [], [], []
    for number in range(24):
        name = f"{FIRST[number % 6]} {LAST[number // 6]}"
        nodes += [Node(f"p{number}", "", name), Node(f"a{number}", "", f"Grey{number}"), Node(f"x{number}", "", f"Red{number}")]
        edges += [Edge(f"p{number}", f"x{number}", "mentions"), Edge(f"p{number}", f"a{number}", "answers")]
        split = "dev" if number % 4 == 3 else "train"
        queries.append(Query(f"q{number}", f"What does {name} say?", (f"a{number}",), split=split))
    return Dataset("persons", nodes, edges, queries, True)


@pytest.fixture(scope="module")
def data():
    return dataset()


@pytest.fixture(scope="module")
def index(data):
    return GraphIndex.from_graph(data.graph(), embedding=HashEmbedding())


QUICK = {"epochs": 5, "learning_rate": 0.01, "k": 2}


def test_it_learns_which_relation_answers(data, index, tmp_path):
    told = fit_subgraph_rag(data, index, tmp_path, training={**QUICK, "epochs": 12})
    assert told["quality_on_dev"] == 1.0
    retriever = Retriever(index, SubgraphRAG(checkpoint=tmp_path), backfill=False)
    for query in data.queries:
        if query.split == "dev":
            hits = retriever.retrieve(query.text, 2)
            assert {hit.id for hit in hits} == {*query.gold, "p" + query.gold[0][1:]}
            assert not hits.notes and "answers" in next(hit for hit in hits if hit.id in query.gold).path.text
    batch = retriever.retrieve_batch([query.text for query in data.queries], 2)
    alone = [retriever.retrieve(query.text, 2) for query in data.queries]
    assert [[(hit.id, hit.score) for hit in hits] for hits in batch] == [[(hit.id, hit.score) for hit in hits] for hits in alone]
    other = GraphIndex.from_graph(data.graph(), embedding=Relations())
    with pytest.raises(InvalidArgumentError, match=r"was trained with vectors of .*, these are of 'figures'"):
        Retriever(other, SubgraphRAG(checkpoint=tmp_path))


def test_one_seed_gives_one_result_also_after_an_interruption(data, index, tmp_path, monkeypatch):
    weights = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        fit_subgraph_rag(data, index, tmp_path / name, seed=seed, training=QUICK)
        weights.append((tmp_path / name / "subgraph-rag.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]
    real, calls = loop.save_state, []

    def stopped(*arguments):
        real(*arguments)
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save_state", stopped)
    with pytest.raises(KeyboardInterrupt):
        fit_subgraph_rag(data, index, tmp_path / "stopped", training=QUICK)
    monkeypatch.setattr(loop, "save_state", real)
    with pytest.raises(InvalidArgumentError, match="holds another training"):
        fit_subgraph_rag(data, index, tmp_path / "stopped", hops=1, training=QUICK)
    fit_subgraph_rag(data, index, tmp_path / "stopped", training=QUICK)
    assert (tmp_path / "stopped" / "subgraph-rag.safetensors").read_bytes() == weights[0]


def test_what_cannot_be_learnt_from_is_refused(index):
    row = index.graph.row
    near, far = (
        LabelledQuery("What does Otto Lindgren say?", (row("a0"),)),
        LabelledQuery("What does Otto Lindgren say?", (row("a1"),)),
    )
    search = TripleSearch(TripleScorer(index.dense.dimension, hidden=2))
    with pytest.raises(InvalidArgumentError, match="No training question has a relevant node within 2 edges"):
        fit_triple_scorer(index, [far], [near], search, EntityLinking())
    with pytest.raises(InvalidArgumentError, match="There is no dev question"):
        fit_triple_scorer(index, [near], [], search, EntityLinking())
    # Of two relevant nodes, one place can hold one: the topic, which has the score of the best triple and the lower row.
    both = LabelledQuery(near.text, (row("p0"), row("a0")))
    assert fit_triple_scorer(index, [both], [both], search, EntityLinking(), k=1, epochs=1).scores == [1.0]
    with pytest.raises(InvalidArgumentError, match="has no network to train"):
        fit_triple_scorer(index, [near], [near], TripleSearch(), EntityLinking())
