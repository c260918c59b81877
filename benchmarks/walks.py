"""Every retriever that walks, with its defaults and alone, beside vector search: does a walk cost what search finds?

    python benchmarks/walks.py FOLDER_OF_DATASETS [--split test] [--only citations,...] [--page FILE]

Those that need a checkpoint or a language model are left out. Vectors are kept in the user's cache. Needs the extra
offline.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

from plain import Kept

from graph_retrievers.datasets import Dataset, read_dataset
from graph_retrievers.evaluation.significance import randomization_test
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers import Retriever
from graph_retrievers.retrievers.signatures import class_knobs
from graph_retrievers.signals.embedding import minilm
from graph_retrievers.signals.vector_cache import cached_vectors
from graph_retrievers.systems.linear_rag.retriever import LinearRAG
from graph_retrievers.systems.linear_rag.tri_graph import tri_graph
from graph_retrievers.systems.registry import build_retriever, retriever_class

DATASETS = ("wiki-multihop", "postgres-docs", "python-docs", "citations", "pubmedqa", "metaqa")
SEARCHES = ("vector", "hybrid")
WALKS = (
    *("ppr", "spreading", "spreading-uniform", "fastinsight", "eager", "mmr", "scored", "lightrag", "pathrag", "g-retriever"),
    *("linear-rag", "lesegr", "mor", "walk-fusion"),
)
# Where LinearRAG is measured, which embeds each name and each sentence.
SENTENCES = ("wiki-multihop", "postgres-docs", "python-docs", "citations", "pubmedqa")
K = 10
PREFACE = """Made by `benchmarks/walks.py --split {split} --page FILE`: Recall@10, all-MiniLM-L6-v2, no language model and no
cross-encoder, so `fastinsight` ranks by the vectors. In brackets: unfused (`fuse=False`), where the default is fused with a
search. Recall is not capped. "p" is the p-value of a paired randomisation test of the default against vector search, given where
the default is below it. `lesegr` is untrained, and `mor` has neither a plan nor a reranker, so it finds what hybrid search finds.
Retrievers that need a checkpoint, facts or a relevance model are left out; without these, `gar` and `hipporag` find what vector
search finds. LinearRAG embeds each name and each sentence and was not run on metaqa, which has neither. Defaults were chosen on
questions of train and dev."""


def recalls(retriever: Retriever, dataset: Dataset, split: str) -> list[float]:
    """Return the recall of each question."""
    queries = [query for query in dataset.queries if query.split in split.split("+")]
    texts = [query.text for query in queries]
    vectors = cached_vectors(minilm(), texts)
    found = retriever.retrieve_batch(texts, K, vectors=vectors)
    return [len({hit.id for hit in hits} & set(query.gold)) / len(query.gold) for hits, query in zip(found, queries, strict=True)]


def column(dataset: Dataset, split: str, *, sentences: bool) -> dict[str, str]:
    """Return the cell of each retriever on a dataset; that of LinearRAG is empty without `sentences`."""
    graph, model = CorpusGraph.from_nodes(dataset.nodes, dataset.edges, include_titles=dataset.include_titles), Kept(minilm())
    index = GraphIndex.from_graph(graph, embedding=model, vectors=cached_vectors(model.model, graph.contents(), show_progress=True))
    cells: dict[str, str] = {}
    plain = recalls(build_retriever("vector", index), dataset, split)
    for name in (*SEARCHES, *WALKS):
        if name == "linear-rag":
            if not sentences:
                cells[name] = ""
                continue
            tri = tri_graph(graph, LinearRAG(index, fuse=False).operator.extractor, "passage")
            model.keep([*tri.names, *tri.sentences])
        made = build_retriever(name, index, k=K)
        scores = recalls(made, dataset, split)
        cells[name] = f"{fmean(scores):.3f}"
        if "fuse" in {knob.name for knob in class_knobs(retriever_class(name)[0])}:
            alone = build_retriever(name, index, k=K, fuse=False)
            if repr(alone) != repr(made):
                cells[name] += f" ({fmean(recalls(alone, dataset, split)):.3f})"
        if fmean(scores) < fmean(plain) - 1e-9:
            cells[name] += f", p {randomization_test(scores, plain):.2f}"
        print(name, cells[name], flush=True)
    return cells


def main() -> None:
    """Measure the datasets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="test", help="one or several, with a plus between them")
    parser.add_argument("--only", default=",".join(DATASETS))
    parser.add_argument("--page", type=Path, help="file to write, as Markdown")
    options = parser.parse_args()
    columns = {}
    for name in options.only.split(","):
        dataset = read_dataset(options.folder / name)
        count = sum(query.split in options.split.split("+") for query in dataset.queries)
        print(name, count, flush=True)
        columns[f"{name}, {count}"] = column(dataset, options.split, sentences=name in SENTENCES)
    lines = [f"| retriever | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(cells[name] for cells in columns.values())} |" for name in (*SEARCHES, *WALKS)]
    text = "\n".join(["# Walks compared with vector search", "", PREFACE.format(split=options.split), "", *lines, ""])
    print(text)
    if options.page:
        options.page.parent.mkdir(parents=True, exist_ok=True)
        options.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
