"""Imports are declared, the names for the frameworks install this version, and constraints.txt has what the tests ran with."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import graph_retrievers

ROOT = Path(__file__).parents[2]
CONSTRAINTS = {
    requirement.name: requirement.specifier
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if (requirement := Requirement(line) if line and not line.startswith("#") else None)
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOLDERS = {"shared/graph_retrievers": "", "langchain_graph_retrievers": "langchain", "llama_graph_retrievers": "llama-index"}
# What the build of torch for GPUs needs besides: torch says which versions.
CUDA = ("cuda-", "nvidia-", "triton")
# Of these, tests use stand-ins with the same interface.
STOOD_IN = {"spacy", "gliner"}
# What makes the site is there where `make site` ran, as it does before all tests are run.
if find_spec("mkdocs") is None:
    STOOD_IN |= {"docs"}


# It reads what every installed package holds, for a second.
makers_of_modules = cache(metadata.packages_distributions)


def names(requirements):
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def imports(folder):
    """Yield the modules of others that a package imports: file, name, and whether importing the file imports it."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            for module in {name.partition(".")[0] for name in found} - sys.stdlib_module_names:
                if not module.endswith("graph_retrievers"):
                    yield file, module, node in tree.body


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_import_is_of_a_declared_dependency(folder):
    made_by, needed = makers_of_modules(), names(PROJECT["dependencies"])
    own = needed | (names(EXTRAS[FOLDERS[folder]]) if FOLDERS[folder] else set())
    # Heavy and optional ones are imported where they are used.
    later = own | names(line for name, extra in EXTRAS.items() if name not in ("test", "all") for line in extra)
    seen = set()
    for file, module, first in imports(folder):
        makers = set(map(canonicalize_name, made_by.get(module, [module])))
        assert makers & (own if first else later), f"{file} imports {module}"
        seen.add(module)
    assert {"torch", "numpy"} <= seen


def test_every_dependency_that_tests_ran_with_has_its_version():
    extras = [extra for name, extra in EXTRAS.items() if name not in STOOD_IN]
    left = [Requirement(line) for extra in (PROJECT["dependencies"], *extras) for line in extra]
    seen = set()
    while left:
        requirement = left.pop()
        for extra in requirement.extras or {""}:
            key = canonicalize_name(requirement.name), extra
            if key in seen or key[0] == "graph-retrievers" or key[0].startswith(CUDA):
                continue
            seen.add(key)
            needed = map(Requirement, metadata.requires(key[0]) or [])
            left += [other for other in needed if other.marker is None or other.marker.evaluate({"extra": extra})]
    assert {name for name, _ in seen} - set(map(canonicalize_name, CONSTRAINTS)) == set()


def test_the_file_readers_of_llama_index_find_a_pandas():
    # llama-index-readers-file 0.7.0 asks for pandas>=2.0.0,<3; the tests ran with 3.1.1.
    assert "2.3.3" in CONSTRAINTS["pandas"] and "3.1.1" in CONSTRAINTS["pandas"]


def test_every_python_from_3_11_finds_a_soupsieve():
    # soupsieve 4.1.1 asks for Python 3.11.5, which Debian 12 does not have; 2.8.3 asks for 3.9.
    assert "2.8.3" in CONSTRAINTS["soupsieve"] and "4.1.1" in CONSTRAINTS["soupsieve"]


def test_all_others_are_one_version():
    loose = [name for name, specifier in CONSTRAINTS.items() if [part.operator for part in specifier] != ["=="]]
    assert loose == ["pandas", "soupsieve"] and "torch" in CONSTRAINTS


def test_what_pages_and_errors_say_to_install_are_extras():
    folders = ("docs", "examples", "packages", "shared", "langchain_graph_retrievers", "llama_graph_retrievers")
    files = [ROOT / "README.md", *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    texts = [file.read_text(encoding="utf-8") for file in files if file.suffix in (".md", ".py", ".ipynb", ".toml")]
    said = [
        extra.strip() for text in texts for names in re.findall(r"graph-retrievers\[([^\]]*)\]", text) for extra in names.split(",")
    ]
    assert {"langchain", "llama-index", "offline", "serve", "trace", "mcp"} <= set(said) <= set(EXTRAS)


@pytest.mark.parametrize("name", ["langchain-graph-retrievers", "llama-index-retrievers-graph"])
def test_the_names_for_frameworks_install_this_version_with_their_extra(name):
    other = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())["project"]
    (needed,) = map(Requirement, other["dependencies"])
    assert other["name"] == name and other["version"] == PROJECT["version"] == graph_retrievers.__version__
    assert needed.name == PROJECT["name"] and needed.extras <= set(EXTRAS) and f"=={PROJECT['version']}" == str(needed.specifier)
    assert needed.extras == {"llama-index" if "llama" in name else "langchain"}
