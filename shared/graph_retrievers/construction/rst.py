"""reStructuredText pages as blocks: text, headings, anchors, links, and the names that other pages may refer to."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graph_retrievers.construction.cross_references import Reference, Target, mark
from graph_retrievers.construction.pages import Block, Page, once, plain_lines, squeezed
from graph_retrievers.construction.plain_text import read_text

if TYPE_CHECKING:
    from graph_retrievers.construction.rst_parser import Settings

# Characters that docutils uses for backslashes, and that stand for names until all files are read.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_PEP_HEADER = re.compile(r"\A\s*PEP: *\d+\n(?:[!-9;-~]+:.*\n|[ \t]+\S.*\n)+")
_HEADER_FIELD = re.compile(r"^([!-9;-~]+):[ \t]*(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
# Fields of the header of a PEP with numbers of other PEPs.
_PEP_NUMBERS = frozenset(["requires", "replaces", "superseded-by"])
# Roles whose text is only text, and those that name no place.
_TEXT_ROLES = frozenset(
    "abbr abbreviation ac acronym code dfn emphasis file guilabel kbd literal mailheader makevar manpage math mimetype "
    "menuselection newsgroup program raw regexp samp strong subscript sub superscript sup t title-reference title "
    "title_reference".split()
)
_RAISED = frozenset(["superscript", "sup"])
_FUNCTION_ROLES = frozenset(["func", "meth"])
# Most characters that substitutions may add to a page: few definitions can stand for gigabytes of text.
_SUBSTITUTED = 1_000_000
# Most bytes of a conf.py that is read.
_LONGEST_CONFIG = 1_000_000
# The names in "|release|" and the like, which conf.py defines when it runs.
_OF_SPHINX = frozenset(["version", "release", "today"])


def read_rst(text: str, settings: Settings | None = None) -> Page:
    r"""Return a page of reStructuredText as blocks.

    No directive and no role is unknown: those of Sphinx that lead to other places are read as links, all others as text. No code
    is run and no file is inserted. The title is the first heading, of a PEP its number and title; fields before the first text,
    and those of the header of a PEP, are fields of the page. Names that roles refer to, also on other pages, are left open: see
    :func:`~graph_retrievers.construction.cross_references.resolved`. A text that docutils cannot read, such as a hundred nested
    quotations, is read as plain text.

    Parameters
    ----------
    text : str
    settings : Settings, optional
        What the ``conf.py`` of the project says; see :func:`sphinx_settings`.

    Examples
    --------
    >>> page = read_rst("Looms\n=====\n\n.. _cards:\n\nCards\n-----\n\nSee `the mill <mill.html>`_, not :kbd:`Ctrl`.")
    >>> [(block.text, block.level, block.anchors, block.links) for block in page.blocks]
    [('Looms', 1, ('looms',), ()), ('Cards', 2, ('cards',), ()), ('See the mill, not Ctrl.', 0, (), ('mill.html',))]
    """
    from graph_retrievers.construction import rst_parser

    settings = settings or rst_parser.Settings()
    text = _CONTROL.sub(" ", plain_lines(text)).expandtabs(8)
    header = _PEP_HEADER.match(text)
    fields = {name: " ".join(value.split()) for name, value in _HEADER_FIELD.findall(header[0])} if header else {}
    body = text[header.end() :] if header else text
    reader = _Reader()
    try:
        reader.read(rst_parser.parse_rst(f"{settings.prolog}\n\n{body}\n\n{settings.epilog}", settings))
    except Exception:
        # Whatever docutils cannot read is still a text.
        return read_text(text)
    blocks, title = reader.blocks, next((block.text for block in reader.blocks if block.level), "")
    if header:
        title = f"PEP {fields['PEP']} – {fields.get('Title', '')}".rstrip(" –")
        blocks = [*reader.header(fields), *blocks]
    return Page(
        title,
        blocks,
        tuple(dict.fromkeys(reader.contents)),
        is_title_stated=bool(header),
        fields=fields or reader.fields,
        references=tuple(reader.references),
        targets=tuple(reader.targets),
    )


def sphinx_settings(folder: Path, root: Path) -> Settings:
    """Return what the ``conf.py`` nearest to a folder says, as text, in a folder up to the one around `root`; it is not run."""
    from graph_retrievers.construction.rst_parser import Settings

    path = next((path for path in config_folders(folder, root)), None)
    if path is None:
        return Settings()
    try:
        file_stat = (path / "conf.py").stat()
    except OSError:
        return Settings()
    constants = _constants(path / "conf.py", file_stat.st_mtime_ns) if file_stat.st_size <= _LONGEST_CONFIG else {}
    return Settings(*(constants.get(name, "") for name in ("default_role", "primary_domain", "rst_prolog", "rst_epilog")))


# All files of a project have the same settings.
@lru_cache(maxsize=4)
def _constants(path: Path, changed: int) -> Mapping[str, str]:
    """Return the texts that a Python file assigns to names, by its source; it is read again if `changed` is another time."""
    constants: dict[str, str] = {}
    # Python warns of backslashes in the texts of others.
    with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in ast.parse(path.read_bytes()).body:
            if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str):
                constants |= {target.id: line.value.value for target in line.targets if isinstance(target, ast.Name)}
    return constants


def config_folders(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the folders with a ``conf.py`` around a folder, the nearest first, up to the one around `root`."""
    last = root.resolve().parent
    for place in (folder.resolve(), *folder.resolve().parents):
        if (place / "conf.py").is_file():
            yield place
        if place == last:
            return


def anchor_of(name: str) -> str:
    """Return the anchor that docutils and Sphinx make of a name.

    >>> anchor_of("What is new in 3.2?")
    'what-is-new-in-3-2'
    """
    from docutils.nodes import make_id

    return str(make_id(name))


class _Reader:
    """Collects blocks from a tree of docutils."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.contents: list[str] = []
        self.references: list[Reference] = []
        self.targets: list[Target] = []
        self.fields: dict[str, str] = {}
        # These belong to the next block: its anchors, the labels among them, links, and the mark of a list's item.
        self._anchors: list[str] = []
        self._labels: list[str] = []
        self._links: list[str] = []
        self._mark = ""
        self._level = 0
        # The address to which each name in the page leads.
        self._links_by_name: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._anonymous: Iterator[str] = iter(())
        self._substitutions: Mapping[str, Any] = {}
        self._cases: Mapping[str, str] = {}
        self._room = _SUBSTITUTED
        self._substituting: set[str] = set()
        self._numbers: Iterator[str] = iter(())
        self._footnotes: Iterator[str] = iter(())

    def read(self, document: Any) -> None:
        from docutils import nodes

        self._nodes = nodes
        self._substitutions, self._cases = document.substitution_defs, document.substitution_names
        anonymous = []
        for target in document.findall(nodes.target):
            names = [*target["names"], *target["dupnames"]]
            if "refuri" in target:
                address = str(target["refuri"])
            elif "refname" in target:
                address = ""
            else:
                address = f"#{anchor_of(names[0])}" if names else ""
            for name in names:
                if "refname" in target:
                    self._aliases[name] = str(target["refname"])
                else:
                    self._links_by_name[name] = address
            if target.get("anonymous"):
                anonymous.append(address or f"\0{target.get('refname', '')}")
        for section in document.findall(nodes.section):
            for name in [*section["names"], *section["dupnames"]]:
                self._links_by_name.setdefault(str(name), f"#{anchor_of(name)}")
        numbers = {str(note[0].astext()) for note in document.findall(nodes.footnote) if not note.get("auto") and len(note)}
        free_numbers = (str(number) for number in range(1, 1 << 30) if str(number) not in numbers)
        self._numbers = free_numbers
        labels: dict[str, str] = {}
        auto = []
        for note in document.findall(nodes.footnote):
            if note.get("auto"):
                number = next(free_numbers) if note["auto"] == 1 else "*"
                for name in [*note["names"], *note["dupnames"]]:
                    labels[str(name)] = number
                if not note["names"]:
                    auto.append(number)
                note["shown"] = number
        self._note_labels = labels
        self._footnotes = iter(auto)
        self._anonymous = iter(anonymous)
        self.body(document)
        if self._anchors or self._links:
            if self.blocks:
                last = self.blocks[-1]
                anchors, links = (*last.anchors, *self._anchors), (*last.links, *self._links)
                self.blocks[-1] = Block(last.text, last.level, once(anchors), once(links), last.leads, None, last.header)
            self._label("")

    def header(self, fields: Mapping[str, str]) -> list[Block]:
        """Return the fields of the header of a PEP as blocks."""
        blocks = []
        for name, value in fields.items():
            links = []
            if name.lower() in _PEP_NUMBERS:
                for number in re.findall(r"\d+", value):
                    links.append(self._reference(Reference("pep", number)))
            blocks.append(Block(f"{name}: {value}", links=once(links)))
        return blocks

    # Blocks

    def add(self, text: str, level: int = 0, leads: bool = False, header: str = "", title: str = "") -> None:
        """Add a block with the anchors and links before and in it; `title` is what it is called where it is referred to."""
        text = text.strip("\n").rstrip()
        if not text.strip():
            return
        text, self._mark = self._mark + text, ""
        self.blocks.append(Block(text, level, once(self._anchors), once(self._links), leads, None, header))
        self._label(title)
        self._anchors, self._links = [], []

    def _label(self, title: str) -> None:
        self.targets += [Target("label", name, anchor_of(name), title) for name in self._labels]
        self._labels = []

    def body(self, parent: Any) -> None:
        for node in parent.children:
            handler = getattr(self, f"_read_{type(node).__name__}", None)
            if handler is not None:
                handler(node)
            elif isinstance(node, self._nodes.TextElement):
                self.add(self.inline(node))
            else:
                self.body(node)

    def _names(self, node: Any) -> list[str]:
        return [str(name) for name in [*node.get("names", ()), *node.get("dupnames", ())]]

    def _read_section(self, node: Any) -> None:
        self._level += 1
        names = self._names(node)
        title = node.children[0] if node.children and isinstance(node.children[0], self._nodes.title) else None
        if title is not None:
            text = " ".join(self.inline(title).split())
            plain = " ".join(title.astext().split())
            self._anchors += filter(None, (anchor_of(name) for name in names))
            self.targets += [Target("section", name, anchor_of(name), plain) for name in names]
            self._mark = ""
            self.add(text, min(self._level, 6), True, title=plain)
        rest = self._nodes.Element()
        rest.children = node.children[1:] if title is not None else node.children
        self.body(rest)
        self._level -= 1

    def _read_paragraph(self, node: Any) -> None:
        is_bold = bool(node.children) and all(
            isinstance(child, self._nodes.strong) or not child.astext().strip() for child in node.children
        )
        self.add(squeezed(self.inline(node)), leads=is_bold)

    def _read_target(self, node: Any) -> None:
        if "refuri" in node or "refname" in node:
            return
        names = self._names(node)
        self._anchors += filter(None, map(anchor_of, names))
        self._labels += names

    def _read_bullet_list(self, node: Any) -> None:
        self._items(node, lambda place: "- ")

    def _read_enumerated_list(self, node: Any) -> None:
        start, kind = int(node.get("start", 1)), node.get("enumtype", "arabic")
        before, after = node.get("prefix", ""), node.get("suffix", ".")
        self._items(node, lambda place: f"{before}{_enumerator(start + place, kind)}{after} ")

    def _items(self, node: Any, marker: Any) -> None:
        for place, item in enumerate(node.children):
            self._mark = marker(place)
            self.body(item)
            self._mark = ""

    def _read_definition_list_item(self, node: Any) -> None:
        term = " : ".join(
            self.inline(child) for child in node.children if isinstance(child, self._nodes.term | self._nodes.classifier)
        )
        self.add(" ".join(term.split()), leads=True)
        for child in node.children:
            if isinstance(child, self._nodes.definition):
                self.body(child)

    def _read_field_list(self, node: Any) -> None:
        fields = [(child[0].astext(), child[1]) for child in node.children if len(child.children) == 2]
        if not self.blocks and self._level == 0 and node.parent is not None and isinstance(node.parent, self._nodes.document):
            values = {name: " ".join(body.astext().split()) for name, body in fields}
            self.fields |= {name: value for name, value in values.items() if value}
            return
        for child in node.children:
            self._mark = f"{' '.join(self.inline(child[0]).split())}: "
            self.body(child[1]) if len(child.children) > 1 else None
            if self._mark:
                text, self._mark = self._mark, ""
                self.add(text)

    def _read_option_list_item(self, node: Any) -> None:
        options = ", ".join(option.astext() for option in node[0].children)
        self._mark = f"{options}  "
        self.body(node[1])
        if self._mark:
            text, self._mark = self._mark, ""
            self.add(text)

    def _read_line_block(self, node: Any) -> None:
        self.add("\n".join(self._lines(node, "")))

    def _lines(self, node: Any, indent: str) -> Iterator[str]:
        for child in node.children:
            if isinstance(child, self._nodes.line_block):
                yield from self._lines(child, indent + "  ")
            else:
                yield indent + " ".join(self.inline(child).split())

    def _read_literal_block(self, node: Any) -> None:
        self.add(self.inline(node))

    _read_doctest_block = _read_math_block = _read_literal_block

    def _read_footnote(self, node: Any) -> None:
        children = node.children
        label = node.get("shown", "")
        rest = self._nodes.Element()
        rest.children = children
        if children and isinstance(children[0], self._nodes.label):
            label = children[0].astext()
            rest.children = children[1:]
        names = self._names(node)
        if type(node).__name__ == "citation":
            self.targets.append(Target("cite", label, anchor_of(label), ""))
            self._anchors.append(anchor_of(label))
        else:
            self._anchors.append(f"footnote-{label}")
            for name in names:
                self._links_by_name.setdefault(name, f"#footnote-{label}")
        self._mark = f"[{label}] "
        self.body(rest)
        self._mark = ""

    _read_citation = _read_footnote

    def _read_table(self, node: Any) -> None:
        for child in node.children:
            if isinstance(child, self._nodes.title):
                self.add(self.inline(child), leads=True, title=child.astext())
        rows = [
            (row, isinstance(part, self._nodes.thead))
            for group in node.findall(self._nodes.tgroup)
            for part in group
            for row in part
        ]
        self._rows([(row, is_header) for row, is_header in rows if isinstance(row, self._nodes.row)])

    def _read_RowsNode(self, node: Any) -> None:
        self._rows([(row, place < node["header"]) for place, row in enumerate(node.children)])

    def _rows(self, rows: Sequence[tuple[Any, bool]]) -> None:
        header = ""
        for row, is_header in rows:
            cells = [self._cell(entry) for entry in row.children]
            while cells and not cells[-1]:
                cells.pop()
            text = " | ".join(cells)
            self.add(text, leads=is_header, header="" if is_header else header)
            header = text if is_header else header

    def _cell(self, entry: Any) -> str:
        blocks, self.blocks = self.blocks, []
        before = self._anchors, self._links
        self._anchors, self._links = [], []
        self.body(entry)
        cell_blocks, self.blocks = self.blocks, blocks
        self._anchors = [*before[0], *(name for block in cell_blocks for name in block.anchors), *self._anchors]
        self._links = [*before[1], *(link for block in cell_blocks for link in block.links), *self._links]
        return " ".join(" ".join(block.text.split()) for block in cell_blocks)

    def _read_image(self, node: Any) -> None:
        self.add(str(node.get("alt", "")))

    def _read_rubric(self, node: Any) -> None:
        self.add(" ".join(self.inline(node).split()), leads=True, title=node.astext())

    _read_title = _read_rubric

    def _read_reference(self, node: Any) -> None:
        self.add(self._text(node))

    _read_RoleNode = _read_reference

    def _read_BoxNode(self, node: Any) -> None:
        if label := node["label"]:
            self._anchors.append(anchor_of(label))
            self._labels.append(" ".join(label.split()).lower())
        if node["title"]:
            # A figure, whose caption comes behind the picture.
            self._label(node["title"])
        for name in node.get("names_", ()):
            self._define(name)
        self.body(node)

    def _read_DefinitionNode(self, node: Any) -> None:
        if label := node["label"]:
            self._anchors.append(anchor_of(label))
            self._labels.append(" ".join(label.split()).lower())
        if node["link"]:
            kind, link = node["link"]
            self._links.append(link if kind == "url" else self._reference(Reference(kind, link)))
        for name in node["names_"]:
            self._define(name)
        terms = [child for child in node.children if isinstance(child, self._nodes.term)]
        for term in terms:
            self.add(" ".join(self.inline(term).split()), leads=True, title=term.astext())
        rest = self._nodes.Element()
        rest.children = [child for child in node.children if not isinstance(child, self._nodes.term)]
        self.body(rest)

    def _define(self, name: Any) -> None:
        if name.kind == "term":
            anchor = f"term-{anchor_of(name.name)}"
        elif name.kind in ("py", "c", "cpp", "js", "rst"):
            anchor = name.name
        else:
            anchor = f"{name.kind}-{anchor_of(name.name)}"
        self._anchors.append(anchor)
        self.targets.append(Target(name.kind, name.name, anchor, "", name.whole))

    def _read_ContentsNode(self, node: Any) -> None:
        if file := node.get("included"):
            self._links.append(self._reference(Reference("file", file)))
        for entry in node["entries"]:
            if "://" in entry:
                self.contents.append(entry)
            else:
                self.contents.append(self._reference(Reference("glob" if node["glob"] else "doc", entry)))

    def _read_system_message(self, node: Any) -> None:
        # The source of an element that could not be read is kept as text.
        for child in node.children:
            if isinstance(child, self._nodes.literal_block):
                self.add(child.astext())

    def _nothing(self, node: Any) -> None:
        """Leave out an element that has no text to read."""

    _read_comment = _read_substitution_definition = _read_transition = _read_pending = _read_raw = _read_decoration = _nothing

    # Text

    def inline(self, node: Any) -> str:
        """Return what a person reads of the parts of a text, and note its links and anchors."""
        return "".join(map(self._text, node.children))

    def _text(self, node: Any) -> str:
        kind = type(node).__name__
        if kind == "Text":
            return str(node.astext())
        handler = getattr(self, f"_text_{kind}", None)
        return self.inline(node) if handler is None else str(handler(node))

    def _text_reference(self, node: Any) -> str:
        text = self.inline(node)
        if "refuri" in node:
            link = str(node["refuri"])
        elif node.get("anonymous"):
            link = next(self._anonymous, "")
            link = self._link_of(link[1:]) if link.startswith("\0") else link
        else:
            link = self._link_of(str(node.get("refname", "")))
        if link:
            self._links.append(link)
        return text

    def _link_of(self, name: str) -> str:
        visited: set[str] = set()
        while name in self._aliases and name not in visited:
            visited.add(name)
            name = self._aliases[name]
        return self._links_by_name.get(name, "")

    def _text_target(self, node: Any) -> str:
        # Embedded addresses, "`text <address>`_", are targets too.
        if "refuri" not in node and "refname" not in node:
            names = self._names(node)
            self._anchors += filter(None, map(anchor_of, names))
            self.targets += [Target("label", name, anchor_of(name), "") for name in names]
        return self.inline(node)

    def _text_footnote_reference(self, node: Any) -> str:
        name = str(node.get("refname", ""))
        if node.get("auto") and name:
            label = self._note_labels.get(name, "")
        elif node.get("auto"):
            label = next(self._footnotes, "")
        else:
            label = node.astext()
        if label:
            self._links.append(f"#footnote-{label}")
        return ""

    def _text_citation_reference(self, node: Any) -> str:
        self._links.append(self._reference(Reference("cite", node.astext())))
        return f"[{node.astext()}]"

    def _text_substitution_reference(self, node: Any) -> str:
        name = str(node.get("refname", node.astext()))
        substitution = self._substitutions.get(name) or self._substitutions.get(self._cases.get(name.lower(), ""))
        if substitution is None or name in self._substituting or self._room <= 0:
            return "" if name in _OF_SPHINX else f"|{node.astext()}|"
        self._substituting.add(name)
        text = self.inline(substitution)
        self._substituting.discard(name)
        self._room -= len(text) + 1
        return text

    def _text_image(self, node: Any) -> str:
        return str(node.get("alt", ""))

    def _text_superscript(self, node: Any) -> str:
        return f"^{self.inline(node)}"

    def _text_system_message(self, node: Any) -> str:
        return ""

    _text_raw = _text_system_message

    def _text_RoleNode(self, node: Any) -> str:
        role, text, target = str(node["role"]).lower(), node.astext(), str(node["target"])
        if role in _RAISED:
            return f"^{text}"
        if role in _TEXT_ROLES or not role:
            return re.sub(r"[{}]", "", text) if role in ("samp", "file") else text
        if target.startswith("!"):
            return text.removeprefix("!")
        has_text = node["given"]
        domain, _, name = role.removeprefix("external:").partition(":")
        if not name:
            domain, name = "", domain
        context = node["context"]
        link = self._reference(Reference(name, target, _role_text(name, target), domain, context))
        self._links.append(link)
        return text if has_text else link

    def _reference(self, reference: Reference) -> str:
        """Return the mark that stands for a reference until all pages are read."""
        self.references.append(reference)
        return mark(len(self.references) - 1)


def _role_text(role: str, target: str) -> str:
    """Return what a role without a text of its own shows, unless the place that it names has a title."""
    text = target
    if role in ("pep", "rfc"):
        number, _, place = target.partition("#")
        return f"{role.upper()} {number}{f', {place}' if place else ''}"
    if target.startswith("~"):
        text = re.split(r"[.:]", target[1:])[-1]
    text = text.lstrip(".~")
    return f"{text}()" if role in _FUNCTION_ROLES and not text.endswith(")") else text


def _enumerator(number: int, kind: str) -> str:
    if kind in ("loweralpha", "upperalpha") and 0 < number <= 26:
        return chr(number + (96 if kind == "loweralpha" else 64))
    if kind in ("lowerroman", "upperroman") and 0 < number < 4000:
        values = zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), "M CM D CD C XC L XL X IX V IV I".split(), strict=True)
        roman = ""
        for value, letters in values:
            roman += letters * (number // value)
            number %= value
        return roman.lower() if kind == "lowerroman" else roman
    return str(number)
