"""`zcsyncd mcp`: what an MCP client starts. Door: stdin, stdout."""

from __future__ import annotations

from argparse import Namespace
from importlib.util import find_spec

from zcsyncd.cli.console import Console, here
from zcsyncd.errors import Refused


def cmd_mcp(words: Namespace, _console: Console) -> int:
    """Serve one client until it hangs up.

    Raises:
        Refused: the package that speaks MCP is not installed.
    """
    if find_spec("mcp") is None:
        raise Refused(
            "the MCP server needs the package `mcp`, which is not installed here",
            hint="`pip install 'zcsyncd[mcp]'`, or `pipx inject zcsyncd mcp`",
        )
    from zcsyncd.plugins.mcp import serve

    serve(here(), news=not words.no_news, write=words.write)
    return 0
