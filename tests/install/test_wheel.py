"""What is installed has the unit files with it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_unit_files_ship_in_the_wheel(tmp_path):
    """A wheel holds every file of `service/` below the package, where it is looked for."""
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
    here = {path.relative_to(ROOT).as_posix() for path in (ROOT / "service").rglob("*") if path.is_file()}
    assert here
    assert {f"zcsyncd/{name}" for name in here} <= names
    shown = subprocess.run(
        [sys.executable, "-P", "-m", "zcsyncd", "service", "show"],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "installed"), "PATH": "/nowhere"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "[Service]" in shown.stdout
