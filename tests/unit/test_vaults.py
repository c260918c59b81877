"""Vaults of notes: what Obsidian, Logseq and Dendron link, by our reader and by what the frameworks' loaders return."""

import json
import logging
from dataclasses import replace

import pytest
from langchain_text_splitters import RecursiveCharacterTextSplitter

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.commands.index import edge_specs
from graph_retrievers.construction import DocumentStructure, Links, build_edges, read_folder
from graph_retrievers.construction.address_book import AddressBook
from graph_retrievers.construction.dead_links import advice_on
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.inline_fields import inline_fields
from graph_retrievers.construction.markdown import read_markdown
from graph_retrievers.construction.vaults import vault_kind
from graph_retrievers.graph.addresses import page_address
from graph_retrievers.graph.blank import blank_nodes
from graph_retrievers.graph.corpus_graph import Node
from tests.pages import WORDS, read, written
from tests.vaults import dendron, logseq, obsidian, obsidian_documents, obsidian_nodes, score, text_documents

# So long that a section has room for two, and a text of three is split.
LONG = WORDS * 24

NOTES = {
    "Home.md": "# Home\nThe first note.",
    "tools/Loom.md": f"---\naliases: [Jacquard]\ntags: machine\n---\n# The machine\n{LONG} ^first\n\n"
    f'## What? A "heading": part\n{LONG}\n'
    f"## Parts\n{LONG}\n### In/out\n{LONG}\n## See [[Card|the cards]]\n{LONG}\n\n{LONG} ^pa-1\n\n- {LONG}\n\n^list1\n",
    "tools/Card.md": "Cards of pasteboard.",
    "people/Card.md": "Somebody's card.",
    "people/Ada Holm.md": "# Ada\nShe wove.",
    "v1.2 notes.md": "Of a version.",
}


@pytest.mark.parametrize(
    ("written_as", "target"),
    [
        ("[[Loom]]", "tools/Loom.md"),
        ("[[loom.md]]", "tools/Loom.md"),
        ("![[Loom|300]]", "tools/Loom.md"),
        ("[[people/Card]]", "people/Card.md"),
        ("[[../people/Card]]", "people/Card.md"),
        ("[[./Card]]", "tools/Card.md"),
        ("[[../Card]]", None),
        # Of two notes of one name that of the folder.
        ("[[Card]]", "tools/Card.md"),
        ("[[v1.2 notes]]", "v1.2 notes.md"),
        ("[[Ada Holm|Ada]]", "people/Ada Holm.md"),
        ("| a |\n| - |\n| [[Ada Holm\\|Ada]] |", "people/Ada Holm.md"),
        ("[^1]: [[Home]]", "Home.md"),
        ("[[Loom#Parts]]", "tools/Loom.md#parts"),
        ("[[Loom#What A heading part]]", "tools/Loom.md#what-a-heading-part"),
        ("[[Loom#Parts#In out]]", "tools/Loom.md#inout"),
        ("[[Loom#Home#In out]]", "tools/Loom.md#inout"),
        ("[[Loom#See Card the cards]]", "tools/Loom.md#see-the-cards"),
        ("[[Loom#^first]]", "tools/Loom.md"),
        ("![[Loom#^pa-1]]", "tools/Loom.md#see-the-cards~2"),
        ("[[Loom#^list1]]", "tools/Loom.md#see-the-cards~3"),
        ("[it](Card.md)", "tools/Card.md"),
        ("[it](<../people/Ada Holm.md>)", "people/Ada Holm.md"),
        ("[it](people/Ada%20Holm.md)", "people/Ada Holm.md"),
        ("[it](Ada%20Holm)", "people/Ada Holm.md"),
        ("[it](./Card)", "tools/Card.md"),
        ("![it](Loom.md#Parts)", "tools/Loom.md#parts"),
        ("[it](Loom.md#^pa-1)", "tools/Loom.md#see-the-cards~2"),
        # An alias shows in the text, but is not a name for Obsidian.
        ("[[Jacquard]]", None),
        ("`[[Loom]]`", None),
        ("<!-- [[Loom]] -->", None),
    ],
)
def test_what_obsidian_links(tmp_path, written_as, target):
    nodes = read(tmp_path, NOTES | {"tools/Note.md": f"# Note\n\n{written_as}\n"})
    edges = [edge for edge in build_edges(nodes, Links(field="links")) if edge[0] == "tools/Note.md"]
    assert edges == ([("tools/Note.md", target, "links")] if target else [])
    documents = [*text_documents(tmp_path)]
    pages = {node.id: node.metadata["source"].removeprefix(f"{tmp_path}/") for node in to_nodes(documents)}
    found = [(pages[a], pages[b]) for a, b, _ in build_edges(to_nodes(documents), Links())]
    assert [pair for pair in found if pair[0] == "tools/Note.md"] == (
        [("tools/Note.md", target.partition("#")[0])] if target else []
    )


def test_fields_in_the_text_are_metadata_tags_and_edges(tmp_path):
    text = (
        "# Loom\nSince:: 1804\nup:: [[Home]], [[Card]]\n\nA #tool/old one (by:: [[Ada]]), [done:: true]. `(x:: y)` std::vector\n\n"
    )
    text += f"{LONG}\n## Parts\n{LONG}\nmaker:: [[Ada]]\nsource:: [[Card]]\n"
    pages = {"Loom.md": f"---\ntags: [tool]\nSince: 1801\n---\n{text}", "Home.md": "Home.", "Card.md": "Card.", "Ada.md": "Ada."}
    nodes = {node.id: node for node in read(tmp_path, pages)}
    loom, parts = nodes["Loom.md"], nodes["Loom.md#parts"]
    for node in (loom, parts):
        assert {name: node.metadata.get(name) for name in ("tags", "Since", "done", "x")} == {
            "tags": ["tool", "tool/old"],
            "Since": [1801, 1804],
            "done": True,
            "x": None,
        }
    assert (loom.metadata["up"], loom.metadata["linked"], parts.metadata["linked"]) == (
        ["/Home.md", "/Card.md"],
        ["up", "by"],
        ["maker"],
    )
    edges = {("Loom.md", "Home.md", "up"), ("Loom.md", "Card.md", "up"), ("Loom.md", "Ada.md", "by")}
    edges |= {("Loom.md#parts", "Ada.md", "maker"), ("Loom.md#parts", "Card.md", "links")}
    listed = list(nodes.values())
    assert set(build_edges(listed, Links(field="links"))) == set(build_edges(listed, edge_specs("links", listed))) == edges
    index = GraphIndex.from_documents(listed, edges=[])
    hits = Retriever(index).retrieve("looms", filter={"tags": {"$contains": "tool/old"}})
    assert {hit.id for hit in hits} == {"Loom.md", "Loom.md#parts"}


def test_a_whole_note_has_the_fields_of_all_its_sections(tmp_path):
    text = f"---\npage: 7\nup: '[[Home]]'\n---\n# Loom\n{LONG}\n## Parts\n{LONG}\nmaker:: [[Ada]]\npage:: [[Bob]]\n"
    written(tmp_path, {"Loom.md": text, "Home.md": "Home.", "Ada.md": "Ada.", "Bob.md": "Bob."})
    nodes = read_folder(tmp_path, max_tokens=None)
    loom = next(node for node in nodes if node.id == "Loom.md")
    # "page" is the number of a printed page.
    assert loom.metadata["linked"] == ["up", "maker"] and "page" not in loom.metadata
    edges = {("Loom.md", "Home.md", "up"), ("Loom.md", "Ada.md", "maker"), ("Loom.md", "Bob.md", "links")}
    assert set(build_edges(nodes, Links(field="links"))) == edges


def test_files_beside_notes_keep_their_titles_and_are_found_by_name(tmp_path):
    cells = {"cells": [{"cell_type": "markdown", "source": f"# The lab\n{LONG} See [[Loom]]."}]}
    pages = {
        "logseq/config.edn": "{}",
        "pages/Loom.md": f"- {LONG} See [[experiment]], [[guide_1]] and [[Guide_1.rst]].",
        "pages/experiment.ipynb": json.dumps(cells),
        "pages/guide_1.rst": f"The guide\n=========\n\n{LONG}\n",
    }
    nodes = read(tmp_path, pages)
    assert [node.title for node in nodes] == ["Loom", "The lab", "The guide"]
    assert nodes[0].metadata["links"] == ["/pages/experiment.ipynb", "/pages/guide_1.rst"]
    assert "experiment" not in nodes[1].text and "guide" not in nodes[2].text.casefold()


def test_wiki_links_find_files_of_all_formats_without_their_endings():
    book = AddressBook(["a/paper.pdf", "a/table.xlsx", "a/slides.pptx", "a/letter.docx", "a/story.epub", "a/lab.ipynb", "a/g.rest"])
    for name in ("paper", "table", "slides", "letter", "story", "lab", "g"):
        assert book.find(f"[[{name}]]") is not None


def test_the_name_of_a_file_is_in_the_text_where_the_title_differs(tmp_path):
    pages = {
        "Jacquard_machine.md": "# The loom\nIt weaves.",
        "Card.md": "# Card\nFor the [[Jacquard_machine]].",
        "b.html": "<h1>B</h1>x",
    }
    texts = {node.id: node.text for node in read(tmp_path, pages)}
    assert texts["Jacquard_machine.md"] == "Jacquard machine\nIt weaves." and texts["Card.md"] == "For the Jacquard_machine."
    # Pages that are no notes are not called by their files.
    assert read(tmp_path / "docs", {"a_b.md": "# The loom\nIt weaves."})[0].text == "It weaves."


def test_notes_that_nobody_wrote_join_those_that_link_to_them(tmp_path):
    pages = {
        "a.md": "About [[Graz]], [[Linz]] and [[Wien]].",
        "b.md": "About [[graz#Old town|it]] and [[towns/Linz]] and [w](Wien.md).",
    }
    pages |= {"Wien.md": "", "c.md": "A [[Graz]] ![[map.png]]", "d.md": "Also ![[map.png]] [[1]]", "e.md": "Only [[1]]"}
    nodes = read(tmp_path, pages)
    assert [(node.id, node.title, node.text) for node in nodes[5:]] == [("Graz.md", "Graz", ""), ("Wien.md", "Wien", "")]
    edges = build_edges(nodes, Links(field="links"))
    assert edges == [("a.md", "Graz.md", "links"), ("a.md", "Wien.md", "links")] + [
        ("b.md", "Graz.md", "links"),
        ("b.md", "Wien.md", "links"),
        ("c.md", "Graz.md", "links"),
    ]
    index = GraphIndex.from_documents(nodes, edges=[Links(field="links"), DocumentStructure()])
    assert blank_nodes(index.graph).tolist() == [False] * 5 + [True] * 2
    assert {hit.id for hit in Retriever(index, k=10).retrieve("Graz and Linz")} == {"a.md", "b.md", "c.md"}


def test_a_note_that_a_field_names_is_one_although_nobody_wrote_it(tmp_path):
    pages = {"m.md": "---\nplace: '[[Lyon]]'\n---\npresent:: [[Ada]], [[Bo]]\n\nWe spoke of [[Cy]].", "Bo.md": ""}
    nodes = read(tmp_path, pages)
    assert [(node.id, node.text) for node in nodes[1:]] == [("Lyon.md", ""), ("Ada.md", ""), ("Bo.md", "")]
    assert build_edges(nodes, Links(field="links")) == [
        ("m.md", "Lyon.md", "place"),
        ("m.md", "Ada.md", "present"),
        ("m.md", "Bo.md", "present"),
    ]


def test_an_alias_is_not_the_name_of_a_note_that_nobody_wrote(tmp_path):
    pages = {"a.md": "[[Jacquard]]", "b.md": "The [[Jacquard]].", "Loom.md": "---\naliases: [Jacquard]\n---\nA loom."}
    assert [node.id for node in read(tmp_path, pages)] == ["Loom.md", "a.md", "b.md"]


def test_notes_of_front_matter_alone_lead_on(tmp_path):
    pages = {"a.md": "See [[Stub]].", "Stub.md": "---\nup: '[[Home]]'\n---\n", "Home.md": "Home."}
    assert build_edges(read(tmp_path, pages), Links(field="links")) == [("a.md", "Stub.md", "links"), ("Stub.md", "Home.md", "up")]


def test_hubs_that_notes_name_are_not_navigation(tmp_path):
    pages = {f"n{n}.md": f"up:: [[Home]]\n\n[[Index]]\n\nNote {n}." for n in range(12)} | {"Home.md": "Home.", "Index.md": "All."}
    for nodes in (read(tmp_path, pages), to_nodes(text_documents(tmp_path))):
        assert len(build_edges(nodes, Links(field="links" if "links" in nodes[0].metadata else None))) == 24


LOGSEQ = {
    "pages/tools___loom.md": f"title:: Jacquard machine\nalias:: JM, the machine\n\n- {LONG}\n- {LONG}\n"
    f"- Block {LONG}\n  id:: 65ba0000-0000-4000-8000-00000000000a\n",
    "pages/dye%2Fred.md": "- Red.",
    "pages/Card.md": "- Cards.",
    "journals/2024_01_31.md": "- A day.",
}


@pytest.mark.parametrize(
    ("written_as", "target", "relation"),
    [
        ("[[tools/loom]]", "pages/tools___loom.md", "links"),
        ("[[Dye/Red]]", "pages/dye%2Fred.md", "links"),
        ("[[jacquard machine]]", "pages/tools___loom.md", "links"),
        ("#JM", "pages/tools___loom.md", "links"),
        ("#[[the machine]]", "pages/tools___loom.md", "links"),
        ("#card.", "pages/Card.md", "links"),
        ("[words]([[Card]])", "pages/Card.md", "links"),
        ("{{embed [[Card]]}}", "pages/Card.md", "links"),
        ("[[Jan 31st, 2024]]", "journals/2024_01_31.md", "links"),
        ("[[2024-01-31]]", "journals/2024_01_31.md", "links"),
        ("((65ba0000-0000-4000-8000-00000000000a))", "pages/tools___loom.md~3", "links"),
        ("[words](((65BA0000-0000-4000-8000-00000000000A)))", "pages/tools___loom.md~3", "links"),
        ("text\n  maker:: [[Card]]", "pages/Card.md", "maker"),
        ("text\n  tags:: card, x", "pages/Card.md", "links"),
        ("[[loom]] #1 `#card`", None, ""),
    ],
)
def test_what_logseq_links(tmp_path, written_as, target, relation):
    nodes = read(tmp_path, LOGSEQ | {"pages/Note.md": f"- first\n- {written_as}\n"})
    assert {node.id: node.title for node in nodes}["journals/2024_01_31.md"] == "Jan 31st, 2024"
    expected = [("pages/Note.md", target, relation)] if target else []
    assert [edge for edge in build_edges(nodes, Links(field="links")) if edge[0] == "pages/Note.md"] == expected
    nodes = to_nodes(text_documents(tmp_path))
    pages = {node.id: page_address(node.metadata).removeprefix(f"{tmp_path}/") for node in nodes}
    found = [(pages[a], pages[b], relation) for a, b, relation in build_edges(nodes, Links())]
    assert [edge for edge in found if edge[0] == "pages/Note.md"] == [(a, b.partition("~")[0], name) for a, b, name in expected]


def test_queries_and_embeds_of_logseq(tmp_path):
    text = """- Cards
- {{query (and [[Dye]] (task TODO))}}
- #+BEGIN_QUERY
  {:title "Tasks"
   :query [:find (pull ?b [*])]}
  #+END_QUERY
- {{embed [[tools/loom]]}}, as `{{query x}}` is written
"""
    (note,) = [node for node in read(tmp_path, LOGSEQ | {"pages/Note.md": text}) if node.id == "pages/Note.md"]
    assert note.text == "- Cards\n- tools/loom, as {{query x}} is written"
    assert note.metadata["links"] == ["/pages/tools___loom.md"]


HEAD = "---\nid: {0}\ntitle: Title {0}\ndesc: ''\nupdated: 1640000000000\ncreated: 1640000000000\n---\n"
DENDRON = {
    "v/tool.md": "Tools.",
    "v/tool.loom.md": f"{LONG}\n\n## The parts\n\n{LONG}\n\n{LONG}\n\n{LONG} ^blk\n",
    "v/tool.loom.card.hole.md": "Holes.",
    "v/tags.red.md": "Red.",
    "v/user.ada.md": "Ada.",
    "w/tool.loom.md": "Another loom.",
}


@pytest.mark.parametrize(
    ("written_as", "target"),
    [
        ("[[tool.loom]]", "v/tool.loom.md"),
        ("[[tool|tool.loom]]", "v/tool.loom.md"),
        ("![[tool.loom#the-parts,1:#*]]", "v/tool.loom.md#the-parts"),
        ("[[The parts|tool.loom#the-parts]]", "v/tool.loom.md#the-parts"),
        ("[[tool.loom#^blk]]", "v/tool.loom.md#the-parts~3"),
        ("[[dendron://w/tool.loom]]", "w/tool.loom.md"),
        ("[[words|dendron://v/tool.loom#the-parts]]", "v/tool.loom.md#the-parts"),
        ("#red, @ada.", "v/tags.red.md v/user.ada.md"),
        ("[it](tool.loom)", "v/tool.loom.md"),
        ("ada@red.org `#red` [[red]]", ""),
    ],
)
@pytest.mark.parametrize("told", ["dendron.yml", "front matter"])
def test_what_dendron_links(tmp_path, written_as, target, told):
    pages = {name: HEAD.format(name) * (told != "dendron.yml") + text for name, text in DENDRON.items()}
    pages["v/note.md"] = HEAD.format("note") * (told != "dendron.yml") + f"Words.\n\n{written_as}\n"
    nodes = read(tmp_path, pages | ({told: "version: 5"} if told == "dendron.yml" else {}))
    edges = build_edges(nodes, Links(field="links"))
    assert [edge for edge in edges if edge[0] == "v/note.md"] == [("v/note.md", goal, "links") for goal in target.split()]
    assert [edge for edge in edges if edge[2] == "parent"] == [
        ("v/tool.loom.card.hole.md", "v/tool.loom.md", "parent"),
        ("v/tool.loom.md", "v/tool.md", "parent"),
    ]


def test_the_kind_of_notes():
    def head(name, more=""):
        return f"---\r\nid: {name}\r\ntitle: {name}\r\n{more}"

    dotted = {"a.md": head("a"), "a.b.md": head("b")}
    assert vault_kind(dotted) == "dendron" and vault_kind(dotted | {f"{n}.md": "" for n in range(3)}) == ""
    assert vault_kind({"a.md": head("a", "updated: 1640000000000\r\n")}) == vault_kind({"a.md": head("a", "desc: ''")}) == "dendron"
    assert vault_kind({"a.md": ""}, {"a.md": {"id": "a", "title": "A", "created": 1640000000000}}) == "dendron"
    # Others write such fields too, and the name before the label.
    assert vault_kind({"a.md": head("a", "created: 2024-01-31"), "b.md": head("b")}) == ""
    assert vault_kind({"a.md": head("a", "desc: x"), "b.md": f"{head('b', 'desc: y')}---\r\n[[a|words]]"}) == ""
    assert vault_kind({"a.md": head("a"), "b.md": f"{head('b')}---\r\n[[words|a]] [[a|b]]"}) == "dendron"
    assert (
        vault_kind({"g/pages/a.md": "", "g/journals/2024_01_31.md": ""}) == vault_kind({"C:\\g\\pages\\a___b.md": ""}) == "logseq"
    )
    assert vault_kind({"pages/a.md": "alias:: b\n- text"}) == vault_kind({"pages/a.md": "- text\n  collapsed:: true"}) == "logseq"
    assert {vault_kind({"pages/a.md": "", "journals/x.md": ""}), vault_kind({"pages/a.html": ""}), vault_kind({})} == {""}


def recall(found):
    return sum(right for right, _ in found.values()) / sum(count for _, count in found.values())


@pytest.mark.parametrize(("make", "least"), [(obsidian, 0.98), (logseq, 0.9), (dendron, 0.9)])
def test_random_vaults_by_every_reader(tmp_path, make, least):
    root = tmp_path.resolve() / "vault"
    vault = make(7, 30)
    written(root, vault.pages)
    cut = RecursiveCharacterTextSplitter.from_language("markdown", chunk_size=800, chunk_overlap=0, add_start_index=True)
    read_by = {
        "read_folder": read_folder(root),
        "texts": to_nodes(text_documents(root)),
        "ObsidianLoader": to_nodes(obsidian_documents(root)),
        "ObsidianReader": to_nodes(obsidian_nodes(root)),
        "splitter": to_nodes(cut.split_documents(text_documents(root))),
    }
    for name, nodes in read_by.items():
        # Its reader of Markdown drops the addresses of ordinary links.
        lost = ("Markdown", "shown ") if name == "ObsidianReader" else ()
        known = vault._replace(links=[link for link in vault.links if not link.kind.startswith(lost)] if lost else vault.links)
        found, wrong, count = score(build_edges(nodes, Links(field="links" if name == "read_folder" else None)), nodes, known, root)
        assert recall(found) >= least, (name, {kind: parts for kind, parts in found.items() if parts[0] < parts[1]})
        assert len(wrong) <= 0.03 * count, (name, wrong[:5])


def test_two_notes_of_one_name_stay_two_and_what_front_matter_states_is_no_address(tmp_path):
    notes = {
        "a/Note.md": "A. [[b/Note]]",
        "b/Note.md": "---\nsource: https://example.org/x\n---\nB. [[a/Note]]",
        "c.md": "[[a/Note]]",
    }
    root = written(tmp_path, notes).resolve()
    nodes = to_nodes(obsidian_documents(root))
    assert [page_address(node.metadata) for node in nodes] == [f"{root}/{name}" for name in sorted(notes)]
    assert [edge[:2] for edge in build_edges(nodes, Links())] == [("0", "1"), ("1", "0"), ("2", "0")]


def test_wiki_links_that_a_reader_took_from_the_text():
    place = {"file_name": "a.md", "folder_path": "v"}
    nodes = to_nodes(text_documents_of({"v/a.md": "`[[c]]`", "v/b.md": "B.", "v/c.md": "C."}))
    nodes[0].metadata.pop("source")
    nodes[0].metadata.update(place, wikilinks=["b|x", "c"])
    assert [edge[:2] for edge in build_edges(nodes, Links())] == [("0", "1")]
    # A splitter copies the list to all chunks.
    nodes += [replace(nodes[0], id=name, text=text) for name, text in (("a2", "more"), ("a3", "See [[d]]."))]
    nodes.append(Node("d", "D.", metadata={"source": "v/d.md"}))
    for node in nodes[3:5]:
        node.metadata.update(place, wikilinks=["d", "b|x", "c"])
    assert [edge[:2] for edge in build_edges(nodes, Links())] == [("0", "1"), ("a3", "d")]


def text_documents_of(pages):
    from langchain_core.documents import Document

    return [Document(text, metadata={"source": path}) for path, text in pages.items()]


@pytest.mark.parametrize(
    ("pages", "reason"),
    [
        (
            {"a.md": " ".join(f"[[notes/n{n}]]" for n in range(12)), "b.md": "x"},
            "names of files, such as 'a.md', and the links have folders",
        ),
        ({"v/a.md": " ".join(f"[[n{n}]]" for n in range(12)), "v/b.md": "x"}, "read the whole folder from its root"),
        ({"doc-1": " ".join(f"[[n{n}]]" for n in range(12)), "doc-2": "x"}, "are not paths of files, which the links name"),
    ],
)
def test_dead_links_are_told_once_with_the_reason(pages, reason, caplog):
    with caplog.at_level(logging.INFO, "graph_retrievers"):
        build_edges(to_nodes(text_documents_of(pages)), Links())
    told = [record for record in caplog.records if "lead nowhere" in record.message or "skipped references" in record.message]
    assert [record.levelname for record in told] == ["WARNING"] and "Nearly all links lead nowhere (12 of 12)" in told[0].message
    assert reason in told[0].message


def test_titles_that_links_name_are_told():
    nodes = to_nodes(text_documents_of({f"x{n}.md": "" for n in range(20)}))
    nodes = [replace(node, title=f"Title {n}") for n, node in enumerate(nodes)]
    assert "Links(url_field='title')" in advice_on([f"[[Title {n}]]" for n in range(20)], 1, ["x1.md"], nodes)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5_000,
        "[[" * 5_000,
        "[[a|" * 3_000,
        "[a:: " * 3_000,
        "(a:: [[" * 3_000,
        "a:: " * 5_000,
        "[a:: x" + " y" * 5_000,
        "#a" * 5_000,
        "((" * 5_000,
        "^a " * 5_000,
        "\n".join(["^a1"] * 5_000),
        "word " * 5_000 + "::",
        "---\n" + "a: b\n" * 30_000,
        "---\n" + "a: b\n" * 30_000 + "---\n# A\ntext",
        "\n\n".join(f"k{n}:: [[n{n}]]" for n in range(5_000)),
    ],
)
def test_hostile_notes_are_read(text):
    assert read_markdown(text).blocks
    assert isinstance(inline_fields(text), list)


def test_very_long_fields_stay_with_the_first_node(tmp_path):
    fields = "\n".join(f"field{n}: {'x' * 90}" for n in range(300))
    nodes = read(
        tmp_path,
        {"a.md": f"---\n{fields}\n---\n# A\n{LONG}\n## B\n{LONG}", "b.md": "---\nyear: 1\n---\n# A\n" + LONG + "\n## B\nx"},
    )
    assert [("field0" in node.metadata, node.metadata.get("year")) for node in nodes[:2]] == [(True, None), (False, None)]
    assert nodes[2].metadata["year"] == 1
    many = "\n".join(f"f{n}: {n}" for n in range(201))
    nodes = read(tmp_path / "many", {"a.md": f"---\n{many}\n---\n# A\n{LONG}\n## B\n{LONG}"})
    assert ["f0" in node.metadata for node in nodes] == [True, False]


def test_many_pages_of_one_name():
    pages = [f"f{n}/index.md" for n in range(3_000)]
    book = AddressBook(pages)
    assert [book.find("[[index]]", f"f{n}/x.md") for n in (0, 2_999)] == [("f0/index.md", ""), ("f2999/index.md", "")]
    assert book.find("[[f7/index]]", "f1/x.md") == ("f7/index.md", "") and book.find("[[index]]", "other.md") == ("f0/index.md", "")


def test_short_notes_with_the_same_text_stay_apart(tmp_path):
    pages = {
        "a/Note.md": "To do.",
        "b/Note.md": "To do.",
        "c.md": "[[b/Note]] shown.",
        "d.md": f"{LONG} [[c|x]]",
        "e.md": f"{LONG} [[d|x]]",
    }
    nodes = read(tmp_path, pages | {"f/d.md": pages["d.md"]})
    assert [node.id for node in nodes] == ["a/Note.md", "b/Note.md", "c.md", "d.md", "e.md"], "a long copy is left out"
    assert build_edges(nodes, Links(field="links")) == [
        ("c.md", "b/Note.md", "links"),
        ("d.md", "c.md", "links"),
        ("e.md", "d.md", "links"),
    ]
    # Pages that are no notes are read once.
    assert len(read(tmp_path / "docs", {"a/x.md": "To do.", "b/x.md": "To do."})) == 1


def test_long_notes_with_one_text_are_told_apart_by_title_and_by_links(tmp_path):
    pages = {
        "a/n.md": f"{LONG} [[c|x]]",
        "b/n.md": f"{LONG} [[d|x]]",
        "b2/n.md": f"{LONG} [[d|x]]",
        "c.md": LONG,
        "d.md": LONG,
        "e.html": f"<h1>Mill</h1><p>{LONG}",
        "f.html": f"<h1>Mill</h1><p>{LONG}",
        "g.html": "<p>To do.",
        "h.html": "<p>To do.",
    }
    assert [node.id for node in read(tmp_path, pages)] == ["a/n.md", "b/n.md", "c.md", "d.md", "e.html", "g.html"]


def test_copies_that_logseq_makes_are_not_read(tmp_path):
    pages = {"logseq/config.edn": "{}", "logseq/bak/pages/Loom/2024-01-31.md": "- Old", "pages/Loom.md": "- New"}
    assert [node.id for node in read(tmp_path, pages)] == ["pages/Loom.md"]


def test_tags_of_front_matter_are_links_where_tags_are_pages(tmp_path):
    pages = {"a.md": "---\ntags: [red.dye]\n---\nSome words.", "tags.red.dye.md": "Red."}
    assert build_edges(read(tmp_path / "d", pages | {"dendron.yml": ""}), Links(field="links")) == [
        ("a.md", "tags.red.dye.md", "links")
    ]
    assert build_edges(read(tmp_path / "o", pages | {"Home.md": "[[a]]"}), Links(field="links")) == [("Home.md", "a.md", "links")]


def test_a_name_that_many_folders_have_is_none_for_links_of_markdown():
    book = AddressBook(["a/README.md", "b/README.md", "a/Card.md", "b/Card.md", "c/x.md"])
    assert book.find("README.md", "c/x.md") is None and book.find("Card.md", "c/x.md") == ("a/Card.md", "")
