"""HippoRAG, the first, against its equations written out, and a worked example."""

import random

import pytest

from graph_retrievers import Edge, GraphIndex, HippoRAG1, Node, Pipeline, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.operators import BM25Search
from graph_retrievers.search.queries import Queries
from graph_retrievers.systems.spreading.linking import EntityLinking
from tests.references.hipporag import synonym_edges
from tests.references.hipporag_1 import retrieve

# Directions of names: the first two are synonyms at 0.8.
AXES = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]


class Names:
    """The vector of a name is that of its last letter."""

    name = "names"

    def embed_documents(self, texts):
        return [AXES["abc".index(text[-1])] if text and text[-1] in "abc" else [0.6, -0.8] for text in texts]

    def embed_query(self, text):
        return [0.6, -0.8]


def random_graph(rng):
    """Phrases, then passages; facts between phrases, and links of passages to phrases, some of them twice."""
    count, passages = rng.randrange(1, 7), rng.randrange(1, 6)
    names = [f"{rng.choice(('phrase', 'x'))}{row}{rng.choice('abc')}" for row in range(count)]
    facts = [(rng.randrange(count), rng.randrange(count), rng.choice([1.0, 2.0])) for _ in range(rng.randrange(2 * count))]
    links = [(count + rng.randrange(passages), rng.randrange(count)) for _ in range(rng.randrange(1, 3 * passages))]
    return names, facts, links, count, passages


def index_of(names, facts, links, passages, model=Names):
    nodes = [Node(f"n{row}", "", name, "thing") for row, name in enumerate(names)]
    nodes += [Node(f"n{len(names) + row}", f"text {row}", type="passage") for row in range(passages)]
    edges = [Edge(f"n{a}", f"n{b}", weight=weight) for a, b, weight in facts] + [Edge(f"n{a}", f"n{b}") for a, b in links]
    return GraphIndex.from_nodes(nodes, edges, embedding=model(), metric="cosine")


def check(seed, cases):
    rng = random.Random(seed)
    for _ in range(cases):
        names, facts, links, count, passages = random_graph(rng)
        seeds = sorted(rng.sample(range(count), rng.randrange(1, min(count, 3) + 1)))
        vectors = Names().embed_documents(names)
        cosines = [[sum(x * y for x, y in zip(one, two, strict=True)) for two in vectors] for one in vectors]
        damping = rng.choice([0.0, 0.5, 0.9])
        expected = retrieve(count + passages, facts, links, synonym_edges(names, cosines), seeds, damping)
        retriever = Retriever(index_of(names, facts, links, passages), HippoRAG1(damping=damping), k=99, backfill=False)
        hits = retriever.retrieve("?", entities=[names[seed] for seed in seeds])
        assert [hit.id for hit in hits] == [f"n{passage}" for passage, _ in expected]
        assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=1e-5)


def test_walks_as_written_out():
    check(0, 60)


@pytest.mark.slow
def test_walks_as_written_out_in_a_thousand_graphs():
    check(1, 1000)


def test_worked_example():
    # Of the two seeds, 0 is in one passage and 1 in two: they restart with 1 and 1/2. Without a walk (damping 0) the shares are
    # 2/3 and 1/3. Passage 3 has both phrases, passage 4 the second one twice, passage 5 only the phrase 2, which has no share.
    index = index_of(["anna", "bella", "cecil"], [(0, 1, 1.0)], [(3, 0), (3, 1), (4, 1), (4, 1), (5, 2)], 3)
    hits = Retriever(index, HippoRAG1(damping=0.0), backfill=False).retrieve("?", entities=["anna", "bella"])
    assert [(hit.id, round(hit.score, 3), hit.path.nodes) for hit in hits] == [
        ("n3", 1.0, ("n0", "n3")),
        ("n4", 0.667, ("n1", "n4")),
    ]


def test_an_entity_without_a_phrase_of_its_name_restarts_at_the_most_similar_phrase_alone():
    class Asked(Names):
        """Of a node without a text, the vector of its title and of a name are the same."""

        def embed_documents(self, texts):
            return super().embed_documents([text.rstrip(". ") for text in texts])

        def embed_query(self, text):
            return self.embed_documents([text])[0]

    # Seven entities, more than a question's vector finds phrases, have two directions, which are those of two phrases.
    index = index_of(["anna", "deb", "cec"], [], [(3, 0), (4, 1), (5, 2)], 3, Asked)
    retriever = Retriever(index, HippoRAG1(damping=0.0, synonyms=None), backfill=False)
    for entities, expected in ((["Maria"], ["n3"]), (["Maria", *(f"{n} of mac" for n in range(6))], ["n3", "n5"])):
        assert [hit.id for hit in retriever.retrieve("?", entities=entities)] == expected


def test_where_every_node_is_phrase_and_passage_it_contains_its_own_phrase_and_those_it_leads_to():
    nodes = [Node(name, f"text of {name}", name) for name in ("loom", "card", "mill")]
    index = GraphIndex.from_nodes(nodes, [("loom", "card")], vectors=[[1, 0], [0, 1], [0, 1]])
    hits = Retriever(index, HippoRAG1(damping=0.0), backfill=False).retrieve("?", entities=["card"], vector=[1, 0])
    assert [(hit.id, round(hit.score, 3)) for hit in hits] == [("loom", 1.0), ("card", 1.0)]


def test_a_node_that_is_phrase_and_passage_contains_its_own_phrase_once():
    nodes = [Node(name, f"text of {name}", name) for name in ("loom", "card")]
    index = GraphIndex.from_nodes(nodes, [("loom", "card"), ("card", "card", "itself")], vectors=[[1, 0], [0, 1]])
    hits = Retriever(index, HippoRAG1(damping=0.0), backfill=False).retrieve("?", entities=["card"], vector=[1, 0])
    assert [(hit.id, round(hit.score, 3)) for hit in hits] == [("loom", 1.0), ("card", 1.0)]


def test_the_operator_alone_ranks_passages_and_no_phrases():
    index = index_of(["anna", "bob", "cec"], [(0, 1, 1.0), (1, 2, 1.0)], [(3, 0), (4, 1)], 2)
    walk = Retriever(index, Pipeline(EntityLinking(budget=0), HippoRAG1().operator()), backfill=False)
    assert [hit.id for hit in walk.retrieve("?", entities=["anna"])] == ["n3", "n4"]
    # Without a phrase it is vector search over passages.
    assert sorted(hit.id for hit in walk.retrieve("?", entities=["nobody"])) == ["n3", "n4"]


def test_a_walk_from_passages_alone_visits_no_phrase():
    index = index_of(["anna"], [], [(1, 0)], 1)
    search = Pipeline(BM25Search(1, returned=False), HippoRAG1().operator())
    assert list(Retriever(index, search, backfill=False).retrieve("text")) == []


def test_passages_that_may_not_be_walked_to_are_not_found():
    index = index_of(["anna", "bob"], [(0, 1, 1.0)], [(2, 0), (3, 0), (4, 1)], 3)
    retriever = Retriever(index, HippoRAG1(), backfill=False)
    hits = retriever.retrieve("?", entities=["anna"], traversal_filter={"$id": {"$in": ["n3", "n4"]}})
    assert [hit.id for hit in hits] == ["n3"], "bob may not be walked to either"
    # Where every node is a phrase and a passage, a seed is found by its own phrase, and not by the phrase of another.
    nodes = [Node(name, f"text of {name}", name) for name in ("loom", "card", "mill")]
    index = GraphIndex.from_nodes(nodes, [("loom", "card"), ("mill", "card")], vectors=[[1, 0], [0, 1], [0, 1]])
    asked = {"entities": ["loom", "card"], "vector": [1, 0], "traversal_filter": {"$id": "card"}}
    hits = Retriever(index, HippoRAG1(), backfill=False).retrieve("?", **asked)
    assert sorted((hit.id, hit.path.nodes) for hit in hits) == [("card", ("card",)), ("loom", ("loom",))]


def test_passages_that_may_not_be_returned_take_no_place():
    # 120 passages of one phrase, and the last one with another phrase, which has a smaller share.
    links = [*((2 + row, 0) for row in range(120)), (122, 1)]
    index = index_of(["anna", "bob"], [(0, 1, 1.0)], links, 121)
    retriever = Retriever(index, HippoRAG1(), k=1, backfill=False)
    hits = retriever.retrieve("?", entities=["anna"], filter={"$id": "n122"}, seed_filter={})
    assert [hit.id for hit in hits] == ["n122"]
    # What it finds is more than k, for a fusion to read.
    questions = retriever.questions(Queries.of(index, ["What of anna?"], k=1))
    assert [len(found) for found in retriever.rank(questions)] == [100]


@pytest.mark.parametrize("synonyms", [0, 1.5, -1])
def test_a_similarity_of_synonyms_that_none_can_have_is_refused(synonyms):
    index = index_of(["anna"], [], [(1, 0)], 1)
    with pytest.raises(InvalidArgumentError, match="synonyms must be a cosine above 0 and at most 1, or None"):
        Retriever(index, HippoRAG1(synonyms=synonyms))


def test_a_batch_is_its_questions_one_by_one_and_no_phrase_leaves_vector_search():
    names, facts, links, _, passages = random_graph(random.Random(3))
    retriever = Retriever(index_of(names, facts, links, passages), HippoRAG1())
    questions = [f"What of {names[0]}?", f"And {names[-1]}?"]
    batch = [[(hit.id, round(hit.score, 6)) for hit in hits] for hits in retriever.retrieve_batch(questions)]
    assert batch == [[(hit.id, round(hit.score, 6)) for hit in retriever.retrieve(question)] for question in questions]
    nothing = retriever.retrieve("?", seed_filter={"$type": "passage"}, entities=names[:1])
    assert nothing and {hit.operator for hit in nothing} == {"VectorSearch"} and {hit.type for hit in nothing} == {"passage"}
