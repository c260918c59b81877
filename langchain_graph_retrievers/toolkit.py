"""The tools of an agent that walks a graph, as LangChain tools."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool, BaseToolkit, StructuredTool, ToolException

from graph_retrievers.agents import GraphTools
from langchain_graph_retrievers.base import EngineRetriever

__all__ = ["GraphToolkit"]


class GraphToolkit(BaseToolkit):
    """Tools with which an agent searches an index, reads documents, follows their edges and asks why: ``search``, ``read``, ...

    The content of a tool message is text with ids, bounded in length; its artifact is the same as JSON-plain data. A wrong
    argument, such as an id that does not exist or a text where a list belongs, is an answer that the model can read.

    Parameters
    ----------
    retriever : EngineRetriever or graph_retrievers.retrievers.Retriever
        What searches, on the index that the tools read.
    max_characters : int, default 8000
        Characters of texts in an answer.
    max_items : int, default 50
        Hits, documents or neighbours in an answer.

    Examples
    --------
    >>> from langchain_graph_retrievers import BM25Retriever
    >>> texts, edges = ["A loom reads cards.", "A card."], [("loom", "card", "reads")]
    >>> retriever = BM25Retriever.from_texts(texts, ids=["loom", "card"], edges=edges)
    >>> search, read, neighbors, explain = GraphToolkit(retriever=retriever).get_tools()
    >>> print(neighbors.invoke({"id": "card"}))
    [card] has 1 edge.
    <-[reads]- [loom]: A loom reads cards.
    """

    retriever: Any
    max_characters: int = 8000
    max_items: int = 50

    def get_tools(self) -> list[BaseTool]:
        """Return the tools ``search``, ``read``, ``neighbors`` and ``explain``."""
        engine: Any = self.retriever._engine() if isinstance(self.retriever, EngineRetriever) else self.retriever
        tools = GraphTools(engine, max_characters=self.max_characters, max_items=self.max_items)
        made = tools.functions(lambda answer: (answer.text, answer.data), ToolException)
        return [
            StructuredTool.from_function(
                function, response_format="content_and_artifact", handle_tool_error=True, handle_validation_error=_wrong
            )
            for function in made
        ]


def _wrong(error: Any) -> str:
    """Return what is wrong with the arguments of a call, without pydantic's advice to programmers."""
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
