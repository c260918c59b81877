"""Every system that walks, alone and fused with hybrid search, beside the searches: does a walk cost what search finds?

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
from graph_retrievers.signals.embedding import minilm
from graph_retrievers.signals.vector_cache import cached_vectors
from graph_retrievers.systems import Fused, Hybrid
from graph_retrievers.systems.linear_rag.retriever import LinearRAG
from graph_retrievers.systems.linear_rag.tri_graph import tri_graph

DATASETS = ("wiki-multihop", "postgres-docs", "python-docs", "citations", "pubmedqa", "metaqa")
# Those that are shown alone only: searches, and what is made of a search already.
ALONE = ("vector", "hybrid", "mor", "walk-fusion")
# How often hybrid search counts beside each.
WALKS = {
    **dict.fromkeys(("ppr", "spreading", "spreading(hub_exponent=1.0, threshold=0.001)", "spreading(gate='uniform')"), 1),
    **dict.fromkeys(("fastinsight", "eager", "scored", "lesegr"), 1),
    **dict.fromkeys(("mmr", "lightrag", "pathrag", "g-retriever", "linear-rag", "linear-rag(damping=0.5)"), 2),
}
# Where LinearRAG is measured, which embeds each name and each sentence.
SENTENCES = ("wiki-multihop", "postgres-docs", "python-docs", "citations", "pubmedqa")
K = 10
PREFACE = """Made by `benchmarks/walks.py --split {split} --page FILE`: Recall@10, all-MiniLM-L6-v2, no language model and no cross-
encoder, so `fastinsight` ranks by the vectors. Each cell has the system alone and `Fused(system, Hybrid())`, where the
search counts once or twice (x2). Recall is not capped. "p" is the p-value of a paired randomisation test of the system alone
against vector search, given where the system is below it. `lesegr` is untrained, and `mor` has neither a plan nor a reranker, so it
finds what hybrid search finds. Systems that need a checkpoint, facts or a relevance model are left out; without these, `gar`
and `hipporag` find what vector search finds. LinearRAG embeds each name and each sentence and was not run on metaqa, which
has neither."""


def recalls(retriever: Retriever, dataset: Dataset, split: str) -> list[float]:
    """Return the recall of each question."""
    queries = [query for query in dataset.queries if query.split in split.split("+")]
    texts = [query.text for query in queries]
    vectors = cached_vectors(minilm(), texts)
    found = retriever.retrieve_batch(texts, K, vectors=vectors)
    return [len({hit.id for hit in hits} & set(query.gold)) / len(query.gold) for hits, query in zip(found, queries, strict=True)]


def column(dataset: Dataset, split: str, *, sentences: bool) -> dict[str, str]:
    """Return the cell of each system on a dataset; that of LinearRAG is empty without `sentences`."""
    graph, model = CorpusGraph.from_nodes(dataset.nodes, dataset.edges, include_titles=dataset.include_titles), Kept(minilm())
    index = GraphIndex.from_graph(graph, embedding=model, vectors=cached_vectors(model.model, graph.contents(), show_progress=True))
    cells: dict[str, str] = {}
    plain = recalls(Retriever(index, "vector"), dataset, split)
    if sentences:
        tri = tri_graph(graph, Retriever(index, LinearRAG()).operator.extractor, "passage")
        model.keep([*tri.names, *tri.sentences])
    for name in (*ALONE, *WALKS):
        if name.startswith("linear-rag") and not sentences:
            cells[name] = ""
            continue
        scores = recalls(Retriever(index, name, k=K), dataset, split)
        cells[name] = f"{fmean(scores):.3f}"
        if name in WALKS:
            fused = Retriever(index, Fused(name, Hybrid(), weights=(1, WALKS[name])), k=K)
            cells[name] += f" / {fmean(recalls(fused, dataset, split)):.3f}"
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
    lines = [f"| system | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    for name in (*ALONE, *WALKS):
        twice = " x2" if WALKS.get(name) == 2 else ""
        lines.append(f"| `{name}`{twice} | {' | '.join(cells[name] for cells in columns.values())} |")
    text = "\n".join(["# Walks alone and fused with search", "", PREFACE.format(split=options.split), "", *lines, ""])
    print(text)
    if options.page:
        options.page.parent.mkdir(parents=True, exist_ok=True)
        options.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
