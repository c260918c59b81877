"""The hook that makes the site: links to what stands outside docs/, llms.txt, and faults that are found."""

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("website", ROOT / "tools" / "website.py")
website = importlib.util.module_from_spec(spec)
spec.loader.exec_module(website)


@pytest.mark.parametrize(
    ("page", "link", "made"),
    [
        ("docs/evaluation.md", "../benchmarks/results/README.md", "results/README.md"),
        ("docs/concepts.md", "saving.md#size", "saving.md#size"),
        ("README.md", "docs/compose.md#inputs", "compose.md#inputs"),
        ("README.md", "docs/images/idea.svg", "images/idea.svg"),
        ("CONTRIBUTING.md", "CHANGELOG.md", "changelog.md"),
        ("benchmarks/results/citations/README.md", "../walks/README.md", "../walks/README.md"),
        ("docs/concepts.md", "../shared/graph_retrievers/commands/cli.py", "../shared/graph_retrievers/commands/cli.py"),
        ("docs/concepts.md", "https://example.org/docs/saving.md", "https://example.org/docs/saving.md"),
        ("docs/concepts.md", "#hits", "#hits"),
    ],
)
def test_links_lead_to_the_same_page_in_the_site(page, link, made):
    assert website.rewritten(f"See [it]({link}).", page) == f"See [it]({made})."


def test_every_page_of_the_navigation_is_there_and_every_page_of_docs_is_in_it():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = set(re.findall(r"([\w/.-]+\.(?:md|ipynb))$", text, re.MULTILINE))
    docs = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    made = {f"api/{page}.md" for page in website.API}
    assert docs | made <= listed <= docs | made | {target for _, target in website.outside()}


def test_llms_txt_lists_the_pages_in_their_order():
    pages = {"index.md": "# All\n\nText.\n\n| page | subject |\n| --- | --- |\n| [B](b.md) | of b |\n", "b.md": "# B\n\nText."}
    pages["c.md"] = "# C `x`\n\n```python\nx = 1\n```\n\nOf [a loom](b.md): it weaves. More."
    pages["d/index.md"] = "# D\n\n| page | name | idea |\n| --- | --- | --- |\n| [E](e.md) | `e` | an idea |\n"
    pages["d/e.md"] = "# E\n\n`e`: x"
    nav = [{"First": ["index.md", {"Bee": "b.md"}]}, {"Then": [{"Cee": "c.md"}, {"More": [{"Eee": "d/e.md"}]}]}]
    made = website.llms(nav, pages, "name", "About it")
    pages["d.ipynb"] = "# D\n\nA notebook."
    notebook = website.llms(["index.md", "d.ipynb"], pages, "name", "About it")
    assert notebook.endswith("- [D](d.html): A notebook.\n")
    first, then = "- [All](index.md): Text.\n- [B](b.md): of b", "- [C `x`](c.md): Of a loom\n- [E](d/e.md): an idea"
    assert made == f"# name\n\n> About it\n\n## First\n\n{first}\n\n## Then\n\n{then}\n"


def test_faults_of_a_site_are_found(tmp_path):
    good = '<h2 id="x">X</h2><a href="#x"></a><a href="b.html#y">b</a><a href="https://example.org/">far</a><img src="a.svg">'
    (tmp_path / "a.html").write_text(f"<html><body>{good}</body></html>")
    (tmp_path / "b.html").write_text('<html><body><p id="y">b</p></body></html>')
    (tmp_path / "a.svg").write_text("<svg/>")
    (tmp_path / "a.css").write_text("p {background: url(a.svg)}")
    assert list(website.faults(tmp_path)) == []
    (tmp_path / "b.html").write_text(
        '<html><head><script src="//cdn.example.org/x.js"></script><link rel="stylesheet" href="https://fonts.example.org/f">'
        '<script type="module">const m = (await import("https://cdn.example.org/m.mjs")).default</script></head>'
        '<body><a href="c.html">c</a><a href="a.html#z">z</a><img src="https://example.org/p.png"></body></html>'
    )
    (tmp_path / "a.css").write_text("@font-face {src: url('https://fonts.example.org/f.woff')}")
    assert sorted(website.faults(tmp_path)) == [
        "a.css fetches from elsewhere",
        "a.html links to b.html#y, whose anchor is not there",
        "b.html fetches //cdn.example.org/x.js",
        "b.html fetches https://example.org/p.png",
        "b.html fetches https://fonts.example.org/f",
        "b.html fetches what a script imports",
        "b.html links to a.html#z, whose anchor is not there",
        "b.html links to c.html, which is not there",
    ]


def test_the_api_reference_tells_of_every_public_name_once():
    import graph_retrievers

    told = [website.found_at(name).canonical_path for page in website.API for name in website.told_of(page)]
    assert len(told) == len(set(told))
    public = {name: website.found_at(f"graph_retrievers.{name}").canonical_path for name in graph_retrievers.__all__}
    assert {name for name, path in public.items() if path not in told} == set()
    assert "graph_retrievers.core.compositions.Pipeline" in told and "langchain_graph_retrievers.presets.MoRRetriever" in told


def test_no_export_is_without_a_page():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    code = " ".join(re.findall(r"```.*?```|`[^`]*`", " ".join(page.read_text(encoding="utf-8") for page in pages), re.DOTALL))
    words, documented, bare = set(re.findall(r"\w+", code)), website.documented(), []
    for folder in (ROOT / "shared" / "graph_retrievers", ROOT / "langchain_graph_retrievers", ROOT / "llama_graph_retrievers"):
        for file in folder.rglob("*.py"):
            module = ".".join(file.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
            listed = re.search(r"^__all__ = \[(.*?)\]", file.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
            names = re.findall(r'"(\w+)"', listed[1]) if listed else []
            bare += [f"{module}.{name}" for name in names if f"{module}.{name}" not in documented and name not in words]
    assert bare == []


def test_docstrings_lose_the_markup_of_sphinx():
    text = "See :class:`~graph_retrievers.PPR` and :func:`nothing.known`, :math:`a_b`."
    made = website.inline(f"{text}\n\n    .. math::\n        x = 1,\n        y = 2\n\n    More.\n")
    assert "[`PPR`][graph_retrievers.PPR] and `nothing.known`" in made and "<msub><mi>a</mi><mi>b</mi></msub>" in made
    assert ".. math" not in made and made.count('<div class="equation">') == 1 and made.endswith("\n    More.\n")
    assert "<mn>1</mn>" in made and "<mn>2</mn>" in made


def test_equations_of_a_page_are_mathml():
    made = website.with_equations("Before\n\n```math\nS = \\frac{a}{b}\n```\n\n```python\nx = 1\n```\n")
    assert "<mfrac>" in made and "```math" not in made and "```python" in made
