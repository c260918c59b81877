"""Random vaults of notes with known links, what loaders make of them, and how many of the links are found.

Each section of a note has a word of its own, its mark, so that the chunk to which a link leads can be checked for any splitter.
"""

import random
import re
from collections import Counter
from typing import NamedTuple

import yaml
from langchain_core.documents import Document

WORDS = (
    "threads shuttle cards lift weave paper holes pattern mill wheel steam clock brass wool silk dye loom frame beam reed".split()
)
FOLDERS = ["", "tools", "tools/old", "people", "people/far away", "zürich"]
NAMES = [
    "Loom {}",
    "node-{}.js",
    "Carl's card ({})",
    "Café {}",
    "李娜 {}",
    "v{}.2 notes",
    "weft & warp {}",
    "2024-01-{:02}",
    "plain{}",
    "UPPER {}",
]
HEADINGS = [
    'What? A "heading": part {}',
    "In/out {}",
    "The mill, {}",
    "a_b {}",
    "C# & F# {}",
    "Löcher {}",
    "Plain {}",
    "100% wool: {}",
]


class Link(NamedTuple):
    """A link: its kind, the paths of the note with it and of its target, the mark of the section, and the relation."""

    kind: str
    source: str
    target: str
    mark: str = ""
    relation: str = "links"


class Vault(NamedTuple):
    pages: dict
    links: list


class Section(NamedTuple):
    heading: str
    mark: str
    around: tuple
    block: str
    block_mark: str


class Note(NamedTuple):
    path: str
    sections: list
    mark: str

    @property
    def name(self):
        return self.path.rpartition("/")[2].removesuffix(".md")


def sentence(rng, count=12):
    return " ".join(rng.choice(WORDS) for _ in range(count)).capitalize() + "."


def stripped(heading):
    """Return a heading as Obsidian writes it into a link."""
    return " ".join(re.sub(r"([:#|^\\]|%%|\[\[|\]\])", " ", heading).split())


def obsidian(seed, size=60):
    """Return a vault of Obsidian."""
    rng = random.Random(seed)
    notes = []
    for n in range(size):
        folder = rng.choice(FOLDERS)
        path = f"{folder}/{NAMES[n % len(NAMES)].format(n)}.md".lstrip("/")
        sections, around = [], ()
        for s in range(rng.randint(2, 4)):
            heading = HEADINGS[(n + s) % len(HEADINGS)].format(s)
            sections.append(Section(heading, f"mark{n}x{s}", around, f"b{n}-{s}z", f"mark{n}x{s}"))
            around = (heading,)
            # The same heading below each: only those around it tell them apart.
            sections.append(Section("Details", f"mark{n}y{s}", (heading,), "", ""))
        notes.append(Note(path, sections, f"mark{n}"))
    # Two notes of one name.
    for folder in ("tools", "people"):
        notes.append(Note(f"{folder}/Twin.md", [], f"mark{folder}"))
    links, pages = [], {}
    for note in notes:
        front, body, found = _links_of(rng, note, notes)
        links += found
        pages[note.path] = _written(rng, note, front, body)
    pages["gone.canvas"] = "{}"
    return Vault(pages, links)


def _links_of(rng, note, notes):
    """Return the fields, the lines and the links of a note."""
    links, lines, front = [], [], {}
    folder = note.path.rpartition("/")[0]
    others = [other for other in notes if other.name != "Twin" and other is not note]

    def add(kind, write, *, heading=False, block=False, nested=False, relation="links", pool=None, to=None):
        other = to or rng.choice(pool or others)
        section = None
        if heading or block or nested:
            held = [one for one in other.sections if bool(one.block) is not nested]
            section = rng.choice(held) if held else None
            if section is None:
                return
        mark = "" if section is None else section.mark
        links.append(Link(kind, note.path, other.path, mark, relation))
        text = write(other, section)
        if text:
            lines.append(text)

    def from_here(path):
        up = 0 if not folder else folder.count("/") + 1
        return "../" * up + path if up else "./" + path

    def quoted(path):
        return path.replace("%", "%25").replace(" ", "%20").replace("(", "%28").replace(")", "%29").replace("#", "%23")

    add("name", lambda o, s: f"See [[{o.name}]] there.")
    add("name with ending", lambda o, s: f"See [[{o.name}.md]].")
    add("name in another case", lambda o, s: f"See [[{o.name.swapcase()}]].")
    add("name shown otherwise", lambda o, s: f"See [[{o.name}|these words]].")
    add("path from the root", lambda o, s: f"See [[{o.path.removesuffix('.md')}]].")
    add("path from here", lambda o, s: f"See [[{from_here(o.path)}]].")
    add("heading", lambda o, s: f"See [[{o.name}#{stripped(s.heading)}]].", heading=True)
    add("heading shown otherwise", lambda o, s: f"See [[{o.name}#{stripped(s.heading)}|there]].", heading=True)
    add("nested heading", lambda o, s: f"See [[{o.name}#{stripped(s.around[-1])}#{s.heading}]].", nested=True)
    add("block", lambda o, s: f"See [[{o.name}#^{s.block}]].", block=True)
    add("embedded note", lambda o, s: f"![[{o.name}]]")
    add("embedded heading", lambda o, s: f"![[{o.name}#{stripped(s.heading)}]]", heading=True)
    add("embedded block", lambda o, s: f"![[{o.name}#^{s.block}]]", block=True)
    add("in a list", lambda o, s: f"- [ ] a task\n  - nested [[{o.name}]]")
    add("in a quotation", lambda o, s: f"> [!note] [[{o.name}]]")
    add("in a table", lambda o, s: f"| a | b |\n| - | - |\n| x | [[{o.name}\\|y]] |")
    add("in a footnote", lambda o, s: f"[^1]: [[{o.name}]]")
    add("Markdown path", lambda o, s: f"See [it]({quoted(from_here(o.path))}).")
    add("Markdown path in brackets", lambda o, s: f"See [it](<{from_here(o.path).replace('#', '%23')}>).")
    add("Markdown path from the root", lambda o, s: f"See [it]({quoted(o.path)}).")
    add("Markdown name", lambda o, s: f"See [it]({quoted(o.name)}.md).")
    add("Markdown without ending", lambda o, s: f"See [it]({quoted(o.name)}).", pool=[o for o in others if "." not in o.name])
    add("Markdown heading", lambda o, s: f"See [it]({quoted(o.path)}#{quoted(stripped(s.heading))}).", heading=True)
    add("Markdown block", lambda o, s: f"See [it]({quoted(o.path)}#^{s.block}).", block=True)
    add("field of a line", lambda o, s: f"up:: [[{o.name}]]", relation="up")
    add("field in brackets", lambda o, s: f"It is [made by:: [[{o.name}]]] there.", relation="made by")
    add("field in parentheses", lambda o, s: f"It is (seen:: [[{o.name}|x]]) there.", relation="seen")
    if note.name != "Twin":
        twin = next(other for other in notes if other.path == "tools/Twin.md")
        add("path of a name of two", lambda o, s: "See [[tools/Twin]].", to=twin)

    def field(name, values, to):
        front[name] = values
        links.extend(Link(f"front matter {name}", note.path, other.path, "", name) for other in to)

    one, two, three, four = (rng.choice(others) for _ in range(4))
    field("parent", f"[[{one.name}]]", [one])
    field("related", [f"[[{two.name}]]", f"[[{three.path.removesuffix('.md')}|x]]"], [two, three])
    front["source"] = f"[[{four.name}]]"
    links.append(Link("front matter source", note.path, four.path))
    # What is not a link, or leads nowhere.
    dead = f"Gone {note.mark}"
    lines += [
        f"`[[{one.name}]]`",
        f"```\n[[{two.name}]] up:: [[{two.name}]]\n```",
        f"\\[[{three.name}]]",
        f"<!-- [[{four.name}]] -->",
    ]
    lines += [f"[[{dead}]] [x](Gone{note.mark}.md) ![[loom.png]]", f"[[Alias of {one.mark}]]"]
    lines += ["[x](https://example.org/Loom.md) std::vector #tool/loom #7"]
    rng.shuffle(lines)
    return front, lines, links


def _written(rng, note, front, lines):
    head = yaml.safe_dump({"aliases": [f"Alias of {note.mark}"], "tags": ["a"], **front}, allow_unicode=True)
    text = f"---\n{head}---\n# {note.name.capitalize()}\n{note.mark} {sentence(rng, 60)}\n\n" + "\n\n".join(lines) + "\n"
    for section in note.sections:
        level = "###" if section.heading == "Details" else "##"
        block = f" ^{section.block}" if section.block and rng.random() < 0.5 else ""
        own = f"\n\n^{section.block}" if section.block and not block else ""
        text += f"\n{level} {section.heading}\n{section.mark} {sentence(rng, 60)}{block}{own}\n"
    return text


def logseq(seed, size=40):
    """Return a graph of Logseq."""
    rng = random.Random(seed)
    names = [("Loom {}", "wool/dye {}", "café {}", "a.b {}")[n % 4].format(n) for n in range(size)]
    paths = {name: "pages/" + name.replace("/", "___" if n % 2 else "%2F") + ".md" for n, name in enumerate(names)}
    days = {f"2024_{m:02}_{d:02}": (m, d) for m, d in [(1, 31), (2, 1), (3, 2), (11, 3), (12, 13)]}
    months = {1: "Jan", 2: "Feb", 3: "Mar", 11: "Nov", 12: "Dec"}
    ends = {1: "st", 2: "nd", 3: "rd", 31: "st", 13: "th"}
    titles = {name: f"Title of {n}" for n, name in enumerate(names) if n % 5 == 0}
    aliases = {name: [f"alias{n}", f"other {n}"] for n, name in enumerate(names) if n % 3 == 0}
    uuids = {name: f"65ba0000-0000-4000-8000-{n:012x}" for n, name in enumerate(names)}
    links, pages = [], {}
    sources = [(paths[name], name) for name in names] + [(f"journals/{day}.md", day) for day in days]
    for number, (path, name) in enumerate(sources):
        properties = [f"title:: {titles[name]}"] if name in titles else []
        properties += [f"alias:: {', '.join(aliases[name])}"] if name in aliases else []
        tagged = rng.choice(names)
        properties.append(f"tags:: {tagged}")
        links.append(Link("property tags", path, paths[tagged]))

        def add(kind, write, pool, relation="links", mark="", name=name, path=path):
            other = rng.choice([one for one in pool if one != name])
            target = paths.get(other) or f"journals/{other}.md"
            links.append(Link(kind, path, target, f"mark{names.index(other)}b" if mark else "", relation))
            return f"- {write(other)}"

        lines = [
            add("name", lambda o: f"see [[{o}]]", names),
            add("namespace", lambda o: f"see [[{o}]]", [one for one in names if "/" in one]),
            add("tag", lambda o: f"a #{o.replace(' ', '')}" if False else f"a #[[{o}]]", names),
            add("title", lambda o: f"see [[{titles[o]}]]", titles),
            add("alias", lambda o: f"see [[{aliases[o][0]}]]", aliases),
            add("alias with a space", lambda o: f"see #[[{aliases[o][1]}]]", aliases),
            add("alias as a tag", lambda o: f"see #{aliases[o][0]}", aliases),
            add("block", lambda o: f"see (({uuids[o]}))", names, mark="b"),
            add("embedded block", lambda o: f"{{{{embed (({uuids[o]}))}}}}", names, mark="b"),
            add("embedded page", lambda o: f"{{{{embed [[{o}]]}}}}", names),
            add("shown block", lambda o: f"[words]((({uuids[o]})))", names, mark="b"),
            add("shown page", lambda o: f"[words]([[{o}]])", names),
            add("journal", lambda o: f"on [[{months[days[o][0]]} {days[o][1]}{ends[days[o][1]]}, 2024]]", days),
            add("journal in ISO form", lambda o: f"on [[2024-{days[o][0]:02}-{days[o][1]:02}]]", days),
            add("property", lambda o: f"made\n  maker:: [[{o}]]", names, "maker"),
        ]
        lines += [f"- [[Nothing {number}]] and `#{names[0]}` and #nothing{number}"]
        rng.shuffle(lines)
        block = []
        if name in uuids:
            block = [f"- {sentence(rng, 80)}", f"- mark{number}b {sentence(rng, 90)}\n  id:: {uuids[name]}\n  collapsed:: true"]
        pages[path] = "\n".join([*properties, "", *lines, *block]) + "\n"
    return Vault(pages | {"logseq/config.edn": "{}"}, links)


def dendron(seed, size=40):
    """Return a workspace of Dendron with two vaults."""
    rng = random.Random(seed)
    tops = ["tool", "place", "lang"]
    names = [*tops, "root", "tags.weaving", "user.ada"]
    while len(names) < size:
        names.append(f"{rng.choice([n for n in names if n not in ('root', 'tags.weaving', 'user.ada')])}.n{len(names)}")
    vault = {name: "one" if n % 3 else "two" for n, name in enumerate(names)}
    paths = {name: f"{vault[name]}/{name}.md" for name in names}
    links, pages = [], {}
    for number, name in enumerate(names):
        path = paths[name]
        above = name.rpartition(".")[0]
        if above in paths and vault[above] == vault[name]:
            links.append(Link("hierarchy", path, paths[above], "", "parent"))
        elif above and (far := next((a for a in _above(above) if a in paths and vault[a] == vault[name]), None)):
            links.append(Link("hierarchy", path, paths[far], "", "parent"))

        def add(kind, write, mark="", to=None, pool=names, name=name, path=path):
            other = to or rng.choice([one for one in pool if one != name])
            links.append(Link(kind, path, paths[other], f"mark{names.index(other)}{mark}" if mark else ""))
            return write(other)

        lines = [
            add("name", lambda o: f"See [[{o}]]."),
            add("label first", lambda o: f"See [[The words|{o}]]."),
            add("label that is a name", lambda o: f"See [[tool|{o}]].", pool=[n for n in names if n != "tool"]),
            add("heading", lambda o: f"See [[{o}#the-parts]].", "h"),
            add("label and heading", lambda o: f"See [[words|{o}#the-parts]].", "h"),
            add("block", lambda o: f"See [[{o}#^blk{names.index(o)}]].", "b"),
            add("note reference", lambda o: f"![[{o}]]"),
            add("part of a note", lambda o: f"![[{o}#the-parts]]", "h"),
            add("range of a note", lambda o: f"![[{o}#the-parts,1:#*]]", "h"),
            add("other vault", lambda o: f"See [[dendron://{vault[o]}/{o}]]."),
            add("other vault with a label", lambda o: f"See [[words|dendron://{vault[o]}/{o}#the-parts]].", "h"),
            add("Markdown", lambda o: f"See [it]({o})."),
        ]
        if name != "tags.weaving":
            lines.append(add("tag", lambda o: "A #weaving thing.", to="tags.weaving"))
        if name != "user.ada":
            lines.append(add("user", lambda o: "By @ada today.", to="user.ada"))
        lines += [f"[[nothing.n{number}]] `[[{names[0]}]]` me@ada.org"]
        rng.shuffle(lines)
        head = f"id: x{number}abc\ntitle: Title {number}\ndesc: ''\nupdated: 16400000{number:02}\ncreated: 1640000000000\n"
        parts = f"## The parts\nmark{number}h {sentence(rng, 80)}\n\n## More\n{sentence(rng, 70)}\n\n"
        parts += f"mark{number}b {sentence(rng, 90)} ^blk{number}"
        pages[path] = f"---\n{head}---\n\nmark{number} {sentence(rng, 60)}\n\n" + "\n\n".join(lines) + f"\n\n{parts}\n"
    return Vault(pages | {"dendron.yml": "version: 5\n"}, links)


def _above(name):
    while name:
        yield name
        name = name.rpartition(".")[0]


def text_documents(folder):
    """Return the notes as DirectoryLoader with TextLoader does."""
    return [Document(path.read_text(), metadata={"source": str(path)}) for path in sorted(folder.rglob("*.md"))]


def obsidian_documents(folder):
    """Return the notes as LangChain's ObsidianLoader does: front matter as texts in the metadata, the file's name as source."""
    documents = []
    for path in sorted(folder.rglob("*.md")):
        text, fields = path.read_text(), {}
        if found := re.match(r"^---\n(.*?)\n---\n", text, re.DOTALL):
            fields = {
                key: value if type(value) in (str, int, float) else str(value) for key, value in yaml.safe_load(found[1]).items()
            }
            text = text[found.end() :]
        fields |= dict(re.findall(r"^\s*(\w+)::\s*(.*)$", text, re.MULTILINE))
        fields |= dict(re.findall(r"\((\w+)::\s*(.*)\)", text)) | dict(re.findall(r"\[(\w+)::\s*(.*)\]", text))
        times = {"created": 1.5, "last_modified": 2.5, "last_accessed": 3.5}
        documents.append(Document(text, metadata={"source": path.name, "path": str(path), **times, **fields}))
    return documents


def obsidian_nodes(folder):
    """Return the notes as LlamaIndex' ObsidianReader does: one for each top heading, without marks, empty lines and addresses."""
    from llama_index.core.schema import Document as LlamaDocument

    documents = []
    for path in sorted(folder.rglob("*.md")):
        for heading, lines in _parts(re.sub(r"\[(.*?)\]\((.*?)\)", r"\1", path.read_text())):
            body = re.sub(r"<.*?>", "", "\n".join(lines))
            text = f"\n\n{heading}\n{body}" if heading else body
            links = sorted({link.split("|")[0].strip() for link in re.findall(r"\[\[([^\]]+)\]\]", text)})
            place = {"file_name": path.name, "folder_path": str(path.parent), "note_name": path.stem}
            documents.append(LlamaDocument(text=text, metadata={**place, "wikilinks": links, "backlinks": []}))
    return documents


def _parts(text):
    """Yield the headings, joined, and the lines of the parts that LlamaIndex' reader of Markdown makes."""
    lines, headings, code = [], {}, False
    for line in text.split("\n"):
        code ^= line.startswith("```")
        if code:
            lines.append(line)
        elif found := re.match(r"^(#+)\s+(.*)", line.strip()):
            level = len(found[1])
            if lines and not headings:
                yield "", [*lines]
                lines.clear()
            if headings.get(level):
                yield " ".join(headings.values()), [*lines]
                headings = {key: value for key, value in headings.items() if key < level}
                lines.clear()
            headings[level] = found[2]
        elif line.strip():
            lines.append(line.strip())
    yield " ".join(headings.values()), lines


def score(edges, nodes, vault, root=""):
    """Return how many links of each kind are found, of how many, and the edges that no link explains.

    `edges` are (source id, target id, relation); the path of a node is in its metadata, below `root`.
    """
    from graph_retrievers.graph.addresses import page_address

    held = {node.id: node for node in nodes}
    paths = {node.id: page_address(node.metadata).replace("\\", "/").removeprefix(str(root)).lstrip("/") for node in nodes}
    found = {(paths[source], paths[target], relation, target) for source, target, relation in edges}
    by_pages = {}
    for source, target, relation, node in found:
        by_pages.setdefault((source, target, relation), []).append(node)
    right, total = Counter(), Counter()
    explained = set()
    for link in vault.links:
        total[link.kind] += 1
        there = by_pages.get((link.source, link.target, link.relation), ())
        good = [node for node in there if not link.mark or f"{link.mark} " in held[node].text + " "]
        right[link.kind] += bool(good) or link.source == link.target
        explained.update((link.source, link.target, link.relation, node) for node in good)
    wrong = sorted(edge for edge in found if edge not in explained and edge[0] != edge[1])
    return {kind: (right[kind], count) for kind, count in total.items()}, wrong, len(found)
