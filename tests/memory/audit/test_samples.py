"""The audit over sample directories: quiet where all is well, and naming just what is wrong."""

from pathlib import Path

import pytest

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.audit import audit, counts, indexed
from zcsyncd.memory.fact import FileStat, parse_fact
from zcsyncd.memory.index import parse_index
from zcsyncd.memory.snapshot import Snapshot

CAPS = Caps(lines=200, units=25_000)
SAMPLES = Path(__file__).parents[2] / "samples"


def sample(name):
    """Read a sample as the disk's door reads a directory."""
    index, facts = None, {}
    for path in sorted((SAMPLES / name).rglob("*.md")):
        file, raw = path.relative_to(SAMPLES / name).as_posix(), path.read_bytes()
        stat = FileStat(path.stat().st_mtime_ns, 0, len(raw), 1)
        if file == "MEMORY.md":
            index = parse_index(file, raw, stat, read_at_ns=0, caps=CAPS)
        else:
            facts[file] = parse_fact(file, raw, stat, read_at_ns=0, symlink=False)
    return Snapshot("/sample", "zcode", index, facts)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flat-types", []),
        ("index-one-level-up", []),
        ("blockquote-preamble", []),
        ("en-one-unindexed", ["fact-unindexed", "front-matter-missing"]),
        ("ko-clean", ["front-matter-invalid"]),
        ("es-no-front-matter", ["front-matter-missing"]),
    ],
)
def test_what_is_told_of_a_sample(name, expected):
    """At warning and above a sample shows its known defects and nothing else, all in one file."""
    findings = [finding for finding in audit(sample(name), CAPS, now_ms=0) if finding.severity != "info"]
    assert [finding.code for finding in findings] == expected
    assert len({finding.file for finding in findings}) <= 1


@pytest.mark.parametrize("name", ["flat-types", "ko-clean", "es-no-front-matter", "index-one-level-up"])
def test_all_facts_of_a_sample_are_indexed(name):
    """Where no fact is told as unindexed, `indexed` names them all."""
    snapshot = sample(name)
    assert indexed(snapshot) >= snapshot.facts.keys()


def test_flat_types_are_told_when_asked():
    """Each of the eleven flat types is an info, and nothing counts as more."""
    findings = audit(sample("flat-types"), CAPS, now_ms=0)
    assert sum(finding.code == "type-flat" for finding in findings) == 11
    assert counts(findings) == {"error": 0, "warning": 0, "info": len(findings)}
