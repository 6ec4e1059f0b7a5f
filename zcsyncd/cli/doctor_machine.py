"""The doctor on the machine: versions, limits, room on the disk, the clock. Door: the system."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from importlib import metadata

import zcsyncd
from zcsyncd.cli.answer import number_of, object_of, rows_of, text_of
from zcsyncd.cli.doctor_case import Case
from zcsyncd.cli.doctor_rows import Row, error, note, ok, warning
from zcsyncd.cli.render import amount, counted
from zcsyncd.memory import yaml

LIBRARIES = ("watchdog", "PyYAML", "markdown-it-py", "platformdirs", "APScheduler")
LEAST_BYTES = 16 * 1024**2
"""With less room than this the journal will soon take nothing."""
FEW_BYTES = 256 * 1024**2
LEAST_FILES = 256
"""Descriptors: a connection takes one, a look at a file another."""
NEARLY = 0.9
"""A limit of which so much is used will be met soon."""
EARLIEST = 1_735_689_600.0
"""2025: this program did not exist before."""
LATEST = 4_102_444_800.0
"""2100."""
AHEAD_S = 120.0
"""So much later than now nothing that was written down can be, unless the clock was set back."""


# -- versions ------------------------------------------------------------------------------------------------


def versions(case: Case) -> Iterator[Row]:
    """Tell what runs here."""
    package = os.path.dirname(os.path.abspath(zcsyncd.__file__))
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield ok(
        "versions",
        f"zcsyncd {zcsyncd.__version__}, {python}, {platform.platform()}",
        zcsyncd=zcsyncd.__version__,
        python=python,
        platform=platform.platform(),
    )
    yield ok("versions", f"the package is {case.place(package)}")
    yield from _libraries()
    yield from _sqlite()


def _libraries() -> Iterator[Row]:
    found: dict[str, str] = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except (metadata.PackageNotFoundError, OSError, ValueError):
            yield error(
                "versions",
                f"{name} is not installed",
                "the daemon does not start without it",
                "install zcsyncd anew",
            )
    yield ok("versions", ", ".join(f"{name} {version}" for name, version in found.items()), **found)
    if yaml.accelerated:
        yield ok("versions", "PyYAML uses libyaml", libyaml=True)
    else:
        yield warning(
            "versions",
            "PyYAML was built without libyaml",
            "reading is slower, and front matter with tabs is refused",
            "install PyYAML from a wheel",
            libyaml=False,
        )


def _sqlite() -> Iterator[Row]:
    from zcsyncd.daemon.database import abilities

    version, can_search = abilities()
    if can_search:
        yield ok("versions", f"SQLite {version} with FTS5", sqlite=version, fts5=True)
    else:
        yield warning(
            "versions",
            f"SQLite {version} was built without FTS5",
            "`zcsyncd memory search` finds nothing",
            "use a Python whose SQLite has it",
            sqlite=version,
            fts5=False,
        )


# -- limits --------------------------------------------------------------------------------------------------


def limits(case: Case) -> Iterator[Row]:
    """Tell how much the system gives, and how much of it is used."""
    if sys.platform == "linux":
        yield from _inotify(case)
    yield from _descriptors(case)


def _inotify(case: Case) -> Iterator[Row]:
    instances, watches = _used_inotify()
    needed = sum(
        number_of(tree, "watches") for tree in rows_of(object_of(case.status or {}, "daemon"), "trees")
    )
    for name, used, what in (
        ("max_user_instances", instances, "inotify instances"),
        ("max_user_watches", watches, "inotify watches"),
    ):
        most = _number_in(f"/proc/sys/fs/inotify/{name}")
        if most is None:
            yield note("limits", f"the limit of {what} cannot be read", mend=f"look at fs.inotify.{name}")
            continue
        shown = f"{what}: {used:,} of {most:,} are used"
        if name == "max_user_watches" and needed:
            shown += f", {needed:,} of them by the daemon"
        data = {"limit": most, "used": used}
        if used >= most * NEARLY:
            yield warning(
                "limits",
                shown,
                "what gets no watch is polled, so its changes are told later",
                f"raise it: sysctl fs.inotify.{name}={most * 4}",
                **data,
            )
        else:
            yield ok("limits", shown, **data)
    queue = _number_in("/proc/sys/fs/inotify/max_queued_events")
    if queue is not None:
        yield ok("limits", f"inotify queue: {queue:,} events", limit=queue)


def _used_inotify() -> tuple[int, int]:
    """Count the instances and watches of all processes that may be looked into: this person's."""
    instances = watches = 0
    for pid in _entries("/proc"):
        if not pid.isdigit():
            continue
        for number in _entries(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{number}") != "anon_inode:inotify":
                    continue
                with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:
                    watches += sum(line.startswith(b"inotify ") for line in file)
            except OSError:
                continue  # it has ended meanwhile
            instances += 1
    return instances, watches


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _number_in(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(64))
    except (OSError, ValueError):
        return None


def _descriptors(case: Case) -> Iterator[Row]:
    if sys.platform == "win32":
        return  # it has no such limit
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    whose, used = "a process started here", None
    pid = number_of(object_of(case.status or {}, "daemon"), "pid")
    if pid > 0 and (theirs := _limit_of(pid)) is not None:
        soft, whose, used = theirs, "the daemon", len(_entries(f"/proc/{pid}/fd"))
    shown = f"open files: {whose} may have {'any number' if soft < 0 else f'{soft:,}'}"
    if used is not None:
        shown += f", and has {used:,}"
    if 0 <= soft < LEAST_FILES or (used is not None and 0 <= soft * NEARLY <= used):
        yield warning(
            "limits",
            shown,
            "clients are turned away when they are used up",
            "raise it: ulimit -n",
            limit=soft,
            used=used,
        )
    else:
        yield ok("limits", shown, limit=soft, used=used)


def _limit_of(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            for line in file:
                if line.startswith("Max open files"):
                    soft = line.split()[3]
                    return -1 if soft == "unlimited" else int(soft)
    except (OSError, ValueError, IndexError):
        return None
    return None


# -- the disk ------------------------------------------------------------------------------------------------


def disk(case: Case) -> Iterator[Row]:
    """Tell how much room there is for what the daemon keeps."""
    seen: set[int] = set()
    for what, path in (
        ("state directory", case.state),
        ("log directory", case.log),
        ("runtime directory", case.runtime),
    ):
        there = _existing(path)
        if there is None:
            continue
        try:
            device = os.stat(there).st_dev
            if device in seen:
                continue
            seen.add(device)
            yield from _room(what, there)
        except OSError as failed:
            yield warning("disk", f"the file system of the {what} cannot be asked: {failed.strerror}")


def _existing(path: str | None) -> str | None:
    while path and not os.path.isdir(path):
        above = os.path.dirname(path)
        path = above if above != path else None
    return path


def _room(what: str, path: str) -> Iterator[Row]:
    usage = shutil.disk_usage(path)
    shown = f"{amount(usage.free)} free where the {what} lies"
    full = "the daemon goes on telling, but a journal that cannot be written loses nothing only while it runs"
    data = {"freeBytes": usage.free, "totalBytes": usage.total}
    if usage.free < LEAST_BYTES:
        yield error("disk", shown, full, "make room", **data)
    elif usage.free < FEW_BYTES:
        yield warning("disk", shown, full, "make room", **data)
    else:
        yield ok("disk", shown, **data)
    if sys.platform != "win32":
        found = os.statvfs(path)
        if found.f_flag & os.ST_RDONLY:
            yield error(
                "disk", f"the {what} lies on a file system that is read-only", None, "mount it writable"
            )
        if found.f_files and found.f_favail < 1_000:
            shown = f"{counted(found.f_favail, 'file')} more can be made where the {what} lies"
            yield warning("disk", shown, full, "remove files that nobody needs", freeFiles=found.f_favail)


# -- the clock -----------------------------------------------------------------------------------------------


def clock(case: Case) -> Iterator[Row]:
    """Tell whether the time of day can be true, by itself and by what was written down."""
    now = time.time()
    if not EARLIEST < now < LATEST:
        yield error(
            "clock",
            f"the clock says {time.strftime('%Y-%m-%d', time.gmtime(now))} (UTC)",
            "what is kept is dropped by its age, and events carry the time",
            "set the clock",
        )
        return
    later = [what for what, at in _written(case) if at is not None and at > now + AHEAD_S]
    if later:
        yield warning(
            "clock",
            f"later than now: {', '.join(later)}",
            "the clock was set back, or was wrong for a while; what is kept goes by its age",
            "see to it that the clock is right",
        )
    else:
        yield ok(
            "clock",
            f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(now))}, and nothing is later than that",
        )
    daemon = object_of(case.status or {}, "daemon")
    started = _seconds(text_of(daemon, "startedAt"))
    if started is not None and abs(now - started - number_of(daemon, "uptimeS")) > AHEAD_S:
        yield note("clock", "the clock was set, or the machine slept, since the daemon started")


def _written(case: Case) -> Iterator[tuple[str, float | None]]:
    daemon = object_of(case.status or {}, "daemon")
    yield "the daemon's start", _seconds(text_of(daemon, "startedAt"))
    yield "its last event", _seconds(text_of(daemon, "lastEventAt"))
    yield "the daemon's note of its address", _seconds(case.endpoint.started_at) if case.endpoint else None
    try:
        yield "the database", os.stat(os.path.join(case.state or "", "state.db")).st_mtime
    except OSError:
        return


def _seconds(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo is not None else None
    except (ValueError, OverflowError, OSError):
        return None
