"""Set-up and removal as far as plugins go: steps that are registered for hosts are planned, put in, and taken out."""

import io
import json
import os

import pytest

from zcsyncd.cli import service, setup
from zcsyncd.cli.console import console
from zcsyncd.cli.parser import build_parser
from zcsyncd.install import looking, steps
from zcsyncd.install.wanted import State


class FakeManager:
    """A service manager that is there and does what it is told."""

    name, can_ask, waits = "a manager", True, True

    def __init__(self):
        self.command = None

    def check(self):
        return None

    def place(self):
        return "/units/zcsyncd"

    def text(self, wanted):
        return " ".join(wanted.words)

    def present(self):
        return self.command

    def is_current(self, wanted):
        return self.command == list(wanted.words)

    def write(self, wanted, *, socket):
        self.command = list(wanted.words)
        return ["written"]

    def remove(self):
        self.command = None
        return ["removed"]

    def start(self):
        return ["started"]

    def state(self):
        return State(installed=self.command is not None, running=self.command is not None)

    def remarks(self):
        return ["it runs while you are logged in"]


class FakeStep:
    """What is put into a host: one file."""

    def __init__(self, host, env):
        self.file = f"{host.directory(env, env['HOME'])}/plugin"

    def _there(self):
        try:
            with open(self.file, encoding="utf-8"):
                return True
        except FileNotFoundError:
            return False

    def plan(self):
        return "" if self._there() else "put the plugin in"

    def put(self):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("x")
        return [f"written: {self.file}"]

    def present(self):
        return f"take out {self.file}" if self._there() else ""

    def take(self):
        os.unlink(self.file)
        return [f"removed: {self.file}"]


@pytest.fixture
def surroundings(tmp_path, monkeypatch):
    """Give the environment of a person with two hosts, one of which has a plugin."""
    env = {"HOME": str(tmp_path), "PATH": "/nowhere", "ZCSYNCD_STATE_DIR": str(tmp_path / "state")}
    env |= {"ZCSYNCD_RUNTIME_DIR": str(tmp_path / "run"), "ZCSYNCD_CONFIG": str(tmp_path / "config.yaml")}
    (tmp_path / ".pi/agent").mkdir(parents=True)
    (tmp_path / ".claude").mkdir()
    its = FakeManager()
    for module in (service, setup):
        monkeypatch.setattr(module, "manager", lambda _env: its)
    monkeypatch.setattr(looking, "probe", lambda *_: None)
    monkeypatch.setattr(steps, "HOST_STEPS", {"pi": FakeStep})
    return env


def run(env, *words):
    """Run a verb in this process."""
    parsed = build_parser().parse_args(list(words))
    act = getattr(setup, parsed.act.partition(".")[2])
    return act(parsed, console(env, as_json=getattr(parsed, "json", False)))


def test_steps_of_hosts(surroundings, tmp_path, capsys):
    """The plan has a line for the host with a plugin and a note for the one without; then it is done, and taken out."""
    assert run(surroundings, "setup", "--json") == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert [(row["name"], row["says"]) for row in plan["would"]] == [
        ("service", "install and start it, under a manager"),
        ("pi", "put the plugin in"),
    ]
    assert "this version has no plugin for Claude Code: nothing is put there" in plan["notes"]
    assert not (tmp_path / ".pi/agent/plugin").exists()
    assert run(surroundings, "setup", "--yes") == 0
    said = capsys.readouterr().out
    assert f"written: {tmp_path}/.pi/agent/plugin" in said
    assert (tmp_path / ".pi/agent/plugin").exists()
    assert run(surroundings, "setup", "--json") == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert [row["name"] for row in plan["would"]] == ["nothing"]
    assert run(surroundings, "uninstall", "--yes") == 0
    assert f"removed: {tmp_path}/.pi/agent/plugin" in capsys.readouterr().out
    assert not (tmp_path / ".pi/agent/plugin").exists()
    assert run(surroundings, "uninstall", "--yes", "--json") == 0
    assert json.loads(capsys.readouterr().out)["plan"]["would"] == []


@pytest.mark.parametrize(
    ("typed", "done"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_a_person_is_asked(surroundings, monkeypatch, capsys, typed, done):
    """At a terminal only a yes goes on; anything else changes nothing and exits with 1."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert run(surroundings, "setup") == (0 if done else 1)
    out = capsys.readouterr()
    assert "would" in out.out
    assert "Do this? [y/N]" in out.err
    assert os.path.exists(f"{surroundings['HOME']}/.pi/agent/plugin") is done
