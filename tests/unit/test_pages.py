"""Pages that are made to be hard to read."""

import time

import pytest

from graph_retrievers.construction.html import read_html
from graph_retrievers.construction.markdown import read_markdown
from graph_retrievers.construction.plain_text import read_text
from graph_retrievers.construction.sections import split_page


class TestHostile:
    OPENINGS = [
        *(
            "[",
            "](",
            "](<",
            "](((",
            "\n[x]: ",
            "<a ",
            "<a href='",
            "<a \"'",
            "<!--",
            "<script>",
            "<http://x",
            "<a",
            "</a",
            "&",
            "<",
        ),
        *(
            "<div>",
            "<b><i>",
            "<a href=x>",
            "<table><td>",
            "<p><b>",
            "# x\n",
            "- ",
            "> ",
            "`",
            "*a ",
            "_a_",
            "<a x=1 ",
            "\\",
            "\n\n",
            "|",
        ),
        *("<h1>", "<dt>", "<li>", "***", "![", "~~~\n", "1. a\n", "<!DOCTYPE", "<![CDATA["),
    ]

    @pytest.mark.slow
    @pytest.mark.parametrize("read", [read_html, read_markdown, read_text])
    def test_hostile_texts_take_linear_time(self, read):
        started = time.perf_counter()
        for text in self.OPENINGS:
            page = read("<a>" + text * (20_000 // len(text)))
            split_page(page)
        # A few seconds; in quadratic time some of them would take minutes.
        assert time.perf_counter() - started < 120
