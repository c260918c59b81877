"""How well references by number are read in eu-acts, and how long it takes to read many.

    python benchmarks/references.py                      # precision and recall
    python benchmarks/references.py --draw 100 --seed 1  # references to judge, each with its sentence and its targets
    python benchmarks/references.py --time 100000        # seconds for so many sections: references, and words

Precision is the share of right ones among 100 references that were drawn from those found and judged one by one: all targets
belong to what is cited, and hold the cited part if it can be told apart. Of a unit of more than five chunks, one chunk is right.
The first line counts what was judged when it was drawn, the second what is still found with these targets. Recall is the share of
references that a person listed in 30 sections drawn at random, of those that lead to another section of the corpus: one is found if
all its targets are among those that the person listed. Both are in ``benchmarks/references``, as ids and phrases. Reads
data/ in the folder that GRAPH_RETRIEVERS_SHARED names (../shared beside the repository by default).
"""

import argparse
import json
import random
import time
from collections import Counter
from pathlib import Path

from results import shared_folder

from graph_retrievers.construction import NumberedReferences, build_edges
from graph_retrievers.construction.numbered import Numbered
from graph_retrievers.construction.numbered_references import _Reader
from graph_retrievers.construction.spec import CorpusNodes
from graph_retrievers.datasets import read_dataset
from graph_retrievers.graph import Node
from graph_retrievers.signals.bm25 import BM25

FOLDER = Path(__file__).with_suffix("")


def found_in(nodes):
    """Yield (node, reference, targets) for the references in nodes that lead to nodes."""
    corpus = CorpusNodes(nodes)
    numbered = Numbered(corpus)
    reader = _Reader(corpus, numbered)
    for place, row in enumerate(numbered.rows):
        for cited in reader.read(place):
            if cited.targets:
                yield corpus.nodes[row], cited, sorted({corpus.nodes[numbered.rows[goal]].id for goal in cited.targets})


def lines(name):
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def plain(cited):
    return " ".join(cited.words.split())


def judged(found):
    """Print how many of the references that were drawn were right, and how many of these and of the others are still found."""
    there = {(node.id, plain(cited), tuple(targets)) for node, cited, targets in found}
    drawn = lines("judged.jsonl")
    right = [row for row in drawn if row["right"]]
    print(f"judged {len(drawn)}, right {len(right)}: precision {len(right) / len(drawn):.3f}")
    kept = Counter(row["right"] for row in drawn if (row["source"], row["words"], tuple(row["targets"])) in there)
    print(f"still found with these targets: {kept[True]} of the right, {kept[False]} of the wrong")


def listed(found):
    """Print how many of the references that a person listed are found, and those that are not."""
    held = {}
    for node, cited, targets in found:
        held.setdefault(node.id, []).append((plain(cited), targets))
    count, missing = 0, []
    for row in lines("by_hand.jsonl"):
        left = held.get(row["source"], [])
        for reference in row["references"]:
            words, goals = reference["words"], set(reference["targets"])
            one = next((one for one in left if (one[0] in words or words in one[0]) and goals.issuperset(one[1])), None)
            count += 1
            if one is None:
                missing.append((row["source"], words))
            else:
                left.remove(one)
    print(f"listed by hand {count}, found {count - len(missing)}: recall {1 - len(missing) / count:.3f}")
    for source, words in missing:
        print(f"  not found: {words} in {source}")


def draw(found, count, seed):
    """Print references to judge."""
    found = list(found)
    for place in sorted(random.Random(seed).sample(range(len(found)), count)):
        node, cited, targets = found[place]
        start, end = cited.reference.start, cited.reference.end
        around = node.text[max(0, start - 150) : start], node.text[start:end], node.text[end : end + 100]
        said = cited.words if around[1] != cited.words else "{}<<{}>>{}".format(*around)
        print(f"{place} {node.id}\n  {' '.join(said.split())}\n  {cited.reference.steps} {cited.reference.last}")
        for target in targets:
            print(f"  -> {target}")


def timed(nodes, count):
    """Print the seconds for references and words of copies of the texts, each copy a folder of its own, of so many sections."""
    many = []
    while len(many) < count:
        folder = f"{len(many)}"
        for node in nodes[: count - len(many)]:
            many.append(
                Node(f"{folder}/{node.id}", node.text, node.title, metadata=node.metadata | {"path": f"{folder}/{node.id}"})
            )
            many[-1].metadata["path"] = f"{folder}/{node.metadata['path']}"
    start = time.process_time()
    edges = build_edges(many, NumberedReferences())
    middle = time.process_time()
    BM25([f"{node.title}\n{node.text}" for node in many])
    end = time.process_time()
    told = f"references {middle - start:.1f} s, {len(edges):,} edges; words {end - middle:.1f} s; both {end - start:.1f} s"
    print(f"{len(many):,} sections, {sum(len(node.text) for node in many) / 1e6:.0f} million characters: {told}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of eu-acts (default: that of the shared datasets)")
    parser.add_argument("--draw", type=int, help="how many references to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time", type=int, help="how many sections to read")
    args = parser.parse_args()
    nodes = read_dataset(args.data or shared_folder() / "data" / "eu-acts").nodes
    if args.time:
        timed(nodes, args.time)
    elif args.draw:
        draw(found_in(nodes), args.draw, args.seed)
    else:
        found = list(found_in(nodes))
        judged(found)
        listed(found)


if __name__ == "__main__":
    main()
