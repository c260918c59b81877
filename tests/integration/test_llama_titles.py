"""What chunks of LlamaIndex are called: by a field of their metadata, by their headings or their file, never by a UUID."""

import re
from uuid import uuid4

import pytest
from langchain_core.documents import Document as LangChainDocument
from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
from llama_index.core.node_parser import MarkdownNodeParser, SentenceSplitter
from llama_index.core.schema import Document, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore

import langchain_graph_retrievers
from graph_retrievers import BM25, PPR, GraphIndex, Node, Pipeline, Retriever
from graph_retrievers.errors import InvalidArgumentError
from graph_retrievers.graph.labels import is_random, label
from graph_retrievers.operators import BM25Search, GatedPropagation
from llama_graph_retrievers import GraphRetriever, provenance, to_context
from tests.integration.llama_corpus import HashEmbed

UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-")
PAGE = "Before all.\n\n# Guide\n\nA guide to looms.\n\n## Install\n\nBolt the loom to the floor.\n\n### Oil\n\nOil the treadle."


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "guide.md").write_text(PAGE)
    (tmp_path / "notes.txt").write_text("Jacquard's notes on cards.")
    return tmp_path


def chunks(folder):
    documents = SimpleDirectoryReader(str(folder)).load_data()
    nodes = MarkdownNodeParser().get_nodes_from_documents(documents[:1])
    return [*nodes, *SentenceSplitter().get_nodes_from_documents(documents[1:])]


def walked(nodes, **options):
    walk = Pipeline(BM25Search(1), GatedPropagation(steps=3, gate="uniform", threshold=0))
    return GraphRetriever.from_defaults(nodes=nodes, embed_model=HashEmbed(), system=walk, **options)


def test_headings_and_files_are_titles(folder):
    nodes = chunks(folder)
    assert all(is_random(node.node_id) for node in nodes)
    retriever = walked(nodes)
    assert retriever.index.graph.titles == ["guide.md", "guide.md", "Guide", "Guide/Install", "notes.txt"]
    results = retriever.retrieve("Oil the treadle")
    told = to_context(results)
    assert "Guide/Install <-[next]- Guide" in told and "- Guide: ## Install\n    \n    Bolt" in told and not UUID.search(told)
    assert provenance(results[0])["path"]["titles"] == ["Guide/Install"]
    # The metadata are as LlamaIndex made them, and hits without provenance are called the same.
    assert {node.node.node_id: node.metadata for node in results}[nodes[3].node_id] == nodes[3].metadata
    plain = to_context(walked(nodes, provenance=False).retrieve("Oil the treadle"))
    assert "- Guide/Install: ### Oil" in plain and not UUID.search(plain)
    for drawn in (retriever.engine.retrieve("Oil the treadle").subgraph(),):
        assert '"Guide/Install"' in drawn.to_mermaid() and 'label="Guide/Install"' in drawn.to_dot()
        assert not UUID.search(drawn.to_mermaid() + drawn.to_dot())


def test_anchors_behind_headings_are_not_part_of_titles():
    text = "# Guide {#guide}\n\nA guide.\n\n## TCP/IP {: #tcp .wide }\n\nBolt it.\n\n### Oil\n\nOil {#the} treadle."
    nodes = MarkdownNodeParser().get_nodes_from_documents([Document(text=text)])
    assert "{#guide}" in nodes[2].metadata["header_path"]
    results = walked(nodes).retrieve("Oil the treadle")
    assert provenance(results[0])["path"]["titles"] == ["Guide/TCP/IP"]
    told = to_context(results) + to_context(walked(nodes, provenance=False).retrieve("Oil the treadle"))
    assert "Guide/TCP/IP <-[next]- Guide" in told and "- Guide/TCP/IP: ### Oil" in told


def test_a_file_with_a_random_name_is_not_a_title():
    nodes = [TextNode(text="A loom.", metadata={"file_name": f"{uuid4()}.pdf"})]
    assert walked(nodes).index.graph.titles == [""] and not UUID.search(to_context(walked(nodes).retrieve("loom")))


def test_a_field_of_ones_own(folder):
    nodes = chunks(folder)
    for place, node in enumerate(nodes):
        node.metadata["name"] = f"Part {place}"
    store = SimpleDocumentStore()
    store.add_documents(nodes)
    over = VectorStoreIndex(nodes, embed_model=HashEmbed())
    for given in ({"nodes": nodes}, {"docstore": store}, {"index": over}):
        for system in (None, PPR(), BM25()):
            made = GraphRetriever.from_defaults(
                **given, system=system, embed_model=HashEmbed(), title_key="name", similarity_top_k=1
            )
            assert sorted(made.index.graph.titles) == [f"Part {place}" for place in range(5)]
            assert to_context(made.retrieve("Oil the treadle")).startswith("Texts:\n- Part 3: ")
    assert walked(nodes, title_key="").index.graph.titles == [""] * 5
    with pytest.raises(InvalidArgumentError, match="Pass the GraphIndex to the class itself"):
        GraphRetriever.from_defaults(system=PPR(), index=walked(nodes).index, title_key="name")
    titled = [TextNode(text="A loom.", metadata={"title": "Loom", "header_path": "/Guide/", "file_name": "guide.md"})]
    assert walked(titled).index.graph.titles == ["Loom"]
    odd = [TextNode(text="A loom.", metadata={"header_path": ["Guide"], "file_name": "guide.md"})]
    assert walked(odd).index.graph.titles == ["guide.md"]
    # Documents of LangChain, and nodes of this package, have no title but their own.
    documents = [
        LangChainDocument("A loom.", metadata={"file_name": "guide.md"}),
        Node("a", "A card.", metadata={"file_name": "b"}),
    ]
    assert GraphIndex.from_documents(documents).graph.titles == ["", ""]


def test_no_uuid_where_there_is_no_title_at_all():
    long = "# The looms of Lyon\n\nThey wove silk."
    nodes = SentenceSplitter(chunk_size=30, chunk_overlap=0).get_nodes_from_documents(
        [Document(text=" ".join(["It reads cards."] * 20))]
    )
    nodes.append(TextNode(text=long, relationships={NodeRelationship.NEXT: RelatedNodeInfo(node_id=nodes[0].node_id)}))
    retriever = walked(nodes)
    assert retriever.index.graph.titles == [""] * len(nodes), "what is searched is as it was"
    results = retriever.retrieve("Lyon silk")
    assert len(results) > 2
    told = to_context(results)
    assert not UUID.search(told) and "The looms of Lyon -[next]-> It reads cards. It reads cards. It reads ..." in told
    listed = "Texts:\n- # The looms of Lyon\n    \n    They wove silk.\n"
    assert listed in told, "a text is not called by its own beginning"
    hits = retriever.engine.retrieve("Lyon silk")
    drawn = hits.subgraph()
    assert not UUID.search(hits.to_context() + drawn.to_mermaid() + drawn.to_dot() + hits[1].explain())
    assert listed in hits.to_context() and '"The looms of Lyon"' in drawn.to_mermaid()


def test_facts_and_documents_of_langchain_too():
    ids = [str(uuid4()) for _ in range(2)]
    documents = [LangChainDocument("A loom of wood.", id=ids[0]), LangChainDocument("A card.", id=ids[1])]
    index = GraphIndex.from_documents(documents, edges=[(*ids, "reads")])
    walk = Pipeline(BM25Search(1), GatedPropagation(gate="uniform"))
    found = langchain_graph_retrievers.GraphRetriever(retriever=Retriever(index, walk), provenance=True).invoke("wood")
    told = langchain_graph_retrievers.to_context(found)
    assert told == "Paths:\nA loom of wood. -[reads]-> A card.\n\nTexts:\n- A loom of wood.\n- A card."


def test_nodes_that_may_not_be_shown_are_not_called_by_their_texts():
    ids = [str(uuid4()) for _ in range(3)]
    texts = ["A loom of wood.", "A secret.", "A card."]
    index = GraphIndex.from_texts(
        texts, ids=ids, edges=[(ids[0], ids[1]), (ids[1], ids[2])], metadatas=[{"open": t[2] != "s"} for t in texts]
    )
    walk = Pipeline(BM25Search(1), GatedPropagation(gate="uniform", steps=2))
    hits = Retriever(index, walk).retrieve("wood", filter={"open": True}, traversal_filter={})
    assert len(hits) == 2 and hits[-1].path.titles == ("A loom of wood.", "", "A card.")
    assert "secret" not in hits.to_context() + hits.subgraph().to_mermaid()


@pytest.mark.parametrize(
    ("node", "title", "text", "called"),
    [
        ("a", "", "A loom.", "a"),
        ("0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57", "Loom", "A loom.", "Loom"),
        ("0B7C1F0E6D3C4C3E9F432F1D6B1B8A57", "", "A loom.", "A loom."),
        ("0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57_part_2", "", "\n\n- A loom.\nAnother.", "A loom."),
        ("0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57", "", " \n", "0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57"),
        ("0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57", "", "x" * 60, "x" * 44 + " ..."),
        ("0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57", "", "x" * 48, "x" * 48),
        ("loom-0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57", "", "A loom.", "loom-0b7c1f0e-6d3c-4c3e-9f43-2f1d6b1b8a57"),
    ],
)
def test_labels(node, title, text, called):
    assert label(node, title, text) == called
