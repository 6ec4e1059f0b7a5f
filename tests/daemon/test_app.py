"""The daemon's own life, as a process: how it ends, and with which exit code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from tests.transcripts.machine import PATIENCE_S, Asking, Machine, fact_text, new_machine, until
from zcsyncd.errors import ZcsyncdError

DYING = """
import sys
from zcsyncd.daemon.pipeline import Pipeline

def die(self, item):
    raise LookupError("a bug of ours")

Pipeline._settled = die
from zcsyncd.__main__ import main
sys.exit(main(["run"]))
"""


@pytest.fixture
def machine():
    """A machine without a daemon."""
    made = new_machine()
    yield made
    made.close()


@pytest.fixture
def many(machine: Machine) -> Machine:
    """A machine whose first scan takes seconds."""
    project = machine.project().make({"a.md": fact_text("a")})
    for number in range(12_000):
        (project.memory / f"n{number:05}.md").write_text(fact_text(f"n{number}"))
    return machine


def topics(machine: Machine) -> list[str]:
    """The journal, as it lies there."""
    with contextlib.closing(sqlite3.connect(machine.state / "state.db")) as connection:
        return [topic for (topic,) in connection.execute("select topic from events order by seq")]


def test_a_daemon_that_hears_nothing_any_more_ends(machine):
    """When the river dies of a bug the daemon ends in order, says so, and its exit code makes a service manager
    start it again."""
    project = machine.project().make({"a.md": fact_text("a")})
    with open(machine.place / "stderr", "wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", DYING],
            env=machine.env,
            cwd=machine.home,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
        )
    try:
        until(machine.endpoint.exists, "an endpoint")
        with contextlib.suppress(ZcsyncdError), Asking(machine.address) as client:
            client.call("memory.list", {"dir": project.dir})
        project.fact("b.md")
        assert process.wait(PATIENCE_S) == 70
    finally:
        process.kill()
        process.wait()
    log = machine.state / "log" / "zcsyncd.log"
    assert "river ended" in log.read_text()
    log.unlink()  # the next one has to be clean
    assert topics(machine)[-1] == "daemon/stopping"
    assert not machine.endpoint.exists()
    assert not os.path.exists(machine.address)
    machine.start().stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_every_usual_signal_ends_it_in_order(machine, number):
    """A service manager, a person at the keyboard: the journal is whole, nothing is left."""
    machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    os.kill(daemon.pid, number)
    daemon.wait(0)
    assert topics(machine)[-1] == "daemon/stopping"
    assert not machine.endpoint.exists()
    assert not os.path.exists(machine.address)


def test_stopped_during_its_first_scan(many):
    """It ends at once, tells nothing after its goodbye, and the next start adopts all in silence."""
    daemon = many.launch()
    until(many.endpoint.exists, "an endpoint")
    with Asking(many.address) as client:
        assert client.call("status")["daemon"]["ready"] is False
    os.kill(daemon.pid, signal.SIGTERM)
    daemon.wait(0)
    assert topics(many) == ["daemon/started", "daemon/stopping"]
    again = many.start()
    listed = again.call("memory.list", dir=many.project().dir)
    assert listed["total"] == 12_001
    again.stop()
    assert set(topics(many)) <= {"daemon/started", "daemon/stopping", "memory/audit"}


def test_told_to_stop_by_a_client_during_its_first_scan(many):
    """`daemon.stop` before ready is answered when everything is down, and nothing comes after its goodbye."""
    daemon = many.launch()
    until(many.endpoint.exists, "an endpoint")
    with Asking(many.address) as client:
        assert client.call("status")["daemon"]["ready"] is False
        client.call("daemon.stop")
    daemon.wait(0)
    assert topics(many) == ["daemon/started", "daemon/stopping"]


def test_a_second_signal_ends_it_at_once(machine):
    """Who asks twice does not wait for the order of leaving; what was told stays told, and the next start works."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    project.fact("b.md")
    daemon.call("daemon.flush")
    before = topics(machine)
    os.kill(daemon.pid, signal.SIGSTOP)
    os.kill(daemon.pid, signal.SIGTERM)
    os.kill(daemon.pid, signal.SIGINT)
    os.kill(daemon.pid, signal.SIGCONT)
    daemon.wait(130)
    assert topics(machine) == before
    again = machine.start()
    assert again.call("memory.list", dir=project.dir)["total"] == 2
    again.stop()


def test_a_second_daemon_is_refused(machine):
    """One daemon per state: the second says who is there and how to stop it, and harms nothing."""
    daemon = machine.start()
    second = machine.cli("run")
    assert second.returncode == 4
    assert str(daemon.pid) in second.stderr
    assert daemon.call("status")["daemon"]["pid"] == daemon.pid
    assert json.loads(machine.endpoint.read_text())["pid"] == daemon.pid
    daemon.stop()


SAVING_AFTER_THE_FIRST_SCAN = """
import sys
from pathlib import Path
from zcsyncd.daemon.pipeline import Pipeline

first_look = Pipeline.scan

async def scan(self, reason, base=None):
    await first_look(self, reason, base)
    if reason == "start":
        Path(sys.argv[1]).write_text(sys.argv[2])

Pipeline.scan = scan
from zcsyncd.__main__ import main
sys.exit(main(["run"]))
"""


def test_the_first_scan_runs_after_the_watches_are_live(machine):
    """What is saved the moment the first scan is over is told: no time lies between the scan and the watches."""
    project = machine.project().make({"a.md": fact_text("a")})
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            SAVING_AFTER_THE_FIRST_SCAN,
            str(project.memory / "late.md"),
            fact_text("late"),
        ],
        env=machine.env,
        cwd=machine.home,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    try:
        until(machine.endpoint.exists, "an endpoint")
        with Asking(machine.address) as client:
            client.call("daemon.flush")
            listed = client.call("memory.list", {"dir": project.dir})["facts"]
            assert [fact["file"] for fact in listed] == ["a.md", "late.md"]
            client.call("daemon.stop")
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
