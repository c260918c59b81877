"""Fields in the text of a note: ``key:: value`` on a line of its own, ``[key:: value]`` and ``(key:: value)`` anywhere.

Dataview, an extension of Obsidian, and Logseq read them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from graph_retrievers.construction.front_matter import is_own_field
from graph_retrievers.construction.wiki_links import WIKI_LINK, names_in, wiki_link

# A key is short, so that a long line is read once; a link may hold what ends a value.
_KEY = r"(\w[\w /-]{0,60}?)"
_LINK = r"\[\[[^\[\]\n]*+\]\]"
_LINE = re.compile(rf"[ \t]*(?:\[.\][ \t]+)?(?:\*\*|__)?{_KEY}(?:\*\*|__)?::(?:[ \t]+(.*)|$)")
_ANYWHERE = re.compile(rf"(?<!\[)\[{_KEY}::[ \t]+((?:{_LINK}|[^\[\]\n])*+)\](?!\])|\({_KEY}::[ \t]+((?:{_LINK}|[^()\n])*+)\)")
_CODE = re.compile(r"`[^`\n]*+`")
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?")
_LISTS = frozenset(["tags", "tag", "alias", "aliases"])
_BETWEEN = re.compile(r"[\s,;]*")


def inline_fields(text: str) -> list[tuple[str, str]]:
    r"""Return the names and the values of the fields in a paragraph, as they are written, in order.

    >>> inline_fields("up:: [[Home]]\nThe loom (since:: 1804) of [place:: [[Lyon]]], std::cout.")
    [('up', '[[Home]]'), ('since', '1804'), ('place', '[[Lyon]]')]
    """
    if "::" not in text:
        return []
    fields: list[tuple[str, str]] = []
    for line in text.split("\n"):
        if "::" not in line:
            continue
        line = _CODE.sub("`", line)
        match = _LINE.match(line)
        if match:
            fields.append((match[1].strip(), (match[2] or "").strip()))
        else:
            matches = _ANYWHERE.finditer(line)
            fields += [((match[1] or match[3]).strip(), (match[2] or match[4] or "").strip()) for match in matches]
    return fields


def only_links(value: str, kind: str = "") -> list[str]:
    """Return the addresses of the wiki links of a value that holds nothing else but commas; [] for any other value.

    >>> only_links("[[Home]], [[Looms|l]]"), only_links("see [[Home]]")
    (['[[Home]]', '[[Looms]]'], [])
    """
    if "[[" not in value or not _BETWEEN.fullmatch(WIKI_LINK.sub("", value)):
        return []
    links = (wiki_link(match, kind) for match in WIKI_LINK.finditer(value))
    return [link.address for link in links if link]


def is_relation(name: str) -> bool:
    """Return whether the links of a field have its name as their relation: not those of tags, nor of fields that nodes need."""
    return name.casefold() not in _LISTS and is_own_field(name)


def with_inline(fields: Mapping[str, Any], pairs: Sequence[tuple[str, str]], tags: Sequence[str]) -> dict[str, Any]:
    """Return the fields of front matter with those in the text, except those that hold links alone, and with the tags there.

    A field that is given several times has a list of the different values; tags and aliases are separated by commas.

    >>> with_inline({"tags": ["a"], "year": 1}, [("year", "1804"), ("done", "true"), ("up", "[[Home]]")], ["b/c"])
    {'tags': ['a', 'b/c'], 'year': [1, 1804], 'done': True}
    """
    all_fields = dict(fields)
    # The known values of each field, in order.
    values_by_field: dict[str, dict[str, Any]] = {}

    def add(name: str, values: Sequence[Any]) -> None:
        if name not in values_by_field:
            old_value = all_fields.get(name)
            if name == "tags" and isinstance(old_value, str):
                old_value = [tag for tag in re.split(r"[,\s]+", old_value) if tag]
            items = old_value if isinstance(old_value, list) else [] if old_value is None else [old_value]
            values_by_field[name] = {repr(value): value for value in items}
        values_by_field[name] |= {repr(value): value for value in values}

    for name, value in pairs:
        if name.casefold() in _LISTS:
            add("tags" if name.casefold() in ("tags", "tag") else name.casefold(), names_in(value))
        elif value and not (only_links(value) and is_relation(name)):
            add(name, [_value(value)])
    if tags:
        add("tags", [*tags])
    for name, values in values_by_field.items():
        items = [*values.values()]
        all_fields[name] = items if name in _LISTS or len(items) > 1 else items[0] if items else None
    return all_fields


def _value(text: str) -> Any:
    """Return the value of a field as one of JSON: a number, true or false, else the text without the brackets of links."""
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return WIKI_LINK.sub(lambda match: link.label if (link := wiki_link(match)) else match[0], text)
