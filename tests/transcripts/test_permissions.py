"""What may not be read: the daemon run by a person who is not root, over files that are closed to that person."""

from __future__ import annotations

import codecs
import contextlib
import importlib
import os
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.transcripts.machine import (
    Asking,
    Contract,
    Listener,
    Machine,
    Project,
    entry,
    fact_text,
    save,
    until,
)
from zcsyncd.bus.requests import describe
from zcsyncd.daemon.app import run_daemon
from zcsyncd.errors import NoDaemon, Refused, Unreadable, ZcsyncdError

LATE = (
    "apscheduler.executors.asyncio",
    "apscheduler.jobstores.memory",
    "apscheduler.triggers.interval",
    "concurrent.futures.thread",
    "ctypes",
    "platformdirs.macos",
    "platformdirs.unix",
    "termios",
    "watchdog.observers.inotify_c",
)
"""What the daemon imports when it needs it."""


@contextlib.contextmanager
def _running(machine: Machine) -> Iterator[None]:
    """Run the daemon in a child of this process: the interpreter's own file may be out of that user's reach."""
    child = os.fork()
    if child == 0:
        code = 70
        with open(machine.place / "stderr", "ab") as stderr:
            os.dup2(stderr.fileno(), 2)
        try:
            code = run_daemon(machine.env)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)

    def said() -> str:
        return (machine.place / "stderr").read_text() if (machine.place / "stderr").exists() else ""

    try:

        def answers() -> bool:
            assert "Traceback" not in said(), said()
            with contextlib.suppress(NoDaemon), Asking(machine.address) as client:
                client.call("daemon.flush")
                return True
            return False

        until(answers, "a daemon that answers")
        yield
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        child = 0
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    log = said() + "".join(path.read_text() for path in machine.state.glob("log/*"))
    assert "Traceback" not in log, log


@pytest.fixture(autouse=True)
def _loaded() -> None:
    """What is loaded late is loaded now: interpreter and checkout may be closed to the other user."""
    for name in ("ascii", "utf-8-sig", "idna"):
        codecs.lookup(name)
    for module in LATE:
        importlib.import_module(module)
    Asking.contract = Asking.contract or Contract(describe())
    Asking.contract.check_result("ping", {"cursor": f"{'0' * 16}:1"})


@pytest.fixture
def as_a_person(machine: Machine, as_ordinary_user: Callable[..., None]) -> Callable[..., None]:
    """Run a check with a daemon, both of a user to whom permissions mean something."""

    def run(check: Callable[[], None]) -> None:
        def whole() -> None:
            with _running(machine):
                check()

        as_ordinary_user(whole, machine.place)

    return run


def _ask(machine: Machine, method: str, **params: object) -> dict[str, object]:
    with Asking(machine.address) as client:
        return client.call(method, params)


def _findings(machine: Machine, project: Project) -> set[tuple[str, object]]:
    return {
        (one["code"], one.get("file"))
        for one in _ask(machine, "audit.get", dir=project.dir, fresh=True)["findings"]
    }


def test_a_closed_fact_is_a_finding_and_never_gone(
    machine: Machine, as_a_person: Callable[..., None]
) -> None:
    """A fact that may not be read any more is an error of its own, not a deletion; opened again it is as it was."""
    project = machine.project().make({"one.md": fact_text("one"), "two.md": fact_text("two")})

    def check() -> None:
        with Listener(machine.address, dirs=[project.dir]) as listener:
            listener.forget()
            os.chmod(project.memory / "one.md", 0)
            listener.flush(rescan=True)
            assert "deleted" not in listener.kinds()
            assert ("fact-unreadable", "one.md") in _findings(machine, project)
            with pytest.raises(Unreadable):
                _ask(machine, "memory.read", dir=project.dir, name="one.md")
            os.chmod(project.memory / "one.md", 0o644)
            listener.flush(rescan=True)
            assert "deleted" not in listener.kinds()
            assert ("fact-unreadable", "one.md") not in _findings(machine, project)
            assert "Body." in str(_ask(machine, "memory.read", dir=project.dir, name="one.md")["body"])

    as_a_person(check)


def test_a_closed_index_is_never_an_empty_one(machine: Machine, as_a_person: Callable[..., None]) -> None:
    """An index without permission is `index-unreadable`: no entry is told as removed, no fact as unindexed."""
    project = machine.project().make({"one.md": fact_text("one")})
    machine.configure("audit: {grace_s: 0}\n")

    def check() -> None:
        with Listener(machine.address, dirs=[project.dir]) as listener:
            listener.forget()
            os.chmod(project.memory / "MEMORY.md", 0)
            listener.flush(rescan=True)
            assert [one for data in listener.of("memory/index") for one in data["removed"]] == []
            assert listener.codes("appeared") == ["index-unreadable"]
            with pytest.raises(Unreadable):
                _ask(machine, "memory.index", dir=project.dir)
            os.chmod(project.memory / "MEMORY.md", 0o644)
            listener.flush(rescan=True)
            assert listener.codes("cleared") == ["index-unreadable"]
            save(project.memory / "MEMORY.md", entry("one.md", hook="New"))
            listener.flush()
            assert [one["hook"] for one in listener.of("memory/index")[-1]["changed"]] == ["New"]

    as_a_person(check)


def test_a_closed_directory_takes_nothing_away(machine: Machine, as_a_person: Callable[..., None]) -> None:
    """A memory directory, or a folder in it, that cannot be listed keeps what was known; opened, changes are told."""
    project = machine.project().make({"one.md": fact_text("one"), "sub/two.md": fact_text("two")})

    def check() -> None:
        with Listener(machine.address, dirs=[project.dir]) as listener:
            listener.forget()
            for closed in (project.memory / "sub", project.memory, project.memory.parent, machine.projects):
                os.chmod(closed, 0)
                listener.flush(rescan=True)
                assert listener.changes() == [], closed
                assert _ask(machine, "memory.list", dir=project.dir)["total"] == 2
                _ask(machine, "audit.get", dir=project.dir, fresh=True)
                os.chmod(closed, 0o755)
                listener.flush(rescan=True)
            log = "".join(path.read_text() for path in machine.state.glob("log/*"))
            assert log.count("cannot be listed") <= 4, "a state is logged once, not for as long as it lasts"
            assert "memory/dir-removed" not in listener.topics
            project.fact("one.md", body="Changed.")
            save(project.memory / "sub" / "two.md", fact_text("two", body="Changed."))
            listener.flush()
            assert sorted(change["file"] for change in listener.changes()) == ["one.md", "sub/two.md"]

    as_a_person(check)


def test_what_was_closed_at_the_start_is_told_when_it_opens(
    machine: Machine, as_a_person: Callable[..., None]
) -> None:
    """A directory that was closed when the daemon began is watched from when it opens."""
    project = machine.project().make({"one.md": fact_text("one")})
    closed = machine.project("closed").make({"two.md": fact_text("two")})

    def check() -> None:
        with Listener(machine.address) as listener:
            assert _ask(machine, "memory.list", dir=project.dir)["total"] == 1
            os.chmod(closed.memory, 0o755)
            listener.flush(rescan=True)
            assert _ask(machine, "memory.list", dir=closed.dir)["total"] == 1
            listener.forget()
            closed.fact("two.md", body="Changed.")
            listener.flush()
            assert listener.kinds("two.md") == ["updated"]

    os.chmod(closed.memory, 0)
    as_a_person(check)


def test_a_tree_that_may_not_be_written_is_enough(machine: Machine, as_a_person: Callable[..., None]) -> None:
    """Watching, reading and auditing need no right to write in the user's tree."""
    project = machine.project().make({"one.md": fact_text("one")})

    def check() -> None:
        for place, _, files in os.walk(machine.home, topdown=False):
            for name in files:
                os.chmod(Path(place) / name, 0o444)
            os.chmod(place, 0o555)
        _ask(machine, "daemon.flush", rescan=True)
        assert _findings(machine, project) == set()
        assert _ask(machine, "memory.read", dir=project.dir, name="one")["file"] == "one.md"
        for place, _, _ in os.walk(machine.home):
            os.chmod(place, 0o755)

    as_a_person(check)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to somebody else")
def test_a_place_of_another_owner_is_refused(machine: Machine, as_ordinary_user: Callable[..., None]) -> None:
    """Runtime and state directories of another owner are refused, in words, and so is memory of another owner."""
    foreign = machine.place / "foreign"
    foreign.mkdir(mode=0o755)

    def check() -> None:
        for variable in ("ZCSYNCD_RUNTIME_DIR", "ZCSYNCD_STATE_DIR"):
            with pytest.raises(Refused, match="foreign"):
                run_daemon({**machine.env, variable: str(foreign)})
        with _running(machine), pytest.raises(ZcsyncdError, match="owner"):
            _ask(machine, "dirs.allow", dir=str(foreign), allow=True)

    for path in (machine.place, *(each for each in machine.place.iterdir() if each != foreign)):
        shutil.chown(path, 65534, 65534)
    machine.place.chmod(0o755)
    as_ordinary_user(check)
