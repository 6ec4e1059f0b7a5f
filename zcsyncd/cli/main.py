"""The control command: words to one function of a verb, whatever happens to one line and an exit code. Pure.

Rule 1: the verbs themselves are imported when one is run, so that `--help` and a mistake in the words cost little.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from zcsyncd.cli.outcome import ended, widen_stdout
from zcsyncd.cli.parser import build_parser
from zcsyncd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run one verb and give the exit code (docs/cli.md, "Exit codes"); `argv` without the program's name."""
    widen_stdout()
    return ended(lambda: _run(argv), debug="--debug" in argv)


def _run(argv: Sequence[str]) -> int:
    parser = build_parser()
    if not argv:
        parser.print_help(sys.stderr)
        return UsageError.exit_code
    try:
        words = parser.parse_args(argv)
    except SystemExit as done:  # --help and --version have said all
        return int(done.code or 0)
    from zcsyncd.cli.console import console

    module, _, name = words.act.partition(".")
    act = getattr(import_module(f"zcsyncd.cli.{module}"), name)
    return int(act(words, console(os.environ, as_json=getattr(words, "json", False))))
