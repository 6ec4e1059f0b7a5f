"""Any interleaving of what sessions and disks do, against a model that knows what really was read and told."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zcsyncd.sessions.account import CONTACT_STEP_MS, LAPSE_MS, Account, Held, Now, Read, Told
from zcsyncd.sessions.rows import session_from, session_row

WHOS = [("pi", "a"), ("pi", "b"), ("zcode", "c")]
PLACES = [("/m", "x.md"), ("/m", "y.md"), ("/n", "x.md")]
WHO = st.sampled_from([WHOS[0], WHOS[0], WHOS[0], WHOS[1], WHOS[1], WHOS[2]])
"""One of them does most, so that much comes together in it."""
PLACE = st.sampled_from([PLACES[0], PLACES[0], PLACES[1], PLACES[2]])
BY = st.one_of(st.none(), WHO)
CONTENTS = [("h", "m", 7), ("i", "m", 7), ("j", "n", 7), ("k", "n", 8)]
BYTES = st.sampled_from([Now(hashed, meaning, 0, size) for hashed, meaning, size in CONTENTS])
"""What a file may hold; few, so that contents come back."""
KIND = st.sampled_from(["full", "full", "partial", "truncated"])
HASHED = st.sampled_from([True, True, False])
SELDOM = st.sampled_from([False] * 5 + [True])
"""For what sweeps away all that the other rules have made."""


@dataclass
class Truth:
    """What one session really did, as nobody else knows."""

    contact_ms: int
    baseline: int
    start: int
    reads: dict = field(default_factory=dict)  # place → (what was read, whole, forgotten, hash known)
    told: dict = field(default_factory=dict)  # place → what it was told of its read
    confirmed: set = field(default_factory=set)  # sequences, since the last start or compaction
    alarms: set = field(default_factory=set)
    token: str | None = None


class AccountOverTime(RuleBasedStateMachine):
    """The account, its rows, and the truth."""

    def __init__(self):
        super().__init__()
        self.account = Account()
        self.rows = {}
        self.parsed = {}
        self.disk = {}
        self.former = {}  # what each file was before its last change
        self.truths = {}
        self.now_ms = 10**12
        self.head = 5
        self.journal = "j0"
        self.tokens = []

    @initialize(contents=st.tuples(BYTES, BYTES, BYTES))
    def begin(self, contents):
        """Files and sessions are there already, and some was read."""
        for number, (place, now) in enumerate(zip(PLACES, contents, strict=True)):
            self.disk[place] = replace(now, mtime_ms=number)
        for who in WHOS:
            self.hello(who, "start", who)
            self.read(who, PLACES[0], "full", hashed=True)

    # -- sessions

    @rule(who=WHO, reason=st.sampled_from(["start", "attach", "fork"]), parent=WHO)
    def say_hello(self, who, reason, parent):
        """Say hello, on a new connection or the same."""
        self.hello(who, reason, parent)

    @rule(who=WHO)
    def compact(self, who):
        """Much of a conversation is cut out of it."""
        self.hello(who, "compact", who)

    @rule(parent=st.sampled_from(WHOS[:2]))
    def fork(self, parent):
        """A conversation goes on in two ways; the other one of its host ended before."""
        child = WHOS[1 - WHOS.index(parent)]
        self.end(child, really=True)
        self.hello(child, "fork", parent)

    def hello(self, who, reason, parent):
        self.let_lapse(who)
        if reason == "fork" and who not in self.truths:
            self.let_lapse((who[0], parent[1]))
        known = self.truths.get(who)
        origin = self.truths.get((who[0], parent[1])) if reason == "fork" else None
        session = self.account.hello(
            who,
            cwd="/w",
            reason=reason,
            parent=parent[1] if reason == "fork" else None,
            now_ms=self.now_ms,
            journal=self.journal,
            head=self.head,
            index_texts=lambda: {"/m": "text"},
        )
        if known is None and origin is not None:
            known = Truth(
                self.now_ms,
                origin.baseline,
                origin.start,
                dict(origin.reads),
                dict(origin.told),
                set(origin.confirmed),
                set(origin.alarms),
            )
        truth = self.truths[who] = known or Truth(self.now_ms, self.head, self.head)
        truth.contact_ms = self.now_ms
        if reason == "start":
            truth.baseline = truth.start = self.head
            truth.confirmed, truth.token = set(), None
        elif reason == "compact":
            truth.baseline, truth.confirmed, truth.token = truth.start, set(), None
            truth.reads = {place: (*read[:2], True, read[3]) for place, read in truth.reads.items()}
        assert session == self.account.get(who)

    @rule(who=WHO)
    def talk(self, who):
        """Ask for anything at all."""
        self.let_lapse(who)
        assert self.account.contact(who, self.now_ms) == (who in self.truths)
        if who in self.truths:
            self.truths[who].contact_ms = self.now_ms

    @rule(ms=st.sampled_from([1, CONTACT_STEP_MS + 10_000, LAPSE_MS // 3]), sweeps=st.booleans())
    def wait(self, ms, sweeps):
        """Time goes by, and the sweep comes or not."""
        self.now_ms += ms
        if not sweeps:
            return
        over = {who for who, truth in self.truths.items() if self.now_ms - truth.contact_ms > LAPSE_MS}
        assert set(self.account.lapse(self.now_ms)) == over
        for who in over:
            del self.truths[who]

    @rule(who=WHO, really=SELDOM)
    def end(self, who, really):
        """A host that knows an end says so."""
        assert not really or self.account.end(who) == (self.truths.pop(who, None) is not None)

    def let_lapse(self, who):
        truth = self.truths.get(who)
        if truth is not None and self.now_ms - truth.contact_ms > LAPSE_MS:
            del self.truths[who]

    # -- reads

    @rule(who=WHO, place=PLACE, kind=KIND, hashed=HASHED)
    def read(self, who, place, kind, hashed):
        """Read a file that is there, through us or by the host's own tool."""
        if place in self.disk:
            assert self.report(who, place, self.disk[place], kind, hashed) is None

    @rule(who=WHO, place=PLACE, kind=KIND, hashed=HASHED)
    def report_late(self, who, place, kind, hashed):
        """Report what was read before the file's last change, of which the account knows already."""
        was, now = self.former.get(place), self.disk.get(place)
        if was is None:
            return
        stale = self.report(who, place, was, kind, hashed)
        if who not in self.truths:
            return
        read, _whole, _forgotten, has_hash = self.truths[who].reads[place]
        proved = now is None or read.size != now.size or (has_hash and read.content_hash != now.content_hash)
        assert (stale is not None) == proved
        if stale is not None:
            self.truths[who].told[place] = "gone" if now is None else "stale"
            assert self.account.overdue(who, *place, now) is None, "told twice"

    def report(self, who, place, seen, kind, hashed):
        """Tell the account and the truth of a read; give what the account says of it then."""
        content, meaning = (seen.content_hash, seen.meaning_hash) if hashed else (None, None)
        read = Read(*place, kind, content, seen.mtime_ms, seen.size, self.now_ms, meaning_hash=meaning)
        assert self.account.read(who, read) == (who in self.truths)
        if who in self.truths:
            truth = self.truths[who]
            before, was_whole, forgotten, had_hash = truth.reads.get(place, (seen, False, True, False))
            whole_before = was_whole and not forgotten
            same = before.content_hash == seen.content_hash and had_hash
            same_revision = (before.mtime_ms, before.size) == (seen.mtime_ms, seen.size)
            kept = whole_before and ((same and kind != "full") if hashed else same_revision)
            truth.reads[place] = (
                (before, True, False, had_hash) if kept else (seen, kind == "full", False, hashed)
            )
            truth.told[place] = None
        return self.account.overdue(who, *place, self.disk.get(place))

    # -- the disk

    @rule(place=PLACE, now=BYTES, by=BY)
    def write(self, place, now, by):
        """Write a file: new content, old content, or a stamp."""
        was = self.disk.get(place)
        self.head += 1
        now = replace(now, mtime_ms=self.head)
        if was is not None and was.content_hash == now.content_hash:
            self.disk[place] = replace(was, mtime_ms=self.head)  # touched: nothing changed, nobody is told
            return
        self.former[place] = was or now
        self.disk[place] = now
        self.expect(self.account.changed(*place, now, by, self.now_ms), {place: now}, by)

    @rule(place=PLACE, by=BY)
    def delete(self, place, by):
        """Take a file away."""
        if place in self.disk:
            self.former[place] = self.disk.pop(place)
            self.head += 1
            self.expect(self.account.changed(*place, None, by, self.now_ms), {place: None}, by)

    @rule(by=BY)
    @precondition(lambda self: ("/m", "x.md") in self.disk and ("/m", "y.md") not in self.disk)
    def rename(self, by):
        """Give a file a name that is free."""
        old, new = ("/m", "x.md"), ("/m", "y.md")
        now = self.disk[new] = self.disk.pop(old)
        self.head += 1
        told = self.account.renamed("/m", "x.md", "y.md", now=now, by=by, at_ms=self.now_ms)
        moved = self.truths[by].reads.get(old) if by in self.truths else None
        self.expect(told, {old: None, new: now}, by, writes=False)
        if moved is not None:
            self.truths[by].reads[new] = moved
            self.truths[by].told[new] = self.account.read_of(by, *new).outdated

    @rule(really=SELDOM)
    def remove_directory(self, really):
        """Take a whole directory away."""
        if not really:
            return
        for place in [place for place in self.disk if place[0] == "/m"]:
            del self.disk[place]
        self.head += 1
        self.expect(self.account.dir_gone("/m"), {("/m", "x.md"): None, ("/m", "y.md"): None}, None)

    def expect(self, told, became, by, writes=True):
        """Hold what was told against what had to be."""
        heard = {(stale.who, stale.read.place) for stale in told}
        assert len(heard) == len(told), "told twice"
        for who, truth in self.truths.items():
            for place, now in became.items():
                if who == by:
                    assert (who, place) not in heard, "a writer is told of its own write"
                    self.own_write(truth, place, now, writes)
                    continue
                if place not in truth.reads:
                    assert (who, place) not in heard, "told of a read that never was"
                    continue
                read, _whole, forgotten, hashed = truth.reads[place]
                before = truth.told.get(place)
                if now is None:
                    fate = "gone"
                elif hashed:
                    fate = None if read.content_hash == now.content_hash else "stale"
                else:
                    fate = "stale"  # nobody can compare, and the bytes did change
                news = not forgotten and (fate == "gone" != before or (fate == "stale" and before is None))
                assert ((who, place) in heard) == news, (who, place, before, fate)
                truth.told[place] = fate
        for stale in told:
            read, _whole, _forgotten, hashed = self.truths[stale.who].reads[stale.read.place]
            now = became[stale.read.place]
            assert stale.now == now
            assert stale.stamp == (now is not None and hashed and read.meaning_hash == now.meaning_hash)

    def own_write(self, truth, place, now, writes):
        if now is not None and writes:
            truth.reads[place] = (now, True, False, True)
            truth.told[place] = None
        elif place in truth.reads:
            truth.told[place] = "gone" if now is None else self.account_says(truth, place)

    def account_says(self, truth, place):
        who = next(who for who, each in self.truths.items() if each is truth)
        return self.account.read_of(who, *place).outdated

    # -- news

    @rule(who=WHO, alarms=st.lists(st.sampled_from("pqr"), max_size=2, unique=True))
    def ask_news(self, who, alarms):
        """Ask what is new; the answer covers everything up to the head."""
        token = f"t{len(self.tokens)}"
        told = Told(token, self.head, (Held("/m", "x.md", self.now_ms),), tuple(alarms))
        self.tokens.append((who, token, told))
        assert self.account.answered(who, told) == (who in self.truths)
        if who in self.truths:
            self.truths[who].token = token

    @rule(who=WHO, back=st.integers(0, 2), named=st.booleans(), told=st.booleans())
    def confirm(self, who, back, named, told):
        """Say that an answer reached the model, or did not: the last one, or one that is long over."""
        mine = [(token, answer) for owner, token, answer in self.tokens if owner == who]
        token, answer = (
            mine[-1 - back] if named and back < len(mine) else (None, mine[-1][1] if mine else None)
        )
        session = self.account.get(who)
        done = session.confirmed if session else None
        waits = session is not None and self.truths[who].token is not None
        fits = waits and token in (None, self.truths[who].token)
        answered = self.account.confirm(who, token, told=told)
        assert answered == (session is not None and (fits or token is None or token == done))
        if not fits:
            return
        truth = self.truths[who]
        truth.token = None
        if told:
            fresh = set(range(truth.baseline + 1, answer.upto + 1))
            assert not fresh & truth.confirmed, "confirmed twice"
            truth.confirmed |= fresh
            truth.baseline = max(truth.baseline, answer.upto)
            truth.alarms |= set(answer.alarms)

    @rule(who=WHO, place=PLACE, now=BYTES)
    def catch_up(self, who, place, now):
        """Something happens, is told and confirmed at once."""
        self.write(place, now, None)
        self.ask_news(who, [])
        self.confirm(who, 0, named=True, told=True)

    # -- what goes wrong

    @rule()
    def restart(self):
        """Kill the daemon; another one reads the rows."""
        self.account = Account(session_from(row) for row in self.rows.values())
        for who, truth in self.truths.items():
            found = self.account.get(who).last_contact_ms
            assert 0 <= truth.contact_ms - found < CONTACT_STEP_MS
            truth.contact_ms = found

    @rule(really=SELDOM)
    def journal_is_lost(self, really):
        """After a crash under another boot there is another journal; who says hello adopts the present."""
        if not really:
            return
        self.restart()
        self.journal += "'"
        self.head = 2
        for who, truth in self.truths.items():
            self.account.hello(
                who,
                cwd="/w",
                now_ms=truth.contact_ms,
                journal=self.journal,
                head=self.head,
                index_texts=dict,
            )
            truth.baseline = truth.start = self.head
            truth.confirmed, truth.token = set(), None

    @rule(place=PLACE, now=BYTES, by=BY)
    def refused_commit(self, place, now, by):
        """The disk refuses the rows of a change: it is undone, and told when the disk takes it."""
        moment = self.account.moment()
        before = self.account.sessions()
        first = self.account.changed(*place, replace(now, mtime_ms=-5), by, self.now_ms)
        self.account.end(WHOS[0])
        self.account.dirty()
        self.account.gone()
        self.account.back_to(moment)
        assert self.account.sessions() == before
        assert self.account.changed(*place, replace(now, mtime_ms=-5), by, self.now_ms) == first
        self.account.back_to(moment)

    @rule(place=PLACE)
    def purge(self, place):
        """Forget a file."""
        self.account.forget_file(*place)
        for truth in self.truths.values():
            truth.reads.pop(place, None)
            truth.told.pop(place, None)
        assert place not in self.account._readers

    # -- what always holds

    @invariant()
    def rows_are_the_account(self):
        """What is written after each step is what a restart finds, but for a minute of silence."""
        for who in self.account.gone():
            self.rows.pop(who, None)
        for who in self.account.dirty():
            self.rows[who] = session_row(self.account.get(who))
            self.parsed[who] = session_from(self.rows[who])
        assert self.rows.keys() == self.truths.keys()
        for who in self.rows:
            session, now = self.parsed[who], self.account.get(who)
            assert replace(session, last_contact_ms=now.last_contact_ms) == now
            assert list(session.reads) == list(now.reads), "the order tells which is the oldest"

    @invariant()
    def states_are_true(self):
        """`current` is said of just the content that was read, whole and unforgotten, and that can be proved."""
        for who, truth in self.truths.items():
            for place in PLACES:
                state = self.account.check(who, *place, self.disk.get(place))
                read, whole, forgotten, hashed = truth.reads.get(place, (None, False, True, False))
                now = self.disk.get(place)
                same = read is not None and now is not None and read.content_hash == now.content_hash
                if state == "current":
                    assert same
                    assert whole
                    assert not forgotten
                if read is None or forgotten:
                    assert state == "unread"
                elif now is None:
                    assert state == "gone"
                elif hashed and whole:
                    assert state == ("current" if same else "stale")
                elif hashed:
                    assert state in (("partial", "truncated") if same else ("stale",))
                elif not same and read.size != now.size:
                    assert state == "stale"

    @invariant()
    def baselines_are_true(self):
        """Everything since the start is either confirmed once or still to be told."""
        for who, truth in self.truths.items():
            session = self.account.get(who)
            assert (session.baseline, session.start_baseline) == (truth.baseline, truth.start)
            assert truth.confirmed == set(range(truth.start + 1, truth.baseline + 1))
            assert session.alarms == truth.alarms
            assert (session.told.token if session.told else None) == truth.token

    @invariant()
    def readers_are_known(self):
        """Who has read a file is found without asking every session."""
        readers = {}
        for session in self.account.sessions():
            for place in session.reads:
                readers.setdefault(place, set()).add(session.who)
        assert self.account._readers == readers


TestAccountOverTime = pytest.mark.timeout(240)(AccountOverTime.TestCase)
TestAccountOverTime.settings = settings(
    max_examples=80,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
