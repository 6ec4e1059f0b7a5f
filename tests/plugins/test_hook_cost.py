"""What a hook costs is what it imports: counted here, timed by benchmarks/hook.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.hooks import HookHost

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
import sys
before = set(sys.modules)
sys.path.append(sys.argv[1])
import os
end = os._exit
def told(code):
    os.write(2, ",".join(sorted(set(sys.modules) - before)).encode())
    end(code)
os._exit = told
from zcsyncd.plugins.hook import main
main(["zcode"])
"""
OURS = {
    "zcsyncd",
    "zcsyncd.plugins",
    "zcsyncd.plugins.hook",
    "zcsyncd.plugins.moves",
    "zcsyncd.plugins.quick_json",
    "zcsyncd.places",
    "zcsyncd.errors",
    "zcsyncd.opening",
}
HEAVY = {
    "json",
    "re",
    "enum",
    "socket",
    "typing",
    "dataclasses",
    "hashlib",
    "pathlib",
    "threading",
    "functools",
}


@pytest.mark.parametrize("where", ["outside", "in memory"])
def test_a_hook_imports_next_to_nothing(running, project, where):
    """A handful of our own modules, and of the standard library what is built in or nearly so."""
    HookHost(running.machine, project.cwd).start()
    path = project.cwd / "README.md" if where == "outside" else project.memory / "a.md"
    said = {"hook_event_name": "PostToolUse", "session_id": "s-1", "cwd": str(project.cwd)}
    said |= {"tool_name": "Read", "tool_input": {"file_path": str(path)}}
    done = subprocess.run(
        [sys.executable, "-IS", "-c", PROBE, str(ROOT)],
        input=json.dumps(said).encode() + b"\n",
        env=running.machine.env,
        capture_output=True,
        timeout=20,
        check=True,
    )
    imported = set(done.stderr.decode().split(","))
    assert not HEAVY & imported
    assert {name for name in imported if name.startswith("zcsyncd")} == OURS
    assert ("_socket" in imported) == (where == "in memory")
    assert len(imported) < 30
