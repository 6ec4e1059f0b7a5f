"""The configuration: a mapping to Settings, and every mistake at once."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcsyncd.config import NamedDirectory, Settings, effective, ignores, parse
from zcsyncd.errors import ConfigError

HOME = "/home/u"
CODES = ("entry-long", "entry-dangling", "fact-unindexed")
DOCS = Path(__file__).parent.parent / "docs" / "config.md"


def read(value, lines=None, **more):
    """Parse for a person whose home is HOME."""
    return parse(value, lines, home=HOME, codes=CODES, platform=more.pop("platform", "posix"), **more)


def mistakes_of(value, lines=None, **more):
    """Give the mistakes of a configuration that has some."""
    with pytest.raises(ConfigError) as caught:
        read(value, lines, **more)
    assert caught.value.message.splitlines() == caught.value.data["mistakes"]
    return caught.value.data["mistakes"]


def nested(key, value):
    """Hang a value below the sections of its key."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


@pytest.mark.parametrize(
    "value", [None, {}, {"audit": None, "layouts": {"zcode": None}, "roots": None, "dirs": None}]
)
def test_nothing_set_is_everything_at_its_default(value):
    """An empty file, empty sections and empty lists leave the defaults."""
    assert read(value) == Settings()


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        (
            "roots",
            {"zcode": ["~/data/zc", "/srv/zc/", "/srv/zc"]},
            "roots",
            {"zcode": ("/home/u/data/zc", "/srv/zc")},
        ),
        ("roots", {"zcode": None}, "roots", {"zcode": ()}),
        (
            "dirs",
            ["~/notes/memory", {"dir": "/srv/m", "layout": "zcode"}, {"dir": "/srv/n"}, "/srv/n/"],
            "dirs",
            (
                NamedDirectory("/home/u/notes/memory", None),
                NamedDirectory("/srv/m", "zcode"),
                NamedDirectory("/srv/n", None),
            ),
        ),
        ("dirs", ["~"], "dirs", (NamedDirectory("/home/u", None),)),
        ("ignore", ["drafts/**", "*.tmp.md", "*.tmp.md"], "ignore", ("drafts/**", "*.tmp.md")),
        (
            "mute",
            {"*": ["entry-long"], "~/m": ["entry-dangling"], "/home/u/m/": ["entry-long"]},
            "mute",
            {"*": frozenset({"entry-long"}), "/home/u/m": frozenset({"entry-dangling", "entry-long"})},
        ),
        ("audit.grace_s", 0, "audit_grace_s", 0),
        ("audit.grace_s", 86_400, "audit_grace_s", 86_400),
        ("audit.grace_s", 1.5, "audit_grace_s", 1.5),
        ("settle.quiet_ms", 20, "settle_quiet_ms", 20),
        ("settle.longest_ms", 5000, "settle_longest_ms", 5000),
        ("rescan.every_s", 0, "rescan_every_s", 0),
        ("rescan.every_s", 5, "rescan_every_s", 5),
        ("watch.mode", "poll", "watch_mode", "poll"),
        ("watch.poll_s", 0.5, "watch_poll_s", 0.5),
        ("journal.max_events", 10, "journal_max_events", 10),
        ("journal.max_age_days", 0.5, "journal_max_age_days", 0.5),
        ("journal.max_bytes", 1_048_576, "journal_max_bytes", 1_048_576),
        ("journal.max_bytes", "64MiB", "journal_max_bytes", 64 * 1024**2),
        ("journal.max_bytes", " 1.5 GiB", "journal_max_bytes", 1536 * 1024**2),
        ("journal.max_bytes", "2mb", "journal_max_bytes", 2_000_000),
        ("log.level", "debug", "log_level", "debug"),
        ("log.max_bytes", "100KiB", "log_max_bytes", 102_400),
        ("log.keep", 0, "log_keep", 0),
        ("bus.address", "/run/user/1/x.sock", "bus_address", "/run/user/1/x.sock"),
        ("layouts.zcode.enabled", False, "zcode_enabled", False),
        ("layouts.zcode.cwds", ["~/app", "/srv/x/../y"], "zcode_cwds", ("/home/u/app", "/srv/y")),
    ],
)
def test_what_can_be_set(key, value, field, expected):
    """Each setting arrives in its field, in its unit, with paths absolute and normal."""
    settings = read(nested(key, value), {tuple(key.split(".")): 7})
    assert getattr(settings, field) == expected
    assert settings.sources == {key: "config.yaml line 7"}


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("audit.grace_s", "soon", "audit.grace_s must be a number of seconds from 0 to 86400, not 'soon'"),
        ("audit.grace_s", -1, "not -1"),
        ("audit.grace_s", True, "not true"),
        ("audit.grace_s", None, "not nothing"),
        ("audit.grace_s", math.nan, "not nan"),
        ("audit.grace_s", math.inf, "not inf"),
        ("audit.grace_s", [60], "not a list"),
        ("audit.grace_s", {"s": 1}, "not a mapping"),
        ("audit.grace_s", object(), "not a value of another kind"),
        ("audit.grace_s", "x" * 500, "…"),
        ("rescan.every_s", 1, "must be 0 (off) or a number of seconds from 5 to 604800, not 1"),
        ("settle.longest_ms", 0, "milliseconds from 1"),
        ("watch.mode", "inotify", "must be one of auto, poll, not 'inotify'"),
        ("watch.mode", ["auto"], "not a list"),
        ("journal.max_events", 1.5, "whole number of events"),
        ("journal.max_events", False, "not false"),
        ("journal.max_bytes", "64", "must be a size from 1MiB to 1024GiB, in bytes or as in 64MiB, not '64'"),
        ("journal.max_bytes", "64 parsec", "not '64 parsec'"),
        ("journal.max_bytes", 10, "not 10"),
        ("journal.max_bytes", 1.5, "not 1.5"),
        ("log.level", "verbose", "debug, info, warning, error"),
        ("log.keep", -1, "from 0 to 100"),
        ("bus.address", "bus.sock", "the absolute path of a socket"),
        ("bus.address", 7, "not 7"),
        ("layouts.zcode.enabled", "yes", "must be true or false, not 'yes'"),
        ("layouts.zcode.cwds", "/srv/x", "must be a list of absolute paths, not '/srv/x'"),
        ("roots", ["/srv/x"], "must be a mapping of layouts"),
        (
            "roots",
            {"zcode": ["data"]},
            "roots.zcode item 1 must be an absolute path (it may begin with ~/), not 'data'",
        ),
        ("roots", {"zcode": ["~other/x"]}, "not '~other/x'"),
        ("roots", {"zcode": ["$HOME/x"]}, "not '$HOME/x'"),
        ("roots", {"zcode": ["/a\0b"]}, "absolute path"),
        ("roots", {"zcoed": ["/srv"]}, "there is no layout 'zcoed'; did you mean 'zcode'?"),
        ("roots", {"emacs": ["/srv"]}, "there is no layout 'emacs'; known: zcode"),
        ("dirs", [7], "dirs item 1 must be an absolute path"),
        (
            "dirs",
            ["/ok", "notes"],
            "dirs item 2 must be an absolute path (it may begin with ~/), not 'notes'",
        ),
        (
            "dirs",
            [{"layout": "zcode"}],
            "dirs item 1.dir must be an absolute path (it may begin with ~/), not nothing",
        ),
        ("dirs", [{"dir": "/x", "layout": "zcod"}], "there is no layout 'zcod'; did you mean 'zcode'?"),
        ("dirs", [{"dir": "/x", "kind": "zcode"}], "dirs item 1 has no 'kind'; it has dir and layout"),
        ("ignore", "*.tmp.md", "ignore must be a list of patterns"),
        ("ignore", ["!x.md"], "cannot take back"),
        ("ignore", ["/drafts"], "must be relative"),
        ("ignore", ["..\\x"], "written with /"),
        ("ignore", ["../x"], "must be relative"),
        ("ignore", ["*.md"], "would ignore the index MEMORY.md"),
        ("ignore", ["**"], "would ignore the index"),
        ("ignore", [""], "must be a pattern"),
        ("ignore", [3], "must be a pattern"),
        ("mute", {"notes": ["entry-long"]}, "must be an absolute path"),
        ("mute", {"*": "entry-long"}, "mute.* must be a list of codes of findings, not 'entry-long'"),
        ("mute", {"*": ["entry-lonk"]}, "there is no finding 'entry-lonk'; did you mean 'entry-long'?"),
        ("mute", {"*": [5]}, "mute.* item 1 must be a code of a finding"),
        ("mute", ["entry-long"], "mute must be a mapping"),
        ("audit", "60", "audit must be a mapping with grace_s, not '60'"),
        ("layouts.zcode", ["x"], "layouts.zcode must be a mapping with enabled, cwds, not a list"),
    ],
)
def test_what_cannot_be_set(key, value, says):
    """A wrong value is told with its key, its line, what it must be, and what it is."""
    (mistake,) = mistakes_of(nested(key, value), {tuple(key.split(".")): 7})
    assert mistake.startswith("config.yaml line 7: ")
    assert says in mistake
    assert len(mistake) < 250


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"audit": {"grase_s": 1}}, "there is no setting 'audit.grase_s'; did you mean 'audit.grace_s'?"),
        ({"jurnal": {}}, "there is no setting 'jurnal'; did you mean 'journal'?"),
        ({"grace_s": 1}, "there is no setting 'grace_s'; did you mean 'audit.grace_s'?"),
        ({"audit": {"colour": 1}}, "there is no setting 'audit.colour'; known: audit.grace_s"),
        ({"layouts": {"pi": {}}}, "there is no setting 'layouts.pi'; known: layouts.zcode"),
        ({7: 1}, "there is no setting '7'"),
    ],
)
def test_unknown_settings(value, says):
    """An unknown key is a mistake, with the key that was meant where one is near."""
    (mistake,) = mistakes_of(value)
    assert says in mistake


def test_all_mistakes_at_once():
    """Every mistake is told in one error, in the order of the file, each with its own line, items too."""
    value = {
        "audit": {"grace_s": "soon"},
        "dirs": ["/ok", "notes"],
        "settle": {"quiet_ms": 500, "longest_ms": 100},
        "wach": {},
    }
    lines = {
        ("audit", "grace_s"): 2,
        ("dirs",): 3,
        ("dirs", 1): 5,
        ("settle", "quiet_ms"): 7,
        ("settle", "longest_ms"): 8,
        ("wach",): 9,
    }
    told = mistakes_of(value, lines, file="mine.yaml")
    assert [mistake.partition(":")[0] for mistake in told] == [f"mine.yaml line {n}" for n in (2, 5, 9, 7)]


def test_settle_times_fit_together():
    """A quiet time beyond the longest one is a mistake, also when only one of them is set."""
    (mistake,) = mistakes_of({"settle": {"longest_ms": 20}}, {("settle", "longest_ms"): 4})
    assert (
        mistake == "config.yaml line 4: settle.quiet_ms (50) must not be longer than settle.longest_ms (20)"
    )
    assert len(mistakes_of({"settle": {"longest_ms": "x", "quiet_ms": 2000}})) == 1


@pytest.mark.parametrize("value", ["text", [1], 7, True])
def test_the_file_must_be_a_mapping(value):
    """A file that holds anything but settings is told as such."""
    (mistake,) = mistakes_of(value)
    assert "must be a mapping of settings" in mistake


def test_the_environment_wins():
    """`ZCSYNCD_SOCKET` overrides the file's address, says so, and is checked too."""
    settings = read(
        {"bus": {"address": "/a.sock"}}, {("bus", "address"): 3}, env={"ZCSYNCD_SOCKET": "/b.sock"}
    )
    assert settings.bus_address == "/b.sock"
    assert settings.sources["bus.address"] == "environment ZCSYNCD_SOCKET"
    (mistake,) = mistakes_of({}, env={"ZCSYNCD_SOCKET": "b.sock"})
    assert mistake.startswith("environment ZCSYNCD_SOCKET must be the absolute path")
    assert read({}, env={"ZCSYNCD_SOCKET": ""}).bus_address is None


def test_windows():
    """On Windows paths and addresses are Windows's own."""
    settings = parse(
        {"dirs": ["~\\notes", "D:/m"], "bus": {"address": "\\\\.\\pipe\\mine"}},
        home="C:\\Users\\Lin",
        platform="win32",
    )
    assert [each.dir for each in settings.dirs] == ["C:\\Users\\Lin\\notes", "D:\\m"]
    assert settings.bus_address == "\\\\.\\pipe\\mine"
    (mistake,) = mistakes_of({"bus": {"address": "/x.sock"}}, platform="win32")
    assert "a pipe such as" in mistake


def test_codes_are_only_checked_when_they_are_known():
    """Without the audit's codes any word may be muted."""
    assert parse({"mute": {"*": ["anything"]}}, home=HOME).muted_in("/x") == {"anything"}


def test_muted():
    """A code is muted for every directory or for one."""
    settings = read({"mute": {"*": ["entry-long"], "/m": ["entry-dangling"]}})
    assert "entry-long" in settings.muted_in("/other")
    assert "entry-long" in settings.muted_in("/m")
    assert "entry-dangling" in settings.muted_in("/m")
    assert "entry-dangling" not in settings.muted_in("/other")


@pytest.mark.parametrize(
    ("pattern", "taken", "left"),
    [
        ("*.tmp.md", ["a.tmp.md", "sub/a.tmp.md"], ["a.md", "a.tmp.mdx"]),
        ("drafts", ["drafts", "drafts/a.md", "x/drafts/b/a.md"], ["drafts.md", "mydrafts/a.md"]),
        ("drafts/", ["drafts/a.md", "x/drafts/a.md"], ["drafts", "x/drafts"]),
        ("drafts/**", ["drafts/a.md", "drafts/x/a.md"], ["x/drafts/a.md", "drafts.md"]),
        ("drafts/*", ["drafts/a.md", "drafts/x/a.md"], ["x/drafts/a.md"]),
        ("a/*/c.md", ["a/b/c.md"], ["a/c.md", "a/b/b/c.md"]),
        ("**/old/*.md", ["old/a.md", "x/y/old/a.md"], ["older/a.md", "old"]),
        ("a/**/c.md", ["a/c.md", "a/b/c.md", "a/b/b/c.md"], ["c.md", "b/a/c.md"]),
        ("note-?.md", ["note-1.md"], ["note-10.md", "note-.md"]),
        ("[ab].md", ["a.md", "x/b.md"], ["c.md", "A.md"]),
        ("[!ab].md", ["c.md"], ["a.md"]),
        ("x\ny.md", ["x\ny.md"], ["xy.md"]),
        ("*.md.bak", ["a\nb.md.bak"], []),
    ],
)
def test_ignore_patterns(pattern, taken, left):
    """A pattern takes what the documentation says, at the depth it says, and nothing else."""
    assert [file for file in taken if not ignores(pattern, file)] == []
    assert [file for file in left if ignores(pattern, file)] == []


def test_settings_ignore_by_any_pattern():
    """A file is passed over when one of the patterns takes it."""
    settings = read({"ignore": ["drafts/", "*.bak.md"]})
    assert settings.ignored("drafts/x.md")
    assert settings.ignored("x.bak.md")
    assert not settings.ignored("x.md")


@given(st.text(alphabet="ab*?/[].!", min_size=1, max_size=12), st.text(alphabet="ab/.", max_size=12))
def test_any_pattern_is_answered(pattern, file):
    """No pattern that the configuration lets through fails on any file."""
    try:
        settings = read({"ignore": [pattern]})
    except ConfigError:
        return
    assert settings.ignored(file) in (True, False)
    assert not settings.ignored("MEMORY.md")


def test_a_pattern_cannot_run_away():
    """Many `*` in one name cost no more than a few."""
    assert not ignores("*a" * 40, "a" * 200 + "b")


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([name for name, _, _ in effective(Settings())]), JSON_LIKE)
def test_any_value_is_taken_or_told(key, value):
    """Whatever stands behind a key gives Settings or a ConfigError, nothing else."""
    with suppress(ConfigError):
        assert json.dumps(effective(read(nested(key, value))))


def test_effective_values():
    """Every setting is listed with its value as JSON and where it comes from."""
    settings = read(
        {"mute": {"*": ["entry-long"]}, "dirs": [{"dir": "/m", "layout": "zcode"}], "audit": {"grace_s": 5}},
        {("audit", "grace_s"): 3, ("mute",): 1},
        env={"ZCSYNCD_SOCKET": "/b.sock"},
    )
    rows = {name: (value, source) for name, value, source in effective(settings)}
    assert rows["audit.grace_s"] == (5, "config.yaml line 3")
    assert rows["mute"] == ({"*": ["entry-long"]}, "config.yaml line 1")
    assert rows["dirs"] == ([{"dir": "/m", "layout": "zcode"}], "config.yaml")
    assert rows["bus.address"] == ("/b.sock", "environment ZCSYNCD_SOCKET")
    assert rows["settle.quiet_ms"] == (50, "default")
    assert json.loads(json.dumps(rows))


def test_the_default_address_can_be_shown():
    """Where no address is configured, the one that is used is shown as the default."""
    rows = {name: (value, source) for name, value, source in effective(Settings(), address="/run/x.sock")}
    assert rows["bus.address"] == ("/run/x.sock", "default")


def test_every_field_is_a_setting():
    """No field of Settings is out of reach of the file."""
    assert len(effective(Settings())) == len([each for each in fields(Settings) if each.name != "sources"])


def test_the_documentation_lists_every_setting():
    """docs/config.md has a row for each setting, no other, with the default that is true."""
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| `?([^|`]*?)`? *\|", DOCS.read_text("utf-8"), re.MULTILINE))
    assert list(rows) == [name for name, _, _ in effective(Settings())]
    for name, value, _ in effective(Settings()):
        told = rows[name]
        if isinstance(value, bool):
            assert told == str(value).lower()
        elif name.endswith("_bytes"):
            assert told == f"{value // 1024**2}MiB"
        elif isinstance(value, int | str):
            assert told == str(value)
        else:
            assert told in ("none", "the platform's")
