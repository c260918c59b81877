"""Quarto and R Markdown: labels, and references to them from all files of a book."""

import pytest

from graph_retrievers.construction import Links, build_edges
from graph_retrievers.construction.quarto import read_quarto
from tests.pages import read

WORDS = "Looms weave cloth of many threads that are set up on a beam. " * 4
BOOK = {
    "index.qmd": f"# Preface {{.unnumbered}}\n\n{WORDS}Begin with @sec-looms, and see [-@fig-cards] and @tbl-holes.",
    "looms.qmd": f"# Looms {{#sec-looms}}\n\n{WORDS}\n\n![Cards of paper](cards.png){{#fig-cards width=60%}}\n\nSee @fig-breaks.",
    "method.qmd": f"""---
title: Method
---

# Tension {{#sec-tension}}

{WORDS}By @Eq-force and @thm-limit of [@sec-tension].

$$
F = m g
$$ {{#eq-force}}

## Breaks

{WORDS}

```{{r}}
#| label: fig-breaks
#| fig-cap: "Breaks a day"
plot(breaks)  # as @fig-cards
```

::: {{#thm-limit}}
## Limit

No thread bears nine newton.
:::

| hole | card |
|------|------|
| 1    | 2    |

: Holes of cards {{#tbl-holes}}
""",
}


def blocks(text):
    return [(block.text, block.level, block.anchors) for block in read_quarto(text).blocks]


def test_references_lead_to_labels_in_all_files(tmp_path):
    nodes = read(tmp_path, BOOK, max_tokens=100)
    links = {node.id: node.metadata["links"] for node in nodes}
    assert links["index.qmd"] == ["/looms.qmd#sec-looms", "/looms.qmd#fig-cards", "/method.qmd#tbl-holes"]
    assert links["looms.qmd"] == ["/method.qmd#fig-breaks"]
    assert links["method.qmd"] == ["/method.qmd#eq-force", "/method.qmd#thm-limit", "/method.qmd#sec-tension"]
    text = {node.id: node.text for node in nodes}
    assert text["index.qmd"].endswith("Begin with Looms, and see Cards of paper and Holes of cards.")
    assert text["method.qmd"].partition("beam. By ")[2].startswith("@Eq-force and Limit of Tension.")
    edges = {edge[:2] for edge in build_edges(nodes, Links(field="links"))}
    assert {("index.qmd", "looms.qmd"), ("looms.qmd", "method.qmd#breaks")} <= edges
    # Hits show the source.
    assert nodes[0].id == "index.qmd" and "Begin with @sec-looms" in nodes[0].shown().text


def test_labels_and_divisions_are_no_text():
    assert blocks(BOOK["index.qmd"])[0] == ("Preface", 1, ("preface",)) and read_quarto(BOOK["index.qmd"]).title == "Preface"
    assert blocks("::: {.callout-note}\nDry.\n:::\n\n::: warning\n\nHot.\n\n:::") == [("Dry.", 0, ()), ("Hot.", 0, ())]
    assert blocks("::: {#fig-two layout-ncol=2}\n![Wool](a.png){#fig-wool}\n\nBoth\n:::") == [
        ("Wool", 0, ("fig-two", "fig-wool")),
        ("Both", 0, ()),
    ]
    assert blocks("A set {1, 2}, {#1} and a :: b.") == [("A set {1, 2}, {#1} and a :: b.", 0, ())]


@pytest.mark.parametrize(
    "text",
    [
        "Write to loom@fig-cards.org, @weaver2020, @figs or @fig-.",
        "Code:\n\n```python\n@fig-cards\n```",
        "A label of nothing: {#fig-x is open.",
    ],
)
def test_what_is_no_reference_stays(text):
    page = read_quarto(text)
    assert not page.references and page.blocks[-1].text in text


def test_references_to_nothing_read_as_they_are_written(tmp_path):
    (node,) = read(tmp_path, {"a.qmd": "See @fig-none and [@sec-none]."})
    assert node.text == "See @fig-none and [@sec-none]." and node.metadata["links"] == []


def test_labels_of_bookdown(tmp_path):
    text = (
        '# Cards {#cards}\n\nSee Figure \\@ref(fig:holes) and \\@ref(mills).\n\n```{r holes, fig.cap="Holes"}\nplot(holes)\n```\n'
    )
    one, other = read(tmp_path, {"a.Rmd": text, "b.Rmd": f"# Mills {{#mills}}\n\n{WORDS}"})
    assert one.metadata["links"] == ["/a.Rmd#fig%3Aholes", "/b.Rmd#mills"]
    assert one.text == "See Figure Holes and Mills.\nHoles\nplot(holes)" and "fig:holes" in one.metadata["anchors"]
