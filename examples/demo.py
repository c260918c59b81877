"""From documents to an answer that vector search misses, in LangChain and in LlamaIndex.

Indexes about 300 Wikipedia paragraphs with the MiniLM weights of the ``offline`` extra, and answers a question whose
answer stands one link away from what the question names. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from langchain_core.documents import Document
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from graph_retrievers.construction.edges import TitleMentions
from graph_retrievers.hits import NodePath
from graph_retrievers.signals.sentence_encoder import minilm
from langchain_graph_retrievers import GraphRetriever
from llama_graph_retrievers import GraphRetriever as LlamaGraphRetriever
from llama_graph_retrievers import provenance

DATA = Path(__file__).parent / "data"
QUESTION = "Which country does the composer of the film MirrorMask come from?"
ANSWER = "Iain Ballamy"


def arrow(path: dict[str, list]) -> str:
    """Return a path as text, marked if it ends at the paragraph with the answer."""
    found = NodePath(**{name: tuple(part) for name, part in path.items()})
    return found.text + ("   <- the answer" if found.titles[-1:] == (ANSWER,) else "")


def main() -> None:
    """Index, retrieve with vector search and with the graph, through both frameworks, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--question", default=QUESTION)
    question = parser.parse_args().question

    rows = [json.loads(line) for line in (DATA / "nodes.jsonl").open(encoding="utf-8")]
    documents = [Document(row["text"], id=row["id"], metadata={"title": row["title"]}) for row in rows]
    options = {"k": 5, "provenance": True, "show_progress": True}
    retriever = GraphRetriever.from_documents(documents, minilm(), edges=[TitleMentions()], **options)
    index = retriever.index
    print(f"{len(index)} paragraphs, {index.graph.num_edges} title mentions between them.")
    print(f"\nQuestion: {question}")

    print("\nVector search (LangChain):")
    for document in GraphRetriever(index=index, system="vector", k=5, provenance=True).invoke(question):
        print("  ", arrow(document.metadata["path"]))
    print(f"\n{retriever.engine.name}, the default for such documents (LangChain):")
    for document in retriever.invoke(question):
        print("  ", arrow(document.metadata["path"]))

    print("\nThe same in a LlamaIndex query engine (a mock language model stands in):")
    engine = RetrieverQueryEngine.from_args(LlamaGraphRetriever(index, similarity_top_k=5), llm=MockLLM())
    response = engine.query(question)
    for hit in response.source_nodes:
        print("  ", arrow(provenance(hit)["path"]))
    print(f"\nThe language model would read {len(str(response).split())} words of prompt and context.")


if __name__ == "__main__":
    main()
