"""The audit over whatever a disk may hold: it never raises, and no two findings share a key."""

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from zcsyncd.layouts.layout import Caps
from zcsyncd.memory.audit import RULES, audit, counts, indexed
from zcsyncd.memory.audit.finding import SEVERITIES, key_of, listed, shown
from zcsyncd.memory.fact import Fact, FileStat, Remark
from zcsyncd.memory.index import Entry, Index
from zcsyncd.memory.snapshot import Snapshot, Stray

CAPS = Caps(lines=200, units=25_000)
KINDS = (
    "temp", "lock", "special", "broken-link", "symlinked-directory", "unreadable-directory", "other-file",
)  # fmt: skip

_letters = st.one_of(
    st.sampled_from(list("aAbB.-_ /%:(1)ü文\u0308\n\u202e\udce9\ud800#|[]")),
    st.characters(exclude_categories=[]),
)
names = st.text(_letters, min_size=1, max_size=12) | st.sampled_from(
    ["MEMORY.md", "memory.md", "sub/MEMORY.md", "a.md", "A.md", "x/a.md", ".x/a.md", "a (1).md", "con.md", ".", "..", "../a.md",
     "a.md.tmp.1.0123456789ab", "a.sync-conflict-1.md", "a%20b.md", "a b.md", "/", "//", "C:\\a.md"],
)  # fmt: skip
texts = st.none() | st.text(_letters, max_size=12)
stats = st.builds(FileStat, st.integers(-(2**62), 2**62), st.just(0), st.integers(0, 9), st.integers(0, 9))
remarks = st.lists(
    st.builds(
        Remark,
        code=st.sampled_from(sorted(RULES)) | st.just("unheard-of"),
        message=st.sampled_from(["one", "two"]),
        line=st.none() | st.integers(1, 3),
        hint=texts,
        target=st.none() | names,
    ),
    max_size=4,
).map(tuple)
lists_of_names = st.lists(names, max_size=4).map(tuple)
facts = st.builds(
    Fact,
    file=names,
    stat=stats,
    read_at_ns=st.just(0),
    content_hash=st.none() | st.just("00"),
    encoding=st.sampled_from([None, "utf-8", "gbk"]),
    name=texts,
    description=texts,
    type=st.none() | st.just("user"),
    malformed=st.booleans(),
    meaning_hash=st.none(),
    links=lists_of_names,
    references=lists_of_names,
    symlink=st.booleans(),
    listed=st.booleans(),
    remarks=remarks,
)
indexes = st.builds(
    Index,
    file=st.just("MEMORY.md"),
    stat=stats,
    read_at_ns=st.just(0),
    content_hash=st.none() | st.just("00"),
    encoding=st.sampled_from([None, "utf-8", "gbk"]),
    text_hash=st.none(),
    lines=st.sampled_from([0, 1, 200]),
    units=st.just(0),
    truncated=st.just(False),
    entries=st.lists(
        st.builds(
            Entry,
            target=names | st.just(""),
            title=st.just("t"),
            hook=st.text(_letters, max_size=9),
            line=st.integers(1, 9),
            hidden=st.booleans(),
        ),
        max_size=6,
    ).map(tuple),
    beyond=lists_of_names,
    swallowed=lists_of_names,
    remarks=remarks,
)
strays = st.builds(Stray, names, st.sampled_from(KINDS), st.integers(-(2**62), 2**62))
snapshots = st.builds(
    Snapshot,
    directory=names,
    layout=st.just("zcode"),
    index=st.none() | indexes,
    facts=st.lists(facts, max_size=6).map(lambda every: {fact.file: fact for fact in every}),
    strays=st.lists(strays, max_size=4).map(lambda every: {stray.file: stray for stray in every}),
    folds_case=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(snapshots)
def test_whatever_a_directory_holds_is_judged(snapshot):
    """No name, target or text makes the audit raise; keys are unique; the order and the fields are as promised."""
    findings = audit(snapshot, CAPS, now_ms=10**12)
    assert len({finding.key for finding in findings}) == len(findings)
    ranks = [SEVERITIES.index(finding.severity) for finding in findings]
    assert ranks == sorted(ranks)
    for finding in findings:
        assert finding.code in RULES
        assert finding.key.startswith(finding.code + ":")
        assert set(finding.key) <= set(string.ascii_lowercase + string.digits + "-:")
    assert sum(counts(findings).values()) == len(findings)
    indexed(snapshot)


@settings(max_examples=50, deadline=None)
@given(snapshots, st.randoms(use_true_random=False))
def test_the_order_of_the_disk_does_not_matter(snapshot, random):
    """The same files listed in another order give the same findings."""
    shuffled = list(snapshot.facts.items())
    random.shuffle(shuffled)
    other = Snapshot(
        snapshot.directory,
        snapshot.layout,
        snapshot.index,
        dict(shuffled),
        snapshot.strays,
        snapshot.folds_case,
    )
    assert audit(snapshot, CAPS, now_ms=10**12) == audit(other, CAPS, now_ms=10**12)


@settings(max_examples=50, deadline=None)
@given(names)
def test_a_shown_name_is_harmless(name):
    """A name in a sentence has no control, bidirectional or broken character, and is bounded."""
    assert shown(name).isprintable()
    assert len(shown(name * 200)) < 2500
    shown(name).encode("utf-8")


def test_a_long_list_is_bounded():
    """Of many names the first are given, and the number of the rest."""
    assert listed(["a", "b", "c"], 2) == "`a`, `b` and 1 more"
    assert listed(["a", "b"], 2) == "`a`, `b`"


def test_a_key_is_short_and_its_own():
    """A key names its code, has twelve digits, and tells apart what could be run together."""
    key = key_of("entry-dangling", "/m", "MEMORY.md", "a.md")
    assert key == key_of("entry-dangling", "/m", "MEMORY.md", "a.md")
    assert len(key) == len("entry-dangling:") + 12
    others = {
        key_of("entry-dangling", "/m", "MEMORY.md"),
        key_of("entry-dangling", "/m", "MEMORY.md", ""),
        key_of("entry-dangling", "/m", None, "MEMORY.md"),
        key_of("entry-dangling", "/m", "", "MEMORY.md"),
        key_of("entry-dangling", "/mMEMORY.md", "", "a.md"),
    }
    assert len(others | {key}) == 6
