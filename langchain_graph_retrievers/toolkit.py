"""The tools of an agent that explores a graph, as LangChain tools."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from langchain_core.tools import BaseTool, BaseToolkit, StructuredTool, ToolException
from pydantic import TypeAdapter

from graph_retrievers.retrievers.agents import GraphTools
from langchain_graph_retrievers.fields import CheckedFields
from langchain_graph_retrievers.graph_retriever import GraphRetriever

__all__ = ["GraphToolkit"]


class GraphToolkit(CheckedFields, BaseToolkit):
    """Tools with which an agent searches an index, reads documents, follows edges and explains results: ``search``, ``read``, ...

    The content of a tool message is text with ids, of limited length; its artifact is the same as data for JSON. A wrong
    argument, such as an id that does not exist or an unknown name, results in an answer that the model can read.

    Parameters
    ----------
    retriever : GraphRetriever or graph_retrievers.retrievers.Retriever
        Searches the index that the tools read.
    max_characters, max_items : int, default 8000 and 50
        As for :class:`graph_retrievers.retrievers.agents.GraphTools`.

    Examples
    --------
    >>> texts, edges = ["A loom reads cards.", "A card."], [("loom", "card", "reads")]
    >>> retriever = GraphRetriever.from_texts(texts, ids=["loom", "card"], edges=edges, system="bm25")
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
        engine: Any = self.retriever.engine if isinstance(self.retriever, GraphRetriever) else self.retriever
        tools = GraphTools(engine, max_characters=self.max_characters, max_items=self.max_items)
        functions: list[Any] = tools.functions(lambda answer: (answer.text, answer.data), ToolException)
        return [
            _Tool.from_function(
                _with_one_argument(function),
                args_schema=TypeAdapter(function).json_schema(),
                response_format="content_and_artifact",
                handle_tool_error=True,
            )
            for function in functions
        ]


class _Tool(StructuredTool):
    """A tool that gets the model's arguments unchanged and checks them itself."""

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        # The arguments are one value: LangChain would replace those of a model by its own with the same name, such as config.
        return (tool_input,), {}


def _with_one_argument(function: Callable[..., Any]) -> Callable[[Any], Any]:
    @wraps(function)
    def call(value: Any) -> Any:
        return function(value) if isinstance(value, str) else function(**value)

    return call
