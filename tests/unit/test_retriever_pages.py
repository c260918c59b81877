"""The pages on retrievers: one for each name, with its picture, its settings as the code has them, its cost and its paper."""

import importlib.util
import re
from dataclasses import fields
from pathlib import Path

import pytest

from graph_retrievers.arguments import keywords_of
from graph_retrievers.retrievers import Retriever
from graph_retrievers.search.batch import DEFAULT_K
from graph_retrievers.systems import every_system, read_system

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "retrievers"
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md")) if page.name != "index.md"}
LISTED = dict(re.findall(r"^\| \[[^]]+\]\(([\w-]+)\.md\) \| (`[^|]+`) \|", (FOLDER / "index.md").read_text(encoding="utf-8"), re.M))
COMMON = keywords_of(Retriever.__init__) - {"k"}

spec = importlib.util.spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
drawn = importlib.util.module_from_spec(spec)
spec.loader.exec_module(drawn)


def test_every_name_is_listed_once_with_its_page():
    names = [name for row in LISTED.values() for name in re.findall(r"`([\w-]+)`", row)]
    assert sorted(names) == sorted(every_system()) and set(LISTED) == set(PAGES)
    assert all(name in PAGES[page].partition("\n## ")[0] for page, row in LISTED.items() for name in re.findall(r"`([\w-]+)`", row))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_every_setting_with_its_default(page):
    kinds = {type(read_system(name)) for name in re.findall(r"`([\w-]+)`", LISTED[page])}
    knobs = {}
    for kind in kinds:
        if kind.default_k != DEFAULT_K:
            knobs.setdefault("k", set()).add(repr(kind.default_k))
        for field in fields(kind):
            knobs.setdefault(field.name, set()).add(repr(field.default))
    own = set(knobs) - COMMON - ({"k"} if knobs.get("k", {"10"}) <= {"5", "10"} else set())
    table = PAGES[page].partition("\n## Settings\n")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", table, re.MULTILINE))
    assert set(told) == own
    for name, default in told.items():
        assert default.replace('"', "'") in knobs[name], name


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_a_picture_and_says_cost_limits_and_paper(page):
    headings = re.findall(r"^## (.+)$", PAGES[page], re.MULTILINE)
    assert headings[-3:] == ["Cost", "When it loses", "Paper"]
    assert page == "rewriting" or "How it scores" in headings
    assert f"](../images/retrievers/{page}.svg)" in PAGES[page].partition("\n## ")[0]


def test_pictures_are_those_that_their_descriptions_draw():
    made = drawn.pictures()
    assert set(made) == {f"{page}.svg" for page in PAGES}
    for file, svg in made.items():
        assert (drawn.FOLDER / file).read_text(encoding="utf-8") == svg, f"{file}: run tools/pictures.py"
