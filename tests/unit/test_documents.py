"""Documents of the real frameworks as nodes."""

import numpy as np
import pytest
import torch
from langchain_core.documents import Document
from llama_index.core.schema import Document as LlamaDocument
from llama_index.core.schema import ImageNode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode

from graph_retrievers.construction import Links, Metadata, NearestNeighbors, Relationships
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.errors import DuplicateNodeError, EmptyGraphError, InvalidArgumentError, MissingSignalError
from graph_retrievers.graph import Node
from graph_retrievers.graph.plain import plain
from graph_retrievers.index import GraphIndex
from tests.helpers import HashEmbedding, as_edges


def test_a_langchain_document_keeps_id_text_and_metadata():
    document = Document(id="ada", page_content="She wrote a program.", metadata={"title": "Ada", "type": "person", "year": 1843})
    (node,) = to_nodes([document])
    assert node == Node("ada", "She wrote a program.", "Ada", "person", {"title": "Ada", "type": "person", "year": 1843})


def test_a_document_without_an_id_gets_its_position():
    assert [
        node.id for node in to_nodes([Document(page_content="x"), Document(page_content="y", id="own"), Document(page_content="z")])
    ] == [
        "0",
        "own",
        "2",
    ]


@pytest.mark.parametrize("make", [TextNode, LlamaDocument, ImageNode])
def test_a_llama_index_node_gives_its_text_without_metadata(make):
    node = make(text="She wrote a program.", id_="ada", metadata={"title": "Ada", "secret": "not text"})
    for given in (node, NodeWithScore(node=node, score=1.0)):
        (made,) = to_nodes([given])
        assert (made.id, made.text, made.title, made.metadata["secret"]) == ("ada", "She wrote a program.", "Ada", "not text")


def test_nodes_pass_through_and_kinds_mix():
    own = Node("n", "text")
    nodes = to_nodes(iter([own, Document(page_content="x", id="d"), TextNode(text="y", id_="t")]))
    assert nodes[0] is own
    assert [node.id for node in nodes] == ["n", "d", "t"]


def test_other_fields_may_hold_title_and_type():
    document = Document(page_content="x", metadata={"name": 1984, "title": ["not", "a", "title"], "kind": None})
    (node,) = to_nodes([document], title_key="name", type_key="kind")
    assert (node.title, node.type) == ("1984", "")
    assert to_nodes([document], title_key="")[0].title == ""


def test_a_title_or_type_that_is_no_word_is_left_out_and_named(caplog):
    good = Document(page_content="y", metadata={"title": "Good"})
    wrong = [Document(page_content="x", metadata={"title": ["not", "one"], "type": {}}) for _ in range(6)]
    index = GraphIndex.from_documents([good, *wrong])
    assert index.graph.titles == ["Good", *[""] * 6] and index.graph.metadata[1]["title"] == ["not", "one"]
    (told,) = caplog.messages
    assert told.startswith(
        "Left out 12 items of the documents: metadata['title'] of document 1 (a list, not a string); metadata['type']"
    )
    assert told.endswith("; and 2 more. Pass another field in title_key= or type_key=, or '' for none.")
    with pytest.raises(InvalidArgumentError, match=r"12 items .* document 1 .*metadata\['type'\] of document 6 \(a dict"):
        GraphIndex.from_documents([good, *wrong], strict=True)


def test_metadata_are_copied():
    document = Document(page_content="x", metadata={"a": 1})
    to_nodes([document])[0].metadata["b"] = 2
    assert document.metadata == {"a": 1}


@pytest.mark.parametrize("bad", ["plain text", {"page_content": "x"}, 3, None])
def test_what_is_no_document_is_named(bad):
    with pytest.raises(InvalidArgumentError, match=f"Document 1 is a {type(bad).__name__}"):
        to_nodes([Document(page_content="x"), bad])


@pytest.mark.parametrize("bad", ["plain text", {"a": 1}, 3])
def test_what_is_no_list_of_documents_is_named(bad):
    with pytest.raises(InvalidArgumentError, match="expected a list of documents"):
        to_nodes(bad)


class TestFromDocuments:
    def test_langchain_documents_with_links_in_their_metadata(self):
        documents = [
            Document(page_content="a", id="a", metadata={"cites": ["b", "elsewhere"]}),
            Document(page_content="b", id="b", metadata={"cites": "a"}),
        ]
        index = GraphIndex.from_documents(documents, edges=[("cites", "$id")])
        assert index.graph.edges() == as_edges(("a", "b", "cites"), ("b", "a", "cites"))

    def test_langchain_documents_with_html(self):
        documents = [
            Document(page_content='<a href="b#x">b</a>', id="a", metadata={"url": "https://x.org/a"}),
            Document(page_content="b", id="b", metadata={"url": "https://x.org/b"}),
        ]
        assert GraphIndex.from_documents(documents, edges=Links()).graph.edges() == as_edges(("a", "b", "links"))

    def test_llama_index_relationships_even_from_a_generator(self):
        first, second = TextNode(text="one", id_="1"), TextNode(text="two", id_="2")
        first.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="2")
        second.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id="1")
        second.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="the document")
        index = GraphIndex.from_documents((node for node in (first, second)), edges=(spec for spec in [Relationships()]))
        assert index.graph.edges() == as_edges(("1", "2", "next"))

    def test_documents_of_both_frameworks_beside_each_other(self):
        first, second = TextNode(text="one", id_="1"), Document(page_content="two", id="2")
        assert GraphIndex.from_documents([first]).edge_sources == ()
        first.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="2")
        index = GraphIndex.from_documents([first, second], vectors=[[2.0, 0.0], [0.0, 3.0]])
        assert index.graph.edges() == as_edges(("1", "2", "next")) and index.signals["dense"].metric == "cosine"
        edges = [Relationships(), NearestNeighbors(1, min_similarity=0.5)]
        assert GraphIndex.from_documents([first, second], edges=edges, vectors=[[2.0, 0.1], [3.0, 0.0]]).graph.num_edges == 3

    def test_documents_that_only_look_like_those_of_llama_index(self):
        class Chunk:
            metadata, embedding = {}, [1.0, 2.0]

            def __init__(self, name, **relationships):
                self.node_id = name
                self.relationships = {kind: RelatedNodeInfo(node_id=other) for kind, other in relationships.items()}

            def get_content(self):
                return f"text {self.node_id}"

        index = GraphIndex.from_documents([Chunk("a", next="b"), Chunk("b")])
        assert index.graph.edges() == as_edges(("a", "b", "next")) and index.signals["dense"].metric == "cosine"

    def test_given_vectors_are_copied(self):
        vectors = torch.eye(2)
        index = GraphIndex.from_documents([Node("a", "a loom"), Node("b", "a card")], vectors=vectors)
        vectors[0] = 7
        assert index.dense.vectors.tolist() == [[1, 0], [0, 1]]

    def test_nearest_neighbours_embed_the_documents_once(self):
        embedding = HashEmbedding()
        documents = [Document(page_content=text) for text in ("red apple", "green apple", "blue sea", "green sea")]
        index = GraphIndex.from_documents(documents, edges=iter([NearestNeighbors(1)]), embedding=embedding)
        assert embedding.document_calls == 1
        assert index.graph.num_edges == 4
        with pytest.raises(MissingSignalError):
            GraphIndex.from_documents(documents, edges=NearestNeighbors(1))

    def test_no_documents_and_twice_the_same_id(self):
        with pytest.raises(EmptyGraphError):
            GraphIndex.from_documents([])
        with pytest.raises(DuplicateNodeError, match="'1' is given to nodes 0 and 1"):
            GraphIndex.from_documents([Document(page_content="x", id="1"), Document(page_content="y", id=1)])

    def test_a_document_without_an_id_takes_one_that_is_free(self):
        given = [Document("a"), Document("b", id=0), Document("c", id="_0"), Document("d"), Document("e", id="3"), Document("f")]
        index = GraphIndex.from_documents(given)
        assert index.graph.ids == ["__0", "0", "_0", "_3", "3", "5"] and index.graph.texts == ["a", "b", "c", "d", "e", "f"]

    def test_texts_with_metadata_link_as_documents_do(self):
        index = GraphIndex.from_texts(["a", "b"], metadatas=[{"year": 1}, {"year": 1}], edges=Metadata("year", "year"))
        assert index.graph.edges() == as_edges(("0", "1", "year"))


class TestOddMetadata:
    @pytest.mark.parametrize("metadata", [["a"], "abc", 5])
    def test_metadata_that_are_no_mapping(self, metadata):
        class Odd:
            page_content = "text"

        document = Odd()
        document.metadata = metadata
        with pytest.raises(InvalidArgumentError, match="The metadata of document 0 are a .*; expected a mapping"):
            to_nodes([document])

    @pytest.mark.parametrize(
        ("value", "kept"),
        [
            (np.longdouble(0.5), 0.5),
            (np.array([0.5], dtype=np.longdouble), [0.5]),
            (np.datetime64("2024-05-01", "ns"), "2024-05-01T00:00:00.000000000"),
            (np.datetime64("2024-05-01"), "2024-05-01"),
            (np.datetime64("NaT"), None),
            (np.array(["2024-05-01"], dtype="datetime64[D]"), ["2024-05-01"]),
        ],
    )
    def test_kinds_of_numpy(self, value, kept):
        assert plain({"k": value}, "metadata") == {"k": kept}

    @pytest.mark.parametrize("value", [np.clongdouble(1), 1j, torch.eye(2).to_sparse(), torch.empty(1, device="meta")])
    def test_what_has_no_form_in_json_is_refused(self, value):
        with pytest.raises(InvalidArgumentError, match="cannot be saved"):
            plain({"k": value}, "metadata")
