"""Hostile input: readers, plans, filters and answers of models give a result or an error of ours, and bounds hold by counts."""

import gzip
import json
import sys
from collections import Counter

import pytest

from graph_retrievers.commands.flags import printable
from graph_retrievers.construction import Links, TitleMentions, build_edges
from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.knowledge import resolve_entities
from graph_retrievers.construction.markdown import read_markdown
from graph_retrievers.construction.sections import split_page
from graph_retrievers.datasets import read_dataset
from graph_retrievers.errors import DatasetError, InvalidPlanError, LanguageModelError, shown
from graph_retrievers.evaluation.run_files import read_run
from graph_retrievers.graph import Node
from graph_retrievers.graph.names import NameTable
from graph_retrievers.graph.words import normal
from graph_retrievers.signals.language import complete_json
from graph_retrievers.stores.cypher.questions import word_runs
from graph_retrievers.systems.mor.parse import read_plan
from tests.hostile import Fuzzer, nested

SCHEMA = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}


@pytest.mark.parametrize("door", Fuzzer.doors())
def test_hostile_input_gives_a_result_or_an_error_of_ours(door, tmp_path):
    fuzzer = Fuzzer(7, tmp_path)
    assert [raw for raw in (fuzzer.ask(door) for _ in range(60)) if raw is not None] == []


def test_a_value_without_a_repr_is_shown_by_its_type():
    assert shown(nested(3000)) == "<list>" and shown(10**5000) == "<int>" and shown("a" * 99, 7) == "'aaa..."


def test_one_hostile_answer_costs_one_group_of_names():
    nodes = [Node(name, f"{name}.", name) for name in ("Ada", "Ada Holm", "Bo", "Bo Lind")]
    good = json.dumps({"groups": [{"canonical": "Ada Holm", "members": ["Ada", "Ada Holm"]}]})
    for bad in (
        "[" * 100_000,
        '{"groups": ' + "[" * 900 + "]" * 900 + "}",
        good.replace("Ada", "\\ud800"),
        "x" * 1_000_001,
        None,
    ):
        answers = {"Bo": bad, "Ada": good}
        merged, _ = resolve_entities(nodes, [], lambda prompt, of=answers: of["Bo" if "- Bo:" in prompt else "Ada"], attempts=1)
        assert [node.id for node in merged] == ["Ada Holm", "Bo", "Bo Lind"]


def test_an_answer_in_a_fence_is_read_and_a_broken_fence_is_not():
    assert complete_json(lambda prompt: '```json \n\n{"a": []}\n  ```', "", SCHEMA) == {"a": []}
    with pytest.raises(LanguageModelError, match="not JSON"):
        complete_json(lambda prompt: "``` \n" + " \n " * 100_000 + "`", "", SCHEMA, attempts=1)


def test_a_page_of_open_elements_keeps_its_text_and_links():
    text = "<i><div>" + "<b>" * 5_000 + "</i>" * 20_000 + "<p>See <a href='x.md'>x</a>.</p>"
    assert [(block.text, block.links) for block in read_html(text).blocks][-1] == ("See x.", ("x.md",))
    whole = read_html("<main>" + "<p>one</p>" * 10_000 + "<a href=b>two</a></main>").blocks
    assert len(whole) == 10_001 and whole[-1].links == ("b",)
    assert read_html(f"<base href='http://x/{'a/' * 2000}'><a href=b>c</a>").blocks[0].links == ("b",)


def test_sections_are_compared_once_for_each_heading_of_a_long_run():
    page = read_markdown("# a\n" * 2_000)
    calls = Counter()
    sys.setprofile(lambda frame, event, arg: calls.update([event]))
    try:
        split_page(page)
    finally:
        sys.setprofile(None)
    assert calls["call"] < 100 * 2_000


def test_accents_are_composed_and_long_runs_of_marks_stay():
    assert normal("e\u0301") == "é" and normal("e\u0301" * 50) == "é" * 50
    assert len(normal("a" + "\u0301\u0316" * 100_000)) >= 200_000


def test_names_of_up_to_64_words_are_found():
    names = [" ".join(["a"] * words + ["b"]) for words in (1, 63, 64)]
    table = NameTable(names)
    assert table.find(f"x {names[1]} y")[0] == (names[1], [1])
    assert table.find(f"x {names[2]} y")[0][1] == [1] and table.rows(names[2]) == [2]


def test_mentions_of_long_titles_and_of_titles_of_many_nodes_are_skipped():
    def found(title, copies):
        nodes = [Node("text", f"See {title} there."), *(Node(str(copy), "", title) for copy in range(copies))]
        return len(build_edges(nodes, TitleMentions()))

    assert found("Zork " * 59 + "Zork!", 1) == 1 and found("Zork " * 60 + "Zork!", 1) == 0
    assert found("Zork Two", 100) == 100 and found("Zork Two", 101) == 0


def test_definitions_of_a_chunk_come_before_those_of_others():
    pages = [Node(name, "", metadata={"source": f"{name}.md"}) for name in ("one", "two")]
    chunks = ["[x]\n\n[x]: one.md", "[x]\n\n[x]: two.md", "[x]"]
    nodes = [Node(str(row), text, metadata={"source": "page.md"}) for row, text in enumerate(chunks)]
    assert build_edges([*nodes, *pages], Links()) == [("0", "one", "links"), ("1", "two", "links"), ("2", "one", "links")]


def write(folder, nodes):
    (folder / "nodes.jsonl.gz").write_bytes(gzip.compress(nodes))
    (folder / "edges.jsonl").write_bytes(b"")
    return folder


def test_rows_that_cannot_be_kept_are_named_by_their_line(tmp_path, monkeypatch):
    for row, said in ((b"[" * 101 + b"]" * 101, "more than 100 levels"), (b'"\\ud800"', "surrogate")):
        with pytest.raises(DatasetError, match=rf"nodes\.jsonl\.gz:1 .*{said}"):
            read_dataset(write(tmp_path, b'{"id": "a", "text": "b", "c": %s}' % row))
    assert read_dataset(write(tmp_path, b'{"id": "a", "text": "%s"}' % (b"[{" * 200))).nodes[0].text == "[{" * 200
    monkeypatch.setattr("graph_retrievers.datasets._SMALL", 1000)
    bomb = b"".join(b'{"id": "%d", "text": "%s"}\n' % (row, b" " * 50_000) for row in range(50))
    with pytest.raises(DatasetError, match="unpacked from too little"):
        read_dataset(write(tmp_path, bomb))
    (tmp_path / "run").write_bytes(gzip.compress(b" " * 5_000_000))
    with pytest.raises(DatasetError, match="unpacked from too little"):
        read_run(tmp_path / "run")
    monkeypatch.setattr("graph_retrievers.datasets._LONGEST_LINE", 100)
    with pytest.raises(DatasetError, match="more than 100 characters"):
        read_dataset(write(tmp_path, b'{"id": "a", "text": "%s"}' % (b"b" * 100)))


def test_a_plan_with_something_else_in_the_place_of_a_name_is_refused():
    for word in (10**5000, nested(3000)):
        with pytest.raises(InvalidPlanError, match="name of a type"):
            read_plan({"Metapath": [["a", word, "b"]]})


def test_spans_of_a_question_are_linear_in_it():
    assert len(word_runs("a " * 100_000)) == len(word_runs("a " * 200)) < 200 * 20


def test_escape_sequences_are_written_as_escapes():
    assert printable("a\x1b[2Jb\r\u202ec\td\n") == "a\\x1b[2Jb\\r\\u202ec\td\n"
