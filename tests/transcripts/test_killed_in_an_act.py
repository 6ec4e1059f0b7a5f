"""kill -9 at every step of a write, a forget, a repair, a restore, an undo: old bytes or new ones, nothing left over.

Each act is done once without disturbance, to see which steps it comes to; then there is one project for each step,
all acts stand still there, the daemon is killed, and started again.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.transcripts.machine import PATIENCE_S, Machine, Project, Running, entry, fact_text, save, until
from tests.transcripts.pen_room import INDEX, Disk, digest, read_disk, targets
from zcsyncd.bus.client import Client
from zcsyncd.daemon import desk
from zcsyncd.errors import NotFound, Refused, ZcsyncdError
from zcsyncd.memory import exchange, pen

FILES = ("a.md", "b.md", "c.md", "d.md")
THEIRS = {
    "b.md": fact_text("b", body="Somebody else's."),
    INDEX: "# Memory\n\n" + "".join(map(entry, FILES)) + "\nTheirs.\n",
}
NOTE = {"name": "b", "description": "Other words", "type": "project", "body": "New.\n", "mode": "upsert"}


ROUND = 128
"""Acts that are killed together."""


@dataclass(frozen=True)
class Way:
    """One act, and what happens around it."""

    name: str
    request: Callable[[Running, Project], tuple[str, dict[str, Any]]]
    """Prepare a project for the act, and give its method and parameters."""
    amid: tuple[str, int, str] | None = None
    """Somebody replaces a file when the act has come to a step for the so-manieth time."""
    lacks: str | None = None
    """What the system cannot: `exchange`, or `links` as well."""


def ask(daemon: Running, method: str, **params: Any) -> dict[str, Any]:
    """Ask, and hold the answer against nothing: that it fits `describe` is held elsewhere, and takes its time."""
    with Client(daemon.machine.address, PATIENCE_S) as client:
        return client.call(method, params, timeout_s=PATIENCE_S)


def write_new(daemon: Running, project: Project) -> tuple[str, dict[str, Any]]:
    return "memory.write", {"dir": project.dir, **NOTE, "name": "new"}


def overwrite(daemon: Running, project: Project) -> tuple[str, dict[str, Any]]:
    return "memory.write", {"dir": project.dir, **NOTE}


def forget(daemon: Running, project: Project) -> tuple[str, dict[str, Any]]:
    return "memory.forget", {"dir": project.dir, "name": "b.md"}


def repair(daemon: Running, project: Project) -> tuple[str, dict[str, Any]]:
    project.write_index("a.md", "c.md")
    ask(daemon, "daemon.flush")
    return "memory.repair", {"dir": project.dir, "apply": True}


def restore(daemon: Running, project: Project) -> tuple[str, dict[str, Any]]:
    project.fact("b.md", body="Somebody else's.")
    ask(daemon, "daemon.flush")
    [version] = ask(daemon, "history.list", dir=project.dir, file="b.md")["versions"]
    return "history.restore", {"saved": version["saved"]}


def restore_forgotten(daemon: Running, project: Project) -> tuple[str, dict[str, Any]]:
    return "history.restore", {"saved": ask(daemon, "memory.forget", dir=project.dir, name="b.md")["saved"]}


def undo_of(method: str, **params: Any) -> Callable[[Running, Project], tuple[str, dict[str, Any]]]:
    def undo(daemon: Running, project: Project) -> tuple[str, dict[str, Any]]:
        ask(daemon, method, dir=project.dir, **params)
        return "history.undo", {"dir": project.dir}

    return undo


WAYS = [
    Way("new", write_new),
    Way("overwrite", overwrite),
    Way("forget", forget),
    Way("repair", repair),
    Way("restore", restore),
    Way("restore-forgotten", restore_forgotten),
    Way("undo-new", undo_of("memory.write", **{**NOTE, "name": "new"})),
    Way("undo-overwrite", undo_of("memory.write", **NOTE)),
    Way("undo-forget", undo_of("memory.forget", name="b.md")),
    Way("overwrite-amid", overwrite, amid=("compared", 1, "b.md")),
    Way("new-amid", write_new, amid=("compared", 2, INDEX)),
    Way("forget-amid", forget, amid=("compared", 2, "b.md")),
    Way("new-plain", write_new, lacks="exchange"),
    Way("overwrite-plain", overwrite, lacks="exchange"),
    Way("forget-plain", forget, lacks="exchange"),
    Way("new-plainest", write_new, lacks="links"),
]


class Stopping(Machine):
    """A machine whose daemon stops acts where a test says so."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.parks = place / "p"
        self.parks.mkdir()
        # What is pending is told at once: no test waits for a grace.
        self.configure("audit:\n  grace_s: 0\n")

    def launch(self, *words: str, **env: str) -> Running:
        stderr = self.place / f"stderr-{len(self.running)}"
        with open(stderr, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-W", "default", "-m", "tests.transcripts.parked", "run", *words],
                env={**self.env, "ZCSYNCD_PARKS": str(self.parks), **env},
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self.running.append(Running(self, process, stderr))
        return self.running[-1]

    def order(self, orders: dict[str, dict[str, Any]]) -> None:
        for name in ("visits", "waiting"):
            (self.parks / name).write_bytes(b"")
        save(self.parks / "orders.json", json.dumps(orders))

    def stand_down(self) -> None:
        (self.parks / "orders.json").unlink()

    def lines(self, name: str) -> list[list[str]]:
        return [line.split("\t") for line in (self.parks / name).read_text().splitlines()]


@dataclass
class Case:
    """One act in a project of its own, to be stopped at one step (None: at none)."""

    way: Way
    stop: tuple[str, int] | None
    project: Project
    visits: list[tuple[str, int]] = field(default_factory=list)
    """All steps of the way, in order."""
    method: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    before: Disk = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.way.name} at {self.stop}"

    def order(self, machine: Stopping) -> dict[str, Any]:
        order: dict[str, Any] = {"lacks": self.way.lacks, "stop": list(self.stop) if self.stop else None}
        if self.way.amid is not None:
            step, count, file = self.way.amid
            theirs = machine.parks / f"theirs-{self.project.cwd.name}"
            theirs.write_text(THEIRS[file], encoding="utf-8")
            order |= {"amid": [step, count], "theirs": str(theirs), "file": file}
        return order

    def act(self, daemon: Running) -> dict[str, Any] | ZcsyncdError:
        """Do it as soon as it is not too early; give the answer, or the error."""

        def tried() -> Any:
            try:
                return ask(daemon, self.method, **self.params)
            except Refused as error:
                return None if "retryAfterMs" in error.data else error
            except ZcsyncdError as error:
                return error

        return until(tried, self.name)


def _start(machine: Stopping) -> Running:
    daemon = machine.start()
    until(lambda: ask(daemon, "memory.search", query="x").get("complete", True), "everything saved")
    return daemon


def _prepare(machine: Stopping, daemon: Running, cases: list[Case]) -> None:
    """Make the projects, and bring each to where its act begins."""
    for case in cases:
        case.project.make({name: fact_text(name[0]) for name in FILES})
    ask(daemon, "daemon.flush", rescan=True)
    until(lambda: ask(daemon, "memory.search", query="x").get("complete", True), "everything saved")
    for case in cases:
        case.method, case.params = case.way.request(daemon, case.project)
    ask(daemon, "daemon.flush")
    for case in cases:
        case.before = read_disk(case.project.memory)


def _undisturbed(
    machine: Stopping, daemon: Running
) -> tuple[dict[str, list[tuple[str, int]]], dict[str, Disk]]:
    """Do each act to its end; give the steps that it came to, and what it left."""
    cases = [Case(way, None, machine.project(f"dry-{way.name}")) for way in WAYS]
    _prepare(machine, daemon, cases)
    machine.order({case.project.dir: case.order(machine) for case in cases})
    for case in cases:
        answer = case.act(daemon)
        refused = case.way.amid is not None and case.way.amid[2] != INDEX
        assert isinstance(answer, ZcsyncdError) == refused, f"{case.name}: {answer!r}"
    machine.stand_down()
    steps: dict[str, list[tuple[str, int]]] = {case.project.dir: [] for case in cases}
    for directory, step, count in machine.lines("visits"):
        steps[directory].append((step, int(count)))
    return (
        {case.way.name: steps[case.project.dir] for case in cases},
        {case.way.name: read_disk(case.project.memory) for case in cases},
    )


def _kill(machine: Stopping, daemon: Running, cases: list[Case]) -> None:
    """Have all acts stand still at their steps, then end the daemon as a power cut would."""
    repaired = {case.project.dir for case in cases if case.method == "memory.repair"}
    until(lambda: not repaired or _is_still(daemon, repaired), "a directory that is left alone")
    machine.order({case.project.dir: case.order(machine) for case in cases})
    asking: list[socket.socket] = []
    for case in cases:
        asking.append(daemon.plain_socket())
        request = {"jsonrpc": "2.0", "id": 1, "method": case.method, "params": case.params}
        asking[-1].sendall(json.dumps(request).encode() + b"\n")

    def missing() -> set[str]:
        there = {directory for (directory,) in machine.lines("waiting")}
        return {case.name for case in cases if case.project.dir not in there}

    until(lambda: not missing(), "each act at its step")
    daemon.kill()
    for each in asking:
        each.close()
    machine.stand_down()


def _is_still(daemon: Running, directories: set[str]) -> bool:
    """Tell whether directories were left alone for so long that a repair is not too early."""
    rows = ask(daemon, "dirs.list", limit=500)["dirs"]
    changed = [datetime.fromisoformat(row["changedAt"]) for row in rows if row["dir"] in directories]
    return datetime.now(UTC) - max(changed) > timedelta(seconds=desk.STILL_S)


def _check_files(case: Case, left: dict[str, Disk]) -> None:
    """Each file has its old bytes or its new ones, or another writer's, and else there are temporary ones only."""
    now = read_disk(case.project.memory)
    # What an act writes that meets another writer, and what it would have written.
    ends = [left[way.name] for way in WAYS if way.request is case.way.request]
    for file in {*case.before, *now}.union(*ends):
        allowed = [case.before.get(file), *(end.get(file) for end in ends)]
        if case.way.amid is not None and case.way.amid[2] == file:
            allowed.append(THEIRS[file].encode())
        if case.way.lacks == "links" and file == "new.md":
            allowed.append(b"")  # the name is taken by an empty file, until the next start
        assert now.get(file) in allowed, f"{case.name}: {file} has strange bytes {now.get(file)!r}"
    others = [name for name in os.listdir(case.project.memory) if not name.endswith(".md")]
    assert all(".tmp." in name for name in others), others


def _check_after_start(daemon: Running, case: Case, new: Disk) -> None:
    """Nothing is left over, everything can be had, and the audit says what is half done."""
    disk = read_disk(case.project.memory)
    assert sorted(os.listdir(case.project.memory)) == sorted(disk), f"{case.name}: something was left"
    versions = ask(daemon, "history.list", dir=case.project.dir, limit=500)["versions"]
    saved = {(version["file"], version["contentHash"]) for version in versions}
    had = list(case.before.items())
    if case.way.amid is not None and case.stop is not None and _is_after(case):
        had.append((case.way.amid[2], THEIRS[case.way.amid[2]].encode()))
    for file, content in had:
        assert disk.get(file) == content or (file, digest(content)) in saved, f"{case.name}: {file} is lost"
    for file, content in disk.items():
        assert content in (case.before.get(file), new.get(file)) or case.way.amid, f"{case.name}: {file}"
    said = ask(daemon, "audit.get", dir=case.project.dir)["findings"]
    entered = set(targets(disk.get(INDEX)))
    without_entry = {
        finding.get("target") or finding["file"]
        for finding in said
        if finding["code"] in ("fact-unindexed", "entry-lost")
    }
    assert without_entry == disk.keys() - {INDEX} - entered, f"{case.name}: {said}"
    dangling = {finding["target"] for finding in said if finding["code"] == "entry-dangling"}
    assert dangling == entered - disk.keys(), f"{case.name}: {said}"
    assert {finding["code"] for finding in said} <= {"fact-unindexed", "entry-lost", "entry-dangling"}
    assert not any(finding["pending"] for finding in said)


def _is_after(case: Case) -> bool:
    """Tell whether the other writer had come when the act was stopped."""
    return case.stop in case.visits[case.visits.index(case.way.amid[:2]) :]


def _check_again(daemon: Running, case: Case, new: Disk) -> None:
    """The same act works, and leaves what it leaves when nothing disturbs it; an undo that was told is undone."""
    if case.method == "history.undo" and case.stop == ("desk.taken", 1):
        new = case.before
    done = case.act(daemon)
    if isinstance(done, NotFound):
        assert case.method == "memory.forget", f"{case.name}: {done}"
    else:
        assert not isinstance(done, ZcsyncdError), f"{case.name}: {done!r}"
    disk = read_disk(case.project.memory)
    taken = case.stop in {("directory-synced", 1), ("desk.drawn", 1)}
    if case.method == "history.undo" and taken and disk == case.before:
        # Its files were in their places and taken in: whatever else was told before the kill has told it, too.
        new = case.before
    assert disk.keys() == new.keys(), case.name
    for file in disk.keys() - {INDEX}:
        assert disk[file] == new[file], f"{case.name}: {file}"
    assert set(targets(disk[INDEX])) == set(targets(new[INDEX])), case.name
    left = ask(daemon, "audit.get", dir=case.project.dir, fresh=True)["findings"]
    assert left == [], case.name


def _can_exchange(directory: Path) -> bool:
    """Tell whether the system can swap two names here: without that, not all steps are there to be reached."""
    folder = os.open(directory, os.O_RDONLY)
    try:
        exchange.exchange(folder, "none", "neither")
    except exchange.Unsupported:
        return False
    except FileNotFoundError:
        return True
    finally:
        os.close(folder)


@pytest.fixture
def stopping() -> Iterator[Stopping]:
    """Such a machine without a daemon, in memory where there is such a place."""
    place = next((path for path in ("/dev/shm", "/tmp") if os.access(path, os.W_OK)), None)
    machine = Stopping(Path(os.path.realpath(tempfile.mkdtemp(prefix="zc", dir=place))))
    yield machine
    machine.close()


@pytest.mark.timeout(240)
def test_killed_at_every_step_of_every_act(stopping):
    """Each file has old or new bytes, no other; after the next start nothing is left over, nothing is lost, what is
    half done is told, and the same act works."""
    if not _can_exchange(stopping.place):
        pytest.skip("no renames that swap on this system")
    daemon = _start(stopping)
    steps, left = _undisturbed(stopping, daemon)
    assert {step for visits in steps.values() for step, _ in visits} == {*pen.STEPS, *desk.STEPS}
    cases = [
        Case(way, stop, stopping.project(f"{way.name}-{stop[0]}-{stop[1]}"), steps[way.name])
        for way in WAYS
        for stop in steps[way.name]
    ]
    for start in range(0, len(cases), ROUND):
        some = cases[start : start + ROUND]
        _prepare(stopping, daemon, some)
        _kill(stopping, daemon, some)
        for case in some:
            _check_files(case, left)
        daemon = _start(stopping)
        assert not list(stopping.state.glob("*.broken-*")), "the database was set aside"
        for case in some:
            _check_after_start(daemon, case, left[case.way.name])
        for case in some:
            _check_again(
                daemon, case, left[next(way.name for way in WAYS if way.request is case.way.request)]
            )
    daemon.stop()
