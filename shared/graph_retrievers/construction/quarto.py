"""Quarto and R Markdown as pages: Markdown with labels, and references to them from all files of a book."""

from __future__ import annotations

import re
from dataclasses import replace

from graph_retrievers.construction.cross_references import Reference, Target, mark
from graph_retrievers.construction.markdown import read_markdown
from graph_retrievers.construction.pages import Block, Page
from graph_retrievers.construction.slugs import slug

_LABEL = r"(?:sec|fig|tbl|eq|lst|thm|lem|cor|prp|cnj|def|exm|exr|sol|rem|alg|nte|tip|wrn|imp|cau)-(?:[\w:.-]*\w)"
# "@fig-cards", "[-@fig-cards]" and, of bookdown, "\@ref(fig:cards)", in Markdown without the backslash.
_REFERENCE = re.compile(rf"(?<![\w@/.])(?:\[-?@({_LABEL})\]|@({_LABEL})|@ref\(([\w:./-]+)\))", re.IGNORECASE)
# The label behind a picture, a formula or the caption of a table.
_ATTRIBUTES = re.compile(rf"[ \t]*\{{#({_LABEL})[^{{}}\n]*\}}", re.IGNORECASE)
_CLASSES = re.compile(r"[ \t]*\{[.-][^{}#\n]*\}\Z")
# The line with which a division begins or ends: "::: {#thm-limit}", "::: note", ":::".
_DIVISION = re.compile(r":{3,}[ \t]*(?:\{(?:[^{}#]*#([\w:.-]+))?[^{}]*\}|[\w-]*)[ \t]*:*")
# "#| fig-cap: Cards" in a piece of code, and in R Markdown "{r cards, fig.cap='Cards'}" above it.
_OPTION = re.compile(r"[ \t]*(?:#|//|%%)\|[ \t]*([\w.-]+)[ \t]*:[ \t]*(.*)")
_CODE = re.compile(r"[ \t]*(?:```|~~~)+[ \t]*(?:\{\w+(?:[ \t]+([\w-]+))?[ \t]*(,.*)?\})?")
_CAPTION = re.compile(r"""fig\.cap[ \t]*=[ \t]*(["'])(.*?)\1""")
_FORMULA = "eq"


def read_quarto(text: str, kind: str = "") -> Page:
    r"""Return a page of Quarto or R Markdown as :func:`~graph_retrievers.construction.markdown.read_markdown` does, with labels.

    A reference such as ``@sec-cards`` leads to the heading, figure, table, formula or division with the label, in whatever file of
    the folder, and reads as the heading or the caption there. Labels, classes, and the lines around divisions are not text.

    >>> page = read_quarto("# Cards {#sec-cards}\nSee @fig-holes.\n\n![Holes](holes.png){#fig-holes}")
    >>> [(block.text, block.anchors) for block in page.blocks if block.anchors]
    [('Cards', ('sec-cards',)), ('Holes', ('fig-holes',))]
    >>> page.references[0].name, [(target.name, target.title) for target in page.targets]
    ('fig-holes', [('sec-cards', 'Cards'), ('fig-holes', 'Holes')])
    """
    page = read_markdown(text, kind=kind)
    reader = _Reader()
    for block in page.blocks:
        reader.read(block)
    title = _CLASSES.sub("", page.title)
    return page._replace(title=title, blocks=reader.blocks, references=reader.references, targets=reader.targets)


class _Reader:
    """The blocks of a page that are read, with the references and the labels in them."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.references: list[Reference] = []
        self.targets: list[Target] = []
        # Labels of divisions that begin in front of the next block.
        self._begun: list[str] = []

    def read(self, block: Block) -> None:
        """Read the next block."""
        code = _CODE.match(block.source or "")
        text, labels = _code(block.text, code) if code else self._labels(block.text)
        anchors = list(block.anchors)
        if block.level and _CLASSES.search(text):
            name, text = slug(text), _CLASSES.sub("", text)
            anchors = [slug(text) if anchor == name else anchor for anchor in anchors]
        if not text:
            return
        if block.level:
            labels = dict.fromkeys((*anchors, *self._begun), text)
        else:
            labels = dict.fromkeys(self._begun, "") | labels
        self._begun = []
        self.targets += [Target("label", name, name, title) for name, title in labels.items()]
        links: list[str] = []

        def referring(match: re.Match[str]) -> str:
            links.append(mark(len(self.references)))
            self.references.append(Reference("ref", match[1] or match[2] or match[3], match[0]))
            return links[-1]

        text = text if code else _REFERENCE.sub(referring, text)
        anchors = list(dict.fromkeys((*anchors, *labels)))
        self.blocks.append(replace(block, text=text, anchors=tuple(anchors), links=(*block.links, *links)))

    def _labels(self, text: str) -> tuple[str, dict[str, str]]:
        """Return a text without labels and the marks of divisions, and the labels with their captions."""
        lines: list[str] = []
        labels: dict[str, str] = {}
        for line in text.split("\n"):
            if division := _DIVISION.fullmatch(line.strip()):
                self._begun += [division[1]] if division[1] else []
                continue
            for match in _ATTRIBUTES.finditer(line):
                caption = line[: match.start()].removeprefix(": ").strip()
                labels[match[1]] = "" if match[1].lower().startswith(_FORMULA) else caption
            line = _ATTRIBUTES.sub("", line)
            lines.append(line.removeprefix(": ") if labels else line)
        return "\n".join(lines).strip("\n"), labels


def _code(text: str, fence: re.Match[str]) -> tuple[str, dict[str, str]]:
    """Return a piece of code below its caption, and its label with the caption."""
    options = {match[1]: match[2] for line in text.split("\n") if (match := _OPTION.match(line))}
    caption_match = _CAPTION.search(fence[2] or "")
    captions = [value.strip().strip("\"'") for name, value in options.items() if name.endswith(("-cap", ".cap"))]
    caption = next(iter([*captions, *([caption_match[2]] if caption_match else [])]), "")
    label = options.get("label", "").strip("\"' ") or (f"fig:{fence[1]}" if fence[1] else "")
    lines = [line for line in text.split("\n") if not _OPTION.match(line)]
    return "\n".join(filter(None, (caption, "\n".join(lines).strip("\n")))), {label: caption} if label else {}
