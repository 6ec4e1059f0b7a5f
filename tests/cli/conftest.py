"""A console of its own for every test: the real command in a subprocess, in a home that is thrown away."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "samples"
WAIT_S = 30.0


@dataclass
class Shell:
    """Runs `zcsyncd` with an environment of its own; nothing of the real home is in reach."""

    place: Path
    env: dict[str, str]

    @property
    def home(self) -> Path:
        return self.place / "home"

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "zcsyncd", *words]

    def run(self, *words: str, cwd=None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one verb to its end; output is text, nothing is a terminal."""
        return subprocess.run(
            self.command(*words),
            cwd=cwd or self.home,
            env={**self.env, **env},
            capture_output=True,
            encoding="utf-8",
            timeout=WAIT_S,
            check=False,
        )

    def json(self, *words: str, cwd=None):
        """Run one verb with --json; give what it says."""
        done = self.run(*words, "--json", cwd=cwd)
        assert done.stderr == ""
        return json.loads(done.stdout)

    def start(self, *words: str, cwd=None, **options) -> subprocess.Popen[str]:
        """Start a verb that goes on."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(
            self.command(*words), cwd=cwd or self.home, env=self.env, encoding="utf-8", **options
        )

    def project(self, name: str = "app") -> Path:
        """Make a working directory."""
        cwd = self.home / "code" / name
        cwd.mkdir(parents=True, exist_ok=True)
        return cwd

    def memory(self, cwd: Path, sample: str | None = None) -> Path:
        """Make the memory directory of a working directory, with the facts of a sample."""
        from zcsyncd.layouts.zcode import ZCODE

        directory = Path(ZCODE.directory(str(self.home / ".zcode" / "cli"), str(cwd)))
        directory.mkdir(parents=True)
        for file in (SAMPLES / sample).glob("*.md") if sample else ():
            (directory / file.name).write_bytes(file.read_bytes())
        return directory


def make_shell(place: Path, compiled: Path) -> Shell:
    """Make a home below a directory; `compiled` is where all of them share compiled modules."""
    (place / "home").mkdir(mode=0o700)
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TZ", "SYSTEMROOT"}}
    env = {
        **kept,
        "HOME": str(place / "home"),
        "ZCSYNCD_STATE_DIR": str(place / "state"),
        "ZCSYNCD_RUNTIME_DIR": str(place / "run"),
        "ZCSYNCD_CONFIG": str(place / "config.yaml"),
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(compiled),
        "PYTHONUTF8": "1",
    }
    return Shell(place, env)


@pytest.fixture
def shell(tmp_path, tmp_path_factory):
    """Give a console without a daemon."""
    place = tmp_path / "z"
    place.mkdir(mode=0o700)
    return make_shell(place, tmp_path_factory.getbasetemp() / "compiled")


@pytest.fixture
def samples():
    """Give the directory of the sample memory directories."""
    return SAMPLES


@pytest.fixture
def daemon(shell):
    """Run a real daemon on the console's home; it is ready."""
    process = shell.start("run", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + WAIT_S
    while shell.run("status").returncode != 0 or not shell.json("status")["daemon"]["ready"]:
        assert process.poll() is None, "the daemon ended"
        assert time.monotonic() < until, "the daemon does not come up"
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)
