"""Arguments of operators and retrievers: their types and ranges."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from graph_retrievers import PPR, QAFD, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, HybridSearch
from graph_retrievers.systems.baselines import Rerank
from graph_retrievers.systems.fastinsight import GRanker
from graph_retrievers.systems.spreading.linking import EntityLinking
from graph_retrievers.systems.spreading.propagation import GatedPropagation
from tests.helpers import linked_index
from tests.retrievers import on


@pytest.mark.parametrize("make", [lambda: Rerank(0), lambda: Rerank(-1), lambda: GRanker(k=-1), lambda: HybridSearch(constant=-1)])
def test_sizes_below_one(make):
    with pytest.raises(InvalidArgumentError, match="integer of at least 1"):
        make()


def test_numbers_of_numpy_with_few_bits_are_compared_as_those_of_python():
    with pytest.raises(InvalidArgumentError, match="mass must be a number above 0 and at most 1e\\+06, got np.float16\\(inf\\)"):
        QAFD(mass=np.float16(np.inf))
    assert QAFD(mass=np.float16(10)) == QAFD()


def test_numpy_integers_are_integers():
    assert len(Retriever(linked_index(), "vector").retrieve("loom", np.int64(3))) == 3


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fastinsight", {"budget": 10**12, "nodes_per_round": 10**12}),
        ("gar", {"budget": 10**12, "nodes_per_round": 10**12}),
        ("re2", {"depth": 10**12}),
        ("walk-fusion", {"depth": 10**12, "seeds": 10**12}),
        ("ppr", {"seeds": 10**12}),
        ("mor", {"seeds": 10**12, "matches": 10**12, "candidates": 10**12}),
    ],
)
def test_sizes_beyond_the_corpus_cost_no_more_than_the_corpus(name, options):
    assert len(on(linked_index(), name, **options).retrieve("Alan Turing and punched cards")) == 10


@pytest.mark.parametrize("operator", [GatedPropagation, EntityLinking])
def test_types_to_exclude_are_a_list(operator):
    with pytest.raises(InvalidArgumentError, match="exclude_types must be a list of strings, got 'part'"):
        operator(exclude_types="part")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seeds": "5"}, "seeds is '5'; expected int"),
        ({"damping": [0.5]}, r"damping is \[0.5\]; expected float"),
        ({"first": torch.ones(2)}, "first is .*; expected Operator or None."),
        ({"first": BM25Search}, "first is .*BM25Search'>; expected"),
        ({"name": 3}, "name is 3; expected str or None."),
    ],
)
def test_arguments_of_other_types_are_refused_by_name(options, told):
    index = GraphIndex.from_texts(["a loom"], vectors=[[1.0]])
    with pytest.raises(InvalidArgumentError, match=told):
        on(index, PPR, **options)
    assert Retriever(index, PPR(seeds=np.int64(5), damping=np.float32(0.5))).k == 10


def test_more_rounds_than_any_graph_needs_are_refused():
    with pytest.raises(InvalidArgumentError, match="steps must be at most 1,000, got 1001"):
        GatedPropagation(steps=1001)


def test_fractions_and_large_integers_are_numbers():
    found = [Retriever(linked_index(), PPR(passage_weight=half, damping=half)).retrieve("loom") for half in (0.5, Fraction(1, 2))]
    assert [hit.score for hit in found[0]] == [hit.score for hit in found[1]]
    assert Retriever(linked_index(), PPR(passage_weight=10**25)).retrieve("loom")


@pytest.mark.parametrize(("name", "option"), [("fastinsight", "beta"), ("spreading", "threshold"), ("mmr", "min_mmr_score")])
def test_integers_that_no_float_holds_are_refused(name, option):
    with pytest.raises(InvalidArgumentError, match=f"{option} must be"):
        on(linked_index(), name, **{option: 10**400})
