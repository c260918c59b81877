"""The checks for other people's classes: ours pass, and each thing that is wrong is told."""

import pytest
import torch

from graph_retrievers import GraphIndex, Hit, Hits
from graph_retrievers.errors import DimensionMismatchError, GraphRetrieverError, InvalidVectorError
from graph_retrievers.hits import NodePath
from graph_retrievers.operators import BM25Search, GatedPropagation, Pipeline, VectorSearch
from graph_retrievers.retrievers.protocol import BaseRetriever
from graph_retrievers.search.candidates import Candidates
from graph_retrievers.search.operator import Operator, OperatorKind
from graph_retrievers.search.requests import Nearest, Neighbors
from graph_retrievers.signals.embedding import minilm
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.testing import check_embedding, check_operator, check_relevance, check_retriever, check_stores
from tests.helpers import HashEmbedding, linked_index
from tests.remote import QUESTIONS, Letters, MemoryGraph, MemoryVectors, MemoryWords, random_corpus

QUERIES = ["Which loom?", "Which card?"]


class Echo(BaseRetriever):
    """Finds words of the query; a subclass goes wrong."""

    name, k = "Echo", 5

    def search(self, call):
        allowed = call.filters.get("filter", {}).get("$id")
        return [Hits(self.found([*dict.fromkeys(text.split())], call, allowed)[: call.k]) for text in call.queries]

    def found(self, words, call, allowed):
        kept = [word for word in words if allowed is None or word in (allowed["$in"] if isinstance(allowed, dict) else [allowed])]
        return [self.hit(word, 1.0 - place / 10) for place, word in enumerate(kept)]

    def hit(self, word, score):
        return Hit(word, word, score, self.name, NodePath((word,)))


class Company(Echo):
    def found(self, words, call, allowed):
        return super().found(words[:1] if len(call.queries) > 1 else words, call, allowed)


class Drifting(Echo):
    def found(self, words, call, allowed):
        return [
            self.hit(hit.id, hit.score - 0.001 * (len(call.queries) > 1)) for hit in super().found(words, call, allowed)
        ]


class Generous(Echo):
    def retrieve_batch(self, queries, k=None, **arguments):
        return super().retrieve_batch(queries, k, **arguments) if queries else [Hits(())]


class Last(Echo):
    def search(self, call):
        self.last = call.queries[-1]
        found = super().search(call)
        return found if len(call.queries) == 1 else [*found[:-1], Hits(())]


class Counting(Echo):
    calls = 0

    def found(self, words, call, allowed):
        self.calls += len(call.queries) == 1
        return super().found(words[::-1] if self.calls > 2 else words, call, allowed)


class Twice(Echo):
    def found(self, words, call, allowed):
        return super().found(words, call, allowed)[:1] * 2


class Rising(Echo):
    def found(self, words, call, allowed):
        return super().found(words, call, allowed)[::-1]


class Infinite(Echo):
    def hit(self, word, score):
        return super().hit(word, float("inf"))


class Unfiltered(Echo):
    def found(self, words, call, allowed):
        return super().found(words, call, None if isinstance(allowed, dict) else allowed)


class Deaf(Echo):
    def found(self, words, call, allowed):
        return super().found(words, call, None)


class Many(Echo):
    def search(self, call):
        return [
            Hits(self.found([*dict.fromkeys(text.split()), "more"], call, call.filters.get("filter", {}).get("$id")))
            for text in call.queries
        ]


class Late(Echo):
    async def aretrieve_batch(self, queries, k=None, **arguments):
        return self.retrieve_batch(queries[::-1], k, **arguments)


class Open(Echo):
    def retrieve(self, query, k=None, **arguments):
        return super().retrieve(query if query.strip() else "nothing", k, **arguments)


class Nothing(Echo):
    def found(self, words, call, allowed):
        return []


def test_a_retriever_that_keeps_the_contract_passes():
    check_retriever(Echo(), QUERIES)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Company, "in a batch, and alone"),
        (Last, "twice in one batch"),
        (Drifting, "the scores .* of 'Which'"),
        (Generous, "a batch of no queries has hits"),
        (Counting, "from several threads, and alone"),
        (Late, "of aretrieve_batch, and of retrieve_batch"),
        (Twice, "a node twice"),
        (Rising, "do not fall"),
        (Infinite, "not finite"),
        (Deaf, "lets nothing through gives hits"),
        (Unfiltered, "which the filter does not let through"),
        (Many, "has 3 nodes, and k=2"),
        (Open, "the query '' is not refused"),
        (Nothing, "no query found anything"),
    ],
)
def test_what_breaks_the_contract_is_told(kind, told):
    with pytest.raises(AssertionError, match=told):
        check_retriever(kind(), QUERIES, k=2)


def test_one_query_is_too_few():
    with pytest.raises(AssertionError, match="two queries or more, got 1"):
        check_retriever(Echo(), QUERIES[:1])


def test_the_inputs_of_a_retriever_are_given_with_its_queries():
    class Tagged(Echo):
        inputs = ("tag",)

        def search(self, call):
            tags = call.inputs.get("tag", [""] * len(call.queries))
            return [
                Hits([self.hit(tag or text, 1.0)]) if "filter" not in call.filters else Hits(())
                for text, tag in zip(call.queries, tags, strict=True)
            ]

    check_retriever(Tagged(), QUERIES, inputs={"tag": ["a", "b"]})


# -- operators ----------------------------------------------------------------------------------------------------


INDEX = linked_index(HashEmbedding())


def test_operators_of_the_package_pass():
    check_operator(BM25Search(), INDEX, ["Who used punched cards?", "Who wrote programs?"])
    check_operator(Pipeline(VectorSearch(3), GatedPropagation()), INDEX, ["Who used punched cards?", "Who wrote programs?"])


class Beyond(Operator):
    kind = OperatorKind.VECTOR_SEARCH

    def search(self, question, start):
        nodes, scores = yield Nearest(3)
        yield Neighbors(nodes)
        return Candidates.seeds(nodes, scores, self.name)


def test_an_operator_of_another_kind_is_told():
    with pytest.raises(AssertionError, match="Beyond declares the kind O_vs, and asks as O_vgs"):
        check_operator(Beyond(), INDEX, ["Who used punched cards?", "Who wrote programs?"])


# -- models -------------------------------------------------------------------------------------------------------


def test_models_of_the_package_pass():
    check_embedding(minilm())
    check_embedding(Letters())
    check_relevance(lambda pairs: [float(len(text)) for _, text in pairs])


@pytest.mark.parametrize(
    ("embed", "told"),
    [
        (lambda texts: [[float(place), 1.0] for place in range(len(texts))], "in another order of texts"),
        (lambda texts: [[float(len(texts)), 1.0] for _ in texts], "among others than alone"),
    ],
)
def test_an_embedding_that_depends_on_company_is_told(embed, told):
    with pytest.raises(AssertionError, match=told):
        check_embedding(embed)


class Odd(Letters):
    def __init__(self, vector):
        self.vector = vector

    def embed_query(self, text):
        return self.vector

    def embed_documents(self, texts):
        return Letters().embed_documents(texts)


@pytest.mark.parametrize("vector", [[float("inf")] * 2, [1.0, 2.0, 3.0]])
def test_an_embedding_of_queries_that_cannot_be_compared_with_texts_is_refused(vector):
    with pytest.raises((InvalidVectorError, DimensionMismatchError)):
        check_embedding(Odd(vector))


def test_an_embedding_with_other_shapes_is_refused_as_everywhere():
    with pytest.raises(ValueError, match="NaN"):
        check_embedding(lambda texts: [[float("nan")] for _ in texts])


class Listwise(RelevanceModel):
    def __init__(self, listwise):
        self.listwise = listwise

    def encode(self, queries, texts):
        return torch.full((len(texts), 1), float(len(texts)))

    def score(self, latent):
        return latent[:, 0]


def test_a_relevance_model_that_judges_lists_says_so():
    check_relevance(Listwise(True))
    with pytest.raises(AssertionError, match="set listwise if that is meant"):
        check_relevance(Listwise(False))


@pytest.mark.parametrize(("give", "told"), [(float("nan"), "NaN"), (None, "have scores of shape")])
def test_scores_are_one_finite_number_a_text(give, told):
    class Strange(Listwise):
        def score(self, latent):
            return latent if give is None else torch.full((len(latent),), give)

    with pytest.raises(AssertionError, match=told):
        check_relevance(Strange(True))


# -- stores -------------------------------------------------------------------------------------------------------


def stored(seed=0):
    nodes, edges, vectors = random_corpus(seed)
    index = GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="cosine", embedding=Letters())
    return index, MemoryGraph(index.graph), MemoryVectors(index.graph.ids, vectors), MemoryWords(index)


def test_stores_that_hold_an_index_pass():
    index, graph, vectors, words = stored()
    check_stores(index, graph, vectors, QUESTIONS)
    check_stores(index, graph, vectors, QUESTIONS, words=words)


def lacks_node(graph, vectors, words):
    graph.sample = lambda count: (3, None)


def other_text(graph, vectors, words):
    plain = graph.node
    graph.node = lambda row, text=False: plain(row, text)._replace(title="Other")


def other_order(graph, vectors, words):
    plain = vectors.search
    vectors.search = lambda given, k: [names[::-1] for names in plain(given, k)]


def too_few(graph, vectors, words):
    plain = vectors.search
    vectors.search = lambda given, k: [list(names)[1:] for names in plain(given, k)]


def no_vectors(graph, vectors, words):
    vectors.vectors = lambda ids: {}


def rising(graph, vectors, words):
    plain = words.search
    words.search = lambda texts, k: [pairs[::-1] for pairs in plain(texts, k)]


def other_weights(graph, vectors, words):
    graph.edges = [edge._replace(relation="other") for edge in graph.edges]


def lost_edge(graph, vectors, words):
    graph.edges = graph.edges[3:]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lacks_node, "the graph store has 3 nodes, and the index 60"),
        (other_text, "as text and title of"),
        (other_order, "by something else than the cosine"),
        (too_few, "the vector store has 4 nodes"),
        (no_vectors, "the vector store has no vector of"),
        (rising, "do not fall"),
        (other_weights, "on the stores, and on the index"),
        (lost_edge, "has 4 neighbours, and its property says 5"),
    ],
)
def test_what_a_store_lacks_is_told(spoil, told):
    index, graph, vectors, words = stored()
    spoil(graph, vectors, words)
    with pytest.raises((AssertionError, GraphRetrieverError), match=told):
        check_stores(index, graph, vectors, QUESTIONS, words=words)
