"""The words of the command line: verbs and their options to a namespace that names one function. Pure.

Rule 1: a help text fits one screen of 80 cells and 24 lines (tests/cli/test_main.py).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from zcsyncd import __version__
from zcsyncd.cli.calling import PROGRAM
from zcsyncd.errors import UsageError

SUMMARY = "Watches the memory that coding agents share, audits it, and tells what changed."
EPILOG = "Each verb has --help. --json: the answer as JSON; --debug: a traceback of what fails."
TYPES = ("user", "feedback", "project", "reference")


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
    for add in (
        _add_run,
        _add_stop,
        _add_status,
        _add_dirs,
        _add_audit,
        _add_repair,
        _add_events,
        _add_memory,
        _add_history,
        _add_service,
        _add_plugin,
        _add_setup,
        _add_uninstall,
        _add_doctor,
    ):
        add(verbs)
    _add_mcp(verbs)
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
    verb = _verb(verbs, "run", "commands.cmd_run", "run the daemon in the foreground", answers=False)
    verb.add_argument("--demo", action="store_true", help="show what it does, in a throw-away home")
    verb.add_argument(
        "--service",
        action="store_true",
        help="a service manager starts it: that one runs already is no failure",
    )
    verb.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        help="as if this variable were set; may be given again",
    )


def _add_stop(verbs: _Verbs) -> None:
    _verb(verbs, "stop", "commands.cmd_stop", "stop the daemon")


def _add_status(verbs: _Verbs) -> None:
    verb = _verb(verbs, "status", "commands.cmd_status", "show how the daemon is")
    one = verb.add_mutually_exclusive_group()
    one.add_argument("--address", action="store_true", help="print the bus's address only")
    one.add_argument(
        "--config", action="store_true", help="show every setting, and where its value comes from"
    )
    one.add_argument("--sessions", action="store_true", help="list the sessions of the hosts")


def _add_dirs(verbs: _Verbs) -> None:
    verb = _verb(
        verbs, "dirs", "commands.cmd_dirs", "list memory directories, or find the one of a working directory"
    )
    verb.add_argument("cwd", nargs="?", metavar="CWD", help="a working directory")
    verb.add_argument("--allow", metavar="DIR", help="let in a directory that was asked for")
    verb.add_argument("--undo", action="store_true", help="take back what --allow did")


def _add_audit(verbs: _Verbs) -> None:
    verb = _verb(
        verbs,
        "audit",
        "commands.cmd_audit",
        "tell what is wrong in a memory directory, also without a daemon",
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
    verb = _verb(verbs, "events", "commands.cmd_events", "follow what happens, until interrupted")
    verb.add_argument("--since", metavar="CURSOR", help="begin after this event, not now")
    verb.add_argument(
        "--topic",
        metavar="GLOB",
        action="append",
        help="only these topics, as `memory/*`; may be given again",
    )
    verb.add_argument(
        "--session",
        metavar="HOST:ID",
        help="only of this session's directories, and of reads only its own; the id may be cut short",
    )


def _add_repair(verbs: _Verbs) -> None:
    verb = _verb(
        verbs,
        "repair",
        "mending.cmd_repair",
        "show what would mend a memory directory, and do it with --apply",
    )
    verb.add_argument(
        "dir", nargs="?", metavar="DIR", help="a directory (default: the working directory's memory)"
    )
    verb.add_argument("--apply", action="store_true", help="write it; `zcsyncd history undo` takes it back")
    verb.add_argument(
        "--fix",
        metavar="CODE",
        action="append",
        help="only findings of this code; what writes facts or hooks needs it; may be given again",
    )
    verb.add_argument(
        "--key", metavar="KEY", action="append", help="only the finding with this key; may be given again"
    )


def _add_memory(verbs: _Verbs) -> None:
    deeper = _group(
        verbs,
        "memory",
        "list, read, search, write and forget facts, show the index",
        "Facts and index of one memory directory, also without a daemon.",
    )
    _on_directory(_verb(deeper, "list", "commands.cmd_memory_list", "list the facts"))
    read = _on_directory(
        _verb(deeper, "read", "commands.cmd_memory_read", "show one fact as recall shows it")
    )
    read.add_argument("name", metavar="NAME", help="its name, or its file with or without .md")
    read.add_argument("--full", action="store_true", help="all of the body, not only what recall shows")
    read.add_argument("--why", action="store_true", help="tell, too, where it is seen and where not, and why")
    _on_directory(
        _verb(deeper, "index", "commands.cmd_memory_index", "show the index as it is put before the model")
    )
    search = _verb(
        deeper, "search", "commands.cmd_memory_search", "find facts by their words, the best first"
    )
    search.add_argument("words", metavar="WORD", nargs="+", help="what is looked for, in any language")
    search.add_argument("--dir", metavar="DIR", help="only in this directory (default: in all)")
    search.add_argument("--limit", metavar="N", type=_number, help="at most so many (default 20, most 100)")
    _add_write(
        _on_directory(_verb(deeper, "write", "writing.cmd_memory_write", "write a fact and its entry"))
    )
    forget = _on_directory(
        _verb(deeper, "forget", "writing.cmd_memory_forget", "take a fact and its entry away")
    )
    forget.add_argument("name", metavar="NAME", help="its name, or its file with or without .md")
    forget.add_argument("--purge", action="store_true", help="keep nothing of it: it cannot be had back")
    _if_revision(forget, "only if the fact still has this revision")
    _without_asking(forget)


def _add_write(verb: argparse.ArgumentParser) -> None:
    verb.epilog = (
        "The body: --body-file, else standard input, else (on a terminal) $VISUAL or $EDITOR. "
        "An existing fact keeps its description and type where none is given."
    )
    verb.add_argument("name", metavar="NAME", help="a fact's name or file; a new one's becomes its file")
    verb.add_argument("--description", metavar="TEXT", help="one line that says what it is about")
    verb.add_argument("--type", metavar="TYPE", choices=TYPES, help=f"one of {', '.join(TYPES)}")
    verb.add_argument("--create", action="store_true", help="fail if it exists")
    _if_revision(verb, "only if the fact still has this revision")
    verb.add_argument("--body-file", metavar="FILE", help="take the body from here; - is standard input")


def _add_history(verbs: _Verbs) -> None:
    deeper = _group(
        verbs,
        "history",
        "saved versions: list, show, compare, restore, purge, undo",
        "What the files of one memory directory were before, also without a daemon.",
    )
    listed = _on_directory(
        _verb(deeper, "list", "history.cmd_history_list", "list saved versions, newest first")
    )
    listed.add_argument("file", nargs="?", metavar="FILE", help="only of this file, as `MEMORY.md`")
    listed.add_argument("--limit", metavar="N", type=_number, help="at most so many (default 100, most 500)")
    show = _verb(deeper, "show", "history.cmd_history_show", "show a saved version")
    show.add_argument("saved", metavar="SAVED", type=_number, help="its number, from `history list`")
    diff = _verb(
        deeper, "diff", "history.cmd_history_diff", "compare a saved version with what the file is now"
    )
    diff.add_argument("saved", metavar="SAVED", type=_number, help="its number, from `history list`")
    diff.add_argument("other", metavar="OTHER", type=_number, nargs="?", help="a later one, instead of now")
    restore = _verb(deeper, "restore", "history.cmd_history_restore", "make a file what it was")
    restore.add_argument("saved", metavar="SAVED", type=_number, help="its number, from `history list`")
    _if_revision(restore, "only if the file still has this revision")
    _on_directory(
        _verb(
            deeper,
            "undo",
            "history.cmd_history_undo",
            "take back the last write, forget, repair, restore or undo",
        )
    )
    purge = _on_directory(
        _verb(deeper, "purge", "history.cmd_history_purge", "remove saved versions for good")
    )
    purge.add_argument("file", nargs="?", metavar="FILE", help="only of this file")
    purge.add_argument(
        "--before", metavar="DATE", help="only those replaced before: a date, or date and time"
    )
    _without_asking(purge)


def _add_service(verbs: _Verbs) -> None:
    deeper = _group(
        verbs,
        "service",
        "the daemon as a service: install, start, stop, status, logs ...",
        "The daemon as a service of yours, started at log-in; root is not needed.",
    )
    install = _verb(deeper, "install", "service.cmd_service_install", "write the unit, enable and start it")
    install.add_argument(
        "--socket",
        action=argparse.BooleanOptionalAction,
        help="the service manager holds the socket: who connects starts the daemon (Linux)",
    )
    install.add_argument(
        "--start", action=argparse.BooleanOptionalAction, default=True, help="start it now (default)"
    )
    _verb(deeper, "uninstall", "service.cmd_service_uninstall", "end it and take the unit away")
    _verb(deeper, "start", "service.cmd_service_start", "start it, and wait until it is ready")
    _verb(deeper, "stop", "service.cmd_service_stop", "end it until the next log-in")
    _verb(deeper, "restart", "service.cmd_service_restart", "end it and start it")
    _verb(deeper, "reload", "service.cmd_service_reload", "have the daemon read its configuration again")
    _verb(deeper, "status", "service.cmd_service_status", "show how it is; exit with 3 when it does not run")
    _verb(deeper, "show", "service.cmd_service_show", "print the unit as it would be installed")
    logs = _verb(deeper, "logs", "service_logs.cmd_service_logs", "show the last lines of the log")
    logs.add_argument("--lines", metavar="N", type=_number, default=50, help="at most so many (default 50)")
    logs.add_argument("--follow", action="store_true", help="go on with those that come, until interrupted")


def _add_plugin(verbs: _Verbs) -> None:
    deeper = _group(
        verbs,
        "plugin",
        "what hosts are given: install, remove, status, path",
        "Plugins in pi, omp, ZCode and Claude Code (HOST: pi, omp, zcode, claude-code, mcp:HOST).",
    )
    install = _on_host(
        _verb(deeper, "install", "plugin.cmd_plugin_install", "put it into a host, or bring it up to date")
    )
    _asking(install)
    install.add_argument(
        "--write",
        action=argparse.BooleanOptionalAction,
        help="mcp: give the tool that writes; not where the host keeps the index itself",
    )
    _on_host(_verb(deeper, "remove", "plugin.cmd_plugin_remove", "take it out of a host"))
    status = _verb(deeper, "status", "plugin.cmd_plugin_status", "show how it is, and when hooks were called")
    status.add_argument("host", nargs="?", metavar="HOST", help="only this one (default: all)")
    _asking(
        _on_host(
            _verb(deeper, "path", "plugin.cmd_plugin_path", "print the file or folder, to be tried by hand")
        )
    )


def _on_host(verb: argparse.ArgumentParser) -> argparse.ArgumentParser:
    verb.add_argument("host", metavar="HOST", help="pi, omp, zcode, claude-code, or mcp: and one of these")
    return verb


def _asking(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--ask",
        action=argparse.BooleanOptionalAction,
        help="hooks: ask before an outdated index is written over",
    )


def _add_mcp(verbs: _Verbs) -> None:
    """Add what clients start; without a help text it is not listed."""
    verb = verbs.add_parser("mcp", description="The MCP server on stdin and stdout.", allow_abbrev=False)
    verb.set_defaults(act="mcp_server.cmd_mcp")
    _add_common(verb, answers=False)
    verb.add_argument("--write", action="store_true", help="give the tool that writes, too")
    verb.add_argument("--no-news", action="store_true", help="leave out the tool that tells the news")


def _add_setup(verbs: _Verbs) -> None:
    verb = _verb(verbs, "setup", "setup.cmd_setup", "show what would be installed here, ask, and install it")
    _without_asking(verb)


def _add_uninstall(verbs: _Verbs) -> None:
    verb = _verb(
        verbs, "uninstall", "setup.cmd_uninstall", "take out what was installed, and name what stays"
    )
    verb.add_argument(
        "--purge", action="store_true", help="remove configuration, state and log, too, for good"
    )
    _without_asking(verb)


def _add_doctor(verbs: _Verbs) -> None:
    verb = _verb(verbs, "doctor", "doctor.cmd_doctor", "check everything that a report of a fault needs")
    verb.add_argument(
        "--paths", action="store_true", help="show paths and messages whole; they may name projects of yours"
    )


def _group(verbs: _Verbs, name: str, help_text: str, description: str) -> _Verbs:
    group = verbs.add_parser(
        name, help=help_text, description=description, formatter_class=_Help, allow_abbrev=False
    )
    _add_common(group)
    return group.add_subparsers(
        title="verbs", metavar="VERB", required=True, dest="deeper", parser_class=_Parser
    )


def _on_directory(verb: argparse.ArgumentParser) -> argparse.ArgumentParser:
    verb.add_argument("--dir", metavar="DIR", help="a directory (default: the working directory's memory)")
    return verb


def _if_revision(verb: argparse.ArgumentParser, help_text: str) -> None:
    verb.add_argument("--if-revision", metavar="REV", help=help_text)


def _without_asking(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--yes", action="store_true", help="do not ask first")


def _number(text: str) -> int:
    """Read a number that counts from 1.

    Raises: ArgumentTypeError, which argparse makes a complaint of.
    """
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 16 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)
