"""The command ``mcp``: tools for an agent over an index, by the Model Context Protocol."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any

from graph_retrievers.commands.engines import INDEX, add_postgres, index_place
from graph_retrievers.commands.listening import listen
from graph_retrievers.commands.models import add_options, load_index, make_retriever
from graph_retrievers.errors import GraphRetrieverError

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from graph_retrievers.retrievers.agents import GraphTools, ToolAnswer

__all__ = ["mcp_server"]

_INSTRUCTIONS = (
    "Documents that refer to each other. Call search first; read gives whole texts; neighbors follows links to what the question "
    "needs one step further; explain says why something was found."
)


def add_commands(subparsers: Any) -> None:
    """Add the command to what `add_subparsers` of :mod:`argparse` returned; it sets ``run``, see :func:`run_mcp`."""
    parser = subparsers.add_parser(
        "mcp",
        help="serve an index to agents (Model Context Protocol)",
        description="Give agents the tools search, read, neighbors and explain on a saved index, by the Model Context Protocol: "
        "over standard input and output, or with --port over HTTP, only on this machine. Needs the extra 'mcp'.",
    )
    add = parser.add_argument
    add("index", metavar="INDEX", type=index_place, help=INDEX)
    over = "serve http://127.0.0.1:PORT/mcp; 0 chooses a free port (default: standard input and output)"
    add("--port", type=int, metavar="PORT", help=over)
    add_options(add, "--retriever", "--embedding", "--device")
    add("--max-characters", type=int, default=8000, metavar="N", help="most characters of text in an answer (default: 8000)")
    add_postgres(parser)
    parser.set_defaults(run=run_mcp)


def run_mcp(args: argparse.Namespace) -> None:
    """Serve until the client leaves or the process is stopped."""
    from graph_retrievers.retrievers.agents import GraphTools

    with nullcontext() if args.port is None else listen("127.0.0.1", args.port) as listening:
        index = load_index(args, args.index, ready=True)
        server = mcp_server(GraphTools(make_retriever(args, index), max_characters=args.max_characters))
        if listening is None:
            server.run("stdio")
            return
        from uvicorn import Config, Server

        print(f"{len(index):,} nodes: http://127.0.0.1:{listening.getsockname()[1]}/mcp (Ctrl-C ends)", flush=True)
        # The application of the SDK refuses other hosts and origins.
        config = Config(server.streamable_http_app(), log_level="warning", server_header=False, timeout_graceful_shutdown=3)
        Server(config).run(sockets=[listening])


def mcp_server(tools: GraphTools) -> MCPServer:
    """Return a server of the official SDK with the tools of an agent; GraphRetrieverError if the SDK is not installed.

    An answer is text, and the same as structured content. A wrong argument results in an answer that is marked as an error. Calls
    run side by side; if the client cancels a call, its search ends at its next step.
    """
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.server.mcpserver.tools import Tool
        from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
        from mcp.types import CallToolResult, TextContent, ToolAnnotations
        from pydantic import TypeAdapter
    except ImportError as error:
        raise GraphRetrieverError("The MCP server needs the extra 'mcp': pip install 'graph-retrievers[mcp]'.") from error

    def tool_result(answer: ToolAnswer) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=answer.text)], structured_content=dict(answer.data))

    class Unchecked(FuncMetadata):
        # The tools check their arguments themselves; the SDK would drop those that they do not have.
        def validate_arguments(self, arguments_to_validate: dict[str, Any]) -> dict[str, Any]:
            return arguments_to_validate

    server_tools, reading = [], ToolAnnotations(read_only_hint=True, open_world_hint=False)
    function: Any
    for function in tools.functions(tool_result, ToolError):
        tool = Tool.from_function(_async_function(function), annotations=reading, structured_output=False)
        tool.parameters, tool.fn_metadata = TypeAdapter(function).json_schema(), Unchecked(arg_model=ArgModelBase)
        server_tools.append(tool)
    return MCPServer("graph-retrievers", instructions=_INSTRUCTIONS, tools=server_tools)


def _async_function(function: Callable[..., Any]) -> Callable[..., Any]:
    from graph_retrievers.retrievers.limits import in_thread

    @wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await in_thread(function, *args, **kwargs)

    return call
