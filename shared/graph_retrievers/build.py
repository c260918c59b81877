"""From documents, texts and nodes to a corpus graph: the one place that knows how edges are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.edges import build_edges, edge_items, needs_vectors
from graph_retrievers.errors import EmptyGraphError, InvalidArgumentError, MissingSignalError
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.signals.embedding import as_embedding, embed_texts

__all__ = ["corpus_of_documents", "corpus_of_texts"]


def corpus_of_texts(
    texts: Sequence[str],
    signals: Mapping[str, Any],
    *,
    ids: Sequence[str] | None = None,
    titles: Sequence[str] | None = None,
    metadatas: Sequence[Mapping[str, Any]] | None = None,
    edges: Any = (),
    include_titles: bool = True,
    device: str | torch.device | None = None,
) -> tuple[CorpusGraph, dict[str, Any]]:
    """Return the corpus graph of plain texts.

    Parameters
    ----------
    texts : sequence of str, length N
    signals : mapping
        Keywords of :meth:`graph_retrievers.index.GraphIndex.from_graph`: edges between near neighbours read ``vectors`` or
        ``embedding``.
    ids : sequence of str, optional
        Defaults to "0", "1", ...
    titles : sequence of str, optional
    metadatas : sequence of mapping, optional
    edges : edges, edge specifications or callables
        See :func:`graph_retrievers.construction.edges.build_edges`.
    include_titles : bool, default True
        Whether signals read ``title + ". " + text``.
    device : str or torch.device, optional

    Returns
    -------
    graph : CorpusGraph
    signals : dict
        As given, with the vectors that finding the edges took.

    Raises
    ------
    InvalidArgumentError
        If a column is not a list of one entry a text.
    EmptyGraphError
        If there are no texts.
    """
    count = len(texts)
    for name, column in {"texts": texts, "ids": ids, "titles": titles, "metadatas": metadatas}.items():
        if isinstance(column, str):
            raise InvalidArgumentError(f"{name} is the single string {column[:40]!r}; give a list, one entry a text.")
        if column is not None and len(column) != count:
            raise InvalidArgumentError(f"{name} has {len(column)} entries for {count} texts; give one a text.")
    nodes = [
        Node(
            id=ids[i] if ids is not None else str(i),
            text=text,
            title=titles[i] if titles is not None else "",
            metadata=metadatas[i] if metadatas is not None else {},
        )
        for i, text in enumerate(texts)
    ]
    return _corpus(nodes, signals, edges, include_titles, device)


def corpus_of_documents(
    documents: Iterable[Any],
    signals: Mapping[str, Any],
    *,
    edges: Any = (),
    title_key: str = "title",
    type_key: str = "type",
    include_titles: bool = True,
    device: str | torch.device | None = None,
) -> tuple[CorpusGraph, dict[str, Any]]:
    """Return the corpus graph of documents of either framework, or of :class:`Node` objects.

    Parameters
    ----------
    documents : iterable of documents
        Objects with ``page_content``, ``metadata`` and ``id`` (LangChain), with ``get_content``, ``metadata``
        and ``node_id`` (LlamaIndex), or :class:`Node`. A document without an id is given its position.
    signals, edges, include_titles, device
        As for :func:`corpus_of_texts`.
    title_key, type_key : str, default "title" and "type"
        Metadata fields that hold a node's title and type; "" for none.

    Returns
    -------
    graph : CorpusGraph
    signals : dict
        As for :func:`corpus_of_texts`.
    """
    # Some edges are read from the documents themselves, so a one-time iterable must last.
    documents = list(documents) if isinstance(documents, Iterator) else documents
    nodes = to_nodes(documents, title_key=title_key, type_key=type_key)
    return _corpus(nodes, signals, edges, include_titles, device, documents)


def _corpus(
    nodes: list[Node],
    signals: Mapping[str, Any],
    edges: Any,
    include_titles: bool,
    device: str | torch.device | None,
    documents: Any = None,
) -> tuple[CorpusGraph, dict[str, Any]]:
    edges, signals = edge_items(edges), dict(signals)
    if not nodes:
        raise EmptyGraphError("The corpus is empty: an index needs at least one node.")
    if needs_vectors(edges) and signals.get("vectors") is None:
        if signals.get("embedding") is None:
            raise MissingSignalError("k-nearest edges need vectors: pass embedding= or vectors=.")
        bare = CorpusGraph.from_nodes(nodes, include_titles=include_titles)
        model = as_embedding(signals["embedding"])
        signals["vectors"] = embed_texts(model, bare.contents(), signals.get("show_progress", False))
    built = build_edges(nodes, edges, vectors=signals.get("vectors"), documents=documents)
    return CorpusGraph.from_nodes(nodes, built, include_titles=include_titles, device=device), signals
