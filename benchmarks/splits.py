"""Manuals cut as their users cut them: pages in Markdown, split by the standard splitters of LangChain and LlamaIndex.

    python benchmarks/splits.py FOLDER_OF_DATASETS [--split train+dev] [--only sentences,recursive*] [--page FILE]

The sections of a manual are put together to pages again, with headings and with their links as Markdown writes them. A chunk counts
for a section if they share half of the shorter of the two. The vectors are kept in the user's cache. Needs langchain-text-splitters
and llama-index-core.
"""

from __future__ import annotations

import argparse
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.construction import DocumentStructure, Links, Relationships
from graph_retrievers.construction.markdown import slug
from graph_retrievers.datasets import Dataset, read_dataset
from graph_retrievers.signals.sentence_encoder import minilm
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.systems import WalkFusion

K = 10
PREFACE = """Made by `benchmarks/splits.py --split {split} --only {only} --page FILE`: Recall@10, all-MiniLM-L6-v2, vectors of
chunks in {precision}. The sections of two manuals are joined into Markdown pages with their links and split by common splitters.
A chunk counts for a section if they share at least half of the shorter of the two. Edges are links and the order of the chunks on
a page. "pages" is the mean number of distinct pages among ten hits. WalkFusion was tuned on train and dev."""
MANUALS = ("postgres-docs", "python-docs")
KINDS = ("single", "linked", "compare")


@dataclass
class ManualPages:
    """The pages of a manual by address, and where each of its sections stands: the address, and the first and last character."""

    texts: dict[str, str]
    places: dict[str, tuple[str, int, int]]


def pages(dataset: Dataset) -> ManualPages:
    """Put sections together to pages in Markdown."""
    held: dict[str, list[Any]] = defaultdict(list)
    for node in dataset.nodes:
        held[node.id.partition("#")[0]].append(node)
    inside = [edge for edge in dataset.edges if edge.relation == "contains" and page(edge) == page(edge, "target")]
    within = {edge.target: edge.source for edge in inside}
    names, slugs = {}, {}
    for nodes in held.values():
        seen: Counter[str] = Counter()
        for node in nodes:
            if "~" in node.id.partition("#")[2]:
                continue
            names[node.id] = name = heading(node, nodes[0].title)
            slugs[node.id] = f"{slug(name)}-{seen[slug(name)]}" if seen[slug(name)] else slug(name)
            seen[slug(name)] += 1
    links: dict[str, list[str]] = defaultdict(list)
    for edge in dataset.edges:
        if edge.relation == "links":
            links[edge.source].append(edge.target)
    texts, places = {}, {}
    for path, nodes in held.items():
        parts, at = [], 0
        for node in nodes:
            whole = node.id.partition("~")[0]
            # A comment in code is not a heading.
            text = re.sub(r"^#", r"\\#", node.text, flags=re.MULTILINE)
            text = linked(text, [(names[to], address(to, slugs)) for to in map(first_part, links[node.id]) if to in names])
            if node.id == whole:
                text = f"{'#' * depth(node.id, within)} {names[node.id]}\n\n{text}"
            places[node.id] = (markdown(path), at, at + len(text))
            parts.append(text)
            at += len(text) + 2
        texts[markdown(path)] = "\n\n".join(parts)
    return ManualPages(texts, places)


def page(edge: Any, end: str = "source") -> str:
    return getattr(edge, end).partition("#")[0]


def first_part(node: str) -> str:
    return node.partition("~")[0]


def markdown(path: str) -> str:
    return path.removesuffix(".html") + ".md"


def heading(node: Any, page: str) -> str:
    """The heading of a section, without the name of its page that makes it distinct in the data set."""
    return str(node.title).removeprefix(f"{page}: ").removesuffix(f" ({page})")


def depth(node: str, within: dict[str, str]) -> int:
    level = 1
    while (node := first_part(within.get(node, ""))) and level < 6:
        level += 1
    return level


def address(node: str, slugs: dict[str, str]) -> str:
    path, _, _ = node.partition("#")
    return f"/{markdown(path)}#{slugs[node]}"


def linked(text: str, links: list[tuple[str, str]]) -> str:
    """Return a text with links: on the first place with the name of the section, else behind the text."""
    for name, url in links:
        found = re.search(rf"(?<![\w\[(/#.-]){re.escape(name)}(?![\w\]/#-]|[^\[\n]*\])", text)
        if found:
            text = f"{text[: found.start()]}[{name}]({url}){text[found.end() :]}"
        else:
            text = f"{text} ([see]({url}))"
    return text


def langchain_pages(texts: dict[str, str]) -> list[Any]:
    from langchain_core.documents import Document

    return [Document(text, metadata={"source": path}) for path, text in texts.items()]


def recursive(texts: dict[str, str]) -> list[Any]:
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200, add_start_index=True)
    return splitter.split_documents(langchain_pages(texts))


def headers(texts: dict[str, str]) -> list[Any]:
    from langchain_text_splitters import MarkdownHeaderTextSplitter, RecursiveCharacterTextSplitter

    by_header = MarkdownHeaderTextSplitter([("#" * level, f"Header {level}") for level in range(1, 5)], strip_headers=False)
    parts = []
    for document in langchain_pages(texts):
        for part in by_header.split_text(document.page_content):
            part.metadata |= document.metadata
            parts.append(part)
    return RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200).split_documents(parts)


def sentences(texts: dict[str, str]) -> list[Any]:
    from llama_index.core import Document
    from llama_index.core.node_parser import SentenceSplitter

    documents = [Document(text=text, id_=path, metadata={"file_path": path}) for path, text in texts.items()]
    # Random ids would make other ties at each run.
    return SentenceSplitter(id_func=lambda number, document: f"{document.node_id}:{number}").get_nodes_from_documents(documents)


SPLITTERS: dict[str, tuple[str, Callable[[dict[str, str]], list[Any]]]] = {
    "recursive": ("LangChain, RecursiveCharacterTextSplitter, 1,000 characters, overlap 200", recursive),
    "headers": ("LangChain, MarkdownHeaderTextSplitter, then as above", headers),
    "sentences": ("LlamaIndex, SentenceSplitter with its defaults (1,024 tokens, overlap 200)", sentences),
}


def text_of(chunk: Any) -> str:
    return str(chunk.page_content if hasattr(chunk, "page_content") else chunk.get_content())


def source_of(chunk: Any) -> str:
    return str(chunk.metadata.get("source") or chunk.metadata["file_path"])


def spans(chunks: list[Any], texts: dict[str, str]) -> Iterator[tuple[str, int, int]]:
    """Yield the page of each chunk, and the first and last character, in order; splitters change spaces, so these do not count."""
    bare = {path: bared(text) for path, text in texts.items()}
    last: dict[str, int] = defaultdict(int)
    for chunk in chunks:
        path, (words, _) = source_of(chunk), bared(text_of(chunk))
        letters, places = bare[path]
        start = letters.find(words, last[path])
        if start < 0:
            raise ValueError(f"a chunk of {path} is not on its page: {words[:80]!r}")
        last[path] = start
        yield path, places[start], places[start + len(words) - 1] + 1


def bared(text: str) -> tuple[str, list[int]]:
    places = [place for place, letter in enumerate(text) if letter.isprintable() and not letter.isspace()]
    return "".join(text[place] for place in places), places


def covered(chunks: list[Any], given: ManualPages) -> list[set[str]]:
    """Return the sections that each chunk counts for."""
    sections: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for node, (path, start, stop) in given.places.items():
        sections[path].append((start, stop, node))
    found = []
    for path, start, stop in spans(chunks, given.texts):
        there = sections[path]
        near = there[max(0, bisect_left(there, (start,)) - 1) :]
        shared = ((min(stop, b) - max(start, a), min(stop - start, b - a), node) for a, b, node in near)
        found.append({node for both, shorter, node in shared if 2 * both >= shorter})
    return found


def of_answers(given: ManualPages, dataset: Dataset) -> ManualPages:
    """Return the pages with a section that a question asks for."""
    asked = {given.places[node][0] for query in dataset.queries for node in query.gold}
    texts = {path: text for path, text in given.texts.items() if path in asked}
    return ManualPages(texts, {node: place for node, place in given.places.items() if place[0] in asked})


def rows(dataset: Dataset, name: str, given: ManualPages, split: str, precision: str) -> list[list[str]]:
    """Return a line for each retriever: recall of all questions and by type, and the pages among ten hits."""
    chunks = SPLITTERS[name][1](given.texts)
    counts, embedding = covered(chunks, given), minilm()
    edges = [Links(), Relationships() if name == "sentences" else DocumentStructure()]
    graph = GraphIndex.from_documents(chunks, edges=edges, bm25=False).graph
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
        index = GraphIndex.from_graph(graph, embedding=embedding, cache=True, show_progress=True)
    retrievers = {
        "vector": Retriever(index, "vector"),
        "hybrid": Retriever(index, "hybrid"),
        "hybrid, per_source=2": Retriever(index, "hybrid", per_source=2),
        f"walk-fusion ({WalkFusion().form_on(index)})": Retriever(index, WalkFusion()),
        'walk-fusion, form="links"': Retriever(index, WalkFusion(form="links")),
        "walk-fusion, per_source=2": Retriever(index, WalkFusion(), per_source=2),
    }
    queries = [query for query in dataset.queries if query.split in split.split("+")]
    texts = [query.text for query in queries]
    vectors, row = embed_corpus(embedding, texts, cache=True), {node: row for row, node in enumerate(graph.ids)}
    lines = []
    for label, retriever in retrievers.items():
        recalls: dict[str, list[float]] = {kind: [] for kind in KINDS}
        places = []
        for query, hits in zip(queries, retriever.retrieve_batch(texts, K, vectors=vectors), strict=True):
            held = set().union(*(counts[row[hit.id]] for hit in hits))
            recalls[query.type].append(len(held & set(query.gold)) / len(query.gold))
            places.append(len({source_of(chunks[row[hit.id]]) for hit in hits}))
        parts = [[recall for part in recalls.values() for recall in part], *recalls.values(), places]
        lines.append([label, *(f"{fmean(part):.3f}" for part in parts[:-1]), f"{fmean(places):.2f}"])
    return lines


def main() -> None:
    """Measure what is asked for, print the tables, and write them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--split", default="test", help="one or several, with a plus between them")
    chosen = f"of {', '.join(SPLITTERS)}; with a star, of the pages with answers alone"
    parser.add_argument("--only", default=",".join(SPLITTERS), help=chosen)
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="float32", help="of the embedding model")
    parser.add_argument("--page", type=Path, help="file to write, as Markdown")
    options = parser.parse_args()
    told = PREFACE.format(split=options.split, only=options.only, precision=options.precision)
    text = ["# Manuals split by common splitters", "", told]
    for manual in MANUALS:
        dataset = read_dataset(options.folder / manual)
        for name in options.only.split(","):
            given = pages(dataset)
            given = of_answers(given, dataset) if name.endswith("*") else given
            name, part = name.rstrip("*"), " with answers" if name.endswith("*") else ""
            lines = rows(dataset, name, given, options.split, options.precision)
            text += ["", f"## {manual}: {SPLITTERS[name][0]}", "", f"{len(given.texts):,} pages{part}.", ""]
            text += [f"| retriever | all | {' | '.join(KINDS)} | pages |", "| --- " * (len(KINDS) + 3) + "|"]
            text += [f"| {' | '.join(line)} |" for line in lines]
            print("\n".join(text[-len(lines) - 6 :]), flush=True)
    if options.page:
        options.page.parent.mkdir(parents=True, exist_ok=True)
        options.page.write_text("\n".join([*text, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
