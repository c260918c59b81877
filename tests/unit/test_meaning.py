"""Meaning graphs and their parsers: what concepts a text has, what is read from AMRs, and that each text is parsed once."""

import logging
import sqlite3
import subprocess
import sys

import pytest

from graph_retrievers.errors import CorruptIndexError, InvalidArgumentError, MissingDependencyError

# -- graphs -----------------------------------------------------------------------------------------------------------
from graph_retrievers.signals import meaning_cache
from graph_retrievers.signals.concept_parser import ConceptParser
from graph_retrievers.signals.meaning import MeaningGraph, MeaningParser
from graph_retrievers.signals.meaning_cache import MeaningCache, as_meaning_parser
from graph_retrievers.signals.meaning_parsers import AmrlibParser, PenmanParser, penman_graph
from tests.helpers import tiny_seq2seq


def test_relations_of_nodes_that_do_not_exist_are_left_out():
    graph = MeaningGraph.of(["a", "b"], [(0, "r", 1), (0, "r", 2), (-1, "r", 0), [1, "self", 1]])
    assert graph.relations == ((0, "r", 1), (1, "self", 1))
    assert graph.labelled_relations() == (("a", "r", "b"), ("b", "self", "b"))
    for wrong in ([(0, "r")], [("a", "r", 1)], [3], [(0, "r", float("inf"))], [(0.5, "r", 0)]):
        with pytest.raises(InvalidArgumentError, match="A relation is"):
            MeaningGraph.of(["a"], wrong)
    for wrong in (("loom", []), (None, []), (["a"], None)):
        with pytest.raises(InvalidArgumentError, match="must be a list"):
            MeaningGraph.of(*wrong)


# -- the concept parser -----------------------------------------------------------------------------------------------


def parsed(text):
    return ConceptParser(1).parse([text])[0]


def test_subjects_verbs_objects_and_prepositions():
    graph = parsed("The old weaver bought cards in Lyon and was a rich man.")
    assert graph.labelled_relations() == (
        ("weaver", "mod", "old"),
        ("weaver", "ARG0-of", "buy"),
        ("buy", "ARG1", "card"),
        ("card", "in", "lyon"),
        ("man", "mod", "rich"),
        ("lyon", "be", "man"),
    )


def test_lemmas_are_shared_names_are_kept_and_auxiliaries_left_out():
    graph = parsed("Jacquard's looms have been sold. A loom is sold by James Jones.")
    assert {"loom", "sell", "jacquard", "james", "jones"} <= set(graph.concepts)
    assert not {"have", "be", "is", "been", "looms", "sold"} & set(graph.concepts)
    assert graph.concepts.count("loom") == 1


def test_relations_stay_inside_sentences_and_lines():
    graph = parsed("Ada wrote programs. Babbage designed engines.\nWeavers sing.")
    ends = {(s, t) for s, _, t in graph.labelled_relations()}
    assert ("program", "babbage") not in ends and ("engine", "weaver") not in ends
    assert ("ada", "write") in ends and ("babbage", "design") in ends


def test_a_question_has_the_concept_question_first_and_it_leads_to_the_others():
    graph = parsed("question: Who is the director of Jaws?")
    assert graph.concepts[0] == "question"
    assert graph.relations[0][0] == 0


@pytest.mark.parametrize(
    "text", ["", "   ", "\n\n", "?!.,", "12/13/2014 and/or", "a" * 5000, "漢字 かな", "\ud800 torn", "<b>x</b> \x00"]
)
def test_odd_texts_are_parsed_too(text):
    graph = parsed(text)
    assert all(graph.concepts) and all(0 <= s < len(graph.concepts) > t for s, _, t in graph.relations)


@pytest.mark.process
def test_processes_give_what_one_gives():
    texts = [f"The weaver number {n} bought {n} cards." for n in range(2100)]
    assert ConceptParser(2).parse(texts) == ConceptParser(1).parse(texts)
    for workers in (0, -2, 1.5, True):
        with pytest.raises(InvalidArgumentError, match="workers"):
            ConceptParser(workers)


@pytest.mark.process
def test_a_script_without_a_main_guard_may_parse_many_texts(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from graph_retrievers.signals.concept_parser import ConceptParser\n"
        "print(len(ConceptParser(2).parse([f'text {n}' for n in range(2001)])))\n"
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout == "2001\n"


# -- abstract meaning representations ---------------------------------------------------------------------------------

WANTS = """
# ::id 1
# ::snt The boy does not want Ada to go.
(w / want-01
   :polarity -
   :ARG0 (b / boy)
   :ARG1 (g / go-02
            :ARG0 (p / person
                     :name (n / name :op1 "Ada"))
            :ARG1-of (k / know-01 :ARG0 b)))
"""


def test_an_amr_in_penman_notation():
    graph = penman_graph(WANTS)
    assert graph.concepts == ("want-01", "boy", "go-02", "person", "name", "know-01", "-", "Ada")
    assert set(graph.labelled_relations()) == {
        ("want-01", "ARG0", "boy"),
        ("want-01", "ARG1", "go-02"),
        ("go-02", "ARG0", "person"),
        ("person", "name", "name"),
        ("know-01", "ARG1", "go-02"),
        ("know-01", "ARG0", "boy"),
        ("want-01", "polarity", "-"),
        ("name", "op1", "Ada"),
    }
    real = penman_graph("(t / team :consist-of (m / monkey) :ARG0-of (p / play-01))")
    assert set(real.labelled_relations()) == {("team", "consist-of", "monkey"), ("play-01", "ARG0", "team")}
    for wrong in ("(w / want-01", "no graph", "(" * 3000, None, 5):
        with pytest.raises(InvalidArgumentError, match="PENMAN"):
            penman_graph(wrong)


def test_texts_that_were_parsed_before(tmp_path):
    file = tmp_path / "corpus.amr"
    file.write_text(WANTS + "\n# ::snt Cards.\n(c / card)\n", encoding="utf-8")
    parser = PenmanParser(file)
    found = parser.parse(["Cards.", "The boy does not want Ada to go.", "Something else."])
    assert found[0].concepts == ("card",) and found[1] == penman_graph(WANTS) and found[2] == MeaningGraph()
    assert PenmanParser({"a": "(c / card)", "b": "(broken"}).parse(["a", "b"]) == [MeaningGraph(("card",)), MeaningGraph()]
    assert parser.name == "penman" and PenmanParser({}, "spring").name == "spring"
    empty = tmp_path / "empty.amr"
    empty.write_text("(c / card)\n")
    with pytest.raises(InvalidArgumentError, match="# ::snt"):
        PenmanParser(empty)
    for wrong in (tmp_path / "none.amr", tmp_path):
        with pytest.raises(InvalidArgumentError, match="cannot be read"):
            PenmanParser(wrong)
    for wrong in (5, None, ["(c / card)"], {"a": 5}, {5: "(c / card)"}):
        with pytest.raises(InvalidArgumentError, match="expected strings|Expected AMRs"):
            PenmanParser(wrong)


def test_an_amr_that_is_broken_does_not_spoil_the_others(tmp_path):
    file = tmp_path / "corpus.amr"
    deep = "(a / a " + ":op1 (a / a " * 5000
    blocks = [
        "# ::snt one\n(o / one)",
        "# ::snt torn\n(b / b :ARG0",
        f"# ::snt deep\n{deep}",
        "# ::snt two\n(t / two)",
        "# ::snt one\n(x / x)",
        "# ::id 3 ::snt tabs and ids ::date today\n(i / id)",
        "# ::snt\tlast\n(l / last :polarity )",
    ]
    file.write_text("\ufeff" + "\n\n".join(blocks), encoding="utf-8")
    found = PenmanParser(file).parse(["one", "torn", "deep", " two ", "tabs and ids", "last"])
    assert [graph.concepts for graph in found] == [("one",), (), (), ("two",), ("id",), ("last",)]


def test_a_question_that_was_parsed_alone_gets_the_node_that_paths_start_at():
    parser = PenmanParser({"Who writes?": "(w / write-01 :ARG0 (a / amr-unknown))", "question: Who reads?": "(q / question)"})
    asked, whole, text = parser.parse(["question: Who  writes?", "question: Who reads?", "Who writes?"])
    assert asked.labelled_relations() == (("question", "topic", "write-01"), ("write-01", "ARG0", "amr-unknown"))
    assert whole.concepts == ("question",) and text.concepts == ("write-01", "amr-unknown")


def test_a_model_of_amrlib():
    """A real parser of amrlib on a small model that knows nothing: its answers are not AMRs, so its graphs are empty."""
    from amrlib.models.parse_xfm import inference

    model, tokenizer = tiny_seq2seq()
    parser = AmrlibParser(
        inference.Inference(
            model=model, tokenizer=tokenizer, config={"max_in_len": 16, "max_out_len": 16}, device="cpu", num_beams=1
        )
    )
    found = parser.parse(["a loom", "a card"])
    assert len(found) == 2 and all(isinstance(graph, MeaningGraph) for graph in found)


def test_what_a_model_answers_is_read():
    class Model:
        def parse_sents(self, texts, add_metadata=True):
            assert not add_metadata
            return ["(c / card)", None, "torn ("][: len(texts)]

    parser = AmrlibParser(Model(), "small")
    assert parser.name == "small"
    assert parser.parse(["a", "b", "c"]) == [MeaningGraph(("card",)), MeaningGraph(), MeaningGraph()]
    for wrong in (object(), Model, "folder"):
        with pytest.raises(InvalidArgumentError, match="load_stog_model"):
            AmrlibParser(wrong)


# -- the interface and the cache --------------------------------------------------------------------------------------


def test_what_is_a_parser():
    assert isinstance(as_meaning_parser(None), ConceptParser)
    assert isinstance(ConceptParser(), MeaningParser)
    for wrong in (ConceptParser, 3, "concepts", object()):
        with pytest.raises(InvalidArgumentError):
            as_meaning_parser(wrong)


class Recorder:
    name = "recorder"

    def __init__(self):
        self.seen = []

    def parse(self, texts):
        self.seen.append(list(texts))
        return [MeaningGraph.of([text], [(0, "r", 0)]) for text in texts]


def test_each_text_is_parsed_once(tmp_path):
    parser = Recorder()
    cache = MeaningCache(parser)
    assert [graph.concepts[0] for graph in cache.parse(["b", "a", "b"])] == ["b", "a", "b"]
    cache.parse(["a", "c"])
    assert parser.seen == [["b", "a"], ["c"]]
    kept = MeaningCache(Recorder(), tmp_path / "deep" / "graphs.sqlite")
    first = kept.parse(["a", "\ud800"])
    again = Recorder()
    assert MeaningCache(again, tmp_path / "deep" / "graphs.sqlite").parse(["a", "\ud800"]) == first
    assert again.seen == []
    other = Recorder()
    other.name = "other"
    MeaningCache(other, tmp_path / "deep" / "graphs.sqlite").parse(["a"])
    assert other.seen == [["a"]], "graphs of another parser"


def test_what_fails_is_empty_with_a_warning_and_tried_again(caplog):
    tries = []

    def parser(text):
        tries.append(text)
        if text == "bad" and tries.count("bad") < 4:
            raise RuntimeError("cannot")
        return MeaningGraph.of([text], [])

    cache = MeaningCache(parser)
    with caplog.at_level(logging.WARNING):
        assert [graph.concepts for graph in cache.parse(["good", "bad"])] == [("good",), ()]
    assert "failed on 'bad': cannot" in caplog.text
    cache.parse(["bad"])
    assert cache.parse(["bad"])[0].concepts == ("bad",)


def test_a_parser_that_gives_something_else_is_an_error():
    class Short(Recorder):
        def parse(self, texts):
            return []

    with pytest.raises(InvalidArgumentError, match="expected 1 MeaningGraph"):
        MeaningCache(Short()).parse(["a"])
    for wrong in (lambda text: text.split(), lambda text: None):
        with pytest.raises(InvalidArgumentError, match="expected 1 MeaningGraph"):
            MeaningCache(wrong).parse(["a"])
    for relations in (((0, "x", 7),), ((0, "x", -1),), (5,), ((0, 3, 0),)):
        with pytest.raises(InvalidArgumentError, match="is not valid"):
            MeaningCache(lambda text, r=relations: MeaningGraph(("a",), r)).parse(["a"])

    def one_by_one(self, texts):
        for text in texts:
            if text == "bad":
                raise KeyError(text)
            yield MeaningGraph((text,))

    Short.parse = one_by_one
    assert MeaningCache(Short()).parse(["a", "bad"]) == [MeaningGraph(("a",)), MeaningGraph()]
    for graph in (MeaningGraph("abc"), MeaningGraph(("a", "b"), ((0.0, "r", 1.0),))):
        with pytest.raises(InvalidArgumentError, match="is not valid"):
            MeaningCache(lambda text, g=graph: g).parse(["a"])
    Short.parse = lambda self, texts: None
    with pytest.raises(InvalidArgumentError, match="gave None"):
        MeaningCache(Short()).parse(["a"])


def test_a_file_that_is_something_else(tmp_path, monkeypatch):
    file = tmp_path / "graphs.sqlite"
    file.write_bytes(b"not a database" * 100)
    with pytest.raises(CorruptIndexError, match="not a cache of meaning graphs"):
        MeaningCache(Recorder(), file)
    kept = tmp_path / "kept.sqlite"
    MeaningCache(Recorder(), kept).parse(["a"])
    with sqlite3.connect(kept) as database:
        database.execute("UPDATE graphs SET graph = '[3]'")
    with pytest.raises(CorruptIndexError, match="not a cache of meaning graphs"):
        MeaningCache(Recorder(), kept).parse(["a"])
    for function in (lambda text: MeaningGraph(), MeaningCache(penman_graph)):
        with pytest.raises(InvalidArgumentError, match="is a function"):
            MeaningCache(function, tmp_path / "new.sqlite")
    for wrong in ("", ":memory:", 5, tmp_path, file / "below"):
        with pytest.raises(InvalidArgumentError):
            MeaningCache(Recorder(), wrong)
    # In use elsewhere, a file is not called corrupt.
    whole = tmp_path / "whole.sqlite"
    cache = MeaningCache(Recorder(), whole)
    other = sqlite3.connect(whole, timeout=0)
    other.execute("BEGIN EXCLUSIVE")
    with monkeypatch.context() as patch:
        connect = sqlite3.connect
        patch.setattr(sqlite3, "connect", lambda name: connect(name, timeout=0))
        with pytest.raises(InvalidArgumentError, match="locked"):
            cache.parse(["a"])
        other.execute("ROLLBACK")
        other.execute("BEGIN")
        other.execute("SELECT * FROM graphs").fetchall()
        with pytest.raises(InvalidArgumentError, match="locked"):
            cache.parse(["b"])
    other.close()
    with sqlite3.connect(tmp_path / "theirs.sqlite") as theirs:
        theirs.execute("CREATE TABLE graphs (name TEXT)")
    with pytest.raises(CorruptIndexError):
        MeaningCache(Recorder(), tmp_path / "theirs.sqlite").parse(["a"])


def test_empty_graphs_are_not_written_to_the_file(tmp_path):
    class Later(Recorder):
        found = MeaningGraph()

        def parse(self, texts):
            self.seen.append(list(texts))
            return [self.found] * len(texts)

    parser = Later()
    cache = MeaningCache(parser, tmp_path / "graphs.sqlite")
    assert cache.parse(["a"]) == cache.parse(["a"]) == [MeaningGraph()] and len(parser.seen) == 1
    parser.found = MeaningGraph(("a",))
    assert MeaningCache(parser, tmp_path / "graphs.sqlite").parse(["a"]) == [MeaningGraph(("a",))]


def test_a_missing_package_is_told(monkeypatch):
    from graph_retrievers.signals import concept_parser

    concept_parser._tools.cache_clear()
    monkeypatch.setitem(sys.modules, "simplemma", None)
    with pytest.raises(ModuleNotFoundError):
        MeaningCache(lambda text: __import__("a_package_that_nobody_has")).parse(["a"])
    try:
        with pytest.raises(MissingDependencyError, match=r"graph-retrievers\[meaning\]"):
            MeaningCache().parse(["a loom"])
    finally:
        concept_parser._tools.cache_clear()


def test_progress_is_shown_on_wish(capsys):
    cache = MeaningCache(Recorder())
    cache.parse(["a"])
    assert capsys.readouterr().err == ""
    cache.parse(["a", "b"], show_progress=True)
    assert "parsing" in capsys.readouterr().err


def test_the_cache_of_graphs_forgets_the_oldest(monkeypatch):
    monkeypatch.setattr(meaning_cache, "_IN_MEMORY", 4)
    asked = []
    cache = MeaningCache(lambda text: asked.append(text) or MeaningGraph((text,)))
    for text in "abcabcd":
        cache.parse([text])
    assert asked == list("abcd"), "four are kept"
    cache.parse(["e"])
    cache.parse(["b", "a"])
    assert asked == list("abcdea")


def test_many_texts_are_parsed_in_parts(monkeypatch):
    monkeypatch.setattr(meaning_cache, "_AT_A_TIME", 3)
    parts = []

    class Parser:
        name = "parts"

        def parse(self, texts):
            parts.append(len(texts))
            return [MeaningGraph((text,)) for text in texts]

    found = MeaningCache(Parser()).parse(list("abcdefgh"))
    assert parts == [3, 3, 2] and [graph.concepts[0] for graph in found] == list("abcdefgh")


def test_details_of_concepts():
    def relations(text):
        return ConceptParser(1).parse([text])[0].labelled_relations()

    assert relations("The loom in the loom.") == ()
    assert relations("The engine has power.") == (("engine", "next", "power"),)
    assert ConceptParser(1).parse(["He runs/walks and 3/4 of it."])[0].concepts == ("runs/walks", "3/4")
    assert ("loom", "and", "buy") not in relations("A loom. Buy it.")
    roles = {role for _, role, _ in relations("The mill burned but the weaver left, and 3 or 4 looms stayed.")}
    assert "but" not in roles and "or" not in roles


def test_a_graph_that_is_nested_too_deep_is_not_read():
    from graph_retrievers.signals.meaning_parsers import penman_graph

    with pytest.raises(InvalidArgumentError, match="PENMAN"):
        penman_graph("(a / a " + ":op1 (a / a " * sys.getrecursionlimit() * 2)
