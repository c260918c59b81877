"""PDF files as pages: text with its outline as headings, links, and the numbers of the printed pages."""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from statistics import median
from typing import Any
from urllib.parse import quote

from graph_retrievers.construction.markdown import slug
from graph_retrievers.construction.pages import Block, Page, UnreadableError
from graph_retrievers.construction.plain_text import page_of, with_headings

logger = logging.getLogger(__name__)

# The most operators that a page draws, and bytes of its content; a few forms that contain one another can stand for billions.
_OPERATORS, _CONTENT = 2_000_000, 20_000_000
# How many lines at the top and at the bottom of a page may repeat; lines that this number of pages and this share of all pages
# repeat are left out.
_EDGE, _FEW, _SHARE = 3, 3, 0.4
# Two lines are of one paragraph if their distance is at most that of usual lines, times this.
_GAP = 1.45
_NUMBERS = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
_UNIT = re.compile(r"^\W*(?:chapter|section|part|appendix|kapitel|abschnitt|teil|anhang|chapitre)\b(?:\s+[a-z0-9]{1,4}\b)?")
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u00ad\u2010]\n(?=[^\W\d_])")
_LETTERS = re.compile(r"[\W_]+")
_NUMBERED = re.compile(r"^\s*(?:[0-9]+(?:\.[0-9]+)*|[A-Z](?:\.[0-9]+)+)[.)]?\s+")
_NO_TITLE = re.compile(
    r"untitled|\(anonymous\)|microsoft \w+ - |powerpoint presentation|slide 1$|.*\.(?:docx?|tex|dvi|indd|pptx?|rtf|pdf|html?)$",
    re.IGNORECASE,
)


@dataclass
class _Leaf:
    """A printed page: its lines from the top, with the height of each, and its links, with the height of each."""

    lines: list[str]
    heights: list[float]
    links: list[tuple[float, str]] = field(default_factory=list)


@dataclass
class _Heading:
    """A heading of the outline: its title, its level, and where it leads."""

    title: str
    level: int
    page: int
    top: float | None


def read_pdf(raw: bytes) -> Page:
    """Return a PDF as a page of blocks, each with the number of its printed page, from 1.

    The entries of the outline are headings; without an outline, lines with numbers are, see
    :func:`~graph_retrievers.construction.plain_text.with_headings`. A link leads to the page of its destination, or to the heading
    there; its anchor is ``page=3``, as in addresses of PDF files. Lines that repeat at the top or the bottom of pages are left out,
    and so are numbers of pages. A word that is divided at the end of a line is joined. The title is the one that the file states,
    else its first line if that looks like a title. Printed pages that are broken are left out and named in ``omissions``.

    Raises
    ------
    UnreadableError
        If the file needs a password, is broken or has no text, as a scan has none.
    """
    with _quiet():
        try:
            return _read(raw)
        except UnreadableError:
            raise
        except Exception as error:
            # A broken file may raise anything.
            raise UnreadableError(f"it is broken: {type(error).__name__}: {f'{error}':.200}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the log of pypdf for errors alone: most files have small faults."""
    log = logging.getLogger("pypdf")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _read(raw: bytes) -> Page:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    reader = PdfReader(BytesIO(raw), strict=False)
    try:
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("it is encrypted; a password is needed")
    except DependencyError as error:
        raise UnreadableError(f"it is encrypted: {error}") from error
    places = {page.indirect_reference.idnum: number for number, page in enumerate(reader.pages) if page.indirect_reference}
    names = _names(reader)
    problems: list[str] = []
    leaves = []
    for number, pdf_page in enumerate(reader.pages, 1):
        try:
            leaves.append(_leaf(pdf_page, places, names))
        except UnreadableError:
            raise
        except Exception as error:
            problems.append(f"page {number} is broken: {type(error).__name__}: {f'{error}':.100}")
            leaves.append(_Leaf([], []))
    if problems and not any(leaf.lines for leaf in leaves):
        raise UnreadableError(problems[0])
    if not any(leaf.lines for leaf in leaves):
        raise UnreadableError("it has no text; if it was scanned, recognise its text first, for example with ocrmypdf")
    headings = [heading for heading in _outline(reader, places) if heading.page < len(leaves)]
    _leave_out_edges(leaves, headings)
    title, blocks = _title(reader), list(_blocks(leaves, headings))
    if not headings:
        # "Chapter 1" in the first line is the title of a chapter alone.
        if blocks and not title and not _UNIT.fullmatch(blocks[0].text.partition("\n")[0].casefold()):
            return page_of(blocks)._replace(omissions=problems)
        blocks = with_headings(blocks)
        return Page(title, blocks, is_title_stated=bool(title) and any(block.level for block in blocks), omissions=problems)
    heading = next((block.text for block in blocks if block.level), "")
    is_single = sum(entry.level == 1 for entry in headings) == 1
    return Page(title or (heading if is_single else ""), blocks, is_title_stated=bool(title), omissions=problems)


def _title(reader: Any) -> str:
    try:
        title = " ".join(str((reader.metadata or {}).get("/Title") or "").split())
    except Exception:
        return ""
    return "" if _NO_TITLE.match(title) or not any(map(str.isalnum, title)) else title


def _names(reader: Any) -> Mapping[str, Any]:
    try:
        return dict(reader.named_destinations)
    except Exception:
        return {}


def _leaf(page: Any, places: Mapping[int, int], names: Mapping[str, Any]) -> _Leaf:
    """Return a printed page as its lines and links."""
    contents = page.get_contents()
    if contents is not None and len(contents.get_data()) > _CONTENT:
        raise UnreadableError(f"a page draws more than {_CONTENT:,} bytes")
    pieces: list[tuple[str, float]] = []
    count = 0

    def counted(operator: Any, operands: Any, cm: Any, tm: Any) -> None:
        nonlocal count
        count += 1
        if count > _OPERATORS:
            raise UnreadableError(f"a page has more than {_OPERATORS:,} operators")

    def collect(text: str, cm: Any, tm: Any, font: Any, size: Any) -> None:
        pieces.append((text, float(cm[1] * tm[4] + cm[3] * tm[5] + cm[5])))

    page.extract_text(visitor_operand_before=counted, visitor_text=collect)
    lines, heights = [], []
    line, height = "", None
    for text, y in pieces:
        for part in re.split(r"(\n)", text):
            if part == "\n":
                lines.append(line)
                heights.append(y if height is None else height)
                line, height = "", None
            elif part:
                line += part
                height = y if height is None and part.strip() else height
    lines.append(line)
    heights.append(pieces[-1][1] if height is None and pieces else height or 0.0)
    clean_lines = [re.sub(r"[ \t\x00]+", " ", line).strip() for line in lines]
    indices = [place for place, line in enumerate(clean_lines) if line]
    return _Leaf(
        [clean_lines[place] for place in indices], [heights[place] for place in indices], list(_links(page, places, names))
    )


def _links(page: Any, places: Mapping[int, int], names: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    """Yield the links of a printed page with the height of each: addresses, and ``#page=3`` for places in the file."""
    try:
        annotations = list(page.annotations or ())
    except Exception:
        return
    for reference in annotations:
        try:
            note = reference.get_object()
            if note.get("/Subtype") != "/Link":
                continue
            action = note.get("/A")
            action = action.get_object() if action is not None else {}
            box = [float(side) for side in note["/Rect"]]
            height = (box[1] + box[3]) / 2
            if "/URI" in action:
                yield height, _string(action["/URI"])
            elif action.get("/S") == "/GoToR":
                file_spec = action["/F"].get_object()
                file = _string(file_spec if not hasattr(file_spec, "get") else file_spec.get("/UF") or file_spec.get("/F"))
                place = action.get("/D")
                number = place[0] + 1 if isinstance(place, list) and place and isinstance(place[0], int) else 0
                yield height, quote(file.replace("\\", "/")) + (f"#page={number}" if number else "")
            else:
                place = note.get("/Dest", action.get("/D"))
                destination = _place(place, places, names)
                if destination is not None:
                    yield height, f"#{_anchor(*destination)}"
        except UnreadableError:
            raise
        except Exception:
            # If one link is broken, the others may still be read.
            continue


def _string(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _place(place: Any, places: Mapping[int, int], names: Mapping[str, Any]) -> tuple[int, float | None] | None:
    """Return the number of the page, from 0, and the height to which a destination leads."""
    place = place.get_object() if hasattr(place, "get_object") else place
    if isinstance(place, (str, bytes)):
        destination = names.get(_string(place))
        return _of_destination(destination, places) if destination is not None else None
    if isinstance(place, dict):
        return _place(place.get("/D"), places, names) if not isinstance(place.get("/D"), dict) else None
    if not isinstance(place, list) or not place:
        return None
    number = place[0] if isinstance(place[0], int) else places.get(getattr(place[0], "idnum", -1))
    top = (
        place[3]
        if len(place) > 3 and place[1] == "/XYZ"
        else place[2]
        if len(place) > 2 and place[1] in ("/FitH", "/FitBH")
        else None
    )
    return None if number is None else (int(number), _number(top))


def _of_destination(destination: Any, places: Mapping[int, int]) -> tuple[int, float | None] | None:
    page = destination.page
    number = page if isinstance(page, int) else places.get(getattr(page, "idnum", -1))
    return None if number is None else (int(number), _number(destination.top))


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _anchor(page: int, top: float | None) -> str:
    return f"page={page + 1}" + ("" if top is None else f"&top={top:.0f}")


def _outline(reader: Any, places: Mapping[int, int]) -> list[_Heading]:
    try:
        outline = reader.outline
    except Exception:
        return []
    headings: list[_Heading] = []
    # A list of entries, each of which may be followed by the list of those below it.
    stack = [(iter(outline), 1)]
    while stack:
        entries, level = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
        elif isinstance(entry, list):
            stack.append((iter(entry), level + 1))
        else:
            place = _of_destination(entry, places)
            title = " ".join(str(entry.title or "").split())
            if place is not None and any(map(str.isalnum, title)):
                headings.append(_Heading(title, min(level, 6), *place))
    return headings


def _leave_out_edges(leaves: Sequence[_Leaf], headings: Sequence[_Heading]) -> None:
    """Remove lines that repeat at the top or the bottom of printed pages, and headings that repeat above pages."""
    edges = [{*leaf.lines[:_EDGE], *leaf.lines[-_EDGE:]} for leaf in leaves]
    counts = Counter(shape for lines in edges for shape in {_shape(line) for line in lines})
    line_counts = Counter(line for lines in edges for line in lines)
    threshold = max(_FEW, _SHARE * sum(1 for leaf in leaves if leaf.lines))
    titles = {_line_key(heading.title) for heading in headings} - {""}
    heading_starts = {(_line_key(heading.title), heading.page) for heading in headings}

    def repeats(line: str, page: int) -> bool:
        if line_counts[line] == 1 and _UNIT.fullmatch(line.casefold()):
            # "Chapter 3" above its title differs in the number alone from that of other chapters.
            return False
        shape, key = _shape(line), _line_key(line)
        # "3" and "Chapter 3: Utilities 6", but neither the heading itself nor a line of a table of contents.
        running = (
            key in titles
            and (key, page) not in heading_starts
            and (counts[shape] >= _FEW or line[-1].isdigit() or line[0].isdigit())
        )
        number = shape.strip(" -–|[]()") == "#" and counts[shape] >= _FEW
        return counts[shape] >= threshold or number or (running and ". ." not in line and "..." not in line)

    for number, leaf in enumerate(leaves):
        begin, end = 0, len(leaf.lines)
        while begin < min(_EDGE, end) and repeats(leaf.lines[begin], number):
            begin += 1
        while end > max(begin, len(leaf.lines) - _EDGE) and repeats(leaf.lines[end - 1], number):
            end -= 1
        if begin < end:
            leaf.lines, leaf.heights = leaf.lines[begin:end], leaf.heights[begin:end]


def _shape(line: str) -> str:
    """Return a line in a form in which only numbers differ between pages."""
    return _NUMBERS.sub("#", line.casefold())


def _line_key(line: str) -> str:
    """Return the letters of a line without its numbers, and without the word for what they number, such as "Chapter"."""
    return _LETTERS.sub("", _NUMBERS.sub("", _UNIT.sub("", line.casefold())))


def _blocks(leaves: Sequence[_Leaf], headings: Sequence[_Heading]) -> Iterator[Block]:
    headings_by_page: defaultdict[int, list[_Heading]] = defaultdict(list)
    for heading in headings:
        headings_by_page[heading.page].append(heading)
    goals: defaultdict[int, set[str]] = defaultdict(set)
    for leaf in leaves:
        for _, link in leaf.links:
            if match := re.match(r"#page=(\d+)", link):
                goals[int(match[1]) - 1].add(link[1:])
    slugs: Counter[str] = Counter()
    # The anchors and links of a page without text go to the next one.
    anchors: list[str] = []
    links: list[str] = []
    for number, leaf in enumerate(leaves):
        begins = _begins(leaf, headings_by_page[number])
        at = defaultdict(list)
        for anchor in sorted(goals[number]):
            top = float(anchor.partition("&top=")[2] or "inf")
            at[_line_below(leaf, top)].append(anchor)
        leading = _links_by_line(leaf)
        anchors.append(f"page={number + 1}")
        for level, text, lines in _paragraphs(leaf, begins):
            for line in lines:
                anchors += at.pop(line, [])
                links += leading.pop(line, [])
            if level:
                name = slug(text)
                slugs[name] += 1
                anchors.append(name if slugs[name] == 1 else f"{name}-{slugs[name] - 1}")
            yield Block(text, level, tuple(dict.fromkeys(anchors)), tuple(dict.fromkeys(links)), level > 0, page=number + 1)
            anchors, links = [], []
        anchors += [anchor for line_anchors in at.values() for anchor in line_anchors]
        links += [link for line_links in leading.values() for link in line_links]


def _begins(leaf: _Leaf, headings: Sequence[_Heading]) -> dict[int, list[tuple[_Heading, int]]]:
    """Return for lines of a page the headings that begin there, each with the number of lines that it takes."""
    begins: defaultdict[int, list[tuple[_Heading, int]]] = defaultdict(list)
    letters = [_letters(line) for line in leaf.lines]
    # The places of one to three lines by their letters; the number of a heading may be only in the outline, or only in the text.
    places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for line in range(len(letters)):
        for count in (1, 2, 3):
            places["".join(letters[line : line + count])].append((line, count))
        places[_letters(_NUMBERED.sub("", leaf.lines[line]))].append((line, 1))
    after = 0
    for heading in headings:
        titles = {_letters(heading.title), _letters(_NUMBERED.sub("", heading.title))} - {""}
        lists = (places.get(title, []) for title in titles)
        position = min((at[place] for at in lists if (place := bisect_left(at, (after, 0))) < len(at)), default=None)
        if position is None:
            position = max(after, _line_below(leaf, float("inf") if heading.top is None else heading.top)), 0
        begins[position[0]].append((heading, position[1]))
        after = sum(position)
    return begins


def _letters(line: str) -> str:
    return _LETTERS.sub("", line.casefold())


def _line_below(leaf: _Leaf, top: float) -> int:
    """Return the first line that is below a height; 0 if none is."""
    return next((line for line, height in enumerate(leaf.heights) if height <= top + 1), 0)


def _links_by_line(leaf: _Leaf) -> dict[int, list[str]]:
    """Return the links of a printed page by the line that is nearest in height."""
    order = sorted(range(len(leaf.lines)), key=lambda line: leaf.heights[line])
    heights = [leaf.heights[line] for line in order]
    links_by_line: defaultdict[int, list[str]] = defaultdict(list)
    for height, link in leaf.links:
        index = bisect_left(heights, height)
        nearest = min(range(max(0, index - 1), min(len(order), index + 1)), key=lambda at: abs(heights[at] - height), default=None)
        # A box begins above the line of its letters.
        links_by_line[0 if nearest is None else order[nearest]].append(link)
    return dict(links_by_line)


def _paragraphs(leaf: _Leaf, begins: Mapping[int, Sequence[tuple[_Heading, int]]]) -> Iterator[tuple[int, str, range]]:
    """Yield the headings and paragraphs of a printed page with the lines of each."""
    count = len(leaf.lines)
    gaps = [leaf.heights[line] - leaf.heights[line + 1] for line in range(count - 1)]
    usual_gap = median([gap for gap in gaps if gap > 0] or [0.0])
    longest = max(map(len, leaf.lines), default=0)
    start = line = 0

    def text(begin: int, end: int) -> str:
        return _HYPHEN.sub("", "\n".join(leaf.lines[begin:end]))

    heading_line = -1
    while line < count:
        if line in begins and line != heading_line:
            if start < line:
                yield 0, text(start, line), range(start, line)
            heading_line = line
            for heading, size in begins[heading_line]:
                yield heading.level, heading.title, range(line, line + size)
                line += size
            start = line
            continue
        ends = line + 1 == count or (line + 1) in begins
        if not ends:
            is_apart = usual_gap and gaps[line] > _GAP * usual_gap
            is_short = leaf.lines[line].endswith((".", "!", "?", ":")) and len(leaf.lines[line]) < 0.75 * longest
            ends = bool(is_apart) or is_short
        line += 1
        if ends:
            yield 0, text(start, line), range(start, line)
            start = line
    if start < line:
        yield 0, text(start, line), range(start, line)
    for at, starts in begins.items():
        # The page has no lines, or the headings are behind the last one.
        for heading, _ in starts if at >= count else ():
            yield heading.level, heading.title, range(0)
