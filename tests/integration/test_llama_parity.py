"""The LlamaIndex classes take exactly the keywords of the engine's classes, with their defaults and documentation."""

import functools
import inspect
import re

import pytest

import graph_retrievers.systems as engine
import llama_graph_retrievers as package
from graph_retrievers.retrievers import Retriever
from graph_retrievers.systems.registry import retriever_class, retriever_names
from llama_graph_retrievers import GraphRetriever
from tests.helpers import linked_index

CLASSES = [cls for cls in vars(package).values() if isinstance(cls, type) and hasattr(cls, "engine_class")]
OF_ENGINE = {cls.engine_class: cls for cls in CLASSES}


def keyword_only(function):
    """Names and defaults, read without the help of the package."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def engine_keywords(kind):
    """Keywords of an engine class and of those it derives from; the nearest class decides on a default."""
    classes = [cls for cls in reversed(kind.__mro__) if issubclass(cls, Retriever)]
    return {name: default for cls in classes for name, default in keyword_only(cls.__init__).items()}


def differences(cls, kind):
    """Names of keywords that a LlamaIndex class has not, or otherwise, from an engine class and GraphRetriever."""
    expected = engine_keywords(kind)
    expected = keyword_only(GraphRetriever.__init__) | expected | {"similarity_top_k": expected["k"]}
    del expected["k"]
    found, missing = keyword_only(cls), object()
    return {name for name in found | expected if found.get(name, missing) != expected.get(name, missing)}


@pytest.mark.parametrize("name", retriever_names())
def test_every_system_has_a_class_with_the_keywords_and_defaults_of_the_engines(name):
    kind, _ = retriever_class(name)
    assert not differences(OF_ENGINE[kind], kind)
    assert list(inspect.signature(OF_ENGINE[kind]).parameters)[0] == "index"


def test_the_comparison_sees_a_keyword_that_is_missing_and_a_default_that_differs():
    class Longer(engine.GAR):
        def __init__(self, index, *, budget=99, patience=3, **options):
            super().__init__(index, budget=budget, **options)

    assert differences(package.GARRetriever, Longer) == {"patience", "budget"}


def test_every_engine_retriever_is_reachable():
    known = {cls for cls in vars(engine).values() if isinstance(cls, type) and issubclass(cls, Retriever)}
    assert known - {Retriever} == set(OF_ENGINE) and len(OF_ENGINE) == len(CLASSES)
    assert {cls.__name__ for cls in CLASSES} == {f"{kind.__name__}Retriever" for kind in OF_ENGINE}
    for name in retriever_names():
        assert GraphRetriever.from_index(linked_index(), system=name).engine.name == name


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_keyword_is_documented_once(cls):
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", cls.__doc__, re.MULTILINE | re.DOTALL)[1]
    named = [name for line in section.splitlines() if line[:1].strip() for name in line.partition(" :")[0].split(", ")]
    assert sorted(named) == sorted(inspect.signature(cls).parameters)
    assert section.count("\n    ") > 10 and f"similarity_top_k : int, default {keyword_only(cls)['similarity_top_k']}" in section
    # The other sections of the engine's docstring, such as the references, are there too, except its examples.
    engine = inspect.getdoc(cls.engine_class).partition("Examples\n--------")[0]
    for part in re.split(r"^Parameters\n-+\n.*?(?=^\w[^\n]*\n-+\n|\Z)", engine, flags=re.M | re.S):
        assert part.strip() in cls.__doc__


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_keyword_reaches_the_engine(cls, monkeypatch):
    given, built = {}, cls.engine_class.__init__

    @functools.wraps(built)
    def spied(self, index, **options):
        given.update(options)
        built(self, index, **options)

    keywords = {name: default for name, default in engine_keywords(cls.engine_class).items() if name != "k"}
    monkeypatch.setattr(cls.engine_class, "__init__", spied)
    cls(linked_index(), **{**keywords, "name": "mine"})
    assert given.keys() == keywords.keys() and given["name"] == "mine"
