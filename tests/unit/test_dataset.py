"""Datasets: what is read, and where an error in a file lies."""

import gzip
import json

import pytest

from graph_retrievers.datasets import is_dataset, read_dataset, read_queries
from graph_retrievers.errors import DatasetError
from tests.helpers import as_edges

NODES = [
    {"id": "a", "title": "Alpha", "text": "first", "type": "letter", "year": 1},
    {"id": "b", "text": ""},
]
EDGES = [{"source": "a", "target": "b", "relation": "before"}, {"source": "b", "target": "a"}]
QUERIES = [
    {
        "id": "q1",
        "query": "which?",
        "gold": ["a", "b"],
        "split": "test",
        "type": "easy",
        "entities": ["Alpha"],
        "plan": [{"type": "letter", "restriction": "Alpha"}],
        "answer": "both",
        "hops": 2,
    },
    {"id": "q2", "query": "and?", "gold": ["b"]},
]


def write(folder, nodes=NODES, edges=EDGES, queries=QUERIES, ending=""):
    for name, rows in (("nodes", nodes), ("edges", edges), ("queries", queries)):
        if rows is None:
            continue
        text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
        opened = gzip.open if ending else open
        with opened(folder / f"{name}.jsonl{ending}", "wt", encoding="utf-8") as file:
            file.write(text)
    return folder


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_every_field_is_read(tmp_path, ending):
    dataset = read_dataset(write(tmp_path, ending=ending))
    assert dataset.name == tmp_path.name
    first, second = dataset.nodes
    assert (first.id, first.title, first.text, first.type, first.metadata) == ("a", "Alpha", "first", "letter", {"year": 1})
    assert (second.id, second.title, second.text, second.metadata) == ("b", "", "", {})
    assert dataset.edges == as_edges(("a", "b", "before"), ("b", "a", ""))
    one, two = dataset.queries
    assert (one.id, one.text, one.gold, one.split, one.type, one.answer) == ("q1", "which?", ("a", "b"), "test", "easy", "both")
    assert (one.entities, one.plan, one.extra) == (("Alpha",), ({"type": "letter", "restriction": "Alpha"},), {"hops": 2})
    assert (two.split, two.type, two.entities, two.plan, two.answer, two.extra) == ("", "", (), (), "", {})
    assert dataset.graph().contents() == ["Alpha. first", ""]
    assert dataset.graph().edges() == dataset.edges


def test_blank_lines_and_a_byte_order_mark_do_no_harm(tmp_path):
    write(tmp_path, nodes="\ufeff" + json.dumps(NODES[0]) + "\n\n  \n" + json.dumps(NODES[1]))
    assert [node.id for node in read_dataset(tmp_path).nodes] == ["a", "b"]


def test_queries_may_be_missing_and_edges_may_be_none(tmp_path):
    dataset = read_dataset(write(tmp_path, edges=[], queries=None))
    assert dataset.edges == [] and dataset.queries == []


def test_a_folder_is_told_from_a_dataset(tmp_path):
    assert not is_dataset(tmp_path) and not is_dataset(tmp_path / "nowhere")
    assert is_dataset(write(tmp_path, ending=".gz"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"nodes": '{"id": "a", "text": "x"}\n{oops\n'}, r"nodes\.jsonl:2 is not JSON"),
        ({"nodes": '["a"]\n'}, r"nodes\.jsonl:1 holds a list"),
        ({"nodes": [{"text": "x"}]}, r"nodes\.jsonl:1: 'id' is missing"),
        ({"nodes": [{"id": 7, "text": "x"}]}, r"nodes\.jsonl:1: 'id' is 7; expected a string"),
        ({"nodes": [{"id": " ", "text": "x"}]}, r"nodes\.jsonl:1: 'id' is empty"),
        ({"nodes": [{"id": "a"}]}, r"nodes\.jsonl:1: 'text' is missing"),
        ({"nodes": [{"id": "a", "text": "x", "title": ["t"]}]}, r"nodes\.jsonl:1: 'title' is \['t'\]"),
        ({"nodes": [NODES[0], NODES[1], NODES[0]]}, r"nodes\.jsonl:3: node id 'a' is already used in line 1"),
        ({"nodes": ""}, r"nodes\.jsonl holds no nodes"),
        ({"nodes": None}, r"nodes\.jsonl\[\.gz\] is missing"),
        ({"edges": None}, r"edges\.jsonl\[\.gz\] is missing; an empty file"),
        ({"edges": [EDGES[0], {"source": "a", "target": "c"}]}, r"edges\.jsonl:2: 'c' is not a node of this dataset"),
        ({"edges": [{"source": "a"}]}, r"edges\.jsonl:1: 'target' is missing"),
        ({"queries": [QUERIES[0], QUERIES[0]]}, r"queries\.jsonl:2: query id 'q1' is already used in line 1"),
        (
            {"queries": [{"id": "q", "query": "x", "gold": []}]},
            r"queries\.jsonl:1: 'gold' is \[\]; expected a list of strings, at least one",
        ),
        ({"queries": [{"id": "q", "query": "x", "gold": "a"}]}, r"queries\.jsonl:1: 'gold' is 'a'"),
        ({"queries": [{"id": "q", "query": "x", "gold": ["z"]}]}, r"queries\.jsonl:1: gold 'z' of query 'q' is not a node"),
        ({"queries": [{"id": "q", "query": " ", "gold": ["a"]}]}, r"queries\.jsonl:1: 'query' is empty"),
        ({"queries": [{"id": "q", "query": "x", "gold": ["a"], "plan": "p"}]}, r"queries\.jsonl:1: 'plan' is 'p'"),
        ({"queries": [{"id": "q", "query": "x", "gold": ["a"], "entities": [1]}]}, r"queries\.jsonl:1: 'entities' is \[1\]"),
    ],
)
def test_errors_name_file_and_line(tmp_path, files, message):
    with pytest.raises(DatasetError, match=message):
        read_dataset(write(tmp_path, **files))


def test_a_file_that_is_there_twice(tmp_path):
    write(write(tmp_path), ending=".gz")
    with pytest.raises(DatasetError, match="Both .* exist"):
        read_dataset(tmp_path)


def test_a_compressed_file_cut_short_or_not_compressed_at_all(tmp_path):
    write(tmp_path, nodes=[{"id": f"n{i}", "text": f"{i * 7919}"} for i in range(3000)], edges=[], queries=None, ending=".gz")
    path = tmp_path / "nodes.jsonl.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetError, match=r"nodes\.jsonl\.gz cannot be read beyond line \d+"):
        read_dataset(tmp_path)
    path.write_bytes(b'{"id": "a", "text": "x"}')
    with pytest.raises(DatasetError, match=r"nodes\.jsonl\.gz cannot be read: Not a gzipped file"):
        read_dataset(tmp_path)


def test_a_file_in_another_encoding(tmp_path):
    write(tmp_path)
    (tmp_path / "nodes.jsonl").write_bytes('{"id": "a", "text": "é"}'.encode("latin-1"))
    with pytest.raises(DatasetError, match=r"nodes\.jsonl cannot be read"):
        read_dataset(tmp_path)


def test_no_folder_and_no_file(tmp_path):
    with pytest.raises(DatasetError, match="nowhere is not a folder"):
        read_dataset(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match=r"other\.jsonl cannot be read"):
        read_queries(tmp_path / "other.jsonl")


def test_queries_from_elsewhere(tmp_path):
    write(tmp_path)
    assert [query.id for query in read_queries(tmp_path / "queries.jsonl")] == ["q1", "q2"]
    assert [query.id for query in read_queries(tmp_path / "queries.jsonl", nodes={"a", "b"})] == ["q1", "q2"]
    with pytest.raises(DatasetError, match=r"queries\.jsonl:1: gold 'b'"):
        read_queries(tmp_path / "queries.jsonl", nodes={"a"})


class TestTitles:
    def test_titles_that_only_repeat_ids_are_not_read(self, tmp_path):
        nodes = [{"id": f"p{number}", "title": f"Abstract {number} (1999)", "text": "words"} for number in range(12345, 12350)]
        write(tmp_path, nodes=nodes, edges=[], queries=None)
        assert read_dataset(tmp_path).graph().contents() == ["words"] * 5
        assert read_dataset(tmp_path, include_titles=True).graph().content(0) == "Abstract 12345 (1999). words"

    @pytest.mark.parametrize(
        "nodes",
        [
            [{"id": "p1999", "title": "Prince 1999", "text": "x"}, {"id": "p2", "title": "Two", "text": "x"}],
            [{"id": "n123", "title": "Route 123", "text": "x"}],
            [{"id": "12345", "text": "x"}],
        ],
        ids=["one of two", "three digits", "no titles"],
    )
    def test_other_titles_are(self, tmp_path, nodes):
        assert read_dataset(write(tmp_path, nodes=nodes, edges=[], queries=None)).include_titles

    def test_titles_can_be_left_out(self, tmp_path):
        assert read_dataset(write(tmp_path), include_titles=False).graph().contents() == ["first", ""]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "queries", "titles"),
    [
        ("wiki-multihop", 14706, 17245, 939, True),
        ("citations", 3094, 2315, 162, True),
        ("metaqa", 42846, 129411, 945, True),
        ("pubmedqa", 1000, 6082, 895, False),
    ],
)
def test_real_datasets(shared_folder, name, nodes, edges, queries, titles):
    dataset = read_dataset(shared_folder / "data" / name)
    assert (len(dataset.nodes), len(dataset.edges), len(dataset.queries)) == (nodes, edges, queries)
    assert dataset.include_titles is titles
