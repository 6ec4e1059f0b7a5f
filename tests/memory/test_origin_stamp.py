"""ZCode's stamp changes bytes and leaves the meaning: a stamped fact is a `file` change, not `updated`."""

import json
from pathlib import Path

import pytest

from zcsyncd.memory.fact import FileStat, parse_fact, read_view

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "origin_stamp.json").read_text("utf-8"))["cases"]
STAMPED = [case for case in CASES if "throws" not in case]
# Stamps that do change what is read, each with the reason.
CHANGES_MEANING = {
    "directive/1": "a `%YAML` line makes ZCode write an inner `---`, which ends the block for the next reader",
    "directive/2": "a `%YAML` line makes ZCode write an inner `---`, which ends the block for the next reader",
}


def before_and_after(case):
    """Read a case's file as it was and as it is stamped."""
    contents = [case[side].encode() for side in ("input", "output")]
    facts = [
        parse_fact("a.md", content, FileStat(at, at, len(content), 1), read_at_ns=at)
        for at, content in enumerate(contents)
    ]
    bodies = [read_view(content, full=True).body for content in contents]
    read = [(fact.name, fact.description, fact.type, body) for fact, body in zip(facts, bodies, strict=True)]
    return facts, read


def test_the_vectors_are_all_here():
    """No case of the vectors got lost; four throw in ZCode and have no output."""
    assert len(CASES) == 222
    assert len(STAMPED) == 218


@pytest.mark.parametrize("case", STAMPED, ids=lambda case: case["id"])
def test_a_stamp_keeps_the_meaning(case):
    """Equal name, description, type and body have equal meaning hashes, and a stamp keeps all four."""
    (was, now), (read_before, read_after) = before_and_after(case)
    assert (was.content_hash != now.content_hash) is case["changed"]
    assert (was.meaning_hash == now.meaning_hash) is (read_before == read_after)
    assert (was.meaning_hash != now.meaning_hash) is (case["id"] in CHANGES_MEANING)


@pytest.mark.parametrize("case", [case for case in CASES if "throws" in case], ids=lambda case: case["id"])
def test_what_zcode_cannot_stamp_is_told(case):
    """Where ZCode's stamping throws, so that its own write fails, the fact is remarked on."""
    content = case["input"].encode()
    fact = parse_fact("a.md", content, FileStat(0, 0, len(content), 1), read_at_ns=0)
    assert [remark.code for remark in fact.remarks] == ["front-matter-alias"]
