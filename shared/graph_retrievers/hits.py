"""Hits with their paths, as text for a language model and as a subgraph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate
from math import isnan
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from graph_retrievers.arguments import positive
from graph_retrievers.core.candidates import Candidates
from graph_retrievers.core.chains import Chains, Facts
from graph_retrievers.core.trace import Trace
from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, Edge, Node
from graph_retrievers.graph.labels import is_random, path_title
from graph_retrievers.graph.names import named_step
from graph_retrievers.graph.node_path import NodePath, SharedName
from graph_retrievers.graph.plain import copied
from graph_retrievers.graph.subgraph import Subgraph
from graph_retrievers.graph.tokens import estimate_tokens
from graph_retrievers.signals.language import LanguageModel, as_language_model, complete_text

__all__ = ["NOTHING_FOUND", "plain_context", "plain_provenance", "plain_subgraph", "Hit", "Hits", "NodePath", "to_hits"]

_Triple = tuple[str, str, str]
Similarities = Mapping[tuple[int, int], float | None]
_Largest = Callable[[Iterable[int]], float | None]

_SUMMARY = (
    "Summarise in a few sentences what the context below adds to its first text for answering the question. Use nothing but the "
    "texts."
)

_ALONE = Subgraph()

NOTHING_FOUND = "the operators found no node"
"""Note on a query for which the operators, without backfill, found no node."""


@dataclass(frozen=True, repr=False)
class Hit:
    """One result: a node, a fact (an edge) or a chain (a path).

    Attributes
    ----------
    id : str
        The node's id; for a chain or fact, the ids of its nodes, joined.
    text : str
        The node's text, the fact's text, the chain as text.
    score : float
        The score by which it was ranked; comparable only within one result. For a threshold, see `similarity`.
    operator : str
        Name of the operator that found it.
    path : NodePath
        Path to it; for a chain or fact, the nodes that it connects.
    title, type : str
    metadata : mapping
        A copy of the metadata of the node or edge.
    origin : mapping
        A copy of the origin of the node (see :class:`~graph_retrievers.graph.corpus_graph.Node`).
    kind : {"node", "chain", "fact"}
    edge : Edge or None
        The edge of a fact.
    context : Subgraph
        For a node, the neighbours that gave it context, most important first, and the edges between them and the node. Empty for
        retrievers without contexts.
    ranks : mapping of str to int or None
        For a node from a fusion, its rank, from 1, in each of the fused lists, by the name of the list; None if the list does not
        contain it.
    plain : callable, optional
        Returns `plain_rank`.
    reason : str
        Why the retriever searched as it did, if that depends on the graph, such as the form of ``WalkFusion``.
    similarity : float or None
        Cosine of the node's vector and the question's, from -1 to 1, independent of the score. It can be compared between
        questions, and between retrievers with vectors of the same model. For a chain or fact, the largest of its nodes. None if
        the index or the node has no vectors. A retriever that reads only words and edges, such as ``BM25``, does not embed the
        question; there it is None unless the vector of the question is given (``retrieve(question, vector=...)``).

    Examples
    --------
    >>> Hit("p1", "A text.", 0.75, "VectorSearch", NodePath(("p1",)))
    Hit('p1', score=0.75, operator='VectorSearch')
    """

    id: str
    text: str
    score: float
    operator: str
    path: NodePath
    title: str = ""
    type: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    kind: str = "node"
    edge: Edge | None = None
    context: Subgraph = Subgraph()
    origin: Mapping[str, Any] = field(default_factory=dict, hash=False)
    ranks: Mapping[str, int | None] = field(default_factory=dict, hash=False)
    plain: Callable[[], int | None] | None = field(default=None, compare=False)
    reason: str = field(default="", compare=False)
    similarity: float | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """Return id, score, operator and path."""
        kind = "" if self.kind == "node" else f", kind={self.kind!r}"
        path = f", path={str(self.path)!r}" if self.kind == "node" and len(self.path.nodes) > 1 else ""
        return f"Hit({self.id!r}, score={self.score:.4g}, operator={self.operator!r}{path}{kind})"

    @property
    def plain_rank(self) -> int | None:
        """The node's rank without the graph: in hybrid search, or in vector search or BM25 if the index has only one of them.

        The filters are those of the call. None if the node is not among the first 100, for chains and facts, and if the retriever
        does not read the graph. The first access runs this search for all queries of the batch.
        """
        return None if self.plain is None else self.plain()

    def explain(self) -> str:
        """Return a few lines that explain why the hit was found.

        They give the operator that found it; its rank in each list of a fusion; the path, and the texts of its edges; its rank
        without the graph (:attr:`plain_rank`), if the retriever reads the graph; and `reason`.

        Examples
        --------
        >>> path = NodePath(("p1", "p2"), ("cites",), (True,), ("Looms", "Cards"), ("as shown before",))
        >>> hit = Hit("p2", "", 0.2, "STeX", path, ranks={"HybridSearch": None, "STeX": 3}, plain=lambda: 14)
        >>> print(hit.explain())
        found by STeX
        held by STeX at rank 3; not by HybridSearch
        path: Looms -[cites]-> Cards
        text of Looms -[cites]-> Cards: as shown before
        without the graph: rank 14
        """
        lines = [f"found by {self.operator}"]
        if self.ranks:
            held = ", ".join(f"{name} at rank {rank}" for name, rank in self.ranks.items() if rank is not None)
            others = ", ".join(name for name, rank in self.ranks.items() if rank is None)
            lines.append("; ".join(part for part in (held and f"held by {held}", others and f"not by {others}") if part))
        if len(self.path.nodes) > 1:
            lines.append(f"{dict(node='path', fact='edge').get(self.kind, self.kind)}: {self.path.text}")
            lines += [
                f"text of {step.text}: {text}" for step, text in zip(self.path.steps(), self.path.texts, strict=False) if text
            ]
        if self.plain is not None:
            rank = self.plain()
            lines.append(f"without the graph: {'not among the first 100' if rank is None else f'rank {rank}'}")
        return "\n".join(" ".join(line.split()) for line in filter(None, [*lines, self.reason]))

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as a mapping for JSON; it computes :attr:`plain_rank`."""
        return {
            **{name: getattr(self, name) for name in ("id", "score", "similarity", "title", "text", "type", "operator")},
            "path": self.path.to_dict(),
            "metadata": dict(self.metadata),
            "kind": self.kind,
            "context": plain_subgraph(self.context),
            "ranks": dict(self.ranks),
            "plain_rank": self.plain_rank,
            "reason": self.reason,
        }


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
        self._hits, self._notes = tuple(hits), tuple(notes)
        self._trace = Trace() if trace is None else trace
        self._mentioned, self._edges = dict(mentioned or {}), dict(edges or {})

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The hits, best first."""
        return self._hits

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
            return self.hits == other.hits and self.notes == other.notes
        return isinstance(other, (list, tuple)) and self.hits == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the hits, one per line, and the notes."""
        lines = "".join(f"\n  {hit!r}," for hit in self.hits)
        notes = f", notes={list(self.notes)}" if self.notes else ""
        return f"Hits([{lines}{chr(10) if lines else ''}]{notes})"

    def _of(self, hits: Iterable[Hit]) -> Hits:
        return Hits(hits, self.notes, self._mentioned, self._edges, self._trace)

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
        model = None if language_model is None else as_language_model(language_model)
        unscored, rising = _rising([(hit.path, hit.text) for hit in self.chains] or _walked(hit.path for hit in self.nodes))
        paths = [_Entry(" ".join(path.split())) for path in (*unscored, *rising)]
        best_first = [*range(len(unscored)), *reversed(range(len(unscored), len(paths)))]
        facts = [_Entry(_entry("", hit.text)) for hit in self.facts]
        texts = [_Entry(_line(hit), partial(_context_lines, hit, question, model)) for hit in self.nodes]
        parts = [
            _Part("Paths:", "path", paths, best_first),
            _Part("Facts:", "fact", facts, range(len(facts))),
            _Part("Texts:", "passage", texts, range(len(texts))),
        ]
        if max_tokens is None:
            if count_tokens is not None:
                raise InvalidArgumentError("count_tokens counts what max_tokens limits; give both.")
            return _written(parts)
        return _written_within(parts, positive("max_tokens", max_tokens), _counter(count_tokens or estimate_tokens))

    def subgraph(self) -> Subgraph:
        """Return the nodes and edges of the hits: the hits, the nodes on their paths, their contexts, chains and facts.

        Steps without an edge, such as those by a name that two texts share, are its ``names``.
        """
        nodes = {hit.id: Node(hit.id, hit.text, hit.title, hit.type, hit.metadata, hit.origin) for hit in self.nodes}
        for node in (node for hit in self.hits for node in hit.path.nodes):
            nodes.setdefault(node, self._mentioned.get(node, Node(node, "")))
        for near in (near for hit in self.hits for near in hit.context.nodes):
            nodes.setdefault(near.id, near)
        facts = {_triple(hit.edge): hit.edge for hit in self.hits if hit.edge is not None}
        steps = {_triple(edge): edge for hit in self.hits for edge in (*hit.path.edges(), *hit.context.edges)}
        # A step of a path has no weight, text or metadata; the edge of the graph has.
        edges = (facts | steps | self._edges_of(steps) | facts).values()
        # A name has no direction: there and back is one.
        names: dict[Any, SharedName] = {}
        for step in (step for hit in self.hits for step in hit.path.names()):
            # A name has no direction: there and back is one.
            names.setdefault((frozenset((step.near, step.far)), step.name), step)
        return Subgraph(tuple(nodes.values()), tuple(edges), tuple(names.values()))

    def _edges_of(self, keys: Iterable[_Triple]) -> dict[_Triple, Edge]:
        return {key: self._edges[key] for key in keys if key in self._edges}


def _triple(edge: Edge) -> _Triple:
    return edge.source, edge.target, edge.relation


def _context_lines(hit: Hit, question: str, model: LanguageModel | None) -> list[str]:
    neighbors = [_line(near) for near in hit.context.nodes]
    if not neighbors:
        return []
    if model is None:
        return ["  Context:", *("\n".join(f"  {line}" for line in near.split("\n")) for near in neighbors)]
    steps = (NodePath((edge.source, edge.target), (edge.relation,), (True,)) for edge in hit.context.edges if edge.relation)
    links = [f"- {step}" for step in steps]
    told = "\n".join([_line(hit), *neighbors, *links])
    summary = complete_text(model, f"{_SUMMARY}\n\nQuestion: {question}\n\nText and its context:\n{told}")
    return [f"  Context: {' '.join(summary.split())}"]


def _line(hit: Hit | Node) -> str:
    # The text that follows says more than a UUID.
    node = "" if hit.text and is_random(hit.id) else hit.id
    title, kind, node = (" ".join(text.split()) for text in (hit.title, hit.type, node))
    return _entry(" ".join(filter(None, (title or node, kind and f"({kind})"))), hit.text)


def _entry(name: str, text: str) -> str:
    """Return an entry of a list; what begins a line in the text must not look like another entry."""
    written = "\n    ".join(text.splitlines())
    return f"- {name}: {written}" if name and written else f"- {name or written}"


def _walked(paths: Iterable[NodePath]) -> list[tuple[NodePath, str]]:
    """Return the paths of more than one node, with their texts, without those that begin a longer one."""
    distinct = {path.nodes: path for path in paths if len(path.nodes) > 1}
    begun = {nodes[:n] for nodes in distinct for n in range(2, len(nodes))}
    return [(path, path.text) for nodes, path in distinct.items() if nodes not in begun]


def _rising(paths: list[tuple[NodePath, str]]) -> tuple[list[str], list[str]]:
    """Return the texts of paths: of those without a score in order, and of the others by score, of equal ones the first last."""
    scored = sorted((pair for pair in paths[::-1] if pair[0].score is not None), key=lambda pair: pair[0].score or 0.0)
    return [text for path, text in paths if path.score is None], [text for _, text in scored]


class _Entry:
    """A path, a fact or a passage of a context: its first lines, and what follows them, which a language model may write."""

    def __init__(self, line: str, more: Callable[[], list[str]] = list) -> None:
        self.line, self._more = line, more

    @cached_property
    def text(self) -> str:
        return "\n".join([self.line, *self._more()])


class _Part(NamedTuple):
    """Entries of a context under one heading, what one of them is called, and the order of their importance."""

    heading: str
    noun: str
    entries: list[_Entry]
    order: Sequence[int]


def _written(parts: Sequence[_Part], kept: Collection[tuple[int, int]] | None = None) -> str:
    """Return parts as one text, with the entries at all places, or at the places (part, entry) in `kept`."""
    chosen = [
        (part.heading, [entry.text for row, entry in enumerate(part.entries) if kept is None or (place, row) in kept])
        for place, part in enumerate(parts)
    ]
    return "\n\n".join("\n".join([heading, *lines]) for heading, lines in chosen if lines)


def _written_within(parts: Sequence[_Part], most: int, count: Callable[[str], int]) -> str:
    """Return parts as one text of at most so many tokens, with the entries that fit and a line that says what is left out."""
    total = sum(len(part.entries) for part in parts)
    # Nothing follows the last entry.
    kept = _fitting(parts, most + count("\n\n"), count)
    if len(kept) == total and count(_written(parts)) <= most:
        return _written(parts)
    # The line of a part of them is not longer than that of all.
    kept = _fitting(parts, most - count(f"\n\n{_left_out(parts, [])}"), count)
    while True:
        text = "\n\n".join(filter(None, [_written(parts, kept), _left_out(parts, kept)]))
        # The tokens of a text are not always those of its lines.
        if not kept or count(text) <= most:
            return text
        kept.pop()


def _fitting(parts: Sequence[_Part], room: int, count: Callable[[str], int]) -> list[tuple[int, int]]:
    """Return the places (part, entry) of the entries that fit into so many tokens, those of the first part first."""
    kept = []
    for place, part in enumerate(parts):
        heading = count(f"{part.heading}\n\n")
        for row in part.order:
            entry = part.entries[row]
            # A language model need not write about what does not fit anyway.
            if heading + count(f"{entry.line}\n") > room or (cost := heading + count(f"{entry.text}\n")) > room:
                continue
            kept.append((place, row))
            heading, room = 0, room - cost
    return kept


def _left_out(parts: Sequence[_Part], kept: Collection[tuple[int, int]]) -> str:
    """Return the line that says how many entries of each part are left out; "" for none."""
    missing = [(len(part.entries) - sum(at == place for at, _ in kept), part.noun) for place, part in enumerate(parts)]
    told = [f"{number:,} further {noun}{'s' * (number > 1)}" for number, noun in missing if number]
    return f"{' and '.join(filter(None, [', '.join(told[:-1]), told[-1]]))} left out." if told else ""


def _counter(count_tokens: Callable[[str], int]) -> Callable[[str], int]:
    """Return the function that counts tokens, with a check of what it returns."""
    if not callable(count_tokens):
        raise InvalidArgumentError(f"count_tokens is {shown(count_tokens)}; expected a function from a text to a number of tokens.")

    def count(text: str) -> int:
        number = count_tokens(text)
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidArgumentError(f"count_tokens returned {shown(number)} for a text; expected its number of tokens, an int.")
        return number

    return count


def plain_provenance(hit: Hit, notes: Sequence[str]) -> dict[str, Any]:
    """Return how a hit was found, as values for JSON: what the framework packages add to its text and metadata.

    `operator`, `path`; and if available ``similarity``, ``kind`` ("chain" or "fact"), ``context``, ``ranks``, ``notes``.
    """
    said: dict[str, Any] = {"operator": hit.operator, "path": hit.path.to_dict()}
    said |= {"similarity": hit.similarity} if hit.similarity is not None else {}
    said |= {"kind": hit.kind} if hit.kind != "node" else {}
    said |= {"context": plain_subgraph(hit.context)} if hit.context.nodes else {}
    said |= {"ranks": dict(hit.ranks)} if hit.ranks else {}
    return said | ({"notes": list(notes)} if notes else {})


def plain_subgraph(context: Subgraph) -> dict[str, Any]:
    """Return a context as lists for JSON, with the keys ``nodes`` and ``edges``."""
    return {
        "nodes": [{"id": n.id, "title": n.title, "type": n.type, "text": n.text} for n in context.nodes],
        "edges": [[edge.source, edge.relation, edge.target] for edge in context.edges],
    }


def plain_context(value: Any) -> Subgraph:
    """Return the context that :func:`plain_subgraph` wrote; an empty one for anything else."""
    try:
        nodes = tuple(Node(near["id"], near["text"], near["title"], near["type"]) for near in value["nodes"])
        return Subgraph(nodes, tuple(Edge(source, target, relation) for source, relation, target in value["edges"]))
    except (TypeError, KeyError, ValueError):
        return Subgraph()


def to_hits(
    found: Sequence[Candidates],
    graph: CorpusGraph,
    shown: np.ndarray | None = None,
    plain: Callable[[int, str], int | None] | None = None,
    reason: str = "",
    alike: Similarities | None = None,
    trace: Trace | None = None,
    notes: Sequence[Sequence[str]] = (),
) -> list[Hits]:
    """Return candidates as hits: the nodes with their paths, then all chains, then all facts.

    Parameters
    ----------
    found : sequence of Candidates, length B
    graph : CorpusGraph
    shown : ndarray, shape [N], bool, optional
        Nodes that may be returned: titles and contents of other nodes on paths are hidden, and chains and facts with such a
        node are left out.
    plain : callable, optional
        Maps the number of a query and the id of a node to `plain_rank`.
    reason : str, default ""
        The reason of the retriever, for all hits that are nodes.
    alike : mapping of (int, int) to float or None, optional
        `similarity` by the number of the query and the row of the node.
    trace : Trace, optional
        The requests of the batch.
    notes : sequence of sequence of str, length B, optional

    Returns
    -------
    list of Hits, length B
    """
    paths, alike, results = _Paths(graph, shown), alike or {}, []
    walked, chains = iter(_node_paths(paths, found)), _chain_paths(paths, found)
    for b, each in enumerate(found):
        context, ranks = each.beside.get("context"), each.beside.get("ranks")
        hits = [
            _node_hit(
                paths.stored(node),
                score,
                each.operators[origin],
                next(walked),
                context=_ALONE if context is None else paths.context(node, context[place].tolist()),
                ranks={} if ranks is None else {n: int(r) or None for n, r in zip(each.lists, ranks[place], strict=True)},
                plain=None if plain is None else partial(plain, b, graph.ids[node]),
                reason=reason,
                similarity=alike.get((b, node)),
            )
            for place, (node, score, origin) in enumerate(zip(*each.columns(), strict=True))
        ]
        near = partial(_largest, alike, b)
        hits += _chain_hits(each.chains, chains[b], near) + _fact_hits(each.facts, paths, near)
        # The path of a seed is the hit itself.
        longer = [hit.path for hit in hits if len(hit.path.nodes) > 1]
        mentioned = {node: told for path in longer for node in path.nodes if (told := paths.node(node)) is not None}
        edges = paths.edges(triple for path in longer for triple in path.triples())
        results.append(Hits(hits, notes[b] if notes else (), mentioned, edges, trace))
    return results


class _Paths:
    """Paths through nodes given by row; titles only of nodes that may be shown."""

    def __init__(self, graph: CorpusGraph, shown: np.ndarray | None) -> None:
        self.graph, self.shown = graph, shown
        self._rows: dict[_Triple, int] = {}
        self._nodes: dict[int, Node] = {}
        self._seeds: dict[int, NodePath] = {}

    def may_show(self, row: int) -> bool:
        return self.shown is None or bool(self.shown[row])

    def stored(self, row: int) -> Node:
        """Return the node at a row, made once."""
        if row not in self._nodes:
            self._nodes[row] = self.graph.node(row)
        return self._nodes[row]

    def title(self, row: int) -> str:
        """Return the title of a node, of one with a UUID and without a title a label, and "" of one that may not be shown."""
        return path_title(self.graph, row) if self.may_show(row) else ""

    def seed(self, row: int) -> NodePath:
        """Return the path of one node, made once."""
        if row not in self._seeds:
            self._seeds[row] = NodePath((self.graph.ids[row],), titles=(self.title(row),))
        return self._seeds[row]

    def edges(self, steps: Iterable[_Triple]) -> dict[_Triple, Edge]:
        """Return the edges of the graph that steps of these paths follow, where both ends may be shown."""
        keys = [key for key in dict.fromkeys(steps) if key in self._rows]
        if not keys:
            return {}
        return dict(zip(keys, self.graph.edges([self._rows[key] for key in keys]), strict=True))

    def context(self, row: int, neighbors: Sequence[int]) -> Subgraph:
        """Return the nodes of some rows that may be shown, and the edges among them and the node of `row`."""
        kept = [near for near in neighbors if near >= 0 and self.may_show(near)]
        inside = self.graph.edges_within([row, *kept]) if kept else []
        return Subgraph(tuple(map(self.graph.node, kept)), tuple(self.graph.edges(inside)))

    def node(self, node: str) -> Node | None:
        row = self.graph.row(node)
        return self.stored(row) if self.may_show(row) else None

    def of(
        self, trails: Sequence[Sequence[int]], owners: Sequence[str], what: str, relations: Sequence[Sequence[int]] | None = None
    ) -> list[NodePath]:
        """Return a path for each trail in one look-up; `relations` has the relation of each step, as in a ranking.

        InvalidArgumentError for a step that is neither an edge nor a name: `owners` are the operators that returned each a `what`.
        """
        graph = self.graph
        steps = [pair for trail in trails if len(trail) > 1 for pair in zip(trail, trail[1:], strict=False)]
        if not steps:
            return [self.seed(row) for (row,) in trails]
        near, far = torch.tensor(steps, dtype=torch.int64, device=graph.device).reshape(-1, 2).unbind(1)
        given = None if relations is None else [r for row in relations for r in row]
        wanted = torch.tensor(given, dtype=torch.int64, device=graph.device) if given and max(given) >= 0 else None
        found_rows, forward = graph.steps_between(near, far, wanted)
        number = graph.relations[found_rows.clamp(min=0)] if graph.num_edges else found_rows
        # One answer of the device to wait for.
        rows, numbers, along_rows = torch.stack([found_rows, number.long(), forward.long()]).tolist()
        names = [graph.relation_names[name] if row >= 0 else "" for row, name in zip(rows, numbers, strict=True)]
        ahead: list[bool | None] = [bool(along) if row >= 0 else None for row, along in zip(rows, along_rows, strict=True)]
        start, found, texts = 0, [], [""] * len(steps)
        for step, (row, (a, b), name, along) in enumerate(zip(rows, steps, names, ahead, strict=True)):
            if row < 0 and not (given is not None and named_step(graph.texts[a], given[step])):
                owner = owners[next(n for n, stop in enumerate(accumulate(len(trail) - 1 for trail in trails)) if step < stop)]
                raise InvalidArgumentError(
                    f"{owner} returned a {what} with a step from {graph.ids[a]!r} to {graph.ids[b]!r}, which no edge joins and no "
                    "name in relations."
                )
            ends = (a, b) if along else (b, a)
            if not (self.may_show(a) and self.may_show(b)):
                continue
            if row >= 0:
                self._rows[graph.ids[ends[0]], graph.ids[ends[1]], name] = row
                texts[step] = graph.edge_texts[row] if graph.edge_texts else ""
            else:
                names[step] = named_step(graph.texts[a], given[step] if given else -1)
        for trail in trails:
            if len(trail) == 1:
                found.append(self.seed(trail[0]))
                continue
            stop = start + len(trail) - 1
            titles = tuple(map(self.title, trail))
            ids = tuple(graph.ids[row] for row in trail)
            found.append(NodePath(ids, tuple(names[start:stop]), tuple(ahead[start:stop]), titles, tuple(texts[start:stop])))
            start = stop
        return found


def _scored(path: NodePath, score: float | None) -> NodePath:
    return path if score is None else replace(path, score=score)


def _node_paths(paths: _Paths, found: Sequence[Candidates]) -> list[NodePath]:
    """Return the path to every candidate, those of all questions in one look-up."""
    trails, relations, scores = list[list[int]](), list[list[int]](), list[float | None]()
    for each in found:
        own = each.beside.get("trail_scores")
        scores += [None] * len(each) if own is None else [None if isnan(score) else score for score in own.tolist()]
        if each.trails.shape[1] == 1:
            # Of a search, often all.
            trails += each.trails.tolist()
            relations += [[]] * len(each)
            continue
        for trail, walked in zip(each.trails.tolist(), each.steps().tolist(), strict=True):
            rows = [node for node in trail if node >= 0]
            trails.append(rows)
            relations.append(walked[len(trail) - len(rows) :])
    owners = [each.operators[origin] for each in found for origin in each.origins.tolist()]
    return list(map(_scored, paths.of(trails, owners, "trail", relations), scores))


def _node_hit(stored: Node, score: float, operator: str, path: NodePath, **found: Any) -> Hit:
    node = stored.shown()
    origin = copied(node.origin)
    return Hit(node.id, node.text, score, operator, path, node.title, node.type, copied(node.metadata), origin=origin, **found)


def _largest(alike: Similarities, query: int, nodes: Iterable[int]) -> float | None:
    return max((value for node in nodes if (value := alike.get((query, node))) is not None), default=None)


_Chain = tuple[list[int], float, NodePath]


def _chain_paths(paths: _Paths, found: Sequence[Candidates]) -> list[list[_Chain]]:
    """Return the chains of each question that may be shown: rows, score and path, those of all questions in one look-up."""
    kept: list[list[tuple[list[int], float]]] = []
    for each in found:
        table = [] if each.chains is None else zip(each.chains.nodes.tolist(), each.chains.scores.tolist(), strict=True)
        told = (([row for row in rows if row >= 0], score) for rows, score in table)
        kept.append([(rows, score) for rows, score in told if all(map(paths.may_show, rows))])
    owners = [each.chains.operator for each, part in zip(found, kept, strict=True) if each.chains is not None for _ in part]
    walked = iter(paths.of([rows for part in kept for rows, _ in part], owners, "chain"))
    return [[(rows, score, next(walked)) for rows, score in part] for part in kept]


def _chain_hits(chains: Chains | None, told: list[_Chain], alike: _Largest) -> list[Hit]:
    if chains is None:
        return []
    shown = [(_scored(path, score if chains.rising else None), score, alike(rows)) for rows, score, path in told]
    return [Hit(" | ".join(p.nodes), p.text, s, chains.operator, p, kind="chain", similarity=near) for p, s, near in shown]


def _fact_hits(facts: Facts | None, paths: _Paths, alike: _Largest) -> list[Hit]:
    if facts is None:
        return []
    graph, hits = paths.graph, []
    for edge, row, score in zip(graph.edges(facts.rows.tolist()), facts.rows.tolist(), facts.scores.tolist(), strict=True):
        ends = (edge.source, edge.target)
        if all(paths.may_show(graph.row(end)) for end in ends):
            titles = tuple(paths.title(graph.row(end)) for end in ends)
            path = NodePath(ends, (edge.relation,), (True,), titles, (edge.text,))
            ids, text = f"{edge.source} | {edge.relation} | {edge.target}", edge.text or path.text
            # Edges with the same relation between the same nodes are separate facts.
            place = graph.parallel_place(row)
            ids, near = ids if place == 1 else f"{ids} | {place}", alike(map(graph.row, ends))
            metadata, operator = copied(edge.metadata), facts.operator
            hits.append(Hit(ids, text, score, operator, path, metadata=metadata, kind="fact", edge=edge, similarity=near))
    return hits
