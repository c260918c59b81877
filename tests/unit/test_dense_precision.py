"""Dot products: those of rounded vectors in less memory, and exact zeros where they are rounding."""

import random

import pytest
import torch

from graph_retrievers import GraphIndex, Node, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.signals import dense
from graph_retrievers.signals.dense import DenseIndex
from tests.helpers import HashEmbedding, linked_index
from tests.retrievers import FUSED_SPREADING

PRECISIONS = ["bfloat16", "int8"]


def vectors(size=50, width=24, seed=0):
    return torch.nn.functional.normalize(torch.randn(size, width, generator=torch.Generator().manual_seed(seed)), dim=1)


def rounded(given, precision):
    """The rounded vectors, written out: int8 keeps 127ths of the largest entry of each row."""
    if precision == "bfloat16":
        return given.bfloat16().float()
    scale = given.abs().amax(1, keepdim=True) / 127
    return torch.where(scale > 0, torch.round(given / scale.clamp(min=1e-30)) * scale, given)


@pytest.fixture(params=[7, 32768])
def tiles(request, monkeypatch):
    monkeypatch.setattr(dense, "_TILE", request.param)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_result_is_that_of_the_rounded_vectors(precision, tiles):
    given = vectors()
    given[3] = 0.0
    signal, plain = DenseIndex(given, precision=precision), DenseIndex(rounded(given, precision))
    queries, allowed = vectors(4, seed=1), torch.arange(50) % 3 > 0
    torch.testing.assert_close(signal.vectors, plain.vectors)
    torch.testing.assert_close(signal.norms, plain.norms)
    torch.testing.assert_close(signal.table(queries), plain.table(queries))
    batch, rows = torch.tensor([0, 3, 1]), torch.tensor([3, 49, 7])
    torch.testing.assert_close(signal.scores(queries, batch, rows), plain.scores(queries, batch, rows))
    for mask in (None, allowed):
        (scores, found), (wanted, nodes) = signal.search(queries, 9, mask), plain.search(queries, 9, mask)
        assert torch.equal(found, nodes)
        torch.testing.assert_close(scores, wanted)
    assert len(signal) == 50 and signal.dimension == 24 and f"precision='{precision}'" in repr(signal)


def test_eight_bits_worked_by_hand():
    signal = DenseIndex([[1.27, -0.634], [0.0, 0.0], [-2.54, 0.02]], precision="int8")
    tensors, settings = signal.state()
    assert tensors["vectors"].tolist() == [[127, -63], [0, 0], [-127, 1]]
    assert tensors["scales"].tolist() == pytest.approx([0.01, 1.0, 0.02])
    assert settings["precision"] == "int8"
    assert signal.taken(torch.tensor([0, 2])).tolist() == [pytest.approx([1.27, -0.63]), pytest.approx([-2.54, 0.02])]


@pytest.mark.parametrize(("precision", "size"), [("float32", 4), ("bfloat16", 2), ("int8", 1)])
def test_the_memory_is_that_of_the_precision(precision, size, tmp_path):
    index = GraphIndex.from_texts([f"text {row}" for row in range(50)], vectors=vectors(), metric="dot", dense_precision=precision)
    tensors, _ = index.dense.state()
    assert tensors["vectors"].element_size() == size
    index.save(tmp_path)
    opened = GraphIndex.load(tmp_path)
    assert opened.dense.precision == precision and torch.equal(opened.dense.vectors, index.dense.vectors)
    question = vectors(1, seed=2)[0]
    ask = [Retriever(each, "vector", k=5) for each in (index, opened)]
    before, after = (each.retrieve("?", vector=question) for each in ask)
    assert [hit.id for hit in before] == [hit.id for hit in after] and len(before) == 5
    # Where a vector lies in memory may change the last bit of a product.
    assert [hit.score for hit in before] == pytest.approx([hit.score for hit in after], rel=1e-6)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_index_of_any_precision_changes_as_one_built_afresh(precision):
    texts = [f"text {row}" for row in range(30)]
    made = {f"text {row}": vector for row, vector in enumerate(vectors(40))}

    def embed(contents):
        return torch.stack([made[content] for content in contents])

    options = {"embedding": embed, "dense_precision": precision, "metric": "dot"}
    index = GraphIndex.from_nodes([Node(str(row), text) for row, text in enumerate(texts)], **options)
    changed = index.with_changes(add=[Node("35", "text 35")], upsert=[Node("9", "text 36")], delete=["4", "7"])
    left = [Node(str(row), "text 36" if row == 9 else text) for row, text in enumerate(texts) if row not in (4, 7)]
    fresh = GraphIndex.from_nodes([*left, Node("35", "text 35")], **options)
    assert changed.graph.ids == fresh.graph.ids and changed.dense.precision == precision
    assert torch.equal(changed.dense.vectors, fresh.dense.vectors)
    part = index.dense.restricted(torch.tensor([5, 1]), [])
    assert torch.equal(part.vectors, index.dense.vectors[[5, 1]])


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidArgumentError, match="dense precision .*'float16'"):
        DenseIndex(vectors(), precision="float16")
    with pytest.raises(InvalidArgumentError, match="An HNSW graph is of vectors of float32, got the dense precision 'int8'"):
        DenseIndex(vectors(), precision="int8", backend="hnsw")
    tensors, settings = DenseIndex(vectors(), precision="int8").state()
    wrong = [{"vectors": tensors["vectors"]}, {**tensors, "scales": tensors["scales"][1:]}, {**tensors, "vectors": vectors()}]
    for state in wrong:
        with pytest.raises(InvalidArgumentError, match="do not fit the precision 'int8'"):
            DenseIndex.restore(state, settings)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_products_that_are_rounding_are_exactly_zero(precision):
    signal = DenseIndex([[5e-8, 1.0], [1.0, 0.0], [-5e-8, 1.0], [1e-3, 1.0]], precision=precision)
    query, pairs = torch.tensor([[2.0, 0.0]]), torch.tensor([0, 1, 2])
    assert signal.table(query)[0, :3].tolist() == [0.0, 2.0, 0.0] and signal.table(query)[0, 3] > 0.0019
    assert signal.scores(query, torch.zeros(3, dtype=torch.int64), pairs).tolist() == [0.0, 2.0, 0.0]
    assert [row.tolist() for row in signal.search(query, 4)] == [[pytest.approx([2.0, 0.002, 0.0, 0.0], rel=0.01)], [[1, 3, 0, 2]]]


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("count", [9, 10, 13, 60])
@pytest.mark.parametrize("questions", [1, 4, 7])
def test_equal_vectors_have_equal_products(count, questions, precision):
    draw = torch.Generator().manual_seed(0)
    for _ in range(20):
        table = torch.nn.functional.normalize(torch.randn(count, 6, generator=draw))
        table[count // 2 :: 3], table[1] = table[0], table[2]
        signal, asked = DenseIndex(table, precision=precision), torch.randn(questions, 6, generator=draw)
        found = signal.table(asked)
        assert (found[:, count // 2 :: 3] == found[:, :1]).all() and (found[:, 1] == found[:, 2]).all()
        torch.testing.assert_close(found, asked @ signal.vectors.T, rtol=0, atol=1e-5)


def test_vectors_of_one_direction_are_equal_if_their_lengths_are():
    draw = torch.Generator().manual_seed(0)
    for _ in range(20):
        table = torch.randn(13, 6, generator=draw)
        # In eight bits, these differ from the first by their scale alone.
        table[4::4] = 2 * table[0]
        signal, asked = DenseIndex(table, precision="int8"), torch.randn(1, 6, generator=draw)
        found = signal.table(asked)
        assert (found[:, 4::4] == found[:, 4:5]).all()
        torch.testing.assert_close(found, asked @ signal.vectors.T, rtol=0, atol=1e-5)


def test_vectors_that_differ_keep_their_products_whatever_is_drawn(monkeypatch):
    # All vectors then look alike until they are compared.
    monkeypatch.setattr(torch, "randint", lambda low, high, size, **options: torch.zeros(size, dtype=torch.int64))
    table = torch.tensor([[1.0, 0.0], [1.0, 0.5], [0.0, 1.0], [1.0, 0.0]])
    assert DenseIndex(table).table(torch.eye(2)).T.tolist() == table.tolist()
    rounded = DenseIndex([[1.0, 0.0], [2.0, 0.0]], precision="int8")
    assert rounded.table(torch.eye(2)).T.tolist() == rounded.vectors.tolist() == [[1.0, 0.0], [2.0, 0.0]]


@pytest.mark.parametrize("name", ["lesegr", "walk-fusion", "g-retriever", "eager", "scored", FUSED_SPREADING])
def test_orthogonal_vectors_rank_alike_in_a_batch_and_alone(name):
    retriever = Retriever(linked_index(HashEmbedding()), name)
    words = sorted({word for text in retriever.index.graph.contents() for word in text.split()})
    draw = random.Random(0)
    questions = [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(40)]
    alone = [[hit.id for hit in retriever.retrieve(question)] for question in questions]
    assert [[hit.id for hit in hits] for hits in retriever.retrieve_batch(questions)] == alone
