"""Tools with which an agent explores a graph: search, read, follow edges, explain."""

# Without annotations from __future__: frameworks read the types of the tools from their signatures, where they would find strings.

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import wraps
from heapq import nlargest
from inspect import Signature, getdoc, signature
from os.path import commonprefix
from typing import Any, Literal, ParamSpec

from graph_retrievers.arguments import check_keywords, choice, positive, typed
from graph_retrievers.errors import GraphRetrieverError, InvalidArgumentError, UnknownNodeError, shown
from graph_retrievers.graph.corpus_graph import CorpusGraph, Node
from graph_retrievers.graph.labels import one_line
from graph_retrievers.graph.node_path import NodePath
from graph_retrievers.hits.hit import Hit
from graph_retrievers.retrievers.memory import MemoryRetriever
from graph_retrievers.retrievers.retriever import Retriever

__all__ = ["GraphTools", "ToolAnswer"]

_P = ParamSpec("_P")

_DIRECTIONS = ("both", "out", "in")
# Characters of a neighbour's text, which says whether to read it.
_BEGINNING = 160
# Characters of a title and of the name of a relation.
_NAME = 200
# Ids that one that does not exist is compared with: those that begin like it.
_COMPARED = 2000
_UNNAMED = "without a relation"


@dataclass(frozen=True)
class ToolAnswer:
    """The answer of a tool: `text` for the language model, and the same as `data`, values for JSON, for the calling program."""

    text: str
    data: Mapping[str, Any]

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def _tool(method: Callable[_P, ToolAnswer]) -> Callable[_P, ToolAnswer]:
    """Return a tool that refuses unknown, missing, or wrongly typed arguments from any caller."""
    function, (_, *parameters) = typed(method), signature(method).parameters.values()
    kinds = {each.name: each.annotation for each in parameters}
    names = [each.name for each in parameters if each.default is Signature.empty]

    @wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> ToolAnswer:
        check_keywords(f"The tool {method.__name__}", kwargs, kinds)
        for name in names[len(args) - 1 :]:
            if name not in kwargs:
                raise InvalidArgumentError(f"The tool {method.__name__} needs {name!r}; it takes {', '.join(kinds)}.")
        for name, value in kwargs.items():
            kwargs[name] = _convert(value, kinds[name])
        return function(*args, **kwargs)

    # Frameworks show it to the model as it stands.
    call.__doc__ = getdoc(method)
    return call


def _convert(value: Any, kind: Any) -> Any:
    """Return a number or a list that a language model wrote as text, or a number written as 5.0; any other value unchanged."""
    types: Any = {int: (int, float), list[str]: list}.get(kind)
    if isinstance(value, str) and types:
        with suppress(ValueError, RecursionError):
            plain = json.loads(value)
            value = plain if isinstance(plain, types) else value
    return int(value) if kind is int and isinstance(value, float) and value.is_integer() else value


class GraphTools:
    """Tools for an agent over the index of a retriever.

    Each method is a tool: the language model gets its name, arguments and docstring. Answers have ids, by which the other tools
    return more, and a limited length for any texts and degrees of nodes. The framework packages and ``graph-retrievers mcp``
    offer these methods as their own kinds of tools.

    Parameters
    ----------
    retriever : Retriever
        Searches the index. For an agent that may see only a part of an index, pass a retriever on
        :meth:`graph_retrievers.index.GraphIndex.within`, so that no tool leads out of it.
    max_characters : int, default 8000
        Maximum number of characters of all texts in an answer, about 2,000 tokens.
    max_items : int, default 50
        Maximum number of hits, nodes or neighbours in an answer.

    Examples
    --------
    >>> from graph_retrievers import BM25, GraphIndex
    >>> index = GraphIndex.from_texts(
    ...     ["Ada wrote a program.", "An engine of brass."], ids=["ada", "engine"], titles=["Ada", "Engine"],
    ...     edges=[("ada", "engine", "ran on")],
    ... )
    >>> tools = GraphTools(Retriever(index, BM25(), k=1, backfill=False))
    >>> print(tools.search("Who wrote a program?", k=1))
    [ada] Ada
        Ada wrote a program.
    >>> print(tools.neighbors("ada"))
    [ada] Ada has 1 edge.
    -[ran on]-> [engine] Engine: An engine of brass.
    """

    def __init__(self, retriever: Retriever, *, max_characters: int = 8000, max_items: int = 50) -> None:
        if not isinstance(retriever, MemoryRetriever):
            raise InvalidArgumentError(
                f"Expected a Retriever on an index in memory, which the tools read, got {shown(retriever)}. For an index in "
                "PostgreSQL, read_index gives one in memory."
            )
        self.retriever = retriever
        self.max_characters, self.max_items = positive("max_characters", max_characters), positive("max_items", max_items)

    @_tool
    def search(self, query: str, k: int = 5) -> ToolAnswer:
        """Search the documents for a question or for keywords; returns ids, titles, texts and how each was found.

        A path such as "A -[cites]-> B" shows by which links a document was reached. Long texts are cut; read(ids) returns the rest.

        Parameters
        ----------
        query : str
            A question in full sentences, or keywords.
        k : int, default 5
            Documents to return.
        """
        hits = self.retriever.retrieve(query, min(positive("k", k), self.max_items))
        cut = self._cut([hit.text for hit in hits])
        entries = [_hit_lines(hit, text) for hit, text in zip(hits, cut, strict=True)]
        items = [_hit_data(hit) | {"text": text, "cut": len(text) < len(hit.text)} for hit, text in zip(hits, cut, strict=True)]
        lines = entries or ["Nothing was found."]
        return ToolAnswer("\n".join([*lines, *_notes(hits.notes)]), {"hits": items, "notes": list(hits.notes)})

    @_tool
    def read(self, ids: list[str], start: int = 0) -> ToolAnswer:
        """Read the whole texts of documents by their ids, starting at a given character if they are long.

        Parameters
        ----------
        ids : list of str
            Ids returned by search or neighbors.
        start : int, default 0
            The character at which to start, to read the rest of a text that was cut.
        """
        if isinstance(ids, str) or not isinstance(ids, Sequence) or not ids or not all(isinstance(each, str) for each in ids):
            raise InvalidArgumentError(f"ids is {shown(ids)}; expected a list of one id or more, each a string.")
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise InvalidArgumentError(f"start is {shown(start)}; expected a number of characters, 0 or more.")
        nodes = [self._node(each) for each in dict.fromkeys(ids)][: self.max_items]
        cut = self._cut([node.text[start:] for node in nodes])
        lines, items = [], []
        for node, text in zip(nodes, cut, strict=True):
            end = start + len(text)
            rest = len(node.text) - end
            lines += [_name(node), *([_indented(text)] if text else [])]
            if start and start >= len(node.text):
                lines.append(f"    (nothing more: the text has {len(node.text):,} characters)")
            if rest > 0:
                lines.append(f"    ({rest:,} characters more: read([{node.id!r}], start={end}))")
            items.append({"id": node.id, "title": node.title[:_NAME], "text": text, "next": end if rest > 0 else None})
        if len(dict.fromkeys(ids)) > len(nodes):
            lines.append(f"Note: only the first {len(nodes)} ids were read.")
        return ToolAnswer("\n".join(lines), {"nodes": items})

    @_tool
    def neighbors(
        self, id: str, relation: str | None = None, direction: Literal["both", "out", "in"] = "both", limit: int = 20
    ) -> ToolAnswer:
        """List the documents linked to one document, by which relation and in which direction.

        Parameters
        ----------
        id : str
            Id of the document.
        relation : str, optional
            Only edges with this relation.
        direction : {"both", "out", "in"}, default "both"
            Only edges that start at the document ("out"), or that lead to it ("in").
        limit : int, default 20
            Maximum number of edges to list, largest weight first.
        """
        graph, node = self.retriever.index.graph, self._node(id)
        choice("direction", direction, _DIRECTIONS)
        edges = _edges_of(graph, graph.row(id))
        relations = Counter(name for _, name, _, _ in edges)
        if relation is not None and relation not in relations:
            names = [repr(name[:_NAME]) for name, _ in relations.most_common(self.max_items)]
            has = ", ".join(names + ["..."] * (len(relations) > len(names))) or "no edges"
            raise InvalidArgumentError(f"{shown(id)} has no edge of the relation {shown(relation)}; it has: {has}.")
        edges = [edge for edge in edges if relation in (None, edge[1]) and direction in ("both", "out" if edge[2] else "in")]
        first = edges[: min(positive("limit", limit), self.max_items)]
        count = f"{len(edges):,} edge{'s' * (len(edges) != 1)}"
        lines, items = [f"{_name(node)} has {count}{self._counted(relations, relation)}."], []
        for far, name, forward, weight in first:
            other = graph.node(far)
            line = " ".join(other.text[: 4 * _BEGINNING].split())
            beginning = line[:_BEGINNING]
            arrow = str(NodePath(("", ""), (one_line(name, _NAME),), (forward,))).strip()
            lines.append(f"{arrow} {_name(other)}{': ' if beginning else ''}{beginning}{' ...' * (len(line) > _BEGINNING)}")
            step = {"relation": name[:_NAME], "direction": "out" if forward else "in", "weight": weight}
            items.append({"id": other.id, "title": other.title[:_NAME], **step, "text": beginning})
        if len(first) < len(edges):
            lines.append(f"({len(edges) - len(first):,} more; name a relation or a direction, or raise the limit.)")
        # A name that is cut could not be asked for.
        counts = {name: count for name, count in relations.most_common(self.max_items) if len(name) <= _NAME}
        return ToolAnswer("\n".join(lines), {"id": id, "edges": items, "count": len(edges), "relations": counts})

    @_tool
    def explain(self, query: str, k: int = 5) -> ToolAnswer:
        """Explain the results of a search: what found each document, its path, its rank without links, and the steps.

        Parameters
        ----------
        query : str
            The question of the search.
        k : int, default 5
            Documents to explain.
        """
        hits = self.retriever.retrieve(query, min(positive("k", k), self.max_items))
        texts = self._cut([hit.explain() for hit in hits])
        lines = [f"{_name(hit)}\n{_indented(text)}" for hit, text in zip(hits, texts, strict=True)]
        steps = str(hits.trace)[: self.max_characters]
        items = [_hit_data(hit) | {"explanation": text} for hit, text in zip(hits, texts, strict=True)]
        return ToolAnswer(
            "\n".join([*(lines or ["Nothing was found."]), steps, *_notes(hits.notes)]),
            {"hits": items, "steps": steps, "notes": list(hits.notes)},
        )

    def functions(self, convert: Callable[[ToolAnswer], Any], error: type[Exception]) -> list[Callable[..., Any]]:
        """Return the tools as functions of a framework, with its kind of answer and its kind of error, which the model reads.

        Their names, docstrings and parameters are those of the methods.
        """
        return [_function(getattr(self, name), convert, error) for name in ("search", "read", "neighbors", "explain")]

    def _node(self, id: str) -> Node:
        graph = self.retriever.index.graph
        try:
            return graph.node(graph.row(id))
        except UnknownNodeError:
            text = str(id)[:_NAME]
            ids = nlargest(_COMPARED, graph.ids[:100_000], key=lambda name: len(commonprefix((text, name))))
            near = get_close_matches(text, ids, 3)
            hint = f" Did you mean {', '.join(map(repr, near))}?" if near else " Ids are those that search returns."
            raise UnknownNodeError(f"{shown(id)} is not the id of a document.{hint}") from None

    def _counted(self, relations: Counter[str], relation: str | None) -> str:
        if relation is not None or len(relations) < 2:
            return ""
        counts = [f"{count:,} {one_line(name, _NAME) or _UNNAMED}" for name, count in relations.most_common(self.max_items)]
        return f" (in all: {', '.join(counts + ['...'] * (len(relations) > len(counts)))})"

    def _cut(self, texts: Sequence[str]) -> list[str]:
        """Return the beginnings of texts, so long that together they fill the characters of an answer."""
        room, limits = self.max_characters, [0] * len(texts)
        # The shortest first: what they leave is for the longer ones.
        for number, place in enumerate(sorted(range(len(texts)), key=lambda place: len(texts[place]))):
            limits[place] = min(len(texts[place]), room // (len(texts) - number))
            room -= limits[place]
        return [text[:limit] for text, limit in zip(texts, limits, strict=True)]


def _function(
    method: Callable[..., ToolAnswer], convert: Callable[[ToolAnswer], Any], error: type[Exception]
) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return convert(method(*args, **kwargs))
        except GraphRetrieverError as reason:
            raise error(str(reason)) from reason

    call_signature = signature(method).replace(return_annotation=Signature.empty)
    call.__annotations__ = {name: each.annotation for name, each in call_signature.parameters.items()}
    call.__signature__ = call_signature  # type: ignore[attr-defined]
    return call


def _edges_of(graph: CorpusGraph, row: int) -> list[tuple[int, str, bool, float]]:
    """Return far end, relation, whether it starts here, and weight of each edge of a node: the heaviest first, then by row."""
    view = graph.incidence
    at = slice(int(view.indptr[row]), int(view.indptr[row + 1]))
    columns = (view.neighbors[at], view.relations[at], view.forward[at], graph.weights[view.rows[at]], view.rows[at])
    edges = sorted(zip(*(column.tolist() for column in columns), strict=True), key=lambda edge: (-edge[3], edge[4]))
    return [(far, graph.relation_names[relation], forward, weight) for far, relation, forward, weight, _ in edges]


def _name(node: Node | Hit) -> str:
    title = node.title if node.title != node.id else ""
    # The id is whole: it is asked for by the other tools.
    return f"[{' '.join(node.id.split())}] {one_line(title, _NAME)}".strip()


def _indented(text: str) -> str:
    # What begins a line in a text must not look like an entry of the answer.
    return "\n".join(f"    {line}" for line in text.splitlines())


def _hit_lines(hit: Hit, text: str) -> str:
    path = [f"    path: {_path(hit).text}"] if len(hit.path.nodes) > 1 else []
    more = [f"    (cut; read([{hit.id!r}], start={len(text)}) gives the rest)"] if len(text) < len(hit.text) else []
    return "\n".join([_name(hit), *path, _indented(text), *more])


def _hit_data(hit: Hit) -> dict[str, Any]:
    values = {name: getattr(hit, name) for name in ("id", "kind", "score", "operator")}
    return values | {"title": hit.title[:_NAME], "path": _path(hit).to_dict()}


def _path(hit: Hit) -> NodePath:
    titles, relations = (tuple(one_line(name, _NAME) for name in names) for names in (hit.path.titles, hit.path.relations))
    return replace(hit.path, titles=titles, relations=relations)


def _notes(notes: Iterable[str]) -> list[str]:
    return [f"Note: {note}." for note in notes]
