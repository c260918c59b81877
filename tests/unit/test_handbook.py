"""A handbook in Markdown, from its pages to hits: tables, links, what is read and what is shown, and the names of sections."""

import pytest
import torch

from graph_retrievers import GraphIndex, Retriever
from graph_retrievers.construction import Links, build_edges, read_folder
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.graph.tokens import estimate_tokens
from graph_retrievers.retrievers.excerpt import index_vectors
from graph_retrievers.systems import WalkFusion

TOOLS = "| Tool | Owner | What it is for |\n| :--- | --- | ---: |\n"
FAR = "[the far page](far.md#budget)"


def write(folder, pages):
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def row(number):
    link = FAR if number == 40 else "[its page](https://example.org/tools/of/the/company.html)"
    return f"| Tool {number} | Team {number} | {link} says. It is for task {number}. |\n"


def handbook(tmp_path, **pages):
    tools = f"# Tools\n\n{TOOLS}{''.join(map(row, range(60)))}\n"
    return write(tmp_path, {"tools.md": tools, "far.md": "# Far\n\n## Budget\n\nMoney."} | pages)


class TestTables:
    def test_a_link_leaves_from_the_chunk_that_holds_its_row(self, tmp_path):
        nodes = read_folder(handbook(tmp_path))
        (source,) = {source for source, target, _ in build_edges(nodes, Links(field="links")) if target.startswith("far.md")}
        (holder,) = [node.id for node in nodes if "Tool 40 " in node.text]
        assert source == holder != "tools.md"

    def test_every_part_begins_with_the_header_and_rows_are_whole(self, tmp_path):
        parts = [node for node in read_folder(handbook(tmp_path)) if node.metadata["path"] == "tools.md"]
        assert len(parts) > 3
        rows = []
        for node in parts:
            first, *others = node.text.split("\n")
            assert first == "Tool | Owner | What it is for" and "---" not in node.text
            assert estimate_tokens(node.text) <= 220
            rows += others
            shown = node.shown().text.split("\n")
            assert shown[0].strip("| ") == first and shown[1].replace(" ", "").strip("|").count("---") == 3
            assert shown[2:] == [row(int(text.split()[1])).strip() for text in others]
        assert [text.split(" | ")[0] for text in rows] == [f"Tool {number}" for number in range(60)]
        assert all(text.endswith(f"It is for task {number}.") for number, text in enumerate(rows))

    def test_a_row_that_is_too_long_is_cut_behind_a_cell(self, tmp_path):
        cell = "One two. Three four. " * 15
        (tmp_path / "a.md").write_text(f"# A\n\n| a | b | c |\n|---|---|---|\n| x | y | z |\n| {cell} | {cell} | {cell} |\n")
        texts = [node.text.split("\n") for node in read_folder(tmp_path, max_tokens=120)]
        assert [text[0] for text in texts] == ["a | b | c"] * 3 and texts[0][1] == "x | y | z"
        assert [text[-1].strip(" |") for text in texts] == [cell.strip()] * 3

    def test_a_header_without_room_is_not_repeated(self, tmp_path):
        words = "w " * 50
        rows = f"| {words} |\n" * 4
        (tmp_path / "a.md").write_text(f"# A\n\n| {'h ' * 60} |\n|---|\n{rows}")
        assert [node.text.count("h") for node in read_folder(tmp_path, max_tokens=100)] == [60, 0, 0]

    def test_tables_of_html_repeat_their_header(self, tmp_path):
        rows = "".join(f"<tr><th>Tool {n}<td><p>one</p><p>two</p><td>Some words on task {n} of the team." for n in range(60))
        head = "<thead><tr><th colspan=3>Of the company<tr><th>Tool<th>Parts<th>Task</thead>"
        other = "<table><tr><td>no<td>header" + "<tr><td>x<td>y" * 90 + "</table>"
        (tmp_path / "a.html").write_text(f"<h1>Tools</h1><table>{head}<tbody>{rows}</tbody></table>{other}")
        texts = [node.text for node in read_folder(tmp_path)]
        assert texts[0].startswith("Of the company\nTool | Parts | Task\nTool 0")
        assert [text.count("Tool | Parts | Task") for text in texts if "task" in text] == [1] * sum("task" in t for t in texts)
        assert all(text.startswith("Tool | Parts | Task\n") for text in texts[1:] if text.find("task") >= 0)
        assert not any("Tool | Parts" in text for text in texts if "task" not in text)


class TestTexts:
    PAGE = (
        "# Looker {#looker}\n\n<!-- TODO: move -->\n<a name='old'></a>\n\nAsk in [#data](https://chat.example.org/archives/C0291) "
        "first. ![A *chart*](/images/chart-2023.png)\n\n<div class='note'>\n\nUse `<tag>`:\n\n```sql\nSELECT [x](y)\n```\n"
        "\n</div>\n"
    )
    READ = "Ask in #data first. A chart\nUse <tag>:\nSELECT [x](y)"

    @pytest.fixture
    def index(self, tmp_path):
        (node,) = read_folder(write(tmp_path / "pages", {"looker.md": self.PAGE}))
        assert (node.title, node.text, node.metadata["anchors"]) == ("Looker", self.READ, ["looker", "old"])
        return GraphIndex.from_nodes([node], embedding=lambda texts: [[float(len(text)), 1.0] for text in texts])

    def test_signals_read_what_a_person_reads_and_hits_show_what_is_written(self, index, tmp_path):
        assert index.graph.contents() == [f"Looker. {self.READ}"] and "archives" not in index.bm25.vocabulary
        index.save(tmp_path / "saved")
        saved = GraphIndex.load(tmp_path / "saved", embedding=index.embedding)
        for opened in (index, saved):
            (hit,) = Retriever(opened, WalkFusion()).retrieve("chart")
            assert hit.text == self.PAGE.partition("</a>\n\n")[2].strip() and hit.origin == {}
            assert opened.graph.contents() == [f"Looker. {self.READ}"]

    def test_documents_of_the_frameworks_show_what_is_written(self, index):
        from langchain_graph_retrievers import WalkFusionRetriever
        from llama_graph_retrievers import WalkFusionRetriever as Llama

        (document,) = WalkFusionRetriever(index=index).invoke("chart")
        (found,) = Llama(index=index).retrieve("chart")
        for shown in (document, found.node):
            (known,) = index_vectors(to_nodes([shown]), index)
            assert torch.equal(known, index.dense.vectors[0])
        assert document.page_content == found.node.text and "(https://chat.example.org/archives/C0291)" in found.node.text

    def test_an_address_that_changed_is_shown_and_nothing_is_embedded(self, index, tmp_path):
        changed = write(tmp_path / "pages", {"looker.md": self.PAGE.replace("C0291", "C0555")})
        embedded = []
        model = lambda texts: embedded.append(texts) or [[0.0, 1.0] for _ in texts]  # noqa: E731
        after = index.with_models(embedding=model).with_changes(upsert=read_folder(changed))
        assert embedded == [] and torch.equal(after.dense.vectors, index.dense.vectors)
        assert "C0555" in Retriever(after, WalkFusion()).retrieve("chart", vector=[0, 1])[0].text

    def test_what_is_written_is_kept_only_where_it_differs(self, tmp_path):
        pages = {"a.md": "# A\n\nOne two.\n\n- three\n", "b.html": "<h1>B</h1><p><b>Some</b> <a href=a.md>words</a>"}
        assert [node.origin for node in read_folder(write(tmp_path, pages))] == [{}, {}]

    def test_documents_of_other_loaders_are_read_as_they_are(self):
        from langchain_core.documents import Document

        index = GraphIndex.from_documents([Document(self.PAGE, id="a", metadata={"source": "looker.md"})])
        assert index.graph.contents() == [self.PAGE] and Retriever(index, "bm25").retrieve("chart")[0].text == self.PAGE


class TestSections:
    def test_a_bold_question_and_a_line_with_a_colon_stay_with_what_follows(self, tmp_path):
        answer = "This is the answer, with a few words. " * 5
        faq = "".join(f"**Question {n} of the team?**\n\n{answer}\n\nDo it so:\n\n- Step {n} of it\n\n" for n in range(20))
        html = faq.replace("**Q", "<p><b>Q").replace("?**", "?</b></p>").replace("Do it", "<p>Do it").replace("- Step", "<p>Step")
        write(tmp_path, {"faq.md": f"# FAQ\n\n{faq}", "other.html": f"<h1>Other</h1>{html}"})
        nodes = read_folder(tmp_path)
        lines = [node.text.split("\n") for node in nodes]
        assert len(nodes) > 10 and not any(text[-1].endswith(("?", ":")) for text in lines)
        for number in range(20):
            assert sum(f"Question {number} of the team?" in text for node in lines for text in node) == 2

    def test_what_leads_to_a_long_block_is_in_the_chunk_of_its_beginning(self, tmp_path):
        code = "".join(f"line {n}\n" for n in range(300))
        write(tmp_path, {"a.md": f"# A\n\n{'Some words. ' * 60}\n\nRun this:\n\n```\n{code}```\n"})
        nodes = read_folder(tmp_path)
        (first,) = [node.text for node in nodes if "line 0\n" in node.text]
        assert first.startswith("Run this:\nline 0") and max(estimate_tokens(node.text) for node in nodes) <= 220

    def test_short_sections_have_the_heading_around_all_of_them(self, tmp_path):
        long = "Access is given by the team that owns the data, on request. " * 20
        write(
            tmp_path,
            {
                "looker.md": f"# Data\n\n{long}\n\n## Looker\n\n### What is Looker?\n\nA tool.\n\n### Who owns it?\n\nWe do.\n\n"
                f"### How do I get access?\n\n{long}"
            },
        )
        nodes = [node for node in read_folder(tmp_path) if "looker" in node.id]
        nodes = [node for node in nodes if "get-access" in " ".join(node.metadata["anchors"]) or "Looker?" in node.text]
        assert [node.title for node in nodes] == ["Data: Looker", *["Data: How do I get access?"] * (len(nodes) - 1)]
        assert nodes[0].metadata["headings"] == ["Data", "Looker"] and len(nodes) > 1
        assert "What is Looker?\nA tool." in nodes[0].text and "Who owns it?\nWe do." in nodes[0].text

    def test_a_short_beginning_and_its_first_subsection_have_both_headings(self, tmp_path):
        long = "Access is given by the team that owns the data, on request. " * 8
        write(tmp_path, {"a.md": f"# Data\n\n{long}\n\n## Looker\n\nA tool.\n\n### Access\n\n{long}\n\n{long}\n\n{long}"})
        titles = [(node.id, node.title, node.metadata["headings"]) for node in read_folder(tmp_path)][1:]
        assert titles[0] == ("a.md#access", "Data: Looker: Access", ["Data", "Looker", "Access"])
        assert {title for _, title, _ in titles[1:]} == {"Data: Access"}

    @pytest.mark.parametrize(
        ("name", "text", "title"),
        [
            ("data_team/index.md", "Some words.", "data team"),
            ("data/_index.md", "Some words.", "data"),
            ("data/README.md", "Some words.", "data"),
            ("data/index.html", "<p>Some words.", "data"),
            ("data/index.md", "---\ntitle: Our data\n---\nSome words.", "Our data"),
            ("data/index.md", "Some words.\n\n## Later\n\nMore.", "data"),
            ("data/indexes.md", "Some words.", "indexes"),
            ("handbook/Index.md", "**Some** words.", "handbook"),
        ],
    )
    def test_pages_without_a_heading_are_called_as_their_folder(self, tmp_path, name, text, title):
        assert read_folder(write(tmp_path, {name: text}))[0].title == title
        assert read_folder((tmp_path / name).parent)[0].title == title
