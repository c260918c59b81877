"""Hostile input for doors that take what others wrote: ``python -m tests.hostile [cases] [seed] [door ...]`` counts raw errors."""

import argparse
import contextlib
import datetime
import hashlib
import inspect
import io
import json
import logging
import pathlib
import random
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import fields

import numpy as np
import pydantic
import torch
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core import MockEmbedding
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters

import langchain_graph_retrievers as langchain
import llama_graph_retrievers as llama
from graph_retrievers import GraphIndex, IndexStore, Retriever
from graph_retrievers.commands.cli import main as command_line
from graph_retrievers.construction import Links, NumberedReferences, TitleMentions, build_edges
from graph_retrievers.construction.address_book import AddressBook
from graph_retrievers.construction.folder import read_folder
from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.knowledge import resolve_entities
from graph_retrievers.construction.knowledge_readers import from_triples_file
from graph_retrievers.construction.markdown import read_markdown
from graph_retrievers.construction.plain_text import read_text
from graph_retrievers.construction.sections import split_page
from graph_retrievers.datasets import read_dataset
from graph_retrievers.errors import GraphRetrieverError
from graph_retrievers.evaluation.run_files import read_qrels, read_run, write_run
from graph_retrievers.graph import Node
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.index.storage import _manifest_text
from graph_retrievers.signals.cross_encoder import CrossEncoder
from graph_retrievers.signals.language import complete_json
from graph_retrievers.signals.meaning_parsers import PenmanParser, penman_graph
from graph_retrievers.systems.mor.parse import read_plan
from graph_retrievers.systems.mor.planner import LanguageModelPlanner
from tests.retrievers import EVERY, on


def nested(levels, inside=1):
    for _ in range(levels):
        inside = [inside]
    return inside


class Unshowable:
    def __repr__(self):
        raise RuntimeError("repr")


class Incomparable:
    __hash__ = object.__hash__

    def __eq__(self, other):
        raise RuntimeError("eq")


def failing(*arguments):
    raise ZeroDivisionError("of the user's function")


class Fuzzer:
    """Doors by name, and the pieces that their inputs are drawn from."""

    odd = [None, True, False, 0, 1, -1, 2, 2**31, 2**63, 2**64, 10**400, 10**5000, 0.0, -0.0, 1.5, float("nan"), float("inf"), 1j]
    odd += ["", "a", " ", "\0", "\ud800", "\x1b[31mred", "e\u0301" * 3, "x" * 5000, "$id", "$and", "日本", b"a", bytearray(b"x")]
    odd += [[], [1], ["a"], [[]], [None], (), ("a", 1), {}, {"a": 1}, {"$id": "a"}, {"$and": []}, {"$or": [{}]}, {"$not": {}}]
    odd += [{"a": {"$gt": "b"}}, {"a": {"$in": 3}}, {"a": {"$contains": [1]}}, {1: 2}, set(), {"a"}, frozenset({1}), range(3)]
    odd += [np.int64(3), np.float32(1), np.array([1, 2]), np.array("a"), np.zeros((2, 2)), np.datetime64("2020"), torch.zeros(2)]
    odd += [torch.tensor(3), torch.zeros(2, 2), torch.tensor([True, False]), object(), int, list, len, lambda *a: None, failing]
    odd += [
        nested(50),
        nested(3000),
        {"a": nested(3000)},
        datetime.date(2020, 1, 1),
        pathlib.Path("/nope"),
        Ellipsis,
        NotImplemented,
    ]
    odd += [Unshowable(), Incomparable(), ValueError("x")]
    markup = (
        "<b> </b> <p> <main> <title> <!-- --> <a\thref='http://[x'> <base\thref='\udc00://['> [a](b) [a]:\tb\n #\th\t{#x}\n ```"
    )
    markup += " - 1. > |a|b|\n|-|-|\n &#x110000; \0 \ud800 \u0301 é *** $ \x1b[31m \n { } [ ] \" ' : , null 1e999 NaN \\ud800 \\"
    markup += ' {"a": true -> <- Metapath Restriction paths type person (a\t/\tb ) :ARG0 ~e.1 ' + "9" * 30 + " 0x" + "f" * 40
    fields = ["a", "b", "$id", "$type", "$title", "$text", "year", "", "\ud800", "$and", "x y"]
    tests = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$exists", "$x", "$not"]
    keys = (
        "paths Metapath Restriction type relation restriction entities relations name description source target id text title gold"
    )
    schema = {"type": "object", "properties": {"entities": {"type": "array", "items": {"type": "string"}}}}

    def __init__(self, seed, folder):
        self.rng, self.folder = random.Random(seed), pathlib.Path(folder)
        nodes = [Node("a", "one text about looms", "Loom", "thing", {"a": 1, "year": 1801, "l": ["x", 1]})]
        nodes += [Node("b", "another text", "b", "other", {"a": "x", "b": None}), Node("c", "a \x1b[31m $x$", "$c_1$", "thing")]
        edges = [("a", "b", "r"), ("b", "c", "s"), ("c", "a", "")]
        options = {"embedding": self.embed, "relevance": lambda pairs: [float(len(q) + len(t)) for q, t in pairs]}
        self.index = GraphIndex.from_nodes(nodes, edges, **options)
        self.retrievers = []
        for name in EVERY:
            with contextlib.suppress(GraphRetrieverError):
                self.retrievers.append(Retriever(self.index, name))
        (self.folder / "pages").mkdir()
        (self.folder / "pages" / "a.md").write_text("# A loom\n[card](b.md)")
        (self.folder / "data").mkdir()
        GraphIndex.from_nodes(nodes, edges).save(self.folder / "saved")

    @staticmethod
    def embed(texts):
        return [[1.0, len(text) % 3, 0.5] for text in texts]

    def one(self):
        return self.rng.choice(self.odd)

    def maybe(self, share, value):
        return self.one() if self.rng.random() < share else value

    def soup(self, most=25):
        pieces = self.markup.split(" ")
        return "".join(self.rng.choice(pieces).replace("\t", " ") for _ in range(self.rng.randrange(most)))

    def condition(self, level=0):
        if self.rng.random() < 0.2:
            return self.one()
        if self.rng.random() < 0.3 and level < 4:
            parts = [self.condition(level + 1) for _ in range(self.rng.randrange(3))]
            return {self.rng.choice(["$and", "$or", "$not"]): self.rng.choice([parts, self.condition(level + 1)])}
        return {self.rng.choice(self.fields): self.maybe(0.4, {self.rng.choice(self.tests): self.one()})}

    def plain(self, level=0):
        if level > 4 or self.rng.random() < 0.4:
            value = self.maybe(0.5, self.rng.choice(["a", "movie", 1, None]))
            return value if isinstance(value, (str, int, float, list, dict, type(None))) else "z"
        if self.rng.random() < 0.5:
            return [self.plain(level + 1) for _ in range(self.rng.randrange(4))]
        return {self.rng.choice(self.keys.split()): self.plain(level + 1) for _ in range(self.rng.randrange(4))}

    def written(self, value):
        try:
            return json.dumps(value, default=str)
        except (RecursionError, ValueError, TypeError, RuntimeError):
            return "[" * 3000

    def answer(self):
        deep = self.rng.choice([10, 300, 900, 5000])
        good = '{"entities":[{"name":"Ada","type":"PERSON","description":"x"}],"relations":[]}'
        options = [self.soup(), self.written(self.plain()), self.one(), "[" * deep, '{"a":' * deep + "1" + "}" * deep, good]
        return self.rng.choice([*options, f"```json\n{self.written(self.plain())}\n```", good.replace("Ada", self.soup(3))])

    def line(self):
        entries = [{"id": self.one(), "text": "x"}, {"id": "a", "text": self.one(), "m": self.one()}, self.plain()]
        entries += [
            {"source": "a", "target": self.one(), "weight": self.one()},
            {"id": "q", "query": self.one(), "gold": self.one()},
        ]
        return self.written(self.rng.choice(entries)).encode("utf-8", "surrogatepass")

    def options(self, names, share=0.12):
        return {name: self.one() for name in names if self.rng.random() < share}

    def door_pages(self):
        reader = self.rng.choice([read_html, read_markdown, read_text])
        split_page(reader(self.soup(60)), self.rng.choice([1, 5, 220]))

    def door_filter(self):
        filter_mask(self.index.graph, self.condition())

    def door_retrieve(self):
        retriever = self.rng.choice(self.retrievers)
        arguments = self.options(["k", "vector", *retriever.inputs], 0.25)
        names = ("filter", "seed_filter", "traversal_filter", "scope")
        arguments |= {name: self.condition() for name in names if self.rng.random() < 0.25}
        hits = retriever.retrieve(self.maybe(0.2, self.rng.choice(["who made looms?", "\ud800 what", "$x$", "?!"])), **arguments)
        str(hits), [hit.to_dict() for hit in hits]

    def door_batch(self):
        retriever = self.rng.choice(self.retrievers)
        given = {
            name: self.rng.choice([value, [value], [value] * 2]) for name, value in self.options(("k", "vectors", "scope")).items()
        }
        retriever.retrieve_batch(self.rng.choice([self.one(), ["a", "b"], ["a"], [self.one(), "a"], ("a",)]), **given)

    def door_constructor(self):
        kind = type(self.rng.choice(self.retrievers).system)
        names = [field.name for field in fields(kind)]
        given = self.options([*names, "k", "types", "name", "batch_size"])
        on(self.maybe(0.05, self.index), kind, **given).retrieve("who made looms?")

    def door_plan(self):
        steps = [{"type": self.one(), "relation": self.one(), "restriction": self.one()}]
        paths = {"Metapath": [["a", self.one(), "b"]], "Restriction": {"a": self.one()}}
        forms = [self.soup(), self.written(self.plain()), self.plain(), self.one(), [steps], paths, f"{{'Metapath': [[{'[' * 500}"]
        plan = self.rng.choice(forms)
        str(read_plan(plan))
        next(each for each in self.retrievers if "plan" in each.inputs).retrieve("x", plan=plan)

    def door_answer(self):
        complete_json(
            lambda prompt: self.answer(), "p", self.rng.choice([self.schema, {}, {"type": "array"}, self.one()]), attempts=1
        )

    def door_knowledge(self):
        LanguageModelPlanner(lambda prompt: self.answer(), attempts=1, workers=1).plan(["a?", "b"], self.index.graph)
        names = [Node("1", "A poet.", "Ada"), Node("2", "x (y) [z] \x00", "Ada x (y)"), Node("3", self.soup(), "Ada")]
        resolve_entities(names, [("1", "2", "knew")], lambda prompt: self.answer(), attempts=1, workers=1)

    def door_dataset(self):
        for name in ("nodes", "edges", "queries"):
            lines = [b'{"id":"a","text":"x"}', self.line(), self.line()]
            (self.folder / "data" / f"{name}.jsonl").write_bytes(b"\n".join(lines[self.rng.randrange(3) :]))
        GraphIndex.from_graph(read_dataset(self.folder / "data").graph()).save(self.folder / "made")

    def door_run_files(self):
        path = self.folder / "run"
        if self.rng.random() < 0.4:
            write_run(path, {"q": [(self.maybe(0.3, "d"), self.maybe(0.3, 1.0))]})
        packed = b"\x1f\x8b" + self.soup().encode("utf-8", "replace")
        number = self.rng.choice([b"nan", b"inf", b"1e999", b"x", b"1"])
        path.write_bytes(self.rng.choice([self.soup().encode("utf-8", "surrogatepass"), packed, b"q Q0 d 1 " + number + b" t\n"]))
        self.rng.choice([read_run, read_qrels])(path)

    def door_triples(self):
        path = self.folder / f"t{self.rng.choice(['.csv', '.tsv', '.jsonl', '.x'])}"
        deep = self.written([nested(100), 1, "b"]).encode()
        path.write_bytes(self.rng.choice([self.soup().encode("utf-8", "surrogatepass"), self.line(), b'a,b,c\n"""""', deep]))
        nodes, edges = from_triples_file(path)
        GraphIndex.from_nodes(nodes, edges).save(self.folder / "made")

    def door_penman(self):
        penman_graph(self.maybe(0.3, self.soup()))
        PenmanParser(self.maybe(0.5, {self.soup(): self.maybe(0.3, self.soup())})).parse(["a", "b"])

    def door_nodes(self):
        values = [self.maybe(0.3, value) for value in ("a", "x", "t", "k")]
        node = Node(*values, metadata=self.maybe(0.3, {"m": self.one()}))
        edges = self.rng.choice([self.one(), [self.one()], [("a", self.one(), self.one())], [("a", "a", "r")], []])
        model = self.rng.choice([None, self.embed, self.one()])
        index = GraphIndex.from_nodes(self.rng.choice([self.one(), [self.one()], [node], [node]]), edges, embedding=model)
        index.save(self.folder / "made")
        str(GraphIndex.load(self.folder / "made", embedding=self.embed if index.embedding is not None else None).describe())

    def door_texts(self):
        given = {name: value for name, value in self.options(("ids", "titles", "metadatas", "vectors", "edges", "device")).items()}
        GraphIndex.from_texts(self.rng.choice([self.one(), [self.one()], ["a", self.one()], ["a", "b"]]), **given)

    def door_changes(self):
        names = ("add", "upsert", "delete", "delete_sources", "add_edges", "delete_edges", "vectors")
        given = {name: self.rng.choice([value, [value]]) for name, value in self.options(names, 0.2).items()}
        if self.rng.random() < 0.5:
            self.index.with_changes(**given)
        else:
            IndexStore(self.folder / "store", edges=self.maybe(0.2, ())).update(**given)

    def door_addresses(self):
        AddressBook([self.soup(8), self.soup(8)]).find(self.soup(8), self.soup(8))
        held = {"source": self.rng.choice([self.soup(5), self.one(), "x.md"]), "links": self.one()}
        nodes = [Node("a", self.soup(), self.soup(4), metadata=held), Node("b", self.soup(), "x", metadata={"source": "x.md"})]
        sources = [Links(), Links(field="links"), TitleMentions(), NumberedReferences(), self.one(), [self.one()]]
        build_edges(nodes, self.rng.choice(sources))

    def door_manifest(self):
        GraphIndex.from_graph(self.index.graph).save(folder := self.folder / "kept")
        manifest = folder / "manifest.json"
        body = {name: value for name, value in json.loads(manifest.read_text()).items() if name != "checksum"}
        kind = self.rng.choice(["tensors", "nodes", "settings"])
        path = folder / body["files"][kind]["name"]
        how = self.rng.randrange(4)
        if how == 0:
            body[self.rng.choice([*body, "more"])] = self.plain()
        elif how == 1:
            body["files"][self.rng.choice([kind, "more"])] = self.maybe(0.5, {**body["files"][kind], "name": self.plain()})
        elif kind == "nodes" and how == 2:
            with (
                contextlib.closing(sqlite3.connect(path)) as database,
                contextlib.suppress(sqlite3.Error, TypeError, ValueError, OverflowError),
            ):
                column = self.rng.choice(["id", "text", "title", "metadata", "row"])
                database.execute(f"UPDATE nodes SET {column} = ? WHERE row = 1", (self.one(),))
                database.commit()
        else:
            settings = json.loads(path.read_text()) if kind == "settings" else {}
            changed = {**settings, self.rng.choice([*settings, "more"]): self.plain()}
            path.write_bytes(
                self.rng.choice([self.written(changed).encode("utf-8", "surrogatepass"), self.line(), path.read_bytes()[:-3]])
            )
        if how > 1:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
            named = path.rename(folder / f"{kind}-{found[:16]}{path.suffix}")
            body["files"][kind] = {"name": named.name, "bytes": named.stat().st_size, "sha256": found}
        with contextlib.suppress(RecursionError, ValueError, TypeError):
            manifest.write_text(_manifest_text(body))
        try:
            GraphIndex.load(folder).with_changes(upsert=[Node("z", "new")])
            IndexStore(folder).update(upsert=[Node("z", "new")])
        finally:
            manifest.write_text(json.dumps({"format": body.get("format") if self.rng.random() < 0.2 else "graph-retrievers index"}))

    def door_folders(self):
        given = self.one()
        with contextlib.chdir(self.folder / "data"):
            door = self.rng.choice([GraphIndex.load, read_dataset, read_folder, IndexStore, CrossEncoder, self.index.save])
            if door != self.index.save or not isinstance(given, pathlib.Path):
                door(given)

    def door_command_line(self):
        words = [str(value) for value in self.odd if isinstance(value, (str, float, bool)) and "\0" not in str(value)]
        words += ["bm25", "1", "-1", "0", "9" * 30, "links", "none", "cpu", "cuda:9", "a=b", "=", ",", str(self.folder)]
        saved, pages, data = (str(self.folder / name) for name in ("saved", "pages", "data"))
        calls = [["index", pages, str(self.folder / "built"), "--no-embedding"], ["index", data, saved + "2", "--no-embedding"]]
        calls += [["search", saved, "who made looms?"], ["inspect", saved], ["evaluate", data, "--embedding", "none"], ["taxonomy"]]
        flags = "--edges --tokens --device -k --retriever --json --explain --split --retrievers --checkpoint --out -h --seed"
        call = list(self.rng.choice(calls))
        if self.rng.random() < 0.5 and len(call) > 1:
            call[self.rng.randrange(1, len(call))] = self.rng.choice(words)
        for _ in range(self.rng.randrange(3)):
            call += [self.rng.choice(flags.split()), self.rng.choice(words)][: self.rng.choice([1, 2, 2])]
        told = io.StringIO()
        place = pathlib.Path.cwd()
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(told),
                contextlib.chdir(self.folder / "data"),
            ):
                status = command_line(call)
            assert status == 0 or (status == 2 and told.getvalue().strip()), (call, status, told.getvalue())
        except SystemExit as end:
            assert end.code in (0, 2), call
        assert place == pathlib.Path.cwd()

    def door_langchain(self):
        names = [name for name in langchain.__all__ if name.endswith("Retriever")]
        kind = getattr(langchain, self.rng.choice(names))
        # Those that the framework reads, and those that are given below.
        own = {"engines", "index", "retriever", "metadata", "tags", "name", "documents", "edges", "embedding"}
        # Those that the framework reads, and those that are given below.
        own = {"engines", "index", "retriever", "metadata", "tags", "name", "documents", "edges", "embedding"}
        fields = self.options(sorted(set(kind.model_fields) - own), 0.05)
        if self.rng.random() < 0.3:
            documents = [Document("a loom", id="a", metadata={"m": self.one()}), self.maybe(0.2, Document("b"))]
            model = self.maybe(0.2, DeterministicFakeEmbedding(size=3))
            made = kind.from_documents(self.maybe(0.1, documents), model, edges=self.maybe(0.3, ()), **fields)
        else:
            made = kind(index=self.maybe(0.05, self.index), **fields)
        names = ("filter", "seed_filter", "traversal_filter", "scope")
        given = self.options(["k", "vector", "more"], 0.1)
        given |= {name: self.condition() for name in names if self.rng.random() < 0.2}
        self.rng.choice([made.invoke, lambda query, **more: made.batch([query], **more)])(
            self.maybe(0.1, "who made looms?"), **given
        )

    def door_llama_index(self):
        names = [name for name in llama.__all__ if name.endswith("Retriever") and "PG" not in name]
        kind = getattr(llama, self.rng.choice(names))
        # Those that the framework reads, and those that are given below.
        own = {"index", "options", "callback_manager", "object_map", "nodes", "embed_model"}
        given = self.options(sorted(set(inspect.signature(kind).parameters) - own), 0.05)
        for name in ("filters", "seed_filters", "scope"):
            if self.rng.random() < 0.3:
                parts = []
                for _ in range(self.rng.randrange(1, 3)):
                    value = self.rng.choice([1, "a", 1.5, ["a"], [1], None, "", "\ud800", float("nan")])
                    parts.append(
                        MetadataFilter(key=self.rng.choice(self.fields), value=value, operator=self.rng.choice([*FilterOperator]))
                    )
                given[name] = self.maybe(0.3, MetadataFilters(filters=parts, condition=self.rng.choice(["and", "or", "not"])))
        if self.rng.random() < 0.3:
            nodes = [TextNode(text="a loom", id_="a", metadata={"m": self.maybe(0.5, 1)}), self.maybe(0.2, TextNode(text="b"))]
            model = self.maybe(0.2, MockEmbedding(3))
            made = kind.from_defaults(nodes=self.maybe(0.1, nodes), embed_model=model, edges=self.maybe(0.3, ()), **given)
        else:
            made = kind(self.maybe(0.05, self.index), **given)
        made.retrieve(self.rng.choice(["who made looms?", "\ud800", "", QueryBundle("x", embedding=[1.0, 0.5, 0.5])]))

    def door_rerankers(self):
        model, edges = self.maybe(0.2, lambda pairs: [1.0 for _ in pairs]), self.maybe(0.5, ())
        options, query = self.options(("top_n", "alpha", "degree", "index"), 0.1), self.rng.choice(["x", "", "\ud800"])
        scores = [self.rng.choice([None, 1.0, float("nan")]) for _ in "ab"]
        nodes = [
            NodeWithScore(node=TextNode(text="a loom", id_=name), score=score) for name, score in zip("ab", scores, strict=True)
        ]
        documents = [Document("a loom", id=name, metadata={"m": self.one()}) for name in "ab"]
        if self.rng.random() < 0.5:
            llama.GRankerPostprocessor(model=model, edges=edges, **options).postprocess_nodes(nodes, query_str=query)
        else:
            langchain.GRankerCompressor(relevance=model, edges=edges, **options).compress_documents(documents, query)

    @classmethod
    def doors(cls):
        return [name.removeprefix("door_") for name in vars(cls) if name.startswith("door_")]

    def ask(self, door):
        """Knock once; return None, or where and how it failed without an error of ours or of pydantic, which checks fields."""
        try:
            getattr(self, f"door_{door}")()
        except GraphRetrieverError as error:
            assert str(error)
        except pydantic.ValidationError:
            assert door in ("langchain", "llama_index", "rerankers")
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = next((f for f in reversed(frames) if "graph_retrievers" in f.filename), frames[-1])
            if frames[-1].name == "failing" and place.filename.endswith(_ASK_MODELS):
                # What a model of the user raises is for who knows the model.
                return None
            return f"{door}: {type(error).__name__} at {pathlib.Path(place.filename).name}:{place.lineno}: {error!s:.150}"
        return None


# Files that call a model of the user.
_ASK_MODELS = (
    "/queries.py",
    "/embedding.py",
    "/embedding_models.py",
    "/signals/models.py",
    "/bi_encoder.py",
    "/concurrency.py",
    "/retries.py",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="?", type=int, default=20_000)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("doors", nargs="*")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        fuzzer, found, spent = Fuzzer(args.seed, folder), Counter(), Counter()
        doors = args.doors or fuzzer.doors()
        for case in range(args.cases):
            door, start = doors[case % len(doors)], time.perf_counter()
            raw = fuzzer.ask(door)
            spent[door] += time.perf_counter() - start
            if raw is not None:
                found[raw] += 1
    for raw, count in found.most_common():
        sys.stdout.write(f"{count} {raw!a}\n")
    times = ", ".join(f"{door} {seconds:.0f} s" for door, seconds in spent.items())
    sys.stdout.write(f"{args.cases} cases, {found.total()} raw; {times}\n")


if __name__ == "__main__":
    main()
