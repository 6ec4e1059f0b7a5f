"""The plugin in a real pi: print, RPC and terminal mode, over all that can become of a session and of the daemon.

Not among the tests that every run has: it needs the packages of the hosts (`make test-pi`).
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.plugins.pi.hosts import Desk, Rpc, Terminal, pi_command
from tests.transcripts.machine import Machine, Project, Running, fact_text, new_machine, until

LONG = "".join(f"line {number}\n" for number in range(300))
QUICK_S = 8.0
"""A run of the model without a tool takes less than a second; a busy machine may take some."""


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = new_machine()
    yield made
    made.close()


@pytest.fixture
def project(machine: Machine) -> Project:
    files = {"short.md": fact_text("short", "A short one"), "long.md": fact_text("long", "A long one", LONG)}
    return machine.project().make(files)


@pytest.fixture
def desk(machine: Machine, project: Project) -> Desk:
    return Desk(machine, project.cwd)


@pytest.fixture
def daemon(machine: Machine, project: Project) -> Running:
    machine.configure("audit:\n  grace_s: 1\n")
    return machine.start()


@pytest.fixture
def rpc(request: pytest.FixtureRequest, desk: Desk) -> Iterator[Rpc]:
    if "daemon" in request.fixturenames:
        request.getfixturevalue("daemon")
    made = Rpc(desk, pi_command("--mode", "rpc"))
    yield made
    made.close()
    assert made.process.returncode == 0, made.stderr()


def injected(desk: Desk) -> int:
    """Tell how often the index stands before the model."""
    return desk.shown().count("[zcode-memory] The index")


def test_a_print_run_gets_the_index_and_its_write_lands(daemon, machine, desk, project):
    """`pi -p`: the index is before the model, `memory_write` lands on disk and in the index, and the run ends."""
    calls = [
        ["memory_list", {}],
        ["memory_write", {"name": "new-one", "description": "What is new", "type": "user", "body": "It."}],
    ]
    done = desk.run(pi_command("-p", "CALL " + json.dumps(calls)))
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, "done", "")
    assert injected(desk) == 1
    assert "It." in (project.memory / "new-one.md").read_text()
    assert "- [new-one](new-one.md) — What is new" in (project.memory / "MEMORY.md").read_text()


def test_without_a_daemon_memory_is_read_and_not_written(desk, project):
    """No daemon: a print run gets the index, reads a fact, is refused the write with the reason, and ends."""
    calls = [
        ["memory_read", {"name": "short"}],
        ["memory_write", {"name": "n", "description": "d", "type": "user", "body": "b"}],
    ]
    done = desk.run(pi_command("-p", "CALL " + json.dumps(calls)))
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert injected(desk) == 1
    assert "Body." in desk.shown()
    assert "Nothing was written" in desk.shown()
    assert not (project.memory / "n.md").exists()
    assert [payload["kind"] for payload in desk.heard("guard")] == ["full"]


def test_a_daemon_that_hangs_from_the_start(daemon, desk):
    """Stopped before pi starts: a print run gets the index from the disk, and ends in its usual time."""
    os.kill(daemon.pid, signal.SIGSTOP)
    began = time.monotonic()
    done = desk.run(pi_command("-p", "hello"))
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, "done", "")
    assert time.monotonic() - began < QUICK_S
    assert injected(desk) == 1


def test_reads_reach_the_guard_before_the_tool_returns(daemon, desk, project, rpc):
    """A second extension hears a full and a truncated read before the tools' results, and nothing when files change."""
    rpc.tools(("memory_read", {"name": "short"}), ("memory_read", {"name": "long"}))
    kinds = [
        note["guard"]["kind"] if "guard" in note else "result"
        for note in desk.heard()
        if "guard" in note or "tool_result" in note
    ]
    assert kinds == ["full", "result", "truncated", "result"]
    full, cut = desk.heard("guard")
    assert full["absolutePath"] == str(project.memory / "short.md")
    assert "contentHash" in full
    assert "contentHash" not in cut
    project.fact("short.md", description="Another")
    listener = daemon.listen(project)
    listener.flush()
    rpc.prompt("hello")
    assert len(desk.heard("guard")) == 2


def test_news_comes_once_with_the_next_prompt(daemon, desk, project, rpc):
    """What another session wrote is told with the person's next prompt, once; the index is not sent again."""
    rpc.prompt("one")
    assert injected(desk) == 1
    other = daemon.client(host="zcode", id="z", cwd=str(project.cwd))
    other.call("memory.write", name="told", description="What is told", type="user", body="b", mode="create")
    requests = len(desk.heard("model"))
    rpc.prompt("two")
    assert desk.shown().count("News of the shared memory") == 1
    assert "told.md" in desk.shown()
    rpc.prompt("three")
    assert desk.shown().count("News of the shared memory") == 1
    assert injected(desk) == 1
    assert len(desk.heard("model")) == requests + 2


def test_an_error_is_notified_once(daemon, desk, project, rpc):
    """A new error of the audit is one notification, and the status line counts it."""
    rpc.prompt("one")
    (project.memory / "short.md").unlink()
    project.write_index("short.md", "Long.md")
    daemon.call("daemon.flush")
    rpc.until(
        lambda line: line.get("method") == "notify" and "short.md" in line["message"], "the notification"
    )
    rpc.prompt("/memory")
    rpc.prompt("/memory repair")
    assert sum("short.md" in text and text.startswith("Memory:") for text in rpc.notified()) == 1
    assert any("Entries without a file: 2 (short.md, Long.md)" in text for text in rpc.notified())
    assert any("nothing was changed" in text for text in rpc.notified())


def test_new_fork_reload_and_compaction(daemon, desk, project, rpc):
    """/new, /fork, /reload, compaction: pi goes on, each session is known to the daemon, the index is there once."""
    sessions = []

    def now() -> None:
        rpc.prompt("hello")
        assert injected(desk) == 1
        sessions.append(rpc.call("get_state")["sessionId"])

    now()
    rpc.call("new_session")
    now()
    forks = rpc.call("get_fork_messages")["messages"]
    rpc.prompt("more")
    rpc.call("fork", entryId=forks[-1]["entryId"])
    now()
    rpc.prompt("/again")
    now()
    for number in range(3):
        rpc.prompt(f"again {number} " + "words " * 9_000)
    rpc.call("compact")
    now()
    assert len(set(sessions)) == 3
    known = {row["id"] for row in daemon.call("session.list")["sessions"] if row["host"] == "pi"}
    assert set(sessions) <= known
    # The daemon has been told: who compacted and was given the index anew has no news waiting.
    project.fact("short.md", description="Another yet")
    daemon.call("daemon.flush")
    rpc.prompt("and now")
    assert "Another yet" in desk.shown() or "short.md" in desk.shown()


@pytest.mark.parametrize("end", ["killed", "stopped", "gone"])
def test_a_daemon_that_goes_and_comes(daemon, desk, project, rpc, end):
    """Killed, SIGSTOP, its socket removed: pi answers as quickly, reads from the disk, and is back when the daemon is."""
    rpc.prompt("one")
    if end == "killed":
        daemon.kill()
    elif end == "stopped":
        os.kill(daemon.pid, signal.SIGSTOP)
    else:
        os.unlink(daemon.machine.address)
        daemon.machine.endpoint.unlink()
        daemon.kill()
    assert rpc.prompt("two") < QUICK_S
    rpc.tools(("memory_read", {"name": "short"}))
    assert "Body." in desk.shown()
    if end == "stopped":
        os.kill(daemon.pid, signal.SIGCONT)
    else:
        daemon.machine.start()
    rpc.until_status("memory: ok")
    rpc.tools(("memory_write", {"name": "after", "description": "After it", "type": "user", "body": "b"}))
    assert (project.memory / "after.md").exists()


def test_an_absent_daemon_is_told_once(desk, project, rpc):
    """Without a daemon the person hears of it once per session."""
    rpc.prompt("one")
    rpc.prompt("two")
    assert sum("zcsyncd is not running" in text for text in rpc.notified()) == 1
    rpc.call("new_session")
    rpc.prompt("three")
    assert sum("zcsyncd is not running" in text for text in rpc.notified()) == 2


def test_it_stays_away_from_another_memory_plugin(daemon, desk, project):
    """Where another plugin has registered memory tools, ours are not there and the index is not put in."""
    done = desk.run(pi_command("-p", 'CALL [["memory_list", {}]]'), ZT_OTHER_MEMORY="1")
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert "of the other plugin" in desk.shown()
    assert injected(desk) == 0


def test_terminal(daemon, desk, project):
    """In a terminal: the status line, an answer, `/memory`, and the end with Ctrl+D."""
    terminal = Terminal(desk, pi_command())
    try:
        terminal.until("memory: ok")
        terminal.type("hello")
        terminal.until("hello")
        terminal.type("\r")
        until(lambda: desk.heard("model"), "a request to the model")
        terminal.until("done")
        terminal.type("/memory status")
        terminal.until("/memory status")
        terminal.type("\r")
        terminal.until("Injection: done")
        terminal.type("\x04")
        until(lambda: terminal.process.poll() is not None, "its end")
        assert terminal.process.returncode == 0
    finally:
        terminal.close()
