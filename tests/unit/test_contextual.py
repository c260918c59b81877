"""Contextual citation graphs: chunks of documents, and the edges inside and across them."""

import pytest
import torch
from langchain_core.documents import Document
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core.node_parser import SentenceSplitter

from graph_retrievers import Retriever
from graph_retrievers.construction import ContextualCitations, build_edges, chunk_documents
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError
from graph_retrievers.graph import Node
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.systems import LeSeGR
from tests.helpers import HashEmbedding


def sentences(text):
    return [part for part in text.split(". ") if part]


PAPERS = [
    Node("u", "Looms read cards. Weather is mild. Cards have holes", "U", metadata={"cites": ["v", "w", "outside"]}),
    Node("v", "Punched cards have holes. Rain falls. Looms weave. Cards again. Mild winters", "V"),
    Node("w", "One chunk on looms", "W", metadata={"cites": "v"}),
]


def literal(chunks, vectors, top_n, sparse=None):
    """The rules of section 4.2.2, a pair of chunks at a time; `sparse` gives the weights of the terms of a text."""
    contents = [f"{chunk.title}. {chunk.text}" for chunk in chunks]
    if sparse is None:
        words = BM25(contents).table(contents).double()
    else:
        weights = [sparse(content) for content in contents]
        words = torch.tensor([[sum(a[term] * b.get(term, 0.0) for term in a) for b in weights] for a in weights]).double()
    table = words + (vectors @ vectors.T).double()
    of = {}
    for row, chunk in enumerate(chunks):
        of.setdefault(chunk.metadata["document"], []).append(row)
    edges = [(chunks[a].id, chunks[b].id, "next") for rows in of.values() for a, b in zip(rows, rows[1:], strict=False)]
    for paper in PAPERS:
        cites = paper.metadata.get("cites", [])
        for cited in [cites] if isinstance(cites, str) else cites:
            for i in of[paper.id] if cited in of else []:
                best = sorted(of[cited], key=lambda j: (-round(float(table[i, j]), 9), j))[:top_n]
                edges += [(chunks[j].id, chunks[i].id, "cites") for j in best]
    return edges


@pytest.mark.parametrize("top_n", [1, 2, 4, 9])
def test_edges_are_those_of_the_rules(top_n):
    chunks = chunk_documents(PAPERS, sentences)
    torch.manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(len(chunks), 8), dim=1)
    found = build_edges(chunks, ContextualCitations(top_n=top_n), vectors=vectors)
    expected = literal(chunks, vectors, top_n)
    assert sorted(found) == sorted(expected) and len(set(found)) == len(found)
    counts = {}
    for source, target, relation in found:
        if relation == "cites":
            counts[target, source.split("#")[0]] = counts.get((target, source.split("#")[0]), 0) + 1
    assert set(counts.values()) <= {min(top_n, 5), min(top_n, 1)}, "top n of each cited document, all where there are fewer"


class Letters:
    """A sparse encoder whose terms are letters, weighted by their number; queries would be doubled."""

    name = "letters"

    def __init__(self):
        self.seen = []

    @staticmethod
    def weights(text):
        return {ord(letter): 0.25 * text.count(letter) for letter in text.lower() if letter.isalpha()}

    def encode(self, texts, *, queries=False):
        assert not queries, "both chunks of a pair are documents"
        self.seen += texts
        return [self.weights(text) for text in texts]


@pytest.mark.parametrize("top_n", [1, 2])
def test_an_encoder_may_give_the_sparse_relevance(top_n):
    chunks, encoder = chunk_documents(PAPERS, sentences), Letters()
    torch.manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(len(chunks), 8), dim=1)
    found = build_edges(chunks, ContextualCitations(top_n=top_n, sparse=encoder), vectors=vectors)
    assert sorted(found) == sorted(literal(chunks, vectors, top_n, Letters.weights))
    assert sorted(found) != sorted(literal(chunks, vectors, top_n))
    assert len(encoder.seen) == len(set(encoder.seen)) == len(chunks), "each chunk is encoded once"
    with pytest.raises(InvalidArgumentError, match="Expected a sparse encoder with name and encode"):
        ContextualCitations(sparse="BAAI/bge-m3")


def test_chunks_may_refer_to_others_and_documents_to_nothing_known(caplog):
    chunks = chunk_documents(PAPERS, sentences)
    chunks[2] = Node(chunks[2].id, chunks[2].text, metadata={**chunks[2].metadata, "refers_to": "u#1"})
    with caplog.at_level("INFO"):
        found = build_edges(chunks, ContextualCitations(), vectors=torch.eye(len(chunks)))
    assert ("u#1", "u#3", "refers to") in found
    assert "skipped references to nodes outside the corpus: 1" in caplog.text


def test_what_is_missing_is_said():
    with pytest.raises(MissingSignalError, match="needs vectors"):
        build_edges(chunk_documents(PAPERS, sentences), ContextualCitations())
    with pytest.raises(InvalidArgumentError, match="No node has the metadata field 'document'"):
        build_edges(PAPERS, ContextualCitations(), vectors=torch.eye(3))
    with pytest.raises(InvalidArgumentError, match="cannot split"):
        chunk_documents(PAPERS, 5)
    for splitter in (lambda text: text, lambda text: None, lambda text: 5, lambda text: [], lambda text: [5]):
        with pytest.raises(InvalidArgumentError, match="expected a list of texts"):
            chunk_documents(PAPERS, splitter)
    for wrong in (True, object()):
        chunk = Node("a#1", "a", metadata={"document": "a", "cites": wrong})
        with pytest.raises(InvalidArgumentError, match="expected an id or a list of ids"):
            build_edges([chunk], ContextualCitations(), vectors=torch.eye(1))


def test_ids_may_be_numbers_and_missing_values_are_none():
    chunks = [Node("3#1", "a loom", metadata={"document": 3, "cites": float("nan")})]
    chunks.append(Node("4#1", "a loom", metadata={"document": 4, "cites": [3, 4], "refers_to": ""}))
    assert build_edges(chunks, ContextualCitations(), vectors=torch.eye(2)) == [("3#1", "4#1", "cites")]


def test_a_document_that_cites_itself_gets_no_edges_from_that():
    chunks = chunk_documents([Node("u", "A loom. A loom again", metadata={"cites": ["u"]})], sentences)
    assert build_edges(chunks, ContextualCitations(), vectors=torch.eye(2)) == [("u#1", "u#2", "next")]


def test_a_splitter_may_give_its_texts_one_by_one_or_as_documents():
    expected = [chunk.text for chunk in chunk_documents(PAPERS, sentences)]
    lazily = chunk_documents(PAPERS, lambda text: (part for part in sentences(text)))
    documents = chunk_documents(PAPERS, lambda text: [Document(part) for part in sentences(text)])
    assert [chunk.text for chunk in lazily] == expected == [chunk.text for chunk in documents]
    lazily[0].metadata["cites"].append("more")
    assert PAPERS[0].metadata["cites"] == ["v", "w", "outside"], "chunks have metadata of their own"


@pytest.mark.parametrize(
    "splitter",
    [RecursiveCharacterTextSplitter(chunk_size=20, chunk_overlap=0), SentenceSplitter(chunk_size=5, chunk_overlap=0), sentences],
    ids=["langchain", "llama", "function"],
)
def test_any_splitter_will_do(splitter):
    documents = [Document(paper.text, id=paper.id, metadata={"title": paper.title}) for paper in PAPERS]
    chunks = chunk_documents([*documents, Document("", id="empty")], splitter)
    assert len(chunks) > 6 and chunks[-1].id == "empty#1" and chunks[-1].text == ""
    first = [chunk for chunk in chunks if chunk.metadata["document"] == "u"]
    assert [chunk.metadata["chunk"] for chunk in first] == list(range(1, len(first) + 1)) and first[0].title == "U"


def test_an_index_of_chunks_answers_with_contexts(tmp_path):
    chunks = chunk_documents(PAPERS, sentences)
    index = GraphIndex.from_documents(chunks, edges=[ContextualCitations(top_n=2)], embedding=HashEmbedding())
    index.save(tmp_path / "kept")
    kept = GraphIndex.load(tmp_path / "kept", embedding=HashEmbedding())
    for each in (index, kept):
        hits = Retriever(each, LeSeGR(direction="in"), k=3).retrieve("Which cards have holes?")
        assert hits[0].id == "v#1" or hits[0].id == "u#3"
        hit = next(hit for hit in hits if hit.id == "u#3")
        assert "v#1" in {node.id for node in hit.context.nodes} and ("v#1", "u#3") in {
            (e.source, e.target) for e in hit.context.edges
        }
