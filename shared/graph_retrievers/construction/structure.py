"""Edges from the structure of documents: what contains what, and what follows what."""

from __future__ import annotations

from collections import defaultdict

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
            first: dict[tuple[str, ...], int] = {}
            for place, row in enumerate(rows):
                node, path = corpus.nodes[row], heading_path(corpus.nodes[row])
                if path and path not in first:
                    outer = (first[path[:depth]] for depth in range(len(path) - 1, 0, -1) if path[:depth] in first)
                    edges.append((corpus.nodes[next(outer, rows[0])].id, node.id, "contains"))
                    first[path] = row
                before = corpus.nodes[rows[place - 1]] if place else None
                if before is not None and (self.parts or not path or path != heading_path(before)):
                    edges.append((before.id, node.id, "next"))
        return Found(edges)
