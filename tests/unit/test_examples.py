"""The examples in the docstrings: all run, and what a user meets first has one."""

import ast
import doctest
import inspect
import re
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pydoc import locate

import pytest

import graph_retrievers

ROOT = Path(__file__).resolve().parents[2]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
FOLDERS = {"shared/graph_retrievers": "graph_retrievers", "langchain_graph_retrievers": None, "llama_graph_retrievers": None}


def modules():
    for folder, name in FOLDERS.items():
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = [name or folder, *file.relative_to(ROOT / folder).with_suffix("").parts]
            yield ".".join(parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", modules())
def test_examples_print_what_they_say(name):
    assert doctest.testmod(import_module(name), optionflags=FLAGS).failed == 0


def test_docstrings_name_only_what_there_is():
    """So that whoever reads them can import it, and the site makes links of it."""
    texts = (file.read_text(encoding="utf-8") for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
    named = {name for text in texts for name in re.findall(r":\w+:`~?((?:\w+_)?graph_retrievers\.[\w.]+)`", text)}
    assert len(named) > 100 and sorted(name for name in named if locate(name) is None) == []


def told_defaults(docstring):
    """Return (name, value) for what the section of parameters of a docstring calls a default, where that is a literal."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+$|\Z)", inspect.cleandoc(docstring or ""), re.S | re.M)
    for names, told in re.findall(r"^(\w+(?:, \w+)*) : (?:.*?, )?default (.+)$", section[1] if section else "", re.M):
        names = names.split(", ")
        values = re.split(" and |, ", told) if " and " in told else [told] * len(names)
        for name, value in zip(names, values, strict=True):
            with suppress(ValueError, SyntaxError):
                yield name, ast.literal_eval(value)


def test_docstrings_tell_the_defaults():
    wrong, count = [], 0
    for module in map(import_module, modules()):
        for name, kind in vars(module).items():
            if name.startswith("_") or not callable(kind) or getattr(kind, "__module__", "") != module.__name__:
                continue
            methods = inspect.getmembers_static(kind, inspect.isfunction) if inspect.isclass(kind) else ()
            for function in (kind, *(method for _, method in methods)):
                told = list(told_defaults(function.__doc__))
                held = inspect.signature(function).parameters if told else {}
                for parameter, value in ((name, value) for name, value in told if name in held):
                    count += 1
                    # None stands for a default that is made or found later, as an empty dictionary is.
                    if held[parameter].default not in (value, None) and value != {}:
                        wrong.append((module.__name__, name, parameter, value, held[parameter].default))
    assert count > 300 and wrong == []


@pytest.mark.parametrize("name", graph_retrievers.__all__)
def test_every_name_of_the_package_has_an_example(name):
    assert ">>> " in (getattr(graph_retrievers, name).__doc__ or ""), f"{name} has no example"
