"""What readers make of the front matter of Markdown pages: fields for filters, names, and links with relations."""

import json

import pytest

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.commands.index import edge_specs
from graph_retrievers.construction import build_edges, read_folder
from graph_retrievers.construction.front_matter import front_matter, linked_fields, names_of


def written(fields):
    return front_matter(f"---\n{fields}\n---\nText.")


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ("title: Looms", {"title": "Looms"}),
        ("tags: [a, b]\ndone: true\nrank: 3\nshare: 0.5", {"tags": ["a", "b"], "done": True, "rank": 3, "share": 0.5}),
        ("day: 2024-05-01\nat: 2024-05-01 10:30:00", {"day": "2024-05-01", "at": "2024-05-01T10:30:00"}),
        ("none:\nnan: .nan", {"none": None, "nan": "nan"}),
        ("up: [[Home]]\nall:\n  - [[A]]\n  - '[[B|b]]'", {"up": "[[Home]]", "all": ["[[A]]", "[[B|b]]"]}),
        ("place: {town: Lund, since: 2024-05-01}", {"place": {"town": "Lund", "since": "2024-05-01"}}),
        ("2024: a year", {"2024": "a year"}),
        # Not YAML: a template, and a title with a colon.
        ("title: {{title}}\nb: {{c", {"title": "{{title}}", "b": "{{c"}),
        ("title: Looms: a history\n  more", {"title": "Looms: a history"}),
        # What stands for more than it is.
        ("a: &a [x, x]\nb: [*a, *a]", {"a": "&a [x, x]", "b": "[*a, *a]"}),
        ("a: !!python/object/apply:os.system [true]", {"a": "!!python/object/apply:os.system [true]"}),
    ],
)
def test_fields_are_values_of_json(fields, read):
    found, rest = written(fields)
    assert found == read and rest == "Text." and json.loads(json.dumps(found)) == found


def test_what_is_deep_or_long_is_read_by_lines():
    assert written(f"a: {'[' * 5_000}\nb: c")[0]["b"] == "c"
    assert written(f"a: 1\nb: {'x' * 30_000}")[0]["a"] == "1"


@pytest.mark.parametrize("text", ["Text.", "----\na: b\n---\n", "---\nno field\n---\n", "a\n---\nb: c\n---\n", "---\na: b"])
def test_what_is_no_front_matter(text):
    assert front_matter(text) == ({}, text)


def test_names_and_links():
    assert names_of({"aliases": ["A  b", "c", "", 3], "alias": "c"}) == ["A b", "c"] and names_of({"aliases": None}) == []
    fields = {"up": "[[Home|h]]", "also": ["[[A#x]]", " [[B]] "]}
    others = {"mixed": ["[[A]]", "b"], "text": "[[A]] and", "empty": [], "links": "[[A]]"}
    assert linked_fields(fields | others) == {"up": ["[[Home]]"], "also": ["[[A#x]]", "[[B]]"]}


def vault(folder):
    (folder / "tools").mkdir()
    words = "Threads are lifted one by one while the shuttle goes from side to side. " * 6
    (folder / "Home.md").write_text(f"# Home\n{words}")
    (folder / "tools" / "Loom.md").write_text(
        "---\naliases: [Jacquard machine, loom]\ntags: weaving, tools\nyear: 1804\nsource: https://x.org/loom\nup: '[[Home]]'\n"
        f"related: ['[[Cards]]', '[[Gone]]']\n---\n# Loom\n{words}\n## Parts\n{words}"
    )
    (folder / "Cards.md").write_text(f"---\nyear: 1801\n---\n{words}")
    return read_folder(folder)


def test_fields_of_pages_are_metadata_names_and_edges(tmp_path):
    nodes = {node.id: node for node in vault(tmp_path)}
    loom, parts = nodes["tools/Loom.md"], nodes["tools/Loom.md#parts"]
    assert loom.text.startswith("Jacquard machine\n") and "Jacquard" not in parts.text, "loom is in the text anyway"
    assert loom.metadata["tags"] == parts.metadata["tags"] == ["weaving", "tools"] and "tags" not in nodes["Home.md"].metadata
    assert loom.metadata["path"] == "tools/Loom.md" and "source" not in loom.metadata and "aliases" not in loom.metadata
    assert loom.metadata["up"] == ["/Home.md"] and loom.metadata["related"] == ["/Cards.md", "/Gone.md"]
    edges = build_edges(list(nodes.values()), edge_specs("links", list(nodes.values())))
    up, related = ("tools/Loom.md", "Home.md", "up"), [("tools/Loom.md", name, "related") for name in ("Cards.md", "Gone.md")]
    assert set(edges) == {up, *related}
    index = GraphIndex.from_documents(list(nodes.values()), edges=[])
    assert {hit.id for hit in Retriever(index).retrieve("threads", filter={"year": {"$lt": 1803}})} == {"Cards.md"}
    assert Retriever(index).retrieve("Jacquard machine", k=1)[0].id == "tools/Loom.md"
