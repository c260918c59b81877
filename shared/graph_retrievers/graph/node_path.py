"""NodePath: a path through the graph as ids, titles and relations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from graph_retrievers.graph.corpus_graph import Edge

__all__ = ["NodePath"]


@dataclass(frozen=True)
class SharedName:
    """A step of a path without an edge: the ids of its two nodes, and the name that connects them.

    The name is in quotation marks, or "" if none is known or may be shown.
    """

    near: str
    far: str
    name: str = ""


@dataclass(frozen=True)
class NodePath:
    """The path to a hit: nodes from a seed to the hit, and the relations between them.

    Attributes
    ----------
    nodes : tuple of str, length n >= 1
        Node ids; the last is the hit.
    relations : tuple of str, length n - 1
        Relation of each step ("" if the edge has none). If no edge connects the two nodes, the name that their texts share, in
        quotation marks, or "".
    forward : tuple of bool or None, length n - 1
        True if the edge points along the path, False if it points back, None if no edge connects the two nodes.
    titles : tuple of str, length n, or ()
        Titles of the nodes; "" if a node has none or may not be shown. A node without a title whose id is a UUID is named by the
        first words of its text.
    texts : tuple of str, length n - 1, or ()
        Texts of the edges; "" if an edge has none, or an end of it may not be shown. They are ignored when paths are compared.
    score : float or None
        Score of the path, from retrievers that rank paths; a context lists the best last. It is ignored when paths are compared.

    Examples
    --------
    >>> path = NodePath(("p1", "p2"), ("cites",), (False,), ("A survey", ""))
    >>> str(path), path.text
    ('p1 <-[cites]- p2', 'A survey <-[cites]- p2')
    """

    nodes: tuple[str, ...]
    relations: tuple[str, ...] = ()
    forward: tuple[bool | None, ...] = ()
    titles: tuple[str, ...] = ()
    texts: tuple[str, ...] = field(default=(), compare=False, repr=False)
    score: float | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """Return the path by ids, e.g. ``a -[cites]-> b <-[cites]- c``."""
        return self._text_with(self.nodes)

    @property
    def text(self) -> str:
        """The path by titles, or by ids if a node has no title."""
        pairs = zip(self.titles or self.nodes, self.nodes, strict=True)
        return self._text_with([title if title.strip() else node for title, node in pairs])

    def _text_with(self, names: Sequence[str]) -> str:
        # A path is a line of the lists that it stands in, whatever its names are.
        text, *rest = (" ".join(name.split()) for name in names)
        relations = (" ".join(relation.split()) for relation in self.relations)
        for name, relation, forward in zip(rest, relations, self.forward, strict=True):
            line = f"-[{relation}]-" if relation else "-"
            text += f" {line} {name}" if forward is None else f" {line}> {name}" if forward else f" <{line} {name}"
        return text

    @classmethod
    def from_dict(cls, plain: Any) -> NodePath | None:
        """Return the path that :meth:`to_dict` wrote; None for anything else."""
        try:
            score = plain.get("score")
            fields = {name: tuple(values) for name, values in plain.items() if name != "score"}
            path = cls(**fields, score=score if isinstance(score, (int, float)) else None)
            # A path whose parts do not fit together cannot be written.
            return path if str(path) and path.text else None
        except (AttributeError, TypeError, ValueError, IndexError):
            return None

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON: ``nodes``, ``relations``, ``forward``, ``titles``, and ``score`` if the path has one."""
        names = ("nodes", "relations", "forward", "titles")
        plain: dict[str, Any] = {name: list(getattr(self, name)) for name in names}
        return plain if self.score is None else plain | {"score": self.score}

    def steps(self) -> list[NodePath]:
        """Return each step as a path of two nodes."""
        return [
            NodePath(self.nodes[n : n + 2], self.relations[n : n + 1], self.forward[n : n + 1], self.titles[n : n + 2])
            for n in range(len(self.nodes) - 1)
        ]

    def beginning(self, count: int) -> NodePath:
        """Return the path to the node at position `count`, from 1, without the score."""
        steps = slice(count - 1)
        return NodePath(self.nodes[:count], self.relations[steps], self.forward[steps], self.titles[:count], self.texts[steps])

    def edges(self) -> list[Edge]:
        """Return the steps along edges, as edges in their own direction."""
        return [Edge(*triple) for triple in self.triples()]

    def triples(self) -> list[tuple[str, str, str]]:
        """Return source, target and relation of the steps along edges."""
        steps = [step for step in self._step_parts() if step[3] is not None]
        return [(near, far, relation) if forward else (far, near, relation) for near, far, relation, forward in steps]

    def names(self) -> list[SharedName]:
        """Return the steps without an edge, such as those by a name that two texts share."""
        return [SharedName(near, far, relation) for near, far, relation, forward in self._step_parts() if forward is None]

    def _step_parts(self) -> Iterator[tuple[str, str, str, bool | None]]:
        return zip(self.nodes, self.nodes[1:], self.relations, self.forward, strict=False)
