"""At most so many hits of one document: which are left out, what fills up, and how a document is known."""

from collections import Counter
from functools import partial

import numpy as np
import pytest

from graph_retrievers import GraphIndex, Node, Pipeline, Retriever
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.driver import run
from graph_retrievers.core.question import Question
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.addresses import node_source
from graph_retrievers.operators import BM25Search, HybridSearch, PathSearch, VectorSearch
from graph_retrievers.search.memory import MemoryBackend
from graph_retrievers.search.per_source import by_search
from graph_retrievers.search.queries import Queries
from graph_retrievers.stores.remote import RemoteIndex
from graph_retrievers.systems import BM25, MMR, PPR, Hybrid, Vector, WalkFusion
from tests.helpers import HashEmbedding
from tests.remote import MemoryGraph, MemoryVectors

WORDS = "loom card thread mill engine weaver cloth pattern hole lever".split()


def corpus(seed=0, pages=12, field="source"):
    """Pages of one to seven chunks, joined by ``next`` and by random links."""
    draw = np.random.default_rng(seed)
    nodes, edges = [], []
    for page in range(pages):
        for chunk in range(int(draw.integers(1, 8))):
            text = " ".join(draw.choice(WORDS, 6))
            nodes.append(Node(f"{page}:{chunk}", text, metadata={field: f"p{page}.md"}))
            if chunk:
                edges.append((f"{page}:{chunk - 1}", f"{page}:{chunk}", "next"))
    edges += [tuple(map(str, draw.choice([node.id for node in nodes], 2, replace=False))) for _ in range(20)]
    return GraphIndex.from_nodes(nodes, edges, embedding=HashEmbedding())


def capped(ids, source, most, k):
    """The reference: the list without what stands behind so many of its document."""
    kept = []
    for one in ids:
        if sum(source(other) == source(one) for other in kept) < most:
            kept.append(one)
    return kept[:k]


def page_of(name):
    return name.partition(":")[0]


def ids(hits):
    return [hit.id for hit in hits]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("most", [1, 2, 3])
def test_hits_are_those_of_a_longer_list_without_what_stands_behind_so_many_of_its_document(seed, most):
    index = corpus(seed)
    # Of pieces, WalkFusion looks at k itself.
    for kind in (Vector, Hybrid, partial(WalkFusion, form="links")):
        everything = ids(Retriever(index, kind(), k=len(index), per_source=None).retrieve("loom card thread"))
        found = ids(Retriever(index, kind(), k=5, per_source=most).retrieve("loom card thread"))
        assert found == capped(everything, page_of, most, 5)


@pytest.mark.parametrize("kind", [PPR, MMR, WalkFusion, Hybrid])
def test_no_retriever_returns_more_of_a_document_and_a_batch_gives_what_its_questions_give(kind):
    index = corpus(3)
    retriever = Retriever(index, kind(), k=8, per_source=1)
    questions = ["loom card", "engine mill lever", "cloth"]
    batch = [ids(hits) for hits in retriever.retrieve_batch(questions)]
    assert batch == [ids(retriever.retrieve(question)) for question in questions]
    for found in batch:
        assert len(found) == len(set(map(page_of, found))) == 8


def test_what_fills_up_comes_from_other_documents():
    index = corpus(1)
    operator = Pipeline(BM25Search(3))
    hits = Retriever(index, operator, k=9, per_source=1).retrieve("weaver")
    assert {"BM25Search", "Backfill"} == {hit.operator for hit in hits}
    assert len(hits) == len({page_of(hit.id) for hit in hits}) == 9
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    alone = Retriever(index, operator, k=9, per_source=1, backfill=False).retrieve("weaver")
    assert ids(alone) == ids(hits)[: len(alone)] and len(alone) <= 3


def test_fewer_documents_than_hits_give_fewer_hits_and_a_note():
    index = corpus(2, pages=3)
    hits = Retriever(index, Hybrid(), k=10, per_source=2).retrieve("loom")
    assert 0 < len(hits) <= 6 and hits.notes == (f"{len(hits)} of 10 hits: at most 2 of one document",)
    assert not Retriever(index, Hybrid(), k=3, per_source=2).retrieve("loom").notes


def test_filters_hold_where_hits_of_a_document_are_limited():
    index = corpus(4)
    allowed = {"source": {"$in": [f"p{page}.md" for page in range(6)]}}
    hits = Retriever(index, WalkFusion(), k=6, per_source=1).retrieve("thread mill", filter=allowed)
    assert {page_of(hit.id) for hit in hits} == set(map(str, range(6)))
    within = Retriever(index, Hybrid(), k=6, per_source=1).retrieve("thread mill", scope=allowed)
    assert {page_of(hit.id) for hit in within} == set(map(str, range(6)))


def test_a_field_of_its_own_says_what_a_document_is():
    index = corpus(5, field="book")
    assert len({page_of(name) for name in ids(Retriever(index, Hybrid(), k=8, per_source=1).retrieve("loom"))}) < 8
    found = ids(Retriever(index, Hybrid(), k=8, per_source=1, source_field="book").retrieve("loom"))
    assert len(found) == len({page_of(name) for name in found}) == 8


def test_values_that_are_lists_and_nodes_without_the_field_are_told_apart():
    nodes = [Node("a", "loom", metadata={"of": ["x", "y"]}), Node("b", "loom", metadata={"of": ["x", "y"]})]
    nodes += [Node("c", "loom"), Node("d", "loom", metadata={"of": None}), Node("e", "loom", metadata={"of": "c"})]
    index = GraphIndex.from_nodes(nodes, [])
    hits = Retriever(index, BM25Search(), k=5, per_source=1, source_field="of").retrieve("loom")
    assert ids(hits) == ["a", "c", "d", "e"] and not any("metadata field" in note for note in hits.notes)


def test_a_field_that_no_hit_has_is_told():
    hits = Retriever(corpus(), Hybrid(), k=3, per_source=1, source_field="sourec").retrieve("loom")
    assert hits.notes == ("no node found has the metadata field 'sourec': each is taken for a document of its own",)


def test_wrong_arguments_are_refused():
    index = corpus()
    with pytest.raises(InvalidArgumentError, match="per_source must be"):
        Retriever(index, Hybrid(), per_source=0)
    with pytest.raises(InvalidArgumentError, match="give both"):
        Retriever(index, Hybrid(), source_field="source")


def test_a_graph_in_a_database_gives_the_same_hits():
    index = corpus(7)
    stores = MemoryGraph(index.graph), MemoryVectors(index.graph.ids, index.dense.vectors)
    remote = RemoteIndex(stores[0], vectors=stores[1], signals={"bm25": index.bm25}, embedding=index.embedding)
    operator = Pipeline(HybridSearch(20, returned=False), PathSearch(5))
    for most in (1, 2):
        here = Retriever(index, operator, k=6, per_source=most).retrieve("loom card thread")
        there = Retriever(remote, operator, k=6, per_source=most).retrieve("loom card thread")
        assert ids(here) == ids(there) and len(set(map(page_of, ids(here)))) >= 6 // most


def test_the_document_of_a_llama_index_node_comes_before_its_page():
    origin = {"relationships": {"1": {"node_id": "doc"}}}
    assert node_source("n", {"file_path": "a.md"}, origin) == "doc"
    nodes = [Node(str(n), "loom", metadata={"file_path": f"{n}.md"}, origin=origin) for n in range(3)]
    assert ids(Retriever(GraphIndex.from_nodes(nodes, []), BM25Search(), k=2, per_source=1).retrieve("loom")) == ["0"]


def test_the_operators_are_asked_once_and_only_deeper():
    """A limit costs no second search, and lists as long as before are asked for without one."""
    index = corpus(8)
    asked = {}
    for most in (None, 2):
        trace = Retriever(index, VectorSearch(), k=4, per_source=most).retrieve("loom").trace
        asked[most] = [(call.request.__name__, call.questions) for call in trace if call.request.__name__ == "Nearest"]
    assert len(asked[None]) == len(asked[2]) == 1


def test_frameworks_take_the_limit_and_know_the_document_of_their_chunks():
    from langchain_core.documents import Document as Page
    from langchain_text_splitters import RecursiveCharacterTextSplitter
    from llama_index.core import Document
    from llama_index.core.node_parser import SentenceSplitter

    import langchain_graph_retrievers as langchain
    import llama_graph_retrievers as llama

    texts = {f"p{n}.md": " ".join(f"{word} {word}s." for word in WORDS * 4) for n in range(4)}
    chunks = RecursiveCharacterTextSplitter(chunk_size=120, chunk_overlap=0).split_documents(
        [Page(text, metadata={"source": path}) for path, text in texts.items()]
    )
    retriever = langchain.GraphRetriever.from_documents(chunks, HashEmbedding(), system="hybrid", edges=[], per_source=1)
    assert sorted(found.metadata["source"] for found in retriever.invoke("loom cards")) == sorted(texts)
    default = langchain.GraphRetriever.from_documents(chunks, HashEmbedding(), edges=[], per_source=2, k=5)
    assert len(default.invoke("loom cards")) == 5
    assert max(Counter(found.metadata["source"] for found in default.invoke("loom cards")).values()) == 2
    nodes = SentenceSplitter(chunk_size=40, chunk_overlap=0).get_nodes_from_documents([Document(text=t) for t in texts.values()])
    made = llama.GraphRetriever.from_defaults(nodes=nodes, embed_model=HashEmbedding(), edges=[], per_source=1, system="hybrid")
    found = [one.node.ref_doc_id for one in made.retrieve("loom cards")]
    assert len(nodes) > 8 and len(found) == len(set(found)) == 4


@pytest.mark.parametrize(
    ("kind", "backfill"),
    [(Vector, True), (BM25, True), (Hybrid, True), (PPR, True), (WalkFusion, True), (Vector, False), (BM25, False)],
)
def test_documents_of_many_chunks_alike_do_not_end_the_search(kind, backfill):
    texts = [
        f"the loom weaves {WORDS[page % 10]} page{page} {'loom ' * (12 - page)}{chunk}" for page in range(12) for chunk in range(40)
    ]
    pages = [{"source": f"p{place // 40}.md"} for place in range(len(texts))]
    edges = [(str(place), str((place + 7) % len(texts)), "next") for place in range(len(texts))]
    index = GraphIndex.from_texts(texts, metadatas=pages, edges=edges, embedding=HashEmbedding())
    retriever = Retriever(index, kind(), per_source=1, k=10, backfill=backfill)
    for hits in (retriever.retrieve("loom"), retriever.retrieve("loom", filter={"source": {"$ne": "p0.md"}})):
        assert len({hit.metadata["source"] for hit in hits}) == len(hits) == 10
        assert not hits.notes
    hits = Retriever(index, kind(), per_source=1, k=20, backfill=backfill).retrieve("loom")
    assert len(hits) == 12 and hits.notes == ("12 of 20 hits: at most 1 of one document",)


def test_a_field_that_no_node_has_is_warned_of(caplog):
    Retriever(corpus(field="book"), Hybrid(), per_source=1, source_field="book")
    assert not caplog.records
    Retriever(corpus(field="book"), Hybrid(), per_source=1, source_field="bok")
    assert ["no node has the metadata field source_field='bok'" in one.getMessage() for one in caplog.records] == [True]


def test_no_document_has_more_places_in_front_than_search_gives_it():
    names = ["a:0", "a:1", "a:2", "b:0", "b:1", "c:0", "c:1", "b:2"]
    nodes = [Node(name, "a loom", metadata={"source": name[0]}) for name in names]
    question = Question(MemoryBackend(Queries.of(GraphIndex.from_nodes(nodes, []), ["loom"], k=3)), 0)
    found = Candidates.seeds(np.arange(8), np.arange(8.0, 0, -1), "Fused")
    # The first three of search are a:0, b:0 and a:2; c is not found by it, b:1 is its fourth.
    found.columns["ranks"], found.lists = np.array([[1], [0], [3], [2], [4], [0], [0], [5]]), ("HybridSearch",)
    (after,) = run(MemoryBackend(question.queries), [by_search(question, found)])
    assert [names[row] for row in after.nodes] == ["a:0", "a:1", "b:0", "c:0", "a:2", "b:1", "c:1", "b:2"]
    assert after.scores.tolist() == found.scores.tolist()
    # What is not fused, and nothing, stay as they are.
    assert run(None, [by_search(question, found.unranked()), by_search(question, Candidates.none())])[0].nodes is found.nodes
