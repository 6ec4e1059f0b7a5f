"""What must hold after each flush, whatever the pens did; and at the end, restored and repaired."""

from __future__ import annotations

import collections
import contextlib
from typing import Any

from tests.transcripts.machine import sequence
from tests.transcripts.pen_ours import Ours
from tests.transcripts.pen_room import (
    BELOW,
    INDEX,
    NAMES,
    Disk,
    Room,
    digest,
    front,
    is_whole,
    revision_of,
    targets,
)
from tests.transcripts.pen_script import MOST_VERSIONS
from zcsyncd.errors import NotFound, ZcsyncdError

HISTORY = frozenset({"entry-lost", "fact-blanked", "fact-shrunk", "mass-delete", "contention"})


class Checks(Ours):
    """Holds the daemon against the disk and against what was acknowledged."""

    def flush(self, _room: Room | None = None) -> None:
        """Have everything told, and see whether all holds that has to."""
        self.say(None, "flush")
        for room in self.rooms:
            room.finish_halves()
            room.mend()
        self.listener.call("daemon.flush")
        self.hear()
        for room in self.rooms:
            self.check(room)

    def check(self, room: Room) -> None:
        disk = room.disk()
        self.check_view(room, disk)
        findings = self.findings(room)
        self.check_told(room, disk, findings)
        self.check_had(room, disk)
        self.check_owed(room, disk, findings)
        for file, content in disk.items():
            room.must_have(file, content)
        room.before, room.since = disk, []
        room.losses = {finding["key"] for finding in findings if finding["code"] in HISTORY}

    def findings(self, room: Room, **params: Any) -> list[dict[str, Any]]:
        with contextlib.suppress(NotFound):
            return self.call("audit.get", dir=room.dir, **params)["findings"]
        assert not room.memory.is_dir()
        return []

    def check_view(self, room: Room, disk: Disk) -> None:
        """What subscribers were told, and what the daemon lists, is what lies there; and nothing of ours lies about."""
        assert room.told == {file: digest(content) for file, content in disk.items()}
        if not room.memory.is_dir():
            return
        names = [path.name for path in room.memory.rglob("*")]
        assert not [name for name in names if ".tmp." in name or name.startswith("kept.")], names
        entered = targets(disk.get(INDEX))
        listed = self.call("memory.list", dir=room.dir)["facts"]
        rows = {
            row["file"]: (row["name"], row["description"], row["type"], row["revision"], row["indexed"])
            for row in listed
        }
        wanted = {}
        for file in disk.keys() - {INDEX}:
            said, revision = front(disk[file]), revision_of(room.memory / file)
            kind = said["metadata"]["type"]
            wanted[file] = (said["name"], said["description"] or None, kind, revision, file in entered)
        assert {file: (*row[:1], row[1] or None, *row[2:]) for file, row in rows.items()} == wanted
        index = self.call("memory.index", dir=room.dir)
        assert index["contentHash"] == (digest(disk[INDEX]) if INDEX in disk else None)
        assert index["text"].split() == disk.get(INDEX, b"").decode().split()

    def check_told(self, room: Room, disk: Disk, findings: list[dict[str, Any]]) -> None:
        """Nothing is missing without a word: neither an entry of a fact nor the fact of an entry."""
        codes = {finding["code"] for finding in findings}
        entered = targets(disk.get(INDEX))
        for file in disk.keys() - {INDEX, *entered}:
            said = [
                finding["code"]
                for finding in findings
                if file in (finding.get("file"), finding.get("target"))
            ]
            assert "index-missing" in codes or {"entry-lost", "fact-unindexed"} & set(said), (
                f"{file} is there without its entry, and nobody says so"
            )
        dangling = {finding["target"] for finding in findings if finding["code"] == "entry-dangling"}
        assert dangling == set(entered) - disk.keys()

    def check_had(self, room: Room, disk: Disk) -> None:
        """All that has to be had is there, or is a version, unless so many later ones are that it fell out by number;
        each version once, and its bytes are what it says."""
        versions = self.versions(room)
        count = collections.Counter(version["file"] for version in versions)
        saved = [(version["file"], version["contentHash"]) for version in versions]
        assert len(set(saved)) == len(saved), "two versions of one file are the same"
        for file, contents in room.had.items():
            for each, content in contents.items():
                is_had = disk.get(file) == content or (file, each) in saved
                assert is_had or count[file] >= MOST_VERSIONS, f"a content of {file} is lost: {content!r}"
        if versions and self.is_text(version := self.random.choice(versions)):
            self.content(version)

    def check_owed(self, room: Room, disk: Disk, findings: list[dict[str, Any]]) -> None:
        """What one act of another pen destroyed is told by its code until it is mended; an act of ours tells nothing."""
        said = {(finding["code"], finding.get("target") or finding.get("file") or "") for finding in findings}
        if len(room.since) == 1 and room.memory.is_dir():
            if room.since == ["ours"]:
                new = [f for f in findings if f["code"] in HISTORY and f["key"] not in room.losses]
                assert not new or INDEX not in room.before, f"our own act raised {new}"
            else:
                room.owed |= _damage(room.since[0], room.before, disk)
        for code, what in room.owed:
            if code == "entry-lost" and not disk.get(INDEX):
                continue  # `index-missing` says so of all entries
            assert (code, what) in said, f"{code} {what} is not told: {sorted(said)}"

    # -- the end

    def finish(self) -> None:
        """Restore what was lost, repair, and see to it that nothing is wrong any more, nor was any event lost."""
        self.say(None, "the end")
        self.flush()
        for room in self.rooms:
            if not room.memory.is_dir():
                self.write_anew(room, f"{NAMES[0]}.md")
            self.restore_lost(room)
        self.flush()
        for room in self.rooms:
            self.repair(room, patiently=True)
        self.flush()
        for room in self.rooms:
            allowed = {"contention", *(["name-duplicate"] if room.moved else [])}
            left = [one for one in self.findings(room, fresh=True) if one["code"] not in allowed]
            assert left == []
            disk = room.disk()
            assert room.entered <= disk.keys()
            assert room.entered <= set(targets(disk.get(INDEX)))
        self.check_journal()
        self.end(kill=False)

    def restore_lost(self, room: Room) -> None:
        """Bring back what went without us, what was damaged, and what an entry names that is not there."""
        findings = self.findings(room)
        named = {finding["target"] for finding in findings if finding["code"] == "entry-dangling"}
        broken = {
            finding["file"] for finding in findings if finding["code"] in ("fact-blanked", "fact-shrunk")
        }
        missing = (room.entered | named) - room.disk().keys()
        if any(finding["code"] == "mass-delete" for finding in findings):
            missing |= {f"{name}.md" for name in [*NAMES, *BELOW]} - room.disk().keys()
        for file in sorted(missing | broken):
            choice = [
                version
                for version in self.versions(room)
                if version["file"] == file
                and self.is_text(version)
                and (content := self.content(version)) is not None
                and is_whole(content)
                and (file not in broken or len(content) * 2 >= max(map(len, room.had[file].values())))
            ]
            if choice:
                self.restore_version(room, choice[0])
            elif file in named:
                if file.removesuffix(".md") in BELOW:  # our pen finds such a fact, and makes none
                    self.save_fact(room, file.removesuffix(".md"))
                self.write_anew(room, file)
        # What came to its present name without a description has no version that has one.
        for finding in self.findings(room):
            if finding["code"] in ("fact-blanked", "fact-shrunk", "description-missing"):
                self.write_anew(room, finding["file"])

    def write_anew(self, room: Room, file: str) -> None:
        """Write a fact that no version brings back as it should be."""
        self.say(room, f"write {file}")
        note = {**self.note(file), "body": "word " * 500}
        where = {"dir": room.dir} if room.memory.is_dir() else {"cwd": str(room.project.cwd)}
        assert not isinstance(self.ours(room, {file, INDEX}, "memory.write", **where, **note), ZcsyncdError)

    def check_journal(self) -> None:
        """Whoever asks for everything hears what was heard over all restarts, each event once and in order."""
        assert self.daemon is not None
        late = self.daemon.listen(since=self.begun)
        late.flush()
        numbers = [sequence(event["cursor"]) for event in self.events]
        assert numbers == sorted(set(numbers)), "an event came twice, or out of order"
        ours = [(event["cursor"], event["topic"], event["data"]) for event in self.events]
        assert [(event["cursor"], event["topic"], event["data"]) for event in late.heard] == ours


def _damage(what: str, before: Disk, after: Disk) -> dict[tuple[str, str], Any]:
    """Give what must be told when one act of another pen led from one disk to another."""
    owed: dict[tuple[str, str], Any] = {}
    if what.startswith("fact-"):
        code, file = what.split()
        return {(code, file): after[file]}
    gone = [file for file in before if file not in after and file != INDEX]
    if what == "delete" and len(gone) >= 6:  # a fifth of all facts that there may be
        owed["mass-delete", ""] = gone
    if after.get(INDEX) and what != "rename":
        lost = [target for target in dict.fromkeys(targets(before.get(INDEX))) if target in after]
        lost = [target for target in lost if target not in targets(after[INDEX])]
        if len(lost) >= 2:
            owed |= {("entry-lost", target): None for target in lost}
    return owed
