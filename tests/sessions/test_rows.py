"""A row holds all of a session, and one that does not is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.sessions.rows import session_from, session_row
from zcsyncd.sessions.session import Held, Read, Session, Told

TEXT = st.text(st.characters(), max_size=8)
"""Any text, lone surrogates too: a name that is not UTF-8 comes as such."""
NUMBER = st.integers(-(2**53), 2**53)
DIRECTORY = st.sampled_from(["/m", "/n/\udcff", "C:\\m"])
HASH = st.none() | TEXT
HELD = st.lists(st.builds(Held, DIRECTORY, TEXT, NUMBER), max_size=3).map(tuple)
READ = st.builds(
    Read,
    DIRECTORY,
    TEXT,
    st.sampled_from(["full", "partial", "truncated"]),
    HASH,
    NUMBER,
    NUMBER,
    NUMBER,
    range=st.none() | st.tuples(NUMBER, NUMBER),
    forgotten=st.booleans(),
    own=st.booleans(),
    meaning_hash=HASH,
    outdated=st.sampled_from([None, "stale", "gone"]),
)
SESSION = st.builds(
    Session,
    st.tuples(TEXT, TEXT),
    TEXT,
    NUMBER,
    NUMBER,
    TEXT,
    NUMBER,
    NUMBER,
    dirs=st.lists(TEXT, max_size=3).map(tuple),
    held=HELD,
    told=st.none() | st.builds(Told, TEXT, NUMBER, HELD, st.lists(TEXT, max_size=3).map(tuple)),
    confirmed=HASH,
    alarms=st.frozensets(TEXT, max_size=3),
    index_reads=st.dictionaries(DIRECTORY, HASH),
    reads=st.lists(READ, max_size=5, unique_by=lambda read: read.place).map(
        lambda reads: {read.place: read for read in reads}
    ),
)
WHOLE = Session(
    ("pi", "a"),
    "/w",
    1,
    2,
    "j",
    3,
    4,
    dirs=("/d",),
    held=(Held("/m", "x.md", 5),),
    told=Told("t", 6, (Held("/m", "y.md", 7),), ("k",)),
    confirmed="s",
    alarms=frozenset({"k"}),
    index_reads={"/m": "text"},
    reads={("/m", "a.md"): Read("/m", "a.md", "partial", "h", 1, 2, 3, range=(1, 2), outdated="stale")},
)


@given(SESSION)
def test_a_row_gives_the_session_back(session):
    """Every field, and the order of reads and index reads, which tells the oldest."""
    row = session_row(session)
    again = session_from(row)
    assert again == session
    assert list(again.reads) == list(session.reads)
    assert list(again.index_reads) == list(session.index_reads)
    assert row.isascii()
    assert session_row(again) == row


def test_a_row_names_a_directory_once():
    """A hundred reads of one directory do not repeat its long path."""
    place = "/home/somebody/.zcode/cli/memories/projects/app-0123456789abcdef/memory"
    reads = {(place, f"{n}.md"): Read(place, f"{n}.md", "full", None, 1, 1, 1) for n in range(100)}
    row = session_row(Session(("pi", "a"), "/w", 1, 1, "j", 1, 1, index_reads={place: None}, reads=reads))
    assert row.count(place) == 1
    assert len(row) < 100 * 60


@pytest.mark.parametrize(
    "row",
    [
        "",
        "{",
        "[]",
        "1",
        '"text"',
        "null",
        "{}",
        '{"v":1}',
        "[" * 100_000,
        "1" * 5_000,
        session_row(WHOLE).replace('"v":1', '"v":2'),
        session_row(WHOLE)[:-1],
    ],
    ids=range(12),
)
def test_what_is_no_row_is_refused(row):
    """Damaged, truncated, foreign or of another version: a ValueError, and nothing else."""
    with pytest.raises(ValueError):
        session_from(row)


def _places(value, path=()):
    """Give the path to every value of a document."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*path, key))


@pytest.mark.parametrize("odd", [None, True, -1, 1.5, "odd", [], {}, [0, 0], float("nan")], ids=repr)
def test_odd_values_are_refused_or_mean_what_they_say(odd):
    """Put anywhere into a row, a value of another kind is a ValueError, or a session that has just that value."""
    whole = json.loads(session_row(WHOLE))
    for path in _places(whole):
        if not path:
            continue
        damaged = json.loads(session_row(WHOLE))
        *way, last = path
        spot = damaged
        for key in way:
            spot = spot[key]
        spot[last] = odd
        try:
            found = session_from(json.dumps(damaged))
        except ValueError:
            continue
        # Flags are bits: unknown ones are dropped, so only these may differ from what was put there.
        again = json.loads(session_row(found))
        assert again == damaged or path[0] in ("at", "reads"), path


@pytest.mark.parametrize("name", sorted(json.loads(session_row(WHOLE))))
def test_no_member_may_be_missing(name):
    """A row that lacks anything is refused: half an account would say what nobody knows."""
    members = json.loads(session_row(WHOLE))
    del members[name]
    with pytest.raises(ValueError):
        session_from(json.dumps(members))


def test_two_reads_of_one_file_are_refused():
    """Nobody could say which of them counts."""
    members = json.loads(session_row(WHOLE))
    members["reads"] *= 2
    with pytest.raises(ValueError):
        session_from(json.dumps(members))
