"""The command ``mcp``: tools for an agent over an index, by the Model Context Protocol."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from graph_retrievers.commands.models import query_embedding
from graph_retrievers.errors import GraphRetrieverError

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from graph_retrievers.agents import GraphTools, ToolAnswer

__all__ = ["add_commands", "mcp_server", "run_mcp"]

_INSTRUCTIONS = (
    "Documents that refer to each other. Call search first; read gives whole texts; neighbors follows links to what the question "
    "needs one step further; explain says why something was found."
)


def add_commands(subparsers: Any) -> None:
    """Add the command to what `add_subparsers` of :mod:`argparse` returned; it sets ``run``, see :func:`run_mcp`."""
    parser = subparsers.add_parser(
        "mcp",
        help="offer an index to agents (Model Context Protocol)",
        description="Offer the tools search, read, neighbors and explain over a saved index to agents, by the Model Context "
        "Protocol: over standard input and output, or with --port over HTTP on this machine alone. Needs the extra 'mcp'.",
    )
    add = parser.add_argument
    add("index", metavar="OUT", help="folder of the index")
    add("--port", type=int, metavar="PORT", help="serve http://127.0.0.1:PORT/mcp (default: standard input and output)")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--retriever", metavar="NAME", help="see taxonomy (default: what measured best on such indexes)")
    chosen.add_argument("--tuned", metavar="DIR", help="folder of what the tune command chose")
    add("--embedding", metavar="NAME_OR_DIR", help="embedding model (default: the one that built the index)")
    add("--device", help="torch device, such as cuda (default: cpu)")
    add("--max-characters", type=int, default=8000, metavar="N", help="characters of texts in an answer (default: 8000)")
    parser.set_defaults(run=run_mcp)


def run_mcp(args: argparse.Namespace) -> int:
    """Serve until the client leaves or the process is stopped; return 0."""
    from graph_retrievers.agents import GraphTools
    from graph_retrievers.index import GraphIndex
    from graph_retrievers.systems.registry import build_retriever
    from graph_retrievers.systems.tuned import load_retriever

    index = GraphIndex.load(args.index, embedding=query_embedding(args, args.index), device=args.device, ready=True)
    retriever = load_retriever(index, args.tuned) if args.tuned else build_retriever(args.retriever, index)
    server = mcp_server(GraphTools(retriever, max_characters=args.max_characters))
    if args.port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=args.port)
    return 0


def mcp_server(tools: GraphTools) -> MCPServer:
    """Return a server of the official SDK with the tools of an agent; GraphRetrieverError if the SDK is not installed.

    An answer is text, and the same as structured content. A wrong argument is an answer that says so and is marked as an error.
    """
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import CallToolResult, TextContent, ToolAnnotations
    except ImportError as error:
        raise GraphRetrieverError("The MCP server needs the extra 'mcp': pip install 'graph-retrievers[mcp]'.") from error

    def answered(answer: ToolAnswer) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=answer.text)], structured_content=dict(answer.data))

    server = MCPServer("graph-retrievers", instructions=_INSTRUCTIONS)
    for function in tools.functions(answered, ToolError):
        server.add_tool(function, structured_output=False, annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
    return server
