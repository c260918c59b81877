"""Contextual citation graphs: documents that cite each other, as a graph of their chunks (CG-RAG, section 4.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from graph_retrievers.arguments import call_function, positive, typed
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.construction.spec import CorpusNodes, EdgeSpec, SpecEdges
from graph_retrievers.errors import InvalidArgumentError, MissingSignalError, NothingToReadError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.sparse import SparseEncoder, SparseIndex, checked_encoder
from graph_retrievers.signals.vectors import check_vectors

__all__ = ["ContextualCitations", "chunk_documents"]

_PAIRS_AT_A_TIME = 1 << 17


def chunk_documents(documents: Iterable[Any], splitter: Any, *, title_key: str | None = None) -> list[Node]:
    """Return the chunks of documents as nodes, for :class:`ContextualCitations`.

    Parameters
    ----------
    documents : iterable of documents
        See :func:`graph_retrievers.construction.documents.to_nodes`.
    splitter : object or callable
        A splitter of LangChain or LlamaIndex (``split_text(text)``), a
        :class:`~graph_retrievers.signals.sentence_encoder.SentenceEncoder`, which splits a text by its own tokens into parts that
        it can read, or a function from a text to texts.
    title_key : str, optional
        Metadata field with a document's title, see :func:`graph_retrievers.construction.documents.to_nodes`.

    Returns
    -------
    list of Node
        In order. The id is the document's with "#" and the number of the chunk, from 1; the title is the document's. The metadata
        are the document's with ``document``, its id, and ``chunk``, the number. A document without text has one empty chunk.

    Raises
    ------
    InvalidArgumentError
        If the splitter is none of these, or returns something other than texts.

    Examples
    --------
    >>> paper = Node("loom", "Cards drive it. Weavers feared it.", "The loom", metadata={"cites": ["card"]})
    >>> for chunk in chunk_documents([paper], lambda text: text.split(". ")):
    ...     print(chunk.id, chunk.text, chunk.metadata)
    loom#1 Cards drive it {'cites': ['card'], 'document': 'loom', 'chunk': 1}
    loom#2 Weavers feared it. {'cites': ['card'], 'document': 'loom', 'chunk': 2}
    """
    split: Callable[[str], Any] = splitter.split_text if hasattr(splitter, "split_text") else splitter
    if not callable(split) or isinstance(splitter, type):
        raise InvalidArgumentError(f"{shown(splitter)} cannot split; pass an object with split_text(text), or a function.")
    chunks: list[Node] = []
    for document in to_nodes(documents, title_key=title_key):
        parts = call_function("The splitter", split, document.text) if document.text.strip() else [""]
        # Some splitters give documents instead of texts.
        texts = [] if isinstance(parts, str) or not isinstance(parts, Iterable) else [getattr(t, "page_content", t) for t in parts]
        if not texts or not all(isinstance(text, str) for text in texts):
            message = f"{shown(parts)} for document {document.id!r}"
            raise InvalidArgumentError(f"The splitter returned {message}; expected a list of texts.")
        # Metadata of a document that are hidden from models are hidden in its chunks too.
        hidden = {key: value for key, value in document.origin.items() if key.startswith("excluded_")}
        for number, text in enumerate(texts, 1):
            metadata = {**deepcopy(dict(document.metadata)), "document": document.id, "chunk": number}
            chunks.append(Node(f"{document.id}#{number}", text, document.title, document.type, metadata, deepcopy(hidden)))
    return chunks


class ContextualCitations(EdgeSpec):
    r"""Edges from chunks to the chunks for which they are context: inside documents, and across citations.

    - From each chunk of a document to the next one ("next").
    - From a chunk to those that refer to it ("refers to"), if chunks have this field.
    - If document u cites document v: to each chunk of u, from the `top_n` chunks of v that are most relevant to it (`relation`).
      The relevance of chunks is :math:`r_{ij} = f_{sparse}(c_i, c_j) + f_{dense}(c_i, c_j)`: BM25 with the citing chunk as the
      query, or the dot product of the weights that an encoder gives, and the dot product of their vectors.

    Parameters
    ----------
    cites : str, default "cites"
        Metadata field of a chunk with the ids of the documents that its document cites: a string or a list.
    document : str, default "document"
        Metadata field with the id of a chunk's document, as written by :func:`chunk_documents`.
    refers_to : str, default "refers_to"
        Metadata field with the ids of chunks that a chunk refers to, if there is one.
    top_n : int, default 4
        Chunks for each chunk and cited document; all if there are fewer. The best of 2, 4 and 8 in the paper.
    relation : str, default "cites"
    sparse : SparseEncoder, optional
        Encoder of the sparse relevance, such as :class:`~graph_retrievers.signals.sparse_encoders.LexicalWeights` of BGE-M3, the
        best of the paper (section 5.4); BM25 by default. It encodes each chunk once.
    show_progress : bool, default False

    Raises
    ------
    InvalidArgumentError
        If no chunk has the field `document`.
    MissingSignalError
        If there are no vectors.

    Notes
    -----
    Ties go to the earlier chunk. References to documents outside the corpus are skipped and counted in the log. The cost grows
    with the number of pairs of chunks across citations times the words of a chunk: for 1,000 documents of five chunks of 100
    words and ten citations each, about 15 seconds on one CPU core, and a hundred times as long for 100,000.

    Edges lead from the context to its reader, the direction in which LeSeGR passes messages with ``direction="in"``; their
    weights are 1. The two relevances are added as published, without scaling, so that BM25 decides unless it is equal. BM25
    instead of BGE-M3 is a departure: it needs no model.

    References
    ----------
    Hu et al., "CG-RAG", section 4.2.2.

    Examples
    --------
    >>> from graph_retrievers.construction import build_edges
    >>> loom = Node("loom", "Cards drive it. Weavers feared it.", metadata={"cites": ["card"]})
    >>> card = Node("card", "Cards have holes. Boxes store them.")
    >>> chunks = chunk_documents([loom, card], lambda text: text.split(". "))
    >>> for edge in build_edges(chunks, ContextualCitations(top_n=1), vectors=[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]):
    ...     print(edge)
    ('loom#1', 'loom#2', 'next')
    ('card#1', 'card#2', 'next')
    ('card#1', 'loom#1', 'cites')
    ('card#2', 'loom#2', 'cites')
    """

    needs_vectors = True

    @typed
    def __init__(
        self,
        cites: str = "cites",
        *,
        document: str = "document",
        refers_to: str = "refers_to",
        top_n: int = 4,
        relation: str = "cites",
        sparse: SparseEncoder | None = None,
        show_progress: bool = False,
    ) -> None:
        self.cites, self.document, self.refers_to, self.relation = cites, document, refers_to, relation
        self.top_n, self._show_progress = positive("top_n", top_n), show_progress
        self.sparse = None if sparse is None else checked_encoder(sparse)

    def find(self, corpus: CorpusNodes) -> SpecEdges:
        """Return the edges: those inside documents, then those across citations, in the order of the chunks."""
        if corpus.vectors is None:
            raise MissingSignalError("A contextual citation graph needs vectors: pass embedding= or vectors=.")
        chunks: dict[str, list[int]] = {}
        citations: dict[str, dict[str, None]] = {}
        edges: list[tuple[str, str, str]] = []
        for row, node in enumerate(corpus.nodes):
            if self.document not in node.metadata:
                continue
            document = str(node.metadata[self.document])
            rows = chunks.setdefault(document, [])
            if rows:
                edges.append((corpus.nodes[rows[-1]].id, node.id, "next"))
            rows.append(row)
            edges += [(name, node.id, "refers to") for name in _names(node.metadata.get(self.refers_to))]
            citations.setdefault(document, {}).update(dict.fromkeys(_names(node.metadata.get(self.cites))))
        if not chunks:
            raise NothingToReadError(f"No node has the metadata field {self.document!r}; make chunks with chunk_documents.")
        chunk_edges = corpus.inner_edges(edges)
        pairs = [(u, v) for u, names in citations.items() for v in names if v != u]
        document_pairs = [(chunks[u], chunks[v]) for u, v in pairs if v in chunks]
        across = [(corpus.nodes[j].id, corpus.nodes[i].id, self.relation) for i, j in self._across(corpus, document_pairs)]
        return SpecEdges([*chunk_edges.edges, *across], chunk_edges.absent + len(pairs) - len(document_pairs))

    def _across(self, corpus: CorpusNodes, pairs: list[tuple[list[int], list[int]]]) -> Iterator[tuple[int, int]]:
        """Yield (citing chunk, cited chunk) of the most relevant chunks across each pair of documents."""
        vectors = check_vectors(corpus.vectors, len(corpus.nodes))
        contents = CorpusGraph.from_nodes(corpus.nodes).contents()
        words = BM25(contents, device=vectors.device) if self.sparse is None else self._encoded(contents, vectors.device)
        with progress_bar(total=len(pairs), desc="citations", unit="pair", disable=not self._show_progress) as bar:
            for group in _groups(pairs):
                yield from self._most_relevant(group, vectors, words, contents)
                bar.update(len(group))

    def _encoded(self, contents: list[str], device: torch.device) -> SparseIndex:
        assert self.sparse is not None
        return SparseIndex(contents, _EncodedOnce(self.sparse), device=device, show_progress=self._show_progress)

    def _most_relevant(
        self, pairs: list[tuple[list[int], list[int]]], vectors: Tensor, words: BM25 | SparseIndex, contents: list[str]
    ) -> list[tuple[int, int]]:
        device = vectors.device
        flat = [(i, j, number) for number, (citing, cited) in enumerate(pairs) for i in citing for j in cited]
        reader, source, pair = torch.tensor(flat, dtype=torch.int64, device=device).reshape(-1, 3).unbind(1)
        readers, place = torch.unique(reader, return_inverse=True)
        texts = [contents[row] for row in readers.tolist()]
        pieces = zip(*(part.split(_PAIRS_AT_A_TIME) for part in (place, reader, source)), strict=True)
        scores = torch.cat([words.scores(texts, p, s).double() + (vectors[r] * vectors[s]).sum(1).double() for p, r, s in pieces])
        # Sorted by pair, reader, falling relevance; entries are in the order of chunks, which equal relevances keep.
        order = torch.sort(scores, descending=True, stable=True).indices
        order = order[torch.sort((pair * len(contents) + reader)[order], stable=True).indices]
        keys = (pair * len(contents) + reader)[order]
        start = torch.searchsorted(keys, keys)
        entries = order[torch.arange(keys.numel(), device=device) - start < self.top_n]
        return list(zip(reader[entries].tolist(), source[entries].tolist(), strict=True))


class _EncodedOnce:
    """A sparse encoder that encodes each text once, as a document: both chunks of a pair are documents."""

    def __init__(self, encoder: SparseEncoder) -> None:
        self._encoder, self.name, self._encodings = encoder, encoder.name, dict[str, dict[int, float]]()

    def encode(self, texts: Sequence[str], *, queries: bool = False) -> list[dict[int, float]]:
        new_texts = [text for text in dict.fromkeys(texts) if text not in self._encodings]
        self._encodings |= zip(new_texts, self._encoder.encode(new_texts) if new_texts else (), strict=True)
        return [self._encodings[text] for text in texts]


def _names(value: Any) -> list[str]:
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return []
    if isinstance(value, bool) or not isinstance(value, (str, Real, Iterable)):
        raise InvalidArgumentError(f"A chunk refers to {shown(value)}; expected an id or a list of ids.")
    return [str(value)] if isinstance(value, (str, Real)) else [str(item) for item in value]


def _groups(pairs: list[tuple[list[int], list[int]]]) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Yield pairs of documents together that have about as many pairs of chunks as are compared at a time."""
    group, size = list[tuple[list[int], list[int]]](), 0
    for citing, cited in pairs:
        group.append((citing, cited))
        size += len(citing) * len(cited)
        if size >= _PAIRS_AT_A_TIME:
            yield group
            group, size = [], 0
    if group:
        yield group
