"""reStructuredText as a tree of docutils, read loosely: no directive or role is unknown, none runs code or opens a file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser, states
from docutils.statemachine import StringList
from docutils.utils import new_document, unescape

# Characters of a line, and of a paragraph whose roles and links are read together: the parser looks for the end of each mark in all
# of the rest.
_LONG_LINE, _LONG_TEXT = 5_000, 4_000
# Corners of a table that is drawn with lines; the parser compares them to one another.
_CORNERS = 5_000
_EXPLICIT = re.compile(r"^(.+?)\s*(?<!\\)<([^<]*?)>$", re.DOTALL)
_OPTION = re.compile(r":([\w-][\w .:-]*):(?:\s+(.*)|)$")

# Directives by what they hold. Those in none of these sets are read as text: their argument and what is below it.
_NOTHING = frozenset(
    "index highlight highlightlang meta sectnum section-numbering contents raw tabularcolumns rst-class cssclass target-notes "
    "header footer date sectionauthor codeauthor moduleauthor testsetup testcleanup title".split()
)
_CODE = frozenset(
    "code code-block sourcecode math doctest testcode testoutput prompt ipython ipython3 code-cell jupyter-execute graphviz "
    "digraph graph mermaid uml plantuml productionlist plot tikz".split()
)
_TITLES = {
    "note": "Note", "warning": "Warning", "tip": "Tip", "hint": "Hint", "important": "Important", "caution": "Caution",
    "danger": "Danger", "error": "Error", "attention": "Attention", "seealso": "See also", "todo": "Todo",
}  # fmt: skip
_VERSIONS = {
    "versionadded": "Added in version", "versionchanged": "Changed in version", "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version", "deprecated-removed": "Deprecated since version",
}  # fmt: skip
_PYTHON = frozenset(
    "function class method attribute exception data classmethod staticmethod decorator decoratormethod property type".split()
)
_AUTO = re.compile(r"auto(function|class|method|attribute|exception|data|module|decorator|property|type|protocol)$")
_DOMAINS = frozenset("py c cpp js rst std".split())
_SIMPLE_NAME = re.compile(r"[\w.]+")


class Context(NamedTuple):
    """Where a name is written, which completes it: the domain, module, class and program around it."""

    domain: str = "py"
    module: str = ""
    class_: str = ""
    program: str = ""


@dataclass
class Settings:
    """What the ``conf.py`` of a project says about its pages."""

    default_role: str = ""
    domain: str = "py"
    prolog: str = ""
    epilog: str = ""


@dataclass
class Name:
    """A name that a text defines, such as that of a function: its kind, and whether its members are described by its code."""

    kind: str
    name: str
    whole: bool = False


@dataclass
class Directive:
    """The parts of a directive as written."""

    name: str
    arguments: list[str]
    options: dict[str, str]
    content: Any
    offset: int
    lineno: int
    alt: str = ""
    names: list[Name] = field(default_factory=list)

    @property
    def argument(self) -> str:
        """The arguments in one line."""
        return " ".join(" ".join(self.arguments).split())


class RoleNode(nodes.Inline, nodes.TextElement):
    """A name or a text in a role."""


class DefinitionNode(nodes.General, nodes.Element):
    """What a directive describes: its signatures, and the text about them."""


class BoxNode(nodes.General, nodes.Element):
    """A piece of text, which may have a title."""


class ContentsNode(nodes.General, nodes.Element):
    """A list of pages."""


class RowsNode(nodes.General, nodes.Element):
    """A table."""


def parse_rst(text: str, settings: Settings) -> nodes.document:
    """Return a text as a document of docutils, with the elements of this module; nothing is written to stderr.

    Raises what docutils raises for a text that it cannot read, such as RecursionError for a hundred nested quotations.
    """
    options = get_default_settings(Parser)
    options.report_level = options.halt_level = 6
    options.warning_stream = ""
    options.file_insertion_enabled = options.raw_enabled = False
    options.line_length_limit = 10 * _LONG_LINE
    document = new_document("", options)
    parser = Parser(inliner=_Inliner(settings))
    parser.state_classes = _STATES
    parser.parse("\n".join(_short_lines(text)), document)
    return document


def _short_lines(text: str) -> list[str]:
    """Return lines, those of over 5,000 characters in pieces with the same indentation; tables with too many corners as code."""
    lines: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())][: _LONG_LINE // 2]
        rest = line if len(line) <= _LONG_LINE else line.strip()
        step = _LONG_LINE - len(indent)
        while len(rest) > _LONG_LINE:
            cut = rest.rfind(" ", 1, step) + 1 or step
            lines.append(indent + rest[:cut])
            rest = rest[cut:]
        lines.append(rest if rest is line else indent + rest)
    begin = 0
    while begin < len(lines):
        end = begin
        while end < len(lines) and lines[end].lstrip()[:1] in ("+", "|") and lines[end].strip():
            end += 1
        if sum(line.count("+") for line in lines[begin:end]) > _CORNERS and lines[begin].lstrip().startswith("+"):
            indent = lines[begin][: len(lines[begin]) - len(lines[begin].lstrip())]
            lines[begin:end] = [f"{indent}::", "", *(f"    {line}" for line in lines[begin:end])]
            end += 2
        begin = max(end, begin + 1)
    return lines


class _Inliner(states.Inliner):
    """Reads every role as a name with a text."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.default = settings.default_role
        self.raw: set[str] = set()
        self.context = Context(settings.domain or "py")
        self.primary = self.context.domain

    def parse(self, text: str, lineno: int, memo: Any, parent: Any) -> Any:
        elements, messages = [], []
        for piece in _pieces(text):
            more_elements, more_messages = super().parse(piece, lineno, memo, parent)
            elements += more_elements
            messages += more_messages
        return elements, messages

    def problematic(self, text: str, rawsource: str, message: Any) -> Any:
        # The element has no number by which the message refers to it, since hundreds of thousands of numbers take long.
        return nodes.problematic(rawsource, text)

    def interpreted(self, rawsource: str, text: str, role: str, lineno: int) -> Any:
        name = role or self.default
        raw = unescape(text, True)
        if name in self.raw:
            return [], []
        match = _EXPLICIT.match(raw)
        title, target = (match[1], match[2]) if match else (raw, raw)
        plain = " ".join(title.replace("\\", "").split())
        node = RoleNode(rawsource, plain)
        node["role"], node["target"], node["given"] = name, " ".join(target.split()), match is not None
        node["context"] = self.context
        return [node], []


# The class with which `_Loose` is combined: one of the many classes of states of the parser.
_State: Any = object


class _Loose(_State):
    """Reads every directive by itself; a base class of all states."""

    nested_sm_cache: list[Any] = []

    def __init__(self, state_machine: Any, debug: bool = False) -> None:
        super().__init__(state_machine, debug)
        self.nested_sm_kwargs = {"state_classes": _STATES, "initial_state": "Body"}

    def directive(self, match: Any, **presets: Any) -> Any:
        lineno = self.state_machine.abs_line_number()
        block, _, offset, finish = self.state_machine.get_first_known_indented(match.end(), strip_top=0)
        directive = _directive(match.group(1).lower(), block, offset, lineno, presets.get("alt", ""))
        return self.read(directive), finish or self.state_machine.is_next_line_blank()

    def read(self, directive: Directive) -> list[Any]:
        """Return the elements of a directive."""
        domain, _, name = directive.name.partition(":")
        if domain not in _DOMAINS:
            domain, name = "", directive.name
        handler = getattr(self, f"read_{name.replace('-', '_')}", None)
        if directive.name in _NOTHING:
            return []
        if name in _CODE:
            return self.code(directive)
        if directive.name in _TITLES:
            return self.box(directive, _TITLES[directive.name], [*directive.arguments])
        if directive.name in _VERSIONS:
            version, _, rest = directive.argument.partition(" ")
            if directive.name == "deprecated-removed":
                removal, _, rest = rest.partition(" ")
                version = f"{version}, to be removed in {removal}"
            return self.box(directive, "", [f"{_VERSIONS[directive.name]} {version}: {rest}".rstrip(": ")])
        if handler is not None and (not domain or name in ("module", "currentmodule")):
            return handler(directive)
        return self.described(directive, domain, name)

    # The content of a directive

    def nested(self, directive: Directive, sections: bool = False) -> list[Any]:
        parent = nodes.container()
        parent.document = self.document
        if directive.content:
            self.nested_parse(directive.content, directive.offset, parent, match_titles=sections)
        return parent.children

    def inline(self, text: str, lineno: int) -> list[Any]:
        elements, messages = self.inliner.parse(text, lineno, self.memo, self.parent)
        return elements

    def paragraph_of(self, text: str, lineno: int) -> Any:
        return nodes.paragraph(text, "", *self.inline(text, lineno))

    def box(self, directive: Directive, title: str, first: Sequence[str] = (), sections: bool = False) -> list[Any]:
        box = BoxNode(title=title, label=directive.options.get("name", ""), leads=bool(title))
        if title:
            box += nodes.rubric(title, "", *self.inline(title, directive.lineno))
        if any(first):
            box += self.paragraph_of("\n".join(first), directive.lineno)
        box += self.nested(directive, sections)
        return [box]

    def code(self, directive: Directive) -> list[Any]:
        # The argument of code-block and the like is a language; that of these directives is the first line.
        first = directive.arguments if directive.name in ("math", "productionlist", "prompt") else []
        text = "\n".join([*first, *([""] if first and directive.content else []), *directive.content])
        box = BoxNode(title="", label=directive.options.get("name", ""), leads=False)
        if caption := directive.options.get("caption", ""):
            box["title"] = caption
            box += nodes.rubric(caption, "", *self.inline(caption, directive.lineno))
        if text.strip():
            box += nodes.literal_block(text, text)
        if directive.name == "productionlist":
            names = re.findall(r"^\s*`?([\w.-]+)`?\s*:", text, re.MULTILINE)
            box["names_"] = [Name("token", name) for name in names]
        return [box]

    def described(self, directive: Directive, domain: str, name: str) -> list[Any]:
        """Return what a directive describes: functions, classes and settings by their signatures, or a piece of text."""
        context = self.inliner.context
        if name == "class" and not domain and not directive.content and re.fullmatch(r"[a-z][\w -]*", directive.argument):
            # It names the style of what follows.
            return []
        auto = _AUTO.match(name)
        kind = auto[1] if auto else name
        domain = domain or ("py" if auto else context.domain if context.domain != "py" or name in _PYTHON else "std")
        inner = context
        for signature in _signatures(directive.arguments):
            names = _described(kind, domain, signature, context, auto is not None)
            directive.names += names
            if domain == "py" and names and kind in ("class", "exception", "protocol", "type"):
                inner = context._replace(class_=names[0].name.removeprefix(f"{context.module}."))
        if domain == "rst" and kind == "directive" and directive.names:
            inner = context._replace(class_=directive.names[0].name)
        if kind == "module" and domain == "py":
            inner = context._replace(module=directive.argument, class_="")
        if {"noindex", "no-index"} & directive.options.keys():
            # It is described somewhere else too.
            directive.names = []
        node = DefinitionNode(names_=directive.names, label=directive.options.get("name", ""), link=_card_link(directive.options))
        for signature in _signatures(directive.arguments):
            # The stars of a signature, as in "f(*args)", are not emphasis.
            is_plain = domain != "std" or name in ("option", "envvar", "describe", "object")
            node += nodes.term(signature, "", *([nodes.Text(signature)] if is_plain else self.inline(signature, directive.lineno)))
        self.inliner.context = inner
        try:
            node += self.nested(directive, sections=name in ("only", "ifconfig"))
        finally:
            # ".. currentmodule::" in it counts for what follows.
            module = context.module if kind == "module" else self.inliner.context.module
            self.inliner.context = context._replace(module=module)
        return [node]

    # Directives of docutils and of Sphinx

    def read_only(self, directive: Directive) -> list[Any]:
        return self.box(directive, "", sections=True)

    read_ifconfig = read_container = read_compound = read_epigraph = read_highlights = read_pull_quote = read_only
    read_hlist = read_acks = read_cssclass = read_tabs = read_tab_set = read_grid = read_only

    def read_admonition(self, directive: Directive) -> list[Any]:
        return self.box(directive, directive.argument)

    read_topic = read_sidebar = read_rubric = read_centered = read_dropdown = read_table = read_admonition

    def read_toctree(self, directive: Directive) -> list[Any]:
        entries = []
        for line in [*directive.arguments, *directive.content]:
            match = _EXPLICIT.match(line.strip())
            target = (match[2] if match else line).strip()
            if target and target != "self":
                entries.append(target)
        return [ContentsNode(entries=entries, glob="glob" in directive.options)]

    def read_autosummary(self, directive: Directive) -> list[Any]:
        paragraphs = []
        for line in directive.content:
            if line.strip():
                name = RoleNode("", line.strip().lstrip("~!"), role="obj", target=line.strip(), given=False)
                name["context"] = self.inliner.context
                paragraphs.append(nodes.paragraph("", "", name))
        return paragraphs

    def read_include(self, directive: Directive) -> list[Any]:
        return [ContentsNode(included=directive.argument, entries=[])]

    read_literalinclude = read_include

    def read_module(self, directive: Directive) -> list[Any]:
        self.inliner.context = self.inliner.context._replace(module=directive.argument, class_="")
        elements = self.nested(directive)
        name = Name("py", directive.argument)
        return [DefinitionNode(names_=[name], label="", link=None), *elements]

    def read_currentmodule(self, directive: Directive) -> list[Any]:
        module = "" if directive.argument == "None" else directive.argument
        self.inliner.context = self.inliner.context._replace(module=module)
        return []

    def read_program(self, directive: Directive) -> list[Any]:
        program = "" if directive.argument == "None" else "-".join(directive.argument.split())
        self.inliner.context = self.inliner.context._replace(program=program)
        return []

    def read_default_domain(self, directive: Directive) -> list[Any]:
        self.inliner.context = self.inliner.context._replace(domain=directive.argument.lower() or self.inliner.primary)
        return []

    def read_default_role(self, directive: Directive) -> list[Any]:
        self.inliner.default = directive.argument
        return []

    def read_role(self, directive: Directive) -> list[Any]:
        name, _, base = directive.argument.partition("(")
        if base.strip(" )").lower() == "raw":
            self.inliner.raw.add(name.strip())
        return []

    def read_parsed_literal(self, directive: Directive) -> list[Any]:
        text = "\n".join([*directive.arguments, *directive.content])
        return [nodes.literal_block(text, "", *self.inline(text, directive.lineno))]

    def read_image(self, directive: Directive) -> list[Any]:
        options = directive.options
        image = nodes.image(alt=options.get("alt", "") or directive.alt)
        target = options.get("target", "")
        if not target:
            return [image]
        attributes = {"refname": nodes.fully_normalize_name(target[:-1].strip("`"))} if target.endswith("_") else {"refuri": target}
        return [nodes.reference("", "", image, **attributes)]

    def read_figure(self, directive: Directive) -> list[Any]:
        elements = self.nested(directive)
        caption = elements[0].astext() if elements and isinstance(elements[0], nodes.paragraph) else ""
        box = BoxNode(title=caption, label=directive.options.get("name", ""), leads=False)
        box += nodes.paragraph("", "", *self.read_image(directive))
        box += elements
        return [box]

    def read_replace(self, directive: Directive) -> list[Any]:
        return self.inline("\n".join([*directive.arguments, *directive.content]), directive.lineno)

    def read_unicode(self, directive: Directive) -> list[Any]:
        codes = directive.argument.partition(".. ")[0].split()
        return [nodes.Text("".join(map(_character, codes)))]

    def read_list_table(self, directive: Directive) -> list[Any]:
        rows = [
            [list(cell.children) for cell in inner.children]
            for bullet_list in self.nested(directive)
            for item in bullet_list.children
            for inner in item.children
            if isinstance(inner, nodes.bullet_list)
        ]
        return self.rows(directive, rows, _number(directive.options.get("header-rows", "0")))

    read_flat_table = read_list_table

    def read_csv_table(self, directive: Directive) -> list[Any]:
        delimiter = {"tab": "\t", "space": " "}.get(
            delimiter_name := directive.options.get("delim", ","), delimiter_name[:1] or ","
        )
        count = _number(directive.options.get("header-rows", "0"))
        header = [directive.options["header"]] if directive.options.get("header") else []
        # A quoted cell may go over lines; csv refuses cells of more than 131,072 characters, which lines are not.
        lines = [line + "\n" for line in [*header, *directive.content]]
        try:
            cells = list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
        except csv.Error:
            cells = [[line] for line in lines]
        rows = [[[self.paragraph_of(cell.strip(), directive.lineno)] for cell in row] for row in cells if row]
        return self.rows(directive, rows, count + len(header))

    def rows(self, directive: Directive, rows: Sequence[Sequence[Sequence[Any]]], header: int) -> list[Any]:
        box = self.box(_without_content(directive), directive.argument)[0]
        table = RowsNode(header=header)
        for row in rows:
            table += nodes.row("", *(nodes.entry("", *cell) for cell in row))
        box += table
        return [box]

    def read_glossary(self, directive: Directive) -> list[Any]:
        lines, elements = directive.content, []
        place = 0
        while place < len(lines):
            begin = place
            while place < len(lines) and (lines[place][:1].strip() or lines[place].startswith("..")):
                place += 1
            terms = [line.partition(" : ")[0].strip() for line in lines[begin:place] if not line.startswith("..")]
            begin = place
            while place < len(lines) and not lines[place][:1].strip():
                place += 1
            block = StringList(lines[begin:place], "")
            block.trim_left(min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0))
            entry = _without_content(directive)
            entry.content = block
            node = DefinitionNode(names_=[Name("term", term) for term in terms], label="", link=None)
            for term in terms:
                node += nodes.term(term, "", *self.inline(term, directive.lineno))
            node += self.nested(entry)
            if terms or block:
                elements.append(node)
        return elements

    # Names that docutils gives other directives of its own
    read_function = read_class = None


# The parser looks for its patterns in the class itself.
for _name, _pattern in vars(states.Inliner).items():
    if isinstance(_pattern, str) and _name not in vars(_Inliner):
        setattr(_Inliner, _name, _pattern)
_explicit = SimpleNamespace(
    patterns=states.Body.explicit.patterns,
    constructs=[
        ((lambda state, match: state.directive(match)) if method.__name__ == "directive" else method, pattern)
        for method, pattern in states.Body.explicit.constructs
    ],
)
_STATES = tuple(type(state.__name__, (_Loose, state), {"explicit": _explicit}) for state in states.state_classes)


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of at most 4,000 characters, cut at spaces."""
    begin = 0
    while len(text) - begin > _LONG_TEXT:
        end = begin + _LONG_TEXT
        cut = max(text.rfind(" ", begin + 1, end), text.rfind("\n", begin + 1, end))
        cut = cut + 1 if cut > begin else end
        yield text[begin:cut]
        begin = cut
    yield text[begin:]


def _directive(name: str, block: Any, offset: int, lineno: int, alt: str) -> Directive:
    """Return the parts of a directive: arguments up to the options or an empty line, options, and what follows an empty line."""
    lines = list(block)
    end = next((place for place, line in enumerate(lines) if place and not line.strip()), len(lines))
    first = next((place for place in range(end) if _OPTION.match(lines[place].strip())), end)
    arguments = [line.strip() for line in lines[:first] if line.strip()]
    options: dict[str, str] = {}
    last = ""
    for line in lines[first:end]:
        match = _OPTION.match(line.strip()) if not line[:1].isspace() else None
        if match:
            last = match[1].strip().lower()
            options[last] = (match[2] or "").strip()
        else:
            options[last] = f"{options[last]} {line.strip()}".strip() if last in options else line.strip()
    begin = end
    while begin < len(lines) and not lines[begin].strip():
        begin += 1
    content = block[begin:]
    content.disconnect()
    return Directive(name, arguments, options, content, offset + begin, lineno, alt)


def _without_content(directive: Directive) -> Directive:
    return Directive(directive.name, [], directive.options, [], directive.offset, directive.lineno)


def _signatures(arguments: Sequence[str]) -> list[str]:
    """Return the signatures in the argument of a directive: one for each line, unless that ends with a backslash."""
    text = "\n".join(arguments).replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


def _described(kind: str, domain: str, signature: str, context: Context, auto: bool) -> list[Name]:
    """Return the names that a signature defines."""
    if domain == "py":
        match = _SIMPLE_NAME.search(re.sub(r"^(?:(?:class|async|static|classmethod|abstract|final)\s+)*@?", "", signature))
        name = match[0].strip(".") if match else ""
        name = name.replace("::", ".")
        inside = context.class_ and not name.startswith(f"{context.class_}.") and kind != "module"
        full_name = f"{context.class_}.{name}" if inside else name
        is_full = not context.module or full_name.startswith(f"{context.module}.") or kind == "module"
        return [Name("py", full_name if is_full else f"{context.module}.{full_name}", auto)] if name else []
    if domain in ("c", "cpp"):
        head = signature.partition("(")[0] if not signature.startswith("(") else signature
        words = re.findall(r"[\w:.]+", head)
        return [Name(domain, words[-1])] if words else []
    if domain == "rst":
        # Directives are named ".. name:: argument", roles ":name:".
        match = re.search(r"[^\W_][\w.+-]*(?::[\w.+-]+)*", signature)
        around = f"{context.class_}:" if kind == "directive:option" and context.class_ else ""
        return [Name("rst-role" if kind == "role" else domain, f"{around}{match[0]}")] if match else []
    if domain == "js":
        match = re.search(r"[\w.$]+", signature)
        return [Name(domain, match[0])] if match else []
    if kind == "option":
        options = [re.split(r"[ =\[<]", option.strip())[0] for option in signature.split(", ")]
        return [Name("option", f"{context.program} {option}".strip()) for option in options if option]
    # "name (argument)" is called by its name alone.
    names = dict.fromkeys((signature, re.split(r"[\s(]", signature)[0]))
    return [Name(kind, name) for name in names] if len(signature) <= 200 else []


def _card_link(options: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the link of a card of sphinx-design: its kind and where it leads."""
    link, kind = options.get("link", ""), options.get("link-type", "url")
    return (kind, link) if link else None


def _character(code: str) -> str:
    """Return a character by its number, such as "0xA9" or "U+2014", or a text as it is."""
    match = re.fullmatch(r"(?:0x|x|\\x|U\+?|u|\\u)([0-9a-fA-F]+)|&#x([0-9a-fA-F]+);|(\d+)", code)
    if not match:
        return code
    number = int(match[3]) if match[3] else int(match[1] or match[2], 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else code


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 6 else 0
