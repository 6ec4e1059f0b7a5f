"""The demo: it shows what it promises, in a home of its own, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 50.0


def start(place: Path, **env: str) -> subprocess.Popen[str]:
    """Start the demo with a home and a temporary directory that the test can look into."""
    (place / "home").mkdir()
    (place / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "zcsyncd", "run", "--demo"],
        cwd=place / "home",
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(place / "home"),
            "TMPDIR": str(place / "tmp"),
            "ZCODE_STORAGE_DIR": str(place / "home" / "elsewhere"),
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": str(place / "compiled"),
            "PYTHONUTF8": "1",
            "ZCSYNCD_DEMO_PACE": "0",
            **env,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def left_behind(place: Path) -> list[str]:
    """List what is in the test's home and temporary directory."""
    return [str(path) for name in ("home", "tmp") for path in (place / name).rglob("*")]


def test_the_demo_shows_every_scene(tmp_path):
    """Saves in both ways, an overwritten index, the alarm within a second, the repair shown and applied; nothing is left."""
    process = start(tmp_path)
    out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")
    told = [
        r"memory/changed  added project_berth_numbers\.md",
        r"memory/index  1 entry added",
        r"memory/changed  added feedback_units\.md",
        r"memory/index  1 entry added; 2 entries removed",
        r"error entry-lost  MEMORY\.md\n.*`(project_berth_numbers|feedback_units)\.md`",
        r"error entry-lost  MEMORY\.md\n.*`(project_berth_numbers|feedback_units)\.md`",
        r"the alarm came (\d\.\d\d) s after the write",
        r"\$ .*zcsyncd repair\n",
        r"\n\+- \[Berth numbers\]\(project_berth_numbers\.md\).*\n\+- \[Units\]\(feedback_units\.md\)",
        r"nothing is written yet",
        r"\$ .*zcsyncd repair --apply\n",
        r"\n\+- \[Berth numbers\]\(project_berth_numbers\.md\).*\n\+- \[Units\]\(feedback_units\.md\)",
        r"2 fixes written",
        r"zcsyncd history undo",
        r"memory/index  2 entries added",
        r"cleared entry-lost",
        r"byte for byte what it was, and the line that came since is still there",
        r"That is all",
    ]
    place = 0
    for words in told:
        match = re.search(words, out[place:])
        assert match, (words, out)
        place += match.end()
        if match.groups() and match[1][0].isdigit():
            assert float(match[1]) < 1.0, out
    assert "\x1b" not in out
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_cleans_up(tmp_path, number):
    """Ctrl-C, a polite end, a closed terminal, each told twice: quiet, the daemon is down, and nothing is left."""
    process = start(tmp_path, ZCSYNCD_DEMO_PACE="100")
    assert process.stdout is not None
    text = ""
    while "The daemon runs" not in text:
        line = process.stdout.readline()
        assert line, process.communicate()
        text += line
    (memory,) = re.findall(r"^  (/.*)$", text, re.MULTILINE)
    state = Path(memory.split("/home/.zcode")[0]) / "state"
    pid = int(re.search(r'"pid": (\d+)', (state / "endpoint.json").read_text())[1])
    process.send_signal(number)
    process.send_signal(number)
    _, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (130, "")
    assert left_behind(tmp_path) == []
    until = time.monotonic() + WAIT_S
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < until:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{pid}")


def test_the_sample_project_is_in_order(tmp_path):
    """The demo's memory itself has not one finding, not even an info."""
    from zcsyncd.cli import offline

    directory = str(ROOT / "zcsyncd" / "demo" / "memory")
    env = {"HOME": str(tmp_path), "ZCSYNCD_CONFIG": str(tmp_path / "none.yaml")}
    assert offline.audit_answer(directory, env, "info") == {"total": 0, "findings": []}
