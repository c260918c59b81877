"""What questions cite by number comes first in PostgreSQL, as in memory."""

import threading
from dataclasses import replace

import pytest

from graph_retrievers import GraphIndex, Node, Retriever, WalkFusion
from graph_retrievers.construction import NumberedReferences
from graph_retrievers.errors import DatabaseError, TimeLimitError
from graph_retrievers.stores.postgres import graph, open_index, update_index, write_index
from graph_retrievers.stores.postgres.graph import PostgresGraph
from tests.helpers import HashEmbedding
from tests.remote import assert_same

pytestmark = pytest.mark.slow

LOOM, MILL = "Loom Act (LA)", "Mill Act (MA)"


def article(act, number, text, **metadata):
    page = {LOOM: "la.md", MILL: "ma.md"}[act]
    metadata = {"path": page, "headings": [act, f"Article {number} – Aim"], **metadata}
    return Node(f"{page}#{number}", text, f"{act}: Article {number}", metadata=metadata)


NODES = [
    *(article(LOOM, n, f"{n}. Looms weave.\n1. Cards are read.\n2. As in Article {n % 9 + 1}.", year=n) for n in range(1, 10)),
    Node("style", "How to write.", "PEP 8 – Style", metadata={"path": "style.md"}),
    *(article(MILL, n, f"Mills grind number {n}. See Article {n % 9 + 1} of the Loom Act.", year=n) for n in range(1, 8)),
]
QUESTIONS = [
    "What does Article 4 of the Loom Act say?",
    "Article 1 of the Loom Act",
    "PEP 8",
    "Article 9",
    "Article 2",
    "Article 3(2) Loom Act and Article 5 Mill Act",
    "Articles 2 to 4 of the Mill Act",
    "Who mends looms?",
]


@pytest.fixture(autouse=True)
def pages(monkeypatch):
    """Several round trips list the nodes, as for a large index."""
    monkeypatch.setattr(graph, "_LISTED", 3)


@pytest.fixture
def index():
    return GraphIndex.from_documents(NODES, edges=[NumberedReferences()], embedding=HashEmbedding())


def opened(postgres, **options):
    return open_index(postgres, "acts", embedding=HashEmbedding(), **options)


@pytest.mark.parametrize(
    "conditions", [{}, {"filter": {"year": {"$gte": 3}}}, {"scope": {"path": "la.md"}}, {"scope": {"year": {"$lt": 5}}}]
)
def test_a_cited_article_comes_first_there_too(postgres, index, conditions):
    write_index(index, postgres, "acts")
    local, remote = Retriever(index, WalkFusion()), Retriever(opened(postgres), WalkFusion())
    assert opened(postgres).looks_up
    expected = [local.retrieve(question, k=6, **conditions) for question in QUESTIONS]
    assert_same([remote.retrieve(question, k=6, **conditions) for question in QUESTIONS], expected)
    assert_same(remote.retrieve_batch(QUESTIONS, k=6, **conditions), expected)
    if not conditions:
        assert [hits[0].id for hits in expected[:4]] == ["la.md#4", "la.md#1", "style", "la.md#9"]
        assert [hit.id for hit in expected[5]][:2] == ["la.md#3", "ma.md#5"]


def test_a_scope_has_numbers_of_its_own(postgres, index):
    write_index(index, postgres, "acts")
    whole = opened(postgres)
    assert whole.look_up("Article 2 of the Mill Act") == index.look_up("Article 2 of the Mill Act") == [[11]]
    for act, row in (("ma.md", 1), ("la.md", None)):
        part = whole.within({"path": act})
        assert part.look_up("Article 2 of the Mill Act") == ([] if row is None else [[row]])
    assert whole.look_up("Article 2 of the Mill Act") == [[11]]


def test_parts_of_a_unit_are_found_in_the_order_of_their_page(postgres, index):
    write_index(index, postgres, "acts")
    more = [article(LOOM, 20, f"{n}. Part.", chunk_index=n) for n in (1, 2, 3)]
    more = [replace(node, id=f"p{n}") for n, node in enumerate(more)]
    update_index(postgres, "acts", upsert=more, embedding=HashEmbedding())
    update_index(postgres, "acts", upsert=[replace(more[0], text="1. Another.")], embedding=HashEmbedding())
    assert opened(postgres).look_up("Article 20 of the Loom Act") == [[17, 18, 19]]


def test_chunks_of_llama_index_are_those_that_have_no_children(postgres):
    from llama_index.core import Document
    from llama_index.core.node_parser import HierarchicalNodeParser

    text = "\n\n".join(f"# Article {n}\n" + "Looms weave cloth. " * 20 for n in range(1, 5))
    document = Document(text=text, id_="act", metadata={"file_path": "la.md"})
    chunks = HierarchicalNodeParser.from_defaults(chunk_sizes=[256, 64], chunk_overlap=0).get_nodes_from_documents([document])
    index = GraphIndex.from_documents(chunks, edges=[NumberedReferences()], embedding=HashEmbedding())
    write_index(index, postgres, "acts")
    assert opened(postgres).look_up("Article 3") == index.look_up("Article 3") != []


def test_numbers_follow_changes(postgres, index):
    write_index(index, postgres, "acts")
    remote = Retriever(opened(postgres), WalkFusion())
    assert remote.retrieve("Article 12 of the Loom Act", k=1)[0].id != "la.md#12"
    update_index(postgres, "acts", upsert=[article(LOOM, 12, "Nothing of the kind.")], embedding=HashEmbedding())
    assert remote.retrieve("Article 12 of the Loom Act", k=1)[0].id == "la.md#12"
    update_index(postgres, "acts", delete=["la.md#12"])
    assert "la.md#12" not in [hit.id for hit in remote.retrieve("Article 12 of the Loom Act")]


def test_an_index_without_references_by_number_looks_nothing_up(postgres, index):
    plain = GraphIndex.from_documents(NODES, edges=[("la.md#1", "la.md#2")], embedding=HashEmbedding())
    write_index(index, postgres, "acts")
    write_index(plain, postgres, "acts")
    assert not opened(postgres).looks_up and not opened(postgres).within({"path": "la.md"}).looks_up
    update_index(postgres, "new", upsert=NODES, embedding=HashEmbedding())
    assert not open_index(postgres, "new").looks_up and open_index(postgres, "new").look_up(QUESTIONS[0]) == []
    remote, local = (Retriever(each, WalkFusion()).retrieve(QUESTIONS[0]) for each in (opened(postgres), plain))
    assert_same([remote], [local])


def test_numbers_are_read_once_and_only_for_questions_that_cite(postgres, index, monkeypatch):
    write_index(index, postgres, "acts")
    calls, listed = [], PostgresGraph.list_nodes
    monkeypatch.setattr(PostgresGraph, "list_nodes", lambda store: calls.append(store) or listed(store))
    remote = Retriever(opened(postgres), WalkFusion())
    remote.retrieve("Who mends looms?")
    assert not calls
    for question in QUESTIONS:
        remote.retrieve(question)
    assert len(calls) == 1


def test_a_time_limit_ends_the_wait_but_not_the_reading(postgres, index, monkeypatch):
    write_index(index, postgres, "acts")
    go_on, calls, listed = threading.Event(), [], PostgresGraph.list_nodes

    def slow(store):
        calls.append(store)
        assert go_on.wait(30)
        yield from listed(store)

    monkeypatch.setattr(PostgresGraph, "list_nodes", slow)
    index = opened(postgres)
    with pytest.raises(TimeLimitError):
        Retriever(index, WalkFusion(), time_limit=1).retrieve(QUESTIONS[0])
    go_on.set()
    remote = Retriever(index, WalkFusion())
    assert remote.retrieve(QUESTIONS[0])[0].id == "la.md#4" and len(calls) == 1


def test_nothing_is_read_of_a_state_that_was_left(postgres, index):
    write_index(index, postgres, "acts")
    with postgres.pinned() as state:
        whole = open_index(state, "acts")
        assert whole.look_up("Article 9") == [[8]]
        nodes = whole.store.list_nodes()
        next(nodes)
    with pytest.raises(DatabaseError, match="has ended"):
        list(nodes)
