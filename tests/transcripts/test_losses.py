"""What another pen destroys is told, survives a restart, and is brought back: losses and repairs on the real daemon."""

import contextlib
import json
import os
import shutil
import sqlite3
import threading

import pytest

from tests.transcripts.machine import entry, fact_text, save, until
from zcsyncd.errors import InvalidParams, NotFound, Refused, TooLarge, Unreadable


def five(project):
    """A project of five facts with their entries."""
    names = [f"{letter}.md" for letter in "abcde"]
    project.make({name: fact_text(name[0], body=f"body of {name} " * 100) for name in names})
    return project


def clobber(project, *keep, extra=""):
    """Overwrite the index as an agent does that works from an old snapshot."""
    save(project.memory / "MEMORY.md", "# Memory\n\n" + "".join(map(entry, keep)) + extra)


def findings(daemon, project, *codes):
    daemon.call("daemon.flush")
    found = daemon.call("audit.get", dir=project.dir, severity="info")["findings"]
    return [one for one in found if not codes or one["code"] in codes]


def repair(daemon, project, **params):
    """Apply a repair, when the directory has been left alone for long enough."""

    def applied():
        try:
            return daemon.call("memory.repair", dir=project.dir, apply=True, **params)
        except Refused as error:
            return None if error.data["retryAfterMs"] <= 2_000 else error

    return until(applied, "the repair")


def test_an_overwrite_from_an_old_snapshot_is_told_and_mended(shared, project):
    """Two lines vanish: an error at once; a dry run shows the diff; applied, the lines are where they were; undone."""
    five(project)
    shared.call("daemon.flush", rescan=True)
    before = (project.memory / "MEMORY.md").read_bytes()
    listener = shared.listen(project)
    listener.forget()
    clobber(project, "a.md", "c.md", "e.md", extra=entry("e.md#mine"))
    clobbered = (project.memory / "MEMORY.md").read_bytes()
    event = listener.until_topic("memory/audit")
    lost = [one for one in event["data"]["appeared"] if one["code"] == "entry-lost"]
    assert {(one["severity"], one["target"], one["fixable"]) for one in lost} == {
        ("error", "b.md", True),
        ("error", "d.md", True),
    }
    dry = shared.call("memory.repair", dir=project.dir, codes=["entry-lost"])
    assert not dry["applied"]
    assert dry["diff"].count("\n+- ") == 2
    assert (project.memory / "MEMORY.md").read_bytes() == clobbered
    done = repair(shared, project, codes=["entry-lost"])
    assert done["applied"]
    assert done["diff"] == dry["diff"]
    assert {fix["target"] for fix in done["fixes"]} == {"b.md", "d.md"}
    text = (project.memory / "MEMORY.md").read_text()
    assert text.replace(entry("e.md#mine"), "") == before.decode()
    listener.until(lambda event: "entry-lost" in [one["code"] for one in event["data"].get("cleared", ())])
    assert not findings(shared, project, "entry-lost")
    shared.call("history.undo", dir=project.dir)
    assert (project.memory / "MEMORY.md").read_bytes() == clobbered
    assert shared.call("history.show", saved=done["saved"])["text"] == clobbered.decode()


def test_the_sessions_that_hold_the_old_index_are_named(shared, project):
    """Those that were given another text than there is now; one that read it again is not."""
    five(project)
    shared.call("daemon.flush", rescan=True)
    old = shared.client(cwd=str(project.cwd), id="old", reason="start")
    asked = shared.client(cwd=str(project.cwd), id="asked")
    asked.call("memory.index")
    shared.client(cwd=str(project.cwd), id="never")
    clobber(project, "a.md", "c.md", "e.md")
    shared.call("daemon.flush")
    done = repair(shared, project)
    assert done["applied"]
    # The repair brought the very text back that both had been given.
    assert done["heldBy"] == []
    clobber(project, "a.md", "c.md", "e.md", extra="\nmore\n")
    shared.call("daemon.flush")
    done = repair(shared, project)
    assert {held["id"] for held in done["heldBy"]} == {"old", "asked"}
    old.call("memory.index")
    clobber(project, "a.md", "c.md", "e.md", extra="\nmore\n")
    shared.call("daemon.flush")
    done = repair(shared, project)
    assert {held["id"] for held in done["heldBy"]} == {"asked"}


def test_a_loss_survives_a_restart(machine):
    """Told while the daemon ran, or caused while it was down: the finding is there afterwards, once."""
    project = five(machine.project())
    daemon = machine.start()
    clobber(project, "a.md", "c.md", "e.md")
    assert len(findings(daemon, project, "entry-lost")) == 2
    daemon.kill()
    daemon = machine.start()
    listener = daemon.listen(project)
    lost = findings(daemon, project, "entry-lost")
    assert {one["target"] for one in lost} == {"b.md", "d.md"}
    listener.flush()
    assert "entry-lost" not in listener.codes("appeared")
    assert repair(daemon, project)["applied"]
    cursor = daemon.call("daemon.flush")["cursor"]
    daemon.stop()
    clobber(project, "a.md", "b.md", "d.md")
    daemon = machine.start()
    listener = daemon.listen(project, since=cursor)
    listener.flush()
    assert listener.codes("appeared").count("entry-lost") == 2
    daemon.stop()


def test_a_loss_ends_when_it_is_mended_by_hand_or_dismissed(shared, project):
    """Put back, or the fact goes with its entry, or a person does not want to hear of it."""
    five(project)
    shared.call("daemon.flush", rescan=True)
    clobber(project, "a.md", "b.md")
    lost = {one["target"]: one["key"] for one in findings(shared, project, "entry-lost")}
    assert lost.keys() == {"c.md", "d.md", "e.md"}
    clobber(project, "a.md", "b.md", "c.md")
    assert {one["target"] for one in findings(shared, project, "entry-lost")} == {"d.md", "e.md"}
    (project.memory / "d.md").unlink()
    assert {one["target"] for one in findings(shared, project, "entry-lost")} == {"e.md"}
    shared.call("audit.dismiss", key=lost["e.md"])
    assert [one["dismissed"] for one in findings(shared, project, "entry-lost")] == [True]
    with_fixes = shared.call("memory.repair", dir=project.dir)
    assert with_fixes["fixes"] == []


def test_our_own_acts_raise_nothing(shared, project):
    """A forget of many, a restore, a repair, an undo, a write that halves a fact."""
    five(project)
    shared.call("daemon.flush", rescan=True)
    listener = shared.listen(project)
    listener.forget()
    saved = [shared.call("memory.forget", dir=project.dir, name=name)["saved"] for name in "abcde"]
    for one in saved[:3]:
        shared.call("history.restore", saved=one)
    shared.call(
        "memory.write",
        dir=project.dir,
        name="a",
        description="short now",
        type="user",
        body="x",
        mode="upsert",
    )
    shared.call("history.undo", dir=project.dir)
    listener.flush()
    assert listener.codes("appeared") == []
    assert findings(shared, project) == []


def test_a_blanked_and_a_shrunk_fact_come_back_by_restore(shared, project):
    """Each told with the version that holds what was lost; the restore ends it."""
    five(project)
    shared.call("daemon.flush", rescan=True)
    until(lambda: len(shared.call("memory.search", query="body", dir=project.dir)["hits"]) == 5, "all saved")
    text = (project.memory / "a.md").read_text()
    save(project.memory / "a.md", text.replace("description: What it says", "description: ''"))
    save(project.memory / "b.md", fact_text("b", body="gone"))
    told = {one["code"]: one["file"] for one in findings(shared, project)}
    assert (told["fact-blanked"], told["fact-shrunk"]) == ("a.md", "b.md")
    for file in ("a.md", "b.md"):
        [version] = shared.call("history.list", dir=project.dir, file=file)["versions"]
        shared.call("history.restore", saved=version["saved"])
    assert (project.memory / "a.md").read_text() == text
    assert findings(shared, project) == []


@pytest.mark.parametrize("restart", [False, True])
def test_damage_to_a_fact_that_was_renamed_names_where_its_version_is(machine, restart):
    """The version before is held under the former name: the finding says so, and it is had back from there."""
    project = five(machine.project())
    daemon = machine.start()
    until(lambda: len(daemon.call("memory.search", query="body", dir=project.dir)["hits"]) == 5, "all saved")
    text = (project.memory / "a.md").read_text()
    save(project.memory / "a.md", text.replace("description: What it says", "description: ''"))
    save(project.memory / "b.md", fact_text("b", body="gone"))
    daemon.call("daemon.flush")
    for name in "ab":
        (project.memory / f"{name}.md").rename(project.memory / f"{name}{name}.md")
        daemon.call("daemon.flush")
    if restart:
        daemon.stop()
        daemon = machine.start()
    told = {one["code"]: one for one in findings(daemon, project, "fact-blanked", "fact-shrunk")}
    assert {one["file"] for one in told.values()} == {"aa.md", "bb.md"}
    assert "as `a.md`" in told["fact-blanked"]["hint"]
    assert "as `b.md`" in told["fact-shrunk"]["hint"]
    contents = [
        daemon.call("history.show", saved=version["saved"])["text"]
        for version in daemon.call("history.list", dir=project.dir, file="a.md")["versions"]
    ]
    assert text in contents
    (project.memory / "aa.md").rename(project.memory / "a.md")
    [back] = findings(daemon, project, "fact-blanked")
    assert (back["file"], "as `a.md`" in back["hint"]) == ("a.md", False)
    daemon.stop()


def test_many_facts_at_once_are_a_mass_delete(shared, project):
    """An error that names them; when they are back it is over."""
    names = [f"n{number}.md" for number in range(12)]
    project.make({name: fact_text(name[:-3]) for name in names})
    shared.call("daemon.flush", rescan=True)
    until(lambda: len(shared.call("memory.search", query="Body", dir=project.dir)["hits"]) == 12, "all saved")
    for name in names[:6]:
        (project.memory / name).unlink()
    [told] = findings(shared, project, "mass-delete")
    assert told["severity"] == "error"
    for version in shared.call("history.list", dir=project.dir)["versions"]:
        if version["reason"] == "deleted":
            shared.call("history.restore", saved=version["saved"])
    assert findings(shared, project, "mass-delete", "entry-dangling", "fact-unindexed") == []


@pytest.mark.parametrize("restart", [False, True])
def test_a_directory_that_is_made_again_lacks_what_it_had(machine, restart):
    """Removed with all facts, and made again by somebody: a mass deletion, also over a restart; restored it is over."""
    project = machine.project()
    names = [f"n{number}.md" for number in range(8)]
    project.make({name: fact_text(name[:-3]) for name in names})
    daemon = machine.start()
    until(lambda: len(daemon.call("memory.search", query="Body", dir=project.dir)["hits"]) == 8, "all saved")
    shutil.rmtree(project.memory)
    daemon.call("daemon.flush")
    assert daemon.call("dirs.list")["total"] == 0
    if restart:
        daemon.kill()
        daemon = machine.start()
    listener = daemon.listen()
    project.make({"n0.md": fact_text("n0"), "new.md": fact_text("new")})
    [told] = findings(daemon, project, "mass-delete")
    assert "7 facts" in told["message"]
    listener.flush()
    assert "mass-delete" in listener.codes("appeared")
    for version in daemon.call("history.list", dir=project.dir)["versions"]:
        if version["file"] in names[1:]:
            daemon.call("history.restore", saved=version["saved"])
    assert findings(daemon, project, "mass-delete") == []
    daemon.stop()


def test_an_empty_directory_in_the_place_of_a_full_one_is_told(shared, project):
    """Removed and made again at once, with nothing in it."""
    project.make({f"n{number}.md": fact_text(f"n{number}") for number in range(6)})
    shared.call("daemon.flush", rescan=True)
    shutil.rmtree(project.memory)
    project.memory.mkdir()
    assert [one["code"] for one in findings(shared, project, "mass-delete")] == ["mass-delete"]


@pytest.mark.parametrize("restart", [False, True])
def test_entries_that_do_not_come_back_with_their_directory_are_lost(machine, restart):
    """All facts are there again, half of the entries are not; a repair puts them back where they were."""
    project = five(machine.project())
    before = (project.memory / "MEMORY.md").read_bytes()
    daemon = machine.start()
    until(lambda: len(daemon.call("memory.search", query="body", dir=project.dir)["hits"]) == 5, "all saved")
    aside = project.memory.with_name("aside")
    project.memory.rename(aside)
    daemon.call("daemon.flush")
    if restart:
        daemon.stop()
    save(aside / "MEMORY.md", "# Memory\n\n" + entry("a.md") + entry("d.md"))
    aside.rename(project.memory)
    if restart:
        daemon = machine.start()
    assert {one["target"] for one in findings(daemon, project, "entry-lost")} == {"b.md", "c.md", "e.md"}
    assert repair(daemon, project)["applied"]
    assert (project.memory / "MEMORY.md").read_bytes() == before
    daemon.stop()


def test_a_directory_that_was_away_is_no_loss(shared, project):
    """Moved away and back as it was: nothing is told."""
    five(project)
    shared.call("daemon.flush", rescan=True)
    aside = project.memory.with_name("aside")
    for _ in range(2):
        project.memory.rename(aside)
        shared.call("daemon.flush")
        aside.rename(project.memory)
    assert findings(shared, project) == []


def test_what_is_purged_of_a_directory_that_is_gone_is_not_missed(machine):
    """All of it, or all but few facts: nothing is told when it is made again, and no name is left in the state."""
    project = machine.project()
    names = [f"secret{number}name.md" for number in range(8)]
    project.make({name: fact_text(name[:-3], description=f"says {name}") for name in names})
    daemon = machine.start()
    until(lambda: len(daemon.call("memory.search", query="Body", dir=project.dir)["hits"]) == 8, "all saved")
    shutil.rmtree(project.memory)
    daemon.call("daemon.flush")
    for name in names[:2]:
        daemon.call("history.purge", dir=project.dir, file=name)
        with contextlib.closing(sqlite3.connect(machine.state / "state.db")) as database:
            rows = database.execute("select row from facts union all select row from indexes")
            assert not [row for (row,) in rows if name in row]
    daemon.kill()
    daemon = machine.start()
    project.memory.mkdir()
    [told] = findings(daemon, project, "mass-delete")
    assert "6 facts" in told["message"]
    shutil.rmtree(project.memory)
    daemon.call("daemon.flush")
    daemon.call("history.purge", dir=project.dir)
    with contextlib.closing(sqlite3.connect(machine.state / "state.db")) as database:
        for table in ("facts", "indexes", "pasts", "gone", "versions"):
            assert database.execute(f"select count(*) from {table}").fetchone() == (0,), table
    project.memory.mkdir()
    assert findings(daemon, project, "mass-delete") == []
    daemon.stop()


def test_what_is_no_longer_allowed_is_not_remembered(machine):
    """A directory that a person let in, removed, and let out again: made and let in once more it is a new one."""
    machine.start().stop()
    project = machine.project()
    place = machine.home / "elsewhere"
    place.mkdir()
    for number in range(6):
        (place / f"n{number}.md").write_text(fact_text(f"n{number}"))
    (place / "MEMORY.md").write_text("# Memory\n\n" + "".join(entry(f"n{number}.md") for number in range(6)))
    project.memory = place
    project.dir = str(place)
    daemon = machine.start()
    daemon.call("dirs.allow", dir=project.dir, allow=True)
    daemon.call("daemon.flush", rescan=True)
    assert daemon.call("dirs.list")["total"] == 1
    shutil.rmtree(place)
    daemon.call("daemon.flush", rescan=True)
    daemon.call("dirs.allow", dir=project.dir, allow=False)
    place.mkdir()
    daemon.call("dirs.allow", dir=project.dir, allow=True)
    assert findings(daemon, project, "mass-delete") == []
    daemon.stop()


def test_two_that_overwrite_each_other_are_told(shared, project):
    """A, B, A, B of one file."""
    project.make({"a.md": fact_text("a")})
    shared.call("daemon.flush", rescan=True)
    for word in ("one", "two", "one", "two", "one"):
        project.fact("a.md", body=word)
        shared.call("daemon.flush")
    assert [one["file"] for one in findings(shared, project, "contention")] == ["a.md"]


# -- repair, bounds


def test_a_missing_index_is_built_and_taken_back(shared, project):
    """All facts with valid front matter, one line each; undone, there is no index again."""
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b"), ".trash/c.md": fact_text("c")}, index=False)
    shared.call("daemon.flush", rescan=True)
    done = repair(shared, project)
    assert done["applied"]
    assert [
        line for line in (project.memory / "MEMORY.md").read_text().splitlines() if line.startswith("- ")
    ] == [
        "- [a](a.md) — What it says",
        "- [b](b.md) — What it says",
    ]
    shared.call("history.undo", dir=project.dir)
    assert not (project.memory / "MEMORY.md").exists()


def test_a_fact_is_touched_only_by_a_code_that_is_named(shared, project):
    """Without one only the index changes."""
    project.make(
        {"a.md": "---\nname: a\ndescription: **bold** words\nmetadata:\n  type: user\n---\n\nBody.\n"}
    )
    shared.call("daemon.flush", rescan=True)
    assert shared.call("memory.repair", dir=project.dir)["fixes"] == []
    done = repair(shared, project, codes=["front-matter-alias"])
    assert [fix["file"] for fix in done["fixes"]] == ["a.md"]
    assert findings(shared, project, "front-matter-alias") == []
    shared.call("history.undo", dir=project.dir)
    assert findings(shared, project, "front-matter-alias")


def test_it_waits_while_somebody_is_at_the_directory(shared, project):
    """Changed within two seconds, or a lock whose process lives: refused with a word when to come again."""
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    project.write_index("a.md")
    shared.call("daemon.flush")
    with pytest.raises(Refused, match="changed") as raised:
        shared.call("memory.repair", dir=project.dir, apply=True)
    assert 0 < raised.value.data["retryAfterMs"] <= 2_000
    repair(shared, project)
    project.write_index("a.md")
    lock = project.memory / "index.lock"
    lock.write_text(str(os.getpid()))
    shared.call("daemon.flush")

    def refused():
        with pytest.raises(Refused) as raised:
            shared.call("memory.repair", dir=project.dir, apply=True)
        return "lock" in str(raised.value)

    until(refused, "the word about the lock")
    lock.unlink()
    assert repair(shared, project)["applied"]


def test_a_writer_with_a_temporary_file_is_waited_for(shared, project):
    """It is about to put it in its place; one whose writer died is no hindrance."""
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    project.write_index("a.md")
    temp = project.memory / f"MEMORY.md.tmp.{os.getpid()}.0123456789ab"
    temp.write_text("half")
    shared.call("daemon.flush")

    def refused():
        with pytest.raises(Refused) as raised:
            shared.call("memory.repair", dir=project.dir, apply=True)
        return ".tmp." in str(raised.value)

    until(refused, "the word about the temporary file")
    temp.unlink()
    assert repair(shared, project)["applied"]


@pytest.mark.parametrize(
    "raw", ["- [\u4e2d](a.md)\n".encode("gbk"), "\ufeff- [A](a.md)\n".encode("utf-16le")]
)
def test_an_index_that_is_not_utf_8_is_not_repaired(shared, project, raw):
    """Said, not passed over; facts may still be mended by their codes."""
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    save(project.memory / "MEMORY.md", raw)
    shared.call("daemon.flush")
    with pytest.raises(Refused, match="UTF-8"):
        shared.call("memory.repair", dir=project.dir)
    assert shared.call("memory.repair", dir=project.dir, codes=["name-empty"])["fixes"] == []


def test_a_repair_keeps_nobody_waiting(machine):
    """An index in which everything stands three times is mended in parts, and others are answered meanwhile."""
    project = machine.project().make({f"n{number}.md": fact_text(f"n{number}") for number in range(150)})
    project.write_index(*[f"n{number}.md" for number in range(150)] * 3)
    daemon = machine.start()
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(
            daemon.call("memory.repair", dir=project.dir, codes=["entry-duplicate"])
        )
    )
    thread.start()
    client = daemon.client()
    asked = 0
    while thread.is_alive():
        client.call("ping", timeout_s=2.0)
        asked += 1
    thread.join()
    assert asked > 1
    [answer] = answers
    assert 0 < len(answer["fixes"]) <= 100
    assert any("too many" in one["reason"] for one in answer["skipped"])
    daemon.stop()


def test_a_huge_index_is_not_repaired(shared, project):
    """It is told, with its size."""
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    save(project.memory / "MEMORY.md", entry("a.md") + "prose\n" * 30_000)
    shared.call("daemon.flush")
    with pytest.raises(TooLarge, match="128 KiB"):
        shared.call("memory.repair", dir=project.dir)


def test_an_unreadable_index_is_not_repaired(shared, project):
    """Neither applied nor planned."""
    project.make({"a.md": fact_text("a")})
    save(project.memory / "MEMORY.md", b"\0\1\2 binary")
    shared.call("daemon.flush")
    with pytest.raises((Unreadable, Refused)):
        shared.call("memory.repair", dir=project.dir)
    assert (project.memory / "MEMORY.md").read_bytes() == b"\0\1\2 binary"


def test_a_code_that_nothing_mends_is_told(shared, project):
    """With the list of those that a repair knows."""
    project.make({"a.md": fact_text("a")})
    shared.call("daemon.flush")
    with pytest.raises(InvalidParams, match="entry-lost"):
        shared.call("memory.repair", dir=project.dir, codes=["mass-delete"])


def test_a_session_repairs_its_own_directory_only(shared, project):
    """And sees only its own versions."""
    five(project)
    other = shared.machine.project("elsewhere-repair")
    five(other)
    shared.call("daemon.flush", rescan=True)
    saved = shared.call("memory.forget", dir=other.dir, name="a")["saved"]
    client = shared.client(cwd=str(project.cwd), id="fixer")
    for method, params in {
        "memory.repair": {"dir": other.dir},
        "memory.forget": {"dir": other.dir, "name": "b"},
        "history.list": {"dir": other.dir},
        "history.show": {"saved": saved},
        "history.restore": {"saved": saved},
        "history.undo": {"dir": other.dir},
        "history.purge": {"dir": other.dir},
    }.items():
        with pytest.raises((Refused, NotFound)):
            client.call(method, params)
    assert shared.call("history.show", saved=saved)["text"]


# -- why


def test_why_a_fact_is_seen_or_not(shared, project):
    """Place by place; nothing of it without being asked for."""
    project.make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    project.write_index("a.md")
    shared.call("daemon.flush")
    assert "reasons" not in shared.call("memory.read", dir=project.dir, name="a")
    seen = shared.call("memory.read", dir=project.dir, name="a", why=True)
    assert seen["visible"] == {"index": True, "prompt": True, "recall": True, "page": True}
    unseen = shared.call("memory.read", dir=project.dir, name="b", why=True)
    assert unseen["visible"] == {"index": False, "prompt": False, "recall": True, "page": True}
    assert {reason["place"] for reason in unseen["reasons"]} == {"index", "prompt", "recall", "page"}
    assert json.dumps(unseen["reasons"])
