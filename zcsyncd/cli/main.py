"""The control command: words to one function of `commands`, whatever happens to one line and an exit code. Pure.

Rule 1: the commands themselves are imported when one is run, so that `--help` and a mistake in the words cost little.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from zcsyncd import __version__
from zcsyncd.cli.calling import PROGRAM
from zcsyncd.cli.outcome import ended, widen_stdout
from zcsyncd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

SUMMARY = "Watches the memory that coding agents share, audits it, and tells what changed."
EPILOG = "Each verb has --help. --json: the answer as JSON; --debug: a traceback of what fails."


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
    from zcsyncd.cli import commands
    from zcsyncd.cli.console import console

    act = getattr(commands, words.act)
    return int(act(words, console(os.environ, as_json=getattr(words, "json", False))))


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors of ours: one line and a hint."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"`{self.prog} --help` tells what fits")


class _Help(argparse.HelpFormatter):
    """Help of one width everywhere, so that it fits one screen everywhere, and without an empty head over the verbs."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=24, width=80)

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        # argparse forgets that verbs are indented once more, and would give the longer ones a line of their own.
        self._action_max_length += self._indent_increment
        return super()._format_action(action).partition("\n")[2]


def build_parser() -> argparse.ArgumentParser:
    """Give the parser of all verbs."""
    parser = _Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [--version] [--help] VERB ...",
        description=SUMMARY,
        epilog=EPILOG,
        formatter_class=_Help,
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument(
        "--version", action="version", version=f"{PROGRAM} {__version__}", help=argparse.SUPPRESS
    )
    for option in ("--debug", "--json"):
        parser.add_argument(option, action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    verbs = parser.add_subparsers(
        title="verbs", metavar="VERB", required=True, dest="verb", prog=PROGRAM, parser_class=_Parser
    )
    for add in (_add_run, _add_stop, _add_status, _add_dirs, _add_audit, _add_events, _add_memory):
        add(verbs)
    return parser


if TYPE_CHECKING:
    _Verbs = argparse._SubParsersAction[_Parser]


def _verb(
    verbs: _Verbs, name: str, act: str, help_text: str, *, answers: bool = True
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(
        name,
        help=help_text,
        description=help_text[0].upper() + help_text[1:] + ".",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    verb.set_defaults(act=act)
    _add_common(verb, answers=answers)
    return verb


def _add_common(parser: argparse.ArgumentParser, *, answers: bool = True) -> None:
    """Add what stands before or after any verb; not given, it leaves alone what stood further to the left."""
    if answers:
        parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="answer as JSON")
    parser.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show a traceback when something fails",
    )


def _add_run(verbs: _Verbs) -> None:
    verb = _verb(verbs, "run", "cmd_run", "run the daemon in the foreground", answers=False)
    verb.add_argument("--demo", action="store_true", help="show what it does, in a throw-away home (20 s)")


def _add_stop(verbs: _Verbs) -> None:
    _verb(verbs, "stop", "cmd_stop", "stop the daemon")


def _add_status(verbs: _Verbs) -> None:
    verb = _verb(verbs, "status", "cmd_status", "show how the daemon is")
    one = verb.add_mutually_exclusive_group()
    one.add_argument("--address", action="store_true", help="print the bus's address only")
    one.add_argument(
        "--config", action="store_true", help="show every setting, and where its value comes from"
    )


def _add_dirs(verbs: _Verbs) -> None:
    verb = _verb(verbs, "dirs", "cmd_dirs", "list memory directories, or find the one of a working directory")
    verb.add_argument("cwd", nargs="?", metavar="CWD", help="a working directory")
    verb.add_argument("--allow", metavar="DIR", help="let in a directory that was asked for")
    verb.add_argument("--undo", action="store_true", help="take back what --allow did")


def _add_audit(verbs: _Verbs) -> None:
    verb = _verb(
        verbs, "audit", "cmd_audit", "tell what is wrong in a memory directory, also without a daemon"
    )
    verb.add_argument(
        "dir", nargs="?", metavar="DIR", help="a directory (default: the working directory's memory)"
    )
    verb.add_argument("--all", action="store_true", help="show infos and dismissed findings, too")
    verb.add_argument(
        "--fail-on",
        metavar="SEVERITY",
        choices=("error", "warning", "info"),
        default="error",
        help="exit with 1 from this severity on: error (default), warning, info",
    )
    verb.add_argument("--dismiss", metavar="KEY", help="never speak of the finding with this key again")
    verb.add_argument("--undo", action="store_true", help="take back what --dismiss did")


def _add_events(verbs: _Verbs) -> None:
    verb = _verb(verbs, "events", "cmd_events", "follow what happens, until interrupted")
    verb.add_argument("--since", metavar="CURSOR", help="begin after this event, not now")
    verb.add_argument(
        "--topic",
        metavar="GLOB",
        action="append",
        help="only these topics, as `memory/*`; may be given again",
    )


def _add_memory(verbs: _Verbs) -> None:
    group = verbs.add_parser(
        "memory",
        help="list and read facts, show the index",
        description="Facts and index of one memory directory, also without a daemon.",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    _add_common(group)
    deeper = group.add_subparsers(
        title="verbs", metavar="VERB", required=True, dest="deeper", parser_class=_Parser
    )
    _on_directory(_verb(deeper, "list", "cmd_memory_list", "list the facts"))
    read = _on_directory(_verb(deeper, "read", "cmd_memory_read", "show one fact as recall shows it"))
    read.add_argument("name", metavar="NAME", help="its name, or its file with or without .md")
    read.add_argument("--full", action="store_true", help="all of the body, not only what recall shows")
    _on_directory(_verb(deeper, "index", "cmd_memory_index", "show the index as it is put before the model"))


def _on_directory(verb: argparse.ArgumentParser) -> argparse.ArgumentParser:
    verb.add_argument("--dir", metavar="DIR", help="a directory (default: the working directory's memory)")
    return verb
