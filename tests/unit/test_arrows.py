"""Who may import whom: the arrows of the architecture, and what importing the package pulls in."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "shared" / "graph_retrievers"

# room -> rooms it may import. A room is a folder or a top-level module of the engine.
ALLOWED = {
    "errors": set(),
    "arguments": {"errors"},
    "device": {"errors"},
    "graph": {"errors", "device"},
    "signals": {"errors", "device", "graph"},
    "queries": {"errors", "device", "graph", "signals", "index"},
    "index": {"errors", "device", "graph", "signals", "construction", "queries"},
    "construction": {"errors", "arguments", "device", "graph", "signals", "index", "queries"},
    "planning": {"errors", "device", "graph", "signals", "index", "queries", "learning"},
    "learning": {"errors", "device", "graph", "signals", "index", "queries"},
    "operators": {"errors", "arguments", "device", "graph", "signals", "index", "queries", "planning", "learning"},
    "retrievers": {"errors", "device", "graph", "signals", "index", "queries", "construction", "planning", "learning", "operators"},
    "evaluation": None,
    "cypher": None,
    "cli": None,
}
TOP = {"evaluation", "cypher", "cli"}
# Commands stand on everything, wherever the room that they serve lies.
COMMANDS = {"learning/command.py", "evaluation/command.py"}


def imports(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield node.module


def engine_files():
    return sorted(file for file in ENGINE.rglob("*.py") if file != ENGINE / "__init__.py")


@pytest.mark.parametrize("file", engine_files(), ids=lambda f: str(f.relative_to(ENGINE)))
def test_engine_rooms_import_only_what_lies_below_them(file):
    relative = file.relative_to(ENGINE)
    room = relative.parts[0].removesuffix(".py")
    for module in imports(file):
        parts = module.split(".")
        assert parts[0] not in (
            "langchain",
            "langchain_core",
            "llama_index",
            "langchain_graph_retrievers",
            "llama_graph_retrievers",
        )
        if parts[0] != "graph_retrievers" or len(parts) == 1 or parts[1] == room:
            continue
        if str(relative) in COMMANDS:
            assert parts[1] != "cli"
        elif ALLOWED[room] is None:
            assert parts[1] == "retrievers" or parts[1] not in TOP - {room} or room == "cli", f"{room} imports {module}"
        else:
            assert parts[1] in ALLOWED[room], f"{room} imports {module}"


@pytest.mark.parametrize(("door", "other"), [("langchain", "llama"), ("llama", "langchain")])
def test_the_doors_do_not_know_each_other(door, other):
    files = list((ROOT / f"{door}_graph_retrievers").rglob("*.py"))
    assert files
    foreign = {
        "llama": ("llama_index", "llama_graph_retrievers"),
        "langchain": ("langchain", "langchain_core", "langchain_graph_retrievers"),
    }
    for file in files:
        assert not {m.split(".")[0] for m in imports(file)} & set(foreign[other]), file


def loaded_by(statement):
    code = f"import sys; {statement}; print(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_engine_stays_light():
    everything = "; ".join(
        "import " + ".".join(("graph_retrievers", *file.relative_to(ENGINE).with_suffix("").parts)).removesuffix(".__init__")
        for file in engine_files()
    )
    heavy = {
        "langchain",
        "langchain_core",
        "llama_index",
        "faiss",
        "transformers",
        "bm25s",
        "rank_bm25",
        "matplotlib",
        "neo4j",
        "ir_measures",
    }
    assert not loaded_by("import graph_retrievers") & (heavy | {"torch"})
    assert "torch" not in loaded_by("from graph_retrievers import cli; cli._parser()"), "the help of the command is slow"
    assert not loaded_by("from graph_retrievers import GraphIndex, FastInsight") & heavy
    assert not loaded_by(everything) & heavy


@pytest.mark.parametrize(("room", "base"), [("operators", "operator.Operator"), ("retrievers", "retriever.Retriever")])
def test_every_operator_and_retriever_can_be_imported_from_its_room(room, base):
    package = import_module(f"graph_retrievers.{room}")
    module, name = base.split(".")
    root = getattr(import_module(f"graph_retrievers.{room}.{module}"), name)
    modules = [import_module(f"graph_retrievers.{room}.{file.stem}") for file in (ENGINE / room).glob("[!_]*.py")]
    classes = {
        public
        for module in modules
        for public, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, root) and value.__module__ == module.__name__ and public[0] != "_"
    }
    assert len(classes) > 8
    assert classes - {"Composite"} <= set(package.__all__)
