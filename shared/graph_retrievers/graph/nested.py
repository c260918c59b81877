"""Fields of metadata by path: "a.b" is the entry "b" of the mapping in "a"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["paths"]

MISSING = object()
"""What :func:`look_up` returns for a path that leads nowhere; None is a value."""


def look_up(data: Any, path: str) -> Any:
    """Return the entry of a mapping by a key, or by keys joined with dots; of a list of mappings, all entries.

    A key that contains dots comes before a path, and a longer one before a shorter one.

    >>> look_up({"a": {"b": 1}}, "a.b"), look_up({"a": {"b": 1}, "a.b": 2}, "a.b"), look_up({"a": [{"b": 1}, {"b": [2]}]}, "a.b")
    (1, 2, [1, 2])
    """
    if isinstance(data, (list, tuple)):
        parts = [entry for item in data if (entry := look_up(item, path)) is not MISSING]
        flat = [value for part in parts for value in (part if isinstance(part, (list, tuple)) else [part])]
        return flat if parts else MISSING
    if not isinstance(data, Mapping):
        return MISSING
    if path in data:
        return data[path]
    if "." not in path:
        return MISSING
    for key in sorted((key for key in data if isinstance(key, str) and path.startswith(f"{key}.")), key=len, reverse=True):
        if (entry := look_up(data[key], path[len(key) + 1 :])) is not MISSING:
            return entry
    return MISSING


def paths(mapping: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of the entries inside mappings, and lists of mappings, of a mapping; some may come more than once.

    >>> list(paths({"a": {"b": {"c": 1}}, "d": [{"e": 1}], "f": 2}))
    ['a.b', 'a.b.c', 'd.e']
    """
    for key, value in mapping.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Mapping):
                yield from (f"{key}.{name}" for name in part)
                yield from (f"{key}.{path}" for path in paths(part))
