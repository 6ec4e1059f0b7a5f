"""What a read is worth: proof makes it current, a hash or a size or a change that was seen makes it stale."""

from dataclasses import replace

import pytest

from zcsyncd.sessions.reading import is_same, is_stamp, merged, outdated_by, state_of
from zcsyncd.sessions.session import UNKNOWN, Now, Read

READ = Read("/m", "a.md", "full", "h1", 1000, 7, 5000, meaning_hash="m1")
NOW = Now("h1", "m1", 1000, 7)
BLIND = replace(READ, content_hash=None, meaning_hash=None)

STATES = [
    ("nothing was read", None, NOW, "unread"),
    ("nothing was read, nothing is there", None, None, "unread"),
    ("the same bytes", READ, NOW, "current"),
    ("the same bytes, touched", READ, replace(NOW, mtime_ms=2000), "current"),
    ("other bytes of the same time and size", READ, replace(NOW, content_hash="h2"), "stale"),
    ("other bytes that mean the same", READ, replace(NOW, content_hash="h2", mtime_ms=2000), "stale"),
    ("the file is gone", READ, None, "gone"),
    ("a part of the same bytes", replace(READ, kind="partial"), NOW, "partial"),
    ("the cut text of the same bytes", replace(READ, kind="truncated"), NOW, "truncated"),
    ("a part of other bytes", replace(READ, kind="partial"), replace(NOW, content_hash="h2"), "stale"),
    ("compacted away", replace(READ, forgotten=True), NOW, "unread"),
    ("compacted away, and gone", replace(READ, forgotten=True), None, "unread"),
    ("told as stale, but the bytes came back", replace(READ, outdated="stale"), NOW, "current"),
    ("the file cannot be read any more", READ, replace(NOW, content_hash=None), "unread"),
    ("it cannot be read, and is longer", READ, replace(NOW, content_hash=None, size=8), "stale"),
    ("nobody told the hash", BLIND, NOW, "unread"),
    ("nobody told the hash, another size", BLIND, replace(NOW, size=8), "stale"),
    ("nobody told the hash, another time", BLIND, replace(NOW, mtime_ms=2000), "unread"),
    ("nobody told anything", replace(BLIND, mtime_ms=UNKNOWN, size=UNKNOWN), NOW, "unread"),
    ("no hash, and a change was seen", replace(BLIND, outdated="stale"), replace(NOW, mtime_ms=2), "stale"),
    (
        "no hash, and it was gone and is back",
        replace(BLIND, outdated="gone"),
        replace(NOW, mtime_ms=2),
        "stale",
    ),
    ("no hash, a part", replace(BLIND, kind="partial"), NOW, "partial"),
    ("no hash, a part of another size", replace(BLIND, kind="partial"), replace(NOW, size=8), "stale"),
]


@pytest.mark.parametrize(
    ("read", "now", "state"), [case[1:] for case in STATES], ids=[case[0] for case in STATES]
)
def test_state(read, now, state):
    """Each of the six states is said where it is true, and `current` only under proof."""
    assert state_of(read, now) == state


FATES = [
    ("the same bytes", READ, NOW, None),
    ("other bytes", READ, replace(NOW, content_hash="h2"), "stale"),
    ("gone", READ, None, "gone"),
    ("back as it was", replace(READ, outdated="gone"), NOW, None),
    ("back as another", replace(READ, outdated="gone"), replace(NOW, content_hash="h2"), "stale"),
    ("cannot be read any more", READ, replace(NOW, content_hash=None), None),
    ("no hash, changed", BLIND, replace(NOW, content_hash="h2", mtime_ms=2000), "stale"),
    ("no hash, read after the change that is heard of now", BLIND, NOW, None),
    ("no hash, no revision, changed", replace(BLIND, mtime_ms=UNKNOWN, size=UNKNOWN), NOW, "stale"),
]


@pytest.mark.parametrize(
    ("read", "now", "fate"), [case[1:] for case in FATES], ids=[case[0] for case in FATES]
)
def test_what_a_change_makes_of_a_read(read, now, fate):
    """A change of bytes outdates a read, unless they are the very bytes, or nobody can see them."""
    assert outdated_by(read, now) == fate


def test_a_stamp_is_other_bytes_that_say_the_same():
    """Only two meanings that are known and equal under different bytes are a stamp."""
    stamped = replace(NOW, content_hash="h2", size=9)
    assert is_stamp(READ, stamped)
    assert not is_stamp(READ, NOW)
    assert not is_stamp(READ, None)
    assert not is_stamp(READ, replace(stamped, meaning_hash="m2"))
    assert not is_stamp(replace(READ, meaning_hash=None), replace(stamped, meaning_hash=None))


def test_nobody_knows_is_neither_yes_nor_no():
    """Equal revisions are no proof of equal bytes."""
    assert is_same(BLIND, NOW) is None
    assert is_same(READ, replace(NOW, content_hash=None)) is None


PART = replace(READ, kind="partial", at_ms=6000, range=(1, 5))
MERGES = [
    ("a part of what was read whole", READ, PART, "full"),
    ("a part of other bytes", READ, replace(PART, content_hash="h2"), "partial"),
    ("a part without a hash of the same revision", READ, replace(PART, content_hash=None), "full"),
    (
        "a part without a hash of another revision",
        READ,
        replace(PART, content_hash=None, mtime_ms=2),
        "partial",
    ),
    (
        "a part of which nothing is known",
        READ,
        replace(PART, content_hash=None, mtime_ms=UNKNOWN, size=UNKNOWN),
        "partial",
    ),
    ("a part of what was forgotten", replace(READ, forgotten=True), PART, "partial"),
    ("the whole after a part", PART, replace(READ, at_ms=6000), "full"),
    ("the first read", None, PART, "partial"),
]


@pytest.mark.parametrize(
    ("before", "read", "kind"), [case[1:] for case in MERGES], ids=[case[0] for case in MERGES]
)
def test_a_look_at_a_part_takes_nothing_away(before, read, kind):
    """Who has read a file whole and then looks at a part of the same bytes has still read it whole."""
    kept = merged(before, read)
    assert (kept.kind, kept.at_ms, kept.forgotten) == (kind, 6000, False)


def test_a_read_without_a_hash_keeps_the_hash_of_the_same_revision():
    """The host's own read tool, which tells no hash, does not take the proof from a read that we answered."""
    assert merged(READ, replace(BLIND, at_ms=6000)) == replace(READ, at_ms=6000)
    assert merged(READ, replace(BLIND, at_ms=6000, size=8)).content_hash is None


def test_who_reads_again_is_told_again():
    """A new read of the same bytes ends what was told of the old one."""
    assert merged(replace(READ, outdated="stale"), PART).outdated is None
