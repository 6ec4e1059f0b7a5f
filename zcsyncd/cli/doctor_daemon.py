"""The doctor on the daemon: does it answer, is it of this version, do events come through, is its environment this
shell's, and does its service manager know it. Door: the bus, the service manager.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from zcsyncd import __version__
from zcsyncd.cli.answer import Answer, names_of, number_of, object_of, rows_of, text_of
from zcsyncd.cli.doctor_case import Case, probe
from zcsyncd.cli.doctor_rows import Row, error, note, ok, warning
from zcsyncd.cli.render import amount, counted, duration
from zcsyncd.cli.versions import skew_words
from zcsyncd.errors import NotReady, Refused, UnknownMethod, ZcsyncdError
from zcsyncd.install import looking
from zcsyncd.install.manager import Manager, manager
from zcsyncd.install.wanted import State

SLOW_MS = 1_000.0
"""A probe takes a few milliseconds; more than this is felt."""


# -- the daemon ----------------------------------------------------------------------------------------------


def daemon(case: Case) -> Iterator[Row]:
    """Tell how the daemon is."""
    if case.status is None:
        yield _absent(case)
        return
    said = object_of(case.status, "daemon")
    version = text_of(said, "version", "?")
    words = [
        f"version {version}",
        f"pid {number_of(said, 'pid')}",
        f"up {duration(number_of(said, 'uptimeS'))}",
        amount(number_of(said, "rssBytes")) if said.get("rssBytes") is not None else "",
    ]
    counts = object_of(case.status, "counts")
    words += [
        counted(number_of(counts, "directories"), "directory", "directories"),
        counted(number_of(counts, "facts"), "fact"),
    ]
    yield ok("daemon", ", ".join(word for word in words if word), version=version, counts=dict(counts))
    if said.get("ready") is not True:
        yield note("daemon", "its first scan is under way", "what is about memory waits for it")
    yield from _versions(said, version)
    yield from _troubles(case, case.status, said)


def _absent(case: Case) -> Row:
    if case.address is None:
        return warning("daemon", "where it would listen cannot be told", "see `places`")
    at = case.place(case.address)
    if not case.listens:
        return warning(
            "daemon",
            f"no daemon answers at {at}",
            case.veil.said(case.silence.message if case.silence else None) or "nobody watches the memory",
            "`zcsyncd service install` lets it start at log-in, `zcsyncd run` runs it here",
        )
    if isinstance(case.silence, NotReady):
        return note("daemon", f"the daemon at {at} still starts")
    return error(
        "daemon",
        f"somebody listens at {at}, and does not answer",
        case.veil.said(case.silence.message if case.silence else None)
        or "a daemon that was halted, that hangs, or another program",
        "`zcsyncd service restart`, or end the process",
    )


def _versions(said: Answer, version: str) -> Iterator[Row]:
    replaced = said.get("packageSkew")
    if replaced:
        yield warning(
            "daemon",
            f"version {version} runs, and {text_of(said, 'packageSkew')} is installed in its place",
            "it goes on with the code that it started with",
            "`zcsyncd service restart`, or `zcsyncd stop` and start it again",
            packageSkew=text_of(said, "packageSkew"),
        )
    elif (skew := skew_words(__version__, version)) is not None:
        what, _, mend = skew.partition(": ")
        yield warning("daemon", what, None, mend)


def _troubles(case: Case, status: Answer, said: Answer) -> Iterator[Row]:
    bases = {row.get("base") for row in rows_of(said, "trees")}
    for place in rows_of(said, "degraded"):
        if place.get("base") not in bases:  # what is polled is told under `roots`
            yield error(
                "daemon",
                f"{case.place(str(place.get('base')))} takes nothing",
                case.veil.said(text_of(place, "reason")) or "what is told now is lost when the daemon ends",
                "see to the disk",
            )
    for job in rows_of(status, "jobs"):
        if job.get("lastError") is not None:
            yield warning(
                "daemon",
                f"the job {text_of(job, 'name')} failed",
                case.veil.said(text_of(job, "lastError")),
                "`zcsyncd service logs` says more",
            )
    asked = rows_of(status, "asked")
    if asked:
        yield note(
            "daemon",
            f"{counted(len(asked), 'directory', 'directories')} wait to be allowed",
            ", ".join(case.place(str(one.get("dir"))) for one in asked) if case.veil.shown else None,
            "`zcsyncd status` names them, `zcsyncd dirs --allow DIR` lets one in",
        )
    complaints = names_of(said, "complaints")
    if complaints:
        yield warning(
            "daemon",
            f"it has {counted(len(complaints), 'complaint')}",
            "; ".join(complaints) if case.veil.shown else None,
            "`zcsyncd status` tells them",
        )
    dropped = number_of(object_of(status, "bus"), "dropped")
    if dropped:
        yield note(
            "daemon", f"slow subscribers missed {counted(dropped, 'event')}", "they were told by `bus/gap`"
        )


# -- the probe -----------------------------------------------------------------------------------------------


def probing(case: Case) -> Iterator[Row]:
    """Send a canary from the disk through the watcher and the bus to a subscriber."""
    if case.status is None or case.address is None:
        yield note("probe", "not made: there is no daemon to ask")
        return
    try:
        seen = probe(case.address)
    except UnknownMethod:
        yield note("probe", "not made: this daemon is older than the doctor", None, "restart it")
        return
    except NotReady:
        yield note("probe", "not made: the first scan is under way", None, "try again in a moment")
        return
    except ZcsyncdError as failed:
        yield error(
            "probe",
            "the daemon was asked for a probe, and failed",
            case.veil.said(failed.message),
            "`zcsyncd service logs` may say why",
        )
        return
    data = {"alive": seen.alive, "wrote": seen.wrote, "heard": seen.heard, "ms": round(seen.ms, 1)}
    again = "`zcsyncd service restart`; `zcsyncd service logs` says what happened"
    if not seen.alive:
        yield error("probe", "no event comes through the watcher", "changes are not told", again, **data)
    elif not seen.heard:
        yield error(
            "probe", "the event of the probe came to no subscriber", "changes are not told", again, **data
        )
    else:
        what = "a file's event came" if seen.wrote else "an event came (no file: no inotify here)"
        shown = f"{what} through watcher and bus to a subscriber in {seen.ms:.1f} ms"
        if seen.ms > SLOW_MS:
            yield warning("probe", shown, "the daemon, or the machine, has much to do", None, **data)
        else:
            yield ok("probe", shown, **data)


# -- the environment -----------------------------------------------------------------------------------------


def environment(case: Case) -> Iterator[Row]:
    """Tell which variables that move places differ between this shell, the daemon, and sessions."""
    if case.status is None:
        return
    theirs = object_of(object_of(case.status, "daemon"), "variables")
    differing = [name for name, value in sorted(theirs.items()) if (value or "") != case.env.get(name, "")]
    for name in differing:
        ours, its = case.env.get(name, ""), theirs.get(name) or ""
        yield warning(
            "environment",
            f"{_safe(name)} is {_set(case, ours)} here and {_set(case, str(its))} in the daemon",
            "what is started from this shell looks at another place than the daemon does",
            "`zcsyncd service install` writes this shell's into the unit; else start the daemon anew from here",
            variable=name,
        )
    told = rows_of(case.status, "environment")
    for row in told:
        its = str(row.get("daemon") or "")
        yield warning(
            "environment",
            f"{_safe(str(row.get('name')))} is {_set(case, str(row.get('session') or ''))} in sessions of "
            f"{text_of(row, 'host', 'a host')} and {_set(case, its)} in the daemon",
            "it looks for memory elsewhere than they do",
            "set it where the daemon is started, or `zcsyncd service install` from a shell that has it",
            variable=row.get("name"),
        )
    if not differing and not told and theirs:
        yield ok(
            "environment", f"{counted(len(theirs), 'variable')} that move places are the same here and there"
        )


def _safe(name: str) -> str:
    return name if name.replace("_", "").isalnum() else "a variable"


def _set(case: Case, value: str) -> str:
    if not value:
        return "not set"
    return value if case.veil.shown else "set otherwise"


# -- the service ---------------------------------------------------------------------------------------------


def service(case: Case) -> Iterator[Row]:
    """Tell how the service manager has it."""
    try:
        its = manager(case.env)
        its.check()
        state, command = its.state(), its.present()
    except Refused as failed:
        yield note(
            "service",
            "no service manager takes services of yours here",
            case.veil.said(failed.message),
            "`zcsyncd run` runs the daemon in the foreground",
        )
        return
    data = {
        "manager": its.name,
        "installed": state.installed,
        "enabled": state.enabled,
        "running": state.running,
        "restarts": state.restarts,
        "socket": state.socket,
    }
    if not state.installed:
        yield note("service", f"{its.name}: not installed", None, "`zcsyncd service install` does it", **data)
        return
    yield _running(case, its, state, data)
    yield from _unit(case, its, command)


def _running(case: Case, its: Manager, state: State, data: dict[str, object]) -> Row:
    words = [
        "installed",
        {True: "starts at log-in", False: "does not start at log-in", None: ""}[state.enabled],
        {True: "runs", False: "does not run", None: ""}[state.running],
        f"restarted {counted(state.restarts, 'time')} by itself" if state.restarts else "",
        "the manager holds its socket" if state.socket else "",
    ]
    shown = f"{its.name}: {', '.join(word for word in words if word)}"
    if state.failure:
        return error(
            "service", f"{shown}; it failed", case.veil.said(state.failure), "`zcsyncd service logs`", **data
        )
    if state.running is False and not state.socket:
        return warning("service", shown, None, "`zcsyncd service start`", **data)
    if state.enabled is False or state.restarts:
        return note("service", shown, None, "`zcsyncd service status` says more", **data)
    return ok("service", shown, **data)


def _unit(case: Case, its: Manager, command: list[str] | None) -> Iterator[Row]:
    again = "`zcsyncd service install` writes it anew"
    if not command:
        yield warning("service", "its unit has no command that could be read", None, again)
    elif not os.path.exists(command[0]):
        yield error(
            "service",
            f"its interpreter {case.place(command[0])} is no longer there",
            "the service does not start any more",
            again,
        )
    elif command[0] != looking.interpreter():
        yield warning(
            "service",
            f"it runs {case.place(command[0])}, this is {case.place(looking.interpreter())}",
            "upgrading this installation does not upgrade the service",
            again,
        )
    elif case.config_error is None and not its.is_current(looking.wanted(case.env)):
        yield warning("service", "its unit is not as it would be written now", None, again)
    for remark in its.remarks():
        yield note(
            "service",
            remark if case.veil.shown else "the manager itself has a remark",
            None,
            None if case.veil.shown else "`zcsyncd service status` tells it",
        )
