"""Whether an index survives kills, damage and several writers: python benchmarks/durability.py [--kills 200 --flips 1000 ...].

It needs fork, and ends with status 1 if anything was lost or an error was not one of this package.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import multiprocessing
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm
from tqdm.auto import tqdm as tqdm_of_package

from graph_retrievers import GraphIndex, Node
from graph_retrievers.commands import cli
from graph_retrievers.errors import CorruptIndexError, IndexVersionError
from graph_retrievers.index import IndexStore
from graph_retrievers.signals import embedding

_KEPT, _NODES = 20, 10_000


def _vectors(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


def _texts(last: int) -> dict[str, str]:
    """Return the texts of the nodes after the writes 0 to `last`, each of which replaces a node."""
    return {str(number % _KEPT): f"text {number}" for number in range(last + 1)}


def own_bars() -> None:
    """Give a forked process locks of its own for progress bars: those of its parent are shared, and die with whoever holds them."""
    # The bars of the package and of others: each class keeps the lock it made first.
    for bar in (tqdm, tqdm_of_package):
        bar.set_lock(threading.RLock())


def forked(work: Callable[[int], int]) -> tuple[int, int]:
    """Run work in a new process, which ends with the status that it returns; return the process and what it writes to a pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        own_bars()
        try:
            os.close(reading)
            os._exit(work(writing))
        finally:
            os._exit(1)
    os.close(writing)
    return child, reading


def write(folder: Path, last: int, writing: int) -> int:
    """Write nodes to a store without pause, and the number of each to the pipe once it is kept."""
    store, number = IndexStore(folder, embedding=_vectors), last
    while True:
        number += 1
        store.update(upsert=[Node(str(number % _KEPT), f"text {number}")])
        os.write(writing, struct.pack("i", number))


def kills(count: int, folder: Path, seed: int = 0) -> Counter[str]:
    """Kill a process that writes without pause, again and again; what it was told to be written must be there."""
    generator, found, last = random.Random(seed), Counter[str](), -1
    for _ in range(count):
        child, reading = forked(partial(write, folder, last))
        told = os.read(reading, 4)
        time.sleep(generator.random() * 0.1)
        os.kill(child, signal.SIGKILL)
        while part := os.read(reading, 4):
            told = part
        os.close(reading)
        os.waitpid(child, 0)
        (number,) = struct.unpack("i", told)
        graph = IndexStore(folder, embedding=_vectors).index.graph
        held = dict(zip(graph.ids, graph.texts, strict=True))
        # The write that was under way may be there or not.
        known = next((end for end in (number + 1, number) if held == _texts(end)), None)
        found["kept" if known is not None else "lost"] += 1
        last = number if known is None else known
    return found


def flips(count: int, folder: Path, seed: int = 0) -> Counter[str]:
    """Flip single bits of a saved index: each must raise an error of this package."""
    generator, found = random.Random(seed), Counter[str]()
    index = GraphIndex.from_nodes([Node(name, text) for name, text in _texts(50).items()], [("0", "1")], embedding=_vectors)
    index.save(folder)
    files = sorted(folder.iterdir())
    for _ in range(count):
        path = generator.choice(files)
        content = bytearray(path.read_bytes())
        place = generator.randrange(len(content))
        content[place] ^= 1 << generator.randrange(8)
        whole = path.read_bytes()
        path.write_bytes(content)
        try:
            GraphIndex.load(folder)
            found["unnoticed"] += 1
        except (CorruptIndexError, IndexVersionError):
            found["noticed"] += 1
        except Exception as error:
            found[f"raw {type(error).__name__}"] += 1
        path.write_bytes(whole)
    return found


def index_kills(count: int, folder: Path, seed: int = 0) -> Counter[str]:
    """Kill `graph-retrievers index` at random points of its work, each time anew; at the end nothing may have been done twice.

    Work is what the model is asked for. What was asked and not yet kept when a process dies is lost, at most a batch a kill.
    """
    generator, source = random.Random(seed), folder / "source"
    source.mkdir(parents=True)
    nodes = [{"id": str(number), "text": f"The loom {number} reads {'and ' * (number % 9)}weaves."} for number in range(_NODES)]
    (source / "nodes.jsonl").write_text("".join(f"{json.dumps(node)}\n" for node in nodes))
    (source / "edges.jsonl").touch()

    def indexed(name: str, stop: float = math.inf) -> int:
        """Run the command in a process, which is killed when about so many texts were asked; return how many there were."""

        def work(writing: int) -> int:
            os.environ["GRAPH_RETRIEVERS_CACHE"] = str(folder / f"cache {name}")
            sys.stdout = sys.stderr = Path(os.devnull).open("w")
            embedding.load_embedding = lambda name, device=None: _Slow(writing)  # type: ignore[assignment,misc]
            return cli.main(["index", str(source), str(folder / name)])

        child, reading = forked(work)
        asked = 0
        while part := os.read(reading, 4):
            asked += struct.unpack("i", part)[0]
            if asked >= stop:
                time.sleep(generator.random() * 0.05)
                os.kill(child, signal.SIGKILL)
                stop = math.inf
        os.close(reading)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            raise RuntimeError(f"index ended with status {os.WEXITSTATUS(status)}")
        return asked

    whole = indexed("whole")
    work, before = 0, 0
    for point in sorted(generator.randrange(whole) for _ in range(count)):
        work += indexed("killed", max(1, point - before))
        before = point
    work += indexed("killed")
    made = [(folder / name) for name in ("whole", "killed")]
    equal = all(len({next(one.glob(kind)).read_bytes() for one in made}) == 1 for kind in ("tensors-*", "settings-*"))
    found = Counter({"kills": count, "texts": whole, "texts asked in all": work})
    found["lost"] += int(work > 1.1 * whole) + int(not equal)
    return found


class _Slow:
    """An embedding model that takes a millisecond a text, and tells how many it is asked for."""

    name = "slow"

    def __init__(self, told: int) -> None:
        self._told = told

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return vectors of texts."""
        os.write(self._told, struct.pack("i", len(texts)))
        time.sleep(0.001 * len(texts))
        return [[float(len(text)), zlib.crc32(text.encode()) / 2**32, 1.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        return self.embed_documents([text])[0]


def run_at_once(works: list[Callable[[], dict[str, int]]]) -> list[dict[str, int]]:
    """Return what each of some functions returns, all run at once, each in a process of its own."""
    context = multiprocessing.get_context("fork")
    queue: Any = context.SimpleQueue()

    def run(place: int, work: Callable[[], dict[str, int]]) -> None:
        own_bars()
        try:
            queue.put((place, work()))
        except BaseException as error:
            queue.put((place, {f"raw {type(error).__name__}: {error}"[:200]: 1}))

    processes = [context.Process(target=run, args=item) for item in enumerate(works)]
    for process in processes:
        process.start()
    found = dict(queue.get() for _ in processes)
    for process in processes:
        process.join()
    return [found[place] for place in range(len(works))]


def writers(count: int, rounds: int, folder: Path, readers: int = 2) -> Counter[str]:
    """Let some processes add documents to one store while others read it; no document may be lost, no reader fail."""
    share = rounds // count

    def write(name: int) -> dict[str, int]:
        store = IndexStore(folder, embedding=_vectors)
        for number in range(share):
            store.update(add=[Node(f"{name}-{number}", f"text {number}")], add_edges=[(f"{name}-{number}", f"{name}-0", "to")])
        return {"written": share}

    def read() -> dict[str, int]:
        seen, store = Counter[str](), IndexStore(folder, embedding=_vectors)
        last = False
        while not last:
            store.reload()
            # The state with all documents is read too, even if the writers were done first.
            last = len(store) >= share * count
            loaded = GraphIndex.load(folder).graph if len(store) else None
            for graph in [store.index.graph, loaded] if loaded is not None else []:
                held = Counter(node.split("-")[0] for node in graph.ids)
                # What a writer has written is there from its first document to its last.
                whole = all(f"{name}-{number}" in graph for name, size in held.items() for number in range(size))
                seen["whole" if whole and graph.num_edges == len(graph) else "torn"] += 1
        return dict(seen)

    works = [*(lambda name=name: write(name) for name in range(count)), *[read] * readers]
    found = sum(map(Counter, run_at_once(works)), Counter[str]())  # type: ignore[arg-type]
    found["lost"] += share * count - len(IndexStore(folder, embedding=_vectors))
    return found


def savers(rounds: int, folder: Path) -> Counter[str]:
    """Let two processes save over one another, one of them what may lie there already, while a third loads."""
    indexes = [GraphIndex.from_texts([f"text {name}"] * 3, ids=["a", "b", "c"], embedding=_vectors) for name in range(2)]
    indexes[0].save(folder)

    def save(index: GraphIndex) -> dict[str, int]:
        for _ in range(rounds // 2):
            index.save(folder)
        return {"saved": rounds // 2}

    def load() -> dict[str, int]:
        texts = Counter(GraphIndex.load(folder).graph.texts[0] for _ in range(rounds))
        return {"loaded": texts["text 0"] + texts["text 1"]}

    found = sum(map(Counter, run_at_once([lambda: save(indexes[0]), lambda: save(indexes[1]), load])), Counter[str]())
    GraphIndex.load(folder)
    found["left over"] += len(list(folder.iterdir())) - 4
    return found


def main() -> int:
    """Run all and print; return 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    for name, default in (("kills", 200), ("flips", 1000), ("rounds", 1000), ("saves", 200), ("index-kills", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    logging.getLogger("graph_retrievers").setLevel(logging.ERROR)
    runs: dict[str, Callable[[Path], Counter[str]]] = {
        "kills": lambda folder: kills(args.kills, folder),
        "index kills": lambda folder: index_kills(args.index_kills, folder),
        "flips": lambda folder: flips(args.flips, folder),
        "two writers": lambda folder: writers(2, args.rounds, folder),
        "four writers": lambda folder: writers(4, args.rounds, folder),
        "savers": lambda folder: savers(args.saves, folder),
    }
    failed = False
    for name, run in runs.items():
        folder = Path(tempfile.mkdtemp())
        try:
            start = time.perf_counter()
            found = +run(folder / "index")
            print(f"{name:<14} {dict(found)} in {time.perf_counter() - start:.0f} s", flush=True)
            failed |= any(key.startswith("raw") or key in ("lost", "torn", "unnoticed", "left over") for key in found)
        finally:
            shutil.rmtree(folder)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
