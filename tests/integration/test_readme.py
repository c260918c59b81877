"""The code of the README runs as it stands there."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^#+ ", README, flags=re.M)
BLOCKS = {s.splitlines()[0]: re.search(r"```python\n(.*?)```", s, re.S).group(1) for s in SECTIONS if "```python" in s}


def test_both_frameworks_have_their_code():
    assert {"LangChain", "LlamaIndex"} <= set(BLOCKS)


@pytest.mark.parametrize("title", ["LangChain", "LlamaIndex"])
def test_the_code_of_a_framework_finds_the_answer_through_the_link(title, capsys):
    exec(compile(BLOCKS[title], f"README: {title}", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert any("British saxophonist" in line for line in lines)
    assert any("['film']" in line for line in lines)
