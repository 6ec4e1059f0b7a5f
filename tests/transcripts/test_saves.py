"""Files saved in every way, from the disk to a subscriber's hands."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.transcripts.machine import Project, Running, entry, fact_text, save

BEFORE = fact_text("the-fact", body="Before. " * 20)
AFTER = fact_text("the-fact", body="After!! " * 20)


def _synced(path: Path, raw: bytes, flags: int) -> None:
    descriptor = os.open(path, flags, 0o644)
    try:
        os.write(descriptor, raw)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def in_place(path: Path, text: str) -> None:
    _synced(path, text.encode(), os.O_WRONLY | os.O_TRUNC)


def append(path: Path, text: str) -> None:
    _synced(path, b"\nOne line more.\n", os.O_WRONLY | os.O_APPEND)


def memory_mapped(path: Path, text: str) -> None:
    raw = text.encode()
    with open(path, "r+b") as file:
        file.truncate(len(raw))
        with mmap.mmap(file.fileno(), len(raw)) as view:
            view[:] = raw
            view.flush()
        os.fsync(file.fileno())


def renamed_in_the_directory(path: Path, text: str) -> None:
    save(path, text)


def renamed_from_elsewhere(path: Path, text: str) -> None:
    elsewhere = path.parents[5] / f"elsewhere-{path.name}"
    _synced(elsewhere, text.encode(), os.O_WRONLY | os.O_CREAT)
    os.rename(elsewhere, path)


def vims_backup_dance(path: Path, text: str) -> None:
    backup = path.with_name(path.name + "~")
    os.rename(path, backup)
    _synced(path, text.encode(), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.unlink(backup)


def hard_link_swap(path: Path, text: str) -> None:
    fresh = path.with_name(".fresh")
    _synced(fresh, text.encode(), os.O_WRONLY | os.O_CREAT)
    os.unlink(path)
    os.link(fresh, path)
    os.unlink(fresh)


STYLES = [
    in_place,
    append,
    memory_mapped,
    renamed_in_the_directory,
    renamed_from_elsewhere,
    vims_backup_dance,
    hard_link_swap,
]


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.__name__)
def test_every_save_style_is_told_as_one_update(
    style: Callable[[Path, str], None], shared: Running, project: Project
) -> None:
    """However a file is saved, it is told once, as `updated`, under its own name, with the hash of its bytes: by the
    quiet times alone, and by a flush that skips them."""
    project.make({"the-fact.md": BEFORE, "other.md": fact_text("other")})
    listener = shared.listen(project)
    listener.forget()
    path = project.memory / "the-fact.md"
    style(path, AFTER)
    listener.until(lambda _: listener.changes(), "the save, without a flush")
    listener.flush()
    assert [(change["kind"], change["file"]) for change in listener.changes()] == [("updated", "the-fact.md")]
    assert listener.changes()[0]["contentHash"] == _sha256(path)
    style(path, BEFORE)
    listener.flush()
    assert [(change["kind"], change["file"]) for change in listener.changes()[1:]] == [
        ("updated", "the-fact.md")
    ]
    assert listener.changes()[1]["contentHash"] == _sha256(path)


def test_a_new_fact_is_added_and_a_removed_one_deleted(shared: Running, project: Project) -> None:
    """A fact that appears is `added` with what it says, one that goes is `deleted` under its name alone."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    project.fact("two.md", description="Says two", type="user")
    listener.flush()
    (change,) = listener.changes("two.md")
    assert (change["kind"], change["name"], change["description"], change["type"]) == (
        "added",
        "two",
        "Says two",
        "user",
    )
    size = (project.memory / "two.md").stat().st_size
    assert change["revision"].endswith(f":size:{size}")
    (project.memory / "two.md").unlink()
    listener.flush()
    (gone,) = listener.changes("two.md")[1:]
    assert gone.pop("formerHash") == listener.changes("two.md")[0]["contentHash"]
    assert gone == {"kind": "deleted", "file": "two.md"}


def test_a_renamed_fact_is_told_with_where_it_was(shared: Running, project: Project) -> None:
    """Both halves of a rename in one batch are one `renamed` with `from`, not a deletion and an addition."""
    project.make({"old.md": fact_text("old"), "kept.md": fact_text("kept", body="Other.")})
    listener = shared.listen(project)
    listener.forget()
    os.rename(project.memory / "old.md", project.memory / "new.md")
    listener.flush()
    (change,) = listener.changes()
    assert (change["kind"], change["file"], change["from"]) == ("renamed", "new.md", "old.md")


def test_a_rename_into_a_subdirectory_is_a_rename(shared: Running, project: Project) -> None:
    """A fact that moves into a folder of its directory keeps being one fact."""
    project.make({"old.md": fact_text("old")})
    (project.memory / "topics").mkdir()
    listener = shared.listen(project)
    listener.forget()
    os.rename(project.memory / "old.md", project.memory / "topics" / "new.md")
    listener.flush()
    assert [(c["kind"], c["file"], c.get("from")) for c in listener.changes()] == [
        ("renamed", "topics/new.md", "old.md")
    ]


def test_a_stamp_is_a_file_change(shared: Running, project: Project) -> None:
    """Bytes that say the same (ZCode's own stamp) are `file`; a changed description is `updated`."""
    project.make({"one.md": "---\nname: one\ndescription: Says one\nmetadata:\n  type: user\n---\n\nBody.\n"})
    listener = shared.listen(project)
    listener.forget()
    stamped = (
        "---\nname: one\ndescription: Says one\nmetadata:\n  node_type: memory\n  type: user\n"
        "  originSessionId: 0198f0aa-0000\n---\n\nBody.\n"
    )
    save(project.memory / "one.md", stamped)
    listener.flush()
    assert listener.kinds("one.md") == ["file"]
    save(project.memory / "one.md", stamped.replace("Says one", "Says more"))
    listener.flush()
    assert listener.kinds("one.md") == ["file", "updated"]


def test_a_touch_is_told_to_nobody(shared: Running, project: Project) -> None:
    """Equal bytes are no change, whatever the times and modes say."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    path = project.memory / "one.md"
    os.utime(path, (1_700_000_000, 1_700_000_000))
    os.chmod(path, 0o600)
    save(path, path.read_text())
    listener.flush(rescan=True)
    assert listener.changes() == []


def test_same_size_and_same_mtime_but_other_bytes_are_told(shared: Running, project: Project) -> None:
    """A file that was changed without a trace in its size and time is read all the same."""
    project.make({"one.md": BEFORE.replace("Before.", "Banana.")})
    path = project.memory / "one.md"
    listener = shared.listen(project)
    listener.forget()
    was = path.stat()
    raw = path.read_bytes().replace(b"Banana.", b"Cherry.")
    with open(path, "r+b") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns)
    listener.flush()
    assert listener.kinds("one.md") == ["updated"]
    assert listener.changes("one.md")[0]["contentHash"] == _sha256(path)


def test_a_batch_is_told_change_index_audit(shared: Running, project: Project) -> None:
    """Of one batch come first what changed, then what the index says now, then what the audit makes of it."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    save(project.memory / "MEMORY.md", entry("one.md") + entry("one.md"))
    listener.flush()
    assert listener.topics == ["memory/changed", "memory/index", "memory/audit"]
    assert listener.codes("appeared") == ["entry-duplicate"]
    assert listener.of("memory/audit")[0]["counts"] == {"error": 0, "warning": 1, "info": 0}
    project.write_index("one.md")
    listener.flush()
    assert listener.topics == ["memory/changed", "memory/index", "memory/audit"] * 2
    assert listener.codes("cleared") == ["entry-duplicate"]


def test_the_index_event_tells_entries_and_caps(shared: Running, project: Project) -> None:
    """`memory/index` tells which entries came, went and say something else, and how full the index is."""
    project.make({f"{name}.md": fact_text(name) for name in "abc"})
    save(project.memory / "MEMORY.md", entry("a.md") + entry("b.md"))
    listener = shared.listen(project, topics=["memory/index"])
    listener.forget()
    save(project.memory / "MEMORY.md", entry("a.md", hook="Says more") + entry("c.md", "C"))
    listener.flush()
    (data,) = listener.of("memory/index")
    told = [[one["target"] for one in data[kind]] for kind in ("added", "removed", "changed")]
    assert told == [["c.md"], ["b.md"], ["a.md"]]
    assert data["added"][0] == {"target": "c.md", "title": "C", "hook": "What it says", "line": 2}
    assert data["changed"][0]["hook"] == "Says more"
    caps = data["caps"]
    assert (caps["lines"], caps["linesCap"], caps["unitsCap"], caps["beyond"]) == (2, 200, 25_000, [])
    assert caps["units"] == len((entry("a.md", hook="Says more") + entry("c.md", "C")).strip())
    assert data["contentHash"] == _sha256(project.memory / "MEMORY.md")


def test_what_lies_past_the_cap_is_named(shared: Running, project: Project) -> None:
    """An index of more than 200 lines says which targets the model never sees."""
    project.make({})
    listener = shared.listen(project)
    listener.forget()
    save(project.memory / "MEMORY.md", "".join(entry(f"f{number}.md") for number in range(203)))
    listener.flush()
    caps = listener.of("memory/index")[-1]["caps"]
    assert (caps["lines"], caps["beyond"]) == (203, ["f200.md", "f201.md", "f202.md"])
    assert "index-over-lines" in listener.codes("appeared")


def test_an_index_from_a_stale_snapshot_loses_facts_until_it_is_repaired(
    shared: Running, project: Project
) -> None:
    """Entries that an old copy overwrote are told at once, and nothing else about their facts; cleared when back."""
    project.make({f"{name}.md": fact_text(name) for name in "abc"})
    stale = (project.memory / "MEMORY.md").read_text()
    whole = stale + entry("d.md") + entry("e.md")
    project.fact("d.md")
    project.fact("e.md")
    save(project.memory / "MEMORY.md", whole)
    listener = shared.listen(project)
    listener.forget()
    save(project.memory / "MEMORY.md", stale)
    listener.flush()
    (index,) = listener.of("memory/index")
    assert [one["target"] for one in index["removed"]] == ["d.md", "e.md"]
    assert listener.codes("appeared") == ["entry-lost"] * 2
    told = shared.call("audit.get", dir=project.dir)["findings"]
    assert {(one["target"], one["code"], one["pending"]) for one in told} == {
        ("d.md", "entry-lost", False),
        ("e.md", "entry-lost", False),
    }
    save(project.memory / "MEMORY.md", whole)
    listener.flush()
    assert listener.codes("cleared") == ["entry-lost"] * 2
    assert listener.of("memory/audit")[-1]["counts"] == {"error": 0, "warning": 0, "info": 0}
    assert shared.call("audit.get", dir=project.dir) == {"total": 0, "findings": []}


def test_a_fact_whose_entry_follows_in_time_is_never_accused(shared: Running, project: Project) -> None:
    """What takes two writes waits: a new fact and its entry a moment later give no finding at all."""
    project.make({"a.md": fact_text("a")})
    listener = shared.listen(project)
    listener.forget()
    project.fact("b.md")
    listener.flush()
    project.write_index("a.md", "b.md")
    listener.flush()
    assert listener.codes("appeared") == []
    assert shared.call("audit.get", dir=project.dir, severity="info")["total"] == 0


def test_an_index_that_is_empty_for_a_moment_is_never_told_so(shared: Running, project: Project) -> None:
    """`: > MEMORY.md` and the text half a second later is one change, to the text."""
    project.make({"one.md": fact_text("one"), "two.md": fact_text("two")})
    listener = shared.listen(project)
    listener.forget()
    path = project.memory / "MEMORY.md"
    in_place(path, "")
    # A neighbour's change is told meanwhile: that is how we know that the emptiness was seen, and not believed.
    project.fact("one.md", body="Changed.")
    listener.until(lambda event: listener.changes("one.md"), "the neighbour")
    assert listener.changes("MEMORY.md") == []
    in_place(path, entry("one.md"))
    listener.flush()
    assert listener.kinds("MEMORY.md") == ["updated"]
    assert [one["target"] for one in listener.of("memory/index")[0]["removed"]] == ["two.md"]
    assert "index-missing" not in listener.codes("appeared")


def test_an_index_that_stays_empty_is_told_a_second_later(shared: Running, project: Project) -> None:
    """An index that is still empty after a second is empty; a flush waits for that second."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    in_place(project.memory / "MEMORY.md", "")
    listener.flush()
    assert listener.kinds("MEMORY.md") == ["updated"]
    (index,) = listener.of("memory/index")
    assert [one["target"] for one in index["removed"]] == ["one.md"]
    assert index["caps"]["lines"] == 0


def test_a_deleted_index_is_told_as_gone(shared: Running, project: Project) -> None:
    """Without an index the event carries null, and `memory.index` an empty text."""
    project.make({"one.md": fact_text("one")})
    listener = shared.listen(project)
    listener.forget()
    (project.memory / "MEMORY.md").unlink()
    listener.flush()
    (gone,) = listener.changes()
    assert gone.pop("formerHash")
    assert gone == {"kind": "deleted", "file": "MEMORY.md"}
    assert listener.of("memory/index")[0]["contentHash"] is None
    answer = shared.call("memory.index", dir=project.dir)
    assert (answer["text"], answer["revision"], answer["contentHash"]) == ("", None, None)
    listener.until(lambda _: "index-missing" in listener.codes("appeared"), "index-missing after the grace")


def test_a_fact_and_its_entry_saved_together_are_both_seen(shared: Running, project: Project) -> None:
    """Two files saved one right after the other, many times: each state of the disk's end is told."""
    project.make({"a.md": fact_text("a")})
    listener = shared.listen(project)
    listener.forget()
    names = ["a.md"]
    for number in range(40):
        names.append(f"n{number}.md")
        project.fact(names[-1])
        project.write_index(*names)
    listener.flush()
    assert {change["file"] for change in listener.changes() if change["kind"] == "added"} == set(names[1:])
    assert len(listener.kinds()) == len(listener.kinds("MEMORY.md")) + 40
    added = [one["target"] for data in listener.of("memory/index") for one in data["added"]]
    assert added == names[1:]


def test_every_event_of_a_burst_comes_in_order_and_once(shared: Running, project: Project) -> None:
    """500 files saved as fast as the disk takes them are all announced, each once, the cursors strictly rising."""
    project.make({})
    listener = shared.listen(project)
    listener.forget()
    for number in range(500):
        (project.memory / f"f{number}.md").write_text(fact_text(f"f{number}", body="x"))
    listener.flush()
    assert sorted(change["file"] for change in listener.changes()) == sorted(f"f{n}.md" for n in range(500))


def test_huge_batches_become_several_events(shared: Running, project: Project) -> None:
    """At most 500 changes come in one event, `more` on all but the last."""
    aside = project.cwd / "aside"
    aside.mkdir(parents=True)
    for number in range(1100):
        (aside / f"f{number}.md").write_text(f"{number}\n")
    project.memory.parent.mkdir(parents=True)
    listener = shared.listen(project)
    listener.forget()
    os.rename(aside, project.memory)
    listener.flush()
    told = listener.of("memory/changed")
    assert [(len(data["changes"]), data.get("more", False)) for data in told] == [
        (500, True),
        (500, True),
        (100, False),
    ]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
