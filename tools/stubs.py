"""Write the typed files: what editors and type checkers know of keywords that constructors pass on, or that are made at run time.

    python tools/stubs.py            # writes them
    python tools/stubs.py --check    # exit status 1 if one is not current

The arguments are read from the signatures of the engine, from which the classes themselves get them.
"""

from __future__ import annotations

import argparse
import collections.abc
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from inspect import Parameter, signature, unwrap
from operator import or_
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from graph_retrievers.graph.filters import Filter
from graph_retrievers.index import GraphIndex, IndexStore
from graph_retrievers.retrievers.retriever import Retriever
from graph_retrievers.retrievers.signatures import Knob, class_knobs
from graph_retrievers.systems.registry import retriever_class, retriever_names
from llama_graph_retrievers.graph_retriever import GraphRetriever, engine_knobs

ROOT = Path(__file__).resolve().parents[1]
_HEAD = '"""{}; written by tools/stubs.py, not by hand."""\n'
_WIDTH = 132
_EMBEDDING, _EDGES = "embedding: Any = ...", "edges: Any = ..."
_IDS = "ids: Sequence[str] | None = ..."
_TEXTS = ("texts: Sequence[str]", _EMBEDDING, "metadatas: Sequence[Mapping[str, Any]] | None = ...")


class Names:
    """Types as they are written, and the imports that they need."""

    def __init__(self) -> None:
        self.imports: dict[str, set[str]] = {}

    def add(self, module: str, *names: str) -> None:
        """Import names from a module, unless another module gave them."""
        known = {name for each in self.imports.values() for name in each}
        self.imports.setdefault(module, set()).update(set(names) - known)

    def written(self, kind: Any) -> str:
        """Return a type as source text."""
        if kind is type(None) or kind is None:
            return "None"
        if kind is Any:
            self.add("typing", "Any")
            return "Any"
        if get_origin(kind) in (Union, types.UnionType):
            parts = get_args(kind)
            if set(get_args(Filter)) <= set(parts):
                self.add("graph_retrievers.graph.filters", "Filter")
                rest = [part for part in parts if part not in get_args(Filter)]
                return " | ".join(["Filter", *map(self.written, rest)])
            return " | ".join(dict.fromkeys(map(self.written, parts)))
        if get_origin(kind) is Literal:
            self.add("typing", "Literal")
            return f"Literal[{', '.join(map(repr, get_args(kind)))}]"
        if get_origin(kind) is collections.abc.Callable:
            self.add("collections.abc", "Callable")
            given, answer = get_args(kind)
            listed = "..." if given is Ellipsis else f"[{', '.join(map(self.written, given))}]"
            return f"Callable[{listed}, {self.written(answer)}]"
        if get_origin(kind) is not None:
            return f"{self.written(get_origin(kind))}[{', '.join(map(self.written, get_args(kind)))}]"
        if kind.__module__ != "builtins":
            self.add(kind.__module__, kind.__name__)
        return str(kind.__name__)

    def lines(self, body: list[str]) -> list[str]:
        """Return the imports of the names that lines have, in the order of the linter."""
        used = set(re.findall(r"\w+", "\n".join(body)))
        self.imports = {module: names & used for module, names in self.imports.items()}
        groups: tuple[list[str], list[str], list[str]] = ([], [], [])
        for module in sorted(module for module, names in self.imports.items() if names):
            top = module.partition(".")[0]
            group = 0 if top in sys.stdlib_module_names else 2 if top.endswith("graph_retrievers") else 1
            groups[group].append(f"from {module} import {', '.join(sorted(self.imports[module], key=_as_imported))}")
        return [line for group in groups if group for line in ["", *map(_wrapped, group)]]


def _as_imported(name: str) -> tuple[int, str]:
    # Constants, classes, then the rest, each by name.
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def _wrapped(line: str) -> str:
    if len(line) <= _WIDTH:
        return line
    before, _, names = line.partition(" import ")
    return "\n".join([f"{before} import (", *(f"    {name}," for name in names.split(", ")), ")"])


def typed_dict(name: str, bases: str, fields: Mapping[str, str], doc: str = "") -> list[str]:
    """Return the lines of a TypedDict whose keys may be missing."""
    body = [f"    {field}: {kind}" for field, kind in fields.items()] or ["    pass"]
    return ["", f"class {name}({bases}, total=False):", *([f'    """{doc}"""', ""] if doc else []), *body]


def keywords(function: Callable[..., Any], names: Names) -> dict[str, str]:
    """Return the keywords that a function names after its positional arguments, and their types."""
    hints = _hints(function)
    return {
        name: names.written(hints.get(name, Any))
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    }


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of arguments; those of further keywords are what is written here, and may not be there yet."""
    function = unwrap(getattr(function, "__func__", function))
    own = {name: kind for name, kind in function.__annotations__.items() if "Unpack" not in str(kind)}
    return get_type_hints(types.SimpleNamespace(__annotations__=own), function.__globals__)


def knob_types(knobs: Iterable[Knob], names: Names) -> dict[str, str]:
    """Return the types of keywords of engine classes."""
    return {knob.name: names.written(knob.annotation) for knob in knobs}


def common_knobs() -> list[Knob]:
    """Return the keywords of every retriever of the engine but those that frameworks call otherwise."""
    return [knob for knob in class_knobs(Retriever) if knob.name not in ("k", "name")]


def own_types(kind: type, names: Names) -> dict[str, str]:
    """Return the types of the keywords of one class of the engine."""
    return knob_types((knob for knob in class_knobs(kind) if knob.name not in ("k", "name")), names)


def engine_options() -> str:
    """Return `graph_retrievers/retrievers/options.py`, which is read at run time too: classes read their signatures."""
    names = Names()
    names.add("typing", "TypedDict")
    common = keywords(Retriever.__init__, names)
    k = {"k": common.pop("k")}
    lines = [
        *("", *typed_dict("CommonOptions", "TypedDict", common, "Keywords of every retriever, for a class with its own `k`.")),
        *("", *typed_dict("RetrieverOptions", "CommonOptions", k, "Keywords of every retriever.")),
    ]
    return _module("Keywords of every retriever", names, ["CommonOptions", "RetrieverOptions"], lines)


def index_options() -> str:
    """Return `graph_retrievers/index/options.py`."""
    names = Names()
    names.add("typing", "TypedDict")
    signals, documents = keywords(GraphIndex.from_graph, names), keywords(GraphIndex.from_documents, names)
    # What an IndexStore names itself, and what has no place where documents come one by one.
    own = signature(IndexStore.__init__).parameters.keys() | {"lenient", "strict", "vectors"}
    store = {name: kind for name, kind in (documents | signals).items() if name not in own}
    lines = [
        *("", *typed_dict("SignalOptions", "TypedDict", signals, "Keywords of GraphIndex.from_graph.")),
        *("", *typed_dict("StoreOptions", "TypedDict", store, "Keywords of GraphIndex.from_documents that an IndexStore keeps.")),
    ]
    return _module("Keywords of what builds an index", names, ["SignalOptions", "StoreOptions"], lines)


def langchain_options() -> str:
    """Return `langchain_graph_retrievers/options.pyi`."""
    from langchain_graph_retrievers.base import EngineRetriever

    names = Names()
    names.add("typing", "TypedDict")
    names.add("graph_retrievers.core.operator", "Operator")
    hints = get_type_hints(EngineRetriever)
    graph, texts = keywords(GraphIndex.from_graph, names), keywords(GraphIndex.from_texts, names)
    documents = keywords(GraphIndex.from_documents, names)
    built = {name: kind for name, kind in documents.items() if name in texts} | graph
    parts = {
        "Fields": ("TypedDict", {field: names.written(hints[field]) for field in EngineRetriever.model_fields}),
        "BuildOptions": ("TypedDict", {"published": "bool"} | built),
        "TextOptions": ("BuildOptions", {name: kind for name, kind in texts.items() if name not in built}),
        "DocumentOptions": ("BuildOptions", {name: kind for name, kind in documents.items() if name not in built}),
        "OptionFields": ("Fields", knob_types(common_knobs(), names)),
        "GraphFields": ("OptionFields", {"system": "str | Operator | None"}),
        "GraphTextOptions": ("GraphFields, TextOptions", {}),
        "GraphDocumentOptions": ("GraphFields, DocumentOptions", {}),
    }
    # What the methods name themselves.
    own = {"embedding", "edges", "metadatas", "ids"}
    lines = [
        line
        for name, (bases, fields) in parts.items()
        for line in typed_dict(name, bases, {field: kind for field, kind in fields.items() if field not in own or name == "Fields"})
    ]
    return _module("Keywords of retrievers and of what builds their index", names, list(parts), lines)


def langchain_systems() -> str:
    """Return `langchain_graph_retrievers/systems.pyi`."""
    from langchain_graph_retrievers import systems

    names = Names()
    names.add("collections.abc", "Iterable", "Mapping", "Sequence")
    names.add("typing", "Any", "Self", "TypedDict", "Unpack")
    names.add("langchain_core.documents", "Document")
    names.add("graph_retrievers.index", "GraphIndex")
    names.add("langchain_graph_retrievers.options", "DocumentOptions", "OptionFields", "TextOptions")
    names.add("langchain_graph_retrievers.retrievers", "IndexRetriever")
    common = knob_types(common_knobs(), names)
    lines = ["", "class _Retriever(IndexRetriever):", *(f"    {field}: {kind} = ..." for field, kind in common.items())]
    for name in systems.__all__:
        own = own_types(retriever_class(getattr(systems, name).system)[0], names)
        stem = f"_{name.removesuffix('Retriever')}"
        documents = f"**options: Unpack[{stem}Documents]"
        lines += [
            *typed_dict(f"{stem}Fields", "OptionFields", own),
            *typed_dict(f"{stem}Texts", f"{stem}Fields, TextOptions", {}),
            *_documents(stem, own),
            "",
            f"class {name}(_Retriever):",
            *(f"    {field}: {kind} = ..." for field, kind in own.items()),
            *_method("from_index", "index: GraphIndex", "*", "published: bool = ...", f"**fields: Unpack[{stem}Fields]"),
            *_method("from_documents", "documents: Iterable[Document]", _EMBEDDING, "*", _EDGES, documents),
            *_method("from_vectorstore", "store: Any", _EMBEDDING, "*", _EDGES, documents),
            *_method("from_texts", *_TEXTS, "*", _IDS, _EDGES, f"**options: Unpack[{stem}Texts]"),
        ]
    return _module("The named retrievers with their arguments", names, systems.__all__, lines)


def _documents(stem: str, own: dict[str, str]) -> list[str]:
    """Return the keywords of ``from_documents``, whose first argument hides a keyword of the same name."""
    if "documents" not in own:
        return typed_dict(f"{stem}Documents", f"{stem}Fields, DocumentOptions", {})
    return typed_dict(f"{stem}Documents", "OptionFields, DocumentOptions", {name: own[name] for name in own if name != "documents"})


def _common_types(names: Names) -> dict[str, str]:
    """Return the types of the keywords of every retriever of the engine that LlamaIndex's have too."""
    return knob_types(engine_knobs(Retriever).values(), names)


def llama_options() -> str:
    """Return `llama_graph_retrievers/options.pyi`."""
    names = Names()
    names.add("typing", "TypedDict")
    common = _common_types(names)
    options = keywords(GraphRetriever.__init__, names) | common
    kinds: dict[str, list[Any]] = {}
    for system in retriever_names():
        for knob in engine_knobs(retriever_class(system)[0]).values():
            kinds.setdefault(knob.name, []).append(knob.annotation)
    # Which of them a system takes is known when it is made.
    systems = {name: names.written(reduce(or_, known)) for name, known in kinds.items() if name not in common}
    named = signature(GraphRetriever.from_defaults).parameters
    building = options | keywords(GraphRetriever.from_index, names)
    parts = {
        "Options": ("TypedDict", options),
        "SystemOptions": ("TypedDict", systems),
        "IndexOptions": ("Options, SystemOptions", {}),
        "DefaultsOptions": ("SystemOptions", {name: kind for name, kind in building.items() if name not in named}),
    }
    lines = [line for name, (bases, fields) in parts.items() for line in typed_dict(name, bases, fields)]
    return _module("Keywords of GraphRetriever, and of any system that it is made for", names, list(parts), lines)


def llama_systems() -> str:
    """Return `llama_graph_retrievers/systems.pyi`."""
    from llama_graph_retrievers import systems

    names = Names()
    names.add("typing", "Self", "TypedDict", "Unpack")
    names.add("graph_retrievers.index", "GraphIndex")
    names.add("llama_graph_retrievers.retrievers", "IndexRetriever")
    names.add("llama_graph_retrievers.options", "Options")
    building = {"published": "bool"} | keywords(GraphRetriever.from_defaults, names)
    options = keywords(GraphRetriever.__init__, names)
    lines = typed_dict("_Building", "TypedDict", {name: kind for name, kind in building.items() if name not in options})
    index = f"index: {names.written(_hints(GraphRetriever.from_defaults)['index'])} = ..."
    for name in systems.__all__:
        made = getattr(systems, name)
        stem = f"_{name.removesuffix('Retriever')}"
        lines += [
            *typed_dict(f"{stem}Options", "Options", own_types(made.engine_class, names)),
            *typed_dict(f"{stem}Defaults", f"{stem}Options, _Building", {}),
            "",
            f"class {name}(IndexRetriever):",
            f"    def __init__(self, index: GraphIndex, **options: Unpack[{stem}Options]) -> None: ...",
            *_method("from_index", "index: GraphIndex", "*", "published: bool = ...", f"**options: Unpack[{stem}Options]"),
            *_method("from_defaults", index, f"**options: Unpack[{stem}Defaults]"),
        ]
    return _module("The named retrievers with their arguments", names, systems.__all__, lines)


def _method(name: str, *arguments: str) -> list[str]:
    """Return a class method that narrows the keywords of the one of its base class."""
    start = f"    def {name}(  # type: ignore[override]"
    inside = f"cls, {', '.join(arguments)}"
    if len(inside) + 8 <= _WIDTH:
        return ["    @classmethod", start, f"        {inside}", "    ) -> Self: ..."]
    return ["    @classmethod", start, "        cls,", *(f"        {each}," for each in arguments), "    ) -> Self: ..."]


def _module(title: str, names: Names, exported: list[str], lines: list[str]) -> str:
    listed = ["", "__all__ = [", *(f'    "{name}",' for name in exported), "]"]
    return "\n".join([_HEAD.format(title).strip(), *names.lines(lines), *listed, *lines]) + "\n"


FILES: dict[str, Callable[[], str]] = {
    "shared/graph_retrievers/index/options.py": index_options,
    "shared/graph_retrievers/retrievers/options.py": engine_options,
    "langchain_graph_retrievers/options.pyi": langchain_options,
    "langchain_graph_retrievers/systems.pyi": langchain_systems,
    "llama_graph_retrievers/options.pyi": llama_options,
    "llama_graph_retrievers/systems.pyi": llama_systems,
}


def main() -> int:
    """Write the files, or tell which are not current."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    old = [name for name, make in FILES.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != make()]
    for name in old:
        if options.check:
            print(f"{name} is not current; run: python tools/stubs.py")
        else:
            (ROOT / name).write_text(FILES[name]())
    return int(options.check and bool(old))


if __name__ == "__main__":
    raise SystemExit(main())
