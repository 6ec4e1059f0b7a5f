"""The whole daemon on Windows: from the command line to its subscribers, from its start to its end."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time

import pytest

from zcsyncd.bus.client import Client
from zcsyncd.bus.endpoint import NAME, read_endpoint
from zcsyncd.errors import NoDaemon, ZcsyncdError
from zcsyncd.places import user_sid

WAIT_S = 40.0
FACT = "---\nname: {0}\ndescription: about {0}\ntype: project\n---\n\nbody\n"


class Machine:
    """A home, its environment and at most one daemon."""

    def __init__(self, root, address):
        self.home = root / "home"
        self.projects = self.home / ".zcode" / "cli" / "memories" / "projects"
        self.state = self.home / "AppData" / "Local" / "zcsyncd"
        self.address = address
        self.daemon = None
        self.home.mkdir()
        moved = {
            "USERPROFILE": str(self.home),
            "HOME": str(self.home),
            "LOCALAPPDATA": str(self.home / "AppData" / "Local"),
            "APPDATA": str(self.home / "AppData" / "Roaming"),
            "ZCSYNCD_SOCKET": address,
        }
        # Not in UTF-8 mode, which the tests run in: people do not.
        self.env = {name: value for name, value in os.environ.items() if name != "PYTHONUTF8"} | moved

    def start(self, *how):
        # Its output goes through a pipe: under Wine a plain file is refused as standard output.
        self.daemon = subprocess.Popen(
            [sys.executable, *(how or ("-m", "zcsyncd", "run"))],
            env=self.env,
            stdin=subprocess.PIPE if how else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.said = []
        daemon, said = self.daemon, self.said
        threading.Thread(target=lambda: said.extend(daemon.stdout), daemon=True).start()
        self.until(self.is_ready)

    def until(self, fact):
        limit = time.monotonic() + WAIT_S
        while not (found := fact()):
            assert time.monotonic() < limit, b"".join(self.said).decode("utf-8", "replace")
            time.sleep(0.05)
        return found

    def is_ready(self):
        try:
            with Client(self.address) as client:
                return client.call("status")["daemon"]["ready"]
        except ZcsyncdError:
            assert self.daemon.poll() is None, b"".join(self.said)
            return False

    def run(self, *arguments):
        return subprocess.run(
            [sys.executable, "-m", "zcsyncd", *arguments],
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )

    def memory(self, name="app-0123456789abcdef"):
        place = self.projects / name / "memory"
        place.mkdir(parents=True, exist_ok=True)
        return place

    def end(self):
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait(WAIT_S)
            self.daemon.stdout.close()


def save(path, text):
    """Save as ZCode does: a temporary file, renamed over."""
    with open(f"{path}.tmp.1.0123456789ab", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(f"{path}.tmp.1.0123456789ab", path)


@pytest.fixture
def machine(tmp_path, address):
    made = Machine(tmp_path, address)
    yield made
    made.end()


@pytest.fixture
def running(machine):
    machine.start()
    return machine


def told(client, topic, file):
    """Wait for an event that tells of a file."""
    while (event := client.next_event(WAIT_S)) is not None:
        if event["topic"] == topic and any(change["file"] == file for change in event["data"]["changes"]):
            return event
    raise AssertionError(f"nothing was told of {file}")


def test_status_stop_and_a_second_start(running):
    """`status` answers, a second daemon leaves with 4 and the first one's pid, `stop` waits until all is down."""
    status = running.run("status")
    assert (status.returncode, b"ready" in status.stdout) == (0, True), status
    second = running.run("run")
    assert second.returncode == 4, second
    assert str(running.daemon.pid).encode() in second.stderr
    assert running.run("stop").returncode == 0
    assert running.daemon.wait(WAIT_S) == 0
    assert not (running.state / NAME).exists()
    assert running.run("status").returncode == 3


def test_the_endpoint_file_and_the_address(running):
    """Clients find the pipe without Python: it is written down where the protocol says."""
    endpoint = read_endpoint(str(running.state))
    assert (endpoint.address, endpoint.pid) == (running.address, running.daemon.pid)
    assert running.run("status", "--address").stdout.strip().decode() == running.address
    with Client(running.address) as client:
        assert client.call("status")["daemon"]["pid"] == running.daemon.pid


def test_the_usual_address_is_the_users_own(machine):
    """Without the variable the pipe is named after the user's identifier."""
    del machine.env["ZCSYNCD_SOCKET"]
    said = machine.run("status")
    assert said.returncode == 3
    assert rf"\\.\pipe\zcsyncd-{user_sid()}".encode() in said.stderr


def test_an_address_that_is_no_pipe_is_a_mistake_of_the_configuration(machine):
    """Said with what to write instead."""
    machine.env["ZCSYNCD_SOCKET"] = "C:\\bus.sock"
    said = machine.run("run")
    assert said.returncode not in (0, 3, 4), said
    assert b"must be a pipe" in said.stderr


def test_a_save_reaches_its_subscriber(running):
    """A directory, a fact, a change and a deletion, each told; the median delay of ten saves is printed."""
    with Client(running.address, WAIT_S) as client:
        client.call("events.subscribe", topics=["memory/*"])
        memory = running.memory()
        save(memory / "a.md", FACT.format("a"))
        save(memory / "MEMORY.md", "- [a](a.md) — about a\n")
        told(client, "memory/changed", "a.md")
        delays = []
        for number in range(10):
            began = time.perf_counter()
            save(memory / "a.md", FACT.format(f"a{number}"))
            told(client, "memory/changed", "a.md")
            delays.append(time.perf_counter() - began)
        (memory / "a.md").unlink()
        assert told(client, "memory/changed", "a.md")["data"]["changes"][0]["kind"] == "deleted"
    print(f"median save to subscriber {sorted(delays)[5] * 1000:.0f} ms")  # noqa: T201 - `-rP` shows it


def test_writing_through_the_daemon(running):
    """`memory write`, `read`, `forget` and the history, with the file on the disk as it should be."""
    memory = running.memory()
    save(memory / "a.md", FACT.format("a"))
    save(memory / "MEMORY.md", "- [a](a.md) — about a\n")
    with Client(running.address, WAIT_S) as client:
        client.call("daemon.flush")
        written = client.call(
            "memory.write",
            dir=str(memory),
            name="b",
            description="about b",
            type="project",
            body="two\nlines\n",
            mode="create",
        )
        assert written["absolutePath"] == str(memory / "b.md")
        assert b"\r" not in (memory / "b.md").read_bytes()
        assert b"(b.md)" in (memory / "MEMORY.md").read_bytes()
        assert "two\nlines" in client.call("memory.read", dir=str(memory), name="b")["body"]
        saved = client.call("memory.forget", dir=str(memory), name="b")["saved"]
        assert not (memory / "b.md").exists()
        client.call("history.restore", saved=saved)
        assert (memory / "b.md").exists()
        assert {each.name for each in memory.iterdir()} == {"MEMORY.md", "a.md", "b.md"}


def test_drive_letters_and_case_name_one_directory(running):
    """A working directory in either case of its drive, and with either slash, leads to the same memory."""
    work = running.home / "work"
    work.mkdir()
    with Client(running.address, WAIT_S) as client:
        path = str(work)
        spelled = (path, path[0].lower() + path[1:], path[0].upper() + path[1:], path.replace("\\", "/"))
        found = {client.call("dirs.resolve", cwd=each)["computedDir"] for each in spelled}
        assert len({each.lower() for each in found}) == 1, found
        assert next(iter(found)).lower().startswith(str(running.projects).lower())


def test_audit_and_offline(running):
    """The command line finds what is wrong, with a daemon and without one."""
    memory = running.memory()
    save(memory / "a.md", FACT.format("a"))
    save(memory / "MEMORY.md", "- [gone](gone.md) — nowhere\n")
    with Client(running.address, WAIT_S) as client:
        client.call("daemon.flush")
    audit = running.run("audit", str(memory))
    assert b"gone.md" in audit.stdout, audit
    assert running.run("stop").returncode == 0
    assert b"gone.md" in running.run("audit", str(memory)).stdout


def test_killed_and_started_again(running):
    """Five times killed in its work: each start succeeds, and what changed meanwhile is told once."""
    memory = running.memory()
    save(memory / "a.md", FACT.format("a"))
    save(memory / "MEMORY.md", "- [a](a.md) — about a\n")
    with Client(running.address, WAIT_S) as client:
        cursor = client.call("daemon.flush")["cursor"]
    for number in range(5):
        running.daemon.kill()
        running.daemon.wait(WAIT_S)
        running.daemon.stdout.close()
        save(memory / f"n{number}.md", FACT.format(f"n{number}"))
        running.start()
    with Client(running.address, WAIT_S) as client:
        client.call("events.subscribe", topics=["memory/changed"], since=cursor)
        client.call("daemon.flush")
        names = []
        while (event := client.next_event(0.5)) is not None:
            names += [change["file"] for change in event["data"].get("changes", ())]
    assert sorted(names) == [f"n{number}.md" for number in range(5)]


def test_stopped_by_the_protocol(running):
    """`daemon.stop` over the pipe: answered, then the process ends with 0 within two seconds."""
    with Client(running.address, WAIT_S) as client:
        assert client.call("daemon.stop") == {}
    began = time.monotonic()
    assert running.daemon.wait(WAIT_S) == 0
    assert time.monotonic() - began < 5
    with pytest.raises(NoDaemon):
        Client(running.address).connect()


INTERRUPTED = """
import signal, sys, threading
from zcsyncd.__main__ import main

def interrupt():
    sys.stdin.readline()
    signal.raise_signal(getattr(signal, sys.argv[1]))

threading.Thread(target=interrupt, daemon=True).start()
sys.exit(main(["run"]))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGBREAK"])
def test_ctrl_c_and_ctrl_break_stop_it_in_order(machine, name):
    """What a console sends ends it as `stop` does: the endpoint file is gone, the exit code 0."""
    machine.start("-c", INTERRUPTED, name)
    machine.daemon.stdin.write(b"now\n")
    machine.daemon.stdin.close()
    assert machine.daemon.wait(WAIT_S) == 0, machine.said
    assert not (machine.state / NAME).exists()


def test_a_node_client_subscribes(running):
    """node.exe connects to the pipe by itself, hears of a save, and of the end."""
    node = shutil.which("node", path=os.path.dirname(sys.executable))
    assert node, "node.exe lies beside python.exe (tests/windows/get_python.sh)"
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "subscriber.js")
    child = subprocess.Popen(
        [node, script, str(running.state / NAME)],
        env=running.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    lines = queue.Queue()

    def read():
        for line in child.stdout:
            lines.put(line)

    threading.Thread(target=read, daemon=True).start()

    def until(fact):
        while True:
            line = lines.get(timeout=WAIT_S)
            assert line.startswith(b"{"), line
            message = json.loads(line)
            if fact(message):
                return message

    try:
        assert until(lambda message: message.get("subscribed"))["platform"] == "win32"
        memory = running.memory()
        save(memory / "a.md", FACT.format("a"))
        event = until(lambda message: message.get("topic") == "memory/changed")
        assert event["dir"] == str(memory)
        assert event["data"]["changes"][0]["file"] == "a.md"
        assert running.run("stop").returncode == 0
        until(lambda message: message.get("closed"))
        assert child.wait(WAIT_S) == 0
    finally:
        child.kill()
        child.wait(WAIT_S)
        child.stdout.close()
