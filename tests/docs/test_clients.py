"""docs/clients.md and docs/examples/: every block and every program of it runs, against a real daemon."""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.transcripts.machine import CHECKOUT, PATIENCE_S, Machine, Project, Running, fact_text

PAGE = (CHECKOUT / "docs" / "clients.md").read_text("utf-8")
EXAMPLES = CHECKOUT / "docs" / "examples"
BLOCKS = re.findall(r"```(python|js|sh)\n(.*?)\n```", PAGE, re.DOTALL)
TOOLS = ("sh", "cat", "sleep")


def tool(name: str) -> str:
    """Give a program of this system; the test is skipped where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here")
    return found


def node() -> str:
    found = tool("node")
    version = subprocess.run(
        [found, "--version"], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    if int(version.removeprefix("v").partition(".")[0]) < 20:
        pytest.skip(f"the examples are for Node 20 and later, this is {version.strip()}")
    return found


@pytest.fixture
def project(machine: Machine) -> Project:
    return machine.project().make({"old.md": fact_text("old", "What was there")})


@pytest.fixture
def env(machine: Machine) -> dict[str, str]:
    """What the examples find: the daemon's places, and `zcsyncd` on the path."""
    programs = machine.place / "bin"
    programs.mkdir()
    shim = programs / "zcsyncd"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zcsyncd "$@"\n')
    shim.chmod(0o755)
    return {**machine.env, "PATH": f"{programs}{os.pathsep}{machine.env['PATH']}"}


def only(machine: Machine, *tools: str) -> str:
    """Give a path on which nothing is but these programs and ours."""
    programs = machine.place / "bin"
    for name in (*TOOLS, *tools):
        (programs / name).symlink_to(tool(name))
    return str(programs)


def run(
    command: list[str], env: dict[str, str], cwd: Path, text: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=env,
        cwd=cwd,
        input=text,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S * 2,
        check=False,
    )


@pytest.mark.parametrize(("language", "block"), BLOCKS)
def test_every_block_of_the_page_runs(
    project: Project, daemon: Running, env: dict[str, str], language: str, block: str
) -> None:
    """What stands on the page can be copied: it ends well and says something."""
    for name in ("socat", "nc"):
        if f"{name} -" in block:
            tool(name)
    command = {
        "python": [sys.executable, "-"],
        "js": [node(), "--input-type=module", "-"],
        "sh": [tool("sh")],
    }[language]
    done = run(command, env, EXAMPLES, block)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert '"error":{"code"' not in done.stdout


@pytest.mark.parametrize(
    ("language", "block"),
    [(language, block) for language, block in BLOCKS if "NoDaemon" in block or "BusError" in block],
)
def test_a_block_without_a_daemon(project: Project, env: dict[str, str], language: str, block: str) -> None:
    """What catches that there is no daemon says so, and how to start one."""
    command = [sys.executable, "-"] if language == "python" else [node(), "--input-type=module", "-"]
    done = run(command, env, EXAMPLES, block)
    assert (done.returncode, done.stderr) == (0, "")
    assert "zcsyncd run" in done.stdout


# -- a hook ---------------------------------------------------------------------------------------------------


@pytest.fixture(params=["news.py", "news.mjs"])
def hook(request: pytest.FixtureRequest) -> list[str]:
    """Give the command of one of the two hooks."""
    program = str(EXAMPLES / request.param)
    return [sys.executable, program] if request.param.endswith(".py") else [node(), program]


def test_a_refused_hook_ends(project: Project, daemon: Running, env: dict[str, str], hook: list[str]) -> None:
    """A hello that the daemon refuses (a relative directory) keeps no host waiting: the hook ends, and says nothing."""
    del project, daemon
    done = run([*hook, "pi", "0198", "relative/cwd"], env, EXAMPLES)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_hook_tells_once(project: Project, daemon: Running, env: dict[str, str], hook: list[str]) -> None:
    """Nothing at first; what another wrote, once; the session's own connection is another each time."""

    def told(reason: str) -> str:
        done = run([*hook, "pi", "0198", str(project.cwd), reason], env, EXAMPLES)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    # The deadline of a hook is short, and this machine may be busy: silence is right then, and it is said next time.
    def until_told(reason: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while not (text := told(reason)):
            assert time.monotonic() < deadline, "no news"
        return text

    daemon.client(host="pi", id="0198", cwd=str(project.cwd), reason="start")
    assert told("attach") == ""
    daemon.call(
        "memory.write",
        dir=project.dir,
        name="new",
        description="What is new",
        type="project",
        body="x\n",
        mode="create",
    )
    text = until_told("attach")
    assert "new.md" in text
    assert text.startswith("[zcsyncd]")
    assert told("attach") == ""
    assert "new.md" in until_told("compact")


def test_a_hook_without_a_daemon(machine: Machine, env: dict[str, str], hook: list[str]) -> None:
    """Without a daemon a hook is silent and ends well."""
    done = run([*hook, "pi", "0198", str(machine.home)], env, EXAMPLES)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# -- followers ------------------------------------------------------------------------------------------------


class Following:
    """A program that follows; its lines are taken as they come."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            env=env,
            cwd=EXAMPLES,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._said: list[str] = []
        self._threads = [
            threading.Thread(target=self._take, args=(self.process.stdout, self._lines.put)),
            threading.Thread(target=self._take, args=(self.process.stderr, self._said.append)),
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _take(stream, put: Callable[[str], None]) -> None:
        with stream:
            for line in stream:
                put(line)

    def line(self, part: str) -> str:
        """Give the next line that has this in it; all others are given up."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                line = self._lines.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise AssertionError(f"no line with {part}; it said {''.join(self._said)}") from None
            if part in line:
                return line

    def end(self) -> list[str]:
        """Interrupt it as a person does; give what it had still to say."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        left = []
        while not self._lines.empty():
            left.append(self._lines.get())
        return left


@pytest.fixture(params=["follow.py", "follow.mjs", "socat", "nc"])
def follow(
    request: pytest.FixtureRequest, machine: Machine, env: dict[str, str]
) -> Iterator[Callable[[str | None], Following]]:
    """Give what starts one of the followers, from a cursor or from the place that it keeps."""
    started: list[Following] = []
    place = machine.place / "place"

    def go(cursor: str | None) -> Following:
        if request.param == "follow.mjs":
            command = [node(), str(EXAMPLES / "follow.mjs"), *([cursor] if cursor else [])]
        elif request.param == "follow.py":
            command = [sys.executable, str(EXAMPLES / "follow.py"), str(place)]
        else:
            if not started:
                env["PATH"] = only(machine, request.param)
            command = [tool("sh"), str(EXAMPLES / "follow.sh"), str(place)]
        started.append(Following(command, env))
        return started[-1]

    yield go
    for each in started:
        each.end()


def test_a_follower_misses_nothing(
    machine: Machine, project: Project, follow: Callable[[str | None], Following]
) -> None:
    """Over a killed daemon, and over an end of its own, each change comes once and in order."""
    daemon = machine.start()
    following = follow(None)
    subscriptions = lambda: daemon.call("status")["bus"]["subscriptions"]  # noqa: E731 - one word for one fact
    deadline = time.monotonic() + PATIENCE_S
    while not subscriptions():
        assert time.monotonic() < deadline, "it does not subscribe"
    project.fact("a.md")
    following.line("a.md")
    daemon.call("daemon.flush")
    daemon.kill()
    project.fact("b.md")
    daemon = machine.start()
    following.line("b.md")
    daemon.call("daemon.flush")
    while not subscriptions():
        assert time.monotonic() < deadline, "it does not subscribe again"
    cursor = daemon.call("ping")["cursor"]
    last = following.end()
    assert not any("a.md" in line or "added b.md" in line for line in last)
    project.fact("c.md")
    daemon.call("daemon.flush")
    following = follow(last[-1].split()[-1] if last and last[-1].startswith("go on with") else cursor)
    following.line("c.md")
    daemon.stop()


@pytest.mark.parametrize("text", ["nonsense\n", "j:1x\n", ":1\n", 'a"b:1\n'])
def test_a_place_that_is_none_ends_the_shell_script(tmp_path: Path, env: dict[str, str], text: str) -> None:
    """What is no cursor is told, and does not get into a request."""
    place = tmp_path / "place"
    place.write_text(text)
    done = run([tool("sh"), str(EXAMPLES / "follow.sh"), str(place)], env, EXAMPLES)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"follow.sh: {place} holds no cursor: {text}"
