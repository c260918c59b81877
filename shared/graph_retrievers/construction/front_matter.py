"""Front matter: the fields at the head of a Markdown page, between two lines of hyphens."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any

from graph_retrievers.graph.addresses import ADDRESS_FIELDS

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(\w[\w-]*:.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
# Most characters that are read as YAML.
_LONGEST = 20_000
_ALIASES = ("aliases", "alias")
# Other fields of a node have these names: its page, its document, and what its reader found.
_RESERVED = frozenset(
    [*ADDRESS_FIELDS, *_ALIASES, *"title document chunk_index headings anchors links contents linked page".split()]
)
_TAGS = frozenset(["tags", "tag"])
# The wiki links in a list as Python writes it, and what YAML makes of a wiki link without quotation marks.
_QUOTED = re.compile(r"""(?:"(\[\[[^"\n]*\]\])"|'(\[\[[^'\n]*\]\])')""")
_NESTED = re.compile(r"\[\['([^'\[\]]*)'\]\]")
# The character before the bar of a wiki link in a table.
_ESCAPE = "\\"
_WIKI_LINK = re.compile(r"\[\[([^\[\]|\n]+)(?:\|[^\[\]\n]*)?\]\]")


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    r"""Return the fields of the front matter of a page, as values of JSON, and the page without it.

    Dates become texts in ISO form, and what has no form in JSON the text of it. If the YAML is broken, uses anchors or is longer
    than 20,000 characters, its lines ``name: value`` are the fields.

    >>> front_matter("---\ntitle: Looms\ntags: [weaving, tools]\nwritten: 2024-05-01\n---\nText.")
    ({'title': 'Looms', 'tags': ['weaving', 'tools'], 'written': '2024-05-01'}, 'Text.')
    """
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text
    return _fields(match[1]), text[match.end() :]


def names_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the other names of a page, which front matter lists as ``aliases`` or ``alias``.

    >>> names_of({"aliases": ["Jacquard", "Punch loom"], "alias": "JL"})
    ['Jacquard', 'Punch loom', 'JL']
    """
    values = [value for name in _ALIASES for value in _as_list(fields.get(name))]
    return list(dict.fromkeys(" ".join(name.split()) for name in values if isinstance(name, str) and name.strip()))


def is_own_field(name: str) -> bool:
    """Return whether the nodes of a page have a field under its own name: not if they need the name for themselves.

    >>> is_own_field("up"), is_own_field("source")
    (True, False)
    """
    return name not in _RESERVED


def filter_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that nodes of the page keep for filters: all but those whose names nodes need for themselves.

    ``tags`` are a list, also where they are written as one text.
    """
    page_fields = {name: value for name, value in fields.items() if name not in _RESERVED and value is not None}
    if isinstance(tags := page_fields.get("tags"), str):
        page_fields["tags"] = [tag for tag in re.split(r"[,\s]+", tags) if tag]
    return page_fields


def tags_in(fields: Mapping[str, Any]) -> list[str]:
    """Return the tags that front matter lists.

    >>> tags_in({"tags": "weaving, tools"}), tags_in({"tags": [1, "a"]}), tags_in({})
    (['weaving', 'tools'], ['a'], [])
    """
    return [
        tag.strip().removeprefix("#") for tag in _as_list(filter_fields(fields).get("tags")) if isinstance(tag, str) and tag.strip()
    ]


def linked_fields(fields: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the wiki links of those fields that hold nothing else, without the words that they show.

    A list may also be given as the text of one, as loaders of LangChain write it.

    >>> linked_fields({"up": "[[Home|start]]", "related": ["[[Cards]]", "[[Looms]]"], "note": "see [[Home]]"})
    {'up': ['[[Home]]'], 'related': ['[[Cards]]', '[[Looms]]']}
    >>> linked_fields({"related": "['[[Cards]]', '[[Looms]]']"})
    {'related': ['[[Cards]]', '[[Looms]]']}
    """
    links = {}
    for name, value in filter_fields(fields).items():
        items = [_link(item) for item in _items(value)]
        if name not in _TAGS and items and all(items):
            links[name] = [item for item in items if item]
    return links


def other_links(fields: Mapping[str, Any]) -> list[str]:
    """Return the wiki links that are values, or items of lists, of fields that :func:`linked_fields` leaves out.

    >>> other_links({"source": "[[Book]]", "seen": ["[[Lyon]]", "Lund"], "up": "[[Home]]"})
    ['[[Book]]', '[[Lyon]]']
    """
    link_fields = linked_fields(fields)
    return [link for name, value in fields.items() if name not in link_fields for item in _items(value) if (link := _link(item))]


def _link(item: Any) -> str:
    """Return the wiki link that an item is, "" if it is none."""
    match = _WIKI_LINK.fullmatch(item.strip()) if isinstance(item, str) and "[[" in item else None
    return f"[[{match[1].removesuffix(_ESCAPE).strip()}]]" if match else ""


def _items(value: Any) -> Sequence[Any]:
    """Return the items of a list, also of one that is written as a text; anything else as one item."""
    if isinstance(value, str) and value.startswith("[") and value.endswith("]") and _QUOTED.search(value):
        return [double or single for double, single in _QUOTED.findall(value)]
    if isinstance(value, str) and (match := _NESTED.fullmatch(value.strip())):
        return [f"[[{match[1]}]]"]
    return _as_list(value)


def _fields(text: str) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.load(text, _loader()) if len(text) <= _LONGEST else None
        if isinstance(content, dict):
            return {str(name): _plain(value) for name, value in content.items()}
    except (yaml.YAMLError, ValueError, RecursionError):
        # The values may be templates, for example.
        pass
    lines = (line.partition(":") for line in text.split("\n") if not line[:1].isspace())
    return {name.strip(): value.strip().strip("\"'") for name, mark, value in lines if mark and value.strip()}


@cache
def _loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """Plain values, without anchors: a few lines of them can stand for gigabytes."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("An anchor is used.")
            return super().compose_node(parent, index)

    return Loader


def _plain(value: Any) -> Any:
    """Return a value of YAML as one of JSON; ``[[Home]]``, which YAML reads as lists, as the wiki link that was meant."""
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], list) and len(value[0]) == 1 and isinstance(value[0][0], str):
            return f"[[{value[0][0]}]]"
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    is_plain = value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_plain else str(value)


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
