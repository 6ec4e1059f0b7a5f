"""`zcsyncd plugin` and what set-up puts into hosts, by the real command in a throw-away home."""

import json
import os

import pytest

import zcsyncd
from tests.plugins.hooks import HookHost


@pytest.fixture
def home(machine):
    for place in (".pi/agent", ".zcode", ".claude"):
        (machine.home / place).mkdir(parents=True)
    return machine.home


def test_install_status_remove(machine, home):
    """Each says what it did; twice says that it is so already; the words fit what a person can type."""
    done = machine.cli("plugin", "install", "zcode")
    assert (done.returncode, done.stderr) == (0, "")
    assert "the hooks in" in done.stdout
    assert "started anew" in done.stdout
    assert "so already" in machine.cli("plugin", "install", "zcode").stdout
    done = machine.cli("plugin", "status")
    assert done.returncode == 0
    assert "zcode            current" in done.stdout
    assert "no hook was called yet" in done.stdout
    assert machine.cli("plugin", "status", "pi").returncode == 1
    assert "removed" in machine.cli("plugin", "remove", "zcode").stdout
    assert machine.cli("plugin", "status", "zcode").returncode == 1


def test_status_tells_when_each_hook_was_called(machine, home):
    """Also where no daemon runs: it is the host that is looked at."""
    machine.json("plugin", "install", "zcode")
    host = HookHost(machine, home)
    host.prompt()
    host.stop()
    [row] = machine.json("plugin", "status", "zcode")["plugins"]
    assert (row["state"], row["version"], row["packageVersion"], row["says"]) == (
        "current",
        zcsyncd.__version__,
        zcsyncd.__version__,
        [],
    )
    called = {event for event, at in row["calls"].items() if at is not None}
    assert called == {"UserPromptSubmit", "Stop"}
    assert "last PostToolUse: never" in machine.cli("plugin", "status", "zcode").stdout


def test_json_of_every_verb(machine, home):
    """An object each."""
    assert machine.json("plugin", "install", "pi")["status"]["state"] == "current"
    assert machine.json("plugin", "path", "pi")["exists"] is True
    assert {row["host"] for row in machine.json("plugin", "status")["plugins"]} >= {"pi", "mcp:pi"}
    assert machine.json("plugin", "remove", "pi")["did"]


def test_path_is_one_line(machine, home):
    """To be put into another command."""
    for name in ("pi", "zcode", "claude-code", "mcp:zcode"):
        said = machine.cli("plugin", "path", name).stdout
        assert said.count("\n") == 1
        assert os.path.isabs(said.strip())


@pytest.mark.parametrize("words", [("install", "vim"), ("status", "mcp:vim"), ("remove", ""), ("install",)])
def test_a_host_that_nobody_knows(machine, words):
    """A mistake in the words, and which ones there are."""
    done = machine.cli("plugin", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("zcsyncd: ")
    assert "Traceback" not in done.stderr


def test_settings_that_cannot_be_read(machine, home):
    """Refused in one line, with the file's name; status says so, too, and nothing is written."""
    path = home / ".claude" / "settings.json"
    path.write_text("{ // mine\n}")
    done = machine.cli("plugin", "install", "claude-code")
    assert done.returncode == 7
    assert "settings.json is left as it is" in done.stderr
    assert "unreadable" in machine.cli("plugin", "status", "claude-code").stdout
    assert path.read_text() == "{ // mine\n}"


def test_the_mcp_verb_is_in_no_help(machine):
    """Clients call it, people do not."""
    assert "  mcp " not in machine.cli("--help").stdout
    assert "--no-news" in machine.cli("mcp", "--help").stdout


def test_notes_of_plugins_are_ours_to_purge(machine, home):
    """What hooks and installations leave in the state directory goes with it."""
    machine.json("plugin", "install", "zcode")
    HookHost(machine, home).prompt()
    from zcsyncd.install.remains import purge

    assert all(line.startswith("removed") for line in purge(machine.env) if str(machine.state) in line)
    assert not (machine.state / "hooks").exists()
    assert not (machine.state / "plugins").exists()
    assert json.loads((home / ".zcode/cli/config.json").read_text())
