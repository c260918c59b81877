"""Nodes of LlamaIndex' splitters: the relationships that they have are the edges, and parents are nodes where they are given."""

from collections import Counter

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    MarkdownNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
    get_leaf_nodes,
)
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import Document, MetadataMode
from llama_index.core.storage.docstore import SimpleDocumentStore

from graph_retrievers import GraphIndex, Vector
from graph_retrievers.graph.corpus_graph import Edge
from llama_graph_retrievers import GraphRetriever
from tests.integration.llama_corpus import HashEmbed

HISTORY = " ".join(f"The loom of year {1800 + number} was made in Lyon." for number in range(40))
DOCUMENTS = [
    Document(
        id_="looms",
        text=f"# Looms\n\nThey weave.\n\n## History\n\n{HISTORY}\n\n## Parts\n\nA shuttle and a reed.",
        metadata={"file_path": "/data/looms.md"},
        excluded_llm_metadata_keys=["file_path"],
    ),
    Document(id_="brass", text="A short text on brass."),
]


def relations(graph):
    return Counter(edge.relation for edge in graph.edges())


@pytest.mark.parametrize(
    "parser",
    [
        SentenceSplitter(chunk_size=60, chunk_overlap=0),
        MarkdownNodeParser(),
        SentenceWindowNodeParser.from_defaults(),
    ],
    ids=["sentences", "markdown", "windows"],
)
def test_chunks_follow_each_other_and_point_to_their_document_where_it_is_given(parser):
    nodes = parser.get_nodes_from_documents(DOCUMENTS)
    chunks = [node for node in nodes if node.ref_doc_id == "looms"]
    assert len(chunks) >= 3
    following = [Edge(one.node_id, other.node_id, "next") for one, other in zip(chunks, chunks[1:], strict=False)]
    index = GraphIndex.from_documents(nodes)
    assert index.graph.edges() == following
    whole = GraphIndex.from_documents([*DOCUMENTS, *nodes]).graph
    assert relations(whole) == {"next": len(following), "source": len(nodes)}
    assert Edge(chunks[0].node_id, "looms", "source") in whole.edges() and len(whole) == len(nodes) + 2
    assert GraphRetriever.from_defaults(system=Vector(), nodes=nodes, embed_model=HashEmbed()).index.graph.edges() == following
    found = GraphRetriever(index, "bm25").retrieve("brass shuttle loom")
    originals = {node.node_id: node for node in nodes}
    assert all(n.node == originals[n.node.node_id] for n in found)
    assert not any("file_path" in n.node.get_content(MetadataMode.LLM) for n in found)


def test_parents_of_a_hierarchy_are_nodes_where_they_are_given():
    nodes = HierarchicalNodeParser.from_defaults(chunk_sizes=[256, 64], chunk_overlap=0).get_nodes_from_documents(DOCUMENTS)
    leaves = get_leaf_nodes(nodes)
    parents = [node for node in nodes if node.child_nodes]
    assert len(parents) >= 2 and len(leaves) + len(parents) == len(nodes)
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    for graph in (
        GraphIndex.from_documents(nodes).graph,
        GraphRetriever.from_defaults(system=Vector(), docstore=docstore, embed_model=HashEmbed()).index.graph,
    ):
        assert len(graph) == len(nodes)
        family = {(parent.node_id, child.node_id) for parent in parents for child in parent.child_nodes}
        assert {(e.source, e.target) for e in graph.edges() if e.relation == "child"} == family and len(family) == len(leaves)
        assert set(relations(graph)) == {"child", "next"} and relations(graph)["child"] == len(leaves)
    # Leaves alone follow each other, and their absent parents are passed over.
    alone = GraphIndex.from_documents(leaves).graph
    assert set(relations(alone)) == {"next"} and len(alone) == len(leaves)
    order = {node.node_id: place for place, node in enumerate(leaves)}
    assert all(order[edge.target] == order[edge.source] + 1 for edge in alone.edges())


def test_leaves_are_merged_into_the_parents_of_a_hierarchy():
    nodes = HierarchicalNodeParser.from_defaults(chunk_sizes=[256, 64], chunk_overlap=0).get_nodes_from_documents(DOCUMENTS)
    storage = StorageContext.from_defaults()
    storage.docstore.add_documents(nodes)
    existing = VectorStoreIndex(get_leaf_nodes(nodes), embed_model=HashEmbed(), storage_context=storage)
    ours = GraphRetriever.from_defaults(existing, system=Vector(), similarity_top_k=12)
    assert len(ours.index) == len(get_leaf_nodes(nodes))
    merged = AutoMergingRetriever(ours, storage).retrieve("looms made in Lyon")
    assert any(n.node.child_nodes for n in merged)
