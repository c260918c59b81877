"""From documents to an answer: FastInsight in a LangChain chain and in a LlamaIndex query engine.

Indexes about 300 Wikipedia paragraphs with the MiniLM weights of the ``offline`` extra, and answers a question whose
answer stands one link away from what the question names. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.runnables import RunnablePassthrough
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from graph_retrievers.construction.edges import TitleMentions
from graph_retrievers.graph import CorpusGraph
from graph_retrievers.hits import NodePath
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.embedding import minilm
from langchain_graph_retrievers import FastInsightRetriever
from llama_graph_retrievers import FastInsightRetriever as LlamaFastInsightRetriever

DATA = Path(__file__).parent / "data"
QUESTION = "Which country does the composer of the film MirrorMask come from?"


def show(rank: int, score: float, operator: str, path: dict[str, list]) -> None:
    """Print one hit: its score, the operator that found it, and the path that led to it."""
    print(f"  {rank}. {score:6.3f}  {operator:<13} {NodePath(**{name: tuple(part) for name, part in path.items()}).text}")


def main() -> None:
    """Index, retrieve through both frameworks, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--reranker", help="name or folder of a cross-encoder, e.g. BAAI/bge-reranker-v2-m3")
    options = parser.parse_args()
    logging.getLogger("transformers").setLevel(logging.ERROR)

    rows = [json.loads(line) for line in (DATA / "nodes.jsonl").open(encoding="utf-8")]
    documents = [Document(row["text"], id=row["id"], metadata={"title": row["title"]}) for row in rows]
    index = GraphIndex.from_documents(
        documents, edges=[TitleMentions()], embedding=minilm(), relevance=options.reranker, show_progress=True
    )
    graph: CorpusGraph = index.graph
    print(f"{len(graph)} paragraphs, {graph.num_edges} title mentions between them.")
    if options.reranker is None:
        print("No cross-encoder given: MiniLM's vectors score. For a real one pass --reranker BAAI/bge-reranker-v2-m3.")

    print(f"\nQuestion: {options.question}\n\nLangChain: FastInsightRetriever in a chain")
    retriever = FastInsightRetriever(index=index, k=8, provenance=True)
    chain = RunnablePassthrough() | {"question": RunnablePassthrough(), "context": retriever}
    for rank, document in enumerate(chain.invoke(options.question)["context"], 1):
        found = document.metadata
        show(rank, found["score"], found["operator"], found["path"])

    print("\nLlamaIndex: FastInsightRetriever in a RetrieverQueryEngine (a mock language model stands in)")
    engine = RetrieverQueryEngine.from_args(LlamaFastInsightRetriever(index, similarity_top_k=8), llm=MockLLM())
    response = engine.query(options.question)
    for rank, hit in enumerate(response.source_nodes, 1):
        found = hit.node.metadata
        show(rank, hit.get_score(), found["operator"], found["path"])
    print(f"\nThe language model would read {len(str(response).split())} words of prompt and context.")


if __name__ == "__main__":
    main()
