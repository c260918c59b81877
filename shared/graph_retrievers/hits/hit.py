"""One result with its path, and what of it is given to JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graph_retrievers.graph.corpus_graph import Edge, Node
from graph_retrievers.graph.node_path import NodePath
from graph_retrievers.graph.subgraph import Subgraph

__all__ = ["Hit"]


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
            lists = ", ".join(f"{name} at rank {rank}" for name, rank in self.ranks.items() if rank is not None)
            absent = ", ".join(name for name, rank in self.ranks.items() if rank is None)
            lines.append("; ".join(part for part in (lists and f"held by {lists}", absent and f"not by {absent}") if part))
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


def plain_provenance(hit: Hit, notes: Sequence[str]) -> dict[str, Any]:
    """Return how a hit was found, as values for JSON: what the framework packages add to its text and metadata.

    - ``operator``: name of the operator that found it (``"Backfill"`` if vector search added it to fill the list);
    - ``path``: ``{"nodes", "relations", "forward", "titles"}``, how it was reached from a seed;
    - ``similarity``: float, the cosine of the node and the question, if available (see :class:`Hit`), for use with a threshold;
    - ``kind``, if it is not a node: "chain" or "fact";
    - ``context``: ``{"nodes", "edges"}``, the neighbours that gave it context, if the retriever has them;
    - ``ranks``: for a fusion, the rank in each of its lists by name, None if the list does not contain the node;
    - ``notes``: list of str, the retriever's notes on the query, if any.
    """
    values: dict[str, Any] = {"operator": hit.operator, "path": hit.path.to_dict()}
    values |= {"similarity": hit.similarity} if hit.similarity is not None else {}
    values |= {"kind": hit.kind} if hit.kind != "node" else {}
    values |= {"context": plain_subgraph(hit.context)} if hit.context.nodes else {}
    values |= {"ranks": dict(hit.ranks)} if hit.ranks else {}
    return values | ({"notes": list(notes)} if notes else {})


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
