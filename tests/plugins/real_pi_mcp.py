"""The MCP server in a real pi: `pi mcp add` and `pi mcp list` connect to it (the slow lane: tests/plugins/pi/run.sh)."""

import json
import subprocess
import sys

import pytest

from tests.plugins.pi.hosts import modules


@pytest.mark.timeout(120)
def test_pi_connects_to_what_it_added_and_to_what_we_installed(machine):
    """By hand and by `zcsyncd plugin install mcp:pi`; status sees ours, and pi's own entry stays when ours is taken out."""
    agent = machine.home / ".pi" / "agent"
    agent.mkdir(parents=True)
    found = modules("pi")
    program = found / "@earendil-works" / "pi-coding-agent" / "dist" / "bundle" / "cli.js"
    env = {**machine.env, "PI_CODING_AGENT_DIR": str(agent), "PI_OFFLINE": "1"}

    def pi(*words):
        return subprocess.run(
            [str(found / "node" / "bin" / "node"), str(program), *words],
            env=env,
            cwd=machine.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    assert pi("mcp", "add", "byhand", "--", sys.executable, "-P", "-m", "zcsyncd", "mcp").returncode == 0
    machine.json("plugin", "install", "mcp:pi", "--write")
    done = pi("mcp", "list")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "byhand: connected, 5 tools" in done.stdout
    assert "zcsyncd: connected, 6 tools (direct" in done.stdout
    [row] = machine.json("plugin", "status", "mcp:pi")["plugins"]
    assert row["state"] == "current"
    machine.json("plugin", "remove", "mcp:pi")
    assert list(json.loads((agent / "mcp.json").read_text())["mcpServers"]) == ["byhand"]
