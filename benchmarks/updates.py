"""Time and memory of changes of an index, beside those of building it: python benchmarks/updates.py [--nodes 100000].

Texts are random words with Zipf's frequencies, vectors and edges are random, so that no time goes to an embedding model. What a
model would add to a build is measured with the packaged MiniLM on some of the texts and given for all of them.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from graph_retrievers import GraphIndex, Node, minilm
from graph_retrievers.index import IndexStore

_WORDS, _LENGTH, _EDGES = 60_000, 60, 5


def corpus(count: int, seed: int, first: int = 0) -> list[Node]:
    """Return nodes of random words."""
    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, _WORDS + 1)
    words = random.choice(_WORDS, (count, _LENGTH), p=share / share.sum())
    return [
        Node(f"n{first + row}", " ".join(f"word{word}" for word in text), f"Title {row}") for row, text in enumerate(words.tolist())
    ]


def timed(name: str, run: object, repeat: int = 1) -> float:
    """Print and return the best time of some runs, in seconds."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        run()  # type: ignore[operator]
        best = min(best, time.perf_counter() - start)
    print(f"{name:<58} {best:10.3f} s", flush=True)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=100, help="documents added, replaced and deleted together")
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--sample", type=int, default=256, help="texts to embed with MiniLM; 0 for none")
    args = parser.parse_args()
    torch.manual_seed(0)
    nodes, random = corpus(args.nodes, 0), np.random.default_rng(1)
    ends = random.integers(0, args.nodes, (args.nodes * _EDGES, 2)).tolist()
    edges = [(f"n{a}", f"n{b}", "links") for a, b in ends]
    vectors = torch.nn.functional.normalize(torch.randn(args.nodes, args.dimension), dim=1)
    built: list[GraphIndex] = []
    print(f"{args.nodes:,} nodes of {_LENGTH} words, {len(edges):,} edges, {args.dimension} dimensions")
    build = timed("build, vectors given", lambda: built.append(GraphIndex.from_nodes(nodes, edges, vectors=vectors, metric="dot")))
    embedding = 0.0
    if args.sample:
        model, texts = minilm(), [node.text for node in nodes[: args.sample]]
        model.embed_documents(texts[:8])
        embedding = timed(f"embed {args.sample} texts (MiniLM)", lambda: model.embed_documents(texts)) / args.sample
        print(f"{'embed all texts, by that':<58} {embedding * args.nodes:10.1f} s")
    third = args.changes // 3
    new = corpus(args.changes - third, 2, args.nodes)
    upsert = [
        Node(f"n{row}", node.text, node.title) for row, node in zip(random.choice(args.nodes // 2, third, False), new, strict=False)
    ]
    add = new[third:]
    delete = [f"n{row}" for row in (args.nodes // 2 + random.choice(args.nodes // 2, third, False)).tolist()]
    change = {
        "upsert": [*upsert, *add],
        "delete": delete,
        "add_edges": [(node.id, "n0", "links") for node in add],
        "vectors": torch.nn.functional.normalize(torch.randn(len(upsert) + len(add), args.dimension), dim=1),
    }
    (index,) = built
    update = timed("with_changes", lambda: index.with_changes(**change), 3)
    folder = Path(tempfile.mkdtemp())
    try:
        saved = timed("save", lambda: index.save(folder / "index"))
        timed("load", lambda: GraphIndex.load(folder / "index"), 2)
        store = IndexStore(folder / "index")
        kept = timed("IndexStore.update", lambda: store.update(**change))
    finally:
        shutil.rmtree(folder)
    print(f"with_changes of {args.changes} documents: 1/{build / update:.0f} of a build; with IndexStore.update and save, ", end="")
    print(f"1/{(build + saved) / kept:.0f}")
    if embedding:
        model_s = embedding * args.nodes, embedding * len(change["upsert"])
        in_memory = (build + model_s[0]) / (update + model_s[1])
        on_disk = (build + model_s[0] + saved) / (kept + model_s[1])
        print(f"with embedding: 1/{in_memory:,.0f} and 1/{on_disk:,.0f}")


if __name__ == "__main__":
    main()
