"""Retrieval on a manual with hyperlinks, twice: on its sections as they come, and the whole way from its raw pages.

    python benchmarks/manual.py DATASET [--reranker FOLDER] [--split test] [--only sections,pages] [--json OUT] [--page FILE]

DATASET is a folder such as data/postgres-docs: nodes, edges and queries of sections, and html.tar.gz with the pages. A question's
gold places are a path and an anchor; on the pages, a chunk counts if it covers one of them, and each place counts once. Retrievers
of LangChain, LlamaIndex and DataStax get the same chunks and vectors; those that are not installed are left out:

    pip install langchain-community langchain-graph-retriever llama-index-retrievers-bm25
"""

import argparse
import json
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np

from graph_retrievers import PPR, FastInsight, Fused, GraphIndex, Hybrid, Retriever, SpreadingActivation, minilm
from graph_retrievers.commands.index import edge_specs
from graph_retrievers.construction import build_edges, read_folder
from graph_retrievers.datasets import read_dataset
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.systems.spreading.retriever import DAMPED

OURS = ("vector", "bm25", "hybrid", "ppr", "spreading", "walk-fusion")
K = 10
PREFACE = """Made by `benchmarks/manual.py --split {split} --page FILE`: {count} questions about the PostgreSQL 15 manual,
Recall@10, all-MiniLM-L6-v2. A question is answered by one section (single), needs a link (linked), or compares sections without a
link (compare). The retrievers of LangChain (`EnsembleRetriever`, BM25 and vectors), LlamaIndex (`QueryFusionRetriever`, BM25 with
stemming and vectors) and DataStax (`GraphRetriever`, eager, depth 1) get the same chunks, vectors and edges. FastInsight scores
with a small cross-encoder of 160 tokens, which was not trained on manuals. On a manual, PageRank, spreading activation and
FastInsight find less than hybrid search alone, so that they are shown fused with it too."""
HEADINGS = {"sections": "From its sections", "pages": "From its raw pages"}
TEXTS = {
    "sections": "Sections of at most 600 words with their links, as in the dataset.",
    "pages": """HTML pages, read by `read_folder` and connected by `Links` and `DocumentStructure`. A node counts if it covers the
anchor of a gold section; each section counts once.""",
}
CLOSING = "On questions that compare sections, links bring little."


def sections(dataset, embedding):
    """Index of the sections, and the places that each node covers."""
    index = indexed(CorpusGraph.from_nodes(dataset.nodes, dataset.edges, include_titles=dataset.include_titles), embedding)
    return index, [{node} for node in index.graph.ids], lambda gold: gold


def pages(folder, embedding):
    """Index of the pages in an archive, and the places that each node covers."""
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(folder / "html.tar.gz") as archive:
            archive.extractall(unpacked, filter="data")
        (root,) = Path(unpacked).iterdir()
        nodes = read_folder(root)
    index = indexed(CorpusGraph.from_nodes(nodes, build_edges(nodes, edge_specs("links,structure", nodes))), embedding)
    covered = [{(node.metadata["path"], anchor) for anchor in ["", *node.metadata["anchors"]]} for node in nodes]
    return index, covered, lambda gold: (gold.partition("#")[0], gold.partition("#")[2].partition("~")[0])


def indexed(graph, embedding):
    return GraphIndex.from_graph(graph, embedding=embedding, cache=True, show_progress=True)


def langchain_hybrid(index):
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_core.documents import Document
    from langchain_core.vectorstores import InMemoryVectorStore

    graph = index.graph
    documents = [Document(text, id=node, metadata={"id": node}) for node, text in zip(graph.ids, graph.contents(), strict=True)]
    store = InMemoryVectorStore(index.embedding)
    for document, vector in zip(documents, index.dense.vectors.tolist(), strict=True):
        metadata = dict(document.metadata)
        store.store[document.id] = {"id": document.id, "vector": vector, "text": document.page_content, "metadata": metadata}
    lexical = BM25Retriever.from_documents(documents, k=2 * K)
    both = EnsembleRetriever(retrievers=[lexical, store.as_retriever(search_kwargs={"k": 2 * K})], weights=[0.5, 0.5], id_key="id")
    return lambda question: [document.metadata["id"] for document in both.invoke(question)]


def llama_nodes(index):
    from llama_index.core.schema import TextNode

    graph = index.graph
    rows = zip(graph.ids, graph.contents(), index.dense.vectors.tolist(), strict=True)
    return [TextNode(id_=node, text=text, embedding=vector) for node, text, vector in rows]


def llama_index_hybrid(index):
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.retrievers.bm25 import BM25Retriever

    class Model(BaseEmbedding):
        def _get_query_embedding(self, query):
            return np.asarray(index.embedding.embed_query(query)).tolist()

        async def _aget_query_embedding(self, query):
            return self._get_query_embedding(query)

        def _get_text_embedding(self, text):
            return self._get_query_embedding(text)

    nodes = llama_nodes(index)
    vector = VectorStoreIndex(nodes, embed_model=Model()).as_retriever(similarity_top_k=2 * K)
    lexical = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=2 * K)
    both = QueryFusionRetriever(
        [vector, lexical], llm=MockLLM(), similarity_top_k=K, num_queries=1, mode="reciprocal_rerank", use_async=False
    )
    return lambda question: [found.node.node_id for found in both.retrieve(question)]


def datastax(index):
    from graph_retriever.strategies import Eager
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_graph_retriever import GraphRetriever

    graph = index.graph
    linked = {node: [] for node in graph.ids}
    for edge in graph.edges():
        linked[edge.source].append(edge.target)
    store = InMemoryVectorStore(index.embedding)
    for node, text, vector in zip(graph.ids, graph.contents(), index.dense.vectors.tolist(), strict=True):
        metadata = {"id": node, "linked": linked[node]}
        store.store[node] = {"id": node, "vector": vector, "text": text, "metadata": metadata}
    retriever = GraphRetriever(store=store, edges=[("linked", "id")], strategy=Eager(k=K, start_k=5, adjacent_k=10, max_depth=1))
    return lambda question: [document.id for document in retriever.invoke(question)]


FOREIGN = {"LangChain Ensemble": langchain_hybrid, "LlamaIndex fusion": llama_index_hybrid, "DataStax eager": datastax}


def systems(index, reranker):
    for name in OURS:
        yield name, Retriever(index, name)
    for system in (PPR(), SpreadingActivation(**DAMPED)):
        yield f"{system.name}, fused with hybrid", Retriever(index, Fused(system, Hybrid()))
    if reranker is not None:
        scored = index.with_models(relevance=reranker)
        yield "fastinsight", Retriever(scored, "fastinsight")
        yield "fastinsight, fused with hybrid", Retriever(scored, Fused(FastInsight(), Hybrid()))
    for name, build in FOREIGN.items():
        try:
            yield name, build(index)
        except ImportError as error:
            print(f"{name}: left out ({error})")


def measured(name, system, index, covered, place, queries):
    row = {node: row for row, node in enumerate(index.graph.ids)}
    recalls, started = [], time.perf_counter()
    for query in queries:
        found = system(query.text)[:K] if callable(system) else [hit.id for hit in system.retrieve(query.text, K)]
        held = set().union(*(covered[row[node]] for node in found)) if found else set()
        gold = {place(node) for node in query.gold}
        recalls.append(len(gold & held) / len(gold))
    seconds = (time.perf_counter() - started) / len(queries)
    kinds = [query.type for query in queries]
    recalls = np.array(recalls)
    row = {kind: float(np.mean(recalls[[other == kind for other in kinds]])) for kind in sorted(set(kinds))}
    return {"retriever": name, "all": float(recalls.mean()), **row, "ms": 1000 * seconds}


def page(results, split, queries):
    """The tables as a page; the best figure of a column is bold."""
    lines = ["# Questions about a manual with hyperlinks", "", PREFACE.format(split=split, count=len(queries))]
    for part, rows in results.items():
        kinds = [kind for kind in rows[0] if kind not in ("retriever", "ms")]
        best = {kind: max(row[kind] for row in rows) for kind in kinds}
        lines += ["", f"## {HEADINGS[part]}", "", TEXTS[part], ""]
        lines += [f"| retriever | {' | '.join(kinds)} |", "| --- " * (len(kinds) + 1) + "|"]
        for row in rows:
            cells = [f"**{row[kind]:.3f}**" if row[kind] == best[kind] else f"{row[kind]:.3f}" for kind in kinds]
            lines.append(f"| {row['retriever']} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", CLOSING, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--reranker", help="folder of a cross-encoder; with it, FastInsight is in the tables")
    parser.add_argument("--split", default="test")
    parser.add_argument("--only", default="sections,pages")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, help="file to write the tables to, as Markdown")
    args = parser.parse_args()
    embedding = minilm()
    reranker = CrossEncoder(args.reranker, max_length=160, dtype="bfloat16") if args.reranker else None
    dataset = read_dataset(args.dataset)
    queries = [query for query in dataset.queries if args.split in ("all", query.split)]
    results = {}
    for part in args.only.split(","):
        built = sections(dataset, embedding) if part == "sections" else pages(args.dataset, embedding)
        index, covered, place = built
        print(f"\n{part}: {index.graph}, {len(queries)} questions, Recall@{K}")
        results[part] = []
        for name, system in systems(index, reranker):
            row = measured(name, system, index, covered, place, queries)
            results[part].append(row)
            kinds = "  ".join(f"{kind} {value:.3f}" for kind, value in row.items() if kind not in ("retriever", "all", "ms"))
            print(f"{name:26} all {row['all']:.3f}  {kinds}  {row['ms']:7.1f} ms", flush=True)
    if args.page:
        args.page.write_text(page(results, args.split, queries), encoding="utf-8")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
