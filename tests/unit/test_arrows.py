"""Who may import whom: the arrows of the architecture, and what importing the package pulls in."""

import ast
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "shared" / "graph_retrievers"

# Room -> the rooms it imports, all of them and no other. A room is a folder or a top-level module of the engine.
ROOMS = {
    "errors": set(),
    "concurrency": set(),
    "cache": set(),
    "progress": set(),
    "version": set(),
    "arguments": {"errors"},
    "device": {"errors"},
    "seeding": {"errors"},
    "core": {"errors", "arguments"},
    "graph": {"errors", "arguments", "cache", "device"},
    "signals": {"errors", "arguments", "cache", "concurrency", "device", "seeding", "graph", "progress"},
    "learning": {"errors", "arguments", "progress", "seeding"},
    "construction": {"errors", "arguments", "graph", "signals", "datasets", "progress"},
    "datasets": {"errors", "arguments", "graph"},
    "search": {"errors", "arguments", "cache", "graph", "signals", "core"},
    "index": {"errors", "arguments", "cache", "graph", "signals", "construction", "search"},
    "tracing": {"errors", "core", "version"},
    "hits": {"errors", "arguments", "cache", "graph", "signals", "core"},
    "systems": {
        *("errors", "arguments", "cache", "device", "graph", "signals", "learning", "datasets", "index"),
        *("core", "search", "progress", "seeding"),
    },
    "retrievers": {
        *("errors", "arguments", "cache", "graph", "signals", "construction", "index", "core", "search"),
        *("hits", "tracing", "concurrency", "systems"),
    },
    "operators": {"core", "search", "systems"},
    "stores": {
        *("errors", "arguments", "cache", "graph", "signals", "index", "core", "search", "hits", "retrievers"),
        *("systems", "concurrency", "construction", "progress"),
    },
    "serve": {"errors", "arguments", "graph", "hits", "index", "retrievers", "core", "systems"},
    "testing": {"hits", "index", "retrievers", "core"},
    "evaluation": {
        *("errors", "arguments", "graph", "signals", "datasets", "index", "core", "search", "retrievers", "systems", "progress"),
        *("seeding", "version"),
    },
    "commands": {
        *("errors", "arguments", "progress", "serve", "graph", "signals", "construction", "datasets", "index", "core", "hits"),
        *("retrievers", "systems", "evaluation", "stores", "version"),
    },
}
FOREIGN = {"langchain", "langchain_core", "llama_index", "langchain_graph_retrievers", "llama_graph_retrievers"}


def imports(file, only_at_import=False):
    """Modules that a file names in any import, inside functions and for types only too; names of modules by themselves."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in tree.body if only_at_import else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in MODULES else node.module


def engine_files():
    return sorted(file for file in ENGINE.rglob("*.py") if file != ENGINE / "__init__.py")


def module_name(file):
    return ".".join(("graph_retrievers", *file.relative_to(ENGINE).with_suffix("").parts)).removesuffix(".__init__")


def room_of(module):
    return module.split(".")[1]


# The root itself is not a room: it gives out names of all rooms when they are asked for.
MODULES = {module_name(file): file for file in engine_files()}


def rooms_imported(file):
    inside = (module for module in imports(file) if module.startswith("graph_retrievers."))
    return {room_of(module) for module in inside} - {room_of(module_name(file))}


@pytest.mark.slow
@pytest.mark.parametrize("file", engine_files(), ids=lambda f: str(f.relative_to(ENGINE)))
def test_engine_rooms_import_only_what_lies_below_them(file):
    assert not {module.split(".")[0] for module in imports(file)} & FOREIGN
    room = room_of(module_name(file))
    assert rooms_imported(file) <= ROOMS[room], f"{room} imports {sorted(rooms_imported(file) - ROOMS[room])}"


def test_a_room_lists_only_what_it_needs():
    needed = {room: set() for room in ROOMS}
    for module, file in MODULES.items():
        needed[room_of(module)] |= rooms_imported(file)
    assert needed == ROOMS


def circles(edges):
    """Circles of a graph given as {node: nodes it points to}, each as a list that ends where it begins."""
    found, state, path = [], {}, []

    def visit(node):
        state[node] = "open"
        path.append(node)
        for target in sorted(edges.get(node, ())):
            if state.get(target) == "open":
                found.append([*path[path.index(target) :], target])
            elif target not in state:
                visit(target)
        state[path.pop()] = "done"

    for node in sorted(edges):
        if node not in state:
            visit(node)
    return found


def test_a_circle_is_found_and_named():
    assert circles({"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": set()}) == [["b", "c", "b"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_modules_import_each_other_in_a_circle():
    edges = {module: (set(imports(file)) & MODULES.keys()) - {module} for module, file in MODULES.items()}
    assert sum(map(len, edges.values())) > 200, "imports are not read"
    found = circles(edges)
    assert not found, "\n".join(" -> ".join(circle) for circle in found)
    assert not circles(ROOMS)


def test_no_chain_of_imports_is_longer_than_fourteen_modules():
    edges = {module: set(imports(file, only_at_import=True)) & MODULES.keys() for module, file in MODULES.items()}

    @cache
    def chain(module):
        return [module, *max((chain(target) for target in edges[module]), key=len, default=[])]

    longest = max(map(chain, MODULES), key=len)
    assert len(longest) <= 14, " -> ".join(longest)


def test_only_a_training_imports_a_training():
    trainings = {module for module in MODULES if module.startswith("graph_retrievers.systems.") and module.endswith(".training")}
    assert trainings
    assert {module for module, file in MODULES.items() if trainings & set(imports(file))} <= trainings


def names_for_type_checkers():
    """Names of the root as its imports for type checkers give them: (name, module it comes from)."""
    tree = ast.parse((ENGINE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return [(alias.name, node.module) for node in block.body for alias in node.names]


def test_the_root_gives_out_the_names_of_its_rooms():
    import graph_retrievers

    homes = names_for_type_checkers()
    assert sorted(graph_retrievers.__all__) == sorted(name for name, _ in homes)
    assert len(set(graph_retrievers.__all__)) == len(graph_retrievers.__all__) > 30
    for name, module in homes:
        home = import_module(module)
        assert getattr(graph_retrievers, name) is getattr(home, name), "at run time it comes from elsewhere"
        assert name in getattr(home, "__all__", [name]), f"{name} is not public in {module}"
    # Every name that the table of homes holds is one of them.
    assert {name for names in graph_retrievers._HOMES.values() for name in names.split()} == set(graph_retrievers.__all__)
    assert set(graph_retrievers.__all__) <= set(dir(graph_retrievers))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        graph_retrievers.Nothing  # noqa: B018


def test_a_star_import_takes_no_name_that_others_need():
    import builtins
    import pathlib

    names = {}
    exec("from pathlib import Path\nfrom graph_retrievers import *", names)
    import graph_retrievers

    assert names["Path"] is pathlib.Path
    assert set(graph_retrievers.__all__) <= names.keys()
    assert not set(graph_retrievers.__all__) & set(dir(builtins))


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


@pytest.mark.process
def test_importing_the_engine_stays_light():
    everything = "; ".join(f"import {module}" for module in MODULES)
    heavy = {
        "langchain",
        "langchain_core",
        "llama_index",
        "faiss",
        "transformers",
        "bm25s",
        "matplotlib",
        "neo4j",
        "ir_measures",
    }
    assert not loaded_by("import graph_retrievers") & (heavy | {"torch"})
    assert "torch" not in loaded_by("from graph_retrievers.commands import cli; cli._parser()"), "the help of the command is slow"
    assert not loaded_by("from graph_retrievers import GraphIndex, FastInsight") & heavy
    assert not loaded_by(everything) & heavy


@pytest.mark.parametrize(("package", "base"), [("operators", "core.operator.Operator"), ("systems", "systems.system.System")])
def test_every_operator_and_system_can_be_imported_from_one_place(package, base):
    module, name = base.rsplit(".", 1)
    root = getattr(import_module(f"graph_retrievers.{module}"), name)
    modules = [import_module(name) for name in MODULES if room_of(name) in ("core", "search", "systems")]
    classes = {
        public
        for module in modules
        for public, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, root) and value.__module__ == module.__name__ and public[0] != "_"
    }
    assert len(classes) > 8
    bases = {"Composite", "CompositeSystem", "Rewriting", "RewritingSystem", "SubgraphSearch", "SubgraphSystem"}
    assert classes - bases <= set(import_module(f"graph_retrievers.{package}").__all__)


def test_an_error_inside_a_module_is_not_hidden_behind_the_name(monkeypatch):
    import graph_retrievers

    def broken(name):
        raise AttributeError("module 'numpy' has no attribute 'new'")

    monkeypatch.setattr(graph_retrievers, "import_module", broken)
    with pytest.raises(ImportError, match=r"graph_retrievers.index cannot be imported: module 'numpy' has no attribute 'new'"):
        graph_retrievers.GraphIndex  # noqa: B018
