"""Multi-hop questions by source, with the metrics of papers, and the figures of the papers: docs/multi-hop.md.

Needs the extra offline. The vectors are kept in the user's cache.

    python benchmarks/multi_hop.py FOLDER_OF_DATASETS [--split test] [--page docs/multi-hop.md]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from graph_retrievers.datasets import read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.tables import source_rows
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.sentence_encoder import minilm

DATASET, SOURCES = "wiki-multihop", {"hotpot": "HotpotQA", "2wiki": "2WikiMultiHopQA", "musique": "MuSiQue"}
NAMES = ("vector", "bm25", "hybrid", "ppr", "spreading", "walk-fusion")
# Recall@2 and Recall@5 in per cent as they are printed, by source; None where a paper that we could read does not print it.
PUBLISHED = {
    "NV-Embed-v2 alone [1]": {"hotpot": (84.1, 94.5), "2wiki": (67.1, 76.5), "musique": (52.7, 69.7)},
    "BM25 [1]": {"hotpot": (57.3, 74.8), "2wiki": (55.3, 65.3), "musique": (32.4, 43.5)},
    "HippoRAG 2 [1]": {"hotpot": (83.5, 96.3), "2wiki": (76.2, 90.4), "musique": (56.1, 74.7)},
    "PropRAG [2, quoted in 4]": {"hotpot": (None, 97.4), "2wiki": (None, 94.1), "musique": (None, 78.3)},
    "LinearRAG [3]": {"hotpot": (None, None), "2wiki": (None, None), "musique": (None, None)},
    "BridgeRAG [4]": {"hotpot": (None, 98.75), "2wiki": (None, 95.27), "musique": (None, 81.46)},
}
MADE = [
    ["", "embedding model", "passages searched", "questions", "language model calls"],
    ["this package", "all-MiniLM-L6-v2, 22 million weights", "{nodes:,}, all sources together", "{each}", "none"],
    [
        "HippoRAG 2 [1]",
        "NV-Embed-v2, 7 billion weights",
        "HotpotQA 9,811, 2WikiMultiHopQA 6,119, MuSiQue 11,656, each separately",
        "1,000 of each",
        "for each passage at indexing (triples, Llama-3.3-70B), and one per question (it filters triples)",
    ],
    ["PropRAG [2]", "NV-Embed-v2 [4]", "-", "-", "for each passage at indexing (propositions, Llama-3.3-70B), none per question"],
    ["LinearRAG [3]", "all-mpnet-base-v2", "-", "-", "none at indexing (names by spaCy), none for retrieval"],
    [
        "BridgeRAG [4]",
        "NV-Embed-v2",
        "-",
        "HotpotQA 1,000, those of HippoRAG 2",
        "none at indexing, three per question (Llama 3.3 70B)",
    ],
]
TEXT = """# Multi-hop questions and published figures

Papers on multi-hop retrieval report Recall@2 and Recall@5 for each data set. If most questions have several relevant nodes,
`evaluate` prints these too, and All@5, the share of questions with all relevant passages among the first five. If queries have a
field `source`, it also prints them by source.

`benchmarks/multi_hop.py --split {split} --page FILE` makes the first table: {count} questions of the split {split!r} over
{nodes:,} passages of all three sources in one corpus, with all-MiniLM-L6-v2, no language model and no cross-encoder.

{ours}

The second table has published figures. A dash means that the paper does not report the figure, or that we found none to cite.

{theirs}

{made}

## What can be compared, and what cannot

- You can compare rows of one table of one paper. The difference between one of our rows and one of
  theirs means nothing.
- Our questions are a sample, those of the split {split!r}, so differences of a few hundredths are chance. We kept only questions
  whose passages are all in the corpus, and no two questions have the same passages.
- Our corpus is larger than each of theirs, because it also contains the passages of the other two sources. For 2WikiMultiHopQA it
  has all 6,119 passages of theirs; for HotpotQA and MuSiQue it has fewer distractors from the same source.
- Their embedding model has about 300 times as many weights as ours, and finds more by itself: compare "NV-Embed-v2 alone" with
  our row `vector`. What a graph adds is the difference between a system and its own embedding model, in its own table.
- The edges of our corpus come from titles of passages that occur in other texts (`TitleMentions`). Their edges come from triples,
  propositions or named entities, or they have none.
- LinearRAG reports how often an answer is right, not what is retrieved, so no figure can be compared with ours.
- The figures of PropRAG are quoted from BridgeRAG; a summary of the first version of its paper has 97.0, 93.7 and 77.3.

## Sources

1. Gutiérrez et al., "From RAG to Memory: Non-Parametric Continual Learning for Large Language Models", arXiv 2502.14802, table 9.
2. Wang and Han, "PropRAG: Guiding Retrieval with Beam Search over Proposition Paths", EMNLP 2025, arXiv 2504.18070.
3. Zhuang et al., "LinearRAG: Linear Graph Retrieval Augmented Generation on Large-scale Corpora", ICLR 2026, arXiv 2510.10114.
4. Bacellar, "BridgeRAG: Training-Free Bridge-Conditioned Retrieval for Multi-Hop Question Answering", arXiv 2604.03384, and the
   list of baselines in its repository.
"""


def table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "| --- " * len(rows[0]) + "|", *lines[1:]])


def theirs() -> str:
    """Return the published figures, in the form of ours."""
    rows = [["source", "system", "Recall@2", "Recall@5"]]
    for source, name in SOURCES.items():
        for system, figures in PUBLISHED.items():
            rows.append([name, system, *("-" if value is None else f"{value / 100:.3f}" for value in figures[source])])
    return table(rows)


def page(folder: Path, split: str) -> str:
    """Measure, and return the page."""
    dataset = read_dataset(folder / DATASET)
    graph, embedding = dataset.graph(), minilm()
    index = GraphIndex.from_graph(graph, embedding=embedding, cache=True, show_progress=True)
    queries = [query for query in dataset.queries if query.split == split]
    evaluation = evaluate(index, queries, NAMES, k=10, timed_queries=0, dataset=DATASET, split=split)
    titles, *rows = source_rows(evaluation)
    order = list(SOURCES)
    rows.sort(key=lambda row: order.index(row[0]))
    counts = {row[0]: row[1] for row in rows}
    each = ", ".join(f"{SOURCES[source]} {counts[source]}" for source in order)
    return TEXT.format(
        split=split,
        count=len(queries),
        nodes=len(graph),
        ours=table([titles, *([SOURCES[row[0]], *row[1:]] for row in rows)]),
        theirs=theirs(),
        made=table([[cell.format(nodes=len(graph), each=each) for cell in row] for row in MADE]),
    )


def main() -> None:
    """Print the page, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--page", type=Path, help="file to write")
    options = parser.parse_args()
    made = page(options.folder, options.split)
    print(made)
    if options.page:
        options.page.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
