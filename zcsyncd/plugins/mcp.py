"""The MCP server: a client's tool calls on stdin to questions over the bus, results back on stdout. Door: mcp, the bus.

Rule 1: it keeps nothing but its session: each call is a connection of its own, so a daemon that was restarted is found.
Rule 2: without a daemon, or with one that hangs, a call ends with an error within `DEADLINE_S`, and says what to do.
Rule 3: its project is the one of the directory in which the client started it, and it reaches no other.
Rule 4: news that were told count as told with the next call.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from zcsyncd import __version__
from zcsyncd.bus.client import Client
from zcsyncd.errors import NoDaemon, UsageError, ZcsyncdError
from zcsyncd.plugins.tools import INSTRUCTIONS, Shown, Tool, shown, tools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext

DEADLINE_S = 5.0
"""How long a call may take, connecting included."""


class Desk:
    """One client's session with the daemon."""

    def __init__(self, cwd: str) -> None:
        self._session = {"host": "mcp", "id": f"{os.getpid()}-{secrets.token_hex(8)}", "cwd": cwd}
        self._token: object = None

    def ask(self, tool: Tool, arguments: Mapping[str, object]) -> Shown:
        """Ask the daemon what a tool asks.

        Raises: ZcsyncdError.
        """
        unknown = tool.unknown(arguments)
        if unknown:
            raise UsageError(
                f"{tool.name} has no argument {unknown[0]}",
                hint=f"it has {', '.join(tool.parameters) or 'none'}",
            )
        until = monotonic() + DEADLINE_S
        with Client(timeout_s=DEADLINE_S) as client:
            client.timeout_s = _left_s(until)
            client.hello("zcsyncd-mcp", __version__, self._session)
            if self._token is not None:
                client.call("session.confirm", timeout_s=_left_s(until), token=self._token, told=True)
                self._token = None
            answer = client.call(tool.method, tool.params(arguments), timeout_s=_left_s(until))
        if tool.method == "session.news":
            self._token = answer.pop("token", None)
        return shown(tool, answer)

    def end(self) -> None:
        """Let the daemon forget the session: nobody can ask for it again."""
        with suppress(ZcsyncdError), Client(timeout_s=0.25) as client:
            client.hello("zcsyncd-mcp", __version__, self._session)
            client.call("session.end", timeout_s=0.25)


def _left_s(until: float) -> float:
    return max(until - monotonic(), 0.01)


def build(desk: Desk, *, news: bool, write: bool) -> Server[dict[str, object]]:
    """Give the server with its tools."""
    given = {tool.name: tool for tool in tools(news=news, write=write)}

    async def list_tools(
        _context: ServerRequestContext[dict[str, object]], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in given.values()])

    async def call_tool(
        _context: ServerRequestContext[dict[str, object]], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = given.get(params.name)
        if tool is None:
            return _failed(
                UsageError(f"there is no tool {params.name}", hint=f"there are {', '.join(given)}")
            )
        try:
            result = await anyio.to_thread.run_sync(partial(desk.ask, tool, params.arguments or {}))
        except ZcsyncdError as error:
            return _failed(error)
        return types.CallToolResult(
            content=[types.TextContent(text=result.text)], structured_content=result.data
        )

    return Server(
        "zcsyncd",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.writes,
            destructive_hint=tool.writes,
            idempotent_hint=not tool.writes,
            open_world_hint=False,
        ),
    )


def _failed(error: ZcsyncdError) -> types.CallToolResult:
    hint = error.hint or ("`zcsyncd run` starts the daemon" if isinstance(error, NoDaemon) else "")
    text = f"{error.message}\n{hint}" if hint else error.message
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def serve(cwd: str, *, news: bool, write: bool) -> None:
    """Serve one client until it closes stdin."""
    desk = Desk(cwd)
    server = build(desk, news=news, write=write)

    async def run() -> None:
        async with stdio_server() as (read, written):
            await server.run(read, written, server.create_initialization_options())

    try:
        anyio.run(run)
    finally:
        desk.end()
