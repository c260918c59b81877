"""What decides the form of WalkFusion, on each shared dataset and on encyclopedias made smaller, beside what each form finds.

Needs the extra offline. The vectors of a dataset are kept in the user's cache.

    python benchmarks/forms.py FOLDER_OF_DATASETS [--only wiki-multihop,...] [--split test] [--pages FOLDER,...] [--page FILE]

`--pages` are folders of pages without questions, such as a manual: for them, only the form is told, and what decides it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from graph_retrievers import Retriever
from graph_retrievers.construction import build_edges, read_folder
from graph_retrievers.construction.links import Links
from graph_retrievers.construction.structure import DocumentStructure
from graph_retrievers.datasets import Query, read_dataset
from graph_retrievers.evaluation.harness import evaluate
from graph_retrievers.evaluation.significance import randomization_test
from graph_retrievers.graph.corpus_graph import CorpusGraph
from graph_retrievers.index import GraphIndex
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.systems.traits import names_identify, names_mentioned
from graph_retrievers.systems.walk_fusion.retriever import WalkFusion

DATASETS = ("wiki-multihop", "python-docs", "postgres-docs", "citations", "pubmedqa", "metaqa")
HEADING = "documents,nodes,questions,names mentioned,names identify,form,hybrid,links,names,WalkFusion,p".split(",")
PREFACE = """Made by `benchmarks/forms.py --split {split} --page FILE`: Recall@10, all-MiniLM-L6-v2, at most 300 questions per
row. "Names mentioned" is the share of texts that begin with their title as a name, or contain the name of another node. If it is
at least 0.15 and names identify nodes, the form is "names". "p" is the p-value of a paired randomisation test between "names" and
"links". A cut encyclopedia consists of the articles that answer its questions, which are at most half of it, and randomly drawn
other articles. The last rows are manuals without questions."""
ENCYCLOPEDIA, SIZES, MOST = "wiki-multihop", (500, 1000, 3000), 300


def part(index: GraphIndex, ids: Collection[str]) -> GraphIndex:
    """Return the index of some nodes and the edges between them."""
    graph = index.graph
    rows = [row for row, node in enumerate(graph.ids) if node in ids]
    edges = [edge for edge in graph.edges() if edge.source in ids and edge.target in ids]
    columns = {name: [getattr(graph, name)[row] for row in rows] for name in ("titles", "types", "metadata")}
    held = [graph.ids[row] for row in rows], [graph.texts[row] for row in rows]
    smaller = CorpusGraph(*held, edges=edges, include_titles=graph.include_titles, **columns)
    return GraphIndex.from_graph(smaller, vectors=index.dense.vectors[rows], embedding=index.embedding)


def encyclopedias(index: GraphIndex, queries: Sequence[Query]) -> Iterator[tuple[str, GraphIndex, Sequence[Query]]]:
    """Yield encyclopedias made of one: cut to a number of articles, with titles of one word, and folded to lower case."""
    graph = index.graph
    for size in SIZES:
        # The articles that answer questions are at most half of them, the others are drawn.
        draw, kept = random.Random(size), set[str]()
        for query in draw.sample(queries, len(queries)):
            if len(kept | set(query.gold)) <= size // 2:
                kept |= set(query.gold)
        others = [node for node in graph.ids if node not in kept]
        yield f"cut to {size:,}", part(index, kept | set(draw.sample(others, size - len(kept)))), queries
    words = {node for node, title in zip(graph.ids, graph.titles, strict=True) if len(title.split()) == 1}
    asked = [query for query in queries if words & set(query.gold)]
    yield "titles of one word, and what else answers", part(index, words.union(*(query.gold for query in asked))), asked
    texts, titles = [text.lower() for text in graph.texts], [title.lower() for title in graph.titles]
    columns = {"titles": titles, "types": graph.types, "metadata": graph.metadata, "include_titles": graph.include_titles}
    lower = CorpusGraph(graph.ids, texts, edges=graph.edges(), **columns)
    # The embedding model reads lower case alone, so the vectors are the same.
    folded = GraphIndex.from_graph(lower, vectors=index.dense.vectors, embedding=index.embedding)
    yield "folded to lower case", folded, [replace(query, text=query.text.lower()) for query in queries]


def line(name: str, index: GraphIndex, queries: Sequence[Query]) -> str:
    """Return a row of the table: what decides the form, the form, and Recall@10 of each."""
    held = set(index.graph.ids)
    asked = [query for query in queries if set(query.gold) <= held]
    asked = random.Random(0).sample(asked, MOST) if len(asked) > MOST else asked
    fits = WalkFusion().form_on(index)
    forms = {form: Retriever(index, WalkFusion(form=form)) for form in dict.fromkeys(("links", "names", fits))}
    found = evaluate(index, asked, {"hybrid": "hybrid", **forms}, k=10, timed_queries=0)
    columns = {each: found.column(each, "recall@10") for each in found.retrievers}
    shown = [f"{sum(columns[each]) / len(asked):.3f}" for each in ("hybrid", "links", "names", fits)]
    p = randomization_test(columns["names"], columns["links"])
    return f"| {name} | {len(index):,} | {len(asked)} | {_decides(index)} | {fits} | {' | '.join(shown)} | {p:.3f} |"


def _decides(index: GraphIndex) -> str:
    return f"{names_mentioned(index.graph):.3f} | {'yes' if names_identify(index) else 'no'}"


def rows(options: argparse.Namespace) -> Iterator[str]:
    """Yield the rows of the table."""
    for name in filter(None, options.only.split(",")):
        dataset, model = read_dataset(options.folder / name), minilm()
        graph = dataset.graph()
        index = GraphIndex.from_graph(graph, embedding=model, cache=True)
        queries = [query for query in dataset.queries if query.split in options.split.split(",")]
        yield line(name, index, queries)
        if name == ENCYCLOPEDIA:
            yield from (line(f"{name}, {how}", *changed) for how, *changed in encyclopedias(index, queries))
    for folder in filter(None, options.pages.split(",")):
        nodes = read_folder(folder)
        index = GraphIndex.from_graph(CorpusGraph.from_nodes(nodes, build_edges(nodes, [Links(), DocumentStructure()])))
        yield f"| {Path(folder).name} | {len(index):,} | | {_decides(index)} | {WalkFusion().form_on(index)} | | | | | |"


def main() -> None:
    """Print the table a row at a time, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(DATASETS))
    parser.add_argument("--split", default="test", help="splits of the questions, with commas between them")
    parser.add_argument("--pages", default="", help="folders of pages, with commas between them")
    parser.add_argument("--page", type=Path, help="file to write the table to, as Markdown")
    options = parser.parse_args()
    table = [f"| {' | '.join(HEADING)} |", "| --- " * len(HEADING) + "|"]
    for row in rows(options):
        table.append(row)
        print(row, flush=True)
    if options.page:
        options.page.parent.mkdir(parents=True, exist_ok=True)
        text = ["# The form of WalkFusion", "", PREFACE.format(split=options.split), "", *table, ""]
        options.page.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
