"""Many callers on one index: python benchmarks/sharing.py [--seconds 60] [--hosted 0.3].

64 threads, then 1,000 asyncio tasks that await the LangChain and LlamaIndex retrievers, ask one index for some time. Each answer is
compared with the one that was given alone. Printed are the answers, how late a timer in the event loop was (what the loop waited
for), and the processor's share of that.

With ``--hosted``, an embedding model of LangChain instead waits for so many seconds before it embeds a question, and the seconds of
calls of the frameworks are printed beside those of LangChain's own vector store.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from graph_retrievers import GraphIndex, Retriever
from langchain_graph_retrievers import GraphRetriever as LangChainRetriever
from llama_graph_retrievers import GraphRetriever as LlamaRetriever

_WORDS = ("loom card engine program thread cloth wheel brass cipher valve tape census number table paper ink press type mill "
          "steam").split()  # fmt: skip
_SYSTEMS = ("walk-fusion", "hybrid", "ppr", "spreading", "fastinsight", "gar")
_QUESTIONS = 40


def made_index(count: int, relevance: object) -> tuple[GraphIndex, list[str]]:
    """Return an index of random texts with vectors and edges, and questions."""
    rng = random.Random(0)
    texts = [" ".join(rng.choices(_WORDS, k=30)) for _ in range(count)]
    edges = [(str(rng.randrange(count)), str(rng.randrange(count)), "links") for _ in range(4 * count)]

    def embed(texts: list[str]) -> torch.Tensor:
        counts = torch.tensor([[float(text.split().count(word)) for word in _WORDS] for text in texts])
        return torch.nn.functional.normalize(counts + 0.01, dim=1)

    questions = [" ".join(rng.choices(_WORDS, k=4)) for _ in range(_QUESTIONS)]
    return GraphIndex.from_texts(texts, edges=edges, embedding=embed, relevance=relevance), questions


def ranked(hits: object) -> list[tuple[str, float]]:
    """Return the ids and scores of hits."""
    return [(hit.id, hit.score) for hit in hits]  # type: ignore[attr-defined]


def with_threads(retrievers: list, questions: list[str], alone: dict, threads: int, seconds: float) -> tuple[int, int]:
    """Return how many answers threads got, and how many of them differ from the ones given alone."""
    end, counts, lock = time.monotonic() + seconds, [0, 0], threading.Lock()

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        while time.monotonic() < end:
            retriever, question = rng.choice(retrievers), rng.choice(questions)
            wrong = ranked(retriever.retrieve(question)) != alone[retriever.name, question]
            with lock:
                counts[0] += 1
                counts[1] += wrong

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(ask, range(threads)))
    return counts[0], counts[1]


async def with_tasks(
    retrievers: list, questions: list[str], alone: dict, tasks: int, seconds: float
) -> tuple[list[int], list[float], float]:
    """Return answers, wrong ones and cancelled calls of asyncio tasks, how late a timer was, and the loop's longest work."""
    counts, late, work = [0, 0, 0], [0.0], 0.0
    doors = {each.name: (LangChainRetriever(retriever=each), LlamaRetriever(each)) for each in retrievers}

    async def beat() -> None:
        nonlocal work
        while time.monotonic() < end:
            before, worked = time.monotonic(), time.thread_time()
            await asyncio.sleep(0.001)
            late.append(max(0.0, time.monotonic() - before - 0.001))
            work = max(work, time.thread_time() - worked)

    async def ask(seed: int) -> None:
        rng = random.Random(seed)
        # Callers come one after another: a call costs the frameworks some tenths of a millisecond in the loop.
        await asyncio.sleep(seconds / 4 * seed / tasks)
        while time.monotonic() < end:
            name, question = rng.choice(list(doors)), rng.choice(questions)
            langchain, llama = doors[name]
            answer = asyncio.ensure_future(langchain.ainvoke(question) if rng.random() < 0.5 else llama.aretrieve(question))
            if rng.random() < 0.1:
                await asyncio.sleep(rng.random() * 0.05)
                counts[2] += answer.cancel()
                await asyncio.gather(answer, return_exceptions=True)
                continue
            found = [getattr(hit, "id", None) or hit.node.node_id for hit in await answer]
            counts[0] += 1
            counts[1] += found != [node for node, _ in alone[name, question]]

    for langchain, llama in doors.values():
        # Modules are imported at the first call.
        await asyncio.gather(langchain.ainvoke(questions[0]), llama.aretrieve(questions[0]))
    # Python's collector looks through all imported modules now and then, 0.2 s with torch and both frameworks; servers freeze them.
    gc.collect()
    gc.freeze()
    end = time.monotonic() + seconds
    await asyncio.gather(beat(), *(ask(seed) for seed in range(tasks)))
    return counts, sorted(late), work


def measure(seconds: float, threads: int = 64, tasks: int = 1000, nodes: int = 2000) -> int:
    """Print how many callers share an index; return the number of wrong answers."""

    def overlap(pairs: list[tuple[str, str]]) -> list[float]:
        return [len(set(query.split()) & set(text.split())) / 7 for query, text in pairs]

    index, questions = made_index(nodes, overlap)
    retrievers = [Retriever(index, name) for name in _SYSTEMS]
    alone = {(each.name, question): ranked(each.retrieve(question)) for each in retrievers for question in questions}
    print(f"{nodes:,} nodes, {', '.join(_SYSTEMS)}; load of the machine before: {os.getloadavg()[0]:.1f}")
    answers, wrong = with_threads(retrievers, questions, alone, threads, seconds)
    print(f"{threads} threads: {answers:,} answers in {seconds:.0f} s, {wrong} differ from those given alone", flush=True)
    counts, late, work = asyncio.run(with_tasks(retrievers, questions, alone, tasks, seconds))
    print(f"{tasks:,} tasks: {counts[0]:,} answers in {seconds:.0f} s, {counts[1]} differ, {counts[2]:,} calls cancelled")
    most = [f"{1000 * late[int(share * (len(late) - 1))]:.0f} ms ({share:.0%})" for share in (0.5, 0.99, 1)]
    print(f"a timer of the event loop was late by {', '.join(most)}; its longest work was {1000 * work:.0f} ms of processor time")
    return wrong + counts[1]


class Hosted(Embeddings):
    """An embedding model that answers after some seconds, as one on another machine does."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(text.split().count(word)) + 0.01 for word in _WORDS] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        time.sleep(self.seconds)
        return self.embed_documents([text])[0]

    async def aembed_query(self, text: str) -> list[float]:
        await asyncio.sleep(self.seconds)
        return self.embed_documents([text])[0]


def hosted(seconds: float, calls: int = 60, nodes: int = 2000) -> dict[str, float]:
    """Print and return how long calls take with an embedding model on another machine, by what is called."""
    rng, model = random.Random(0), Hosted(seconds)
    texts, questions = ([" ".join(rng.choices(_WORDS, k=k)) for _ in range(n)] for k, n in ((30, nodes), (4, calls)))
    edges = [(str(rng.randrange(nodes)), str(rng.randrange(nodes)), "links") for _ in range(4 * nodes)]
    index = GraphIndex.from_texts(texts, edges=edges, embedding=model)
    store = InMemoryVectorStore(model)
    store.add_texts(texts)
    doors: dict[str, Any] = {"LangChain's own": store.as_retriever(search_kwargs={"k": 10})}
    for name in ("vector", "walk-fusion"):
        for share in (False, True):
            engine, told = Retriever(index, name, share_batches=share), " shared" if share else ""
            doors[f"{name}{told}"] = LangChainRetriever(retriever=engine)
            doors[f"{name}{told} in LlamaIndex"] = LlamaRetriever(engine)

    async def together(ask: Callable[[str], Any]) -> None:
        await asyncio.gather(*map(ask, questions))

    def ways(door: Any) -> dict[str, Callable[[], Any]]:
        if isinstance(door, LlamaRetriever):
            return {
                "aretrieve": lambda: asyncio.run(together(door.aretrieve)),
                "retrieve_batch": lambda: door.retrieve_batch(questions),
            }
        return {
            "ainvoke": lambda: asyncio.run(together(door.ainvoke)),
            "abatch": lambda: asyncio.run(door.abatch(questions)),
            "batch": lambda: door.batch(questions),
        }

    took: dict[str, float] = {}
    print(f"{calls} questions, {seconds:g} s for the embedding of each; {nodes:,} nodes")
    for name, door in doors.items():
        # Modules are imported, and models of an index prepared, at the first call.
        door.invoke(questions[0]) if hasattr(door, "invoke") else door.retrieve(questions[0])
        for way, call in ways(door).items():
            start = time.perf_counter()
            call()
            took[f"{way} {name}"] = time.perf_counter() - start
            print(f"{name:32} {way:14} {took[f'{way} {name}']:6.2f} s", flush=True)
    return took


def main() -> int:
    """Measure and print; return 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hosted", type=float, help="seconds for which an embedding of a question waits")
    arguments = parser.parse_args()
    if arguments.hosted is not None:
        hosted(arguments.hosted)
        return 0
    return int(measure(arguments.seconds) > 0)


if __name__ == "__main__":
    sys.exit(main())
