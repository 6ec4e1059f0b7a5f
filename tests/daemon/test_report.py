"""What `status` says about the process itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import zcsyncd
from zcsyncd.daemon.report import package_skew, rss_bytes

PACKAGE = Path(zcsyncd.__file__).parent

ASK = """
import os, sys
sys.path.insert(0, sys.argv[1])
from zcsyncd.daemon.report import package_skew
import zcsyncd
assert zcsyncd.__file__.startswith(sys.argv[1]), zcsyncd.__file__
print(package_skew())
path = zcsyncd.__file__
text = open(path).read()
open(path, "w").write(text.replace(zcsyncd.__version__, "99.1"))
print(package_skew())
open(path, "w").write("nothing that tells a version")
print(package_skew())
os.unlink(path)
print(package_skew())
"""


def test_the_code_that_runs_is_the_one_that_is_installed():
    """There is no skew as long as nobody replaced the package."""
    assert package_skew() is None


def test_a_package_that_was_replaced_under_the_daemon_is_told(tmp_path):
    """After an update the version on the disk is told, until the daemon is started again; a removed one is not."""
    copied = tmp_path / "zcsyncd"
    for path in PACKAGE.rglob("*.py"):
        target = copied / path.relative_to(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    done = subprocess.run(
        [sys.executable, "-I", "-c", ASK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["None", "99.1", "None", "None"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows tells it in another way, which is not built")
def test_the_memory_that_is_held():
    """In bytes, of this process: it grows with what is held."""
    before = rss_bytes()
    assert before is not None
    held = b"x" * 64_000_000
    after = rss_bytes()
    assert after - before > 32_000_000
    del held
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        assert abs(rss_bytes() - pages * os.sysconf("SC_PAGE_SIZE")) < 64_000_000
