"""Sessions come, go, compact and fork; each is told once of what outdated its reads, and never of its own writes."""

from dataclasses import replace

import pytest

from zcsyncd.sessions import account as module
from zcsyncd.sessions import steps
from zcsyncd.sessions.account import CONTACT_STEP_MS, LAPSE_MS, Account, Held, Now, Read, Told

A, B = ("pi", "a"), ("pi", "b")
T0 = 1_800_000_000_000
H1, H2, H3 = (Now(f"h{number}", "m" if number < 3 else "n", number, 7) for number in (1, 2, 3))


def hello(
    account, who=A, reason="attach", *, head=10, now_ms=T0, journal="j", parent=None, texts=None, **more
):
    """Say hello with what a test does not care about filled in."""
    return account.hello(
        who,
        cwd=more.get("cwd", "/w"),
        dirs=more.get("dirs", ()),
        reason=reason,
        parent=parent,
        now_ms=now_ms,
        journal=journal,
        head=head,
        index_texts=lambda: texts or {},
    )


def read(account, who=A, *, file="a.md", now=H1, kind="full", directory="/m", at_ms=T0):
    """Let a session read a file."""
    made = Read(
        directory, file, kind, now.content_hash, now.mtime_ms, now.size, at_ms, meaning_hash=now.meaning_hash
    )
    assert account.read(who, made)
    return made


@pytest.fixture
def two():
    """Two sessions that have read a.md."""
    account = Account()
    for who in (A, B):
        hello(account, who)
        read(account, who)
    return account


# -- hello


def test_a_start_has_the_present_for_its_baseline():
    """`start`: the index was just put before the model, so nothing before it is news, and its text is known."""
    account = Account()
    hello(account, head=3)
    account.answered(A, Told("t", 5, (Held("/m", "x", 1),), ("k",)))
    account.confirm(A, "t", told=True)
    account.answered(A, Told("u", 6))
    started = hello(account, reason="start", head=9, texts={"/m": "text", "/n": None})
    assert (started.baseline, started.start_baseline) == (9, 9)
    assert (started.told, started.held, started.alarms) == (None, (), {"k"})
    assert started.index_reads == {"/m": "text", "/n": None}


def test_a_start_keeps_what_was_read():
    """A newer index put into a conversation that goes on takes nothing out of it."""
    account = Account()
    hello(account)
    read(account)
    hello(account, reason="start", head=11)
    assert account.check(A, "/m", "a.md", H1) == "current"


def test_attach_moves_nothing():
    """A hook is a new connection each time; its hello changes neither baseline nor answer."""
    account = Account()
    hello(account, head=3)
    account.answered(A, Told("t", 5))
    before = account.get(A)
    after = hello(account, head=8, now_ms=T0 + 5)
    assert after == replace(before, last_contact_ms=T0 + 5)


def test_an_unknown_session_adopts_the_present():
    """Nobody's history is replayed to a newcomer, whatever word it comes with, and no index is supposed to be its own."""
    for reason in ("attach", "compact", "fork"):
        account = Account()
        session = hello(account, reason=reason, parent="nobody", head=7, texts={"/m": "text"})
        assert (session.baseline, session.start_baseline, session.index_reads) == (7, 7, {})
        assert not account.index_stale(A, "/m", "another")


def test_index_texts_are_asked_for_a_start_only():
    """Attaching costs no look at the directories."""

    def never():
        raise AssertionError

    account = Account()
    for reason in ("attach", "compact"):
        session = account.hello(A, cwd="/w", reason=reason, now_ms=T0, journal="j", head=1, index_texts=never)
        assert session.index_reads == {}


def test_another_journal_is_the_present():
    """Sequences of a journal that is gone mean nothing; hashes still do."""
    account = Account()
    hello(account, reason="start", texts={"/m": "text"})
    read(account)
    account.answered(A, Told("t", 12))
    session = hello(account, journal="k", head=2)
    assert (session.journal, session.baseline, session.start_baseline, session.told) == ("k", 2, 2, None)
    assert account.check(A, "/m", "a.md", H1) == "current"
    assert account.index_stale(A, "/m", "another")


def test_a_baseline_ahead_of_the_head_is_the_present():
    """A journal that lost its end does not swallow what comes next."""
    account = Account()
    hello(account, head=10)
    assert hello(account, head=4).baseline == 4


def test_a_compaction_goes_back_to_the_start():
    """What was told since the start is told once more; reads and index are unread; alarms stay with the person."""
    account = Account()
    hello(account, reason="start", head=3, texts={"/m": "text"})
    read(account)
    account.answered(A, Told("t", 8, (Held("/m", "x", 1),), ("k",)))
    account.confirm(A, "t", told=True)
    session = hello(account, reason="compact", head=9)
    assert (session.baseline, session.held, session.alarms) == (3, (), {"k"})
    assert account.check(A, "/m", "a.md", H1) == "unread"
    assert account.changed("/m", "a.md", H2, None, T0) == []
    assert not account.index_stale(A, "/m", "another")
    assert not account.confirm(A, "t", told=True), "an answer from before a compaction confirms nothing"


def test_what_is_read_after_a_compaction_is_read():
    """A compaction forgets what was, not what comes."""
    account = Account()
    hello(account)
    read(account)
    hello(account, reason="compact")
    read(account)
    assert account.check(A, "/m", "a.md", H1) == "current"


def test_a_fork_knows_what_its_parent_knows():
    """Baseline, reads, index and alarms are copied; what the parent did not confirm is said to the child too."""
    account = Account()
    hello(account, reason="start", head=3, texts={"/m": "text"}, dirs=("/d",))
    read(account)
    account.answered(A, Told("t", 5, (Held("/m", "x", 1),), ("k",)))
    account.confirm(A, "t", told=True)
    account.answered(A, Told("u", 6))
    child = hello(account, B, "fork", parent="a", head=9, cwd="/v", now_ms=T0 + 1)
    parent = account.get(A)
    assert child == replace(
        parent, who=B, cwd="/v", dirs=(), first_ms=T0 + 1, last_contact_ms=T0 + 1, told=None, confirmed=None
    )
    read(account, B, now=H2)
    assert account.check(A, "/m", "a.md", H1) == "current", "from then on each goes its own way"


def test_a_session_forks_once():
    """A fork that says hello again, on another connection, keeps what it learned since."""
    account = Account()
    hello(account, head=3)
    hello(account, B, "fork", parent="a")
    account.answered(B, Told("t", 8))
    account.confirm(B, "t", told=True)
    assert hello(account, B, "fork", parent="a").baseline == 8


def test_a_parent_is_of_the_same_host():
    """An id names a session of one host only."""
    account = Account()
    hello(account, head=3)
    assert hello(account, ("omp", "b"), "fork", parent="a", head=9).baseline == 9


def test_a_hello_without_directories_keeps_those_known():
    """A second client of a session, which resolves none, takes none away; one that names others replaces them."""
    account = Account()
    hello(account, dirs=("/d",))
    assert hello(account).dirs == ("/d",)
    assert hello(account, dirs=("/e", "/f")).dirs == ("/e", "/f")


# -- contact and lapse


def test_a_session_lapses_after_fourteen_days_of_silence():
    """Not a millisecond sooner; one that talks never does."""
    account = Account()
    hello(account, A)
    hello(account, B)
    assert account.contact(B, T0 + LAPSE_MS)
    assert account.lapse(T0 + LAPSE_MS) == []
    assert account.lapse(T0 + LAPSE_MS + 1) == [A]
    assert [session.who for session in account.sessions()] == [B]
    assert account.gone() == {A}


def test_a_lapsed_session_is_unknown_before_the_sweep_comes():
    """Neither a contact nor a hello wakes it: its hello adopts the present, with nothing read."""
    late = T0 + LAPSE_MS + 1
    account = Account()
    hello(account, head=3)
    read(account)
    assert not account.contact(A, late)
    hello(account, B, head=3)
    session = hello(account, B, head=9, now_ms=late)
    assert (session.baseline, session.reads, session.first_ms) == (9, {}, late)
    assert hello(account, ("pi", "c"), "fork", parent="a", head=9, now_ms=late).baseline == 9


def test_a_contact_writes_a_row_once_a_minute():
    """Sixty questions in a minute cost one row; what the row says is a minute old at most."""
    start = T0 - T0 % CONTACT_STEP_MS
    account = Account()
    hello(account, now_ms=start)
    account.dirty()
    for later in range(0, CONTACT_STEP_MS, 1000):
        account.contact(A, start + later)
    assert account.dirty() == set()
    account.contact(A, start + CONTACT_STEP_MS)
    assert account.dirty() == {A}


def test_a_clock_that_goes_back_takes_no_contact_away():
    """The last contact only moves on."""
    account = Account()
    hello(account, now_ms=T0)
    account.contact(A, T0 - 5_000)
    assert account.get(A).last_contact_ms == T0


def test_an_end_is_an_end():
    """Of an ended session nothing is left, and its row goes."""
    account = Account()
    hello(account)
    read(account)
    account.dirty()
    assert account.end(A)
    assert not account.end(A)
    assert (account.get(A), account.dirty(), account.gone()) == (None, set(), {A})
    assert account.changed("/m", "a.md", H2, None, T0) == []


def test_an_unknown_session_keeps_no_account():
    """Nothing is noted for who has not said hello."""
    account = Account()
    assert not account.read(A, Read("/m", "a.md", "full", "h", 1, 1, T0))
    assert not account.contact(A, T0)
    assert not account.index_given(A, "/m", "text")
    assert not account.answered(A, Told("t", 1))
    assert not account.confirm(A, None, told=True)
    assert account.check(A, "/m", "a.md", H1) == "unread"
    assert account.changed("/m", "a.md", H1, A, T0) == []
    assert account.overdue(A, "/m", "a.md", None) is None
    account.index_wrote(A, "/m", None, "text")
    assert account.dirty() == set()


# -- reads that become outdated


def test_a_change_is_told_to_its_readers_but_not_to_its_writer(two):
    """The writer has read what it wrote."""
    stale = two.changed("/m", "a.md", H3, A, T0 + 1)
    assert [(each.who, each.read.content_hash, each.now, each.stamp) for each in stale] == [
        (B, "h1", H3, False)
    ]
    assert two.check(A, "/m", "a.md", H3) == "current"
    assert two.check(B, "/m", "a.md", H3) == "stale"
    assert two.read_of(A, "/m", "a.md").own


def test_a_write_counts_as_a_read():
    """Even by one that had not read the file, or only a part."""
    account = Account()
    hello(account)
    read(account, file="b.md", kind="partial")
    for file in ("a.md", "b.md"):
        assert account.changed("/m", file, H2, A, T0) == []
        assert account.check(A, "/m", file, H2) == "current"


def test_stale_is_told_once(two):
    """Not at each further change; a file that goes altogether is told once more; what came back is current."""
    steps_ = [(H3, 2), (H2, 0), (None, 2), (None, 0), (H3, 0), (None, 2), (H1, 0), (H3, 2)]
    for now, told in steps_:
        assert len(two.changed("/m", "a.md", now, None, T0)) == told, now
        state = "gone" if now is None else "current" if now is H1 else "stale"
        assert two.check(A, "/m", "a.md", now) == state


def test_a_stamp_is_told_as_such(two):
    """Bytes that ZCode stamped are stale, and marked as meaning the same."""
    assert [each.stamp for each in two.changed("/m", "a.md", H2, None, T0)] == [True, True]


def test_others_files_are_nobodys_business(two):
    """A file of another directory, or another file, tells nobody anything."""
    assert two.changed("/n", "a.md", H2, None, T0) == []
    assert two.changed("/m", "b.md", H2, None, T0) == []


def test_who_reads_again_is_told_again(two):
    """A new read begins anew."""
    two.changed("/m", "a.md", H2, None, T0)
    read(two, A, now=H2)
    assert [each.who for each in two.changed("/m", "a.md", H3, None, T0)] == [A]


def test_a_late_report_is_not_lost(two):
    """A read that was outdated when it was reported is told then, once."""
    two.changed("/m", "a.md", H3, None, T0)
    read(two, A, now=H1)
    assert two.overdue(A, "/m", "a.md", H3).read.content_hash == "h1"
    assert two.overdue(A, "/m", "a.md", H3) is None
    assert two.overdue(A, "/m", "b.md", H3) is None
    read(two, A, now=H3)
    assert two.overdue(A, "/m", "a.md", H3) is None


def test_the_deleter_is_not_told(two):
    """Who takes a file away knows; the others are told that it is gone."""
    stale = two.changed("/m", "a.md", None, A, T0)
    assert [(each.who, each.now) for each in stale] == [(B, None)]
    assert two.check(A, "/m", "a.md", None) == "gone"


def test_a_rename_leaves_the_old_name_gone(two):
    """Under the new name the others have read nothing; the writer knows where it moved what it had read."""
    stale = two.renamed("/m", "a.md", "b.md", now=H1, by=A, at_ms=T0)
    assert [(each.who, each.read.file, each.now) for each in stale] == [(B, "a.md", None)]
    assert [two.check(who, "/m", "a.md", None) for who in (A, B)] == ["gone", "gone"]
    assert [two.check(who, "/m", "b.md", H1) for who in (A, B)] == ["current", "unread"]


def test_a_rename_of_what_was_not_read_reads_nothing():
    """Moving a file is not reading it; nor is what one read of an earlier file of that name current."""
    account = Account()
    hello(account)
    read(account, file="b.md")
    assert account.renamed("/m", "a.md", "b.md", now=H3, by=A, at_ms=T0) == []
    assert account.check(A, "/m", "b.md", H3) == "stale"
    read(account, file="c.md")
    account.renamed("/m", "c.md", "d.md", now=H3, by=A, at_ms=T0)
    assert account.check(A, "/m", "d.md", H3) == "stale", "what it had read was older than what it moved"


def test_a_directory_that_goes_takes_its_files(two):
    """Each read of a file in it is told as gone, once."""
    read(two, A, file="b.md")
    read(two, A, directory="/n")
    gone = two.dir_gone("/m")
    assert [(each.who, each.read.file) for each in gone] == [(A, "a.md"), (B, "a.md"), (A, "b.md")]
    assert two.dir_gone("/m") == []
    assert two.check(A, "/n", "a.md", H1) == "current"


# -- the index


def test_an_index_is_stale_when_it_is_another_text():
    """Which text a session was given makes it stale or not; that there is none is a text too."""
    account = Account()
    hello(account)
    for given, now, stale in [("t", "t", False), ("t", "u", True), ("t", None, True), (None, "u", True)]:
        account.index_given(A, "/m", given)
        assert account.index_stale(A, "/m", now) is stale
    account.index_given(A, "/m", None)
    assert not account.index_stale(A, "/m", None)


def test_who_holds_the_old_index():
    """Sessions that were given a text which is not the present one; who was given none holds none."""
    account = Account()
    for name, text in [("a", "old"), ("b", "new"), ("c", None), ("d", "old")]:
        hello(account, ("pi", name))
        account.index_given(("pi", name), "/m", text)
    hello(account, ("pi", "e"))
    assert account.held_by("/m", "new") == [A, ("pi", "d")]
    assert account.held_by("/m", None) == [A, B, ("pi", "d")]


def test_who_writes_the_index_that_it_knows_knows_it_still():
    """Its own entry does not make its index stale; what another added before does."""
    account = Account()
    hello(account)
    account.index_wrote(A, "/m", None, "t1")
    assert account.get(A).index_reads == {}, "it was given none"
    account.index_given(A, "/m", "t1")
    account.index_wrote(A, "/m", "t1", "t2")
    assert not account.index_stale(A, "/m", "t2")
    account.index_wrote(A, "/m", "t3", "t4")
    assert account.index_stale(A, "/m", "t4")


# -- news


def test_what_is_confirmed_moves_the_baseline():
    """Told: baseline, held and alarms are those of the answer. Not told: nothing moves."""
    account = Account()
    hello(account, head=3)
    held = (Held("/m", "x.md", T0),)
    account.answered(A, Told("t", 5, held, ("k",)))
    assert account.confirm(A, "t", told=False)
    assert (account.get(A).baseline, account.get(A).told) == (3, None)
    account.answered(A, Told("u", 6, held, ("k",)))
    assert account.confirm(A, None, told=True)
    session = account.get(A)
    assert (session.baseline, session.held, session.alarms, session.told) == (6, held, {"k"}, None)
    account.answered(A, Told("v", 7, (), ("l",)))
    assert account.confirm(A, "v", told=True)
    assert (account.get(A).held, account.get(A).alarms) == ((), {"k", "l"})


def test_a_token_confirms_its_own_answer_only():
    """One that a newer answer replaced, or nobody gave, confirms nothing; the same one twice is no mistake."""
    account = Account()
    hello(account, head=3)
    account.answered(A, Told("t", 5))
    account.answered(A, Told("u", 6))
    assert not account.confirm(A, "t", told=True)
    assert account.get(A).baseline == 3
    assert account.confirm(A, "u", told=True)
    assert account.confirm(A, "u", told=True)
    assert account.confirm(A, None, told=True), "a hook confirms, whether there was news or not"
    assert not account.confirm(A, "x", told=True)
    assert account.get(A).baseline == 6


def test_a_baseline_never_goes_back_by_a_confirmation():
    """An answer that covers less than was told already takes nothing back."""
    account = Account()
    hello(account, head=10)
    account.answered(A, Told("t", 4))
    assert account.confirm(A, "t", told=True)
    assert account.get(A).baseline == 10


# -- purge


def test_a_purge_leaves_no_hash(two):
    """A file's reads go, with what was held back of it; a whole directory's go with its index."""
    read(two, A, file="b.md")
    two.index_given(A, "/m", "text")
    two.answered(A, Told("t", 11, (Held("/m", "a.md", 1), Held("/m", "b.md", 1))))
    two.confirm(A, "t", told=True)
    two.answered(A, Told("u", 11, (Held("/m", "a.md", 1),)))
    two.forget_file("/m", "a.md")
    session = two.get(A)
    assert (list(session.reads), session.held, session.told.held) == (
        [("/m", "b.md")],
        (Held("/m", "b.md", 1),),
        (),
    )
    assert two.get(B).reads == {}
    assert session.index_reads == {"/m": "text"}
    two.forget_file("/m")
    assert (two.get(A).reads, two.get(A).held, two.get(A).index_reads) == ({}, (), {})


def test_a_purge_of_nothing_writes_nothing(two):
    """Only sessions that lose something get a new row."""
    two.dirty()
    two.forget_file("/n")
    two.forget_file("/m", "z.md")
    two.forget_index("/m")
    assert two.dirty() == set()


# -- rows and bounds


def test_dirty_names_each_session_once(two):
    """What was named is not named again, and what is over is not written."""
    assert two.dirty() == {A, B}
    assert two.dirty() == set()
    read(two, A)
    two.end(A)
    assert (two.dirty(), two.gone(), two.gone()) == (set(), {A}, set())
    two.end(B)
    hello(two, B)
    assert (two.dirty(), two.gone()) == ({B}, set())


def test_a_refused_commit_is_undone(two):
    """What the disk did not take is as if it had not been, and is told when it takes it."""
    two.dirty()
    read(two, A, file="b.md")
    moment = two.moment()
    first = two.changed("/m", "a.md", H2, A, T0)
    two.end(B)
    hello(two, ("pi", "c"))
    two.dirty()
    two.gone()
    two.back_to(moment)
    assert {session.who for session in two.sessions()} == {A, B}
    assert (two.dirty(), two.gone()) == ({A, B}, {("pi", "c")})
    assert two.changed("/m", "a.md", H2, A, T0) == first


def test_a_row_that_was_waiting_waits_after_an_undo():
    """What was to be written before the refused step is still to be written."""
    account = Account()
    hello(account)
    moment = account.moment()
    account.dirty()
    account.back_to(moment)
    assert account.dirty() == {A}


def test_the_longest_silent_session_goes_first(monkeypatch):
    """A new session is let in, and the one that was not heard of for longest goes, with its row."""
    monkeypatch.setattr(module, "MAX_SESSIONS", 2)
    account = Account()
    for number, name in enumerate("abc"):
        hello(account, ("pi", name), now_ms=T0 + number)
        if name == "b":
            account.contact(A, T0 + 10)
    assert [session.who[1] for session in account.sessions()] == ["a", "c"]
    assert account.gone() == {B}


def test_the_oldest_reads_go_first(monkeypatch):
    """One that was read anew is not the oldest; whose read is gone is not told."""
    monkeypatch.setattr(steps, "MAX_READS", 2)
    account = Account()
    hello(account)
    for file in ("a.md", "b.md", "a.md", "c.md"):
        read(account, file=file)
    assert [file for _, file in account.get(A).reads] == ["a.md", "c.md"]
    assert account.changed("/m", "b.md", H2, None, T0) == []


def test_index_reads_and_alarms_are_bounded(monkeypatch):
    """The oldest text and some old alarm go; what was told last stays."""
    monkeypatch.setattr(steps, "MAX_INDEX_READS", 2)
    monkeypatch.setattr(steps, "MAX_ALARMS", 2)
    account = Account()
    hello(account)
    for directory in ("/a", "/b", "/a", "/c"):
        account.index_given(A, directory, f"text of {directory} {len(account.get(A).index_reads)}")
    assert list(account.get(A).index_reads) == ["/a", "/c"]
    for number, keys in enumerate([("k", "l"), ("m",)]):
        account.answered(A, Told(f"t{number}", 11, (), keys))
        account.confirm(A, None, told=True)
    assert "m" in account.get(A).alarms
    assert len(account.get(A).alarms) == 2
