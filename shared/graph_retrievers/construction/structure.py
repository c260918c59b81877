"""Edges from the structure of documents: containment of sections, and order of chunks."""

from __future__ import annotations

import logging

from graph_retrievers.arguments import typed
from graph_retrievers.construction.headings import heading_path
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, SpecEdges
from graph_retrievers.errors import NothingToReadError, shown
from graph_retrievers.graph.addresses import ADDRESS_FIELDS, page_address

__all__ = ["DocumentStructure"]

logger = logging.getLogger(__name__)


class DocumentStructure(EdgeSpec):
    """The structure of pages that were split: ``next`` from each chunk to the one after it, ``contains`` along the headings.

    Chunks of a page have the same address. Their order is that of ``start_index`` (of LangChain's splitters with
    ``add_start_index=True``), ``start_char_idx`` (of LlamaIndex), ``chunk_index``, ``chunk``, ``position``, ``row``, or of the
    page of a file (``page``, ``page_number``, ``page_label``), if one of these determines it. Otherwise chunks must be in the
    order of their page, and a warning is logged once, because a store may list them by id. A section contains the sections below
    its heading: the edge leads from the first chunk of the one to the first chunk of the other. A chunk whose headings no other
    section of the page contains is contained in the first chunk of the page. Headings are read from the metadata, where splitters
    write them; without headings, there are only ``next`` edges. LlamaIndex nodes with children are left out: their relationships
    say what they contain.

    Parameters
    ----------
    url_field : str, optional
        Metadata field with the address of a chunk's page; by default as for :class:`~graph_retrievers.construction.links.Links`.
    parts : bool, default True
        Whether ``next`` edges also connect the parts of one section, which have the same headings. Without these edges, most
        chunks of a common splitter have none, and no walk reaches them. ``False`` is better for pages with links that
        :func:`~graph_retrievers.construction.folder.read_folder` split: parts of a section are similar and take the places of
        other sections (see the notes).

    Raises
    ------
    InvalidArgumentError
        If no node has an address.

    Notes
    -----
    Recall@10 of WalkFusion on the manual of PostgreSQL, 1,138 pages read by ``read_folder``, with links:

    ================================== ============ ===========
    questions                          parts=False  parts=True
    ================================== ============ ===========
    65 of train and dev                .777         .764
    122 of test                        .799         .788
    ================================== ============ ===========

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> from graph_retrievers.graph import Node
    >>> parts = [{"Header 1": "Looms"}, {"Header 1": "Looms", "Header 2": "Cards"}]
    >>> nodes = [Node(str(n), "", metadata={"source": "a.md", "chunk": n} | headings) for n, headings in enumerate(parts)]
    >>> build_edges(nodes, DocumentStructure())
    [('0', '1', 'contains'), ('0', '1', 'next')]
    """

    @typed
    def __init__(self, url_field: str | None = None, *, parts: bool = True) -> None:
        self.url_field, self.parts = url_field, parts
        self._has_warned = False

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges, page by page, in the order of each page."""
        fields = ADDRESS_FIELDS if self.url_field is None else (self.url_field,)
        pages = corpus.pages(page_address(node.metadata, fields) for node in corpus.nodes)
        if not pages.rows:
            names = " or ".join(map(repr, fields))
            raise NothingToReadError(
                f"No node has the metadata field {names}, which says from what page a chunk is; put the address of the page "
                "there, or name the field in DocumentStructure(url_field=...)."
            )
        if pages.unknown and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%r: nothing tells the order of the chunks of %d pages, such as %s; they are taken as they come, and stores may "
                "list them in another order. Split with add_start_index=True, or number them in a metadata field, such as "
                "'chunk_index'; a place that begins again in each section is not enough.",
                self,
                len(pages.unknown),
                shown(pages.unknown[0]),
            )
        edges: list[tuple[str, str, str]] = []
        for rows in pages.rows.values():
            sections = _Sections(rows[0])
            for place, row in enumerate(rows):
                node, path = corpus.nodes[row], heading_path(corpus.nodes[row])
                if path and (outer := sections.add(path, row)) is not None:
                    edges.append((corpus.nodes[outer].id, node.id, "contains"))
                previous = corpus.nodes[rows[place - 1]] if place else None
                if previous is not None and (self.parts or not path or path != heading_path(previous)):
                    edges.append((previous.id, node.id, "next"))
        return SpecEdges(edges)


class _Sections:
    """The first chunk of each section of a page; `first` is that of the page."""

    def __init__(self, first: int) -> None:
        # Headings as a tree: the number of a section by that of the section around it and its heading. To keep all beginnings of
        # each path would take memory in the square of its length.
        self.below: dict[tuple[int, str], int] = {}
        self.rows = {0: first}

    def add(self, path: tuple[str, ...], row: int) -> int | None:
        """Add a chunk, and return the first chunk of the section around its own; None if its section has a chunk already."""
        outer, place = self.rows[0], 0
        for heading in path:
            outer = self.rows.get(place, outer)
            place = self.below.setdefault((place, heading), len(self.below) + 1)
        return outer if self.rows.setdefault(place, row) == row else None
