"""A hook on Windows: the interpreter and the script as they are installed there, the daemon asked over its pipe."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from tests.windows.test_daemon import Machine
from zcsyncd.bus.client import Client
from zcsyncd.install.hosts_command import hook
from zcsyncd.install.hosts_places import this_program
from zcsyncd.layouts import zcode

TRIES = 20
"""Under Wine a hook may miss its deadline; what it did not say it says the next time."""


@pytest.fixture
def machine(tmp_path, address):
    made = Machine(tmp_path, address)
    yield made
    made.end()


def call(machine, cwd, name, **more):
    entry = hook(this_program(machine.env), "zcode")
    said = {"hook_event_name": name, "session_id": "s-1", "cwd": str(cwd), **more}
    begin = time.monotonic()
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        input=json.dumps(said).encode() + b"\n",
        env=machine.env,
        capture_output=True,
        timeout=40,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert time.monotonic() - begin < 20
    return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else None


def test_a_hook_without_a_daemon_is_silent(machine):
    """And notes when it was called."""
    assert call(machine, machine.home, "UserPromptSubmit") is None
    assert (machine.state / "hooks" / "zcode" / "last.UserPromptSubmit").exists()


def test_what_another_agent_wrote_is_said_with_the_next_prompt(machine):
    """Once: what was said is confirmed by the hook after it."""
    cwd = machine.home / "app"
    cwd.mkdir()
    memory = zcode.directory(str(machine.home / ".zcode" / "cli"), str(cwd))
    machine.start()
    assert sys.platform == "win32"
    for _ in range(TRIES):
        call(machine, cwd, "SessionStart", source="startup")
        with Client(machine.address) as client:
            if client.call("session.list")["total"]:
                break
    with Client(machine.address) as client:
        client.hello("test", "1", {"host": "pi", "id": "other", "cwd": str(cwd)})
        client.call(
            "memory.write", dir=memory, name="tide", description="x", type="project", body="x", mode="create"
        )
    news = next((said for _ in range(TRIES) if (said := call(machine, cwd, "UserPromptSubmit"))), "")
    assert "tide" in news
    later = [call(machine, cwd, "UserPromptSubmit") for _ in range(3)]
    assert later[-1] is None
