"""Findings over time."""

from zcsyncd.daemon.docket import FindingRow, reckon
from zcsyncd.memory.audit.finding import Finding

GRACE = 60_000


def finding(key="k", severity="error", *, graced=False, message="m"):
    return Finding(key, "some-code", severity, "a.md", None, 1, message, None, fixable=False, graced=graced)


def after(findings, known=None, *, now=0, dismissed=(), adopt="no"):
    return reckon(findings, known or {}, dismissed, now_ms=now, grace_ms=GRACE, adopt=adopt)


def keys(rows):
    return [row.finding.key for row in rows]


def test_a_new_finding_is_told_once():
    """What appeared is told, and not again while it stays."""
    first = after([finding()])
    assert keys(first.appeared) == ["k"]
    assert first.counts == (1, 0, 0)
    second = after([finding()], first.rows, now=5)
    assert second.appeared == second.cleared == ()
    assert second.rows["k"].since_ms == 0


def test_a_finding_whose_line_or_message_changed_is_the_same():
    """A key is a key: new words are taken over in silence."""
    first = after([finding(message="old")])
    second = after([finding(message="new")], first.rows, now=5)
    assert second.appeared == second.cleared == ()
    assert second.rows["k"].finding.message == "new"


def test_what_ends_is_told_as_cleared():
    """The end of a told finding is told, with what it last said."""
    first = after([finding()])
    assert keys(after([], first.rows).cleared) == ["k"]


def test_a_graced_finding_waits_and_is_told_when_its_grace_is_over():
    """Pending: neither told nor counted; due exactly when the grace ends."""
    first = after([finding(graced=True)], now=1000)
    assert (first.appeared, first.counts, first.next_due_ms) == ((), (0, 0, 0), 61_000)
    almost = after([finding(graced=True)], first.rows, now=60_999)
    assert almost.appeared == ()
    over = after([finding(graced=True)], almost.rows, now=61_000)
    assert keys(over.appeared) == ["k"]
    assert (over.counts, over.next_due_ms) == ((1, 0, 0), None)


def test_a_graced_finding_that_ends_in_time_is_never_told():
    """A fact and its entry a turn apart make no noise."""
    first = after([finding(graced=True)], now=0)
    assert after([], first.rows, now=30_000).cleared == ()


def test_infos_are_counted_but_not_told():
    """`info` is shown only when asked for."""
    first = after([finding(severity="info")])
    assert (first.appeared, first.counts) == ((), (0, 0, 1))
    assert after([], first.rows).cleared == ()


def test_a_finding_that_grows_to_a_warning_is_told_then():
    """An `info` that becomes a `warning` appears, one that shrinks again is cleared."""
    first = after([finding(severity="info")])
    grown = after([finding(severity="warning")], first.rows)
    assert keys(grown.appeared) == ["k"]
    shrunk = after([finding(severity="info")], grown.rows)
    assert keys(shrunk.cleared) == ["k"]
    again = after([finding(severity="warning")], shrunk.rows)
    assert keys(again.appeared) == ["k"]


def test_a_dismissed_finding_is_neither_told_nor_counted_nor_cleared():
    """Dismissed is dismissed, also at its end."""
    first = after([finding()], dismissed={"k"})
    assert (first.appeared, first.counts) == ((), (0, 0, 0))
    assert after([], {"k": FindingRow(0, True, finding())}, dismissed={"k"}).cleared == ()


def test_an_unknown_directory_is_adopted_in_silence():
    """The first scan counts; what waits for its grace is told later when the directory is news, never when the
    whole state is new."""
    both = [finding("plain"), finding("waits", graced=True)]
    news = after(both, adopt="settled")
    assert (news.appeared, news.counts) == ((), (1, 0, 0))
    assert keys(after(both, news.rows, now=GRACE).appeared) == ["waits"]
    state = after(both, adopt="all")
    later = after(both, state.rows, now=GRACE)
    assert (later.appeared, later.counts) == ((), (2, 0, 0))
    assert keys(after([], later.rows).cleared) == ["plain", "waits"]
