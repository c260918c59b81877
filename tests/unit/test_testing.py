"""The checks for other people's classes: ours pass, and each thing that is wrong is told."""

import numpy as np
import pytest
import torch

from graph_retrievers import GraphIndex, Hit, Hits, Retriever
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.operator import Operator, OperatorKind
from graph_retrievers.core.requests import Nearest, Neighbors
from graph_retrievers.errors import DimensionMismatchError, GraphRetrieverError, InvalidVectorError
from graph_retrievers.hits import NodePath
from graph_retrievers.operators import BM25Search, GatedPropagation, Pipeline, VectorSearch
from graph_retrievers.retrievers.protocol import BaseRetriever
from graph_retrievers.signals.relevance import RelevanceModel
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.testing import check_operator, check_retriever
from tests.helpers import HashEmbedding, linked_index
from tests.model_checks import check_embedding, check_relevance
from tests.remote import QUESTIONS, Letters, MemoryGraph, MemoryVectors, MemoryWords, random_corpus
from tests.store_checks import check_stores

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
        return [self.hit(hit.id, hit.score - 0.001 * (len(call.queries) > 1)) for hit in super().found(words, call, allowed)]


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
        return super().found(words[::-1] if self.calls > 6 else words, call, allowed)


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


class Shut(Echo):
    def found(self, words, call, allowed):
        return super().found(words, call, allowed) if allowed is None else []


class Fixed(Echo):
    def search(self, call):
        return [Hits(self.found(text.split()[:2], call, call.filters.get("filter", {}).get("$id"))) for text in call.queries]


class Apart(Echo):
    async def aretrieve(self, query, k=None, **arguments):
        return self.retrieve(query[::-1], k, **arguments)


class Astray(Echo):
    def hit(self, word, score):
        return Hit(word, word, score, self.name, NodePath((word, "elsewhere")))


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
        (Open, "the query '' has hits without a filter"),
        (Nothing, "no query found anything"),
        (Shut, "lets half of the hits through gives none"),
        (Fixed, "has 2 nodes, and k=1"),
        (Apart, "of aretrieve, and of retrieve"),
        (Astray, "does not end there"),
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
                Hits(self.found([tag or text], call, call.filters.get("filter", {}).get("$id")))
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


class Next(Operator):
    kind = OperatorKind.VECTOR_GRAPH_SEARCH

    def search(self, question, start):
        nodes, _ = yield Nearest(1, "bm25")
        near = yield Neighbors(nodes)
        return Candidates.seeds(near.node, np.ones(len(near.node)), self.name)


def test_a_walk_that_never_returns_its_start_passes():
    # With the filter of a hit alone, it may not start at the text that the question names.
    index = GraphIndex.from_texts(["a loom", "a card", "a mill", "a wheel"], edges=[("0", "1"), ("2", "3")])
    assert [hit.text for hit in Retriever(index, Next(), backfill=False).retrieve("Which loom?")] == ["a card"]
    assert not Retriever(index, Next(), backfill=False).retrieve("Which loom?", filter={"$id": "1"})
    check_retriever(Retriever(index, Next(), backfill=False), ["Which loom?", "Which mill?"])


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
        (lambda texts: [[float(place), 1.0] for place in range(len(texts))], "a text has another vector in another order"),
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


class Turned(Letters):
    def embed_queries(self, texts):
        return self.embed_documents(texts)[::-1]


class Worn(Letters):
    calls = 0

    def embed_query(self, text):
        self.calls += 1
        return [1.0, self.calls]

    def embed_documents(self, texts):
        return [[1.0, 2.0] for _ in texts]


class Alone(Letters):
    def embed_queries(self, texts):
        return [[float(len(texts)), 1.0] for _ in texts]

    def embed_documents(self, texts):
        return [[1.0, 2.0] for _ in texts]


@pytest.mark.parametrize(
    ("model", "told"),
    [(Turned(), "a query has another vector"), (Worn(), "a query has"), (Alone(), "the query .* than alone")],
)
def test_an_embedding_of_queries_that_depends_on_company_is_told(model, told):
    with pytest.raises(AssertionError, match=told):
        check_embedding(model)


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

    def encode_lists(self, lists):
        return [(self.encode([query], texts), "") for query, texts in lists]

    def score(self, latent):
        return latent[:, 0]


class Beside(Listwise):
    def encode_lists(self, lists):
        return RelevanceModel.encode_lists(self, lists)


class FirstQuery(Listwise):
    def encode(self, queries, texts):
        return torch.tensor([[float(len(queries[0]) * len(text))] for text in texts])

    encode_lists = RelevanceModel.encode_lists


def test_a_relevance_model_that_judges_lists_says_so():
    check_relevance(Listwise(True))
    for model in (Listwise(False), FirstQuery(False)):
        with pytest.raises(AssertionError, match="set listwise if that is meant"):
            check_relevance(model)
    for model in (Beside(True), FirstQuery(True)):
        with pytest.raises(AssertionError, match="score otherwise beside those of another query"):
            check_relevance(model)


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


def changed(**values):
    def spoil(graph, vectors, words):
        graph.edges = [*graph.edges[:5], graph.edges[5]._replace(**values), *graph.edges[6:]]

    return spoil


def lost_edge(graph, vectors, words):
    lost = graph.edges[5]
    graph.edges = [edge for edge in graph.edges if {edge.source, edge.target} != {lost.source, lost.target}]
    graph.near[lost.source].discard(lost.target)
    graph.near[lost.target].discard(lost.source)


def one_more_edge(graph, vectors, words):
    graph.edges = [*graph.edges, graph.edges[5]._replace(position=1000)]


def degree(graph, vectors, words):
    graph.near[graph.graph.ids[0]].add("elsewhere")


def lacks(**values):
    def spoil(graph, vectors, words):
        plain = graph.node
        graph.node = lambda row, text=False: plain(row, text)._replace(**values)

    return spoil


def unread(part):
    def spoil(graph, vectors, words):
        plain = graph.read
        graph.read = lambda **asked: plain(**asked | {part: ()})

    return spoil


def no_schema(graph, vectors, words):
    graph.schema = lambda: ([], [])


def other_terms(graph, vectors, words):
    plain = words.term_scores
    words.term_scores = lambda pairs: [terms[:1] for terms in plain(pairs)]


def open_words(graph, vectors, words):
    words.within = lambda ids: words


def open_graph(graph, vectors, words):
    graph.within = lambda scope: graph


def open_vectors(graph, vectors, words):
    vectors.within = lambda ids: vectors


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lacks_node, "the graph store has 3 nodes, and the index 60"),
        (lacks(title="Other"), "as title of"),
        (lacks(type=""), "as type of"),
        (lacks(metadata={}), "as metadata of"),
        (unread("titles"), r"finds \[\] by the title 'title 0'"),
        (unread("names"), r"finds \[\] by the name"),
        (no_schema, "has the schema"),
        (other_order, "by something else than the cosine"),
        (too_few, "the vector store has 4 nodes"),
        (no_vectors, "the vector store has no vector of"),
        (rising, "do not fall"),
        (other_terms, "for the terms of"),
        (open_words, "has other nodes"),
        (open_graph, "was not in the scope|within a scope"),
        (open_vectors, "found a node outside the scope"),
        (changed(relation="other"), "does not have the edge"),
        (changed(weight=9.0), "does not have the edge"),
        (changed(text="other"), "does not have the edge"),
        (changed(source="x", target="y"), "does not have the edge"),
        (lost_edge, "does not have the edge"),
        (one_more_edge, "has the edge .* which the index does not have"),
        (degree, "neighbours, and its property says"),
    ],
)
def test_what_a_store_lacks_is_told(spoil, told):
    index, graph, vectors, words = stored()
    spoil(graph, vectors, words)
    with pytest.raises((AssertionError, GraphRetrieverError), match=told):
        check_stores(index, graph, vectors, QUESTIONS, words=words)
