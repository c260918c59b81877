"""The examples in the docstrings: all run, and what a user meets first has one."""

import doctest
from importlib import import_module
from pathlib import Path

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


@pytest.mark.parametrize("name", graph_retrievers.__all__)
def test_every_name_of_the_package_has_an_example(name):
    assert ">>> " in (getattr(graph_retrievers, name).__doc__ or ""), f"{name} has no example"
