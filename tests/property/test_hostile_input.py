"""Hostile input: readers, plans, filters and answers of models give a result or an error of ours, and bounds hold by counts."""

import gzip
import json
import random

import pytest

from graph_retrievers import GraphIndex
from graph_retrievers.commands.flags import printable
from graph_retrievers.construction import Links, TitleMentions, build_edges
from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.knowledge import KnowledgeGraphBuilder
from graph_retrievers.construction.markdown import read_markdown
from graph_retrievers.construction.sections import split_page
from graph_retrievers.datasets import read_dataset
from graph_retrievers.errors import DatasetError, GraphRetrieverError, InvalidPlanError, LanguageModelError, shown
from graph_retrievers.evaluation.run_files import read_run
from graph_retrievers.graph import Node
from graph_retrievers.graph.addresses import AddressBook
from graph_retrievers.graph.filters import filter_mask
from graph_retrievers.graph.names import NameTable, composed
from graph_retrievers.operators.mor.parse import read_plan
from graph_retrievers.signals.language import complete_json
from graph_retrievers.stores.cypher.questions import word_runs


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


ODD = [None, True, -1, 2**63, 10**5000, 1.5, float("nan"), float("inf"), "", "a", "\ud800", "\x1b[31m", "$x$", "x" * 500]
ODD += [b"a", [], ["a"], [None], (), {}, {"a": 1}, {"$gt": "b"}, {"$in": 3}, {1, 2}, 1j, object(), nested(50), nested(3000)]
PIECES = (
    "<b> </b> <p> <a href='http://[x'> <!-- --> [a](b) [a]: ``` - 1. > &#x110000; \0 \ud800 \u0301 <title> <main> *** $ \n".split(
        " "
    )
)
PIECES += '\n { } [ ] " \' : , null 1e999 NaN \\ud800 {"a": true -> <- Metapath Restriction paths type person 0xfff'.split(" ")
SCHEMA = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}
INDEX = GraphIndex.from_nodes([Node("a", "a loom", metadata={"year": 1801, "tags": ["x", 1]}), Node("b", "a card")], [("a", "b")])


def soup(rng, most=30):
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(most)))


def condition(rng, level=0):
    if level < 4 and rng.random() < 0.4:
        return {rng.choice(["$and", "$or", "$not"]): rng.choice([[condition(rng, level + 1)], condition(rng, level + 1)])}
    operator = {rng.choice(["$eq", "$gt", "$lte", "$in", "$nin", "$contains", "$exists", "$x"]): rng.choice(ODD)}
    return {rng.choice(["year", "tags", "$id", "$title", "", "\ud800"]): rng.choice([rng.choice(ODD), operator])}


def answer(rng):
    return rng.choice([soup(rng), rng.choice(ODD), "[" * 5000, '{"a": ' * 900 + "1" + "}" * 900, '{"a": ["\\ud800"]}', '{"a": []}'])


DOORS = {
    "html": lambda rng: read_html(soup(rng, 60)),
    "markdown": lambda rng: split_page(read_markdown(soup(rng, 60)), rng.choice([1, 5, 220])),
    "filter": lambda rng: filter_mask(INDEX.graph, condition(rng)),
    "plan": lambda rng: str(read_plan(rng.choice([soup(rng), rng.choice(ODD), {"Metapath": [["a", rng.choice(ODD), "b"]]}]))),
    "answer": lambda rng: complete_json(lambda prompt: answer(rng), "", SCHEMA, attempts=1),
    "address": lambda rng: AddressBook([soup(rng, 8), soup(rng, 8)]).find(soup(rng, 8), soup(rng, 8)),
    "nodes": lambda rng: GraphIndex.from_nodes(
        [Node("a", rng.choice(ODD), metadata={"m": rng.choice(ODD)})], rng.choice([(), 1, [7]])
    ),
    "texts": lambda rng: GraphIndex.from_texts(rng.choice([5, ["a", rng.choice(ODD)], rng.choice(ODD)])) and None,
}


@pytest.mark.parametrize("door", DOORS)
def test_hostile_input_gives_a_result_or_an_error_of_ours(door):
    rng = random.Random(7)
    for _ in range(300):
        try:
            DOORS[door](rng)
        except GraphRetrieverError as error:
            assert str(error)


def test_a_value_without_a_repr_is_shown_by_its_type():
    assert shown(nested(3000)) == "<list>" and shown(10**5000) == "<int>" and shown("a" * 99, 5) == "'aaaa"


def test_one_hostile_answer_costs_one_failure():
    person = {"name": "Ada", "type": "PERSON", "description": "A person."}
    good = json.dumps({"entities": [person], "relations": []})
    for bad in (
        "[" * 100_000,
        '{"entities": ' + "[" * 900 + "]" * 900 + "}",
        good.replace("Ada", "\\ud800"),
        "x" * 1_000_001,
        None,
    ):
        builder = KnowledgeGraphBuilder(lambda prompt, bad=bad: bad if "second" in prompt else good, attempts=1, workers=1)
        built = builder.build([Node("1", "Ada wrote the first."), Node("2", "The second.")])
        assert [failure.ids for failure in built.failures] == [("2",)]
        assert "entity:ada" in built.graph.ids


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


def test_accents_are_composed_and_long_runs_of_marks_stay():
    assert composed("e\u0301") == "é" and composed("e\u0301" * 50) == "é" * 50
    assert len(composed("a" + "\u0301\u0316" * 100_000)) >= 200_000


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
