"""The hits of one query, as text for a language model and as a subgraph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, overload

from graph_retrievers.cache import Lazy
from graph_retrievers.core.trace import Trace
from graph_retrievers.graph.corpus_graph import Edge, Node
from graph_retrievers.graph.node_path import SharedName
from graph_retrievers.graph.subgraph import Subgraph
from graph_retrievers.hits.context import context_text
from graph_retrievers.hits.hit import Hit

__all__ = ["Hits"]

_Triple = tuple[str, str, str]
_Mentions = tuple[Mapping[str, Node], Mapping[_Triple, Edge]]


class Hits(Sequence[Hit]):
    """Hits of one query: at most k nodes, best first, followed by chains and facts if these were requested.

    A slice is a Hits with the same notes.

    Parameters
    ----------
    hits : iterable of Hit
    notes : sequence of str, default ()
        Messages for the user: a limit that ended the search early, a fallback that was used.
    mentioned : mapping of str to Node, optional
        Nodes on paths that are not hits themselves, by id, for :meth:`subgraph`.
    edges : mapping of (source, target, relation) to Edge, optional
        The edges on paths with their content, for :meth:`subgraph`.
    trace : list of Asked, optional
        The requests of the query's batch to index and models, step by step, with times: a
        :class:`~graph_retrievers.core.trace.Trace`, which prints as a table.

    Examples
    --------
    >>> from graph_retrievers.hits import NodePath
    >>> hit = Hit("b", "An engine.", 0.8, "STeX", NodePath(("a", "b"), ("cites",), (True,)), title="Engine")
    >>> hits = Hits([hit], notes=["a note"])
    >>> hits[:1].notes
    ('a note',)
    >>> print(hits.to_context())
    Paths:
    a -[cites]-> b
    <BLANKLINE>
    Texts:
    - Engine: An engine.
    >>> hits.subgraph()
    Subgraph(nodes=2, edges=1)
    """

    def __init__(
        self,
        hits: Iterable[Hit] = (),
        notes: Sequence[str] = (),
        mentioned: Mapping[str, Node] | None = None,
        edges: Mapping[_Triple, Edge] | None = None,
        trace: Trace | None = None,
    ) -> None:
        entries, mentions = tuple(hits), (dict(mentioned or {}), dict(edges or {}))
        self._set(Lazy(lambda: entries), tuple(notes), Lazy(lambda: mentions), trace)

    @classmethod
    def later(
        cls,
        hits: Callable[[], tuple[Hit, ...]],
        notes: Sequence[str],
        mentions: Callable[[tuple[Hit, ...]], _Mentions],
        trace: Trace | None,
    ) -> Self:
        """Return hits that are made when they are first read.

        `mentions` returns what `mentioned` and `edges` contain for some hits; it is called when a subgraph is first asked for.
        """
        result, entries = cls.__new__(cls), Lazy(hits)
        result._set(entries, tuple(notes), Lazy(lambda: mentions(entries.value)), trace)
        return result

    def _set(self, entries: Lazy[tuple[Hit, ...]], notes: tuple[str, ...], mentions: Lazy[_Mentions], trace: Trace | None) -> None:
        self._entries, self._notes, self._mentions, self._trace = entries, notes, mentions, Trace() if trace is None else trace

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The hits, best first."""
        return self._entries.value

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for the user."""
        return self._notes

    @property
    def trace(self) -> Trace:
        """The requests to index and models for the queries of the batch, step by step."""
        return self._trace

    @overload
    def __getitem__(self, place: int) -> Hit: ...

    @overload
    def __getitem__(self, place: slice) -> Hits: ...

    def __getitem__(self, place: int | slice) -> Hit | Hits:
        """Return a hit, or the hits of a slice with the same notes."""
        return self._of(self.hits[place]) if isinstance(place, slice) else self.hits[place]

    def __len__(self) -> int:
        """Return the number of hits."""
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        """Yield the hits, best first."""
        return iter(self.hits)

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence contains the same hits; the notes of another Hits must be equal too."""
        if isinstance(other, Hits):
            return self.hits == other.hits and self._notes == other._notes
        return isinstance(other, (list, tuple)) and self.hits == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the hits, one per line, and the notes."""
        lines = "".join(f"\n  {hit!r}," for hit in self.hits)
        notes = f", notes={list(self.notes)}" if self.notes else ""
        return f"Hits([{lines}{chr(10) if lines else ''}]{notes})"

    def _of(self, hits: Iterable[Hit]) -> Hits:
        entries, part = tuple(hits), Hits.__new__(Hits)
        part._set(Lazy(lambda: entries), self._notes, self._mentions, self._trace)
        return part

    @property
    def nodes(self) -> Hits:
        """The hits that are nodes."""
        return self._of(hit for hit in self.hits if hit.kind == "node")

    @property
    def chains(self) -> Hits:
        """The hits that are chains."""
        return self._of(hit for hit in self.hits if hit.kind == "chain")

    @property
    def facts(self) -> Hits:
        """The hits that are facts."""
        return self._of(hit for hit in self.hits if hit.kind == "fact")

    def to_context(
        self,
        question: str = "",
        language_model: Any = None,
        *,
        max_tokens: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
    ) -> str:
        """Return the hits as text for a language model, in up to three parts; "" for no hits.

        First the paths, one per line, as ``a -[relation]-> b <-[relation]- c`` with the direction of each edge, and as
        ``a -["name"]- b`` where a shared name connects two nodes. These are the chains, or without chains the paths to the hits,
        except those that are the beginning of a longer one; paths with a score (``NodePath.score``) come last, the best at the
        end. Then the facts, then the nodes in their order, each as ``- name (type): text``; a missing type or text is left out. A
        node is followed by its context, if it has one: its neighbours in the same form, or instead what `language_model` writes
        about them and the node. Names, types and paths are written on one line, and the other lines of a text are indented by
        four spaces more than its name, so that no document can imitate an entry of the list.

        Parameters
        ----------
        question : str, default ""
            The question that the summaries should help to answer.
        language_model : object, optional
            Summarises each context with its node, with one prompt each (see
            :func:`graph_retrievers.signals.language.as_language_model`).
        max_tokens : int, optional
            Most tokens of the text; no limit by default. Entries are taken whole, first the paths (the best of those with a score
            first), then the facts, then the nodes in their order, each with its context. One that does not fit any more is left
            out, and a shorter one after it may still fit. The last line says what is left out, such as "3 further passages left
            out."; if nothing fits, it is the only line, which alone may be longer than `max_tokens`.
        count_tokens : callable, optional
            Maps a text to its number of tokens for the language model that reads it, such as
            ``lambda text: len(encoding.encode(text))``. By default the number is estimated by
            :func:`~graph_retrievers.graph.tokens.estimate_tokens`: for English mostly within a fifth, for other languages often
            too low, so leave room.

        Raises
        ------
        LanguageModelError
            If the language model fails.
        InvalidArgumentError
            If `max_tokens` is below 1, or `count_tokens` returns no number of tokens or is given without `max_tokens`.

        Examples
        --------
        >>> from graph_retrievers.hits import NodePath
        >>> texts = {"a": "A loom.", "b": "A card of many holes, one for each thread."}
        >>> hits = Hits(Hit(name, text, 1.0, "BM25Search", NodePath((name,))) for name, text in texts.items())
        >>> print(hits.to_context(max_tokens=16))
        Texts:
        - a: A loom.
        <BLANKLINE>
        1 further passage left out.

        References
        ----------
        Glybovets and Makarov, "Query-Aware Spreading Activation for Multi-Hop Retrieval over Knowledge Graphs", section
        III-B, "Context assembly"; the headings are added here. Hu et al., "CG-RAG", section 4.4, for the summaries.
        """
        return context_text(
            self.chains, self.facts, self.nodes, question, language_model, max_tokens=max_tokens, count_tokens=count_tokens
        )

    def subgraph(self) -> Subgraph:
        """Return the nodes and edges of the hits: the hits, the nodes on their paths, their contexts, chains and facts.

        Steps without an edge, such as those by a name that two texts share, are its ``names``.
        """
        mentioned, graph_edges = self._mentions.value
        nodes = {hit.id: Node(hit.id, hit.text, hit.title, hit.type, hit.metadata, hit.origin) for hit in self.nodes}
        for node in (node for hit in self.hits for node in hit.path.nodes):
            nodes.setdefault(node, mentioned.get(node, Node(node, "")))
        for near in (near for hit in self.hits for near in hit.context.nodes):
            nodes.setdefault(near.id, near)
        facts = {_triple(hit.edge): hit.edge for hit in self.hits if hit.edge is not None}
        steps = {_triple(edge): edge for hit in self.hits for edge in (*hit.path.edges(), *hit.context.edges)}
        # A step of a path has no weight, text or metadata; the edge of the graph has.
        edges = (facts | steps | {key: graph_edges[key] for key in steps if key in graph_edges} | facts).values()
        names: dict[Any, SharedName] = {}
        for step in (step for hit in self.hits for step in hit.path.names()):
            # A name has no direction: there and back is one.
            names.setdefault((frozenset((step.near, step.far)), step.name), step)
        return Subgraph(tuple(nodes.values()), tuple(edges), tuple(names.values()))


def _triple(edge: Edge) -> _Triple:
    return edge.source, edge.target, edge.relation
