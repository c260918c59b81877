"""The tools of an agent that explores a graph, as LlamaIndex tools."""

from __future__ import annotations

from typing import Any

from llama_index.core.tools.tool_spec.base import BaseToolSpec

from graph_retrievers.retrievers.agents import GraphTools
from llama_graph_retrievers.graph_retriever import GraphRetriever


class GraphToolSpec(GraphTools, BaseToolSpec):
    """Tools with which an agent searches an index, reads nodes, follows edges and explains results.

    ``to_tool_list()`` returns them for an agent. The content of an answer is text with ids, of limited length; its ``raw_output``
    is a :class:`graph_retrievers.retrievers.agents.ToolAnswer`, whose ``data`` are values for JSON.

    Parameters
    ----------
    retriever : GraphRetriever or graph_retrievers.retrievers.Retriever
        Searches the index that the tools read.
    max_characters, max_items : int, default 8000 and 50
        As for :class:`graph_retrievers.retrievers.agents.GraphTools`.

    Examples
    --------
    >>> from llama_graph_retrievers import GraphRetriever
    >>> from llama_index.core.schema import TextNode
    >>> nodes = [TextNode(id_="loom", text="A loom reads cards."), TextNode(id_="card", text="A card.")]
    >>> retriever = GraphRetriever.from_defaults(nodes=nodes, edges=[("loom", "card", "reads")], system="bm25")
    >>> search, read, neighbors, explain = GraphToolSpec(retriever).to_tool_list()
    >>> print(neighbors(id="card").content)
    [card] has 1 edge.
    <-[reads]- [loom]: A loom reads cards.
    """

    spec_functions = ["search", "read", "neighbors", "explain"]

    def __init__(self, retriever: Any, *, max_characters: int = 8000, max_items: int = 50) -> None:
        engine: Any = retriever.engine if isinstance(retriever, GraphRetriever) else retriever
        super().__init__(engine, max_characters=max_characters, max_items=max_items)
