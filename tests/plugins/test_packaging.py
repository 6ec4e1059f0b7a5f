"""What is installed has the plugins with it, dot directories included."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_plugins_ship_in_the_wheel(tmp_path):
    """Every file of a plugin, and a hook that runs from where the wheel was unpacked."""
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
        wheel.extractall(tmp_path / "installed")
    for name in ("zcode", "claude-code"):
        here = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / "zcsyncd" / "plugins" / name).rglob("*")
            if path.is_file()
        }
        assert len(here) == 4
        assert here <= names
    assert "zcsyncd/plugins/pi/zcsyncd.js" in names
    (tmp_path / "home").mkdir()
    done = subprocess.run(
        [sys.executable, "-IS", str(tmp_path / "installed/zcsyncd/plugins/run_hook.py"), "zcode"],
        input=b'{"hook_event_name":"Stop","session_id":"s","cwd":"/a"}\n',
        env={"HOME": str(tmp_path / "home"), "ZCSYNCD_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / "state/hooks/zcode/last.Stop").exists()
