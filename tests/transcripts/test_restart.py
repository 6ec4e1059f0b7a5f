"""The daemon ends, in peace or by kill -9, and begins again: nothing is lost, nothing is said twice."""

from __future__ import annotations

import hashlib
import itertools
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.transcripts.machine import Listener, Machine, Running, entry, fact_text, save, sequence


def _hashes(memory: Path) -> dict[str, str]:
    return {
        path.relative_to(memory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in memory.rglob("*.md")
    }


def _follow(state: dict[str, str], events: list[dict[str, Any]]) -> dict[str, str]:
    """What a subscriber knows of each file who began with `state`."""
    for event in events:
        for change in event["data"].get("changes", ()):
            if change["kind"] == "deleted":
                state.pop(change["file"])
                continue
            if change["kind"] == "renamed":
                state.pop(change["from"])
            if change["kind"] == "added":
                assert change["file"] not in state, f"added twice: {change}"
            if change["kind"] in ("updated", "file"):
                assert state.get(change["file"]) != change["contentHash"], f"told twice: {change}"
            state[change["file"]] = change["contentHash"]
    return state


def _killed_amid_saves(daemon: Running, listener: Listener, saves: Any, told: int) -> None:
    """Save until `told` events have come, then kill the daemon while the saves go on."""
    for each in saves:
        each()
        while (event := listener.next_event(0.001)) is not None:
            listener.heard.append(event)
        if len(listener.heard) >= told:
            break
    for number, each in enumerate(saves):
        if number == 10:
            daemon.kill()
        if number >= 30:
            break
        each()
    assert daemon.ended


def test_killed_in_the_middle_of_saves_nothing_is_lost_or_repeated(machine: Machine) -> None:
    """After kill -9 amid saves, `since` the last cursor seen goes on exactly there, and ends in what is on the disk."""
    project = machine.project().make({f"f{number}.md": fact_text(f"f{number}") for number in range(8)})
    known = _hashes(project.memory)
    daemon = machine.start()
    listener = daemon.listen(project)
    whole: list[dict[str, Any]] = []

    def save_of(number: int) -> None:
        name = f"f{number % 8}.md"
        if number % 11 == 7:
            (project.memory / name).unlink(missing_ok=True)
        else:
            save(project.memory / name, fact_text(name, body=f"Save {number}."))
        if number % 5 == 0:
            project.write_index(*(f"f{each}.md" for each in range(number % 8)))

    saves = (lambda number=number: save_of(number) for number in itertools.count(1))
    since = listener.begun
    for _ in range(2):
        _killed_amid_saves(daemon, listener, saves, told=12)
        whole += listener.heard
        since = whole[-1]["cursor"]
        assert (machine.runtime / "bus.sock").exists(), "a killed daemon cannot have removed its socket"
        daemon = machine.start()
        listener = daemon.listen(project, since=since)
        assert listener.begun == since
    listener.flush()
    whole += listener.heard
    assert "bus/gap" not in [event["topic"] for event in whole]
    numbers = [sequence(event["cursor"]) for event in whole]
    assert numbers == sorted(set(numbers)), "repeated, or out of order"
    assert len({event["cursor"].partition(":")[0] for event in whole}) == 1, "the journal id changed"
    assert _follow(dict(known), whole) == _hashes(project.memory)

    # Whoever comes late and asks for everything hears the very same.
    late = daemon.listen(project, since=listener.begun.partition(":")[0] + ":0")
    late.flush()
    heard = [(event["cursor"], event["topic"], event["data"]) for event in late.heard]
    ours = [(event["cursor"], event["topic"], event["data"]) for event in whole]
    assert heard[-len(ours) :] == ours
    daemon.stop()


def test_what_changed_while_it_was_down_is_told_at_the_next_start(machine: Machine) -> None:
    """Changes made while nobody watched are told once, by the first scan, and `ready` means that they were told."""
    project = machine.project().make({name: fact_text(name) for name in ("a.md", "b.md", "c.md", "d.md")})
    gone = machine.project("gone").make({"g.md": fact_text("g")})
    daemon = machine.start()
    head = daemon.call("ping")["cursor"]
    daemon.stop()
    project.fact("a.md", body="Changed.")
    (project.memory / "b.md").unlink()
    os.rename(project.memory / "c.md", project.memory / "moved.md")
    save(project.memory / "MEMORY.md", entry("a.md") + entry("moved.md") + entry("d.md") + entry("d.md"))
    for path in sorted(gone.memory.parent.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    new = machine.project("new").make({"n.md": fact_text("n")})

    daemon = machine.start()
    listener = daemon.listen(since=head)
    listener.flush()
    assert listener.begun.partition(":")[0] == head.partition(":")[0], "another journal id after a clean stop"
    assert sorted((one["kind"], one["file"]) for one in listener.changes(directory=project.dir)) == [
        ("deleted", "b.md"),
        ("renamed", "moved.md"),
        ("updated", "MEMORY.md"),
        ("updated", "a.md"),
    ]
    topics = [(event["topic"], event["dir"]) for event in listener.heard]
    assert ("memory/dir-removed", gone.dir) in topics
    assert ("memory/dir-added", new.dir) in topics
    assert [one["kind"] for one in listener.changes(directory=new.dir)] == ["added", "added"]
    assert "entry-duplicate" in listener.codes("appeared"), (
        "what arose while it was down is told at the next start"
    )
    assert ("daemon/stopping", None) in topics
    assert ("daemon/started", None) in topics
    daemon.stop()

    quiet = machine.start()
    again = quiet.listen(since=listener.heard[-1]["cursor"])
    again.flush()
    assert not [event for event in again.heard if event["topic"].startswith("memory/")], "said twice"
    quiet.stop()


def test_a_new_state_adopts_what_it_finds_in_silence(machine: Machine) -> None:
    """The first scan of a new state tells no change and no finding, only counts; what comes after is news."""
    project = machine.project().make({"a.md": fact_text("a"), "b.md": fact_text("b")})
    save(project.memory / "MEMORY.md", entry("a.md") + entry("a.md") + entry("missing.md"))
    daemon = machine.start()
    journal = daemon.call("ping")["cursor"].partition(":")[0]
    listener = daemon.listen(project, since=f"{journal}:0")
    listener.flush()
    assert listener.changes() == []
    assert "memory/dir-added" not in listener.topics
    assert listener.codes("appeared") == []
    assert [data["counts"]["warning"] > 0 for data in listener.of("memory/audit")] in ([], [True])
    found = daemon.call("audit.get", dir=project.dir)
    assert {one["code"] for one in found["findings"]} == {
        "entry-duplicate",
        "entry-dangling",
        "fact-unindexed",
    }
    save(project.memory / "c.md", "no front matter\n")
    listener.flush()
    assert listener.kinds("c.md") == ["added"]
    assert listener.codes("appeared") == ["front-matter-missing"]
    daemon.stop()


def test_what_was_dismissed_and_learned_stays_so(machine: Machine) -> None:
    """Over a restart a dismissed finding is neither counted nor told, until that is taken back; and whose working
    directory a directory belongs to, learned from a session, is known."""
    project = machine.project().make({"a.md": fact_text("a")})
    save(project.memory / "MEMORY.md", entry("a.md") + entry("a.md"))
    daemon = machine.start()
    (finding,) = daemon.call("audit.get", dir=project.dir)["findings"]
    daemon.call("audit.dismiss", key=finding["key"])
    assert daemon.call("dirs.list")["dirs"][0]["cwds"] == []
    daemon.client(cwd=str(project.cwd))
    daemon.stop()
    daemon = machine.start()
    assert daemon.call("dirs.list")["dirs"][0]["cwds"] == [str(project.cwd)]
    (again,) = daemon.call("audit.get", dir=project.dir)["findings"]
    assert (again["key"], again["dismissed"], again["since"]) == (finding["key"], True, finding["since"])
    assert daemon.call("status")["counts"]["findings"]["warning"] == 0
    shown = machine.cli("audit", project.dir, "--fail-on", "warning")
    assert (shown.returncode, "entry-duplicate" in shown.stdout) == (0, False)
    daemon.call("audit.dismiss", key=finding["key"], undo=True)
    assert daemon.call("audit.get", dir=project.dir)["findings"][0]["dismissed"] is False
    daemon.stop()


def test_an_unclean_stop_and_another_boot_begin_a_new_journal(machine: Machine) -> None:
    """When the last commits may be lost, numbers that clients hold are never given to other events: a gap is told."""
    project = machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    seen = daemon.call("ping")["cursor"]
    daemon.kill()
    with closing(sqlite3.connect(machine.state / "state.db")) as database, database:
        database.execute("update meta set value = 'another boot' where key = 'boot_id'")
    project.fact("a.md", body="Changed while it was down.")
    daemon = machine.start()
    listener = daemon.listen(project, since=seen)
    assert listener.begun.partition(":")[0] != seen.partition(":")[0]
    listener.call("ping")
    assert listener.gather()[0]["data"] == {"reason": "journal-reset", "missed": None}
    everything = daemon.listen(project, since=listener.begun.partition(":")[0] + ":0")
    everything.flush()
    assert everything.kinds("a.md") == ["updated"], "the snapshots are still those of before"
    daemon.stop()


def test_a_broken_database_is_put_aside(machine: Machine) -> None:
    """A state file that is no database costs the history, not the daemon: it begins anew and keeps the broken one."""
    machine.project().make({"a.md": fact_text("a")})
    daemon = machine.start()
    daemon.stop()
    (machine.state / "state.db").write_bytes(b"This is no database. " * 1000)
    daemon = machine.start()
    assert daemon.call("dirs.list")["total"] == 1
    assert list(machine.state.glob("state.db.broken-*"))
    os.kill(daemon.pid, 15)
    assert daemon.process.wait(20) == 0
    daemon.ended = True
    assert "Traceback" not in daemon.said() + daemon.log()
