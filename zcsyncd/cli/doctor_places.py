"""The doctor on our own places: directories and files, lock, socket and note of the address, configuration, database.
Door: files.

Rule 1: nothing is made, changed, locked or mended.
"""

from __future__ import annotations

import os
import platform
import re
import stat
import sys
from collections.abc import Iterator

from zcsyncd.bus.endpoint import NAME as ENDPOINT
from zcsyncd.cli.answer import number_of, object_of
from zcsyncd.cli.doctor_case import Case
from zcsyncd.cli.doctor_rows import Row, error, note, ok, warning
from zcsyncd.cli.render import amount, counted
from zcsyncd.config import effective
from zcsyncd.errors import Unreadable, ZcsyncdError
from zcsyncd.places import CONFIG_VARIABLE, privacy_problem
from zcsyncd.settings import known_roots

LOCK = "daemon.lock"
DATABASE = "state.db"
LOG = "zcsyncd.log"
CHOICES = frozenset({"watch.mode", "log.level"})
"""Settings whose text is one of a few words; whatever else is text may name things of the person's."""
LOG_TAIL_BYTES = 262_144
_LINE = re.compile(r"line (\d+)")
_VARIABLE = re.compile(r"ZCSYNCD_[A-Z_]+")


# -- directories and files -----------------------------------------------------------------------------------


def places(case: Case) -> Iterator[Row]:
    """Tell where our things lie, and whether they are private and can be used."""
    for what, failed in case.wrong:
        reason = failed.message if isinstance(failed, ZcsyncdError) else failed.strerror
        named = _VARIABLE.search(reason or "")
        yield error(
            "places",
            f"{what} cannot be told" + (f", because of {named[0]}" if named else ""),
            case.veil.said(reason),
            "give that variable an absolute path, or none" if named else "--paths shows why",
        )
    for what, path in (("state", case.state), ("runtime", case.runtime), ("log", case.log)):
        if path is not None:
            yield from _directory(case, what, path)
    for what, path in _files(case):
        yield from _file(case, what, path)


def _files(case: Case) -> Iterator[tuple[str, str]]:
    if case.state is not None:
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", LOCK, ENDPOINT):
            yield f"state/{name}", os.path.join(case.state, name)
    if case.log is not None:
        yield "log", os.path.join(case.log, LOG)
    if case.address is not None and sys.platform != "win32":
        yield "socket", case.address


def _directory(case: Case, what: str, path: str) -> Iterator[Row]:
    shown = f"{what} directory {case.place(path)}"
    try:
        found = os.lstat(path)
        problem = privacy_problem(path) if what != "log" or not stat.S_ISDIR(found.st_mode) else None
    except FileNotFoundError:
        yield note("places", f"{shown} is not there yet", "the daemon makes it")
        return
    except OSError as failed:
        yield error(
            "places", f"{shown} cannot be looked at: {failed.strerror}", None, "see to its permissions"
        )
        return
    if problem is not None:
        says = [case.veil.text(text, path, os.path.dirname(path)) for text in problem]
        yield error("places", f"{shown} is not private: {says[0]}", "the daemon refuses it", says[1])
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield error(
            "places",
            f"{shown} cannot be written to",
            "the daemon does not start",
            "chmod 700, or give it to you",
        )
    else:
        yield ok(
            "places",
            f"{shown}, mode {stat.S_IMODE(found.st_mode):04o}",
            mode=f"{stat.S_IMODE(found.st_mode):04o}",
        )


def _file(case: Case, what: str, path: str) -> Iterator[Row]:
    shown = f"{what} {case.place(path)}"
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as failed:
        yield error("places", f"{shown} cannot be looked at: {getattr(failed, 'strerror', 'no path')}")
        return
    fits = stat.S_ISSOCK(found.st_mode) if what == "socket" else stat.S_ISREG(found.st_mode)
    mode = stat.S_IMODE(found.st_mode)
    if not fits:
        kind = "socket" if what == "socket" else "ordinary file"
        yield error("places", f"{shown} is no {kind}", "it is in the daemon's way", "move it away")
    elif sys.platform != "win32" and found.st_uid != os.geteuid():
        yield error(
            "places", f"{shown} belongs to another owner (uid {found.st_uid})", None, "give it to you"
        )
    elif sys.platform != "win32" and mode & 0o077:
        yield warning(
            "places",
            f"{shown} is open to others (mode {mode:04o})",
            "what is kept of your memory is for nobody else",
            f"chmod 600 {case.place(path)}",
        )
    elif what != "socket" and not os.access(path, os.R_OK | os.W_OK):
        yield error("places", f"{shown} cannot be read and written (mode {mode:04o})", None, "chmod 600 it")


# -- who runs, and where it says that it is ------------------------------------------------------------------


def endpoint(case: Case) -> Iterator[Row]:
    """Tell whether the lock, the note of the address, the socket and the daemon that answers agree."""
    if case.state is None:
        return
    holder, holder_pid = _lock(os.path.join(case.state, LOCK))
    noted = case.endpoint
    data = {"lock": holder, "lockPid": holder_pid, "endpointPid": noted.pid if noted else None}
    path = os.path.join(case.state, ENDPOINT)
    if noted is None and os.path.lexists(path):
        yield warning(
            "endpoint",
            f"{case.place(path)} cannot be understood",
            "clients look at the usual address",
            "remove it",
            **data,
        )
    elif holder == "free" and noted is not None:
        yield note(
            "endpoint",
            "a daemon that was killed left the note of its address behind",
            "clients find nobody there; the next start writes it anew",
            None,
            **data,
        )
    elif holder == "held" and noted is None:
        yield warning(
            "endpoint",
            "a daemon runs, and the note of its address is not there",
            "clients that find it elsewhere than usual do not find it now",
            "it writes it again within a minute; if not, `zcsyncd service restart`",
            **data,
        )
    elif holder == "held" and noted is not None and holder_pid not in (None, noted.pid):
        yield warning(
            "endpoint",
            f"the lock is held by pid {holder_pid}, and the address was noted by pid {noted.pid}",
            "one of two daemons, or of two machines, is not the one that clients find",
            "`zcsyncd stop`, and start one",
            **data,
        )
    else:
        state = {"held": "a daemon holds the lock", "free": "no daemon holds the lock"}.get(
            holder, "who holds the lock is not told here"
        )
        agrees = "the note of its address agrees" if noted is not None else "nothing tells an address"
        yield ok("endpoint", f"{state}, and {agrees}", **data)
    yield from _reached(case)


def _reached(case: Case) -> Iterator[Row]:
    noted, daemon = case.endpoint, object_of(case.status or {}, "daemon")
    if noted is None:
        return
    if noted.host and noted.host != platform.node():
        yield warning(
            "endpoint",
            "the note of the address was written on another machine",
            "the state directory is shared between machines, a socket is not",
            "give each machine its own: ZCSYNCD_STATE_DIR",
        )
    if case.usual_address is not None and noted.address != case.usual_address:
        yield note(
            "endpoint",
            f"the daemon listens at {case.place(noted.address)}, one started from here would at "
            f"{case.place(case.usual_address)}",
            "it was started with another environment or configuration",
        )
    pid = number_of(daemon, "pid")
    if pid and noted.pid != pid:
        yield warning(
            "endpoint",
            f"pid {pid} answers, and the address was noted by pid {noted.pid}",
            "two daemons with two state directories",
            "`zcsyncd stop`, and start one",
        )


def _lock(path: str) -> tuple[str, int | None]:
    """Tell whether the lock is held, and by whom: `held`, `free`, or `unknown`.

    It is not tried: whoever just starts would take us for a daemon.
    """
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return "free", None
    except OSError:
        return "unknown", None
    if sys.platform != "linux":
        return "unknown", None
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return "unknown", None
    # 1: FLOCK  ADVISORY  WRITE 1234 00:1f:5678 0 EOF
    for words in (line.split() for line in lines):
        if len(words) > 5 and words[1] != "->" and words[5].rpartition(":")[2] == str(found.st_ino):
            return "held", int(words[4]) if words[4].isdigit() and int(words[4]) else None
    return "free", None


# -- the configuration ---------------------------------------------------------------------------------------


def configuration(case: Case) -> Iterator[Row]:
    """Tell what a daemon that is started from here would go by, or why it would not start."""
    file = "the configuration" if case.config is None else f"the configuration {case.place(case.config)}"
    if case.config_error is not None:
        yield from _mistakes(case, file, case.config_error)
    elif case.config is not None and os.path.exists(case.config):
        yield ok("configuration", f"{file} has no mistakes")
    elif case.env.get(CONFIG_VARIABLE):
        yield warning(
            "configuration",
            f"{CONFIG_VARIABLE} names a file that is not there",
            "everything is at its default",
            "make it, or take the variable away",
        )
    else:
        yield ok("configuration", f"{file} is not there, so everything is at its default")
    if case.config_error is None:
        yield _effective(case)
        yield from _hosts(case)


def _mistakes(case: Case, file: str, failed: ZcsyncdError) -> Iterator[Row]:
    found = failed.data.get("mistakes")
    mistakes = [str(one) for one in found] if isinstance(found, list) else [failed.message]
    for mistake in mistakes:
        line, variable = _LINE.search(mistake.partition(":")[0]), _VARIABLE.search(mistake)
        where = f"line {line[1]}" if line else variable[0] if variable else "as a whole"
        yield error(
            "configuration",
            f"{file} cannot be used, {where}" + (f": {mistake}" if case.veil.shown else ""),
            "no daemon starts with it, and one that runs goes on with what it had",
            "`zcsyncd status --config` says what is wrong",
            line=int(line[1]) if line else None,
        )


def _effective(case: Case) -> Row:
    rows = effective(case.settings)
    set_here = [key for key, _, source in rows if source != "default"]
    settings = [
        {
            "key": key,
            "value": value if case.veil.shown or key in CHOICES else _veiled(value),
            "set": source != "default",
        }
        for key, value, source in rows
    ]
    shown = "; ".join(f"{one['key']} = {_setting(one['value'])}" for one in settings if one["set"] is True)
    what = f"{counted(len(set_here), 'setting')} other than by default" + (f": {shown}" if shown else "")
    return ok("configuration", what, settings=settings)


def _setting(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _veiled(value: object) -> object:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict | list | tuple):
        return f"({counted(len(value), 'entry', 'entries')})" if value else None
    return None if value is None else "(set)"


def _hosts(case: Case) -> Iterator[Row]:
    complaints = known_roots(case.env, case.settings).complaints
    if complaints and not case.veil.shown:
        yield warning(
            "configuration",
            f"{counted(len(complaints), 'setting')} of hosts cannot be used",
            "it is passed over",
            "--paths shows which",
        )
    elif complaints:
        for complaint in complaints:
            yield warning("configuration", complaint)


# -- the database --------------------------------------------------------------------------------------------


def database(case: Case) -> Iterator[Row]:
    """Tell whether the database is whole and of this version."""
    from zcsyncd.daemon.database import SCHEMA_VERSION, look_at

    if case.state is None:
        return
    path = os.path.join(case.state, DATABASE)
    anew = "the next start puts it aside and begins anew: saved versions and what sessions have read are gone with it"
    try:
        found = look_at(path)
    except Unreadable as failed:
        yield error(
            "database",
            "the database cannot be read",
            case.veil.said(failed.message) or anew,
            "see to its permissions and to the disk; `zcsyncd stop`, and keep a copy of it",
        )
        return
    if found is None:
        yield note("database", "there is no database yet", "the first start makes it")
        return
    size = f"{amount(found.size_bytes)}, and {amount(found.wal_bytes)} in its log"
    data = {"sizeBytes": found.size_bytes, "walBytes": found.wal_bytes, "schema": found.schema}
    if found.schema > SCHEMA_VERSION:
        yield error(
            "database",
            f"its schema is {found.schema}, this version knows {SCHEMA_VERSION}",
            "a newer zcsyncd wrote it; this one does not touch it",
            "upgrade this installation",
            **data,
        )
    elif found.schema < SCHEMA_VERSION:
        yield note(
            "database",
            f"its schema is {found.schema}; the next start brings it to {SCHEMA_VERSION}",
            None,
            None,
            **data,
        )
    if found.damage:
        yield error(
            "database",
            f"SQLite has {counted(found.damage, 'complaint')} about it",
            anew,
            "keep a copy of it",
            **data,
        )
    elif found.is_whole:
        yield ok("database", f"whole, schema {found.schema}, {size}", **data)
    else:
        yield note("database", f"too large to be checked in a few seconds: {size}", None, None, **data)
    yield from _put_aside(case.state)


def _put_aside(state: str) -> Iterator[Row]:
    try:
        broken = [
            name
            for name in os.listdir(state)
            if name.startswith(f"{DATABASE}.broken-") and not name.endswith(("-wal", "-shm"))
        ]
    except OSError:
        return
    if broken:
        yield note(
            "database",
            f"{counted(len(broken), 'broken database')} lie in the state directory"
            if len(broken) > 1
            else "a broken database lies in the state directory",
            "it was put aside at a start, for somebody to look at",
            "remove it when nobody wants to",
            broken=len(broken),
        )


# -- the log -------------------------------------------------------------------------------------------------


def log(case: Case) -> Iterator[Row]:
    """Tell how often the daemon logged an error lately."""
    if case.log is None:
        return
    path = os.path.join(case.log, LOG)
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return  # told under `places`
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            tail = file.read(LOG_TAIL_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        yield ok("log", "no log file: a service manager's journal has it, or no daemon ran yet")
        return
    except OSError as failed:
        yield warning("log", f"the log cannot be read: {failed.strerror}", None, "see to its permissions")
        return
    errors = sum(tail.count(f"level={level} ".encode()) for level in ("ERROR", "CRITICAL"))
    shown = f"{amount(size)}, {counted(errors, 'error')} in its last part"
    if errors:
        yield note("log", shown, None, "`zcsyncd service logs` shows it", errors=errors)
    else:
        yield ok("log", shown, errors=0)
