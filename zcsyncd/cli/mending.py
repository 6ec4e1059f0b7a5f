"""The verb that mends a directory: what it would do, and with `--apply` the doing. Door: the bus.

Rule 1: what the daemon will not touch yet, because somebody wrote there a moment ago, is tried once more.
"""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from shlex import quote

from zcsyncd.cli.act_pages import repair_page
from zcsyncd.cli.alone import ask_or_do
from zcsyncd.cli.asking import Daemon
from zcsyncd.cli.calling import called
from zcsyncd.cli.console import Console
from zcsyncd.cli.render import harmless
from zcsyncd.cli.where import directory_of
from zcsyncd.errors import Refused

PATIENCE_S = 3.0
"""How long a repair that comes too early waits at the most: the daemon asks for two seconds of peace."""


def cmd_repair(words: Namespace, console: Console) -> int:
    """Show what would mend a directory; with `--apply` write it."""
    daemon = Daemon(console.env)
    directory = directory_of(words.dir, daemon, console)
    asked: dict[str, object] = {"dir": directory, "apply": words.apply}
    asked |= {"codes": words.fix} if words.fix else {}
    asked |= {"keys": words.key} if words.key else {}
    answer, note = _in_peace(daemon, asked, console)
    console.show(
        answer,
        lambda: repair_page(
            answer,
            again=_command(
                ["repair", *([os.path.abspath(words.dir)] if words.dir else []), "--apply"], words
            ),
            undo=_command(["history", "undo", *(["--dir", os.path.abspath(words.dir)] if words.dir else [])]),
            cells=console.cells,
            paint=console.paint,
        ),
        note,
    )
    return 0


def _in_peace(daemon: Daemon, asked: Mapping[str, object], console: Console) -> tuple[dict[str, object], str]:
    try:
        return ask_or_do(daemon, "memory.repair", asked)
    except Refused as error:
        wait_ms = error.data.get("retryAfterMs")
        if not isinstance(wait_ms, int | float):
            raise
        wait_s = min(max(wait_ms / 1000, 0.0), PATIENCE_S)
        console.remark(f"{error.message}: trying again in {wait_s:.1f} s")
    time.sleep(wait_s)
    return ask_or_do(daemon, "memory.repair", asked)


def _command(words: Sequence[str], chosen: Namespace | None = None) -> str:
    """Give a command that a person can type; `chosen`: with the fixes that were chosen."""
    more: list[str] = []
    if chosen is not None:
        more += [word for code in chosen.fix or () for word in ("--fix", code)]
        more += [word for key in chosen.key or () for word in ("--key", key)]
    return harmless(" ".join([called(), *(quote(word) for word in (*words, *more))]))
