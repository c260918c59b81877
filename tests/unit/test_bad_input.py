"""Arguments that cannot be meant as they stand: each its own error, none silently another result."""

from fractions import Fraction

import networkx
import numpy as np
import pytest
import torch

from graph_retrievers import BM25, PPR
from graph_retrievers.construction.networkx_graphs import from_networkx
from graph_retrievers.errors import DimensionMismatchError, InvalidArgumentError, InvalidVectorError
from graph_retrievers.graph import CorpusGraph, Edge, Node
from graph_retrievers.hits import NOTHING_FOUND
from graph_retrievers.index import GraphIndex
from graph_retrievers.operators import BM25Search, HybridSearch, VectorSearch
from graph_retrievers.operators.fusion import ReciprocalRankFusion
from graph_retrievers.operators.granker import GRanker
from graph_retrievers.operators.operator import Algorithm, Operator, OperatorKind, Pipeline
from graph_retrievers.operators.rerank import Rerank
from graph_retrievers.operators.spreading import EntityLinking, GatedPropagation
from graph_retrievers.results import Chains, Ranking
from graph_retrievers.retrievers.registry import build_retriever, retriever_names
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.search.candidates import Candidates
from graph_retrievers.signals.bm25 import BM25 as Words
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.signals.dense import DenseIndex
from graph_retrievers.signals.embedding import SentenceEncoder, embed_queries, minilm
from tests.helpers import HashEmbedding, linked_index


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ({"year": {"$in": 5}}, "list of values"),
        ({"topic": {"$in": "war"}}, "list of values"),
        ({"topic": {"$nin": None}}, "list of values"),
        ({"$and": [5]}, "mapping"),
        ({"$not": 5}, "mapping"),
        ({1: 2}, "strings"),
    ],
)
def test_filters_that_cannot_be_read(condition, told):
    with pytest.raises(InvalidArgumentError, match=told):
        build_retriever("vector", linked_index()).retrieve("loom", filter=condition)


@pytest.mark.parametrize("system", ["vector", "walk-fusion"])
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (torch.Tensor.to_sparse, "sparse_coo one on the device cpu"),
        (lambda mask: mask.to("meta"), "strided one on the device meta"),
        (lambda mask: torch.nested.nested_tensor([mask]), "nested one on the device cpu"),
        (lambda mask: mask.repeat(12, 1).to_sparse_csr(), "sparse_csr one on the device cpu"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*(nested|Sparse CSR)")
def test_masks_that_are_not_dense(system, make, told):
    index = linked_index()
    mask = make(torch.ones(len(index), dtype=torch.bool))
    retriever = build_retriever(system, index)
    told = f"A filter mask is a dense tensor with values; got a {told}"
    for name in ("filter", "seed_filter", "traversal_filter", "scope"):
        with pytest.raises(InvalidArgumentError, match=told):
            retriever.retrieve("loom", **{name: mask})
    with pytest.raises(InvalidArgumentError, match=told):
        retriever.retrieve_batch(["loom", "card"], scope=[mask, {"$id": "ada"}])


class Incomparable:
    def __eq__(self, other):
        raise OSError("no connection")


def deep(levels):
    """Return a filter that is nested so often."""
    condition = {"year": 1843}
    for _ in range(levels):
        condition = {"$not": condition}
    return condition


@pytest.mark.parametrize("system", ["vector", "walk-fusion"])
@pytest.mark.parametrize("make", [lambda: {"year": Incomparable()}, lambda: deep(5000)])
def test_scopes_that_do_not_compare_are_read_or_refused_as_filters_are(make, system):
    retriever = build_retriever(system, linked_index())
    told = "cannot be compared with the nodes"
    for ask in (
        lambda: retriever.retrieve_batch(["loom", "card"], scope=[make(), make()]),
        lambda: retriever.retrieve_batch(["loom", "card"], scope=make()),
        lambda: retriever.retrieve("loom", scope=make()),
    ):
        with pytest.raises(InvalidArgumentError, match=told):
            ask()
    # Arrays do not compare as a whole. A list of values is read as one.
    nothing = retriever.retrieve_batch(["loom"] * 2, scope=[{"year": np.array([1843, 1837])}, {"year": np.array([1843, 1837])}])
    assert [hits.notes for hits in nothing] == [("no node is in the scope",)] * 2
    scopes = [{"year": {"$in": np.array([1843, 1837])}}, {"year": {"$in": np.array([1843, 1837])}}, {"year": np.int64(1843)}]
    found = retriever.retrieve_batch(["loom"] * 3, scope=scopes)
    assert [{hit.id for hit in hits} for hits in found] == [{"ada", "babbage", "engine"}] * 2 + [{"ada"}]


@pytest.mark.parametrize("answer", [None, [], (), np.zeros((0,)), [[1.0, 0.0], [0.0, 1.0]], torch.zeros(0, 2)])
@pytest.mark.parametrize("kind", ["callable", "object"])
def test_embedding_models_that_answer_nothing(kind, answer):
    class Model:
        name = "mute"

        def embed_documents(self, texts):
            return answer

        def embed_query(self, text):
            return None if answer is None else answer[:0]

    model = (lambda texts: answer) if kind == "callable" else Model()
    with pytest.raises((DimensionMismatchError, InvalidVectorError), match=r"vectors (are None|have shape \[.*\]); expected"):
        GraphIndex.from_texts(["a loom", "a card", "a drum"], embedding=model)
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0, 0.0], [0.0, 1.0]], embedding=model)
    with pytest.raises(InvalidVectorError, match="gave .* for the query 'loom'; expected one vector, a list of numbers"):
        build_retriever("vector", index).retrieve("loom")


def test_embedding_models_whose_vectors_are_of_two_widths():
    class Model:
        def embed_documents(self, texts):
            return [[1.0] * (2 + ("40" in text)) for text in texts]

        def embed_query(self, text):
            return [1.0] * (2 + len(text) % 2)

    with pytest.raises(DimensionMismatchError):
        GraphIndex.from_texts([f"text {n}" for n in range(64)], embedding=Model())
    with pytest.raises(DimensionMismatchError, match="3 dimensions, the index has 2"):
        embed_queries(Model(), ["even", "odd"])


@pytest.mark.parametrize("weight", [1e30, 9.9999999999e29, np.float32(1e30), 1e-30, np.float64(1e-30)])
@pytest.mark.parametrize("name", retriever_names())
def test_weights_at_the_ends_of_their_range_are_read_by_every_retriever(name, weight):
    nodes = [Node(str(number), f"loom card {number}", f"Loom{number}") for number in range(4)]
    index = GraphIndex.from_nodes(
        nodes, [Edge("0", "1", "knows", weight), ("1", "2", "has")], embedding=HashEmbedding(8), edge_signals=True
    )
    hits = build_retriever(name, index).retrieve("Which Loom0 card?")
    assert len(hits) == 4 and len(hits.subgraph().nodes) == 4 and np.isfinite([hit.score for hit in hits]).all()
    assert [edge.weight for edge in index.graph.edges()] == [pytest.approx(float(weight)), 1.0]


@pytest.mark.parametrize("weight", [1.1e30, 0.9e-30, 0, -1, float("inf"), float("nan"), True, "1"])
def test_weights_out_of_their_range(weight):
    with pytest.raises(InvalidArgumentError, match=r"expected a number from 1e-30 to 1e\+30"):
        Edge("0", "1", "knows", weight)


@pytest.mark.parametrize(
    ("vector", "error"),
    [
        (np.ones((2, 32)), DimensionMismatchError),
        (np.ones((1, 64)), DimensionMismatchError),
        (torch.ones(2, 32), DimensionMismatchError),
        ("abc", DimensionMismatchError),
        ([None] * 64, (DimensionMismatchError, InvalidVectorError)),
        ([float("nan")] * 64, InvalidVectorError),
    ],
)
def test_query_vectors_that_are_none(vector, error):
    with pytest.raises(error, match="query vectors"):
        build_retriever("vector", linked_index()).retrieve("loom", vector=vector)


def test_one_vector_a_query_whatever_the_batch_size():
    retriever = build_retriever("vector", linked_index(), batch_size=4)
    for count in (3, 4, 8):
        with pytest.raises(DimensionMismatchError, match=r"expected \[5, d\]"):
            retriever.retrieve_batch(["loom"] * 5, vectors=np.ones((count, 64)))
    with pytest.raises(DimensionMismatchError, match=r"expected \[4, d\]"):
        retriever.retrieve_batch(["loom"] * 4, vectors=np.ones((6, 64)))


def test_a_filter_is_worked_out_once_for_all_batches():
    seen = []
    retriever = build_retriever("vector", linked_index(), batch_size=1)
    retriever.retrieve_batch(["loom", "card"], filter=lambda node: seen.append(node) or True)
    assert len(seen) == 12


@pytest.mark.parametrize("queries", ["loom", None, (text for text in ["loom"])])
def test_a_batch_is_a_list(queries):
    with pytest.raises(InvalidArgumentError, match="list of queries"):
        build_retriever("vector", linked_index()).retrieve_batch(queries)


@pytest.mark.parametrize("columns", [{"texts": "ab"}, {"ids": "ab"}, {"titles": "ab"}, {"texts": {"a": "x", "b": "y"}}])
def test_columns_that_are_not_lists(columns):
    with pytest.raises(InvalidArgumentError, match="is a (str|dict); pass a list with one entry per text"):
        GraphIndex.from_texts(**{"texts": ["a", "b"], **columns})


@pytest.mark.parametrize("models", [{"embedding": SentenceEncoder}, {"embedding": minilm}, {"relevance": CrossEncoder}])
def test_models_that_were_not_called(models):
    with pytest.raises(InvalidArgumentError, match=r"is the (class|function)"):
        GraphIndex.from_texts(["a", "b"], **models)


def test_metadata_and_ids_of_another_type():
    with pytest.raises(InvalidArgumentError, match=r"metadata\[1\] is None"):
        GraphIndex.from_texts(["a", "b"], metadatas=[{}, None])
    with pytest.raises(InvalidArgumentError, match="id 1; ids are non-empty strings"):
        GraphIndex.from_texts(["a", "b"], ids=[1, 2])


@pytest.mark.parametrize("relation", [None, 3])
def test_relations_are_strings(relation):
    with pytest.raises(InvalidArgumentError, match="has the relation"):
        CorpusGraph(["a", "b"], ["", ""], edges=[("a", "b", relation)])


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 1e30, -1e16])
def test_vectors_whose_products_are_no_numbers(number):
    with pytest.raises(InvalidVectorError, match=r"vectors\[1\] holds NaN or infinity"):
        GraphIndex.from_texts(["a", "b"], vectors=[[1.0, 2.0], [0.0, number]])


def test_vectors_without_dimensions():
    with pytest.raises(DimensionMismatchError, match="no dimensions"):
        GraphIndex.from_texts(["a", "b"], vectors=np.zeros((2, 0)))


@pytest.mark.parametrize("weights", [(0, 0), (-1, 1), (float("nan"), 1), (float("inf"), 1), (1,), 5, "ab", ("a", 1)])
def test_weights_of_fusions(weights):
    for make in (HybridSearch, lambda weights: ReciprocalRankFusion(VectorSearch(), VectorSearch(), weights=weights)):
        with pytest.raises(InvalidArgumentError, match="weights must be 2 numbers"):
            make(weights=weights)


@pytest.mark.parametrize("make", [lambda: Rerank(0), lambda: Rerank(-1), lambda: GRanker(k=-1), lambda: HybridSearch(constant=-1)])
def test_sizes_below_one(make):
    with pytest.raises(InvalidArgumentError, match="integer of at least 1"):
        make()


def test_numpy_integers_are_integers():
    assert len(build_retriever("vector", linked_index()).retrieve("loom", np.int64(3))) == 3


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
    assert len(build_retriever(name, linked_index(), **options).retrieve("Alan Turing and punched cards")) == 10


class Given(Operator):
    """What a test says, for every query."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, nodes, scores):
        self.nodes, self.scores = torch.tensor([nodes]), torch.tensor([scores])

    def rank(self, queries, ranking):
        return Ranking.of(self.nodes, self.scores, self.name)


@pytest.mark.parametrize(
    ("nodes", "scores", "told"),
    [
        ([3, 3], [2.0, 1.0], "row 3 twice"),
        ([3, 99], [2.0, 1.0], "row 99 with score 1.0; expected rows from -1 to 11"),
        ([3, -7], [2.0, 1.0], "row -7 with score"),
        ([3, 1], [float("nan"), 2.0], "row 3 with score nan"),
        ([1.7], [1.0], "expected integers"),
        ([1, 2], [1.0], "one score for each"),
    ],
)
def test_what_an_operator_returns_is_checked(nodes, scores, told):
    with pytest.raises(InvalidArgumentError, match=told):
        Retriever(linked_index(), Given(nodes, scores)).retrieve("loom")


class Leaky(DenseIndex):
    """A signal whose search is what a test says."""

    def search(self, queries, k, allowed=None):
        return self.found


@pytest.mark.parametrize(
    ("scores", "rows", "told"),
    [
        ([[2.0, 1.0]], [[0, 1]], "not allowed"),
        ([[1.0, 2.0]], [[0, 2]], "descending"),
        ([[1.0, 1.0]], [[0, 0]], "row 0 twice"),
        ([[1.0]], [[50]], "row 50"),
        ([[float("nan")]], [[0]], "nan"),
    ],
)
def test_what_a_signal_returns_is_checked(scores, rows, told):
    signal = Leaky(torch.eye(3))
    signal.found = torch.tensor(scores), torch.tensor(rows)
    index = GraphIndex(CorpusGraph(["a", "b", "c"], ["", "", ""]), {"dense": signal})
    with pytest.raises(InvalidArgumentError, match=told):
        Retriever(index, VectorSearch()).retrieve("loom", vector=[1.0, 0.0, 0.0], filter={"$id": {"$in": ["a", "c"]}})


@pytest.mark.parametrize("weights", [(1e39, 1.0), (1e-44, 1.0)])
def test_weights_that_single_precision_cannot_hold(weights):
    with pytest.raises(InvalidArgumentError, match="from 1e-30 to 1e30"):
        HybridSearch(weights=weights)


@pytest.mark.parametrize("operator", [GatedPropagation, EntityLinking])
def test_types_to_exclude_are_a_list(operator):
    with pytest.raises(InvalidArgumentError, match="exclude_types must be a list of strings, got 'part'"):
        operator(exclude_types="part")


def test_chains_end_at_the_types_that_may_be_returned():
    nodes = [Node("a", "", "Boiler", "part"), Node("b", "", "Hallam", "maker"), Node("c", "", "Drain", "step")]
    index = GraphIndex.from_nodes(nodes, [("a", "b"), ("a", "c")])
    found = build_retriever("spreading-uniform", index, chains="hits", types=["maker"], backfill=False)
    hits = found.retrieve("boiler", entities=["Boiler"])
    assert [hit.id for hit in hits] == ["b", "a | b"]


def test_an_index_keeps_its_vectors_and_metadata():
    vectors = torch.eye(2)
    index = GraphIndex.from_nodes([Node("a", "x", metadata={"tags": ["t"]}), Node("b", "y")], vectors=vectors)
    vectors.copy_(vectors.flip(0))
    hit = build_retriever("vector", index).retrieve("q", vector=[1.0, 0.0])[0]
    hit.metadata["tags"].append("u")
    assert hit.id == "a" and index.graph.metadata[0] == {"tags": ["t"]}


@pytest.mark.parametrize("scores", [None, ["high", "low"], "ab"])
def test_scores_of_a_model_that_are_not_numbers(scores):
    index = GraphIndex.from_texts(["a", "b"], vectors=[[1.0], [1.0]], relevance=lambda pairs: scores)
    with pytest.raises(InvalidArgumentError, match="expected a number for each pair"):
        build_retriever("re2", index).retrieve("q", vector=[1.0])


def test_nodes_that_are_not_nodes():
    with pytest.raises(InvalidArgumentError, match=r"Expected a Node, got \('a', 'b'\)"):
        GraphIndex.from_nodes([("a", "b")])


class Walked(Operator):
    """One node, reached along a trail that a test gives, with a chain that a test gives."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, trail, chain):
        self.trail, self.chain = trail, chain

    def rank(self, queries, ranking):
        chains = Chains(torch.tensor([[self.chain]]), torch.tensor([[1.0]]))
        nodes, scores = torch.tensor([[self.trail[-1]]]), torch.tensor([[1.0]])
        return Ranking.of(nodes, scores, self.name, torch.tensor([[self.trail]]), chains=chains)


def test_a_path_along_edges_that_do_not_exist_is_refused():
    index = GraphIndex.from_texts(["a loom", "a card", "an engine"], edges=[("0", "1"), ("1", "2")])
    (hit, chain) = Retriever(index, Walked([0, 1, 2], [2, 1, -1]), backfill=False).retrieve("loom")
    assert str(hit.path) == "0 -> 1 -> 2" and str(chain.path) == "2 <- 1"
    with pytest.raises(InvalidArgumentError, match="Walked returned a trail with a step from '0' to '2', which no edge joins"):
        Retriever(index, Walked([-1, 0, 2], [0, 1, -1])).retrieve("loom")
    with pytest.raises(InvalidArgumentError, match="Walked returned a chain with a step from '2' to '0'"):
        Retriever(index, Walked([-1, 0, 1], [1, 2, 0])).retrieve("loom")
    with pytest.raises(InvalidArgumentError, match="a chain with row 7; expected rows from -1 to 2"):
        Retriever(index, Walked([-1, 0, 1], [0, 7, 1])).retrieve("loom")


def test_a_query_without_a_hit_says_so():
    index = linked_index()
    walk_without_seeds = Retriever(index, GatedPropagation(gate="uniform"), backfill=False)
    hits = walk_without_seeds.retrieve("engine")
    assert list(hits) == [] and hits.notes == (NOTHING_FOUND,)
    hits = build_retriever("bm25", index, backfill=False, types=["river"]).retrieve("engine")
    assert list(hits) == [] and hits.notes == (NOTHING_FOUND,)
    assert build_retriever("bm25", index).retrieve("engine").notes == ()


def test_a_function_of_the_user_that_fails_is_named_with_its_exception():
    index = GraphIndex.from_texts(["a loom", "a card"])
    with pytest.raises(InvalidArgumentError, match=r"The filter function fails for Node\(id='0'.*KeyError: 'year'") as caught:
        BM25(index).retrieve("loom", filter=lambda node: node.metadata["year"] > 1800)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(InvalidArgumentError, match="fails for Node"):
        GraphIndex.from_texts(["a loom"], edges=lambda node: 1 / 0)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seeds": "5"}, "seeds must be an integer of at least 1, got '5'"),
        ({"damping": [0.5]}, r"damping must lie in \[0, 1\), got \[0.5\]"),
        ({"fuse": torch.ones(2)}, "fuse is .*; expected bool or None."),
        ({"first": BM25Search}, "Pipeline is made of operators, got .*BM25Search'>; call it"),
        ({"name": 3}, "name is 3; expected str or None."),
    ],
)
def test_arguments_of_other_types_are_refused_by_name(options, told):
    index = GraphIndex.from_texts(["a loom"], vectors=[[1.0]])
    with pytest.raises(InvalidArgumentError, match=told):
        PPR(index, **options)
    assert PPR(index, seeds=np.int64(5), damping=np.float32(0.5), fuse=False).k == 10


def test_a_function_gives_the_vectors_of_a_batch():
    index = GraphIndex.from_texts(["a loom", "a card"], vectors=[[1.0, 0.0], [0.0, 1.0]])
    retriever, asked = build_retriever("vector", index, k=1, batch_size=2), []

    def vectors(texts):
        asked.append(texts)
        return [[1.0, 0.0] if text == "loom" else [0.0, 1.0] for text in texts]

    found = retriever.retrieve_batch(["loom", "card", "loom"], vectors=vectors)
    assert [hits[0].id for hits in found] == ["0", "1", "0"] and asked == [["loom", "card"], ["loom"]]
    with pytest.raises(DimensionMismatchError):
        retriever.retrieve_batch(["loom"], vectors=len)
    with pytest.raises(InvalidArgumentError, match="vectors is the class list"):
        retriever.retrieve_batch(["loom"], vectors=list)


def test_a_class_of_the_user_may_annotate_as_it_likes():
    class Loose(Retriever):
        def __init__(self, index, *, depth: str = 3, **options):
            super().__init__(index, BM25Search(depth), **options)

    assert Loose(GraphIndex.from_texts(["a loom"])).retrieve("loom")[0].text == "a loom"


def test_more_rounds_than_any_graph_needs_are_refused():
    with pytest.raises(InvalidArgumentError, match="steps must be at most 1,000, got 1001"):
        GatedPropagation(steps=1001)


def test_what_no_system_can_name_is_not_a_folder():
    for folder in ("x" * 5000, "\0", "\ud800", 5, None):
        with pytest.raises(InvalidArgumentError, match="cannot be a path"):
            GraphIndex.load(folder)


def test_an_integer_of_thousands_of_digits_is_refused_before_it_is_saved():
    with pytest.raises(InvalidArgumentError, match="16610 bits; expected at most 8192"):
        GraphIndex.from_nodes([Node("a", "x", metadata={"n": 10**5000})])
    assert GraphIndex.from_nodes([Node("a", "x", metadata={"n": 2**64})]).graph.metadata == [{"n": 2**64}]


def test_a_query_with_half_of_a_surrogate_pair_is_refused_before_it_is_embedded():
    asked = []
    index = GraphIndex.from_texts(["a loom"], embedding=lambda texts: asked.append(texts) or [[1.0]] * len(texts))
    with pytest.raises(InvalidArgumentError, match="a query is not valid Unicode"):
        build_retriever("vector", index).retrieve("loom \ud800")
    assert asked == [["a loom"]]


def test_vectors_as_tensors_that_hold_no_numbers_or_gradients():
    index = linked_index()
    row = torch.full((64,), 0.125)
    for given in ([row.clone().requires_grad_(), row], torch.stack([row, row]).requires_grad_()):
        found = build_retriever("vector", index).retrieve_batch(["loom", "card"], vectors=given)
        assert [hit.id for hit in found[0]] == [hit.id for hit in build_retriever("vector", index).retrieve("loom", vector=row)]
    for vector in (row.to_sparse(), row.to("meta")):
        with pytest.raises(DimensionMismatchError, match="query vectors"):
            build_retriever("vector", index).retrieve("loom", vector=vector)


@pytest.mark.parametrize("given", [["a"], None, "a graph"])
def test_what_is_not_a_graph_is_refused(given):
    with pytest.raises(InvalidArgumentError, match="expected a CorpusGraph"):
        GraphIndex.from_graph(given)


def test_fractions_and_large_integers_are_numbers():
    found = [PPR(linked_index(), passage_weight=half, damping=half).retrieve("loom") for half in (0.5, Fraction(1, 2))]
    assert [hit.score for hit in found[0]] == [hit.score for hit in found[1]]
    assert PPR(linked_index(), passage_weight=10**25).retrieve("loom")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"k1": "x"}, "k1 must be a number"),
        ({"k1": -1}, "k1 must be a number"),
        ({"b": 2}, "b must lie in"),
        ({"stopwords": "klingon"}, "stopwords is 'klingon'"),
        ({"stopwords": 5}, "stopwords must be a list of strings"),
    ],
)
def test_options_of_bm25_are_checked(options, told):
    with pytest.raises(InvalidArgumentError, match=told):
        Words(["a loom", "a card"], **options)


def test_values_of_networkx_graphs_that_are_arrays():
    graph = networkx.DiGraph()
    graph.add_node("a", text="a loom", title=np.array(["x", "y"]))
    graph.add_edge("a", "b", text=np.array(["p", "q"]), relation=np.array(["r", "s"]))
    (edge,) = from_networkx(graph)[1]
    assert (edge.relation, edge.text) == ("['r' 's']", "['p' 'q']")


@pytest.mark.parametrize("texts", [["the", "a"], ["a loom", "a card"]])
def test_bm25_of_either_backend_moves_between_devices(texts):
    for backend in ("bm25s", "rank-bm25"):
        words = Words(texts, backend=backend)
        assert words.to(torch.device("cpu")).search(["loom"], 2)[1].tolist() == words.search(["loom"], 2)[1].tolist()


class Finds(Algorithm):
    """Candidates that a test gives, whatever was found before."""

    kind = OperatorKind.GRAPH_SEARCH

    def __init__(self, found, k: int | None = None):
        self.found, self.k = found, k

    def search(self, question, found):
        return self.found
        yield


def candidates(nodes, scores, trails=None):
    nodes = np.array(nodes)
    trails = nodes[:, None] if trails is None else np.array(trails)
    return Candidates(nodes, np.array(scores), trails, np.zeros(len(nodes), np.int64), ("Finds",))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([(0, 1.0)], r"Finds\.search returned \[\(0, 1\.0\)\]; expected Candidates"),
        (candidates([1, 1], [2.0, 1.0]), "Finds returned row 1 twice"),
        (candidates([0, 9], [2.0, 1.0]), r"Finds returned row 9 with score 1\.0; expected rows from 0 to 2"),
        (candidates([0, -1], [2.0, 1.0]), r"Finds returned row -1 with score 1\.0"),
        (candidates([0], [float("nan")]), "Finds returned row 0 with score nan"),
        (candidates([0], [1.0, 0.5]), r"Finds returned nodes, scores, trails and relations of the shapes .*; expected \[K\]"),
        (candidates([0.0], [1.0]), "Finds returned float64 rows"),
        (candidates([0], [1.0], [[0, 1]]), "a trail that does not end in its node"),
        (candidates([0], [1.0], [[7, 0]]), "a trail with a row outside the graph"),
        (candidates([2], [1.0], [[0, 2]]), "a path with a step from '0' to '2', which no edge joins"),
    ],
)
def test_what_an_operator_finds_is_checked_inside_a_composition_too(found, message):
    index = GraphIndex.from_texts(["a loom", "a card", "a mill"], edges=[("0", "1")])
    with pytest.raises(InvalidArgumentError, match=message):
        Retriever(index, Pipeline(BM25Search(1), Finds(found))).retrieve("loom")
    with pytest.raises(InvalidArgumentError, match=message):
        Retriever(index, Finds(found)).retrieve("loom")


def test_the_arguments_of_operators_and_retrievers_of_others_are_checked_as_they_say():
    found = candidates([0], [1.0])
    with pytest.raises(InvalidArgumentError, match=r"k is '3'; expected int or None"):
        Finds(found, k="3")
    assert Finds(found, k=3).k == 3

    class Optional(Finds):
        def __init__(self, found, k: int = None, model: "Missing" = 1):  # noqa: F821
            super().__init__(found, k)

    assert Optional(found, k=None, model="any").k is None, "an annotation that cannot be resolved is not read"


def test_a_search_derived_from_one_of_ours_is_checked():
    class Turned(Words):
        def search(self, queries, k, allowed=None):
            scores, rows = super().search(queries, k, allowed)
            return scores.flip(1), rows.flip(1)

    index = GraphIndex.from_texts(["a loom", "a loom and a card"], bm25=False)
    index = GraphIndex(index.graph, {"bm25": Turned(index.graph.contents())})
    with pytest.raises(InvalidArgumentError, match="not in descending order"):
        BM25(index).retrieve("loom card")
