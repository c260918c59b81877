"""Edges from the structure of documents: what contains what, and what follows what."""

from __future__ import annotations

from collections import defaultdict

from graph_retrievers.arguments import typed
from graph_retrievers.construction.links import heading_path
from graph_retrievers.construction.spec import Corpus, EdgeSpec, Found
from graph_retrievers.errors import NothingToReadError
from graph_retrievers.graph.addresses import ADDRESS_FIELDS, page_address

__all__ = ["DocumentStructure"]


class DocumentStructure(EdgeSpec):
    """The structure of pages that were split: ``next`` from each section to the one after it, ``contains`` along the headings.

    Chunks of a page have the same address and come in its order. A section contains the sections below its heading: the edge leads
    from the first chunk of the one to the first chunk of the other. A chunk whose headings no other section of the page contains is
    contained in the first chunk of the page. Headings are read from the metadata, where splitters write them; without headings,
    there are only ``next`` edges. Nodes of LlamaIndex that have children are left out: their relationships say what they contain.

    Parameters
    ----------
    url_field : str, optional
        Metadata field that holds the address of a chunk's page; by default as for
        :class:`~graph_retrievers.construction.links.Links`.
    parts : bool, default False
        Whether the chunks of one section, which have the same headings, follow one another too. Search finds them together, as they
        are alike, and walks among them leave less room for other sections: on a manual of 1,125 pages, WalkFusion finds .769 of the
        gold sections without these edges and .741 with them (Recall@10, 65 train and dev questions).

    Raises
    ------
    InvalidArgumentError
        If no node has an address.

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> from graph_retrievers.graph import Node
    >>> headings = [{"Header 1": "Looms"}, {"Header 1": "Looms", "Header 2": "Cards"}]
    >>> nodes = [Node(str(place), "", metadata={"source": "a.md"} | held) for place, held in enumerate(headings)]
    >>> build_edges(nodes, DocumentStructure())
    [('0', '1', 'contains'), ('0', '1', 'next')]
    """

    @typed
    def __init__(self, url_field: str | None = None, *, parts: bool = False) -> None:
        self.url_field, self.parts = url_field, parts

    def find(self, corpus: Corpus) -> Found:
        """Return the edges, in the order of the nodes."""
        fields = ADDRESS_FIELDS if self.url_field is None else (self.url_field,)
        pages: dict[str, list[int]] = defaultdict(list)
        for row, node in enumerate(corpus.nodes):
            if row not in corpus.parents and (address := page_address(node.metadata, fields)):
                pages[address].append(row)
        if not pages:
            wanted = " or ".join(map(repr, fields))
            raise NothingToReadError(
                f"No node has the metadata field {wanted}, which says from what page a chunk is; put the address of the page "
                "there, or name the field in DocumentStructure(url_field=...)."
            )
        edges: list[tuple[str, str, str]] = []
        for rows in pages.values():
            sections = _Sections(rows[0])
            for place, row in enumerate(rows):
                node, path = corpus.nodes[row], heading_path(corpus.nodes[row])
                if path and (outer := sections.added(path, row)) is not None:
                    edges.append((corpus.nodes[outer].id, node.id, "contains"))
                before = corpus.nodes[rows[place - 1]] if place else None
                if before is not None and (self.parts or not path or path != heading_path(before)):
                    edges.append((before.id, node.id, "next"))
        return Found(edges)


class _Sections:
    """The first chunk of each section of a page; `first` is that of the page."""

    def __init__(self, first: int) -> None:
        # Headings as a tree: the number of what is below a number by a heading. All beginnings of a path would be its square.
        self.below: dict[tuple[int, str], int] = {}
        self.rows = {0: first}

    def added(self, path: tuple[str, ...], row: int) -> int | None:
        """Note a chunk and return the first chunk of the section around its own; None if its section has a chunk already."""
        outer, place = self.rows[0], 0
        for heading in path:
            outer = self.rows.get(place, outer)
            place = self.below.setdefault((place, heading), len(self.below) + 1)
        return outer if self.rows.setdefault(place, row) == row else None
