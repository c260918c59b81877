"""Vectors of edges in PostgreSQL: the answers in memory, what changes leave, and what is refused."""

import json
import os
import random
from dataclasses import replace

import numpy as np
import pytest

from graph_retrievers import Edge, EgoGRAG, GRetriever, GraphIndex, LightRAG, Node, Retriever
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, MissingSignalError
from graph_retrievers.operators import FactSearch, GatedPropagation, Pipeline
from graph_retrievers.stores.postgres import (
    PostgresCorpus,
    PostgresEdgeVectors,
    open_index,
    read_index,
    update_index,
    write_index,
)
from graph_retrievers.stores.postgres.writer import write_graph
from graph_retrievers.stores.remote import RemoteIndex
from tests.integration.test_postgres_changes import WORDS, document
from tests.integration.test_postgres_retrievers import CASES, IDS, odd_corpus, odd_filter, words_of
from tests.postgres import contents, drop
from tests.remote import told

pytestmark = pytest.mark.slow


class Letters:
    """Vectors of texts by their characters: many texts have the same, and some zeros. `asked` has the texts that were embedded."""

    name = "letters"

    def __init__(self, dimension=3, turn=0):
        self.dimension, self.turn, self.asked = dimension, turn, []

    def embed_query(self, text):
        number = sum(map(ord, text)) % 23
        return np.zeros(self.dimension).tolist() if number == 0 else self._drawn(number).tolist()

    def _drawn(self, number):
        return np.random.default_rng([number, self.turn]).normal(size=self.dimension)

    def embed_documents(self, texts):
        self.asked += texts
        return [self.embed_query(text) for text in texts]


def keywords(texts):
    """Keywords of questions: of both levels, of one, and none."""
    levels = {"high_level_keywords": texts[:1], "low_level_keywords": texts[1:]}
    return [levels, {"high_level_keywords": texts}, None]


MODES = (None, "global", "hybrid", "mix")
SYSTEMS = {
    "facts": FactSearch(6),
    "ends": FactSearch(6, returned=False),
    "spreading": Pipeline(FactSearch(3, returned=False), GatedPropagation()),
    "g-retriever": GRetriever(facts=True),
    "g-retriever, few": GRetriever(seeds=1, seed_edges=1, cost=0.1, candidates=4, facts=True),
    "ego-grag": EgoGRAG(),
    **{f"lightrag {mode} {facts}": LightRAG(mode=mode, facts=facts, top_k=5) for mode in MODES for facts in (False, True)},
}


def same(found, expected, what):
    """Whether answers have the same hits, facts, paths and scores."""
    for ours, theirs in zip(found, expected, strict=True):
        assert [(hit.kind, *each) for hit, each in zip(ours, told(ours), strict=True)] == [
            (hit.kind, *each) for hit, each in zip(theirs, told(theirs), strict=True)
        ], what
        np.testing.assert_allclose([hit.score for hit in ours], [hit.score for hit in theirs], rtol=1e-5, atol=1e-5, err_msg=str(what))
        # Whether a scope has edges is not known there.
        notes = [[note for note in hits.notes if not note.startswith(("round trips", "the scope has no edges"))] for hits in (ours, theirs)]
        assert notes[0] == notes[1], what
        assert (ours.to_context(), ours.subgraph().edges) == (theirs.to_context(), theirs.subgraph().edges), what
    return sum(map(len, found))


@pytest.mark.parametrize("seed", range(CASES))
def test_random_graphs_give_the_answers_in_memory(postgres_server, seed, request):
    """For every system that reads vectors of edges, every filter, and a scope for each question."""
    nodes, edges, vectors = odd_corpus(seed)
    draw, model = random.Random(seed), Letters()
    index = GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine", embedding=model, edge_signals=True)
    database = postgres_server.open("random_edges")
    if seed == CASES - 1:
        request.addfinalizer(lambda: drop(postgres_server.open("random_edges")))
    name, found = IDS[seed % 7], 0
    with database:
        write_index(index, database, name, replace=True)
        remote = open_index(database, name, embedding=model)
        for label, system in SYSTEMS.items():
            if label.startswith("lightrag") and system.mode is not None and not edges:
                continue
            pair = [Retriever(each, system, k=4, backfill=False) for each in (remote, index)]
            texts = [words_of(draw, 3) for _ in range(3)]
            inputs = {"keywords": keywords([words_of(draw, 2) for _ in range(3)])} if label.startswith("lightrag") else {}
            odd = [odd_filter(draw, nodes) for _ in range(4)]
            filters = draw.choice(
                [{}, {"filter": odd[0]}, {"seed_filter": odd[0], "filter": odd[1]}, {"traversal_filter": odd[0], "seed_filter": odd[1]}]
            )
            batch = [each.retrieve_batch(texts, **filters, **inputs) for each in pair]
            found += same(*batch, (label, filters))
            one = {key: values[1] for key, values in inputs.items()}
            same([pair[0].retrieve(texts[1], **filters, **one)], [batch[1][1]], (label, filters))
            if label.startswith("lightrag None"):
                # The mode follows from the whole graph there.
                continue
            scopes = [odd[2], odd[3], odd[2]]
            same(*(each.retrieve_batch(texts, scope=scopes, **filters, **inputs) for each in pair), (label, filters, scopes))
    assert found or not edges
