"""IndexStore: the current index of a changing corpus, and its folder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Unpack

from graph_retrievers.arguments import as_list, as_path, check_keywords, keywords_of, strings
from graph_retrievers.construction.edges import specifications
from graph_retrievers.errors import CorruptIndexError, EmptyGraphError, InvalidArgumentError, UnknownNodeError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, EdgeLike
from graph_retrievers.index.change import check_ids
from graph_retrievers.index.folders import MANIFEST, PREVIOUS, locked
from graph_retrievers.index.graph_index import GraphIndex
from graph_retrievers.index.options import StoreOptions
from graph_retrievers.index.storage import check_target, current_manifest, publish_index, read_saved
from graph_retrievers.signals.embedding_models import CachedEmbedding, as_embedding
from graph_retrievers.signals.signal import Signal
from graph_retrievers.signals.vector_cache import with_cache

__all__ = ["IndexStore"]

# The settings of an index without documents.
_NOTHING: dict[str, Any] = {"signals": [], "embedding": {"name": "", "by_name": False}, "edges": []}
# Texts whose vectors are kept while a change is worked out again.
_TEXTS = 1 << 30


class _State(NamedTuple):
    """The contents of a store: the manifest from which it was read, and the index; None for a store without documents."""

    manifest: bytes | None = None
    current: GraphIndex | None = None


class IndexStore:
    """An index in a folder that can be changed: each change makes a new index, which is on disk when the call returns.

    Any number of threads and processes may use one folder. Writers wait for each other, and each change applies to the result of
    the previous one. Readers need no lock: :attr:`index` itself never changes, and a running query finishes on it. The folder
    contains the newest index and the previous one, which is opened, with a warning, if the newest is damaged.

    Parameters
    ----------
    folder : str or Path
        A new or empty folder, or one with an index, as written by :meth:`GraphIndex.save`.
    edges : edge specification, pair of fields, callable, or a list of these, optional
        How the documents of an empty store are linked; see :mod:`graph_retrievers.construction.edges`. An existing index has its
        own; specifications that are not part of this package must be given again.
    embedding, relevance : object, optional
        Models, as for :class:`~graph_retrievers.index.GraphIndex`.
    signals : mapping of str to Signal, optional
        See :meth:`GraphIndex.load`.
    device : str or torch.device, optional
    **options
        Other keywords of :meth:`GraphIndex.from_documents`, for the first documents of an empty store.

    Raises
    ------
    InvalidArgumentError
        If the folder contains something else.
    CorruptIndexError, IndexVersionError
        If neither its index nor the previous one can be opened.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from graph_retrievers.graph import Node
    >>> with TemporaryDirectory() as folder:
    ...     store = IndexStore(folder, edges=("reads", "$id"))
    ...     _ = store.update(upsert=[Node("loom", "A loom.", metadata={"reads": ["card"]})])
    ...     _ = store.update(upsert=[Node("card", "A card.")])
    ...     IndexStore(folder).index.graph.edges()
    [Edge(source='loom', target='card', relation='reads', weight=1.0, text='', metadata={})]
    """

    def __init__(
        self,
        folder: Any,
        *,
        edges: Any = None,
        embedding: Any = None,
        relevance: Any = None,
        signals: Mapping[str, Signal] | None = None,
        device: Any = None,
        **options: Unpack[StoreOptions],
    ) -> None:
        self.folder = as_path("folder", folder).resolve()
        if not (self.folder / MANIFEST).exists():
            check_target(self.folder)
        model = with_cache(as_embedding(embedding), options.get("cache")) if embedding is not None else None
        self._models: dict[str, Any] = {"embedding": model, "relevance": relevance}
        self._specs = None if edges is None else specifications(edges)
        names = keywords_of(IndexStore.__init__, GraphIndex.from_documents, GraphIndex.from_graph) - {
            "lenient",
            "strict",
            "vectors",
        }
        check_keywords("IndexStore", options, sorted(names))
        if isinstance(options.get("bm25"), Signal):
            message = "bm25 is a signal of fixed texts, and those of a store change; name a language, such as 'de'."
            raise InvalidArgumentError(message)
        self._signals, self._device, self._options = signals, device, options
        self._state, self._mutex = _State(), threading.RLock()
        self.reload()

    def __repr__(self) -> str:
        """Return the folder and the current index."""
        return f"IndexStore({str(self.folder)!r}, {self._state.current!r})"

    def __len__(self) -> int:
        """Return the number of nodes."""
        return 0 if self._state.current is None else len(self._state.current)

    @property
    def embedding(self) -> Any:
        """The embedding model, or None."""
        return self._models["embedding"]

    @property
    def index(self) -> GraphIndex:
        """The current index; EmptyGraphError if the store contains no documents."""
        index = self._state.current
        if index is None:
            raise EmptyGraphError(f"The store {self.folder} is empty; add documents with update(upsert=...).")
        return index

    def reload(self) -> None:
        """Load what other processes have written; this costs little if nothing is new."""
        with self._mutex:
            self._reload(held=False)

    def _reload(self, held: bool) -> None:
        if not any((self.folder / name).exists() for name in (MANIFEST, PREVIOUS)):
            if self._state.manifest is not None:
                raise CorruptIndexError(f"There is no index at {self.folder} any more; restore it from a copy.")
            return
        if self._state.manifest is not None and current_manifest(self.folder) == self._state.manifest:
            return
        saved = read_saved(self.folder, self._device, held=held)
        if saved.manifest == self._state.manifest:
            # The newest is damaged, and this is the one before it.
            return
        index = None
        if len(saved.graph):
            index = GraphIndex.from_state(self.folder, *saved[1:], **self._models, signals=self._signals, edges=self._specs)
        self._state = _State(saved.manifest, index)

    def update(
        self,
        *,
        add: Iterable[Any] = (),
        upsert: Iterable[Any] = (),
        delete: Iterable[str] = (),
        delete_sources: Iterable[str] = (),
        add_edges: Iterable[EdgeLike] = (),
        delete_edges: Iterable[EdgeLike] = (),
        vectors: Any = None,
        show_progress: bool = False,
        strict: bool = False,
    ) -> None:
        """Change the corpus; the arguments and errors are those of :meth:`GraphIndex.with_changes`.

        All documents may be deleted. If the folder cannot be written, IndexWriteError is raised, and the store is unchanged.
        """
        lists = {"add": add, "upsert": upsert, "add_edges": add_edges, "delete_edges": delete_edges}
        changes: dict[str, Any] = {name: as_list(name, values) for name, values in lists.items()}
        changes |= {"delete": strings("delete", delete), "delete_sources": strings("delete_sources", delete_sources)}
        if any(changes.values()):
            changes |= {"vectors": vectors, "strict": strict}
            self._apply(lambda index, model: self._changed(index, model, changes, show_progress))

    def replace(self, index: GraphIndex) -> None:
        """Replace the current index by another."""
        self._apply(lambda _, model: index)

    def _changed(self, index: GraphIndex | None, model: Any, changes: dict[str, Any], show_progress: bool) -> GraphIndex | None:
        """Return the next index, None for one without documents."""
        if index is not None:
            try:
                return index.with_models(embedding=model).with_changes(**changes, show_progress=show_progress)
            except EmptyGraphError:
                return None
        documents = check_ids([*changes["add"], *changes["upsert"]])
        for name in ("delete", "delete_sources", "delete_edges", *(() if documents else ("add_edges",))):
            if changes[name]:
                raise UnknownNodeError(f"{name} names {shown(changes[name][0])}, and the store {self.folder} is empty.")
        edges = [*(self._specs or ()), *changes["add_edges"]] if self._specs is not None or changes["add_edges"] else None
        options = {"show_progress": show_progress, "device": self._device, **self._options}
        options |= {name: changes[name] for name in ("vectors", "strict")}
        models = {**self._models, "embedding": model}
        return GraphIndex.from_documents(documents, edges=edges, lenient=True, **models, **options) if documents else None

    def _apply(self, change: Callable[[GraphIndex | None, Any], GraphIndex | None]) -> None:
        """Replace the index by what a function makes of it and an embedding model.

        The function may be called twice: texts are embedded, which takes long, before the folder is locked, and once only.
        """
        with self._mutex:
            self._reload(held=False)
            model = CachedEmbedding(self.embedding, _TEXTS) if self.embedding is not None else None
            before, result = self._state.manifest, change(self._state.current, model)
            with locked(self.folder):
                self._reload(held=True)
                if self._state.manifest != before:
                    result = change(self._state.current, model)
                index = result if result is None else result.with_models(embedding=self.embedding)
                graph, parts = (CorpusGraph([], []), ({}, _NOTHING)) if index is None else (index.graph, index.state())
                self._state = _State(publish_index(self.folder, graph, *parts, previous=self._state.manifest), index)
