"""The supervisor's rounds, in a daemon of this process: real disk, real watch, clocks set by hand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys

import pytest

from tests.transcripts.machine import fact_text, new_machine
from zcsyncd.daemon.app import opened
from zcsyncd.daemon.supervisor import Moment, jump
from zcsyncd.watching import stream

PATIENCE_S = 20.0


@pytest.mark.parametrize(
    ("passed", "wall", "boot", "says"),
    [
        (60, 60, 60, None),
        (60, 61, 60, None),  # the clock is being adjusted
        (60, 3660, 3660, "woke"),
        (60, 3660, 60, "clock"),  # set forward
        (60, -3540, 60, "clock"),  # set back
        (60, 30, 3660, "woke"),  # slept, and set
        (3600, 3600, 3600, "woke"),  # stood still for an hour: a round came much too late
        (60, 60, None, None),
        (60, 3660, None, "woke"),
        (60, -3540, None, "clock"),
        (3600, 3600, None, "woke"),  # Windows: the clock runs through a sleep
    ],
)
def test_what_clocks_tell(passed, wall, boot, says):
    """A sleep, a clock that was set, and the small corrections that are neither, with and without a boot clock."""
    before = Moment(1000.0, 5e9, None if boot is None else 2000.0)
    now = Moment(1000.0 + passed, 5e9 + wall, None if boot is None else 2000.0 + boot)
    assert jump(before, now, 60.0) == says


def test_the_real_clocks_run_together():
    """Two looks at this machine's own clocks, one after the other, are no jump."""
    before = Moment.now()
    assert jump(before, Moment.now(), 60.0) is None


@pytest.fixture
def machine():
    """A machine without a daemon."""
    made = new_machine()
    yield made
    made.close()


@contextlib.asynccontextmanager
async def living(machine):
    """A daemon in this process, ready; its rounds are made by the test."""
    with opened(machine.env, logs=False) as make:
        daemon = make()
        await daemon.start()
        await daemon.supervisor.stop()
        try:
            yield daemon
        finally:
            await daemon.shut_down()
            await daemon.close()


async def fact_of(fact, what):
    """Wait until something holds that nobody tells this test of."""
    async with asyncio.timeout(PATIENCE_S):
        while not fact():  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.01)
    assert fact(), what


def told(daemon, topic):
    """What the journal holds of a topic."""
    return [event for event in daemon.database.read(0, 1000) if event.topic == topic]


@pytest.mark.parametrize(("wall", "boot", "reason"), [(7200, 7200, "woke"), (-7200, 0, "clock")])
def test_a_jump_gives_one_scan(machine, wall, boot, reason):
    """After a sleep or a jump everything is looked at once, not once for each round that was missed, and the periodic
    jobs count from now."""
    machine.project().make({"a.md": fact_text("a")})

    async def main():
        async with living(machine) as daemon:
            now = Moment.now()
            jumped = Moment(
                now.monotonic, now.wall + wall, (now.boot or 0.0) + boot if now.boot is not None else None
            )
            await daemon.supervisor.go_round(now)
            assert told(daemon, "daemon/rescanned") == []
            await daemon.supervisor.go_round(jumped)
            await daemon.supervisor.go_round(jumped)
            scans = told(daemon, "daemon/rescanned")
            assert [f'"reason":"{reason}"' in scan.data for scan in scans] == [True]
            due = {job.name: job.next_run_ms for job in daemon.schedule.states()}
            assert all(0 < at - daemon.started_ms < 4_000_000 for at in due.values()), due

    asyncio.run(main())


def test_a_watcher_that_fell_silent_is_armed_anew(machine, monkeypatch):
    """Its canary is not heard: new watches are taken, what was missed is found, and nothing is polled."""
    project = machine.project().make({"a.md": fact_text("a")})
    monkeypatch.setattr(stream, "CANARY_S", 0.3)

    async def main():
        async with living(machine) as daemon:
            asyncio.get_running_loop().remove_reader(daemon.watch._inotify.kernel.fileno())
            project.fact("missed.md")
            await daemon.supervisor.go_round()
            monkeypatch.setattr(stream, "CANARY_S", PATIENCE_S)
            await daemon.flush(rescan=False)
            assert "missed.md" in daemon.store.kept[project.dir].snapshot.facts
            assert {state.kind for state in daemon.watch.state()} == {"inotify"}
            assert await daemon.watch.alive()
            project.fact("heard.md")
            await daemon.flush(rescan=False)
            assert "heard.md" in daemon.store.kept[project.dir].snapshot.facts
            assert [event.data for event in told(daemon, "daemon/rescanned")].count("rearmed") <= 1

    asyncio.run(main())


def test_a_watcher_that_stays_silent_is_polled_and_says_so(machine, monkeypatch):
    """Watches, again watches, then polling: `daemon/degraded` names each base, and changes are told all the same."""
    project = machine.project().make({"a.md": fact_text("a")})
    machine.configure("watch:\n  poll_s: 0.1\n")
    monkeypatch.setattr(
        stream.Watch, "_readable", lambda self: os.read(self._inotify.kernel.fileno(), 1 << 20)
    )

    async def main():
        async with living(machine) as daemon:
            monkeypatch.setattr(stream, "CANARY_S", 0.2)
            await daemon.supervisor.go_round()
            states = daemon.watch.state()
            assert {state.kind for state in states} == {"polling"}
            assert all("did not answer" in state.reason for state in states)
            project.fact("b.md")
            await fact_of(lambda: "b.md" in daemon.store.kept[project.dir].snapshot.facts, "it came")
            bases = [event.data for event in told(daemon, "daemon/degraded")]
            assert len(bases) == len(states)
            assert all("did not answer" in data for data in bases)

    asyncio.run(main())


@pytest.fixture
def layered(machine):
    """A real file system that takes watches and stays silent: an overlay whose lower layer is written to."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting an overlay needs root, and Linux")
    lower, upper, work = (machine.place / name for name in ("lower", "upper", "work"))
    for path in (lower, upper, work, machine.projects):
        path.mkdir(parents=True)
    project = machine.project()
    inside = lower / project.memory.relative_to(machine.projects)
    inside.mkdir(parents=True)
    (inside / "a.md").write_text(fact_text("a"))
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    mounted = subprocess.run(
        ["mount", "-t", "overlay", "overlay", "-o", options, str(machine.projects)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no overlay can be mounted here: {mounted.stderr.decode().strip()}")
    yield project, inside
    subprocess.run(["umount", str(machine.projects)], check=True)


def test_a_file_system_that_keeps_silent_is_polled_once_a_scan_finds_out(machine, layered):
    """Its changes come without an event. The scheduled scan finds one, tells it as drift, and from then on the root is
    polled: the next change is told without a scan."""
    project, inside = layered
    machine.configure("watch:\n  poll_s: 0.1\nrescan:\n  every_s: 0\n")

    async def main():
        async with living(machine) as daemon:

            def says():
                return daemon.store.kept[project.dir].snapshot.facts["a.md"].description

            def rewrite(description):
                (inside / "a.md").write_text(fact_text("a", description=description))
                os.utime(
                    inside / "a.md", (1e9, 1e9 + len(description))
                )  # a scan leaves alone what is younger than 50 ms

            rewrite("Second")
            assert await daemon.watch.alive()
            assert says() == "What it says"
            await daemon.pipeline.scan("schedule")
            assert says() == "Second"
            assert daemon.pipeline.drift_found == 1
            kinds = {state.base: state.kind for state in daemon.watch.state()}
            assert kinds[str(machine.projects)] == "polling", kinds
            await fact_of(lambda: told(daemon, "daemon/degraded"), "the word")
            assert "had not told of" in told(daemon, "daemon/degraded")[0].data
            rewrite("The third")
            await fact_of(lambda: says() == "The third", "the change, by polling")

    asyncio.run(main())


def test_a_scan_that_is_only_early_distrusts_nobody(machine):
    """A change whose event is on its way while a scan finds it is no drift of a silent file system."""
    project = machine.project().make({"a.md": fact_text("a")})

    async def main():
        async with living(machine) as daemon:
            for number in range(20):
                (project.memory / f"n{number}.md").write_text(fact_text(f"n{number}"))
                await daemon.pipeline.scan("schedule")
            assert {state.kind for state in daemon.watch.state()} == {"inotify"}

    asyncio.run(main())
