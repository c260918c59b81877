"""Systems as values: equality, texts and mappings, what is refused, and systems of one's own."""

import json
import math
import pickle
import sys
from copy import deepcopy
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import pytest

from graph_retrievers import (
    BM25,
    GAR,
    GRAG,
    PPR,
    FastInsight,
    Fused,
    GraphIndex,
    Hybrid,
    HyDE,
    PathReranking,
    Re2,
    Retriever,
    Vector,
    WalkFusion,
)
from graph_retrievers.arguments import positive
from graph_retrievers.commands.cli import main
from graph_retrievers.core.candidates import Candidates, reached
from graph_retrievers.core.requests import Completion, Nearest, Neighbors
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, MissingSignalError, UnexpectedArgumentError
from graph_retrievers.operators import BM25Search, OperatorKind, Pipeline, VectorSearch
from graph_retrievers.systems import System, every_system, read_system
from graph_retrievers.systems import system as module
from graph_retrievers.systems.system import Count, Fraction
from tests.helpers import linked_index


@pytest.fixture
def registry(monkeypatch):
    """Names of systems that a test defines are forgotten after it."""
    monkeypatch.setattr(module, "SYSTEMS", dict(module.SYSTEMS))
    return module.SYSTEMS


def own(named="mine"):
    @dataclass(frozen=True, kw_only=True, repr=False)
    class Mine(System):
        name = named
        depth: int = 3
        words: tuple[str, ...] = field(default_factory=tuple)

        def compose(self, index):
            return BM25Search(self.depth)

    return Mine


# -- values ------------------------------------------------------------------------------------------------------------


def test_equal_parameters_are_equal_systems():
    system = PPR(damping=0.7)
    assert system == PPR(damping=0.7, seeds=5) != PPR() and hash(system) == hash(PPR(damping=0.7))
    assert replace(system, seeds=2) == PPR(damping=0.7, seeds=2) and system.seeds == 5
    assert pickle.loads(pickle.dumps(system)) == deepcopy(system) == system  # noqa: S301
    assert PPR() != GAR()
    # A text inside is the system that it says, and a list is a tuple.
    assert HyDE(search="ppr") == HyDE(search=PPR()) != HyDE() == HyDE(search="vector")
    assert GRAG(first="ppr") == GRAG(first=PPR()) and PathReranking(first="ppr") == PathReranking(first=PPR())
    assert len({Hybrid(weights=[1, 2]), Hybrid(weights=(1, 2)), WalkFusion(weights=[1, 1, 2]), WalkFusion(weights=(1, 1, 2))}) == 2
    with pytest.raises(FrozenInstanceError):
        system.seeds = 3


@pytest.mark.parametrize("name", list(every_system()))
def test_every_system_is_its_short_name_by_default(name):
    system = every_system()[name]
    assert str(system) == name and read_system(name) == system == read_system({"system": name}) and type(system)() == system
    assert repr(system) == f"{type(system).__name__}()"


TEXTS = [
    (PPR(damping=0.7), "ppr(damping=0.7)"),
    (PPR(seeds=np.int64(3), damping=np.float32(0.5)), "ppr(seeds=3)"),
    (PPR(damping=np.float64(0.25)), "ppr(damping=0.25)"),
    (FastInsight(beta=math.inf), "fastinsight(beta=1e999)"),
    (Hybrid(fusion="rrf", weights=(1, 2)), "hybrid(fusion='rrf', weights=[1, 2])"),
    (HyDE(search=PPR(seeds=2)), "hyde(search='ppr(seeds=2)')"),
    (Fused(PPR(damping=0.7), "bm25", weights=(1, 2)), "fused(systems=['ppr(damping=0.7)', 'bm25'], weights=[1, 2])"),
    (Fused(Fused(Vector(), BM25()), GAR()), "fused(systems=[\"fused(systems=['vector', 'bm25'])\", 'gar'])"),
]


@pytest.mark.parametrize(("system", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_the_text_of_a_system_is_read_as_an_equal_system(system, text):
    assert str(system) == text and str(read_system(text)) == text
    assert read_system(text) == system and hash(read_system(text)) == hash(system)
    index = linked_index()
    assert repr(Retriever(index, text).operator) == repr(Retriever(index, system).operator)


def test_a_number_of_any_length_and_a_path_are_told():
    assert repr(PPR(seeds=10**5000)) == "PPR(seeds=<int>)" and str(PPR(seeds=10**20)) == f"ppr(seeds={10**20})"
    assert str(GRAG(checkpoint=Path("folder"))) == "g-rag(checkpoint='folder')"


def test_a_text_may_have_spaces_and_a_mapping_is_not_changed():
    assert read_system(" ppr( damping = .7,\n seeds=2 ) ") == PPR(damping=0.7, seeds=2)
    given = {"system": "ppr", "damping": 0.7}
    assert read_system(given) == PPR(damping=0.7) and given == json.loads('{"system": "ppr", "damping": 0.7}')


def test_objects_are_not_shown_and_give_no_text_that_is_read_as_another_system():
    class Model:
        def __repr__(self):
            return "Model(key='secret')"

        def complete(self, prompt, schema):
            return "{}"

    for system in (HyDE(language_model=Model()), Re2(first=Pipeline(VectorSearch(3)))):
        assert "..." in repr(system) and "..." in str(system) and "secret" not in repr(system) + str(system)
        assert "secret" not in repr(Retriever(linked_index(), system)), "which is in the results of an evaluation"
        with pytest.raises(InvalidArgumentError):
            Retriever(linked_index(), str(system))


def test_a_value_that_does_not_compare_differs_from_the_default():
    assert str(HyDE(language_model=np.ones(2))) == "hyde(language_model=...)"


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "system"), list(every_system().items()))
def test_a_parameter_that_is_refused_is_named_as_it_was_given(name, system):
    """An operator of the system may know it by another name."""
    index = linked_index()
    for parameter in fields(system):
        if set(parameter.type.split(" | ")) <= {"int", "float", "str", "None"}:
            for value in (0, -1, -0.5, math.nan, "nonsense"):
                try:
                    Retriever(index, replace(system, **{parameter.name: value}))
                except GraphRetrieverError as error:
                    assert parameter.name in str(error) or isinstance(error, MissingSignalError)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PPR(dampin=0.5), "PPR does not take 'dampin'; it takes damping, .*Did you mean 'damping'?"),
        (lambda: PPR(0.5), r"PPR takes its parameters by name, such as PPR\(seeds=\.\.\.\), and no index; got 0.5"),
        (lambda: Vector(linked_index()), r"Run it on an index with Retriever\(index, Vector\(\)\)"),
        (lambda: PPR(seeds="5"), "seeds is '5'; expected int"),
        (lambda: FastInsight(paths="yes"), "paths is 'yes'; expected bool"),
        (lambda: read_system("pppr"), "Unknown system 'pppr'; choose from 'vector', 'bm25'"),
        (lambda: read_system("ppr(damping=0.7"), "cannot be read as a system"),
        (lambda: read_system("ppr(0.7)"), "it is not a call with named parameters"),
        (lambda: read_system("ppr(**{'damping': 1})"), "it is not a call with named parameters"),
        (lambda: read_system("ppr(damping=open('x'))"), "cannot be read as a system"),
        (lambda: read_system("ppr(damping=0.7) or print(1)"), "cannot be read as a system"),
        (lambda: read_system("ppr(damping=0.7)(seeds=3)"), "it is not a call with named parameters"),
        (lambda: read_system("ppr().replace(seeds=3)"), "it is not a call with named parameters"),
        (lambda: read_system("ppr(seeds=3, damping=0.7, seeds=4)"), "seeds is given twice"),
        (lambda: read_system("ppr(seeds={[]: 1})"), r"\(the value of seeds is not plain\)"),
        (lambda: read_system("ppr(seeds=__import__('os').getpid())"), r"\(the value of seeds is not plain\)"),
        (lambda: read_system("ppr(seeds=" + "-" * 100_000 + "1)"), r"\(it is nested too deeply\)"),
        (lambda: read_system("ppr(cls=1)"), "PPR does not take 'cls'"),
        (lambda: read_system("vector(k=1)"), "Vector does not take 'k'; it takes nothing"),
        (lambda: read_system("fused(self=1)"), "Fused does not take 'self'"),
        (lambda: read_system({"system": "ppr", 3: 4}), "The mapping of a system has the key 3; expected names of parameters"),
        (lambda: read_system("WalkFusion()"), "Unknown system 'WalkFusion'; .* Did you mean 'walk-fusion'?"),
        (lambda: read_system("my_module:beam"), "One of your own is known once its module is imported; .* MODULE:NAME"),
        (lambda: read_system({"damping": 0.7}), "Unknown system None"),
        (lambda: read_system(3), r"Expected a system, such as PPR\(\) or 'ppr\(damping=0\.7\)', got 3"),
        (lambda: read_system("ppr(" + "(" * 100_000), "cannot be read as a system"),
        (lambda: Retriever(linked_index(), PPR), "call it: PPR"),
        (lambda: Retriever(linked_index(), PPR(), damping=0.7), r"'damping' is a parameter of the system: .*PPR\(damping=\.\.\.\)"),
        (lambda: Retriever(linked_index(), PPR(), kk=3), "Retriever does not take 'kk'"),
        (lambda: Retriever(linked_index(), 5), "Expected a system or an Operator"),
    ],
)
def test_what_is_no_system_is_refused_with_what_was_meant(make, words):
    with pytest.raises((InvalidArgumentError, UnexpectedArgumentError), match=words):
        make()


# -- your own ----------------------------------------------------------------------------------------------------------


def test_a_system_of_ones_own_is_known_by_its_name(registry):
    kind = own()
    assert registry["mine"] is kind and read_system("mine(depth=1)") == kind(depth=1) and every_system()["mine"] == kind()
    worded = kind(words=("a",))
    assert (repr(kind()), repr(worded), str(worded)) == ("Mine()", "Mine(words=('a',))", "mine(words=['a'])")
    assert len(Retriever(linked_index(), "mine(depth=1)", backfill=False).retrieve("loom")) == 1
    # As when the cell of a notebook runs again.
    assert own() is registry["mine"] is not kind
    with pytest.raises(InvalidArgumentError, match="The name 'ppr' is that of the system PPR; choose another name"):
        own("ppr")
    assert registry["ppr"] is PPR


def test_a_part_takes_the_parameters_of_the_same_names_unless_it_is_given_others(registry):
    @dataclass(frozen=True, kw_only=True, repr=False)
    class Parted(System):
        name = "parted"
        k: int = 7
        signal: str = "words"
        depth: int = 2

        def compose(self, index):
            return self.part(BM25Search)

    system = Parted(k=3)
    assert (system.part(BM25Search).k, system.part(BM25Search).signal) == (3, "words")
    assert (system.part(BM25Search, k=5).k, system.part(BM25Search, k=5).signal) == (5, "words")


def neighbors_of(kind=OperatorKind.GRAPH_SEARCH, **attributes):
    """A system whose own algorithm returns the neighbours of what was found, as often as a language model says."""

    def algorithm(self, question, candidates):
        for _ in range(self.steps):
            near = yield Neighbors(candidates.nodes)
            candidates = reached(candidates, near.owner, near.node, np.ones(len(near.node)), self.name)
        if self.language_model is not None:
            candidates = candidates.top((yield Completion(self.language_model, question.text, {"type": "integer"})))
        return candidates

    fields = {"language_model": Any, "steps": Count, "share": Fraction, "most": Annotated[int, partial(positive, most=3)] | None}
    defaults = {"language_model": None, "steps": 1, "share": 0.5, "most": None}
    body = {"__annotations__": fields, **defaults, "name": "neighbors", "kind": kind, "algorithm": algorithm, **attributes}
    return dataclass(frozen=True, kw_only=True, repr=False)(type("Neighbours", (System,), body))


def test_an_algorithm_takes_several_questions_as_one_if_its_own_class_says_so(registry):
    def derived(name, *bases, **attributes):
        body = {"__annotations__": {}, "name": name, **attributes}
        return dataclass(frozen=True, kw_only=True, repr=False)(type(name, bases, body))

    class Same:
        def algorithm(self, question, candidates):
            return candidates

    assert not neighbors_of()().operator().batched
    batched = neighbors_of(batched=True)
    others = {
        **{"named": derived("named", batched), "changed": derived("changed", batched, algorithm=Same.algorithm)},
        **{"mixed": derived("mixed", Same, batched), "told": derived("told", batched, algorithm=Same.algorithm, batched=True)},
    }
    assert [name for name, kind in others.items() if Pipeline(VectorSearch(1), kind().operator()).batched] == ["named", "told"]


def test_an_algorithm_of_a_system_is_its_only_step_or_one_of_a_composition(registry):
    index = GraphIndex.from_texts(["a loom", "b", "c"], edges=[("0", "1"), ("1", "2")])
    made = neighbors_of()
    assert Retriever(index, made(), backfill=False).operator.formula() == "O_gs" and repr(made(steps=2).operator()) == (
        "Neighbours(steps=2)"
    )
    for steps, expected in ((1, ["1"]), (2, ["0", "2"])):
        search = Retriever(index, Pipeline(BM25Search(1), made(steps=steps).operator()), backfill=False)
        hits = search.retrieve("loom")
        assert [hit.id for hit in hits] == expected and {hit.operator for hit in hits} == {"neighbors"}
    # A batch asks the language model at once, with one object for all questions.
    prompts = []
    model = lambda prompt: prompts.append(prompt) or "1"  # noqa: E731
    search = Retriever(index, Pipeline(BM25Search(1), made(steps=2, language_model=model).operator()), backfill=False)
    hits = search.retrieve_batch(["loom", "the loom"])
    assert [[hit.id for hit in part] for part in hits] == [["0"], ["0"]] and len(prompts) == 2
    assert [call.questions for call in hits[0].trace if call.request is Completion] == [2]
    with pytest.raises(InvalidArgumentError, match="3 is not a language model"):
        made(language_model=3).operator()


def test_what_an_algorithm_of_a_system_needs_is_told(registry):
    index = GraphIndex.from_texts(["a loom"], vectors=[[1.0]])
    needing = neighbors_of(needs_language_model=True, asks_relevance=True)
    assert Retriever(index, needing()).lacks() == ("a relevance model (pass relevance=)", "a language model (pass language_model=)")
    assert Retriever(index, needing(language_model=lambda prompt: "1")).lacks() == ("a relevance model (pass relevance=)",)
    assert Retriever(index, neighbors_of()()).lacks() == ()


def test_a_system_without_steps_or_with_an_algorithm_of_no_kind_is_refused(registry):
    index = GraphIndex.from_texts(["a loom"])
    for kind in (None, "O_gs"):
        with pytest.raises(InvalidArgumentError, match=f"Neighbours has the kind {kind!r}; set kind = OperatorKind"):
            Retriever(index, neighbors_of(kind)())
    empty = neighbors_of(algorithm=System.algorithm)
    with pytest.raises(InvalidArgumentError, match=r"Neighbours has neither compose\(\) nor algorithm\(\); write one of them"):
        Retriever(index, empty())


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"steps": 0}, "steps must be an integer of at least 1, got 0"),
        ({"share": 1.5}, r"share must lie in \[0, 1\], got 1.5"),
        ({"most": 4}, "most must be at most 3, got 4"),
        ({"steps": None}, "steps is None; expected int"),
    ],
)
def test_a_field_is_checked_as_its_type_says(registry, settings, told):
    made = neighbors_of()
    with pytest.raises(InvalidArgumentError, match=told):
        made(**settings)
    with pytest.raises(InvalidArgumentError, match=told):
        replace(made(), **settings)
    assert made(steps=np.int64(2), share=1, most=None) == made(steps=2, share=1.0)


def test_all_checks_in_a_type_apply_and_nothing_else_in_it_does(registry):
    def even(name, value):
        if value % 2:
            raise InvalidArgumentError(f"{name} must be even, got {value}")

    @dataclass(frozen=True, kw_only=True, repr=False)
    class Even(System):
        name = "even"
        both: Annotated[Count, even] = 2
        documented: Annotated[int, "how many", even] = 2
        several: tuple[Count, ...] = (1, 2)

    for name in ("both", "documented"):
        with pytest.raises(InvalidArgumentError, match=f"{name} must be even, got 3"):
            Even(**{name: 3})
    with pytest.raises(InvalidArgumentError, match="both must be an integer of at least 1, got 0"):
        Even(both=0)
    assert Even(several=(3, 4)).several == (3, 4)


def test_fields_of_other_types_are_checked_beside_one_that_cannot_be_resolved(registry):
    made = neighbors_of(__annotations__={"steps": "Count", "facts": "bool", "model": "NoSuch"}, facts=False, model=None)
    for settings, told in (({"steps": 0}, "steps must be an integer"), ({"facts": "yes"}, "facts is 'yes'; expected bool")):
        with pytest.raises(InvalidArgumentError, match=told):
            made(**settings)
    assert made(model=3).model == 3
    unread = neighbors_of(__annotations__={"steps": "Annotated[int, no_such]"})
    with pytest.raises(InvalidArgumentError, match="check in the type of steps, Annotated.*'no_such' is not defined.*; define the"):
        unread()


def test_a_field_of_another_module_is_checked(registry, monkeypatch):
    """Where names in its type, here Any, are not those of the module of the subclass."""
    other = ModuleType("other_module")
    monkeypatch.setitem(sys.modules, "other_module", other)
    exec(
        "from dataclasses import dataclass\n"
        "from graph_retrievers import HyKGE\n"
        "@dataclass(frozen=True, kw_only=True, repr=False)\n"
        "class Derived(HyKGE):\n"
        "    name = 'derived'\n",
        vars(other),
    )
    with pytest.raises(InvalidArgumentError, match="facts is 'yes'; expected bool"):
        other.Derived(facts="yes")


def test_an_algorithm_reads_numbers_as_their_checks_return_them(registry):
    read = []

    def algorithm(self, question, candidates):
        read.append((type(self.steps), self.steps, type(self.share)))
        return candidates

    index, made = GraphIndex.from_texts(["a loom"]), neighbors_of(algorithm=algorithm)
    for steps in (np.int8(3), 10**5000):
        Retriever(index, made(steps=steps, share=np.float16(0.5))).retrieve("loom")
    assert read == [(int, 3, float), (int, 1 << 62, float)]


def test_a_system_may_have_slots(registry):
    def algorithm(self, question, candidates):
        assert type(self.most) is int
        nodes, scores = yield Nearest(self.most, "bm25")
        return Candidates.seeds(nodes, scores, self.name)

    body = {"name": "slots", "kind": OperatorKind.VECTOR_SEARCH, "algorithm": algorithm}
    plain = type("Slots", (System,), {"__annotations__": {"most": Count}, "most": 3, **body})
    made = dataclass(frozen=True, kw_only=True, repr=False, slots=True)(plain)
    hits = Retriever(linked_index(), made(most=np.int8(2)), backfill=False).retrieve("loom engine machine")
    assert len(hits) == 2 and made() == read_system("slots(most=3)")


@pytest.mark.parametrize("named", ["operator", "part", "returned_types"])
def test_a_field_that_hides_a_method_is_refused(registry, named):
    made = neighbors_of(**{"__annotations__": {named: "int"}, named: 3})
    with pytest.raises(
        InvalidArgumentError, match=f"Neighbours has the field '{named}', which is a method of every system; choose"
    ):
        made()


def test_a_subclass_changes_a_default_with_its_type(registry):
    def derived(**body):
        body |= {"name": "derived"}
        return dataclass(frozen=True, kw_only=True, repr=False)(type("Derived", (neighbors_of(),), body))

    assert derived(__annotations__={"steps": Count}, steps=4)().steps == 4
    with pytest.raises(InvalidArgumentError, match="steps without a type, so that it changes no default; write steps: ... = 4"):
        derived(steps=4)()


def test_a_system_that_needs_a_parameter_is_not_among_those_by_default(registry):
    @dataclass(frozen=True, kw_only=True, repr=False)
    class Needs(System):
        name = "needs"
        depth: int

        def compose(self, index):
            return BM25Search(self.depth)

    assert "needs" not in every_system() and read_system("needs(depth=2)") == Needs(depth=2)
    assert repr(Needs(depth=2)) == "Needs(depth=2)"
    with pytest.raises(InvalidArgumentError, match=r"'needs' needs depth; pass it, such as 'needs\(depth=\.\.\.\)'"):
        read_system("needs")


def test_a_system_without_the_decorator_is_refused(registry):
    class Bare(System):
        name = "bare"

        def compose(self, index):
            return BM25Search()

    with pytest.raises(InvalidArgumentError, match="Bare is not a dataclass; write @dataclass"):
        Bare()


def test_a_system_without_a_short_name_is_refused():
    @dataclass(frozen=True, kw_only=True, repr=False)
    class Nameless(System):
        def compose(self, index):
            return BM25Search()

    # The text of a derived system would otherwise be read as the other.
    @dataclass(frozen=True, kw_only=True, repr=False)
    class Derived(PPR):
        seeds: Count = 2

    for kind in (Nameless, Derived):
        with pytest.raises(InvalidArgumentError, match=f'{kind.__name__} has no short name; write name = "my-system"'):
            kind()


@pytest.mark.parametrize("named", [None, 3, "", "a b", "mine(", "module:mine"])
def test_a_name_that_no_text_could_have_is_refused(registry, named):
    with pytest.raises(
        InvalidArgumentError, match="Mine has the name .*; expected letters, digits and hyphens, such as 'my-system'"
    ):
        own(named)
    assert named not in registry


def test_the_command_line_imports_a_system_of_ones_own(tmp_path, monkeypatch, capsys, registry):
    (tmp_path / "my_systems.py").write_text(
        "from dataclasses import dataclass\n"
        "from graph_retrievers import System\n"
        "from graph_retrievers.operators import BM25Search\n"
        "@dataclass(frozen=True, kw_only=True, repr=False)\n"
        "class Words(System):\n"
        "    name = 'words'\n"
        "    depth: int = 5\n"
        "    def compose(self, index):\n"
        "        return BM25Search(self.depth)\n"
    )
    monkeypatch.chdir(tmp_path)
    GraphIndex.from_texts(["a loom", "a card"]).save("index")
    assert main(["search", "index", "Which card?", "--retriever", "my_systems:words(depth=1)", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["retriever"] == "my_systems:words(depth=1)" and found["hits"][0]["text"] == "a card"
    (tmp_path / "my_other.py").write_text("import no_such")
    missing = "no module {!r} is in the working directory or installed; to name the file my_module.py, write my_module"
    refused = {
        name + ":words": missing.format(name)
        for name in ("no_such", "no_such.one", "./my_systems", "my_systems.py", "my systems", "..x")
    }
    refused |= {"my_other:words": "No module named 'no_such'", "my_systems:word": "Unknown system 'word'", ":x": ""}
    for wrong, words in refused.items():
        places = list(sys.path)
        assert main(["search", "index", "Which card?", "--retriever", wrong]) == 2
        assert words in capsys.readouterr().err and sys.path == places
