"""What an own operator returns, and what of it is refused."""

import pytest
import torch

from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators.operator import Operator, OperatorKind
from graph_retrievers.operators.vector_search import VectorSearch
from graph_retrievers.results import Chains, Facts, Ranking
from graph_retrievers.retrievers import Retriever
from tests.helpers import linked_index


class Given(Operator):
    """What a test says, for every query."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, ranking):
        self.ranking = ranking

    def rank(self, queries, ranking):
        return self.ranking


def given(node, **results):
    """An operator that finds one node for one query."""
    return Given(Ranking.of(torch.tensor([[node]]), torch.tensor([[1.0]]), "Given", **results))


@pytest.mark.parametrize("types", ["film", 3, ["film", None]])
def test_types_are_a_list_of_strings(types):
    with pytest.raises(InvalidArgumentError, match="types must be a list of strings"):
        Retriever(linked_index(), VectorSearch(), types=types)


def chains(nodes, scores):
    return {"chains": Chains(torch.tensor(nodes), torch.tensor(scores))}


def facts(rows, scores):
    return {"facts": Facts(torch.tensor(rows), torch.tensor(scores))}


@pytest.mark.parametrize(
    ("results", "told"),
    [
        (facts([[0, 2]], [[2.0, 1.0]]), r"as facts, returned row 2 with score 1\.0; expected rows from -1 to 1"),
        (facts([[1, 0]], [[2.0, float("nan")]]), "as facts, returned row 0 with score nan"),
        (facts([[0], [1]], [[1.0], [1.0]]), "returned Facts of 2 queries for 1"),
        (chains([[[0, 1]], [[1, 2]]], [[1.0], [1.0]]), "returned Chains of 2 queries for 1"),
        (chains([[[0, 1], [1, 2]]], [[1.0]]), r"chains of shape \[1, 2, 2\] beside \[1, 1\]"),
        ({"trails": torch.tensor([[[2, 1]]])}, "a trail that does not end in its node"),
        ({"trails": torch.tensor([[[2, -1]]])}, "a trail that does not end in its node; pads stand before a trail"),
    ],
)
def test_what_an_own_operator_returns_beside_nodes_is_checked(results, told):
    index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    with pytest.raises(InvalidArgumentError, match=f"Given.*{told}"):
        Retriever(index, given(2, **results), backfill=False).retrieve("loom")


def test_facts_chains_and_trails_of_an_own_operator_are_returned():
    index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    results = {"trails": torch.tensor([[[-1, 1, 2]]]), **facts([[1, -1]], [[2.0, 1.0]]), **chains([[[0, 1, -1]]], [[1.0]])}
    hits = Retriever(index, given(2, **results), backfill=False).retrieve("loom")
    assert [(hit.kind, str(hit.path)) for hit in hits] == [("node", "1 -> 2"), ("chain", "0 -> 1"), ("fact", "1 -> 2")]
