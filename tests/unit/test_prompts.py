"""The texts that systems send to language models."""

import re
import string
from pathlib import Path

import graph_retrievers.systems
from graph_retrievers.systems.asking import prompt_text

SYSTEMS = Path(graph_retrievers.systems.__file__).parent


def test_every_text_of_a_prompt_is_used_and_every_one_that_is_used_exists():
    code = "".join(path.read_text("utf-8") for path in SYSTEMS.rglob("*.py") if path.name != "asking.py")
    used = re.findall(r'\b(?:Prompt|prompt_text)\(\s*"([\w-]+)"', code)
    assert sorted(used) == sorted(path.stem for path in (SYSTEMS / "prompts").glob("*.txt"))


def test_a_text_has_plain_fields_and_no_blank_ends():
    for path in (SYSTEMS / "prompts").iterdir():
        text = prompt_text(path.stem)
        assert text == text.strip() and path.read_text("utf-8") == f"{text}\n", path.name
        fields = [(name, layout, conversion) for _, name, layout, conversion in string.Formatter().parse(text) if name is not None]
        assert all(name.isidentifier() and not layout and not conversion for name, layout, conversion in fields), path.name
