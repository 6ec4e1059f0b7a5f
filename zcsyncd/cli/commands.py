"""The verbs: one function each, that asks the daemon and shows what it says. Door: the bus.

Rule 1: `audit` and `memory` read the directory directly when no daemon answers, or when it does not keep that
directory; what is shown is the same, and a remark says so.
Rule 2: a verb gives its exit code; what fails is raised as an error of ours.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence

from zcsyncd.cli import offline
from zcsyncd.cli.act_pages import search_page, why_lines
from zcsyncd.cli.alone import ask_or_do
from zcsyncd.cli.answer import Answer, rows_of
from zcsyncd.cli.asking import Daemon
from zcsyncd.cli.calling import called
from zcsyncd.cli.console import Console, clock
from zcsyncd.cli.pages import (
    at_least,
    audit_page,
    dirs_page,
    index_page,
    is_quiet,
    list_page,
    read_page,
    resolve_page,
    sessions_page,
    settings_page,
)
from zcsyncd.cli.render import harmless
from zcsyncd.cli.sessions import is_about, places_of, session_named
from zcsyncd.cli.status_page import status_page
from zcsyncd.cli.telling import event_lines
from zcsyncd.cli.terminal import tilde
from zcsyncd.cli.where import directory_of, label_of
from zcsyncd.config import effective
from zcsyncd.errors import NoDaemon, NotFound, NotReady, Refused, UsageError
from zcsyncd.memory.audit import RULES
from zcsyncd.places import CONFIG_VARIABLE, config_file, default_address
from zcsyncd.settings import read_settings

FOUND = 1
"""Exit code: there are findings at or above `--fail-on`."""


def cmd_run(words: Namespace, console: Console) -> int:
    """Run the daemon until it is told to stop, or the demo."""
    if console.as_json:
        raise UsageError(
            "run gives no answer, so it takes no --json", hint="`zcsyncd run --help` tells what fits"
        )
    if words.demo:
        from zcsyncd.demo.show import run_demo

        return run_demo(console)
    # asyncio loads OpenSSL where it finds it: more than a megabyte that a bus within one machine never uses.
    sys.modules.setdefault("ssl", None)  # type: ignore[arg-type]  # None is how Python says "not to be imported"
    from zcsyncd.daemon.app import run_daemon

    return run_daemon(_with(console.env, words.env or ()), as_service=words.service)


def _with(env: Mapping[str, str], more: Sequence[str]) -> Mapping[str, str]:
    """Give an environment in which more variables are set, each as `NAME=VALUE`."""
    added = [one.partition("=") for one in more]
    for name, sign, _ in added:
        if not sign or not name:
            raise UsageError(
                f"--env takes NAME=VALUE, not {name!r}", hint="`zcsyncd run --help` tells what fits"
            )
    return {**env, **{name: value for name, _, value in added}} if added else env


def cmd_stop(_words: Namespace, console: Console) -> int:
    """Stop the daemon; return once it is down."""
    Daemon(console.env).stop()
    if console.as_json:
        console.say_json({})
    else:
        console.say(["stopped"])
    return 0


def cmd_status(words: Namespace, console: Console) -> int:
    """Show how the daemon is, where it listens, what it goes by, or which sessions it knows."""
    daemon = Daemon(console.env)
    if words.address:
        console.show({"address": daemon.address}, lambda: [daemon.address])
    elif words.config:
        rows = _settings(console)
        shown = [{"key": key, "value": value, "source": source} for key, value, source in rows]
        file = _config_file(console)
        console.show(
            {"settings": shown, "file": file},
            lambda: settings_page(rows, file, cells=console.cells, paint=console.paint),
        )
    elif words.sessions:
        answer = daemon.ask_all("session.list", {}, "sessions")
        console.show(
            answer, lambda: sessions_page(answer, clock=clock, cells=console.cells, paint=console.paint)
        )
    else:
        answer = daemon.ask("status")
        console.show(
            answer,
            lambda: status_page(
                answer, home=tilde(console.env), program=called(), cells=console.cells, paint=console.paint
            ),
        )
    return 0


def _settings(console: Console) -> list[tuple[str, object, str]]:
    """List the settings that a daemon started here would go by."""
    settings = read_settings(console.env, codes=frozenset(RULES))
    return effective(settings, address=default_address(console.env, settings.bus_address))


def _config_file(console: Console) -> dict[str, object]:
    """Tell which file the settings come from; `named`: a variable names it, so that a person means it to be there."""
    path = config_file(console.env)
    named = bool(console.env.get(CONFIG_VARIABLE))
    return {"path": path, "exists": os.path.exists(path), "named": named}


def cmd_dirs(words: Namespace, console: Console) -> int:
    """List the memory directories, find the one of a working directory, or let one in."""
    daemon = Daemon(console.env)
    if words.allow is not None:
        return _allow(words, console, daemon)
    if words.undo:
        raise UsageError("--undo goes with --allow DIR", hint="`zcsyncd dirs --help` tells what fits")
    if words.cwd is not None:
        answer: Answer = daemon.ask("dirs.resolve", {"cwd": os.path.abspath(words.cwd)})
        console.show(
            answer,
            lambda: resolve_page(answer, program=called(), cells=console.cells, paint=console.paint),
        )
    else:
        answer = daemon.ask_all("dirs.list", {}, "dirs")
        console.show(answer, lambda: dirs_page(answer, cells=console.cells, paint=console.paint))
    return 0


def _allow(words: Namespace, console: Console, daemon: Daemon) -> int:
    if words.cwd is not None:
        raise UsageError("--allow DIR takes no CWD beside it", hint="`zcsyncd dirs --help` tells what fits")
    directory = os.path.abspath(words.allow)
    daemon.ask("dirs.allow", {"dir": directory, "allow": not words.undo})
    said = f"{'no longer allowed' if words.undo else 'allowed'}: {directory}"
    console.show({}, lambda: [said])
    return 0


# -- audit -----------------------------------------------------------------------------------------------------------


def cmd_audit(words: Namespace, console: Console) -> int:
    """Tell what is wrong in one directory; exit with 1 when something of `--fail-on` or graver counts."""
    if words.dismiss is not None:
        return _dismiss(words, console)
    if words.undo:
        raise UsageError("--undo goes with --dismiss KEY", hint="`zcsyncd audit --help` tells what fits")
    severity = "info" if words.all or words.fail_on == "info" else "warning"
    daemon = Daemon(console.env)
    directory = directory_of(words.dir, daemon, console)
    answer, note = _or_directly(
        lambda: daemon.ask_all(
            "audit.get", {"dir": directory, "fresh": True, "severity": severity}, "findings"
        ),
        lambda: offline.audit_answer(directory, console.env, severity),
        named=words.dir is not None,
    )
    findings = rows_of(answer, "findings")
    if not words.all:
        findings = [finding for finding in findings if finding.get("dismissed") is not True]
    console.show(
        {"total": len(findings), "findings": findings},
        lambda: audit_page(findings, directory, cells=console.cells, paint=console.paint),
        note,
    )
    counting = [one for one in findings if at_least(one, words.fail_on) and not is_quiet(one)]
    return FOUND if counting else 0


def _dismiss(words: Namespace, console: Console) -> int:
    Daemon(console.env).ask("audit.dismiss", {"key": words.dismiss, "undo": words.undo})
    said = f"{'speaks again' if words.undo else 'dismissed'}: {harmless(words.dismiss)}"
    console.show({}, lambda: [said])
    return 0


# -- memory ----------------------------------------------------------------------------------------------------------


def cmd_memory_list(words: Namespace, console: Console) -> int:
    """List the facts of one directory."""
    daemon = Daemon(console.env)
    directory = directory_of(words.dir, daemon, console)
    answer, note = _or_directly(
        lambda: daemon.ask_all("memory.list", {"dir": directory}, "facts"),
        lambda: offline.memory_list(directory, console.env),
        named=words.dir is not None,
    )
    console.show(answer, lambda: list_page(answer, cells=console.cells, paint=console.paint), note)
    return 0


def cmd_memory_read(words: Namespace, console: Console) -> int:
    """Show one fact."""
    daemon = Daemon(console.env)
    directory = directory_of(words.dir, daemon, console)
    asked: dict[str, object] = {"dir": directory, "name": words.name, "full": words.full}
    asked |= {"why": True} if words.why else {}
    try:
        answer, note = _or_directly(
            lambda: daemon.ask("memory.read", asked),
            lambda: offline.memory_read(
                directory, console.env, words.name, full=words.full, with_reasons=words.why
            ),
            named=words.dir is not None,
        )
    except Refused as error:
        if error.hint == "memory.index":  # the wire's name of the verb
            error.hint = "`zcsyncd memory index` shows it"
        raise
    console.show(answer, lambda: _read_lines(answer, console), note)
    return 0


def _read_lines(answer: Answer, console: Console) -> list[str]:
    why = why_lines(answer, cells=console.cells, paint=console.paint)
    return [*read_page(answer, paint=console.paint), *(["", *why] if why else [])]


def cmd_memory_index(words: Namespace, console: Console) -> int:
    """Show the index as it is put before the model."""
    daemon = Daemon(console.env)
    directory = directory_of(words.dir, daemon, console)
    answer, note = _or_directly(
        lambda: daemon.ask("memory.index", {"dir": directory}),
        lambda: offline.memory_index(directory),
        named=words.dir is not None,
    )
    console.show(answer, lambda: index_page(answer, paint=console.paint), note)
    return 0


def _or_directly(ask: Callable[[], Answer], read: Callable[[], Answer], *, named: bool) -> tuple[Answer, str]:
    """Ask the daemon; when it is not there or does not keep the directory, read it. Give the answer and a note.

    `named`: a person named the directory. One that only a project's file names, and that the daemon therefore
    refuses, is not read behind its back.
    """
    try:
        return ask(), ""
    except (NoDaemon, NotReady) as error:
        return read(), f"read directly: {error.message}"
    except NotFound:
        return read(), "read directly: the daemon does not keep this directory"
    except Refused as error:
        if not named and type(error) is Refused:
            raise
        return read(), "read directly: the daemon does not give this out"


def cmd_memory_search(words: Namespace, console: Console) -> int:
    """Find facts by their words, in all directories or in one."""
    asked: dict[str, object] = {"query": " ".join(words.words)}
    asked |= {"dir": os.path.abspath(words.dir)} if words.dir is not None else {}
    asked |= {"limit": words.limit} if words.limit is not None else {}
    answer, note = ask_or_do(Daemon(console.env), "memory.search", asked)
    console.show(
        answer,
        lambda: search_page(answer, label=label_of, cells=console.cells, paint=console.paint),
        note,
    )
    return 0


# -- events ----------------------------------------------------------------------------------------------------------


def cmd_events(words: Namespace, console: Console) -> int:
    """Follow what happens until interrupted; tell then from where to go on.

    Raises:
        NoDaemon: the daemon went away; the hint says from where to go on.
    """
    daemon = Daemon(console.env)
    asked: dict[str, object] = {"topics": words.topic or ["*"]}
    if words.since is not None:
        asked["since"] = words.since
    session: Answer | None = None
    if words.session is not None:
        session = session_named(words.session, daemon)
        asked |= places_of(session, daemon)
    place: list[str] = []  # the cursor of what was shown last
    try:
        for event in daemon.follow(asked, begun=place.append):
            if session is None or is_about(event, session):
                _show_event(event, console)
            place[:] = [str(event.get("cursor"))]
    except KeyboardInterrupt:
        if place:
            console.remark(f"go on with `zcsyncd events --since {place[0]}`")
        raise
    return 0


def _show_event(event: Answer, console: Console) -> None:
    if console.as_json:
        console.say_json_line(event)
        return
    console.say(
        event_lines(
            event,
            label=label_of(event.get("dir")),
            clock=clock(str(event.get("time"))),
            cells=console.cells,
            paint=console.paint,
        )
    )
