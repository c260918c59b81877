"""The examples in the docstrings: all run, and what a user meets first has one."""

import doctest
import re
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


@pytest.mark.parametrize("name", graph_retrievers.__all__)
def test_every_name_of_the_package_has_an_example(name):
    assert ">>> " in (getattr(graph_retrievers, name).__doc__ or ""), f"{name} has no example"
