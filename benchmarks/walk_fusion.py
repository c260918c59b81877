"""WalkFusion list by list on every shared dataset: Recall@10, milliseconds and significance, with its edges and with shuffled ones.

Needs the extra offline. The vectors of a dataset are kept in the user's cache.

    python benchmarks/walk_fusion.py FOLDER_OF_DATASETS [--only wiki-multihop,...] [--split test] [--page FILE]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from graph_retrievers.datasets import Query, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.outcome import ALL_FIVE, Evaluation
from graph_retrievers.evaluation.significance import randomization_test
from graph_retrievers.evaluation.tables import source_rows
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.retrievers import Retriever
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.systems import WalkFusion
from graph_retrievers.systems.traits import names_mentioned

K, TIMED = 10, 50
DATASETS = ("wiki-multihop", "postgres-docs", "citations", "pubmedqa", "metaqa")
OTHERS = ("vector", "bm25", "hybrid", "ppr", "spreading")
LISTS = {
    "names": ("PathSearch", "STeX", "names + activation"),
    "relations": ("hybrid", "names + activation", "MetapathSearch"),
    "links": ("PathSearch",),
}
# The kind of a question, by dataset; the type of the question elsewhere.
KINDS: dict[str, Callable[[Query], str]] = {
    "wiki-multihop": lambda query: query.type.split("-")[0] if query.type.startswith(("hotpot", "musique")) else "2wiki",
    "metaqa": lambda query: f"{query.extra['hops']} hops",
    "pubmedqa": lambda query: "",
}
PREFACE = """Made by `benchmarks/walk_fusion.py --split {split} --page FILE`: Recall@10, all-MiniLM-L6-v2, no language model and
no cross-encoder. "p" are the p-values of paired randomisation tests, against hybrid search and against WalkFusion. "ms" is the
median time of a single query, including its embedding. "shuffled edges" are the same edges with their targets shuffled. The
documentation of `WalkFusion` says which graph gets which form; lists and constants were chosen on train and dev questions.
{all_five}"""


def retrievers(index: GraphIndex) -> Iterator[tuple[str, Retriever]]:
    """Yield other retrievers, WalkFusion as it is, its lists one by one, WalkFusion without each, and its other forms."""
    for name in OTHERS:
        yield name, Retriever(index, name, k=K)
    fusion = Retriever(index, WalkFusion())
    own = WalkFusion().form_on(index)
    yield f"walk-fusion ({own})", fusion
    lists = LISTS[own]
    if len(lists) > 1:
        weights = fusion.operator.weights  # type: ignore[attr-defined]
        for place, name in enumerate(lists):
            yield f"only {name}", Retriever(index, WalkFusion(weights=[float(place == other) for other in range(len(lists))]))
            yield f"without {name}", Retriever(index, WalkFusion(weights=[w * (place != other) for other, w in enumerate(weights)]))
    if own != "relations":
        bridges = 0 if own == "names" else 3
        yield f"bridges={bridges}", Retriever(index, WalkFusion(bridges=bridges))
    if own == "names":
        yield "only PathSearch, bridges=0", Retriever(index, WalkFusion(weights=(1, 0, 0), bridges=0))
    for form in ("links", "names"):
        if form != own:
            yield f'form="{form}"', Retriever(index, WalkFusion(form=form))


def shuffled(index: GraphIndex) -> GraphIndex:
    """Return the index with the same edges, whose targets are drawn anew."""
    graph, edges = index.graph, index.graph.edges()
    targets = [edge.target for edge in edges]
    random.Random(0).shuffle(targets)
    moved = [replace(edge, target=target) for edge, target in zip(edges, targets, strict=True)]
    columns = {name: getattr(graph, name) for name in ("titles", "types", "metadata", "include_titles")}
    return GraphIndex(CorpusGraph(graph.ids, graph.texts, edges=moved, **columns), index.signals, embedding=index.embedding)


def table(evaluation: Evaluation, kinds: dict[str, str], default: str) -> list[list[str]]:
    """Return a line for each retriever: its name, Recall@10 of all questions and of each kind, p-values and milliseconds.

    The p-values are against hybrid search and `default`.
    """
    metric, groups = f"recall@{K}", sorted(set(kinds.values()) - {""})
    others, lines = [evaluation.column(name, metric) for name in ("hybrid", default)], []
    for name in evaluation.retrievers:
        column, values = evaluation.column(name, metric), evaluation.values[name]
        parts = [column, *([row[metric] for query, row in values.items() if kinds[query] == group] for group in groups)]
        p = ["" if column == other else f"{randomization_test(column, other):.4f}" for other in others]
        median = 1000 * evaluation.costs[name]["seconds_median"]
        lines.append([name, *(f"{sum(part) / len(part):.3f}" for part in parts), *p, f"{median:.1f}"])
    return lines


def page(folder: Path, names: list[str], split: str) -> str:
    """Measure, and return the tables as a page."""
    text = ["# WalkFusion, list by list", "", PREFACE.format(split=split, all_five=ALL_FIVE)]
    for name in names:
        dataset = read_dataset(folder / name)
        graph, embedding = dataset.graph(), minilm()
        index = GraphIndex.from_graph(graph, embedding=embedding, cache=True, show_progress=True)
        queries = [query for query in dataset.queries if query.split == split]
        kinds = {query.id: KINDS.get(name, lambda query: query.type)(query) for query in queries}
        default = f"walk-fusion ({WalkFusion().form_on(index)})"
        evaluation = evaluate(index, queries, dict(retrievers(index)), k=K, timed_queries=TIMED)
        lines = table(evaluation, kinds, default)
        moved = shuffled(index)
        both = {
            form or WalkFusion().form_on(moved): Retriever(moved, WalkFusion(form=form))
            for form in (None, WalkFusion().form_on(index))
        }
        both = {f"shuffled edges ({form})": each for form, each in both.items()}
        found = evaluate(moved, queries, {"hybrid": "hybrid", **both}, k=K, timed_queries=TIMED)
        random_lines = table(found, kinds, next(iter(both)))[1:]
        groups = sorted(set(kinds.values()) - {""})
        heading = ["retriever", "all", *groups, "p, hybrid", "p, walk-fusion", "ms"]
        text += ["", f"## {name}", ""]
        share = f"{names_mentioned(graph):.2f} of the texts open with their title as a name, or name another node"
        text += [f"{len(queries)} questions, {len(graph):,} nodes; {share}."]
        text += ["", f"| {' | '.join(heading)} |", "| --- " * len(heading) + "|"]
        text += [f"| {' | '.join(line)} |" for line in lines + random_lines]
        if by_source := source_rows(evaluation, (*OTHERS, default)):
            text += ["", f"| {' | '.join(by_source[0])} |", "| --- " * len(by_source[0]) + "|"]
            text += [f"| {' | '.join(row)} |" for row in by_source[1:]]
        print("\n".join(text[text.index(f"## {name}") :]), flush=True)
    return "\n".join([*text, ""])


def main() -> None:
    """Measure the datasets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(DATASETS))
    parser.add_argument("--split", default="test")
    parser.add_argument("--page", type=Path, help="file to write the tables to, as Markdown")
    options = parser.parse_args()
    made = page(options.folder, options.only.split(","), options.split)
    if options.page:
        options.page.parent.mkdir(parents=True, exist_ok=True)
        options.page.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
