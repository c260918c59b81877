"""reStructuredText: what a person reads, and where its roles lead."""

import sys

import pytest

from graph_retrievers.construction import DocumentStructure, Links, build_edges, read_folder
from graph_retrievers.construction.cross_references import resolved
from graph_retrievers.construction.rst import read_rst
from tests.pages import WORDS, read


def blocks(text):
    return resolved({"a.rst": read_rst(text)})["a.rst"].blocks


def texts(text):
    return [block.text for block in blocks(text)]


def links(text):
    return [link for block in blocks(text) for link in block.links]


def test_sections_have_their_levels_and_anchors():
    page = read_rst("=====\nLooms\n=====\n\n.. _holes:\n\nThe *cards*\n===========\n\nDeeper\n------\n\ntext")
    assert page.title == "Looms"
    assert [(block.text, block.level, block.anchors) for block in page.blocks] == [
        ("Looms", 1, ("looms",)),
        ("The cards", 2, ("holes", "the-cards")),
        ("Deeper", 3, ("deeper",)),
        ("text", 0, ()),
    ]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("a *b* **c** ``d``", "a b c d"),
        ("10\\ :sup:`25` and H\\ :sub:`2`\\ O", "10^25 and H2O"),
        (":pep:`561`, :rfc:`2119`", "PEP 561, RFC 2119"),
        (":func:`weave`, :meth:`~loom.Loom.lift`, :class:`.Loom`", "weave(), lift(), Loom"),
        (":class:`a loom <Loom>`, :class:`!Loom`", "a loom, Loom"),
        (":kbd:`Ctrl`, :menuselection:`File --> Open`, :file:`a/{b}`", "Ctrl, File --> Open, a/b"),
        (":never-heard-of:`words` and `words <https://x.org>`__", "words and words"),
        ("text [1]_ and [#a]_ and [#]_\n\n.. [1] one", "text and and"),
        (".. |loom| replace:: the *loom*\n\n|loom| and |release| and |no|", "the loom and and |no|"),
        ("| a\n|   b", "a b"),
        ("*args and `open", "*args and `open"),
        ("a::\n\n    x = 1\n      y", "a:"),
    ],
)
def test_what_a_person_reads(source, shown):
    assert " ".join(texts(source)[0].split()) == shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("- a\n\n  b\n- c", ["- a", "b", "- c"]),
        ("3. a\n4. b\n\ntext\n\n(a) c\n(b) d", ["3. a", "4. b", "text", "(a) c", "(b) d"]),
        ("term : kind\n   what it is", ["term : kind", "what it is"]),
        ("text\n\n:name: value\n:empty:", ["text", "name: value", "empty:"]),
        ("-v, --verbose  tell more", ["-v, --verbose  tell more"]),
        (".. note:: Care\n   with it.\n\n   More.", ["Note", "Care with it.", "More."]),
        (".. admonition:: By the *way*\n\n   Text.", ["By the way", "Text."]),
        (".. versionchanged:: 3.2 It is faster.", ["Changed in version 3.2: It is faster."]),
        (".. deprecated:: 3.2\n   Use another.", ["Deprecated since version 3.2: Use another."]),
        (".. code-block:: python\n   :caption: Weave\n\n   weave(*a)\n     it", ["Weave", "weave(*a)\n  it"]),
        (".. code-block:: python\n\n   x = 1", ["x = 1"]),
        (".. math:: a^2\n", ["a^2"]),
        (".. figure:: a.png\n   :alt: A loom\n\n   The loom.", ["A loom", "The loom."]),
        (".. never-heard-of:: An argument\n   :option: x\n\n   Content *here*.", ["An argument", "Content here."]),
        (".. table:: Sizes\n\n   == ==\n   a  b\n   == ==\n   1  2\n   == ==", ["Sizes", "a | b", "1 | 2"]),
        (".. csv-table::\n   :header: a, b\n\n   1, \"2, 3\"", ["a | b", "1 | 2, 3"]),
        (".. list-table::\n   :header-rows: 1\n\n   * - a\n     - b\n   * - 1\n     - 2", ["a | b", "1 | 2"]),
        (".. glossary::\n\n   warp\n   weft\n      Threads.", ["warp", "weft", "Threads."]),
        (".. function:: weave(*args)\n              weave(b)\n\n   Weaves.", ["weave(*args)", "weave(b)", "Weaves."]),
        (".. only:: html\n\n   Text.", ["Text."]),
        (".. class:: small\n\nText.", ["Text."]),
    ],
)  # fmt: skip
def test_forms_of_text(source, shown):
    assert texts(source) == shown


def test_headers_of_tables_lead_and_are_kept_for_later_rows():
    found = blocks("+---+---+\n| a | b |\n+===+===+\n| 1 |   |\n+---+---+\n| 2 | c |\n|   | d |\n+---+---+")
    assert [(block.text, block.leads, block.header) for block in found] == [
        ("a | b", True, ""),
        ("1", False, "a | b"),
        ("2 | c d", False, "a | b"),
    ]


def test_no_code_runs_and_no_file_is_inserted(tmp_path, capfd):
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    source = (
        f".. include:: {secret}\n.. literalinclude:: {secret}\n.. csv-table::\n   :file: {secret}\n\n"
        f".. raw:: html\n   :file: {secret}\n\n.. raw:: html\n\n   <b>raw</b>\n\n"
        ".. role:: danger(raw)\n   :format: html\n\nText :danger:`<b>`.\n\n.. date::\n"
        ".. unknown::\n.. code:: python\n   :number-lines: x\n\n   y\n\n=\nShort\n\n*broken `x |y\n\n.. [x\n"
    )
    found = " ".join(texts(source))
    assert "secret" not in found.replace(str(secret), "") and "raw" not in found and "Text ." in found and "y" in found
    assert capfd.readouterr() == ("", "")


def test_links_of_a_page():
    source = (
        "`a <a.html>`_ b_ `c d`__ e__ f_ `Looms`_ inline_ https://y.org\n\n.. _b: https://b.org\n__ c.html\n__ f_\n.. _f: b_\n\n"
        "_`inline` target [1]_ [#n]_ [#]_\n\n.. [1] one\n.. [#n] two\n.. [#] three\n\nLooms\n=====\n\ntext `no`_"
    )
    assert links(source) == [
        *("a.html", "https://b.org", "c.html", "#looms", "#inline", "https://y.org"),
        *("#footnote-1", "#footnote-2", "#footnote-3"),
    ]  # fmt: skip
    notes = {block.text: block.anchors for block in blocks(source) if block.text.startswith("[")}
    assert notes == {"[1] one": ("footnote-1",), "[2] two": ("footnote-2",), "[3] three": ("footnote-3",)}


TREE = {
    "conf.py": "default_role = 'any'\nrst_epilog = '.. |loom| replace:: LOOM'\nopen('/nowhere/was-run')\n",
    "index.rst": "Looms\n=====\n\nAll of it, |loom|.\n\n.. toctree::\n   :glob:\n\n   guide/start\n   Title <api>\n   more/*\n",
    "guide/start.rst": (
        "Start\n=====\n\n.. _here:\n\nFirst steps\n-----------\n\n"
        "See :ref:`here`, :ref:`the holes <holes>`, :doc:`../api`, :doc:`/more/one`, :numref:`fig`, :term:`warp`, :term:`warps`, "
        "`Loom`, `loom.weave` and `nothing`.\n\n:ref:`nowhere`, :doc:`nowhere`, :func:`open`.\n"
    ),
    "api.rst": (
        "API\n===\n\n.. module:: loom\n\n"
        ".. class:: Loom\n\n   .. method:: lift(card)\n\n      See :meth:`drop`, :meth:`Loom.drop`.\n\n   .. method:: drop()\n\n"
        ".. function:: weave(a)\n\n   Uses :class:`Loom`, :meth:`.lift`, :meth:`loom.Loom.lift`, :mod:`loom`.\n\n"
        ".. autoclass:: Mill\n   :members:\n\n.. program:: loom\n\n.. option:: -v, --verbose\n\n   text\n\n"
        ".. confval:: speed\n\n   text\n"
    ),
    "more/one.rst": (
        ".. _Holes:\n\nCards with holes\n================\n\n.. figure:: a.png\n   :name: fig\n\n   A card\n\n"
        ".. glossary::\n\n   Warp\n      Threads.\n\n"
        ":option:`loom -v`, :option:`loom --verbose`, :confval:`speed`, :meth:`loom.Mill.turn`, :func:`~loom.weave`, "
        ":py:func:`loom.weave`, [B]_\n"
    ),
    "more/two.rst": "Two\n===\n\n.. [B] A book.\n\n`start <../guide/start.html#first-steps>`_ :any:`holes` :obj:`loom.Loom`\n",
}  # fmt: skip


def test_roles_lead_across_the_files_of_a_project(tmp_path):
    nodes = {node.id: node for node in read(tmp_path, TREE)}
    assert nodes["index.rst"].text == "All of it, LOOM."
    assert nodes["index.rst"].metadata["contents"] == ["/guide/start.rst", "/api.rst", "/more/one.rst", "/more/two.rst"]
    start, api, one, two = (nodes[name] for name in ("guide/start.rst", "api.rst", "more/one.rst", "more/two.rst"))
    assert start.metadata["links"] == [
        "/guide/start.rst#here",
        "/more/one.rst#holes",
        "/api.rst",
        "/more/one.rst",
        "/more/one.rst#fig",
        "/more/one.rst#term-warp",
        "/api.rst#loom.Loom",
        "/api.rst#loom.weave",
    ]
    assert start.text.split("\n")[-2:] == [
        "See First steps, the holes, API, Cards with holes, A card, warp, warps, Loom, loom.weave and nothing.",
        "nowhere, nowhere, open().",
    ]
    assert api.metadata["links"] == [
        *("/api.rst#loom.Loom.drop", "/api.rst#loom.Loom", "/api.rst#loom.Loom.lift", "/api.rst#loom"),
    ]
    assert one.metadata["links"] == [
        *("/api.rst#option-loom-v", "/api.rst#option-loom-verbose", "/api.rst#confval-speed", "/api.rst#loom.Mill"),
        *("/api.rst#loom.weave", "/more/two.rst#b"),
    ]
    assert two.metadata["links"] == ["/guide/start.rst#first-steps", "/more/one.rst#holes", "/api.rst#loom.Loom"]
    # Every link leads to an anchor that there is.
    held = {node.metadata["path"]: set(node.metadata["anchors"]) for node in nodes.values()}
    for node in nodes.values():
        for link in node.metadata["links"]:
            page, _, anchor = link[1:].partition("#")
            assert not anchor or anchor in held[page], link


@pytest.mark.parametrize(
    "config", ["rst_epilog = (", "(" * 10_000, "\x00", "#" * 1_000_001 + "\nrst_epilog = '.. |a| replace:: b'", "rst_epilog = 5"]
)
def test_settings_that_cannot_be_read_are_none(tmp_path, config):
    assert read(tmp_path, {"conf.py": config, "a.rst": "The text |a|."})[0].text == "The text |a|."


def test_a_link_leads_to_the_section_with_its_label(tmp_path):
    long = WORDS * 20
    files = {"a.rst": f"A\n=\n\n:ref:`two`\n\n{long}", "b.rst": f"B\n=\n\n{long}\n\n.. _two:\n\nTwo\n---\n\n{long}"}
    nodes = read(tmp_path, files)
    assert [(node.id, node.title) for node in nodes] == [("a.rst", "A"), ("b.rst", "B"), ("b.rst#two", "B: Two")]
    assert ("a.rst", "b.rst#two", "links") in build_edges(nodes, [Links(field="links"), DocumentStructure()])


def test_labels_of_another_project_come_last(tmp_path):
    page = ".. _x:\n\nX of {0}\n========\n\n:ref:`x` in {0}.\n"
    files = {f"{name}/{file}": text for name in "ab" for file, text in (("conf.py", ""), ("d.rst", page.format(name)))}
    files |= {"b/e.rst": "E\n=\n\n:ref:`x` and :doc:`/d`\n"}
    assert [node.metadata["links"] for node in read(tmp_path, files)] == [
        ["/a/d.rst#x"],
        ["/b/d.rst#x"],
        ["/b/d.rst#x", "/b/d.rst"],
    ]


def test_a_role_leads_to_a_page_in_the_folder_of_its_kind(tmp_path):
    files = {
        "a/b.rst": "B\n=\n\n:command:`weave()`, :command:`no` and :variable:`LOOM_SIZE`",
        "command/weave.rst": "weave\n=====\n\ntext",
    }
    node = read(tmp_path, files | {"variable/LOOM_SIZE.rst": "LOOM_SIZE\n=========\n\nA size."})[0]
    assert node.text == "weave(), no and LOOM_SIZE"
    assert node.metadata["links"] == ["/command/weave.rst", "/variable/LOOM_SIZE.rst"]


def test_headers_of_peps_are_fields_and_links(tmp_path):
    header = "PEP: 561\nTitle: Type\n Information\nStatus: Final\nRequires: 484, 526\n\n"
    header += "Abstract\n========\n\nSee :pep:`484` and :pep:`8#x`."
    nodes = read(tmp_path, {"pep-0561.rst": header, "pep-0484.rst": "PEP: 484\nTitle: Hints\n\nRationale\n=========\n\ntext"})
    assert [node.title for node in nodes] == ["PEP 484 – Hints", "PEP 561 – Type Information"]
    metadata = nodes[1].metadata
    assert metadata["links"] == ["/pep-0484.rst", "https://peps.python.org/pep-0526/", "https://peps.python.org/pep-0008/#x"]
    assert (metadata["PEP"], metadata["Status"], metadata["Requires"]) == ("561", "Final", "484, 526")
    assert "Requires: 484, 526" in nodes[1].text and "See PEP 484 and PEP 8, x." in nodes[1].text


def test_fields_before_the_text_are_metadata(tmp_path):
    (node,) = read(tmp_path, {"a.rst": ":orphan:\n:author: Ada\n\nLooms\n=====\n\n:kind: text"})
    assert (node.metadata["author"], node.text) == ("Ada", "kind: text") and "orphan" not in node.metadata


BOMB = "".join(f".. |{x}| replace:: {f'|{y}| ' * 10}\n" for x, y in zip("abcdefgh", "bcdefghi", strict=True))
BOMB += ".. |i| replace:: ha\n\n" + "|a| |b| " * 500


@pytest.mark.parametrize(
    "text",
    [
        "".join("  " * depth + "- x\n\n" for depth in range(500)),
        "".join(" " * depth + "x\n" for depth in range(500)),
        "word " * 100_000,
        "x" * 1_000_000,
        "*a " * 5_000,
        "`a <" * 5_000,
        "*a\n" * 5_000,
        "|a|_ " * 5_000,
        "+-" * 500_000,
        ("+--+--+--+--+--+\n|" + "  +" * 5 + "\n") * 2000,
        BOMB,
        ".. _a:\n" * 2_000 + "\ntext",
        "Title\n=====\n\n" * 2_000,
        ".. x::\n" * 2_000,
        ":a:`b` " * 5_000,
    ],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_hostile_texts_are_read(text):
    before = sys.getrecursionlimit()
    page = read_rst(text)
    held = sum(len(block.text) for block in page.blocks)
    assert held < 20_000_000 and sys.getrecursionlimit() == before


def test_a_text_that_cannot_be_parsed_is_plain_text():
    deep = "Deep\n====\n\n" + "".join("  " * depth + "- x\n\n" for depth in range(500))
    assert read_rst(deep).title == "Deep" and len(read_rst(deep).blocks) > 100


def test_nodes_have_what_those_of_other_forms_have(tmp_path):
    (node,) = read_folder(_written(tmp_path), max_tokens=None)
    assert set(node.metadata) == {"path", "chunk_index", "headings", "anchors", "links"}
    assert len(read_folder(tmp_path, max_tokens=60)) == 4


def _written(folder):
    (folder / "a.rst").write_text(f"A\n=\n\n{WORDS * 20}\n\nB\n-\n\n{WORDS * 20}")
    return folder
