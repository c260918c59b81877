"""Histories of changes: an index that has followed them answers as one that is built of what they leave."""

import random
import tempfile
from dataclasses import replace

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from graph_retrievers import Retriever
from graph_retrievers.construction import (
    ContextualCitations,
    DocumentStructure,
    Links,
    Metadata,
    NearestNeighbors,
    NumberedReferences,
    TitleMentions,
)
from graph_retrievers.errors import EmptyGraphError
from graph_retrievers.graph import Edge, Node
from graph_retrievers.index import GraphIndex, IndexStore
from graph_retrievers.operators import GatedPropagation
from graph_retrievers.search.queries import Queries
from tests.helpers import HashEmbedding
from tests.rankings import Ranking, ranked

WORDS = ["loom", "card", "engine", "cipher", "Ada Lovelace", "weaves", "the", "of", "1843", "punched", "Article 1", "1.", "RFC 9"]
NAMES = [f"d{number}" for number in range(9)]
SYSTEMS = ["vector", "bm25", "hybrid", "ppr", "spreading", "walk-fusion", "fastinsight", "gar"]
QUESTIONS = ["which loom weaves the card", "Ada Lovelace 1843"]
SPECS = [
    Links(),
    DocumentStructure(),
    TitleMentions(),
    NumberedReferences(),
    Metadata("cites", "$id"),
    Metadata("topic", "topic"),
    NearestNeighbors(2),
    ContextualCitations(top_n=1),
]

texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
nodes = st.builds(
    lambda name, text, title, cites, link, topic: Node(
        name,
        f"{text} [see]({link}.md)" if link else text,
        title,
        metadata={"source": f"{name}.md", "document": name, "topic": topic} | ({"cites": cites} if cites else {}),
    ),
    st.sampled_from(NAMES),
    texts,
    st.sampled_from(["", "Ada Lovelace", "Punched card", "Loom"]),
    st.lists(st.sampled_from(NAMES), max_size=2),
    st.sampled_from(["", *NAMES]),
    st.sampled_from(["war", "machines"]),
)
batches = st.lists(nodes, min_size=1, max_size=4, unique_by=lambda node: node.id)


def answers(index):
    return {
        name: [[hit.to_dict() for hit in hits] for hits in Retriever(index, name).retrieve_batch(QUESTIONS, 4)] for name in SYSTEMS
    }


def assert_same(index, fresh):
    one, other = index.graph, fresh.graph
    for name in ("ids", "texts", "titles", "types", "metadata", "relation_names", "type_names", "edge_texts", "edge_metadata"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("sources", "targets", "relations", "weights", "indptr", "indices", "degree", "node_types"):
        assert getattr(one, name).dtype == getattr(other, name).dtype, name
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert [source.rows for source in index.edge_sources if source.rows] == [
        source.rows for source in fresh.edge_sources if source.rows
    ]
    assert torch.equal(index.dense.vectors, fresh.dense.vectors)
    assert torch.equal(index.bm25.table(QUESTIONS), fresh.bm25.table(QUESTIONS))
    assert answers(index) == answers(fresh)


class Histories(RuleBasedStateMachine):
    """A store, and the documents and edges that it should hold."""

    @initialize(chosen=st.lists(st.sampled_from(range(len(SPECS))), max_size=3, unique=True))
    def start(self, chosen):
        self.specs = [SPECS[number] for number in chosen]
        self.folder = tempfile.TemporaryDirectory()
        self.documents, self.edges = {}, []
        self.embedding = HashEmbedding(16)
        self.store = self.opened()

    def opened(self):
        return IndexStore(self.folder.name, edges=self.specs, embedding=self.embedding)

    def teardown(self):
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def forget(self, gone):
        self.documents = {name: node for name, node in self.documents.items() if name not in gone}
        self.edges = [edge for edge in self.edges if edge.source not in gone and edge.target not in gone]

    @rule(batch=batches, data=st.data())
    def upsert(self, batch, data):
        self.documents |= {node.id: node for node in batch}
        names = st.sampled_from(sorted(self.documents))
        ends = data.draw(st.lists(st.tuples(names, names, st.sampled_from(["", "cites", "reads"])), max_size=3))
        edges = [Edge(*end, weight=2.0, text="t" if end[2] else "") for end in ends]
        self.edges += edges
        self.store.update(upsert=batch, add_edges=edges)

    @precondition(lambda self: self.documents)
    @rule(data=st.data(), batch=batches)
    def delete(self, data, batch):
        gone = data.draw(st.lists(st.sampled_from(sorted(self.documents)), min_size=1, max_size=3, unique=True))
        by_source = data.draw(st.booleans())
        self.forget(gone)
        self.documents |= {node.id: node for node in batch[1:]}
        self.store.update(**{"delete_sources" if by_source else "delete": gone}, upsert=batch[1:])

    @precondition(lambda self: self.edges)
    @rule(data=st.data())
    def delete_edge(self, data):
        gone = data.draw(st.sampled_from(self.edges))
        self.edges = [edge for edge in self.edges if (edge.source, edge.target) != (gone.source, gone.target)]
        self.store.update(delete_edges=[(gone.source, gone.target)])

    @precondition(lambda self: self.documents)
    @rule()
    def delete_all(self):
        self.store.update(delete=list(self.documents))
        self.forget(list(self.documents))

    @rule(batch=batches)
    def change_a_scope(self, batch):
        topic = {"topic": batch[0].metadata["topic"]}
        held = {name: node for name, node in self.documents.items() if node.metadata["topic"] == topic["topic"]}
        if not held:
            return
        edges = [edge for edge in self.edges if edge.source in held and edge.target in held]
        gone = list(held)[1:2]
        new = Edge(batch[0].id, next(iter(held)), "reads")
        scope = self.store.index.within(topic)
        held = {name: node for name, node in held.items() if name not in gone}
        edges = [edge for edge in edges if edge.source in held and edge.target in held]
        held |= {node.id: node for node in batch}
        options = {"embedding": HashEmbedding(16), "lenient": True}
        fresh = GraphIndex.from_documents(list(held.values()), edges=[*self.specs, *edges, new], **options)
        changed = scope.with_changes(delete=gone, upsert=batch, add_edges=[new])
        assert_same(changed, fresh)
        assert_same(changed.within(topic), fresh.within(topic))

    @rule()
    def load(self):
        self.store = self.opened()

    @invariant()
    def equal(self):
        if not hasattr(self, "store"):
            return
        if not self.documents:
            assert len(self.store) == 0
            with pytest.raises(EmptyGraphError):
                _ = self.store.index
            return
        fresh = GraphIndex.from_documents(
            list(self.documents.values()), edges=[*self.specs, *self.edges], embedding=HashEmbedding(16), lenient=True
        )
        assert_same(self.store.index, fresh)
        topic = {"topic": next(iter(self.documents.values())).metadata["topic"]}
        assert_same(self.store.index.within(topic), fresh.within(topic))


Histories.TestCase.settings = settings(max_examples=15, stateful_step_count=8)
TestHistories = Histories.TestCase


def test_edges_of_a_scope_follow_its_changes_as_those_of_the_whole_do():
    documents = [Node(name, "see [it](b.md)", metadata={"source": f"{name}.md", "owner": name in "ab"}) for name in "abcd"]
    edges = [("c", "d", "given"), Links(), ("a", "b", "given")]
    index = GraphIndex.from_documents(documents, edges=edges, embedding=HashEmbedding(16))
    scope = index.within({"owner": True})
    assert [source.rows for source in scope.edge_sources] == [0, 1, 1]
    new = replace(documents[0], id="e", metadata={"source": "e.md", "owner": True})
    changed = scope.with_changes(upsert=[replace(documents[0], text="none"), new])
    own = [replace(documents[0], text="none"), documents[1], new]
    assert_same(changed, GraphIndex.from_documents(own, edges=[Links(), ("a", "b", "given")], embedding=HashEmbedding(16)))
    assert [edge.source for edge in changed.graph.edges()] == ["e", "a"]


@pytest.mark.parametrize(
    "options",
    [{"metric": "cosine"}, {"bm25": False}, {"edge_signals": True}, {"dense_backend": "hnsw"}, {"include_titles": False}],
)
def test_options_of_an_index_are_kept(options):
    generator = random.Random(5)
    documents = {name: Node(name, " ".join(generator.choices(WORDS, k=5)), "Loom") for name in NAMES}
    edges = [Edge("d0", "d1", "cites"), Edge("d1", "d2", "reads", text="a card"), Edge("d3", "d4", "cites")]
    index = GraphIndex.from_documents(list(documents.values()), edges=edges, embedding=HashEmbedding(16), **options)
    for _ in range(4):
        changed = [replace(documents[name], text=" ".join(generator.choices(WORDS, k=5))) for name in generator.sample(NAMES, 2)]
        new = Edge(changed[0].id, "d0", generator.choice(["new", "cites"]), text="of the engine")
        documents |= {node.id: node for node in changed}
        edges.append(new)
        index = index.with_changes(upsert=changed, add_edges=[new])
    fresh = GraphIndex.from_documents(list(documents.values()), edges=edges, embedding=HashEmbedding(16), **options)
    assert list(index.signals) == list(fresh.signals)
    for name, signal in index.signals.items():
        queries = torch.eye(16) if signal.reads == "vector" else QUESTIONS
        assert torch.equal(signal.table(queries), fresh.signals[name].table(queries)), name
        assert repr(signal) == repr(fresh.signals[name])


@pytest.mark.parametrize("specs", [[], [Links()]])
def test_edges_are_deleted_wherever_they_stand(specs):
    ends = [("a", "b"), ("b", "c"), ("c", "a")]
    documents = [Node(name, "", metadata={"source": f"{name}.md"}) for name in "abc"]
    index = GraphIndex.from_documents(documents, edges=[*ends, *specs], embedding=HashEmbedding(16))
    for gone in ends:
        left = [end for end in ends if end != gone]
        changed = index.with_changes(delete_edges=[gone])
        assert [(edge.source, edge.target) for edge in changed.graph.edges()] == left
        assert_same(changed, GraphIndex.from_documents(documents, edges=[*left, *specs], embedding=HashEmbedding(16)))
        # One end is not walked to from the other by the edge that is gone.
        queries = Queries.of(changed, ["loom"], vectors=[[1.0] + [0.0] * 15])
        start = Ranking.of(torch.tensor([[changed.graph.row(gone[0])]]), torch.ones(1, 1), "start")
        reached = ranked(GatedPropagation(steps=1, gate="uniform"), queries, start).nodes[0].tolist()
        assert changed.graph.row(gone[1]) not in reached
    # One of two edges between the same nodes leaves the other, in either direction.
    for other in (("a", "b", "reads"), ("b", "a", "reads")):
        twice = index.with_changes(add_edges=[other])
        changed = twice.with_changes(delete_edges=[("a", "b", "")])
        edges = [*ends[1:], *specs, other]
        assert_same(changed, GraphIndex.from_documents(documents, edges=edges, embedding=HashEmbedding(16)))


@pytest.mark.parametrize("include_titles", [True, False])
def test_a_new_title_is_read_where_signals_read_titles(include_titles):
    embedded = []

    class Recorded(HashEmbedding):
        def embed_documents(self, texts):
            embedded.extend(texts)
            return super().embed_documents(texts)

    options = {"include_titles": include_titles, "edges": [("a", "b")]}
    documents = [Node("a", "weaves", "Loom"), Node("b", "weaves", "Card"), Node("c", "weaves", "Loom")]
    index = GraphIndex.from_documents(documents, embedding=Recorded(16), **options)
    # The text is that of every node; the title is new, that of another node, or the same.
    for title in ("Engine", "Card", "Loom"):
        embedded.clear()
        new = [replace(documents[0], title=title), *documents[1:]]
        changed = index.with_changes(upsert=new[:1])
        assert len(embedded) == (include_titles and title == "Engine")
        assert_same(changed, GraphIndex.from_documents(new, embedding=HashEmbedding(16), **options))
