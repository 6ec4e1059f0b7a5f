"""zcsyncd/plugins/pi: the plugin on Node's own test runner, with a fake host, and a fake and a real daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import zcsyncd
from tests.transcripts.machine import CHECKOUT, Machine, fact_text, new_machine

HERE = Path(__file__).parent
PLUGIN = CHECKOUT / "zcsyncd" / "plugins" / "pi"


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = new_machine()
    yield made
    made.close()


def run(script: str, env: dict[str, str]) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here")
    version = subprocess.run(
        [node, "--version"], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    if int(version.removeprefix("v").partition(".")[0]) < 20:
        pytest.skip(f"the plugin is for Node 20 and later, this is {version.strip()}")
    done = subprocess.run(
        [node, "--test", "--test-reporter=spec", script],
        env=env,
        cwd=HERE,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_with_a_fake_daemon():
    """Everything the plugin does, piece by piece (unit.test.mjs)."""
    run("unit.test.mjs", dict(os.environ))


def test_with_a_real_daemon(machine):
    """Two sessions of one project on a real daemon: a write, its news, a stale write, a compaction (real_daemon.test.mjs)."""
    project = machine.project().make({"old.md": fact_text("old", "What was there")})
    daemon = machine.start()
    run(
        "real_daemon.test.mjs",
        {**machine.env, "ZCSYNCD_SOCKET": machine.address, "ZT_CWD": str(project.cwd), "ZT_DIR": project.dir},
    )
    daemon.stop()


def test_it_carries_the_version_of_the_package():
    """Header line, constant and package.json say the version that `plugin status` compares."""
    text = (PLUGIN / "zcsyncd.js").read_text("utf-8")
    assert text.startswith(f"// zcsyncd-plugin {zcsyncd.__version__}\n")
    assert f'export const VERSION = "{zcsyncd.__version__}";' in text
    package = json.loads((PLUGIN / "package.json").read_text("utf-8"))
    assert package["version"] == zcsyncd.__version__
    assert package["pi"]["extensions"] == ["./zcsyncd.js"]
    assert "pi-package" in package["keywords"]


def test_it_imports_nothing_but_node_and_writes_to_no_console():
    """One file that loads in any host: no import of the host's, no console, no process output."""
    text = (PLUGIN / "zcsyncd.js").read_text("utf-8")
    assert all(name.startswith("node:") for name in re.findall(r'from "([^"]+)"', text))
    assert not re.search(r"console\.|process\.(stdout|stderr)|\brequire\(|\bimport\(", text)
