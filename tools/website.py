"""The hook of mkdocs.yml: pages from outside docs/, the API reference, llms.txt, and checks of the site that was built.

Pages link to each other as they do in the repository, so that they can be read there too. What they link to outside docs/ (the
README, the results, the example pages) becomes a part of the site, and links to it are written anew.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import griffe
from latex2mathml.converter import convert
from lxml import html
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
# What stands outside docs/: the file or folder in the repository, and its place in the site.
OUTSIDE = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/results": "results",
    "examples/handbook": "examples/handbook",
    "examples/notebooks": "notebooks",
}
# The pages of the API reference: their heading, and the modules or names that they tell of. A name is on the first that has it.
ENGINE = "graph_retrievers."
API = {
    "index": ("Index and nodes", ["GraphIndex", "IndexStore", "Node", "Edge", "graph.CorpusGraph", "graph.Subgraph", "datasets"]),
    "hits": ("Hits", ["Hit", "Hits", "hits.NodePath"]),
    "operators": ("Operators", ["operators"]),
    "requests": ("Requests of an operator", ["core.requests", "core.candidates"]),
    "construction": (
        "Pages, edges, knowledge",
        ["construction", "construction.knowledge", "construction.knowledge_readers"],
    ),
    "models": (
        "Signals and models",
        ["minilm", "SentenceEncoder", "CrossEncoder", "LanguageModelRelevance", "signals.signal", "signals.sparse_encoders"]
        + ["signals.embedding.Embedding", "signals.relevance.RelevanceModel", "signals.language.LanguageModel"],
    ),
    "stores": ("Databases and stores", ["stores.cypher", "stores.remote", "stores.qdrant", "stores.postgres"]),
    "agents": ("Tools of an agent", ["retrievers.agents"]),
    "errors": ("Errors", ["errors"]),
    "retrievers": ("Retrievers", [""]),
    "langchain": ("LangChain", ["langchain_graph_retrievers"]),
    "llama-index": ("LlamaIndex", ["llama_graph_retrievers"]),
}
# Classes of the frameworks whose methods are told of.
WHOLE = {"GraphRetriever", "SpreadingActivationPGRetriever"}
KINDS = {".md", ".svg", ".png", ".ipynb"}
EQUATION = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
IMPORT = re.compile(r"""import\b[^;]{0,80}?["'](https?:)?//""")
# What a browser fetches by itself, and the attribute that says from where.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "srcset", "use": "href"}


def outside() -> Iterator[tuple[str, str]]:
    """Yield each file from outside docs/: its path in the repository, and in the site."""
    for place, target in OUTSIDE.items():
        files = [ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*"))
        for file in files:
            if file.suffix in KINDS and file.is_file():
                path = file.relative_to(ROOT).as_posix()
                yield path, target + path.removeprefix(place)


def site_path(path: str) -> str | None:
    """Return where a file of the repository is in the site; None if it is not there."""
    return path.removeprefix("docs/") if path.startswith("docs/") else dict(outside()).get(path)


def rewritten(markdown: str, path: str) -> str:
    """Return a page, whose path in the repository is given, with its links to other files there as links of the site."""
    here = posixpath.dirname(site_path(path) or "")

    def replace(match: re.Match[str]) -> str:
        if "://" in match[1]:
            return match[0]
        linked = site_path(posixpath.normpath(posixpath.join(posixpath.dirname(path), match[1])))
        return f"]({posixpath.relpath(linked, here or '.')}{match[2] or ''})" if linked else match[0]

    return LINK.sub(replace, markdown)


def mathml(tex: str, display: str = "inline") -> str:
    """Return an equation as MathML, which browsers show without a script."""
    made = convert(" ".join(tex.split()).replace(r"\arg\max", r"\operatorname{argmax}"), display=display)
    return f'<div class="equation">{made}</div>' if display == "block" else made


def with_equations(markdown: str) -> str:
    """Return a page with its equations as MathML."""
    return EQUATION.sub(lambda match: mathml(match[1], "block"), markdown)


def inline(text: str) -> str:
    """Return a docstring with its equations as MathML, and its roles as links to what they name."""

    def block(match: re.Match[str]) -> str:
        indent = match[1]
        return f"{indent}{mathml(match[2], 'block')}\n"

    def role(match: re.Match[str]) -> str:
        target = match[2]
        shown = target.rpartition(".")[2] if match[1] else target
        return f"[`{shown}`][{target}]" if target in documented() else f"`{shown}`"

    text = re.sub(r"^( *)\.\. math::[ \n]*((?:.+\n?)(?:\1 +.+\n?|\n(?=\1    +\S))*)", block, text, flags=re.MULTILINE)
    text = re.sub(r":math:`([^`]+)`", lambda match: mathml(match[1]), text)
    return re.sub(r":\w+:`(~?)([^`]+)`", role, text)


class Docstrings(griffe.Extension):
    """Docstrings as the site shows them."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Write the markup of a docstring anew."""
        if obj.docstring is not None:
            obj.docstring.value = inline(obj.docstring.value)


@cache
def packages() -> griffe.ModulesCollection:
    """Return the packages as they are written; nothing is imported."""
    loader = griffe.GriffeLoader(search_paths=[ROOT / "shared", ROOT])
    for package in ("graph_retrievers", "langchain_graph_retrievers", "llama_graph_retrievers"):
        loader.load(package)
    loader.resolve_aliases()
    return loader.modules_collection


def found_at(name: str) -> griffe.Object:
    """Return the object of a full name."""
    return packages()[name]


@cache
def documented() -> set[str]:
    """Return the names that the API reference tells of, those of the modules where they are written included."""
    names = {name for page in API for name in told_of(page)}
    return names | {found_at(name).canonical_path for name in names}


def exported(names: list[str]) -> Iterator[str]:
    """Yield the full names of what modules export, in their order, and of names that are not modules."""
    for name in names:
        full = name if name.endswith("graph_retrievers") and name else (ENGINE + name).rstrip(".")
        found = found_at(full)
        if not found.is_module:
            yield full
            continue
        own = [key for key, member in found.members.items() if not key.startswith("_") and not member.is_alias and member.is_class]
        yield from (f"{full}.{key}" for key in (map(str, found.exports) if found.exports else own))


@cache
def told_of(page: str) -> list[str]:
    """Return the full names that a page of the API reference tells of: classes and functions, without those of an earlier page."""
    earlier = {found_at(name).canonical_path for other in list(API)[: list(API).index(page)] for name in told_of(other)}
    names = [name for name in dict.fromkeys(exported(API[page][1])) if not found_at(name).is_attribute]
    return [name for name in names if found_at(name).canonical_path not in earlier]


def reference(page: str) -> str:
    """Return a page of the API reference in Markdown."""
    lines = [f"# {API[page][0]}", ""]
    for name in told_of(page):
        lines += [f"::: {name}", ""]
        # A named class has the fields of the engine's, which its signature lists.
        if re.match(r"(langchain|llama)_graph_retrievers\.\w+Retriever$", name) and name.rpartition(".")[2] not in WHOLE:
            lines[-1:] = ["    options:", "      members: []", ""]
    return "\n".join(lines)


def parts(nav: list[Any], section: str = "") -> Iterator[tuple[str, str]]:
    """Yield the pages of the navigation of mkdocs.yml in its order, each with the section that it is in."""
    for item in nav:
        for title, inside in item.items() if isinstance(item, dict) else [("", item)]:
            if isinstance(inside, list):
                yield from parts(inside, section or title)
            else:
                yield section, inside


def summary(markdown: str) -> tuple[str, str]:
    """Return the heading of a page and its first sentence, without the markup of links and code."""
    title = re.search(r"^# (.+)$", markdown, re.MULTILINE)
    prose = [block for block in markdown.split("\n\n") if re.match(r"[`\w\[(*]", block) and not block.startswith("```")]
    first = re.split(r"(?<=[.:]) ", " ".join(prose[0].split()))[0] if prose else ""
    return title[1] if title else "", re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", first).rstrip(":")


def llms(nav: list[Any], pages: dict[str, str], name: str, about: str) -> str:
    """Return llms.txt: the pages of the navigation with what the tables of index pages say, as https://llmstxt.org describes."""
    told = {}
    for index in filter(lambda page: posixpath.basename(page) == "index.md", pages):
        for page, subject in re.findall(r"^\| \[[^]]+\]\(([^)]+)\) \|.*?([^|]+) \|$", pages[index], re.MULTILINE):
            told.setdefault(posixpath.join(posixpath.dirname(index), page), subject.strip())
    lines, last = [f"# {name}", "", f"> {about}"], ""
    for section, page in parts(nav):
        if section != last:
            lines += ["", f"## {section}", ""]
        title, first = summary(pages[page])
        about = told.get(page, first)
        # A notebook, and a page without a sentence, is not there as Markdown.
        file = page if about and page.endswith(".md") else str(Path(page).with_suffix(".html"))
        lines.append(f"- [{title}]({file}): {about}" if about else f"- [{title}]({file})")
        last = section
    return "\n".join(lines) + "\n"


def local(file: Path, target: str, site: Path) -> tuple[Path, str] | None:
    """Return the file and the anchor that a link of a page of the site leads to; None if it leads elsewhere."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    path = unquote(parts.path)
    found = (file.parent / path).resolve() if path else file
    return (found / "index.html" if found.is_dir() else found), unquote(parts.fragment)


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong in a built site: links that lead nowhere, and what a browser would fetch from elsewhere."""
    trees = {file: html.parse(str(file)).getroot() for file in sorted(site.rglob("*.html")) if file.name != "404.html"}
    anchors = {file: {*tree.xpath("//@id"), *tree.xpath("//a/@name")} for file, tree in trees.items()}
    for file, tree in trees.items():
        here = file.relative_to(site).as_posix()
        for element in tree.iter(*FETCHED):
            source = element.get(FETCHED[element.tag]) or ""
            if urlsplit(source).netloc or (element.tag == "script" and IMPORT.search(element.text or "")):
                yield f"{here} fetches {source or 'what a script imports'}"
        for target in tree.xpath("//a/@href | //img/@src | //script/@src | //link/@href | //source/@srcset"):
            found = local(file, target, site)
            if found is None:
                continue
            if not found[0].exists():
                yield f"{here} links to {target}, which is not there"
            elif found[1] and found[0] in anchors and found[1] not in anchors[found[0]]:
                yield f"{here} links to {target}, whose anchor is not there"
    for file in sorted(site.rglob("*.css")):
        if re.search(r"url\(['\"]?(https?:)?//", file.read_text(encoding="utf-8")):
            yield f"{file.relative_to(site)} fetches from elsewhere"


def cells(notebook: Path) -> str:
    """Return the Markdown of a notebook."""
    read = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in read if cell["cell_type"] == "markdown")


_pages: dict[str, str] = {}


# Before plugins that read the files, such as that of notebooks.
@event_priority(100)
def on_files(files: Any, config: Any) -> Any:
    """Add the files from outside docs/."""
    for path, target in outside():
        if path.endswith(".ipynb"):
            # The plugin for notebooks asks a file for its folder.
            folder = str(ROOT / path.removesuffix(target))
            files.append(File(target, folder, config.site_dir, config.use_directory_urls))
        else:
            files.append(File.generated(config, target, abs_src_path=str(ROOT / path)))
    for page in API:
        files.append(File.generated(config, f"api/{page}.md", content=reference(page)))
    return files


def source(page: Any) -> str:
    """Return where a page is in the repository."""
    target = page.file.src_uri
    return next((path for path, inside in outside() if inside == target), f"docs/{target}")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write the links of a page anew, and keep it for llms.txt."""
    path = source(page)
    _pages[page.file.src_uri] = made = rewritten(cells(ROOT / path) if path.endswith(".ipynb") else markdown, path)
    return with_equations(made)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Write the links of a notebook anew, which is HTML when it comes, and leave out the scripts that it would fetch."""
    path = source(page)
    if not path.endswith(".ipynb"):
        return content
    content = re.sub(r"<script(?:(?!</script>).)*https://cdnjs(?:(?!</script>).)*</script>", "", content, flags=re.DOTALL)

    def replace(match: re.Match[str]) -> str:
        linked = re.sub(r"[.](?:md|ipynb)(?=#|$)", ".html", rewritten(f"]({match[1]})", path)[2:-1])
        return match[0] if "://" in linked else f'href="{linked}"'

    return re.sub(r'href="([^"#][^"]*)"', replace, content)


def on_post_build(config: Any) -> None:
    """Write llms.txt and the pages in Markdown, and check the site."""
    site = Path(config.site_dir)
    (site / "llms.txt").write_text(llms(config.nav, _pages, config.site_name, config.site_description), encoding="utf-8")
    for name, markdown in _pages.items():
        if name.endswith(".md") and not name.startswith("api/"):
            (site / name).write_text(markdown, encoding="utf-8")
    wrong = sorted(set(faults(site)))
    if wrong:
        raise PluginError("\n".join([f"{len(wrong)} faults in the site:", *wrong]))
