"""Several vectors for each text: MaxSim against sums written out, and the encoders that give them."""

import random

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from graph_retrievers import Eager, GraphIndex, Node, Pipeline, Retriever, minilm
from graph_retrievers.core.requests import TermScores
from graph_retrievers.errors import InvalidArgumentError, InvalidVectorError, MissingSignalError
from graph_retrievers.operators import BM25Search
from graph_retrievers.signals import multi_vector
from graph_retrievers.signals.colbert import ColBERT, PartVectors
from graph_retrievers.signals.multi_vector import MultiVectorIndex
from tests.helpers import HashEmbedding


class Fixed:
    """Vectors that a test gives for each text."""

    name = "fixed"

    def __init__(self, vectors):
        self.vectors = vectors

    def encode(self, texts, *, queries=False):
        return [self.vectors[text] for text in texts]


def maxsim(query, text):
    """The sum, over the vectors of a query, of the largest product with a vector of a text; None without vectors."""
    if not len(query) or not len(text):
        return None
    return sum(max(sum(a * b for a, b in zip(one, other, strict=True)) for other in text) for one in query)


def random_vectors(rng, most):
    # Few values, so that there are ties.
    return [[rng.choice((-1.0, 0.0, 0.5, 1.0)) for _ in range(3)] for _ in range(rng.randrange(most))]


def test_maxsim_of_a_worked_example():
    # Of the query's vectors, (1, 0) is nearest to (0.6, 0.8) in "a" and to (1, 0) in "b"; (0, 1) to (0.6, 0.8) and to (0, 0.5).
    vectors = {"q": [[1, 0], [0, 1]], "a": [[0.6, 0.8]], "b": [[1, 0], [0, 0.5]], "c": []}
    signal = MultiVectorIndex(["a", "b", "c"], Fixed(vectors))
    scores, rows = signal.search(["q"], 3)
    assert rows.tolist() == [[1, 0, -1]] and scores[0, :2].tolist() == pytest.approx([1.5, 1.4])
    terms = signal.term_scores(["q"], torch.tensor([0, 0, 0]), torch.tensor([0, 1, 2]))
    assert torch.allclose(terms, torch.tensor([[0.6, 0.8], [1.0, 0.5], [0.0, 0.0]]))


@pytest.mark.parametrize("products", [1, 1 << 24])
def test_search_tables_and_pairs_are_sums_of_largest_products(products, monkeypatch):
    monkeypatch.setattr(multi_vector, "_PRODUCTS_AT_A_TIME", products)
    rng = random.Random(0)
    for _ in range(200):
        texts, queries = [f"t{n}" for n in range(rng.randrange(1, 7))], ["q0", "q1", "q2"]
        vectors = {name: random_vectors(rng, 4) for name in (*texts, *queries)}
        signal = MultiVectorIndex(texts, Fixed(vectors))
        expected = [[maxsim(vectors[query], vectors[text]) for text in texts] for query in queries]
        zeros = torch.tensor([[value or 0.0 for value in row] for row in expected])
        assert torch.allclose(signal.table(queries), zeros)
        batch, rows = torch.cartesian_prod(torch.arange(3), torch.arange(len(texts))).T
        assert torch.allclose(signal.scores(queries, batch, rows), zeros.flatten())
        allowed = torch.tensor([rng.random() < 0.7 for _ in texts])
        for mask in (None, allowed):
            scores, found = signal.search(queries, 3, mask)
            for query, values in enumerate(expected):
                there = {row: value for row, value in enumerate(values) if value is not None and (mask is None or mask[row])}
                best = sorted(there, key=lambda row: (-round(there[row], 5), row))[:3]
                assert [row for row in found[query].tolist() if row >= 0] == best
                assert scores[query, : len(best)].tolist() == pytest.approx([there[row] for row in best], abs=1e-5)
            alone = [signal.search([query], 3, mask)[1][0].tolist() for query in queries]
            assert found.tolist() == alone


def test_changes_scopes_and_files_keep_the_vectors(tmp_path):
    rng = random.Random(1)
    texts = [f"t{n}" for n in range(6)]
    encoder = Fixed({name: random_vectors(rng, 4) for name in (*texts, "new", "q")})
    signal = MultiVectorIndex(texts, encoder)
    changed = ["t3", "new", "t0", "t3"]
    after = signal.updated(changed, torch.tensor([3, -1, 0, 3]), lambda contents: torch.zeros(0))
    assert torch.equal(after.table(["q"]), MultiVectorIndex(changed, encoder).table(["q"]))
    rows = torch.tensor([1, 4])
    assert torch.equal(signal.restricted(rows, None).table(["q"]), signal.table(["q"])[:, rows])
    built = GraphIndex.from_texts(texts)
    index = GraphIndex(built.graph, {**built.signals, "late": signal})
    index.save(tmp_path / "index")
    bare = GraphIndex.load(tmp_path / "index")
    with pytest.raises(MissingSignalError, match="without its encoder 'fixed'"):
        Retriever(bare, BM25Search(signal="late")).retrieve("q")
    with pytest.raises(MissingSignalError, match="see with_encoder"):
        bare.signal("late").updated(["new"], torch.tensor([-1]), lambda contents: torch.zeros(0))
    again = GraphIndex.load(tmp_path / "index", signals={"late": bare.signal("late").with_encoder(encoder)})
    found = [[(hit.id, hit.score) for hit in Retriever(each, BM25Search(signal="late")).retrieve("q")] for each in (index, again)]
    assert found[0] == found[1] and found[0]
    scoped = Retriever(index, BM25Search(signal="late"), backfill=False).retrieve("q", scope={"$id": {"$in": ["1", "4"]}})
    assert {hit.id for hit in scoped} <= {"1", "4"}


def test_what_is_no_encoder_or_no_vectors_is_refused():
    with pytest.raises(InvalidArgumentError, match="Expected an encoder with name and encode"):
        MultiVectorIndex(["a"], lambda texts: [])
    for wrong in ([[1.0], [1.0, 2.0]], [1.0, 2.0], [[float("nan")]], [["x"]], [[[1.0]]]):
        with pytest.raises(InvalidVectorError, match="The encoder 'fixed' gave vectors"):
            MultiVectorIndex(["a"], Fixed({"a": wrong}))
    with pytest.raises(InvalidVectorError, match="expected one width"):
        MultiVectorIndex(["a", "b"], Fixed({"a": [[1.0]], "b": [[1.0, 2.0]]}))
    signal = MultiVectorIndex(["a"], Fixed({"a": [[1.0]], "q": [[1.0, 2.0]]}))
    with pytest.raises(InvalidVectorError, match="a query vectors of width 2; those of the texts have width 1"):
        signal.search(["q"], 1)
    short = type("Short", (), {"name": "short", "encode": lambda self, texts, queries=False: []})()
    with pytest.raises(InvalidArgumentError, match="the vectors of 0 texts for 1"):
        MultiVectorIndex(["a"], short)
    with pytest.raises(InvalidArgumentError, match="made with 'fixed', not with 'short'"):
        signal.with_encoder(short)
    with pytest.raises(ValueError, match="vectors and indptr"):
        MultiVectorIndex.restore(
            {"vectors": torch.zeros(1, 1), "indptr": torch.tensor([0, 2])}, {"encoder": "x", "covers": "nodes"}
        )


def test_operators_read_it_like_any_signal():
    vectors = {"a": [[1.0, 0.0]], "b": [[0.0, 1.0]], "c": [[0.6, 0.8]], "q": [[0.0, 1.0], [1.0, 0.0]]}
    nodes = [Node(name, name) for name in "abc"]
    built = GraphIndex.from_nodes(nodes, [("c", "a")], embedding=HashEmbedding())
    index = GraphIndex(
        built.graph, {**built.signals, "late": MultiVectorIndex(list("abc"), Fixed(vectors))}, embedding=HashEmbedding()
    )
    hits = Retriever(index, Pipeline(BM25Search(1, signal="late"), Eager().operator()), backfill=False).retrieve("q")
    assert [hit.id for hit in hits] == ["c", "a"]

    class Terms(BM25Search):
        def search(self, question, candidates):
            terms = yield TermScores(np.arange(3), "late")
            assert np.allclose(terms, [[0, 1], [1, 0], [0.8, 0.6]])
            return (yield from super().search(question, candidates))

    assert [hit.id for hit in Retriever(index, Terms(2, signal="late"), backfill=False).retrieve("q")] == ["c", "a"]


# -- encoders -----------------------------------------------------------------------------------------------------------

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]", "loom", "card", "a", ".", ","]


@pytest.fixture(scope="module")
def bert():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes)).eval()
    return model, BertTokenizerFast(vocab={word: number for number, word in enumerate(WORDS)})


def states(bert, tokens, attended):
    ids = torch.tensor([[WORDS.index(token) for token in tokens]])
    with torch.no_grad():
        return bert[0](input_ids=ids, attention_mask=torch.tensor([attended])).last_hidden_state[0]


def test_colbert_marks_documents_and_leaves_their_punctuation_out(bert):
    projection = torch.randn(4, 16)
    encoder = ColBERT(bert, projection, document_length=6)
    tokens = ["[CLS]", "[unused1]", "a", "loom", ".", "[SEP]"]
    expected = states(bert, tokens, [1] * 6) @ projection.T
    expected = torch.nn.functional.normalize(expected, dim=1)[[0, 1, 2, 3, 5]]
    # In a batch, and what is longer is cut.
    found = encoder.encode(["a loom .", "card", "a loom . card card card"])
    assert torch.allclose(found[0], expected, atol=1e-5) and len(found[1]) == 4
    assert torch.allclose(found[2], found[0], atol=1e-5)


def test_colbert_fills_a_query_with_masks_that_others_do_not_attend_to(bert):
    encoder = ColBERT(bert, query_length=8)
    tokens = ["[CLS]", "[unused0]", "loom", ".", "[SEP]", "[MASK]", "[MASK]", "[MASK]"]
    expected = torch.nn.functional.normalize(states(bert, tokens, [1] * 5 + [0] * 3), dim=1)
    (found,) = encoder.encode(["loom ."], queries=True)
    assert torch.allclose(found, expected, atol=1e-5)
    assert [len(each) for each in encoder.encode(["", "loom " * 20], queries=True)] == [8, 8]
    with pytest.raises(InvalidArgumentError, match=r"projection has the shape \[4, 3\]; expected \[d', 16\]"):
        ColBERT(bert, torch.zeros(4, 3)).encode(["a"])


def test_a_long_text_scores_as_its_best_part():
    encoder = PartVectors(minilm(), 8)
    long = "Bread is baked of flour, water and salt. " * 3 + "A loom weaves cloth of wool."
    signal = MultiVectorIndex([long, "Cards are punched."], encoder)
    parts = minilm().split_text(long, 8)
    best = (minilm().embed_queries(["What weaves cloth?"]) @ torch.tensor(minilm().embed_documents(parts)).T).max()
    scores, rows = signal.search(["What weaves cloth?"], 2)
    assert rows.tolist() == [[0, 1]] and scores[0, 0].item() == pytest.approx(best.item(), abs=1e-3)
    assert len(signal.vectors) == len(parts) + 1 and signal.encoder_name.endswith("parts of 8 tokens")
    with pytest.raises(InvalidArgumentError, match="Expected a SentenceEncoder"):
        PartVectors(lambda texts: texts)
