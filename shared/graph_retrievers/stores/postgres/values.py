"""Texts and metadata as PostgreSQL can hold them, and read back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graph_retrievers.graph.dates import instant
from graph_retrievers.graph.nested import look_up

# PostgreSQL has no character 0. It is written as three others, and so are those that these begin with: all codes have one length
# and begin with a character that is nowhere else, so that texts keep their order and contain each other as before.
_CODES = {"\x00": "\x01\x02\x02", "\x01": "\x01\x02\x03", "\x02": "\x01\x03\x02", "\x03": "\x01\x03\x03"}
_CHARACTERS = {code: character for character, code in _CODES.items()}
_WRITTEN, _READ = re.compile("[\x00-\x03]"), re.compile("\x01[\x02\x03]{2}")
# Characters that are escaped by a backslash in the texts of an array.
_QUOTED = re.compile(r'["\\]')
# From here on, a float is an integer, and its shortest decimal form may be another integer.
_EXACT = 2.0**53
# Bytes before the numbers in the binary form of a vector.
_HEADER = 4


def read_vector(data: bytes) -> np.ndarray:
    """Return a vector from the binary form of pgvector, which begins with its width and two empty bytes: float32, shape [d].

    >>> read_vector(bytes([0, 2, 0, 0]) + np.array([1.0, 0.5], ">f4").tobytes())
    array([1. , 0.5], dtype=float32)
    """
    return np.frombuffer(data, ">f4", offset=_HEADER).astype(np.float32)


def sent_vector(vector: np.ndarray) -> bytes:
    """Return the binary form of a vector, as :func:`read_vector` reads it.

    >>> sent_vector(np.array([1.0, 0.5])).hex(" ", 4)
    '00020000 3f800000 3f000000'
    """
    return np.array([len(vector), 0], ">i2").tobytes() + vector.astype(">f4").tobytes()


def vector_text(vector: np.ndarray) -> str:
    """Return the text of a vector, from which pgvector reads the same numbers.

    >>> vector_text(np.array([1.0, 0.1], np.float32))
    '[1.0,0.10000000149011612]'
    """
    return f"[{','.join(map(repr, np.asarray(vector, np.float32).astype(float).tolist()))}]"


def vector_rows(corpus: int, vectors: np.ndarray, numbers: np.ndarray) -> Iterator[bytes]:
    """Yield the rows of vectors in the binary form of COPY, and of pgvector: the width, two empty bytes, and the numbers."""
    yield b"PGCOPY\n\xff\r\n\x00" + bytes(8)
    width = vectors.shape[1]
    integer = [("size", ">i4"), ("value", ">i4")]
    form = np.dtype(
        [("fields", ">i2"), ("corpus", integer), ("node", integer), ("size", ">i4"), ("width", ">i2"), ("nothing", ">i2")]
        + [("numbers", ">f4", (width,))]
    )
    block = np.zeros(len(vectors), form)
    block["fields"], block["size"], block["width"] = 3, 4 + 4 * width, width
    for name, value in (("corpus", corpus), ("node", numbers)):
        block[name]["size"], block[name]["value"] = 4, value
    block["numbers"] = vectors
    yield block.tobytes()
    yield b"\xff\xff"


def encoded(text: str) -> str:
    r"""Return a text without the character 0, which PostgreSQL does not take; the order of texts stays the same.

    >>> encoded("loom"), encoded("a\x00b"), encoded("a") < encoded("a\x00b") < encoded("a\x01") < encoded("a ")
    ('loom', 'a\x01\x02\x02b', True)
    """
    return _WRITTEN.sub(lambda match: _CODES[match[0]], text)


def decoded(text: str) -> str:
    r"""Return the text of which :func:`encoded` made this one.

    >>> decoded(encoded("a\x00b\x01c"))
    'a\x00b\x01c'
    """
    # Most have none, which is found in a fraction of the time.
    return _READ.sub(lambda match: _CHARACTERS[match[0]], text) if "\x01" in text else text


def sendable(text: str) -> bool:
    r"""Return whether a text is valid Unicode: half of a surrogate pair can neither be in a graph nor be sent.

    >>> sendable("loom"), sendable("\ud800")
    (True, False)
    """
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def sendable_texts(texts: Iterable[str]) -> list[str]:
    r"""Return texts as they are stored; one that cannot be sent is in no index.

    >>> sendable_texts(["loom", "\ud800", "card"])
    ['loom', 'card']
    """
    texts = [*texts]
    # Most have no such character, which is found in a fraction of the time.
    content = "".join(texts)
    if content.isascii() and not _WRITTEN.search(content):
        return texts
    return [encoded(text) for text in texts if sendable(text)]


def array(items: Sequence[Any]) -> str:
    r"""Return texts, or numbers, as PostgreSQL writes them in an array, whose type is that of the column or the cast.

    >>> array(["loom", 'a "b"', "a\\b"]), array([1, 2.5]), array([])
    ('{"loom","a \\"b\\"","a\\\\b"}', '{1,2.5}', '{}')
    """
    if not items or not isinstance(items[0], str):
        return "{" + ",".join(map(str, items)) + "}"
    if _QUOTED.search("".join(items)):
        items = [_QUOTED.sub(r"\\\g<0>", item) for item in items]
    return '{"' + '","'.join(items) + '"}'


def comparable(value: Any) -> str:
    """Return a metadata value as JSON whose equality and order in ``jsonb`` are those of Python: true is 1.

    ValueError for a value that no metadata can be equal to, such as infinity; TypeError for one that JSON does not have.

    >>> comparable([True, 1.5, 1e23, {"a": None}])
    '[1, 1.5, 99999999999999991611392, {"a": null}]'
    """
    return json.dumps(_compared(value), ensure_ascii=False, allow_nan=False)


def _compared(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        if not sendable(value):
            raise ValueError("a half of a surrogate pair")
        return encoded(value)
    if isinstance(value, float):
        return int(value) if _EXACT <= abs(value) < float("inf") else value
    if isinstance(value, list):
        return [_compared(item) for item in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("a key that is not a string")
        return {_compared(key): _compared(item) for key, item in value.items()}
    return value


def filter_fields(metadata: Mapping[str, Any]) -> str:
    """Return the fields of metadata for filters, as JSON: those inside mappings once more under their paths, and none for None.

    >>> filter_fields({"a": [{"b": 1}, {"b": True}], "c": None})
    '{"a": [{"b": 1}, {"b": 1}], "a.b": [1, 1]}'
    """
    return comparable({path: value for path, value in _fields(metadata) if value is not None})


def date_fields(metadata: Mapping[str, Any]) -> str:
    """Return the dates of metadata by field, in microseconds since 1970, as JSON; lists of those in a list.

    >>> date_fields({"day": "1970-01-02", "days": ["1970-01-01", "soon"], "year": 1970})
    '{"day": 86400000000, "days": [0]}'
    """
    dates_by_field: dict[str, Any] = {}
    for path, value in _fields(metadata):
        if isinstance(value, list):
            dates: Any = [date for item in value if (date := instant(item)) is not None] or None
        else:
            dates = instant(value)
        if dates is not None:
            dates_by_field[path] = dates
    return comparable(dates_by_field)


def _fields(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each field with its value, and then each path that leads inside a field, unless it is the name of another."""
    yield from metadata.items()
    for path in dict.fromkeys(path for key, value in metadata.items() for path in _inside(key, value)):
        if path not in metadata:
            yield path, look_up(metadata, path)


def _inside(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _inside(path, item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{path}.{key}"
            yield from _inside(f"{path}.{key}", item)
