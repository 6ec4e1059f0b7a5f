"""What fresh eyes asked for: places that nobody may be led out of, times that go on, and a disk that is full."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.transcripts.machine import (
    PATIENCE_S,
    Asking,
    Listener,
    Machine,
    Project,
    Running,
    entry,
    fact_text,
    save,
    until,
)
from zcsyncd.bus.limits import READY_WAIT_S
from zcsyncd.errors import NoDaemon, NotFound, NotReady, Refused, Unreadable, ZcsyncdError


def _session(project: Project, **more: Any) -> dict[str, Any]:
    return {"host": "zcode", "id": f"s-{project.cwd.name}", "cwd": str(project.cwd), **more}


def _speak(client: Asking, project: Project, **more: Any) -> dict[str, Any]:
    return client.call("hello", {"protocol": [1], "session": _session(project, **more)})


# -- reading by name


@pytest.fixture
def secret(shared: Running, project: Project) -> Project:
    """Another project with a fact that is none of this one's business."""
    return shared.machine.project(f"{project.cwd.name}-secret").make({"s.md": fact_text("s", body="SECRET")})


@pytest.mark.parametrize("name", ["link/s.md", "link/s", "up/s.md", "here/link/s.md", "deep/link/s.md"])
def test_reading_does_not_leave_through_a_linked_directory(
    shared: Running, project: Project, secret: Project, name: str
) -> None:
    """A link to a directory is not gone through by name, whoever made it and wherever it leads."""
    project.make({"a.md": fact_text("a")})
    (project.memory / "deep").mkdir()
    (project.memory / "link").symlink_to(secret.memory)
    (project.memory / "deep" / "link").symlink_to(secret.memory)
    (project.memory / "up").symlink_to(os.path.relpath(secret.memory, project.memory))
    (project.memory / "here").symlink_to(".")
    shared.call("daemon.flush")
    with shared.client() as client:
        _speak(client, project)
        with pytest.raises((Refused, NotFound)) as caught:
            client.call("memory.read", {"name": name})
        assert "SECRET" not in str(caught.value)
    with pytest.raises((Refused, NotFound)):
        shared.call("memory.read", dir=project.dir, name=name)


@pytest.mark.parametrize(
    "name", ["../s.md", "sub/../../s.md", "/etc/passwd", "..", ".", "", "a.md/../a.md", "a\0.md"]
)
def test_reading_does_not_leave_by_its_name(shared: Running, project: Project, name: str) -> None:
    """A name is one of a file in the directory, never a way out of it."""
    project.make({"a.md": fact_text("a")})
    (project.memory.parent / "s.md").write_text(fact_text("s"))
    shared.call("daemon.flush")
    with pytest.raises(ZcsyncdError) as caught:
        shared.call("memory.read", dir=project.dir, name=name)
    assert caught.value.word in ("refused", "not-found", "invalid-params")


def test_what_is_no_fact_is_not_read(machine: Machine) -> None:
    """A file that the configuration passes over and an index in a subdirectory are not read by name, just written or
    long there; the daemon answers as the command does without it."""
    machine.configure('ignore:\n  - "draft-*.md"\n')
    project = machine.project().make(
        {"a.md": fact_text("a"), "draft-1.md": fact_text("draft"), "sub/MEMORY.md": "x"}
    )
    daemon = machine.start()
    (project.memory / "draft-2.md").write_text(fact_text("draft"))
    (project.memory / "other").mkdir()
    (project.memory / "other" / "MEMORY.md").write_text("x")
    for name in ("draft-1.md", "draft-1", "draft-2.md", "draft", "sub/MEMORY.md", "other/MEMORY.md"):
        with pytest.raises((NotFound, Refused)):
            daemon.call("memory.read", dir=project.dir, name=name)
        assert machine.cli("memory", "read", name, "--dir", project.dir).returncode in (5, 7)
    with pytest.raises(Refused):
        daemon.call("memory.read", dir=project.dir, name="MEMORY.md")
    assert daemon.call("memory.read", dir=project.dir, name="a")["name"] == "a"
    daemon.stop()


def test_what_cannot_be_read_is_called_so(shared: Running, project: Project) -> None:
    """A FIFO, a directory, a link to nothing and a link in a circle that are called like facts are there, but
    unreadable: `not-found` would send the reader off to make what exists."""
    project.make({"a.md": fact_text("a")})
    os.mkfifo(project.memory / "fifo.md")
    (project.memory / "folder.md").mkdir()
    (project.memory / "circle.md").symlink_to("circle.md")
    shared.call("daemon.flush")
    for name in ("fifo.md", "fifo", "folder.md", "circle.md"):
        with pytest.raises(Unreadable):
            shared.call("memory.read", dir=project.dir, name=name)


# -- the environment


def test_a_difference_of_environment_is_told_and_ends(shared: Running, project: Project) -> None:
    """What moves roots in a session's shell, pi's variable among it, is compared with the daemon's own; the row is gone
    when that host's next session agrees."""
    project.make({"a.md": fact_text("a")})
    host = f"host-{project.cwd.name}"

    def told() -> list[dict[str, Any]]:
        return [row for row in shared.call("status")["environment"] if row["host"] == host]

    with shared.client() as client:
        _speak(client, project, host=host, env={"PI_CODING_AGENT_DIR": "/elsewhere/pi", "PATH": "/bin"})
        assert told() == [
            {"name": "PI_CODING_AGENT_DIR", "host": host, "session": "/elsewhere/pi", "daemon": None}
        ]
        assert client.call("status")["environment"] == []
    with shared.client() as client:
        _speak(client, project, host=host, env={"ZCODE_STORAGE_DIR": "/elsewhere/zcode"})
        assert [row["name"] for row in told()] == ["ZCODE_STORAGE_DIR"]
    with shared.client() as client:
        _speak(client, project, host=host, env={})
        assert told() == []


def test_the_same_environment_is_no_difference(machine: Machine) -> None:
    """A daemon that was started with the variable hears nothing new from a session that has it too."""
    elsewhere = str(machine.home / "pi-agent")
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start(PI_CODING_AGENT_DIR=elsewhere)
    with daemon.client() as client:
        _speak(client, project, env={"PI_CODING_AGENT_DIR": elsewhere})
        assert daemon.call("status")["environment"] == []
        _speak(client, project, env={"PI_CODING_AGENT_DIR": ""})
    (row,) = daemon.call("status")["environment"]
    assert (row["session"], row["daemon"]) == ("", elsewhere)
    daemon.stop()


# -- appearing and going


def test_nothing_is_told_half_written_while_its_directory_appears(shared: Running, project: Project) -> None:
    """Whatever is `added` while a directory is being filled, file by file and in two steps each, was whole: its hash is
    that of the file on the disk at the end."""
    listener = shared.listen()
    for number in range(8):
        each = shared.machine.project(f"{project.cwd.name}-{number}")
        each.memory.mkdir(parents=True)
        for name in (f"f{n}.md" for n in range(30)):
            with open(each.memory / name, "w", encoding="utf-8") as file:
                text = fact_text(name)
                file.write(text[: len(text) // 2])
                file.flush()
                file.write(text[len(text) // 2 :])
        listener.flush()
        added = {
            c["file"]: c["contentHash"] for c in listener.changes(None, each.dir) if c["kind"] == "added"
        }
        assert added == {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in each.memory.iterdir()
        }
        assert {change["kind"] for change in listener.changes(None, each.dir)} == {"added"}


def _comings_and_goings(listener: Listener, directory: str) -> list[str]:
    return [
        event["topic"].removeprefix("memory/dir-")
        for event in listener.heard
        if event["topic"] in ("memory/dir-added", "memory/dir-removed") and event["dir"] == directory
    ]


def test_a_directory_made_again_at_once_is_told_as_two(shared: Running, project: Project) -> None:
    """Removed and made again without a pause, with the same file too: told removed and added, each time."""
    project.make({"a.md": fact_text("a")})
    listener = shared.listen(project)
    for _ in range(10):
        listener.forget()
        shutil.rmtree(project.memory)
        project.memory.mkdir()
        (project.memory / "a.md").write_text(fact_text("a"))
        listener.flush()
        assert _comings_and_goings(listener, project.dir) == ["removed", "added"]
        assert listener.kinds("a.md") == ["deleted", "added"]


def test_a_root_made_again_at_once_is_told_as_two(machine: Machine) -> None:
    """The same for all that lies below a root: every directory is removed and added, never merely changed."""
    projects = [machine.project(f"p{number}") for number in range(3)]
    for project in projects:
        project.make({"a.md": fact_text("a")}, index=False)
    daemon = machine.start()
    listener = daemon.listen()
    for _ in range(5):
        listener.forget()
        shutil.rmtree(machine.home / ".zcode")
        for project in projects[:2]:
            project.make({"a.md": fact_text("a")}, index=False)
        listener.flush()
        for project in projects[:2]:
            assert _comings_and_goings(listener, project.dir) == ["removed", "added"]
            assert [c["kind"] for c in listener.changes("a.md", project.dir)] == ["deleted", "added"]
        assert _comings_and_goings(listener, projects[2].dir) in (["removed"], [])
    assert daemon.call("dirs.list")["total"] == 2
    daemon.stop()


# -- what goes on over a restart


def test_a_new_state_adopts_an_empty_index_in_silence(machine: Machine) -> None:
    """An index that has been empty for years is no news a second after the first start."""
    project = machine.project().make({"a.md": fact_text("a")}, index=False)
    index = project.memory / "MEMORY.md"
    index.write_bytes(b"")
    os.utime(index, (1_000_000_000, 1_000_000_000))
    daemon = machine.start()
    listener = daemon.listen()
    (kept,) = daemon.call("dirs.list")["dirs"]
    assert kept["revision"] is not None
    project.fact("b.md")
    until(lambda: time.time() - (project.memory / "b.md").stat().st_mtime > 1.2, "a second and more")
    listener.flush()
    assert {change["file"] for change in listener.changes()} == {"b.md"}
    assert listener.of("memory/index") == []
    assert "index-missing" not in listener.codes("cleared")
    daemon.stop()


def test_the_grace_goes_on_over_a_restart(machine: Machine) -> None:
    """The clock of a grace begins when the state was first seen: a restart neither begins it anew nor ends it."""
    machine.configure("audit:\n  grace_s: 4\n")
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    project.fact("b.md")
    daemon.call("daemon.flush")
    saved = time.monotonic()
    (pending,) = daemon.call("audit.get", dir=project.dir)["findings"]
    assert (pending["code"], pending["pending"]) == ("fact-unindexed", True)
    daemon.stop()
    until(lambda: time.monotonic() - saved > 2, "two seconds")
    daemon = machine.start()
    listener = daemon.listen(project)
    assert listener.codes("appeared") == []
    (again,) = daemon.call("audit.get", dir=project.dir)["findings"]
    if time.monotonic() - saved < 3.5:
        assert (again["pending"], again["since"]) == (True, pending["since"])
    event = listener.until(lambda event: event["topic"] == "memory/audit" and event["data"]["appeared"])
    took = time.monotonic() - saved
    assert event["data"]["appeared"][0]["since"] == pending["since"]
    assert 3.5 < took < 6 or took > PATIENCE_S / 2, took
    daemon.stop()


def test_a_dismissal_without_its_finding_can_be_taken_back(machine: Machine) -> None:
    """A dismissed defect that was mended, and whose dismissal was taken back then, is told when it comes again."""
    machine.configure("audit:\n  grace_s: 0\n")
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    listener = daemon.listen(project)
    project.fact("b.md")
    listener.flush()
    (finding,) = daemon.call("audit.get", dir=project.dir)["findings"]
    daemon.call("audit.dismiss", key=finding["key"])
    project.write_index("a.md", "b.md")
    daemon.call("daemon.flush")
    assert daemon.call("audit.get", dir=project.dir)["total"] == 0
    daemon.call("audit.dismiss", key=finding["key"], undo=True)
    daemon.stop()
    daemon = machine.start()
    listener = daemon.listen(project)
    save(project.memory / "MEMORY.md", "# By hand\n\n" + entry("a.md"))  # an edit, no older text
    event = listener.until(lambda event: event["topic"] == "memory/audit" and event["data"]["appeared"])
    assert event["data"]["appeared"][0]["key"] == finding["key"]
    with pytest.raises(NotFound):
        daemon.call("audit.dismiss", key="fact-unindexed:000000000000", undo=True)
    daemon.stop()


# -- before it is ready


def test_not_ready_after_the_wait(machine: Machine) -> None:
    """A request about memory waits for a long first scan, but not without end: `not-ready`. `status` answers
    meanwhile, and says so; afterwards everything is as usual."""
    project = machine.project().make({"a.md": fact_text("a")})
    for number in range(15_000):
        (project.memory / f"n{number:05}.md").write_text(fact_text(f"n{number}"))
    daemon = machine.launch()
    until(machine.endpoint.exists, "an endpoint")
    waiting = daemon.plain_socket()
    waiting.sendall(
        json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "memory.list", "params": {"dir": project.dir}}
        ).encode()
        + b"\n"
    )
    status = daemon.call("status")
    assert status["daemon"]["ready"] is False
    # The machine is busy with something else for a while: the scan stands still, its waiters' time does not.
    os.kill(daemon.pid, signal.SIGSTOP)
    began = time.monotonic()
    until(lambda: time.monotonic() - began > READY_WAIT_S + 0.2, "the wait")
    os.kill(daemon.pid, signal.SIGCONT)
    with waiting.makefile() as lines:
        answer = json.loads(lines.readline())
    assert answer["error"]["code"] == NotReady.wire_code
    daemon.call("daemon.flush")
    assert daemon.call("status")["daemon"]["ready"] is True
    assert daemon.call("memory.list", dir=project.dir)["total"] == 15_001
    daemon.stop()


# -- what status tells


def test_drift_and_the_last_event_in_status(machine: Machine) -> None:
    """A change that no event told, found by a rescan, is counted and told; the last event's time follows the news."""
    project = machine.project().make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    outside = machine.home / "outside"
    os.link(project.memory / "a.md", outside)
    daemon = machine.start()
    listener = daemon.listen()
    before = daemon.call("status")["daemon"]
    assert before["driftFound"] == 0
    # Written through its other name: the kernel tells the watchers of that name's directory only.
    outside.write_text(fact_text("a", description="another"))
    listener.flush()
    assert listener.changes() == []
    # A file that was written just now is waited for, as if an event had told it.
    until(lambda: time.time() - outside.stat().st_mtime > 0.2, "a file that is no longer being written")
    listener.flush(rescan=True)
    assert listener.kinds("a.md") == ["updated"]
    (rescanned,) = listener.of("daemon/rescanned")
    assert (rescanned["reason"], rescanned["drift"]) == ("asked", 1)
    after = daemon.call("status")["daemon"]
    assert after["driftFound"] == 1
    assert after["lastEventAt"] is not None
    assert after["lastScanAt"] >= (before["lastScanAt"] or "")
    project.fact("b.md", description="new")
    listener.flush()
    last = daemon.call("status")["daemon"]
    assert last["lastEventAt"] >= after["lastEventAt"]
    assert last["driftFound"] == 1
    (tree,) = last["trees"]
    assert tree["lastEventAt"] is not None
    daemon.stop()


# -- events that are large


def test_long_descriptions_are_told_without_a_gap(shared: Running, project: Project) -> None:
    """However much front matter holds, every change of a batch reaches its subscribers, in lines that a client takes."""
    project.make({"a.md": fact_text("a")})
    listener = shared.listen(project)
    listener.forget()
    aside = shared.machine.place / f"aside-{project.cwd.name}"
    aside.mkdir()
    names = [f"long{number:02}.md" for number in range(60)]
    for name in names:
        (aside / name).write_text(fact_text(name, description="語" * 20_000), encoding="utf-8")
    os.rename(aside, project.memory / "sub")
    listener.flush()
    assert "bus/gap" not in listener.topics
    assert sorted(change["file"] for change in listener.changes()) == [f"sub/{name}" for name in names]


# -- a disk that is full


@contextlib.contextmanager
def _full_tmpfs(machine: Machine, daemon: Running) -> Iterator[None]:
    ballast = machine.state / "ballast"
    with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
        file.writelines(b"x" * 1024 for _ in itertools.count())
    yield
    ballast.unlink()


@contextlib.contextmanager
def _full_quota(machine: Machine, daemon: Running) -> Iterator[None]:
    before = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, before)


@pytest.fixture(params=["tmpfs", "quota"])
def filled(request: pytest.FixtureRequest, machine: Machine) -> Iterator[Callable[[Running], Any]]:
    """A way to leave the daemon's state no room for a while: a real full file system, or a limit on its files."""
    if request.param == "quota":
        if not sys.platform.startswith("linux"):
            pytest.skip("the limit of another process is set on Linux only")
        yield lambda daemon: _full_quota(machine, daemon)
        return
    if os.geteuid() != 0:
        pytest.skip("only root mounts a file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", str(machine.state)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no mount here: {mounted.stderr.decode().strip()}")
    yield lambda daemon: _full_tmpfs(machine, daemon)
    for daemon in machine.running:
        daemon.close()
    subprocess.run(["umount", str(machine.state)], check=True)


def test_a_full_disk_loses_nothing(machine: Machine, filled: Callable[[Running], Any]) -> None:
    """While the journal takes nothing, whoever asks for something to be kept gets an error that says what to do, and
    `status` says it too; saves made meanwhile are told, each once, when there is room."""
    project = machine.project().make({"a.md": fact_text("a"), "c.md": "no front matter\n"})
    outside = machine.home / "named"
    outside.mkdir()
    daemon = machine.start()
    listener = daemon.listen(project)
    (finding,) = daemon.call("audit.get", dir=project.dir)["findings"]
    with filled(daemon):
        for number in range(5):
            project.fact(f"n{number}.md")
        project.write_index("a.md", "c.md")

        def refused() -> bool:
            return any("state.db" in row["base"] for row in daemon.call("status")["daemon"]["degraded"])

        until(refused, "a word about the full disk")
        for method, params in (
            ("daemon.flush", {}),
            ("audit.dismiss", {"key": finding["key"]}),
            ("dirs.allow", {"dir": str(outside), "allow": True}),
        ):
            with pytest.raises(ZcsyncdError) as caught:
                daemon.call(method, **params)
            assert caught.value.hint, method
        with daemon.client() as client:
            _speak(client, project)
            with pytest.raises(ZcsyncdError):
                client.call("memory.read", {"name": "a"})
        assert daemon.call("memory.read", dir=project.dir, name="a")["name"] == "a"
        assert listener.gather() == []
    until(lambda: not daemon.call("status")["daemon"]["degraded"], "room")
    listener.flush()
    told = [change["file"] for change in listener.changes() if change["file"] != "MEMORY.md"]
    assert sorted(told) == [f"n{number}.md" for number in range(5)]
    (still,) = [
        f for f in daemon.call("audit.get", dir=project.dir)["findings"] if f["key"] == finding["key"]
    ]
    assert still["dismissed"] is False
    assert str(outside) not in {row["dir"] for row in daemon.call("dirs.list")["dirs"]}
    daemon.call("audit.dismiss", key=finding["key"])
    os.kill(daemon.pid, signal.SIGTERM)
    assert daemon.process.wait(PATIENCE_S) == 0
    daemon.ended = True
    assert "Traceback" not in daemon.said()
    again = machine.launch()

    def answers() -> bool:
        with contextlib.suppress(NoDaemon):
            again.call("daemon.flush")
            return True
        return False

    until(answers, "a daemon that answers")
    assert again.call("memory.list", dir=project.dir)["total"] == 7
    os.kill(again.pid, signal.SIGTERM)
    assert again.process.wait(PATIENCE_S) == 0
    again.ended = True
