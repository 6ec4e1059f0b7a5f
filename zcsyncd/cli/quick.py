"""`zcsyncd status` in the least time: one question over the socket, one answer shown. Door: stdout.

Rule 1: nothing but socket and json is imported from far away; a test watches that (tests/cli/test_quick.py).
Rule 2: what is unusual in any way is left to the full command, which finds the words for it.
"""

from __future__ import annotations

import json
import sys

from zcsyncd.bus.client import Client
from zcsyncd.bus.endpoint import read_endpoint
from zcsyncd.cli.terminal import terminal_cells, tilde, write
from zcsyncd.places import SOCKET_VARIABLE, default_address, state_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def quick_status(arguments: Sequence[str], env: Mapping[str, str]) -> int | None:
    """Answer `status` and `status --json`, and give the exit code; None when the full command has to do it.

    Raises:
        NoDaemon: nobody answers where the environment or a daemon's own note says.
    """
    if list(arguments) not in (["status"], ["status", "--json"]):
        return None
    address = _address(env)
    if address is None:
        return None
    with Client(address) as client:
        answer = client.call("status")
    _show(answer, env, as_json=arguments[-1] == "--json")
    return 0


def _address(env: Mapping[str, str]) -> str | None:
    """Give the socket that the environment or the running daemon names; None when neither does."""
    if env.get(SOCKET_VARIABLE):
        return default_address(env)
    endpoint = read_endpoint(state_dir(env))
    return endpoint.address if endpoint else None


def _show(answer: dict[str, object], env: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        write(json.dumps(answer, indent=2) + "\n")
        return
    from zcsyncd.cli.calling import called
    from zcsyncd.cli.render import Paint, wants_colour
    from zcsyncd.cli.status_page import status_page

    is_terminal = sys.stdout.isatty()
    paint = Paint(
        on=wants_colour(is_terminal=is_terminal, no_colour=env.get("NO_COLOR"), term=env.get("TERM"))
    )
    lines = status_page(answer, home=tilde(env), program=called(), cells=terminal_cells(env), paint=paint)
    write("".join(f"{line}\n" for line in lines))
