"""The LangChain classes against the engine's: the same keywords, defaults and documentation, and no class left out."""

import functools
import pydoc
from inspect import Parameter, signature

import pytest

import graph_retrievers.systems as engine
import langchain_graph_retrievers as package
from graph_retrievers.retrievers import Retriever
from graph_retrievers.systems import registry
from graph_retrievers.systems.registry import retriever_class, retriever_names
from langchain_graph_retrievers import EngineRetriever, IndexRetriever, retrievers
from tests.helpers import linked_index

EXPORTED = {cls.system: cls for cls in vars(package).values() if isinstance(cls, type) and "system" in vars(cls)}
# What every LangChain retriever has, none of it a keyword of an engine class but k.
SHARED = set(IndexRetriever.model_fields) - {"k"}


def keywords(kind):
    """Keywords of an engine class, read from its constructor and that of Retriever: name to default."""
    found = {}
    for cls in (Retriever, kind):
        parameters = signature(cls.__init__).parameters.values()
        found |= {p.name: p.default for p in parameters if p.kind is Parameter.KEYWORD_ONLY}
    # Every Runnable has a name, which is not the one that the engine's tables show.
    return {name: default for name, default in found.items() if name != "name"}


def check(cls):
    """Hold a LangChain class against the engine class of its system."""
    kind, values = retriever_class(cls.system)
    fields = {name: field for name, field in cls.model_fields.items() if name not in SHARED}
    expected = keywords(kind) | values
    assert {name: field.default for name, field in fields.items()} == expected
    text = cls.__doc__.replace(", ", "\n")
    for name, field in fields.items():
        assert field.description and len(field.description) > 10, f"{cls.__name__}.{name} has no documentation"
        assert f"\n{name}" in text, f"the docstring of {cls.__name__} does not name {name}"
    for name in set(EngineRetriever.model_fields) - {"name", "tags", "metadata"}:
        assert f"\n{name}" in text and EngineRetriever.model_fields[name].description
    assert "**options" not in cls.__doc__ and ">>>" not in cls.__doc__


def class_of(system):
    return EXPORTED.get(system) or type("Named", (IndexRetriever,), {"__module__": __name__}, system=system)


@pytest.mark.parametrize("system", retriever_names())
def test_a_class_has_the_keywords_of_its_system(system):
    check(class_of(system))


def test_every_class_of_the_engine_is_reachable():
    reachable = {retriever_class(system)[0] for system in EXPORTED}
    assert reachable == {retriever_class(name)[0] for name in retriever_names()}
    published = (getattr(engine, name) for name in engine.__all__)
    assert reachable == {cls for cls in published if isinstance(cls, type) and issubclass(cls, Retriever)} - {Retriever}
    assert {cls.__name__ for cls in EXPORTED.values()} == {f"{kind.__name__}Retriever" for kind in reachable}
    assert {cls.__name__ for cls in EXPORTED.values()} <= set(package.__all__)


@pytest.mark.parametrize("system", sorted(EXPORTED))
def test_the_check_fails_for_a_keyword_that_only_the_engine_has(system, monkeypatch):
    kind, _ = retriever_class(system)
    constructor = kind.__init__

    @functools.wraps(constructor)
    def longer(self, index, **options):
        constructor(self, index, **options)

    parameters = list(signature(constructor).parameters.values())
    added = Parameter("further", Parameter.KEYWORD_ONLY, default=3)
    longer.__signature__ = signature(constructor).replace(parameters=[*parameters[:-1], added, parameters[-1]])
    monkeypatch.setattr(kind, "__init__", longer)
    with pytest.raises(AssertionError):
        check(EXPORTED[system])


def test_a_keyword_that_an_engine_class_gets_becomes_a_field(monkeypatch):
    class Wider(Retriever):
        """A system with one more keyword.

        Parameters
        ----------
        index : GraphIndex
        width : int, default 7
            How wide it searches.
        **options
            Keywords of :class:`Retriever`.
        """

        def __init__(self, index, *, width: int = 7, **options):
            super().__init__(index, engine.BM25(index).operator, **options)
            self.width = width

    monkeypatch.setitem(registry._RETRIEVERS, "wider", ("Wider", {}))
    monkeypatch.setattr(engine, "Wider", Wider, raising=False)
    wider = class_of("wider")
    check(wider)
    assert wider.model_fields["width"].description == "How wide it searches."
    assert wider(index=linked_index(), width=9)._engine().width == 9


@pytest.mark.parametrize("system", sorted(EXPORTED))
def test_every_field_reaches_the_engine(system, monkeypatch):
    given = []
    real = retrievers.build_retriever

    def recorded(name, index, **options):
        given.append((name, options))
        return real(name, index, **options)

    monkeypatch.setattr(retrievers, "build_retriever", recorded)
    retriever = EXPORTED[system](index=linked_index(), backfill=False, types=["person"], batch_size=2, k=3)
    ((name, options),) = given
    kind, values = retriever_class(system)
    expected = keywords(kind) | values | {"backfill": False, "types": ["person"], "batch_size": 2}
    # k comes with each call.
    assert name == system and options == {key: value for key, value in expected.items() if key != "k"}
    assert retriever.k == 3 and (retriever._engine().types, retriever._engine().batch_size) == (("person",), 2)


def test_help_shows_what_the_engine_says():
    text = pydoc.plain(pydoc.render_doc(package.FastInsightRetriever))
    for expected in ("Nodes of the first search and nodes added per round, the paper's BATCH.", "seed_filter", "SIGIR 2026"):
        assert expected in text
    parameters = signature(package.FastInsightRetriever).parameters
    assert parameters["alpha"].default == 0.2 and parameters["k"].default == 10
    assert signature(package.SpreadingActivationRetriever).parameters["k"].default == 30
