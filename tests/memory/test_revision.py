"""A revision is what ZCode's own functions make of a file's state."""

import json
import os
from fractions import Fraction
from pathlib import Path

import pytest

from zcsyncd.memory.revision import mtime_ms, node_mtime_ms, revision

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "revision.json").read_text("utf-8"))["cases"]
ON_DISK = [case for case in CASES if "mtimeNs" in case]


def _nanoseconds(case):
    """Give the row's time in ns; rows without a file have only the double."""
    return case["mtimeNs"] if "mtimeNs" in case else round(Fraction(case["mtimeMs"]) * 10**6)


def test_the_vectors_are_all_here():
    """No row of the vectors got lost."""
    assert len(CASES) == 38
    assert len(ON_DISK) == 22


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_revision_is_zcodes(case):
    """Time and size give the revision that ZCode names."""
    assert revision(_nanoseconds(case), case["size"]) == case["revision"]


@pytest.mark.parametrize("case", ON_DISK, ids=lambda case: case["id"])
def test_milliseconds_are_nodes_double(case):
    """The double is the one that Node's stat reports, to the last bit."""
    assert node_mtime_ms(case["mtimeNs"]) == case["mtimeMs"]


@pytest.mark.parametrize("case", ON_DISK, ids=lambda case: case["id"])
def test_a_real_file_gives_the_same(case, tmp_path):
    """Set on a real file and read back by stat, the time gives the same milliseconds."""
    path = tmp_path / "fact.md"
    path.write_bytes(b"x")
    os.utime(path, ns=(case["mtimeNs"], case["mtimeNs"]))
    found_ns = path.stat().st_mtime_ns
    if found_ns != case["mtimeNs"]:
        pytest.skip(f"this file system keeps no nanoseconds ({found_ns})")
    assert f"mtime:{mtime_ms(found_ns)}:" in case["revision"]


def test_never_minus_zero():
    """A time just before 1970 truncates to 0, without a sign."""
    assert revision(-1, 0) == "mtime:0:size:0"
