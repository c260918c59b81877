"""An index in PostgreSQL changed there, or filled, without the whole of it in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graph_retrievers.arguments import as_list, strings
from graph_retrievers.construction.documents import to_nodes
from graph_retrievers.errors import (
    DimensionMismatchError,
    EmptyGraphError,
    InvalidArgumentError,
    MissingSignalError,
    UnknownNodeError,
    shown,
)
from graph_retrievers.graph.corpus_graph import CorpusGraph, EdgeLike, Node
from graph_retrievers.index.build import word_options
from graph_retrievers.index.change import check_ids as check_named
from graph_retrievers.progress import progress_bar
from graph_retrievers.signals.bm25 import BM25
from graph_retrievers.signals.embedding import Embedding, model_name
from graph_retrievers.signals.embedding_models import as_embedding
from graph_retrievers.signals.vector_cache import embed_corpus
from graph_retrievers.signals.vectors import check_vectors, unit_vectors
from graph_retrievers.stores.changes import warn_of_bare_nodes
from graph_retrievers.stores.postgres.change import Change, Written
from graph_retrievers.stores.postgres.corpus import corpus_name
from graph_retrievers.stores.postgres.database import PostgresDatabase, check_database
from graph_retrievers.stores.postgres.nodes import BLOCK, CountedWords, NodeBlock, check_ids
from graph_retrievers.stores.postgres.schema import ensure_tables
from graph_retrievers.stores.postgres.sentences import SentenceReader, check_finder, embed_texts
from graph_retrievers.stores.postgres.values import decoded, encoded, read_vector, sendable, sendable_texts

__all__ = ["update_index"]


def update_index(
    database: PostgresDatabase,
    name: str,
    *,
    upsert: Iterable[Any] = (),
    delete: Iterable[str] = (),
    delete_sources: Iterable[str] = (),
    add_edges: Iterable[EdgeLike] = (),
    delete_edges: Iterable[EdgeLike] = (),
    embedding: Any = None,
    bm25: bool | str | BM25 = True,
    edge_signals: bool = False,
    sentences: Any = False,
    strict: bool = False,
    show_progress: bool = False,
) -> Written:
    """Change an index in PostgreSQL, or fill a new one, without the whole of it in memory.

    Documents and edges are read as they are needed, and written in blocks, so that they may come from a generator and be more than
    the memory holds. The change is one transaction: a reader sees the state before or after it, and after an error, or if a process
    is killed, nothing has changed. Of several writers of an index, each waits for the one before.

    Edges and nodes are deleted first, then documents are written, then edges. A document that replaces a node takes its place and
    its edges; new documents come last. The answers are those of :func:`write_index` with an index of the same nodes and edges in
    the same order. Edges that specifications found are edges like any other here: they stay until their nodes are deleted.

    Parameters
    ----------
    database : PostgresDatabase
    name : str
        Of 1 to 500 characters. A name that is not there is that of a new index.
    upsert : iterable of documents, default ()
        See :func:`~graph_retrievers.construction.documents.to_nodes`; each has an id. A document with the id of a node replaces it.
    delete : iterable of str, default ()
        Ids of nodes, which are deleted with their edges.
    delete_sources : iterable of str, default ()
        Documents whose nodes are deleted; see :func:`~graph_retrievers.graph.addresses.node_source`.
    add_edges, delete_edges : iterable of Edge, (source, target) or (source, target, relation), default ()
        To delete, (source, target) means all relations.
    embedding : object, optional
        The model of the index. It embeds the documents without a vector of their own (``embedding``) whose texts have changed, and
        new texts of edges.
    bm25 : bool, str or BM25, default True
        How the words of a new index are read, see :meth:`~graph_retrievers.index.GraphIndex.from_graph`. The language is found from
        the first 5,000 documents.
    edge_signals : bool, default False
        Whether edges have vectors too, which `embedding` makes of their texts; an index whose edges have some keeps them.
    sentences : bool or object, default False
        Whether there are sentences, and the names in them, as for :func:`write_index`, with vectors that `embedding` makes. An
        index that has some keeps them; if names were found by an extractor of yours, pass it for new texts.
    strict : bool, default False
        Whether a title or type of a document that cannot be used is an error.
    show_progress : bool, default False

    Returns
    -------
    Written

    Raises
    ------
    UnknownNodeError
        If a node or source to delete, or an end of an edge to add, is not there.
    DuplicateNodeError
        If two documents have the same id.
    InvalidArgumentError, DimensionMismatchError
        If a document has no id, an edge to delete is not there, or vectors are of another model or width than those that are there.
    MissingSignalError
        If the index has vectors, and there is none for a new text and no model.
    EmptyGraphError
        If the index is new, and there is no document.
    DatabaseUnreachableError, DatabaseAuthError, DatabaseError, MissingDatabaseFeatureError
        As for :func:`write_index`.

    Examples
    --------
    >>> database = PostgresDatabase("postgresql://localhost/works")  # doctest: +SKIP
    >>> update_index(database, "machines", upsert=[Node("card", "A punched card.")], embedding=model).nodes  # doctest: +SKIP
    Changes(written=1, moved=0, deleted=0)
    """
    check_database(database)
    sentences = sentences or False
    encoded_name, where = corpus_name(name), f"The index {shown(name)} of {database.where}"
    ids, sources = strings("delete", delete), strings("delete_sources", delete_sources)
    if not isinstance(bm25, (str, BM25)) and bm25 is not True:
        raise InvalidArgumentError(f"bm25 is {shown(bm25)}; expected True, a language such as 'de', or a BM25.")
    old_edges, words = as_list("delete_edges", delete_edges, "edges"), None if bm25 is True else word_options(bm25)
    for argument, value in (("upsert", upsert), ("add_edges", add_edges)):
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise InvalidArgumentError(f"{argument} is {shown(value)}; expected an iterable.")
    ensure_tables(database)
    documents = _Documents(upsert, None if embedding is None else as_embedding(embedding), words, strict, where)
    (rows,) = database.read((_STATE, {"name": encoded_name}))
    documents.state = _state(rows[0]) if rows else _NEW
    # Texts are embedded, which takes long, before the index is locked; if there are several blocks, those of the first.
    nodes = documents.read()
    block = documents.block(nodes, lambda text, given: database.read((text, given))[0]) if nodes else None
    with database.writing() as writing:
        change = Change(writing, encoded_name)

        def ask(text: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
            return writing.run(text, **parameters).fetchall()  # type: ignore[no-any-return]

        (row,) = ask(_STATE, {"name": encoded_name})
        # Another writer may have come first, whose state counts.
        if documents.take_state(_state(row)) and nodes:
            block = documents.block(nodes, ask)
        if change.settings is None and block is None:
            raise EmptyGraphError(f"{where} is new, and an index needs at least one node; pass documents in upsert=.")
        change.delete_edges(old_edges)
        change.delete(_numbers(change, ids, sources, where))
        with progress_bar(desc="writing nodes", unit="node", disable=not show_progress) as bar:
            while block is not None:
                change.write(block, advance=bar.update)
                nodes = documents.read()
                block = documents.block(nodes, ask) if nodes else None
        edges = iter(add_edges)
        if (edge := next(edges, None)) is not None:
            change.append_edges(chain([edge], edges))
        state = documents.state
        assert state.settings is not None
        settings = state.settings
        if edge_signals and not change.edge_dimension:
            settings = {**settings, "edge_dimension": documents.edge_dimension}
        reader = SentenceReader.of(sentences is False or sentences, documents.embed)
        if sentences is not False:
            documents.check_model("Sentences and names")
            settings = {**settings, "sentences": reader.way}
        elif change.sentences and documents.any_read:
            check_finder(change.sentences, reader, where)
        changes = change.finish(
            settings, state.dimension, decoded(state.embedding), state.include_titles, documents.vectors_of_edges, reader
        )
    documents.warn_of_bare()
    return changes


class _State(NamedTuple):
    """The stored properties of an index that new documents must fit; `settings` is None if it is new."""

    corpus: int
    settings: Any
    dimension: int
    embedding: str
    include_titles: bool


_NEW = _State(0, None, 0, "", True)


def _state(row: Sequence[Any]) -> _State:
    corpus, settings, dimension, embedding, traits = row
    return _State(corpus, settings, dimension, embedding, True if traits is None else traits["include_titles"])


_STATE = "SELECT corpus, settings, dimension, embedding, traits FROM {corpora} WHERE name = %(name)s"
_UNCHANGED = """\
SELECT g.place::integer, vector_send(v.vector)
FROM unnest(%(ids)s::text[], %(titles)s::text[], %(texts)s::text[]) WITH ORDINALITY AS g (id, title, text, place)
JOIN {nodes} n ON n.corpus = %(corpus)s AND n.id = g.id AND n.text = g.text AND (n.title = g.title OR NOT %(titled)s)
LEFT JOIN {vectors} v ON v.corpus = n.corpus AND v.node = n.node"""
_Ask = Callable[[str, dict[str, Any]], list[tuple[Any, ...]]]


class _Documents:
    """Documents that are read in blocks, with their vectors and words."""

    def __init__(
        self, documents: Iterable[Any], model: Embedding | None, words: dict[str, Any] | None, strict: bool, where: str
    ) -> None:
        self._documents, self._model, self._words, self._strict, self._where = iter(documents), model, words, strict, where
        self.state = _NEW
        self._block_state = _NEW
        self._count, self._bare_count, self._bare_id = 0, 0, ""

    def take_state(self, state: _State) -> bool:
        """Take another state of the index, unless it is the one with which documents were read; return whether it was taken."""
        is_other = state[1:] != self._block_state[1:]
        if is_other:
            self.state, self._count, self._bare_count = state, 0, 0
        return is_other

    def read(self) -> list[Node]:
        """Return the nodes of the next block; none at the end."""
        return to_nodes(check_named(list(islice(self._documents, BLOCK))), strict=self._strict)

    def block(self, nodes: Sequence[Node], ask: _Ask) -> NodeBlock:
        """Return nodes with their vectors and words; `ask` reads from the database."""
        graph = CorpusGraph.from_nodes(nodes, include_titles=self.state.include_titles)
        check_ids(graph)
        self._block_state = self.state
        vectors = self._vectors(graph, nodes, ask)
        if self.state.settings is None:
            words = self._words if self._words is not None or vectors is not None else {"stem": True}
            bm25 = BM25(graph.contents(), **(words or {}))
            dimension = 0 if vectors is None else vectors.shape[1]
            self.state = self.state._replace(settings=bm25.settings, dimension=dimension)
        else:
            bm25 = BM25(graph.contents(), **{name: self.state.settings[name] for name in BM25.options})
        self._count += len(nodes)
        if vectors is not None and not (mask := vectors.any(1)).all():
            self._bare_count += int((~mask).sum())
            self._bare_id = graph.ids[int(np.argmin(mask))]
        return NodeBlock(graph, range(len(graph)), CountedWords(bm25), vectors)

    def _vectors(self, graph: CorpusGraph, nodes: Sequence[Node], ask: _Ask) -> np.ndarray | None:
        """Return the vectors of nodes: float32, shape [n, d], of unit length; None if the index has none."""
        state, model = self.state, self._model
        if state.settings is not None and "vectors" in state.settings:
            raise InvalidArgumentError(
                f"{self._where} has its vectors in a table of yours, which is only read; change the rows of that table, build the "
                "index of it again, and write that with write_index."
            )
        own_vectors = [None if node.embedding is None else unit_vectors(check_vectors([node.embedding]))[0] for node in nodes]
        places = [place for place, vector in enumerate(own_vectors) if vector is None]
        if model is None and not state.dimension and len(places) == len(nodes):
            return None
        if state.settings is not None and not state.dimension:
            raise DimensionMismatchError(
                f"{self._where} has no vectors, and these documents have some, or a model; leave out both, or write the "
                "index again."
            )
        name = self._checked_model()
        vectors: dict[int, Tensor] = {place: vector for place, vector in enumerate(own_vectors) if vector is not None}
        if places and state.corpus and state.dimension:
            vectors |= self._unchanged(graph, places, ask)
        new = [place for place in places if place not in vectors]
        if new and model is None:
            raise MissingSignalError(
                f"{len(new)} new texts have no vectors, such as that of {shown(graph.ids[new[0]])}; pass embedding=, or documents "
                "with vectors."
            )
        if new:
            table = embed_corpus(model, [graph.content(place) for place in new])
            vectors |= zip(new, unit_vectors(check_vectors(table, len(new)).cpu()), strict=True)
        if name and not state.embedding:
            self.state = state._replace(embedding=name)
        width = state.dimension or len(vectors[0])
        if (row := next((place for place in range(len(nodes)) if vectors[place].shape != (width,)), None)) is not None:
            raise DimensionMismatchError(
                f"{self._where} has vectors of width {width}, and that of {shown(graph.ids[row])} has {vectors[row].numel()}; "
                "embed both with the same model."
            )
        return torch.stack([vectors[place] for place in range(len(nodes))]).cpu().numpy().astype(np.float32)

    def _checked_model(self) -> str:
        """Return the name of the model, or ""; InvalidArgumentError if it is another one than that of the index."""
        name = encoded(model_name(self._model))
        if self.state.embedding and name and name != self.state.embedding:
            raise InvalidArgumentError(
                f"{self._where} has vectors of the model {self.state.embedding!r}, and embedding= is {name!r}; pass the model of "
                "the index."
            )
        return name

    @property
    def edge_dimension(self) -> int:
        """The width of the vectors of edges, which the model of those of nodes makes."""
        self.check_model("The texts of edges")
        return self.state.dimension

    @property
    def any_read(self) -> bool:
        """Whether there were any documents."""
        return self._count > 0

    def check_model(self, what: str) -> None:
        """Raise MissingSignalError unless there are a model and vectors of nodes, beside which others are made."""
        if self._model is None:
            raise MissingSignalError(f"{what} need a model to have vectors; pass embedding= too.")
        if not self.state.dimension:
            raise MissingSignalError(
                f"{self._where} has no vectors of nodes, and {what[0].lower()}{what[1:]} have vectors only beside these; build an "
                "index with embedding=, and write it with write_index(..., replace=True)."
            )

    def vectors_of_edges(self, positions: list[int], texts: list[str]) -> np.ndarray:
        """Return the vectors of edges by their texts: float32, shape [n, d], of unit length."""
        return self._embedded("edges", texts, (self.state.settings or {}).get("edge_dimension", self.state.dimension))

    def embed(self, texts: list[str]) -> np.ndarray:
        """Return the vectors of names or sentences: float32, shape [n, d], of unit length."""
        return self._embedded("names and sentences", texts, self.state.dimension)

    def _embedded(self, what: str, texts: list[str], width: int) -> np.ndarray:
        if self._model is None:
            raise MissingSignalError(
                f"{len(texts)} {what} have no vectors of their texts, such as {shown(texts[0])}; pass embedding=."
            )
        self._checked_model()
        vectors = embed_texts(self._model, texts)
        if vectors.shape[1] != width:
            raise DimensionMismatchError(
                f"{self._where} has vectors of {what} of width {width}, and embedding= makes some of width {vectors.shape[1]}; "
                "pass the model of the index."
            )
        return vectors

    def _unchanged(self, graph: CorpusGraph, places: Sequence[int], ask: _Ask) -> dict[int, Tensor]:
        """Return the vectors of the nodes that are there with the same texts; zeros for one that has none."""
        columns = {"ids": graph.ids, "titles": graph.titles, "texts": graph.texts}
        parameters: dict[str, Any] = {name: [encoded(column[place]) for place in places] for name, column in columns.items()}
        rows = ask(_UNCHANGED, {**parameters, "corpus": self.state.corpus, "titled": self.state.include_titles})
        zeros = torch.zeros(self.state.dimension)
        return {places[at - 1]: zeros if data is None else torch.from_numpy(read_vector(data)) for at, data in rows}

    def warn_of_bare(self) -> None:
        """Warn of nodes without a vector, if there were any."""
        if self._bare_count:
            warn_of_bare_nodes(self._bare_count, self._count, self._bare_id)


def _numbers(change: Change, ids: Sequence[str], sources: Sequence[str], where: str) -> list[int]:
    """Return the numbers of nodes and of the nodes of documents; UnknownNodeError if one is not there."""
    nodes = change.node_rows(sendable_texts(ids))
    if (unknown := next((name for name in ids if not sendable(name) or encoded(name) not in nodes), None)) is not None:
        raise UnknownNodeError(f"{shown(unknown)} is not a node of {where[0].lower()}{where[1:]}.")
    numbers = {node.node for node in nodes.values()}
    if sources:
        sources_by_key = {encoded(source): source for source in sources if sendable(source)}
        rows = change.writing.run(
            "SELECT source, node FROM {nodes} WHERE corpus = %(corpus)s AND left(source, 500) = ANY(%(begun)s) "
            "AND source = ANY(%(sources)s)",
            corpus=change.corpus,
            sources=list(sources_by_key),
            begun=[source[:500] for source in sources_by_key],
        ).fetchall()
        node_sources = {source for source, _ in rows}
        if (
            unknown := next((name for name in sources if not sendable(name) or encoded(name) not in node_sources), None)
        ) is not None:
            raise UnknownNodeError(f"No node was made from the source {shown(unknown)}; see node_source for what a source is.")
        numbers.update(node for _, node in rows)
    return sorted(numbers)
