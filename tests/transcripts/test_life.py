"""The daemon's life under a service manager, as a process: what it tells, how it reads its configuration anew, how
it keeps its socket, when it makes room for another version."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.transcripts.machine import CHECKOUT, PATIENCE_S, Asking, Machine, fact_text, new_machine, until
from zcsyncd.errors import InvalidParams, NoDaemon, Refused, ZcsyncdError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="systemd, and Unix sockets")


@pytest.fixture
def machine():
    """A machine without a daemon."""
    made = new_machine()
    yield made
    made.close()


class Manager:
    """A service manager's end of the notification socket."""

    def __init__(self, machine: Machine, watchdog_s: float = 0.6) -> None:
        self.path = machine.place / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(PATIENCE_S)
        self.env = {"NOTIFY_SOCKET": str(self.path), "WATCHDOG_USEC": str(int(watchdog_s * 1e6))}
        self.heard: list[str] = []

    def until(self, word: str) -> list[str]:
        """Wait for a word; give all that was heard before it."""
        before: list[str] = []
        while True:
            said = self.socket.recv(65536).decode()
            self.heard.append(said)
            if said.startswith(word):
                return before
            before.append(said)

    def gather(self) -> list[str]:
        """Take what has come already."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.heard.append(self.socket.recv(65536).decode())
        self.socket.settimeout(PATIENCE_S)
        return self.heard


@pytest.fixture
def manager(machine):
    """A manager that starts daemons on the machine."""
    made = Manager(machine)
    yield made
    made.socket.close()


def rounds(manager: Manager, number: int = 2) -> None:
    """Wait until so many whole rounds of the supervisor were made: each gives one sign of life."""
    manager.gather()
    for _ in range(number + 1):
        manager.until("WATCHDOG=1")


# -- what a manager is told -----------------------------------------------------------------------------------


def test_a_manager_hears_of_start_life_and_end(machine, manager):
    """READY comes when the first scan is done and not before; then a state, signs of life, and STOPPING; no name of
    anything of the person's is among it."""
    machine.configure("audit:\n  grace_s: 0\n")
    project = machine.project("secret-name").make({"a.md": fact_text("a")})
    daemon = machine.launch(**manager.env)
    before = manager.until("READY=1")
    assert not any(said.startswith("STOPPING") for said in before)
    with Asking(machine.address) as client:
        assert client.call("status")["daemon"]["ready"] is True
    manager.until("STATUS=directories=1 errors=0 warnings=0 watcher=inotify")
    (project.memory / "MEMORY.md").write_text("- [Gone](gone.md)\n- [A](a.md)\n")
    with Asking(machine.address) as client:
        client.call("daemon.flush")
    manager.until("WATCHDOG=1")
    manager.until("STATUS=directories=1 errors=1 warnings=0")
    os.kill(daemon.pid, signal.SIGTERM)
    manager.until("STOPPING=1")
    daemon.wait(0)
    assert not any("secret-name" in said or "a.md" in said for said in manager.gather())


def test_a_frozen_daemon_gives_no_sign_of_life(machine, manager):
    """What a watchdog is for: a process that stands still is silent, and speaks again when it goes on."""
    daemon = machine.start(**manager.env)
    rounds(manager, 1)
    os.kill(daemon.pid, signal.SIGSTOP)
    manager.gather()
    manager.socket.settimeout(1.5)
    with pytest.raises(TimeoutError):
        manager.socket.recv(65536)
    manager.socket.settimeout(PATIENCE_S)
    os.kill(daemon.pid, signal.SIGCONT)
    rounds(manager, 1)
    daemon.stop()


DEAF = """
import sys
from zcsyncd.watching.stream import Watch

async def alive(self):
    return False

Watch.alive = alive
from zcsyncd.__main__ import main
sys.exit(main(["run"]))
"""


def test_a_daemon_that_hears_nothing_gives_no_sign_of_life(machine, manager):
    """The loop lives, requests are answered: without the canary's answer that is not enough."""
    machine.project().make({"a.md": fact_text("a")})
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF],
        env={**machine.env, **manager.env},
        cwd=machine.home,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        manager.until("READY=1")
        with Asking(machine.address) as client:
            until(
                lambda: client.call("status")["daemon"]["watcher"] == "polling",
                "polling, which is what is left to do",
            )
            assert client.call("status")["daemon"]["degraded"]
        assert "WATCHDOG=1" not in manager.gather()
    finally:
        process.kill()
        process.wait()


def test_another_one_that_runs_is_no_failure_of_a_service(machine, manager):
    """A person hears exit code 4; a service manager, which would only try again, a quiet 0 (and READY, or it waits)."""
    daemon = machine.start()
    person = machine.cli("run")
    assert (person.returncode, person.stderr.count("\n")) == (4, 2)
    service = machine.cli("run", "--service")
    assert service.returncode == 0
    assert f"pid {daemon.pid}" in service.stderr
    managed = machine.cli("run", **manager.env)
    assert managed.returncode == 0
    assert manager.gather() == ["READY=1"]
    daemon.stop()


# -- its configuration anew -----------------------------------------------------------------------------------


@pytest.fixture
def muting(machine):
    """A machine with a dangling entry, and its project."""
    machine.configure("audit:\n  grace_s: 0\n")
    project = machine.project().make({"a.md": fact_text("a")})
    project.write_index("a.md", "gone.md")
    return project


def test_a_reload_tells_what_changed_and_goes_by_it(machine, muting):
    """What is muted is cleared, what needs a restart says so, and an unchanged file changes nothing."""
    daemon = machine.start()
    listener = daemon.listen(muting)
    assert daemon.call("daemon.reload") == {"changed": []}
    machine.configure(
        f"audit:\n  grace_s: 0\nmute:\n  '*': [entry-dangling]\nwatch:\n  poll_s: 3\nrescan:\n  every_s: 0\n"
        f"history:\n  max_versions: 3\nlog:\n  level: warning\ndirs:\n  - {machine.home}/named\n"
    )
    (machine.home / "named").mkdir()
    (machine.home / "named" / "n.md").write_text(fact_text("n"))
    changed = {one["key"]: one for one in daemon.call("daemon.reload")["changed"]}
    assert {key for key, one in changed.items() if one["restart"]} == {"watch.poll_s"}
    assert changed.keys() == {
        "mute", "watch.poll_s", "rescan.every_s", "history.max_versions", "log.level", "dirs"
    }  # fmt: skip
    assert (changed["history.max_versions"]["from"], changed["history.max_versions"]["to"]) == (20, 3)
    listener.until(
        lambda event: event["topic"] == "memory/audit" and event["data"]["cleared"], "a cleared finding"
    )
    daemon.call("daemon.flush")
    listed = daemon.call("memory.list", dir=str(machine.home / "named"))
    assert [fact["file"] for fact in listed["facts"]] == ["n.md"]
    assert "rescan" not in {job["name"] for job in daemon.call("status")["jobs"]}
    daemon.stop()


def test_a_file_with_mistakes_changes_nothing(machine, muting):
    """All mistakes are told, the former settings go on, and the daemon runs on."""
    daemon = machine.start()
    machine.configure("audit:\n  grace_s: -1\nmute:\n  '*': [no-such-code]\n")
    with pytest.raises(InvalidParams) as told, Asking(machine.address) as client:
        client.call("daemon.reload")
    assert "grace_s" in str(told.value)
    assert "no-such-code" in str(told.value)
    findings = daemon.call("audit.get", dir=muting.dir)["findings"]
    assert "entry-dangling" in {finding["code"] for finding in findings}
    daemon.stop()


def test_a_hang_up_reads_the_configuration(machine, manager, muting):
    """SIGHUP is what `systemctl reload` sends: RELOADING and READY are told, and the change applies."""
    daemon = machine.start(**manager.env)
    listener = daemon.listen(muting)
    machine.configure("audit:\n  grace_s: 0\nmute:\n  '*': [entry-dangling]\n")
    manager.gather()
    os.kill(daemon.pid, signal.SIGHUP)
    manager.until("RELOADING=1\nMONOTONIC_USEC=")
    manager.until("READY=1")
    listener.until(
        lambda event: event["topic"] == "memory/audit" and event["data"]["cleared"], "a cleared finding"
    )
    machine.configure("mute: 7\n")
    os.kill(daemon.pid, signal.SIGHUP)
    manager.until("RELOADING=1")
    manager.until("READY=1")
    until(lambda: "reload refused" in daemon.log(), "a line in the log")
    daemon.stop()


def test_a_terminal_that_closes_ends_what_runs_in_it(machine):
    """The same signal, and nobody is left to read what a daemon in the foreground says: it leaves in order."""
    machine.project().make({"a.md": fact_text("a")})
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "zcsyncd", "run"],
        env=machine.env,
        cwd=machine.home,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        until(machine.endpoint.exists, "an endpoint")
        with Asking(machine.address) as client:
            client.call("daemon.flush")
        os.close(ours)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
    assert not machine.endpoint.exists()


def test_a_hang_up_before_the_first_scan_is_heeded_after_it(machine):
    """A reload that comes too early neither ends the daemon nor is lost."""
    project = machine.project().make({"a.md": fact_text("a")})
    for number in range(3_000):
        (project.memory / f"n{number:05}.md").write_text(fact_text(f"n{number}"))
    daemon = machine.launch()
    until(machine.endpoint.exists, "an endpoint")
    os.kill(daemon.pid, signal.SIGHUP)
    until(lambda: "reloaded changed=0" in daemon.log(), "a reload")
    daemon.stop()


def test_a_session_does_not_reload_the_daemon(machine):
    """Plugins are no administrators."""
    daemon = machine.start()
    client = daemon.client(cwd=str(machine.home))
    with pytest.raises(Refused):
        client.call("daemon.reload")
    daemon.stop()


# -- its place ------------------------------------------------------------------------------------------------


def test_a_socket_that_was_swept_away_is_bound_again(machine, manager):
    """Connections that there are go on, new ones find the daemon again, and so does who reads the endpoint file."""
    machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start(**manager.env)
    old = daemon.client()
    shutil.rmtree(machine.runtime)
    machine.endpoint.unlink()

    def found() -> bool:
        with contextlib.suppress(NoDaemon):
            return daemon.call("status")["daemon"]["pid"] == daemon.pid
        return False

    until(found, "a daemon at its address")
    assert Path(machine.address).stat().st_mode & 0o777 == 0o600
    assert machine.runtime.stat().st_mode & 0o777 == 0o700
    assert old.call("status")["daemon"]["pid"] == daemon.pid
    until(machine.endpoint.exists, "an endpoint file")
    daemon.stop()
    assert not os.path.exists(machine.address)


def test_a_stolen_socket_is_told_and_taken_back_when_it_is_free(machine, manager):
    """Another program that listens there is not fought; once it is gone the daemon is back."""
    machine.configure("")
    machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start(**manager.env)
    old = daemon.client()
    os.unlink(machine.address)
    thief = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    thief.bind(machine.address)
    thief.listen()
    try:
        told = until(lambda: old.call("status")["daemon"]["complaints"], "a complaint")
        assert machine.address in told[0]
        rounds(manager)
        assert daemon.log().count("trouble about=socket") == 1
    finally:
        thief.close()
    until(lambda: not old.call("status")["daemon"]["complaints"], "an end of it")
    assert daemon.call("status")["daemon"]["pid"] == daemon.pid
    daemon.stop()


def test_an_endpoint_file_that_names_another_is_set_right(machine, manager):
    """Whoever wrote it, a cleaner's backup or a stranger: the holder of the lock is the one that is to be found. Where
    it cannot be written, `status` says so, and the socket is looked after all the same."""
    daemon = machine.start(**manager.env)
    right = machine.endpoint.read_text()
    machine.endpoint.write_text(right.replace(machine.address, "/nowhere/bus.sock"))
    until(lambda: machine.endpoint.read_text() == right, "the right address")
    machine.endpoint.unlink()
    machine.endpoint.mkdir()
    old = daemon.client()
    until(
        lambda: any("endpoint file" in one for one in old.call("status")["daemon"]["complaints"]),
        "a complaint",
    )
    os.unlink(machine.address)
    until(lambda: os.path.exists(machine.address), "the socket")
    machine.endpoint.rmdir()
    until(machine.endpoint.is_file, "an endpoint file")
    daemon.stop()


def test_a_database_that_was_taken_away_is_told(machine, manager):
    """A daemon that writes into a file without a name says so; a service leaves, to be started on what is there."""
    machine.project().make({"a.md": fact_text("a")})
    service = machine.start(**manager.env)
    for path in machine.state.glob("state.db*"):
        path.unlink()
    assert service.process.wait(PATIENCE_S) == 70
    service.ended = True
    assert "was taken away" in service.said()
    machine.start().stop()


# -- another version ------------------------------------------------------------------------------------------


@pytest.fixture
def package(machine):
    """A copy of the package, which the test may update; the machine's daemons run it."""
    place = machine.place / "lib"
    shutil.copytree(CHECKOUT / "zcsyncd", place / "zcsyncd", ignore=shutil.ignore_patterns("__pycache__"))
    machine.env["PYTHONPATH"] = str(place)
    return place / "zcsyncd" / "__init__.py"


def update(package: Path) -> None:
    text = package.read_text()
    assert '__version__ = "' in text
    head, _, tail = text.partition('__version__ = "')
    package.write_text(f'{head}__version__ = "99.1{tail[tail.index(chr(34)) :]}')


def test_a_service_makes_room_for_the_new_version(machine, manager, package):
    """It leaves in order with exit code 75, by which the manager starts the package that is there now."""
    machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start(**manager.env)
    update(package)
    assert daemon.process.wait(PATIENCE_S) == 75
    daemon.ended = True
    assert "STOPPING=1" in manager.gather()
    assert "99.1" in daemon.said()
    with contextlib.closing(sqlite3.connect(machine.state / "state.db")) as database:
        assert database.execute("select topic from events order by seq desc limit 1").fetchone() == (
            "daemon/stopping",
        )
    again = machine.start()
    assert again.call("status")["daemon"]["version"] == "99.1"
    again.stop()


def test_a_daemon_of_a_person_says_that_it_is_older(machine, package):
    """Nobody would start it again, so it stays: `status` tells of both versions."""
    daemon = machine.start()
    update(package)
    assert daemon.call("status")["daemon"]["packageSkew"] == "99.1"
    daemon.stop()


def test_a_lock_that_was_removed_ends_the_daemon(machine, manager):
    """It keeps nobody out any more, and two that write one database are worse than none: it leaves in order, and says
    why."""
    daemon = machine.start(**manager.env)
    (machine.state / "daemon.lock").unlink()
    assert daemon.process.wait(PATIENCE_S) == 7
    daemon.ended = True
    assert "daemon.lock was removed" in daemon.said()
    machine.start().stop()


def test_nothing_is_purged_from_a_database_that_is_gone(machine):
    """A fact whose traces cannot be removed is not removed either: the error comes first."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    for path in machine.state.glob("state.db*"):
        path.unlink()
    for asked in (
        {"method": "memory.forget", "name": "a", "purge": True},
        {"method": "history.purge", "file": "a.md"},
    ):
        method = asked.pop("method")
        with pytest.raises(ZcsyncdError, match="was taken away"), Asking(machine.address) as client:
            client.call(method, {"dir": project.dir, **asked})
    assert (project.memory / "a.md").exists()
    daemon.kill()


def test_a_flush_tells_what_could_not_be_looked_at(machine):
    """Out of descriptors a look is put off; a barrier that passed it by would be none. Once there are some, all is told."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    listener = daemon.listen(project)
    used = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (used, before[1]))
    (project.memory / "sub").mkdir()
    (project.memory / "sub" / "b.md").write_text(fact_text("b"))
    with pytest.raises(ZcsyncdError, match="cannot be looked at"):
        listener.call("daemon.flush", {"rescan": True})
    assert listener.call("status")["daemon"]["degraded"]
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
    listener.until(lambda event: event["topic"] == "memory/changed", "the change")
    until(lambda: not listener.call("status")["daemon"]["degraded"], "an end of it")
    daemon.kill()
