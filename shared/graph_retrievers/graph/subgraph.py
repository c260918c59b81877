"""A small part of a graph as a result, and its conversion to other formats."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from graph_retrievers.graph.corpus_graph import Edge, Node
from graph_retrievers.graph.labels import label
from graph_retrievers.graph.node_path import SharedName

if TYPE_CHECKING:
    import networkx

__all__ = ["Subgraph"]

# Characters that XML does not allow.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Subgraph:
    """Nodes and edges.

    Attributes
    ----------
    nodes : tuple of Node
    edges : tuple of Edge
        Their ends are among the nodes.
    names : tuple of SharedName
        Pairs of nodes that a path joins by a name instead of an edge: dashed lines in pictures, and marked in every other format.

    Examples
    --------
    >>> subgraph = Subgraph((Node("a", "", "Ada"), Node("b", "", "Babbage")), (Edge("a", "b", "knows"),))
    >>> print(subgraph.to_mermaid())
    graph LR
        n0["Ada"]
        n1["Babbage"]
        n0 -->|"knows"| n1
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    names: tuple[SharedName, ...] = ()

    def __repr__(self) -> str:
        """Return the sizes."""
        names = f", names={len(self.names)}" if self.names else ""
        return f"Subgraph(nodes={len(self.nodes)}, edges={len(self.edges)}{names})"

    def _names(self) -> dict[str, str]:
        """Return what the nodes are called, by id; followed by the ends of edges that are not among them, named by their ids."""
        ends = {end: end for edge in self.edges for end in (edge.source, edge.target)}
        ends |= {end: end for step in self.names for end in (step.near, step.far)}
        names = {node.id: label(node.id, node.title, node.text) for node in self.nodes}
        return names | {end: end for end in ends if end not in names}

    def to_networkx(self) -> networkx.MultiDiGraph:
        """Return the subgraph as a networkx graph of ids, with the other fields of nodes and edges as attributes.

        A name that joins two nodes without an edge becomes an edge with the attribute ``shared_name``, True, and the name as its
        ``relation``.
        """
        import networkx

        graph = networkx.MultiDiGraph()
        for node in self.nodes:
            graph.add_node(node.id, text=node.text, title=node.title, type=node.type, metadata=dict(node.metadata))
        for edge in self.edges:
            content = {"relation": edge.relation, "weight": edge.weight, "text": edge.text, "metadata": dict(edge.metadata)}
            graph.add_edge(edge.source, edge.target, **content)
        for step in self.names:
            graph.add_edge(step.near, step.far, relation=step.name, shared_name=True)
        return graph

    def to_node_link(self) -> dict[str, Any]:
        """Return :meth:`to_networkx` as the lists ``nodes`` and ``edges`` of networkx's node-link format, as plain values.

        Values that JSON does not have become text, and NaN and infinity become None.
        """
        import networkx

        return _plain(networkx.node_link_data(self.to_networkx(), edges="edges"))  # type: ignore[no-any-return]

    def to_graphml(self) -> str:
        """Return :meth:`to_networkx` as GraphML, which Gephi, yEd, Cytoscape and networkx read.

        Nodes are n0, n1 and so on, with their ids as an attribute; metadata are an attribute in JSON; characters that are not
        allowed in XML become U+FFFD.

        Examples
        --------
        >>> import networkx
        >>> text = Subgraph((Node("a", "", "Ada"), Node("b", "", "Babbage")), (Edge("a", "b", "knows"),)).to_graphml()
        >>> list(networkx.parse_graphml(text).edges(data="relation"))
        [('n0', 'n1', 'knows')]
        """
        import networkx

        graph = self.to_networkx()
        plain = networkx.MultiDiGraph()
        number = {node: f"n{place}" for place, node in enumerate(graph)}
        plain.add_nodes_from((number[node], _flat({"id": node, **data})) for node, data in graph.nodes(data=True))
        plain.add_edges_from((number[near], number[far], _flat(data)) for near, far, data in graph.edges(data=True))
        return "\n".join(["<?xml version='1.0' encoding='utf-8'?>", *networkx.generate_graphml(plain)])

    def to_mermaid(self) -> str:
        """Return the subgraph as a Mermaid flowchart, which GitHub and many notebooks draw."""
        names, lines = self._names(), ["graph LR"]
        number = {node: place for place, node in enumerate(names)}
        lines += [f'    n{number[node]}["{_mermaid(name)}"]' for node, name in names.items()]
        for edge in self.edges:
            relation = f'|"{_mermaid(edge.relation)}"|' if edge.relation else ""
            lines.append(f"    n{number[edge.source]} -->{relation} n{number[edge.target]}")
        for step in self.names:
            name = f'|"{_mermaid(step.name)}"|' if step.name else ""
            lines.append(f"    n{number[step.near]} -.-{name} n{number[step.far]}")
        return "\n".join(lines)

    def to_dot(self) -> str:
        """Return the subgraph in the DOT language of Graphviz."""
        names, lines = self._names(), ["digraph {"]
        number = {node: place for place, node in enumerate(names)}
        lines += [f"    n{number[node]} [label={_dot(name)}];" for node, name in names.items()]
        for edge in self.edges:
            relation = f" [label={_dot(edge.relation)}]" if edge.relation else ""
            lines.append(f"    n{number[edge.source]} -> n{number[edge.target]}{relation};")
        for step in self.names:
            name = f"label={_dot(step.name)}, " if step.name else ""
            lines.append(f"    n{number[step.near]} -> n{number[step.far]} [{name}style=dashed, dir=none];")
        return "\n".join([*lines, "}"])

    def to_csv(self) -> str:
        """Return the subgraph as text for a language model, as in G-Retriever: a table of nodes and one of edges.

        Nodes are numbered from 0 in their order; ``node_attr`` is "title. text" of a node, or its id if both are empty;
        ``edge_attr`` is the text of an edge, or its relation if that is empty; for a name that joins two nodes without an edge,
        it is the name in quotation marks.

        References
        ----------
        He et al., "G-Retriever", NeurIPS 2024, section 5.3 and the public code.

        Examples
        --------
        >>> print(Subgraph((Node("a", "", "Ada"), Node("b", "Built engines.", "Babbage")), (Edge("a", "b", "knows"),)).to_csv())
        node_id,node_attr
        0,Ada
        1,Babbage. Built engines.
        <BLANKLINE>
        src,edge_attr,dst
        0,knows,1
        """
        names = self._names()
        number = {node: place for place, node in enumerate(names)}
        texts = {node.id: ". ".join(filter(None, (node.title, node.text))) or node.id for node in self.nodes}
        node_rows = ((number[node], texts.get(node, node)) for node in names)
        edge_rows = ((number[edge.source], edge.text or edge.relation, number[edge.target]) for edge in self.edges)
        # Without a name, a row would read as an edge.
        name_rows = ((number[step.near], step.name, number[step.far]) for step in self.names if step.name)
        tables = (("node_id", "node_attr"), *node_rows), (("src", "edge_attr", "dst"), *edge_rows, *name_rows)
        outputs = [io.StringIO() for _ in tables]
        for out, table in zip(outputs, tables, strict=True):
            csv.writer(out, lineterminator="\n").writerows(table)
        return "\n".join(out.getvalue() for out in outputs).rstrip("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as GraphML has them: text, numbers and truth values."""
    entries = {name: json.dumps(_plain(value)) if isinstance(value, (dict, list)) else value for name, value in values.items()}
    return {name: _NO_XML.sub("\ufffd", value) if isinstance(value, str) else value for name, value in entries.items()}


def _mermaid(text: str) -> str:
    """Return a text as a quoted Mermaid label: characters that could end the label or be read as markup become codes."""
    plain = " ".join(text.split())
    return re.sub(r"[^\w \-.,:;/()+]", lambda match: f"#{ord(match[0])};", plain)


def _dot(text: str) -> str:
    plain = " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'
