"""The chunks of pages in the order of the page, for any input order."""

from __future__ import annotations

import math
from collections import ChainMap, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from graph_retrievers.graph.addresses import page_address

# Numbers of the pages of a file such as a PDF, as the loaders of LangChain and LlamaIndex write them.
_NUMBERS = ("page", "page_number", "page_label")
PLACE_FIELDS = ("start_index", "start_char_idx", "chunk_index", "chunk", "position", "row")
"""Metadata fields with the position of a chunk on its page, or its number among the chunks, in the order in which they are read.

LangChain's splitters write the first with ``add_start_index=True``; the second is an attribute of the nodes of LlamaIndex;
:func:`~graph_retrievers.construction.folder.read_folder` writes the third.
"""


class PageOrder(NamedTuple):
    """The rows of chunks by the address of their page, in its order, and the addresses of pages with unknown order."""

    rows: dict[str, list[int]]
    unknown: list[str]


def page_order(addresses: Iterable[str], metadata: Sequence[Mapping[str, Any]], origins: Sequence[Mapping[str, Any]]) -> PageOrder:
    """Return the chunks of each page in its order if their metadata determine it, else in the input order.

    A page is ordered by the first of :data:`PLACE_FIELDS` that is a number in all of its chunks and differs between them; the
    chunks of a file with pages first by the number of the page (``page``, ``page_number`` or ``page_label``). Repeated places,
    such as those of a splitter that counts again in each section, are ignored. `addresses` has the page of each node, "" for
    none.

    >>> metadata = [{"start_index": 80}, {"start_index": 0}, {}, {}]
    >>> page_order(["a.md", "a.md", "b.md", "b.md"], metadata, [{}] * 4)
    PageOrder(rows={'a.md': [1, 0], 'b.md': [2, 3]}, unknown=['b.md'])
    """
    pages: dict[str, list[int]] = defaultdict(list)
    for row, address in enumerate(addresses):
        if address:
            pages[address].append(row)
    unknown = []
    for address, rows in pages.items():
        if len(rows) > 1:
            keys = _keys([ChainMap(origins[row], metadata[row]) for row in rows])  # type: ignore[arg-type]
            pages[address] = [row for _, row in sorted(zip(keys, rows, strict=True))]
            if len({*keys}) < len(rows):
                unknown.append(address)
    return PageOrder(dict(pages), unknown)


def titled_rows(
    titles: Sequence[str], metadata: Sequence[Mapping[str, Any]], origins: Sequence[Mapping[str, Any]]
) -> frozenset[int]:
    """Return the rows of the nodes to which their titles refer: of the chunks of a page with the same title only the first."""
    title_rows = [row for row, title in enumerate(titles) if title]
    addresses = [page_address(metadata[row]) for row in title_rows]
    alone = [row for row, address in zip(title_rows, addresses, strict=True) if not address]
    pages = page_order(addresses, [metadata[row] for row in title_rows], [origins[row] for row in title_rows]).rows.values()
    # The first of each title, by writing the others before.
    first = {(page, titles[title_rows[n]]): title_rows[n] for page, rows in enumerate(pages) for n in reversed(rows)}
    return frozenset([*alone, *first.values()])


def _keys(chunks: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Return what to sort the chunks of a page by; the same for chunks whose order is not known."""
    numbers = next(_columns(_NUMBERS, chunks), [0.0] * len(chunks))
    for places in _columns(PLACE_FIELDS, chunks):
        keys = list(zip(numbers, places, strict=True))
        if len({*keys}) == len(keys):
            return keys
    return [(number, 0.0) for number in numbers]


def _columns(names: Iterable[str], chunks: Sequence[Mapping[str, Any]]) -> Iterator[list[float]]:
    for name in names:
        column = [_number(chunk.get(name)) for chunk in chunks]
        if not any(map(math.isnan, column)):
            yield column


def _number(value: Any) -> float:
    """Return a number, also one that a store keeps as text; nan for anything else."""
    try:
        return float(value) if isinstance(value, (int, float, str)) else math.nan
    except (ValueError, OverflowError):
        return math.nan
