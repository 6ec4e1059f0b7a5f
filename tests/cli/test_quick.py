"""`zcsyncd status` in the least time: what it imports is what it costs."""

import json
import subprocess
import sys

import pytest

HEAVY = {
    "argparse",
    "asyncio",
    "dataclasses",
    "hashlib",
    "inspect",
    "logging",
    "pathlib",
    "platformdirs",
    "sqlite3",
    "subprocess",
    "typing",
    "watchdog",
    "yaml",
    "zcsyncd.cli.commands",
    "zcsyncd.cli.main",
    "zcsyncd.config",
    "zcsyncd.settings",
}
PROBE = """
import json, sys
before = set(sys.modules)
from zcsyncd.__main__ import main
code = main(sys.argv[1:])
print("\\n@" + json.dumps([code, sorted(set(sys.modules) - before)]))
"""


@pytest.mark.parametrize("words", [("status",), ("status", "--json")])
def test_status_imports_nothing_heavy(shell, daemon, words):
    """The fast path answers without a parser, logging, platformdirs, dataclasses or typing."""
    done = subprocess.run(
        # -S: what site-packages' own start-up files import is not ours.
        [sys.executable, "-S", "-c", PROBE, *words],
        env=shell.env,
        cwd=shell.home,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    code, imported = json.loads(done.stdout.rsplit("@", 1)[1])
    assert code == 0
    assert "zcsyncd.cli.quick" in imported
    assert not HEAVY & set(imported)


def test_the_fast_and_the_full_way_say_the_same(shell, daemon):
    """`status` gives the same answer, whichever way it was asked."""
    fast = shell.json("status")
    full = json.loads(shell.run("--json", "status").stdout)
    for answer in (fast, full):
        answer["daemon"].pop("uptimeS")
        answer["daemon"].pop("rssBytes")
        answer["bus"].pop("published")
    assert fast == full
    text = shell.run("status").stdout
    assert text.startswith("daemon    ready, version ")
    assert "memory    0 directories, 0 facts, no findings" in text


def test_a_stale_note_of_a_daemon_is_told_in_one_line(shell):
    """An endpoint file whose daemon was killed gives exit code 3 and one line, not a traceback."""
    state = shell.place / "state"
    state.mkdir(mode=0o700)
    address = str(shell.place / "gone.sock")
    (state / "endpoint.json").write_text(json.dumps({"address": address, "pid": 1}))
    done = shell.run("status")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert address in done.stderr
    assert "zcsyncd run" in done.stderr


@pytest.mark.parametrize("text", ["", "{", "[]", '{"address": 5}', "\x00", '{"address": ""}'])
def test_an_odd_endpoint_file_counts_as_none(shell, text):
    """Whatever stands in the endpoint file, the usual address is probed and named."""
    state = shell.place / "state"
    state.mkdir(mode=0o700)
    (state / "endpoint.json").write_text(text)
    done = shell.run("status")
    assert done.returncode == 3
    assert str(shell.place / "run" / "bus.sock") in done.stderr
    assert done.stderr.count("\n") == 1
